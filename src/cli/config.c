/* config: a table of keys, so that what is understood can be read in one place. */
#include "cli/config.h"

#include <stddef.h>

#include "base/arena.h"
#include "base/distance.h"
#include "base/json.h"
#include "base/yaml.h"
#include "cli/file.h"

#define CONFIG_FILE_MAX (256 << 10)

enum config_kind {
    KIND_COUNT,      /* a whole number: int64_t */
    KIND_SIZE,       /* likewise: size_t */
    KIND_UNSIGNED,   /* likewise: unsigned */
    KIND_DAYS,       /* struct span */
    KIND_SECONDS,    /* struct span */
    KIND_SECONDS_MS, /* uint32_t */
    KIND_TEXT,       /* const char *: the name of a file */
    KIND_ADDRESS,    /* const char *: HOST:PORT */
    KIND_POINTERS,   /* const struct redaction * */
};

static const struct config_key {
    const char *section; /* NULL: at the top */
    const char *name;
    enum config_kind kind;
    double min, max;
    size_t offset; /* of the member in struct config */
} keys[] = {
#define AT(member) offsetof(struct config, member)
    {"limits", "live_jobs_max", KIND_COUNT, 0, 1e9, AT(live_jobs_max)},
    {"retention", "done_days", KIND_DAYS, 0, 36500, AT(keep_done)},
    {"retention", "recovered_days", KIND_DAYS, 0, 36500, AT(keep_recovered)},
    {"retention", "discarded_days", KIND_DAYS, 0, 36500, AT(keep_discarded)},
    {NULL, "lock_wait_seconds", KIND_SECONDS_MS, 0, 86400, AT(lock_wait_ms)},
    {NULL, "listen", KIND_ADDRESS, 0, 0, AT(listen)},
    {NULL, "tokens", KIND_TEXT, 0, 0, AT(tokens)},
    {NULL, "access_log", KIND_TEXT, 0, 0, AT(access_log)},
    {NULL, "redact", KIND_POINTERS, 0, 0, AT(redaction)},
    {"tls", "certificate", KIND_TEXT, 0, 0, AT(tls_certificate)},
    {"tls", "key", KIND_TEXT, 0, 0, AT(tls_key)},
    {"http", "body_max_bytes", KIND_SIZE, 1024, 1 << 30, AT(http.body_max)},
    {"http", "head_max_bytes", KIND_SIZE, 1024, 1 << 20, AT(http.head_max)},
    {"http", "connections_max", KIND_UNSIGNED, 1, 1e6, AT(http.connections_max)},
    {"http", "connections_per_address", KIND_UNSIGNED, 0, 1e6, AT(http.address_max)},
    {"http", "head_seconds", KIND_SECONDS, 0.01, 86400, AT(http.head_within)},
    {"http", "idle_seconds", KIND_SECONDS, 0.01, 86400, AT(http.idle_within)},
    {"http", "body_grace_seconds", KIND_SECONDS, 0.01, 86400, AT(http.body_grace)},
    {"http", "bytes_per_second_min", KIND_SIZE, 1, 1e9, AT(http.rate_min)},
    {"http", "threads", KIND_COUNT, 1, 256, AT(http_threads)},
    {"http", "drain_seconds", KIND_SECONDS, 0, 86400, AT(drain)},
#undef AT
};
#define KEY_COUNT (sizeof keys / sizeof *keys)
#define REDACT_MAX 1000 /* rules */

void config_init(struct config *config)
{
    *config = (struct config){.lock_wait_ms = CONFIG_LOCK_WAIT_MS,
                              .drain = span_seconds(CONFIG_DRAIN_SECONDS)};
}

