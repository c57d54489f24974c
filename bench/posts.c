/* posts: one job a request, beside beanstalkd with the same bytes, the same connections and the
 * same loop.  Both have the job on disk before they answer: beanstalkd syncs its log for every put,
 * and Lazaret takes what has arrived meanwhile into one commit.
 *
 * The two are loaded in turns, and the disk is measured bare beside them: how often a second it
 * syncs a few bytes is what a server with a sync for each job cannot surpass. */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"
#include "drive.h"
#include "load.h"
#include "process.h"

#define BODY_BYTES 300
#define BODIES 20000
#define ROUNDS_MAX 5

/* struct side: one of the two, at one number of connections. */
struct side {
    const struct process *process;
    struct talk talk;
    struct tally tally;
    double rate[ROUNDS_MAX];
    double server_cpu_seconds;
};

/* struct maker: where the next body comes from. */
struct maker {
    const struct load *load;
    size_t taken;
};

static struct slice maker_next(struct maker *maker)
{
    return maker->load->bodies[maker->taken++ % maker->load->count];
}

/* ---- what is said -----------------------------------------------------------------------------
 */

static bool ask_post(void *ctx, struct link *link, struct buf *out)
{
    (void)link;
    http_ask(out, "POST", "/api/v1/jobs", JSON_TYPE, maker_next(ctx));
    return true;
}

static void check_post(void *ctx, struct link *link, const struct answer *answer)
{
    (void)ctx;
    (void)link;
    answer_expect(answer, 201, "a job");
}

static bool ask_put(void *ctx, struct link *link, struct buf *out)
{
    (void)link;
    struct slice body = maker_next(ctx);
    char head[64];
    snprintf(head, sizeof(head), "put 4 0 60 %zu\r\n", body.len);
    buf_add_str(out, head);
    buf_add_slice(out, body);
    buf_add_str(out, "\r\n");
    return true;
}

static void check_put(void *ctx, struct link *link, const struct answer *answer)
{
    (void)ctx;
    (void)link;
    answer_expect(answer, 'I', "a put");
}

/* ---- the disk ---------------------------------------------------------------------------------
 */

static double bare_syncs_per_second(double seconds)
{
    char path[PROCESS_PATH_SIZE], bytes[BODY_BYTES] = {0};
    size_t count = 0;
    snprintf(path, sizeof(path), "%s", scratch_path(SCRATCH_BARE));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int64_t start = clock_ns();
    while (fd >= 0 && clock_ns() - start < (int64_t)(seconds * 1e9)) {
        if (write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes) || fsync(fd) != 0)
            bench_die("%s cannot be written", path);
        count++;
    }
    double rate = (double)count * 1e9 / (double)(clock_ns() - start);
    close(fd);
    scratch_remove(SCRATCH_BARE);
    return rate;
}

/* ---- measuring --------------------------------------------------------------------------------
 */

static void run_side(struct side *side, size_t links, double seconds, size_t round)
{
    struct drive *drive = drive_open(side->process->port, links, &side->talk);
    size_t count = side->tally.count;
    double elapsed = side->tally.seconds;
    int64_t cpu = process_cpu_ns(side->process);
    drive_run(drive, seconds, &side->tally);
    side->server_cpu_seconds += (double)(process_cpu_ns(side->process) - cpu) / 1e9;
    side->rate[round] = (double)(side->tally.count - count) / (side->tally.seconds - elapsed);
    drive_close(drive);
}

/* report_side prints one line and keeps its figures; it returns the rate. */
static double report_side(struct bench *bench, struct side *side, size_t links, size_t rounds)
{
    char rate_text[THOUSANDS_SIZE], line[64];
    double rate = median(side->rate, rounds), jobs = (double)side->tally.count;
    double half = tally_percentile(&side->tally, 0.50), most = tally_percentile(&side->tally, 0.99);
    const char *name = side->process->name;
    struct goal none = {0};
    report_figure(bench->report, rate, none, "post_%zu_%s_per_s", links, name);
    report_figure(bench->report, half, none, "post_%zu_%s_p50_us", links, name);
    report_figure(bench->report, most, none, "post_%zu_%s_p99_us", links, name);
    snprintf(line, sizeof(line), "%zu %s, %s", links, links == 1 ? "connection" : "connections",
             name);
    printf("  %-38s %9s %9.0f %9.0f %9.1f %9.1f", line, thousands(rate, rate_text), half, most,
           side->server_cpu_seconds * 1e6 / jobs, side->tally.client_cpu_seconds * 1e6 / jobs);
    tally_release(&side->tally);
    return rate;
}

/* struct pairing: what is compared; a peer that is not there has no process. */
struct pairing {
    struct process lazaret, peer;
    const struct load *load;
};

static void measure(struct bench *bench, const struct pairing *pairing, size_t links)
{
    static struct maker maker;
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;
    double seconds = bench->quick ? 0.1 : 3, syncs[ROUNDS_MAX];
    maker.load = pairing->load;
    struct side ours = {.process = &pairing->lazaret,
                        .talk = {wire_http, ask_post, check_post, &maker}};
    struct side theirs = {.process = &pairing->peer,
                          .talk = {wire_beanstalk, ask_put, check_put, &maker}};
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("posts over %zu connections: round %zu of %zu", links, round + 1, rounds);
        run_side(&ours, links, seconds, round);
        if (pairing->peer.pid)
            run_side(&theirs, links, seconds, round);
        syncs[round] = bare_syncs_per_second(seconds / 3);
    }
    double rate = report_side(bench, &ours, links, rounds);
    printf("\n");
    if (pairing->peer.pid) {
        double ratio = rate / report_side(bench, &theirs, links, rounds);
        struct goal goal = {links > 1 ? GOAL_AT_LEAST : GOAL_NONE, 6};
        const char *verdict = report_ratio(bench->report, ratio, goal, "post_%zu", links);
        printf("   ratio %.2f  %s\n", ratio, verdict);
    }
    double sync = median(syncs, rounds);
    report_figure(bench->report, sync, (struct goal){0}, "post_%zu_disk_syncs_per_s", links);
    printf("  %-38s %9.0f\n", "the disk alone, a sync each", sync);
    fflush(stdout);
}

void posts_run(struct bench *bench)
{
    static const size_t links[] = {1, 64, 256};
    struct load load;
    struct pairing pairing = {.load = &load};
    load_init(&load, &(struct shape){.count = BODIES, .body_bytes = BODY_BYTES});
    printf("\nsingle jobs of %d bytes over HTTP, each on disk before its answer (goal: 6 times "
           "beanstalkd)\n",
           BODY_BYTES);
    lazaret_start(&pairing.lazaret);
    if (!bench->quick)
        beanstalkd_start(&pairing.peer);
    printf("  %-38s %9s %9s %9s %9s %9s\n", "", "", "", "", "server", "client");
    printf("  %-38s %9s %9s %9s %9s %9s\n", "", "jobs/s", "p50 us", "p99 us", "us a job",
           "us a job");
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        measure(bench, &pairing, links[i]);
    process_stop(&pairing.lazaret);
    process_stop(&pairing.peer);
    load_release(&load);
}
