/* postgres: what the files of the shared store share.
 *
 *     postgres.c         the store: opening, the table of functions
 *     postgres_turn.c    begin, commit, rollback
 *     postgres_follow.c  how memory comes to show what the database has
 *     postgres_dial.c    the connection: made, and made again
 *     postgres_link.c    statements that go over it, and their answers
 *     postgres_value.c   parameters, arrays and columns, in PostgreSQL's binary form
 *     postgres_error.c   from SQLSTATEs to sentences
 *     postgres_schema.c  tables, indexes and the migrations between their versions
 *     postgres_listen.c  a thread that hears of the commits of others
 *     postgres_job.c     live jobs          postgres_find.c    jobs of any state
 *     postgres_touch.c   the live jobs that a turn touches, and their rows
 *     postgres_body.c    envelopes, documents, attempts
 *     postgres_cache.c   envelopes that were read or written lately
 *     postgres_event.c   evidence           postgres_name.c    queues and sets of capabilities
 *     postgres_letter.c  one letter         postgres_list.c    pages of letters
 *     postgres_match.c   words to search for, and to be found by
 *     postgres_count.c   what is counted    postgres_group.c   groups of letters
 *     postgres_policy.c  policies, duties   postgres_purge.c   removing
 *     postgres_swarm.c   the relations swarm_dlq and swarm_events, and the inbox
 *     postgres_letter.h  has more about those of letters
 *
 * The idea.  The evidence is one chain, so every transaction that writes has to wait for the one
 * before it at the chain's head.  Then it may as well wait there first: begin() locks the row
 * `head` (the turn), reads what other servers changed since this one last looked, and brings its
 * index of live jobs (live.h) up to that.  From there on everything that the engine asks about live
 * jobs is answered from memory, as in the embedded store: exactly, with no index on a hot table,
 * and without a round trip.  What the batch writes is collected in arrays, one for each column, and
 * goes out at commit() in one burst (libpq's pipeline): a statement for each table, whatever the
 * number of jobs.  So a batch costs two round trips and one sync.
 *
 *     begin:   BEGIN; SELECT head FOR UPDATE; SELECT the turns since mine; SELECT their jobs
 *     commit:  INSERT .. SELECT FROM unnest(..), a few times; UPDATE head; NOTIFY; COMMIT
 *
 * Each turn leaves one row in `turn`: which jobs it changed.  A server that is too far behind (the
 * row is gone) loads everything anew.  A turn has a random nonce, so that a server whose connection
 * broke during COMMIT can find out whether it came through.
 *
 * Hot tables (job, envelope, event, finished) have the index of their key and, where people ask,
 * one that grows at its end.  A job's row is updated in place (HOT: no indexed column ever
 * changes).  A text of any length stands in an index as lazaret.key(text) (postgres_schema.c), so
 * queries compare keys. */
#ifndef LAZARET_STORE_POSTGRES_H
#define LAZARET_STORE_POSTGRES_H

#include <libpq-fe.h>
#include <pthread.h>

#include "base/buf.h"
#include "store/live.h"
#include "store/store.h"

#define PG_SCHEMA                                                                                  \
    "lazaret" /* where the tables are, but for those that the swarm's programs use                 \
               */
#define PG_SCHEMA_VERSION 1
#define PG_PARAMS_MAX 64

/* The longest key that `forever` has as it is; of a longer one it has so many bytes and a hash. */
#define PG_FOREVER_BYTES 500

/* struct pg_statement: one statement, in one place of the source.  `name` is what it is prepared
 * under, on each connection when it is first used there. */
struct pg_statement {
    const char *name;
    const char *text;
};

/* struct pg_params: the parameters of one execution.  `{0}` is valid and has none.  Values are
 * borrowed until the statement is sent, but for numbers. */
struct pg_params {
    int count;
    Oid types[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX]; /* NULL: SQL's NULL */
    int lengths[PG_PARAMS_MAX];
    int64_t numbers[PG_PARAMS_MAX]; /* room for those that are numbers, in network order */
};

