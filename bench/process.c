/* process: starting, asking and stopping the programs that are measured.
 *
 * No process outlives the bench: each asks the system to be killed with its parent, and a signal
 * that ends the bench kills them by their ids. */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ARGS_MAX 32
#define READY_MS 15000
#define STOP_MS 15000
#define RUNNING_MAX 8

static volatile pid_t running[RUNNING_MAX];

void process_end_all(void)
{
    for (int i = 0; i < RUNNING_MAX; i++)
        if (running[i] > 0)
            kill(running[i], SIGKILL);
}

static void running_replace(pid_t from, pid_t to)
{
    for (int i = 0; i < RUNNING_MAX; i++)
        if (running[i] == from) {
            running[i] = to;
            return;
        }
    bench_die("more than %d programs at a time", RUNNING_MAX);
}

/* ---- finding ----------------------------------------------------------------------------------
 */

/* process_find looks where a shell of the system's administrator would. */
bool process_find(const char *name, char out[PROCESS_PATH_SIZE])
{
    const char *path = getenv("PATH");
    char all[PROCESS_PATH_SIZE];
    char *rest = all;
    snprintf(all, sizeof(all), "%s:/usr/local/bin:/usr/bin:/usr/sbin:/sbin", path ? path : "");
    for (char *directory; (directory = strsep(&rest, ":"));) {
        int len = snprintf(out, PROCESS_PATH_SIZE, "%s/%s", directory, name);
        if (directory[0] && len < PROCESS_PATH_SIZE && access(out, X_OK) == 0)
            return true;
    }
    printf("  %s is not installed (scripts/deps bench): not measured\n", name);
    fflush(stdout);
    return false;
}

int process_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        bench_die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

/* ---- starting ---------------------------------------------------------------------------------
 */

