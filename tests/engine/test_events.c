/* Event streams: every event once, in order, to everybody, whoever is slow. */
#include "engine/api_fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "api/eventring.h"
#include "api/events.h"
#include "base/log.h"

#define PATIENCE_SECONDS 120 /* a test that waits for longer has failed */

/* ---- a reader -------------------------------------------------------------------------------- */

/* struct reader: a stream and what it gave. */
struct reader {
    struct hub_stream *stream;
    sem_t woken;
    char text[65536]; /* what is not parsed yet: less than an event, and what was read */
    size_t len;
    int64_t begin; /* the id that the stream said it goes on from */
    int64_t *seqs; /* of the events, in the order that they came */
    size_t count, cap;
    size_t comments;
    int64_t dropped; /* what the mark said; -1: there was none */
    bool over;       /* the stream has ended */
    char last[1024]; /* the data of the last event */
    char what[32];   /* and its kind */
};

static void wake(void *ctx)
{
    struct reader *reader = ctx;
    sem_post(&reader->woken);
}

static bool reader_try(struct reader *reader, struct hub *hub, int64_t after, bool masked,
                       const char *what)
{
    *reader = (struct reader){.begin = -1, .dropped = -1};
    sem_init(&reader->woken, 0, 0);
    struct hub_config config = {
        .after = after, .masked = masked, .what = slice_of(what), .wake = wake, .ctx = reader};
    reader->stream = hub_join(hub, &config);
    return reader->stream != NULL;
}

static void reader_open(struct reader *reader, struct hub *hub, int64_t after)
{
    assert_true(reader_try(reader, hub, after, false, NULL));
}

static void reader_close(struct reader *reader)
{
    if (reader->stream)
        hub_leave(reader->stream);
    sem_destroy(&reader->woken);
    free(reader->seqs);
}

static void keep_seq(struct reader *reader, int64_t seq)
{
    if (reader->count == reader->cap) {
        reader->cap = reader->cap ? reader->cap * 2 : 64;
        reader->seqs = realloc(reader->seqs, reader->cap * sizeof(*reader->seqs));
        assert_non_null(reader->seqs);
    }
    reader->seqs[reader->count++] = seq;
}

/* take_field notes one line of a block. */
static void take_field(struct reader *reader, char *line, int64_t *id, const char **data)
{
    if (strncmp(line, "id: ", 4) == 0)
        *id = strtoll(line + 4, NULL, 10);
    else if (strncmp(line, "event: ", 7) == 0)
        snprintf(reader->what, sizeof(reader->what), "%s", line + 7);
    else if (strncmp(line, "data: ", 6) == 0)
        *data = line + 6;
    else if (strcmp(line, ": ") == 0)
        reader->comments++;
    else if (strcmp(line, "retry: 1000") != 0)
        fail_msg("what is this: %s", line);
}

/* take_block notes what stands between two empty lines. */
static void take_block(struct reader *reader, char *block)
{
    int64_t id = -1;
    const char *data = NULL;
    char *rest = block;
    for (char *line; (line = strsep(&rest, "\n"));)
        take_field(reader, line, &id, &data);
    if (!data) {
        if (id >= 0)
            reader->begin = id;
        return;
    }
    if (strcmp(reader->what, "dropped") == 0) {
        char expected[64];
        snprintf(expected, sizeof(expected), "{\"seq\":%lld}", (long long)id);
        assert_string_equal(data, expected);
        reader->dropped = id;
        return;
    }
    assert_true(reader->dropped < 0);
    snprintf(reader->last, sizeof(reader->last), "%s", data);
    keep_seq(reader, id);
}

static void parse(struct reader *reader)
{
    char *at = reader->text, *end;
    while ((end = strstr(at, "\n\n"))) {
        *end = '\0';
        take_block(reader, at);
        at = end + 2;
    }
    reader->len -= (size_t)(at - reader->text);
    memmove(reader->text, at, reader->len + 1);
}

