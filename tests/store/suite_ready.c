/* suite_ready: which jobs a worker gets, in which order, and what time does. */
#include "store/suite.h"

/* put_job inserts a pending job with what matters to the order. */
static struct job put_job(struct place *place, const char *queue, const char *id, int priority,
                          int64_t due, uint32_t capabilities)
{
    struct job job = job_on(place, queue, id);
    job.priority = (uint8_t)priority;
    job.due_at = at(due);
    job.capabilities = capabilities;
    return insert(place, job, id);
}

static uint32_t capabilities(struct place *place, const char *a, const char *b)
{
    const struct slice names[] = {slice_of(a), slice_of(b)};
    uint32_t number;
    assert_ok(place, place->store->capabilities_number(place->store, names, b ? 2 : 1, &number,
                                                       &place->err));
    return number;
}

static void the_highest_priority_comes_first_then_the_longest_ready(void **state)
{
    struct place *place = *state;
    begin(place);
    put_job(place, "q", "late", 4, NOON + 2, 0);
    put_job(place, "q", "low", 0, NOON, 0);
    put_job(place, "q", "early", 4, NOON + 1, 0);
    put_job(place, "q", "high", 9, NOON + 3, 0);
    put_job(place, "q", "early2", 4, NOON + 1, 0);
    commit(place);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(ready(place, NULL, NULL, 9), "high early early2 late low");
        assert_string_equal(ready(place, NULL, NULL, 2), "high early");
        assert_string_equal(ready(place, NULL, NULL, 0), "");
        reopen(place);
    }
}

static void what_a_worker_sees_is_merged_over_its_queues(void **state)
{
    struct place *place = *state;
    begin(place);
    put_job(place, "a", "a1", 4, NOON + 1, 0);
    put_job(place, "b", "b1", 4, NOON + 2, 0);
    put_job(place, "a", "a2", 4, NOON + 3, 0);
    put_job(place, "c", "c1", 9, NOON + 4, 0);
    commit(place);
    assert_string_equal(ready(place, NULL, NULL, 9), "c1 a1 b1 a2");
    assert_string_equal(ready(place, "a", NULL, 9), "a1 a2");
    assert_string_equal(ready(place, "unknown", NULL, 9), "");
    const struct slice twice[] = {SLICE("a"), SLICE("b"), SLICE("a")};
    const struct ready_query query = {twice, 3, NULL, 0};
    struct job jobs[9];
    assert_int_equal(place->store->ready(place->store, &query, jobs, 9), 3);
    assert_true(jobs[0].seq < jobs[1].seq && jobs[1].seq < jobs[2].seq);
}

static void a_worker_gets_only_jobs_whose_capabilities_it_has(void **state)
{
    struct place *place = *state;
    begin(place);
    put_job(place, "q", "plain", 4, NOON + 3, 0);
    put_job(place, "q", "gpu", 4, NOON + 2, capabilities(place, "gpu", NULL));
    put_job(place, "q", "both", 4, NOON + 1, capabilities(place, "linux", "gpu"));
    commit(place);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(ready(place, "q", NULL, 9), "plain");
        assert_string_equal(ready(place, "q", "gpu", 9), "gpu plain");
        const struct slice has[] = {SLICE("x"), SLICE("gpu"), SLICE("gpu"), SLICE("linux")};
        const struct ready_query query = {NULL, 0, has, 4};
        struct job jobs[9];
        assert_int_equal(place->store->ready(place->store, &query, jobs, 9), 3);
        reopen(place);
    }
}

static void nothing_comes_from_a_paused_queue(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    begin(place);
    struct job job = put_job(place, "a", "a1", 4, NOON, 0);
    put_job(place, "b", "b1", 4, NOON, 0);
    assert_ok(place, store->queue_pause(store, job.queue, true, &place->err));
    commit(place);
    assert_string_equal(ready(place, NULL, NULL, 9), "b1");
    reopen(place);
    store = place->store;
    assert_true(store->queue_paused(store, job.queue));
    assert_string_equal(ready(place, "a", NULL, 9), "");
    begin(place);
    assert_ok(place, store->queue_pause(store, job.queue, false, &place->err));
    commit(place);
    assert_string_equal(ready(place, NULL, NULL, 9), "a1 b1");
}

