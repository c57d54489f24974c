/* Edits: every example of RFC 6902 (appendix A) and RFC 7396 (appendix A), what an edit must leave
 * alone, what is refused and how, and what hostile edits may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "core/patch.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef enum status edit(struct slice body, struct slice patch, struct buf *out, struct err *err);

static void assert_edit(edit *apply, const char *body, const char *patch, const char *expected)
{
    struct buf out;
    struct err err = {0};

    buf_init(&out, 1 << 20);
    if (apply(slice_of(body), slice_of(patch), &out, &err) != STATUS_OK)
        fail_msg("%s with %s: %s", body, patch, err.text);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

static void assert_refused(edit *apply, const char *body, const char *patch, const char *error)
{
    struct buf out;
    struct err err = {0};

    buf_init(&out, 1 << 20);
    buf_add_str(&out, "before");
    if (apply(slice_of(body), slice_of(patch), &out, &err) != STATUS_INVALID)
        fail_msg("%s with %s is not refused", body, patch);
    assert_string_equal(err.text, error);
    assert_string_equal(buf_str(&out), "before");
    buf_release(&out);
}

static void the_examples_of_rfc_6902_apply(void **state)
{
    static const struct {
        const char *body, *patch, *expected;
    } cases[] = {
        /* A.1 adding an object member */
        {"{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\"}]",
         "{\"foo\":\"bar\",\"baz\":\"qux\"}"},
        /* A.2 adding an array element */
        {"{\"foo\":[\"bar\",\"baz\"]}", "[{\"op\":\"add\",\"path\":\"/foo/1\",\"value\":\"qux\"}]",
         "{\"foo\":[\"bar\",\"qux\",\"baz\"]}"},
        /* A.3 removing an object member */
        {"{\"baz\":\"qux\",\"foo\":\"bar\"}", "[{\"op\":\"remove\",\"path\":\"/baz\"}]",
         "{\"foo\":\"bar\"}"},
        /* A.4 removing an array element */
        {"{\"foo\":[\"bar\",\"qux\",\"baz\"]}", "[{\"op\":\"remove\",\"path\":\"/foo/1\"}]",
         "{\"foo\":[\"bar\",\"baz\"]}"},
        /* A.5 replacing a value */
        {"{\"baz\":\"qux\",\"foo\":\"bar\"}",
         "[{\"op\":\"replace\",\"path\":\"/baz\",\"value\":\"boo\"}]",
         "{\"baz\":\"boo\",\"foo\":\"bar\"}"},
        /* A.6 moving a value */
        {"{\"foo\":{\"bar\":\"baz\",\"waldo\":\"fred\"},\"qux\":{\"corge\":\"grault\"}}",
         "[{\"op\":\"move\",\"from\":\"/foo/waldo\",\"path\":\"/qux/thud\"}]",
         "{\"foo\":{\"bar\":\"baz\"},\"qux\":{\"corge\":\"grault\",\"thud\":\"fred\"}}"},
        /* A.7 moving an array element */
        {"{\"foo\":[\"all\",\"grass\",\"cows\",\"eat\"]}",
         "[{\"op\":\"move\",\"from\":\"/foo/1\",\"path\":\"/foo/3\"}]",
         "{\"foo\":[\"all\",\"cows\",\"eat\",\"grass\"]}"},
        /* A.8 testing a value: success */
        {"{\"baz\":\"qux\",\"foo\":[\"a\",2,\"c\"]}",
         "[{\"op\":\"test\",\"path\":\"/baz\",\"value\":\"qux\"},"
         "{\"op\":\"test\",\"path\":\"/foo/1\",\"value\":2}]",
         "{\"baz\":\"qux\",\"foo\":[\"a\",2,\"c\"]}"},
        /* A.10 adding a nested member object */
        {"{\"foo\":\"bar\"}",
         "[{\"op\":\"add\",\"path\":\"/child\",\"value\":{\"grandchild\":{}}}]",
         "{\"foo\":\"bar\",\"child\":{\"grandchild\":{}}}"},
        /* A.11 ignoring unrecognized elements */
        {"{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\",\"xyz\":123}]",
         "{\"foo\":\"bar\",\"baz\":\"qux\"}"},
        /* A.14 ~ escape ordering */
        {"{\"/\":9,\"~1\":10}", "[{\"op\":\"test\",\"path\":\"/~01\",\"value\":10}]",
         "{\"/\":9,\"~1\":10}"},
        /* A.16 adding an array value */
        {"{\"foo\":[\"bar\"]}",
         "[{\"op\":\"add\",\"path\":\"/foo/-\",\"value\":[\"abc\",\"def\"]}]",
         "{\"foo\":[\"bar\",[\"abc\",\"def\"]]}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_edit(patch_apply, cases[i].body, cases[i].patch, cases[i].expected);
}

