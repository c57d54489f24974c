/* postgres_error: what PostgreSQL's SQLSTATEs mean to a person.
 *
 * Each sentence names the database and says what to do. */
#include "store/postgres.h"

/* One row for each SQLSTATE, or class of them, that means something of its own. */
static const struct {
    const char *state; /* five characters, or the two of a class */
    enum status status;
    const char *todo;
} meanings[] = {
    {"08", STATUS_IO, "the connection is lost: it is made anew by itself; nothing was changed"},
    {"57P0", STATUS_IO, "PostgreSQL is going down or coming up: trying again"},
    {"25P03", STATUS_IO, "this server held up the others for too long: trying again"},
    {"53100", STATUS_FULL, "the disk of PostgreSQL is full: free some space there and try again"},
    {"53", STATUS_IO, "PostgreSQL has no more of what it needs: raise its limits, or try again"},
    {"25006", STATUS_READ_ONLY, "this is a standby, or read-only: connect to the primary"},
    {"42501", STATUS_READ_ONLY,
     "the role may not do that: it must own the database, or the schema lazaret and swarm_dlq"},
    {"55P03", STATUS_IO, "another server has had its turn for too long: trying again"},
    {"40", STATUS_IO, "it stood in the way of another transaction: trying again"},
    {"57014", STATUS_IO, "it was cancelled or took too long: try again"},
    {"26000", STATUS_IO,
     "a pooler in transaction mode is in between: start with --postgres-pooled"},
    {"42P05", STATUS_IO,
     "a pooler in transaction mode is in between: start with --postgres-pooled"},
    {"54", STATUS_TOO_LARGE, "a value is too large for PostgreSQL"},
    {"23", STATUS_CONFLICT, "it is in the store already"},
    {"XX001", STATUS_CORRUPT, "the database is damaged: nothing was repaired; restore it"},
    {"XX002", STATUS_CORRUPT, "an index is damaged: nothing was repaired; REINDEX it"},
    {"42P01", STATUS_CORRUPT, "a table of the schema lazaret is missing: restore the database"},
    {"42703", STATUS_CORRUPT, "a column of the schema lazaret is missing: restore the database"},
    {"3F000", STATUS_CORRUPT, "the schema lazaret is missing: restore the database"},
};
#define MEANINGS (sizeof(meanings) / sizeof(meanings[0]))

static size_t meaning_of(const char *state)
{
    size_t i = 0;
    while (i < MEANINGS && strncmp(state, meanings[i].state, strlen(meanings[i].state)) != 0)
        i++;
    return i;
}

enum status pg_error(struct postgres_store *s, const PGresult *result, struct err *err)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *why = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (s->in_transaction)
        s->failed = true;
    if (!state && !s->link)
        return err_set(err, s->reason_status, "PostgreSQL at %s cannot be %s (%s): trying again",
                       s->where, s->reason_status == STATUS_IO ? "reached" : "used", s->reason);
    if (!state)
        return err_set(err, STATUS_IO, "PostgreSQL at %s: the answer was not understood: try again",
                       s->where);
    size_t i = meaning_of(state);
    if (i < MEANINGS)
        return err_set(err, meanings[i].status, "PostgreSQL at %s: %s (%s)", s->where,
                       meanings[i].todo, why ? why : state);
    return err_set(err, STATUS_IO,
                   "PostgreSQL at %s: it was refused (%s; SQLSTATE %s): nothing was changed",
                   s->where, why ? why : "no reason was given", state);
}
