/* postgres_swarm: what other programs see and write: the relation swarm_dlq, and the inbox.
 *
 * The letters that a turn wrote or purged are shown when it is committed, all of them in one
 * statement that reads them from their tables (postgres_swarm_schema.c). */
#include "store/postgres_letter.h"

#include "base/log.h"

enum status pg_swarm_show(struct postgres_store *s, struct slice dlq_id, struct err *err)
{
    pg_column_text(&s->counts->shown, dlq_id);
    return s->counts->shown.array.status == STATUS_OK ? STATUS_OK : pg_fail_write(s, err);
}

enum status pg_swarm_flush(struct postgres_store *s, struct err *err)
{
    static const struct pg_statement statement = {"swarm_put",
                                                  "SELECT " PG_SCHEMA ".swarm_put($1)"};
    struct pg_params params = {0};
    if (s->counts->shown.count == 0)
        return STATUS_OK;
    pg_array(&params, &s->counts->shown);
    enum status status = pg_send(s, &statement, &params, err);
    pg_column_clear(&s->counts->shown);
    return status;
}

enum status pg_swarm_open(struct postgres_store *s, struct err *err)
{
    static const struct pg_statement statement = {
        NULL, "SELECT to_regclass('swarm_dlq') IS NOT NULL,"
              " coalesce(obj_description(to_regclass('swarm_events'), 'pg_class')"
              " = 'the events of Lazaret', false),"
              " (SELECT count(*) FROM " PG_SCHEMA ".swarm_late),"
              " (SELECT error FROM " PG_SCHEMA ".swarm_late ORDER BY again DESC LIMIT 1)"};
    PGresult *rows;
    enum status status = pg_query(s, &statement, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (!pg_get_int(rows, 0, 0))
        log_line(
            LOG_WARN,
            "PostgreSQL at %s: there is no table swarm_dlq in the search_path: programs of the "
            "swarm see no letters",
            s->where);
    if (!pg_get_int(rows, 0, 1))
        log_line(LOG_WARN,
                 "PostgreSQL at %s: the relation swarm_events is not Lazaret's: it was left as it "
                 "is and shows no events of Lazaret",
                 s->where);
    if (pg_get_int(rows, 0, 2) > 0)
        log_line(LOG_WARN, "PostgreSQL at %s: %lld rows of swarm_dlq could not be written (%.*s)",
                 s->where, (long long)pg_get_int(rows, 0, 2), SLICE_ARG(pg_get_slice(rows, 0, 3)));
    PQclear(rows);
    return STATUS_OK;
}

/* -- the inbox --------------------------------------------------------------------------------- */

enum status postgres_inbox_list(struct store *store, size_t limit, struct arena *arena,
                                struct inbox_item **out, size_t *count, struct err *err)
{
    static const struct pg_statement statement = {
        "inbox_list", "SELECT seq, is_new, body FROM " PG_SCHEMA ".inbox ORDER BY seq LIMIT $1"};
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    enum status status = pg_query(postgres_of(store), &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct inbox_item *items = arena_array(arena, (size_t)total + 1, sizeof(*items));
    bool ok = items != NULL;
    for (int i = 0; i < total && ok; i++) {
        items[i] = (struct inbox_item){.seq = pg_get_int(rows, i, 0),
                                       .is_new = pg_get_int(rows, i, 1) != 0,
                                       .body = pg_get_dup(rows, i, 2, arena)};
        ok = items[i].body.ptr != NULL;
    }
    PQclear(rows);
    if (!ok)
        return err_no_memory(err);
    *out = items;
    *count = (size_t)total;
    return STATUS_OK;
}

enum status postgres_inbox_done(struct store *store, const int64_t *seqs, size_t count,
                                struct err *err)
{
    static const struct pg_statement statement = {"inbox_done", "DELETE FROM " PG_SCHEMA
                                                                ".inbox WHERE seq = ANY($1)"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    struct pg_column column;
    enum status status = pg_writable(s, err);
    if (status != STATUS_OK || count == 0)
        return status;
    pg_column_init(&column, PG_INT8);
    for (size_t i = 0; i < count; i++)
        pg_column_int(&column, seqs[i]);
    status = buf_status(&column.array, err);
    if (status == STATUS_OK) {
        pg_array(&params, &column);
        status = pg_send(s, &statement, &params, err);
    } else {
        s->failed = true;
    }
    buf_release(&column.array);
    return status;
}
