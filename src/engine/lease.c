/* lease.c: how a worker takes a job, keeps it, and gives it back; and how a job is cancelled.
 *
 * A worker takes jobs at once, in its turn.  While there are jobs to be dispatched (dispatch.c) it
 * takes them at the end of the batch, behind those that are dispatched to it.  One that names its
 * jobs gets these alone: claimed ones nobody else gets.
 *
 * A lease ends at job->due_at.  Its id is the job's seq and a random nonce: whoever holds an id
 * that was overtaken (by expiry, by another lease) gets STATUS_LEASE_LOST, and nothing is changed.
 */
#include "engine/internal.h"

#include <inttypes.h>

void lease_id_format(const struct job *job, char out[LEASE_ID_SIZE])
{
    snprintf(out, LEASE_ID_SIZE, "%" PRIx64 "-%016" PRIx64, (uint64_t)job->seq, job->lease_nonce);
}

/* hex_u64 reads hex digits up to `stop` or the end. */
static bool hex_u64(struct slice text, size_t *at, char stop, uint64_t *out)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; *at < text.len && text.ptr[*at] != stop; (*at)++, digits++) {
        char c = text.ptr[*at];
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else
            return false;
        value = value << 4 | digit;
    }
    *out = value;
    return digits > 0 && digits <= 16;
}

enum status lease_find(struct engine *engine, struct slice lease_id, struct job *out,
                       struct err *err)
{
    uint64_t seq, nonce;
    size_t at = 0;
    if (hex_u64(lease_id, &at, '-', &seq) && at < lease_id.len && ++at < lease_id.len &&
        hex_u64(lease_id, &at, '\0', &nonce) && at == lease_id.len &&
        engine->store->job_by_seq(engine->store, (int64_t)seq, out) && out->state == JOB_RUNNING &&
        out->lease_nonce == nonce && instant_before(engine->now, out->due_at))
        return STATUS_OK;
    return err_set(err, STATUS_LEASE_LOST,
                   "the lease is unknown or has ended: stop, the job is no longer yours");
}

/* lease_end is when a lease that is given or kept at this moment ends. */
static struct instant lease_end(const struct engine *engine, struct span wanted,
                                const struct job *job)
{
    if (wanted.us <= 0)
        wanted = engine->config.lease_default;
    if (wanted.us > engine->config.lease_max.us)
        wanted = engine->config.lease_max;
    struct instant end = instant_add(engine->now, wanted);
    return instant_before(job->deadline_at, end) ? job->deadline_at : end;
}

/* read_rules reads from the envelope what the lease depends on: only jobs that have such rules pay.
 */
static enum status read_rules(struct engine *engine, struct slice body, struct arena *arena,
                              struct job *job, struct lease *lease, struct err *err)
{
    struct envelope envelope;
    struct policy policy;
    enum status status = body_rules(engine, job, body, arena, &envelope, &policy, err);
    if (status)
        return status;
    if (envelope.max_runtime.us)
        job->deadline_at = instant_add(engine->now, envelope.max_runtime);
    struct slice hint = policy_match_hint(&policy, retry_attempt_in_round(job));
    lease->match = arena_dup(arena, hint);
    return lease->match.ptr ? STATUS_OK : err_no_memory(err);
}

static enum status record_lease(struct engine *engine, const struct lease_command *command,
                                struct job *job, struct err *err)
{
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_int(&why, "attempt", job->attempt);
    jsonw_put_string(&why, "worker_id", command->worker_id);
    jsonw_put_instant(&why, "expires_at", job->due_at);
    return event_end(engine, &why, command->command.actor, job, EVENT_LEASED, err);
}

/* lease_one gives one job to the worker. */
static enum status lease_one(struct engine *engine, struct lease_command *command, struct job *job,
                             struct lease *lease, struct err *err)
{
    struct arena *arena = command->command.arena;
    struct stored_envelope stored;
    enum status status =
        engine->store->envelope_get(engine->store, job->envelope_seq, arena, &stored, err);
    if (status)
        return status == STATUS_NOT_FOUND
                   ? err_set(err, STATUS_CORRUPT, "the envelope of job %" PRId64 " is missing",
                             job->seq)
                   : status;
    numbers_job(engine->counted);
    job_move(job, MOVE_LEASE);
    job->attempt++;
    job->lease_nonce = seams_random_u64(engine->seams);
    job->deadline_at = INSTANT_NEVER;
    job->flags &= (uint16_t) ~(JOB_STARTED | JOB_CANCEL_WANTED | JOB_RUN_AT);
    if (!instant_is_set(job->round_at))
        job->round_at = engine->now;
    lease->match = SLICE("best");
    if (job->flags & (JOB_HAS_RUNTIME | JOB_HAS_HINTS))
        status = read_rules(engine, stored.body, arena, job, lease, err);
    if (status)
        return status;
    job->due_at = lease_end(engine, command->lease, job);
    status = record_lease(engine, command, job, err);
    if (!status)
        status = engine->store->job_update(engine->store, job, command->worker_id, err);
    workers_runs(engine->workers, command->worker, job->seq);
    lease_id_format(job, lease->lease_id);
    lease->job_id = stored.job_id;
    lease->body = stored.body;
    lease->attempt = job->attempt;
    lease->expires_at = job->due_at;
    lease->queue = engine->store->queue_name(engine->store, job->queue);
    return status;
}

