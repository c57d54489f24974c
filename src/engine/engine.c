/* engine.c: the mailbox and the batch.
 *
 * A batch is: take what waits; look at the clock; let leases expire that have ended; apply each
 * command in the order of arrival; run the retention rules; commit; run the reads; answer.
 * Invariants:
 *
 *   - an answer leaves after the commit that made it true;
 *   - when the store fails, the whole batch is undone, on disk and in memory, and every command of
 * it is answered with the error: there is no half of a batch;
 *   - after a failure that could not be undone the engine is `broken`: it answers with errors and
 * tries to reload before each batch, until the condition passes.
 *
 * The time of a batch is the clock's (clock.c); what its commands record goes through record.c. */
#include "engine/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/colleagues.h"

#define BATCH_COMMANDS_MAX 4096
#define LIVE_MAX_DEFAULT ((size_t)10 * 1000 * 1000)
#define IDLE_US_MAX 1000000   /* the longest sleep: a jump is seen at least this often */
#define TIMER_REST_US 1000000 /* how long timers rest after their batch failed */

bool status_is_fault(enum status status)
{
    switch (status) {
    case STATUS_NO_MEMORY:
    case STATUS_IO:
    case STATUS_FULL:
    case STATUS_READ_ONLY:
    case STATUS_CORRUPT:
    case STATUS_FOREIGN:
    case STATUS_BUSY:
        return true;
    default:
        return false;
    }
}

void job_move(struct job *job, enum job_move move)
{
    enum job_state next = job_next((enum job_state)job->state, move);
    if (next == JOB_STATE_NONE)
        BUG("job %" PRId64 ": no move %d from state %d", job->seq, (int)move, (int)job->state);
    job->state = (uint8_t)next;
}

struct instant engine_now(const struct engine *engine)
{
    return engine->now;
}

/* ---- the batch ------------------------------------------------------------------------------- */

static enum status apply_command(struct engine *engine, struct command *command)
{
    switch (command->kind) {
    case COMMAND_PUSH:
        return push_apply(engine, (struct push_command *)command);
    case COMMAND_LEASE:
        return lease_apply(engine, (struct lease_command *)command);
    case COMMAND_HEARTBEAT:
        return heartbeat_apply(engine, (struct heartbeat_command *)command);
    case COMMAND_RESOLVE:
        return resolve_apply(engine, (struct resolve_command *)command);
    case COMMAND_RELEASE:
        return release_apply(engine, (struct release_command *)command);
    case COMMAND_INTERRUPT:
        return interrupt_apply(engine, (struct interrupt_command *)command);
    case COMMAND_CANCEL:
        return cancel_apply(engine, (struct cancel_command *)command);
    case COMMAND_REVIEW:
        return review_apply(engine, (struct review_command *)command);
    case COMMAND_IMPORT:
        return import_apply(engine, (struct import_command *)command);
    case COMMAND_PURGE:
        return purge_apply(engine, (struct purge_command *)command);
    case COMMAND_QUEUE:
        return queue_apply(engine, (struct queue_command *)command);
    case COMMAND_POLICY:
        return policy_apply(engine, (struct policy_command *)command);
    case COMMAND_GROUP:
        return group_apply(engine, (struct group_command *)command);
    case COMMAND_DUTY:
        return duty_apply(engine, (struct duty_command *)command);
    case COMMAND_SETTLE:
        return settle_apply(engine, (struct settle_command *)command);
    case COMMAND_AWAIT:
    case COMMAND_READ:
    case COMMAND_COUNT:
        break;
    }
    BUG("command kind %d is not applied", (int)command->kind);
}

static bool only_reads(const struct command *command)
{
    return command->kind == COMMAND_READ || command->kind == COMMAND_AWAIT;
}

/* apply_commands applies every write of the batch.  The return value is only ever a fault. */
static enum status apply_commands(struct engine *engine, struct command *batch, struct err *err)
{
    for (struct command *command = batch; command; command = command->next) {
        if (only_reads(command))
            continue;
        command->status = apply_command(engine, command);
        if (status_is_fault(command->status)) {
            *err = command->err;
            return command->status;
        }
    }
    return STATUS_OK;
}

