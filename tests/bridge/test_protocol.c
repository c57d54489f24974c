/* What is said to endpoints, what is reported of their answers, and how Retry-After is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/jsonw.h"
#include "base/mem.h"
#include "bridge/protocol.h"
#include "bridge/sign.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OUT_MAX ((size_t)1 << 20)
#define NOW ((struct instant){INT64_C(1614265330) * 1000000}) /* 2021-02-25T15:02:10Z */

static struct arena arena; /* emptied after each test */
static struct buf out;     /* what was printed last */
static struct wire_call call;

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, OUT_MAX);
    call = (struct wire_call){.url = "http://127.0.0.1:9/x?key=hunter2"};
    buf_init(&call.answer, OUT_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&out);
    buf_release(&call.answer);
    arena_release(&arena);
    return 0;
}

static struct json json_of(struct slice text)
{
    struct json json;
    struct err err = {0};

    if (json_parse(text, &json, &err) != STATUS_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return json;
}

/* deliver_of makes a delivery of a body, as its job would have it. */
static struct delivery deliver_of(const char *body)
{
    struct slice job =
        arena_printf(&arena, "{\"action\":\"deliver\",\"inputs\":{\"body\":%s}}", body);
    struct delivery delivery;
    struct err err = {0};

    if (delivery_read(json_of(job), SLICE("job-1"), &arena, &delivery, &err) != STATUS_OK)
        fail_msg("%s: %s", body, err.text);
    return delivery;
}

static void assert_text(struct slice text, const char *expected)
{
    if (!slice_is(text, expected))
        fail_msg("\n%.*s\nis not\n%s", SLICE_ARG(text), expected);
}

static const char *body_of(const char *body, enum delivery_kind kind, const char *tool)
{
    struct delivery delivery = deliver_of(body);

    buf_clear(&out);
    protocol_body(&delivery, kind, slice_of(tool), &out);
    assert_int_equal(out.status, STATUS_OK);
    json_of(buf_slice(&out));
    return buf_str(&out);
}

/* ---- tools and bodies ------------------------------------------------------------------------ */

#define RECEIPT                                                                                    \
    "{\"lease_id\":\"abc-123\",\"task_id\":\"task-456\",\"worker_id\":\"cognigate-0\","            \
    "\"status\":\"complete\",\"timestamp\":\"2024-01-15T10:30:00Z\","                              \
    "\"summary\":\"Task completed successfully\","                                                 \
    "\"artifact_pointers\":[\"s3://bucket/results.json\"]}"

static void the_tool_is_the_deliverys_then_the_targets_then_the_statuss(void **state)
{
    static const struct {
        const char *body, *own, *targets, *tool;
    } rows[] = {
        {RECEIPT, "", "", "asyncgate.complete"},
        {RECEIPT, "", "t", "t"},
        {RECEIPT, "o", "t", "o"},
        {"{\"lease_id\":\"a\",\"status\":\"running\"}", "", "", "asyncgate.report_progress"},
        {"{\"lease_id\":\"a\",\"status\":\"failed\"}", "", "", "asyncgate.fail"},
        {"{\"lease_id\":\"a\",\"status\":\"FAILED\"}", "", "", "asyncgate.complete"},
        {"{\"lease_id\":\"a\",\"status\":\"failed\"}", "", "t", "t"},
        {"{\"status\":\"failed\"}", "", "", "asyncgate.complete"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delivery delivery = deliver_of(rows[i].body);
        struct target target = {.tool = slice_of(rows[i].targets)};
        delivery.tool = slice_of(rows[i].own);
        assert_text(protocol_tool(&delivery, &target), rows[i].tool);
    }
}

static void plain_http_is_the_body_as_it_is(void **state)
{
    (void)state;
    assert_string_equal(body_of("{ \"a\" :1.0 }", DELIVERY_HTTP, "t"), "{ \"a\" :1.0 }");
}

#define CALL(tool, arguments)                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","                                     \
    "\"params\":{\"name\":\"" tool "\",\"arguments\":" arguments "}}"

static void a_receipt_becomes_the_arguments_of_the_contract(void **state)
{
    (void)state;
    assert_string_equal(
        body_of(RECEIPT, DELIVERY_MCP, "asyncgate.complete"),
        CALL("asyncgate.complete",
             "{\"worker_id\":\"cognigate-0\",\"task_id\":\"task-456\",\"lease_id\":\"abc-123\","
             "\"result\":{\"summary\":\"Task completed successfully\","
             "\"artifact_pointers\":[\"s3://bucket/results.json\"]},"
             "\"artifacts\":{\"pointers\":[\"s3://bucket/results.json\"]}}"));
}

static void without_pointers_there_are_no_artifacts(void **state)
{
    static const char *const bodies[] = {
        "{\"lease_id\":\"a\",\"status\":\"b\",\"summary\":\"s\",\"worker_id\":\"w\"}",
        "{\"lease_id\":\"a\",\"status\":\"b\",\"summary\":\"s\",\"worker_id\":\"w\","
        "\"artifact_pointers\":null}",
        "{\"lease_id\":\"a\",\"status\":\"b\",\"summary\":\"s\",\"worker_id\":\"w\","
        "\"artifact_pointers\":[]}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bodies); i++)
        assert_string_equal(body_of(bodies[i], DELIVERY_MCP, "t"),
                            CALL("t", "{\"worker_id\":\"w\",\"task_id\":null,\"lease_id\":\"a\","
                                      "\"result\":{\"summary\":\"s\",\"artifact_pointers\":[]},"
                                      "\"artifacts\":null}"));
}

#define BARE                                                                                       \
    "\"worker_id\":null,\"task_id\":null,\"lease_id\":\"a\","                                      \
    "\"result\":{\"summary\":\"s\",\"artifact_pointers\":[]},\"artifacts\":null"

static void progress_and_failures_have_more_to_say(void **state)
{
    (void)state;
    assert_string_equal(body_of("{\"lease_id\":\"a\",\"status\":\"running\",\"summary\":\"s\"}",
                                DELIVERY_MCP, "asyncgate.report_progress"),
                        CALL("asyncgate.report_progress",
                             "{" BARE ",\"progress\":{\"state\":\"running\",\"summary\":\"s\"}}"));
    assert_string_equal(body_of("{\"lease_id\":\"a\",\"status\":\"failed\",\"summary\":\"s\"}",
                                DELIVERY_MCP, "asyncgate.fail"),
                        CALL("asyncgate.fail", "{" BARE ",\"error\":{\"message\":\"s\"}}"));
    assert_string_equal(body_of("{\"lease_id\":\"a\",\"status\":\"failed\",\"summary\":\"s\","
                                "\"error_metadata\":{ \"code\":1e2 }}",
                                DELIVERY_MCP, "asyncgate.fail"),
                        CALL("asyncgate.fail", "{" BARE ",\"error\":{ \"code\":1e2 }}"));
}

static void a_document_is_the_arguments_as_it_is(void **state)
{
    (void)state;
    assert_string_equal(body_of("{ \"a\":[1, 2] }", DELIVERY_MCP, "t\"x"),
                        CALL("t\\\"x", "{ \"a\":[1, 2] }"));
}

/* ---- head lines ------------------------------------------------------------------------------ */

/* headers_of joins the head lines of a request. */
static const char *headers_of(const struct delivery *delivery, const struct target *target,
                              enum delivery_kind kind)
{
    const char *const *lines =
        protocol_headers(delivery, target, kind, SLICE("{\"test\": 2432232314}"), NOW, &arena);

    assert_non_null(lines);
    buf_clear(&out);
    for (; *lines; lines++)
        buf_addf(&out, "%s\n", *lines);
    return buf_str(&out);
}

static void a_request_says_what_it_is_and_which(void **state)
{
    struct delivery delivery = deliver_of(RECEIPT);
    struct target target = {0};

    (void)state;
    assert_string_equal(headers_of(&delivery, &target, DELIVERY_HTTP),
                        "Content-Type: application/json\nAccept: application/json, */*\n"
                        "Idempotency-Key: abc-123:complete\n");
    target.token = SLICE("s3cret");
    assert_string_equal(headers_of(&delivery, &target, DELIVERY_MCP),
                        "Content-Type: application/json\n"
                        "Accept: application/json, text/event-stream\n"
                        "Idempotency-Key: abc-123:complete\nAuthorization: Bearer s3cret\n");
}

static void the_targets_own_lines_come_instead_of_ours(void **state)
{
    struct slice lines[] = {SLICE("content-TYPE: application/vnd.x+json"),
                            SLICE("X-A: 1"),
                            SLICE("Authorization: Basic eDp5"),
                            SLICE("Idempotency-Key: same"),
                            SLICE("Webhook-Id: same"),
                            SLICE("Accepted: no")};
    struct target target = {.headers = lines, .header_count = COUNT(lines), .token = SLICE("t")};
    struct delivery delivery = deliver_of("{}");

    (void)state;
    assert_string_equal(headers_of(&delivery, &target, DELIVERY_HTTP),
                        "Accept: application/json, */*\nIdempotency-Key: job-1\n"
                        "content-TYPE: application/vnd.x+json\nX-A: 1\n"
                        "Authorization: Basic eDp5\nAccepted: no\n");
}

static void a_line_never_becomes_two(void **state)
{
    struct slice lines[] = {SLICE("X-A: 1\r\nX-B: 2"), SLICE("X-C: 3\0X-D: 4")};
    struct target target = {.headers = lines, .header_count = COUNT(lines), .token = SLICE("t\nu")};
    struct delivery delivery = deliver_of("{}");

    (void)state;
    assert_string_equal(headers_of(&delivery, &target, DELIVERY_HTTP),
                        "Content-Type: application/json\nAccept: application/json, */*\n"
                        "Idempotency-Key: job-1\nAuthorization: Bearer t\nX-A: 1\nX-C: 3\n");
}

static void a_key_is_written_with_visible_ascii(void **state)
{
    static const struct {
        struct slice key;
        const char *line;
    } rows[] = {
        {SLICE("a:~!\"b"), "a:~!\"b"},
        {SLICE("a b"), "a%20b"},
        {SLICE("a%20b"), "a%2520b"},
        {SLICE("\xC3\xA9\r\n\0\x7F"), "%C3%A9%0D%0A%00%7F"},
    };
    struct delivery delivery = deliver_of("{}");
    struct target target = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        delivery.key = rows[i].key;
        const char *key = strstr(headers_of(&delivery, &target, DELIVERY_HTTP), "Idempotency-Key");
        assert_non_null(key);
        char expected[128];
        snprintf(expected, sizeof(expected), "Idempotency-Key: %s\n", rows[i].line);
        assert_string_equal(key, expected);
    }
}

static void a_target_with_a_secret_gets_the_signature(void **state)
{
    struct delivery delivery = deliver_of("{}");
    struct target target = {0};
    struct buf secret;

    (void)state;
    buf_init(&secret, 64);
    assert_int_equal(sign_secret(SLICE("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), &secret, NULL),
                     STATUS_OK);
    target.secret = buf_slice(&secret);
    delivery.key = SLICE("msg_p5jXN8AQM9LWM0D4loKWxJek");
    const char *id = strstr(headers_of(&delivery, &target, DELIVERY_HTTP), "webhook-id");
    assert_non_null(id);
    assert_string_equal(id, "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\n"
                            "webhook-timestamp: 1614265330\n"
                            "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\n");
    /* What is signed is the id as it is sent. */
    delivery.key = SLICE("a b");
    id = strstr(headers_of(&delivery, &target, DELIVERY_HTTP), "webhook-id: a%20b\n");
    assert_non_null(id);
    struct buf signature;
    buf_init(&signature, 128);
    sign_webhook(target.secret, SLICE("a%20b"), NOW, SLICE("{\"test\": 2432232314}"), &signature);
    assert_non_null(strstr(id, buf_str(&signature)));
    buf_release(&signature);
    buf_release(&secret);
}

static void memory_that_is_exhausted_leaves_no_request_half_made(void **state)
{
    struct slice lines[] = {SLICE("X-A: 1")};
    struct target target = {.headers = lines,
                            .header_count = COUNT(lines),
                            .token = SLICE("t"),
                            .secret = SLICE("sixteen bytes...")};
    struct delivery delivery = deliver_of(RECEIPT);
    const char *const *made = NULL;
    unsigned long n = 0;

    (void)state;
    while (!made) {
        struct arena own = {0};
        mem_fail_after(++n);
        made = protocol_headers(&delivery, &target, DELIVERY_HTTP, SLICE("{}"), NOW, &own);
        mem_fail_after(0);
        for (size_t i = 0; made && i < 8; i++)
            assert_non_null(made[i]);
        assert_true(!made || !made[8]);
        arena_release(&own);
    }
    assert_true(n > 5);
}

/* ---- reports --------------------------------------------------------------------------------- */

static struct failure failure_of(const struct protocol_verdict *verdict)
{
    struct failure failure;
    struct err err = {0};

    buf_clear(&out);
    protocol_failure(verdict, &call, SLICE("office-1"), &out);
    assert_int_equal(out.status, STATUS_OK);
    if (failure_parse(json_of(buf_slice(&out)), &arena, &failure, &err) != STATUS_OK)
        fail_msg("%s: %s", buf_str(&out), err.text);
    return failure;
}

static void a_verdict_is_reported_as_a_failure(void **state)
{
    struct protocol_verdict verdict = {.class = CLASS_RATE_LIMITED,
                                       .error_type = "RateLimited",
                                       .message = SLICE("slow down"),
                                       .side_effects = EFFECTS_UNKNOWN,
                                       .http_status = 429,
                                       .retry_after = {1500000},
                                       .code = SLICE("QUOTA_EXCEEDED")};

    (void)state;
    call.took = span_ms(42);
    snprintf(call.content_type, sizeof(call.content_type), "text/plain");
    buf_add_str(&call.answer, "not\nso fast");
    struct failure failure = failure_of(&verdict);
    assert_text(failure.message, "slow down");
    assert_text(failure.error_type, "RateLimited");
    assert_int_equal(failure_class(&failure), CLASS_RATE_LIMITED);
    assert_int_equal(failure.http_status, 429);
    assert_int_equal(failure.retry_after.us, 1500000);
    assert_int_equal(failure.side_effects, EFFECTS_UNKNOWN);
    assert_text(failure.dependency, "127.0.0.1:9");
    assert_text(failure.agent_id, "office-1");
    assert_text(failure.step_failed, "POST http://127.0.0.1:9/x");
    assert_int_equal(failure.duration_ms, 42);
    assert_text(failure.error_context.raw, "[\"code: QUOTA_EXCEEDED\",\"content-type: text/plain\","
                                           "\"answer: not\\nso fast\"]");
    assert_null(strstr(buf_str(&out), "hunter2"));
}

static void what_is_not_known_is_not_reported(void **state)
{
    struct protocol_verdict verdict = {.class = CLASS_NETWORK,
                                       .error_type = "ConnectionError",
                                       .message = SLICE("no"),
                                       .retry_after = {-1}};

    (void)state;
    struct failure failure = failure_of(&verdict);
    assert_int_equal(failure.http_status, 0);
    assert_int_equal(failure.retry_after.us, -1);
    assert_int_equal(failure.side_effects, EFFECTS_UNSAID);
    assert_text(failure.error_context.raw, "[]");
    /* What failed before there was an address to call has none to report. */
    call.url = NULL;
    verdict.message = (struct slice){0};
    failure = failure_of(&verdict);
    assert_int_equal(failure.dependency.len, 0);
    assert_int_equal(failure.step_failed.len, 0);
    assert_text(failure.message, "ConnectionError");
    /* A status that HTTP has not could not be read again. */
    verdict.http_status = 999;
    assert_int_equal(failure_of(&verdict).http_status, 0);
}

static void a_report_says_how_much_of_an_answer_it_leaves_out(void **state)
{
    struct protocol_verdict verdict = {
        .class = CLASS_SERVER_ERROR, .error_type = "HttpError", .message = SLICE("no")};

    (void)state;
    for (int i = 0; i < 10000; i++)
        buf_add_str(&call.answer, "\xC3\xA9\x01");
    call.answer_cut = true;
    call.status = 200;
    struct failure failure = failure_of(&verdict);
    assert_true(failure.error_context.raw.len < 6000);
    assert_non_null(strstr(buf_str(&out), "bytes left out"));
    assert_non_null(strstr(buf_str(&out), "the answer was read no further than 30000 bytes"));
    buf_clear(&out);
    protocol_result(&call, &out);
    assert_true(out.len < 4000);
    assert_non_null(strstr(buf_str(&out), "bytes left out"));
    json_of(buf_slice(&out));
}

static void a_result_has_the_status_and_the_answer(void **state)
{
    (void)state;
    call.status = 204;
    protocol_result(&call, &out);
    assert_string_equal(buf_str(&out), "{\"http_status\":204,\"answer\":\"\"}");
    buf_clear(&out);
    buf_add_str(&call.answer, "{\"ok\":\xFF}");
    protocol_result(&call, &out);
    assert_string_equal(buf_str(&out),
                        "{\"http_status\":204,\"answer\":\"{\\\"ok\\\":\xEF\xBF\xBD}\"}");
}

/* ---- Retry-After ----------------------------------------------------------------------------- */

#define CENTURY_S (INT64_C(36525) * 86400)

static void retry_after_is_seconds_or_a_date(void **state)
{
    static const struct {
        const char *text;
        double seconds; /* -1: it is neither */
    } rows[] = {
        {"0", 0},
        {"120", 120},
        {" \t7\t ", 7},
        {"007", 7},
        {"3155760000", (double)CENTURY_S},
        {"3155760001", (double)CENTURY_S},
        {"99999999999999999999999", (double)CENTURY_S},
        {"", -1},
        {" ", -1},
        {"-5", -1},
        {"+5", -1},
        {"1.5", -1},
        {"5s", -1},
        {"5 6", -1},
        {"1e3", -1},
        {"soon", -1},
        /* The three forms of a date; it is 15:02:10. */
        {"Thu, 25 Feb 2021 15:03:10 GMT", 60},
        {"Thursday, 25-Feb-21 15:03:10 GMT", 60},
        {"Thu Feb 25 15:03:10 2021", 60},
        {"Mon Mar  1 15:02:10 2021", 4 * 86400},
        {"Mon Mar 01 15:02:10 2021", 4 * 86400},
        {"Thu, 25 Feb 2021 15:02:10 GMT", 0},
        {"Thu, 25 Feb 2021 15:02:09 GMT", 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 0},
        {"Sun Nov  6 08:49:37 1994", 0},
        {"Sunday, 26-Feb-71 15:02:09 GMT", 0}, /* 1971, as 2071 is 50 years ahead, and more */
        {"Sunday, 01-Jan-71 00:00:00 GMT", 1573030670}, /* and this is less */
        {"Sat, 31 Dec 2016 23:59:60 GMT", 0},
        {"Thu, 25 Feb 2021 15:03:10 UTC", -1},
        {"Thu, 25 Feb 2021 15:03:10 GMT+1", -1},
        {"Thu, 25 Feb 2021 15:03:10", -1},
        {"Thu, 25 Feb 2021 25:03:10 GMT", -1},
        {"Thu, 25 Feb 2021 15-03-10 GMT", -1},
        {"Tue, 30 Feb 2021 15:03:10 GMT", -1},
        {"Tue, 00 Mar 2021 15:03:10 GMT", -1},
        {"Thu, 5 Mar 2021 15:03:10 GMT", -1},
        {"Xxx, 25 Feb 2021 15:03:10 GMT", -1},
        {"Thu, 25 Xxx 2021 15:03:10 GMT", -1},
        {"Thursday, 29-Feb-21 15:03:10 GMT", -1},
        {"Thu Feb 25 15:03:10 2021 GMT", -1},
        {"Thu Feb 25 15:0", -1},
        {"2021-02-25T15:03:10Z", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct span span = retry_after_parse(slice_of(rows[i].text), NOW);
        int64_t expected = rows[i].seconds < 0 ? -1 : (int64_t)(rows[i].seconds * 1e6);
        if (span.us != expected)
            fail_msg("\"%s\": %lld us, not %lld", rows[i].text, (long long)span.us,
                     (long long)expected);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_tool_is_the_deliverys_then_the_targets_then_the_statuss),
        TEST(plain_http_is_the_body_as_it_is),
        TEST(a_receipt_becomes_the_arguments_of_the_contract),
        TEST(without_pointers_there_are_no_artifacts),
        TEST(progress_and_failures_have_more_to_say),
        TEST(a_document_is_the_arguments_as_it_is),
        TEST(a_request_says_what_it_is_and_which),
        TEST(the_targets_own_lines_come_instead_of_ours),
        TEST(a_line_never_becomes_two),
        TEST(a_key_is_written_with_visible_ascii),
        TEST(a_target_with_a_secret_gets_the_signature),
        TEST(memory_that_is_exhausted_leaves_no_request_half_made),
        TEST(a_verdict_is_reported_as_a_failure),
        TEST(what_is_not_known_is_not_reported),
        TEST(a_report_says_how_much_of_an_answer_it_leaves_out),
        TEST(a_result_has_the_status_and_the_answer),
        TEST(retry_after_is_seconds_or_a_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
