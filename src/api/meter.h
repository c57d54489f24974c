/* meter: the numbers of a carrier: requests by route and status, how long they took, connections.
 *
 * Any thread counts, without a lock.  A route is the number that api_route_find gives; -1 is a
 * request that no route has.  A status is one of HTTP, 100 to 599. */
#ifndef LAZARET_API_METER_H
#define LAZARET_API_METER_H

#include <stdint.h>

#include "base/time.h"

#define METER_ROUTES_MAX 128 /* more than the table of routes has */

struct meter;

struct meter *meter_new(void); /* NULL when memory is exhausted */
void meter_free(struct meter *meter);

/* meter_request counts one answered request. */
void meter_request(struct meter *meter, int route, int http_status, struct span took);

/* meter_connections adds to the number of open connections; meter_streams to the event streams. */
void meter_connections(struct meter *meter, int change);
void meter_streams(struct meter *meter, int change);

/* meter_walk hands each count that is not 0 to `visit`. */
void meter_walk(const struct meter *meter,
                void (*visit)(void *ctx, int route, int http_status, uint64_t count), void *ctx);

/* struct meter_numbers: the rest.  `seconds_le[i]` counts requests of at most
 * meter_bounds_seconds[i], and above the bound before it. */
#define METER_BUCKETS 12
extern const double meter_bounds_seconds[METER_BUCKETS];
struct meter_numbers {
    uint64_t seconds_le[METER_BUCKETS]; /* not cumulative */
    uint64_t count;                     /* those above every bound included */
    double seconds_sum;
    int64_t connections, streams;
};
void meter_read(const struct meter *meter, struct meter_numbers *out);

#endif
