/* answers: whether what was answered is what happened.
 *
 * By now the events of the batch are folded: each item of a command whose effect was seen is marked
 * (op->item_done), each command knows how many events it made.  So "done" without an event, an
 * event behind a refusal, and a refusal without a reason show here. */
#include "sim/model.h"

#include <inttypes.h>

#define LEASE_DEFAULT span_seconds(30) /* of a worker that does not say */

static void wrong(struct model *model, const struct op *op, const char *what, struct slice about)
{
    model_violated(model, "command #%" PRIu64 " (kind %d), answered %s: %s: %.*s", op->number,
                   (int)op->command->kind, status_name(op->command->status), what,
                   SLICE_ARG(about));
}

/* touched says whether an event of this batch is about the job. */
static bool touched(const struct model *model, const struct model_job *job)
{
    return job->event_count && job->events[job->event_count - 1] > (int64_t)model->batch_start;
}

/* by_lease finds the job that has the lease, or had it when the batch began. */
static struct model_job *by_lease(struct model *model, struct slice lease_id)
{
    for (struct model_job *job = model->jobs; job; job = job->next)
        if (lease_id.len && (slice_eq(job->lease_id, lease_id) ||
                             (slice_eq(job->lease_before, lease_id) && touched(model, job))))
            return job;
    return NULL;
}

/* lease_is_good says whether a lease is held, whatever this batch did: refusing it would be wrong.
 */
static bool lease_is_good(struct model *model, struct slice lease_id, struct instant now)
{
    const struct model_job *job = by_lease(model, lease_id);

    return job && job->state == MODEL_RUNNING && !touched(model, job) &&
           instant_is_set(job->lease_until) && instant_before(now, job->lease_until);
}

/* lease_is_long_enough says whether a lease that begins or is kept at `now` ends when it should. */
static bool lease_is_long_enough(const struct model_job *job, struct span wanted,
                                 struct instant now, struct instant end)
{
    if (wanted.us <= 0)
        wanted = LEASE_DEFAULT;
    if (job->envelope.max_runtime.us) /* may end sooner */
        return instant_before(now, end) && !instant_before(instant_add(now, wanted), end);
    return end.us == instant_add(now, wanted).us;
}

/* ---- one function a kind --------------------------------------------------------------------- */

static bool same_key(const struct envelope *a, const struct envelope *b)
{
    return (a->idempotency_key.len && slice_eq(a->idempotency_key, b->idempotency_key)) ||
           (a->retry_key.len && slice_eq(a->retry_key, b->retry_key));
}

static void check_push_item(struct model *model, const struct op *op, const struct push_item *item,
                            bool done)
{
    const struct model_job *job = model_by_id(model, item->job_id);
    bool created = item->status == STATUS_OK && item->created;

    if (created != done)
        wrong(model, op, "the answer does not say whether the job was made", item->job_id);
    else if (item->status == STATUS_OK && !job)
        wrong(model, op, "it names a job that is not there", item->job_id);
    else if (item->status == STATUS_OK && !created &&
             !slice_eq(item->envelope.job_id, item->job_id) &&
             !same_key(&item->envelope, &job->envelope))
        wrong(model, op, "it names a job of another id and other keys", item->job_id);
    else if (item->status == STATUS_OK && !created &&
             slice_eq(item->envelope.job_id, item->job_id) &&
             !slice_eq(item->envelope.body, job->body) && job->state != MODEL_PURGED)
        wrong(model, op, "other bytes under a known id were taken for the same", item->job_id);
    else if (item->status == STATUS_CONFLICT) {
        job = model_by_id(model, item->envelope.job_id);
        if (!job || slice_eq(job->body, item->envelope.body))
            wrong(model, op, "refused without a conflict", item->envelope.job_id);
    } else if (item->status != STATUS_OK && item->status != STATUS_LIMIT) {
        wrong(model, op, "refused without a reason", slice_of(item->err.text));
    }
}

