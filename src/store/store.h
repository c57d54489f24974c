/* store: where jobs, letters and evidence are kept.
 *
 * A store is a struct of functions; an implementation embeds it as its first member.  One suite
 * (tests/store) holds every implementation to the contracts below.  A store never decides: it
 * finds, writes and lists.  It is used by one thread at a time.
 *
 * An embedded store has one writer: this process.  A shared one (PostgreSQL) has any number, each
 * with the same index of live jobs in memory: between begin() and commit() a writer has the turn,
 * alone, and begin() has brought its memory up to what the others did before.
 *
 * Writes happen between begin() and commit(); commit() returns when they are on disk.  When any
 * write fails the caller must roll back: nothing of the transaction remains, in memory either.
 *
 * Live jobs (pending, scheduled, running) are found by id, key, readiness and time without reading
 * the disk.  A job that ends leaves the live table for `finished` or for a letter, and keeps its
 * seq. */
#ifndef LAZARET_STORE_STORE_H
#define LAZARET_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/seams.h"
#include "base/slice.h"
#include "base/status.h"
#include "core/event.h"
#include "core/failure.h"
#include "core/job.h"
#include "core/letter.h"

enum store_key { STORE_KEY_IDEMPOTENCY, STORE_KEY_RETRY };

/* struct ready_query: which pending jobs a worker may take. */
struct ready_query {
    const struct slice *queues; /* none: every queue */
    size_t queue_count;
    const struct slice *capabilities; /* what the worker can do */
    size_t capability_count;
};

/* struct requiring: the live jobs that require a capability. */
struct requiring {
    int64_t counts[JOB_RUNNING + 1]; /* by enum job_state */
    struct instant next_due;         /* the first of those that are scheduled; not set: none is */
};

/* struct hinted_query: which pending jobs with dispatch hints are looked for: those of the queues
 * and sets of required capabilities, by their numbers, that `wants` accepts. */
struct hinted_query {
    bool (*wants)(void *ctx, uint32_t queue, uint32_t capabilities);
    void *ctx;
};

/* struct stored_envelope: an envelope as it lies in the store. */
struct stored_envelope {
    int64_t job_seq;
    struct slice job_id;
    struct slice body;
};

/* struct finished: a job that is done or cancelled. */
struct finished {
    struct job job; /* as it was at the end; `state` is JOB_DONE or JOB_CANCELLED */
    struct instant at;
    struct slice result; /* what the worker handed back, as JSON; empty: nothing */
};

/* struct attempt_record: the evidence of one failed attempt. */
struct attempt_record {
    uint32_t attempt;
    struct slice failure; /* one JSON object: the failure and the decision that followed */
};

/* struct letter_filter: which letters.  Empty slices, unset instants and UNSAID do not restrict. */
struct letter_filter {
    enum tristate recovered; /* state is recovered */
    enum tristate eligible;
    enum tristate open; /* YES: dead or recovering */
    bool has_state;
    enum letter_state state;
    struct slice reason, source, queue, signature, fingerprint, error_type;
    struct slice job_id; /* the job's own id, or the id of the run it belongs to */
    struct slice trace_id, agent, actor;
    struct slice q;               /* words of the error, the ids or the payload: all must occur */
    struct instant after, before; /* failed_at: after <= t < before */
    uint32_t attempts_min, attempts_max; /* failure_count; 0: no limit */
    enum tristate recoverable;
    uint32_t redrives_below; /* brought back fewer times than this; 0: no limit */
    bool oldest_first;
    int64_t cursor; /* `position` of the last letter of the page before; 0: from the start */
    size_t limit;
};

/* struct letter_wanted: a letter that will be asked for: by its id, by its origin, or both. */
struct letter_wanted {
    struct slice dlq_id; /* empty: not by its id */
    uint64_t origin;     /* 0: not by its origin */
};

/* struct letter_count: how many letters share these facts.  Kept as letters change, never counted.
 */
struct letter_count {
    enum letter_state state;
    bool recoverable;
    struct slice reason, source, queue;
    int64_t count;
};

enum group_status { GROUP_OPEN, GROUP_RESOLVED, GROUP_IGNORED };

