/* runs: /api/v1/runs: how far a run is that was pushed as many jobs.
 *
 * The jobs of run R require the capability "run:R", which only its own runner offers; so what is
 * live of it is known by that capability, without a look at each job.  What died of it is known by
 * the run_id of the letters. */
#include "api/body.h"
#include "api/routes.h"

/* struct run_query: which run, and what was found. */
struct run_query {
    struct slice run_id;
    struct slice capability;
    struct requiring live;
    int64_t dead, recovering;
};

static enum status read_run(struct engine *engine, struct store *store, void *ctx,
                            struct arena *arena, struct err *err)
{
    (void)engine, (void)arena;
    struct run_query *query = ctx;
    store->requiring(store, query->capability, &query->live);
    return store->letter_run(store, query->run_id, &query->dead, &query->recovering, err);
}

static enum status got(struct call *call, enum status status)
{
    const struct run_query *query = call->state;
    struct jsonw *out = &call->out;
    if (status != STATUS_OK)
        return status;
    jsonw_object(out);
    jsonw_put_string(out, "run_id", query->run_id);
    jsonw_put_int(out, "pending", query->live.counts[JOB_PENDING]);
    jsonw_put_int(out, "scheduled", query->live.counts[JOB_SCHEDULED]);
    jsonw_put_int(out, "running", query->live.counts[JOB_RUNNING]);
    jsonw_put_instant(out, "next_due", query->live.next_due);
    jsonw_put_int(out, "dead", query->dead + query->recovering);
    jsonw_put_int(out, "recovering", query->recovering);
    jsonw_object_end(out);
    return STATUS_OK;
}

/* runs_get counts what is left of a run.  One that nobody knows has nothing left. */
enum status runs_get(struct call *call)
{
    struct run_query *query = call_alloc(call, sizeof(*query));
    if (!query)
        return call->status;
    query->run_id = call->id;
    query->capability = arena_printf(&call->arena, "run:%.*s", SLICE_ARG(call->id));
    if (!query->capability.ptr)
        return err_no_memory(&call->err);
    return call_read_then(call, read_run, query, got);
}
