/* worktree: the names of the places, and the lane.
 *
 * Invariant of the lane: when it is not empty, its first operation runs (its timer is set, a git
 * process is under way, or we are in its callback); the others wait.  An operation leaves the lane
 * before its `done` is called, which may queue another. */
#include "run/worktree.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "core/field.h"
#include "run/artifact.h"
#include "run/evidence.h"
#include "run/worktree_parts.h"

#define BRANCH_ROOT "lazaret"
#define ITEM_SHOWN_MAX 200     /* bytes of an item in a commit */
#define TEXT_MAX (8u << 10)    /* bytes of what is said of a step's end */
#define CHANGES_MAX (4u << 10) /* bytes of the changes in the evidence */
#define LOGS_MAX (6u << 10)    /* bytes of the logs in it */

/* ---- names ----------------------------------------------------------------------------------- */

/* add_branch_part writes a text as one part of a branch's name.  Git refuses "..", and "." or
 * ".lock" at the end of a part: there the dot is escaped like other bytes.  It refuses the "~" of a
 * name that was cut, too; "," is in no other name. */
static void add_branch_part(struct slice text, struct buf *out)
{
    struct buf name;

    buf_init(&name, ARTIFACT_NAME_MAX);
    artifact_name(text, &name);
    for (size_t i = 0; i < name.len; i++) {
        struct slice rest = {name.ptr + i, name.len - i};
        if (slice_is(rest, ".") || slice_is(rest, ".lock") || slice_starts(rest, SLICE("..")))
            buf_add_str(out, "%2E");
        else
            buf_add_char(out, rest.ptr[0] == '~' ? ',' : rest.ptr[0]);
    }
    if (name.status != STATUS_OK && out->status == STATUS_OK)
        out->status = name.status;
    buf_release(&name);
}

/* add_line writes a text as one line. */
static void add_line(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++)
        buf_add_char(out,
                     (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F ? ' ' : text.ptr[i]);
}

enum status worktree_init(struct worktrees *all, struct slice item, struct worktree *out,
                          struct err *err)
{
    struct buf texts; /* the three, one behind the other, each with its NUL */

    buf_init(&texts, 3 * PATH_MAX);
    buf_addf(&texts, "%s/", all->directory);
    artifact_name(item, &texts);
    buf_add_char(&texts, '\0');
    size_t branch = texts.len;
    buf_addf(&texts, "%s/", all->prefix);
    add_branch_part(item, &texts);
    buf_add_char(&texts, '\0');
    size_t line = texts.len;
    add_line(field_head(item, ITEM_SHOWN_MAX), &texts);
    enum status status = buf_status(&texts, err);
    if (status == STATUS_OK && branch > PATH_MAX)
        status =
            err_set(err, STATUS_INVALID, "the path of a worktree is too long: %s", buf_str(&texts));
    if (status != STATUS_OK) {
        buf_release(&texts);
        return status;
    }
    *out = (struct worktree){
        .all = all, .path = texts.ptr, .branch = texts.ptr + branch, .item = texts.ptr + line};
    return STATUS_OK;
}

void worktree_release(struct worktree *worktree)
{
    mem_free((char *)(uintptr_t)worktree->path); /* the others are behind it */
    *worktree = (struct worktree){0};
}

void worktree_print(const struct worktree *worktree, struct slice changes, struct slice logs,
                    struct jsonw *out)
{
    jsonw_put_str(out, "worktree_path", worktree->path);
    jsonw_put_str(out, "branch_name", worktree->branch);
    if (changes.len > 0)
        evidence_put(out, "uncommitted_changes", changes, CHANGES_MAX);
    else
        jsonw_put_raw(out, "uncommitted_changes", SLICE("null"));
    if (logs.len > 0)
        evidence_put(out, "error_logs", logs, LOGS_MAX);
    else
        jsonw_put_raw(out, "error_logs", SLICE("null"));
}

/* ---- all of a run ---------------------------------------------------------------------------- */

/* put_directory writes DIR/worktrees/RUN, absolute: git is not called from here. */
static enum status put_directory(const char *directory, struct slice run, struct buf *out,
                                 struct err *err)
{
    char here[PATH_MAX];

    if (directory[0] != '/') {
        if (!getcwd(here, sizeof(here)))
            return err_set(err, STATUS_IO, "cannot tell the working directory: %s",
                           strerror(errno));
        buf_addf(out, "%s/", here);
    }
    buf_addf(out, "%s/", directory);
    artifact_name(run, out);
    return buf_status(out, err);
}

