/* watch: what a run tells while it goes on.  The command line shows it as a live line, as plain
 * lines or as JSON. */
#ifndef LAZARET_CREW_WATCH_H
#define LAZARET_CREW_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/time.h"

enum watch_what {
    WATCH_STARTED, /* an attempt began */
    WATCH_SUCCEEDED,
    WATCH_RETRYING,    /* it failed and will be tried again, at retry_at */
    WATCH_QUARANTINED, /* it failed and is in the quarantine, as dlq_id */
    WATCH_SKIPPED,     /* it failed and was given up (on_item_failure: skip) */
    WATCH_HANDLED,     /* it failed and the custom handler took care of it */
    WATCH_CANCELLED,
    WATCH_INTERRUPTED, /* the runner was stopped while it ran: it will run again */
    WATCH_LOST,        /* its lease was lost: somebody else has it */
};

/* struct watch_event: one thing that happened to one item or job.  Texts are raw: whoever shows
 * them cleans them. */
struct watch_event {
    enum watch_what what;
    struct slice job_id, item_id, dlq_id;
    struct slice label; /* what a person calls it: a short item itself, else its id */
    uint32_t attempt;
    struct span duration;             /* of an attempt that ended */
    struct instant retry_at;          /* of WATCH_RETRYING */
    struct slice error_type, message; /* of a failure */
    struct slice artifact;            /* path of the whole output; empty: none */
};

/* struct watch_counts: how far it is. */
struct watch_counts {
    int64_t total;    /* items known so far */
    bool total_final; /* no more will come */
    int64_t done, failed_attempts, retrying, quarantined, skipped, handled, cancelled, running;
    int64_t before; /* of `total`: ended in an earlier run (--resume) */
    struct span elapsed;
    struct slice slowest; /* the item that has been running longest; empty: none */
    struct span slowest_for;
};

struct watch {
    void (*event)(void *ctx, const struct watch_event *event);
    /* counts is called several times a second while something goes on, and at least once a second.
     */
    void (*counts)(void *ctx, const struct watch_counts *counts);
    void (*note)(void *ctx, const char *sentence); /* "stopping: 3 items are still running; ..." */
    void *ctx;
};

#endif
