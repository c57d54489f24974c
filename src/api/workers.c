/* workers: /api/v1/workers: who takes jobs, and registering without taking any.
 *
 * What a worker declares decides which dispatched jobs it is given: those whose policy has hints.
 * A lease declares its worker, too; so registering is for one that wants to be known before it
 * asks, or does not want to repeat itself. */
#include "api/body.h"
#include "api/routes.h"
#include "core/envelope.h"

#define WORKER_MEMBERS "worker_id queues capabilities scopes permissions ttl_ms"
#define NAMES_MAX 1000 /* of one list */
#define TTL_MS_MAX (INT64_C(24) * 3600 * 1000)
#define LIMIT_DEFAULT 1000
#define LIMIT_MAX 10000

static void print_list(struct jsonw *out, const char *key, struct match_list list)
{
    jsonw_key(out, key);
    jsonw_array(out);
    for (size_t i = 0; i < list.count; i++)
        jsonw_string(out, list.names[i]);
    jsonw_array_end(out);
}

static void print_worker(struct jsonw *out, const struct worker_info *worker)
{
    jsonw_object(out);
    jsonw_put_string(out, "worker_id", worker->worker_id);
    print_list(out, "queues", worker->queues);
    print_list(out, "capabilities", worker->capabilities);
    print_list(out, "scopes", worker->scopes);
    print_list(out, "permissions", worker->permissions);
    jsonw_put_int(out, "ttl_ms", worker->ttl.us / 1000);
    jsonw_put_instant(out, "last_seen", worker->last_seen);
    jsonw_put_bool(out, "live", worker->live);
    jsonw_put_int(out, "running", (int64_t)worker->running);
    jsonw_put_int(out, "waiting", (int64_t)worker->waiting);
    jsonw_object_end(out);
}

/* ---- registering ----------------------------------------------------------------------------- */

static struct match_list read_list(struct call *call, struct json body, const char *name,
                                   size_t text_max)
{
    struct match_list list;
    list.names = body_texts(call, body, name, NAMES_MAX, text_max, &list.count);
    return list;
}

static enum status register_worker(struct engine *engine, struct store *store, void *ctx,
                                   struct arena *arena, struct err *err)
{
    (void)store, (void)arena;
    return engine_worker_set(engine, ctx, err);
}

static enum status registered(struct call *call, enum status status)
{
    if (status == STATUS_OK)
        print_worker(&call->out, call->state);
    return status;
}

enum status workers_put(struct call *call)
{
    struct json body = body_object(call, WORKER_MEMBERS);
    struct worker_info *worker = call_alloc(call, sizeof(*worker));
    if (!worker)
        return call->status;
    worker->worker_id = body_text(call, body, "worker_id", ENVELOPE_ID_MAX);
    if (worker->worker_id.len == 0)
        call_fail(call, STATUS_INVALID, "worker_id: is required");
    worker->queues = read_list(call, body, "queues", ENVELOPE_QUEUE_MAX);
    worker->capabilities = read_list(call, body, "capabilities", ENVELOPE_ID_MAX);
    worker->scopes = read_list(call, body, "scopes", ENVELOPE_ID_MAX);
    worker->permissions = read_list(call, body, "permissions", ENVELOPE_ID_MAX);
    worker->ttl = span_ms(body_int(call, body, "ttl_ms", 1, TTL_MS_MAX, 0));
    if (call->status != STATUS_OK)
        return call->status;
    return call_read_then(call, register_worker, worker, registered);
}

/* ---- listing --------------------------------------------------------------------------------- */

/* struct worker_page: what was asked for, and what was found. */
struct worker_page {
    enum tristate live;
    size_t limit;
    struct worker_info *workers;
    size_t count;
};

static enum status read_workers(struct engine *engine, struct store *store, void *ctx,
                                struct arena *arena, struct err *err)
{
    struct worker_page *page = ctx;
    (void)store;
    return engine_worker_list(engine, page->live, page->limit, arena, &page->workers, &page->count,
                              err);
}

static enum status listed(struct call *call, enum status status)
{
    const struct worker_page *page = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_array(&call->out);
    for (size_t i = 0; i < page->count; i++)
        print_worker(&call->out, &page->workers[i]);
    jsonw_array_end(&call->out);
    return STATUS_OK;
}

enum status workers_list(struct call *call)
{
    struct worker_page *page = call_alloc(call, sizeof(*page));
    if (!page)
        return call->status;
    page->live = query_tristate(call, "live");
    page->limit = (size_t)query_int(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT);
    if (call->status != STATUS_OK)
        return call->status;
    return call_read_then(call, read_workers, page, listed);
}
