/* sqlite: the embedded store: opening, transactions, loading, and the table of its functions.
 *
 * Memory follows the disk: every write goes to the database first and then to the live index, and
 * both are undone together, the index by loading it anew.  So there is one way in which memory
 * comes to show the disk, at the start and after any failure.
 *
 *     closed --open--> idle --begin--> writing --commit--> idle
 *                        ^                |  a write fails
 *                        |                v
 *                        `---rollback-- failed         (writes and commit are refused)
 *                        ^                |  the load after the rollback fails
 *                        |                v
 *                        `--reload, begin-- unloaded   (nothing is found, nothing works) */
#include "store/sqlite.h"
#include "base/mem.h"

/* -- loading ----------------------------------------------------------------------------------- */

static enum status load_job(struct sqlite_store *s, sqlite3_stmt *stmt, struct err *err)
{
    struct job job;
    if (!sqlite_job_read(stmt, 0, &job) || job.seq <= 0 || !job_is_live(job.state) ||
        !sqlite_names_known(s, &job))
        return sql_damage(s, err, "the row of job %lld says what cannot be",
                          (long long)sqlite3_column_int64(stmt, 0));
    return live_put(s->live, &job) ? STATUS_OK : err_no_memory(err);
}

static enum status load_jobs(struct sqlite_store *s, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql_once(s, "SELECT " JOB_COLUMNS("") " FROM job ORDER BY seq", err);
    if (!stmt)
        return s->trouble;
    while (sql_row(s, stmt, &status, err))
        if ((status = load_job(s, stmt, err)) != STATUS_OK)
            break;
    sqlite3_finalize(stmt);
    return status;
}

/* load_numbers finds the highest seq that was ever given, and the drift of positions. */
static enum status load_numbers(struct sqlite_store *s, struct err *err)
{
    s->seq_last = 0;
    s->seq_fresh = 0;
    s->drift = 0;
    enum status status = sql_number(s,
                                    "SELECT max(ifnull((SELECT max(seq) FROM job), 0),"
                                    " ifnull((SELECT max(seq) FROM envelope), 0),"
                                    " ifnull((SELECT max(seq) FROM finished), 0),"
                                    " ifnull((SELECT max(job_seq) FROM letter), 0),"
                                    " ifnull((SELECT max(job) FROM tombstone), 0),"
                                    " ifnull((SELECT value FROM meta WHERE name = 'seq'), 0))",
                                    &s->seq_last, err);
    if (status == STATUS_OK)
        status = sql_number(s, "SELECT value FROM meta WHERE name = 'drift'", &s->drift, err);
    return status;
}

/* text_forget has the full-text index forget what it holds in memory.  SQLite may undo a
 * transaction by itself, in the middle of a statement of the index, which then goes on to remember
 * totals that it could not read (seen with 3.40): a later statement would take the index for
 * damaged.  Undoing a transaction that touched the index makes it forget them. */
static enum status text_forget(struct sqlite_store *s, struct err *err)
{
    enum status status =
        sql_exec(s, "BEGIN IMMEDIATE; DELETE FROM letter_text WHERE rowid = 0; ROLLBACK", err);
    if (status != STATUS_OK && !sqlite3_get_autocommit(s->db))
        (void)sql_exec(s, "ROLLBACK", NULL);
    s->text_stale = status != STATUS_OK;
    return status;
}

/* load makes memory show the disk, or leaves it empty and the store unloaded. */
static enum status load(struct sqlite_store *s, struct err *err)
{
    live_clear(s->live);
    memset(s->hints, 0, sizeof(s->hints));
    enum status status = s->text_stale ? text_forget(s, err) : STATUS_OK;
    if (status == STATUS_OK)
        status = sqlite_name_load(s, err);
    if (status == STATUS_OK)
        status = load_jobs(s, err);
    if (status == STATUS_OK)
        status = load_numbers(s, err);
    if (status == STATUS_OK)
        status = sqlite_event_load(s, err);
    if (status != STATUS_OK)
        live_clear(s->live);
    s->unloaded = status != STATUS_OK;
    return status;
}

static enum status sqlite_reload(struct store *store, struct err *err)
{
    BUG_ON(sqlite_of(store)->in_transaction);
    return load(sqlite_of(store), err);
}

