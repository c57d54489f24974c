/* test_store_postgres: the shared store, held to the contracts of store.h.
 *
 *     test_store_postgres            on a database that is as new for each case
 *     test_store_postgres --pooled   the same behind a pgbouncer in transaction mode */
#include "store/suite.h"

#include <string.h>

#include "base/seams.h"
#include "store/pgserver.h"

/* One database serves all cases: before each its rows are made to be those of a new one, which is
 * faster than to make one. */
static char database[PGSERVER_URL_MAX];
static bool pooled;

/* What a new database has, kept in a schema of its own. */
static const char *const keep =
    "CREATE SCHEMA kept;"
    "DO $$ DECLARE t record; BEGIN"
    " FOR t IN SELECT schemaname, tablename FROM pg_tables"
    "   WHERE schemaname IN ('lazaret', 'public') LOOP"
    "  EXECUTE format('CREATE TABLE kept.%I AS SELECT * FROM %I.%I', t.tablename, t.schemaname,"
    "   t.tablename);"
    " END LOOP; END $$";

/* As triggers and constraints do not see. */
static const char *const restore =
    "SET session_replication_role = replica;"
    "DO $$ DECLARE t record; has_rows bool; BEGIN"
    " FOR t IN SELECT schemaname, tablename FROM pg_tables"
    "   WHERE schemaname IN ('lazaret', 'public') LOOP"
    "  EXECUTE format('DELETE FROM %I.%I', t.schemaname, t.tablename);"
    "  EXECUTE format('SELECT EXISTS (SELECT FROM kept.%I)', t.tablename) INTO has_rows;"
    "  IF has_rows THEN"
    "   EXECUTE format('INSERT INTO %I.%I SELECT * FROM kept.%I', t.schemaname, t.tablename,"
    "    t.tablename);"
    "  END IF;"
    " END LOOP;"
    " FOR t IN SELECT schemaname, sequencename FROM pg_sequences LOOP"
    "  EXECUTE format('ALTER SEQUENCE %I.%I RESTART', t.schemaname, t.sequencename);"
    " END LOOP; END $$";

static enum status open_at(const char *url, struct store **out, struct err *err)
{
    char pool[PGSERVER_URL_MAX];
    if (pooled)
        pgserver_pooled(pool, url);
    const struct postgres_config config = {
        .url = pooled ? pool : url, .seams = seams_real(), .pooled = pooled};
    return store_postgres_open(&config, out, err);
}

static enum status postgres_open(const char *directory, struct store **out, struct err *err)
{
    (void)directory;
    return open_at(database, out, err);
}

static void database_renew(void)
{
    free(pgserver_sql(database, restore));
}

/* database_make has the tables made, directly and not through the pooler. */
static bool database_make(void)
{
    struct store *store;
    struct err err;
    pgserver_database(database, NULL);
    const struct postgres_config config = {.url = database, .seams = seams_real()};
    if (store_postgres_open(&config, &store, &err) != STATUS_OK) {
        print_error("%s\n", err.text);
        return false;
    }
    store->close(store);
    free(pgserver_sql(database, keep));
    return true;
}

int main(int argc, char **argv)
{
    static struct store_kind kind = {"postgres", postgres_open, database_renew, true};
    if (!database_make())
        return 1;
    pooled = argc > 1 && strcmp(argv[1], "--pooled") == 0;
    if (pooled)
        kind.name = "postgres-pooled";
    return suite_run(&kind);
}
