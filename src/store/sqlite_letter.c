/* sqlite_letter: one letter: its row, its place in time, and what search finds of it.
 *
 * A letter's position is its rowid: failed_at in microseconds, moved on to the next free number
 * when another letter has it.  So the table, each of its indexes and the full-text index are in
 * order of time by themselves.  How far a position ever was from its failed_at (the drift) is kept,
 * so that a question about a time knows how far to look. */
#include "store/sqlite.h"

/* -- the row ----------------------------------------------------------------------------------- */

#define TEXT_FIRST (1 + JOB_COLUMN_COUNT)

/* The texts of a letter, in the order of their columns; dlq_id is the first. */
static const size_t texts[] = {
    offsetof(struct letter, dlq_id),           offsetof(struct letter, job_id),
    offsetof(struct letter, run_id),           offsetof(struct letter, item_id),
    offsetof(struct letter, trace_id),         offsetof(struct letter, queue),
    offsetof(struct letter, original_subject), offsetof(struct letter, reason),
    offsetof(struct letter, reason_detail),    offsetof(struct letter, source),
    offsetof(struct letter, signature),        offsetof(struct letter, fingerprint),
    offsetof(struct letter, error_type),       offsetof(struct letter, agent),
    offsetof(struct letter, artifacts),        offsetof(struct letter, recovered_by),
};
#define TEXT_COUNT (int)(sizeof(texts) / sizeof(texts[0]))
#define NUMBER_FIRST (TEXT_FIRST + TEXT_COUNT)
#define NUMBER_COUNT (LETTER_COLUMN_COUNT - NUMBER_FIRST)

static void letter_bind(sqlite3_stmt *stmt, const struct letter *letter)
{
    const int64_t numbers[] = {
        letter->envelope_seq,
        letter->state,
        letter->replay_safety,
        letter->failed_at.us,
        letter->first_attempt_at.us,
        letter->last_attempt_at.us,
        letter->recovered_at.us,
        letter->failure_count,
        letter->max_attempts,
        letter->recoverable,
        letter->eligible,
        letter->review,
        letter->escalated,
        letter->foreign,
    };
    _Static_assert(sizeof(numbers) / sizeof(numbers[0]) == NUMBER_COUNT, "columns and numbers");
    sql_bind_int(stmt, 1, letter->position);
    sqlite_job_bind(stmt, 2, &letter->job);
    for (int i = 0; i < TEXT_COUNT; i++) {
        const struct slice *text = (const void *)((const char *)letter + texts[i]);
        (i == 0 ? sql_bind_name : sql_bind_text)(stmt, 1 + TEXT_FIRST + i, *text);
    }
    for (int i = 0; i < NUMBER_COUNT; i++)
        sql_bind_int(stmt, 1 + NUMBER_FIRST + i, numbers[i]);
}

enum status sqlite_letter_read(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                               struct letter *out, struct err *err)
{
    int64_t n[NUMBER_COUNT];
    for (int i = 0; i < NUMBER_COUNT; i++)
        n[i] = sqlite3_column_int64(stmt, NUMBER_FIRST + i);
    *out = (struct letter){
        .position = sqlite3_column_int64(stmt, 0),
        .envelope_seq = n[0],
        .state = (enum letter_state)n[1],
        .replay_safety = (enum replay_safety)n[2],
        .failed_at = {n[3]},
        .first_attempt_at = {n[4]},
        .last_attempt_at = {n[5]},
        .recovered_at = {n[6]},
        .failure_count = (uint32_t)n[7],
        .max_attempts = (uint32_t)n[8],
        .recoverable = n[9] != 0,
        .eligible = n[10] != 0,
        .review = n[11] != 0,
        .escalated = n[12] != 0,
        .foreign = n[13] != 0,
    };
    if (!sqlite_job_read(stmt, 1, &out->job) || n[1] < 0 || n[1] >= LETTER_STATE_COUNT ||
        n[2] < 0 || n[2] > REPLAY_UNSAFE)
        return sql_damage(s, err, "the row of letter %lld says what cannot be",
                          (long long)out->position);
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct slice *text = (void *)((char *)out + texts[i]);
        *text = sql_dup(stmt, TEXT_FIRST + i, arena);
        if (!text->ptr)
            return err_no_memory(err);
    }
    return STATUS_OK;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* one_letter runs a statement that is bound and reads its only row. */
static enum status one_letter(struct sqlite_store *s, sqlite3_stmt *stmt, struct arena *arena,
                              struct letter *out, struct err *err)
{
    struct letter letter;
    enum status status;
    if (!sql_row(s, stmt, &status, err))
        return status != STATUS_OK ? status : err_set(err, STATUS_NOT_FOUND, "no such dead letter");
    status = sql_stop(stmt, sqlite_letter_read(s, stmt, arena, &letter, err));
    if (status == STATUS_OK)
        *out = letter;
    return status;
}

