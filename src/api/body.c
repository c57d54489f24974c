/* body: members by name and type, documents one after the other. */
#include "api/body.h"

#include "core/envelope.h"
#include "core/field.h"
#include "core/members.h"

/* reader is a reader of members whose first error is the call's: what is read is followed by
 * keeping its status. */
static struct members reader(struct call *call)
{
    return (struct members){.arena = &call->arena, .err = &call->err, .status = call->status};
}

void body_known(struct call *call, struct json object, const char *known)
{
    struct json_iter iter;
    struct json key, value;
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        struct slice name = json_text(key, &call->arena);
        if (!name.ptr) {
            call_fail(call, STATUS_NO_MEMORY, "out of memory");
            return;
        }
        if (!words_have(known, name)) {
            struct slice shown = field_head(name, FIELD_SHOWN_MAX);
            call_fail(call, STATUS_INVALID, "%.*s: unknown member; known here: %s",
                      SLICE_ARG(shown), known);
            return;
        }
    }
}

struct json body_object(struct call *call, const char *known)
{
    static const struct json empty = {JSON_OBJECT, {"{}", 2}};
    struct slice text = call->request->body;
    struct json object;
    struct err err;
    if (text.len == 0)
        return empty;
    enum status status = json_parse(text, &object, &err);
    if (status != STATUS_OK) {
        call_fail(call, status, "the body is not JSON: %s", err.text);
        return empty;
    }
    if (object.type != JSON_OBJECT) {
        call_fail(call, STATUS_INVALID, "the body must be a JSON object");
        return empty;
    }
    if (known)
        body_known(call, object, known);
    return object;
}

struct slice body_text(struct call *call, struct json object, const char *name, size_t max)
{
    struct members members = reader(call);
    struct slice text = members_text(&members, object, name, max);
    call->status = members.status;
    return text;
}

bool body_bool(struct call *call, struct json object, const char *name, bool fallback)
{
    struct members members = reader(call);
    fallback = members_bool(&members, object, name, fallback);
    call->status = members.status;
    return fallback;
}

int64_t body_int(struct call *call, struct json object, const char *name, int64_t min, int64_t max,
                 int64_t fallback)
{
    struct members members = reader(call);
    fallback = members_int(&members, object, name, min, max, fallback);
    call->status = members.status;
    return fallback;
}

double body_number(struct call *call, struct json object, const char *name, double min, double max,
                   double fallback)
{
    struct members members = reader(call);
    fallback = members_number(&members, object, name, min, max, fallback);
    call->status = members.status;
    return fallback;
}

struct instant body_instant(struct call *call, struct json object, const char *name)
{
    struct members members = reader(call);
    struct instant t = members_instant(&members, object, name);
    call->status = members.status;
    return t;
}

struct json body_json(struct call *call, struct json object, const char *name, enum json_type type)
{
    struct members members = reader(call);
    struct json value = members_json(&members, object, name, type);
    call->status = members.status;
    return value;
}

struct slice *body_texts(struct call *call, struct json object, const char *name, size_t count_max,
                         size_t text_max, size_t *count)
{
    *count = 0;
    struct json array = body_json(call, object, name, JSON_ARRAY);
    size_t there = json_count(array);
    if (there == 0)
        return NULL;
    if (there > count_max) {
        call_fail(call, STATUS_INVALID, "%s: at most %zu may be given, not %zu", name, count_max,
                  there);
        return NULL;
    }
    struct slice *texts = arena_array(&call->arena, there, sizeof(*texts));
    if (!texts) {
        call_fail(call, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    struct json_iter iter;
    struct json value;
    struct err err;
    size_t n = 0;
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &value)) {
        enum status status = field_text(name, value, &call->arena, &texts[n], &err);
        if (status == STATUS_OK)
            status = envelope_name_check(name, texts[n], text_max, &err);
        if (status != STATUS_OK) {
            call_fail(call, status, "entry %zu of %s", n, err.text);
            return NULL;
        }
        n++;
    }
    *count = n;
    return texts;
}

/* ---- many documents -------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct slice trim(struct slice text)
{
    while (text.len && is_space(text.ptr[0]))
        text.ptr++, text.len--;
    while (text.len && is_space(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

/* next_line takes the next line that is not blank. */
static bool next_line(struct slice *rest, struct slice *line)
{
    while (rest->len) {
        const char *end = memchr(rest->ptr, '\n', rest->len);
        size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
        size_t step = end ? len + 1 : len;
        *line = trim((struct slice){rest->ptr, len});
        *rest = (struct slice){rest->ptr + step, rest->len - step};
        if (line->len)
            return true;
    }
    return false;
}

enum status entries_open(struct entries *entries, struct call *call)
{
    struct slice text = trim(call->request->body);
    *entries = (struct entries){.rest = text};
    if (slice_starts(call->request->content_type, SLICE("application/x-ndjson"))) {
        struct slice rest = text, line;
        entries->many = entries->lines = true;
        while (next_line(&rest, &line))
            entries->count++;
        return STATUS_OK;
    }
    if (text.len == 0)
        return err_set(&call->err, STATUS_INVALID, "the body is empty");
    if (text.ptr[0] != '[') {
        entries->count = 1;
        return STATUS_OK;
    }
    struct json array;
    enum status status = json_parse(text, &array, &call->err);
    if (status != STATUS_OK) {
        err_prefix(&call->err, "the body is not JSON");
        return status;
    }
    entries->many = true;
    entries->count = json_count(array);
    json_iter_init(&entries->iter, array);
    return STATUS_OK;
}

bool entries_next(struct entries *entries, struct slice *text)
{
    struct json value;
    if (entries->lines)
        return next_line(&entries->rest, text);
    if (!entries->many) {
        *text = entries->rest;
        entries->rest = (struct slice){0};
        return text->len > 0;
    }
    if (!json_next(&entries->iter, NULL, &value))
        return false;
    *text = value.raw;
    return true;
}
