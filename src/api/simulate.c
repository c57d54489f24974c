/* simulate: what a policy would do about failures, decided by the very function that decides for
 * real.  Nothing is stored; the same request with the same seed has the same answer.
 *
 * The clock of a simulation starts at 0 when the first run begins.  A run lasts as long as its
 * failure's duration_ms says, else no time; the next one begins when the decision says. */
#include "api/body.h"
#include "api/policies.h"
#include "api/routes.h"
#include "core/envelope.h"
#include "core/retry.h"

#define FAILURES_MAX 1000
#define START ((struct instant){INT64_C(946684800) * 1000000}) /* any fixed time will do */

struct simulation {
    struct policy policy;
    struct failure *failures;
    size_t count;
    bool repeat; /* the last failure comes again until the job is quarantined */
    struct retry_facts facts;
    uint64_t seed;
};

/* next_random is splitmix64: seeded, so that a simulation can be repeated. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* read_policy reads a policy's name or the policy itself. */
static void read_policy(struct call *call, struct json body, struct simulation *simulation)
{
    struct json given;
    struct err err;
    json_get(body, "policy", &given);
    if (call->status != STATUS_OK)
        return;
    if (given.type == JSON_OBJECT) {
        enum status status = policy_parse(given, &call->arena, &simulation->policy, &err);
        if (status != STATUS_OK)
            call_fail(call, status, "policy.%s", err.text);
        return;
    }
    struct slice name = body_text(call, body, "policy", POLICY_NAME_MAX);
    if (name.len == 0)
        call_fail(call, STATUS_INVALID, "policy: must be a policy's name or a policy");
    if (call->status == STATUS_OK)
        call->status = policies_find(call, name, &simulation->policy);
}

static void read_failures(struct call *call, struct json body, struct simulation *simulation)
{
    struct json array = body_json(call, body, "failures", JSON_ARRAY), value;
    struct json_iter iter;
    struct err err;
    size_t count = json_count(array);
    if (count < 1 || count > FAILURES_MAX) {
        call_fail(call, STATUS_INVALID, "failures: must be an array of 1 to %d failures",
                  FAILURES_MAX);
        return;
    }
    simulation->failures = arena_array(&call->arena, count, sizeof(*simulation->failures));
    if (!simulation->failures) {
        call_fail(call, STATUS_NO_MEMORY, "out of memory");
        return;
    }
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &value)) {
        struct failure *failure = &simulation->failures[simulation->count];
        enum status status = failure_parse(value, &call->arena, failure, &err);
        if (status != STATUS_OK) {
            call_fail(call, status, "failures[%zu].%s", simulation->count, err.text);
            return;
        }
        simulation->count++;
    }
}

static void print_decision(struct jsonw *out, const struct job *job, const struct failure *failure,
                           const struct decision *decision, struct instant now)
{
    bool retry = decision->action == DECISION_RETRY;
    jsonw_object(out);
    jsonw_put_int(out, "attempt", job->attempt);
    jsonw_put_str(out, "class", class_name(decision->class));
    jsonw_put_str(out, "action", retry ? "retry" : "quarantine");
    jsonw_put_str(out, "rule", decision->rule);
    jsonw_key(out, "reason");
    if (retry)
        jsonw_null(out);
    else
        jsonw_string(out, failure->reason.len ? failure->reason : slice_of(decision->reason));
    jsonw_key(out, "delay_seconds");
    if (retry)
        jsonw_double(out, span_to_seconds(decision->delay));
    else
        jsonw_null(out);
    jsonw_put_double(out, "at_seconds", span_to_seconds(instant_since(now, START)));
    jsonw_object_end(out);
}

/* run prints one decision for each failure, until one of them ends the job. */
static void run(struct jsonw *out, struct simulation *simulation)
{
    struct job job = {.state = JOB_RUNNING, .round_at = START};
    struct instant now = START;
    BUG_ON(simulation->count == 0 || !simulation->failures);
    jsonw_array(out);
    for (size_t i = 0; i < simulation->count || simulation->repeat; i++) {
        size_t last = simulation->count - 1;
        const struct failure *failure = &simulation->failures[i < last ? i : last];
        if (failure->duration_ms > 0)
            now = instant_add(now, span_ms(failure->duration_ms));
        job.attempt++;
        simulation->facts.now = now;
        simulation->facts.random = next_random(&simulation->seed);
        struct decision decision =
            retry_decide(&simulation->policy, &job, failure, &simulation->facts);
        print_decision(out, &job, failure, &decision, now);
        simulation->facts.interruptions =
            failure->interrupted ? simulation->facts.interruptions + 1 : 0;
        job.attempt_base += decision.uncounted;
        /* No policy allows more attempts than this: the loop ends. */
        if (decision.action != DECISION_RETRY ||
            retry_attempt_in_round(&job) >= POLICY_ATTEMPTS_MAX)
            break;
        now = decision.retry_at;
    }
    jsonw_array_end(out);
}

enum status policies_simulate(struct call *call)
{
    struct json body = body_object(
        call, "policy failures repeat seed has_idempotency_key dependency_down_seconds");
    struct simulation simulation = {0};
    read_policy(call, body, &simulation);
    read_failures(call, body, &simulation);
    simulation.repeat = body_bool(call, body, "repeat", false);
    simulation.seed = (uint64_t)body_int(call, body, "seed", INT64_MIN, INT64_MAX, 0);
    simulation.facts.has_idempotency_key = body_bool(call, body, "has_idempotency_key", false);
    simulation.facts.dependency_down =
        span_from_seconds(body_number(call, body, "dependency_down_seconds", 0, 1e9, 0));
    if (call->status != STATUS_OK)
        return call->status;
    run(&call->out, &simulation);
    return STATUS_OK;
}
