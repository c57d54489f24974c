/* suite_letter: one letter, its place in time, and the counts. */
#include "store/suite.h"

static struct letter get(struct place *place, const char *dlq_id)
{
    struct letter letter;
    assert_ok(place, place->store->letter_get(place->store, slice_of(dlq_id), &place->arena,
                                              &letter, &place->err));
    return letter;
}

/* counted is how many letters the counters have in a state (below 0: any) for a reason. */
static int64_t counted(struct place *place, int state, const char *reason)
{
    struct letter_count *counts;
    size_t count;
    int64_t total = 0;
    assert_ok(place, place->store->letter_counts(place->store, &place->arena, &counts, &count,
                                                 &place->err));
    for (size_t i = 0; i < count; i++) {
        assert_true(counts[i].count > 0);
        if ((state < 0 || (int)counts[i].state == state) &&
            (!reason || slice_is(counts[i].reason, reason)))
            total += counts[i].count;
    }
    return total;
}

static void a_letter_is_the_same_after_reopening(void **state)
{
    struct place *place = *state;
    struct job job = push(place, "q", "a");
    begin(place);
    struct letter letter = letter_of(place, &job, "d-1", NOON);
    letter.run_id = SLICE("run");
    letter.item_id = SLICE("../item");
    letter.trace_id = SLICE("trace");
    letter.agent = SLICE("agent-7");
    letter.artifacts = SLICE("{\"path\":\"/x\"}");
    letter.recovered_by = SLICE("ada");
    letter.recovered_at = at(NOON + 9);
    letter.state = LETTER_ROLLED_BACK;
    letter.replay_safety = REPLAY_UNSAFE;
    letter.recoverable = letter.eligible = false;
    letter.review = letter.escalated = letter.foreign = true;
    letter.failure_count = UINT32_MAX;
    letter.max_attempts = UINT32_MAX - 1;
    letter.job.attempt = 12;
    bury(place, &job, &letter, "text");
    commit(place);
    reopen(place);
    struct letter found = get(place, "d-1");
    assert_true(letter.position == NOON && found.position == NOON);
    assert_true(found.envelope_seq == job.envelope_seq && found.job.seq == job.seq);
    assert_int_equal(found.job.attempt, 12);
    assert_slice(found.job_id, "a");
    assert_slice(found.queue, "q");
    assert_slice(found.run_id, "run");
    assert_slice(found.item_id, "../item");
    assert_slice(found.trace_id, "trace");
    assert_slice(found.agent, "agent-7");
    assert_slice(found.original_subject, "jobs.q");
    assert_slice(found.reason, "retries_exhausted");
    assert_slice(found.reason_detail, "5 of 5 attempts");
    assert_slice(found.source, "lazaret");
    assert_slice(found.signature, "Timeout::connection to host timed out");
    assert_slice(found.fingerprint, "00000000000000aa");
    assert_slice(found.error_type, "Timeout");
    assert_slice(found.artifacts, "{\"path\":\"/x\"}");
    assert_slice(found.recovered_by, "ada");
    assert_int_equal(found.state, LETTER_ROLLED_BACK);
    assert_int_equal(found.replay_safety, REPLAY_UNSAFE);
    assert_true(found.failed_at.us == NOON && found.first_attempt_at.us == NOON - SECOND);
    assert_true(found.last_attempt_at.us == NOON && found.recovered_at.us == NOON + 9);
    assert_true(found.failure_count == UINT32_MAX && found.max_attempts == UINT32_MAX - 1);
    assert_false(found.recoverable || found.eligible);
    assert_true(found.review && found.escalated && found.foreign);
}