static void ready_jobs_stay_until_they_are_leased(void **state)
{
    struct place *place = *state;
    struct job a = push(place, "q", "a"), b = push(place, "q", "b");
    assert_string_equal(ready(place, NULL, NULL, 9), "a b");
    assert_string_equal(ready(place, NULL, NULL, 9), "a b");
    begin(place);
    a.state = JOB_RUNNING;
    a.due_at = at(NOON + SECOND);
    update(place, &a, "w");
    assert_string_equal(ready(place, NULL, NULL, 9), "b");
    a.state = JOB_PENDING; /* given back: it keeps its place in the line */
    a.due_at = at(NOON);
    update(place, &a, "");
    assert_string_equal(ready(place, NULL, NULL, 9), "a b");
    b.priority = 5;
    update(place, &b, "");
    assert_string_equal(ready(place, NULL, NULL, 9), "b a");
    commit(place);
}

static void a_scheduled_job_is_pending_when_its_time_has_come(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    begin(place);
    const char *ids[] = {"s3", "s1", "s2"};
    const int64_t times[] = {3, 1, 2};
    for (int i = 0; i < 3; i++) {
        struct job job = job_on(place, "q", ids[i]);
        job.state = JOB_SCHEDULED;
        job.due_at = at(NOON + times[i] * SECOND);
        insert(place, job, ids[i]);
    }
    put_job(place, "q", "pending", 4, NOON + 2 * SECOND + 1, 0);
    commit(place);
    for (int i = 0; i < 2; i++) {
        store = place->store;
        assert_string_equal(ready(place, NULL, NULL, 9), "pending");
        assert_true(store->next_timer(store).us == NOON + SECOND);
        store->due(store, at(NOON + SECOND - 1));
        assert_string_equal(ready(place, NULL, NULL, 9), "pending");
        store->due(store, at(NOON + SECOND));
        assert_string_equal(ready(place, NULL, NULL, 9), "s1 pending");
        assert_true(store->next_timer(store).us == NOON + 2 * SECOND);
        store->due(store, at(NOON + HOUR));
        assert_string_equal(ready(place, NULL, NULL, 9), "s1 s2 pending s3");
        assert_true(store->next_timer(store).us == INT64_MAX);
        reopen(place); /* coming due wrote nothing: it happens again */
    }
}

static void a_lease_that_has_ended_is_found_until_the_job_is_updated(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct job jobs[5], found[5];
    begin(place);
    for (int i = 0; i < 5; i++) {
        char id[] = {(char)('a' + i), 0};
        jobs[i] = job_on(place, "q", id);
        jobs[i].state = JOB_RUNNING;
        jobs[i].due_at = at(NOON + i);
        jobs[i] = insert(place, jobs[i], id);
    }
    commit(place);
    assert_int_equal(store->expired(store, at(NOON - 1), found, 5), 0);
    assert_int_equal(store->expired(store, at(NOON), found, 5), 1);
    assert_true(found[0].seq == jobs[0].seq);
    assert_int_equal(store->expired(store, at(NOON + 2), found, 5), 3);
    assert_int_equal(store->expired(store, at(NOON + 2), found, 2), 2);
    store->due(store, at(NOON + HOUR)); /* leases are no retries */
    assert_string_equal(ready(place, NULL, NULL, 9), "");
    begin(place);
    jobs[0].due_at = at(NOON + HOUR);
    update(place, &jobs[0], "w");
    assert_int_equal(store->expired(store, at(NOON + 2), found, 5), 2);
    assert_true(store->next_timer(store).us == NOON + 1);
    commit(place);
}

struct cases ready_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(the_highest_priority_comes_first_then_the_longest_ready),
        CASE(what_a_worker_sees_is_merged_over_its_queues),
        CASE(a_worker_gets_only_jobs_whose_capabilities_it_has),
        CASE(nothing_comes_from_a_paused_queue),
        CASE(ready_jobs_stay_until_they_are_leased),
        CASE(a_scheduled_job_is_pending_when_its_time_has_come),
        CASE(a_lease_that_has_ended_is_found_until_the_job_is_updated),
    };
    return CASES(tests);
}
