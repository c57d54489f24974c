/* protocol: what is written: to an endpoint, and about what came of it.  judge.c reads. */
#include "bridge/protocol.h"

#include <strings.h>

#include "base/jsonw.h"
#include "bridge/mcp.h"
#include "bridge/sign.h"

#define HEAD_LINE_MAX (16 << 10) /* bytes of a head line */
#define ANSWER_HEAD 1024         /* bytes of an answer that a result keeps */
#define ANSWER_EVIDENCE 2048     /* bytes of an answer that a failure keeps */
#define MARK_MAX 64              /* what text_truncate may add */

/* ---- the request ----------------------------------------------------------------------------- */

struct slice protocol_tool(const struct delivery *delivery, const struct target *target)
{
    if (delivery->tool.len > 0)
        return delivery->tool;
    if (target->tool.len > 0)
        return target->tool;
    if (delivery->is_receipt && slice_is(delivery->receipt.status, "running"))
        return SLICE("asyncgate.report_progress");
    if (delivery->is_receipt && slice_is(delivery->receipt.status, "failed"))
        return SLICE("asyncgate.fail");
    return SLICE(TARGET_TOOL_DEFAULT);
}

void protocol_body(const struct delivery *delivery, enum delivery_kind kind, struct slice tool,
                   struct buf *out)
{
    if (kind == DELIVERY_MCP)
        mcp_request(delivery, tool, out);
    else
        buf_add_slice(out, delivery->body.raw);
}

/* ---- head lines ------------------------------------------------------------------------------ */

/* struct head: the lines of a request that are being made. */
struct head {
    const struct target *target;
    struct arena *arena;
    const char **lines;
    size_t count;
    bool no_memory;
};

/* line_names says whether a head line is one of `name`. */
static bool line_names(struct slice line, const char *name)
{
    size_t len = strlen(name);

    return line.len > len && line.ptr[len] == ':' && strncasecmp(line.ptr, name, len) == 0;
}

/* add_line takes a whole line, up to what would begin another one. */
static void add_line(struct head *head, struct slice line)
{
    size_t len = 0;

    while (len < line.len && !(line.ptr[len] == '\r' || line.ptr[len] == '\n' || !line.ptr[len]))
        len++;
    struct slice kept = arena_dup(head->arena, (struct slice){line.ptr, len});
    head->no_memory = head->no_memory || !kept.ptr;
    head->lines[head->count++] = kept.ptr;
}

static void add(struct head *head, const char *name, const char *before, struct slice value)
{
    struct buf line;

    buf_init(&line, HEAD_LINE_MAX);
    buf_addf(&line, "%s: %s", name, before);
    buf_add_slice(&line, value);
    head->no_memory = head->no_memory || line.status != STATUS_OK;
    add_line(head, buf_slice(&line));
    buf_release(&line);
}

/* add_default adds a line that the target may have its own word for. */
static void add_default(struct head *head, const char *name, const char *before, struct slice value)
{
    for (size_t i = 0; i < head->target->header_count; i++)
        if (line_names(head->target->headers[i], name))
            return;
    add(head, name, before, value);
}

/* add_own adds the target's lines, but for those that say what this very request is. */
static void add_own(struct head *head)
{
    static const char *const ours[] = {"Idempotency-Key", "webhook-id", "webhook-timestamp",
                                       "webhook-signature"};

    for (size_t i = 0; i < head->target->header_count; i++) {
        bool taken = false;
        for (size_t k = 0; k < sizeof(ours) / sizeof(ours[0]); k++)
            taken = taken || line_names(head->target->headers[i], ours[k]);
        if (!taken)
            add_line(head, head->target->headers[i]);
    }
}

/* print_key writes a key as the value of a head line. */
static void print_key(struct slice key, struct buf *out)
{
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.ptr[i];
        if (c > ' ' && c < 0x7F && c != '%') {
            buf_add_char(out, (char)c);
        } else {
            char escape[] = {'%', hex[c >> 4], hex[c & 0xF]};
            buf_add(out, escape, sizeof(escape));
        }
    }
}

static void add_signature(struct head *head, struct slice key, struct slice body,
                          struct instant now)
{
    struct buf value;

    buf_init(&value, HEAD_LINE_MAX);
    buf_addf(&value, "%lld", (long long)(now.us / 1000000));
    add(head, "webhook-id", "", key);
    add(head, "webhook-timestamp", "", buf_slice(&value));
    buf_clear(&value);
    sign_webhook(head->target->secret, key, now, body, &value);
    head->no_memory = head->no_memory || value.status != STATUS_OK;
    add(head, "webhook-signature", "", buf_slice(&value));
    buf_release(&value);
}

const char *const *protocol_headers(const struct delivery *delivery, const struct target *target,
                                    enum delivery_kind kind, struct slice body, struct instant now,
                                    struct arena *arena)
{
    const size_t most = 7 + target->header_count + 1; /* and the NULL */
    struct head head = {.target = target, .arena = arena};
    struct buf key;

