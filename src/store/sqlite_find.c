/* sqlite_find: jobs in whatever state they are.
 *
 * A job is in one of three places: among the live ones, among the finished ones, or only in the
 * quarantine.  A job that came back from the quarantine still has its letter, so the places are
 * asked in this order. */
#include "base/hash.h"
#include "store/sqlite.h"

/* What a dead job is read from. */
#define DEAD_COLUMNS JOB_COLUMNS("job_") ", job_id, queue, dlq_id, failed_at"
#define AFTER_JOB JOB_COLUMN_COUNT /* the first column that is not the job's */

/* -- rows -------------------------------------------------------------------------------------- */

static enum status damaged_row(struct sqlite_store *s, sqlite3_stmt *stmt, struct err *err)
{
    return sql_damage(s, err, "the row of job %lld says what cannot be",
                      (long long)sqlite3_column_int64(stmt, 0));
}

static enum status copied(const struct job_row *row, struct err *err)
{
    return row->job_id.ptr && row->queue.ptr && row->dlq_id.ptr ? STATUS_OK : err_no_memory(err);
}

static enum status live_row(struct sqlite_store *s, const struct job *job, struct arena *arena,
                            struct job_row *out, struct err *err)
{
    *out = (struct job_row){.job = *job,
                            .queue = arena_dup(arena, live_queue_name(s->live, job->queue)),
                            .dlq_id = SLICE("")};
    enum status status =
        sqlite_envelope_job_id(&s->store, job->envelope_seq, arena, &out->job_id, err);
    if (status == STATUS_OK && job->state == JOB_RUNNING)
        status = sqlite_job_worker(&s->store, job->seq, arena, &out->worker, err);
    return status == STATUS_OK ? copied(out, err) : status;
}

/* finished_row reads FINISHED_COLUMNS. */
static enum status finished_row(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                                struct job_row *out, struct err *err)
{
    *out = (struct job_row){.ended_at = {sqlite3_column_int64(stmt, AFTER_JOB)},
                            .job_id = sql_dup(stmt, AFTER_JOB + 1, arena),
                            .dlq_id = SLICE("")};
    if (!sqlite_job_read(stmt, 0, &out->job))
        return damaged_row(s, stmt, err);
    out->queue = arena_dup(arena, live_queue_name(s->live, out->job.queue));
    return copied(out, err);
}

/* dead_row reads DEAD_COLUMNS. */
static enum status dead_row(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                            struct job_row *out, struct err *err)
{
    *out = (struct job_row){.job_id = sql_dup(stmt, AFTER_JOB, arena),
                            .queue = sql_dup(stmt, AFTER_JOB + 1, arena),
                            .dlq_id = sql_dup(stmt, AFTER_JOB + 2, arena),
                            .ended_at = {sqlite3_column_int64(stmt, AFTER_JOB + 3)}};
    if (!sqlite_job_read(stmt, 0, &out->job))
        return damaged_row(s, stmt, err);
    out->job.state = JOB_DEAD;
    return copied(out, err);
}

typedef enum status row_reader(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                               struct job_row *out, struct err *err);

/* one_row runs a statement that is bound and reads its only row. */
static enum status one_row(struct sqlite_store *s, sqlite3_stmt *stmt, row_reader *read,
                           struct arena *arena, struct job_row *out, struct err *err)
{
    struct job_row row;
    enum status status;
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status : err_set(err, STATUS_NOT_FOUND, "no such job");
    status = sql_stop(stmt, read(s, stmt, arena, &row, err));
    if (status == STATUS_OK)
        *out = row;
    return status;
}

static enum status one_live(struct sqlite_store *s, const struct job *job, struct arena *arena,
                            struct job_row *out, struct err *err)
{
    struct job_row row;
    enum status status = live_row(s, job, arena, &row, err);
    if (status == STATUS_OK)
        *out = row;
    return status;
}

/* -- one job ----------------------------------------------------------------------------------- */

