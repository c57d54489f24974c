/* batch: see batch.h. */
#include "sim/batch.h"

#include <stdlib.h>

struct batch *batch_new(void)
{
    struct batch *batch = calloc(1, sizeof(*batch));

    if (!batch)
        abort();
    return batch;
}

void batch_free(struct batch *batch)
{
    while (batch) {
        struct batch *next = batch->next;

        arena_release(&batch->arena);
        free(batch);
        batch = next;
    }
}

struct op *batch_op(struct batch *batch, uint64_t number)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->ops[i].number == number)
            return &batch->ops[i];
    return NULL;
}

bool op_number(struct slice actor, uint64_t *out)
{
    size_t at = actor.len;

    while (at > 0 && actor.ptr[at - 1] != '#')
        at--;
    if (at == 0 || at == actor.len)
        return false;
    *out = 0;
    for (; at < actor.len; at++)
        *out = *out * 10 + (uint64_t)(actor.ptr[at] - '0');
    return true;
}
