/* sqlite_job: live jobs: found in memory, written to one row each.
 *
 * A row is always written whole, by rowid: putting it over the row that is there reads nothing
 * first, and inserting, updating and reviving are one statement. */
#include "base/json.h"
#include "store/sqlite.h"

/* values_of lists what the columns of a job hold. */
static void values_of(const struct job *job, int64_t out[JOB_COLUMN_COUNT])
{
    const int64_t values[JOB_COLUMN_COUNT] = {
        job->seq,
        job->envelope_seq,
        job->event_seq,
        (int64_t)job->id_hash,
        (int64_t)job->idempotency_hash,
        (int64_t)job->retry_key_hash,
        (int64_t)job->lease_nonce,
        job->pushed_at.us,
        job->due_at.us,
        job->deadline_at.us,
        job->round_at.us,
        job->queue,
        job->capabilities,
        job->attempt,
        job->attempt_base,
        job->attempts_max,
        job->redrive_count,
        job->state,
        job->priority,
        job->flags,
    };
    memcpy(out, values, sizeof(values));
}

void sqlite_job_bind(sqlite3_stmt *stmt, int at, const struct job *job)
{
    int64_t values[JOB_COLUMN_COUNT];
    values_of(job, values);
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        sql_bind_int(stmt, at + i, values[i]);
}

void sqlite_job_values(struct sql_batch *batch, const struct job *job)
{
    int64_t values[JOB_COLUMN_COUNT];
    values_of(job, values);
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        sql_batch_int(batch, values[i]);
}

bool sqlite_job_read(sqlite3_stmt *stmt, int column, struct job *out)
{
    /* The largest value of each column from `queue` on; the smallest is 0. */
    static const int64_t most[] = {
        UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,    UINT16_MAX,
        UINT32_MAX, JOB_DEAD,   9,          JOB_FLAGS_ALL,
    };
    const int first = JOB_COLUMN_COUNT - (int)(sizeof(most) / sizeof(most[0]));
    int64_t v[JOB_COLUMN_COUNT];
    for (int i = 0; i < JOB_COLUMN_COUNT; i++) {
        v[i] = sqlite3_column_int64(stmt, column + i);
        if (i >= first && (v[i] < 0 || v[i] > most[i - first]))
            return false;
    }
    *out = (struct job){
        .seq = v[0],
        .envelope_seq = v[1],
        .event_seq = v[2],
        .id_hash = (uint64_t)v[3],
        .idempotency_hash = (uint64_t)v[4],
        .retry_key_hash = (uint64_t)v[5],
        .lease_nonce = (uint64_t)v[6],
        .pushed_at = {v[7]},
        .due_at = {v[8]},
        .deadline_at = {v[9]},
        .round_at = {v[10]},
        .queue = (uint32_t)v[11],
        .capabilities = (uint32_t)v[12],
        .attempt = (uint32_t)v[13],
        .attempt_base = (uint32_t)v[14],
        .attempts_max = (uint16_t)v[15],
        .redrive_count = (uint32_t)v[16],
        .state = (uint8_t)v[17],
        .priority = (uint8_t)v[18],
        .flags = (uint16_t)v[19],
    };
    return true;
}

/* -- finding ----------------------------------------------------------------------------------- */

bool sqlite_job_by_seq(struct store *store, int64_t seq, struct job *out)
{
    const struct job *job = live_by_seq(sqlite_of(store)->live, seq);
    if (job)
        *out = *job;
    return job != NULL;
}

/* envelope_text borrows one column of an envelope in *stmt, which the caller resets.  Not finding
 * the envelope of a live job is damage. */
static enum status envelope_text(struct sqlite_store *s, enum sql which, const char *text,
                                 int64_t envelope_seq, sqlite3_stmt **stmt, struct slice *out,
                                 struct err *err)
{
    enum status status;
    *stmt = sql(s, which, text, err);
    if (!*stmt)
        return s->trouble;
    sql_bind_int(*stmt, 1, envelope_seq);
    if (!sql_row(s, *stmt, &status, err))
        return status != STATUS_OK
                   ? status
                   : sql_damage(s, err, "envelope %lld is missing", (long long)envelope_seq);
    *out = sql_text(*stmt, 0);
    return STATUS_OK;
}

enum status sqlite_live_by_id(struct sqlite_store *s, struct slice job_id, uint64_t id_hash,
                              const struct job **out, struct err *err)
{
    const struct job *job;
    uint32_t iter = 0;
    *out = NULL;
    while (!*out && (job = live_next_by_id(s->live, id_hash, &iter))) {
        sqlite3_stmt *stmt;
        struct slice text = {0};
        enum status status =
            envelope_text(s, SQL_ENVELOPE_ID, "SELECT job_id FROM envelope WHERE seq = ?",
                          job->envelope_seq, &stmt, &text, err);
        if (status != STATUS_OK)
            return status;
        if (slice_eq(text, job_id))
            *out = job;
        sqlite3_reset(stmt);
    }
    return STATUS_OK;
}

