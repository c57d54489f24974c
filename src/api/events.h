/* events: GET /api/v1/events: every event of the evidence, as it is committed, to any number of
 * readers.
 *
 * One pump thread reads what was committed from the store, in pages, prints each event once, and
 * hands it to every stream:
 *
 *     id: 4711
 *     event: dead-lettered
 *     data: {"seq":4711,"at":...,"actor":...,"job_id":...,"what":...,"why":{...},...}
 *
 * A reader that names the last event it saw (Last-Event-ID, or ?after=) is first given what it
 * missed, from the store, at its own pace.  One that falls more than a buffer behind while it is
 * live is dropped: it gets `event: dropped` with the last seq it was given and the end of the
 * stream, and holds nobody up; it may come back with Last-Event-ID.  A quiet stream gets a comment
 * every 15 s, so that both ends notice a dead connection.
 *
 * A stream begins with `retry: 1000` and the id that it goes on from, and the mark has an id too,
 * so that a browser that comes back by itself asks for the right place even when it was given
 * nothing:
 *
 *     retry: 1000                id: 4711
 *     id: 4600                   event: dropped
 *                                data: {"seq":4711}                                              */
#ifndef LAZARET_API_EVENTS_H
#define LAZARET_API_EVENTS_H

#include "core/redact.h"
#include "engine/engine.h"

#define HUB_STREAMS_MAX 256

struct hub;
struct hub_stream;

/* hub_open starts the pump over an engine that runs, and makes itself the engine's listener. */
enum status hub_open(struct engine *engine, const struct redaction *redaction, struct hub **out,
                     struct err *err);

/* hub_end ends every stream: each gets its bytes, then the end.  When it returns, the hub does not
 * use the engine any more; it must be called before the engine stops.  Twice is fine.  hub_close
 * also ends, and frees; no stream may be open. */
void hub_end(struct hub *hub);
void hub_close(struct hub *hub); /* NULL is fine */

struct hub_config {
    int64_t after;     /* the last event that the reader has seen; -1, or one that is not there yet:
                          only what comes */
    bool masked;       /* the reader sees the redaction rules' mask */
    struct slice what; /* only events of this kind; empty: all */
    /* wake is called, on any thread, when a stream that had nothing has something to read. */
    void (*wake)(void *ctx);
    void *ctx;
};

/* hub_join opens a stream.  NULL when memory is exhausted, too many are open, or the hub ends. */
struct hub_stream *hub_join(struct hub *hub, const struct hub_config *config);

/* hub_read takes up to `max` bytes: 0 when there are none, -1 at the end. Any one thread at a time.
 * `wake` follows a 0, perhaps before the reader sees it. */
long hub_read(struct hub_stream *stream, char *out, size_t max);

/* hub_leave closes the stream; `wake` is not called after it returns.  Not inside `wake`. */
void hub_leave(struct hub_stream *stream);

/* struct hub_numbers: how the hub is doing. */
struct hub_numbers {
    size_t streams;   /* that are open */
    size_t bytes;     /* of printed events that it keeps */
    uint64_t dropped; /* streams that were too slow, since the start */
};
void hub_numbers(struct hub *hub, struct hub_numbers *out);

/* hub_quiet sets how long a stream may be quiet before it gets a comment: for tests. */
void hub_quiet(struct hub *hub, struct span quiet);

#endif
