/* announce: the desk that publishes dead letters of Lazaret's own jobs under their subject.
 *
 * One server at a time has the duty `publisher`.  It follows the events after the duty's cursor, in
 * order, and moves the cursor when a stream has acknowledged what it published: so each death is
 * told at least once, whoever dies meanwhile.  An office that was never open before begins at the
 * present, whether NATS is there or not.  A letter that the stream takes in no form, while it takes
 * others, is skipped: that is logged and counted, and it stays where it is kept.  Letters that were
 * taken in from elsewhere are not told: who sent them knows. */
#ifndef LAZARET_BRIDGE_ANNOUNCE_H
#define LAZARET_BRIDGE_ANNOUNCE_H

#include "bridge/natsdesk.h"

struct announce;

enum status announce_open(const struct natsoffice_config *config, struct natstally *tally,
                          struct announce **out, struct err *err);
struct natsdesk *announce_desk(struct announce *announce);
void announce_close(struct announce *announce); /* NULL is fine */

#endif
