/* letter: a job in the quarantine, and what may be done with it. */
#ifndef LAZARET_CORE_LETTER_H
#define LAZARET_CORE_LETTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "base/status.h"
#include "base/time.h"
#include "core/failure.h"
#include "core/job.h"
#include "core/retry.h"

enum letter_state {
    LETTER_DEAD,
    LETTER_RECOVERING, /* brought back, and held until the outcome is known */
    LETTER_RECOVERED,
    LETTER_DISCARDED,
    LETTER_ROLLED_BACK,
    LETTER_STATE_COUNT
};

enum replay_safety { REPLAY_SAFE, REPLAY_UNKNOWN, REPLAY_UNSAFE };

enum review_action {
    REVIEW_RETRY,    /* bring it back, edited or not */
    REVIEW_DISCARD,  /* give it up; restorable */
    REVIEW_ROLLBACK, /* run its compensation */
    REVIEW_ESCALATE, /* flag it: still dead, no machine may replay it */
    REVIEW_RESTORE,  /* take a discard back */
    REVIEW_COUNT
};

/* struct letter: one row of the quarantine.  There is at most one for each job, for life: a job
 * that dies again comes back to the same letter, with the same dlq_id.  Slices borrow from whoever
 * made it. */
struct letter {
    int64_t position;     /* failed_at in microseconds, made unique: its place in every listing */
    int64_t envelope_seq; /* the envelope in force */
    struct job job;       /* the job as it was when it died: seq, event_seq, attempts, keys */
    struct slice dlq_id, job_id, run_id, item_id, trace_id, queue;
    struct slice original_subject, reason, reason_detail, source;
    struct slice signature, fingerprint, error_type, agent;
    struct slice artifacts; /* worktree_artifacts as JSON; empty: none */
    struct slice
        recovered_by; /* who brings it back, or brought it, discarded it or rolled it back */
    enum letter_state state;
    enum replay_safety replay_safety;
    struct instant failed_at, first_attempt_at, last_attempt_at;
    struct instant recovered_at;
    uint32_t failure_count;
    uint32_t max_attempts;
    bool recoverable; /* a machine may replay it */
    bool eligible;    /* reprocess_eligible: its kind of failure may pass by itself */
    bool review;      /* manual_review_required */
    bool escalated;
    bool foreign; /* the payload is no envelope: it came from elsewhere and goes back there */
};

/* letter_judge fills the fields that follow from the failure and the decision: reason, eligibility,
 * review, recoverability, replay safety, signature's inputs stay with signature.h. */
void letter_judge(struct letter *letter, const struct failure *failure,
                  const struct decision *decision, bool has_idempotency_key,
                  bool requires_human_ack);

/* letter_next is the state after an action, or LETTER_STATE_COUNT when it is not allowed; `why` is
 * then the sentence for the person: "already recovered". */
enum letter_state letter_next(enum letter_state state, enum review_action action, const char **why);

/* letter_after is the state after the end of the letter's job (done, cancelled or dead), which was
 * brought back: a letter that is held follows the outcome, one that was let go stays as it is but
 * for another death. */
enum letter_state letter_after(enum letter_state state, enum job_state end);

/* letter_artifacts makes worktree_artifacts of what a failure left behind: the four members of the
 * map system's field, null where one is not given; empty, when no worktree was left.  In `arena`.
 */
enum status letter_artifacts(const struct failure *failure, struct arena *arena, struct slice *out,
                             struct err *err);

/* letter_name bounds a text that letters are listed by, such as a type of error: at most
 * LETTER_NAME_MAX bytes of it, whole characters.  The evidence has all of it. */
#define LETTER_NAME_MAX 200
struct slice letter_name(struct slice text);

const char *letter_state_name(enum letter_state state);
bool letter_state_from_name(struct slice name, enum letter_state *out);
const char *replay_safety_name(enum replay_safety safety);
const char *review_action_name(enum review_action action); /* "retry", "discard", ... */
const char *review_status_name(enum review_action action); /* "retried", "discarded", ... */

#endif
