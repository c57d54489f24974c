/* process: a child, its pipes in the loop, and a timer.
 *
 *     starting --run--> running --end_group--> ending --timer_fire, process_stop--> killed
 *         |                |                       |                                    |
 *         |                `-----------------------+------------------------------------'
 *         |                                        | exit_ready
 *         `--could not: timer_fire--> ended <------'
 *
 * Invariants:
 *   - The pid is not reaped before the last signal is sent to its group: until then the number
 *     cannot be another group's.
 *   - One wake-up reads at most READ_SIZE bytes of one stream, so that a command that writes
 *     without end neither fills the memory nor keeps the others waiting.
 *   - `timer` is the failed start's, the time-out's or the grace's: never two of them at once.
 *
 * Writing to a command that has closed its input must not kill us, so SIGPIPE is ignored in the
 * whole process from the first start on (a handler stays); the commands get its default back.
 * SIGCHLD must not be ignored, as then there is nothing to reap. */
#include "run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "run/memory.h"
#include "run/spawn.h"

#define READ_SIZE (64u << 10) /* what a pipe holds unless it was made larger */
#define DRAIN_MAX (1u << 20)  /* what a pipe holds at most: read after the end */

/* struct stream: our end of a pipe. */
struct stream {
    struct loop_watch watch;
    struct process *process;
    int fd; /* -1: closed */
};

enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAM_SAID, STREAM_COUNT };

enum state { STARTING, RUNNING, ENDING, KILLED, ENDED };

struct process {
    struct loop *loop;
    void (*ended)(void *ctx, const struct process_end *end);
    void *ctx;
    enum state state;
    struct process_end end; /* as far as it is known */
    struct span started;

    pid_t pid;  /* 0: not started */
    int pid_fd; /* -1: closed */
    struct loop_watch exit;
    struct loop_timer timer;
    struct span grace;

    struct stream streams[STREAM_COUNT];
    struct slice input; /* what is still to be written */
    struct artifact *artifact;
    struct echo *echo;
    struct capture out, err;
    struct buf said;
};

/* Streams. */

static void stream_close(struct stream *stream)
{
    loop_unwatch(stream->process->loop, &stream->watch);
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}

/* keep puts away what was read. */
static void keep(struct process *process, const struct stream *stream, struct slice bytes)
{
    if (stream == &process->streams[STREAM_SAID]) {
        size_t room = PROCESS_SAID_MAX - process->said.len;
        buf_add(&process->said, bytes.ptr, bytes.len < room ? bytes.len : room);
        return;
    }
    bool out = stream == &process->streams[STREAM_OUT];
    capture_add(out ? &process->out : &process->err, bytes);
    if (process->artifact)
        artifact_add(process->artifact, bytes);
    if (process->echo)
        echo_add(out ? &process->echo->out : &process->echo->err, bytes);
}

/* stream_read reads once; it returns how many bytes came, and closes the stream at its end. */
static size_t stream_read(struct stream *stream)
{
    char bytes[READ_SIZE];
    ssize_t n;

    do
        n = read(stream->fd, bytes, sizeof bytes);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        keep(stream->process, stream, (struct slice){bytes, (size_t)n});
        return (size_t)n;
    }
    if (n == 0 || errno != EAGAIN)
        stream_close(stream);
    return 0;
}

static void stream_ready(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    stream_read((struct stream *)((char *)watch - offsetof(struct stream, watch)));
}

/* stream_drain reads what the pipe still holds.  A daemon that goes on writing is not followed. */
static void stream_drain(struct stream *stream)
{
    size_t total = 0, n;

    while (stream->fd >= 0 && total < DRAIN_MAX && (n = stream_read(stream)) > 0)
        total += n;
    stream_close(stream);
}

/* input_write writes once, and closes the pipe when that was the rest or nobody reads it. */
static void input_write(struct process *process)
{
    struct stream *stream = &process->streams[STREAM_IN];
    ssize_t n;

    do
        n = write(stream->fd, process->input.ptr, process->input.len);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0) {
        process->input.ptr += n;
        process->input.len -= (size_t)n;
    }
    if (n < 0 || process->input.len == 0)
        stream_close(stream);
}

static void input_ready(struct loop_watch *watch, uint32_t events)
{
    struct stream *stream = (struct stream *)((char *)watch - offsetof(struct stream, watch));
    (void)events;
    input_write(stream->process);
}

/* The end. */

static struct span span_of_timeval(struct timeval t)
{
    return (struct span){(int64_t)t.tv_sec * 1000000 + t.tv_usec};
}

