/* Alerts as JSON, and as messages of Slack's: whole texts, and that no limit is passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "bridge/slack.h"

#define AT(seconds) ((struct instant){INT64_C(1770963720) * 1000000 + (seconds)*INT64_C(1000000)})

static struct buf text;

static int set_up(void **state)
{
    (void)state;
    buf_init(&text, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&text);
    return 0;
}

static const struct alert_group timeouts = {.fingerprint = {"0123456789abcdef", 16},
                                            .signature = {"Timeout::no answer came", 23},
                                            .reason = {"retries_exhausted", 17},
                                            .source = {"lazaret", 7},
                                            .queue = {"mail", 4},
                                            .sample_dlq_id = {"0198-abc", 8},
                                            .count = 1,
                                            .first_seen = {INT64_C(1770963720) * 1000000},
                                            .last_seen = {INT64_C(1770963720) * 1000000}};

static struct alert first_of(const struct alert_group *group)
{
    return (struct alert){
        .first = true, .groups = group, .group_count = 1, .total = 1, .at = group->last_seen};
}

/* printed is a message, which must be JSON. */
static const char *printed(void (*print)(const struct alert *alert, struct buf *out),
                           const struct alert *alert)
{
    struct json json;
    struct err err;
    buf_clear(&text);
    print(alert, &text);
    assert_int_equal(text.status, STATUS_OK);
    if (json_parse(buf_slice(&text), &json, &err))
        fail_msg("%s: %s", err.text, buf_str(&text));
    return buf_str(&text);
}

/* ---- whole messages -------------------------------------------------------------------------- */

static void the_first_of_a_group_is_said_with_what_is_known(void **state)
{
    struct alert alert = first_of(&timeouts);
    (void)state;
    assert_string_equal(printed(slack_print, &alert),
                        "{\"text\":\"Dead letter: retries_exhausted\",\"blocks\":["
                        "{\"type\":\"header\",\"text\":{\"type\":\"plain_text\","
                        "\"text\":\"Dead letter: retries_exhausted\"}},"
                        "{\"type\":\"section\",\"fields\":["
                        "{\"type\":\"mrkdwn\",\"text\":\"*Reason*\\n`retries_exhausted`\"},"
                        "{\"type\":\"mrkdwn\",\"text\":\"*Source*\\n`lazaret`\"},"
                        "{\"type\":\"mrkdwn\",\"text\":\"*Queue*\\n`mail`\"},"
                        "{\"type\":\"mrkdwn\",\"text\":\"*Count*\\n`1`\"}]},"
                        "{\"type\":\"section\",\"text\":{\"type\":\"mrkdwn\","
                        "\"text\":\"```Timeout::no answer came```\"}},"
                        "{\"type\":\"context\",\"elements\":[{\"type\":\"mrkdwn\","
                        "\"text\":\"2026-02-13T06:22:00Z · `lazaret dlq show 0198-abc`\"}]}]}");
}

static void a_digest_says_how_many_more_of_each(void **state)
{
    struct alert_group groups[2] = {timeouts, timeouts};
    groups[0].count = 12;
    groups[0].last_seen = AT(20);
    groups[1].count = 1;
    groups[1].signature = SLICE("HttpError::Service Unavailable");
    groups[1].queue = SLICE("web");
    struct alert alert = {.window = span_seconds(30),
                          .groups = groups,
                          .group_count = 2,
                          .more_groups = 3,
                          .more_letters = 7,
                          .total = 20,
                          .at = AT(20)};
    (void)state;
    assert_string_equal(
        printed(slack_print, &alert),
        "{\"text\":\"Dead letters: 20 more in 30 s\",\"blocks\":["
        "{\"type\":\"header\",\"text\":{\"type\":\"plain_text\","
        "\"text\":\"Dead letters: 20 more in 30 s\"}},"
        "{\"type\":\"section\",\"text\":{\"type\":\"mrkdwn\",\"text\":\"*12 more* · "
        "`retries_exhausted` from `lazaret` in queue `mail`\\n```Timeout::no answer came```\"}},"
        "{\"type\":\"context\",\"elements\":[{\"type\":\"mrkdwn\",\"text\":\"2026-02-13T06:22:00Z "
        "to 2026-02-13T06:22:20Z · `lazaret dlq show 0198-abc`\"}]},"
        "{\"type\":\"section\",\"text\":{\"type\":\"mrkdwn\",\"text\":\"*1 more* · "
        "`retries_exhausted` from `lazaret` in queue `web`\\n```HttpError::Service "
        "Unavailable```\"}},"
        "{\"type\":\"context\",\"elements\":[{\"type\":\"mrkdwn\",\"text\":\"2026-02-13T06:22:00Z "
        "to 2026-02-13T06:22:00Z · `lazaret dlq show 0198-abc`\"}]},"
        "{\"type\":\"context\",\"elements\":[{\"type\":\"mrkdwn\",\"text\":\"and 3 more groups, "
        "with 7 letters · `lazaret dlq groups`\"}]}]}");
}