static void the_examples_of_rfc_6902_that_are_errors_are_refused(void **state)
{
    (void)state;
    /* A.9 testing a value: error */
    assert_refused(patch_apply, "{\"baz\":\"qux\"}",
                   "[{\"op\":\"test\",\"path\":\"/baz\",\"value\":\"bar\"}]",
                   "operation 0: another value is at \"/baz\"");
    /* A.12 adding to a nonexistent target */
    assert_refused(patch_apply, "{\"foo\":\"bar\"}",
                   "[{\"op\":\"add\",\"path\":\"/baz/bat\",\"value\":\"qux\"}]",
                   "operation 0: there is nothing to step into on the way to \"/baz/bat\"");
    /* A.13 invalid JSON Patch document */
    assert_refused(patch_apply, "{\"foo\":\"bar\"}",
                   "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\",\"op\":\"remove\"}]",
                   "operation 0: op: stands twice");
    /* A.15 comparing strings and numbers */
    assert_refused(patch_apply, "{\"/\":9,\"~1\":10}",
                   "[{\"op\":\"test\",\"path\":\"/~01\",\"value\":\"10\"}]",
                   "operation 0: another value is at \"/~01\"");
}

static void the_examples_of_rfc_7396_apply(void **state)
{
    static const char *const cases[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
        /* The document of the introduction. */
        {"{\"title\":\"Goodbye!\",\"author\":{\"givenName\":\"John\",\"familyName\":\"Doe\"},"
         "\"tags\":[\"example\",\"sample\"],\"content\":\"This will be unchanged\"}",
         "{\"title\":\"Hello!\",\"phoneNumber\":\"+01-123-456-7890\","
         "\"author\":{\"familyName\":null},\"tags\":[\"example\"]}",
         "{\"title\":\"Hello!\",\"author\":{\"givenName\":\"John\"},\"tags\":[\"example\"],"
         "\"content\":\"This will be unchanged\",\"phoneNumber\":\"+01-123-456-7890\"}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_edit(patch_merge, cases[i][0], cases[i][1], cases[i][2]);
}

static void what_an_edit_does_not_name_stays_byte_for_byte(void **state)
{
    const char body[] = "{ \"big\" : 123456789012345678901234567890, \"f\": 1.10, \"e\": 1E+2,"
                        " \"z\":-0.0, \"s\" : \"\\u00e9\\/\", \"o\": { \"b\" : 1 , \"a\":2 },"
                        " \"x\": 1 }";

    (void)state;
    assert_edit(patch_apply, body, "[{\"op\":\"replace\",\"path\":\"/x\",\"value\": 2.50 }]",
                "{\"big\":123456789012345678901234567890,\"f\":1.10,\"e\":1E+2,\"z\":-0.0,"
                "\"s\":\"\\u00e9\\/\",\"o\":{ \"b\" : 1 , \"a\":2 },\"x\":2.50}");
    assert_edit(patch_merge, body, "{\"x\":2.50}",
                "{\"big\":123456789012345678901234567890,\"f\":1.10,\"e\":1E+2,\"z\":-0.0,"
                "\"s\":\"\\u00e9\\/\",\"o\":{ \"b\" : 1 , \"a\":2 },\"x\":2.50}");
    assert_edit(patch_apply, body, "[]", body);
}

static void operations_build_on_each_other(void **state)
{
    static const char *const cases[][3] = {
        {"{}",
         "[{\"op\":\"add\",\"path\":\"/a\",\"value\":{}},"
         "{\"op\":\"add\",\"path\":\"/a/b\",\"value\":[1]},"
         "{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/c\"},"
         "{\"op\":\"add\",\"path\":\"/a/b/-\",\"value\":2},"
         "{\"op\":\"test\",\"path\":\"/c\",\"value\":{\"b\":[1.0]}}]",
         "{\"a\":{\"b\":[1,2]},\"c\":{\"b\":[1]}}"},
        /* The whole document. */
        {"{\"a\":1}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":[1]}]", "[1]"},
        {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"\",\"value\":{\"b\":2}}]", "{\"b\":2}"},
        {"{\"a\":{\"b\":1}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"\"}]", "{\"b\":1}"},
        {"{\"a\":{\"b\":1}}", "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/c\"}]",
         "{\"a\":{\"b\":1},\"c\":{\"a\":{\"b\":1}}}"},
        /* Adding what is there replaces it, in its place. */
        {"{\"a\":1,\"b\":2}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":null}]",
         "{\"a\":null,\"b\":2}"},
        {"[1,2]", "[{\"op\":\"add\",\"path\":\"/2\",\"value\":3}]", "[1,2,3]"},
        {"[]", "[{\"op\":\"add\",\"path\":\"/0\",\"value\":3}]", "[3]"},
        {"{\"a\":1}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a\"}]", "{\"a\":1}"},
        {"{\"a\":1,\"ab\":2}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/ab\"}]",
         "{\"ab\":1}"},
        /* Names: empty, escaped, with a NUL, beyond ASCII. */
        {"{\"\":1}", "[{\"op\":\"replace\",\"path\":\"/\",\"value\":2}]", "{\"\":2}"},
        {"{\"a/b\":1,\"m~n\":2}",
         "[{\"op\":\"remove\",\"path\":\"/a~1b\"},{\"op\":\"add\",\"path\":\"/x~0~1\","
         "\"value\":3},{\"op\":\"remove\",\"path\":\"/m~0n\"}]",
         "{\"x~/\":3}"},
        {"{\"a\\u0000b\":1,\"a\":2}", "[{\"op\":\"remove\",\"path\":\"/a\\u0000b\"}]", "{\"a\":2}"},
        {"{}", "[{\"op\":\"add\",\"path\":\"/\\u00e9\\n\",\"value\":1}]", "{\"\xC3\xA9\\n\":1}"},
        {"{\"caf\\u00e9\":1}", "[{\"op\":\"replace\",\"path\":\"/caf\xC3\xA9\",\"value\":2}]",
         "{\"caf\xC3\xA9\":2}"},
        /* A digit is a name in an object. */
        {"{\"0\":1}", "[{\"op\":\"replace\",\"path\":\"/0\",\"value\":2}]", "{\"0\":2}"},
        {"{\"-\":1}", "[{\"op\":\"remove\",\"path\":\"/-\"}]", "{}"},
        /* A name that stands twice: the last counts, and none is left behind. */
        {"{\"a\":1,\"b\":0,\"a\":2}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":2}]",
         "{\"a\":1,\"b\":0,\"a\":2}"},
        {"{\"a\":1,\"b\":0,\"a\":2}", "[{\"op\":\"remove\",\"path\":\"/a\"}]", "{\"b\":0}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_edit(patch_apply, cases[i][0], cases[i][1], cases[i][2]);
}

