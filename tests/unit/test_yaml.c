/* test_yaml: YAML read into JSON, and what is refused, with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/yaml.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void documents_become_json(void **state)
{
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        {"a: 1\nb: [x, 2.50, true, null]\n", "{\"a\":1,\"b\":[\"x\",2.50,true,null]}"},
        {"- a\n- - b\n  - {}\n- []\n", "[\"a\",[\"b\",{}],[]]"},
        {"plain text", "\"plain text\""},
        {"---\n42\n...\n", "42"},
        {"a:\nb: ~\n", "{\"a\":null,\"b\":\"~\"}"},
        {"---\n", "null"},
        {"a: {b: {c: d}}", "{\"a\":{\"b\":{\"c\":\"d\"}}}"},
        {"a: \"1\"\nb: 'true'\nc: ''\n", "{\"a\":\"1\",\"b\":\"true\",\"c\":\"\"}"},
        {"a: |\n  one\n  two\nb: >-\n  x\n  y\n", "{\"a\":\"one\\ntwo\\n\",\"b\":\"x y\"}"},
        {"1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}"},
        {"a: {x: 1}\nb: {x: 1}\nx: 1\n", "{\"a\":{\"x\":1},\"b\":{\"x\":1},\"x\":1}"},
        {"- {a: 1}\n- {a: 1}\n", "[{\"a\":1},{\"a\":1}]"},
        {"# only a comment before\nk: v # and behind\n", "{\"k\":\"v\"}"},
        {"\xef\xbb\xbfk: v\n", "{\"k\":\"v\"}"},
        {"caf\xc3\xa9: \"\\u263a \\0\"\n", "{\"caf\xc3\xa9\":\"\xe2\x98\xba \\u0000\"}"},
        {"{\"json\": [1, {\"is\": \"yaml\"}]}", "{\"json\":[1,{\"is\":\"yaml\"}]}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        struct err err = {0};
        buf_init(&out, 1000);
        if (yaml_to_json(slice_of(rows[i].yaml), &out, &err) != STATUS_OK)
            fail_msg("%s: %s", rows[i].yaml, err.text);
        assert_string_equal(buf_str(&out), rows[i].json);
        buf_release(&out);
    }
}

static void plain_scalars_follow_the_json_schema(void **state)
{
    static const struct {
        const char *scalar, *json;
    } rows[] = {
        {"null", "null"},
        {"true", "true"},
        {"false", "false"},
        {"0", "0"},
        {"-0", "-0"},
        {"-1.5e+3", "-1.5e+3"},
        {"1e999", "1e999"},
        {"Null", "\"Null\""},
        {"True", "\"True\""},
        {"yes", "\"yes\""},
        {"off", "\"off\""},
        {"007", "\"007\""},
        {"+1", "\"+1\""},
        {"0x1F", "\"0x1F\""},
        {".5", "\".5\""},
        {"1.", "\"1.\""},
        {".inf", "\".inf\""},
        {"1_000", "\"1_000\""},
        {"2026-02-13", "\"2026-02-13\""},
        {"nullable", "\"nullable\""},
        {"12:30:45", "\"12:30:45\""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char yaml[64], json[64];
        struct buf out;
        snprintf(yaml, sizeof(yaml), "k: %s\n", rows[i].scalar);
        snprintf(json, sizeof(json), "{\"k\":%s}", rows[i].json);
        buf_init(&out, 100);
        assert_int_equal(yaml_to_json(slice_of(yaml), &out, NULL), STATUS_OK);
        assert_string_equal(buf_str(&out), json);
        buf_release(&out);
    }
}

static void what_is_refused_is_named_with_its_place(void **state)
{
    static const struct {
        const char *yaml, *error;
    } rows[] = {
        {"a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key 'a'"},
        {"o:\n  - k: 1\n    x: 2\n    \"k\": 3\n", "line 4, column 5: duplicate key 'k'"},
        {"{a: 1, 'a': 2}", "line 1, column 8: duplicate key 'a'"},
        {"a: &x 1\n", "line 1, column 4: anchors are not allowed"},
        {"a: &x [1]\n", "line 1, column 4: anchors are not allowed"},
        {"a: &x {b: 1}\n", "line 1, column 4: anchors are not allowed"},
        {"a: 1\nb: *x\n", "line 2, column 4: aliases are not allowed"},
        {"a: !!int 1\n", "line 1, column 4: tags are not allowed"},
        {"a: ! x\n", "line 1, column 4: tags are not allowed"},
        {"!x [1]\n", "line 1, column 1: tags are not allowed"},
        {"a: !x {b: 1}\n", "line 1, column 4: tags are not allowed"},
        {"a: 1\n---\nb: 2\n", "line 2, column 1: a second document"},
        {"? [a]\n: b\n", "line 1, column 3: a key must be a text, not a list or a mapping"},
        {"", "line 1, column 1: there is no document"},
        {"# nothing\n", "line 2, column 1: there is no document"},
        {"a: [1, 2\nb: 3\n", "line 2, column 2:"},
        {"a: b: c\n", "line 1, column 5:"},
        {"a: 1\n\tb: 2\n", "line 2, column 1:"},
        {"a: 1\nb: \xff\n", "line 2, column 4:"},
        {"a: 1\nb: \x01\n", "line 2, column 4:"},
        {"a: \"\\ud800\"\n", "line 1, column"},
        {"a: \"open\n", "line 2, column 1:"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        struct err err = {0};
        buf_init(&out, 1000);
        buf_add_str(&out, "before");
        if (yaml_to_json(slice_of(rows[i].yaml), &out, &err) != STATUS_INVALID)
            fail_msg("%s is accepted as %s", rows[i].yaml, buf_str(&out));
        if (strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("%s: '%s', not '%s'", rows[i].yaml, err.text, rows[i].error);
        assert_string_equal(buf_str(&out), "before");
        buf_release(&out);
    }
}

static void every_key_and_value_has_its_place(void **state)
{
    static const char yaml[] = "# first\n"
                               "name: tidy\n"
                               "map:\n"
                               "  command: [ls, '-l', {a: 1}]\n"
                               "  caf\xc3\xa9: \xc3\xa9t\xc3\xa9\n"
                               "  none:\n"
                               "steps:\n"
                               "- one\n"
                               "- shell: |\n"
                               "    two\n";
    static const struct {
        const char *json; /* how the rest of the JSON text begins */
        uint32_t line, column;
    } rows[] = {
        {"{\"name\"", 2, 1},    {"\"name\"", 2, 1},    {"\"tidy\"", 2, 7}, {"\"map\"", 3, 1},
        {"{\"command\"", 4, 3}, {"\"command\"", 4, 3}, {"[\"ls\"", 4, 12}, {"\"ls\"", 4, 13},
        {"\"-l\"", 4, 17},      {"{\"a\":1", 4, 23},   {"\"a\":1", 4, 24}, {"1}", 4, 27},
        {"\"caf", 5, 3},        {"\"\xc3\xa9t", 5, 9}, {"\"none\"", 6, 3}, {"null", 6, 8},
        {"\"steps\"", 7, 1},    {"[\"one\"", 8, 1},    {"\"one\"", 8, 3},  {"{\"shell\"", 9, 3},
        {"\"shell\"", 9, 3},    {"\"two\\n\"", 9, 10},
    };
    struct buf out;
    struct yaml_marks marks = {0};
    struct err err = {0};
    (void)state;
    buf_init(&out, 1000);
    buf_add_str(&out, "before ");
    assert_int_equal(yaml_to_json_marked(slice_of(yaml), &out, &marks, &err), STATUS_OK);
    const char *json = buf_str(&out) + strlen("before ");
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *found = strstr(json, rows[i].json);
        if (!found)
            fail_msg("no %s in %s", rows[i].json, json);
        struct yaml_mark mark = yaml_mark_find(&marks, (size_t)(found - json));
        if (mark.line != rows[i].line || mark.column != rows[i].column)
            fail_msg("%s: line %u, column %u", rows[i].json, mark.line, mark.column);
        assert_int_equal(mark.offset, found - json);
    }
    assert_int_equal(marks.count, COUNT(rows));
    yaml_marks_release(&marks);
    buf_release(&out);
}

