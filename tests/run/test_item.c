/* Items: what {} is, how an item goes into an envelope and comes back, its fields and its ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/item.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct json json_of(struct slice text)
{
    struct json json;

    assert_int_equal(json_parse(text, &json, NULL), STATUS_OK);
    return json;
}

static struct item value_item(const char *text)
{
    struct item item;

    assert_int_equal(item_from_value(json_of(slice_of(text)), &arena, &item, NULL), STATUS_OK);
    return item;
}

static struct item line_item(struct slice line)
{
    struct item item;

    assert_int_equal(item_from_line(line, &arena, &item, NULL), STATUS_OK);
    return item;
}

static void assert_bytes(struct slice got, struct slice wanted)
{
    assert_int_equal(got.len, wanted.len);
    assert_memory_equal(got.ptr, wanted.ptr, wanted.len);
}

static void a_value_is_its_text_or_compact_json(void **state)
{
    static const char *const cases[][2] = {
        {"\"a b\"", "a b"},
        {"\"\"", ""},
        {"\"caf\\u00e9\\n\\\"\"", "caf\xC3\xA9\n\""},
        {"5", "5"},
        {"1.50e+1", "1.50e+1"}, /* numbers as they are written */
        {"true", "true"},
        {"null", "null"},
        {"[]", "[]"},
        {"{\"a\":[1,{\"b\":null}]}", "{\"a\":[1,{\"b\":null}]}"},
        {" { \"a b\" :\t[ 1 ,\r\n 2 ] } ", "{\"a b\":[1,2]}"},
        {"[ \"a  b\" , \" \\\" , \" ]", "[\"a  b\",\" \\\" , \"]"},
        {"[\"\\\\\" , 1]", "[\"\\\\\",1]"},
        {"{\n  \"long text of many characters\": \"with  spaces \\\\\"\n}",
         "{\"long text of many characters\":\"with  spaces \\\\\"}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct item item = value_item(cases[i][0]);
        assert_bytes(item.bytes, slice_of(cases[i][1]));
        assert_int_equal(json_parse(item.value.raw, &item.value, NULL), STATUS_OK);
    }
}

static void what_needs_no_change_is_not_copied(void **state)
{
    static const char text[] = "{\"a\":[1,2,\"x y\"]}", string[] = "\"plain\"";
    size_t used = arena.used;

    (void)state;
    assert_ptr_equal(value_item(text).bytes.ptr, text);
    assert_ptr_equal(value_item(string).bytes.ptr, string + 1);
    assert_int_equal(arena.used, used);
}

