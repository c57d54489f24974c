/* throughput: the engine beside the bare loop, in the same batches.
 *
 * The strict figure has one thread and one command under way, so nothing overlaps: the thread
 * parses a batch, waits for its commit, and parses the next; the engine and the bare loop commit
 * exactly the same number of jobs at a time.  This is the ratio that has a goal.
 *
 * The pipelined figure has several threads, as a server has: they parse while the engine commits,
 * and the engine takes whatever has arrived into one commit.  Its bare loop commits as many jobs at
 * a time as the engine was seen to.
 *
 * Waiting for the disk takes both equally long, so a slow disk brings the ratio near 1.  The ratio
 * of processor time beside it is what would be left if syncing cost nothing.
 *
 * The machine's speed changes while we measure.  So both databases are open at the same time and
 * the work is done in slices, by the engine and by the bare loop in turns; and of several such
 * rounds the median ratio is given. */
#include "bare.h"
#include "bench.h"

#define BODY_BYTES 300
#define ROUNDS_MAX 3
#define PIPELINE_THREADS 4
#define SAME_ROWS_SHARE 0.99 /* of the engine's bytes that the bare loop must write at least */

/* struct series: one kind of work, over the rounds. */
struct series {
    double engine[ROUNDS_MAX], bare[ROUNDS_MAX], ratio[ROUNDS_MAX]; /* jobs a second */
    double cpu[ROUNDS_MAX]; /* the bare loop's processor time, as a share of the engine's */
    double engine_bytes, bare_bytes; /* a job, of the last round */
    double jobs_per_commit;          /* likewise */
};

/* struct setting: one line of the table. */
struct setting {
    const struct load *load;
    size_t batch;
    size_t threads;
    size_t rounds;
    size_t slices; /* of the load, that the engine and the bare loop do in turns */
};

/* struct pair: the same work, done by both. */
struct pair {
    struct outcome engine, bare;
};

static void record(struct series *series, size_t round, size_t jobs, const struct pair *pair,
                   size_t steps)
{
    series->engine[round] = (double)jobs / pair->engine.seconds;
    series->bare[round] = (double)jobs / pair->bare.seconds;
    series->ratio[round] = pair->bare.seconds / pair->engine.seconds;
    series->cpu[round] = pair->bare.cpu_seconds / pair->engine.cpu_seconds;
    series->engine_bytes = pair->engine.bytes / (double)jobs;
    series->bare_bytes = pair->bare.bytes / (double)jobs;
    series->jobs_per_commit = (double)(jobs * steps) / pair->bare.commits;
}

/* check_rows makes sure that the bare loop did not have it easier. */
static void check_rows(struct bench *bench, size_t batch)
{
    double engine = bare_row_bytes(scratch_path(SCRATCH_ENGINE));
    double bare = bare_row_bytes(scratch_path(SCRATCH_BARE));
    if (bare < engine * SAME_ROWS_SHARE)
        bench_die("the bare loop wrote %.0f bytes of rows where the engine wrote %.0f: they are "
                  "not the same rows",
                  bare, engine);
    report_figure(bench->report, bare / engine, (struct goal){0}, "row_bytes_bare_to_engine_%zu",
                  batch);
}

/* jobs_per_commit is what the bare loop is to do, from what the engine did with `steps` commands a
 * batch. */
static size_t jobs_per_commit(const struct setting *setting, size_t jobs,
                              const struct outcome *engine, size_t steps)
{
    if (setting->threads == 1)
        return setting->batch;
    double count = (double)(jobs * steps) / engine->commits;
    return count < 1 ? 1 : (size_t)(count + 0.5);
}

static void push_slice(const struct setting *setting, struct engine *engine, struct bare *bare,
                       struct part part, struct pair *sum)
{
    struct outcome by_engine =
        load_push(engine, setting->load, part, setting->batch, setting->threads);
    struct outcome by_bare =
        bare_push(bare, part, jobs_per_commit(setting, part.count, &by_engine, 1));
    outcome_add(&sum->engine, &by_engine);
    outcome_add(&sum->bare, &by_bare);
}

static void drain_slice(const struct setting *setting, struct engine *engine, struct bare *bare,
                        struct part part, struct pair *sum)
{
    struct outcome by_engine = load_drain(engine, part.count, setting->batch, setting->threads);
    struct outcome by_bare =
        bare_drain(bare, part, jobs_per_commit(setting, part.count, &by_engine, 2));
    outcome_add(&sum->engine, &by_engine);
    outcome_add(&sum->bare, &by_bare);
}

