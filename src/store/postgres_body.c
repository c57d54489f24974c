/* postgres_body: what belongs to a job and is only ever read whole: envelopes, status documents,
 * failed attempts, and keys that are kept for good. */
#include "base/hash.h"
#include "store/postgres.h"

/* -- envelopes --------------------------------------------------------------------------------- */

static const Oid envelope_types[] = {PG_INT8, PG_INT8, PG_TEXT, PG_BYTEA};
static const struct pg_statement envelope_insert = {
    "envelope_insert", "INSERT INTO " PG_SCHEMA ".envelope(seq, job, job_id, body)"
                       " SELECT * FROM unnest($1::" PG_SCHEMA ".envelope_row[])"};

static const Oid extra_types[] = {PG_INT8, PG_INT8};
static const struct pg_statement extra_insert = {"extra_insert", "INSERT INTO " PG_SCHEMA
                                                                 ".extra_envelope(job, seq)"
                                                                 " SELECT * FROM unnest($1, $2)"};

static const Oid attempt_types[] = {PG_INT8, PG_INT8, PG_BYTEA};
static const struct pg_statement attempt_insert = {
    "attempt_insert", "INSERT INTO " PG_SCHEMA ".attempt(job, attempt, failure)"
                      " SELECT * FROM unnest($1::" PG_SCHEMA ".attempt_row[])"};

void pg_bodies_init(struct postgres_store *s)
{
    pg_rows_init(&s->envelopes, &envelope_insert, PG_ROW_ENVELOPE, envelope_types,
                 sizeof(envelope_types) / sizeof(envelope_types[0]));
    pg_columns_init(&s->extras, &extra_insert, extra_types,
                    sizeof(extra_types) / sizeof(extra_types[0]));
    pg_rows_init(&s->attempts, &attempt_insert, PG_ROW_ATTEMPT, attempt_types,
                 sizeof(attempt_types) / sizeof(attempt_types[0]));
}

enum status pg_envelope_insert(struct postgres_store *s, int64_t seq, int64_t job,
                               struct slice job_id, struct slice body, bool extra, struct err *err)
{
    struct stored_envelope stored = {job, pg_text_cleaned(job_id, &s->arena), body};
    enum status status = pg_writable(s, err);
    if (status != STATUS_OK)
        return status;
    if (!stored.job_id.ptr)
        return pg_fail_write(s, err);
    s->seq_fresh = 0;
    pg_add_int(&s->envelopes, seq);
    pg_add_int(&s->envelopes, job);
    pg_add_name(&s->envelopes, stored.job_id);
    pg_add_body(&s->envelopes, body);
    status = pg_row_end(s, &s->envelopes, err);
    if (status == STATUS_OK && extra) {
        pg_add_int(&s->extras, job);
        pg_add_int(&s->extras, seq);
        status = pg_row_end(s, &s->extras, err);
    }
    if (status == STATUS_OK)
        pg_cache_put(s->cache, seq, &stored);
    return status;
}

enum status postgres_envelope_add(struct store *store, int64_t job_seq, struct slice job_id,
                                  struct slice body, int64_t *envelope_seq, struct err *err)
{
    int64_t seq = postgres_seq_next(store);
    enum status status =
        pg_envelope_insert(postgres_of(store), seq, job_seq, job_id, body, true, err);
    if (status == STATUS_OK)
        *envelope_seq = seq;
    return status;
}

static const struct pg_statement envelopes_get = {"envelopes_get",
                                                  "SELECT seq, job, job_id, body FROM " PG_SCHEMA
                                                  ".envelope WHERE seq = ANY($1)"};

/* fetch reads the envelopes whose seqs are in an array. */
static enum status fetch(struct postgres_store *s, struct pg_column *seqs, PGresult **rows,
                         struct err *err)
{
    struct pg_params params = {0};
    enum status status = buf_status(&seqs->array, err);
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &s->envelopes, err);
    pg_array(&params, seqs);
    return status == STATUS_OK ? pg_query(s, &envelopes_get, &params, rows, err) : status;
}

static struct stored_envelope envelope_at(const PGresult *rows, int row)
{
    return (struct stored_envelope){.job_seq = pg_get_int(rows, row, 1),
                                    .job_id = pg_get_slice(rows, row, 2),
                                    .body = pg_get_slice(rows, row, 3)};
}

