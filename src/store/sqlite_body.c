/* sqlite_body: what belongs to a job and is only ever read whole: envelopes, status documents,
 * failed attempts, and keys that are kept for good. */
#include "store/sqlite.h"

/* -- envelopes --------------------------------------------------------------------------------- */

static enum status extra_insert(struct sqlite_store *s, int64_t job, int64_t seq, struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_ENVELOPE_EXTRA, "INSERT INTO extra_envelope(job, seq) VALUES(?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job);
    sql_bind_int(stmt, 2, seq);
    return sql_write(s, stmt, err);
}

enum status sqlite_envelope_insert(struct sqlite_store *s, int64_t seq, int64_t job,
                                   struct slice job_id, struct slice body, bool extra,
                                   struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_ENVELOPE_INSERT,
            "INSERT INTO envelope(seq, job, job_id, body) VALUES(?, ?, ?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    sql_bind_int(stmt, 2, job);
    sql_bind_name(stmt, 3, job_id);
    sql_bind_body(stmt, 4, body);
    s->seq_fresh = 0;
    enum status status = sql_write(s, stmt, err);
    if (status == STATUS_OK && extra)
        status = extra_insert(s, job, seq, err);
    return status;
}

enum status sqlite_envelope_add(struct store *store, int64_t job_seq, struct slice job_id,
                                struct slice body, int64_t *envelope_seq, struct err *err)
{
    int64_t seq = sqlite_seq_next(store);
    enum status status =
        sqlite_envelope_insert(sqlite_of(store), seq, job_seq, job_id, body, true, err);
    if (status == STATUS_OK)
        *envelope_seq = seq;
    return status;
}

static enum status no_envelope(int64_t seq, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "no envelope %lld", (long long)seq);
}

enum status sqlite_envelope_get(struct store *store, int64_t envelope_seq, struct arena *arena,
                                struct stored_envelope *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_ENVELOPE_GET, "SELECT job, job_id, body FROM envelope WHERE seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, envelope_seq);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status : no_envelope(envelope_seq, err);
    struct stored_envelope found = {
        .job_seq = sqlite3_column_int64(stmt, 0),
        .job_id = sql_dup(stmt, 1, arena),
        .body = sql_dup(stmt, 2, arena),
    };
    sqlite3_reset(stmt);
    if (!found.job_id.ptr || !found.body.ptr)
        return err_no_memory(err);
    *out = found;
    return STATUS_OK;
}

/* text_get copies the one column of the one row of a statement with a number as its parameter. */
static enum status text_get(struct sqlite_store *s, sqlite3_stmt *stmt, int64_t number,
                            struct arena *arena, struct slice *out, bool *found, struct err *err)
{
    enum status status;
    sql_bind_int(stmt, 1, number);
    *found = sql_row(s, stmt, &status, err);
    if (!*found)
        return status;
    struct slice text = sql_dup(stmt, 0, arena);
    sqlite3_reset(stmt);
    if (!text.ptr)
        return err_no_memory(err);
    *out = text;
    return STATUS_OK;
}

enum status sqlite_envelope_job_id(struct store *store, int64_t envelope_seq, struct arena *arena,
                                   struct slice *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    bool found;
    sqlite3_stmt *stmt = sql(s, SQL_ENVELOPE_ID, "SELECT job_id FROM envelope WHERE seq = ?", err);
    if (!stmt)
        return s->trouble;
    enum status status = text_get(s, stmt, envelope_seq, arena, out, &found, err);
    return status == STATUS_OK && !found ? no_envelope(envelope_seq, err) : status;
}

enum status sqlite_envelope_list(struct store *store, int64_t job_seq, struct arena *arena,
                                 int64_t **out, size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    /* Numbers are given in order of time, so that is the order of the numbers. */
    sqlite3_stmt *stmt = sql(s, SQL_ENVELOPE_LIST,
                             "SELECT seq FROM envelope WHERE seq = ?1 AND job = ?1"
                             " UNION ALL SELECT seq FROM extra_envelope WHERE job = ?1 ORDER BY 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job_seq);
    while (sql_row(s, stmt, &status, err)) {
        int64_t *seq = rows_next(&rows, arena, sizeof(*seq));
        if (!seq)
            return sql_stop(stmt, err_no_memory(err));
        *seq = sqlite3_column_int64(stmt, 0);
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}

/* -- status documents -------------------------------------------------------------------------- */

enum status sqlite_document_get(struct store *store, int64_t job_seq, struct arena *arena,
                                struct slice *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    bool found;
    sqlite3_stmt *stmt = sql(s, SQL_DOCUMENT_GET, "SELECT body FROM document WHERE job = ?", err);
    if (!stmt)
        return s->trouble;
    enum status status = text_get(s, stmt, job_seq, arena, out, &found, err);
    if (status == STATUS_OK && !found)
        status =
            err_set(err, STATUS_NOT_FOUND, "job %lld has no status document", (long long)job_seq);
    return status;
}

enum status sqlite_document_put(struct store *store, int64_t job_seq, struct slice body,
                                struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt =
        sql(s, SQL_DOCUMENT_PUT, "INSERT OR REPLACE INTO document(job, body) VALUES(?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job_seq);
    sql_bind_body(stmt, 2, body);
    return sql_write(s, stmt, err);
}

/* -- attempts ---------------------------------------------------------------------------------- */

enum status sqlite_attempt_add(struct store *store, int64_t job_seq, uint32_t attempt,
                               struct slice failure, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct sql_batch *batch = &s->batches[BATCH_ATTEMPT];
    enum status status = sql_batch_begin(s, batch, failure.len, err);
    if (status != STATUS_OK)
        return status;
    sql_batch_int(batch, job_seq);
    sql_batch_int(batch, attempt);
    sql_batch_bytes(batch, BATCH_BODY, failure);
    return sql_batch_end(s, batch, err);
}

enum status sqlite_attempt_list(struct store *store, int64_t job_seq, struct arena *arena,
                                struct attempt_record **out, size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_ATTEMPT_LIST,
            "SELECT attempt, failure FROM attempt WHERE job = ? ORDER BY attempt, seq", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job_seq);
    while (sql_row(s, stmt, &status, err)) {
        struct attempt_record *record = rows_next(&rows, arena, sizeof(*record));
        if (record)
            *record = (struct attempt_record){(uint32_t)sqlite3_column_int64(stmt, 0),
                                              sql_dup(stmt, 1, arena)};
        if (!record || !record->failure.ptr)
            return sql_stop(stmt, err_no_memory(err));
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}

/* -- keys that are kept for good --------------------------------------------------------------- */

bool sqlite_forever_get(struct store *store, enum store_key which, struct slice key,
                        int64_t *job_seq, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_FOREVER_GET, "SELECT job FROM forever WHERE which = ? AND key = ?", err);
    if (!stmt)
        return false;
    sql_bind_int(stmt, 1, which);
    sql_bind_name(stmt, 2, key);
    if (!sql_row(s, stmt, &status, err))
        return false;
    *job_seq = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return true;
}

enum status sqlite_forever_put(struct store *store, enum store_key which, struct slice key,
                               int64_t job_seq, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt = sql(
        s, SQL_FOREVER_PUT, "INSERT OR REPLACE INTO forever(which, key, job) VALUES(?, ?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, which);
    sql_bind_name(stmt, 2, key);
    sql_bind_int(stmt, 3, job_seq);
    return sql_write(s, stmt, err);
}
