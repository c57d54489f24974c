/* world: the outside world of a simulated engine: two clocks, randomness, a disk, and a trace.
 *
 * Nothing in it moves by itself: the history says when time passes, when the wall clock jumps and
 * when the power fails.  Everything that happens is a line of the trace; the same seed must give
 * the same trace, which its hash shows. */
#ifndef LAZARET_SIM_WORLD_H
#define LAZARET_SIM_WORLD_H

#include "base/seams.h"
#include "base/time.h"
#include "sim/rng.h"
#include "sim/vfs.h"

struct world {
    struct seams seams; /* what the engine is given */
    struct disk *disk;
    struct rng random;   /* what the engine draws from */
    struct instant wall; /* the time of day; may jump */
    struct span steady;  /* since the last start of the machine */
    bool verbose;        /* print the trace */
    uint64_t trace_hash; /* FNV-1a over every line */
};

/* world_init makes a world with an empty disk at a fixed time of day. */
void world_init(struct world *world, uint64_t seed);
void world_release(struct world *world);

/* world_pass lets time go by on both clocks. */
void world_pass(struct world *world, struct span span);
/* world_jump sets the time of day off, by `span`, and not the steady clock. */
void world_jump(struct world *world, struct span span);
/* world_reboot starts the machine again: the steady clock begins anew. */
void world_reboot(struct world *world);

/* world_trace adds a line to the trace. */
void world_trace(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
