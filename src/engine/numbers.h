/* numbers: what the engine has counted since it started, for /metrics.
 *
 * Only what is on disk counts: what a batch counts is held back until its commit, and forgotten
 * when it is rolled back.  Counting never fails and allocates only for a name that is seen for the
 * first time.  Everything here belongs to the engine's thread.
 *
 * Names come from outside, so they are bounded: a metric has up to NUMBERS_NAMES_MAX of them, each
 * cut to NUMBERS_NAME_BYTES_MAX bytes.  What comes after (or finds no memory) is counted under the
 * name "other". */
#ifndef LAZARET_ENGINE_NUMBERS_H
#define LAZARET_ENGINE_NUMBERS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "base/status.h"
#include "base/time.h"
#include "store/store.h"

#define NUMBERS_NAMES_MAX 1000
#define NUMBERS_NAME_BYTES_MAX 128
#define NUMBERS_OTHER "other"
#define NUMBERS_INLINE_POLICY "inline" /* the name of a policy that stands in its envelope */

/* How an attempt ended. */
enum attempt_outcome {
    ATTEMPT_COMPLETE,
    ATTEMPT_FAILED,  /* its worker said so */
    ATTEMPT_CRASHED, /* its lease ended without a result: a lost worker, or a run that took too long
                      */
    ATTEMPT_UNASSIGNED,  /* no worker took it in time: it did not run */
    ATTEMPT_INTERRUPTED, /* its worker was cut off, and said so then or later */
    ATTEMPT_OUTCOME_COUNT
};

const char *attempt_outcome_name(enum attempt_outcome outcome);

/* struct histogram: how often a value was at most each bound. */
#define HISTOGRAM_BOUNDS_MAX 16

struct histogram {
    const int64_t *bounds; /* rising */
    size_t bound_count;
    uint64_t buckets[HISTOGRAM_BOUNDS_MAX + 1]; /* not cumulative; the last: above every bound */
    int64_t sum;
};

/* numbers_name is a name as it is counted: cut between two characters when it is too long. */
struct slice numbers_name(struct slice name);

/* ---- counting -------------------------------------------------------------------------------- */

struct numbers;

struct numbers *numbers_new(void);          /* NULL when memory is exhausted */
void numbers_free(struct numbers *numbers); /* NULL is fine */

void numbers_event(struct numbers *numbers);
void numbers_job(struct numbers *numbers); /* the batch pushed or leased a job */

/* numbers_attempt counts an attempt that ended: the batch resolved its job. */
void numbers_attempt(struct numbers *numbers, uint32_t queue, enum attempt_outcome outcome);
void numbers_retry(struct numbers *numbers, struct slice policy); /* empty: an inline one */
void numbers_death(struct numbers *numbers, struct slice reason, struct slice source);

/* numbers_commit counts what the batch did; `took` is how long its commit was. */
void numbers_commit(struct numbers *numbers, struct span took);

/* numbers_rollback forgets it. */
void numbers_rollback(struct numbers *numbers);

/* ---- reading --------------------------------------------------------------------------------- */

struct attempts_counted {
    struct slice queue;
    uint64_t by_outcome[ATTEMPT_OUTCOME_COUNT];
};

/* struct named_counted: retries by the name of a policy, or deaths by the name of a reason and the
 * source of the letter. */
struct named_counted {
    struct slice name;
    struct slice source; /* of retries: empty */
    uint64_t count;
};

/* struct numbers_report: a copy of everything that was counted and is not 0. */
struct numbers_report {
    struct attempts_counted *attempts;
    size_t attempt_count;
    struct named_counted *retries;
    size_t retry_count;
    struct named_counted *deaths;
    size_t death_count;
    uint64_t events;
    uint64_t lease_expired;       /* all attempts that crashed */
    struct histogram commit_us;   /* of every batch that was committed */
    struct histogram commit_jobs; /* jobs pushed, leased and resolved by each that did any of it */
};

/* numbers_report makes the copy; `store` knows the names of the queues. */
enum status numbers_report(const struct numbers *numbers, struct store *store, struct arena *arena,
                           struct numbers_report *out, struct err *err);

#endif