static void a_text_that_is_refused_has_no_marks(void **state)
{
    struct buf out;
    struct yaml_marks marks = {0};
    struct err err;
    (void)state;
    buf_init(&out, 1000);
    assert_int_equal(yaml_to_json_marked(SLICE("a: 1\na: 2\n"), &out, &marks, &err),
                     STATUS_INVALID);
    assert_null(marks.marks);
    struct yaml_mark mark = yaml_mark_find(&marks, 7);
    assert_int_equal(mark.line, 1);
    assert_int_equal(mark.column, 1);
    buf_release(&out);
}

static void a_nul_byte_is_refused(void **state)
{
    struct buf out;
    struct err err;
    (void)state;
    buf_init(&out, 100);
    assert_int_equal(yaml_to_json((struct slice){"a: \0b\n", 6}, &out, &err), STATUS_INVALID);
    buf_release(&out);
}

/* nested is `depth` sequences inside each other. */
static void nested(struct buf *text, int depth)
{
    for (int i = 0; i < depth; i++)
        buf_add_str(text, "[");
    for (int i = 0; i < depth; i++)
        buf_add_str(text, "]");
}

static void nesting_is_limited_as_in_json(void **state)
{
    struct buf text, out;
    struct err err;
    struct json value;
    (void)state;
    buf_init(&text, 100000);
    buf_init(&out, 100000);
    nested(&text, JSON_DEPTH_MAX);
    assert_int_equal(yaml_to_json(buf_slice(&text), &out, &err), STATUS_OK);
    assert_int_equal(json_parse(buf_slice(&out), &value, &err), STATUS_OK);
    buf_clear(&text);
    nested(&text, JSON_DEPTH_MAX + 1);
    assert_int_equal(yaml_to_json(buf_slice(&text), &out, &err), STATUS_INVALID);
    assert_string_equal(err.text, "line 1, column 129: nested too deeply");
    buf_release(&text);
    buf_release(&out);
}

