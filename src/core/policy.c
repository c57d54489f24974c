/* policy: reading, printing and applying a retry policy.
 *
 * Three parts, in this order:
 *   reading    one row of `members` for each member of INTERFACES 3, each with its reader; null is
 *              the same as absent, standing twice is an error
 *   printing   the same members, every one written out, so that `policy show` hides no default
 *   delays     one function for each backoff strategy, then the jitter
 *
 * Invariants of a policy that policy_parse made: 1 <= max_attempts <= POLICY_ATTEMPTS_MAX; all
 * spans but an absent budget are in 0 to ten years; a schedule strategy has at least one entry.  So
 * the delays need no checks but the cap, and products of a span and an attempt number fit 64 bits.
 *
 * `name` and `version` are labels that the store gives a policy: they are printed, and accepted but
 * not believed when read. */
#include "core/policy.h"

#include "base/distance.h"
#include "core/field.h"

#define SECONDS_MAX (10.0 * 365 * 24 * 3600) /* the longest delay that may be asked for */
#define ASSIGNMENT_SECONDS_MIN 0.001
#define LIST_MAX 64            /* entries of retry_on, never_retry and hints */
#define LIST_TEXT_MAX 200      /* bytes of a text in them */
#define ON_DEAD_MAX (64 << 10) /* bytes of on_dead */

static const char *const backoff_names[] = {
    [BACKOFF_EXPONENTIAL] = "exponential", [BACKOFF_FIXED] = "fixed",
    [BACKOFF_LINEAR] = "linear",           [BACKOFF_FIBONACCI] = "fibonacci",
    [BACKOFF_SCHEDULE] = "schedule",
};

static const char *const jitter_names[] = {
    [JITTER_FULL] = "full",
    [JITTER_EQUAL] = "equal",
    [JITTER_PROPORTIONAL] = "proportional",
};

/* ---- reading -------------------------------------------------------------------------------- */

/* struct reading: a policy that is being read.  What depends on two members is settled at the end.
 */
struct reading {
    struct policy policy;
    struct arena *arena;
    struct err *err;
    bool has_backoff;        /* backoff_strategy was given */
    bool has_assignment;     /* assignment_timeout_seconds was given */
    bool jitter;             /* `jitter` */
    enum jitter jitter_mode; /* `jitter_mode` */
    uint32_t seen;           /* bit i: members[i] was given */
};

struct member {
    const char *name;
    enum status (*read)(struct reading *r, const struct member *member, struct json value);
    size_t offset; /* of the field in struct policy, for readers that serve several members */
};

static void *field_of(struct reading *r, const struct member *member)
{
    return (char *)&r->policy + member->offset;
}

static enum status read_label(struct reading *r, const struct member *member, struct json value)
{
    (void)r, (void)member, (void)value;
    return STATUS_OK;
}

static enum status read_seconds(struct reading *r, const struct member *member, struct json value)
{
    double seconds;
    enum status status = field_double(member->name, value, 0, SECONDS_MAX, &seconds, r->err);

    if (status == STATUS_OK)
        *(struct span *)field_of(r, member) = span_from_seconds(seconds);
    return status;
}

static enum status read_max_attempts(struct reading *r, const struct member *member,
                                     struct json value)
{
    int64_t number;
    enum status status = field_int(member->name, value, 1, POLICY_ATTEMPTS_MAX, &number, r->err);

    if (status == STATUS_OK)
        r->policy.max_attempts = (uint32_t)number;
    return status;
}

static enum status read_multiplier(struct reading *r, const struct member *member,
                                   struct json value)
{
    return field_double(member->name, value, 1, 1000, &r->policy.multiplier, r->err);
}

static enum status read_jitter_factor(struct reading *r, const struct member *member,
                                      struct json value)
{
    return field_double(member->name, value, 0, 1, &r->policy.jitter_factor, r->err);
}

static enum status read_backoff(struct reading *r, const struct member *member, struct json value)
{
    for (int i = BACKOFF_EXPONENTIAL; i <= BACKOFF_SCHEDULE; i++) {
        if (json_string_is(value, backoff_names[i])) {
            r->policy.backoff = (enum backoff)i;
            r->has_backoff = true;
            return STATUS_OK;
        }
    }
    return field_wrong(member->name, "exponential, fixed, linear, fibonacci or schedule", value,
                       r->err);
}

