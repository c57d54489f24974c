/* postgres_find: jobs in whatever state they are.
 *
 * A job is in one of three places: among the live ones, among the finished ones, or only in the
 * quarantine.  A job that came back from the quarantine still has its letter, so the places are
 * asked in this order. */
#include "base/hash.h"
#include "store/postgres.h"

/* What a dead job is read from. */
#define DEAD_COLUMNS PG_JOB_COLUMNS("job_") ", job_id, queue, dlq_id, failed_at"
#define AFTER_JOB PG_JOB_COLUMN_COUNT /* the first column that is not the job's */

/* -- writing ----------------------------------------------------------------------------------- */

#define EIGHT PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8
static const Oid finished_types[] = {EIGHT,   EIGHT,   PG_INT8, PG_INT8, PG_INT8,
                                     PG_INT8, PG_INT8, PG_TEXT, PG_BYTEA};
static const struct pg_statement finished_insert = {
    "finished_insert", "INSERT INTO " PG_SCHEMA ".finished(" PG_FINISHED_COLUMNS ")"
                       " SELECT * FROM unnest($1::" PG_SCHEMA ".finished_row[])"};

void pg_finished_init(struct postgres_store *s)
{
    pg_rows_init(&s->finished, &finished_insert, PG_ROW_FINISHED, finished_types,
                 sizeof(finished_types) / sizeof(finished_types[0]));
}

/* -- rows -------------------------------------------------------------------------------------- */

static enum status damaged_row(struct postgres_store *s, const PGresult *rows, int row,
                               struct err *err)
{
    return pg_damage(s, err, "the row of job %lld says what cannot be",
                     (long long)pg_get_int(rows, row, 0));
}

static enum status copied(const struct job_row *row, struct err *err)
{
    return row->job_id.ptr && row->queue.ptr && row->dlq_id.ptr ? STATUS_OK : err_no_memory(err);
}

/* live_row tells of a live job. */
static enum status live_row(struct postgres_store *s, const struct job *job, struct arena *arena,
                            struct job_row *out, struct err *err)
{
    *out = (struct job_row){.job = *job,
                            .queue = arena_dup(arena, live_queue_name(s->live, job->queue)),
                            .dlq_id = SLICE("")};
    enum status status =
        postgres_envelope_job_id(&s->store, job->envelope_seq, arena, &out->job_id, err);
    if (status == STATUS_OK && job->state == JOB_RUNNING)
        status = postgres_job_worker(&s->store, job->seq, arena, &out->worker, err);
    return status == STATUS_OK ? copied(out, err) : status;
}

/* finished_row reads PG_FINISHED_COLUMNS. */
static enum status finished_row(struct postgres_store *s, const PGresult *rows, int row,
                                struct arena *arena, struct job_row *out, struct err *err)
{
    *out = (struct job_row){.ended_at = {pg_get_int(rows, row, AFTER_JOB)},
                            .job_id = pg_get_dup(rows, row, AFTER_JOB + 1, arena),
                            .dlq_id = SLICE("")};
    if (!pg_job_read(rows, row, 0, &out->job))
        return damaged_row(s, rows, row, err);
    out->queue = arena_dup(arena, live_queue_name(s->live, out->job.queue));
    return copied(out, err);
}

/* dead_row reads DEAD_COLUMNS. */
static enum status dead_row(struct postgres_store *s, const PGresult *rows, int row,
                            struct arena *arena, struct job_row *out, struct err *err)
{
    *out = (struct job_row){.job_id = pg_get_dup(rows, row, AFTER_JOB, arena),
                            .queue = pg_get_dup(rows, row, AFTER_JOB + 1, arena),
                            .dlq_id = pg_get_dup(rows, row, AFTER_JOB + 2, arena),
                            .ended_at = {pg_get_int(rows, row, AFTER_JOB + 3)}};
    if (!pg_job_read(rows, row, 0, &out->job))
        return damaged_row(s, rows, row, err);
    out->job.state = JOB_DEAD;
    return copied(out, err);
}

