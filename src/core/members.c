/* members: by name and type, with errors that name the member. */
#include "core/members.h"

#include <stdio.h>

#include "core/envelope.h"
#include "core/field.h"

enum status members_fail(struct members *members, enum status status, const char *format, ...)
{
    if (members->status != STATUS_OK)
        return members->status;
    va_list args;
    va_start(args, format);
    vsnprintf(members->err->text, sizeof(members->err->text), format, args);
    va_end(args);
    return members->status = status;
}

void members_index_fill(struct members_index *index, struct json object)
{
    struct json_iter iter;
    size_t n = 0;
    index->object = (struct json){0};
    json_iter_init(&iter, object);
    while (n < MEMBERS_INDEXED_MAX && json_next(&iter, &index->keys[n], &index->values[n]))
        n++;
    index->count = n;
    if (object.type == JSON_OBJECT && n < MEMBERS_INDEXED_MAX)
        index->object = object;
}

bool members_get(const struct members *members, struct json object, const char *name,
                 struct json *out)
{
    const struct members_index *index = members->index;
    if (!index || !object.raw.ptr || index->object.raw.ptr != object.raw.ptr)
        return json_get(object, name, out);
    for (size_t i = index->count; i > 0; i--) { /* the last of duplicates */
        if (json_string_is(index->keys[i - 1], name)) {
            *out = index->values[i - 1];
            return true;
        }
    }
    *out = (struct json){0};
    return false;
}

/* member finds a member that is there and not null. */
static bool member(const struct members *members, struct json object, const char *name,
                   struct json *out)
{
    return members->status == STATUS_OK && members_get(members, object, name, out) &&
           out->type != JSON_NULL;
}

struct slice members_text(struct members *members, struct json object, const char *name, size_t max)
{
    struct json value;
    struct slice text = {0};
    if (!member(members, object, name, &value))
        return text;
    members->status = field_text(name, value, members->arena, &text, members->err);
    if (members->status == STATUS_OK && text.len)
        members->status = envelope_name_check(name, text, max, members->err);
    if (members->status != STATUS_OK)
        text = (struct slice){0};
    return text;
}

bool members_bool(struct members *members, struct json object, const char *name, bool fallback)
{
    struct json value;
    if (member(members, object, name, &value))
        members->status = field_bool(name, value, &fallback, members->err);
    return fallback;
}

int64_t members_int(struct members *members, struct json object, const char *name, int64_t min,
                    int64_t max, int64_t fallback)
{
    struct json value;
    if (member(members, object, name, &value))
        members->status = field_int(name, value, min, max, &fallback, members->err);
    return fallback;
}

double members_number(struct members *members, struct json object, const char *name, double min,
                      double max, double fallback)
{
    struct json value;
    if (member(members, object, name, &value))
        members->status = field_double(name, value, min, max, &fallback, members->err);
    return fallback;
}

struct instant members_instant(struct members *members, struct json object, const char *name)
{
    struct instant t = INSTANT_NONE;
    struct slice text = members_text(members, object, name, 64);
    if (text.len && instant_parse(text, &t, NULL) != STATUS_OK)
        members_fail(members, STATUS_INVALID,
                     "%s: must be a time such as 2026-02-13T06:22:00Z, not \"%.*s\"", name,
                     SLICE_ARG(text));
    return t;
}

struct json members_json(struct members *members, struct json object, const char *name,
                         enum json_type type)
{
    struct json value;
    if (!member(members, object, name, &value))
        return (struct json){0};
    if (value.type == type)
        return value;
    const char *must = type == JSON_ARRAY ? "an array" : "an object";
    members->status = field_wrong(name, must, value, members->err);
    return (struct json){0};
}
