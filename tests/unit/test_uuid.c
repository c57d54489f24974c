/* UUIDv7: layout, text form, order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/uuid.h"

/* The example of RFC 9562, appendix A.6: 2022-02-22T19:22:22Z. */
static void the_example_of_the_rfc_is_made(void **state)
{
    static const uint8_t random[10] = {0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f};
    char text[UUID_TEXT_LEN + 1];

    (void)state;
    uuid_format(uuid_v7((struct instant){INT64_C(1645557742000) * 1000}, random), text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

static void version_and_variant_stand_whatever_the_random_bytes(void **state)
{
    static const uint8_t fills[] = {0x00, 0xff, 0x55, 0xaa};

    (void)state;
    for (size_t i = 0; i < sizeof(fills); i++) {
        uint8_t random[10];
        memset(random, fills[i], sizeof(random));
        struct uuid uuid = uuid_v7((struct instant){1}, random);
        assert_int_equal(uuid.bytes[6] >> 4, 7);
        assert_int_equal(uuid.bytes[8] >> 6, 2);
        assert_int_equal(uuid.bytes[6] & 0x0f, fills[i] & 0x0f);
        assert_int_equal(uuid.bytes[15], fills[i]);
    }
}

static void texts_sort_by_time(void **state)
{
    static const uint8_t low[10] = {0}, high[10] = {255, 255, 255, 255, 255, 255, 255, 255, 255};
    char earlier[UUID_TEXT_LEN + 1], later[UUID_TEXT_LEN + 1];

    (void)state;
    for (int64_t ms = 1; ms < INT64_C(1) << 47; ms *= 3) {
        uuid_format(uuid_v7((struct instant){ms * 1000 + 999}, high), earlier);
        uuid_format(uuid_v7((struct instant){(ms + 1) * 1000}, low), later);
        assert_true(strcmp(earlier, later) < 0);
    }
}

static void a_time_before_1970_counts_as_1970(void **state)
{
    static const uint8_t random[10] = {0};
    char text[UUID_TEXT_LEN + 1];

    (void)state;
    uuid_format(uuid_v7((struct instant){INT64_MIN}, random), text);
    assert_string_equal(text, "00000000-0000-7000-8000-000000000000");
}

static void a_text_reads_back_in_either_case(void **state)
{
    static const char lower[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    static const char upper[] = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F";
    struct uuid uuid;
    char text[UUID_TEXT_LEN + 1];

    (void)state;
    assert_true(uuid_parse(slice_of(upper), &uuid));
    uuid_format(uuid, text);
    assert_string_equal(text, lower);
    assert_true(uuid_parse(slice_of(lower), &uuid));
    uuid_format(uuid, text);
    assert_string_equal(text, lower);
}

static void what_is_no_canonical_uuid_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398ff",
        "017f22e279b07cc398c4dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "017f22e2-79b0-7cc3-98c4_dc0c0c07398f",
        "017f22e-279b0-7cc3-98c4-dc0c0c07398f",
        "{17f22e2-79b0-7cc3-98c4-dc0c0c07398}",
        "../../../../../../../../etc/passwd-x",
    };
    struct uuid before, uuid;

    (void)state;
    memset(&before, 0x5a, sizeof(before));
    uuid = before;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(uuid_parse(slice_of(texts[i]), &uuid));
    assert_memory_equal(&uuid, &before, sizeof(uuid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_rfc_is_made),
        cmocka_unit_test(version_and_variant_stand_whatever_the_random_bytes),
        cmocka_unit_test(texts_sort_by_time),
        cmocka_unit_test(a_time_before_1970_counts_as_1970),
        cmocka_unit_test(a_text_reads_back_in_either_case),
        cmocka_unit_test(what_is_no_canonical_uuid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
