/* feed: items on their way from the input to the engine.
 *
 * A thread reads items and makes envelopes of them; the loop has them pushed, chunk after chunk.  A
 * chunk is what was read while the one before it was committed: so the first item is pushed at once
 * and a million are pushed a thousand at a time.  Envelopes are the same for the same item, run and
 * policy: pushing them again, to resume, changes nothing. */
#ifndef LAZARET_RUN_FEED_H
#define LAZARET_RUN_FEED_H

#include "crew/link.h"
#include "crew/loop.h"
#include "run/items.h"
#include "run/roll.h"

struct feed;

struct feed_config {
    struct loop *loop;
    const struct link *link;
    struct items *items; /* the feed's from then on, also when this fails */
    struct roll *roll;   /* that the items are put on; likewise the feed's.  NULL: none */
    const char *run_id;
    bool resume;        /* items may be known; else one whose id is taken is an error */
    const char *policy; /* JSON */
    /* pushed is called after each commit, and when the end was reached. */
    void (*pushed)(void *ctx);
    void *ctx;
};

/* struct feed_counts: how far it is. */
struct feed_counts {
    int64_t total;      /* items that are in the store */
    int64_t before;     /* of these: ended in an earlier run */
    int64_t known;      /* of `total`: there before, with other data or another policy */
    int64_t repeated;   /* items whose id was there before them in the input */
    bool done;          /* there will be no more */
    bool whole;         /* and that is all of the input: it was not stopped before */
    enum status status; /* why it ended; STATUS_OK: at the end of the input */
    struct err err;
};

enum status feed_open(const struct feed_config *config, struct feed **out, struct err *err);
void feed_close(struct feed *feed); /* NULL is fine */

/* feed_stop ends it early; `pushed` is called when it is done. */
void feed_stop(struct feed *feed);

struct feed_counts feed_counts(const struct feed *feed);

#endif
