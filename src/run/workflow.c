/* workflow: the file, its top level and `map`; the other parts are named in workflow_internal.h.
 *
 * YAML becomes JSON text and marks (base/yaml.h); tables of keys read the JSON (run/flow.h), and
 * every error finds its line and column by the marks.  What a value means to others (filters,
 * paths, templates, policies) is checked by them, here, before anything is run. */
#include "run/workflow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/yaml.h"
#include "core/field.h"
#include "core/filter.h"
#include "core/jsonpath.h"
#include "run/order.h"
#include "run/workflow_internal.h"

#define WORKFLOW_BYTES_MAX ((size_t)4 << 20) /* of a file */
#define JSON_BYTES_MAX                                                                             \
    (WORKFLOW_BYTES_MAX * 6 + 64) /* of it as JSON: a byte is at most "\u0000"                     \
                                   */
#define NAME_SHOWN_MAX 200        /* bytes of a file's name in an error */
#define PARALLEL_MAX 1000
#define ITEMS_MAX INT64_C(1000000000000)

/* ---- map ------------------------------------------------------------------------------------ */

static enum status read_input(struct flow *flow, const struct flow_key *key, struct json value,
                              void *field)
{
    struct workflow *out = field;

    if (value.type == JSON_ARRAY) {
        out->items = value;
        return STATUS_OK;
    }
    if (value.type != JSON_STRING)
        return flow_at(
            flow, value,
            field_wrong(key->name, "the path of a file or a list of items", value, flow->err));
    return flow_text(flow, key, value, &out->input);
}

/* kept hands on what a text was found to be: it is kept when it is right, and `key` is named when
 * it is wrong. */
static enum status kept(struct flow *flow, const struct flow_key *key, struct json value,
                        const char *text, enum status status, void *field)
{
    if (status == STATUS_OK)
        *(const char **)field = text;
    if (status == STATUS_INVALID)
        err_prefix(flow->err, "%s", key->name);
    return flow_at(flow, value, status);
}

static enum status read_json_path(struct flow *flow, const struct flow_key *key, struct json value,
                                  void *field)
{
    const struct jsonpath *path;
    const char *text;
    enum status status = flow_text(flow, key, value, &text);

    if (status != STATUS_OK)
        return status;
    status = jsonpath_parse(slice_of(text), flow->arena, &path, flow->err);
    return kept(flow, key, value, text, status, field);
}

static enum status read_filter(struct flow *flow, const struct flow_key *key, struct json value,
                               void *field)
{
    const struct filter *filter;
    const char *text;
    enum status status = flow_text(flow, key, value, &text);

    if (status != STATUS_OK)
        return status;
    status = filter_parse(slice_of(text), flow->arena, &filter, flow->err);
    return kept(flow, key, value, text, status, field);
}

static enum status read_sort_by(struct flow *flow, const struct flow_key *key, struct json value,
                                void *field)
{
    struct order order;
    const char *text;
    enum status status = flow_text(flow, key, value, &text);

    if (status != STATUS_OK)
        return status;
    status = order_parse(slice_of(text), &order, flow->err);
    return kept(flow, key, value, text, status, field);
}

/* read_path reads a path, with or without "item." before it.  What is kept has none, but for the
 * item itself, which is no field. */
static enum status read_path(struct flow *flow, const struct flow_key *key, struct json value,
                             void *field)
{
    struct slice path;
    const char *text;
    enum status status = flow_text(flow, key, value, &text);

    if (status != STATUS_OK)
        return status;
    if (!order_path(slice_of(text), &path))
        return flow_at(flow, value,
                       field_wrong(key->name, "a path such as meta.name", value, flow->err));
    *(const char **)field = path.len ? path.ptr : text;
    return STATUS_OK;
}

/* read_id_field reads the path of a field. */
static enum status read_id_field(struct flow *flow, const struct flow_key *key, struct json value,
                                 void *field)
{
    if (json_string_is(value, "item"))
        return flow_wrong(flow, value, "%s: must be a field of the item: meta.name, not item",
                          key->name);
    return read_path(flow, key, value, field);
}

static enum status read_template(struct flow *flow, const struct flow_key *key, struct json value,
                                 void *field)
{
    struct steps *steps = field;
    enum status status = workflow_steps_read(flow, WORKFLOW_MAP, value, steps);

    if (status == STATUS_OK && steps->count == 0)
        return flow_wrong(flow, value, "%s: has no command", key->name);
    return status;
}

#define FIELD(field) .offset = offsetof(struct workflow, field)

static const struct flow_key map_keys[] = {
    {"map.input", read_input, .offset = 0},
    {"map.json_path", read_json_path, FIELD(json_path)},
    {"map.agent_template", read_template, FIELD(map)},
    {"map.max_parallel", flow_int, FIELD(parallel_max), .min = 1, .max = PARALLEL_MAX},
    {"map.filter", read_filter, FIELD(filter)},
    {"map.sort_by", read_sort_by, FIELD(sort_by)},
    {"map.max_items", flow_int, FIELD(items_max), .min = 1, .max = ITEMS_MAX},
    {"map.offset", flow_int, FIELD(offset), .min = 0, .max = ITEMS_MAX},
    {"map.distinct", read_path, FIELD(distinct)},
    {"map.agent_timeout_secs", flow_time, FIELD(timeout)},
    {"map.id_field", read_id_field, FIELD(id_field)},
    {"map.validate", workflow_steps_aside, FIELD(validate)},
    {"map.worktree", flow_bool, FIELD(worktree)},
    {"map.commit_required", flow_bool, FIELD(commit_required)},
};
static const struct flow_section map_section = FLOW_SECTION("map", map_keys);

