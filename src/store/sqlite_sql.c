/* sqlite_sql: statements.
 *
 * A statement is prepared once and kept.  Texts are bound without a copy: whoever calls keeps them
 * until the statement has run, which is before the store's function returns.  A statement is reset
 * as soon as it has run, so that no read transaction stays open. */
#include "store/sqlite.h"

static sqlite3_stmt *prepare(struct sqlite_store *s, const char *text, unsigned flags,
                             struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v3(s->db, text, -1, flags, &stmt, NULL);
    if (rc != SQLITE_OK)
        s->trouble = sql_error(s, rc, err);
    return stmt;
}

sqlite3_stmt *sql(struct sqlite_store *s, enum sql which, const char *text, struct err *err)
{
    if (s->unloaded) {
        s->trouble = err_set(err, STATUS_UNAVAILABLE,
                             "%s: the store could not be read after an error: try again", s->path);
        return NULL;
    }
    if (s->waiting && (s->trouble = sql_batches_flush(s, which, err)) != STATUS_OK)
        return NULL;
    if (!s->statements[which])
        s->statements[which] = prepare(s, text, SQLITE_PREPARE_PERSISTENT, err);
    return s->statements[which];
}

sqlite3_stmt *sql_once(struct sqlite_store *s, const char *text, struct err *err)
{
    if (s->waiting && (s->trouble = sql_batches_flush(s, SQL_COUNT, err)) != STATUS_OK)
        return NULL;
    return prepare(s, text, 0, err);
}

enum status sql_exec(struct sqlite_store *s, const char *text, struct err *err)
{
    int rc = sqlite3_exec(s->db, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? STATUS_OK : sql_error(s, rc, err);
}

/* -- binding ----------------------------------------------------------------------------------- */

/* Binding without a copy allocates nothing, and everything that reaches the store is bounded far
 * below SQLite's limit of a billion bytes: a failure here is a bug. */

void sql_bind_int(sqlite3_stmt *stmt, int at, int64_t value)
{
    BUG_ON(sqlite3_bind_int64(stmt, at, value) != SQLITE_OK);
}

void sql_bind_name(sqlite3_stmt *stmt, int at, struct slice text)
{
    BUG_ON(sqlite3_bind_text64(stmt, at, text.len ? text.ptr : "", text.len, SQLITE_STATIC,
                               SQLITE_UTF8) != SQLITE_OK);
}

void sql_bind_text(sqlite3_stmt *stmt, int at, struct slice text)
{
    if (text.len)
        sql_bind_name(stmt, at, text);
    else
        BUG_ON(sqlite3_bind_null(stmt, at) != SQLITE_OK);
}

void sql_bind_body(sqlite3_stmt *stmt, int at, struct slice bytes)
{
    BUG_ON(sqlite3_bind_blob64(stmt, at, bytes.len ? bytes.ptr : "", bytes.len, SQLITE_STATIC) !=
           SQLITE_OK);
}

/* -- running ----------------------------------------------------------------------------------- */

enum status sql_fail_write(struct sqlite_store *s, struct err *err)
{
    s->failed = true;
    return err_no_memory(err);
}

enum status sql_writable(struct sqlite_store *s, struct err *err)
{
    BUG_ON(!s->in_transaction);
    /* SQLite may have undone the whole transaction when a write failed: what came after it would
     * stand by itself. */
    if (s->failed)
        return err_set(err, STATUS_IO,
                       "%s: an earlier write of this transaction failed: roll it back", s->path);
    return STATUS_OK;
}

enum status sql_write(struct sqlite_store *s, sqlite3_stmt *stmt, struct err *err)
{
    enum status status = sql_writable(s, err);
    if (status != STATUS_OK)
        return status;
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW)
        rc = sqlite3_reset(stmt);
    if (rc == SQLITE_OK)
        return STATUS_OK;
    s->failed = true;
    status = sql_error(s, rc, err);
    sqlite3_reset(stmt);
    return status;
}

bool sql_row(struct sqlite_store *s, sqlite3_stmt *stmt, enum status *status, struct err *err)
{
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return true;
    *status = rc == SQLITE_DONE ? STATUS_OK : sql_error(s, rc, err);
    sqlite3_reset(stmt);
    return false;
}

enum status sql_stop(sqlite3_stmt *stmt, enum status status)
{
    sqlite3_reset(stmt);
    return status;
}

enum status sql_number(struct sqlite_store *s, const char *text, int64_t *out, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql_once(s, text, err);
    if (!stmt)
        return s->trouble;
    if (sql_row(s, stmt, &status, err)) {
        *out = sqlite3_column_int64(stmt, 0);
        status = STATUS_OK;
    }
    sqlite3_finalize(stmt);
    return status;
}

/* -- reading ----------------------------------------------------------------------------------- */

struct slice sql_text(sqlite3_stmt *stmt, int column)
{
    const char *bytes = sqlite3_column_blob(stmt, column); /* a text is its bytes */
    return (struct slice){bytes, (size_t)sqlite3_column_bytes(stmt, column)};
}

struct slice sql_dup(sqlite3_stmt *stmt, int column, struct arena *arena)
{
    return arena_dup(arena, sql_text(stmt, column));
}

void *rows_next(struct rows *rows, struct arena *arena, size_t size)
{
    if (rows->count == rows->cap) {
        size_t cap = rows->cap ? rows->cap * 2 : 16;
        void *items = arena_array(arena, cap, size);
        if (!items)
            return NULL;
        if (rows->count)
            memcpy(items, rows->items, rows->count * size);
        rows->items = items;
        rows->cap = cap;
    }
    return (char *)rows->items + rows->count++ * size;
}
