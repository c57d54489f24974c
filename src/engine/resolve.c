/* resolve.c: how a run ends: well, badly, or without a word.
 *
 *     worker's result --+-- complete --> done                                          (end.c)
 *                       `-- failed ----> failure_apply --+-- retry ------> scheduled
 *     lease ended ------------- crashed ------^          +-- quarantine -> dead  (quarantine.c)
 *     worker cut off ------ interrupted ------'          `-- cancelled (somebody wanted that)
 *      (interrupt.c)
 *
 * failure_apply is the only place that lets a job run again, and it does what retry_decide (core)
 * said. */
#include "engine/internal.h"

#include <inttypes.h>

#include "core/reason.h"

/* ---- evidence of a failed attempt ------------------------------------------------------------ */

/* put_decision writes what was decided, by which rule of which policy. */
static void put_decision(struct jsonw *out, const struct failed *failed)
{
    const struct decision *decision = &failed->decision;
    bool retry = decision->action == DECISION_RETRY;
    jsonw_put_str(out, "action", retry ? "retry" : "quarantine");
    jsonw_put_str(out, "rule", decision->rule);
    jsonw_put_str(out, "class", class_name(decision->class));
    if (failed->policy.name.len) {
        jsonw_put_string(out, "policy", failed->policy.name);
        jsonw_put_int(out, "policy_version", failed->policy.version);
    } else {
        jsonw_put_str(out, "policy", "inline");
    }
    if (retry) {
        jsonw_put_double(out, "delay_seconds", span_to_seconds(decision->delay));
        jsonw_put_instant(out, "next_retry_at", decision->retry_at);
    }
}

/* write_attempt keeps the failure and the decision, and their digest for the event. */
static enum status write_attempt(struct engine *engine, struct failed *failed, struct err *err)
{
    struct jsonw out;
    buf_clear(&engine->text);
    jsonw_init(&out, &engine->text);
    failure_print(failed->failure, failed->job.attempt, &out);
    jsonw_put_text(&out, "worker_id", failed->worker);
    jsonw_key(&out, "decision");
    jsonw_object(&out);
    put_decision(&out, failed);
    jsonw_object_end(&out);
    jsonw_object_end(&out);
    enum status status = buf_status(&engine->text, err);
    if (status)
        return status;
    struct slice text = buf_slice(&engine->text);
    failed->evidence = hash_sha256(&text, 1);
    return engine->store->attempt_add(engine->store, failed->job.seq, failed->job.attempt, text,
                                      err);
}

/* put_outcome writes the background system's evidence: the outcome that the task was to carry out
 * and, when it has one, the reference of its dispatch. */
static void put_outcome(struct jsonw *why, const struct failed *failed, struct arena *arena)
{
    struct json outcome, reference;
    if (failed->policy.evidence_source.len)
        jsonw_put_string(why, "source", failed->policy.evidence_source);
    if (json_get(failed->envelope.inputs, "outcome", &outcome) && outcome.type == JSON_STRING)
        jsonw_put_string(why, "outcome", json_text(outcome, arena));
    else
        jsonw_put_str(why, "outcome", "failed");
    if (json_get(failed->envelope.inputs, "dispatch_reference", &reference) &&
        reference.type == JSON_STRING)
        jsonw_put_string(why, "dispatch_reference", json_text(reference, arena));
}

/* failure_event_put writes what the events of a retry and of a quarantine have in common. */
static void failure_event_put(struct jsonw *why, const struct failed *failed, struct arena *arena)
{
    jsonw_put_int(why, "attempt", failed->job.attempt);
    put_outcome(why, failed, arena);
    put_decision(why, failed);
    event_put_digest(why, "failure_sha256", &failed->evidence);
}

/* ---- what follows a failure ------------------------------------------------------------------ */

static enum status retry(struct engine *engine, struct failed *failed, struct arena *arena,
                         struct err *err)
{
    struct job *job = &failed->job;
    job_move(job, MOVE_RETRY);
    job->due_at = failed->decision.retry_at;
    job->deadline_at = wait_end(job, &failed->policy);
    job->attempt_base += failed->decision.uncounted;
    struct jsonw why;
    event_begin(engine, &why);
    failure_event_put(&why, failed, arena);
    numbers_retry(engine->counted, failed->policy.name);
    enum status status = event_end(engine, &why, failed->actor, job, EVENT_RETRY_SCHEDULED, err);
    return status ? status : engine->store->job_update(engine->store, job, (struct slice){0}, err);
}

