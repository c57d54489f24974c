/* sqlite_file: the database file: whose it is, and how it is set up.
 *
 * A file that is not ours must be left as it is, and SQLite changes a file by merely reading it
 * when a journal lies beside it.  So the first hundred bytes are looked at before SQLite is asked
 * anything:
 *
 *     empty                          a new store
 *     "SQLite format 3", our mark    ours; refused when a later version wrote it
 *     zeros, a journal beside it     ours or nobody's: the making of a database was cut short, and
 *                                    recovery takes it back to empty
 *     anything else                  somebody else's
 *
 * The mark (application_id) is the first thing that is written to a new file, in a transaction of
 * its own and before the write-ahead log exists; so the file itself always shows it.
 *
 * The store has one owner, so the file is locked for good (locking_mode=EXCLUSIVE), and the index
 * of the log is in this process's memory: no shared memory is needed of the file system. */
#include "store/sqlite.h"

#define HEADER_SIZE 100
#define HEADER_VERSION 60     /* offset of user_version */
#define HEADER_APPLICATION 68 /* offset of application_id */

enum owner { OWNER_NEW, OWNER_OURS, OWNER_OURS_LATER, OWNER_OURS_DAMAGED, OWNER_FOREIGN };

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool all_zero(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* journal_beside says whether a rollback journal lies beside the database. */
static bool journal_beside(sqlite3 *db)
{
    sqlite3_vfs *vfs = NULL;
    int exists = 0;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
    const char *journal = sqlite3_filename_journal(sqlite3_db_filename(db, "main"));
    return vfs && journal &&
           vfs->xAccess(vfs, journal, SQLITE_ACCESS_EXISTS, &exists) == SQLITE_OK && exists;
}

static enum owner owner_of(const unsigned char *header, bool journal)
{
    bool format = memcmp(header, "SQLite format 3", 16) == 0;
    bool mark = big_endian(header + HEADER_APPLICATION) == SCHEMA_APPLICATION_ID;
    if (!format && mark)
        return OWNER_OURS_DAMAGED;
    if (!mark)
        return journal && all_zero(header, HEADER_SIZE) ? OWNER_NEW : OWNER_FOREIGN;
    return big_endian(header + HEADER_VERSION) > SCHEMA_VERSION ? OWNER_OURS_LATER : OWNER_OURS;
}

/* look reads the first bytes of the file through the VFS, past SQLite's own machinery. */
static enum status look(struct sqlite_store *s, enum owner *out, struct err *err)
{
    unsigned char header[HEADER_SIZE] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods)
        return err_set(err, STATUS_INVALID, "%s: the store needs a file", s->path);
    int rc = file->pMethods->xFileSize(file, &size);
    if (rc == SQLITE_OK && size > 0)
        rc = file->pMethods->xRead(file, header, HEADER_SIZE, 0); /* zeros past the end */
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        return sql_error(s, rc, err);
    *out = size == 0 ? OWNER_NEW : owner_of(header, journal_beside(s->db));
    return STATUS_OK;
}

static enum status refuse(struct sqlite_store *s, enum owner owner, struct err *err)
{
    switch (owner) {
    case OWNER_OURS_LATER:
        return err_set(err, STATUS_FOREIGN,
                       "%s: the store was made by a later version of Lazaret: use that version; "
                       "the file is left as it is",
                       s->path);
    case OWNER_OURS_DAMAGED:
        return sql_damage(s, err, "its first page has lost its beginning");
    case OWNER_FOREIGN:
        return err_set(err, STATUS_FOREIGN,
                       "%s: not a Lazaret store: name another file; this one is left as it is",
                       s->path);
    default:
        return STATUS_OK;
    }
}

/* set_up sets what is a property of the connection and writes nothing. */
static enum status set_up(struct sqlite_store *s, struct err *err)
{
    /* Debian's SQLite is built without lookaside; a failure to get it costs only speed. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 256, 512);
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

/* own makes sure that the database carries our mark; a new one gets it. */
static enum status own(struct sqlite_store *s, struct err *err)
{
    int64_t pages = 0, mark = 0, version = 0;
    enum status status = sql_number(s, "PRAGMA page_count", &pages, err);
    if (status == STATUS_OK)
        status = sql_number(s, "PRAGMA application_id", &mark, err);
    if (status == STATUS_OK)
        status = sql_number(s, "PRAGMA user_version", &version, err);
    if (status != STATUS_OK)
        return status;
    if (pages == 0)
        return sql_exec(s, "PRAGMA application_id = 1280987732", err);
    if (mark != SCHEMA_APPLICATION_ID)
        return refuse(s, OWNER_FOREIGN, err);
    return version > SCHEMA_VERSION ? refuse(s, OWNER_OURS_LATER, err) : STATUS_OK;
}
_Static_assert(SCHEMA_APPLICATION_ID == 1280987732, "the mark that own() writes");

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
    return sql_exec(s, "PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864",
                    err);
}

enum status sqlite_file_open(struct sqlite_store *s, const char *vfs, struct err *err)
{
    enum owner owner = OWNER_FOREIGN;
    int rc = sqlite3_open_v2(s->path, &s->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_EXRESCODE,
                             vfs);
    if (rc != SQLITE_OK)
        return sql_error(s, rc, err);
    /* Until the store is accepted, closing must not move the log into the file. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    enum status status = look(s, &owner, err);
    if (status == STATUS_OK)
        status = refuse(s, owner, err);
    if (status == STATUS_OK && sqlite3_db_readonly(s->db, "main"))
        status = sqlite_error(NULL, s->path, SQLITE_READONLY, err);
    if (status == STATUS_OK)
        status = set_up(s, err);
    if (status == STATUS_OK)
        status = own(s, err);
    if (status == STATUS_OK)
        status = log_ahead(s, err);
    return status;
}

void sqlite_file_accept(struct sqlite_store *s)
{
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
}
