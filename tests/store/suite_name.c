/* suite_name: queues, sets of capabilities, policies, duties. */
#include "store/suite.h"

static uint32_t queue(struct place *place, struct slice name)
{
    uint32_t number;
    assert_ok(place, place->store->queue_number(place->store, name, &number, &place->err));
    return number;
}

static uint32_t set(struct place *place, const struct slice *names, size_t count)
{
    uint32_t number;
    assert_ok(place,
              place->store->capabilities_number(place->store, names, count, &number, &place->err));
    return number;
}

static void a_queue_keeps_its_number(void **state)
{
    struct place *place = *state;
    const struct slice names[] = {SLICE("a"), SLICE("A"), SLICE("a\xff\x01"), SLICE("")};
    uint32_t numbers[4];
    begin(place);
    for (int i = 0; i < 4; i++) {
        numbers[i] = queue(place, names[i]);
        for (int k = 0; k < i; k++)
            assert_true(numbers[k] != numbers[i]);
    }
    commit(place);
    reopen(place);
    begin(place);
    for (int i = 0; i < 4; i++) {
        assert_true(queue(place, names[i]) == numbers[i]);
        assert_true(slice_eq(place->store->queue_name(place->store, numbers[i]), names[i]));
    }
    uint32_t fresh = queue(place, SLICE("fresh"));
    rollback(place);
    assert_null(place->store->queue_name(place->store, fresh).ptr);
}

static void an_unknown_queue_cannot_be_paused(void **state)
{
    struct place *place = *state;
    begin(place);
    assert_int_equal(place->store->queue_pause(place->store, 77, true, &place->err),
                     STATUS_NOT_FOUND);
    commit(place);
    assert_false(place->store->queue_paused(place->store, 77));
}

static void a_queue_counts_its_jobs_in_every_state(void **state)
{
    struct place *place = *state;
    struct queue_info *queues;
    size_t count;
    begin(place);
    struct job first = job_on(place, "q", "p1");
    first.pushed_at = at(NOON - 7);
    insert(place, first, "p1");
    insert(place, job_on(place, "q", "p2"), "p2");
    struct job scheduled = job_on(place, "q", "s");
    scheduled.state = JOB_SCHEDULED;
    insert(place, scheduled, "s");
    struct job running = job_on(place, "q", "r");
    running.state = JOB_RUNNING;
    insert(place, running, "r");
    finish(place, insert(place, job_on(place, "q", "d"), "d"), "d", NOON);
    finish(place, insert(place, job_on(place, "q", "d2"), "d2"), "d2", NOON);
    struct job cancelled = insert(place, job_on(place, "q", "c"), "c");
    cancelled.state = JOB_CANCELLED;
    finish(place, cancelled, "c", NOON);
    queue(place, SLICE("empty"));
    commit(place);
    struct letter open = dead(place, "l1", NOON), closed = dead(place, "l2", NOON);
    begin(place);
    closed.state = LETTER_DISCARDED;
    open.state = LETTER_RECOVERING;
    put(place, &closed, NULL, false);
    put(place, &open, NULL, false);
    assert_ok(place, place->store->queue_pause(place->store, first.queue, true, &place->err));
    commit(place);
    for (int i = 0; i < 2; i++) {
        assert_ok(place, place->store->queue_list(place->store, &place->arena, &queues, &count,
                                                  &place->err));
        assert_int_equal(count, 2);
        assert_slice(queues[0].name, "q");
        assert_true(queues[0].queue == first.queue && queues[0].paused && !queues[1].paused);
        static const int64_t counts[JOB_STATE_COUNT] = {2, 1, 1, 2, 1, 1};
        for (int k = 0; k < JOB_STATE_COUNT; k++)
            assert_true(queues[0].counts[k] == counts[k] && queues[1].counts[k] == 0);
        assert_true(queues[0].oldest_pending.us == NOON - 7);
        assert_false(instant_is_set(queues[1].oldest_pending));
        reopen(place);
    }
}

