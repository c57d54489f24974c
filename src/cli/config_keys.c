/* config_keys: see config_keys.h. */
#include "cli/config_keys.h"

#include <stdint.h>

#include "base/distance.h"
#include "base/time.h"

#define NEAR_MAX 4 /* a key that is so far from what was written was not meant */

/* struct reading: a mapping that is read. */
struct reading {
    const struct config_table *table;
    const char *place; /* NULL: the file itself */
    struct arena *arena;
    char *into;
    struct err *err;
};

enum status config_wrong(const char *place, const char *wanted, struct json value, struct err *err)
{
    return err_set(err, STATUS_INVALID, "%s: must be %s, not %.*s", place, wanted,
                   SLICE_ARG(value.raw));
}

struct slice config_text(struct json value, struct arena *arena)
{
    struct slice text = json_text(value, arena);

    return text.ptr ? arena_dup(arena, text) : text;
}

static bool same_section(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* place_of writes the way to a section (`name` NULL) or to a key. */
static void place_of(const struct reading *reading, const char *section, const char *name,
                     char out[CONFIG_PLACE_MAX])
{
    const char *parts[] = {reading->place, section, name};
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        if (!parts[i] || at >= CONFIG_PLACE_MAX)
            continue;
        at += (size_t)snprintf(out + at, CONFIG_PLACE_MAX - at, "%s%s", at ? "." : "", parts[i]);
    }
}

/* ---- values -----------------------------------------------------------------------------------
 */

static enum status set_number(const struct config_key *key, const char *place, struct json value,
                              void *member, struct err *err)
{
    bool whole = key->kind == KIND_COUNT || key->kind == KIND_SIZE || key->kind == KIND_UNSIGNED;
    double number = 0;
    int64_t count = 0;
    bool fits = json_double(value, &number) && number >= key->min && number <= key->max;

    if (whole)
        fits = fits && json_int(value, &count);
    if (!fits) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "a %s from %.10g to %.10g",
                 whole ? "whole number" : "number", key->min, key->max);
        return config_wrong(place, wanted, value, err);
    }
    if (key->kind == KIND_COUNT)
        *(int64_t *)member = count;
    else if (key->kind == KIND_SIZE)
        *(size_t *)member = (size_t)count;
    else if (key->kind == KIND_UNSIGNED)
        *(unsigned *)member = (unsigned)count;
    else if (key->kind == KIND_SECONDS_MS)
        *(uint32_t *)member = (uint32_t)(number * 1000);
    else
        *(struct span *)member =
            span_from_seconds(key->kind == KIND_DAYS ? number * 86400 : number);
    return STATUS_OK;
}

static enum status set_flag(const char *place, struct json value, bool *member, struct err *err)
{
    if (value.type != JSON_TRUE && value.type != JSON_FALSE)
        return config_wrong(place, "true or false", value, err);
    *member = value.type == JSON_TRUE;
    return STATUS_OK;
}

/* is_address says whether it has the shape of HOST:PORT; whether there is such a host is for
 * whoever listens. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    long port = 0;

    if (!colon || colon == text || !colon[1] || strlen(colon + 1) > 5)
        return false;
    for (const char *at = colon + 1; *at; at++) {
        if (*at < '0' || *at > '9')
            return false;
        port = port * 10 + (*at - '0');
    }
    bool bracketed = text[0] == '[' && colon[-1] == ']';
    return port <= 65535 && (bracketed || !memchr(text, ':', (size_t)(colon - text)));
}

/* is_line says whether it is a text without control characters. */
static bool is_line(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == '\x7f')
            return false;
    return text.len > 0;
}

