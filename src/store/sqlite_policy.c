/* sqlite_policy: named policies, every version of each. */
#include "store/sqlite.h"

#define POLICY_COLUMNS "name, version, body, at"

static enum status policy_read(sqlite3_stmt *stmt, struct arena *arena, struct stored_policy *out,
                               struct err *err)
{
    *out = (struct stored_policy){.name = sql_dup(stmt, 0, arena),
                                  .version = sqlite3_column_int64(stmt, 1),
                                  .body = sql_dup(stmt, 2, arena),
                                  .at = {sqlite3_column_int64(stmt, 3)}};
    return out->name.ptr && out->body.ptr ? STATUS_OK : err_no_memory(err);
}

/* last_version is the highest version of a policy; 0: none. */
static enum status last_version(struct sqlite_store *s, struct slice name, int64_t *out,
                                struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_POLICY_LAST,
                             "SELECT version FROM policy WHERE name = ?"
                             " ORDER BY version DESC LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, name);
    *out = 0;
    if (!sql_row(s, stmt, &status, err))
        return status;
    *out = sqlite3_column_int64(stmt, 0);
    return sql_stop(stmt, STATUS_OK);
}

enum status sqlite_policy_put(struct store *store, struct slice name, struct slice body,
                              struct instant now, int64_t *version, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int64_t last = 0;
    enum status status = last_version(s, name, &last, err);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *stmt =
        sql(s, SQL_POLICY_INSERT, "INSERT INTO policy(" POLICY_COLUMNS ") VALUES(?, ?, ?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, name);
    sql_bind_int(stmt, 2, last + 1);
    sql_bind_body(stmt, 3, body);
    sql_bind_int(stmt, 4, now.us);
    status = sql_write(s, stmt, err);
    if (status == STATUS_OK)
        *version = last + 1;
    return status;
}

enum status sqlite_policy_get(struct store *store, struct slice name, int64_t version,
                              struct arena *arena, struct stored_policy *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct stored_policy found;
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_POLICY_GET,
                             "SELECT " POLICY_COLUMNS " FROM policy WHERE name = ?1"
                             " AND (?2 = 0 OR version = ?2) ORDER BY version DESC LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, name);
    sql_bind_int(stmt, 2, version);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK
                   ? status
                   : err_set(err, STATUS_NOT_FOUND, "no policy %.*s", SLICE_ARG(name));
    status = sql_stop(stmt, policy_read(stmt, arena, &found, err));
    if (status == STATUS_OK)
        *out = found;
    return status;
}

enum status sqlite_policy_list(struct store *store, struct arena *arena, struct stored_policy **out,
                               size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_POLICY_LIST,
                             "SELECT " POLICY_COLUMNS " FROM policy AS p WHERE version ="
                             " (SELECT max(version) FROM policy WHERE name = p.name) ORDER BY name",
                             err);
    if (!stmt)
        return s->trouble;
    while (sql_row(s, stmt, &status, err)) {
        struct stored_policy *policy = rows_next(&rows, arena, sizeof(*policy));
        status = policy ? policy_read(stmt, arena, policy, err) : err_no_memory(err);
        if (status != STATUS_OK)
            return sql_stop(stmt, status);
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}