void pg_envelopes_fetch(struct postgres_store *s, const struct job *jobs, size_t count)
{
    struct pg_column seqs;
    struct stored_envelope stored;
    PGresult *rows;
    pg_column_init(&seqs, PG_INT8);
    for (size_t i = 0; i < count; i++)
        if (!pg_cache_get(s->cache, jobs[i].envelope_seq, &stored))
            pg_column_int(&seqs, jobs[i].envelope_seq);
    if (seqs.count > 0 && fetch(s, &seqs, &rows, NULL) == STATUS_OK) {
        for (int i = 0; i < PQntuples(rows); i++) {
            stored = envelope_at(rows, i);
            pg_cache_put(s->cache, pg_get_int(rows, i, 0), &stored);
        }
        PQclear(rows);
    }
    buf_release(&seqs.array);
}

/* lookup finds an envelope: *stored borrows from the cache or from *rows, which the caller clears.
 */
static enum status lookup(struct postgres_store *s, int64_t seq, PGresult **rows,
                          struct stored_envelope *stored, struct err *err)
{
    struct pg_column seqs;
    *rows = NULL;
    if (pg_cache_get(s->cache, seq, stored))
        return STATUS_OK;
    pg_column_init(&seqs, PG_INT8);
    pg_column_int(&seqs, seq);
    enum status status = fetch(s, &seqs, rows, err);
    buf_release(&seqs.array);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(*rows) == 0)
        return err_set(err, STATUS_NOT_FOUND, "no envelope %lld", (long long)seq);
    *stored = envelope_at(*rows, 0);
    pg_cache_put(s->cache, seq, stored);
    return STATUS_OK;
}

enum status postgres_envelope_get(struct store *store, int64_t envelope_seq, struct arena *arena,
                                  struct stored_envelope *out, struct err *err)
{
    struct stored_envelope stored;
    PGresult *rows;
    enum status status = lookup(postgres_of(store), envelope_seq, &rows, &stored, err);
    if (status == STATUS_OK) {
        stored.job_id = arena_dup(arena, stored.job_id);
        stored.body = arena_dup(arena, stored.body);
        if (stored.job_id.ptr && stored.body.ptr)
            *out = stored;
        else
            status = err_no_memory(err);
    }
    PQclear(rows);
    return status;
}

enum status postgres_envelope_job_id(struct store *store, int64_t envelope_seq, struct arena *arena,
                                     struct slice *out, struct err *err)
{
    struct stored_envelope stored;
    PGresult *rows;
    enum status status = lookup(postgres_of(store), envelope_seq, &rows, &stored, err);
    if (status == STATUS_OK) {
        struct slice job_id = arena_dup(arena, stored.job_id);
        if (job_id.ptr)
            *out = job_id;
        else
            status = err_no_memory(err);
    }
    PQclear(rows);
    return status;
}

/* Numbers are given in order of time, so that is the order of the numbers. */
static const struct pg_statement envelope_list = {
    "envelope_list",
    "SELECT seq FROM " PG_SCHEMA ".envelope WHERE seq = $1 AND job = $1"
    " UNION ALL SELECT seq FROM " PG_SCHEMA ".extra_envelope WHERE job = $1 ORDER BY 1"};

enum status postgres_envelope_list(struct store *store, int64_t job_seq, struct arena *arena,
                                   int64_t **out, size_t *count, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, job_seq);
    enum status status = pg_flush_columns(s, &s->envelopes, err);
    if (status == STATUS_OK)
        status = pg_flush_columns(s, &s->extras, err);
    if (status == STATUS_OK)
        status = pg_query(s, &envelope_list, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    size_t found = (size_t)PQntuples(rows);
    int64_t *seqs = arena_array(arena, found + 1, sizeof(*seqs));
    for (size_t i = 0; seqs && i < found; i++)
        seqs[i] = pg_get_int(rows, (int)i, 0);
    PQclear(rows);
    if (!seqs)
        return err_no_memory(err);
    *out = seqs;
    *count = found;
    return STATUS_OK;
}

/* -- status documents -------------------------------------------------------------------------- */

static const struct pg_statement document_get = {"document_get", "SELECT body FROM " PG_SCHEMA
                                                                 ".document WHERE job = $1"};
static const struct pg_statement document_put = {
    "document_put", "INSERT INTO " PG_SCHEMA ".document(job, body) VALUES($1, $2)"
                    " ON CONFLICT (job) DO UPDATE SET body = excluded.body"};

