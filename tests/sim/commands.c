/* commands: what the people and workers of a history ask for, made up.
 *
 * Ids are taken from the model (what a caller can know) and, now and then, from nowhere.  Each
 * command gets an actor of its own, by which its events are recognized. */
#include "sim/history.h"

#include <inttypes.h>

#define TRACE_BODY_MAX 400 /* bytes of an envelope that the trace shows */

/* ---- the plan -------------------------------------------------------------------------------- */

/* draw_weights: each kind is common, rare or absent; without pushes and leases nothing happens. */
static void draw_weights(struct plan *plan, struct rng *rng)
{
    static const unsigned common[COMMAND_COUNT] = {
        [COMMAND_PUSH] = 30,    [COMMAND_LEASE] = 25,    [COMMAND_HEARTBEAT] = 8,
        [COMMAND_RESOLVE] = 25, [COMMAND_RELEASE] = 3,   [COMMAND_CANCEL] = 4,
        [COMMAND_REVIEW] = 12,  [COMMAND_IMPORT] = 3,    [COMMAND_PURGE] = 3,
        [COMMAND_QUEUE] = 2,    [COMMAND_POLICY] = 3,    [COMMAND_GROUP] = 2,
        [COMMAND_READ] = 2,     [COMMAND_INTERRUPT] = 3,
    };

    for (int kind = 0; kind < COMMAND_COUNT; kind++) {
        bool needed = kind == COMMAND_PUSH || kind == COMMAND_LEASE || kind == COMMAND_RESOLVE;
        unsigned factor = (unsigned)rng_below(rng, 4);

        plan->weights[kind] = common[kind] * (needed && !factor ? 1 : factor);
    }
}

