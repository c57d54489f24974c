/* progress: how a run is shown while it goes on.
 *
 *     standard error is a terminal   a live line on it; above it a line for what failed for good
 *     it is none                     a line on it for each failure, and the counts now and then
 *     -o json                        an object a line on standard output for each event
 *
 * What a person reads is made safe (text.h) and cut; what a program reads is whole. */
#ifndef LAZARET_CLI_PROGRESS_H
#define LAZARET_CLI_PROGRESS_H

#include "cli/cli.h"
#include "crew/watch.h"

struct progress;

/* progress_open chooses the kind.  `noun` is what is worked on, "item" or "job"; `run_id` (NULL:
 * there is none) stands in the JSON.  Both are borrowed. */
enum status progress_open(struct cli *cli, const char *noun, const char *run_id,
                          struct progress **out, struct err *err);

/* progress_watch is what the run tells.  It is the progress's, and for one thread. */
const struct watch *progress_watch(struct progress *progress);

/* progress_close takes the live line away.  NULL is fine. */
void progress_close(struct progress *progress);

#endif
