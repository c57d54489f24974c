/* test_expose: the text format of Prometheus, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/expose.h"
#include "api/process.h"

static int setup(void **state)
{
    static struct buf out;
    buf_init(&out, 1 << 20);
    *state = &out;
    return 0;
}

static int teardown(void **state)
{
    buf_release(*state);
    return 0;
}

static void a_family_says_what_it_is_and_then_its_samples(void **state)
{
    struct expose expose = {.out = *state};
    expose_family(&expose, "jobs", "gauge", "Jobs.");
    expose_int(&expose, 5, EXPOSE_PLAIN);
    expose_int(&expose, -7, EXPOSE_LABELS({"queue", SLICE("mail")}, {"state", SLICE("pending")}));
    expose_family(&expose, "age", "gauge", "Age.");
    expose_double(&expose, 0.25, EXPOSE_LABELS({"queue", SLICE("")}));
    assert_string_equal(buf_str(*state), "# HELP jobs Jobs.\n"
                                         "# TYPE jobs gauge\n"
                                         "jobs 5\n"
                                         "jobs{queue=\"mail\",state=\"pending\"} -7\n"
                                         "# HELP age Age.\n"
                                         "# TYPE age gauge\n"
                                         "age{queue=\"\"} 0.25\n");
}

static void a_value_of_a_label_is_escaped(void **state)
{
    struct expose expose = {.out = *state, .name = "x"};
    expose_int(&expose, 1, EXPOSE_LABELS({"l", SLICE("a\\b\"c\nd\t{},é")}));
    assert_string_equal(buf_str(*state), "x{l=\"a\\\\b\\\"c\\nd\t{},é\"} 1\n");
}

static void a_histogram_is_cumulative_and_ends_with_everything(void **state)
{
    struct expose expose = {.out = *state, .name = "s"};
    const double bounds[] = {0.001, 1, 10};
    const uint64_t counts[] = {2, 0, 3};
    expose_histogram(&expose, bounds, counts, 3, 4, 12.5);
    assert_string_equal(buf_str(*state), "s_bucket{le=\"0.001\"} 2\n"
                                         "s_bucket{le=\"1\"} 2\n"
                                         "s_bucket{le=\"10\"} 5\n"
                                         "s_bucket{le=\"+Inf\"} 9\n"
                                         "s_sum 12.5\n"
                                         "s_count 9\n");
}

static void the_process_is_known_to_the_system(void **state)
{
    (void)state;
    struct process_numbers first, second;
    process_read(&first);
    process_read(&second);
    assert_true(first.resident_bytes > 100000);
    assert_true(first.open_fds >= 3);
    assert_int_equal(first.open_fds, second.open_fds); /* the look leaves nothing open */
    /* It started before this moment, and not long ago: within the hour that a test may take. */
    double now = (double)time(NULL);
    assert_true(first.start_seconds <= now + 1 && first.start_seconds > now - 3600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_family_says_what_it_is_and_then_its_samples, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_value_of_a_label_is_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_histogram_is_cumulative_and_ends_with_everything, setup,
                                        teardown),
        cmocka_unit_test(the_process_is_known_to_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
