/* Exact comparison of JSON numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/decimal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int compare(const char *a, const char *b)
{
    int order = decimal_compare(slice_of(a), slice_of(b));

    return (order > 0) - (order < 0);
}

static void one_value_written_in_many_ways_is_equal(void **state)
{
    static const char *const cases[][2] = {
        {"0", "-0"},
        {"0", "0.000e99"},
        {"1", "1.0"},
        {"1", "10e-1"},
        {"1", "0.001E+3"},
        {"-150", "-1.5e2"},
        {"1.10", "1.1"},
        {"100", "1e2"},
        {"0.05", "5e-2"},
        {"123456789012345678901234567890", "1.2345678901234567890123456789e29"},
        {"1e100000000000000000", "10e99999999999999999"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(compare(cases[i][0], cases[i][1]), 0);
        assert_int_equal(compare(cases[i][1], cases[i][0]), 0);
    }
}

static void numbers_are_ordered_by_value(void **state)
{
    /* Each is less than the next. */
    static const char *const rising[] = {
        "-1e400",
        "-9007199254740993",
        "-9007199254740992",
        "-2",
        "-1.5",
        "-1.25",
        "-1e-400",
        "0",
        "1e-99999999999999999999",
        "1e-400",
        "0.1",
        "0.10000000000000000000000000001",
        "0.9",
        "1",
        "1.01",
        "9",
        "10",
        "99",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.5",
        "1e400",
        "2e400",
        "1e99999999999999999999",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rising); i++)
        for (size_t j = 0; j < COUNT(rising); j++)
            if (compare(rising[i], rising[j]) != (i > j) - (i < j))
                fail_msg("%s and %s", rising[i], rising[j]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_written_in_many_ways_is_equal),
        cmocka_unit_test(numbers_are_ordered_by_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
