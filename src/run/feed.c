/* feed: a thread that reads, a chain of chunks, and one message at a time.
 *
 *     reader thread --chunks (bounded)--> loop --POST /jobs--> engine
 *
 * `lock` guards the chain; everything else belongs to the loop, or to the reader alone. */
#include "run/feed.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "core/envelope.h"
#include "crew/courier.h"

#define CHUNK_ITEMS 1000
#define CHUNK_BYTES ((size_t)1 << 20)
#define CHUNKS_MAX 4 /* that wait */
#define AGAIN_MS 500 /* after a push that was refused for now */

/* struct chunk: envelopes, with commas between them. */
struct chunk {
    struct chunk *next;
    struct buf text;
    size_t count;
};

struct feed {
    struct feed_config config;
    struct courier *courier;
    struct message push;
    struct chunk *pushing; /* that `push` carries */
    struct loop_timer again;
    struct feed_counts counts; /* the loop's */
    pthread_t thread;
    bool has_thread;
    struct buf capability; /* JSON: "run:RUN" */

    pthread_mutex_t lock;
    pthread_cond_t room;
    struct chunk *first, *last;
    size_t chunk_count;
    int64_t repeated;
    bool ended;         /* the reader has nothing more */
    bool stopped;       /* it shall end */
    bool told;          /* a post is on its way */
    enum status status; /* of the reader */
    struct err err;
    struct loop_post arrived;
};

/* ---- the reader -------------------------------------------------------------------------------
 */

static void print_envelope(const struct feed *feed, const struct items_entry *entry,
                           struct buf *out)
{
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    struct buf id;
    buf_init(&id, ENVELOPE_ID_MAX);
    buf_addf(&id, "%s/%.*s", feed->config.run_id, SLICE_ARG(entry->id));
    jsonw_put_string(&w, "job_id", buf_slice(&id));
    buf_release(&id);
    jsonw_put_str(&w, "action", "map");
    jsonw_put_str(&w, "queue", "map");
    jsonw_put_str(&w, "source", "map");
    jsonw_put_str(&w, "run_id", feed->config.run_id);
    jsonw_put_string(&w, "item_id", entry->id);
    jsonw_key(&w, "required_capabilities");
    jsonw_array(&w);
    jsonw_raw(&w, buf_slice(&feed->capability));
    jsonw_array_end(&w);
    jsonw_put_raw(&w, "retry_policy", slice_of(feed->config.policy));
    jsonw_key(&w, "inputs");
    jsonw_object(&w);
    item_print(&entry->item, &w);
    jsonw_object_end(&w);
    jsonw_object_end(&w);
}

static void arrived(struct loop_post *post);

/* tell wakes the loop, once until it has looked.  With the lock held. */
static void tell(struct feed *feed)
{
    if (feed->told)
        return;
    feed->told = true;
    feed->arrived.run = arrived;
    loop_post(feed->config.loop, &feed->arrived);
}

/* chunk_for is the chunk that the next envelope goes to; it waits while too many are full.  With
 * the lock held. NULL: memory is exhausted, or it is over. */
static struct chunk *chunk_for(struct feed *feed, size_t len)
{
    struct chunk *last = feed->last;
    if (last && last->count < CHUNK_ITEMS && last->text.len + len < CHUNK_BYTES)
        return last;
    while (feed->chunk_count >= CHUNKS_MAX && !feed->stopped)
        pthread_cond_wait(&feed->room, &feed->lock);
    struct chunk *chunk = feed->stopped ? NULL : mem_zalloc(sizeof(*chunk));
    if (!chunk)
        return NULL;
    buf_init(&chunk->text, (size_t)4 << 20);
    if (feed->last)
        feed->last->next = chunk;
    else
        feed->first = chunk;
    feed->last = chunk;
    feed->chunk_count++;
    return chunk;
}

/* add hands one envelope over.  False: nothing more is wanted. */
static bool add(struct feed *feed, struct slice envelope, bool repeated, struct err *err)
{
    pthread_mutex_lock(&feed->lock);
    struct chunk *chunk = feed->stopped ? NULL : chunk_for(feed, envelope.len);
    if (chunk) {
        if (chunk->count++)
            buf_add_char(&chunk->text, ',');
        buf_add_slice(&chunk->text, envelope);
        feed->status = buf_status(&chunk->text, err);
        feed->repeated += repeated;
        tell(feed);
    } else if (!feed->stopped) {
        feed->status = err_no_memory(err);
    }
    bool more = chunk && !feed->status;
    pthread_mutex_unlock(&feed->lock);
    return more;
}

