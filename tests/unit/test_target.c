/* Where deliveries may go: entries of the allow-list, what a job's target stands for, and which
 * addresses may be connected to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/target.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ALLOW_MAX 8

/* struct place: targets with an allow-list, and the arena of what is made of them. */
struct place {
    struct arena arena;
    struct target list[4];
    struct allowance allow[ALLOW_MAX];
    struct targets targets;
};

static struct address address_of(const char *text)
{
    struct address address = {{0}};

    if (!address_parse(slice_of(text), &address))
        fail_msg("%s is an address", text);
    return address;
}

/* place_open lists entries that are separated by spaces. */
static void place_open(struct place *place, const char *allow)
{
    *place = (struct place){.targets = {.list = place->list, .allow = place->allow}};
    while (*allow) {
        size_t len = strcspn(allow, " ");
        struct err err = {0};
        struct allowance *entry = &place->allow[place->targets.allow_count++];
        if (allowance_parse((struct slice){allow, len}, entry, &err) != STATUS_OK)
            fail_msg("%s: %s", allow, err.text);
        allow += len + strspn(allow + len, " ");
    }
}

static void place_add(struct place *place, const char *name, const char *url,
                      enum delivery_kind kind)
{
    struct target *target = &place->list[place->targets.count++];

    assert_int_equal(target_of_url(slice_of(url), kind, &place->arena, target, NULL), STATUS_OK);
    target->name = slice_of(name);
    target->trusted = true;
}

static void an_entry_says_a_host_or_a_network_and_perhaps_a_port(void **state)
{
    static const struct {
        const char *text, *host;
        bool below;
        const char *network; /* NULL: it is a name */
        unsigned bits, port;
    } cases[] = {
        {"hooks.example.org", "hooks.example.org", false, NULL, 0, 0},
        {"hooks.example.org.", "hooks.example.org", false, NULL, 0, 0},
        {"hooks.example.org:8443", "hooks.example.org", false, NULL, 0, 8443},
        {"*.example.org", "example.org", true, NULL, 0, 0},
        {"*.example.org:1", "example.org", true, NULL, 0, 1},
        {"localhost", "localhost", false, NULL, 0, 0},
        {"10.1.0.0/16", "", false, "10.1.0.0", 112, 0},
        {"10.1.0.0/16:8443", "", false, "10.1.0.0", 112, 8443},
        {"127.0.0.1", "", false, "127.0.0.1", 128, 0},
        {"127.0.0.1:9000", "", false, "127.0.0.1", 128, 9000},
        {"::1", "", false, "::1", 128, 0},
        {"[::1]", "", false, "::1", 128, 0},
        {"[::1]:9000", "", false, "::1", 128, 9000},
        {"[::FFFF:127.0.0.1]:9000", "", false, "127.0.0.1", 128, 9000},
        {"fd00::/8", "", false, "fd00::", 8, 0},
        {"0.0.0.0/0", "", false, "0.0.0.0", 96, 0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct allowance entry = {0};
        struct err err = {0};
        if (allowance_parse(slice_of(cases[i].text), &entry, &err) != STATUS_OK)
            fail_msg("%s: %s", cases[i].text, err.text);
        bool same = slice_is(entry.host, cases[i].host) && entry.below == cases[i].below &&
                    entry.port == cases[i].port && entry.network.bits == cases[i].bits;
        if (cases[i].network)
            same = same && address_equal(entry.network.address, address_of(cases[i].network));
        if (!same)
            fail_msg("%s: host %.*s, bits %u, port %u", cases[i].text, SLICE_ARG(entry.host),
                     entry.network.bits, (unsigned)entry.port);
    }
}

static void what_is_no_entry_says_why(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"", "must be a host, an address or a network"},
        {"https://hooks.example.org", "without http:// and a path"},
        {"hooks.example.org/path", "must be a network"},
        {"*", "* would be every host"},
        {"*:80", "* would be every host"},
        {"*.", "the host is missing"},
        {"*.*.example.org", "must be of letters"},
        {"hooks.*.org", "must be of letters"},
        {"*example.org", "must be of letters"},
        {"*.10.0.0.1", "must be a host, an address or a network"},
        {"10.0.0.1.", "must be a host, an address or a network"},
        {"user@example.org", "must be of letters"},
        {"example.org:0", "the port must be"},
        {"example.org:65536", "the port must be"},
        {"example.org:", "the port must be"},
        {":80", "the host is missing"},
        {"127.1", "must be an IPv4 address of four decimal numbers"},
        {"0x7f000001", "must be an IPv4 address of four decimal numbers"},
        {"2130706433:80", "must be an IPv4 address of four decimal numbers"},
        {"10.1.2.3/8", "the first address is 10.0.0.0"},
        {"fd00::/8:80", "from 0 to 128"},
        {"10.0.0.0:80/8", "the port must be"},
        {"[::1", "in brackets"},
        {"[::1]x", "in brackets"},
        {"[127.0.0.1]", "in brackets"},
        {"[fd00::]/8", "in brackets"},
        {"[fd00::/8]", "in brackets"},
        {"[::1]:", "the port must be"},
        {"[]", "in brackets"},
        {"[", "in brackets"},
        {"::1:9000:x", "must be a network"},
        {"a b", "must be of letters"},
        {"b\xc3\xbc"
         "cher.example",
         "must be of letters"},
        {"..", "must have 1 to 63"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct allowance entry = {.port = 7};
        struct err err = {0};
        if (allowance_parse(slice_of(cases[i].text), &entry, &err) != STATUS_INVALID)
            fail_msg("%s is taken", cases[i].text);
        if (!strstr(err.text, cases[i].said))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(entry.port, 7);
    }
    assert_int_equal(allowance_parse((struct slice){0}, &(struct allowance){0}, NULL),
                     STATUS_INVALID);
    assert_int_equal(allowance_parse(SLICE("a\0b"), &(struct allowance){0}, NULL), STATUS_INVALID);
}

