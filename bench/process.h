/* process: the servers that are measured: each a real program, started on a free port of this
 * machine in a directory of its own, and stopped by its process id. */
#ifndef LAZARET_BENCH_PROCESS_H
#define LAZARET_BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_PATH_SIZE 4200

struct process {
    char name[32]; /* of its directory and in messages */
    pid_t pid;     /* 0: not running */
    int port;      /* that it listens on */
    int in, out;   /* its standard input and output; -1: none */
    char directory[PROCESS_PATH_SIZE];
};

/* The servers.  Each returns false, having said why, when the program is not installed; trouble
 * with one that is there ends the bench. */
bool lazaret_start(struct process *process);
bool beanstalkd_start(struct process *process); /* with a log that is synced for every put */
bool redis_start(struct process *process);      /* with a log that is synced before every answer */

/* bullmq_start starts the other half of the lifecycle's peer, on the Redis of that port. */
bool bullmq_start(struct process *process, int redis_port);

/* process_line reads one line of the process' output; it waits. */
void process_line(struct process *process, char *out, size_t size);

/* process_stop ends it, waits for it, and removes its directory.  One that is not running is fine.
 */
void process_stop(struct process *process);

int64_t process_cpu_ns(const struct process *process);    /* what it has used of the processors */
int64_t process_rss_bytes(const struct process *process); /* what it holds in memory */

/* process_end_all is for a signal handler: it kills whatever is running and waits for nothing. */
void process_end_all(void);

#endif
