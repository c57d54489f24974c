/* The rule that decides a retry: each rule alone, their order, the delay, and what always holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/retry.h"
#include "sim/rng.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define S INT64_C(1000000)
#define NOW ((struct instant){INT64_C(1770963720) * S})

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct policy policy_of(const char *text)
{
    struct policy policy;
    struct json json;
    struct err err = {0};

    assert_int_equal(json_parse(slice_of(text), &json, &err), STATUS_OK);
    if (policy_parse(json, &arena, &policy, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return policy;
}

static struct failure failure_of(const char *text)
{
    struct failure failure;
    struct json json;
    struct err err = {0};

    assert_int_equal(json_parse(slice_of(text), &json, &err), STATUS_OK);
    if (failure_parse(json, &arena, &failure, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return failure;
}

/* job_at is a running job in its n-th run. */
static struct job job_at(uint16_t n)
{
    return (struct job){.state = JOB_RUNNING, .attempt = n, .round_at = NOW};
}

static struct decision decide(const char *policy_text, uint16_t attempt, const char *failure_text,
                              struct retry_facts facts)
{
    struct policy policy = policy_of(policy_text);
    struct failure failure = failure_of(failure_text);
    struct job job = job_at(attempt);

    facts.now = NOW;
    return retry_decide(&policy, &job, &failure, &facts);
}

static void assert_quarantine(struct decision decision, const char *rule, const char *reason)
{
    assert_string_equal(decision.rule, rule);
    assert_int_equal(decision.action, DECISION_QUARANTINE);
    assert_string_equal(decision.reason, reason);
    assert_int_equal(decision.delay.us, 0);
    assert_int_equal(decision.retry_at.us, 0);
}

static void assert_retry(struct decision decision, int64_t delay_us)
{
    assert_string_equal(decision.rule, "retry_permitted");
    assert_int_equal(decision.action, DECISION_RETRY);
    assert_null(decision.reason);
    assert_int_equal(decision.delay.us, delay_us);
    assert_int_equal(decision.retry_at.us, NOW.us + delay_us);
}

#define STILL "\"jitter\":false" /* the policies here that are compared by value have no jitter */
#define NO_FACTS ((struct retry_facts){0})

/* ---- each rule alone ------------------------------------------------------------------------ */

static void a_failure_of_unknown_cause_is_retried_after_the_policys_delay(void **state)
{
    struct decision decision = decide("{" STILL "}", 3, "{\"message\":\"it broke\"}", NO_FACTS);

    (void)state;
    assert_retry(decision, 20 * S);
    assert_int_equal(decision.class, CLASS_UNKNOWN);
}

static void a_worker_that_says_no_is_believed(void **state)
{
    (void)state;
    assert_quarantine(decide("{}", 1, "{\"message\":\"timeout\",\"retryable\":false}", NO_FACTS),
                      "said_not_retryable", "not_retryable");
}

static void a_job_that_is_not_retry_eligible_is_tried_once(void **state)
{
    struct retry_facts facts = {.now = NOW, .not_retry_eligible = true};

    (void)state;
    assert_quarantine(decide("{}", 1, "{\"message\":\"m\",\"class\":\"timeout\"}", facts),
                      "not_retry_eligible", "not_retryable");
    assert_quarantine(decide("{}", 1, "{\"message\":\"m\",\"retryable\":true}", facts),
                      "not_retry_eligible", "not_retryable");
}

static void a_worker_that_says_yes_overrides_no_rule(void **state)
{
    (void)state;
    assert_quarantine(
        decide("{}", 1, "{\"message\":\"x\",\"retryable\":true,\"class\":\"permission_denied\"}",
               NO_FACTS),
        "class_forbidden", "not_retryable");
    assert_quarantine(decide("{}", 5, "{\"message\":\"x\",\"retryable\":true}", NO_FACTS),
                      "attempts_exhausted", "retries_exhausted");
}

static void environmental_classes_are_retried(void **state)
{
    (void)state;
    for (int i = CLASS_TIMEOUT; i <= CLASS_UNKNOWN; i++) {
        char text[80];
        snprintf(text, sizeof(text), "{\"message\":\"x\",\"class\":\"%s\"}",
                 class_name((enum failure_class)i));
        assert_retry(decide("{" STILL "}", 1, text, NO_FACTS), 5 * S);
    }
}

