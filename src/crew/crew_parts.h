/* crew_parts: what the files of the crew share.  Nothing else includes this.
 *
 *     crew.c        leases, attempts, reports, and the pump that moves them on
 *     crew_keep.c   heartbeats, and leases given back */
#ifndef LAZARET_CREW_CREW_PARTS_H
#define LAZARET_CREW_CREW_PARTS_H

#include "crew/courier.h"
#include "crew/crew.h"
#include "crew/report.h"

struct slot {
    struct crew *crew;
    unsigned number;
    struct grant *grant; /* what is worked on; NULL: the slot is free */
    void *effort;        /* the craft's */
    struct span began;   /* by loop_now */
    bool told;           /* a heartbeat has said that it runs */
};

struct crew {
    struct crew_config config;
    struct courier *leaser, *reporter, *keeper;
    struct slot *slots;
    unsigned running;
    struct grant *waiting, **waiting_end; /* leased, and not begun */
    unsigned waiting_count;
    struct report *outbox, **outbox_end; /* ended, and not sent */
    struct report *sent;                 /* sent, and not answered */

    struct message lease, result, beat;
    bool leasing, sending, beating; /* the message is on its way */
    bool going, draining, hasty, quitting;
    struct grant *back; /* to be given back */
    void (*rested)(void *ctx);
    void *rested_ctx;

    struct loop_timer again; /* after a message that could not be carried */
    struct loop_timer pulse; /* heartbeats, and a look at what runs */
    struct span beat_at;     /* when the last heartbeat was sent */
    int64_t again_ms;
    bool troubled;          /* the trouble was told */
    struct span refused_at; /* since when we may not ask; 0: we may */
    int64_t failed_attempts;
    int64_t retrying;    /* reported as failed, to be tried again, and not begun since */
    size_t expected;     /* named jobs that have not come to their end */
    unsigned unreported; /* reports in `outbox` and `sent` */
    unsigned in_doubt;   /* failures in `outbox` and `sent`: what follows is not known yet */

    double attempt_us; /* smoothed: how long an attempt takes */
    double busy_us;    /* every slot has been busy for at least this long */
    double lease_us;   /* smoothed: how long it takes to get leases that are there */
};

/* -- crew.c ------------------------------------------------------------------------------------ */

void crew_pump(struct crew *crew); /* does whatever can be done now */

/* crew_ahead is how many leases are worth having beside those that run. */
unsigned crew_ahead(const struct crew *crew);

/* crew_is_forbidden hands over that we may not ask, or ask what nobody accepts: asking again is no
 * use. */
bool crew_is_forbidden(struct crew *crew, const struct message *message);

/* -- crew_keep.c ------------------------------------------------------------------------------- */

/* crew_keep_start begins the pulse.  False when memory is exhausted. */
bool crew_keep_start(struct crew *crew);
void crew_give_back(struct crew *crew);            /* sends what is in `back` */
bool crew_is_giving_back(const struct crew *crew); /* it is on its way, or will be */

#endif
