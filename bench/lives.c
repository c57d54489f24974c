#include "lives.h"

#include "base/mem.h"
#include "bench.h"
#include "drive.h"
#include "talk.h"

/* struct hand: what one worker's connection has leased. */
struct hand {
    struct buf results;
    size_t count;
};

struct lives {
    const struct lives_plan *plan;
    size_t pushed; /* taken by a hand that pushes */
    size_t done;   /* as the server says */
    int64_t ended_ns;
    struct buf body;  /* of a push */
    struct buf lease; /* how a worker asks */
    struct hand hands[LIVES_HANDS_MAX];
};

/* ---- asking ------------------------------------------------------------------------------------
 */

static bool ask_push(struct lives *lives, struct buf *out)
{
    const struct lives_plan *plan = lives->plan;
    if (lives->pushed == plan->jobs)
        return false;
    buf_clear(&lives->body);
    for (size_t i = 0; i < plan->batch && lives->pushed < plan->jobs; i++) {
        buf_add_slice(&lives->body, plan->load->bodies[lives->pushed++ % plan->load->count]);
        if (plan->batch > 1)
            buf_add_char(&lives->body, '\n');
    }
    http_ask(out, "POST", "/api/v1/jobs", plan->batch > 1 ? NDJSON_TYPE : JSON_TYPE,
             buf_slice(&lives->body));
    return true;
}

static bool ask(void *ctx, struct link *link, struct buf *out)
{
    struct lives *lives = ctx;
    if (link->index < lives->plan->hands)
        return ask_push(lives, out);
    struct hand *hand = &lives->hands[link->index - lives->plan->hands];
    if (hand->count)
        http_ask(out, "POST", "/api/v1/results", JSON_TYPE, buf_slice(&hand->results));
    else if (lives->done < lives->plan->jobs)
        http_ask(out, "POST", "/api/v1/leases", JSON_TYPE, buf_slice(&lives->lease));
    else
        return false;
    return true;
}

/* ---- looking at answers ------------------------------------------------------------------------
 */

static void leases_came(struct lives *lives, struct hand *hand, const struct answer *answer)
{
    struct leased leased;
    struct slice rest = answer->body;
    answer_expect(answer, 200, "a lease");
    buf_clear(&hand->results);
    while (leased_next(&rest, &leased)) {
        if (hand->count == lives->plan->batch)
            bench_die("more was leased than was asked for");
        if (lives->plan->batch > 1)
            buf_add_char(&hand->results, hand->count ? ',' : '[');
        add_success(&hand->results, &leased);
        hand->count++;
    }
    if (lives->plan->batch > 1)
        buf_add_char(&hand->results, ']');
}

static void results_came(struct lives *lives, struct hand *hand, const struct answer *answer)
{
    answer_expect(answer, 200, "results");
    if (count_of(answer->body, "\"state\":\"done\"") != hand->count)
        bench_die("not all jobs of %zu are done: %.300s", hand->count, answer->body.ptr);
    lives->done += hand->count;
    hand->count = 0;
    if (lives->done == lives->plan->jobs)
        lives->ended_ns = clock_ns();
}

static void check(void *ctx, struct link *link, const struct answer *answer)
{
    struct lives *lives = ctx;
    if (link->index < lives->plan->hands) {
        answer_expect(answer, lives->plan->batch > 1 ? 200 : 201, "a push");
        return;
    }
    struct hand *hand = &lives->hands[link->index - lives->plan->hands];
    if (hand->count)
        results_came(lives, hand, answer);
    else
        leases_came(lives, hand, answer);
}

/* ---- a run -------------------------------------------------------------------------------------
 */

void lives_run(const struct lives_plan *plan, struct lives_outcome *out)
{
    struct lives *lives = bench_array(1, sizeof(*lives));
    struct tally tally = {0};
    struct talk talk = {wire_http, ask, check, lives};
    *lives = (struct lives){.plan = plan};
    buf_init(&lives->body, (size_t)16 << 20);
    buf_init(&lives->lease, 1024);
    buf_addf(&lives->lease, "{\"worker_id\":\"" LOAD_WORKER "\",\"count\":%zu,\"wait_ms\":100}",
             plan->batch);
    for (size_t i = 0; i < plan->hands; i++)
        buf_init(&lives->hands[i].results, (size_t)16 << 20);
    struct drive *drive = drive_open_among(plan->ports, plan->port_count, 2 * plan->hands, &talk);
    int64_t start = clock_ns();
    drive_run(drive, 0, &tally);
    drive_close(drive);
    *out = (struct lives_outcome){.seconds = (double)(lives->ended_ns - start) / 1e9,
                                  .client_cpu_seconds = tally.client_cpu_seconds};
    if (lives->done != plan->jobs)
        bench_die("%zu jobs are done, of %zu", lives->done, plan->jobs);
    for (size_t i = 0; i < plan->hands; i++)
        buf_release(&lives->hands[i].results);
    buf_release(&lives->lease);
    buf_release(&lives->body);
    mem_free(lives);
    tally_release(&tally);
}
