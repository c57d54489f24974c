/* eventpump: the thread that feeds the streams.  hub.h has the idea. */
#include "api/hub.h"
#include "base/log.h"

#define CATCH_PAGE 256           /* events of one read, for a stream that catches up, */
#define CATCH_BYTES (256u << 10) /* and how much of it is printed, but for one event */
#define TICKS 15                 /* how often the pump looks in the time of a quiet stream */
#define LAST_ROUNDS (RING_EVENTS_MAX / PUMP_LIVE_PAGE) /* when it ends */

/* ---- the bell -------------------------------------------------------------------------------- */

void pump_ring(struct hub *hub)
{
    pthread_mutex_lock(&hub->bell_lock);
    hub->rung = true;
    pthread_cond_signal(&hub->bell);
    pthread_mutex_unlock(&hub->bell_lock);
}

/* bell_wait waits until somebody rings or the time is over.  Without streams nothing is timed. */
static void bell_wait(struct hub *hub, struct span tick)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + tick.us % 1000000 * 1000;
    until.tv_sec += tick.us / 1000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&hub->bell_lock);
    int over = 0;
    while (!hub->rung && over == 0) {
        if (atomic_load(&hub->listening))
            over = pthread_cond_timedwait(&hub->bell, &hub->bell_lock, &until);
        else
            pthread_cond_wait(&hub->bell, &hub->bell_lock);
    }
    hub->rung = false;
    pthread_mutex_unlock(&hub->bell_lock);
}

void pump_committed(void *ctx, int64_t seq)
{
    struct hub *hub = ctx;
    atomic_store(&hub->newest, seq);
    if (atomic_load(&hub->listening))
        pump_ring(hub);
}

/* ---- the pump: one round --------------------------------------------------------------------- */

/* struct round: what the pump asks the engine for, at once. */
struct round {
    int64_t newest;            /* was committed when it asked */
    bool live;                 /* whether something is asked for the ring, */
    struct event_page fresh;   /* and what */
    uint64_t ring_times;       /* the ring that it is for */
    size_t printed;            /* events that are in hub->fresh */
    struct hub_stream *stream; /* who catches up; NULL: nobody */
    struct event_page past;
    struct buf text; /* `past`, printed */
    int64_t seen;    /* how far `text` goes */
};

/* pick_stream finds the stream whose turn it is to be given a page. */
static struct hub_stream *pick_stream(struct hub *hub)
{
    for (size_t i = 0; i < hub->stream_count; i++) {
        hub->turn = (hub->turn + 1) % hub->stream_count;
        struct hub_stream *stream = hub->streams[hub->turn];
        if (stream_reaches(stream))
            stream->wants = false;
        if (stream->wants)
            return stream;
    }
    return NULL;
}

/* round_plan says what to ask for; false: nothing. */
static bool round_plan(struct hub *hub, struct round *round)
{
    pthread_mutex_lock(&hub->lock);
    round->newest = atomic_load(&hub->newest);
    round->live = hub->stream_count && hub->ring.tail < round->newest;
    round->fresh = (struct event_page){.after = hub->ring.tail, .limit = PUMP_LIVE_PAGE};
    round->ring_times = hub->ring_times;
    round->stream = hub->ending ? NULL : pick_stream(hub);
    if (round->stream) {
        round->stream->busy = true;
        round->past = (struct event_page){.after = round->stream->seen, .limit = CATCH_PAGE};
    }
    pthread_mutex_unlock(&hub->lock);
    return round->live || round->stream;
}

static enum status round_read(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    (void)engine;
    struct round *round = ctx;
    enum status status = STATUS_OK;
    if (round->live)
        status = event_page_read(store, &round->fresh, arena, err);
    if (status == STATUS_OK && round->stream)
        status = event_page_read(store, &round->past, arena, err);
    return status;
}

/* reached is the seq up to which a page is complete when its first `count` events are used: a page
 * that is not full goes as far as anything did when it was asked for. */
static int64_t reached(const struct event_page *page, size_t count, int64_t newest)
{
    int64_t seq = count ? page->events[count - 1].seq : page->after;
    bool all = count == page->count && page->count < page->limit;
    return all && newest > seq ? newest : seq;
}

/* print_fresh prints what is for the ring. */
static enum status print_fresh(struct hub *hub, struct round *round, struct err *err)
{
    for (size_t i = 0; i < round->fresh.count; i++) {
        hub->fresh[i] = printed_new(&round->fresh.events[i], round->fresh.job_ids[i],
                                    hub->redaction, &hub->scratch);
        if (!hub->fresh[i])
            return err_no_memory(err);
        round->printed++;
    }
    return STATUS_OK;
}

/* print_past prints what is for the stream, which nobody else changes while it is busy: as much as
 * a page may hold, and one event at least. */
static enum status print_past(struct hub *hub, struct round *round, struct err *err)
{
    const struct hub_stream *stream = round->stream;
    const struct event_page *page = &round->past;
    const struct redaction *mask = stream->masked ? hub->redaction : NULL;
    size_t i;
    for (i = 0; i < page->count && round->text.len < CATCH_BYTES; i++)
        if (stream_wants(stream, page->events[i].what))
            event_page_stream(&page->events[i], page->job_ids[i], mask, &round->text);
    round->seen = reached(page, i, round->newest);
    return buf_status(&round->text, err);
}

