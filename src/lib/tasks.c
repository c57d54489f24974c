/* tasks.c: the background-task manager: threads that run handlers for the jobs of one queue.
 *
 *     worker thread:  lease one --> run its handler --> report --> again
 *     keeper thread:  every second, for each run: heartbeat; tell it when it is cancelled; and when
 * it has run too long, fail its task explicitly, leave the thread to its fate and start another in
 * its place
 *
 * A run belongs to its worker thread until it is abandoned (timed out, or the manager stopped);
 * from then on the thread touches nothing but the run and, when the handler returns at last, frees
 * it.  The manager's memory is counted, so that such a thread may outlive the manager.
 *
 * Tasks are jobs like any other: they survive a restart, and what a dead process ran is retried as
 * `crashed`. */
#include "lib/lib.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "api/api.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"

#define TASK_LEASE_MS 5000 /* how long a task stays leased after its process died */
#define KEEPER_MS 1000     /* how often the keeper looks */
#define WORKER_WAIT_MS 500 /* how long a worker waits for a job before it looks whether to stop */
#define IDLE_POLL_MS 10
#define HANDLERS_MAX 64
#define SAID_MAX (256 * 1024) /* bytes of a failure or result that a handler may say */

struct handler {
    char *action;
    lz_handler run;
    void *ctx;
};

/* struct lz_run: one run of a handler. */
struct lz_run {
    struct lz_tasks *tasks;
    char lease_id[LEASE_ID_SIZE];
    int64_t deadline_ms;   /* by the steady clock */
    atomic_bool cancelled; /* the handler is asked to end */
    bool abandoned;        /* guarded by tasks->lock: the thread owns nothing but this run */
    struct buf failure;    /* what the handler said; the thread's own */
    struct buf result;
    struct lz_run *next;
};

struct lz_tasks {
    struct lz *lz;
    struct buf queue, policy, worker_id, actor;
    struct span timeout;
    uint32_t concurrency;
    struct handler handlers[HANDLERS_MAX];
    size_t handler_count;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct lz_run *runs; /* those that are not abandoned */
    uint32_t workers;    /* worker threads that are not abandoned */
    uint32_t references; /* threads, and the owner */
    bool started, stopping, keeper_running;
    pthread_t keeper;
};