static enum status read_jitter(struct reading *r, const struct member *member, struct json value)
{
    return field_bool(member->name, value, &r->jitter, r->err);
}

static enum status read_jitter_mode(struct reading *r, const struct member *member,
                                    struct json value)
{
    for (int i = JITTER_FULL; i <= JITTER_PROPORTIONAL; i++) {
        if (json_string_is(value, jitter_names[i])) {
            r->jitter_mode = (enum jitter)i;
            return STATUS_OK;
        }
    }
    return field_wrong(member->name, "full, equal or proportional", value, r->err);
}

static enum status check_array(struct reading *r, const struct member *member, struct json value,
                               size_t max)
{
    if (value.type != JSON_ARRAY)
        return field_wrong(member->name, "an array", value, r->err);
    if (json_count(value) > max)
        return err_set(r->err, STATUS_INVALID, "%s: has more than %zu entries", member->name, max);
    return STATUS_OK;
}

static enum status read_schedule(struct reading *r, const struct member *member, struct json value)
{
    struct json_iter iter;
    struct json entry;
    enum status status = check_array(r, member, value, POLICY_SCHEDULE_MAX);

    if (status != STATUS_OK)
        return status;
    json_iter_init(&iter, value);
    while (json_next(&iter, NULL, &entry)) {
        double seconds;
        status = field_double(member->name, entry, 0, SECONDS_MAX, &seconds, r->err);
        if (status != STATUS_OK)
            return status;
        r->policy.schedule[r->policy.schedule_count++] = span_from_seconds(seconds);
    }
    return STATUS_OK;
}

/* check_kind accepts what may stand in retry_on and never_retry.  A text that begins with a digit
 * is nearly always a status in quotes, which would silently match nothing. */
static enum status check_kind(struct reading *r, const struct member *member, struct json entry)
{
    static const char must[] =
        "a list of classes, error types and HTTP statuses (numbers from 100 to 599)";
    int64_t number;
    struct slice text;

    if (entry.type == JSON_NUMBER && json_int(entry, &number) && number >= 100 && number <= 599)
        return STATUS_OK;
    if (entry.type != JSON_STRING)
        return field_wrong(member->name, must, entry, r->err);
    enum status status = field_text(member->name, entry, r->arena, &text, r->err);
    if (status != STATUS_OK)
        return status;
    if (text.len == 0 || text.len > LIST_TEXT_MAX || (text.ptr[0] >= '0' && text.ptr[0] <= '9'))
        return field_wrong(member->name, must, entry, r->err);
    return STATUS_OK;
}

static enum status read_kinds(struct reading *r, const struct member *member, struct json value)
{
    struct json_iter iter;
    struct json entry;
    enum status status = check_array(r, member, value, LIST_MAX);

    json_iter_init(&iter, value);
    while (status == STATUS_OK && json_next(&iter, NULL, &entry))
        status = check_kind(r, member, entry);
    if (status == STATUS_OK && json_count(value) > 0)
        *(struct json *)field_of(r, member) = value;
    return status;
}

/* is_plain_word says whether a JSON string is written as a word of letters, digits, '-' and '_',
 * so that its text is the bytes between its quotes. */
static bool is_plain_word(struct json value)
{
    if (value.type != JSON_STRING || value.raw.len < 3 || value.raw.len > POLICY_NAME_MAX + 2)
        return false;
    for (size_t i = 1; i + 1 < value.raw.len; i++) {
        char c = value.raw.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return false;
    }
    return true;
}

/* is_share says whether a hint's min_match, when it has one, is a share.  A worker that has
 * nothing of what is required is no match, so it is not 0. */
static bool is_share(struct json hint)
{
    struct json value;
    double share;

    if (!json_get(hint, "min_match", &value) || value.type == JSON_NULL)
        return true;
    return json_double(value, &share) && share > 0 && share <= 1;
}

static enum status read_hints(struct reading *r, const struct member *member, struct json value)
{
    struct json_iter iter;
    struct json entry, match;
    enum status status = check_array(r, member, value, LIST_MAX);

    if (status != STATUS_OK)
        return status;
    json_iter_init(&iter, value);
    while (json_next(&iter, NULL, &entry)) {
        if (entry.type != JSON_OBJECT || !json_get(entry, "match", &match) || !is_plain_word(match))
            return field_wrong(member->name, "a list of objects such as {\"match\":\"best\"}",
                               entry, r->err);
        if (!is_share(entry))
            return field_wrong("hints.min_match", "a number above 0, up to 1", entry, r->err);
    }
    if (json_count(value) > 0)
        r->policy.hints = value;
    return STATUS_OK;
}

