/* heap: a binary min-heap in an array.
 *
 * Invariant: entries[(i - 1) / 2].key <= entries[i].key, and moved() was last told i for the handle
 * at i.  Every store into `entries` goes through place(), which tells. */
#include "base/heap.h"

#include "base/mem.h"
#include "base/status.h"

#define HEAP_CAP_MIN 64

void heap_init(struct heap *heap, void (*moved)(void *, uint32_t, uint32_t), void *owner)
{
    *heap = (struct heap){.moved = moved, .owner = owner};
}

void heap_release(struct heap *heap)
{
    mem_free(heap->entries);
    heap_init(heap, heap->moved, heap->owner);
}

void heap_clear(struct heap *heap)
{
    heap->count = 0;
}

static void place(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    heap->entries[position] = entry;
    heap->moved(heap->owner, entry.handle, position);
}

/* sift_up fills the hole at `position` with `entry`, or with its ancestors that are larger. */
static void sift_up(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    while (position > 0) {
        uint32_t parent = (position - 1) / 2;
        if (heap->entries[parent].key <= entry.key)
            break;
        place(heap, position, heap->entries[parent]);
        position = parent;
    }
    place(heap, position, entry);
}

/* sift_down fills the hole at `position` with `entry`, or with its descendants that are smaller. */
static void sift_down(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    while (position < heap->count / 2) {
        uint32_t child = 2 * position + 1;
        if (child + 1 < heap->count && heap->entries[child + 1].key < heap->entries[child].key)
            child++;
        if (entry.key <= heap->entries[child].key)
            break;
        place(heap, position, heap->entries[child]);
        position = child;
    }
    place(heap, position, entry);
}

static bool grow(struct heap *heap)
{
    uint32_t most = HEAP_NONE - 1;
    if (heap->cap == most)
        return false;
    uint32_t cap = heap->cap > most / 2 ? most : heap->cap * 2;
    if (cap < HEAP_CAP_MIN)
        cap = HEAP_CAP_MIN;
    struct heap_entry *entries = mem_realloc(heap->entries, cap * sizeof(*entries));
    if (!entries)
        return false;
    heap->entries = entries;
    heap->cap = cap;
    return true;
}

bool heap_reserve(struct heap *heap, uint32_t count)
{
    while (heap->cap < count)
        if (!grow(heap))
            return false;
    return true;
}

bool heap_add(struct heap *heap, int64_t key, uint32_t handle)
{
    if (heap->count == heap->cap && !grow(heap))
        return false;
    sift_up(heap, heap->count++, (struct heap_entry){key, handle});
    return true;
}

/* settle puts `entry` where it belongs, from the hole at `position`. */
static void settle(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    if (position > 0 && entry.key < heap->entries[(position - 1) / 2].key)
        sift_up(heap, position, entry);
    else
        sift_down(heap, position, entry);
}

void heap_remove(struct heap *heap, uint32_t position)
{
    BUG_ON(position >= heap->count);
    uint32_t handle = heap->entries[position].handle;
    struct heap_entry last = heap->entries[--heap->count];
    if (position < heap->count)
        settle(heap, position, last);
    heap->moved(heap->owner, handle, HEAP_NONE);
}

void heap_update(struct heap *heap, uint32_t position, int64_t key)
{
    BUG_ON(position >= heap->count);
    settle(heap, position, (struct heap_entry){key, heap->entries[position].handle});
}

const struct heap_entry *heap_min(const struct heap *heap)
{
    return heap->count ? &heap->entries[0] : NULL;
}
