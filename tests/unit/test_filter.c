/* Filters: what matches what, how expressions are read, and every refusal with its column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "core/filter.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static const struct filter *parsed(const char *text)
{
    const struct filter *filter;
    struct err err = {0};

    if (filter_parse(slice_of(text), &arena, &filter, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return filter;
}

static struct json json_of(const char *text)
{
    struct json json;

    assert_int_equal(json_parse(slice_of(text), &json, NULL), STATUS_OK);
    return json;
}

/* The item and the letter that most cases ask about: the map system's example. */
static const char item_text[] =
    "{\"file\":\"src/main.rs\",\"priority\":5,\"score\":0.5,\"big\":9007199254740993,"
    "\"ok\":true,\"off\":false,\"none\":null,\"tags\":[\"a\",\"b c\",1,null,true],"
    "\"deep\":{\"list\":[{\"name\":\"x\"},{\"name\":\"y\"}],\"x y\":1},"
    "\"esc\":\"caf\\u00e9 \\\"q\\\" \\uD83D\\uDE00\",\"my-key\":1,\"emp\\u0074y\":\"\"}";

static struct letter letter_example(void)
{
    return (struct letter){.eligible = true,
                           .failure_count = 3,
                           .signature = SLICE("CommandFailed::cargo test failed with exit"),
                           .error_type = SLICE("CommandFailed"),
                           .reason = SLICE("retries_exhausted"),
                           .fingerprint = SLICE("0123456789abcdef")};
}

struct match_case {
    const char *filter;
    bool matches;
};

static void assert_matches(const struct match_case *cases, size_t count)
{
    struct letter letter = letter_example();

    for (size_t i = 0; i < count; i++)
        if (filter_match(parsed(cases[i].filter), json_of(item_text), &letter) != cases[i].matches)
            fail_msg("%s", cases[i].filter);
}

static void items_are_compared_by_value(void **state)
{
    static const struct match_case cases[] = {
        {"item.priority == 5", true},
        {"item.priority == 5.0", true},
        {"item.priority == 50e-1", true},
        {"item.priority != 5", false},
        {"item.priority > 4", true},
        {"item.priority > 5", false},
        {"item.priority >= 5", true},
        {"item.priority < 5.1", true},
        {"item.priority <= 4.9", false},
        {"item.priority > -10", true},
        {"item.score == 0.5", true},
        {"item.big == 9007199254740993", true},
        {"item.big > 9007199254740992", true},
        {"item.file == 'src/main.rs'", true},
        {"item.file == \"src/main.rs\"", true},
        {"item.file != 'other'", true},
        {"item.file > 'src/main'", true},
        {"item.file < 'src/main.rt'", true},
        {"item.file >= 'src/main.rs'", true},
        {"item.ok == true", true},
        {"item.ok != false", true},
        {"item.off == false", true},
        {"item.none == null", true},
        {"item.empty == ''", true},
        {"item.esc == 'caf\xC3\xA9 \"q\" \xF0\x9F\x98\x80'", true},
        {"item.esc > 'caf\xC3\xA9 \"q'", true},
        {"item.esc < 'cafz'", false}, /* bytewise */
        {"item.my-key == 1", true},
    };

    (void)state;
    assert_matches(cases, COUNT(cases));
}

static void paths_lead_into_items(void **state)
{
    static const struct match_case cases[] = {
        {"item.deep.list[0].name == 'x'", true},
        {"item.deep.list[1].name == \"y\"", true},
        {"item.deep[\"x y\"] == 1", true},
        {"item['deep']['x y'] == 1", true},
        {"item.deep.list[ 1 ].name == 'y'", true},
        {"item.deep.list[2].name == null", true},
        {"item.deep.list[99999999999999999999] == null", true},
        {"item.deep.list[0][0] == null", true},
        {"item.file.x == null", true},
        {"item[0] == null", true},
        {"item == null", false},
    };

    (void)state;
    assert_matches(cases, COUNT(cases));
    assert_true(filter_match(parsed("item == 'one line'"), json_of("\"one line\""), NULL));
    assert_true(filter_match(parsed("item > 2"), json_of("3"), NULL));
}