/* bury records the quarantine and moves the job there. */
static enum status bury(struct engine *engine, struct failed *failed, struct arena *arena,
                        struct err *err)
{
    struct job *job = &failed->job;
    struct jsonw why;
    enum status status = quarantine_name(engine, failed, arena, err);
    if (status)
        return status;
    job_move(job, MOVE_QUARANTINE);
    event_begin(engine, &why);
    failure_event_put(&why, failed, arena);
    jsonw_put_string(&why, "dlq_id", failed->dlq_id);
    jsonw_put_instant(&why, "dead_lettered_at", engine->now);
    jsonw_put_string(&why, "reason", failed->letter.reason);
    status = event_end(engine, &why, failed->actor, job, EVENT_DEAD_LETTERED, err);
    return status ? status : quarantine(engine, failed, arena, err);
}

/* load reads what the decision depends on: the envelope and its policy. */
static enum status load(struct engine *engine, struct failed *failed, struct arena *arena,
                        struct err *err)
{
    struct stored_envelope stored;
    enum status status =
        engine->store->envelope_get(engine->store, failed->job.envelope_seq, arena, &stored, err);
    if (!status)
        status = envelope_parse(stored.body, SIZE_MAX, arena, &failed->envelope, err);
    if (status)
        return status_is_fault(status)
                   ? status
                   : err_set(err, STATUS_CORRUPT, "the envelope of job %" PRId64 " cannot be read",
                             failed->job.seq);
    failed->job_id = stored.job_id;
    status = policy_of(engine, &failed->envelope, arena, &failed->policy, err);
    if (status && !status_is_fault(status)) {
        failed->policy = *policy_find(engine, slice_of(POLICY_DEFAULT));
        err->text[0] = '\0';
        status = STATUS_OK;
    }
    return status;
}

/* was_interrupted says whether a stored attempt was interrupted and retried: one without a retry,
 * or without a decision (from elsewhere), ended its round. */
static bool was_interrupted(const struct attempt_record *record)
{
    struct json failure = {0}, decision, value;
    json_parse(record->failure, &failure, NULL);
    json_get(failure, "interrupted", &value);
    if (value.type != JSON_TRUE)
        return false;
    json_get(failure, "decision", &decision);
    json_get(decision, "action", &value);
    return json_string_is(value, "retry");
}

/* count_interruptions counts the attempts of this round right before this one that were interrupted
 * too.  They are read only for an attempt that was. */
static enum status count_interruptions(struct engine *engine, const struct failed *failed,
                                       uint32_t *out, struct err *err)
{
    struct arena scratch = {0};
    struct attempt_record *records;
    size_t count = 0;
    *out = 0;
    if (!failed->failure->interrupted)
        return STATUS_OK;
    enum status status = engine->store->attempt_list(engine->store, failed->job.seq, &scratch,
                                                     &records, &count, err);
    while (!status && count > 0 && was_interrupted(&records[count - 1])) {
        ++*out;
        count--;
    }
    arena_release(&scratch);
    return status;
}

enum status failure_apply(struct engine *engine, struct failed *failed, struct arena *arena,
                          struct err *err)
{
    if (failed->job.flags & JOB_FOREIGN)
        return replay_failed(engine, failed, arena, err);
    struct retry_facts facts = {.now = engine->now, .random = seams_random_u64(engine->seams)};
    enum status status = load(engine, failed, arena, err);
    if (!status)
        status = count_interruptions(engine, failed, &facts.interruptions, err);
    if (status)
        return status;
    facts.has_idempotency_key = failed->envelope.idempotency_key.len > 0;
    facts.not_retry_eligible = !failed->envelope.retry_eligible;
    failed->decision = retry_decide(&failed->policy, &failed->job, failed->failure, &facts);
    status = write_attempt(engine, failed, err);
    if (status)
        return status;
    if (failed->job.flags & JOB_CANCEL_WANTED)
        return job_end(engine, &failed->job, MOVE_CANCEL, failed->actor, (struct slice){0}, arena,
                       &failed->job_id, err);
    if (failed->decision.action == DECISION_RETRY)
        return retry(engine, failed, arena, err);
    return bury(engine, failed, arena, err);
}

