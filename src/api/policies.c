/* policies: /api/v1/policies: show, set, explain.
 *
 * A name stands for the stored policy, else for the preset.  What GET answers is what PUT takes. */
#include "api/policies.h"

#include "api/routes.h"

/* ---- finding --------------------------------------------------------------------------------- */

/* struct policy_page: the latest version of every stored policy. */
struct policy_page {
    struct stored_policy *stored;
    size_t count;
};

static enum status read_policies(struct engine *engine, struct store *store, void *ctx,
                                 struct arena *arena, struct err *err)
{
    (void)engine;
    struct policy_page *page = ctx;
    return store->policy_list(store, arena, &page->stored, &page->count, err);
}

static const struct stored_policy *find_stored(const struct policy_page *page, struct slice name)
{
    for (size_t i = 0; i < page->count; i++) {
        if (slice_eq(page->stored[i].name, name))
            return &page->stored[i];
    }
    return NULL;
}

/* parse reads a policy's text and gives it its name and version. */
static enum status parse(struct call *call, struct slice name, int64_t version, struct slice body,
                         struct policy *out)
{
    struct json object;
    enum status status = json_parse(body, &object, &call->err);
    if (status == STATUS_OK)
        status = policy_parse(object, &call->arena, out, &call->err);
    if (status != STATUS_OK)
        return status;
    out->name = name;
    out->version = version;
    return STATUS_OK;
}

static bool is_preset(struct slice name)
{
    const char *preset;
    struct slice json;
    for (size_t i = 0; policy_preset(i, &preset, &json); i++)
        if (slice_is(name, preset))
            return true;
    return false;
}

static enum status unknown(struct call *call, const struct policy_page *page, struct slice name)
{
    struct buf known;
    const char *preset;
    struct slice json;
    buf_init(&known, 300);
    for (size_t i = 0; policy_preset(i, &preset, &json); i++)
        buf_addf(&known, "%s%s", i ? ", " : "", preset);
    for (size_t i = 0; i < page->count; i++) {
        if (!is_preset(page->stored[i].name))
            buf_addf(&known, ", %.*s", SLICE_ARG(page->stored[i].name));
    }
    err_set(&call->err, STATUS_NOT_FOUND, "no policy is named \"%.*s\"; there are: %s",
            SLICE_ARG(name), buf_str(&known));
    buf_release(&known);
    return STATUS_NOT_FOUND;
}

/* pick finds a policy by name: the stored one, else the preset. */
static enum status pick(struct call *call, const struct policy_page *page, struct slice name,
                        struct policy *out)
{
    const char *preset;
    struct slice json;
    const struct stored_policy *stored = find_stored(page, name);
    if (stored)
        return parse(call, stored->name, stored->version, stored->body, out);
    for (size_t i = 0; policy_preset(i, &preset, &json); i++) {
        if (slice_is(name, preset))
            return parse(call, slice_of(preset), 0, json, out);
    }
    return unknown(call, page, name);
}

enum status policies_find(struct call *call, struct slice name, struct policy *out)
{
    struct policy_page page;
    enum status status = call_read(call, read_policies, &page, &call->arena);
    return status == STATUS_OK ? pick(call, &page, name, out) : status;
}

/* ask reads the stored policies; `next` finds them in call->state. */
static enum status ask(struct call *call, call_next next)
{
    return call_read_then(call, read_policies, call_alloc(call, sizeof(struct policy_page)), next);
}

/* ---- the requests ---------------------------------------------------------------------------- */

static enum status print_one(struct call *call, struct slice name, int64_t version,
                             struct slice body)
{
    struct policy policy;
    enum status status = parse(call, name, version, body, &policy);
    if (status == STATUS_OK)
        policy_print(&policy, &call->out);
    return status;
}

static enum status listed(struct call *call, enum status status)
{
    const struct policy_page *page = call->state;
    const char *preset;
    struct slice json;
    jsonw_array(&call->out);
    for (size_t i = 0; status == STATUS_OK && policy_preset(i, &preset, &json); i++) {
        if (!find_stored(page, slice_of(preset)))
            status = print_one(call, slice_of(preset), 0, json);
    }
    for (size_t i = 0; status == STATUS_OK && i < page->count; i++) {
        const struct stored_policy *stored = &page->stored[i];
        status = print_one(call, stored->name, stored->version, stored->body);
    }
    jsonw_array_end(&call->out);
    return status;
}

enum status policies_list(struct call *call)
{
    return ask(call, listed);
}

static enum status got(struct call *call, enum status status)
{
    struct policy policy;
    if (status == STATUS_OK)
        status = pick(call, call->state, call->id, &policy);
    if (status == STATUS_OK)
        policy_print(&policy, &call->out);
    return status;
}

enum status policies_get(struct call *call)
{
    return ask(call, got);
}

/* struct policy_put: a policy on its way in. */
struct policy_put {
    struct policy_command command;
    struct policy policy;
};

static enum status put(struct call *call, enum status status)
{
    struct policy_put *put = call->state;
    if (status != STATUS_OK)
        return status;
    put->policy.version = put->command.version;
    policy_print(&put->policy, &call->out);
    return STATUS_OK;
}

enum status policies_put(struct call *call)
{
    struct policy_put *own = call_alloc(call, sizeof(*own));
    if (!own)
        return call->status;
    enum status status = parse(call, call->id, 0, call->request->body, &own->policy);
    if (status != STATUS_OK)
        return status;
    own->command = (struct policy_command){.command = call_command(call, COMMAND_POLICY),
                                           .name = call->id,
                                           .body = call->request->body};
    return call_then(call, &own->command.command, put, own);
}

/* explained prints the delays before attempt 2, 3, ..., as they are before jitter. */
static enum status explained(struct call *call, enum status status)
{
    struct policy policy = {0};
    struct span total = {0};
    struct jsonw *out = &call->out;
    if (status == STATUS_OK)
        status = pick(call, call->state, call->id, &policy);
    if (status != STATUS_OK)
        return status;
    jsonw_object(out);
    jsonw_put_string(out, "name", policy.name);
    jsonw_put_int(out, "max_attempts", policy.max_attempts);
    jsonw_key(out, "delays");
    jsonw_array(out);
    for (uint32_t n = 1; n < policy.max_attempts; n++) {
        struct span delay = policy_delay(&policy, n);
        /* A delay is at most ten years and there are under a thousand: the sum fits. */
        total.us += delay.us;
        jsonw_double(out, span_to_seconds(delay));
    }
    jsonw_array_end(out);
    jsonw_put_double(out, "total_seconds", span_to_seconds(total));
    jsonw_put_bool(out, "jitter", policy.jitter != JITTER_NONE);
    jsonw_object_end(out);
    return STATUS_OK;
}

enum status policies_explain(struct call *call)
{
    return ask(call, explained);
}
