/* queues: /api/v1/queues: how much is where, and pausing. */
#include "api/body.h"
#include "api/print.h"
#include "api/routes.h"
#include "core/envelope.h"

struct queue_page {
    struct queue_info *queues;
    size_t count;
};

static enum status read_queues(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine;
    struct queue_page *page = ctx;
    return store->queue_list(store, arena, &page->queues, &page->count, err);
}

static enum status listed(struct call *call, enum status status)
{
    const struct queue_page *page = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_array(&call->out);
    for (size_t i = 0; i < page->count; i++)
        print_queue(&call->out, &page->queues[i]);
    jsonw_array_end(&call->out);
    return STATUS_OK;
}

enum status queues_list(struct call *call)
{
    return call_read_then(call, read_queues, call_alloc(call, sizeof(struct queue_page)), listed);
}

static enum status paused(struct call *call, enum status status)
{
    const struct queue_command *command = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "status", command->paused ? "paused" : "resumed");
    jsonw_put_string(&call->out, "queue", call->id);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* queues_pause pauses or resumes.  A queue may be paused before anything is in it. */
enum status queues_pause(struct call *call)
{
    struct json body = body_object(call, "actor");
    struct slice actor = body_text(call, body, "actor", ENVELOPE_ID_MAX);
    struct queue_command *command = call_alloc(call, sizeof(*command));
    if (call->status != STATUS_OK)
        return call->status;
    command->command = call_command_by(call, COMMAND_QUEUE, actor);
    command->queue = call->id;
    command->paused = call->argument;
    return call_then(call, &command->command, paused, command);
}
