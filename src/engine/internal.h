/* internal: what the files of the engine share.  Nothing outside src/engine includes this. */
#ifndef LAZARET_ENGINE_INTERNAL_H
#define LAZARET_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "core/retry.h"
#include "engine/engine.h"
#include "engine/workers.h"

#define LEASE_COUNT_MAX 1000         /* jobs that one lease takes at most */
#define ENGINE_ACTOR SLICE("engine") /* who acts when time does */

/* struct named_policy: a policy by name, parsed once. */
struct named_policy {
    struct policy policy;
    struct arena arena; /* what `policy` borrows from */
};

/* struct sweep: how far the retention rules have walked through one kind of letter. */
struct sweep {
    int64_t cursor;
};

struct engine {
    struct engine_config config;
    struct store *store;
    const struct seams *seams;

    /* The mailbox.  `lock` guards what is in this paragraph and nothing else. */
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct command *first, *last;
    bool stopping;
    bool abandoned; /* a parked lease waits no longer */
    bool poked;     /* others wrote into the store */
    bool has_thread;
    pthread_t thread;

    /* Everything below belongs to the thread that runs batches. */
    struct instant now;        /* the time of this batch */
    struct instant clock_wall; /* the clocks at the last look, to see jumps */
    struct span clock_steady;
    struct span clock_jump;   /* a jump that the next batch has to record */
    bool broken;              /* the store must be reloaded before anything else */
    struct instant timers_at; /* timers rest until then, after a batch of theirs failed */
    struct instant sweep_at;  /* when the retention rules run next */
    struct instant jumped_at; /* when the clock last jumped; not set: never */
    struct sweep sweeps[3];   /* recovered, rolled back, discarded */

    struct command *parked;   /* leases that wait for a job */
    struct command *awaiting; /* who waits for letters (await.c) */
    bool ready_changed;       /* this batch may have made a job ready */
    bool news_missed;         /* a batch that had seen it failed */
    bool others_wrote;        /* this batch has seen what others wrote into the store */
    bool leases_open;         /* leases of this batch wait for the dispatch at its end */
    struct workers *workers;
    struct instant roster_at;   /* when it is time to say who they are (colleagues.c) */
    bool roster_known;          /* what was said names somebody */
    struct needs *needs;        /* of jobs that are dispatched (need.c) */
    struct instant dispatch_at; /* when a job that is held for a worker is held no longer */
    struct instant started_at;  /* of this engine */
    struct job *candidates;     /* LEASE_COUNT_MAX, for a lease that looks */

    struct named_policy *policies;
    size_t policy_count, policy_cap;

    struct arena arena;   /* scratch of the batch */
    struct buf why;       /* the event that is being written */
    struct buf text;      /* a failure or an envelope that is being written */
    struct event *events; /* of the batch, for the watcher; in `arena` */
    size_t event_count, event_cap;
    void (*watch)(void *ctx, const struct event *event);
    void *watch_ctx;

    /* Who is told of commits.  `listen_lock` guards what is in this paragraph, also while they are
     * told. */
    pthread_mutex_t listen_lock;
    void (*committed)(void *ctx, int64_t seq);
    void *committed_ctx;

    struct engine_numbers numbers;
    struct numbers *counted; /* what only counts when it is committed */
    atomic_size_t live;      /* for readers of other threads */
    atomic_bool publisher;   /* letters from elsewhere can be published again */
};

/* -- the clock (clock.c) ------------------------------------------------------------------------
 */

/* clock_look reads the clocks and notes a jump of the wall clock since the last look. */
void clock_look(struct engine *engine);
/* clock_apply moves what was timed by the old clock, and records the jump. */
enum status clock_apply(struct engine *engine, struct err *err);
/* clock_since_last looks whether the clock was set back while no engine ran: the last event is from
 * the future.  Forward, a jump cannot be told from the time that passed; nor can another server's
 * clock from ours. */
enum status clock_since_last(struct engine *engine, struct err *err);

/* -- helpers of engine.c and record.c
 * ----------------------------------------------------------------------- */

/* status_is_fault says that the world failed, not the request: the batch cannot go on. */
bool status_is_fault(enum status status);

/* event_begin starts the `why` of an event: an open object to put members into. */
void event_begin(struct engine *engine, struct jsonw *why);

/* event_end closes the object and appends the event.  `job` (NULL: none) is the job it is about:
 * the event is linked to the one before it, and job->event_seq moves on. */
enum status event_end(struct engine *engine, struct jsonw *why, struct slice actor, struct job *job,
                      const char *what, struct err *err);

/* event_put_digest puts a digest into the `why` of an event, in hex. */
void event_put_digest(struct jsonw *why, const char *key, const struct hash *digest);

/* job_move puts the job into the state that follows `move`; an impossible one is a bug. */
void job_move(struct job *job, enum job_move move);

