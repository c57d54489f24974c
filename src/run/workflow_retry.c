/* workflow_retry: `retry_config`, in the words of the map system, as a policy of INTERFACES 3.
 *
 *     read      every key becomes a member of a policy: initial_delay: 2s is
 *               "initial_delay_seconds":2.  The value it came from is kept, for its place
 *     complete  what is not said is as in the preset `map`; what follows from what is said
 *     check     policy_parse has the last word; an error of it is said with the words and the place
 *               in the file
 *
 * The result is printed whole: it says everything, whatever the preset is elsewhere. */
#include <stdio.h>

#include "base/jsonw.h"
#include "base/number.h"
#include "core/envelope.h"
#include "core/field.h"
#include "core/policy.h"
#include "run/workflow_internal.h"

#define PRESET "map"
#define PREFIX "error_policy.retry_config."
#define MEMBERS_MAX 32              /* more than a policy has members */
#define POLICY_BYTES_MAX (32 << 20) /* more than a workflow can have */

/* struct member: of the policy to be. */
struct member {
    const char *name;   /* of INTERFACES 3 */
    struct slice value; /* JSON */
    const char *key;    /* as it stands in the file, for errors */
    struct json at;     /* where */
};

struct retry {
    struct member members[MEMBERS_MAX];
    size_t count;
};

/* ---- members -------------------------------------------------------------------------------- */

static struct member *find(struct retry *retry, const char *name)
{
    for (size_t i = 0; i < retry->count; i++)
        if (strcmp(retry->members[i].name, name) == 0)
            return &retry->members[i];
    return NULL;
}

/* add adds a member that a key stands for.  Two keys can mean the same one. */
static enum status add(struct flow *flow, struct retry *retry, const char *name, struct slice value,
                       const char *key, struct json at)
{
    const struct member *other = find(retry, name);

    if (other)
        return flow_wrong(flow, at, "%s: says again what %s has said", key, other->key);
    BUG_ON(retry->count == MEMBERS_MAX);
    retry->members[retry->count++] = (struct member){name, value, key, at};
    return STATUS_OK;
}

