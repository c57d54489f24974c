/* job: the record of a live job and the table of what may follow what.
 *
 *     push --> pending --lease--> running --complete--> done
 *                ^                   |---cancel-------> cancelled
 *                |                   |---fail---------> scheduled --due--> pending
 *                |                   `---quarantine---> dead
 *                `-------------------- requeue ---------'
 *
 * A pending job that is dispatched also fails, or is quarantined, when no worker took it in time;
 * one that is claimed is quarantined.
 * Scheduled becomes pending by the passing of time alone: the event that scheduled the job recorded
 * when, so this one transition writes nothing. */
#ifndef LAZARET_CORE_JOB_H
#define LAZARET_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/time.h"

enum job_state { JOB_PENDING, JOB_SCHEDULED, JOB_RUNNING, JOB_DONE, JOB_CANCELLED, JOB_DEAD };
#define JOB_STATE_COUNT 6
#define JOB_STATE_NONE JOB_STATE_COUNT /* what an impossible transition leads to */

enum job_move {
    MOVE_DUE,        /* its time has come */
    MOVE_LEASE,      /* a worker took it */
    MOVE_RELEASE,    /* the worker gave it back unstarted: no attempt is counted */
    MOVE_COMPLETE,   /* it succeeded */
    MOVE_RETRY,      /* it failed and may be tried again */
    MOVE_QUARANTINE, /* it failed and may not */
    MOVE_CANCEL,     /* somebody cancelled it */
    MOVE_REQUEUE,    /* somebody brought it back from the quarantine */
    MOVE_COUNT
};

/* job_next is the state after `move`, or JOB_STATE_NONE when the table does not allow it. */
enum job_state job_next(enum job_state state, enum job_move move);

const char *job_state_name(enum job_state state);
bool job_state_from_name(struct slice name, enum job_state *out);
static inline bool job_is_live(enum job_state state)
{
    return state <= JOB_RUNNING;
}

/* struct job: what changes about a live job.  What never changes (its id, its keys, its payload) is
 * in its envelope, which stays on disk.  This struct is what a million live jobs cost in memory. */
struct job {
    int64_t seq;               /* its identity in the store: grows with each push */
    int64_t envelope_seq;      /* the envelope in force: an edit appends another */
    int64_t event_seq;         /* its last event: the head of a list that leads back to its push */
    uint64_t id_hash;          /* hash64 of its job_id */
    uint64_t idempotency_hash; /* hash64 of the key; 0: none */
    uint64_t retry_key_hash;   /* likewise */
    uint64_t lease_nonce;      /* running: what makes this lease's id unguessable */
    struct instant pushed_at;
    struct instant due_at; /* pending or scheduled: when it may run; running: when the lease ends */
    struct instant deadline_at; /* running: the end of max_runtime_seconds; pending or scheduled,
                                   with hints or claimed: when a worker must have it;
                                   INSTANT_NEVER: none */
    struct instant round_at; /* when the first run of this round began; a replay starts a round */
    uint32_t queue;          /* number of its queue */
    uint32_t capabilities;   /* number of its set of required capabilities; 0: none */
    uint32_t attempt;        /* runs begun in all its life */
    uint32_t attempt_base;   /* of these, runs before this round: policies count from here */
    uint16_t attempts_max;   /* a reviewer's limit for this round; 0: the policy's */
    uint32_t redrive_count;  /* how often it was brought back */
    uint8_t state;           /* enum job_state */
    uint8_t priority;        /* 0 to 9, 9 first */
    uint16_t flags;          /* JOB_* below */
};

#define JOB_STARTED 1u       /* running: the first heartbeat came */
#define JOB_CANCEL_WANTED 2u /* running: to be told at the next heartbeat */
#define JOB_RUN_AT 4u        /* due_at is a time of day that the pusher chose, not a delay */
#define JOB_HAS_LETTER 8u    /* it was dead before: the letter waits for the outcome */
#define JOB_HAS_DOCUMENT 16u /* it has a status document */
#define JOB_HAS_RUNTIME 64u  /* constraints.max_runtime_seconds: read it when leasing */
#define JOB_HAS_HINTS 128u   /* its policy has dispatch hints: read them when leasing */
#define JOB_KEY_FOREVER 32u  /* constraints.unique_forever */
#define JOB_FOREIGN 512u     /* a letter from elsewhere on its way back: see core/replay.h */
#define JOB_CLAIMED 256u /* only a lease that names it gets it, in this round; no JOB_HAS_HINTS */

#define JOB_FLAGS_ALL 1023u

#endif
