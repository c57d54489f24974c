/* postgres: the shared store: opening and closing, what is answered from memory, and the table of
 * its functions. */
#include "store/postgres.h"

#include "base/mem.h"
#include "store/postgres_letter.h"

#define CACHE_BYTES ((size_t)16 << 20)
#define PREFETCH_MIN 2

/* -- news -------------------------------------------------------------------------------------- */

static unsigned postgres_news(struct store *store)
{
    struct postgres_store *s = postgres_of(store);
    unsigned news = s->news;
    s->news = 0;
    return news;
}

static void postgres_listen(struct store *store, void (*woken)(void *ctx), void *ctx)
{
    struct postgres_store *s = postgres_of(store);
    BUG_ON(s->listener);
    s->listener = pg_listener_start(s, woken, ctx);
}

/* -- what is answered from memory -------------------------------------------------------------- */

static size_t postgres_ready(struct store *store, const struct ready_query *query, struct job *out,
                             size_t max)
{
    struct postgres_store *s = postgres_of(store);
    size_t count = live_ready(s->live, query, out, max);
    if (count >= PREFETCH_MIN) /* they are read one by one next */
        pg_envelopes_fetch(s, out, count);
    return count;
}

static void postgres_due(struct store *store, struct instant now)
{
    live_due(postgres_of(store)->live, now);
}

static size_t postgres_expired(struct store *store, struct instant now, struct job *out, size_t max)
{
    return live_expired(postgres_of(store)->live, now, out, max);
}

static struct instant postgres_next_timer(struct store *store)
{
    return live_next_timer(postgres_of(store)->live);
}

static size_t postgres_live_count(struct store *store)
{
    return live_count(postgres_of(store)->live);
}

static void postgres_requiring(struct store *store, struct slice capability, struct requiring *out)
{
    live_requiring(postgres_of(store)->live, capability, out);
}

static size_t postgres_hinted(struct store *store, const struct hinted_query *query,
                              struct job *out, size_t max)
{
    struct postgres_store *s = postgres_of(store);
    size_t count = live_hinted(s->live, query, out, max);
    if (count >= PREFETCH_MIN)
        pg_envelopes_fetch(s, out, count);
    return count;
}

static size_t postgres_hinted_count(struct store *store)
{
    return live_hinted_count(postgres_of(store)->live);
}

static size_t postgres_unassigned(struct store *store, struct instant now, struct job *out,
                                  size_t max)
{
    return live_unassigned(postgres_of(store)->live, now, out, max);
}

static void postgres_assignment_restart(struct store *store, uint32_t queue, struct instant now)
{
    live_assignment_restart(postgres_of(store)->live, queue, now);
}

static const struct slice *postgres_capabilities_names(struct store *store, uint32_t number,
                                                       size_t *count)
{
    return live_capabilities_names(postgres_of(store)->live, number, count);
}

/* -- opening and closing ----------------------------------------------------------------------- */

static void postgres_close(struct store *store)
{
    struct postgres_store *s = postgres_of(store);
    if (!s)
        return;
    pg_listener_stop(s->listener);
    if (s->pipe)
        pg_disconnect(s);
    pg_pipe_free(s->pipe);
    pg_letters_close(s);
    pg_columns_release(&s->events);
    pg_columns_release(&s->envelopes);
    pg_columns_release(&s->finished);
    pg_columns_release(&s->attempts);
    pg_columns_release(&s->extras);
    pg_jobs_free(s->jobs);
    pg_totals_free(s->totals);
    pg_cache_free(s->cache);
    live_free(s->live);
    arena_release(&s->arena);
    mem_free(s->url);
    mem_free(s);
}

