/* heap: a binary min-heap of (key, handle) pairs whose positions the owner keeps, so that an
 * entry can be moved or removed in O(log n) without a search.
 *
 * A handle is an index into the owner's own array.  Whenever an entry moves, the heap calls
 * `moved(owner, handle, position)`; the owner stores the position beside its object. */
#ifndef LAZARET_BASE_HEAP_H
#define LAZARET_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_NONE UINT32_MAX /* the position of what is not in the heap */

struct heap_entry {
    int64_t key;
    uint32_t handle;
};

struct heap {
    struct heap_entry *entries;
    uint32_t count;
    uint32_t cap;
    void (*moved)(void *owner, uint32_t handle, uint32_t position);
    void *owner;
};

void heap_init(struct heap *heap, void (*moved)(void *, uint32_t, uint32_t), void *owner);
void heap_release(struct heap *heap);
void heap_clear(struct heap *heap); /* empties, keeps the memory; moved() is not told */

/* heap_reserve makes room for `count` entries in all: adding up to that many cannot fail.  False
 * when memory is exhausted. */
bool heap_reserve(struct heap *heap, uint32_t count);

/* heap_add returns false when memory is exhausted, with the heap unchanged. */
bool heap_add(struct heap *heap, int64_t key, uint32_t handle);
void heap_remove(struct heap *heap, uint32_t position); /* moved() is told HEAP_NONE */
void heap_update(struct heap *heap, uint32_t position, int64_t key);

/* heap_min borrows the entry with the smallest key, or is NULL when the heap is empty. */
const struct heap_entry *heap_min(const struct heap *heap);

#endif
