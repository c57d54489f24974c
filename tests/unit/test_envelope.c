/* The envelope: the governed system's own example by its values, every default, and every refusal
 * by its sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/envelope.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct envelope parsed(const char *text)
{
    struct envelope envelope;
    struct err err = {0};

    if (envelope_parse(slice_of(text), ENVELOPE_BODY_MAX, &arena, &envelope, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return envelope;
}

static void assert_slice(struct slice actual, const char *expected)
{
    if (!slice_is(actual, expected))
        fail_msg("\"%.*s\" is not \"%s\"", SLICE_ARG(actual), expected);
}

/* The example of the governed pattern, as its document has it. */
static const char governed[] =
    "{\n"
    "  \"job_id\": \"JOB-2026-000211\",\n"
    "  \"trace_id\": \"TR-9a71ce\",\n"
    "  \"requested_by\": \"human:james\",\n"
    "  \"requested_at\": \"2026-02-13T06:22:00Z\",\n"
    "  \"scope_lock\": \"publishing.formatter\",\n"
    "  \"permissions\": [\"publish:format\", \"publish:package\"],\n"
    "  \"action\": \"format_and_package_release\",\n"
    "  \"inputs\": {\n"
    "    \"repo\": \"wingman-spawner\",\n"
    "    \"target\": \"patterns/PATTERN-10_RETRY_BACKOFF_AND_DEAD_LETTER_QUEUES.md\",\n"
    "    \"mode\": \"preview\"\n"
    "  },\n"
    "  \"retry_policy\": {\n"
    "    \"max_attempts\": 5,\n"
    "    \"backoff_strategy\": \"exponential\",\n"
    "    \"initial_delay_seconds\": 5,\n"
    "    \"max_delay_seconds\": 3600,\n"
    "    \"jitter\": true\n"
    "  },\n"
    "  \"attempt_count\": 1,\n"
    "  \"idempotency_key\": \"format_release:wingman-spawner:TR-9a71ce\",\n"
    "  \"constraints\": {\n"
    "    \"requires_human_ack\": true,\n"
    "    \"max_runtime_seconds\": 180,\n"
    "    \"no_external_posting\": true\n"
    "  }\n"
    "}";

static void the_governed_example_is_read_by_its_values(void **state)
{
    struct envelope e = parsed(governed);
    struct json value;
    int64_t number;

    (void)state;
    assert_slice(e.body, governed);
    assert_slice(e.job_id, "JOB-2026-000211");
    assert_slice(e.trace_id, "TR-9a71ce");
    assert_slice(e.requested_by, "human:james");
    assert_int_equal(e.requested_at.us, INT64_C(1770963720) * 1000000);
    assert_slice(e.scope_lock, "publishing.formatter");
    assert_int_equal(json_count(e.permissions), 2);
    assert_slice(e.action, "format_and_package_release");
    assert_true(json_get(e.inputs, "mode", &value) && json_string_is(value, "preview"));
    assert_slice(e.policy_name, "");
    assert_true(json_get(e.policy_inline, "max_attempts", &value) && json_int(value, &number));
    assert_int_equal(number, 5);
    assert_int_equal(e.attempt_count, 1);
    assert_slice(e.idempotency_key, "format_release:wingman-spawner:TR-9a71ce");
    assert_true(e.requires_human_ack);
    assert_false(e.unique_forever);
    assert_int_equal(e.max_runtime.us, 180 * INT64_C(1000000));
    assert_true(json_get(e.constraints, "no_external_posting", &value));
    assert_true(e.id_hash == hash64(SLICE("JOB-2026-000211")));
    assert_true(e.idempotency_hash == hash64(e.idempotency_key));
    assert_true(e.retry_key_hash == 0);
}

