/* dispatch: what the three files that dispatch jobs share.
 *
 *     need.c         what a job asks of a worker, read once for each attempt
 *     dispatch.c     jobs and workers are brought together
 *     unassigned.c   jobs that nobody took in time fail, with the reason */
#ifndef LAZARET_ENGINE_DISPATCH_H
#define LAZARET_ENGINE_DISPATCH_H

#include "engine/internal.h"
#include "engine/workers.h"

/* ---- needs ----------------------------------------------------------------------------------- */

/* struct need: what a job asks of a worker on its next attempt, beside its queue and its required
 * capabilities, which the store knows by number. */
struct need {
    double min;         /* the share of the required capabilities that suffices */
    struct slice avoid; /* the worker that failed it last in this round; empty: none */
    struct slice scope; /* scope_lock; empty: none */
    struct match_list permissions;
};

/* need_get finds what was read before for this attempt, or reads it.  It is good until the next
 * need_get. */
enum status need_get(struct engine *engine, const struct job *job, const struct need **out,
                     struct err *err);

/* need_read reads it into `arena`, and the envelope with it. */
enum status need_read(struct engine *engine, const struct job *job, struct arena *arena,
                      struct need *out, struct envelope *envelope, struct err *err);

/* ---- crowds ---------------------------------------------------------------------------------- */

/* struct candidate: a worker that may get a job. */
struct candidate {
    struct worker *worker;       /* NULL: it asks at another server */
    struct worker_claim claim;   /* of its lease, or what is known of it */
    struct lease_command *lease; /* that asks; NULL: it does not ask now */
    bool awaited;                /* a job is held for it */
};

/* struct fit: how a candidate fits a lane. */
struct fit {
    bool known;  /* the rest was computed */
    bool serves; /* it takes jobs of the queue */
    struct match_share share;
};

/* struct lane_fit: a queue and a set of required capabilities, by their numbers, and how each
 * candidate fits. */
struct lane_fit {
    uint32_t queue, capabilities;
    struct fit *fits; /* by candidate; NULL: not in use */
};

#define CROWD_LANES 64 /* lanes whose fits are kept; others take the place of the oldest */

/* struct crowd: the candidates of one look, in the batch's arena. */
struct crowd {
    struct engine *engine;
    struct candidate *candidates; /* first those that ask, in the order in which they came */
    size_t count;
    size_t asking;
    struct lane_fit lanes[CROWD_LANES];
    size_t lane_next;
};

/* crowd_gather gathers every live worker; with_asking also who asks: the leases of the batch and
 * the parked ones; without, also those of other servers. */
enum status crowd_gather(struct engine *engine, bool with_asking, struct command *batch,
                         struct crowd *out, struct err *err);

/* crowd_lane is the lane of a job; NULL when memory is exhausted. */
struct lane_fit *crowd_lane(struct crowd *crowd, uint32_t queue, uint32_t capabilities);

/* crowd_fit is how candidate `i` fits. */
const struct fit *crowd_fit(const struct crowd *crowd, struct lane_fit *lane, size_t i);

#endif
