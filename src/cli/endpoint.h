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

/* endpoint_take_over ends the lease of a job when the process of this host that has it was killed:
 * its time need not be waited for, and the attempt does not count. */
int endpoint_take_over(struct cli *cli, struct slice job_id);

/* endpoint_receipts is the file of dead receipts: --receipts-file, else what the configuration
 * says, else DIR/dlq/receipts.json.  NULL, with the exit code in `*code`, when memory is exhausted
 * or there is no data directory. */
const char *endpoint_receipts(struct cli *cli, int *code);

/* endpoint_mirror brings the file of dead receipts up to date with the letters, where there is one
 * or a command has opened the directory.  A server keeps its own. */
void endpoint_mirror(struct cli *cli);

#endif
