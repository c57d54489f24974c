/* test_capture: a capture against the whole stream, which the test keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/capture.h"

#define WHOLE (CAPTURE_HEAD_MAX + CAPTURE_TAIL_MAX)

/* text_of is a stream of `len` bytes in which no place looks like another. */
static char *text_of(size_t len)
{
    char *text = mem_alloc(len);
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + (i * 7 + i / 26 + i / 5000) % 26);
    return text;
}

/* add_in_pieces adds a stream in pieces of different sizes, up to `most`. */
static void add_in_pieces(struct capture *capture, const char *text, size_t len, size_t most)
{
    size_t at = 0, size = 1;
    while (at < len) {
        size_t take = size < len - at ? size : len - at;
        capture_add(capture, (struct slice){text + at, take});
        at += take;
        size = size * 3 % most + 1;
    }
}

static void assert_prints(const struct capture *capture, struct slice expected)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    capture_print(capture, &out);
    assert_int_equal(out.len, expected.len);
    if (expected.len)
        assert_memory_equal(out.ptr, expected.ptr, expected.len);
    buf_release(&out);
}

static void what_fits_is_kept_whole(void **state)
{
    static const size_t lengths[] = {
        0, 1, CAPTURE_HEAD_MAX - 1, CAPTURE_HEAD_MAX, CAPTURE_HEAD_MAX + 1, WHOLE - 1, WHOLE};
    static const size_t pieces[] = {1, 17, 4096, 65536};
    (void)state;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            struct capture capture = {0};
            char *text = text_of(lengths[i]);
            add_in_pieces(&capture, text, lengths[i], pieces[j]);
            assert_int_equal(capture.total, lengths[i]);
            assert_int_equal(capture_cut(&capture), 0);
            assert_prints(&capture, (struct slice){text, lengths[i]});
            capture_release(&capture);
            mem_free(text);
        }
}

static void of_more_the_head_and_the_tail_are_kept_and_the_rest_is_counted(void **state)
{
    static const size_t lengths[] = {WHOLE + 1, WHOLE + 5000, 2 * WHOLE, 300001};
    static const size_t pieces[] = {1000, 65536};
    (void)state;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            struct capture capture = {0};
            size_t len = lengths[i];
            char *text = text_of(len);
            struct buf expected;
            buf_init(&expected, 1u << 20);
            buf_add(&expected, text, CAPTURE_HEAD_MAX);
            buf_addf(&expected, "\n[... %zu bytes left out ...]\n", len - WHOLE);
            buf_add(&expected, text + len - CAPTURE_TAIL_MAX, CAPTURE_TAIL_MAX);
            add_in_pieces(&capture, text, len, pieces[j]);
            assert_int_equal(capture_cut(&capture), len - WHOLE);
            assert_prints(&capture, buf_slice(&expected));
            buf_release(&expected);
            capture_release(&capture);
            mem_free(text);
        }
}

static void a_head_that_ends_a_line_gets_no_second_line_end(void **state)
{
    struct capture capture = {0};
    struct buf out;
    (void)state;

    for (int i = 0; i < 40000; i++)
        capture_add(&capture, SLICE("\n"));
    buf_init(&out, 1u << 20);
    capture_print(&capture, &out);
    assert_memory_equal(out.ptr + CAPTURE_HEAD_MAX, "[... 7232 bytes left out ...]\n", 30);
    buf_release(&out);
    capture_release(&capture);
}

static void a_capture_that_was_released_is_empty(void **state)
{
    struct capture capture = {0};
    (void)state;

    capture_add(&capture, SLICE("first"));
    capture_release(&capture);
    assert_prints(&capture, SLICE(""));
    capture_add(&capture, SLICE("second"));
    assert_prints(&capture, SLICE("second"));
    capture_release(&capture);
}

