/* workflow_policy: what happens when an item fails: `error_policy`. */
#include <stdio.h>

#include "core/field.h"
#include "run/workflow_internal.h"

#define FAILURES_MAX 1000000000 /* more than a run has items */

static const char *const names[] = {
    [ON_FAILURE_DLQ] = "dlq",   [ON_FAILURE_RETRY] = "retry",   [ON_FAILURE_SKIP] = "skip",
    [ON_FAILURE_STOP] = "stop", [ON_FAILURE_CUSTOM] = "custom",
};

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

const char *on_failure_name(enum on_failure on_failure)
{
    if ((unsigned)on_failure >= NAME_COUNT)
        BUG("no such on_item_failure: %d", (int)on_failure);
    return names[on_failure];
}

bool on_failure_from_name(struct slice name, enum on_failure *out)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (slice_is(name, names[i])) {
            *out = (enum on_failure)i;
            return true;
        }
    }
    return false;
}

/* struct reading: an error policy that is being read.  Of what depends on two keys the values are
 * kept, for their places. */
struct reading {
    enum on_failure on_failure;
    struct json on_failure_at;
    struct json custom;
    bool go_on;
    struct json failures_max_at;
    int64_t failures_max;
    double failure_threshold;
    struct slice policy;
};

static enum status read_on_failure(struct flow *flow, const struct flow_key *key, struct json value,
                                   void *field)
{
    struct reading *r = field;
    struct slice name = value.type == JSON_STRING ? json_text(value, flow->arena) : SLICE("");

    if (!name.ptr)
        return err_no_memory(flow->err);
    if (!on_failure_from_name(name, &r->on_failure))
        return flow_at(
            flow, value,
            field_wrong(key->name, "dlq, retry, skip, stop or custom", value, flow->err));
    r->on_failure_at = value;
    return STATUS_OK;
}

static enum status read_failures_max(struct flow *flow, const struct flow_key *key,
                                     struct json value, void *field)
{
    struct reading *r = field;

    r->failures_max_at = value;
    return flow_int(flow, key, value, &r->failures_max);
}

static enum status read_threshold(struct flow *flow, const struct flow_key *key, struct json value,
                                  void *field)
{
    double number;

    if (!json_double(value, &number) || number <= 0 || number > 1)
        return flow_at(flow, value,
                       field_wrong(key->name, "a share from 0 to 1 and more than 0, such as 0.2",
                                   value, flow->err));
    *(double *)field = number;
    return STATUS_OK;
}

static enum status read_retry(struct flow *flow, const struct flow_key *key, struct json value,
                              void *field)
{
    (void)key;
    return workflow_retry_read(flow, value, field);
}

#define FIELD(field) .offset = offsetof(struct reading, field)

static const struct flow_key keys[] = {
    {"error_policy.on_item_failure", read_on_failure, .offset = 0},
    {"error_policy.custom", flow_value, FIELD(custom)},
    {"error_policy.continue_on_failure", flow_bool, FIELD(go_on)},
    {"error_policy.max_failures", read_failures_max, .min = 1, .max = FAILURES_MAX},
    {"error_policy.failure_threshold", read_threshold, FIELD(failure_threshold)},
    {"error_policy.retry_config", read_retry, FIELD(policy)},
};
static const struct flow_section section = FLOW_SECTION("error_policy", keys);

/* settle_custom: the handler's script is there exactly when it is asked for. */
static enum status settle_custom(struct flow *flow, const struct reading *r, struct slice *out)
{
    static const struct flow_key key = {.name = "error_policy.custom"};
    bool given = r->custom.raw.len > 0;

    if (r->on_failure == ON_FAILURE_CUSTOM && !given)
        return flow_wrong(flow, r->on_failure_at,
                          "error_policy.custom is missing: the script that decides, by its exit "
                          "code, about an item that failed");
    if (r->on_failure != ON_FAILURE_CUSTOM && given)
        return flow_wrong(flow, r->custom, "error_policy.custom: is for on_item_failure: custom");
    return given ? workflow_steps_aside(flow, &key, r->custom, out) : STATUS_OK;
}

/* settle_limit: a run that does not go on after a failure stops at the first one. */
static enum status settle_limit(struct flow *flow, struct reading *r)
{
    if (r->go_on)
        return STATUS_OK;
    if (r->failures_max_at.raw.len > 0)
        return flow_wrong(flow, r->failures_max_at,
                          "error_policy.max_failures: continue_on_failure: false stops at the "
                          "first failure; leave one of them out");
    r->failures_max = 1;
    return STATUS_OK;
}

enum status workflow_policy_read(struct flow *flow, struct json value, struct workflow *out)
{
    struct reading r = {.go_on = true, .failures_max = -1, .failure_threshold = -1};
    struct slice custom = {0};
    enum status status = flow_keys(flow, &section, value, &r);

    if (status == STATUS_OK)
        status = settle_custom(flow, &r, &custom);
    if (status == STATUS_OK)
        status = settle_limit(flow, &r);
    if (status != STATUS_OK)
        return status;
    out->on_failure = r.on_failure;
    out->custom = custom;
    out->failures_max = r.failures_max;
    out->failure_threshold = r.failure_threshold;
    out->policy = r.policy;
    return STATUS_OK;
}
