/* server: the API over HTTP: who asks, may they, carry it out, answer, log.
 *
 * A server listens on one socket: TCP for the world, or the Unix socket of a data directory's owner
 * (owner.h).  Requests that wait for the engine hold no thread. */
#ifndef LAZARET_API_SERVER_H
#define LAZARET_API_SERVER_H

#include "api/accesslog.h"
#include "api/api.h"
#include "api/events.h"
#include "api/http.h"
#include "api/tokens.h"

struct server;

struct server_config {
    struct api *api;
    struct hub *hub;             /* NULL: no event streams */
    struct tokens *tokens;       /* NULL: none are needed */
    struct accesslog *accesslog; /* NULL: nothing is logged */
    int listen_fd;               /* the server closes it */
    bool local;                  /* it is a Unix socket: whoever can open it is the owner */
    unsigned threads;
    struct http_limits limits;
    const char *tls_certificate, *tls_key; /* PEM texts; NULL: no TLS */
};

enum status server_start(const struct server_config *config, struct server **out, struct err *err);

/* server_drain refuses what is new, ends waits and streams, and returns when everything that was
 * accepted is answered, or `within` is over. */
void server_drain(struct server *server, struct span within);
void server_stop(struct server *server); /* drains for a moment, then ends.  NULL is fine */

/* server_listen opens a TCP socket for "HOST:PORT" ("[::1]:8700"; port 0: any free one).
 * `url` gets what a client would use; `loopback` whether only this machine can reach it. */
#define SERVER_URL_SIZE 128
enum status server_listen(const char *address, bool tls, int *fd, char url[SERVER_URL_SIZE],
                          bool *loopback, struct err *err);

/* server_describe says the same of a socket that is bound already. */
void server_describe(int fd, bool tls, char url[SERVER_URL_SIZE], bool *loopback);

#endif
