/* test_live: the live index against a plain array that is searched, and its promises of size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/live.h"

#define NOON INT64_C(1790000000000000)

/* -- the model --------------------------------------------------------------------------------- */

#define JOBS 200
#define QUEUES 3

struct model {
    struct live *live;
    struct job jobs[JOBS + 1];      /* by seq; seq 0: not there */
    struct instant until[JOBS + 1]; /* pending with hints: when a worker must have it */
    bool paused[QUEUES + 1];
    uint64_t random;
};

static uint64_t next_random(struct model *model)
{
    uint64_t z = model->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint32_t below(struct model *model, uint32_t n)
{
    return (uint32_t)(next_random(model) % n);
}

static const struct slice queue_names[] = {SLICE("a"), SLICE("b"), SLICE("c")};
/* The sets: 0 is empty, 1 is {gpu}, 2 is {gpu, linux}. */
static const struct slice capabilities[] = {SLICE("gpu"), SLICE("linux")};

static void name_all(struct live *live)
{
    for (uint32_t i = 0; i < QUEUES; i++)
        assert_true(live_queue_set(live, i + 1, queue_names[i], false));
    assert_true(live_capabilities_set(live, 1, capabilities, 1));
    assert_true(live_capabilities_set(live, 2, capabilities, 2));
}

/* any_job makes a job up; times and hashes are few, so that they collide. */
static struct job any_job(struct model *model, int64_t seq)
{
    return (struct job){
        .seq = seq,
        .id_hash = 1 + below(model, 50),
        .idempotency_hash = below(model, 4) ? 0 : 1 + below(model, 5),
        .retry_key_hash = below(model, 2) ? 0 : 1 + below(model, 5),
        .pushed_at = {NOON + seq},
        .due_at = {NOON + below(model, 20)},
        .deadline_at = {below(model, 2) ? INT64_MAX : NOON + 20 + below(model, 20)},
        .queue = 1 + below(model, QUEUES),
        .capabilities = below(model, 3),
        .state = (uint8_t)below(model, 3),
        .priority = (uint8_t)(below(model, 2) * 9),
        .flags =
            (uint8_t)((below(model, 4) ? 0 : JOB_RUN_AT) | (below(model, 3) ? 0 : JOB_HAS_HINTS)),
    };
}

/* assert_same compares what any_job makes up; padding is nobody's. */
static void assert_same(const struct job *a, const struct job *b)
{
    assert_true(a->seq == b->seq && a->id_hash == b->id_hash);
    assert_true(a->idempotency_hash == b->idempotency_hash);
    assert_true(a->retry_key_hash == b->retry_key_hash && a->pushed_at.us == b->pushed_at.us);
    assert_true(a->due_at.us == b->due_at.us && a->deadline_at.us == b->deadline_at.us);
    assert_true(a->queue == b->queue && a->capabilities == b->capabilities);
    assert_true(a->state == b->state && a->priority == b->priority && a->flags == b->flags);
}

/* -- comparing --------------------------------------------------------------------------------- */

static bool goes_before(const struct job *a, const struct job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->due_at.us != b->due_at.us)
        return a->due_at.us < b->due_at.us;
    return a->seq < b->seq;
}

static bool is_hinted(const struct job *job)
{
    return job->flags & JOB_HAS_HINTS;
}

/* model_ready finds the first job that a worker may have, or that may be dispatched to one, and
 * that comes after `after`. */
static const struct job *model_ready(const struct model *model, uint32_t queue, size_t can,
                                     bool hinted, const struct job *after)
{
    const struct job *best = NULL;
    for (int i = 1; i <= JOBS; i++) {
        const struct job *job = &model->jobs[i];
        if (job->seq == 0 || job->state != JOB_PENDING || model->paused[job->queue] ||
            (queue && job->queue != queue) || job->capabilities > can || is_hinted(job) != hinted ||
            (after && !goes_before(after, job)))
            continue;
        if (!best || goes_before(job, best))
            best = job;
    }
    return best;
}

