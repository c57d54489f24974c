/* natspost: messages whose fate is known.
 *
 * Each is sent with an address of its own for answers.  A stream that takes it acknowledges it
 * there; where no stream takes the subject, the server itself says when nobody listens ("no
 * responders"), before it handles what is sent after it, and silence means that somebody does.
 *
 *     a stream takes the subject:  its acknowledgement -> STORED   its error -> REFUSED
 *                                  nothing in time     -> UNSURE
 *     it is not known (the server does not say):  likewise, but nobody listens -> REFUSED
 *     none does:                   nobody listens      -> REFUSED  somebody does -> DELIVERED
 *                                  nothing in time     -> UNSURE
 *
 * What is unsure may be sent again with the same id: a stream drops what it has already.  Where it
 * is not known whether a stream takes it, what somebody has got is not sent again until that is
 * known: a plain subscriber would have it twice. */
#ifndef LAZARET_BRIDGE_NATSPOST_H
#define LAZARET_BRIDGE_NATSPOST_H

#include "base/arena.h"
#include "bridge/natsdesk.h"

enum natspost_fate { NATSPOST_UNSURE, NATSPOST_STORED, NATSPOST_DELIVERED, NATSPOST_REFUSED };

/* What the server says of a subject. */
enum natspost_capture { NATSPOST_UNKNOWN, NATSPOST_FREE, NATSPOST_CAPTURED };

struct natspost_item {
    struct slice subject, body;
    struct slice id; /* Nats-Msg-Id */
    enum natspost_fate fate;
    bool too_large; /* refused, as it has more bytes than the server takes */
    bool doubtful;  /* it went out in some round, and nobody said what became of it */
    bool nobody;    /* the server could give it to nobody, in the last round */
    /* The post's: */
    enum natspost_capture capture; /* whether a stream takes the subject */
    bool held;                     /* it is not sent in this round */
    bool sent;                     /* it went out in this round */
    bool passed;                   /* in some round somebody got it, without saying so */
    struct err err;                /* of what is refused or unsure: why */
};

struct natspost;

/* natspost_open makes a post over the link of a desk, which outlives it. */
enum status natspost_open(struct natsdesk *desk, struct natspost **out, struct err *err);
void natspost_close(struct natspost *post); /* NULL is fine */

/* natspost_send sends items and waits for what becomes of them, at most `wait_ms`.  Those whose
 * fate is not NATSPOST_UNSURE are left alone; when the desk is to stop, those that have not gone
 * out are not sent. */
void natspost_send(struct natspost *post, struct natspost_item *items, size_t count,
                   unsigned wait_ms);

/* natspost_subject_check says what is wrong with a subject to publish to: STATUS_INVALID. */
enum status natspost_subject_check(struct slice subject, struct err *err);

#endif
