/* sqlite_duty: what one server does for all, and what only a shared store has.
 *
 * An embedded store has one writer.  A duty is then always this server's, but its cursor has to
 * outlive the process; nobody else changes anything, and no other program has a relation to write
 * into. */
#include "store/sqlite.h"

enum status sqlite_duty_get(struct store *store, struct slice name, struct arena *arena,
                            struct duty *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_DUTY_GET, "SELECT name, holder, until, cursor FROM duty WHERE name = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, name);
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status
                                   : err_set(err, STATUS_NOT_FOUND, "nobody ever had the duty %.*s",
                                             SLICE_ARG(name));
    struct duty duty = {.name = sql_dup(stmt, 0, arena),
                        .holder = sql_dup(stmt, 1, arena),
                        .until = {sqlite3_column_int64(stmt, 2)},
                        .cursor = sqlite3_column_int64(stmt, 3)};
    sqlite3_reset(stmt);
    if (!duty.name.ptr || !duty.holder.ptr)
        return err_no_memory(err);
    *out = duty;
    return STATUS_OK;
}

enum status sqlite_duty_put(struct store *store, const struct duty *duty, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt =
        sql(s, SQL_DUTY_PUT,
            "INSERT OR REPLACE INTO duty(name, holder, until, cursor) VALUES(?, ?, ?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, duty->name);
    sql_bind_name(stmt, 2, duty->holder);
    sql_bind_int(stmt, 3, duty->until.us);
    sql_bind_int(stmt, 4, duty->cursor);
    return sql_write(s, stmt, err);
}

enum status sqlite_refresh(struct store *store, struct err *err)
{
    (void)store, (void)err;
    return STATUS_OK;
}

unsigned sqlite_news(struct store *store)
{
    (void)store;
    return 0;
}

void sqlite_listen(struct store *store, void (*woken)(void *ctx), void *ctx)
{
    (void)store, (void)woken, (void)ctx;
}

enum status sqlite_inbox_list(struct store *store, size_t limit, struct arena *arena,
                              struct inbox_item **out, size_t *count, struct err *err)
{
    (void)store, (void)limit, (void)arena, (void)err;
    *out = NULL;
    *count = 0;
    return STATUS_OK;
}

enum status sqlite_inbox_done(struct store *store, const int64_t *seqs, size_t count,
                              struct err *err)
{
    (void)store, (void)seqs, (void)count, (void)err;
    return STATUS_OK;
}
