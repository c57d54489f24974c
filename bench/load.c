#include "load.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/seams.h"
#include "bench.h"

#define THREADS_MAX 64

/* ---- envelopes ------------------------------------------------------------------------------- */

/* make_body writes envelope `number`, as long as `shape` says. */
static struct slice make_body(struct arena *arena, const struct shape *shape, size_t number,
                              struct random_state *random, const char *note)
{
    char head[512];
    if (shape->keys)
        snprintf(head, sizeof(head),
                 "{\"action\":\"mail\",\"idempotency_key\":\"i%zu\",\"retry_key\":\"r%zu\","
                 "\"inputs\":{\"n\":\"",
                 number, number);
    else
        snprintf(head, sizeof(head),
                 "{\"action\":\"invoice.send\",\"queue\":\"invoices\","
                 "\"requested_by\":\"billing@example.org\",\"trace_id\":\"%016" PRIx64 "\","
                 "\"retry_policy\":\"governed\",\"inputs\":{\"invoice\":%zu,"
                 "\"customer\":\"c-%06" PRIu64 "\",\"amount_cents\":%" PRIu64 ","
                 "\"currency\":\"EUR\",\"note\":\"",
                 random_next(random), number, random_next(random) % 1000000,
                 random_next(random) % 1000000);
    size_t used = strlen(head) + strlen("\"}}");
    int left = shape->body_bytes > used ? (int)(shape->body_bytes - used) : 0;
    return arena_printf(arena, "%s%.*s\"}}", head, left, note);
}

/* make_id is a UUIDv7, as the engine would make one. */
static void make_id(struct instant now, struct random_state *random, char out[UUID_TEXT_LEN + 1])
{
    uint8_t bytes[16];
    uint64_t halves[2] = {random_next(random), random_next(random)};
    memcpy(bytes, halves, sizeof(bytes));
    uuid_format(uuid_v7(now, bytes), out);
}

void load_init(struct load *load, const struct shape *shape)
{
    struct random_state random = {1 + shape->first};
    struct instant now = seams_real()->wall(seams_real()->ctx);
    char *note = bench_array(shape->body_bytes + 1, 1);
    memset(note, 'n', shape->body_bytes);
    *load = (struct load){.count = shape->count, .body_bytes = shape->body_bytes};
    load->bodies = bench_array(load->count, sizeof(*load->bodies));
    load->ids = bench_array(load->count, sizeof(*load->ids));
    for (size_t i = 0; i < load->count; i++) {
        now.us += 10;
        make_id(now, &random, load->ids[i]);
        load->bodies[i] = make_body(&load->arena, shape, 1000000 + shape->first + i, &random, note);
        if (!load->bodies[i].ptr)
            bench_die("no memory for %zu envelopes", load->count);
    }
    mem_free(note);
}

void load_release(struct load *load)
{
    mem_free(load->bodies);
    mem_free(load->ids);
    arena_release(&load->arena);
    *load = (struct load){0};
}

/* ---- threads --------------------------------------------------------------------------------- */

/* struct run: one measurement, shared by its threads. */
struct run {
    struct engine *engine;
    const struct load *load; /* of a push */
    struct part part;        /* of the load; only the count of a drain */
    size_t batch;
    atomic_size_t taken; /* how many of the part some thread has taken on */
};

/* run_take gives the calling thread its next batch; false when nothing is left. */
static bool run_take(struct run *run, struct part *out)
{
    size_t taken = atomic_fetch_add(&run->taken, run->batch);
    if (taken >= run->part.count)
        return false;
    size_t left = run->part.count - taken;
    *out = (struct part){run->part.from + taken, left < run->batch ? left : run->batch};
    return true;
}

void outcome_add(struct outcome *sum, const struct outcome *more)
{
    sum->seconds += more->seconds;
    sum->cpu_seconds += more->cpu_seconds;
    sum->commits += more->commits;
    sum->bytes += more->bytes;
}

static enum status read_numbers(struct engine *engine, struct store *store, void *ctx,
                                struct arena *arena, struct err *err)
{
    (void)store;
    (void)arena;
    (void)err;
    engine_numbers(engine, ctx);
    return STATUS_OK;
}

/* batches_so_far counts what the engine committed.  Asking is a batch of its own, without a commit.
 */
static double batches_so_far(struct engine *engine)
{
    struct engine_numbers numbers = {0};
    struct arena arena = {0};
    struct read_command read = {
        .command = {.kind = COMMAND_READ, .actor = SLICE(LOAD_ACTOR), .arena = &arena},
        .read = read_numbers,
        .ctx = &numbers,
    };
    bench_check(engine_call(engine, &read.command), &read.command.err, "asking the engine");
    arena_release(&arena);
    return (double)(numbers.batches - numbers.batches_failed);
}

