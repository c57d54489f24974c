/* What the answers of Slack's webhooks mean, and that their addresses, which are secrets, are not
 * shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bridge/protocol.h"

#define NOW ((struct instant){INT64_C(1614265330) * 1000000})
#define URL "https://hooks.slack.com/services/T000/B000/hunter2?also=hunter2"

static struct arena arena;
static struct wire_call call;

static int set_up(void **state)
{
    (void)state;
    call = (struct wire_call){.url = URL, .private_path = true};
    buf_init(&call.answer, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&call.answer);
    arena_release(&arena);
    return 0;
}

/* judge finds what an answer means, and that neither the sentence nor the report shows the address.
 */
static struct protocol_verdict judge(int status, const char *text)
{
    struct protocol_verdict verdict;
    struct buf report;
    call.outcome = WIRE_ANSWERED;
    call.status = status;
    buf_clear(&call.answer);
    buf_add_str(&call.answer, text);
    protocol_judge(DELIVERY_SLACK, &call, NOW, &arena, &verdict);
    if (verdict.delivered)
        return verdict;
    assert_null(memmem(verdict.message.ptr, verdict.message.len, "hunter2", 7));
    assert_null(memmem(verdict.message.ptr, verdict.message.len, "B000", 4));
    buf_init(&report, 1 << 20);
    protocol_failure(&verdict, &call, SLICE("office"), &report);
    assert_null(strstr(buf_str(&report), "hunter2"));
    assert_null(strstr(buf_str(&report), "B000"));
    assert_non_null(strstr(buf_str(&report), "\"step_failed\":\"POST https://hooks.slack.com\""));
    buf_release(&report);
    return verdict;
}

static void what_says_ok_is_delivered(void **state)
{
    static const char *const answers[] = {
        "ok", "ok\n", "", "{\"ok\":true}", "{\"ok\":true,\"ts\":\"1\"}\r\n", "{\"success\":true}"};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        assert_true(judge(200, answers[i]).delivered);
    assert_true(judge(204, "").delivered);
}

