/* postgres_schema: the tables, and how a database of an earlier version comes to have them.
 *
 * Version n of the schema is what migrations 1 to n make.  Each runs in one transaction together
 * with the number that says it has run, under a lock that servers which start at once wait for.  A
 * migration is never edited once a database with it exists: a change is another migration.
 *
 * Hot tables are appended to or addressed by their key.  `job` and `head` are changed in place, in
 * the room that their pages keep free (HOT), so their indexes never grow with the changes;
 * `finished` has indexes that grow at their ends: by the time a job ended, by its queue, and by its
 * id, as generated ids begin with the time. */
#include "store/postgres.h"

#include "store/postgres_letter.h"

/* SQL is laid out by hand: it is read as a table, not as C. */
/* clang-format off */

#define JOB_DEFINITION                                                                             \
    "seq bigint PRIMARY KEY, envelope_seq bigint NOT NULL, event_seq bigint NOT NULL,"             \
    " id_hash bigint NOT NULL, idempotency_hash bigint NOT NULL, retry_key_hash bigint NOT NULL,"  \
    " lease_nonce bigint NOT NULL, pushed_at bigint NOT NULL, due_at bigint NOT NULL,"             \
    " deadline_at bigint NOT NULL, round_at bigint NOT NULL, queue int NOT NULL,"                  \
    " capabilities int NOT NULL, attempt bigint NOT NULL, attempt_base bigint NOT NULL,"           \
    " attempts_max int NOT NULL, redrive_count bigint NOT NULL, state smallint NOT NULL,"          \
    " priority smallint NOT NULL, flags int NOT NULL"

#define JOB_FIELDS                                                                                 \
    "seq bigint, envelope_seq bigint, event_seq bigint, id_hash bigint, idempotency_hash bigint,"  \
    " retry_key_hash bigint, lease_nonce bigint, pushed_at bigint, due_at bigint,"                 \
    " deadline_at bigint, round_at bigint, queue bigint, capabilities bigint, attempt bigint,"     \
    " attempt_base bigint, attempts_max bigint, redrive_count bigint, state bigint,"               \
    " priority bigint, flags bigint"

/* Vacuumed by what has changed, not by a part of the whole, and without pauses. */
#define HOT(threshold)                                                                             \
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = " threshold                 \
    ", autovacuum_vacuum_cost_delay = 0"