static void an_unknown_letter_is_not_found_and_the_answer_untouched(void **state)
{
    struct place *place = *state;
    struct letter letter = {.position = 42};
    struct store *store = place->store;
    assert_int_equal(store->letter_get(store, SLICE("no"), &place->arena, &letter, &place->err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store->letter_by_job(store, 1, &place->arena, &letter, &place->err),
                     STATUS_NOT_FOUND);
    assert_true(letter.position == 42);
}

static void a_job_that_dies_again_keeps_its_letter_and_moves_in_time(void **state)
{
    struct place *place = *state;
    struct letter letter = dead(place, "d-1", NOON), found;
    dead(place, "d-2", NOON + SECOND);
    begin(place);
    letter.failed_at = at(NOON + HOUR);
    letter.failure_count = 10;
    put(place, &letter, NULL, true);
    commit(place);
    assert_true(letter.position == NOON + HOUR);
    assert_ok(place, place->store->letter_by_job(place->store, letter.job.seq, &place->arena,
                                                 &found, &place->err));
    assert_slice(found.dlq_id, "d-1");
    assert_int_equal(found.failure_count, 10);
    assert_string_equal(listed(place, (struct letter_filter){0}), "d-1 d-2");
    assert_int_equal(counted(place, LETTER_DEAD, NULL), 2);
    /* The text that search finds moved along. */
    assert_string_equal(listed(place, (struct letter_filter){.q = SLICE("\"d-1\"")}), "d-1");
    /* Another letter may have the instant that it left. */
    dead(place, "d-3", NOON);
    assert_string_equal(listed(place, (struct letter_filter){.oldest_first = true}), "d-3 d-2 d-1");
}

static void a_review_leaves_a_letter_where_it_is(void **state)
{
    struct place *place = *state;
    struct letter letter = dead(place, "d-1", NOON);
    begin(place);
    letter.state = LETTER_DISCARDED;
    letter.recovered_by = SLICE("ada");
    put(place, &letter, NULL, false);
    commit(place);
    assert_true(letter.position == NOON && get(place, "d-1").position == NOON);
    assert_string_equal(listed(place, (struct letter_filter){.q = SLICE("d")}), "d-1");
    begin(place);
    put(place, &letter, "another text", false);
    commit(place);
    assert_string_equal(listed(place, (struct letter_filter){.q = SLICE("d")}), "");
    assert_string_equal(listed(place, (struct letter_filter){.q = SLICE("another")}), "d-1");
}

static void letters_that_failed_at_one_instant_each_have_their_place(void **state)
{
    struct place *place = *state;
    int64_t positions[30];
    for (int i = 0; i < 30; i++) {
        char id[16];
        snprintf(id, sizeof(id), "d-%d", i);
        if (i == 15)
            reopen(place);
        positions[i] = dead(place, id, i % 2 ? NOON : NOON + 3).position;
        assert_true(positions[i] >= NOON);
        for (int k = 0; k < i; k++)
            assert_true(positions[k] != positions[i]);
    }
    /* What failed before an instant is found by that, though its place is after it. */
    struct letter_filter filter = {.before = at(NOON + 1), .limit = 50};
    struct letter *letters;
    size_t count;
    assert_ok(place, place->store->letter_list(place->store, &filter, &place->arena, &letters,
                                               &count, &place->err));
    assert_int_equal(count, 15);
}

static void letters_at_the_ends_of_time_have_their_place(void **state)
{
    struct place *place = *state;
    static const int64_t times[] = {0, INT64_MAX, -1, INT64_MIN, 1, INT64_MAX, 0, -1};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        char id[16];
        snprintf(id, sizeof(id), "d%zu", i);
        assert_true(dead(place, id, times[i]).position != 0);
        assert_true(get(place, id).failed_at.us == times[i]);
    }
    assert_string_equal(listed(place, (struct letter_filter){.q = SLICE("d*")}),
                        listed(place, (struct letter_filter){0}));
    struct letter_filter filter = {.limit = 1};
    int64_t before = INT64_MAX;
    for (size_t i = 0; i < 8; i++) {
        struct letter *letters;
        size_t count;
        assert_ok(place, place->store->letter_list(place->store, &filter, &place->arena, &letters,
                                                   &count, &place->err));
        assert_int_equal(count, 1);
        assert_true(letters[0].position < before);
        filter.cursor = before = letters[0].position;
    }
}

static void a_dlq_id_belongs_to_one_job(void **state)
{
    struct place *place = *state;
    dead(place, "d-1", NOON);
    struct job job = push(place, "q", "b");
    begin(place);
    struct letter letter = letter_of(place, &job, "d-1", NOON);
    assert_int_equal(place->store->letter_put(place->store, &letter, NULL, true, &place->err),
                     STATUS_CONFLICT);
    commit(place);
    assert_int_equal(counted(place, -1, NULL), 1);
}

static void counts_follow_every_change(void **state)
{
    struct place *place = *state;
    struct letter a = dead(place, "a", NOON);
    dead(place, "b", NOON + 1);
    assert_int_equal(counted(place, LETTER_DEAD, "retries_exhausted"), 2);
    begin(place);
    a.state = LETTER_RECOVERED;
    put(place, &a, NULL, false);
    commit(place);
    assert_int_equal(counted(place, LETTER_DEAD, NULL), 1);
    assert_int_equal(counted(place, LETTER_RECOVERED, NULL), 1);
    begin(place);
    a.state = LETTER_DEAD;
    a.reason = SLICE("not_retryable");
    a.recoverable = false;
    put(place, &a, NULL, true);
    rollback(place);
    assert_int_equal(counted(place, LETTER_RECOVERED, NULL), 1);
    begin(place);
    put(place, &a, NULL, true);
    commit(place);
    reopen(place);
    assert_int_equal(counted(place, LETTER_DEAD, "retries_exhausted"), 1);
    assert_int_equal(counted(place, LETTER_DEAD, "not_retryable"), 1);
    assert_int_equal(counted(place, -1, NULL), 2);
    begin(place);
    assert_ok(place, place->store->letter_purge(place->store, &a, at(NOON), &place->err));
    commit(place);
    assert_int_equal(counted(place, -1, NULL), 1);
    assert_int_equal(counted(place, -1, "not_retryable"), 0);
}

