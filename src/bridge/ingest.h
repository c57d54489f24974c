/* ingest: the desk that takes letters in from the stream DLQ.
 *
 * A message is acknowledged when its letter is on disk, and not before: until then it stays in the
 * stream.  What is no letter is kept as one of reason `malformed`; nothing is dropped.  A letter
 * that is known by its dlq_id is acknowledged and not taken again: so the stream may deliver a
 * message as often as it likes. */
#ifndef LAZARET_BRIDGE_INGEST_H
#define LAZARET_BRIDGE_INGEST_H

#include "bridge/natsdesk.h"

#define INGEST_STREAM "DLQ"
#define INGEST_SUBJECTS "dlq.>"
#define INGEST_CONSUMER "lazaret-DLQ"

struct ingest;

enum status ingest_open(const struct natsoffice_config *config, struct natstally *tally,
                        struct ingest **out, struct err *err);
struct natsdesk *ingest_desk(struct ingest *ingest);
void ingest_close(struct ingest *ingest); /* NULL is fine */

#endif