static void a_line_is_a_json_string(void **state)
{
    static const struct {
        struct slice line, value;
    } cases[] = {
        {SLICE("a b"), SLICE("\"a b\"")},
        {SLICE(""), SLICE("\"\"")},
        {SLICE("a\"b\\c"), SLICE("\"a\\\"b\\\\c\"")},
        {SLICE("a\tb"), SLICE("\"a\\tb\"")},
        {SLICE("a\0b"), SLICE("\"a\\u0000b\"")},
        {SLICE("caf\xC3\xA9"), SLICE("\"caf\xC3\xA9\"")},
        {SLICE("a\xFF"
               "b"),
         SLICE("\"a\xEF\xBF\xBD"
               "b\"")},
        {SLICE("{\"a\":1}"), SLICE("\"{\\\"a\\\":1}\"")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct item item = line_item(cases[i].line);
        assert_int_equal(item.value.type, JSON_STRING);
        assert_bytes(item.value.raw, cases[i].value);
        assert_bytes(item.bytes, cases[i].line);
    }
    assert_bytes(line_item((struct slice){0}).bytes, SLICE(""));
}

/* inputs_of prints an item as the whole of `inputs`. */
static struct slice inputs_of(const struct item *item)
{
    struct jsonw w;
    struct buf buf;

    buf_init(&buf, 1 << 20);
    jsonw_init(&w, &buf);
    jsonw_object(&w);
    jsonw_put_int(&w, "before", 1);
    item_print(item, &w);
    jsonw_put_int(&w, "after", 2);
    jsonw_object_end(&w);
    struct slice copy = arena_dup(&arena, buf_slice(&buf));
    buf_release(&buf);
    return copy;
}

static void an_envelope_has_the_item_in_one_form(void **state)
{
    struct item spread = value_item(" [ 1 , \"\\u0061\" ] ");
    struct item escaped = value_item("\"\\u0061\\/\"");
    struct item line = line_item(SLICE("a/"));
    struct item bytes = line_item(SLICE("\xFF\xFE"
                                        "A"));

    (void)state;
    assert_bytes(inputs_of(&spread), SLICE("{\"before\":1,\"item\":[1,\"\\u0061\"],\"after\":2}"));
    assert_bytes(inputs_of(&escaped), SLICE("{\"before\":1,\"item\":\"a/\",\"after\":2}"));
    assert_bytes(inputs_of(&line), SLICE("{\"before\":1,\"item\":\"a/\",\"after\":2}"));
    assert_bytes(inputs_of(&bytes), SLICE("{\"before\":1,\"item\":\"\xEF\xBF\xBD\xEF\xBF\xBD"
                                          "A\","
                                          "\"item_bytes\":\"//5B\",\"after\":2}"));
}

static void assert_comes_back(const struct item *item)
{
    struct slice text = inputs_of(item);
    struct item back;

    assert_int_equal(item_parse(json_of(text), &arena, &back, NULL), STATUS_OK);
    assert_bytes(back.bytes, item->bytes);
    assert_int_equal(back.value.type, item->value.type);
    assert_bytes(inputs_of(&back), text);
}

static void every_item_comes_back_with_the_same_bytes(void **state)
{
    static const char *const values[] = {"\"\"",
                                         "\"a\\nb\\u0000c\"",
                                         "5",
                                         "-0.0",
                                         "null",
                                         "true",
                                         "[ ]",
                                         "{ \"item\" : 1 }",
                                         "{\"item_bytes\":\"AAAA\"}"};
    char all[256], *many = mem_alloc(10000);

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        struct item item = value_item(values[i]);
        assert_comes_back(&item);
    }
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    for (size_t len = 0; len <= 256; len++) {
        struct item item = line_item((struct slice){all + 256 - len, len});
        assert_comes_back(&item);
    }
    /* Longer than what is encoded at a time. */
    assert_non_null(many);
    memset(many, 0xFF, 10000);
    for (size_t len = 3070; len < 3075; len++) {
        struct item item = line_item((struct slice){many, len});
        assert_comes_back(&item);
    }
    struct item item = line_item((struct slice){many, 10000});
    assert_comes_back(&item);
    mem_free(many);
}

static void inputs_without_an_item_are_the_item(void **state)
{
    struct item item;

    (void)state;
    assert_int_equal(item_parse(json_of(SLICE("{ \"file\" : \"a\" }")), &arena, &item, NULL),
                     STATUS_OK);
    assert_bytes(item.bytes, SLICE("{\"file\":\"a\"}"));
    assert_int_equal(item_parse(json_of(SLICE("\"a\"")), &arena, &item, NULL), STATUS_OK);
    assert_bytes(item.bytes, SLICE("a"));
    assert_int_equal(item_parse((struct json){0}, &arena, &item, NULL), STATUS_OK);
    assert_bytes(item.bytes, SLICE("null"));
}

static void bytes_that_are_no_base64_are_refused(void **state)
{
    static const char *const cases[] = {
        "{\"item\":\"a\",\"item_bytes\":\"\"}",
        "{\"item\":\"a\",\"item_bytes\":\"AAA\"}",
        "{\"item\":\"a\",\"item_bytes\":\"AA A\"}",
        "{\"item\":\"a\",\"item_bytes\":\" AAA\"}",
        "{\"item\":\"a\",\"item_bytes\":\"A===\"}",
        "{\"item\":\"a\",\"item_bytes\":\"====\"}",
        "{\"item\":\"a\",\"item_bytes\":\"AA=A\"}",
        "{\"item\":\"a\",\"item_bytes\":\"AAA-\"}",
        "{\"item\":\"a\",\"item_bytes\":\"AAA\\u0000\"}",
        "{\"item\":\"a\",\"item_bytes\":5}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct item item = {.bytes = SLICE("untouched")};
        struct err err = {0};
        if (item_parse(json_of(slice_of(cases[i])), &arena, &item, &err) != STATUS_INVALID)
            fail_msg("%s is not refused", cases[i]);
        assert_string_equal(err.text, "inputs.item_bytes: is not base64");
        assert_bytes(item.bytes, SLICE("untouched"));
    }
}

