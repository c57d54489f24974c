/* postgres_list: a page of letters.
 *
 * A page must cost the same among a million letters as among a thousand, so the query is put
 * together of arms, one for each state that the filter allows.  Each reads an index that gives its
 * letters in order of time, and stops at the page's end; the page is the first of them all.  The
 * planner chooses the index: for each arm there is one that has a text of the filter first, the
 * state second and the position (as `place`, see postgres_letter_schema.c) last.
 *
 * A search goes through the index of words, or along the key when the words are frequent.  The arms
 * give positions only; the page's rows are read at the end. */
#include "store/postgres_letter.h"

#define ALL_STATES ((1u << LETTER_STATE_COUNT) - 1)
#define OPEN_STATES (1u << LETTER_DEAD | 1u << LETTER_RECOVERING)
#define QUERY_MAX ((size_t)64 * 1024)  /* of the query without the person's words */
#define MATCH_MAX ((size_t)256 * 1024) /* of the person's words as a full-text query */

/* struct query: the text as it grows, and its parameters. */
struct query {
    const struct letter_filter *filter;
    struct buf text;   /* the whole */
    struct buf where;  /* what every arm demands, each with " AND " before it */
    struct buf match;  /* the words as a full-text query; empty: no search */
    unsigned states;   /* the states that are allowed, a bit each */
    const char *place; /* the column that says when: "position" or "place" */
    struct span drift; /* the farthest that a position is from its failed_at */
    char order[48];    /* how an arm ends */
    struct pg_params params;
};

static int add_text(struct query *query, struct slice text)
{
    pg_name(&query->params, text);
    return query->params.count;
}

static int add_number(struct query *query, int64_t number)
{
    pg_int(&query->params, number);
    return query->params.count;
}

/* -- what the filter demands ------------------------------------------------------------------- */

static unsigned states_of(const struct letter_filter *filter)
{
    unsigned states = ALL_STATES;
    if (filter->has_state)
        states &= 1u << filter->state;
    if (filter->recovered != UNSAID)
        states &= filter->recovered == YES ? 1u << LETTER_RECOVERED : ~(1u << LETTER_RECOVERED);
    if (filter->open != UNSAID)
        states &= filter->open == YES ? OPEN_STATES : ~OPEN_STATES;
    return states & ALL_STATES;
}

static void demand_flag(struct query *query, const char *column, enum tristate wanted)
{
    if (wanted != UNSAID)
        buf_addf(&query->where, " AND %s = %d", column, wanted == YES);
}

/* demand_time bounds failed_at, and the position by it: a position is never before its failed_at
 * and at most the drift after it. */
static void demand_time(struct query *query)
{
    const struct letter_filter *filter = query->filter;
    if (instant_is_set(filter->after)) {
        int n = add_number(query, filter->after.us);
        buf_addf(&query->where, " AND failed_at >= $%d AND %s >= $%d", n, query->place, n);
    }
    if (instant_is_set(filter->before)) {
        int n = add_number(query, filter->before.us);
        int last = add_number(query, instant_add(filter->before, query->drift).us);
        buf_addf(&query->where, " AND failed_at < $%d AND %s <= $%d", n, query->place, last);
    }
    if (filter->cursor)
        buf_addf(&query->where, " AND %s %c $%d", query->place, filter->oldest_first ? '>' : '<',
                 add_number(query, filter->cursor));
}

static void demand_number(struct query *query, const char *condition, uint32_t number)
{
    if (number)
        buf_addf(&query->where, " AND %s $%d", condition, add_number(query, number));
}

static void demand_text(struct query *query, const char *column, struct slice text)
{
    if (text.len)
        buf_addf(&query->where, " AND lazaret.key(%s) = lazaret.key($%d)", column,
                 add_text(query, text));
}

static void demand(struct query *query)
{
    const struct letter_filter *filter = query->filter;
    demand_text(query, "trace_id", filter->trace_id);
    demand_text(query, "fingerprint", filter->fingerprint);
    demand_text(query, "signature", filter->signature);
    demand_text(query, "recovered_by", filter->actor);
    demand_text(query, "agent", filter->agent);
    demand_text(query, "error_type", filter->error_type);
    demand_text(query, "reason", filter->reason);
    demand_text(query, "queue", filter->queue);
    demand_text(query, "source", filter->source);
    demand_flag(query, "recoverable", filter->recoverable);
    demand_flag(query, "eligible", filter->eligible);
    demand_time(query);
    demand_number(query, "failure_count >=", filter->attempts_min);
    demand_number(query, "failure_count <=", filter->attempts_max);
    demand_number(query, "job_redrive_count <", filter->redrives_below);
}

/* -- the arms ---------------------------------------------------------------------------------- */

#define ARM "SELECT %s AS at FROM " PG_SCHEMA ".letter WHERE "

/* add_arms adds an arm for each state; `condition` is what this set of arms demands besides. */
static void add_arms(struct query *query, const char *condition, bool *first)
{
    for (unsigned state = 0; state < LETTER_STATE_COUNT; state++) {
        if (!(query->states & 1u << state))
            continue;
        buf_addf(&query->text, "%s(" ARM "state = %u%s%s%s)", *first ? "" : " UNION ALL ",
                 query->place, state, condition, buf_str(&query->where), query->order);
        *first = false;
    }
}

