/* Addresses of endpoints: what is taken, in which plain form, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/url.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct url url_of(const char *text)
{
    struct url url = {0};
    struct err err = {0};

    if (url_parse(slice_of(text), &url, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return url;
}

static void an_address_has_its_parts(void **state)
{
    static const struct {
        const char *text;
        bool tls;
        const char *host;
        bool bracketed;
        unsigned port;
        const char *path;
    } cases[] = {
        {"http://example.org", false, "example.org", false, 80, ""},
        {"https://example.org", true, "example.org", false, 443, ""},
        {"HTTPS://Example.ORG/", true, "Example.ORG", false, 443, "/"},
        {"http://example.org:8080/a/b?c=d&e=/f?", false, "example.org", false, 8080,
         "/a/b?c=d&e=/f?"},
        {"http://example.org?x=1", false, "example.org", false, 80, "?x=1"},
        {"http://example.org./a", false, "example.org", false, 80, "/a"},
        {"http://example.org.:81", false, "example.org", false, 81, ""},
        {"http://127.0.0.1:1/", false, "127.0.0.1", false, 1, "/"},
        {"http://127.0.0.1.", false, "127.0.0.1", false, 80, ""},
        {"https://[::1]", true, "::1", true, 443, ""},
        {"http://[2001:DB8::1]:65535/x", false, "2001:DB8::1", true, 65535, "/x"},
        {"http://[::ffff:127.0.0.1]/", false, "::ffff:127.0.0.1", true, 80, "/"},
        {"http://localhost", false, "localhost", false, 80, ""},
        {"http://my_host-1.internal", false, "my_host-1.internal", false, 80, ""},
        {"http://xn--bcher-kva.example", false, "xn--bcher-kva.example", false, 80, ""},
        {"http://1.2.3.4.example", false, "1.2.3.4.example", false, 80, ""},
        {"http://0xyz", false, "0xyz", false, 80, ""},
        {"http://1a", false, "1a", false, 80, ""},
        {"http://h/%2e%2E/%00?a=%41", false, "h", false, 80, "/%2e%2E/%00?a=%41"},
        {"http://h/a@b:c", false, "h", false, 80, "/a@b:c"},
        {"http://h?user@host", false, "h", false, 80, "?user@host"},
        {"http://h/!$&'()*+,;=:@-._~[]", false, "h", false, 80, "/!$&'()*+,;=:@-._~[]"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct url url = url_of(cases[i].text);
        if (url.tls != cases[i].tls || url.bracketed != cases[i].bracketed ||
            url.port != cases[i].port || !slice_is(url.host, cases[i].host) ||
            !slice_is(url.path, cases[i].path))
            fail_msg("%s: host %.*s, port %u, path %.*s", cases[i].text, SLICE_ARG(url.host),
                     (unsigned)url.port, SLICE_ARG(url.path));
    }
}

static const char number_sentence[] = "ends in a number must be an IPv4 address";
static const char name_sentence[] = "must be of letters, digits";
static const char ascii_sentence[] = "must not have spaces, control characters";

static void what_could_be_read_in_two_ways_is_refused(void **state)
{
    const struct {
        const char *text, *said;
    } cases[] = {
        {"", "must begin with http:// or https://"},
        {"example.org", "must begin with"},
        {"//example.org", "must begin with"},
        {"ftp://example.org", "must begin with"},
        {"file:///etc/passwd", "must begin with"},
        {"gopher://127.0.0.1:6379/_", "must begin with"},
        {"http:/example.org", "must begin with"},
        {"http:example.org", "must begin with"},
        {"httpss://example.org", "must begin with"},
        {" http://example.org", ascii_sentence},
        /* Users and passwords, and what looks like a host before one. */
        {"http://user@example.org", "a user or a password"},
        {"http://user:geheim@example.org", "a user or a password"},
        {"http://example.org@127.0.0.1/", "a user or a password"},
        {"http://@127.0.0.1", "a user or a password"},
        {"http://a:80@b:90/", "a user or a password"},
        {"http://example.org%40127.0.0.1/", name_sentence},
        /* Backslashes, which some clients take for slashes. */
        {"http:\\\\example.org", "must not have a \\"},
        {"http://example.org\\@127.0.0.1/", "must not have a \\"},
        {"http://example.org/\\..", "must not have a \\: write it as %5C"},
        /* Numbers that are an address for some and a name for others. */
        {"http://127.1", number_sentence},
        {"http://127.1:80/x", number_sentence},
        {"http://2130706433", number_sentence},
        {"http://0x7f000001", number_sentence},
        {"http://0X7F000001/", number_sentence},
        {"http://0x", number_sentence},
        {"http://0177.0.0.1", number_sentence},
        {"http://0x7f.0.0.1", number_sentence},
        {"http://0", number_sentence},
        {"http://127.0.0.01", number_sentence},
        {"http://256.0.0.1", number_sentence},
        {"http://1.2.3.4.5", number_sentence},
        {"http://1.2.3", number_sentence},
        {"http://example.7", number_sentence},
        {"http://example.0x7f", number_sentence},
        {"http://99999999999999999999", number_sentence},
        {"http://2130706433.", number_sentence},
        /* Hosts that are none. */
        {"http://", "the host is missing"},
        {"http:///x", "the host is missing"},
        {"http://:80", "the host is missing"},
        {"http://.", "the host is missing"},
        {"http://?x", "the host is missing"},
        {"http://..", "must have 1 to 63 characters"},
        {"http://.example.org", "must have 1 to 63 characters"},
        {"http://example..org", "must have 1 to 63 characters"},
        {"http://example.org..", "must have 1 to 63 characters"},
        {"http://127.0.0.1..", "must have 1 to 63 characters"},
        {"http://%31%32%37.0.0.1", name_sentence},
        {"http://loc%61lhost", name_sentence},
        {"http://a,b", name_sentence},
        {"http://a;b", name_sentence},
        {"http://*.example.org", name_sentence},
        {"http://b\xc3\xbc"
         "cher.example",
         ascii_sentence},
        {"http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", ascii_sentence},
        {"http://\xe2\x91\xa0.1.1.1", ascii_sentence},
        {"http://example\xe3\x80\x82org", ascii_sentence},
        /* IPv6 that is none, or has a zone. */
        {"http://[]", "in brackets there must be an IPv6 address"},
        {"http://[", "in brackets"},
        {"http://[::1", "in brackets"},
        {"http://[127.0.0.1]", "in brackets"},
        {"http://[example.org]", "in brackets"},
        {"http://[::1%25eth0]", "in brackets"},
        {"http://[fe80::1%eth0]/", "after a % there must be two hex digits"},
        {"http://[v1.x]", "in brackets"},
        {"http://[::1]x", "after the host there must be a port or a path"},
        {"http://[::1].example.org", "after the host there must be a port or a path"},
        {"http://[::1][::1]", "after the host there must be a port or a path"},
        {"http://::1", "the host is missing"},
        {"http://::1/", "the host is missing"},
        {"http://fe80::1", "the port must be a number"},
        {"http://x[::1]", name_sentence},
        /* Ports. */
        {"http://h:0", "the port must be a number from 1 to 65535"},
        {"http://h:65536", "the port must be"},
        {"http://h:99999", "the port must be"},
        {"http://h:", "the port must be"},
        {"http://h:/x", "the port must be"},
        {"http://h:080", "the port must be"},
        {"http://h:000080", "the port must be"},
        {"http://h:+80", "the port must be"},
        {"http://h:-1", "the port must be"},
        {"http://h:80:90", "the port must be"},
        {"http://h:8a", "the port must be"},
        {"http://h:4294967376", "the port must be"},
        {"http://[::1]:", "the port must be"},
        {"http://[::1]:0/", "the port must be"},
        /* Fragments, control characters, what must be escaped. */
        {"http://h/#x", "must not have a fragment"},
        {"http://h#@evil.example/", "must not have a fragment"},
        {"http://h/a b", ascii_sentence},
        {"http://h/\t", ascii_sentence},
        {"http://h/\r\nX-Evil: 1", ascii_sentence},
        {"http://h\n", ascii_sentence},
        {"http://exam\tple.org", ascii_sentence},
        {"http://h/\x7f", ascii_sentence},
        {"http://h/\xc3\xa9", ascii_sentence},
        {"http://h/\"", "must not have a \""},
        {"http://h/<", "must not have a <"},
        {"http://h/{id}", "must not have a {"},
        {"http://h/%", "after a % there must be two hex digits"},
        {"http://h/%4", "after a %"},
        {"http://h/%zz", "after a %"},
        {"http://h/%u0041", "after a %"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct url url = {.port = 7};
        struct err err = {0};
        if (url_parse(slice_of(cases[i].text), &url, &err) != STATUS_INVALID)
            fail_msg("%s is taken", cases[i].text);
        if (!strstr(err.text, cases[i].said))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_null(strstr(err.text, "geheim"));
        assert_int_equal(url.port, 7);
    }
}

