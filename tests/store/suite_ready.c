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

/* ---- jobs that are dispatched ---------------------------------------------------------------- */

/* put_hinted inserts a job with hints, pending or scheduled, that has `ms` to be assigned. */
static struct job put_hinted(struct place *place, const char *queue, const char *id, int priority,
                             enum job_state state, int64_t due, int64_t ms, uint32_t needs)
{
    struct job job = job_on(place, queue, id);
    job.flags = JOB_HAS_HINTS;
    job.priority = (uint8_t)priority;
    job.state = (uint8_t)state;
    job.due_at = at(due);
    job.deadline_at = at(due + ms * 1000);
    job.capabilities = needs;
    return insert(place, job, id);
}

/* struct wanted: the lane that a query wants; 0: any. */
struct wanted {
    uint32_t queue, capabilities;
};

static bool wants(void *ctx, uint32_t queue, uint32_t needs)
{
    const struct wanted *wanted = ctx;
    return (!wanted->queue || wanted->queue == queue) &&
           (!wanted->capabilities || wanted->capabilities == needs);
}

/* hinted lists the seqs' job_ids that are to be dispatched, as ready() of the suite does. */
static const char *hinted(struct place *place, uint32_t queue, uint32_t needs, size_t max)
{
    struct wanted wanted = {queue, needs};
    const struct hinted_query query = {wants, &wanted};
    struct job jobs[9];
    size_t count = place->store->hinted(place->store, &query, jobs, max);
    struct slice text = arena_dup(&place->arena, SLICE(""));
    for (size_t i = 0; i < count; i++) {
        struct stored_envelope stored;
        assert_ok(place, place->store->envelope_get(place->store, jobs[i].envelope_seq,
                                                    &place->arena, &stored, &place->err));
        text = arena_printf(&place->arena, "%.*s%s%.*s", SLICE_ARG(text), i ? " " : "",
                            SLICE_ARG(stored.job_id));
    }
    return text.ptr;
}

static void a_job_with_hints_is_given_to_nobody_who_asks(void **state)
{
    struct place *place = *state;
    begin(place);
    uint32_t gpu = capabilities(place, "gpu", NULL);
    put_job(place, "a", "plain", 4, NOON, 0);
    struct job first = put_hinted(place, "a", "late", 4, JOB_PENDING, NOON + 2, 1000, 0);
    put_hinted(place, "b", "gpu", 4, JOB_PENDING, NOON + 1, 1000, gpu);
    put_hinted(place, "a", "high", 9, JOB_PENDING, NOON + 3, 1000, 0);
    put_hinted(place, "a", "later", 9, JOB_SCHEDULED, NOON + HOUR, 1000, 0);
    commit(place);
    for (int i = 0; i < 2; i++) {
        struct store *store = place->store;
        assert_string_equal(ready(place, NULL, "gpu", 9), "plain");
        assert_int_equal(store->hinted_count(store), 3);
        assert_string_equal(hinted(place, 0, 0, 9), "high gpu late");
        assert_string_equal(hinted(place, 0, 0, 2), "high gpu");
        assert_string_equal(hinted(place, first.queue, 0, 9), "high late");
        assert_string_equal(hinted(place, 0, gpu, 9), "gpu");
        reopen(place);
    }
    struct store *store = place->store;
    begin(place);
    assert_ok(place, store->queue_pause(store, first.queue, true, &place->err));
    commit(place);
    assert_string_equal(hinted(place, 0, 0, 9), "gpu");
    assert_int_equal(store->hinted_count(store), 3);
}

