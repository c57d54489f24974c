/* What answers mean: every row of the table in protocol.h, and whatever else an endpoint may say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bridge/protocol.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ANSWER_MAX ((size_t)8 << 20)
#define NOW ((struct instant){INT64_C(1614265330) * 1000000}) /* 2021-02-25T15:02:10Z */
#define URL "http://127.0.0.1:9/x"
#define EVENTS "text/event-stream"

static struct arena arena; /* emptied after each test */
static struct wire_call call;

static int set_up(void **state)
{
    (void)state;
    call = (struct wire_call){.url = URL "?key=hunter2"};
    buf_init(&call.answer, ANSWER_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&call.answer);
    arena_release(&arena);
    return 0;
}

static void answer(int status, const char *type, struct slice text)
{
    call.outcome = WIRE_ANSWERED;
    call.status = status;
    snprintf(call.content_type, sizeof(call.content_type), "%s", type);
    buf_clear(&call.answer);
    buf_add_slice(&call.answer, text);
}

/* judge finds what holds for every verdict. */
static struct protocol_verdict judge(enum delivery_kind kind)
{
    struct protocol_verdict verdict;

    protocol_judge(kind, &call, NOW, &arena, &verdict);
    assert_int_equal(verdict.http_status, call.status);
    if (verdict.delivered)
        return verdict;
    assert_non_null(verdict.error_type);
    assert_true(verdict.message.len > 0 && verdict.message.len < 1024);
    assert_true(json_utf8_valid(verdict.message));
    for (size_t i = 0; i < verdict.message.len; i++)
        assert_true((unsigned char)verdict.message.ptr[i] >= ' ' && verdict.message.ptr[i] != 0x7F);
    assert_null(memmem(verdict.message.ptr, verdict.message.len, "hunter2", 7));
    return verdict;
}

static struct protocol_verdict judge_mcp(const char *text)
{
    answer(200, "application/json", slice_of(text));
    return judge(DELIVERY_MCP);
}

static struct protocol_verdict judge_events(const char *text)
{
    answer(200, EVENTS "; charset=utf-8", slice_of(text));
    return judge(DELIVERY_MCP);
}

static void assert_message(const struct protocol_verdict *verdict, const char *expected)
{
    if (!slice_is(verdict->message, expected))
        fail_msg("\n%.*s\nis not\n%s", SLICE_ARG(verdict->message), expected);
}

static void assert_says(const struct protocol_verdict *verdict, const char *words)
{
    if (!memmem(verdict->message.ptr, verdict->message.len, words, strlen(words)))
        fail_msg("%.*s does not say %s", SLICE_ARG(verdict->message), words);
}

static void assert_bad_answer(const struct protocol_verdict *verdict, const char *why)
{
    assert_false(verdict->delivered);
    assert_string_equal(verdict->error_type, "BadAnswer");
    assert_int_equal(verdict->class, CLASS_SERVER_ERROR);
    assert_int_equal(verdict->side_effects, EFFECTS_UNKNOWN);
    assert_says(verdict, why);
}

/* ---- no answer ------------------------------------------------------------------------------- */

