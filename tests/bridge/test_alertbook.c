/* What is said at once, what is counted, and when: the book alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bridge/alertbook.h"

#define DAY INT64_C(1770963720)

/* struct bench: a book and its time, in seconds since the beginning. */
struct bench {
    struct alertbook *book;
    struct arena arena;
    int64_t now, seq;
};

static int set_up(void **state)
{
    static struct bench bench;
    bench = (struct bench){.book = alertbook_new()};
    assert_non_null(bench.book);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    alertbook_free(bench->book);
    arena_release(&bench->arena);
    return 0;
}

static struct instant at(int64_t second)
{
    return (struct instant){(DAY + second) * 1000000};
}

static void note_as(struct bench *bench, const char *group, bool going_on)
{
    bench->seq++;
    struct alertbook_death death = {
        .fingerprint = slice_of(group),
        .signature = SLICE("Timeout::no answer"),
        .reason = SLICE("retries_exhausted"),
        .source = SLICE("s"),
        .queue = SLICE("q"),
        .dlq_id = arena_printf(&bench->arena, "%s-%lld", group, (long long)bench->seq),
        .at = at(bench->now),
        .seq = bench->seq};
    alertbook_note(bench->book, &death, span_seconds(bench->now), going_on);
}

static void note(struct bench *bench, const char *group)
{
    note_as(bench, group, false);
}

/* firsts is what is to be said at once, as "group:seq ...", and is then said. */
static const char *firsts(struct bench *bench)
{
    struct alertbook_first list[ALERTBOOK_FIRSTS_MAX];
    struct slice text = SLICE("");
    size_t count = alertbook_firsts(bench->book, list);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list[i].group.count, 1);
        assert_int_equal(list[i].group.first_seen.us, list[i].group.last_seen.us);
        text = arena_printf(&bench->arena, "%.*s%s%.*s:%lld", SLICE_ARG(text), i ? " " : "",
                            SLICE_ARG(list[i].group.fingerprint), (long long)list[i].seq);
    }
    alertbook_firsts_said(bench->book);
    return text.ptr;
}

/* digest is what is counted, as "group=count ... +groups/letters of total", and is then said. */
static const char *digest(struct bench *bench)
{
    struct alert alert;
    struct slice text = SLICE("");
    assert_true(alertbook_digest(bench->book, &bench->arena, &alert));
    for (size_t i = 0; i < alert.group_count; i++)
        text =
            arena_printf(&bench->arena, "%.*s%.*s=%lld ", SLICE_ARG(text),
                         SLICE_ARG(alert.groups[i].fingerprint), (long long)alert.groups[i].count);
    text = arena_printf(&bench->arena, "%.*s+%zu/%lld of %lld", SLICE_ARG(text), alert.more_groups,
                        (long long)alert.more_letters, (long long)alert.total);
    alertbook_digest_said(bench->book);
    return text.ptr;
}

static void the_first_of_each_group_is_said_and_the_rest_counted(void **state)
{
    struct bench *bench = *state;
    note(bench, "a");
    note(bench, "a");
    note(bench, "b");
    note(bench, "a");
    assert_string_equal(firsts(bench), "a:1 b:3");
    assert_string_equal(firsts(bench), "");
    assert_string_equal(digest(bench), "a=2 +0/0 of 2");
    assert_int_equal(alertbook_due(bench->book).us, INT64_MAX);
}

static void a_digest_is_due_half_a_minute_after_what_it_counts(void **state)
{
    struct bench *bench = *state;
    note(bench, "a");
    firsts(bench);
    assert_int_equal(alertbook_due(bench->book).us, INT64_MAX);
    bench->now = 100;
    note(bench, "a");
    bench->now = 120;
    note(bench, "a");
    assert_int_equal(alertbook_due(bench->book).us, span_seconds(130).us);
    assert_string_equal(digest(bench), "a=2 +0/0 of 2");
    bench->now = 131;
    note(bench, "a");
    assert_int_equal(alertbook_due(bench->book).us, span_seconds(161).us);
}

static void a_group_that_was_quiet_or_resolved_begins_anew(void **state)
{
    struct bench *bench = *state;
    note(bench, "a");
    firsts(bench);
    bench->now += ALERTBOOK_QUIET_SECONDS - 1;
    note(bench, "a");
    assert_string_equal(firsts(bench), "");
    bench->now += ALERTBOOK_QUIET_SECONDS;
    note(bench, "a");
    assert_string_equal(firsts(bench), "a:3");
    alertbook_resolved(bench->book, SLICE("a"));
    note(bench, "a");
    note(bench, "a");
    assert_string_equal(firsts(bench), "a:4");
    /* What was counted before is not forgotten by that. */
    assert_string_equal(digest(bench), "a=2 +0/0 of 2");
}

static void a_group_that_somebody_else_said_goes_on(void **state)
{
    struct bench *bench = *state;
    note_as(bench, "a", true);
    note_as(bench, "a", false);
    assert_string_equal(firsts(bench), "");
    assert_string_equal(digest(bench), "a=2 +0/0 of 2");
}

static void an_ignored_group_is_not_said(void **state)
{
    struct bench *bench = *state;
    alertbook_ignore(bench->book, SLICE("a"), true);
    assert_int_equal(alertbook_standing(bench->book, SLICE("a"), at(0)), ALERTBOOK_IGNORED);
    note(bench, "a");
    assert_string_equal(firsts(bench), "");
    assert_int_equal(alertbook_due(bench->book).us, INT64_MAX);
    alertbook_ignore(bench->book, SLICE("a"), false);
    note(bench, "a");
    assert_string_equal(firsts(bench), "a:2");
}

