/* sqlite_schema: the tables, and how a file of an earlier version comes to have them.
 *
 * Version n of the schema is what migrations 1 to n make.  Each runs in one transaction together
 * with the number that says it has run.  A migration is never edited once a file with it exists:
 * a change is another migration.
 *
 * Hot tables (job, envelope, event, finished) are appended to or addressed by rowid.  `finished`
 * has two indexes; both grow at their end: by the time a job ended, and by its id, as generated ids
 * begin with the time.
 *
 * `letter` is indexed by everything that people ask for.  A letter's rowid is when it failed, so
 * each index is in order of time within one value; most have the state second, as nearly every
 * question is about the letters in some states. */
#include "store/sqlite.h"

/* SQL is laid out by hand: it is read as a table, not as C. */
/* clang-format off */

#define JOB_DEFINITION(p)                                                                          \
    p "envelope_seq INTEGER NOT NULL, " p "event_seq INTEGER NOT NULL, "                           \
    p "id_hash INTEGER NOT NULL, " p "idempotency_hash INTEGER NOT NULL, "                         \
    p "retry_key_hash INTEGER NOT NULL, " p "lease_nonce INTEGER NOT NULL, "                       \
    p "pushed_at INTEGER NOT NULL, " p "due_at INTEGER NOT NULL, "                                 \
    p "deadline_at INTEGER NOT NULL, " p "round_at INTEGER NOT NULL, "                             \
    p "queue INTEGER NOT NULL, " p "capabilities INTEGER NOT NULL, "                               \
    p "attempt INTEGER NOT NULL, " p "attempt_base INTEGER NOT NULL, "                             \
    p "attempts_max INTEGER NOT NULL, " p "redrive_count INTEGER NOT NULL, "                       \
    p "state INTEGER NOT NULL, " p "priority INTEGER NOT NULL, " p "flags INTEGER NOT NULL"

/* Version 1: everything that is kept. */
static const char base_tables[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"

    "CREATE TABLE queue(number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " paused INTEGER NOT NULL, done INTEGER NOT NULL, cancelled INTEGER NOT NULL) STRICT;"

    /* names: each as LENGTH:BYTES, and a comma. */
    "CREATE TABLE capability_set(number INTEGER PRIMARY KEY, names BLOB NOT NULL UNIQUE) STRICT;"

    "CREATE TABLE policy(name TEXT, version INTEGER, at INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY(name, version)) STRICT, WITHOUT ROWID;"

    "CREATE TABLE job(seq INTEGER PRIMARY KEY, " JOB_DEFINITION("") ", worker TEXT) STRICT;"

    /* A job's first envelope has the job's own seq where that was free; `extra_envelope` names the
     * others. */
    "CREATE TABLE envelope(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, job_id TEXT NOT NULL,"
    " body BLOB NOT NULL) STRICT;"
    "CREATE TABLE extra_envelope(job INTEGER, seq INTEGER, PRIMARY KEY(job, seq))"
    " STRICT, WITHOUT ROWID;"

    "CREATE TABLE event(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL,"
    " job INTEGER NOT NULL, previous INTEGER NOT NULL, what TEXT NOT NULL, why TEXT NOT NULL,"
    " hash BLOB NOT NULL) STRICT;"

    "CREATE TABLE finished(seq INTEGER PRIMARY KEY, " JOB_DEFINITION("") ","
    " at INTEGER NOT NULL, job_id TEXT NOT NULL, result BLOB NOT NULL) STRICT;"
    "CREATE INDEX finished_id ON finished(job_id);"
    "CREATE INDEX finished_at ON finished(at) WHERE (flags & 8) = 0;"
    "CREATE INDEX finished_cancelled ON finished(queue) WHERE state = 4;"

    "CREATE TABLE document(job INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;"

    "CREATE TABLE attempt(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    " failure BLOB NOT NULL) STRICT;"
    "CREATE INDEX attempt_job ON attempt(job);"

    "CREATE TABLE forever(which INTEGER, key TEXT, job INTEGER NOT NULL, PRIMARY KEY(which, key))"
    " STRICT, WITHOUT ROWID;"

    "CREATE TABLE letter(position INTEGER PRIMARY KEY, job_seq INTEGER NOT NULL UNIQUE,"
    " " JOB_DEFINITION("job_") ","
    " dlq_id TEXT NOT NULL UNIQUE, job_id TEXT, run_id TEXT, item_id TEXT, trace_id TEXT,"
    " queue TEXT, original_subject TEXT, reason TEXT, reason_detail TEXT, source TEXT,"
    " signature TEXT, fingerprint TEXT, error_type TEXT, agent TEXT, artifacts TEXT,"
    " recovered_by TEXT,"
    " envelope_seq INTEGER NOT NULL, state INTEGER NOT NULL, replay_safety INTEGER NOT NULL,"
    " failed_at INTEGER NOT NULL, first_attempt_at INTEGER NOT NULL,"
    " last_attempt_at INTEGER NOT NULL, recovered_at INTEGER NOT NULL,"
    " failure_count INTEGER NOT NULL, max_attempts INTEGER NOT NULL,"
    " recoverable INTEGER NOT NULL, eligible INTEGER NOT NULL, review INTEGER NOT NULL,"
    " escalated INTEGER NOT NULL, foreign_body INTEGER NOT NULL) STRICT;"

    "CREATE TABLE tombstone(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, job_id TEXT,"
    " dlq_id TEXT, what TEXT NOT NULL, at INTEGER NOT NULL, event_seq INTEGER NOT NULL) STRICT;"
    "CREATE INDEX tombstone_job ON tombstone(job);"
    "CREATE INDEX tombstone_job_id ON tombstone(job_id);"
    "CREATE INDEX tombstone_dlq_id ON tombstone(dlq_id);";

