/* failure: reading a worker's report, and printing it as the evidence that is kept.
 *
 * Reading is strict about what it knows and blind to what it does not: a wrong type is an error
 * that names the member, an unknown member is ignored, a null is a member that was not given.  The
 * report borrows from the text it came from; texts may hold any bytes, NUL included.
 *
 * Printing cuts what is over its limit and counts every byte that it cut, in one number:
 * "truncated_bytes".  Nothing is cut without being counted there. */
#include "core/failure.h"

#include "base/jsonw.h"
#include "core/field.h"

static const char *const effects_names[] = {
    [EFFECTS_NONE] = "none",
    [EFFECTS_UNKNOWN] = "unknown",
    [EFFECTS_COMMITTED] = "committed",
};

void failure_init(struct failure *failure)
{
    *failure = (struct failure){.duration_ms = -1, .retry_after = {-1}};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* struct reading: a failure that is being read. */
struct reading {
    struct failure failure;
    struct slice error_message; /* `message` by its name in the evidence */
    struct arena *arena;
    struct err *err;
};

struct member {
    const char *name;
    enum status (*read)(struct reading *r, const struct member *member, struct json value);
    size_t offset; /* of the field in struct reading, for readers that serve several members */
};

static void *field_of(struct reading *r, const struct member *member)
{
    return (char *)r + member->offset;
}

static enum status read_text(struct reading *r, const struct member *member, struct json value)
{
    return field_text(member->name, value, r->arena, field_of(r, member), r->err);
}

static enum status read_array(struct reading *r, const struct member *member, struct json value)
{
    if (value.type != JSON_ARRAY)
        return field_wrong(member->name, "an array", value, r->err);
    *(struct json *)field_of(r, member) = value;
    return STATUS_OK;
}

static enum status read_object(struct reading *r, const struct member *member, struct json value)
{
    if (value.type != JSON_OBJECT)
        return field_wrong(member->name, "an object", value, r->err);
    *(struct json *)field_of(r, member) = value;
    return STATUS_OK;
}

/* read_exit_code takes the exit code out of {"CommandFailed":{"exit_code":N}}. */
static enum status read_exit_code(struct reading *r, struct json details)
{
    struct json code;
    int64_t number;

    if (!json_get(details, "exit_code", &code) || code.type == JSON_NULL)
        return STATUS_OK;
    enum status status =
        field_int("error_type.exit_code", code, INT32_MIN, INT32_MAX, &number, r->err);
    if (status != STATUS_OK)
        return status;
    r->failure.has_exit_code = true;
    r->failure.exit_code = (int)number;
    return STATUS_OK;
}

static enum status read_error_type(struct reading *r, const struct member *member,
                                   struct json value)
{
    struct json name = value;
    struct json details = {0};
    struct json_iter iter;

    if (value.type == JSON_OBJECT && json_count(value) == 1) {
        json_iter_init(&iter, value);
        json_next(&iter, &name, &details);
    }
    if (name.type != JSON_STRING || (value.type == JSON_OBJECT && details.type != JSON_OBJECT))
        return field_wrong(member->name,
                           "a string, or an object such as {\"CommandFailed\":{\"exit_code\":1}}",
                           value, r->err);
    enum status status = field_text(member->name, name, r->arena, &r->failure.error_type, r->err);
    if (status != STATUS_OK)
        return status;
    r->failure.has_exit_code = false;
    r->failure.error_type_json = r->failure.error_type.len > 0 ? value.raw : (struct slice){0};
    return read_exit_code(r, details);
}

static enum status unknown_class(struct reading *r, const struct member *member)
{
    char known[320];
    size_t len = 0;

    for (int i = 0; i < CLASS_COUNT; i++) {
        int added = snprintf(known + len, sizeof(known) - len, "%s%s", i == 0 ? "" : ", ",
                             class_name((enum failure_class)i));
        len += (size_t)added;
        BUG_ON(len >= sizeof(known));
    }
    return err_set(r->err, STATUS_INVALID, "%s: must be one of %s", member->name, known);
}

static enum status read_class(struct reading *r, const struct member *member, struct json value)
{
    struct slice name;
    enum status status = field_text(member->name, value, r->arena, &name, r->err);

    if (status != STATUS_OK)
        return status;
    if (!class_from_name(name, &r->failure.given_class))
        return unknown_class(r, member);
    r->failure.has_class = true;
    return STATUS_OK;
}

static enum status read_http_status(struct reading *r, const struct member *member,
                                    struct json value)
{
    int64_t number;
    enum status status = field_int(member->name, value, 100, 599, &number, r->err);

    if (status == STATUS_OK)
        r->failure.http_status = (int)number;
    return status;
}

static enum status read_duration(struct reading *r, const struct member *member, struct json value)
{
    return field_int(member->name, value, 0, INT64_MAX, &r->failure.duration_ms, r->err);
}

static enum status read_retry_after(struct reading *r, const struct member *member,
                                    struct json value)
{
    double seconds;

    if (!json_double(value, &seconds) || seconds < 0)
        return field_wrong(member->name, "a number of seconds, 0 or more", value, r->err);
    r->failure.retry_after = span_from_seconds(seconds);
    return STATUS_OK;
}

/* read_retryable reads `retryable`, or `retry_eligible`, which is the swarm's word for it: one that
 * says no is enough. */
static enum status read_retryable(struct reading *r, const struct member *member, struct json value)
{
    bool retryable;
    enum status status = field_bool(member->name, value, &retryable, r->err);

    if (status == STATUS_OK)
        r->failure.retryable = retryable && r->failure.retryable != NO ? YES : NO;
    return status;
}

static enum status read_interrupted(struct reading *r, const struct member *member,
                                    struct json value)
{
    return field_bool(member->name, value, &r->failure.interrupted, r->err);
}

static enum status read_side_effects(struct reading *r, const struct member *member,
                                     struct json value)
{
    for (int i = EFFECTS_NONE; i <= EFFECTS_COMMITTED; i++) {
        if (json_string_is(value, effects_names[i])) {
            r->failure.side_effects = (enum side_effects)i;
            return STATUS_OK;
        }
    }
    return field_wrong(member->name, "none, unknown or committed", value, r->err);
}

#define FIELD(field) offsetof(struct reading, field)

static const struct member members[] = {
    {"message", read_text, FIELD(failure.message)},
    {"error_message", read_text, FIELD(error_message)},
    {"error_type", read_error_type, 0},
    {"class", read_class, 0},
    {"http_status", read_http_status, 0},
    {"error_context", read_array, FIELD(failure.error_context)},
    {"stack_trace", read_text, FIELD(failure.stack_trace)},
    {"agent_id", read_text, FIELD(failure.agent_id)},
    {"step_failed", read_text, FIELD(failure.step_failed)},
    {"duration_ms", read_duration, 0},
    {"json_log_location", read_text, FIELD(failure.json_log_location)},
    {"retry_after_seconds", read_retry_after, 0},
    {"retryable", read_retryable, 0},
    {"retry_eligible", read_retryable, 0},
    {"interrupted", read_interrupted, 0},
    {"side_effects", read_side_effects, 0},
    {"dependency", read_text, FIELD(failure.dependency)},
    {"dependency_calls", read_array, FIELD(failure.dependency_calls)},
    {"policy_checks", read_array, FIELD(failure.policy_checks)},
    {"emitted_events", read_array, FIELD(failure.emitted_events)},
    {"reason", read_text, FIELD(failure.reason)},
    {"reason_detail", read_text, FIELD(failure.reason_detail)},
    {"code_version", read_text, FIELD(failure.code_version)},
    {"artifacts", read_object, FIELD(failure.artifacts)},
};

static enum status read_member(struct reading *r, struct json key, struct json value)
{
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (json_string_is(key, members[i].name))
            return value.type == JSON_NULL ? STATUS_OK : members[i].read(r, &members[i], value);
    }
    return STATUS_OK;
}

