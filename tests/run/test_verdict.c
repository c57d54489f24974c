/* Verdicts: what each end of a process is called, and what is kept of it, whatever it wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"
#include "core/failure.h"
#include "run/verdict.h"
#include "run/verdict_judge.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OUT_MAX ((size_t)8 << 20)

static struct arena arena; /* emptied after each test */
static struct buf out;     /* what was printed last */

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, OUT_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&out);
    arena_release(&arena);
    return 0;
}

static struct capture captured(struct slice bytes)
{
    struct capture capture = {0};

    capture_add(&capture, bytes);
    return capture;
}

/* repeated is a text of `len` bytes: a word, over and over. */
static struct slice repeated(const char *word, size_t len)
{
    char *text = arena_alloc(&arena, len + 1);
    size_t word_len = strlen(word);

    for (size_t i = 0; i < len; i++)
        text[i] = word[i % word_len];
    return (struct slice){text, len};
}

/* printed prints a failure; the engine accepts each. */
static struct json printed(const struct verdict_facts *facts)
{
    struct jsonw w;
    struct json failure;
    struct failure read;
    struct err err = {0};

    buf_clear(&out);
    jsonw_init(&w, &out);
    verdict_print(facts, &w);
    assert_int_equal(out.status, STATUS_OK);
    if (json_parse(buf_slice(&out), &failure, &err) != STATUS_OK ||
        failure_parse(failure, &arena, &read, &err) != STATUS_OK)
        fail_msg("%s: %s", err.text, buf_str(&out));
    return failure;
}

/* member follows a path such as "artifacts.exit_code"; a null without bytes: there is none. */
static struct json member(struct json value, const char *path)
{
    char name[64];

    while (*path) {
        size_t len = strcspn(path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)len, path);
        if (!json_get(value, name, &value))
            return (struct json){0};
        path += len + (path[len] == '.');
    }
    return value;
}

/* assert_member compares a member's bytes; `expected` NULL: it is not there. */
static void assert_member(struct json failure, const char *path, const char *expected)
{
    struct json value = member(failure, path);

    if (!slice_is(value.raw, expected ? expected : ""))
        fail_msg("%s is %.*s, not %s", path, SLICE_ARG(value.raw), expected ? expected : "absent");
}

static struct slice text_at(struct json failure, const char *path)
{
    return json_text(member(failure, path), &arena);
}