static int64_t steady_ms(void)
{
    const struct seams *seams = seams_real();
    return seams->steady(seams->ctx).us / 1000;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void tasks_destroy(struct lz_tasks *tasks)
{
    for (size_t i = 0; i < tasks->handler_count; i++)
        mem_free(tasks->handlers[i].action);
    buf_release(&tasks->queue);
    buf_release(&tasks->policy);
    buf_release(&tasks->worker_id);
    buf_release(&tasks->actor);
    pthread_mutex_destroy(&tasks->lock);
    pthread_cond_destroy(&tasks->changed);
    mem_free(tasks);
}

/* tasks_unref lets go of the manager.  The caller does not hold the lock. */
static void tasks_unref(struct lz_tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    bool last = --tasks->references == 0;
    pthread_mutex_unlock(&tasks->lock);
    if (last)
        tasks_destroy(tasks);
}

static void run_free(struct lz_run *run)
{
    buf_release(&run->failure);
    buf_release(&run->result);
    mem_free(run);
}

/* ---- what a handler may ask and say ---------------------------------------------------------- */

int lz_task_cancelled(const struct lz_task *task)
{
    return atomic_load(&task->run->cancelled);
}

void lz_task_fail(const struct lz_task *task, const char *failure)
{
    buf_clear(&task->run->failure);
    buf_add_str(&task->run->failure, failure);
}

void lz_task_result(const struct lz_task *task, const char *result)
{
    buf_clear(&task->run->result);
    buf_add_str(&task->run->result, result);
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* report tells the engine how a run ended.  A lost lease is not an error here: the task was failed
 * already. */
static void report(struct lz_tasks *tasks, struct result_item *item, struct arena *arena)
{
    struct lz_error error;
    enum lz_status status = lib_resolve(tasks->lz, buf_slice(&tasks->actor), item, arena, &error);
    if (status != LZ_OK && status != LZ_LEASE_LOST)
        log_line(LOG_ERROR, "tasks: the outcome of a task could not be recorded: %s", error.text);
}

static void report_failure(struct lz_tasks *tasks, const char *lease_id, const char *type,
                           enum failure_class class, struct slice message)
{
    struct arena arena = {0};
    struct result_item item = {.lease_id = slice_of(lease_id), .failed = true};
    failure_init(&item.failure);
    item.failure.error_type = slice_of(type);
    item.failure.has_class = true;
    item.failure.given_class = class;
    item.failure.message = message;
    report(tasks, &item, &arena);
    arena_release(&arena);
}

/* said_failure reads what the handler said of its failure; false when that is not a failure object.
 */
static bool said_failure(const struct lz_run *run, struct arena *arena, struct failure *out)
{
    struct json json;
    struct err err = {0};
    if (!run->failure.len || run->failure.status)
        return false;
    return !json_parse(buf_slice(&run->failure), &json, &err) &&
           !failure_parse(json, arena, out, &err);
}

/* report_run reports what a handler returned and said. */
static void report_run(struct lz_tasks *tasks, const struct lz_run *run, int code)
{
    struct arena arena = {0};
    struct json json;
    struct err err = {0};
    struct result_item item = {.lease_id = slice_of(run->lease_id), .failed = code != 0};
    if (item.failed && !said_failure(run, &arena, &item.failure)) {
        failure_init(&item.failure);
        item.failure.error_type = SLICE("CommandFailed");
        item.failure.error_type_json =
            arena_printf(&arena, "{\"CommandFailed\":{\"exit_code\":%d}}", code);
        item.failure.has_exit_code = true;
        item.failure.exit_code = code;
        item.failure.message = run->failure.len ? buf_slice(&run->failure)
                                                : arena_printf(&arena, "handler returned %d", code);
    }
    if (!item.failed && run->result.len && !json_parse(buf_slice(&run->result), &json, &err))
        item.result = buf_slice(&run->result);
    report(tasks, &item, &arena);
    arena_release(&arena);
}

/* ---- the worker ------------------------------------------------------------------------------ */

static const struct handler *find_handler(const struct lz_tasks *tasks, struct slice action)
{
    for (size_t i = 0; i < tasks->handler_count; i++)
        if (slice_is(action, tasks->handlers[i].action))
            return &tasks->handlers[i];
    return NULL;
}

/* call_handler reads the task from its envelope and runs its handler. */
static int call_handler(struct lz_tasks *tasks, struct lz_run *run, const struct lz_lease *lease)
{
    struct arena arena = {0};
    struct err err = {0};
    struct envelope envelope;
    struct slice body = {lease->envelope, lease->envelope_len};
    if (envelope_parse(body, SIZE_MAX, &arena, &envelope, &err)) {
        buf_addf(&run->failure, "{\"message\":\"the envelope cannot be read\"}");
        arena_release(&arena);
        return 1;
    }
    struct slice action = arena_dup(&arena, envelope.action);
    struct slice inputs =
        arena_dup(&arena, envelope.inputs.raw.len ? envelope.inputs.raw : SLICE("{}"));
    struct slice key = arena_dup(&arena, envelope.retry_key);
    const struct handler *handler = find_handler(tasks, envelope.action);
    int code = 1;
    if (!handler) {
        struct jsonw w;
        jsonw_init(&w, &run->failure);
        jsonw_object(&w);
        jsonw_put_str(&w, "class", "invalid_input");
        jsonw_put_string(&w, "message",
                         arena_printf(&arena, "no handler for action \"%.*s\"", SLICE_ARG(action)));
        jsonw_object_end(&w);
    } else if (action.ptr && inputs.ptr && key.ptr) {
        struct lz_task task = {.task_id = lease->job_id,
                               .action = action.ptr,
                               .retry_key = key.len ? key.ptr : NULL,
                               .attempt_count = lease->attempt,
                               .envelope = lease->envelope,
                               .inputs = inputs.ptr,
                               .ctx = handler->ctx,
                               .run = run};
        code = handler->run(&task);
    }
    arena_release(&arena);
    return code;
}

/* run_begin enters a run into the list that the keeper watches; NULL when the manager stops. */
static struct lz_run *run_begin(struct lz_tasks *tasks, const struct lz_lease *lease)
{
    struct lz_run *run = mem_zalloc(sizeof(*run));
    if (!run)
        return NULL;
    run->tasks = tasks;
    snprintf(run->lease_id, sizeof(run->lease_id), "%s", lease->lease_id);
    run->deadline_ms = steady_ms() + tasks->timeout.us / 1000;
    buf_init(&run->failure, SAID_MAX);
    buf_init(&run->result, SAID_MAX);
    pthread_mutex_lock(&tasks->lock);
    bool stopping = tasks->stopping;
    if (!stopping) {
        run->next = tasks->runs;
        tasks->runs = run;
        pthread_cond_broadcast(&tasks->changed);
    }
    pthread_mutex_unlock(&tasks->lock);
    if (!stopping)
        return run;
    run_free(run);
    return NULL;
}

static void unlink_run(struct lz_tasks *tasks, struct lz_run *run)
{
    struct lz_run **link = &tasks->runs;
    while (*link && *link != run)
        link = &(*link)->next;
    if (*link)
        *link = run->next;
}

/* run_end takes a run off the list.  False when it was abandoned meanwhile: nobody waits for its
 * outcome. */
static bool run_end(struct lz_tasks *tasks, struct lz_run *run)
{
    pthread_mutex_lock(&tasks->lock);
    bool abandoned = run->abandoned;
    if (!abandoned)
        unlink_run(tasks, run);
    pthread_mutex_unlock(&tasks->lock);
    return !abandoned;
}

/* work_one runs one leased task.  False when the thread was abandoned and must end. */
static bool work_one(struct lz_tasks *tasks, const struct lz_lease *lease)
{
    struct lz_run *run = run_begin(tasks, lease);
    if (!run) {
        lz_release(tasks->lz, lease->lease_id, NULL);
        return true;
    }
    int code = call_handler(tasks, run, lease);
    bool ours = run_end(tasks, run);
    if (ours)
        report_run(tasks, run, code);
    run_free(run);
    return ours;
}

static bool is_stopping(struct lz_tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    bool stopping = tasks->stopping;
    pthread_mutex_unlock(&tasks->lock);
    return stopping;
}

/* lease_task waits a little for a task; NULL when there is none. */
static struct lz_lease *lease_task(struct lz_tasks *tasks)
{
    const char *queues[] = {buf_str(&tasks->queue), NULL};
    struct lz_lease_options options = {
        .worker_id = buf_str(&tasks->worker_id),
        .queues = queues,
        .count = 1,
        .lease_ms = TASK_LEASE_MS,
        .wait_ms = WORKER_WAIT_MS,
    };
    struct lz_error error;
    struct lz_lease *lease = NULL;
    size_t count = 0;
    if (lz_lease(tasks->lz, &options, &lease, &count, &error) != LZ_OK) {
        log_line(LOG_ERROR, "tasks: no task can be leased: %s", error.text);
        nanosleep(&(struct timespec){.tv_nsec = WORKER_WAIT_MS * 1000000L}, NULL);
    }
    return count ? lease : NULL;
}

static void *worker_main(void *arg)
{
    struct lz_tasks *tasks = arg;
    bool ours = true;
    while (ours && !is_stopping(tasks)) {
        struct lz_lease *lease = lease_task(tasks);
        if (!lease)
            continue;
        ours = work_one(tasks, lease);
        lz_leases_free(lease);
    }
    pthread_mutex_lock(&tasks->lock);
    if (ours)
        tasks->workers--;
    pthread_cond_broadcast(&tasks->changed);
    pthread_mutex_unlock(&tasks->lock);
    tasks_unref(tasks);
    return NULL;
}

/* spawn_worker starts one more worker thread.  The caller holds the lock. */
static bool spawn_worker(struct lz_tasks *tasks)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker_main, tasks) != 0)
        return false;
    pthread_detach(thread);
    tasks->workers++;
    tasks->references++;
    return true;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