static enum status read_map(struct flow *flow, const struct flow_key *key, struct json value,
                            void *field)
{
    struct workflow *out = field;
    enum status status = flow_keys(flow, &map_section, value, out);

    (void)key;
    if (status != STATUS_OK)
        return status;
    if (!out->input && !out->items.raw.len)
        return flow_wrong(flow, value,
                          "map.input is missing: the path of a file of items, or a list of them");
    if (out->map.count == 0)
        return flow_wrong(flow, value,
                          "map.agent_template is missing: the command to run for each item");
    return STATUS_OK;
}

/* ---- the top level -------------------------------------------------------------------------- */

static enum status read_mode(struct flow *flow, const struct flow_key *key, struct json value,
                             void *field)
{
    (void)field;
    if (!json_string_is(value, "mapreduce"))
        return flow_at(flow, value, field_wrong(key->name, "mapreduce", value, flow->err));
    return STATUS_OK;
}

static enum status read_setup(struct flow *flow, const struct flow_key *key, struct json value,
                              void *field)
{
    (void)key;
    return workflow_steps_read(flow, WORKFLOW_SETUP, value, field);
}

static enum status read_reduce(struct flow *flow, const struct flow_key *key, struct json value,
                               void *field)
{
    (void)key;
    return workflow_steps_read(flow, WORKFLOW_REDUCE, value, field);
}

static enum status read_policy(struct flow *flow, const struct flow_key *key, struct json value,
                               void *field)
{
    (void)key;
    return workflow_policy_read(flow, value, field);
}

static const struct flow_key top_keys[] = {
    {"name", flow_text, FIELD(name)},       {"mode", read_mode, .offset = 0},
    {"setup", read_setup, FIELD(setup)},    {"map", read_map, .offset = 0},
    {"reduce", read_reduce, FIELD(reduce)}, {"error_policy", read_policy, .offset = 0},
};
static const struct flow_section top_section = FLOW_SECTION("a workflow", top_keys);

/* read_document reads the JSON text of a whole workflow. */
static enum status read_document(struct flow *flow, struct workflow *out)
{
    struct workflow made = {.failures_max = -1, .failure_threshold = -1};
    struct json document;
    enum status status = json_parse(flow->json, &document, flow->err);

    if (status != STATUS_OK)
        BUG("YAML made into JSON that is none: %s", flow->err->text);
    status = flow_keys(flow, &top_section, document, &made);
    if (status == STATUS_OK && made.map.count == 0)
        status = flow_wrong(flow, document, "map is missing: the items and what to do with them");
    if (status == STATUS_OK)
        *out = made;
    return status;
}

/* name_it puts the file's name before an error; of a very long one its end. */
static enum status name_it(const char *name, enum status status, struct err *err)
{
    size_t len = strlen(name);
    bool cut = len > NAME_SHOWN_MAX;

    if (status != STATUS_OK && status != STATUS_NO_MEMORY)
        err_prefix(err, "%s%s", cut ? "..." : "", cut ? name + len - NAME_SHOWN_MAX : name);
    return status;
}

static enum status too_large(struct err *err)
{
    return err_set(err, STATUS_TOO_LARGE,
                   "a workflow may have %zu bytes: put its items into a file of their own",
                   WORKFLOW_BYTES_MAX);
}

enum status workflow_parse(struct slice text, const char *name, struct arena *arena,
                           struct workflow *out, struct err *err)
{
    struct err unread = {0};
    struct yaml_marks marks = {0};
    struct flow flow = {.marks = &marks, .arena = arena, .err = err ? err : &unread};
    struct buf json;

    buf_init(&json, JSON_BYTES_MAX);
    enum status status = text.len <= WORKFLOW_BYTES_MAX
                             ? yaml_to_json_marked(text, &json, &marks, flow.err)
                             : too_large(flow.err);
    if (status == STATUS_OK) {
        flow.json = arena_dup(arena, buf_slice(&json));
        status = flow.json.ptr ? read_document(&flow, out) : err_no_memory(flow.err);
    }
    buf_release(&json);
    yaml_marks_release(&marks);
    return name_it(name, status, flow.err);
}

/* ---- the file ------------------------------------------------------------------------------- */

static enum status read_bytes(int fd, const char *path, struct buf *out, struct err *err)
{
    char chunk[16 << 10];

    for (;;) {
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
        buf_add(out, chunk, (size_t)got);
        if (out->status == STATUS_TOO_LARGE)
            return name_it(path, too_large(err), err);
        if (got == 0 || out->status != STATUS_OK)
            return buf_status(out, err);
    }
}

enum status workflow_read(const char *path, struct arena *arena, struct workflow *out,
                          struct err *err)
{
    struct buf text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot read %s: %s",
                       path, strerror(errno));
    buf_init(&text, WORKFLOW_BYTES_MAX);
    enum status status = read_bytes(fd, path, &text, err);
    close(fd);
    if (status == STATUS_OK)
        status = workflow_parse(buf_slice(&text), path, arena, out, err);
    buf_release(&text);
    return status;
}