static void what_is_missing_or_of_another_type_is_unequal_and_unordered(void **state)
{
    static const struct match_case cases[] = {
        {"item.nope == null", true},     {"item.nope != null", false},
        {"item.nope == 5", false},       {"item.nope != 5", true},
        {"item.nope > 0", false},        {"item.nope < 0", false},
        {"item.nope >= null", false},    {"item.nope <= null", false},
        {"item.priority == '5'", false}, {"item.priority != '5'", true},
        {"item.priority < '9'", false},  {"item.file > 1", false},
        {"item.ok == 1", false},         {"item.ok > false", false},
        {"item.off == null", false},     {"item.none == false", false},
        {"item.deep == null", false},    {"item.tags == null", false},
        {"item.tags == 'a'", false},
    };

    (void)state;
    assert_matches(cases, COUNT(cases));
}

static void contains_looks_into_texts_and_arrays(void **state)
{
    static const struct match_case cases[] = {
        {"item.file contains 'main'", true},
        {"item.file contains 'src/main.rs'", true},
        {"item.file contains 'src/main.rs.'", false},
        {"item.file contains ''", true},
        {"item.empty contains ''", true},
        {"item.empty contains 'a'", false},
        {"item.file contains 'Main'", false},
        {"item.esc contains '\xC3\xA9 \"q'", true},
        {"item.esc contains '\xF0\x9F\x98\x80'", true},
        {"item.esc contains 'u00e9'", false},
        {"item.tags contains 'a'", true},
        {"item.tags contains 'b c'", true},
        {"item.tags contains 'b'", false},
        {"item.tags contains 1.0", true},
        {"item.tags contains null", true},
        {"item.tags contains true", true},
        {"item.tags contains false", false},
        {"item.priority contains 5", false},
        {"item.file contains 5", false},
        {"item.nope contains 'a'", false},
        {"error_signature contains 'cargo test'", true},
    };

    (void)state;
    assert_matches(cases, COUNT(cases));
}

static void contains_finds_what_overlaps_itself(void **state)
{
    (void)state;
    assert_true(filter_match(parsed("item contains 'aab'"), json_of("\"aaaab\""), NULL));
    assert_true(filter_match(parsed("item contains 'abab!'"), json_of("\"abababab!\""), NULL));
    assert_true(filter_match(parsed("item contains 'aabaaac'"), json_of("\"aabaabaaac\""), NULL));
    assert_false(filter_match(parsed("item contains 'aabaaad'"), json_of("\"aabaabaaac\""), NULL));
    assert_true(
        filter_match(parsed("item contains 'a\\nb'"), json_of("\"\\u0061\\u000ab\""), NULL));
}

static void letters_have_fields_of_their_own(void **state)
{
    static const struct match_case cases[] = {
        {"reprocess_eligible", true},
        {"!reprocess_eligible", false},
        {"reprocess_eligible == true", true},
        {"failure_count >= 3", true},
        {"failure_count > 3", false},
        {"failure_count == 3.0", true},
        {"error_type == 'CommandFailed'", true},
        {"error_signature == 'CommandFailed::cargo test failed with exit'", true},
        {"reason != 'retries_exhausted'", false},
        {"fingerprint == '0123456789abcdef'", true},
        {"item.reason == null", true},
    };
    static const struct match_case without[] = {
        {"reprocess_eligible", false}, {"failure_count > 0", false},
        {"reason == null", true},      {"error_type == 'CommandFailed'", false},
        {"failure_count != 3", true},
    };

    (void)state;
    assert_matches(cases, COUNT(cases));
    for (size_t i = 0; i < COUNT(without); i++)
        assert_int_equal(filter_match(parsed(without[i].filter), json_of("{}"), NULL),
                         without[i].matches);
}

static void expressions_join_in_the_usual_order(void **state)
{
    static const struct match_case cases[] = {
        {"item.ok", true},
        {"item.off", false},
        {"item.file", false}, /* a field alone must be true */
        {"item.ok && item.off", false},
        {"item.ok || item.off", true},
        {"item.ok || item.ok && item.off", true},
        {"(item.ok || item.ok) && item.off", false},
        {"item.off && item.off || item.ok", true},
        {"!item.off", true},
        {"!!item.ok", true},
        {"!(item.ok && item.off)", true},
        {"!item.priority == 5", false}, /* !(item.priority == 5) */
        {"! item.off && item.ok", true},
        {"((item.priority>4))&&(failure_count<9)", true},
        {"item.priority>4&&item.file contains 'main'||item.off", true},
        {"\t item.ok\n&& item.ok ", true},
        {"item.off || item.off || item.off || item.ok", true},
        {"item.ok && item.ok && item.ok && item.off", false},
    };

    (void)state;
    assert_matches(cases, COUNT(cases));
}

