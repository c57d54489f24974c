/* sim: runs seeded histories, and replays one from its seed.
 *
 *     sim [--seed S] [--count N] [--steps M] [--twice] [--break sync|write|rot] [-v]
 *
 * Exit 0 when every history holds; 1, with the seed and how to replay it, at the first that does
 * not.  With --break the disk lies, and the exit codes are the other way round: a simulator that
 * does not notice has failed. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/history.h"

#define STEPS_DEFAULT 70
#define BREAK_COUNT_DEFAULT 200 /* histories within which a lying disk must be found out */

struct options {
    uint64_t seed, count;
    unsigned steps;
    bool twice;   /* run each history twice and compare the traces */
    bool verbose; /* print the trace */
    enum disk_lie lie;
};

static const char *const lies[DISK_LIE_COUNT] = {
    [DISK_LIES_SYNC] = "sync",
    [DISK_LIES_WRITE] = "write",
    [DISK_LIES_ROT] = "rot",
};

static void usage(void)
{
    fprintf(stderr, "usage: sim [--seed S] [--count N] [--steps M] [--twice] "
                    "[--break sync|write|rot] [-v]\n");
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0')
        usage();
    return value;
}

static enum disk_lie lie_named(const char *text)
{
    for (int lie = DISK_HONEST + 1; lie < DISK_LIE_COUNT; lie++)
        if (strcmp(text, lies[lie]) == 0)
            return (enum disk_lie)lie;
    usage();
    return DISK_HONEST;
}

static struct options parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},  {"count", required_argument, NULL, 'c'},
        {"steps", required_argument, NULL, 'm'}, {"twice", no_argument, NULL, 't'},
        {"break", required_argument, NULL, 'b'}, {NULL, 0, NULL, 0},
    };
    struct options options = {.seed = 1, .count = 0, .steps = STEPS_DEFAULT};
    int option;

    while ((option = getopt_long(argc, argv, "v", known, NULL)) != -1) {
        switch (option) {
        case 's':
            options.seed = number(optarg);
            break;
        case 'c':
            options.count = number(optarg);
            break;
        case 'm':
            options.steps = (unsigned)number(optarg);
            break;
        case 't':
            options.twice = true;
            break;
        case 'b':
            options.lie = lie_named(optarg);
            break;
        case 'v':
            options.verbose = true;
            break;
        default:
            usage();
        }
    }
    if (optind != argc)
        usage();
    if (!options.count)
        options.count = options.lie ? BREAK_COUNT_DEFAULT : 1;
    return options;
}

static void print_failure(const char *program, uint64_t seed, const struct options *options,
                          const struct history_report *report)
{
    fprintf(stderr, "sim: seed %" PRIu64 " fails in step %u: %s\n", seed, report->step,
            report->violation);
    fprintf(stderr, "sim: replay it with: %s --seed %" PRIu64 " --steps %u%s%s -v\n", program, seed,
            options->steps, options->lie ? " --break " : "",
            options->lie ? lies[options->lie] : "");
}

/* run_seed runs one history; false when it does not hold. */
static bool run_seed(const char *program, uint64_t seed, const struct options *options,
                     struct history_report *sum)
{
    struct history_report report =
        history_run(seed, options->steps, options->verbose, options->lie);

    sum->crashes += report.crashes;
    sum->commands += report.commands;
    sum->faults += report.faults;
    if (options->twice && report.passed) {
        struct history_report again =
            history_run(seed, options->steps, options->verbose, options->lie);

        if (again.trace_hash != report.trace_hash) {
            report.passed = false;
            snprintf(report.violation, sizeof(report.violation),
                     "two runs of one seed are not the same");
        }
    }
    if (!report.passed)
        print_failure(program, seed, options, &report);
    return report.passed;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct history_report sum = {0};
    uint64_t done = 0;
    bool passed = true;

    while (passed && done < options.count)
        passed = run_seed(argv[0], options.seed + done++, &options, &sum);
    printf("%" PRIu64 " histories, %" PRIu64 " crashes, %" PRIu64 " commands, %" PRIu64 " faults\n",
           done, sum.crashes, sum.commands, sum.faults);
    if (options.lie) {
        fprintf(stderr, "sim: the disk lied, and that was %s\n",
                passed ? "NOT noticed" : "noticed");
        return passed ? 1 : 0;
    }
    return passed ? 0 : 1;
}
