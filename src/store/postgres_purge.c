/* postgres_purge: removing what has ended; a tombstone says that it was there.
 *
 * What belongs to a job (envelopes, attempts, status document) goes with it.  A job that finished
 * after a replay is one thing with its letter: both go when the letter is purged.  Events and keys
 * that are kept for good always stay. */
#include "store/postgres_letter.h"

/* -- what goes and what stays ------------------------------------------------------------------ */

static enum status run_for(struct postgres_store *s, const struct pg_statement *statement,
                           int64_t number, struct err *err)
{
    struct pg_params params = {0};
    pg_int(&params, number);
    return pg_send(s, statement, &params, err);
}

/* belongings_delete removes what belongs to a job. */
static enum status belongings_delete(struct postgres_store *s, int64_t job, struct err *err)
{
    static const struct pg_statement steps[] = {
        {"envelope_delete", "DELETE FROM " PG_SCHEMA ".envelope WHERE (seq = $1 AND job = $1)"
                            " OR seq IN (SELECT seq FROM " PG_SCHEMA ".extra_envelope"
                            " WHERE job = $1)"},
        {"extra_delete", "DELETE FROM " PG_SCHEMA ".extra_envelope WHERE job = $1"},
        {"attempt_delete", "DELETE FROM " PG_SCHEMA ".attempt WHERE job = $1"},
        {"document_delete", "DELETE FROM " PG_SCHEMA ".document WHERE job = $1"},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && status == STATUS_OK; i++)
        status = run_for(s, &steps[i], job, err);
    pg_cache_clear(s->cache);
    return status;
}

static enum status tombstone_insert(struct postgres_store *s, const struct tombstone *tombstone,
                                    struct err *err)
{
    static const struct pg_statement statement = {
        "tombstone_insert", "INSERT INTO " PG_SCHEMA ".tombstone(job, job_id, dlq_id, what, at,"
                            " event_seq) VALUES($1, $2, $3, $4, $5, $6)"};
    struct pg_params params = {0};
    pg_int(&params, tombstone->job_seq);
    pg_text(&params, tombstone->job_id);
    pg_text(&params, tombstone->dlq_id);
    pg_name(&params, tombstone->what);
    pg_int(&params, tombstone->at.us);
    pg_int(&params, tombstone->event_seq);
    return pg_send(s, &statement, &params, err);
}

#define TOMBSTONE_COLUMNS "job, job_id, dlq_id, what, at, event_seq"

/* tombstone_read reads the row that a query finds, if any. */
static enum status tombstone_read(struct postgres_store *s, const struct pg_statement *statement,
                                  struct pg_params *params, struct arena *arena,
                                  struct tombstone *out, struct err *err)
{
    PGresult *rows;
    struct tombstone found = {0};
    enum status status = pg_query(s, statement, params, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(rows) == 0)
        status = err_set(err, STATUS_NOT_FOUND, "nothing of it was purged");
    else
        found = (struct tombstone){.job_seq = pg_get_int(rows, 0, 0),
                                   .job_id = pg_get_dup(rows, 0, 1, arena),
                                   .dlq_id = pg_get_dup(rows, 0, 2, arena),
                                   .what = pg_get_dup(rows, 0, 3, arena),
                                   .at = {pg_get_int(rows, 0, 4)},
                                   .event_seq = pg_get_int(rows, 0, 5)};
    PQclear(rows);
    if (status == STATUS_OK && (!found.job_id.ptr || !found.dlq_id.ptr || !found.what.ptr))
        status = err_no_memory(err);
    if (status == STATUS_OK)
        *out = found;
    return status;
}

enum status postgres_tombstone_get(struct store *store, int64_t job_seq, struct arena *arena,
                                   struct tombstone *out, struct err *err)
{
    static const struct pg_statement statement = {
        "tombstone_get", "SELECT " TOMBSTONE_COLUMNS " FROM " PG_SCHEMA ".tombstone WHERE job = $1"
                         " ORDER BY seq DESC LIMIT 1"};
    struct pg_params params = {0};
    pg_int(&params, job_seq);
    return tombstone_read(postgres_of(store), &statement, &params, arena, out, err);
}

enum status postgres_tombstone_find(struct store *store, struct slice id, struct arena *arena,
                                    struct tombstone *out, struct err *err)
{
    static const struct pg_statement statement = {
        "tombstone_find",
        "SELECT " TOMBSTONE_COLUMNS " FROM " PG_SCHEMA ".tombstone"
        " WHERE lazaret.key(job_id) = lazaret.key($1)"
        " OR lazaret.key(dlq_id) = lazaret.key($1) ORDER BY seq + 0 DESC LIMIT 1"};
    struct pg_params params = {0};
    pg_name(&params, id);
    return tombstone_read(postgres_of(store), &statement, &params, arena, out, err);
}

/* finished_delete removes the row of a finished job and takes it out of its queue's totals. */
static enum status finished_delete(struct postgres_store *s, const struct job *job, struct err *err)
{
    static const struct pg_statement statement = {"finished_delete", "DELETE FROM " PG_SCHEMA
                                                                     ".finished WHERE seq = $1"};
    if (!pg_names_known(s, job))
        return pg_damage(s, err, "finished job %lld has a queue that is not there",
                         (long long)job->seq);
    enum status status = run_for(s, &statement, job->seq, err);
    return status == STATUS_OK ? pg_total_add(s, job->queue, job->state, -1, err) : status;
}

