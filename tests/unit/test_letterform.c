/* Letters as other systems write them: what they say is kept, what they leave open is derived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/envelope.h"
#include "engine/letterform.h"

#define MESSAGE_AT 1771000000000000

static struct arena arena;

static int forget(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

/* published is a message of the stream, as the bridge describes it. */
static struct letterform_origin published(const char *subject)
{
    return (struct letterform_origin){
        .subject = slice_of(subject), .seed = SLICE("DLQ 17"), .at = {MESSAGE_AT}};
}

static struct import_item read_from(const char *text, const struct letterform_origin *origin)
{
    struct import_item item;
    struct err err = {0};
    enum status status = letterform_read(slice_of(text), origin, &arena, &item, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, STATUS_OK);
    return item;
}

static struct import_item read_message(const char *subject, const char *text)
{
    struct letterform_origin origin = published(subject);
    return read_from(text, &origin);
}

static void assert_text(struct slice text, const char *expected)
{
    assert_string_equal(arena_dup(&arena, text).ptr, expected);
}

static void what_a_letter_says_is_kept(void **state)
{
    (void)state;
    struct import_item item = read_message(
        "dlq.task.unassignable",
        "{\"dlq_id\":\"2f3e\",\"original_subject\":\"swarm.task.request\","
        "\"original_payload\":{\"b\":1,\"a\":2,\"a\":3, \"n\":1.50},\"reason\":\"crash_loop\","
        "\"reason_detail\":\"because\",\"failed_at\":\"2026-02-13T07:22:00.123456789+01:00\","
        "\"retry_count\":3,\"max_retries\":4,\"retry_history\":null,\"source\":\"elsewhere\","
        "\"recoverable\":false,\"recovered\":false}");
    assert_text(item.letter.dlq_id, "2f3e");
    assert_text(item.letter.original_subject, "swarm.task.request");
    assert_text(item.body, "{\"b\":1,\"a\":2,\"a\":3, \"n\":1.50}");
    assert_text(item.letter.reason, "crash_loop");
    assert_text(item.letter.reason_detail, "because");
    assert_text(item.letter.source, "elsewhere");
    assert_int_equal(item.letter.failed_at.us, 1770963720123456);
    assert_int_equal(item.letter.failure_count, 3);
    assert_int_equal(item.letter.max_attempts, 4);
    assert_false(item.letter.recoverable);
    assert_true(item.letter.foreign);
    assert_int_equal(item.letter.state, LETTER_DEAD);
}

#define BARE "{\"original_subject\":\"swarm.task.request\",\"original_payload\":{}}"

