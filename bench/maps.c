/* maps: `lazaret map` over many items: its speed beside xargs and GNU parallel, its memory, and how
 * soon the first command runs.
 *
 * Speed: the items are lines of a file, and the command is /bin/true with the item as its argument,
 * so that nothing is measured but the running itself.  Each program gets as many commands at a time
 * as there are processors.  They run in turns, twice each, and the better run of each counts: what
 * else the machine does can only make one slower.  Lazaret begins with an empty data directory, and
 * afterwards its store is asked whether every item is done.
 *
 * Memory: the only command that runs sleeps, so that all items are live when the last one is in the
 * store.  The peak of the process is read twice, both times with SQLite's page cache (64 MB) full,
 * and its growth is divided by the items that came in between.
 *
 * The first command makes a file, which is looked for every millisecond. */
#include "bench.h"
#include "process.h"
#include "talk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <unistd.h>

#define ROUNDS_MAX 2
#define WAIT_MS_MAX 600000 /* for something that must come */
#define POLL_MS 50         /* between two questions */
#define STATUS_MAX 65536   /* bytes of what `lazaret status` prints */
#define STREAM_BYTES 16384 /* of lines that are written at a time */
#define NUMBER_SIZE 24

/* ---- items -------------------------------------------------------------------------------------
 */

/* items_write makes a file of `count` lines, in a folder that is removed by its name. */
static void items_write(size_t count, char path[PROCESS_PATH_SIZE])
{
    snprintf(path, PROCESS_PATH_SIZE, "%s/lines", scratch_folder("items"));
    FILE *file = fopen(path, "w");
    for (size_t i = 1; file && i <= count; i++)
        fprintf(file, "%zu\n", i);
    if (!file || ferror(file) || fclose(file) != 0)
        bench_die("%s: %s", path, strerror(errno));
}

/* struct stream: lines for the standard input of a program. */
struct stream {
    int fd;       /* it does not wait */
    size_t next;  /* number of the next line */
    size_t count; /* number of the last one, for the time being */
    char text[STREAM_BYTES];
    size_t len, sent; /* of `text` */
};

static void stream_init(struct stream *stream, const struct process *process, size_t count)
{
    *stream = (struct stream){.fd = process->in, .next = 1, .count = count};
    if (fcntl(process->in, F_SETFL, O_NONBLOCK) != 0)
        bench_die("fcntl: %s", strerror(errno));
}

static void stream_fill(struct stream *stream)
{
    stream->len = stream->sent = 0;
    while (stream->next <= stream->count && stream->len + NUMBER_SIZE < sizeof(stream->text))
        stream->len +=
            (size_t)snprintf(stream->text + stream->len, NUMBER_SIZE, "%zu\n", stream->next++);
}

/* stream_write writes what there is room for; true when all lines are written. */
static bool stream_write(struct stream *stream)
{
    for (;;) {
        if (stream->sent == stream->len)
            stream_fill(stream);
        if (stream->len == 0)
            return true;
        ssize_t n = write(stream->fd, stream->text + stream->sent, stream->len - stream->sent);
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0 && errno != EINTR)
            bench_die("lazaret map does not read its items: %s", strerror(errno));
        stream->sent += n > 0 ? (size_t)n : 0;
    }
}

/* struct states: what a store says of its jobs. */
struct states {
    size_t live, done;
};

/* ask_states asks the store in a data directory, or the process that owns it. */
static struct states ask_states(const char *data)
{
    static char line[STATUS_MAX];
    struct process status;
    struct process_usage usage;
    lazaret_run(&status, "status",
                (const char *[]){NULL, "status", "--data", data, "-o", "json", NULL});
    process_line(&status, line, sizeof(line));
    process_wait(&status, &usage);
    struct slice answer = slice_of(line);
    if (!skip_to(&answer, "\"live\":"))
        bench_die("lazaret status does not say what is live: %.300s", line);
    return (struct states){.live = number_of(slice_of(line), "\"live\":"),
                           .done = number_of(slice_of(line), "\"done\":")};
}

