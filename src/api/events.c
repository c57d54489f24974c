/* events: the streams and the life of the hub.  hub.h has the idea. */
#include "api/events.h"

#include <inttypes.h>

#include "api/hub.h"
#include "base/mem.h"

#define QUIET_SECONDS 15 /* a comment follows */

/* ---- streams: all of it with the lock -------------------------------------------------------- */

struct span stream_steady(void)
{
    const struct seams *seams = seams_real();
    return seams->steady(seams->ctx);
}

bool stream_wants(const struct hub_stream *stream, struct slice what)
{
    return stream->what.len == 0 || slice_eq(stream->what, what);
}

/* stream_find steps over what is not for this reader, and finds the next event that is; NULL: none
 * yet. */
static struct printed *stream_find(struct hub_stream *stream)
{
    const struct event_ring *ring = &stream->hub->ring;
    for (size_t i = ring_find(ring, stream->seen); i < ring->count; i++) {
        struct printed *printed = ring_at(ring, i);
        if (stream_wants(stream, printed->what))
            return printed;
        stream->seen = printed->seq;
    }
    return NULL;
}

bool stream_reaches(const struct hub_stream *stream)
{
    return !stream->busy && !stream->page_full && stream->seen >= stream->hub->ring.base;
}

bool stream_has(struct hub_stream *stream)
{
    if (stream->state == STREAM_DROPPED || stream->page_full || stream->hub->finished)
        return true;
    return stream_reaches(stream) && stream_find(stream);
}

/* say makes a text that was printed into the stream's own memory the next piece. */
static void say(struct hub_stream *stream, int len)
{
    BUG_ON(len < 0 || (size_t)len >= sizeof(stream->text));
    stream->left = (struct slice){stream->text, (size_t)len};
}

/* next_caught is the page of a stream that is behind the ring, if it is there. */
static bool next_caught(struct hub_stream *stream)
{
    if (!stream->page_full) {
        stream->wants = !stream->hub->ending;
        return false;
    }
    stream->left = buf_slice(&stream->page);
    stream->page_full = false;
    return true;
}

/* next_event is an event of the ring, which is held meanwhile.  When there is none, the stream is
 * live from here on. */
static bool next_event(struct hub_stream *stream)
{
    struct printed *printed = stream_find(stream);
    stream->wants = false;
    if (!printed) {
        stream->state = STREAM_LIVE;
        buf_release(&stream->page);
        return false;
    }
    printed->holders++;
    stream->held = printed;
    stream->seen = printed->seq;
    stream->left = stream->masked ? printed->masked : printed->plain;
    return true;
}

static bool next_mark(struct hub_stream *stream)
{
    if (stream->marked)
        return false;
    stream->marked = true;
    say(stream, snprintf(stream->text, sizeof(stream->text),
                         "id: %" PRId64 "\nevent: dropped\ndata: {\"seq\":%" PRId64 "}\n\n",
                         stream->seen, stream->seen));
    return true;
}

/* next_piece sets `left` to what comes next; false: there is nothing at the moment, or any more. */
static bool next_piece(struct hub_stream *stream)
{
    printed_drop(stream->held);
    stream->held = NULL;
    if (stream->state == STREAM_DROPPED)
        return next_mark(stream);
    if (stream_reaches(stream) ? next_event(stream) : next_caught(stream))
        return true;
    if (!stream->comment)
        return false;
    stream->comment = false;
    stream->left = SLICE(": \n\n");
    return true;
}

/* stream_over says whether nothing will come after what was read. */
static bool stream_over(const struct hub_stream *stream)
{
    return stream->state == STREAM_DROPPED || stream->hub->finished;
}

long hub_read(struct hub_stream *stream, char *out, size_t max)
{
    struct hub *hub = stream->hub;
    size_t given = 0;
    if (max == 0)
        return 0;
    pthread_mutex_lock(&hub->lock);
    while (given < max && (stream->left.len || next_piece(stream))) {
        size_t len = stream->left.len < max - given ? stream->left.len : max - given;
        memcpy(out + given, stream->left.ptr, len);
        stream->left.ptr += len;
        stream->left.len -= len;
        given += len;
    }
    bool over = given == 0 && stream_over(stream);
    bool ring = stream->wants && !stream->busy;
    stream->asleep = given == 0 && !over;
    if (given) {
        stream->fed_at = stream_steady();
        stream->comment = false;
    }
    pthread_mutex_unlock(&hub->lock);
    if (ring)
        pump_ring(hub);
    return over ? -1 : (long)given;
}

/* ---- coming and going ------------------------------------------------------------------------ */

static struct hub_stream *stream_new(struct hub *hub, const struct hub_config *config)
{
    struct hub_stream *stream = mem_zalloc(sizeof(*stream) + config->what.len);
    if (!stream)
        return NULL;
    char *what = (char *)(stream + 1);
    if (config->what.len)
        memcpy(what, config->what.ptr, config->what.len);
    stream->hub = hub;
    stream->what = (struct slice){what, config->what.len};
    stream->masked = config->masked;
    stream->wake = config->wake;
    stream->ctx = config->ctx;
    stream->fed_at = stream_steady();
    buf_init(&stream->page, HUB_PRINT_MAX);
    return stream;
}

void stream_free(struct hub_stream *stream)
{
    printed_drop(stream->held);
    buf_release(&stream->page);
    mem_free(stream);
}