#define GROUP_TREND_HOURS 24

/* struct letter_group: letters with one fingerprint.  `count` is of those that are open now: dead
 * or recovering. */
struct letter_group {
    struct slice fingerprint, signature;
    int64_t count;
    int64_t total; /* ever, returns included */
    struct instant first_seen, last_seen;
    enum group_status status;
    struct slice sample_ids[3]; /* dlq_ids, newest first */
    size_t sample_count;
    int64_t trend[GROUP_TREND_HOURS]; /* deaths an hour, the last is the hour of `now` */
};

/* struct hour_count: deaths in one hour. */
struct hour_count {
    struct instant hour;
    int64_t count;
};

/* struct queue_info: one queue and how much is in it. */
struct queue_info {
    uint32_t queue;
    struct slice name;
    bool paused;
    int64_t counts[JOB_STATE_COUNT]; /* by enum job_state; JOB_DEAD counts unrecovered letters */
    struct instant oldest_pending;   /* pushed_at; not set when there is none */
};

/* struct stored_policy: one version of a named policy. */
struct stored_policy {
    struct slice name;
    int64_t version; /* 1, 2, ...; built-in ones are not stored */
    struct slice body;
    struct instant at;
};

/* struct job_row: a job of any state, for listings. */
struct job_row {
    struct job job;
    struct slice job_id;
    struct slice queue;
    struct slice worker;     /* running: who has it */
    struct slice dlq_id;     /* dead: its letter */
    struct instant ended_at; /* done, cancelled, dead */
};

/* struct tombstone: what is left of something that was purged. */
struct tombstone {
    int64_t job_seq;
    struct slice job_id, dlq_id;
    struct slice what; /* "letter" or "job" */
    struct instant at;
    int64_t event_seq; /* its last event */
};

/* struct duty: something that one server at a time does for all: the scanner, the alerts. */
struct duty {
    struct slice name;
    struct slice holder;  /* who does it */
    struct instant until; /* others may take it over then */
    int64_t cursor;       /* how far it has come: the seq of an event; 0: at the start */
};

/* struct roster: who works for one of the servers that share a store. */
struct roster {
    struct slice server;
    struct instant until; /* it holds that long */
    struct slice body;    /* JSON, the engine's own */
};

/* struct inbox_item: what another program wrote into the relation swarm_dlq. */
struct inbox_item {
    int64_t seq;
    bool is_new;       /* a row was inserted; false: one was updated */
    struct slice body; /* the row as a JSON object with the swarm's fields */
};

/* What others changed, see news(). */
#define STORE_NEWS_JOBS 1u     /* jobs, letters or queues: a job may be ready that was not */
#define STORE_NEWS_POLICIES 2u /* a policy */

struct store {
    void (*close)(struct store *store);

    /* -- transactions ------------------------------------------------------------------------ */

    enum status (*begin)(struct store *store, struct err *err);
    enum status (*commit)(struct store *store, struct err *err);
    /* rollback undoes everything since begin and brings the live index back to what the disk says.
     * When that fails too, the store is unusable until a reload succeeds. */
    enum status (*rollback)(struct store *store, struct err *err);
    /* reload rebuilds the live index from the disk. */
    enum status (*reload)(struct store *store, struct err *err);

    /* -- other writers ------------------------------------------------------------------------ */

    /* refresh brings memory up to what others have committed, outside of a transaction: for reads.
     * Nothing to do for an embedded store. */
    enum status (*refresh)(struct store *store, struct err *err);
    /* news is what begin, refresh or reload found that others had changed (STORE_NEWS_*), since it
     * was last asked. */
    unsigned (*news)(struct store *store);
    /* listen has `woken` called, from a thread of the store's own, when others have committed
     * something (or may have).  Before the first use of the store; it ends with close. */
    void (*listen)(struct store *store, void (*woken)(void *ctx), void *ctx);
    /* duty_get reads a duty; STATUS_NOT_FOUND when nobody ever had it. */
    enum status (*duty_get)(struct store *store, struct slice name, struct arena *arena,
                            struct duty *out, struct err *err);
    enum status (*duty_put)(struct store *store, const struct duty *duty, struct err *err);
    /* roster_put writes the roster of one server, in the place of the one before; roster_list lists
     * those that hold at `now`.  NULL, both, for an embedded store. */
    enum status (*roster_put)(struct store *store, const struct roster *roster, struct err *err);
    enum status (*roster_list)(struct store *store, struct instant now, struct arena *arena,
                               struct roster **out, size_t *count, struct err *err);
    /* inbox_list lists what other programs wrote, the first first; an embedded store has none. */
    enum status (*inbox_list)(struct store *store, size_t limit, struct arena *arena,
                              struct inbox_item **out, size_t *count, struct err *err);
    /* inbox_done removes items, in the transaction that carries them out. */
    enum status (*inbox_done)(struct store *store, const int64_t *seqs, size_t count,
                              struct err *err);

