/* postgres_job: live jobs: found in memory, written when the turn ends (postgres_touch.c). */
#include "store/postgres.h"

#include "base/json.h"
#include "store/postgres_letter.h"

/* values_of lists what the columns of a job hold. */
static void values_of(const struct job *job, int64_t out[PG_JOB_COLUMN_COUNT])
{
    const int64_t values[PG_JOB_COLUMN_COUNT] = {
        job->seq,
        job->envelope_seq,
        job->event_seq,
        (int64_t)job->id_hash,
        (int64_t)job->idempotency_hash,
        (int64_t)job->retry_key_hash,
        (int64_t)job->lease_nonce,
        job->pushed_at.us,
        job->due_at.us,
        job->deadline_at.us,
        job->round_at.us,
        job->queue,
        job->capabilities,
        job->attempt,
        job->attempt_base,
        job->attempts_max,
        job->redrive_count,
        job->state,
        job->priority,
        job->flags,
    };
    memcpy(out, values, sizeof(values));
}

void pg_job_add(struct pg_columns *columns, const struct job *job)
{
    int64_t values[PG_JOB_COLUMN_COUNT];
    values_of(job, values);
    for (int i = 0; i < PG_JOB_COLUMN_COUNT; i++)
        pg_add_int(columns, values[i]);
}

void pg_job_params(struct pg_params *params, const struct job *job)
{
    int64_t values[PG_JOB_COLUMN_COUNT];
    values_of(job, values);
    for (int i = 0; i < PG_JOB_COLUMN_COUNT; i++)
        pg_int(params, values[i]);
}

bool pg_job_read(const PGresult *rows, int row, int column, struct job *out)
{
    /* The largest value of each column from `queue` on; the smallest is 0. */
    static const int64_t most[] = {
        UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT16_MAX, UINT32_MAX, JOB_DEAD, 9, 1023,
    };
    const int first = PG_JOB_COLUMN_COUNT - (int)(sizeof(most) / sizeof(most[0]));
    int64_t v[PG_JOB_COLUMN_COUNT];
    for (int i = 0; i < PG_JOB_COLUMN_COUNT; i++) {
        v[i] = pg_get_int(rows, row, column + i);
        if (i >= first && (v[i] < 0 || v[i] > most[i - first]))
            return false;
    }
    memset(out, 0, sizeof(*out)); /* what lies between the members too: jobs are compared */
    out->seq = v[0];
    out->envelope_seq = v[1];
    out->event_seq = v[2];
    out->id_hash = (uint64_t)v[3];
    out->idempotency_hash = (uint64_t)v[4];
    out->retry_key_hash = (uint64_t)v[5];
    out->lease_nonce = (uint64_t)v[6];
    out->pushed_at.us = v[7];
    out->due_at.us = v[8];
    out->deadline_at.us = v[9];
    out->round_at.us = v[10];
    out->queue = (uint32_t)v[11];
    out->capabilities = (uint32_t)v[12];
    out->attempt = (uint32_t)v[13];
    out->attempt_base = (uint32_t)v[14];
    out->attempts_max = (uint16_t)v[15];
    out->redrive_count = (uint32_t)v[16];
    out->state = (uint8_t)v[17];
    out->priority = (uint8_t)v[18];
    out->flags = (uint16_t)v[19];
    return true;
}
_Static_assert(JOB_FOREIGN == 512, "the highest flag, in pg_job_read");

/* -- finding ----------------------------------------------------------------------------------- */

bool postgres_job_by_seq(struct store *store, int64_t seq, struct job *out)
{
    const struct job *job = live_by_seq(postgres_of(store)->live, seq);
    if (job)
        *out = *job;
    return job != NULL;
}

/* envelope_of reads the envelope of a live job; not finding it is damage. */
static enum status envelope_of(struct postgres_store *s, const struct job *job, struct arena *arena,
                               struct stored_envelope *out, struct err *err)
{
    enum status status = postgres_envelope_get(&s->store, job->envelope_seq, arena, out, err);
    if (status == STATUS_NOT_FOUND)
        status = pg_damage(s, err, "envelope %lld is missing", (long long)job->envelope_seq);
    return status;
}

