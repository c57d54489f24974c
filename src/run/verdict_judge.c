/* verdict_judge: finding the cause of a failure.
 *
 * `cause_of` asks in the order of the table in verdict.h; the first cause that applies is it.  What
 * each means stands in one row of `causes`.  A cause that is known better than the command could
 * tell it (its time was over, the kernel ended it) has a sentence of its own, and what the command
 * said last is kept beside it; else the command's last words are the message. */
#include "run/verdict_judge.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "core/failure.h"
#include "core/field.h"

#define COMMAND_SHOWN_MAX 200     /* bytes of the command in a message */
#define LINE_MAX_BYTES (2u << 10) /* bytes of a line of standard error in a message */
#define WORDS_TAIL_MAX (2u << 10) /* bytes of standard error that are searched for words */
#define WORDS_LINES_MAX 5         /* and lines, from the end */

#define EXIT_NOT_EXECUTABLE 126 /* as shells have it */
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

enum cause {
    CAUSE_CANCELLED,
    CAUSE_INTERRUPTED,
    CAUSE_TIMEOUT,
    CAUSE_REFUSED, /* there was no room to start it */
    CAUSE_KERNEL,  /* ended for lack of memory */
    CAUSE_WORDS,   /* it said that something ran out */
    CAUSE_VALIDATE,
    CAUSE_WORKTREE,
    CAUSE_CONFLICT,
    CAUSE_COMMIT,
    CAUSE_UNSTARTABLE, /* the command is not there, or is none */
    CAUSE_EXIT,
    CAUSE_SIGNAL,
    CAUSE_OTHER,
};

/* What each cause means.  The class of a conflict is given as its message has names of files in it,
 * in which the engine would look for words. */
static const struct cause_row {
    const char *type, *class;
    bool overheard;
} causes[] = {
    [CAUSE_CANCELLED] = {"Unknown", NULL, true},
    [CAUSE_INTERRUPTED] = {"Unknown", "crashed", true},
    [CAUSE_TIMEOUT] = {"Timeout", "timeout", true},
    [CAUSE_REFUSED] = {"ResourceExhausted", "congestion", true},
    [CAUSE_KERNEL] = {"ResourceExhausted", "congestion", true},
    [CAUSE_WORDS] = {"ResourceExhausted", "congestion", false},
    [CAUSE_VALIDATE] = {"ValidationFailed", NULL, false},
    [CAUSE_WORKTREE] = {"WorktreeError", NULL, false},
    [CAUSE_CONFLICT] = {"MergeConflict", "unknown", false},
    [CAUSE_COMMIT] = {"CommitValidationFailed", NULL, false},
    [CAUSE_UNSTARTABLE] = {"CommandFailed", NULL, true},
    [CAUSE_EXIT] = {"CommandFailed", NULL, false},
    [CAUSE_SIGNAL] = {"CommandFailed", NULL, false},
    [CAUSE_OTHER] = {"Unknown", NULL, false},
};

/* ---- words ----------------------------------------------------------------------------------- */

/* Phrases of the C library, of common languages and of shells.  They match whole words, without
 * case.  `with` must stand in the same line. */
