/* pulse: one lease is kept alive by heartbeats, which also tell that it is lost or its job
 * cancelled. */
#ifndef LAZARET_RUN_PULSE_H
#define LAZARET_RUN_PULSE_H

#include "crew/courier.h"
#include "run/agentjob.h"

enum pulse_news {
    PULSE_LOST,      /* the lease is somebody else's, or nobody's */
    PULSE_CANCELLED, /* somebody wants the job to end */
    PULSE_TROUBLE,   /* it could not be carried: told once in a row.  The next one follows */
};

struct pulse {
    struct loop *loop;
    struct courier *courier;    /* borrowed, as is what follows */
    const struct agentjob *job; /* of which a lease is held */
    struct span lease;          /* how long it lasts; a heartbeat every third of it */
    void (*told)(void *ctx, enum pulse_news news, const char *sentence);
    void *ctx;

    struct slice lease_id; /* empty: none is held */
    struct message message;
    struct loop_timer timer;
    bool sent, failing; /* a heartbeat is on its way; the last one could not be carried */
};

/* pulse_init sets what the pulse itself needs; the members before `lease_id` are the caller's. */
void pulse_init(struct pulse *pulse);
void pulse_release(struct pulse *pulse); /* when its courier has ended */

/* pulse_begin sends the first heartbeat, which marks the job started, and goes on until pulse_end.
 */
void pulse_begin(struct pulse *pulse, struct slice lease_id);
void pulse_end(struct pulse *pulse); /* one that has not begun is fine */

#endif
