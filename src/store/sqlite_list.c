/* sqlite_list: a page of letters.
 *
 * A page must cost the same among a million letters as among a thousand, so the query is put
 * together around one index that gives the letters in order of time, and stops at the page's end:
 *
 *   - The most telling text of the filter chooses the index.
 *   - Nearly every index has the state second, so the query is one arm for each state that the
 *     filter allows; SQLite merges the arms, which are each in order, and sorts nothing.
 *   - A search goes through the full-text index, whose rowids are positions and so in order too.
 *
 * The arms give positions only; the page's rows are read at the end. */
#include "store/sqlite.h"

#define ALL_STATES ((1u << LETTER_STATE_COUNT) - 1)
#define OPEN_STATES (1u << LETTER_DEAD | 1u << LETTER_RECOVERING)
#define QUERY_MAX ((size_t)64 * 1024)  /* of the query without the person's words */
#define MATCH_MAX ((size_t)256 * 1024) /* of the person's words as a full-text query */

/* struct lead: a text of the filter, its column and its index; the most telling first. */
static const struct lead {
    size_t text;
    const char *column, *index;
} leads[] = {
    {offsetof(struct letter_filter, trace_id), "trace_id", "letter_trace_id"},
    {offsetof(struct letter_filter, fingerprint), "fingerprint", "letter_fingerprint"},
    {offsetof(struct letter_filter, signature), "signature", "letter_signature"},
    {offsetof(struct letter_filter, actor), "recovered_by", "letter_recovered_by"},
    {offsetof(struct letter_filter, agent), "agent", "letter_agent"},
    {offsetof(struct letter_filter, error_type), "error_type", "letter_error_type"},
    {offsetof(struct letter_filter, reason), "reason", "letter_reason"},
    {offsetof(struct letter_filter, queue), "queue", "letter_queue"},
    {offsetof(struct letter_filter, source), "source", "letter_source"},
};
#define LEAD_COUNT (sizeof(leads) / sizeof(leads[0]))

/* struct query: the text as it grows, and what its parameters are bound to. */
struct query {
    const struct letter_filter *filter;
    struct buf text;   /* the whole */
    struct buf where;  /* what every arm demands, each with " AND " before it */
    struct buf match;  /* the words as a full-text query */
    unsigned states;   /* the states that are allowed, a bit each */
    const char *index; /* the index of the arms; NULL: the table itself */
    bool searches;
    struct value {
        bool is_text;
        struct slice text;
        int64_t number;
    } values[32];
    int value_count;
};

static int add_value(struct query *query, struct value value)
{
    BUG_ON(query->value_count == (int)(sizeof(query->values) / sizeof(query->values[0])));
    query->values[query->value_count] = value;
    return ++query->value_count;
}

static int add_text(struct query *query, struct slice text)
{
    return add_value(query, (struct value){.is_text = true, .text = text});
}

static int add_number(struct query *query, int64_t number)
{
    return add_value(query, (struct value){.number = number});
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
    if (wanted == UNSAID)
        return;
    buf_addf(&query->where, " AND %s = %d", column, wanted == YES);
}

/* demand_time bounds failed_at, and the position by it: a position is never before its failed_at
 * and at most the drift after it. */
static void demand_time(struct query *query, const char *position, struct span drift)
{
    const struct letter_filter *filter = query->filter;
    if (instant_is_set(filter->after)) {
        int n = add_number(query, filter->after.us);
        buf_addf(&query->where, " AND failed_at >= ?%d AND %s >= ?%d", n, position, n);
    }
    if (instant_is_set(filter->before)) {
        int n = add_number(query, filter->before.us);
        int last = add_number(query, instant_add(filter->before, drift).us);
        buf_addf(&query->where, " AND failed_at < ?%d AND %s <= ?%d", n, position, last);
    }
    if (filter->cursor)
        buf_addf(&query->where, " AND %s %c ?%d", position, filter->oldest_first ? '>' : '<',
                 add_number(query, filter->cursor));
}

static void demand_attempts(struct query *query)
{
    const struct letter_filter *filter = query->filter;
    if (filter->redrives_below)
        buf_addf(&query->where, " AND job_redrive_count < ?%d",
                 add_number(query, filter->redrives_below));
    if (filter->attempts_min)
        buf_addf(&query->where, " AND failure_count >= ?%d",
                 add_number(query, filter->attempts_min));
    if (filter->attempts_max)
        buf_addf(&query->where, " AND failure_count <= ?%d",
                 add_number(query, filter->attempts_max));
}

/* demand_texts demands every text of the filter; the first of them chooses the index. */
static void demand_texts(struct query *query)
{
    for (size_t i = 0; i < LEAD_COUNT; i++) {
        const struct slice *text = (const void *)((const char *)query->filter + leads[i].text);
        if (text->len == 0)
            continue;
        buf_addf(&query->where, " AND %s = ?%d", leads[i].column, add_text(query, *text));
        if (!query->index)
            query->index = leads[i].index;
    }
    if (query->index)
        return;
    if (query->filter->recoverable != UNSAID)
        query->index = "letter_recoverable";
    else if (query->filter->eligible != UNSAID)
        query->index = "letter_eligible";
    else if (query->states != ALL_STATES)
        query->index = "letter_state";
}

static void demand(struct query *query, struct span drift)
{
    query->states = states_of(query->filter);
    demand_texts(query);
    demand_flag(query, "recoverable", query->filter->recoverable);
    demand_flag(query, "eligible", query->filter->eligible);
    demand_time(query, query->searches ? "letter_text.rowid" : "position", drift);
    demand_attempts(query);
}