/* child becomes the program. */
static _Noreturn void child(const struct process *process, char *const args[], int in, int out,
                            pid_t parent)
{
    char log[PROCESS_PATH_SIZE + 16];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(log, sizeof(log), "%s/stderr", process->directory);
    int err = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (process->uid &&
        (setgroups(0, NULL) != 0 || setgid(process->gid) != 0 || setuid(process->uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user forgets it */
    if (getppid() != parent || chdir(process->directory) != 0 || dup2(in, 0) < 0 ||
        dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    execv(args[0], args);
    _exit(127);
}

/* process_spawn starts the program with its standard input and output in our hands. */
void process_spawn(struct process *process, char *const args[])
{
    int in[2], out[2];
    pid_t parent = getpid();
    process->started_ns = clock_ns();
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        bench_die("pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0)
        child(process, args, in[0], out[1], parent);
    close(in[0]);
    close(out[1]);
    process->pid = pid;
    process->in = in[1];
    process->out = out[0];
    running_replace(0, pid);
}

/* show_log says what a program had to say. */
static void show_log(const struct process *process)
{
    char path[PROCESS_PATH_SIZE + 16], line[512];
    snprintf(path, sizeof(path), "%s/stderr", process->directory);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        fprintf(stderr, "%s: %s", process->name, line);
    if (file)
        fclose(file);
}

_Noreturn void process_die(const struct process *process, const char *what)
{
    show_log(process);
    bench_die("%s %s", process->name, what);
}

bool process_alive(const struct process *process)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

/* process_await_port returns when the server accepts connections. */
void process_await_port(const struct process *process)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)process->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int waited = 0; waited < READY_MS && process_alive(process); waited += 5) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int failed = connect(fd, (struct sockaddr *)&address, sizeof(address));
        close(fd);
        if (!failed)
            return;
        poll(NULL, 0, 5);
    }
    process_die(process, "did not come up");
}

void process_line(struct process *process, char *out, size_t size)
{
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t got = read(process->out, out + len, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            process_die(process, "ended before it said what it was to say");
        if (out[len++] == '\n')
            break;
    }
    out[len] = '\0';
}

void process_init(struct process *process, const char *name)
{
    *process = (struct process){.in = -1, .out = -1};
    snprintf(process->name, sizeof(process->name), "%s", name);
    snprintf(process->directory, sizeof(process->directory), "%s", scratch_folder(name));
}

/* ---- the servers ------------------------------------------------------------------------------
 */

/* lazaret_path is the program that was built beside this one. */
static void lazaret_path(char out[PROCESS_PATH_SIZE])
{
    char self[PROCESS_PATH_SIZE - 64];
    const char *chosen = getenv("LAZARET_BIN");
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    if (chosen && chosen[0])
        snprintf(out, PROCESS_PATH_SIZE, "%s", chosen);
    else
        snprintf(out, PROCESS_PATH_SIZE, "%s/../lazaret", self);
}

/* lazaret_start_with waits for the line that says where it listens. */
void lazaret_start_with(struct process *process, const char *name, const char *const *flags)
{
    char path[PROCESS_PATH_SIZE], line[512];
    char serve[] = "serve", data[] = "--data", listen[] = "--listen", any[] = "127.0.0.1:0";
    char *args[ARGS_MAX] = {path, serve, data, process->directory, listen, any};
    int count = 6;
    lazaret_path(path);
    if (access(path, X_OK) != 0)
        bench_die("%s: %s", path, strerror(errno));
    process_init(process, name);
    for (; *flags && count + 1 < ARGS_MAX; flags++)
        args[count++] = (char *)(uintptr_t)*flags;
    process_spawn(process, args);
    do
        process_line(process, line, sizeof(line));
    while (sscanf(line, "lazaret: ready on http://127.0.0.1:%d", &process->port) != 1);
}

bool lazaret_start(struct process *process)
{
    static const char *const none[] = {NULL};
    lazaret_start_with(process, "lazaret", none);
    return true;
}

void lazaret_serve(struct process *process, const char *config)
{
    char path[PROCESS_PATH_SIZE + 16];
    const char *const flags[] = {"--config", path, NULL};
    snprintf(path, sizeof(path), "%s", scratch_folder("lazaret-config"));
    snprintf(path + strlen(path), sizeof(path) - strlen(path), "/config.yml");
    FILE *file = fopen(path, "w");
    if (!file || fputs(config, file) == EOF || fclose(file) != 0)
        bench_die("%s: %s", path, strerror(errno));
    lazaret_start_with(process, "lazaret", flags);
    scratch_folder_remove("lazaret-config");
}

bool beanstalkd_start(struct process *process)
{
    char path[PROCESS_PATH_SIZE], port[16];
    if (!process_find("beanstalkd", path))
        return false;
    process_init(process, "beanstalkd");
    process->port = process_free_port();
    snprintf(port, sizeof(port), "%d", process->port);
    char host[] = "127.0.0.1", l[] = "-l", p[] = "-p", b[] = "-b", f[] = "-f", always[] = "0";
    process_spawn(process,
                  (char *[]){path, l, host, p, port, b, process->directory, f, always, NULL});
    process_await_port(process);
    return true;
}

bool redis_start(struct process *process)
{
    static const char *const settings[] = {
        "--bind",
        "127.0.0.1",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
        "--auto-aof-rewrite-percentage",
        "0",
        "--port",
    };
    char path[PROCESS_PATH_SIZE], port[16];
    char copies[sizeof(settings) / sizeof(settings[0])][40];
    char *args[ARGS_MAX];
    int count = 0;
    if (!process_find("redis-server", path))
        return false;
    process_init(process, "redis");
    process->port = process_free_port();
    snprintf(port, sizeof(port), "%d", process->port);
    args[count++] = path;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        snprintf(copies[i], sizeof(copies[i]), "%s", settings[i]);
        args[count++] = copies[i];
    }
    args[count++] = port;
    args[count] = NULL;
    process_spawn(process, args);
    process_await_port(process);
    return true;
}

bool node_start(struct process *process, const char *package, const char *argument)
{
    char node[PROCESS_PATH_SIZE], script[PROCESS_PATH_SIZE], copy[512];
    if (!process_find("node", node))
        return false;
    snprintf(script, sizeof(script), BENCH_SOURCE "/peers/%s/node_modules/%s", package, package);
    if (access(script, R_OK) != 0) {
        printf("  %s is not installed (scripts/deps bench): not measured\n", package);
        return false;
    }
    snprintf(script, sizeof(script), BENCH_SOURCE "/peers/%s/lifecycle.js", package);
    snprintf(copy, sizeof(copy), "%s", argument);
    process_init(process, package);
    process_spawn(process, (char *[]){node, script, copy, NULL});
    return true;
}

bool bullmq_start(struct process *process, int redis_port)
{
    char port[16];
    snprintf(port, sizeof(port), "%d", redis_port);
    return node_start(process, "bullmq", port);
}

/* ---- programs that end by themselves ----------------------------------------------------------
 */

void process_run(struct process *process, const char *name, const char **args)
{
    process_init(process, name);
    process_spawn(process, (char *const *)(uintptr_t)args);
}

