/* test_log: what reaches a sink, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/log.h"

struct heard {
    int count;
    enum log_level level;
    char line[2000];
};

static void hear(enum log_level level, const char *line, void *ctx)
{
    struct heard *heard = ctx;
    heard->count++;
    heard->level = level;
    snprintf(heard->line, sizeof(heard->line), "%s", line);
    log_line(LOG_ERROR, "a sink that logs is not heard");
}

static void lines_up_to_the_level_reach_the_sink(void **state)
{
    struct heard heard = {0};
    (void)state;
    log_set(LOG_WARN, hear, &heard);
    log_line(LOG_INFO, "too much detail");
    assert_int_equal(heard.count, 0);
    log_line(LOG_WARN, "job %d", 7);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, LOG_WARN);
    assert_string_equal(heard.line, "job 7");
    log_line(LOG_ERROR, "worse");
    assert_int_equal(heard.count, 2);
    log_set(LOG_INFO, NULL, NULL);
}

static void control_characters_never_reach_a_sink(void **state)
{
    struct heard heard = {0};
    (void)state;
    log_set(LOG_INFO, hear, &heard);
    log_line(LOG_INFO, "a\nb\x1b[31mc\x7f \xc2\x9b \xff \xe2\x82\xac \xe2\x82");
    assert_string_equal(heard.line, "a?b?[31mc? ?? ? \xe2\x82\xac ??");
    log_set(LOG_INFO, NULL, NULL);
}

static void a_line_that_is_too_long_says_so(void **state)
{
    struct heard heard = {0};
    char text[3000];
    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_set(LOG_INFO, hear, &heard);
    log_line(LOG_INFO, "%s", text);
    size_t len = strlen(heard.line);
    assert_true(len > 500 && len < sizeof(text) - 1);
    assert_string_equal(heard.line + len - 4, "x...");
    log_set(LOG_INFO, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_up_to_the_level_reach_the_sink),
        cmocka_unit_test(control_characters_never_reach_a_sink),
        cmocka_unit_test(a_line_that_is_too_long_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