enum status pg_live_by_id(struct postgres_store *s, struct slice job_id, uint64_t id_hash,
                          const struct job **out, struct err *err)
{
    struct arena arena = {0};
    enum status status = STATUS_OK;
    const struct job *job;
    uint32_t iter = 0;
    *out = NULL;
    while (!*out && status == STATUS_OK && (job = live_next_by_id(s->live, id_hash, &iter))) {
        struct stored_envelope stored;
        status = envelope_of(s, job, &arena, &stored, err);
        if (status == STATUS_OK && slice_eq(stored.job_id, job_id))
            *out = job;
        arena_reset(&arena);
    }
    arena_release(&arena);
    return status;
}

bool postgres_job_by_id(struct store *store, struct slice job_id, uint64_t id_hash, struct job *out,
                        struct err *err)
{
    const struct job *job;
    if (pg_live_by_id(postgres_of(store), job_id, id_hash, &job, err) != STATUS_OK || !job)
        return false;
    *out = *job;
    return true;
}

/* has_key says whether the envelope `body` has `key` in `member`. */
static enum status has_key(struct slice body, const char *member, struct slice key,
                           struct arena *arena, bool *out, struct err *err)
{
    struct json root, value;
    enum status status = json_parse(body, &root, err);
    *out = false;
    if (status == STATUS_OK && json_get(root, member, &value) && value.type == JSON_STRING) {
        struct slice text = json_text(value, arena);
        *out = text.ptr && slice_eq(text, key);
        if (!text.ptr)
            status = err_no_memory(err);
    }
    return status;
}

bool postgres_job_by_key(struct store *store, enum store_key which, struct slice key, uint64_t hash,
                         struct job *out, struct err *err)
{
    static const char *const members[] = {"idempotency_key", "retry_key"};
    struct postgres_store *s = postgres_of(store);
    struct arena arena = {0};
    enum status status = STATUS_OK;
    const struct job *job;
    uint32_t iter = 0;
    bool same = false;
    while (!same && status == STATUS_OK && (job = live_next_by_key(s->live, which, hash, &iter))) {
        struct stored_envelope stored;
        status = envelope_of(s, job, &arena, &stored, err);
        if (status == STATUS_OK)
            status = has_key(stored.body, members[which], key, &arena, &same, err);
        if (same)
            *out = *job;
        arena_reset(&arena);
    }
    arena_release(&arena);
    return same && status == STATUS_OK;
}

static const struct pg_statement job_worker = {"job_worker", "SELECT worker FROM " PG_SCHEMA
                                                             ".job WHERE seq = $1"};

static enum status no_live_job(int64_t seq, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "no live job %lld", (long long)seq);
}

enum status postgres_job_worker(struct store *store, int64_t seq, struct arena *arena,
                                struct slice *out, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows = NULL;
    struct slice worker;
    if (!live_by_seq(s->live, seq))
        return no_live_job(seq, err);
    if (pg_job_worker_known(s, seq, &worker)) {
        worker = arena_dup(arena, worker);
    } else {
        pg_int(&params, seq);
        enum status status = pg_query(s, &job_worker, &params, &rows, err);
        if (status == STATUS_OK && PQntuples(rows) == 0)
            status = no_live_job(seq, err);
        if (status != STATUS_OK) {
            PQclear(rows);
            return status;
        }
        worker = pg_get_dup(rows, 0, 0, arena);
    }
    PQclear(rows);
    if (!worker.ptr)
        return err_no_memory(err);
    *out = worker;
    return STATUS_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

/* known refuses a write to a job that is not live. */
static enum status known(struct postgres_store *s, int64_t seq, struct err *err)
{
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK && !live_by_seq(s->live, seq))
        status = no_live_job(seq, err);
    return status;
}

static const struct pg_statement envelope_exists = {
    "envelope_exists", "SELECT 1 FROM " PG_SCHEMA ".envelope WHERE seq = $1"
                       " UNION ALL SELECT 1 FROM " PG_SCHEMA ".extra_envelope WHERE job = $1"
                       " LIMIT 1"};

