/* sqlite_purge: removing what has ended; a tombstone says that it was there.
 *
 * What belongs to a job (envelopes, attempts, status document) goes with it.  A job that finished
 * after a replay is one thing with its letter: both go when the letter is purged.  Events and keys
 * that are kept for good always stay. */
#include "store/sqlite.h"

/* run_for runs a statement that changes the rows of one job. */
static enum status run_for(struct sqlite_store *s, enum sql which, const char *text, int64_t job,
                           struct err *err)
{
    sqlite3_stmt *stmt = sql(s, which, text, err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job);
    return sql_write(s, stmt, err);
}

/* belongings_delete removes what belongs to a job. */
static enum status belongings_delete(struct sqlite_store *s, int64_t job, struct err *err)
{
    static const struct {
        enum sql which;
        const char *text;
    } steps[] = {
        {SQL_ENVELOPE_DELETE, "DELETE FROM envelope WHERE seq = ?1 AND job = ?1"},
        {SQL_EXTRA_DELETE_BODIES, "DELETE FROM envelope WHERE seq IN"
                                  " (SELECT seq FROM extra_envelope WHERE job = ?1)"},
        {SQL_EXTRA_DELETE, "DELETE FROM extra_envelope WHERE job = ?1"},
        {SQL_ATTEMPT_DELETE, "DELETE FROM attempt WHERE job = ?1"},
        {SQL_DOCUMENT_DELETE, "DELETE FROM document WHERE job = ?1"},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && status == STATUS_OK; i++)
        status = run_for(s, steps[i].which, steps[i].text, job, err);
    return status;
}

static enum status tombstone_insert(struct sqlite_store *s, const struct tombstone *tombstone,
                                    struct err *err)
{
    sqlite3_stmt *stmt = sql(s, SQL_TOMBSTONE_INSERT,
                             "INSERT INTO tombstone(job, job_id, dlq_id, what, at, event_seq)"
                             " VALUES(?, ?, ?, ?, ?, ?)",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, tombstone->job_seq);
    sql_bind_text(stmt, 2, tombstone->job_id);
    sql_bind_text(stmt, 3, tombstone->dlq_id);
    sql_bind_name(stmt, 4, tombstone->what);
    sql_bind_int(stmt, 5, tombstone->at.us);
    sql_bind_int(stmt, 6, tombstone->event_seq);
    enum status status = sql_write(s, stmt, err);
    /* Envelopes that are removed must not leave their numbers to be given again. */
    return status == STATUS_OK ? sqlite_meta_put(s, "seq", s->seq_last, err) : status;
}

/* tombstone_read reads the row that a statement finds, if any. */
static enum status tombstone_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                                  struct tombstone *out, struct err *err)
{
    enum status status;
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status
                                   : err_set(err, STATUS_NOT_FOUND, "nothing of it was purged");
    struct tombstone found = {.job_seq = sqlite3_column_int64(stmt, 0),
                              .job_id = sql_dup(stmt, 1, arena),
                              .dlq_id = sql_dup(stmt, 2, arena),
                              .what = sql_dup(stmt, 3, arena),
                              .at = {sqlite3_column_int64(stmt, 4)},
                              .event_seq = sqlite3_column_int64(stmt, 5)};
    sqlite3_reset(stmt);
    if (!found.job_id.ptr || !found.dlq_id.ptr || !found.what.ptr)
        return err_no_memory(err);
    *out = found;
    return STATUS_OK;
}

#define TOMBSTONE_COLUMNS "job, job_id, dlq_id, what, at, event_seq"

