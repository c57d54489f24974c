/* slot: the array that live jobs lie in, addressed by four-byte numbers.
 *
 * The array is made of chunks, so it grows without copying, never holds twice what it needs, and a
 * pointer to a job stays good until that job is removed. */
#ifndef LAZARET_STORE_SLOT_H
#define LAZARET_STORE_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/job.h"

#define SLOT_NONE UINT32_MAX /* no slot */

/* The hash tables that a slot hangs in: one link for each. */
enum slot_index {
    SLOT_BY_SEQ,
    SLOT_BY_ID,
    SLOT_BY_IDEMPOTENCY,
    SLOT_BY_RETRY_KEY,
    SLOT_INDEX_COUNT
};

/* struct slot: a job and where it hangs. */
struct slot {
    struct job job;                   /* seq 0: the slot is free */
    uint32_t chain[SLOT_INDEX_COUNT]; /* the next in its bucket of each table */
    uint32_t previous, next; /* pending: neighbours in the ready list.  Free: `next` free slot */
    uint32_t position;       /* scheduled or running: its place in the heap */
    uint32_t lane;           /* number of its lane, in every state */
};

#define SLOT_CHUNK_BITS 10
#define SLOT_CHUNK (1u << SLOT_CHUNK_BITS)

/* struct slots: `{0}` is not valid; see slots_init. */
struct slots {
    struct slot **chunks;
    uint32_t chunk_count; /* chunks that are allocated */
    uint32_t chunk_cap;   /* pointers that `chunks` has room for */
    uint32_t used;        /* slots that were ever taken: the rest of the last chunk is untouched */
    uint32_t free;        /* the first free one; SLOT_NONE: none */
};

void slots_init(struct slots *slots);
void slots_release(struct slots *slots); /* frees everything; empty again */

/* slots_take gives a slot whose content is undefined, or SLOT_NONE when memory is exhausted. */
uint32_t slots_take(struct slots *slots);
void slots_give(struct slots *slots, uint32_t number); /* takes it back */

size_t slots_memory(const struct slots *slots);

static inline struct slot *slots_at(const struct slots *slots, uint32_t number)
{
    return &slots->chunks[number >> SLOT_CHUNK_BITS][number & (SLOT_CHUNK - 1)];
}

#endif