enum status postgres_document_get(struct store *store, int64_t job_seq, struct arena *arena,
                                  struct slice *out, struct err *err)
{
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, job_seq);
    enum status status = pg_query(postgres_of(store), &document_get, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    if (PQntuples(rows) == 0) {
        status =
            err_set(err, STATUS_NOT_FOUND, "job %lld has no status document", (long long)job_seq);
    } else {
        struct slice body = pg_get_dup(rows, 0, 0, arena);
        if (body.ptr)
            *out = body;
        else
            status = err_no_memory(err);
    }
    PQclear(rows);
    return status;
}

enum status postgres_document_put(struct store *store, int64_t job_seq, struct slice body,
                                  struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    pg_int(&params, job_seq);
    pg_body(&params, body);
    enum status status = pg_writable(s, err);
    return status == STATUS_OK ? pg_send(s, &document_put, &params, err) : status;
}

/* -- attempts ---------------------------------------------------------------------------------- */

enum status postgres_attempt_add(struct store *store, int64_t job_seq, uint32_t attempt,
                                 struct slice failure, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    enum status status = pg_writable(s, err);
    if (status != STATUS_OK)
        return status;
    pg_add_int(&s->attempts, job_seq);
    pg_add_int(&s->attempts, attempt);
    pg_add_body(&s->attempts, failure);
    return pg_row_end(s, &s->attempts, err);
}

static const struct pg_statement attempt_list = {
    "attempt_list", "SELECT attempt, failure FROM " PG_SCHEMA ".attempt WHERE job = $1"
                    " ORDER BY attempt, seq"};

enum status postgres_attempt_list(struct store *store, int64_t job_seq, struct arena *arena,
                                  struct attempt_record **out, size_t *count, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    PGresult *rows;
    pg_int(&params, job_seq);
    enum status status = pg_flush_columns(s, &s->attempts, err);
    if (status == STATUS_OK)
        status = pg_query(s, &attempt_list, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    size_t found = (size_t)PQntuples(rows);
    struct attempt_record *records = arena_array(arena, found + 1, sizeof(*records));
    bool ok = records != NULL;
    for (size_t i = 0; ok && i < found; i++) {
        records[i] = (struct attempt_record){(uint32_t)pg_get_int(rows, (int)i, 0),
                                             pg_get_dup(rows, (int)i, 1, arena)};
        ok = records[i].failure.ptr != NULL;
    }
    PQclear(rows);
    if (!ok)
        return err_no_memory(err);
    *out = records;
    *count = found;
    return STATUS_OK;
}

/* -- keys that are kept for good --------------------------------------------------------------- */

/* A key may be any bytes: it is kept as such.  key_param gives one that may be too long for an
 * index as its beginning and a hash, which is longer than any that stands for itself. */
static void key_param(struct pg_params *params, struct slice key,
                      char room[PG_FOREVER_BYTES + HASH_SIZE])
{
    if (key.len > PG_FOREVER_BYTES) {
        struct hash hash = hash_sha256(&key, 1);
        memcpy(room, key.ptr, PG_FOREVER_BYTES);
        memcpy(room + PG_FOREVER_BYTES, hash.bytes, HASH_SIZE);
        key = (struct slice){room, PG_FOREVER_BYTES + HASH_SIZE};
    }
    pg_body(params, key);
}

static const struct pg_statement forever_get = {
    "forever_get", "SELECT job FROM " PG_SCHEMA ".forever WHERE which = $1 AND key = $2"};
static const struct pg_statement forever_put = {
    "forever_put", "INSERT INTO " PG_SCHEMA ".forever(which, key, job) VALUES($1, $2, $3)"
                   " ON CONFLICT (which, key) DO UPDATE SET job = excluded.job"};

bool postgres_forever_get(struct store *store, enum store_key which, struct slice key,
                          int64_t *job_seq, struct err *err)
{
    struct pg_params params = {0};
    PGresult *rows;
    char room[PG_FOREVER_BYTES + HASH_SIZE];
    pg_int(&params, which);
    key_param(&params, key, room);
    if (pg_query(postgres_of(store), &forever_get, &params, &rows, err) != STATUS_OK)
        return false;
    bool found = PQntuples(rows) > 0;
    if (found)
        *job_seq = pg_get_int(rows, 0, 0);
    PQclear(rows);
    return found;
}

enum status postgres_forever_put(struct store *store, enum store_key which, struct slice key,
                                 int64_t job_seq, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    char room[PG_FOREVER_BYTES + HASH_SIZE];
    pg_int(&params, which);
    key_param(&params, key, room);
    pg_int(&params, job_seq);
    enum status status = pg_writable(s, err);
    return status == STATUS_OK ? pg_send(s, &forever_put, &params, err) : status;
}
