/* postgres_group: letters with one fingerprint, as one thing.
 *
 * A page of groups takes two waits, whatever its length: the groups, then the samples and the
 * trends of them all. */
#include "store/postgres_letter.h"

#define GROUP_COLUMNS "fingerprint, signature, count, total, first_seen, last_seen, status"
#define SAMPLES (sizeof(((struct letter_group *)0)->sample_ids) / sizeof(struct slice))

static enum status group_read(struct postgres_store *s, const PGresult *rows, int row,
                              struct arena *arena, struct letter_group *out, struct err *err)
{
    *out = (struct letter_group){
        .fingerprint = pg_get_dup(rows, row, 0, arena),
        .signature = pg_get_dup(rows, row, 1, arena),
        .count = pg_get_int(rows, row, 2),
        .total = pg_get_int(rows, row, 3),
        .first_seen = {pg_get_int(rows, row, 4)},
        .last_seen = {pg_get_int(rows, row, 5)},
        .status = (enum group_status)pg_get_int(rows, row, 6),
    };
    if (out->status < GROUP_OPEN || out->status > GROUP_IGNORED)
        return pg_damage(s, err, "a group has status %d", (int)out->status);
    return out->fingerprint.ptr && out->signature.ptr ? STATUS_OK : err_no_memory(err);
}

/* -- samples and trends ------------------------------------------------------------------------ */

/* A few letters of each group: those that are dead before those that are not; newest first. */
static const struct pg_statement samples = {
    "group_samples",
    "SELECT g.n, l.dlq_id FROM unnest($1) WITH ORDINALITY AS g(fingerprint, n) CROSS JOIN LATERAL"
    " (SELECT place, dlq_id FROM " PG_SCHEMA
    ".letter WHERE lazaret.key(fingerprint) = lazaret.key(g.fingerprint) ORDER BY state, place "
    "DESC LIMIT 3) AS l ORDER BY g.n, l.place DESC"};
_Static_assert(SAMPLES == 3, "the number in the statement");

static const struct pg_statement trends = {
    "group_trends",
    "SELECT g.n, h.hour, h.count FROM unnest($1) WITH ORDINALITY AS g(fingerprint, n)"
    " JOIN " PG_SCHEMA ".group_hour AS h ON lazaret.key(h.fingerprint) = "
    "lazaret.key(g.fingerprint) AND h.hour BETWEEN $2 AND $3"};

static enum status samples_read(const PGresult *rows, struct letter_group *groups,
                                struct arena *arena, struct err *err)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        struct letter_group *group = &groups[pg_get_int(rows, i, 0) - 1];
        struct slice id = pg_get_dup(rows, i, 1, arena);
        if (!id.ptr)
            return err_no_memory(err);
        group->sample_ids[group->sample_count++] = id;
    }
    return STATUS_OK;
}

static void trends_read(const PGresult *rows, struct letter_group *groups, int64_t first)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        struct letter_group *group = &groups[pg_get_int(rows, i, 0) - 1];
        group->trend[(pg_get_int(rows, i, 1) - first) / PG_HOUR_US] = pg_get_int(rows, i, 2);
    }
}

