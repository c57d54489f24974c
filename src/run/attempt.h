/* attempt: one run of one job's commands, from the lease to the report.
 *
 * A plan says what is done for every job; a grant is the lease of one job; an attempt, the effort
 * of this craft (craft.h), carries the plan out for it. */
#ifndef LAZARET_RUN_ATTEMPT_H
#define LAZARET_RUN_ATTEMPT_H

#include "crew/craft.h"
#include "crew/loop.h"
#include "run/item.h"
#include "run/workflow.h"
#include "run/worktree.h"

/* struct attempt_plan: what is done for every job.  It outlives the attempts. */
struct attempt_plan {
    struct loop *loop;
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

/* attempt_craft is the craft of a plan, which outlives the efforts. */
struct craft attempt_craft(const struct attempt_plan *plan);

#endif
