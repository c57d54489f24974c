/* hub: what the files behind events.h share: events.c (streams and the hub's life) and eventpump.c
 * (the thread that feeds them).  Nothing else includes this.
 *
 *     engine --committed--> newest, bell --> pump --read_command--> engine
 *                                             |
 *                                 ring of printed events     page of a stream that catches up
 *                                             `--- hub_read copies from these ---'
 *
 * A stream is a number, the last seq it has seen, and a state:
 *
 *     CATCHING --[has read all there is]--> LIVE --[the ring lets go of what it needs]--> DROPPED
 *
 * While it is behind the ring it asks the pump for one page after the other, when it has read the
 * one before; then it reads from the ring.  Both go by seq, so that there is no gap and no
 * repetition where one becomes the other.  The ring waits for nobody: it may pass by a stream that
 * catches up, which asks for pages again, so such a one cannot be too slow; one that was live is
 * dropped.
 *
 * Invariants:
 *
 *   - the engine's thread only stores a number and rings a bell, whose lock is never held for long;
 *   - one round of the pump asks the engine for one page of what is live and one page for one
 * stream that catches up, in turn: nobody's past delays another's present;
 *   - `lock` guards the ring and the streams, and is not held while anybody is read for or woken;
 *   - memory: the ring, a page for each stream that catches up, an event for each that is reading
 *     one. */
#ifndef LAZARET_API_HUB_H
#define LAZARET_API_HUB_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/eventring.h"
#include "api/events.h"

#define PUMP_LIVE_PAGE 1024        /* events of one read */
#define HUB_PRINT_MAX (256u << 20) /* no event, and no page, is that long */

enum stream_state { STREAM_CATCHING, STREAM_LIVE, STREAM_DROPPED };

struct hub_stream {
    struct hub *hub;
    enum stream_state state;
    int64_t seen;      /* everything up to this seq was given, or is not for this reader */
    struct slice what; /* the filter, behind this struct */
    bool masked;
    void (*wake)(void *ctx);
    void *ctx;

    struct slice left;    /* of the piece that is being read */
    struct printed *held; /* the event that `left` is of; NULL: none */
    struct buf page;      /* what was caught up with */
    bool page_full;       /* it has not been read */
    char text[96];        /* the first words, or the mark */

    bool wants;         /* a page */
    bool busy;          /* the pump is getting it; without the lock */
    bool gone;          /* the reader has left meanwhile: the pump frees */
    bool asleep;        /* the reader was told that there is nothing */
    bool waking;        /* `wake` is being called */
    bool comment;       /* is due */
    bool marked;        /* the mark of a dropped stream was given */
    struct span fed_at; /* when the reader was last given something */
};

struct hub {
    struct engine *engine;
    const struct redaction *redaction;
    _Atomic int64_t newest; /* the last event that was committed */
    atomic_bool listening;  /* somebody wants to know */

    /* The bell: what wakes the pump.  `bell_lock` guards `rung` alone. */
    pthread_mutex_t bell_lock;
    pthread_cond_t bell;
    bool rung;

    pthread_mutex_t lock;
    pthread_cond_t woken; /* a stream is not being woken any more */
    struct event_ring ring;
    uint64_t ring_times; /* how often the ring was reset */
    struct hub_stream *streams[HUB_STREAMS_MAX];
    size_t stream_count;
    size_t turn; /* whose page is next */
    struct span quiet;
    uint64_t dropped;
    bool ending;   /* nobody may join, nothing more is caught up with */
    bool finished; /* nothing will be added to the ring */

    pthread_mutex_t end_lock; /* held while the hub ends */
    bool has_thread;
    pthread_t thread;

    /* The pump's own. */
    struct arena arena;
    struct buf scratch;
    bool troubled; /* the last read failed, and that was logged */
    struct printed *fresh[PUMP_LIVE_PAGE];
    struct hub_stream *wakes[HUB_STREAMS_MAX];
};

/* ---- streams (events.c): with the lock, all but stream_steady -------------------------------- */

/* stream_wants says whether the filter lets the event through. */
bool stream_wants(const struct hub_stream *stream, struct slice what);

/* stream_reaches says whether the ring has what comes next for a stream that has taken its page. */
bool stream_reaches(const struct hub_stream *stream);

/* stream_has says whether the next hub_read gives something, be it the end. */
bool stream_has(struct hub_stream *stream);

void stream_free(struct hub_stream *stream);

/* stream_steady is the clock that quiet streams go by. */
struct span stream_steady(void);

/* ---- the pump (eventpump.c) ------------------------------------------------------------------ */

/* pump_ring has the pump look what there is to do.  Any thread; it waits for nobody. */
void pump_ring(struct hub *hub);

/* pump_committed is the engine's way to say what the last event is. */
void pump_committed(void *ctx, int64_t seq);

/* pump_main is the thread: it ends when hub->ending is set, and says so in hub->finished. */
void *pump_main(void *arg);

#endif
