/* envelope: reading and validating what was pushed.
 *
 * Every push comes through here, so the members are walked once, each is looked up in a perfect
 * table, and its reader checks it and puts it in place.  Nothing is copied but texts with escapes.
 *
 * Rules that hold for every member of Lazaret's own: null is the same as absent; standing twice is
 * an error, as readers of JSON disagree on which one counts; the error begins with the member's
 * name.  Members that Lazaret does not know are not looked at: they are carried in the body. */
#include "core/envelope.h"

#include <stdio.h>

#include "base/hash.h"
#include "core/field.h"
#include "core/policy.h"

#define CAPABILITIES_MAX 64
#define COMPENSATIONS_MAX 8 /* a compensation may have one itself, and so on */

struct reader {
    struct envelope *out;
    struct arena *arena;
    struct err *err;
    unsigned depth; /* how many compensations we are inside of */
};

/* struct member: a member of Lazaret's own, and how it is read. */
struct member {
    const char *name;
    enum status (*read)(struct reader *, const struct member *, struct json);
    size_t offset; /* of its field in struct envelope, for the readers that serve many members */
    size_t max;    /* bytes of a text, or of each text in an array; 0: as many as it likes */
};

/* place is where a member's value goes in the envelope that is being filled. */
static void *place(struct reader *r, const struct member *member)
{
    return (char *)r->out + member->offset;
}

static enum status refuse_twice(struct reader *r, const char *name)
{
    return err_set(r->err, STATUS_INVALID, "%s: stands twice", name);
}

enum status envelope_name_check(const char *name, struct slice text, size_t max, struct err *err)
{
    if (text.len == 0)
        return err_set(err, STATUS_INVALID, "%s: must not be empty", name);
    if (text.len > max)
        return err_set(err, STATUS_INVALID, "%s: must have at most %zu bytes, not %zu", name, max,
                       text.len);
    if (memchr(text.ptr, '\0', text.len))
        return err_set(err, STATUS_INVALID, "%s: must not contain a NUL byte", name);
    if (!json_utf8_valid(text))
        return err_set(err, STATUS_INVALID, "%s: must be valid UTF-8", name);
    return STATUS_OK;
}

/* ---- one reader for each kind of member ------------------------------------------------------ */

/* read_text reads a text that may be empty, which is the same as absent. */
static enum status read_text(struct reader *r, const struct member *member, struct json value)
{
    struct slice *text = place(r, member);
    enum status status = field_text(member->name, value, r->arena, text, r->err);

    if (status == STATUS_OK && text->len > 0)
        status = envelope_name_check(member->name, *text, member->max, r->err);
    return status;
}

/* read_name reads an id, a key or a name: an empty one is a mistake of whoever made it. */
static enum status read_name(struct reader *r, const struct member *member, struct json value)
{
    enum status status = read_text(r, member, value);

    if (status == STATUS_OK && ((struct slice *)place(r, member))->len == 0)
        return envelope_name_check(member->name, (struct slice){0}, member->max, r->err);
    return status;
}

static enum status read_time(struct reader *r, const struct member *member, struct json value)
{
    struct slice text;

    if (value.type == JSON_STRING) {
        text = json_text(value, r->arena);
        if (!text.ptr)
            return err_no_memory(r->err);
        if (instant_parse(text, place(r, member), NULL) == STATUS_OK)
            return STATUS_OK;
    }
    return field_wrong(member->name, "a time such as \"2026-02-13T06:22:00Z\"", value, r->err);
}

static enum status read_object(struct reader *r, const struct member *member, struct json value)
{
    if (value.type != JSON_OBJECT)
        return field_wrong(member->name, "an object", value, r->err);
    *(struct json *)place(r, member) = value;
    return STATUS_OK;
}

/* refuse_element says what is wrong with element `index` of an array of strings. */
static enum status refuse_element(struct reader *r, const struct member *member, size_t index,
                                  struct json element, struct slice text)
{
    char name[64];

    snprintf(name, sizeof(name), "%s[%zu]", member->name, index);
    if (element.type != JSON_STRING)
        return field_wrong(name, "a string", element, r->err);
    return envelope_name_check(name, text, member->max, r->err);
}

