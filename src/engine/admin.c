/* admin.c: queues, groups and policies: what an operator sets.
 *
 * Policies are kept parsed.  A name finds the stored policy, else the preset; the version in force
 * stands in every decision. */
#include "engine/internal.h"

#include "base/mem.h"

/* ---- queues and groups ----------------------------------------------------------------------- */

enum status queue_apply(struct engine *engine, struct queue_command *command)
{
    struct err *err = &command->command.err;
    struct store *store = engine->store;
    uint32_t queue;
    enum status status = envelope_name_check("queue", command->queue, ENVELOPE_QUEUE_MAX, err);
    if (!status)
        status = store->queue_number(store, command->queue, &queue, err);
    if (status)
        return status;
    if (store->queue_paused(store, queue) == command->paused)
        return STATUS_OK;
    engine->ready_changed = engine->ready_changed || !command->paused;
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "queue", command->queue);
    status = event_end(engine, &why, command->command.actor, NULL,
                       command->paused ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED, err);
    if (!status)
        status = store->queue_pause(store, queue, command->paused, err);
    if (!status && !command->paused)
        store->assignment_restart(store, queue, engine->now);
    return status;
}

enum status group_apply(struct engine *engine, struct group_command *command)
{
    static const char *const names[] = {"open", "resolved", "ignored"};
    struct err *err = &command->command.err;
    struct store *store = engine->store;
    struct letter_group group;
    enum status status = store->group_get(store, command->fingerprint, engine->now,
                                          command->command.arena, &group, err);
    if (status)
        return status;
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "fingerprint", command->fingerprint);
    jsonw_put_str(&why, "status", names[command->status]);
    jsonw_put_text(&why, "note", command->note);
    status = event_end(engine, &why, command->command.actor, NULL, EVENT_GROUP_SET, err);
    return status ? status : store->group_set(store, command->fingerprint, command->status, err);
}

/* ---- policies -------------------------------------------------------------------------------- */

void policies_release(struct engine *engine)
{
    for (size_t i = 0; i < engine->policy_count; i++)
        arena_release(&engine->policies[i].arena);
    mem_free(engine->policies);
    engine->policies = NULL;
    engine->policy_count = engine->policy_cap = 0;
}

/* named_parse reads a policy into an arena of its own. */
static enum status named_parse(struct slice name, struct slice body, int64_t version,
                               struct named_policy *out, struct err *err)
{
    struct json json;
    *out = (struct named_policy){0};
    struct slice own_name = arena_dup(&out->arena, name);
    struct slice own_body = arena_dup(&out->arena, body);
    enum status status = own_name.ptr && own_body.ptr ? STATUS_OK : err_no_memory(err);
    if (!status)
        status = json_parse(own_body, &json, err);
    if (!status)
        status = policy_parse(json, &out->arena, &out->policy, err);
    if (status) {
        arena_release(&out->arena);
        return status;
    }
    out->policy.name = own_name;
    out->policy.version = version;
    return STATUS_OK;
}

static struct named_policy *named_find(const struct engine *engine, struct slice name)
{
    for (size_t i = 0; i < engine->policy_count; i++)
        if (slice_eq(engine->policies[i].policy.name, name))
            return &engine->policies[i];
    return NULL;
}

/* named_set puts a parsed policy into the table, in the place of one with its name. */
static enum status named_set(struct engine *engine, struct named_policy *policy, struct err *err)
{
    struct named_policy *there = named_find(engine, policy->policy.name);
    needs_forget(engine->needs);
    if (there) {
        arena_release(&there->arena);
        *there = *policy;
        return STATUS_OK;
    }
    if (engine->policy_count == engine->policy_cap) {
        size_t cap = engine->policy_cap ? engine->policy_cap * 2 : 16;
        struct named_policy *grown = mem_realloc(engine->policies, cap * sizeof(*grown));
        if (!grown) {
            arena_release(&policy->arena);
            return err_no_memory(err);
        }
        engine->policies = grown;
        engine->policy_cap = cap;
    }
    engine->policies[engine->policy_count++] = *policy;
    return STATUS_OK;
}

