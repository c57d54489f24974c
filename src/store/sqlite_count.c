/* sqlite_count: what is counted about letters, so that summaries never scan.
 *
 * Three things are kept whenever a letter is written: how many letters share state, recoverability,
 * reason, source and queue; the group of each fingerprint; and deaths by hour, in all and for each
 * group.  A letter that changes is taken out of the count of what it was and put into that of what
 * it is. */
#include "store/sqlite.h"

int64_t sqlite_hour_of(struct instant t)
{
    int64_t past = t.us % HOUR_US;
    return instant_add(t, (struct span){past < 0 ? -past - HOUR_US : -past}).us;
}

/* is_open says whether a letter in this state still wants something to be done. */
static bool is_open(enum letter_state state)
{
    return state == LETTER_DEAD || state == LETTER_RECOVERING;
}

static bool counted_alike(const struct letter_facts *a, const struct letter_facts *b)
{
    return a->state == b->state && a->recoverable == b->recoverable &&
           slice_eq(a->reason, b->reason) && slice_eq(a->source, b->source) &&
           slice_eq(a->queue, b->queue);
}

static void facts_bind(sqlite3_stmt *stmt, const struct letter_facts *facts)
{
    sql_bind_int(stmt, 1, facts->state);
    sql_bind_int(stmt, 2, facts->recoverable);
    sql_bind_name(stmt, 3, facts->reason);
    sql_bind_name(stmt, 4, facts->source);
    sql_bind_name(stmt, 5, facts->queue);
}

static enum status count_add(struct sqlite_store *s, const struct letter_facts *facts, int64_t by,
                             struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_COUNT_ADD,
            "INSERT INTO letter_count(state, recoverable, reason, source, queue, count)"
            " VALUES(?, ?, ?, ?, ?, ?6) ON CONFLICT DO UPDATE SET count = count + ?6",
            err);
    if (!stmt)
        return s->trouble;
    facts_bind(stmt, facts);
    sql_bind_int(stmt, 6, by);
    enum status status = sql_write(s, stmt, err);
    if (status != STATUS_OK || by > 0)
        return status;
    stmt = sql(s, SQL_COUNT_TRIM,
               "DELETE FROM letter_count WHERE state = ? AND recoverable = ? AND reason = ?"
               " AND source = ? AND queue = ? AND count = 0",
               err);
    if (!stmt)
        return s->trouble;
    facts_bind(stmt, facts);
    return sql_write(s, stmt, err);
}

/* group_add changes a group by one letter: `by` of its count, and a death when `died`.  A death
 * opens a group that was resolved; one that is ignored stays so. */
static enum status group_add(struct sqlite_store *s, const struct letter_facts *facts, int64_t by,
                             bool died, struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_GROUP_ADD,
            "INSERT INTO letter_group(fingerprint, signature, count, total, first_seen, last_seen,"
            " status) VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0) ON CONFLICT DO UPDATE SET"
            " count = count + ?3, total = total + ?4, first_seen = min(first_seen, ?5),"
            " last_seen = max(last_seen, ?6),"
            " status = CASE WHEN ?4 > 0 AND status = 1 THEN 0 ELSE status END",
            err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, facts->fingerprint);
    sql_bind_text(stmt, 2, facts->signature);
    sql_bind_int(stmt, 3, by);
    sql_bind_int(stmt, 4, died);
    sql_bind_int(stmt, 5, facts->failed_at.us);
    sql_bind_int(stmt, 6, facts->position);
    return sql_write(s, stmt, err);
}
_Static_assert(GROUP_OPEN == 0 && GROUP_RESOLVED == 1, "the numbers in group_add");

static enum status groups_change(struct sqlite_store *s, const struct letter_facts *before,
                                 const struct letter_facts *now, bool died, struct err *err)
{
    bool was_open = before && is_open(before->state), opens = now && is_open(now->state);
    enum status status = STATUS_OK;
    if (before && now && slice_eq(before->fingerprint, now->fingerprint)) {
        if (now->fingerprint.len == 0 || (was_open == opens && !died))
            return STATUS_OK;
        return group_add(s, now, opens - was_open, died, err);
    }
    if (was_open && before->fingerprint.len)
        status = group_add(s, before, -1, false, err);
    if (status == STATUS_OK && now && now->fingerprint.len)
        status = group_add(s, now, opens, died, err);
    return status;
}