static void set_usage(struct process_end *end, const struct rusage *usage)
{
    end->cpu_user = span_of_timeval(usage->ru_utime);
    end->cpu_system = span_of_timeval(usage->ru_stime);
    end->memory_max_kb = memory_of_child(usage->ru_maxrss);
}

static void set_status(struct process *process, int status)
{
    struct process_end *end = &process->end;

    end->signalled = WIFSIGNALED(status);
    if (!end->signalled) {
        end->exit_code = WEXITSTATUS(status);
        return;
    }
    end->signal = WTERMSIG(status);
    end->core = WCOREDUMP(status);
    if (end->signal == SIGKILL && process->state != KILLED)
        end->oom_killed = memory_oom_since(process->started);
}

/* reap waits for the child, which has ended or was killed, and puts down how it was. */
static void reap(struct process *process)
{
    struct rusage usage;
    int status;
    pid_t pid;

    do
        pid = wait4(process->pid, &status, 0, &usage);
    while (pid < 0 && errno == EINTR);
    if (pid < 0) { /* Another part of the program took it. */
        process->end.error = errno;
        process->end.what = "wait";
        return;
    }
    process->end.duration = (struct span){loop_now().us - process->started.us};
    set_usage(&process->end, &usage);
    set_status(process, status);
}

/* release_all lets go of everything but what was heard. */
static void release_all(struct process *process)
{
    loop_timer_clear(process->loop, &process->timer);
    for (int i = 0; i < STREAM_COUNT; i++)
        stream_close(&process->streams[i]);
    loop_unwatch(process->loop, &process->exit);
    if (process->pid_fd >= 0)
        close(process->pid_fd);
    process->pid_fd = -1;
    process->state = ENDED;
}

static void exit_ready(struct loop_watch *watch, uint32_t events)
{
    struct process *process = (struct process *)((char *)watch - offsetof(struct process, exit));
    (void)events;

    /* Of a command that we ended nothing goes on.  One that ended by itself may leave a daemon. */
    if (process->state != RUNNING)
        kill(-process->pid, SIGKILL);
    reap(process);
    for (int i = STREAM_OUT; i < STREAM_COUNT; i++)
        stream_drain(&process->streams[i]);
    release_all(process);
    process->ended(process->ctx, &process->end);
}

/* has_ended says whether the child is dead already, and only the loop has not heard of it. */
static bool has_ended(const struct process *process)
{
    siginfo_t info = {0};
    int found = waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return found == 0 && info.si_pid == process->pid;
}

static void kill_group(struct process *process)
{
    loop_timer_clear(process->loop, &process->timer);
    process->state = KILLED;
    kill(-process->pid, SIGKILL);
}

/* end_group begins to end the command: politely, when there is a grace. */
static void end_group(struct process *process)
{
    if (process->grace.us <= 0 || !loop_timer_set(process->loop, &process->timer, process->grace)) {
        kill_group(process);
        return;
    }
    process->state = ENDING;
    kill(-process->pid, SIGTERM);
    kill(-process->pid, SIGCONT); /* One that is stopped would not hear it. */
}

static void timer_fire(struct loop_timer *timer)
{
    struct process *process = (struct process *)((char *)timer - offsetof(struct process, timer));

    if (process->state == STARTING) {
        release_all(process);
        process->ended(process->ctx, &process->end);
    } else if (!has_ended(process)) {
        if (process->state == RUNNING) {
            process->end.timed_out = true;
            end_group(process);
        } else {
            kill_group(process);
        }
    }
}

void process_stop(struct process *process, bool now)
{
    if (process->state == STARTING || process->state == ENDED || process->state == KILLED ||
        has_ended(process))
        return;
    if (process->state == RUNNING)
        process->end.stopped = true;
    if (now)
        kill_group(process);
    else if (process->state == RUNNING)
        end_group(process);
}

/* The start. */

static void set_signals(void)
{
    struct sigaction action;

    if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    if (sigaction(SIGCHLD, NULL, &action) == 0 &&
        (action.sa_handler == SIG_IGN || action.sa_flags & SA_NOCLDWAIT))
        signal(SIGCHLD, SIG_DFL);
}

/* stream_open makes a pipe: our end goes into the loop's care, the child's is put in `*theirs`. */
static bool stream_open(struct stream *stream, int ours, int *theirs)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    stream->fd = ends[ours];
    *theirs = ends[1 - ours];
    return fcntl(stream->fd, F_SETFL, O_NONBLOCK) == 0;
}