/* ---- results --------------------------------------------------------------------------------- */

/* result_failed carries out a reported failure.  The worker stands in the evidence even when its
 * report does not name it. */
static enum status result_failed(struct engine *engine, struct resolve_command *command,
                                 struct result_item *item, const struct job *job, struct err *err)
{
    struct arena *arena = command->command.arena;
    struct failure failure = item->failure;
    failure.at = engine->now;
    enum status status = STATUS_OK;
    struct slice worker = {0};
    if (!failure.agent_id.len || (job->flags & JOB_HAS_HINTS))
        status = engine->store->job_worker(engine->store, job->seq, arena, &worker, err);
    if (status)
        return status;
    if (!failure.agent_id.len)
        failure.agent_id = worker;
    struct failed failed = {.job = *job, .failure = &failure, .actor = command->command.actor};
    if (!slice_eq(failure.agent_id, worker))
        failed.worker = worker;
    numbers_attempt(engine->counted, job->queue,
                    failure.interrupted ? ATTEMPT_INTERRUPTED : ATTEMPT_FAILED);
    status = failure_apply(engine, &failed, arena, err);
    item->job_id = failed.job_id;
    item->state = (enum job_state)failed.job.state;
    item->dlq_id = failed.dlq_id;
    item->next_retry_at = item->state == JOB_SCHEDULED ? failed.job.due_at : INSTANT_NONE;
    return status;
}

static enum status result_complete(struct engine *engine, struct resolve_command *command,
                                   struct result_item *item, struct job *job, struct err *err)
{
    item->state = JOB_DONE;
    numbers_attempt(engine->counted, job->queue, ATTEMPT_COMPLETE);
    return job_end(engine, job, MOVE_COMPLETE, command->command.actor, item->result,
                   command->command.arena, &item->job_id, err);
}

enum status resolve_apply(struct engine *engine, struct resolve_command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        struct result_item *item = &command->items[i];
        struct job job;
        item->status = lease_find(engine, item->lease_id, &job, &item->err);
        if (item->status)
            continue;
        workers_ended(engine->workers, job.seq, true, engine->now);
        struct err *err = &command->command.err;
        enum status status = item->failed ? result_failed(engine, command, item, &job, err)
                                          : result_complete(engine, command, item, &job, err);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* ---- lost workers ---------------------------------------------------------------------------- */

/* expire_one treats a lease that has ended as a failed attempt: it counts. */
static enum status expire_one(struct engine *engine, const struct job *job, struct err *err)
{
    struct arena *arena = &engine->arena;
    struct failure failure;
    failure_init(&failure);
    failure.at = engine->now;
    enum status status =
        engine->store->job_worker(engine->store, job->seq, arena, &failure.agent_id, err);
    if (status)
        return status;
    failure.has_class = true;
    if (!instant_before(engine->now, job->deadline_at)) {
        failure.given_class = CLASS_TIMEOUT;
        failure.error_type = SLICE("Timeout");
        failure.reason = SLICE(REASON_TIMEOUT_IN_PROGRESS);
        failure.message = SLICE("the job ran longer than its max_runtime_seconds");
    } else if (job->flags & JOB_STARTED) {
        failure.given_class = CLASS_CRASHED;
        failure.error_type = SLICE("Crashed");
        failure.message = SLICE("the worker was lost: its lease ended without a result");
    } else {
        failure.given_class = CLASS_TIMEOUT;
        failure.error_type = SLICE("Timeout");
        failure.reason = SLICE(REASON_TIMEOUT_ASSIGNED);
        failure.message =
            SLICE("the worker never started the job: its lease ended without a heartbeat");
    }
    workers_ended(engine->workers, job->seq, false, engine->now);
    struct failed failed = {.job = *job, .failure = &failure, .actor = ENGINE_ACTOR};
    numbers_attempt(engine->counted, job->queue, ATTEMPT_CRASHED);
    return failure_apply(engine, &failed, arena, err);
}

enum status expire_apply(struct engine *engine, struct err *err)
{
    struct job *jobs = arena_array(&engine->arena, TIMER_BATCH, sizeof(*jobs));
    if (!jobs)
        return err_no_memory(err);
    size_t count = engine->store->expired(engine->store, engine->now, jobs, TIMER_BATCH);
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = expire_one(engine, &jobs[i], err);
    return status;
}