static void what_is_missing_follows_from_the_subject_and_the_message(void **state)
{
    static const struct {
        const char *subject, *reason, *source;
        bool recoverable;
    } cases[] = {
        {"dlq.task.unassignable", "no_capable_agent", "dispatch", true},
        {"dlq.task.execution_timeout", "timeout_in_progress", "dispatch", true},
        {"dlq.task.policy_denied", "policy_denied", "dispatch", false},
        {"dlq.task.malformed", "malformed", "dispatch", false},
        {"dlq.agent.crash_loop", "crash_loop", "warren", true},
        {"dlq.agent.unknown", "retries_exhausted", "warren", true},
        {"dlq.elsewhere", "retries_exhausted", "unknown", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct import_item item = read_message(cases[i].subject, BARE);
        assert_text(item.letter.reason, cases[i].reason);
        assert_text(item.letter.source, cases[i].source);
        assert_int_equal(item.letter.recoverable, cases[i].recoverable);
        assert_int_equal(item.letter.review, !cases[i].recoverable);
        assert_int_equal(item.letter.failed_at.us, MESSAGE_AT);
        assert_int_equal(item.letter.last_attempt_at.us, MESSAGE_AT);
    }
}

static void the_same_place_has_the_same_id_and_another_place_another(void **state)
{
    (void)state;
    struct letterform_origin here = published("dlq.task.x"), there = here, nowhere = here;
    there.seed = SLICE("DLQ 18");
    nowhere.seed = (struct slice){0};
    struct slice id = read_from(BARE, &here).letter.dlq_id;
    assert_int_equal(id.len, 36);
    assert_true(slice_eq(id, read_from(BARE, &here).letter.dlq_id));
    assert_false(slice_eq(id, read_from(BARE, &there).letter.dlq_id));
    assert_true(
        slice_eq(read_from(BARE, &nowhere).letter.dlq_id, read_from(BARE, &nowhere).letter.dlq_id));
}

static void zero_values_of_go_say_nothing(void **state)
{
    (void)state;
    struct import_item item = read_message(
        "dlq.task.x", "{\"dlq_id\":\"00000000-0000-0000-0000-000000000000\","
                      "\"original_subject\":\"s\",\"original_payload\":1,\"source\":\"\","
                      "\"reason\":\"\",\"failed_at\":\"0001-01-01T00:00:00Z\","
                      "\"retry_history\":[{\"attempt\":1,\"attempted_at\":"
                      "\"0001-01-01T00:00:00Z\",\"agent\":\"\",\"failure_reason\":\"\"}]}");
    assert_true(slice_eq(item.letter.dlq_id, read_message("dlq.task.x", BARE).letter.dlq_id));
    assert_text(item.letter.reason, "x");
    assert_text(item.letter.source, "dispatch");
    assert_int_equal(item.letter.failed_at.us, MESSAGE_AT);
    assert_int_equal(item.letter.first_attempt_at.us, MESSAGE_AT);
    assert_int_equal(item.attempt_count, 1);
}

static void the_last_attempt_judges_but_a_hopeless_reason_says_more(void **state)
{
    static const struct {
        const char *reason, *message;
        bool recoverable;
    } cases[] = {
        {"retries_exhausted", "connection refused", true},
        {"retries_exhausted", "permission denied", false},
        {"malformed", "connection refused", false},
        {"timeout_assigned", "fatal: nobody came", true},
        {"sunspots", "fatal: nobody came", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slice text =
            arena_printf(&arena,
                         "{\"original_subject\":\"s\",\"original_payload\":1,\"reason\":\"%s\","
                         "\"retry_history\":[{\"attempt\":1,\"failure_reason\":\"%s\"}]}",
                         cases[i].reason, cases[i].message);
        assert_int_equal(read_message("dlq.task.x", text.ptr).letter.recoverable,
                         cases[i].recoverable);
    }
}

static void a_letter_in_a_file_failed_at_its_last_attempt_or_when_it_came(void **state)
{
    (void)state;
    struct letterform_origin file = {.at = {MESSAGE_AT}};
    struct import_item item =
        read_from("{\"original_subject\":\"s\",\"original_payload\":1,"
                  "\"retry_history\":[{\"attempt\":1,\"attempted_at\":\"2026-02-13T06:22:00Z\"}]}",
                  &file);
    assert_int_equal(item.letter.failed_at.us, 1770963720000000);
    assert_int_equal(read_from(BARE, &file).letter.failed_at.us, MESSAGE_AT);
    assert_text(read_from(BARE, &file).letter.source, "unknown");
}

static void what_is_no_letter_is_said(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "not JSON: "},
        {"hello", "not JSON: "},
        {"[]", "not a letter: expected original_payload, item_data or receipt"},
        {"{}", "not a letter: expected original_payload, item_data or receipt"},
        {"{\"original_payload\":{}}", "original_subject: is required"},
        {"{\"original_subject\":\"s\"}", "original_payload: is required"},
        {"{\"original_subject\":7,\"original_payload\":{}}", "original_subject: must be"},
        {"{\"original_subject\":\"s\",\"original_payload\":{},\"failed_at\":\"soon\"}",
         "failed_at: must be a time such as 2026-02-13T06:22:00Z, not \"soon\""},
        {"{\"original_subject\":\"s\",\"original_payload\":{},\"retry_count\":-1}", "retry_count:"},
    };
    (void)state;
    struct letterform_origin origin = published("dlq.task.x");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct import_item item;
        struct err err = {0};
        assert_int_equal(letterform_read(slice_of(cases[i].text), &origin, &arena, &item, &err),
                         STATUS_INVALID);
        assert_true(slice_starts(slice_of(err.text), slice_of(cases[i].error)));
    }
}