static void a_mapping_of_many_keys_is_read_and_its_one_duplicate_found(void **state)
{
    struct buf text, out;
    struct err err;
    (void)state;
    buf_init(&text, 1 << 20);
    buf_init(&out, 1 << 20);
    for (int i = 0; i < 5000; i++)
        buf_addf(&text, "key%d: %d\n", i, i);
    assert_int_equal(yaml_to_json(buf_slice(&text), &out, &err), STATUS_OK);
    buf_add_str(&text, "key77: 1\n");
    assert_int_equal(yaml_to_json(buf_slice(&text), &out, &err), STATUS_INVALID);
    assert_string_equal(err.text, "line 5001, column 1: duplicate key 'key77'");
    buf_release(&text);
    buf_release(&out);
}

static void the_limit_of_the_output_is_kept(void **state)
{
    struct buf out;
    struct err err;
    (void)state;
    buf_init(&out, 10);
    assert_int_equal(yaml_to_json(SLICE("[aaaa, bbbb, cccc]"), &out, &err), STATUS_TOO_LARGE);
    assert_int_equal(out.len, 0);
    buf_release(&out);
}

static void each_allocation_may_fail(void **state)
{
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;
    (void)state;
    while (status != STATUS_OK) {
        struct buf out;
        struct yaml_marks marks = {0};
        struct err err = {0};
        buf_init(&out, 1000);
        mem_fail_after(++n);
        status = yaml_to_json_marked(SLICE("a: {b: [1, 2, three]}\n"), &out, &marks, &err);
        mem_fail_after(0);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true(status == STATUS_OK || (out.len == 0 && err.text[0] && !marks.marks));
        yaml_marks_release(&marks);
        buf_release(&out);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_become_json),
        cmocka_unit_test(plain_scalars_follow_the_json_schema),
        cmocka_unit_test(what_is_refused_is_named_with_its_place),
        cmocka_unit_test(every_key_and_value_has_its_place),
        cmocka_unit_test(a_text_that_is_refused_has_no_marks),
        cmocka_unit_test(a_nul_byte_is_refused),
        cmocka_unit_test(nesting_is_limited_as_in_json),
        cmocka_unit_test(a_mapping_of_many_keys_is_read_and_its_one_duplicate_found),
        cmocka_unit_test(the_limit_of_the_output_is_kept),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
