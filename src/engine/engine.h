/* engine: the one way in.
 *
 * Callers put commands into a mailbox.  The engine takes all that are waiting, applies them in one
 * transaction, commits once, and only then releases the answers: an answer is true on disk.  Under
 * load the batch grows by itself while the disk syncs.
 *
 *     engine_submit --> mailbox --> [ begin | apply each | timers | commit ] --> done(command)
 *                                          `-- any write fails: rollback, every command of the
 * batch is answered with the error, and the engine goes on
 *
 * A command that is refused (bad input, conflict, not found) changes nothing and does not disturb
 * the others of its batch.  No job is run again but by a decision that is recorded here. */
#ifndef LAZARET_ENGINE_ENGINE_H
#define LAZARET_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/seams.h"
#include "base/status.h"
#include "core/envelope.h"
#include "core/failure.h"
#include "core/letter.h"
#include "core/match.h"
#include "core/policy.h"
#include "engine/numbers.h"
#include "store/store.h"

struct engine;

/* struct retention: how long ended work is kept.  0 us: for good (the default). */
struct retention {
    struct span done;      /* jobs that are done or cancelled */
    struct span recovered; /* letters that were brought back or rolled back */
    struct span discarded; /* letters that were given up */
};

/* struct engine_config: `{0}` but for `store` and `seams` is the default. */
struct engine_config {
    struct store *store; /* the engine closes it */
    struct slice server; /* its name among those that share the store; empty: it is alone */
    const struct seams *seams;
    size_t live_max;           /* live jobs at most; 0: 10 million.  Past it new work is refused */
    struct span lease_default; /* of a worker that does not say; 0: 30 s */
    struct span lease_max;     /* 0: 12 h */
    struct retention retention;
};

/* ---- commands ------------------------------------------------------------------------------- */

enum command_kind {
    COMMAND_PUSH,
    COMMAND_LEASE,
    COMMAND_HEARTBEAT,
    COMMAND_RESOLVE,
    COMMAND_RELEASE,
    COMMAND_INTERRUPT,
    COMMAND_CANCEL,
    COMMAND_REVIEW,
    COMMAND_IMPORT,
    COMMAND_PURGE,
    COMMAND_QUEUE,
    COMMAND_POLICY,
    COMMAND_GROUP,
    COMMAND_DUTY,
    COMMAND_SETTLE,
    COMMAND_AWAIT,
    COMMAND_READ,
    COMMAND_COUNT
};

/* struct command: the head of every command.  The caller owns it and what it points to, and keeps
 * its hands off from engine_submit until `done` is called. */
struct command {
    enum command_kind kind;
    struct slice actor;             /* who asks: stands in every event */
    struct arena *arena;            /* the caller's: answers are allocated here */
    void (*done)(struct command *); /* called on the engine's thread, after the commit */
    void *owner;                    /* the caller's, for `done` */
    enum status status;             /* the answer: whether the command as a whole was carried out */
    struct err err;                 /* and, when not, why */
    struct command *next;           /* the mailbox's */
};

/* A claimed job is its claimant's: who pushed it or brought it back, and runs it in its own
 * process. One that was ready for so long without being leased is quarantined: the claimant is
 * gone. */
#define CLAIM_SECONDS 60

/* Push: enqueue jobs.  Each has an answer of its own; one that is refused does not stop the others.
 */
struct push_item {
    struct envelope envelope;
    enum status
        status; /* STATUS_CONFLICT: the job_id is known with other bytes; STATUS_LIMIT; ... */
    struct err err;
    bool created;        /* false: it was known, by its id or a key */
    bool claim;          /* only a lease that names the job gets it: see CLAIM_SECONDS */
    struct slice job_id; /* of the job that is now there */
    enum job_state state;
    struct span retry_after; /* of STATUS_LIMIT: when to try again */
};

struct push_command {
    struct command command;
    struct push_item *items;
    size_t count;
};

/* Lease: take up to `max` ready jobs, and be given those that are dispatched to the worker.  With
 * `wait`, a command that finds none is kept, without a thread, until there is a job for it or the
 * time is over. */
