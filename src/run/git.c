/* git: see git.h. */
#include "run/git.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/verdict.h"

#define LOCK_SECONDS "300" /* that a command waits for another process's */
#define LOCK_EXIT 199      /* what flock(1) ends with when that was in vain */
#define LOCK_EXIT_TEXT "199"
#define ARGS_MAX 40            /* of one command */
#define WORDS_MAX (2u << 10)   /* bytes of what git says of a failure */
#define OUTPUT_MAX (64u << 10) /* more than a capture keeps */

/* Variables that would lead git elsewhere (git rev-parse --local-env-vars), and those that we set.
 */
static const char *const dropped[] = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_OPTIONAL_LOCKS",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_TERMINAL_PROMPT",
    "GIT_WORK_TREE",
    "LANGUAGE",
    "LC_ALL",
};

static const char *const added[] = {"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"};

#define ADDED_COUNT (sizeof(added) / sizeof(added[0]))

static bool is_dropped(const char *variable)
{
    size_t len = strcspn(variable, "=");

    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
        if (slice_is((struct slice){variable, len}, dropped[i]))
            return true;
    return false;
}

/* keep copies a variable behind the others. */
static void keep(char **envp, size_t *count, char **at, const char *variable)
{
    size_t size = strlen(variable) + 1;

    memcpy(*at, variable, size);
    envp[(*count)++] = *at;
    *at += size;
}

enum status git_init(struct git *git, struct err *err)
{
    size_t count = ADDED_COUNT + 1, bytes = 0, kept = 0;

    for (char **variable = environ; *variable; variable++, count++)
        bytes += strlen(*variable) + 1;
    for (size_t i = 0; i < ADDED_COUNT; i++)
        bytes += strlen(added[i]) + 1;
    char **envp = mem_zalloc(count * sizeof(*envp) + bytes);
    if (!envp)
        return err_no_memory(err);
    char *at = (char *)(envp + count);
    for (char **variable = environ; *variable; variable++)
        if (!is_dropped(*variable))
            keep(envp, &kept, &at, *variable);
    for (size_t i = 0; i < ADDED_COUNT; i++)
        keep(envp, &kept, &at, added[i]);
    *git = (struct git){.envp = envp};
    return STATUS_OK;
}

void git_release(struct git *git)
{
    mem_free(git->envp);
    mem_free(git->lock);
    *git = (struct git){0};
}

/* has_program says whether a program is in PATH. */
static bool has_program(const char *name)
{
    const char *at = getenv("PATH");
    char file[PATH_MAX];

    for (; at && *at; at += *at == ':') {
        size_t len = strcspn(at, ":");
        int size = snprintf(file, sizeof(file), "%.*s/%s", (int)len, at, name);
        if (len > 0 && size < (int)sizeof(file) && access(file, X_OK) == 0)
            return true;
        at += len;
    }
    return false;
}

enum status git_lock(struct git *git, const char *directory, struct err *err)
{
    struct buf path;

    if (!has_program("flock"))
        return STATUS_OK;
    buf_init(&path, PATH_MAX - 1);
    buf_addf(&path, "%s/lazaret.lock", directory);
    enum status status = buf_status(&path, err);
    if (status == STATUS_OK)
        git->lock = path.ptr;
    else
        buf_release(&path);
    return status;
}

/* put_start writes the beginning of a command: what runs git, git, and how it is set.  Git is not
 * to clean up behind itself: it would do that in the background, with the lock in its hands. */
static size_t put_start(const struct git *git, const char *directory, const char **argv)
{
    const char *const lock[] = {"flock",        "-w",      LOCK_SECONDS, "-E",
                                LOCK_EXIT_TEXT, git->lock, "git"};
    const char *const options[] = {"-C", directory,
                                   "-c", "gc.auto=0",
                                   "-c", "maintenance.auto=false",
                                   "-c", "core.quotePath=false"};
    size_t first = git->lock ? 0 : 6, count = 7 - first;

    memcpy(argv, lock + first, count * sizeof(*argv));
    memcpy(argv + count, options, sizeof(options));
    count += sizeof(options) / sizeof(options[0]);
    if (!git->name_given) {
        argv[count++] = "-c";
        argv[count++] = "user.name=lazaret";
    }
    if (!git->email_given) {
        argv[count++] = "-c";
        argv[count++] = "user.email=lazaret@localhost";
    }
    return count;
}

struct process *git_start(const struct git *git, struct loop *loop, const char *directory,
                          va_list args, void (*ended)(void *ctx, const struct process_end *end),
                          void *ctx)
{
    const char *argv[ARGS_MAX] = {0};
    size_t count = put_start(git, directory, argv);

    for (const char *arg; (arg = va_arg(args, const char *));) {
        BUG_ON(count + 1 >= ARGS_MAX);
        argv[count++] = arg;
    }
    struct process_spec spec = {.argv = (char *const *)(uintptr_t)argv, .envp = git->envp};
    return process_start(loop, &spec, ended, ctx);
}

bool git_ok(const struct process_end *end)
{
    return !end->error && !end->signalled && end->exit_code == 0;
}

void git_line(const struct process *process, struct buf *out)
{
    size_t before = out->len;

    capture_print(process_out(process), out);
    while (out->len > before && out->ptr[out->len - 1] == '\n')
        out->ptr[--out->len] = '\0';
}

/* fold appends a text as one line.  What git recommends to people at a terminal is left out. */
static void fold(struct slice text, struct buf *out)
{
    bool word = false; /* the last byte that was written belongs to a word */

    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        struct slice line = {text.ptr, len};
        text = (struct slice){text.ptr + len + (end != NULL), text.len - len - (end != NULL)};
        if (slice_starts(line, SLICE("hint:")))
            continue;
        for (size_t i = 0; i < line.len && out->len < WORDS_MAX; i++) {
            bool blank = (unsigned char)line.ptr[i] <= ' ';
            if (!blank)
                buf_add_char(out, line.ptr[i]);
            else if (word)
                buf_add_char(out, ' ');
            word = !blank;
        }
        if (word)
            buf_add_char(out, ' ');
        word = false;
    }
    if (out->len >= WORDS_MAX)
        buf_add_str(out, "...");
    else if (out->len > 0 && out->ptr[out->len - 1] == ' ')
        out->ptr[--out->len] = '\0';
}

void git_words(const char *command, const struct process *process, const struct process_end *end,
               struct buf *out)
{
    const struct capture *said = process_err(process);
    struct buf text;
    char name[16];

    buf_addf(out, "git %s: ", command);
    if (end->error) {
        buf_addf(out, "cannot be started: %s: %s", end->what ? end->what : "start",
                 strerror(end->error));
        return;
    }
    buf_init(&text, OUTPUT_MAX);
    capture_print(said->total > 0 ? said : process_out(process), &text);
    size_t before = out->len;
    fold(buf_slice(&text), out);
    if (out->len == before && !end->signalled && end->exit_code == LOCK_EXIT)
        buf_addf(out, "another run has been at work in the repository for " LOCK_SECONDS " s");
    else if (out->len == before && end->signalled)
        buf_addf(out, "killed by %s", signal_name(end->signal, name));
    else if (out->len == before)
        buf_addf(out, "failed with exit code %d", end->exit_code);
    buf_release(&text);
}
