/* lifecycle: whole lives of jobs, beside BullMQ on a Redis that syncs its log before it answers.
 *
 * Of ten jobs one fails every time and ends dead, five fail twice and then succeed, and four
 * succeed at once: twenty-two attempts.  A retry waits for a millisecond, which is quicker for
 * BullMQ than none: its worker fetches the next job together with a delayed retry, and by itself
 * after an immediate one.  On both sides jobs are pushed while workers run them, and the clock
 * stops when the last is done or dead.  Lazaret is pushed to and leased from in batches.  BullMQ
 * gets jobs by addBulk, has no batched fetch, and runs with whichever of a few settings was the
 * fastest in a trial.  Completed jobs, which include the dead ones, are counted on both. */
#include "base/json.h"
#include "base/mem.h"
#include "bench.h"
#include "drive.h"
#include "load.h"
#include "process.h"
#include "talk.h"

#include <inttypes.h>
#include <unistd.h>

#define BATCH 1000
#define PUSHERS 2
#define WORKERS 4
#define ROUNDS_MAX 3
#define ATTEMPTS "3"
#define FAILS_ALWAYS 99
#define POLICY "bench"
#define TRIAL_JOBS 4000

/* What BullMQ is tried with: processes, workers in each, concurrency of a worker. */
static const char *const bullmq_settings[] = {"1 1 100", "1 8 20", "2 16 8", "2 32 4"};
#define SETTING_COUNT (sizeof(bullmq_settings) / sizeof(bullmq_settings[0]))
/* Jobs of an addBulk, bytes of a job, delay of a retry in milliseconds. */
#define BULLMQ_JOBS "1000 300 1"

/* fails_of is how often a job fails. */
static size_t fails_of(size_t number)
{
    static const size_t fails[10] = {FAILS_ALWAYS, 2, 2, 2, 2, 2, 0, 0, 0, 0};
    return fails[number % 10];
}

/* ---- Lazaret's side ----------------------------------------------------------------------------
 */

/* struct hand: what one worker's connection has leased. */
struct hand {
    struct buf results;
    size_t jobs[BATCH]; /* by their numbers */
    size_t count;
};

/* struct lives: one round. */
struct lives {
    size_t jobs;        /* to live through */
    size_t pushed;      /* taken by a pusher */
    size_t done, dead;  /* as the server says */
    size_t attempts;    /* that were reported */
    int64_t *pushed_ns; /* of each job, when its push was sent */
    double *us;         /* of each ended one, from its push to its end */
    struct buf body;    /* of a push */
    struct hand *hands; /* of each worker */
};

static void add_envelope(struct buf *out, size_t number)
{
    static const char note[] =
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
        "nnnnnnnnnnnnnnnn";
    char text[512];
    int len = snprintf(text, sizeof(text),
                       "{\"action\":\"invoice.send\",\"queue\":\"invoices\","
                       "\"requested_by\":\"billing@example.org\",\"retry_policy\":\"" POLICY
                       "\",\"idempotency_key\":\"invoice-%zu-%d\",\"inputs\":{\"invoice\":%zu,"
                       "\"fails\":%zu,\"note\":\"%s\"}}\n",
                       number, (int)getpid(), number, fails_of(number), note);
    buf_add(out, text, (size_t)len);
}

static bool ask_push(struct lives *lives, struct buf *out)
{
    if (lives->pushed == lives->jobs)
        return false;
    int64_t now = clock_ns();
    buf_clear(&lives->body);
    for (size_t i = 0; i < BATCH && lives->pushed < lives->jobs; i++) {
        lives->pushed_ns[lives->pushed] = now;
        add_envelope(&lives->body, lives->pushed++);
    }
    http_ask(out, "POST", "/api/v1/jobs", NDJSON_TYPE, buf_slice(&lives->body));
    return true;
}

static bool ask_life(void *ctx, struct link *link, struct buf *out)
{
    struct lives *lives = ctx;
    if (link->index < PUSHERS)
        return ask_push(lives, out);
    struct hand *hand = &lives->hands[link->index - PUSHERS];
    if (hand->count) {
        http_ask(out, "POST", "/api/v1/results", JSON_TYPE, buf_slice(&hand->results));
        return true;
    }
    if (lives->done + lives->dead == lives->jobs)
        return false;
    http_ask(out, "POST", "/api/v1/leases", JSON_TYPE,
             SLICE("{\"worker_id\":\"" LOAD_WORKER "\",\"count\":1000,\"wait_ms\":100}"));
    return true;
}

