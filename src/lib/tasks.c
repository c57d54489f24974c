/* tasks.c: the background-task manager as the embedding program sees it.  tasks.h says how it
 * works. */
#include "lib/tasks.h"

#include <errno.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "base/mem.h"

#define IDLE_POLL_MS 10

int64_t tasks_steady_ms(void)
{
    const struct seams *seams = seams_real();
    return seams->steady(seams->ctx).us / 1000;
}

bool tasks_wait(struct lz_tasks *tasks, int64_t until_ms)
{
    int64_t left_ms = until_ms - tasks_steady_ms();
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (left_ms > 0 ? left_ms : 0) * 1000000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return pthread_cond_timedwait(&tasks->changed, &tasks->lock, &until) != ETIMEDOUT;
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

void tasks_unref(struct lz_tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    bool last = --tasks->references == 0;
    pthread_mutex_unlock(&tasks->lock);
    if (last)
        tasks_destroy(tasks);
}

void tasks_abandon(struct lz_tasks *tasks, struct lz_run *run)
{
    worker_unlink(tasks, run);
    run->abandoned = true;
    atomic_store(&run->cancelled, true);
    tasks->workers--;
    pthread_cond_broadcast(&tasks->changed);
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
    if (!action || !*action || !handler)
        status = err_set(&err, STATUS_INVALID, "an action and its handler are needed");
    else if (tasks->started)
        status = err_set(&err, STATUS_CONFLICT, "handlers are set before lz_tasks_start");
    else if (worker_find_handler(tasks, slice_of(action)))
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
        ok = worker_spawn(tasks);
    pthread_mutex_unlock(&tasks->lock);
    if (ok)
        return lib_ok(error);
    lz_tasks_stop(tasks, 0);
    err_set(&err, STATUS_UNAVAILABLE, "the manager's threads cannot be started");
    return lib_fail(error, STATUS_UNAVAILABLE, &err);
}

/* check_object refuses a text that is not exactly one JSON object: it is put into an envelope as it
 * is. */
static enum status check_object(const char *field, const char *text, struct err *err)
{
    struct json json;
    if (!text)
        return STATUS_OK;
    enum status status = json_parse(slice_of(text), &json, err);
    if (!status && json.type != JSON_OBJECT)
        status = err_set(err, STATUS_INVALID, "must be a JSON object");
    if (status)
        err_prefix(err, "%s", field);
    return status;
}

static void print_task(const struct lz_tasks *tasks, const struct lz_task_spec *spec,
                       struct buf *out)
{
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_string(&w, "action", slice_of(spec->action));
    jsonw_put_string(&w, "queue", buf_slice(&tasks->queue));
    jsonw_put_text(&w, "retry_key", slice_of(spec->retry_key));
    jsonw_put_string(&w, "retry_policy",
                     spec->policy ? slice_of(spec->policy) : buf_slice(&tasks->policy));
    jsonw_put_raw(&w, "inputs", spec->inputs ? slice_of(spec->inputs) : SLICE("{}"));
    if (spec->document)
        jsonw_put_raw(&w, "document", slice_of(spec->document));
    jsonw_object_end(&w);
}

enum lz_status lz_tasks_submit(struct lz_tasks *tasks, const struct lz_task_spec *spec,
                               struct lz_pushed *out, struct lz_error *error)
{
    struct buf body;
    struct err err = {0};
    enum status status = check_object("inputs", spec->inputs, &err);
    if (!status)
        status = check_object("document", spec->document, &err);
    if (status)
        return lib_fail(error, status, &err);
    buf_init(&body, ENVELOPE_BODY_MAX);
    print_task(tasks, spec, &body);
    status = buf_status(&body, &err);
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
    int64_t until = tasks_steady_ms() + timeout_ms;
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
        if (tasks_steady_ms() >= until)
            break;
        nanosleep(&(struct timespec){.tv_nsec = IDLE_POLL_MS * 1000000L}, NULL);
    }
    err_set(&err, STATUS_LIMIT, "tasks still wait or run after %u ms", timeout_ms);
    return lib_fail(error, STATUS_LIMIT, &err);
}

void lz_tasks_stop(struct lz_tasks *tasks, uint32_t grace_ms)
{
    if (!tasks->started)
        return;
    pthread_mutex_lock(&tasks->lock);
    tasks->stopping = true;
    int64_t until_ms = tasks_steady_ms() + grace_ms;
    while (tasks->workers && tasks_wait(tasks, until_ms))
        ;
    while (tasks->runs) {
        char lease_id[LEASE_ID_SIZE];
        int64_t duration_ms = tasks_steady_ms() - tasks->runs->started_ms;
        memcpy(lease_id, tasks->runs->lease_id, LEASE_ID_SIZE);
        tasks_abandon(tasks, tasks->runs);
        pthread_mutex_unlock(&tasks->lock);
        worker_report_failure(tasks, lease_id, "Crashed", CLASS_CRASHED, duration_ms,
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
        .max_delay = span_seconds((int64_t)24 * 3600),
    };
    return span_to_seconds(policy_delay(&unit, attempt_count ? attempt_count : 1));
}
