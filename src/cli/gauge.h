/* gauge: how far a run is, as one line of parts.
 *
 *     142/200 done · 3 running · 2 retrying · 5 quarantined · 48/s · ETA 1s · slowest: a b.c 12s
 *
 * The rate is that of the last seconds, so that it follows a run that becomes faster or slower;
 * when too little ended in them to say, it is that of the whole run. */
#ifndef LAZARET_CLI_GAUGE_H
#define LAZARET_CLI_GAUGE_H

#include "base/buf.h"
#include "cli/out.h"
#include "crew/watch.h"

#define GAUGE_SAMPLES 16
#define GAUGE_RATE_SIZE 32

/* struct gauge: `{0}` has seen nothing. */
struct gauge {
    struct gauge_sample {
        struct span at; /* since the run began */
        int64_t ended;
    } samples[GAUGE_SAMPLES]; /* a ring: a few seconds of the past */
    size_t next;              /* where the next sample goes */
    size_t count;
    struct gauge_sample newest;
};

/* gauge_ended is how many have come to an end, whatever end, in this run. */
int64_t gauge_ended(const struct watch_counts *counts);

/* gauge_left is how many of those that are known have not. */
int64_t gauge_left(const struct watch_counts *counts);

/* gauge_see takes notice of where the run is. */
void gauge_see(struct gauge *gauge, const struct watch_counts *counts);

/* gauge_rate is how many end in a second; 0: that is not known. */
double gauge_rate(const struct gauge *gauge);

/* gauge_rate_text writes "48/s", "2.5/s", "12/min" or "3/h". */
const char *gauge_rate_text(double rate, char out[GAUGE_RATE_SIZE]);

/* gauge_print appends the line, at most `columns` wide: parts that have no room go, the least
 * important first, and the slowest one's name is shortened.  Without a terminal there are commas
 * between the parts.  Nothing in it acts on a terminal but the colours of `out`. */
void gauge_print(const struct gauge *gauge, const struct watch_counts *counts,
                 const struct out *out, size_t columns, struct buf *line);

#endif
