/* http_internal: what the files behind http.h share.
 *
 *     http.c         exchanges, over libmicrohttpd
 *     http_head.c    what is wrong with a head
 *     http_warden.c  one thread that looks after time: slow and silent clients are cut off, and
 * held exchanges learn that their client is gone
 *
 * libmicrohttpd is used in poll mode.  Its own handling of time is not enough: a byte a second
 * keeps a connection alive for ever, and a suspended connection is not looked at. */
#ifndef LAZARET_API_HTTP_INTERNAL_H
#define LAZARET_API_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/http.h"

#define PEER_SIZE 64

/* What a connection is doing, for the warden's rules. */
enum phase {
    PHASE_IDLE,   /* between requests, or the head of one is arriving */
    PHASE_BODY,   /* a body is arriving */
    PHASE_HELD,   /* the server is at work */
    PHASE_ANSWER, /* the answer is being taken */
    PHASE_STREAM, /* an answer without an end: libmicrohttpd's timeout is enough */
};

/* struct visitor: a connection.  The network thread writes the atomics, the warden reads them. */
struct visitor {
    struct visitor *next, *previous; /* under http->lock */
    int fd;
    struct http_exchange *exchange; /* the network thread's: the one under way; NULL: none */
    char peer[PEER_SIZE];
    bool loopback;
    _Atomic(enum phase) phase;
    atomic_llong since_us;         /* when the phase began, steady */
    atomic_size_t bytes;           /* of the body so far, or of the answer */
    struct http_exchange *watched; /* under http->lock; NULL: nobody asks whether it is there */

    /* The warden's own. */
    bool idle_known;               /* `idle_bytes` was read in this idle phase */
    unsigned long long idle_bytes; /* received when the idle phase was first seen */
    long long head_since_us;       /* when more was seen to arrive; 0: nothing has */
    long long idle_since_us;       /* the phase that the fields above belong to */
};

struct http {
    struct MHD_Daemon *daemon;
    struct http_config config;
    atomic_bool draining;

    pthread_mutex_t lock;
    struct visitor *visitors;

    int epoll;      /* held exchanges that are watched */
    int stop_event; /* an eventfd: ends the warden */
    pthread_t warden;
    bool has_warden;
};

/* steady_us is a clock that does not jump. */
long long steady_us(void);

/* struct request_line: the first line as libmicrohttpd cut it, in the memory where it was received.
 */
struct request_line {
    const char *method;
    const char *url; /* where the address was; its text has been decoded since */
    size_t uri_len;  /* of the address as it was sent */
    const char *version;
};

/* head_fault says what is wrong with the head of a request: an HTTP status and a sentence; 0:
 * nothing.  `target` is the address as it was sent, from its path on. */
int head_fault(struct MHD_Connection *connection, const struct request_line *line,
               struct slice target, const struct http_limits *limits, const char **sentence);

/* has_trailers says whether fields came behind the body.  Where they end is read as leniently as
 * the head, so they are not taken. */
bool has_trailers(struct MHD_Connection *connection);

enum status warden_start(struct http *http, struct err *err);
void warden_stop(struct http *http);

/* visitor_add and visitor_remove keep the warden's list. */
void visitor_add(struct http *http, struct visitor *visitor);
void visitor_remove(struct http *http, struct visitor *visitor);

/* visitors_hear_no_more ends the receiving half of every connection that has no request under way:
 * what was sent is still read.  A request whose body is arriving, or that is being carried out,
 * would not be answered. */
void visitors_hear_no_more(struct http *http);

/* visitor_phase says that the connection does something else from here on. */
void visitor_phase(struct visitor *visitor, enum phase phase, size_t bytes);

/* visitor_watch has the warden tell `gone` when the client goes away, until visitor_unwatch. */
void visitor_watch(struct http *http, struct visitor *visitor, struct http_exchange *exchange);
void visitor_unwatch(struct http *http, struct visitor *visitor);

#endif