/* leases_came writes the result of every job that was leased. */
static void leases_came(struct lives *lives, struct hand *hand, const struct answer *answer)
{
    struct leased leased;
    struct slice rest = answer->body;
    answer_expect(answer, 200, "a lease");
    buf_clear(&hand->results);
    while (leased_next(&rest, &leased)) {
        size_t number = number_of(leased.job, "\"invoice\":");
        if (hand->count == BATCH || number >= lives->jobs)
            bench_die("more was leased than there is");
        buf_add_char(&hand->results, hand->count ? ',' : '[');
        if (leased.attempt <= fails_of(number))
            add_failure(&hand->results, &leased);
        else
            add_success(&hand->results, &leased);
        hand->jobs[hand->count++] = number;
    }
    buf_add_char(&hand->results, ']');
}

/* results_came counts what became of the jobs, and how long the ended ones took. */
static void results_came(struct lives *lives, struct hand *hand, const struct answer *answer)
{
    int64_t now = clock_ns();
    struct slice rest = answer->body;
    answer_expect(answer, 200, "results");
    lives->attempts += hand->count;
    for (size_t i = 0; i < hand->count; i++) {
        if (!skip_to(&rest, "\"state\":\""))
            bench_die("a result was not taken: %.300s", rest.ptr);
        bool done = slice_starts(rest, SLICE("done")), dead = slice_starts(rest, SLICE("dead"));
        if (done || dead)
            lives->us[lives->done + lives->dead] =
                (double)(now - lives->pushed_ns[hand->jobs[i]]) / 1e3;
        lives->done += done;
        lives->dead += dead;
    }
    hand->count = 0;
}

static void check_life(void *ctx, struct link *link, const struct answer *answer)
{
    struct lives *lives = ctx;
    if (link->index < PUSHERS) {
        answer_expect(answer, 200, "a batch of jobs");
        return;
    }
    struct hand *hand = &lives->hands[link->index - PUSHERS];
    if (hand->count)
        results_came(lives, hand, answer);
    else
        leases_came(lives, hand, answer);
}

static void set_policy(const struct process *lazaret)
{
    struct link link;
    struct answer answer;
    link_connect(&link, lazaret->port);
    http_ask(&link.out, "PUT", "/api/v1/policies/" POLICY, JSON_TYPE,
             SLICE("{\"max_attempts\":" ATTEMPTS ",\"backoff_strategy\":\"fixed\","
                   "\"initial_delay_seconds\":0.001,\"jitter\":false}"));
    link_send(&link);
    link_receive(&link, wire_http, &answer);
    if (answer.status != 200 && answer.status != 201)
        answer_expect(&answer, 200, "a policy");
    link_release(&link);
}

/* struct side: one of the two, over the rounds. */
struct side {
    double rate[ROUNDS_MAX], half_ms[ROUNDS_MAX], most_ms[ROUNDS_MAX];
    double server_cpu_seconds;
    double jobs;
};

static void check_counts(const char *who, size_t jobs, size_t done, size_t dead, size_t attempts)
{
    if (dead != jobs / 10 || done != jobs - jobs / 10 || attempts != jobs / 10 * 22)
        bench_die("%s: %zu jobs done, %zu dead, %zu attempts, of %zu jobs", who, done, dead,
                  attempts, jobs);
}

static void run_lazaret(struct side *side, const struct process *lazaret, size_t jobs, size_t round)
{
    struct lives lives = {.jobs = jobs};
    struct tally tally = {0};
    lives.pushed_ns = bench_array(jobs, sizeof(*lives.pushed_ns));
    lives.us = bench_array(jobs, sizeof(*lives.us));
    lives.hands = bench_array(WORKERS, sizeof(*lives.hands));
    buf_init(&lives.body, (size_t)16 << 20);
    for (size_t i = 0; i < WORKERS; i++)
        buf_init(&lives.hands[i].results, (size_t)16 << 20);
    struct talk talk = {wire_http, ask_life, check_life, &lives};
    struct drive *drive = drive_open(lazaret->port, PUSHERS + WORKERS, &talk);
    int64_t cpu = process_cpu_ns(lazaret);
    drive_run(drive, 0, &tally);
    drive_close(drive);
    side->server_cpu_seconds += (double)(process_cpu_ns(lazaret) - cpu) / 1e9;
    side->jobs += (double)jobs;
    check_counts("lazaret", jobs, lives.done, lives.dead, lives.attempts);
    side->rate[round] = (double)jobs / tally.seconds;
    side->half_ms[round] = percentile(lives.us, jobs, 0.50) / 1e3;
    side->most_ms[round] = percentile(lives.us, jobs, 0.99) / 1e3;
    for (size_t i = 0; i < WORKERS; i++)
        buf_release(&lives.hands[i].results);
    buf_release(&lives.body);
    mem_free(lives.hands);
    mem_free(lives.us);
    mem_free(lives.pushed_ns);
    tally_release(&tally);
}

/* ---- BullMQ's side -----------------------------------------------------------------------------
 */

