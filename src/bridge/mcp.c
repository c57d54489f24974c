/* mcp: tools/call and what comes back.
 *
 * An answer is looked for wherever it may stand: alone, in a batch, or as one of the events of a
 * stream, among notifications and requests of the server's own.  What is found first counts. */
#include "bridge/mcp.h"

#include <strings.h>

#include "base/jsonw.h"

/* ---- the call -------------------------------------------------------------------------------- */

#define CALL_ID 1 /* of the one call that a request makes */

/* put_id writes a text that a receipt should have; null when it has none. */
static void put_id(struct jsonw *w, const char *key, struct slice text)
{
    jsonw_key(w, key);
    if (text.len > 0)
        jsonw_string(w, text);
    else
        jsonw_null(w);
}

static void put_result(struct jsonw *w, const struct receipt *receipt)
{
    struct slice pointers = receipt->artifact_pointers.raw;

    jsonw_key(w, "result");
    jsonw_object(w);
    jsonw_put_string(w, "summary", receipt->summary);
    jsonw_put_raw(w, "artifact_pointers", pointers.len > 0 ? pointers : SLICE("[]"));
    jsonw_object_end(w);
}

/* put_artifacts writes {"pointers":[...]}, or null when there are none. */
static void put_artifacts(struct jsonw *w, const struct receipt *receipt)
{
    struct json pointers = receipt->artifact_pointers;

    jsonw_key(w, "artifacts");
    if (pointers.raw.len == 0 || (pointers.type == JSON_ARRAY && json_count(pointers) == 0)) {
        jsonw_null(w);
        return;
    }
    jsonw_object(w);
    jsonw_put_raw(w, "pointers", pointers.raw);
    jsonw_object_end(w);
}

static void put_progress(struct jsonw *w, const struct receipt *receipt)
{
    jsonw_key(w, "progress");
    jsonw_object(w);
    jsonw_put_str(w, "state", "running");
    jsonw_put_string(w, "summary", receipt->summary);
    jsonw_object_end(w);
}

static void put_error(struct jsonw *w, const struct receipt *receipt)
{
    jsonw_key(w, "error");
    if (receipt->error_metadata.raw.len > 0) {
        jsonw_raw(w, receipt->error_metadata.raw);
        return;
    }
    jsonw_object(w);
    jsonw_put_string(w, "message", receipt->summary);
    jsonw_object_end(w);
}

static void put_arguments(struct jsonw *w, const struct receipt *receipt, struct slice tool)
{
    jsonw_key(w, "arguments");
    jsonw_object(w);
    put_id(w, "worker_id", receipt->worker_id);
    put_id(w, "task_id", receipt->task_id);
    put_id(w, "lease_id", receipt->lease_id);
    put_result(w, receipt);
    put_artifacts(w, receipt);
    if (slice_is(tool, "asyncgate.report_progress"))
        put_progress(w, receipt);
    if (slice_is(tool, "asyncgate.fail"))
        put_error(w, receipt);
    jsonw_object_end(w);
}

void mcp_request(const struct delivery *delivery, struct slice tool, struct buf *out)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_str(&w, "jsonrpc", "2.0");
    jsonw_put_int(&w, "id", CALL_ID);
    jsonw_put_str(&w, "method", "tools/call");
    jsonw_key(&w, "params");
    jsonw_object(&w);
    jsonw_put_string(&w, "name", tool);
    if (delivery->is_receipt)
        put_arguments(&w, &delivery->receipt, tool);
    else
        jsonw_put_raw(&w, "arguments", delivery->body.raw);
    jsonw_object_end(&w);
    jsonw_object_end(&w);
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Errors that are not in the table are the server's.  A star stands for any end. */
static const struct code_row {
    const char *code;
    enum failure_class class;
} codes[] = {
    {"RATE_LIMIT_EXCEEDED", CLASS_RATE_LIMITED},
    {"QUOTA_EXCEEDED", CLASS_RATE_LIMITED},
    {"UNAUTHORIZED", CLASS_PERMISSION_DENIED},
    {"TASK_NOT_FOUND", CLASS_CLIENT_ERROR},
    {"INVALID_STATE_TRANSITION", CLASS_CLIENT_ERROR},
    {"LEASE_*", CLASS_CLIENT_ERROR},
    {"-32600", CLASS_INVALID_INPUT}, /* invalid request */
    {"-32601", CLASS_INVALID_INPUT}, /* method not found */
    {"-32602", CLASS_INVALID_INPUT}, /* invalid parameters */
};

static bool code_is(struct slice code, const char *row)
{
    size_t len = strlen(row);

    if (row[len - 1] == '*')
        return code.len >= len - 1 && strncasecmp(code.ptr, row, len - 1) == 0;
    return code.len == len && strncasecmp(code.ptr, row, len) == 0;
}

