/* postgres_letter: one letter: its row, and how it is written.
 *
 * A letter that is made in this turn waits in memory with the others, so that a hundred deaths are
 * one statement.  Whether the job has a letter already is known without a look-up when the job is
 * of this turn, when it was buried without JOB_HAS_LETTER, or when the turn has read the letter. */
#include "store/postgres_letter.h"

#include "base/mem.h"

/* -- the row ----------------------------------------------------------------------------------- */

#define TEXT_FIRST (1 + PG_JOB_COLUMN_COUNT)

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
#define NUMBER_COUNT (PG_LETTER_COLUMN_COUNT - NUMBER_FIRST)

static struct slice text_of(const struct letter *letter, int i)
{
    return *(const struct slice *)(const void *)((const char *)letter + texts[i]);
}

static void numbers_of(const struct letter *letter, int64_t out[NUMBER_COUNT])
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
    memcpy(out, numbers, sizeof(numbers));
}

enum status pg_letter_read(struct postgres_store *s, const PGresult *rows, int row,
                           struct arena *arena, struct letter *out, struct err *err)
{
    int64_t n[NUMBER_COUNT];
    for (int i = 0; i < NUMBER_COUNT; i++)
        n[i] = pg_get_int(rows, row, NUMBER_FIRST + i);
    *out = (struct letter){
        .position = pg_get_int(rows, row, 0),
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
    if (!pg_job_read(rows, row, 1, &out->job) || n[1] < 0 || n[1] >= LETTER_STATE_COUNT ||
        n[2] < 0 || n[2] > REPLAY_UNSAFE)
        return pg_damage(s, err, "the row of letter %lld says what cannot be",
                         (long long)out->position);
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct slice *text = (void *)((char *)out + texts[i]);
        *text = pg_get_dup(rows, row, TEXT_FIRST + i, arena);
        if (!text->ptr)
            return err_no_memory(err);
    }
    return STATUS_OK;
}

enum status pg_letter_rows(struct postgres_store *s, PGresult *rows, struct arena *arena,
                           struct letter **out, size_t *count, struct err *err)
{
    int total = PQntuples(rows);
    struct letter *letters = arena_array(arena, (size_t)total + 1, sizeof(*letters));
    enum status status = letters ? STATUS_OK : err_no_memory(err);
    for (int i = 0; i < total && status == STATUS_OK; i++)
        status = pg_letter_read(s, rows, i, arena, &letters[i], err);
    PQclear(rows);
    if (status == STATUS_OK) {
        *out = letters;
        *count = (size_t)total;
    }
    return status;
}

/* -- memory ------------------------------------------------------------------------------------ */

#define PARAMETERS                                                                                 \
    "$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,"  \
    "$26,$27,$28,$29,$30,$31,$32,$33,$34,$35,$36,$37,$38,$39,$40,$41,$42,$43,$44,$45,$46,$47,$48," \
    "$49,$50,$51"

static const struct pg_statement letter_insert = {
    "letter_insert",
    "INSERT INTO " PG_SCHEMA ".letter(" PG_LETTER_COLUMNS ", search)"
    " SELECT " PG_LETTER_COLUMNS ", words::tsvector FROM unnest($1::" PG_SCHEMA ".letter_row[])"};

static const Oid letter_types[PG_LETTER_COLUMN_COUNT + 1] = {
    [0 ... TEXT_FIRST - 1] = PG_INT8,
    [TEXT_FIRST... TEXT_FIRST + 15] = PG_TEXT,
    [TEXT_FIRST + 16 ... PG_LETTER_COLUMN_COUNT - 1] = PG_INT8,
    [PG_LETTER_COLUMN_COUNT] = PG_TEXT};
_Static_assert(sizeof(texts) / sizeof(texts[0]) == 16, "the columns of letter_types");

/* waiting_add adds a letter to those that wait. */
static enum status waiting_add(struct postgres_store *s, const struct letter *letter,
                               const struct slice *words, struct err *err)
{
    int64_t numbers[NUMBER_COUNT];
    numbers_of(letter, numbers);
    pg_add_int(&s->letters, letter->position);
    pg_job_add(&s->letters, &letter->job);
    for (int i = 0; i < TEXT_COUNT; i++)
        (i == 0 ? pg_add_name : pg_add_text)(&s->letters, text_of(letter, i));
    for (int i = 0; i < NUMBER_COUNT; i++)
        pg_add_int(&s->letters, numbers[i]);
    if (words)
        pg_add_name(&s->letters, *words);
    else
        pg_add_text(&s->letters, (struct slice){0});
    return pg_row_end(s, &s->letters, err);
}

