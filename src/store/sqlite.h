/* sqlite: what the files of the embedded store share.
 *
 *     sqlite.c         the store: opening, transactions, loading, the table of functions
 *     sqlite_file.c    the database file: how it is opened and set up
 *     sqlite_owner.c   whose file it is
 *     sqlite_schema.c  tables, indexes and the migrations between their versions
 *     sqlite_sql.c     statements: preparing, binding, stepping, reading
 *     sqlite_batch.c   rows that are inserted many at a time
 *     sqlite_error.c   from SQLite's result codes to sentences
 *     sqlite_job.c     live jobs          sqlite_find.c    jobs of any state
 *     sqlite_body.c    envelopes, documents, attempts
 *     sqlite_letter.c  one letter         sqlite_list.c    pages of letters
 *     sqlite_match.c   from a person's words to a full-text query
 *     sqlite_count.c   what is counted    sqlite_group.c   groups of letters
 *     sqlite_event.c   evidence           sqlite_name.c    queues and sets of capabilities
 *     sqlite_policy.c  policies           sqlite_purge.c   removing
 *     sqlite_duty.c    duties, and what only a shared store has */
#ifndef LAZARET_STORE_SQLITE_H
#define LAZARET_STORE_SQLITE_H

#include <sqlite3.h>

#include "base/buf.h"
#include "store/live.h"
#include "store/store.h"

/* The prepared statements.  The text of each stands where it is used. */
enum sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_JOB_PUT, /* and the two after it: see sqlite_batch.c */
    SQL_JOB_PUT_SOME,
    SQL_JOB_PUT_MANY,
    SQL_JOB_DELETE,
    SQL_JOB_WORKER,
    SQL_JOB_SHIFT,
    SQL_FINISHED_INSERT, /* and the two after it */
    SQL_FINISHED_INSERT_SOME,
    SQL_FINISHED_INSERT_MANY,
    SQL_FINISHED_GET,
    SQL_FINISHED_BY_ID,
    SQL_FINISHED_BEFORE,
    SQL_FINISHED_DELETE,
    SQL_ENVELOPE_INSERT,
    SQL_ENVELOPE_GET,
    SQL_ENVELOPE_ID,
    SQL_ENVELOPE_BODY,
    SQL_ENVELOPE_EXISTS,
    SQL_ENVELOPE_EXTRA,
    SQL_ENVELOPE_LIST,
    SQL_ENVELOPE_DELETE,
    SQL_EXTRA_DELETE_BODIES,
    SQL_EXTRA_DELETE,
    SQL_DOCUMENT_GET,
    SQL_DOCUMENT_PUT,
    SQL_DOCUMENT_DELETE,
    SQL_ATTEMPT_INSERT, /* and the two after it */
    SQL_ATTEMPT_INSERT_SOME,
    SQL_ATTEMPT_INSERT_MANY,
    SQL_ATTEMPT_LIST,
    SQL_ATTEMPT_DELETE,
    SQL_FOREVER_GET,
    SQL_FOREVER_PUT,
    SQL_LETTER_OWNER,
    SQL_LETTER_INSERT,
    SQL_LETTER_UPDATE,
    SQL_LETTER_DELETE,
    SQL_LETTER_TAKEN,
    SQL_LETTER_GET,
    SQL_LETTER_BY_JOB,
    SQL_LETTER_BY_JOB_ID,
    SQL_LETTER_BY_ORIGIN,
    SQL_LETTER_AS_JOB,
    SQL_LETTER_LIKE,
    SQL_LETTER_SAMPLE,
    SQL_TEXT_GET,
    SQL_TEXT_INSERT,
    SQL_TEXT_DELETE,
    SQL_COUNT_ADD,
    SQL_COUNT_TRIM,
    SQL_COUNT_LIST,
    SQL_COUNT_DEAD,
    SQL_BOUND_OLDEST,
    SQL_BOUND_NEWEST,
    SQL_BOUND_QUEUE,
    SQL_LETTER_RUN,
    SQL_HOUR_ADD,
    SQL_HOUR_LIST,
    SQL_GROUP_ADD,
    SQL_GROUP_HOUR_ADD,
    SQL_GROUP_HOURS,
    SQL_GROUP_LIST,
    SQL_GROUP_GET,
    SQL_GROUP_SET,
    SQL_TOMBSTONE_INSERT,
    SQL_TOMBSTONE_GET,
    SQL_TOMBSTONE_FIND,
    SQL_META_PUT,
    SQL_EVENT_INSERT, /* and the two after it */
    SQL_EVENT_INSERT_SOME,
    SQL_EVENT_INSERT_MANY,
    SQL_EVENT_LIST,
    SQL_EVENT_GET,
    SQL_EVENT_PREVIOUS,
    SQL_QUEUE_INSERT,
    SQL_QUEUE_PAUSE,
    SQL_QUEUE_TOTALS,
    SQL_SET_INSERT,
    SQL_POLICY_LAST,
    SQL_POLICY_INSERT,
    SQL_POLICY_GET,
    SQL_POLICY_LIST,
    SQL_DUTY_GET,
    SQL_DUTY_PUT,
    SQL_COUNT
};

