/* Policies: what is read, what is refused, and what is printed.  Their delays: test_delay.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/policy.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS INT64_C(1000)
#define S INT64_C(1000000)

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static enum status try_parse(const char *text, struct policy *out, struct err *err)
{
    struct json json;

    assert_int_equal(json_parse(slice_of(text), &json, err), STATUS_OK);
    return policy_parse(json, &arena, out, err);
}

static struct policy parse(const char *text)
{
    struct policy policy;
    struct err err = {0};

    if (try_parse(text, &policy, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return policy;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void an_empty_object_is_the_default_of_every_member(void **state)
{
    struct policy policy = parse("{}");

    (void)state;
    assert_int_equal(policy.name.len, 0);
    assert_int_equal(policy.version, 0);
    assert_int_equal(policy.max_attempts, 5);
    assert_int_equal(policy.backoff, BACKOFF_EXPONENTIAL);
    assert_int_equal(policy.initial_delay.us, 5 * S);
    assert_true(policy.multiplier == 2);
    assert_int_equal(policy.increment.us, 0);
    assert_int_equal(policy.max_delay.us, 3600 * S);
    assert_int_equal(policy.schedule_count, 0);
    assert_int_equal(policy.jitter, JITTER_FULL);
    assert_true(policy.jitter_factor == 0.3);
    assert_int_equal(policy.retry_budget.us, -1);
    assert_int_equal(policy.first_delay.us, 0);
    assert_int_equal(json_count(policy.retry_on), 0);
    assert_int_equal(json_count(policy.never_retry), 0);
    assert_int_equal(policy.evidence_source.len, 0);
}

static void the_object_of_the_contract_is_read_whole(void **state)
{
    struct policy policy = parse(
        "{ \"max_attempts\": 5, \"backoff_strategy\": \"fibonacci\", \"initial_delay_seconds\": 5,"
        " \"multiplier\": 2.5, \"increment_seconds\": 0.5, \"max_delay_seconds\": 3600,"
        " \"schedule_seconds\": [5,30,120,600,3600], \"jitter\": true, \"jitter_mode\": \"equal\","
        " \"jitter_factor\": 0.25, \"retry_budget_seconds\": 90, \"retry_on\": [\"timeout\", 503],"
        " \"never_retry\": [\"MergeConflict\"], \"first_attempt_delay_seconds\": 0.025 }");

    (void)state;
    assert_int_equal(policy.backoff, BACKOFF_FIBONACCI);
    assert_true(policy.multiplier == 2.5);
    assert_int_equal(policy.increment.us, S / 2);
    assert_int_equal(policy.schedule_count, 5);
    assert_int_equal(policy.schedule[4].us, 3600 * S);
    assert_int_equal(policy.jitter, JITTER_EQUAL);
    assert_true(policy.jitter_factor == 0.25);
    assert_int_equal(policy.retry_budget.us, 90 * S);
    assert_int_equal(json_count(policy.retry_on), 2);
    assert_int_equal(json_count(policy.never_retry), 1);
    assert_int_equal(policy.first_delay.us, 25 * MS);
}

static void a_schedule_without_a_strategy_is_the_strategy(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"schedule_seconds\":[1]}").backoff, BACKOFF_SCHEDULE);
    assert_int_equal(parse("{\"schedule_seconds\":[]}").backoff, BACKOFF_EXPONENTIAL);
    assert_int_equal(parse("{\"backoff_strategy\":\"fixed\",\"schedule_seconds\":[1]}").backoff,
                     BACKOFF_FIXED);
}

static void the_order_of_members_does_not_matter(void **state)
{
    struct policy a = parse("{\"jitter\":false,\"jitter_mode\":\"equal\"}");
    struct policy b = parse("{\"jitter_mode\":\"equal\",\"jitter\":false}");

    (void)state;
    assert_int_equal(a.jitter, JITTER_NONE);
    assert_int_equal(b.jitter, JITTER_NONE);
    assert_int_equal(parse("{\"jitter_mode\":\"proportional\"}").jitter, JITTER_PROPORTIONAL);
}

static void labels_are_accepted_and_not_believed(void **state)
{
    struct policy policy =
        parse("{\"name\":\"governed\",\"version\":7,\"description\":\"mine\",\"max_attempts\":2}");

    (void)state;
    assert_int_equal(policy.name.len, 0);
    assert_int_equal(policy.version, 0);
    assert_int_equal(policy.max_attempts, 2);
}

static void a_null_is_a_member_that_was_not_given(void **state)
{
    struct policy policy = parse("{\"retry_budget_seconds\":null,\"max_attempts\":null}");

    (void)state;
    assert_int_equal(policy.retry_budget.us, -1);
    assert_int_equal(policy.max_attempts, 5);
}

static void bounds_are_allowed(void **state)
{
    struct policy policy =
        parse("{\"max_attempts\":1000,\"multiplier\":1000,\"jitter_factor\":1,"
              "\"initial_delay_seconds\":315360000,\"max_delay_seconds\":0,"
              "\"retry_budget_seconds\":0,\"schedule_seconds\":[0],\"retry_on\":[100,599]}");

    (void)state;
    assert_int_equal(policy.max_attempts, POLICY_ATTEMPTS_MAX);
    assert_int_equal(policy.initial_delay.us, 315360000 * S);
    assert_int_equal(policy.retry_budget.us, 0);
    assert_int_equal(parse("{\"max_attempts\":1.0}").max_attempts, 1);
}

static void a_job_that_is_dispatched_has_thirty_seconds_unless_its_policy_says(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"hints\":[{\"match\":\"best\"}]}").assignment_timeout.us, 30 * S);
    assert_int_equal(parse("{\"assignment_timeout_seconds\":0.2,\"hints\":[{\"match\":\"best\"}]}")
                         .assignment_timeout.us,
                     S / 5);
}

static void what_is_wrong_is_refused_by_the_members_name(void **state)
{
    static const struct {
        const char *text, *error;
    } table[] = {
        {"[]", "a policy must be an object"},
        {"\"governed\"", "a policy must be an object"},
        {"{\"max_attempts\":0}", "max_attempts: must be a whole number from 1 to 1000, not 0"},
        {"{\"max_attempts\":1001}",
         "max_attempts: must be a whole number from 1 to 1000, not 1001"},
        {"{\"max_attempts\":2.5}", "max_attempts: must be a whole number from 1 to 1000, not 2.5"},
        {"{\"max_attempts\":\"5\"}",
         "max_attempts: must be a whole number from 1 to 1000, not \"5\""},
        {"{\"max_attempts\":1e99}",
         "max_attempts: must be a whole number from 1 to 1000, not 1e99"},
        {"{\"backoff_strategy\":\"Fixed\"}",
         "backoff_strategy: must be exponential, fixed, linear, fibonacci or schedule, not "
         "\"Fixed\""},
        {"{\"initial_delay_seconds\":-1}",
         "initial_delay_seconds: must be a number from 0 to 315360000, not -1"},
        {"{\"initial_delay_seconds\":1e400}",
         "initial_delay_seconds: must be a number from 0 to 315360000, not 1e400"},
        {"{\"max_delay_seconds\":315360001}",
         "max_delay_seconds: must be a number from 0 to 315360000, not 315360001"},
        {"{\"multiplier\":0.5}", "multiplier: must be a number from 1 to 1000, not 0.5"},
        {"{\"multiplier\":1001}", "multiplier: must be a number from 1 to 1000, not 1001"},
        {"{\"jitter\":1}", "jitter: must be true or false, not 1"},
        {"{\"jitter_mode\":\"none\"}",
         "jitter_mode: must be full, equal or proportional, not \"none\""},
        {"{\"jitter_factor\":1.01}", "jitter_factor: must be a number from 0 to 1, not 1.01"},
        {"{\"retry_budget_seconds\":-0.1}",
         "retry_budget_seconds: must be a number from 0 to 315360000, not -0.1"},
        {"{\"schedule_seconds\":5}", "schedule_seconds: must be an array, not 5"},
        {"{\"schedule_seconds\":[5,\"x\"]}",
         "schedule_seconds: must be a number from 0 to 315360000, not \"x\""},
        {"{\"backoff_strategy\":\"schedule\"}",
         "schedule_seconds: must have an entry for the schedule strategy"},
        {"{\"backoff_strategy\":\"schedule\",\"schedule_seconds\":[]}",
         "schedule_seconds: must have an entry for the schedule strategy"},
        {"{\"retry_on\":\"timeout\"}", "retry_on: must be an array, not \"timeout\""},
        {"{\"retry_on\":[99]}",
         "retry_on: must be a list of classes, error types and HTTP statuses (numbers from 100 to "
         "599), not 99"},
        {"{\"never_retry\":[\"503\"]}",
         "never_retry: must be a list of classes, error types and HTTP statuses (numbers from 100 "
         "to 599), not \"503\""},
        {"{\"never_retry\":[{}]}",
         "never_retry: must be a list of classes, error types and HTTP statuses (numbers from 100 "
         "to 599), not {}"},
        {"{\"never_retry\":[\"\"]}",
         "never_retry: must be a list of classes, error types and HTTP statuses (numbers from 100 "
         "to 599), not \"\""},
        {"{\"hints\":[{\"match\":\"b\\u0065st\"}]}",
         "hints: must be a list of objects such as {\"match\":\"best\"}, not "
         "{\"match\":\"b\\u0065st\"}"},
        {"{\"hints\":[\"best\"]}",
         "hints: must be a list of objects such as {\"match\":\"best\"}, not \"best\""},
        {"{\"hints\":[{\"match\":\"broadened\",\"min_match\":0}]}",
         "hints.min_match: must be a number above 0, up to 1, not "
         "{\"match\":\"broadened\",\"min_match\":0}"},
        {"{\"hints\":[{\"match\":\"a\",\"min_match\":1.1}]}",
         "hints.min_match: must be a number above 0, up to 1, not "
         "{\"match\":\"a\",\"min_match\":1.1}"},
        {"{\"hints\":[{\"match\":\"a\",\"min_match\":\"1\"}]}",
         "hints.min_match: must be a number above 0, up to 1, not "
         "{\"match\":\"a\",\"min_match\":\"1\"}"},
        {"{\"hints\":[{\"match\":\"best\"}],\"assignment_timeout_seconds\":0}",
         "assignment_timeout_seconds: must be a number from 0.001 to 315360000, not 0"},
        {"{\"assignment_timeout_seconds\":5}",
         "assignment_timeout_seconds: is for a policy with hints, whose jobs are dispatched"},
        {"{\"assignment_timeout_seconds\":5,\"hints\":[]}",
         "assignment_timeout_seconds: is for a policy with hints, whose jobs are dispatched"},
        {"{\"on_dead\":[]}", "on_dead: must be an object, not []"},
        {"{\"evidence_source\":\"\"}",
         "evidence_source: must be a text of 1 to 200 bytes, not \"\""},
        {"{\"max_attempts\":1,\"max_attempts\":1}", "max_attempts: stands twice"},
        {"{\"max_attempts\":1,\"max\\u005fattempts\":1}", "max_attempts: stands twice"},
    };
    struct policy before, policy;

    (void)state;
    memset(&before, 0x5a, sizeof(before));
    for (size_t i = 0; i < COUNT(table); i++) {
        struct err err = {0};
        memcpy(&policy, &before, sizeof(policy));
        assert_int_equal(try_parse(table[i].text, &policy, &err), STATUS_INVALID);
        assert_string_equal(err.text, table[i].error);
        assert_memory_equal(&policy, &before, sizeof(policy));
    }
}

static void an_unknown_member_names_the_nearest_known_one(void **state)
{
    static const struct {
        const char *text, *error;
    } table[] = {
        {"{\"max_attempt\":1}", "unknown member \"max_attempt\"; did you mean \"max_attempts\"?"},
        {"{\"backoff\":1}", "unknown member \"backoff\"; did you mean \"backoff_strategy\"?"},
        {"{\"max_delay\":1}", "unknown member \"max_delay\"; did you mean \"max_delay_seconds\"?"},
        {"{\"colour\":1}", "unknown member \"colour\""},
        {"{\"jiter\":true}", "unknown member \"jiter\"; did you mean \"jitter\"?"},
        {"{\"retryOn\":[]}", "unknown member \"retryOn\"; did you mean \"retry_on\"?"},
        {"{\"max_delay_secs\":1}",
         "unknown member \"max_delay_secs\"; did you mean \"max_delay_seconds\"?"},
        {"{\"\":1}", "unknown member \"\""},
        {"{\"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\":1}",
         "unknown member \"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz...\""},
    };
    struct policy policy;

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct err err = {0};
        assert_int_equal(try_parse(table[i].text, &policy, &err), STATUS_INVALID);
        assert_string_equal(err.text, table[i].error);
    }
}

/* list_of writes {"member":[entry,entry,...]}. */
static const char *list_of(const char *member, const char *entry, int count)
{
    struct buf text;

    buf_init(&text, 1 << 16);
    buf_addf(&text, "{\"%s\":[", member);
    for (int i = 0; i < count; i++)
        buf_addf(&text, "%s%s", i ? "," : "", entry);
    buf_add_str(&text, "]}");
    const char *copy = arena_dup(&arena, buf_slice(&text)).ptr;
    buf_release(&text);
    return copy;
}

