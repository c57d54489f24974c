/* live: what a million live jobs cost in memory, and how long opening their store takes.
 *
 * Memory is what the process holds in RAM more than before, but for SQLite's page cache, after free
 * memory was given back to the system: once in the process that took the jobs in, once in one that
 * opened a store that has them.  The larger counts.
 *
 * Opening is compared with a bare scan of the job table in the same, warm file: opening a
 * connection with the same settings and asking for every column of every row. */
#include "bare.h"
#include "bench.h"
#include "store/sqlite.h"

#define BATCH 1000
#define THREADS 2
#define SLICE_JOBS 20000 /* envelopes that are in memory at a time */
#define OPENINGS 5

/* fill pushes the jobs from number `from` to `to`.  They have both keys: that costs most. */
static void fill(struct engine *engine, size_t from, size_t to, size_t body_bytes)
{
    while (from < to) {
        size_t left = to - from;
        struct shape shape = {.count = left < SLICE_JOBS ? left : SLICE_JOBS,
                              .body_bytes = body_bytes,
                              .keys = true,
                              .first = from};
        struct load load;
        load_init(&load, &shape);
        load_push(engine, &load, (struct part){0, load.count}, BATCH, THREADS);
        load_release(&load);
        from += shape.count;
        if (from % (10 * SLICE_JOBS) < SLICE_JOBS)
            bench_progress("live jobs of %zu bytes: %zu of %zu", body_bytes, from, to);
    }
}

/* measure_memory fills a store and returns the bytes of memory that each job takes. */
static double measure_memory(size_t count, size_t body_bytes)
{
    scratch_remove(SCRATCH_ENGINE);
    struct engine *engine = bench_engine(SCRATCH_ENGINE);
    fill(engine, 0, BATCH, body_bytes); /* so that what is allocated once is there */
    int64_t empty = memory_bytes();
    fill(engine, BATCH, count, body_bytes);
    double taken = (double)(memory_bytes() - empty) / (double)(count - BATCH);
    engine_free(engine);
    int64_t closed = memory_bytes();
    engine = bench_engine(SCRATCH_ENGINE);
    double opened = (double)(memory_bytes() - closed) / (double)count;
    engine_free(engine);
    return taken > opened ? taken : opened;
}

static void report_memory(struct bench *bench, size_t count, size_t body_bytes, const char *name)
{
    char jobs[THOUSANDS_SIZE], line[64];
    double bytes = measure_memory(count, body_bytes);
    const char *verdict = report_figure(bench->report, bytes, (struct goal){GOAL_AT_MOST, 256},
                                        "memory_a_live_job_%s", name);
    snprintf(line, sizeof(line), "%s jobs of %zu bytes: memory of each",
             thousands((double)count, jobs), body_bytes);
    printf("  %-44s %8.0f bytes  goal <= 256  %s\n", line, bytes, verdict);
    fflush(stdout);
}

/* measure_opening compares opening the store with a scan, one after the other. */
static void measure_opening(struct bench *bench, size_t count)
{
    double open[OPENINGS], scan[OPENINGS], ratio[OPENINGS];
    for (int i = 0; i < OPENINGS; i++) {
        size_t scanned;
        scan[i] = bare_scan_seconds(scratch_path(SCRATCH_ENGINE), &scanned);
        int64_t start = clock_ns();
        struct store *store = bench_store(SCRATCH_ENGINE);
        open[i] = (double)(clock_ns() - start) / 1e9;
        ratio[i] = open[i] / scan[i];
        if (scanned != count || store->live_count(store) != count)
            bench_die("%zu jobs were scanned and %zu opened, of %zu", scanned,
                      store->live_count(store), count);
        if (i == 0)
            report_figure(bench->report,
                          (double)live_memory(sqlite_of(store)->live) / (double)count,
                          (struct goal){0}, "live_index_a_job");
        store->close(store);
    }
    double middle = median(ratio, OPENINGS);
    report_figure(bench->report, median(open, OPENINGS) * 1e3, (struct goal){0}, "open_ms");
    report_figure(bench->report, median(scan, OPENINGS) * 1e3, (struct goal){0}, "scan_ms");
    const char *verdict =
        report_ratio(bench->report, middle, (struct goal){GOAL_AT_MOST, 3}, "open_to_scan");
    printf("  %-44s %8.2f s      scan %.2f s, ratio %.2f  goal <= 3  %s\n", "opening their store",
           median(open, OPENINGS), median(scan, OPENINGS), middle, verdict);
    fflush(stdout);
}

void live_run(struct bench *bench)
{
    size_t many = bench->quick ? 20000 : 1000000;
    size_t large = bench->quick ? 2000 : 100000;
    printf("\nlive jobs\n");
    report_memory(bench, large, 10240, "10kb");
    report_memory(bench, many, 100, "100b");
    measure_opening(bench, many);
    scratch_remove(SCRATCH_ENGINE);
}