static enum status round_fetch(struct hub *hub, struct round *round, struct err *err)
{
    struct read_command read = {
        .command = {.kind = COMMAND_READ, .actor = SLICE("events"), .arena = &hub->arena},
        .read = round_read,
        .ctx = round};
    arena_reset(&hub->arena);
    enum status status = engine_call(hub->engine, &read.command);
    if (status != STATUS_OK) {
        *err = read.command.err;
        return status;
    }
    if (round->live)
        status = print_fresh(hub, round, err);
    if (status == STATUS_OK && round->stream)
        status = print_past(hub, round, err);
    return status;
}

/* evict lets go of the first event of the ring.  A live stream that has not read it is dropped. */
static void evict(struct hub *hub)
{
    const struct printed *first = ring_at(&hub->ring, 0);
    for (size_t i = 0; i < hub->stream_count; i++) {
        struct hub_stream *stream = hub->streams[i];
        if (stream->state != STREAM_LIVE || stream->seen >= first->seq)
            continue;
        if (stream_wants(stream, first->what)) {
            stream->state = STREAM_DROPPED;
            hub->dropped++;
        } else {
            stream->seen = first->seq;
        }
    }
    ring_evict(&hub->ring);
}

/* publish gives the ring what was printed for it. */
static void publish(struct hub *hub, struct round *round)
{
    for (size_t i = 0; i < round->printed; i++) {
        while (!ring_has_room(&hub->ring, hub->fresh[i]))
            evict(hub);
        ring_add(&hub->ring, hub->fresh[i]);
    }
    round->printed = 0;
    hub->ring.tail = reached(&round->fresh, round->fresh.count, round->newest);
}

/* hand_over gives the stream its page.  One that has nothing for this reader is followed by the
 * next, and the reader sleeps on. */
static void hand_over(struct round *round)
{
    struct hub_stream *stream = round->stream;
    struct buf empty = stream->page;
    stream->seen = round->seen;
    if (round->text.len == 0)
        return;
    stream->page = round->text;
    stream->page_full = true;
    stream->wants = false;
    round->text = empty;
}

/* round_end takes over what was fetched, with the lock. */
static void round_end(struct hub *hub, struct round *round, bool fetched)
{
    if (fetched && round->live && round->ring_times == hub->ring_times)
        publish(hub, round);
    for (size_t i = 0; i < round->printed; i++)
        printed_drop(hub->fresh[i]);
    if (!round->stream)
        return;
    round->stream->busy = false;
    if (round->stream->gone)
        stream_free(round->stream);
    else if (fetched)
        hand_over(round);
}

/* settle finds the streams that are to be woken. */
static size_t settle(struct hub *hub)
{
    struct span now = stream_steady();
    size_t count = 0;
    for (size_t i = 0; i < hub->stream_count; i++) {
        struct hub_stream *stream = hub->streams[i];
        if (!stream->asleep)
            continue;
        bool has = stream_has(stream);
        stream->comment = !has && now.us - stream->fed_at.us >= hub->quiet.us;
        if (!has && !stream->comment)
            continue;
        stream->asleep = false;
        stream->waking = true;
        hub->wakes[count++] = stream;
    }
    return count;
}

static void wake(struct hub *hub, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct hub_stream *stream = hub->wakes[i];
        stream->wake(stream->ctx);
        pthread_mutex_lock(&hub->lock);
        stream->waking = false;
        pthread_cond_broadcast(&hub->woken);
        pthread_mutex_unlock(&hub->lock);
    }
}

/* complain logs a trouble once; what was not read is read again at the next tick. */
static void complain(struct hub *hub, bool fetched, const struct err *err)
{
    if (!fetched && !hub->troubled)
        log_line(LOG_ERROR, "event streams wait: %s", err->text);
    hub->troubled = !fetched;
}

/* round_run does one round; false: there was nothing to do. */
static bool round_run(struct hub *hub)
{
    struct round round = {0};
    struct err err = {0};
    bool planned = round_plan(hub, &round);
    bool fetched = false;
    buf_init(&round.text, HUB_PRINT_MAX);
    if (planned) {
        fetched = round_fetch(hub, &round, &err) == STATUS_OK;
        complain(hub, fetched, &err);
    }
    pthread_mutex_lock(&hub->lock);
    round_end(hub, &round, fetched);
    size_t count = settle(hub);
    pthread_mutex_unlock(&hub->lock);
    buf_release(&round.text);
    wake(hub, count);
    return fetched;
}

/* ---- the pump: its life ---------------------------------------------------------------------- */

/* look says whether the hub is to end, and how long the pump may sleep. */
static bool look(struct hub *hub, struct span *tick)
{
    pthread_mutex_lock(&hub->lock);
    bool ending = hub->ending;
    tick->us = hub->quiet.us / TICKS;
    pthread_mutex_unlock(&hub->lock);
    return ending;
}

/* pump_end gives the streams what was committed before the end, as far as the ring holds it. */
static void pump_end(struct hub *hub)
{
    for (int i = 0; i < LAST_ROUNDS && round_run(hub); i++)
        ;
    pthread_mutex_lock(&hub->lock);
    hub->finished = true;
    size_t count = settle(hub);
    pthread_mutex_unlock(&hub->lock);
    wake(hub, count);
}

void *pump_main(void *arg)
{
    struct hub *hub = arg;
    struct span tick;
    while (!look(hub, &tick))
        if (!round_run(hub))
            bell_wait(hub, tick);
    pump_end(hub);
    return NULL;
}