/* run_threads has `main` run by so many threads and measures until the last is done. */
static struct outcome run_threads(struct run *run, void *(*thread_main)(void *), size_t threads)
{
    pthread_t ids[THREADS_MAX];
    BUG_ON(threads > THREADS_MAX);
    double batches = batches_so_far(run->engine);
    int64_t bytes = written_bytes();
    int64_t cpu = cpu_ns();
    int64_t start = clock_ns();
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, thread_main, run) != 0)
            bench_die("a thread cannot be started");
    for (size_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    int64_t end = clock_ns();
    struct outcome outcome = {
        .seconds = (double)(end - start) / 1e9,
        .cpu_seconds = (double)(cpu_ns() - cpu) / 1e9,
        .bytes = (double)(written_bytes() - bytes),
        .commits = batches_so_far(run->engine) - batches - 1,
    };
    return outcome;
}

/* ---- pushing --------------------------------------------------------------------------------- */

static void push_batch(struct run *run, struct push_item *items, struct part part,
                       struct arena *arena)
{
    struct push_command push = {
        .command = {.kind = COMMAND_PUSH, .actor = SLICE(LOAD_ACTOR), .arena = arena},
        .items = items,
        .count = part.count,
    };
    for (size_t i = 0; i < part.count; i++)
        bench_check(envelope_parse(run->load->bodies[part.from + i], ENVELOPE_BODY_MAX, arena,
                                   &items[i].envelope, &items[i].err),
                    &items[i].err, "parsing an envelope");
    bench_check(engine_call(run->engine, &push.command), &push.command.err, "pushing");
    for (size_t i = 0; i < part.count; i++) {
        bench_check(items[i].status, &items[i].err, "pushing");
        if (!items[i].created)
            bench_die("a job was not created");
    }
}

static void *push_main(void *arg)
{
    struct run *run = arg;
    struct arena arena = {0};
    struct push_item *items = bench_array(run->batch, sizeof(*items));
    struct part part;
    while (run_take(run, &part)) {
        push_batch(run, items, part, &arena);
        arena_reset(&arena);
    }
    arena_release(&arena);
    mem_free(items);
    return NULL;
}

struct outcome load_push(struct engine *engine, const struct load *load, struct part part,
                         size_t batch, size_t threads)
{
    struct run run = {.engine = engine, .load = load, .part = part, .batch = batch};
    return run_threads(&run, push_main, threads);
}

/* ---- leasing and resolving ------------------------------------------------------------------- */

static void resolve_batch(struct run *run, struct result_item *items,
                          const struct lease_command *leased, struct arena *arena)
{
    struct resolve_command resolve = {
        .command = {.kind = COMMAND_RESOLVE, .actor = SLICE(LOAD_ACTOR), .arena = arena},
        .items = items,
        .count = leased->count,
    };
    for (size_t i = 0; i < leased->count; i++) {
        items[i].lease_id = slice_of(leased->leases[i].lease_id);
        items[i].result = SLICE(LOAD_RESULT);
    }
    bench_check(engine_call(run->engine, &resolve.command), &resolve.command.err, "resolving");
    for (size_t i = 0; i < leased->count; i++)
        bench_check(items[i].status, &items[i].err, "resolving");
}

static void *drain_main(void *arg)
{
    struct run *run = arg;
    struct arena arena = {0};
    struct result_item *items = bench_array(run->batch, sizeof(*items));
    struct part part;
    while (run_take(run, &part)) {
        struct lease_command lease = {
            .command = {.kind = COMMAND_LEASE, .actor = SLICE(LOAD_ACTOR), .arena = &arena},
            .worker_id = SLICE(LOAD_WORKER),
            .max = part.count,
        };
        bench_check(engine_call(run->engine, &lease.command), &lease.command.err, "leasing");
        if (lease.count != part.count)
            bench_die("%zu jobs were leased, of %zu", lease.count, part.count);
        resolve_batch(run, items, &lease, &arena);
        arena_reset(&arena);
    }
    arena_release(&arena);
    mem_free(items);
    return NULL;
}

struct outcome load_drain(struct engine *engine, size_t count, size_t batch, size_t threads)
{
    struct run run = {.engine = engine, .part = {0, count}, .batch = batch};
    return run_threads(&run, drain_main, threads);
}