static bool timers_wanted(struct engine *engine)
{
    if (instant_before(engine->now, engine->timers_at))
        return false;
    return engine->clock_jump.us != 0 || sweep_wanted(engine) || colleagues_wanted(engine) ||
           !instant_before(engine->now, engine->dispatch_at) ||
           !instant_before(engine->now, engine->store->next_timer(engine->store));
}

static enum status apply_timers_first(struct engine *engine, struct err *err)
{
    if (engine->clock_jump.us != 0) {
        enum status status = clock_apply(engine, err);
        if (status)
            return status;
    }
    engine->store->due(engine->store, engine->now);
    enum status status = expire_apply(engine, err);
    return status ? status : unassigned_apply(engine, err);
}

/* dispatch_wanted says whether a job and a worker may have come together since the last dispatch.
 */
static bool dispatch_wanted(struct engine *engine, bool timers)
{
    if (!timers && !engine->ready_changed && !engine->leases_open)
        return false;
    if (engine->store->hinted_count(engine->store) > 0)
        return true;
    engine->dispatch_at = INSTANT_NEVER;
    return false;
}

/* apply_all is the batch between begin and commit. */
static enum status apply_all(struct engine *engine, struct command *batch, bool timers,
                             struct err *err)
{
    enum status status = STATUS_OK;
    if (timers)
        status = apply_timers_first(engine, err);
    if (!status)
        status = apply_commands(engine, batch, err);
    if (!status && dispatch_wanted(engine, timers))
        status = dispatch_apply(engine, batch, err);
    if (!status && engine->parked && (timers || engine->ready_changed))
        status = parked_apply(engine, err);
    if (!status && (engine->ready_changed || engine->leases_open))
        status = unparked_apply(engine, batch, err);
    if (!status && timers && sweep_wanted(engine))
        status = sweep_apply(engine, err);
    if (!status && timers && colleagues_wanted(engine))
        status = colleagues_note(engine, err);
    return status;
}

/* reloaded brings what follows the store's memory in line with it: what is timed there alone begins
 * anew. */
static void reloaded(struct engine *engine)
{
    engine->store->assignment_restart(engine->store, 0, engine->now);
    workers_reconcile(engine->workers, engine->store);
}

/* undo takes the failed batch back, in memory too. */
static void undo(struct engine *engine)
{
    struct err err = {0};
    engine->event_count = 0;
    numbers_rollback(engine->counted);
    parked_undo(engine);
    needs_forget(engine->needs);
    if (engine->store->rollback(engine->store, &err) || policies_load(engine, &err)) {
        engine->broken = true;
        log_line(LOG_ERROR, "the store cannot be reloaded: %s", err.text);
    } else {
        reloaded(engine);
    }
}

/* take_news follows what others wrote into a shared store. */
static enum status take_news(struct engine *engine, struct err *err)
{
    unsigned news = engine->store->news(engine->store);
    if (news & STORE_NEWS_JOBS) {
        engine->ready_changed = engine->others_wrote = true;
        workers_reconcile(engine->workers, engine->store);
    }
    if (!(news & STORE_NEWS_POLICIES))
        return STATUS_OK;
    needs_forget(engine->needs);
    return policies_load(engine, err);
}

/* look brings memory up to what others wrote, for a batch that writes nothing.  A store that cannot
 * be looked at is broken until it can. */
static enum status look(struct engine *engine, struct err *err)
{
    enum status status = engine->store->refresh(engine->store, err);
    if (!status)
        status = take_news(engine, err);
    if (status) {
        engine->broken = true;
        log_line(LOG_ERROR, "the store cannot be read: %s", err->text);
    }
    return status;
}