static void lists_have_a_limit(void **state)
{
    static const struct {
        const char *member, *entry;
    } lists[] = {
        {"schedule_seconds", "1"},
        {"retry_on", "503"},
        {"never_retry", "\"x\""},
        {"hints", "{\"match\":\"best\"}"},
    };
    struct policy policy;
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        parse(list_of(lists[i].member, lists[i].entry, 64));
        const char *text = list_of(lists[i].member, lists[i].entry, 65);
        assert_int_equal(try_parse(text, &policy, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "has more than 64 entries"));
    }
}

static void an_exhausted_memory_is_reported(void **state)
{
    struct policy policy;
    struct err err = {0};

    (void)state;
    mem_fail_after(1);
    enum status status = try_parse("{\"evidence_source\":\"a\\u0062c\"}", &policy, &err);
    mem_fail_after(0);
    assert_int_equal(status, STATUS_NO_MEMORY);
}

/* ---- printing ------------------------------------------------------------------------------- */

static const char *print(const struct policy *policy)
{
    struct buf text;
    struct jsonw w;
    struct err err;

    buf_init(&text, 1 << 16);
    jsonw_init(&w, &text);
    policy_print(policy, &w);
    assert_int_equal(buf_status(&text, &err), STATUS_OK);
    const char *copy = arena_dup(&arena, buf_slice(&text)).ptr;
    buf_release(&text);
    return copy;
}

