/* The job's state machine: every pair of state and move, by value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/job.h"

#define NONE ((enum job_state)JOB_STATE_NONE)

static void every_move_leads_where_the_diagram_says(void **state)
{
    static const enum job_state expected[JOB_STATE_COUNT][MOVE_COUNT] = {
        /* due, lease, release, complete, retry, quarantine, cancel, requeue */
        [JOB_PENDING] = {NONE, JOB_RUNNING, NONE, NONE, JOB_SCHEDULED, JOB_DEAD, JOB_CANCELLED,
                         NONE},
        [JOB_SCHEDULED] = {JOB_PENDING, NONE, NONE, NONE, NONE, NONE, JOB_CANCELLED, NONE},
        [JOB_RUNNING] = {NONE, NONE, JOB_PENDING, JOB_DONE, JOB_SCHEDULED, JOB_DEAD, JOB_CANCELLED,
                         NONE},
        [JOB_DONE] = {NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE},
        [JOB_CANCELLED] = {NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE},
        [JOB_DEAD] = {NONE, NONE, NONE, NONE, NONE, NONE, NONE, JOB_PENDING},
    };

    (void)state;
    for (int from = 0; from < JOB_STATE_COUNT; from++) {
        for (int move = 0; move < MOVE_COUNT; move++)
            assert_int_equal(job_next((enum job_state)from, (enum job_move)move),
                             expected[from][move]);
    }
}

static void only_pending_scheduled_and_running_jobs_are_live(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATE_COUNT; s++)
        assert_int_equal(job_is_live((enum job_state)s),
                         s == JOB_PENDING || s == JOB_SCHEDULED || s == JOB_RUNNING);
}

static void state_names_are_those_of_the_contract_and_read_back(void **state)
{
    static const char *const names[] = {"pending", "scheduled", "running",
                                        "done",    "cancelled", "dead"};
    enum job_state read;

    (void)state;
    for (int s = 0; s < JOB_STATE_COUNT; s++) {
        assert_string_equal(job_state_name((enum job_state)s), names[s]);
        assert_true(job_state_from_name(slice_of(names[s]), &read));
        assert_int_equal(read, s);
    }
}

static void a_word_that_is_no_state_is_refused(void **state)
{
    static const char *const words[] = {"", "Pending", "pendin", "pendingg", "none"};
    enum job_state read = JOB_DEAD;

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_false(job_state_from_name(slice_of(words[i]), &read));
    assert_false(job_state_from_name((struct slice){"dead\0", 5}, &read));
    assert_int_equal(read, JOB_DEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_move_leads_where_the_diagram_says),
        cmocka_unit_test(only_pending_scheduled_and_running_jobs_are_live),
        cmocka_unit_test(state_names_are_those_of_the_contract_and_read_back),
        cmocka_unit_test(a_word_that_is_no_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
