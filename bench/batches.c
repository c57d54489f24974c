/* batches: a thousand jobs a request, beside the engine in this process with the same batches.
 *
 * As many connections have a request under way as threads have a command under way in the engine,
 * so that neither engine waits for work.  What the ratio leaves out of 1 is what HTTP costs: two
 * more copies of every byte, JSON printed and read again, and a client that needs processors as
 * well. */
#include "bench.h"
#include "drive.h"
#include "load.h"
#include "process.h"
#include "talk.h"

#define BODY_BYTES 300
#define BATCH 1000
#define AT_A_TIME 4 /* connections, and threads of the engine's callers */
#define ROUNDS_MAX 3

/* ---- what is said -----------------------------------------------------------------------------
 */

/* struct pusher: the part of the load that is being pushed. */
struct pusher {
    const struct load *load;
    size_t next, end;
    struct buf body;
};

static bool ask_push(void *ctx, struct link *link, struct buf *out)
{
    (void)link;
    struct pusher *pusher = ctx;
    if (pusher->next >= pusher->end)
        return false;
    buf_clear(&pusher->body);
    for (size_t i = 0; i < BATCH && pusher->next < pusher->end; i++) {
        buf_add_slice(&pusher->body, pusher->load->bodies[pusher->next++]);
        buf_add_char(&pusher->body, '\n');
    }
    http_ask(out, "POST", "/api/v1/jobs", NDJSON_TYPE, buf_slice(&pusher->body));
    return true;
}

static void check_push(void *ctx, struct link *link, const struct answer *answer)
{
    (void)ctx;
    (void)link;
    answer_expect(answer, 200, "a batch of jobs");
    if (count_of(answer->body, "\"created\":true") != BATCH)
        bench_die("not all jobs of a batch were created: %.300s", answer->body.ptr);
}

/* struct drainer: jobs to lease and complete; each link has the results that it is to send. */
struct drainer {
    size_t left; /* jobs that nobody has asked for */
    struct buf results[AT_A_TIME];
};

static bool ask_drain(void *ctx, struct link *link, struct buf *out)
{
    struct drainer *drainer = ctx;
    if (link->step == 1) {
        http_ask(out, "POST", "/api/v1/results", JSON_TYPE,
                 buf_slice(&drainer->results[link->index]));
        return true;
    }
    if (drainer->left == 0)
        return false;
    drainer->left -= BATCH;
    http_ask(out, "POST", "/api/v1/leases", JSON_TYPE,
             SLICE("{\"worker_id\":\"" LOAD_WORKER "\",\"count\":1000}"));
    return true;
}

static void check_drain(void *ctx, struct link *link, const struct answer *answer)
{
    struct drainer *drainer = ctx;
    struct buf *out = &drainer->results[link->index];
    answer_expect(answer, 200, link->step ? "a batch of results" : "a lease");
    if (link->step == 1) {
        link->step = 0;
        if (count_of(answer->body, "\"state\":\"done\"") != BATCH)
            bench_die("not all jobs of a batch are done: %.300s", answer->body.ptr);
        return;
    }
    struct leased leased;
    struct slice rest = answer->body;
    size_t count = 0;
    buf_clear(out);
    while (leased_next(&rest, &leased)) {
        buf_add_char(out, count++ ? ',' : '[');
        add_success(out, &leased);
    }
    buf_add_char(out, ']');
    if (count != BATCH)
        bench_die("%zu jobs were leased, of %d", count, BATCH);
    link->step = 1;
}

/* ---- measuring --------------------------------------------------------------------------------
 */

/* struct work: one kind of work, by both. */
struct work {
    double ratio[ROUNDS_MAX], http[ROUNDS_MAX], engine[ROUNDS_MAX];
    struct tally tally;
    double server_cpu_seconds, engine_cpu_seconds;
};

struct rig {
    const struct load *load;
    struct process lazaret;
    struct engine *engine;
    struct pusher pusher;
    struct drainer drainer;
    size_t slice, slices; /* how much is done by each in turn, and how often */
};

static double push_over_http(struct rig *rig, struct tally *tally, size_t from)
{
    struct talk talk = {wire_http, ask_push, check_push, &rig->pusher};
    struct drive *drive = drive_open(rig->lazaret.port, AT_A_TIME, &talk);
    double before = tally->seconds;
    rig->pusher.next = from;
    rig->pusher.end = from + rig->slice;
    drive_run(drive, 0, tally);
    drive_close(drive);
    return tally->seconds - before;
}

static double drain_over_http(struct rig *rig, struct tally *tally)
{
    struct talk talk = {wire_http, ask_drain, check_drain, &rig->drainer};
    struct drive *drive = drive_open(rig->lazaret.port, AT_A_TIME, &talk);
    double before = tally->seconds;
    rig->drainer.left = rig->slice;
    drive_run(drive, 0, tally);
    drive_close(drive);
    return tally->seconds - before;
}