/* struct queue_total: how many jobs of a queue have ended.  Counted in memory, written at commit.
 */
struct queue_total {
    int64_t done, cancelled;
    bool dirty; /* differs from the disk */
};

/* struct position_hint: where the next letter that failed at an instant may have its place. */
struct position_hint {
    int64_t failed_at;
    int64_t next;
};
#define POSITION_HINTS 256 /* a power of two */

/* struct batch_value: one column of a row that waits. */
enum batch_kind {
    BATCH_INT,
    BATCH_TEXT, /* an empty one is NULL */
    BATCH_NAME, /* never NULL */
    BATCH_BODY
};
struct batch_value {
    enum batch_kind kind;
    int64_t number;
    struct slice bytes;
};

/* The tables whose rows wait. */
enum batch { BATCH_EVENT, BATCH_ATTEMPT, BATCH_JOB, BATCH_FINISHED, BATCH_COUNT };

#define BATCH_ROWS 16
#define BATCH_STATEMENTS 3
#define BATCH_COLUMNS_MAX 24

/* struct sql_batch: rows of one table that wait to be inserted, see sqlite_batch.c. */
struct sql_batch {
    enum sql first;     /* the statement of one row; those of more follow it */
    const char *insert; /* the statement as far as VALUES */
    int columns;
    int rows;     /* that are complete */
    int count;    /* values */
    bool borrows; /* the row at the end is too long to be copied */
    size_t used;  /* of `bytes` */
    struct batch_value values[BATCH_ROWS * BATCH_COLUMNS_MAX];
    char bytes[32768]; /* the texts */
};

struct sqlite_store {
    struct store store;
    sqlite3 *db;
    char *path;
    struct live *live;
    sqlite3_stmt *statements[SQL_COUNT]; /* NULL until first used */

    bool in_transaction; /* between begin and commit or rollback */
    bool failed;         /* a write of this transaction failed: it can only be rolled back */
    bool unloaded;       /* memory does not show the disk: nothing works until a load succeeds */
    bool text_stale;     /* the full-text index may remember what is not so: see text_forget */
    enum status trouble; /* why sql() last returned NULL */

    int64_t seq_last;       /* the highest seq given to a job, a letter or an envelope */
    int64_t seq_fresh;      /* the last one that seq_next gave, while nothing has it; 0: none */
    int64_t event_seq;      /* the last event */
    int64_t event_noted;    /* what `meta` says it is */
    struct hash event_hash; /* and its hash */
    struct queue_total *totals;
    uint32_t total_count; /* queues that `totals` has room for */
    bool totals_dirty;    /* some of them differ from the disk */
    int64_t drift;        /* the farthest that a letter's position ever was from its failed_at */
    struct position_hint hints[POSITION_HINTS];
    struct sql_batch batches[BATCH_COUNT]; /* rows of this transaction that wait */
    int waiting;                           /* how many rows that is */
};