#define LEASE_ID_SIZE 40 /* room for a lease id and its NUL */

struct lease {
    char lease_id[LEASE_ID_SIZE];
    struct slice job_id;
    uint32_t attempt;
    struct slice match; /* the dispatch hint: "best", "rescore", "broadened" */
    struct instant expires_at;
    struct slice body; /* the envelope, byte for byte */
    struct slice queue;
};

struct worker;

struct lease_command {
    struct command command;
    struct slice worker_id;
    struct ready_query query;
    const struct slice *job_ids;   /* the only jobs that it is for, claimed ones among them */
    size_t job_id_count;           /* 0: it is for any that is not claimed */
    struct match_list scopes;      /* of dispatched jobs: the only ones it may see; see match.h */
    struct match_list permissions; /* likewise */
    size_t max;
    struct span lease;         /* 0: the default */
    struct span wait;          /* for a first job; 0: not at all */
    struct lease *leases;      /* the answer */
    size_t count;              /* likewise */
    size_t room;               /* the engine's: leases that there is memory for */
    struct worker *worker;     /* likewise: who asks, as it is known */
    struct instant wait_until; /* likewise */
    atomic_bool abandoned;     /* likewise: see engine_abandon */
};

/* Heartbeat: keep leases.  The first one marks the job started. */
enum heartbeat_outcome { HEARTBEAT_EXTENDED, HEARTBEAT_LOST, HEARTBEAT_CANCELLED };

struct heartbeat_item {
    struct slice lease_id;
    enum heartbeat_outcome outcome;
    struct instant expires_at;
};

struct heartbeat_command {
    struct command command;
    struct slice worker_id;
    struct span lease; /* 0: the default */
    struct heartbeat_item *items;
    size_t count;
};

/* Resolve: report outcomes.  STATUS_LEASE_LOST for an unknown or ended lease: nothing is changed.
 */
struct result_item {
    struct slice lease_id;
    bool failed;
    struct failure failure; /* when failed */
    struct slice result;    /* when not: JSON, or empty */
    enum status status;
    struct err err;
    struct slice job_id;
    enum job_state state;         /* what the job is now */
    struct instant next_retry_at; /* when scheduled */
    struct slice dlq_id;          /* when dead */
};

struct resolve_command {
    struct command command;
    struct result_item *items;
    size_t count;
};

/* Release: give leases back unstarted; no attempt is counted.  STATUS_LEASE_LOST for an unknown or
 * ended one. */
struct release_item {
    struct slice lease_id;
    enum status status;
};

struct release_command {
    struct command command;
    struct release_item *items;
    size_t count;
};

/* Interrupt: the worker was cut off (it was stopped, or it died): its leases end now, as
 * interrupted failures.  A command looks at a bounded number of running jobs, the newest first;
 * while it answers with `more`, submit it again. */
struct interrupt_command {
    struct command command;
    struct slice worker_id;
    struct slice message; /* of the failures; empty: a sentence that says whether the job began */
    int64_t cursor;       /* 0: from the start; the engine moves it on */
    size_t interrupted;   /* the answer: leases that this command ended */
    bool more;            /* there may be others below the cursor */
};

struct cancel_command {
    struct command command;
    struct slice job_id;
    enum job_state
        state; /* after it: JOB_CANCELLED, or JOB_RUNNING when the worker is to be told */
};

/* Review: act on letters, each with an answer of its own. */
struct review_item {
    struct slice dlq_id;
    enum status status;
    struct err err;
    struct slice
        job_id; /* of the letter; after a rollback: `compensation` is the job that was pushed */
    struct slice compensation;
    bool republished; /* of a retry: the letter goes back to where it came from, and is recovering
                         until it has arrived: see await_command */
};

