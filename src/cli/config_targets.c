/* config_targets: see config_targets.h. */
#include "cli/config_targets.h"

#include "bridge/sign.h"
#include "cli/file.h"
#include "core/envelope.h"
#include "core/policy.h"

#define TARGETS_MAX 1000
#define ALLOW_MAX 1000
#define HEADERS_MAX 64 /* of one target */
#define HEADER_MAX 4096
#define TOOL_MAX 128
#define SECRET_MAX 8192 /* bytes of a file with a token or a secret */

/* struct target_config: a target as it is configured. */
struct target_config {
    struct target target; /* without what is read by config_targets_load */
    const char *url;
    const char *token_file, *token_env; /* at most one of them */
    const char *secret_file, *secret_env;
};

/* ---- values of a target -----------------------------------------------------------------------
 */

/* read_url keeps the text: what it is depends on the kind, which may stand after it. */
static enum status read_url(const char *place, struct json value, struct arena *arena, void *member,
                            struct err *err)
{
    if (value.type != JSON_STRING)
        return err_set(err, STATUS_INVALID, "%s: must be http://HOST or https://HOST", place);
    struct slice text = config_text(value, arena);
    if (!text.ptr)
        return err_no_memory(err);
    /* A NUL would hide what follows it. */
    if (memchr(text.ptr, 0, text.len))
        return err_set(err, STATUS_INVALID, "%s: must not have control characters", place);
    *(const char **)member = text.ptr;
    return STATUS_OK;
}

static enum status read_kind(const char *place, struct json value, struct arena *arena,
                             void *member, struct err *err)
{
    struct slice text = json_text(value, arena);

    if (!text.ptr || !delivery_kind_from_name(text, member))
        return config_wrong(place, "http or mcp", value, err);
    return STATUS_OK;
}

static enum status read_name(const char *place, struct json value, struct arena *arena, size_t max,
                             struct slice *member, struct err *err)
{
    if (value.type != JSON_STRING)
        return config_wrong(place, "a name", value, err);
    struct slice text = config_text(value, arena);
    if (!text.ptr)
        return err_no_memory(err);
    enum status status = envelope_name_check(place, text, max, err);
    if (status == STATUS_OK)
        *member = text;
    return status;
}

static enum status read_tool(const char *place, struct json value, struct arena *arena,
                             void *member, struct err *err)
{
    return read_name(place, value, arena, TOOL_MAX, member, err);
}

static enum status read_policy(const char *place, struct json value, struct arena *arena,
                               void *member, struct err *err)
{
    return read_name(place, value, arena, POLICY_NAME_MAX, member, err);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum status read_env(const char *place, struct json value, struct arena *arena, void *member,
                            struct err *err)
{
    struct slice text = config_text(value, arena);
    bool plain = text.len > 0 && !is_digit(text.ptr[0]);

    if (value.type == JSON_STRING && !text.ptr)
        return err_no_memory(err);
    for (size_t i = 0; plain && i < text.len; i++)
        plain = is_letter(text.ptr[i]) || is_digit(text.ptr[i]) || text.ptr[i] == '_';
    if (!plain)
        return err_set(err, STATUS_INVALID,
                       "%s: must be the name of an environment variable, of letters, digits and "
                       "\"_\"",
                       place);
    *(const char **)member = text.ptr;
    return STATUS_OK;
}

/* ---- headers ----------------------------------------------------------------------------------
 */

/* Those that a delivery sets itself, or that say how a request is sent. */
static const char *const own_headers[] = {
    "Accept", "Authorization",   "Connection", "Content-Length", "Content-Type",      "Expect",
    "Host",   "Idempotency-Key", "TE",         "Trailer",        "Transfer-Encoding", "Upgrade"};

static bool is_own_header(struct slice name)
{
    const struct slice webhook = SLICE("webhook-");

    for (size_t i = 0; i < sizeof own_headers / sizeof *own_headers; i++)
        if (url_same_text(name, slice_of(own_headers[i])))
            return true;
    return name.len >= webhook.len && url_same_text((struct slice){name.ptr, webhook.len}, webhook);
}

static bool is_header_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!is_letter(c) && !is_digit(c) && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return name.len > 0;
}

