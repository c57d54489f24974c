/* git: running the real git, one command after the other.
 *
 * Never by way of a shell, with texts that are not translated (LC_ALL=C), without questions on a
 * terminal, and without those variables of our own environment that would lead it to another
 * repository (GIT_DIR and its kin).
 *
 * A git that is killed half-way leaves locks and half-written trees behind.  So it is run by
 * flock(1), whose child it is: processes of the loop die with this program, but their children do
 * not.  It holds the lock until it and its own children have ended, and whoever goes on with the
 * repository, another run or the next one, waits for that. */
#ifndef LAZARET_RUN_GIT_H
#define LAZARET_RUN_GIT_H

#include <stdarg.h>

#include "base/buf.h"
#include "run/process.h"

/* struct git: how git is called.  `{0}` is valid for git_release. */
struct git {
    char **envp;     /* ends in NULL; the strings follow it in the same block */
    char *lock;      /* the file that is locked while a command runs; NULL: none */
    bool name_given; /* a name for commits is configured; else ours stands in */
    bool email_given;
};

/* git_init makes the environment from that of this process. */
enum status git_init(struct git *git, struct err *err);
void git_release(struct git *git);

/* git_lock has all commands from here on wait for each other, also with those of other processes:
 * `directory` is that of the repository.  Where there is no flock(1) they do not. */
enum status git_lock(struct git *git, const char *directory, struct err *err);

/* git_start runs `git -C directory ARG...`; the arguments end in NULL.  Else as process_start. */
struct process *git_start(const struct git *git, struct loop *loop, const char *directory,
                          va_list args, void (*ended)(void *ctx, const struct process_end *end),
                          void *ctx);

/* git_ok says whether a command ended with exit code 0. */
bool git_ok(const struct process_end *end);

/* git_line appends what a command wrote to standard output, without the line ends behind it. */
void git_line(const struct process *process, struct buf *out);

/* git_words appends, as one line, what git itself says of a failure: "git merge: fatal: ...". */
void git_words(const char *command, const struct process *process, const struct process_end *end,
               struct buf *out);

#endif