/* abandon takes a run away from its thread.  The caller holds the lock. */
static void abandon(struct lz_tasks *tasks, struct lz_run *run)
{
    unlink_run(tasks, run);
    run->abandoned = true;
    atomic_store(&run->cancelled, true);
    tasks->workers--;
    pthread_cond_broadcast(&tasks->changed);
}

/* take_late abandons the first run that is past its deadline and copies its lease id. */
static bool take_late(struct lz_tasks *tasks, int64_t now_ms, char lease_id[LEASE_ID_SIZE])
{
    struct lz_run *run;
    pthread_mutex_lock(&tasks->lock);
    for (run = tasks->runs; run && now_ms < run->deadline_ms; run = run->next)
        ;
    if (run) {
        memcpy(lease_id, run->lease_id, LEASE_ID_SIZE);
        abandon(tasks, run);
        if (!tasks->stopping && !spawn_worker(tasks))
            log_line(LOG_ERROR, "tasks: a worker that hangs cannot be replaced: no thread");
    }
    pthread_mutex_unlock(&tasks->lock);
    return run != NULL;
}

static void fail_late(struct lz_tasks *tasks)
{
    char lease_id[LEASE_ID_SIZE];
    char message[96];
    while (take_late(tasks, steady_ms(), lease_id)) {
        snprintf(message, sizeof(message), "the handler ran longer than its timeout of %g s",
                 span_to_seconds(tasks->timeout));
        report_failure(tasks, lease_id, "Timeout", CLASS_TIMEOUT, slice_of(message));
    }
}

