/* Delays: every preset, strategy and jitter by its values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/policy.h"
#include "sim/rng.h"

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

static struct policy parse(const char *text)
{
    struct policy policy;
    struct json json;
    struct err err = {0};

    assert_int_equal(json_parse(slice_of(text), &json, &err), STATUS_OK);
    if (policy_parse(json, &arena, &policy, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return policy;
}

static struct policy preset(const char *wanted)
{
    const char *name;
    struct slice json;

    for (size_t i = 0; policy_preset(i, &name, &json); i++) {
        if (strcmp(name, wanted) == 0)
            return parse(json.ptr);
    }
    fail_msg("no preset %s", wanted);
    return (struct policy){0};
}

static void assert_delay(const struct policy *policy, uint32_t n, int64_t us)
{
    int64_t delay = policy_delay(policy, n).us;

    if (delay != us)
        fail_msg("delay after attempt %u: %lld us, not %lld us", n, (long long)delay,
                 (long long)us);
}

/* ---- presets -------------------------------------------------------------------------------- */

static void presets_give_the_table_of_the_contract(void **state)
{
    static const struct {
        const char *name;
        uint32_t runs;
        enum jitter jitter;
        int64_t us[9]; /* before attempt 2, 3, ... */
    } table[] = {
        {"receipts", 5, JITTER_NONE, {2 * S, 4 * S, 8 * S, 16 * S}},
        {"dispatch", 3, JITTER_NONE, {10 * S, 30 * S}},
        {"governed", 6, JITTER_FULL, {5 * S, 30 * S, 120 * S, 600 * S, 3600 * S}},
        {"map", 3, JITTER_NONE, {1 * S, 2 * S}},
        {"background", 4, JITTER_NONE, {25 * MS, 50 * MS, 100 * MS}},
        {"post-adjudication", 4, JITTER_NONE, {25 * MS, 50 * MS, 100 * MS}},
        {"replay", 10, JITTER_NONE, {S, S, S, S, S, S, S, S, S}},
        {"default", 6, JITTER_FULL, {5 * S, 30 * S, 120 * S, 600 * S, 3600 * S}},
    };
    const char *name;
    struct slice json;

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        assert_true(policy_preset(i, &name, &json));
        assert_string_equal(name, table[i].name);
        struct policy policy = parse(json.ptr);
        assert_int_equal(policy.max_attempts, table[i].runs);
        assert_int_equal(policy.jitter, table[i].jitter);
        assert_int_equal(policy.retry_budget.us, -1);
        for (uint32_t n = 1; n < table[i].runs; n++)
            assert_delay(&policy, n, table[i].us[n - 1]);
    }
    assert_false(policy_preset(COUNT(table), &name, &json));
}

/* Seed 000: attempt 1 at once, then 2, 4, 8, 16 seconds, "~30s worst case". */
static void receipts_take_thirty_seconds_at_worst(void **state)
{
    struct policy policy = preset("receipts");
    int64_t total = policy.first_delay.us;

    (void)state;
    for (uint32_t n = 1; n < policy.max_attempts; n++)
        total += policy_delay(&policy, n).us;
    assert_int_equal(total, 30 * S);
}

/* Seed 001: best agent, then all scored anew, then a broadened match of 70 %. */
static void dispatch_hints_follow_the_attempts(void **state)
{
    struct policy policy = preset("dispatch");
    struct json_iter iter;
    struct json hint, match;
    double min_match = 0;

    (void)state;
    assert_true(slice_is(policy_match_hint(&policy, 1), "best"));
    assert_true(slice_is(policy_match_hint(&policy, 2), "rescore"));
    assert_true(slice_is(policy_match_hint(&policy, 3), "broadened"));
    assert_true(slice_is(policy_match_hint(&policy, 4), "broadened"));
    assert_true(slice_is(policy_match_hint(&policy, UINT32_MAX), "broadened"));
    assert_true(slice_is(policy_match_hint(&policy, 0), "best"));
    json_iter_init(&iter, policy.hints);
    while (json_next(&iter, NULL, &hint)) {
        if (json_get(hint, "min_match", &match))
            assert_true(json_double(match, &min_match));
    }
    assert_true(min_match == 0.7);
}

static void a_policy_without_hints_wants_the_best_match(void **state)
{
    struct policy policy = preset("governed");

    (void)state;
    assert_true(slice_is(policy_match_hint(&policy, 1), "best"));
    assert_true(slice_is(policy_match_hint(&policy, 9), "best"));
}

