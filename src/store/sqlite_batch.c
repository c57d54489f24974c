/* sqlite_batch: rows that are inserted many at a time.
 *
 * Starting and ending a statement, and finding the place of its row, cost more than the row: a
 * statement with sixteen rows does that once.  So rows of the tables that grow with every step of a
 * job wait here, in the transaction that adds them, until there are enough for such a statement.
 * Invariants:
 *
 *   - the rows of a table are inserted in the order in which they were added;
 *   - every statement that may look at such a table, and the commit, is preceded by the rows that
 *     wait: sql() sees to that;
 *   - nothing waits outside a transaction: a rollback drops what waits;
 *   - a row that is too long to be copied does not wait. */
#include "store/sqlite.h"

/* What waits.  Where a row that cannot be inserted ends the transaction, SQLite need not be able to
 * undo a statement by itself. */
static const struct {
    enum sql first;
    int columns;
    const char *insert;
} tables[BATCH_COUNT] = {
    [BATCH_EVENT] = {SQL_EVENT_INSERT, EVENT_COLUMN_COUNT,
                     "INSERT OR ROLLBACK INTO event(" EVENT_COLUMNS ")"},
    [BATCH_ATTEMPT] = {SQL_ATTEMPT_INSERT, 3,
                       "INSERT OR ROLLBACK INTO attempt(job, attempt, failure)"},
    [BATCH_JOB] = {SQL_JOB_PUT, JOB_COLUMN_COUNT + 1,
                   "INSERT OR REPLACE INTO job(" JOB_COLUMNS("") ", worker)"},
    [BATCH_FINISHED] = {SQL_FINISHED_INSERT, FINISHED_COLUMN_COUNT,
                        "INSERT OR ROLLBACK INTO finished(" FINISHED_COLUMNS ")"},
};
_Static_assert(FINISHED_COLUMN_COUNT <= BATCH_COLUMNS_MAX, "the longest row");

/* The statements that look at none of those tables.  Those that take one row of `job` by its seq
 * are among them: their callers flush when that row waits. */
static const bool apart[SQL_COUNT + 1] = {
    [SQL_JOB_PUT] = true,
    [SQL_JOB_PUT_SOME] = true,
    [SQL_JOB_PUT_MANY] = true,
    [SQL_FINISHED_INSERT] = true,
    [SQL_FINISHED_INSERT_SOME] = true,
    [SQL_FINISHED_INSERT_MANY] = true,
    [SQL_ATTEMPT_INSERT] = true,
    [SQL_ATTEMPT_INSERT_SOME] = true,
    [SQL_ATTEMPT_INSERT_MANY] = true,
    [SQL_EVENT_INSERT] = true,
    [SQL_EVENT_INSERT_SOME] = true,
    [SQL_EVENT_INSERT_MANY] = true,
    [SQL_JOB_DELETE] = true,
    [SQL_JOB_WORKER] = true,
    [SQL_ENVELOPE_INSERT] = true,
    [SQL_ENVELOPE_GET] = true,
    [SQL_ENVELOPE_ID] = true,
    [SQL_ENVELOPE_BODY] = true,
    [SQL_ENVELOPE_EXISTS] = true,
    [SQL_ENVELOPE_EXTRA] = true,
    [SQL_DOCUMENT_GET] = true,
    [SQL_DOCUMENT_PUT] = true,
    [SQL_FOREVER_GET] = true,
    [SQL_FOREVER_PUT] = true,
    [SQL_LETTER_OWNER] = true,
    [SQL_LETTER_INSERT] = true,
    [SQL_LETTER_UPDATE] = true,
    [SQL_LETTER_TAKEN] = true,
    [SQL_LETTER_GET] = true,
    [SQL_LETTER_BY_JOB] = true,
    [SQL_LETTER_BY_JOB_ID] = true,
    [SQL_TEXT_GET] = true,
    [SQL_TEXT_INSERT] = true,
    [SQL_TEXT_DELETE] = true,
    [SQL_COUNT_ADD] = true,
    [SQL_COUNT_TRIM] = true,
    [SQL_HOUR_ADD] = true,
    [SQL_GROUP_ADD] = true,
    [SQL_GROUP_HOUR_ADD] = true,
    [SQL_META_PUT] = true,
    [SQL_QUEUE_INSERT] = true,
    [SQL_SET_INSERT] = true,
};

/* How many rows a statement inserts, in the order of the statements. */
static const int sizes[BATCH_STATEMENTS] = {1, 4, BATCH_ROWS};

