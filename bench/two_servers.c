/* two_servers: two servers over one database.
 *
 * A worker waits at one of them, and a job is pushed at the other: the time from the push to the
 * lease has two commits in it, and the news of the first.  Then the same load is put on one server
 * and on both: writers take turns at the database, so two do not do twice as much. */
#include <poll.h>

#include "base/mem.h"
#include "bench.h"
#include "drive.h"
#include "lives.h"
#include "servers.h"
#include "talk.h"

#define HANDS 10
#define BODY_BYTES 300
#define ROUNDS_MAX 3
#define TURN_SECONDS 3 /* about */
#define SETTLE_MS 5    /* that a worker is given until it surely waits */
#define HANDOVER_MS 50

struct pair {
    struct process postgres;
    struct process servers[2];
    int ports[2];
};

static bool pair_start(struct pair *pair)
{
    static const char *const names[2] = {"lazaret-1", "lazaret-2"};
    char url[URL_SIZE];
    const char *const flags[] = {"--store", url, NULL};
    if (!postgres_start(&pair->postgres))
        return false;
    postgres_do(&pair->postgres, "postgres", "CREATE DATABASE lazaret");
    postgres_url(&pair->postgres, "lazaret", url);
    for (int i = 0; i < 2; i++) {
        lazaret_start_with(&pair->servers[i], names[i], flags);
        pair->ports[i] = pair->servers[i].port;
    }
    return true;
}

static void pair_stop(struct pair *pair)
{
    for (int i = 0; i < 2; i++)
        process_stop(&pair->servers[i]);
    process_stop(&pair->postgres);
}

/* ---- from one to the other ---------------------------------------------------------------------
 */

static void ask(struct link *link, const char *path, struct slice body)
{
    http_ask(&link->out, "POST", path, JSON_TYPE, body);
    link_send(link);
}

/* finish ends the job that was waited for. */
static void finish(struct link *worker, const struct answer *lease)
{
    struct leased leased;
    struct answer answer;
    struct slice rest = lease->body;
    struct buf result;
    if (!leased_next(&rest, &leased))
        bench_die("a worker that waited got nothing: %.*s", SLICE_ARG(lease->body));
    buf_init(&result, 4096);
    add_success(&result, &leased);
    ask(worker, "/api/v1/results", buf_slice(&result));
    link_receive(worker, wire_http, &answer);
    answer_expect(&answer, 200, "the end of a job");
    buf_release(&result);
}

static double handover_ms(struct link *pusher, struct link *worker)
{
    struct answer answer;
    ask(worker, "/api/v1/leases",
        SLICE("{\"worker_id\":\"" LOAD_WORKER "\",\"queues\":[\"wake\"],\"wait_ms\":30000}"));
    poll(NULL, 0, SETTLE_MS);
    ask(pusher, "/api/v1/jobs",
        SLICE("{\"action\":\"invoice.send\",\"queue\":\"wake\",\"inputs\":{\"invoice\":1}}"));
    link_receive(worker, wire_http, &answer);
    double ms = (double)(clock_ns() - pusher->sent_ns) / 1e6;
    answer_expect(&answer, 200, "waiting for a job");
    finish(worker, &answer);
    link_receive(pusher, wire_http, &answer);
    answer_expect(&answer, 201, "a push");
    return ms;
}

static void measure_handover(struct bench *bench, const struct pair *pair)
{
    size_t count = bench->quick ? 20 : 200;
    double *ms = bench_array(count, sizeof(*ms));
    struct link pusher, worker;
    struct goal none = {0}, goal = {GOAL_AT_MOST, HANDOVER_MS};
    link_connect(&pusher, pair->ports[0]);
    link_connect(&worker, pair->ports[1]);
    for (size_t i = 0; i < count; i++)
        ms[i] = handover_ms(&pusher, &worker);
    double half = percentile(ms, count, 0.50), most = percentile(ms, count, 0.99);
    report_figure(bench->report, half, none, "handover_p50_ms");
    const char *verdict = report_figure(bench->report, most, goal, "handover_ms");
    printf("  pushed at one server, leased by a worker that waits at the other: p50 %.1f ms, p99 "
           "%.1f ms  goal <= %d  %s\n",
           half, most, HANDOVER_MS, verdict);
    fflush(stdout);
    link_release(&pusher);
    link_release(&worker);
    mem_free(ms);
}

/* ---- both together -----------------------------------------------------------------------------
 */

static double rate_of(const struct lives_plan *plan)
{
    struct lives_outcome outcome;
    lives_run(plan, &outcome);
    return (double)plan->jobs / outcome.seconds;
}

/* turn_jobs is how many one server does in about TURN_SECONDS, by as many as the plan has. */
static size_t turn_jobs(const struct lives_plan *plan)
{
    double jobs = rate_of(plan) * TURN_SECONDS;
    size_t whole = jobs > (double)plan->jobs ? (size_t)jobs : plan->jobs;
    return whole - whole % plan->batch;
}

static void measure_both(struct bench *bench, const struct pair *pair, const char *name,
                         struct lives_plan plan)
{
    double alone[ROUNDS_MAX], both[ROUNDS_MAX], ratio[ROUNDS_MAX];
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;
    char left[THOUSANDS_SIZE], right[THOUSANDS_SIZE];
    struct goal none = {0};
    plan.ports = pair->ports;
    plan.port_count = 1;
    if (!bench->quick)
        plan.jobs = turn_jobs(&plan);
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("two servers, %s: round %zu of %zu", name, round + 1, rounds);
        plan.port_count = 1;
        alone[round] = rate_of(&plan);
        plan.port_count = 2;
        both[round] = rate_of(&plan);
        ratio[round] = both[round] / alone[round];
    }
    double one = median(alone, rounds), two = median(both, rounds), by = median(ratio, rounds);
    report_figure(bench->report, one, none, "two_servers_%s_one_per_s", name);
    report_figure(bench->report, two, none, "two_servers_%s_two_per_s", name);
    report_ratio(bench->report, by, none, "two_servers_%s_to_one", name);
    printf("  lives of jobs, %s: one server %s/s, two %s/s   ratio %.2f\n", name,
           thousands(one, left), thousands(two, right), by);
    fflush(stdout);
}

void two_servers_run(struct bench *bench)
{
    static struct pair pair;
    struct load load;
    bool quick = bench->quick;
    pair = (struct pair){0};
    printf("\ntwo servers over one PostgreSQL\n");
    if (!pair_start(&pair))
        return;
    load_init(&load, &(struct shape){.count = 1000, .body_bytes = BODY_BYTES});
    measure_handover(bench, &pair);
    measure_both(
        bench, &pair, "one",
        (struct lives_plan){.load = &load, .jobs = quick ? 50 : 300, .hands = HANDS, .batch = 1});
    measure_both(bench, &pair, "batch",
                 (struct lives_plan){
                     .load = &load, .jobs = quick ? 500 : 5000, .hands = HANDS, .batch = 100});
    pair_stop(&pair);
    load_release(&load);
}
