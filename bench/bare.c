/* bare: see bare.h.
 *
 * The file is set up by the store's own functions, so that its tables, page size and durability are
 * those of the store by construction.  The texts of events have the lengths of the engine's; that
 * the rows are as big is checked after each first run (bare_row_bytes). */
#include "bare.h"

#include "base/mem.h"
#include "bench.h"
#include "store/sqlite.h"

#define HASH_TEXT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define WHY_PUSHED                                                                                 \
    "{\"job_id\":\"0192f3a0-0000-7000-8000-000000000000\",\"queue\":\"invoices\","                 \
    "\"envelope_sha256\":\"" HASH_TEXT "\"}"
#define WHY_LEASED                                                                                 \
    "{\"attempt\":1,\"worker_id\":\"" LOAD_WORKER "\","                                            \
    "\"expires_at\":\"2026-02-13T06:22:00.123456Z\"}"
#define WHY_COMPLETED "{\"attempt\":1}"

enum statement {
    BARE_BEGIN,
    BARE_COMMIT,
    BARE_JOB_INSERT,
    BARE_JOB_REPLACE,
    BARE_JOB_DELETE,
    BARE_ENVELOPE_INSERT,
    BARE_ENVELOPE_GET,
    BARE_FINISHED_INSERT,
    BARE_EVENT_INSERT,
    BARE_COUNT
};

static const char *const texts[BARE_COUNT] = {
    [BARE_BEGIN] = "BEGIN IMMEDIATE",
    [BARE_COMMIT] = "COMMIT",
    [BARE_JOB_INSERT] = "INSERT INTO job(" JOB_COLUMNS("") ") VALUES(" JOB_PARAMETERS ")",
    [BARE_JOB_REPLACE] =
        "REPLACE INTO job(" JOB_COLUMNS("") ", worker) VALUES(" JOB_PARAMETERS ", ?)",
    [BARE_JOB_DELETE] = "DELETE FROM job WHERE seq = ?",
    [BARE_ENVELOPE_INSERT] = "INSERT INTO envelope(seq, job, job_id, body) VALUES(?, ?, ?, ?)",
    [BARE_ENVELOPE_GET] = "SELECT job, job_id, body FROM envelope WHERE seq = ?",
    [BARE_FINISHED_INSERT] = "INSERT INTO finished(" JOB_COLUMNS(
        "") ", at, job_id, result) VALUES(" JOB_PARAMETERS ", ?, ?, ?)",
    [BARE_EVENT_INSERT] = ("INSERT INTO event(seq, at, actor, job, previous, what, why, hash)"
                           " VALUES(?, ?, ?, ?, ?, ?, ?, ?)"),
};

struct bare {
    struct sqlite_store *file; /* only what sqlite_file_open fills of it */
    sqlite3_stmt *statements[BARE_COUNT];
    const struct load *load;
    struct job *jobs; /* as they stand in the database */
    char *body;       /* where an envelope is read to */
    struct instant now;
    int64_t event_seq;
};

/* ---- opening --------------------------------------------------------------------------------- */

static struct sqlite_store *file_open(const char *path)
{
    struct err err = {0};
    struct sqlite_store *file = bench_array(1, sizeof(*file));
    file->path = mem_strdup(path);
    if (!file->path)
        bench_die("no memory");
    bench_check(sqlite_file_open(file, NULL, &err), &err, "opening the bare database");
    bench_check(sqlite_schema_migrate(file, &err), &err, "making the bare tables");
    sqlite_file_accept(file);
    return file;
}

static void file_close(struct sqlite_store *file)
{
    if (sqlite3_close(file->db) != SQLITE_OK)
        bench_die("closing the bare database: %s", sqlite3_errmsg(file->db));
    mem_free(file->path);
    mem_free(file);
}

struct bare *bare_open(const char *path, const struct load *load)
{
    struct bare *bare = bench_array(1, sizeof(*bare));
    bare->file = file_open(path);
    bare->load = load;
    bare->jobs = bench_array(load->count, sizeof(*bare->jobs));
    bare->body = bench_array(load->body_bytes + 64, 1);
    bare->now = seams_real()->wall(seams_real()->ctx);
    for (int i = 0; i < BARE_COUNT; i++)
        if (sqlite3_prepare_v3(bare->file->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &bare->statements[i], NULL) != SQLITE_OK)
            bench_die("%s: %s", texts[i], sqlite3_errmsg(bare->file->db));
    return bare;
}