typedef enum status row_reader(struct postgres_store *s, const PGresult *rows, int row,
                               struct arena *arena, struct job_row *out, struct err *err);

/* one_row runs a statement and reads its only row. */
static enum status one_row(struct postgres_store *s, const struct pg_statement *statement,
                           struct pg_params *params, row_reader *read, struct arena *arena,
                           struct job_row *out, struct err *err)
{
    struct job_row row;
    PGresult *rows;
    enum status status = pg_query(s, statement, params, &rows, err);
    if (status != STATUS_OK)
        return status;
    status = PQntuples(rows) > 0 ? read(s, rows, 0, arena, &row, err)
                                 : err_set(err, STATUS_NOT_FOUND, "no such job");
    PQclear(rows);
    if (status == STATUS_OK)
        *out = row;
    return status;
}

static enum status one_live(struct postgres_store *s, const struct job *job, struct arena *arena,
                            struct job_row *out, struct err *err)
{
    struct job_row row;
    enum status status = live_row(s, job, arena, &row, err);
    if (status == STATUS_OK)
        *out = row;
    return status;
}

/* -- one job ----------------------------------------------------------------------------------- */

static const struct pg_statement finished_by_id = {
    "finished_by_id", "SELECT " PG_FINISHED_COLUMNS " FROM " PG_SCHEMA ".finished"
                      " WHERE lazaret.key(job_id) = lazaret.key($1) ORDER BY seq DESC LIMIT 1"};
static const struct pg_statement finished_by_seq = {
    "finished_by_seq", "SELECT " PG_FINISHED_COLUMNS " FROM " PG_SCHEMA ".finished WHERE seq = $1"};
static const struct pg_statement letter_by_id = {
    "dead_by_id",
    "SELECT " DEAD_COLUMNS " FROM " PG_SCHEMA
    ".letter WHERE lazaret.key(job_id) = lazaret.key($1) ORDER BY position DESC LIMIT 1"};
static const struct pg_statement letter_by_seq = {
    "dead_by_seq", "SELECT " DEAD_COLUMNS " FROM " PG_SCHEMA ".letter WHERE job_seq = $1"};

enum status postgres_job_find(struct store *store, struct slice job_id, struct arena *arena,
                              struct job_row *out, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    const struct job *job;
    enum status status = pg_live_by_id(s, job_id, hash64(job_id), &job, err);
    if (status != STATUS_OK || job)
        return status != STATUS_OK ? status : one_live(s, job, arena, out, err);
    status = pg_settled(s, err);
    if (status != STATUS_OK)
        return status;
    pg_name(&params, job_id);
    status = one_row(s, &finished_by_id, &params, finished_row, arena, out, err);
    if (status == STATUS_NOT_FOUND)
        status = one_row(s, &letter_by_id, &params, dead_row, arena, out, err);
    return status;
}

enum status postgres_job_find_seq(struct store *store, int64_t seq, struct arena *arena,
                                  struct job_row *out, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    const struct job *job = live_by_seq(s->live, seq);
    struct pg_params params = {0};
    if (job)
        return one_live(s, job, arena, out, err);
    enum status status = pg_settled(s, err);
    if (status != STATUS_OK)
        return status;
    pg_int(&params, seq);
    status = one_row(s, &finished_by_seq, &params, finished_row, arena, out, err);
    if (status == STATUS_NOT_FOUND)
        status = one_row(s, &letter_by_seq, &params, dead_row, arena, out, err);
    return status;
}

enum status pg_finished_read(struct postgres_store *s, const PGresult *rows, int row,
                             struct arena *arena, struct finished *out, struct err *err)
{
    if (!pg_job_read(rows, row, 0, &out->job))
        return damaged_row(s, rows, row, err);
    out->at.us = pg_get_int(rows, row, AFTER_JOB);
    out->result = pg_get_dup(rows, row, AFTER_JOB + 2, arena);
    return out->result.ptr ? STATUS_OK : err_no_memory(err);
}