/* groups_fill adds samples and trends. */
static enum status groups_fill(struct postgres_store *s, struct letter_group *groups, size_t count,
                               struct instant now, struct arena *arena, struct err *err)
{
    struct pg_params for_samples = {0}, for_trends = {0};
    struct pg_column fingerprints;
    PGresult *rows[2] = {NULL, NULL};
    int64_t first = pg_hour_of(now) - (GROUP_TREND_HOURS - 1) * PG_HOUR_US;
    if (count == 0)
        return STATUS_OK;
    pg_column_init(&fingerprints, PG_TEXT);
    for (size_t i = 0; i < count; i++)
        pg_column_text(&fingerprints, groups[i].fingerprint);
    enum status status = buf_status(&fingerprints.array, err);
    if (status == STATUS_OK) {
        pg_array(&for_samples, &fingerprints);
        pg_array(&for_trends, &fingerprints);
        pg_int(&for_trends, first);
        pg_int(&for_trends, first + (GROUP_TREND_HOURS - 1) * PG_HOUR_US);
        status = pg_ask(s, &samples, &for_samples, err);
    }
    if (status == STATUS_OK)
        status = pg_ask(s, &trends, &for_trends, err);
    if (status == STATUS_OK)
        status = pg_answers(s, rows, 2, err);
    if (status == STATUS_OK) {
        trends_read(rows[1], groups, first);
        status = samples_read(rows[0], groups, arena, err);
    }
    PQclear(rows[0]);
    PQclear(rows[1]);
    buf_release(&fingerprints.array);
    return status;
}

/* groups_read runs a query for groups. */
static enum status groups_read(struct postgres_store *s, const struct pg_statement *statement,
                               struct pg_params *params, struct instant now, struct arena *arena,
                               struct letter_group **out, size_t *count, struct err *err)
{
    PGresult *rows;
    enum status status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = pg_query(s, statement, params, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct letter_group *groups = arena_array(arena, (size_t)total + 1, sizeof(*groups));
    status = groups ? STATUS_OK : err_no_memory(err);
    for (int i = 0; i < total && status == STATUS_OK; i++)
        status = group_read(s, rows, i, arena, &groups[i], err);
    PQclear(rows);
    if (status == STATUS_OK)
        status = groups_fill(s, groups, (size_t)total, now, arena, err);
    if (status == STATUS_OK) {
        *out = groups;
        *count = (size_t)total;
    }
    return status;
}

/* -- the functions ----------------------------------------------------------------------------- */

enum status postgres_group_list(struct store *store, struct instant now, int64_t cursor,
                                size_t limit, struct arena *arena, struct letter_group **out,
                                size_t *count, struct err *err)
{
    static const struct pg_statement statement = {
        "group_list", "SELECT " GROUP_COLUMNS " FROM " PG_SCHEMA ".letter_group"
                      " WHERE last_seen < $1 ORDER BY last_seen DESC LIMIT $2"};
    struct pg_params params = {0};
    pg_int(&params, cursor ? cursor : INT64_MAX);
    pg_int(&params, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    return groups_read(postgres_of(store), &statement, &params, now, arena, out, count, err);
}

static enum status no_group(struct slice fingerprint, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "no group %.*s", SLICE_ARG(fingerprint));
}

enum status postgres_group_get(struct store *store, struct slice fingerprint, struct instant now,
                               struct arena *arena, struct letter_group *out, struct err *err)
{
    static const struct pg_statement statement = {
        "group_get", "SELECT " GROUP_COLUMNS " FROM " PG_SCHEMA
                     ".letter_group WHERE lazaret.key(fingerprint) = lazaret.key($1)"};
    struct pg_params params = {0};
    struct letter_group *groups;
    size_t count;
    pg_name(&params, fingerprint);
    enum status status =
        groups_read(postgres_of(store), &statement, &params, now, arena, &groups, &count, err);
    if (status == STATUS_OK && count == 0)
        return no_group(fingerprint, err);
    if (status == STATUS_OK)
        *out = groups[0];
    return status;
}

enum status postgres_group_set(struct store *store, struct slice fingerprint,
                               enum group_status group_status, struct err *err)
{
    static const struct pg_statement statement = {
        "group_set", "UPDATE " PG_SCHEMA ".letter_group SET status = $1 WHERE "
                     "lazaret.key(fingerprint) = lazaret.key($2) RETURNING 1"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, group_status);
    pg_name(&params, fingerprint);
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK)
        status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = pg_query(s, &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    bool found = PQntuples(rows) > 0;
    PQclear(rows);
    return found ? STATUS_OK : no_group(fingerprint, err);
}