static void test_compares_by_value(void **state)
{
    static const struct {
        const char *body, *value;
        bool equal;
    } cases[] = {
        {"1", "1.0", true},
        {"1", "10e-1", true},
        {"-0", "0", true},
        {"9007199254740993", "9007199254740992", false},
        {"0.1", "0.10000000000000000001", false},
        {"\"\\u0061\\/\"", "\"a/\"", true},
        {"\"a\"", "\"A\"", false},
        {"{\"a\":1,\"b\":[1,2]}", "{ \"b\":[1,2.0], \"a\":1 }", true},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
        {"{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", false},
        {"{\"a\":9,\"a\":1}", "{\"a\":1}", true},
        {"[1,2]", "[2,1]", false},
        {"[1]", "[1,1]", false},
        {"[1,1]", "[1]", false},
        {"[]", "[]", true},
        {"[]", "{}", false},
        {"null", "false", false},
        {"true", "true", true},
        {"true", "false", false},
        {"\"1\"", "1", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf patch, out;
        buf_init(&patch, 4096);
        buf_init(&out, 4096);
        buf_addf(&patch, "[{\"op\":\"test\",\"path\":\"\",\"value\":%s}]", cases[i].value);
        if ((patch_apply(slice_of(cases[i].body), buf_slice(&patch), &out, NULL) == STATUS_OK) !=
            cases[i].equal)
            fail_msg("%s and %s", cases[i].body, cases[i].value);
        buf_release(&patch);
        buf_release(&out);
    }
}

static void what_is_wrong_with_an_edit_is_named(void **state)
{
    static const char *const cases[][3] = {
        {"{", "[]", "the document: not valid JSON at byte 2: expected a member's name in quotes"},
        {"{}", "[", "the patch: not valid JSON at byte 2: expected a value"},
        {"{}", "{}", "a JSON Patch must be an array of operations"},
        {"{}", "[1]", "operation 0: must be an object"},
        {"{}", "[{}]", "operation 0: op: is required"},
        {"{}", "[{\"op\":1}]", "operation 0: op: must be a string"},
        {"{}", "[{\"op\":\"add\"}]", "operation 0: path: is required"},
        {"{}", "[{\"op\":\"add\",\"path\":\"/a\"}]", "operation 0: value: is required"},
        {"{}", "[{\"op\":\"move\",\"path\":\"/a\"}]", "operation 0: from: is required"},
        {"{}", "[{\"op\":\"spam\",\"path\":\"/a\"}]",
         "operation 0: op: must be add, remove, replace, move, copy or test"},
        {"{}", "[{\"op\":\"remove\",\"path\":\"a\"}]",
         "operation 0: a pointer must be empty or begin with /, not \"a\""},
        {"{}", "[{\"op\":\"remove\",\"path\":\"/~2\"}]",
         "operation 0: only ~0 and ~1 may stand in the pointer \"/~2\""},
        {"{}", "[{\"op\":\"remove\",\"path\":\"/a~\"}]",
         "operation 0: only ~0 and ~1 may stand in the pointer \"/a~\""},
        {"{\"a\":1}", "[{\"op\":\"remove\",\"path\":\"/a\"},{\"op\":\"remove\",\"path\":\"/a\"}]",
         "operation 1: there is nothing at \"/a\""},
        {"{}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":1}]",
         "operation 0: there is nothing at \"/a\""},
        {"{}", "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"}]",
         "operation 0: there is nothing at \"/a\""},
        {"{}", "[{\"op\":\"remove\",\"path\":\"\"}]",
         "operation 0: the whole document cannot be removed"},
        {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"/a/b\",\"value\":1}]",
         "operation 0: there is no object or array on the way to \"/a/b\""},
        {"[1,2]", "[{\"op\":\"add\",\"path\":\"/3\",\"value\":1}]",
         "operation 0: the array ends before \"/3\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/2\"}]",
         "operation 0: there is nothing at \"/2\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/-\"}]",
         "operation 0: there is nothing at \"/-\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/99999999999999999999\"}]",
         "operation 0: there is nothing at \"/99999999999999999999\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/00\"}]",
         "operation 0: an array's index must be a number or - in \"/00\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/1e0\"}]",
         "operation 0: an array's index must be a number or - in \"/1e0\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/-1\"}]",
         "operation 0: an array's index must be a number or - in \"/-1\""},
        {"[1,2]", "[{\"op\":\"remove\",\"path\":\"/\"}]",
         "operation 0: an array's index must be a number or - in \"/\""},
        {"{\"a\":{}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a/b\"}]",
         "operation 0: a value cannot be moved into itself, to \"/a/b\""},
        {"{\"a\":{}}", "[{\"op\":\"move\",\"from\":\"\",\"path\":\"/a/b\"}]",
         "operation 0: a value cannot be moved into itself, to \"/a/b\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(patch_apply, cases[i][0], cases[i][1], cases[i][2]);
    assert_refused(patch_merge, "{}", "{\"a\"",
                   "the patch: not valid JSON at byte 5: expected ':'");
}