    /* -- live jobs: finding ------------------------------------------------------------------ */

    /* The job_* finders return false when there is no such live job, or when reading failed: then
     * `err` has text. */
    bool (*job_by_seq)(struct store *store, int64_t seq, struct job *out);
    bool (*job_by_id)(struct store *store, struct slice job_id, uint64_t id_hash, struct job *out,
                      struct err *err);
    bool (*job_by_key)(struct store *store, enum store_key which, struct slice key, uint64_t hash,
                       struct job *out, struct err *err);
    /* ready finds up to `max` pending jobs that the query allows, the highest priority first and
     * within it the longest ready first, none of a paused queue and none that stands apart:
     * with dispatch hints (JOB_HAS_HINTS) or claimed (JOB_CLAIMED).  They stay pending until they
     * are updated. */
    size_t (*ready)(struct store *store, const struct ready_query *query, struct job *out,
                    size_t max);
    /* due makes scheduled jobs whose time has come pending. */
    void (*due)(struct store *store, struct instant now);
    /* expired finds up to `max` running jobs whose lease has ended by `now`. */
    size_t (*expired)(struct store *store, struct instant now, struct job *out, size_t max);
    /* next_timer is when due(), expired() or unassigned() will next have something to do. */
    struct instant (*next_timer)(struct store *store);
    size_t (*live_count)(struct store *store);

    /* -- live jobs with dispatch hints -------------------------------------------------------- */

    /* hinted finds up to `max` pending jobs with hints that the query wants, in the order of
     * ready(), none of a paused queue. */
    size_t (*hinted)(struct store *store, const struct hinted_query *query, struct job *out,
                     size_t max);
    /* hinted_count is how many pending jobs with hints there are, paused ones included. */
    size_t (*hinted_count)(struct store *store);
    /* unassigned finds up to `max` pending jobs with hints whose time to be given to a worker
     * (deadline_at - due_at, from when they became pending) is over by `now`, and claimed ones
     * whose deadline_at is, none of a paused queue.  Each is given once: the caller fails it. */
    size_t (*unassigned)(struct store *store, struct instant now, struct job *out, size_t max);
    /* assignment_restart counts that time from `now`, of the jobs of one queue (0: of all those
     * with hints).  It is for a start, a reload and a queue that goes on; nothing is written. */
    void (*assignment_restart)(struct store *store, uint32_t queue, struct instant now);
    /* requiring counts the live jobs that require a capability, alone or with others. */
    void (*requiring)(struct store *store, struct slice capability, struct requiring *out);

    /* -- live jobs: writing ------------------------------------------------------------------ */

