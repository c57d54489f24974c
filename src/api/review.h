/* review: what a person may say with a review action, read once for one letter and for many. */
#ifndef LAZARET_API_REVIEW_H
#define LAZARET_API_REVIEW_H

#include "api/body.h"

/* The members of a body that review_read reads, by action. */
#define REVIEW_MEMBERS "actor note"
#define REVIEW_RETRY_MEMBERS REVIEW_MEMBERS " patch merge queue policy max_retries hold claim"

/* review_members is the one that fits the action. */
const char *review_members(enum review_action action);

/* review_read fills a command from a body: all but its items.  `by` is recovered_by of a retry when
 * the body names no actor. */
void review_read(struct call *call, struct json body, enum review_action action, struct slice by,
                 struct review_command *command);

/* review_refusal is the sentence for an item that was refused: the swarm's clients compare it. */
/* REVIEW_REPUBLISH_WAIT is how long an answer waits for a letter that is published again. */
#define REVIEW_REPUBLISH_WAIT span_seconds(10)

struct slice review_refusal(const struct review_item *item);

#endif