struct review_command {
    struct command command;
    enum review_action action;
    struct review_item *items;
    size_t count;
    struct slice by;       /* recovered_by: "api-retry", or the actor; empty: the actor */
    struct slice note;     /* why, in a person's words */
    struct slice patch;    /* of a retry: RFC 6902 */
    struct slice merge;    /* of a retry: RFC 7396 */
    struct slice queue;    /* of a retry: another queue */
    struct slice policy;   /* of a retry: another policy, by name */
    uint32_t attempts_max; /* of a retry: runs allowed in this round; 0: the policy's */
    bool hold;  /* of a retry: the letter is recovering until its job is done, and the job keeps its
                   old place in the line */
    bool claim; /* of a retry: in this round only a lease that names the job gets it */
    bool refuse_review; /* who asks may not decide about letters that need review */
};

/* Import: take letters in from elsewhere.  One whose dlq_id is known is not taken again. */
struct import_attempt {
    uint32_t attempt;
    struct failure failure;
    struct slice decision; /* that followed it, as JSON; empty: not known */
};

struct import_item {
    struct letter letter; /* dlq_id and job_id are made when empty; see letter.h */
    struct slice body;    /* original_payload */
    const struct import_attempt *attempts;
    size_t attempt_count;
    bool from_receipt; /* the reader's: it is an entry of receipts.json */
    enum status status;
    struct err err;
    bool created;
    struct slice dlq_id;
};

struct import_command {
    struct command command;
    struct import_item *items;
    size_t count;
    const int64_t *inbox; /* items of the store's inbox that this carries out */
    size_t inbox_count;
};

/* Purge: remove letters for good, leaving tombstones.  Letters that are dead are only purged by
 * `force`. */
struct purge_command {
    struct command command;
    struct slice *dlq_ids;
    size_t count;
    bool force;
    size_t purged; /* the answer */
    size_t kept;   /* not purged, as they still need review */
};

struct queue_command {
    struct command command;
    struct slice queue;
    bool paused;
};

/* Policy: set a named policy.  The answer is its version. */
struct policy_command {
    struct command command;
    struct slice name;
    struct slice body; /* JSON */
    int64_t version;
};

struct group_command {
    struct command command;
    struct slice fingerprint;
    struct slice note; /* why, in somebody's words; empty: none */
    enum group_status status;
};

/* Duty: be the one server that does something for all, until `ttl` from now, or go on being it. The
 * answer is whether this one has it, and how far it has come. */
struct duty_command {
    struct command command;
    struct slice name;   /* "scanner", "alerts", ... */
    struct slice holder; /* this server's own name */
    struct span ttl;     /* 0: give it up */
    bool advance;        /* set the cursor, when it is ours (before and after) */
    int64_t cursor;      /* how far it is; the answer too */
    bool held;           /* the answer */
};

/* Settle: what somebody else did with letters, in the relation that programs share. */
struct settle_item {
    struct slice dlq_id;
    enum tristate recoverable; /* UNSAID: it was brought back; else it was only said whether a
                                  machine may do that */
    struct slice by;           /* recovered_by; empty: the actor */
    struct instant at;         /* recovered_at; not set: now */
    enum status status;        /* STATUS_NOT_FOUND, STATUS_CONFLICT: it is not dead */
    struct err err;
};

struct settle_command {
    struct command command;
    struct settle_item *items;
    size_t count;
    const int64_t *inbox; /* as of an import */
    size_t inbox_count;
};

/* Await: the answer comes when none of the letters is recovering any more, or when the time is
 * over. */
struct await_item {
    struct slice dlq_id;
    enum letter_state state; /* the answer; LETTER_STATE_COUNT: there is no such letter */
    int64_t job_seq;         /* the engine's: 0 when it is not recovering */
};

struct await_command {
    struct command command;
    struct await_item *items;
    size_t count;
    struct span wait;
    size_t pending;            /* the answer: those that are still recovering */
    struct instant wait_until; /* the engine's */
};

/* Read: run a function on the engine's thread, which may only read the store. */
struct read_command {
    struct command command;
    enum status (*read)(struct engine *engine, struct store *store, void *ctx, struct arena *arena,
                        struct err *err);
    void *ctx;
};

/* ---- the engine ----------------------------------------------------------------------------- */

/* engine_new makes an engine over an open store, which it owns from then on (also when this fails).
 */
enum status engine_new(const struct engine_config *config, struct engine **out, struct err *err);

