/* sqlite_owner: whose file it is, found out without touching it.
 *
 * A file that is not ours must be left as it is, and SQLite changes a file by merely reading it
 * when a journal or a log lies beside it.  So the first hundred bytes are looked at, through the
 * VFS, before SQLite is asked anything:
 *
 *     no bytes at all                  a new store
 *     "SQLite format 3" and our mark   ours, unless a later version wrote it
 *     anything else                    somebody else's
 *
 * When the machine stopped while those bytes were being written they may be garbage, and what
 * SQLite will put in their place lies beside the file:
 *
 *     a journal from a file of 0 pages        the making of a database was cut short: it will be
 *                                             empty again
 *     a journal whose first page is page 1    that is what the bytes will be
 *     a log that holds a page 1               likewise
 *
 * The mark (application_id) is the first thing that is written to a new file, before the log
 * exists, so every later state of our file shows it. */
#include "store/sqlite.h"

#define HEADER_SIZE 100       /* of a database */
#define HEADER_VERSION 60     /* where its user_version is */
#define HEADER_APPLICATION 68 /* where its application_id is */

#define JOURNAL_HEADER 28
#define LOG_HEADER 32
#define FRAME_HEADER 24

enum owner { OWNER_NEW, OWNER_OURS, OWNER_LATER, OWNER_DAMAGED, OWNER_FOREIGN };

