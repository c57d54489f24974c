/* worktree_open: what must be true of a repository before items get worktrees of it.
 *
 * Each question is one git command, asked on a loop of its own: nothing else of the program is
 * served meanwhile.  An answer that will not do becomes a sentence that says what to do. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "run/worktree_parts.h"

#define ANSWER_MAX (64u << 10)

/* struct inquiry: the questions to one repository. */
struct inquiry {
    struct worktrees *all;
    const char *repository; /* as it was given */
    struct loop *loop;
    struct process *process; /* of the last question */
    struct process_end end;  /* how it ended */
    struct buf answer;       /* what it wrote, without the line end */
    struct err *err;
};

static void heard(void *ctx, const struct process_end *end)
{
    struct inquiry *q = ctx;

    q->end = *end;
    loop_stop(q->loop);
}

/* ask runs one command, in the repository or, when that is known, at the top of its working tree.
 * What git answers is no error; that it cannot be run is. */
__attribute__((sentinel)) static enum status ask(struct inquiry *q, ...)
{
    const char *directory = q->all->top ? q->all->top : q->repository;
    va_list args;

    process_free(q->process);
    va_start(args, q);
    q->process = git_start(&q->all->git, q->loop, directory, args, heard, q);
    va_end(args);
    if (!q->process)
        return err_no_memory(q->err);
    loop_run(q->loop);
    buf_clear(&q->answer);
    git_line(q->process, &q->answer);
    if (q->end.error == ENOENT)
        return err_set(q->err, STATUS_UNAVAILABLE,
                       "git is not in PATH: install it, or run without --worktree");
    if (q->end.error)
        return err_set(q->err, STATUS_UNAVAILABLE, "git cannot be run: %s", strerror(q->end.error));
    return buf_status(&q->answer, q->err);
}

/* wrong is an answer that will not do, in git's own words. */
static enum status wrong(struct inquiry *q, const char *command)
{
    struct buf words;

    buf_init(&words, ANSWER_MAX);
    git_words(command, q->process, &q->end, &words);
    err_set(q->err, STATUS_INVALID, "--worktree: %s: %s", q->repository, buf_str(&words));
    buf_release(&words);
    return STATUS_INVALID;
}

static bool said(const struct inquiry *q, const char *words)
{
    struct buf text;

    buf_init(&text, ANSWER_MAX);
    capture_print(process_err(q->process), &text);
    bool found = strstr(buf_str(&text), words) != NULL;
    buf_release(&text);
    return found;
}

/* check_kind finds out whether there is a working tree at all. */
static enum status check_kind(struct inquiry *q)
{
    enum status status =
        ask(q, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", (char *)NULL);

    if (status != STATUS_OK)
        return status;
    if (!git_ok(&q->end) && said(q, "not a git repository"))
        return err_set(q->err, STATUS_INVALID,
                       "%s is in no git repository: --worktree needs one (git init), or run "
                       "without it",
                       q->repository);
    if (!git_ok(&q->end))
        return wrong(q, "rev-parse");
    if (slice_starts(buf_slice(&q->answer), SLICE("true\n")))
        return err_set(
            q->err, STATUS_INVALID,
            "%s is a bare repository: --worktree needs one with files checked out, which "
            "the work is merged into",
            q->repository);
    if (!slice_is(buf_slice(&q->answer), "false\ntrue"))
        return err_set(q->err, STATUS_INVALID,
                       "%s is inside the .git directory: run from the working tree above it",
                       q->repository);
    return STATUS_OK;
}

/* learn asks for a path and keeps it. */
static enum status learn(struct inquiry *q, const char *option, char **out)
{
    enum status status = ask(q, "rev-parse", "--path-format=absolute", option, (char *)NULL);

    if (status == STATUS_OK && !git_ok(&q->end))
        status = wrong(q, "rev-parse");
    if (status == STATUS_OK && !(*out = mem_strdup(buf_str(&q->answer))))
        status = err_no_memory(q->err);
    return status;
}

static enum status check_commit(struct inquiry *q)
{
    enum status status = ask(q, "rev-parse", "-q", "--verify", "HEAD^{commit}", (char *)NULL);