static enum status read_assignment(struct reading *r, const struct member *member,
                                   struct json value)
{
    double seconds;
    enum status status =
        field_double(member->name, value, ASSIGNMENT_SECONDS_MIN, SECONDS_MAX, &seconds, r->err);

    if (status != STATUS_OK)
        return status;
    r->policy.assignment_timeout = span_from_seconds(seconds);
    r->has_assignment = true;
    return STATUS_OK;
}

static enum status read_on_dead(struct reading *r, const struct member *member, struct json value)
{
    if (value.type != JSON_OBJECT)
        return field_wrong(member->name, "an object", value, r->err);
    if (value.raw.len > ON_DEAD_MAX)
        return err_set(r->err, STATUS_INVALID, "%s: has more than %d bytes", member->name,
                       ON_DEAD_MAX);
    r->policy.on_dead = value;
    return STATUS_OK;
}

static enum status read_source(struct reading *r, const struct member *member, struct json value)
{
    struct slice text;
    enum status status = field_text(member->name, value, r->arena, &text, r->err);

    if (status != STATUS_OK)
        return status;
    if (text.len == 0 || text.len > LIST_TEXT_MAX)
        return field_wrong(member->name, "a text of 1 to 200 bytes", value, r->err);
    r->policy.evidence_source = text;
    return STATUS_OK;
}

#define FIELD(field) offsetof(struct policy, field)

static const struct member members[] = {
    {"max_attempts", read_max_attempts, 0},
    {"backoff_strategy", read_backoff, 0},
    {"initial_delay_seconds", read_seconds, FIELD(initial_delay)},
    {"multiplier", read_multiplier, 0},
    {"increment_seconds", read_seconds, FIELD(increment)},
    {"max_delay_seconds", read_seconds, FIELD(max_delay)},
    {"schedule_seconds", read_schedule, 0},
    {"jitter", read_jitter, 0},
    {"jitter_mode", read_jitter_mode, 0},
    {"jitter_factor", read_jitter_factor, 0},
    {"retry_budget_seconds", read_seconds, FIELD(retry_budget)},
    {"retry_on", read_kinds, FIELD(retry_on)},
    {"never_retry", read_kinds, FIELD(never_retry)},
    {"first_attempt_delay_seconds", read_seconds, FIELD(first_delay)},
    {"hints", read_hints, 0},
    {"assignment_timeout_seconds", read_assignment, 0},
    {"on_dead", read_on_dead, 0},
    {"evidence_source", read_source, 0},
    {"name", read_label, 0},
    {"version", read_label, 0},
    {"description", read_label, 0},
};

#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))
_Static_assert(MEMBER_COUNT <= 32, "struct reading has a bit for each member");

/* nearest_member is the known name that `name` was probably meant to be, or NULL: one that begins
 * so, else one that differs in a few letters. */
static const char *nearest_member(struct slice name)
{
    const char *nearest = NULL;
    size_t best = name.len / 3 + 2; /* farther than this is another word */

    if (name.len < 3 || name.len > DISTANCE_TEXT_MAX)
        return NULL;
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        struct slice known = slice_of(members[i].name);
        size_t far = slice_starts(known, name) ? 0 : distance(name, known);
        if (far < best) {
            best = far;
            nearest = members[i].name;
        }
    }
    return nearest;
}

static enum status unknown_member(struct reading *r, struct json key)
{
    struct slice name = json_text(key, r->arena);

    if (!name.ptr)
        return err_no_memory(r->err);
    const char *nearest = nearest_member(name);
    struct slice shown = field_head(name, FIELD_SHOWN_MAX);
    if (nearest)
        return err_set(r->err, STATUS_INVALID, "unknown member \"%.*s\"; did you mean \"%s\"?",
                       SLICE_ARG(shown), nearest);
    return err_set(r->err, STATUS_INVALID, "unknown member \"%.*s%s\"", SLICE_ARG(shown),
                   shown.len < name.len ? "..." : "");
}

static enum status read_member(struct reading *r, struct json key, struct json value)
{
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (!json_string_is(key, members[i].name))
            continue;
        if (r->seen & (1u << i))
            return err_set(r->err, STATUS_INVALID, "%s: stands twice", members[i].name);
        r->seen |= 1u << i;
        return value.type == JSON_NULL ? STATUS_OK : members[i].read(r, &members[i], value);
    }
    return unknown_member(r, key);
}