/* name_all fills in where the worktrees of the run are, and what its branches are called. */
static enum status name_all(struct worktrees *all, const char *directory, struct slice run,
                            struct err *err)
{
    struct buf place, prefix;

    buf_init(&place, PATH_MAX - 1);
    buf_init(&prefix, PATH_MAX - 1);
    buf_add_str(&prefix, BRANCH_ROOT "/");
    add_branch_part(run, &prefix);
    enum status status = put_directory(directory, run, &place, err);
    if (status == STATUS_OK)
        status = buf_status(&prefix, err);
    all->directory = place.ptr;
    all->prefix = prefix.ptr;
    return status;
}

enum status worktrees_open(struct loop *loop, const char *repository, const char *directory,
                           struct slice run, bool commit_required, struct worktrees **out,
                           struct err *err)
{
    struct worktrees *all = mem_zalloc(sizeof(*all));

    if (!all)
        return err_no_memory(err);
    *all = (struct worktrees){.loop = loop, .commit_required = commit_required, .end = &all->first};
    enum status status = name_all(all, directory, run, err);
    if (status == STATUS_OK)
        status = git_init(&all->git, err);
    if (status == STATUS_OK)
        status = worktrees_check(all, repository, err);
    if (status == STATUS_OK)
        *out = all;
    else
        worktrees_close(all);
    return status;
}

static void operation_free(struct operation *op)
{
    loop_timer_clear(op->all->loop, &op->start);
    process_free(op->process);
    buf_release(&op->text);
    mem_free(op);
}

void worktrees_close(struct worktrees *all)
{
    if (!all)
        return;
    while (all->first) {
        struct operation *op = all->first;
        all->first = op->next;
        operation_free(op);
    }
    if (all->directory)
        rmdir(all->directory); /* when all of its worktrees are gone */
    git_release(&all->git);
    mem_free(all->top);
    mem_free(all->git_dir);
    mem_free(all->common_dir);
    mem_free(all->directory);
    mem_free(all->prefix);
    mem_free(all);
}

/* ---- the lane -------------------------------------------------------------------------------- */

static void start(struct loop_timer *timer)
{
    worktree_begin((struct operation *)((char *)timer - offsetof(struct operation, start)));
}

bool worktree_do(struct worktree *worktree, enum worktree_step step,
                 void (*done)(void *ctx, const struct worktree_end *end), void *ctx)
{
    struct worktrees *all = worktree->all;
    struct operation *op = mem_zalloc(sizeof(*op));

    if (!op)
        return false;
    *op = (struct operation){.all = all,
                             .worktree = worktree,
                             .step = step,
                             .done = done,
                             .ctx = ctx,
                             .start = {.fire = start}};
    buf_init(&op->text, TEXT_MAX);
    if (!all->first && !loop_timer_set(all->loop, &op->start, (struct span){0})) {
        mem_free(op);
        return false;
    }
    *all->end = op;
    all->end = &op->next;
    return true;
}

/* finish takes the operation out of the lane, lets the next one begin, and tells whose it was.
 * Nothing but the operation is touched after that: the worktrees may be closed in `done`. */
static void finish(struct operation *op, bool ok)
{
    struct worktrees *all = op->all;

    BUG_ON(all->first != op);
    all->first = op->next;
    if (!all->first)
        all->end = &all->first;
    else if (!loop_timer_set(all->loop, &all->first->start, (struct span){0}))
        worktree_begin(all->first);
    op->end.ok = ok;
    op->end.text = buf_slice(&op->text);
    op->done(op->ctx, &op->end);
    process_free(op->process);
    buf_release(&op->text);
    mem_free(op);
}

void operation_done(struct operation *op)
{
    finish(op, true);
}

void operation_refuse(struct operation *op)
{
    finish(op, false);
}

void operation_fail(struct operation *op, const char *command, const struct process_end *end)
{
    git_words(command, op->process, end, &op->text);
    op->failed = *end;
    op->end.process = &op->failed;
    finish(op, false);
}

static void git_ended(void *ctx, const struct process_end *end)
{
    struct operation *op = ctx;

    op->then(op, end);
}

void operation_git(struct operation *op,
                   void (*then)(struct operation *op, const struct process_end *end),
                   const char *directory, ...)
{
    va_list args;

    process_free(op->process);
    op->then = then;
    va_start(args, directory);
    op->process = git_start(&op->all->git, op->all->loop, directory, args, git_ended, op);
    va_end(args);
    if (op->process)
        return;
    buf_add_str(&op->text, "out of memory");
    operation_refuse(op);
}