/* Seed 004: what a dead settlement sets; escrow_adjudication is not among it, so it is kept. */
static void post_adjudication_sets_four_members_when_it_dies(void **state)
{
    static const struct {
        const char *name, *value;
    } members[] = {
        {"settlement_progression_status", "dispute-ready"},
        {"settlement_progression_reason_code", "escalate"},
        {"settlement_progression_reason", "post-adjudication execution dead-lettered"},
        {"dispute_lifecycle_status", "re-escalated"},
    };
    struct policy policy = preset("post-adjudication");
    struct json value;

    (void)state;
    assert_true(slice_is(policy.evidence_source, "post_adjudication_retry"));
    assert_int_equal(json_count(policy.on_dead), COUNT(members));
    for (size_t i = 0; i < COUNT(members); i++) {
        assert_true(json_get(policy.on_dead, members[i].name, &value));
        assert_true(json_string_is(value, members[i].value));
    }
}

/* Seed 002: the policy of its envelope. */
static void the_envelope_of_the_governed_pattern_doubles_from_five_seconds(void **state)
{
    struct policy policy = parse("{\"max_attempts\": 5, \"backoff_strategy\": \"exponential\","
                                 "\"initial_delay_seconds\": 5, \"max_delay_seconds\": 3600,"
                                 "\"jitter\": true}");

    (void)state;
    assert_int_equal(policy.max_attempts, 5);
    assert_int_equal(policy.jitter, JITTER_FULL);
    for (uint32_t n = 1; n < 5; n++)
        assert_delay(&policy, n, (5 * S) << (n - 1));
}

/* ---- delays --------------------------------------------------------------------------------- */

static void each_strategy_gives_its_series(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds[8]; /* after attempt 1, 2, ... */
    } table[] = {
        {"{\"backoff_strategy\":\"exponential\",\"initial_delay_seconds\":1,"
         "\"max_delay_seconds\":60}",
         {1, 2, 4, 8, 16, 32, 60, 60}},
        {"{\"backoff_strategy\":\"exponential\",\"multiplier\":3,\"max_delay_seconds\":1000}",
         {5, 15, 45, 135, 405, 1000, 1000, 1000}},
        {"{\"backoff_strategy\":\"exponential\",\"multiplier\":1}", {5, 5, 5, 5, 5, 5, 5, 5}},
        {"{\"backoff_strategy\":\"fixed\",\"initial_delay_seconds\":7}", {7, 7, 7, 7, 7, 7, 7, 7}},
        {"{\"backoff_strategy\":\"fixed\",\"initial_delay_seconds\":7200}",
         {3600, 3600, 3600, 3600, 3600, 3600, 3600, 3600}},
        {"{\"backoff_strategy\":\"linear\",\"initial_delay_seconds\":4,\"increment_seconds\":3,"
         "\"max_delay_seconds\":20}",
         {4, 7, 10, 13, 16, 19, 20, 20}},
        {"{\"backoff_strategy\":\"linear\",\"initial_delay_seconds\":4}",
         {4, 8, 12, 16, 20, 24, 28, 32}},
        {"{\"backoff_strategy\":\"linear\",\"initial_delay_seconds\":0,\"increment_seconds\":3}",
         {0, 3, 6, 9, 12, 15, 18, 21}},
        {"{\"backoff_strategy\":\"fibonacci\",\"initial_delay_seconds\":2,"
         "\"max_delay_seconds\":30}",
         {2, 2, 4, 6, 10, 16, 26, 30}},
        {"{\"backoff_strategy\":\"fibonacci\",\"initial_delay_seconds\":2,"
         "\"max_delay_seconds\":5}",
         {2, 2, 4, 5, 5, 5, 5, 5}},
        {"{\"schedule_seconds\":[5,30,120],\"max_delay_seconds\":60}",
         {5, 30, 60, 60, 60, 60, 60, 60}},
        {"{\"schedule_seconds\":[9,3]}", {9, 3, 3, 3, 3, 3, 3, 3}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct policy policy = parse(table[i].text);
        for (uint32_t n = 1; n <= 8; n++)
            assert_delay(&policy, n, table[i].seconds[n - 1] * S);
        assert_delay(&policy, 0, table[i].seconds[0] * S);
    }
}

static void a_fraction_is_rounded_to_a_microsecond(void **state)
{
    struct policy policy = parse("{\"initial_delay_seconds\":0.000001,\"multiplier\":1.5}");

    (void)state;
    assert_delay(&policy, 1, 1);
    assert_delay(&policy, 2, 2); /* 1.5 */
    assert_delay(&policy, 3, 2); /* 2.25 */
    assert_delay(&policy, 4, 3); /* 3.375 */
}

static void the_largest_values_stop_at_the_cap(void **state)
{
    static const char *const strategies[] = {"exponential", "fixed", "linear", "fibonacci"};
    static const uint32_t attempts[] = {2, 100, 1000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(strategies); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "{\"backoff_strategy\":\"%s\",\"initial_delay_seconds\":315360000,"
                 "\"increment_seconds\":315360000,\"multiplier\":1000,"
                 "\"max_delay_seconds\":315360000}",
                 strategies[i]);
        struct policy policy = parse(text);
        for (size_t n = 0; n < COUNT(attempts); n++)
            assert_delay(&policy, attempts[n], 315360000 * S);
    }
}