enum status failure_parse(struct json object, struct arena *arena, struct failure *out,
                          struct err *err)
{
    struct reading r = {.arena = arena, .err = err};
    struct json_iter iter;
    struct json key, value;

    failure_init(&r.failure);
    if (object.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "a failure must be an object");
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        enum status status = read_member(&r, key, value);
        if (status != STATUS_OK)
            return status;
    }
    if (r.failure.message.len == 0)
        r.failure.message = r.error_message;
    if (r.failure.message.len == 0)
        return err_set(err, STATUS_INVALID, "message: must be given, as a text that is not empty");
    *out = r.failure;
    return STATUS_OK;
}

/* ---- printing ------------------------------------------------------------------------------- */

#define MARK_MAX 48         /* bytes of the mark between head and tail */
#define STRUCTURE_HEAD 1024 /* bytes that are kept of a structure that is too large */

/* struct printing: evidence that is being written. */
struct printing {
    struct jsonw *out;
    size_t cut; /* bytes left out so far */
};

/* tail_of is the end of a text, at most `max` bytes, never splitting a UTF-8 character. */
static struct slice tail_of(struct slice text, size_t max)
{
    size_t at = text.len - max;

    for (int step = 0; step < 3 && at < text.len && (text.ptr[at] & 0xc0) == 0x80; step++)
        at++;
    return (struct slice){text.ptr + at, text.len - at};
}

size_t text_truncate(struct slice text, size_t max, struct buf *out)
{
    if (text.len <= max) {
        buf_add_slice(out, text);
        return 0;
    }
    size_t half = max > MARK_MAX ? (max - MARK_MAX) / 2 : 0;
    struct slice head = field_head(text, half);
    struct slice tail = tail_of(text, half);
    size_t cut = text.len - head.len - tail.len;
    buf_add_slice(out, head);
    buf_addf(out, "\n[... %zu bytes left out ...]\n", cut);
    buf_add_slice(out, tail);
    return cut;
}

