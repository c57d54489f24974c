/* spawn: a child that runs a program, and nothing else of a process.
 *
 * The child shares our memory and we wait until it has the program (CLONE_VFORK): that costs the
 * same however large this process is, and lets it say which of its steps failed.  Until then it
 * makes system calls only.
 *
 *   - a process group of its own, and SIGKILL when the thread that started it ends
 *   - standard input, output and error, and descriptor 3, as given; every other one is closed
 *   - signals: none is blocked, none is ignored
 *   - the directory, then the program, looked up in the PATH of its environment */
#ifndef LAZARET_RUN_SPAWN_H
#define LAZARET_RUN_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#define SPAWN_FDS 4

struct spawn {
    char *const *argv;  /* ends in NULL */
    char *const *envp;  /* ends in NULL */
    const char *cwd;    /* NULL: as this process */
    int fds[SPAWN_FDS]; /* what the child has as 0, 1, 2, 3; -1: /dev/null as 0 to 2, none as 3 */
};

/* struct spawned: a child, or why there is none. */
struct spawned {
    pid_t pid;        /* 0: none */
    int pid_fd;       /* readable when it has ended */
    int error;        /* errno */
    const char *what; /* of `error`: "fork", "chdir" or "exec" */
};

/* spawn starts a child.  A program that the kernel does not know (a script without "#!") is given
 * to /bin/sh as a file to run, as execvp does; its arguments stay arguments. */
struct spawned spawn(const struct spawn *order);

#endif
