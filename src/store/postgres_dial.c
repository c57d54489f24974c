/* postgres_dial: the connection: made, and after it was lost made again.
 *
 * A try that fails lets the next one wait, each time longer; until then whatever needs a connection
 * fails at once, and says why there is none. */
#include "store/postgres.h"

#include "base/log.h"

#define RETRY_MS_MIN 100
#define RETRY_MS_MAX 5000
#define CLOCK_SECONDS_MAX 2 /* that the database's clock may differ from ours unremarked */
#define VERSION_MIN 120000

/* option is what a parsed connection string says under a name; `other` when it says nothing. */
static const char *option(const PQconninfoOption *options, const char *name, const char *other)
{
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, name) == 0 && options->val && *options->val)
            return options->val;
    return other;
}

/* libpq's own words for a url that it does not understand may have the password in them. */
enum status pg_where_find(struct postgres_store *s, struct err *err)
{
    PQconninfoOption *options = PQconninfoParse(s->url, NULL);
    if (!options)
        return err_set(err, STATUS_INVALID,
                       "the database's address is not understood: it is like "
                       "postgres://USER@HOST:PORT/DATABASE, with special characters "
                       "percent-encoded");
    const char *user = option(options, "user", "");
    snprintf(s->where, sizeof(s->where), "%s:%s/%s",
             option(options, "host", option(options, "hostaddr", "localhost")),
             option(options, "port", "5432"), option(options, "dbname", user));
    PQconninfoFree(options);
    return STATUS_OK;
}