/* -- the arms ---------------------------------------------------------------------------------- */

/* add_arms adds an arm for each state; `condition` is what this set of arms demands besides. */
static void add_arms(struct query *query, const char *index, const char *condition, bool *first)
{
    for (unsigned state = 0; state < LETTER_STATE_COUNT; state++) {
        if (!(query->states & 1u << state))
            continue;
        buf_addf(&query->text, "%sSELECT position FROM letter INDEXED BY %s WHERE state = %u%s%s",
                 *first ? "" : " UNION ALL ", index, state, condition, buf_str(&query->where));
        *first = false;
    }
}

/* add_job_arms looks for the job's own id and for that of its run, and gives no letter twice. */
static void add_job_arms(struct query *query, bool *first)
{
    char own[32], run[64];
    int n = add_text(query, query->filter->job_id);
    snprintf(own, sizeof(own), " AND job_id = ?%d", n);
    snprintf(run, sizeof(run), " AND run_id = ?%d AND job_id IS NOT ?%d", n, n);
    add_arms(query, "letter_job_id", own, first);
    add_arms(query, "letter_run_id", run, first);
}

static void add_search(struct query *query)
{
    buf_addf(&query->text,
             "SELECT letter_text.rowid FROM letter_text CROSS JOIN letter"
             " ON letter.position = letter_text.rowid WHERE letter_text MATCH ?%d%s",
             add_text(query, buf_slice(&query->match)), buf_str(&query->where));
    if (query->filter->job_id.len) {
        int n = add_text(query, query->filter->job_id);
        buf_addf(&query->text, " AND (job_id = ?%d OR run_id = ?%d)", n, n);
    }
    buf_add_str(&query->text, " AND state IN (");
    for (unsigned state = 0, some = 0; state < LETTER_STATE_COUNT; state++)
        if (query->states & 1u << state)
            buf_addf(&query->text, "%s%u", some++ ? ", " : "", state);
    buf_add_str(&query->text, ")");
}

static enum status put_together(struct query *query, struct span drift, struct err *err)
{
    const char *order = query->filter->oldest_first ? "ASC" : "DESC";
    bool first = true;
    demand(query, drift);
    buf_add_str(&query->text, "WITH page(at) AS MATERIALIZED (");
    if (query->searches)
        add_search(query);
    else if (query->filter->job_id.len)
        add_job_arms(query, &first);
    else if (query->index)
        add_arms(query, query->index, "", &first);
    else
        buf_addf(&query->text, "SELECT position FROM letter NOT INDEXED WHERE 1%s",
                 buf_str(&query->where));
    size_t limit = query->filter->limit;
    buf_addf(&query->text,
             " ORDER BY 1 %s LIMIT ?%d) SELECT " LETTER_COLUMNS
             " FROM page CROSS JOIN letter ON position = at ORDER BY at %s",
             order, add_number(query, limit > INT64_MAX ? INT64_MAX : (int64_t)limit), order);
    enum status status = buf_status(&query->where, err);
    return status == STATUS_OK ? buf_status(&query->text, err) : status;
}

/* -- running ----------------------------------------------------------------------------------- */

static enum status run(struct sqlite_store *s, const struct query *query, struct arena *arena,
                       struct rows *rows, struct err *err)
{
    enum status status, failed = STATUS_OK;
    sqlite3_stmt *stmt = sql_once(s, buf_str(&query->text), err);
    if (!stmt)
        return s->trouble;
    for (int i = 0; i < query->value_count; i++) {
        const struct value *value = &query->values[i];
        if (value->is_text)
            sql_bind_name(stmt, i + 1, value->text);
        else
            sql_bind_int(stmt, i + 1, value->number);
    }
    while (failed == STATUS_OK && sql_row(s, stmt, &status, err)) {
        struct letter *letter = rows_next(rows, arena, sizeof(*letter));
        failed = letter ? sqlite_letter_read(s, stmt, arena, letter, err) : err_no_memory(err);
    }
    sqlite3_finalize(stmt);
    return failed != STATUS_OK ? failed : status;
}

/* words prepares the search; `none` says that nothing can be found. */
static enum status words(struct query *query, bool *none, struct err *err)
{
    *none = false;
    if (query->filter->q.len == 0)
        return STATUS_OK;
    query->searches = true;
    *none = sqlite_match(query->filter->q, &query->match) == 0;
    return buf_status(&query->match, err);
}

enum status sqlite_letter_list(struct store *store, const struct letter_filter *filter,
                               struct arena *arena, struct letter **out, size_t *count,
                               struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct query query = {.filter = filter};
    struct rows rows = {0};
    bool none;
    buf_init(&query.text, QUERY_MAX);
    buf_init(&query.where, QUERY_MAX);
    buf_init(&query.match, MATCH_MAX);
    enum status status = words(&query, &none, err);
    if (states_of(filter) == 0 || filter->limit == 0)
        none = true;
    if (status == STATUS_OK && !none)
        status = put_together(&query, (struct span){s->drift}, err);
    if (status == STATUS_OK && !none)
        status = run(s, &query, arena, &rows, err);
    buf_release(&query.match);
    buf_release(&query.where);
    buf_release(&query.text);
    if (status == STATUS_OK) {
        *out = rows.items;
        *count = rows.count;
    }
    return status;
}