static void check_ready(struct model *model, uint32_t queue, size_t can)
{
    struct slice twice[2];
    struct job found[JOBS];
    const struct job *expected = NULL;
    if (queue)
        twice[0] = twice[1] = queue_names[queue - 1];
    const struct ready_query query = {twice, queue ? 2 : 0, capabilities, can};
    size_t max = below(model, 2) ? JOBS : 1 + below(model, 9);
    size_t count = live_ready(model->live, &query, found, max);
    for (size_t i = 0; i < count; i++) {
        expected = model_ready(model, queue, can, false, expected);
        assert_non_null(expected);
        assert_same(&found[i], expected);
    }
    if (count < max)
        assert_null(model_ready(model, queue, can, false, expected));
}

/* struct wanted: lanes of one queue (0: any) and of the first `can` sets. */
struct wanted {
    uint32_t queue;
    size_t can;
};

static bool wants(void *ctx, uint32_t queue, uint32_t set)
{
    const struct wanted *wanted = ctx;
    return (!wanted->queue || wanted->queue == queue) && set <= wanted->can;
}

static void check_hinted(struct model *model, uint32_t queue, size_t can)
{
    struct wanted wanted = {queue, can};
    const struct hinted_query query = {wants, &wanted};
    struct job found[JOBS];
    const struct job *expected = NULL;
    size_t max = below(model, 2) ? JOBS : 1 + below(model, 9), pending = 0;
    size_t count = live_hinted(model->live, &query, found, max);
    for (size_t i = 0; i < count; i++) {
        expected = model_ready(model, queue, can, true, expected);
        assert_non_null(expected);
        assert_same(&found[i], expected);
    }
    if (count < max)
        assert_null(model_ready(model, queue, can, true, expected));
    for (int i = 1; i <= JOBS; i++)
        pending +=
            model->jobs[i].seq && model->jobs[i].state == JOB_PENDING && is_hinted(&model->jobs[i]);
    assert_int_equal(live_hinted_count(model->live), pending);
}

static void check_hashes(struct model *model)
{
    uint64_t hash = 1 + below(model, 50);
    int64_t sum = 0;
    uint32_t iter = 0;
    const struct job *job;
    while ((job = live_next_by_id(model->live, hash, &iter)))
        sum += job->seq;
    for (int i = 1; i <= JOBS; i++)
        sum -= model->jobs[i].seq && model->jobs[i].id_hash == hash ? i : 0;
    assert_true(sum == 0);
    hash = 1 + below(model, 5);
    iter = 0;
    while ((job = live_next_by_key(model->live, STORE_KEY_RETRY, hash, &iter)))
        sum += job->seq;
    iter = 0;
    while ((job = live_next_by_key(model->live, STORE_KEY_IDEMPOTENCY, hash, &iter)))
        sum += job->seq * 1000;
    for (int i = 1; i <= JOBS; i++) {
        sum -= model->jobs[i].seq && model->jobs[i].retry_key_hash == hash ? i : 0;
        sum -= model->jobs[i].seq && model->jobs[i].idempotency_hash == hash ? 1000 * i : 0;
    }
    assert_true(sum == 0);
}

static void check_times(struct model *model)
{
    struct instant next = INSTANT_NEVER, now = {NOON + below(model, 20)};
    struct job found[JOBS];
    size_t expired = 0;
    for (int i = 1; i <= JOBS; i++) {
        const struct job *job = &model->jobs[i];
        if (job->seq && job->state == JOB_PENDING && is_hinted(job) && model->until[i].us < next.us)
            next = model->until[i];
        if (job->seq == 0 || job->state == JOB_PENDING)
            continue;
        if (job->due_at.us < next.us)
            next = job->due_at;
        expired += job->state == JOB_RUNNING && job->due_at.us <= now.us;
    }
    assert_true(live_next_timer(model->live).us == next.us);
    assert_int_equal(live_expired(model->live, now, found, JOBS), expired);
    for (size_t i = 0; i < expired; i++) {
        assert_same(&found[i], &model->jobs[found[i].seq]);
        assert_true(found[i].state == JOB_RUNNING && found[i].due_at.us <= now.us);
    }
    if (expired > 1)
        assert_int_equal(live_expired(model->live, now, found, expired - 1), expired - 1);
}

