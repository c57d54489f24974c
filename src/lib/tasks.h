/* tasks: what the files of the background-task manager share.
 *
 *     worker thread (worker.c):  lease one --> run its handler --> report --> again
 *     keeper thread (keeper.c):  every second, for each run: heartbeat; tell it when it is
 * cancelled; and when it has run too long, fail its task explicitly, leave the thread to its fate
 * and start another in its place
 *
 * A run belongs to its worker thread until it is abandoned (timed out, or the manager stopped);
 * from then on the thread touches nothing but the run and, when the handler returns at last, frees
 * it.  The manager's memory is counted, so that such a thread may outlive the manager.
 *
 * Tasks are jobs like any other: they survive a restart, and what a dead process ran is retried as
 * `crashed`. */
#ifndef LAZARET_LIB_TASKS_H
#define LAZARET_LIB_TASKS_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/lib.h"

#define TASK_LEASE_MS 15000 /* how long a task stays leased after its process died */
#define HANDLERS_MAX 64

struct handler {
    char *action;
    lz_handler run;
    void *ctx;
};

/* struct lz_run: one run of a handler. */
struct lz_run {
    struct lz_tasks *tasks;
    char lease_id[LEASE_ID_SIZE];
    int64_t started_ms; /* by the steady clock, as is the next */
    int64_t deadline_ms;
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

/* tasks_steady_ms is the clock that runs are timed by. */
int64_t tasks_steady_ms(void);

/* tasks_wait waits for `changed` until the steady time `until_ms`; false when that has passed.  The
 * caller holds the lock. */
bool tasks_wait(struct lz_tasks *tasks, int64_t until_ms);

/* tasks_unref lets go of the manager.  The caller does not hold the lock. */
void tasks_unref(struct lz_tasks *tasks);

/* tasks_abandon takes a run away from its thread.  The caller holds the lock. */
void tasks_abandon(struct lz_tasks *tasks, struct lz_run *run);

/* worker_spawn starts one more worker thread.  The caller holds the lock. */
bool worker_spawn(struct lz_tasks *tasks);

/* worker_unlink takes a run off the list.  The caller holds the lock. */
void worker_unlink(struct lz_tasks *tasks, struct lz_run *run);

/* worker_report_failure fails the task of a run that its thread will not report. */
void worker_report_failure(struct lz_tasks *tasks, const char *lease_id, const char *type,
                           enum failure_class class, int64_t duration_ms, struct slice message);

/* worker_find_handler is the handler of an action; NULL when there is none. */
const struct handler *worker_find_handler(const struct lz_tasks *tasks, struct slice action);

/* keeper_main is the keeper thread. */
void *keeper_main(void *tasks);

#endif