static void a_set_of_capabilities_has_one_number_in_any_order(void **state)
{
    struct place *place = *state;
    const struct slice ab[] = {SLICE("a"), SLICE("b")};
    const struct slice ba[] = {SLICE("b"), SLICE("a"), SLICE("b")};
    const struct slice joint[] = {SLICE("ab")};
    const struct slice odd[] = {SLICE("1:a,"), SLICE(""), SLICE("\xff\n")};
    begin(place);
    uint32_t pair = set(place, ab, 2), one = set(place, ab, 1), together = set(place, joint, 1);
    uint32_t strange = set(place, odd, 3);
    assert_true(pair != 0 && one != 0 && together != 0 && strange != 0);
    assert_true(pair != one && one != together && pair != together && strange != together);
    assert_true(set(place, ba, 3) == pair);
    assert_true(set(place, ab, 0) == 0);
    commit(place);
    reopen(place);
    begin(place);
    assert_true(set(place, ba, 3) == pair && set(place, ab, 1) == one);
    assert_true(set(place, joint, 1) == together && set(place, odd, 3) == strange);
    commit(place);
}

/* needs is a job of a queue that requires the capabilities; within a transaction. */
static struct job needs(struct place *place, const char *queue_name, const char *job_id,
                        const struct slice *capabilities, size_t count, enum job_state state)
{
    struct job job = job_on(place, queue_name, job_id);
    job.capabilities = set(place, capabilities, count);
    job.state = (uint8_t)state;
    return job;
}

static void assert_requiring(struct place *place, const char *capability, int64_t pending,
                             int64_t scheduled, int64_t running, int64_t next_due)
{
    struct requiring found = {.next_due = at(1)};
    place->store->requiring(place->store, slice_of(capability), &found);
    assert_int_equal(found.counts[JOB_PENDING], pending);
    assert_int_equal(found.counts[JOB_SCHEDULED], scheduled);
    assert_int_equal(found.counts[JOB_RUNNING], running);
    assert_int_equal(found.next_due.us, next_due);
}

static void live_jobs_are_counted_by_a_capability_that_they_require(void **state)
{
    struct place *place = *state;
    const struct slice gpu[] = {SLICE("gpu")}, both[] = {SLICE("gpu"), SLICE("net")};
    assert_requiring(place, "gpu", 0, 0, 0, 0);
    begin(place);
    insert(place, job_on(place, "q", "any"), "any");
    struct job first = insert(place, needs(place, "q", "a", gpu, 1, JOB_PENDING), "a");
    insert(place, needs(place, "r", "b", both, 2, JOB_PENDING), "b");
    struct job early = needs(place, "q", "c", gpu, 1, JOB_SCHEDULED);
    struct job late = needs(place, "q", "d", both, 2, JOB_SCHEDULED);
    struct job other = job_on(place, "q", "e");
    early.due_at = at(NOON + 2 * SECOND);
    late.due_at = at(NOON + 3 * SECOND);
    other.state = JOB_SCHEDULED;
    other.due_at = at(NOON + SECOND);
    insert(place, late, "d");
    early = insert(place, early, "c");
    insert(place, other, "e");
    insert(place, needs(place, "q", "f", gpu, 1, JOB_RUNNING), "f");
    commit(place);
    for (int i = 0; i < 2; i++) {
        assert_requiring(place, "gpu", 2, 2, 1, NOON + 2 * SECOND);
        assert_requiring(place, "net", 1, 1, 0, NOON + 3 * SECOND);
        assert_requiring(place, "gp", 0, 0, 0, 0);
        assert_requiring(place, "", 0, 0, 0, 0);
        reopen(place);
    }
    begin(place);
    first.state = JOB_RUNNING;
    update(place, &first, "w");
    finish(place, early, "c", NOON);
    assert_requiring(place, "gpu", 1, 1, 2, NOON + 3 * SECOND);
    rollback(place);
    assert_requiring(place, "gpu", 2, 2, 1, NOON + 2 * SECOND);
    place->store->due(place->store, at(NOON + 2 * SECOND));
    assert_requiring(place, "gpu", 3, 1, 1, NOON + 3 * SECOND);
}

