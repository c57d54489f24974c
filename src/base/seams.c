/* seams: the real world: the kernel's clocks and its random bytes.
 *
 * Small requests for random bytes are served from a pool of each thread, as a system call for every
 * id would be most of its cost.  Bytes are wiped as they are handed out, and a fork makes the
 * child's pools stale, so that no two processes ever hand out the same ones. */
#include "base/seams.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/status.h"

#define POOL_SIZE 256

struct pool {
    uint8_t bytes[POOL_SIZE];
    size_t left;         /* the unused bytes are the last `left` */
    unsigned generation; /* of the process that filled it */
};

static _Thread_local struct pool pool;
static unsigned generation =
    1; /* grows by one in the child of each fork, while it has one thread */
static pthread_once_t generation_once = PTHREAD_ONCE_INIT;

static void after_fork(void)
{
    generation++;
}

static void watch_forks(void)
{
    if (pthread_atfork(NULL, NULL, after_fork) != 0)
        BUG("cannot watch for forks");
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0)
        BUG("clock %d: %s", (int)clock, strerror(errno));
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct instant real_wall(void *ctx)
{
    (void)ctx;
    return (struct instant){clock_us(CLOCK_REALTIME)};
}

static struct span real_steady(void *ctx)
{
    (void)ctx;
    return (struct span){clock_us(CLOCK_BOOTTIME)};
}

/* fill asks the kernel.  Going on without randomness would make ids collide, so it never does. */
static void fill(uint8_t *out, size_t len)
{
    while (len > 0) {
        ssize_t got = getrandom(out, len, 0);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            BUG("getrandom: %s", strerror(errno));
        }
        out += got;
        len -= (size_t)got;
    }
}

static void real_random(void *ctx, void *out, size_t len)
{
    (void)ctx;
    if (len > POOL_SIZE / 4) {
        fill(out, len);
        return;
    }

    pthread_once(&generation_once, watch_forks);
    if (pool.left < len || pool.generation != generation) {
        fill(pool.bytes, POOL_SIZE);
        pool.left = POOL_SIZE;
        pool.generation = generation;
    }
    uint8_t *from = pool.bytes + POOL_SIZE - pool.left;
    memcpy(out, from, len);
    explicit_bzero(from, len);
    pool.left -= len;
}

const struct seams *seams_real(void)
{
    static const struct seams real = {
        .wall = real_wall,
        .steady = real_steady,
        .random = real_random,
    };
    return &real;
}

uint64_t seams_random_u64(const struct seams *seams)
{
    uint64_t number;
    seams->random(seams->ctx, &number, sizeof(number));
    return number;
}