static void fields_are_found_by_names_and_positions(void **state)
{
    static const char item[] = "{\"a\":{\"b\":[10,{\"c\":\"x\"}],\"0\":\"zero\"},\"\\u0064\":4,"
                               "\"e\":1,\"e\":2,\"n\":null,\"dash-ed\":7}";
    static const char *const cases[][2] = {
        {"a.b.0", "10"},  {"a.b.1.c", "\"x\""}, {"a.0", "\"zero\""},
        {"d", "4"},       {"e", "2"},           {"n", "null"},
        {"dash-ed", "7"}, {"a.b.2", NULL},      {"a.b.-1", NULL},
        {"a.b.x", NULL},  {"a.b.", NULL},       {"a.b.99999999999999999999", NULL},
        {"a.c", NULL},    {"d.x", NULL},        {"a..b", NULL},
        {".a", NULL},     {"x", NULL},          {"a.b.01", "{\"c\":\"x\"}"},
        {"", item},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json value;
        bool found = item_field(json_of(slice_of(item)), slice_of(cases[i][0]), &value);
        if (found != (cases[i][1] != NULL))
            fail_msg("%s", cases[i][0]);
        if (found)
            assert_bytes(value.raw, slice_of(cases[i][1]));
    }
}

static struct slice id_of(struct item item, const char *field)
{
    struct err err = {0};
    struct buf buf;

