/* help: explaining the commands to a person. */
#ifndef LAZARET_CLI_HELP_H
#define LAZARET_CLI_HELP_H

#include "cli/commands.h"
#include "cli/out.h"

void help_overview(struct out *out);
void help_command(struct out *out, const struct cli_command *command);

#endif
