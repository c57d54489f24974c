/* map: running a map run, for `map` and for `dlq retry`. */
#ifndef LAZARET_CLI_MAP_H
#define LAZARET_CLI_MAP_H

#include "cli/cli.h"

/* map_again runs what a known run has pending, due or cut off, with the command that it was begun
 * with; `parallel` 0: as it was. CLI_DONE when all of it succeeded, CLI_FAILED when not.
 * CLI_MISSING, without a word, when the run was not begun in this data directory; CLI_REFUSED,
 * without a word, when another process runs it: that one takes up what is pending. */
int map_again(struct cli *cli, const char *run_id, unsigned parallel);

#endif
