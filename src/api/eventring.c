/* eventring: see eventring.h. */
#include "api/eventring.h"

#include "base/mem.h"

/* ---- printed events -------------------------------------------------------------------------- */

static struct slice put(char **at, struct slice text)
{
    struct slice copy = {*at, text.len};
    if (text.len)
        memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

struct printed *printed_new(const struct event *event, struct slice job_id,
                            const struct redaction *redaction, struct buf *scratch)
{
    buf_clear(scratch);
    event_page_stream(event, job_id, NULL, scratch);
    size_t plain_len = scratch->len;
    if (redaction)
        event_page_stream(event, job_id, redaction, scratch);
    if (scratch->status != STATUS_OK)
        return NULL;
    struct slice plain = {scratch->ptr, plain_len};
    struct slice masked = {scratch->ptr + plain_len, scratch->len - plain_len};
    if (slice_eq(plain, masked))
        masked.len = 0;
    size_t size = sizeof(struct printed) + event->what.len + plain.len + masked.len;
    struct printed *printed = mem_alloc(size);
    if (!printed)
        return NULL;
    *printed = (struct printed){.holders = 1, .seq = event->seq, .size = size};
    char *at = printed->bytes;
    printed->what = put(&at, event->what);
    printed->plain = put(&at, plain);
    printed->masked = masked.len ? put(&at, masked) : printed->plain;
    return printed;
}

void printed_drop(struct printed *printed)
{
    if (printed && --printed->holders == 0)
        mem_free(printed);
}

/* ---- the ring -------------------------------------------------------------------------------- */

void ring_reset(struct event_ring *ring, int64_t seq)
{
    while (ring->count)
        ring_evict(ring);
    ring->base = ring->tail = seq;
}

struct printed *ring_at(const struct event_ring *ring, size_t index)
{
    BUG_ON(index >= ring->count);
    return ring->slots[(ring->first + index) % RING_EVENTS_MAX];
}

size_t ring_find(const struct event_ring *ring, int64_t seen)
{
    size_t low = 0, high = ring->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ring_at(ring, middle)->seq > seen)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool ring_has_room(const struct event_ring *ring, const struct printed *printed)
{
    if (ring->count == 0)
        return true;
    return ring->count < RING_EVENTS_MAX && ring->bytes + printed->size <= RING_BYTES_MAX;
}

void ring_evict(struct event_ring *ring)
{
    struct printed *printed = ring_at(ring, 0);
    ring->first = (ring->first + 1) % RING_EVENTS_MAX;
    ring->count--;
    ring->bytes -= printed->size;
    ring->base = printed->seq;
    printed_drop(printed);
}

void ring_add(struct event_ring *ring, struct printed *printed)
{
    BUG_ON(printed->seq <= ring->tail || !ring_has_room(ring, printed));
    ring->slots[(ring->first + ring->count) % RING_EVENTS_MAX] = printed;
    ring->count++;
    ring->bytes += printed->size;
    ring->tail = printed->seq;
}