/* add_job_arms looks for the job's own id and for that of its run, and gives no letter twice. */
static void add_job_arms(struct query *query, bool *first)
{
    char own[96], run[128];
    int n = add_text(query, query->filter->job_id);
    snprintf(own, sizeof(own), " AND lazaret.key(job_id) = lazaret.key($%d)", n);
    snprintf(run, sizeof(run),
             " AND lazaret.key(run_id) = lazaret.key($%d) AND job_id IS DISTINCT FROM $%d", n, n);
    add_arms(query, own, first);
    add_arms(query, run, first);
}

static void add_search(struct query *query)
{
    buf_addf(&query->text, ARM "search @@ $%d::tsquery%s", query->place,
             add_text(query, buf_slice(&query->match)), buf_str(&query->where));
    if (query->filter->job_id.len) {
        int n = add_text(query, query->filter->job_id);
        buf_addf(&query->text, " AND (job_id = $%d OR run_id = $%d)", n, n);
    }
    buf_add_str(&query->text, " AND state IN (");
    for (unsigned state = 0, some = 0; state < LETTER_STATE_COUNT; state++)
        if (query->states & 1u << state)
            buf_addf(&query->text, "%s%u", some++ ? ", " : "", state);
    buf_addf(&query->text, ")%s", query->order);
}

/* needs_arms says whether some index with the state in it serves the filter better than the table's
 * own order. */
static bool needs_arms(const struct letter_filter *filter, unsigned states)
{
    return states != ALL_STATES || filter->trace_id.len || filter->fingerprint.len ||
           filter->signature.len || filter->actor.len || filter->agent.len ||
           filter->error_type.len || filter->reason.len || filter->queue.len ||
           filter->source.len || filter->recoverable != UNSAID || filter->eligible != UNSAID;
}

static enum status put_together(struct query *query, struct err *err)
{
    const struct letter_filter *filter = query->filter;
    const char *way = filter->oldest_first ? "ASC" : "DESC";
    bool first = true, searches = query->match.len > 0;
    int limit = add_number(query, filter->limit > INT64_MAX ? INT64_MAX : (int64_t)filter->limit);
    query->states = states_of(filter);
    bool arms = !searches && (filter->job_id.len || needs_arms(filter, query->states));
    query->place = arms ? "place" : "position";
    snprintf(query->order, sizeof(query->order), " ORDER BY at %s LIMIT $%d", way, limit);
    demand(query);
    buf_add_str(&query->text, "SELECT " PG_LETTER_COLUMNS " FROM " PG_SCHEMA ".letter WHERE"
                              " position IN (SELECT at FROM (");
    if (searches)
        add_search(query);
    else if (filter->job_id.len)
        add_job_arms(query, &first);
    else if (arms)
        add_arms(query, "", &first);
    else
        buf_addf(&query->text, ARM "true%s%s", query->place, buf_str(&query->where), query->order);
    buf_addf(&query->text, ") AS page%s) ORDER BY position %s", query->order, way);
    enum status status = buf_status(&query->where, err);
    return status == STATUS_OK ? buf_status(&query->text, err) : status;
}

/* -- running ----------------------------------------------------------------------------------- */

/* drift_read asks first how far to look: the planner must see the bound itself to know that little
 * is before it. */
static enum status drift_read(struct postgres_store *s, struct query *query, struct err *err)
{
    static const struct pg_statement statement = {"drift_read",
                                                  "SELECT drift FROM " PG_SCHEMA ".letter_drift"};
    PGresult *rows;
    enum status status = pg_query(s, &statement, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(rows) == 1)
        query->drift.us = pg_get_int(rows, 0, 0);
    else
        status = pg_damage(s, err, "the drift of letters is not there");
    PQclear(rows);
    return status;
}

static enum status run(struct postgres_store *s, struct query *query, struct arena *arena,
                       struct letter **out, size_t *count, struct err *err)
{
    PGresult *rows;
    enum status status = pg_settled(s, err);
    if (status == STATUS_OK && instant_is_set(query->filter->before))
        status = drift_read(s, query, err);
    if (status == STATUS_OK)
        status = put_together(query, err);
    if (status == STATUS_OK)
        status = pg_query_text(s, buf_str(&query->text), &query->params, &rows, err);
    return status == STATUS_OK ? pg_letter_rows(s, rows, arena, out, count, err) : status;
}

enum status postgres_letter_list(struct store *store, const struct letter_filter *filter,
                                 struct arena *arena, struct letter **out, size_t *count,
                                 struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct query query = {.filter = filter};
    enum status status = STATUS_OK;
    buf_init(&query.text, QUERY_MAX);
    buf_init(&query.where, QUERY_MAX);
    buf_init(&query.match, MATCH_MAX);
    if (filter->q.len)
        status = pg_match(s->counts, filter->q, &query.match, err);
    bool none = states_of(filter) == 0 || filter->limit == 0 || (filter->q.len && !query.match.len);
    if (status == STATUS_OK && none) {
        *out = NULL;
        *count = 0;
    } else if (status == STATUS_OK) {
        status = run(s, &query, arena, out, count, err);
    }
    buf_release(&query.match);
    buf_release(&query.where);
    buf_release(&query.text);
    return status;
}