/* text_of writes the statement that inserts `rows` rows. */
static const char *text_of(const struct sql_batch *batch, int rows, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "%s VALUES", batch->insert);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < batch->columns && len < size; i++)
            len += (size_t)snprintf(out + len, size - len, "%s?%s",
                                    i > 0 ? "," : (row > 0 ? ",(" : "("),
                                    i == batch->columns - 1 ? ")" : "");
    BUG_ON(len >= size);
    return out;
}

static sqlite3_stmt *statement(struct sqlite_store *s, const struct sql_batch *batch, int which,
                               struct err *err)
{
    char text[4096];
    enum sql at = (enum sql)((int)batch->first + which);
    if (!s->statements[at])
        text_of(batch, sizes[which], text, sizeof(text));
    return sql(s, at, text, err);
}

static void bind(sqlite3_stmt *stmt, int at, const struct batch_value *value)
{
    switch (value->kind) {
    case BATCH_INT:
        sql_bind_int(stmt, at, value->number);
        break;
    case BATCH_TEXT:
        sql_bind_text(stmt, at, value->bytes);
        break;
    case BATCH_NAME:
        sql_bind_name(stmt, at, value->bytes);
        break;
    case BATCH_BODY:
        sql_bind_body(stmt, at, value->bytes);
        break;
    }
}

/* insert inserts the rows from `row` on with statement `which`. */
static enum status insert(struct sqlite_store *s, const struct sql_batch *batch, int row, int which,
                          struct err *err)
{
    sqlite3_stmt *stmt = statement(s, batch, which, err);
    if (!stmt)
        return s->trouble;
    const struct batch_value *values = &batch->values[(size_t)row * (size_t)batch->columns];
    for (int i = 0; i < sizes[which] * batch->columns; i++)
        bind(stmt, i + 1, &values[i]);
    return sql_write(s, stmt, err);
}

static void clear(struct sqlite_store *s, struct sql_batch *batch)
{
    s->waiting -= batch->rows;
    batch->rows = batch->count = 0;
    batch->used = 0;
}

enum status sql_batch_flush(struct sqlite_store *s, struct sql_batch *batch, struct err *err)
{
    enum status status = STATUS_OK;
    int which = BATCH_STATEMENTS - 1;
    for (int row = 0; row < batch->rows && status == STATUS_OK; row += sizes[which]) {
        while (sizes[which] > batch->rows - row)
            which--;
        status = insert(s, batch, row, which, err);
    }
    if (status != STATUS_OK)
        s->failed = true; /* rows that were accepted are missing */
    clear(s, batch);
    return status;
}

enum status sql_batches_flush(struct sqlite_store *s, enum sql which, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < BATCH_COUNT && !apart[which] && status == STATUS_OK; i++)
        status = sql_batch_flush(s, &s->batches[i], err);
    return status;
}

void sql_batches_init(struct sqlite_store *s)
{
    for (int i = 0; i < BATCH_COUNT; i++) {
        s->batches[i].first = tables[i].first;
        s->batches[i].columns = tables[i].columns;
        s->batches[i].insert = tables[i].insert;
    }
}

void sql_batches_clear(struct sqlite_store *s)
{
    for (int i = 0; i < BATCH_COUNT; i++)
        clear(s, &s->batches[i]);
}

bool sql_batch_has(const struct sql_batch *batch, int64_t number)
{
    for (int row = 0; row < batch->rows; row++)
        if (batch->values[(size_t)row * (size_t)batch->columns].number == number)
            return true;
    return false;
}

enum status sql_batch_begin(struct sqlite_store *s, struct sql_batch *batch, size_t bytes,
                            struct err *err)
{
    enum status status = sql_writable(s, err);
    if (status == STATUS_OK && bytes > sizeof(batch->bytes) - batch->used)
        status = sql_batch_flush(s, batch, err);
    batch->borrows = bytes > sizeof(batch->bytes);
    return status;
}

void sql_batch_int(struct sql_batch *batch, int64_t number)
{
    batch->values[batch->count++] = (struct batch_value){.kind = BATCH_INT, .number = number};
}

void sql_batch_bytes(struct sql_batch *batch, enum batch_kind kind, struct slice bytes)
{
    if (!batch->borrows && bytes.len) {
        char *copy = batch->bytes + batch->used;
        memcpy(copy, bytes.ptr, bytes.len);
        batch->used += bytes.len;
        bytes.ptr = copy;
    }
    batch->values[batch->count++] = (struct batch_value){.kind = kind, .bytes = bytes};
}

enum status sql_batch_end(struct sqlite_store *s, struct sql_batch *batch, struct err *err)
{
    batch->rows++;
    s->waiting++;
    BUG_ON(batch->count != batch->rows * batch->columns);
    if (batch->rows == BATCH_ROWS || batch->borrows)
        return sql_batch_flush(s, batch, err);
    return STATUS_OK;
}
