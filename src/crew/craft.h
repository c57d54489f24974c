/* craft: what a crew does with the jobs that it has leased: it runs commands (run/attempt.h), or
 * delivers (bridge/deliver.h).
 *
 * One effort of a craft is one attempt of one job.  It ends in a report: a result or a failure
 * object (INTERFACES 4). */
#ifndef LAZARET_CREW_CRAFT_H
#define LAZARET_CREW_CRAFT_H

#include "crew/grant.h"

enum effort_outcome {
    EFFORT_SUCCEEDED,
    EFFORT_FAILED,
    EFFORT_HANDLED,     /* it failed, and the custom handler took care of it */
    EFFORT_INTERRUPTED, /* whoever made it was stopped */
    EFFORT_CANCELLED,
    EFFORT_LOST, /* the lease was lost: there is nothing to report */
};

/* struct effort_end: how it ended.  Texts live until the effort is freed. */
struct effort_end {
    enum effort_outcome outcome;
    struct slice report;              /* JSON: the result, or the failure */
    struct slice error_type, message; /* of a failure */
    struct slice artifact;            /* path of the whole output; empty: there was none */
    struct slice receipt;             /* of a delivery: the status of its receipt; empty: none */
    struct span duration;
};

struct craft {
    /* start begins an effort.  The grant outlives it.  `ended` is called once, from the loop, never
     * before this returns; the effort may be freed in it.  NULL when memory is exhausted. */
    void *(*start)(void *ctx, struct grant *grant, unsigned slot,
                   void (*ended)(void *owner, const struct effort_end *end), void *owner);
    /* stop ends it early: EFFORT_INTERRUPTED, EFFORT_CANCELLED or EFFORT_LOST is its outcome
     * then, unless it has ended just before.  With `now` it gets no time to end well. */
    void (*stop)(void *effort, enum effort_outcome outcome, bool now);
    void (*free)(void *effort);
    void *ctx;
};

#endif
