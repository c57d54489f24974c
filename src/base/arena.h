/* arena: memory that is freed all at once: one for each batch or request. */
#ifndef LAZARET_BASE_ARENA_H
#define LAZARET_BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct arena_block;

/* struct arena: `{0}` is a valid empty arena. */
struct arena {
    struct arena_block *blocks; /* the newest first */
    size_t used;                /* bytes handed out, for limits and tests */
};

void arena_release(struct arena *arena); /* frees everything; the arena is empty again */
void arena_reset(struct arena *arena);   /* empties, keeps one block for what comes next */

/* arena_alloc returns zeroed memory aligned for any type, or NULL when memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_array(struct arena *arena, size_t count, size_t size);

/* arena_dup copies a slice into the arena, with a NUL after it.  `out->ptr` is NULL only when
 * memory is exhausted (an empty slice gets a pointer too). */
struct slice arena_dup(struct arena *arena, struct slice slice);

/* arena_printf formats into the arena; `ptr` is NULL when memory is exhausted. */
struct slice arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
