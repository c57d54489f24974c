/* slot: chunks of slots, and a list of the free ones through their `next`. */
#include "store/slot.h"

#include "base/mem.h"

void slots_init(struct slots *slots)
{
    *slots = (struct slots){.free = SLOT_NONE};
}

void slots_release(struct slots *slots)
{
    for (uint32_t i = 0; i < slots->chunk_count; i++)
        mem_free(slots->chunks[i]);
    mem_free(slots->chunks);
    slots_init(slots);
}

static bool chunk_add(struct slots *slots)
{
    if (slots->chunk_count == SLOT_NONE >> SLOT_CHUNK_BITS)
        return false;
    if (slots->chunk_count == slots->chunk_cap) {
        uint32_t cap = slots->chunk_cap ? slots->chunk_cap * 2 : 64;
        struct slot **chunks = mem_realloc(slots->chunks, cap * sizeof(void *));
        if (!chunks)
            return false;
        slots->chunks = chunks;
        slots->chunk_cap = cap;
    }
    struct slot *chunk = mem_alloc(SLOT_CHUNK * sizeof(*chunk));
    if (!chunk)
        return false;
    slots->chunks[slots->chunk_count++] = chunk;
    return true;
}

uint32_t slots_take(struct slots *slots)
{
    uint32_t number = slots->free;
    if (number != SLOT_NONE) {
        slots->free = slots_at(slots, number)->next;
        return number;
    }
    if (slots->used == slots->chunk_count << SLOT_CHUNK_BITS && !chunk_add(slots))
        return SLOT_NONE;
    return slots->used++;
}

void slots_give(struct slots *slots, uint32_t number)
{
    struct slot *slot = slots_at(slots, number);
    slot->job.seq = 0;
    slot->next = slots->free;
    slots->free = number;
}

size_t slots_memory(const struct slots *slots)
{
    return slots->chunk_count * (size_t)SLOT_CHUNK * sizeof(struct slot) +
           slots->chunk_cap * sizeof(void *);
}
