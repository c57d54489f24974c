/* bench: the figures that Lazaret promises, measured side by side in one run.
 *
 * Tables for people come first, as they are measured; the last line is JSON for programs.  Missing
 * a goal is a result like any other: only what could not be measured is an error. */
#include <errno.h>
#include <getopt.h>

#include "bench.h"

struct scenario {
    const char *part; /* what it is of: the parts that the usage names */
    const char *name;
    void (*run)(struct bench *bench);
    const char *what;
};

static const struct scenario scenarios[] = {
    {"engine", "live", live_run, "memory of a million live jobs, and opening their store"},
    {"engine", "throughput", throughput_run,
     "enqueue, and lease and resolve, beside a bare SQLite loop"},
    {"engine", "latency", latency_run, "how long a push of one job takes"},
    {"engine", "letters", letters_run,
     "pages, searches, groups and stats of a million dead letters"},
    {"http", "posts", posts_run, "single jobs over HTTP, beside beanstalkd"},
    {"http", "batches", batches_run, "batches over HTTP, beside the engine without a server"},
    {"http", "lifecycle", lifecycle_run, "whole lives of jobs over HTTP, beside BullMQ"},
    {"http", "waiting", waiting_run, "long polls, and connections that do nothing"},
    {"map", "map_true", map_true_run, "items of /bin/true, beside xargs and GNU parallel"},
    {"map", "map_memory", map_memory_run, "memory of a million items that wait"},
    {"map", "map_start", map_start_run, "a million items: how soon the first command runs"},
    {"deliveries", "deliver", deliveries_run,
     "receipts to an endpoint, beside a bare libcurl loop"},
    {"deliveries", "dead_host", dead_host_run, "a hundred hosts, with and without a dead one"},
    {"postgres", "one", postgres_one_run,
     "lives of single jobs on PostgreSQL, beside graphile-worker and pg-boss"},
    {"postgres", "batch", postgres_batch_run, "likewise, a hundred jobs at a time"},
    {"postgres", "two_servers", two_servers_run, "from one server to another, and both together"},
    {"nats", "ingest", ingest_run,
     "dead letters from JetStream, beside a bare consumer that only acks"},
};
#define SCENARIO_COUNT (sizeof(scenarios) / sizeof(scenarios[0]))

static void usage(FILE *out)
{
    fputs("usage: bench [PART] [--quick] [--only NAME] [--json FILE]\n\n"
          "  engine             inside the process, beside a bare SQLite loop\n"
          "  http               over HTTP, beside other servers\n"
          "  map                commands over items, beside xargs and GNU parallel\n"
          "  deliveries         receipts, beside a bare libcurl loop\n"
          "  postgres           jobs on PostgreSQL, beside other queues on it\n"
          "  nats               dead letters from JetStream, beside a bare consumer\n"
          "  --quick            small sizes: shows that everything works, in a few seconds\n"
          "  --only NAME        one scenario\n"
          "  --json FILE        write the line of JSON there too\n\n"
          "Files are written under $TMPDIR, else beside the program: about 4 GB, removed at the "
          "end.\n\nscenarios:\n",
          out);
    for (size_t i = 0; i < SCENARIO_COUNT; i++)
        fprintf(out, "  %-10s  %-12s  %s\n", scenarios[i].part, scenarios[i].name,
                scenarios[i].what);
}

struct options {
    bool quick;
    const char *part; /* NULL: all */
    const char *only; /* NULL: all */
    const char *json; /* NULL: only to standard output */
};

static bool chosen(const struct options *options, const struct scenario *scenario)
{
    return (!options->part || strcmp(options->part, scenario->part) == 0) &&
           (!options->only || strcmp(options->only, scenario->name) == 0);
}

/* options_fit says whether any scenario is chosen. */
static bool options_fit(const struct options *options)
{
    for (size_t i = 0; i < SCENARIO_COUNT; i++)
        if (chosen(options, &scenarios[i]))
            return true;
    return false;
}

/* options_read reads the command line, or ends the program with what is wrong with it. */
static void options_read(int argc, char **argv, struct options *out)
{
    static const struct option known[] = {{"quick", no_argument, NULL, 'q'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"json", required_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'q':
            out->quick = true;
            break;
        case 'o':
            out->only = optarg;
            break;
        case 'j':
            out->json = optarg;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind < argc)
        out->part = argv[optind++];
    if (optind < argc || !options_fit(out)) {
        usage(stderr);
        exit(2);
    }
}

static void write_json(const struct report *report, const char *path)
{
    struct buf line;
    struct err err = {0};
    buf_init(&line, 1 << 20);
    report_print(report, &line);
    bench_check(buf_status(&line, &err), &err, "printing");
    printf("\n%s", buf_str(&line));
    fflush(stdout);
    if (path) {
        FILE *file = fopen(path, "w");
        if (!file || fputs(buf_str(&line), file) == EOF || fclose(file) == EOF)
            bench_die("%s: %s", path, strerror(errno));
    }
    buf_release(&line);
}

/* print_load_average says whether something else was going on. */
static void print_load_average(struct report *report)
{
    double load = 0;
    if (getloadavg(&load, 1) != 1)
        return;
    report_figure(report, load, (struct goal){0}, "load_average_at_start");
    printf("load average at the start: %.2f\n", load);
}

int main(int argc, char **argv)
{
    static struct report report;
    struct options options = {0};
    options_read(argc, argv, &options);
    report.judges = !options.quick;
    struct bench bench = {.report = &report, .quick = options.quick};
    scratch_open();
    print_load_average(&report);
    for (size_t i = 0; i < SCENARIO_COUNT; i++)
        if (chosen(&options, &scenarios[i]))
            scenarios[i].run(&bench);
    scratch_close();
    write_json(&report, options.json);
    return 0;
}
