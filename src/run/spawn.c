/* spawn: clone(2) as posix_spawn(3) does it, with what that lacks: PR_SET_PDEATHSIG and a pidfd.
 *
 * The child runs on a stack of its own, in our memory, while this thread waits.  It must not leave
 * a trace there but its report: so it calls the kernel directly where the library (or a sanitizer
 * in front of it) keeps accounts, and it is not instrumented.  All signals are blocked on the way,
 * and handlers taken away before they are let in again, so that no handler of ours runs in it. */
#include "run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define STACK_SIZE (32u << 10)
#define SIGNALS 64 /* of the kernel */
#define PATH_DEFAULT "/bin:/usr/bin"
#define SHELL "/bin/sh"

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer takes clone for a fork and has the child, which shares our memory, forget what it
 * knows of our threads.  It does not watch the C library's other name for it. */
extern int __clone(int (*run)(void *arg), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif

#define CHILD __attribute__((no_sanitize("address", "undefined", "thread")))

/* struct child: what the child is given, and its report. */
struct child {
    const struct spawn *order;
    const char *path; /* of the environment */
    pid_t parent;
    const char *what;    /* the step that it is at */
    int error;           /* of that step; 0: it has its program */
    char file[PATH_MAX]; /* what it tries to run: after ENOEXEC, the script */
};

/* reset_signals gives every signal its default action and lets all in.  Zeros are the default
 * action in the kernel's own struct, whatever its layout. */
static CHILD void reset_signals(void)
{
    static const unsigned long zeros[16];

    for (int number = 1; number <= SIGNALS; number++)
        syscall(SYS_rt_sigaction, number, zeros, NULL, SIGNALS / 8);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, zeros, NULL, SIGNALS / 8);
}

/* take_fd is a descriptor of the child, or /dev/null for one that was not given, above the places
 * where descriptors are put; -1 when it cannot be had. */
static CHILD int take_fd(int given)
{
    long fd = given;

    if (fd < 0)
        fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    if (fd >= 0 && fd < SPAWN_FDS)
        fd = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, SPAWN_FDS);
    return (int)fd;
}

/* place_fds puts the descriptors at their places and closes all others. */
static CHILD bool place_fds(const int *given)
{
    int count = given[3] < 0 ? 3 : SPAWN_FDS;
    int fds[SPAWN_FDS];

    for (int i = 0; i < count; i++)
        if ((fds[i] = take_fd(given[i])) < 0)
            return false;
    for (int i = 0; i < count; i++)
        if (syscall(SYS_dup3, fds[i], i, 0) < 0)
            return false;
    /* Our own close with exec anyway; a kernel without close_range leaves only those of others. */
    syscall(SYS_close_range, count, ~0u, 0);
    return true;
}

/* goes_on says whether a failure with one directory of PATH lets the next one be tried. */
static CHILD bool goes_on(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == ENODEV ||
           error == ESTALE || error == ETIMEDOUT || error == ENAMETOOLONG;
}

/* join writes "directory/name"; an empty directory is the current one. */
static CHILD bool join(char *out, const char *directory, size_t len, const char *name)
{
    size_t name_len = 0, at = 0;

    while (name[name_len])
        name_len++;
    if (len + name_len + 2 > PATH_MAX)
        return false;
    for (; at < len; at++)
        out[at] = directory[at];
    if (len > 0)
        out[at++] = '/';
    for (size_t i = 0; i <= name_len; i++)
        out[at + i] = name[i];
    return true;
}

static CHILD int exec_file(struct child *child)
{
    syscall(SYS_execve, child->file, child->order->argv, child->order->envp);
    return errno;
}

/* exec_path runs the program of the first directory of PATH that has one, and returns why not. */
static CHILD int exec_path(struct child *child)
{
    const char *name = child->order->argv[0];
    const char *at = child->path;
    bool denied = false;

    for (;;) {
        size_t len = 0;
        while (at[len] && at[len] != ':')
            len++;
        int error = join(child->file, at, len, name) ? exec_file(child) : ENAMETOOLONG;
        if (!goes_on(error))
            return error;
        denied = denied || error == EACCES;
        if (!at[len])
            return denied ? EACCES : ENOENT;
        at += len + 1;
    }
}

static CHILD int exec_program(struct child *child)
{
    const char *name = child->order->argv[0];
    bool slash = false;

    for (const char *c = name; *c; c++)
        slash = slash || *c == '/';
    if (!*name)
        return ENOENT;
    if (!slash)
        return exec_path(child);
    return join(child->file, "", 0, name) ? exec_file(child) : ENAMETOOLONG;
}

/* fail makes the report and ends the child. */
static CHILD int fail(struct child *child, int error)
{
    child->error = error;
    syscall(SYS_exit_group, 127);
    return 127;
}

static CHILD int child_main(void *arg)
{
    struct child *child = arg;
    const struct spawn *order = child->order;

    child->what = "fork";
    syscall(SYS_setpgid, 0, 0);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (syscall(SYS_getppid) != child->parent)
        return fail(child, ESRCH); /* It died before it was asked for. */
    if (!place_fds(order->fds))
        return fail(child, errno);
    child->what = "chdir";
    if (order->cwd && syscall(SYS_chdir, order->cwd) < 0)
        return fail(child, errno);
    child->what = "exec";
    reset_signals();
    return fail(child, exec_program(child));
}

/* run_child starts a child and waits until it has its program or has failed; that one is reaped. */
static struct spawned run_child(struct child *child)
{
    _Alignas(16) char stack[STACK_SIZE];
    struct spawned spawned = {.pid_fd = -1};
    int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
    sigset_t all, before;

    child->error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(child_main, stack + sizeof stack, flags, child, &spawned.pid_fd);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (pid < 0)
        return (struct spawned){.pid_fd = -1, .error = error, .what = "fork"};
    if (child->error == 0) {
        spawned.pid = pid;
        return spawned;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(spawned.pid_fd);
    return (struct spawned){.pid_fd = -1, .error = child->error, .what = child->what};
}

/* run_script gives the file that was found to the shell. */
static struct spawned run_script(struct child *found)
{
    char shell[] = SHELL, no_options[] = "--";
    struct spawn order = *found->order;
    struct child child;
    size_t count = 1; /* of the words, with the name */

    while (order.argv[count])
        count++;
    char **argv = mem_array(count + 3, sizeof *argv);
    if (!argv)
        return (struct spawned){.pid_fd = -1, .error = ENOMEM, .what = "exec"};
    argv[0] = shell;
    argv[1] = no_options;
    argv[2] = found->file;
    memcpy(argv + 3, order.argv + 1, (count - 1) * sizeof *argv);
    order.argv = argv;
    child.order = &order;
    child.path = found->path;
    child.parent = found->parent;
    struct spawned spawned = run_child(&child);
    mem_free(argv);
    return spawned;
}

static const char *path_of(char *const *envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return PATH_DEFAULT;
}

struct spawned spawn(const struct spawn *order)
{
    struct child child;

    if (!order->argv[0])
        return (struct spawned){.pid_fd = -1, .error = ENOENT, .what = "exec"};
    child.order = order;
    child.path = path_of(order->envp);
    child.parent = getpid();
    struct spawned spawned = run_child(&child);
    if (spawned.error == ENOEXEC)
        spawned = run_script(&child);
    return spawned;
}
