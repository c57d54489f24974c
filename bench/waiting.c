/* waiting: those who wait for something, and what they cost others.
 *
 * A worker that waits for a job is woken by the push of one: the time from the push to the lease at
 * the worker has two commits in it, each synced.  beanstalkd's reserve is measured beside it.
 *
 * Then two thousand connections that do nothing and two hundred long polls are opened: what memory
 * they take, and whether others notice. */
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "bench.h"
#include "drive.h"
#include "load.h"
#include "process.h"
#include "talk.h"

#define IDLE 2000
#define POLLS 200
#define LINKS 64
#define ROUNDS_MAX 5
#define SETTLE_MS 2 /* that a worker is given until it surely waits */

/* ---- waking ------------------------------------------------------------------------------------
 */

/* struct waker: how one of the two is spoken to. */
struct waker {
    const char *name;
    wire *wire;
    void (*wait)(struct buf *out);
    void (*push)(struct buf *out);
    void (*finish)(struct buf *out, const struct answer *job); /* what was waited for */
    int woken, pushed, finished;                               /* the answers' status */
};

static void http_wait(struct buf *out)
{
    http_ask(out, "POST", "/api/v1/leases", JSON_TYPE,
             SLICE("{\"worker_id\":\"" LOAD_WORKER "\",\"queues\":[\"wake\"],\"wait_ms\":30000}"));
}

static void http_push(struct buf *out)
{
    http_ask(out, "POST", "/api/v1/jobs", JSON_TYPE,
             SLICE("{\"action\":\"invoice.send\",\"queue\":\"wake\",\"inputs\":{\"invoice\":1}}"));
}

static void http_finish(struct buf *out, const struct answer *job)
{
    struct leased leased;
    struct slice rest = job->body;
    struct buf result;
    buf_init(&result, 4096);
    if (!leased_next(&rest, &leased))
        bench_die("a worker that waited got nothing: %.*s", SLICE_ARG(job->body));
    add_success(&result, &leased);
    http_ask(out, "POST", "/api/v1/results", JSON_TYPE, buf_slice(&result));
    buf_release(&result);
}

static void stalk_wait(struct buf *out)
{
    buf_add_str(out, "reserve\r\n");
}

static void stalk_push(struct buf *out)
{
    buf_add_str(out, "put 4 0 60 5\r\nhello\r\n");
}

static void stalk_finish(struct buf *out, const struct answer *job)
{
    buf_addf(out, "delete %zu\r\n", number_of(job->body, "RESERVED "));
}

static const struct waker http_waker = {
    .name = "lazaret",
    .wire = wire_http,
    .wait = http_wait,
    .push = http_push,
    .finish = http_finish,
    .woken = 200,
    .pushed = 201,
    .finished = 200,
};
static const struct waker stalk_waker = {
    .name = "beanstalkd",
    .wire = wire_beanstalk,
    .wait = stalk_wait,
    .push = stalk_push,
    .finish = stalk_finish,
    .woken = 'R',
    .pushed = 'I',
    .finished = 'D',
};

static void link_ask(struct link *link, wire *read, int status, const char *what)
{
    struct answer answer;
    link_send(link);
    link_receive(link, read, &answer);
    answer_expect(&answer, status, what);
}

/* wake_us is how long a push takes to reach the worker that waits for it. */
static double wake_us(const struct waker *waker, struct link *worker, struct link *pusher)
{
    struct answer answer;
    waker->wait(&worker->out);
    link_send(worker);
    poll(NULL, 0, SETTLE_MS);
    waker->push(&pusher->out);
    link_send(pusher);
    link_receive(worker, waker->wire, &answer);
    double us = (double)(clock_ns() - pusher->sent_ns) / 1e3;
    answer_expect(&answer, waker->woken, "waiting for a job");
    waker->finish(&worker->out, &answer);
    link_receive(pusher, waker->wire, &answer);
    answer_expect(&answer, waker->pushed, "a push");
    link_ask(worker, waker->wire, waker->finished, "the end of a job");
    return us;
}

static void measure_wake(struct bench *bench, const struct waker *waker,
                         const struct process *process)
{
    size_t count = bench->quick ? 20 : 1000;
    double *us = bench_array(count, sizeof(*us));
    struct link worker, pusher;
    struct goal none = {0};
    link_connect(&worker, process->port);
    link_connect(&pusher, process->port);
    for (size_t i = 0; i < count; i++)
        us[i] = wake_us(waker, &worker, &pusher);
    double half = percentile(us, count, 0.50), most = percentile(us, count, 0.99);
    char line[64];
    snprintf(line, sizeof(line), "a waiting worker has it, %s", waker->name);
    printf("  %-38s p50 %6.0f us  p99 %6.0f us\n", line, half, most);
    report_figure(bench->report, half, none, "wake_%s_p50_us", waker->name);
    report_figure(bench->report, most, none, "wake_%s_p99_us", waker->name);
    fflush(stdout);
    link_release(&worker);
    link_release(&pusher);
    mem_free(us);
}

/* ---- doing nothing -----------------------------------------------------------------------------
 */

/* struct crowd: connections that only take up room. */
struct crowd {
    struct link idle[IDLE], polls[POLLS];
};

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void crowd_in(struct crowd *crowd, int port)
{
    for (size_t i = 0; i < IDLE; i++) {
        link_connect(&crowd->idle[i], port);
        http_ask(&crowd->idle[i].out, "GET", "/healthz", NULL, (struct slice){0});
        link_ask(&crowd->idle[i], wire_http, 200, "health");
    }
    for (size_t i = 0; i < POLLS; i++) {
        link_connect(&crowd->polls[i], port);
        http_ask(&crowd->polls[i].out, "POST", "/api/v1/leases", JSON_TYPE,
                 SLICE("{\"worker_id\":\"idler\",\"queues\":[\"nothing\"],\"wait_ms\":600000}"));
        link_send(&crowd->polls[i]);
    }
    poll(NULL, 0, 100 * SETTLE_MS);
}

