/* postgres_letter_schema: the tables of letters, and of what is small: policies, duties,
 * tombstones.  A part of migration 1 (postgres_schema.c).
 *
 * `letter` is indexed by everything that people ask for.  Its key is when it failed, and that
 * stands last in each index, so that each is in order of time within one value; most have the state
 * second, as nearly every question is about the letters in some states.  It stands there under
 * another name, `place`, which has no index of its own: the planner likes to walk along the key in
 * the hope to meet soon what it looks for, and then reads the whole table when that is old.  Texts
 * are in the order of their bytes (COLLATE "C"), as in the embedded store.
 *
 * A text of a letter may have any length, and an entry of an index may not: texts stand there as
 * lazaret.key has them (postgres_schema.c), and queries ask for that. */
#include "store/postgres_letter.h"

/* SQL is laid out by hand: it is read as a table, not as C. */
/* clang-format off */

#define TEXT " text COLLATE \"C\""
#define INDEX(name, columns)                                                                       \
    "CREATE INDEX letter_" name " ON lazaret.letter(" columns ", state, place);"
#define INDEX_TEXT(column)                                                                         \
    "CREATE INDEX letter_" column " ON lazaret.letter(lazaret.key(" column "), state, place);"
/* ... for a text that most letters do not have. */
#define INDEX_SOME(column)                                                                         \
    "CREATE INDEX letter_" column " ON lazaret.letter(lazaret.key(" column "), state, place)"      \
    " WHERE lazaret.key(" column ") IS NOT NULL;"