static inline struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *)store;
}

/* ---- sqlite_error.c ---- */

/* sqlite_error says what went wrong, from the database's last result; `rc` is its code.  The
 * sentence names the file and what to do. */
enum status sqlite_error(sqlite3 *db, const char *path, int rc, struct err *err);
/* sql_error is sqlite_error for an open store. */
enum status sql_error(struct sqlite_store *s, int rc, struct err *err);
/* sql_damage is STATUS_CORRUPT: a row says what cannot be.  `what` is a literal format. */
#define SQL_DAMAGED(what)                                                                          \
    "%s: the store is damaged (" what "): nothing was repaired; restore the file from a copy"
#define sql_damage(s, err, what, ...)                                                              \
    err_set((err), STATUS_CORRUPT, SQL_DAMAGED(what), (s)->path, ##__VA_ARGS__)

/* ---- sqlite_sql.c ---- */

/* sql is a statement, prepared when it is first used and ready to be bound.  The rows that wait and
 * that it may look at have been inserted.  NULL on error, and s->trouble is then the status to
 * return. */
sqlite3_stmt *sql(struct sqlite_store *s, enum sql which, const char *text, struct err *err);
/* sql_once makes a statement that the caller finalizes, also while the store is not loaded. */
sqlite3_stmt *sql_once(struct sqlite_store *s, const char *text, struct err *err);
/* sql_exec runs statements without parameters or results. */
enum status sql_exec(struct sqlite_store *s, const char *text, struct err *err);

/* sql_stop resets a statement that has not been stepped to its end, and returns `status`. */
enum status sql_stop(sqlite3_stmt *stmt, enum status status);
/* sql_number reads the one number that a statement gives; without a row `out` is untouched. */
enum status sql_number(struct sqlite_store *s, const char *text, int64_t *out, struct err *err);

/* sql_bind_* count parameters from 1.  Texts are borrowed until the statement is reset; an empty
 * one is stored as NULL by sql_bind_text and as an empty value by sql_bind_body. */
void sql_bind_int(sqlite3_stmt *stmt, int at, int64_t value);
void sql_bind_text(sqlite3_stmt *stmt, int at, struct slice text);
void sql_bind_name(sqlite3_stmt *stmt, int at, struct slice text); /* never NULL */
void sql_bind_body(sqlite3_stmt *stmt, int at, struct slice bytes);

/* sql_writable refuses a write after one of the same transaction has failed. */
enum status sql_writable(struct sqlite_store *s, struct err *err);
/* sql_write runs a statement that changes something.  After an error the transaction can only be
 * rolled back. */
enum status sql_write(struct sqlite_store *s, sqlite3_stmt *stmt, struct err *err);
/* sql_row steps to the next row: true while there is one.  At the end or on an error it has reset
 * the statement; `status` tells which. */
bool sql_row(struct sqlite_store *s, sqlite3_stmt *stmt, enum status *status, struct err *err);

/* sql_text borrows a column until the next step; sql_dup copies it into an arena: `ptr` is NULL
 * only when memory is exhausted. */
struct slice sql_text(sqlite3_stmt *stmt, int column);
struct slice sql_dup(sqlite3_stmt *stmt, int column, struct arena *arena);

/* struct rows: a growing array in an arena. */
struct rows {
    void *items;
    size_t count, cap;
};
/* rows_next is a zeroed new element at the end, or NULL when memory is exhausted. */
void *rows_next(struct rows *rows, struct arena *arena, size_t size);

/* sql_fail_write marks the transaction as failed: memory could not follow the disk. */
enum status sql_fail_write(struct sqlite_store *s, struct err *err);

/* ---- sqlite_batch.c ---- */

/* sql_batch_begin begins a row whose texts have `bytes` bytes; its values follow, one call for each
 * column, and sql_batch_end.  Texts are the caller's again after that. */
enum status sql_batch_begin(struct sqlite_store *s, struct sql_batch *batch, size_t bytes,
                            struct err *err);
void sql_batch_int(struct sql_batch *batch, int64_t number);
void sql_batch_bytes(struct sql_batch *batch, enum batch_kind kind, struct slice bytes);
enum status sql_batch_end(struct sqlite_store *s, struct sql_batch *batch, struct err *err);
/* sql_batch_has says whether a row waits whose first column is `number`. */
bool sql_batch_has(const struct sql_batch *batch, int64_t number);
/* sql_batch_flush inserts the rows that wait.  After an error the transaction can only be rolled
 * back. */
enum status sql_batch_flush(struct sqlite_store *s, struct sql_batch *batch, struct err *err);
/* sql_batches_flush does so for every table that statement `which` may look at. */
enum status sql_batches_flush(struct sqlite_store *s, enum sql which, struct err *err);
void sql_batches_init(struct sqlite_store *s);
/* sql_batches_clear forgets the rows that wait. */
void sql_batches_clear(struct sqlite_store *s);

/* ---- sqlite_file.c ---- */

/* sqlite_file_open opens and sets up a database file that is ours, or new: `s->db`.  The file of
 * anybody else is left as it is. */
enum status sqlite_file_open(struct sqlite_store *s, const char *vfs, struct err *err);
/* sqlite_file_accept ends the caution of the opening: from here on closing tidies the file. */
void sqlite_file_accept(struct sqlite_store *s);

/* ---- sqlite_owner.c ---- */

/* sqlite_owner_look refuses a file that is not ours, before anything is asked of SQLite. */
enum status sqlite_owner_look(struct sqlite_store *s, struct err *err);
/* sqlite_owner_confirm asks SQLite, which knows better when there was something to recover. */
enum status sqlite_owner_confirm(struct sqlite_store *s, bool *is_new, struct err *err);

/* ---- sqlite_schema.c ---- */

#define SCHEMA_VERSION 3
#define SCHEMA_APPLICATION_ID 0x4c5a5254 /* "LZRT" */

/* sqlite_schema_migrate brings the tables to SCHEMA_VERSION. */
enum status sqlite_schema_migrate(struct sqlite_store *s, struct err *err);

/* ---- sqlite.c ---- */

/* sqlite_meta_put keeps a number under a name. */
enum status sqlite_meta_put(struct sqlite_store *s, const char *name, int64_t value,
                            struct err *err);

/* ---- sqlite_job.c ---- */

/* The columns of a job, in the order of sqlite_job_bind and sqlite_job_read.  `job` and `finished`
 * have them as they are, `letter` with a prefix. */
#define JOB_COLUMNS(p)                                                                             \
    p "seq, " p "envelope_seq, " p "event_seq, " p "id_hash, " p "idempotency_hash, " p            \
      "retry_key_hash, " p "lease_nonce, " p "pushed_at, " p "due_at, " p "deadline_at, " p        \
      "round_at, " p "queue, " p "capabilities, " p "attempt, " p "attempt_base, " p               \
      "attempts_max, " p "redrive_count, " p "state, " p "priority, " p "flags"
#define JOB_PARAMETERS "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?"
#define JOB_COLUMN_COUNT 20

void sqlite_job_bind(sqlite3_stmt *stmt, int at, const struct job *job);
/* sqlite_job_values adds the same values to a row that waits. */
void sqlite_job_values(struct sql_batch *batch, const struct job *job);
/* sqlite_job_read reads the columns from `column` on.  False when they say what cannot be. */
bool sqlite_job_read(sqlite3_stmt *stmt, int column, struct job *out);

/* sqlite_live_by_id finds a live job by its id; *out is NULL when there is none. */
enum status sqlite_live_by_id(struct sqlite_store *s, struct slice job_id, uint64_t id_hash,
                              const struct job **out, struct err *err);
bool sqlite_job_by_seq(struct store *store, int64_t seq, struct job *out);
bool sqlite_job_by_id(struct store *store, struct slice job_id, uint64_t id_hash, struct job *out,
                      struct err *err);
bool sqlite_job_by_key(struct store *store, enum store_key which, struct slice key, uint64_t hash,
                       struct job *out, struct err *err);
enum status sqlite_job_insert(struct store *store, struct job *job, struct slice job_id,
                              struct slice body, struct err *err);
enum status sqlite_job_update(struct store *store, const struct job *job, struct slice worker,
                              struct err *err);
enum status sqlite_job_worker(struct store *store, int64_t seq, struct arena *arena,
                              struct slice *out, struct err *err);
enum status sqlite_job_finish(struct store *store, const struct job *job, struct slice job_id,
                              struct instant at, struct slice result, struct err *err);
enum status sqlite_job_bury(struct store *store, const struct job *job, struct err *err);
enum status sqlite_job_revive(struct store *store, const struct job *job, struct err *err);
int64_t sqlite_seq_next(struct store *store);
enum status sqlite_shift(struct store *store, struct span by, struct err *err);

/* ---- sqlite_body.c ---- */

/* sqlite_envelope_insert writes an envelope under `seq`; `extra` for one that is not found by the
 * job's own seq. */
enum status sqlite_envelope_insert(struct sqlite_store *s, int64_t seq, int64_t job,
                                   struct slice job_id, struct slice body, bool extra,
                                   struct err *err);
enum status sqlite_envelope_get(struct store *store, int64_t envelope_seq, struct arena *arena,
                                struct stored_envelope *out, struct err *err);
enum status sqlite_envelope_job_id(struct store *store, int64_t envelope_seq, struct arena *arena,
                                   struct slice *out, struct err *err);
enum status sqlite_envelope_list(struct store *store, int64_t job_seq, struct arena *arena,
                                 int64_t **out, size_t *count, struct err *err);
enum status sqlite_envelope_add(struct store *store, int64_t job_seq, struct slice job_id,
                                struct slice body, int64_t *envelope_seq, struct err *err);
enum status sqlite_document_get(struct store *store, int64_t job_seq, struct arena *arena,
                                struct slice *out, struct err *err);
enum status sqlite_document_put(struct store *store, int64_t job_seq, struct slice body,
                                struct err *err);
enum status sqlite_attempt_add(struct store *store, int64_t job_seq, uint32_t attempt,
                               struct slice failure, struct err *err);
enum status sqlite_attempt_list(struct store *store, int64_t job_seq, struct arena *arena,
                                struct attempt_record **out, size_t *count, struct err *err);
bool sqlite_forever_get(struct store *store, enum store_key which, struct slice key,
                        int64_t *job_seq, struct err *err);
enum status sqlite_forever_put(struct store *store, enum store_key which, struct slice key,
                               int64_t job_seq, struct err *err);

/* ---- sqlite_find.c ---- */

/* What a finished job is read from. */
#define FINISHED_COLUMNS JOB_COLUMNS("") ", at, job_id, result"
#define FINISHED_COLUMN_COUNT (JOB_COLUMN_COUNT + 3)

/* sqlite_finished_read reads FINISHED_COLUMNS. */
enum status sqlite_finished_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                                 struct finished *out, struct err *err);
enum status sqlite_job_find(struct store *store, struct slice job_id, struct arena *arena,
                            struct job_row *out, struct err *err);