/* list_leases copies the lease ids of all runs into `arena`. */
static struct heartbeat_item *list_leases(struct lz_tasks *tasks, struct arena *arena,
                                          size_t *count)
{
    size_t n = 0;
    pthread_mutex_lock(&tasks->lock);
    for (struct lz_run *run = tasks->runs; run; run = run->next)
        n++;
    struct heartbeat_item *items = arena_array(arena, n + 1, sizeof(*items));
    size_t i = 0;
    for (struct lz_run *run = tasks->runs; items && run; run = run->next, i++)
        items[i].lease_id = arena_dup(arena, slice_of(run->lease_id));
    pthread_mutex_unlock(&tasks->lock);
    *count = items ? n : 0;
    return items;
}

/* tell_cancelled passes a cancellation on to the run with this lease. */
static void tell_cancelled(struct lz_tasks *tasks, struct slice lease_id)
{
    pthread_mutex_lock(&tasks->lock);
    for (struct lz_run *run = tasks->runs; run; run = run->next)
        if (slice_is(lease_id, run->lease_id))
            atomic_store(&run->cancelled, true);
    pthread_mutex_unlock(&tasks->lock);
}

static void heartbeat_all(struct lz_tasks *tasks)
{
    struct arena arena = {0};
    struct heartbeat_command heartbeat = {
        .command = {.kind = COMMAND_HEARTBEAT, .actor = buf_slice(&tasks->actor), .arena = &arena},
        .worker_id = buf_slice(&tasks->worker_id),
        .lease = span_ms(TASK_LEASE_MS),
    };
    heartbeat.items = list_leases(tasks, &arena, &heartbeat.count);
    if (heartbeat.count && engine_call(tasks->lz->engine, &heartbeat.command) == STATUS_OK)
        for (size_t i = 0; i < heartbeat.count; i++)
            if (heartbeat.items[i].outcome != HEARTBEAT_EXTENDED)
                tell_cancelled(tasks, heartbeat.items[i].lease_id);
    arena_release(&arena);
}

