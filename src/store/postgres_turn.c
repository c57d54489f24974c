/* postgres_turn: begin, commit, rollback.
 *
 *     idle --begin--> turn --commit--> idle
 *      ^                |  a write fails, or the connection is lost
 *      |                v
 *      |--rollback--- failed       (writes and commit are refused)
 *      |
 *      `--begin, refresh, reload-- unloaded  (memory cannot follow: all is read)
 *
 * begin() waits for the row `head` and brings memory up to it, commit() moves it on.  Memory shows
 * the turn `s->turn` (and what this turn wrote, until it is undone), whether there is a connection
 * or not: what was missed is read when there is one again. */
#include "store/postgres.h"

#include <poll.h>

#include "store/postgres_letter.h"

#define TURNS_KEPT 10000
#define TURNS_TRIMMED 1000     /* every so many turns the older ones go */
#define LOADS_MAX 2            /* after which memory cannot be behind: others are not that fast */
#define COMMIT_WAIT_SECONDS 10 /* for a connection that can say what became of a COMMIT */
#define COMMIT_RETRY_MS 200

static const struct pg_statement end_commit = {"end_commit", "COMMIT"};
static const struct pg_statement head_update = {
    "head_update", "UPDATE " PG_SCHEMA ".head SET turn = $1, nonce = $2, seq_last = $3,"
                   " event_seq = $4, event_hash = $5, position_last = $6"};
static const struct pg_statement turn_insert = {
    "turn_insert",
    "INSERT INTO " PG_SCHEMA ".turn(number, nonce, flags, jobs) VALUES($1, $2, $3, $4)"};
static const struct pg_statement turn_trim = {"turn_trim",
                                              "DELETE FROM " PG_SCHEMA ".turn WHERE number < $1"};
static const struct pg_statement turn_find = {
    "turn_find", "SELECT 1 FROM " PG_SCHEMA ".turn WHERE number = $1 AND nonce = $2"};
static const struct pg_statement notify = {"notify", "SELECT pg_notify('lazaret', $1)"};

/* -- what the other files ask ------------------------------------------------------------------ */

enum status pg_fail_write(struct postgres_store *s, struct err *err)
{
    s->failed = true;
    return err_no_memory(err);
}

enum status pg_writable(struct postgres_store *s, struct err *err)
{
    BUG_ON(!s->in_transaction);
    if (s->failed)
        return err_set(err, STATUS_IO,
                       "PostgreSQL at %s: an earlier write of this transaction failed: roll it "
                       "back",
                       s->where);
    s->wrote = true;
    return STATUS_OK;
}

enum status pg_settled(struct postgres_store *s, struct err *err)
{
    if (!s->in_transaction)
        return STATUS_OK;
    struct pg_columns *const waiting[] = {&s->envelopes, &s->extras, &s->events, &s->finished,
                                          &s->attempts};
    enum status status = pg_jobs_flush(s, err);
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]) && status == STATUS_OK; i++)
        status = pg_flush_columns(s, waiting[i], err);
    if (status == STATUS_OK)
        status = pg_totals_flush(s, err);
    if (status == STATUS_OK)
        status = pg_letters_flush(s, err);
    s->failed = s->failed || status != STATUS_OK;
    return status;
}

/* -- the turn ---------------------------------------------------------------------------------- */

/* turn_clear forgets what the turn collected. */
static void turn_clear(struct postgres_store *s)
{
    struct pg_columns *const columns[] = {&s->envelopes, &s->extras, &s->events, &s->finished,
                                          &s->attempts};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        pg_columns_clear(columns[i]);
    pg_jobs_clear(s->jobs);
    pg_totals_clear(s->totals);
    pg_letters_clear(s);
    arena_reset(&s->arena);
    s->in_transaction = s->failed = s->wrote = false;
    s->names_changed = s->policies_changed = s->ready_changed = false;
    s->seq_fresh = 0;
}

enum status postgres_begin(struct store *store, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    bool behind = true;
    int loads = 0;
    enum status status = STATUS_OK;
    BUG_ON(s->in_transaction);
    while (behind && status == STATUS_OK) {
        loads += s->unloaded;
        status = s->unloaded ? pg_load(s, err) : STATUS_OK;
        if (status == STATUS_OK)
            status = pg_turn_take(s, &behind, err);
        s->unloaded = s->unloaded || (status == STATUS_OK && behind);
        if (status == STATUS_OK && behind && loads == LOADS_MAX)
            status = pg_damage(s, err, "the turn of its head is not there");
    }
    if (status != STATUS_OK)
        return status;
    arena_reset(&s->arena);
    s->in_transaction = true;
    s->failed = s->wrote = false;
    return STATUS_OK;
}

/* send_notice tells the other servers: whose commit it was, the turn, whether a job may be ready.
 */
static enum status send_notice(struct postgres_store *s, const struct pg_head *head,
                               struct err *err)
{
    char text[64];
    struct pg_params params = {0};
    bool ready = s->ready_changed || s->names_changed || s->policies_changed;
    snprintf(text, sizeof(text), "%016llx %lld %d", (unsigned long long)s->server,
             (long long)head->turn, ready);
    pg_name(&params, slice_of(text));
    return pg_send(s, &notify, &params, err);
}

static enum status send_head(struct postgres_store *s, const struct pg_head *head, struct err *err)
{
    struct pg_params params = {0};
    pg_int(&params, head->turn);
    pg_int(&params, (int64_t)head->nonce);
    pg_int(&params, head->seq_last);
    pg_int(&params, head->event_seq);
    pg_body(&params, (struct slice){(const char *)head->event_hash.bytes, HASH_SIZE});
    pg_int(&params, head->position_last);
    return pg_send(s, &head_update, &params, err);
}