static enum status read_one(struct feed *feed, struct buf *envelope, bool *more, struct err *err)
{
    struct items_entry entry;
    enum status status = items_next(feed->config.items, &entry, more, err);
    if (status || !*more)
        return status;
    buf_clear(envelope);
    print_envelope(feed, &entry, envelope);
    if (envelope->len > ENVELOPE_BODY_MAX || envelope->status)
        return err_set(
            err, STATUS_TOO_LARGE,
            "item %lld is too large: an item may have about %d bytes as JSON; put it in a file "
            "and map over the file's name",
            (long long)entry.number, ENVELOPE_BODY_MAX - 4096);
    if (feed->config.roll)
        status = roll_add(feed->config.roll, entry.id, err);
    if (status)
        return status;
    *more = add(feed, buf_slice(envelope), entry.repeated, err);
    return STATUS_OK;
}

static void *read_all(void *ctx)
{
    struct feed *feed = ctx;
    struct err err = {0};
    struct buf envelope;
    bool more = true;
    enum status status = STATUS_OK;
    buf_init(&envelope, (size_t)ENVELOPE_BODY_MAX * 2);
    while (!status && more)
        status = read_one(feed, &envelope, &more, &err);
    buf_release(&envelope);
    pthread_mutex_lock(&feed->lock);
    if (status && !feed->stopped)
        feed->status = status;
    feed->err = err;
    feed->ended = true;
    tell(feed);
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

/* ---- the loop's side --------------------------------------------------------------------------
 */

static void chunk_free(struct chunk *chunk)
{
    if (!chunk)
        return;
    buf_release(&chunk->text);
    mem_free(chunk);
}

/* take is the next chunk to push; NULL: there is none now. */
static struct chunk *take(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    struct chunk *chunk = feed->first;
    if (chunk) {
        feed->first = chunk->next;
        if (!feed->first)
            feed->last = NULL;
        feed->chunk_count--;
        pthread_cond_signal(&feed->room);
    }
    feed->told = false;
    feed->counts.repeated = feed->repeated;
    feed->counts.done = !chunk && feed->ended;
    feed->counts.whole = feed->counts.done && !feed->stopped && !feed->status;
    if (feed->counts.done && !feed->counts.status) {
        feed->counts.status = feed->status;
        feed->counts.err = feed->err;
    }
    pthread_mutex_unlock(&feed->lock);
    return chunk;
}

static void send(struct feed *feed)
{
    buf_clear(&feed->push.body);
    buf_add_char(&feed->push.body, '[');
    buf_add_slice(&feed->push.body, buf_slice(&feed->pushing->text));
    buf_add_char(&feed->push.body, ']');
    courier_send(feed->courier, &feed->push);
}

/* pump pushes the next chunk, or tells that all is done. */
static void pump(struct feed *feed)
{
    if (feed->pushing || feed->counts.done)
        return;
    feed->pushing = take(feed);
    if (feed->pushing)
        send(feed);
    else if (feed->counts.done)
        feed->config.pushed(feed->config.ctx);
}

static void arrived(struct loop_post *post)
{
    pump((struct feed *)((char *)post - offsetof(struct feed, arrived)));
}

static void again(struct loop_timer *timer)
{
    send((struct feed *)((char *)timer - offsetof(struct feed, again)));
}

/* refused_for_now says that some were refused for lack of room: the whole chunk is pushed again. */
static bool refused_for_now(struct json results)
{
    struct json_iter iter;
    struct json result, code;
    json_iter_init(&iter, results);
    while (json_next(&iter, NULL, &result))
        if (json_get(result, "code", &code) && json_string_is(code, "limit"))
            return true;
    return false;
}

/* give_up ends the feed: what is wrong will not get better. */
static void give_up(struct feed *feed, enum status status, const struct err *err)
{
    feed->counts.status = status;
    feed->counts.err = *err;
    feed_stop(feed);
}

/* count takes one answer down. */
static void count(struct feed *feed, struct json result)
{
    struct json value, error;
    struct err err;
    struct arena arena = {0};
    if (json_get(result, "error", &error)) {
        json_get(result, "code", &value);
        if (json_string_is(value, "conflict") && feed->config.resume) {
            feed->counts.total++; /* it is there, as it was recorded */
            feed->counts.known++;
        } else if (!feed->counts.status) {
            struct slice text = json_text(error, &arena);
            err_set(&err, STATUS_INVALID, "an item was refused: %.*s", SLICE_ARG(text));
            give_up(feed, STATUS_INVALID, &err);
        }
        arena_release(&arena);
        return;
    }
    feed->counts.total++;
    json_get(result, "created", &value);
    if (value.type == JSON_TRUE)
        return;
    json_get(result, "state", &value);
    if (json_string_is(value, "done") || json_string_is(value, "cancelled") ||
        json_string_is(value, "dead"))
        feed->counts.before++;
}

static void pushed(struct message *message)
{
    struct feed *feed = message->owner;
    struct json results, result;
    struct json_iter iter;
    json_get(message->value, "results", &results);
    bool later = message->status == STATUS_UNAVAILABLE || message->status == STATUS_BUSY ||
                 message->status == STATUS_LIMIT || refused_for_now(results);
    if (later && !feed->stopped &&
        loop_timer_set(feed->config.loop, &feed->again, span_ms(AGAIN_MS)))
        return;
    if (message->status)
        give_up(feed, message->status, &message->err);
    json_iter_init(&iter, results);
    while (json_next(&iter, NULL, &result))
        count(feed, result);
    chunk_free(feed->pushing);
    feed->pushing = NULL;
    feed->config.pushed(feed->config.ctx);
    pump(feed);
}

/* ---- from outside -----------------------------------------------------------------------------
 */

/* start begins the thread with every signal blocked. */
static enum status start(struct feed *feed, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    feed->has_thread = pthread_create(&feed->thread, NULL, read_all, feed) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return feed->has_thread
               ? STATUS_OK
               : err_set(err, STATUS_LIMIT, "a thread cannot be started: too many are running");
}

enum status feed_open(const struct feed_config *config, struct feed **out, struct err *err)
{
    struct feed *feed = mem_zalloc(sizeof(*feed));
    struct jsonw w;
    if (!feed) {
        items_close(config->items);
        roll_close(config->roll);
        return err_no_memory(err);
    }
    feed->config = *config;
    feed->again.fire = again;
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->room, NULL);
    message_init(&feed->push, "POST", "/api/v1/jobs", pushed, feed);
    buf_init(&feed->capability, 1024);
    struct buf name;
    buf_init(&name, 1024);
    buf_addf(&name, "run:%s", config->run_id);
    jsonw_init(&w, &feed->capability);
    jsonw_string(&w, buf_slice(&name));
    buf_release(&name);
    enum status status = courier_new(config->loop, config->link, &feed->courier, err);
    if (!status)
        status = start(feed, err);
    if (status) {
        feed_close(feed);
        return status;
    }
    *out = feed;
    return STATUS_OK;
}

void feed_stop(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->stopped = true;
    for (struct chunk *chunk = feed->first, *next; chunk; chunk = next) {
        next = chunk->next;
        chunk_free(chunk);
    }
    feed->first = feed->last = NULL;
    feed->chunk_count = 0;
    pthread_cond_signal(&feed->room);
    if (feed->again.handle) {
        loop_timer_clear(feed->config.loop, &feed->again);
        chunk_free(feed->pushing);
        feed->pushing = NULL;
        tell(feed);
    }
    pthread_mutex_unlock(&feed->lock);
    items_stop(feed->config.items);
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    feed_stop(feed);
    if (feed->has_thread)
        pthread_join(feed->thread, NULL);
    courier_free(feed->courier);
    loop_timer_clear(feed->config.loop, &feed->again);
    chunk_free(feed->pushing);
    message_release(&feed->push);
    buf_release(&feed->capability);
    items_close(feed->config.items);
    roll_close(feed->config.roll);
    pthread_cond_destroy(&feed->room);
    pthread_mutex_destroy(&feed->lock);
    mem_free(feed);
}

struct feed_counts feed_counts(const struct feed *feed)
{
    return feed->counts;
}
