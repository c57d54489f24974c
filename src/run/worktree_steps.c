/* worktree_steps: the scripts of the steps but for the first (worktree_make.c).
 *
 *     check    HEAD --moved, --commit-required--> (ok)
 *                   --not moved, --commit-required--> (no commit)
 *                   --> status --clean--> (ok)
 *                              --> add -A --> anything staged? --> commit --> (ok)
 *     merge    index locked? --wait--> branch checked out? --> merge --> (ok)
 *                                                                `-fails-> begun? --no--> (refused)
 *                   (conflict, or refused) <-- merge --abort <-- conflicts? <--yes--'
 *     remove   worktree remove --> branch -d --> (ok)
 *     look     status --> (the changes)
 *
 * A merge that somebody else has begun in the repository is never aborted: whether there is one is
 * asked before ours begins.  One that begins with our words is ours, of a runner that was killed.
 */
#include "run/worktree_steps.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_MAX 512
#define LOCK_TRIES_MAX 10 /* more tries of a merge while the index is locked by another git */
#define LOCK_WAIT_MS 100  /* between them */
#define STATUS_COMMAND "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal"

/* ---- what they share ------------------------------------------------------------------------- */

bool worktree_file_read(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    size_t len = fread(out, 1, size - 1, file);
    out[len] = '\0';
    fclose(file);
    return true;
}

bool head_read(const struct process *process, struct head *out)
{
    struct buf answer;

    buf_init(&answer, sizeof(out->text) - 1);
    git_line(process, &answer);
    snprintf(out->text, sizeof(out->text), "%s", buf_str(&answer));
    bool whole = answer.status == STATUS_OK;
    buf_release(&answer);
    char *line_end = strchr(out->text, '\n');
    if (!line_end || !whole)
        return false;
    *line_end = '\0';
    out->commit = out->text;
    out->branch = line_end + 1;
    return true;
}

bool head_is_on(const struct head *head, const char *branch)
{
    static const char root[] = "refs/heads/";

    return strncmp(head->branch, root, strlen(root)) == 0 &&
           strcmp(head->branch + strlen(root), branch) == 0;
}

/* output_of is what a command wrote, whole or, when it was too much, its beginning. */
static bool output_of(const struct operation *op, struct buf *out)
{
    const struct capture *heard = process_out(op->process);

    if (capture_cut(heard) == 0) {
        capture_print(heard, out);
        return true;
    }
    buf_add(out, heard->head, heard->head_len);
    return false;
}

/* has_merge says whether a merge is under way in the repository. */
static bool has_merge(const struct worktrees *all)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/MERGE_HEAD", all->git_dir);
    return access(path, F_OK) == 0;
}

/* has_own_merge says whether that is one of ours. */
static bool has_own_merge(const struct worktrees *all)
{
    char path[PATH_MAX + 16], text[64];

    snprintf(path, sizeof(path), "%s/MERGE_MSG", all->git_dir);
    return has_merge(all) && worktree_file_read(path, text, sizeof(text)) &&
           strncmp(text, WORKTREE_MERGE_WORDS, strlen(WORKTREE_MERGE_WORDS)) == 0;
}

/* ---- check ----------------------------------------------------------------------------------- */

static void committed(struct operation *op, const struct process_end *end)
{
    if (git_ok(end))
        operation_done(op);
    else
        operation_fail(op, "commit", end);
}

/* staged commits, when something is staged: what git status shows may come to nothing (ends of
 * lines). */
static void staged(struct operation *op, const struct process_end *end)
{
    char message[MESSAGE_MAX];

    snprintf(message, sizeof(message), "lazaret: %s", op->worktree->item);
    if (git_ok(end))
        operation_done(op);
    else if (end->error || end->signalled || end->exit_code != 1)
        operation_fail(op, "diff", end);
    else
        operation_git(op, committed, op->worktree->path, "commit", "-q", "-m", message,
                      (char *)NULL);
}

static void all_added(struct operation *op, const struct process_end *end)
{
    if (git_ok(end))
        operation_git(op, staged, op->worktree->path, "diff", "--cached", "--quiet", (char *)NULL);
    else
        operation_fail(op, "add", end);
}