static const struct phrase {
    const char *text, *with;
} phrases[] = {
    {"no space left on device", NULL},
    {"disk quota exceeded", NULL},
    {"cannot allocate memory", NULL},
    {"out of memory", NULL},
    {"virtual memory exhausted", NULL},
    {"memory exhausted", NULL},
    {"too many open files", NULL},
    {"resource temporarily unavailable", "fork"},
    {"std::bad_alloc", NULL},
    {"memoryerror", NULL},
    {"outofmemoryerror", NULL},
    {"enospc", NULL},
    {"edquot", NULL},
    {"enomem", NULL},
    {"emfile", NULL},
    {"enfile", NULL},
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* line_has says whether a phrase stands in a line, as whole words. */
static bool line_has(struct slice line, const char *phrase)
{
    size_t len = strlen(phrase), i;

    for (size_t at = 0; at + len <= line.len; at++) {
        if (at > 0 && is_word(line.ptr[at - 1]))
            continue;
        for (i = 0; i < len && lower(line.ptr[at + i]) == phrase[i];)
            i++;
        if (i == len && (at + len == line.len || !is_word(line.ptr[at + len])))
            return true;
    }
    return false;
}

static bool line_tells(struct slice line)
{
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
        if (line_has(line, phrases[i].text) &&
            (!phrases[i].with || line_has(line, phrases[i].with)))
            return true;
    return false;
}

/* last_line cuts the last line that is not blank off a text; false when there is none. */
static bool last_line(struct slice *text, struct slice *line)
{
    while (text->len > 0 && is_blank(text->ptr[text->len - 1]))
        text->len--;
    size_t from = text->len;
    while (from > 0 && text->ptr[from - 1] != '\n')
        from--;
    *line = (struct slice){text->ptr + from, text->len - from};
    text->len = from;
    return line->len > 0;
}

bool verdict_exhausted(struct slice text)
{
    struct slice line;

    for (int i = 0; i < WORDS_LINES_MAX && last_line(&text, &line); i++)
        if (line_tells(line))
            return true;
    return false;
}

/* words_tell looks at what the command said, or at the sentence that stands for it. */
static bool words_tell(const struct verdict_facts *facts)
{
    struct buf tail;
    bool found = verdict_exhausted(facts->message);

    if (found || !facts->err || facts->err->total == 0)
        return found;
    buf_init(&tail, WORDS_TAIL_MAX);
    capture_tail(facts->err, WORDS_TAIL_MAX, &tail);
    found = verdict_exhausted(buf_slice(&tail));
    buf_release(&tail);
    return found;
}

/* ---- the cause ------------------------------------------------------------------------------- */

/* is_shortage is true for the errors of a start that was refused for lack of something. */
static bool is_shortage(int error)
{
    return error == ENOMEM || error == EAGAIN || error == EMFILE || error == ENFILE ||
           error == ENOSPC || error == EDQUOT || error == ENOBUFS;
}

/* is_lasting is true for the errors of an exec that another try would meet again. */
static bool is_lasting(int error)
{
    return error == ENOENT || error == EACCES || error == EPERM || error == ENOEXEC ||
           error == E2BIG || error == ENOTDIR || error == EISDIR || error == ELOOP ||
           error == ENAMETOOLONG || error == EINVAL;
}

static bool exec_failed(const struct process_end *end)
{
    return end && end->error && end->what && strcmp(end->what, "exec") == 0;
}

static enum cause cause_of_end(const struct verdict_facts *facts)
{
    const struct process_end *end = facts->end;

    if (!end)
        return CAUSE_OTHER;
    if (exec_failed(end))
        return CAUSE_UNSTARTABLE;
    if (end->error)
        return facts->worktree.len > 0 ? CAUSE_WORKTREE : CAUSE_OTHER;
    if (end->signalled)
        return CAUSE_SIGNAL;
    return end->exit_code != 0 ? CAUSE_EXIT : CAUSE_OTHER;
}

static enum cause cause_of(const struct verdict_facts *facts)
{
    const struct process_end *end = facts->end;

    if (facts->cancelled)
        return CAUSE_CANCELLED;
    if (facts->interrupted)
        return CAUSE_INTERRUPTED;
    if (end && end->timed_out)
        return CAUSE_TIMEOUT;
    if (end && is_shortage(end->error))
        return CAUSE_REFUSED;
    if (end && end->oom_killed)
        return CAUSE_KERNEL;
    if (!facts->invalid && !facts->conflict && words_tell(facts))
        return CAUSE_WORDS;
    switch (facts->step) {
    case STEP_VALIDATE:
        return CAUSE_VALIDATE;
    case STEP_COMMIT:
        return CAUSE_COMMIT;
    case STEP_WORKTREE:
        return CAUSE_WORKTREE;
    case STEP_MERGE:
        return facts->conflict ? CAUSE_CONFLICT : CAUSE_WORKTREE;
    case STEP_COMMAND:
        break;
    }
    return cause_of_end(facts);
}

static const char *class_of(const struct verdict_facts *facts, enum cause cause)
{
    if (facts->invalid && cause != CAUSE_CANCELLED && cause != CAUSE_INTERRUPTED)
        return "invalid_input";
    if (exec_failed(facts->end) && is_lasting(facts->end->error))
        return "invalid_input";
    return causes[cause].class;
}

/* ---- the message ----------------------------------------------------------------------------- */

/* error_text is the C library's text for an errno, whatever the locale. */
static const char *error_text(int error)
{
    const char *text = strerrordesc_np(error);

    return text ? text : "unknown error";
}

/* say_command writes the command, cut to what a sentence bears. */
static void say_command(const struct verdict_facts *facts, struct buf *out)
{
    struct slice shown = field_head(facts->command, COMMAND_SHOWN_MAX);

    if (shown.len == 0)
        shown = SLICE("the command");
    buf_add_slice(out, shown);
    if (shown.len < facts->command.len)
        buf_add_str(out, "...");
}

/* say_seconds writes a span as a person would: 90 s, 2.5 s, 0.25 s. */
static void say_seconds(struct span span, struct buf *out)
{
    char text[NUMBER_TEXT_SIZE];
    int64_t unit_us = span.us >= 1000000 ? 100000 : span.us >= 1000 ? 1000 : 1;
    int64_t units = span.us / unit_us + (span.us % unit_us * 2 >= unit_us);
    size_t len = number_format((double)units / (double)(1000000 / unit_us), text);

    buf_addf(out, "%.*s s", (int)len, text);
}

/* say_start writes why a command could not be started. */
static void say_start(const struct verdict_facts *facts, struct buf *out)
{
    const struct process_end *end = facts->end;

    say_command(facts, out);
    if (exec_failed(end) && end->error == ENOENT)
        buf_add_str(out, ": command not found");
    else if (exec_failed(end))
        buf_addf(out, ": cannot be run: %s", error_text(end->error));
    else
        buf_addf(out, ": cannot be started: %s: %s", end->what ? end->what : "start",
                 error_text(end->error));
}

/* say_end writes how the command ended. */
static void say_end(const struct verdict_facts *facts, struct buf *out)
{
    const struct process_end *end = facts->end;
    char name[16];

    if (end && end->error) {
        say_start(facts, out);
        return;
    }
    say_command(facts, out);
    if (!end)
        buf_add_str(out, " was not run");
    else if (end->signalled)
        buf_addf(out, " killed by %s", signal_name(end->signal, name));
    else if (end->exit_code != 0)
        buf_addf(out, " failed with exit code %d", end->exit_code);
    else if (end->stopped)
        buf_add_str(out, " was stopped");
    else
        buf_add_str(out, " said that it failed");
}

/* say_own writes the sentence of a cause that has one; false when it has none. */
static bool say_own(const struct verdict_facts *facts, enum cause cause, struct buf *out)
{
    switch (cause) {
    case CAUSE_CANCELLED:
        buf_add_str(out, "cancelled");
        return true;
    case CAUSE_INTERRUPTED:
        buf_add_str(out, "interrupted: the runner was stopped");
        return true;
    case CAUSE_TIMEOUT:
        buf_add_str(out, "timed out after ");
        say_seconds(facts->timeout.us > 0 ? facts->timeout : facts->end->duration, out);
        return true;
    case CAUSE_KERNEL:
        say_command(facts, out);
        buf_add_str(out, " was killed by the kernel: out of memory");
        return true;
    case CAUSE_REFUSED:
    case CAUSE_UNSTARTABLE:
        say_start(facts, out);
        return true;
    default:
        return false;
    }
}

static void say_fallback(const struct verdict_facts *facts, enum cause cause, struct buf *out)
{
    if (cause == CAUSE_COMMIT)
        buf_add_str(out, "no commit was made");
    else if (cause == CAUSE_CONFLICT)
        buf_add_str(out, "the merge has conflicts");
    else
        say_end(facts, out);
}

/* say writes the message.  The cause's own sentence comes first for what happened to the runner, a
 * sentence that was given comes before all else. */
static void say(const struct verdict_facts *facts, enum cause cause, struct judgement *out)
{
    bool given = facts->message.len > 0 && cause > CAUSE_INTERRUPTED;

    if (given)
        buf_add_slice(&out->message, field_head(facts->message, JUDGE_MESSAGE_MAX));
    else if (say_own(facts, cause, &out->message))
        return;
    else if (out->last_line.len > 0)
        buf_add_slice(&out->message, field_head(buf_slice(&out->last_line), LINE_MAX_BYTES));
    else
        say_fallback(facts, cause, &out->message);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* detail fills in the exit code of a CommandFailed. */
static void detail(const struct verdict_facts *facts, enum cause cause, struct judgement *out)
{
    const struct process_end *end = facts->end;

    out->detailed = cause == CAUSE_EXIT || cause == CAUSE_SIGNAL || cause == CAUSE_UNSTARTABLE;
    if (cause == CAUSE_EXIT)
        out->exit_code = end->exit_code;
    else if (cause == CAUSE_SIGNAL)
        out->exit_code = EXIT_SIGNAL + end->signal;
    else if (cause == CAUSE_UNSTARTABLE)
        out->exit_code = end->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    if (cause == CAUSE_SIGNAL)
        signal_name(end->signal, out->signal);
}

/* class_of_code is the class of a command that said nothing.  The message is ours and has the
 * command's words in it, in which the engine must not look for what went wrong. */
static const char *class_of_code(int exit_code)
{
    struct failure failure;

    failure_init(&failure);
    failure.error_type = SLICE("CommandFailed");
    failure.has_exit_code = true;
    failure.exit_code = exit_code;
    return class_name(failure_class(&failure));
}

void verdict_judge(const struct verdict_facts *facts, struct judgement *out)
{
    enum cause cause = cause_of(facts);

    *out = (struct judgement){.type = causes[cause].type,
                              .class = class_of(facts, cause),
                              .overheard = causes[cause].overheard || facts->message.len > 0};
    buf_init(&out->message, JUDGE_MESSAGE_MAX);
    buf_init(&out->last_line, LINE_MAX_BYTES + 4);
    if (facts->err)
        capture_last_line(facts->err, LINE_MAX_BYTES + 4, &out->last_line);
    detail(facts, cause, out);
    say(facts, cause, out);
    if (!out->class && out->detailed && !out->last_line.len && !facts->message.len)
        out->class = class_of_code(out->exit_code);
}

void judgement_release(struct judgement *judgement)
{
    buf_release(&judgement->message);
    buf_release(&judgement->last_line);
}

const char *signal_name(int number, char out[16])
{
    const char *name = sigabbrev_np(number);

    if (name)
        snprintf(out, 16, "SIG%s", name);
    else
        snprintf(out, 16, "SIG%d", number);
    return out;
}
