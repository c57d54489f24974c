/* Seeds and public keys of NATS.  The pairs were made with the command openssl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bridge/nkey.h"

#define SEED "SUAA2SLQLG2D24I3J4EV2S5ENDYDXP6N4LR6ULKTILD4CT2BMBP3YIQBRA"

static void a_seed_has_its_public_key(void **state)
{
    static const char *const pairs[][2] = {
        {SEED, "UAEJB6OSYSKPBHETIVIT3NUEDHEQX3BO5GQUKB4XAUOJAY7SAZ3F7II7"},
        {"SUAI4K7VDRZEDUUU2XZC6MDNQ6YIBTFVKPS4QLTZM6WMMAKJQRZU7DY6TE",
         "UBFB7RVD2AE2HQ4HLVICRZ6T3PM3P3VHTSPSWS2BK7OUIETYXRPUFHEF"},
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char public[NKEY_PUBLIC_LEN + 1];
        assert_int_equal(nkey_public(slice_of(pairs[i][0]), public, NULL), STATUS_OK);
        assert_string_equal(public, pairs[i][1]);
    }
}

/* Whichever character is changed, the checksum, or the alphabet, tells. */
static void a_damaged_seed_is_refused(void **state)
{
    char seed[] = SEED, public[NKEY_PUBLIC_LEN + 1] = "untouched";
    struct err err;
    (void)state;
    for (size_t i = 0; i < NKEY_SEED_LEN; i++) {
        char was = seed[i];
        for (const char *other = "ABCDEFGHIJKLMNOPQRSTUVWXYZ2345670189a="; *other; other++) {
            seed[i] = *other;
            if (*other != was)
                assert_int_equal(nkey_public(slice_of(seed), public, &err), STATUS_INVALID);
        }
        seed[i] = was;
    }
    assert_int_equal(nkey_public((struct slice){seed, NKEY_SEED_LEN - 1}, public, &err),
                     STATUS_INVALID);
    /* an account's */
    assert_int_equal(
        nkey_public(SLICE("SAACI7K4DFFIWKMAJQTWYVK3PZOIHOOC3BG4YXXUXJU25UDEMGVD4NKI3E"), public,
                    &err),
        STATUS_INVALID);
    assert_string_equal(public, "untouched");
}

static void a_seed_is_found_among_other_lines(void **state)
{
    static const char *const texts[] = {SEED, SEED "\n", "\t" SEED "\r\n",
                                        "SU\nSUshort\n-----BEGIN USER NKEY SEED-----\n" SEED
                                        "\n------END USER NKEY SEED------\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_true(slice_is(nkey_find(slice_of(texts[i])), SEED));
    assert_int_equal(nkey_find(SLICE("")).len, 0);
    assert_int_equal(nkey_find(SLICE("x" SEED)).len, 0);
    assert_int_equal(nkey_find(SLICE(SEED "x")).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_has_its_public_key),
        cmocka_unit_test(a_damaged_seed_is_refused),
        cmocka_unit_test(a_seed_is_found_among_other_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