enum status sqlite_letter_get(struct store *store, struct slice dlq_id, struct arena *arena,
                              struct letter *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt =
        sql(s, SQL_LETTER_GET, "SELECT " LETTER_COLUMNS " FROM letter WHERE dlq_id = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, dlq_id);
    return one_letter(s, stmt, arena, out, err);
}

enum status sqlite_letter_by_job(struct store *store, int64_t job_seq, struct arena *arena,
                                 struct letter *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt =
        sql(s, SQL_LETTER_BY_JOB, "SELECT " LETTER_COLUMNS " FROM letter WHERE job_seq = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, job_seq);
    return one_letter(s, stmt, arena, out, err);
}

enum status sqlite_letter_by_origin(struct store *store, uint64_t origin, struct arena *arena,
                                    struct letter *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    sqlite3_stmt *stmt = sql(s, SQL_LETTER_BY_ORIGIN,
                             "SELECT " LETTER_COLUMNS " FROM letter INDEXED BY letter_origin"
                             " WHERE foreign_body = 1 AND job_idempotency_hash = ?"
                             " ORDER BY position DESC LIMIT 1",
                             err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, (int64_t)origin);
    return one_letter(s, stmt, arena, out, err);
}

enum status sqlite_letter_like(struct store *store, struct slice prefix, size_t max,
                               struct arena *arena, struct slice **out, size_t *count,
                               struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct rows rows = {0};
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_LETTER_LIKE,
                             "SELECT dlq_id FROM letter WHERE dlq_id >= ?1 AND dlq_id < ?2"
                             " ORDER BY dlq_id LIMIT ?3",
                             err);
    if (!stmt)
        return s->trouble;
    /* No byte of UTF-8 is 0xff, so this is above every text that begins with the prefix. */
    struct slice end = arena_printf(arena, "%.*s\xff", SLICE_ARG(prefix));
    if (!end.ptr)
        return err_no_memory(err);
    sql_bind_name(stmt, 1, prefix);
    sql_bind_name(stmt, 2, end);
    sql_bind_int(stmt, 3, max > INT64_MAX ? INT64_MAX : (int64_t)max);
    while (sql_row(s, stmt, &status, err)) {
        struct slice *id = rows_next(&rows, arena, sizeof(*id));
        if (id)
            *id = sql_dup(stmt, 0, arena);
        if (!id || !id->ptr)
            return sql_stop(stmt, err_no_memory(err));
    }
    if (status != STATUS_OK)
        return status;
    *out = rows.items;
    *count = rows.count;
    return STATUS_OK;
}

/* -- positions --------------------------------------------------------------------------------- */

/* first_free finds the first position from `from` on that no letter has.  0 is none: it is the
 * cursor that means "from the start". */
static enum status first_free(struct sqlite_store *s, int64_t from, int64_t *out, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_LETTER_TAKEN,
            "SELECT position FROM letter WHERE position >= ? ORDER BY position", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, from);
    while (sql_row(s, stmt, &status, err)) {
        if (sqlite3_column_int64(stmt, 0) != from) {
            status = sql_stop(stmt, STATUS_OK);
            break;
        }
        from += from == -1 ? 2 : 1;
    }
    *out = from;
    return status;
}

/* position_pick finds the place of a letter that failed at `failed_at`.  Many letters may have
 * failed at the same time (imports know only seconds): the hint says where the last of them went,
 * so that the next does not walk past them all. */
static enum status position_pick(struct sqlite_store *s, struct instant failed_at, int64_t *out,
                                 struct err *err)
{
    const int64_t latest = INT64_MAX - (INT64_C(1) << 40);
    int64_t wanted = failed_at.us > latest ? latest : failed_at.us ? failed_at.us : 1;
    struct position_hint *hint =
        &s->hints[((uint64_t)wanted * 0x9e3779b97f4a7c15u >> 32) & (POSITION_HINTS - 1)];
    int64_t from = hint->failed_at == wanted && hint->next > wanted ? hint->next : wanted;
    enum status status = first_free(s, from, out, err);
    if (status != STATUS_OK)
        return status;
    *hint = (struct position_hint){wanted, *out + 1};
    if (*out - wanted <= s->drift)
        return STATUS_OK;
    s->drift = *out - wanted;
    return sqlite_meta_put(s, "drift", s->drift, err);
}

/* -- search text ------------------------------------------------------------------------------- */

static enum status text_insert(struct sqlite_store *s, int64_t position, struct slice text,
                               struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_TEXT_INSERT, "INSERT INTO letter_text(rowid, text) VALUES(?, ?)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, position);
    sql_bind_name(stmt, 2, text);
    return sql_write(s, stmt, err);
}

