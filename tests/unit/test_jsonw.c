/* test_jsonw: what is written is JSON, whatever it was made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/json.h"
#include "base/jsonw.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void members_and_elements_are_separated(void **state)
{
    struct buf buf;
    struct jsonw w;
    (void)state;
    buf_init(&buf, 1000);
    jsonw_init(&w, &buf);
    jsonw_object(&w);
    jsonw_put_str(&w, "a", "x");
    jsonw_put_int(&w, "b", -7);
    jsonw_key(&w, "c");
    jsonw_array(&w);
    jsonw_array(&w);
    jsonw_array_end(&w);
    jsonw_object(&w);
    jsonw_object_end(&w);
    jsonw_null(&w);
    jsonw_bool(&w, true);
    jsonw_double(&w, 0.5);
    jsonw_array_end(&w);
    jsonw_put_bool(&w, "d", false);
    jsonw_put_double(&w, "e", (double)NAN);
    jsonw_put_instant(&w, "f", (struct instant){1000});
    jsonw_put_instant(&w, "g", INSTANT_NONE);
    jsonw_put_raw(&w, "h", SLICE("{\"kept\" : 1.0}"));
    jsonw_put_raw(&w, "i", (struct slice){0});
    jsonw_put_text(&w, "left out", (struct slice){0});
    jsonw_put_text(&w, "j", SLICE("y"));
    jsonw_put_string(&w, "k", (struct slice){0});
    jsonw_put_str(&w, "l", NULL);
    jsonw_object_end(&w);
    assert_string_equal(buf_str(&buf),
                        "{\"a\":\"x\",\"b\":-7,\"c\":[[],{},null,true,0.5],\"d\":false,\"e\":null,"
                        "\"f\":\"1970-01-01T00:00:00.001Z\",\"g\":null,\"h\":{\"kept\" : 1.0},"
                        "\"i\":null,\"j\":\"y\",\"k\":\"\",\"l\":\"\"}");
    buf_release(&buf);
}

static void extreme_integers_are_written(void **state)
{
    static const struct {
        int64_t value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-1, "-1"},
        {10, "10"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };
    struct buf buf;
    struct jsonw w;
    (void)state;
    buf_init(&buf, 100);
    for (size_t i = 0; i < COUNT(rows); i++) {
        buf_clear(&buf);
        jsonw_init(&w, &buf);
        jsonw_int(&w, rows[i].value);
        assert_string_equal(buf_str(&buf), rows[i].text);
    }
    buf_release(&buf);
}

/* The broken ones are replaced as Unicode recommends: one U+FFFD for each maximal subpart. */
static void strings_are_escaped_and_repaired(void **state)
{
#define FFFD "\xEF\xBF\xBD"
    static const struct {
        struct slice text;
        const char *json;
    } rows[] = {
        {{"", 0}, "\"\""},
        {{"plain", 5}, "\"plain\""},
        {{"\"\\/\b\f\n\r\t", 8}, "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {{"\0\x01\x1f\x7f", 4}, "\"\\u0000\\u0001\\u001f\x7f\""},
        {{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9d\x84\x9e", 14},
         "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9d\x84\x9e\""},
        {{"\xff", 1}, "\"" FFFD "\""},
        {{"a\x80\x80z", 4}, "\"a" FFFD FFFD "z\""},
        {{"\xc0\xaf", 2}, "\"" FFFD FFFD "\""},
        {{"\xe2\x82z", 3}, "\"" FFFD "z\""},
        {{"\xf0\x9d\x84", 3}, "\"" FFFD "\""},
        {{"\xf0\x80\x80\x41", 4}, "\"" FFFD FFFD FFFD "A\""},
        {{"\xed\xa0\x80", 3}, "\"" FFFD FFFD FFFD "\""},
        {{"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9},
         "\"" FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B\""},
    };
#undef FFFD
    struct buf buf;
    struct jsonw w;
    (void)state;
    buf_init(&buf, 1000);
    for (size_t i = 0; i < COUNT(rows); i++) {
        buf_clear(&buf);
        jsonw_init(&w, &buf);
        jsonw_string(&w, rows[i].text);
        assert_string_equal(buf_str(&buf), rows[i].json);
    }
    buf_release(&buf);
}

static void any_bytes_at_any_offset_give_a_valid_string(void **state)
{
    struct buf buf;
    struct jsonw w;
    struct arena arena = {0};
    uint64_t seed = 9;
    (void)state;
    buf_init(&buf, 1000);
    for (int i = 0; i < 20000; i++) {
        char bytes[40];
        bool ascii = i % 2;
        for (size_t j = 0; j < sizeof(bytes); j++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            bytes[j] = (char)(seed >> 56 & (ascii ? 0x7F : 0xFF));
        }
        struct slice text = {bytes + i % 7, (size_t)i % 33}, back;
        struct json value;
        buf_clear(&buf);
        jsonw_init(&w, &buf);
        jsonw_string(&w, text);
        assert_int_equal(json_parse(buf_slice(&buf), &value, NULL), STATUS_OK);
        back = json_text(value, &arena);
        assert_non_null(back.ptr);
        if (json_utf8_valid(text))
            assert_true(slice_eq(back, text));
        else
            assert_true(!ascii && !slice_eq(back, text));
        arena_reset(&arena);
    }
    arena_release(&arena);
    buf_release(&buf);
}

static void a_full_buffer_is_said_once_at_the_end(void **state)
{
    struct buf buf;
    struct jsonw w;
    struct err err;
    (void)state;
    buf_init(&buf, 10);
    jsonw_init(&w, &buf);
    jsonw_object(&w);
    jsonw_put_str(&w, "key", "a value that does not fit");
    jsonw_object_end(&w);
    assert_int_equal(buf_status(&buf, &err), STATUS_TOO_LARGE);
    buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_and_elements_are_separated),
        cmocka_unit_test(extreme_integers_are_written),
        cmocka_unit_test(strings_are_escaped_and_repaired),
        cmocka_unit_test(any_bytes_at_any_offset_give_a_valid_string),
        cmocka_unit_test(a_full_buffer_is_said_once_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