static void a_job_that_nobody_was_given_in_time_is_found_once(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct job found[5];
    begin(place);
    struct job quick = put_hinted(place, "q", "quick", 4, JOB_PENDING, NOON, 1000, 0);
    put_hinted(place, "q", "slow", 4, JOB_PENDING, NOON, 5000, 0);
    struct job later = put_hinted(place, "q", "later", 4, JOB_SCHEDULED, NOON + SECOND, 1000, 0);
    commit(place);
    assert_true(store->next_timer(store).us == NOON + SECOND);
    assert_int_equal(store->unassigned(store, at(NOON + SECOND - 1), found, 5), 0);
    assert_int_equal(store->unassigned(store, at(NOON + SECOND), found, 5), 1);
    assert_true(found[0].seq == quick.seq);
    assert_int_equal(store->unassigned(store, at(NOON + SECOND), found, 5), 0);
    store->due(store, at(NOON + 2 * SECOND)); /* late: its time begins when it came due */
    assert_int_equal(store->unassigned(store, at(NOON + 3 * SECOND - 1), found, 5), 0);
    assert_int_equal(store->unassigned(store, at(NOON + 3 * SECOND), found, 5), 1);
    assert_true(found[0].seq == later.seq);
    assert_true(store->next_timer(store).us == NOON + 5 * SECOND);
    begin(place);
    quick.state = JOB_RUNNING;
    quick.due_at = at(NOON + HOUR);
    update(place, &quick, "w");
    quick.state = JOB_PENDING; /* given back: it has its time again */
    quick.due_at = at(NOON + 3 * SECOND);
    quick.deadline_at = at(NOON + 4 * SECOND);
    update(place, &quick, "");
    commit(place);
    assert_int_equal(store->unassigned(store, at(NOON + 4 * SECOND), found, 5), 1);
    assert_true(found[0].seq == quick.seq);
}

static void the_time_to_be_assigned_stands_still_in_a_paused_queue(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct job found[5];
    begin(place);
    struct job waits = put_hinted(place, "q", "waits", 4, JOB_PENDING, NOON, 1000, 0);
    put_hinted(place, "other", "other", 4, JOB_PENDING, NOON, 2000, 0);
    assert_ok(place, store->queue_pause(store, waits.queue, true, &place->err));
    commit(place);
    assert_int_equal(store->unassigned(store, at(NOON + SECOND), found, 5), 0);
    begin(place);
    assert_ok(place, store->queue_pause(store, waits.queue, false, &place->err));
    commit(place);
    store->assignment_restart(store, waits.queue, at(NOON + HOUR));
    assert_int_equal(store->unassigned(store, at(NOON + HOUR), found, 5), 1); /* the other one */
    assert_true(found[0].seq != waits.seq);
    assert_int_equal(store->unassigned(store, at(NOON + HOUR + SECOND - 1), found, 5), 0);
    assert_int_equal(store->unassigned(store, at(NOON + HOUR + SECOND), found, 5), 1);
    assert_true(found[0].seq == waits.seq);
}

static void a_clock_that_jumps_takes_the_time_to_be_assigned_along(void **state)
{
    struct place *place = *state;
    struct job found[5], job;
    const int64_t moved = place->kind->shared ? 0 : HOUR; /* as in suite_job.c */
    begin(place);
    struct job waits = put_hinted(place, "q", "waits", 4, JOB_PENDING, NOON, 1000, 0);
    struct job fixed = put_hinted(place, "q", "fixed", 4, JOB_PENDING, NOON, 1000, 0);
    fixed.flags |= JOB_RUN_AT;
    update(place, &fixed, "");
    assert_ok(place, place->store->shift(place->store, span_seconds(3600), &place->err));
    commit(place);
    struct store *store = place->store;
    assert_int_equal(store->unassigned(store, at(NOON + moved + SECOND - 1), found, 5), 0);
    assert_int_equal(store->unassigned(store, at(NOON + moved + SECOND), found, 5), 2);
    for (int i = 0; i < 2; i++) {
        store = place->store;
        assert_true(store->job_by_seq(store, waits.seq, &job));
        assert_true(job.due_at.us == NOON + moved && job.deadline_at.us == NOON + moved + SECOND);
        assert_true(store->job_by_seq(store, fixed.seq, &job));
        assert_true(job.due_at.us == NOON && job.deadline_at.us == NOON + SECOND);
        reopen(place);
    }
}

static void the_names_of_a_set_of_capabilities_are_known(void **state)
{
    struct place *place = *state;
    size_t count;
    begin(place);
    uint32_t number = capabilities(place, "linux", "gpu");
    commit(place);
    reopen(place);
    const struct slice *names = place->store->capabilities_names(place->store, number, &count);
    assert_int_equal(count, 2);
    assert_true(slice_is(names[0], "gpu") && slice_is(names[1], "linux"));
    assert_null(place->store->capabilities_names(place->store, 0, &count));
    assert_int_equal(count, 0);
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
        CASE(a_job_with_hints_is_given_to_nobody_who_asks),
        CASE(a_job_that_nobody_was_given_in_time_is_found_once),
        CASE(the_time_to_be_assigned_stands_still_in_a_paused_queue),
        CASE(a_clock_that_jumps_takes_the_time_to_be_assigned_along),
        CASE(the_names_of_a_set_of_capabilities_are_known),
    };
    return CASES(tests);
}