static double member(struct json object, const char *name)
{
    struct json value;
    double number = 0;
    json_get(object, name, &value);
    if (value.type != JSON_NUMBER || sscanf(value.raw.ptr, "%lf", &number) != 1)
        bench_die("bullmq said nothing of %s", name);
    return number;
}

/* struct rival: BullMQ and what it runs on. */
struct rival {
    struct process redis, node;
    const char *setting;
};

static void run_bullmq(struct side *side, struct rival *rival, size_t jobs, size_t round)
{
    char line[1024];
    struct json object;
    struct err err = {0};
    int len = snprintf(line, sizeof(line), "%zu %s " BULLMQ_JOBS "\n", jobs, rival->setting);
    int64_t cpu = process_cpu_ns(&rival->redis);
    if (write(rival->node.in, line, (size_t)len) != len)
        bench_die("bullmq does not listen");
    process_line(&rival->node, line, sizeof(line));
    bench_check(json_parse(slice_of(line), &object, &err), &err, "reading what bullmq says");
    side->server_cpu_seconds += (double)(process_cpu_ns(&rival->redis) - cpu) / 1e9;
    side->jobs += (double)jobs;
    check_counts("bullmq", jobs, (size_t)member(object, "done"), (size_t)member(object, "dead"),
                 (size_t)member(object, "attempts"));
    side->rate[round] = (double)jobs / member(object, "seconds");
    side->half_ms[round] = member(object, "p50_ms");
    side->most_ms[round] = member(object, "p99_ms");
}

/* choose_setting keeps the one that is the fastest here. */
static void choose_setting(struct rival *rival)
{
    const char *best = bullmq_settings[0];
    double best_rate = 0;
    for (size_t i = 0; i <= SETTING_COUNT; i++) {
        struct side trial = {0};
        rival->setting = bullmq_settings[i ? i - 1 : 0]; /* the first one twice: it warms up */
        bench_progress("bullmq: trying %s", rival->setting);
        run_bullmq(&trial, rival, TRIAL_JOBS, 0);
        if (i > 0 && trial.rate[0] > best_rate) {
            best = rival->setting;
            best_rate = trial.rate[0];
        }
    }
    rival->setting = best;
}

/* ---- both --------------------------------------------------------------------------------------
 */

static double report_side(struct bench *bench, const char *name, struct side *side, size_t rounds)
{
    char text[THOUSANDS_SIZE];
    double rate = median(side->rate, rounds);
    double half = median(side->half_ms, rounds), most = median(side->most_ms, rounds);
    struct goal none = {0};
    report_figure(bench->report, rate, none, "lifecycle_%s_per_s", name);
    report_figure(bench->report, half, none, "lifecycle_%s_p50_ms", name);
    report_figure(bench->report, most, none, "lifecycle_%s_p99_ms", name);
    printf("  %-38s %9s %9.0f %9.0f %9.1f", name, thousands(rate, text), half, most,
           side->server_cpu_seconds * 1e6 / side->jobs);
    return rate;
}

void lifecycle_run(struct bench *bench)
{
    struct process lazaret;
    struct rival rival = {0};
    struct side ours = {0}, theirs = {0}, warm = {0};
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX, jobs = bench->quick ? 2000 : 20000;
    char text[THOUSANDS_SIZE];
    printf(
        "\nwhole lives of %s jobs: half fail twice, one in ten ends dead (goal: 10 times BullMQ)\n",
        thousands((double)jobs, text));
    lazaret_start(&lazaret);
    set_policy(&lazaret);
    bool peer =
        !bench->quick && redis_start(&rival.redis) && bullmq_start(&rival.node, rival.redis.port);
    if (peer)
        choose_setting(&rival);
    if (!bench->quick)
        run_lazaret(&warm, &lazaret, TRIAL_JOBS, 0);
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("lifecycle: round %zu of %zu", round + 1, rounds);
        run_lazaret(&ours, &lazaret, jobs, round);
        if (peer)
            run_bullmq(&theirs, &rival, jobs, round);
    }
    printf("  %-38s %9s %9s %9s %9s\n", "", "", "p50 ms", "p99 ms", "server");
    printf("  %-38s %9s %9s %9s %9s\n", "", "jobs/s", "push-end", "push-end", "us a job");
    double rate = report_side(bench, "lazaret", &ours, rounds);
    printf("\n");
    if (peer) {
        double ratio = rate / report_side(bench, "bullmq", &theirs, rounds);
        struct goal goal = {GOAL_AT_LEAST, 10};
        const char *verdict = report_ratio(bench->report, ratio, goal, "lifecycle");
        printf("   ratio %.2f  %s\n", ratio, verdict);
        printf("  bullmq's processes, workers in each, concurrency of a worker: %s\n",
               rival.setting);
    }
    fflush(stdout);
    process_stop(&rival.node);
    process_stop(&rival.redis);
    process_stop(&lazaret);
}
