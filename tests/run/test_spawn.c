/* test_spawn: what a command is given when it starts, and starts that fail. */
#include "run/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

/* What a command is given. */

static void arguments_and_environment_are_as_given(void **state)
{
    static char first[] = "A=1", second[] = "B=x y\n$(reboot)'\"";
    char *environment[] = {first, second, NULL};
    struct trial *trial = *state;

    trial->spec.envp = environment;
    trial_words(trial, "/usr/bin/env", NULL, NULL);
    trial_run(trial);
    assert_out(trial, "A=1\nB=x y\n$(reboot)'\"\n");

    trial_words(trial, "/usr/bin/printf", "<%s>", "$(reboot) '*' \xff\n;");
    trial_run(trial);
    assert_out(trial, "<$(reboot) '*' \xff\n;>");
}

static void a_name_is_looked_up_in_the_path_of_the_command(void **state)
{
    struct trial *trial = *state;
    char path[100];
    char *environment[] = {path, NULL};

    trial_file(trial, "found-here", "#!/bin/sh\necho \"$0 $1\"\n", 0755);
    trial->spec.envp = environment;
    trial_words(trial, "found-here", "x", NULL);

    snprintf(path, sizeof path, "PATH=/nowhere:/etc/passwd:%s:/bin", trial->root);
    trial_run(trial);
    assert_exit(trial, 0);
    struct buf text = text_of(process_out(trial->process));
    assert_non_null(strstr(buf_str(&text), "/found-here x"));
    buf_release(&text);

    /* An empty entry is the directory that the command runs in. */
    snprintf(path, sizeof path, "PATH=/nowhere:");
    trial->spec.cwd = trial->root;
    trial_run(trial);
    assert_exit(trial, 0);
    assert_out(trial, "found-here x\n");

    snprintf(path, sizeof path, "PATH=/nowhere:/bin");
    trial_run(trial);
    assert_failed(trial, ENOENT, "exec");

    /* Without a PATH there is that of the system. */
    environment[0] = NULL;
    trial_words(trial, "echo", "hello", NULL);
    trial_run(trial);
    assert_out(trial, "hello\n");
}

static void a_script_without_a_first_line_is_run_with_its_arguments_as_they_are(void **state)
{
    struct trial *trial = *state;

    trial_file(trial, "-plain", "echo \"<$1>\"\n", 0755);
    trial->spec.cwd = trial->root;
    trial_words(trial, "./-plain", "$(reboot)", NULL);
    trial_run(trial);
    assert_exit(trial, 0);
    assert_out(trial, "<$(reboot)>\n");

    /* Found by PATH, its name looks like an option of the shell. */
    static char here[] = "PATH=:/bin";
    char *environment[] = {here, NULL};
    trial->spec.envp = environment;
    trial_words(trial, "-plain", "-x", NULL);
    trial_run(trial);
    assert_exit(trial, 0);
    assert_out(trial, "<-x>\n");
}

static void it_runs_in_its_directory(void **state)
{
    struct trial *trial = *state;

    trial->spec.cwd = trial->root;
    trial_words(trial, "pwd", NULL, NULL);
    trial_run(trial);
    char expected[50];
    snprintf(expected, sizeof expected, "%s\n", trial->root);
    assert_out(trial, expected);
}

static void it_has_a_process_group_of_its_own(void **state)
{
    struct trial *trial = *state;
    char expected[60];

    trial_words(trial, "/usr/bin/cut", "-d ", "-f1,5");
    char *argv[] = {trial->argv[0], trial->argv[1], trial->argv[2], NULL, NULL};
    static char stat_file[] = "/proc/self/stat";
    argv[3] = stat_file;
    trial->spec.argv = argv;
    trial_run(trial);
    snprintf(expected, sizeof expected, "%d %d\n", (int)process_pid(trial->process),
             (int)process_pid(trial->process));
    assert_out(trial, expected);
}

static void no_signal_is_blocked_or_ignored_and_no_descriptor_is_left_open(void **state)
{
    struct trial *trial = *state;
    sigset_t blocked, before;
    int leak = dup(0);

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    void (*handler)(int) = signal(SIGUSR2, SIG_IGN);
    trial_run_script(trial, "grep -E '^Sig(Blk|Ign)' /proc/self/status | grep -v ':.0*$'; true");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGUSR2, handler);
    assert_exit(trial, 0);
    assert_out(trial, "");

    assert_true(leak >= 0);
    trial_words(trial, "ls", "/proc/self/fd", NULL);
    trial_run(trial);
    assert_out(trial, "0\n1\n2\n3\n"); /* The last is the directory that it reads. */
    close(leak);
}