size_t lease_room(const struct lease_command *command)
{
    size_t max = command->max < LEASE_COUNT_MAX ? command->max : LEASE_COUNT_MAX;
    return max > command->count ? max - command->count : 0;
}

/* make_room makes room for `more` leases in the answer. */
static enum status make_room(struct lease_command *command, size_t more, struct err *err)
{
    size_t needed = command->count + more;
    if (command->leases && needed <= command->room)
        return STATUS_OK;
    size_t room = command->count ? 2 * needed : needed;
    struct lease *leases = arena_array(command->command.arena, room, sizeof(*leases));
    if (!leases)
        return err_no_memory(err);
    if (command->leases)
        memcpy(leases, command->leases, command->count * sizeof(*leases));
    command->leases = leases;
    command->room = room;
    return STATUS_OK;
}

enum status lease_give(struct engine *engine, struct lease_command *command, struct job *job,
                       struct err *err)
{
    enum status status = make_room(command, 1, err);
    if (!status)
        status = lease_one(engine, command, job, &command->leases[command->count], err);
    if (!status)
        command->count++;
    return status;
}

/* may_have says whether a lease that names a job gets it now. */
static bool may_have(struct engine *engine, const struct lease_command *command,
                     const struct job *job)
{
    struct store *store = engine->store;
    const struct ready_query *query = &command->query;
    struct match_list required, has = {query->capabilities, query->capability_count};
    required.names = store->capabilities_names(store, job->capabilities, &required.count);
    return job->state == JOB_PENDING && !store->queue_paused(store, job->queue) &&
           match_suffices(match_share(required, has), 1);
}

/* fill_named gives those of the jobs that it names. */
static enum status fill_named(struct engine *engine, struct lease_command *command, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < command->job_id_count && lease_room(command); i++) {
        struct slice id = command->job_ids[i];
        struct job job;
        if (engine->store->job_by_id(engine->store, id, hash64(id), &job, err)) {
            if (may_have(engine, command, &job))
                status = lease_give(engine, command, &job, err);
        } else if (err->text[0]) {
            status = STATUS_IO;
        }
    }
    return status;
}

enum status lease_fill(struct engine *engine, struct lease_command *command, struct err *err)
{
    if (command->job_id_count)
        return fill_named(engine, command, err);
    struct job *jobs = engine->candidates;
    size_t count = engine->store->ready(engine->store, &command->query, jobs, lease_room(command));
    enum status status = make_room(command, count, err);
    for (size_t i = 0; !status && i < count; i++)
        status = lease_give(engine, command, &jobs[i], err);
    return status;
}

/* goes_before is the order of jobs across lanes: see `ready` in store.h. */
static bool goes_before(const struct job *a, const struct job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->due_at.us != b->due_at.us)
        return a->due_at.us < b->due_at.us;
    return a->seq < b->seq;
}

enum status lease_ahead(struct engine *engine, struct lease_command *command, const struct job *job,
                        struct err *err)
{
    struct job *first = engine->candidates;
    enum status status = STATUS_OK;
    while (!status && lease_room(command) > 0 &&
           engine->store->ready(engine->store, &command->query, first, 1) == 1 &&
           goes_before(first, job))
        status = lease_give(engine, command, first, err);
    return status;
}

struct worker_claim lease_claim(const struct lease_command *command)
{
    const struct ready_query *query = &command->query;
    return (struct worker_claim){
        .worker_id = command->worker_id,
        .queues = {query->queues, query->queue_count},
        .capabilities = {query->capabilities, query->capability_count},
        .scopes = command->scopes,
        .permissions = command->permissions,
    };
}

enum status lease_apply(struct engine *engine, struct lease_command *command)
{
    struct err *err = &command->command.err;
    command->leases = NULL;
    command->count = command->room = 0;
    enum status status = envelope_name_check("worker_id", command->worker_id, ENVELOPE_ID_MAX, err);
    if (status)
        return status;
    if (command->job_id_count) { /* it is no worker that anything could be dispatched to */
        command->worker = NULL;
        return lease_fill(engine, command, err);
    }
    struct worker_claim claim = lease_claim(command);
    command->worker = workers_declare(engine->workers, &claim, engine->now);
    if (engine->store->hinted_count(engine->store) == 0)
        return lease_fill(engine, command, err);
    engine->leases_open = true;
    return STATUS_OK;
}

/* ---- keeping ----------------------------------------------------------------- */

static enum status record_start(struct engine *engine, struct slice actor, struct job *job,
                                struct err *err)
{
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_int(&why, "attempt", job->attempt);
    job->flags |= JOB_STARTED;
    return event_end(engine, &why, actor, job, EVENT_STARTED, err);
}

