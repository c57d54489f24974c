/* test_time: arithmetic that saturates, and RFC 3339 both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/time.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SECOND INT64_C(1000000)
#define FIRST (INT64_C(-62135596800) * SECOND)
#define LAST (INT64_C(253402300800) * SECOND - 1)

static void arithmetic_saturates(void **state)
{
    static const struct {
        int64_t t, span, sum;
    } adds[] = {
        {1, 2, 3},
        {INT64_MAX, 1, INT64_MAX},
        {INT64_MAX - 1, INT64_MAX, INT64_MAX},
        {INT64_MIN, -1, INT64_MIN},
        {INT64_MIN, INT64_MAX, -1},
        {-5, INT64_MIN, INT64_MIN},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(adds); i++) {
        struct instant sum = instant_add((struct instant){adds[i].t}, (struct span){adds[i].span});
        assert_true(sum.us == adds[i].sum);
    }
    assert_true(instant_since((struct instant){5}, (struct instant){7}).us == -2);
    assert_true(instant_since(INSTANT_NEVER, (struct instant){-1}).us == INT64_MAX);
    assert_true(instant_since((struct instant){INT64_MIN}, (struct instant){1}).us == INT64_MIN);
    assert_true(span_ms(INT64_MAX).us == INT64_MAX);
    assert_true(span_seconds(INT64_MIN).us == INT64_MIN);
    assert_true(span_ms(-25).us == -25000);
}

static void seconds_become_spans_rounded_and_bounded(void **state)
{
    const int64_t century_us = INT64_C(36525) * 86400 * SECOND;
    const struct {
        double seconds;
        int64_t us;
    } rows[] = {
        {0, 0},
        {-0.0, 0},
        {0.025, 25000},
        {5, 5 * SECOND},
        {0.0000014, 1},
        {0.0000016, 2},
        {3600.5, 3600500000},
        {-1, 0},
        {1e300, century_us},
        {3155760000.0, century_us},
        {3155759999.0, century_us - SECOND},
        {(double)INFINITY, century_us},
        {(double)NAN, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_true(span_from_seconds(rows[i].seconds).us == rows[i].us);
    assert_true(span_to_seconds(span_ms(1500)) == 1.5);
}

static const struct {
    int64_t us;
    const char *text;
} formats[] = {
    {0, "1970-01-01T00:00:00Z"},
    {1, "1970-01-01T00:00:00.000001Z"},
    {-1, "1969-12-31T23:59:59.999999Z"},
    {-1000, "1969-12-31T23:59:59.999Z"},
    {1770963720 * SECOND, "2026-02-13T06:22:00Z"},
    {1770963720 * SECOND + 120000, "2026-02-13T06:22:00.120Z"},
    {1770963720 * SECOND + 120001, "2026-02-13T06:22:00.120001Z"},
    {951782399 * SECOND, "2000-02-28T23:59:59Z"},
    {951782400 * SECOND, "2000-02-29T00:00:00Z"},
    {INT64_C(4107542400) * SECOND, "2100-03-01T00:00:00Z"},
    {INT64_C(-2203891200) * SECOND, "1900-03-01T00:00:00Z"},
    {FIRST, "0001-01-01T00:00:00Z"},
    {LAST, "9999-12-31T23:59:59.999999Z"},
};

static void known_times_are_written_and_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(formats); i++) {
        char text[INSTANT_TEXT_SIZE];
        struct instant back;
        instant_format((struct instant){formats[i].us}, text);
        assert_string_equal(text, formats[i].text);
        assert_int_equal(instant_parse(slice_of(text), &back, NULL), STATUS_OK);
        assert_true(back.us == formats[i].us);
    }
}

static void times_outside_the_calendar_are_written_as_its_ends(void **state)
{
    static const int64_t before[] = {FIRST - 1, INT64_MIN}, after[] = {LAST + 1, INT64_MAX};
    char text[INSTANT_TEXT_SIZE];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        instant_format((struct instant){before[i]}, text);
        assert_string_equal(text, "0001-01-01T00:00:00Z");
        instant_format((struct instant){after[i]}, text);
        assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
    }
}

static void every_spelling_of_a_time_is_read(void **state)
{
    static const struct {
        const char *text, *same_as;
    } rows[] = {
        {"2026-02-13t06:22:00z", "2026-02-13T06:22:00Z"},
        {"2026-02-13 06:22:00Z", "2026-02-13T06:22:00Z"},
        {"2026-02-13T08:22:00+02:00", "2026-02-13T06:22:00Z"},
        {"2026-02-12T19:07:00-11:15", "2026-02-13T06:22:00Z"},
        {"2026-02-13T06:22:00-00:00", "2026-02-13T06:22:00Z"},
        {"2026-02-13T06:22:00.1Z", "2026-02-13T06:22:00.100Z"},
        {"2026-02-13T06:22:00.123456789Z", "2026-02-13T06:22:00.123456Z"},
        {"2026-02-13T06:22:00.0000009999999999999999999999999Z", "2026-02-13T06:22:00Z"},
        {"2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
        {"2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.500Z"},
        {"2016-12-31T15:59:60-08:00", "2017-01-01T00:00:00Z"},
        {"2017-01-01T05:29:60+05:30", "2017-01-01T00:00:00Z"},
        {"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
        {"0001-01-01T00:00:00-23:59", "0001-01-01T23:59:00Z"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct instant t;
        struct err err = {0};
        char text[INSTANT_TEXT_SIZE];
        if (instant_parse(slice_of(rows[i].text), &t, &err) != STATUS_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        instant_format(t, text);
        assert_string_equal(text, rows[i].same_as);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const struct slice rows[] = {
        {"", 0},
        {"2026", 4},
        {"2026-02-13", 10},
        {"2026-02-13T06:22:00", 19},
        {"2026-02-13T06:22Z", 17},
        {"2026-02-13T06:22:00Z ", 21},
        {" 2026-02-13T06:22:00Z", 21},
        {"2026-02-13T06:22:00.Z", 21},
        {"2026-02-13T06:22:00,5Z", 22},
        {"2026-02-13\0"
         "06:22:00Z",
         20},
        {"2026-02-13T06:22:00Z\0", 21},
        {"2026-02-13T06:22:00+0200", 24},
        {"2026-02-13T06:22:00+24:00", 25},
        {"2026-02-13T06:22:00+02:60", 25},
        {"+026-02-13T06:22:00Z", 20},
        {"2026-02-30T00:00:00Z", 20},
        {"2026-02-29T00:00:00Z", 20},
        {"1900-02-29T00:00:00Z", 20},
        {"2026-13-01T00:00:00Z", 20},
        {"2026-00-01T00:00:00Z", 20},
        {"2026-04-31T00:00:00Z", 20},
        {"2026-04-00T00:00:00Z", 20},
        {"2026-02-13T24:00:00Z", 20},
        {"2026-02-13T23:60:00Z", 20},
        {"2026-02-13T23:59:61Z", 20},
        {"2026-02-13T12:00:60Z", 20},
        {"2016-12-31T23:59:60+01:00", 25},
        {"0000-12-31T00:00:00Z", 20},
        {"0001-01-01T00:00:00+00:01", 25},
        {"9999-12-31T23:59:60Z", 20},
        {"9999-12-31T23:59:59-00:01", 25},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct instant t = {42};
        struct err err = {0};
        if (instant_parse(rows[i], &t, &err) != STATUS_INVALID)
            fail_msg("%s is accepted", rows[i].ptr);
        assert_true(t.us == 42);
        assert_memory_equal(err.text, "not a time", strlen("not a time"));
    }
}

static void any_time_reads_back_as_it_was_written(void **state)
{
    uint64_t seed = 3;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct instant t = {FIRST + (int64_t)((seed >> 1) % (uint64_t)(LAST - FIRST + 1))}, back;
        if (i % 3 == 0)
            t.us -= t.us % SECOND;
        char text[INSTANT_TEXT_SIZE];
        instant_format(t, text);
        assert_int_equal(instant_parse(slice_of(text), &back, NULL), STATUS_OK);
        assert_true(back.us == t.us);
    }
}

static void the_days_of_four_centuries_follow_each_other(void **state)
{
    char last[INSTANT_TEXT_SIZE] = "", text[INSTANT_TEXT_SIZE];
    (void)state;
    for (int64_t day = 0; day < 146097; day++) {
        struct instant t = {INT64_C(946684800) * SECOND + day * 86400 * SECOND}, back;
        instant_format(t, text);
        assert_true(strcmp(last, text) < 0);
        assert_int_equal(instant_parse(slice_of(text), &back, NULL), STATUS_OK);
        assert_true(back.us == t.us);
        memcpy(last, text, sizeof(last));
    }
    assert_string_equal(text, "2399-12-31T00:00:00Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_saturates),
        cmocka_unit_test(seconds_become_spans_rounded_and_bounded),
        cmocka_unit_test(known_times_are_written_and_read),
        cmocka_unit_test(times_outside_the_calendar_are_written_as_its_ends),
        cmocka_unit_test(every_spelling_of_a_time_is_read),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(any_time_reads_back_as_it_was_written),
        cmocka_unit_test(the_days_of_four_centuries_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
