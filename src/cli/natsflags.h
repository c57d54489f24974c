/* natsflags: where NATS is and who asks, from the flags --nats..., the configuration's `nats` and,
 * for the address, $NATS_URL. */
#ifndef LAZARET_CLI_NATSFLAGS_H
#define LAZARET_CLI_NATSFLAGS_H

#include "bridge/natslink.h"
#include "cli/cli.h"

/* natsflags_read fills `out`, but for its name and callbacks; texts live as long as the command.
 * What a flag says goes before what the configuration says; one kind of credentials by flags
 * replaces whatever kind the configuration has.  With `environment`, $NATS_URL is the address when
 * nothing else says one; `out->url` is NULL when nothing says one.  0, or an exit code after it has
 * said what is wrong. */
int natsflags_read(struct cli *cli, bool environment, struct natslink_options *out);

#endif