/* is_header_value: no control character; something, and no space at its ends, which would be
 * dropped on the way. */
static bool is_header_value(struct slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.ptr[i] < 0x20 || value.ptr[i] == 0x7f)
            return false;
    return value.len > 0 && value.ptr[0] != ' ' && value.ptr[value.len - 1] != ' ';
}

static enum status read_header(const char *place, struct slice name, struct json value,
                               struct arena *arena, struct slice *out, struct err *err)
{
    if (!is_header_name(name))
        return err_set(err, STATUS_INVALID,
                       "%s: the name of a header must be of letters, digits and \"-\"", place);
    if (is_own_header(name))
        return err_set(err, STATUS_INVALID, "%s: %.*s is set by each delivery itself", place,
                       SLICE_ARG(name));
    if (value.type != JSON_STRING)
        return err_set(err, STATUS_INVALID, "%s.%.*s: must be a text: put it in quotes", place,
                       SLICE_ARG(name));
    struct slice text = json_text(value, arena);
    if (!text.ptr)
        return err_no_memory(err);
    if (!is_header_value(text) || name.len + text.len > HEADER_MAX)
        return err_set(err, STATUS_INVALID,
                       "%s.%.*s: must be a text of at most %d bytes, not empty, without control "
                       "characters and without spaces at its ends",
                       place, SLICE_ARG(name), HEADER_MAX);
    *out = arena_printf(arena, "%.*s: %.*s", SLICE_ARG(name), SLICE_ARG(text));
    return out->ptr ? STATUS_OK : err_no_memory(err);
}

enum status config_header_check(struct slice line, struct err *err)
{
    const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
    if (!colon)
        return err_set(err, STATUS_INVALID, "must be \"Name: value\"");
    struct slice name = {line.ptr, (size_t)(colon - line.ptr)};
    struct slice value = {colon + 1, line.len - name.len - 1};
    while (value.len > 0 && value.ptr[0] == ' ')
        value = (struct slice){value.ptr + 1, value.len - 1};
    if (!is_header_name(name))
        return err_set(err, STATUS_INVALID,
                       "the name of a header must be of letters, digits and \"-\"");
    if (is_own_header(name))
        return err_set(err, STATUS_INVALID, "%.*s is written by Lazaret itself", SLICE_ARG(name));
    if (!is_header_value(value) || line.len > HEADER_MAX)
        return err_set(err, STATUS_INVALID, "%.*s: its value must be up to %d visible characters",
                       SLICE_ARG(name), HEADER_MAX);
    return STATUS_OK;
}

/* read_headers reads into a struct target. */
static enum status read_headers(const char *place, struct json value, struct arena *arena,
                                void *member, struct err *err)
{
    struct target *target = member;
    struct json_iter iter;
    struct json key = {0}, entry;
    enum status status = STATUS_OK;
    size_t entries = json_count(value), count = 0;

    if (value.type != JSON_OBJECT && value.type != JSON_NULL)
        return err_set(err, STATUS_INVALID, "%s: must be a mapping of names and texts", place);
    if (entries > HEADERS_MAX)
        return err_set(err, STATUS_INVALID, "%s: has %zu headers; at most %d are taken", place,
                       entries, HEADERS_MAX);
    struct slice *headers = arena_array(arena, entries + 1, sizeof *headers);
    if (!headers)
        return err_no_memory(err);
    json_iter_init(&iter, value);
    while (status == STATUS_OK && json_next(&iter, &key, &entry)) {
        struct slice name = json_text(key, arena);
        status = name.ptr ? read_header(place, name, entry, arena, &headers[count++], err)
                          : err_no_memory(err);
    }
    target->headers = headers;
    target->header_count = count;
    return status;
}

