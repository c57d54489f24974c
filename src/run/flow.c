/* flow: keys, values and their places; see flow.h.
 *
 * A value is a slice of the document's JSON text, so its distance from the beginning is all that is
 * needed to find its mark. */
#include "run/flow.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/distance.h"
#include "core/field.h"

#define KNOWN_MAX 240                        /* bytes of a list of keys in an error */
#define SECONDS_MAX (10.0 * 365 * 24 * 3600) /* the longest time that may be asked for */

/* ---- errors --------------------------------------------------------------------------------- */

enum status flow_at(struct flow *flow, struct json at, enum status status)
{
    if (status != STATUS_INVALID)
        return status;

    size_t offset = at.raw.ptr ? (size_t)(at.raw.ptr - flow->json.ptr) : 0;
    BUG_ON(offset > flow->json.len);
    struct yaml_mark mark = yaml_mark_find(flow->marks, offset);
    err_prefix(flow->err, "line %u, column %u", mark.line, mark.column);
    return status;
}

enum status flow_wrong(struct flow *flow, struct json at, const char *format, ...)
{
    struct err said;
    va_list args;

    va_start(args, format);
    vsnprintf(said.text, sizeof(said.text), format, args);
    va_end(args);
    return flow_at(flow, at, err_set(flow->err, STATUS_INVALID, "%s", said.text));
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* local is a key as it stands in the file. */
static const char *local(const struct flow_key *key)
{
    const char *dot = strrchr(key->name, '.');

    return dot ? dot + 1 : key->name;
}

/* nearest is the key that `name` was probably meant to be, or NULL: one that begins so or ends so,
 * else one that differs in a few letters. */
static const struct flow_key *nearest(const struct flow_section *section, struct slice name)
{
    const struct flow_key *found = NULL;
    size_t best = name.len / 3 + 2; /* farther than this is another word */

    if (name.len < 3 || name.len > DISTANCE_TEXT_MAX)
        return NULL;
    for (size_t i = 0; i < section->count; i++) {
        struct slice known = slice_of(local(&section->keys[i]));
        struct slice end = known.len > name.len
                               ? (struct slice){known.ptr + known.len - name.len, name.len}
                               : known;
        bool part = slice_starts(known, name) || slice_eq(end, name);
        size_t far = part ? 0 : distance(name, known);
        if (far < best) {
            best = far;
            found = &section->keys[i];
        }
    }
    return found;
}

/* list writes the keys of a section, as many as there is room for. */
static void list(const struct flow_section *section, char out[KNOWN_MAX])
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < section->count; i++) {
        const char *name = local(&section->keys[i]);
        bool fits = len + strlen(name) + sizeof(", ...") < KNOWN_MAX;
        len += (size_t)snprintf(out + len, KNOWN_MAX - len, "%s%s", i ? ", " : "",
                                fits ? name : "...");
        if (!fits)
            return;
    }
}

static enum status unknown_key(struct flow *flow, const struct flow_section *section,
                               struct json key)
{
    struct slice name = json_text(key, flow->arena);
    char known[KNOWN_MAX];

    if (!name.ptr)
        return err_no_memory(flow->err);
    const struct flow_key *near = nearest(section, name);
    struct slice shown = field_head(name, FIELD_SHOWN_MAX);
    if (near)
        return flow_wrong(flow, key, "%s has no key \"%.*s\"; did you mean \"%s\"?", section->name,
                          SLICE_ARG(shown), local(near));
    list(section, known);
    return flow_wrong(flow, key, "%s has no key \"%.*s%s\"; it has %s", section->name,
                      SLICE_ARG(shown), shown.len < name.len ? "..." : "", known);
}

static enum status read_key(struct flow *flow, const struct flow_section *section, struct json name,
                            struct json value, void *target)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct flow_key *key = &section->keys[i];
        if (!json_string_is(name, local(key)))
            continue;
        if (value.type == JSON_NULL && key->null_is_absent)
            return STATUS_OK;
        if (value.type == JSON_NULL)
            return flow_wrong(flow, name, "%s: has no value; give it one or leave the key out",
                              key->name);
        return key->read(flow, key, value, (char *)target + key->offset);
    }
    return unknown_key(flow, section, name);
}

