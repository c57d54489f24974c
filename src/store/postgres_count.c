/* postgres_count: what is counted about letters, so that summaries never scan.
 *
 * Three things are kept whenever a letter is written: how many letters share state, recoverability,
 * reason, source and queue; the group of each fingerprint; and deaths by hour, in all and for each
 * group.  A letter that changes is taken out of the count of what it was and put into that of what
 * it is.
 *
 * The changes of a turn are collected as rows; one statement for each table sums them up, so that
 * no row is written twice. */
#include "store/postgres_letter.h"

int64_t pg_hour_of(struct instant t)
{
    int64_t past = t.us % PG_HOUR_US;
    return instant_add(t, (struct span){past < 0 ? -past - PG_HOUR_US : -past}).us;
}

/* -- statements -------------------------------------------------------------------------------- */

/* What row t of letter_count is about, and row d of what is to be added. */
#define COUNTED                                                                                    \
    "t.state = d.state AND t.recoverable = d.recoverable"                                          \
    " AND lazaret.key(t.reason) = lazaret.key(d.reason)"                                           \
    " AND lazaret.key(t.source) = lazaret.key(d.source)"                                           \
    " AND lazaret.key(t.queue) = lazaret.key(d.queue)"

/* A count that comes to nothing is removed, not kept as 0. */
static const struct pg_statement counts_add = {
    "counts_add",
    "WITH d AS (SELECT state, recoverable, reason, source, queue, sum(by)::bigint AS by"
    " FROM unnest($1, $2, $3, $4, $5, $6) AS t(state, recoverable, reason, source, queue, by)"
    " GROUP BY 1, 2, 3, 4, 5 HAVING sum(by) <> 0),"
    " gone AS (DELETE FROM " PG_SCHEMA ".letter_count AS t USING d"
    " WHERE " COUNTED " AND t.count + d.by = 0)"
    " INSERT INTO " PG_SCHEMA ".letter_count(state, recoverable, reason, source, queue, count)"
    " SELECT state, recoverable, reason, source, queue, by FROM d WHERE NOT EXISTS"
    " (SELECT 1 FROM " PG_SCHEMA ".letter_count AS t WHERE " COUNTED " AND t.count + d.by = 0)"
    " ON CONFLICT (state, recoverable, lazaret.key(reason), lazaret.key(source),"
    " lazaret.key(queue)) DO UPDATE SET count = letter_count.count + EXCLUDED.count"};

/* A death opens a group that was resolved; one that is ignored stays so. */
static const struct pg_statement groups_add = {
    "groups_add",
    "INSERT INTO " PG_SCHEMA ".letter_group(fingerprint, signature, count, total, first_seen,"
    " last_seen, status) SELECT fingerprint, (array_agg(signature))[1], sum(by), sum(died),"
    " min(failed_at), max(position), 0 FROM unnest($1, $2, $3, $4, $5, $6)"
    " AS t(fingerprint, signature, by, died, failed_at, position) GROUP BY fingerprint"
    " ON CONFLICT (lazaret.key(fingerprint)) DO UPDATE SET count = letter_group.count + "
    "EXCLUDED.count,"
    " total = letter_group.total + EXCLUDED.total,"
    " first_seen = least(letter_group.first_seen, EXCLUDED.first_seen),"
    " last_seen = greatest(letter_group.last_seen, EXCLUDED.last_seen),"
    " status = CASE WHEN EXCLUDED.total > 0 AND letter_group.status = 1 THEN 0"
    " ELSE letter_group.status END"};
_Static_assert(GROUP_OPEN == 0 && GROUP_RESOLVED == 1, "the numbers in groups_add");

static const struct pg_statement hours_add = {
    "hours_add",
    "WITH d AS (SELECT fingerprint, hour FROM unnest($1, $2) AS t(fingerprint, hour)),"
    " every AS (INSERT INTO " PG_SCHEMA ".death_hour AS t(hour, count)"
    " SELECT hour, count(*) FROM d GROUP BY hour"
    " ON CONFLICT (hour) DO UPDATE SET count = t.count + EXCLUDED.count)"
    " INSERT INTO " PG_SCHEMA ".group_hour AS t(fingerprint, hour, count)"
    " SELECT fingerprint, hour, count(*) FROM d WHERE fingerprint IS NOT NULL GROUP BY 1, 2"
    " ON CONFLICT (lazaret.key(fingerprint), hour) DO UPDATE SET count = t.count + EXCLUDED.count"};

static const Oid count_types[] = {PG_INT8, PG_INT8, PG_TEXT, PG_TEXT, PG_TEXT, PG_INT8};
static const Oid group_types[] = {PG_TEXT, PG_TEXT, PG_INT8, PG_INT8, PG_INT8, PG_INT8};
static const Oid hour_types[] = {PG_TEXT, PG_INT8};