/* ---- targets ----------------------------------------------------------------------------------
 */

#define OWN(member, read) offsetof(struct target_config, member), read
#define AT(member) OWN(member, NULL)
static const struct config_key target_keys[] = {
    {NULL, "url", KIND_OWN, 0, 0, OWN(url, read_url)},
    {NULL, "kind", KIND_OWN, 0, 0, OWN(target.kind, read_kind)},
    {NULL, "tool", KIND_OWN, 0, 0, OWN(target.tool, read_tool)},
    {NULL, "token_file", KIND_TEXT, 0, 0, AT(token_file)},
    {NULL, "token_env", KIND_OWN, 0, 0, OWN(token_env, read_env)},
    {NULL, "secret_file", KIND_TEXT, 0, 0, AT(secret_file)},
    {NULL, "secret_env", KIND_OWN, 0, 0, OWN(secret_env, read_env)},
    {NULL, "headers", KIND_OWN, 0, 0, OWN(target, read_headers)},
    {NULL, "policy", KIND_OWN, 0, 0, OWN(target.policy, read_policy)},
    {NULL, "follow_redirects", KIND_FLAG, 0, 0, AT(target.redirects)},
    {NULL, "connect_seconds", KIND_SECONDS, 0.01, 86400, AT(target.connect)},
    {NULL, "request_seconds", KIND_SECONDS, 0.01, 86400, AT(target.whole)},
    {NULL, "parallel", KIND_UNSIGNED, 1, 10000, AT(target.parallel)},
};
#undef AT
#undef OWN
static const struct config_table target_table = {target_keys,
                                                 sizeof target_keys / sizeof *target_keys};

/* finish_target makes the target of its keys, and finds what does not go together. */
static enum status finish_target(const char *place, struct target_config *read, struct arena *arena,
                                 struct err *err)
{
    struct target of_url;

    if (!read->url)
        return err_set(err, STATUS_INVALID, "%s.url: is missing: http://HOST or https://HOST",
                       place);
    if (read->token_file && read->token_env)
        return err_set(err, STATUS_INVALID, "%s: has both, a token_file and a token_env", place);
    if (read->secret_file && read->secret_env)
        return err_set(err, STATUS_INVALID, "%s: has both, a secret_file and a secret_env", place);
    if (read->target.tool.len > 0 && read->target.kind != DELIVERY_MCP)
        return err_set(err, STATUS_INVALID, "%s.tool: is only for a target of kind mcp", place);
    enum status status = target_of_url(slice_of(read->url), read->target.kind, arena, &of_url, err);
    if (status != STATUS_OK) {
        err_prefix(err, "%s.url", place);
        return status;
    }
    read->target.url = of_url.url;
    read->target.trusted = true;
    return STATUS_OK;
}

/* find_target is the target of a name; NULL when there is none. */
static const struct target_config *find_target(const struct target_config *all, size_t count,
                                               struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(all[i].target.name, name))
            return &all[i];
    return NULL;
}

static enum status read_target(const char *place, struct json key, struct json value,
                               struct arena *arena, struct target_config *out, struct err *err)
{
    struct slice name = config_text(key, arena);
    char below[CONFIG_PLACE_MAX];

    if (!name.ptr)
        return err_no_memory(err);
    enum status status = target_name_check(name, err);
    if (status != STATUS_OK) {
        err_prefix(err, "%s", place);
        return status;
    }
    snprintf(below, sizeof below, "%s.%s", place, name.ptr);
    out->target.name = name;
    status = config_keys_read(&target_table, below, value, arena, out, err);
    return status == STATUS_OK ? finish_target(below, out, arena, err) : status;
}

