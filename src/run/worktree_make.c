/* worktree_make: the step that gives an item its worktree, new or that of an earlier attempt.
 *
 *     nothing is there --> add -b ----------------------------------------+--> base --> (made)
 *                            `-fails-> clear --> branch? --yes--> add ----+
 *                                                   `----no-> add -b -----+
 *     a directory is there --> whose? --ours, whole--------------------------> base
 *                                `------ours, half made-> clear --> ...
 *                                `------not ours-> (refused)
 *
 * `clear` takes away what a git that was killed has left: a registration without a directory, or a
 * worktree that was never finished (git keeps it locked as "initializing" until all files are
 * checked out).  No command ever ran in such a one, so there is nothing in it to lose.  A finished
 * worktree is never cleared: it may have the work of an earlier attempt.  Its index may still be
 * locked by a git that was killed with that attempt; nobody works there between attempts, so the
 * lock is taken away. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/worktree_steps.h"

#define UNFINISHED "initializing" /* what git's own lock says */

static void add(struct operation *op);

/* ---- the base -------------------------------------------------------------------------------- */

/* base_known takes the commit that the attempt begins from, when the branch is the item's. */
static void base_known(struct operation *op, const struct process_end *end)
{
    struct worktree *worktree = op->worktree;
    struct head head;

    if (!git_ok(end)) {
        operation_fail(op, "rev-parse", end);
        return;
    }
    if (!head_read(op->process, &head) || strlen(head.commit) >= sizeof(worktree->base)) {
        buf_addf(&op->text, "git rev-parse: cannot tell the HEAD of %s", worktree->path);
        operation_refuse(op);
        return;
    }
    if (!head_is_on(&head, worktree->branch)) {
        buf_addf(&op->text,
                 "the worktree %s is there, but has %s checked out instead of the branch %s: check "
                 "that out there, or move the worktree away (git worktree remove)",
                 worktree->path, head.branch, worktree->branch);
        operation_refuse(op);
        return;
    }
    snprintf(worktree->base, sizeof(worktree->base), "%s", head.commit);
    operation_done(op);
}

static void ask_base(struct operation *op)
{
    operation_git(op, base_known, op->worktree->path, "rev-parse", "HEAD", "--symbolic-full-name",
                  "HEAD", (char *)NULL);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void added(struct operation *op, const struct process_end *end);

static void branch_known(struct operation *op, const struct process_end *end)
{
    if (git_ok(end))
        operation_git(op, added, op->all->top, "worktree", "add", "-q", op->worktree->path,
                      op->worktree->branch, (char *)NULL);
    else
        add(op);
}

/* cleared goes on whether or not there was something to clear. */
static void cleared(struct operation *op, const struct process_end *end)
{
    char ref[PATH_MAX];

    (void)end;
    snprintf(ref, sizeof(ref), "refs/heads/%s", op->worktree->branch);
    operation_git(op, branch_known, op->all->top, "show-ref", "--verify", "-q", ref, (char *)NULL);
}

/* clear may be called only when no finished worktree is there. */
static void clear(struct operation *op)
{
    op->again = true;
    operation_git(op, cleared, op->all->top, "worktree", "remove", "-f", "-f", op->worktree->path,
                  (char *)NULL);
}

/* added goes on with what is in the way, once: something that is not there any more, or something
 * that came in between, of a git that a killed runner left to finish. */
static void added(struct operation *op, const struct process_end *end)
{
    if (git_ok(end)) {
        ask_base(op);
    } else if (op->again || end->error) {
        operation_fail(op, "worktree add", end);
    } else {
        op->again = true;
        if (access(op->worktree->path, F_OK) != 0 && errno == ENOENT)
            clear(op);
        else
            worktree_make(op);
    }
}

static void add(struct operation *op)
{
    operation_git(op, added, op->all->top, "worktree", "add", "-q", "--no-track", "-b",
                  op->worktree->branch, op->worktree->path, "HEAD", (char *)NULL);
}

/* ---- one that is there ----------------------------------------------------------------------- */

/* is_unfinished says whether git was cut off while it made the worktree. */
static bool is_unfinished(const char *git_dir)
{
    char path[PATH_MAX + 16], text[64];

    snprintf(path, sizeof(path), "%s/locked", git_dir);
    return worktree_file_read(path, text, sizeof(text)) &&
           strncmp(text, UNFINISHED, strlen(UNFINISHED)) == 0;
}

/* own_git_dir finds the worktree's part of the repository in what git says of it; NULL when it is a
 * worktree of something else, or only a directory in one. */
static const char *own_git_dir(const struct operation *op, const char *answer)
{
    char real[PATH_MAX];
    size_t top = 0, common = strlen(op->all->common_dir);
    const char *git_dir;

    if (!realpath(op->worktree->path, real))
        return NULL;
    top = strlen(real);
    if (strncmp(answer, real, top) != 0 || answer[top] != '\n')
        return NULL;
    git_dir = answer + top + 1;
    if (strncmp(git_dir, op->all->common_dir, common) != 0 ||
        strncmp(git_dir + common, "/worktrees/", 11) != 0 || strlen(git_dir) >= PATH_MAX)
        return NULL;
    return git_dir;
}

static void owner_known(struct operation *op, const struct process_end *end)
{
    char lock[PATH_MAX + 16];
    struct buf answer;

    buf_init(&answer, 4 * PATH_MAX);
    if (git_ok(end))
        git_line(op->process, &answer);
    const char *git_dir = own_git_dir(op, buf_str(&answer));
    if (!git_dir) {
        buf_addf(&op->text, "%s is there, but is no worktree of the repository %s: move it away",
                 op->worktree->path, op->all->top);
        operation_refuse(op);
    } else if (is_unfinished(git_dir)) {
        clear(op);
    } else {
        snprintf(lock, sizeof(lock), "%s/index.lock", git_dir);
        unlink(lock);
        ask_base(op);
    }
    buf_release(&answer);
}

void worktree_make(struct operation *op)
{
    const char *path = op->worktree->path;

    op->worktree->base[0] = '\0';
    if (rmdir(path) == 0 || errno == ENOENT) {
        add(op);
    } else if (errno == ENOTDIR) {
        buf_addf(&op->text, "%s is in the way of a worktree: it is no directory", path);
        operation_refuse(op);
    } else {
        operation_git(op, owner_known, path, "rev-parse", "--show-toplevel", "--absolute-git-dir",
                      (char *)NULL);
    }
}