/* add_times appends a text again and again. */
static void add_times(struct buf *buf, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        buf_add_str(buf, text);
}

static void a_result_that_is_nested_too_deep_is_refused(void **state)
{
    struct buf body, patch, out;
    struct err err = {0};

    (void)state;
    buf_init(&body, 1 << 16);
    buf_init(&patch, 1 << 16);
    buf_init(&out, 1 << 16);
    add_times(&body, "[", 100);
    add_times(&body, "]", 100);
    buf_add_str(&patch, "[{\"op\":\"add\",\"path\":\"");
    add_times(&patch, "/0", 99);
    buf_add_str(&patch, "/-\",\"value\":");
    add_times(&patch, "[", 100);
    add_times(&patch, "]", 100);
    buf_add_str(&patch, "}]");
    assert_int_equal(patch_apply(buf_slice(&body), buf_slice(&patch), &out, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "the result: not valid JSON"));
    assert_int_equal(out.len, 0);

    /* Open containers moved into each other stay within the bound too. */
    buf_clear(&patch);
    buf_add_str(&patch, "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"");
    add_times(&patch, "/0", 99);
    buf_add_str(&patch, "/-\"},{\"op\":\"add\",\"path\":\"");
    add_times(&patch, "/0", 150);
    buf_add_str(&patch, "\",\"value\":1}]");
    assert_int_equal(patch_apply(buf_slice(&body), buf_slice(&patch), &out, &err), STATUS_INVALID);
    assert_int_equal(strncmp(err.text, "operation 1: there are too many steps in", 40), 0);
    buf_release(&body);
    buf_release(&patch);
    buf_release(&out);
}

static void a_result_over_its_limit_is_too_large(void **state)
{
    struct buf out;
    struct err err = {0};

    (void)state;
    buf_init(&out, 8);
    assert_int_equal(patch_merge(SLICE("{}"), SLICE("{\"a\":\"12345\"}"), &out, &err),
                     STATUS_TOO_LARGE);
    assert_int_equal(out.len, 0);
    buf_release(&out);
}

static void hostile_edits_end_soon(void **state)
{
    struct buf patch, body, out;
    struct err err = {0};
    clock_t begin = clock();

    (void)state;
    buf_init(&patch, 8 << 20);
    buf_init(&body, 8 << 20);
    buf_init(&out, 1 << 20);

    /* Each copy doubles the document. */
    buf_add_str(&patch, "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a/-\"}");
    add_times(&patch, ",{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/-\"}", 200);
    buf_add_str(&patch, "]");
    assert_int_equal(patch_apply(SLICE("{\"a\":[1]}"), buf_slice(&patch), &out, &err),
                     STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "the edit is too large"));

    /* Ten thousand insertions at the front of a long array. */
    buf_clear(&patch);
    buf_add_str(&body, "[0");
    add_times(&body, ",0", 200000);
    buf_add_str(&body, "]");
    buf_add_str(&patch, "[{\"op\":\"add\",\"path\":\"/0\",\"value\":1}");
    add_times(&patch, ",{\"op\":\"add\",\"path\":\"/0\",\"value\":1}", 10000);
    buf_add_str(&patch, "]");
    assert_int_equal(patch_apply(buf_slice(&body), buf_slice(&patch), &out, &err),
                     STATUS_TOO_LARGE);

    /* Many members merged into many. */
    buf_clear(&body);
    buf_clear(&patch);
    for (int i = 0; i < 50000; i++) {
        buf_addf(&body, "%s\"a%d\":1", i ? "," : "{", i);
        buf_addf(&patch, "%s\"b%d\":1", i ? "," : "{", i);
    }
    buf_add_str(&body, "}");
    buf_add_str(&patch, "}");
    assert_int_equal(patch_merge(buf_slice(&body), buf_slice(&patch), &out, &err),
                     STATUS_TOO_LARGE);

    if (clock() - begin > 20 * CLOCKS_PER_SEC)
        fail_msg("hostile edits take too long");
    buf_release(&patch);
    buf_release(&body);
    buf_release(&out);
}

