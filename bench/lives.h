/* lives: jobs that are pushed, leased and completed over HTTP, by hands that push and hands that
 * work, at the same time.  Each hand is a connection with one request under way. */
#ifndef LAZARET_BENCH_LIVES_H
#define LAZARET_BENCH_LIVES_H

#include "load.h"

#define LIVES_HANDS_MAX 64
#define LIVES_BATCH_MAX 1000

/* struct lives_plan: what is to be lived through. */
struct lives_plan {
    const int *ports; /* of the servers; hands are dealt out to them in turns */
    size_t port_count;
    const struct load *load; /* envelopes, taken again and again */
    size_t jobs;
    size_t hands; /* that push, and as many that work */
    size_t batch; /* jobs of a request; 1: a push is one envelope, a result one object */
};

/* struct lives_outcome: how it went. */
struct lives_outcome {
    double seconds;            /* from the first push until the last job is done */
    double client_cpu_seconds; /* of this process */
};

/* lives_run returns when every job is done; one that is not ends the program. */
void lives_run(const struct lives_plan *plan, struct lives_outcome *out);

#endif
