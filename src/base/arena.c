/* arena: memory handed out from the front of a few large blocks.
 *
 * The newest block is the one that is handed out from; blocks double from ARENA_BLOCK_MIN up to
 * ARENA_BLOCK_MAX.  What is too large to share a block gets one of its own, put behind the newest,
 * so that the room left in the newest is not lost.  arena_reset keeps the largest shareable block.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define ARENA_BLOCK_MIN ((size_t)4096)
#define ARENA_BLOCK_MAX ((size_t)256 * 1024)
#define ARENA_ALIGN _Alignof(max_align_t)

struct arena_block {
    struct arena_block *next; /* the one before it in time */
    size_t cap;               /* bytes in `data` */
    size_t used;              /* bytes of them handed out, a multiple of ARENA_ALIGN */
    _Alignas(max_align_t) unsigned char data[];
};

static void free_blocks(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;
        mem_free(block);
        block = next;
    }
}

void arena_release(struct arena *arena)
{
    free_blocks(arena->blocks);
    *arena = (struct arena){0};
}

void arena_reset(struct arena *arena)
{
    struct arena_block **keep = NULL;
    for (struct arena_block **at = &arena->blocks; *at; at = &(*at)->next)
        if ((*at)->cap <= ARENA_BLOCK_MAX && (!keep || (*at)->cap > (*keep)->cap))
            keep = at;

    struct arena_block *kept = NULL;
    if (keep) {
        kept = *keep;
        *keep = kept->next;
        kept->next = NULL;
        kept->used = 0;
    }
    free_blocks(arena->blocks);
    *arena = (struct arena){.blocks = kept};
}

/* block_new makes a block of `cap` bytes behind `*at`'s place in the list. */
static struct arena_block *block_new(struct arena_block **at, size_t cap)
{
    struct arena_block *block = mem_alloc(sizeof(*block) + cap);
    if (block) {
        *block = (struct arena_block){.next = *at, .cap = cap};
        *at = block;
    }
    return block;
}

/* block_for finds or makes the block that the next `size` bytes come from. */
static struct arena_block *block_for(struct arena *arena, size_t size)
{
    struct arena_block *newest = arena->blocks;
    if (newest && size <= newest->cap - newest->used)
        return newest;
    if (newest && size > ARENA_BLOCK_MAX / 4)
        return block_new(&newest->next, size);

    size_t cap = newest ? newest->cap * 2 : ARENA_BLOCK_MIN;
    if (cap > ARENA_BLOCK_MAX)
        cap = ARENA_BLOCK_MAX;
    if (cap < size)
        cap = size;
    return block_new(&arena->blocks, cap);
}

/* take hands out `size` bytes as they are. */
static void *take(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t padded = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_block *block = block_for(arena, padded);
    if (!block)
        return NULL;
    void *ptr = block->data + block->used;
    block->used += padded;
    arena->used += size;
    return ptr;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    void *ptr = take(arena, size ? size : 1);
    return ptr ? memset(ptr, 0, size) : NULL;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(count, size, &total) ? NULL : arena_alloc(arena, total);
}

struct slice arena_dup(struct arena *arena, struct slice slice)
{
    char *copy = slice.len < SIZE_MAX ? take(arena, slice.len + 1) : NULL;
    if (!copy)
        return (struct slice){0};
    if (slice.len)
        memcpy(copy, slice.ptr, slice.len);
    copy[slice.len] = '\0';
    return (struct slice){copy, slice.len};
}

struct slice arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);

    char *text = len < 0 ? NULL : take(arena, (size_t)len + 1);
    if (!text)
        return (struct slice){0};
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return (struct slice){text, (size_t)len};
}