static void a_job_may_name_only_addresses_whose_host_is_listed(void **state)
{
    static const struct {
        const char *allow, *url;
        enum status status;
    } cases[] = {
        {"", "http://example.org/", STATUS_REFUSED},
        {"", "http://8.8.8.8/", STATUS_REFUSED},
        {"", "http://127.0.0.1/", STATUS_REFUSED},
        {"example.org", "http://example.org/x", STATUS_OK},
        {"example.org", "https://EXAMPLE.ORG.:8443", STATUS_OK},
        {"Example.Org", "https://example.org", STATUS_OK},
        {"example.org", "http://www.example.org", STATUS_REFUSED},
        {"example.org", "http://example.org.evil.example", STATUS_REFUSED},
        {"example.org", "http://notexample.org", STATUS_REFUSED},
        {"example.org:8443", "https://example.org:8443/x", STATUS_OK},
        {"example.org:8443", "https://example.org/", STATUS_REFUSED},
        {"example.org:443", "https://example.org/", STATUS_OK},
        {"example.org:443", "http://example.org/", STATUS_REFUSED},
        {"*.example.org", "http://a.example.org", STATUS_OK},
        {"*.example.org", "http://a.b.example.org", STATUS_OK},
        {"*.example.org", "http://example.org", STATUS_REFUSED},
        {"*.example.org", "http://notexample.org", STATUS_REFUSED},
        {"*.example.org", "http://a.example.org.evil.example", STATUS_REFUSED},
        {"*.example.org:8443", "http://a.example.org:8443", STATUS_OK},
        {"*.example.org:8443", "http://a.example.org", STATUS_REFUSED},
        /* Numbers are let through by networks alone, whatever form they are written in. */
        {"10.1.0.0/16", "http://10.1.2.3:99/", STATUS_OK},
        {"10.1.0.0/16", "http://10.2.2.3/", STATUS_REFUSED},
        {"10.1.0.0/16", "http://[::ffff:10.1.2.3]/", STATUS_OK},
        {"10.1.0.0/16", "http://[::10.1.2.3]/", STATUS_REFUSED},
        {"10.1.0.0/16", "http://inside.example/", STATUS_REFUSED},
        {"127.0.0.1:9000", "http://127.0.0.1:9000/", STATUS_OK},
        {"127.0.0.1:9000", "http://127.0.0.1.:9000/", STATUS_OK},
        {"127.0.0.1:9000", "http://[::ffff:7f00:1]:9000/", STATUS_OK},
        {"127.0.0.1:9000", "http://127.0.0.1:9001/", STATUS_REFUSED},
        {"127.0.0.1:9000", "http://127.0.0.2:9000/", STATUS_REFUSED},
        {"[::1]:9000", "http://[0:0:0:0:0:0:0:1]:9000/", STATUS_OK},
        {"[::1]:9000", "http://[::1]/", STATUS_REFUSED},
        {"[::1]:9000", "http://127.0.0.1:9000/", STATUS_REFUSED},
        {"8.8.8.8", "http://8.8.8.8/", STATUS_OK},
        {"8.8.8.8", "http://8.8.4.4/", STATUS_REFUSED},
        {"0.0.0.0/0", "http://example.org/", STATUS_REFUSED},
        {"::/0", "http://127.0.0.1/", STATUS_REFUSED},
        {"localhost", "http://127.0.0.1/", STATUS_REFUSED},
        {"127.0.0.1", "http://localhost/", STATUS_REFUSED},
        {"a.example 10.0.0.0/8 b.example", "http://b.example/", STATUS_OK},
        {"a.example 10.0.0.0/8 b.example", "http://10.0.0.1/", STATUS_OK},
        {"example.org", "http://example.org@127.0.0.1/", STATUS_INVALID},
        {"example.org", "http://127.1/", STATUS_INVALID},
        {"example.org", "ftp://example.org/", STATUS_INVALID},
        {"example.org", "://", STATUS_INVALID},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct place place;
        struct target target = {.parallel = 7};
        struct err err = {0};
        place_open(&place, cases[i].allow);
        enum status status = targets_resolve(&place.targets, slice_of(cases[i].url), DELIVERY_HTTP,
                                             &place.arena, &target, &err);
        if (status != cases[i].status)
            fail_msg("%s, %s: %s %s", cases[i].allow, cases[i].url, status_name(status), err.text);
        assert_false(target.trusted || target.redirects);
        assert_int_equal(target.parallel, status == STATUS_OK ? 0 : 7);
        assert_true(status == STATUS_OK || err.text[0]);
        arena_release(&place.arena);
    }
}