enum status sqlite_job_find(struct store *store, struct slice job_id, struct arena *arena,
                            struct job_row *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    const struct job *job;
    enum status status = sqlite_live_by_id(s, job_id, hash64(job_id), &job, err);
    if (status != STATUS_OK || job)
        return status != STATUS_OK ? status : one_live(s, job, arena, out, err);
    sqlite3_stmt *stmt =
        sql(s, SQL_FINISHED_BY_ID,
            "SELECT " FINISHED_COLUMNS " FROM finished WHERE job_id = ? ORDER BY seq DESC LIMIT 1",
            err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, job_id);
    status = one_row(s, stmt, finished_row, arena, out, err);
    if (status != STATUS_NOT_FOUND)
        return status;
    stmt = sql(s, SQL_LETTER_BY_JOB_ID,
               "SELECT " DEAD_COLUMNS " FROM letter WHERE job_id = ? ORDER BY position DESC"
               " LIMIT 1",
               err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, job_id);
    return one_row(s, stmt, dead_row, arena, out, err);
}

static sqlite3_stmt *finished_by_seq(struct sqlite_store *s, int64_t seq, struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_FINISHED_GET, "SELECT " FINISHED_COLUMNS " FROM finished WHERE seq = ?", err);
    if (stmt)
        sql_bind_int(stmt, 1, seq);
    return stmt;
}

enum status sqlite_job_find_seq(struct store *store, int64_t seq, struct arena *arena,
                                struct job_row *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    const struct job *job = live_by_seq(s->live, seq);
    if (job)
        return one_live(s, job, arena, out, err);
    sqlite3_stmt *stmt = finished_by_seq(s, seq, err);
    if (!stmt)
        return s->trouble;
    enum status status = one_row(s, stmt, finished_row, arena, out, err);
    if (status != STATUS_NOT_FOUND)
        return status;
    stmt = sql(s, SQL_LETTER_AS_JOB, "SELECT " DEAD_COLUMNS " FROM letter WHERE job_seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    return one_row(s, stmt, dead_row, arena, out, err);
}

enum status sqlite_finished_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                                 struct finished *out, struct err *err)
{
    if (!sqlite_job_read(stmt, 0, &out->job))
        return damaged_row(s, stmt, err);
    out->at.us = sqlite3_column_int64(stmt, AFTER_JOB);
    out->result = sql_dup(stmt, AFTER_JOB + 2, arena);
    return out->result.ptr ? STATUS_OK : err_no_memory(err);
}

enum status sqlite_finished_get(struct store *store, int64_t seq, struct arena *arena,
                                struct finished *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct finished found;
    enum status status;
    sqlite3_stmt *stmt = finished_by_seq(s, seq, err);
    if (!stmt)
        return s->trouble;
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK
                   ? status
                   : err_set(err, STATUS_NOT_FOUND, "no finished job %lld", (long long)seq);
    status = sql_stop(stmt, sqlite_finished_read(s, stmt, arena, &found, err));
    if (status == STATUS_OK)
        *out = found;
    return status;
}

/* -- pages ------------------------------------------------------------------------------------- */

/* struct page: one request, and the rows of one place. */
struct page {
    int state; /* below 0: any */
    struct slice queue_name;
    uint32_t queue; /* 0: any */
    int64_t cursor;
    size_t limit;
    struct rows rows;
};

static bool wants(const struct page *page, enum job_state state)
{
    return page->state < 0 || page->state == (int)state;
}

static enum status live_page_rows(struct sqlite_store *s, struct page *page, struct arena *arena,
                                  struct err *err)
{
    size_t count = 0, max = live_count(s->live) < page->limit ? live_count(s->live) : page->limit;
    struct job *jobs = arena_array(arena, max + 1, sizeof(*jobs));
    if (!jobs || !live_page(s->live, page->state, page->queue, page->cursor, jobs, max, &count))
        return err_no_memory(err);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        struct job_row *row = rows_next(&page->rows, arena, sizeof(*row));
        status = row ? live_row(s, &jobs[i], arena, row, err) : err_no_memory(err);
    }
    return status;
}