/* open_input fills the pipe before anybody reads it: mostly, that is all there is to write. */
static bool open_input(struct process *process, int *theirs)
{
    struct stream *stream = &process->streams[STREAM_IN];

    if (process->input.len == 0)
        return true;
    if (!stream_open(stream, 1, theirs))
        return false;
    input_write(process);
    return stream->fd < 0 ||
           loop_watch(process->loop, &stream->watch, stream->fd, EPOLLOUT, NULL) == STATUS_OK;
}

static bool open_streams(struct process *process, bool speaks, int theirs[STREAM_COUNT])
{
    if (!open_input(process, &theirs[STREAM_IN]))
        return false;
    for (int i = STREAM_OUT; i < (speaks ? STREAM_COUNT : STREAM_SAID); i++) {
        struct stream *stream = &process->streams[i];
        if (!stream_open(stream, 0, &theirs[i]) ||
            loop_watch(process->loop, &stream->watch, stream->fd, EPOLLIN, NULL) != STATUS_OK)
            return false;
    }
    return true;
}

/* run starts the child; false, with the reason in `end`, when it cannot. */
static bool run(struct process *process, const struct process_spec *spec)
{
    struct spawn order = {
        .argv = spec->argv, .envp = spec->envp, .cwd = spec->cwd, .fds = {-1, -1, -1, -1}};
    struct spawned spawned = {.pid_fd = -1, .what = "pipe"};

    if (open_streams(process, spec->speaks, order.fds))
        spawned = spawn(&order);
    else
        spawned.error = errno;
    for (int i = 0; i < STREAM_COUNT; i++)
        if (order.fds[i] >= 0)
            close(order.fds[i]);
    process->pid = spawned.pid;
    process->pid_fd = spawned.pid_fd;
    process->end.error = spawned.error;
    process->end.what = spawned.what;
    if (spawned.error)
        return false;

    if (loop_watch(process->loop, &process->exit, process->pid_fd, EPOLLIN, NULL) == STATUS_OK)
        return true;
    int error = errno;
    kill_group(process);
    reap(process);
    process->pid = 0;
    process->end.error = error;
    process->end.what = "fork";
    return false;
}

static struct process *process_new(struct loop *loop, const struct process_spec *spec)
{
    struct process *process = mem_zalloc(sizeof *process);

    if (!process)
        return NULL;
    process->loop = loop;
    process->pid_fd = -1;
    process->exit = (struct loop_watch){.ready = exit_ready, .fd = -1};
    process->timer = (struct loop_timer){.fire = timer_fire};
    process->grace = spec->grace;
    process->input = spec->input;
    process->artifact = spec->artifact;
    process->echo = spec->echo;
    buf_init(&process->said, PROCESS_SAID_MAX);
    for (int i = 0; i < STREAM_COUNT; i++) {
        struct stream *stream = &process->streams[i];
        stream->watch.ready = i == STREAM_IN ? input_ready : stream_ready;
        stream->watch.fd = stream->fd = -1;
        stream->process = process;
    }
    return process;
}

struct process *process_start(struct loop *loop, const struct process_spec *spec,
                              void (*ended)(void *ctx, const struct process_end *end), void *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct process *process = process_new(loop, spec);

    if (!process)
        return NULL;
    pthread_once(&once, set_signals);
    process->ended = ended;
    process->ctx = ctx;
    /* The timer comes first: it needs memory, which must not be missing when a child runs. */
    if (!loop_timer_set(loop, &process->timer, spec->timeout)) {
        process_free(process);
        return NULL;
    }
    memory_watch_oom();
    process->started = loop_now();
    if (run(process, spec)) {
        process->state = RUNNING;
        if (spec->timeout.us <= 0)
            loop_timer_clear(loop, &process->timer);
    } else {
        /* Told from the loop, where the caller is ready for it. */
        process->state = STARTING;
        process->end = (struct process_end){.error = process->end.error, .what = process->end.what};
        if (!loop_timer_set(loop, &process->timer, (struct span){0}))
            BUG("a timer that had its place has lost it");
    }
    return process;
}

void process_free(struct process *process)
{
    if (!process)
        return;
    if (process->state == RUNNING || process->state == ENDING || process->state == KILLED) {
        kill_group(process);
        reap(process);
    }
    release_all(process);
    capture_release(&process->out);
    capture_release(&process->err);
    buf_release(&process->said);
    mem_free(process);
}

const struct capture *process_out(const struct process *process)
{
    return &process->out;
}

const struct capture *process_err(const struct process *process)
{
    return &process->err;
}

struct slice process_said(const struct process *process)
{
    return buf_slice(&process->said);
}

pid_t process_pid(const struct process *process)
{
    return process->pid;
}