static void every_member_is_written_out(void **state)
{
    struct policy policy = parse("{}");

    (void)state;
    policy.name = SLICE("mine");
    policy.version = 3;
    assert_string_equal(
        print(&policy),
        "{\"name\":\"mine\",\"version\":3,\"max_attempts\":5,\"backoff_strategy\":\"exponential\","
        "\"initial_delay_seconds\":5,\"multiplier\":2,\"increment_seconds\":0,"
        "\"max_delay_seconds\":3600,\"jitter\":true,\"jitter_mode\":\"full\",\"jitter_factor\":0.3,"
        "\"retry_budget_seconds\":null,\"retry_on\":[],\"never_retry\":[],"
        "\"first_attempt_delay_seconds\":0}");
}

/* assert_prints_back checks that reading what is printed gives the same policy.  Members that are
 * slices of the text are compared by what a second printing makes of them. */
static void assert_prints_back(const struct policy *policy)
{
    const char *text = print(policy);
    struct policy back = parse(text);

    assert_string_equal(print(&back), text);
    assert_int_equal(back.max_attempts, policy->max_attempts);
    assert_int_equal(back.backoff, policy->backoff);
    assert_int_equal(back.initial_delay.us, policy->initial_delay.us);
    assert_true(back.multiplier == policy->multiplier);
    assert_int_equal(back.increment.us, policy->increment.us);
    assert_int_equal(back.max_delay.us, policy->max_delay.us);
    assert_int_equal(back.schedule_count, policy->schedule_count);
    assert_memory_equal(back.schedule, policy->schedule, sizeof(back.schedule));
    assert_int_equal(back.jitter, policy->jitter);
    assert_true(back.jitter_factor == policy->jitter_factor);
    assert_int_equal(back.retry_budget.us, policy->retry_budget.us);
    assert_int_equal(back.first_delay.us, policy->first_delay.us);
    assert_true(slice_eq(back.retry_on.raw, policy->retry_on.raw));
    assert_true(slice_eq(back.never_retry.raw, policy->never_retry.raw));
    assert_true(slice_eq(back.hints.raw, policy->hints.raw));
    assert_int_equal(back.assignment_timeout.us, policy->assignment_timeout.us);
    assert_true(slice_eq(back.on_dead.raw, policy->on_dead.raw));
    assert_true(slice_eq(back.evidence_source, policy->evidence_source));
}