/* stream_enter puts a stream among the others, behind the event that its reader has seen. */
static bool stream_enter(struct hub *hub, struct hub_stream *stream, int64_t after)
{
    if (hub->ending || hub->stream_count == HUB_STREAMS_MAX)
        return false;
    /* In this order: what is committed after `newest` was read finds somebody listening. */
    atomic_store(&hub->listening, true);
    int64_t newest = atomic_load(&hub->newest);
    if (hub->stream_count == 0) {
        ring_reset(&hub->ring, newest);
        hub->ring_times++;
    }
    hub->streams[hub->stream_count++] = stream;
    stream->seen = after < 0 || after > newest ? newest : after;
    say(stream, snprintf(stream->text, sizeof(stream->text), "retry: 1000\nid: %" PRId64 "\n\n",
                         stream->seen));
    return true;
}

struct hub_stream *hub_join(struct hub *hub, const struct hub_config *config)
{
    struct hub_stream *stream = stream_new(hub, config);
    if (!stream)
        return NULL;
    pthread_mutex_lock(&hub->lock);
    bool entered = stream_enter(hub, stream, config->after);
    pthread_mutex_unlock(&hub->lock);
    if (!entered) {
        stream_free(stream);
        return NULL;
    }
    pump_ring(hub);
    return stream;
}

/* stream_exit takes a stream from among the others; the last one takes the ring with it. */
static void stream_exit(struct hub *hub, const struct hub_stream *stream)
{
    size_t i = 0;
    while (hub->streams[i] != stream)
        i++;
    hub->streams[i] = hub->streams[--hub->stream_count];
    if (hub->stream_count == 0) {
        atomic_store(&hub->listening, false);
        ring_reset(&hub->ring, hub->ring.tail);
        hub->ring_times++;
    }
}

void hub_leave(struct hub_stream *stream)
{
    struct hub *hub = stream->hub;
    pthread_mutex_lock(&hub->lock);
    while (stream->waking)
        pthread_cond_wait(&hub->woken, &hub->lock);
    stream_exit(hub, stream);
    stream->gone = true;
    if (!stream->busy)
        stream_free(stream);
    pthread_mutex_unlock(&hub->lock);
}

void hub_numbers(struct hub *hub, struct hub_numbers *out)
{
    pthread_mutex_lock(&hub->lock);
    *out = (struct hub_numbers){hub->stream_count, hub->ring.bytes, hub->dropped};
    for (size_t i = 0; i < hub->stream_count; i++) {
        out->bytes += hub->streams[i]->page.len;
        out->bytes += hub->streams[i]->held ? hub->streams[i]->held->size : 0;
    }
    pthread_mutex_unlock(&hub->lock);
}

void hub_quiet(struct hub *hub, struct span quiet)
{
    pthread_mutex_lock(&hub->lock);
    hub->quiet = quiet;
    pthread_mutex_unlock(&hub->lock);
    pump_ring(hub);
}

/* ---- the hub --------------------------------------------------------------------------------- */

static enum status read_newest(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine, (void)arena, (void)err;
    struct hub *hub = ctx;
    int64_t seq;
    struct hash hash;
    store->event_head(store, &seq, &hash);
    atomic_store(&hub->newest, seq); /* on the engine's thread: it is the newest */
    return STATUS_OK;
}

static struct hub *hub_new(struct engine *engine, const struct redaction *redaction)
{
    struct hub *hub = mem_zalloc(sizeof(*hub));
    if (!hub)
        return NULL;
    hub->engine = engine;
    hub->redaction = redaction;
    hub->quiet = span_seconds(QUIET_SECONDS);
    buf_init(&hub->scratch, HUB_PRINT_MAX);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&hub->bell, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&hub->woken, NULL);
    pthread_mutex_init(&hub->bell_lock, NULL);
    pthread_mutex_init(&hub->lock, NULL);
    pthread_mutex_init(&hub->end_lock, NULL);
    return hub;
}

enum status hub_open(struct engine *engine, const struct redaction *redaction, struct hub **out,
                     struct err *err)
{
    struct hub *hub = hub_new(engine, redaction);
    if (!hub)
        return err_no_memory(err);
    engine_listen(engine, pump_committed, hub);
    struct read_command read = {
        .command = {.kind = COMMAND_READ, .actor = SLICE("events"), .arena = &hub->arena},
        .read = read_newest,
        .ctx = hub};
    enum status status = engine_call(engine, &read.command);
    int error = status == STATUS_OK ? pthread_create(&hub->thread, NULL, pump_main, hub) : 0;
    hub->has_thread = status == STATUS_OK && error == 0;
    if (status != STATUS_OK)
        *err = read.command.err;
    else if (error)
        status = err_set(err, STATUS_UNAVAILABLE, "the thread for event streams cannot be started");
    if (status != STATUS_OK) {
        hub_close(hub);
        return status;
    }
    *out = hub;
    return STATUS_OK;
}

void hub_end(struct hub *hub)
{
    pthread_mutex_lock(&hub->end_lock);
    pthread_mutex_lock(&hub->lock);
    hub->ending = true;
    pthread_mutex_unlock(&hub->lock);
    pump_ring(hub);
    if (hub->has_thread)
        pthread_join(hub->thread, NULL);
    hub->has_thread = false;
    engine_listen(hub->engine, NULL, NULL);
    pthread_mutex_unlock(&hub->end_lock);
}

void hub_close(struct hub *hub)
{
    if (!hub)
        return;
    hub_end(hub);
    BUG_ON(hub->stream_count);
    ring_reset(&hub->ring, 0);
    arena_release(&hub->arena);
    buf_release(&hub->scratch);
    pthread_cond_destroy(&hub->bell);
    pthread_cond_destroy(&hub->woken);
    pthread_mutex_destroy(&hub->bell_lock);
    pthread_mutex_destroy(&hub->lock);
    pthread_mutex_destroy(&hub->end_lock);
    mem_free(hub);
}