static void check_push(struct model *model, struct op *op, struct instant now)
{
    struct push_command *command = (struct push_command *)op->command;

    (void)now;
    for (size_t i = 0; i < command->count; i++)
        check_push_item(model, op, &command->items[i], op->item_done[i]);
}

/* was_cut_off says whether a run that began in this batch was interrupted in it, too. */
static bool was_cut_off(const struct model *model, const struct model_job *job, uint32_t attempt)
{
    const struct model_failure *last =
        job->failure_count ? &job->failures[job->failure_count - 1] : NULL;

    return job->state != MODEL_RUNNING && touched(model, job) && last && last->interrupted &&
           last->attempt == attempt;
}

static void check_lease(struct model *model, struct op *op, struct instant now)
{
    struct lease_command *command = (struct lease_command *)op->command;

    if (command->count != op->events)
        wrong(model, op, "leases and events are not as many", command->worker_id);
    for (size_t i = 0; i < command->count; i++) {
        const struct lease *lease = &command->leases[i];
        struct model_job *job = model_by_id(model, lease->job_id);

        if (job && was_cut_off(model, job, lease->attempt))
            continue;
        if (!job || job->state != MODEL_RUNNING || !touched(model, job)) {
            wrong(model, op, "it leased a job that does not run", lease->job_id);
            return;
        }
        if (by_lease(model, slice_of(lease->lease_id)))
            wrong(model, op, "the lease id was used before", lease->job_id);
        if (job->lease_id.len)
            wrong(model, op, "the job is leased twice", lease->job_id);
        if (!slice_eq(lease->body, job->body_now))
            wrong(model, op, "the payload is not what was pushed", lease->job_id);
        if (lease->attempt != job->attempt)
            wrong(model, op, "the attempt is miscounted", lease->job_id);
        if (!lease_is_long_enough(job, command->lease, now, lease->expires_at))
            wrong(model, op, "the lease is not as long as was asked for", lease->job_id);
        job->lease_id = arena_dup(&model->arena, slice_of(lease->lease_id));
        job->lease_until = lease->expires_at;
    }
}

static void check_heartbeat(struct model *model, struct op *op, struct instant now)
{
    struct heartbeat_command *command = (struct heartbeat_command *)op->command;

    for (size_t i = 0; i < command->count; i++) {
        const struct heartbeat_item *item = &command->items[i];
        struct model_job *job = by_lease(model, item->lease_id);

        if (item->outcome == HEARTBEAT_LOST) {
            if (lease_is_good(model, item->lease_id, now))
                wrong(model, op, "a lease that is held was called lost", item->lease_id);
            continue;
        }
        if (!job || (job->state != MODEL_RUNNING && !touched(model, job))) {
            wrong(model, op, "a lease that has ended was kept", item->lease_id);
            continue;
        }
        if (item->outcome == HEARTBEAT_CANCELLED && !job->cancel_wanted)
            wrong(model, op, "nobody wanted it cancelled", item->lease_id);
        if (item->outcome == HEARTBEAT_EXTENDED && job->cancel_wanted && !touched(model, job))
            wrong(model, op, "the worker was not told that it is cancelled", item->lease_id);
        if (!lease_is_long_enough(job, command->lease, now, item->expires_at))
            wrong(model, op, "the lease was not kept for as long as was asked for", item->lease_id);
        if (slice_eq(job->lease_id, item->lease_id))
            job->lease_until = item->expires_at;
    }
}

static void check_result(struct model *model, const struct op *op, const struct result_item *item,
                         bool done, struct instant now)
{
    const struct model_job *job = by_lease(model, item->lease_id);

    if ((item->status == STATUS_OK) != done)
        wrong(model, op, "the answer does not say whether the result counted", item->lease_id);
    else if (item->status == STATUS_OK && (!job || !slice_eq(job->id, item->job_id)))
        wrong(model, op, "the result is another job's", item->lease_id);
    else if (item->status == STATUS_OK && item->state == JOB_DEAD &&
             !slice_eq(job->dlq_id, item->dlq_id))
        wrong(model, op, "it names another letter", item->dlq_id);
    else if (item->status == STATUS_LEASE_LOST && lease_is_good(model, item->lease_id, now))
        wrong(model, op, "a lease that is held was called lost", item->lease_id);
    else if (item->status != STATUS_OK && item->status != STATUS_LEASE_LOST)
        wrong(model, op, "refused without a reason", slice_of(item->err.text));
}