/* imply adds a member that nobody named. */
static void imply(struct retry *retry, const char *name, struct slice value)
{
    BUG_ON(retry->count == MEMBERS_MAX);
    if (!find(retry, name))
        retry->members[retry->count++] = (struct member){name, value, NULL, {0}};
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* put adds the member of a key as it stands in the file. */
static enum status put(struct flow *flow, const struct flow_key *key, struct json value,
                       void *field)
{
    return add(flow, field, key->more, value.raw, key->name, value);
}

/* add_seconds appends a time as a number of seconds. */
static enum status add_seconds(struct flow *flow, const struct flow_key *key, struct json value,
                               struct buf *out)
{
    double seconds;
    char text[NUMBER_TEXT_SIZE];

    if (!flow_seconds(flow, value, &seconds))
        return flow_at(flow, value,
                       field_wrong(key->name, "a time such as 30 (seconds), 500ms, 2s, 5m or 1h",
                                   value, flow->err));
    buf_add(out, text, number_format(seconds, text));
    return STATUS_OK;
}

/* add_times appends a time, or a list of them. */
static enum status add_times(struct flow *flow, const struct flow_key *key, struct json value,
                             struct buf *out)
{
    struct json_iter iter;
    struct json entry;
    enum status status = STATUS_OK;

    if (value.type != JSON_ARRAY)
        return add_seconds(flow, key, value, out);
    buf_add_char(out, '[');
    json_iter_init(&iter, value);
    for (size_t i = 0; status == STATUS_OK && json_next(&iter, NULL, &entry); i++) {
        buf_add_str(out, i ? "," : "");
        status = add_seconds(flow, key, entry, out);
    }
    buf_add_char(out, ']');
    return status;
}

/* keep moves what was written into the arena. */
static enum status keep(struct flow *flow, const struct buf *text, struct slice *out)
{
    enum status status = buf_status(text, flow->err);

    if (status != STATUS_OK)
        return status;
    *out = arena_dup(flow->arena, buf_slice(text));
    return out->ptr ? STATUS_OK : err_no_memory(flow->err);
}

/* put_time adds the member of a key whose value is a time, or of times a list. */
static enum status put_time(struct flow *flow, const struct flow_key *key, struct json value,
                            void *field)
{
    struct buf text;
    struct slice json;

    buf_init(&text, POLICY_BYTES_MAX);
    enum status status = add_times(flow, key, value, &text);
    if (status == STATUS_OK)
        status = keep(flow, &text, &json);
    if (status == STATUS_OK)
        status = add(flow, field, key->more, json, key->name, value);
    buf_release(&text);
    return status;
}

static enum status put_backoff(struct flow *flow, const struct flow_key *key, struct json value,
                               void *field);

#define NULLABLE .null_is_absent = true

static const struct flow_key keys[] = {
    {PREFIX "max_attempts", put, .more = "max_attempts", NULLABLE},
    {PREFIX "attempts", put, .more = "max_attempts"},
    {PREFIX "backoff", put_backoff, .more = "backoff_strategy"},
    {PREFIX "initial_delay", put_time, .more = "initial_delay_seconds"},
    {PREFIX "max_delay", put_time, .more = "max_delay_seconds"},
    {PREFIX "multiplier", put, .more = "multiplier", NULLABLE},
    {PREFIX "increment", put_time, .more = "increment_seconds"},
    {PREFIX "schedule", put_time, .more = "schedule_seconds"},
    {PREFIX "jitter", put, .more = "jitter", NULLABLE},
    {PREFIX "jitter_mode", put, .more = "jitter_mode", NULLABLE},
    {PREFIX "jitter_factor", put, .more = "jitter_factor", NULLABLE},
    {PREFIX "retry_budget", put_time, .more = "retry_budget_seconds"},
    {PREFIX "first_attempt_delay", put_time, .more = "first_attempt_delay_seconds"},
    {PREFIX "retry_on", put, .more = "retry_on", NULLABLE},
    {PREFIX "never_retry", put, .more = "never_retry", NULLABLE},
    /* The members of a policy by their own names, so that one can be pasted. */
    {PREFIX "backoff_strategy", put, .more = "backoff_strategy", NULLABLE},
    {PREFIX "initial_delay_seconds", put, .more = "initial_delay_seconds", NULLABLE},
    {PREFIX "max_delay_seconds", put, .more = "max_delay_seconds", NULLABLE},
    {PREFIX "increment_seconds", put, .more = "increment_seconds", NULLABLE},
    {PREFIX "schedule_seconds", put, .more = "schedule_seconds", NULLABLE},
    {PREFIX "retry_budget_seconds", put, .more = "retry_budget_seconds", NULLABLE},
    {PREFIX "first_attempt_delay_seconds", put, .more = "first_attempt_delay_seconds", NULLABLE},
};
static const struct flow_section section = FLOW_SECTION("error_policy.retry_config", keys);

static const struct flow_key backoff_keys[] = {
    {PREFIX "backoff.type", put, .more = "backoff_strategy"},
    {PREFIX "backoff.initial", put_time, .more = "initial_delay_seconds"},
    {PREFIX "backoff.delay", put_time, .more = "initial_delay_seconds"},
    {PREFIX "backoff.multiplier", put, .more = "multiplier"},
    {PREFIX "backoff.base", put, .more = "multiplier"},
    {PREFIX "backoff.increment", put_time, .more = "increment_seconds"},
    {PREFIX "backoff.max", put_time, .more = "max_delay_seconds"},
    {PREFIX "backoff.delays", put_time, .more = "schedule_seconds"},
};
static const struct flow_section backoff_section =
    FLOW_SECTION("error_policy.retry_config.backoff", backoff_keys);

/* strategy_of is the strategy that a mapping has as its only key: {fixed: {delay: 5s}}. */
static bool strategy_of(struct json backoff, struct json *key, struct json *rest,
                        struct slice *strategy)
{
    static const struct {
        const char *key;
        struct slice json;
    } strategies[] = {
        {"exponential", SLICE("\"exponential\"")}, {"fixed", SLICE("\"fixed\"")},
        {"linear", SLICE("\"linear\"")},           {"fibonacci", SLICE("\"fibonacci\"")},
        {"schedule", SLICE("\"schedule\"")},       {"custom", SLICE("\"schedule\"")},
    };
    struct json_iter iter;

    json_iter_init(&iter, backoff);
    if (json_count(backoff) != 1 || !json_next(&iter, key, rest))
        return false;
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        if (json_string_is(*key, strategies[i].key)) {
            *strategy = strategies[i].json;
            return true;
        }
    }
    return false;
}