static void an_action_alone_has_every_default(void **state)
{
    struct envelope e = parsed(" {\"action\":\"ping\"} ");

    (void)state;
    assert_slice(e.body, " {\"action\":\"ping\"} ");
    assert_slice(e.action, "ping");
    assert_slice(e.queue, "default");
    assert_int_equal(e.priority, 4);
    assert_int_equal(e.inputs.type, JSON_OBJECT);
    assert_slice(e.inputs.raw, "{}");
    assert_int_equal(e.permissions.type, JSON_NULL);
    assert_int_equal(e.required_capabilities.raw.len, 0);
    assert_int_equal(e.job_id.len + e.idempotency_key.len + e.retry_key.len + e.policy_name.len, 0);
    assert_false(instant_is_set(e.run_at) || instant_is_set(e.requested_at));
    assert_true(e.id_hash == 0 && e.idempotency_hash == 0 && e.retry_key_hash == 0);
    assert_int_equal(e.attempt_count, 0);
    assert_int_equal(e.max_runtime.us, 0);
    assert_true(e.retry_eligible);
}

static void one_no_is_enough_for_a_job_that_is_not_tried_again(void **state)
{
    static const struct {
        const char *text;
        bool eligible;
    } cases[] = {
        {"{\"action\":\"a\",\"retry_eligible\":true}", true},
        {"{\"action\":\"a\",\"retry_eligible\":null,\"constraints\":{\"retry_eligible\":null}}",
         true},
        {"{\"action\":\"a\",\"retry_eligible\":false}", false},
        {"{\"action\":\"a\",\"constraints\":{\"retry_eligible\":false}}", false},
        {"{\"action\":\"a\",\"constraints\":{\"retry_eligible\":false},\"retry_eligible\":true}",
         false},
        {"{\"action\":\"a\",\"retry_eligible\":false,\"constraints\":{\"retry_eligible\":true}}",
         false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(parsed(cases[i].text).retry_eligible, cases[i].eligible);
}

static void lazarets_own_members_are_read(void **state)
{
    struct envelope e = parsed(
        "{\"queue\":\"mail\",\"priority\":9,\"run_at\":\"2026-02-13T07:22:00+01:00\","
        "\"retry_key\":\"k\",\"required_capabilities\":[\"gpu\",\"eu\"],\"source\":\"dispatch\","
        "\"original_subject\":\"swarm.task.request\",\"run_id\":\"run-1\",\"item_id\":\"item-1\","
        "\"compensation\":{\"action\":\"undo\",\"queue\":\"mail\"},\"document\":{\"a\":1},"
        "\"retry_policy\":\"governed\",\"constraints\":{\"unique_forever\":true},"
        "\"action\":\"send\",\"unknown\":[1,2]}");

    (void)state;
    assert_slice(e.queue, "mail");
    assert_int_equal(e.priority, 9);
    assert_int_equal(e.run_at.us, INT64_C(1770963720) * 1000000);
    assert_slice(e.retry_key, "k");
    assert_true(e.retry_key_hash == hash64(SLICE("k")));
    assert_slice(e.required_capabilities.raw, "[\"gpu\",\"eu\"]");
    assert_slice(e.source, "dispatch");
    assert_slice(e.original_subject, "swarm.task.request");
    assert_slice(e.run_id, "run-1");
    assert_slice(e.item_id, "item-1");
    assert_slice(e.compensation.raw, "{\"action\":\"undo\",\"queue\":\"mail\"}");
    assert_slice(e.document.raw, "{\"a\":1}");
    assert_slice(e.policy_name, "governed");
    assert_int_equal(e.policy_inline.raw.len, 0);
    assert_true(e.unique_forever);
}

static void null_is_the_same_as_absent(void **state)
{
    struct envelope e = parsed(
        "{\"job_id\":null,\"trace_id\":null,\"requested_by\":null,\"requested_at\":null,"
        "\"scope_lock\":null,\"permissions\":null,\"inputs\":null,\"retry_policy\":null,"
        "\"attempt_count\":null,\"idempotency_key\":null,\"queue\":null,\"priority\":null,"
        "\"run_at\":null,\"retry_key\":null,\"required_capabilities\":null,\"source\":null,"
        "\"original_subject\":null,\"run_id\":null,\"item_id\":null,\"compensation\":null,"
        "\"document\":null,\"constraints\":{\"requires_human_ack\":null,\"unique_forever\":null,"
        "\"max_runtime_seconds\":null},\"action\":\"a\"}");

    (void)state;
    assert_slice(e.queue, "default");
    assert_int_equal(e.priority, 4);
    assert_slice(e.inputs.raw, "{}");
    assert_int_equal(e.compensation.raw.len, 0);
    assert_int_equal(e.max_runtime.us, 0);
    assert_int_equal(e.job_id.len, 0);
}

static void texts_are_decoded_and_carried_as_they_are(void **state)
{
    struct envelope e =
        parsed("{\"action\":\"na\\u00efve \\uD83D\\uDE00\",\"job_id\":\"../../etc\\u001b[31m\\n\","
               "\"queu\\u0065\":\"q\",\"source\":\"\",\"scope_lock\":\"\"}");

    (void)state;
    assert_slice(e.action, "na\xC3\xAFve \xF0\x9F\x98\x80");
    assert_slice(e.job_id, "../../etc\x1b[31m\n");
    assert_slice(e.queue, "q");
    assert_int_equal(e.source.len, 0);
}

static void numbers_may_be_written_in_any_way(void **state)
{
    struct envelope e = parsed("{\"action\":\"a\",\"priority\":0.9e1,\"attempt_count\":2.0,"
                               "\"constraints\":{\"max_runtime_seconds\":1e-9}}");

    (void)state;
    assert_int_equal(e.priority, 9);
    assert_int_equal(e.attempt_count, 2);
    assert_int_equal(e.max_runtime.us, 1); /* a limit too short for the clock is still a limit */
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"[]", "an envelope must be a JSON object, not an array"},
        {"\"x\"", "an envelope must be a JSON object, not a string"},
        {"7", "an envelope must be a JSON object, not a number"},
        {"null", "an envelope must be a JSON object, not null"},
        {"{}", "action: is required: say what the job is to do"},
        {"{\"action\":null}", "action: is required: say what the job is to do"},
        {"{\"action\":\"\"}", "action: must not be empty"},
        {"{\"action\":5}", "action: must be a string, not 5"},
        {"{\"action\":\"a\",\"action\":\"b\"}", "action: stands twice"},
        {"{\"action\":\"a\",\"queue\":null,\"queue\":\"b\"}", "queue: stands twice"},
        {"{\"action\":\"a\",\"queue\":\"b\",\"qu\\u0065ue\":\"b\"}", "queue: stands twice"},
        {"{\"action\":\"a\",\"queue\":\"\"}", "queue: must not be empty"},
        {"{\"action\":\"a\",\"queue\":[1]}", "queue: must be a string, not [1]"},
        {"{\"action\":\"a\",\"priority\":12}",
         "priority: must be a whole number from 0 to 9, not 12"},
        {"{\"action\":\"a\",\"priority\":-1}",
         "priority: must be a whole number from 0 to 9, not -1"},
        {"{\"action\":\"a\",\"priority\":4.5}",
         "priority: must be a whole number from 0 to 9, not 4.5"},
        {"{\"action\":\"a\",\"priority\":1e400}",
         "priority: must be a whole number from 0 to 9, not 1e400"},
        {"{\"action\":\"a\",\"priority\":\"high\"}",
         "priority: must be a whole number from 0 to 9, not \"high\""},
        {"{\"action\":\"a\",\"priority\":{\"n\":1}}",
         "priority: must be a whole number from 0 to 9, not {\"n\":1}"},
        {"{\"action\":\"a\",\"priority\":\"0123456789012345678901234567890123456789\"}",
         "priority: must be a whole number from 0 to 9, not "
         "\"012345678901234567890123456789012345678..."},
        {"{\"action\":\"a\",\"priority\":\"01234567890123456789012345678901234567\xC3\xA9\"}",
         "priority: must be a whole number from 0 to 9, not "
         "\"01234567890123456789012345678901234567..."},
        {"{\"action\":\"a\",\"attempt_count\":-1}",
         "attempt_count: must be a whole number, 0 or more, not -1"},
        {"{\"action\":\"a\",\"attempt_count\":99999999999999999999}",
         "attempt_count: must be a whole number, 0 or more, not 99999999999999999999"},
        {"{\"action\":\"a\",\"inputs\":[]}", "inputs: must be an object, not []"},
        {"{\"action\":\"a\",\"document\":\"x\"}", "document: must be an object, not \"x\""},
        {"{\"action\":\"a\",\"permissions\":\"x\"}",
         "permissions: must be an array of strings, not \"x\""},
        {"{\"action\":\"a\",\"permissions\":[\"x\",1]}", "permissions[1]: must be a string, not 1"},
        {"{\"action\":\"a\",\"required_capabilities\":[null]}",
         "required_capabilities[0]: must be a string, not null"},
        {"{\"action\":\"a\",\"required_capabilities\":[\"\"]}",
         "required_capabilities[0]: must not be empty"},
        {"{\"action\":\"a\",\"run_at\":\"tomorrow\"}",
         "run_at: must be a time such as \"2026-02-13T06:22:00Z\", not \"tomorrow\""},
        {"{\"action\":\"a\",\"requested_at\":1770963720}",
         "requested_at: must be a time such as \"2026-02-13T06:22:00Z\", not 1770963720"},
        {"{\"action\":\"a\",\"retry_policy\":5}",
         "retry_policy: must be a policy's name or an object, not 5"},
        {"{\"action\":\"a\",\"retry_policy\":\"\"}", "retry_policy: must not be empty"},
        {"{\"action\":\"a\",\"idempotency_key\":\"\"}", "idempotency_key: must not be empty"},
        {"{\"action\":\"a\",\"retry_key\":\"a\\u0000b\"}",
         "retry_key: must not contain a NUL byte"},
        {"{\"action\":\"a\",\"source\":\"\\u0000\"}", "source: must not contain a NUL byte"},
        {"{\"action\":\"a\",\"constraints\":true}", "constraints: must be an object, not true"},
        {"{\"action\":\"a\",\"constraints\":{\"requires_human_ack\":1}}",
         "constraints.requires_human_ack: must be true or false, not 1"},
        {"{\"action\":\"a\",\"constraints\":{\"unique_forever\":\"yes\"}}",
         "constraints.unique_forever: must be true or false, not \"yes\""},
        {"{\"action\":\"a\",\"retry_eligible\":\"no\"}",
         "retry_eligible: must be true or false, not \"no\""},
        {"{\"action\":\"a\",\"constraints\":{\"retry_eligible\":0}}",
         "constraints.retry_eligible: must be true or false, not 0"},
        {"{\"action\":\"a\",\"retry_eligible\":true,\"retry_eligible\":true}",
         "retry_eligible: stands twice"},
        {"{\"action\":\"a\",\"constraints\":{\"max_runtime_seconds\":0}}",
         "constraints.max_runtime_seconds: must be a number greater than 0, not 0"},
        {"{\"action\":\"a\",\"constraints\":{\"max_runtime_seconds\":-3}}",
         "constraints.max_runtime_seconds: must be a number greater than 0, not -3"},
        {"{\"action\":\"a\",\"constraints\":{\"max_runtime_seconds\":1e999}}",
         "constraints.max_runtime_seconds: must be a number greater than 0, not 1e999"},
        {"{\"action\":\"a\",\"constraints\":{\"unique_forever\":true,\"unique_forever\":true}}",
         "constraints.unique_forever: stands twice"},
        {"{\"action\":\"a\",\"compensation\":\"undo\"}",
         "compensation: must be an object, not \"undo\""},
        {"{\"action\":\"a\",\"compensation\":{}}",
         "compensation: action: is required: say what the job is to do"},
        {"{\"action\":\"a\",\"compensation\":{\"action\":\"b\",\"priority\":10}}",
         "compensation: priority: must be a whole number from 0 to 9, not 10"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct envelope envelope = {.priority = 77};
        struct err err = {0};
        enum status status =
            envelope_parse(slice_of(cases[i].text), ENVELOPE_BODY_MAX, &arena, &envelope, &err);
        assert_int_equal(status, STATUS_INVALID);
        assert_string_equal(err.text, cases[i].error);
        assert_int_equal(envelope.priority, 77); /* untouched */
    }
}

static void malformed_json_is_refused_with_its_place(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"action\":\"a\"",
                                        "{\"action\":\"a\",}",
                                        "{\"action\":\"a\"} x",
                                        "{\"action\":\"\xFF\"}",
                                        "{\"action\":\"\\ud800\"}",
                                        "{'action':'a'}"};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct envelope envelope;
        struct err err = {0};
        assert_int_equal(
            envelope_parse(slice_of(texts[i]), ENVELOPE_BODY_MAX, &arena, &envelope, &err),
            STATUS_INVALID);
        assert_non_null(strstr(err.text, "at byte "));
    }
}

