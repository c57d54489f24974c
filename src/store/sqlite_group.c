/* sqlite_group: letters with one fingerprint, as one thing. */
#include "store/sqlite.h"

#define GROUP_COLUMNS "fingerprint, signature, count, total, first_seen, last_seen, status"
#define SAMPLES (sizeof(((struct letter_group *)0)->sample_ids) / sizeof(struct slice))

static enum status group_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                              struct letter_group *out, struct err *err)
{
    *out = (struct letter_group){
        .fingerprint = sql_dup(stmt, 0, arena),
        .signature = sql_dup(stmt, 1, arena),
        .count = sqlite3_column_int64(stmt, 2),
        .total = sqlite3_column_int64(stmt, 3),
        .first_seen = {sqlite3_column_int64(stmt, 4)},
        .last_seen = {sqlite3_column_int64(stmt, 5)},
        .status = (enum group_status)sqlite3_column_int(stmt, 6),
    };
    if (out->status < GROUP_OPEN || out->status > GROUP_IGNORED)
        return sql_damage(s, err, "a group has status %d", (int)out->status);
    return out->fingerprint.ptr && out->signature.ptr ? STATUS_OK : err_no_memory(err);
}

/* struct sample: a letter that shows what its group is about. */
struct sample {
    int64_t position;
    struct slice dlq_id;
};

/* samples_of adds the newest letters of a group in one state. */
static enum status samples_of(struct sqlite_store *s, const struct letter_group *group,
                              enum letter_state state, struct arena *arena, struct sample *samples,
                              size_t *count, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_LETTER_SAMPLE,
                             "SELECT position, dlq_id FROM letter INDEXED BY letter_fingerprint"
                             " WHERE fingerprint = ? AND state = ? ORDER BY position DESC LIMIT ?",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, group->fingerprint);
    sql_bind_int(stmt, 2, state);
    sql_bind_int(stmt, 3, (int64_t)(SAMPLES - *count));
    while (sql_row(s, stmt, &status, err)) {
        struct sample sample = {sqlite3_column_int64(stmt, 0), sql_dup(stmt, 1, arena)};
        if (!sample.dlq_id.ptr)
            return sql_stop(stmt, err_no_memory(err));
        samples[(*count)++] = sample;
    }
    return status;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const struct sample *)a)->position, y = ((const struct sample *)b)->position;
    return (x < y) - (x > y);
}

/* samples_read finds a few letters: those that are dead before those that are not. */
static enum status samples_read(struct sqlite_store *s, struct letter_group *group,
                                struct arena *arena, struct err *err)
{
    struct sample samples[SAMPLES] = {{0}};
    enum status status = STATUS_OK;
    size_t count = 0;
    for (enum letter_state state = 0;
         state < LETTER_STATE_COUNT && count < SAMPLES && status == STATUS_OK; state++)
        status = samples_of(s, group, state, arena, samples, &count, err);
    if (status != STATUS_OK)
        return status;
    qsort(samples, count, sizeof(samples[0]), newest_first);
    for (size_t i = 0; i < count; i++)
        group->sample_ids[i] = samples[i].dlq_id;
    group->sample_count = count;
    return STATUS_OK;
}

/* trend_read fills the deaths of the hours that end with the hour of `now`. */
static enum status trend_read(struct sqlite_store *s, struct letter_group *group,
                              struct instant now, struct err *err)
{
    enum status status;
    int64_t first = sqlite_hour_of(now) - (GROUP_TREND_HOURS - 1) * HOUR_US;
    sqlite3_stmt *stmt = sql(s, SQL_GROUP_HOURS,
                             "SELECT hour, count FROM group_hour WHERE fingerprint = ?"
                             " AND hour BETWEEN ? AND ?",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, group->fingerprint);
    sql_bind_int(stmt, 2, first);
    sql_bind_int(stmt, 3, first + (GROUP_TREND_HOURS - 1) * HOUR_US);
    while (sql_row(s, stmt, &status, err))
        group->trend[(sqlite3_column_int64(stmt, 0) - first) / HOUR_US] =
            sqlite3_column_int64(stmt, 1);
    return status;
}

static enum status group_fill(struct sqlite_store *s, struct letter_group *group,
                              struct instant now, struct arena *arena, struct err *err)
{
    enum status status = samples_read(s, group, arena, err);
    return status == STATUS_OK ? trend_read(s, group, now, err) : status;
}

enum status sqlite_group_list(struct store *store, struct instant now, int64_t cursor, size_t limit,
                              struct arena *arena, struct letter_group **out, size_t *count,
                              struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_GROUP_LIST,
                             "SELECT " GROUP_COLUMNS " FROM letter_group WHERE last_seen < ?"
                             " ORDER BY last_seen DESC LIMIT ?",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, cursor ? cursor : INT64_MAX);
    sql_bind_int(stmt, 2, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    while (sql_row(s, stmt, &status, err)) {
        struct letter_group *group = rows_next(&rows, arena, sizeof(*group));
        status = group ? group_read(s, stmt, arena, group, err) : err_no_memory(err);
        if (status != STATUS_OK)
            return sql_stop(stmt, status);
    }
    struct letter_group *groups = rows.items;
    for (size_t i = 0; i < rows.count && status == STATUS_OK; i++)
        status = group_fill(s, &groups[i], now, arena, err);
    if (status != STATUS_OK)
        return status;
    *out = groups;
    *count = rows.count;
    return STATUS_OK;
}

static enum status no_group(struct slice fingerprint, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "no group %.*s", SLICE_ARG(fingerprint));
}

enum status sqlite_group_get(struct store *store, struct slice fingerprint, struct instant now,
                             struct arena *arena, struct letter_group *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct letter_group group;
    enum status status;
    sqlite3_stmt *stmt = sql(
        s, SQL_GROUP_GET, "SELECT " GROUP_COLUMNS " FROM letter_group WHERE fingerprint = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, fingerprint);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status : no_group(fingerprint, err);
    status = sql_stop(stmt, group_read(s, stmt, arena, &group, err));
    if (status == STATUS_OK)
        status = group_fill(s, &group, now, arena, err);
    if (status == STATUS_OK)
        *out = group;
    return status;
}

enum status sqlite_group_set(struct store *store, struct slice fingerprint,
                             enum group_status status, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt =
        sql(s, SQL_GROUP_SET, "UPDATE letter_group SET status = ? WHERE fingerprint = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, status);
    sql_bind_name(stmt, 2, fingerprint);
    enum status written = sql_write(s, stmt, err);
    if (written == STATUS_OK && sqlite3_changes(s->db) == 0)
        return no_group(fingerprint, err);
    return written;
}
