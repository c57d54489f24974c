/* workers: who takes jobs: what each can do and may see, when it was last seen, and what it runs.
 *
 * The registry is in memory alone.  Every lease declares its worker, heartbeats and results refresh
 * it, and a worker may register without taking anything.  After a restart it fills again within a
 * poll of each worker.  It says who is there, never who holds a lease: that is in the store.
 *
 * Bounded: up to WORKERS_MAX workers and WORKERS_BYTES_MAX bytes of what they declare.  Past that
 * the one that was unseen for the longest leaves; one that holds a lease, or asks, stays. */
#ifndef LAZARET_ENGINE_WORKERS_H
#define LAZARET_ENGINE_WORKERS_H

#include "base/status.h"
#include "core/match.h"
#include "store/store.h"

#define WORKERS_MAX 10000
#define WORKERS_BYTES_MAX ((size_t)64 << 20)
#define WORKER_TTL_SECONDS 60 /* how long a worker is live after it was last seen */

/* struct worker_claim: what a worker says of itself.  Empty lists declare nothing: any queue, no
 * capability, no restriction. */
struct worker_claim {
    struct slice worker_id;
    struct match_list queues, capabilities, scopes, permissions;
};

/* struct worker: one that is known.  Read only outside of workers.c, but for `missed`. */
struct worker {
    struct worker_claim claim; /* lies in `block` */
    struct span ttl;
    struct instant seen_at;
    struct instant idle_since; /* when it last ran nothing, or came */
    uint32_t running;          /* leases that it holds, as far as they are known here */
    uint32_t asking;           /* leases that it asks for now */
    bool registered;           /* it registered itself: leases do not change what it said */
    bool missed;               /* a job was held for it, and it did not come; until it is seen */
    void *block;               /* one block of memory for all texts */
    size_t block_size;
    uint64_t digest;      /* of the claim, to see a change */
    struct worker *chain; /* the next with the same hash */
    struct worker *older; /* that was seen before it */
    struct worker *newer; /* that was seen after it */
};

struct workers;

struct workers *workers_new(void);          /* NULL when memory is exhausted */
void workers_free(struct workers *workers); /* NULL is fine */

/* workers_declare notes what a lease says of its worker, and that it asks: workers_answered ends
 * that.  What a worker registered stays as it is.  NULL when there is no room, or no memory: then
 * nothing is dispatched to it. */
struct worker *workers_declare(struct workers *workers, const struct worker_claim *claim,
                               struct instant now);

/* worker_claim_of is what holds for a lease: where it says nothing, what the worker registered. */
struct worker_claim worker_claim_of(const struct worker *worker, const struct worker_claim *claim);

/* workers_answered says that a lease was answered.  `seen`: somebody is there to have the answer.
 */
void workers_answered(struct workers *workers, struct worker *worker, bool seen,
                      struct instant now);

/* workers_register notes a worker that registers itself.  STATUS_UNAVAILABLE when there is no
 * room. */
enum status workers_register(struct workers *workers, const struct worker_claim *claim,
                             struct span ttl, struct instant now, struct worker **out,
                             struct err *err);

/* workers_find is NULL for one that is not known. */
struct worker *workers_find(const struct workers *workers, struct slice worker_id);

/* workers_seen says that a worker was heard of.  NULL is fine. */
void workers_seen(struct workers *workers, struct worker *worker, struct instant now);

/* workers_runs says that a worker holds the lease of a job: it was given it, or keeps it.  NULL is
 * fine.  Without memory it is not counted. */
void workers_runs(struct workers *workers, struct worker *worker, int64_t job_seq);

/* workers_ended says that the lease of a job ended.  `seen`: its worker said so. */
void workers_ended(struct workers *workers, int64_t job_seq, bool seen, struct instant now);

/* workers_reconcile forgets leases of jobs that do not run: the store went back to what the disk
 * says. */
void workers_reconcile(struct workers *workers, struct store *store);

/* workers_shift moves what was timed: the clock jumped. */
void workers_shift(struct workers *workers, struct span by);

/* workers_newest is the one that was seen last; `older` leads on. */
struct worker *workers_newest(const struct workers *workers);
size_t workers_count(const struct workers *workers);

/* worker_is_live: it asks, it holds a lease, or it was seen within its ttl. */
bool worker_is_live(const struct worker *worker, struct instant now);

/* worker_serves: no queues are all of them. */
bool worker_serves(struct match_list queues, struct slice queue);

#endif
