/* wire: many HTTP requests at once, on one loop: libcurl's multi interface over epoll.
 *
 * What matters beside the answer is, when there is none, whether the request may have been carried
 * out all the same: WIRE_UNSENT when nothing of it left, WIRE_UNKNOWN when some of it may have.
 *
 * A call sends its request at most once.  A connection that was kept from an earlier request may
 * be closed by the other side just as the next one is written to it; libcurl would then send that
 * again over another one, and nobody would know.  Here this happens only when not a byte of it had
 * left; else the call is WIRE_UNKNOWN, and who called decides whether to call again.  So that this
 * is rare, a connection is not kept longer than servers commonly keep theirs.
 *
 * A redirect is followed only where scheme, host and port stay the same: what a request has, its
 * headers and its body, is meant for nobody else.  One that leads elsewhere, to what url_parse does
 * not accept, or that comes with more than `answer_max` bytes is the answer, as if redirects were
 * off: nobody else is looked up or connected to.  One that is followed is a sending of its own:
 * `outcome`, `status` and `sent` are about the last one, as an answer that sends a request on has
 * not carried it out.
 *
 * A host (with its port) has at most `host_parallel` requests under way; others to it wait here,
 * and do not hold up those to other hosts.  Time counts from when a request leaves this line.  When
 * a host lets the time of a request pass, and answers no other meanwhile, those that wait for it
 * end with that one, as WIRE_UNSENT.
 *
 * Everything here is called on the loop's thread. */
#ifndef LAZARET_BRIDGE_WIRE_H
#define LAZARET_BRIDGE_WIRE_H

#include "base/buf.h"
#include "core/address.h"
#include "crew/loop.h"

struct wire;

struct wire_config {
    struct loop *loop;
    unsigned parallel;      /* requests under way at once; 0: 1000 */
    unsigned host_parallel; /* likewise to one host; 0: 32 */
    bool proxies;           /* those that the environment names are used, but not for this machine
                               and not by calls with `may_connect`: the address that these are to
                               be asked about is then known to the proxy alone */
    const char *user_agent; /* copied */
};

enum wire_outcome {
    WIRE_ANSWERED,  /* there is an answer, whole or cut at its limit */
    WIRE_UNSENT,    /* nothing of the request left: nothing happened */
    WIRE_UNKNOWN,   /* the request, or some of it, may have left, and no whole answer came */
    WIRE_FORBIDDEN, /* the address may not be connected to: nothing happened */
    WIRE_STOPPED,   /* wire_cancel */
};

/* struct wire_call: a request and what came back.  Who sends it owns it, and keeps its hands off
 * from wire_send until `done`, but for wire_cancel. */
struct wire_call {
    /* The request: a POST. */
    const char *url;            /* as url_parse accepts it; any other is WIRE_UNSENT */
    bool private_path;          /* what follows its host is a secret: no sentence shows it */
    const char *const *headers; /* "Name: value", NULL at the end; may be NULL */
    struct slice body;
    struct span connect;    /* time to connect; 0: 10 s */
    struct span whole;      /* time for all of it; 0: 30 s */
    bool redirects;         /* followed, up to five, as POSTs, where they stay at their place */
    bool connect_only;      /* it is only looked whether somebody is there: nothing is sent, and
                               WIRE_ANSWERED, without a status, says that there is */
    size_t answer_max;      /* bytes of the answer that are kept; what follows is not read */
    unsigned host_parallel; /* 0: the wire's */
    /* may_connect is asked for every address that is about to be connected to, after its name was
     * looked up, and for that of a kept connection before it is used again: so what another call
     * may do is not open to this one.  When it allows none, the call is WIRE_FORBIDDEN with the
     * sentence that it gave.  It calls nothing of the wire's.  NULL: any. */
    enum status (*may_connect)(const struct wire_call *call, struct address address, uint16_t port,
                               struct err *err);
    /* done is called once, from the loop, never inside wire_send or wire_cancel.  The call may be
     * freed or sent again in it. */
    void (*done)(struct wire_call *call);
    void *owner;

    /* The answer. */
    enum wire_outcome outcome;
    bool sent;              /* some of the request may have left */
    int status;             /* of HTTP; 0: none came */
    struct buf answer;      /* the body; wire_call_release frees it */
    bool answer_cut;        /* there was more than `answer_max` */
    char content_type[128]; /* "" when there was none */
    char retry_after[64];   /* the header as it came; "" when there was none */
    char location[512];     /* of a redirect that was not followed; "" when there was none */
    bool timed_out;         /* it took longer than it may */
    bool untrusted;         /* TLS did not come about */
    struct err err;         /* why there is no answer */
    struct span took;       /* since it left the line; 0: it never did */

    struct wire_part *part; /* the wire's */
};

void wire_call_init(struct wire_call *call);
void wire_call_release(struct wire_call *call);

enum status wire_open(const struct wire_config *config, struct wire **out, struct err *err);
/* wire_close: NULL is fine; there must be no request under way or waiting. */
void wire_close(struct wire *wire);

/* wire_send begins.  False when memory is exhausted: `done` is not called. */
bool wire_send(struct wire *wire, struct wire_call *call);

/* wire_cancel ends a request early: it is WIRE_STOPPED, unless it has ended just before. */
void wire_cancel(struct wire *wire, struct wire_call *call);

#endif
