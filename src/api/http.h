/* http: requests over sockets.  It knows HTTP and nothing of Lazaret.
 *
 * Network threads parse and print.  An exchange is one request and its answer:
 *
 *     begin    the head was read: who asks, and for what.  It may be answered here: then no body
 *              is read
 *     request  the body was read.  Answer with http_answer or http_stream, or http_hold and
 *              let any thread call http_resume later: then `request` is called again
 *     gone     the client went away while the exchange was held and watched; it still must be
 *              resumed
 *     end      the last call: the exchange is freed after it.  `delivered` says that the answer was
 *              handed to the network whole
 *
 * Limits are the server's own: on heads, bodies, connections, connections per address, and on the
 * time that a request may take to arrive and an answer to be taken.  Requests that two readers
 * could understand differently (two lengths, odd header names, a length beside chunks) are refused.
 */
#ifndef LAZARET_API_HTTP_H
#define LAZARET_API_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"
#include "base/time.h"

struct http;
struct http_exchange;

struct http_handler {
    void (*begin)(void *ctx, struct http_exchange *exchange);
    void (*request)(void *ctx, struct http_exchange *exchange);
    void (*gone)(void *ctx, struct http_exchange *exchange);
    void (*end)(void *ctx, struct http_exchange *exchange, bool delivered);
    void (*connections)(void *ctx, int change); /* one came or went; NULL: nobody counts */
    void *ctx;
};

/* struct http_limits: 0 is the default for each. */
struct http_limits {
    size_t body_max;          /* 4 MiB */
    size_t head_max;          /* 8 KiB */
    unsigned connections_max; /* 4096 */
    unsigned address_max;     /* connections of one address; 0: any number */
    struct span head_within;  /* 15 s for a whole head, from its first byte */
    struct span idle_within;  /* 75 s between requests */
    struct span body_grace;   /* 20 s before the rate of a body matters */
    size_t rate_min;          /* 1024 bytes a second of a body or an answer after that */
};

struct http_config {
    int listen_fd;    /* a listening socket; http closes it */
    bool local;       /* it is a Unix socket */
    unsigned threads; /* 0: 1 */
    struct http_limits limits;
    const char *tls_certificate, *tls_key; /* PEM texts; NULL: no TLS */
    struct http_handler handler;
};

enum status http_start(const struct http_config *config, struct http **out, struct err *err);

/* http_drain takes in who is knocking and refuses new connections.  Those that are open go on;
 * their answers say "close".  On a Unix socket no other request can be sent: a client whose request
 * could not be sent whole knows that it was not carried out, and what was sent is carried out. */
void http_drain(struct http *http);

/* http_busy says whether connections are open.  In a drain of a Unix socket it also ends those that
 * have become idle. */
bool http_busy(struct http *http);

/* http_stop ends everything.  Every held exchange must have been resumed.  NULL is fine. */
void http_stop(struct http *http);

/* ---- an exchange ------------------------------------------------------------------------------
 */

const char *http_method(const struct http_exchange *exchange);
struct slice http_path(const struct http_exchange *exchange);  /* as sent, percent-encoded */
struct slice http_query(const struct http_exchange *exchange); /* without the "?" */
struct slice http_header(const struct http_exchange *exchange, const char *name); /* empty: none */
struct slice http_body(const struct http_exchange *exchange);
bool http_has_body(const struct http_exchange *exchange);     /* its head says so */
struct slice http_peer(const struct http_exchange *exchange); /* "127.0.0.1"; "unix:1000" by uid */
bool http_local(const struct http_exchange *exchange);        /* it came over a Unix socket */
bool http_loopback(const struct http_exchange *exchange);     /* or from this machine */
struct span http_since(const struct http_exchange *exchange); /* how long ago its head was read */

/* The handler's own, for an exchange. */
void http_set(struct http_exchange *exchange, void *own);
void *http_get(const struct http_exchange *exchange);

/* http_hold keeps the exchange without a thread until http_resume.  `watch`: tell `gone` when the
 * client goes away. */
void http_hold(struct http_exchange *exchange, bool watch);
void http_resume(struct http_exchange *exchange); /* any thread */

/* http_present says whether the client is still there, as far as can be known. */
bool http_present(const struct http_exchange *exchange);

struct http_field {
    const char *name; /* NULL ends a list */
    const char *value;
};

/* http_answer answers; the body's memory is taken and `body` left empty.  `fields` end with a NULL
 * name. */
void http_answer(struct http_exchange *exchange, int status, const struct http_field *fields,
                 struct buf *body);

/* http_drop closes the connection without an answer. */
void http_drop(struct http_exchange *exchange);

/* ---- a stream ---------------------------------------------------------------------------------
 */

/* http_stream answers 200 with a body that has no end yet.  `read` is called on a network thread
 * when there is room for bytes: it writes up to `max` into `out` and returns how many, 0 when there
 * are none at the moment (the stream then sleeps until http_stream_wake), or -1 at the end.  `end`
 * of the handler is called as for every exchange. */
void http_stream(struct http_exchange *exchange, const struct http_field *fields,
                 long (*read)(void *own, char *out, size_t max), void *own);

/* http_stream_wake has a sleeping stream read again.  Any thread, until `end`. */
void http_stream_wake(struct http_exchange *exchange);

#endif
