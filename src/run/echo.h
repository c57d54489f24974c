/* echo: what a command writes is passed on to our own standard output and error, as it comes.
 *
 * The loop must not wait for whoever reads there: heartbeats would stop with a terminal that is
 * held.  So a reader is given a moment to catch up (ECHO_PATIENCE_MS), and after that, until it
 * reads again, what comes is left out.  How much that was is said in its place.  A reader that is
 * gone is not written to any more. */
#ifndef LAZARET_RUN_ECHO_H
#define LAZARET_RUN_ECHO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define ECHO_PATIENCE_MS 1000

struct echo_stream {
    int fd;
    bool stalled;    /* nobody reads at the moment */
    bool gone;       /* nobody will */
    uint64_t missed; /* bytes that were left out and not told of yet */
};

struct echo {
    struct echo_stream out, err;
};

/* echo_init passes standard output on to `out` and standard error to `err`; both stay the caller's.
 * SIGPIPE must be ignored (process_start does that). */
void echo_init(struct echo *echo, int out, int err);

/* echo_add passes bytes on. */
void echo_add(struct echo_stream *stream, struct slice bytes);

#endif