static void measure_round(struct bench *bench, const struct setting *setting, size_t round,
                          struct series *push, struct series *drain)
{
    struct pair pushed = {0}, drained = {0};
    size_t slice = setting->load->count / setting->slices;
    scratch_remove(SCRATCH_ENGINE);
    scratch_remove(SCRATCH_BARE);
    struct engine *engine = bench_engine(SCRATCH_ENGINE);
    struct bare *bare = bare_open(scratch_path(SCRATCH_BARE), setting->load);
    for (size_t i = 0; i < setting->slices; i++)
        push_slice(setting, engine, bare, (struct part){i * slice, slice}, &pushed);
    for (size_t i = 0; i < setting->slices; i++)
        drain_slice(setting, engine, bare, (struct part){i * slice, slice}, &drained);
    engine_free(engine);
    bare_close(bare);
    record(push, round, slice * setting->slices, &pushed, 1);
    record(drain, round, slice * setting->slices, &drained, 2);
    if (round == 0 && setting->threads == 1)
        check_rows(bench, setting->batch);
}

static void print_series(struct bench *bench, const struct setting *setting, const char *label,
                         const char *name, struct series *series)
{
    char left[THOUSANDS_SIZE], right[THOUSANDS_SIZE], line[64];
    bool strict = setting->threads == 1;
    const char *kind = strict ? "" : "pipelined_";
    double engine = median(series->engine, setting->rounds);
    double bare = median(series->bare, setting->rounds);
    double ratio = median(series->ratio, setting->rounds);
    double cpu = median(series->cpu, setting->rounds);
    struct goal goal = {strict ? GOAL_AT_LEAST : GOAL_NONE, 0.60};
    const char *verdict =
        report_ratio(bench->report, ratio, goal, "%s_%s%zu", name, kind, setting->batch);
    report_figure(bench->report, engine, (struct goal){0}, "%s_%s%zu_engine_per_s", name, kind,
                  setting->batch);
    report_figure(bench->report, bare, (struct goal){0}, "%s_%s%zu_bare_per_s", name, kind,
                  setting->batch);
    report_figure(bench->report, cpu, (struct goal){0}, "%s_%s%zu_cpu_ratio", name, kind,
                  setting->batch);
    if (!strict)
        report_figure(bench->report, series->jobs_per_commit, (struct goal){0},
                      "%s_%s%zu_jobs_per_commit", name, kind, setting->batch);
    snprintf(line, sizeof(line), "%s%s, batches of %zu", label, strict ? "" : ", pipelined",
             setting->batch);
    printf("  %-44s %8.0f %11s %11s %7.2f %7.2f  %s\n", line, series->jobs_per_commit,
           thousands(engine, left), thousands(bare, right), ratio, cpu, verdict);
}

static void print_bytes(struct bench *bench, size_t batch, const struct series *push,
                        const struct series *drain)
{
    double engine = push->engine_bytes + drain->engine_bytes;
    double bare = push->bare_bytes + drain->bare_bytes;
    report_figure(bench->report, engine, (struct goal){0}, "bytes_written_a_job_%zu", batch);
    report_figure(bench->report, bare, (struct goal){0}, "bytes_written_a_job_%zu_bare", batch);
    printf("  %-44s %8zu %11.0f %11.0f\n", "bytes to the disk for each job", batch, engine, bare);
}

static void measure(struct bench *bench, const struct setting *setting)
{
    struct series push = {0}, drain = {0};
    for (size_t round = 0; round < setting->rounds; round++) {
        bench_progress("batches of %zu, %s: round %zu of %zu", setting->batch,
                       setting->threads == 1 ? "strict" : "pipelined", round + 1, setting->rounds);
        measure_round(bench, setting, round, &push, &drain);
    }
    print_series(bench, setting, "enqueue", "enqueue", &push);
    print_series(bench, setting, "lease and resolve", "lease_resolve", &drain);
    if (setting->threads == 1)
        print_bytes(bench, setting->batch, &push, &drain);
    fflush(stdout);
}

void throughput_run(struct bench *bench)
{
    static const size_t batches[] = {64, 256, 1000};
    static const size_t threads[] = {1, PIPELINE_THREADS};
    struct load load;
    char count[THOUSANDS_SIZE];
    load_init(&load,
              &(struct shape){.count = bench->quick ? 1000 : 200000, .body_bytes = BODY_BYTES});
    printf("\n%s jobs with envelopes of %d bytes, full audit, a synced commit each\n",
           thousands((double)load.count, count), BODY_BYTES);
    printf("  %-44s %8s %11s %11s %7s %7s  %s\n", "", "jobs per", "", "", "", "cpu", "goal");
    printf("  %-44s %8s %11s %11s %7s %7s  %s\n", "", "commit", "engine/s", "bare/s", "ratio",
           "ratio", ">= 0.60");
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++)
        for (size_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++)
            measure(bench, &(struct setting){.load = &load,
                                             .batch = batches[b],
                                             .threads = threads[t],
                                             .rounds = bench->quick ? 1 : ROUNDS_MAX,
                                             .slices = bench->quick ? 1 : 10});
    load_release(&load);
    scratch_remove(SCRATCH_ENGINE);
    scratch_remove(SCRATCH_BARE);
}
