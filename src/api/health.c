/* health: whether the server lives, whether it can work, what it is, and the description of the
 * API.
 *
 * Nobody needs a token for these: a supervisor, a balancer or a reader of the API's description has
 * none. */
#include "api/openapi.h"
#include "api/routes.h"

static void put_status(struct call *call, const char *status)
{
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "status", status);
    jsonw_object_end(&call->out);
}

/* health_live says that requests are answered, whatever the engine does. */
enum status health_live(struct call *call)
{
    put_status(call, "ok");
    return STATUS_OK;
}

/* look asks the store something small: an engine that is stuck, or a store that cannot be read, is
 * not ready. */
static enum status look(struct engine *engine, struct store *store, void *ctx, struct arena *arena,
                        struct err *err)
{
    (void)engine, (void)ctx, (void)arena;
    struct instant oldest, newest;
    return store->letter_bounds(store, &oldest, &newest, err);
}

static enum status looked(struct call *call, enum status status)
{
    if (status == STATUS_OK)
        put_status(call, "ready");
    return status;
}

/* health_ready says that the engine answers and the store can be read. */
enum status health_ready(struct call *call)
{
    return call_read_then(call, look, call, looked);
}

/* index_get says what this is and where to go on. */
enum status index_get(struct call *call)
{
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "name", "lazaret");
    jsonw_put_str(&call->out, "version", LAZARET_VERSION);
    jsonw_put_str(&call->out, "api", "/api/v1");
    jsonw_put_str(&call->out, "openapi", "/api/v1/openapi.json");
    jsonw_put_str(&call->out, "metrics", "/metrics");
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* openapi_get hands out openapi.json as it was when the program was built. */
enum status openapi_get(struct call *call)
{
    call->answer->content_type = "application/json";
    buf_add_slice(&call->answer->body, (struct slice){openapi_json, openapi_json_len});
    return STATUS_OK;
}