/* keeper_sleep waits until the next look, the next deadline or the stop.  The caller holds the
 * lock. */
static void keeper_sleep(struct lz_tasks *tasks)
{
    int64_t now = steady_ms(), until = now + KEEPER_MS;
    for (struct lz_run *run = tasks->runs; run; run = run->next)
        if (run->deadline_ms < until)
            until = run->deadline_ms;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + (until > now ? until - now : 0) * 1000000;
    at.tv_sec += ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&tasks->changed, &tasks->lock, &at);
}

static void *keeper_main(void *arg)
{
    struct lz_tasks *tasks = arg;
    int64_t beat_ms = steady_ms();
    pthread_mutex_lock(&tasks->lock);
    while (tasks->keeper_running) {
        keeper_sleep(tasks);
        pthread_mutex_unlock(&tasks->lock);
        fail_late(tasks);
        if (steady_ms() - beat_ms >= KEEPER_MS) {
            heartbeat_all(tasks);
            beat_ms = steady_ms();
        }
        pthread_mutex_lock(&tasks->lock);
    }
    pthread_mutex_unlock(&tasks->lock);
    tasks_unref(tasks);
    return NULL;
}

/* ---- the public functions -------------------------------------------------------------------- */

enum lz_status lz_tasks_new(struct lz *lz, const struct lz_tasks_options *options,
                            struct lz_tasks **out, struct lz_error *error)
{
    static const struct lz_tasks_options defaults;
    struct err err = {0};
    if (!options)
        options = &defaults;
    struct lz_tasks *tasks = mem_zalloc(sizeof(*tasks));
    if (!tasks)
        return lib_fail(error, err_no_memory(&err), &err);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&tasks->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&tasks->lock, NULL);
    tasks->lz = lz;
    tasks->references = 1;
    tasks->concurrency = options->concurrency ? options->concurrency : 4;
    tasks->timeout =
        span_from_seconds(options->timeout_seconds > 0 ? options->timeout_seconds : 60);
    buf_init(&tasks->queue, ENVELOPE_QUEUE_MAX);
    buf_init(&tasks->policy, ENVELOPE_ID_MAX);
    buf_init(&tasks->worker_id, ENVELOPE_ID_MAX);
    buf_init(&tasks->actor, ENVELOPE_ID_MAX + 16);
    buf_add_str(&tasks->queue, options->queue ? options->queue : "background");
    buf_add_str(&tasks->policy, options->policy ? options->policy : "background");
    buf_addf(&tasks->worker_id, "tasks-%ld", (long)getpid());
    buf_addf(&tasks->actor, "worker:%s", buf_str(&tasks->worker_id));
    enum status status = buf_status(&tasks->queue, &err);
    if (!status)
        status = buf_status(&tasks->policy, &err);
    if (status) {
        tasks_destroy(tasks);
        return lib_fail(error, status, &err);
    }
    *out = tasks;
    return lib_ok(error);
}

enum lz_status lz_tasks_handle(struct lz_tasks *tasks, const char *action, lz_handler handler,
                               void *ctx, struct lz_error *error)
{
    struct err err = {0};
    enum status status = STATUS_OK;
    if (tasks->started)
        status = err_set(&err, STATUS_CONFLICT, "handlers are set before lz_tasks_start");
    else if (find_handler(tasks, slice_of(action)))
        status = err_set(&err, STATUS_CONFLICT, "action \"%.80s\" has a handler", action);
    else if (tasks->handler_count == HANDLERS_MAX)
        status = err_set(&err, STATUS_LIMIT, "a manager has at most %d handlers", HANDLERS_MAX);
    if (status)
        return lib_fail(error, status, &err);
    char *copy = mem_strdup(action);
    if (!copy)
        return lib_fail(error, err_no_memory(&err), &err);
    tasks->handlers[tasks->handler_count++] =
        (struct handler){.action = copy, .run = handler, .ctx = ctx};
    return lib_ok(error);
}