static void structural_classes_are_quarantined_at_once(void **state)
{
    (void)state;
    for (int i = CLASS_PERMISSION_DENIED; i < CLASS_COUNT; i++) {
        char text[80];
        snprintf(text, sizeof(text), "{\"message\":\"x\",\"class\":\"%s\"}",
                 class_name((enum failure_class)i));
        struct decision decision = decide("{}", 1, text, NO_FACTS);
        assert_quarantine(decision, "class_forbidden",
                          i == CLASS_POLICY_VIOLATION ? "policy_denied" : "not_retryable");
        assert_int_equal(decision.class, i);
    }
}

static void a_policys_lists_name_classes_error_types_and_statuses(void **state)
{
    static const struct {
        const char *policy, *failure;
        bool retried;
    } table[] = {
        {"{\"never_retry\":[\"timeout\"]}", "{\"message\":\"x\",\"class\":\"timeout\"}", false},
        {"{\"never_retry\":[\"timeout\"]}", "{\"message\":\"x timed out\"}", false},
        {"{\"never_retry\":[\"timeout\"]}", "{\"message\":\"x\",\"class\":\"network\"}", true},
        {"{\"never_retry\":[\"MergeConflict\"]}",
         "{\"message\":\"x\",\"error_type\":\"MergeConflict\"}", false},
        {"{\"never_retry\":[\"MergeC\\u006fnflict\"]}",
         "{\"message\":\"x\",\"error_type\":\"MergeConflict\"}", false},
        {"{\"never_retry\":[\"CommandFailed\"]}",
         "{\"message\":\"x\",\"error_type\":{\"CommandFailed\":{\"exit_code\":1}}}", false},
        {"{\"never_retry\":[\"Merge\"]}", "{\"message\":\"x\",\"error_type\":\"MergeConflict\"}",
         true},
        {"{\"never_retry\":[\"Merge\"]}", "{\"message\":\"x\",\"error_type\":\"Merge\\u0000\"}",
         true},
        {"{\"never_retry\":[503]}", "{\"message\":\"x\",\"http_status\":503}", false},
        {"{\"never_retry\":[503]}", "{\"message\":\"x\",\"http_status\":502}", true},
        {"{\"never_retry\":[503]}", "{\"message\":\"x\"}", true},
        {"{\"retry_on\":[]}", "{\"message\":\"x\"}", true},
        {"{\"retry_on\":[\"timeout\",503]}", "{\"message\":\"x\",\"http_status\":503}", true},
        {"{\"retry_on\":[\"timeout\",503]}", "{\"message\":\"x\",\"http_status\":504}", true},
        {"{\"retry_on\":[\"timeout\",503]}", "{\"message\":\"x\",\"http_status\":500}", false},
        {"{\"retry_on\":[\"timeout\"]}", "{\"message\":\"x\"}", false},
        {"{\"retry_on\":[\"unknown\"]}", "{\"message\":\"x\"}", true},
        {"{\"retry_on\":[\"timeout\"],\"never_retry\":[504]}",
         "{\"message\":\"x\",\"http_status\":504}", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct decision decision = decide(table[i].policy, 1, table[i].failure, NO_FACTS);
        if ((decision.action == DECISION_RETRY) != table[i].retried)
            fail_msg("%s, %s: %s", table[i].policy, table[i].failure, decision.rule);
        if (!table[i].retried)
            assert_quarantine(decision, "policy_forbids", "not_retryable");
    }
}

static void an_error_type_longer_than_any_entry_matches_none(void **state)
{
    struct policy policy = policy_of("{\"never_retry\":[\"a\"]}");
    struct failure failure = failure_of("{\"message\":\"x\"}");
    struct job job = job_at(1);
    struct retry_facts facts = {.now = NOW};
    char type[4096];

    (void)state;
    memset(type, 'a', sizeof(type));
    for (size_t len = 1; len <= sizeof(type); len *= 2) {
        failure.error_type = (struct slice){type, len};
        assert_int_equal(retry_decide(&policy, &job, &failure, &facts).action,
                         len == 1 ? DECISION_QUARANTINE : DECISION_RETRY);
    }
}

static void side_effects_without_a_key_are_not_repeated(void **state)
{
    static const struct {
        const char *effects;
        bool key, retried;
    } table[] = {
        {"none", false, true},   {"none", true, true},        {"unknown", false, false},
        {"unknown", true, true}, {"committed", false, false}, {"committed", true, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        char text[80];
        snprintf(text, sizeof(text), "{\"message\":\"x\",\"side_effects\":\"%s\"}",
                 table[i].effects);
        struct decision decision = decide(
            "{" STILL "}", 1, text, (struct retry_facts){.has_idempotency_key = table[i].key});
        if (table[i].retried)
            assert_retry(decision, 5 * S);
        else
            assert_quarantine(decision, "not_idempotent", "not_idempotent");
    }
}

static void a_dependency_that_is_down_for_longer_than_the_cap_ends_the_wait(void **state)
{
    static const char policy[] = "{" STILL ",\"max_delay_seconds\":60}";
    static const char failure[] = "{\"message\":\"x\",\"dependency\":\"db\"}";

    (void)state;
    assert_retry(decide(policy, 1, failure, (struct retry_facts){.dependency_down = {60 * S}}),
                 5 * S);
    assert_quarantine(
        decide(policy, 1, failure, (struct retry_facts){.dependency_down = {60 * S + 1}}),
        "dependency_down", "dependency_down");
    assert_retry(decide("{" STILL ",\"max_delay_seconds\":0}", 1, failure, NO_FACTS), 0);
}

static void the_last_allowed_run_is_the_last(void **state)
{
    static const char policy[] = "{" STILL ",\"max_attempts\":3}";

    (void)state;
    assert_retry(decide(policy, 1, "{\"message\":\"x\"}", NO_FACTS), 5 * S);
    assert_retry(decide(policy, 2, "{\"message\":\"x\"}", NO_FACTS), 10 * S);
    assert_quarantine(decide(policy, 3, "{\"message\":\"x\"}", NO_FACTS), "attempts_exhausted",
                      "retries_exhausted");
    assert_quarantine(decide(policy, 4, "{\"message\":\"x\"}", NO_FACTS), "attempts_exhausted",
                      "retries_exhausted");
    assert_quarantine(decide("{\"max_attempts\":1}", 1, "{\"message\":\"x\"}", NO_FACTS),
                      "attempts_exhausted", "retries_exhausted");
}

static void a_job_that_kills_its_workers_is_quarantined_as_crashed(void **state)
{
    static const char crash[] = "{\"message\":\"lease expired\",\"class\":\"crashed\"}";

    (void)state;
    assert_retry(decide("{" STILL ",\"max_attempts\":2}", 1, crash, NO_FACTS), 5 * S);
    assert_quarantine(decide("{\"max_attempts\":2}", 2, crash, NO_FACTS), "attempts_exhausted",
                      "agent_crashed");
}

static void assert_uncounted(struct decision decision)
{
    assert_string_equal(decision.rule, "interrupted");
    assert_int_equal(decision.action, DECISION_RETRY);
    assert_null(decision.reason);
    assert_true(decision.uncounted);
    assert_int_equal(decision.class, CLASS_CRASHED);
    assert_int_equal(decision.delay.us, 0);
    assert_int_equal(decision.retry_at.us, NOW.us);
}

#define CUT_OFF "{\"message\":\"x\",\"interrupted\":true"

static void an_interrupted_attempt_is_retried_at_once_and_does_not_count(void **state)
{
    (void)state;
    assert_uncounted(decide("{\"max_attempts\":3}", 1, CUT_OFF "}", NO_FACTS));
    assert_uncounted(decide("{\"max_attempts\":1}", 1, CUT_OFF "}", NO_FACTS));
    assert_uncounted(
        decide("{\"max_attempts\":3}", 3, CUT_OFF ",\"retry_after_seconds\":60}", NO_FACTS));
    assert_uncounted(decide("{\"retry_budget_seconds\":0}", 1, CUT_OFF "}", NO_FACTS));
    assert_uncounted(decide("{}", 1, CUT_OFF ",\"side_effects\":\"none\"}", NO_FACTS));
}

static void an_attempt_that_was_not_interrupted_counts(void **state)
{
    struct decision decision =
        decide("{" STILL "}", 1, "{\"message\":\"x\",\"interrupted\":false}", NO_FACTS);

    (void)state;
    assert_retry(decision, 5 * S);
    assert_false(decision.uncounted);
}

static void the_tenth_interruption_in_a_row_is_a_crash_like_any_other(void **state)
{
    static const char policy[] = "{" STILL ",\"max_attempts\":2,\"retry_on\":[\"crashed\"]}";

    (void)state;
    for (uint32_t before = 0; before < 9; before++)
        assert_uncounted(
            decide(policy, 1, CUT_OFF "}", (struct retry_facts){.interruptions = before}));
    for (uint32_t before = 9; before < 12; before++) {
        struct retry_facts facts = {.interruptions = before};
        struct decision decision = decide(policy, 1, CUT_OFF "}", facts);
        assert_retry(decision, 5 * S);
        assert_false(decision.uncounted);
        assert_quarantine(decide(policy, 2, CUT_OFF "}", facts), "attempts_exhausted",
                          "agent_crashed");
    }
}

static void an_interruption_overrides_nothing_that_forbids_a_retry(void **state)
{
    static const struct {
        const char *policy, *failure, *rule, *reason;
    } table[] = {
        {"{}", CUT_OFF ",\"retryable\":false}", "said_not_retryable", "not_retryable"},
        {"{}", CUT_OFF ",\"class\":\"invalid_input\"}", "class_forbidden", "not_retryable"},
        {"{}", CUT_OFF ",\"class\":\"policy_violation\"}", "class_forbidden", "policy_denied"},
        {"{\"never_retry\":[\"crashed\"]}", CUT_OFF "}", "policy_forbids", "not_retryable"},
        {"{}", CUT_OFF ",\"side_effects\":\"unknown\"}", "not_idempotent", "not_idempotent"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++)
        assert_quarantine(decide(table[i].policy, 1, table[i].failure, NO_FACTS), table[i].rule,
                          table[i].reason);
}

static void a_list_of_what_is_worth_a_retry_does_not_speak_of_interruptions(void **state)
{
    static const char policy[] = "{\"retry_on\":[\"timeout\"]}";

    (void)state;
    assert_uncounted(decide(policy, 1, CUT_OFF "}", NO_FACTS));
    assert_quarantine(decide(policy, 1, CUT_OFF "}", (struct retry_facts){.interruptions = 9}),
                      "policy_forbids", "not_retryable");
}

static void a_retry_that_would_begin_after_the_budget_is_not_begun(void **state)
{
    struct failure failure = failure_of("{\"message\":\"x\"}");
    struct job job = job_at(1);
    struct retry_facts facts = {.now = NOW};
    struct policy policy = policy_of("{" STILL ",\"retry_budget_seconds\":10}");

    (void)state;
    facts.now.us = NOW.us + 5 * S; /* and 5 s of delay: exactly at the end */
    assert_int_equal(retry_decide(&policy, &job, &failure, &facts).action, DECISION_RETRY);
    facts.now.us += 1;
    assert_quarantine(retry_decide(&policy, &job, &failure, &facts), "budget_exhausted",
                      "retries_exhausted");
    facts.now.us = NOW.us - 365 * 86400 * S; /* the clock was set back by a year */
    assert_int_equal(retry_decide(&policy, &job, &failure, &facts).action, DECISION_RETRY);
    facts.now = NOW;
    policy.retry_budget.us = 0;
    assert_quarantine(retry_decide(&policy, &job, &failure, &facts), "budget_exhausted",
                      "retries_exhausted");
}

/* ---- the order of the rules ----------------------------------------------------------------- */

/* Facts for every rule at once, taken away from the top: each time the next rule decides. */
static void the_first_rule_that_applies_decides(void **state)
{
    struct policy policy = policy_of("{" STILL ",\"max_attempts\":1,\"never_retry\":[\"crashed\"],"
                                     "\"retry_budget_seconds\":0}");
    struct failure failure = failure_of("{\"message\":\"x\",\"retryable\":false,"
                                        "\"class\":\"policy_violation\","
                                        "\"side_effects\":\"committed\"}");
    struct job job = job_at(1);
    struct retry_facts facts = {.now = NOW, .dependency_down = {INT64_MAX}};

    (void)state;
#define DECIDE() retry_decide(&policy, &job, &failure, &facts)
    facts.not_retry_eligible = true;
    assert_quarantine(DECIDE(), "not_retry_eligible", "not_retryable");
    facts.not_retry_eligible = false;
    assert_quarantine(DECIDE(), "said_not_retryable", "not_retryable");
    failure.retryable = YES;
    assert_quarantine(DECIDE(), "class_forbidden", "policy_denied");
    failure.given_class = CLASS_SCOPE_MISMATCH;
    assert_quarantine(DECIDE(), "class_forbidden", "not_retryable");
    failure.given_class = CLASS_CRASHED;
    assert_quarantine(DECIDE(), "policy_forbids", "not_retryable");
    policy.never_retry = (struct json){0};
    assert_quarantine(DECIDE(), "not_idempotent", "not_idempotent");
    facts.has_idempotency_key = true;
    assert_quarantine(DECIDE(), "dependency_down", "dependency_down");
    facts.dependency_down.us = 0;
    failure.interrupted = true;
    assert_uncounted(DECIDE());
    failure.interrupted = false;
    assert_quarantine(DECIDE(), "attempts_exhausted", "agent_crashed");
    failure.given_class = CLASS_TIMEOUT;
    assert_quarantine(DECIDE(), "attempts_exhausted", "retries_exhausted");
    policy.max_attempts = 2;
    assert_quarantine(DECIDE(), "budget_exhausted", "retries_exhausted");
    policy.retry_budget.us = -1;
    assert_retry(DECIDE(), 5 * S);
#undef DECIDE
}

/* ---- rounds --------------------------------------------------------------------------------- */

static void a_replay_starts_a_round_with_all_its_attempts(void **state)
{
    struct policy policy = policy_of("{" STILL ",\"max_attempts\":3}");
    struct failure failure = failure_of("{\"message\":\"x\"}");
    struct retry_facts facts = {.now = NOW};
    struct job job = job_at(4);

    (void)state;
    job.attempt_base = 3;
    assert_int_equal(retry_attempt_in_round(&job), 1);
    assert_retry(retry_decide(&policy, &job, &failure, &facts), 5 * S);
    job.attempt = 6;
    assert_int_equal(retry_attempt_in_round(&job), 3);
    assert_quarantine(retry_decide(&policy, &job, &failure, &facts), "attempts_exhausted",
                      "retries_exhausted");
}

static void a_reviewers_limit_wins_over_the_policys(void **state)
{
    struct policy policy = policy_of("{" STILL ",\"max_attempts\":3}");
    struct failure failure = failure_of("{\"message\":\"x\"}");
    struct retry_facts facts = {.now = NOW};
    struct job job = job_at(1);

    (void)state;
    job.attempts_max = 1;
    assert_int_equal(retry_attempts_allowed(&policy, &job), 1);
    assert_quarantine(retry_decide(&policy, &job, &failure, &facts), "attempts_exhausted",
                      "retries_exhausted");
    job.attempt = 3;
    job.attempts_max = 4;
    assert_int_equal(retry_attempts_allowed(&policy, &job), 4);
    assert_retry(retry_decide(&policy, &job, &failure, &facts), 20 * S);
    job.attempts_max = 0;
    assert_int_equal(retry_attempts_allowed(&policy, &job), 3);
}

static void a_job_that_never_ran_has_no_attempt(void **state)
{
    struct job job = job_at(0);

    (void)state;
    assert_int_equal(retry_attempt_in_round(&job), 0);
    job.attempt = UINT16_MAX;
    assert_int_equal(retry_attempt_in_round(&job), UINT16_MAX);
}

/* ---- the delay ------------------------------------------------------------------------------ */

static void the_schedules_of_the_sources_are_kept_attempt_by_attempt(void **state)
{
    static const struct {
        const char *name;
        int64_t ms[5]; /* 0 ends */
    } table[] = {
        {"receipts", {2000, 4000, 8000, 16000}},
        {"dispatch", {10000, 30000}},
        {"map", {1000, 2000}},
        {"background", {25, 50, 100}},
        {"post-adjudication", {25, 50, 100}},
        {"governed", {5000, 30000, 120000, 600000, 3600000}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        const char *name = "";
        struct slice json = {0};
        for (size_t p = 0; strcmp(name, table[i].name) != 0; p++)
            assert_true(policy_preset(p, &name, &json));
        /* The largest random number leaves a full jitter at the whole delay. */
        struct retry_facts facts = {.random = UINT64_MAX};
        uint16_t n = 1;
        for (; n <= 5 && table[i].ms[n - 1] > 0; n++)
            assert_retry(decide(json.ptr, n, "{\"message\":\"x\"}", facts),
                         table[i].ms[n - 1] * 1000);
        assert_quarantine(decide(json.ptr, n, "{\"message\":\"x\"}", facts), "attempts_exhausted",
                          "retries_exhausted");
    }
}

static void retry_after_is_honoured_up_to_the_cap(void **state)
{
    static const struct {
        const char *failure;
        int64_t delay_us;
    } table[] = {
        {"{\"message\":\"x\",\"http_status\":429,\"retry_after_seconds\":0}", 5 * S},
        {"{\"message\":\"x\",\"http_status\":429,\"retry_after_seconds\":4.9}", 5 * S},
        {"{\"message\":\"x\",\"http_status\":429,\"retry_after_seconds\":7.5}", 7500000},
        {"{\"message\":\"x\",\"http_status\":503,\"retry_after_seconds\":60}", 60 * S},
        {"{\"message\":\"x\",\"http_status\":503,\"retry_after_seconds\":61}", 60 * S},
        {"{\"message\":\"x\",\"http_status\":503,\"retry_after_seconds\":1e300}", 60 * S},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++)
        assert_retry(decide("{" STILL ",\"max_delay_seconds\":60}", 1, table[i].failure, NO_FACTS),
                     table[i].delay_us);
}

static void retry_after_counts_against_the_budget(void **state)
{
    (void)state;
    assert_quarantine(decide("{" STILL ",\"retry_budget_seconds\":30}", 1,
                             "{\"message\":\"x\",\"retry_after_seconds\":31}", NO_FACTS),
                      "budget_exhausted", "retries_exhausted");
}

static void jitter_moves_the_delay_and_not_the_retry_after(void **state)
{
    (void)state;
    assert_retry(decide("{}", 1, "{\"message\":\"x\"}", (struct retry_facts){.random = 0}), 0);
    assert_retry(
        decide("{}", 1, "{\"message\":\"x\"}", (struct retry_facts){.random = UINT64_C(1) << 63}),
        5 * S / 2);
    assert_retry(decide("{}", 1, "{\"message\":\"x\",\"retry_after_seconds\":3}",
                        (struct retry_facts){.random = 0}),
                 3 * S);
}

static void the_end_of_time_is_not_passed(void **state)
{
    struct policy policy = policy_of("{" STILL "}");
    struct failure failure = failure_of("{\"message\":\"x\"}");
    struct job job = job_at(1);
    struct retry_facts facts = {.now = {INT64_MAX - 1}};

    (void)state;
    assert_int_equal(retry_decide(&policy, &job, &failure, &facts).retry_at.us, INT64_MAX);
}

/* ---- what always holds ---------------------------------------------------------------------- */

static struct policy random_policy(struct rng *rng)
{
    struct policy policy = policy_of("{\"schedule_seconds\":[1]}");

    policy.max_attempts = (uint32_t)rng_range(rng, 1, rng_chance(rng, 50) ? 8 : 1000);
    policy.backoff = (enum backoff)rng_below(rng, 5);
    policy.initial_delay.us = rng_range(rng, 0, rng_chance(rng, 50) ? 100 : 315360000 * S);
    policy.multiplier = 1 + (double)rng_below(rng, 999000) / 1000;
    policy.increment.us = rng_range(rng, 0, rng_chance(rng, 50) ? 0 : 315360000 * S);
    policy.max_delay.us = rng_range(rng, 0, rng_chance(rng, 50) ? 3600 * S : 315360000 * S);
    policy.schedule_count = (uint32_t)rng_range(rng, 1, POLICY_SCHEDULE_MAX);
    for (uint32_t i = 0; i < policy.schedule_count; i++)
        policy.schedule[i].us = rng_range(rng, 0, 315360000 * S);
    policy.jitter = (enum jitter)rng_below(rng, 4);
    policy.jitter_factor = (double)rng_below(rng, 1001) / 1000;
    policy.retry_budget.us = rng_chance(rng, 70) ? -1 : rng_range(rng, 0, 3600 * S);
    return policy;
}

static struct failure random_failure(struct rng *rng)
{
    struct failure failure;

    failure_init(&failure);
    failure.message = SLICE("x");
    failure.has_class = rng_chance(rng, 50);
    failure.given_class = (enum failure_class)rng_below(rng, CLASS_COUNT);
    failure.http_status = rng_chance(rng, 20) ? (int)rng_range(rng, 100, 599) : 0;
    failure.retryable = (enum tristate)rng_below(rng, 3);
    failure.side_effects = (enum side_effects)rng_below(rng, 4);
    failure.retry_after.us = rng_chance(rng, 20) ? rng_range(rng, 0, 7200 * S) : -1;
    return failure;
}

static void check_one(struct rng *rng)
{
    struct policy policy = random_policy(rng);
    struct failure failure = random_failure(rng);
    struct job job = job_at((uint16_t)rng_range(rng, 1, 2 * policy.max_attempts));
    struct retry_facts facts = {.now = {rng_range(rng, -NOW.us, 2 * NOW.us)},
                                .random = rng_next(rng),
                                .has_idempotency_key = rng_chance(rng, 50),
                                .dependency_down = {rng_range(rng, 0, 7200 * S)}};

    job.attempts_max = (uint16_t)(rng_chance(rng, 20) ? rng_range(rng, 1, 10) : 0);
    struct decision one = retry_decide(&policy, &job, &failure, &facts);
    struct decision two = retry_decide(&policy, &job, &failure, &facts);

    /* The same inputs give the same decision. */
    assert_int_equal(one.action, two.action);
    assert_ptr_equal(one.rule, two.rule);
    assert_ptr_equal(one.reason, two.reason);
    assert_int_equal(one.delay.us, two.delay.us);
    assert_int_equal(one.retry_at.us, two.retry_at.us);

    if (one.action == DECISION_QUARANTINE) {
        assert_non_null(one.reason);
        return;
    }
    assert_true(one.delay.us >= 0 && one.delay.us <= policy.max_delay.us);
    assert_int_equal(one.retry_at.us, facts.now.us + one.delay.us);
    assert_true(retry_attempt_in_round(&job) < retry_attempts_allowed(&policy, &job));
    assert_true(class_is_retryable(one.class));
    assert_int_not_equal(failure.retryable, NO);
    assert_true(failure.side_effects <= EFFECTS_NONE || facts.has_idempotency_key);
    if (policy.retry_budget.us >= 0)
        assert_true(one.retry_at.us <= job.round_at.us + policy.retry_budget.us);
}

static void no_policy_lets_a_retry_pass_its_bounds(void **state)
{
    struct rng rng = rng_fork(20260213, 10);

    (void)state;
    for (int i = 0; i < 50000; i++)
        check_one(&rng);
}

static void delays_grow_but_for_schedules(void **state)
{
    struct rng rng = rng_fork(20260213, 11);

    (void)state;
    for (int i = 0; i < 500; i++) {
        struct policy policy = random_policy(&rng);
        if (policy.backoff == BACKOFF_SCHEDULE)
            continue;
        for (uint32_t n = 1; n < 1000; n++)
            assert_true(policy_delay(&policy, n).us <= policy_delay(&policy, n + 1).us);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_failure_of_unknown_cause_is_retried_after_the_policys_delay),
        TEST(a_worker_that_says_no_is_believed),
        TEST(a_job_that_is_not_retry_eligible_is_tried_once),
        TEST(a_worker_that_says_yes_overrides_no_rule),
        TEST(environmental_classes_are_retried),
        TEST(structural_classes_are_quarantined_at_once),
        TEST(a_policys_lists_name_classes_error_types_and_statuses),
        TEST(an_error_type_longer_than_any_entry_matches_none),
        TEST(side_effects_without_a_key_are_not_repeated),
        TEST(a_dependency_that_is_down_for_longer_than_the_cap_ends_the_wait),
        TEST(the_last_allowed_run_is_the_last),
        TEST(a_job_that_kills_its_workers_is_quarantined_as_crashed),
        TEST(an_interrupted_attempt_is_retried_at_once_and_does_not_count),
        TEST(an_attempt_that_was_not_interrupted_counts),
        TEST(the_tenth_interruption_in_a_row_is_a_crash_like_any_other),
        TEST(an_interruption_overrides_nothing_that_forbids_a_retry),
        TEST(a_list_of_what_is_worth_a_retry_does_not_speak_of_interruptions),
        TEST(a_retry_that_would_begin_after_the_budget_is_not_begun),
        TEST(the_first_rule_that_applies_decides),
        TEST(a_replay_starts_a_round_with_all_its_attempts),
        TEST(a_reviewers_limit_wins_over_the_policys),
        TEST(a_job_that_never_ran_has_no_attempt),
        TEST(the_schedules_of_the_sources_are_kept_attempt_by_attempt),
        TEST(retry_after_is_honoured_up_to_the_cap),
        TEST(retry_after_counts_against_the_budget),
        TEST(jitter_moves_the_delay_and_not_the_retry_after),
        TEST(the_end_of_time_is_not_passed),
        TEST(no_policy_lets_a_retry_pass_its_bounds),
        TEST(delays_grow_but_for_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
