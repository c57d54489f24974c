/* judge: from what came back to what it means.
 *
 * What an endpoint says is not ours: it stands in a sentence only as one line of valid UTF-8, and
 * not much of it.  The sentences say the same thing in the same words each time, with what varies
 * where core/signature.h drops it, so that failures of one kind are one group. */
#include "base/utf8.h"
#include "bridge/mcp.h"
#include "bridge/protocol.h"
#include "core/field.h"

#define QUOTE_MAX 300     /* bytes of the endpoint's words in a sentence */
#define SENTENCE_MAX 8192 /* above what comes together */
#define CONNECT_DEFAULT_S 10
#define WHOLE_DEFAULT_S 30

/* struct judging: a verdict that is being reached. */
struct judging {
    const struct wire_call *call;
    struct arena *arena;
    struct instant now;
    struct protocol_verdict *out;
    struct buf sentence;
    struct slice url; /* as it is shown */
};

/* ---- words ----------------------------------------------------------------------------------- */

struct slice protocol_shown_url(const struct wire_call *call)
{
    struct slice text = slice_of(call->url);
    const char *host = strstr(call->url, "://");

    text.len = strcspn(call->url, "?#");
    if (call->private_path && host)
        text.len = (size_t)(host + 3 - call->url) + strcspn(host + 3, "/?#");
    if (text.len > URL_MAX)
        text.len = URL_MAX;
    return text;
}

/* is_control is true for what would move a cursor, break a line or turn its direction. */
static bool is_control(const uint8_t *at, size_t len)
{
    if (len == 1)
        return at[0] < 0x20 || at[0] == 0x7F;
    if (len == 2)
        return at[0] == 0xC2 && at[1] < 0xA0; /* U+0080 to U+009F */
    if (len != 3 || at[0] != 0xE2)
        return false;
    return (at[1] == 0x80 && at[2] >= 0xA8 && at[2] <= 0xAE) || /* U+2028 to U+202E */
           (at[1] == 0x81 && at[2] >= 0xA6 && at[2] <= 0xA9);   /* U+2066 to U+2069 */
}

/* quote_most appends the beginning of a foreign text: runs of white space and control characters
 * become one space, bytes that are no UTF-8 become U+FFFD, and what follows `max` bytes "...". */
static void quote_most(struct buf *out, struct slice text, size_t max)
{
    size_t begin = out->len;
    bool space = false, valid;

    for (size_t i = 0, len; i < text.len; i += len) {
        const uint8_t *at = (const uint8_t *)text.ptr + i;
        len = utf8_step(at, text.len - i, &valid);
        if (valid && (*at == ' ' || is_control(at, len))) {
            space = out->len > begin;
            continue;
        }
        if (out->len - begin + space + (valid ? len : 3) > max) {
            buf_add_str(out, "...");
            return;
        }
        if (space)
            buf_add_char(out, ' ');
        space = false;
        if (valid)
            buf_add(out, at, len);
        else
            buf_add_str(out, "\xEF\xBF\xBD");
        if (out->status != STATUS_OK)
            return;
    }
}

static void quote(struct buf *out, struct slice text)
{
    quote_most(out, text, QUOTE_MAX);
}

/* add_quote appends ": " and a foreign text, when there is one. */
static void add_quote(struct judging *j, struct slice text)
{
    size_t begin = j->sentence.len;

    buf_add_str(&j->sentence, ": ");
    size_t before = j->sentence.len;
    quote(&j->sentence, text);
    if (j->sentence.len == before)
        j->sentence.len = begin;
}