static void assert_tail(struct slice text, size_t max, const char *expected)
{
    struct capture capture = {0};
    struct buf out;

    capture_add(&capture, text);
    buf_init(&out, 1u << 20);
    capture_tail(&capture, max, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
    capture_release(&capture);
}

static void a_tail_begins_with_a_line_where_there_is_one(void **state)
{
    (void)state;
    assert_tail(SLICE(""), 10, "");
    assert_tail(SLICE("one\ntwo\n"), 100, "one\ntwo\n");
    assert_tail(SLICE("one\ntwo\n"), 8, "one\ntwo\n");
    assert_tail(SLICE("one\ntwo\n"), 7, "two\n");
    assert_tail(SLICE("one\ntwo\n"), 4, "two\n");
    assert_tail(SLICE("one\ntwo\n"), 3, "wo\n");
    assert_tail(SLICE("no line end at all"), 6, "at all");
    assert_tail(SLICE("one\ntwo"), 0, "");
}

static void the_tail_of_a_stream_that_was_cut_begins_with_a_line(void **state)
{
    struct buf text;
    (void)state;

    buf_init(&text, 1u << 20);
    for (int i = 0; i < 10000; i++)
        buf_addf(&text, "line %d\n", i);
    assert_tail(buf_slice(&text), 25, "line 9998\nline 9999\n");

    /* All that is kept of it is asked for: it begins in the middle of a line all the same. */
    struct capture capture = {0};
    struct buf out;
    buf_init(&out, 1u << 20);
    capture_add(&capture, buf_slice(&text));
    capture_tail(&capture, SIZE_MAX, &out);
    assert_memory_equal(out.ptr, "line ", 5);
    assert_true(out.len < CAPTURE_TAIL_MAX && out.len > CAPTURE_TAIL_MAX - 10);
    assert_memory_equal(out.ptr, text.ptr + text.len - out.len, out.len);
    buf_release(&out);
    capture_release(&capture);
    buf_release(&text);
}

static void assert_last_line(struct slice text, size_t max, const char *expected)
{
    struct capture capture = {0};
    struct buf out;

    capture_add(&capture, text);
    buf_init(&out, 1u << 20);
    capture_last_line(&capture, max, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
    capture_release(&capture);
}

static void the_last_line_is_the_last_that_is_not_blank(void **state)
{
    (void)state;
    assert_last_line(SLICE(""), 100, "");
    assert_last_line(SLICE(" \n\t\r\n"), 100, "");
    assert_last_line(SLICE("alone"), 100, "alone");
    assert_last_line(SLICE("first\n  the last one \r\n\n \n"), 100, "the last one");
    assert_last_line(SLICE("first\nsecond"), 3, "sec");
    assert_last_line(SLICE("first\nsecond"), 0, "");
}

static void the_last_line_of_a_long_stream_is_found_over_the_end_of_the_ring(void **state)
{
    char *text = text_of(100000);
    (void)state;

    /* Each length puts the line at another place of the ring. */
    for (size_t len = 60000; len < 90000; len += 997) {
        memcpy(text + len, "\nit broke here\n", 16);
        assert_last_line((struct slice){text, len + 15}, 100, "it broke here");
    }
    mem_free(text);
}

static void a_line_longer_than_what_is_kept_is_told_as_far_as_it_is(void **state)
{
    struct capture capture = {0};
    struct buf out;
    char *text = text_of(200000);
    (void)state;

    capture_add(&capture, (struct slice){text, 200000});
    buf_init(&out, 1u << 20);
    capture_last_line(&capture, 10, &out);
    assert_int_equal(out.len, 10);
    assert_memory_equal(out.ptr, text + 200000 - CAPTURE_TAIL_MAX, 10);
    buf_release(&out);
    capture_release(&capture);
    mem_free(text);
}

static void without_memory_bytes_are_only_counted(void **state)
{
    (void)state;
    for (unsigned long n = 1; n <= 2; n++) {
        struct capture capture = {0};
        struct buf out;
        char *text = text_of(10000);

        mem_fail_after(n);
        for (int i = 0; i < 10; i++)
            capture_add(&capture, (struct slice){text + i * 1000, 1000});
        mem_fail_after(0);
        assert_true(capture.failed);
        assert_int_equal(capture.total, 10000);
        assert_int_equal(capture_cut(&capture), n == 1 ? 10000 : 10000 - CAPTURE_HEAD_MAX);
        buf_init(&out, 1u << 20);
        capture_tail(&capture, 100, &out);
        capture_last_line(&capture, 100, &out);
        assert_int_equal(out.len, 0);
        capture_print(&capture, &out);
        assert_string_equal(buf_str(&out) + (n == 1 ? 0 : CAPTURE_HEAD_MAX),
                            n == 1 ? "[... 10000 bytes left out ...]\n"
                                   : "\n[... 5904 bytes left out ...]\n");
        buf_release(&out);
        capture_release(&capture);
        mem_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_kept_whole),
        cmocka_unit_test(of_more_the_head_and_the_tail_are_kept_and_the_rest_is_counted),
        cmocka_unit_test(a_head_that_ends_a_line_gets_no_second_line_end),
        cmocka_unit_test(a_capture_that_was_released_is_empty),
        cmocka_unit_test(a_tail_begins_with_a_line_where_there_is_one),
        cmocka_unit_test(the_tail_of_a_stream_that_was_cut_begins_with_a_line),
        cmocka_unit_test(the_last_line_is_the_last_that_is_not_blank),
        cmocka_unit_test(the_last_line_of_a_long_stream_is_found_over_the_end_of_the_ring),
        cmocka_unit_test(a_line_longer_than_what_is_kept_is_told_as_far_as_it_is),
        cmocka_unit_test(without_memory_bytes_are_only_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