static void status_known(struct operation *op, const struct process_end *end)
{
    if (!git_ok(end))
        operation_fail(op, "status", end);
    else if (process_out(op->process)->total == 0)
        operation_done(op);
    else
        operation_git(op, all_added, op->worktree->path, "add", "-A", (char *)NULL);
}

static void head_known(struct operation *op, const struct process_end *end)
{
    const struct worktree *worktree = op->worktree;
    struct head head;

    if (!git_ok(end)) {
        operation_fail(op, "rev-parse", end);
    } else if (!head_read(op->process, &head) || !head_is_on(&head, worktree->branch)) {
        buf_addf(&op->text,
                 "the command left its worktree without the branch %s checked out: what it did "
                 "cannot be merged",
                 worktree->branch);
        operation_refuse(op);
    } else if (!op->all->commit_required) {
        operation_git(op, status_known, worktree->path, STATUS_COMMAND, (char *)NULL);
    } else if (strcmp(head.commit, worktree->base) == 0) {
        op->end.no_commit = true;
        buf_addf(&op->text, "the command made no commit: HEAD is still %.12s", worktree->base);
        operation_refuse(op);
    } else {
        operation_done(op);
    }
}

void worktree_check(struct operation *op)
{
    operation_git(op, head_known, op->worktree->path, "rev-parse", "HEAD", "--symbolic-full-name",
                  "HEAD", (char *)NULL);
}

/* ---- merge ----------------------------------------------------------------------------------- */

static bool is_locked(const struct worktrees *all)
{
    char lock[PATH_MAX + 16];

    snprintf(lock, sizeof(lock), "%s/index.lock", all->git_dir);
    return access(lock, F_OK) == 0;
}

/* waits begins again a little later, when another git is at work in the repository: a person's, an
 * editor's.  Git itself does not wait, and a merge that meets the lock is left half done. */
static bool waits(struct operation *op)
{
    if (!is_locked(op->all) || op->tries++ >= LOCK_TRIES_MAX ||
        !loop_timer_set(op->all->loop, &op->start, span_ms(LOCK_WAIT_MS)))
        return false;
    buf_clear(&op->text);
    op->end = (struct worktree_end){0};
    return true;
}

/* undone ends a merge that failed; its words stand in the text already. */
static void undone(struct operation *op, const struct process_end *end)
{
    if (!git_ok(end) && has_merge(op->all)) {
        if (waits(op))
            return;
        buf_add_str(&op->text, "; and it could not be undone: ");
        git_words("merge --abort", op->process, end, &op->text);
    }
    operation_refuse(op);
}

static void conflicts_known(struct operation *op, const struct process_end *end)
{
    struct buf names;

    buf_init(&names, CAPTURE_HEAD_MAX + CAPTURE_TAIL_MAX);
    bool whole = output_of(op, &names);
    if (git_ok(end) && names.len > 0) {
        buf_clear(&op->text);
        buf_addf(&op->text, "merge conflict of %s in ", op->worktree->branch);
        worktree_names(buf_slice(&names), whole, &op->text);
    }
    buf_release(&names);
    operation_git(op, undone, op->all->top, "merge", "--abort", (char *)NULL);
}

/* told_of_conflicts asks what the merge said, not what is there: another run may undo it, too. */
static bool told_of_conflicts(const struct operation *op)
{
    struct buf said;

    buf_init(&said, CAPTURE_HEAD_MAX + CAPTURE_TAIL_MAX + 256);
    capture_print(process_out(op->process), &said);
    bool found = strstr(buf_str(&said), "CONFLICT (") != NULL;
    buf_release(&said);
    return found;
}

static void merged(struct operation *op, const struct process_end *end)
{
    if (git_ok(end)) {
        operation_done(op);
        return;
    }
    op->failed = *end;
    op->end.process = &op->failed;
    op->end.conflict = told_of_conflicts(op);
    git_words("merge", op->process, end, &op->text);
    if (!has_merge(op->all)) {
        if (!waits(op))
            operation_refuse(op);
    } else {
        operation_git(op, conflicts_known, op->all->top, "diff", "--name-only", "--diff-filter=U",
                      "-z", (char *)NULL);
    }
}