static const struct phrase {
    int status;
    const char *text;
} phrases[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {425, "Too Early"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {507, "Insufficient Storage"},
};

/* add_status begins a sentence: "HTTP 503 Service Unavailable from URL". */
static void add_status(struct judging *j)
{
    buf_addf(&j->sentence, "HTTP %d", j->call->status);
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
        if (phrases[i].status == j->call->status)
            buf_addf(&j->sentence, " %s", phrases[i].text);
    buf_addf(&j->sentence, " from %.*s", SLICE_ARG(j->url));
}

/* add_seconds appends a span as seconds: "30 s", "0.25 s". */
static void add_seconds(struct judging *j, struct span span)
{
    buf_addf(&j->sentence, "%.6g s", span_to_seconds(span));
}

static void fail(struct judging *j, enum failure_class class, const char *error_type,
                 enum side_effects effects)
{
    j->out->class = class;
    j->out->error_type = error_type;
    j->out->side_effects = effects;
}

/* ---- no answer ------------------------------------------------------------------------------- */

static struct span or_default(struct span span, int64_t seconds)
{
    return span.us > 0 ? span : span_seconds(seconds);
}

/* add_reason appends what the wire says, which is a sentence with the host in it; when it says
 * nothing, `words` and the address. */
static void add_reason(struct judging *j, const char *words)
{
    size_t before = j->sentence.len;

    quote_most(&j->sentence, slice_of(j->call->err.text), sizeof(j->call->err.text));
    if (j->sentence.len == before)
        buf_addf(&j->sentence, "%s %.*s", words, SLICE_ARG(j->url));
}

static void judge_unsent(struct judging *j)
{
    struct span whole = or_default(j->call->whole, WHOLE_DEFAULT_S);
    struct span limit = or_default(j->call->connect, CONNECT_DEFAULT_S);

    if (j->call->timed_out) {
        fail(j, CLASS_TIMEOUT, "Timeout", EFFECTS_NONE);
        buf_addf(&j->sentence, "no connection to %.*s within ", SLICE_ARG(j->url));
        add_seconds(j, whole.us < limit.us ? whole : limit);
        return;
    }
    fail(j, CLASS_NETWORK, "ConnectionError", EFFECTS_NONE);
    add_reason(j, "no connection to");
}

static void judge_unknown(struct judging *j)
{
    if (j->call->timed_out) {
        fail(j, CLASS_TIMEOUT, "Timeout", EFFECTS_UNKNOWN);
        buf_add_str(&j->sentence,
                    j->call->status ? "no whole answer within " : "no answer within ");
        add_seconds(j, or_default(j->call->whole, WHOLE_DEFAULT_S));
        buf_addf(&j->sentence, " from %.*s: it may have taken effect", SLICE_ARG(j->url));
        return;
    }
    fail(j, CLASS_NETWORK, "ConnectionError", EFFECTS_UNKNOWN);
    add_reason(j, "no whole answer from");
    buf_add_str(&j->sentence, "; it may have taken effect");
}

static void judge_forbidden(struct judging *j)
{
    fail(j, CLASS_POLICY_VIOLATION, "AddressRefused", EFFECTS_NONE);
    add_reason(j, "no connection is allowed to");
}

static void judge_stopped(struct judging *j)
{
    fail(j, CLASS_NETWORK, "ConnectionError", EFFECTS_UNKNOWN);
    buf_addf(&j->sentence, "stopped before an answer came from %.*s: it may have taken effect",
             SLICE_ARG(j->url));
}

/* ---- an answer ------------------------------------------------------------------------------- */

/* class_of_status asks core/classify.c; what that has no word for is the server's fault. */
static enum failure_class class_of_status(int status)
{
    struct failure failure;

    if (status < 400 || status > 599)
        return CLASS_SERVER_ERROR;
    failure_init(&failure);
    failure.http_status = status;
    return failure_class(&failure);
}

/* take_retry_after honours what is asked for, in the header or else in the error, where the class
 * lets it be tried again at all. */
static void take_retry_after(struct judging *j, struct span asked)
{
    struct span header = retry_after_parse(slice_of(j->call->retry_after), j->now);

    if (class_is_retryable(j->out->class))
        j->out->retry_after = header.us >= 0 ? header : asked;
}

static void judge_redirect(struct judging *j)
{
    fail(j, CLASS_CLIENT_ERROR, "Redirected", EFFECTS_UNSAID);
    add_status(j);
    if (j->call->private_path) {
        buf_add_str(&j->sentence, ": redirected, where it is not sent on; give the address where "
                                  "it ends");
        return;
    }
    if (j->call->location[0] == '\0') {
        buf_add_str(&j->sentence, ": a redirect that does not say where to");
        return;
    }
    buf_add_str(&j->sentence, ": redirected to ");
    quote(&j->sentence, slice_of(j->call->location));
    buf_add_str(&j->sentence,
                j->call->redirects
                    ? ", where it is not sent on: only redirects that keep scheme, host and port "
                      "are followed, and five at most; give the address where it ends"
                    : "; give that address, or let redirects be followed (those that keep scheme, "
                      "host and port are)");
}

/* judge_status judges an answer by its status alone.  `error` is what it says inside, of MCP; NULL
 * when there is nothing. */
static void judge_status(struct judging *j, const struct mcp_answer *error)
{
    int status = j->call->status;

    if (status >= 300 && status < 400) {
        judge_redirect(j);
        return;
    }
    fail(j, status >= 100 && status < 200 ? CLASS_CLIENT_ERROR : class_of_status(status),
         status == 429 ? "RateLimited" : "HttpError", EFFECTS_UNSAID);
    take_retry_after(j, error ? error->retry_after : (struct span){-1});
    add_status(j);
    if (error)
        j->out->code = field_head(error->code, PROTOCOL_CODE_MAX);
    add_quote(j, error && error->message.len > 0 ? error->message : buf_slice(&j->call->answer));
}

static void judge_error(struct judging *j, const struct mcp_answer *answer)
{
    fail(j, answer->class, answer->class == CLASS_RATE_LIMITED ? "RateLimited" : "ToolError",
         EFFECTS_UNSAID);
    take_retry_after(j, answer->retry_after);
    j->out->code = field_head(answer->code, PROTOCOL_CODE_MAX);
    buf_add_str(&j->sentence, answer->outcome == MCP_ERROR ? "MCP error" : "MCP tool error");
    if (j->out->code.len > 0) {
        buf_add_char(&j->sentence, ' ');
        quote(&j->sentence, j->out->code);
    }
    buf_addf(&j->sentence, " from %.*s", SLICE_ARG(j->url));
    add_quote(j, answer->message);
}

static void judge_no_answer(struct judging *j, struct slice why)
{
    fail(j, CLASS_SERVER_ERROR, "BadAnswer", EFFECTS_UNKNOWN);
    take_retry_after(j, (struct span){-1});
    add_status(j);
    buf_addf(&j->sentence, ", but no answer to the call, as %.*s; it may have taken effect",
             SLICE_ARG(why));
    add_quote(j, buf_slice(&j->call->answer));
}

/* judge_mcp judges an answer to a call.  Beyond 2xx the status alone decides. */
static void judge_mcp(struct judging *j)
{
    bool good = j->call->status >= 200 && j->call->status < 300;
    struct mcp_answer answer;

    if (!mcp_read(buf_slice(&j->call->answer), j->call->content_type, !j->call->answer_cut,
                  j->arena, &answer))
        judge_no_answer(j, SLICE("memory was exhausted"));
    else if (!good)
        judge_status(j, answer.outcome == MCP_ERROR ? &answer : NULL);
    else if (answer.outcome == MCP_DONE)
        j->out->delivered = true;
    else if (answer.outcome == MCP_NO_ANSWER)
        judge_no_answer(j, answer.message);
    else
        judge_error(j, &answer);
}

/* judge_open_stream is for a stream that ended badly, or not at all.  An answer that stands whole
 * in it is one all the same.  False when there is none. */
static bool judge_open_stream(struct judging *j)
{
    const struct wire_call *call = j->call;
    struct mcp_answer answer;

    if (call->status < 200 || call->status > 299 || !mcp_is_stream(call->content_type) ||
        !mcp_read(buf_slice(&call->answer), call->content_type, false, j->arena, &answer) ||
        answer.outcome == MCP_NO_ANSWER)
        return false;
    if (answer.outcome == MCP_DONE)
        j->out->delivered = true;
    else
        judge_error(j, &answer);
    return true;
}

/* says_error tells an error of JSON-RPC inside a 200 from a document that was taken: somebody may
 * post a receipt to an endpoint that expects a call. */
static bool says_error(const struct judging *j)
{
    struct slice text = buf_slice(&j->call->answer);
    struct json answer, version, error;

    return text.len > 0 && memmem(text.ptr, text.len, "jsonrpc", 7) && !j->call->answer_cut &&
           json_parse(text, &answer, NULL) == STATUS_OK && json_get(answer, "jsonrpc", &version) &&
           json_get(answer, "error", &error) && error.type != JSON_NULL;
}

/* ---- Slack ----------------------------------------------------------------------------------- */

static enum failure_class class_of_slack(struct slice error)
{
    static const char *const passing[] = {"internal_error", "fatal_error", "service_unavailable",
                                          "request_timeout"};

    if (slice_is(error, "ratelimited") || slice_is(error, "rate_limited"))
        return CLASS_RATE_LIMITED;
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        if (slice_is(error, passing[i]))
            return CLASS_SERVER_ERROR;
    return CLASS_CLIENT_ERROR;
}

/* judge_refusal judges {"ok":false,"error":"..."}. */
static void judge_refusal(struct judging *j, struct json answer)
{
    struct json error;
    struct slice text = {0};

    if (json_get(answer, "error", &error))
        text = json_text(error, j->arena);
    enum failure_class class = class_of_slack(text);
    fail(j, class, class == CLASS_RATE_LIMITED ? "RateLimited" : "SlackError", EFFECTS_UNSAID);
    take_retry_after(j, (struct span){-1});
    j->out->code = field_head(text, PROTOCOL_CODE_MAX);
    buf_addf(&j->sentence, "Slack refused the message at %.*s", SLICE_ARG(j->url));
    add_quote(j, text);
}

/* judge_slack judges an answer to a message.  Webhooks of Slack say "ok"; those of programs that
 * speak as Slack does say nothing, or something in JSON. */
static void judge_slack(struct judging *j)
{
    struct slice text = buf_slice(&j->call->answer);
    struct json answer = {0}, ok = {0};

    if (j->call->status < 200 || j->call->status > 299) {
        judge_status(j, NULL);
        return;
    }
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ')
        text.len--;
    bool is_json = json_parse(text, &answer, NULL) == STATUS_OK && answer.type == JSON_OBJECT;
    if (is_json)
        json_get(answer, "ok", &ok);
    if (is_json && ok.type == JSON_FALSE)
        judge_refusal(j, answer);
    else if (is_json || text.len == 0 || slice_is(text, "ok"))
        j->out->delivered = true;
    else
        judge_no_answer(j, SLICE("it does not say ok"));
}

static void judge_answer(struct judging *j, enum delivery_kind kind)
{
    if (kind == DELIVERY_SLACK)
        judge_slack(j);
    else if (kind == DELIVERY_MCP || (j->call->status < 300 && says_error(j)))
        judge_mcp(j);
    else if (j->call->status >= 200 && j->call->status < 300)
        j->out->delivered = true;
    else
        judge_status(j, NULL);
}

void protocol_judge(enum delivery_kind kind, const struct wire_call *call, struct instant now,
                    struct arena *arena, struct protocol_verdict *out)
{
    struct judging j = {
        .call = call, .arena = arena, .now = now, .out = out, .url = protocol_shown_url(call)};

    *out = (struct protocol_verdict){.http_status = call->status, .retry_after = {-1}};
    buf_init(&j.sentence, SENTENCE_MAX);
    if (call->outcome == WIRE_ANSWERED)
        judge_answer(&j, kind);
    else if (call->outcome == WIRE_UNSENT)
        judge_unsent(&j);
    else if (call->outcome == WIRE_FORBIDDEN)
        judge_forbidden(&j);
    else if (kind == DELIVERY_MCP && judge_open_stream(&j))
        ; /* it has been judged */
    else if (call->outcome == WIRE_STOPPED)
        judge_stopped(&j);
    else
        judge_unknown(&j);
    if (j.sentence.len > 0)
        out->message = arena_dup(arena, buf_slice(&j.sentence));
    /* There is always a sentence to report, memory or not. */
    if (!out->delivered && !out->message.ptr)
        out->message = SLICE("the delivery failed, and no memory was left to say how");
    buf_release(&j.sentence);
}
