/* batch: commands that were submitted together, and what the model knows about each. */
#ifndef LAZARET_SIM_BATCH_H
#define LAZARET_SIM_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "engine/engine.h"

#define BATCH_OPS_MAX 8
#define OP_ITEMS_MAX 8

/* struct op: one command. */
struct op {
    uint64_t number;         /* its actor ends in "#number" */
    struct command *command; /* in the batch's arena */
    bool answered;
    bool certain;    /* a push that nothing can refuse: it shows whether the batch happened */
    uint32_t events; /* made by it, so far */
    bool item_done[OP_ITEMS_MAX]; /* an event showed the effect of that item */
};

struct batch {
    struct arena arena;
    struct op ops[BATCH_OPS_MAX];
    size_t count;
    struct batch *next; /* in a list of batches in doubt */
};

struct batch *batch_new(void);
void batch_free(struct batch *batch);                      /* and those that follow it */
struct op *batch_op(struct batch *batch, uint64_t number); /* NULL: not of this batch */

/* op_number reads the number at the end of an actor; false for an actor without one. */
bool op_number(struct slice actor, uint64_t *out);

#endif
