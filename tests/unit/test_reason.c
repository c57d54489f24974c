/* Reasons, their subjects and families: the table of INTERFACES 4, by value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/reason.h"

static const struct {
    const char *reason, *subject, *family;
} table[] = {
    {"no_capable_agent", "dlq.task.unassignable", "background-failed"},
    {"all_agents_unavailable", "dlq.task.no_available_agent", "background-failed"},
    {"policy_denied", "dlq.task.policy_denied", "policy-blocked"},
    {"timeout_assigned", "dlq.task.assignment_timeout", "background-failed"},
    {"timeout_in_progress", "dlq.task.execution_timeout", "background-failed"},
    {"agent_crashed", "dlq.task.agent_crashed", "background-failed"},
    {"boot_failure", "dlq.agent.boot_failure", "background-failed"},
    {"pull_failure", "dlq.agent.pull_failure", "background-failed"},
    {"crash_loop", "dlq.agent.crash_loop", "background-failed"},
    {"retries_exhausted", "dlq.task.retries_exhausted", "retry-exhausted"},
    {"not_retryable", "dlq.task.not_retryable", "policy-blocked"},
    {"dependency_down", "dlq.task.dependency_down", "background-failed"},
    {"not_idempotent", "dlq.task.not_idempotent", "policy-blocked"},
    {"undeliverable", "dlq.task.undeliverable", "background-failed"},
    {"malformed", "dlq.task.malformed", "receipt-invalid"},
};

static void each_reason_has_its_subject_whatever_the_source(void **state)
{
    static const char *const sources[] = {"", "dispatch", "warren"};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
            struct slice subject = reason_subject(slice_of(table[i].reason), slice_of(sources[s]));
            assert_true(slice_is(subject, table[i].subject));
        }
    }
}

static void an_unknown_reason_of_warren_is_an_agents(void **state)
{
    (void)state;
    assert_true(slice_is(reason_subject(SLICE("sunspots"), SLICE("warren")), "dlq.agent.unknown"));
}

static void any_other_unknown_reason_is_a_tasks(void **state)
{
    static const char *const sources[] = {"", "dispatch", "Warren", "warren2"};

    (void)state;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
        assert_true(
            slice_is(reason_subject(SLICE("sunspots"), slice_of(sources[s])), "dlq.task.unknown"));
    assert_true(slice_is(reason_subject((struct slice){0}, (struct slice){0}), "dlq.task.unknown"));
    assert_true(slice_is(reason_subject(SLICE("malformed.>"), SLICE("x")), "dlq.task.unknown"));
}

static void each_reason_has_its_family(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(reason_family(slice_of(table[i].reason)), table[i].family);
    assert_string_equal(reason_family(SLICE("sunspots")), "unknown");
    assert_string_equal(reason_family((struct slice){0}), "unknown");
}

static void each_subject_tells_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_true(slice_is(reason_of_subject(slice_of(table[i].subject)), table[i].reason));
}

static void a_subject_of_no_table_tells_its_last_word(void **state)
{
    static const struct {
        const char *subject, *reason;
    } cases[] = {
        {"dlq.task.sunspots", "sunspots"},
        {"dlq.agent.moonlight", "moonlight"},
        {"dlq.task.unknown", ""},
        {"dlq.agent.unknown", ""},
        {"dlq.task.", ""},
        {"dlq.task.a.b", ""},
        {"dlq.other.word", ""},
        {"dlq", ""},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_true(slice_is(reason_of_subject(slice_of(cases[i].subject)), cases[i].reason));
}

static void a_subject_tells_who_publishes_under_it(void **state)
{
    (void)state;
    assert_true(slice_is(reason_source(SLICE("dlq.task.unassignable")), "dispatch"));
    assert_true(slice_is(reason_source(SLICE("dlq.task.anything.else")), "dispatch"));
    assert_true(slice_is(reason_source(SLICE("dlq.agent.crash_loop")), "warren"));
    assert_true(slice_is(reason_source(SLICE("dlq.agents")), ""));
    assert_true(slice_is(reason_source((struct slice){0}), ""));
}

static void a_reason_tells_what_kind_of_failure_it_stands_for(void **state)
{
    static const struct {
        const char *reason;
        enum failure_class class;
    } cases[] = {
        {"timeout_assigned", CLASS_TIMEOUT},
        {"timeout_in_progress", CLASS_TIMEOUT},
        {"all_agents_unavailable", CLASS_UNAVAILABLE},
        {"crash_loop", CLASS_CRASHED},
        {"policy_denied", CLASS_POLICY_VIOLATION},
        {"malformed", CLASS_MALFORMED_PAYLOAD},
        {"not_retryable", CLASS_INVALID_INPUT},
        {"retries_exhausted", CLASS_UNKNOWN},
        {"sunspots", CLASS_UNKNOWN},
        {"", CLASS_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(reason_class(slice_of(cases[i].reason)), cases[i].class);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_has_its_subject_whatever_the_source),
        cmocka_unit_test(an_unknown_reason_of_warren_is_an_agents),
        cmocka_unit_test(any_other_unknown_reason_is_a_tasks),
        cmocka_unit_test(each_reason_has_its_family),
        cmocka_unit_test(each_subject_tells_its_reason),
        cmocka_unit_test(a_subject_of_no_table_tells_its_last_word),
        cmocka_unit_test(a_subject_tells_who_publishes_under_it),
        cmocka_unit_test(a_reason_tells_what_kind_of_failure_it_stands_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