/* settle decides what depends on more than one member. */
static enum status settle(struct reading *r)
{
    struct policy *policy = &r->policy;

    if (!r->has_backoff && policy->schedule_count > 0)
        policy->backoff = BACKOFF_SCHEDULE;
    if (policy->backoff == BACKOFF_SCHEDULE && policy->schedule_count == 0)
        return err_set(r->err, STATUS_INVALID,
                       "schedule_seconds: must have an entry for the schedule strategy");
    if (r->has_assignment && policy->hints.raw.len == 0)
        return err_set(r->err, STATUS_INVALID,
                       "assignment_timeout_seconds: is for a policy with hints, whose jobs are "
                       "dispatched");
    policy->jitter = r->jitter ? r->jitter_mode : JITTER_NONE;
    return STATUS_OK;
}

static const struct policy defaults = {
    .max_attempts = 5,
    .backoff = BACKOFF_EXPONENTIAL,
    .initial_delay = {5 * INT64_C(1000000)},
    .multiplier = 2,
    .max_delay = {3600 * INT64_C(1000000)},
    .jitter_factor = 0.3,
    .retry_budget = {-1},
    .assignment_timeout = {30 * INT64_C(1000000)},
};

enum status policy_parse(struct json object, struct arena *arena, struct policy *out,
                         struct err *err)
{
    struct reading r = {
        .policy = defaults, .arena = arena, .err = err, .jitter = true, .jitter_mode = JITTER_FULL};
    struct json_iter iter;
    struct json key, value;

    if (object.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "a policy must be an object");
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        enum status status = read_member(&r, key, value);
        if (status != STATUS_OK)
            return status;
    }
    enum status status = settle(&r);
    if (status == STATUS_OK)
        *out = r.policy;
    return status;
}

/* ---- printing ------------------------------------------------------------------------------- */

static void print_seconds(struct jsonw *out, const char *key, struct span span)
{
    jsonw_put_double(out, key, span_to_seconds(span));
}

static void print_schedule(const struct policy *policy, struct jsonw *out)
{
    jsonw_key(out, "schedule_seconds");
    jsonw_array(out);
    for (uint32_t i = 0; i < policy->schedule_count; i++)
        jsonw_double(out, span_to_seconds(policy->schedule[i]));
    jsonw_array_end(out);
}

static void print_list(struct jsonw *out, const char *key, struct json list)
{
    jsonw_put_raw(out, key, list.raw.len > 0 ? list.raw : SLICE("[]"));
}

static void print_backoff(const struct policy *policy, struct jsonw *out)
{
    jsonw_put_int(out, "max_attempts", policy->max_attempts);
    jsonw_put_str(out, "backoff_strategy", backoff_names[policy->backoff]);
    print_seconds(out, "initial_delay_seconds", policy->initial_delay);
    jsonw_put_double(out, "multiplier", policy->multiplier);
    print_seconds(out, "increment_seconds", policy->increment);
    print_seconds(out, "max_delay_seconds", policy->max_delay);
    if (policy->schedule_count > 0)
        print_schedule(policy, out);
    jsonw_put_bool(out, "jitter", policy->jitter != JITTER_NONE);
    if (policy->jitter != JITTER_NONE)
        jsonw_put_str(out, "jitter_mode", jitter_names[policy->jitter]);
    jsonw_put_double(out, "jitter_factor", policy->jitter_factor);
}

void policy_print(const struct policy *policy, struct jsonw *out)
{
    jsonw_object(out);
    jsonw_put_text(out, "name", policy->name);
    if (policy->version > 0)
        jsonw_put_int(out, "version", policy->version);
    print_backoff(policy, out);
    if (policy->retry_budget.us >= 0)
        print_seconds(out, "retry_budget_seconds", policy->retry_budget);
    else
        jsonw_put_raw(out, "retry_budget_seconds", SLICE("null"));
    print_list(out, "retry_on", policy->retry_on);
    print_list(out, "never_retry", policy->never_retry);
    print_seconds(out, "first_attempt_delay_seconds", policy->first_delay);
    if (policy->hints.raw.len > 0) {
        jsonw_put_raw(out, "hints", policy->hints.raw);
        print_seconds(out, "assignment_timeout_seconds", policy->assignment_timeout);
    }
    if (policy->on_dead.raw.len > 0)
        jsonw_put_raw(out, "on_dead", policy->on_dead.raw);
    jsonw_put_text(out, "evidence_source", policy->evidence_source);
    jsonw_object_end(out);
}

