/* swarm: what `serve` does beside its own work: the NATS bridge, the scanner, the alerts and the
 * relation that other programs write into. */
#ifndef LAZARET_CLI_SWARM_H
#define LAZARET_CLI_SWARM_H

#include <pthread.h>

#include "api/expose.h"
#include "bridge/natsoffice.h"
#include "bridge/steward.h"
#include "cli/cli.h"

/* struct swarm: `{0}` is closed, and nothing of it is wanted. */
struct swarm {
    struct natslink_options nats; /* `url` NULL: no bridge */
    struct span scan_interval;    /* 0: no scanner */
    const char *slack, *webhook;  /* names of targets; NULL: none */
    bool shared;                  /* the store is PostgreSQL: other programs write into it */
    char name[128];               /* of this server */

    pthread_mutex_t lock; /* guards the two that follow against who reads the metrics */
    struct natsoffice *office;
    struct steward *steward;
};

/* swarm_read reads the flags and the configuration, names the server and adds the targets of the
 * alerts to those that are configured.  0, or an exit code after it has said what is wrong. */
int swarm_read(struct cli *cli, bool shared, struct swarm *out);

/* swarm_open starts what is wanted on an engine that has its thread. */
int swarm_open(struct cli *cli, struct engine *engine, struct swarm *swarm);

/* swarm_drain begins nothing new. */
void swarm_drain(struct swarm *swarm);
void swarm_close(struct swarm *swarm);

/* swarm_expose writes the metrics: see struct api. */
void swarm_expose(void *ctx, struct expose *expose);

#endif