static void a_refusal_says_what_to_configure(void **state)
{
    static const struct {
        const char *target;
        enum status status;
        const char *said;
    } cases[] = {
        {"http://hooks.example.org/x", STATUS_REFUSED,
         "target: deliveries to hooks.example.org:80 are not allowed: configure a target for it "
         "(targets), or list the host (deliveries.allow)"},
        {"http://169.254.169.254/latest", STATUS_REFUSED,
         "target: deliveries to 169.254.169.254:80 (link-local) are not allowed"},
        {"https://[::1]/", STATUS_REFUSED,
         "target: deliveries to [::1]:443 (loopback) are not allowed"},
        {"asyncgat", STATUS_NOT_FOUND,
         "target: there is no target asyncgat; configured (targets): asyncgate, hooks"},
        {"example.org/path", STATUS_NOT_FOUND,
         "target: neither the name of a target nor an address that begins with http://"},
        {"", STATUS_NOT_FOUND, "target: neither the name of a target nor an address"},
        {"a\nb", STATUS_NOT_FOUND, "target: neither the name of a target nor an address"},
        {"ASYNCGATE", STATUS_NOT_FOUND, "there is no target ASYNCGATE"},
        {"http://user:geheim@h/", STATUS_INVALID, "target: must not have a user or a password"},
    };
    struct place place;
    (void)state;

    place_open(&place, "");
    place_add(&place, "asyncgate", "https://asyncgate.example.org", DELIVERY_MCP);
    place_add(&place, "hooks", "http://10.0.0.1/hooks", DELIVERY_HTTP);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct target target;
        struct err err = {0};
        assert_int_equal(targets_resolve(&place.targets, slice_of(cases[i].target), DELIVERY_HTTP,
                                         &place.arena, &target, &err),
                         cases[i].status);
        if (!strstr(err.text, cases[i].said))
            fail_msg("%s: %s", cases[i].target, err.text);
        assert_null(strstr(err.text, "geheim"));
    }
    arena_release(&place.arena);
}

static void many_names_are_not_all_listed(void **state)
{
    struct target list[200];
    char names[200][TARGET_NAME_MAX + 1];
    struct targets targets = {.list = list, .count = COUNT(list)};
    struct target target;
    struct err err = {0};
    (void)state;

    for (size_t i = 0; i < COUNT(list); i++) {
        snprintf(names[i], sizeof names[i], "n%063zu", i);
        list[i] = (struct target){.name = slice_of(names[i])};
    }
    assert_int_equal(
        targets_resolve(&targets, SLICE("none"), DELIVERY_HTTP, &(struct arena){0}, &target, &err),
        STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, names[0]));
    assert_null(strstr(err.text, names[100]));
    assert_string_equal(err.text + strlen(err.text) - 5, ", ...");
    targets.count = 0;
    assert_int_equal(
        targets_resolve(&targets, SLICE("none"), DELIVERY_HTTP, &(struct arena){0}, &target, &err),
        STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "none is configured"));
}

