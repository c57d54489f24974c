/* postgres_link: statements that go over the connection, and their answers.
 *
 * The connection is in libpq's pipeline mode and does not block: statements are put into it one
 * after the other, and one wait (a Sync) reads all their answers.  After an error the rest up to
 * the Sync is skipped by the server, COMMIT included.
 *
 *     none --pg_connected--> idle --pg_send, pg_ask--> sent --pg_answers--> idle
 *      ^                       |                         |
 *      `------ pg_disconnect, or lost: closed, silent for too long, not understood
 *
 * A server that says nothing for PATIENCE counts as lost: a network that was cut says nothing. */
#include "store/postgres.h"

#include <errno.h>
#include <poll.h>

#include "base/log.h"
#include "base/mem.h"

#define PATIENCE_SECONDS 20        /* for an answer */
#define PATIENCE_LONG_SECONDS 1800 /* for a migration */
#define GLANCE_US 500000           /* how often the clock is looked at while waiting */
#define PREPARED_SLOTS 512         /* a power of two, twice the statements there are */

/* struct pg_sent: one answer that is to be read. */
struct pg_sent {
    const struct pg_statement *prepares; /* what it says is prepared; NULL: a statement ran */
    bool wanted;                         /* its rows */
};

struct pg_pipe {
    const struct pg_statement *prepared[PREPARED_SLOTS]; /* on this connection */
    struct pg_sent *sent;
    size_t sent_count, sent_cap;
    struct span heard; /* steady: when the server last said something */
    struct span patience;
};

struct pg_pipe *pg_pipe_new(void)
{
    struct pg_pipe *pipe = mem_zalloc(sizeof(*pipe));
    if (pipe)
        pipe->patience = span_seconds(PATIENCE_SECONDS);
    return pipe;
}

void pg_pipe_free(struct pg_pipe *pipe)
{
    if (pipe)
        mem_free(pipe->sent);
    mem_free(pipe);
}

static struct span steady(const struct postgres_store *s)
{
    return s->seams->steady(s->seams->ctx);
}

/* -- losing it --------------------------------------------------------------------------------- */

void pg_disconnect(struct postgres_store *s)
{
    if (s->link)
        PQfinish(s->link);
    s->link = NULL;
    memset(s->pipe->prepared, 0, sizeof(s->pipe->prepared));
    s->pipe->sent_count = 0;
}

void pg_reason_set(char *out, size_t size, const char *text)
{
    size_t len = 0;
    bool gap = false;
    for (const char *c = text ? text : ""; *c && len + 2 < size; c++) {
        if (*c == ' ' || *c == '\n' || *c == '\t') {
            gap = len > 0;
            continue;
        }
        if (gap)
            out[len++] = ' ';
        gap = false;
        out[len++] = *c;
    }
    out[len] = '\0';
}

void pg_lose(struct postgres_store *s, const char *why)
{
    pg_reason_set(s->reason, sizeof(s->reason), why && *why ? why : "the connection was closed");
    s->reason_status = STATUS_IO;
    pg_disconnect(s);
    s->failed = s->failed || s->in_transaction;
    if (!s->lost)
        log_line(LOG_WARN, "PostgreSQL at %s: the connection is lost (%s): trying again", s->where,
                 s->reason);
    s->lost = true;
}

