/* grant: a lease that the engine gave us, copied out of the answer that brought it. */
#ifndef LAZARET_CREW_GRANT_H
#define LAZARET_CREW_GRANT_H

#include "base/arena.h"
#include "base/json.h"
#include "base/time.h"

/* struct grant: everything is in its arena. */
struct grant {
    struct arena arena;
    struct slice lease_id, job_id, queue, match;
    struct slice item_id; /* the envelope's, else the job's id */
    struct slice label;   /* what a person calls it: a short text that is the item, else its id */
    uint32_t attempt;
    struct span came;   /* when, by loop_now */
    struct json job;    /* the envelope, byte for byte */
    struct json inputs; /* of it */
    struct grant *next;
};

/* grant_new copies one entry of an answer to POST /leases; NULL when memory is exhausted. */
struct grant *grant_new(struct json lease);
void grant_free(struct grant *grant); /* NULL is fine */

#endif
