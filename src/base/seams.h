/* seams: the outside world as one struct of functions, so that a simulator can be the world.
 *
 * Everything that is not a pure function of its arguments goes through here: the clocks, randomness
 * and the disk (by the name of an SQLite VFS).  seams_real() is the world. */
#ifndef LAZARET_BASE_SEAMS_H
#define LAZARET_BASE_SEAMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct seams {
    /* wall is the time of day: what records say.  It may jump. */
    struct instant (*wall)(void *ctx);
    /* steady never jumps and goes on while the machine sleeps: what timers count by. */
    struct span (*steady)(void *ctx);
    /* random fills `out` with unpredictable bytes. */
    void (*random)(void *ctx, void *out, size_t len);
    /* vfs names the SQLite VFS for the embedded store; NULL is the default one. */
    const char *vfs;
    void *ctx;
};

const struct seams *seams_real(void);

/* seams_random_u64 is eight random bytes as a number. */
uint64_t seams_random_u64(const struct seams *seams);

#endif
