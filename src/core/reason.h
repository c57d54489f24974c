/* reason: why a letter is dead, as a word, and the subject it is published under. */
#ifndef LAZARET_CORE_REASON_H
#define LAZARET_CORE_REASON_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"
#include "core/failure.h"

#define REASON_RETRIES_EXHAUSTED "retries_exhausted"
#define REASON_NOT_RETRYABLE "not_retryable"
#define REASON_DEPENDENCY_DOWN "dependency_down"
#define REASON_NOT_IDEMPOTENT "not_idempotent"
#define REASON_UNDELIVERABLE "undeliverable"
#define REASON_MALFORMED "malformed"
#define REASON_TIMEOUT_IN_PROGRESS "timeout_in_progress"
#define REASON_AGENT_CRASHED "agent_crashed"
#define REASON_POLICY_DENIED "policy_denied"
#define REASON_NO_CAPABLE_AGENT "no_capable_agent"
#define REASON_ALL_AGENTS_UNAVAILABLE "all_agents_unavailable"
#define REASON_TIMEOUT_ASSIGNED "timeout_assigned"

/* reason_subject is the subject of a reason, by the table of INTERFACES 4: dlq.agent.unknown for an
 * unknown reason of source "warren", dlq.task.unknown for any other. */
struct slice reason_subject(struct slice reason, struct slice source);

/* reason_of_subject is the inverse: the reason that a subject tells; the subject's last word where
 * it is in no table (dlq.task.WORD, dlq.agent.WORD); empty when it tells none. */
struct slice reason_of_subject(struct slice subject);

/* reason_source is the part of the swarm that publishes under a subject: "dispatch" for dlq.task.*,
 * "warren" for dlq.agent.*; empty for any other. */
struct slice reason_source(struct slice subject);

/* reason_class is the class of the failures that a reason stands for; CLASS_UNKNOWN when it may be
 * any. */
enum failure_class reason_class(struct slice reason);

/* reason_family is the background system's word for it: retry-exhausted, policy-blocked,
 * receipt-invalid, background-failed or unknown. */
const char *reason_family(struct slice reason);

#endif