/* -- letters ----------------------------------------------------------------------------------- */

/* letter_delete removes a letter's row and its part in the counts. */
static enum status letter_delete(struct postgres_store *s, const struct letter *letter,
                                 struct err *err)
{
    static const struct pg_statement statement = {"letter_delete", "DELETE FROM " PG_SCHEMA
                                                                   ".letter WHERE position = $1"};
    const struct known_letter *known = pg_known_job(s->counts, letter->job.seq);
    enum status status = run_for(s, &statement, letter->position, err);
    if (status == STATUS_OK)
        status = pg_count_change(s, known, NULL, false, err);
    if (status == STATUS_OK && !pg_known_none(s->counts, letter->job.seq))
        status = pg_fail_write(s, err);
    return status == STATUS_OK ? pg_swarm_show(s, letter->dlq_id, err) : status;
}

/* finished_take removes the finished row of a letter's job, if it has one, and moves *event_seq on
 * to its last event. */
static enum status finished_take(struct postgres_store *s, int64_t seq, struct arena *arena,
                                 int64_t *event_seq, struct err *err)
{
    struct finished finished;
    enum status status = postgres_finished_get(&s->store, seq, arena, &finished, err);
    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    if (finished.job.event_seq > *event_seq)
        *event_seq = finished.job.event_seq;
    return finished_delete(s, &finished.job, err);
}

enum status postgres_letter_purge(struct store *store, const struct letter *letter,
                                  struct instant now, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct arena arena = {0};
    struct letter stored; /* what is counted is what is stored, whatever the caller changed */
    int64_t seq = letter->job.seq, event_seq = letter->job.event_seq;
    if (live_by_seq(s->live, seq))
        return err_set(err, STATUS_CONFLICT, "the job of dead letter %.*s is live",
                       SLICE_ARG(letter->dlq_id));
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK) /* its belongings may wait in memory too */
        status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = postgres_letter_by_job(store, seq, &arena, &stored, err);
    if (status == STATUS_OK)
        status = finished_take(s, seq, &arena, &event_seq, err);
    if (status == STATUS_OK)
        status = letter_delete(s, &stored, err);
    if (status == STATUS_OK)
        status = belongings_delete(s, seq, err);
    if (status == STATUS_OK)
        status = tombstone_insert(s,
                                  &(struct tombstone){.job_seq = seq,
                                                      .job_id = stored.job_id,
                                                      .dlq_id = stored.dlq_id,
                                                      .what = SLICE("letter"),
                                                      .at = now,
                                                      .event_seq = event_seq},
                                  err);
    arena_release(&arena);
    return status;
}

/* -- finished jobs ----------------------------------------------------------------------------- */

enum status postgres_finished_before(struct store *store, struct instant before, size_t limit,
                                     struct arena *arena, struct finished **out, size_t *count,
                                     struct err *err)
{
    static const struct pg_statement statement = {
        "finished_before", "SELECT " PG_FINISHED_COLUMNS " FROM " PG_SCHEMA ".finished"
                           " WHERE at < $1 AND (flags & 8) = 0 ORDER BY at, seq LIMIT $2"};
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, before.us);
    pg_int(&params, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    enum status status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = pg_query(s, &statement, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    int total = PQntuples(rows);
    struct finished *list = arena_array(arena, (size_t)total + 1, sizeof(*list));
    status = list ? STATUS_OK : err_no_memory(err);
    for (int i = 0; i < total && status == STATUS_OK; i++)
        status = pg_finished_read(s, rows, i, arena, &list[i], err);
    PQclear(rows);
    if (status == STATUS_OK) {
        *out = list;
        *count = (size_t)total;
    }
    return status;
}
_Static_assert(JOB_HAS_LETTER == 8, "the number in the index finished_at and above");

/* no_letter refuses when a finished job has a letter: they go together. */
static enum status no_letter(struct postgres_store *s, int64_t job, struct arena *arena,
                             struct err *err)
{
    struct letter letter;
    enum status status = postgres_letter_by_job(&s->store, job, arena, &letter, err);
    if (status == STATUS_OK)
        return err_set(err, STATUS_CONFLICT, "job %lld has the dead letter %.*s: purge that",
                       (long long)job, SLICE_ARG(letter.dlq_id));
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status postgres_finished_purge(struct store *store, const struct finished *finished,
                                    struct instant now, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct arena arena = {0};
    struct finished stored;
    int64_t seq = finished->job.seq;
    struct slice job_id = {0};
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK)
        status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = postgres_finished_get(store, seq, &arena, &stored, err);
    if (status == STATUS_NOT_FOUND)
        status = err_set(err, STATUS_NOT_FOUND, "no finished job %lld", (long long)seq);
    if (status == STATUS_OK)
        status = no_letter(s, seq, &arena, err);
    if (status == STATUS_OK)
        status = postgres_envelope_job_id(store, stored.job.envelope_seq, &arena, &job_id, err);
    if (status == STATUS_OK)
        status = finished_delete(s, &stored.job, err);
    if (status == STATUS_OK)
        status = belongings_delete(s, seq, err);
    if (status == STATUS_OK)
        status = tombstone_insert(s,
                                  &(struct tombstone){.job_seq = seq,
                                                      .job_id = job_id,
                                                      .what = SLICE("job"),
                                                      .at = now,
                                                      .event_seq = finished->job.event_seq},
                                  err);
    arena_release(&arena);
    return status;
}
