/* report: what was measured, for people as it comes and for programs at the end. */
#ifndef LAZARET_BENCH_REPORT_H
#define LAZARET_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define REPORT_NAME_MAX 64
#define REPORT_ENTRIES_MAX 512

enum goal_kind { GOAL_NONE, GOAL_AT_LEAST, GOAL_AT_MOST };

/* struct goal: what a number ought to be. */
struct goal {
    enum goal_kind kind;
    double bound;
};

struct report_entry {
    char name[REPORT_NAME_MAX];
    double value;
    struct goal goal;
    bool ratio; /* of two things measured side by side; else a figure of this machine */
};

struct report {
    struct report_entry entries[REPORT_ENTRIES_MAX];
    size_t count;
    bool judges; /* whether the sizes are those that the goals are for */
};

/* report_ratio and report_figure keep a number under a name.  They return what to print beside it:
 * "ok" or "MISSED" for a number with a goal, else "". */
const char *report_ratio(struct report *report, double value, struct goal goal, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));
const char *report_figure(struct report *report, double value, struct goal goal, const char *format,
                          ...) __attribute__((format(printf, 4, 5)));

/* report_print appends one line of JSON: {"ratios":{...},"figures":{...},"missed":[...]}. */
void report_print(const struct report *report, struct buf *out);

/* thousands writes a whole number with commas: "1,234,567". */
#define THOUSANDS_SIZE 32
const char *thousands(double value, char out[THOUSANDS_SIZE]);

#endif