void plan_draw(struct plan *plan, struct rng *rng)
{
    static const unsigned percents[] = {0, 2, 5, 10};
    static const unsigned interrupts[] = {0, 5, 30,
                                          95}; /* with the last, ten in a row are common */

    *plan = (struct plan){
        .queues = 1 + (unsigned)rng_below(rng, 3),
        .keys = (unsigned)rng_below(rng, 4),
        .workers = 1 + (unsigned)rng_below(rng, 4),
        .batch_max = 1 + (unsigned)rng_below(rng, 6),
        .crash_percent = 2 + (unsigned)rng_below(rng, 8),
        .fault_percent = percents[rng_below(rng, 4)],
        .jump_percent = percents[rng_below(rng, 3)],
        .failure_percent = 20 + (unsigned)rng_below(rng, 70),
        .interrupt_percent = interrupts[rng_below(rng, 4)],
    };
    draw_weights(plan, rng);
    if (rng_chance(rng, 10))
        plan->engine.live_max = 3 + rng_below(rng, 10);
    if (rng_chance(rng, 20))
        plan->engine.retention = (struct retention){span_seconds(rng_range(rng, 0, 200)),
                                                    span_seconds(rng_range(rng, 0, 200)),
                                                    span_seconds(rng_range(rng, 0, 200))};
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void command_done(struct command *command)
{
    struct op *op = command->owner;

    op->answered = true;
}

/* op_add puts a command of `size` bytes into the batch. */
static struct op *op_add(struct history *history, enum command_kind kind, size_t size,
                         const char *who)
{
    struct batch *batch = history->batch;
    struct op *op = &batch->ops[batch->count++];
    struct command *command = arena_alloc(&batch->arena, size);

    *op = (struct op){.number = ++history->op_next, .command = command};
    *command = (struct command){
        .kind = kind,
        .actor = arena_printf(&batch->arena, "%s#%" PRIu64, who, op->number),
        .arena = &batch->arena,
        .done = command_done,
        .owner = op,
    };
    history->commands++;
    return op;
}

static size_t draw_count(struct history *history, size_t max)
{
    return rng_chance(&history->rng, 60) ? 1 : 1 + rng_below(&history->rng, max);
}

static struct slice draw_worker(struct history *history)
{
    return arena_printf(&history->batch->arena, "w%d",
                        (int)rng_below(&history->rng, history->plan.workers));
}

static struct slice draw_queue(struct history *history)
{
    return arena_printf(&history->batch->arena, "q%d",
                        (int)rng_below(&history->rng, history->plan.queues));
}

/* draw_lease is a lease that somebody holds, or held, or nobody ever did. */
static struct slice draw_lease(struct history *history, bool forget)
{
    struct rng *rng = &history->rng;

    if (!history->held_count || rng_chance(rng, 3))
        return SLICE("1-00000000deadbeef");
    size_t at = rng_below(rng, history->held_count);
    struct slice id = arena_dup(&history->batch->arena, slice_of(history->held[at].lease_id));
    if (forget && rng_chance(rng, 80))
        history->held[at] = history->held[--history->held_count];
    return id;
}

/* draw_job is a job that is known, whatever its state; NULL: none is. */
static struct model_job *draw_job(struct history *history)
{
    struct model_job *job = history->model.jobs;
    uint64_t steps =
        history->model.job_count ? rng_below(&history->rng, history->model.job_count) : 0;

    while (steps-- && job->next)
        job = job->next;
    return job;
}

/* draw_letter is a letter that is known, rather one that is open; empty: none is. */
static struct slice draw_known_letter(struct history *history)
{
    for (int tries = 0; tries < 12; tries++) {
        const struct model_job *job = draw_job(history);

        if (job && job->has_letter && (job->state == MODEL_DEAD || tries > 8))
            return job->dlq_id;
    }
    return (struct slice){0};
}

/* draw_letter is one that is known, or the id of none. */
static struct slice draw_letter(struct history *history)
{
    struct slice known = draw_known_letter(history);

    return known.len ? known : SLICE("0192aaaa-0000-7000-8000-000000000000");
}

/* ---- one function a kind --------------------------------------------------------------------- */

static void make_push(struct history *history)
{
    struct arena *arena = &history->batch->arena;
    struct op *op = op_add(history, COMMAND_PUSH, sizeof(struct push_command), "human:ada");
    struct push_command *command = (struct push_command *)op->command;
    struct err err = {0};

    command->count = draw_count(history, 4);
    command->items = arena_array(arena, command->count, sizeof(*command->items));
    op->certain = true;
    for (size_t i = 0; i < command->count; i++) {
        bool certain = false;
        struct slice body = {0};

        if (rng_chance(&history->rng, 15))
            body = payload_again(history);
        if (!body.len)
            body = payload_make(history, &certain);
        op->certain = op->certain && certain;
        if (envelope_parse(body, ENVELOPE_BODY_MAX, arena, &command->items[i].envelope, &err))
            model_violated(&history->model, "the history made a bad envelope: %s", err.text);
        world_trace(&history->world, "#%" PRIu64 " push %.*s", op->number,
                    (int)(body.len < TRACE_BODY_MAX ? body.len : TRACE_BODY_MAX), body.ptr);
    }
}

static void make_lease(struct history *history)
{
    static const struct slice skills[] = {{"gpu", 3}, {"net", 3}};
    struct rng *rng = &history->rng;
    struct op *op = op_add(history, COMMAND_LEASE, sizeof(struct lease_command), "worker");
    struct lease_command *command = (struct lease_command *)op->command;

    command->worker_id = draw_worker(history);
    command->max = draw_count(history, 5);
    command->query.capabilities = skills;
    command->query.capability_count = rng_below(rng, 3);
    if (rng_chance(rng, 40)) {
        struct slice *queue = arena_alloc(&history->batch->arena, sizeof(*queue));

        *queue = draw_queue(history);
        command->query.queues = queue;
        command->query.queue_count = 1;
    }
    if (rng_chance(rng, 70))
        command->lease = span_ms(rng_range(rng, 500, 60000));
    world_trace(&history->world, "#%" PRIu64 " lease up to %zu", op->number, command->max);
}

/* worker_of is who holds a lease that draw_lease gave; a lease that nobody has is anybody's. */
static struct slice worker_of(struct history *history, struct slice lease_id)
{
    for (size_t i = 0; i < history->held_count; i++)
        if (slice_is(lease_id, history->held[i].lease_id))
            return history->held[i].worker;
    return draw_worker(history);
}

/* make_heartbeat: a worker keeps leases of its own, as a heartbeat tells who has the job. */
static void make_heartbeat(struct history *history)
{
    struct op *op = op_add(history, COMMAND_HEARTBEAT, sizeof(struct heartbeat_command), "worker");
    struct heartbeat_command *command = (struct heartbeat_command *)op->command;
    size_t wanted = draw_count(history, 4);

    command->items = arena_array(&history->batch->arena, wanted, sizeof(*command->items));
    for (size_t i = 0; i < wanted; i++) {
        struct slice lease_id = draw_lease(history, false);
        struct slice worker = worker_of(history, lease_id);

        if (!command->worker_id.len)
            command->worker_id = worker;
        if (slice_eq(worker, command->worker_id))
            command->items[command->count++].lease_id = lease_id;
    }
    command->lease = span_ms(rng_range(&history->rng, 0, 60000));
    world_trace(&history->world, "#%" PRIu64 " heartbeat %zu", op->number, command->count);
}

static void make_interrupt(struct history *history)
{
    struct op *op = op_add(history, COMMAND_INTERRUPT, sizeof(struct interrupt_command), "worker");
    struct interrupt_command *command = (struct interrupt_command *)op->command;

    command->worker_id = draw_worker(history);
    if (rng_chance(&history->rng, 30))
        command->message = SLICE("killed, and back again");
    world_trace(&history->world, "#%" PRIu64 " interrupt %.*s", op->number,
                SLICE_ARG(command->worker_id));
}

static void make_resolve(struct history *history)
{
    struct arena *arena = &history->batch->arena;
    struct op *op = op_add(history, COMMAND_RESOLVE, sizeof(struct resolve_command), "worker");
    struct resolve_command *command = (struct resolve_command *)op->command;

    command->count = draw_count(history, 5);
    command->items = arena_array(arena, command->count, sizeof(*command->items));
    for (size_t i = 0; i < command->count; i++) {
        struct result_item *item = &command->items[i];

        item->lease_id = draw_lease(history, true);
        item->failed = rng_chance(&history->rng, history->plan.failure_percent);
        if (item->failed)
            payload_failure(history, arena, &item->failure);
        else if (rng_chance(&history->rng, 50))
            item->result = SLICE("{\"ok\":true}");
        world_trace(&history->world, "#%" PRIu64 " resolve %.*s: %s", op->number,
                    SLICE_ARG(item->lease_id), item->failed ? "failed" : "complete");
    }
}

static void make_release(struct history *history)
{
    struct op *op = op_add(history, COMMAND_RELEASE, sizeof(struct release_command), "worker");
    struct release_command *command = (struct release_command *)op->command;

    command->items = arena_alloc(&history->batch->arena, sizeof(*command->items));
    command->items[0].lease_id = draw_lease(history, true);
    command->count = 1;
    world_trace(&history->world, "#%" PRIu64 " release %.*s", op->number,
                SLICE_ARG(command->items[0].lease_id));
}

static void make_cancel(struct history *history)
{
    struct op *op = op_add(history, COMMAND_CANCEL, sizeof(struct cancel_command), "human:eve");
    struct cancel_command *command = (struct cancel_command *)op->command;
    const struct model_job *job = draw_job(history);

    command->job_id = job ? job->id : SLICE("nobody");
    world_trace(&history->world, "#%" PRIu64 " cancel %.*s", op->number,
                SLICE_ARG(command->job_id));
}

/* make_edit: a retry may change the job, its queue, its policy and its limit, and hold the letter.
 */
static void make_edit(struct history *history, struct review_command *command)
{
    struct rng *rng = &history->rng;
    struct arena *arena = &history->batch->arena;
    int n = (int)history->payload_next++;

    if (rng_chance(rng, 15))
        command->patch =
            arena_printf(arena, "[{\"op\":\"add\",\"path\":\"/inputs/patched\",\"value\":%d}]", n);
    if (rng_chance(rng, 15))
        command->merge = arena_printf(arena, "{\"inputs\":{\"merged\":%d}}", n);
    if (rng_chance(rng, 15))
        command->queue = draw_queue(history);
    if (rng_chance(rng, 10))
        command->policy = history->model.policies ? history->model.policies->name : SLICE("map");
    if (rng_chance(rng, 20))
        command->attempts_max = (uint32_t)rng_range(rng, 1, 3);
    command->hold = rng_chance(rng, 50);
}

static void make_review(struct history *history)
{
    static const enum review_action actions[] = {REVIEW_RETRY,   REVIEW_RETRY,    REVIEW_RETRY,
                                                 REVIEW_DISCARD, REVIEW_ROLLBACK, REVIEW_ESCALATE,
                                                 REVIEW_RESTORE, REVIEW_RESTORE};
    struct op *op = op_add(history, COMMAND_REVIEW, sizeof(struct review_command), "human:bob");
    struct review_command *command = (struct review_command *)op->command;

    command->action = actions[rng_below(&history->rng, 8)];
    command->count = draw_count(history, 3);
    command->items = arena_array(&history->batch->arena, command->count, sizeof(*command->items));
    for (size_t i = 0; i < command->count; i++) {
        command->items[i].dlq_id = draw_letter(history);
        world_trace(&history->world, "#%" PRIu64 " %s %.*s", op->number,
                    review_action_name(command->action), SLICE_ARG(command->items[i].dlq_id));
    }
    if (rng_chance(&history->rng, 50))
        command->note = SLICE("looked at it; \"fine\"");
    if (command->action == REVIEW_RETRY)
        make_edit(history, command);
}

/* make_letter makes up a letter from elsewhere: foreign, or the envelope of a job. */
static void make_letter(struct history *history, struct import_item *item)
{
    struct arena *arena = &history->batch->arena;
    struct import_attempt *attempts = arena_array(arena, 2, sizeof(*attempts));
    struct rng *rng = &history->rng;
    bool certain;

    item->letter = (struct letter){
        .dlq_id = arena_printf(arena, "import-%d", (int)(history->payload_next++)),
        .reason = SLICE("no_capable_agent"),
        .source = SLICE("warren"),
        .foreign = rng_chance(rng, 50),
        .failure_count = 1 + (uint32_t)rng_below(rng, 2),
        .recoverable = rng_chance(rng, 50),
        .failed_at = history->world.wall,
    };
    struct slice known = draw_known_letter(history);
    if (known.len && rng_chance(rng, 10))
        item->letter.dlq_id = known;
    for (uint32_t i = 0; i < item->letter.failure_count; i++) {
        attempts[i].attempt = i + 1;
        payload_failure(history, arena, &attempts[i].failure);
    }
    item->attempts = attempts;
    item->attempt_count = item->letter.failure_count;
    item->letter.queue = SLICE("elsewhere");
    item->body = SLICE("\x00\xff raw bytes, no envelope");
    if (!item->letter.foreign) {
        struct envelope envelope;

        item->body = payload_make(history, &certain);
        if (envelope_parse(item->body, ENVELOPE_BODY_MAX, arena, &envelope, NULL) == STATUS_OK) {
            item->letter.queue = envelope.queue;
            item->letter.job_id = envelope.job_id;
        }
    }
}

static void make_import(struct history *history)
{
    struct op *op = op_add(history, COMMAND_IMPORT, sizeof(struct import_command), "human:ada");
    struct import_command *command = (struct import_command *)op->command;

    command->count = draw_count(history, 3);
    command->items = arena_array(&history->batch->arena, command->count, sizeof(*command->items));
    for (size_t i = 0; i < command->count; i++) {
        make_letter(history, &command->items[i]);
        world_trace(&history->world, "#%" PRIu64 " import %.*s", op->number,
                    SLICE_ARG(command->items[i].letter.dlq_id));
    }
}

static void make_purge(struct history *history)
{
    struct op *op = op_add(history, COMMAND_PURGE, sizeof(struct purge_command), "human:bob");
    struct purge_command *command = (struct purge_command *)op->command;

    command->force = rng_chance(&history->rng, 40);
    command->count = draw_count(history, 3);
    command->dlq_ids =
        arena_array(&history->batch->arena, command->count, sizeof(*command->dlq_ids));
    for (size_t i = 0; i < command->count; i++) {
        command->dlq_ids[i] = draw_letter(history);
        world_trace(&history->world, "#%" PRIu64 " purge %.*s%s", op->number,
                    SLICE_ARG(command->dlq_ids[i]), command->force ? " by force" : "");
    }
}

static void make_queue(struct history *history, struct slice queue, bool paused)
{
    struct op *op = op_add(history, COMMAND_QUEUE, sizeof(struct queue_command), "human:eve");
    struct queue_command *command = (struct queue_command *)op->command;

    command->queue = queue;
    command->paused = paused;
    world_trace(&history->world, "#%" PRIu64 " %s %.*s", op->number, paused ? "pause" : "resume",
                SLICE_ARG(queue));
}

static void make_policy(struct history *history)
{
    struct op *op = op_add(history, COMMAND_POLICY, sizeof(struct policy_command), "human:eve");
    struct policy_command *command = (struct policy_command *)op->command;
    struct arena *arena = &history->batch->arena;

    command->name = arena_printf(arena, "policy-%d", (int)rng_below(&history->rng, 3));
    command->body = arena_printf(
        arena, "{\"max_attempts\": %d, \"initial_delay_seconds\": 0.5, \"jitter\": true}",
        (int)rng_range(&history->rng, 1, 5));
    world_trace(&history->world, "#%" PRIu64 " policy %.*s %.*s", op->number,
                SLICE_ARG(command->name), SLICE_ARG(command->body));
}

static void make_group(struct history *history)
{
    struct op *op = op_add(history, COMMAND_GROUP, sizeof(struct group_command), "human:bob");
    struct group_command *command = (struct group_command *)op->command;
    struct letter letter;
    struct err err;

    command->status = (enum group_status)rng_below(&history->rng, 3);
    command->fingerprint = SLICE("0000000000000000");
    disk_observe(history->world.disk, true);
    if (history->store->letter_get(history->store, draw_letter(history), &history->batch->arena,
                                   &letter, &err) == STATUS_OK)
        command->fingerprint = letter.fingerprint;
    disk_observe(history->world.disk, false);
    world_trace(&history->world, "#%" PRIu64 " group %.*s", op->number,
                SLICE_ARG(command->fingerprint));
}

/* read_head is what a read does: it takes the number of the last event. */
static enum status read_head(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct hash hash;

    (void)engine;
    (void)arena;
    (void)err;
    store->event_head(store, ctx, &hash);
    return STATUS_OK;
}

static void make_read(struct history *history)
{
    struct op *op = op_add(history, COMMAND_READ, sizeof(struct read_command), "human:ada");
    struct read_command *command = (struct read_command *)op->command;

    command->read = read_head;
    command->ctx = arena_alloc(&history->batch->arena, sizeof(int64_t));
    world_trace(&history->world, "#%" PRIu64 " read", op->number);
}

void commands_make(struct history *history)
{
    static void (*const makers[COMMAND_COUNT])(struct history *) = {
        [COMMAND_PUSH] = make_push,           [COMMAND_LEASE] = make_lease,
        [COMMAND_HEARTBEAT] = make_heartbeat, [COMMAND_RESOLVE] = make_resolve,
        [COMMAND_RELEASE] = make_release,     [COMMAND_CANCEL] = make_cancel,
        [COMMAND_REVIEW] = make_review,       [COMMAND_IMPORT] = make_import,
        [COMMAND_PURGE] = make_purge,         [COMMAND_POLICY] = make_policy,
        [COMMAND_GROUP] = make_group,         [COMMAND_READ] = make_read,
        [COMMAND_INTERRUPT] = make_interrupt,
    };
    const unsigned *weights = history->plan.weights;
    unsigned total = 0;

    for (int kind = 0; kind < COMMAND_COUNT; kind++)
        total += weights[kind];
    uint64_t draw = rng_below(&history->rng, total);
    int kind = 0;
    while (draw >= weights[kind])
        draw -= weights[kind++];
    if (kind == COMMAND_QUEUE)
        make_queue(history, draw_queue(history), rng_chance(&history->rng, 50));
    else
        makers[kind](history);
}

/* ---- to the end ------------------------------------------------------------------------------ */

void commands_lease_all(struct history *history)
{
    static const struct slice skills[] = {{"gpu", 3}, {"net", 3}};
    struct op *op = op_add(history, COMMAND_LEASE, sizeof(struct lease_command), "worker");
    struct lease_command *command = (struct lease_command *)op->command;

    command->worker_id = SLICE("last");
    command->max = HELD_MAX;
    command->query.capabilities = skills;
    command->query.capability_count = 2;
}

void commands_complete_held(struct history *history)
{
    while (history->held_count && history->batch->count < BATCH_OPS_MAX) {
        struct op *op = op_add(history, COMMAND_RESOLVE, sizeof(struct resolve_command), "worker");
        struct resolve_command *command = (struct resolve_command *)op->command;
        size_t count = history->held_count < OP_ITEMS_MAX ? history->held_count : OP_ITEMS_MAX;

        command->count = count;
        command->items = arena_array(&history->batch->arena, count, sizeof(*command->items));
        for (size_t i = 0; i < count; i++)
            command->items[i].lease_id = arena_dup(
                &history->batch->arena, slice_of(history->held[--history->held_count].lease_id));
    }
}

void commands_resume(struct history *history, struct slice queue)
{
    make_queue(history, queue, false);
}
