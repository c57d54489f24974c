/* rng: a small seeded generator.  The same seed gives the same numbers on every machine. */
#ifndef LAZARET_SIM_RNG_H
#define LAZARET_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

/* struct rng: the state is one number (splitmix64), so a copy of the struct is a copy of the
 * future. */
struct rng {
    uint64_t state;
};

/* rng_fork derives an independent stream: each part of the world draws from one of its own, so that
 * a change in one part does not change what the others see. */
static inline struct rng rng_fork(uint64_t seed, uint64_t stream)
{
    return (struct rng){seed * 0x9E3779B97F4A7C15u + stream * 0xD1B54A32D192ED03u + 1};
}

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = (rng->state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* rng_below is from 0 to n - 1; 0 when n is 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return n ? rng_next(rng) % n : 0;
}

/* rng_range is from `low` to `high`, both included. */
static inline int64_t rng_range(struct rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(rng, (uint64_t)(high - low) + 1);
}

/* rng_chance is true `percent` times of a hundred. */
static inline bool rng_chance(struct rng *rng, unsigned percent)
{
    return rng_below(rng, 100) < percent;
}

#endif
