/* slack: an alert as a message of Slack's (Block Kit).  Pure.
 *
 *     header    "Dead letter: REASON", or "Dead letters: N more"
 *     section   reason, source, queue and count as fields; of a digest one line for each group
 *     section   the signature, as code
 *     context   when, and the command that shows a letter
 *
 * Texts that came from jobs cannot format, mention or link: "&", "<" and ">" are escaped, they
 * stand as code, in which a "`" is written "'", and control characters are left out.  Slack refuses
 * a message that is over a limit, so none is: 50 blocks, 3000 characters in a text, 2000 in a
 * field, 150 in a header. */
#ifndef LAZARET_BRIDGE_SLACK_H
#define LAZARET_BRIDGE_SLACK_H

#include "bridge/alert.h"

#define SLACK_GROUPS_MAX 20 /* groups that a message names: two blocks each */

/* slack_print appends the message: {"text":...,"blocks":[...]}. */
void slack_print(const struct alert *alert, struct buf *out);

#endif