/* disk_rows reads the rows of a statement whose parameters are cursor, limit, queue and state. */
static enum status disk_rows(struct sqlite_store *s, struct page *page, const char *text,
                             row_reader *read, struct arena *arena, struct err *err)
{
    enum status status, failed = STATUS_OK;
    sqlite3_stmt *stmt = sql_once(s, text, err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, page->cursor);
    sql_bind_int(stmt, 2, page->limit > INT64_MAX ? INT64_MAX : (int64_t)page->limit);
    sql_bind_name(stmt, 3, page->queue_name);
    sql_bind_int(stmt, 4, page->queue);
    sql_bind_int(stmt, 5, page->state);
    while (failed == STATUS_OK && sql_row(s, stmt, &status, err)) {
        struct job_row *row = rows_next(&page->rows, arena, sizeof(*row));
        failed = row ? read(s, stmt, arena, row, err) : err_no_memory(err);
    }
    sqlite3_finalize(stmt);
    return failed != STATUS_OK ? failed : status;
}

#define FINISHED_PAGE                                                                              \
    "SELECT " FINISHED_COLUMNS " FROM finished WHERE seq < ?1 AND (?3 = '' OR queue = ?4)"
#define DEAD_PAGE                                                                                  \
    "SELECT " DEAD_COLUMNS " FROM letter WHERE job_seq < ?1 AND (?3 = '' OR queue = ?3)"           \
    " AND state <> 2 AND NOT EXISTS (SELECT 1 FROM job WHERE seq = job_seq)"                       \
    " AND NOT EXISTS (SELECT 1 FROM finished WHERE seq = job_seq)"                                 \
    " AND ?4 = ?4 AND ?5 = ?5 ORDER BY job_seq DESC LIMIT ?2"
_Static_assert(LETTER_RECOVERED == 2, "the number in DEAD_PAGE");

static enum status finished_page_rows(struct sqlite_store *s, struct page *page,
                                      struct arena *arena, struct err *err)
{
    const char *text = FINISHED_PAGE " AND ?5 = ?5 ORDER BY seq DESC LIMIT ?2";
    if (page->state == JOB_DONE)
        text = FINISHED_PAGE " AND state = ?5 ORDER BY seq DESC LIMIT ?2";
    else if (page->state == JOB_CANCELLED) /* few among many: by their own index */
        text = FINISHED_PAGE " AND state = 4 AND ?5 = ?5 ORDER BY seq DESC LIMIT ?2";
    return disk_rows(s, page, text, finished_row, arena, err);
}

/* merge takes the `limit` highest of three lists that are in order. */
static enum status merge(struct page lists[3], size_t limit, struct arena *arena,
                         struct job_row **out, size_t *count, struct err *err)
{
    size_t at[3] = {0}, total = 0;
    for (int i = 0; i < 3; i++)
        total += lists[i].rows.count;
    total = total < limit ? total : limit;
    struct job_row *rows = arena_array(arena, total + 1, sizeof(*rows));
    if (!rows)
        return err_no_memory(err);
    for (size_t n = 0; n < total; n++) {
        const struct job_row *best = NULL;
        int from = 0;
        for (int i = 0; i < 3; i++) {
            const struct job_row *head = (const struct job_row *)lists[i].rows.items + at[i];
            if (at[i] < lists[i].rows.count && (!best || head->job.seq > best->job.seq)) {
                best = head;
                from = i;
            }
        }
        rows[n] = *best;
        at[from]++;
    }
    *out = rows;
    *count = total;
    return STATUS_OK;
}

enum status sqlite_job_list(struct store *store, int state, struct slice queue, int64_t cursor,
                            size_t limit, struct arena *arena, struct job_row **out, size_t *count,
                            struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    const struct page page = {
        .state = state, .queue_name = queue, .cursor = cursor ? cursor : INT64_MAX, .limit = limit};
    struct page live = page, finished = page, dead = page;
    bool known = queue.len == 0 || live_queue_find(s->live, queue, &live.queue);
    enum status status = STATUS_OK;
    finished.queue = live.queue;
    if (known && (state < 0 || job_is_live((enum job_state)state)))
        status = live_page_rows(s, &live, arena, err);
    if (status == STATUS_OK && known && (wants(&page, JOB_DONE) || wants(&page, JOB_CANCELLED)))
        status = finished_page_rows(s, &finished, arena, err);
    if (status == STATUS_OK && wants(&page, JOB_DEAD))
        status = disk_rows(s, &dead, DEAD_PAGE, dead_row, arena, err);
    if (status != STATUS_OK)
        return status;
    return merge((struct page[]){live, finished, dead}, limit, arena, out, count, err);
}