static void a_refusal_inside_two_hundred_is_judged_by_its_error(void **state)
{
    static const struct {
        const char *answer;
        enum failure_class class;
        const char *type, *code;
    } rows[] = {
        {"{\"ok\":false,\"error\":\"invalid_blocks\"}", CLASS_CLIENT_ERROR, "SlackError",
         "invalid_blocks"},
        {"{\"ok\":false,\"error\":\"channel_not_found\"}", CLASS_CLIENT_ERROR, "SlackError",
         "channel_not_found"},
        {"{\"ok\":false}", CLASS_CLIENT_ERROR, "SlackError", ""},
        {"{\"ok\":false,\"error\":7}", CLASS_CLIENT_ERROR, "SlackError", ""},
        {"{\"ok\":false,\"error\":\"ratelimited\"}", CLASS_RATE_LIMITED, "RateLimited",
         "ratelimited"},
        {"{\"ok\":false,\"error\":\"rate_limited\"}", CLASS_RATE_LIMITED, "RateLimited",
         "rate_limited"},
        {"{\"ok\":false,\"error\":\"internal_error\"}", CLASS_SERVER_ERROR, "SlackError",
         "internal_error"},
        {"{\"ok\":false,\"error\":\"service_unavailable\"}", CLASS_SERVER_ERROR, "SlackError",
         "service_unavailable"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct protocol_verdict verdict = judge(200, rows[i].answer);
        assert_false(verdict.delivered);
        assert_int_equal(verdict.class, rows[i].class);
        assert_string_equal(verdict.error_type, rows[i].type);
        assert_true(slice_is(verdict.code, rows[i].code));
    }
    struct protocol_verdict verdict = judge(200, rows[0].answer);
    assert_true(slice_is(verdict.message,
                         "Slack refused the message at https://hooks.slack.com: invalid_blocks"));
}

static void a_wait_that_is_asked_for_is_honoured(void **state)
{
    (void)state;
    snprintf(call.retry_after, sizeof(call.retry_after), "17");
    struct protocol_verdict verdict = judge(429, "ratelimited");
    assert_int_equal(verdict.class, CLASS_RATE_LIMITED);
    assert_string_equal(verdict.error_type, "RateLimited");
    assert_int_equal(verdict.retry_after.us, span_seconds(17).us);
    verdict = judge(200, "{\"ok\":false,\"error\":\"ratelimited\"}");
    assert_int_equal(verdict.retry_after.us, span_seconds(17).us);
    verdict = judge(200, "{\"ok\":false,\"error\":\"invalid_blocks\"}");
    assert_int_equal(verdict.retry_after.us, -1);
}

static void the_status_decides_beyond_two_hundred(void **state)
{
    static const struct {
        int status;
        const char *answer;
        enum failure_class class;
    } rows[] = {
        {400, "invalid_payload", CLASS_INVALID_INPUT},
        {403, "action_prohibited", CLASS_PERMISSION_DENIED},
        {404, "no_service", CLASS_CLIENT_ERROR},
        {410, "channel_is_archived", CLASS_CLIENT_ERROR},
        {500, "rollup_error", CLASS_SERVER_ERROR},
        {503, "ok", CLASS_UNAVAILABLE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct protocol_verdict verdict = judge(rows[i].status, rows[i].answer);
        assert_false(verdict.delivered);
        assert_int_equal(verdict.class, rows[i].class);
    }
}

static void a_page_that_is_not_slacks_is_a_bad_answer(void **state)
{
    static const char *const answers[] = {
        "<html>please log in</html>", "OK", "okay", "ok ok", "[]", "\"ok\""};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct protocol_verdict verdict = judge(200, answers[i]);
        assert_false(verdict.delivered);
        assert_string_equal(verdict.error_type, "BadAnswer");
        assert_int_equal(verdict.class, CLASS_SERVER_ERROR);
        assert_int_equal(verdict.side_effects, EFFECTS_UNKNOWN);
    }
}

static void a_redirect_does_not_tell_the_address(void **state)
{
    (void)state;
    snprintf(call.location, sizeof(call.location), "%s", URL);
    struct protocol_verdict verdict = judge(302, "");
    assert_string_equal(verdict.error_type, "Redirected");
}

static void nobody_there_does_not_tell_the_address(void **state)
{
    struct protocol_verdict verdict;
    (void)state;
    for (int timed_out = 0; timed_out < 2; timed_out++) {
        call.outcome = WIRE_UNSENT;
        call.timed_out = timed_out;
        protocol_judge(DELIVERY_SLACK, &call, NOW, &arena, &verdict);
        assert_false(verdict.delivered);
        assert_null(memmem(verdict.message.ptr, verdict.message.len, "hunter2", 7));
        assert_int_equal(verdict.side_effects, EFFECTS_NONE);
    }
}

static void the_body_goes_out_as_it_is(void **state)
{
    struct delivery delivery = {.body = {JSON_OBJECT, SLICE("{\"text\": \"x\"}")}};
    struct buf body;
    (void)state;
    buf_init(&body, 1 << 10);
    protocol_body(&delivery, DELIVERY_SLACK, (struct slice){0}, &body);
    assert_string_equal(buf_str(&body), "{\"text\": \"x\"}");
    buf_release(&body);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_says_ok_is_delivered),
        TEST(a_refusal_inside_two_hundred_is_judged_by_its_error),
        TEST(a_wait_that_is_asked_for_is_honoured),
        TEST(the_status_decides_beyond_two_hundred),
        TEST(a_page_that_is_not_slacks_is_a_bad_answer),
        TEST(a_redirect_does_not_tell_the_address),
        TEST(nobody_there_does_not_tell_the_address),
        TEST(the_body_goes_out_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