static void check_resolve(struct model *model, struct op *op, struct instant now)
{
    struct resolve_command *command = (struct resolve_command *)op->command;

    for (size_t i = 0; i < command->count; i++)
        check_result(model, op, &command->items[i], op->item_done[i], now);
}

static void check_release(struct model *model, struct op *op, struct instant now)
{
    const struct release_command *command = (const struct release_command *)op->command;
    const struct release_item *item = &command->items[0];
    bool released = op->command->status == STATUS_OK && item->status == STATUS_OK;

    if (released != (op->events == 1))
        wrong(model, op, "the answer does not say whether it was given back", item->lease_id);
    if (op->command->status == STATUS_OK && item->status == STATUS_LEASE_LOST &&
        lease_is_good(model, item->lease_id, now))
        wrong(model, op, "a lease that is held was called lost", item->lease_id);
}

/* check_interrupt: all leases of the worker have ended, and only those. */
static void check_interrupt(struct model *model, struct op *op, struct instant now)
{
    const struct interrupt_command *command = (const struct interrupt_command *)op->command;

    (void)now;
    if (command->interrupted != op->events || command->more)
        wrong(model, op, "what was interrupted is miscounted", command->worker_id);
    for (const struct model_job *job = model->jobs; job; job = job->next)
        if (job->state == MODEL_RUNNING && !touched(model, job) &&
            slice_eq(job->worker, command->worker_id))
            wrong(model, op, "the worker has still a lease", job->id);
}

static void check_cancel(struct model *model, struct op *op, struct instant now)
{
    struct cancel_command *command = (struct cancel_command *)op->command;
    const struct model_job *job = model_by_id(model, command->job_id);
    bool live = job && (job->state == MODEL_WAITING || job->state == MODEL_RUNNING);

    (void)now;
    if (op->command->status == STATUS_OK) {
        bool waited = command->state == JOB_CANCELLED;
        if (waited ? op->events != 1 : !job || !job->cancel_wanted)
            wrong(model, op, "the job is not cancelled", command->job_id);
    } else if (live && !touched(model, job)) {
        wrong(model, op, "a live job can be cancelled", command->job_id);
    }
}

static void check_review(struct model *model, struct op *op, struct instant now)
{
    struct review_command *command = (struct review_command *)op->command;

    (void)now;
    for (size_t i = 0; i < command->count; i++) {
        const struct review_item *item = &command->items[i];
        const struct model_job *job = model_by_letter(model, item->dlq_id);

        if ((item->status == STATUS_OK) != op->item_done[i])
            wrong(model, op, "the answer does not say whether the letter was acted on",
                  item->dlq_id);
        else if (item->status == STATUS_NOT_FOUND && job && job->state != MODEL_PURGED &&
                 !touched(model, job))
            wrong(model, op, "a letter that is there was not found", item->dlq_id);
        else if (item->status == STATUS_OK && (!job || !slice_eq(item->job_id, job->id)))
            wrong(model, op, "it names another job", item->dlq_id);
    }
}

static void check_import(struct model *model, struct op *op, struct instant now)
{
    struct import_command *command = (struct import_command *)op->command;

    (void)now;
    for (size_t i = 0; i < command->count; i++) {
        const struct import_item *item = &command->items[i];
        bool created = item->status == STATUS_OK && item->created;

        if (created != op->item_done[i])
            wrong(model, op, "the answer does not say whether the letter was taken", item->dlq_id);
        else if (item->status == STATUS_OK && !model_by_letter(model, item->dlq_id))
            wrong(model, op, "it names a letter that is not there", item->dlq_id);
    }
}