void bare_close(struct bare *bare)
{
    for (int i = 0; i < BARE_COUNT; i++)
        sqlite3_finalize(bare->statements[i]);
    file_close(bare->file);
    mem_free(bare->jobs);
    mem_free(bare->body);
    mem_free(bare);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void bare_step(struct bare *bare, enum statement which)
{
    sqlite3_stmt *stmt = bare->statements[which];
    if (sqlite3_step(stmt) != SQLITE_DONE)
        bench_die("%s: %s", texts[which], sqlite3_errmsg(bare->file->db));
    sqlite3_reset(stmt);
}

static void bind_text(sqlite3_stmt *stmt, int at, struct slice text)
{
    sqlite3_bind_text(stmt, at, text.ptr, (int)text.len, SQLITE_STATIC);
}

static void write_event(struct bare *bare, struct job *job, struct slice what, struct slice why)
{
    static const unsigned char hash[32] = {1};
    sqlite3_stmt *stmt = bare->statements[BARE_EVENT_INSERT];
    sqlite3_bind_int64(stmt, 1, ++bare->event_seq);
    sqlite3_bind_int64(stmt, 2, bare->now.us);
    bind_text(stmt, 3, SLICE(LOAD_ACTOR));
    sqlite3_bind_int64(stmt, 4, job->seq);
    sqlite3_bind_int64(stmt, 5, job->event_seq);
    bind_text(stmt, 6, what);
    bind_text(stmt, 7, why);
    sqlite3_bind_blob(stmt, 8, hash, sizeof(hash), SQLITE_STATIC);
    bare_step(bare, BARE_EVENT_INSERT);
    job->event_seq = bare->event_seq;
}

static void push_one(struct bare *bare, size_t i)
{
    struct job *job = &bare->jobs[i];
    *job = (struct job){
        .seq = (int64_t)i + 1,
        .envelope_seq = (int64_t)i + 1,
        .id_hash = (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15),
        .pushed_at = bare->now,
        .due_at = bare->now,
        .deadline_at = INSTANT_NEVER,
        .queue = 1,
        .state = JOB_PENDING,
        .priority = 4,
    };
    write_event(bare, job, SLICE(EVENT_PUSHED), SLICE(WHY_PUSHED));
    sqlite3_stmt *stmt = bare->statements[BARE_ENVELOPE_INSERT];
    sqlite3_bind_int64(stmt, 1, job->envelope_seq);
    sqlite3_bind_int64(stmt, 2, job->seq);
    bind_text(stmt, 3, (struct slice){bare->load->ids[i], UUID_TEXT_LEN});
    sqlite3_bind_blob(stmt, 4, bare->load->bodies[i].ptr, (int)bare->load->bodies[i].len,
                      SQLITE_STATIC);
    bare_step(bare, BARE_ENVELOPE_INSERT);
    sqlite_job_bind(bare->statements[BARE_JOB_INSERT], 1, job);
    bare_step(bare, BARE_JOB_INSERT);
}

static void read_envelope(struct bare *bare, int64_t seq)
{
    sqlite3_stmt *stmt = bare->statements[BARE_ENVELOPE_GET];
    sqlite3_bind_int64(stmt, 1, seq);
    if (sqlite3_step(stmt) != SQLITE_ROW)
        bench_die("an envelope is missing: %s", sqlite3_errmsg(bare->file->db));
    const void *body = sqlite3_column_blob(stmt, 2);
    memcpy(bare->body, body, (size_t)sqlite3_column_bytes(stmt, 2));
    sqlite3_reset(stmt);
}

static void lease_one(struct bare *bare, size_t i)
{
    struct job *job = &bare->jobs[i];
    read_envelope(bare, job->envelope_seq);
    job->state = JOB_RUNNING;
    job->attempt = 1;
    job->lease_nonce = job->id_hash;
    job->due_at = instant_add(bare->now, span_seconds(30));
    job->round_at = bare->now;
    write_event(bare, job, SLICE(EVENT_LEASED), SLICE(WHY_LEASED));
    sqlite3_stmt *stmt = bare->statements[BARE_JOB_REPLACE];
    sqlite_job_bind(stmt, 1, job);
    bind_text(stmt, JOB_COLUMN_COUNT + 1, SLICE(LOAD_WORKER));
    bare_step(bare, BARE_JOB_REPLACE);
}

static void finish_one(struct bare *bare, size_t i)
{
    struct job *job = &bare->jobs[i];
    job->state = JOB_DONE;
    write_event(bare, job, SLICE(EVENT_COMPLETED), SLICE(WHY_COMPLETED));
    sqlite3_stmt *stmt = bare->statements[BARE_FINISHED_INSERT];
    sqlite_job_bind(stmt, 1, job);
    sqlite3_bind_int64(stmt, JOB_COLUMN_COUNT + 1, bare->now.us);
    bind_text(stmt, JOB_COLUMN_COUNT + 2, (struct slice){bare->load->ids[i], UUID_TEXT_LEN});
    sqlite3_bind_blob(stmt, JOB_COLUMN_COUNT + 3, LOAD_RESULT, sizeof(LOAD_RESULT) - 1,
                      SQLITE_STATIC);
    bare_step(bare, BARE_FINISHED_INSERT);
    sqlite3_bind_int64(bare->statements[BARE_JOB_DELETE], 1, job->seq);
    bare_step(bare, BARE_JOB_DELETE);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* commit_range does `one` to the jobs from `from` to `to`, in one transaction. */
static void commit_range(struct bare *bare, void (*one)(struct bare *, size_t), size_t from,
                         size_t to)
{
    bare_step(bare, BARE_BEGIN);
    bare->now.us += 1000;
    for (size_t i = from; i < to; i++)
        one(bare, i);
    bare_step(bare, BARE_COMMIT);
}

/* run takes a part of the load through the steps, a batch at a time and a commit for each step. */
static struct outcome run(struct bare *bare, struct part part, size_t batch,
                          void (*const steps[])(struct bare *, size_t), size_t step_count)
{
    struct outcome outcome = {0};
    size_t end = part.from + part.count;
    int64_t bytes = written_bytes();
    int64_t cpu = cpu_ns();
    int64_t start = clock_ns();
    for (size_t from = part.from; from < end; from += batch) {
        size_t to = from + batch < end ? from + batch : end;
        for (size_t k = 0; k < step_count; k++)
            commit_range(bare, steps[k], from, to);
        outcome.commits += (double)step_count;
    }
    outcome.seconds = (double)(clock_ns() - start) / 1e9;
    outcome.cpu_seconds = (double)(cpu_ns() - cpu) / 1e9;
    outcome.bytes = (double)(written_bytes() - bytes);
    return outcome;
}

struct outcome bare_push(struct bare *bare, struct part part, size_t batch)
{
    return run(bare, part, batch, (void (*const[])(struct bare *, size_t)){push_one}, 1);
}

struct outcome bare_drain(struct bare *bare, struct part part, size_t batch)
{
    return run(bare, part, batch, (void (*const[])(struct bare *, size_t)){lease_one, finish_one},
               2);
}

/* ---- reading --------------------------------------------------------------------------------- */

double bare_scan_seconds(const char *path, size_t *count)
{
    int64_t start = clock_ns();
    struct sqlite_store *file = file_open(path);
    sqlite3_stmt *stmt = NULL;
    uint64_t sum = 0;
    if (sqlite3_prepare_v2(file->db, "SELECT * FROM job", -1, &stmt, NULL) != SQLITE_OK)
        bench_die("scanning: %s", sqlite3_errmsg(file->db));
    *count = 0;
    int rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        for (int column = 0; column < JOB_COLUMN_COUNT; column++)
            sum += (uint64_t)sqlite3_column_int64(stmt, column);
        sum += sqlite3_column_text(stmt, JOB_COLUMN_COUNT) != NULL;
        ++*count;
    }
    if (rc != SQLITE_DONE)
        bench_die("scanning: %s", sqlite3_errmsg(file->db));
    sqlite3_finalize(stmt);
    double seconds = (double)(clock_ns() - start) / 1e9;
    file_close(file);
    if (*count > 0 && sum == 0)
        bench_die("the scan read nothing");
    return seconds;
}

double bare_row_bytes(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT sum(payload) FROM dbstat", -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    double bytes = sqlite3_column_double(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return bytes;
}