/* Composite types of the schema: what rows that wait are sent as.  The database gives each a number
 * of its own. */
enum pg_row {
    PG_ROW_NONE,
    PG_ROW_JOB,
    PG_ROW_JOB_CHANGE,
    PG_ROW_FINISHED,
    PG_ROW_EVENT,
    PG_ROW_ENVELOPE,
    PG_ROW_ATTEMPT,
    PG_ROW_LETTER,
    PG_ROW_COUNT
};

/* struct pg_columns: rows of one table that wait for the commit: an array for each column, or one
 * of rows.  Where there are many columns or many rows the latter is several times as fast. */
#define PG_COLUMNS_MAX 56
struct pg_column {
    Oid element;
    int32_t count;
    bool has_null;
    struct buf array; /* PostgreSQL's binary array, its head left open until it is sent */
};
struct pg_columns {
    const struct pg_statement *insert; /* ... SELECT ... FROM unnest($1, $2, ...) */
    enum pg_row row;                   /* what an element of $1 is; PG_ROW_NONE: a column's value */
    size_t row_start;                  /* where the row that is being added begins in the array */
    const Oid *types;                  /* of the columns: PG_INT8, PG_TEXT, PG_BYTEA */
    int column_count;
    int at; /* the next column of the row that is being added */
    size_t rows;
    struct pg_column columns[PG_COLUMNS_MAX];
};

#define PG_BYTEA 17
#define PG_INT8 20
#define PG_TEXT 25

/* struct pg_head: the row `head`: where the numbers and the chain stand. */
struct pg_head {
    int64_t turn, seq_last, event_seq, position_last;
    uint64_t nonce;
    struct hash event_hash;
};

struct postgres_store {
    struct store store;
    const struct seams *seams;
    char *url;
    bool pooled;
    char where[160]; /* "HOST:PORT/DATABASE" for sentences: no password */

    /* The connection. */
    PGconn *link;                /* NULL: there is none */
    struct pg_pipe *pipe;        /* postgres_link.c: what is prepared, and what was sent */
    struct span retry_at;        /* steady: before it no connection is tried */
    struct span retry_after;     /* the wait grows with each failure */
    Oid row_types[PG_ROW_COUNT]; /* their numbers here; 0: not known */
    bool lost;                   /* it was said that the connection is lost */
    char reason[160];            /* why there is none */
    enum status reason_status;   /* of that: STATUS_IO but for a database that cannot be used */

    /* The turn. */
    bool in_transaction;
    bool failed;       /* something of this transaction failed: it can only be rolled back */
    bool wrote;        /* something was written in it: see pg_writable */
    bool unloaded;     /* memory does not show the database: nothing works until it is loaded */
    unsigned news;     /* STORE_NEWS_* */
    int others;        /* above 0: other servers had a turn lately */
    int64_t turn;      /* the last turn that memory shows */
    uint64_t nonce;    /* and its nonce */
    uint64_t server;   /* what this server's notifications begin with */
    int64_t seq_last;  /* the highest seq given to a job, a letter or an envelope */
    int64_t seq_fresh; /* the last one that seq_next gave, while nothing has it; 0: none */
    int64_t event_seq; /* the last event */
    struct hash event_hash;
    int64_t position_last;                /* the highest position of a letter: see letter.h */
    struct pg_head begun;                 /* these four as begin() found them */
    bool names_changed, policies_changed; /* by this turn: the others must look */
    bool ready_changed;                   /* likewise: a job may be ready */

    struct live *live;
    struct pg_jobs *jobs;     /* postgres_touch.c: what this turn touched */
    struct pg_totals *totals; /* postgres_name.c: ended jobs by queue */
    struct pg_counts *counts; /* postgres_letter.h: letters of this turn, and their counters */
    struct pg_cache *cache;   /* postgres_cache.c: envelopes */
    struct pg_columns events, envelopes, extras, finished, attempts, letters;
    struct pg_listener *listener; /* postgres_listen.c; NULL: none */
    struct arena arena;           /* of the turn */
};

