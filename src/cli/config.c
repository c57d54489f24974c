/* config: a table of keys, so that what is understood can be read in one place. */
#include "cli/config.h"

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/yaml.h"
#include "cli/file.h"
#include "cli/text.h"

#define CONFIG_FILE_MAX (256 << 10)

enum config_kind { KIND_COUNT, KIND_DAYS, KIND_SECONDS_MS };

static const struct config_key {
    const char *section; /* NULL: at the top */
    const char *name;
    enum config_kind kind;
    double max;
    size_t offset; /* of the member in struct config */
} keys[] = {
    {"limits", "live_jobs_max", KIND_COUNT, 1e9, offsetof(struct config, live_jobs_max)},
    {"retention", "done_days", KIND_DAYS, 36500, offsetof(struct config, keep_done)},
    {"retention", "recovered_days", KIND_DAYS, 36500, offsetof(struct config, keep_recovered)},
    {"retention", "discarded_days", KIND_DAYS, 36500, offsetof(struct config, keep_discarded)},
    {NULL, "lock_wait_seconds", KIND_SECONDS_MS, 86400, offsetof(struct config, lock_wait_ms)},
};
#define KEY_COUNT (sizeof keys / sizeof *keys)

void config_init(struct config *config)
{
    *config = (struct config){.lock_wait_ms = CONFIG_LOCK_WAIT_MS};
}

static bool same_section(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static enum status set_key(const struct config_key *key, struct json value, struct config *config,
                           struct err *err)
{
    void *member = (char *)config + key->offset;
    double number;
    int64_t whole;
    bool fits = json_double(value, &number) && number >= 0 && number <= key->max;

    if (key->kind == KIND_COUNT)
        fits = fits && json_int(value, &whole);
    if (!fits)
        return err_set(err, STATUS_INVALID, "%s%s%s: must be a %s from 0 to %.0f, not %.*s",
                       key->section ? key->section : "", key->section ? "." : "", key->name,
                       key->kind == KIND_COUNT ? "whole number" : "number", key->max,
                       SLICE_ARG(value.raw));
    if (key->kind == KIND_COUNT)
        *(int64_t *)member = whole;
    else if (key->kind == KIND_DAYS)
        *(struct span *)member = span_from_seconds(number * 86400);
    else
        *(uint32_t *)member = (uint32_t)(number * 1000);
    return STATUS_OK;
}

static enum status unknown_key(const char *section, struct slice name, struct err *err)
{
    const char *before = section ? section : "", *dot = section ? "." : "";
    const char *near = NULL;
    size_t best = 4;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *known = section || !keys[i].section ? keys[i].name : keys[i].section;
        size_t distance = text_distance(name, slice_of(known));
        if ((!section || same_section(keys[i].section, section)) && distance < best) {
            near = known;
            best = distance;
        }
    }
    if (near)
        return err_set(err, STATUS_INVALID, "unknown key %s%s%.*s; did you mean %s%s%s?", before,
                       dot, SLICE_ARG(name), before, dot, near);
    return err_set(err, STATUS_INVALID, "unknown key %s%s%.*s", before, dot, SLICE_ARG(name));
}

static enum status read_object(const char *section, struct json object, struct arena *arena,
                               struct config *config, struct err *err);

static enum status read_member(const char *section, struct slice name, struct json value,
                               struct arena *arena, struct config *config, struct err *err)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (same_section(keys[i].section, section) && slice_is(name, keys[i].name))
            return set_key(&keys[i], value, config, err);
        if (!section && keys[i].section && slice_is(name, keys[i].section))
            return read_object(keys[i].section, value, arena, config, err);
    }
    return unknown_key(section, name, err);
}

static enum status read_object(const char *section, struct json object, struct arena *arena,
                               struct config *config, struct err *err)
{
    struct json_iter iter;
    struct json key = {0}, value;
    enum status status = STATUS_OK;

    if (object.type == JSON_NULL)
        return STATUS_OK;
    if (object.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "%s: must be a mapping",
                       section ? section : "the file");
    json_iter_init(&iter, object);
    while (status == STATUS_OK && json_next(&iter, &key, &value)) {
        struct slice name = json_text(key, arena);
        status =
            name.ptr ? read_member(section, name, value, arena, config, err) : err_no_memory(err);
    }
    return status;
}

/* says_nothing is true for a text of blank lines and comments: no document at all for YAML. */
static bool says_nothing(const char *text)
{
    while (*text) {
        text += strspn(text, " \t\r\n");
        if (*text && *text != '#')
            return false;
        text += strcspn(text, "\n");
    }
    return true;
}

enum status config_read(const char *path, struct config *config, struct err *err)
{
    struct config read = *config;
    struct arena arena = {0};
    struct buf text, json;
    struct json value;
    enum status status;

    buf_init(&text, CONFIG_FILE_MAX);
    buf_init(&json, CONFIG_FILE_MAX << 2);
    status = file_read(path, &text, err);
    if (status == STATUS_OK && !says_nothing(buf_str(&text))) {
        /* JSON is read as it is: YAML would take its tabs amiss. */
        if (json_parse(buf_slice(&text), &value, NULL) != STATUS_OK) {
            status = yaml_to_json(buf_slice(&text), &json, err);
            if (status == STATUS_OK)
                status = json_parse(buf_slice(&json), &value, err);
        }
        if (status == STATUS_OK)
            status = read_object(NULL, value, &arena, &read, err);
        if (status == STATUS_OK)
            *config = read;
        else
            err_prefix(err, "%s", path);
    }
    buf_release(&text);
    buf_release(&json);
    arena_release(&arena);
    return status;
}
