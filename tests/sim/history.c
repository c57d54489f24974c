/* history: see history.h.
 *
 *     open --> step, step, step ... --the power fails--> close --> restart --> open ...
 *                     |
 *                     `-- batch answered: folded and checked
 *                         batch failed:   in doubt until the next event is written, or a crash
 *                                         shows it
 *
 * What a crash did not show, the next one may, as long as nothing was committed since: the log that
 * SQLite recovers from still has the end of the failed transaction, and a page that is written
 * again in the same place, with the same content, makes it whole.
 *
 * A batch can be acknowledged although the power failed in the same step (after its commit): its
 * events are then folded when the machine is on again, before anything that the crash left is
 * looked at. */
#include "sim/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define DATABASE "lazaret.db"
#define YEAR_SECONDS (365 * 86400)
#define JUMP_US 10000000  /* a jump that must be noticed */
#define REST_US 15000000  /* how long timers may rest after a failed batch */
#define DRAIN_IDLE_MAX 60 /* rounds without a lease until what is left is called stuck */

/* ---- what the engine tells ------------------------------------------------------------------- */

/* seen_dup copies a text of an event.  An allocation that is to fail once may be this one, which is
 * not the engine's. */
static struct slice seen_dup(struct history *history, struct slice text)
{
    struct slice copy = arena_dup(&history->seen_arena, text);

    return copy.ptr ? copy : arena_dup(&history->seen_arena, text);
}

static void watch(void *ctx, const struct event *event)
{
    struct history *history = ctx;

    if (history->seen_count == history->seen_cap) {
        history->seen_cap = history->seen_cap ? history->seen_cap * 2 : 32;
        history->seen = realloc(history->seen, history->seen_cap * sizeof(*history->seen));
        if (!history->seen)
            abort();
    }
    struct event *copy = &history->seen[history->seen_count++];
    *copy = *event;
    copy->actor = seen_dup(history, event->actor);
    copy->what = seen_dup(history, event->what);
    copy->why = seen_dup(history, event->why);
}

static void forget_seen(struct history *history)
{
    history->seen_count = 0;
    arena_reset(&history->seen_arena);
}

/* ---- on and off ------------------------------------------------------------------------------ */

enum status history_open(struct history *history, struct err *err)
{
    struct store_config store = {DATABASE, &history->world.seams};
    struct engine_config config = history->plan.engine;
    enum status status = store_sqlite_open(&store, &history->store, err);

    if (status)
        return status;
    config.store = history->store;
    config.seams = &history->world.seams;
    status = engine_new(&config, &history->engine, err);
    if (status) {
        history->engine = NULL;
        return status;
    }
    engine_watch(history->engine, watch, history);
    history->batches_failed = 0;
    history->jumped_us = 0;
    return STATUS_OK;
}

void history_close(struct history *history)
{
    engine_free(history->engine);
    history->engine = NULL;
    history->store = NULL;
    if (disk_files_open(history->world.disk))
        model_violated(&history->model, "a closed store left a file open");
}

/* power_on starts the machine after a power failure. */
static void power_on(struct history *history)
{
    disk_restart(history->world.disk);
    world_reboot(&history->world);
    world_pass(&history->world, (struct span){rng_range(&history->rng, 0, 20000000)});
    history->fault_left = 0;
    history->failed_steady = (struct span){0};
}

/* start opens the store.  The power may fail meanwhile, and again; then the rest is tried. */
static void start(struct history *history)
{
    struct world *world = &history->world;
    struct err err = {0};

    for (int tries = 0;; tries++) {
        if (tries < 3 && rng_chance(&history->rng, 30))
            disk_crash_after(world->disk, 1 + rng_below(&history->rng, 40));
        enum status status = history_open(history, &err);
        if (!disk_is_down(world->disk)) {
            if (status)
                model_violated(&history->model, "the store cannot be opened: %s", err.text);
            return;
        }
        world_trace(world, "the power fails while the store is opened");
        history->crashes++;
        history_close(history);
        power_on(history);
    }
}

/* ---- after a step ---------------------------------------------------------------------------- */

static bool is_fault(enum status status)
{
    return status == STATUS_NO_MEMORY || (status >= STATUS_IO && status <= STATUS_BUSY);
}

/* batch_failed says whether the batch of this step was answered with a fault: all of it, or none.
 */
