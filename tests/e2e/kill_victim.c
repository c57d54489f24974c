/* kill_victim: a program that uses the library as hard as it can, and is killed for it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "e2e/kill.h"
#include "sim/rng.h"

#define PUSHERS 2
#define WORKERS 3

struct thread {
    struct lz *lz;
    unsigned life, number;
    int pipe;
    struct rng rng;
};

void kill_body(const char *id, char out[KILL_BODY_SIZE])
{
    unsigned long sum = 5381;

    for (const char *c = id; *c; c++)
        sum = sum * 33 + (unsigned char)*c;
    snprintf(out, KILL_BODY_SIZE,
             "{\"job_id\":\"%s\",\"action\":\"kill\",\"queue\":\"q%lu\",\"priority\":%lu,"
             "\"inputs\":{\"sum\":%lu,\"filler\":\"%.*s\"},"
             "\"retry_policy\":{\"max_attempts\":%d,\"backoff_strategy\":\"fixed\","
             "\"initial_delay_seconds\":0.001,\"jitter\":false}}",
             id, sum % 3, sum % 10, sum, (int)(sum % 200),
             "filler filler filler filler filler filler filler filler filler filler filler filler "
             "filler filler filler filler filler filler filler filler filler filler filler filler "
             "filler filler filler filler filler",
             KILL_ATTEMPTS);
}

/* tell writes one line: whole or not at all, as it is shorter than PIPE_BUF. */
static void tell(const struct thread *thread, char what, const char *id)
{
    char line[KILL_ID_SIZE + 8];
    int len = snprintf(line, sizeof(line), "%c %s\n", what, id);

    if (write(thread->pipe, line, (size_t)len) != len)
        _exit(5);
}

/* give_up ends the victim: what it met is not the driver's doing. */
static void give_up(const char *what, const struct lz_error *error)
{
    fprintf(stderr, "victim: %s: %s: %s\n", what, lz_status_name(error->status), error->text);
    _exit(3);
}

static void *push_jobs(void *arg)
{
    struct thread *thread = arg;
    struct lz_error error;

    for (unsigned n = 0;; n++) {
        char id[KILL_ID_SIZE], body[KILL_BODY_SIZE];
        struct lz_pushed pushed;

        snprintf(id, sizeof(id), "k%u-%u-%u", thread->life, thread->number, n);
        kill_body(id, body);
        if (lz_push(thread->lz, body, &pushed, &error) != LZ_OK)
            give_up("push", &error);
        if (!pushed.created)
            give_up("push: known already", &error);
        tell(thread, 'p', id);
    }
    return NULL;
}

static void fail_job(struct thread *thread, const struct lz_lease *lease, const char *failure)
{
    struct lz_error error;
    struct lz_outcome outcome;
    enum lz_status status = lz_fail(thread->lz, lease->lease_id, failure, &outcome, &error);

    if (status != LZ_OK && status != LZ_LEASE_LOST)
        give_up("fail", &error);
    if (status == LZ_OK && strcmp(outcome.state, "dead") == 0)
        tell(thread, 'd', lease->job_id);
}

static void complete_job(struct thread *thread, const struct lz_lease *lease)
{
    struct lz_error error;
    enum lz_status status = lz_complete(thread->lz, lease->lease_id, "{\"ok\":true}", &error);

    if (status != LZ_OK && status != LZ_LEASE_LOST)
        give_up("complete", &error);
    if (status == LZ_OK)
        tell(thread, 'c', lease->job_id);
}

static void run_job(struct thread *thread, const struct lz_lease *lease)
{
    struct lz_error error;
    int cancelled;
    uint64_t draw = rng_below(&thread->rng, 100);

    if (lease->attempt > KILL_ATTEMPTS) {
        fprintf(stderr, "victim: job %s is leased for run %u\n", lease->job_id, lease->attempt);
        _exit(4);
    }
    if (draw < 5) /* abandoned: the lease will end */
        return;
    if (draw < 10)
        lz_heartbeat(thread->lz, "w", lease->lease_id, 50, &cancelled, &error);
    if (draw < 12)
        lz_release(thread->lz, lease->lease_id, &error);
    else if (draw < 35)
        fail_job(thread, lease, "{\"message\":\"no answer\",\"class\":\"server_error\"}");
    else if (draw < 40)
        fail_job(thread, lease, "{\"message\":\"no\",\"class\":\"permission_denied\"}");
    else
        complete_job(thread, lease);
}

static void *run_jobs(void *arg)
{
    struct thread *thread = arg;
    struct lz_lease_options options = {.worker_id = "w", .count = 4, .lease_ms = 60, .wait_ms = 20};
    struct lz_error error;

    for (;;) {
        struct lz_lease *leases;
        size_t count;

        if (lz_lease(thread->lz, &options, &leases, &count, &error) != LZ_OK)
            give_up("lease", &error);
        for (size_t i = 0; i < count; i++)
            run_job(thread, &leases[i]);
        lz_leases_free(leases);
    }
    return NULL;
}

int victim_main(const char *data, unsigned life, int pipe)
{
    static struct thread threads[PUSHERS + WORKERS];
    struct lz_options options = {.data = data, .actor = "victim", .lock_wait_ms = 5000};
    struct lz_error error;
    struct lz *lz;
    pthread_t ids[PUSHERS + WORKERS];

    if (lz_open(&options, &lz, &error) != LZ_OK)
        give_up("open", &error);
    for (unsigned i = 0; i < PUSHERS + WORKERS; i++) {
        threads[i] = (struct thread){lz, life, i, pipe, rng_fork(life, i)};
        if (pthread_create(&ids[i], NULL, i < PUSHERS ? push_jobs : run_jobs, &threads[i]) != 0)
            return 6;
    }
    for (unsigned i = 0; i < PUSHERS + WORKERS; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
