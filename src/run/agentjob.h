/* agentjob: the job that an agent's being kept up is, as the requests say it.
 *
 * The job's id is agent/NAME/UUID.  What it requires of a worker, and its idempotency key, is
 * agent:NAME: so there is one live job of a name, and only supervisors of that name lease it. */
#ifndef LAZARET_RUN_AGENTJOB_H
#define LAZARET_RUN_AGENTJOB_H

#include "base/jsonw.h"
#include "run/supervise.h"

struct agentjob {
    const struct supervise_config *config;
    struct buf key; /* agent:NAME */
    struct buf id;  /* of the job that is spoken of */
};

void agentjob_init(struct agentjob *job, const struct supervise_config *config);
void agentjob_release(struct agentjob *job);

/* agentjob_push names another job and writes its envelope. */
void agentjob_push(struct agentjob *job, struct jsonw *w);

/* agentjob_lease writes a request for it, and agentjob_held one about a lease of it: a heartbeat
 * with the time that it asks for, or a release with none. */
void agentjob_lease(const struct agentjob *job, struct span wait, struct jsonw *w);
void agentjob_held(const struct agentjob *job, struct slice lease_id, struct span lease,
                   struct jsonw *w);

/* agentjob_is says whether an envelope is this agent's: somebody may push any job into any queue.
 */
bool agentjob_is(const struct agentjob *job, struct json envelope);

#endif