/* ---- speed -------------------------------------------------------------------------------------
 */

/* struct runner: one of those that are compared. */
struct runner {
    const char *name;
    char path[PROCESS_PATH_SIZE]; /* of a peer's program; empty: it is not measured */
    char shown[64];               /* how it is called */
    struct process_usage best;
};

enum { XARGS, LAZARET, PARALLEL, RUNNER_COUNT };

/* struct race: what they are to do. */
struct race {
    size_t count;
    char items[PROCESS_PATH_SIZE];
    char width[NUMBER_SIZE]; /* commands at a time */
    struct runner runners[RUNNER_COUNT];
};

/* runner_init says how one of them is called; its program is looked for when it has one. */
static void runner_init(struct runner *runner, const char *name, bool find, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void runner_init(struct runner *runner, const char *name, bool find, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *runner = (struct runner){.name = name};
    vsnprintf(runner->shown, sizeof(runner->shown), format, args);
    va_end(args);
    if (find && !process_find(name, runner->path))
        runner->path[0] = '\0';
}

static void race_init(struct race *race, bool quick)
{
    *race = (struct race){.count = quick ? 200 : 10000};
    snprintf(race->width, sizeof(race->width), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    runner_init(&race->runners[XARGS], "xargs", true, "xargs -P%s -n1 -a ITEMS /bin/true",
                race->width);
    runner_init(&race->runners[LAZARET], "lazaret", false,
                "lazaret map --parallel %s -- /bin/true {}", race->width);
    runner_init(&race->runners[PARALLEL], "parallel", !quick,
                "parallel --will-cite -j%s -a ITEMS /bin/true", race->width);
    items_write(race->count, race->items);
}

static void run_xargs(const struct race *race, struct process_usage *out)
{
    struct process xargs;
    process_run(&xargs, "xargs",
                (const char *[]){race->runners[XARGS].path, "-P", race->width, "-n1", "-a",
                                 race->items, "/bin/true", NULL});
    process_wait(&xargs, out);
}

static void run_parallel(const struct race *race, struct process_usage *out)
{
    struct process parallel;
    /* It keeps files of its own, which are to go with the rest. */
    setenv("PARALLEL_HOME", scratch_folder("parallel-home"), 1);
    process_run(&parallel, "parallel",
                (const char *[]){race->runners[PARALLEL].path, "--will-cite", "-j", race->width,
                                 "-a", race->items, "/bin/true", NULL});
    process_wait(&parallel, out);
    scratch_folder_remove("parallel-home");
}

static void run_lazaret(const struct race *race, struct process_usage *out)
{
    struct process map;
    char data[PROCESS_PATH_SIZE];
    snprintf(data, sizeof(data), "%s", scratch_folder("data"));
    lazaret_run(&map, "map",
                (const char *[]){NULL, "map", "--data", data, "--parallel", race->width, "--input",
                                 race->items, "--", "/bin/true", "{}", NULL});
    process_wait(&map, out);
    struct states states = ask_states(data);
    if (states.done != race->count || states.live != 0)
        bench_die("%zu items are done and %zu live, of %zu", states.done, states.live, race->count);
    scratch_folder_remove("data");
}

/* race_round has each of them run once, and keeps what is better than before. */
static void race_round(struct race *race)
{
    static void (*const run[])(const struct race *, struct process_usage *) = {
        [XARGS] = run_xargs, [LAZARET] = run_lazaret, [PARALLEL] = run_parallel};
    for (int i = 0; i < RUNNER_COUNT; i++) {
        struct runner *runner = &race->runners[i];
        struct process_usage usage;
        if (!runner->path[0] && i != LAZARET)
            continue;
        bench_progress("%s", runner->shown);
        run[i](race, &usage);
        if (runner->best.seconds == 0 || usage.seconds < runner->best.seconds)
            runner->best = usage;
    }
}

static void report_runner(struct bench *bench, const struct runner *runner, size_t count)
{
    const struct process_usage *best = &runner->best;
    struct goal none = {0};
    char rate[THOUSANDS_SIZE];
    double items = (double)count;
    report_figure(bench->report, best->seconds, none, "map_true_%s_s", runner->name);
    report_figure(bench->report, best->own_seconds * 1e6 / items, none, "map_true_%s_own_us",
                  runner->name);
    report_figure(bench->report, best->commands_seconds * 1e6 / items, none,
                  "map_true_%s_commands_us", runner->name);
    printf("  %-48s %7.2f %9s %9.0f %9.0f\n", runner->shown, best->seconds,
           thousands(items / best->seconds, rate), best->own_seconds * 1e6 / items,
           best->commands_seconds * 1e6 / items);
}

/* report_race compares Lazaret with another one, by time and by what it used of the processors. */
static void report_race(struct bench *bench, const struct race *race, int peer, double bound)
{
    const struct runner *runner = &race->runners[peer];
    const struct process_usage *ours = &race->runners[LAZARET].best, *theirs = &runner->best;
    if (!runner->path[0])
        return;
    double ratio = ours->seconds / theirs->seconds;
    double cpu = (ours->own_seconds + ours->commands_seconds) /
                 (theirs->own_seconds + theirs->commands_seconds);
    const char *verdict = report_ratio(bench->report, ratio, (struct goal){GOAL_AT_MOST, bound},
                                       "map_to_%s", runner->name);
    report_ratio(bench->report, cpu, (struct goal){0}, "map_to_%s_cpu", runner->name);
    printf("  time of lazaret to that of %-21s %7.2f  goal <= %.1f  %s  (by CPU time %.2f)\n",
           runner->name, ratio, bound, verdict, cpu);
}

void map_true_run(struct bench *bench)
{
    static struct race race;
    char text[THOUSANDS_SIZE];
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;
    race_init(&race, bench->quick);
    printf("\n%s items of /bin/true, the better of %zu run%s each, in turns\n",
           thousands((double)race.count, text), rounds, rounds == 1 ? "" : "s");
    for (size_t round = 0; round < rounds; round++)
        race_round(&race);
    scratch_folder_remove("items");
    printf("  %-48s %7s %9s %9s %9s\n", "", "", "", "own CPU", "commands");
    printf("  %-48s %7s %9s %9s %9s\n", "", "seconds", "items/s", "us/item", "us/item");
    for (int i = 0; i < RUNNER_COUNT; i++)
        if (race.runners[i].best.seconds > 0)
            report_runner(bench, &race.runners[i], race.count);
    report_race(bench, &race, XARGS, 1.3);
    report_race(bench, &race, PARALLEL, 0.5);
    double peak = (double)race.runners[LAZARET].best.peak_bytes / 1e6;
    report_figure(bench->report, peak, (struct goal){0}, "map_true_lazaret_peak_mb");
    printf("  peak memory of lazaret: %.1f MB; every item was done in its store\n", peak);
    fflush(stdout);
}

/* ---- a run that waits --------------------------------------------------------------------------
 */

/* struct sleeper: a map whose only command makes a file, the marker, and sleeps. */
struct sleeper {
    struct process map;
    struct stream stream; /* its items, when they come from standard input */
    char data[PROCESS_PATH_SIZE];
    char marker[PROCESS_PATH_SIZE + 16];
};

static void sleeper_start(struct sleeper *sleeper, const char *input, size_t streamed)
{
    snprintf(sleeper->data, sizeof(sleeper->data), "%s", scratch_folder("data"));
    snprintf(sleeper->marker, sizeof(sleeper->marker), "%s/marker", sleeper->data);
    lazaret_run(&sleeper->map, "map",
                (const char *[]){NULL, "map", "--data", sleeper->data, "--parallel", "1", "--input",
                                 input, "--", "sh", "-c", ": >\"$0\"; exec sleep 100000",
                                 sleeper->marker, NULL});
    stream_init(&sleeper->stream, &sleeper->map, streamed);
}

/* sleeper_wait writes items until the command runs. */
static void sleeper_wait(struct sleeper *sleeper)
{
    for (int waited = 0; access(sleeper->marker, F_OK) != 0; waited++) {
        if (waited == WAIT_MS_MAX || !process_alive(&sleeper->map))
            process_die(&sleeper->map, "ran no command");
        stream_write(&sleeper->stream);
        poll(NULL, 0, 1);
    }
}

static void sleeper_kill(struct sleeper *sleeper)
{
    process_kill(&sleeper->map);
    scratch_folder_remove("data");
}

/* ---- memory ------------------------------------------------------------------------------------
 */

/* peak_with writes items up to number `count`, waits until the store has them all, and returns the
 * peak of the process. */
static double peak_with(struct sleeper *sleeper, size_t count)
{
    sleeper->stream.count = count;
    sleeper_wait(sleeper); /* before it runs a command, its store may not be there */
    for (int waited = 0; waited < WAIT_MS_MAX && process_alive(&sleeper->map); waited += POLL_MS) {
        bool written = stream_write(&sleeper->stream);
        if (written && ask_states(sleeper->data).live == count)
            return (double)process_peak_bytes(&sleeper->map);
        poll(&(struct pollfd){.fd = written ? -1 : sleeper->stream.fd, .events = POLLOUT}, 1,
             POLL_MS);
    }
    process_die(&sleeper->map, "did not put all items into its store");
}

static void report_peak(struct bench *bench, size_t count, const char *name, double bytes)
{
    char text[THOUSANDS_SIZE];
    report_figure(bench->report, bytes / 1e6, (struct goal){0}, "map_peak_%s_mb", name);
    printf("  %-58s %7.1f MB\n", thousands((double)count, text), bytes / 1e6);
}

void map_memory_run(struct bench *bench)
{
    static struct sleeper sleeper;
    size_t few = bench->quick ? 200 : 200000, many = bench->quick ? 2000 : 1000000;
    printf("\npeak memory of lazaret map, by items that wait\n");
    bench_progress("map: %zu items that wait", many);
    sleeper_start(&sleeper, "-", few);
    double first = peak_with(&sleeper, few), last = peak_with(&sleeper, many);
    sleeper_kill(&sleeper);
    report_peak(bench, few, "few", first);
    report_peak(bench, many, "many", last);
    double growth = (last - first) / (double)(many - few);
    struct goal goal = {GOAL_AT_MOST, 256};
    const char *verdict = report_figure(bench->report, growth, goal, "map_memory_an_item");
    printf("  %-58s %7.0f bytes  goal <= 256  %s\n", "growth for each item from one to the other",
           growth, verdict);
    fflush(stdout);
}

/* ---- the first command -------------------------------------------------------------------------
 */

/* first_command is the time from the start, or from the first line of a stream, until a command
 * runs. */
static double first_command(const char *input, size_t streamed)
{
    static struct sleeper sleeper;
    sleeper_start(&sleeper, input, streamed);
    int64_t start = streamed ? clock_ns() : sleeper.map.started_ns;
    sleeper_wait(&sleeper);
    double seconds = (double)(clock_ns() - start) / 1e9;
    sleeper_kill(&sleeper);
    return seconds;
}

static void report_start(struct bench *bench, const char *name, const char *shown, double seconds)
{
    struct goal goal = {GOAL_AT_MOST, 2};
    const char *verdict = report_figure(bench->report, seconds, goal, "map_start_%s_s", name);
    printf("  %-58s %7.2f s  goal <= 2  %s\n", shown, seconds, verdict);
    fflush(stdout);
}

void map_start_run(struct bench *bench)
{
    size_t count = bench->quick ? 2000 : 1000000;
    char items[PROCESS_PATH_SIZE], text[THOUSANDS_SIZE];
    items_write(count, items);
    printf("\nthe first command of %s items\n", thousands((double)count, text));
    report_start(bench, "file", "from a file: after the start of the program",
                 first_command(items, 0));
    report_start(bench, "stream", "from standard input: after the first line was written",
                 first_command("-", count));
    scratch_folder_remove("items");
}