static const struct store functions = {
    .close = postgres_close,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .reload = postgres_reload,
    .refresh = postgres_refresh,
    .news = postgres_news,
    .listen = postgres_listen,
    .duty_get = postgres_duty_get,
    .duty_put = postgres_duty_put,
    .roster_put = postgres_roster_put,
    .roster_list = postgres_roster_list,
    .inbox_list = postgres_inbox_list,
    .inbox_done = postgres_inbox_done,
    .job_by_seq = postgres_job_by_seq,
    .job_by_id = postgres_job_by_id,
    .job_by_key = postgres_job_by_key,
    .ready = postgres_ready,
    .due = postgres_due,
    .expired = postgres_expired,
    .next_timer = postgres_next_timer,
    .live_count = postgres_live_count,
    .hinted = postgres_hinted,
    .hinted_count = postgres_hinted_count,
    .unassigned = postgres_unassigned,
    .assignment_restart = postgres_assignment_restart,
    .requiring = postgres_requiring,
    .job_insert = postgres_job_insert,
    .job_update = postgres_job_update,
    .job_worker = postgres_job_worker,
    .job_finish = postgres_job_finish,
    .job_bury = postgres_job_bury,
    .job_revive = postgres_job_revive,
    .seq_next = postgres_seq_next,
    .shift = postgres_shift,
    .envelope_get = postgres_envelope_get,
    .envelope_job_id = postgres_envelope_job_id,
    .envelope_add = postgres_envelope_add,
    .envelope_list = postgres_envelope_list,
    .document_get = postgres_document_get,
    .document_put = postgres_document_put,
    .attempt_add = postgres_attempt_add,
    .attempt_list = postgres_attempt_list,
    .job_find = postgres_job_find,
    .job_find_seq = postgres_job_find_seq,
    .job_list = postgres_job_list,
    .finished_get = postgres_finished_get,
    .forever_get = postgres_forever_get,
    .forever_put = postgres_forever_put,
    .letter_put = postgres_letter_put,
    .letter_get = postgres_letter_get,
    .letter_by_job = postgres_letter_by_job,
    .letter_expect = postgres_letter_expect,
    .letter_by_origin = postgres_letter_by_origin,
    .letter_list = postgres_letter_list,
    .letter_like = postgres_letter_like,
    .letter_counts = postgres_letter_counts,
    .letter_bounds = postgres_letter_bounds,
    .letter_oldest = postgres_letter_oldest,
    .letter_run = postgres_letter_run,
    .letter_hours = postgres_letter_hours,
    .group_list = postgres_group_list,
    .group_get = postgres_group_get,
    .group_set = postgres_group_set,
    .letter_purge = postgres_letter_purge,
    .finished_before = postgres_finished_before,
    .finished_purge = postgres_finished_purge,
    .tombstone_get = postgres_tombstone_get,
    .tombstone_find = postgres_tombstone_find,
    .event_append = postgres_event_append,
    .event_list = postgres_event_list,
    .event_of_job = postgres_event_of_job,
    .event_head = postgres_event_head,
    .queue_number = postgres_queue_number,
    .queue_name = postgres_queue_name,
    .queue_pause = postgres_queue_pause,
    .queue_paused = postgres_queue_paused,
    .queue_list = postgres_queue_list,
    .capabilities_number = postgres_capabilities_number,
    .capabilities_names = postgres_capabilities_names,
    .policy_put = postgres_policy_put,
    .policy_get = postgres_policy_get,
    .policy_list = postgres_policy_list,
};

/* parts_make makes what the store is made of. */
static enum status parts_make(struct postgres_store *s, const char *url, struct err *err)
{
    s->url = mem_strdup(url);
    s->live = live_new();
    s->pipe = pg_pipe_new();
    s->jobs = pg_jobs_new();
    s->totals = pg_totals_new();
    s->cache = pg_cache_new(CACHE_BYTES);
    pg_events_init(s);
    pg_bodies_init(s);
    pg_finished_init(s);
    if (!s->url || !s->live || !s->pipe || !s->jobs || !s->totals || !s->cache)
        return err_no_memory(err);
    return pg_letters_open(s, err);
}

/* tables_open makes the tables what they have to be, and memory show them. */
static enum status tables_open(struct postgres_store *s, struct err *err)
{
    enum status status = pg_connected(s, err);
    if (status == STATUS_IO)
        return err_set(err, STATUS_UNAVAILABLE,
                       "PostgreSQL at %s cannot be reached (%s): check that it runs there, and the "
                       "address, the role and the password",
                       s->where, s->reason);
    if (status != STATUS_OK && s->reason[0]) /* otherwise an error of SQL says it */
        return err_set(err, status, "PostgreSQL at %s cannot be used: %s", s->where, s->reason);
    if (status == STATUS_OK)
        status = pg_schema_migrate(s, err);
    if (status == STATUS_OK)
        status = pg_swarm_open(s, err);
    return status == STATUS_OK ? pg_load(s, err) : status;
}

enum status store_postgres_open(const struct postgres_config *config, struct store **out,
                                struct err *err)
{
    struct postgres_store *s = mem_zalloc(sizeof(*s));
    if (!s)
        return err_no_memory(err);
    s->store = functions;
    s->seams = config->seams;
    s->pooled = config->pooled;
    s->server = seams_random_u64(config->seams);
    s->reason_status = STATUS_IO;
    enum status status = parts_make(s, config->url, err);
    if (status == STATUS_OK)
        status = pg_where_find(s, err);
    if (status == STATUS_OK)
        status = tables_open(s, err);
    if (status != STATUS_OK) {
        postgres_close(&s->store);
        return status;
    }
    s->news = 0;
    *out = &s->store;
    return STATUS_OK;
}
