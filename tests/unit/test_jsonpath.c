/* JSONPath: what each selector of RFC 9535 selects, in which order, and every refusal with its
 * column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "core/jsonpath.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static const struct jsonpath *parsed(struct slice text)
{
    const struct jsonpath *path = NULL;
    struct err err = {0};

    if (jsonpath_parse(text, &arena, &path, &err) != STATUS_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return path;
}

static struct json json_of(struct slice text)
{
    struct json json;

    assert_int_equal(json_parse(text, &json, NULL), STATUS_OK);
    return json;
}

static bool add_value(void *ctx, struct json value)
{
    struct buf *out = ctx;

    if (out->len > 0)
        buf_add_char(out, ' ');
    buf_add_slice(out, value.raw);
    return true;
}

/* selected is what a path selects, with a space between, by jsonpath_each and by jsonpath_next. */
static const char *selected(const char *path_text, const char *document, struct buf *out)
{
    const struct jsonpath *path = parsed(slice_of(path_text));
    struct json root = json_of(slice_of(document)), value;
    struct jsonpath_walk *walk = jsonpath_begin(path, root, &arena);
    struct buf pulled;

    buf_clear(out);
    assert_true(jsonpath_each(path, root, add_value, out));
    buf_init(&pulled, 1 << 20);
    while (jsonpath_next(walk, &value))
        add_value(&pulled, value);
    assert_false(jsonpath_next(walk, &value));
    assert_string_equal(buf_str(&pulled), buf_str(out));
    buf_release(&pulled);
    return buf_str(out);
}

struct path_case {
    const char *path, *document, *selected;
};

static void assert_selects(const struct path_case *cases, size_t count)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        const char *got = selected(cases[i].path, cases[i].document, &out);
        if (strcmp(got, cases[i].selected) != 0)
            fail_msg("%s of %s: \"%s\", not \"%s\"", cases[i].path, cases[i].document, got,
                     cases[i].selected);
    }
    buf_release(&out);
}

