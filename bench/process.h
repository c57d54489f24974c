/* process: the programs that are measured: each a real one, started in a directory of its own, and
 * stopped by its process id.  Servers listen on a free port of this machine. */
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
    int64_t started_ns;
    uid_t uid; /* whom it runs as; 0: as this one */
    gid_t gid;
    int stop_signal; /* 0: SIGTERM */
    char directory[PROCESS_PATH_SIZE];
};

/* The servers.  Each returns false, having said why, when the program is not installed; trouble
 * with one that is there ends the bench. */
bool lazaret_start(struct process *process);
/* lazaret_start_with starts one by another name, with flags of `serve`; the last of them is NULL.
 */
void lazaret_start_with(struct process *process, const char *name, const char *const *flags);
void lazaret_serve(struct process *process, const char *config); /* the text of its file */
bool beanstalkd_start(struct process *process); /* with a log that is synced for every put */
bool redis_start(struct process *process);      /* with a log that is synced before every answer */

/* bullmq_start starts the other half of the lifecycle's peer, on the Redis of that port. */
bool bullmq_start(struct process *process, int redis_port);

/* node_start starts the script `lifecycle.js` of bench/peers/PACKAGE with one argument. */
bool node_start(struct process *process, const char *package, const char *argument);

/* ---- for other servers: see servers.h ----------------------------------------------------------
 */

/* process_init makes its directory; process_spawn starts it there, with its standard input and
 * output in our hands; process_await_port returns when it accepts connections. */
void process_init(struct process *process, const char *name);
void process_spawn(struct process *process, char *const args[]);
void process_await_port(const struct process *process);
int process_free_port(void);

/* ---- programs that end by themselves ----------------------------------------------------------
 */

/* struct process_usage: what a program took from its start to its end. */
struct process_usage {
    double seconds;
    double own_seconds;      /* of the processors, by itself */
    double commands_seconds; /* likewise, by what it started and waited for */
    int64_t peak_bytes;      /* of memory, its own or that of a command, whichever is larger */
};

/* process_find looks for a program; when it is not installed it says that it is not measured. */
bool process_find(const char *name, char out[PROCESS_PATH_SIZE]);

/* process_run starts a program; args[0] is its path, `name` what its directory is called.
 * lazaret_run starts ours; args[0] is put in. */
void process_run(struct process *process, const char *name, const char **args);
void lazaret_run(struct process *process, const char *name, const char **args);

/* process_wait waits until it has ended, and removes its directory.  One that ends with another
 * exit code than 0 ends the bench. */
void process_wait(struct process *process, struct process_usage *out);

/* process_kill ends it without a warning, and removes its directory. */
void process_kill(struct process *process);

bool process_alive(const struct process *process);

/* process_die ends the bench because of a program: with what it said and what it did. */
_Noreturn void process_die(const struct process *process, const char *what);

int64_t process_peak_bytes(const struct process *process); /* the most it held in memory */

/* ---- asking and stopping ----------------------------------------------------------------------
 */

/* process_line reads one line of the process' output; it waits. */
void process_line(struct process *process, char *out, size_t size);

/* process_stop ends it, waits for it, and removes its directory.  One that is not running is fine.
 */
void process_stop(struct process *process);

int64_t process_cpu_ns(const struct process *process); /* what it has used of the processors */
int64_t process_family_cpu_ns(const struct process *process); /* with those that it started */
int64_t process_rss_bytes(const struct process *process);     /* what it holds in memory */

/* process_end_all is for a signal handler: it kills whatever is running and waits for nothing. */
void process_end_all(void);

#endif
