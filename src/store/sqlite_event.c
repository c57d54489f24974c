/* sqlite_event: the evidence: appended, never changed.
 *
 * The last event's seq and hash are kept in memory, so that appending reads nothing. */
#include "store/sqlite.h"

static bool hash_read(sqlite3_stmt *stmt, int column, struct hash *out)
{
    struct slice bytes = sql_text(stmt, column);
    if (bytes.len != HASH_SIZE)
        return false;
    memcpy(out->bytes, bytes.ptr, HASH_SIZE);
    return true;
}

static enum status event_damaged(struct sqlite_store *s, int64_t seq, struct err *err)
{
    return sql_damage(s, err, "event %lld says what cannot be", (long long)seq);
}

/* load_last reads the seq and hash of the last event that is there. */
static enum status load_last(struct sqlite_store *s, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql_once(s, "SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1", err);
    if (!stmt)
        return s->trouble;
    if (sql_row(s, stmt, &status, err)) {
        s->event_seq = sqlite3_column_int64(stmt, 0);
        status = s->event_seq > 0 && hash_read(stmt, 1, &s->event_hash)
                     ? STATUS_OK
                     : event_damaged(s, s->event_seq, err);
    }
    sqlite3_finalize(stmt);
    return status;
}

/* The last seq is also noted apart from the events: when the end of the chain is missing, its
 * numbers are not given again, and whoever verifies finds the gap. */
enum status sqlite_event_load(struct sqlite_store *s, struct err *err)
{
    s->event_seq = 0;
    s->event_noted = 0;
    s->event_hash = (struct hash){{0}};
    enum status status = load_last(s, err);
    if (status == STATUS_OK)
        status =
            sql_number(s, "SELECT value FROM meta WHERE name = 'events'", &s->event_noted, err);
    if (status == STATUS_OK && s->event_noted > s->event_seq)
        s->event_seq = s->event_noted;
    return status;
}

enum status sqlite_event_note(struct sqlite_store *s, struct err *err)
{
    if (s->event_noted == s->event_seq)
        return STATUS_OK;
    enum status status = sqlite_meta_put(s, "events", s->event_seq, err);
    if (status == STATUS_OK)
        s->event_noted = s->event_seq;
    return status;
}

enum status sqlite_event_append(struct store *store, struct event *event, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct sql_batch *batch = &s->batches[BATCH_EVENT];
    struct event made = *event;
    made.seq = s->event_seq + 1;
    made.hash = event_hash(&made, s->event_hash);
    size_t bytes = made.actor.len + made.what.len + made.why.len + HASH_SIZE;
    enum status status = sql_batch_begin(s, batch, bytes, err);
    if (status != STATUS_OK)
        return status;
    sql_batch_int(batch, made.seq);
    sql_batch_int(batch, made.at.us);
    sql_batch_bytes(batch, BATCH_NAME, made.actor);
    sql_batch_int(batch, made.job_seq);
    sql_batch_int(batch, made.previous_seq);
    sql_batch_bytes(batch, BATCH_NAME, made.what);
    sql_batch_bytes(batch, BATCH_NAME, made.why);
    sql_batch_bytes(batch, BATCH_BODY, (struct slice){(const char *)made.hash.bytes, HASH_SIZE});
    status = sql_batch_end(s, batch, err);
    if (status == STATUS_OK) {
        s->event_seq = made.seq;
        s->event_hash = made.hash;
        *event = made;
    }
    return status;
}

static enum status event_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                              struct event *out, struct err *err)
{
    *out = (struct event){.seq = sqlite3_column_int64(stmt, 0),
                          .at = {sqlite3_column_int64(stmt, 1)},
                          .actor = sql_dup(stmt, 2, arena),
                          .job_seq = sqlite3_column_int64(stmt, 3),
                          .previous_seq = sqlite3_column_int64(stmt, 4),
                          .what = sql_dup(stmt, 5, arena),
                          .why = sql_dup(stmt, 6, arena)};
    if (!out->actor.ptr || !out->what.ptr || !out->why.ptr)
        return err_no_memory(err);
    return hash_read(stmt, 7, &out->hash) ? STATUS_OK : event_damaged(s, out->seq, err);
}

enum status sqlite_event_list(struct store *store, int64_t after, size_t limit, struct arena *arena,
                              struct event **out, size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_EVENT_LIST,
            "SELECT " EVENT_COLUMNS " FROM event WHERE seq > ? ORDER BY seq LIMIT ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, after);
    sql_bind_int(stmt, 2, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    while (sql_row(s, stmt, &status, err)) {
        struct event *event = rows_next(&rows, arena, sizeof(*event));
        status = event ? event_read(s, stmt, arena, event, err) : err_no_memory(err);
        if (status != STATUS_OK)
            return sql_stop(stmt, status);
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}

/* step_back finds the job's event before `seq`; 0: none.  The list must lead back: a damaged one
 * could go round for ever. */
static enum status step_back(struct sqlite_store *s, int64_t seq, int64_t *previous,
                             struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_EVENT_PREVIOUS, "SELECT previous FROM event WHERE seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status : event_damaged(s, seq, err);
    *previous = sqlite3_column_int64(stmt, 0);
    return sql_stop(stmt, *previous < seq ? STATUS_OK : event_damaged(s, seq, err));
}

static enum status event_get(struct sqlite_store *s, int64_t seq, struct arena *arena,
                             struct event *out, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_EVENT_GET, "SELECT " EVENT_COLUMNS " FROM event WHERE seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, seq);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status : event_damaged(s, seq, err);
    return sql_stop(stmt, event_read(s, stmt, arena, out, err));
}

enum status sqlite_event_of_job(struct store *store, int64_t last, int64_t after, size_t limit,
                                struct arena *arena, struct event **out, size_t *count,
                                struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows seqs = {0}; /* the job's events, the last first */
    enum status status = STATUS_OK;
    for (int64_t seq = last; seq > after && seq > 0;) {
        int64_t *at = rows_next(&seqs, arena, sizeof(*at));
        if (!at)
            return err_no_memory(err);
        *at = seq;
        if ((status = step_back(s, seq, &seq, err)) != STATUS_OK)
            return status;
    }
    size_t found = seqs.count < limit ? seqs.count : limit;
    struct event *events = arena_array(arena, found + 1, sizeof(*events));
    if (!events)
        return err_no_memory(err);
    for (size_t i = 0; i < found && status == STATUS_OK; i++)
        status = event_get(s, ((int64_t *)seqs.items)[seqs.count - 1 - i], arena, &events[i], err);
    if (status == STATUS_OK) {
        *out = events;
        *count = found;
    }
    return status;
}

void sqlite_event_head(struct store *store, int64_t *seq, struct hash *hash)
{
    *seq = sqlite_of(store)->event_seq;
    *hash = sqlite_of(store)->event_hash;
}