static void members_are_selected_by_name(void **state)
{
    static const struct path_case cases[] = {
        {"$", "{\"a\":1}", "{\"a\":1}"},
        {"$", "5", "5"},
        {"$.a", "{\"a\":1,\"b\":2}", "1"},
        {"$.a.b", "{\"a\":{\"b\":[1]}}", "[1]"},
        {"$.a", "{\"a\":null}", "null"},
        {"$.b", "{\"a\":1}", ""},
        {"$.a", "[1]", ""},
        {"$.a", "\"a\"", ""},
        {"$.a.b", "{\"a\":5}", ""},
        {"$.a1_B", "{\"a1_B\":1}", "1"},
        {"$._", "{\"_\":1}", "1"},
        {"$.\xC3\xA9", "{\"\\u00e9\":1}", "1"},
        {"$.\xF0\x9F\x98\x80", "{\"\\uD83D\\uDE00\":1}", "1"},
        {"$['a']", "{\"a\":1}", "1"},
        {"$[\"a\"]", "{\"a\":1}", "1"},
        {"$['']", "{\"\":1,\"a\":2}", "1"},
        {"$['a b']['c.d']", "{\"a b\":{\"c.d\":1}}", "1"},
        {"$['0']", "[1]", ""},
        {"$.a", "{\"a\":1,\"a\":2}", "2"}, /* as every reader here takes the last */
        {"$.a", "{\"\\u0061\":1}", "1"},
        {"$.ab", "{\"\\u0061\":1,\"\\u0061bc\":2}", ""},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void names_in_quotes_have_the_escapes_of_json(void **state)
{
    static const struct path_case cases[] = {
        {"$['it\\'s']", "{\"it's\":1}", "1"},
        {"$[\"it's\"]", "{\"it's\":1}", "1"},
        {"$['a\"b']", "{\"a\\\"b\":1}", "1"},
        {"$[\"a\\\"b\"]", "{\"a\\\"b\":1}", "1"},
        {"$['a\\\\']", "{\"a\\\\\":1}", "1"},
        {"$['\\b\\f\\n\\r\\t\\/']", "{\"\\b\\f\\n\\r\\t/\":1}", "1"},
        {"$['\\u0041\\u00e9']", "{\"A\xC3\xA9\":1}", "1"},
        {"$['\\uD83D\\ude00']", "{\"\xF0\x9F\x98\x80\":1}", "1"},
        {"$['\\u0000']", "{\"\\u0000\":1,\"\":2}", "1"},
        {"$['a\\u0000b']", "{\"a\":1,\"a\\u0000b\":2}", "2"},
        {"$['a\x7F']", "{\"a\x7F\":1}", "1"},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void elements_are_selected_by_position(void **state)
{
    static const struct path_case cases[] = {
        {"$[0]", "[\"a\",\"b\"]", "\"a\""},
        {"$[1]", "[\"a\",\"b\"]", "\"b\""},
        {"$[2]", "[\"a\",\"b\"]", ""},
        {"$[-1]", "[\"a\",\"b\"]", "\"b\""},
        {"$[-2]", "[\"a\",\"b\"]", "\"a\""},
        {"$[-3]", "[\"a\",\"b\"]", ""},
        {"$[0]", "[]", ""},
        {"$[-1]", "[]", ""},
        {"$[-1]", "[ ]", ""},
        {"$[0]", "{\"0\":1}", ""},
        {"$[-1]", "{\"0\":1}", ""},
        {"$[-1]", "\"text\"", ""},
        {"$[9007199254740991]", "[1]", ""},
        {"$[-9007199254740991]", "[1]", ""},
        {"$[1][0]", "[[1],[2,3]]", "2"},
        {"$[-1][-1]", "[[1],[2,3]]", "3"},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

/* Reading from the end steps over whatever stands there. */
static void every_kind_of_element_is_found_from_the_end(void **state)
{
    static const struct path_case cases[] = {
        {"$[::-1]", "[1,-2.5e+3,true,false,null]", "null false true -2.5e+3 1"},
        {"$[::-1]", " [ 1 , \"a\" ,\t[ ] , { } ]", "{ } [ ] \"a\" 1"},
        {"$[::-1]", "[\"\",\"a\\\"\",\"\\\\\",\"\\\\\\\"\",\"a,b]\"]",
         "\"a,b]\" \"\\\\\\\"\" \"\\\\\" \"a\\\"\" \"\""},
        {"$[::-1]", "[{\"a\":\"}]\"},[\"[\",[1]],{\"\\\"]\":[{}]}]",
         "{\"\\\"]\":[{}]} [\"[\",[1]] {\"a\":\"}]\"}"},
        {"$[-2]", "[ [1,2] , \"x\" ]", "[1,2]"},
        {"$[-1].a[-1]", "[0,{\"a\":[{\"b\":\"\\\\\"},\"\\\"\"]}]", "\"\\\"\""},
        {"$[-2:]", "[\"\xC3\xA9\",\"\\u00e9\"]", "\"\xC3\xA9\" \"\\u00e9\""},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void slices_have_bounds_and_steps(void **state)
{
    static const char letters[] = "[0,1,2,3,4,5,6]";
    const struct path_case cases[] = {
        {"$[1:3]", letters, "1 2"},
        {"$[5:]", letters, "5 6"},
        {"$[:2]", letters, "0 1"},
        {"$[:]", letters, "0 1 2 3 4 5 6"},
        {"$[::]", letters, "0 1 2 3 4 5 6"},
        {"$[1:5:2]", letters, "1 3"},
        {"$[::3]", letters, "0 3 6"},
        {"$[5:1:-2]", letters, "5 3"},
        {"$[::-1]", letters, "6 5 4 3 2 1 0"},
        {"$[::-3]", letters, "6 3 0"},
        {"$[:2:-1]", letters, "6 5 4 3"},
        {"$[2::-1]", letters, "2 1 0"},
        {"$[-2:]", letters, "5 6"},
        {"$[:-5]", letters, "0 1"},
        {"$[-5:-3]", letters, "2 3"},
        {"$[-3:-5]", letters, ""},
        {"$[-3:-5:-1]", letters, "4 3"},
        {"$[-1:0:-3]", letters, "6 3"},
        {"$[3:3]", letters, ""},
        {"$[4:2]", letters, ""},
        {"$[2:4:-1]", letters, ""},
        {"$[7:]", letters, ""},
        {"$[6:100]", letters, "6"},
        {"$[-100:1]", letters, "0"},
        {"$[100::-4]", letters, "6 2"},
        {"$[:-100:-4]", letters, "6 2"},
        {"$[::0]", letters, ""},
        {"$[1:5:0]", letters, ""},
        {"$[0:9007199254740991:9007199254740991]", letters, "0"},
        {"$[::-9007199254740991]", letters, "6"},
        {"$[-9007199254740991:9007199254740991]", letters, "0 1 2 3 4 5 6"},
        {"$[:]", "[]", ""},
        {"$[::-1]", "[]", ""},
        {"$[:]", "{\"a\":1}", ""},
        {"$[::-1]", "{\"a\":1}", ""},
        {"$[:]", "\"abc\"", ""},
        {"$[1:][0]", "[[1],[2],[3]]", "2 3"},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void wildcards_select_every_child(void **state)
{
    static const struct path_case cases[] = {
        {"$[*]", "[1,\"a\",[2],{}]", "1 \"a\" [2] {}"},
        {"$.*", "[1,2]", "1 2"},
        {"$.*", "{\"a\":1,\"b\":{\"c\":2}}", "1 {\"c\":2}"},
        {"$[*]", "{\"a\":1,\"a\":2}", "1 2"},
        {"$[*]", "[]", ""},
        {"$[*]", "{}", ""},
        {"$.*", "5", ""},
        {"$.*.*", "{\"a\":[1,2],\"b\":3,\"c\":{\"d\":4}}", "1 2 4"},
        {"$.items[*].id", "{\"items\":[{\"id\":1},{},{\"id\":\"x\"}]}", "1 \"x\""},
        {"$.items[*]", " { \"items\" : [ 1 , 2 ] , \"more\" : [ 3 ] } ", "1 2"},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void unions_select_in_the_order_that_they_say(void **state)
{
    static const struct path_case cases[] = {
        {"$[0,3]", "[0,1,2,3]", "0 3"},
        {"$[3,0]", "[0,1,2,3]", "3 0"},
        {"$[0,0]", "[0,1]", "0 0"},
        {"$[-1,0]", "[0,1]", "1 0"},
        {"$[0:2,5]", "[0,1,2,3,4,5]", "0 1 5"},
        {"$[1:,:1]", "[0,1,2]", "1 2 0"},
        {"$['a','b']", "{\"b\":2,\"a\":1}", "1 2"},
        {"$['a',1]", "{\"a\":1}", "1"},
        {"$['a',1]", "[0,1]", "1"},
        {"$[*,'a']", "{\"a\":1,\"b\":2}", "1 2 1"},
        {"$[*,*]", "[1,2]", "1 2 1 2"},
        {"$['a','b']['x','y']", "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"y\":3}}", "1 2 3"},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

/* The examples of RFC 9535, section 2.5.2.3, and what the order of visits is. */
static void descent_visits_a_node_before_what_is_below_it(void **state)
{
    static const char rfc[] = "{\"o\":{\"j\":1,\"k\":2},\"a\":[5,3,[{\"j\":4},{\"k\":6}]]}";
    const struct path_case cases[] = {
        {"$..j", rfc, "1 4"},
        {"$..[0]", rfc, "5 {\"j\":4}"},
        {"$..o", rfc, "{\"j\":1,\"k\":2}"},
        {"$.o..[*,*]", rfc, "1 2 1 2"},
        {"$.a..[0,1]", rfc, "5 3 {\"j\":4} {\"k\":6}"},
        {"$..*", rfc,
         "{\"j\":1,\"k\":2} [5,3,[{\"j\":4},{\"k\":6}]] 1 2 5 3 [{\"j\":4},{\"k\":6}] "
         "{\"j\":4} {\"k\":6} 4 6"},
        {"$..[*]", "[[[1]],2]", "[[1]] 2 [1] 1"},
        {"$..a", "{\"a\":{\"a\":{\"a\":1}}}", "{\"a\":{\"a\":1}} {\"a\":1} 1"},
        {"$..a..b", "{\"a\":{\"b\":1,\"a\":{\"b\":2}}}", "1 2 2"},
        {"$..['a','b']", "[{\"b\":1,\"a\":2},{\"a\":3}]", "2 1 3"},
        {"$..[-1]", "[[1,2],[3,4]]", "[3,4] 2 4"},
        {"$..[1:]", "[[1,2],[3,4]]", "[3,4] 2 4"},
        {"$..a", "5", ""},
        {"$.x..a", "{\"a\":1}", ""},
        {"$..a[0].b", "{\"a\":[{\"b\":1}],\"c\":{\"a\":[{\"b\":2}]}}", "1 2"},
        {"$..file", "[{\"file\":\"a.c\"},{\"sub\":[{\"file\":\"b.c\"}]}]", "\"a.c\" \"b.c\""},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void white_space_may_stand_between_segments_and_in_brackets(void **state)
{
    static const struct path_case cases[] = {
        {"$ .a", "{\"a\":1}", "1"},
        {"$\n\t.a\r [0]", "{\"a\":[1]}", "1"},
        {"$[ 'a' ]", "{\"a\":1}", "1"},
        {"$[ 0 , 1 ]", "[1,2]", "1 2"},
        {"$[ 0 : 2 : 1 ]", "[1,2,3]", "1 2"},
        {"$[ : : -1 ]", "[1,2]", "2 1"},
        {"$[ * ]", "[1]", "1"},
        {"$ ..a", "{\"a\":1}", "1"},
        {"$..[ * ]", "[1]", "1"},
    };

    (void)state;
    assert_selects(cases, COUNT(cases));
}

static void an_invalid_path_says_where_and_what(void **state)
{
    static const char *const cases[][2] = {
        {"", "column 1: expected '$', found end of path"},
        {"items", "column 1: expected '$', found 'items'"},
        {" $", "column 1: expected '$', found ' '"},
        {"$ ", "column 2: white space may not stand at the end of a path"},
        {"$.a ", "column 4: white space may not stand at the end of a path"},
        {"$a", "column 2: expected '.' or '[' (a name with other characters stands in quotes: "
               "['a-b']), found 'a'"},
        {"$.my-key", "column 5: expected '.' or '[' (a name with other characters stands in "
                     "quotes: ['a-b']), found '-'"},
        {"$.", "column 3: expected a name or '*' after '.', found end of path"},
        {"$. a", "column 3: expected a name or '*' after '.', found ' '"},
        {"$.1", "column 3: expected a name or '*' after '.', found '1'"},
        {"$.'a'", "column 3: expected a name or '*' after '.', found '''"},
        {"$.[0]", "column 3: expected a name or '*' after '.', found '['"},
        {"$..", "column 4: expected a name, '*' or '[' after '..', found end of path"},
        {"$.. a", "column 4: expected a name, '*' or '[' after '..', found ' '"},
        {"$...a", "column 4: expected a name, '*' or '[' after '..', found '.'"},
        {"$[",
         "column 3: expected a name in quotes, a position, a slice or '*', found end of path"},
        {"$[]", "column 3: expected a name in quotes, a position, a slice or '*', found ']'"},
        {"$[a]", "column 3: expected a name in quotes, a position, a slice or '*', found 'a'"},
        {"$[(@.length-1)]",
         "column 3: expected a name in quotes, a position, a slice or '*', found '('"},
        {"$[?@.a==1]", "column 3: a condition (?) cannot stand in a path: give it as --filter"},
        {"$..[?(@.a)]", "column 5: a condition (?) cannot stand in a path: give it as --filter"},
        {"$[0", "column 4: expected ',' or ']', found end of path"},
        {"$[0 1]", "column 5: expected ',' or ']', found '1'"},
        {"$[0,]", "column 5: expected a name in quotes, a position, a slice or '*', found ']'"},
        {"$[,0]", "column 3: expected a name in quotes, a position, a slice or '*', found ','"},
        {"$['a]", "column 3: this name does not end"},
        {"$['a\\']", "column 3: this name does not end"},
        {"$['a\\", "column 3: this name does not end"},
        {"$['\\q']", "column 3: no such escape in a string"},
        {"$[\"\\'\"]", "column 4: no such escape: only the quote that the name stands in has one"},
        {"$['\\\"']", "column 4: no such escape: only the quote that the name stands in has one"},
        {"$['\\u12']", "column 3: expected four hex digits after \\u"},
        {"$['\\uD800']", "column 3: half of a surrogate pair in a string"},
        {"$['a\tb']", "column 3: a control character in a string"},
        {"$[01]", "column 3: a number has no 0 in front, and no -0"},
        {"$[-0]", "column 3: a number has no 0 in front, and no -0"},
        {"$[-01]", "column 3: a number has no 0 in front, and no -0"},
        {"$[1:-0]", "column 5: a number has no 0 in front, and no -0"},
        {"$[-]", "column 4: expected a digit, found ']'"},
        {"$[+1]", "column 3: expected a name in quotes, a position, a slice or '*', found '+'"},
        {"$[1.0]", "column 4: expected ',' or ']', found '.'"},
        {"$[9007199254740992]", "column 3: this number is too large"},
        {"$[-9007199254740992]", "column 3: this number is too large"},
        {"$[99999999999999999999999999999999999999]", "column 3: this number is too large"},
        {"$[0:1:2:3]", "column 8: expected ',' or ']', found ':'"},
        {"$.\xC3\xA9.\xC3\xA9 x", "column 7: expected '.' or '[' (a name with other characters "
                                  "stands in quotes: ['a-b']), found 'x'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct jsonpath *path = NULL;
        struct err err = {0};
        if (jsonpath_parse(slice_of(cases[i][0]), &arena, &path, &err) != STATUS_INVALID)
            fail_msg("%s is not refused", cases[i][0]);
        if (strcmp(err.text, cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], err.text);
        assert_null(path);
    }
}

static void bytes_that_no_person_types_are_refused(void **state)
{
    const struct jsonpath *path = NULL;
    struct err err = {0};
    struct buf buf;

    (void)state;
    assert_int_equal(jsonpath_parse(SLICE("$['a\0b']"), &arena, &path, &err), STATUS_INVALID);
    assert_string_equal(err.text, "column 5: a NUL byte may not stand in a path");
    assert_int_equal(jsonpath_parse(SLICE("$['\xFF']"), &arena, &path, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a path must be valid UTF-8");

    buf_init(&buf, 1 << 20);
    buf_add_char(&buf, '$');
    while (buf.len <= 65536)
        buf_add_str(&buf, ".a");
    assert_int_equal(jsonpath_parse(buf_slice(&buf), &arena, &path, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a path may have 65536 bytes: this one has 65537");
    assert_null(path);
    buf_release(&buf);
}

static bool stop_at_third(void *ctx, struct json value)
{
    int *count = ctx;

    (void)value;
    return ++*count < 3;
}

static void each_can_end_it(void **state)
{
    int count = 0;

    (void)state;
    assert_false(
        jsonpath_each(parsed(SLICE("$..*")), json_of(SLICE("[1,[2,3],4]")), stop_at_third, &count));
    assert_int_equal(count, 3);
}

static bool count_value(void *ctx, struct json value)
{
    size_t *count = ctx;

    (void)value;
    (*count)++;
    return true;
}

static void the_deepest_document_is_walked(void **state)
{
    struct buf buf;
    size_t count = 0;

    (void)state;
    buf_init(&buf, 1 << 20);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_add_char(&buf, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_add_char(&buf, ']');
    assert_true(
        jsonpath_each(parsed(SLICE("$..*")), json_of(buf_slice(&buf)), count_value, &count));
    assert_int_equal(count, JSON_DEPTH_MAX - 1);
    /* Each pair of levels, once. */
    count = 0;
    assert_true(
        jsonpath_each(parsed(SLICE("$..*..*")), json_of(buf_slice(&buf)), count_value, &count));
    assert_int_equal(count, (JSON_DEPTH_MAX - 1) * (JSON_DEPTH_MAX - 2) / 2);
    buf_release(&buf);
}

/* Three hundred thousand elements, from the end: with a pass for each this would not end. */
static void a_long_array_is_reversed_in_one_pass(void **state)
{
    struct buf buf;
    size_t count = 0, used;

    (void)state;
    buf_init(&buf, 8 << 20);
    for (int i = 0; i < 300000; i++)
        buf_addf(&buf, "%c%d", i ? ',' : '[', i);
    buf_add_char(&buf, ']');
    const struct jsonpath *path = parsed(SLICE("$[::-1]"));
    used = arena.used;
    assert_true(jsonpath_each(path, json_of(buf_slice(&buf)), count_value, &count));
    assert_int_equal(count, 300000);
    assert_int_equal(arena.used, used);
    buf_release(&buf);
}

static void a_path_outlives_its_text(void **state)
{
    char text[] = "$.abc['d e'][0]";
    const struct jsonpath *path = parsed(slice_of(text));
    size_t count = 0;

    (void)state;
    memset(text, '!', sizeof(text));
    jsonpath_each(path, json_of(SLICE("{\"abc\":{\"d e\":[7]}}")), count_value, &count);
    assert_int_equal(count, 1);
}

static void every_failed_allocation_is_reported(void **state)
{
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;

    (void)state;
    while (status != STATUS_OK) {
        const struct jsonpath *path = NULL;
        struct err err = {0};
        arena_release(&arena);
        mem_fail_after(++n);
        status = jsonpath_parse(SLICE("$.a['b\\n',1,2:3]..c"), &arena, &path, &err);
        mem_fail_after(0);
        assert_true(status == STATUS_OK || (status == STATUS_NO_MEMORY && !path));
    }
    assert_true(n > 1);
    mem_fail_after(1);
    assert_null(jsonpath_begin(parsed(SLICE("$")), json_of(SLICE("1")), &arena));
    mem_fail_after(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(members_are_selected_by_name, empty_arena),
        cmocka_unit_test_teardown(names_in_quotes_have_the_escapes_of_json, empty_arena),
        cmocka_unit_test_teardown(elements_are_selected_by_position, empty_arena),
        cmocka_unit_test_teardown(every_kind_of_element_is_found_from_the_end, empty_arena),
        cmocka_unit_test_teardown(slices_have_bounds_and_steps, empty_arena),
        cmocka_unit_test_teardown(wildcards_select_every_child, empty_arena),
        cmocka_unit_test_teardown(unions_select_in_the_order_that_they_say, empty_arena),
        cmocka_unit_test_teardown(descent_visits_a_node_before_what_is_below_it, empty_arena),
        cmocka_unit_test_teardown(white_space_may_stand_between_segments_and_in_brackets,
                                  empty_arena),
        cmocka_unit_test_teardown(an_invalid_path_says_where_and_what, empty_arena),
        cmocka_unit_test_teardown(bytes_that_no_person_types_are_refused, empty_arena),
        cmocka_unit_test_teardown(each_can_end_it, empty_arena),
        cmocka_unit_test_teardown(the_deepest_document_is_walked, empty_arena),
        cmocka_unit_test_teardown(a_long_array_is_reversed_in_one_pass, empty_arena),
        cmocka_unit_test_teardown(a_path_outlives_its_text, empty_arena),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported, empty_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