/* read_strings reads an array of strings and counts them.  With a maximum, each is a name. */
static enum status read_strings(struct reader *r, const struct member *member, struct json value,
                                size_t *count)
{
    struct json_iter iter;
    struct json element;
    struct slice text = {0};

    *count = 0;
    if (value.type != JSON_ARRAY)
        return field_wrong(member->name, "an array of strings", value, r->err);
    json_iter_init(&iter, value);
    for (; json_next(&iter, NULL, &element); ++*count) {
        if (element.type != JSON_STRING)
            return refuse_element(r, member, *count, element, text);
        if (member->max == 0)
            continue;
        text = json_text(element, r->arena);
        if (!text.ptr)
            return err_no_memory(r->err);
        if (envelope_name_check("", text, member->max, NULL) != STATUS_OK)
            return refuse_element(r, member, *count, element, text);
    }
    *(struct json *)place(r, member) = value;
    return STATUS_OK;
}

static enum status read_permissions(struct reader *r, const struct member *member,
                                    struct json value)
{
    size_t count;

    return read_strings(r, member, value, &count);
}

static enum status read_capabilities(struct reader *r, const struct member *member,
                                     struct json value)
{
    size_t count;
    enum status status = read_strings(r, member, value, &count);

    if (status == STATUS_OK && count > CAPABILITIES_MAX)
        return err_set(r->err, STATUS_INVALID, "%s: must have at most %d elements, not %zu",
                       member->name, CAPABILITIES_MAX, count);
    return status;
}

static enum status read_policy(struct reader *r, const struct member *member, struct json value)
{
    if (value.type == JSON_OBJECT) {
        r->out->policy_inline = value;
        return STATUS_OK;
    }
    if (value.type != JSON_STRING)
        return field_wrong(member->name, "a policy's name or an object", value, r->err);
    return read_name(r, member, value);
}

static enum status read_priority(struct reader *r, const struct member *member, struct json value)
{
    int64_t number = 0;
    enum status status = field_int(member->name, value, 0, 9, &number, r->err);

    r->out->priority = (int)number;
    return status;
}

static enum status read_attempt_count(struct reader *r, const struct member *member,
                                      struct json value)
{
    int64_t number;

    if (!json_int(value, &number) || number < 0)
        return field_wrong(member->name, "a whole number, 0 or more", value, r->err);
    r->out->attempt_count = number;
    return STATUS_OK;
}

/* ---- constraints ----------------------------------------------------------------------------- */

enum constraint {
    CONSTRAINT_HUMAN_ACK,
    CONSTRAINT_FOREVER,
    CONSTRAINT_RETRY,
    CONSTRAINT_RUNTIME,
    CONSTRAINT_COUNT
};

/* read_eligible reads `retry_eligible`, which may stand in the envelope and in its constraints: one
 * that says no is enough. */
static enum status read_eligible(struct reader *r, const char *name, struct json value)
{
    bool eligible = true;
    enum status status = field_bool(name, value, &eligible, r->err);

    r->out->retry_eligible = r->out->retry_eligible && eligible;
    return status;
}

static enum status read_retry_eligible(struct reader *r, const struct member *member,
                                       struct json value)
{
    return read_eligible(r, member->name, value);
}

static enum status read_max_runtime(struct reader *r, const char *name, struct json value)
{
    double seconds;

    if (!json_double(value, &seconds) || !(seconds > 0))
        return field_wrong(name, "a number greater than 0", value, r->err);
    r->out->max_runtime = span_from_seconds(seconds);
    /* A limit too short for the clock is still a limit: a span of 0 would mean none. */
    if (r->out->max_runtime.us == 0)
        r->out->max_runtime.us = 1;
    return STATUS_OK;
}

static enum status read_constraint(struct reader *r, enum constraint which, const char *name,
                                   struct json value)
{
    switch (which) {
    case CONSTRAINT_HUMAN_ACK:
        return field_bool(name, value, &r->out->requires_human_ack, r->err);
    case CONSTRAINT_FOREVER:
        return field_bool(name, value, &r->out->unique_forever, r->err);
    case CONSTRAINT_RETRY:
        return read_eligible(r, name, value);
    default:
        return read_max_runtime(r, name, value);
    }
}

