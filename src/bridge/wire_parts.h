/* wire_parts: what the files of the wire share.  Nothing else includes this.
 *
 *     wire.c        the line, the loop and libcurl's multi handle
 *     wire_call.c   one transfer: its options, what libcurl asks while it goes on
 *     wire_end.c    what became of it */
#ifndef LAZARET_BRIDGE_WIRE_PARTS_H
#define LAZARET_BRIDGE_WIRE_PARTS_H

#include <curl/curl.h>

#include "bridge/line.h"
#include "bridge/wire.h"
#include "core/url.h"

#define TRANSFER_SOCKETS_MAX 5 /* that one transfer can have (libcurl: MAX_SOCKSPEREASYHANDLE) */

/* struct wire_socket: a descriptor that libcurl wants watched. */
struct wire_socket {
    struct loop_watch watch;
    struct wire *wire;
    struct wire_socket *next; /* of those that are free */
};

/* struct transfer: an easy handle and what is known of the request that it carries.  They are
 * expensive, and used again and again: as many as were ever under way at once. */
struct transfer {
    CURL *easy; /* what is the same for all requests is set once */
    struct wire *wire;
    struct transfer *next; /* of those that are free */
    struct wire_part *part;
    struct curl_slist *headers;
    char trouble[CURL_ERROR_SIZE];
    struct span since; /* when it left the line */
    unsigned followed; /* redirects: each makes another sending.  What follows is about the last: */
    bool begun;        /* it has begun to leave */
    long size_before;  /* CURLINFO_REQUEST_SIZE when it did */
    int status;        /* of its answer; 0: none yet */
    bool headed;       /* the head of its answer is there to the end */
    /* Addresses that were asked about since it began. */
    bool permitted, refused;
    struct err refusal;
    int socket_errno; /* why there is no socket; 0: there is */
    bool resend;      /* libcurl wanted to send it a second time */
    /* So that there is one whenever libcurl asks, which takes no failure for an answer. */
    struct wire_socket sockets[TRANSFER_SOCKETS_MAX];
};

/* struct wire_part: a call from wire_send to `done`. */
struct wire_part {
    struct line_entry entry; /* first */
    struct wire_call *call;
    struct url url;            /* of the call */
    bool direct;               /* it goes without a proxy */
    struct transfer *transfer; /* when it is under way */
    bool ended;                /* it waits for `done` to be called */
    struct wire_part *next;    /* of those that ended */
};

struct wire {
    struct loop *loop;
    CURLM *multi;
    char *user_agent, *authority; /* NULL: the default */
    unsigned host_parallel;
    bool proxies;
    struct line line;
    struct transfer *transfers;  /* free ones */
    struct wire_socket *sockets; /* likewise */
    struct wire_part *ended, **ended_end;
    bool moving; /* it is seen to what is new and what has ended */
    /* Both are always set, if need be far in the future: so setting them takes no memory. */
    struct loop_timer clock; /* libcurl's */
    struct loop_timer sweep; /* for what is new in the line or has ended outside the loop */
};

/* transfer_new makes one; NULL when memory is exhausted. */
struct transfer *transfer_new(struct wire *wire);
void transfer_free(struct transfer *transfer);

/* transfer_begin readies it for a call.  False when memory is exhausted. */
bool transfer_begin(struct transfer *transfer, struct wire_part *part);

/* transfer_leads_on says whether a transfer that is over is to be sent on: its answer is a redirect
 * that is followed.  transfer_follow readies it for that; false when memory is exhausted. */
bool transfer_leads_on(const struct transfer *transfer, CURLcode code);
bool transfer_follow(struct transfer *transfer);

/* transfer_left says whether something of the last sending may have left already: what TLS has
 * written is not known to the byte. */
bool transfer_left(const struct transfer *transfer);

/* transfer_end fills the call's answer when the transfer is over; transfer_stop when it was ended
 * early.  Both before the handle is used again. */
void transfer_end(struct transfer *transfer, CURLcode code);
void transfer_stop(struct transfer *transfer);

#endif
