/* work: a worker: it leases jobs of queues, runs a command for each, and reports. */
#ifndef LAZARET_RUN_WORK_H
#define LAZARET_RUN_WORK_H

#include "crew/link.h"
#include "crew/watch.h"
#include "run/workflow.h"

struct work_config {
    const struct link *link;
    const struct watch *watch;
    const struct steps *steps; /* the command */
    const char *worker_id;
    const char *const *queues; /* NULL: every queue */
    size_t queue_count;
    const char *const *capabilities;
    size_t capability_count;
    const char *const *scopes; /* NULL: any */
    size_t scope_count;
    const char *const *permissions; /* NULL: any */
    size_t permission_count;
    unsigned parallel;
    struct span timeout, grace, lease;
    struct span
        drain; /* how long what runs may go on after the first signal; 0: for as long as it takes */
    const char *artifacts; /* NULL: the whole output is not kept */
    bool until_empty;      /* end when there is nothing to do */
};

/* work_run works until it is told to stop (SIGTERM, SIGINT) or, with until_empty, until a request
 * for jobs comes back empty. The first signal takes no more jobs and lets what runs finish, the
 * second ends it, as interrupted. */
enum status work_run(const struct work_config *config, struct watch_counts *counts,
                     struct err *err);

#endif
