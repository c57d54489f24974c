/* postgres_touch: the live jobs that a turn touches, and their rows.
 *
 * A turn notes which jobs it touches and what each was before.  At the end (or when somebody asks
 * the table) every touched job is written once, as memory has it: inserted, updated or deleted,
 * whatever happened to it in between.  A rollback puts back what was before, without asking. */
#include "store/postgres.h"

#include "base/mem.h"
#include "store/table.h"

/* struct touched: a live job that this turn inserted, changed or removed. */
struct touched {
    int64_t seq;
    uint32_t link;       /* of the table by seq */
    bool existed;        /* before the turn, as `before` */
    bool stored;         /* the database has its row, as far as was sent */
    bool dirty;          /* the row is not what memory has */
    bool worker_kept;    /* the row keeps the worker that it has */
    struct slice worker; /* otherwise: who holds the lease, in the arena of the turn */
    struct job before;
};

struct pg_jobs {
    struct touched *items;
    uint32_t count, cap;
    uint32_t *dirty; /* the items that are, `cap` long */
    uint32_t dirty_count;
    struct table by_seq;
    struct pg_columns inserts, updates;
    struct pg_column deletes;
};

static uint64_t seq_hash(int64_t seq)
{
    return (uint64_t)seq * UINT64_C(0x9E3779B97F4A7C15);
}

static uint64_t item_hash(const void *owner, uint32_t handle)
{
    return seq_hash(((const struct pg_jobs *)owner)->items[handle].seq);
}

static uint32_t *item_link(const void *owner, uint32_t handle)
{
    return &((const struct pg_jobs *)owner)->items[handle].link;
}

static const struct table_kind by_seq_kind = {item_hash, item_link};

/* -- rows -------------------------------------------------------------------------------------- */

#define EIGHT PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8
#define JOB_TYPES EIGHT, EIGHT, PG_INT8, PG_INT8, PG_INT8, PG_INT8

static const Oid insert_types[] = {JOB_TYPES, PG_TEXT};
static const struct pg_statement job_insert = {
    "job_insert", "INSERT INTO " PG_SCHEMA
                  ".job(" PG_JOB_COLUMNS("") ", worker)"
                                             " SELECT * FROM unnest($1::" PG_SCHEMA ".job_row[])"};

static const Oid update_types[] = {JOB_TYPES, PG_TEXT, PG_INT8};
static const struct pg_statement job_update = {
    "job_update",
    "UPDATE " PG_SCHEMA ".job AS j SET envelope_seq = u.envelope_seq, event_seq = u.event_seq,"
    " id_hash = u.id_hash, idempotency_hash = u.idempotency_hash,"
    " retry_key_hash = u.retry_key_hash, lease_nonce = u.lease_nonce, pushed_at = u.pushed_at,"
    " due_at = u.due_at, deadline_at = u.deadline_at, round_at = u.round_at, queue = u.queue,"
    " capabilities = u.capabilities, attempt = u.attempt, attempt_base = u.attempt_base,"
    " attempts_max = u.attempts_max, redrive_count = u.redrive_count, state = u.state,"
    " priority = u.priority, flags = u.flags,"
    " worker = CASE WHEN u.kept = 1 THEN j.worker ELSE u.worker END"
    " FROM unnest($1::" PG_SCHEMA ".job_change[]) AS u WHERE j.seq = u.seq"};

static const struct pg_statement job_delete = {"job_delete",
                                               "DELETE FROM " PG_SCHEMA ".job WHERE seq = ANY($1)"};

struct pg_jobs *pg_jobs_new(void)
{
    struct pg_jobs *jobs = mem_zalloc(sizeof(*jobs));
    if (!jobs)
        return NULL;
    table_init(&jobs->by_seq, &by_seq_kind, jobs);
    pg_rows_init(&jobs->inserts, &job_insert, PG_ROW_JOB, insert_types,
                 sizeof(insert_types) / sizeof(insert_types[0]));
    pg_rows_init(&jobs->updates, &job_update, PG_ROW_JOB_CHANGE, update_types,
                 sizeof(update_types) / sizeof(update_types[0]));
    pg_column_init(&jobs->deletes, PG_INT8);
    return jobs;
}

void pg_jobs_clear(struct pg_jobs *jobs)
{
    jobs->count = jobs->dirty_count = 0;
    table_release(&jobs->by_seq);
    pg_columns_clear(&jobs->inserts);
    pg_columns_clear(&jobs->updates);
    pg_column_clear(&jobs->deletes);
}

void pg_jobs_free(struct pg_jobs *jobs)
{
    if (!jobs)
        return;
    table_release(&jobs->by_seq);
    pg_columns_release(&jobs->inserts);
    pg_columns_release(&jobs->updates);
    buf_release(&jobs->deletes.array);
    mem_free(jobs->items);
    mem_free(jobs->dirty);
    mem_free(jobs);
}

/* -- what a turn touches ----------------------------------------------------------------------- */

static struct touched *touched_find(const struct pg_jobs *jobs, int64_t seq)
{
    uint64_t hash = seq_hash(seq);
    uint32_t at = table_first(&jobs->by_seq, hash);
    while (at != TABLE_NONE && jobs->items[at].seq != seq)
        at = table_next(&jobs->by_seq, hash, at);
    return at != TABLE_NONE ? &jobs->items[at] : NULL;
}

