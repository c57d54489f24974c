/* Failures: what is read, what is refused, and the evidence that is kept of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/jsonw.h"
#include "base/mem.h"
#include "core/failure.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static enum status try_parse(const char *text, struct failure *out, struct err *err)
{
    struct json json;

    assert_int_equal(json_parse(slice_of(text), &json, err), STATUS_OK);
    return failure_parse(json, &arena, out, err);
}

static struct failure parse(const char *text)
{
    struct failure failure;
    struct err err = {0};

    if (try_parse(text, &failure, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return failure;
}

/* print gives the evidence as text, closed. */
static const char *print(const struct failure *failure, uint32_t attempt)
{
    struct buf text;
    struct jsonw w;
    struct err err;

    buf_init(&text, 8 << 20);
    jsonw_init(&w, &text);
    failure_print(failure, attempt, &w);
    jsonw_object_end(&w);
    assert_int_equal(buf_status(&text, &err), STATUS_OK);
    const char *copy = arena_dup(&arena, buf_slice(&text)).ptr;
    buf_release(&text);
    return copy;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Seed 003: the failure of its item, as its worker would report it. */
#define MAP_FAILURE                                                                                \
    "{\"error_type\":{\"CommandFailed\":{\"exit_code\":101}},"                                     \
    "\"message\":\"cargo test failed with exit code 101\","                                        \
    "\"error_context\":[\"Processing work item item-123\",\"Executing agent commands\","           \
    "\"Running shell command: cargo test\"],"                                                      \
    "\"stack_trace\":\"thread 'main' panicked at src/main.rs:42...\","                             \
    "\"agent_id\":\"agent-1\",\"step_failed\":\"shell: cargo test\",\"duration_ms\":45000,"        \
    "\"json_log_location\":\"/path/to/claude-session.json\"}"

static void the_failure_of_the_map_system_is_read(void **state)
{
    struct failure failure = parse(MAP_FAILURE);

    (void)state;
    assert_true(slice_is(failure.error_type, "CommandFailed"));
    assert_true(slice_is(failure.error_type_json, "{\"CommandFailed\":{\"exit_code\":101}}"));
    assert_true(failure.has_exit_code);
    assert_int_equal(failure.exit_code, 101);
    assert_true(slice_is(failure.message, "cargo test failed with exit code 101"));
    assert_int_equal(json_count(failure.error_context), 3);
    assert_true(slice_is(failure.agent_id, "agent-1"));
    assert_true(slice_is(failure.step_failed, "shell: cargo test"));
    assert_int_equal(failure.duration_ms, 45000);
    assert_int_equal(failure_class(&failure), CLASS_UNKNOWN);
}

static void every_member_of_the_contract_is_read(void **state)
{
    struct failure failure =
        parse("{\"error_type\":\"Timeout\",\"class\":\"network\",\"http_status\":503,"
              "\"message\":\"m\",\"retry_after_seconds\":1.5,\"retryable\":true,"
              "\"interrupted\":true,\"side_effects\":\"committed\",\"dependency\":\"db\","
              "\"dependency_calls\":[1],"
              "\"policy_checks\":[{}],\"emitted_events\":[\"e\"],\"reason\":\"no_capable_agent\","
              "\"reason_detail\":\"none\",\"code_version\":\"abc\",\"artifacts\":{\"a\":1}}");

    (void)state;
    assert_true(slice_is(failure.error_type, "Timeout"));
    assert_true(slice_is(failure.error_type_json, "\"Timeout\""));
    assert_false(failure.has_exit_code);
    assert_true(failure.has_class);
    assert_int_equal(failure.given_class, CLASS_NETWORK);
    assert_int_equal(failure.http_status, 503);
    assert_int_equal(failure.retry_after.us, 1500000);
    assert_int_equal(failure.retryable, YES);
    assert_true(failure.interrupted);
    assert_int_equal(failure.side_effects, EFFECTS_COMMITTED);
    assert_true(slice_is(failure.dependency, "db"));
    assert_true(slice_is(failure.dependency_calls.raw, "[1]"));
    assert_true(slice_is(failure.policy_checks.raw, "[{}]"));
    assert_true(slice_is(failure.emitted_events.raw, "[\"e\"]"));
    assert_true(slice_is(failure.reason, "no_capable_agent"));
    assert_true(slice_is(failure.reason_detail, "none"));
    assert_true(slice_is(failure.code_version, "abc"));
    assert_true(slice_is(failure.artifacts.raw, "{\"a\":1}"));
}

static void a_message_is_enough(void **state)
{
    struct failure failure = parse("{\"message\":\"m\"}");

    (void)state;
    assert_true(slice_is(failure.message, "m"));
    assert_int_equal(failure.error_type.len, 0);
    assert_int_equal(failure.error_type_json.len, 0);
    assert_false(failure.has_exit_code);
    assert_false(failure.has_class);
    assert_int_equal(failure.http_status, 0);
    assert_int_equal(failure.stack_trace.len, 0);
    assert_int_equal(failure.reason.len, 0);
    assert_int_equal(failure.duration_ms, -1);
    assert_int_equal(failure.retry_after.us, -1);
    assert_int_equal(failure.retryable, UNSAID);
    assert_false(failure.interrupted);
    assert_int_equal(failure.side_effects, EFFECTS_UNSAID);
    assert_int_equal(failure.error_context.raw.len, 0);
    assert_int_equal(failure.at.us, 0);
}

static void nulls_and_unknown_members_do_not_count(void **state)
{
    struct failure failure =
        parse("{\"message\":\"m\",\"http_status\":null,\"class\":null,\"error_type\":null,"
              "\"retryable\":null,\"artifacts\":null,\"colour\":{\"message\":7},\"x\":[1,2]}");

    (void)state;
    assert_int_equal(failure.http_status, 0);
    assert_false(failure.has_class);
    assert_int_equal(failure.error_type.len, 0);
    assert_int_equal(failure.retryable, UNSAID);
    assert_int_equal(failure.artifacts.raw.len, 0);
}

static void retry_eligible_is_another_word_for_retryable(void **state)
{
    static const struct {
        const char *text;
        enum tristate retryable;
    } cases[] = {
        {"{\"message\":\"m\",\"retry_eligible\":false}", NO},
        {"{\"message\":\"m\",\"retry_eligible\":true}", YES},
        {"{\"message\":\"m\",\"retry_eligible\":null}", UNSAID},
        {"{\"message\":\"m\",\"retry_eligible\":false,\"retryable\":true}", NO},
        {"{\"message\":\"m\",\"retryable\":false,\"retry_eligible\":true}", NO},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(parse(cases[i].text).retryable, cases[i].retryable);
}

static void an_empty_error_type_was_not_given(void **state)
{
    struct failure failure = parse("{\"message\":\"m\",\"error_type\":\"\"}");

    (void)state;
    assert_int_equal(failure.error_type.len, 0);
    assert_int_equal(failure.error_type_json.len, 0);
}

static void the_evidences_name_for_the_message_is_understood(void **state)
{
    (void)state;
    assert_true(slice_is(parse("{\"error_message\":\"a\"}").message, "a"));
    assert_true(slice_is(parse("{\"error_message\":\"a\",\"message\":\"b\"}").message, "b"));
    assert_true(slice_is(parse("{\"message\":\"b\",\"error_message\":\"a\"}").message, "b"));
}

static void a_nul_is_carried(void **state)
{
    struct failure failure = parse("{\"message\":\"a\\u0000b\",\"agent_id\":\"\\u0000\"}");

    (void)state;
    assert_int_equal(failure.message.len, 3);
    assert_memory_equal(failure.message.ptr, "a\0b", 3);
    assert_int_equal(failure.agent_id.len, 1);
    assert_non_null(strstr(print(&failure, 1), "\"error_message\":\"a\\u0000b\""));
}

static void what_is_wrong_is_refused_by_the_members_name(void **state)
{
    static const char type[] =
        "error_type: must be a string, or an object such as {\"CommandFailed\":{\"exit_code\":1}}";
    static const struct {
        const char *text, *error;
    } table[] = {
        {"[]", "a failure must be an object"},
        {"{}", "message: must be given, as a text that is not empty"},
        {"{\"message\":\"\"}", "message: must be given, as a text that is not empty"},
        {"{\"message\":null}", "message: must be given, as a text that is not empty"},
        {"{\"message\":7}", "message: must be a string, not 7"},
        {"{\"message\":\"m\",\"class\":\"bad\"}",
         "class: must be one of timeout, unavailable, server_error, network, congestion, "
         "rate_limited, crashed, unknown, permission_denied, policy_violation, invalid_input, "
         "malformed_payload, forbidden_tool, scope_mismatch, client_error"},
        {"{\"message\":\"m\",\"class\":1}", "class: must be a string, not 1"},
        {"{\"message\":\"m\",\"http_status\":99}",
         "http_status: must be a whole number from 100 to 599, not 99"},
        {"{\"message\":\"m\",\"http_status\":600}",
         "http_status: must be a whole number from 100 to 599, not 600"},
        {"{\"message\":\"m\",\"http_status\":\"503\"}",
         "http_status: must be a whole number from 100 to 599, not \"503\""},
        {"{\"message\":\"m\",\"duration_ms\":-1}",
         "duration_ms: must be a whole number from 0 to 9223372036854775807, not -1"},
        {"{\"message\":\"m\",\"duration_ms\":1e19}",
         "duration_ms: must be a whole number from 0 to 9223372036854775807, not 1e19"},
        {"{\"message\":\"m\",\"retry_after_seconds\":-0.5}",
         "retry_after_seconds: must be a number of seconds, 0 or more, not -0.5"},
        {"{\"message\":\"m\",\"retry_after_seconds\":1e999}",
         "retry_after_seconds: must be a number of seconds, 0 or more, not 1e999"},
        {"{\"message\":\"m\",\"retryable\":\"no\"}",
         "retryable: must be true or false, not \"no\""},
        {"{\"message\":\"m\",\"retry_eligible\":0}",
         "retry_eligible: must be true or false, not 0"},
        {"{\"message\":\"m\",\"side_effects\":\"some\"}",
         "side_effects: must be none, unknown or committed, not \"some\""},
        {"{\"message\":\"m\",\"stack_trace\":[]}", "stack_trace: must be a string, not []"},
        {"{\"message\":\"m\",\"error_context\":\"x\"}",
         "error_context: must be an array, not \"x\""},
        {"{\"message\":\"m\",\"interrupted\":1}", "interrupted: must be true or false, not 1"},
        {"{\"message\":\"m\",\"artifacts\":[]}", "artifacts: must be an object, not []"},
        {"{\"message\":\"m\",\"error_type\":{\"CommandFailed\":{\"exit_code\":\"1\"}}}",
         "error_type.exit_code: must be a whole number from -2147483648 to 2147483647, not \"1\""},
        {"{\"message\":\"m\",\"error_type\":{\"CommandFailed\":{\"exit_code\":2147483648}}}",
         "error_type.exit_code: must be a whole number from -2147483648 to 2147483647, not "
         "2147483648"},
        {"{\"message\":\"m\",\"error_type\":7}", type},
        {"{\"message\":\"m\",\"error_type\":[]}", type},
        {"{\"message\":\"m\",\"error_type\":{}}", type},
        {"{\"message\":\"m\",\"error_type\":{\"A\":{},\"B\":{}}}", type},
        {"{\"message\":\"m\",\"error_type\":{\"A\":1}}", type},
        {"{\"message\":\"m\",\"error_type\":{\"A\":null}}", type},
    };
    struct failure before, failure;

    (void)state;
    memset(&before, 0x5a, sizeof(before));
    for (size_t i = 0; i < COUNT(table); i++) {
        struct err err = {0};
        memcpy(&failure, &before, sizeof(failure));
        assert_int_equal(try_parse(table[i].text, &failure, &err), STATUS_INVALID);
        if (table[i].error == type)
            assert_memory_equal(err.text, type, sizeof(type) - 1);
        else
            assert_string_equal(err.text, table[i].error);
        assert_memory_equal(&failure, &before, sizeof(failure));
    }
}

static void an_exhausted_memory_is_reported(void **state)
{
    struct failure failure;
    struct err err = {0};

    (void)state;
    mem_fail_after(1);
    enum status status = try_parse("{\"message\":\"a\\nb\"}", &failure, &err);
    mem_fail_after(0);
    assert_int_equal(status, STATUS_NO_MEMORY);
}

/* ---- printing ------------------------------------------------------------------------------- */

/* Seed 003: the entry of failure_history, member by member in its order. */
static void the_evidence_has_the_map_systems_names_in_order(void **state)
{
    struct failure failure = parse(MAP_FAILURE);
    struct err err;

    (void)state;
    assert_int_equal(instant_parse(SLICE("2025-01-11T10:30:00Z"), &failure.at, &err), STATUS_OK);
    assert_string_equal(
        print(&failure, 1),
        "{\"attempt_number\":1,\"timestamp\":\"2025-01-11T10:30:00Z\","
        "\"error_type\":{\"CommandFailed\":{\"exit_code\":101}},"
        "\"error_message\":\"cargo test failed with exit code 101\","
        "\"error_context\":[\"Processing work item item-123\",\"Executing agent commands\","
        "\"Running shell command: cargo test\"],"
        "\"stack_trace\":\"thread 'main' panicked at src/main.rs:42...\","
        "\"agent_id\":\"agent-1\",\"step_failed\":\"shell: cargo test\",\"duration_ms\":45000,"
        "\"json_log_location\":\"/path/to/claude-session.json\",\"class\":\"unknown\"}");
}

static void what_was_not_given_is_not_printed(void **state)
{
    struct failure failure = parse("{\"message\":\"timed out\"}");

    (void)state;
    assert_string_equal(print(&failure, 4),
                        "{\"attempt_number\":4,\"timestamp\":null,\"error_type\":\"Unknown\","
                        "\"error_message\":\"timed out\",\"agent_id\":\"\",\"step_failed\":\"\","
                        "\"duration_ms\":0,\"class\":\"timeout\"}");
}

static void everything_that_was_given_is_printed(void **state)
{
    struct failure failure =
        parse("{\"message\":\"m\",\"error_type\":\"T\\u0041\",\"http_status\":503,"
              "\"retry_after_seconds\":1.5,\"retryable\":false,\"interrupted\":true,"
              "\"class\":\"unavailable\",\"side_effects\":\"none\","
              "\"dependency\":\"db\",\"dependency_calls\":[ 1 ],\"policy_checks\":[],"
              "\"emitted_events\":[\"e\"],\"reason\":\"r\",\"reason_detail\":\"d\","
              "\"code_version\":\"v\",\"artifacts\":{\"a\":1}}");

    (void)state;
    assert_string_equal(
        print(&failure, 1),
        "{\"attempt_number\":1,\"timestamp\":null,\"error_type\":\"TA\",\"error_message\":\"m\","
        "\"agent_id\":\"\",\"step_failed\":\"\",\"duration_ms\":0,\"class\":\"unavailable\","
        "\"http_status\":503,\"retry_after_seconds\":1.5,\"retryable\":false,\"interrupted\":true,"
        "\"side_effects\":\"none\",\"dependency\":\"db\",\"dependency_calls\":[ 1 ],"
        "\"policy_checks\":[],\"emitted_events\":[\"e\"],\"reason\":\"r\",\"reason_detail\":\"d\","
        "\"code_version\":\"v\",\"artifacts\":{\"a\":1}}");
}

static void the_evidence_can_be_read_as_a_failure_again(void **state)
{
    struct failure failure = parse(MAP_FAILURE);
    struct failure again = parse(print(&failure, 2));

    (void)state;
    assert_true(slice_eq(again.message, failure.message));
    assert_true(slice_eq(again.error_type_json, failure.error_type_json));
    assert_true(slice_eq(again.stack_trace, failure.stack_trace));
    assert_int_equal(again.duration_ms, failure.duration_ms);
    assert_int_equal(failure_class(&again), failure_class(&failure));
}

/* ---- truncation ----------------------------------------------------------------------------- */

static size_t truncate_to(struct slice text, size_t max, struct buf *out)
{
    buf_init(out, 1 << 20);
    return text_truncate(text, max, out);
}

static void a_text_within_its_limit_is_whole(void **state)
{
    static const size_t lengths[] = {0, 1, 99, 100};
    static const char text[100] = "0123456789";
    struct buf out;

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        assert_int_equal(truncate_to((struct slice){text, lengths[i]}, 100, &out), 0);
        assert_true(slice_eq(buf_slice(&out), (struct slice){text, lengths[i]}));
        buf_release(&out);
    }
}

static void a_text_over_its_limit_keeps_head_and_tail(void **state)
{
    char text[1000];
    struct buf out;

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('a' + i % 26);
    size_t cut = truncate_to((struct slice){text, sizeof(text)}, 148, &out);
    assert_int_equal(cut, 900);
    assert_true(out.len <= 148);
    assert_memory_equal(out.ptr, text, 50);
    assert_memory_equal(out.ptr + out.len - 50, text + 950, 50);
    assert_non_null(strstr(out.ptr, "\n[... 900 bytes left out ...]\n"));
    buf_release(&out);
}

static void a_character_is_never_split(void **state)
{
    static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    char text[600];
    struct buf out;

    (void)state;
    for (size_t c = 0; c < COUNT(characters); c++) {
        size_t width = strlen(characters[c]);
        for (size_t shift = 0; shift < 4; shift++) {
            memset(text, 'x', shift);
            size_t len = shift;
            for (; len + width <= sizeof(text); len += width)
                memcpy(text + len, characters[c], width);
            size_t cut = truncate_to((struct slice){text, len}, 200, &out);
            assert_true(json_utf8_valid(buf_slice(&out)));
            assert_true(out.len <= 200);
            assert_true(cut >= len - 200 && cut < len - 200 + 48 + 8);
            buf_release(&out);
        }
    }
}

static void bytes_that_are_no_utf8_are_cut_all_the_same(void **state)
{
    char text[500];
    struct buf out;

    (void)state;
    memset(text, 0x80, sizeof(text));
    size_t cut = truncate_to((struct slice){text, sizeof(text)}, 148, &out);
    assert_true(cut >= 400 && cut <= 406);
    buf_release(&out);
}

static void a_limit_below_the_mark_leaves_the_mark(void **state)
{
    struct buf out;

    (void)state;
    assert_int_equal(truncate_to(SLICE("abcdef"), 3, &out), 6);
    assert_string_equal(out.ptr, "\n[... 6 bytes left out ...]\n");
    buf_release(&out);
    assert_int_equal(truncate_to(SLICE("abcdef"), 0, &out), 6);
    buf_release(&out);
}

/* long_text is `len` bytes of x, in the arena. */
static struct slice long_text(size_t len)
{
    char *text = arena_alloc(&arena, len);

    assert_non_null(text);
    memset(text, 'x', len);
    return (struct slice){text, len};
}

static int64_t int_member(struct json object, const char *name)
{
    struct json value;
    int64_t number;

    assert_true(json_get(object, name, &value));
    assert_true(json_int(value, &number));
    return number;
}

static struct json evidence(const struct failure *failure)
{
    struct json json;
    struct err err;

    assert_int_equal(json_parse(slice_of(print(failure, 1)), &json, &err), STATUS_OK);
    return json;
}

static size_t text_len(struct json object, const char *name)
{
    struct json value;

    assert_true(json_get(object, name, &value));
    return json_text(value, &arena).len;
}

static void each_text_is_cut_to_its_limit_and_the_cuts_are_summed(void **state)
{
    struct failure failure = parse("{\"message\":\"m\"}");

    (void)state;
    failure.message = long_text(10 << 20);
    failure.stack_trace = long_text(FAILURE_TRACE_MAX + 1);
    failure.agent_id = long_text(FAILURE_TEXT_MAX);
    failure.error_type = long_text(FAILURE_TEXT_MAX + 1000);
    struct json json = evidence(&failure);
    assert_in_range(text_len(json, "error_message"), FAILURE_MESSAGE_MAX - 48, FAILURE_MESSAGE_MAX);
    assert_in_range(text_len(json, "stack_trace"), FAILURE_TRACE_MAX - 48, FAILURE_TRACE_MAX);
    assert_in_range(text_len(json, "error_type"), FAILURE_TEXT_MAX - 48, FAILURE_TEXT_MAX);
    assert_int_equal(text_len(json, "agent_id"), FAILURE_TEXT_MAX);

    /* What was kept of each is its limit without the room for the mark. */
    int64_t given = (10 << 20) + FAILURE_TRACE_MAX + 1 + FAILURE_TEXT_MAX + 1000;
    int64_t kept = FAILURE_MESSAGE_MAX + FAILURE_TRACE_MAX + FAILURE_TEXT_MAX - 3 * 48;
    assert_int_equal(int_member(json, "truncated_bytes"), given - kept);
}

static struct json array_of(size_t len)
{
    char *text = arena_alloc(&arena, len);

    assert_non_null(text);
    memset(text, '1', len);
    text[0] = '[';
    text[len - 1] = ']';
    return (struct json){JSON_ARRAY, {text, len}};
}

static void a_structure_over_its_limit_is_replaced_by_its_head(void **state)
{
    struct failure failure = parse("{\"message\":\"m\"}");
    struct json value;

    (void)state;
    failure.error_context = array_of(FAILURE_STRUCTURE_MAX);
    failure.policy_checks = array_of(FAILURE_STRUCTURE_MAX + 1);
    struct json json = evidence(&failure);
    assert_true(json_get(json, "error_context", &value));
    assert_true(slice_eq(value.raw, failure.error_context.raw));
    assert_true(json_get(json, "policy_checks", &value));
    assert_int_equal(text_len(value, "head"), 1024);
    assert_int_equal(int_member(value, "truncated_bytes"), FAILURE_STRUCTURE_MAX + 1 - 1024);
    assert_int_equal(int_member(json, "truncated_bytes"), FAILURE_STRUCTURE_MAX + 1 - 1024);
}

static void an_error_type_over_its_limit_keeps_its_shape(void **state)
{
    struct failure failure;
    struct json type, details;
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    buf_add_str(&text, "{\"message\":\"m\",\"error_type\":{\"CommandFailed\":{\"x\":");
    buf_add_slice(&text, array_of(FAILURE_STRUCTURE_MAX).raw);
    buf_add_str(&text, "}}}");
    failure = parse(buf_str(&text));
    struct json json = evidence(&failure);
    assert_true(json_get(json, "error_type", &type));
    assert_int_equal(json_count(type), 1);
    assert_true(json_get(type, "CommandFailed", &details));
    assert_int_equal(text_len(details, "head"), 1024);
    assert_int_equal(int_member(json, "truncated_bytes"), int_member(details, "truncated_bytes"));
    buf_release(&text);
}

static void memory_that_is_exhausted_while_printing_is_remembered(void **state)
{
    struct failure failure = parse("{\"message\":\"m\"}");
    struct buf text;
    struct jsonw w;
    struct err err;
    unsigned long n = 1;

    (void)state;
    failure.message = long_text(FAILURE_MESSAGE_MAX * 2);
    for (;; n++) {
        buf_init(&text, 1 << 20);
        jsonw_init(&w, &text);
        mem_fail_after(n);
        failure_print(&failure, 1, &w);
        mem_fail_after(0);
        enum status status = buf_status(&text, &err);
        buf_release(&text);
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
    }
    assert_true(n > 2);
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_failure_of_the_map_system_is_read),
        TEST(every_member_of_the_contract_is_read),
        TEST(a_message_is_enough),
        TEST(nulls_and_unknown_members_do_not_count),
        TEST(an_empty_error_type_was_not_given),
        TEST(retry_eligible_is_another_word_for_retryable),
        TEST(the_evidences_name_for_the_message_is_understood),
        TEST(a_nul_is_carried),
        TEST(what_is_wrong_is_refused_by_the_members_name),
        TEST(an_exhausted_memory_is_reported),
        TEST(the_evidence_has_the_map_systems_names_in_order),
        TEST(what_was_not_given_is_not_printed),
        TEST(everything_that_was_given_is_printed),
        TEST(the_evidence_can_be_read_as_a_failure_again),
        TEST(a_text_within_its_limit_is_whole),
        TEST(a_text_over_its_limit_keeps_head_and_tail),
        TEST(a_character_is_never_split),
        TEST(bytes_that_are_no_utf8_are_cut_all_the_same),
        TEST(a_limit_below_the_mark_leaves_the_mark),
        TEST(each_text_is_cut_to_its_limit_and_the_cuts_are_summed),
        TEST(a_structure_over_its_limit_is_replaced_by_its_head),
        TEST(an_error_type_over_its_limit_keeps_its_shape),
        TEST(memory_that_is_exhausted_while_printing_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
