/* event: one line of the evidence, chained to the one before it by hash.
 *
 * hash(n) = SHA-256( hash(n-1) || seq || at || job || previous || len(actor) actor || len(what)
 * what || len(why) why ), numbers as 8 bytes big-endian; hash(0) is 32 zero bytes. So an event that
 * was changed, removed, put in or moved does not fit, and `audit verify` names it. */
#ifndef LAZARET_CORE_EVENT_H
#define LAZARET_CORE_EVENT_H

#include <stdint.h>

#include "base/hash.h"
#include "base/slice.h"
#include "base/time.h"

struct event {
    int64_t seq;          /* 1, 2, 3, ... without a gap */
    struct instant at;    /* time of day */
    struct slice actor;   /* who: "worker:w1", "human:ada", "engine" */
    int64_t job_seq;      /* which job; 0: none (a queue, a policy) */
    int64_t previous_seq; /* the job's event before this one; 0: none */
    struct slice what;    /* EVENT_* below */
    struct slice why;     /* a JSON object: the facts */
    struct hash hash;
};

/* The end of a job (completed, cancelled) also names the letter that was held for it, in `dlq_id`,
 * what that is from then on, in `letter`, and `by` whom. */
#define EVENT_PUSHED "pushed"
#define EVENT_LEASED "leased"
#define EVENT_STARTED "started"
#define EVENT_RELEASED "released"
#define EVENT_COMPLETED "completed"
#define EVENT_RETRY_SCHEDULED "retry-scheduled"
#define EVENT_DEAD_LETTERED "dead-lettered"
#define EVENT_CANCEL_WANTED "cancel-requested"
#define EVENT_CANCELLED "cancelled"
#define EVENT_REQUEUED "requeued"
#define EVENT_DISCARDED "discarded"
#define EVENT_ROLLED_BACK "rolled-back"
#define EVENT_ESCALATED "escalated"
#define EVENT_RESTORED "restored"
#define EVENT_IMPORTED "imported"
#define EVENT_PURGED "purged"
#define EVENT_QUEUE_PAUSED "queue-paused"
#define EVENT_QUEUE_RESUMED "queue-resumed"
#define EVENT_POLICY_SET "policy-set"
#define EVENT_GROUP_SET "group-set"
#define EVENT_CLOCK_JUMPED "clock-jumped"
/* A letter from elsewhere was not published: it is tried again (`next_retry_at`) or dead as before.
 * Another program said what became of a letter. */
#define EVENT_REPLAY_FAILED "replay-failed"
#define EVENT_SETTLED_ELSEWHERE "settled-elsewhere"

/* event_known says whether `what` is one of these. */
bool event_known(struct slice what);

/* event_hash is the hash of an event, by the formula above.  `event->hash` is not read. */
struct hash event_hash(const struct event *event, struct hash previous);

#endif