enum status pg_letters_open(struct postgres_store *s, struct err *err)
{
    pg_rows_init(&s->letters, &letter_insert, PG_ROW_LETTER, letter_types,
                 PG_LETTER_COLUMN_COUNT + 1);
    s->counts = mem_zalloc(sizeof(*s->counts));
    if (!s->counts)
        return err_no_memory(err);
    pg_known_init(s->counts);
    pg_missing_init(s->counts);
    pg_places_clear(s->counts);
    pg_counts_init(s->counts);
    pg_column_init(&s->counts->shown, PG_TEXT);
    return STATUS_OK;
}

void pg_letters_close(struct postgres_store *s)
{
    if (!s->counts)
        return;
    pg_columns_release(&s->letters);
    pg_known_release(s->counts);
    pg_missing_release(s->counts);
    pg_places_release(s->counts);
    pg_counts_release(s->counts);
    buf_release(&s->counts->shown.array);
    pg_words_free(s->counts->words);
    mem_free(s->counts);
    s->counts = NULL;
}

void pg_letters_clear(struct postgres_store *s)
{
    pg_columns_clear(&s->letters);
    pg_missing_clear(s->counts);
    pg_known_clear(s->counts);
    pg_places_clear(s->counts);
    pg_counts_clear(s->counts);
    pg_column_clear(&s->counts->shown);
}

bool pg_letters_waiting(const struct postgres_store *s)
{
    return s->letters.rows > 0 || s->counts->waiting || pg_counts_waiting(s->counts);
}

enum status pg_letters_flush(struct postgres_store *s, struct err *err)
{
    enum status status = pg_flush_columns(s, &s->letters, err);
    if (status == STATUS_OK)
        status = pg_places_flush(s, err);
    if (status == STATUS_OK)
        status = pg_counts_flush(s, err);
    if (status == STATUS_OK)
        pg_known_settled(s->counts);
    return status;
}

enum status pg_letter_fresh(struct postgres_store *s, int64_t job_seq, struct err *err)
{
    return pg_known_none(s->counts, job_seq) ? STATUS_OK : pg_fail_write(s, err);
}

/* -- reading ----------------------------------------------------------------------------------- */

static enum status no_letter(struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "no such dead letter");
}

/* one_letter runs a query for a letter, and remembers it for this turn. */
static enum status one_letter(struct postgres_store *s, const struct pg_statement *statement,
                              struct pg_params *params, struct arena *arena, struct letter *out,
                              struct err *err)
{
    struct letter letter;
    PGresult *rows;
    enum status status = pg_query(s, statement, params, &rows, err);
    if (status != STATUS_OK)
        return status;
    status = PQntuples(rows) > 0 ? pg_letter_read(s, rows, 0, arena, &letter, err) : no_letter(err);
    PQclear(rows);
    if (status == STATUS_OK && s->in_transaction && !pg_known_put(s->counts, &letter, false))
        status = err_no_memory(err);
    if (status == STATUS_OK)
        *out = letter;
    return status;
}

/* settled_for sends what waits when a query may be about it. */
static enum status settled_for(struct postgres_store *s, const struct known_letter *known,
                               struct err *err)
{
    return known && known->waits ? pg_settled(s, err) : STATUS_OK;
}