/* job_end ends a live job by MOVE_COMPLETE or MOVE_CANCEL, and with it the letter that was held for
 * the outcome.  *job_id is its id, for the answer. */
enum status job_end(struct engine *engine, struct job *job, enum job_move move, struct slice actor,
                    struct slice result, struct arena *arena, struct slice *job_id,
                    struct err *err);

/* lease_id_format and lease_find: a lease id names a job and a nonce that only its holder knows.
 * STATUS_LEASE_LOST when it is unknown or has ended. */
void lease_id_format(const struct job *job, char out[LEASE_ID_SIZE]);
enum status lease_find(struct engine *engine, struct slice lease_id, struct job *out,
                       struct err *err);

/* -- commands: one function each, by kind -------------------------------------------------------
 */

enum status push_apply(struct engine *engine, struct push_command *command);
enum status lease_apply(struct engine *engine, struct lease_command *command);
enum status heartbeat_apply(struct engine *engine, struct heartbeat_command *command);
enum status resolve_apply(struct engine *engine, struct resolve_command *command);
enum status release_apply(struct engine *engine, struct release_command *command);
enum status interrupt_apply(struct engine *engine, struct interrupt_command *command);
enum status cancel_apply(struct engine *engine, struct cancel_command *command);
enum status review_apply(struct engine *engine, struct review_command *command);
enum status import_apply(struct engine *engine, struct import_command *command);
enum status purge_apply(struct engine *engine, struct purge_command *command);
enum status queue_apply(struct engine *engine, struct queue_command *command);
enum status policy_apply(struct engine *engine, struct policy_command *command);
enum status group_apply(struct engine *engine, struct group_command *command);
enum status duty_apply(struct engine *engine, struct duty_command *command);
enum status settle_apply(struct engine *engine, struct settle_command *command);

/* push_one enqueues one job.  A refusal is in the item; the return value is only ever a fault. */
enum status push_one(struct engine *engine, struct slice actor, struct arena *arena,
                     struct push_item *item, struct err *err);

/* write_extras writes what only some jobs have: keys for good, and a status document. */
enum status write_extras(struct engine *engine, const struct envelope *envelope,
                         const struct job *job, struct err *err);

/* wait_end is when a worker must have a job that waits apart from the lines; INSTANT_NEVER for
 * others.  The policy is looked at for one with hints. */
struct instant wait_end(const struct job *job, const struct policy *policy);

/* capabilities_of finds the number of the set of capabilities that the envelope asks for. */
enum status capabilities_of(struct engine *engine, const struct envelope *envelope,
                            struct arena *arena, uint32_t *out, struct err *err);

/* -- timers --------------------------------------------------------------------------------------
 */

#define TIMER_BATCH 1000 /* leases that one batch lets expire */
#define SWEEP_BATCH 500  /* letters or jobs that one batch purges */

/* expire_apply treats leases that have ended as failures. */
enum status expire_apply(struct engine *engine, struct err *err);

/* sweep_apply carries out the retention rules, a bounded piece at a time. */
enum status sweep_apply(struct engine *engine, struct err *err);
bool sweep_wanted(const struct engine *engine);

/* unassigned_apply fails dispatched jobs that no worker took in time. */
enum status unassigned_apply(struct engine *engine, struct err *err);

/* -- dispatched jobs (dispatch.c, need.c) --------------------------------------------------------
 */

/* dispatch_apply gives dispatched jobs to those who ask: the leases of the batch, and the parked
 * ones. */
enum status dispatch_apply(struct engine *engine, struct command *batch, struct err *err);

struct needs *needs_new(void);          /* NULL when memory is exhausted */
void needs_free(struct needs *needs);   /* NULL is fine */
void needs_forget(struct needs *needs); /* a policy changed, or the store went back */

/* body_rules reads the envelope of a job, whose text is given, and its policy: the default one,
 * should its own not be readable any more. */
enum status body_rules(struct engine *engine, const struct job *job, struct slice body,
                       struct arena *arena, struct envelope *envelope, struct policy *policy,
                       struct err *err);

/* assignment_end is when a worker must have a job that is pending from its due_at on; INSTANT_NEVER
 * for one that is not dispatched. */
enum status assignment_end(struct engine *engine, const struct job *job, struct arena *arena,
                           struct instant *out, struct err *err);

/* lease_fill has a lease take the ready jobs that it has room for. */
enum status lease_fill(struct engine *engine, struct lease_command *command, struct err *err);

/* lease_ahead has it take those that go before `job`, which is dispatched. */
enum status lease_ahead(struct engine *engine, struct lease_command *command, const struct job *job,
                        struct err *err);

/* lease_give gives it one job; there is room. */
enum status lease_give(struct engine *engine, struct lease_command *command, struct job *job,
                       struct err *err);

/* lease_room is how many more jobs it may be given. */
size_t lease_room(const struct lease_command *command);

/* lease_claim is what it says of its worker. */
struct worker_claim lease_claim(const struct lease_command *command);

