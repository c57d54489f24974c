/* deliver: the craft of crews that deliver: one effort is one request to one endpoint. */
#ifndef LAZARET_BRIDGE_DELIVER_H
#define LAZARET_BRIDGE_DELIVER_H

#include "bridge/wire.h"
#include "core/target.h"
#include "crew/craft.h"

/* struct deliver: how it is done, for all deliveries of a crew.  It outlives the efforts. */
struct deliver {
    struct wire *wire;
    struct loop *loop;
    const struct targets *targets; /* where they may go */
    const struct target *to;       /* where all of them go, whatever the job says; NULL: as it says.
                                      The caller's own choice: any address may be connected to */
    const struct seams *seams;     /* for the time of day */
    const char *agent;             /* agent_id of failures */
    const struct target *to_mcp;   /* likewise, for those that say "mcp"; NULL: `to` is for all */
    /* unreached is told of a delivery whose request reached nobody.  NULL: nobody wants to know. */
    void (*unreached)(void *ctx, struct slice job_id);
    void *ctx;
};

struct craft deliver_craft(const struct deliver *deliver);

#endif
