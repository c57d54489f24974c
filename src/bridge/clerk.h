/* clerk: carries out what other programs write into the relation swarm_dlq.
 *
 * The store lists it in its inbox, in order.  A row that was inserted becomes a letter, one that
 * was set to recovered settles its letter, one that may be brought back or may not any more has its
 * letter say so; each item leaves the inbox in the transaction that carries it out, so none is lost
 * and none is done by halves.  Two servers may work on the same items: a letter whose dlq_id is
 * known is not taken twice.  A row that is no letter becomes a malformed one, for a person to look
 * at. */
#ifndef LAZARET_BRIDGE_CLERK_H
#define LAZARET_BRIDGE_CLERK_H

#include "bridge/seat.h"

/* struct clerk_counts: since the start.  Any thread may read them. */
struct clerk_counts {
    atomic_uint_fast64_t imported;  /* rows that became letters */
    atomic_uint_fast64_t malformed; /* of these, rows that were none */
    atomic_uint_fast64_t settled;   /* letters whose row somebody else changed */
    atomic_uint_fast64_t ignored;   /* rows that were known, and changes that change nothing here */
};

struct clerk {
    const struct seat *seat;
    struct clerk_counts counts;
    struct seat_trouble trouble;
};

void clerk_init(struct clerk *clerk, const struct seat *seat);

/* clerk_run carries out what is in the inbox, and returns when to call it next; before, when it is
 * known that something was written. */
struct span clerk_run(struct clerk *clerk);

#endif
