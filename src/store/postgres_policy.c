/* postgres_policy: named policies, every version of each; and duties. */
#include "store/postgres_letter.h"

/* -- policies ---------------------------------------------------------------------------------- */

#define POLICY_COLUMNS "name, version, body, at"

static enum status policy_read(const PGresult *rows, int row, struct arena *arena,
                               struct stored_policy *out, struct err *err)
{
    *out = (struct stored_policy){.name = pg_get_dup(rows, row, 0, arena),
                                  .version = pg_get_int(rows, row, 1),
                                  .body = pg_get_dup(rows, row, 2, arena),
                                  .at = {pg_get_int(rows, row, 3)}};
    return out->name.ptr && out->body.ptr ? STATUS_OK : err_no_memory(err);
}

enum status postgres_policy_put(struct store *store, struct slice name, struct slice body,
                                struct instant now, int64_t *version, struct err *err)
{
    static const struct pg_statement statement = {
        "policy_put", "INSERT INTO " PG_SCHEMA ".policy(" POLICY_COLUMNS ") SELECT $1,"
                      " 1 + coalesce(max(version), 0), $2, $3 FROM " PG_SCHEMA ".policy"
                      " WHERE name = $1 RETURNING version"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    pg_name(&params, name);
    pg_body(&params, body);
    pg_int(&params, now.us);
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK)
        status = pg_query(s, &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    *version = pg_get_int(rows, 0, 0);
    s->policies_changed = true;
    PQclear(rows);
    return STATUS_OK;
}

enum status postgres_policy_get(struct store *store, struct slice name, int64_t version,
                                struct arena *arena, struct stored_policy *out, struct err *err)
{
    static const struct pg_statement statement = {
        "policy_get", "SELECT " POLICY_COLUMNS " FROM " PG_SCHEMA ".policy WHERE name = $1"
                      " AND ($2 = 0 OR version = $2) ORDER BY version DESC LIMIT 1"};
    struct pg_params params = {0};
    struct stored_policy found;
    PGresult *rows;
    pg_name(&params, name);
    pg_int(&params, version);
    enum status status = pg_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    status = PQntuples(rows) > 0
                 ? policy_read(rows, 0, arena, &found, err)
                 : err_set(err, STATUS_NOT_FOUND, "no policy %.*s", SLICE_ARG(name));
    PQclear(rows);
    if (status == STATUS_OK)
        *out = found;
    return status;
}

enum status postgres_policy_list(struct store *store, struct arena *arena,
                                 struct stored_policy **out, size_t *count, struct err *err)
{
    static const struct pg_statement statement = {
        "policy_list", "SELECT DISTINCT ON (name) " POLICY_COLUMNS " FROM " PG_SCHEMA ".policy"
                       " ORDER BY name, version DESC"};
    PGresult *rows;
    enum status status = pg_query(postgres_of(store), &statement, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct stored_policy *list = arena_array(arena, (size_t)total + 1, sizeof(*list));
    status = list ? STATUS_OK : err_no_memory(err);
    for (int i = 0; i < total && status == STATUS_OK; i++)
        status = policy_read(rows, i, arena, &list[i], err);
    PQclear(rows);
    if (status == STATUS_OK) {
        *out = list;
        *count = (size_t)total;
    }
    return status;
}

/* -- duties ------------------------------------------------------------------------------------ */

enum status postgres_duty_get(struct store *store, struct slice name, struct arena *arena,
                              struct duty *out, struct err *err)
{
    static const struct pg_statement statement = {
        "duty_get", "SELECT name, holder, until, cursor FROM " PG_SCHEMA ".duty WHERE name = $1"};
    struct pg_params params = {0};
    struct duty duty = {0};
    PGresult *rows;
    pg_name(&params, name);
    enum status status = pg_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(rows) == 0)
        status = err_set(err, STATUS_NOT_FOUND, "nobody ever had the duty %.*s", SLICE_ARG(name));
    else
        duty = (struct duty){.name = pg_get_dup(rows, 0, 0, arena),
                             .holder = pg_get_dup(rows, 0, 1, arena),
                             .until = {pg_get_int(rows, 0, 2)},
                             .cursor = pg_get_int(rows, 0, 3)};
    PQclear(rows);
    if (status == STATUS_OK && (!duty.name.ptr || !duty.holder.ptr))
        status = err_no_memory(err);
    if (status == STATUS_OK)
        *out = duty;
    return status;
}

/* Duties are renewed also while nothing else is written: then rows of swarm_dlq that were put off
 * come to their turn. */
enum status postgres_duty_put(struct store *store, const struct duty *duty, struct err *err)
{
    static const struct pg_statement late = {
        "swarm_late", "SELECT " PG_SCHEMA ".swarm_put('{}') WHERE EXISTS (SELECT 1 FROM " PG_SCHEMA
                      ".swarm_late WHERE again < now())"};
    static const struct pg_statement statement = {
        "duty_put", "INSERT INTO " PG_SCHEMA ".duty(name, holder, until, cursor)"
                    " VALUES($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE SET"
                    " holder = EXCLUDED.holder, until = EXCLUDED.until, cursor = EXCLUDED.cursor"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    pg_name(&params, duty->name);
    pg_name(&params, duty->holder);
    pg_int(&params, duty->until.us);
    pg_int(&params, duty->cursor);
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK)
        status = pg_send(s, &statement, &params, err);
    return status == STATUS_OK ? pg_send(s, &late, NULL, err) : status;
}
