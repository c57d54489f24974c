/* attempt: one run of one job's commands, from the lease to the report.
 *
 * A plan says what is done for every job; a grant is the lease of one job; an attempt carries the
 * plan out for it and ends in a report: a result or a failure object (INTERFACES 4). */
#ifndef LAZARET_RUN_ATTEMPT_H
#define LAZARET_RUN_ATTEMPT_H

#include "run/item.h"
#include "run/loop.h"
#include "run/workflow.h"
#include "run/worktree.h"

/* struct grant: a lease that the engine gave us.  Everything is in its arena. */
struct grant {
    struct arena arena;
    struct slice lease_id, job_id, queue, match;
    struct slice item_id; /* the envelope's, else the job's id */
    struct slice label;   /* what a person calls it: a short text that is the item, else its id */
    uint32_t attempt;
    struct span came;   /* when, by loop_now */
    struct json job;    /* the envelope, byte for byte */
    struct json inputs; /* of it */
    struct grant *next;
};

/* grant_new copies one entry of an answer to POST /leases; NULL when memory is exhausted. */
struct grant *grant_new(struct json lease);
void grant_free(struct grant *grant); /* NULL is fine */

/* struct attempt_plan: what is done for every job.  It outlives the attempts. */
struct attempt_plan {
    const struct steps *steps;   /* one after the other; the first that fails ends it */
    const char *cwd;             /* where; NULL: here */
    struct span timeout;         /* for all of it; 0: none */
    struct span grace;           /* between TERM and KILL */
    struct slice validate;       /* a script that must succeed after the steps; empty: none */
    struct slice custom;         /* a script that decides about a failure; empty: none */
    struct worktrees *worktrees; /* each job has one of its own; NULL: none */
    struct slice run_id;         /* of a map: LAZARET_JOB_ID; empty: the job's own id is it */
    const char *artifacts;       /* DIR/artifacts; NULL: the whole output is not kept */
    uint64_t artifact_max;
    const char *scratch; /* a directory for what the commands say and large items */
    const char *agent;   /* agent_id is this and the slot: "tidy#3" */
    bool payload;        /* the envelope is on standard input, and its fields in the environment */
};

enum attempt_outcome {
    ATTEMPT_SUCCEEDED,
    ATTEMPT_FAILED,
    ATTEMPT_HANDLED,     /* it failed, and the custom handler took care of it */
    ATTEMPT_INTERRUPTED, /* this runner was stopped */
    ATTEMPT_CANCELLED,
    ATTEMPT_LOST, /* the lease was lost: there is nothing to report */
};

/* struct attempt_end: how it ended.  Texts live until attempt_free. */
struct attempt_end {
    enum attempt_outcome outcome;
    struct slice report;              /* JSON: the result, or the failure */
    struct slice error_type, message; /* of a failure */
    struct slice artifact;            /* path of the whole output; empty: there was none */
    struct span duration;
};

struct attempt;

/* attempt_start begins.  The grant is the attempt's from then on.  `done` is called once, from the
 * loop, never before this returns; the attempt may be freed in it.  NULL when memory is exhausted:
 * the grant is untouched. */
struct attempt *attempt_start(struct loop *loop, const struct attempt_plan *plan,
                              struct grant *grant, unsigned slot,
                              void (*done)(void *ctx, const struct attempt_end *end), void *ctx);

/* attempt_stop ends it early: ATTEMPT_INTERRUPTED, ATTEMPT_CANCELLED or ATTEMPT_LOST is its outcome
 * then, unless it has ended just before.  With `now` its processes get no time to end well. */
void attempt_stop(struct attempt *attempt, enum attempt_outcome outcome, bool now);

const struct grant *attempt_grant(const struct attempt *attempt);
struct span attempt_began(const struct attempt *attempt); /* by loop_now */
unsigned attempt_slot(const struct attempt *attempt);

void attempt_free(struct attempt *attempt); /* NULL is fine */

#endif