static void check_purge(struct model *model, struct op *op, struct instant now)
{
    struct purge_command *command = (struct purge_command *)op->command;

    (void)now;
    if (command->purged != op->events || command->purged + command->kept > command->count)
        wrong(model, op, "what was purged is miscounted", op->command->actor);
}

/* check_one_event: a command that is done makes one event, and one that is refused none. */
static void check_one_event(struct model *model, struct op *op, struct instant now)
{
    (void)now;
    if (op->events != (op->command->status == STATUS_OK ? 1u : 0u))
        wrong(model, op, "the answer and the evidence do not agree", op->command->actor);
}

/* check_read: a read comes after the commit, and sees all that its batch did. */
static void check_read(struct model *model, struct op *op, struct instant now)
{
    const int64_t *seq = ((struct read_command *)op->command)->ctx;

    (void)now;
    if (op->command->status == STATUS_OK && *seq != (int64_t)model->ledger_count)
        wrong(model, op, "the read does not see its batch", op->command->actor);
}

/* check_queue: a pause of a queue that is paused changes nothing. */
static void check_queue(struct model *model, struct op *op, struct instant now)
{
    (void)now;
    if (op->command->status != STATUS_OK || op->events > 1)
        wrong(model, op, "the answer and the evidence do not agree", op->command->actor);
}

void model_answers(struct model *model, struct batch *batch, struct instant now)
{
    static void (*const checks[COMMAND_COUNT])(struct model *, struct op *, struct instant) = {
        [COMMAND_PUSH] = check_push,           [COMMAND_LEASE] = check_lease,
        [COMMAND_HEARTBEAT] = check_heartbeat, [COMMAND_RESOLVE] = check_resolve,
        [COMMAND_RELEASE] = check_release,     [COMMAND_CANCEL] = check_cancel,
        [COMMAND_REVIEW] = check_review,       [COMMAND_IMPORT] = check_import,
        [COMMAND_PURGE] = check_purge,         [COMMAND_QUEUE] = check_queue,
        [COMMAND_POLICY] = check_one_event,    [COMMAND_GROUP] = check_one_event,
        [COMMAND_READ] = check_read,           [COMMAND_INTERRUPT] = check_interrupt,
    };

    for (size_t i = 0; i < batch->count && !model->violated; i++) {
        struct op *op = &batch->ops[i];

        if (op->command->status != STATUS_OK && op->events)
            wrong(model, op, "refused, and yet it changed something", op->command->actor);
        else
            checks[op->command->kind](model, op, now);
    }
}

/* ---- all or nothing -------------------------------------------------------------------------- */

static bool op_happened(const struct op *op)
{
    const struct push_command *command = (const struct push_command *)op->command;

    for (size_t i = 0; i < command->count; i++)
        if (!op->item_done[i])
            return false;
    return true;
}

/* forget_leases: a heartbeat in doubt may have moved the end of its leases. */
static void forget_leases(struct model *model, const struct op *op)
{
    const struct heartbeat_command *command = (const struct heartbeat_command *)op->command;

    for (size_t i = 0; op->command->kind == COMMAND_HEARTBEAT && i < command->count; i++) {
        struct model_job *job = by_lease(model, command->items[i].lease_id);

        if (job)
            job->lease_until = INSTANT_NONE;
    }
}

void model_whole(struct model *model, struct batch *doubtful)
{
    size_t happened = 0;

    for (struct batch *batch = doubtful; batch; batch = batch->next) {
        uint32_t events = 0;

        for (size_t i = 0; i < batch->count; i++)
            forget_leases(model, &batch->ops[i]);

        for (size_t i = 0; i < batch->count; i++)
            events += batch->ops[i].events;
        happened += events > 0;
        for (size_t i = 0; events && i < batch->count; i++)
            if (batch->ops[i].certain && !op_happened(&batch->ops[i]))
                wrong(model, &batch->ops[i], "only a part of its batch survived the crash",
                      batch->ops[i].command->actor);
    }
    if (happened > 1)
        model_violated(model, "%zu batches that had failed were found after the crash", happened);
}