static void branch_known(struct operation *op, const struct process_end *end)
{
    char message[MESSAGE_MAX];

    if (!git_ok(end)) {
        buf_addf(&op->text,
                 "%s has no branch checked out (its HEAD is detached): check out the branch that "
                 "the work is merged into (git switch BRANCH)",
                 op->all->top);
        operation_refuse(op);
        return;
    }
    snprintf(message, sizeof(message), WORKTREE_MERGE_WORDS "%s", op->worktree->item);
    operation_git(op, merged, op->all->top, "merge", "-q", "--no-ff", "-m", message,
                  op->worktree->branch, (char *)NULL);
}

static void run_merge(struct operation *op)
{
    operation_git(op, branch_known, op->all->top, "symbolic-ref", "-q", "HEAD", (char *)NULL);
}

/* left_undone goes on after a merge of ours was aborted that a killed runner had left. */
static void left_undone(struct operation *op, const struct process_end *end)
{
    if (git_ok(end))
        run_merge(op);
    else
        operation_fail(op, "merge --abort", end);
}

void worktree_merge(struct operation *op)
{
    if (waits(op))
        return;
    if (is_locked(op->all)) {
        buf_addf(&op->text,
                 "another git is at work in %s, or was killed there: wait for it, or remove "
                 "%s/index.lock",
                 op->all->top, op->all->git_dir);
        operation_refuse(op);
    } else if (has_own_merge(op->all)) {
        operation_git(op, left_undone, op->all->top, "merge", "--abort", (char *)NULL);
    } else if (has_merge(op->all)) {
        buf_addf(
            &op->text,
            "a merge is under way in %s: finish it (git commit) or undo it (git merge --abort)",
            op->all->top);
        operation_refuse(op);
    } else {
        run_merge(op);
    }
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* branch_gone ends it: a branch that git would not delete is kept. */
static void branch_gone(struct operation *op, const struct process_end *end)
{
    if (!git_ok(end)) {
        buf_addf(&op->text, "the branch %s is kept: ", op->worktree->branch);
        git_words("branch -d", op->process, end, &op->text);
    }
    operation_done(op);
}

static void removed(struct operation *op, const struct process_end *end)
{
    const char *path = op->worktree->path;
    struct buf words;

    if (git_ok(end) || (!end->error && access(path, F_OK) != 0 && errno == ENOENT)) {
        operation_git(op, branch_gone, op->all->top, "branch", "-q", "-d", op->worktree->branch,
                      (char *)NULL);
        return;
    }
    buf_init(&words, MESSAGE_MAX * 8);
    git_words("worktree remove", op->process, end, &words);
    if (!strstr(buf_str(&words), "contains modified or untracked files")) {
        operation_fail(op, "worktree remove", end);
    } else {
        buf_addf(&op->text, "the worktree %s is kept: it has changes that were not committed",
                 path);
        operation_done(op);
    }
    buf_release(&words);
}

void worktree_remove(struct operation *op)
{
    operation_git(op, removed, op->all->top, "-c", "status.showUntrackedFiles=normal", "worktree",
                  "remove", op->worktree->path, (char *)NULL);
}

/* ---- look ------------------------------------------------------------------------------------ */

static void changes_known(struct operation *op, const struct process_end *end)
{
    struct buf status;

    if (!git_ok(end)) {
        operation_fail(op, "status", end);
        return;
    }
    buf_init(&status, CAPTURE_HEAD_MAX + CAPTURE_TAIL_MAX);
    bool whole = output_of(op, &status);
    worktree_changes(buf_slice(&status), whole, &op->text);
    buf_release(&status);
    operation_done(op);
}

void worktree_look(struct operation *op)
{
    operation_git(op, changes_known, op->worktree->path, STATUS_COMMAND, (char *)NULL);
}

/* ---- the steps ------------------------------------------------------------------------------- */

void worktree_begin(struct operation *op)
{
    static void (*const scripts[])(struct operation * op) = {
        [WORKTREE_MAKE] = worktree_make,   [WORKTREE_CHECK] = worktree_check,
        [WORKTREE_MERGE] = worktree_merge, [WORKTREE_REMOVE] = worktree_remove,
        [WORKTREE_LOOK] = worktree_look,
    };

    scripts[op->step](op);
}