static void many_beginnings_at_once_are_counted(void **state)
{
    struct bench *bench = *state;
    char name[32];
    for (int i = 0; i < ALERTBOOK_FIRSTS_MAX + 3; i++) {
        snprintf(name, sizeof(name), "g%02d", i);
        note(bench, name);
    }
    assert_string_equal(firsts(bench),
                        "g00:1 g01:2 g02:3 g03:4 g04:5 g05:6 g06:7 g07:8 g08:9 g09:10");
    note(bench, "late");
    assert_string_equal(firsts(bench), "");
    assert_string_equal(digest(bench), "g10=1 g11=1 g12=1 late=1 +0/0 of 4");
    /* In the next window others may begin. */
    bench->now = ALERTBOOK_WINDOW_SECONDS;
    note(bench, "next");
    assert_string_equal(firsts(bench), "next:15");
}

static void beginnings_that_were_not_said_still_count_in_the_next_window(void **state)
{
    struct bench *bench = *state;
    char name[32];
    for (int i = 0; i < ALERTBOOK_FIRSTS_MAX; i++) {
        snprintf(name, sizeof(name), "g%02d", i);
        note(bench, name);
    }
    bench->now = ALERTBOOK_WINDOW_SECONDS;
    note(bench, "next");
    assert_string_equal(digest(bench), "next=1 +0/0 of 1");
    firsts(bench);
    bench->now = 2 * ALERTBOOK_WINDOW_SECONDS;
    note(bench, "other");
    assert_string_equal(firsts(bench), "other:12");
}

static void the_largest_groups_are_named(void **state)
{
    struct bench *bench = *state;
    char name[32];
    for (int i = 0; i < ALERT_GROUPS_MAX + 20; i++) {
        snprintf(name, sizeof(name), "g%02d", i);
        for (int k = 0; k < (i == 60 ? 3 : 2); k++)
            note(bench, name);
    }
    struct alert alert;
    assert_true(alertbook_digest(bench->book, &bench->arena, &alert));
    assert_int_equal(alert.group_count, ALERT_GROUPS_MAX);
    assert_true(slice_is(alert.groups[0].fingerprint, "g60"));
    assert_int_equal(alert.groups[0].count, 3);
    assert_int_equal(alert.more_groups, 20);
    int64_t named = 0;
    for (size_t i = 0; i < alert.group_count; i++)
        named += alert.groups[i].count;
    assert_int_equal(named + alert.more_letters, alert.total);
    assert_int_equal(alert.total, 2 * (ALERT_GROUPS_MAX + 20) + 1 - ALERTBOOK_FIRSTS_MAX);
}

static void more_groups_than_there_is_room_for_are_counted_without_a_name(void **state)
{
    struct bench *bench = *state;
    char name[32];
    const int64_t extra = 50;
    for (int i = 0; i < ALERTBOOK_GROUPS_MAX + extra; i++) {
        snprintf(name, sizeof(name), "g%d", i);
        note(bench, name);
    }
    struct alert alert;
    assert_true(alertbook_digest(bench->book, &bench->arena, &alert));
    assert_int_equal(alert.total, ALERTBOOK_GROUPS_MAX + extra - ALERTBOOK_FIRSTS_MAX);
    int64_t named = 0;
    for (size_t i = 0; i < alert.group_count; i++)
        named += alert.groups[i].count;
    assert_int_equal(named + alert.more_letters, alert.total);
    alertbook_digest_said(bench->book);
    firsts(bench);
    /* Those that have nothing to be said of make room. */
    bench->now = ALERTBOOK_WINDOW_SECONDS;
    note(bench, "another");
    note(bench, "another");
    assert_string_equal(firsts(bench), "another:1051");
    assert_string_equal(digest(bench), "another=1 +0/0 of 1");
}

static void what_is_unsaid_is_known_by_its_event(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(alertbook_unsaid(bench->book), 0);
    note(bench, "a");
    assert_int_equal(alertbook_unsaid(bench->book), 1);
    note(bench, "a");
    note(bench, "b");
    firsts(bench);
    assert_int_equal(alertbook_unsaid(bench->book), 2);
    note(bench, "c");
    assert_int_equal(alertbook_unsaid(bench->book), 2);
    digest(bench);
    assert_int_equal(alertbook_unsaid(bench->book), 4);
    firsts(bench);
    assert_int_equal(alertbook_unsaid(bench->book), 0);
}

static void texts_that_are_too_long_are_cut(void **state)
{
    struct bench *bench = *state;
    static char longest[4096];
    memset(longest, 'x', sizeof(longest));
    struct slice text = {longest, sizeof(longest)};
    struct alertbook_death death = {text, text, text, text, text, text, at(0), 1};
    struct alertbook_first first[ALERTBOOK_FIRSTS_MAX];
    alertbook_note(bench->book, &death, span_seconds(0), false);
    assert_int_equal(alertbook_firsts(bench->book, first), 1);
    assert_in_range(first[0].group.signature.len, 240, 1024);
    assert_in_range(first[0].group.sample_dlq_id.len, 200, 200);
    assert_int_equal(alertbook_standing(bench->book, text, at(0)), ALERTBOOK_GOES_ON);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_of_each_group_is_said_and_the_rest_counted),
        TEST(a_digest_is_due_half_a_minute_after_what_it_counts),
        TEST(a_group_that_was_quiet_or_resolved_begins_anew),
        TEST(a_group_that_somebody_else_said_goes_on),
        TEST(an_ignored_group_is_not_said),
        TEST(many_beginnings_at_once_are_counted),
        TEST(beginnings_that_were_not_said_still_count_in_the_next_window),
        TEST(the_largest_groups_are_named),
        TEST(more_groups_than_there_is_room_for_are_counted_without_a_name),
        TEST(what_is_unsaid_is_known_by_its_event),
        TEST(texts_that_are_too_long_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
