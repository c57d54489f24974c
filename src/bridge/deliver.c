/* deliver: an effort is a request, from the lease to the report.
 *
 * What cannot be sent at all (no target, an address that is not allowed) fails at once, from a
 * timer: an effort never ends inside its start. */
#include "bridge/deliver.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/seams.h"
#include "bridge/protocol.h"
#include "crew/loop.h"

#define ANSWER_HTTP_MAX (64 << 10) /* bytes of an answer that are of interest */
#define ANSWER_MCP_MAX (1 << 20)
#define BODY_MAX (2 << 20)
#define REPORT_MAX (256 << 10)

struct effort {
    const struct deliver *deliver;
    struct grant *grant;
    void (*ended)(void *owner, const struct effort_end *end);
    void *owner;
    struct delivery delivery;
    struct target target;
    enum delivery_kind kind;
    struct wire_call call;
    struct buf body, report;
    struct span began;
    bool sent;                   /* the wire has it */
    bool stopping;               /* somebody ended it, with `outcome` */
    enum effort_outcome outcome; /* of a stop */
    struct effort_end end;
    struct protocol_verdict refused; /* why it cannot be sent at all */
    struct loop_timer later;
};

static struct instant now(const struct effort *effort)
{
    const struct seams *seams = effort->deliver->seams;
    return seams->wall(seams->ctx);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* finish tells the owner, who may free us. */
static void finish(struct effort *effort, enum effort_outcome outcome)
{
    struct effort_end *end = &effort->end;
    end->outcome = outcome;
    end->report = buf_slice(&effort->report);
    end->duration = (struct span){loop_now().us - effort->began.us};
    if (effort->delivery.is_receipt)
        end->receipt = effort->delivery.receipt.status;
    effort->ended(effort->owner, end);
}

/* fail reports what happened. */
static void fail(struct effort *effort, const struct protocol_verdict *verdict)
{
    protocol_failure(verdict, &effort->call, slice_of(effort->deliver->agent), &effort->report);
    effort->end.error_type = slice_of(verdict->error_type);
    effort->end.message = verdict->message;
    finish(effort, EFFORT_FAILED);
}

/* give_up reports that somebody ended it: what was sent may have arrived. */
static void give_up(struct effort *effort)
{
    struct jsonw w;
    struct slice why = effort->outcome == EFFORT_CANCELLED
                           ? SLICE("the delivery was cancelled while it was under way")
                           : SLICE("the delivery was cut off: whoever made it was stopped");
    jsonw_init(&w, &effort->report);
    jsonw_object(&w);
    jsonw_put_string(&w, "message", why);
    if (effort->outcome == EFFORT_INTERRUPTED)
        jsonw_put_bool(&w, "interrupted", true);
    jsonw_put_str(&w, "agent_id", effort->deliver->agent);
    jsonw_object_end(&w);
    effort->end.message = why;
    finish(effort, effort->outcome);
}

static void answered(struct wire_call *call)
{
    struct effort *effort = call->owner;
    struct protocol_verdict verdict;
    effort->sent = false;
    if (call->outcome == WIRE_STOPPED) {
        give_up(effort);
        return;
    }
    if (call->outcome == WIRE_UNSENT && effort->deliver->unreached)
        effort->deliver->unreached(effort->deliver->ctx, effort->grant->job_id);
    protocol_judge(effort->kind, call, now(effort), &effort->grant->arena, &verdict);
    if (!verdict.delivered) {
        fail(effort, &verdict);
        return;
    }
    protocol_result(call, &effort->report);
    finish(effort, EFFORT_SUCCEEDED);
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* refuse keeps why nothing is sent. */
static void refuse(struct effort *effort, enum status status, const struct err *err)
{
    bool denied = status == STATUS_REFUSED, later = status == STATUS_NO_MEMORY;
    effort->refused = (struct protocol_verdict){
        .class = denied  ? CLASS_POLICY_VIOLATION
                 : later ? CLASS_CONGESTION
                         : CLASS_INVALID_INPUT,
        .error_type = denied  ? "AddressRefused"
                      : later ? "ResourceExhausted"
                              : "BadDelivery",
        .message = arena_dup(&effort->grant->arena, slice_of(err->text)),
        .side_effects = EFFECTS_NONE,
        .retry_after = {-1},
    };
}

static enum status may_connect(const struct wire_call *call, struct address address, uint16_t port,
                               struct err *err)
{
    const struct effort *effort = call->owner;
    return targets_may_connect(effort->deliver->targets, &effort->target, address, port, err);
}

/* find_target says where it goes. */
static enum status find_target(struct effort *effort, struct err *err)
{
    const struct deliver *deliver = effort->deliver;
    const struct delivery *delivery = &effort->delivery;
    enum delivery_kind kind = delivery->has_kind ? delivery->kind : DELIVERY_HTTP;
    enum status status = STATUS_OK;
    if (deliver->to)
        effort->target = kind == DELIVERY_MCP && deliver->to_mcp ? *deliver->to_mcp : *deliver->to;
    else if (!delivery->target.len)
        return err_set(err, STATUS_INVALID,
                       "the delivery names no target: bring it back with \"lazaret dlq recover "
                       "--to URL\", or retry it with a patch that sets inputs.target");
    else
        status = targets_resolve(deliver->targets, delivery->target, kind, &effort->grant->arena,
                                 &effort->target, err);
    effort->kind = effort->target.kind;
    return status;
}

/* prepare makes the request. */
static enum status prepare(struct effort *effort, struct err *err)
{
    struct arena *arena = &effort->grant->arena;
    struct wire_call *call = &effort->call;
    enum status status =
        delivery_read(effort->grant->job, effort->grant->job_id, arena, &effort->delivery, err);
    if (!status)
        status = find_target(effort, err);
    if (status)
        return status;
    const struct target *target = &effort->target;
    protocol_body(&effort->delivery, effort->kind, protocol_tool(&effort->delivery, target),
                  &effort->body);
    status = buf_status(&effort->body, err);
    call->body = buf_slice(&effort->body);
    call->url = arena_printf(arena, "%.*s", SLICE_ARG(target->url)).ptr;
    call->headers =
        protocol_headers(&effort->delivery, target, effort->kind, call->body, now(effort), arena);
    call->private_path = target->private_path || effort->kind == DELIVERY_SLACK;
    call->connect = target->connect;
    call->whole = target->whole;
    call->redirects = target->redirects;
    call->host_parallel = target->parallel;
    call->answer_max = effort->kind == DELIVERY_MCP ? ANSWER_MCP_MAX : ANSWER_HTTP_MAX;
    call->may_connect = effort->deliver->to ? NULL : may_connect;
    return status || (call->url && call->headers) ? status : err_no_memory(err);
}

/* end_unsent ends what was not sent at all. */
static void end_unsent(struct loop_timer *timer)
{
    struct effort *effort = (struct effort *)((char *)timer - offsetof(struct effort, later));
    if (effort->stopping)
        give_up(effort);
    else
        fail(effort, &effort->refused);
}

static void effort_free(void *ctx)
{
    struct effort *effort = ctx;
    loop_timer_clear(effort->deliver->loop, &effort->later);
    wire_call_release(&effort->call);
    buf_release(&effort->body);
    buf_release(&effort->report);
    mem_free(effort);
}

static void *effort_start(void *ctx, struct grant *grant, unsigned slot,
                          void (*ended)(void *owner, const struct effort_end *end), void *owner)
{
    const struct deliver *deliver = ctx;
    struct effort *effort = mem_zalloc(sizeof(*effort));
    struct err err = {0};
    (void)slot;
    if (!effort)
        return NULL;
    effort->deliver = deliver;
    effort->grant = grant;
    effort->ended = ended;
    effort->owner = owner;
    effort->began = loop_now();
    effort->later.fire = end_unsent;
    wire_call_init(&effort->call);
    effort->call.done = answered;
    effort->call.owner = effort;
    buf_init(&effort->body, BODY_MAX);
    buf_init(&effort->report, REPORT_MAX);
    enum status status = prepare(effort, &err);
    if (status) {
        refuse(effort, status, &err);
        effort->sent = false;
    } else {
        effort->sent = wire_send(deliver->wire, &effort->call);
    }
    if ((!status && !effort->sent) ||
        (status && !loop_timer_set(deliver->loop, &effort->later, (struct span){0}))) {
        effort_free(effort);
        return NULL;
    }
    return effort;
}

static void effort_stop(void *ctx, enum effort_outcome outcome, bool at_once)
{
    struct effort *effort = ctx;
    (void)at_once; /* a request has no better end than another */
    if (!effort->stopping)
        effort->outcome = outcome;
    effort->stopping = true;
    if (effort->sent)
        wire_cancel(effort->deliver->wire, &effort->call);
}

struct craft deliver_craft(const struct deliver *deliver)
{
    return (struct craft){.start = effort_start,
                          .stop = effort_stop,
                          .free = effort_free,
                          .ctx = (void *)(uintptr_t)deliver};
}