static bool batch_failed(struct history *history)
{
    struct batch *batch = history->batch;
    struct engine_numbers numbers;
    size_t faults = 0, writes = 0;

    engine_numbers(history->engine, &numbers);
    bool failed = numbers.batches_failed != history->batches_failed;
    history->batches_failed = numbers.batches_failed;
    for (size_t i = 0; i < batch->count; i++) {
        if (!batch->ops[i].answered)
            model_violated(&history->model, "command #%" PRIu64 " was never answered",
                           batch->ops[i].number);
        if (batch->ops[i].command->kind == COMMAND_READ)
            continue;
        writes++;
        faults += is_fault(batch->ops[i].command->status);
    }
    if (faults && faults != writes)
        model_violated(&history->model, "%zu of %zu commands of a batch failed", faults, writes);
    if (faults && !history->after_step && disk_condition(history->world.disk) == DISK_HEALTHY &&
        disk_faults(history->world.disk) == history->faults_known &&
        !disk_is_down(history->world.disk))
        model_violated(&history->model, "a healthy disk, and a fault: %s",
                       batch->ops[0].command->err.text);
    return failed || faults;
}

/* batch_keep_leases has the workers remember what they were given. */
static void batch_keep_leases(struct history *history)
{
    for (size_t i = 0; i < history->batch->count; i++) {
        struct command *command = history->batch->ops[i].command;
        struct lease_command *lease = (struct lease_command *)command;

        if (command->kind != COMMAND_LEASE || command->status)
            continue;
        for (size_t k = 0; k < lease->count; k++) {
            size_t at = history->held_count < HELD_MAX ? history->held_count++
                                                       : rng_below(&history->rng, HELD_MAX);

            memcpy(history->held[at].lease_id, lease->leases[k].lease_id, LEASE_ID_SIZE);
            history->held[at].worker = arena_dup(&history->model.arena, lease->worker_id);
            world_trace(&history->world, "leased %.*s: %s", SLICE_ARG(lease->leases[k].job_id),
                        lease->leases[k].lease_id);
        }
    }
}

static void trace_seen(struct history *history)
{
    for (size_t i = 0; i < history->seen_count; i++)
        world_trace(&history->world, "event %" PRId64 " job %" PRId64 " %.*s by %.*s",
                    history->seen[i].seq, history->seen[i].job_seq,
                    SLICE_ARG(history->seen[i].what), SLICE_ARG(history->seen[i].actor));
}

/* is_timely says that no batch failed of late: a failed one lets the timers rest for a second, or a
 * few when the clock goes back meanwhile by less than counts as a jump. */
static bool is_timely(const struct history *history)
{
    return history->world.steady.us > history->failed_steady.us + REST_US;
}

/* check_jump says that a jump of the clock is on record by now. */
static void check_jump(struct history *history)
{
    for (size_t i = 0; i < history->seen_count; i++)
        if (slice_is(history->seen[i].what, EVENT_CLOCK_JUMPED))
            history->jumped_us = 0;
    if (is_timely(history) && history->jumped_us != 0)
        model_violated(&history->model, "the clock jumped, and nobody noticed");
}

/* batch_check folds what the engine told of and checks the answers. */
static void batch_check(struct history *history, struct instant now)
{
    struct model *model = &history->model;

    disk_observe(history->world.disk, true);
    model_fold(model, history->store, history->seen, history->seen_count, history->batch, NULL);
    if (!model->violated)
        model_answers(model, history->batch, now);
    disk_observe(history->world.disk, false);
    model_time(model, now, is_timely(history));
    check_jump(history);
    if (history->seen_count) {
        batch_free(history->doubtful);
        history->doubtful = NULL;
    }
    forget_seen(history);
}

static void batch_doubt(struct history *history)
{
    history->batch->next = history->doubtful;
    history->doubtful = history->batch;
    history->batch = batch_new();
}

/* look_around compares what is in the store after a start with the model. */
static void look_around(struct history *history)
{
    struct model *model = &history->model;
    bool found = false;

    disk_observe(history->world.disk, true);
    if (!model->violated)
        found = model_recover(model, history->store, history->doubtful);
    if (!model->violated)
        model_inspect(model, history->store);
    disk_observe(history->world.disk, false);
    if (found) {
        batch_free(history->doubtful);
        history->doubtful = NULL;
    }
}

/* crash ends the machine, whose power has failed, and starts it again.  `acknowledged`: the batch
 * of this step was answered before. */
static void crash(struct history *history, bool acknowledged)
{
    struct instant now = engine_now(history->engine);

    history->crashes++;
    world_trace(&history->world, "the power fails");
    history_close(history);
    power_on(history);
    start(history);
    if (acknowledged && !history->model.violated)
        batch_check(history, now);
    look_around(history);
}

/* restart ends the process in order and starts it again: that moves the log into the database, in
 * the middle of which the power may fail. */