static void no_answer_says_whether_it_may_have_taken_effect(void **state)
{
    static const struct {
        enum wire_outcome outcome;
        bool timed_out;
        int status;
        enum failure_class class;
        enum side_effects effects;
        const char *type, *message, *without; /* a reason of the wire's, and without one */
    } rows[] = {
        {WIRE_UNSENT, false, 0, CLASS_NETWORK, EFFECTS_NONE, "ConnectionError", "nobody: refused",
         "no connection to " URL},
        {WIRE_UNSENT, true, 0, CLASS_TIMEOUT, EFFECTS_NONE, "Timeout",
         "no connection to " URL " within 10 s", "no connection to " URL " within 10 s"},
        {WIRE_UNKNOWN, true, 0, CLASS_TIMEOUT, EFFECTS_UNKNOWN, "Timeout",
         "no answer within 30 s from " URL ": it may have taken effect",
         "no answer within 30 s from " URL ": it may have taken effect"},
        {WIRE_UNKNOWN, true, 200, CLASS_TIMEOUT, EFFECTS_UNKNOWN, "Timeout",
         "no whole answer within 30 s from " URL ": it may have taken effect",
         "no whole answer within 30 s from " URL ": it may have taken effect"},
        {WIRE_UNKNOWN, false, 0, CLASS_NETWORK, EFFECTS_UNKNOWN, "ConnectionError",
         "nobody: refused; it may have taken effect",
         "no whole answer from " URL "; it may have taken effect"},
        {WIRE_UNKNOWN, false, 200, CLASS_NETWORK, EFFECTS_UNKNOWN, "ConnectionError",
         "nobody: refused; it may have taken effect",
         "no whole answer from " URL "; it may have taken effect"},
        {WIRE_FORBIDDEN, false, 0, CLASS_POLICY_VIOLATION, EFFECTS_NONE, "AddressRefused",
         "nobody: refused", "no connection is allowed to " URL},
        {WIRE_STOPPED, false, 0, CLASS_NETWORK, EFFECTS_UNKNOWN, "ConnectionError",
         "stopped before an answer came from " URL ": it may have taken effect",
         "stopped before an answer came from " URL ": it may have taken effect"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows) * 4; i++) {
        size_t row = i / 4;
        bool reason = i / 2 % 2;
        call.outcome = rows[row].outcome;
        call.timed_out = rows[row].timed_out;
        call.status = rows[row].status;
        snprintf(call.err.text, sizeof(call.err.text), "%s", reason ? "nobody:\n refused\n" : "");
        struct protocol_verdict verdict = judge(i % 2 ? DELIVERY_MCP : DELIVERY_HTTP);
        assert_false(verdict.delivered);
        assert_int_equal(verdict.class, rows[row].class);
        assert_int_equal(verdict.side_effects, rows[row].effects);
        assert_string_equal(verdict.error_type, rows[row].type);
        assert_message(&verdict, reason ? rows[row].message : rows[row].without);
        assert_int_equal(verdict.retry_after.us, -1);
    }
}

static void the_time_that_was_given_is_said(void **state)
{
    (void)state;
    call.timed_out = true;
    call.whole = span_ms(1500);
    call.outcome = WIRE_UNKNOWN;
    struct protocol_verdict verdict = judge(DELIVERY_HTTP);
    assert_says(&verdict, "no answer within 1.5 s from");
    /* Less than the time to connect: that is the one which was over. */
    call.outcome = WIRE_UNSENT;
    verdict = judge(DELIVERY_HTTP);
    assert_says(&verdict, "within 1.5 s");
    call.connect = span_ms(250);
    verdict = judge(DELIVERY_HTTP);
    assert_says(&verdict, "within 0.25 s");
}

/* ---- by the status --------------------------------------------------------------------------- */

