/* owner: this process as the owner of a data directory: its station, the API on it, and a server on
 * DIR/lazaret.sock for every other process that is given the same directory.
 *
 *     DIR/lazaret.lock   "PID what": held by the owner
 *     DIR/lazaret.sock   where it listens; a stale one, of an owner that died, is replaced */
#ifndef LAZARET_API_OWNER_H
#define LAZARET_API_OWNER_H

#include "api/server.h"
#include "engine/station.h"

struct owner;

struct owner_config {
    struct station_config station;
    const struct redaction *redaction;                 /* lives as long as the owner */
    struct meter *meter;                               /* NULL: nobody counts */
    const struct targets *targets;                     /* where deliveries may go; NULL: nowhere */
    bool no_metrics;                                   /* GET /metrics is not answered */
    void (*outside)(void *ctx, struct expose *expose); /* see struct api */
    void *outside_ctx;
    bool no_socket; /* nobody else is listened to */
    bool streams;   /* event streams: the pump costs a thread */
};

/* owner_open takes the directory.  STATUS_BUSY when another process has it; the sentence names it.
 * A socket that cannot be made (a file system without sockets) is a
 * warning in the log, not an error: the owner works, others wait. */
enum status owner_open(const struct owner_config *config, struct owner **out, struct err *err);
void owner_close(struct owner *owner); /* NULL is fine */

struct api *owner_api(struct owner *owner);
struct hub *owner_hub(struct owner *owner); /* NULL: no streams */
struct engine *owner_engine(struct owner *owner);
struct station *owner_station(struct owner *owner);

/* owner_socket_path writes DIR/lazaret.sock. */
enum status owner_socket_path(const char *data, struct buf *out, struct err *err);

#endif