static inline struct postgres_store *postgres_of(struct store *store)
{
    return (struct postgres_store *)store;
}

/* ---- postgres_value.c ---- */

void pg_int(struct pg_params *params, int64_t value);
void pg_text(struct pg_params *params, struct slice text); /* empty: NULL */
void pg_name(struct pg_params *params, struct slice text); /* never NULL */
void pg_body(struct pg_params *params, struct slice bytes);
/* pg_array gives an array that was collected in a column; it is complete then.  pg_row_array does
 * so for one of rows, whose type has the number `type`. */
void pg_array(struct pg_params *params, struct pg_column *column);
void pg_row_array(struct pg_params *params, struct pg_column *column, Oid type);

/* pg_columns_init says which statement inserts them and what the columns are. */
void pg_columns_init(struct pg_columns *columns, const struct pg_statement *insert,
                     const Oid *types, int count);
/* pg_rows_init does so for rows that go in one array: ... SELECT * FROM unnest($1::TYPE[]). */
void pg_rows_init(struct pg_columns *columns, const struct pg_statement *insert, enum pg_row row,
                  const Oid *types, int count);
void pg_columns_release(struct pg_columns *columns);
void pg_columns_clear(struct pg_columns *columns);
/* A row is added value by value, as many as there are columns; pg_add_end then says whether memory
 * was exhausted.  Texts are copied.  PostgreSQL's text has no NUL and no broken UTF-8: pg_add_text
 * puts U+FFFD in their place; bytes that must stay as they are go into a bytea. */
void pg_add_int(struct pg_columns *columns, int64_t value);
void pg_add_text(struct pg_columns *columns, struct slice text); /* empty: NULL */
void pg_add_name(struct pg_columns *columns, struct slice text); /* never NULL */
void pg_add_body(struct pg_columns *columns, struct slice bytes);
void pg_add_null(struct pg_columns *columns);
enum status pg_add_end(struct pg_columns *columns, struct err *err);

/* pg_column_* collect one array for a parameter: ids to look for.  Release with buf_release. */
void pg_column_init(struct pg_column *column, Oid element);
void pg_column_int(struct pg_column *column, int64_t value);
void pg_column_text(struct pg_column *column, struct slice text);
void pg_column_clear(struct pg_column *column);

/* pg_text_is_clean says whether PostgreSQL takes a text as it is; pg_text_mend appends it with
 * U+FFFD for what it does not take.  Parameters of pg_text and pg_name are mended when sent. */
bool pg_text_is_clean(struct slice text);
/* pg_text_cleaned is the text itself, or a mended copy in the arena; `ptr` is NULL when memory is
 * exhausted. */
struct slice pg_text_cleaned(struct slice text, struct arena *arena);
void pg_text_mend(struct slice text, struct buf *out);

/* Columns of an answer.  A NULL is 0 or an empty slice.  pg_slice borrows until PQclear. */
int64_t pg_get_int(const PGresult *rows, int row, int column);
struct slice pg_get_slice(const PGresult *rows, int row, int column);
struct slice pg_get_dup(const PGresult *rows, int row, int column, struct arena *arena);

/* ---- postgres_dial.c ---- */

/* pg_where_find notes where the url leads to; STATUS_INVALID for one that is not understood. */
enum status pg_where_find(struct postgres_store *s, struct err *err);
/* pg_dial makes a connection from a url; NULL, and `reason` says why.  For the listener as well. */
PGconn *pg_dial(const char *url, const char *timeout_seconds, char *reason, size_t size);
/* pg_connected makes a connection when there is none and it is time to try. */
enum status pg_connected(struct postgres_store *s, struct err *err);
/* pg_rows_find asks for the numbers of the composite types. */
enum status pg_rows_find(struct postgres_store *s, struct err *err);
extern const struct pg_statement pg_settings_local; /* what begin() sends first behind a pooler */

