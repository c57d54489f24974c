/* url: the address of an endpoint, read strictly.
 *
 * What this accepts is less than what HTTP clients do, and each part means one thing: so that what
 * was checked is what is called.  http or https; a host that is a name of letters, digits, "-", "_"
 * and ".", a dotted IPv4 address, or an IPv6 address in brackets; perhaps a port; perhaps a path
 * and a query of the characters that RFC 3986 has for them.  No user, no password, no fragment.
 * A host whose last label is a number (or 0x...) and that is no dotted IPv4 address is refused:
 * clients read such ones in different ways. */
#ifndef LAZARET_CORE_URL_H
#define LAZARET_CORE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define URL_MAX 2048 /* bytes of a whole address */
#define URL_HOST_MAX 253

/* struct url: slices borrow from the text that was read. */
struct url {
    bool tls;
    struct slice host; /* as it was written, without brackets and without a dot at its end */
    bool bracketed;    /* it is an IPv6 address */
    uint16_t port;     /* 80 or 443 when none was written */
    struct slice path; /* with the query; empty: "/" */
};

/* url_parse reads an address.  STATUS_INVALID says what is wrong with it, without repeating it: it
 * may have a password inside; `out` is untouched. */
enum status url_parse(struct slice text, struct url *out, struct err *err);

/* url_host_parse reads a host that is a name or a dotted IPv4 address; `out` is without a dot at
 * its end.  url_port_parse reads a port from 1 to 65535. */
enum status url_host_parse(struct slice text, struct slice *out, struct err *err);
enum status url_port_parse(struct slice text, uint16_t *out, struct err *err);

/* url_print appends the address in its plain form: "http://host:port/path", a name in lower case, a
 * numeric address in its usual form, the port always, and `suffix` (NULL: none) at the end of the
 * path, before the query, unless it is there, with or without a slash after it. */
void url_print(const struct url *url, const char *suffix, struct buf *out);

/* url_same_host compares names without case and numeric addresses by what they are. */
bool url_same_host(struct slice a, struct slice b);

/* url_same_text compares without case. */
bool url_same_text(struct slice a, struct slice b);

#endif