/* reader_take reads once, `max` bytes at most; false: there was nothing. */
static bool reader_take(struct reader *reader, size_t max)
{
    size_t room = sizeof(reader->text) - 1 - reader->len;
    long len = hub_read(reader->stream, reader->text + reader->len, max < room ? max : room);
    if (len < 0)
        reader->over = true;
    if (len <= 0)
        return false;
    reader->len += (size_t)len;
    reader->text[reader->len] = '\0';
    parse(reader);
    return true;
}

static void reader_wait(struct reader *reader)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    if (sem_timedwait(&reader->woken, &until) != 0)
        fail_msg("the stream was not woken; it gave %zu events", reader->count);
}

/* reader_until reads until the last event is `seq` or the stream ends. */
static void reader_until(struct reader *reader, int64_t seq)
{
    while (!reader->over && (reader->count == 0 || reader->seqs[reader->count - 1] < seq))
        if (!reader_take(reader, SIZE_MAX) && !reader->over)
            reader_wait(reader);
}

/* reader_idle reads until there is nothing at the moment: it is live, and asleep. */
static void reader_idle(struct reader *reader)
{
    while (reader_take(reader, SIZE_MAX))
        ;
    assert_false(reader->over);
}

/* assert_run checks that the reader was given first..last, each once and in order. */
static void assert_run(const struct reader *reader, int64_t first, int64_t last)
{
    assert_int_equal(reader->count, last - first + 1);
    for (size_t i = 0; i < reader->count; i++)
        assert_int_equal(reader->seqs[i], first + (int64_t)i);
}

/* ---- the world ------------------------------------------------------------------------------- */