/* in_a_fork runs a check in a process of its own, and asserts that it was true. */
static void in_a_fork(struct trial *trial, bool (*check)(struct trial *trial))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        trial->process = NULL;
        bool fine = loop_open(&trial->loop, &err) == STATUS_OK && check(trial);
        _exit(fine ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* run_quietly is trial_run, without assertions. */
static bool run_quietly(struct trial *trial)
{
    process_free(trial->process);
    trial->ended = 0;
    trial->process = process_start(trial->loop, &trial->spec, trial_ended, trial);
    if (!trial->process)
        return false;
    loop_run(trial->loop);
    return trial->ended == 1;
}

static bool hears_all(struct trial *trial, struct slice input)
{
    struct buf text;
    trial->spec.input = input;
    if (!run_quietly(trial) || trial->end.error || trial->end.exit_code)
        return false;
    buf_init(&text, 100);
    capture_print(process_out(trial->process), &text);
    capture_print(process_err(trial->process), &text);
    buf_add_slice(&text, process_said(trial->process));
    return slice_is(buf_slice(&text), input.len ? "input out\nerr\nsaid\n" : "out\nerr\nsaid\n");
}

static bool works_with_any_of_the_low_descriptors(struct trial *trial)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high = fcntl(null, F_DUPFD_CLOEXEC, 100);

    trial->spec.speaks = true;
    trial_script(trial, "cat; echo out; echo err >&2; echo said >&3");
    for (int taken = 0; taken < 16; taken++) { /* each bit is one that is open already */
        for (int fd = 0; fd < 4; fd++)
            if (taken >> fd & 1)
                dup3(high, fd, O_CLOEXEC);
            else
                close(fd);
        if (!hears_all(trial, SLICE("")) || !hears_all(trial, SLICE("input ")))
            return false;
    }
    return true;
}

static void a_process_without_standard_streams_can_start_commands(void **state)
{
    in_a_fork(*state, works_with_any_of_the_low_descriptors);
}

/* Starts that fail. */

static void a_command_that_cannot_be_run_is_told_from_the_loop(void **state)
{
    struct trial *trial = *state;
    char path[100];

    trial_words(trial, "no-such-command", NULL, NULL);
    trial_run(trial);
    assert_failed(trial, ENOENT, "exec");
    trial_words(trial, "/nowhere/command", NULL, NULL);
    trial_run(trial);
    assert_failed(trial, ENOENT, "exec");
    trial_words(trial, "", NULL, NULL);
    trial_run(trial);
    assert_failed(trial, ENOENT, "exec");
    trial_words(trial, NULL, NULL, NULL);
    trial_run(trial);
    assert_failed(trial, ENOENT, "exec");

    trial_file(trial, "data", "#!/bin/sh\n", 0644);
    snprintf(path, sizeof path, "%s/data", trial->root);
    trial_words(trial, path, NULL, NULL);
    trial_run(trial);
    assert_failed(trial, EACCES, "exec");

    trial_file(trial, "lost", "#!/no/such/interpreter\n", 0755);
    snprintf(path, sizeof path, "%s/lost", trial->root);
    trial_run(trial);
    assert_failed(trial, ENOENT, "exec");

    trial_words(trial, "/bin/true", NULL, NULL);
    trial->spec.cwd = "/nowhere";
    trial_run(trial);
    assert_failed(trial, ENOENT, "chdir");
    trial->spec.cwd = "/etc/passwd";
    trial_run(trial);
    assert_failed(trial, ENOTDIR, "chdir");
}

static void a_file_that_may_not_be_run_is_told_when_no_other_is_found(void **state)
{
    struct trial *trial = *state;
    char path[100];
    char *environment[] = {path, NULL};

    trial_file(trial, "data", "x", 0644);
    snprintf(path, sizeof path, "PATH=%s:/bin", trial->root);
    trial->spec.envp = environment;
    trial_words(trial, "data", NULL, NULL);
    trial_run(trial);
    assert_failed(trial, EACCES, "exec");
}

