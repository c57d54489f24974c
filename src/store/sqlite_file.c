/* sqlite_file: the database file and how it is set up.
 *
 * The store has one owner, so the file is locked for good (locking_mode=EXCLUSIVE), and the index
 * of the log is in this process's memory: no shared memory is needed of the file system.  A commit
 * is one sync of the log (synchronous=FULL).  Debian's SQLite overwrites what is deleted and has no
 * lookaside memory unless it is told otherwise. */
#include "store/sqlite.h"

/* set_up sets what is a property of the connection and writes nothing. */
static enum status set_up(struct sqlite_store *s, struct err *err)
{
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1200, 100); /* as SQLite has it */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return sql_exec(s,
                    "PRAGMA locking_mode = EXCLUSIVE;"
                    "PRAGMA page_size = 8192;"
                    "PRAGMA cache_size = -65536;"
                    "PRAGMA temp_store = MEMORY;"
                    "PRAGMA mmap_size = 0;"
                    "PRAGMA secure_delete = OFF;"
                    "PRAGMA foreign_keys = OFF;"
                    "PRAGMA trusted_schema = OFF;"
                    "PRAGMA synchronous = FULL",
                    err);
}

/* mark puts our mark into a new file, in a transaction of its own. */
static enum status mark(struct sqlite_store *s, struct err *err)
{
    _Static_assert(SCHEMA_APPLICATION_ID == 1280987732, "the number below");
    return sql_exec(s, "PRAGMA application_id = 1280987732", err);
}

/* log_ahead switches to the write-ahead log. */
static enum status log_ahead(struct sqlite_store *s, struct err *err)
{
    enum status status;
    bool wal = false;
    sqlite3_stmt *stmt = sql_once(s, "PRAGMA journal_mode = WAL", err);
    if (!stmt)
        return s->trouble;
    if (sql_row(s, stmt, &status, err)) {
        wal = slice_is(sql_text(stmt, 0), "wal");
        status = STATUS_OK;
    }
    sqlite3_finalize(stmt);
    if (status == STATUS_OK && !wal)
        status = err_set(err, STATUS_IO, "%s: a write-ahead log cannot be kept beside this file",
                         s->path);
    if (status != STATUS_OK)
        return status;
    /* A page that changes often is moved into the file once for each time that the log is full, so
     * the log is let grow as long as it may stay anyway: 8,000 pages, each with its header, are
     * just below the limit. */
    return sql_exec(s, "PRAGMA wal_autocheckpoint = 8000; PRAGMA journal_size_limit = 67108864",
                    err);
}

enum status sqlite_file_open(struct sqlite_store *s, const char *vfs, struct err *err)
{
    bool is_new = false;
    int rc = sqlite3_open_v2(s->path, &s->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_EXRESCODE,
                             vfs);
    if (rc != SQLITE_OK)
        return sql_error(s, rc, err);
    /* Until the store is accepted, closing must not move the log into the file. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    enum status status = sqlite_owner_look(s, err);
    if (status == STATUS_OK && sqlite3_db_readonly(s->db, "main"))
        status = sqlite_error(NULL, s->path, SQLITE_READONLY, err);
    if (status == STATUS_OK)
        status = set_up(s, err);
    if (status == STATUS_OK)
        status = sqlite_owner_confirm(s, &is_new, err);
    if (status == STATUS_OK && is_new)
        status = mark(s, err);
    return status == STATUS_OK ? log_ahead(s, err) : status;
}

void sqlite_file_accept(struct sqlite_store *s)
{
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
}
