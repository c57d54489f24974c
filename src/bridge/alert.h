/* alert: what is said about dead letters: that a group of them began, or how many more there are.
 * Pure.
 *
 * As JSON, for webhooks and for the subject ALERT_SUBJECT:
 *
 *     {"event":"dead_letters","first":true,"window_seconds":0,
 *      "groups":[{"fingerprint":"...","signature":"...","reason":"...","source":"...",
 *                 "queue":"...","count":1,"sample_dlq_id":"...","first_seen":"...",
 *                 "last_seen":"..."}],
 *      "more_groups":0,"total":1,"at":"..."}
 *
 * There is no payload in it; secrets that stand in a signature are masked by who makes it. */
#ifndef LAZARET_BRIDGE_ALERT_H
#define LAZARET_BRIDGE_ALERT_H

#include "base/buf.h"
#include "base/slice.h"
#include "base/time.h"

#define ALERT_SUBJECT "swarm.alert.dlq"
#define ALERT_GROUPS_MAX 50 /* groups that an alert names */

/* struct alert_group: letters with one fingerprint, as far as this alert is about them. */
struct alert_group {
    struct slice fingerprint, signature, reason, source, queue;
    struct slice sample_dlq_id;
    int64_t count;
    struct instant first_seen, last_seen;
};

struct alert {
    bool first;                       /* one group, whose first letter this is; else a digest */
    struct span window;               /* the time that a digest is about */
    const struct alert_group *groups; /* those with the most letters, these first */
    size_t group_count;
    size_t more_groups;   /* others, that are not named */
    int64_t more_letters; /* letters of those */
    int64_t total;        /* letters in all */
    struct instant at;    /* of the last of them */
};

/* alert_print appends the JSON above. */
void alert_print(const struct alert *alert, struct buf *out);

#endif
