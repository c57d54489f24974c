/* suite_body: envelopes, status documents, attempts, keys that are kept for good. */
#include "store/suite.h"

static void an_envelope_comes_back_byte_for_byte(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    static const char bytes[] = "{\"a\" : \"\\u0000\"}\0\xff\xfe tail";
    const struct slice bodies[] = {{bytes, sizeof(bytes) - 1}, {NULL, 0}};
    for (int i = 0; i < 2; i++) {
        struct stored_envelope envelope;
        struct slice id;
        begin(place);
        struct job job = job_on(place, "q", "id");
        assert_ok(place,
                  store->job_insert(store, &job, SLICE("../id\x1b["), bodies[i], &place->err));
        commit(place);
        reopen(place);
        store = place->store;
        assert_ok(place, store->envelope_get(store, job.envelope_seq, &place->arena, &envelope,
                                             &place->err));
        assert_true(envelope.job_seq == job.seq);
        assert_slice(envelope.job_id, "../id\x1b[");
        assert_true(slice_eq(envelope.body, bodies[i]));
        assert_ok(place,
                  store->envelope_job_id(store, job.envelope_seq, &place->arena, &id, &place->err));
        assert_slice(id, "../id\x1b[");
    }
}

static void a_large_envelope_is_carried(void **state)
{
    struct place *place = *state;
    const size_t len = 10 << 20;
    char *bytes = arena_alloc(&place->arena, len);
    struct stored_envelope envelope;
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    begin(place);
    struct job job = job_on(place, "q", "large");
    assert_ok(place, place->store->job_insert(place->store, &job, SLICE("large"),
                                              (struct slice){bytes, len}, &place->err));
    commit(place);
    assert_ok(place, place->store->envelope_get(place->store, job.envelope_seq, &place->arena,
                                                &envelope, &place->err));
    assert_true(slice_eq(envelope.body, (struct slice){bytes, len}));
}

static void an_edit_keeps_the_envelope_before_it(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct job job = push(place, "q", "a");
    struct stored_envelope before, after;
    int64_t edit;
    begin(place);
    assert_ok(place, store->envelope_add(store, job.seq, SLICE("a"), SLICE("{\"edited\":1}"), &edit,
                                         &place->err));
    commit(place);
    assert_true(edit != job.envelope_seq);
    assert_ok(place,
              store->envelope_get(store, job.envelope_seq, &place->arena, &before, &place->err));
    assert_ok(place, store->envelope_get(store, edit, &place->arena, &after, &place->err));
    int64_t *seqs;
    size_t count;
    assert_ok(place,
              store->envelope_list(store, job.seq, &place->arena, &seqs, &count, &place->err));
    assert_int_equal(count, 2);
    assert_true(seqs[0] == job.envelope_seq && seqs[1] == edit);
    assert_ok(place, store->envelope_list(store, edit, &place->arena, &seqs, &count, &place->err));
    assert_int_equal(count, 0); /* the number of an envelope is not that of a job */
    assert_slice(before.body, "{\"action\":\"x\",\"job_id\":\"a\"}");
    assert_slice(after.body, "{\"edited\":1}");
    assert_true(after.job_seq == job.seq);
}

static void an_unknown_envelope_is_not_found_and_the_answer_untouched(void **state)
{
    struct place *place = *state;
    struct stored_envelope envelope = {.job_seq = 42};
    struct slice id = SLICE("mine");
    assert_int_equal(
        place->store->envelope_get(place->store, 99, &place->arena, &envelope, &place->err),
        STATUS_NOT_FOUND);
    assert_true(envelope.job_seq == 42);
    assert_int_equal(
        place->store->envelope_job_id(place->store, 99, &place->arena, &id, &place->err),
        STATUS_NOT_FOUND);
    assert_slice(id, "mine");
}

static void a_document_is_replaced_whole(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct slice body;
    assert_int_equal(store->document_get(store, 7, &place->arena, &body, &place->err),
                     STATUS_NOT_FOUND);
    begin(place);
    assert_ok(place, store->document_put(store, 7, SLICE("{\"a\":1,\"b\":2}"), &place->err));
    assert_ok(place, store->document_put(store, 7, SLICE("{\"b\":3}"), &place->err));
    commit(place);
    assert_ok(place, store->document_get(store, 7, &place->arena, &body, &place->err));
    assert_slice(body, "{\"b\":3}");
    assert_int_equal(store->document_get(store, 8, &place->arena, &body, &place->err),
                     STATUS_NOT_FOUND);
}

static void attempts_come_back_in_order_whatever_their_numbers(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct attempt_record *records;
    size_t count;
    static const struct {
        uint32_t attempt;
        const char *failure;
    } added[] = {{2, "b"}, {1, "a"}, {UINT32_MAX, "d"}, {2, "c"}};
    begin(place);
    for (size_t i = 0; i < 4; i++)
        assert_ok(place, store->attempt_add(store, 5, added[i].attempt, slice_of(added[i].failure),
                                            &place->err));
    assert_ok(place, store->attempt_add(store, 6, 1, SLICE("other"), &place->err));
    commit(place);
    assert_ok(place, store->attempt_list(store, 5, &place->arena, &records, &count, &place->err));
    assert_int_equal(count, 4);
    const char *failures[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++)
        assert_slice(records[i].failure, failures[i]);
    assert_true(records[3].attempt == UINT32_MAX);
    assert_ok(place, store->attempt_list(store, 9, &place->arena, &records, &count, &place->err));
    assert_int_equal(count, 0);
}

static void a_key_is_kept_for_good_by_kind_and_text(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    int64_t seq = 0;
    begin(place);
    assert_ok(place, store->forever_put(store, STORE_KEY_RETRY, SLICE("k"), 3, &place->err));
    commit(place);
    reopen(place);
    store = place->store;
    assert_true(store->forever_get(store, STORE_KEY_RETRY, SLICE("k"), &seq, &place->err));
    assert_true(seq == 3);
    assert_false(store->forever_get(store, STORE_KEY_IDEMPOTENCY, SLICE("k"), &seq, &place->err));
    assert_false(store->forever_get(store, STORE_KEY_RETRY, SLICE("K"), &seq, &place->err));
    assert_string_equal(place->err.text, "");
}

struct cases body_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(an_envelope_comes_back_byte_for_byte),
        CASE(a_large_envelope_is_carried),
        CASE(an_edit_keeps_the_envelope_before_it),
        CASE(an_unknown_envelope_is_not_found_and_the_answer_untouched),
        CASE(a_document_is_replaced_whole),
        CASE(attempts_come_back_in_order_whatever_their_numbers),
        CASE(a_key_is_kept_for_good_by_kind_and_text),
    };
    return CASES(tests);
}
