/* life: one life of an agent that is kept up, from the pull to its end, and how it is reported.
 *
 * What follows an end is not decided here.  An agent that ends has ended by itself, with whatever
 * exit code, or because its health checks failed, or because it was told to (life_stop). */
#ifndef LAZARET_RUN_LIFE_H
#define LAZARET_RUN_LIFE_H

#include <sys/types.h>

#include "base/jsonw.h"
#include "run/attempt.h"
#include "run/echo.h"

#define LIFE_CHECKS_MAX 3 /* failed health checks in a row that end a life */

/* struct life_plan: what every life is like.  It outlives them. */
struct life_plan {
    const char *name;         /* the agent's, for people */
    char *const *argv;        /* the agent; ends in NULL */
    const char *pull;         /* a script before the start; NULL: none */
    const char *health;       /* a script that succeeds while the agent is well; NULL: none */
    struct span health_every; /* from the beginning of a check to the next; its time-out too */
    struct span grace;        /* between TERM and KILL */
    const char *worker_id;    /* stands in the evidence */
    const char *artifacts;    /* where the whole output is kept; NULL: nowhere */
    const char *scratch;      /* a directory for what the agent says of its failure */
    struct echo *echo;        /* where agent and pull are seen; NULL: nowhere */
};

enum life_outcome {
    LIFE_ENDED,       /* the agent ended by itself, or could not be started */
    LIFE_UNHEALTHY,   /* it was ended: LIFE_CHECKS_MAX health checks in a row have failed */
    LIFE_PULL_FAILED, /* it was not started */
    LIFE_STOPPED,     /* life_stop */
};

struct life;

/* struct life_watch: what is told, on the loop's thread.  A life may be freed in `ended` only. */
struct life_watch {
    void (*started)(void *ctx, pid_t pid); /* the agent runs */
    void (*unhealthy)(void *ctx, unsigned in_a_row, struct slice message);
    void (*ended)(void *ctx, enum life_outcome outcome);
    void *ctx;
};

/* life_start begins.  The grant, whose attempt it is, is borrowed.  `ended` is called once, from
 * the loop, never before this returns.  NULL when memory is exhausted. */
struct life *life_start(struct loop *loop, const struct life_plan *plan, struct grant *grant,
                        const struct life_watch *watch);

/* life_stop ends it: TERM and, after the grace, KILL; with `now` KILL at once. */
void life_stop(struct life *life, bool now);

/* struct life_cause: why a life that has ended is reported as a failure.  `{0}` is none but its
 * end. */
struct life_cause {
    const char *reason; /* of a quarantine: "crash_loop".  No other life is to follow */
    const char *detail; /* of the reason; NULL: the message says it */
    bool cancelled;     /* somebody cancelled the job */
};

/* life_failure writes the failure object of a life that has ended; life_result the result of one
 * that has ended as it should. */
void life_failure(const struct life *life, const struct life_cause *cause, struct jsonw *out);
void life_result(const struct life *life, bool stopped, struct jsonw *out);

struct span life_up(const struct life *life);        /* how long the agent ran */
struct slice life_artifact(const struct life *life); /* path of the whole output; empty: none */

void life_free(struct life *life); /* NULL is fine */

#endif