enum status sqlite_tombstone_get(struct store *store, int64_t job_seq, struct arena *arena,
                                 struct tombstone *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt = sql(s, SQL_TOMBSTONE_GET,
                             "SELECT " TOMBSTONE_COLUMNS " FROM tombstone WHERE job = ?"
                             " ORDER BY seq DESC LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job_seq);
    return tombstone_read(s, stmt, arena, out, err);
}

enum status sqlite_tombstone_find(struct store *store, struct slice id, struct arena *arena,
                                  struct tombstone *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt = sql(s, SQL_TOMBSTONE_FIND,
                             "SELECT " TOMBSTONE_COLUMNS " FROM tombstone"
                             " WHERE job_id = ?1 OR dlq_id = ?1 ORDER BY seq DESC LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, id);
    return tombstone_read(s, stmt, arena, out, err);
}

/* finished_delete removes the row of a finished job and takes it out of its queue's totals. */
static enum status finished_delete(struct sqlite_store *s, const struct job *job, struct err *err)
{
    if (!sqlite_names_known(s, job))
        return sql_damage(s, err, "finished job %lld has a queue that is not there",
                          (long long)job->seq);
    enum status status =
        run_for(s, SQL_FINISHED_DELETE, "DELETE FROM finished WHERE seq = ?", job->seq, err);
    if (status == STATUS_OK)
        sqlite_total_add(s, job->queue, job->state, -1);
    return status;
}

/* -- letters ----------------------------------------------------------------------------------- */

/* letter_delete removes a letter's row, its search text and its part in the counts. */
static enum status letter_delete(struct sqlite_store *s, const struct letter *letter,
                                 struct err *err)
{
    const struct letter_facts facts = {
        .position = letter->position,
        .state = letter->state,
        .recoverable = letter->recoverable,
        .reason = letter->reason,
        .source = letter->source,
        .queue = letter->queue,
        .fingerprint = letter->fingerprint,
        .signature = letter->signature,
        .failed_at = letter->failed_at,
    };
    enum status status = run_for(s, SQL_LETTER_DELETE, "DELETE FROM letter WHERE position = ?",
                                 letter->position, err);
    if (status == STATUS_OK)
        status = sqlite_text_delete(s, letter->position, err);
    if (status == STATUS_OK)
        status = sqlite_count_change(s, &facts, NULL, false, err);
    return status;
}

/* finished_take removes the finished row of a letter's job, if it has one, and moves *event_seq on
 * to its last event. */
static enum status finished_take(struct sqlite_store *s, int64_t seq, struct arena *arena,
                                 int64_t *event_seq, struct err *err)
{
    struct finished finished;
    enum status status = sqlite_finished_get(&s->store, seq, arena, &finished, err);
    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    if (finished.job.event_seq > *event_seq)
        *event_seq = finished.job.event_seq;
    return finished_delete(s, &finished.job, err);
}

enum status sqlite_letter_purge(struct store *store, const struct letter *letter,
                                struct instant now, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct arena arena = {0};
    struct letter stored; /* what is counted is what is stored, whatever the caller changed */
    int64_t seq = letter->job.seq, event_seq = letter->job.event_seq;
    if (live_by_seq(s->live, seq))
        return err_set(err, STATUS_CONFLICT, "the job of dead letter %.*s is live",
                       SLICE_ARG(letter->dlq_id));
    enum status status = sqlite_letter_by_job(store, seq, &arena, &stored, err);
    if (status == STATUS_OK)
        status = finished_take(s, seq, &arena, &event_seq, err);
    if (status == STATUS_OK)
        status = letter_delete(s, &stored, err);
    if (status == STATUS_OK)
        status = belongings_delete(s, seq, err);
    if (status == STATUS_OK)
        status = tombstone_insert(s,
                                  &(struct tombstone){.job_seq = seq,
                                                      .job_id = stored.job_id,
                                                      .dlq_id = stored.dlq_id,
                                                      .what = SLICE("letter"),
                                                      .at = now,
                                                      .event_seq = event_seq},
                                  err);
    arena_release(&arena);
    return status;
}

/* -- finished jobs ----------------------------------------------------------------------------- */

enum status sqlite_finished_before(struct store *store, struct instant before, size_t limit,
                                   struct arena *arena, struct finished **out, size_t *count,
                                   struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_FINISHED_BEFORE,
                             "SELECT " FINISHED_COLUMNS " FROM finished INDEXED BY finished_at"
                             " WHERE at < ? AND (flags & 8) = 0 ORDER BY at, seq LIMIT ?",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, before.us);
    sql_bind_int(stmt, 2, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    while (sql_row(s, stmt, &status, err)) {
        struct finished *finished = rows_next(&rows, arena, sizeof(*finished));
        status =
            finished ? sqlite_finished_read(s, stmt, arena, finished, err) : err_no_memory(err);
        if (status != STATUS_OK)
            return sql_stop(stmt, status);
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}

_Static_assert(JOB_HAS_LETTER == 8, "the number in the index finished_at and above");

/* no_letter refuses when a finished job has a letter: they go together. */
static enum status no_letter(struct sqlite_store *s, int64_t job, struct arena *arena,
                             struct err *err)
{
    struct letter letter;
    enum status status = sqlite_letter_by_job(&s->store, job, arena, &letter, err);
    if (status == STATUS_OK)
        return err_set(err, STATUS_CONFLICT, "job %lld has the dead letter %.*s: purge that",
                       (long long)job, SLICE_ARG(letter.dlq_id));
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status sqlite_finished_purge(struct store *store, const struct finished *finished,
                                  struct instant now, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct arena arena = {0};
    struct job_row row;
    int64_t seq = finished->job.seq;
    enum status status = sqlite_job_find_seq(store, seq, &arena, &row, err);
    if (status == STATUS_OK && row.job.state != JOB_DONE && row.job.state != JOB_CANCELLED)
        status = err_set(err, STATUS_NOT_FOUND, "no finished job %lld", (long long)seq);
    if (status == STATUS_OK)
        status = no_letter(s, seq, &arena, err);
    if (status == STATUS_OK)
        status = finished_delete(s, &row.job, err);
    if (status == STATUS_OK)
        status = belongings_delete(s, seq, err);
    if (status == STATUS_OK)
        status = tombstone_insert(s,
                                  &(struct tombstone){.job_seq = seq,
                                                      .job_id = row.job_id,
                                                      .what = SLICE("job"),
                                                      .at = now,
                                                      .event_seq = finished->job.event_seq},
                                  err);
    arena_release(&arena);
    return status;
}