static void a_nul_is_a_character_like_other_control_characters(void **state)
{
    static const struct slice cases[] = {
        SLICE("http://h\0"),  SLICE("http://h\0.example.org/"),
        SLICE("http://h/\0"), SLICE("http://\0"),
        SLICE("\0http://h"),
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct url url;
        struct err err = {0};
        assert_int_equal(url_parse(cases[i], &url, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, ascii_sentence));
    }
}

static void lengths_are_bounded(void **state)
{
    static const struct {
        size_t label, labels; /* bytes of each, and how many */
        bool fits;
    } cases[] = {{63, 1, true},  {64, 1, false}, {62, 4, true},
                 {63, 4, false}, {1, 127, true}, {1, 128, false}};
    char text[4096];
    struct url url;
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t each = cases[i].label + 1, len = 7 + cases[i].labels * each - 1;
        memcpy(text, "http://", 7);
        memset(text + 7, 'a', len - 7);
        for (size_t label = 1; label < cases[i].labels; label++)
            text[7 + label * each - 1] = '.';
        if ((url_parse((struct slice){text, len}, &url, NULL) == STATUS_OK) != cases[i].fits)
            fail_msg("%zu of %zu", cases[i].labels, cases[i].label);
    }
    memset(text, 'a', sizeof text);
    memcpy(text, "http://h/", 9);
    assert_int_equal(url_parse((struct slice){text, URL_MAX}, &url, NULL), STATUS_OK);
    assert_int_equal(url_parse((struct slice){text, URL_MAX + 1}, &url, NULL), STATUS_INVALID);
}