/* text_of_size makes {"action":"a","<member>":"xxx..."}. */
static struct slice text_of_size(struct buf *buf, const char *member, size_t size)
{
    buf_clear(buf);
    buf_addf(buf, "{\"%s\":\"", member);
    for (size_t i = 0; i < size; i++)
        buf_add_char(buf, 'x');
    buf_add_str(buf, strcmp(member, "action") == 0 ? "\"}" : "\",\"action\":\"a\"}");
    return buf_slice(buf);
}

static void texts_have_limits_that_errors_name(void **state)
{
    static const struct {
        const char *member;
        size_t max;
    } cases[] = {{"job_id", 200},     {"trace_id", 200}, {"requested_by", 200},
                 {"action", 200},     {"queue", 128},    {"scope_lock", 200},
                 {"retry_key", 200},  {"source", 200},   {"idempotency_key", 200},
                 {"run_id", 200},     {"item_id", 200},  {"original_subject", 200},
                 {"retry_policy", 64}};
    struct buf buf;
    struct envelope envelope;

    (void)state;
    buf_init(&buf, 4096);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err err = {0};
        char expected[128];
        assert_int_equal(envelope_parse(text_of_size(&buf, cases[i].member, cases[i].max),
                                        ENVELOPE_BODY_MAX, &arena, &envelope, &err),
                         STATUS_OK);
        assert_int_equal(envelope_parse(text_of_size(&buf, cases[i].member, cases[i].max + 1),
                                        ENVELOPE_BODY_MAX, &arena, &envelope, &err),
                         STATUS_INVALID);
        snprintf(expected, sizeof(expected), "%s: must have at most %zu bytes, not %zu",
                 cases[i].member, cases[i].max, cases[i].max + 1);
        assert_string_equal(err.text, expected);
    }
    buf_release(&buf);
}

