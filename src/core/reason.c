/* reason: the table of quarantine reasons (INTERFACES 4).
 *
 * A reason is an open word: a source system may send one that is not here, and its letter is kept
 * all the same, under the subject for unknown reasons. */
#include "core/reason.h"

#define PREFIX_TASK "dlq.task."
#define PREFIX_AGENT "dlq.agent."

#define FAMILY_EXHAUSTED "retry-exhausted"
#define FAMILY_BLOCKED "policy-blocked"
#define FAMILY_INVALID "receipt-invalid"
#define FAMILY_FAILED "background-failed"
#define FAMILY_UNKNOWN "unknown"

static const struct reason_row {
    const char *reason;
    const char *subject; /* what its letters are published under */
    const char *family;  /* the background system's word for it */
    enum failure_class class;
} rows[] = {
/* OWN is a reason of Lazaret's own: its subject is spelled like the reason. */
#define OWN(reason, family, class)                                                                 \
    {                                                                                              \
        reason, PREFIX_TASK reason, family, class                                                  \
    }
    /* Where no agent took the work, or it did not come to an end (swarm's dispatch). */
    {REASON_NO_CAPABLE_AGENT, "dlq.task.unassignable", FAMILY_FAILED, CLASS_UNAVAILABLE},
    {REASON_ALL_AGENTS_UNAVAILABLE, "dlq.task.no_available_agent", FAMILY_FAILED,
     CLASS_UNAVAILABLE},
    {REASON_POLICY_DENIED, "dlq.task.policy_denied", FAMILY_BLOCKED, CLASS_POLICY_VIOLATION},
    {REASON_TIMEOUT_ASSIGNED, "dlq.task.assignment_timeout", FAMILY_FAILED, CLASS_TIMEOUT},
    {REASON_TIMEOUT_IN_PROGRESS, "dlq.task.execution_timeout", FAMILY_FAILED, CLASS_TIMEOUT},
    {REASON_AGENT_CRASHED, "dlq.task.agent_crashed", FAMILY_FAILED, CLASS_CRASHED},
    /* Where an agent itself did not come up or stay up (swarm's warren). */
    {"boot_failure", "dlq.agent.boot_failure", FAMILY_FAILED, CLASS_UNAVAILABLE},
    {"pull_failure", "dlq.agent.pull_failure", FAMILY_FAILED, CLASS_UNAVAILABLE},
    {"crash_loop", "dlq.agent.crash_loop", FAMILY_FAILED, CLASS_CRASHED},
    /* Lazaret's own. */
    OWN(REASON_RETRIES_EXHAUSTED, FAMILY_EXHAUSTED, CLASS_UNKNOWN),
    OWN(REASON_NOT_RETRYABLE, FAMILY_BLOCKED, CLASS_INVALID_INPUT),
    OWN(REASON_DEPENDENCY_DOWN, FAMILY_FAILED, CLASS_UNAVAILABLE),
    OWN(REASON_NOT_IDEMPOTENT, FAMILY_BLOCKED, CLASS_UNKNOWN),
    OWN(REASON_UNDELIVERABLE, FAMILY_FAILED, CLASS_NETWORK),
    OWN(REASON_MALFORMED, FAMILY_INVALID, CLASS_MALFORMED_PAYLOAD),
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

/* last_word is what follows a prefix, when that is one word that tells something. */
static struct slice last_word(struct slice subject, struct slice prefix)
{
    if (!slice_starts(subject, prefix))
        return (struct slice){0};
    struct slice word = {subject.ptr + prefix.len, subject.len - prefix.len};
    if (memchr(word.ptr, '.', word.len) || slice_is(word, "unknown"))
        return (struct slice){0};
    return word;
}

struct slice reason_of_subject(struct slice subject)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (slice_is(subject, rows[i].subject))
            return slice_of(rows[i].reason);
    }
    struct slice word = last_word(subject, SLICE(PREFIX_TASK));
    return word.len ? word : last_word(subject, SLICE(PREFIX_AGENT));
}

struct slice reason_source(struct slice subject)
{
    if (slice_starts(subject, SLICE(PREFIX_TASK)))
        return SLICE("dispatch");
    return slice_starts(subject, SLICE(PREFIX_AGENT)) ? SLICE("warren") : SLICE("");
}

enum failure_class reason_class(struct slice reason)
{
    const struct reason_row *row = find(reason);

    return row ? row->class : CLASS_UNKNOWN;
}

const char *reason_family(struct slice reason)
{
    const struct reason_row *row = find(reason);

    return row ? row->family : FAMILY_UNKNOWN;
}