/* engine_start gives the engine its thread.  Without it (in the simulator) engine_step does the
 * work. */
enum status engine_start(struct engine *engine, struct err *err);

/* engine_stop ends the thread after everything that was submitted has been answered. */
void engine_stop(struct engine *engine);

/* engine_free stops, closes the store and frees. */
void engine_free(struct engine *engine);

/* engine_submit puts a command into the mailbox.  Any thread may. */
void engine_submit(struct engine *engine, struct command *command);

/* engine_call submits and waits for the answer; `done` is not used.  It returns the answer's
 * status. Never from the engine's own thread. */
enum status engine_call(struct engine *engine, struct command *command);

/* engine_abandon ends the wait of a submitted lease: it is answered soon, with jobs only if it was
 * given some before.  Any thread, as long as the command's memory lives; after its answer it does
 * nothing. */
void engine_abandon(struct engine *engine, struct lease_command *lease);

/* engine_poke has the engine look at what others wrote into a shared store.  Any thread. */
void engine_poke(struct engine *engine);

/* engine_publisher says whether letters from elsewhere can be published again now: without it a
 * retry of one is refused.  Any thread. */
void engine_publisher(struct engine *engine, bool connected);

/* engine_step carries out everything that waits, and the timers, as one batch.  Only without a
 * thread. */
void engine_step(struct engine *engine);

/* engine_next_wake is when engine_step will have something to do by itself. */
struct instant engine_next_wake(struct engine *engine);

/* engine_now is the time of day that the engine goes by: the wall clock, less its jumps inside a
 * batch. */
struct instant engine_now(const struct engine *engine);

/* engine_watch has `watch` called, after the commit, with every event of it: for a simulator.  Only
 * without a thread. */
void engine_watch(struct engine *engine, void (*watch)(void *ctx, const struct event *event),
                  void *ctx);

/* engine_listen has `committed` called on the engine's thread, after each commit and before its
 * answers, with the seq of the last event.  It must not wait.  NULL ends that: when engine_listen
 * returns, the one before is not called any more.  Any thread but the engine's, at any time. */
void engine_listen(struct engine *engine, void (*committed)(void *ctx, int64_t seq), void *ctx);

/* engine_policy finds a policy by name: the stored one, else the preset.  For reads: inside
 * read_command only. */
enum status engine_policy(struct engine *engine, struct slice name, struct policy *out,
                          struct err *err);

/* ---- workers --------------------------------------------------------------------------------- */

/* struct worker_info: a worker that is known here. */
struct worker_info {
    struct slice worker_id;
    struct match_list queues;       /* none: every queue */
    struct match_list capabilities; /* what it can do */
    struct match_list scopes;       /* of dispatched jobs: the only ones it may see; none: any */
    struct match_list permissions;  /* likewise */
    struct span ttl;                /* how long it is live after it was last seen */
    struct instant last_seen;
    bool live;
    size_t running; /* leases that it holds, as far as is known since the start */
    size_t waiting; /* leases that it asks for now */
};

/* engine_worker_set registers a worker: who it is, what it can do and may see, and its ttl (0: the
 * default).  The rest of `info` is the answer.  Inside a read_command, or without a thread.  It
 * lasts until the engine ends, or the worker leaves for lack of room. */
enum status engine_worker_set(struct engine *engine, struct worker_info *info, struct err *err);

/* engine_worker_list lists up to `limit` workers, the one that was seen last first.  Likewise. */
enum status engine_worker_list(struct engine *engine, enum tristate live, size_t limit,
                               struct arena *arena, struct worker_info **out, size_t *count,
                               struct err *err);

/* struct engine_numbers: counters since the start.  Inside a read_command, or without a thread. */
struct engine_numbers {
    uint64_t batches, commands;
    uint64_t batches_failed;
    int64_t commit_us_last;
    size_t live;
};
void engine_numbers(struct engine *engine, struct engine_numbers *out);

/* engine_report copies what was counted by name, and the histograms (numbers.h).  Likewise. */
enum status engine_report(struct engine *engine, struct arena *arena, struct numbers_report *out,
                          struct err *err);

#endif