enum status config_targets_read(const char *place, struct json value, struct arena *arena,
                                void *member, struct err *err)
{
    struct config *config = member;
    struct json_iter iter;
    struct json key = {0}, entry;
    enum status status = STATUS_OK;
    size_t entries = json_count(value), count = 0;

    if (value.type != JSON_OBJECT && value.type != JSON_NULL)
        return err_set(err, STATUS_INVALID, "%s: must be a mapping", place);
    if (entries > TARGETS_MAX)
        return err_set(err, STATUS_INVALID, "%s: has %zu targets; at most %d are taken", place,
                       entries, TARGETS_MAX);
    struct target_config *all = arena_array(arena, entries + 1, sizeof *all);
    if (!all)
        return err_no_memory(err);
    json_iter_init(&iter, value);
    while (status == STATUS_OK && json_next(&iter, &key, &entry)) {
        status = read_target(place, key, entry, arena, &all[count], err);
        if (status == STATUS_OK && find_target(all, count, all[count].target.name))
            status = err_set(err, STATUS_INVALID, "%s.%s: is there twice", place,
                             all[count].target.name.ptr);
        count++;
    }
    config->target_configs = all;
    config->targets.count = count;
    return status;
}

enum status config_targets_finish(struct config *config, struct arena *arena, struct err *err)
{
    size_t count = config->targets.count;
    struct target *list = arena_array(arena, count + 1, sizeof *list);

    if (!list)
        return err_no_memory(err);
    for (size_t i = 0; i < count; i++) {
        list[i] = config->target_configs[i].target;
        if (list[i].connect.us == 0)
            list[i].connect = config->deliveries_connect;
        if (list[i].whole.us == 0)
            list[i].whole = config->deliveries_request;
    }
    config->targets.list = list;
    config->targets.connect = config->deliveries_connect;
    config->targets.whole = config->deliveries_request;
    return STATUS_OK;
}

enum status config_allow_read(const char *place, struct json value, struct arena *arena,
                              void *member, struct err *err)
{
    struct targets *targets = member;
    struct json_iter iter;
    struct json entry;
    enum status status = STATUS_OK;
    size_t entries = json_count(value), count = 0;

    if (value.type != JSON_ARRAY && value.type != JSON_NULL)
        return config_wrong(place, "a list of hosts, addresses and networks", value, err);
    if (entries > ALLOW_MAX)
        return err_set(err, STATUS_INVALID, "%s: has %zu entries; at most %d are taken", place,
                       entries, ALLOW_MAX);
    struct allowance *allow = arena_array(arena, entries + 1, sizeof *allow);
    if (!allow)
        return err_no_memory(err);
    json_iter_init(&iter, value);
    while (status == STATUS_OK && json_next(&iter, NULL, &entry)) {
        if (entry.type != JSON_STRING)
            return config_wrong(place, "a list of hosts, addresses and networks", entry, err);
        struct slice text = config_text(entry, arena);
        status = text.ptr ? allowance_parse(text, &allow[count], err) : err_no_memory(err);
        if (status != STATUS_OK)
            err_prefix(err, "%s[%zu]", place, count);
        count++;
    }
    targets->allow = allow;
    targets->allow_count = count;
    return status;
}

/* ---- tokens and secrets -----------------------------------------------------------------------
 */

/* read_source appends the text of a file, or else of an environment variable. */
static enum status read_source(const char *file, const char *env, struct buf *out, struct err *err)
{
    if (file && strcmp(file, "-") == 0) /* it would be standard input */
        return err_set(err, STATUS_INVALID, "must be the name of a file");
    if (file) {
        enum status status = file_read(file, out, err);
        if (status != STATUS_OK && out->status != STATUS_TOO_LARGE)
            return status;
    } else {
        const char *value = getenv(env);
        if (!value)
            return err_set(err, STATUS_INVALID,
                           "the environment variable that it names is not set");
        buf_add_str(out, value);
    }
    if (out->status == STATUS_TOO_LARGE)
        return err_set(err, STATUS_INVALID, "what it names has more than %d bytes", SECRET_MAX);
    return buf_status(out, err);
}