static const char base_tables[] =
    /* What a text of any length has in an index: itself, or its beginning and a digest, which is
     * longer than any that stands for itself. */
    "CREATE FUNCTION lazaret.digest(text) RETURNS text LANGUAGE sql IMMUTABLE AS"
    " $$ SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex') $$;"
    "CREATE FUNCTION lazaret.key(text) RETURNS text LANGUAGE sql IMMUTABLE AS"
    " $$ SELECT CASE WHEN octet_length($1) <= 200 THEN $1"
    " ELSE left($1, 200) || lazaret.digest($1) END $$;"

    /* One row: whose turn it is, where the numbers stand, and the end of the evidence's chain. */
    "CREATE TABLE lazaret.head(one boolean PRIMARY KEY DEFAULT true CHECK (one),"
    " turn bigint NOT NULL, nonce bigint NOT NULL, seq_last bigint NOT NULL,"
    " event_seq bigint NOT NULL, event_hash bytea NOT NULL, position_last bigint NOT NULL)"
    " WITH (fillfactor = 10, " HOT("1000") ");"
    "INSERT INTO lazaret.head(turn, nonce, seq_last, event_seq, event_hash, position_last)"
    " VALUES(0, 0, 0, 0, decode(repeat('00', 32), 'hex'), 0);"

    /* One row a turn: which live jobs it inserted, changed or removed.  flags: 1 names, 2 policies.
     */
    "CREATE TABLE lazaret.turn(number bigint PRIMARY KEY, nonce bigint NOT NULL,"
    " flags int NOT NULL, jobs bigint[] NOT NULL, at timestamptz NOT NULL DEFAULT now())"
    " WITH (" HOT("2000") ");"
    "INSERT INTO lazaret.turn(number, nonce, flags, jobs) VALUES(0, 0, 0, '{}');"

    /* name: any bytes. */
    "CREATE TABLE lazaret.queue(number int PRIMARY KEY, name bytea NOT NULL,"
    " paused int NOT NULL, done bigint NOT NULL, cancelled bigint NOT NULL)"
    " WITH (fillfactor = 50, " HOT("1000") ");"

    "CREATE UNIQUE INDEX queue_name ON lazaret.queue(sha256(name));"

    /* names: each as LENGTH:BYTES, and a comma. */
    "CREATE TABLE lazaret.capability_set(number int PRIMARY KEY, names bytea NOT NULL);"

    "CREATE TABLE lazaret.job(" JOB_DEFINITION ", worker text)"
    " WITH (fillfactor = 45, " HOT("5000") ");" /* room for each row to be changed once more */

    /* A job's first envelope has the job's own seq where that was free; `extra_envelope` names the
     * others. */
    "CREATE TABLE lazaret.envelope(seq bigint PRIMARY KEY, job bigint NOT NULL,"
    " job_id text NOT NULL, body bytea NOT NULL);"
    "CREATE TABLE lazaret.extra_envelope(job bigint, seq bigint, PRIMARY KEY(job, seq));"

    /* why_raw: the bytes of `why` when they are not text. */
    "CREATE TABLE lazaret.event(seq bigint PRIMARY KEY, at bigint NOT NULL, actor text NOT NULL,"
    " job bigint NOT NULL, previous bigint NOT NULL, what text NOT NULL, why text NOT NULL,"
    " why_raw bytea, hash bytea NOT NULL);"

    "CREATE TABLE lazaret.finished(" JOB_DEFINITION ", at bigint NOT NULL, job_id text NOT NULL,"
    " result bytea NOT NULL);"
    "CREATE INDEX finished_id ON lazaret.finished(lazaret.key(job_id));"
    "CREATE INDEX finished_at ON lazaret.finished(at, seq) WHERE (flags & 8) = 0;"
    /* "+ 0" keeps the planner from walking along the key instead: see postgres_letter_schema.c. */
    "CREATE INDEX finished_queue ON lazaret.finished(queue, state, (seq + 0));"
    "CREATE INDEX finished_cancelled ON lazaret.finished(seq) WHERE state = 4;"

    "CREATE TABLE lazaret.document(job bigint PRIMARY KEY, body bytea NOT NULL)"
    " WITH (fillfactor = 70);"

    "CREATE TABLE lazaret.attempt(seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " job bigint NOT NULL, attempt bigint NOT NULL, failure bytea NOT NULL);"
    "CREATE INDEX attempt_job ON lazaret.attempt(job);"

    "CREATE TABLE lazaret.roster(server text PRIMARY KEY, until bigint NOT NULL,"
    " body bytea NOT NULL) WITH (fillfactor = 50);"

    /* key: any bytes; a long one as PG_FOREVER_BYTES says. */
    "CREATE TABLE lazaret.forever(which int, key bytea, job bigint NOT NULL,"
    " PRIMARY KEY(which, key));"

    /* What rows are sent as. */
    "CREATE TYPE lazaret.job_row AS (" JOB_FIELDS ", worker text);"
    "CREATE TYPE lazaret.job_change AS (" JOB_FIELDS ", worker text, kept bigint);"
    "CREATE TYPE lazaret.finished_row AS (" JOB_FIELDS ", at bigint, job_id text, result bytea);"
    "CREATE TYPE lazaret.event_row AS (seq bigint, at bigint, actor text, job bigint,"
    " previous bigint, what text, why text, why_raw bytea, hash bytea);"
    "CREATE TYPE lazaret.envelope_row AS (seq bigint, job bigint, job_id text, body bytea);"
    "CREATE TYPE lazaret.attempt_row AS (job bigint, attempt bigint, failure bytea);";

/* clang-format on */
_Static_assert(JOB_HAS_LETTER == 8 && JOB_CANCELLED == 4, "the numbers in the indexes");

/* What each migration runs, one after the other. */
static const char *const migrations[PG_SCHEMA_VERSION][4] = {
    {base_tables, pg_letter_tables, pg_swarm_relations, NULL},
};