static void every_failed_allocation_is_reported(void **state)
{
    const char body[] = "{\"\\u0061\":[1,{\"b\":2}],\"c\":\"\\u0064\"}";
    const char patch[] = "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/x~0\"},"
                         "{\"op\":\"test\",\"path\":\"/x~0\",\"value\":[1.0,{\"b\":2}]},"
                         "{\"op\":\"add\",\"path\":\"/a/1/c\",\"value\":3}]";
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;

    (void)state;
    while (status != STATUS_OK) {
        struct buf out;
        struct err err = {0};
        buf_init(&out, 4096);
        mem_fail_after(++n);
        status = patch_apply(slice_of(body), slice_of(patch), &out, &err);
        mem_fail_after(0);
        if (status != STATUS_OK) {
            assert_int_equal(status, STATUS_NO_MEMORY);
            assert_int_equal(out.len, 0);
        }
        buf_release(&out);
        assert_true(n < 100);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_rfc_6902_apply),
        cmocka_unit_test(the_examples_of_rfc_6902_that_are_errors_are_refused),
        cmocka_unit_test(the_examples_of_rfc_7396_apply),
        cmocka_unit_test(what_an_edit_does_not_name_stays_byte_for_byte),
        cmocka_unit_test(operations_build_on_each_other),
        cmocka_unit_test(test_compares_by_value),
        cmocka_unit_test(what_is_wrong_with_an_edit_is_named),
        cmocka_unit_test(a_result_that_is_nested_too_deep_is_refused),
        cmocka_unit_test(a_result_over_its_limit_is_too_large),
        cmocka_unit_test(hostile_edits_end_soon),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