/* ---- postgres_link.c ---- */

struct pg_pipe *pg_pipe_new(void);
void pg_pipe_free(struct pg_pipe *pipe);
/* pg_lose gives the connection up and says so once; pg_lost does so for one that failed, as libpq
 * or the last result says, and returns STATUS_IO. */
void pg_lose(struct postgres_store *s, const char *why);
enum status pg_lost(struct postgres_store *s, const PGresult *last, struct err *err);
void pg_reason_set(char *out, size_t size, const char *text); /* on one line */
void pg_disconnect(struct postgres_store *s);

/* pg_send puts a statement into the pipeline; its answer is only looked at for an error, which the
 * next pg_query, pg_sync or commit returns.  NULL params: none. */
enum status pg_send(struct postgres_store *s, const struct pg_statement *statement,
                    const struct pg_params *params, struct err *err);
/* pg_query sends a statement and waits for its rows; everything sent before has been carried out
 * then.  PQclear is the caller's.  On error *rows is NULL; inside a transaction it has `failed`. */
enum status pg_query(struct postgres_store *s, const struct pg_statement *statement,
                     const struct pg_params *params, PGresult **rows, struct err *err);
/* pg_query_text is pg_query for a text that was put together for this once. */
enum status pg_query_text(struct postgres_store *s, const char *text,
                          const struct pg_params *params, PGresult **rows, struct err *err);
/* pg_ask is pg_send for a statement whose rows are wanted: pg_answers waits for those of all that
 * were asked since the last wait, in order.  PQclear is the caller's; on error all are NULL. */
enum status pg_ask(struct postgres_store *s, const struct pg_statement *statement,
                   const struct pg_params *params, struct err *err);
enum status pg_answers(struct postgres_store *s, PGresult **rows, int count, struct err *err);
/* pg_run carries out statements without parameters, one after the other: for migrations.  It may
 * take minutes. */
enum status pg_run(struct postgres_store *s, const char *text, struct err *err);
/* pg_sync waits until everything that was sent has been carried out. */
enum status pg_sync(struct postgres_store *s, struct err *err);
/* pg_flush_columns sends the rows that wait in `columns`, if any. */
enum status pg_flush_columns(struct postgres_store *s, struct pg_columns *columns, struct err *err);
/* pg_row_end is pg_add_end for a store: after a failure the transaction can only be rolled back,
 * and when much waits it is sent. */
enum status pg_row_end(struct postgres_store *s, struct pg_columns *columns, struct err *err);
/* pg_settled sends everything that waits in memory (jobs, events, letters, ...), so that a query
 * of the same transaction sees it.  Queries of tables that this turn writes call it first. */
enum status pg_settled(struct postgres_store *s, struct err *err);
/* pg_fail_write marks the transaction as failed: memory could not follow. */
enum status pg_fail_write(struct postgres_store *s, struct err *err);
/* pg_writable refuses a write after one of the same transaction has failed; outside of one it is a
 * bug.  A transaction for which it was asked leaves a turn. */
enum status pg_writable(struct postgres_store *s, struct err *err);

/* ---- postgres_follow.c ---- */

/* What a turn tells the others. */
#define PG_TURN_NAMES 1    /* queues or capabilities */
#define PG_TURN_POLICIES 2 /* policies */

/* pg_load makes memory show the database.  Without a connection memory stays as it is; after any
 * other failure it is empty and the store unloaded. */