static void what_is_printed_reads_back_the_same(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"jitter\":false}",
        "{\"schedule_seconds\":[0.000001,0.1,315360000]}",
        "{\"backoff_strategy\":\"fixed\",\"schedule_seconds\":[1]}",
        "{\"retry_on\":[ \"time\\u006fut\", 503 ],\"never_retry\":[\"\\u00e9\"]}",
        "{\"retry_budget_seconds\":0,\"jitter_mode\":\"proportional\",\"multiplier\":1.1}",
        "{\"on_dead\":{\"a\":{\"b\":[1,2]}},\"evidence_source\":\"\\u0000\\\"x\"}",
        "{\"hints\":[{\"match\":\"a\",\"more\":1}],\"first_attempt_delay_seconds\":0.333333}",
        "{\"hints\":[{\"match\":\"a\",\"min_match\":null}],\"assignment_timeout_seconds\":0.05}",
    };
    const char *name;
    struct slice json;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct policy policy = parse(texts[i]);
        assert_prints_back(&policy);
    }
    for (size_t i = 0; policy_preset(i, &name, &json); i++) {
        struct policy policy = parse(json.ptr);
        assert_prints_back(&policy);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_object_is_the_default_of_every_member),
        TEST(the_object_of_the_contract_is_read_whole),
        TEST(a_schedule_without_a_strategy_is_the_strategy),
        TEST(the_order_of_members_does_not_matter),
        TEST(labels_are_accepted_and_not_believed),
        TEST(a_null_is_a_member_that_was_not_given),
        TEST(bounds_are_allowed),
        TEST(a_job_that_is_dispatched_has_thirty_seconds_unless_its_policy_says),
        TEST(what_is_wrong_is_refused_by_the_members_name),
        TEST(an_unknown_member_names_the_nearest_known_one),
        TEST(lists_have_a_limit),
        TEST(an_exhausted_memory_is_reported),
        TEST(every_member_is_written_out),
        TEST(what_is_printed_reads_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
