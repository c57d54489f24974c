/* eventring: the last printed events, in order, for everybody who follows them.
 *
 *     base |  first ... last  | tail          base < seq of the first, seq of the last <= tail
 *
 * All events with base < seq <= tail are in it.  A follower is a number: the seq that it has seen.
 * It has lost nothing as long as that is not below `base`.  The ring is bounded in events and in
 * bytes; a single event that is larger than it may be is alone in it.  Whoever reads a text of it
 * holds it, and may finish after the ring has let go.  The caller has a lock. */
#ifndef LAZARET_API_EVENTRING_H
#define LAZARET_API_EVENTRING_H

#include "api/eventpage.h"

#define RING_EVENTS_MAX 8192
#define RING_BYTES_MAX (4u << 20)

/* struct printed: an event as streams write it. */
struct printed {
    size_t holders;
    int64_t seq;
    struct slice what;
    struct slice plain;
    struct slice masked; /* what a masked reader gets; the same bytes where nothing is masked */
    size_t size;         /* of all of it */
    char bytes[];        /* what the slices point to */
};

/* printed_new prints an event, held once.  `scratch` is memory to print into.  NULL when memory is
 * exhausted. */
struct printed *printed_new(const struct event *event, struct slice job_id,
                            const struct redaction *redaction, struct buf *scratch);

/* printed_drop lets go; the last holder frees.  NULL is fine. */
void printed_drop(struct printed *printed);

struct event_ring {
    struct printed *slots[RING_EVENTS_MAX];
    size_t first; /* the slot of the first event */
    size_t count;
    size_t bytes;
    int64_t base, tail;
};

/* ring_reset empties the ring and puts it behind event `seq`. */
void ring_reset(struct event_ring *ring, int64_t seq);

/* ring_find is the index of the first event after `seen`; ring->count: there is none. */
size_t ring_find(const struct event_ring *ring, int64_t seen);
struct printed *ring_at(const struct event_ring *ring, size_t index);

/* ring_has_room says whether the event can be added; if not, let go of the first: ring_evict. */
bool ring_has_room(const struct event_ring *ring, const struct printed *printed);
void ring_evict(struct event_ring *ring);

/* ring_add takes the caller's hold. */
void ring_add(struct event_ring *ring, struct printed *printed);

#endif