/* put_text writes a member, cut to `max` bytes. */
static void put_text(struct printing *p, const char *key, struct slice text, size_t max)
{
    struct buf kept;

    if (text.len <= max) {
        jsonw_put_string(p->out, key, text);
        return;
    }
    buf_init(&kept, max + MARK_MAX);
    p->cut += text_truncate(text, max, &kept);
    jsonw_put_string(p->out, key, buf_slice(&kept));
    if (kept.status != STATUS_OK && p->out->buf->status == STATUS_OK)
        p->out->buf->status = kept.status;
    buf_release(&kept);
}

static void put_given_text(struct printing *p, const char *key, struct slice text)
{
    if (text.len > 0)
        put_text(p, key, text, FAILURE_TEXT_MAX);
}

/* print_structure writes a value as it was given, or its head as a text when it is too large. */
static void print_structure(struct printing *p, struct slice raw)
{
    if (raw.len <= FAILURE_STRUCTURE_MAX) {
        jsonw_raw(p->out, raw);
        return;
    }
    struct slice head = field_head(raw, STRUCTURE_HEAD);
    size_t cut = raw.len - head.len;
    p->cut += cut;
    jsonw_object(p->out);
    jsonw_put_int(p->out, "truncated_bytes", (int64_t)cut);
    jsonw_put_string(p->out, "head", head);
    jsonw_object_end(p->out);
}

static void put_structure(struct printing *p, const char *key, struct json value)
{
    if (value.raw.len == 0)
        return;
    jsonw_key(p->out, key);
    print_structure(p, value.raw);
}

/* put_error_type writes the type as it was given.  One whose details are too large keeps its shape:
 * its name stays the one member of an object. */
static void put_error_type(struct printing *p, const struct failure *failure)
{
    struct slice raw = failure->error_type_json;
    struct json type = {JSON_OBJECT, raw}, name, details;
    struct json_iter iter;

    if (failure->error_type.len == 0) {
        jsonw_put_str(p->out, "error_type", "Unknown");
    } else if (raw.len == 0 || raw.ptr[0] != '{') {
        put_text(p, "error_type", failure->error_type, FAILURE_TEXT_MAX);
    } else if (raw.len <= FAILURE_STRUCTURE_MAX) {
        jsonw_put_raw(p->out, "error_type", raw);
    } else {
        json_iter_init(&iter, type);
        json_next(&iter, &name, &details);
        struct slice shown = field_head(failure->error_type, FAILURE_TEXT_MAX);
        p->cut += failure->error_type.len - shown.len;
        jsonw_key(p->out, "error_type");
        jsonw_object(p->out);
        jsonw_key_slice(p->out, shown);
        print_structure(p, details.raw);
        jsonw_object_end(p->out);
    }
}

/* print_map_members writes what the map system's evidence has, under its names. */
static void print_map_members(struct printing *p, const struct failure *failure, uint32_t attempt)
{
    jsonw_put_int(p->out, "attempt_number", attempt);
    jsonw_put_instant(p->out, "timestamp", failure->at);
    put_error_type(p, failure);
    put_text(p, "error_message", failure->message, FAILURE_MESSAGE_MAX);
    put_structure(p, "error_context", failure->error_context);
    if (failure->stack_trace.len > 0)
        put_text(p, "stack_trace", failure->stack_trace, FAILURE_TRACE_MAX);
    put_text(p, "agent_id", failure->agent_id, FAILURE_TEXT_MAX);
    put_text(p, "step_failed", failure->step_failed, FAILURE_TEXT_MAX);
    jsonw_put_int(p->out, "duration_ms", failure->duration_ms > 0 ? failure->duration_ms : 0);
    put_given_text(p, "json_log_location", failure->json_log_location);
}

/* print_own_members writes the class, and what else was given. */
static void print_own_members(struct printing *p, const struct failure *failure)
{
    jsonw_put_str(p->out, "class", class_name(failure_class(failure)));
    if (failure->http_status != 0)
        jsonw_put_int(p->out, "http_status", failure->http_status);
    if (failure->retry_after.us >= 0)
        jsonw_put_double(p->out, "retry_after_seconds", span_to_seconds(failure->retry_after));
    if (failure->retryable != UNSAID)
        jsonw_put_bool(p->out, "retryable", failure->retryable == YES);
    if (failure->interrupted)
        jsonw_put_bool(p->out, "interrupted", true);
    if (failure->side_effects != EFFECTS_UNSAID)
        jsonw_put_str(p->out, "side_effects", effects_names[failure->side_effects]);
    put_given_text(p, "dependency", failure->dependency);
    put_structure(p, "dependency_calls", failure->dependency_calls);
    put_structure(p, "policy_checks", failure->policy_checks);
    put_structure(p, "emitted_events", failure->emitted_events);
    put_given_text(p, "reason", failure->reason);
    put_given_text(p, "reason_detail", failure->reason_detail);
    put_given_text(p, "code_version", failure->code_version);
    put_structure(p, "artifacts", failure->artifacts);
}

void failure_print(const struct failure *failure, uint32_t attempt, struct jsonw *out)
{
    struct printing p = {.out = out};

    jsonw_object(out);
    print_map_members(&p, failure, attempt);
    print_own_members(&p, failure);
    if (p.cut > 0)
        jsonw_put_int(out, "truncated_bytes", (int64_t)p.cut);
}
