/* natspost: messages whose fate is known.
 *
 * Each is sent with an address of its own for answers.  A stream that takes it acknowledges it
 * there; where no stream takes the subject, the server itself says when nobody listens ("no
 * responders"), before it handles what is sent after it, and silence means that somebody does.
 *
 *     a stream takes the subject:  its acknowledgement -> STORED   its error -> REFUSED
 *                                  nothing in time     -> UNSURE
 *     none does:                   nobody listens      -> REFUSED  somebody does -> DELIVERED
 *                                  nothing in time     -> UNSURE
 *
 * What is unsure may be sent again with the same id: a stream drops what it has already. */
#ifndef LAZARET_BRIDGE_NATSPOST_H
#define LAZARET_BRIDGE_NATSPOST_H

#include "base/arena.h"
#include "bridge/natslink.h"

enum natspost_fate { NATSPOST_UNSURE, NATSPOST_STORED, NATSPOST_DELIVERED, NATSPOST_REFUSED };

struct natspost_item {
    struct slice subject, body;
    struct slice id; /* Nats-Msg-Id */
    enum natspost_fate fate;
    bool too_large; /* refused, as it has more bytes than the server takes */
    bool captured;  /* a stream takes the subject */
    bool sent;      /* the post's: it went out in this round */
    bool nobody;    /* likewise: the server could give it to nobody */
    struct err err; /* of what is refused or unsure: why */
};

struct natspost;

/* natspost_open makes a post over a link, which outlives it. */
enum status natspost_open(struct natslink *link, struct natspost **out, struct err *err);
void natspost_close(struct natspost *post); /* NULL is fine */

/* natspost_send sends items and waits for what becomes of them, at most `wait_ms`.  Those whose
 * fate is not NATSPOST_UNSURE are left alone. */
void natspost_send(struct natspost *post, struct natspost_item *items, size_t count,
                   unsigned wait_ms);

/* natspost_subject_check says what is wrong with a subject to publish to: STATUS_INVALID. */
enum status natspost_subject_check(struct slice subject, struct err *err);

#endif