static void at_most_64_capabilities_may_be_required(void **state)
{
    struct buf buf;
    struct envelope envelope;
    struct err err = {0};

    (void)state;
    for (int count = 64; count <= 65; count++) {
        buf_init(&buf, 4096);
        buf_add_str(&buf, "{\"action\":\"a\",\"required_capabilities\":[\"c\"");
        for (int i = 1; i < count; i++)
            buf_add_str(&buf, ",\"c\"");
        buf_add_str(&buf, "]}");
        assert_int_equal(
            envelope_parse(buf_slice(&buf), ENVELOPE_BODY_MAX, &arena, &envelope, &err),
            count == 64 ? STATUS_OK : STATUS_INVALID);
        buf_release(&buf);
    }
    assert_string_equal(err.text, "required_capabilities: must have at most 64 elements, not 65");
}

static void a_body_over_its_limit_is_too_large(void **state)
{
    struct envelope envelope;
    struct err err = {0};
    struct slice body = SLICE("{\"action\":\"a\"}");

    (void)state;
    assert_int_equal(envelope_parse(body, body.len, &arena, &envelope, &err), STATUS_OK);
    assert_int_equal(envelope_parse(body, body.len - 1, &arena, &envelope, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "an envelope may have 13 bytes: this one has 14");
}

/* nested_compensations makes an envelope with `count` compensations inside each other. */
static void nested_compensations(struct buf *buf, int count)
{
    for (int i = 0; i < count; i++)
        buf_add_str(buf, "{\"action\":\"a\",\"compensation\":");
    buf_add_str(buf, "{\"action\":\"a\"}");
    for (int i = 0; i < count; i++)
        buf_add_char(buf, '}');
}

static void compensations_nest_to_a_bound(void **state)
{
    struct buf buf;
    struct envelope envelope;
    struct err err = {0};

    (void)state;
    buf_init(&buf, 8192);
    nested_compensations(&buf, 8);
    assert_int_equal(envelope_parse(buf_slice(&buf), ENVELOPE_BODY_MAX, &arena, &envelope, &err),
                     STATUS_OK);
    buf_clear(&buf);
    nested_compensations(&buf, 9);
    assert_int_equal(envelope_parse(buf_slice(&buf), ENVELOPE_BODY_MAX, &arena, &envelope, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "must not be nested more than 8 times"));
    buf_release(&buf);
}

static void every_failed_allocation_is_reported(void **state)
{
    /* Three texts with escapes need memory; one block of the arena serves them all. */
    const char text[] = "{\"action\":\"\\u0061\",\"job_id\":\"\\u0062\",\"qu\\u0065ue\":\"c\"}";
    struct envelope envelope;
    struct err err = {0};

    (void)state;
    arena_release(&arena);
    mem_fail_after(1);
    assert_int_equal(envelope_parse(slice_of(text), ENVELOPE_BODY_MAX, &arena, &envelope, &err),
                     STATUS_NO_MEMORY);
    mem_fail_after(0);
    assert_int_equal(envelope_parse(slice_of(text), ENVELOPE_BODY_MAX, &arena, &envelope, &err),
                     STATUS_OK);
}

static void names_are_checked_by_themselves(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(envelope_name_check("worker_id", SLICE("w\x1b[1m"), 8, &err), STATUS_OK);
    assert_int_equal(envelope_name_check("worker_id", SLICE(""), 8, &err), STATUS_INVALID);
    assert_string_equal(err.text, "worker_id: must not be empty");
    assert_int_equal(envelope_name_check("worker_id", SLICE("a\0b"), 8, &err), STATUS_INVALID);
    assert_string_equal(err.text, "worker_id: must not contain a NUL byte");
    assert_int_equal(envelope_name_check("worker_id", SLICE("\xC3"), 8, &err), STATUS_INVALID);
    assert_string_equal(err.text, "worker_id: must be valid UTF-8");
    assert_int_equal(envelope_name_check("worker_id", SLICE("123456789"), 8, NULL), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_governed_example_is_read_by_its_values, empty_arena),
        cmocka_unit_test_teardown(an_action_alone_has_every_default, empty_arena),
        cmocka_unit_test_teardown(one_no_is_enough_for_a_job_that_is_not_tried_again, empty_arena),
        cmocka_unit_test_teardown(lazarets_own_members_are_read, empty_arena),
        cmocka_unit_test_teardown(null_is_the_same_as_absent, empty_arena),
        cmocka_unit_test_teardown(texts_are_decoded_and_carried_as_they_are, empty_arena),
        cmocka_unit_test_teardown(numbers_may_be_written_in_any_way, empty_arena),
        cmocka_unit_test_teardown(what_is_wrong_is_named, empty_arena),
        cmocka_unit_test_teardown(malformed_json_is_refused_with_its_place, empty_arena),
        cmocka_unit_test_teardown(texts_have_limits_that_errors_name, empty_arena),
        cmocka_unit_test_teardown(at_most_64_capabilities_may_be_required, empty_arena),
        cmocka_unit_test_teardown(a_body_over_its_limit_is_too_large, empty_arena),
        cmocka_unit_test_teardown(compensations_nest_to_a_bound, empty_arena),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported, empty_arena),
        cmocka_unit_test_teardown(names_are_checked_by_themselves, empty_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