static void arguments_that_are_too_long_are_told(void **state)
{
    struct trial *trial = *state;
    char *word = mem_alloc(1u << 20);

    memset(word, 'x', (1u << 20) - 1);
    word[(1u << 20) - 1] = '\0';
    trial_words(trial, "/bin/true", word, NULL);
    trial_run(trial);
    assert_failed(trial, E2BIG, "exec");
    trial_words(trial, word, NULL, NULL);
    trial_run(trial);
    assert_int_not_equal(trial->end.error, 0);
    assert_string_equal(trial->end.what, "exec");
    mem_free(word);
}

static void without_descriptors_nothing_is_started_and_none_is_lost(void **state)
{
    struct trial *trial = *state;
    struct rlimit before, few;
    int failed = 0, next = dup(0);

    assert_true(next >= 0);
    close(next);
    int open_before = count_fds();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    trial->spec.speaks = true;
    trial->spec.input = SLICE("input");
    trial_script(trial, "cat; echo \"$1\" >&3");
    for (int room = 0; room < 12; room++) {
        few = (struct rlimit){(rlim_t)(next + room), before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        trial_run(trial);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(count_fds(), open_before);
        if (trial->end.error == 0) {
            assert_exit(trial, 0);
            assert_out(trial, "input");
        } else {
            assert_int_equal(trial->end.error, EMFILE);
            failed++;
        }
    }
    assert_in_range(failed, 5, 11); /* too few in the beginning, enough at the end */
    assert_int_equal(trial->end.error, 0);
}

static bool is_refused_a_process(struct trial *trial)
{
    struct rlimit none = {0};
    if (getuid() == 0 && setuid(65534) != 0)
        return false;
    if (setrlimit(RLIMIT_NPROC, &none) != 0)
        return false;
    trial_words(trial, "/bin/true", NULL, NULL);
    return run_quietly(trial) && trial->end.error == EAGAIN &&
           strcmp(trial->end.what, "fork") == 0 && process_pid(trial->process) == 0;
}

static void without_a_process_to_be_had_the_start_fails(void **state)
{
    in_a_fork(*state, is_refused_a_process);
}

static void without_memory_there_is_no_process_or_a_whole_one(void **state)
{
    struct trial *trial = *state;
    int refused = 0;

    trial->spec.speaks = true;
    trial_script(trial, "echo out; echo err >&2; echo said >&3");
    for (unsigned long n = 1; n < 12; n++) {
        int before = count_fds();
        mem_fail_after(n);
        struct process *process = process_start(trial->loop, &trial->spec, trial_ended, trial);
        if (process) {
            loop_run(trial->loop);
            assert_exit(trial, 0);
        }
        mem_fail_after(0);
        refused += !process;
        process_free(process);
        assert_int_equal(count_fds(), before);
    }
    assert_in_range(refused, 1, 5);
}

static void a_failed_start_that_is_freed_is_not_told(void **state)
{
    struct trial *trial = *state;

    trial_words(trial, "no-such-command", NULL, NULL);
    trial_start(trial);
    process_stop(trial->process, true);
    process_free(trial->process);
    trial->process = NULL;
    trial->ended = 0;
    /* The loop goes round with another one, which is told. */
    struct trial other = *trial;
    other.spec.argv = other.argv;
    trial_run_script(&other, "exit 0");
    assert_int_equal(trial->ended, 0);
    process_free(other.process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL(arguments_and_environment_are_as_given),
        TRIAL(a_name_is_looked_up_in_the_path_of_the_command),
        TRIAL(a_script_without_a_first_line_is_run_with_its_arguments_as_they_are),
        TRIAL(it_runs_in_its_directory),
        TRIAL(it_has_a_process_group_of_its_own),
        TRIAL(no_signal_is_blocked_or_ignored_and_no_descriptor_is_left_open),
        TRIAL(a_process_without_standard_streams_can_start_commands),
        TRIAL(a_command_that_cannot_be_run_is_told_from_the_loop),
        TRIAL(a_file_that_may_not_be_run_is_told_when_no_other_is_found),
        TRIAL(arguments_that_are_too_long_are_told),
        TRIAL(without_descriptors_nothing_is_started_and_none_is_lost),
        TRIAL(without_a_process_to_be_had_the_start_fails),
        TRIAL(without_memory_there_is_no_process_or_a_whole_one),
        TRIAL(a_failed_start_that_is_freed_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
