/* seed_letters: makes jobs and dead letters for the tests of the command line.
 *
 *     seed_letters --data DIR [STEP]...
 *
 * Steps are carried out in order, and each prints one line:
 *
 *     --push ENVELOPE    pushes a job                        "job JOB_ID"
 *     --fail FAILURE     leases that job and fails it        "dead DLQ_ID" or "scheduled"
 *     --complete         leases that job and completes it    "done"
 *     --hold             leases that job and keeps it        "held LEASE_ID"
 *     --wait-for-line    reads a line of standard input: so that a test can look at a directory
 * that somebody owns                       "waiting" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lazaret.h"

#define HELD_MAX 64
#define LEASE_WAIT_MS 20000

struct seeding {
    struct lz *lz;
    struct lz_pushed job;      /* the last that was pushed */
    char others[HELD_MAX][64]; /* leases of jobs that came in between: given back at the end */
    size_t other_count;
};

static _Noreturn void die(const char *what, const struct lz_error *error)
{
    fprintf(stderr, "seed_letters: %s: %s\n", what, error ? error->text : "failed");
    exit(1);
}

static void push(struct seeding *s, const char *envelope)
{
    struct lz_error error = {0};
    if (lz_push(s->lz, envelope, &s->job, &error) != LZ_OK)
        die("push", &error);
    printf("job %s\n", s->job.job_id);
}

/* lease takes the last job, and writes its lease's id. */
static void lease(struct seeding *s, char out[64])
{
    struct lz_lease_options options = {
        .worker_id = "seed", .count = 1, .lease_ms = 3600000, .wait_ms = LEASE_WAIT_MS};
    struct lz_error error = {0};

    for (;;) {
        struct lz_lease *leases;
        size_t count;
        if (lz_lease(s->lz, &options, &leases, &count, &error) != LZ_OK)
            die("lease", &error);
        if (count == 0)
            die("lease: the job did not become ready", NULL);
        int mine = strcmp(leases[0].job_id, s->job.job_id) == 0;
        if (!mine && s->other_count == HELD_MAX)
            die("lease: too many other jobs", NULL);
        snprintf(mine ? out : s->others[s->other_count++], 64, "%s", leases[0].lease_id);
        lz_leases_free(leases);
        if (mine)
            return;
    }
}

static void fail(struct seeding *s, const char *failure)
{
    struct lz_outcome outcome;
    struct lz_error error = {0};
    char id[64];

    lease(s, id);
    if (lz_fail(s->lz, id, failure, &outcome, &error) != LZ_OK)
        die("fail", &error);
    if (strcmp(outcome.state, "dead") == 0)
        printf("dead %s\n", outcome.dlq_id);
    else
        printf("%s\n", outcome.state);
}

static void complete(struct seeding *s)
{
    struct lz_error error = {0};
    char id[64];

    lease(s, id);
    if (lz_complete(s->lz, id, NULL, &error) != LZ_OK)
        die("complete", &error);
    printf("done\n");
}

static void hold(struct seeding *s)
{
    char id[64];
    lease(s, id);
    printf("held %s\n", id);
}

static void wait_for_line(void)
{
    printf("waiting\n");
    fflush(stdout);
    while (getchar() > '\n')
        ;
}

/* step carries out argv[*at] and moves on. */
static void step(struct seeding *s, char **argv, int argc, int *at)
{
    const char *word = argv[(*at)++];
    const char *value = *at < argc ? argv[*at] : NULL;

    if (strcmp(word, "--complete") == 0)
        complete(s);
    else if (strcmp(word, "--hold") == 0)
        hold(s);
    else if (strcmp(word, "--wait-for-line") == 0)
        wait_for_line();
    else if (strcmp(word, "--push") == 0 && value && ++*at)
        push(s, value);
    else if (strcmp(word, "--fail") == 0 && value && ++*at)
        fail(s, value);
    else
        die(word, NULL);
}

int main(int argc, char **argv)
{
    struct seeding s = {0};
    struct lz_error error = {0};
    int at = 3;

    if (argc < 3 || strcmp(argv[1], "--data") != 0)
        die("usage: seed_letters --data DIR [STEP]...", NULL);
    struct lz_options options = {.data = argv[2], .actor = "worker:seed", .lock_wait_ms = 20000};
    if (lz_open(&options, &s.lz, &error) != LZ_OK)
        die("open", &error);
    while (at < argc)
        step(&s, argv, argc, &at);
    for (size_t i = 0; i < s.other_count; i++)
        lz_release(s.lz, s.others[i], NULL);
    lz_close(s.lz);
    return 0;
}