/* transact carries the writes of the batch out, all or none. */
static enum status transact(struct engine *engine, struct command *batch, bool timers,
                            struct err *err)
{
    enum status status = engine->store->begin(engine->store, err);
    if (status)
        return status;
    status = take_news(engine, err);
    if (!status)
        status = apply_all(engine, batch, timers, err);
    if (!status) {
        struct span before = engine->seams->steady(engine->seams->ctx);
        status = engine->store->commit(engine->store, err);
        struct span after = engine->seams->steady(engine->seams->ctx);
        engine->numbers.commit_us_last = after.us - before.us;
    }
    if (status) {
        undo(engine);
        return status;
    }
    numbers_commit(engine->counted, (struct span){engine->numbers.commit_us_last});
    if (timers)
        engine->clock_jump = (struct span){0};
    return STATUS_OK;
}

/* mend reloads a store that could not be brought back after a failure. */
static enum status mend(struct engine *engine, struct err *err)
{
    enum status status = engine->store->reload(engine->store, err);
    if (!status)
        status = policies_load(engine, err);
    if (!status) {
        engine->broken = false;
        reloaded(engine);
        log_line(LOG_INFO, "the store is back");
    }
    return status;
}

static void run_read(struct engine *engine, struct command *command)
{
    if (command->kind == COMMAND_AWAIT) {
        command->status = await_begin(engine, (struct await_command *)command);
        return;
    }
    struct read_command *read = (struct read_command *)command;
    command->status = read->read(engine, engine->store, read->ctx, command->arena, &command->err);
}

static bool has_writes(const struct command *batch)
{
    for (; batch; batch = batch->next)
        if (!only_reads(batch))
            return true;
    return false;
}

static void tell_watcher(struct engine *engine)
{
    for (size_t i = 0; i < engine->event_count; i++)
        engine->watch(engine->watch_ctx, &engine->events[i]);
}

static void tell_listener(struct engine *engine)
{
    int64_t seq;
    struct hash hash;
    pthread_mutex_lock(&engine->listen_lock);
    if (engine->committed) {
        engine->store->event_head(engine->store, &seq, &hash);
        engine->committed(engine->committed_ctx, seq);
    }
    pthread_mutex_unlock(&engine->listen_lock);
}

/* answer releases the batch: from here on its commands are their callers' again. */
static void answer(struct engine *engine, struct command *batch, enum status status,
                   const struct err *err)
{
    while (batch) {
        struct command *next = batch->next;
        if (only_reads(batch) && !engine->broken) {
            run_read(engine, batch);
        } else if (status) {
            batch->status = status;
            batch->err = *err;
        }
        engine->numbers.commands++;
        if (!park(engine, batch) && !await_park(engine, batch))
            command_done(engine, batch);
        batch = next;
    }
}

/* run_batch carries out `batch` (may be NULL: only timers) and answers it. */
static void run_batch(struct engine *engine, struct command *batch)
{
    struct err err = {0};
    enum status status = STATUS_OK;
    arena_reset(&engine->arena);
    engine->events = NULL;
    engine->leases_open = engine->others_wrote = false;
    engine->ready_changed = engine->news_missed;
    engine->news_missed = false;
    engine->event_count = engine->event_cap = 0;
    clock_look(engine);
    if (engine->broken)
        status = mend(engine, &err);
    bool timers = !status && timers_wanted(engine);
    bool writes = !status && (timers || has_writes(batch));
    if (!status && !writes) {
        status = look(engine, &err);
        writes = !status && engine->ready_changed && engine->parked;
    }
    if (writes)
        status = transact(engine, batch, timers, &err);
    if (status) {
        engine->news_missed = engine->ready_changed;
        engine->numbers.batches_failed++;
        engine->timers_at = instant_add(engine->now, (struct span){TIMER_REST_US});
        if (!batch)
            log_line(LOG_ERROR, "timers: %s", err.text);
    }
    engine->numbers.batches++;
    atomic_store_explicit(&engine->live,
                          engine->broken ? 0 : engine->store->live_count(engine->store),
                          memory_order_relaxed);
    if (!status)
        tell_watcher(engine);
    if (!status && (writes || engine->others_wrote))
        tell_listener(engine);
    parked_answer(engine, false);
    await_answer(engine, false);
    answer(engine, batch, status, &err);
}

