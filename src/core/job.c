/* job: the state machine as a table.
 *
 * Every state change of a job in the whole program asks job_next(); a move that has no entry in its
 * row is impossible, and whoever wanted it answers with a conflict.  Done, cancelled and dead are
 * ends; only a review leads out of dead. */
#include "core/job.h"

#include "base/status.h"

/* An entry is the state that follows, plus one, so that what is not written reads as "no". */
#define TO(state) ((state) + 1)

static const uint8_t moves[JOB_STATE_COUNT][MOVE_COUNT] = {
    [JOB_PENDING] =
        {
            [MOVE_LEASE] = TO(JOB_RUNNING),
            [MOVE_RETRY] = TO(JOB_SCHEDULED), /* no worker took it in time */
            [MOVE_QUARANTINE] = TO(JOB_DEAD), /* likewise, for the last time */
            [MOVE_CANCEL] = TO(JOB_CANCELLED),
        },
    [JOB_SCHEDULED] =
        {
            [MOVE_DUE] = TO(JOB_PENDING),
            [MOVE_CANCEL] = TO(JOB_CANCELLED),
        },
    [JOB_RUNNING] =
        {
            [MOVE_RELEASE] = TO(JOB_PENDING),
            [MOVE_COMPLETE] = TO(JOB_DONE),
            [MOVE_RETRY] = TO(JOB_SCHEDULED),
            [MOVE_QUARANTINE] = TO(JOB_DEAD),
            [MOVE_CANCEL] = TO(JOB_CANCELLED),
        },
    [JOB_DONE] = {0},
    [JOB_CANCELLED] = {0},
    [JOB_DEAD] =
        {
            [MOVE_REQUEUE] = TO(JOB_PENDING),
        },
};

static const char *const state_names[JOB_STATE_COUNT] = {
    [JOB_PENDING] = "pending", [JOB_SCHEDULED] = "scheduled", [JOB_RUNNING] = "running",
    [JOB_DONE] = "done",       [JOB_CANCELLED] = "cancelled", [JOB_DEAD] = "dead",
};

enum job_state job_next(enum job_state state, enum job_move move)
{
    BUG_ON((unsigned)state >= JOB_STATE_COUNT);
    BUG_ON((unsigned)move >= MOVE_COUNT);
    uint8_t next = moves[state][move];
    return next == 0 ? (enum job_state)JOB_STATE_NONE : (enum job_state)(next - 1);
}

const char *job_state_name(enum job_state state)
{
    BUG_ON((unsigned)state >= JOB_STATE_COUNT);
    return state_names[state];
}

bool job_state_from_name(struct slice name, enum job_state *out)
{
    for (int state = 0; state < JOB_STATE_COUNT; state++) {
        if (slice_is(name, state_names[state])) {
            *out = (enum job_state)state;
            return true;
        }
    }
    return false;
}