static uint32_t number_at(const unsigned char *bytes, size_t offset)
{
    const unsigned char *b = bytes + offset;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool read_at(sqlite3_file *file, void *out, int len, int64_t offset)
{
    return file->pMethods->xRead(file, out, len, offset) == SQLITE_OK;
}

static enum owner judge(const unsigned char header[HEADER_SIZE])
{
    bool format = memcmp(header, "SQLite format 3", 16) == 0;
    bool mark = number_at(header, HEADER_APPLICATION) == SCHEMA_APPLICATION_ID;
    if (!mark)
        return OWNER_FOREIGN;
    if (!format)
        return OWNER_DAMAGED;
    return number_at(header, HEADER_VERSION) > SCHEMA_VERSION ? OWNER_LATER : OWNER_OURS;
}

/* -- what lies beside the file ----------------------------------------------------------------- */

/* open_beside opens a journal or a log for reading; NULL when it is not there. */
static sqlite3_file *open_beside(sqlite3 *db, const char *name, int kind)
{
    sqlite3_vfs *vfs = NULL;
    int exists = 0;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
    if (!vfs || vfs->xAccess(vfs, name, SQLITE_ACCESS_EXISTS, &exists) != SQLITE_OK || !exists)
        return NULL;
    sqlite3_file *file = sqlite3_malloc(vfs->szOsFile);
    if (!file)
        return NULL;
    memset(file, 0, (size_t)vfs->szOsFile);
    if (vfs->xOpen(vfs, name, file, SQLITE_OPEN_READONLY | kind, NULL) == SQLITE_OK)
        return file;
    if (file->pMethods)
        file->pMethods->xClose(file);
    sqlite3_free(file);
    return NULL;
}

static void close_beside(sqlite3_file *file)
{
    file->pMethods->xClose(file);
    sqlite3_free(file);
}

/* judge_journal says whose the file will be when the journal has been played back. */
static enum owner judge_journal(sqlite3_file *journal)
{
    static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    unsigned char head[JOURNAL_HEADER], page[4 + HEADER_SIZE];
    if (!read_at(journal, head, JOURNAL_HEADER, 0) || memcmp(head, magic, sizeof(magic)) != 0)
        return OWNER_FOREIGN;
    if (number_at(head, 16) == 0) /* the pages that the database had */
        return OWNER_NEW;
    /* The first page of the journal comes after a sector of its own for the header. */
    if (!read_at(journal, page, sizeof(page), number_at(head, 20)) || number_at(page, 0) != 1)
        return OWNER_FOREIGN;
    return judge(page + 4);
}

/* judge_log says whose the file is by the first page 1 in the log. */
static enum owner judge_log(sqlite3_file *log)
{
    unsigned char head[LOG_HEADER], frame[FRAME_HEADER + HEADER_SIZE];
    if (!read_at(log, head, LOG_HEADER, 0) || (number_at(head, 0) & ~1u) != 0x377f0682)
        return OWNER_FOREIGN;
    uint32_t page_size = number_at(head, 8);
    if (page_size < 512 || page_size > 65536)
        return OWNER_FOREIGN;
    for (int64_t at = LOG_HEADER; read_at(log, frame, sizeof(frame), at);
         at += FRAME_HEADER + page_size) {
        if (memcmp(frame + 8, head + 16, 8) != 0) /* the salts: left from an earlier log */
            break;
        if (number_at(frame, 0) == 1)
            return judge(frame + FRAME_HEADER);
    }
    return OWNER_FOREIGN;
}

static enum owner judge_beside(sqlite3 *db)
{
    const char *name = sqlite3_db_filename(db, "main");
    enum owner owner = OWNER_FOREIGN;
    sqlite3_file *file = open_beside(db, sqlite3_filename_journal(name), SQLITE_OPEN_MAIN_JOURNAL);
    if (file) {
        owner = judge_journal(file);
        close_beside(file);
    }
    if (owner != OWNER_FOREIGN)
        return owner;
    file = open_beside(db, sqlite3_filename_wal(name), SQLITE_OPEN_WAL);
    if (file) {
        owner = judge_log(file);
        close_beside(file);
    }
    return owner;
}

/* -- the verdict ------------------------------------------------------------------------------- */

static enum status verdict(struct sqlite_store *s, enum owner owner, struct err *err)
{
    switch (owner) {
    case OWNER_LATER:
        return err_set(err, STATUS_FOREIGN,
                       "%s: the store was made by a later version of Lazaret: use that version; "
                       "the file is left as it is",
                       s->path);
    case OWNER_DAMAGED:
        return sql_damage(s, err, "its first bytes are not those of a database");
    case OWNER_FOREIGN:
        return err_set(err, STATUS_FOREIGN,
                       "%s: not a Lazaret store: name another file; this one is left as it is",
                       s->path);
    default:
        return STATUS_OK;
    }
}

enum status sqlite_owner_look(struct sqlite_store *s, struct err *err)
{
    unsigned char header[HEADER_SIZE] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods)
        return err_set(err, STATUS_INVALID, "%s: the store needs a file", s->path);
    int rc = file->pMethods->xFileSize(file, &size);
    if (rc != SQLITE_OK)
        return sql_error(s, rc, err);
    if (size == 0)
        return STATUS_OK;
    rc = file->pMethods->xRead(file, header, HEADER_SIZE, 0);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) /* a short one ends in zeros */
        return sql_error(s, rc, err);
    enum owner owner = judge(header);
    if (owner == OWNER_FOREIGN || owner == OWNER_DAMAGED) {
        enum owner other = judge_beside(s->db);
        owner = other == OWNER_FOREIGN ? owner : other;
    }
    return verdict(s, owner, err);
}

enum status sqlite_owner_confirm(struct sqlite_store *s, bool *is_new, struct err *err)
{
    int64_t pages = 0, mark = 0, version = 0;
    enum status status = sql_number(s, "PRAGMA page_count", &pages, err);
    if (status == STATUS_OK)
        status = sql_number(s, "PRAGMA application_id", &mark, err);
    if (status == STATUS_OK)
        status = sql_number(s, "PRAGMA user_version", &version, err);
    if (status != STATUS_OK)
        return status;
    *is_new = pages == 0;
    if (!*is_new && mark != SCHEMA_APPLICATION_ID)
        return verdict(s, OWNER_FOREIGN, err);
    return version > SCHEMA_VERSION ? verdict(s, OWNER_LATER, err) : STATUS_OK;
}
