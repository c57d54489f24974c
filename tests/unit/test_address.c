/* Numeric addresses: what is one, how it is written, which are not public, and networks. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/address.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct address address_of(const char *text)
{
    struct address address = {{0}};

    if (!address_parse(slice_of(text), &address))
        fail_msg("%s is an address", text);
    return address;
}

/* platform_reads is the platform's own reader, as the oracle. */
static bool platform_reads(const char *text, struct address *out)
{
    uint8_t bytes[16];

    if (inet_pton(AF_INET, text, bytes) == 1) {
        *out = address_v4(bytes);
        return true;
    }
    if (inet_pton(AF_INET6, text, bytes) != 1)
        return false;
    *out = address_v6(bytes);
    return true;
}

static void addresses_are_read_in_every_form(void **state)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {
        {"0.0.0.0", "0.0.0.0"},
        {"192.0.2.1", "192.0.2.1"},
        {"255.255.255.255", "255.255.255.255"},
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"::ffff:127.0.0.1", "127.0.0.1"},
        {"::FFFF:7f00:1", "127.0.0.1"},
        {"0:0:0:0:0:ffff:7f00:0001", "127.0.0.1"},
        {"::127.0.0.1", "::7f00:1"},
        {"64:ff9b::10.0.0.1", "64:ff9b::a00:1"},
        {"2001:DB8:0:0:8:800:200C:417A", "2001:db8::8:800:200c:417a"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
        {"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        {"fe80::", "fe80::"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address address = address_of(cases[i].text), expected = {{0}};
        char text[ADDRESS_TEXT_SIZE];
        assert_true(platform_reads(cases[i].text, &expected));
        assert_memory_equal(&address, &expected, sizeof expected);
        address_format(address, text);
        assert_string_equal(text, cases[i].plain);
        assert_true(address_equal(address_of(text), address));
    }
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "1",
        "127.1",
        "1.2.3",
        "1.2.3.4.",
        "1.2.3.4.5",
        ".1.2.3.4",
        "1..2.3",
        "256.1.1.1",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.00",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "2130706433",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.-4",
        "+1.2.3.4",
        "1.2.3.4/8",
        "a.b.c.d",
        "4294967297.0.0.1",
        ":",
        ":::",
        "::1::",
        "1::2::3",
        ":1",
        "1:",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        "1:2:3:4:5:6:7:",
        "12345::",
        "::g",
        "::1%eth0",
        "fe80::1%1",
        "[::1]",
        "::1.2.3",
        "::1.2.3.4.5",
        "::01.2.3.4",
        "1.2.3.4::",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::ffff:127.1",
        "::-1",
        "1:::2",
        "::0x1",
        "::1 ",
        "1:2:3:4:5:6:7:1.2",
        "\xd9\xa1.1.1.1",
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address address = address_of("9.9.9.9"), before = address, unused;
        if (address_parse(slice_of(cases[i]), &address))
            fail_msg("\"%s\" is no address", cases[i]);
        assert_true(address_equal(address, before));
        assert_false(platform_reads(cases[i], &unused));
    }
    assert_false(address_parse((struct slice){"1.2.3.4\0", 8}, &(struct address){{0}}));
    assert_false(address_parse((struct slice){"::1\0", 4}, &(struct address){{0}}));
}

/* next is a small generator of pseudo-random numbers: the same ones each time. */
static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void any_text_of_its_letters_is_read_as_the_platform_reads_it(void **state)
{
    static const char letters[] = "::::...0011aF2569";
    uint64_t seed = 5;
    int taken = 0;
    (void)state;

    for (int round = 0; round < 400000; round++) {
        char text[24] = "";
        size_t len = next(&seed) % (sizeof text - 1);
        for (size_t i = 0; i < len; i++)
            text[i] = letters[next(&seed) % (sizeof letters - 1)];
        struct address ours = {{0}}, theirs = {{0}};
        bool read = address_parse(slice_of(text), &ours), known = platform_reads(text, &theirs);
        if (read != known || !address_equal(ours, theirs))
            fail_msg("\"%s\": %d, not %d", text, read, known);
        taken += read;
    }
    assert_true(taken > 100);
}