enum status postgres_finished_get(struct store *store, int64_t seq, struct arena *arena,
                                  struct finished *out, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    struct finished found;
    PGresult *rows;
    pg_int(&params, seq);
    enum status status = pg_flush_columns(s, &s->finished, err);
    if (status == STATUS_OK)
        status = pg_query(s, &finished_by_seq, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    status = PQntuples(rows) > 0
                 ? pg_finished_read(s, rows, 0, arena, &found, err)
                 : err_set(err, STATUS_NOT_FOUND, "no finished job %lld", (long long)seq);
    PQclear(rows);
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
    struct job_row *rows;
    size_t count;
};

static bool wants(const struct page *page, enum job_state state)
{
    return page->state < 0 || page->state == (int)state;
}

static enum status live_page_rows(struct postgres_store *s, struct page *page, struct arena *arena,
                                  struct err *err)
{
    size_t count = 0, max = live_count(s->live) < page->limit ? live_count(s->live) : page->limit;
    struct job *jobs = arena_array(arena, max + 1, sizeof(*jobs));
    page->rows = arena_array(arena, max + 1, sizeof(*page->rows));
    if (!jobs || !page->rows ||
        !live_page(s->live, page->state, page->queue, page->cursor, jobs, max, &count))
        return err_no_memory(err);
    enum status status = STATUS_OK;
    pg_envelopes_fetch(s, jobs, count);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = live_row(s, &jobs[i], arena, &page->rows[page->count++], err);
    return status;
}

/* disk_rows reads the rows of a statement whose parameters are cursor, limit and a queue. */
static enum status disk_rows(struct postgres_store *s, struct page *page,
                             const struct pg_statement *statement, struct pg_params *params,
                             row_reader *read, struct arena *arena, struct err *err)
{
    PGresult *rows;
    enum status status = pg_query(s, statement, params, &rows, err);
    if (status != STATUS_OK)
        return status;
    size_t count = (size_t)PQntuples(rows);
    page->rows = arena_array(arena, count + 1, sizeof(*page->rows));
    if (!page->rows)
        status = err_no_memory(err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = read(s, rows, (int)i, arena, &page->rows[page->count++], err);
    PQclear(rows);
    return status;
}

static void page_params(struct pg_params *params, const struct page *page)
{
    pg_int(params, page->cursor);
    pg_int(params, page->limit > INT64_MAX ? INT64_MAX : (int64_t)page->limit);
}

/* Each reads an index that has its rows in order, and stops at the page's end.  Within a queue the
 * order is by "seq + 0", as only the index that begins with the queue has it. */
#define FINISHED_PAGE(where, seq)                                                                  \
    "SELECT " PG_FINISHED_COLUMNS " FROM " PG_SCHEMA ".finished WHERE " where seq " < $1"          \
    " ORDER BY " seq " DESC LIMIT $2"
#define OF_QUEUE(state) FINISHED_PAGE("queue = $3 AND state = " state " AND ", "seq + 0")

static const struct pg_statement finished_page = {"finished_page", FINISHED_PAGE("", "seq")};
static const struct pg_statement done_page = {"done_page", FINISHED_PAGE("state = 3 AND ", "seq")};
static const struct pg_statement cancelled_page = {"cancelled_page",
                                                   FINISHED_PAGE("state = 4 AND ", "seq")};
static const struct pg_statement queue_done_page = {"queue_done_page", OF_QUEUE("3")};
static const struct pg_statement queue_cancelled_page = {"queue_cancelled_page", OF_QUEUE("4")};
static const struct pg_statement queue_finished_page = {
    "queue_finished_page", "SELECT * FROM ((" OF_QUEUE("3") ") UNION ALL (" OF_QUEUE(
                               "4") ")) AS f ORDER BY seq DESC LIMIT $2"};
_Static_assert(JOB_DONE == 3 && JOB_CANCELLED == 4, "the numbers in the pages");

/* What is looked up for each row is a subquery with a LIMIT, which cannot become a join with the
 * whole table. */
#define DEAD_PAGE(where, seq)                                                                      \
    "SELECT " DEAD_COLUMNS " FROM " PG_SCHEMA ".letter WHERE " where seq " < $1 AND state <> 2"    \
    " AND (SELECT 1 FROM " PG_SCHEMA ".job WHERE seq = job_seq LIMIT 1) IS NULL"                   \
    " AND (SELECT 1 FROM " PG_SCHEMA ".finished WHERE seq = job_seq LIMIT 1) IS NULL"              \
    " ORDER BY " seq " DESC LIMIT $2"

static const struct pg_statement dead_page = {"dead_page", DEAD_PAGE("", "job_seq")};
static const struct pg_statement queue_dead_page = {
    "queue_dead_page", DEAD_PAGE("lazaret.key(queue) = lazaret.key($3) AND ", "job_seq + 0")};
_Static_assert(LETTER_RECOVERED == 2, "the number in DEAD_PAGE");

static enum status finished_page_rows(struct postgres_store *s, struct page *page,
                                      struct arena *arena, struct err *err)
{
    const struct pg_statement *statement = page->queue ? &queue_finished_page : &finished_page;
    struct pg_params params = {0};
    if (page->state == JOB_DONE)
        statement = page->queue ? &queue_done_page : &done_page;
    else if (page->state == JOB_CANCELLED)
        statement = page->queue ? &queue_cancelled_page : &cancelled_page;
    page_params(&params, page);
    if (page->queue)
        pg_int(&params, page->queue);
    return disk_rows(s, page, statement, &params, finished_row, arena, err);
}

static enum status dead_page_rows(struct postgres_store *s, struct page *page, struct arena *arena,
                                  struct err *err)
{
    struct pg_params params = {0};
    bool any = page->queue_name.len == 0;
    page_params(&params, page);
    if (!any)
        pg_name(&params, page->queue_name);
    return disk_rows(s, page, any ? &dead_page : &queue_dead_page, &params, dead_row, arena, err);
}

/* merge takes the `limit` highest of three lists that are in order. */
static enum status merge(const struct page lists[3], size_t limit, struct arena *arena,
                         struct job_row **out, size_t *count, struct err *err)
{
    size_t at[3] = {0}, total = lists[0].count + lists[1].count + lists[2].count;
    total = total < limit ? total : limit;
    struct job_row *rows = arena_array(arena, total + 1, sizeof(*rows));
    if (!rows)
        return err_no_memory(err);
    for (size_t n = 0; n < total; n++) {
        const struct job_row *best = NULL;
        int from = 0;
        for (int i = 0; i < 3; i++) {
            if (at[i] >= lists[i].count)
                continue;
            const struct job_row *head = &lists[i].rows[at[i]];
            if (!best || head->job.seq > best->job.seq) {
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

enum status postgres_job_list(struct store *store, int state, struct slice queue, int64_t cursor,
                              size_t limit, struct arena *arena, struct job_row **out,
                              size_t *count, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    const struct page page = {
        .state = state, .queue_name = queue, .cursor = cursor ? cursor : INT64_MAX, .limit = limit};
    struct page lists[3] = {page, page, page}; /* live, finished, dead */
    bool known = queue.len == 0 || live_queue_find(s->live, queue, &lists[0].queue);
    enum status status = pg_settled(s, err);
    lists[1].queue = lists[0].queue;
    if (status == STATUS_OK && known && (state < 0 || job_is_live((enum job_state)state)))
        status = live_page_rows(s, &lists[0], arena, err);
    if (status == STATUS_OK && known && (wants(&page, JOB_DONE) || wants(&page, JOB_CANCELLED)))
        status = finished_page_rows(s, &lists[1], arena, err);
    if (status == STATUS_OK && wants(&page, JOB_DEAD))
        status = dead_page_rows(s, &lists[2], arena, err);
    return status == STATUS_OK ? merge(lists, limit, arena, out, count, err) : status;
}