static enum status read_constraints(struct reader *r, const struct member *member,
                                    struct json value)
{
    static const char *const names[CONSTRAINT_COUNT] = {
        [CONSTRAINT_HUMAN_ACK] = "constraints.requires_human_ack",
        [CONSTRAINT_FOREVER] = "constraints.unique_forever",
        [CONSTRAINT_RETRY] = "constraints.retry_eligible",
        [CONSTRAINT_RUNTIME] = "constraints.max_runtime_seconds"};
    const size_t prefix = sizeof("constraints.") - 1;
    bool seen[CONSTRAINT_COUNT] = {false};
    struct json_iter iter;
    struct json key, child;
    enum status status = read_object(r, member, value);

    json_iter_init(&iter, value);
    while (status == STATUS_OK && json_next(&iter, &key, &child)) {
        enum constraint i = 0;
        while (i < CONSTRAINT_COUNT && !json_string_is(key, names[i] + prefix))
            i++;
        if (i == CONSTRAINT_COUNT)
            continue;
        if (seen[i])
            return refuse_twice(r, names[i]);
        seen[i] = true;
        if (child.type != JSON_NULL)
            status = read_constraint(r, i, names[i], child);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum status read_envelope(struct reader *r, struct json object);

/* read_compensation checks that the job which undoes this one could be pushed as it is. */
static enum status read_compensation(struct reader *r, const struct member *member,
                                     struct json value)
{
    struct envelope inner = {.body = value.raw};
    struct reader nested = {&inner, r->arena, r->err, r->depth + 1};
    enum status status = read_object(r, member, value);

    if (status != STATUS_OK)
        return status;
    if (nested.depth > COMPENSATIONS_MAX)
        return err_set(r->err, STATUS_INVALID, "%s: must not be nested more than %d times",
                       member->name, COMPENSATIONS_MAX);
    status = read_envelope(&nested, value);
    if (status != STATUS_OK)
        err_prefix(r->err, "%s", member->name);
    return status;
}

/* The table: a name's slot follows from its length and three of its characters.  Two names in one
 * slot do not compile (-Woverride-init), so adding one may mean choosing other factors. */
#define SLOTS 64
#define SLOT(first, third, last, len)                                                              \
    ((2u * (uint8_t)(first) + (uint8_t)(third) + 2u * (uint8_t)(last) + 2u * (unsigned)(len)) %    \
     SLOTS)
#define SLOT_LEN_MIN 3 /* a shorter name has no third character */
#define AT(member) offsetof(struct envelope, member)

static const struct member members[SLOTS] = {
    [SLOT('j', 'b', 'd', 6)] = {"job_id", read_name, AT(job_id), ENVELOPE_ID_MAX},
    [SLOT('t', 'a', 'd', 8)] = {"trace_id", read_name, AT(trace_id), ENVELOPE_ID_MAX},
    [SLOT('r', 'q', 'y', 12)] = {"requested_by", read_text, AT(requested_by), ENVELOPE_ID_MAX},
    [SLOT('r', 'q', 't', 12)] = {"requested_at", read_time, AT(requested_at), 0},
    [SLOT('s', 'o', 'k', 10)] = {"scope_lock", read_text, AT(scope_lock), ENVELOPE_ID_MAX},
    [SLOT('p', 'r', 's', 11)] = {"permissions", read_permissions, AT(permissions), 0},
    [SLOT('a', 't', 'n', 6)] = {"action", read_name, AT(action), ENVELOPE_ID_MAX},
    [SLOT('i', 'p', 's', 6)] = {"inputs", read_object, AT(inputs), 0},
    [SLOT('r', 't', 'y', 12)] = {"retry_policy", read_policy, AT(policy_name), POLICY_NAME_MAX},
    [SLOT('a', 't', 't', 13)] = {"attempt_count", read_attempt_count, 0, 0},
    [SLOT('i', 'e', 'y', 15)] = {"idempotency_key", read_name, AT(idempotency_key),
                                 ENVELOPE_ID_MAX},
    [SLOT('c', 'n', 's', 11)] = {"constraints", read_constraints, AT(constraints), 0},
    [SLOT('q', 'e', 'e', 5)] = {"queue", read_name, AT(queue), ENVELOPE_QUEUE_MAX},
    [SLOT('p', 'i', 'y', 8)] = {"priority", read_priority, 0, 0},
    [SLOT('r', 'n', 't', 6)] = {"run_at", read_time, AT(run_at), 0},
    [SLOT('r', 't', 'y', 9)] = {"retry_key", read_name, AT(retry_key), ENVELOPE_ID_MAX},
    [SLOT('r', 'q', 's', 21)] = {"required_capabilities", read_capabilities,
                                 AT(required_capabilities), ENVELOPE_ID_MAX},
    [SLOT('s', 'u', 'e', 6)] = {"source", read_text, AT(source), ENVELOPE_ID_MAX},
    [SLOT('o', 'i', 't', 16)] = {"original_subject", read_text, AT(original_subject),
                                 ENVELOPE_ID_MAX},
    [SLOT('r', 'n', 'd', 6)] = {"run_id", read_name, AT(run_id), ENVELOPE_ID_MAX},
    [SLOT('i', 'e', 'd', 7)] = {"item_id", read_name, AT(item_id), ENVELOPE_ID_MAX},
    [SLOT('r', 't', 'e', 14)] = {"retry_eligible", read_retry_eligible, 0, 0},
    [SLOT('c', 'm', 'n', 12)] = {"compensation", read_compensation, AT(compensation), 0},
    [SLOT('d', 'c', 't', 8)] = {"document", read_object, AT(document), 0},
};

/* find_slot is the slot of a name, or SLOTS when it is none of Lazaret's own. */
static size_t find_slot(struct slice name)
{
    size_t slot;

    if (name.len < SLOT_LEN_MIN)
        return SLOTS;
    slot = SLOT(name.ptr[0], name.ptr[2], name.ptr[name.len - 1], name.len);
    return members[slot].name && slice_is(name, members[slot].name) ? slot : SLOTS;
}

/* read_envelope fills r->out, whose body is set and whose rest is empty. */
static enum status read_envelope(struct reader *r, struct json object)
{
    uint64_t seen = 0;
    struct json_iter iter;
    struct json key, value;
    struct slice name;
    enum status status;
    size_t slot;

    r->out->retry_eligible = true;
    r->out->queue = SLICE("default");
    r->out->priority = ENVELOPE_PRIORITY_DEFAULT;
    r->out->inputs = (struct json){JSON_OBJECT, SLICE("{}")};

    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        name = json_text(key, r->arena);
        if (!name.ptr)
            return err_no_memory(r->err);
        slot = find_slot(name);
        if (slot == SLOTS)
            continue;
        if (seen & UINT64_C(1) << slot)
            return refuse_twice(r, members[slot].name);
        seen |= UINT64_C(1) << slot;
        if (value.type == JSON_NULL)
            continue;
        status = members[slot].read(r, &members[slot], value);
        if (status != STATUS_OK)
            return status;
    }
    if (r->out->action.len == 0)
        return err_set(r->err, STATUS_INVALID, "action: is required: say what the job is to do");
    return STATUS_OK;
}

static const char *type_phrase(enum json_type type)
{
    static const char *const phrases[] = {
        [JSON_NULL] = "null",       [JSON_FALSE] = "a boolean", [JSON_TRUE] = "a boolean",
        [JSON_NUMBER] = "a number", [JSON_STRING] = "a string", [JSON_ARRAY] = "an array",
        [JSON_OBJECT] = "an object"};

    return phrases[type];
}

static uint64_t key_hash(struct slice key)
{
    return key.len ? hash64(key) : 0;
}

enum status envelope_parse(struct slice body, size_t body_max, struct arena *arena,
                           struct envelope *out, struct err *err)
{
    struct envelope envelope = {.body = body};
    struct reader reader = {&envelope, arena, err, 0};
    struct json object;
    enum status status;

    if (body.len > body_max)
        return err_set(err, STATUS_TOO_LARGE, "an envelope may have %zu bytes: this one has %zu",
                       body_max, body.len);
    status = json_parse(body, &object, err);
    if (status != STATUS_OK) {
        err_prefix(err, "envelope");
        return status;
    }
    if (object.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "an envelope must be a JSON object, not %s",
                       type_phrase(object.type));
    status = read_envelope(&reader, object);
    if (status != STATUS_OK)
        return status;

    envelope.id_hash = key_hash(envelope.job_id);
    envelope.idempotency_hash = key_hash(envelope.idempotency_key);
    envelope.retry_key_hash = key_hash(envelope.retry_key);
    *out = envelope;
    return STATUS_OK;
}