static void check_counts(struct model *model)
{
    size_t count = 0;
    for (uint32_t queue = 1; queue <= QUEUES; queue++) {
        int64_t expected[JOB_STATE_COUNT] = {0}, counts[JOB_STATE_COUNT];
        struct instant oldest;
        for (int i = 1; i <= JOBS; i++)
            if (model->jobs[i].seq && model->jobs[i].queue == queue)
                expected[model->jobs[i].state]++;
        live_queue_counts(model->live, queue, counts, &oldest);
        for (int i = 0; i <= JOB_RUNNING; i++) {
            assert_true(counts[i] == expected[i]);
            count += (size_t)counts[i];
        }
        assert_true(instant_is_set(oldest) == (expected[JOB_PENDING] > 0));
    }
    assert_int_equal(live_count(model->live), count);
}

static void check_page(struct model *model)
{
    int state = (int)below(model, 4) - 1;
    uint32_t queue = below(model, QUEUES + 1);
    int64_t cursor = below(model, JOBS + 2);
    struct job found[JOBS];
    size_t max = below(model, 30), count, expected = 0;
    assert_true(live_page(model->live, state, queue, cursor, found, max, &count));
    for (int i = JOBS; i >= 1 && expected < max; i--) {
        const struct job *job = &model->jobs[i];
        if (job->seq == 0 || (state >= 0 && job->state != state) ||
            (queue && job->queue != queue) || (cursor && job->seq >= cursor))
            continue;
        assert_true(expected < count);
        assert_same(&found[expected++], job);
    }
    assert_int_equal(count, expected);
}

/* -- histories --------------------------------------------------------------------------------- */

static void step_put(struct model *model)
{
    int64_t seq = 1 + below(model, JOBS);
    struct job job = any_job(model, seq);
    if (below(model, 10) == 0) {
        /* Out of memory somewhere on the way, or not at all. */
        mem_fail_after(1 + below(model, 3));
        bool done = live_put(model->live, &job);
        mem_fail_after(0);
        if (done) {
            model->jobs[seq] = job;
            model->until[seq] = job.deadline_at;
        }
        return;
    }
    assert_true(live_put(model->live, &job));
    model->jobs[seq] = job;
    model->until[seq] = job.deadline_at;
}

static void step_remove(struct model *model)
{
    int64_t seq = 1 + below(model, JOBS);
    live_remove(model->live, seq);
    model->jobs[seq] = (struct job){0};
}

/* give_time has the time of a pending job with hints begin at `now`. */
static void give_time(struct model *model, int64_t seq, struct instant now)
{
    const struct job *job = &model->jobs[seq];
    model->until[seq] = job->deadline_at;
    if (job->deadline_at.us != INT64_MAX)
        model->until[seq].us = now.us + job->deadline_at.us - job->due_at.us;
}

static void step_due(struct model *model)
{
    struct instant now = {NOON + below(model, 20)};
    live_due(model->live, now);
    for (int i = 1; i <= JOBS; i++)
        if (model->jobs[i].seq && model->jobs[i].state == JOB_SCHEDULED &&
            model->jobs[i].due_at.us <= now.us) {
            model->jobs[i].state = JOB_PENDING;
            give_time(model, i, now);
        }
}

static void step_restart(struct model *model)
{
    uint32_t queue = below(model, QUEUES + 1);
    struct instant now = {NOON + below(model, 20)};
    live_assignment_restart(model->live, queue, now);
    for (int i = 1; i <= JOBS; i++)
        if (model->jobs[i].seq && model->jobs[i].state == JOB_PENDING &&
            is_hinted(&model->jobs[i]) && (!queue || model->jobs[i].queue == queue))
            give_time(model, i, now);
}