static void crowd_out(struct crowd *crowd)
{
    for (size_t i = 0; i < IDLE; i++)
        link_release(&crowd->idle[i]);
    for (size_t i = 0; i < POLLS; i++)
        link_release(&crowd->polls[i]);
    poll(NULL, 0, 100 * SETTLE_MS);
}

static bool ask_post(void *ctx, struct link *link, struct buf *out)
{
    const struct load *load = ctx;
    link->step = (link->step + 1) % (int)load->count;
    http_ask(out, "POST", "/api/v1/jobs", JSON_TYPE, load->bodies[link->step]);
    return true;
}

static void check_post(void *ctx, struct link *link, const struct answer *answer)
{
    (void)ctx;
    (void)link;
    answer_expect(answer, 201, "a job");
}

/* struct others: those who work, with the crowd or without. */
struct others {
    struct tally tally;
    double rate[ROUNDS_MAX];
};

static void run_others(struct others *others, const struct process *lazaret, struct load *load,
                       double seconds, size_t round)
{
    struct talk talk = {wire_http, ask_post, check_post, load};
    struct drive *drive = drive_open(lazaret->port, LINKS, &talk);
    size_t count = others->tally.count;
    double elapsed = others->tally.seconds;
    drive_run(drive, seconds, &others->tally);
    others->rate[round] = (double)(others->tally.count - count) / (others->tally.seconds - elapsed);
    drive_close(drive);
}

static void report_others(struct bench *bench, struct others *others, const char *label,
                          const char *name, size_t rounds)
{
    char text[THOUSANDS_SIZE];
    double rate = median(others->rate, rounds);
    double half = tally_percentile(&others->tally, 0.50);
    double most = tally_percentile(&others->tally, 0.99);
    struct goal none = {0};
    report_figure(bench->report, rate, none, "%s_per_s", name);
    report_figure(bench->report, half, none, "%s_p50_us", name);
    report_figure(bench->report, most, none, "%s_p99_us", name);
    printf("  %-38s p50 %6.0f us  p99 %6.0f us  %9s jobs/s\n", label, half, most,
           thousands(rate, text));
}

static void report_crowd(struct bench *bench, struct others *alone, struct others *crowded,
                         size_t rounds, double bytes)
{
    struct goal goal = {GOAL_AT_MOST, 100}, none = {0};
    report_others(bench, alone, "64 connections that post, alone", "alone", rounds);
    report_others(bench, crowded, "64 connections that post, beside them", "crowded", rounds);
    double rate = median(crowded->rate, rounds) / median(alone->rate, rounds);
    double half = tally_percentile(&crowded->tally, 0.50) / tally_percentile(&alone->tally, 0.50);
    double most = tally_percentile(&crowded->tally, 0.99) / tally_percentile(&alone->tally, 0.99);
    report_ratio(bench->report, rate, none, "crowded_to_alone_per_s");
    report_ratio(bench->report, half, none, "crowded_to_alone_p50");
    report_ratio(bench->report, most, none, "crowded_to_alone_p99");
    printf("  %-38s p50 %6.2f     p99 %6.2f     %9.2f\n", "ratio", half, most, rate);
    const char *verdict = report_figure(bench->report, bytes / 1e6, goal, "crowd_mb");
    printf("  %-38s %8.1f MB  goal <= 100  %s\n", "2,000 idle connections, 200 long polls",
           bytes / 1e6, verdict);
    fflush(stdout);
    tally_release(&alone->tally);
    tally_release(&crowded->tally);
}

static void measure_crowd(struct bench *bench, const struct process *lazaret)
{
    static struct crowd crowd;
    struct load load;
    struct others alone = {0}, crowded = {0}, warm = {0};
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;
    double seconds = bench->quick ? 0.1 : 2, bytes = 0;
    load_init(&load, &(struct shape){.count = 1000, .body_bytes = 300});
    raise_file_limit();
    run_others(&warm, lazaret, &load, seconds, 0);
    tally_release(&warm.tally);
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("idle connections: round %zu of %zu", round + 1, rounds);
        run_others(&alone, lazaret, &load, seconds, round);
        int64_t before = process_rss_bytes(lazaret);
        crowd_in(&crowd, lazaret->port);
        /* What the first crowd took is kept by the allocator for the next. */
        if (round == 0)
            bytes = (double)(process_rss_bytes(lazaret) - before);
        run_others(&crowded, lazaret, &load, seconds, round);
        crowd_out(&crowd);
    }
    report_crowd(bench, &alone, &crowded, rounds, bytes);
    report_figure(bench->report, (double)process_rss_bytes(lazaret) / 1e6, (struct goal){0},
                  "server_rss_mb");
    load_release(&load);
}

void waiting_run(struct bench *bench)
{
    struct process lazaret, beanstalkd = {0};
    printf("\nwaiting over HTTP\n");
    lazaret_start(&lazaret);
    measure_wake(bench, &http_waker, &lazaret);
    if (!bench->quick && beanstalkd_start(&beanstalkd))
        measure_wake(bench, &stalk_waker, &beanstalkd);
    process_stop(&beanstalkd);
    measure_crowd(bench, &lazaret);
    process_stop(&lazaret);
}