const char pg_letter_tables[] =
    "CREATE TABLE lazaret.letter(position bigint PRIMARY KEY,"
    " job_seq bigint NOT NULL UNIQUE, job_envelope_seq bigint NOT NULL,"
    " job_event_seq bigint NOT NULL, job_id_hash bigint NOT NULL,"
    " job_idempotency_hash bigint NOT NULL, job_retry_key_hash bigint NOT NULL,"
    " job_lease_nonce bigint NOT NULL, job_pushed_at bigint NOT NULL, job_due_at bigint NOT NULL,"
    " job_deadline_at bigint NOT NULL, job_round_at bigint NOT NULL, job_queue int NOT NULL,"
    " job_capabilities int NOT NULL, job_attempt bigint NOT NULL, job_attempt_base bigint NOT NULL,"
    " job_attempts_max int NOT NULL, job_redrive_count bigint NOT NULL,"
    " job_state smallint NOT NULL, job_priority smallint NOT NULL, job_flags int NOT NULL,"
    " dlq_id" TEXT " NOT NULL, job_id" TEXT ", run_id" TEXT ", item_id" TEXT ","
    " trace_id" TEXT ", queue" TEXT ", original_subject" TEXT ", reason" TEXT ","
    " reason_detail" TEXT ", source" TEXT ", signature" TEXT ", fingerprint" TEXT ","
    " error_type" TEXT ", agent" TEXT ", artifacts" TEXT ", recovered_by" TEXT ","
    " envelope_seq bigint NOT NULL, state smallint NOT NULL, replay_safety smallint NOT NULL,"
    " failed_at bigint NOT NULL, first_attempt_at bigint NOT NULL, last_attempt_at bigint NOT NULL,"
    " recovered_at bigint NOT NULL, failure_count bigint NOT NULL, max_attempts bigint NOT NULL,"
    " recoverable smallint NOT NULL, eligible smallint NOT NULL, review smallint NOT NULL,"
    " escalated smallint NOT NULL, foreign_body smallint NOT NULL, search tsvector,"
    " place bigint GENERATED ALWAYS AS (position) STORED);"
    /* What letters that a turn makes are sent as. */
    "CREATE TYPE lazaret.letter_row AS (position bigint, job_seq bigint, job_envelope_seq bigint,"
    " job_event_seq bigint, job_id_hash bigint, job_idempotency_hash bigint,"
    " job_retry_key_hash bigint, job_lease_nonce bigint, job_pushed_at bigint, job_due_at bigint,"
    " job_deadline_at bigint, job_round_at bigint, job_queue bigint, job_capabilities bigint,"
    " job_attempt bigint, job_attempt_base bigint, job_attempts_max bigint,"
    " job_redrive_count bigint, job_state bigint, job_priority bigint, job_flags bigint,"
    " dlq_id text, job_id text, run_id text, item_id text, trace_id text, queue text,"
    " original_subject text, reason text, reason_detail text, source text, signature text,"
    " fingerprint text, error_type text, agent text, artifacts text, recovered_by text,"
    " envelope_seq bigint, state bigint, replay_safety bigint, failed_at bigint,"
    " first_attempt_at bigint, last_attempt_at bigint, recovered_at bigint, failure_count bigint,"
    " max_attempts bigint, recoverable bigint, eligible bigint, review bigint, escalated bigint,"
    " foreign_body bigint, words text);"
    "CREATE UNIQUE INDEX letter_dlq_id ON lazaret.letter(lazaret.key(dlq_id));"
    "CREATE INDEX letter_state ON lazaret.letter(state, place);"
    INDEX("recoverable", "recoverable")
    INDEX("eligible", "eligible")
    INDEX_TEXT("reason")
    INDEX_TEXT("source")
    INDEX_TEXT("queue")
    INDEX_TEXT("signature")
    INDEX_TEXT("error_type")
    INDEX_TEXT("job_id")
    INDEX_SOME("agent")
    INDEX_SOME("run_id")
    INDEX_SOME("recovered_by")
    INDEX_SOME("trace_id")
    /* The samples of a group are its newest letters, those that are dead first. */
    "CREATE INDEX letter_fingerprint ON lazaret.letter(lazaret.key(fingerprint), state,"
    " place DESC);"
    "CREATE INDEX letter_origin ON lazaret.letter(job_idempotency_hash, place)"
    " WHERE foreign_body = 1;"
    /* Pages of dead jobs, in the order of their seqs; "+ 0" is for what `place` is for. */
    "CREATE INDEX letter_dead ON lazaret.letter(job_seq) WHERE state <> 2;"
    "CREATE INDEX letter_dead_queue ON lazaret.letter(lazaret.key(queue), (job_seq + 0))"
    " WHERE state <> 2;"
    "CREATE INDEX letter_search ON lazaret.letter USING gin(search);"

    /* One row: the farthest that a letter's position ever was from its failed_at. */
    "CREATE TABLE lazaret.letter_drift(one boolean PRIMARY KEY DEFAULT true CHECK (one),"
    " drift bigint NOT NULL);"
    "INSERT INTO lazaret.letter_drift(drift) VALUES(0);"

    "CREATE TABLE lazaret.letter_count(state smallint NOT NULL, recoverable smallint NOT NULL,"
    " reason" TEXT " NOT NULL, source" TEXT " NOT NULL, queue" TEXT " NOT NULL,"
    " count bigint NOT NULL) WITH (fillfactor = 50);"
    "CREATE UNIQUE INDEX letter_count_of ON lazaret.letter_count(state, recoverable,"
    " lazaret.key(reason), lazaret.key(source), lazaret.key(queue));"
    /* last_seen is the position of the last letter, so that no two groups share it. */
    "CREATE TABLE lazaret.letter_group(fingerprint" TEXT " NOT NULL, signature" TEXT ","
    " count bigint NOT NULL, total bigint NOT NULL, first_seen bigint NOT NULL,"
    " last_seen bigint NOT NULL, status smallint NOT NULL) WITH (fillfactor = 70);"
    "CREATE UNIQUE INDEX letter_group_fingerprint"
    " ON lazaret.letter_group(lazaret.key(fingerprint));"
    "CREATE INDEX letter_group_seen ON lazaret.letter_group(last_seen);"
    "CREATE TABLE lazaret.group_hour(fingerprint" TEXT " NOT NULL, hour bigint NOT NULL,"
    " count bigint NOT NULL) WITH (fillfactor = 70);"
    "CREATE UNIQUE INDEX group_hour_of ON lazaret.group_hour(lazaret.key(fingerprint), hour);"
    "CREATE TABLE lazaret.death_hour(hour bigint PRIMARY KEY, count bigint NOT NULL)"
    " WITH (fillfactor = 50);"

    "CREATE TABLE lazaret.tombstone(seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " job bigint NOT NULL, job_id" TEXT ", dlq_id" TEXT ", what text NOT NULL, at bigint NOT NULL,"
    " event_seq bigint NOT NULL);"
    "CREATE INDEX tombstone_job ON lazaret.tombstone(job);"
    "CREATE INDEX tombstone_job_id ON lazaret.tombstone(lazaret.key(job_id))"
    " WHERE lazaret.key(job_id) IS NOT NULL;"
    "CREATE INDEX tombstone_dlq_id ON lazaret.tombstone(lazaret.key(dlq_id))"
    " WHERE lazaret.key(dlq_id) IS NOT NULL;"

    "CREATE TABLE lazaret.policy(name" TEXT ", version bigint, at bigint NOT NULL,"
    " body bytea NOT NULL, PRIMARY KEY(name, version));"
    "CREATE TABLE lazaret.duty(name" TEXT " PRIMARY KEY, holder text NOT NULL,"
    " until bigint NOT NULL, cursor bigint NOT NULL) WITH (fillfactor = 20);"

    /* What other programs wrote into swarm_dlq, until it is taken in. */
    "CREATE TABLE lazaret.inbox(seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " is_new boolean NOT NULL, body text NOT NULL);"
    /* Letters whose row in swarm_dlq could not be written, why, and when to try again. */
    "CREATE TABLE lazaret.swarm_late(dlq_id" TEXT " NOT NULL, again timestamptz NOT NULL,"
    " error text NOT NULL);"
    "CREATE UNIQUE INDEX swarm_late_id ON lazaret.swarm_late(lazaret.key(dlq_id));"
    "CREATE INDEX swarm_late_again ON lazaret.swarm_late(again);";

/* clang-format on */
