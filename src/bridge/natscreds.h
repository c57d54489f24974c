/* natscreds: who a connection to NATS says it is. */
#ifndef LAZARET_BRIDGE_NATSCREDS_H
#define LAZARET_BRIDGE_NATSCREDS_H

#include <nats/nats.h>

#include "base/status.h"
#include "bridge/natslink.h"
#include "bridge/nkey.h"

/* struct natscreds: what libnats asks for each time it connects.  `{0}` is empty. */
struct natscreds {
    char seed[NKEY_SEED_LEN + 1]; /* of the nkey, which signs what the server sends */
    char public[NKEY_PUBLIC_LEN + 1];
};

/* natscreds_set puts the credentials of `options` into `out`; files are read and checked.  `creds`
 * must live as long as the connections that are made of `out`.  STATUS_INVALID names a file that
 * cannot be read or is no such file. */
enum status natscreds_set(struct natscreds *creds, const struct natslink_options *options,
                          natsOptions *out, struct err *err);

/* natscreds_release wipes it. */
void natscreds_release(struct natscreds *creds);

#endif
