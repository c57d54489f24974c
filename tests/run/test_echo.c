/* test_echo: what is passed on, to readers that read, wait or leave. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/echo.h"

#define LARGE (1u << 20) /* more than a pipe holds */

/* struct reader: the other end of what is echoed. */
struct reader {
    struct echo echo;
    int ends[2];
    char *large; /* LARGE bytes */
};

static int open_reader(void **state)
{
    struct reader *reader = mem_zalloc(sizeof *reader);
    assert_non_null(reader);
    assert_int_equal(pipe2(reader->ends, O_CLOEXEC), 0);
    echo_init(&reader->echo, reader->ends[1], reader->ends[1]);
    reader->large = mem_alloc(LARGE);
    assert_non_null(reader->large);
    memset(reader->large, 'x', LARGE);
    signal(SIGPIPE, SIG_IGN);
    *state = reader;
    return 0;
}

static int close_reader(void **state)
{
    struct reader *reader = *state;
    close(reader->ends[0]);
    close(reader->ends[1]);
    mem_free(reader->large);
    mem_free(reader);
    return 0;
}

/* read_all reads what there is at the moment. */
static size_t read_all(const struct reader *reader, char *out, size_t size)
{
    size_t len = 0;
    ssize_t n;
    fcntl(reader->ends[0], F_SETFL, O_NONBLOCK);
    while (len < size && (n = read(reader->ends[0], out + len, size - len)) > 0)
        len += (size_t)n;
    return len;
}

static void what_is_added_comes_out_as_it_is(void **state)
{
    struct reader *reader = *state;
    char text[64];
    echo_add(&reader->echo.out, SLICE("one\n"));
    echo_add(&reader->echo.err, (struct slice){"\0\377", 2});
    echo_add(&reader->echo.out, (struct slice){0});
    assert_int_equal(read_all(reader, text, sizeof text), 6);
    assert_memory_equal(text, "one\n\0\377", 6);
}

static void what_nobody_reads_is_counted_and_told_of_later(void **state)
{
    struct reader *reader = *state;
    struct echo_stream *out = &reader->echo.out;
    char *text = mem_zalloc(LARGE), told[96];
    assert_non_null(text);

    echo_add(out, (struct slice){reader->large, LARGE});
    assert_true(out->stalled);
    uint64_t missed = out->missed;
    assert_in_range(missed, 1, LARGE - 1);
    assert_int_equal(read_all(reader, text, LARGE), LARGE - missed);

    snprintf(told, sizeof told, "\n[lazaret: %llu bytes were not shown]\nagain",
             (unsigned long long)missed);
    echo_add(out, SLICE("again"));
    assert_int_equal(read_all(reader, text, LARGE), strlen(told));
    assert_memory_equal(text, told, strlen(told));
    assert_int_equal(out->missed, 0);
    assert_false(out->stalled);
    mem_free(text);
}

static void a_reader_that_is_gone_is_not_written_to(void **state)
{
    struct reader *reader = *state;
    struct echo_stream *out = &reader->echo.out;
    close(reader->ends[0]);
    reader->ends[0] = -1;
    echo_add(out, SLICE("one"));
    assert_true(out->gone);
    echo_add(out, SLICE("two"));
    assert_int_equal(out->missed, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_added_comes_out_as_it_is, open_reader,
                                        close_reader),
        cmocka_unit_test_setup_teardown(what_nobody_reads_is_counted_and_told_of_later, open_reader,
                                        close_reader),
        cmocka_unit_test_setup_teardown(a_reader_that_is_gone_is_not_written_to, open_reader,
                                        close_reader),
    };
    return cmocka_run_group_tests_name("echo", tests, NULL, NULL);
}
