/* retry: the one place where it is decided whether a failed job is tried again.
 *
 * The rules are tried from the top; the first that applies decides.  The name of the rule stands in
 * the evidence of every decision.
 *
 *   rule                applies when                                          quarantined as
 *   ------------------  ----------------------------------------------------  -----------------
 *   not_retry_eligible  the envelope says `retry_eligible: false`             not_retryable
 *   said_not_retryable  the worker said `retryable: false`                    not_retryable
 *   class_forbidden     the failure is a policy violation                     policy_denied
 *   class_forbidden     the failure is structural: its class is not retryable not_retryable
 *   policy_forbids      never_retry names it, or retry_on does not            not_retryable
 *   not_idempotent      it may have had side effects, and has no key          not_idempotent
 *   dependency_down     what it depends on is down for longer than max_delay  dependency_down
 *   interrupted         its runner was cut off, not ten times in a row yet    (retried at once)
 *   attempts_exhausted  no run is left, and the last one lost its worker      agent_crashed
 *   attempts_exhausted  no run is left                                        retries_exhausted
 *   budget_exhausted    the retry would begin after the retry budget's end    retries_exhausted
 *   retry_permitted     otherwise                                             (it is retried)
 *
 * A worker's `retryable: true` is no rule: it never overrides one.
 *
 * An interrupted attempt does not count, as it says nothing of the job; so neither does a policy's
 * list of what is worth a retry speak of it.  But the job may be what brings its runners down: from
 * the tenth interruption in a row on it is a crash like any other. */
#include "core/retry.h"

#include "core/reason.h"

/* struct inquiry: everything a rule may look at. */
struct inquiry {
    const struct policy *policy;
    const struct job *job;
    const struct failure *failure;
    const struct retry_facts *facts;
    enum failure_class class;
    struct span delay; /* of the retry, should it be permitted */
};

/* ---- the rules ------------------------------------------------------------------------------ */

static bool not_retry_eligible(const struct inquiry *q)
{
    return q->facts->not_retry_eligible;
}

static bool said_not_retryable(const struct inquiry *q)
{
    return q->failure->retryable == NO;
}

static bool is_policy_violation(const struct inquiry *q)
{
    return q->class == CLASS_POLICY_VIOLATION;
}

static bool is_structural(const struct inquiry *q)
{
    return !class_is_retryable(q->class);
}

/* text_is_in compares an entry of a policy's list with a text that may hold any bytes.  Entries are
 * at most 200 bytes long (policy.c), so a longer text matches none. */
static bool text_is_in(struct json entry, struct slice text)
{
    char copy[256];

    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return json_string_is(entry, copy);
}

/* is_listed says whether a list names the failure: by class, error type or HTTP status. */
static bool is_listed(struct json list, const struct inquiry *q)
{
    struct json_iter iter;
    struct json entry;
    int64_t status;

    json_iter_init(&iter, list);
    while (json_next(&iter, NULL, &entry)) {
        if (json_string_is(entry, class_name(q->class)) ||
            text_is_in(entry, q->failure->error_type))
            return true;
        if (json_int(entry, &status) && status == q->failure->http_status)
            return true;
    }
    return false;
}

static bool interrupted(const struct inquiry *q)
{
    return q->failure->interrupted && q->facts->interruptions < RETRY_INTERRUPTIONS_MAX;
}

static bool policy_forbids(const struct inquiry *q)
{
    if (is_listed(q->policy->never_retry, q))
        return true;
    if (interrupted(q))
        return false;
    return json_count(q->policy->retry_on) > 0 && !is_listed(q->policy->retry_on, q);
}

static bool not_idempotent(const struct inquiry *q)
{
    enum side_effects effects = q->failure->side_effects;

    return (effects == EFFECTS_UNKNOWN || effects == EFFECTS_COMMITTED) &&
           !q->facts->has_idempotency_key;
}

