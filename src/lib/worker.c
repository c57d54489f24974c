/* worker.c: the threads that run handlers, and what they report. */
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "lib/tasks.h"

#define WORKER_WAIT_MS 500 /* how long a worker waits for a job before it looks whether to stop */
#define REPORT_AGAIN_MS 200
#define SAID_MAX (4u << 20) /* bytes of a failure or result that a handler may say */

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

/* report tells the engine how a run ended.  While the store cannot be written it tries again, for
 * as long as the lease lasts: what was done shall not be done again.  A lost lease is not an error
 * here: the task was failed already. */
static void report(struct lz_tasks *tasks, struct result_item *item, struct arena *arena)
{
    int64_t until_ms = tasks_steady_ms() + TASK_LEASE_MS;
    struct lz_error error;
    enum lz_status status;
    while ((status = lib_resolve(tasks->lz, buf_slice(&tasks->actor), item, arena, &error)) ==
               LZ_STORE &&
           tasks_steady_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = REPORT_AGAIN_MS * 1000000L}, NULL);
    if (status != LZ_OK && status != LZ_LEASE_LOST)
        log_line(LOG_ERROR, "tasks: the outcome of a task could not be recorded: %s", error.text);
}

void worker_report_failure(struct lz_tasks *tasks, const char *lease_id, const char *type,
                           enum failure_class class, int64_t duration_ms, struct slice message)
{
    struct arena arena = {0};
    struct result_item item = {.lease_id = slice_of(lease_id), .failed = true};
    failure_init(&item.failure);
    item.failure.error_type = slice_of(type);
    item.failure.has_class = true;
    item.failure.given_class = class;
    item.failure.message = message;
    item.failure.duration_ms = duration_ms;
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

/* plain_failure is the failure of a handler that did not say why in the form of a failure object.
 */
static void plain_failure(const struct lz_run *run, int code, struct arena *arena,
                          struct failure *out)
{
    failure_init(out);
    out->error_type = SLICE("CommandFailed");
    out->error_type_json = arena_printf(arena, "{\"CommandFailed\":{\"exit_code\":%d}}", code);
    out->has_exit_code = true;
    out->exit_code = code;
    if (run->failure.status)
        out->message = SLICE("the handler said more about its failure than can be kept");
    else if (run->failure.len)
        out->message = buf_slice(&run->failure);
    else
        out->message = arena_printf(arena, "handler returned %d", code);
}

/* said_result is the result that the handler handed back; one that is no JSON is not kept, and said
 * so. */
static struct slice said_result(const struct lz_run *run)
{
    struct json json;
    struct err err = {0};
    if (buf_status(&run->result, &err) ||
        (run->result.len && json_parse(buf_slice(&run->result), &json, &err))) {
        log_line(LOG_WARN, "tasks: the result of a task is not kept: %s", err.text);
        return (struct slice){0};
    }
    return buf_slice(&run->result);
}

/* report_run reports what a handler returned and said. */
static void report_run(struct lz_tasks *tasks, const struct lz_run *run, int code)
{
    struct arena arena = {0};
    struct result_item item = {.lease_id = slice_of(run->lease_id), .failed = code != 0};
    if (!item.failed)
        item.result = said_result(run);
    else if (!said_failure(run, &arena, &item.failure))
        plain_failure(run, code, &arena, &item.failure);
    if (item.failed && item.failure.duration_ms < 0)
        item.failure.duration_ms = tasks_steady_ms() - run->started_ms;
    report(tasks, &item, &arena);
    arena_release(&arena);
}

/* ---- the worker ------------------------------------------------------------------------------ */

const struct handler *worker_find_handler(const struct lz_tasks *tasks, struct slice action)
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
    const struct handler *handler = worker_find_handler(tasks, envelope.action);
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
    run->started_ms = tasks_steady_ms();
    run->deadline_ms = run->started_ms + tasks->timeout.us / 1000;
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

void worker_unlink(struct lz_tasks *tasks, struct lz_run *run)
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
        worker_unlink(tasks, run);
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

bool worker_spawn(struct lz_tasks *tasks)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker_main, tasks) != 0)
        return false;
    pthread_detach(thread);
    tasks->workers++;
    tasks->references++;
    return true;
}