/* check_line drops the end of the line and says whether the rest is one line that may be sent. */
static enum status check_line(struct slice *text, bool visible, struct err *err)
{
    if (text->len > 0 && text->ptr[text->len - 1] == '\n')
        text->len--;
    if (text->len > 0 && text->ptr[text->len - 1] == '\r')
        text->len--;
    if (text->len == 0)
        return err_set(err, STATUS_INVALID, "what it names is empty");
    if (memchr(text->ptr, '\n', text->len))
        return err_set(err, STATUS_INVALID, "what it names has more than one line");
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->ptr[i];
        if (c < 0x20 || c == 0x7f || (visible && (c == ' ' || c > 0x7f)))
            return err_set(err, STATUS_INVALID,
                           visible ? "what it names must be of visible ASCII characters, without "
                                     "spaces"
                                   : "what it names must not have control characters");
    }
    return STATUS_OK;
}

/* load reads a token, or a secret and the key that it stands for; nothing when none is said. */
static enum status load(const struct config *config, const struct target_config *from,
                        bool is_secret, struct arena *arena, struct slice *out, struct err *err)
{
    const char *file = is_secret ? from->secret_file : from->token_file;
    const char *env = is_secret ? from->secret_env : from->token_env;
    struct buf text, key;

    if (!file && !env)
        return STATUS_OK;
    buf_init(&text, SECRET_MAX);
    buf_init(&key, SECRET_MAX);
    enum status status = read_source(file, env, &text, err);
    struct slice line = buf_slice(&text);
    if (status == STATUS_OK)
        status = check_line(&line, !is_secret, err);
    if (status == STATUS_OK && is_secret) {
        status = sign_secret(line, &key, err);
        line = buf_slice(&key);
    }
    struct slice kept = status == STATUS_OK ? arena_dup(arena, line) : (struct slice){0};
    buf_release(&text);
    buf_release(&key);
    if (status == STATUS_OK && !kept.ptr)
        return err_no_memory(err);
    if (status == STATUS_OK) {
        *out = kept;
        return STATUS_OK;
    }
    err_prefix(err, "%s%stargets.%s.%s_%s", config->path ? config->path : "",
               config->path ? ": " : "", from->target.name.ptr, is_secret ? "secret" : "token",
               file ? "file" : "env");
    return status == STATUS_NO_MEMORY ? status : STATUS_INVALID;
}

static enum status load_target(const struct config *config, size_t index, struct arena *arena,
                               struct target *out, struct err *err)
{
    const struct target_config *from = &config->target_configs[index];
    struct target target = config->targets.list[index];
    enum status status = load(config, from, false, arena, &target.token, err);

    if (status == STATUS_OK)
        status = load(config, from, true, arena, &target.secret, err);
    if (status == STATUS_OK)
        *out = target;
    return status;
}

enum status config_targets_load(struct config *config, struct arena *arena, struct err *err)
{
    size_t count = config->targets.count;
    struct target *list = arena_array(arena, count + 1, sizeof *list);
    enum status status = STATUS_OK;

    if (!list)
        return err_no_memory(err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = load_target(config, i, arena, &list[i], err);
    if (status == STATUS_OK)
        config->targets.list = list;
    return status;
}

enum status config_target_load(const struct config *config, struct slice name, struct arena *arena,
                               struct target *out, struct err *err)
{
    struct targets named = {.list = config->targets.list, .count = config->targets.count};
    struct target unused;

    for (size_t i = 0; i < named.count; i++)
        if (slice_eq(named.list[i].name, name))
            return load_target(config, i, arena, out, err);
    /* It is the sentence that is wanted: nothing of that name is there. */
    return target_name_check(name, err) == STATUS_OK
               ? targets_resolve(&named, name, DELIVERY_HTTP, arena, &unused, err)
               : STATUS_NOT_FOUND;
}