    if (status == STATUS_OK && !git_ok(&q->end))
        status = err_set(q->err, STATUS_INVALID,
                         "%s has no commit yet: make one first (git commit), as every worktree "
                         "begins from it",
                         q->repository);
    return status;
}

static enum status check_branch(struct inquiry *q)
{
    enum status status = ask(q, "symbolic-ref", "-q", "HEAD", (char *)NULL);

    if (status == STATUS_OK && !git_ok(&q->end))
        status =
            err_set(q->err, STATUS_INVALID,
                    "%s has no branch checked out (its HEAD is detached): check out the branch "
                    "that the work is merged into (git switch BRANCH)",
                    q->repository);
    return status;
}

/* check_free finds a branch that has the name of a directory of ours: git cannot have both. */
static enum status check_free(struct inquiry *q, const char *name, size_t len)
{
    struct buf ref;

    buf_init(&ref, ANSWER_MAX);
    buf_addf(&ref, "refs/heads/%.*s", (int)len, name);
    enum status status = buf_status(&ref, q->err);
    if (status == STATUS_OK)
        status = ask(q, "show-ref", "--verify", "-q", buf_str(&ref), (char *)NULL);
    if (status == STATUS_OK && git_ok(&q->end))
        status = err_set(q->err, STATUS_CONFLICT,
                         "%s has a branch %.*s, which is in the way of the items' branches: rename "
                         "it (git branch -m)",
                         q->repository, (int)len, name);
    buf_release(&ref);
    return status;
}

/* check_place makes sure that the worktrees would not lie among the files of the repository, where
 * they would be untracked files of it.  A place that is ignored, or that is outside (which git says
 * with another code), is fine. */
static enum status check_place(struct inquiry *q)
{
    enum status status = ask(q, "check-ignore", "-q", "--", q->all->directory, (char *)NULL);

    if (status == STATUS_OK && !q->end.signalled && q->end.exit_code == 1)
        status = err_set(q->err, STATUS_INVALID,
                         "the worktrees would lie inside the repository, in %s: give --data a "
                         "directory outside of it, or put that one into .gitignore",
                         q->all->directory);
    return status;
}

/* check_author finds out who commits.  Names of ours stand in for what nobody configured. */
static enum status check_author(struct inquiry *q)
{
    struct git *git = &q->all->git;
    bool name, email;

    git->name_given = git->email_given = true; /* ours must not be what is found */
    enum status status = ask(q, "config", "user.name", (char *)NULL);
    name = git_ok(&q->end);
    if (status == STATUS_OK)
        status = ask(q, "config", "user.email", (char *)NULL);
    email = git_ok(&q->end);
    git->name_given = name;
    git->email_given = email;
    return status;
}

static enum status check_all(struct inquiry *q)
{
    struct worktrees *all = q->all;
    enum status status = check_kind(q);

    if (status == STATUS_OK)
        status = learn(q, "--show-toplevel", &all->top);
    if (status == STATUS_OK)
        status = learn(q, "--git-dir", &all->git_dir);
    if (status == STATUS_OK)
        status = learn(q, "--git-common-dir", &all->common_dir);
    if (status == STATUS_OK)
        status = check_commit(q);
    if (status == STATUS_OK)
        status = check_branch(q);
    if (status == STATUS_OK)
        status = check_free(q, all->prefix, strcspn(all->prefix, "/"));
    if (status == STATUS_OK)
        status = check_free(q, all->prefix, strlen(all->prefix));
    if (status == STATUS_OK)
        status = check_place(q);
    if (status == STATUS_OK)
        status = check_author(q);
    if (status == STATUS_OK)
        status = git_lock(&all->git, all->common_dir, q->err);
    return status;
}

enum status worktrees_check(struct worktrees *all, const char *repository, struct err *err)
{
    struct inquiry q = {.all = all, .repository = repository, .err = err};
    enum status status = loop_open(&q.loop, err);

    if (status != STATUS_OK)
        return status;
    buf_init(&q.answer, ANSWER_MAX);
    status = check_all(&q);
    process_free(q.process);
    buf_release(&q.answer);
    loop_close(q.loop);
    return status;
}
