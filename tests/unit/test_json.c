/* test_json: reading JSON without copying it, and a comparison with jansson on random texts.
 * The public conformance cases are in json_suite.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "unit/json_oracle.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DOCUMENTS 20000

static struct json parsed(const char *text)
{
    struct json value;
    struct err err;
    if (json_parse(slice_of(text), &value, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return value;
}

static void a_value_is_the_original_bytes_without_the_space_around(void **state)
{
    static const struct {
        const char *text;
        enum json_type type;
        const char *raw;
    } rows[] = {
        {" null\n", JSON_NULL, "null"},
        {"true", JSON_TRUE, "true"},
        {"\tfalse ", JSON_FALSE, "false"},
        {" -1.50e+2\r\n", JSON_NUMBER, "-1.50e+2"},
        {" \"a\\u0062\" ", JSON_STRING, "\"a\\u0062\""},
        {" [ 1 , 2 ] ", JSON_ARRAY, "[ 1 , 2 ]"},
        {"{ \"a\" : 1 } ", JSON_OBJECT, "{ \"a\" : 1 }"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct json value = parsed(rows[i].text);
        assert_int_equal(value.type, rows[i].type);
        assert_true(slice_is(value.raw, rows[i].raw));
    }
}

static void a_refusal_says_the_byte_and_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "not valid JSON at byte 1: expected a value"},
        {"  ", "not valid JSON at byte 3: expected a value"},
        {"{\"action\": \"go\", }", "not valid JSON at byte 18: expected a member's name in quotes"},
        {"{\"a\":1 \"b\"}", "not valid JSON at byte 8: expected ',' or '}'"},
        {"[1 2]", "not valid JSON at byte 4: expected ',' or ']'"},
        {"{\"a\" 1}", "not valid JSON at byte 6: expected ':'"},
        {"{\"a\":}", "not valid JSON at byte 6: expected a value"},
        {"[tru]", "not valid JSON at byte 2: expected a value"},
        {"1 2", "not valid JSON at byte 3: expected the end of the text"},
        {"01", "not valid JSON at byte 2: expected the end of the text"},
        {"-x", "not valid JSON at byte 2: expected a digit"},
        {"1.e1", "not valid JSON at byte 3: expected a digit"},
        {"\"a\nb\"", "not valid JSON at byte 3: a control character in a string"},
        {"\"abc", "not valid JSON at byte 5: the string does not end"},
        {"\"\\", "not valid JSON at byte 3: no such escape in a string"},
        {"\"\\x\"", "not valid JSON at byte 3: no such escape in a string"},
        {"\"\\u12g4\"", "not valid JSON at byte 6: expected four hex digits after \\u"},
        {"\"\\ud800x\"", "not valid JSON at byte 3: half of a surrogate pair in a string"},
        {"\"ok\xc3\"", "not valid JSON at byte 4: bytes that are not UTF-8 in a string"},
        {"\xef\xbb\xbf{}", "not valid JSON at byte 1: expected a value"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct json value = {JSON_TRUE, {"x", 1}};
        struct err err = {0};
        assert_int_equal(json_parse(slice_of(rows[i].text), &value, &err), STATUS_INVALID);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(value.type, JSON_TRUE);
        assert_true(slice_is(value.raw, "x"));
    }
}

static void values_in_a_row_are_read_one_by_one(void **state)
{
    struct slice text = SLICE(" {\"a\":1}\n[2] \n\"x\"3 true");
    static const char *const raws[] = {"{\"a\":1}", "[2]", "\"x\"", "3", "true"};
    struct json value;
    (void)state;
    for (size_t i = 0; i < COUNT(raws); i++) {
        assert_int_equal(json_parse_prefix(text, &value, &text, NULL), STATUS_OK);
        assert_true(slice_is(value.raw, raws[i]));
    }
    assert_int_equal(text.len, 0);
    assert_int_equal(json_parse_prefix(text, &value, &text, NULL), STATUS_INVALID);
}

static void children_come_in_order(void **state)
{
    struct json_iter iter;
    struct json key, value;
    (void)state;
    json_iter_init(&iter,
                   parsed("{ \"a\" : [ 1 , {\"]\":\"}\"} ] , \"\\\"\":\"\\\\\",\"c\":-1e5 }"));
    assert_true(json_next(&iter, &key, &value));
    assert_true(slice_is(key.raw, "\"a\""));
    assert_true(slice_is(value.raw, "[ 1 , {\"]\":\"}\"} ]"));
    assert_true(json_next(&iter, &key, &value));
    assert_true(slice_is(key.raw, "\"\\\"\""));
    assert_true(slice_is(value.raw, "\"\\\\\""));
    assert_true(json_next(&iter, NULL, &value));
    assert_true(slice_is(value.raw, "-1e5"));
    assert_false(json_next(&iter, &key, &value));
    assert_false(json_next(&iter, &key, &value));

    key = (struct json){0};
    json_iter_init(&iter, parsed("[true,[],\"\xc3\xa9\"]"));
    assert_true(json_next(&iter, &key, &value));
    assert_int_equal(value.type, JSON_TRUE);
    assert_true(json_next(&iter, &key, &value));
    assert_true(slice_is(value.raw, "[]"));
    assert_true(json_next(&iter, &key, &value));
    assert_true(slice_is(value.raw, "\"\xc3\xa9\""));
    assert_false(json_next(&iter, &key, &value));
    assert_null(key.raw.ptr);
}

static void only_containers_have_children(void **state)
{
    static const struct {
        const char *text;
        size_t count;
    } rows[] = {
        {"[]", 0},    {"[ ]", 0},         {"{}", 0},
        {"{ \n}", 0}, {"\"[1,2]\"", 0},   {"12", 0},
        {"[0]", 1},   {"[[1,2],[3]]", 2}, {"{\"a\":{\"b\":1,\"c\":2},\"a\":1}", 2},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(json_count(parsed(rows[i].text)), rows[i].count);
    assert_int_equal(json_count((struct json){0}), 0);
}

static void a_member_is_found_by_its_decoded_name_the_last_of_duplicates(void **state)
{
    struct json object =
        parsed("{\"a\":1,\"\\u0061\":2,\"b\\/c\":3,\"\\ud834\\udd1e\":4,\"n\\u0000\":5}");
    struct json value;
    (void)state;
    assert_true(json_get(object, "a", &value));
    assert_true(slice_is(value.raw, "2"));
    assert_true(json_get(object, "b/c", &value));
    assert_true(slice_is(value.raw, "3"));
    assert_true(json_get(object, "\xf0\x9d\x84\x9e", &value));
    assert_true(slice_is(value.raw, "4"));
    assert_false(json_get(object, "n", &value));
    assert_int_equal(value.type, JSON_NULL);
    assert_null(value.raw.ptr);
    assert_false(json_get(parsed("[\"a\"]"), "a", &value));
    assert_false(json_get((struct json){0}, "a", &value));
}

static void strings_are_decoded(void **state)
{
    static const struct {
        const char *json;
        struct slice text;
    } rows[] = {
        {"\"\"", {"", 0}},
        {"\"plain\"", {"plain", 5}},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", {"\"\\/\b\f\n\r\t", 8}},
        {"\"\\u0000x\"", {"\0x", 2}},
        {"\"\\u007f\\u0080\\u07FF\"", {"\x7f\xc2\x80\xdf\xbf", 5}},
        {"\"\\u0800\\uffff\"", {"\xe0\xa0\x80\xef\xbf\xbf", 6}},
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF\"", {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8}},
        {"\"\xc3\xa9\\n\xe2\x82\xac\"", {"\xc3\xa9\n\xe2\x82\xac", 6}},
    };
    struct arena arena = {0};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct json value = parsed(rows[i].json);
        assert_true(slice_eq(json_text(value, &arena), rows[i].text));
        bool same_as_c_string = strlen(rows[i].text.ptr) == rows[i].text.len;
        assert_int_equal(json_string_is(value, rows[i].text.ptr), same_as_c_string);
        assert_false(json_string_is(value, "something else"));
    }
    arena_release(&arena);
}

static void a_string_is_copied_only_for_its_escapes(void **state)
{
    struct arena arena = {0};
    struct json plain = parsed("\"plain\""), escaped = parsed("\"esc\\u0061ped\"");
    (void)state;
    assert_ptr_equal(json_text(plain, &arena).ptr, plain.raw.ptr + 1);
    assert_int_equal(arena.used, 0);
    mem_fail_after(1);
    assert_null(json_text(escaped, &arena).ptr);
    mem_fail_after(0);
    assert_true(slice_is(json_text(escaped, &arena), "escaped"));
    assert_null(json_text(parsed("1"), &arena).ptr);
    assert_false(json_string_is(parsed("1"), "1"));
    arena_release(&arena);
}

static void only_numbers_are_numbers(void **state)
{
    int64_t integer = 0;
    double real = 0;
    (void)state;
    assert_true(json_int(parsed("1e3"), &integer));
    assert_int_equal(integer, 1000);
    assert_false(json_int(parsed("1.5"), &integer));
    assert_true(json_double(parsed("1.5"), &real));
    assert_true(real == 1.5);
    assert_false(json_double(parsed("1e999"), &real));
    assert_false(json_int(parsed("\"1\""), &integer));
    assert_false(json_double(parsed("true"), &real));
    assert_false(json_int((struct json){0}, &integer));
    assert_int_equal(integer, 1000);
}

static void utf8_is_checked_as_rfc_3629_has_it(void **state)
{
    static const struct {
        const char *text;
        bool valid;
    } rows[] = {
        {"", true},
        {"ascii, \" \\ and \x01 too", true},
        {"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", true},
        {"\xed\x9f\xbf\xee\x80\x80", true},
        {"\x80", false},
        {"\xc0\x80", false},
        {"\xc1\xbf", false},
        {"\xe0\x9f\xbf", false},
        {"\xed\xa0\x80", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xf4\x90\x80\x80", false},
        {"\xf5\x80\x80\x80", false},
        {"exactly eight bytes then \xc3", false},
        {"\xe2\x82", false},
        {"\xc3(", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(json_utf8_valid(slice_of(rows[i].text)), rows[i].valid);
    assert_true(json_utf8_valid((struct slice){"\0", 1}));
    assert_true(json_utf8_valid((struct slice){0}));
}

/* A special byte is found wherever it stands in the eight that are looked at together. */
static void a_special_byte_is_seen_at_every_offset(void **state)
{
    static const char specials[] = {'\0', '\x1f', '"', '\xff', '\x80'};
    (void)state;
    for (size_t len = 1; len < 40; len++) {
        for (size_t at = 0; at < len; at++) {
            for (size_t i = 0; i < sizeof(specials); i++) {
                struct buf text;
                struct json value;
                buf_init(&text, 100);
                buf_add_char(&text, '"');
                for (size_t j = 0; j < len; j++)
                    buf_add_char(&text, j == at ? specials[i] : j % 2 ? '!' : '\x7f');
                buf_add_char(&text, '"');
                assert_int_equal(json_parse(buf_slice(&text), &value, NULL), STATUS_INVALID);
                text.ptr[1 + at] = '#';
                assert_int_equal(json_parse(buf_slice(&text), &value, NULL), STATUS_OK);
                buf_release(&text);
            }
        }
    }
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static size_t below(uint64_t *seed, size_t bound)
{
    return (size_t)(next_random(seed) % bound);
}

#define PICK(seed, words) (words)[below(seed, COUNT(words))]

static void make_space(struct buf *out, uint64_t *seed)
{
    static const char *const spaces[] = {"", "", "", "", " ", "\n", "\t \r"};
    buf_add_str(out, PICK(seed, spaces));
}

static void make_string(struct buf *out, uint64_t *seed)
{
    static const char *const parts[] = {
        "a",
        "key",
        "x y",
        "longer text without any care",
        "\\\"",
        "\\\\",
        "\\/",
        "\\b",
        "\\n",
        "\\u0041",
        "\\u00e9",
        "\\u20AC",
        "\\ud834\\udd1e",
        "\\u0000",
        "\x7f",
        "\xc3\xa9",
        "\xe2\x82\xac",
        "\xf0\x9d\x84\x9e",
        "\xef\xbf\xbf",
        "'",
    };
    buf_add_char(out, '"');
    for (size_t n = below(seed, 5); n > 0; n--)
        buf_add_str(out, PICK(seed, parts));
    buf_add_char(out, '"');
}

static void make_number(struct buf *out, uint64_t *seed)
{
    static const char *const numbers[] = {
        "0",
        "-0",
        "1",
        "-17",
        "0.5",
        "-0.0",
        "3.25e2",
        "1E-7",
        "1e+10",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "1e308",
        "1e309",
        "-1e-400",
        "123456789.123456789",
        "0e0",
        "100e-2",
        "4.9e-324",
    };
    if (below(seed, 2))
        buf_add_str(out, PICK(seed, numbers));
    else
        buf_addf(out, "%lld", (long long)next_random(seed) >> below(seed, 60));
}

static void make_value(struct buf *out, uint64_t *seed, int depth)
{
    static const char *const words[] = {"null", "true", "false"};
    size_t kind = below(seed, depth > 0 ? 10 : 6);
    make_space(out, seed);
    if (kind < 2) {
        make_string(out, seed);
    } else if (kind < 4) {
        make_number(out, seed);
    } else if (kind < 6) {
        buf_add_str(out, PICK(seed, words));
    } else {
        bool object = kind < 8;
        buf_add_char(out, object ? '{' : '[');
        for (size_t n = below(seed, 5); n > 0; n--) {
            if (object) {
                make_space(out, seed);
                make_string(out, seed);
                make_space(out, seed);
                buf_add_char(out, ':');
            }
            make_value(out, seed, depth - 1);
            if (n > 1)
                buf_add_char(out, ',');
        }
        make_space(out, seed);
        buf_add_char(out, object ? '}' : ']');
    }
    make_space(out, seed);
}

/* mutate changes a text in one place: a byte replaced, taken out or put in, or the end cut off. */
static void mutate(struct buf *text, uint64_t *seed)
{
    static const char bytes[] = "[]{}:,\"\\ \n\t01-+.eEutfnd\x01\x7f\x80\xc3\xed\xf4\xff";
    size_t at = below(seed, text->len + 1);
    char byte = below(seed, 4) ? bytes[below(seed, sizeof(bytes))] : (char)next_random(seed);
    struct buf changed;
    buf_init(&changed, text->max);
    buf_add(&changed, buf_str(text), at);
    size_t kind = below(seed, 8);
    if (kind < 5)
        buf_add_char(&changed, byte);
    size_t from = at + (kind >= 2 && at < text->len);
    if (kind < 7)
        buf_add(&changed, buf_str(text) + from, text->len - from);
    buf_release(text);
    *text = changed;
}

static void random_texts_read_as_jansson_reads_them(void **state)
{
    const char *given = getenv("LAZARET_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    (void)state;
    for (uint64_t i = 0; i < (given ? 1 : DOCUMENTS); i++) {
        uint64_t seed = first + i;
        struct buf text;
        buf_init(&text, 1 << 20);
        make_value(&text, &seed, 5);
        for (size_t n = below(&seed, 4); n > 0; n--)
            mutate(&text, &seed);

        /* A copy that ends where the text does, so that reading past it is seen. */
        char *copy = mem_alloc(text.len);
        assert_non_null(copy);
        memcpy(copy, buf_str(&text), text.len);
        const char *trouble = oracle_disagrees((struct slice){copy, text.len});
        if (trouble)
            fail_msg("LAZARET_SEED=%llu: %s: %s", (unsigned long long)(first + i), trouble,
                     buf_str(&text));
        mem_free(copy);
        buf_release(&text);
    }
}

static void several_members_are_gathered_as_they_are_got(void **state)
{
    static const char *const names[] = {"b", "none", "a", "c"};
    struct json object, gathered[4], got;
    (void)state;
    assert_int_equal(json_parse(SLICE("{\"a\":1,\"\\u0062\":[2],\"x\":{\"c\":9},\"a\":3,"
                                      "\"c\":null}"),
                                &object, NULL),
                     STATUS_OK);
    json_gather(object, names, 4, gathered);
    for (size_t i = 0; i < 4; i++) {
        json_get(object, names[i], &got);
        assert_int_equal(gathered[i].type, got.type);
        assert_true(slice_eq(gathered[i].raw, got.raw));
    }
    json_gather((struct json){0}, names, 4, gathered);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(gathered[i].raw.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_members_are_gathered_as_they_are_got),
        cmocka_unit_test(a_value_is_the_original_bytes_without_the_space_around),
        cmocka_unit_test(a_refusal_says_the_byte_and_what_is_wrong),
        cmocka_unit_test(values_in_a_row_are_read_one_by_one),
        cmocka_unit_test(children_come_in_order),
        cmocka_unit_test(only_containers_have_children),
        cmocka_unit_test(a_member_is_found_by_its_decoded_name_the_last_of_duplicates),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(a_string_is_copied_only_for_its_escapes),
        cmocka_unit_test(only_numbers_are_numbers),
        cmocka_unit_test(utf8_is_checked_as_rfc_3629_has_it),
        cmocka_unit_test(a_special_byte_is_seen_at_every_offset),
        cmocka_unit_test(random_texts_read_as_jansson_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