/* ---- the mailbox ----------------------------------------------------------------------------- */

/* mailbox_take unlinks up to BATCH_COMMANDS_MAX waiting commands.  The caller holds the lock. */
static struct command *mailbox_take(struct engine *engine)
{
    struct command *batch = engine->first;
    struct command *end = batch;
    for (size_t n = 1; end && end->next && n < BATCH_COMMANDS_MAX; n++)
        end = end->next;
    engine->first = end ? end->next : NULL;
    if (!engine->first)
        engine->last = NULL;
    if (end)
        end->next = NULL;
    return batch;
}

void engine_submit(struct engine *engine, struct command *command)
{
    command->next = NULL;
    command->status = STATUS_OK;
    command->err.text[0] = '\0';
    pthread_mutex_lock(&engine->lock);
    if (engine->last)
        engine->last->next = command;
    else
        engine->first = command;
    engine->last = command;
    pthread_cond_signal(&engine->arrived);
    pthread_mutex_unlock(&engine->lock);
}

void engine_poke(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->poked = true;
    pthread_cond_signal(&engine->arrived);
    pthread_mutex_unlock(&engine->lock);
}

static void call_done(struct command *command)
{
    sem_post(command->owner);
}

enum status engine_call(struct engine *engine, struct command *command)
{
    sem_t answered;
    BUG_ON(!engine->has_thread);
    if (sem_init(&answered, 0, 0) != 0)
        BUG("sem_init: %s", strerror(errno));
    command->done = call_done;
    /* cppcheck-suppress autoVariables ; the command does not outlive this call */
    command->owner = &answered;
    engine_submit(engine, command);
    while (sem_wait(&answered) != 0 && errno == EINTR)
        ;
    sem_destroy(&answered);
    return command->status;
}

void engine_step(struct engine *engine)
{
    BUG_ON(engine->has_thread);
    pthread_mutex_lock(&engine->lock);
    struct command *batch = mailbox_take(engine);
    pthread_mutex_unlock(&engine->lock);
    run_batch(engine, batch);
}

struct instant engine_next_wake(struct engine *engine)
{
    if (engine->broken)
        return engine->timers_at;
    struct instant wake = engine->store->next_timer(engine->store);
    if (instant_is_set(engine->sweep_at) && instant_before(engine->sweep_at, wake))
        wake = engine->sweep_at;
    if (instant_before(engine->dispatch_at, wake))
        wake = engine->dispatch_at;
    if (instant_before(wake, engine->timers_at))
        wake = engine->timers_at;
    struct instant parked = parked_wake(engine), awaiting = await_wake(engine);
    if (instant_before(awaiting, parked))
        parked = awaiting;
    return instant_before(parked, wake) ? parked : wake;
}

/* mailbox_wait sleeps until a command arrives, a timer is due or the engine stops.  The caller
 * holds the lock. */
static void mailbox_wait(struct engine *engine)
{
    struct instant wall = engine->seams->wall(engine->seams->ctx);
    struct span sleep = instant_since(engine_next_wake(engine), wall);
    if (sleep.us > IDLE_US_MAX)
        sleep.us = IDLE_US_MAX;
    if (sleep.us <= 0)
        return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + sleep.us * 1000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&engine->arrived, &engine->lock, &until);
}

