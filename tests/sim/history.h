/* history: one run of the simulator: a seed, and everything that follows from it.
 *
 * A history is a row of steps.  In each, some commands are made up and submitted, the engine takes
 * one step, and the model checks what came of it; or time passes, the clock jumps, the disk begins
 * to fail or heals, or the power goes, between two steps or in the middle of a write.  After every
 * crash, and at the end, the store is opened again and compared with the model.  Before the end
 * everything is healed and all work is done, so that a job that is stuck shows too. */
#ifndef LAZARET_SIM_HISTORY_H
#define LAZARET_SIM_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "sim/batch.h"
#include "sim/model.h"
#include "sim/rng.h"
#include "sim/world.h"

#define HELD_MAX 48     /* lease ids that workers remember, ended ones among them */
#define PAYLOADS_MAX 64 /* envelopes that may be pushed again */

/* struct plan: what this history is like.  Each seed draws its own, so that some are all pushes,
 * some all crashes, and most a mixture. */
struct plan {
    unsigned weights[COMMAND_COUNT]; /* how often each kind of command is made */
    unsigned queues, keys, workers;  /* how many of each there are */
    unsigned batch_max;              /* commands in a step, at most */
    unsigned crash_percent;          /* of the steps */
    unsigned fault_percent;
    unsigned jump_percent;
    unsigned failure_percent;   /* of the results */
    unsigned interrupt_percent; /* of the failures */
    struct engine_config engine;
};

/* struct held: a lease that a worker believes to have. */
struct held {
    char lease_id[LEASE_ID_SIZE];
    struct slice worker; /* in the model's arena */
};

struct history {
    struct world world;
    struct model model;
    struct rng rng; /* what the history draws from */
    struct plan plan;
    struct store *store;
    struct engine *engine; /* NULL: the machine is off */
    struct batch *batch;   /* of this step */
    struct batch *doubtful;
    struct arena seen_arena; /* of the events that the engine told of in this step */
    struct event *seen;
    size_t seen_count, seen_cap;
    struct span failed_steady; /* when a batch failed last; 0: none since the start */
    int64_t jumped_us;         /* how far the clock has jumped since that was last noticed */
    uint64_t batches_failed;   /* of this engine, as of the last step */
    uint64_t op_next, payload_next;
    struct held held[HELD_MAX];
    size_t held_count;
    struct slice payloads[PAYLOADS_MAX]; /* in the model's arena */
    size_t payload_count;
    unsigned step;
    unsigned fault_left;   /* steps until the disk heals */
    uint64_t faults_known; /* disk_faults before this step */
    uint64_t crashes, commands;
    /* For the torture tests: called around the engine's step, which may then fail for a reason that
     * is not the disk's. */
    void (*before_step)(struct history *history);
    void (*after_step)(struct history *history);
    void *ctx;
};

/* struct history_report: what became of a history. */
struct history_report {
    bool passed;
    unsigned step;       /* where it failed */
    char violation[600]; /* and why */
    uint64_t crashes, commands, faults;
    uint64_t trace_hash;
};

/* history_run runs the history of a seed.  `lie` makes its disk lie; see vfs.h. */
struct history_report history_run(uint64_t seed, unsigned steps, bool verbose, enum disk_lie lie);

/* history_run in parts, for tests that bring their own troubles.  history_begin makes the world and
 * opens the store; history_step takes one step; history_crash takes the power away between two
 * steps, opens what survived and compares it with the model; history_release frees all.
 * model.violated says whether anything was wrong. */
void history_begin(struct history *history, uint64_t seed, bool verbose, enum disk_lie lie);
void history_step(struct history *history);
void history_crash(struct history *history);
void history_release(struct history *history);

/* history_open opens the store and the engine over it; history_close frees both. */
enum status history_open(struct history *history, struct err *err);
void history_close(struct history *history);

/* ---- commands.c ------------------------------------------------------------------------------ */

/* plan_draw makes up what a history is like. */
void plan_draw(struct plan *plan, struct rng *rng);

/* commands_make adds a command of some kind to the batch. */
void commands_make(struct history *history);

/* The few that history.c asks for by name, to bring all work to its end. */
void commands_lease_all(struct history *history);
void commands_complete_held(struct history *history);
void commands_resume(struct history *history, struct slice queue);

/* ---- payloads.c ------------------------------------------------------------------------------ */

/* payload_make prints an envelope, and sets *certain when nothing can refuse its push. */
struct slice payload_make(struct history *history, bool *certain);
struct slice payload_again(struct history *history); /* one that was pushed before, or empty */
/* payload_failure makes up a failure. */
void payload_failure(struct history *history, struct arena *arena, struct failure *out);

#endif