static void any_address_is_written_so_that_it_is_read_back(void **state)
{
    uint64_t seed = 7;
    (void)state;

    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[16];
        char ours[ADDRESS_TEXT_SIZE];
        for (int i = 0; i < 8; i++) {
            unsigned word = next(&seed) % 3 ? 0 : next(&seed) & 0xffff;
            bytes[2 * i] = (uint8_t)(word >> 8);
            bytes[2 * i + 1] = (uint8_t)word;
        }
        struct address address = address_v6(bytes), again = {{0}};
        address_format(address, ours);
        assert_true(address_parse(slice_of(ours), &again));
        assert_true(address_equal(address, again));
    }
}

static void each_range_is_known_from_its_first_to_its_last_address(void **state)
{
    static const struct {
        const char *before, *first, *last, *after; /* NULL: its neighbour is not public either */
        const char *name;
    } cases[] = {
        {NULL, "0.0.0.0", "0.255.255.255", "1.0.0.0", "reserved"},
        {"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0", "private"},
        {"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0", "private"},
        {"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0", "loopback"},
        {"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0", "link-local"},
        {"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0", "private"},
        {"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0", "reserved"},
        {"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", "reserved"},
        {"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0", "reserved"},
        {"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0", "private"},
        {"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0", "reserved"},
        {"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0", "reserved"},
        {"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0", "reserved"},
        {"223.255.255.255", "224.0.0.0", "239.255.255.255", NULL, "multicast"},
        {NULL, "240.0.0.0", "255.255.255.255", NULL, "reserved"},
        {NULL, "::", "::", NULL, "reserved"},
        {NULL, "::1", "::1", NULL, "loopback"},
        {NULL, "100::", "100::ffff:ffff:ffff:ffff", NULL, "reserved"},
        {NULL, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "private"},
        {NULL, "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "link-local"},
        {NULL, "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "private"},
        {NULL, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "multicast"},
        {"2001:1:ffff::", "2001:2::", "2001:2:0:ffff::", "2001:2:1::", "reserved"},
        {"2001:f:ffff::", "2001:10::", "2001:1f:ffff::", "2001:20::", "reserved"},
        {"2001:db7:ffff::", "2001:db8::", "2001:db8:ffff::", "2001:db9::", "reserved"},
        {"3ffe:ffff::", "3fff::", "3fff:fff:ffff::", "3fff:1000::", "reserved"},
        /* Nothing is handed out outside of 2000::/3. */
        {NULL, "1::", "1fff:ffff::", "2000::", "reserved"},
        {"3fff:ffff::", "4000::", "fbff:ffff::", NULL, "reserved"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *ends[] = {cases[i].first, cases[i].last};
        const char *beside[] = {cases[i].before, cases[i].after};
        for (int end = 0; end < 2; end++) {
            const char *name = address_range(address_of(ends[end]));
            if (!name || strcmp(name, cases[i].name) != 0)
                fail_msg("%s is %s", ends[end], name ? name : "public");
            if (beside[end] && address_range(address_of(beside[end])))
                fail_msg("%s is public", beside[end]);
        }
    }
}

static void an_address_inside_of_another_is_judged_by_itself(void **state)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"::ffff:127.0.0.1", "loopback"},
        {"::ffff:169.254.169.254", "link-local"},
        {"::ffff:8.8.8.8", NULL},
        {"::127.0.0.1", "loopback"},
        {"::10.0.0.1", "private"},
        {"::8.8.8.8", NULL},
        {"::2", "reserved"},
        {"::ffff:0:10.0.0.1", "private"},
        {"::ffff:0:8.8.8.8", NULL},
        {"2002:7f00:1::", "loopback"},
        {"2002:a00:1:2:3:4:5:6", "private"},
        {"2002:c0a8:101::1", "private"},
        {"2002:808:808::1", NULL},
        {"64:ff9b::127.0.0.1", "loopback"},
        {"64:ff9b::192.168.1.1", "private"},
        {"64:ff9b::8.8.8.8", NULL},
        {"64:ff9b:1::10.1.2.3", "private"},
        {"64:ff9b:1::8.8.8.8", NULL},
        {"64:ff9b:1:a00:0:100::", "reserved"},
        {"64:ff9b:1:808:8:800::", "reserved"},
        {"64:ff9b:0:1::8.8.8.8", "reserved"},
        {"64:ff9b:2::8.8.8.8", "reserved"},
        /* Teredo: the host, inverted (80ff:fffe is 127.0.0.1), and its server. */
        {"2001:0:808:808::80ff:fffe", "loopback"},
        {"2001:0:808:808::f5ff:fffe", "private"},
        {"2001:0:808:808::f7f7:f7f7", NULL},
        {"2001:0:a00:1::f7f7:f7f7", "private"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *name = address_range(address_of(cases[i].text));
        const char *expected = cases[i].name ? cases[i].name : "public";
        if (strcmp(name ? name : "public", expected) != 0)
            fail_msg("%s is %s, not %s", cases[i].text, expected, name ? name : "public");
    }
}

static void public_addresses_are_public(void **state)
{
    static const char *const cases[] = {"1.1.1.1",         "8.8.8.8",      "93.184.216.34",
                                        "172.64.0.1",      "100.0.0.1",    "2606:4700::1111",
                                        "2001:4860::8888", "2a00:1450::1", "2400:cb00::1"};
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        if (address_range(address_of(cases[i])))
            fail_msg("%s is public", cases[i]);
}

static void a_network_has_what_begins_with_its_bits(void **state)
{
    static const struct {
        const char *network, *address;
        bool has;
    } cases[] = {
        {"10.0.0.0/8", "10.255.0.1", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "::ffff:10.1.1.1", true},
        {"10.0.0.0/8", "::10.1.1.1", false},
        {"10.1.2.0/23", "10.1.3.255", true},
        {"10.1.2.0/23", "10.1.4.0", false},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"127.0.0.1/32", "127.0.0.1", true},
        {"0.0.0.0/0", "200.1.1.1", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "2001:db8::1", true},
        {"::/0", "10.0.0.1", false},
        {"::/64", "10.0.0.1", false},
        {"::ffff:0:0/96", "10.0.0.1", true},
        {"::ffff:10.0.0.0/104", "10.9.0.1", true},
        {"::ffff:10.0.0.0/104", "11.9.0.1", false},
        {"fd00::/8", "fdff::1", true},
        {"fd00::/8", "fc00::1", false},
        {"2001:db8:8000::/33", "2001:db8:ffff::", true},
        {"2001:db8:8000::/33", "2001:db8:7fff::", false},
        {"::1", "::1", true},
        {"::1", "::2", false},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct network network;
        struct err err = {0};
        if (network_parse(slice_of(cases[i].network), &network, &err) != STATUS_OK)
            fail_msg("%s: %s", cases[i].network, err.text);
        if (network_has(network, address_of(cases[i].address)) != cases[i].has)
            fail_msg("%s and %s", cases[i].network, cases[i].address);
    }
}