/* run_slices has one kind of work done by both in turns. */
static void run_slices(struct rig *rig, struct work *work, size_t round, bool push)
{
    struct outcome sum = {0};
    double http = 0;
    for (size_t i = 0; i < rig->slices; i++) {
        struct part part = {i * rig->slice, rig->slice};
        int64_t cpu = process_cpu_ns(&rig->lazaret);
        http += push ? push_over_http(rig, &work->tally, part.from)
                     : drain_over_http(rig, &work->tally);
        work->server_cpu_seconds += (double)(process_cpu_ns(&rig->lazaret) - cpu) / 1e9;
        struct outcome outcome = push ? load_push(rig->engine, rig->load, part, BATCH, AT_A_TIME)
                                      : load_drain(rig->engine, part.count, BATCH, AT_A_TIME);
        outcome_add(&sum, &outcome);
    }
    double jobs = (double)(rig->slice * rig->slices);
    work->http[round] = jobs / http;
    work->engine[round] = jobs / sum.seconds;
    work->ratio[round] = sum.seconds / http;
    work->engine_cpu_seconds += sum.cpu_seconds;
}

static void report_work(struct bench *bench, const char *label, const char *name, struct work *work,
                        size_t rounds, size_t jobs)
{
    char left[THOUSANDS_SIZE], right[THOUSANDS_SIZE];
    double http = median(work->http, rounds), engine = median(work->engine, rounds);
    double ratio = median(work->ratio, rounds);
    double half = tally_percentile(&work->tally, 0.50) / 1e3;
    double most = tally_percentile(&work->tally, 0.99) / 1e3;
    double all = (double)(jobs * rounds);
    struct goal none = {0}, goal = {GOAL_AT_LEAST, 0.60};
    const char *verdict = report_ratio(bench->report, ratio, goal, "http_%s_1000", name);
    report_figure(bench->report, http, none, "http_%s_1000_per_s", name);
    report_figure(bench->report, engine, none, "http_%s_1000_engine_per_s", name);
    report_figure(bench->report, half, none, "http_%s_1000_p50_ms", name);
    report_figure(bench->report, most, none, "http_%s_1000_p99_ms", name);
    printf("  %-20s %9s %9s %9.1f %9.1f %9.1f %9.1f %9.1f   ratio %.2f  %s\n", label,
           thousands(http, left), thousands(engine, right), half, most,
           work->server_cpu_seconds * 1e6 / all, work->tally.client_cpu_seconds * 1e6 / all,
           work->engine_cpu_seconds * 1e6 / all, ratio, verdict);
    fflush(stdout);
    tally_release(&work->tally);
}

static void measure_round(struct rig *rig, size_t round, struct work *push, struct work *drain)
{
    scratch_remove(SCRATCH_ENGINE);
    rig->engine = bench_engine(SCRATCH_ENGINE);
    lazaret_start(&rig->lazaret);
    run_slices(rig, push, round, true);
    run_slices(rig, drain, round, false);
    process_stop(&rig->lazaret);
    engine_free(rig->engine);
}

void batches_run(struct bench *bench)
{
    struct load load;
    struct work push = {0}, drain = {0};
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;
    struct rig rig = {.load = &load,
                      .slice = bench->quick ? 4 * BATCH : 20 * BATCH,
                      .slices = bench->quick ? 1 : 8};
    load_init(&load, &(struct shape){.count = rig.slice * rig.slices, .body_bytes = BODY_BYTES});
    buf_init(&rig.pusher.body, (size_t)16 << 20);
    rig.pusher.load = &load;
    for (size_t i = 0; i < AT_A_TIME; i++)
        buf_init(&rig.drainer.results[i], (size_t)16 << 20);
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("batches over HTTP: round %zu of %zu", round + 1, rounds);
        measure_round(&rig, round, &push, &drain);
    }
    printf(
        "\n%d jobs a request over HTTP, %d requests under way; the engine: the same batches from "
        "%d threads (goal: 0.60)\n",
        BATCH, AT_A_TIME, AT_A_TIME);
    printf("  %-20s %9s %9s %9s %9s %9s %9s %9s\n", "", "http", "engine", "p50 ms", "p99 ms",
           "server", "client", "engine");
    printf("  %-20s %9s %9s %9s %9s %9s %9s %9s\n", "", "jobs/s", "jobs/s", "a request",
           "a request", "us a job", "us a job", "us a job");
    report_work(bench, "push", "push", &push, rounds, load.count);
    report_work(bench, "lease and complete", "drain", &drain, rounds, load.count);
    buf_release(&rig.pusher.body);
    for (size_t i = 0; i < AT_A_TIME; i++)
        buf_release(&rig.drainer.results[i]);
    load_release(&load);
    scratch_remove(SCRATCH_ENGINE);
}
