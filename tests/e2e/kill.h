/* kill: what the victim of the kill loop and its driver agree on.
 *
 * The victim tells what was acknowledged to it, one line each, over a pipe that outlives it:
 *     p ID    a push was acknowledged
 *     c ID    a completion was
 *     d ID    a failure was, and the engine answered "dead" */
#ifndef LAZARET_E2E_KILL_H
#define LAZARET_E2E_KILL_H

#include <stddef.h>
#include <stdint.h>

#include "lazaret.h"

#define KILL_ID_SIZE 40
#define KILL_BODY_SIZE 600
#define KILL_ATTEMPTS 3 /* runs that the policy of every job allows */

/* kill_body prints the envelope of a job: the same id always gives the same bytes. */
void kill_body(const char *id, char out[KILL_BODY_SIZE]);

/* victim_main pushes, leases and resolves until it is killed.  It returns only when something went
 * wrong that no kill explains. */
int victim_main(const char *data, unsigned life, int pipe);

/* struct ledger: what was acknowledged over all lives of one data directory, and what the evidence
 * says of it. */
struct ledger;

struct ledger *ledger_new(void);
void ledger_free(struct ledger *ledger);
/* ledger_note takes one line of the victim's. */
void ledger_note(struct ledger *ledger, const char *line);
size_t ledger_acknowledged(const struct ledger *ledger);

/* ledger_check opens the directory and compares: every acknowledged push is there, in one state,
 * byte for byte; no job had more runs than its policy allows; the chain of evidence holds.  `all`
 * also looks at what was found ended before.  It prints what is wrong and returns how many of the
 * acknowledged jobs are lost or wrong; -1 when the directory cannot be checked at all. */
int ledger_check(struct ledger *ledger, const char *data, int all);

#endif