static void what_is_no_network_says_why(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"", "must be a network such as 10.0.0.0/8"},
        {"/8", "must be a network"},
        {"10.0.0/8", "must be a network"},
        {"example.org", "must be a network"},
        {"10.0.0.0/", "from 0 to 32"},
        {"10.0.0.0/33", "from 0 to 32"},
        {"10.0.0.0/08", "from 0 to 32"},
        {"10.0.0.0/-1", "from 0 to 32"},
        {"10.0.0.0/8 ", "from 0 to 32"},
        {"10.0.0.0/8/8", "from 0 to 32"},
        {"10.0.0.0/255.0.0.0", "from 0 to 32"},
        {"10.0.0.0/4294967304", "from 0 to 32"},
        {"fd00::/129", "from 0 to 128"},
        {"10.1.2.3/8", "the first address is 10.0.0.0"},
        {"10.0.0.1/31", "the first address is 10.0.0.0"},
        {"fd00::1/8", "the first address is fd00::"},
        {"1.0.0.0/0", "the first address is 0.0.0.0"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct network network = {.bits = 7};
        struct err err = {0};
        assert_int_equal(network_parse(slice_of(cases[i].text), &network, &err), STATUS_INVALID);
        if (!strstr(err.text, cases[i].said))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(network.bits, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_in_every_form),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(any_text_of_its_letters_is_read_as_the_platform_reads_it),
        cmocka_unit_test(any_address_is_written_so_that_it_is_read_back),
        cmocka_unit_test(each_range_is_known_from_its_first_to_its_last_address),
        cmocka_unit_test(an_address_inside_of_another_is_judged_by_itself),
        cmocka_unit_test(public_addresses_are_public),
        cmocka_unit_test(a_network_has_what_begins_with_its_bits),
        cmocka_unit_test(what_is_no_network_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