static void the_plain_form_is_one(void **state)
{
    static const struct {
        const char *text, *suffix, *plain;
    } cases[] = {
        {"http://example.org", NULL, "http://example.org:80/"},
        {"HTTPS://EXAMPLE.org./A?B", NULL, "https://example.org:443/A?B"},
        {"http://example.org?x", NULL, "http://example.org:80/?x"},
        {"http://example.org:443/", NULL, "http://example.org:443/"},
        {"http://127.0.0.1./x", NULL, "http://127.0.0.1:80/x"},
        {"http://[::1]", NULL, "http://[::1]:80/"},
        {"http://[2001:DB8:0:0:0:0:0:1]:9/x", NULL, "http://[2001:db8::1]:9/x"},
        {"http://[::ffff:127.0.0.1]/", NULL, "http://127.0.0.1:80/"},
        {"http://[::FFFF:7f00:1]/", NULL, "http://127.0.0.1:80/"},
        {"http://[::127.0.0.1]/", NULL, "http://[::7f00:1]:80/"},
        {"http://h", "/mcp", "http://h:80/mcp"},
        {"http://h/", "/mcp", "http://h:80/mcp"},
        {"http://h//", "/mcp", "http://h:80/mcp"},
        {"http://h/mcp", "/mcp", "http://h:80/mcp"},
        {"http://h/mcp/", "/mcp", "http://h:80/mcp/"},
        {"http://h/api", "/mcp", "http://h:80/api/mcp"},
        {"http://h/api/", "/mcp", "http://h:80/api/mcp"},
        {"http://h/xmcp", "/mcp", "http://h:80/xmcp/mcp"},
        {"http://h/mcp/v1", "/mcp", "http://h:80/mcp/v1/mcp"},
        {"http://h/api?a=/mcp", "/mcp", "http://h:80/api/mcp?a=/mcp"},
        {"http://h/mcp?a=b", "/mcp", "http://h:80/mcp?a=b"},
        {"http://h?a=b", "/mcp", "http://h:80/mcp?a=b"},
    };
    struct buf out;
    (void)state;

    buf_init(&out, URL_MAX);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct url url = url_of(cases[i].text);
        buf_clear(&out);
        url_print(&url, cases[i].suffix, &out);
        assert_string_equal(buf_str(&out), cases[i].plain);
        url = url_of(cases[i].plain);
        buf_clear(&out);
        url_print(&url, cases[i].suffix, &out);
        assert_string_equal(buf_str(&out), cases[i].plain);
    }
    buf_release(&out);
}

static void hosts_are_the_same_in_any_case_and_form(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"example.org", "EXAMPLE.ORG", true},
        {"example.org", "example.com", false},
        {"example.org", "example.or", false},
        {"a_b", "A_B", true},
        {"a@", "a`", false},
        {"[", "{", false},
        {"::1", "0:0::0:1", true},
        {"::ffff:127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"127.0.0.1", "example.org", false},
        {"", "", true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        if (url_same_host(slice_of(cases[i].a), slice_of(cases[i].b)) != cases[i].same)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_its_parts),
        cmocka_unit_test(what_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(a_nul_is_a_character_like_other_control_characters),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(the_plain_form_is_one),
        cmocka_unit_test(hosts_are_the_same_in_any_case_and_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