static enum status hours_add(struct sqlite_store *s, const struct letter_facts *facts,
                             struct err *err)
{
    sqlite3_stmt *stmt = sql(s, SQL_HOUR_ADD,
                             "INSERT INTO death_hour(hour, count) VALUES(?, 1)"
                             " ON CONFLICT DO UPDATE SET count = count + 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, sqlite_hour_of(facts->failed_at));
    enum status status = sql_write(s, stmt, err);
    if (status != STATUS_OK || facts->fingerprint.len == 0)
        return status;
    stmt = sql(s, SQL_GROUP_HOUR_ADD,
               "INSERT INTO group_hour(fingerprint, hour, count) VALUES(?, ?, 1)"
               " ON CONFLICT DO UPDATE SET count = count + 1",
               err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, facts->fingerprint);
    sql_bind_int(stmt, 2, sqlite_hour_of(facts->failed_at));
    return sql_write(s, stmt, err);
}

enum status sqlite_count_change(struct sqlite_store *s, const struct letter_facts *before,
                                const struct letter_facts *now, bool died, struct err *err)
{
    bool alike = before && now && counted_alike(before, now);
    enum status status = STATUS_OK;
    if (before && !alike)
        status = count_add(s, before, -1, err);
    if (status == STATUS_OK && now && !alike)
        status = count_add(s, now, 1, err);
    if (status == STATUS_OK)
        status = groups_change(s, before, now, died, err);
    if (status == STATUS_OK && now && died)
        status = hours_add(s, now, err);
    return status;
}

/* -- reading ----------------------------------------------------------------------------------- */

enum status sqlite_letter_counts(struct store *store, struct arena *arena,
                                 struct letter_count **out, size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_COUNT_LIST,
            "SELECT state, recoverable, reason, source, queue, count FROM letter_count", err);
    if (!stmt)
        return s->trouble;
    while (sql_row(s, stmt, &status, err)) {
        struct letter_count *row = rows_next(&rows, arena, sizeof(*row));
        if (row)
            *row = (struct letter_count){
                .state = (enum letter_state)sqlite3_column_int(stmt, 0),
                .recoverable = sqlite3_column_int(stmt, 1) != 0,
                .reason = sql_dup(stmt, 2, arena),
                .source = sql_dup(stmt, 3, arena),
                .queue = sql_dup(stmt, 4, arena),
                .count = sqlite3_column_int64(stmt, 5),
            };
        if (!row || !row->reason.ptr || !row->source.ptr || !row->queue.ptr)
            return sql_stop(stmt, err_no_memory(err));
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}

/* bound_of reads failed_at of the first row of a statement for each open state, and keeps the one
 * at the far end. */
static enum status bound_of(struct sqlite_store *s, sqlite3_stmt *stmt, bool newest,
                            struct instant *out, struct err *err)
{
    for (enum letter_state state = LETTER_DEAD; state <= LETTER_RECOVERING; state++) {
        enum status status;
        sql_bind_int(stmt, 1, state);
        if (!sql_row(s, stmt, &status, err)) {
            if (status != STATUS_OK)
                return status;
            continue;
        }
        struct instant t = {sqlite3_column_int64(stmt, 0)};
        sqlite3_reset(stmt);
        if (!instant_is_set(*out) || (newest ? instant_before(*out, t) : instant_before(t, *out)))
            *out = t;
    }
    return STATUS_OK;
}

enum status sqlite_letter_bounds(struct store *store, struct instant *oldest,
                                 struct instant *newest, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct instant first = INSTANT_NONE, last = INSTANT_NONE;
    sqlite3_stmt *stmt = sql(s, SQL_BOUND_OLDEST,
                             "SELECT failed_at FROM letter INDEXED BY letter_state WHERE state = ?"
                             " ORDER BY position LIMIT 1",
                             err);
    enum status status = stmt ? bound_of(s, stmt, false, &first, err) : s->trouble;
    if (status != STATUS_OK)
        return status;
    stmt = sql(s, SQL_BOUND_NEWEST,
               "SELECT failed_at FROM letter INDEXED BY letter_state WHERE state = ?"
               " ORDER BY position DESC LIMIT 1",
               err);
    status = stmt ? bound_of(s, stmt, true, &last, err) : s->trouble;
    if (status == STATUS_OK) {
        *oldest = first;
        *newest = last;
    }
    return status;
}

enum status sqlite_letter_oldest(struct store *store, struct slice queue, struct instant *oldest,
                                 struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct instant first = INSTANT_NONE;
    sqlite3_stmt *stmt = sql(s, SQL_BOUND_QUEUE,
                             "SELECT failed_at FROM letter INDEXED BY letter_queue WHERE state = ?"
                             " AND queue = ? ORDER BY position LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_text(stmt, 2, queue);
    enum status status = bound_of(s, stmt, false, &first, err);
    if (status == STATUS_OK)
        *oldest = first;
    return status;
}

enum status sqlite_letter_run(struct store *store, struct slice run_id, int64_t *dead,
                              int64_t *recovering, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int64_t counts[LETTER_RECOVERING + 1] = {0};
    enum status status = STATUS_OK;
    sqlite3_stmt *stmt = sql(s, SQL_LETTER_RUN,
                             "SELECT count(*) FROM letter INDEXED BY letter_run_id"
                             " WHERE run_id = ? AND state = ?",
                             err);
    if (!stmt)
        return s->trouble;
    for (int state = LETTER_DEAD; state <= LETTER_RECOVERING && status == STATUS_OK; state++) {
        sql_bind_name(stmt, 1, run_id);
        sql_bind_int(stmt, 2, state);
        if (sql_row(s, stmt, &status, err))
            counts[state] = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    if (status == STATUS_OK) {
        *dead = counts[LETTER_DEAD];
        *recovering = counts[LETTER_RECOVERING];
    }
    return status;
}

enum status sqlite_letter_hours(struct store *store, struct instant from, struct arena *arena,
                                struct hour_count **out, size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt = sql(
        s, SQL_HOUR_LIST, "SELECT hour, count FROM death_hour WHERE hour >= ? ORDER BY hour", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, sqlite_hour_of(from));
    while (sql_row(s, stmt, &status, err)) {
        struct hour_count *row = rows_next(&rows, arena, sizeof(*row));
        if (!row)
            return sql_stop(stmt, err_no_memory(err));
        *row = (struct hour_count){{sqlite3_column_int64(stmt, 0)}, sqlite3_column_int64(stmt, 1)};
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}
