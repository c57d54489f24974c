/* The servers of NATS as one text: what libnats is given, what people are told, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bridge/natsurl.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void a_list_has_its_servers(void **state)
{
    static const struct {
        const char *text;
        const char *servers[3];
        const char *place;
        bool tls, secret;
    } cases[] = {
        {"nats://a", {"nats://a:4222"}, "nats://a:4222", false, false},
        {"127.0.0.1:17", {"nats://127.0.0.1:17"}, "nats://127.0.0.1:17", false, false},
        {"nats://a/", {"nats://a:4222"}, "nats://a:4222", false, false},
        {"nats://a:1,tls://b",
         {"nats://a:1", "tls://b:4222"},
         "nats://a:1,tls://b:4222",
         true,
         false},
        {"nats://[::1]:9,b",
         {"nats://[::1]:9", "nats://b:4222"},
         "nats://[::1]:9,nats://b:4222",
         false,
         false},
        {"nats://ada:secret@a,nats://t0k@b:5",
         {"nats://ada:secret@a:4222", "nats://t0k@b:5"},
         "nats://a:4222,nats://b:5",
         false,
         true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        struct natsurl url = {0};
        struct err err = {0};
        if (natsurl_read(cases[i].text, &arena, &url, &err) != STATUS_OK)
            fail_msg("%s: %s", cases[i].text, err.text);
        for (int n = 0; n < url.count; n++)
            assert_string_equal(url.servers[n], cases[i].servers[n]);
        assert_true(url.count == 3 || !cases[i].servers[url.count]);
        assert_string_equal(url.place, cases[i].place);
        assert_int_equal(url.tls, cases[i].tls);
        assert_int_equal(url.secret, cases[i].secret);
        arena_release(&arena);
    }
}

/* libnats decodes nothing of a URL, and writes user and password into its JSON as they are. */
static void a_password_may_have_any_character(void **state)
{
    static const struct {
        const char *text, *server;
    } cases[] = {
        {"nats://ada:p%40ss@a", "nats://ada:p\\u0040ss@a:4222"},
        {"nats://ada:p@ss@a", "nats://ada:p\\u0040ss@a:4222"},
        {"nats://ada:a:b@a", "nats://ada:a\\u003ab@a:4222"},
        {"nats://a%3Ab:c@a", "nats://a\\u003ab:c@a:4222"},
        {"nats://ada:x\"y\\z@a", "nats://ada:x\\u0022y\\u005cz@a:4222"},
        {"nats://ada:100%@a", "nats://ada:100\\u0025@a:4222"},
        {"nats://ada:%zz%4@a", "nats://ada:\\u0025zz\\u00254@a:4222"},
        {"nats://ada:%C3%BC@a", "nats://ada:\xc3\xbc@a:4222"},
        {"nats://t0k%20en@a", "nats://t0k\\u0020en@a:4222"},
        {"nats://ada:@a", "nats://ada:@a:4222"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        struct natsurl url = {0};
        assert_int_equal(natsurl_read(cases[i].text, &arena, &url, NULL), STATUS_OK);
        assert_string_equal(url.servers[0], cases[i].server);
        assert_string_equal(url.place, "nats://a:4222");
        arena_release(&arena);
    }
}

static void what_is_wrong_is_said_without_repeating_it(void **state)
{
    static const char *const cases[] = {
        "",           "nats://",     "http://secret",     "nats://secret:0", "nats://secret:65536",
        "nats://a,",  ",nats://a",   "nats://[::1",       "nats://[secret]", "nats://[]",
        "nats://a b", "nats://a\nb", "nats://secret:1x",  "nats://a/secret", "nats://x:secret@",
        "nats://a?b", "://secret",   "nats://secret:1:2", "nats://-secret$",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        struct natsurl url = {.count = 77};
        struct err err = {0};
        if (natsurl_read(cases[i], &arena, &url, &err) != STATUS_INVALID)
            fail_msg("\"%s\" was taken", cases[i]);
        assert_non_null(strstr(err.text, "the URL of NATS"));
        assert_null(strstr(err.text, "secret"));
        assert_int_equal(url.count, 77);
        arena_release(&arena);
    }
}

static void there_are_bounds(void **state)
{
    char text[10000];
    struct arena arena = {0};
    struct natsurl url;
    (void)state;
    text[0] = 'a';
    for (size_t i = 1; i < 127; i += 2)
        memcpy(text + i, ",a", 3);
    assert_int_equal(natsurl_read(text, &arena, &url, NULL), STATUS_OK);
    assert_int_equal(url.count, NATSURL_SERVERS_MAX);
    memcpy(text + 127, ",a", 3);
    assert_int_equal(natsurl_read(text, &arena, &url, NULL), STATUS_INVALID);
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(natsurl_read(text, &arena, &url, NULL), STATUS_INVALID);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_its_servers),
        cmocka_unit_test(a_password_may_have_any_character),
        cmocka_unit_test(what_is_wrong_is_said_without_repeating_it),
        cmocka_unit_test(there_are_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
