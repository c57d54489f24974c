/* process: one command that runs: how it is started, heard, stopped and reaped.
 *
 *     process_start --> running --exits--> ended(...)
 *                          |  `--timeout or process_stop--> TERM to its group --grace--> KILL
 *                          `--could not be started--> ended(...) with `error`, from the loop
 *
 * A command gets a process group of its own, its arguments and environment as they are (never by
 * way of a shell), and dies with the thread that started it (PR_SET_PDEATHSIG), which is the
 * loop's.  Its end is what the kernel says of it (a pidfd, wait4): a daemon that it left behind
 * with our pipes open does not keep the run waiting.  libuv is not used here: it reaps children
 * without asking for their usage. */
#ifndef LAZARET_RUN_PROCESS_H
#define LAZARET_RUN_PROCESS_H

#include <sys/types.h>

#include "base/slice.h"
#include "base/status.h"
#include "crew/loop.h"
#include "run/artifact.h"
#include "run/capture.h"
#include "run/echo.h"

#define PROCESS_SAID_MAX (1u << 20) /* bytes that a command may write to descriptor 3 */

struct process;

struct process_spec {
    char *const *argv;   /* ends in NULL; argv[0] is looked up in PATH */
    char *const *envp;   /* ends in NULL */
    const char *cwd;     /* NULL: as this process */
    struct span timeout; /* 0: none */
    struct span grace;   /* between TERM and KILL; 0: KILL at once */
    bool speaks;         /* descriptor 3 is a pipe on which it may say more */
    /* On standard input, then its end; empty: /dev/null.  Borrowed until the end. */
    struct slice input;
    /* Both streams go there too, as they come; NULL: nowhere.  Borrowed until the end. */
    struct artifact *artifact;
    struct echo *echo; /* likewise: they are seen while it runs */
};

/* struct process_end: how it ended. */
struct process_end {
    int error;        /* errno of a start that failed; 0: it ran.  All else is then empty */
    const char *what; /* of `error`: what failed, "exec", "chdir", "fork", "pipe", "wait" */
    bool signalled;
    int exit_code;   /* when not signalled */
    int signal;      /* when signalled */
    bool core;       /* it left a core file */
    bool timed_out;  /* we ended it as its time was over */
    bool stopped;    /* we ended it as process_stop was called */
    bool oom_killed; /* the kernel ended it for lack of memory */
    struct span duration, cpu_user, cpu_system;
    /* Of the largest process of the command that was reaped; 0: not known, as it was not more than
     * what this process itself has had (memory.h). */
    int64_t memory_max_kb;
};

/* process_start starts a command.  `ended` is called exactly once, from the loop, also when the
 * start failed; the process may be freed in it.  NULL only when memory is exhausted. */
struct process *process_start(struct loop *loop, const struct process_spec *spec,
                              void (*ended)(void *ctx, const struct process_end *end), void *ctx);

/* process_stop ends it: TERM to the group and, after the grace, KILL; with `now` KILL at once. */
void process_stop(struct process *process, bool now);

/* What it wrote; until process_free. */
const struct capture *process_out(const struct process *process);
const struct capture *process_err(const struct process *process);
struct slice process_said(const struct process *process); /* to descriptor 3 */

pid_t process_pid(const struct process *process); /* 0: it was not started */

/* process_free frees; one that still runs is killed with its group, and `ended` is not called. */
void process_free(struct process *process); /* NULL is fine */

#endif
