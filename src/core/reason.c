/* reason: the table of quarantine reasons (INTERFACES 4).
 *
 * A reason is an open word: a source system may send one that is not here, and its letter is kept
 * all the same, under the subject for unknown reasons. */
#include "core/reason.h"

#define FAMILY_EXHAUSTED "retry-exhausted"
#define FAMILY_BLOCKED "policy-blocked"
#define FAMILY_INVALID "receipt-invalid"
#define FAMILY_FAILED "background-failed"
#define FAMILY_UNKNOWN "unknown"

static const struct reason_row {
    const char *reason;
    const char *subject; /* what its letters are published under */
    const char *family;  /* the background system's word for it */
} rows[] = {
/* OWN is a reason of Lazaret's own: its subject is spelled like the reason. */
#define OWN(reason, family)                                                                        \
    {                                                                                              \
        reason, "dlq.task." reason, family                                                         \
    }
    /* Where no agent took the work, or it did not come to an end (swarm's dispatch). */
    {REASON_NO_CAPABLE_AGENT, "dlq.task.unassignable", FAMILY_FAILED},
    {REASON_ALL_AGENTS_UNAVAILABLE, "dlq.task.no_available_agent", FAMILY_FAILED},
    {REASON_POLICY_DENIED, "dlq.task.policy_denied", FAMILY_BLOCKED},
    {REASON_TIMEOUT_ASSIGNED, "dlq.task.assignment_timeout", FAMILY_FAILED},
    {REASON_TIMEOUT_IN_PROGRESS, "dlq.task.execution_timeout", FAMILY_FAILED},
    {REASON_AGENT_CRASHED, "dlq.task.agent_crashed", FAMILY_FAILED},
    /* Where an agent itself did not come up or stay up (swarm's warren). */
    {"boot_failure", "dlq.agent.boot_failure", FAMILY_FAILED},
    {"pull_failure", "dlq.agent.pull_failure", FAMILY_FAILED},
    {"crash_loop", "dlq.agent.crash_loop", FAMILY_FAILED},
    /* Lazaret's own. */
    OWN(REASON_RETRIES_EXHAUSTED, FAMILY_EXHAUSTED),
    OWN(REASON_NOT_RETRYABLE, FAMILY_BLOCKED),
    OWN(REASON_DEPENDENCY_DOWN, FAMILY_FAILED),
    OWN(REASON_NOT_IDEMPOTENT, FAMILY_BLOCKED),
    OWN(REASON_UNDELIVERABLE, FAMILY_FAILED),
    OWN(REASON_MALFORMED, FAMILY_INVALID),
#undef OWN
};

static const struct reason_row *find(struct slice reason)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (slice_is(reason, rows[i].reason))
            return &rows[i];
    }
    return NULL;
}

struct slice reason_subject(struct slice reason, struct slice source)
{
    const struct reason_row *row = find(reason);

    if (row)
        return slice_of(row->subject);
    return slice_is(source, "warren") ? SLICE("dlq.agent.unknown") : SLICE("dlq.task.unknown");
}

const char *reason_family(struct slice reason)
{
    const struct reason_row *row = find(reason);

    return row ? row->family : FAMILY_UNKNOWN;
}
