/* trial: the loop, the command and a directory of its own. */
#include "run/trial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static char path_entry[] = "PATH=/usr/local/bin:/usr/bin:/bin";
char *const usual_environment[] = {path_entry, NULL};

int trial_make(void **state)
{
    struct trial *trial = mem_zalloc(sizeof *trial);
    struct err err = {0};
    if (!trial || loop_open(&trial->loop, &err) != STATUS_OK)
        return -1;
    trial->spec = (struct process_spec){.argv = trial->argv, .envp = usual_environment};
    snprintf(trial->root, sizeof trial->root, "/tmp/lazaret-process-XXXXXX");
    *state = trial;
    return mkdtemp(trial->root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

int trial_remove(void **state)
{
    struct trial *trial = *state;
    process_free(trial->process);
    loop_close(trial->loop);
    nftw(trial->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    mem_free(trial);
    /* Whatever was started was reaped. */
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : -1;
}

void trial_ended(void *ctx, const struct process_end *end)
{
    struct trial *trial = ctx;
    trial->ended++;
    trial->end = *end;
    loop_stop(trial->loop);
}

void trial_start(struct trial *trial)
{
    process_free(trial->process);
    trial->ended = 0;
    trial->process = process_start(trial->loop, &trial->spec, trial_ended, trial);
    assert_non_null(trial->process);
    assert_int_equal(trial->ended, 0);
}

void trial_run(struct trial *trial)
{
    trial_start(trial);
    loop_run(trial->loop);
    assert_int_equal(trial->ended, 1);
}

void trial_words(struct trial *trial, const char *a, const char *b, const char *c)
{
    const char *words[] = {a, b, c};
    /* Copied as they are: nobody writes to the words of an argv, though they are not const. */
    for (int i = 0; i < 3; i++)
        memcpy(&trial->argv[i], &words[i], sizeof words[i]);
}

void trial_script(struct trial *trial, const char *script)
{
    trial_words(trial, "/bin/sh", "-c", script);
}

void trial_run_script(struct trial *trial, const char *script)
{
    trial_script(trial, script);
    trial_run(trial);
}

void assert_exit(const struct trial *trial, int code)
{
    assert_int_equal(trial->end.error, 0);
    assert_false(trial->end.signalled);
    assert_int_equal(trial->end.exit_code, code);
}

void assert_signal(const struct trial *trial, int number)
{
    assert_int_equal(trial->end.error, 0);
    assert_true(trial->end.signalled);
    assert_int_equal(trial->end.signal, number);
}

void assert_failed(const struct trial *trial, int error, const char *what)
{
    assert_int_equal(trial->end.error, error);
    assert_string_equal(trial->end.what, what);
    assert_int_equal(process_pid(trial->process), 0);
}

struct buf text_of(const struct capture *capture)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    capture_print(capture, &text);
    return text;
}

void assert_text(const struct capture *capture, const char *expected)
{
    struct buf text = text_of(capture);
    assert_string_equal(buf_str(&text), expected);
    buf_release(&text);
}

void assert_out(const struct trial *trial, const char *expected)
{
    assert_text(process_out(trial->process), expected);
}

pid_t number_in(const struct capture *capture)
{
    struct buf text = text_of(capture);
    long number = strtol(buf_str(&text), NULL, 10);
    buf_release(&text);
    return (pid_t)number;
}

/* look_for_word stops the command once it has said something, on descriptor 3 where it has one. */
static void look_for_word(struct loop_timer *timer)
{
    struct trial *trial = (struct trial *)((char *)timer - offsetof(struct trial, look));
    if (trial->spec.speaks ? process_said(trial->process).len > 0
                           : process_out(trial->process)->total > 0)
        process_stop(trial->process, trial->stop_now);
    else
        assert_true(loop_timer_set(trial->loop, timer, span_ms(1)));
}

void trial_stop_at_word(struct trial *trial, const char *script, bool now)
{
    trial_script(trial, script);
    trial->stop_now = now;
    trial->look.fire = look_for_word;
    trial_start(trial);
    assert_true(loop_timer_set(trial->loop, &trial->look, span_ms(1)));
    loop_run(trial->loop);
    loop_timer_clear(trial->loop, &trial->look);
    assert_int_equal(trial->ended, 1);
}

void await_death(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (fd < 0) {
        assert_int_equal(errno, ESRCH);
        return;
    }
    assert_int_equal(poll(&wait, 1, 60000), 1);
    close(fd);
}

void await_zombie(pid_t pid)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

int count_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

void assert_file_is(const char *path, struct slice expected)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, expected.len);
    char *bytes = mem_alloc(expected.len);
    assert_int_equal(read(fd, bytes, expected.len), expected.len);
    assert_memory_equal(bytes, expected.ptr, expected.len);
    mem_free(bytes);
    close(fd);
}

long own_peak_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

void trial_file(const struct trial *trial, const char *name, const char *text, mode_t mode)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", trial->root, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}
