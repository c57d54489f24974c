/* test_streams: what commands write and read. */
#include "run/trial.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* Streams. */

static void both_streams_and_descriptor_3_are_heard_apart(void **state)
{
    struct trial *trial = *state;

    trial->spec.speaks = true;
    trial_run_script(trial, "echo out; echo err >&2; echo said >&3; echo more");
    assert_exit(trial, 0);
    assert_out(trial, "out\nmore\n");
    assert_text(process_err(trial->process), "err\n");
    assert_true(slice_eq(process_said(trial->process), SLICE("said\n")));
}

static void without_speech_there_is_no_descriptor_3(void **state)
{
    struct trial *trial = *state;

    trial_run_script(trial, "echo said >&3");
    assert_exit(trial, 2);
    assert_int_equal(process_said(trial->process).len, 0);
}

static void speech_is_cut_at_its_limit(void **state)
{
    struct trial *trial = *state;

    trial->spec.speaks = true;
    trial_run_script(trial, "head -c 3000000 /dev/zero >&3; echo done");
    assert_exit(trial, 0);
    assert_int_equal(process_said(trial->process).len, PROCESS_SAID_MAX);
    assert_out(trial, "done\n");
}

static void three_hundred_megabytes_take_no_memory(void **state)
{
    struct trial *trial = *state;
    long before_kb = own_peak_kb();

    trial_run_script(trial, "head -c 300000000 /dev/zero; echo the end >&2");
    assert_exit(trial, 0);
    assert_int_equal(process_out(trial->process)->total, 300000000);
    assert_int_equal(capture_cut(process_out(trial->process)),
                     300000000 - CAPTURE_HEAD_MAX - CAPTURE_TAIL_MAX);
    assert_text(process_err(trial->process), "the end\n");
    assert_true(own_peak_kb() - before_kb < 20 << 10);
}

static void one_that_writes_without_end_does_not_keep_others_waiting(void **state)
{
    struct trial *trial = *state;
    struct trial loud = *trial;

    trial_words(&loud, "yes", NULL, NULL);
    loud.spec.argv = loud.argv;
    loud.process = NULL;
    trial_start(&loud);
    for (int i = 0; i < 20; i++) {
        trial_run_script(trial, "echo quiet");
        assert_exit(trial, 0);
        assert_out(trial, "quiet\n");
        assert_int_equal(loud.ended, 0);
    }
    assert_true(process_out(loud.process)->total > 0);
    process_free(loud.process);
}

static void a_command_may_close_its_streams_and_run_on(void **state)
{
    struct trial *trial = *state;

    trial->spec.speaks = true;
    trial->spec.grace = span_seconds(1000);
    trial_stop_at_word(trial,
                       "trap 'exit 7' TERM; echo before; exec >&- 2>&-; echo ready >&3; "
                       "sleep 1000 & wait",
                       false);
    assert_exit(trial, 7);
    assert_true(trial->end.stopped);
    assert_out(trial, "before\n");
}

static void a_daemon_that_holds_the_streams_neither_delays_the_end_nor_dies_of_it(void **state)
{
    struct trial *trial = *state;
    char path[100];

    snprintf(path, sizeof path, "%s/go", trial->root);
    assert_int_equal(mkfifo(path, 0600), 0);
    int go = open(path, O_RDWR | O_CLOEXEC);
    assert_true(go >= 0);
    trial->spec.cwd = trial->root;
    trial_run_script(trial, "(read word <go; echo $word >answer) & echo $!; exit 3");
    assert_exit(trial, 3);
    pid_t daemon = number_in(process_out(trial->process));
    assert_true(daemon > 0);

    /* It answers what it is asked after the command has ended. */
    assert_int_equal(write(go, "alive\n", 6), 6);
    await_death(daemon);
    close(go);
    snprintf(path, sizeof path, "%s/answer", trial->root);
    assert_file_is(path, SLICE("alive\n"));
}

static void a_daemon_that_writes_on_does_not_delay_the_end(void **state)
{
    struct trial *trial = *state;

    trial_run_script(trial, "yes & echo $! >&2; exit 3");
    assert_exit(trial, 3);
    /* The pipe is closed, and it dies of that. */
    await_death(number_in(process_err(trial->process)));
}