static void a_configured_target_is_as_it_is_configured(void **state)
{
    struct place place;
    struct target target;
    (void)state;

    place_open(&place, "");
    place.targets.connect = span_seconds(3);
    place_add(&place, "hooks", "http://10.0.0.1/", DELIVERY_HTTP);
    place_add(&place, "gate", "https://Gate.example/api", DELIVERY_MCP);
    place.list[1].whole = span_seconds(5);
    assert_int_equal(
        targets_resolve(&place.targets, SLICE("gate"), DELIVERY_HTTP, &place.arena, &target, NULL),
        STATUS_OK);
    assert_int_equal(target.kind, DELIVERY_MCP);
    assert_true(slice_is(target.url, "https://gate.example:443/api/mcp"));
    assert_true(target.trusted && target.whole.us == 5000000 && target.connect.us == 0);
    arena_release(&place.arena);
}

static void an_address_has_the_kind_that_was_asked_for_and_the_usual_times(void **state)
{
    struct place place;
    struct target target;
    (void)state;

    place_open(&place, "gate.example");
    place.targets.connect = span_seconds(3);
    place.targets.whole = span_seconds(7);
    assert_int_equal(targets_resolve(&place.targets, SLICE("http://gate.example"), DELIVERY_MCP,
                                     &place.arena, &target, NULL),
                     STATUS_OK);
    assert_int_equal(target.kind, DELIVERY_MCP);
    assert_true(slice_is(target.url, "http://gate.example:80/mcp"));
    assert_int_equal(target.connect.us, 3000000);
    assert_int_equal(target.whole.us, 7000000);
    assert_int_equal(target.name.len, 0);
    arena_release(&place.arena);
}

static void a_name_must_not_lead_inside(void **state)
{
    static const struct {
        const char *allow, *address;
        unsigned port;
        bool may;
    } cases[] = {
        {"hooks.example.org", "93.184.216.34", 443, true},
        {"hooks.example.org", "2606:4700::1111", 443, true},
        {"hooks.example.org", "127.0.0.1", 443, false},
        {"hooks.example.org", "::1", 443, false},
        {"hooks.example.org", "::ffff:127.0.0.1", 443, false},
        {"hooks.example.org", "10.1.2.3", 443, false},
        {"hooks.example.org", "169.254.169.254", 80, false},
        {"hooks.example.org", "0.0.0.0", 80, false},
        {"hooks.example.org", "64:ff9b::10.0.0.1", 443, false},
        {"hooks.example.org 10.1.0.0/16", "10.1.2.3", 443, true},
        {"hooks.example.org 10.1.0.0/16", "::ffff:10.1.2.3", 443, true},
        {"hooks.example.org 10.1.0.0/16", "10.2.2.3", 443, false},
        {"hooks.example.org 127.0.0.1:9000", "127.0.0.1", 9000, true},
        {"hooks.example.org 127.0.0.1:9000", "127.0.0.1", 443, false},
        {"hooks.example.org ::/0", "10.1.2.3", 443, false},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct place place;
        struct target target;
        struct err err = {0};
        place_open(&place, cases[i].allow);
        assert_int_equal(targets_resolve(&place.targets, SLICE("https://hooks.example.org"),
                                         DELIVERY_HTTP, &place.arena, &target, NULL),
                         STATUS_OK);
        enum status status = targets_may_connect(
            &place.targets, &target, address_of(cases[i].address), (uint16_t)cases[i].port, &err);
        if (status != (cases[i].may ? STATUS_OK : STATUS_REFUSED))
            fail_msg("%s, %s: %s", cases[i].allow, cases[i].address, err.text);
        arena_release(&place.arena);
    }
}

