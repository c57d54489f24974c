/* address: numeric addresses of hosts, and which of them are not of the public internet. */
#ifndef LAZARET_CORE_ADDRESS_H
#define LAZARET_CORE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/status.h"

#define ADDRESS_TEXT_SIZE 48 /* room for an address as text and its NUL */

/* struct address: IPv4 as an IPv4-mapped IPv6 address, so that there is one form of each. */
struct address {
    uint8_t bytes[16];
};

/* address_v4 and address_v6 take bytes in the order of the network. */
struct address address_v4(const uint8_t bytes[4]);
struct address address_v6(const uint8_t bytes[16]);
bool address_is_v4(struct address address);
bool address_equal(struct address a, struct address b);

/* address_parse reads "192.0.2.1" (four decimal numbers without leading zeros) or "2001:db8::1" in
 * any of its forms (without brackets, without a zone); false when it is neither. */
bool address_parse(struct slice text, struct address *out);

/* address_format writes an address in its one usual form (RFC 5952); IPv4 with dots. */
void address_format(struct address address, char out[ADDRESS_TEXT_SIZE]);

/* address_range says which range that is not the public internet an address is in: "loopback",
 * "link-local", "private", "multicast", "reserved"; NULL when it is public.  An IPv4 address that
 * is wrapped in an IPv6 one (mapped, compatible, translated, 6to4, NAT64, Teredo) is judged by
 * itself. */
const char *address_range(struct address address);

/* struct network: the addresses that share their first bits. */
struct network {
    struct address address;
    unsigned bits; /* of the 128: an IPv4 network has 96 more than it was written with */
};

/* network_parse reads "10.0.0.0/8", "fd00::/8" or one address, which is a network of its own.
 * STATUS_INVALID when it is none, or has bits set after its length. */
enum status network_parse(struct slice text, struct network *out, struct err *err);

/* network_has: a network of IPv6 has no IPv4 address, not even "::/0". */
bool network_has(struct network network, struct address address);

#endif