static void what_was_written_last_is_read_after_the_end(void **state)
{
    struct trial *trial = *state;

    /* The pipe has it and the command is dead before the loop looks for the first time. */
    trial_script(trial, "head -c 60000 /dev/zero; echo last; echo err >&2");
    trial_start(trial);
    await_zombie(process_pid(trial->process));
    loop_run(trial->loop);
    assert_int_equal(process_out(trial->process)->total, 60005);
    assert_text(process_err(trial->process), "err\n");

    /* It has made the pipe as large as it may be (F_SETPIPE_SZ). */
    trial_words(trial, "python3", "-c",
                "import fcntl, os; fcntl.fcntl(1, 1031, 1 << 20); os.write(1, b'x' * 900000)");
    trial_start(trial);
    await_zombie(process_pid(trial->process));
    loop_run(trial->loop);
    assert_exit(trial, 0);
    assert_int_equal(process_out(trial->process)->total, 900000);
}

/* Input. */

static char *pattern(size_t len)
{
    char *bytes = mem_alloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 31 + i / 251);
    return bytes;
}

static void input_of_any_size_arrives_whole_and_the_artifact_has_it(void **state)
{
    static const size_t sizes[] = {1, 4096, 65535, 65536, 65537, 3000000};
    struct trial *trial = *state;
    struct err err = {0};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct artifact artifact;
        struct slice input = {pattern(sizes[i]), sizes[i]};
        assert_int_equal(artifact_init(&artifact, trial->root, SLICE("r"), SLICE("i"), 1,
                                       ARTIFACT_MAX_DEFAULT, &err),
                         STATUS_OK);
        trial->spec.input = input;
        trial->spec.artifact = &artifact;
        trial_words(trial, "cat", NULL, NULL);
        trial_run(trial);
        assert_exit(trial, 0);
        assert_int_equal(process_out(trial->process)->total, sizes[i]);
        artifact_close(&artifact);
        assert_file_is(artifact.path, input);
        artifact_release(&artifact);
        mem_free((void *)(uintptr_t)input.ptr);
    }
}

static void input_that_nobody_reads_is_no_trouble(void **state)
{
    struct trial *trial = *state;
    char *bytes = pattern(1000000);

    trial->spec.input = (struct slice){bytes, 1000000};
    trial_run_script(trial, "exit 5");
    assert_exit(trial, 5);
    trial_run_script(trial, "head -c 3 | wc -c");
    assert_exit(trial, 0);
    assert_out(trial, "3\n");

    /* It closes its input, and we hear of that while it runs on. */
    trial->spec.grace = span_seconds(1000);
    trial_stop_at_word(trial, "trap 'exit 6' TERM; exec <&-; echo ready; sleep 1000 & wait", false);
    assert_exit(trial, 6);
    mem_free(bytes);
}

static void without_input_there_is_an_empty_one(void **state)
{
    struct trial *trial = *state;

    trial_run_script(trial, "readlink /proc/self/fd/0; wc -c");
    assert_exit(trial, 0);
    assert_out(trial, "/dev/null\n0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL(both_streams_and_descriptor_3_are_heard_apart),
        TRIAL(without_speech_there_is_no_descriptor_3),
        TRIAL(speech_is_cut_at_its_limit),
        TRIAL(three_hundred_megabytes_take_no_memory),
        TRIAL(one_that_writes_without_end_does_not_keep_others_waiting),
        TRIAL(a_command_may_close_its_streams_and_run_on),
        TRIAL(a_daemon_that_holds_the_streams_neither_delays_the_end_nor_dies_of_it),
        TRIAL(a_daemon_that_writes_on_does_not_delay_the_end),
        TRIAL(what_was_written_last_is_read_after_the_end),
        TRIAL(input_of_any_size_arrives_whole_and_the_artifact_has_it),
        TRIAL(input_that_nobody_reads_is_no_trouble),
        TRIAL(without_input_there_is_an_empty_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