enum status pg_lost(struct postgres_store *s, const PGresult *last, struct err *err)
{
    const char *why = last ? PQresultErrorField(last, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char reason[sizeof(s->reason)];
    pg_reason_set(reason, sizeof(reason), why || !s->link ? why : PQerrorMessage(s->link));
    pg_lose(s, reason);
    return pg_error(s, NULL, err);
}

/* -- sending ----------------------------------------------------------------------------------- */

static const int binary[PG_PARAMS_MAX] = {[0 ... PG_PARAMS_MAX - 1] = 1};

static const struct pg_statement gone; /* stands where a statement was */

/* prepared_slot is where a statement stands among those that are prepared, or would. */
static const struct pg_statement **prepared_slot(struct pg_pipe *pipe,
                                                 const struct pg_statement *statement)
{
    size_t at = ((uintptr_t)statement >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 55;
    const struct pg_statement **place = NULL;
    for (size_t i = 0; i < PREPARED_SLOTS; i++) {
        const struct pg_statement **slot = &pipe->prepared[(at + i) % PREPARED_SLOTS];
        if (*slot == statement)
            return slot;
        if (!place && (!*slot || *slot == &gone))
            place = slot;
        if (!*slot)
            break;
    }
    BUG_ON(!place);
    return place;
}

static enum status sent_add(struct postgres_store *s, struct pg_sent one, struct err *err)
{
    struct pg_pipe *pipe = s->pipe;
    if (pipe->sent_count == pipe->sent_cap) {
        size_t cap = pipe->sent_cap ? pipe->sent_cap * 2 : 64;
        struct pg_sent *grown = mem_realloc(pipe->sent, cap * sizeof(*grown));
        if (!grown) {
            s->failed = s->failed || s->in_transaction;
            return err_no_memory(err);
        }
        pipe->sent = grown;
        pipe->sent_cap = cap;
    }
    pipe->sent[pipe->sent_count++] = one;
    return STATUS_OK;
}

/* mend makes *out of the parameters, with copies that PostgreSQL takes of texts that it would
 * refuse: they last as long as the arena. */
static bool mend(const struct pg_params *params, struct arena *arena, struct pg_params *out)
{
    *out = *params;
    for (int i = 0; i < params->count; i++) {
        if (params->types[i] != PG_TEXT || !params->values[i])
            continue;
        struct slice value = {params->values[i], (size_t)params->lengths[i]};
        struct slice clean = pg_text_cleaned(value, arena);
        if (!clean.ptr || clean.len > INT_MAX)
            return false;
        out->values[i] = clean.ptr;
        out->lengths[i] = (int)clean.len;
    }
    return true;
}

static enum status prepare(struct postgres_store *s, const struct pg_statement *statement,
                           const struct pg_params *params, struct err *err)
{
    const struct pg_statement **slot = prepared_slot(s->pipe, statement);
    if (*slot == statement)
        return STATUS_OK;
    enum status status = sent_add(s, (struct pg_sent){.prepares = statement}, err);
    if (status != STATUS_OK)
        return status;
    if (!PQsendPrepare(s->link, statement->name, statement->text, params->count, params->types))
        return pg_lost(s, NULL, err);
    *slot = statement;
    return STATUS_OK;
}

/* put puts a statement into the pipeline, under its name or (pooled, or without one) as a text. */
static enum status put(struct postgres_store *s, const struct pg_statement *statement,
                       const struct pg_params *params, bool wanted, struct err *err)
{
    static const struct pg_params none = {0};
    struct pg_params mended;
    struct arena arena = {0};
    bool named = statement->name && !s->pooled;
    int sent = 0;
    enum status status = pg_connected(s, err);
    if (status == STATUS_OK && !mend(params ? params : &none, &arena, &mended))
        status = err_no_memory(err);
    if (status == STATUS_OK && named)
        status = prepare(s, statement, &mended, err);
    if (status == STATUS_OK)
        status = sent_add(s, (struct pg_sent){.wanted = wanted}, err);
    if (status == STATUS_OK && named)
        sent = PQsendQueryPrepared(s->link, statement->name, mended.count, mended.values,
                                   mended.lengths, binary, 1);
    else if (status == STATUS_OK)
        sent = PQsendQueryParams(s->link, statement->text, mended.count, mended.types,
                                 mended.values, mended.lengths, binary, 1);
    if (status == STATUS_OK && !sent)
        status = pg_lost(s, NULL, err);
    arena_release(&arena);
    return status;
}

enum status pg_send(struct postgres_store *s, const struct pg_statement *statement,
                    const struct pg_params *params, struct err *err)
{
    return put(s, statement, params, false, err);
}

enum status pg_ask(struct postgres_store *s, const struct pg_statement *statement,
                   const struct pg_params *params, struct err *err)
{
    return put(s, statement, params, true, err);
}

enum status pg_flush_columns(struct postgres_store *s, struct pg_columns *columns, struct err *err)
{
    struct pg_params params = {0};
    if (columns->rows == 0)
        return STATUS_OK;
    if (columns->row)
        pg_row_array(&params, &columns->columns[0], s->row_types[columns->row]);
    for (int i = 0; i < columns->column_count && !columns->row; i++)
        pg_array(&params, &columns->columns[i]);
    enum status status = pg_send(s, columns->insert, &params, err);
    pg_columns_clear(columns);
    return status;
}

#define WAITING_BYTES_MAX ((size_t)8 << 20)

enum status pg_row_end(struct postgres_store *s, struct pg_columns *columns, struct err *err)
{
    size_t bytes = 0;
    enum status status = pg_add_end(columns, err);
    for (int i = 0; i < columns->column_count; i++)
        bytes += columns->columns[i].array.len;
    if (status == STATUS_OK && bytes > WAITING_BYTES_MAX)
        status = pg_flush_columns(s, columns, err);
    s->failed = s->failed || status != STATUS_OK;
    return status;
}

/* -- waiting ----------------------------------------------------------------------------------- */

/* step sends what can be sent and reads what has come; false when the link is lost. */
static bool step(struct postgres_store *s)
{
    struct pg_pipe *pipe = s->pipe;
    int unsent = PQflush(s->link);
    if (unsent < 0)
        return false;
    int64_t left = pipe->patience.us - (steady(s).us - pipe->heard.us);
    if (left <= 0) {
        pg_lose(s, "it does not answer");
        return false;
    }
    struct pollfd poll_for = {PQsocket(s->link), (short)(POLLIN | (unsent ? POLLOUT : 0)), 0};
    int ready = poll(&poll_for, 1, left < GLANCE_US ? (int)(left / 1000 + 1) : GLANCE_US / 1000);
    if (ready < 0 && errno != EINTR)
        return false;
    if (ready <= 0)
        return true;
    pipe->heard = steady(s);
    return poll_for.revents == POLLOUT || PQconsumeInput(s->link) == 1;
}

/* next_result waits for the next result in *out: NULL at the end of one statement's.  False when
 * the link is lost. */
static bool next_result(struct postgres_store *s, PGresult **out)
{
    while (PQisBusy(s->link))
        if (!step(s))
            return false;
    *out = PQgetResult(s->link);
    return true;
}

/* struct reading: the answers of one wait. */
struct reading {
    PGresult **rows;
    int count, found;
    size_t at;       /* of `sent` */
    PGresult *error; /* the first */
};

/* take keeps a result or lets it go. */
static void take(struct pg_pipe *pipe, struct reading *reading, PGresult *result)
{
    ExecStatusType kind = PQresultStatus(result);
    const struct pg_sent *sent = reading->at < pipe->sent_count ? &pipe->sent[reading->at] : NULL;
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK || kind == PGRES_EMPTY_QUERY) {
        if (sent && sent->wanted && reading->found < reading->count) {
            reading->rows[reading->found++] = result;
            return;
        }
    } else {
        if (sent && sent->prepares) /* skipped or refused */
            *prepared_slot(pipe, sent->prepares) = &gone;
        if (!reading->error && kind != PGRES_PIPELINE_ABORTED) {
            reading->error = result;
            return;
        }
    }
    PQclear(result);
}

/* read_all reads up to the Sync; false when the link is lost. */
static bool read_all(struct postgres_store *s, struct reading *reading)
{
    PGresult *result;
    for (bool had = false; next_result(s, &result);) {
        if (!result) {
            if (PQstatus(s->link) == CONNECTION_BAD)
                return false;
            reading->at += had;
            had = false;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return true;
        }
        take(s->pipe, reading, result);
        had = true;
    }
    return false;
}

enum status pg_answers(struct postgres_store *s, PGresult **rows, int count, struct err *err)
{
    struct reading reading = {.rows = rows, .count = count};
    enum status status = STATUS_OK;
    for (int i = 0; i < count; i++)
        rows[i] = NULL;
    if (!s->link)
        return pg_error(s, NULL, err);
    s->pipe->heard = steady(s);
    if (!PQpipelineSync(s->link) || !read_all(s, &reading))
        status = s->link ? pg_lost(s, reading.error, err) : pg_error(s, NULL, err);
    else if (reading.error)
        status = pg_error(s, reading.error, err);
    else if (reading.found < count)
        status = pg_lost(s, NULL, err);
    s->pipe->sent_count = 0;
    PQclear(reading.error);
    for (int i = 0; i < count && status != STATUS_OK; i++) {
        PQclear(rows[i]);
        rows[i] = NULL;
    }
    return status;
}

enum status pg_query(struct postgres_store *s, const struct pg_statement *statement,
                     const struct pg_params *params, PGresult **rows, struct err *err)
{
    *rows = NULL;
    bool had = s->link != NULL;
    enum status status = pg_ask(s, statement, params, err);
    if (status == STATUS_OK)
        status = pg_answers(s, rows, 1, err);
    if (status == STATUS_OK || s->link || !had || s->in_transaction)
        return status;
    /* A connection that lay idle may have been lost long ago: once more, on another. */
    status = pg_ask(s, statement, params, err);
    return status == STATUS_OK ? pg_answers(s, rows, 1, err) : status;
}

static const struct pg_statement plan_once = {
    "plan_once", "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"};
static const struct pg_statement plan_again = {
    "plan_again", "SELECT set_config('plan_cache_mode', 'force_generic_plan', true)"};

/* In a turn statements have one plan for all values; a text for this once has one for its own. */
enum status pg_query_text(struct postgres_store *s, const char *text,
                          const struct pg_params *params, PGresult **rows, struct err *err)
{
    const struct pg_statement once = {NULL, text};
    *rows = NULL;
    if (!s->in_transaction)
        return pg_query(s, &once, params, rows, err);
    enum status status = pg_send(s, &plan_once, NULL, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &once, params, err);
    if (status == STATUS_OK)
        status = pg_send(s, &plan_again, NULL, err);
    return status == STATUS_OK ? pg_answers(s, rows, 1, err) : status;
}

enum status pg_sync(struct postgres_store *s, struct err *err)
{
    return s->pipe->sent_count > 0 || !s->link ? pg_answers(s, NULL, 0, err) : STATUS_OK;
}

/* run reads the results of a text of statements; the first error counts. */
static enum status run(struct postgres_store *s, const char *text, struct err *err)
{
    PGresult *result = NULL, *error = NULL;
    enum status status = STATUS_OK;
    if (PQexitPipelineMode(s->link) != 1 || !PQsendQuery(s->link, text))
        return pg_lost(s, NULL, err);
    s->pipe->heard = steady(s);
    bool ok;
    while ((ok = next_result(s, &result)) && result) {
        ExecStatusType kind = PQresultStatus(result);
        if (!error && kind != PGRES_TUPLES_OK && kind != PGRES_COMMAND_OK &&
            kind != PGRES_EMPTY_QUERY)
            error = result;
        else
            PQclear(result);
    }
    if (!ok || PQstatus(s->link) == CONNECTION_BAD || PQenterPipelineMode(s->link) != 1)
        status = s->link ? pg_lost(s, error, err) : pg_error(s, NULL, err);
    else if (error)
        status = pg_error(s, error, err);
    PQclear(error);
    return status;
}

enum status pg_run(struct postgres_store *s, const char *text, struct err *err)
{
    enum status status = pg_connected(s, err);
    if (status == STATUS_OK)
        status = pg_sync(s, err);
    s->pipe->patience = span_seconds(PATIENCE_LONG_SECONDS);
    if (status == STATUS_OK)
        status = run(s, text, err);
    s->pipe->patience = span_seconds(PATIENCE_SECONDS);
    return status;
}