static void *thread_main(void *arg)
{
    struct engine *engine = arg;
    pthread_setname_np(pthread_self(), "lazaret-engine");
    pthread_mutex_lock(&engine->lock);
    for (;;) {
        if (!engine->first && !engine->stopping && !engine->abandoned && !engine->poked)
            mailbox_wait(engine);
        engine->abandoned = engine->poked = false;
        struct command *batch = mailbox_take(engine);
        if (!batch && engine->stopping)
            break;
        pthread_mutex_unlock(&engine->lock);
        run_batch(engine, batch);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void config_defaults(struct engine_config *config)
{
    if (!config->live_max)
        config->live_max = LIVE_MAX_DEFAULT;
    if (!config->lease_default.us)
        config->lease_default = span_seconds(30);
    if (!config->lease_max.us)
        config->lease_max = span_seconds((int64_t)12 * 3600);
}

static void others_committed(void *ctx)
{
    engine_poke(ctx);
}

enum status engine_new(const struct engine_config *config, struct engine **out, struct err *err)
{
    struct engine *engine = mem_zalloc(sizeof(*engine));
    if (!engine) {
        config->store->close(config->store);
        return err_no_memory(err);
    }
    engine->config = *config;
    engine->store = config->store;
    engine->seams = config->seams;
    engine->dispatch_at = INSTANT_NEVER;
    config_defaults(&engine->config);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->listen_lock, NULL);
    buf_init(&engine->why, 4 << 20);
    buf_init(&engine->text, 16 << 20);
    clock_look(engine);
    engine->started_at = engine->now;
    engine->store->listen(engine->store, others_committed, engine);
    engine->store->assignment_restart(engine->store, 0, engine->now);
    const struct retention *retention = &engine->config.retention;
    if (retention->done.us || retention->recovered.us || retention->discarded.us)
        engine->sweep_at = engine->now;
    atomic_store(&engine->live, engine->store->live_count(engine->store));
    engine->candidates = mem_array(LEASE_COUNT_MAX, sizeof(*engine->candidates));
    engine->counted = numbers_new();
    engine->workers = workers_new();
    engine->needs = needs_new();
    enum status status = engine->candidates && engine->counted && engine->workers && engine->needs
                             ? policies_load(engine, err)
                             : err_no_memory(err);
    if (!status)
        status = clock_since_last(engine, err);
    if (status) {
        engine_free(engine);
        return status;
    }
    *out = engine;
    return STATUS_OK;
}

enum status engine_start(struct engine *engine, struct err *err)
{
    int error = pthread_create(&engine->thread, NULL, thread_main, engine);
    if (error)
        return err_set(err, STATUS_UNAVAILABLE, "the engine's thread cannot be started: %s",
                       strerror(error));
    engine->has_thread = true;
    return STATUS_OK;
}

void engine_stop(struct engine *engine)
{
    if (!engine->has_thread)
        return;
    pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    pthread_cond_signal(&engine->arrived);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    engine->has_thread = false;
    engine->stopping = false;
    parked_answer(engine, true);
    await_answer(engine, true);
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    engine_stop(engine);
    engine->store->close(engine->store);
    policies_release(engine);
    mem_free(engine->candidates);
    numbers_free(engine->counted);
    needs_free(engine->needs);
    workers_free(engine->workers);
    buf_release(&engine->why);
    buf_release(&engine->text);
    arena_release(&engine->arena);
    pthread_cond_destroy(&engine->arrived);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->listen_lock);
    mem_free(engine);
}

void engine_watch(struct engine *engine, void (*watch)(void *ctx, const struct event *event),
                  void *ctx)
{
    BUG_ON(engine->has_thread);
    engine->watch = watch;
    engine->watch_ctx = ctx;
}

void engine_listen(struct engine *engine, void (*committed)(void *ctx, int64_t seq), void *ctx)
{
    pthread_mutex_lock(&engine->listen_lock);
    engine->committed = committed;
    engine->committed_ctx = ctx;
    pthread_mutex_unlock(&engine->listen_lock);
}

void engine_numbers(struct engine *engine, struct engine_numbers *out)
{
    *out = engine->numbers;
    out->live = atomic_load_explicit(&engine->live, memory_order_relaxed);
}

enum status engine_report(struct engine *engine, struct arena *arena, struct numbers_report *out,
                          struct err *err)
{
    return numbers_report(engine->counted, engine->store, arena, out, err);
}
