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

static enum status unknown(struct call *call, const struct policy_page *page, struct slice name)
{
    struct buf known;
    const char *preset;
    struct slice json;
    buf_init(&known, 300);
    for (size_t i = 0; policy_preset(i, &preset, &json); i++)
        buf_addf(&known, "%s%s", i ? ", " : "", preset);
    for (size_t i = 0; i < page->count; i++)
        buf_addf(&known, ", %.*s", SLICE_ARG(page->stored[i].name));
    err_set(&call->err, STATUS_NOT_FOUND, "no policy is named \"%.*s\"; there are: %s",
            SLICE_ARG(name), buf_str(&known));
    buf_release(&known);
    return STATUS_NOT_FOUND;
}

enum status policies_find(struct call *call, struct slice name, struct policy *out)
{
    struct policy_page page;
    const char *preset;
    struct slice json;
    enum status status = call_read(call, read_policies, &page, &call->arena);
    if (status != STATUS_OK)
        return status;
    const struct stored_policy *stored = find_stored(&page, name);
    if (stored)
        return parse(call, stored->name, stored->version, stored->body, out);
    for (size_t i = 0; policy_preset(i, &preset, &json); i++) {
        if (slice_is(name, preset))
            return parse(call, slice_of(preset), 0, json, out);
    }
    return unknown(call, &page, name);
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

enum status policies_list(struct call *call)
{
    struct policy_page page;
    const char *preset;
    struct slice json;
    enum status status = call_read(call, read_policies, &page, &call->arena);
    if (status != STATUS_OK)
        return status;
    jsonw_array(&call->out);
    for (size_t i = 0; policy_preset(i, &preset, &json) && status == STATUS_OK; i++) {
        if (!find_stored(&page, slice_of(preset)))
            status = print_one(call, slice_of(preset), 0, json);
    }
    for (size_t i = 0; i < page.count && status == STATUS_OK; i++)
        status = print_one(call, page.stored[i].name, page.stored[i].version, page.stored[i].body);
    jsonw_array_end(&call->out);
    return status;
}

enum status policies_get(struct call *call)
{
    struct policy policy;
    enum status status = policies_find(call, call->id, &policy);
    if (status == STATUS_OK)
        policy_print(&policy, &call->out);
    return status;
}

enum status policies_put(struct call *call)
{
    struct policy policy;
    enum status status = parse(call, call->id, 0, call->request->body, &policy);
    if (status != STATUS_OK)
        return status;
    struct policy_command command = {.command = call_command(call, COMMAND_POLICY),
                                     .name = call->id,
                                     .body = call->request->body};
    status = call_run(call, &command.command);
    if (status != STATUS_OK)
        return status;
    policy.version = command.version;
    policy_print(&policy, &call->out);
    return STATUS_OK;
}

/* policies_explain prints the delays before attempt 2, 3, ..., as they are before jitter. */
enum status policies_explain(struct call *call)
{
    struct policy policy = {0};
    struct span total = {0};
    struct jsonw *out = &call->out;
    enum status status = policies_find(call, call->id, &policy);
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
