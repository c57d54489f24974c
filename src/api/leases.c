/* leases: /api/v1/leases: workers take jobs, keep them, and give them back.
 *
 * Waiting for a job (`wait_ms`) is done by the engine, which answers when one is ready: nobody
 * polls.
 *
 * A member that is not known is an error, as everywhere: a mistyped "queue" would lease from any.
 */
#include "api/body.h"
#include "api/print.h"
#include "api/routes.h"
#include "core/envelope.h"
#include "core/replay.h"

#define LEASE_COUNT_MAX 1000
#define LEASE_IDS_MAX 10000
#define LEASE_MS_MAX (INT64_C(12) * 3600 * 1000)
#define WAIT_MS_MAX (INT64_C(10) * 60 * 1000)
#define LEASE_MEMBERS                                                                              \
    "worker_id queues count wait_ms lease_ms capabilities scopes permissions job_ids"
#define HEARTBEAT_MEMBERS "worker_id lease_ids lease_ms"
#define RELEASE_MEMBERS "worker_id lease_ids"
#define INTERRUPTED_MEMBERS "worker_id message"
#define NAMES_MAX 1000 /* queues, capabilities, scopes or permissions of one worker */

/* worker_id reads who asks; it is required. */
static struct slice worker_id(struct call *call, struct json body)
{
    struct slice worker = body_text(call, body, "worker_id", ENVELOPE_ID_MAX);
    if (worker.len == 0)
        call_fail(call, STATUS_INVALID, "worker_id: is required");
    return worker;
}

/* lease_ids reads the leases; they are required. */
static struct slice *lease_ids(struct call *call, struct json body, size_t *count)
{
    struct json array = body_json(call, body, "lease_ids", JSON_ARRAY);
    struct slice *ids = body_texts(call, body, "lease_ids", LEASE_IDS_MAX, ENVELOPE_ID_MAX, count);
    if (array.raw.len == 0)
        call_fail(call, STATUS_INVALID, "lease_ids: is required");
    return ids;
}

static void print_lease(struct jsonw *out, const struct lease *lease)
{
    jsonw_object(out);
    jsonw_put_str(out, "lease_id", lease->lease_id);
    jsonw_put_string(out, "job_id", lease->job_id);
    jsonw_put_int(out, "attempt", lease->attempt);
    jsonw_put_string(out, "match", lease->match);
    jsonw_put_instant(out, "expires_at", lease->expires_at);
    jsonw_put_string(out, "queue", lease->queue);
    jsonw_put_raw(out, "job", lease->body);
    jsonw_object_end(out);
}