static struct import_item read_malformed(struct slice bytes, const char *why)
{
    struct letterform_origin origin = published("dlq.agent.boot_failure");
    struct import_item item;
    struct err err = {0};
    assert_int_equal(letterform_malformed(bytes, &origin, why, &arena, &item, &err), STATUS_OK);
    return item;
}

static void what_is_no_letter_is_kept_for_a_person(void **state)
{
    (void)state;
    struct slice bytes = {"\xff\0{", 3};
    struct import_item item = read_malformed(bytes, "not JSON: what is this?");
    assert_true(slice_eq(item.body, bytes));
    assert_text(item.letter.reason, "malformed");
    assert_text(item.letter.reason_detail, "not JSON: what is this?");
    assert_text(item.letter.original_subject, "dlq.agent.boot_failure");
    assert_text(item.letter.source, "warren");
    assert_int_equal(item.letter.dlq_id.len, 36);
    assert_int_equal(item.letter.failed_at.us, MESSAGE_AT);
    assert_true(item.letter.foreign);
    assert_true(item.letter.review);
    assert_false(item.letter.recoverable);
    assert_false(item.letter.eligible);
}

static void a_sentence_that_was_cut_within_a_character_is_still_text(void **state)
{
    (void)state;
    assert_text(read_malformed(SLICE("x"), "caf\xc3").letter.reason_detail, "caf");
}

static void a_message_that_is_too_long_keeps_head_and_tail(void **state)
{
    (void)state;
    size_t len = 3 * ENVELOPE_BODY_MAX;
    char *bytes = mem_alloc(len);
    memset(bytes, 'm', len);
    memcpy(bytes, "head", 4);
    memcpy(bytes + len - 4, "tail", 4);
    struct import_item item = read_malformed((struct slice){bytes, len}, "it is too long");
    assert_true(item.body.len <= ENVELOPE_BODY_MAX);
    assert_true(item.body.len > ENVELOPE_BODY_MAX - 2048);
    assert_memory_equal(item.body.ptr, "head", 4);
    assert_memory_equal(item.body.ptr + item.body.len - 4, "tail", 4);
    size_t cut;
    struct slice detail = arena_dup(&arena, item.letter.reason_detail);
    assert_int_equal(sscanf(detail.ptr, "it is too long; truncated_bytes: %zu", &cut), 1);
    assert_true(cut > len - ENVELOPE_BODY_MAX && cut < len);
    mem_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_a_letter_says_is_kept, forget),
        cmocka_unit_test_teardown(what_is_missing_follows_from_the_subject_and_the_message, forget),
        cmocka_unit_test_teardown(the_same_place_has_the_same_id_and_another_place_another, forget),
        cmocka_unit_test_teardown(zero_values_of_go_say_nothing, forget),
        cmocka_unit_test_teardown(the_last_attempt_judges_but_a_hopeless_reason_says_more, forget),
        cmocka_unit_test_teardown(a_letter_in_a_file_failed_at_its_last_attempt_or_when_it_came,
                                  forget),
        cmocka_unit_test_teardown(what_is_no_letter_is_said, forget),
        cmocka_unit_test_teardown(what_is_no_letter_is_kept_for_a_person, forget),
        cmocka_unit_test_teardown(a_sentence_that_was_cut_within_a_character_is_still_text, forget),
        cmocka_unit_test_teardown(a_message_that_is_too_long_keeps_head_and_tail, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