static void bounds_are_of_the_letters_that_are_dead(void **state)
{
    struct place *place = *state;
    struct instant oldest = at(1), newest = at(1);
    struct store *store = place->store;
    assert_ok(place, store->letter_bounds(store, &oldest, &newest, &place->err));
    assert_false(instant_is_set(oldest) || instant_is_set(newest));
    struct letter first = dead(place, "first", NOON);
    dead(place, "second", NOON + 10);
    struct letter third = dead(place, "third", NOON + 20), last = dead(place, "last", NOON + 30);
    begin(place);
    first.state = LETTER_DISCARDED;
    third.state = LETTER_RECOVERING;
    last.state = LETTER_RECOVERED;
    put(place, &first, NULL, false);
    put(place, &third, NULL, false);
    put(place, &last, NULL, false);
    commit(place);
    assert_ok(place, store->letter_bounds(store, &oldest, &newest, &place->err));
    assert_true(oldest.us == NOON + 10 && newest.us == NOON + 20);
}

/* oldest is when the oldest dead letter of a queue died; 0: there is none. */
static int64_t oldest(struct place *place, const char *queue)
{
    struct instant found = at(1);
    assert_ok(place,
              place->store->letter_oldest(place->store, slice_of(queue), &found, &place->err));
    return found.us;
}

static void the_oldest_of_a_queue_is_one_of_its_dead(void **state)
{
    struct place *place = *state;
    assert_int_equal(oldest(place, "mail"), 0);
    struct letter first = dead(place, "first", NOON), second = dead(place, "second", NOON + 10);
    struct letter third = dead(place, "third", NOON + 20), other = dead(place, "other", NOON - 10);
    begin(place);
    first.queue = second.queue = third.queue = SLICE("mail");
    other.queue = SLICE("print");
    first.state = LETTER_DISCARDED;
    second.state = LETTER_RECOVERING;
    put(place, &first, NULL, false);
    put(place, &second, NULL, false);
    put(place, &third, NULL, false);
    put(place, &other, NULL, false);
    commit(place);
    assert_int_equal(oldest(place, "mail"), NOON + 10);
    assert_int_equal(oldest(place, "print"), NOON - 10);
    begin(place);
    second.state = LETTER_RECOVERED;
    put(place, &second, NULL, false);
    commit(place);
    reopen(place);
    assert_int_equal(oldest(place, "mail"), NOON + 20);
    begin(place);
    third.state = LETTER_ROLLED_BACK;
    put(place, &third, NULL, false);
    commit(place);
    assert_int_equal(oldest(place, "mail"), 0);
}

static void assert_run(struct place *place, const char *run_id, int64_t dead_, int64_t recovering)
{
    int64_t counts[2] = {-1, -1};
    assert_ok(place, place->store->letter_run(place->store, slice_of(run_id), &counts[0],
                                              &counts[1], &place->err));
    assert_int_equal(counts[0], dead_);
    assert_int_equal(counts[1], recovering);
}

static void the_open_letters_of_a_run_are_counted(void **state)
{
    struct place *place = *state;
    struct letter letters[6];
    static const char *const ids[] = {"l0", "l1", "l2", "l3", "l4", "l5"};
    static const enum letter_state states[] = {LETTER_DEAD,       LETTER_DEAD,
                                               LETTER_RECOVERING, LETTER_RECOVERED,
                                               LETTER_DISCARDED,  LETTER_DEAD};
    assert_run(place, "run-9", 0, 0);
    for (size_t i = 0; i < 6; i++)
        letters[i] = dead(place, ids[i], NOON + (int64_t)i);
    begin(place);
    for (size_t i = 0; i < 6; i++) {
        letters[i].run_id = i < 5 ? SLICE("run-9") : SLICE("run-10");
        letters[i].state = states[i];
        put(place, &letters[i], NULL, false);
    }
    commit(place);
    assert_run(place, "run-9", 2, 1);
    assert_run(place, "run-10", 1, 0);
    assert_run(place, "run", 0, 0);
    assert_run(place, "", 0, 0);
    reopen(place);
    assert_run(place, "run-9", 2, 1);
}