static enum status taken(struct call *call, enum status status)
{
    struct lease_command *command = call->state;
    if (status != STATUS_OK)
        return status;
    call->leased = command;
    jsonw_object(&call->out);
    jsonw_key(&call->out, "leases");
    jsonw_array(&call->out);
    for (size_t i = 0; i < command->count; i++)
        print_lease(&call->out, &command->leases[i]);
    jsonw_array_end(&call->out);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* refuse_reserved refuses capabilities that only parts of the server itself have. */
static void refuse_reserved(struct call *call, const struct ready_query *query)
{
    const struct slice reserved = SLICE(REPLAY_RESERVED);
    for (size_t i = 0; i < query->capability_count; i++) {
        struct slice name = query->capabilities[i];
        if (name.len >= reserved.len && memcmp(name.ptr, reserved.ptr, reserved.len) == 0)
            call_fail(call, STATUS_INVALID, "capabilities: \"%.*s\" is reserved for the server",
                      SLICE_ARG(name));
    }
}

enum status leases_take(struct call *call)
{
    struct lease_command *command = call_alloc(call, sizeof(*command));
    if (!command)
        return call->status;
    struct json body = body_object(call, LEASE_MEMBERS);
    struct ready_query *query = &command->query;
    command->command = call_command(call, COMMAND_LEASE);
    command->worker_id = worker_id(call, body);
    query->queues =
        body_texts(call, body, "queues", NAMES_MAX, ENVELOPE_QUEUE_MAX, &query->queue_count);
    query->capabilities = body_texts(call, body, "capabilities", NAMES_MAX, ENVELOPE_ID_MAX,
                                     &query->capability_count);
    command->scopes.names =
        body_texts(call, body, "scopes", NAMES_MAX, ENVELOPE_ID_MAX, &command->scopes.count);
    command->permissions.names = body_texts(call, body, "permissions", NAMES_MAX, ENVELOPE_ID_MAX,
                                            &command->permissions.count);
    command->job_ids =
        body_texts(call, body, "job_ids", NAMES_MAX, ENVELOPE_ID_MAX, &command->job_id_count);
    command->max = (size_t)body_int(call, body, "count", 1, LEASE_COUNT_MAX, 1);
    command->lease = span_ms(body_int(call, body, "lease_ms", 1, LEASE_MS_MAX, 0));
    command->wait = span_ms(body_int(call, body, "wait_ms", 0, WAIT_MS_MAX, 0));
    if (body_json(call, body, "job_ids", JSON_ARRAY).raw.len && !command->job_id_count)
        call_fail(call, STATUS_INVALID, "job_ids: names no job; leave it out to lease any");
    refuse_reserved(call, query);
    if (call->status != STATUS_OK)
        return call->status;
    return call_then(call, &command->command, taken, command);
}

/* print_outcomes prints the ids of the leases with one outcome. */
static void print_outcomes(struct jsonw *out, const char *key,
                           const struct heartbeat_command *command, enum heartbeat_outcome outcome)
{
    jsonw_key(out, key);
    jsonw_array(out);
    for (size_t i = 0; i < command->count; i++) {
        if (command->items[i].outcome == outcome)
            jsonw_string(out, command->items[i].lease_id);
    }
    jsonw_array_end(out);
}

static enum status kept(struct call *call, enum status status)
{
    const struct heartbeat_command *command = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    print_outcomes(&call->out, "extended", command, HEARTBEAT_EXTENDED);
    print_outcomes(&call->out, "lost", command, HEARTBEAT_LOST);
    print_outcomes(&call->out, "cancelled", command, HEARTBEAT_CANCELLED);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

enum status leases_heartbeat(struct call *call)
{
    struct json body = body_object(call, HEARTBEAT_MEMBERS);
    struct heartbeat_command *command = call_alloc(call, sizeof(*command));
    if (!command)
        return call->status;
    command->command = call_command(call, COMMAND_HEARTBEAT);
    command->worker_id = worker_id(call, body);
    struct slice *ids = lease_ids(call, body, &command->count);
    command->lease = span_ms(body_int(call, body, "lease_ms", 1, LEASE_MS_MAX, 0));
    command->items = call_alloc(call, (command->count + 1) * sizeof(*command->items));
    if (call->status != STATUS_OK)
        return call->status;
    for (size_t i = 0; i < command->count; i++)
        command->items[i].lease_id = ids[i];
    return call_then(call, &command->command, kept, command);
}

/* print_released prints the ids of the leases that were (or were not) given back. */
static void print_released(struct jsonw *out, const char *key,
                           const struct release_command *command, bool released)
{
    jsonw_key(out, key);
    jsonw_array(out);
    for (size_t i = 0; i < command->count; i++) {
        if ((command->items[i].status == STATUS_OK) == released)
            jsonw_string(out, command->items[i].lease_id);
    }
    jsonw_array_end(out);
}

static enum status given_back(struct call *call, enum status status)
{
    const struct release_command *command = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    print_released(&call->out, "released", command, true);
    print_released(&call->out, "lost", command, false);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

enum status leases_release(struct call *call)
{
    struct json body = body_object(call, RELEASE_MEMBERS);
    struct release_command *command = call_alloc(call, sizeof(*command));
    if (!command)
        return call->status;
    command->command = call_command(call, COMMAND_RELEASE);
    struct slice *ids = lease_ids(call, body, &command->count);
    command->items = call_alloc(call, (command->count + 1) * sizeof(*command->items));
    if (call->status != STATUS_OK)
        return call->status;
    for (size_t i = 0; i < command->count; i++)
        command->items[i].lease_id = ids[i];
    return call_then(call, &command->command, given_back, command);
}

/* struct interruption: a worker's leases on their way to their end, a page at a time. */
struct interruption {
    struct interrupt_command command;
    size_t total;
};

static enum status cut_off(struct call *call, enum status status)
{
    struct interruption *interruption = call->state;
    struct interrupt_command *command = &interruption->command;
    if (status != STATUS_OK)
        return status;
    interruption->total += command->interrupted;
    if (command->more)
        return call_then(call, &command->command, cut_off, interruption);
    jsonw_object(&call->out);
    jsonw_put_int(&call->out, "interrupted", (int64_t)interruption->total);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* leases_interrupted ends every lease that the worker holds: it was cut off, or gives up now. */
enum status leases_interrupted(struct call *call)
{
    struct json body = body_object(call, INTERRUPTED_MEMBERS);
    struct interruption *interruption = call_alloc(call, sizeof(*interruption));
    if (!interruption)
        return call->status;
    struct interrupt_command *command = &interruption->command;
    command->command = call_command(call, COMMAND_INTERRUPT);
    command->worker_id = worker_id(call, body);
    command->message = body_text(call, body, "message", BODY_NOTE_MAX);
    if (call->status != STATUS_OK)
        return call->status;
    return call_then(call, &command->command, cut_off, interruption);
}
