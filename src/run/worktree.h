/* worktree: a checkout and a branch of its own for each item, and the way back.
 *
 *     make     git worktree add -b BRANCH PATH HEAD
 *     ...      the command runs in PATH
 *     check    HEAD moved (--commit-required); without that, what is not committed is committed
 *     merge    git merge --no-ff BRANCH, in the repository; a conflict is undone (merge --abort)
 *     remove   git worktree remove, git branch -d: only after a success, and never by force
 *
 * Every step is a script of git commands, which are processes of the loop (process.h).  There is
 * one step at a time for a repository, as git locks what they touch, and merges have an order.  A
 * worktree that is there already, of an earlier attempt at the item, is used again as it is. */
#ifndef LAZARET_RUN_WORKTREE_H
#define LAZARET_RUN_WORKTREE_H

#include "base/buf.h"
#include "base/jsonw.h"
#include "run/process.h"

struct worktrees; /* those of one run */

/* struct worktree: the place of one item. */
struct worktree {
    struct worktrees *all;
    const char *path;   /* DIR/worktrees/RUN/ITEM, escaped as artifact_name does */
    const char *branch; /* lazaret/RUN/ITEM, likewise: a name that git accepts */
    const char *item;   /* as it stands in commits: one line */
    char base[72];      /* HEAD when the attempt began: filled by WORKTREE_MAKE */
};

enum worktree_step {
    WORKTREE_MAKE,   /* also notes base */
    WORKTREE_CHECK,  /* `commit_required`: HEAD must have moved; else what is not committed is */
    WORKTREE_MERGE,  /* into the branch that the repository has checked out */
    WORKTREE_REMOVE, /* of one that was merged; one with changes in it is kept: no failure */
    WORKTREE_LOOK,   /* what is not committed: git status, a summary */
};

/* struct worktree_end: how a step ended. */
struct worktree_end {
    bool ok;
    bool conflict;     /* of WORKTREE_MERGE: the merge was undone */
    bool no_commit;    /* of WORKTREE_CHECK: no commit was made */
    struct slice text; /* a sentence about the failure, or about what was kept; of WORKTREE_LOOK:
                          the changes, empty when there are none */
    const struct process_end *process; /* of the git command; NULL: it was none's fault */
};

/* worktrees_open checks that `repository` (a directory, usually ".") is in a git repository with a
 * commit and a branch checked out, and git is there.  Errors say what to do.  `directory` is
 * DIR/worktrees.  It waits for git: a few dozen milliseconds. */
enum status worktrees_open(struct loop *loop, const char *repository, const char *directory,
                           struct slice run, bool commit_required, struct worktrees **out,
                           struct err *err);
/* worktrees_close frees.  Steps that were not done are dropped: git is killed.  NULL is fine. */
void worktrees_close(struct worktrees *all);

/* worktree_init names the place of an item; worktree_release frees the names. */
enum status worktree_init(struct worktrees *all, struct slice item, struct worktree *out,
                          struct err *err);
void worktree_release(struct worktree *worktree);

/* worktree_do queues a step; `done` is called from the loop, and what it is given lives until it
 * returns.  The worktree stays until then.  It cannot be stopped: git leaves its locks behind.
 * False when memory is exhausted. */
bool worktree_do(struct worktree *worktree, enum worktree_step step,
                 void (*done)(void *ctx, const struct worktree_end *end), void *ctx);

/* worktree_print writes the members worktree_path, branch_name, uncommitted_changes and error_logs
 * (null where empty). */
void worktree_print(const struct worktree *worktree, struct slice changes, struct slice logs,
                    struct jsonw *out);

#endif