/* put_backoff reads a strategy's name, a mapping with its `type`, or one that has it as its key. */
static enum status put_backoff(struct flow *flow, const struct flow_key *key, struct json value,
                               void *field)
{
    struct json tag, rest;
    struct slice strategy;

    if (value.type == JSON_STRING)
        return put(flow, key, value, field);
    if (value.type != JSON_OBJECT || !strategy_of(value, &tag, &rest, &strategy))
        return flow_keys(flow, &backoff_section, value, field);
    enum status status = add(flow, field, key->more, strategy, key->name, tag);
    return status == STATUS_OK ? flow_keys(flow, &backoff_section, rest, field) : status;
}

/* ---- the policy ----------------------------------------------------------------------------- */

static enum status preset(struct flow *flow, struct json *out)
{
    const char *name;
    struct slice json;

    for (size_t i = 0; policy_preset(i, &name, &json); i++)
        if (strcmp(name, PRESET) == 0)
            return json_parse(json, out, flow->err);
    BUG("there is no preset " PRESET);
}

/* imply_schedule: a list of times is a strategy, and as many retries as it has entries. */
static enum status imply_schedule(struct flow *flow, struct retry *retry)
{
    const struct member *schedule = find(retry, "schedule_seconds");
    struct json list;

    if (!schedule)
        return STATUS_OK;
    imply(retry, "backoff_strategy", SLICE("\"schedule\""));
    if (json_parse(schedule->value, &list, NULL) != STATUS_OK || list.type != JSON_ARRAY)
        return STATUS_OK; /* policy_parse will say so */
    struct slice runs = arena_printf(flow->arena, "%zu", json_count(list) + 1);
    if (!runs.ptr)
        return err_no_memory(flow->err);
    imply(retry, "max_attempts", runs);
    return STATUS_OK;
}

/* complete adds what follows from what was said, and then what the preset says, but for the longest
 * delay, which settle_cap finds. */
static enum status complete(struct flow *flow, struct retry *retry, struct json defaults)
{
    struct json_iter iter;
    struct json key, value;

    if (find(retry, "jitter_factor"))
        imply(retry, "jitter_mode", SLICE("\"proportional\""));
    if (find(retry, "jitter_mode"))
        imply(retry, "jitter", SLICE("true"));
    enum status status = imply_schedule(flow, retry);
    json_iter_init(&iter, defaults);
    while (status == STATUS_OK && json_next(&iter, &key, &value)) {
        struct slice name = arena_dup(flow->arena, json_text(key, flow->arena));
        if (!name.ptr)
            return err_no_memory(flow->err);
        if (!slice_is(name, "max_delay_seconds"))
            imply(retry, name.ptr, value.raw);
    }
    return status;
}

/* check_schedule: the strategy `schedule` is nothing without its times. */
static enum status check_schedule(struct flow *flow, struct retry *retry)
{
    const struct member *strategy = find(retry, "backoff_strategy");

    if (!strategy || !slice_is(strategy->value, "\"schedule\"") || find(retry, "schedule_seconds"))
        return STATUS_OK;
    return flow_wrong(flow, strategy->at, "%s: schedule needs the times: schedule: [1s, 10s, 1m]",
                      strategy->key);
}

