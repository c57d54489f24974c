/* runlink: the link of a crew (crew/link.h) is the command's connection. */
#ifndef LAZARET_CLI_RUNLINK_H
#define LAZARET_CLI_RUNLINK_H

#include "cli/cli.h"
#include "crew/link.h"

/* runlink_open makes the link.  0, or an exit code after it has said what is wrong. */
int runlink_open(struct cli *cli, struct link *out);

struct api;

/* struct ownlink: an API of this process, and who asks it. */
struct ownlink {
    struct api *api;
    const char *actor;
};

/* runlink_own is the link to it; `own` outlives it. */
struct link runlink_own(struct ownlink *own);

/* runlink_block keeps the signals that stop a run away from every thread: whoever waits for them
 * takes them.  To be called before the first request. */
void runlink_block(void);

/* runlink_exit is the exit code for a run that could not begin. */
int runlink_exit(enum status status);

#endif