static void every_version_of_a_policy_is_kept(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct stored_policy found, *all;
    size_t count;
    int64_t version;
    static const struct {
        const char *name, *body;
        int64_t version;
    } table[] = {{"b", "{}", 1}, {"a", "{\"max_attempts\":1}", 1}, {"b", "{\"x\":2}", 2}};
    begin(place);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(place, store->policy_put(store, slice_of(table[i].name), slice_of(table[i].body),
                                           at(NOON + (int64_t)i), &version, &place->err));
        assert_true(version == table[i].version);
    }
    commit(place);
    reopen(place);
    store = place->store;
    for (size_t i = 0; i < 3; i++) {
        assert_ok(place, store->policy_get(store, slice_of(table[i].name), table[i].version,
                                           &place->arena, &found, &place->err));
        assert_slice(found.name, table[i].name);
        assert_slice(found.body, table[i].body);
        assert_true(found.version == table[i].version && found.at.us == NOON + (int64_t)i);
    }
    assert_ok(place, store->policy_get(store, SLICE("b"), 0, &place->arena, &found, &place->err));
    assert_true(found.version == 2);
    assert_int_equal(store->policy_get(store, SLICE("b"), 3, &place->arena, &found, &place->err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store->policy_get(store, SLICE("c"), 0, &place->arena, &found, &place->err),
                     STATUS_NOT_FOUND);
    assert_true(found.version == 2);
    assert_ok(place, store->policy_list(store, &place->arena, &all, &count, &place->err));
    assert_int_equal(count, 2);
    assert_slice(all[0].name, "a");
    assert_slice(all[1].name, "b");
    assert_true(all[1].version == 2);
}

static struct duty duty(struct place *place, struct slice name)
{
    struct duty found;
    assert_ok(place,
              place->store->duty_get(place->store, name, &place->arena, &found, &place->err));
    assert_true(slice_eq(found.name, name));
    return found;
}

static void a_duty_is_what_was_last_put(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct duty found = {.cursor = 77};
    const struct duty first = {SLICE("scanner"), SLICE("one"), at(NOON), 5};
    const struct duty next = {SLICE("scanner"), SLICE("two"), at(NOON + 9), 6};
    const struct duty other = {SLICE("alerts"), SLICE(""), INSTANT_NONE, 0};
    assert_int_equal(store->duty_get(store, SLICE("scanner"), &place->arena, &found, &place->err),
                     STATUS_NOT_FOUND);
    assert_true(found.cursor == 77);
    begin(place);
    assert_ok(place, store->duty_put(store, &first, &place->err));
    assert_slice(duty(place, SLICE("scanner")).holder, "one");
    assert_ok(place, store->duty_put(store, &other, &place->err));
    commit(place);
    begin(place);
    assert_ok(place, store->duty_put(store, &next, &place->err));
    rollback(place);
    found = duty(place, SLICE("scanner"));
    assert_slice(found.holder, "one");
    assert_true(found.until.us == NOON && found.cursor == 5);
    begin(place);
    assert_ok(place, store->duty_put(store, &next, &place->err));
    commit(place);
    reopen(place);
    found = duty(place, SLICE("scanner"));
    assert_slice(found.holder, "two");
    assert_true(found.until.us == NOON + 9 && found.cursor == 6);
    found = duty(place, SLICE("alerts"));
    assert_slice(found.holder, "");
    assert_true(!instant_is_set(found.until) && found.cursor == 0);
}

struct cases name_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_queue_keeps_its_number),
        CASE(an_unknown_queue_cannot_be_paused),
        CASE(a_queue_counts_its_jobs_in_every_state),
        CASE(a_set_of_capabilities_has_one_number_in_any_order),
        CASE(live_jobs_are_counted_by_a_capability_that_they_require),
        CASE(every_version_of_a_policy_is_kept),
        CASE(a_duty_is_what_was_last_put),
    };
    return CASES(tests);
}
