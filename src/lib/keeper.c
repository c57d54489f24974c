/* keeper.c: the thread that keeps the leases of running tasks, and ends those that run too long. */
#include "lib/tasks.h"

#define KEEPER_MS 1000 /* how often it looks */

/* take_late abandons the first run that is past its deadline and copies its lease id. */
static bool take_late(struct lz_tasks *tasks, int64_t now_ms, char lease_id[LEASE_ID_SIZE])
{
    struct lz_run *run;
    pthread_mutex_lock(&tasks->lock);
    for (run = tasks->runs; run && now_ms < run->deadline_ms; run = run->next)
        ;
    if (run) {
        memcpy(lease_id, run->lease_id, LEASE_ID_SIZE);
        tasks_abandon(tasks, run);
    }
    pthread_mutex_unlock(&tasks->lock);
    return run != NULL;
}

/* replace_workers starts threads for those that were abandoned.  One that cannot be started now is
 * started at a later look. */
static void replace_workers(struct lz_tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    while (!tasks->stopping && tasks->workers < tasks->concurrency && worker_spawn(tasks))
        ;
    pthread_mutex_unlock(&tasks->lock);
}

static void fail_late(struct lz_tasks *tasks)
{
    char lease_id[LEASE_ID_SIZE];
    char message[96];
    while (take_late(tasks, tasks_steady_ms(), lease_id)) {
        snprintf(message, sizeof(message), "the handler ran longer than its timeout of %g s",
                 span_to_seconds(tasks->timeout));
        worker_report_failure(tasks, lease_id, "Timeout", CLASS_TIMEOUT, tasks->timeout.us / 1000,
                              slice_of(message));
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
    int64_t until = tasks_steady_ms() + KEEPER_MS;
    for (struct lz_run *run = tasks->runs; run; run = run->next)
        if (run->deadline_ms < until)
            until = run->deadline_ms;
    tasks_wait(tasks, until);
}

void *keeper_main(void *arg)
{
    struct lz_tasks *tasks = arg;
    int64_t beat_ms = tasks_steady_ms();
    pthread_mutex_lock(&tasks->lock);
    while (tasks->keeper_running) {
        keeper_sleep(tasks);
        pthread_mutex_unlock(&tasks->lock);
        fail_late(tasks);
        replace_workers(tasks);
        if (tasks_steady_ms() - beat_ms >= KEEPER_MS) {
            heartbeat_all(tasks);
            beat_ms = tasks_steady_ms();
        }
        pthread_mutex_lock(&tasks->lock);
    }
    pthread_mutex_unlock(&tasks->lock);
    tasks_unref(tasks);
    return NULL;
}
