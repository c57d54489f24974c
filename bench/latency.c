/* latency: how long a caller waits for a push of one job, which includes the sync of its commit.
 * With several callers the engine takes what has arrived into one commit. */
#include <pthread.h>

#include "base/mem.h"
#include "bench.h"
#include "load.h"

#define CALLERS_MAX 8
#define BODY_BYTES 300

struct caller {
    struct engine *engine;
    const struct load *load;
    size_t calls;
    double *us; /* how long each took */
    pthread_t thread;
};

static double call_us(struct caller *caller, size_t i, struct arena *arena)
{
    struct push_item item = {0};
    struct push_command push = {
        .command = {.kind = COMMAND_PUSH, .actor = SLICE(LOAD_ACTOR), .arena = arena},
        .items = &item,
        .count = 1,
    };
    bench_check(envelope_parse(caller->load->bodies[i % caller->load->count], ENVELOPE_BODY_MAX,
                               arena, &item.envelope, &item.err),
                &item.err, "parsing an envelope");
    int64_t start = clock_ns();
    bench_check(engine_call(caller->engine, &push.command), &push.command.err, "pushing");
    int64_t end = clock_ns();
    bench_check(item.status, &item.err, "pushing");
    return (double)(end - start) / 1e3;
}

static void *caller_main(void *arg)
{
    struct caller *caller = arg;
    struct arena arena = {0};
    for (size_t i = 0; i < caller->calls; i++) {
        caller->us[i] = call_us(caller, i, &arena);
        arena_reset(&arena);
    }
    arena_release(&arena);
    return NULL;
}

static void measure(struct bench *bench, const struct load *load, size_t callers, size_t calls)
{
    struct caller all[CALLERS_MAX];
    double *us = bench_array(callers * calls, sizeof(*us));
    scratch_remove(SCRATCH_ENGINE);
    struct engine *engine = bench_engine(SCRATCH_ENGINE);
    int64_t start = clock_ns();
    for (size_t i = 0; i < callers; i++) {
        all[i] =
            (struct caller){.engine = engine, .load = load, .calls = calls, .us = us + i * calls};
        if (pthread_create(&all[i].thread, NULL, caller_main, &all[i]) != 0)
            bench_die("a thread cannot be started");
    }
    for (size_t i = 0; i < callers; i++)
        pthread_join(all[i].thread, NULL);
    double rate = (double)(callers * calls) * 1e9 / (double)(clock_ns() - start);
    engine_free(engine);
    double half = percentile(us, callers * calls, 0.50);
    double most = percentile(us, callers * calls, 0.99);
    report_figure(bench->report, half, (struct goal){0}, "latency_%zu_p50_us", callers);
    report_figure(bench->report, most, (struct goal){0}, "latency_%zu_p99_us", callers);
    report_figure(bench->report, rate, (struct goal){0}, "latency_%zu_per_s", callers);
    char line[32];
    snprintf(line, sizeof(line), "%zu %s", callers, callers == 1 ? "caller" : "callers");
    printf("  %-44s %8.0f %11.0f %11.0f\n", line, rate, half, most);
    fflush(stdout);
    mem_free(us);
}

void latency_run(struct bench *bench)
{
    struct load load;
    size_t calls = bench->quick ? 10 : 2000;
    load_init(&load, &(struct shape){.count = 1000, .body_bytes = BODY_BYTES});
    printf("\npushes of one job each: how long until it is on disk\n");
    printf("  %-44s %8s %11s %11s\n", "", "jobs/s", "p50 us", "p99 us");
    measure(bench, &load, 1, calls);
    measure(bench, &load, CALLERS_MAX, calls);
    load_release(&load);
    scratch_remove(SCRATCH_ENGINE);
}