enum status pg_load(struct postgres_store *s, struct err *err);
/* pg_turn_ask sends the beginning of a transaction and asks for the head, locked. */
enum status pg_turn_ask(struct postgres_store *s, struct err *err);
/* pg_turn_take gets the turn and brings memory up to it, or finds that memory is too far behind. */
enum status pg_turn_take(struct postgres_store *s, bool *behind, struct err *err);
/* pg_head_take has the numbers stand where a head says. */
void pg_head_take(struct postgres_store *s, const struct pg_head *head);
/* pg_look_end ends a transaction that wrote nothing; what became of it does not matter. */
void pg_look_end(struct postgres_store *s);
enum status postgres_reload(struct store *store, struct err *err);
enum status postgres_refresh(struct store *store, struct err *err);

/* ---- postgres_turn.c ---- */

enum status postgres_begin(struct store *store, struct err *err);
enum status postgres_commit(struct store *store, struct err *err);
enum status postgres_rollback(struct store *store, struct err *err);

/* ---- postgres_error.c ---- */

/* pg_error makes a sentence of a failed result (NULL: of the connection): it names the database and
 * what to do.  The status is STATUS_IO for a lost connection, STATUS_FULL, STATUS_READ_ONLY,
 * STATUS_CORRUPT, ... */
enum status pg_error(struct postgres_store *s, const PGresult *result, struct err *err);
#define pg_damage(s, err, what, ...)                                                               \
    err_set((err), STATUS_CORRUPT, "%s: the store is damaged (" what "): nothing was repaired",    \
            (s)->where, ##__VA_ARGS__)

/* ---- postgres_job.c ---- */

/* The columns of a job in the order of pg_job_add and pg_job_read; `letter` has them with a prefix,
 * as in the embedded store (sqlite.h). */
#define PG_JOB_COLUMNS(p)                                                                          \
    p "seq, " p "envelope_seq, " p "event_seq, " p "id_hash, " p "idempotency_hash, " p            \
      "retry_key_hash, " p "lease_nonce, " p "pushed_at, " p "due_at, " p "deadline_at, " p        \
      "round_at, " p "queue, " p "capabilities, " p "attempt, " p "attempt_base, " p               \
      "attempts_max, " p "redrive_count, " p "state, " p "priority, " p "flags"
#define PG_JOB_COLUMN_COUNT 20

void pg_job_add(struct pg_columns *columns, const struct job *job);
void pg_job_params(struct pg_params *params, const struct job *job);
/* pg_job_read is false when the columns say what cannot be. */
bool pg_job_read(const PGresult *rows, int row, int column, struct job *out);

/* pg_live_by_id finds a live job by its id; *out is NULL when there is none. */
enum status pg_live_by_id(struct postgres_store *s, struct slice job_id, uint64_t id_hash,
                          const struct job **out, struct err *err);
bool postgres_job_by_seq(struct store *store, int64_t seq, struct job *out);
bool postgres_job_by_id(struct store *store, struct slice job_id, uint64_t id_hash, struct job *out,
                        struct err *err);
bool postgres_job_by_key(struct store *store, enum store_key which, struct slice key, uint64_t hash,
                         struct job *out, struct err *err);
enum status postgres_job_insert(struct store *store, struct job *job, struct slice job_id,
                                struct slice body, struct err *err);
enum status postgres_job_update(struct store *store, const struct job *job, struct slice worker,
                                struct err *err);
enum status postgres_job_worker(struct store *store, int64_t seq, struct arena *arena,
                                struct slice *out, struct err *err);
enum status postgres_job_finish(struct store *store, const struct job *job, struct slice job_id,
                                struct instant at, struct slice result, struct err *err);
enum status postgres_job_bury(struct store *store, const struct job *job, struct err *err);
enum status postgres_job_revive(struct store *store, const struct job *job, struct err *err);
int64_t postgres_seq_next(struct store *store);
enum status postgres_shift(struct store *store, struct span by, struct err *err);

/* ---- postgres_touch.c ---- */

struct pg_jobs *pg_jobs_new(void);
void pg_jobs_free(struct pg_jobs *jobs);
/* pg_jobs_flush sends what became of the touched jobs since it was last called. */
enum status pg_jobs_flush(struct postgres_store *s, struct err *err);
/* pg_jobs_undo brings memory back to what it was before the turn; false when memory is exhausted.
 */
bool pg_jobs_undo(struct postgres_store *s);
void pg_jobs_clear(struct pg_jobs *jobs); /* at the end of a turn */
/* pg_jobs_seqs is the array of the seqs of all jobs that the turn touched. */
void pg_jobs_seqs(const struct pg_jobs *jobs, struct pg_column *out);
/* pg_job_put notes what a live job is from here on, new or not, and who holds its lease.
 * `worker_kept`: whoever did. */
enum status pg_job_put(struct postgres_store *s, const struct job *job, bool worker_kept,
                       struct slice worker, struct err *err);
/* pg_job_drop takes a job out of the live ones. */
enum status pg_job_drop(struct postgres_store *s, int64_t seq, struct err *err);
/* pg_job_worker_known says whether this turn knows who holds a lease. */
bool pg_job_worker_known(const struct postgres_store *s, int64_t seq, struct slice *out);

/* ---- postgres_find.c ---- */

/* What a finished job is read from. */
#define PG_FINISHED_COLUMNS PG_JOB_COLUMNS("") ", at, job_id, result"

void pg_finished_init(struct postgres_store *s);
/* pg_finished_read reads PG_FINISHED_COLUMNS. */
enum status pg_finished_read(struct postgres_store *s, const PGresult *rows, int row,
                             struct arena *arena, struct finished *out, struct err *err);
enum status postgres_job_find(struct store *store, struct slice job_id, struct arena *arena,
                              struct job_row *out, struct err *err);
enum status postgres_job_find_seq(struct store *store, int64_t seq, struct arena *arena,
                                  struct job_row *out, struct err *err);
enum status postgres_job_list(struct store *store, int state, struct slice queue, int64_t cursor,
                              size_t limit, struct arena *arena, struct job_row **out,
                              size_t *count, struct err *err);
enum status postgres_finished_get(struct store *store, int64_t seq, struct arena *arena,
                                  struct finished *out, struct err *err);

/* ---- postgres_body.c ---- */

void pg_bodies_init(struct postgres_store *s);
/* pg_envelope_insert writes an envelope under `seq`; `extra` for one that is not found by the job's
 * own seq. */
enum status pg_envelope_insert(struct postgres_store *s, int64_t seq, int64_t job,
                               struct slice job_id, struct slice body, bool extra, struct err *err);
/* pg_envelopes_fetch brings the envelopes of jobs into the cache, those that are not there yet.  It
 * fails silently: whoever needs one reads it then. */
void pg_envelopes_fetch(struct postgres_store *s, const struct job *jobs, size_t count);
enum status postgres_envelope_get(struct store *store, int64_t envelope_seq, struct arena *arena,
                                  struct stored_envelope *out, struct err *err);
enum status postgres_envelope_job_id(struct store *store, int64_t envelope_seq, struct arena *arena,
                                     struct slice *out, struct err *err);
enum status postgres_envelope_list(struct store *store, int64_t job_seq, struct arena *arena,
                                   int64_t **out, size_t *count, struct err *err);
enum status postgres_envelope_add(struct store *store, int64_t job_seq, struct slice job_id,
                                  struct slice body, int64_t *envelope_seq, struct err *err);
enum status postgres_document_get(struct store *store, int64_t job_seq, struct arena *arena,
                                  struct slice *out, struct err *err);
enum status postgres_document_put(struct store *store, int64_t job_seq, struct slice body,
                                  struct err *err);
enum status postgres_attempt_add(struct store *store, int64_t job_seq, uint32_t attempt,
                                 struct slice failure, struct err *err);
enum status postgres_attempt_list(struct store *store, int64_t job_seq, struct arena *arena,
                                  struct attempt_record **out, size_t *count, struct err *err);
bool postgres_forever_get(struct store *store, enum store_key which, struct slice key,
                          int64_t *job_seq, struct err *err);
enum status postgres_forever_put(struct store *store, enum store_key which, struct slice key,
                                 int64_t job_seq, struct err *err);

/* ---- postgres_cache.c ---- */

/* Envelopes by their seq.  They never change, so what is here is right until it is purged: whoever
 * removes envelopes calls pg_cache_clear, and so does a rollback. */
struct pg_cache *pg_cache_new(size_t bytes_max);
void pg_cache_free(struct pg_cache *cache);
void pg_cache_clear(struct pg_cache *cache);
/* pg_cache_put keeps a copy, if there is memory. */
void pg_cache_put(struct pg_cache *cache, int64_t seq, const struct stored_envelope *envelope);
/* pg_cache_get borrows until the next put or clear. */
bool pg_cache_get(struct pg_cache *cache, int64_t seq, struct stored_envelope *out);

/* ---- postgres_name.c ---- */

struct pg_totals *pg_totals_new(void);
void pg_totals_free(struct pg_totals *totals);
void pg_totals_clear(struct pg_totals *totals);
/* pg_total_add counts jobs of a queue that ended, or are no longer kept; pg_totals_flush sends
 * that. */
enum status pg_total_add(struct postgres_store *s, uint32_t queue, enum job_state state, int64_t by,
                         struct err *err);
enum status pg_totals_flush(struct postgres_store *s, struct err *err);
/* pg_names_ask and pg_names_take bring queues and sets of capabilities into memory, within a wait
 * of the caller's: two answers. */
enum status pg_names_ask(struct postgres_store *s, struct err *err);
enum status pg_names_take(struct postgres_store *s, PGresult *rows[2], struct err *err);
/* pg_names_known says whether the queue and the capabilities of a job exist. */
bool pg_names_known(struct postgres_store *s, const struct job *job);
enum status postgres_queue_number(struct store *store, struct slice name, uint32_t *out,
                                  struct err *err);
struct slice postgres_queue_name(struct store *store, uint32_t queue);
enum status postgres_queue_pause(struct store *store, uint32_t queue, bool paused, struct err *err);
bool postgres_queue_paused(struct store *store, uint32_t queue);
enum status postgres_queue_list(struct store *store, struct arena *arena, struct queue_info **out,
                                size_t *count, struct err *err);
enum status postgres_capabilities_number(struct store *store, const struct slice *names,
                                         size_t count, uint32_t *out, struct err *err);

/* ---- letters: postgres_letter.c, _list, _count, _group, _purge, _policy, _swarm ---- */

enum status postgres_letter_put(struct store *store, struct letter *letter,
                                const struct slice *text, bool died, struct err *err);
enum status postgres_letter_get(struct store *store, struct slice dlq_id, struct arena *arena,
                                struct letter *out, struct err *err);
enum status postgres_letter_by_job(struct store *store, int64_t job_seq, struct arena *arena,
                                   struct letter *out, struct err *err);
enum status postgres_letter_expect(struct store *store, const struct letter_wanted *wanted,
                                   size_t count, struct err *err);
enum status postgres_letter_by_origin(struct store *store, uint64_t origin, struct arena *arena,
                                      struct letter *out, struct err *err);
enum status postgres_letter_list(struct store *store, const struct letter_filter *filter,
                                 struct arena *arena, struct letter **out, size_t *count,
                                 struct err *err);
enum status postgres_letter_like(struct store *store, struct slice prefix, size_t max,
                                 struct arena *arena, struct slice **out, size_t *count,
                                 struct err *err);
enum status postgres_letter_counts(struct store *store, struct arena *arena,
                                   struct letter_count **out, size_t *count, struct err *err);
enum status postgres_letter_bounds(struct store *store, struct instant *oldest,
                                   struct instant *newest, struct err *err);
enum status postgres_letter_oldest(struct store *store, struct slice queue, struct instant *oldest,
                                   struct err *err);
enum status postgres_letter_run(struct store *store, struct slice run_id, int64_t *dead,
                                int64_t *recovering, struct err *err);
enum status postgres_letter_hours(struct store *store, struct instant from, struct arena *arena,
                                  struct hour_count **out, size_t *count, struct err *err);
enum status postgres_group_list(struct store *store, struct instant now, int64_t cursor,
                                size_t limit, struct arena *arena, struct letter_group **out,
                                size_t *count, struct err *err);
enum status postgres_group_get(struct store *store, struct slice fingerprint, struct instant now,
                               struct arena *arena, struct letter_group *out, struct err *err);
enum status postgres_group_set(struct store *store, struct slice fingerprint,
                               enum group_status status, struct err *err);
enum status postgres_letter_purge(struct store *store, const struct letter *letter,
                                  struct instant now, struct err *err);
enum status postgres_finished_before(struct store *store, struct instant before, size_t limit,
                                     struct arena *arena, struct finished **out, size_t *count,
                                     struct err *err);
enum status postgres_finished_purge(struct store *store, const struct finished *finished,
                                    struct instant now, struct err *err);
enum status postgres_tombstone_get(struct store *store, int64_t job_seq, struct arena *arena,
                                   struct tombstone *out, struct err *err);
enum status postgres_tombstone_find(struct store *store, struct slice id, struct arena *arena,
                                    struct tombstone *out, struct err *err);
enum status postgres_policy_put(struct store *store, struct slice name, struct slice body,
                                struct instant now, int64_t *version, struct err *err);
enum status postgres_policy_get(struct store *store, struct slice name, int64_t version,
                                struct arena *arena, struct stored_policy *out, struct err *err);
enum status postgres_policy_list(struct store *store, struct arena *arena,
                                 struct stored_policy **out, size_t *count, struct err *err);
enum status postgres_duty_get(struct store *store, struct slice name, struct arena *arena,
                              struct duty *out, struct err *err);
enum status postgres_duty_put(struct store *store, const struct duty *duty, struct err *err);

/* ---- postgres_roster.c ---- */

enum status postgres_roster_put(struct store *store, const struct roster *roster, struct err *err);
enum status postgres_roster_list(struct store *store, struct instant now, struct arena *arena,
                                 struct roster **out, size_t *count, struct err *err);
enum status postgres_inbox_list(struct store *store, size_t limit, struct arena *arena,
                                struct inbox_item **out, size_t *count, struct err *err);
enum status postgres_inbox_done(struct store *store, const int64_t *seqs, size_t count,
                                struct err *err);

/* ---- postgres_event.c ---- */

/* Events of a turn are numbered and chained in memory, from the head that begin() read. */

void pg_events_init(struct postgres_store *s);
enum status postgres_event_append(struct store *store, struct event *event, struct err *err);
enum status postgres_event_list(struct store *store, int64_t after, size_t limit,
                                struct arena *arena, struct event **out, size_t *count,
                                struct err *err);
enum status postgres_event_of_job(struct store *store, int64_t last, int64_t after, size_t limit,
                                  struct arena *arena, struct event **out, size_t *count,
                                  struct err *err);
void postgres_event_head(struct store *store, int64_t *seq, struct hash *hash);

/* ---- postgres_schema.c, postgres_letter_schema.c ---- */

/* pg_schema_migrate brings the tables to PG_SCHEMA_VERSION; servers may do so at once. */
enum status pg_schema_migrate(struct postgres_store *s, struct err *err);
/* The tables of letters, which migration 1 makes after the others. */
extern const char pg_letter_tables[];

/* ---- postgres_listen.c ---- */

struct pg_listener *pg_listener_start(const struct postgres_store *s, void (*woken)(void *ctx),
                                      void *ctx);
void pg_listener_stop(struct pg_listener *listener); /* NULL is fine */

#endif
