/* endpoint: what `send` and `dlq recover` have in common: where receipts go, by the caller's own
 * choice, and the file of those that did not arrive. */
#ifndef LAZARET_CLI_ENDPOINT_H
#define LAZARET_CLI_ENDPOINT_H

#include "cli/cli.h"
#include "core/target.h"

/* endpoint_read reads --to (an address, or the name of a target of the configuration) and the flags
 * that go with it.  0, or an exit code after it has said what is wrong. */
int endpoint_read(struct cli *cli, struct target *out);

/* endpoint_worker is what the engine calls this process: `what`, the host and the process id; NULL
 * when memory is exhausted. */
const char *endpoint_worker(struct cli *cli, const char *what);

/* endpoint_is_gone says whether a worker of that name was a process of this host that has ended. */
bool endpoint_is_gone(struct slice worker);

/* endpoint_receipts is the file of dead receipts: --receipts-file, else what the configuration
 * says, else DIR/dlq/receipts.json.  NULL, with the exit code in `*code`, when memory is exhausted
 * or there is no data directory. */
const char *endpoint_receipts(struct cli *cli, int *code);

#endif