enum status postgres_letter_get(struct store *store, struct slice dlq_id, struct arena *arena,
                                struct letter *out, struct err *err)
{
    static const struct pg_statement statement = {
        "letter_get", "SELECT " PG_LETTER_COLUMNS " FROM " PG_SCHEMA
                      ".letter WHERE lazaret.key(dlq_id) = lazaret.key($1)"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    dlq_id = pg_text_cleaned(dlq_id, arena);
    if (!dlq_id.ptr)
        return err_no_memory(err);
    if (pg_missing_id(s->counts, dlq_id))
        return no_letter(err);
    enum status status = settled_for(s, pg_known_id(s->counts, dlq_id), err);
    if (status != STATUS_OK)
        return status;
    pg_name(&params, dlq_id);
    return one_letter(s, &statement, &params, arena, out, err);
}

enum status postgres_letter_by_job(struct store *store, int64_t job_seq, struct arena *arena,
                                   struct letter *out, struct err *err)
{
    static const struct pg_statement statement = {"letter_by_job",
                                                  "SELECT " PG_LETTER_COLUMNS " FROM " PG_SCHEMA
                                                  ".letter WHERE job_seq = $1"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    const struct known_letter *known = pg_known_job(s->counts, job_seq);
    if (known && known->position == 0)
        return no_letter(err);
    enum status status = settled_for(s, known, err);
    if (status != STATUS_OK)
        return status;
    pg_int(&params, job_seq);
    return one_letter(s, &statement, &params, arena, out, err);
}

enum status postgres_letter_by_origin(struct store *store, uint64_t origin, struct arena *arena,
                                      struct letter *out, struct err *err)
{
    static const struct pg_statement statement = {
        "letter_by_origin", "SELECT " PG_LETTER_COLUMNS " FROM " PG_SCHEMA ".letter"
                            " WHERE foreign_body = 1 AND job_idempotency_hash = $1"
                            " ORDER BY place DESC LIMIT 1"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    if (pg_missing_origin(s->counts, origin))
        return no_letter(err);
    enum status status = settled_for(s, pg_known_origin(s->counts, origin), err);
    if (status != STATUS_OK)
        return status;
    pg_int(&params, (int64_t)origin);
    return one_letter(s, &statement, &params, arena, out, err);
}

enum status postgres_letter_like(struct store *store, struct slice prefix, size_t max,
                                 struct arena *arena, struct slice **out, size_t *count,
                                 struct err *err)
{
    static const struct pg_statement statement = {
        "letter_like", "SELECT dlq_id FROM " PG_SCHEMA
                       ".letter WHERE lazaret.key(dlq_id) >= left($1, 200) AND lazaret.key(dlq_id) "
                       "< left($1, 200) || $2 AND starts_with(dlq_id, $1)"
                       " ORDER BY lazaret.key(dlq_id) LIMIT $3"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    /* The last character that there is stands above every text that begins with the prefix. */
    const struct slice last = SLICE("\xf4\x8f\xbf\xbf");
    enum status status = pg_settled(s, err);
    if (status != STATUS_OK)
        return status;
    pg_name(&params, prefix);
    pg_name(&params, last);
    pg_int(&params, max > INT64_MAX ? INT64_MAX : (int64_t)max);
    status = pg_query(s, &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct slice *ids = arena_array(arena, (size_t)total + 1, sizeof(*ids));
    for (int i = 0; i < total && ids; i++)
        if (!(ids[i] = pg_get_dup(rows, i, 0, arena)).ptr)
            ids = NULL;
    PQclear(rows);
    if (!ids)
        return err_no_memory(err);
    *out = ids;
    *count = (size_t)total;
    return STATUS_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static const struct pg_statement letter_update = {
    "letter_update",
    "UPDATE " PG_SCHEMA ".letter SET (" PG_LETTER_COLUMNS ", search) = (" PARAMETERS
    ", coalesce($52::tsvector, search)) WHERE position = $53"};

static enum status row_update(struct postgres_store *s, int64_t before, const struct letter *letter,
                              const struct slice *words, struct err *err)
{
    struct pg_params params = {0};
    int64_t numbers[NUMBER_COUNT];
    numbers_of(letter, numbers);
    pg_int(&params, letter->position);
    pg_job_params(&params, &letter->job);
    for (int i = 0; i < TEXT_COUNT; i++)
        (i == 0 ? pg_name : pg_text)(&params, text_of(letter, i));
    for (int i = 0; i < NUMBER_COUNT; i++)
        pg_int(&params, numbers[i]);
    if (words)
        pg_name(&params, *words);
    else
        pg_text(&params, (struct slice){0});
    pg_int(&params, before);
    return pg_send(s, &letter_update, &params, err);
}

/* learn reads what a turn does not know yet about a job's letter and about the owner of a dlq_id.
 */
static enum status learn(struct postgres_store *s, const struct letter *letter, struct arena *arena,
                         struct err *err)
{
    static const struct pg_statement statement = {
        "letter_learn", "SELECT " PG_LETTER_COLUMNS " FROM " PG_SCHEMA ".letter"
                        " WHERE job_seq = $1 OR lazaret.key(dlq_id) = lazaret.key($2)"};
    struct pg_params params = {0};
    PGresult *rows;
    struct letter *found;
    size_t count;
    pg_int(&params, letter->job.seq);
    pg_name(&params, letter->dlq_id);
    enum status status = pg_query(s, &statement, &params, &rows, err);
    if (status == STATUS_OK)
        status = pg_letter_rows(s, rows, arena, &found, &count, err);
    bool kept = status != STATUS_OK || pg_known_none(s->counts, letter->job.seq);
    for (size_t i = 0; status == STATUS_OK && i < count && kept; i++)
        kept = pg_known_put(s->counts, &found[i], false);
    return kept ? status : err_no_memory(err);
}

/* before_of finds what the job's letter was: *out has position 0 when it had none.  A dlq_id that
 * another job's letter has is refused. */
static enum status before_of(struct postgres_store *s, const struct letter *letter,
                             struct arena *arena, struct known_letter *out, struct err *err)
{
    const struct known_letter *known = pg_known_job(s->counts, letter->job.seq);
    bool of_this_turn = letter->job.seq > s->begun.seq_last;
    bool unsure =
        known ? known->position && !slice_eq(known->dlq_id, letter->dlq_id) : !of_this_turn;
    enum status status = settled_for(s, known, err);
    if (status == STATUS_OK && unsure)
        status = learn(s, letter, arena, err);
    if (status != STATUS_OK)
        return status;
    known = pg_known_job(s->counts, letter->job.seq);
    *out = known ? *known : (struct known_letter){0};
    known = pg_known_id(s->counts, letter->dlq_id);
    if (known && known->job_seq != letter->job.seq)
        return err_set(err, STATUS_CONFLICT, "dead letter %.*s is another job's",
                       SLICE_ARG(letter->dlq_id));
    return STATUS_OK;
}

/* put writes `letter` over what the job had, `before` (position 0: nothing). */
static enum status put(struct postgres_store *s, const struct known_letter *before,
                       struct letter *letter, const struct slice *words, bool died, struct err *err)
{
    bool is_new = before->position == 0;
    enum status status = STATUS_OK;
    letter->position = before->position;
    if (is_new || before->failed_at.us != letter->failed_at.us)
        status = pg_place(s, letter->failed_at, &letter->position, err);
    if (status == STATUS_OK)
        status = is_new ? waiting_add(s, letter, words, err)
                        : row_update(s, before->position, letter, words, err);
    if (status == STATUS_OK && !pg_known_put(s->counts, letter, is_new))
        status = pg_fail_write(s, err);
    if (status == STATUS_OK)
        status = pg_count_change(s, is_new ? NULL : before,
                                 pg_known_job(s->counts, letter->job.seq), died, err);
    if (status == STATUS_OK && !is_new && !slice_eq(before->dlq_id, letter->dlq_id))
        status = pg_swarm_show(s, before->dlq_id, err);
    return status == STATUS_OK ? pg_swarm_show(s, letter->dlq_id, err) : status;
}

enum status postgres_letter_put(struct store *store, struct letter *letter,
                                const struct slice *text, bool died, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct arena arena = {0};
    struct letter made = *letter;
    struct known_letter before;
    struct buf buf;
    buf_init(&buf, SIZE_MAX);
    made.dlq_id = pg_text_cleaned(letter->dlq_id, &arena);
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK && !made.dlq_id.ptr)
        status = err_no_memory(err);
    if (status == STATUS_OK)
        status = before_of(s, &made, &arena, &before, err);
    if (status == STATUS_OK && text)
        status = pg_words_add(s->counts, *text, &buf, err);
    struct slice words = buf_slice(&buf);
    if (status == STATUS_OK)
        status = put(s, &before, &made, text ? &words : NULL, died, err);
    if (status == STATUS_OK)
        letter->position = made.position;
    buf_release(&buf);
    arena_release(&arena);
    return status;
}