static enum status named_add(struct engine *engine, struct slice name, struct slice body,
                             int64_t version, struct err *err)
{
    struct named_policy policy;
    enum status status = named_parse(name, body, version, &policy, err);
    return status ? status : named_set(engine, &policy, err);
}

static enum status load_presets(struct engine *engine, struct err *err)
{
    const char *name;
    struct slice json;
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && policy_preset(i, &name, &json); i++)
        status = named_add(engine, slice_of(name), json, 0, err);
    return status;
}

/* load_stored reads a policy that was valid when it was stored. */
static enum status load_stored(struct engine *engine, const struct stored_policy *stored,
                               struct err *err)
{
    struct err why = {0};
    enum status status = named_add(engine, stored->name, stored->body, stored->version, &why);
    if (!status || status_is_fault(status)) {
        *err = why;
        return status;
    }
    return err_set(err, STATUS_CORRUPT, "the store is damaged: policy \"%.*s\": %s",
                   SLICE_ARG(stored->name), why.text);
}

enum status policies_load(struct engine *engine, struct err *err)
{
    struct stored_policy *list = NULL;
    size_t count = 0;
    struct arena arena = {0};
    policies_release(engine);
    enum status status = load_presets(engine, err);
    if (!status)
        status = engine->store->policy_list(engine->store, &arena, &list, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        status = load_stored(engine, &list[i], err);
    arena_release(&arena);
    return status;
}

const struct policy *policy_find(const struct engine *engine, struct slice name)
{
    struct named_policy *policy = named_find(engine, name);
    return policy ? &policy->policy : NULL;
}

/* unknown_policy names the policies that there are. */
static enum status unknown_policy(const struct engine *engine, struct slice name, struct err *err)
{
    struct buf known;
    buf_init(&known, 300);
    for (size_t i = 0; i < engine->policy_count; i++)
        buf_addf(&known, "%s%.*s", i ? ", " : "", SLICE_ARG(engine->policies[i].policy.name));
    err_set(err, STATUS_INVALID, "retry_policy: no policy is named \"%.*s\"; known are: %s",
            SLICE_ARG(name), buf_str(&known));
    buf_release(&known);
    return STATUS_INVALID;
}

enum status engine_policy(struct engine *engine, struct slice name, struct policy *out,
                          struct err *err)
{
    const struct policy *policy = policy_find(engine, name);
    if (!policy) {
        unknown_policy(engine, name, err);
        return STATUS_NOT_FOUND;
    }
    *out = *policy;
    return STATUS_OK;
}

enum status policy_of(struct engine *engine, const struct envelope *envelope, struct arena *arena,
                      struct policy *out, struct err *err)
{
    if (envelope->policy_inline.raw.len) {
        enum status status = policy_parse(envelope->policy_inline, arena, out, err);
        if (status && !status_is_fault(status))
            err_prefix(err, "retry_policy");
        return status;
    }
    struct slice name = envelope->policy_name;
    if (!name.len)
        name = slice_of(POLICY_DEFAULT);
    const struct policy *policy = policy_find(engine, name);
    if (!policy)
        return unknown_policy(engine, name, err);
    *out = *policy;
    return STATUS_OK;
}

/* record_policy writes the whole policy into the evidence: decisions name its version. */
static enum status record_policy(struct engine *engine, const struct policy_command *command,
                                 const struct policy *policy, struct err *err)
{
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "name", command->name);
    jsonw_put_int(&why, "version", command->version);
    jsonw_key(&why, "policy");
    policy_print(policy, &why);
    return event_end(engine, &why, command->command.actor, NULL, EVENT_POLICY_SET, err);
}

enum status policy_apply(struct engine *engine, struct policy_command *command)
{
    struct err *err = &command->command.err;
    struct named_policy policy;
    enum status status = envelope_name_check("name", command->name, POLICY_NAME_MAX, err);
    if (!status)
        status = named_parse(command->name, command->body, 0, &policy, err);
    if (status)
        return status;
    status = engine->store->policy_put(engine->store, command->name, command->body, engine->now,
                                       &command->version, err);
    policy.policy.version = command->version;
    if (!status)
        status = record_policy(engine, command, &policy.policy, err);
    if (status) {
        arena_release(&policy.arena);
        return status;
    }
    return named_set(engine, &policy, err);
}
