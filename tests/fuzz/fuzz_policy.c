/* fuzz_policy: any JSON as a policy and as a failure.
 *
 * What is refused must say why.  What is accepted must print as JSON that reads back to the same
 * text, and every decision made of the two must keep within the policy's bounds. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "core/retry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX (64 << 20)

static void print_policy(const struct policy *policy, struct buf *out)
{
    struct jsonw w;

    buf_init(out, OUTPUT_MAX);
    jsonw_init(&w, out);
    policy_print(policy, &w);
    BUG_ON(out->status != STATUS_OK);
}

static void check_round_trip(const struct policy *policy, struct arena *arena)
{
    struct buf first, second;
    struct json json;
    struct policy again;
    struct err err = {0};

    print_policy(policy, &first);
    if (json_parse(buf_slice(&first), &json, &err) != STATUS_OK ||
        policy_parse(json, arena, &again, &err) != STATUS_OK)
        BUG("%s", err.text);
    print_policy(&again, &second);
    BUG_ON(!slice_eq(buf_slice(&first), buf_slice(&second)));
    buf_release(&second);
    buf_release(&first);
}

static void check_evidence(const struct failure *failure, struct arena *arena)
{
    struct buf out;
    struct jsonw w;
    struct json json;
    struct failure again;
    struct err err = {0};

    buf_init(&out, OUTPUT_MAX);
    jsonw_init(&w, &out);
    failure_print(failure, 1, &w);
    jsonw_object_end(&w);
    BUG_ON(out.status != STATUS_OK);
    if (json_parse(buf_slice(&out), &json, &err) != STATUS_OK)
        BUG("%s", err.text);
    /* A structure that was cut is no array any more; all else reads as a failure again. */
    struct json cut;
    if (!json_get(json, "truncated_bytes", &cut)) {
        if (failure_parse(json, arena, &again, &err) != STATUS_OK)
            BUG("%s", err.text);
        BUG_ON(failure_class(&again) != failure_class(failure));
    }
    buf_release(&out);
}

static void check_decisions(const struct policy *policy, const struct failure *failure)
{
    struct retry_facts facts = {.now = {1}, .random = UINT64_MAX, .has_idempotency_key = true};

    for (uint16_t attempt = 1; attempt < 1200; attempt = (uint16_t)(attempt * 2 + 1)) {
        struct job job = {.state = JOB_RUNNING, .attempt = attempt, .round_at = {1}};
        struct decision decision = retry_decide(policy, &job, failure, &facts);
        if (decision.action == DECISION_QUARANTINE) {
            BUG_ON(!decision.reason);
            continue;
        }
        BUG_ON(attempt >= policy->max_attempts);
        BUG_ON(decision.delay.us < 0 || decision.delay.us > policy->max_delay.us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct json json;
    struct policy policy;
    struct failure failure;
    struct err err = {0};

    if (json_parse((struct slice){(const char *)data, size}, &json, &err) != STATUS_OK)
        return 0;

    err.text[0] = '\0';
    bool is_policy = policy_parse(json, &arena, &policy, &err) == STATUS_OK;
    BUG_ON(!is_policy && err.text[0] == '\0');
    err.text[0] = '\0';
    bool is_failure = failure_parse(json, &arena, &failure, &err) == STATUS_OK;
    BUG_ON(!is_failure && err.text[0] == '\0');

    if (!is_failure) {
        failure_init(&failure);
        failure.message = SLICE("x");
    }
    if (is_policy) {
        check_round_trip(&policy, &arena);
        check_decisions(&policy, &failure);
    }
    if (is_failure)
        check_evidence(&failure, &arena);
    arena_release(&arena);
    return 0;
}
