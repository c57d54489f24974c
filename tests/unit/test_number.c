/* test_number: decimal text to integers and doubles, and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/buf.h"
#include "base/number.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void integers_are_read_in_every_spelling(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"0", 0},
        {"-0", 0},
        {"-0.0e-5", 0},
        {"0e99999999999999999999", 0},
        {"5", 5},
        {"5.0", 5},
        {"5e0", 5},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"100e-2", 1},
        {"-1.5e1", -15},
        {"0.001e3", 1},
        {"12.3400e2", 1234},
        {"0.00000000000000000000000000000000000000001e41", 1},
        {"10000000000000000000000000000000000000000e-40", 1},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775807.000", INT64_MAX},
        {"922337203685477580.7e1", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"-9.223372036854775808e18", INT64_MIN},
        {"1000000000000000000", 1000000000000000000},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t value = -1;
        if (!number_int(slice_of(rows[i].text), &value) || value != rows[i].value)
            fail_msg("%s is read as %lld", rows[i].text, (long long)value);
    }
}

static void what_is_no_integer_or_too_large_is_not_read_as_one(void **state)
{
    static const char *const rows[] = {
        "0.5",
        "1e-1",
        "5.00000000000000000000000000000000000001",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999",
        "1e19",
        "1e99999999999999999999999999",
        "1e-99999999999999999999999999",
        "123456789012345678901234567890",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t value = 77;
        if (number_int(slice_of(rows[i]), &value))
            fail_msg("%s is read as %lld", rows[i], (long long)value);
        assert_true(value == 77);
    }
}

static void doubles_are_the_nearest(void **state)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"0", 0},
        {"0.1", 0.1},
        {"-2.5e-3", -2.5e-3},
        {"1e-400", 0},
        {"1e-999999999999999999999", 0},
        {"4.9406564584124654e-324", 4.9406564584124654e-324},
        {"1.7976931348623157e308", DBL_MAX},
        {"9007199254740993", 9007199254740992},
        {"0e999999999999999999999", 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        double value = -1;
        if (!number_double(slice_of(rows[i].text), &value) || value != rows[i].value)
            fail_msg("%s is read as %.17g", rows[i].text, value);
    }
    double untouched = 5;
    assert_false(number_double(SLICE("1e309"), &untouched));
    assert_false(number_double(SLICE("-1e99999999999999999999999999"), &untouched));
    assert_true(untouched == 5);
}

/* repeated appends `unit`, `count` times. */
static void repeated(struct buf *buf, const char *unit, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_add_str(buf, unit);
}

static void numbers_of_any_length_are_read_exactly(void **state)
{
    struct buf text;
    double value;
    int64_t integer;
    (void)state;
    buf_init(&text, 1 << 20);

    /* Half-way between two doubles goes to the even one, and a digit far behind decides. */
    buf_add_str(&text, "9007199254740993.");
    repeated(&text, "0", 5000);
    assert_true(number_double(buf_slice(&text), &value));
    assert_true(value == 9007199254740992);
    assert_true(number_int(buf_slice(&text), &integer));
    assert_true(integer == 9007199254740993);
    buf_add_str(&text, "1");
    assert_true(number_double(buf_slice(&text), &value));
    assert_true(value == 9007199254740994);
    assert_false(number_int(buf_slice(&text), &integer));

    /* Many digits that an exponent takes away again. */
    buf_clear(&text);
    buf_add_str(&text, "-25");
    repeated(&text, "0", 100000);
    buf_add_str(&text, "e-100001");
    assert_true(number_double(buf_slice(&text), &value));
    assert_true(value == -2.5);
    assert_false(number_int(buf_slice(&text), &integer));

    buf_clear(&text);
    repeated(&text, "9", 100000);
    assert_false(number_double(buf_slice(&text), &value));
    buf_add_str(&text, "e-100000");
    assert_true(number_double(buf_slice(&text), &value));
    assert_true(value == 1.0);

    buf_clear(&text);
    buf_add_str(&text, "-0.");
    repeated(&text, "0", 100000);
    assert_true(number_double(buf_slice(&text), &value));
    assert_true(value == 0 && signbit(value));
    buf_release(&text);
}

static void doubles_are_written_short(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {0.1, "0.1"},
        {0.025, "0.025"},
        {-2.5, "-2.5"},
        {1e21, "1e+21"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {3600, "3600"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {5e-324, "5e-324"},
        {9007199254740992, "9007199254740992"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[NUMBER_TEXT_SIZE];
        size_t len = number_format(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(len, strlen(text));
    }
}

static void any_double_reads_back_as_it_was_written(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (int i = 0; i < 50000; i++) {
        double value, back;
        char text[NUMBER_TEXT_SIZE];
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = seed ^ seed >> 32;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        size_t len = number_format(value, text);
        assert_true(number_double((struct slice){text, len}, &back));
        assert_memory_equal(&back, &value, sizeof(value));
    }
}

/* The build makes the German locale, in which a number has a comma, and LOCPATH leads to it. */
static void the_locale_of_the_program_changes_nothing(void **state)
{
    char text[NUMBER_TEXT_SIZE];
    double value;
    (void)state;
    assert_non_null(setlocale(LC_ALL, "de_DE.UTF-8"));
    assert_string_equal(localeconv()->decimal_point, ",");
    number_format(1.5, text);
    bool read = number_double(SLICE("1.5"), &value);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "1.5");
    assert_true(read && value == 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_in_every_spelling),
        cmocka_unit_test(what_is_no_integer_or_too_large_is_not_read_as_one),
        cmocka_unit_test(doubles_are_the_nearest),
        cmocka_unit_test(numbers_of_any_length_are_read_exactly),
        cmocka_unit_test(doubles_are_written_short),
        cmocka_unit_test(any_double_reads_back_as_it_was_written),
        cmocka_unit_test(the_locale_of_the_program_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