static bool dependency_down(const struct inquiry *q)
{
    return q->facts->dependency_down.us > q->policy->max_delay.us;
}

static bool attempts_exhausted(const struct inquiry *q)
{
    return retry_attempt_in_round(q->job) >= retry_attempts_allowed(q->policy, q->job);
}

static bool attempts_exhausted_by_crash(const struct inquiry *q)
{
    return q->class == CLASS_CRASHED && attempts_exhausted(q);
}

static bool budget_exhausted(const struct inquiry *q)
{
    if (q->policy->retry_budget.us < 0)
        return false;
    struct instant retry_at = instant_add(q->facts->now, q->delay);
    struct instant end = instant_add(q->job->round_at, q->policy->retry_budget);
    return instant_before(end, retry_at);
}

static const struct rule {
    const char *name;
    bool (*applies)(const struct inquiry *q);
    const char *reason; /* of the quarantine; NULL: it is retried at once, and does not count */
} rules[] = {
    {"not_retry_eligible", not_retry_eligible, REASON_NOT_RETRYABLE},
    {"said_not_retryable", said_not_retryable, REASON_NOT_RETRYABLE},
    {"class_forbidden", is_policy_violation, REASON_POLICY_DENIED},
    {"class_forbidden", is_structural, REASON_NOT_RETRYABLE},
    {"policy_forbids", policy_forbids, REASON_NOT_RETRYABLE},
    {"not_idempotent", not_idempotent, REASON_NOT_IDEMPOTENT},
    {"dependency_down", dependency_down, REASON_DEPENDENCY_DOWN},
    {"interrupted", interrupted, NULL},
    {"attempts_exhausted", attempts_exhausted_by_crash, REASON_AGENT_CRASHED},
    {"attempts_exhausted", attempts_exhausted, REASON_RETRIES_EXHAUSTED},
    {"budget_exhausted", budget_exhausted, REASON_RETRIES_EXHAUSTED},
};

/* ---- the decision --------------------------------------------------------------------------- */

/* retry_wait is the delay of a retry: the policy's, spread by its jitter; longer when the failure
 * asked for it (Retry-After); never longer than the policy's cap. */
static struct span retry_wait(const struct inquiry *q)
{
    struct span delay = policy_delay(q->policy, retry_attempt_in_round(q->job));

    delay = policy_jitter(q->policy, delay, q->facts->random);
    if (delay.us < q->failure->retry_after.us)
        delay = q->failure->retry_after;
    return delay.us < q->policy->max_delay.us ? delay : q->policy->max_delay;
}

/* decision_of is what a rule that applies decides. */
static struct decision decision_of(const struct rule *rule, const struct inquiry *q)
{
    bool retry = rule->reason == NULL;

    return (struct decision){
        .action = retry ? DECISION_RETRY : DECISION_QUARANTINE,
        .class = q->class,
        .uncounted = retry,
        .rule = rule->name,
        .reason = rule->reason,
        .retry_at = retry ? q->facts->now : INSTANT_NONE,
    };
}

struct decision retry_decide(const struct policy *policy, const struct job *job,
                             const struct failure *failure, const struct retry_facts *facts)
{
    struct inquiry q = {policy, job, failure, facts, failure_class(failure), {0}};

    q.delay = retry_wait(&q);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].applies(&q))
            return decision_of(&rules[i], &q);
    }
    return (struct decision){.action = DECISION_RETRY,
                             .class = q.class,
                             .rule = "retry_permitted",
                             .delay = q.delay,
                             .retry_at = instant_add(facts->now, q.delay)};
}

uint32_t retry_attempt_in_round(const struct job *job)
{
    return job->attempt > job->attempt_base ? (uint32_t)(job->attempt - job->attempt_base) : 0;
}

uint32_t retry_attempts_allowed(const struct policy *policy, const struct job *job)
{
    return job->attempts_max > 0 ? job->attempts_max : policy->max_attempts;
}