enum status sqlite_job_find_seq(struct store *store, int64_t seq, struct arena *arena,
                                struct job_row *out, struct err *err);
enum status sqlite_job_list(struct store *store, int state, struct slice queue, int64_t cursor,
                            size_t limit, struct arena *arena, struct job_row **out, size_t *count,
                            struct err *err);
enum status sqlite_finished_get(struct store *store, int64_t seq, struct arena *arena,
                                struct finished *out, struct err *err);

/* ---- sqlite_letter.c ---- */

/* The columns of a letter, in the order of sqlite_letter_read. */
#define LETTER_COLUMNS                                                                             \
    "position, " JOB_COLUMNS("job_") ", dlq_id, job_id, run_id, item_id, trace_id, queue, "        \
                                     "original_subject, reason, reason_detail, source, "           \
                                     "signature, fingerprint, error_type, agent, "                 \
                                     "artifacts, recovered_by, envelope_seq, state, "              \
                                     "replay_safety, failed_at, first_attempt_at, "                \
                                     "last_attempt_at, recovered_at, failure_count, "              \
                                     "max_attempts, recoverable, eligible, review, "               \
                                     "escalated, foreign_body"
#define LETTER_PARAMETERS                                                                          \
    "?," JOB_PARAMETERS ",?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?"
