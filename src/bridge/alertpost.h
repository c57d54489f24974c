/* alertpost: hands alerts over, as deliveries that the engine keeps, makes and makes again.
 *
 * The job of a message is named after the events that it is about: to hand it over once more, after
 * a crash, makes no second one. */
#ifndef LAZARET_BRIDGE_ALERTPOST_H
#define LAZARET_BRIDGE_ALERTPOST_H

#include "bridge/alert.h"
#include "bridge/seat.h"
#include "core/target.h"

#define ALERTPOST_SOURCE "alerts" /* of the deliveries */
#define ALERTPOST_MAX 20          /* messages that are handed over at once */

/* struct alertpost: messages on their way to the engine.  `{0}` but for `seat` and `arena` has
 * none. */
struct alertpost {
    const struct seat *seat;
    struct arena *arena;
    struct push_item items[ALERTPOST_MAX];
    enum delivery_kind kinds[ALERTPOST_MAX];
    size_t count;
    size_t slack, other; /* after alertpost_push: those that were not known before */
};

/* alertpost_json prints the JSON of an alert into `arena`. */
enum status alertpost_json(const struct alert *alert, struct arena *arena, struct slice *out,
                           struct err *err);

/* alertpost_add adds a message to a target: in Slack's form for DELIVERY_SLACK, else the JSON.
 * `from` and `to` are the events that it is about.  There must be room. */
enum status alertpost_add(struct alertpost *post, const struct alert *alert, const char *target,
                          enum delivery_kind kind, int64_t from, int64_t to, struct err *err);

/* alertpost_push hands all over.  When it fails some may have been: push the same again. */
enum status alertpost_push(struct alertpost *post, struct err *err);

#endif