enum status flow_keys(struct flow *flow, const struct flow_section *section, struct json object,
                      void *target)
{
    struct json_iter iter;
    struct json name, value;
    enum status status = STATUS_OK;

    if (object.type != JSON_OBJECT)
        return flow_at(flow, object,
                       field_wrong(section->name, "a mapping of keys", object, flow->err));
    json_iter_init(&iter, object);
    while (status == STATUS_OK && json_next(&iter, &name, &value))
        status = read_key(flow, section, name, value, target);
    return status;
}

/* ---- values --------------------------------------------------------------------------------- */

enum status flow_value(struct flow *flow, const struct flow_key *key, struct json value,
                       void *field)
{
    (void)flow, (void)key;
    *(struct json *)field = value;
    return STATUS_OK;
}

enum status flow_script(struct flow *flow, const struct flow_key *key, struct json value,
                        void *field)
{
    struct slice text;
    enum status status = field_text(key->name, value, flow->arena, &text, flow->err);

    if (status != STATUS_OK)
        return flow_at(flow, value, status);
    if (text.len == 0)
        return flow_wrong(flow, value, "%s: may not be empty", key->name);
    if (memchr(text.ptr, '\0', text.len))
        return flow_wrong(flow, value, "%s: may not have a NUL in it", key->name);
    text = arena_dup(flow->arena, text);
    if (!text.ptr)
        return err_no_memory(flow->err);
    *(struct slice *)field = text;
    return STATUS_OK;
}

enum status flow_text(struct flow *flow, const struct flow_key *key, struct json value, void *field)
{
    struct slice text = {0};
    enum status status = flow_script(flow, key, value, &text);

    if (status == STATUS_OK)
        *(const char **)field = text.ptr;
    return status;
}

enum status flow_int(struct flow *flow, const struct flow_key *key, struct json value, void *field)
{
    enum status status = field_int(key->name, value, key->min, key->max, field, flow->err);

    return flow_at(flow, value, status);
}

enum status flow_bool(struct flow *flow, const struct flow_key *key, struct json value, void *field)
{
    return flow_at(flow, value, field_bool(key->name, value, field, flow->err));
}

/* take_part takes a number and its unit off the front of a text: "30m" of "30m15s". */
static bool take_part(struct slice *text, double *seconds)
{
    static const struct {
        struct slice name;
        double seconds;
    } units[] = {{SLICE("ms"), 1e-3},
                 {SLICE("s"), 1},
                 {SLICE("m"), 60},
                 {SLICE("h"), 3600},
                 {SLICE("d"), 24 * 3600}};
    struct json number;
    double count;
    size_t len = 0;

    while (len < text->len && strchr("0123456789.", text->ptr[len]))
        len++;
    if (json_parse((struct slice){text->ptr, len}, &number, NULL) != STATUS_OK ||
        !json_double(number, &count))
        return false;
    struct slice rest = {text->ptr + len, text->len - len};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!slice_starts(rest, units[i].name))
            continue;
        *text = (struct slice){rest.ptr + units[i].name.len, rest.len - units[i].name.len};
        *seconds += count * units[i].seconds;
        return true;
    }
    return false;
}

bool flow_seconds(struct flow *flow, struct json value, double *out)
{
    double seconds = 0;

    if (value.type != JSON_STRING)
        return json_double(value, out) && *out >= 0 && *out <= SECONDS_MAX;
    struct slice text = json_text(value, flow->arena);
    if (text.len == 0)
        return false;
    while (text.len > 0)
        if (!take_part(&text, &seconds))
            return false;
    *out = seconds;
    return seconds <= SECONDS_MAX;
}

enum status flow_time(struct flow *flow, const struct flow_key *key, struct json value, void *field)
{
    static const char must[] = "a time of more than 0, such as 30 (seconds), 500ms, 2s, 5m or 1h";
    double seconds;

    if (!flow_seconds(flow, value, &seconds) || span_from_seconds(seconds).us <= 0)
        return flow_at(flow, value, field_wrong(key->name, must, value, flow->err));
    *(struct span *)field = span_from_seconds(seconds);
    return STATUS_OK;
}