#define LETTER_COLUMN_COUNT 51

enum status sqlite_letter_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                               struct letter *out, struct err *err);
enum status sqlite_letter_put(struct store *store, struct letter *letter, const struct slice *text,
                              bool died, struct err *err);
enum status sqlite_letter_get(struct store *store, struct slice dlq_id, struct arena *arena,
                              struct letter *out, struct err *err);
enum status sqlite_letter_by_job(struct store *store, int64_t job_seq, struct arena *arena,
                                 struct letter *out, struct err *err);
enum status sqlite_letter_by_origin(struct store *store, uint64_t origin, struct arena *arena,
                                    struct letter *out, struct err *err);
enum status sqlite_letter_like(struct store *store, struct slice prefix, size_t max,
                               struct arena *arena, struct slice **out, size_t *count,
                               struct err *err);
/* sqlite_text_delete takes a letter out of the search. */
enum status sqlite_text_delete(struct sqlite_store *s, int64_t position, struct err *err);

/* ---- sqlite_list.c, sqlite_match.c ---- */

enum status sqlite_letter_list(struct store *store, const struct letter_filter *filter,
                               struct arena *arena, struct letter **out, size_t *count,
                               struct err *err);
/* sqlite_match appends the full-text query for the words of `q` and says how many there are. */
size_t sqlite_match(struct slice q, struct buf *out);

