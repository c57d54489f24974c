/* natsurl: the servers of NATS, as one text: "nats://a:4222,nats://b:4222". */
#ifndef LAZARET_BRIDGE_NATSURL_H
#define LAZARET_BRIDGE_NATSURL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"

#define NATSURL_PORT "4222" /* when none is written */
#define NATSURL_SERVERS_MAX 64

struct natsurl {
    const char **servers; /* each with its scheme, its user and its password, for libnats */
    int count;
    const char *place; /* all of them without user, password and token, for people */
    bool tls;          /* one begins with tls:// */
    bool secret;       /* one has a user or a token */
};

/* natsurl_read reads a list, whose parts are nats:// or tls:// (without: nats://), perhaps
 * user:password@ or token@ (with %40 for an "@", as in any URL), a host, and perhaps a port.
 * STATUS_INVALID says what is wrong without repeating it: it may have a password inside.  What is
 * read is in `arena`. */
enum status natsurl_read(const char *text, struct arena *arena, struct natsurl *out,
                         struct err *err);

/* natsurl_quote appends a user, a password, a token or a name so that it survives libnats, which
 * writes such a text between the quotes of its JSON as it is: everything but letters, digits and
 * "-._~" is written as JSON's \u00XX. */
void natsurl_quote(struct slice text, struct buf *out);

#endif
