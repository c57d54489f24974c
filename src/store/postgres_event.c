/* postgres_event: the evidence: appended, never changed.
 *
 * The events of a turn are numbered and chained in memory and go out together: the head of the
 * chain is the row that the turn holds.  PostgreSQL's text takes no broken UTF-8, and what was
 * hashed must come back as it was: where `why` is not clean, `why_raw` has its bytes. */
#include "store/postgres.h"

#define EVENT_COLUMNS "seq, at, actor, job, previous, what, why, why_raw, hash"

static const Oid event_types[] = {PG_INT8, PG_INT8, PG_TEXT,  PG_INT8, PG_INT8,
                                  PG_TEXT, PG_TEXT, PG_BYTEA, PG_BYTEA};
static const struct pg_statement event_insert = {
    "event_insert", "INSERT INTO " PG_SCHEMA ".event(" EVENT_COLUMNS ")"
                    " SELECT * FROM unnest($1::" PG_SCHEMA ".event_row[])"};

void pg_events_init(struct postgres_store *s)
{
    pg_rows_init(&s->events, &event_insert, PG_ROW_EVENT, event_types,
                 sizeof(event_types) / sizeof(event_types[0]));
}

enum status postgres_event_append(struct store *store, struct event *event, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    enum status status = pg_writable(s, err);
    if (status != STATUS_OK)
        return status;
    struct event made = *event;
    made.seq = s->event_seq + 1;
    made.actor = pg_text_cleaned(made.actor, &s->arena);
    made.what = pg_text_cleaned(made.what, &s->arena);
    if (!made.actor.ptr || !made.what.ptr)
        return pg_fail_write(s, err);
    made.hash = event_hash(&made, s->event_hash);
    pg_add_int(&s->events, made.seq);
    pg_add_int(&s->events, made.at.us);
    pg_add_name(&s->events, made.actor);
    pg_add_int(&s->events, made.job_seq);
    pg_add_int(&s->events, made.previous_seq);
    pg_add_name(&s->events, made.what);
    pg_add_name(&s->events, made.why);
    if (pg_text_is_clean(made.why))
        pg_add_null(&s->events);
    else
        pg_add_body(&s->events, made.why);
    pg_add_body(&s->events, (struct slice){(const char *)made.hash.bytes, HASH_SIZE});
    status = pg_row_end(s, &s->events, err);
    if (status != STATUS_OK)
        return status;
    event->seq = s->event_seq = made.seq;
    event->hash = s->event_hash = made.hash;
    return STATUS_OK;
}

static enum status event_read(struct postgres_store *s, const PGresult *rows, int row,
                              struct arena *arena, struct event *out, struct err *err)
{
    struct slice hash = pg_get_slice(rows, row, 8);
    *out = (struct event){.seq = pg_get_int(rows, row, 0),
                          .at = {pg_get_int(rows, row, 1)},
                          .actor = pg_get_dup(rows, row, 2, arena),
                          .job_seq = pg_get_int(rows, row, 3),
                          .previous_seq = pg_get_int(rows, row, 4),
                          .what = pg_get_dup(rows, row, 5, arena),
                          .why = pg_get_dup(rows, row, PQgetisnull(rows, row, 7) ? 6 : 7, arena)};
    if (!out->actor.ptr || !out->what.ptr || !out->why.ptr)
        return err_no_memory(err);
    if (hash.len != HASH_SIZE)
        return pg_damage(s, err, "event %lld says what cannot be", (long long)out->seq);
    memcpy(out->hash.bytes, hash.ptr, HASH_SIZE);
    return STATUS_OK;
}

/* events_read reads all rows of an answer, which it takes. */
static enum status events_read(struct postgres_store *s, PGresult *rows, struct arena *arena,
                               struct event **out, size_t *count, struct err *err)
{
    size_t found = (size_t)PQntuples(rows);
    struct event *events = arena_array(arena, found + 1, sizeof(*events));
    enum status status = events ? STATUS_OK : err_no_memory(err);
    for (size_t i = 0; i < found && status == STATUS_OK; i++)
        status = event_read(s, rows, (int)i, arena, &events[i], err);
    PQclear(rows);
    if (status == STATUS_OK) {
        *out = events;
        *count = found;
    }
    return status;
}

static const struct pg_statement event_list = {"event_list",
                                               "SELECT " EVENT_COLUMNS " FROM " PG_SCHEMA
                                               ".event WHERE seq > $1 ORDER BY seq LIMIT $2"};

enum status postgres_event_list(struct store *store, int64_t after, size_t limit,
                                struct arena *arena, struct event **out, size_t *count,
                                struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, after);
    pg_int(&params, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    enum status status = pg_flush_columns(s, &s->events, err);
    if (status == STATUS_OK)
        status = pg_query(s, &event_list, &params, &rows, err);
    return status == STATUS_OK ? events_read(s, rows, arena, out, count, err) : status;
}

/* The list of a job's events leads back; a damaged one could go round for ever, so each step must
 * go down.  A step that finds no event gives a row without a hash. */
static const struct pg_statement event_of_job = {
    "event_of_job",
    "WITH RECURSIVE back(seq) AS (SELECT $1::bigint UNION ALL"
    " SELECT e.previous FROM back JOIN " PG_SCHEMA ".event AS e ON e.seq = back.seq"
    " WHERE e.previous > $2 AND e.previous > 0 AND e.previous < e.seq),"
    " first AS (SELECT seq FROM back ORDER BY seq LIMIT $3)"
    " SELECT first.seq, at, actor, job, previous, what, why, why_raw, hash,"
    " (SELECT count(*) FROM back LEFT JOIN " PG_SCHEMA ".event AS e USING (seq)"
    "  WHERE e.seq IS NULL OR e.previous >= e.seq)"
    " FROM first LEFT JOIN " PG_SCHEMA ".event AS e ON e.seq = first.seq ORDER BY first.seq"};

enum status postgres_event_of_job(struct store *store, int64_t last, int64_t after, size_t limit,
                                  struct arena *arena, struct event **out, size_t *count,
                                  struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    if (last <= after || last <= 0) {
        *count = 0;
        *out = arena_array(arena, 1, sizeof(**out));
        return *out ? STATUS_OK : err_no_memory(err);
    }
    pg_int(&params, last);
    pg_int(&params, after);
    pg_int(&params, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    enum status status = pg_flush_columns(s, &s->events, err);
    if (status == STATUS_OK)
        status = pg_query(s, &event_of_job, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(rows) > 0 && pg_get_int(rows, 0, 9) != 0) {
        status = pg_damage(s, err, "the events of job %lld do not lead back",
                           (long long)pg_get_int(rows, PQntuples(rows) - 1, 3));
        PQclear(rows);
        return status;
    }
    return events_read(s, rows, arena, out, count, err);
}

void postgres_event_head(struct store *store, int64_t *seq, struct hash *hash)
{
    *seq = postgres_of(store)->event_seq;
    *hash = postgres_of(store)->event_hash;
}