static void the_status_decides(void **state)
{
    static const struct {
        int status;
        enum failure_class class;
        const char *type, *begins;
    } rows[] = {
        {101, CLASS_CLIENT_ERROR, "HttpError", "HTTP 101 from " URL ": why"},
        {400, CLASS_INVALID_INPUT, "HttpError", "HTTP 400 Bad Request from " URL ": why"},
        {401, CLASS_PERMISSION_DENIED, "HttpError", "HTTP 401 Unauthorized from " URL ": why"},
        {403, CLASS_PERMISSION_DENIED, "HttpError", "HTTP 403 Forbidden from " URL ": why"},
        {404, CLASS_CLIENT_ERROR, "HttpError", "HTTP 404 Not Found from " URL ": why"},
        {408, CLASS_TIMEOUT, "HttpError", "HTTP 408 Request Timeout from " URL ": why"},
        {409, CLASS_CLIENT_ERROR, "HttpError", "HTTP 409 Conflict from " URL ": why"},
        {418, CLASS_CLIENT_ERROR, "HttpError", "HTTP 418 from " URL ": why"},
        {422, CLASS_INVALID_INPUT, "HttpError", "HTTP 422 Unprocessable Content from "},
        {429, CLASS_RATE_LIMITED, "RateLimited", "HTTP 429 Too Many Requests from " URL ": why"},
        {499, CLASS_CLIENT_ERROR, "HttpError", "HTTP 499 from"},
        {500, CLASS_SERVER_ERROR, "HttpError", "HTTP 500 Internal Server Error from " URL ": why"},
        {502, CLASS_UNAVAILABLE, "HttpError", "HTTP 502 Bad Gateway from"},
        {503, CLASS_UNAVAILABLE, "HttpError", "HTTP 503 Service Unavailable from " URL ": why"},
        {504, CLASS_TIMEOUT, "HttpError", "HTTP 504 Gateway Timeout from"},
        {599, CLASS_SERVER_ERROR, "HttpError", "HTTP 599 from"},
        {999, CLASS_SERVER_ERROR, "HttpError", "HTTP 999 from"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        size_t row = i / 2;
        answer(rows[row].status, "text/plain", SLICE("why"));
        struct protocol_verdict verdict = judge(i % 2 ? DELIVERY_MCP : DELIVERY_HTTP);
        assert_false(verdict.delivered);
        assert_int_equal(verdict.class, rows[row].class);
        assert_string_equal(verdict.error_type, rows[row].type);
        assert_int_equal(verdict.side_effects, EFFECTS_UNSAID);
        assert_true(slice_starts(verdict.message, slice_of(rows[row].begins)));
    }
}

static void two_hundred_and_what_follows_is_delivered(void **state)
{
    static const int statuses[] = {200, 201, 202, 204, 299};

    (void)state;
    for (size_t i = 0; i < COUNT(statuses); i++) {
        answer(statuses[i], "text/html", SLICE("{\"error\":{\"code\":-32600}}"));
        call.answer_cut = i % 2;
        assert_true(judge(DELIVERY_HTTP).delivered);
    }
}

static void a_redirect_says_where_to_and_what_to_do(void **state)
{
    (void)state;
    for (int status = 300; status < 400; status += 33) {
        answer(status, "", SLICE(""));
        call.redirects = false;
        snprintf(call.location, sizeof(call.location), "https://h/\x1b[31my");
        struct protocol_verdict verdict = judge(DELIVERY_HTTP);
        assert_int_equal(verdict.class, CLASS_CLIENT_ERROR);
        assert_string_equal(verdict.error_type, "Redirected");
        assert_says(&verdict, "redirected to https://h/ [31my; give that address, or let redirects "
                              "be followed (those that keep scheme, host and port are)");
        call.redirects = true;
        verdict = judge(DELIVERY_MCP);
        assert_string_equal(verdict.error_type, "Redirected");
        assert_says(&verdict, "redirected to https://h/ [31my, where it is not sent on: only "
                              "redirects that keep scheme, host and port are followed");
        call.location[0] = '\0';
        verdict = judge(DELIVERY_HTTP);
        assert_says(&verdict, "does not say where to");
    }
}

static void retry_after_is_honoured_where_a_retry_is(void **state)
{
    static const struct {
        int status;
        const char *header;
        int64_t us;
    } rows[] = {
        {429, "5", 5000000}, {429, "", -1},
        {429, "never", -1},  {503, "Thu, 25 Feb 2021 15:02:12 GMT", 2000000},
        {500, "1", 1000000}, {408, "1", 1000000},
        {400, "1", -1},      {404, "1", -1},
        {302, "1", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        answer(rows[i].status, "", SLICE(""));
        snprintf(call.retry_after, sizeof(call.retry_after), "%s", rows[i].header);
        assert_int_equal(judge(DELIVERY_HTTP).retry_after.us, rows[i].us);
    }
}

/* ---- foreign words --------------------------------------------------------------------------- */

static void foreign_words_stand_on_one_line(void **state)
{
    static const struct {
        struct slice answer;
        const char *said;
    } rows[] = {
        {SLICE(""), "HTTP 500 Internal Server Error from " URL},
        {SLICE(" \r\n\t"), "HTTP 500 Internal Server Error from " URL},
        {SLICE("\n a\r\n\tb  c \0d\n"), "HTTP 500 Internal Server Error from " URL ": a b c d"},
        {SLICE("a\xFF\xC3"), "HTTP 500 Internal Server Error from " URL ": a\uFFFD\uFFFD"},
        {SLICE("a\xC2\x9B"
               "31m\xE2\x80\xAE\xE2\x80\xA8\xE2\x81\xA6z"),
         "HTTP 500 Internal Server Error from " URL ": a 31m z"},
        {SLICE("\xC3\xA9\xE2\x82\xAC"),
         "HTTP 500 Internal Server Error from " URL ": \u00e9\u20ac"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        answer(500, "text/plain", rows[i].answer);
        struct protocol_verdict verdict = judge(DELIVERY_HTTP);
        assert_message(&verdict, rows[i].said);
    }
}

static void foreign_words_are_cut_between_characters(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, ANSWER_MAX);
    for (int lead = 0; lead < 4; lead++) {
        buf_clear(&text);
        for (int i = 0; i < lead; i++)
            buf_add_char(&text, 'x');
        for (int i = 0; i < 100000; i++)
            buf_add_str(&text, "\U0001F600");
        answer(500, "", buf_slice(&text));
        struct protocol_verdict verdict = judge(DELIVERY_HTTP);
        struct slice end = {verdict.message.ptr + verdict.message.len - 3, 3};
        assert_true(slice_is(end, "..."));
        assert_in_range(verdict.message.len,
                        sizeof("HTTP 500 Internal Server Error from " URL) + 297,
                        sizeof("HTTP 500 Internal Server Error from " URL) + 305);
    }
    buf_release(&text);
}

/* ---- MCP ------------------------------------------------------------------------------------- */

#define OURS "{\"jsonrpc\":\"2.0\",\"id\":1,"

static void a_result_is_delivered(void **state)
{
    static const char *const answers[] = {
        OURS "\"result\":{}}",
        OURS "\"result\":{\"content\":[],\"isError\":false}}",
        OURS "\"result\":{\"isError\":null},\"error\":null}",
        "{\"result\":{\"ok\":true},\"id\":\"another\"}",
        "{\"result\":\"ok\"}",
        "[{\"method\":\"ping\",\"id\":7}," OURS "\"result\":{}}]",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++)
        if (!judge_mcp(answers[i]).delivered)
            fail_msg("%s", answers[i]);
}

static void an_error_inside_two_hundred_is_judged_by_its_code(void **state)
{
    static const struct {
        const char *code; /* as it stands in JSON */
        enum failure_class class;
        const char *text;
    } rows[] = {
        {"\"RATE_LIMIT_EXCEEDED\"", CLASS_RATE_LIMITED, "RATE_LIMIT_EXCEEDED"},
        {"\"QUOTA_EXCEEDED\"", CLASS_RATE_LIMITED, "QUOTA_EXCEEDED"},
        {"\"UNAUTHORIZED\"", CLASS_PERMISSION_DENIED, "UNAUTHORIZED"},
        {"\"TASK_NOT_FOUND\"", CLASS_CLIENT_ERROR, "TASK_NOT_FOUND"},
        {"\"task_not_found\"", CLASS_CLIENT_ERROR, "task_not_found"},
        {"\"INVALID_STATE_TRANSITION\"", CLASS_CLIENT_ERROR, "INVALID_STATE_TRANSITION"},
        {"\"LEASE_EXPIRED\"", CLASS_CLIENT_ERROR, "LEASE_EXPIRED"},
        {"\"LEASE_\"", CLASS_CLIENT_ERROR, "LEASE_"},
        {"\"LEASE\"", CLASS_SERVER_ERROR, "LEASE"},
        {"\"RELEASE_X\"", CLASS_SERVER_ERROR, "RELEASE_X"},
        {"\"TASK_NOT_FOUND2\"", CLASS_SERVER_ERROR, "TASK_NOT_FOUND2"},
        {"\"INTERNAL\"", CLASS_SERVER_ERROR, "INTERNAL"},
        {"-32599", CLASS_SERVER_ERROR, "-32599"},
        {"-32600", CLASS_INVALID_INPUT, "-32600"},
        {"-32601", CLASS_INVALID_INPUT, "-32601"},
        {"-32602", CLASS_INVALID_INPUT, "-32602"},
        {"-3.2602e4", CLASS_INVALID_INPUT, "-32602"},
        {"\"-32602\"", CLASS_INVALID_INPUT, "-32602"},
        {"-32603", CLASS_SERVER_ERROR, "-32603"},
        {"-32700", CLASS_SERVER_ERROR, "-32700"},
        {"-1.5", CLASS_SERVER_ERROR, "-1.5"},
        {"1e999", CLASS_SERVER_ERROR, "1e999"},
        {"-32000,\"data\":{\"code\":\"LEASE_LOST\"}", CLASS_CLIENT_ERROR, "LEASE_LOST"},
        {"-32000,\"data\":{\"code\":\"OTHER\"}", CLASS_SERVER_ERROR, "OTHER"},
        {"-32000,\"data\":{\"code\":7}", CLASS_SERVER_ERROR, "-32000"},
        {"-32000,\"data\":\"LEASE_LOST\"", CLASS_SERVER_ERROR, "-32000"},
        {"-32602,\"data\":{\"code\":\"QUOTA_EXCEEDED\"}", CLASS_INVALID_INPUT, "-32602"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice text = arena_printf(
            &arena, OURS "\"error\":{\"message\":\"m\\nn\",\"code\":%s}}", rows[i].code);
        struct protocol_verdict verdict = judge_mcp(text.ptr);
        assert_false(verdict.delivered);
        if (verdict.class != rows[i].class || !slice_is(verdict.code, rows[i].text))
            fail_msg("%s: %s, %.*s", rows[i].code, class_name(verdict.class),
                     SLICE_ARG(verdict.code));
        assert_string_equal(verdict.error_type,
                            rows[i].class == CLASS_RATE_LIMITED ? "RateLimited" : "ToolError");
        struct slice said = arena_printf(&arena, "MCP error %s from " URL ": m n", rows[i].text);
        assert_message(&verdict, said.ptr);
    }
}

static void an_error_may_be_of_any_shape_and_have_no_id(void **state)
{
    static const struct {
        const char *answer, *message;
    } rows[] = {
        {"{\"error\":{\"code\":-32600,\"message\":\"m\"}}", "MCP error -32600 from " URL ": m"},
        {"{\"id\":null,\"error\":{\"message\":\"m\"}}", "MCP error from " URL ": m"},
        {OURS "\"error\":\"boom\"}", "MCP error from " URL ": boom"},
        {OURS "\"error\":true}", "MCP error from " URL ": true"},
        {OURS "\"error\":{\"message\":5}}", "MCP error from " URL ": {\"message\":5}"},
        {OURS "\"result\":{},\"error\":{\"message\":\"m\"}}", "MCP error from " URL ": m"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct protocol_verdict verdict = judge_mcp(rows[i].answer);
        assert_false(verdict.delivered);
        assert_string_equal(verdict.error_type, "ToolError");
        assert_message(&verdict, rows[i].message);
    }
}

static void a_tools_error_is_judged_by_the_code_that_it_has_somewhere(void **state)
{
    static const struct {
        const char *result;
        enum failure_class class;
        const char *message;
    } rows[] = {
        {"\"content\":[{\"type\":\"text\",\"text\":\"no\"}]", CLASS_SERVER_ERROR,
         "MCP tool error from " URL ": no"},
        {"\"content\":[{\"type\":\"text\",\"text\":\"no\"}],"
         "\"structuredContent\":{\"error\":{\"code\":\"LEASE_EXPIRED\"}}",
         CLASS_CLIENT_ERROR, "MCP tool error LEASE_EXPIRED from " URL ": no"},
        {"\"structuredContent\":{\"code\":\"QUOTA_EXCEEDED\",\"message\":\"later\"}",
         CLASS_RATE_LIMITED, "MCP tool error QUOTA_EXCEEDED from " URL ": later"},
        {"\"structuredContent\":{\"code\":\"INTERNAL\",\"error\":\"x\"}", CLASS_SERVER_ERROR,
         "MCP tool error INTERNAL from " URL},
        {"\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"first\"},"
         "{\"type\":\"text\",\"text\":\"{\\\"code\\\":\\\"UNAUTHORIZED\\\"}\"}]",
         CLASS_PERMISSION_DENIED, "MCP tool error UNAUTHORIZED from " URL ": first"},
        {"\"content\":[{\"text\":\"{\\\"error\\\":{\\\"code\\\":-32602}}\"}]", CLASS_INVALID_INPUT,
         "MCP tool error -32602 from " URL ": {\"error\":{\"code\":-32602}}"},
        {"\"content\":7,\"structuredContent\":[]", CLASS_SERVER_ERROR, "MCP tool error from " URL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice text =
            arena_printf(&arena, OURS "\"result\":{\"isError\":true,%s}}", rows[i].result);
        struct protocol_verdict verdict = judge_mcp(text.ptr);
        assert_false(verdict.delivered);
        assert_int_equal(verdict.class, rows[i].class);
        assert_message(&verdict, rows[i].message);
    }
    /* Only a plain no is none. */
    assert_false(judge_mcp(OURS "\"result\":{\"isError\":\"true\"}}").delivered);
}

static void a_rate_limit_may_say_how_long(void **state)
{
    static const struct {
        const char *error, *header;
        int64_t us;
    } rows[] = {
        {"\"code\":\"QUOTA_EXCEEDED\",\"data\":{\"retry_after\":1.5}", "", 1500000},
        {"\"code\":\"QUOTA_EXCEEDED\",\"data\":{\"retry_after\":1.5}", "4", 4000000},
        {"\"code\":\"QUOTA_EXCEEDED\",\"data\":{\"retry_after\":1.5}", "soon", 1500000},
        {"\"code\":\"QUOTA_EXCEEDED\",\"retry_after\":2", "", 2000000},
        {"\"code\":\"QUOTA_EXCEEDED\",\"data\":{\"retry_after\":-1}", "", -1},
        {"\"code\":\"QUOTA_EXCEEDED\",\"data\":{\"retry_after\":\"x\"}", "", -1},
        {"\"code\":\"QUOTA_EXCEEDED\",\"data\":{\"retry_after\":1e300}", "",
         INT64_C(36525) * 86400 * 1000000},
        {"\"code\":\"INTERNAL\"", "4", 4000000},
        {"\"code\":\"TASK_NOT_FOUND\",\"data\":{\"retry_after\":1.5}", "4", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice text = arena_printf(&arena, OURS "\"error\":{%s}}", rows[i].error);
        snprintf(call.retry_after, sizeof(call.retry_after), "%s", rows[i].header);
        assert_int_equal(judge_mcp(text.ptr).retry_after.us, rows[i].us);
    }
}

static void the_status_of_http_outweighs_the_code_inside(void **state)
{
    (void)state;
    answer(400, "application/json",
           SLICE("{\"id\":null,\"error\":{\"code\":\"QUOTA_EXCEEDED\",\"message\":\"m\"}}"));
    struct protocol_verdict verdict = judge(DELIVERY_MCP);
    assert_int_equal(verdict.class, CLASS_INVALID_INPUT);
    assert_string_equal(verdict.error_type, "HttpError");
    assert_message(&verdict, "HTTP 400 Bad Request from " URL ": m");
    assert_true(slice_is(verdict.code, "QUOTA_EXCEEDED"));
    answer(429, "application/json", SLICE("{\"error\":{\"code\":1,\"data\":{\"retry_after\":3}}}"));
    assert_int_equal(judge(DELIVERY_MCP).retry_after.us, 3000000);
    /* A result is none when the status says no. */
    answer(500, "application/json", SLICE(OURS "\"result\":{}}"));
    assert_false(judge(DELIVERY_MCP).delivered);
}

static void what_is_no_answer_to_the_call_is_a_bad_one(void **state)
{
    static const struct {
        const char *answer, *why;
    } rows[] = {
        {"", "it is empty"},
        {"ok", "it is no JSON"},
        {"{\"id\":\"a:b\",\"result\":{}", "it is no JSON"},
        {OURS "\"result\":{}} x", "it is no JSON"},
        {"7", "it is no object"},
        {"[]", "it is an empty batch"},
        {"[[]]", "it is no object"},
        {"{}", "it has neither a result nor an error"},
        {OURS "\"error\":null}", "it has neither a result nor an error"},
        {"[{\"id\":2,\"result\":{}}]", "its id is not that of the call"},
        {"[{\"id\":\"1\",\"result\":{}}]", "its id is not that of the call"},
        {"[{\"id\":null,\"result\":{}}]", "its id is not that of the call"},
        {"[{\"id\":2,\"error\":{\"code\":-32600}}]", "its id is not that of the call"},
        {OURS "\"result\":null}", "its result is null"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct protocol_verdict verdict = judge_mcp(rows[i].answer);
        assert_bad_answer(&verdict, rows[i].why);
        assert_true(
            slice_starts(verdict.message, SLICE("HTTP 200 OK from " URL ", but no answer")));
    }
    call.answer_cut = true;
    struct protocol_verdict verdict = judge_mcp(OURS "\"result\":{}}");
    assert_bad_answer(&verdict, "it is not whole");
}

static void an_answer_as_deep_as_can_be_is_survived(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, ANSWER_MAX);
    buf_add_str(&text, OURS "\"result\":");
    for (int i = 0; i < 100000; i++)
        buf_add_str(&text, i % 2 ? "[" : "{\"a\":");
    struct protocol_verdict verdict = judge_mcp(buf_str(&text));
    assert_bad_answer(&verdict, "it is no JSON");
    buf_release(&text);
}

static void a_huge_message_and_a_huge_code_are_cut(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, ANSWER_MAX);
    buf_add_str(&text, OURS "\"error\":{\"code\":\"");
    for (int i = 0; i < 200000; i++)
        buf_add_str(&text, "\\u00e9");
    buf_add_str(&text, "\",\"message\":\"");
    for (int i = 0; i < 200000; i++)
        buf_add_str(&text, "\\u0007y");
    buf_add_str(&text, "\"}}");
    struct protocol_verdict verdict = judge_mcp(buf_str(&text));
    assert_string_equal(verdict.error_type, "ToolError");
    assert_int_equal(verdict.code.len, PROTOCOL_CODE_MAX);
    assert_says(&verdict, ": y y y y");
    buf_release(&text);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void the_answer_is_found_among_the_events(void **state)
{
    static const char *const streams[] = {
        "data: " OURS "\"result\":{}}\n\n",
        "data:" OURS "\"result\":{}}\r\n\r\n",
        "data: " OURS "\"result\":{}}\r\r",
        "data: " OURS "\"result\":{}}",
        "data: " OURS "\"result\":{}}\n",
        "\xEF\xBB\xBF"
        "data: " OURS "\"result\":{}}\n\n",
        ": a comment\n\nevent: message\nid: 7\nretry: 5\ndata: " OURS "\"result\":{}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"
        "data: {\"id\":8,\"method\":\"ping\"}\n\ndata: no JSON\n\ndata\n\ndata:\n\n"
        "data: " OURS "\"result\":{}}\n\ndata: " OURS "\"error\":{}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\ndata:\ndata:\"result\":{}}\n\n",
        "data: [{\"id\":2,\"result\":{}}," OURS "\"result\":{}}]\n\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(streams); i++) {
        struct protocol_verdict verdict = judge_events(streams[i]);
        if (!verdict.delivered)
            fail_msg("%s: %.*s", streams[i], SLICE_ARG(verdict.message));
    }
}

static void an_error_in_a_stream_is_one(void **state)
{
    (void)state;
    struct protocol_verdict verdict = judge_events(
        "data: {\"id\":9,\"result\":{}}\n\n"
        "data: " OURS "\"error\":{\"code\":\"LEASE_EXPIRED\",\ndata: \"message\":\"m\"}}\n\n");
    assert_int_equal(verdict.class, CLASS_CLIENT_ERROR);
    assert_message(&verdict, "MCP error LEASE_EXPIRED from " URL ": m");
}

static void a_stream_without_the_answer_is_a_bad_one(void **state)
{
    static const struct {
        const char *stream, *why;
    } rows[] = {
        {"", "it has no event with data"},
        {"\n\n\n", "it has no event with data"},
        {": ping\n\n", "it has no event with data"},
        {"datax: " OURS "\"result\":{}}\n\n", "it has no event with data"},
        {" data: " OURS "\"result\":{}}\n\n", "it has no event with data"},
        {"data: {\"id\":\"a:c\",\"result\":{}}\n\n", "its id is not that of the call"},
        {"data: " OURS "\n\ndata: \"result\":{}}\n\n", "it is no JSON"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct protocol_verdict verdict = judge_events(rows[i].stream);
        assert_bad_answer(&verdict, rows[i].why);
    }
}

static void a_stream_that_ends_badly_counts_as_far_as_it_is_whole(void **state)
{
    static const struct {
        const char *stream;
        bool delivered;
    } rows[] = {
        {"data: " OURS "\"result\":{}}\n\n", true},
        {"data: " OURS "\"result\":{}}\n\n: ping\n\ndata: {\"me", true},
        {"data: " OURS "\"result\":{}}\n", false},
        {"data: " OURS "\"result\":{}}", false},
        {"data: {\"id\":3,\"result\":{}}\n\n", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        answer(200, EVENTS, slice_of(rows[i].stream));
        call.answer_cut = true;
        assert_int_equal(judge(DELIVERY_MCP).delivered, rows[i].delivered);
        call.answer_cut = false;
        call.outcome = WIRE_UNKNOWN;
        call.timed_out = true;
        struct protocol_verdict verdict = judge(DELIVERY_MCP);
        assert_int_equal(verdict.delivered, rows[i].delivered);
        if (!verdict.delivered)
            assert_string_equal(verdict.error_type, "Timeout");
        /* Of anything else half an answer is none. */
        assert_false(judge(DELIVERY_HTTP).delivered);
    }
    answer(200, "application/json", SLICE(OURS "\"result\":{}}"));
    call.outcome = WIRE_UNKNOWN;
    assert_false(judge(DELIVERY_MCP).delivered);
    answer(500, EVENTS, SLICE("data: " OURS "\"result\":{}}\n\n"));
    call.outcome = WIRE_UNKNOWN;
    assert_false(judge(DELIVERY_MCP).delivered);
    answer(200, EVENTS, SLICE("data: " OURS "\"error\":{\"code\":\"UNAUTHORIZED\"}}\n\n"));
    call.outcome = WIRE_UNKNOWN;
    assert_int_equal(judge(DELIVERY_MCP).class, CLASS_PERMISSION_DENIED);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_that_is_exhausted_never_makes_a_delivery_of_a_failure(void **state)
{
    struct protocol_verdict verdict = {0};
    unsigned long n = 0;

    (void)state;
    answer(200, EVENTS,
           SLICE("data: {\"id\":1,\"error\":{\"code\":-32000,\"message\":\"\\u0061\",\n"
                 "data: \"data\":{\"code\":\"LEASE_\\u0041\"}}}\n\n"));
    do {
        arena_release(&arena);
        mem_fail_after(++n);
        protocol_judge(DELIVERY_MCP, &call, NOW, &arena, &verdict);
        mem_fail_after(0);
        assert_false(verdict.delivered);
        assert_true(verdict.message.len > 0);
        assert_non_null(verdict.error_type);
    } while (n < 1000 && (!slice_is(verdict.code, "LEASE_A") ||
                          !slice_is(verdict.message, "MCP error LEASE_A from " URL ": a")));
    assert_true(n > 2 && n < 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_answer_says_whether_it_may_have_taken_effect),
        TEST(the_time_that_was_given_is_said),
        TEST(the_status_decides),
        TEST(two_hundred_and_what_follows_is_delivered),
        TEST(a_redirect_says_where_to_and_what_to_do),
        TEST(retry_after_is_honoured_where_a_retry_is),
        TEST(foreign_words_stand_on_one_line),
        TEST(foreign_words_are_cut_between_characters),
        TEST(a_result_is_delivered),
        TEST(an_error_inside_two_hundred_is_judged_by_its_code),
        TEST(an_error_may_be_of_any_shape_and_have_no_id),
        TEST(a_tools_error_is_judged_by_the_code_that_it_has_somewhere),
        TEST(a_rate_limit_may_say_how_long),
        TEST(the_status_of_http_outweighs_the_code_inside),
        TEST(what_is_no_answer_to_the_call_is_a_bad_one),
        TEST(an_answer_as_deep_as_can_be_is_survived),
        TEST(a_huge_message_and_a_huge_code_are_cut),
        TEST(the_answer_is_found_among_the_events),
        TEST(an_error_in_a_stream_is_one),
        TEST(a_stream_without_the_answer_is_a_bad_one),
        TEST(a_stream_that_ends_badly_counts_as_far_as_it_is_whole),
        TEST(memory_that_is_exhausted_never_makes_a_delivery_of_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