static void the_json_has_every_member(void **state)
{
    struct alert alert = first_of(&timeouts);
    (void)state;
    assert_string_equal(
        printed(alert_print, &alert),
        "{\"event\":\"dead_letters\",\"first\":true,\"window_seconds\":0,\"groups\":["
        "{\"fingerprint\":\"0123456789abcdef\",\"signature\":\"Timeout::no answer came\","
        "\"reason\":\"retries_exhausted\",\"source\":\"lazaret\",\"queue\":\"mail\",\"count\":1,"
        "\"sample_dlq_id\":\"0198-abc\",\"first_seen\":\"2026-02-13T06:22:00Z\","
        "\"last_seen\":\"2026-02-13T06:22:00Z\"}],\"more_groups\":0,\"total\":1,"
        "\"at\":\"2026-02-13T06:22:00Z\"}");
    alert = (struct alert){.window = span_seconds(30), .more_groups = 1, .total = 5, .at = AT(1)};
    assert_string_equal(printed(alert_print, &alert),
                        "{\"event\":\"dead_letters\",\"first\":false,\"window_seconds\":30,"
                        "\"groups\":[],\"more_groups\":1,\"total\":5,"
                        "\"at\":\"2026-02-13T06:22:01Z\"}");
}

/* ---- what jobs say --------------------------------------------------------------------------- */

static void assert_says(const char *words)
{
    if (!strstr(buf_str(&text), words))
        fail_msg("%s does not say %s", buf_str(&text), words);
}