    /* job_insert writes a new job and its envelope, and sets job->seq and job->envelope_seq.  With
     * job->seq already set (an imported letter comes back) that one is kept. */
    enum status (*job_insert)(struct store *store, struct job *job, struct slice job_id,
                              struct slice body, struct err *err);
    /* job_update writes what changed.  `worker` is who holds the lease, for a job that is running.
     */
    enum status (*job_update)(struct store *store, const struct job *job, struct slice worker,
                              struct err *err);
    /* job_worker is who holds the lease of a running job. */
    enum status (*job_worker)(struct store *store, int64_t seq, struct arena *arena,
                              struct slice *out, struct err *err);
    /* job_finish moves a live job to the finished ones.  `job_id` is the one that envelope_job_id
     * gave, so that it is not read twice. */
    enum status (*job_finish)(struct store *store, const struct job *job, struct slice job_id,
                              struct instant at, struct slice result, struct err *err);
    /* job_bury takes a live job out of the live ones; its letter is written with letter_put. */
    enum status (*job_bury)(struct store *store, const struct job *job, struct err *err);
    /* job_revive makes a dead job live again. */
    enum status (*job_revive)(struct store *store, const struct job *job, struct err *err);
    /* seq_next reserves the next seq: for a letter that never was a job here. */
    int64_t (*seq_next)(struct store *store);
    /* shift moves the lease ends, the retry times (not those with JOB_RUN_AT) and the times to be
     * assigned of live jobs by `by`: the clock jumped.  A shared store leaves them: they are the
     * times of other servers too, whose clocks did not. */
    enum status (*shift)(struct store *store, struct span by, struct err *err);

    /* -- envelopes, documents, attempts ------------------------------------------------------ */

    enum status (*envelope_get)(struct store *store, int64_t envelope_seq, struct arena *arena,
                                struct stored_envelope *out, struct err *err);
    /* envelope_job_id reads only the job_id of an envelope. */
    enum status (*envelope_job_id)(struct store *store, int64_t envelope_seq, struct arena *arena,
                                   struct slice *out, struct err *err);
    /* envelope_add appends an envelope: the edit of an earlier one, or a letter's from elsewhere.
     */
    enum status (*envelope_add)(struct store *store, int64_t job_seq, struct slice job_id,
                                struct slice body, int64_t *envelope_seq, struct err *err);
    /* envelope_list lists the seqs of a job's envelopes: as it was pushed, then each edit. */
    enum status (*envelope_list)(struct store *store, int64_t job_seq, struct arena *arena,
                                 int64_t **out, size_t *count, struct err *err);
    /* document_get reads a job's status document; STATUS_NOT_FOUND when it has none. */
    enum status (*document_get)(struct store *store, int64_t job_seq, struct arena *arena,
                                struct slice *out, struct err *err);
    enum status (*document_put)(struct store *store, int64_t job_seq, struct slice body,
                                struct err *err);
    enum status (*attempt_add)(struct store *store, int64_t job_seq, uint32_t attempt,
                               struct slice failure, struct err *err);
    /* attempt_list reads a job's failed attempts, the first first. */
    enum status (*attempt_list)(struct store *store, int64_t job_seq, struct arena *arena,
                                struct attempt_record **out, size_t *count, struct err *err);

    /* -- jobs of any state ------------------------------------------------------------------- */

    /* job_find finds a job by id in whatever state it is.  STATUS_NOT_FOUND when there is none. */
    enum status (*job_find)(struct store *store, struct slice job_id, struct arena *arena,
                            struct job_row *out, struct err *err);
    /* job_find_seq is job_find by seq. */
    enum status (*job_find_seq)(struct store *store, int64_t seq, struct arena *arena,
                                struct job_row *out, struct err *err);
    /* job_list lists jobs below seq `cursor` (0: from the newest), newest first. `state` < 0 or an
     * empty `queue`: any. */
    enum status (*job_list)(struct store *store, int state, struct slice queue, int64_t cursor,
                            size_t limit, struct arena *arena, struct job_row **out, size_t *count,
                            struct err *err);
    enum status (*finished_get)(struct store *store, int64_t seq, struct arena *arena,
                                struct finished *out, struct err *err);
    /* forever_get finds the job that holds a key for good (constraints.unique_forever); false:
     * none. */
    bool (*forever_get)(struct store *store, enum store_key which, struct slice key,
                        int64_t *job_seq, struct err *err);
    enum status (*forever_put)(struct store *store, enum store_key which, struct slice key,
                               int64_t job_seq, struct err *err);

    /* -- letters ----------------------------------------------------------------------------- */

