/* inspect_letter: whether letters are as they should be, and counters are what a recount gives.
 *
 * Counters (letter_counts, groups, queues) are kept as letters change and never counted by the
 * store; here they are counted, from the listing. */
#include "sim/inspect.h"

#include <inttypes.h>

#define LETTERS_MAX 256
#define PAGE 5

/* struct shelf: all letters, newest first. */
struct shelf {
    struct letter letters[LETTERS_MAX];
    size_t count;
};

static bool is_open(const struct letter *letter)
{
    return letter->state == LETTER_DEAD || letter->state == LETTER_RECOVERING;
}

static void check_letter(struct inspection *in, const struct letter *letter)
{
    const struct model_job *job = model_by_letter(in->model, letter->dlq_id);

    if (!job || job->state == MODEL_PURGED) {
        model_violated(in->model, "letter %.*s is listed, and nobody knows it",
                       SLICE_ARG(letter->dlq_id));
        return;
    }
    if (letter->state != job->letter)
        inspect_wrong(in, job, letter_state_name(letter->state));
    if (!slice_eq(letter->job_id, job->id) || letter->job.seq != job->seq)
        inspect_wrong(in, job, "its letter names another job");
    if (letter->escalated != job->escalated)
        inspect_wrong(in, job, "its letter is escalated, or is not");
    if (job->state == MODEL_DEAD && letter->failure_count != job->failure_count)
        inspect_wrong(in, job, "its letter miscounts the failures");
    if (!slice_eq(letter->recovered_by, job->settled_by))
        inspect_wrong(in, job, "its letter does not say who brought it to its state");
    if (instant_is_set(letter->recovered_at) != !is_open(letter))
        inspect_wrong(in, job, "its letter was settled, or was not, and has a time for it");
    if (letter->state == LETTER_RECOVERING && job->state != MODEL_WAITING &&
        job->state != MODEL_RUNNING)
        inspect_wrong(in, job, "its letter waits for the outcome of a job that is not live");
}

/* read_shelf pages through all letters, and finds each again by its id and by its job. */
static void read_shelf(struct inspection *in, struct shelf *shelf)
{
    struct letter_filter filter = {.limit = PAGE};
    struct letter *page;
    size_t count = 0;

    do {
        if (inspect_failed(
                in, in->store->letter_list(in->store, &filter, &in->arena, &page, &count, &in->err),
                "letters"))
            return;
        for (size_t i = 0; i < count; i++) {
            struct letter found = {0};

            if (filter.cursor && page[i].position >= filter.cursor)
                model_violated(in->model, "letter %.*s is listed out of order or twice",
                               SLICE_ARG(page[i].dlq_id));
            filter.cursor = page[i].position;
            check_letter(in, &page[i]);
            if (inspect_failed(
                    in,
                    in->store->letter_get(in->store, page[i].dlq_id, &in->arena, &found, &in->err),
                    "a letter by its id") ||
                inspect_failed(in,
                               in->store->letter_by_job(in->store, page[i].job.seq, &in->arena,
                                                        &found, &in->err),
                               "a letter by its job"))
                return;
            if (shelf->count < LETTERS_MAX)
                shelf->letters[shelf->count++] = page[i];
        }
    } while (count == PAGE && !in->model->violated);
}

static void check_total(struct inspection *in, const struct shelf *shelf)
{
    size_t expected = 0;

    for (const struct model_job *job = in->model->jobs; job; job = job->next)
        expected += job->has_letter && job->state != MODEL_PURGED;
    if (shelf->count != expected)
        model_violated(in->model, "%zu letters were written, and %zu are listed", expected,
                       shelf->count);
}

static void check_counts(struct inspection *in, const struct shelf *shelf)
{
    struct letter_count *counts;
    size_t count = 0;
    int64_t sum = 0;

    if (inspect_failed(in,
                       in->store->letter_counts(in->store, &in->arena, &counts, &count, &in->err),
                       "counters"))
        return;
    for (size_t i = 0; i < count; i++) {
        int64_t recount = 0;

        for (size_t k = 0; k < shelf->count; k++) {
            const struct letter *letter = &shelf->letters[k];

            recount += letter->state == counts[i].state &&
                       letter->recoverable == counts[i].recoverable &&
                       slice_eq(letter->reason, counts[i].reason) &&
                       slice_eq(letter->source, counts[i].source) &&
                       slice_eq(letter->queue, counts[i].queue);
        }
        sum += counts[i].count;
        if (recount != counts[i].count)
            model_violated(
                in->model, "counter %s/%.*s/%.*s/%.*s says %" PRId64 ", a recount %" PRId64,
                letter_state_name(counts[i].state), SLICE_ARG(counts[i].reason),
                SLICE_ARG(counts[i].source), SLICE_ARG(counts[i].queue), counts[i].count, recount);
    }
    if (sum != (int64_t)shelf->count)
        model_violated(in->model, "the counters sum up to %" PRId64 ", and %zu letters are listed",
                       sum, shelf->count);
}