/* -- transactions ------------------------------------------------------------------------------ */

static enum status sqlite_begin(struct store *store, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    BUG_ON(s->in_transaction);
    enum status status = s->unloaded ? load(s, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *stmt = sql(s, SQL_BEGIN, "BEGIN IMMEDIATE", err);
    if (!stmt)
        return s->trouble;
    s->in_transaction = true;
    s->failed = false;
    status = sql_write(s, stmt, err);
    s->in_transaction = status == STATUS_OK;
    return status;
}

static enum status sqlite_commit(struct store *store, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    BUG_ON(!s->in_transaction);
    enum status status = sqlite_total_write(s, err);
    if (status == STATUS_OK)
        status = sqlite_event_note(s, err);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *stmt = sql(s, SQL_COMMIT, "COMMIT", err); /* this inserts the rows that wait */
    if (!stmt)
        return s->trouble;
    status = sql_write(s, stmt, err);
    if (status == STATUS_OK)
        s->in_transaction = false;
    return status;
}

static enum status sqlite_rollback(struct store *store, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    enum status status = STATUS_OK;
    sql_batches_clear(s);
    if (!s->in_transaction) /* begin failed: nothing was written */
        return s->unloaded ? load(s, err) : STATUS_OK;
    s->in_transaction = false;
    s->failed = false;
    if (!sqlite3_get_autocommit(s->db))
        status = sql_exec(s, "ROLLBACK", err);
    else
        s->text_stale = true;
    if (status == STATUS_OK)
        return load(s, err);
    live_clear(s->live);
    s->unloaded = true;
    return status;
}

enum status sqlite_meta_put(struct sqlite_store *s, const char *name, int64_t value,
                            struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_META_PUT, "INSERT OR REPLACE INTO meta(name, value) VALUES(?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, slice_of(name));
    sql_bind_int(stmt, 2, value);
    return sql_write(s, stmt, err);
}

/* -- what is answered from memory -------------------------------------------------------------- */

static size_t sqlite_ready(struct store *store, const struct ready_query *query, struct job *out,
                           size_t max)
{
    return live_ready(sqlite_of(store)->live, query, out, max);
}

static void sqlite_due(struct store *store, struct instant now)
{
    live_due(sqlite_of(store)->live, now);
}

static size_t sqlite_expired(struct store *store, struct instant now, struct job *out, size_t max)
{
    return live_expired(sqlite_of(store)->live, now, out, max);
}

static struct instant sqlite_next_timer(struct store *store)
{
    return live_next_timer(sqlite_of(store)->live);
}

static size_t sqlite_live_count(struct store *store)
{
    return live_count(sqlite_of(store)->live);
}

static void sqlite_requiring(struct store *store, struct slice capability, struct requiring *out)
{
    live_requiring(sqlite_of(store)->live, capability, out);
}

static size_t sqlite_hinted(struct store *store, const struct hinted_query *query, struct job *out,
                            size_t max)
{
    return live_hinted(sqlite_of(store)->live, query, out, max);
}

static size_t sqlite_hinted_count(struct store *store)
{
    return live_hinted_count(sqlite_of(store)->live);
}

static size_t sqlite_unassigned(struct store *store, struct instant now, struct job *out,
                                size_t max)
{
    return live_unassigned(sqlite_of(store)->live, now, out, max);
}

static void sqlite_assignment_restart(struct store *store, uint32_t queue, struct instant now)
{
    live_assignment_restart(sqlite_of(store)->live, queue, now);
}

static const struct slice *sqlite_capabilities_names(struct store *store, uint32_t number,
                                                     size_t *count)
{
    return live_capabilities_names(sqlite_of(store)->live, number, count);
}

/* -- opening and closing ----------------------------------------------------------------------- */

static void sqlite_close(struct store *store)
{
    struct sqlite_store *s = sqlite_of(store);
    if (!s)
        return;
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    live_free(s->live);
    mem_free(s->totals);
    mem_free(s->path);
    mem_free(s);
}

static const struct store functions = {
    .close = sqlite_close,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .reload = sqlite_reload,
    .refresh = sqlite_refresh,
    .news = sqlite_news,
    .listen = sqlite_listen,
    .duty_get = sqlite_duty_get,
    .duty_put = sqlite_duty_put,
    .inbox_list = sqlite_inbox_list,
    .inbox_done = sqlite_inbox_done,
    .job_by_seq = sqlite_job_by_seq,
    .job_by_id = sqlite_job_by_id,
    .job_by_key = sqlite_job_by_key,
    .ready = sqlite_ready,
    .due = sqlite_due,
    .expired = sqlite_expired,
    .next_timer = sqlite_next_timer,
    .live_count = sqlite_live_count,
    .hinted = sqlite_hinted,
    .hinted_count = sqlite_hinted_count,
    .unassigned = sqlite_unassigned,
    .assignment_restart = sqlite_assignment_restart,
    .requiring = sqlite_requiring,
    .job_insert = sqlite_job_insert,
    .job_update = sqlite_job_update,
    .job_worker = sqlite_job_worker,
    .job_finish = sqlite_job_finish,
    .job_bury = sqlite_job_bury,
    .job_revive = sqlite_job_revive,
    .seq_next = sqlite_seq_next,
    .shift = sqlite_shift,
    .envelope_get = sqlite_envelope_get,
    .envelope_job_id = sqlite_envelope_job_id,
    .envelope_add = sqlite_envelope_add,
    .envelope_list = sqlite_envelope_list,
    .document_get = sqlite_document_get,
    .document_put = sqlite_document_put,
    .attempt_add = sqlite_attempt_add,
    .attempt_list = sqlite_attempt_list,
    .job_find = sqlite_job_find,
    .job_find_seq = sqlite_job_find_seq,
    .job_list = sqlite_job_list,
    .finished_get = sqlite_finished_get,
    .forever_get = sqlite_forever_get,
    .forever_put = sqlite_forever_put,
    .letter_put = sqlite_letter_put,
    .letter_get = sqlite_letter_get,
    .letter_by_job = sqlite_letter_by_job,
    .letter_by_origin = sqlite_letter_by_origin,
    .letter_list = sqlite_letter_list,
    .letter_like = sqlite_letter_like,
    .letter_counts = sqlite_letter_counts,
    .letter_bounds = sqlite_letter_bounds,
    .letter_oldest = sqlite_letter_oldest,
    .letter_run = sqlite_letter_run,
    .letter_hours = sqlite_letter_hours,
    .group_list = sqlite_group_list,
    .group_get = sqlite_group_get,
    .group_set = sqlite_group_set,
    .letter_purge = sqlite_letter_purge,
    .finished_before = sqlite_finished_before,
    .finished_purge = sqlite_finished_purge,
    .tombstone_get = sqlite_tombstone_get,
    .tombstone_find = sqlite_tombstone_find,
    .event_append = sqlite_event_append,
    .event_list = sqlite_event_list,
    .event_of_job = sqlite_event_of_job,
    .event_head = sqlite_event_head,
    .queue_number = sqlite_queue_number,
    .queue_name = sqlite_queue_name,
    .queue_pause = sqlite_queue_pause,
    .queue_paused = sqlite_queue_paused,
    .queue_list = sqlite_queue_list,
    .capabilities_number = sqlite_capabilities_number,
    .capabilities_names = sqlite_capabilities_names,
    .policy_put = sqlite_policy_put,
    .policy_get = sqlite_policy_get,
    .policy_list = sqlite_policy_list,
};

enum status store_sqlite_open(const struct store_config *config, struct store **out,
                              struct err *err)
{
    struct sqlite_store *s = mem_zalloc(sizeof(*s));
    if (!s)
        return err_no_memory(err);
    s->store = functions;
    s->path = mem_strdup(config->path);
    s->live = live_new();
    sql_batches_init(s);
    enum status status = s->path && s->live ? STATUS_OK : err_no_memory(err);
    if (status == STATUS_OK)
        status = sqlite_file_open(s, config->seams->vfs, err);
    if (status == STATUS_OK)
        status = sqlite_schema_migrate(s, err);
    if (status == STATUS_OK)
        status = load(s, err);
    if (status != STATUS_OK) {
        sqlite_close(&s->store);
        return status;
    }
    sqlite_file_accept(s);
    *out = &s->store;
    return STATUS_OK;
}
