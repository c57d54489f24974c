/* test_process: how commands end, by themselves and by us, and what is left of them. */
#include "run/trial.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/memory.h"

/* How a command ends. */

static void an_exit_code_is_told(void **state)
{
    struct trial *trial = *state;
    static const int codes[] = {0, 1, 2, 126, 127, 255};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char script[20];
        snprintf(script, sizeof script, "exit %d", codes[i]);
        trial_run_script(trial, script);
        assert_exit(trial, codes[i]);
        assert_false(trial->end.timed_out || trial->end.stopped || trial->end.oom_killed);
    }
}

static void a_signal_is_told(void **state)
{
    struct trial *trial = *state;
    static const int signals[] = {SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGUSR1};

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char script[20];
        snprintf(script, sizeof script, "kill -%d $$", signals[i]);
        trial_run_script(trial, script);
        assert_signal(trial, signals[i]);
        assert_false(trial->end.core || trial->end.timed_out || trial->end.stopped ||
                     trial->end.oom_killed);
    }
}

/* leaves_core says whether a command that may leave a core file does so on this machine. */
static bool leaves_core(const char *directory, char *const *argv)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(directory) == 0)
            execve(argv[0], argv, usual_environment);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    return WCOREDUMP(status);
}

static void a_core_file_is_told(void **state)
{
    struct trial *trial = *state;

    trial->spec.cwd = trial->root;
    trial_run_script(trial, "ulimit -c 0; kill -SEGV $$");
    assert_signal(trial, SIGSEGV);
    assert_false(trial->end.core);
    trial_run_script(trial, "ulimit -c unlimited; kill -SEGV $$");
    assert_signal(trial, SIGSEGV);
    assert_int_equal(trial->end.core, leaves_core(trial->root, trial->argv));
}

