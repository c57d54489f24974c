/* Signatures: the example of Standard Webhooks, and secrets as they are handed around. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bridge/sign.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID "msg_p5jXN8AQM9LWM0D4loKWxJek"

static struct buf key, out;

static int set_up(void **state)
{
    (void)state;
    buf_init(&key, 1024);
    buf_init(&out, 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&key);
    buf_release(&out);
    return 0;
}

static const char *sign(const char *id, struct instant now, const char *body)
{
    buf_clear(&out);
    sign_webhook(buf_slice(&key), slice_of(id), now, slice_of(body), &out);
    assert_int_equal(out.status, STATUS_OK);
    return buf_str(&out);
}

static void the_example_of_standard_webhooks_is_signed_as_it_says(void **state)
{
    const struct instant now = {INT64_C(1614265330) * 1000000};
    const struct instant later = {now.us + 999999};
    const char *signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    (void)state;
    assert_int_equal(sign_secret(SLICE(SECRET), &key, NULL), STATUS_OK);
    assert_int_equal(key.len, 24);
    assert_string_equal(sign(ID, now, "{\"test\": 2432232314}"), signature);
    assert_string_equal(sign(ID, later, "{\"test\": 2432232314}"), signature);
}

static void every_part_counts(void **state)
{
    const struct instant now = {INT64_C(1614265330) * 1000000}, next = {now.us + 1000000};
    char first[64];

    (void)state;
    assert_int_equal(sign_secret(SLICE(SECRET), &key, NULL), STATUS_OK);
    snprintf(first, sizeof(first), "%s", sign("id", now, "body"));
    assert_string_equal(sign("id", now, "body"), first);
    assert_string_not_equal(sign("ie", now, "body"), first);
    assert_string_not_equal(sign("id", next, "body"), first);
    assert_string_not_equal(sign("id", now, "bodz"), first);
    assert_string_not_equal(sign("id", now, ""), first);
    key.ptr[0] ^= 1;
    assert_string_not_equal(sign("id", now, "body"), first);
}

static void a_secret_that_is_no_base64_is_its_bytes(void **state)
{
    (void)state;
    assert_int_equal(sign_secret(SLICE("sixteen bytes...\n"), &key, NULL), STATUS_OK);
    assert_true(slice_is(buf_slice(&key), "sixteen bytes...\n"));
}

#define AAAA64 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static void secrets_have_their_bounds(void **state)
{
    static const struct {
        const char *text;
        size_t len; /* of the key; 0: it is refused */
        const char *says;
    } rows[] = {
        {"", 0, "from 16 to 64 bytes, not 0"},
        {"fifteen bytes..", 0, "from 16 to 64 bytes, not 15"},
        {"sixteen bytes...", 16, NULL},
        {AAAA64, 64, NULL},
        {AAAA64 "A", 0, "not 65"},
        {"whsec_", 0, "not 0"},
        {"whsec_AAAAAAAAAAAAAAAAAAAA", 0, "not 15"},
        {"whsec_AAAAAAAAAAAAAAAAAAAAAA==", 16, NULL},
        {"whsec_AAAAAAAAAAAAAAAAAAAAAAA=", 17, NULL},
        {"whsec_AAAAAAAAAAAAAAAAAAAAAA", 0, "no base64"},
        {"whsec_AAAAAAAAAAAAAAAAAAAAA===", 0, "no base64"},
        {"whsec_AAAAAAAAAAAAAAAAAAAA-_AA", 0, "no base64"},
        {"whsec_AAAAAAAAAAAA==AAAAAAAAAA", 0, "no base64"},
        {"whsec_AAAAAAAAAAAAAAAAAAAAAAA\n", 0, "no base64"},
        {"whsec_" AAAA64 "AAAAAAAAAAAAAAAAAAAAAA==", 64, NULL},
        {"whsec_" AAAA64 "AAAAAAAAAAAAAAAAAAAAAAA=", 0, "not 65"},
        {"whsec_" AAAA64 AAAA64 AAAA64, 0, "not 144"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err err = {0};
        buf_clear(&key);
        enum status status = sign_secret(slice_of(rows[i].text), &key, &err);
        if (status != (rows[i].len ? STATUS_OK : STATUS_INVALID) || key.len != rows[i].len)
            fail_msg("%s: %d, %zu bytes: %s", rows[i].text, status, key.len, err.text);
        if (rows[i].says && !strstr(err.text, rows[i].says))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

static void a_refusal_does_not_show_the_secret(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(sign_secret(SLICE("whsec_hunter2"), &key, &err), STATUS_INVALID);
    assert_null(strstr(err.text, "hunter2"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_example_of_standard_webhooks_is_signed_as_it_says),
        TEST(every_part_counts),
        TEST(a_secret_that_is_no_base64_is_its_bytes),
        TEST(secrets_have_their_bounds),
        TEST(a_refusal_does_not_show_the_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
