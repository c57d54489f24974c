/* bench: the figures that Lazaret promises, measured side by side in one run.
 *
 * Tables for people come first, as they are measured; the last line is JSON for programs.  Missing
 * a goal is a result like any other: only what could not be measured is an error. */
#include <errno.h>
#include <getopt.h>

#include "bench.h"

struct scenario {
    const char *name;
    void (*run)(struct bench *bench);
    const char *what;
};

static const struct scenario scenarios[] = {
    {"live", live_run, "memory of a million live jobs, and opening their store"},
    {"throughput", throughput_run, "enqueue, and lease and resolve, beside a bare SQLite loop"},
    {"latency", latency_run, "how long a push of one job takes"},
    {"letters", letters_run, "pages, searches, groups and stats of a million dead letters"},
};
#define SCENARIO_COUNT (sizeof(scenarios) / sizeof(scenarios[0]))

static void usage(FILE *out)
{
    fputs("usage: bench [--quick] [--only NAME] [--json FILE]\n\n"
          "  --quick       small sizes: shows that everything works, in a few seconds\n"
          "  --only NAME   one scenario\n"
          "  --json FILE   write the line of JSON there too\n\n"
          "Files are written under $TMPDIR, else beside the program: about 4 GB, removed at the "
          "end.\n\nscenarios:\n",
          out);
    for (size_t i = 0; i < SCENARIO_COUNT; i++)
        fprintf(out, "  %-12s  %s\n", scenarios[i].name, scenarios[i].what);
}

struct options {
    bool quick;
    const char *only; /* NULL: all */
    const char *json; /* NULL: only to standard output */
};

static bool scenario_known(const char *name)
{
    for (size_t i = 0; i < SCENARIO_COUNT; i++)
        if (strcmp(name, scenarios[i].name) == 0)
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
    if (optind < argc || (out->only && !scenario_known(out->only))) {
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

int main(int argc, char **argv)
{
    static struct report report;
    struct options options = {0};
    options_read(argc, argv, &options);
    report.judges = !options.quick;
    struct bench bench = {.report = &report, .quick = options.quick};
    scratch_open();
    for (size_t i = 0; i < SCENARIO_COUNT; i++)
        if (!options.only || strcmp(options.only, scenarios[i].name) == 0)
            scenarios[i].run(&bench);
    scratch_close();
    write_json(&report, options.json);
    return 0;
}