/* step_unassigned: jobs whose time is over are given once; those of a paused queue wait. */
static void step_unassigned(struct model *model)
{
    struct instant now = {NOON + 20 + below(model, 20)};
    struct job found[JOBS];
    size_t over = 0;
    size_t count = live_unassigned(model->live, now, found, JOBS);
    for (size_t i = 0; i < count; i++)
        assert_same(&found[i], &model->jobs[found[i].seq]);
    for (int i = 1; i <= JOBS; i++) {
        const struct job *job = &model->jobs[i];
        if (job->seq == 0 || job->state != JOB_PENDING || !is_hinted(job) ||
            model->until[i].us > now.us)
            continue;
        over += !model->paused[job->queue];
        model->until[i] = INSTANT_NEVER;
    }
    assert_int_equal(count, over);
}

static void step_shift(struct model *model)
{
    struct span by = {(int64_t)below(model, 9) - 4};
    assert_true(live_shift(model->live, by));
    for (int i = 1; i <= JOBS; i++) {
        struct job *job = &model->jobs[i];
        if (job->seq && job->state == JOB_PENDING && model->until[i].us != INT64_MAX)
            model->until[i].us += by.us;
        if (job->seq == 0 || (job->state != JOB_RUNNING && (job->flags & JOB_RUN_AT)))
            continue;
        job->due_at.us += by.us;
        if ((job->state == JOB_RUNNING || is_hinted(job)) && job->deadline_at.us != INT64_MAX)
            job->deadline_at.us += by.us;
    }
}

static void step_pause(struct model *model)
{
    uint32_t queue = 1 + below(model, QUEUES);
    model->paused[queue] = below(model, 3) == 0;
    assert_true(live_queue_set(model->live, queue, queue_names[queue - 1], model->paused[queue]));
}

static void step(struct model *model)
{
    uint32_t what = below(model, 100);
    if (what < 60)
        step_put(model);
    else if (what < 80)
        step_remove(model);
    else if (what < 90)
        step_due(model);
    else if (what < 93)
        step_pause(model);
    else if (what < 95)
        step_restart(model);
    else if (what < 97)
        step_unassigned(model);
    else
        step_shift(model);
}

static void any_history_answers_as_a_search_of_all_jobs_would(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct model model = {.live = live_new(), .random = seed};
        assert_non_null(model.live);
        name_all(model.live);
        for (int i = 0; i < 3000; i++) {
            step(&model);
            int64_t seq = 1 + below(&model, JOBS);
            const struct job *job = live_by_seq(model.live, seq);
            if (model.jobs[seq].seq)
                assert_same(job, &model.jobs[seq]);
            else
                assert_null(job);
            check_ready(&model, below(&model, QUEUES + 1), below(&model, 3));
            check_hinted(&model, below(&model, QUEUES + 1), below(&model, 3));
            check_hashes(&model);
            check_times(&model);
            check_counts(&model);
            check_page(&model);
        }
        live_free(model.live);
    }
}

/* -- single promises --------------------------------------------------------------------------- */

static void a_put_without_memory_changes_nothing(void **state)
{
    (void)state;
    /* From a fresh index, fail the n-th allocation of the first put, until none fails. */
    for (unsigned long n = 1;; n++) {
        struct live *live = live_new();
        name_all(live);
        struct job job = {.seq = 7,
                          .id_hash = 1,
                          .idempotency_hash = 2,
                          .retry_key_hash = 3,
                          .queue = 1,
                          .capabilities = 2,
                          .state = JOB_RUNNING,
                          .flags = JOB_HAS_HINTS,
                          .due_at = {5}};
        mem_fail_after(n);
        bool done = live_put(live, &job);
        mem_fail_after(0);
        assert_int_equal(live_count(live), done);
        assert_int_equal(live_by_seq(live, 7) != NULL, done);
        assert_true(live_next_timer(live).us == (done ? 5 : INT64_MAX));
        assert_true(live_put(live, &job));
        live_free(live);
        if (done) {
            assert_true(n > 5);
            return;
        }
    }
}

