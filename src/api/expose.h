/* expose: the text format of Prometheus (version 0.0.4): families of samples, one a line.
 *
 *     # HELP lazaret_live_jobs Jobs that wait, are scheduled or run.
 *     # TYPE lazaret_live_jobs gauge
 *     lazaret_live_jobs 5
 */
#ifndef LAZARET_API_EXPOSE_H
#define LAZARET_API_EXPOSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define EXPOSE_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* struct expose: what is being written, and the family that its samples belong to. */
struct expose {
    struct buf *out;
    const char *name;
};

struct expose_label {
    const char *name;
    struct slice value; /* any UTF-8: it is escaped */
};

/* EXPOSE_LABELS makes the two arguments that a sample takes for its labels; EXPOSE_PLAIN are none.
 */
#define EXPOSE_LABELS(...)                                                                         \
    (const struct expose_label[]){__VA_ARGS__},                                                    \
        sizeof((const struct expose_label[]){__VA_ARGS__}) / sizeof(struct expose_label)
#define EXPOSE_PLAIN NULL, 0

/* expose_family begins a family.  `type` is "counter", "gauge" or "histogram"; `help` is one line
 * without a backslash. */
void expose_family(struct expose *expose, const char *name, const char *type, const char *help);

/* expose_int and expose_double write a sample of it. */
void expose_int(struct expose *expose, int64_t value, const struct expose_label *labels,
                size_t label_count);
void expose_double(struct expose *expose, double value, const struct expose_label *labels,
                   size_t label_count);

/* expose_histogram writes the samples of a histogram.  `counts` are for each bound, not cumulative;
 * `above` is what is above all of them. */
void expose_histogram(struct expose *expose, const double *bounds, const uint64_t *counts,
                      size_t bound_count, uint64_t above, double sum);

#endif
