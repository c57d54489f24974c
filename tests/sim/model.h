/* model: the oracle.  What must be true, told by what was asked, what was answered, and what the
 * evidence says.
 *
 * The model never looks into the engine.  It keeps a ledger of every event that was committed, and
 * folds it: each event moves a job by the model's own table.  So an event that may not follow, an
 * effect without an event, an answer without its effect, a lost or doubled job all show as a
 * difference between three things that must agree: the answers, the ledger, and the store.
 *
 *     answers (batch.h)  <-- checked against -->  events folded (fold.c)  <-->  the store
 * (inspect.c)
 *
 * Every command has an actor of its own ("human:ada#17"), so each event names the command that made
 * it.  A command that was answered with a fault of the store, or not at all, is in doubt until the
 * next commit or crash: it may be found done after the crash, but then its whole batch is. */
#ifndef LAZARET_SIM_MODEL_H
#define LAZARET_SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "core/envelope.h"
#include "core/event.h"
#include "core/job.h"
#include "core/letter.h"
#include "engine/engine.h"
#include "sim/batch.h"
#include "sim/world.h"

/* The states that the model tells apart.  Scheduled becomes pending by time alone, so the two are
 * one here. */
enum model_state {
    MODEL_WAITING,
    MODEL_RUNNING,
    MODEL_DONE,
    MODEL_CANCELLED,
    MODEL_DEAD,
    MODEL_PURGED,
    MODEL_STATE_COUNT
};

/* struct model_failure: one failed attempt, as it was reported. */
struct model_failure {
    uint32_t attempt;
    struct slice message; /* empty: the engine's own (a lost worker) */
    bool interrupted;     /* its runner was cut off */
    bool fatal;           /* the job died of it */
};

/* struct model_job: everything the model holds true of one job.  Slices lie in the model's arena.
 */
struct model_job {
    int64_t seq;
    struct slice id;
    struct slice body;        /* as it was pushed */
    struct slice body_now;    /* after the last edit */
    struct envelope envelope; /* of body_now */
    struct slice result;      /* done: what its worker handed back */
    enum model_state state;
    uint32_t attempt;      /* runs begun and not given back */
    uint32_t attempt_base; /* of these, before the last replay, or interrupted and not counted */
    uint32_t permitted;    /* runs of this round that a recorded decision allows */
    uint32_t attempts_max; /* a reviewer's limit for this round; 0: the policy's */
    uint32_t redrives;
    bool started; /* the first heartbeat of this run was recorded */
    bool cancel_wanted;
    struct slice cancelled_by;  /* who wanted that */
    struct slice worker;        /* running: who has it */
    struct slice lease_id;      /* running: empty when the answer was lost in a crash */
    struct slice lease_before;  /* the lease before that one */
    struct instant lease_until; /* running: when it may expire; not set: not known */
    struct instant not_before;  /* waiting: when it may run; not set: at once */
    bool not_before_is_fixed;   /* run_at: a time of day, which no clock jump moves */
    bool was_due;               /* that time had come once; the clock may have gone back since */
    bool has_letter;
    struct slice dlq_id;
    enum letter_state letter;
    struct slice settled_by; /* who brought the letter to that state; dead: nobody */
    bool escalated;
    bool imported;
    bool foreign;
    struct model_failure *failures;
    size_t failure_count, failure_cap;
    int64_t *events; /* the seqs of its events */
    size_t event_count, event_cap;
    struct model_job *next; /* the one that was known before it */
};

/* struct ledger_entry: one committed event. */
struct ledger_entry {
    struct hash hash;
    int64_t job_seq;
};

/* struct model_policy: the latest version of a named policy. */
struct model_policy {
    struct slice name, body;
    int64_t version;
    uint32_t max_attempts;
    struct model_policy *next;
};

/* struct model_queue: a queue that was paused or resumed. */
struct model_queue {
    struct slice name;
    bool paused;
    struct model_queue *next;
};

struct model {
    struct world *world;
    struct arena arena; /* of everything that the model keeps */
    struct model_job *jobs;
    size_t job_count;
    struct model_policy *policies;
    struct model_queue *queues;
    struct ledger_entry *ledger; /* entry i is event i + 1 */
    size_t ledger_count, ledger_cap;
    size_t batch_start;  /* ledger_count before the last fold */
    bool violated;       /* something was wrong: `violation` says what */
    char violation[600]; /* the first one only */
};

void model_init(struct model *model, struct world *world);
void model_release(struct model *model);

/* model_violated notes that an invariant does not hold.  The first note counts. */
void model_violated(struct model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct model_job *model_by_seq(struct model *model, int64_t seq);
struct model_job *model_by_id(struct model *model, struct slice id);
struct model_job *model_by_letter(struct model *model, struct slice dlq_id);
bool model_queue_paused(const struct model *model, struct slice name);
const char *model_state_name(enum model_state state);

/* model_time tells the time of a batch that was carried out.  `timely`: the engine has had no
 * reason to let its timers rest, so every lease that has ended must have been noticed. */
void model_time(struct model *model, struct instant now, bool timely);

/* model_dispatched says whether a job is given to the worker that fits, not to the first: its
 * policy has hints. */
bool model_dispatched(const struct model_job *job);

/* model_ready finds a job that waits although it may run; NULL: none.  One that is dispatched may
 * wait for somebody better. */
const struct model_job *model_ready(const struct model *model, struct instant now);

/* model_allowed is how many runs a round of the job may have by the policy that is in force. */
uint32_t model_allowed(struct model *model, const struct model_job *job);

/* -- fold.c --------------------------------------------------------------------------------------
 */

/* model_fold applies committed events, in order.  Each must be made by a command of `batch` or,
 * when `doubtful`, of one of the batches in that list, or by the engine itself. */
void model_fold(struct model *model, struct store *store, const struct event *events, size_t count,
                struct batch *batch, struct batch *doubtful);

/* -- answers.c -----------------------------------------------------------------------------------
 */

/* model_answers checks the answers of a batch that was carried out against what was folded. `now`
 * is the engine's time. */
void model_answers(struct model *model, struct batch *batch, struct instant now);

/* model_whole checks, after a crash, that of each batch in doubt everything happened or nothing. */
void model_whole(struct model *model, struct batch *doubtful);

/* -- inspect.c -----------------------------------------------------------------------------------
 */

/* model_inspect compares everything in the store with the model. */
void model_inspect(struct model *model, struct store *store);

/* model_recover reads the events that a crash left, past those that are known, and folds them; it
 * says whether there were any. */
bool model_recover(struct model *model, struct store *store, struct batch *doubtful);

#endif
