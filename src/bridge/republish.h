/* republish: the desk that brings letters from elsewhere back to where they came from.
 *
 * It leases the jobs of core/replay.h, publishes their payloads byte for byte, and says what became
 * of them.  What it is not sure of it sends again with the same id, for less than the time that a
 * stream remembers ids; after that, or when it is to stop, it reports that nobody knows (side
 * effects unknown): what may have arrived is never reported as not delivered.  While NATS is away
 * it leases nothing.  What was published and could not be reported before the lease ended is
 * remembered, and reported when its job is leased again. */
#ifndef LAZARET_BRIDGE_REPUBLISH_H
#define LAZARET_BRIDGE_REPUBLISH_H

#include "bridge/natsdesk.h"

struct republish;

enum status republish_open(const struct natsoffice_config *config, struct natstally *tally,
                           struct republish **out, struct err *err);
struct natsdesk *republish_desk(struct republish *republish);

/* republish_stop has it lease nothing more. */
void republish_stop(struct republish *republish);
void republish_close(struct republish *republish); /* NULL is fine */

#endif
