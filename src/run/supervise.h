/* supervise: a long-running agent is kept up, or dead-lettered.
 *
 * The agent's life is a job, so that every restart is a decision of the engine, by the policy that
 * is in the job, with the evidence of what happened before it.
 *
 *     what happens                                          what is reported, and follows
 *     ----------------------------------------------------  -------------------------------------
 *     the agent ends by itself, with whatever exit code     a failure; the engine spaces the
 * restart likewise, after SUPERVISE_RESTARTS_MAX restarts       a failure, "crash_loop":
 * quarantined within `window` likewise, after it was up for `window` or longer      its job is
 * done; another one begins anew 3 health checks in a row fail                         a failure,
 * "boot_failure": quarantined the pull fails                                        a failure,
 * "pull_failure": quarantined SIGTERM, SIGINT                                       its job is done
 *     somebody cancels the job                              its job is cancelled
 *     the lease is lost                                     the engine has it as a failure; the
 * agent is ended, and restarted when it says so
 *
 * A restart is a start that is not the first.  So an agent that crashes at once is started six
 * times: the first time, and the five that make it a crash loop.
 *
 * The agent's name is its identity: there is one live job of a name (its idempotency key), and a
 * job that an earlier supervisor of that name has left, or that was brought back from the
 * quarantine, is taken up with its history.  Where another supervisor has the agent, this one waits
 * for its turn. */
#ifndef LAZARET_RUN_SUPERVISE_H
#define LAZARET_RUN_SUPERVISE_H

#include <sys/types.h>

#include "base/time.h"
#include "crew/link.h"
#include "run/echo.h"

#define SUPERVISE_QUEUE "supervised" /* the queue of agents' jobs: nobody else leases there */
#define SUPERVISE_SOURCE "warren"    /* their source: the swarm's name for who keeps agents up */
#define SUPERVISE_NAME_MAX 120       /* bytes of an agent's name */
#define SUPERVISE_RESTARTS_MAX 5

enum supervise_what {
    SUPERVISE_STARTED,
    SUPERVISE_ENDED,      /* by itself, or as it was unhealthy, or the pull failed */
    SUPERVISE_RESTARTING, /* at retry_at */
    SUPERVISE_UNHEALTHY,  /* a health check failed */
    SUPERVISE_DEAD_LETTERED,
    SUPERVISE_STOPPED, /* as we were told to */
    SUPERVISE_CANCELLED,
    SUPERVISE_LOST,    /* the lease is lost, and the agent was ended */
    SUPERVISE_WAITING, /* another supervisor has the agent */
};

/* struct supervise_event: one thing that happened.  Texts are raw: whoever shows them cleans them.
 */
struct supervise_event {
    enum supervise_what what;
    struct slice job_id;
    uint32_t attempt;      /* 0: none */
    uint32_t restarts;     /* so far */
    pid_t pid;             /* of SUPERVISE_STARTED */
    struct span up;        /* of an agent that ended: how long it ran */
    struct slice message;  /* how it ended, what the check said; of SUPERVISE_WAITING: who has it */
    struct slice artifact; /* path of the whole output; empty: none */
    unsigned failed;       /* of SUPERVISE_UNHEALTHY: checks in a row */
    struct instant retry_at;
    struct slice reason, dlq_id; /* of SUPERVISE_DEAD_LETTERED */
};

struct supervise_config {
    const struct link *link;
    const char *name;      /* the agent's: UTF-8, at most SUPERVISE_NAME_MAX bytes */
    const char *worker_id; /* who leases */
    char *const *argv;     /* the agent; ends in NULL */
    const char *pull;      /* a script before each start; NULL: none */
    const char *health;    /* a script that succeeds while the agent is well; NULL: none */
    struct span health_every;
    struct span restart_delay; /* before the first restart; it doubles with each */
    struct span window;        /* see above */
    struct span grace;         /* between TERM and KILL */
    struct span lease;
    const char *artifacts; /* where the whole output is kept; NULL: nowhere */
    struct echo *echo;     /* where the agent is seen; NULL: nowhere */
    void (*event)(void *ctx, const struct supervise_event *event);
    void (*note)(void *ctx, const char *sentence);
    void *ctx;
};

enum supervise_outcome { SUPERVISED_STOPPED, SUPERVISED_CANCELLED, SUPERVISED_DEAD };

/* supervise_run keeps the agent up until one of the outcomes.  SIGINT, SIGTERM and SIGHUP, which
 * must be blocked in every thread, end the agent; a second one kills it.  An error when it cannot
 * begin, or when a second signal finds a report that cannot be delivered: the agent is not running
 * then. */
enum status supervise_run(const struct supervise_config *config, enum supervise_outcome *outcome,
                          struct err *err);

#endif
