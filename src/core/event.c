/* event: the link from one event to the next.
 *
 * Every number is 8 bytes and every text is preceded by its length, so no two events, however their
 * texts are chosen, give the same bytes to the hash. */
#include "core/event.h"

/* number_bytes writes a number big-endian; a negative one as its two's complement. */
static struct slice number_bytes(int64_t number, char out[8])
{
    uint64_t bits = (uint64_t)number;

    for (int i = 7; i >= 0; i--) {
        out[i] = (char)(uint8_t)bits;
        bits >>= 8;
    }
    return (struct slice){out, 8};
}

bool event_known(struct slice what)
{
    static const char *const names[] = {
        EVENT_PUSHED,       EVENT_LEASED,          EVENT_STARTED,           EVENT_RELEASED,
        EVENT_COMPLETED,    EVENT_RETRY_SCHEDULED, EVENT_DEAD_LETTERED,     EVENT_CANCEL_WANTED,
        EVENT_CANCELLED,    EVENT_REQUEUED,        EVENT_DISCARDED,         EVENT_ROLLED_BACK,
        EVENT_ESCALATED,    EVENT_RESTORED,        EVENT_IMPORTED,          EVENT_PURGED,
        EVENT_QUEUE_PAUSED, EVENT_QUEUE_RESUMED,   EVENT_POLICY_SET,        EVENT_GROUP_SET,
        EVENT_CLOCK_JUMPED, EVENT_REPLAY_FAILED,   EVENT_SETTLED_ELSEWHERE,
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_is(what, names[i]))
            return true;
    return false;
}

struct hash event_hash(const struct event *event, struct hash previous)
{
    char seq[8], at[8], job[8], before[8], actor_len[8], what_len[8], why_len[8];
    const struct slice parts[] = {
        {(const char *)previous.bytes, HASH_SIZE},
        number_bytes(event->seq, seq),
        number_bytes(event->at.us, at),
        number_bytes(event->job_seq, job),
        number_bytes(event->previous_seq, before),
        number_bytes((int64_t)event->actor.len, actor_len),
        event->actor,
        number_bytes((int64_t)event->what.len, what_len),
        event->what,
        number_bytes((int64_t)event->why.len, why_len),
        event->why,
    };

    return hash_sha256(parts, sizeof(parts) / sizeof(parts[0]));
}