/* ---- delays --------------------------------------------------------------------------------- */

/* exponential is initial * multiplier^(n-1), left as soon as it passes the cap. */
static int64_t exponential(const struct policy *policy, uint32_t n)
{
    double us = (double)policy->initial_delay.us;
    double cap = (double)policy->max_delay.us;

    for (uint32_t i = 1; i < n && us > 0 && us < cap; i++)
        us *= policy->multiplier;
    return us < cap ? (int64_t)(us + 0.5) : policy->max_delay.us;
}

/* linear is initial + increment * (n-1); without an increment the initial delay is the step. */
static int64_t linear(const struct policy *policy, uint32_t n)
{
    if (policy->increment.us == 0)
        return policy->initial_delay.us * n;
    return policy->initial_delay.us + policy->increment.us * (n - 1);
}

/* fibonacci is initial * 1, 1, 2, 3, 5, ..., left as soon as the product would pass the cap. */
static int64_t fibonacci(const struct policy *policy, uint32_t n)
{
    int64_t previous = 0, factor = 1;

    if (policy->initial_delay.us == 0)
        return 0;
    int64_t factor_max = policy->max_delay.us / policy->initial_delay.us;
    for (uint32_t i = 1; i < n && factor <= factor_max; i++) {
        int64_t next = previous + factor;
        previous = factor;
        factor = next;
    }
    return factor <= factor_max ? policy->initial_delay.us * factor : policy->max_delay.us;
}

/* scheduled is entry n; past the end the last one repeats. */
static int64_t scheduled(const struct policy *policy, uint32_t n)
{
    uint32_t count = policy->schedule_count;

    BUG_ON(count == 0);
    return policy->schedule[n <= count ? n - 1 : count - 1].us;
}

struct span policy_delay(const struct policy *policy, uint32_t n)
{
    int64_t us = 0;

    if (n == 0)
        n = 1;
    if (n > POLICY_ATTEMPTS_MAX)
        n = POLICY_ATTEMPTS_MAX;
    switch (policy->backoff) {
    case BACKOFF_EXPONENTIAL:
        us = exponential(policy, n);
        break;
    case BACKOFF_FIXED:
        us = policy->initial_delay.us;
        break;
    case BACKOFF_LINEAR:
        us = linear(policy, n);
        break;
    case BACKOFF_FIBONACCI:
        us = fibonacci(policy, n);
        break;
    case BACKOFF_SCHEDULE:
        us = scheduled(policy, n);
        break;
    }
    return (struct span){us < policy->max_delay.us ? us : policy->max_delay.us};
}

/* spread is uniform over 0 to `us`, both included.  A span fits the 53 bits of a double. */
static int64_t spread(int64_t us, uint64_t random)
{
    double unit = (double)(random >> 11) / (double)(UINT64_C(1) << 53); /* 0 <= unit < 1 */

    return (int64_t)(unit * (double)(us + 1));
}

struct span policy_jitter(const struct policy *policy, struct span delay, uint64_t random)
{
    int64_t us = delay.us;
    int64_t half = us / 2;
    int64_t swing = (int64_t)((double)us * policy->jitter_factor);

    switch (policy->jitter) {
    case JITTER_NONE:
        break;
    case JITTER_FULL:
        us = spread(us, random);
        break;
    case JITTER_EQUAL:
        us = half + spread(us - half, random);
        break;
    case JITTER_PROPORTIONAL:
        us = us - swing + spread(2 * swing, random);
        break;
    }
    return (struct span){us < policy->max_delay.us ? us : policy->max_delay.us};
}

struct slice policy_match_hint(const struct policy *policy, uint32_t n)
{
    struct slice hint = SLICE("best");
    struct json_iter iter;
    struct json entry, match;

    /* Past the last entry the last one repeats, as in a schedule. */
    json_iter_init(&iter, policy->hints);
    for (uint32_t i = 0; (i == 0 || i < n) && json_next(&iter, NULL, &entry); i++) {
        if (json_get(entry, "match", &match))
            hint = (struct slice){match.raw.ptr + 1, match.raw.len - 2};
    }
    return hint;
}