bool sqlite_job_by_id(struct store *store, struct slice job_id, uint64_t id_hash, struct job *out,
                      struct err *err)
{
    const struct job *job;
    if (sqlite_live_by_id(sqlite_of(store), job_id, id_hash, &job, err) != STATUS_OK || !job)
        return false;
    *out = *job;
    return true;
}

/* has_key says whether the envelope `body` has `key` in `member`. */
static enum status has_key(struct slice body, const char *member, struct slice key, bool *out,
                           struct err *err)
{
    struct arena arena = {0};
    struct json root, value;
    enum status status = json_parse(body, &root, err);
    *out = false;
    if (status == STATUS_OK && json_get(root, member, &value) && value.type == JSON_STRING) {
        struct slice text = json_text(value, &arena);
        *out = text.ptr && slice_eq(text, key);
        if (!text.ptr)
            status = err_no_memory(err);
    }
    arena_release(&arena);
    return status;
}

bool sqlite_job_by_key(struct store *store, enum store_key which, struct slice key, uint64_t hash,
                       struct job *out, struct err *err)
{
    static const char *const members[] = {"idempotency_key", "retry_key"};
    struct sqlite_store *s = sqlite_of(store);
    const struct job *job;
    uint32_t iter = 0;
    while ((job = live_next_by_key(s->live, which, hash, &iter))) {
        sqlite3_stmt *stmt;
        struct slice body = {0};
        bool same;
        if (envelope_text(s, SQL_ENVELOPE_BODY, "SELECT body FROM envelope WHERE seq = ?",
                          job->envelope_seq, &stmt, &body, err) != STATUS_OK)
            return false;
        enum status status = has_key(body, members[which], key, &same, err);
        sqlite3_reset(stmt);
        if (status != STATUS_OK)
            return false;
        if (same) {
            *out = *job;
            return true;
        }
    }
    return false;
}

/* row_there inserts the rows that wait when that of job `seq` is among them. */
static enum status row_there(struct sqlite_store *s, int64_t seq, struct err *err)
{
    struct sql_batch *batch = &s->batches[BATCH_JOB];
    return sql_batch_has(batch, seq) ? sql_batch_flush(s, batch, err) : STATUS_OK;
}