static void notice_ignored(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

PGconn *pg_dial(const char *url, const char *timeout_seconds, char *reason, size_t size)
{
    /* What stands before the url is a default that the url may change. */
    const char *const keys[] = {"connect_timeout",
                                "fallback_application_name",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "tcp_user_timeout",
                                "dbname",
                                "client_encoding",
                                NULL};
    const char *const values[] = {timeout_seconds, "lazaret", "5",    "3", "3",
                                  "15000",         url,       "UTF8", NULL};
    PGconn *link = PQconnectdbParams(keys, values, 1);
    if (link && PQstatus(link) == CONNECTION_OK) {
        PQsetNoticeProcessor(link, notice_ignored, NULL);
        return link;
    }
    const char *why = link ? PQerrorMessage(link) : "memory is exhausted";
    const char *password = link ? PQpass(link) : NULL;
    if (password && *password && strstr(why, password))
        why = "the reason has the password in it";
    pg_reason_set(reason, size, why);
    PQfinish(link);
    return NULL;
}

/* What every session of ours is set to; behind a pooler every transaction.  A plan that was made
 * while a table was small must not read all of it when it has grown: every table has the index that
 * is needed. */
#define SETTINGS(local)                                                                            \
    "SELECT set_config('idle_in_transaction_session_timeout', '10s', " local "),"                  \
    " set_config('lock_timeout', '15s', " local "), set_config('jit', 'off', " local "),"          \
    " set_config('enable_seqscan', 'off', " local "),"                                             \
    " set_config('client_min_messages', 'warning', " local "),"                                    \
    " CASE WHEN current_setting('synchronous_commit') = 'off'"                                     \
    " THEN set_config('synchronous_commit', 'on', " local ") END"

static const struct pg_statement settings_session = {"settings", SETTINGS("false")};
const struct pg_statement pg_settings_local = {"settings_local", SETTINGS("true")};

static const struct pg_statement facts = {
    "facts", "SELECT pg_is_in_recovery(), current_setting('server_encoding'),"
             " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"};

static const struct pg_statement row_types = {
    "row_types", "SELECT to_regtype('lazaret.job_row')::oid, to_regtype('lazaret.job_change')::oid,"
                 " to_regtype('lazaret.finished_row')::oid, to_regtype('lazaret.event_row')::oid,"
                 " to_regtype('lazaret.envelope_row')::oid, to_regtype('lazaret.attempt_row')::oid,"
                 " to_regtype('lazaret.letter_row')::oid"};

/* row_types_take notes the numbers, in the order of enum pg_row. */
static void row_types_take(struct postgres_store *s, const PGresult *rows)
{
    for (int i = PG_ROW_NONE + 1; i < PG_ROW_COUNT; i++)
        s->row_types[i] = (Oid)pg_get_int(rows, 0, i - 1);
}

enum status pg_rows_find(struct postgres_store *s, struct err *err)
{
    PGresult *rows;
    enum status status = pg_query(s, &row_types, NULL, &rows, err);
    if (status == STATUS_OK)
        row_types_take(s, rows);
    PQclear(rows);
    return status;
}

/* unusable is for a database that answers and is not one for us. */
static enum status unusable(struct postgres_store *s, enum status status, const char *why,
                            struct err *err)
{
    pg_reason_set(s->reason, sizeof(s->reason), why);
    pg_disconnect(s);
    s->reason_status = status;
    return pg_error(s, NULL, err);
}

static void clock_compare(const struct postgres_store *s, int64_t theirs)
{
    double apart =
        span_to_seconds(instant_since((struct instant){theirs}, s->seams->wall(s->seams->ctx)));
    if (apart > CLOCK_SECONDS_MAX || apart < -CLOCK_SECONDS_MAX)
        log_line(LOG_WARN,
                 "PostgreSQL at %s: its clock is %.1f seconds %s: leases and retries are timed by "
                 "the servers' clocks, so set them all by NTP",
                 s->where, apart < 0 ? -apart : apart, apart < 0 ? "behind" : "ahead");
}

/* settle sets a new connection up and looks at what is at its other end. */
static enum status settle(struct postgres_store *s, struct err *err)
{
    PGresult *rows[2] = {NULL, NULL};
    if (PQserverVersion(s->link) < VERSION_MIN)
        return unusable(s, STATUS_FOREIGN, "it is older than PostgreSQL 12: use a later one", err);
    if (PQsetnonblocking(s->link, 1) != 0 || PQenterPipelineMode(s->link) != 1)
        return pg_lost(s, NULL, err);
    enum status status = s->pooled ? STATUS_OK : pg_send(s, &settings_session, NULL, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &facts, NULL, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &row_types, NULL, err);
    if (status == STATUS_OK)
        status = pg_answers(s, rows, 2, err);
    if (status != STATUS_OK)
        return status;
    bool standby = pg_get_int(rows[0], 0, 0) != 0;
    bool utf8 = slice_is(pg_get_slice(rows[0], 0, 1), "UTF8");
    clock_compare(s, pg_get_int(rows[0], 0, 2));
    row_types_take(s, rows[1]);
    PQclear(rows[0]);
    PQclear(rows[1]);
    if (standby)
        return unusable(s, STATUS_READ_ONLY, "it is a standby: connect to the primary", err);
    if (!utf8)
        return unusable(s, STATUS_FOREIGN,
                        "its encoding is not UTF8: make a database with ENCODING 'UTF8'", err);
    return STATUS_OK;
}

/* where_set notes where the connection goes, for sentences. */
static void where_set(struct postgres_store *s)
{
    const char *host = PQhost(s->link), *port = PQport(s->link), *name = PQdb(s->link);
    snprintf(s->where, sizeof(s->where), "%s:%s/%s", host ? host : "", port ? port : "",
             name ? name : "");
}

/* retry_later lets the next try wait longer than the one before it. */
static void retry_later(struct postgres_store *s)
{
    int64_t us = s->retry_after.us * 2;
    us = us < span_ms(RETRY_MS_MIN).us ? span_ms(RETRY_MS_MIN).us : us;
    us = us > span_ms(RETRY_MS_MAX).us ? span_ms(RETRY_MS_MAX).us : us;
    s->retry_after.us = us;
    uint64_t half = (uint64_t)us / 2;
    s->retry_at.us = s->seams->steady(s->seams->ctx).us +
                     (int64_t)(half + seams_random_u64(s->seams) % (half + 1));
}

enum status pg_connected(struct postgres_store *s, struct err *err)
{
    if (s->link)
        return STATUS_OK;
    if (s->in_transaction || s->seams->steady(s->seams->ctx).us < s->retry_at.us)
        return pg_error(s, NULL, err);
    enum status status = STATUS_OK;
    s->reason_status = STATUS_IO;
    s->link = pg_dial(s->url, "5", s->reason, sizeof(s->reason));
    if (s->link) {
        where_set(s);
        status = settle(s, err);
    } else {
        status = pg_error(s, NULL, err);
    }
    if (status != STATUS_OK) {
        pg_disconnect(s);
        retry_later(s);
        return status;
    }
    if (s->lost)
        log_line(LOG_INFO, "PostgreSQL at %s: connected again", s->where);
    s->lost = false;
    s->retry_after = s->retry_at = (struct span){0};
    return STATUS_OK;
}