/* code_class finds a code in the table; false when it is not there. */
static bool code_class(struct slice code, enum failure_class *out)
{
    for (size_t i = 0; code.len > 0 && i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (code_is(code, codes[i].code)) {
            *out = codes[i].class;
            return true;
        }
    }
    return false;
}

/* ---- an error -------------------------------------------------------------------------------- */

/* struct search: the answer that is being looked for. */
struct search {
    struct arena *arena;
    struct mcp_answer *out;
    bool alone; /* the message that is looked at is all that came: it answers the call by that */
    bool found;
    bool no_memory;
    const char *why; /* nothing was found, so far */
};

/* text_of decodes a string; an empty slice for other values. */
static struct slice text_of(struct search *s, struct json value)
{
    if (value.type != JSON_STRING)
        return (struct slice){0};
    struct slice text = json_text(value, s->arena);
    s->no_memory = s->no_memory || !text.ptr;
    return text;
}

/* code_of gives a code as a text, however it was written: a number as its plain digits. */
static struct slice code_of(struct search *s, struct json value)
{
    int64_t number;

    if (value.type != JSON_NUMBER)
        return text_of(s, value);
    if (!json_int(value, &number))
        return value.raw;
    struct slice text = arena_printf(s->arena, "%lld", (long long)number);
    s->no_memory = s->no_memory || !text.ptr;
    return text;
}

/* read_wait reads retry_after, in seconds, of `object` or of its `data`. */
static void read_wait(struct search *s, struct json object)
{
    struct json data, value;
    double seconds;

    json_get(object, "data", &data);
    if (!json_get(data, "retry_after", &value))
        json_get(object, "retry_after", &value);
    if (json_double(value, &seconds) && seconds >= 0)
        s->out->retry_after = span_from_seconds(seconds);
}

/* read_code reads the code of an error object.  A number that tells nothing may have a word for it
 * in its data.  False when there is none. */
static bool read_code(struct search *s, struct json object)
{
    struct json value, data;

    if (object.type != JSON_OBJECT || !json_get(object, "code", &value))
        return false;
    struct slice code = code_of(s, value);
    bool known = code_class(code, &s->out->class);
    if (!known && value.type == JSON_NUMBER && json_get(object, "data", &data) &&
        json_get(data, "code", &value)) {
        struct slice word = text_of(s, value);
        if (word.len > 0) {
            code = word;
            code_class(code, &s->out->class);
        }
    }
    s->out->code = code;
    read_wait(s, object);
    return code.len > 0;
}

static void read_error(struct search *s, struct json error)
{
    struct json message;

    s->out->outcome = MCP_ERROR;
    read_code(s, error);
    json_get(error, "message", &message);
    s->out->message = text_of(s, error.type == JSON_STRING ? error : message);
    if (s->out->message.len == 0)
        s->out->message = error.raw;
}

/* read_code_around reads the code of `error` inside an object, or its own. */
static bool read_code_around(struct search *s, struct json object)
{
    struct json error;

    return (json_get(object, "error", &error) && read_code(s, error)) || read_code(s, object);
}

/* read_content reads the texts of a result: the first is the message, and one that is JSON may have
 * the code. */
static void read_content(struct search *s, struct json result, bool has_code)
{
    struct json content, item, value, inner;
    struct json_iter iter;

    json_get(result, "content", &content);
    if (content.type != JSON_ARRAY)
        return;
    json_iter_init(&iter, content);
    while (json_next(&iter, NULL, &item)) {
        json_get(item, "text", &value);
        struct slice text = text_of(s, value);
        if (text.len == 0)
            continue;
        if (s->out->message.len == 0)
            s->out->message = text;
        if (!has_code && json_parse(text, &inner, NULL) == STATUS_OK && inner.type == JSON_OBJECT)
            has_code = read_code_around(s, inner);
    }
}

static void read_tool_error(struct search *s, struct json result)
{
    struct json structured, error, message;

    s->out->outcome = MCP_TOOL_ERROR;
    json_get(result, "structuredContent", &structured);
    bool has_code = structured.type == JSON_OBJECT && read_code_around(s, structured);
    read_content(s, result, has_code);
    if (s->out->message.len > 0)
        return;
    if (!json_get(structured, "error", &error) || !json_get(error, "message", &message))
        json_get(structured, "message", &message);
    s->out->message = text_of(s, message);
}

/* ---- an answer ------------------------------------------------------------------------------- */

static bool id_is_ours(struct search *s, struct json id)
{
    int64_t number = 0;
    return s->alone || (json_int(id, &number) && number == CALL_ID);
}

static void read_result(struct search *s, struct json result)
{
    struct json flag;

    json_get(result, "isError", &flag);
    if (flag.type == JSON_NULL || flag.type == JSON_FALSE)
        s->out->outcome = MCP_DONE;
    else
        read_tool_error(s, result);
}

