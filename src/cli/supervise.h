/* supervise: a long-running agent is kept up, or dead-lettered (`work --supervise`). */
#ifndef LAZARET_CLI_SUPERVISE_H
#define LAZARET_CLI_SUPERVISE_H

#include "cli/cli.h"
#include "run/work.h"

/* supervise_check refuses flags of "work" that do not go with --supervise, or mean nothing without
 * it.  0, or an exit code after it has said what is wrong. */
int supervise_check(const struct cli *cli);

/* supervise keeps the agent of the command's operands up.  It returns an exit code. */
int supervise(struct cli *cli, const struct work_config *work);

#endif
