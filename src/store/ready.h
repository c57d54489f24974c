/* ready: the pending jobs, in the order in which workers get them.
 *
 * A lane is a queue and a set of required capabilities; it has a list for each priority, ordered by
 * (due_at, seq).  A worker looks only at the lanes that it can serve, so it never steps over jobs
 * that it cannot take.  Jobs that are dispatched (JOB_HAS_HINTS) or claimed (JOB_CLAIMED) are in
 * lanes of their own, at which no worker looks: somebody matches the first with workers, and the
 * others are leased by their names. */
#ifndef LAZARET_STORE_READY_H
#define LAZARET_STORE_READY_H

#include "store/names.h"
#include "store/slot.h"
#include "store/store.h"
#include "store/table.h"

#define READY_PRIORITIES 10

/* struct ready_list: from `head` to `sorted` in order; what follows was added since the last look.
 */
struct ready_list {
    uint32_t head, tail;
    uint32_t sorted; /* the last slot of the part that is in order; SLOT_NONE: no such part */
};

enum lane_kind { LANE_COMMON, LANE_HINTED, LANE_CLAIMED };

struct lane {
    uint32_t queue, capabilities;
    enum lane_kind kind;
    uint32_t link;                  /* of the table by queue, capabilities and kind */
    uint32_t next_of_queue;         /* another lane of the same queue */
    uint32_t count;                 /* jobs in all its lists */
    uint32_t live[JOB_RUNNING + 1]; /* live jobs by state, in its lists or not.  Kept by live.c */
    uint64_t stamp;                 /* of the last look that took it, so that it is taken once */
    struct ready_list lists[READY_PRIORITIES];
};

struct ready {
    const struct slots *slots;
    struct names *names;
    struct lane *lanes;
    uint32_t lane_count, lane_cap;
    uint32_t hinted_count; /* jobs in lanes whose jobs are dispatched */
    uint64_t stamp;        /* of the look in progress */
    struct table by_key;
    uint32_t *allowed; /* room for every lane: those of the look in progress */
    uint32_t *heads;   /* room for every lane: the heads that are merged */
};

void ready_init(struct ready *ready, const struct slots *slots, struct names *names);
void ready_release(struct ready *ready); /* frees everything; empty again */

/* ready_lane finds or makes the lane of a job; SLOT_NONE when memory is exhausted. */
uint32_t ready_lane(struct ready *ready, uint32_t queue, uint32_t capabilities,
                    enum lane_kind kind);

/* ready_add and ready_remove put a slot into the list of its lane and priority, and take it out. */
void ready_add(struct ready *ready, uint32_t number);
void ready_remove(struct ready *ready, uint32_t number);

/* ready_disorder says that due times changed: every list is sorted anew at the next look. */
void ready_disorder(struct ready *ready);

/* ready_look copies up to `max` jobs that `query` allows, the first to run first. */
size_t ready_look(struct ready *ready, const struct ready_query *query, struct job *out,
                  size_t max);

/* ready_look_hinted copies up to `max` jobs to be dispatched, of the lanes that `query` wants, in
 * the same order. */
size_t ready_look_hinted(struct ready *ready, const struct hinted_query *query, struct job *out,
                         size_t max);

/* ready_visit calls `visit` for every slot of the lanes of a kind, of one queue (0: of all). */
void ready_visit(const struct ready *ready, enum lane_kind kind, uint32_t queue,
                 void (*visit)(void *ctx, uint32_t number), void *ctx);

/* ready_oldest is the earliest pushed_at of the jobs that are first in line in a queue. */
struct instant ready_oldest(const struct ready *ready, uint32_t queue);

size_t ready_memory(const struct ready *ready);

#endif