static void restart(struct history *history)
{
    struct disk *disk = history->world.disk;

    world_trace(&history->world, "restart");
    disk_fault_nth(disk, DISK_HEALTHY, 0);
    if (rng_chance(&history->rng, 50))
        disk_crash_after(disk, 1 + rng_below(&history->rng, 60));
    history_close(history);
    if (disk_is_down(disk)) {
        history->crashes++;
        power_on(history);
    }
    start(history);
    look_around(history);
}

/* step has the engine carry out the batch, and follows what came of it. */
static void step(struct history *history)
{
    struct world *world = &history->world;

    history->faults_known = disk_faults(world->disk);
    for (size_t i = 0; i < history->batch->count; i++)
        engine_submit(history->engine, history->batch->ops[i].command);
    if (history->before_step)
        history->before_step(history);
    engine_step(history->engine);
    if (history->after_step)
        history->after_step(history);
    bool failed = batch_failed(history);
    trace_seen(history);
    if (failed) {
        world_trace(world, "failed: %s",
                    history->batch->count ? history->batch->ops[0].command->err.text : "timers");
        if (history->seen_count)
            model_violated(&history->model, "a batch that failed told of events");
        history->failed_steady = world->steady;
        batch_doubt(history);
    } else {
        batch_keep_leases(history);
        if (!disk_is_down(world->disk))
            batch_check(history, engine_now(history->engine));
    }
    if (disk_is_down(world->disk) && !history->model.violated)
        crash(history, !failed);
    batch_free(history->batch);
    history->batch = batch_new();
    forget_seen(history);
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void pass_time(struct history *history)
{
    struct rng *rng = &history->rng;
    struct instant wake = engine_next_wake(history->engine);
    struct span wait = instant_since(wake, history->world.wall);

    switch (rng_below(rng, 6)) {
    case 0:
        if (wake.us != INSTANT_NEVER.us && wait.us > 0)
            world_pass(&history->world, wait);
        break;
    case 1:
        world_pass(&history->world, span_seconds(rng_range(rng, 0, 90)));
        break;
    default:
        world_pass(&history->world, span_ms(rng_range(rng, 0, 2000)));
    }
}

static void jump(struct history *history)
{
    static const int64_t seconds[] = {1, 4, 60, 3600, 86400, YEAR_SECONDS};
    struct rng *rng = &history->rng;
    struct span by = span_seconds(seconds[rng_below(rng, 6)]);

    if (rng_chance(rng, 50))
        by.us = -by.us;
    world_jump(&history->world, by);
    if (by.us > JUMP_US || by.us < -JUMP_US)
        history->jumped_us += by.us;
    world_trace(&history->world, "the clock jumps by %" PRId64 " us", by.us);
}

/* disturb lets the disk begin to fail, or heal. */
static void disturb(struct history *history)
{
    struct rng *rng = &history->rng;
    struct disk *disk = history->world.disk;

    if (history->fault_left && --history->fault_left == 0) {
        disk_fault(disk, DISK_HEALTHY);
        world_trace(&history->world, "the disk heals");
    }
    if (history->fault_left || !rng_chance(rng, history->plan.fault_percent))
        return;
    enum disk_fault fault = (enum disk_fault)rng_range(rng, DISK_FULL, DISK_FAULT_COUNT - 1);
    if (rng_chance(rng, 50)) {
        disk_fault(disk, fault);
        history->fault_left = 1 + (unsigned)rng_below(rng, 5);
    } else {
        disk_fault_nth(disk, fault, 1 + rng_below(rng, 20));
    }
    world_trace(&history->world, "disk fault %d for %u steps", (int)fault, history->fault_left);
}

/* threaten lets the power fail: at once, with commands waiting, or at a change to come. */
static void threaten(struct history *history)
{
    struct rng *rng = &history->rng;
    struct disk *disk = history->world.disk;

    if (!rng_chance(rng, history->plan.crash_percent))
        return;
    if (history->fault_left == 0 && rng_chance(rng, 15)) {
        restart(history);
        return;
    }
    if (rng_chance(rng, 75)) {
        disk_crash_after(disk, 1 + rng_below(rng, rng_chance(rng, 50) ? 8 : 60));
        return;
    }
    for (size_t i = 0; i < history->batch->count; i++)
        engine_submit(history->engine, history->batch->ops[i].command);
    disk_crash(disk);
    struct batch *lost = history->batch;
    history->batch = batch_new();
    crash(history, false);
    batch_free(lost);
}

void history_step(struct history *history)
{
    size_t count = 1 + rng_below(&history->rng, history->plan.batch_max);

    history->step++;
    world_trace(&history->world, "step %u", history->step);
    disturb(history);
    /* Troubles seldom come alone. */
    if (rng_chance(&history->rng, history->plan.jump_percent * (history->fault_left ? 4 : 1)))
        jump(history);
    pass_time(history);
    for (size_t i = 0; i < count; i++)
        commands_make(history);
    threaten(history);
    if (!history->model.violated)
        step(history);
}

/* ---- the end --------------------------------------------------------------------------------- */

static size_t live_jobs(const struct history *history)
{
    size_t live = 0;

    for (const struct model_job *job = history->model.jobs; job; job = job->next)
        live += job->state == MODEL_WAITING || job->state == MODEL_RUNNING;
    return live;
}

/* drain heals the disk and has every live job done: none may be stuck. */
static void drain(struct history *history)
{
    struct model *model = &history->model;

    disk_fault(history->world.disk, DISK_HEALTHY);
    disk_fault_nth(history->world.disk, DISK_HEALTHY, 0);
    disk_crash_after(history->world.disk, 0);
    step(history);
    for (const struct model_queue *queue = model->queues; queue && !model->violated;
         queue = queue->next) {
        commands_resume(history, queue->name);
        step(history);
    }
    history->held_count = 0;
    for (int idle = 0; live_jobs(history) && !model->violated; idle++) {
        struct instant wake = engine_next_wake(history->engine);
        struct span wait = instant_since(wake, history->world.wall);

        if (idle == DRAIN_IDLE_MAX) {
            model_violated(model, "%zu jobs are stuck", live_jobs(history));
            return;
        }
        if (wake.us != INSTANT_NEVER.us && wait.us > 0)
            world_pass(&history->world, wait);
        if (idle > DRAIN_IDLE_MAX / 2) /* a job may be due in a year, after the clock went back */
            world_pass(&history->world, span_seconds(INT64_C(1) << (idle - DRAIN_IDLE_MAX / 2)));
        commands_lease_all(history);
        step(history);
        if (history->held_count)
            idle = 0;
        const struct model_job *ready = model_ready(model, history->world.wall);
        if (ready && history->held_count < HELD_MAX && is_timely(history))
            model_violated(model, "job %.*s is ready, and nobody gets it", SLICE_ARG(ready->id));
        commands_complete_held(history);
        if (history->batch->count && !model->violated)
            step(history);
    }
}

/* finish ends the history in order, and looks at the store once more after a clean restart. */
static void finish(struct history *history)
{
    struct model *model = &history->model;
    struct err err = {0};

    drain(history);
    if (!model->violated)
        model_inspect(model, history->store);
    history_close(history);
    if (model->violated)
        return;
    if (history_open(history, &err))
        model_violated(model, "the store cannot be opened again: %s", err.text);
    else
        model_inspect(model, history->store);
    history_close(history);
}

static void trace_log(enum log_level level, const char *line, void *ctx)
{
    (void)level;
    world_trace(ctx, "log: %s", line);
}

void history_begin(struct history *history, uint64_t seed, bool verbose, enum disk_lie lie)
{
    *history = (struct history){.rng = rng_fork(seed, 4)};
    world_init(&history->world, seed);
    history->world.verbose = verbose;
    log_set(LOG_ERROR, trace_log, &history->world);
    disk_lie(history->world.disk, lie);
    model_init(&history->model, &history->world);
    plan_draw(&history->plan, &history->rng);
    history->batch = batch_new();
    start(history);
}

void history_crash(struct history *history)
{
    disk_crash(history->world.disk);
    crash(history, false);
}

void history_release(struct history *history)
{
    engine_free(history->engine);
    batch_free(history->batch);
    batch_free(history->doubtful);
    arena_release(&history->seen_arena);
    free(history->seen);
    model_release(&history->model);
    log_set(LOG_ERROR, NULL, NULL);
    world_release(&history->world);
}

struct history_report history_run(uint64_t seed, unsigned steps, bool verbose, enum disk_lie lie)
{
    struct history history;

    history_begin(&history, seed, verbose, lie);
    while (history.step < steps && !history.model.violated)
        history_step(&history);
    if (!history.model.violated)
        finish(&history);
    struct history_report report = {
        .passed = !history.model.violated,
        .step = history.step,
        .crashes = history.crashes,
        .commands = history.commands,
        .faults = disk_faults(history.world.disk),
        .trace_hash = history.world.trace_hash,
    };
    memcpy(report.violation, history.model.violation, sizeof(report.violation));
    history_release(&history);
    return report;
}
