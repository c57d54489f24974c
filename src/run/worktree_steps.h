/* worktree_steps: the scripts of the steps, and what they share.  See worktree.h. */
#ifndef LAZARET_RUN_WORKTREE_STEPS_H
#define LAZARET_RUN_WORKTREE_STEPS_H

#include "run/worktree_parts.h"

void worktree_make(struct operation *op);
void worktree_check(struct operation *op);
void worktree_merge(struct operation *op);
void worktree_remove(struct operation *op);
void worktree_look(struct operation *op);

/* struct head: what `git rev-parse HEAD --symbolic-full-name HEAD` says. */
struct head {
    char text[512];
    const char *commit; /* its hash */
    const char *branch; /* refs/heads/NAME; "HEAD" when it is detached */
};

/* head_read is false when the answer is none. */
bool head_read(const struct process *process, struct head *out);
bool head_is_on(const struct head *head, const char *branch);

/* worktree_file_read reads the beginning of a small file as a text; false when there is none. */
bool worktree_file_read(const char *path, char *out, size_t size);

#endif
