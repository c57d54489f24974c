/* postgres_roster: who works for each of the servers that share the store. */
#include "store/postgres.h"

enum status postgres_roster_put(struct store *store, const struct roster *roster, struct err *err)
{
    static const struct pg_statement statement = {
        "roster_put", "INSERT INTO " PG_SCHEMA ".roster(server, until, body) VALUES($1, $2, $3)"
                      " ON CONFLICT (server) DO UPDATE SET until = EXCLUDED.until,"
                      " body = EXCLUDED.body"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    pg_name(&params, roster->server);
    pg_int(&params, roster->until.us);
    pg_body(&params, roster->body);
    enum status status = pg_writable(s, err);
    return status == STATUS_OK ? pg_send(s, &statement, &params, err) : status;
}

enum status postgres_roster_list(struct store *store, struct instant now, struct arena *arena,
                                 struct roster **out, size_t *count, struct err *err)
{
    static const struct pg_statement statement = {
        "roster_list", "SELECT server, until, body FROM " PG_SCHEMA ".roster WHERE until > $1"
                       " ORDER BY server"};
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, now.us);
    enum status status = pg_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    size_t found = (size_t)PQntuples(rows);
    struct roster *rosters = arena_array(arena, found, sizeof(*rosters));
    bool copied = rosters != NULL;
    for (size_t i = 0; copied && i < found; i++) {
        rosters[i] = (struct roster){.server = pg_get_dup(rows, (int)i, 0, arena),
                                     .until = {pg_get_int(rows, (int)i, 1)},
                                     .body = pg_get_dup(rows, (int)i, 2, arena)};
        copied = rosters[i].server.ptr && rosters[i].body.ptr;
    }
    PQclear(rows);
    if (!copied)
        return err_no_memory(err);
    *out = rosters;
    *count = found;
    return STATUS_OK;
}
