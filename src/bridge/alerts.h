/* alerts: says that letters died, by Slack, a webhook and NATS.
 *
 * One server (the duty "alerts") follows the evidence: every letter that died or came in is noted
 * in the book (alertbook.h), which says what goes out at once and what in a digest.  Messages for
 * Slack and the webhook are pushed as deliveries, into the same queue as all others: so they are on
 * disk, and what an endpoint does not take is tried again, counted and quarantined by the same
 * engine.  What NATS does not take, as it is away, is kept in memory and said when it is back; when
 * that is too much, or the server ends before, it is counted as failed.
 *
 * The cursor of the duty is moved up to what was handed over, and no further: whoever goes on after
 * a crash reads again what was only counted.  The id of a message is made of its events, so that a
 * first one which is handed over once more is known.  A digest whose server dies just as it hands
 * it over may be said again, with what came since: nothing is left out.
 *
 * Not said: letters of the alerts' own deliveries, which could go on for ever; letters of groups
 * that somebody ignores; letters that were settled before they came in. */
#ifndef LAZARET_BRIDGE_ALERTS_H
#define LAZARET_BRIDGE_ALERTS_H

#include "bridge/alertbook.h"
#include "bridge/seat.h"
#include "core/redact.h"
#include "core/target.h"

#define ALERTS_DUTY "alerts"
#define ALERTS_TARGET_SLACK "slack"
#define ALERTS_TARGET_WEBHOOK "alert-webhook"

/* alerts_targets_add makes targets of the addresses (NULL: none) that alerts go to, under the names
 * above, beside those that are configured; `targets->list` is then another one, in `arena`.
 * STATUS_INVALID when an address is wrong, or a configured target has the name. */
enum status alerts_targets_add(struct targets *targets, const char *slack_url,
                               const char *webhook_url, struct arena *arena, struct err *err);

struct alerts_config {
    const char *slack;   /* the target of messages for Slack; NULL: none are sent */
    const char *webhook; /* the target of the JSON; likewise */
    /* publish says the JSON on a subject of NATS; false when it could not.  NULL: nobody does. */
    bool (*publish)(void *ctx, struct slice subject, struct slice body);
    void *publish_ctx;
    const struct redaction *redaction; /* what is masked; NULL: nothing */
};

/* struct alerts_counts: since the start.  Any thread may read them. */
struct alerts_counts {
    atomic_uint_fast64_t slack, webhook, nats; /* messages that were handed over */
    atomic_uint_fast64_t firsts;               /* letters that were said at once */
    atomic_uint_fast64_t digested;             /* letters that a digest counted */
    atomic_uint_fast64_t suppressed;           /* letters that are not said */
    atomic_uint_fast64_t failed;               /* messages that NATS never took */
};

#define ALERTS_WAITING_MAX 100

/* struct alerts_waiting: a message that NATS has not taken yet. */
struct alerts_waiting {
    char *json;
    size_t len;
};

struct alerts {
    const struct seat *seat;
    struct alerts_config config;
    struct seat_duty duty;
    struct alertbook *book;
    bool following;          /* the duty is ours, and `read` is known */
    int64_t read;            /* events up to here are in the book */
    int64_t began;           /* events up to here were said by somebody before us */
    struct instant began_at; /* when we began; not set: nobody was before us */
    struct span next;        /* on the steady clock: when to look */
    struct span advance_at;  /* when to move the cursor though nothing was said */
    struct alerts_waiting waiting[ALERTS_WAITING_MAX]; /* the oldest first */
    size_t waiting_count;
    struct alerts_counts counts;
    struct seat_trouble trouble;
};

enum status alerts_init(struct alerts *alerts, const struct seat *seat,
                        const struct alerts_config *config, struct err *err);

/* alerts_run looks, when it is time, at what happened, and says what is to be said.  It returns
 * when to call it next. */
struct span alerts_run(struct alerts *alerts);

/* alerts_leave gives the duty up: whoever takes it over goes on with what was not said. */
void alerts_leave(struct alerts *alerts);
void alerts_release(struct alerts *alerts);

#endif