static enum status heartbeat_one(struct engine *engine, const struct heartbeat_command *command,
                                 struct heartbeat_item *item, struct err *err)
{
    struct job job = {0};
    item->outcome = HEARTBEAT_LOST;
    if (lease_find(engine, item->lease_id, &job, err)) {
        err->text[0] = '\0';
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    if (!(job.flags & JOB_STARTED))
        status = record_start(engine, command->command.actor, &job, err);
    if (status)
        return status;
    job.due_at = lease_end(engine, command->lease, &job);
    item->expires_at = job.due_at;
    item->outcome = job.flags & JOB_CANCEL_WANTED ? HEARTBEAT_CANCELLED : HEARTBEAT_EXTENDED;
    workers_runs(engine->workers, workers_find(engine->workers, command->worker_id), job.seq);
    return engine->store->job_update(engine->store, &job, command->worker_id, err);
}

enum status heartbeat_apply(struct engine *engine, struct heartbeat_command *command)
{
    enum status status = envelope_name_check("worker_id", command->worker_id, ENVELOPE_ID_MAX,
                                             &command->command.err);
    workers_seen(engine->workers, workers_find(engine->workers, command->worker_id), engine->now);
    for (size_t i = 0; !status && i < command->count; i++)
        status = heartbeat_one(engine, command, &command->items[i], &command->command.err);
    return status;
}

/* ---- cancelling ------------------------------------------------------------------------------ */

/* cancel_running leaves a note for the worker, who is told at its next heartbeat. */
static enum status cancel_running(struct engine *engine, struct cancel_command *command,
                                  struct job *job, struct err *err)
{
    command->state = JOB_RUNNING;
    if (job->flags & JOB_CANCEL_WANTED)
        return STATUS_OK;
    struct slice worker;
    enum status status =
        engine->store->job_worker(engine->store, job->seq, command->command.arena, &worker, err);
    if (status)
        return status;
    job->flags |= JOB_CANCEL_WANTED;
    struct jsonw why;
    event_begin(engine, &why);
    status = event_end(engine, &why, command->command.actor, job, EVENT_CANCEL_WANTED, err);
    return status ? status : engine->store->job_update(engine->store, job, worker, err);
}

/* cancel_now ends a job that waits, or whose worker has let go of it. */
static enum status cancel_now(struct engine *engine, struct slice actor, struct job *job,
                              struct arena *arena, struct err *err)
{
    struct slice job_id;
    return job_end(engine, job, MOVE_CANCEL, actor, (struct slice){0}, arena, &job_id, err);
}

enum status cancel_apply(struct engine *engine, struct cancel_command *command)
{
    struct err *err = &command->command.err;
    struct store *store = engine->store;
    struct job_row row;
    enum status status = store->job_find(store, command->job_id, command->command.arena, &row, err);
    if (status)
        return status;
    if (!job_is_live((enum job_state)row.job.state))
        return err_set(err, STATUS_CONFLICT, "job \"%.*s\" is %s: only live jobs can be cancelled",
                       SLICE_ARG(command->job_id), job_state_name((enum job_state)row.job.state));
    struct job job;
    if (!store->job_by_seq(store, row.job.seq, &job))
        BUG("job %" PRId64 " is live on disk but not in memory", row.job.seq);
    if (job.state == JOB_RUNNING)
        return cancel_running(engine, command, &job, err);
    command->state = JOB_CANCELLED;
    return cancel_now(engine, command->command.actor, &job, command->command.arena, err);
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* release_one gives one lease back.  The return value is a fault, or STATUS_LEASE_LOST. */
static enum status release_one(struct engine *engine, const struct release_command *command,
                               struct slice lease_id, struct err *err)
{
    struct slice actor = command->command.actor;
    struct job job = {0};
    enum status status = lease_find(engine, lease_id, &job, err);
    if (status)
        return status;
    workers_ended(engine->workers, job.seq, true, engine->now);
    job.attempt--;
    if (job.flags & JOB_CANCEL_WANTED)
        return cancel_now(engine, actor, &job, command->command.arena, err);
    job_move(&job, MOVE_RELEASE);
    job.due_at = engine->now;
    status = assignment_end(engine, &job, command->command.arena, &job.deadline_at, err);
    if (status)
        return status;
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_int(&why, "attempt", job.attempt + 1);
    engine->ready_changed = true;
    status = event_end(engine, &why, actor, &job, EVENT_RELEASED, err);
    return status ? status : engine->store->job_update(engine->store, &job, (struct slice){0}, err);
}

enum status release_apply(struct engine *engine, struct release_command *command)
{
    struct err *err = &command->command.err;
    for (size_t i = 0; i < command->count; i++) {
        struct release_item *item = &command->items[i];
        item->status = release_one(engine, command, item->lease_id, err);
        if (status_is_fault(item->status))
            return item->status;
    }
    err->text[0] = '\0';
    return STATUS_OK;
}