static bool contains(struct slice text, const char *part)
{
    return text.ptr && memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

/* ---- causes ---------------------------------------------------------------------------------- */

struct cause_case {
    const char *name;
    struct verdict_facts facts; /* without streams */
    struct process_end end;
    bool nothing_ran;
    const char *err; /* standard error */
    const char *type, *class, *message;
};

static const struct cause_case causes[] = {
    {.name = "an exit code, and the command's last words",
     .end = {.exit_code = 101},
     .err = "thread 'main' panicked\n  assertion failed  \n\n",
     .type = "{\"CommandFailed\":{\"exit_code\":101}}",
     .message = "\"assertion failed\""},
    {.name = "an exit code without a word",
     .end = {.exit_code = 101},
     .err = " \n\t\n",
     .type = "{\"CommandFailed\":{\"exit_code\":101}}",
     .class = "\"unknown\"",
     .message = "\"cargo test failed with exit code 101\""},
    {.name = "a signal",
     .end = {.signalled = true, .signal = SIGSEGV},
     .type = "{\"CommandFailed\":{\"exit_code\":139,\"signal\":\"SIGSEGV\"}}",
     .class = "\"crashed\"",
     .message = "\"cargo test killed by SIGSEGV\""},
    {.name = "a signal, after last words",
     .end = {.signalled = true, .signal = SIGABRT},
     .err = "Assertion `x' failed.\n",
     .type = "{\"CommandFailed\":{\"exit_code\":134,\"signal\":\"SIGABRT\"}}",
     .message = "\"Assertion `x' failed.\""},
    {.name = "a signal without a name",
     .end = {.signalled = true, .signal = 50},
     .type = "{\"CommandFailed\":{\"exit_code\":178,\"signal\":\"SIG50\"}}",
     .class = "\"unknown\"",
     .message = "\"cargo test killed by SIG50\""},
    {.name = "its time was over",
     .facts = {.timeout = {90000000}},
     .end = {.signalled = true, .signal = SIGKILL, .timed_out = true, .duration = {95000000}},
     .err = "working\n",
     .type = "\"Timeout\"",
     .class = "\"timeout\"",
     .message = "\"timed out after 90 s\""},
    {.name = "its time was over, and it ended well when it was told",
     .end = {.timed_out = true, .duration = {2540000}},
     .type = "\"Timeout\"",
     .class = "\"timeout\"",
     .message = "\"timed out after 2.5 s\""},
    {.name = "its time was over soon",
     .facts = {.timeout = {250000}},
     .end = {.timed_out = true},
     .type = "\"Timeout\"",
     .class = "\"timeout\"",
     .message = "\"timed out after 0.25 s\""},
    {.name = "no process for it",
     .end = {.error = EAGAIN, .what = "fork"},
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"cargo test: cannot be started: fork: Resource temporarily unavailable\""},
    {.name = "no descriptors for it",
     .end = {.error = EMFILE, .what = "pipe"},
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"cargo test: cannot be started: pipe: Too many open files\""},
    {.name = "no memory for its program",
     .end = {.error = ENOMEM, .what = "exec"},
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"cargo test: cannot be run: Cannot allocate memory\""},
    {.name = "ended by the kernel for memory",
     .end = {.signalled = true, .signal = SIGKILL, .oom_killed = true},
     .err = "reading\n",
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"cargo test was killed by the kernel: out of memory\""},
    {.name = "a full disk, by its words",
     .end = {.exit_code = 2},
     .err = "cp: error writing 'x': No space left on device\n",
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"cp: error writing 'x': No space left on device\""},
    {.name = "memory of our own was exhausted",
     .facts = {.message = {"out of memory", 13}},
     .nothing_ran = true,
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"out of memory\""},
    {.name = "a command that is not there",
     .end = {.error = ENOENT, .what = "exec"},
     .type = "{\"CommandFailed\":{\"exit_code\":127}}",
     .class = "\"invalid_input\"",
     .message = "\"cargo test: command not found\""},
    {.name = "a command that may not be run",
     .end = {.error = EACCES, .what = "exec"},
     .type = "{\"CommandFailed\":{\"exit_code\":126}}",
     .class = "\"invalid_input\"",
     .message = "\"cargo test: cannot be run: Permission denied\""},
    {.name = "arguments that are too long",
     .end = {.error = E2BIG, .what = "exec"},
     .type = "{\"CommandFailed\":{\"exit_code\":126}}",
     .class = "\"invalid_input\"",
     .message = "\"cargo test: cannot be run: Argument list too long\""},
    {.name = "a program that is being written",
     .end = {.error = ETXTBSY, .what = "exec"},
     .type = "{\"CommandFailed\":{\"exit_code\":126}}",
     .class = "\"unknown\"",
     .message = "\"cargo test: cannot be run: Text file busy\""},
    {.name = "a directory that is gone",
     .end = {.error = ENOENT, .what = "chdir"},
     .type = "\"Unknown\"",
     .message = "\"cargo test: cannot be started: chdir: No such file or directory\""},
    {.name = "a worktree that is gone",
     .facts = {.worktree = {"{\"worktree_path\":\"/w\"}", 22}},
     .end = {.error = ENOENT, .what = "chdir"},
     .type = "\"WorktreeError\"",
     .message = "\"cargo test: cannot be started: chdir: No such file or directory\""},
    {.name = "a validation",
     .facts = {.step = STEP_VALIDATE},
     .end = {.exit_code = 1},
     .err = "the file is empty\n",
     .type = "\"ValidationFailed\"",
     .message = "\"the file is empty\""},
    {.name = "a validation without a word",
     .facts = {.step = STEP_VALIDATE},
     .end = {.exit_code = 3},
     .type = "\"ValidationFailed\"",
     .message = "\"cargo test failed with exit code 3\""},
    {.name = "a validation that took too long",
     .facts = {.step = STEP_VALIDATE},
     .end = {.signalled = true, .signal = SIGTERM, .timed_out = true, .duration = {1000000}},
     .type = "\"Timeout\"",
     .class = "\"timeout\"",
     .message = "\"timed out after 1 s\""},
    {.name = "a worktree that cannot be made",
     .facts = {.step = STEP_WORKTREE, .message = {"git worktree add: fatal: no", 27}},
     .end = {.exit_code = 128},
     .type = "\"WorktreeError\"",
     .message = "\"git worktree add: fatal: no\""},
    {.name = "a conflict",
     .facts = {.step = STEP_MERGE, .conflict = true, .message = {"conflict in timeout.c", 21}},
     .end = {.exit_code = 1},
     .type = "\"MergeConflict\"",
     .class = "\"unknown\"",
     .message = "\"conflict in timeout.c\""},
    {.name = "a merge that was refused",
     .facts = {.step = STEP_MERGE, .message = {"local changes", 13}},
     .end = {.exit_code = 1},
     .type = "\"WorktreeError\"",
     .message = "\"local changes\""},
    {.name = "a merge without room",
     .facts = {.step = STEP_MERGE, .message = {"fatal: sha1: No space left on device", 36}},
     .end = {.exit_code = 128},
     .type = "\"ResourceExhausted\"",
     .class = "\"congestion\"",
     .message = "\"fatal: sha1: No space left on device\""},
    {.name = "no commit",
     .facts = {.step = STEP_COMMIT},
     .nothing_ran = true,
     .type = "\"CommitValidationFailed\"",
     .message = "\"no commit was made\""},
    {.name = "an item that cannot be run",
     .facts = {.invalid = true, .message = {"the item has no field \"x\"", 25}},
     .nothing_ran = true,
     .type = "\"Unknown\"",
     .class = "\"invalid_input\"",
     .message = "\"the item has no field \\\"x\\\"\""},
    {.name = "the runner was stopped",
     .facts = {.interrupted = true},
     .end = {.signalled = true, .signal = SIGTERM, .stopped = true},
     .type = "\"Unknown\"",
     .class = "\"crashed\"",
     .message = "\"interrupted: the runner was stopped\""},
    {.name = "the runner was stopped between two steps",
     .facts = {.interrupted = true},
     .type = "\"Unknown\"",
     .class = "\"crashed\"",
     .message = "\"interrupted: the runner was stopped\""},
    {.name = "somebody cancelled the job",
     .facts = {.cancelled = true},
     .end = {.signalled = true, .signal = SIGTERM, .stopped = true},
     .type = "\"Unknown\"",
     .message = "\"cancelled\""},
    {.name = "nothing is known",
     .nothing_ran = true,
     .type = "\"Unknown\"",
     .message = "\"cargo test was not run\""},
    {.name = "stopped, and it ended well",
     .end = {.stopped = true},
     .type = "\"Unknown\"",
     .message = "\"cargo test was stopped\""},
};

static void each_cause_has_its_type_class_and_message(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(causes); i++) {
        const struct cause_case *c = &causes[i];
        struct capture err = captured(slice_of(c->err));
        struct verdict_facts facts = c->facts;
        facts.end = c->nothing_ran ? NULL : &c->end;
        facts.err = &err;
        facts.command = SLICE("cargo test");
        print_message("# %s\n", c->name);
        struct json failure = printed(&facts);
        assert_member(failure, "error_type", c->type);
        assert_member(failure, "class", c->class);
        assert_member(failure, "message", c->message);
        assert_member(failure, "interrupted", facts.interrupted ? "true" : NULL);
        capture_release(&err);
    }
}