enum lz_status lz_tasks_start(struct lz_tasks *tasks, struct lz_error *error)
{
    struct err err = {0};
    if (tasks->started) {
        err_set(&err, STATUS_CONFLICT, "the manager is started");
        return lib_fail(error, STATUS_CONFLICT, &err);
    }
    pthread_mutex_lock(&tasks->lock);
    tasks->started = tasks->keeper_running = true;
    tasks->references++;
    bool ok = pthread_create(&tasks->keeper, NULL, keeper_main, tasks) == 0;
    if (!ok) {
        tasks->references--;
        tasks->started = tasks->keeper_running = false;
    }
    for (uint32_t i = 0; ok && i < tasks->concurrency; i++)
        ok = spawn_worker(tasks);
    pthread_mutex_unlock(&tasks->lock);
    if (ok)
        return lib_ok(error);
    lz_tasks_stop(tasks, 0);
    err_set(&err, STATUS_UNAVAILABLE, "the manager's threads cannot be started");
    return lib_fail(error, STATUS_UNAVAILABLE, &err);
}

enum lz_status lz_tasks_submit(struct lz_tasks *tasks, const struct lz_task_spec *spec,
                               struct lz_pushed *out, struct lz_error *error)
{
    struct buf body;
    struct jsonw w;
    struct err err = {0};
    buf_init(&body, ENVELOPE_BODY_MAX);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_put_str(&w, "action", spec->action ? spec->action : "");
    jsonw_put_string(&w, "queue", buf_slice(&tasks->queue));
    jsonw_put_text(&w, "retry_key", slice_of(spec->retry_key));
    jsonw_put_string(&w, "retry_policy",
                     spec->policy ? slice_of(spec->policy) : buf_slice(&tasks->policy));
    jsonw_put_raw(&w, "inputs", spec->inputs ? slice_of(spec->inputs) : SLICE("{}"));
    if (spec->document)
        jsonw_put_raw(&w, "document", slice_of(spec->document));
    jsonw_object_end(&w);
    enum status status = buf_status(&body, &err);
    enum lz_status result =
        status ? lib_fail(error, status, &err) : lib_push(tasks->lz, buf_slice(&body), out, error);
    buf_release(&body);
    return result;
}

/* struct document_read: what lz_tasks_document asks the store. */
struct document_read {
    struct slice task_id;
    struct slice document;
};

static enum status read_document(struct engine *engine, struct store *store, void *ctx,
                                 struct arena *arena, struct err *err)
{
    struct document_read *read = ctx;
    struct job_row row;
    (void)engine;
    enum status status = store->job_find(store, read->task_id, arena, &row, err);
    return status ? status : store->document_get(store, row.job.seq, arena, &read->document, err);
}

enum lz_status lz_tasks_document(struct lz_tasks *tasks, const char *task_id, char **answer,
                                 struct lz_error *error)
{
    struct arena arena = {0};
    struct document_read document = {.task_id = slice_of(task_id)};
    struct read_command read = {
        .command = {.kind = COMMAND_READ, .arena = &arena},
        .read = read_document,
        .ctx = &document,
    };
    enum status status = engine_call(tasks->lz->engine, &read.command);
    if (!status) {
        *answer = mem_zalloc(document.document.len + 1);
        if (*answer)
            memcpy(*answer, document.document.ptr, document.document.len);
        else
            status = err_no_memory(&read.command.err);
    }
    arena_release(&arena);
    return status ? lib_fail(error, status, &read.command.err) : lib_ok(error);
}

/* struct busy_read: how many tasks are not ended. */
struct busy_read {
    struct slice queue;
    int64_t live;
};

