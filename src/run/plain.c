/* plain: one process after the other, waited for without a loop. */
#include "run/plain.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew/loop.h"
#include "run/verdict.h"

#define STEP_TEXT_MAX 400 /* bytes of a step in an error */

extern char **environ;

/* wait_for waits until the process has ended or its time is over; then it is killed.  True: the
 * time was over. */
static bool wait_for(pid_t pid, struct span timeout, int *status)
{
    int fd = timeout.us ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    struct span end = {loop_now().us + timeout.us};
    bool over = false;
    while (fd >= 0) {
        int64_t left_ms = (end.us - loop_now().us + 999) / 1000;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int n = left_ms > 0 ? poll(&ready, 1, left_ms < 60000 ? (int)left_ms : 60000) : 0;
        if (n > 0)
            break;
        if (n == 0 && loop_now().us >= end.us) {
            over = kill(pid, SIGKILL) == 0;
            break;
        }
    }
    if (fd >= 0)
        close(fd);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    return over;
}

/* spawn starts a process with our standard streams and no signal blocked. */
static int spawn(char *const *argv, char *const *envp, const char *cwd, int out, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, reset;
    sigemptyset(&none);
    sigemptyset(&reset);
    sigaddset(&reset, SIGPIPE);
    int error = posix_spawnattr_init(&attributes);
    if (error)
        return error;
    error = posix_spawn_file_actions_init(&actions);
    if (!error) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &reset);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (cwd)
            error = posix_spawn_file_actions_addchdir_np(&actions, cwd);
        if (!error && out != STDOUT_FILENO)
            error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        if (!error)
            error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, envp);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* judge says how a step ended. */
static enum status judge(const char *what, const struct step *step, int status, bool over,
                         struct err *err)
{
    struct slice text = step->text;
    char name[16];
    if (text.len > STEP_TEXT_MAX)
        text.len = STEP_TEXT_MAX;
    if (over)
        return err_set(err, STATUS_REFUSED, "%s: \"%.*s\" ran longer than %g s and was ended", what,
                       SLICE_ARG(text), span_to_seconds(step->timeout));
    if (WIFSIGNALED(status))
        return err_set(err, STATUS_REFUSED, "%s: \"%.*s\" was killed by %s", what, SLICE_ARG(text),
                       signal_name(WTERMSIG(status), name));
    if (WEXITSTATUS(status) != 0)
        return err_set(err, STATUS_REFUSED, "%s: \"%.*s\" failed with exit code %d", what,
                       SLICE_ARG(text), WEXITSTATUS(status));
    return STATUS_OK;
}

/* script_environment adds the variables of a script's places to ours. */
static enum status script_environment(const struct script *script, const struct item *item,
                                      struct arena *arena, char ***out, struct err *err)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **envp = arena_array(arena, count + script->place_count + 1, sizeof(*envp));
    if (!envp)
        return err_no_memory(err);
    memcpy(envp, environ, count * sizeof(*envp));
    for (size_t i = 0; i < script->place_count; i++) {
        const struct script_place *place = &script->places[i];
        struct json value;
        struct item field = {0};
        if (!item || !item_field(item->value, place->name, &value))
            return err_set(err, STATUS_INVALID, "there is no ${%.*s}", SLICE_ARG(place->name));
        enum status status = item_from_value(value, arena, &field, err);
        if (status)
            return status;
        if (field.bytes.len > ARGUMENT_MAX - 64)
            return err_set(err, STATUS_INVALID,
                           "${%.*s} has %zu bytes, too many for a variable: use "
                           "${map.results_file}, the name of a file that has it",
                           SLICE_ARG(place->name), field.bytes.len);
        envp[count] = (char *)(uintptr_t)arena_printf(arena, "%s=%.*s", place->variable,
                                                      SLICE_ARG(field.bytes))
                          .ptr;
        if (!envp[count++])
            return err_no_memory(err);
    }
    *out = envp;
    return STATUS_OK;
}

static enum status run_step(const char *what, const struct step *step, const struct item *item,
                            const char *cwd, int out, struct arena *arena, struct err *err)
{
    static char sh[] = "sh", c[] = "-c";
    char *script[] = {sh, c, (char *)(uintptr_t)step->script.text, NULL};
    char **argv = script, **envp = environ;
    static const struct item nothing = {.value = {JSON_OBJECT, SLICE("{}")}, .bytes = SLICE("{}")};
    enum status status =
        step->template ? template_fill(step->template, item ? item : &nothing, arena, &argv, err)
                       : script_environment(&step->script, item, arena, &envp, err);
    if (status) {
        err_prefix(err, "%s", what);
        return status;
    }
    pid_t pid;
    int ended = 0, error = spawn(argv, envp, cwd, out, &pid);
    if (error)
        return err_set(err, STATUS_REFUSED, "%s: \"%s\" cannot be run: %s", what, argv[0],
                       strerror(error));
    bool over = wait_for(pid, step->timeout, &ended);
    return judge(what, step, ended, over, err);
}

enum status plain_run(const char *what, const struct steps *steps, const struct item *item,
                      const char *cwd, int out, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < steps->count; i++) {
        struct arena arena = {0};
        status = run_step(what, &steps->steps[i], item, cwd, out, &arena, err);
        arena_release(&arena);
    }
    return status;
}