static bool reserve(struct pg_jobs *jobs)
{
    if (jobs->count < jobs->cap)
        return true;
    uint32_t cap = jobs->cap ? jobs->cap * 2 : 256;
    struct touched *items = mem_realloc(jobs->items, cap * sizeof(*items));
    if (items)
        jobs->items = items;
    uint32_t *dirty = mem_realloc(jobs->dirty, cap * sizeof(*dirty));
    if (dirty)
        jobs->dirty = dirty;
    if (items && dirty)
        jobs->cap = cap;
    return items && dirty;
}

/* touch notes a job before it is changed; NULL when memory is exhausted. */
static struct touched *touch(struct postgres_store *s, int64_t seq)
{
    struct pg_jobs *jobs = s->jobs;
    struct touched *touched = touched_find(jobs, seq);
    if (!touched) {
        const struct job *before = live_by_seq(s->live, seq);
        if (!reserve(jobs) || !table_reserve(&jobs->by_seq))
            return NULL;
        touched = &jobs->items[jobs->count];
        *touched = (struct touched){
            .seq = seq, .existed = before != NULL, .stored = before != NULL, .worker_kept = true};
        if (before)
            touched->before = *before;
        table_add(&jobs->by_seq, jobs->count++);
    }
    if (!touched->dirty)
        jobs->dirty[jobs->dirty_count++] = (uint32_t)(touched - jobs->items);
    touched->dirty = true;
    return touched;
}

/* write_row puts a touched job among those that are inserted, updated or deleted. */
static enum status write_row(struct postgres_store *s, struct touched *touched, struct err *err)
{
    const struct job *job = live_by_seq(s->live, touched->seq);
    struct pg_columns *columns = touched->stored ? &s->jobs->updates : &s->jobs->inserts;
    bool stored = touched->stored;
    touched->dirty = false;
    touched->stored = job != NULL;
    if (!job) {
        if (stored)
            pg_column_int(&s->jobs->deletes, touched->seq);
        return STATUS_OK;
    }
    pg_job_add(columns, job);
    pg_add_text(columns, touched->worker);
    if (stored)
        pg_add_int(columns, touched->worker_kept);
    return pg_add_end(columns, err);
}

static enum status delete_rows(struct postgres_store *s, struct err *err)
{
    struct pg_column *deletes = &s->jobs->deletes;
    struct pg_params params = {0};
    if (deletes->count == 0)
        return STATUS_OK;
    enum status status = buf_status(&deletes->array, err);
    pg_array(&params, deletes);
    if (status == STATUS_OK)
        status = pg_send(s, &job_delete, &params, err);
    pg_column_clear(deletes);
    return status;
}

enum status pg_jobs_flush(struct postgres_store *s, struct err *err)
{
    struct pg_jobs *jobs = s->jobs;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < jobs->dirty_count && status == STATUS_OK; i++)
        status = write_row(s, &jobs->items[jobs->dirty[i]], err);
    jobs->dirty_count = 0;
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &jobs->inserts, err);
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &jobs->updates, err);
    if (status == STATUS_OK)
        status = delete_rows(s, err);
    s->failed = s->failed || status != STATUS_OK;
    return status;
}

bool pg_jobs_undo(struct postgres_store *s)
{
    struct pg_jobs *jobs = s->jobs;
    bool ok = true;
    for (uint32_t i = 0; i < jobs->count; i++) {
        if (jobs->items[i].existed)
            ok = live_put(s->live, &jobs->items[i].before) && ok;
        else
            live_remove(s->live, jobs->items[i].seq);
    }
    return ok;
}

void pg_jobs_seqs(const struct pg_jobs *jobs, struct pg_column *out)
{
    for (uint32_t i = 0; i < jobs->count; i++)
        pg_column_int(out, jobs->items[i].seq);
}

bool pg_job_worker_known(const struct postgres_store *s, int64_t seq, struct slice *out)
{
    const struct touched *touched = touched_find(s->jobs, seq);
    if (!touched || touched->worker_kept)
        return false;
    *out = touched->worker;
    return true;
}

/* -- touching ---------------------------------------------------------------------------------- */

/* A job that comes from a letter's row may name a queue that is not there, when that row is
 * damaged.
 */
enum status pg_job_put(struct postgres_store *s, const struct job *job, bool worker_kept,
                       struct slice worker, struct err *err)
{
    if (!pg_names_known(s, job))
        return pg_damage(s, err, "job %lld has queue %u and capabilities %u, which are not there",
                         (long long)job->seq, job->queue, job->capabilities);
    struct touched *touched = touch(s, job->seq);
    struct slice copy = worker_kept ? worker : arena_dup(&s->arena, worker);
    if (!touched || (!worker_kept && !copy.ptr) || !live_put(s->live, job))
        return pg_fail_write(s, err);
    if (!worker_kept) {
        touched->worker = copy;
        touched->worker_kept = false;
    }
    s->ready_changed = s->ready_changed || job->state == JOB_PENDING;
    return STATUS_OK;
}

enum status pg_job_drop(struct postgres_store *s, int64_t seq, struct err *err)
{
    struct touched *touched = touch(s, seq);
    if (!touched)
        return pg_fail_write(s, err);
    touched->worker = (struct slice){0};
    touched->worker_kept = false;
    live_remove(s->live, seq);
    return STATUS_OK;
}
