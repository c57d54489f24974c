/* suite_event: the evidence. */
#include "store/suite.h"

static struct event append(struct place *place, int64_t job_seq, int64_t previous, const char *what)
{
    struct event event = {.at = at(NOON),
                          .actor = SLICE("human:ada"),
                          .job_seq = job_seq,
                          .previous_seq = previous,
                          .what = slice_of(what),
                          .why = SLICE("{\"n\":\"\xff\"}")};
    assert_ok(place, place->store->event_append(place->store, &event, &place->err));
    return event;
}

/* words lists what events say, separated by spaces. */
static const char *words(struct place *place, const struct event *events, size_t count)
{
    struct slice texts[64];
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++)
        texts[i] = events[i].what;
    return joined(place, texts, count);
}

static void an_empty_store_has_no_head(void **state)
{
    struct place *place = *state;
    const struct hash zeros = {{0}};
    struct hash hash = {{1}};
    int64_t seq = 9;
    place->store->event_head(place->store, &seq, &hash);
    assert_true(seq == 0);
    assert_memory_equal(&hash, &zeros, sizeof(hash));
}

static void events_are_numbered_without_a_gap_and_chained(void **state)
{
    struct place *place = *state;
    struct event *events;
    struct hash hash = {{0}}, head;
    size_t count;
    int64_t seq;
    for (int i = 0; i < 5; i++) {
        begin(place);
        assert_true(append(place, i, 0, "kept").seq == i + 1);
        commit(place);
        begin(place);
        append(place, i, 0, "lost");
        rollback(place);
        if (i == 2)
            reopen(place);
    }
    assert_ok(place, place->store->event_list(place->store, 0, 64, &place->arena, &events, &count,
                                              &place->err));
    assert_string_equal(words(place, events, count), "kept kept kept kept kept");
    for (size_t i = 0; i < count; i++) {
        assert_true(events[i].seq == (int64_t)i + 1 && events[i].job_seq == (int64_t)i);
        assert_slice(events[i].actor, "human:ada");
        assert_slice(events[i].why, "{\"n\":\"\xff\"}");
        hash = event_hash(&events[i], hash);
        assert_memory_equal(&hash, &events[i].hash, sizeof(hash));
    }
    place->store->event_head(place->store, &seq, &head);
    assert_true(seq == 5);
    assert_memory_equal(&head, &hash, sizeof(hash));
}

static void a_list_of_events_begins_after_and_ends_at_the_limit(void **state)
{
    struct place *place = *state;
    struct event *events;
    size_t count;
    begin(place);
    append(place, 1, 0, "a");
    append(place, 1, 1, "b");
    append(place, 1, 2, "c");
    commit(place);
    static const struct {
        int64_t after;
        size_t limit;
        const char *words;
    } table[] = {{0, 2, "a b"}, {1, 9, "b c"}, {3, 9, ""}, {0, 0, ""}, {-5, 1, "a"}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_ok(place, place->store->event_list(place->store, table[i].after, table[i].limit,
                                                  &place->arena, &events, &count, &place->err));
        assert_string_equal(words(place, events, count), table[i].words);
    }
}

static void the_events_of_a_job_are_found_by_walking_back(void **state)
{
    struct place *place = *state;
    struct event *events;
    size_t count;
    int64_t last = 0;
    static const char *const what[] = {"a", "b", "c", "d"};
    begin(place);
    for (int i = 0; i < 4; i++) {
        append(place, 2, 0, "other");
        last = append(place, 1, last, what[i]).seq; /* 2, 4, 6, 8 */
    }
    commit(place);
    static const struct {
        int64_t after;
        size_t limit;
        const char *words;
    } table[] = {{0, 9, "a b c d"}, {0, 2, "a b"}, {2, 2, "b c"}, {3, 9, "b c d"}, {8, 9, ""}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_ok(place,
                  place->store->event_of_job(place->store, last, table[i].after, table[i].limit,
                                             &place->arena, &events, &count, &place->err));
        assert_string_equal(words(place, events, count), table[i].words);
    }
    assert_ok(place, place->store->event_of_job(place->store, 0, 0, 9, &place->arena, &events,
                                                &count, &place->err));
    assert_int_equal(count, 0);
}

/* append_run appends `count` events, of which one is longer than any that a store would gather. */
static void append_run(struct place *place, int count)
{
    static char large[100000];
    memset(large, 'x', sizeof(large));
    for (int i = 1; i <= count; i++) {
        struct event event = {.at = at(NOON + i),
                              .job_seq = i,
                              .what = SLICE("w"),
                              .why = {large, i == 7 ? sizeof(large) : (size_t)i}};
        assert_ok(place, place->store->event_append(place->store, &event, &place->err));
        assert_true(event.seq == i);
    }
}

static void assert_run(struct place *place, size_t expected)
{
    struct event *events;
    struct hash hash = {{0}};
    size_t count;
    assert_ok(place, place->store->event_list(place->store, 0, 64, &place->arena, &events, &count,
                                              &place->err));
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_true(events[i].seq == (int64_t)i + 1 && events[i].job_seq == events[i].seq);
        assert_int_equal(events[i].why.len, i == 6 ? 100000 : i + 1);
        hash = event_hash(&events[i], hash);
        assert_memory_equal(&hash, &events[i].hash, sizeof(hash));
    }
}

static void events_are_seen_in_their_transaction_and_kept_or_lost_with_it(void **state)
{
    struct place *place = *state;
    for (int count = 1; count <= 40; count++) {
        begin(place);
        append_run(place, count);
        if (count % 2)
            assert_run(place, (size_t)count);
        rollback(place);
        assert_run(place, 0);
    }
    begin(place);
    append_run(place, 39);
    commit(place);
    reopen(place);
    assert_run(place, 39);
}

struct cases event_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(an_empty_store_has_no_head),
        CASE(events_are_numbered_without_a_gap_and_chained),
        CASE(a_list_of_events_begins_after_and_ends_at_the_limit),
        CASE(the_events_of_a_job_are_found_by_walking_back),
        CASE(events_are_seen_in_their_transaction_and_kept_or_lost_with_it),
    };
    return CASES(tests);
}