static enum status set_text(const struct config_key *key, const char *place, struct json value,
                            const char **member, const struct reading *reading)
{
    struct slice text = {0};

    if (value.type == JSON_STRING) {
        text = config_text(value, reading->arena);
        if (!text.ptr)
            return err_no_memory(reading->err);
    }
    bool usable = text.len > 0 && !memchr(text.ptr, 0, text.len);
    if (key->kind == KIND_ADDRESS && !(usable && is_address(text.ptr)))
        return config_wrong(place, "HOST:PORT", value, reading->err);
    if (key->kind == KIND_LINE && !is_line(text))
        return err_set(reading->err, STATUS_INVALID, "%s: must be a text in one line", place);
    if (!usable)
        return config_wrong(place, "the name of a file", value, reading->err);
    *member = text.ptr;
    return STATUS_OK;
}

static enum status set_key(const struct reading *reading, const struct config_key *key,
                           struct json value)
{
    void *member = reading->into + key->offset;
    char place[CONFIG_PLACE_MAX];

    place_of(reading, key->section, key->name, place);
    switch (key->kind) {
    case KIND_OWN:
        return key->own(place, value, reading->arena, member, reading->err);
    case KIND_FLAG:
        return set_flag(place, value, member, reading->err);
    case KIND_TEXT:
    case KIND_ADDRESS:
    case KIND_LINE:
        return set_text(key, place, value, member, reading);
    default:
        return set_number(key, place, value, member, reading->err);
    }
}

/* ---- mappings ---------------------------------------------------------------------------------
 */

static enum status unknown_key(const struct reading *reading, const char *section,
                               struct slice name)
{
    const struct config_table *table = reading->table;
    char before[CONFIG_PLACE_MAX];
    const char *near = NULL;
    size_t best = NEAR_MAX;

    for (size_t i = 0; i < table->count; i++) {
        const struct config_key *key = &table->keys[i];
        const char *known = section || !key->section ? key->name : key->section;
        size_t far = distance(name, slice_of(known));
        if ((!section || same_section(key->section, section)) && far < best) {
            near = known;
            best = far;
        }
    }
    place_of(reading, section, NULL, before);
    const char *dot = before[0] ? "." : "";
    if (near)
        return err_set(reading->err, STATUS_INVALID, "unknown key %s%s%.*s; did you mean %s%s%s?",
                       before, dot, SLICE_ARG(name), before, dot, near);
    return err_set(reading->err, STATUS_INVALID, "unknown key %s%s%.*s", before, dot,
                   SLICE_ARG(name));
}

static enum status read_mapping(const struct reading *reading, const char *section,
                                struct json mapping);

static enum status read_member(const struct reading *reading, const char *section,
                               struct slice name, struct json value)
{
    for (size_t i = 0; i < reading->table->count; i++) {
        const struct config_key *key = &reading->table->keys[i];
        if (same_section(key->section, section) && slice_is(name, key->name))
            return set_key(reading, key, value);
        if (!section && key->section && slice_is(name, key->section))
            return read_mapping(reading, key->section, value);
    }
    return unknown_key(reading, section, name);
}

static enum status read_mapping(const struct reading *reading, const char *section,
                                struct json mapping)
{
    struct json_iter iter;
    struct json key = {0}, value;
    enum status status = STATUS_OK;

    if (mapping.type == JSON_NULL)
        return STATUS_OK;
    if (mapping.type != JSON_OBJECT) {
        char place[CONFIG_PLACE_MAX];
        place_of(reading, section, NULL, place);
        return err_set(reading->err, STATUS_INVALID, "%s: must be a mapping",
                       place[0] ? place : "the file");
    }
    json_iter_init(&iter, mapping);
    while (status == STATUS_OK && json_next(&iter, &key, &value)) {
        struct slice name = json_text(key, reading->arena);
        status =
            name.ptr ? read_member(reading, section, name, value) : err_no_memory(reading->err);
    }
    return status;
}

enum status config_keys_read(const struct config_table *table, const char *place,
                             struct json mapping, struct arena *arena, void *into, struct err *err)
{
    struct reading reading = {table, place, arena, into, err};

    return read_mapping(&reading, NULL, mapping);
}