enum status sqlite_job_worker(struct store *store, int64_t seq, struct arena *arena,
                              struct slice *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    enum status status = row_there(s, seq, err);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *stmt = sql(s, SQL_JOB_WORKER, "SELECT worker FROM job WHERE seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK
                   ? status
                   : err_set(err, STATUS_NOT_FOUND, "no live job %lld", (long long)seq);
    struct slice worker = sql_dup(stmt, 0, arena);
    sqlite3_reset(stmt);
    if (!worker.ptr)
        return err_no_memory(err);
    *out = worker;
    return STATUS_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

/* put writes the row of a job and what memory knows of it.  A job that comes from a letter's row
 * may name a queue that is not there, when that row is damaged. */
static enum status put(struct sqlite_store *s, const struct job *job, struct slice worker,
                       struct err *err)
{
    if (!sqlite_names_known(s, job))
        return sql_damage(s, err, "job %lld has queue %u and capabilities %u, which are not there",
                          (long long)job->seq, job->queue, job->capabilities);
    struct sql_batch *batch = &s->batches[BATCH_JOB];
    enum status status = sql_batch_begin(s, batch, worker.len, err);
    if (status != STATUS_OK)
        return status;
    sqlite_job_values(batch, job);
    sql_batch_bytes(batch, BATCH_TEXT, worker);
    status = sql_batch_end(s, batch, err);
    if (status == STATUS_OK && !live_put(s->live, job))
        status = sql_fail_write(s, err);
    return status;
}

static enum status drop(struct sqlite_store *s, int64_t seq, struct err *err)
{
    enum status status = row_there(s, seq, err);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *stmt = sql(s, SQL_JOB_DELETE, "DELETE FROM job WHERE seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    status = sql_write(s, stmt, err);
    if (status == STATUS_OK)
        live_remove(s->live, seq);
    return status;
}

static enum status known(struct sqlite_store *s, int64_t seq, struct err *err)
{
    return live_by_seq(s->live, seq)
               ? STATUS_OK
               : err_set(err, STATUS_NOT_FOUND, "no live job %lld", (long long)seq);
}

/* envelope_free says whether the first envelope of a job can have the job's own seq: nobody has it
 * yet, and the job has no other, before which it would seem to have been pushed. */
static enum status envelope_free(struct sqlite_store *s, int64_t seq, bool *out, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_ENVELOPE_EXISTS,
                             "SELECT 1 FROM envelope WHERE seq = ?1"
                             " UNION ALL SELECT 1 FROM extra_envelope WHERE job = ?1 LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    *out = !sql_row(s, stmt, &status, err);
    return *out ? status : sql_stop(stmt, STATUS_OK);
}

enum status sqlite_job_insert(struct store *store, struct job *job, struct slice job_id,
                              struct slice body, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct job made = *job;
    bool own = true; /* the envelope can have the job's own seq */
    enum status status = STATUS_OK;
    if (made.seq == 0) {
        made.seq = sqlite_seq_next(store);
    } else {
        if (live_by_seq(s->live, made.seq))
            return err_set(err, STATUS_CONFLICT, "job %lld is live already", (long long)made.seq);
        if (made.seq > s->seq_last)
            s->seq_last = made.seq;
        if (made.seq != s->seq_fresh)
            status = envelope_free(s, made.seq, &own, err);
    }
    if (status != STATUS_OK)
        return status;
    made.envelope_seq = own ? made.seq : sqlite_seq_next(store);
    status = sqlite_envelope_insert(s, made.envelope_seq, made.seq, job_id, body, !own, err);
    if (status == STATUS_OK)
        status = put(s, &made, (struct slice){0}, err);
    if (status == STATUS_OK)
        *job = made;
    return status;
}

enum status sqlite_job_update(struct store *store, const struct job *job, struct slice worker,
                              struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct arena arena = {0};
    enum status status = known(s, job->seq, err);
    if (status == STATUS_OK && job->state != JOB_RUNNING)
        worker = (struct slice){0};
    else if (status == STATUS_OK && worker.len == 0)
        status = sqlite_job_worker(store, job->seq, &arena, &worker, err);
    if (status == STATUS_OK)
        status = put(s, job, worker, err);
    arena_release(&arena);
    return status;
}

enum status sqlite_job_finish(struct store *store, const struct job *job, struct slice job_id,
                              struct instant at, struct slice result, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    BUG_ON(job->state != JOB_DONE && job->state != JOB_CANCELLED);
    enum status status = known(s, job->seq, err);
    if (status != STATUS_OK)
        return status;
    struct sql_batch *batch = &s->batches[BATCH_FINISHED];
    status = sql_batch_begin(s, batch, job_id.len + result.len, err);
    if (status != STATUS_OK)
        return status;
    sqlite_job_values(batch, job);
    sql_batch_int(batch, at.us);
    sql_batch_bytes(batch, BATCH_NAME, job_id);
    sql_batch_bytes(batch, BATCH_BODY, result);
    status = sql_batch_end(s, batch, err);
    if (status == STATUS_OK)
        status = drop(s, job->seq, err);
    if (status == STATUS_OK)
        sqlite_total_add(s, job->queue, job->state, 1);
    return status;
}

enum status sqlite_job_bury(struct store *store, const struct job *job, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    enum status status = known(s, job->seq, err);
    return status == STATUS_OK ? drop(s, job->seq, err) : status;
}

enum status sqlite_job_revive(struct store *store, const struct job *job, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    if (live_by_seq(s->live, job->seq))
        return err_set(err, STATUS_CONFLICT, "job %lld is live already", (long long)job->seq);
    return put(s, job, (struct slice){0}, err);
}

int64_t sqlite_seq_next(struct store *store)
{
    struct sqlite_store *s = sqlite_of(store);
    s->seq_fresh = ++s->seq_last;
    return s->seq_fresh;
}

/* An SQL expression that adds ?1 to a column and saturates, as instant_add does. */
#define SATURATED(column)                                                                          \
    "CASE WHEN ?1 > 0 AND " column " > 9223372036854775807 - ?1 THEN 9223372036854775807"          \
    " WHEN ?1 < 0 AND " column " < -9223372036854775807 - 1 - ?1 THEN -9223372036854775807 - 1"    \
    " ELSE " column " + ?1 END"

enum status sqlite_shift(struct store *store, struct span by, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    /* 2 is JOB_RUNNING, 4 is JOB_RUN_AT, 384 is JOB_HAS_HINTS and JOB_CLAIMED: the same as in
     * live_shift. */
    /* clang-format off */
    sqlite3_stmt *stmt = sql(s, SQL_JOB_SHIFT,
        "UPDATE job SET"
        " due_at = CASE WHEN state = 2 OR (flags & 4) = 0 THEN " SATURATED("due_at") " ELSE due_at END,"
        " deadline_at = CASE WHEN (state = 2 OR ((flags & 4) = 0 AND (flags & 384) <> 0))"
        " AND deadline_at NOT IN (0, 9223372036854775807)"
        " THEN " SATURATED("deadline_at") " ELSE deadline_at END,"
        " round_at = CASE WHEN round_at <> 0 THEN " SATURATED("round_at") " ELSE 0 END",
        err);
    /* clang-format on */
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, by.us);
    enum status status = sql_write(s, stmt, err);
    if (status == STATUS_OK && !live_shift(s->live, by))
        status = sql_fail_write(s, err);
    return status;
}
_Static_assert(JOB_RUNNING == 2 && JOB_RUN_AT == 4 && (JOB_HAS_HINTS | JOB_CLAIMED) == 384,
               "the numbers in sqlite_shift");
_Static_assert(JOB_CANCELLED == 4, "the number in the index finished_cancelled");