static enum status send_turn(struct postgres_store *s, const struct pg_head *head, struct err *err)
{
    struct pg_params params = {0}, before = {0};
    struct pg_column seqs;
    pg_column_init(&seqs, PG_INT8);
    pg_jobs_seqs(s->jobs, &seqs);
    pg_int(&params, head->turn);
    pg_int(&params, (int64_t)head->nonce);
    pg_int(&params,
           (s->names_changed ? PG_TURN_NAMES : 0) | (s->policies_changed ? PG_TURN_POLICIES : 0));
    pg_array(&params, &seqs);
    enum status status = buf_status(&seqs.array, err);
    if (status == STATUS_OK)
        status = pg_send(s, &turn_insert, &params, err);
    buf_release(&seqs.array);
    if (status == STATUS_OK && head->turn % TURNS_TRIMMED == 0) {
        pg_int(&before, head->turn - TURNS_KEPT);
        status = pg_send(s, &turn_trim, &before, err);
    }
    return status;
}

/* send_all sends everything of the turn but its COMMIT. */
static enum status send_all(struct postgres_store *s, const struct pg_head *head, struct err *err)
{
    enum status status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = pg_swarm_flush(s, err);
    if (status == STATUS_OK)
        status = send_head(s, head, err);
    if (status == STATUS_OK)
        status = send_turn(s, head, err);
    if (status == STATUS_OK && !s->pooled)
        status = send_notice(s, head, err);
    return status;
}

/* turn_came_through looks for a turn, once nobody can be in the middle of it: whoever has the head
 * knows how every turn before ended. */
static enum status turn_came_through(struct postgres_store *s, const struct pg_head *head,
                                     bool *out, struct err *err)
{
    struct pg_params params = {0};
    PGresult *rows[2] = {NULL, NULL};
    pg_int(&params, head->turn);
    pg_int(&params, (int64_t)head->nonce);
    enum status status = pg_turn_ask(s, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &turn_find, &params, err);
    if (status == STATUS_OK)
        status = pg_answers(s, rows, 2, err);
    pg_look_end(s);
    if (status == STATUS_OK)
        *out = PQntuples(rows[1]) > 0;
    PQclear(rows[0]);
    PQclear(rows[1]);
    return status;
}

/* commit_resolve finds out what became of a COMMIT whose answer did not come. */
static enum status commit_resolve(struct postgres_store *s, const struct pg_head *head,
                                  struct err *err)
{
    struct span end = {s->seams->steady(s->seams->ctx).us + span_seconds(COMMIT_WAIT_SECONDS).us};
    enum status status = STATUS_IO;
    bool through = false;
    s->in_transaction = false; /* it is over, one way or the other */
    for (;;) {
        s->retry_at = (struct span){0};
        status = turn_came_through(s, head, &through, err);
        if (status == STATUS_OK || s->seams->steady(s->seams->ctx).us >= end.us)
            break;
        poll(NULL, 0, COMMIT_RETRY_MS);
    }
    s->in_transaction = true;
    if (status == STATUS_OK && !through)
        status =
            err_set(err, STATUS_IO,
                    "PostgreSQL at %s: the connection was lost before the commit came through: "
                    "nothing was changed; try again",
                    s->where);
    s->failed = status != STATUS_OK;
    return status;
}

/* turn_write sends the turn and its COMMIT and waits for the answer. */
static enum status turn_write(struct postgres_store *s, const struct pg_head *head, struct err *err)
{
    PGresult *rows = NULL;
    enum status status = send_all(s, head, err);
    if (status == STATUS_OK)
        status = pg_ask(s, &end_commit, NULL, err);
    if (status != STATUS_OK)
        return status;
    status = pg_answers(s, &rows, 1, err);
    if (status == STATUS_OK && strcmp(PQcmdStatus(rows), "COMMIT") != 0) {
        s->failed = true;
        status = err_set(err, STATUS_IO, "PostgreSQL at %s: it rolled back: nothing was changed",
                         s->where);
    }
    PQclear(rows);
    if (status != STATUS_OK && !s->link)
        status = commit_resolve(s, head, err);
    return status;
}

enum status postgres_commit(struct store *store, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    BUG_ON(!s->in_transaction);
    if (!s->wrote) { /* nothing to tell, and nothing to lose */
        pg_look_end(s);
        turn_clear(s);
        return STATUS_OK;
    }
    const struct pg_head head = {.turn = s->begun.turn + 1,
                                 .nonce = seams_random_u64(s->seams),
                                 .seq_last = s->seq_last,
                                 .event_seq = s->event_seq,
                                 .event_hash = s->event_hash,
                                 .position_last = s->position_last};
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK)
        status = turn_write(s, &head, err);
    if (status != STATUS_OK)
        return status;
    pg_head_take(s, &head);
    turn_clear(s);
    return STATUS_OK;
}

enum status postgres_rollback(struct store *store, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    if (!s->in_transaction) /* begin failed: nothing was written */
        return STATUS_OK;
    bool names = s->names_changed;
    bool undone = pg_jobs_undo(s);
    s->in_transaction = false;
    pg_look_end(s);
    pg_cache_clear(s->cache);
    const struct pg_head head = s->begun;
    turn_clear(s);
    pg_head_take(s, &head);
    /* A name that was made is known to memory and to nobody else. */
    s->unloaded = s->unloaded || names || !undone;
    return s->unloaded ? pg_load(s, err) : STATUS_OK;
}
