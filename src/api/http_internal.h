/* http_internal: what the files behind http.h share.
 *
 *     http.c         exchanges, over libmicrohttpd
 *     http_loop.c    network threads, connections, and the life of the server
 *     http_head.c    what is wrong with a head
 *     http_warden.c  one thread that looks after time: slow and silent clients are cut off, and
 * held exchanges learn that their client is gone
 *
 * libmicrohttpd's own handling of time is not enough: a byte a second
 * keeps a connection alive for ever, and a suspended connection is not looked at. */
#ifndef LAZARET_API_HTTP_INTERNAL_H
#define LAZARET_API_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/http.h"

#define PEER_SIZE 64

/* libmicrohttpd's memory for one connection, beside the head: the answer's head, and a body's
 * pieces. It is zeroed with every request, so little is better. */
#define CONNECTION_MEMORY (4 << 10)

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
    long long left_in_us;          /* the phase in which it was seen to have left; 0: none */
};

#define LOOPS_MAX 64

/* struct loop: a network thread with connections of its own. */
struct loop {
    struct http *http;
    struct MHD_Daemon *daemon;
    int event; /* an eventfd: something was resumed, or is to end */
    _Atomic(struct http_exchange *) resumed;
    bool quiet; /* it does not listen any more */
    pthread_t thread;
    bool runs;
};

struct http {
    struct http_config config;
    struct loop loops[LOOPS_MAX];
    unsigned loop_count;
    atomic_bool draining;    /* answers say "close" */
    atomic_bool deaf;        /* loops are to stop listening */
    atomic_uint loops_quiet; /* that have */
    atomic_bool stopping;

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

/* exchange_uri, exchange_access and exchange_completed are libmicrohttpd's calls for a request,
 * with the loop as their first argument.  exchange_end is for one that it does not complete. */
void *exchange_uri(void *ctx, const char *uri, struct MHD_Connection *connection);
enum MHD_Result exchange_access(void *ctx, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_len, void **own);
void exchange_completed(void *ctx, struct MHD_Connection *connection, void **own,
                        enum MHD_RequestTerminationCode how);
void exchange_end(struct http_exchange *exchange, bool delivered);

/* loop_resume has the loop wake a suspended exchange.  Any thread.  exchange_link and exchange_wake
 * are its list: the second returns the next. */
void loop_resume(struct loop *loop, struct http_exchange *exchange);
void exchange_link(struct http_exchange *exchange, struct http_exchange *next);
struct http_exchange *exchange_wake(struct http_exchange *exchange);

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

/* has_left says whether the other end of a connection is gone, or at least sends nothing more. */
bool has_left(int fd);

/* visitor_watch has the warden tell `gone` when the client goes away, until visitor_unwatch. */
void visitor_watch(struct http *http, struct visitor *visitor, struct http_exchange *exchange);
void visitor_unwatch(struct http *http, struct visitor *visitor);

#endif