static struct hub *open_hub(struct desk *desk, const struct redaction *redaction)
{
    struct hub *hub;
    struct err err = {0};
    if (hub_open(desk->engine, redaction, &hub, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return hub;
}

/* push_many pushes jobs: one event each.  Any thread. */
static void push_many(struct desk *desk, size_t count)
{
    struct api_answer answer;
    api_answer_init(&answer);
    while (count) {
        struct buf body;
        buf_init(&body, 1 << 20);
        size_t chunk = count < 500 ? count : 500;
        for (size_t i = 0; i < chunk; i++)
            buf_add_str(&body, "{\"action\":\"work\"}\n");
        struct api_request request = {.method = "POST",
                                      .path = SLICE("/api/v1/jobs"),
                                      .body = buf_slice(&body),
                                      .content_type = SLICE("application/x-ndjson"),
                                      .actor = SLICE("test"),
                                      .role = ROLE_ADMIN};
        api_call(&desk->api, &request, &answer);
        if (answer.status / 100 != 2)
            fail_msg("%s", buf_str(&answer.body));
        buf_release(&body);
        count -= chunk;
    }
    api_answer_release(&answer);
}

/* push_paced pushes while the reader keeps up, however busy the machine is. */
static void push_paced(struct desk *desk, struct reader *reader, size_t count)
{
    for (size_t done = 0; done < count; done += 500) {
        size_t chunk = count - done < 500 ? count - done : 500;
        int64_t last = reader->count ? reader->seqs[reader->count - 1] : reader->begin;
        push_many(desk, chunk);
        reader_until(reader, last + (int64_t)chunk);
    }
}

static int64_t head(struct desk *desk)
{
    api_ok(desk, "GET", "/api/v1/audit/head", NULL);
    return strtoll(api_text(desk, "seq"), NULL, 10);
}

/* ---- tests ----------------------------------------------------------------------------------- */

struct pusher {
    struct desk *desk;
    size_t times, count;
};

static void *pusher_main(void *arg)
{
    const struct pusher *pusher = arg;
    for (size_t i = 0; i < pusher->times; i++)
        push_many(pusher->desk, pusher->count);
    return NULL;
}

struct follower {
    struct reader reader;
    int64_t until;
};

static void *follower_main(void *arg)
{
    struct follower *follower = arg;
    reader_until(&follower->reader, follower->until);
    return NULL;
}

static void everybody_is_given_every_event_once_and_in_order_while_many_push(void **state)
{
    struct desk *desk = *state;
    struct hub *hub = open_hub(desk, NULL);
    struct follower followers[8];
    struct pusher pusher = {desk, 25, 20};
    pthread_t reading[8], pushing[4];
    for (int i = 0; i < 8; i++) {
        reader_open(&followers[i].reader, hub, -1);
        followers[i].until = 2000;
        pthread_create(&reading[i], NULL, follower_main, &followers[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&pushing[i], NULL, pusher_main, &pusher);
    for (int i = 0; i < 4; i++)
        pthread_join(pushing[i], NULL);
    for (int i = 0; i < 8; i++) {
        pthread_join(reading[i], NULL);
        assert_run(&followers[i].reader, 1, 2000);
        reader_close(&followers[i].reader);
    }
    hub_close(hub);
}

/* make_history makes events of many kinds: of jobs, of a purged one, of a policy and a queue. */
static void make_history(struct desk *desk)
{
    api_dead(desk, "\"job_id\":\"broken\"", "{\"error_class\":\"Timeout\",\"message\":\"slow\"}");
    const char *gone =
        api_dead(desk, "\"job_id\":\"gone\"", "{\"error_class\":\"Timeout\",\"message\":\"slow\"}");
    api_ok(desk, "POST", api_path(desk, "/api/v1/dlq/%s/discard", gone), "{\"note\":\"a\\nb\"}");
    api_ok(desk, "POST", "/api/v1/dlq/purge", "{\"job_id\":\"gone\",\"older_than_days\":0}");
    assert_answer(desk, "purged", "1");
    api_ok(desk, "PUT", "/api/v1/policies/mine", "{\n \"max_attempts\": 3\n}");
    api_ok(desk, "POST", "/api/v1/queues/default/pause", "{}");
    api_ok(desk, "POST", "/api/v1/queues/default/resume", "{}");
    push_many(desk, 3);
}

static void a_stream_that_resumes_after_any_event_equals_the_audit_list(void **state)
{
    struct desk *desk = *state;
    make_history(desk);
    struct hub *hub = open_hub(desk, NULL);
    int64_t newest = head(desk);
    assert_true(newest > 12);
    for (int64_t after = 0; after < newest; after++) {
        struct reader reader;
        reader_open(&reader, hub, after);
        for (int64_t seq = after + 1; seq <= newest; seq++) {
            while (reader.count < (size_t)(seq - after))
                if (!reader_take(&reader, 1))
                    reader_wait(&reader);
            struct slice path = arena_printf(&desk->arena, "/api/v1/audit?after=%lld&limit=1",
                                             (long long)(seq - 1));
            api_ok(desk, "GET", path.ptr, NULL);
            assert_answer(desk, "0", reader.last);
            assert_answer(desk, "0.what", reader.what);
        }
        assert_int_equal(reader.begin, after);
        assert_run(&reader, after + 1, newest);
        reader_close(&reader);
    }
    hub_close(hub);
}

static void a_stream_that_begins_with_what_comes_is_given_nothing_older(void **state)
{
    struct desk *desk = *state;
    push_many(desk, 5);
    struct hub *hub = open_hub(desk, NULL);
    push_many(desk, 5);
    struct reader reader, ahead;
    reader_open(&reader, hub, -1);
    reader_open(&ahead, hub, 1000);
    push_many(desk, 2);
    reader_until(&reader, 12);
    reader_until(&ahead, 12);
    assert_int_equal(reader.begin, 10);
    assert_run(&reader, 11, 12);
    assert_int_equal(ahead.begin, 10);
    assert_run(&ahead, 11, 12);
    reader_close(&reader);
    reader_close(&ahead);
    hub_close(hub);
}

static void a_stream_that_resumes_from_before_the_ring_catches_up_and_becomes_live(void **state)
{
    struct desk *desk = *state;
    struct hub *hub = open_hub(desk, NULL);
    struct follower live = {.until = RING_EVENTS_MAX + 5000};
    struct reader late;
    pthread_t reading, pushing;
    reader_open(&live.reader, hub, -1);
    reader_idle(&live.reader);
    push_paced(desk, &live.reader, RING_EVENTS_MAX + 1000);
    pthread_create(&reading, NULL, follower_main, &live);
    struct pusher pusher = {desk, 8, 500};
    pthread_create(&pushing, NULL, pusher_main, &pusher);
    reader_open(&late, hub, 10);
    reader_until(&late, live.until);
    pthread_join(pushing, NULL);
    pthread_join(reading, NULL);
    assert_run(&late, 11, live.until);
    push_many(desk, 1);
    reader_until(&late, live.until + 1);
    assert_run(&late, 11, live.until + 1);
    reader_close(&late);
    reader_close(&live.reader);
    hub_close(hub);
}

static void a_slow_reader_is_dropped_with_a_mark_and_can_come_back(void **state)
{
    struct desk *desk = *state;
    struct hub *hub = open_hub(desk, NULL);
    struct reader slow, fast, back;
    int64_t newest = RING_EVENTS_MAX + 2000;
    reader_open(&slow, hub, -1);
    reader_idle(&slow);
    reader_open(&fast, hub, -1);
    reader_idle(&fast);
    push_paced(desk, &fast, 1);
    reader_wait(&slow);
    reader_take(&slow, 10);                      /* it stops inside of an event */
    push_paced(desk, &fast, (size_t)newest - 1); /* nobody waits for the slow one */
    assert_run(&fast, 1, newest);
    reader_until(&slow, newest);
    assert_true(slow.over);
    assert_int_equal(slow.dropped, 1);
    assert_run(&slow, 1, 1);
    assert_int_equal(hub_read(slow.stream, slow.last, sizeof(slow.last)), -1);
    struct hub_numbers numbers;
    hub_numbers(hub, &numbers);
    assert_int_equal(numbers.dropped, 1);
    reader_open(&back, hub, slow.dropped);
    reader_until(&back, newest);
    assert_run(&back, 2, newest);
    reader_close(&slow);
    reader_close(&fast);
    reader_close(&back);
    hub_close(hub);
}

static void a_reader_that_only_catches_up_may_be_as_slow_as_it_likes(void **state)
{
    struct desk *desk = *state;
    push_many(desk, 3000);
    struct hub *hub = open_hub(desk, NULL);
    struct reader slow, live;
    int64_t newest = 3000 + RING_EVENTS_MAX + 1000;
    reader_open(&slow, hub, 0);
    while (slow.count == 0)
        if (!reader_take(&slow, 100))
            reader_wait(&slow);
    reader_open(&live, hub, -1);
    reader_idle(&live);
    push_paced(desk, &live, RING_EVENTS_MAX + 1000);
    reader_until(&slow, newest);
    assert_run(&slow, 1, newest);
    reader_close(&slow);
    reader_close(&live);
    hub_close(hub);
}

static void a_filter_lets_one_kind_through_and_waits_for_it_for_long(void **state)
{
    struct desk *desk = *state;
    push_many(desk, 700);
    api_lease(desk);
    struct hub *hub = open_hub(desk, NULL);
    struct reader live, past, nothing;
    assert_true(reader_try(&live, hub, -1, false, "queue-paused"));
    assert_true(reader_try(&past, hub, 0, false, "leased"));
    assert_true(reader_try(&nothing, hub, 0, false, "leas"));
    reader_idle(&live);
    push_many(desk, RING_EVENTS_MAX + 2000);
    api_ok(desk, "POST", "/api/v1/queues/default/pause", "{}");
    int64_t newest = head(desk);
    reader_until(&live, newest);
    assert_run(&live, newest, newest);
    assert_string_equal(live.what, "queue-paused");
    reader_until(&past, 701);
    assert_run(&past, 701, 701);
    api_ok(desk, "POST", "/api/v1/queues/default/resume", "{}");
    api_lease(desk);
    reader_until(&past, head(desk));
    assert_int_equal(past.count, 2);
    reader_idle(&nothing);
    assert_int_equal(nothing.count, 0);
    reader_close(&live);
    reader_close(&past);
    reader_close(&nothing);
    hub_close(hub);
}

static void the_end_of_the_hub_ends_every_stream_after_its_bytes(void **state)
{
    struct desk *desk = *state;
    struct hub *hub = open_hub(desk, NULL);
    push_many(desk, 2000);
    struct reader live, past, asleep, unread;
    reader_open(&live, hub, 1990);
    reader_open(&past, hub, 0);
    reader_open(&asleep, hub, -1);
    reader_open(&unread, hub, -1);
    reader_idle(&asleep);
    while (past.count == 0)
        if (!reader_take(&past, 300))
            reader_wait(&past);
    reader_idle(&live);
    push_many(desk, 10);
    hub_end(hub);
    hub_end(hub);
    reader_until(&asleep, INT64_MAX);
    reader_until(&live, INT64_MAX);
    reader_until(&unread, INT64_MAX);
    reader_until(&past, INT64_MAX);
    assert_run(&asleep, 2001, 2010);
    assert_run(&unread, 2001, 2010);
    assert_run(&live, 1991, 2010);
    assert_run(&past, 1, (int64_t)past.count);
    assert_int_equal(asleep.dropped, -1);
    struct reader late;
    assert_false(reader_try(&late, hub, -1, false, NULL));
    reader_close(&late);
    reader_close(&live);
    reader_close(&past);
    reader_close(&asleep);
    reader_close(&unread);
    hub_close(hub);
}

/* struct stormer: a thread that comes and goes. */
struct stormer {
    struct hub *hub;
    atomic_bool *stop;
    unsigned seed;
    size_t given;
};

static void *stormer_main(void *arg)
{
    struct stormer *stormer = arg;
    uint32_t random = stormer->seed;
    while (!atomic_load(stormer->stop)) {
        struct reader reader;
        random = random * 1664525 + 1013904223;
        int64_t after = random >> 30 ? (int64_t)(random >> 8 & 1023) : -1;
        reader_open(&reader, stormer->hub, after);
        for (unsigned turns = random >> 20 & 15; turns; turns--)
            reader_take(&reader, 1 + (random >> 4 & 4095));
        if (reader.count)
            assert_run(&reader, reader.begin + 1, reader.begin + (int64_t)reader.count);
        stormer->given += reader.count;
        reader_close(&reader);
    }
    return NULL;
}

static void readers_that_come_and_go_disturb_nobody(void **state)
{
    struct desk *desk = *state;
    push_many(desk, 600);
    struct hub *hub = open_hub(desk, NULL);
    atomic_bool stop = false;
    struct stormer stormers[4];
    struct follower steady = {.until = 2600};
    struct pusher pusher = {desk, 100, 20};
    pthread_t storming[4], reading, pushing;
    reader_open(&steady.reader, hub, 0);
    pthread_create(&reading, NULL, follower_main, &steady);
    for (unsigned i = 0; i < 4; i++) {
        stormers[i] = (struct stormer){hub, &stop, i + 1, 0};
        pthread_create(&storming[i], NULL, stormer_main, &stormers[i]);
    }
    pthread_create(&pushing, NULL, pusher_main, &pusher);
    pthread_join(pushing, NULL);
    pthread_join(reading, NULL);
    atomic_store(&stop, true);
    size_t given = 0;
    for (int i = 0; i < 4; i++) {
        pthread_join(storming[i], NULL);
        given += stormers[i].given;
    }
    assert_true(given > 0);
    assert_run(&steady.reader, 1, 2600);
    reader_close(&steady.reader);
    struct hub_numbers numbers;
    hub_numbers(hub, &numbers);
    assert_int_equal(numbers.streams, 0);
    assert_int_equal(numbers.bytes, 0);
    hub_close(hub);
}

static void streams_and_what_they_keep_are_bounded(void **state)
{
    struct desk *desk = *state;
    static struct reader readers[HUB_STREAMS_MAX + 1];
    push_many(desk, 1500);
    struct hub *hub = open_hub(desk, NULL);
    for (size_t i = 0; i < HUB_STREAMS_MAX; i++)
        assert_true(reader_try(&readers[i], hub, i % 2 ? 0 : -1, false, NULL));
    assert_false(reader_try(&readers[HUB_STREAMS_MAX], hub, -1, false, NULL));
    for (size_t i = 0; i < HUB_STREAMS_MAX; i += 2)
        reader_idle(&readers[i]); /* live: they will be too slow */
    for (size_t i = 1; i < HUB_STREAMS_MAX; i += 2)
        assert_true(reader_take(&readers[i], 64)); /* they ask for a page, and leave it */
    push_many(desk, RING_EVENTS_MAX + 3000);
    reader_until(&readers[1], 1500 + RING_EVENTS_MAX + 3000);
    struct hub_numbers numbers;
    hub_numbers(hub, &numbers);
    assert_int_equal(numbers.streams, HUB_STREAMS_MAX);
    assert_int_equal(numbers.dropped, HUB_STREAMS_MAX / 2);
    assert_in_range(numbers.bytes, RING_BYTES_MAX / 2,
                    RING_BYTES_MAX + (HUB_STREAMS_MAX / 2) * (300u << 10));
    for (size_t i = 0; i <= HUB_STREAMS_MAX; i++)
        reader_close(&readers[i]);
    hub_close(hub);
}

static void a_quiet_stream_gets_comments_and_no_event_twice(void **state)
{
    struct desk *desk = *state;
    struct hub *hub = open_hub(desk, NULL);
    struct reader reader;
    hub_quiet(hub, span_ms(20));
    reader_open(&reader, hub, 0);
    while (reader.comments < 2)
        if (!reader_take(&reader, SIZE_MAX))
            reader_wait(&reader);
    push_many(desk, 3);
    reader_until(&reader, 3);
    assert_run(&reader, 1, 3);
    reader_close(&reader);
    hub_close(hub);
}

static void a_masked_stream_does_not_show_what_the_rules_name(void **state)
{
    struct desk *desk = *state;
    const struct redaction *redaction;
    struct err err = {0};
    struct slice rules[] = {SLICE("/event/note"), SLICE("/inputs/dispatch_reference")};
    if (redaction_parse(rules, 2, &desk->arena, &redaction, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct hub *hub = open_hub(desk, redaction);
    struct reader masked, plain, past;
    assert_true(reader_try(&masked, hub, -1, true, NULL));
    reader_open(&plain, hub, -1);
    const char *dlq_id =
        api_dead(desk, "\"inputs\":{\"outcome\":\"mail\",\"dispatch_reference\":\"secret-1\"}",
                 "{\"error_class\":\"Timeout\",\"message\":\"slow\"}");
    int64_t dead = head(desk);
    reader_until(&masked, dead);
    reader_until(&plain, dead);
    assert_non_null(strstr(plain.last, "\"dispatch_reference\":\"secret-1\""));
    assert_null(strstr(masked.last, "secret-1"));
    assert_non_null(strstr(masked.last, "\"outcome\":\"mail\""));
    assert_non_null(strstr(masked.last, "\"dispatch_reference\":\"[redacted]\""));
    api_ok(desk, "POST", api_path(desk, "/api/v1/dlq/%s/discard", dlq_id),
           "{\"note\":\"secret-2\"}");
    reader_until(&masked, head(desk));
    reader_until(&plain, head(desk));
    assert_non_null(strstr(plain.last, "secret-2"));
    assert_non_null(strstr(masked.last, "\"note\":\"[redacted]\""));
    assert_true(reader_try(&past, hub, dead, true, NULL)); /* from the store, not the ring */
    reader_until(&past, head(desk));
    assert_string_equal(past.last, masked.last);
    reader_close(&masked);
    reader_close(&plain);
    reader_close(&past);
    hub_close(hub);
}

static void not_logged(enum log_level level, const char *line, void *ctx)
{
    (void)level, (void)line, (void)ctx;
}

static void memory_that_fails_once_loses_no_event(void **state)
{
    struct desk *desk = *state;
    push_many(desk, 700);
    size_t refused = 0;
    log_set(LOG_ERROR, not_logged, NULL);
    struct hub *hub = open_hub(desk, NULL);
    hub_quiet(hub, span_ms(30));
    struct reader live;
    reader_open(&live, hub, -1);
    reader_idle(&live);
    for (unsigned long n = 1; n <= 40; n++) {
        struct reader reader;
        mem_fail_after(n);
        if (reader_try(&reader, hub, 0, false, NULL))
            reader_until(&reader, 700);
        else
            refused++;
        mem_fail_after(0);
        if (reader.stream)
            assert_run(&reader, 1, 700);
        reader_close(&reader);
    }
    log_set(LOG_ERROR, NULL, NULL);
    assert_int_equal(refused, 1);
    reader_close(&live);
    hub_close(hub);
}

static void a_ring_keeps_what_fits_and_an_event_that_never_does(void **state)
{
    (void)state;
    static struct event_ring ring;
    struct buf scratch;
    struct buf why;
    buf_init(&scratch, 64 << 20);
    buf_init(&why, 64 << 20);
    buf_add_str(&why, "{\"note\":\"");
    for (size_t i = 0; i < 100000; i++)
        buf_add_str(&why, "a long note of somebody ");
    buf_add_str(&why, "\"}");
    struct event event = {.what = SLICE("discarded"), .actor = SLICE("test"), .why = SLICE("{}")};
    ring_reset(&ring, 10);
    assert_int_equal(ring_find(&ring, 10), 0);
    for (event.seq = 11; event.seq <= 30; event.seq += 2) /* with gaps, as after damage */
        ring_add(&ring, printed_new(&event, (struct slice){0}, NULL, &scratch));
    assert_int_equal(ring.count, 10);
    assert_int_equal(ring_at(&ring, ring_find(&ring, 10))->seq, 11);
    assert_int_equal(ring_at(&ring, ring_find(&ring, 11))->seq, 13);
    assert_int_equal(ring_at(&ring, ring_find(&ring, 12))->seq, 13);
    assert_int_equal(ring_find(&ring, 29), ring.count);
    event.why = buf_slice(&why);
    for (; event.seq <= 34; event.seq++) {
        struct printed *printed = printed_new(&event, (struct slice){0}, NULL, &scratch);
        while (!ring_has_room(&ring, printed))
            ring_evict(&ring);
        ring_add(&ring, printed);
    }
    assert_int_equal(ring.count, 1); /* two are more than it may hold */
    assert_int_equal(ring.base, 33);
    assert_int_equal(ring.tail, 34);
    struct printed *held = ring_at(&ring, 0);
    held->holders++;
    ring_reset(&ring, 50);
    assert_int_equal(ring.bytes, 0);
    assert_memory_equal(held->plain.ptr, "id: 34\n", 7); /* a reader may finish */
    printed_drop(held);
    buf_release(&scratch);
    buf_release(&why);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)
    const struct CMUnitTest tests[] = {
        TEST(everybody_is_given_every_event_once_and_in_order_while_many_push),
        TEST(a_stream_that_resumes_after_any_event_equals_the_audit_list),
        TEST(a_stream_that_begins_with_what_comes_is_given_nothing_older),
        TEST(a_stream_that_resumes_from_before_the_ring_catches_up_and_becomes_live),
        TEST(a_slow_reader_is_dropped_with_a_mark_and_can_come_back),
        TEST(a_reader_that_only_catches_up_may_be_as_slow_as_it_likes),
        TEST(a_filter_lets_one_kind_through_and_waits_for_it_for_long),
        TEST(the_end_of_the_hub_ends_every_stream_after_its_bytes),
        TEST(readers_that_come_and_go_disturb_nobody),
        TEST(streams_and_what_they_keep_are_bounded),
        TEST(a_quiet_stream_gets_comments_and_no_event_twice),
        TEST(a_masked_stream_does_not_show_what_the_rules_name),
        TEST(memory_that_fails_once_loses_no_event),
        cmocka_unit_test(a_ring_keeps_what_fits_and_an_event_that_never_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
