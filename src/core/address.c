/* address: see address.h.
 *
 * Everything is read by hand and strictly: what one reader takes for 127.0.0.1 and another one for
 * a name ("127.1", "0177.0.0.1", "0x7f000001") is no address here.  What is not public is three
 * tables: of IPv4, of IPv6, and of the places where an IPv6 address has an IPv4 one inside. */
#include "core/address.h"

#include <stdio.h>

#define V4_BITS 32
#define V6_BITS 128
#define MAPPED_BITS 96 /* the part of a mapped address before the IPv4 one */
#define WORDS 8        /* groups of an IPv6 address */

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

struct address address_v4(const uint8_t bytes[4])
{
    struct address address;

    memcpy(address.bytes, mapped_prefix, sizeof mapped_prefix);
    memcpy(address.bytes + sizeof mapped_prefix, bytes, 4);
    return address;
}

struct address address_v6(const uint8_t bytes[16])
{
    struct address address;

    memcpy(address.bytes, bytes, sizeof address.bytes);
    return address;
}

bool address_is_v4(struct address address)
{
    return memcmp(address.bytes, mapped_prefix, sizeof mapped_prefix) == 0;
}

bool address_equal(struct address a, struct address b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* read_decimal reads digits without a leading zero from `*at` on; false when there are none, or
 * when they are more than `max`. */
static bool read_decimal(struct slice text, size_t *at, unsigned max, unsigned *out)
{
    size_t begin = *at;
    unsigned number = 0;

    for (; *at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '9'; ++*at) {
        number = number * 10 + (unsigned)(text.ptr[*at] - '0');
        if (number > max)
            return false;
    }
    *out = number;
    return *at > begin && (*at == begin + 1 || text.ptr[begin] != '0');
}

static bool read_v4(struct slice text, uint8_t out[4])
{
    size_t at = 0;

    for (int i = 0; i < 4; i++) {
        unsigned number;
        if (i > 0 && (at >= text.len || text.ptr[at++] != '.'))
            return false;
        if (!read_decimal(text, &at, 255, &number))
            return false;
        out[i] = (uint8_t)number;
    }
    return at == text.len;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* struct groups: an IPv6 address while it is read. */
struct groups {
    uint16_t words[WORDS];
    int count;
    int gap; /* how many stand before "::"; -1: there is none */
};

/* read_group reads one to four hex digits. */
static bool read_group(struct slice text, size_t *at, struct groups *groups)
{
    size_t begin = *at;
    unsigned word = 0;

    while (*at < text.len && *at < begin + 4 && hex_digit(text.ptr[*at]) >= 0)
        word = word << 4 | (unsigned)hex_digit(text.ptr[(*at)++]);
    if (*at == begin || groups->count == WORDS)
        return false;
    groups->words[groups->count++] = (uint16_t)word;
    return true;
}

/* read_tail reads an IPv4 address at the end: two groups. */
static bool read_tail(struct slice text, struct groups *groups)
{
    uint8_t v4[4];

    if (groups->count > WORDS - 2 || !read_v4(text, v4))
        return false;
    groups->words[groups->count++] = (uint16_t)(v4[0] << 8 | v4[1]);
    groups->words[groups->count++] = (uint16_t)(v4[2] << 8 | v4[3]);
    return true;
}

/* read_colon reads ":" or "::" after a group; false when neither may stand there. */
static bool read_colon(struct slice text, size_t *at, struct groups *groups)
{
    if (text.ptr[(*at)++] != ':' || *at == text.len)
        return false;
    if (text.ptr[*at] == ':') {
        if (groups->gap >= 0)
            return false;
        groups->gap = groups->count;
        ++*at;
    }
    return true;
}

static bool read_groups(struct slice text, struct groups *groups)
{
    size_t at = 0;

    if (slice_starts(text, SLICE("::"))) {
        groups->gap = 0;
        at = 2;
    }
    while (at < text.len) {
        struct slice rest = {text.ptr + at, text.len - at};
        if (memchr(rest.ptr, '.', rest.len) && !memchr(rest.ptr, ':', rest.len))
            return read_tail(rest, groups);
        if (!read_group(text, &at, groups))
            return false;
        if (at < text.len && !read_colon(text, &at, groups))
            return false;
    }
    return true;
}

static bool read_v6(struct slice text, uint8_t out[16])
{
    struct groups groups = {.gap = -1};
    int missing, to = 0;

    if (!read_groups(text, &groups))
        return false;
    missing = WORDS - groups.count;
    if ((groups.gap < 0) != (missing == 0))
        return false;
    memset(out, 0, 16);
    for (int i = 0; i < groups.count; i++, to++) {
        if (i == groups.gap)
            to += missing;
        uint8_t *pair = out + (ptrdiff_t)2 * to;
        pair[0] = (uint8_t)(groups.words[i] >> 8);
        pair[1] = (uint8_t)groups.words[i];
    }
    return true;
}

bool address_parse(struct slice text, struct address *out)
{
    uint8_t bytes[16];

    if (read_v4(text, bytes)) {
        *out = address_v4(bytes);
        return true;
    }
    if (!read_v6(text, bytes))
        return false;
    *out = address_v6(bytes);
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

/* longest_gap finds the first of the longest runs of two or more groups that are 0. */
static int longest_gap(const uint16_t words[WORDS], int *length)
{
    int gap = -1;

    *length = 1;
    for (int i = 0; i < WORDS; i++) {
        int end = i;
        while (end < WORDS && words[end] == 0)
            end++;
        if (end - i > *length) {
            gap = i;
            *length = end - i;
        }
    }
    return gap;
}

void address_format(struct address address, char out[ADDRESS_TEXT_SIZE])
{
    const uint8_t *bytes = address.bytes;
    uint16_t words[WORDS];
    int length, gap, at = 0;

    if (address_is_v4(address)) {
        snprintf(out, ADDRESS_TEXT_SIZE, "%u.%u.%u.%u", bytes[12], bytes[13], bytes[14], bytes[15]);
        return;
    }
    for (size_t i = 0; i < WORDS; i++)
        words[i] = (uint16_t)(bytes[2 * i] << 8 | bytes[2 * i + 1]);
    gap = longest_gap(words, &length);
    for (int i = 0; i < WORDS; i++) {
        if (i == gap) {
            at += snprintf(out + at, (size_t)(ADDRESS_TEXT_SIZE - at), "::");
            i += length - 1;
            continue;
        }
        bool first = i == 0 || (gap >= 0 && i == gap + length);
        at += snprintf(out + at, (size_t)(ADDRESS_TEXT_SIZE - at), "%s%x", first ? "" : ":",
                       words[i]);
    }
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

/* same_bits says whether two runs of bytes agree in their first `bits`. */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

static const struct range_v4 {
    uint8_t bytes[4];
    unsigned bits;
    const char *name;
} ranges_v4[] = {
    {{0}, 8, "reserved"}, /* 0.0.0.0 leads to this host */
    {{10}, 8, "private"},
    {{100, 64}, 10, "private"}, /* between a provider and its customers */
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"}, /* where clouds hand out credentials */
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},   /* protocols */
    {{192, 0, 2}, 24, "reserved"},   /* documentation */
    {{192, 88, 99}, 24, "reserved"}, /* relays of 6to4 */
    {{192, 168}, 16, "private"},
    {{198, 18}, 15, "reserved"},      /* benchmarks */
    {{198, 51, 100}, 24, "reserved"}, /* documentation */
    {{203, 0, 113}, 24, "reserved"},  /* likewise */
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"}, /* 255.255.255.255 is in it */
};

/* Beside these everything outside of 2000::/3 is reserved. */
static const struct range_v6 {
    uint8_t bytes[16];
    unsigned bits;
    const char *name;
} ranges_v6[] = {
    {{0}, 128, "reserved"}, /* :: leads to this host */
    {{[15] = 1}, 128, "loopback"},
    {{0x01}, 64, "reserved"}, /* 100::/64: what is sent there is dropped */
    {{0xfc}, 7, "private"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "private"}, /* of a site */
    {{0xff}, 8, "multicast"},
    {{0x20, 0x01, 0x00, 0x02}, 48, "reserved"}, /* benchmarks */
    {{0x20, 0x01, 0x00, 0x10}, 28, "reserved"}, /* no addresses but hashes */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "reserved"}, /* documentation */
    {{0x3f, 0xff}, 20, "reserved"},             /* likewise */
};
static const uint8_t global_v6[16] = {0x20};
#define GLOBAL_V6_BITS 3

/* An address may have several inside; each of them must be public. */
static const struct wrapping {
    uint8_t bytes[16];
    unsigned bits;
    unsigned at;   /* the byte where the IPv4 address begins */
    bool inverted; /* its bits are */
} wrappings[] = {
    {{[10] = 0xff, [11] = 0xff}, 96, 12, false}, /* mapped */
    {{0}, 96, 12, false},                        /* compatible */
    {{[8] = 0xff, [9] = 0xff}, 96, 12, false},   /* translated */
    {{0x20, 0x02}, 16, 2, false},                /* 6to4 */
    {{0x00, 0x64, 0xff, 0x9b}, 96, 12, false},   /* NAT64 */
    /* NAT64 of a site.  Its translators may cut 64:ff9b:1::/48 differently and so have the IPv4
     * address elsewhere: what is not in this form is reserved. */
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 96, 12, false},
    {{0x20, 0x01, 0x00, 0x00}, 32, 12, true}, /* Teredo: the host */
    {{0x20, 0x01, 0x00, 0x00}, 32, 4, false}, /* and the server that is asked for it */
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *range_of_v4(const uint8_t bytes[4])
{
    for (size_t i = 0; i < COUNT(ranges_v4); i++)
        if (same_bits(bytes, ranges_v4[i].bytes, ranges_v4[i].bits))
            return ranges_v4[i].name;
    return NULL;
}

static const char *range_of_inner(const struct wrapping *wrapping, const uint8_t bytes[16])
{
    uint8_t inner[4];

    for (unsigned i = 0; i < 4; i++)
        inner[i] = (uint8_t)(bytes[wrapping->at + i] ^ (wrapping->inverted ? 0xff : 0));
    return range_of_v4(inner);
}

const char *address_range(struct address address)
{
    const uint8_t *bytes = address.bytes;
    bool wrapped = false;

    for (size_t i = 0; i < COUNT(ranges_v6); i++)
        if (same_bits(bytes, ranges_v6[i].bytes, ranges_v6[i].bits))
            return ranges_v6[i].name;
    for (size_t i = 0; i < COUNT(wrappings); i++) {
        if (!same_bits(bytes, wrappings[i].bytes, wrappings[i].bits))
            continue;
        const char *name = range_of_inner(&wrappings[i], bytes);
        if (name)
            return name;
        wrapped = true;
    }
    return wrapped || same_bits(bytes, global_v6, GLOBAL_V6_BITS) ? NULL : "reserved";
}

/* ---- networks ---------------------------------------------------------------------------------
 */

/* first_of is the first address of a network: all bits after its length are 0. */
static struct address first_of(struct network network)
{
    struct address first = network.address;

    for (unsigned bit = network.bits; bit < V6_BITS; bit++)
        first.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    return first;
}

enum status network_parse(struct slice text, struct network *out, struct err *err)
{
    const char *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;
    struct slice before = {text.ptr, slash ? (size_t)(slash - text.ptr) : text.len};
    struct network read = {.bits = V6_BITS};

    if (!address_parse(before, &read.address))
        return err_set(err, STATUS_INVALID,
                       "must be a network such as 10.0.0.0/8 or fd00::/8, or an address");
    if (slash) {
        /* "::ffff:10.0.0.0/104" is written with all of its bits. */
        bool dotted = address_is_v4(read.address) && !memchr(before.ptr, ':', before.len);
        unsigned max = dotted ? V4_BITS : V6_BITS, bits;
        size_t at = before.len + 1;
        if (!read_decimal(text, &at, max, &bits) || at != text.len)
            return err_set(err, STATUS_INVALID,
                           "the length of a network must be a number from 0 to %u", max);
        read.bits = dotted ? bits + MAPPED_BITS : bits;
    }
    if (!address_equal(first_of(read), read.address)) {
        char first[ADDRESS_TEXT_SIZE];
        address_format(first_of(read), first);
        return err_set(err, STATUS_INVALID,
                       "has bits set after the length of the network: the first address is %s",
                       first);
    }
    *out = read;
    return STATUS_OK;
}

bool network_has(struct network network, struct address address)
{
    if (address_is_v4(address) && network.bits < MAPPED_BITS)
        return false;
    return same_bits(network.address.bytes, address.bytes, network.bits);
}