/* ---- sqlite_count.c ---- */

/* struct letter_facts: what a letter is counted by. */
struct letter_facts {
    int64_t position;
    enum letter_state state;
    bool recoverable;
    struct slice reason, source, queue, fingerprint, signature;
    struct instant failed_at;
};

/* sqlite_count_change keeps the counters and groups when a letter becomes `now`; `before` is NULL
 * for a new one, `now` is NULL for one that is purged. */
enum status sqlite_count_change(struct sqlite_store *s, const struct letter_facts *before,
                                const struct letter_facts *now, bool died, struct err *err);
enum status sqlite_letter_counts(struct store *store, struct arena *arena,
                                 struct letter_count **out, size_t *count, struct err *err);
enum status sqlite_letter_run(struct store *store, struct slice run_id, int64_t *dead,
                              int64_t *recovering, struct err *err);
enum status sqlite_letter_oldest(struct store *store, struct slice queue, struct instant *oldest,
                                 struct err *err);
enum status sqlite_letter_bounds(struct store *store, struct instant *oldest,
                                 struct instant *newest, struct err *err);
enum status sqlite_letter_hours(struct store *store, struct instant from, struct arena *arena,
                                struct hour_count **out, size_t *count, struct err *err);
int64_t sqlite_hour_of(struct instant t); /* the beginning of its hour, in microseconds */
#define HOUR_US INT64_C(3600000000)

/* ---- sqlite_group.c ---- */

enum status sqlite_group_list(struct store *store, struct instant now, int64_t cursor, size_t limit,
                              struct arena *arena, struct letter_group **out, size_t *count,
                              struct err *err);
enum status sqlite_group_get(struct store *store, struct slice fingerprint, struct instant now,
                             struct arena *arena, struct letter_group *out, struct err *err);
enum status sqlite_group_set(struct store *store, struct slice fingerprint,
                             enum group_status status, struct err *err);

/* ---- sqlite_purge.c ---- */

enum status sqlite_letter_purge(struct store *store, const struct letter *letter,
                                struct instant now, struct err *err);
