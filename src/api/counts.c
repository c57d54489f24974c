/* counts: adding up the store's counters. */
#include "api/counts.h"

/* add counts one of the store's rows; false when memory is exhausted. */
static bool add(struct counts *counts, const struct letter_count *row)
{
    counts->total += row->count;
    counts->by_state[row->state] += row->count;
    bool unrecovered = row->state == LETTER_DEAD || row->state == LETTER_RECOVERING;
    if (!unrecovered || row->count == 0)
        return true;
    counts->unrecovered += row->count;
    if (row->recoverable && row->state == LETTER_DEAD)
        counts->recoverable += row->count;
    return tally_add(&counts->by_reason, row->reason, row->count) &&
           tally_add(&counts->by_source, row->source, row->count) &&
           tally_add(&counts->by_queue, row->queue, row->count);
}

enum status counts_read(struct store *store, struct arena *arena, struct counts *out,
                        struct err *err)
{
    struct letter_count *rows;
    size_t count;
    *out = (struct counts){
        .by_reason = {.arena = arena}, .by_source = {.arena = arena}, .by_queue = {.arena = arena}};
    enum status status = store->letter_counts(store, arena, &rows, &count, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        if (!add(out, &rows[i]))
            return err_no_memory(err);
    }
    return store->letter_bounds(store, &out->oldest, &out->newest, err);
}