static void words_of_a_job_are_no_markup(void **state)
{
    static const struct {
        const char *given, *shown;
    } rows[] = {
        {"<!channel> look", "```&lt;!channel&gt; look```"},
        {"<http://evil|ok> & co", "```&lt;http://evil|ok&gt; &amp; co```"},
        {"```out *bold*", "```'''out *bold*```"},
        {"a\nb\x1b[31m\tc\x7f", "```ab[31mc```"},
        {"\xc2\x9b"
         "31m csi",
         "```31m csi```"},
        {"\xe2\x80\xae"
         "turned \xe2\x80\x8bzero",
         "```turned zero```"},
        {"gr\xc3\xbc\xc3\x9f \xf0\x9f\x92\xa5", "```gr\xc3\xbc\xc3\x9f \xf0\x9f\x92\xa5```"},
        {"\xff bad", "```\xef\xbf\xbd bad```"},
        {"say \"no\\yes\"", "```say \\\"no\\\\yes\\\"```"},
        {"", "```-```"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct alert_group group = timeouts;
        group.signature = slice_of(rows[i].given);
        struct alert alert = first_of(&group);
        printed(slack_print, &alert);
        assert_says(rows[i].shown);
    }
}

static void a_command_has_only_ids_that_can_be_pasted(void **state)
{
    static const struct {
        const char *id, *shown;
    } rows[] = {
        {"a-1_b.c:d", "`lazaret dlq show a-1_b.c:d`"},
        {"x; rm -rf ~", "letter `x; rm -rf ~`"},
        {"$(id)", "letter `$(id)`"},
        {"--all", "letter `--all`"},
        {"`id`", "letter `'id'`"},
        {"", "letter `-`"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct alert_group group = timeouts;
        group.sample_dlq_id = slice_of(rows[i].id);
        struct alert alert = first_of(&group);
        printed(slack_print, &alert);
        assert_says(rows[i].shown);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static size_t characters(struct slice slice)
{
    size_t count = 0;
    for (size_t i = 0; i < slice.len; i++)
        count += ((unsigned char)slice.ptr[i] & 0xC0) != 0x80;
    return count;
}

/* check_texts walks a message and finds each text within the limit of its place. */
static void check_texts(struct json value, size_t max, struct arena *arena)
{
    struct json_iter iter;
    struct json key = {0}, child;
    json_iter_init(&iter, value);
    while (json_next(&iter, &key, &child)) {
        bool object = value.type == JSON_OBJECT;
        if (object && json_string_is(key, "fields"))
            check_texts(child, 2000, arena);
        else if (object && json_string_is(key, "text") && child.type == JSON_STRING)
            assert_in_range(characters(json_text(child, arena)), 1, max);
        else
            check_texts(child, max, arena);
    }
}

static void check_limits(const char *message)
{
    struct json json, blocks, block, type, header;
    struct json_iter iter;
    struct arena arena = {0};
    assert_int_equal(json_parse(slice_of(message), &json, NULL), STATUS_OK);
    assert_true(json_get(json, "blocks", &blocks));
    assert_in_range(json_count(blocks), 1, 50);
    check_texts(blocks, 3000, &arena);
    json_iter_init(&iter, blocks);
    while (json_next(&iter, NULL, &block)) {
        assert_true(json_get(block, "type", &type));
        if (json_string_is(type, "header") && json_get(block, "text", &header))
            check_texts(header, 150, &arena);
    }
    arena_release(&arena);
}

static void the_longest_words_pass_no_limit(void **state)
{
    static char ampersands[8192], wide[8192];
    struct alert_group groups[ALERT_GROUPS_MAX];
    memset(ampersands, '&', sizeof(ampersands));
    for (size_t i = 0; i + 4 <= sizeof(wide); i += 4)
        memcpy(wide + i, "\xf0\x9f\x92\xa5", 4);
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct slice longest = {round ? wide : ampersands, sizeof(wide)};
        for (size_t i = 0; i < ALERT_GROUPS_MAX; i++)
            groups[i] = (struct alert_group){
                longest, longest, longest, longest, longest, longest, INT64_MAX / ALERT_GROUPS_MAX,
                AT(0),   AT(1)};
        struct alert alert = first_of(&groups[0]);
        check_limits(printed(slack_print, &alert));
        assert_says("...");
        alert = (struct alert){.window = span_seconds(30),
                               .groups = groups,
                               .group_count = ALERT_GROUPS_MAX,
                               .more_groups = SIZE_MAX / 2,
                               .more_letters = 5,
                               .total = INT64_MAX};
        check_limits(printed(slack_print, &alert));
    }
}

static void groups_that_a_message_does_not_name_are_counted(void **state)
{
    struct alert_group groups[SLACK_GROUPS_MAX + 2];
    (void)state;
    for (size_t i = 0; i < SLACK_GROUPS_MAX + 2; i++) {
        groups[i] = timeouts;
        groups[i].count = 3;
    }
    struct alert alert = {.window = span_seconds(30),
                          .groups = groups,
                          .group_count = SLACK_GROUPS_MAX + 2,
                          .more_groups = 1,
                          .more_letters = 4,
                          .total = 70};
    printed(slack_print, &alert);
    assert_says("and 3 more groups, with 10 letters");
    alert.group_count = SLACK_GROUPS_MAX;
    alert.more_letters = 1;
    printed(slack_print, &alert);
    assert_says("and 1 more group, with 1 letter ");
}

static void memory_that_is_exhausted_is_remembered(void **state)
{
    struct alert alert = first_of(&timeouts);
    (void)state;
    printed(slack_print, &alert);
    for (unsigned long n = 1;; n++) {
        buf_release(&text);
        buf_init(&text, 1 << 20);
        mem_fail_after(n);
        slack_print(&alert, &text);
        mem_fail_after(0);
        if (text.status == STATUS_OK)
            break;
        assert_int_equal(text.status, STATUS_NO_MEMORY);
        assert_true(n < 1000);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_of_a_group_is_said_with_what_is_known),
        TEST(a_digest_says_how_many_more_of_each),
        TEST(the_json_has_every_member),
        TEST(words_of_a_job_are_no_markup),
        TEST(a_command_has_only_ids_that_can_be_pasted),
        TEST(the_longest_words_pass_no_limit),
        TEST(groups_that_a_message_does_not_name_are_counted),
        TEST(memory_that_is_exhausted_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