    /* letter_put writes a letter: a new one, or what became of the one that the job has.  It keeps
     * the counters, the group and the search text.  letter->position is set (it changes only when
     * failed_at does).  `text` is what search finds; NULL text keeps what was there.  `died` says
     * that this is a death (now or, for an import, then) and not a review: it counts in the trend.
     */
    enum status (*letter_put)(struct store *store, struct letter *letter, const struct slice *text,
                              bool died, struct err *err);
    enum status (*letter_get)(struct store *store, struct slice dlq_id, struct arena *arena,
                              struct letter *out, struct err *err);
    enum status (*letter_by_job)(struct store *store, int64_t job_seq, struct arena *arena,
                                 struct letter *out, struct err *err);
    /* letter_expect says what letter_get and letter_by_origin will be asked for in this
     * transaction, so that one wait answers for all those that are not there.  NULL: there is
     * nothing to wait for. */
    enum status (*letter_expect)(struct store *store, const struct letter_wanted *wanted,
                                 size_t count, struct err *err);
    /* letter_by_origin finds the newest letter from elsewhere (`foreign`) whose
     * job.idempotency_hash is `origin`: the hash of its subject and payload. */
    enum status (*letter_by_origin)(struct store *store, uint64_t origin, struct arena *arena,
                                    struct letter *out, struct err *err);
    /* letter_list lists a page: newest failed_at first. */
    enum status (*letter_list)(struct store *store, const struct letter_filter *filter,
                               struct arena *arena, struct letter **out, size_t *count,
                               struct err *err);
    /* letter_like finds dlq_ids that begin with `prefix`, up to `max`: for "did you mean". */
    enum status (*letter_like)(struct store *store, struct slice prefix, size_t max,
                               struct arena *arena, struct slice **out, size_t *count,
                               struct err *err);
    enum status (*letter_counts)(struct store *store, struct arena *arena,
                                 struct letter_count **out, size_t *count, struct err *err);
    /* letter_bounds is failed_at of the oldest and newest letter that is open: dead or recovering;
     * not set when there is none. */
    enum status (*letter_bounds)(struct store *store, struct instant *oldest,
                                 struct instant *newest, struct err *err);
    /* letter_oldest is failed_at of the oldest letter of a queue that is open; not set when there
     * is none.  It does not depend on how many there are. */
    enum status (*letter_oldest)(struct store *store, struct slice queue, struct instant *oldest,
                                 struct err *err);
    /* letter_run counts the letters of a run that are dead, and those that are recovering. */
    enum status (*letter_run)(struct store *store, struct slice run_id, int64_t *dead,
                              int64_t *recovering, struct err *err);
    enum status (*letter_hours)(struct store *store, struct instant from, struct arena *arena,
                                struct hour_count **out, size_t *count, struct err *err);
    /* group_list lists groups, the last seen first, after `cursor` = last_seen.us (0: from the
     * start). */
    enum status (*group_list)(struct store *store, struct instant now, int64_t cursor, size_t limit,
                              struct arena *arena, struct letter_group **out, size_t *count,
                              struct err *err);
    enum status (*group_get)(struct store *store, struct slice fingerprint, struct instant now,
                             struct arena *arena, struct letter_group *out, struct err *err);
    enum status (*group_set)(struct store *store, struct slice fingerprint,
                             enum group_status status, struct err *err);

    /* -- purging: nothing goes without a tombstone ------------------------------------------- */

    /* letter_purge removes a letter with its attempts, envelopes, document and, when the job
     * finished after a replay, its finished row; a tombstone stays.  Never of a job that is live.
     */
    enum status (*letter_purge)(struct store *store, const struct letter *letter,
                                struct instant now, struct err *err);
    /* finished_before finds up to `limit` jobs that ended before `before`, the oldest first; not
     * those with a letter (JOB_HAS_LETTER): they go with it. */
    enum status (*finished_before)(struct store *store, struct instant before, size_t limit,
                                   struct arena *arena, struct finished **out, size_t *count,
                                   struct err *err);
    /* finished_purge removes one of them with what belongs to it; a tombstone stays. */
    enum status (*finished_purge)(struct store *store, const struct finished *finished,
                                  struct instant now, struct err *err);
    enum status (*tombstone_get)(struct store *store, int64_t job_seq, struct arena *arena,
                                 struct tombstone *out, struct err *err);
    /* tombstone_find finds what was purged last under an id: a job_id or a dlq_id. */
    enum status (*tombstone_find)(struct store *store, struct slice id, struct arena *arena,
                                  struct tombstone *out, struct err *err);