static enum status read_busy(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct busy_read *busy = ctx;
    struct queue_info *queues;
    size_t count;
    (void)engine;
    busy->live = 0;
    enum status status = store->queue_list(store, arena, &queues, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        if (slice_eq(queues[i].name, busy->queue))
            busy->live = queues[i].counts[JOB_PENDING] + queues[i].counts[JOB_SCHEDULED] +
                         queues[i].counts[JOB_RUNNING];
    return status;
}

enum lz_status lz_tasks_idle(struct lz_tasks *tasks, uint32_t timeout_ms, struct lz_error *error)
{
    int64_t until = steady_ms() + timeout_ms;
    struct err err = {0};
    for (;;) {
        struct arena arena = {0};
        struct busy_read busy = {.queue = buf_slice(&tasks->queue)};
        struct read_command read = {
            .command = {.kind = COMMAND_READ, .arena = &arena},
            .read = read_busy,
            .ctx = &busy,
        };
        enum status status = engine_call(tasks->lz->engine, &read.command);
        arena_release(&arena);
        if (status)
            return lib_fail(error, status, &read.command.err);
        if (!busy.live)
            return lib_ok(error);
        if (steady_ms() >= until)
            break;
        nanosleep(&(struct timespec){.tv_nsec = IDLE_POLL_MS * 1000000L}, NULL);
    }
    err_set(&err, STATUS_LIMIT, "tasks still wait or run after %u ms", timeout_ms);
    return lib_fail(error, STATUS_LIMIT, &err);
}

/* wait_for_workers waits until all workers have ended or the time is over.  The caller holds the
 * lock. */
static void wait_for_workers(struct lz_tasks *tasks, uint32_t grace_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)grace_ms * 1000000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    while (tasks->workers &&
           pthread_cond_timedwait(&tasks->changed, &tasks->lock, &until) != ETIMEDOUT)
        ;
}

void lz_tasks_stop(struct lz_tasks *tasks, uint32_t grace_ms)
{
    if (!tasks->started)
        return;
    pthread_mutex_lock(&tasks->lock);
    tasks->stopping = true;
    wait_for_workers(tasks, grace_ms);
    while (tasks->runs) {
        char lease_id[LEASE_ID_SIZE];
        memcpy(lease_id, tasks->runs->lease_id, LEASE_ID_SIZE);
        abandon(tasks, tasks->runs);
        pthread_mutex_unlock(&tasks->lock);
        report_failure(tasks, lease_id, "Crashed", CLASS_CRASHED,
                       SLICE("the task manager stopped while the handler ran"));
        pthread_mutex_lock(&tasks->lock);
    }
    while (tasks->workers)
        pthread_cond_wait(&tasks->changed, &tasks->lock);
    bool keeper = tasks->keeper_running;
    tasks->keeper_running = false;
    pthread_cond_broadcast(&tasks->changed);
    pthread_mutex_unlock(&tasks->lock);
    if (keeper)
        pthread_join(tasks->keeper, NULL);
    tasks->started = tasks->stopping = false;
}

void lz_tasks_free(struct lz_tasks *tasks)
{
    if (!tasks)
        return;
    lz_tasks_stop(tasks, 0);
    tasks_unref(tasks);
}

/* ---- the policy unit ------------------------------------------------------------------------- */

int lz_should_schedule_retry(const struct lz_retry_policy *policy, uint32_t attempt_count)
{
    return attempt_count <= policy->max_retry_attempts;
}

double lz_delay_for_attempt(const struct lz_retry_policy *policy, uint32_t attempt_count)
{
    struct policy unit = {
        .backoff = BACKOFF_EXPONENTIAL,
        .initial_delay = span_from_seconds(policy->base_delay_seconds),
        .multiplier = 2,
        .max_delay = span_seconds(24 * 3600),
    };
    return span_to_seconds(policy_delay(&unit, attempt_count ? attempt_count : 1));
}
