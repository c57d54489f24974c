/* load: jobs to push, and threads that push, lease and resolve them through the engine. */
#ifndef LAZARET_BENCH_LOAD_H
#define LAZARET_BENCH_LOAD_H

#include "base/arena.h"
#include "core/uuid.h"
#include "engine/engine.h"

#define LOAD_ACTOR "worker:bench"
#define LOAD_WORKER "bench-worker-1"
#define LOAD_RESULT "{\"delivered\":true}"

/* struct shape: which envelopes.  `{0}` but for the count and the size is the common case. */
struct shape {
    size_t count;
    size_t body_bytes; /* of each envelope: 100 or more */
    bool keys;         /* each has an idempotency_key and a retry_key of its own */
    size_t first;      /* number of the first: keys are made of it */
};

/* struct load: envelopes as they come off a wire, and the ids that jobs would get. */
struct load {
    size_t count;
    size_t body_bytes;
    struct slice *bodies;
    char (*ids)[UUID_TEXT_LEN + 1];
    struct arena arena; /* of the bodies */
};

void load_init(struct load *load, const struct shape *shape);
void load_release(struct load *load);

/* struct part: some of the envelopes of a load. */
struct part {
    size_t from, count;
};

/* struct outcome: how long it took, and how. */
struct outcome {
    double seconds;
    double cpu_seconds; /* of the whole process, parsing included */
    double commits;
    double bytes; /* that went to the disk */
};
void outcome_add(struct outcome *sum, const struct outcome *more);

/* load_push enqueues a part of the load with `threads` threads.  Each takes `batch` envelopes at a
 * time, parses them as a network thread would, hands them over as one command and waits for the
 * answer.  So with one thread nothing overlaps, and every commit has exactly `batch` jobs. */
struct outcome load_push(struct engine *engine, const struct load *load, struct part part,
                         size_t batch, size_t threads);

/* load_drain leases and resolves `count` jobs, which must be there: each thread takes `batch` jobs
 * with one command and completes them with the next. */
struct outcome load_drain(struct engine *engine, size_t count, size_t batch, size_t threads);

#endif
