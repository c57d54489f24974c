/* retry: the rule that decides what follows a failure.  Start reading here. */
#ifndef LAZARET_CORE_RETRY_H
#define LAZARET_CORE_RETRY_H

#include "core/failure.h"
#include "core/job.h"
#include "core/policy.h"

enum decision_action { DECISION_RETRY, DECISION_QUARANTINE };

/* struct decision: what follows, and why, for the record. */
struct decision {
    enum decision_action action;
    enum failure_class class;
    bool uncounted;     /* of a retry: the attempt does not use up one of those that are allowed.
                           Who carries it out moves job->attempt_base on by one */
    const char *rule;   /* the rule that decided: "attempts_exhausted", "class_forbidden", ... */
    const char *reason; /* of a quarantine: the dead letter's reason; NULL for a retry.  A reason
                           that the failure itself gives wins over it */
    struct span delay;  /* of a retry: after jitter */
    struct instant retry_at; /* of a retry: when */
};

/* struct retry_facts: what the decision depends on beside policy, job and failure. */
struct retry_facts {
    struct instant now;
    uint64_t random; /* the jitter's source */
    bool has_idempotency_key;
    bool not_retry_eligible; /* the envelope says that the job is not to be tried again */
    uint32_t interruptions;  /* of an interrupted attempt: how many of this round, right before it,
                                were interrupted too */
    struct span
        dependency_down; /* how long the failing dependency's breaker has been open; 0: closed */
};

#define RETRY_INTERRUPTIONS_MAX 9 /* interruptions in a row that do not count as attempts */

/* retry_decide says what follows a failed attempt of `job`.  Pure: the same inputs give the same
 * decision.  The rules are tried in the order of the table in retry.c; the first that applies
 * decides. */
struct decision retry_decide(const struct policy *policy, const struct job *job,
                             const struct failure *failure, const struct retry_facts *facts);

/* retry_attempt_in_round is the number that policies count: 1 for the first run since push or
 * replay. */
uint32_t retry_attempt_in_round(const struct job *job);

/* retry_attempts_allowed is the policy's max_attempts, or the reviewer's limit for this round. */
uint32_t retry_attempts_allowed(const struct policy *policy, const struct job *job);

#endif
