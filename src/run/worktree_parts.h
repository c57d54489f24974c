/* worktree_parts: what the parts of the worktrees share: the lane of steps, and one step on its
 * way.  See worktree.h. */
#ifndef LAZARET_RUN_WORKTREE_PARTS_H
#define LAZARET_RUN_WORKTREE_PARTS_H

#include "run/git.h"
#include "run/worktree.h"

#define WORKTREE_MERGE_WORDS "lazaret: merge " /* how the message of a merge of ours begins */

struct worktrees {
    struct loop *loop;
    struct git git;
    bool commit_required;
    char *top;        /* of the repository's working tree: absolute, as all paths here */
    char *git_dir;    /* of that working tree */
    char *common_dir; /* of all working trees of the repository */
    char *directory;  /* where the items' worktrees of this run are: DIR/worktrees/RUN */
    char *prefix;     /* of their branches: lazaret/RUN */
    struct operation *first, **end; /* steps that wait; the first one runs */
};

/* struct operation: one step of one worktree.  A script goes on in `then`, which is called when the
 * git command that was started last has ended. */
struct operation {
    struct worktrees *all;
    struct worktree *worktree;
    enum worktree_step step;
    void (*done)(void *ctx, const struct worktree_end *end);
    void *ctx;
    struct operation *next;
    struct loop_timer start; /* the script is begun from the loop, and again after a wait */
    void (*then)(struct operation *op, const struct process_end *end);
    struct process *process;   /* that runs, or ran last */
    struct process_end failed; /* of the command that the failure is about */
    struct worktree_end end;
    struct buf text; /* of the end */
    bool again;      /* WORKTREE_MAKE: what was in the way is cleared */
    int tries;       /* of WORKTREE_MERGE: that met a lock */
};

/* operation_git goes on with `git -C directory ARG...` (the arguments end in NULL), then with
 * `then`. */
void operation_git(struct operation *op,
                   void (*then)(struct operation *op, const struct process_end *end),
                   const char *directory, ...) __attribute__((sentinel));

/* operation_done ends a step well; its text stands in `op->text`. */
void operation_done(struct operation *op);

/* operation_fail ends it with git's own words about the command that ended last; operation_refuse
 * with the sentence that stands in `op->text`, which is no command's fault. */
void operation_fail(struct operation *op, const char *command, const struct process_end *end);
void operation_refuse(struct operation *op);

/* worktree_begin starts the script of a step (worktree_steps.c). */
void worktree_begin(struct operation *op);

/* worktrees_check asks git about the repository and fills in what it says (worktree_open.c). */
enum status worktrees_check(struct worktrees *all, const char *repository, struct err *err);

/* worktree_changes appends what `git status --porcelain -z` says, for people: "a.c modified, b
 * untracked". `whole` is false when the text is only the beginning. */
void worktree_changes(struct slice status, bool whole, struct buf *out);

/* worktree_names appends file names that end in NUL, with commas between them. */
void worktree_names(struct slice names, bool whole, struct buf *out);

#endif