    buf_init(&buf, 1024);
    if (item_id(&item, field, &buf, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct slice copy = arena_dup(&arena, buf_slice(&buf));
    buf_release(&buf);
    return copy;
}

static void an_id_is_a_hash_of_bytes_and_kind(void **state)
{
    struct slice five = id_of(value_item("5"), NULL);

    (void)state;
    assert_int_equal(five.len, 16);
    /* It is written in files and must never change. */
    assert_bytes(five, SLICE("17c328f22b29491a"));
    assert_bytes(id_of(value_item("\"a b\""), NULL), SLICE("39dc2385827be127"));
    assert_bytes(id_of(value_item("\"\\u0061 b\""), NULL), id_of(line_item(SLICE("a b")), NULL));
    assert_bytes(id_of(value_item("[1, 2]"), NULL), id_of(value_item("[1,2]"), NULL));
    assert_false(slice_eq(id_of(value_item("\"5\""), NULL), five));
    assert_false(slice_eq(id_of(value_item("6"), NULL), five));
}

static void an_id_can_be_a_field(void **state)
{
    struct item item = value_item("{\"id\":\"x-1\",\"n\":1.50,\"deep\":{\"id\":[1, 2]},"
                                  "\"odd\":\"a\\nb\\u007f\\u0085\\u00e9 %\",\"t\":true}");

    (void)state;
    assert_bytes(id_of(item, "id"), SLICE("x-1"));
    assert_bytes(id_of(item, "n"), SLICE("1.50"));
    assert_bytes(id_of(item, "deep.id"), SLICE("[1,2]"));
    assert_bytes(id_of(item, "t"), SLICE("true"));
    assert_bytes(id_of(item, "odd"), SLICE("a%0Ab%7F%C2%85\xC3\xA9 %"));
}

static void a_long_id_ends_in_a_hash_of_the_whole(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 4096);
    for (size_t len = 118; len <= 122; len++) {
        buf_clear(&text);
        buf_addf(&text, "{\"id\":\"%0*d\"}", (int)len, 7);
        struct slice id = id_of(value_item(buf_str(&text)), "id");
        assert_int_equal(id.len, len <= ITEM_ID_MAX ? len : ITEM_ID_MAX);
    }
    struct slice last = id_of(value_item(buf_str(&text)), "id");
    assert_int_equal(last.ptr[ITEM_ID_MAX - 17], '-');
    buf_clear(&text);
    buf_addf(&text, "{\"id\":\"%0*d\"}", 122, 8);
    assert_false(slice_eq(id_of(value_item(buf_str(&text)), "id"), last));

    /* Neither a character nor an escape is cut in two. */
    for (int lead = 0; lead < 4; lead++) {
        buf_clear(&text);
        buf_addf(&text, "{\"id\":\"%.*s", lead, "aaa");
        for (int i = 0; i < 100; i++)
            buf_add_str(&text, i % 2 ? "\xF0\x9F\x98\x80" : "\\n");
        buf_add_str(&text, "\"}");
        struct slice id = id_of(value_item(buf_str(&text)), "id");
        assert_true(id.len <= ITEM_ID_MAX && id.len > ITEM_ID_MAX - 5);
        assert_true(json_utf8_valid(id));
        struct slice kept = {id.ptr, id.len - 17};
        assert_true(kept.ptr[kept.len - 1] == 'A' || kept.ptr[kept.len - 1] == '\x80');
    }
    buf_release(&text);
}

static void an_id_that_is_missing_is_an_error(void **state)
{
    static const struct {
        const char *item, *field, *sentence;
    } cases[] = {
        {"{\"a\":1}", "id", "the item has no field \"id\""},
        {"{\"id\":null}", "id", "the item has no field \"id\""},
        {"{\"id\":\"\"}", "id", "the field \"id\", the item's id, is empty"},
        {"\"a line\"", "id", "the item has no field \"id\": it is a string"},
        {"7", "meta.id", "the item has no field \"meta.id\": it is a number"},
        {"null", "id", "the item has no field \"id\": it is null"},
        {"[1]", "1", "the item has no field \"1\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct item item = value_item(cases[i].item);
        struct err err = {0};
        struct buf buf;
        buf_init(&buf, 1024);
        assert_int_equal(item_id(&item, cases[i].field, &buf, &err), STATUS_INVALID);
        assert_string_equal(err.text, cases[i].sentence);
        assert_int_equal(buf.len, 0);
        buf_release(&buf);
    }
}

/* work makes, prints, reads and names items; each allocation of it fails once. */
static enum status work(struct slice line, struct json value)
{
    struct item item;
    struct jsonw w;
    struct json json;
    struct buf buf;
    enum status status = item_from_value(value, &arena, &item, NULL);

    if (status == STATUS_OK)
        status = item_from_line(line, &arena, &item, NULL);
    if (status != STATUS_OK)
        return status;
    buf_init(&buf, 1 << 20);
    jsonw_init(&w, &buf);
    jsonw_object(&w);
    item_print(&item, &w);
    jsonw_object_end(&w);
    status = buf_status(&buf, NULL);
    if (status == STATUS_OK) {
        assert_int_equal(json_parse(buf_slice(&buf), &json, NULL), STATUS_OK);
        status = item_parse(json, &arena, &item, NULL);
    }
    if (status == STATUS_OK) {
        buf_clear(&buf);
        item.value = value;
        status = item_id(&item, "a", &buf, NULL);
    }
    buf_release(&buf);
    return status;
}

static void every_failed_allocation_is_reported(void **state)
{
    struct json value = json_of(SLICE("{ \"a\" : [ 1, \"\\n\" ] }"));
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;

    (void)state;
    while (status != STATUS_OK) {
        arena_release(&arena);
        mem_fail_after(++n);
        status = work(SLICE("\xFF line"), value);
        mem_fail_after(0);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_value_is_its_text_or_compact_json, empty_arena),
        cmocka_unit_test_teardown(what_needs_no_change_is_not_copied, empty_arena),
        cmocka_unit_test_teardown(a_line_is_a_json_string, empty_arena),
        cmocka_unit_test_teardown(an_envelope_has_the_item_in_one_form, empty_arena),
        cmocka_unit_test_teardown(every_item_comes_back_with_the_same_bytes, empty_arena),
        cmocka_unit_test_teardown(inputs_without_an_item_are_the_item, empty_arena),
        cmocka_unit_test_teardown(bytes_that_are_no_base64_are_refused, empty_arena),
        cmocka_unit_test_teardown(fields_are_found_by_names_and_positions, empty_arena),
        cmocka_unit_test_teardown(an_id_is_a_hash_of_bytes_and_kind, empty_arena),
        cmocka_unit_test_teardown(an_id_can_be_a_field, empty_arena),
        cmocka_unit_test_teardown(a_long_id_ends_in_a_hash_of_the_whole, empty_arena),
        cmocka_unit_test_teardown(an_id_that_is_missing_is_an_error, empty_arena),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported, empty_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