/* Version 2: letters are indexed, counted, grouped and searchable. */
static const char letter_indexes[] =
    "CREATE INDEX letter_state ON letter(state);"
    "CREATE INDEX letter_recoverable ON letter(recoverable, state);"
    "CREATE INDEX letter_eligible ON letter(eligible, state);"
    "CREATE INDEX letter_reason ON letter(reason, state) WHERE reason IS NOT NULL;"
    "CREATE INDEX letter_source ON letter(source, state) WHERE source IS NOT NULL;"
    "CREATE INDEX letter_queue ON letter(queue, state) WHERE queue IS NOT NULL;"
    "CREATE INDEX letter_fingerprint ON letter(fingerprint, state) WHERE fingerprint IS NOT NULL;"
    "CREATE INDEX letter_signature ON letter(signature, state) WHERE signature IS NOT NULL;"
    "CREATE INDEX letter_error_type ON letter(error_type, state) WHERE error_type IS NOT NULL;"
    "CREATE INDEX letter_agent ON letter(agent, state) WHERE agent IS NOT NULL;"
    "CREATE INDEX letter_run_id ON letter(run_id, state) WHERE run_id IS NOT NULL;"
    "CREATE INDEX letter_recovered_by ON letter(recovered_by, state)"
    " WHERE recovered_by IS NOT NULL;"
    "CREATE INDEX letter_job_id ON letter(job_id, state) WHERE job_id IS NOT NULL;"
    "CREATE INDEX letter_trace_id ON letter(trace_id, state) WHERE trace_id IS NOT NULL;"

    "CREATE VIRTUAL TABLE letter_text USING fts5(text, columnsize = 0);"

    "CREATE TABLE letter_count(state INTEGER, recoverable INTEGER, reason TEXT, source TEXT,"
    " queue TEXT, count INTEGER NOT NULL,"
    " PRIMARY KEY(state, recoverable, reason, source, queue)) STRICT, WITHOUT ROWID;"
    /* last_seen is the position of the last letter, so that no two groups share it. */
    "CREATE TABLE letter_group(fingerprint TEXT PRIMARY KEY, signature TEXT,"
    " count INTEGER NOT NULL, total INTEGER NOT NULL, first_seen INTEGER NOT NULL,"
    " last_seen INTEGER NOT NULL, status INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX letter_group_seen ON letter_group(last_seen);"
    "CREATE TABLE group_hour(fingerprint TEXT, hour INTEGER, count INTEGER NOT NULL,"
    " PRIMARY KEY(fingerprint, hour)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE death_hour(hour INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT;"

    /* What a file of version 1 already holds. */
    "INSERT INTO letter_count SELECT state, recoverable, ifnull(reason, ''), ifnull(source, ''),"
    " ifnull(queue, ''), count(*) FROM letter GROUP BY 1, 2, 3, 4, 5;"
    "INSERT INTO letter_group SELECT fingerprint, min(signature), sum(state <= 1),"
    " count(*) + sum(job_redrive_count), min(failed_at), max(position), 0 FROM letter"
    " WHERE fingerprint IS NOT NULL GROUP BY fingerprint;"
    "INSERT INTO group_hour SELECT fingerprint, failed_at - failed_at % 3600000000, count(*)"
    " FROM letter WHERE fingerprint IS NOT NULL GROUP BY 1, 2;"
    "INSERT INTO death_hour SELECT failed_at - failed_at % 3600000000, count(*) FROM letter"
    " GROUP BY 1;"
    "INSERT INTO letter_text(rowid, text) SELECT position, concat FROM (SELECT position,"
    " dlq_id || ' ' || ifnull(letter.job_id, '') || ' ' || ifnull(run_id, '') || ' ' ||"
    " ifnull(item_id, '') || ' ' || ifnull(trace_id, '') || ' ' || ifnull(reason, '') || ' ' ||"
    " ifnull(reason_detail, '') || ' ' || ifnull(signature, '') || ' ' ||"
    " ifnull((SELECT group_concat(CAST(failure AS TEXT), ' ') FROM attempt"
    "  WHERE attempt.job = letter.job_seq), '') || ' ' ||"
    " ifnull((SELECT CAST(body AS TEXT) FROM envelope WHERE seq = letter.envelope_seq), '')"
    " AS concat FROM letter);";

