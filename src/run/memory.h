/* memory: what the kernel tells of memory besides wait4: whether it killed for lack of it, and how
 * much of a command's peak is the command's own.
 *
 * The counters are files of /proc and of the cgroup, which cost far more to read than a process
 * costs to start.  So they are read at most once a second while processes start, and when a death
 * asks for it.  Any thread. */
#ifndef LAZARET_RUN_MEMORY_H
#define LAZARET_RUN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

/* memory_watch_oom is called before a process starts, so that memory_oom_since has something to
 * compare with. */
void memory_watch_oom(void);

/* memory_oom_since says whether the kernel killed a process for lack of memory after `start`, which
 * was read from loop_now after memory_watch_oom.  Within our cgroup where that counts, else on the
 * whole machine.  What happened up to a second before `start` may count too. */
bool memory_oom_since(struct span start);

/* memory_of_child is the peak of a process that wait4 told of, in KiB; 0 when it is not known.  A
 * process begins with the memory of the one that starts it, and that counts: a peak that is not
 * above our own says nothing of the command. */
int64_t memory_of_child(int64_t peak_kb);

/* memory_oom_source has the count read from the line "oom_kill N" of a file; NULL: from the kernel.
 * For tests. */
void memory_oom_source(const char *path);

#endif