static void a_configured_target_goes_anywhere(void **state)
{
    static const char *const addresses[] = {"8.8.8.8", "10.0.0.5", "127.0.0.1", "169.254.169.254",
                                            "fd00::1"};
    struct place place;
    (void)state;

    place_open(&place, "192.168.7.0/24");
    place_add(&place, "gate", "http://gate.inside", DELIVERY_HTTP);
    for (size_t i = 0; i < 2 * COUNT(addresses); i++) {
        struct err err = {0};
        place.list[0].redirects = i % 2;
        enum status status = targets_may_connect(&place.targets, &place.list[0],
                                                 address_of(addresses[i / 2]), 80, &err);
        if (status != STATUS_OK)
            fail_msg("%s: %s", addresses[i / 2], err.text);
    }
    arena_release(&place.arena);
}

static void an_address_that_is_refused_is_named_with_its_range(void **state)
{
    struct target target = {.url = SLICE("http://hooks.example.org:80/")};
    struct targets targets = {0};
    struct err err = {0};
    (void)state;

    assert_int_equal(
        targets_may_connect(&targets, &target, address_of("169.254.169.254"), 80, &err),
        STATUS_REFUSED);
    assert_string_equal(err.text, "169.254.169.254 (link-local) may not be connected to: list it "
                                  "(deliveries.allow)");
}

static void names_of_targets_are_plain(void **state)
{
    static const struct {
        const char *name;
        bool plain;
    } cases[] = {
        {"asyncgate", true},
        {"A-1_b.c", true},
        {"7", true},
        {"", false},
        {"-a", false},
        {".a", false},
        {"_a", false},
        {"a b", false},
        {"a/b", false},
        {"a:b", false},
        {"http://a", false},
        {"\xc3\xa9", false},
        {"a\n", false},
        {"1234567890123456789012345678901234567890123456789012345678901234", true},
        {"12345678901234567890123456789012345678901234567890123456789012345", false},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        if ((target_name_check(slice_of(cases[i].name), NULL) == STATUS_OK) != cases[i].plain)
            fail_msg("%s", cases[i].name);
}

static void a_plain_form_that_is_too_long_is_refused(void **state)
{
    char text[URL_MAX];
    struct arena arena = {0};
    struct target target = {.parallel = 7};
    struct err err = {0};
    (void)state;

    memset(text, 'a', sizeof text);
    memcpy(text, "http://h/", 9);
    struct slice url = {text, sizeof text};
    assert_int_equal(target_of_url(url, DELIVERY_HTTP, &arena, &target, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "in its plain form"));
    assert_int_equal(target.parallel, 7);
    url.len -= 3;
    assert_int_equal(target_of_url(url, DELIVERY_HTTP, &arena, &target, &err), STATUS_OK);
    assert_int_equal(target_of_url(url, DELIVERY_MCP, &arena, &target, &err), STATUS_INVALID);
    arena_release(&arena);
}

static void kinds_have_names(void **state)
{
    enum delivery_kind kind = DELIVERY_HTTP;
    (void)state;

    assert_true(delivery_kind_from_name(SLICE("mcp"), &kind) && kind == DELIVERY_MCP);
    assert_true(delivery_kind_from_name(SLICE("http"), &kind) && kind == DELIVERY_HTTP);
    assert_true(delivery_kind_from_name(SLICE("slack"), &kind) && kind == DELIVERY_SLACK);
    assert_false(delivery_kind_from_name(SLICE("MCP"), &kind));
    assert_false(delivery_kind_from_name(SLICE(""), &kind));
    assert_string_equal(delivery_kind_name(DELIVERY_HTTP), "http");
    assert_string_equal(delivery_kind_name(DELIVERY_MCP), "mcp");
    assert_string_equal(delivery_kind_name(DELIVERY_SLACK), "slack");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_says_a_host_or_a_network_and_perhaps_a_port),
        cmocka_unit_test(what_is_no_entry_says_why),
        cmocka_unit_test(a_job_may_name_only_addresses_whose_host_is_listed),
        cmocka_unit_test(a_refusal_says_what_to_configure),
        cmocka_unit_test(many_names_are_not_all_listed),
        cmocka_unit_test(a_configured_target_is_as_it_is_configured),
        cmocka_unit_test(an_address_has_the_kind_that_was_asked_for_and_the_usual_times),
        cmocka_unit_test(a_name_must_not_lead_inside),
        cmocka_unit_test(a_configured_target_goes_anywhere),
        cmocka_unit_test(an_address_that_is_refused_is_named_with_its_range),
        cmocka_unit_test(names_of_targets_are_plain),
        cmocka_unit_test(a_plain_form_that_is_too_long_is_refused),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