/* settle_cap: without a word about it no delay is longer than the preset's longest, or than the
 * longest that the file names. */
static void settle_cap(struct json defaults, struct policy *policy)
{
    struct json cap;
    double seconds;

    if (!json_get(defaults, "max_delay_seconds", &cap) || !json_double(cap, &seconds))
        BUG("the preset " PRESET " has no max_delay_seconds");
    policy->max_delay = span_from_seconds(seconds);
    if (policy->max_delay.us < policy->initial_delay.us)
        policy->max_delay = policy->initial_delay;
    for (uint32_t i = 0; i < policy->schedule_count; i++)
        if (policy->max_delay.us < policy->schedule[i].us)
            policy->max_delay = policy->schedule[i];
}

/* explain says an error of policy_parse, which begins with a member's name, in the file's words. */
static enum status explain(struct flow *flow, const struct retry *retry, struct json config,
                           enum status status)
{
    struct slice said = slice_of(flow->err->text);

    if (status != STATUS_INVALID)
        return status;
    for (size_t i = 0; i < retry->count; i++) {
        const struct member *member = &retry->members[i];
        size_t len = strlen(member->name);
        if (member->key && slice_starts(said, slice_of(member->name)) && said.ptr[len] == ':')
            return flow_wrong(flow, member->at, "%s%s", member->key, said.ptr + len);
    }
    err_prefix(flow->err, "error_policy.retry_config");
    return flow_at(flow, config, status);
}

/* parse makes the policy of its members. */
static enum status parse(struct flow *flow, struct retry *retry, struct json config,
                         struct policy *out)
{
    struct buf text;
    struct jsonw w;
    struct slice json;
    struct json object;

    buf_init(&text, POLICY_BYTES_MAX);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    for (size_t i = 0; i < retry->count; i++)
        jsonw_put_raw(&w, retry->members[i].name, retry->members[i].value);
    jsonw_object_end(&w);
    enum status status = keep(flow, &text, &json);
    if (status == STATUS_OK)
        status = json_parse(json, &object, flow->err);
    if (status == STATUS_OK)
        status = policy_parse(object, flow->arena, out, flow->err);
    buf_release(&text);
    return explain(flow, retry, config, status);
}

static enum status print(struct flow *flow, const struct policy *policy, struct slice *out)
{
    struct buf text;
    struct jsonw w;

    buf_init(&text, POLICY_BYTES_MAX);
    jsonw_init(&w, &text);
    policy_print(policy, &w);
    enum status status = keep(flow, &text, out);
    buf_release(&text);
    return status;
}

static enum status read_name(struct flow *flow, struct json value, struct slice *out)
{
    struct slice name = json_text(value, flow->arena);

    if (!name.ptr)
        return err_no_memory(flow->err);
    enum status status =
        envelope_name_check("error_policy.retry_config", name, POLICY_NAME_MAX, flow->err);
    if (status == STATUS_OK)
        *out = value.raw;
    return flow_at(flow, value, status);
}

enum status workflow_retry_read(struct flow *flow, struct json value, struct slice *out)
{
    struct retry retry = {0};
    struct policy policy;
    struct json defaults;

    if (value.type == JSON_STRING)
        return read_name(flow, value, out);
    if (value.type != JSON_OBJECT)
        return flow_at(flow, value,
                       field_wrong("error_policy.retry_config",
                                   "a policy's name or a mapping of keys", value, flow->err));
    enum status status = preset(flow, &defaults);
    if (status == STATUS_OK)
        status = flow_keys(flow, &section, value, &retry);
    if (status == STATUS_OK)
        status = check_schedule(flow, &retry);
    if (status == STATUS_OK)
        status = complete(flow, &retry, defaults);
    if (status == STATUS_OK)
        status = parse(flow, &retry, value, &policy);
    if (status != STATUS_OK)
        return status;
    if (!find(&retry, "max_delay_seconds"))
        settle_cap(defaults, &policy);
    return print(flow, &policy, out);
}