/* -- waiting leases (wait.c) ---------------------------------------------------------------------
 */

/* park keeps a lease that found nothing and may wait; false when it is to be answered. */
bool park(struct engine *engine, struct command *command);

/* parked_apply tries the parked leases again, inside the transaction. */
enum status parked_apply(struct engine *engine, struct err *err);

/* wait_is_over: it is to be answered with what it has. */
bool wait_is_over(const struct engine *engine, const struct lease_command *lease);

/* unparked_apply tries those leases of the batch again that would be parked, or that waited for the
 * dispatch. */
enum status unparked_apply(struct engine *engine, struct command *batch, struct err *err);

/* command_done answers a command: from here on it is its caller's again. */
void command_done(struct engine *engine, struct command *command);

/* parked_answer answers those that have jobs or whose time is over (or all of them: the engine
 * stops). */
void parked_answer(struct engine *engine, bool all);

/* parked_undo takes back what parked_apply gave: the batch failed. */
void parked_undo(struct engine *engine);

/* parked_shift moves the ends of their waits: the clock jumped. */
void parked_shift(struct engine *engine, struct span by);

/* parked_wake is when the first of them gives up. */
struct instant parked_wake(const struct engine *engine);

struct failed;

/* -- waiting for letters (await.c) ---------------------------------------------------------------
 */

/* await_begin looks at the letters for the first time; await_park keeps the command when some are
 * recovering; await_answer answers those that are done or whose time is over (or all of them). */
enum status await_begin(struct engine *engine, struct await_command *command);
bool await_park(struct engine *engine, struct command *command);
void await_answer(struct engine *engine, bool all);
void await_shift(struct engine *engine, struct span by);
struct instant await_wake(const struct engine *engine);

/* -- letters from elsewhere (replay.c), others who share the store (share.c) ---------------------
 */

/* replay_possible says whether somebody can publish now. */
bool replay_possible(const struct engine *engine);
/* replay_check refuses a retry of a letter from elsewhere that cannot be carried out. */
enum status replay_check(const struct engine *engine, const struct review_command *command,
                         struct err *err);
/* replay_revive makes letter->job the job that is to be published; replay_live, after its event was
 * recorded, makes it live. */
enum status replay_revive(struct engine *engine, struct letter *letter, struct err *err);
enum status replay_live(struct engine *engine, const struct letter *letter, struct err *err);
/* replay_failed says what follows when it was not published. */
enum status replay_failed(struct engine *engine, struct failed *failed, struct arena *arena,
                          struct err *err);
/* replay_lineage ties a letter that comes in to the one before it with the same subject and
 * payload: how often that was brought back counts here too. */
enum status replay_lineage(struct engine *engine, struct letter *letter, struct slice payload,
                           struct arena *arena, struct err *err);
/* replay_origin is the hash of a subject and a payload, never 0. */
uint64_t replay_origin(struct slice subject, struct slice payload);
/* inbox_done takes items out of the store's inbox. */
enum status inbox_done(struct engine *engine, const int64_t *seqs, size_t count, struct err *err);

/* -- failure and quarantine ----------------------------------------------------------------------
 */

/* struct failed: a failed attempt on its way through the decision. */
struct failed {
    struct job job;
    const struct failure *failure;
    struct slice actor;
    struct slice worker; /* who had a dispatched job, when its report names another; else empty */
    struct slice job_id; /* filled by failure_apply, as is all below */
    struct envelope envelope;
    struct policy policy;
    struct decision decision;
    struct hash evidence; /* the digest of the attempt's record */
    struct letter letter; /* of a quarantine */
    struct slice dlq_id;
};

/* failure_apply decides what follows a failed attempt and carries it out: the only way to a retry.
 */
enum status failure_apply(struct engine *engine, struct failed *failed, struct arena *arena,
                          struct err *err);

/* quarantine_name fills failed->letter: the letter that the job has, or a new one. */
enum status quarantine_name(struct engine *engine, struct failed *failed, struct arena *arena,
                            struct err *err);

/* quarantine moves the job into that letter. */
enum status quarantine(struct engine *engine, struct failed *failed, struct arena *arena,
                       struct err *err);

/* letter_text prints what search finds about a letter into engine->text. */
struct slice letter_text(struct engine *engine, const struct letter *letter, struct slice message,
                         struct slice body);

/* -- policies ------------------------------------------------------------------------------------
 */

enum status policies_load(struct engine *engine, struct err *err);
void policies_release(struct engine *engine);
const struct policy *policy_find(const struct engine *engine, struct slice name);

/* policy_of is the policy of an envelope: the inline one (parsed into `out`), the named one, or the
 * default.  STATUS_INVALID for an inline one that is wrong, or a name that nobody knows. */
enum status policy_of(struct engine *engine, const struct envelope *envelope, struct arena *arena,
                      struct policy *out, struct err *err);

#endif
