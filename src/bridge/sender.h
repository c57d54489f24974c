/* sender: deliveries that are made here and now, by a command: jobs that it has claimed, to one
 * endpoint of the caller's own choice. */
#ifndef LAZARET_BRIDGE_SENDER_H
#define LAZARET_BRIDGE_SENDER_H

#include "core/target.h"
#include "crew/link.h"
#include "crew/watch.h"

struct sender_config {
    const struct link *link;
    const struct watch *watch; /* is told of every attempt; `counts` is not used */
    const struct target *to;
    const struct target *to_mcp; /* for deliveries that say "mcp"; NULL: `to` is for all */
    const struct slice *job_ids; /* the jobs, up to 1000 */
    size_t job_count;
    unsigned parallel;
    const char *worker_id;
    bool *unreached; /* by the number of the job: it died, and its last request reached nobody; may
                        be NULL */
};

/* struct sender_counts: what became of the jobs. */
struct sender_counts {
    size_t delivered, dead, cancelled;
    bool stopped; /* a signal ended it: what is left is still claimed */
};

/* sender_run delivers until every job has come to its end, here or elsewhere, or a signal stops it
 * (runlink_block must have been called).  An error of the engine that will not pass by itself is
 * returned. */
enum status sender_run(const struct sender_config *config, struct sender_counts *counts,
                       struct err *err);

/* sender_probe looks whether somebody answers at an endpoint: it connects, and sends nothing.
 * STATUS_UNAVAILABLE says why not.  With `patience` (a watch whose `note` is told) it waits until
 * somebody does, or a signal comes: STATUS_CONFLICT. */
enum status sender_probe(const struct target *to, const struct watch *patience, struct err *err);

#endif
