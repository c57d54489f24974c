/* deliveries: /api/v1/deliveries: a document for an endpoint becomes a job of the queue
 * "deliveries".
 *
 * The server calls only where its configuration lets it (target.h): that is said here, before
 * anything is on disk, and checked again when the call is made.  With `claim` the asker makes the
 * call itself, wherever it likes, and records it by leasing the job by its name.
 *
 * A document whose key a live delivery has is that delivery, when it is the same document for the
 * same target; another one is a conflict: it must not be taken for delivered. */
#include "api/body.h"
#include "api/routes.h"
#include "core/delivery.h"
#include "core/envelope.h"
#include "core/tree.h"
#include "core/uuid.h"

#define DELIVERY_MEMBERS "target kind tool body policy idempotency_key claim"

/* struct order: a delivery on its way in. */
struct order {
    struct push_command command;
    struct push_item item;
    struct delivery_order wanted;
    struct stored_envelope known; /* of the job that has the key */
};

static void read_kind(struct call *call, struct json body, struct delivery_order *order)
{
    struct slice kind = body_text(call, body, "kind", ENVELOPE_ID_MAX);
    if (!kind.len)
        return;
    order->has_kind = true;
    if (!delivery_kind_from_name(kind, &order->kind))
        call_fail(call, STATUS_INVALID, "kind: must be http or mcp, not \"%.*s\"", SLICE_ARG(kind));
}

/* read_order reads the request. */
static void read_order(struct call *call, struct json body, struct delivery_order *order)
{
    order->target = body_text(call, body, "target", URL_MAX);
    order->tool = body_text(call, body, "tool", ENVELOPE_ID_MAX);
    order->body = body_json(call, body, "body", JSON_OBJECT);
    order->policy = body_text(call, body, "policy", POLICY_NAME_MAX);
    order->key = body_text(call, body, "idempotency_key", ENVELOPE_ID_MAX);
    read_kind(call, body, order);
    if (!order->target.len)
        call_fail(call, STATUS_INVALID, "target: is required: the name of a target, or a URL");
    if (!order->body.raw.len)
        call_fail(call, STATUS_INVALID, "body: is required: the document to deliver");
}

/* check_target says whether a server that has to make the call may make it.  What the target says
 * of its deliveries holds for this one. */
static enum status check_target(struct call *call, struct delivery_order *order)
{
    static const struct targets none;
    struct target target;
    enum status status =
        targets_resolve(call->api->targets ? call->api->targets : &none, order->target, order->kind,
                        &call->arena, &target, &call->err);
    if (status != STATUS_OK)
        return status;
    if (order->has_kind && order->kind != target.kind)
        return err_set(&call->err, STATUS_INVALID, "kind: target \"%.*s\" is of kind %s",
                       SLICE_ARG(order->target), delivery_kind_name(target.kind));
    if (!order->policy.len)
        order->policy = target.policy;
    return STATUS_OK;
}

/* check_claimed says whether the asker could make the call: anywhere, but to something. */
static enum status check_claimed(struct call *call, const struct delivery_order *order)
{
    struct target target;
    return target_of_url(order->target, order->kind, &call->arena, &target, &call->err);
}

/* make_id names the job: its id is the key of a document that has none. */
static enum status make_id(struct call *call, struct delivery_order *order)
{
    const struct seams *seams = seams_real();
    uint8_t random[10];
    char text[UUID_TEXT_LEN + 1];
    seams->random(seams->ctx, random, sizeof(random));
    uuid_format(uuid_v7(seams->wall(seams->ctx), random), text);
    order->job_id = arena_dup(&call->arena, (struct slice){text, UUID_TEXT_LEN});
    return order->job_id.ptr ? STATUS_OK : err_no_memory(&call->err);
}

/* make_envelope fills the item with the job that the order becomes. */
static enum status make_envelope(struct call *call, struct order *order)
{
    struct buf text;
    buf_init(&text, ENVELOPE_BODY_MAX);
    delivery_print(&order->wanted, &text);
    enum status status = buf_status(&text, &call->err);
    struct slice body = arena_dup(&call->arena, buf_slice(&text));
    buf_release(&text);
    if (status == STATUS_TOO_LARGE)
        return err_set(&call->err, status, "body: has more than %d bytes", ENVELOPE_BODY_MAX);
    if (status == STATUS_OK && !body.ptr)
        status = err_no_memory(&call->err);
    return status ? status
                  : envelope_parse(body, ENVELOPE_BODY_MAX, &call->arena, &order->item.envelope,
                                   &call->err);
}

static enum status answer(struct call *call, const struct order *order)
{
    call->answer->status = 202;
    jsonw_object(&call->out);
    jsonw_put_string(&call->out, "job_id", order->item.job_id);
    jsonw_put_str(&call->out, "state", job_state_name(order->item.state));
    jsonw_put_bool(&call->out, "created", order->item.created);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* ---- a key that is known --------------------------------------------------------------------- */

static enum status read_known(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    struct order *order = ctx;
    struct job_row row;
    (void)engine;
    enum status status = store->job_find(store, order->item.job_id, arena, &row, err);
    if (status == STATUS_OK)
        status = store->envelope_get(store, row.job.envelope_seq, arena, &order->known, err);
    return status;
}

/* is_same says whether the job that is there does what is wanted. */
static bool is_same(const struct order *order, struct arena *arena)
{
    struct json job;
    struct delivery delivery;
    struct err err;
    return json_parse(order->known.body, &job, NULL) == STATUS_OK &&
           delivery_read(job, order->item.job_id, arena, &delivery, &err) == STATUS_OK &&
           slice_eq(delivery.target, order->wanted.target) &&
           tree_same(delivery.body, order->wanted.body);
}

static enum status compared(struct call *call, enum status status)
{
    const struct order *order = call->state;
    if (status == STATUS_OK && is_same(order, &call->arena))
        return answer(call, order);
    call->error_job_id = order->item.job_id;
    return err_set(&call->err, STATUS_CONFLICT,
                   "idempotency_key: \"%.*s\" is the key of another delivery, which is under way: "
                   "job \"%.*s\" has another body or target; wait for its end, or cancel it",
                   SLICE_ARG(order->item.envelope.idempotency_key), SLICE_ARG(order->item.job_id));
}

static enum status pushed(struct call *call, enum status status)
{
    struct order *order = call->state;
    if (status != STATUS_OK)
        return status;
    if (order->item.status != STATUS_OK) {
        call->error_job_id = order->item.job_id;
        return err_set(&call->err, order->item.status, "%s", order->item.err.text);
    }
    if (order->item.created)
        return answer(call, order);
    return call_read_then(call, read_known, order, compared);
}

enum status deliveries_push(struct call *call)
{
    struct order *order = call_alloc(call, sizeof(*order));
    if (!order)
        return call->status;
    struct json body = body_object(call, DELIVERY_MEMBERS);
    struct receipt receipt;
    read_order(call, body, &order->wanted);
    order->item.claim = body_bool(call, body, "claim", false);
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = order->item.claim ? check_claimed(call, &order->wanted)
                                           : check_target(call, &order->wanted);
    if (status == STATUS_OK && !order->wanted.key.len &&
        !receipt_read(order->wanted.body, &call->arena, &receipt))
        status = make_id(call, &order->wanted);
    if (status == STATUS_OK)
        status = make_envelope(call, order);
    if (status != STATUS_OK)
        return status;
    order->command = (struct push_command){
        .command = call_command(call, COMMAND_PUSH), .items = &order->item, .count = 1};
    return call_then(call, &order->command.command, pushed, order);
}