static void a_cause_that_is_known_better_keeps_the_last_words_in_its_context(void **state)
{
    struct process_end end = {.timed_out = true, .signalled = true, .signal = SIGTERM};
    struct slice context[] = {SLICE("Processing work item a"), SLICE("Running cargo test")};
    struct capture err = captured(SLICE("compiling\nlinking\n"));
    struct verdict_facts facts = {
        .end = &end, .err = &err, .context = context, .context_count = COUNT(context)};
    (void)state;

    assert_member(printed(&facts), "error_context",
                  "[\"Processing work item a\",\"Running cargo test\","
                  "\"The last line of standard error: linking\"]");
    end.timed_out = false;
    assert_member(printed(&facts), "error_context",
                  "[\"Processing work item a\",\"Running cargo test\"]");
    facts.context_count = 0;
    assert_member(printed(&facts), "error_context", NULL);
    capture_release(&err);
}

static void what_ended_well_and_said_nothing_is_no_failure(void **state)
{
    static const struct process_end well = {0}, exited = {.exit_code = 1},
                                    killed = {.signalled = true, .signal = SIGKILL},
                                    late = {.timed_out = true}, stopped = {.stopped = true},
                                    unstarted = {.error = ENOENT, .what = "exec"};
    static const struct {
        struct verdict_facts facts;
        bool failed;
    } cases[] = {
        {{.end = &well}, false},
        {{.end = &well, .step = STEP_VALIDATE}, false},
        {{.end = &well, .said = {" \n\t", 3}}, false},
        {{.end = &well, .said = {"{}", 2}}, true},
        {{.end = &well, .said = {"oops", 4}}, true},
        {{.end = &well, .message = {"no", 2}}, true},
        {{.end = &well, .conflict = true}, true},
        {{.end = &well, .invalid = true}, true},
        {{.end = &exited}, true},
        {{.end = &killed}, true},
        {{.end = &late}, true},
        {{.end = &stopped}, true},
        {{.end = &unstarted}, true},
        {{.end = NULL}, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        if (verdict_failed(&cases[i].facts) != cases[i].failed)
            fail_msg("case %zu", i);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void words_of_exhaustion_are_told_from_others(void **state)
{
    static const struct {
        const char *text;
        bool tells;
    } cases[] = {
        {"write: No space left on device", true},
        {"ENOSPC: no space, write", true},
        {"OSError: [Errno 122] Disk quota exceeded: 'x'", true},
        {"MemoryError", true},
        {"MemoryError: Unable to allocate 8 GiB", true},
        {"terminate called after throwing an instance of 'std::bad_alloc'", true},
        {"FATAL ERROR: JavaScript heap out of memory", true},
        {"Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space", true},
        {"fatal error: runtime: out of memory", true},
        {"sh: 1: Cannot fork: Resource temporarily unavailable", true},
        {"bash: fork: retry: Resource temporarily unavailable", true},
        {"open: Too many open files", true},
        {"xz: Cannot allocate memory", true},
        {"Out of memory\nwhile reading line 5\nof file x\n", true},
        {"read: Resource temporarily unavailable", false},
        {"forked: Resource temporarily unavailable", false},
        {"test_out_of_memory failed", false},
        {"NotAMemoryErrorAtAll", false},
        {"XENOSPCX", false},
        {"no space left in the margin", false},
        {"1 test failed", false},
        {"Out of memory\n1\n2\n3\n4\n5\n", false},  /* long ago */
        {"Out of memory\n\n\n2\n\n3\n\n4\n", true}, /* blank lines do not count */
        {"", false},
        {"\n\n", false},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        if (verdict_exhausted(slice_of(cases[i].text)) != cases[i].tells)
            fail_msg("%s", cases[i].text);
}

static void words_of_a_command_that_succeeded_do_not_count(void **state)
{
    struct process_end end = {0};
    struct capture err = captured(SLICE("warning: out of memory, trying again\n"));
    struct verdict_facts facts = {.end = &end, .err = &err};
    (void)state;

    assert_false(verdict_failed(&facts));
    capture_release(&err);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void everything_that_is_known_is_kept_under_its_name(void **state)
{
    struct process_end end = {.exit_code = 3,
                              .duration = {1500},
                              .cpu_user = {1234567},
                              .cpu_system = {89000},
                              .memory_max_kb = 4321};
    struct capture output = captured(SLICE("hello\n")), err = captured(SLICE("a\nb\n"));
    struct verdict_facts facts = {.end = &end,
                                  .out = &output,
                                  .err = &err,
                                  .command = SLICE("tool 'a b'"),
                                  .agent_id = SLICE("map#1"),
                                  .artifact = SLICE("/d/artifacts/r/0a/x-1.log"),
                                  .reason = SLICE("crash_loop"),
                                  .duration = {45000000}};
    (void)state;

    printed(&facts);
    assert_string_equal(
        buf_str(&out),
        "{\"error_type\":{\"CommandFailed\":{\"exit_code\":3}},\"message\":\"b\","
        "\"stack_trace\":\"a\\nb\\n\",\"agent_id\":\"map#1\",\"step_failed\":\"tool 'a b'\","
        "\"duration_ms\":45000,\"json_log_location\":\"/d/artifacts/r/0a/x-1.log\","
        "\"reason\":\"crash_loop\","
        "\"artifacts\":{\"exit_code\":3,\"cpu_user_ms\":1234,\"cpu_system_ms\":89,"
        "\"memory_max_kb\":4321,\"stdout\":\"hello\\n\",\"stdout_bytes\":6,"
        "\"stderr\":\"a\\nb\\n\",\"stderr_bytes\":4}}");
    capture_release(&output);
    capture_release(&err);
}

static void a_signal_and_its_core_file_are_kept(void **state)
{
    struct process_end end = {.signalled = true, .signal = SIGBUS, .core = true};
    struct verdict_facts facts = {.end = &end};
    (void)state;

    struct json failure = printed(&facts);
    assert_member(failure, "artifacts.exit_code", "135");
    assert_member(failure, "artifacts.signal", "\"SIGBUS\"");
    assert_member(failure, "artifacts.core_dumped", "true");
    assert_member(failure, "artifacts.stdout", NULL);
}

static void without_a_process_there_are_no_artifacts(void **state)
{
    struct verdict_facts facts = {.message = SLICE("no such field"), .invalid = true};
    (void)state;

    assert_member(printed(&facts), "artifacts", NULL);
}

static void the_worktree_stands_in_the_artifacts(void **state)
{
    struct process_end end = {.exit_code = 1};
    struct verdict_facts facts = {
        .end = &end,
        .worktree = SLICE("{\"worktree_path\":\"/w/a\",\"branch_name\":\"lazaret/r/a\","
                          "\"uncommitted_changes\":\"x modified\",\"error_logs\":null}")};
    (void)state;

    struct json failure = printed(&facts);
    assert_member(failure, "artifacts.worktree_path", "\"/w/a\"");
    assert_member(failure, "artifacts.branch_name", "\"lazaret/r/a\"");
    assert_member(failure, "artifacts.uncommitted_changes", "\"x modified\"");
    assert_member(failure, "artifacts.error_logs", "null");
}

static void a_long_stream_keeps_both_ends_and_says_what_is_missing(void **state)
{
    struct process_end end = {.exit_code = 1};
    struct capture output = captured(SLICE("first\n"));
    struct verdict_facts facts = {.end = &end, .out = &output};
    int64_t total, cut;
    (void)state;

    for (int i = 0; i < 1000; i++)
        capture_add(&output, repeated("0123456789abcde\n", 1 << 10));
    capture_add(&output, SLICE("last\n"));
    struct json failure = printed(&facts);
    struct slice kept = text_at(failure, "artifacts.stdout");
    assert_true(slice_starts(kept, SLICE("first\n")));
    assert_memory_equal(kept.ptr + kept.len - 5, "last\n", 5);
    assert_true(json_int(member(failure, "artifacts.stdout_bytes"), &total));
    assert_true(json_int(member(failure, "artifacts.stdout_truncated_bytes"), &cut));
    assert_int_equal(total, 1000 * 1024 + 11);
    assert_in_range(cut, total - (12 << 10), total - (11 << 10));
    capture_release(&output);
}

static void the_stack_trace_is_the_tail_of_standard_error(void **state)
{
    struct process_end end = {.exit_code = 1};
    struct capture err = captured(repeated("frame\n", 100 << 10));
    struct verdict_facts facts = {.end = &end, .err = &err};
    (void)state;

    capture_add(&err, SLICE("\nat main.c:1\n"));
    struct slice trace = text_at(printed(&facts), "stack_trace");
    assert_in_range(trace.len, 20 << 10, 28 << 10);
    assert_true(slice_starts(trace, SLICE("frame\n")));
    assert_memory_equal(trace.ptr + trace.len - 12, "at main.c:1\n", 12);
    capture_release(&err);
}

/* Bytes that grow most when they are written as JSON. */
static void artifacts_are_never_too_large_for_the_engine(void **state)
{
    static const char *const words[] = {"\x01", "\xff", "\"", "\n", "x", "\xe2\x82\xac"};
    struct process_end end = {.exit_code = 1};
    (void)state;

    for (size_t i = 0; i < COUNT(words); i++) {
        struct capture stream = captured(repeated(words[i], 200 << 10));
        struct slice large = repeated("y", 900 << 10);
        struct slice worktree =
            arena_printf(&arena, "{\"worktree_path\":\"/w\",\"branch_name\":\"b\"}");
        struct verdict_facts facts = {
            .end = &end,
            .out = &stream,
            .err = &stream,
            .worktree = worktree,
            .said = arena_printf(&arena, "{\"artifacts\":{\"log\":\"%s\",\"n\":1}}", large.ptr)};
        struct json failure = printed(&facts);
        assert_in_range(member(failure, "artifacts").raw.len, 1, FAILURE_STRUCTURE_MAX);
        assert_member(failure, "artifacts.worktree_path", "\"/w\"");
        assert_member(failure, "artifacts.n", "1");
        assert_member(failure, "artifacts.log.truncated_bytes", "920578");
        facts.said = repeated(words[i], 900 << 10);
        failure = printed(&facts);
        assert_in_range(member(failure, "artifacts").raw.len, 1, FAILURE_STRUCTURE_MAX);
        capture_release(&stream);
    }
}

static void many_artifacts_of_the_command_are_counted_when_there_is_no_room(void **state)
{
    struct process_end end = {.exit_code = 1};
    struct buf said;
    int64_t cut;
    (void)state;

    buf_init(&said, 1 << 20);
    buf_add_str(&said, "{\"artifacts\":{\"n0\":0");
    for (int i = 1; i < 20000; i++)
        buf_addf(&said, ",\"n%d\":%d", i, i);
    buf_add_str(&said, "}}");
    struct verdict_facts facts = {.end = &end, .said = buf_slice(&said)};
    struct json failure = printed(&facts);
    assert_in_range(member(failure, "artifacts").raw.len, 1, FAILURE_STRUCTURE_MAX);
    assert_member(failure, "artifacts.n100", "100");
    assert_true(json_int(member(failure, "artifacts.truncated_bytes"), &cut));
    assert_in_range(cut, 100 << 10, 300 << 10);
    buf_release(&said);
}

static void long_commands_and_lines_are_cut_between_characters(void **state)
{
    struct process_end end = {.exit_code = 1};
    struct verdict_facts facts = {.end = &end};
    (void)state;

    struct slice euros = repeated("x\xe2\x82\xac", 1 << 20);
    facts.command = euros;
    struct json failure = printed(&facts);
    struct slice message = text_at(failure, "message");
    assert_true(contains(message, "... failed with exit code 1"));
    assert_false(contains(message, "\xef\xbf\xbd"));
    assert_in_range(message.len, 200, 240);
    struct slice step = text_at(failure, "step_failed");
    assert_true(contains(step, "bytes left out"));
    assert_false(contains(step, "\xef\xbf\xbd"));

    struct capture err = captured((struct slice){euros.ptr, 20000});
    facts.err = &err;
    message = text_at(printed(&facts), "message");
    assert_in_range(message.len, 2040, 2048);
    assert_false(contains(message, "\xef\xbf\xbd"));
    capture_release(&err);
}

static void any_bytes_give_valid_json(void **state)
{
    struct process_end end = {.exit_code = 1};
    unsigned seed = 1;
    char bytes[600];
    (void)state;

    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            seed = seed * 1103515245u + 12345u;
            bytes[i] = (char)(seed >> 16);
        }
        struct slice text = {bytes, seed % sizeof(bytes)};
        struct capture stream = captured(text);
        struct verdict_facts facts = {.end = &end,
                                      .out = &stream,
                                      .err = &stream,
                                      .command = text,
                                      .said = text,
                                      .agent_id = text,
                                      .artifact = text,
                                      .context = &text,
                                      .context_count = 1};
        printed(&facts);
        capture_release(&stream);
    }
}

/* ---- what the command said ------------------------------------------------------------------- */

/* said prints a failure with exit code 1, "boom" on standard error, and what the command said. */
static struct json said(const char *text)
{
    static const struct process_end end = {.exit_code = 1};
    struct capture err = captured(SLICE("boom\n"));
    struct verdict_facts facts = {.end = &end,
                                  .err = &err,
                                  .command = SLICE("tool"),
                                  .said = slice_of(text),
                                  .agent_id = SLICE("map#1"),
                                  .duration = {7000}};
    struct json failure = printed(&facts);
    capture_release(&err);
    return failure;
}

static void what_the_command_said_wins_and_ours_fills_the_rest(void **state)
{
    (void)state;
    struct json failure =
        said(" {\"class\":\"rate_limited\",\"message\":\"slow down\",\"retry_after_seconds\":30,"
             "\"side_effects\":\"none\",\"policy_checks\":[{\"rule\":\"r\"}],\"retryable\":true,"
             "\"dependency\":\"api\",\"http_status\":429,\"duration_ms\":5,\"mine\":[1]}\n");
    assert_member(failure, "class", "\"rate_limited\"");
    assert_member(failure, "message", "\"slow down\"");
    assert_member(failure, "retry_after_seconds", "30");
    assert_member(failure, "side_effects", "\"none\"");
    assert_member(failure, "policy_checks", "[{\"rule\":\"r\"}]");
    assert_member(failure, "retryable", "true");
    assert_member(failure, "dependency", "\"api\"");
    assert_member(failure, "duration_ms", "5");
    assert_member(failure, "mine", "[1]");
    assert_member(failure, "error_type", "{\"CommandFailed\":{\"exit_code\":1}}");
    assert_member(failure, "agent_id", "\"map#1\"");
    assert_member(failure, "step_failed", "\"tool\"");
    assert_member(failure, "stack_trace", "\"boom\\n\"");
    assert_member(failure, "artifacts.exit_code", "1");
    assert_member(failure, "artifacts.said", NULL);
}

static void what_it_left_open_is_ours(void **state)
{
    (void)state;
    assert_member(said("{\"class\":\"network\"}"), "message", "\"boom\"");
    assert_member(said("{\"message\":null}"), "message", "\"boom\"");
    assert_member(said("{\"message\":\"\"}"), "message", "\"boom\"");
    assert_member(said("{\"agent_id\":null}"), "agent_id", "\"map#1\"");
    assert_member(said("{}"), "message", "\"boom\"");
    assert_member(said("{\"error_message\":\"mine\"}"), "message", "\"mine\"");
}

static void one_that_ended_well_and_said_that_it_failed_has_failed(void **state)
{
    static const struct process_end end = {0};
    struct verdict_facts facts = {
        .end = &end, .command = SLICE("tool"), .said = SLICE("{\"class\":\"network\"}")};
    (void)state;

    struct json failure = printed(&facts);
    assert_member(failure, "error_type", "\"Unknown\"");
    assert_member(failure, "class", "\"network\"");
    assert_member(failure, "message", "\"tool said that it failed\"");
}

static void our_class_does_not_overrule_a_type_or_a_status_that_was_said(void **state)
{
    static const struct process_end end = {.timed_out = true};
    struct verdict_facts facts = {.end = &end, .said = SLICE("{\"error_type\":\"RateLimited\"}")};
    (void)state;

    assert_member(printed(&facts), "class", NULL);
    facts.said = SLICE("{\"http_status\":404}");
    assert_member(printed(&facts), "class", NULL);
    facts.said = SLICE("{\"message\":\"m\"}");
    assert_member(printed(&facts), "class", "\"timeout\"");
}

static void only_the_runner_says_that_it_was_interrupted(void **state)
{
    (void)state;
    assert_member(said("{\"interrupted\":true}"), "interrupted", NULL);
}

static void artifacts_are_merged(void **state)
{
    (void)state;
    struct json failure = said("{\"artifacts\":{\"exit_code\":9,\"core\":\"/c\",\"x\":null}}");
    assert_member(failure, "artifacts.exit_code", "9");
    assert_member(failure, "artifacts.core", "\"/c\"");
    assert_member(failure, "artifacts.stderr", "\"boom\\n\"");
}

static void what_cannot_be_used_is_kept_as_a_text_with_the_reason(void **state)
{
    struct buf deep;
    buf_init(&deep, 4096);
    buf_add_str(&deep, "{\"x\":");
    buf_add_slice(&deep, repeated("[", 120));
    buf_add_slice(&deep, repeated("]", 120));
    buf_add_str(&deep, "}");
    const struct {
        const char *said, *why;
    } cases[] = {
        {"disk is sad", "byte 1"},
        {"[1]", "a failure must be an object"},
        {"{\"class\":\"sad\"}", "class: must be one of"},
        {"{\"message\":5}", "message: must be"},
        {"{\"retry_after_seconds\":\"soon\"}", "retry_after_seconds: must be"},
        {"{\"side_effects\":\"some\"}", "side_effects: must be"},
        {"{\"artifacts\":[1]}", "artifacts: must be an object"},
        {"{\"error_type\":{\"A\":{},\"B\":{}}}", "error_type: must be"},
        {"{\"message\":\"m\"} {}", "byte"},
        {buf_str(&deep), "nested deeper than 100 levels"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json failure = said(cases[i].said);
        struct slice context = member(failure, "error_context").raw;
        assert_member(failure, "message", "\"boom\"");
        assert_true(slice_is(text_at(failure, "artifacts.said"), cases[i].said));
        if (!contains(context, cases[i].why) || !contains(context, "cannot be used: "))
            fail_msg("%s: %.*s", cases[i].said, SLICE_ARG(context));
    }
    buf_release(&deep);
}

/* ---- results --------------------------------------------------------------------------------- */

static void a_result_says_what_it_took_and_what_came_out(void **state)
{
    struct process_end end = {.cpu_user = {2000}, .cpu_system = {1000}, .memory_max_kb = 900};
    struct capture output = captured(SLICE("42\n"));
    struct verdict_facts facts = {.end = &end, .duration = {3000}};
    struct jsonw w;
    (void)state;

    jsonw_init(&w, &out);
    verdict_result(&facts, &w);
    assert_string_equal(buf_str(&out),
                        "{\"exit_code\":0,\"duration_ms\":3,\"cpu_user_ms\":2,\"cpu_system_ms\":1,"
                        "\"memory_max_kb\":900,\"stdout\":\"\"}");
    facts.out = &output;
    facts.artifact = SLICE("/d/a.log");
    buf_clear(&out);
    jsonw_init(&w, &out);
    verdict_result(&facts, &w);
    assert_string_equal(buf_str(&out),
                        "{\"exit_code\":0,\"duration_ms\":3,\"cpu_user_ms\":2,\"cpu_system_ms\":1,"
                        "\"memory_max_kb\":900,\"stdout\":\"42\\n\",\"stdout_bytes\":3,"
                        "\"json_log_location\":\"/d/a.log\"}");
    capture_release(&output);
}

static void signals_have_names(void **state)
{
    char name[16];
    (void)state;

    assert_string_equal(signal_name(SIGSEGV, name), "SIGSEGV");
    assert_string_equal(signal_name(SIGKILL, name), "SIGKILL");
    assert_string_equal(signal_name(99, name), "SIG99");
    assert_string_equal(signal_name(-2147483647, name), "SIG-2147483647");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void no_memory_is_told_by_the_buffer(void **state)
{
    static const struct process_end end = {.exit_code = 1};
    struct capture stream = captured(repeated("out of memory\x01\n", 100 << 10));
    struct verdict_facts facts = {.end = &end,
                                  .out = &stream,
                                  .err = &stream,
                                  .worktree = SLICE("{\"worktree_path\":\"/w\"}")};
    struct jsonw w;
    struct json failure;
    unsigned failed = 0;
    (void)state;

    for (unsigned long n = 1; n <= 400; n++) {
        facts.said = n <= 200 ? SLICE("{\"message\":\"a\",\"artifacts\":{}}") : SLICE("no JSON");
        buf_release(&out);
        jsonw_init(&w, &out);
        mem_fail_after(n <= 200 ? n : n - 200);
        verdict_print(&facts, &w);
        mem_fail_after(0);
        failed += out.status == STATUS_NO_MEMORY;
        if (out.status == STATUS_OK)
            assert_int_equal(json_parse(buf_slice(&out), &failure, NULL), STATUS_OK);
    }
    assert_in_range(failed, 10, 390); /* the last of them had all they needed */
    assert_int_equal(out.status, STATUS_OK);
    capture_release(&stream);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_cause_has_its_type_class_and_message),
        TEST(a_cause_that_is_known_better_keeps_the_last_words_in_its_context),
        TEST(what_ended_well_and_said_nothing_is_no_failure),
        TEST(words_of_exhaustion_are_told_from_others),
        TEST(words_of_a_command_that_succeeded_do_not_count),
        TEST(everything_that_is_known_is_kept_under_its_name),
        TEST(a_signal_and_its_core_file_are_kept),
        TEST(without_a_process_there_are_no_artifacts),
        TEST(the_worktree_stands_in_the_artifacts),
        TEST(a_long_stream_keeps_both_ends_and_says_what_is_missing),
        TEST(the_stack_trace_is_the_tail_of_standard_error),
        TEST(artifacts_are_never_too_large_for_the_engine),
        TEST(many_artifacts_of_the_command_are_counted_when_there_is_no_room),
        TEST(long_commands_and_lines_are_cut_between_characters),
        TEST(any_bytes_give_valid_json),
        TEST(what_the_command_said_wins_and_ours_fills_the_rest),
        TEST(what_it_left_open_is_ours),
        TEST(one_that_ended_well_and_said_that_it_failed_has_failed),
        TEST(our_class_does_not_overrule_a_type_or_a_status_that_was_said),
        TEST(only_the_runner_says_that_it_was_interrupted),
        TEST(artifacts_are_merged),
        TEST(what_cannot_be_used_is_kept_as_a_text_with_the_reason),
        TEST(a_result_says_what_it_took_and_what_came_out),
        TEST(signals_have_names),
        TEST(no_memory_is_told_by_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