static void check_groups(struct inspection *in, const struct shelf *shelf)
{
    struct letter_group *groups;
    size_t count = 0;
    int64_t sum = 0, open = 0;

    if (inspect_failed(in,
                       in->store->group_list(in->store, in->model->world->wall, 0, 1000, &in->arena,
                                             &groups, &count, &in->err),
                       "groups"))
        return;
    for (size_t k = 0; k < shelf->count; k++)
        open += is_open(&shelf->letters[k]);
    for (size_t i = 0; i < count; i++) {
        int64_t recount = 0;

        for (size_t k = 0; k < shelf->count; k++)
            recount += is_open(&shelf->letters[k]) &&
                       slice_eq(shelf->letters[k].fingerprint, groups[i].fingerprint);
        sum += groups[i].count;
        if (recount != groups[i].count)
            model_violated(in->model, "group %.*s counts %" PRId64 " letters, a recount %" PRId64,
                           SLICE_ARG(groups[i].fingerprint), groups[i].count, recount);
    }
    if (sum != open)
        model_violated(in->model, "groups count %" PRId64 " letters, and %" PRId64 " are open", sum,
                       open);
}

/* check_queue compares a queue's counts of live jobs and its pause with the model's. */
static void check_queue(struct inspection *in, const struct queue_info *queue)
{
    int64_t waiting = 0, running = 0;

    for (const struct model_job *job = in->model->jobs; job; job = job->next) {
        if (!slice_eq(job->envelope.queue, queue->name))
            continue;
        waiting += job->state == MODEL_WAITING;
        running += job->state == MODEL_RUNNING;
    }
    if (queue->counts[JOB_PENDING] + queue->counts[JOB_SCHEDULED] != waiting ||
        queue->counts[JOB_RUNNING] != running)
        model_violated(in->model, "queue %.*s miscounts its live jobs", SLICE_ARG(queue->name));
    if (queue->paused != model_queue_paused(in->model, queue->name))
        model_violated(in->model, "queue %.*s is paused, or is not", SLICE_ARG(queue->name));
}

static void check_queues(struct inspection *in)
{
    struct queue_info *queues;
    size_t count = 0;

    if (inspect_failed(in, in->store->queue_list(in->store, &in->arena, &queues, &count, &in->err),
                       "queues"))
        return;
    for (size_t i = 0; i < count; i++)
        check_queue(in, &queues[i]);
}

/* check_search finds the newest letter that a worker's words describe by one of those words. */
static void check_search(struct inspection *in, const struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++) {
        const struct model_job *job = model_by_letter(in->model, shelf->letters[i].dlq_id);
        struct letter_filter filter = {.limit = 10};
        struct letter *found;
        size_t count = 0;

        if (!job || job->state != MODEL_DEAD || job->imported || !job->failure_count ||
            !job->failures[job->failure_count - 1].message.len)
            continue;
        /* A worker's message begins with a word of its own: see commands.c. */
        struct slice message = job->failures[job->failure_count - 1].message;
        const char *end = memchr(message.ptr, ' ', message.len);
        filter.q = (struct slice){message.ptr, end ? (size_t)(end - message.ptr) : message.len};
        if (inspect_failed(
                in,
                in->store->letter_list(in->store, &filter, &in->arena, &found, &count, &in->err),
                "search"))
            return;
        if (count != 1 || !slice_eq(found[0].dlq_id, job->dlq_id))
            inspect_wrong(in, job, "search does not find its letter");
        return;
    }
}

void inspect_letters(struct inspection *in)
{
    struct shelf *shelf = arena_alloc(&in->arena, sizeof(*shelf));

    read_shelf(in, shelf);
    if (in->model->violated)
        return;
    check_total(in, shelf);
    check_counts(in, shelf);
    check_groups(in, shelf);
    check_queues(in);
    check_search(in, shelf);
}