void pg_counts_init(struct pg_counts *counts)
{
    pg_columns_init(&counts->counts, &counts_add, count_types, 6);
    pg_columns_init(&counts->groups, &groups_add, group_types, 6);
    pg_columns_init(&counts->hours, &hours_add, hour_types, 2);
}

void pg_counts_release(struct pg_counts *counts)
{
    pg_columns_release(&counts->counts);
    pg_columns_release(&counts->groups);
    pg_columns_release(&counts->hours);
}

void pg_counts_clear(struct pg_counts *counts)
{
    pg_columns_clear(&counts->counts);
    pg_columns_clear(&counts->groups);
    pg_columns_clear(&counts->hours);
}

bool pg_counts_waiting(const struct pg_counts *counts)
{
    return counts->counts.rows > 0 || counts->groups.rows > 0 || counts->hours.rows > 0;
}

enum status pg_counts_flush(struct postgres_store *s, struct err *err)
{
    enum status status = pg_flush_columns(s, &s->counts->counts, err);
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &s->counts->groups, err);
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &s->counts->hours, err);
    return status;
}

/* -- changes ----------------------------------------------------------------------------------- */

/* is_open says whether a letter in this state still wants something to be done. */
static bool is_open(enum letter_state state)
{
    return state == LETTER_DEAD || state == LETTER_RECOVERING;
}

static bool counted_alike(const struct known_letter *a, const struct known_letter *b)
{
    return a->state == b->state && a->recoverable == b->recoverable &&
           slice_eq(a->reason, b->reason) && slice_eq(a->source, b->source) &&
           slice_eq(a->queue, b->queue);
}

static enum status count_add(struct postgres_store *s, const struct known_letter *letter,
                             int64_t by, struct err *err)
{
    struct pg_columns *columns = &s->counts->counts;
    pg_add_int(columns, letter->state);
    pg_add_int(columns, letter->recoverable);
    pg_add_name(columns, letter->reason);
    pg_add_name(columns, letter->source);
    pg_add_name(columns, letter->queue);
    pg_add_int(columns, by);
    return pg_row_end(s, columns, err);
}

/* group_add changes a group by one letter: `by` of its count, and a death when `died`. */
static enum status group_add(struct postgres_store *s, const struct known_letter *letter,
                             int64_t by, bool died, struct err *err)
{
    struct pg_columns *columns = &s->counts->groups;
    pg_add_name(columns, letter->fingerprint);
    pg_add_text(columns, letter->signature);
    pg_add_int(columns, by);
    pg_add_int(columns, died);
    pg_add_int(columns, letter->failed_at.us);
    pg_add_int(columns, letter->position);
    return pg_row_end(s, columns, err);
}

static enum status groups_change(struct postgres_store *s, const struct known_letter *before,
                                 const struct known_letter *now, bool died, struct err *err)
{
    bool was_open = before && is_open(before->state), opens = now && is_open(now->state);
    enum status status = STATUS_OK;
    if (before && now && slice_eq(before->fingerprint, now->fingerprint)) {
        if (now->fingerprint.len == 0 || (was_open == opens && !died))
            return STATUS_OK;
        return group_add(s, now, opens - was_open, died, err);
    }
    if (was_open && before->fingerprint.len)
        status = group_add(s, before, -1, false, err);
    if (status == STATUS_OK && now && now->fingerprint.len)
        status = group_add(s, now, opens, died, err);
    return status;
}

static enum status hour_add(struct postgres_store *s, const struct known_letter *letter,
                            struct err *err)
{
    pg_add_text(&s->counts->hours, letter->fingerprint);
    pg_add_int(&s->counts->hours, pg_hour_of(letter->failed_at));
    return pg_row_end(s, &s->counts->hours, err);
}

