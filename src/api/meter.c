/* meter: counters that any thread adds to.
 *
 * Each number is an atomic of its own and is read by itself: a scrape in the middle of a request
 * may see one of its numbers and not the other, but none that goes down.  The count of a histogram
 * is the sum of its buckets, so it always agrees with them. */
#include "api/meter.h"

#include <stdatomic.h>

#include "base/mem.h"

#define STATUS_FIRST 100
#define STATUS_COUNT_HTTP 500 /* 100 to 599 */

const double meter_bounds_seconds[METER_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                    0.1,   0.25,   0.5,   1,    5,     30};

struct meter {
    /* By route, the first is "none", and by status.  Only the pages of routes in use take memory.
     */
    atomic_uint_fast64_t requests[METER_ROUTES_MAX + 1][STATUS_COUNT_HTTP];
    atomic_uint_fast64_t seconds_le[METER_BUCKETS + 1]; /* the last: above every bound */
    atomic_uint_fast64_t us_sum;
    atomic_int_fast64_t connections, streams;
};

struct meter *meter_new(void)
{
    return mem_zalloc(sizeof(struct meter));
}

void meter_free(struct meter *meter)
{
    mem_free(meter);
}

static void add(atomic_uint_fast64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void meter_request(struct meter *meter, int route, int http_status, struct span took)
{
    BUG_ON(route < -1 || route >= METER_ROUTES_MAX);
    BUG_ON(http_status < STATUS_FIRST || http_status >= STATUS_FIRST + STATUS_COUNT_HTTP);
    int64_t us = took.us > 0 ? took.us : 0;
    size_t bucket = 0;
    while (bucket < METER_BUCKETS && (double)us > meter_bounds_seconds[bucket] * 1e6)
        bucket++;
    add(&meter->requests[route + 1][http_status - STATUS_FIRST], 1);
    add(&meter->us_sum, (uint64_t)us);
    add(&meter->seconds_le[bucket], 1);
}

void meter_connections(struct meter *meter, int change)
{
    atomic_fetch_add_explicit(&meter->connections, change, memory_order_relaxed);
}

void meter_streams(struct meter *meter, int change)
{
    atomic_fetch_add_explicit(&meter->streams, change, memory_order_relaxed);
}

void meter_walk(const struct meter *meter,
                void (*visit)(void *ctx, int route, int http_status, uint64_t count), void *ctx)
{
    for (int route = -1; route < METER_ROUTES_MAX; route++) {
        for (int i = 0; i < STATUS_COUNT_HTTP; i++) {
            uint64_t count = get(&meter->requests[route + 1][i]);
            if (count)
                visit(ctx, route, STATUS_FIRST + i, count);
        }
    }
}

void meter_read(const struct meter *meter, struct meter_numbers *out)
{
    *out = (struct meter_numbers){
        .seconds_sum = (double)get(&meter->us_sum) / 1e6,
        .connections = atomic_load_explicit(&meter->connections, memory_order_relaxed),
        .streams = atomic_load_explicit(&meter->streams, memory_order_relaxed),
    };
    out->count = get(&meter->seconds_le[METER_BUCKETS]);
    for (int i = 0; i < METER_BUCKETS; i++)
        out->count += out->seconds_le[i] = get(&meter->seconds_le[i]);
}