/* look_at_message finds whether one message of JSON-RPC is the answer. */
static void look_at_message(struct search *s, struct json message)
{
    struct json id, error, result = {0};

    if (message.type != JSON_OBJECT) {
        s->why = "it is no object";
        return;
    }
    json_get(message, "id", &id);
    bool ours = id_is_ours(s, id);
    bool has_error = json_get(message, "error", &error) && error.type != JSON_NULL;
    if (has_error && (ours || id.type == JSON_NULL)) {
        read_error(s, error);
        s->found = true;
    } else if (!has_error && !json_get(message, "result", &result)) {
        s->why = "it has neither a result nor an error";
    } else if (!ours) {
        s->why = "its id is not that of the call";
    } else if (result.type == JSON_NULL) {
        s->why = "its result is null";
    } else {
        read_result(s, result);
        s->found = true;
    }
}

/* look_at looks at a text that should be a message, or a batch of them. */
static void look_at(struct search *s, struct slice text)
{
    struct json json, message;
    struct json_iter iter;

    if (json_parse(text, &json, NULL) != STATUS_OK) {
        s->why = text.len == 0 ? "it is empty" : "it is no JSON";
        return;
    }
    if (json.type != JSON_ARRAY) {
        look_at_message(s, json);
        return;
    }
    s->alone = false;
    s->why = "it is an empty batch";
    json_iter_init(&iter, json);
    while (!s->found && json_next(&iter, NULL, &message))
        look_at_message(s, message);
}

/* ---- event streams --------------------------------------------------------------------------- */

/* next_line takes a line off the front; it ends in CR, LF or both.  False when there is no end of a
 * line: then `line` is what is left. */
static bool next_line(struct slice *text, struct slice *line)
{
    size_t len = 0;

    while (len < text->len && text->ptr[len] != '\n' && text->ptr[len] != '\r')
        len++;
    *line = (struct slice){text->ptr, len};
    bool ended = len < text->len;
    if (ended)
        len += len + 1 < text->len && text->ptr[len] == '\r' && text->ptr[len + 1] == '\n' ? 2 : 1;
    text->ptr += len;
    text->len -= len;
    return ended;
}

/* add_data appends what a line has for the data of its event; other fields are of no interest. */
static void add_data(struct slice line, struct buf *data)
{
    const struct slice field = SLICE("data");

    if (!slice_starts(line, field) || (line.len > field.len && line.ptr[field.len] != ':'))
        return;
    size_t skip = line.len > field.len ? field.len + 1 : line.len;
    if (skip < line.len && line.ptr[skip] == ' ')
        skip++;
    if (data->len > 0)
        buf_add_char(data, '\n');
    buf_add(data, line.ptr + skip, line.len - skip);
}

/* end_event looks at the data that has come together.  What is found must outlive it. */
static void end_event(struct search *s, struct buf *data)
{
    if (data->status != STATUS_OK) {
        s->no_memory = true;
    } else if (data->len > 0) {
        struct slice kept = arena_dup(s->arena, buf_slice(data));
        s->no_memory = s->no_memory || !kept.ptr;
        if (kept.ptr)
            look_at(s, kept);
    }
    buf_clear(data);
}

static void look_at_stream(struct search *s, struct slice text, bool whole)
{
    const struct slice mark = SLICE("\xEF\xBB\xBF");
    struct slice line;
    struct buf data;

    s->why = "it has no event with data";
    buf_init(&data, text.len + 1);
    if (slice_starts(text, mark)) {
        text.ptr += mark.len;
        text.len -= mark.len;
    }
    while (!s->found && !s->no_memory && text.len > 0) {
        bool ended = next_line(&text, &line);
        /* The last line of a stream that was cut is perhaps not whole. */
        if (ended || whole)
            add_data(line, &data);
        if (line.len == 0 || (text.len == 0 && whole))
            end_event(s, &data);
    }
    buf_release(&data);
}

bool mcp_is_stream(const char *content_type)
{
    static const char type[] = "text/event-stream";

    return strncasecmp(content_type, type, sizeof(type) - 1) == 0;
}

bool mcp_read(struct slice text, const char *content_type, bool whole, struct arena *arena,
              struct mcp_answer *out)
{
    struct search s = {.arena = arena, .out = out, .why = "it is not whole"};

    *out = (struct mcp_answer){.class = CLASS_SERVER_ERROR, .retry_after = {-1}};
    s.alone = !mcp_is_stream(content_type);
    if (!s.alone)
        look_at_stream(&s, text, whole);
    else if (whole)
        look_at(&s, text);
    if (s.no_memory)
        return false;
    if (!s.found) {
        out->outcome = MCP_NO_ANSWER;
        out->message = slice_of(s.why);
    }
    return true;
}