void lazaret_run(struct process *process, const char *name, const char **args)
{
    char path[PROCESS_PATH_SIZE];
    lazaret_path(path);
    if (access(path, X_OK) != 0)
        bench_die("%s: %s", path, strerror(errno));
    args[0] = path;
    process_run(process, name, args);
    args[0] = NULL;
}

/* struct ticks: what the system says of a process that runs, or has ended and was not reaped. */
struct ticks {
    int parent;
    unsigned long user, kernel;
    long user_waited, kernel_waited; /* by those that it waited for */
};

static bool ticks_read(int pid, struct ticks *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = '\0';
    const char *rest = strrchr(text, ')'); /* the name before it may have anything in it */
    return rest && sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld",
                          &out->parent, &out->user, &out->kernel, &out->user_waited,
                          &out->kernel_waited) == 5;
}

/* read_cpu reads what a process that has ended and was not reaped has used of the processors. */
static void read_cpu(const struct process *process, struct process_usage *out)
{
    struct ticks ticks;
    double second = (double)sysconf(_SC_CLK_TCK);
    if (!ticks_read(process->pid, &ticks))
        bench_die("what %s used of the processors cannot be read", process->name);
    out->own_seconds = (double)(ticks.user + ticks.kernel) / second;
    out->commands_seconds = (double)(ticks.user_waited + ticks.kernel_waited) / second;
}

/* family_ticks adds up what the children of `parent`, and theirs, use. */
static double family_ticks(int parent)
{
    double sum = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        struct ticks ticks;
        int pid = (int)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !ticks_read(pid, &ticks) || ticks.parent != parent)
            continue;
        sum += (double)(ticks.user + ticks.kernel) +
               (double)(ticks.user_waited + ticks.kernel_waited) + family_ticks(pid);
    }
    if (all)
        closedir(all);
    return sum;
}

int64_t process_family_cpu_ns(const struct process *process)
{
    struct ticks own;
    if (!ticks_read(process->pid, &own))
        return 0;
    double sum = (double)(own.user + own.kernel) + (double)(own.user_waited + own.kernel_waited) +
                 family_ticks(process->pid);
    return (int64_t)(sum * 1e9 / (double)sysconf(_SC_CLK_TCK));
}

/* reaped lets go of a process that is no more. */
static void reaped(struct process *process)
{
    running_replace(process->pid, 0);
    close(process->in);
    close(process->out);
    process->pid = 0;
    scratch_folder_remove(process->name);
}

void process_wait(struct process *process, struct process_usage *out)
{
    siginfo_t info;
    struct rusage usage;
    while (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOWAIT) != 0)
        if (errno != EINTR)
            bench_die("%s cannot be waited for: %s", process->name, strerror(errno));
    out->seconds = (double)(clock_ns() - process->started_ns) / 1e9;
    if (info.si_code != CLD_EXITED || info.si_status != 0)
        process_die(process, info.si_code == CLD_EXITED ? "failed" : "was killed");
    read_cpu(process, out);
    wait4(process->pid, NULL, 0, &usage);
    out->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
    reaped(process);
}

void process_kill(struct process *process)
{
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    reaped(process);
}

/* ---- asking and stopping ----------------------------------------------------------------------
 */

void process_stop(struct process *process)
{
    if (process->pid <= 0)
        return;
    close(process->in);
    process->in = -1;
    kill(process->pid, process->stop_signal ? process->stop_signal : SIGTERM);
    for (int waited = 0; waited < STOP_MS && process_alive(process); waited += 5)
        poll(NULL, 0, 5);
    if (process_alive(process)) {
        bench_progress("%s does not end by itself: killed", process->name);
        kill(process->pid, SIGKILL);
    }
    waitpid(process->pid, NULL, 0);
    reaped(process);
}

int64_t process_cpu_ns(const struct process *process)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(process->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

int64_t process_peak_bytes(const struct process *process)
{
    char path[64], line[128];
    long long kilobytes = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process->pid);
    FILE *file = fopen(path, "r");
    while (file && !kilobytes && fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %lld", &kilobytes) != 1)
            kilobytes = 0;
    if (!kilobytes)
        bench_die("%s cannot be read", path);
    fclose(file);
    return kilobytes * 1024;
}

int64_t process_rss_bytes(const struct process *process)
{
    char path[64];
    long long resident = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)process->pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*s %lld", &resident) != 1)
        bench_die("%s cannot be read", path);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}