static void what_was_used_is_told(void **state)
{
    struct trial *trial = *state;

    trial_run_script(trial, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
    assert_exit(trial, 0);
    int64_t cpu_us = trial->end.cpu_user.us + trial->end.cpu_system.us;
    assert_true(cpu_us > 0);
    assert_true(trial->end.duration.us > 0);

    /* A command that takes more than this process: its children count as it waited for them. */
    trial_run_script(trial, "dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null; exit 4");
    assert_exit(trial, 4);
    assert_in_range(trial->end.memory_max_kb, 300 << 10, 600 << 10);

    /* And one that takes nothing to speak of: what this process has is not told as its own. */
    char *large = mem_alloc(64u << 20);
    assert_non_null(large);
    memset(large, 'x', 64u << 20);
    assert_true(own_peak_kb() >= 64 << 10);
    trial_words(trial, "/bin/true", NULL, NULL);
    trial_run(trial);
    assert_exit(trial, 0);
    assert_in_range(trial->end.memory_max_kb, 0, 8 << 10);
    mem_free(large);
}

/* Ending a command. */

static void a_time_out_ends_the_whole_group(void **state)
{
    struct trial *trial = *state;
    pid_t other = 0;

    trial->spec.grace = span_seconds(1000);
    for (int64_t ms = 50; other == 0; ms *= 2) {
        trial->spec.timeout = span_ms(ms);
        trial_run_script(trial, "sleep 1000 & echo $!; sleep 1000");
        assert_signal(trial, SIGTERM);
        assert_true(trial->end.timed_out);
        assert_false(trial->end.stopped || trial->end.oom_killed);
        other = number_in(process_out(trial->process));
    }
    await_death(other);
}

static void the_whole_group_hears_the_end(void **state)
{
    struct trial *trial = *state;

    /* The leader waits until the other one has heard it. */
    trial->spec.grace = span_seconds(20);
    trial_stop_at_word(trial,
                       "trap : TERM; sh -c 'trap \"echo heard >&2; exit\" TERM; echo ready; "
                       "sleep 1000 & wait' & wait; wait; exit 4",
                       false);
    assert_exit(trial, 4);
    assert_text(process_err(trial->process), "heard\n");
}

static void what_ignores_the_end_in_the_group_of_one_that_was_ended_is_killed(void **state)
{
    struct trial *trial = *state;

    /* The leader dies of TERM; the other one does not hear it. */
    trial->spec.grace = span_seconds(1000);
    trial_stop_at_word(trial, "(trap '' TERM; exec sh -c 'echo $$; exec sleep 1000') & wait",
                       false);
    assert_signal(trial, SIGTERM);
    await_death(number_in(process_out(trial->process)));
}

static void one_that_ignores_term_is_killed_after_the_grace(void **state)
{
    struct trial *trial = *state;

    trial->spec.grace = span_ms(5);
    trial_stop_at_word(trial, "trap '' TERM; echo ready; sleep 1000 & wait; sleep 1000", false);
    assert_signal(trial, SIGKILL);
    assert_true(trial->end.stopped);
    assert_false(trial->end.timed_out || trial->end.oom_killed);
}

static void a_time_out_without_grace_kills_at_once(void **state)
{
    struct trial *trial = *state;

    trial->spec.timeout = span_ms(1);
    trial_words(trial, "sleep", "1000", NULL);
    trial_run(trial);
    assert_signal(trial, SIGKILL);
    assert_true(trial->end.timed_out);
    assert_false(trial->end.stopped || trial->end.oom_killed);
}

static void one_that_is_stopped_hears_the_end(void **state)
{
    struct trial *trial = *state;
    siginfo_t info;

    trial->spec.grace = span_seconds(1000);
    trial_script(trial, "trap 'exit 9' TERM; kill -STOP $$");
    trial_start(trial);
    assert_int_equal(waitid(P_PID, (id_t)process_pid(trial->process), &info, WSTOPPED | WNOWAIT),
                     0);
    process_stop(trial->process, false);
    loop_run(trial->loop);
    assert_exit(trial, 9);
    assert_true(trial->end.stopped);
}

/* look_again stops the command once it has said something, and then again and again; at once when
 * it has heard of it. */
static void look_again(struct loop_timer *timer)
{
    struct trial *trial = (struct trial *)((char *)timer - offsetof(struct trial, look));
    if (process_out(trial->process)->total > 0)
        process_stop(trial->process, process_said(trial->process).len > 0);
    assert_true(loop_timer_set(trial->loop, timer, span_ms(1)));
}

static void stop_again_and_again(struct trial *trial, const char *script)
{
    trial->spec.speaks = true;
    trial_script(trial, script);
    trial_start(trial);
    trial->look.fire = look_again;
    assert_true(loop_timer_set(trial->loop, &trial->look, span_ms(1)));
    loop_run(trial->loop);
    loop_timer_clear(trial->loop, &trial->look);
    assert_signal(trial, SIGKILL);
    assert_true(trial->end.stopped);
}

static void a_stop_at_once_ends_the_grace(void **state)
{
    struct trial *trial = *state;

    trial->spec.grace = span_seconds(1000);
    stop_again_and_again(
        trial, "trap 'echo heard >&3' TERM; echo ready; while :; do sleep 1000 & wait; done");
}

static void a_stop_that_is_repeated_does_not_prolong_the_grace(void **state)
{
    struct trial *trial = *state;

    trial->spec.grace = span_ms(20);
    stop_again_and_again(trial, "trap '' TERM; echo ready; sleep 1000");
}

static void one_that_has_ended_by_itself_was_not_stopped(void **state)
{
    struct trial *trial = *state;

    trial_script(trial, "exit 8");
    trial_start(trial);
    await_zombie(process_pid(trial->process));
    process_stop(trial->process, true);
    loop_run(trial->loop);
    assert_exit(trial, 8);
    assert_false(trial->end.stopped);
    process_stop(trial->process, true);
    assert_int_equal(trial->ended, 1);
}

static void one_that_has_ended_in_time_was_not_timed_out(void **state)
{
    struct trial *trial = *state;

    trial_script(trial, "exit 8");
    trial->spec.timeout = span_ms(1);
    trial_start(trial);
    int64_t due_us = loop_now().us + 1000;
    await_zombie(process_pid(trial->process));
    while (loop_now().us < due_us)
        sched_yield(); /* Both are there when the loop looks for the first time. */
    loop_run(trial->loop);
    assert_exit(trial, 8);
    assert_false(trial->end.timed_out);
}

static void one_that_is_freed_is_killed_with_its_group_and_not_told(void **state)
{
    struct trial *trial = *state;
    int before = count_fds();

    trial_words(trial, "sleep", "1000", NULL);
    trial_start(trial);
    pid_t pid = process_pid(trial->process);
    process_free(trial->process);
    trial->process = NULL;
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(trial->ended, 0);
    assert_int_equal(count_fds(), before);
    process_free(NULL);
}

static bool start_and_wait(struct trial *trial)
{
    trial_words(trial, "sleep", "1000", NULL);
    trial->process = process_start(trial->loop, &trial->spec, trial_ended, trial);
    if (!trial->process)
        return false;
    int pid = process_pid(trial->process);
    if (write(trial->ended, &pid, sizeof pid) != sizeof pid)
        return false;
    loop_run(trial->loop);
    return true;
}

static void a_command_dies_with_the_process_that_started_it(void **state)
{
    struct trial *trial = *state;
    int ends[2], pid = 0, status;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t helper = fork();
    if (helper == 0) {
        trial->ended = ends[1];
        _exit(start_and_wait(trial));
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
    close(ends[0]);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(kill(helper, SIGKILL), 0);
    assert_int_equal(waitpid(helper, &status, 0), helper);
    await_death(pid);
}

/* Many. */

enum { MANY = 300 };

struct many {
    struct loop *loop;
    struct process *processes[MANY];
    int ended, failed;
};

struct one {
    struct many *many;
    int number;
};

static void one_ended(void *ctx, const struct process_end *end)
{
    struct one *one = ctx;
    struct many *many = one->many;
    struct buf text = text_of(process_out(many->processes[one->number]));
    char expected[20];

    snprintf(expected, sizeof expected, "%d\n", one->number);
    many->failed += end->error != 0 || end->signalled || end->exit_code != one->number % 256 ||
                    strcmp(buf_str(&text), expected) != 0;
    buf_release(&text);
    process_free(many->processes[one->number]); /* as one may, in here */
    if (++many->ended == MANY)
        loop_stop(many->loop);
}

static void hundreds_at_once_leave_nothing_behind(void **state)
{
    struct trial *trial = *state;
    struct many many = {.loop = trial->loop};
    struct one ones[MANY];
    int before = count_fds();

    trial->spec.input = SLICE("input");
    trial->spec.timeout = span_seconds(1000);
    for (int i = 0; i < MANY; i++) {
        char script[60];
        ones[i] = (struct one){&many, i};
        snprintf(script, sizeof script, "cat >/dev/null; echo %d; exit %d", i, i % 256);
        trial_script(trial, script);
        many.processes[i] = process_start(trial->loop, &trial->spec, one_ended, &ones[i]);
        assert_non_null(many.processes[i]);
    }
    loop_run(trial->loop);
    assert_int_equal(many.ended, MANY);
    assert_int_equal(many.failed, 0);
    assert_int_equal(count_fds(), before);
}

/* Memory. */

static void a_kill_by_the_kernel_is_told_from_others(void **state)
{
    struct trial *trial = *state;
    char path[100];

    trial_file(trial, "events", "low 0\noom 7\noom_kill 3\noom_group_kill 9\n", 0644);
    snprintf(path, sizeof path, "%s/events", trial->root);
    memory_oom_source(path);
    trial->spec.cwd = trial->root;

    trial_run_script(trial, "kill -KILL $$");
    assert_signal(trial, SIGKILL);
    assert_false(trial->end.oom_killed);

    trial_run_script(trial, "echo 'oom_kill 4' >events; kill -KILL $$");
    assert_signal(trial, SIGKILL);
    assert_true(trial->end.oom_killed);

    /* That was of the one before. */
    trial_run_script(trial, "kill -KILL $$");
    assert_false(trial->end.oom_killed);

    /* Something was killed, but this one has ended in another way. */
    trial_run_script(trial, "echo 'oom_kill 5' >events; kill -TERM $$");
    assert_signal(trial, SIGTERM);
    assert_false(trial->end.oom_killed);

    /* And this one was killed by us. */
    trial_stop_at_word(trial, "echo 'oom_kill 6' >events; echo ready; sleep 1000", true);
    assert_signal(trial, SIGKILL);
    assert_false(trial->end.oom_killed);
    memory_oom_source(NULL);
}

static void of_two_that_were_killed_at_once_both_are_told(void **state)
{
    struct trial *trial = *state;
    struct trial other = *trial;
    char path[100];

    trial_file(trial, "events", "oom_kill 3\n", 0644);
    snprintf(path, sizeof path, "%s/events", trial->root);
    memory_oom_source(path);
    trial->spec.cwd = other.spec.cwd = trial->root;
    other.spec.argv = other.argv;
    trial_script(trial, "kill -KILL $$");
    trial_script(&other, "echo 'oom_kill 5' >events; kill -KILL $$");
    trial_start(&other);
    trial_start(trial);
    await_zombie(process_pid(other.process));
    await_zombie(process_pid(trial->process));
    while (!trial->ended || !other.ended)
        loop_run(trial->loop);
    assert_true(trial->end.oom_killed);
    assert_true(other.end.oom_killed);
    process_free(other.process);
    memory_oom_source(NULL);
}

static void a_peak_that_is_not_above_our_own_is_not_known(void **state)
{
    (void)state;
    assert_int_equal(memory_of_child(0), 0);
    assert_int_equal(memory_of_child(100), 0);
    assert_int_equal(memory_of_child(INT64_C(1) << 40), INT64_C(1) << 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL(an_exit_code_is_told),
        TRIAL(a_signal_is_told),
        TRIAL(a_core_file_is_told),
        TRIAL(what_was_used_is_told),
        TRIAL(a_time_out_ends_the_whole_group),
        TRIAL(the_whole_group_hears_the_end),
        TRIAL(what_ignores_the_end_in_the_group_of_one_that_was_ended_is_killed),
        TRIAL(one_that_ignores_term_is_killed_after_the_grace),
        TRIAL(a_time_out_without_grace_kills_at_once),
        TRIAL(one_that_is_stopped_hears_the_end),
        TRIAL(a_stop_at_once_ends_the_grace),
        TRIAL(a_stop_that_is_repeated_does_not_prolong_the_grace),
        TRIAL(one_that_has_ended_by_itself_was_not_stopped),
        TRIAL(one_that_has_ended_in_time_was_not_timed_out),
        TRIAL(one_that_is_freed_is_killed_with_its_group_and_not_told),
        TRIAL(a_command_dies_with_the_process_that_started_it),
        TRIAL(hundreds_at_once_leave_nothing_behind),
        TRIAL(a_kill_by_the_kernel_is_told_from_others),
        TRIAL(of_two_that_were_killed_at_once_both_are_told),
        cmocka_unit_test(a_peak_that_is_not_above_our_own_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