    head.lines = arena_array(arena, most, sizeof(*head.lines));
    if (!head.lines)
        return NULL;
    buf_init(&key, HEAD_LINE_MAX);
    print_key(delivery->key, &key);
    head.no_memory = key.status != STATUS_OK;
    add_default(&head, "Content-Type", "", SLICE("application/json"));
    add_default(&head, "Accept", "",
                kind == DELIVERY_MCP ? SLICE("application/json, text/event-stream")
                                     : SLICE("application/json, */*"));
    add(&head, "Idempotency-Key", "", buf_slice(&key));
    if (target->token.len > 0)
        add_default(&head, "Authorization", "Bearer ", target->token);
    add_own(&head);
    if (target->secret.len > 0)
        add_signature(&head, buf_slice(&key), body, now);
    buf_release(&key);
    BUG_ON(head.count >= most);
    return head.no_memory ? NULL : head.lines;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* put_head writes the beginning of an answer, and says how much was left out. */
static void put_head(struct jsonw *w, const struct wire_call *call, const char *before, size_t max)
{
    struct buf text;

    buf_init(&text, strlen(before) + max + MARK_MAX);
    buf_add_str(&text, before);
    text_truncate(buf_slice(&call->answer), max, &text);
    jsonw_string(w, buf_slice(&text));
    if (text.status != STATUS_OK && w->buf->status == STATUS_OK)
        w->buf->status = text.status;
    buf_release(&text);
}

static void put_context(struct jsonw *w, const struct protocol_verdict *verdict,
                        const struct wire_call *call)
{
    char text[160];

    jsonw_key(w, "error_context");
    jsonw_array(w);
    if (verdict->code.len > 0) {
        snprintf(text, sizeof(text), "code: %.*s", SLICE_ARG(verdict->code));
        jsonw_string(w, slice_of(text));
    }
    if (call->content_type[0] != '\0') {
        snprintf(text, sizeof(text), "content-type: %s", call->content_type);
        jsonw_string(w, slice_of(text));
    }
    if (call->answer.len > 0)
        put_head(w, call, "answer: ", ANSWER_EVIDENCE);
    if (call->answer_cut) {
        snprintf(text, sizeof(text), "the answer was read no further than %zu bytes",
                 call->answer.len);
        jsonw_string(w, slice_of(text));
    }
    jsonw_array_end(w);
}

/* host_of is the host of an address, with its port. */
static struct slice host_of(const char *url)
{
    const char *host = strstr(url, "://");

    host = host ? host + 3 : url;
    return (struct slice){host, strcspn(host, "/?#")};
}

static void put_step(struct jsonw *w, const struct wire_call *call)
{
    struct buf step;

    buf_init(&step, URL_MAX + MARK_MAX);
    buf_add_str(&step, "POST ");
    buf_add_slice(&step, protocol_shown_url(call));
    jsonw_put_string(w, "step_failed", buf_slice(&step));
    buf_release(&step);
}

void protocol_failure(const struct protocol_verdict *verdict, const struct wire_call *call,
                      struct slice agent, struct buf *out)
{
    static const char *const effects[] = {
        [EFFECTS_NONE] = "none", [EFFECTS_UNKNOWN] = "unknown", [EFFECTS_COMMITTED] = "committed"};
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_object(&w);
    /* A failure without a message is none: its type is better than that. */
    jsonw_put_string(&w, "message",
                     verdict->message.len > 0 ? verdict->message : slice_of(verdict->error_type));
    jsonw_put_str(&w, "error_type", verdict->error_type);
    jsonw_put_str(&w, "class", class_name(verdict->class));
    /* A failure has a status of HTTP, or none. */
    if (verdict->http_status >= 100 && verdict->http_status <= 599)
        jsonw_put_int(&w, "http_status", verdict->http_status);
    if (verdict->retry_after.us >= 0)
        jsonw_put_double(&w, "retry_after_seconds", span_to_seconds(verdict->retry_after));
    if (verdict->side_effects != EFFECTS_UNSAID)
        jsonw_put_str(&w, "side_effects", effects[verdict->side_effects]);
    if (call->url)
        jsonw_put_text(&w, "dependency", host_of(call->url));
    jsonw_put_text(&w, "agent_id", agent);
    if (call->url)
        put_step(&w, call);
    jsonw_put_int(&w, "duration_ms", call->took.us > 0 ? call->took.us / 1000 : 0);
    put_context(&w, verdict, call);
    jsonw_object_end(&w);
}

void protocol_result(const struct wire_call *call, struct buf *out)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_int(&w, "http_status", call->status);
    jsonw_key(&w, "answer");
    put_head(&w, call, "", ANSWER_HEAD);
    jsonw_object_end(&w);
}
