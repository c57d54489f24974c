/* test_buf: bounded buffers, and the sentences of errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"

static void appends_of_every_kind_follow_each_other(void **state)
{
    struct buf buf;
    (void)state;
    buf_init(&buf, 100);
    buf_add_str(&buf, "one ");
    buf_add_char(&buf, '2');
    buf_add_slice(&buf, SLICE(" three "));
    buf_addf(&buf, "%d%s", 4, "th ");
    buf_add_hex(&buf, "\x00\xff\x1a", 3);
    buf_add(&buf, NULL, 0);
    assert_string_equal(buf_str(&buf), "one 2 three 4th 00ff1a");
    assert_int_equal(buf.len, strlen("one 2 three 4th 00ff1a"));
    assert_int_equal(buf_status(&buf, NULL), STATUS_OK);
    buf_release(&buf);
}

static void an_untouched_buffer_is_empty_and_without_memory(void **state)
{
    struct buf buf;
    (void)state;
    buf_init(&buf, 10);
    assert_string_equal(buf_str(&buf), "");
    assert_int_equal(buf_slice(&buf).len, 0);
    assert_null(buf.ptr);
    buf_clear(&buf);
    buf_release(&buf);
}

static void nul_bytes_are_bytes_like_others(void **state)
{
    struct buf buf;
    (void)state;
    buf_init(&buf, 10);
    buf_add(&buf, "a\0b", 3);
    assert_int_equal(buf.len, 3);
    assert_memory_equal(buf.ptr, "a\0b", 4);
    buf_release(&buf);
}

static void a_buffer_may_be_filled_to_its_maximum_and_no_further(void **state)
{
    struct buf buf;
    struct err err;
    (void)state;
    buf_init(&buf, 5);
    buf_add_str(&buf, "12345");
    assert_int_equal(buf_status(&buf, &err), STATUS_OK);
    buf_add_char(&buf, '6');
    assert_int_equal(buf_status(&buf, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "larger than the limit of 5 bytes");
    assert_string_equal(buf_str(&buf), "12345");
    buf_release(&buf);
}

static void a_failure_is_kept_until_the_buffer_is_cleared(void **state)
{
    struct buf buf;
    (void)state;
    buf_init(&buf, 5);
    buf_add_str(&buf, "abc");
    buf_addf(&buf, "%s", "def");
    buf_add_str(&buf, "g"); /* would fit, but would follow a gap */
    assert_string_equal(buf_str(&buf), "abc");
    buf_clear(&buf);
    buf_add_hex(&buf, "\x12\x34\x56", 3);
    assert_string_equal(buf_str(&buf), "");
    assert_int_equal(buf_status(&buf, NULL), STATUS_TOO_LARGE);
    buf_clear(&buf);
    buf_add_str(&buf, "g");
    assert_string_equal(buf_str(&buf), "g");
    assert_int_equal(buf_status(&buf, NULL), STATUS_OK);
    buf_release(&buf);
}

static void lengths_beyond_any_memory_are_too_large(void **state)
{
    (void)state;
    const size_t lengths[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct buf buf;
        buf_init(&buf, SIZE_MAX);
        buf_add_char(&buf, 'x');
        buf_add_hex(&buf, "", lengths[i]);
        assert_int_equal(buf.status, STATUS_TOO_LARGE);
        buf_clear(&buf);
        buf_add_char(&buf, 'x');
        buf_add(&buf, "", lengths[i]);
        assert_int_equal(buf.status, STATUS_TOO_LARGE);
        assert_string_equal(buf_str(&buf), "x");
        buf_release(&buf);
    }
}

static void exhausted_memory_leaves_the_content_as_it_was(void **state)
{
    struct buf buf;
    struct err err;
    char filler[1000];
    (void)state;
    memset(filler, 'f', sizeof(filler));
    buf_init(&buf, 5000);
    buf_add_str(&buf, "kept");
    mem_fail_after(1);
    buf_add(&buf, filler, sizeof(filler));
    mem_fail_after(0);
    assert_int_equal(buf_status(&buf, &err), STATUS_NO_MEMORY);
    assert_string_equal(buf_str(&buf), "kept");
    buf_release(&buf);
}

static void content_survives_every_growth(void **state)
{
    struct buf buf;
    (void)state;
    buf_init(&buf, 100000);
    for (int i = 0; i < 100000; i++)
        buf_add_char(&buf, (char)('a' + i % 26));
    assert_int_equal(buf_status(&buf, NULL), STATUS_OK);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf.ptr[i], 'a' + i % 26);
    buf_add_char(&buf, 'x');
    assert_int_equal(buf_status(&buf, NULL), STATUS_TOO_LARGE);
    buf_release(&buf);
}

static void an_error_is_a_sentence_with_its_places_before_it(void **state)
{
    struct err err = {0};
    (void)state;
    assert_int_equal(err_set(&err, STATUS_CONFLICT, "job %d is done", 7), STATUS_CONFLICT);
    err_prefix(&err, "line %d", 3);
    err_prefix(&err, "%s", "file");
    assert_string_equal(err.text, "file: line 3: job 7 is done");
    assert_int_equal(err_set(&err, STATUS_INVALID, "[%s]", err.text), STATUS_INVALID);
    assert_string_equal(err.text, "[file: line 3: job 7 is done]");
    assert_int_equal(err_set(NULL, STATUS_IO, "nobody listens"), STATUS_IO);
    err_prefix(NULL, "nobody listens");
}

static void a_sentence_that_is_too_long_is_cut(void **state)
{
    struct err err;
    char text[1000];
    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    err_set(&err, STATUS_INVALID, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    err_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void every_status_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_non_null(status_name((enum status)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(status_name((enum status)i), status_name((enum status)j));
    }
    assert_string_equal(status_name(STATUS_LEASE_LOST), "lease_lost");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_of_every_kind_follow_each_other),
        cmocka_unit_test(an_untouched_buffer_is_empty_and_without_memory),
        cmocka_unit_test(nul_bytes_are_bytes_like_others),
        cmocka_unit_test(a_buffer_may_be_filled_to_its_maximum_and_no_further),
        cmocka_unit_test(a_failure_is_kept_until_the_buffer_is_cleared),
        cmocka_unit_test(lengths_beyond_any_memory_are_too_large),
        cmocka_unit_test(exhausted_memory_leaves_the_content_as_it_was),
        cmocka_unit_test(content_survives_every_growth),
        cmocka_unit_test(an_error_is_a_sentence_with_its_places_before_it),
        cmocka_unit_test(a_sentence_that_is_too_long_is_cut),
        cmocka_unit_test(every_status_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