    /* -- evidence ---------------------------------------------------------------------------- */

    /* event_append writes an event after the last one: it sets seq and hash. */
    enum status (*event_append)(struct store *store, struct event *event, struct err *err);
    /* event_list lists events with seq > `after`, in order. */
    enum status (*event_list)(struct store *store, int64_t after, size_t limit, struct arena *arena,
                              struct event **out, size_t *count, struct err *err);
    /* event_of_job lists a job's events with seq > `after`, in order, by walking back from `last`.
     */
    enum status (*event_of_job)(struct store *store, int64_t last, int64_t after, size_t limit,
                                struct arena *arena, struct event **out, size_t *count,
                                struct err *err);
    /* event_head is the last event's seq and hash; 0 and zeros for an empty store. */
    void (*event_head)(struct store *store, int64_t *seq, struct hash *hash);

    /* -- queues, capabilities, policies ------------------------------------------------------ */

    /* queue_number is the number of a queue, made when it is new. */
    enum status (*queue_number)(struct store *store, struct slice name, uint32_t *out,
                                struct err *err);
    /* queue_name borrows a name until the store is closed; empty for an unknown number. */
    struct slice (*queue_name)(struct store *store, uint32_t queue);
    enum status (*queue_pause)(struct store *store, uint32_t queue, bool paused, struct err *err);
    bool (*queue_paused)(struct store *store, uint32_t queue);
    enum status (*queue_list)(struct store *store, struct arena *arena, struct queue_info **out,
                              size_t *count, struct err *err);
    /* capabilities_number is the number of a set of capabilities (order and repeats do not matter),
     * made when it is new; 0 for the empty set. */
    enum status (*capabilities_number)(struct store *store, const struct slice *names, size_t count,
                                       uint32_t *out, struct err *err);
    /* capabilities_names borrows the names of a set until the next write: sorted, each once; NULL
     * for the empty set. */
    const struct slice *(*capabilities_names)(struct store *store, uint32_t number, size_t *count);
    /* policy_put appends a version of a policy. */
    enum status (*policy_put)(struct store *store, struct slice name, struct slice body,
                              struct instant now, int64_t *version, struct err *err);
    /* policy_get reads the latest version (version 0) or a given one. */
    enum status (*policy_get)(struct store *store, struct slice name, int64_t version,
                              struct arena *arena, struct stored_policy *out, struct err *err);
    /* policy_list lists the latest version of each. */
    enum status (*policy_list)(struct store *store, struct arena *arena, struct stored_policy **out,
                               size_t *count, struct err *err);
};

struct store_config {
    const char *path;          /* of the database file */
    const struct seams *seams; /* the world; its `vfs` is used */
};

/* store_sqlite_open opens or creates an embedded store.  An older file is migrated.  STATUS_FOREIGN
 * for a file that is not ours or of a later version, STATUS_CORRUPT for a damaged one,
 * STATUS_READ_ONLY for one that cannot be written: each with a sentence that names the file and
 * what to do, and the file left as it is. */
enum status store_sqlite_open(const struct store_config *config, struct store **out,
                              struct err *err);

/* struct postgres_config: a database that any number of servers share. */
struct postgres_config {
    const char *url;           /* postgres://... or a libpq conninfo string */
    const struct seams *seams; /* the world */
    bool pooled;               /* behind a pooler in transaction mode: no prepared statements, no
                                  LISTEN; what others do is seen once a second */
};

/* store_postgres_open connects to a database and makes its tables, or migrates them; servers may
 * start at once.  STATUS_UNAVAILABLE when it cannot be reached, STATUS_FOREIGN for tables of a
 * later version, STATUS_READ_ONLY for a standby or a role that may not write: each with a sentence
 * that says what to do and shows no password.  Afterwards a lost connection is made anew by itself:
 * until then what needs it fails with STATUS_IO. */
enum status store_postgres_open(const struct postgres_config *config, struct store **out,
                                struct err *err);

#endif