static bool same_section(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* refuse says what a key must be. */
static enum status refuse(const struct config_key *key, struct json value, struct err *err,
                          const char *wanted)
{
    return err_set(err, STATUS_INVALID, "%s%s%s: must be %s, not %.*s",
                   key->section ? key->section : "", key->section ? "." : "", key->name, wanted,
                   SLICE_ARG(value.raw));
}

static enum status set_number(const struct config_key *key, struct json value, void *member,
                              struct err *err)
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
        return refuse(key, value, err, wanted);
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

static enum status set_text(const struct config_key *key, struct json value, const char **member,
                            struct arena *arena, struct err *err)
{
    struct slice text = {0};

    if (value.type == JSON_STRING) {
        text = json_text(value, arena);
        text = text.ptr ? arena_dup(arena, text) : text;
        if (!text.ptr)
            return err_no_memory(err);
    }
    bool usable = text.len > 0 && !memchr(text.ptr, 0, text.len);
    if (key->kind == KIND_ADDRESS && !(usable && is_address(text.ptr)))
        return refuse(key, value, err, "HOST:PORT");
    if (!usable)
        return refuse(key, value, err, "the name of a file");
    *member = text.ptr;
    return STATUS_OK;
}

static enum status set_pointers(const struct config_key *key, struct json value,
                                const struct redaction **member, struct arena *arena,
                                struct err *err)
{
    struct json_iter iter;
    struct json entry;
    size_t count = 0, entries = value.type == JSON_ARRAY ? json_count(value) : 0;
    struct slice *pointers = arena_array(arena, entries + 1, sizeof *pointers);

    if (!pointers)
        return err_no_memory(err);
    if (value.type != JSON_ARRAY && value.type != JSON_NULL)
        return refuse(key, value, err, "a list of JSON pointers");
    if (entries > REDACT_MAX)
        return err_set(err, STATUS_INVALID, "%s: has %zu rules; at most %d are taken", key->name,
                       entries, REDACT_MAX);
    json_iter_init(&iter, value);
    while (json_next(&iter, NULL, &entry)) {
        if (entry.type != JSON_STRING)
            return refuse(key, entry, err, "a list of JSON pointers");
        pointers[count] = json_text(entry, arena);
        pointers[count] = pointers[count].ptr ? arena_dup(arena, pointers[count]) : pointers[count];
        if (!pointers[count++].ptr)
            return err_no_memory(err);
    }
    enum status status = redaction_parse(pointers, count, arena, member, err);
    if (status != STATUS_OK)
        err_prefix(err, "%s", key->name);
    return status;
}

static enum status set_key(const struct config_key *key, struct json value, struct arena *arena,
                           struct config *config, struct err *err)
{
    void *member = (char *)config + key->offset;

    if (key->kind == KIND_POINTERS)
        return set_pointers(key, value, member, arena, err);
    if (key->kind == KIND_TEXT || key->kind == KIND_ADDRESS)
        return set_text(key, value, member, arena, err);
    return set_number(key, value, member, err);
}

static enum status unknown_key(const char *section, struct slice name, struct err *err)
{
    const char *before = section ? section : "", *dot = section ? "." : "";
    const char *near = NULL;
    size_t best = 4;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *known = section || !keys[i].section ? keys[i].name : keys[i].section;
        size_t far = distance(name, slice_of(known));
        if ((!section || same_section(keys[i].section, section)) && far < best) {
            near = known;
            best = far;
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
            return set_key(&keys[i], value, arena, config, err);
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

/* read_text reads the text of a file, which is JSON or YAML. */
static enum status read_text(struct slice text, struct arena *arena, struct config *config,
                             struct err *err)
{
    struct buf json;
    struct json value;
    enum status status = STATUS_OK;

    buf_init(&json, CONFIG_FILE_MAX << 2);
    /* JSON is read as it is: YAML would take its tabs amiss. */
    if (json_parse(text, &value, NULL) != STATUS_OK) {
        status = yaml_to_json(text, &json, err);
        if (status == STATUS_OK)
            status = json_parse(buf_slice(&json), &value, err);
    }
    if (status == STATUS_OK)
        status = read_object(NULL, value, arena, config, err);
    if (status == STATUS_OK && !config->tls_certificate != !config->tls_key)
        status = err_set(err, STATUS_INVALID, "tls: needs both, a certificate and a key");
    buf_release(&json);
    return status;
}

enum status config_read(const char *path, struct arena *arena, struct config *config,
                        struct err *err)
{
    struct config read = *config;
    struct buf text;
    enum status status;

    buf_init(&text, CONFIG_FILE_MAX);
    status = file_read(path, &text, err);
    if (status == STATUS_OK && !says_nothing(buf_str(&text))) {
        status = read_text(buf_slice(&text), arena, &read, err);
        if (status == STATUS_OK)
            *config = read;
        else
            err_prefix(err, "%s", path);
    }
    buf_release(&text);
    return status;
}