#define LOCK "SELECT pg_advisory_xact_lock(7813577604879)" /* "lazaret" */

/* version_read finds the version of the tables: 0 when there are none. */
static enum status version_read(struct postgres_store *s, int64_t *version, struct err *err)
{
    static const struct pg_statement there = {
        NULL, "SELECT to_regclass('lazaret.meta') IS NOT NULL,"
              " EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n"
              " ON n.oid = c.relnamespace WHERE n.nspname = 'lazaret')"};
    static const struct pg_statement value = {
        NULL, "SELECT value FROM lazaret.meta WHERE name = 'version'"};
    PGresult *rows;
    enum status status = pg_query(s, &there, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    bool meta = pg_get_int(rows, 0, 0) != 0, anything = pg_get_int(rows, 0, 1) != 0;
    PQclear(rows);
    *version = 0;
    if (!meta)
        return anything ? err_set(err, STATUS_FOREIGN,
                                  "PostgreSQL at %s: its schema lazaret is somebody else's: use "
                                  "another database, or rename that schema",
                                  s->where)
                        : STATUS_OK;
    status = pg_query(s, &value, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(rows) > 0)
        *version = pg_get_int(rows, 0, 0);
    PQclear(rows);
    return STATUS_OK;
}

static enum status version_check(struct postgres_store *s, int64_t version, struct err *err)
{
    if (version < 0)
        return pg_damage(s, err, "its version is %lld", (long long)version);
    if (version > PG_SCHEMA_VERSION)
        return err_set(err, STATUS_FOREIGN,
                       "PostgreSQL at %s: its tables have version %lld, and this program knows "
                       "those up to %d: use the later program",
                       s->where, (long long)version, PG_SCHEMA_VERSION);
    return STATUS_OK;
}

/* step runs one migration, in a transaction that has the lock. */
static enum status step(struct postgres_store *s, int64_t version, struct err *err)
{
    char mark[192];
    enum status status = STATUS_OK;
    if (version == 1)
        status = pg_run(s,
                        "CREATE SCHEMA IF NOT EXISTS lazaret;"
                        "CREATE TABLE lazaret.meta(name text PRIMARY KEY, value bigint NOT NULL)",
                        err);
    for (int i = 0; migrations[version - 1][i] && status == STATUS_OK; i++)
        status = pg_run(s, migrations[version - 1][i], err);
    snprintf(mark, sizeof(mark),
             "INSERT INTO lazaret.meta(name, value) VALUES('version', %lld)"
             " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
             (long long)version);
    return status == STATUS_OK ? pg_run(s, mark, err) : status;
}

/* advance runs the next migration, if this server is the one that comes to it. */
static enum status advance(struct postgres_store *s, int64_t *version, struct err *err)
{
    struct err ignored;
    enum status status =
        pg_run(s,
               "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
               "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0;"
               "SET LOCAL idle_in_transaction_session_timeout = '60s';"
               "SET LOCAL lazaret.own = '1'; SET LOCAL client_min_messages = warning;" LOCK,
               err);
    s->in_transaction = status == STATUS_OK; /* a lost connection ends it */
    if (status == STATUS_OK)
        status = version_read(s, version, err);
    if (status == STATUS_OK)
        status = version_check(s, *version, err);
    if (status == STATUS_OK && *version < PG_SCHEMA_VERSION)
        status = step(s, ++*version, err);
    if (status == STATUS_OK)
        status = pg_run(s, "COMMIT", err);
    else if (s->link)
        (void)pg_run(s, "ROLLBACK", &ignored);
    s->in_transaction = s->failed = false;
    return status;
}

enum status pg_schema_migrate(struct postgres_store *s, struct err *err)
{
    int64_t version = 0;
    enum status status = version_read(s, &version, err);
    if (status == STATUS_OK)
        status = version_check(s, version, err);
    while (status == STATUS_OK && version < PG_SCHEMA_VERSION)
        status = advance(s, &version, err);
    return status == STATUS_OK ? pg_rows_find(s, err) : status;
}