/* Version 3: duties, and letters from elsewhere by what they hold.  Only of those is the key's hash
 * that of a subject and a payload. */
static const char duties[] =
    "CREATE TABLE duty(name TEXT PRIMARY KEY, holder TEXT NOT NULL, until INTEGER NOT NULL,"
    " cursor INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX letter_origin ON letter(job_idempotency_hash) WHERE foreign_body = 1;";

/* clang-format on */

static const char *const migrations[SCHEMA_VERSION] = {base_tables, letter_indexes, duties};

/* The tables of SCHEMA_VERSION; one that is missing is damage. */
static const char table_count[] =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'queue',"
    " 'capability_set', 'policy', 'job', 'envelope', 'extra_envelope', 'event', 'finished',"
    " 'document', 'attempt', 'forever', 'letter', 'tombstone', 'letter_text', 'letter_count',"
    " 'letter_group', 'group_hour', 'death_hour', 'duty')";
#define TABLE_COUNT 20

/* migrate_to runs migration `version` and records it, or neither. */
static enum status migrate_to(struct sqlite_store *s, int64_t version, struct err *err)
{
    char mark[64];
    snprintf(mark, sizeof(mark), "PRAGMA user_version = %d", (int)version);
    enum status status = sql_exec(s, "BEGIN IMMEDIATE", err);
    if (status == STATUS_OK)
        status = sql_exec(s, migrations[version - 1], err);
    if (status == STATUS_OK)
        status = sql_exec(s, mark, err);
    if (status == STATUS_OK)
        status = sql_exec(s, "COMMIT", err);
    if (status != STATUS_OK && !sqlite3_get_autocommit(s->db))
        (void)sql_exec(s, "ROLLBACK", NULL);
    return status;
}

enum status sqlite_schema_migrate(struct sqlite_store *s, struct err *err)
{
    int64_t version = 0, tables = 0;
    enum status status = sql_number(s, "PRAGMA user_version", &version, err);
    if (status == STATUS_OK && version < 0)
        status = sql_damage(s, err, "its version is %lld", (long long)version);
    while (status == STATUS_OK && version < SCHEMA_VERSION)
        status = migrate_to(s, ++version, err);
    if (status == STATUS_OK)
        status = sql_number(s, table_count, &tables, err);
    if (status == STATUS_OK && tables != TABLE_COUNT)
        status = sql_damage(s, err, "%d of its %d tables are missing", (int)(TABLE_COUNT - tables),
                            TABLE_COUNT);
    return status;
}