static void clearing_forgets_all_but_where_names_lie(void **state)
{
    (void)state;
    struct live *live = live_new();
    uint32_t number;
    name_all(live);
    struct slice name = live_queue_name(live, 1);
    assert_true(live_put(live, &(struct job){.seq = 1, .id_hash = 1, .queue = 1}));
    live_clear(live);
    assert_int_equal(live_count(live), 0);
    assert_null(live_by_seq(live, 1));
    assert_null(live_queue_name(live, 1).ptr);
    assert_false(live_queue_find(live, SLICE("a"), &number));
    assert_false(live_capabilities_find(live, capabilities, 1, &number));
    assert_int_equal(live_queue_max(live), 0);
    assert_int_equal(live_capabilities_max(live), 0);
    assert_true(slice_is(name, "a"));
    assert_true(live_queue_set(live, 5, SLICE("a"), true));
    assert_true(live_queue_find(live, SLICE("a"), &number) && number == 5);
    assert_ptr_equal(live_queue_name(live, 5).ptr, name.ptr);
    assert_true(live_queue_is_paused(live, 5));
    live_free(live);
}

static void a_number_out_of_range_is_refused(void **state)
{
    (void)state;
    struct live *live = live_new();
    assert_false(live_queue_set(live, UINT32_MAX, SLICE("x"), false));
    assert_false(live_capabilities_set(live, UINT32_MAX, capabilities, 1));
    assert_null(live_queue_name(live, UINT32_MAX).ptr);
    live_free(live);
}

/* Jobs that come due all at once, and a long line that others join late, must not cost a walk
 * through the line for each. */
static void many_jobs_out_of_order_are_sorted_once(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct live *live = live_new();
    static struct job found[64];
    name_all(live);
    for (int64_t i = 1; i <= MANY; i++) {
        struct job job = {.seq = i,
                          .id_hash = (uint64_t)i,
                          .queue = 1,
                          .state = JOB_SCHEDULED,
                          .due_at = {NOON + i * 7919 % 5}};
        assert_true(live_put(live, &job));
    }
    live_due(live, (struct instant){NOON + 9});
    const struct ready_query query = {0};
    int64_t due = 0, seq = 0;
    for (int taken = 0; taken < MANY;) {
        size_t count = live_ready(live, &query, found, 64);
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++, taken++) {
            assert_true(found[i].due_at.us > due ||
                        (found[i].due_at.us == due && found[i].seq > seq));
            due = found[i].due_at.us;
            seq = found[i].seq;
            live_remove(live, seq);
        }
        /* Two that were given back go to the front again, in order. */
        if (taken % 640 == 0 && taken < MANY) {
            for (size_t i = count - 2; i < count; i++)
                assert_true(live_put(live, &found[i]));
            assert_int_equal(live_ready(live, &query, found, 3), 3);
            assert_true(found[1].seq == seq && found[1].due_at.us == due);
            live_remove(live, found[0].seq);
            live_remove(live, found[1].seq);
        }
    }
    live_free(live);
}

static void a_million_jobs_take_less_than_200_bytes_each(void **state)
{
    (void)state;
    enum { MILLION = 1000000 };
    struct live *live = live_new();
    name_all(live);
    for (int64_t i = 1; i <= MILLION; i++) {
        uint64_t hash = (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15);
        struct job job = {.seq = i,
                          .id_hash = hash,
                          .idempotency_hash = hash ^ 1,
                          .retry_key_hash = hash ^ 2,
                          .queue = 1,
                          .state = JOB_SCHEDULED,
                          .due_at = {NOON - i}};
        assert_true(live_put(live, &job));
    }
    assert_int_equal(live_count(live), MILLION);
    assert_true(live_memory(live) < (size_t)200 * MILLION);
    live_free(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_history_answers_as_a_search_of_all_jobs_would),
        cmocka_unit_test(a_put_without_memory_changes_nothing),
        cmocka_unit_test(clearing_forgets_all_but_where_names_lie),
        cmocka_unit_test(a_number_out_of_range_is_refused),
        cmocka_unit_test(many_jobs_out_of_order_are_sorted_once),
        cmocka_unit_test(a_million_jobs_take_less_than_200_bytes_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