static void deaths_are_counted_by_the_hour_and_reviews_are_not(void **state)
{
    struct place *place = *state;
    const int64_t hour = NOON - NOON % HOUR;
    struct hour_count *hours;
    size_t count;
    struct letter a = dead(place, "a", hour);
    dead(place, "b", hour + HOUR - 1);
    dead(place, "c", hour + HOUR);
    begin(place);
    a.state = LETTER_DISCARDED;
    put(place, &a, NULL, false);
    commit(place);
    assert_ok(place, place->store->letter_hours(place->store, at(hour + 5), &place->arena, &hours,
                                                &count, &place->err));
    assert_int_equal(count, 2);
    assert_true(hours[0].hour.us == hour && hours[0].count == 2);
    assert_true(hours[1].hour.us == hour + HOUR && hours[1].count == 1);
    assert_ok(place, place->store->letter_hours(place->store, at(hour + HOUR), &place->arena,
                                                &hours, &count, &place->err));
    assert_int_equal(count, 1);
}

static void ids_that_begin_alike_are_offered(void **state)
{
    struct place *place = *state;
    struct slice *found;
    size_t count;
    static const struct {
        const char *prefix;
        size_t max;
        const char *ids;
    } table[] = {
        {"0192", 9, "0192-a 0192-b"},
        {"0192-b", 9, "0192-b"},
        {"0192", 1, "0192-a"},
        {"0193", 9, ""},
        {"", 9, "0192-a 0192-b 01_%"},
        {"%", 9, ""},
        {"01_", 9, "01_%"},
    };
    dead(place, "0192-b", NOON);
    dead(place, "0192-a", NOON + 1);
    dead(place, "01_%", NOON + 2);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_ok(place,
                  place->store->letter_like(place->store, slice_of(table[i].prefix), table[i].max,
                                            &place->arena, &found, &count, &place->err));
        assert_string_equal(joined(place, found, count), table[i].ids);
    }
}

/* foreign_letter makes a letter from elsewhere that holds what `origin` says. */
static void foreign_letter(struct place *place, const char *dlq_id, int64_t failed_at,
                           uint64_t origin, bool foreign)
{
    struct letter letter;
    begin(place);
    struct job job = insert(place, job_on(place, "q", dlq_id), dlq_id);
    letter = letter_of(place, &job, dlq_id, failed_at);
    letter.foreign = foreign;
    letter.job.idempotency_hash = origin;
    bury(place, &job, &letter, "text");
    commit(place);
}

static void the_newest_letter_from_elsewhere_is_found_by_what_it_holds(void **state)
{
    struct place *place = *state;
    struct letter found = {.position = 77};
    const uint64_t high = UINT64_C(0xfedcba9876543210);
    foreign_letter(place, "old", NOON, high, true);
    foreign_letter(place, "new", NOON + SECOND, high, true);
    foreign_letter(place, "own", NOON + 2 * SECOND, high, false);
    foreign_letter(place, "other", NOON + 3 * SECOND, 5, true);
    for (int round = 0; round < 2; round++) {
        assert_ok(place, place->store->letter_by_origin(place->store, high, &place->arena, &found,
                                                        &place->err));
        assert_slice(found.dlq_id, "new");
        assert_ok(place, place->store->letter_by_origin(place->store, 5, &place->arena, &found,
                                                        &place->err));
        assert_slice(found.dlq_id, "other");
        reopen(place);
    }
    found.position = 77;
    assert_int_equal(
        place->store->letter_by_origin(place->store, 6, &place->arena, &found, &place->err),
        STATUS_NOT_FOUND);
    assert_true(found.position == 77);
}

struct cases letter_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_letter_is_the_same_after_reopening),
        CASE(an_unknown_letter_is_not_found_and_the_answer_untouched),
        CASE(a_job_that_dies_again_keeps_its_letter_and_moves_in_time),
        CASE(a_review_leaves_a_letter_where_it_is),
        CASE(letters_that_failed_at_one_instant_each_have_their_place),
        CASE(letters_at_the_ends_of_time_have_their_place),
        CASE(a_dlq_id_belongs_to_one_job),
        CASE(counts_follow_every_change),
        CASE(bounds_are_of_the_letters_that_are_dead),
        CASE(the_oldest_of_a_queue_is_one_of_its_dead),
        CASE(the_open_letters_of_a_run_are_counted),
        CASE(deaths_are_counted_by_the_hour_and_reviews_are_not),
        CASE(ids_that_begin_alike_are_offered),
        CASE(the_newest_letter_from_elsewhere_is_found_by_what_it_holds),
    };
    return CASES(tests);
}