enum status sqlite_text_delete(struct sqlite_store *s, int64_t position, struct err *err)
{
    sqlite3_stmt *stmt = sql(s, SQL_TEXT_DELETE, "DELETE FROM letter_text WHERE rowid = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, position);
    return sql_write(s, stmt, err);
}

/* text_get copies the search text of a letter; `ptr` stays NULL when it has none. */
static enum status text_get(struct sqlite_store *s, int64_t position, struct arena *arena,
                            struct slice *out, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_TEXT_GET, "SELECT text FROM letter_text WHERE rowid = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, position);
    if (!sql_row(s, stmt, &status, err))
        return status;
    *out = sql_dup(stmt, 0, arena);
    return sql_stop(stmt, out->ptr ? STATUS_OK : err_no_memory(err));
}

/* text_put makes search find `text` (NULL: what it found before) at the letter's position. */
static enum status text_put(struct sqlite_store *s, int64_t before, int64_t now,
                            const struct slice *text, struct arena *arena, struct err *err)
{
    struct slice kept = {0};
    enum status status = STATUS_OK;
    if (!text && before == now)
        return STATUS_OK;
    if (!text && before)
        status = text_get(s, before, arena, &kept, err);
    if (status == STATUS_OK && before)
        status = sqlite_text_delete(s, before, err);
    if (text)
        kept = *text;
    return status == STATUS_OK && kept.ptr ? text_insert(s, now, kept, err) : status;
}

/* -- writing ----------------------------------------------------------------------------------- */

static enum status row_insert(struct sqlite_store *s, const struct letter *letter, struct err *err)
{
    sqlite3_stmt *stmt =
        sql(s, SQL_LETTER_INSERT,
            "INSERT INTO letter(" LETTER_COLUMNS ") VALUES(" LETTER_PARAMETERS ")", err);
    if (!stmt)
        return s->trouble;
    letter_bind(stmt, letter);
    return sql_write(s, stmt, err);
}

static enum status row_update(struct sqlite_store *s, int64_t before, const struct letter *letter,
                              struct err *err)
{
    sqlite3_stmt *stmt = sql(
        s, SQL_LETTER_UPDATE,
        "UPDATE letter SET (" LETTER_COLUMNS ") = (" LETTER_PARAMETERS ") WHERE position = ?", err);
    if (!stmt)
        return s->trouble;
    letter_bind(stmt, letter);
    sql_bind_int(stmt, LETTER_COLUMN_COUNT + 1, before);
    return sql_write(s, stmt, err);
}

static struct letter_facts facts_of(const struct letter *letter)
{
    return (struct letter_facts){
        .position = letter->position,
        .state = letter->state,
        .recoverable = letter->recoverable,
        .reason = letter->reason,
        .source = letter->source,
        .queue = letter->queue,
        .fingerprint = letter->fingerprint,
        .signature = letter->signature,
        .failed_at = letter->failed_at,
    };
}

/* dlq_id_free refuses a dlq_id that another job's letter has, before anything is written. */
static enum status dlq_id_free(struct sqlite_store *s, const struct letter *letter, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt =
        sql(s, SQL_LETTER_OWNER, "SELECT job_seq FROM letter WHERE dlq_id = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_name(stmt, 1, letter->dlq_id);
    if (!sql_row(s, stmt, &status, err))
        return status;
    bool own = sqlite3_column_int64(stmt, 0) == letter->job.seq;
    sqlite3_reset(stmt);
    return own ? STATUS_OK
               : err_set(err, STATUS_CONFLICT, "dead letter %.*s is another job's",
                         SLICE_ARG(letter->dlq_id));
}

/* put writes `letter` over what the job had, `before` (position 0: nothing). */
static enum status put(struct sqlite_store *s, const struct letter *before, struct letter *letter,
                       const struct slice *text, bool died, struct arena *arena, struct err *err)
{
    bool is_new = before->position == 0;
    enum status status = STATUS_OK;
    letter->position = before->position;
    if (is_new || before->failed_at.us != letter->failed_at.us)
        status = position_pick(s, letter->failed_at, &letter->position, err);
    if (status == STATUS_OK)
        status = is_new ? row_insert(s, letter, err) : row_update(s, before->position, letter, err);
    if (status == STATUS_OK)
        status = text_put(s, before->position, letter->position, text, arena, err);
    if (status != STATUS_OK)
        return status;
    struct letter_facts then = facts_of(before), now = facts_of(letter);
    return sqlite_count_change(s, is_new ? NULL : &then, &now, died, err);
}

enum status sqlite_letter_put(struct store *store, struct letter *letter, const struct slice *text,
                              bool died, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct arena arena = {0};
    struct letter before = {0}, made = *letter;
    enum status status = dlq_id_free(s, letter, err);
    if (status == STATUS_OK)
        status = sqlite_letter_by_job(store, letter->job.seq, &arena, &before, err);
    if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    if (status == STATUS_OK)
        status = put(s, &before, &made, text, died, &arena, err);
    if (status == STATUS_OK)
        letter->position = made.position;
    arena_release(&arena);
    return status;
}
