/* office: the deliveries of a server: a thread with a loop, a wire and a crew that takes the jobs
 * of the queue "deliveries". */
#ifndef LAZARET_BRIDGE_OFFICE_H
#define LAZARET_BRIDGE_OFFICE_H

#include "core/target.h"
#include "crew/link.h"

struct office;

struct office_config {
    const struct link *link;       /* several threads use it at once */
    const struct targets *targets; /* it outlives the office */
    const char *worker_id;         /* the leases of one with the same id before us are cut off */
    unsigned parallel;             /* deliveries under way at once; 0: 1000 */
    unsigned host_parallel;        /* likewise to one host; 0: 32 */
};

enum status office_open(const struct office_config *config, struct office **out, struct err *err);

/* office_drain takes nothing new, and returns when what is under way has ended and is reported, or
 * `within` is over: then it is cut off. */
void office_drain(struct office *office, struct span within);
void office_close(struct office *office); /* NULL is fine; it drains for a moment */

#endif
