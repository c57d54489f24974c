/* postgres_follow: how memory comes to show what the database has.
 *
 * Each turn left a row that says which jobs it changed.  In one answer come the head, the turns
 * since the one that memory shows, and the rows of their jobs; so a server that was in the turn
 * last finds nothing, and one that is far behind (or whose past was undone by a restore) reads
 * everything, in pages of one snapshot. */
#include "store/postgres.h"

#define LOAD_PAGE 20000
#define OTHERS_REMEMBERED 32 /* turns of one's own */

/* -- statements -------------------------------------------------------------------------------- */

#define HEAD_COLUMNS "turn, nonce, seq_last, event_seq, event_hash, position_last"

static const struct pg_statement turn_begin = {"turn_begin",
                                               "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
static const struct pg_statement look_begin = {"look_begin",
                                               "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"};
static const struct pg_statement end_rollback = {"end_rollback", "ROLLBACK"};
/* Everything in a turn is addressed by key: one plan is right for any number of rows, and planning
 * each statement anew would take longer than to run it. */
static const struct pg_statement head_lock = {
    "head_lock", "SELECT " HEAD_COLUMNS ", set_config('lazaret.own', '1', true),"
                 " set_config('plan_cache_mode', 'force_generic_plan', true)"
                 " FROM " PG_SCHEMA ".head FOR UPDATE"};
static const struct pg_statement head_look = {"head_look",
                                              "SELECT " HEAD_COLUMNS " FROM " PG_SCHEMA ".head"};
/* The turn that memory shows is read as well: it must still be there, and the same. */
static const struct pg_statement turns_since = {
    "turns_since", "SELECT number, nonce, flags FROM " PG_SCHEMA ".turn WHERE number >= $1"
                   " ORDER BY number"};
/* One row for each job that changed; its columns are NULL when it is no longer live.  (LIMIT keeps
 * the planner from joining with the whole table.) */
static const struct pg_statement jobs_since = {
    "jobs_since",
    "SELECT t.changed, j.* FROM (SELECT DISTINCT unnest(jobs) AS changed FROM " PG_SCHEMA ".turn"
    " WHERE number > $1) AS t LEFT JOIN LATERAL (SELECT " PG_JOB_COLUMNS(
        "") " FROM " PG_SCHEMA ".job WHERE seq = t.changed LIMIT 1) AS j ON true"};
static const struct pg_statement job_page = {
    "job_page", "SELECT " PG_JOB_COLUMNS("") " FROM " PG_SCHEMA ".job WHERE seq > $1"
                                             " ORDER BY seq LIMIT $2"};

/* -- following what others did ----------------------------------------------------------------- */

static enum status head_read(struct postgres_store *s, const PGresult *rows, struct pg_head *out,
                             struct err *err)
{
    struct slice hash = PQntuples(rows) == 1 ? pg_get_slice(rows, 0, 4) : SLICE("");
    if (hash.len != HASH_SIZE)
        return pg_damage(s, err, "the row of head is not one");
    *out = (struct pg_head){.turn = pg_get_int(rows, 0, 0),
                            .nonce = (uint64_t)pg_get_int(rows, 0, 1),
                            .seq_last = pg_get_int(rows, 0, 2),
                            .event_seq = pg_get_int(rows, 0, 3),
                            .position_last = pg_get_int(rows, 0, 5)};
    memcpy(out->event_hash.bytes, hash.ptr, HASH_SIZE);
    return STATUS_OK;
}

void pg_head_take(struct postgres_store *s, const struct pg_head *head)
{
    s->turn = head->turn;
    s->nonce = head->nonce;
    s->seq_last = head->seq_last;
    s->seq_fresh = 0;
    s->event_seq = head->event_seq;
    s->event_hash = head->event_hash;
    s->position_last = head->position_last;
    s->begun = *head;
}

static enum status job_take(struct postgres_store *s, const PGresult *rows, int row, int column,
                            struct err *err)
{
    struct job job;
    if (!pg_job_read(rows, row, column, &job) || job.seq <= 0 || !job_is_live(job.state) ||
        !pg_names_known(s, &job))
        return pg_damage(s, err, "the row of job %lld says what cannot be",
                         (long long)pg_get_int(rows, row, column));
    return live_put(s->live, &job) ? STATUS_OK : err_no_memory(err);
}

/* struct since: the answers that tell what happened since s->turn. */
struct since {
    PGresult *rows[3]; /* head, turns, jobs */
    struct pg_head head;
    int64_t flags; /* of all turns */
    bool behind;   /* they do not say: all must be read */
};

static void since_clear(struct since *since)
{
    for (int i = 0; i < 3; i++)
        PQclear(since->rows[i]);
    *since = (struct since){0};
}

/* since_ask asks for the turns and the jobs; whoever calls it has asked for the head. */
static enum status since_ask(struct postgres_store *s, struct err *err)
{
    struct pg_params params = {0};
    pg_int(&params, s->turn);
    enum status status = pg_ask(s, &turns_since, &params, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &jobs_since, &params, err);
    return status;
}

/* since_judge sees whether the turns lead from the one that memory shows to the head, without a
 * gap.  They do not when this server was away for long, or the database was restored. */
static enum status since_judge(struct postgres_store *s, struct since *since, struct err *err)
{
    const PGresult *turns = since->rows[1];
    enum status status = head_read(s, since->rows[0], &since->head, err);
    if (status != STATUS_OK)
        return status;
    if (!turns) /* nobody asked: the head is where memory is */
        return STATUS_OK;
    int count = PQntuples(turns);
    since->behind = count == 0 || pg_get_int(turns, 0, 0) != s->turn ||
                    (uint64_t)pg_get_int(turns, 0, 1) != s->nonce ||
                    since->head.turn - s->turn != count - 1 ||
                    (uint64_t)pg_get_int(turns, count - 1, 1) != since->head.nonce;
    for (int i = 1; i < count; i++)
        since->flags |= pg_get_int(turns, i, 2);
    return STATUS_OK;
}

static enum status names_follow(struct postgres_store *s, struct err *err)
{
    PGresult *rows[2];
    enum status status = pg_names_ask(s, err);
    if (status == STATUS_OK)
        status = pg_answers(s, rows, 2, err);
    if (status != STATUS_OK)
        return status;
    status = pg_names_take(s, rows, err);
    PQclear(rows[0]);
    PQclear(rows[1]);
    return status;
}

/* since_take brings memory up to the head.  When it fails, memory is of no use. */
static enum status since_take(struct postgres_store *s, struct since *since, struct err *err)
{
    const PGresult *jobs = since->rows[2];
    bool moved = since->head.turn != s->turn;
    enum status status = since->flags & PG_TURN_NAMES ? names_follow(s, err) : STATUS_OK;
    for (int i = 0; i < PQntuples(jobs) && status == STATUS_OK; i++) {
        if (PQgetisnull(jobs, i, 1))
            live_remove(s->live, pg_get_int(jobs, i, 0));
        else
            status = job_take(s, jobs, i, 1, err);
    }
    if (status != STATUS_OK) {
        live_clear(s->live);
        s->unloaded = true;
        return status;
    }
    if (moved)
        s->news |= STORE_NEWS_JOBS;
    if (since->flags & PG_TURN_POLICIES)
        s->news |= STORE_NEWS_POLICIES;
    pg_head_take(s, &since->head);
    return STATUS_OK;
}

/* -- loading ----------------------------------------------------------------------------------- */

/* load_begin asks what comes first in a snapshot: the head and the names. */
static enum status load_begin(struct postgres_store *s, PGresult *rows[3], struct err *err)
{
    enum status status = pg_send(s, &look_begin, NULL, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &head_look, NULL, err);
    if (status == STATUS_OK)
        status = pg_names_ask(s, err);
    return status == STATUS_OK ? pg_answers(s, rows, 3, err) : status;
}

static enum status load_jobs(struct postgres_store *s, struct err *err)
{
    int64_t after = 0;
    for (int count = LOAD_PAGE; count == LOAD_PAGE;) {
        struct pg_params params = {0};
        PGresult *rows;
        pg_int(&params, after);
        pg_int(&params, LOAD_PAGE);
        enum status status = pg_ask(s, &job_page, &params, err);
        if (status == STATUS_OK)
            status = pg_answers(s, &rows, 1, err);
        if (status != STATUS_OK)
            return status;
        count = PQntuples(rows);
        for (int i = 0; i < count && status == STATUS_OK; i++)
            status = job_take(s, rows, i, 0, err);
        if (count > 0)
            after = pg_get_int(rows, count - 1, 0);
        PQclear(rows);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

void pg_look_end(struct postgres_store *s)
{
    struct err ignored;
    if (s->link && pg_send(s, &end_rollback, NULL, &ignored) == STATUS_OK)
        (void)pg_sync(s, &ignored);
}

/* load_snapshot reads everything as it is at one moment. */
static enum status load_snapshot(struct postgres_store *s, struct pg_head *head, struct err *err)
{
    PGresult *rows[3] = {NULL, NULL, NULL};
    enum status status = load_begin(s, rows, err);
    if (status == STATUS_OK)
        status = head_read(s, rows[0], head, err);
    if (status == STATUS_OK)
        status = pg_names_take(s, rows + 1, err);
    if (status == STATUS_OK)
        status = load_jobs(s, err);
    for (int i = 0; i < 3; i++)
        PQclear(rows[i]);
    return status;
}

enum status pg_load(struct postgres_store *s, struct err *err)
{
    struct pg_head head;
    enum status status = pg_connected(s, err);
    if (status != STATUS_OK) /* what memory has is as good as before */
        return status;
    live_clear(s->live);
    pg_cache_clear(s->cache);
    s->unloaded = true;
    status = load_snapshot(s, &head, err);
    pg_look_end(s);
    if (status != STATUS_OK) {
        live_clear(s->live);
        return status;
    }
    pg_head_take(s, &head);
    s->news |= STORE_NEWS_JOBS | STORE_NEWS_POLICIES;
    s->unloaded = false;
    return STATUS_OK;
}

enum status postgres_reload(struct store *store, struct err *err)
{
    BUG_ON(postgres_of(store)->in_transaction);
    return pg_load(postgres_of(store), err);
}

/* follow reads what happened since s->turn, in one snapshot. */
static enum status follow(struct postgres_store *s, struct err *err)
{
    struct since since = {0};
    enum status status = pg_send(s, &look_begin, NULL, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &head_look, NULL, err);
    if (status == STATUS_OK)
        status = since_ask(s, err);
    if (status == STATUS_OK)
        status = pg_answers(s, since.rows, 3, err);
    if (status == STATUS_OK)
        status = since_judge(s, &since, err);
    if (status == STATUS_OK && !since.behind)
        status = since_take(s, &since, err);
    bool behind = since.behind;
    pg_look_end(s);
    since_clear(&since);
    return status == STATUS_OK && behind ? pg_load(s, err) : status;
}

enum status postgres_refresh(struct store *store, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_head head;
    PGresult *rows;
    BUG_ON(s->in_transaction);
    if (s->unloaded)
        return pg_load(s, err);
    enum status status = pg_query(s, &head_look, NULL, &rows, err);
    if (status != STATUS_OK)
        return status;
    status = head_read(s, rows, &head, err);
    PQclear(rows);
    if (status != STATUS_OK || (head.turn == s->turn && head.nonce == s->nonce))
        return status;
    return follow(s, err);
}

/* -- taking the turn --------------------------------------------------------------------------- */

enum status pg_turn_ask(struct postgres_store *s, struct err *err)
{
    enum status status = pg_send(s, &turn_begin, NULL, err);
    if (status == STATUS_OK && s->pooled)
        status = pg_send(s, &pg_settings_local, NULL, err);
    return status == STATUS_OK ? pg_ask(s, &head_lock, NULL, err) : status;
}

static bool head_moved(const struct postgres_store *s, const PGresult *head)
{
    return PQntuples(head) != 1 || pg_get_int(head, 0, 0) != s->turn ||
           (uint64_t)pg_get_int(head, 0, 1) != s->nonce;
}

/* turn_since waits for the turn, and for what happened since.  A server that is not alone asks for
 * both at once; one that was the last to write asks only when the head shows that it was not. */
static enum status turn_since(struct postgres_store *s, struct since *since, struct err *err)
{
    bool at_once = s->others > 0;
    enum status status = pg_turn_ask(s, err);
    if (status == STATUS_OK && at_once)
        status = since_ask(s, err);
    if (status == STATUS_OK)
        status = pg_answers(s, since->rows, at_once ? 3 : 1, err);
    if (status != STATUS_OK)
        return status;
    bool moved = head_moved(s, since->rows[0]);
    s->others = moved ? OTHERS_REMEMBERED : s->others - at_once;
    if (at_once || !moved)
        return STATUS_OK;
    status = since_ask(s, err);
    return status == STATUS_OK ? pg_answers(s, since->rows + 1, 2, err) : status;
}

enum status pg_turn_take(struct postgres_store *s, bool *behind, struct err *err)
{
    struct since since = {0};
    bool had = s->link != NULL;
    enum status status = turn_since(s, &since, err);
    if (status != STATUS_OK && had && !s->link) { /* it may have been lost long ago: on another */
        since_clear(&since);
        status = turn_since(s, &since, err);
    }
    if (status == STATUS_OK)
        status = since_judge(s, &since, err);
    if (status == STATUS_OK && !since.behind)
        status = since_take(s, &since, err);
    *behind = since.behind;
    since_clear(&since);
    if (status != STATUS_OK || *behind)
        pg_look_end(s);
    return status;
}
