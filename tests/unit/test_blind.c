/* The words of an item are no part of what went wrong with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/blind.h"
#include "core/signature.h"

/* blinded prints the message of a failure that happened to an item. */
static struct slice blinded(const char *message, const char *item, struct arena *arena)
{
    struct failure failure, out;
    struct json value;
    struct err err;
    failure_init(&failure);
    failure.message = slice_of(message);
    assert_int_equal(json_parse(slice_of(item), &value, &err), STATUS_OK);
    assert_int_equal(blind_failure(&failure, value, arena, &out, &err), STATUS_OK);
    return out.message;
}

static void the_words_of_an_item_are_taken_out(void **state)
{
    static const struct {
        const char *message, *item, *out;
    } cases[] = {
        {"foo.c: no such header", "\"foo.c\"", " : no such header"},
        {"cannot open src/foo.c", "\"src/foo.c\"", "cannot open  "},
        {"foo.c: bad", "\"src/foo.c\"", " : bad"},
        {"/x/src/foo.c: bad", "\"src/foo.c\"", "/x/ : bad"},
        {"user ada was refused", "{\"name\":\"ada\",\"n\":3}", "user   was refused"},
        {"[a] alas", "\"a\"", "[ ] alas"},
        {"alas a", "\"a\"", "alas  "},
        {"number 7 is odd", "7", "number 7 is odd"},
        {"nothing here", "\"\"", "nothing here"},
        {"", "\"x\"", ""},
        {"a list: x y", "[\"x\",\"y\"]", "a list:    "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct arena arena = {0};
        struct slice out = blinded(cases[i].message, cases[i].item, &arena);
        if (!slice_is(out, cases[i].out))
            fail_msg("%s of %s is \"%.*s\"", cases[i].message, cases[i].item, SLICE_ARG(out));
        arena_release(&arena);
    }
}

static void two_items_with_one_failure_have_one_fingerprint(void **state)
{
    char one[FINGERPRINT_LEN + 1], two[FINGERPRINT_LEN + 1];
    struct arena arena = {0};
    struct failure failure;
    (void)state;
    failure_init(&failure);
    failure.error_type = SLICE("CommandFailed");
    failure.message = blinded("alpha.txt: checksum mismatch", "\"alpha.txt\"", &arena);
    signature_fingerprint(&failure, one);
    failure.message = blinded("beta.txt: checksum mismatch", "\"beta.txt\"", &arena);
    signature_fingerprint(&failure, two);
    assert_string_equal(one, two);
    failure.message = blinded("beta.txt: no such header", "\"beta.txt\"", &arena);
    signature_fingerprint(&failure, two);
    assert_string_not_equal(one, two);
    arena_release(&arena);
}

static void the_step_is_the_same_for_every_item(void **state)
{
    static const char *const items[] = {"\"c\"", "\"exit\"", "\"other\""};
    char first[FINGERPRINT_LEN + 1], next[FINGERPRINT_LEN + 1];
    struct failure failure, out;
    struct err err;
    (void)state;
    failure_init(&failure);
    failure.error_type = SLICE("CommandFailed");
    failure.step_failed = SLICE("sh -c 'exit 1' {}");
    failure.message = SLICE("sh -c 'exit 1' {} failed with status 1");
    signature_fingerprint(&failure, first);
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        struct arena arena = {0};
        struct json item;
        assert_int_equal(json_parse(slice_of(items[i]), &item, &err), STATUS_OK);
        assert_int_equal(blind_failure(&failure, item, &arena, &out, &err), STATUS_OK);
        signature_fingerprint(&out, next);
        assert_string_equal(first, next);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_of_an_item_are_taken_out),
        cmocka_unit_test(two_items_with_one_failure_have_one_fingerprint),
        cmocka_unit_test(the_step_is_the_same_for_every_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