static void strings_have_escapes(void **state)
{
    (void)state;
    assert_true(filter_match(parsed("item == 'it\\'s'"), json_of("\"it's\""), NULL));
    assert_true(filter_match(parsed("item == \"a\\\"b\""), json_of("\"a\\\"b\""), NULL));
    assert_true(filter_match(parsed("item == 'a\"b'"), json_of("\"a\\\"b\""), NULL));
    assert_true(filter_match(parsed("item == 'C:\\\\x'"), json_of("\"C:\\\\x\""), NULL));
    assert_true(filter_match(parsed("item == '\\n\\r\\t\\b\\f\\/'"),
                             json_of("\"\\n\\r\\t\\b\\f/\""), NULL));
}

static void an_invalid_filter_says_where_and_what(void **state)
{
    static const char *const cases[][2] = {
        {"", "column 1: expected a field, found end of filter"},
        {"   ", "column 4: expected a field, found end of filter"},
        {"item.x ==", "column 10: expected a value, found end of filter"},
        {"item.x == )", "column 11: expected a value, found ')'"},
        {"item.x == high", "column 11: expected a value (a text stands in quotes), found 'high'"},
        {"item.x = 5", "column 8: expected an operator (== != > >= < <= contains), found '='"},
        {"item.x like 'a'",
         "column 8: expected an operator (== != > >= < <= contains), found 'like'"},
        {"failure_count",
         "column 14: expected an operator (== != > >= < <= contains), found end of filter"},
        {"severity == 1",
         "column 1: expected a field (item.NAME for a member of the item), found 'severity'"},
        {"items == 1",
         "column 1: expected a field (item.NAME for a member of the item), found 'items'"},
        {"item. == 1", "column 7: expected a name after '.', found '='"},
        {"item.a[", "column 8: expected an index or a name in quotes, found end of filter"},
        {"item.a[-1] == 1", "column 8: expected an index or a name in quotes, found '-1'"},
        {"item.a[0 == 1", "column 10: expected ']', found '='"},
        {"item.a == 1 item.b == 2",
         "column 13: expected '&&', '||' or end of filter, found 'item'"},
        {"item.a & item.b", "column 8: expected '&&', '||' or end of filter, found '&'"},
        {"item.a == 1 &&", "column 15: expected a field, found end of filter"},
        {"|| item.a == 1", "column 1: expected a field, found '|'"},
        {"(item.a == 1", "column 13: expected ')', '&&' or '||', found end of filter"},
        {"item.a == 1)", "column 12: expected '&&', '||' or end of filter, found ')'"},
        {"()", "column 2: expected a field, found ')'"},
        {"!", "column 2: expected a field, found end of filter"},
        {"item.a == 'x", "column 11: this string does not end"},
        {"item.a == 'x\\'", "column 11: this string does not end"},
        {"item.a == 'x\\", "column 11: this string does not end"},
        {"item.a == '\\q'", "column 12: no such escape: write \\\\ for a backslash"},
        {"item.a == 01", "column 11: this is not a number"},
        {"item.a == 1.", "column 11: this is not a number"},
        {"item.a == 1x", "column 11: this is not a number"},
        {"item.a == -", "column 11: this is not a number"},
        {"item.\xC3\xA9 == 1 ?", "column 13: expected '&&', '||' or end of filter, found '?'"},
        {"5 == item.a",
         "column 1: expected a field (item.NAME for a member of the item), found '5'"},
        {"a_name_that_is_much_longer_than_twenty",
         "column 1: expected a field (item.NAME for a member of the item), found "
         "'a_name_that_is_much_'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct filter *filter = NULL;
        struct err err = {0};
        if (filter_parse(slice_of(cases[i][0]), &arena, &filter, &err) != STATUS_INVALID)
            fail_msg("%s is not refused", cases[i][0]);
        assert_string_equal(err.text, cases[i][1]);
        assert_null(filter);
    }
}

static void bytes_that_no_person_types_are_refused(void **state)
{
    const struct filter *filter = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(filter_parse(SLICE("item[\"a\0b\"] == 1"), &arena, &filter, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "column 8: a NUL byte may not stand in a filter");
    assert_int_equal(filter_parse(SLICE("item.a == '\xFF'"), &arena, &filter, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "a filter must be valid UTF-8");
    assert_null(filter);
}

/* repeated makes a text of `count` times `unit`, then `end`. */
static void repeated(struct buf *buf, const char *unit, int count, const char *end)
{
    buf_clear(buf);
    for (int i = 0; i < count; i++)
        buf_add_str(buf, unit);
    buf_add_str(buf, end);
}

static void nesting_and_length_are_bounded(void **state)
{
    const struct filter *filter = NULL;
    struct err err = {0};
    struct buf buf;

    (void)state;
    buf_init(&buf, 1 << 20);
    repeated(&buf, "!", 64, "item.ok");
    assert_int_equal(filter_parse(buf_slice(&buf), &arena, &filter, &err), STATUS_OK);
    assert_true(filter_match(filter, json_of(item_text), NULL));
    repeated(&buf, "!", 65, "item.ok");
    assert_int_equal(filter_parse(buf_slice(&buf), &arena, &filter, &err), STATUS_INVALID);
    assert_string_equal(err.text, "column 65: nested too deep");
    repeated(&buf, "(", 60000, "item.ok");
    assert_int_equal(filter_parse(buf_slice(&buf), &arena, &filter, &err), STATUS_INVALID);

    /* A long chain is no nesting. */
    repeated(&buf, "item.off||", 6000, "item.ok");
    assert_int_equal(filter_parse(buf_slice(&buf), &arena, &filter, &err), STATUS_OK);
    assert_true(filter_match(filter, json_of(item_text), NULL));
    repeated(&buf, " ", 64 * 1024, "item.ok");
    assert_int_equal(filter_parse(buf_slice(&buf), &arena, &filter, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a filter may have 65536 bytes: this one has 65543");

    /* Many short strings take memory in proportion. */
    arena_release(&arena);
    repeated(&buf, "item==''||", 6000, "item.ok");
    assert_int_equal(filter_parse(buf_slice(&buf), &arena, &filter, &err), STATUS_OK);
    assert_true(arena.used < (8u << 20));
    buf_release(&buf);
}

static void a_filter_outlives_its_text(void **state)
{
    char text[] = "item.n == 42 && item['k'] contains 'v'";
    const struct filter *filter = parsed(text);

    (void)state;
    memset(text, '!', sizeof(text));
    assert_true(filter_match(filter, json_of("{\"n\":42,\"k\":\"uvw\"}"), NULL));
}

static void every_failed_allocation_is_reported(void **state)
{
    const char text[] = "item.a[\"b\"] contains 'c' && !(item.d == 1 || item.e == 2)";
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;

    (void)state;
    while (status != STATUS_OK) {
        const struct filter *filter = NULL;
        struct err err = {0};
        arena_release(&arena);
        mem_fail_after(++n);
        status = filter_parse(slice_of(text), &arena, &filter, &err);
        mem_fail_after(0);
        assert_true(status == STATUS_OK || (status == STATUS_NO_MEMORY && !filter));
    }
    assert_true(n > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(items_are_compared_by_value, empty_arena),
        cmocka_unit_test_teardown(paths_lead_into_items, empty_arena),
        cmocka_unit_test_teardown(what_is_missing_or_of_another_type_is_unequal_and_unordered,
                                  empty_arena),
        cmocka_unit_test_teardown(contains_looks_into_texts_and_arrays, empty_arena),
        cmocka_unit_test_teardown(contains_finds_what_overlaps_itself, empty_arena),
        cmocka_unit_test_teardown(letters_have_fields_of_their_own, empty_arena),
        cmocka_unit_test_teardown(expressions_join_in_the_usual_order, empty_arena),
        cmocka_unit_test_teardown(strings_have_escapes, empty_arena),
        cmocka_unit_test_teardown(an_invalid_filter_says_where_and_what, empty_arena),
        cmocka_unit_test_teardown(bytes_that_no_person_types_are_refused, empty_arena),
        cmocka_unit_test_teardown(nesting_and_length_are_bounded, empty_arena),
        cmocka_unit_test_teardown(a_filter_outlives_its_text, empty_arena),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported, empty_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