static void a_cap_of_zero_means_at_once(void **state)
{
    static const char *const texts[] = {
        "{\"max_delay_seconds\":0}",
        "{\"max_delay_seconds\":0,\"backoff_strategy\":\"fixed\"}",
        "{\"max_delay_seconds\":0,\"backoff_strategy\":\"linear\"}",
        "{\"max_delay_seconds\":0,\"backoff_strategy\":\"fibonacci\"}",
        "{\"max_delay_seconds\":0,\"schedule_seconds\":[5]}",
        "{\"initial_delay_seconds\":0}",
        "{\"initial_delay_seconds\":0,\"backoff_strategy\":\"fibonacci\"}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct policy policy = parse(texts[i]);
        assert_delay(&policy, 1, 0);
        assert_delay(&policy, 1000, 0);
    }
}

/* ---- jitter --------------------------------------------------------------------------------- */

static void each_jitter_spans_its_range(void **state)
{
    static const struct {
        const char *text;
        int64_t low, middle, high; /* of a delay of 1 s, for random 0, 2^63, 2^64 - 1 */
    } table[] = {
        {"{\"jitter\":false}", S, S, S},
        {"{\"jitter\":true}", 0, S / 2, S},
        {"{\"jitter_mode\":\"full\"}", 0, S / 2, S},
        {"{\"jitter_mode\":\"equal\"}", S / 2, S / 2 + S / 4, S},
        {"{\"jitter_mode\":\"proportional\"}", S - 3 * S / 10, S, S + 3 * S / 10},
        {"{\"jitter_mode\":\"proportional\",\"jitter_factor\":1}", 0, S, 2 * S},
        {"{\"jitter_mode\":\"proportional\",\"jitter_factor\":0}", S, S, S},
        {"{\"jitter_mode\":\"proportional\",\"max_delay_seconds\":1}", S - 3 * S / 10, S, S},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct policy policy = parse(table[i].text);
        struct span delay = {S};
        assert_int_equal(policy_jitter(&policy, delay, 0).us, table[i].low);
        assert_int_equal(policy_jitter(&policy, delay, UINT64_C(1) << 63).us, table[i].middle);
        assert_int_equal(policy_jitter(&policy, delay, UINT64_MAX).us, table[i].high);
        assert_int_equal(policy_jitter(&policy, (struct span){0}, UINT64_MAX).us, 0);
    }
}

static void an_odd_delay_is_halved_without_losing_a_microsecond(void **state)
{
    struct policy policy = parse("{\"jitter_mode\":\"equal\"}");

    (void)state;
    assert_int_equal(policy_jitter(&policy, (struct span){3}, 0).us, 1);
    assert_int_equal(policy_jitter(&policy, (struct span){3}, UINT64_MAX).us, 3);
}

static void full_jitter_is_even(void **state)
{
    struct policy policy = parse("{}");
    struct rng rng = rng_fork(7, 1);
    int buckets[10] = {0};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        int64_t us = policy_jitter(&policy, (struct span){999999}, rng_next(&rng)).us;
        assert_in_range(us, 0, 999999);
        buckets[us / 100000]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(buckets[i], 9500, 10500);
}

static void the_longest_delay_never_grows_by_jitter(void **state)
{
    static const char *const modes[] = {"full", "equal", "proportional"};

    (void)state;
    for (size_t i = 0; i < COUNT(modes); i++) {
        char text[128];
        snprintf(text, sizeof(text),
                 "{\"jitter_mode\":\"%s\",\"jitter_factor\":1,\"max_delay_seconds\":315360000}",
                 modes[i]);
        struct policy policy = parse(text);
        assert_int_equal(policy_jitter(&policy, policy.max_delay, UINT64_MAX).us,
                         policy.max_delay.us);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(presets_give_the_table_of_the_contract),
        TEST(receipts_take_thirty_seconds_at_worst),
        TEST(dispatch_hints_follow_the_attempts),
        TEST(a_policy_without_hints_wants_the_best_match),
        TEST(post_adjudication_sets_four_members_when_it_dies),
        TEST(the_envelope_of_the_governed_pattern_doubles_from_five_seconds),
        TEST(each_strategy_gives_its_series),
        TEST(a_fraction_is_rounded_to_a_microsecond),
        TEST(the_largest_values_stop_at_the_cap),
        TEST(a_cap_of_zero_means_at_once),
        TEST(each_jitter_spans_its_range),
        TEST(an_odd_delay_is_halved_without_losing_a_microsecond),
        TEST(full_jitter_is_even),
        TEST(the_longest_delay_never_grows_by_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