enum status pg_count_change(struct postgres_store *s, const struct known_letter *before,
                            const struct known_letter *now, bool died, struct err *err)
{
    bool alike = before && now && counted_alike(before, now);
    enum status status = STATUS_OK;
    if (before && !alike)
        status = count_add(s, before, -1, err);
    if (status == STATUS_OK && now && !alike)
        status = count_add(s, now, 1, err);
    if (status == STATUS_OK)
        status = groups_change(s, before, now, died, err);
    if (status == STATUS_OK && now && died)
        status = hour_add(s, now, err);
    return status;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* settled_query is pg_query of what this turn may have changed. */
static enum status settled_query(struct postgres_store *s, const struct pg_statement *statement,
                                 struct pg_params *params, PGresult **rows, struct err *err)
{
    enum status status = pg_settled(s, err);
    return status == STATUS_OK ? pg_query(s, statement, params, rows, err) : status;
}

enum status postgres_letter_counts(struct store *store, struct arena *arena,
                                   struct letter_count **out, size_t *count, struct err *err)
{
    static const struct pg_statement statement = {
        "letter_counts", "SELECT state, recoverable, reason, source, queue, count"
                         " FROM " PG_SCHEMA ".letter_count WHERE count > 0"};
    PGresult *rows;
    enum status status = settled_query(postgres_of(store), &statement, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct letter_count *list = arena_array(arena, (size_t)total + 1, sizeof(*list));
    bool ok = list != NULL;
    for (int i = 0; i < total && ok; i++) {
        list[i] = (struct letter_count){
            .state = (enum letter_state)pg_get_int(rows, i, 0),
            .recoverable = pg_get_int(rows, i, 1) != 0,
            .reason = pg_get_dup(rows, i, 2, arena),
            .source = pg_get_dup(rows, i, 3, arena),
            .queue = pg_get_dup(rows, i, 4, arena),
            .count = pg_get_int(rows, i, 5),
        };
        ok = list[i].reason.ptr && list[i].source.ptr && list[i].queue.ptr;
    }
    PQclear(rows);
    if (!ok)
        return err_no_memory(err);
    *out = list;
    *count = (size_t)total;
    return STATUS_OK;
}

/* bound_of is the first or the last of two columns that are not NULL; not set: both are. */
static struct instant bound_of(const PGresult *rows, int column, bool newest)
{
    struct instant found = INSTANT_NONE;
    for (int i = column; i < column + 2; i++) {
        struct instant t = {pg_get_int(rows, 0, i)};
        if (PQgetisnull(rows, 0, i))
            continue;
        if (!instant_is_set(found) ||
            (newest ? instant_before(found, t) : instant_before(t, found)))
            found = t;
    }
    return found;
}

#define BOUND(where, order)                                                                        \
    "(SELECT failed_at FROM " PG_SCHEMA ".letter WHERE " where " ORDER BY place" order " LIMIT 1)"

enum status postgres_letter_bounds(struct store *store, struct instant *oldest,
                                   struct instant *newest, struct err *err)
{
    static const struct pg_statement statement = {
        "letter_bounds", "SELECT " BOUND("state = 0", "") ", " BOUND("state = 1", "") ", " BOUND(
                             "state = 0", " DESC") ", " BOUND("state = 1", " DESC")};
    PGresult *rows;
    enum status status = settled_query(postgres_of(store), &statement, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    *oldest = bound_of(rows, 0, false);
    *newest = bound_of(rows, 2, true);
    PQclear(rows);
    return STATUS_OK;
}
_Static_assert(LETTER_DEAD == 0 && LETTER_RECOVERING == 1, "the numbers in the statements");

enum status postgres_letter_oldest(struct store *store, struct slice queue, struct instant *oldest,
                                   struct err *err)
{
    static const struct pg_statement statement = {
        "letter_oldest",
        "SELECT " BOUND("lazaret.key(queue) = lazaret.key($1) AND state = 0",
                        "") ", " BOUND("lazaret.key(queue) = lazaret.key($1) AND state = 1", "")};
    struct pg_params params = {0};
    PGresult *rows;
    pg_text(&params, queue);
    enum status status = settled_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    *oldest = bound_of(rows, 0, false);
    PQclear(rows);
    return STATUS_OK;
}

enum status postgres_letter_run(struct store *store, struct slice run_id, int64_t *dead,
                                int64_t *recovering, struct err *err)
{
    static const struct pg_statement statement = {
        "letter_run", "SELECT (SELECT count(*) FROM " PG_SCHEMA
                      ".letter WHERE lazaret.key(run_id) = lazaret.key($1)"
                      " AND state = 0), (SELECT count(*) FROM " PG_SCHEMA ".letter"
                      " WHERE lazaret.key(run_id) = lazaret.key($1) AND state = 1)"};
    struct pg_params params = {0};
    PGresult *rows;
    pg_name(&params, run_id);
    enum status status = settled_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    *dead = pg_get_int(rows, 0, 0);
    *recovering = pg_get_int(rows, 0, 1);
    PQclear(rows);
    return STATUS_OK;
}

enum status postgres_letter_hours(struct store *store, struct instant from, struct arena *arena,
                                  struct hour_count **out, size_t *count, struct err *err)
{
    static const struct pg_statement statement = {"letter_hours",
                                                  "SELECT hour, count FROM " PG_SCHEMA
                                                  ".death_hour WHERE hour >= $1 ORDER BY hour"};
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, pg_hour_of(from));
    enum status status = settled_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct hour_count *hours = arena_array(arena, (size_t)total + 1, sizeof(*hours));
    for (int i = 0; i < total && hours; i++)
        hours[i] = (struct hour_count){{pg_get_int(rows, i, 0)}, pg_get_int(rows, i, 1)};
    PQclear(rows);
    if (!hours)
        return err_no_memory(err);
    *out = hours;
    *count = (size_t)total;
    return STATUS_OK;
}
