/* match: which worker is the right one for a job that is dispatched.
 *
 * A job whose policy has hints is not taken by whoever asks first: it is given to the best of the
 * workers.  The hint of the attempt says how much of what the job requires a worker must have: all
 * of it ("best", "rescore"), or a share (`min_match`; "broadened": 0.7).  Everything here is pure:
 * the engine knows the workers, and gives the job away. */
#ifndef LAZARET_CORE_MATCH_H
#define LAZARET_CORE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/time.h"
#include "core/policy.h"

#define MATCH_BROADENED 0.7 /* of a "broadened" hint that does not say */

/* struct match_list: names, borrowed. */
struct match_list {
    const struct slice *names;
    size_t count;
};

bool match_list_has(struct match_list list, struct slice name);

/* match_min is the share of the required capabilities that suffices on attempt `n` (1 is the
 * first). */
double match_min(const struct policy *policy, uint32_t n);

/* struct match_share: how a worker's capabilities fit what is required. */
struct match_share {
    uint32_t has;   /* required ones that the worker has */
    uint32_t of;    /* how many are required */
    uint32_t spare; /* ones that it has and the job does not need */
};

/* match_share compares; `required` has each name once. */
struct match_share match_share(struct match_list required, struct match_list capabilities);

/* match_suffices: nothing required is always enough. */
bool match_suffices(struct match_share share, double min);

/* match_covers says whether a worker may see a job.  One that declares scopes sees only jobs whose
 * scope_lock is empty or among them; one that declares permissions only jobs that need no other. A
 * list that is empty declares nothing, and restricts nothing. */
bool match_covers_scope(struct match_list scopes, struct slice scope_lock);
bool match_covers_permissions(struct match_list permissions, struct match_list needed);

/* struct match_score: what is compared. */
struct match_score {
    struct match_share share;
    bool failed_last;          /* it is the worker that failed the job last */
    uint32_t running;          /* jobs that it runs */
    struct instant idle_since; /* when it last had none, or came */
};

/* match_compare is below 0 when `a` is the better one: a higher share, not the worker that failed,
 * fewer jobs running, fewer spare capabilities (so that who can do more is kept for that), idle for
 * longer. */
int match_compare(const struct match_score *a, const struct match_score *b);

/* match_is_worth says whether `a` is so much better that waiting a moment for it is right: being
 * idle for longer is not. */
bool match_is_worth(const struct match_score *a, const struct match_score *b);

#endif