/* envelope_free says whether the first envelope of a job can have the job's own seq: nobody has it
 * yet, and the job has no other, before which it would seem to have been pushed. */
static enum status envelope_free(struct postgres_store *s, int64_t seq, bool *out, struct err *err)
{
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, seq);
    enum status status = pg_flush_columns(s, &s->envelopes, err);
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &s->extras, err);
    if (status == STATUS_OK)
        status = pg_query(s, &envelope_exists, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    *out = PQntuples(rows) == 0;
    PQclear(rows);
    return STATUS_OK;
}

enum status postgres_job_insert(struct store *store, struct job *job, struct slice job_id,
                                struct slice body, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct job made = *job;
    bool own = true; /* the envelope can have the job's own seq */
    enum status status = pg_writable(s, err);
    if (status != STATUS_OK)
        return status;
    if (made.seq == 0) {
        made.seq = postgres_seq_next(store);
    } else {
        if (live_by_seq(s->live, made.seq))
            return err_set(err, STATUS_CONFLICT, "job %lld is live already", (long long)made.seq);
        if (made.seq > s->seq_last)
            s->seq_last = made.seq;
        if (made.seq != s->seq_fresh)
            status = envelope_free(s, made.seq, &own, err);
    }
    if (status != STATUS_OK)
        return status;
    made.envelope_seq = own ? made.seq : postgres_seq_next(store);
    status = pg_envelope_insert(s, made.envelope_seq, made.seq, job_id, body, !own, err);
    if (status == STATUS_OK)
        status = pg_job_put(s, &made, false, (struct slice){0}, err);
    if (status == STATUS_OK)
        *job = made;
    return status;
}

enum status postgres_job_update(struct store *store, const struct job *job, struct slice worker,
                                struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    enum status status = known(s, job->seq, err);
    if (status != STATUS_OK)
        return status;
    if (job->state != JOB_RUNNING)
        worker = (struct slice){0};
    bool kept = job->state == JOB_RUNNING && worker.len == 0;
    return pg_job_put(s, job, kept, worker, err);
}

enum status postgres_job_finish(struct store *store, const struct job *job, struct slice job_id,
                                struct instant at, struct slice result, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    BUG_ON(job->state != JOB_DONE && job->state != JOB_CANCELLED);
    enum status status = known(s, job->seq, err);
    if (status != STATUS_OK)
        return status;
    pg_job_add(&s->finished, job);
    pg_add_int(&s->finished, at.us);
    pg_add_name(&s->finished, job_id);
    pg_add_body(&s->finished, result);
    status = pg_row_end(s, &s->finished, err);
    if (status == STATUS_OK)
        status = pg_job_drop(s, job->seq, err);
    if (status == STATUS_OK)
        status = pg_total_add(s, job->queue, job->state, 1, err);
    return status;
}

enum status postgres_job_bury(struct store *store, const struct job *job, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    enum status status = known(s, job->seq, err);
    if (status == STATUS_OK)
        status = pg_job_drop(s, job->seq, err);
    if (status == STATUS_OK && !(job->flags & JOB_HAS_LETTER))
        status = pg_letter_fresh(s, job->seq, err);
    return status;
}

enum status postgres_job_revive(struct store *store, const struct job *job, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK && live_by_seq(s->live, job->seq))
        status = err_set(err, STATUS_CONFLICT, "job %lld is live already", (long long)job->seq);
    return status == STATUS_OK ? pg_job_put(s, job, false, (struct slice){0}, err) : status;
}

int64_t postgres_seq_next(struct store *store)
{
    struct postgres_store *s = postgres_of(store);
    s->seq_fresh = ++s->seq_last;
    return s->seq_fresh;
}

/* The times of jobs belong to all servers, and one server's clock that jumps is not theirs: what it
 * leased while its clock was wrong is corrected by the end of those leases. */
enum status postgres_shift(struct store *store, struct span by, struct err *err)
{
    (void)by;
    return pg_writable(postgres_of(store), err);
}
