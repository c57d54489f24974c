/* sqlite_error: what SQLite's result codes mean to a person.
 *
 * Each sentence names the file and says what to do.  Where SQLite only says that the disk failed,
 * the operating system's own word for it (the errno it kept) tells a full or read-only disk apart.
 */
#include <errno.h>

#include "store/sqlite.h"

static enum status status_of(sqlite3 *db, int rc)
{
    int system = db ? sqlite3_system_errno(db) : 0;

    switch (rc & 0xff) {
    case SQLITE_FULL:
        return STATUS_FULL;
    case SQLITE_IOERR:
        if (rc == SQLITE_IOERR_NOMEM)
            return STATUS_NO_MEMORY;
        if (system == ENOSPC || system == EDQUOT)
            return STATUS_FULL;
        return system == EROFS ? STATUS_READ_ONLY : STATUS_IO;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return STATUS_READ_ONLY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return STATUS_CORRUPT;
    case SQLITE_NOMEM:
        return STATUS_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return STATUS_BUSY;
    case SQLITE_TOOBIG:
        return STATUS_TOO_LARGE;
    case SQLITE_CONSTRAINT:
        return STATUS_CONFLICT;
    default:
        return STATUS_IO;
    }
}

enum status sqlite_error(sqlite3 *db, const char *path, int rc, struct err *err)
{
    enum status status = status_of(db, rc);
    const char *why = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);

    switch (status) {
    case STATUS_FULL:
        return err_set(err, status,
                       "%s: the disk is full: free some space and try again; nothing was changed",
                       path);
    case STATUS_READ_ONLY:
        return err_set(err, status,
                       "%s: the store cannot be opened for writing (%s): check that the directory "
                       "exists and that you may write to it and to the file",
                       path, why);
    case STATUS_CORRUPT:
        return err_set(err, status, SQL_DAMAGED("%s"), path, why);
    case STATUS_NO_MEMORY:
        return err_no_memory(err);
    case STATUS_BUSY:
        return err_set(err, status,
                       "%s: another process has the store open: stop it, or talk to it instead",
                       path);
    case STATUS_TOO_LARGE:
        return err_set(err, status, "%s: a value is too large for the store", path);
    case STATUS_CONFLICT:
        return err_set(err, status, "%s: it is in the store already (%s)", path, why);
    default:
        return err_set(err, STATUS_IO,
                       "%s: the disk failed (%s; %s): check it and try again; nothing was changed",
                       path, why, sqlite3_errstr(rc));
    }
}

enum status sql_error(struct sqlite_store *s, int rc, struct err *err)
{
    return sqlite_error(s->db, s->path, rc, err);
}