enum status sqlite_finished_before(struct store *store, struct instant before, size_t limit,
                                   struct arena *arena, struct finished **out, size_t *count,
                                   struct err *err);
enum status sqlite_finished_purge(struct store *store, const struct finished *finished,
                                  struct instant now, struct err *err);
enum status sqlite_tombstone_get(struct store *store, int64_t job_seq, struct arena *arena,
                                 struct tombstone *out, struct err *err);
enum status sqlite_tombstone_find(struct store *store, struct slice id, struct arena *arena,
                                  struct tombstone *out, struct err *err);

/* ---- sqlite_event.c ---- */

#define EVENT_COLUMNS "seq, at, actor, job, previous, what, why, hash"
#define EVENT_COLUMN_COUNT 8

/* sqlite_event_load finds the last event. */
enum status sqlite_event_load(struct sqlite_store *s, struct err *err);

/* sqlite_event_note notes the last seq, at the end of a transaction. */
enum status sqlite_event_note(struct sqlite_store *s, struct err *err);
enum status sqlite_event_append(struct store *store, struct event *event, struct err *err);
enum status sqlite_event_list(struct store *store, int64_t after, size_t limit, struct arena *arena,
                              struct event **out, size_t *count, struct err *err);
enum status sqlite_event_of_job(struct store *store, int64_t last, int64_t after, size_t limit,
                                struct arena *arena, struct event **out, size_t *count,
                                struct err *err);
void sqlite_event_head(struct store *store, int64_t *seq, struct hash *hash);

/* ---- sqlite_name.c ---- */

/* sqlite_name_load reads queues and sets of capabilities into memory. */
enum status sqlite_name_load(struct sqlite_store *s, struct err *err);
/* sqlite_names_known says whether the queue and the capabilities of a job exist. */
bool sqlite_names_known(struct sqlite_store *s, const struct job *job);
/* sqlite_total_add counts jobs of a queue that ended, or are no longer kept. */
void sqlite_total_add(struct sqlite_store *s, uint32_t queue, enum job_state state, int64_t by);
/* sqlite_total_write writes the totals that changed. */
enum status sqlite_total_write(struct sqlite_store *s, struct err *err);
enum status sqlite_queue_number(struct store *store, struct slice name, uint32_t *out,
                                struct err *err);
struct slice sqlite_queue_name(struct store *store, uint32_t queue);
enum status sqlite_queue_pause(struct store *store, uint32_t queue, bool paused, struct err *err);
bool sqlite_queue_paused(struct store *store, uint32_t queue);
enum status sqlite_queue_list(struct store *store, struct arena *arena, struct queue_info **out,
                              size_t *count, struct err *err);
enum status sqlite_capabilities_number(struct store *store, const struct slice *names, size_t count,
                                       uint32_t *out, struct err *err);

/* ---- sqlite_policy.c ---- */

enum status sqlite_policy_put(struct store *store, struct slice name, struct slice body,
                              struct instant now, int64_t *version, struct err *err);
enum status sqlite_policy_get(struct store *store, struct slice name, int64_t version,
                              struct arena *arena, struct stored_policy *out, struct err *err);
enum status sqlite_policy_list(struct store *store, struct arena *arena, struct stored_policy **out,
                               size_t *count, struct err *err);

/* ---- sqlite_duty.c ---- */

enum status sqlite_duty_get(struct store *store, struct slice name, struct arena *arena,
                            struct duty *out, struct err *err);
enum status sqlite_duty_put(struct store *store, const struct duty *duty, struct err *err);
enum status sqlite_refresh(struct store *store, struct err *err);
unsigned sqlite_news(struct store *store);
void sqlite_listen(struct store *store, void (*woken)(void *ctx), void *ctx);
enum status sqlite_inbox_list(struct store *store, size_t limit, struct arena *arena,
                              struct inbox_item **out, size_t *count, struct err *err);
enum status sqlite_inbox_done(struct store *store, const int64_t *seqs, size_t count,
                              struct err *err);

#endif
