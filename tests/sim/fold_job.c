/* fold_job: events of jobs: how they come in, run, fail and end. */
#include "sim/fold.h"

#include <inttypes.h>

/* ---- what was asked -------------------------------------------------------------------------- */

bool fold_by(struct step *step, enum command_kind kind)
{
    if (step->op && step->op->command->kind == kind)
        return true;
    fold_wrong(step, "made by a command that does not do this");
    return false;
}

/* result_of finds the result that a worker reported for the lease of the job; NULL: none. */
static const struct result_item *result_of(struct step *step)
{
    struct resolve_command *command = (struct resolve_command *)step->op->command;

    for (size_t i = 0; i < command->count; i++)
        if (!step->op->item_done[i] && step->job->lease_id.len &&
            slice_eq(command->items[i].lease_id, step->job->lease_id)) {
            step->op->item_done[i] = true;
            return &command->items[i];
        }
    fold_wrong(step, "nobody who holds its lease reported this");
    return NULL;
}

/* ---- keys ------------------------------------------------------------------------------------ */

bool fold_is_live(const struct model_job *job)
{
    return job->state == MODEL_WAITING || job->state == MODEL_RUNNING;
}

static bool shares_key(const struct model_job *a, const struct model_job *b)
{
    const struct envelope *x = &a->envelope, *y = &b->envelope;

    return (x->idempotency_key.len && slice_eq(x->idempotency_key, y->idempotency_key)) ||
           (x->retry_key.len && slice_eq(x->retry_key, y->retry_key));
}

void fold_check_keys(struct step *step, bool pushed)
{
    for (struct model_job *other = step->model->jobs; other; other = other->next) {
        if (other == step->job || !shares_key(other, step->job))
            continue;
        if (fold_is_live(other))
            fold_wrong(step, "another live job has its key");
        if (pushed && other->envelope.unique_forever && !other->imported)
            fold_wrong(step, "another job holds its key for good");
    }
}

/* ---- coming in ------------------------------------------------------------------------------- */

/* imported_body finds what an import brought in, for a letter that the same batch purged. */
static bool imported_body(struct step *step, struct slice *job_id, struct slice *body)
{
    struct import_command *command = (struct import_command *)step->op->command;
    struct tombstone tombstone;

    if (command->command.kind != COMMAND_IMPORT ||
        step->store->tombstone_get(step->store, step->event->job_seq, &step->model->arena,
                                   &tombstone, NULL))
        return false;
    for (size_t i = 0; i < command->count; i++)
        if (command->items[i].letter.job.seq == step->event->job_seq) {
            *job_id = arena_dup(&step->model->arena, command->items[i].letter.job_id);
            *body = arena_dup(&step->model->arena, command->items[i].body);
            return job_id->ptr && body->ptr;
        }
    return false;
}

void fold_read_body(struct step *step, struct slice *job_id)
{
    struct model *model = step->model;
    struct model_job *job = step->job;
    struct job_row row = {0};
    struct stored_envelope stored = {0};
    struct err err = {0};
    enum status status =
        step->store->job_find_seq(step->store, step->event->job_seq, &model->arena, &row, &err);

    if (!status)
        status = step->store->envelope_get(step->store, row.job.envelope_seq, &model->arena,
                                           &stored, &err);
    *job_id = row.job_id;
    if (status == STATUS_NOT_FOUND && imported_body(step, job_id, &stored.body))
        status = STATUS_OK;
    if (status) {
        model_violated(model, "job %" PRId64 " of event %" PRId64 " cannot be read: %s",
                       step->event->job_seq, step->event->seq, err.text);
        return;
    }
    job->body_now = stored.body;
    if (!job->foreign &&
        envelope_parse(stored.body, SIZE_MAX, &model->arena, &job->envelope, &err) != STATUS_OK)
        model_violated(model, "job %.*s: its envelope cannot be read: %s", SLICE_ARG(*job_id),
                       err.text);
}

/* pushed_as_asked says whether a push of the command has exactly these bytes. */
static bool pushed_as_asked(struct step *step)
{
    struct push_command *command = (struct push_command *)step->op->command;

    for (size_t i = 0; i < command->count; i++)
        if (!step->op->item_done[i] && slice_eq(command->items[i].envelope.body, step->job->body)) {
            step->op->item_done[i] = true;
            return true;
        }
    return false;
}

/* is_compensation says whether the job undoes a letter that the command rolls back. */
static bool is_compensation(struct step *step)
{
    struct review_command *command = (struct review_command *)step->op->command;
    struct json body, of;

    if (command->action != REVIEW_ROLLBACK ||
        json_parse(step->job->body, &body, NULL) != STATUS_OK ||
        !json_get(body, "rollback_of", &of))
        return false;
    struct model_job *undone = model_by_id(step->model, json_text(of, &step->model->arena));
    return undone && undone->state == MODEL_DEAD;
}

void fold_pushed(struct step *step)
{
    struct model_job *job = step->job;

    fold_read_body(step, &job->id);
    job->body = job->body_now;
    job->state = MODEL_WAITING;
    job->permitted = 1;
    if (instant_before(step->event->at, job->envelope.run_at)) {
        job->not_before = job->envelope.run_at;
        job->not_before_is_fixed = true;
    }
    if (!step->op || (step->op->command->kind == COMMAND_PUSH     ? !pushed_as_asked(step)
                      : step->op->command->kind == COMMAND_REVIEW ? !is_compensation(step)
                                                                  : true))
        fold_wrong(step, "nobody pushed these bytes");
    fold_check_keys(step, true);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool has_capability(const struct ready_query *query, struct json wanted)
{
    char name[64];

    for (size_t i = 0; i < query->capability_count; i++) {
        snprintf(name, sizeof(name), "%.*s", SLICE_ARG(query->capabilities[i]));
        if (json_string_is(wanted, name))
            return true;
    }
    return false;
}

/* check_query says that the worker asked for a job like this one. */
static void check_query(struct step *step)
{
    const struct ready_query *query = &((struct lease_command *)step->op->command)->query;
    const struct envelope *envelope = &step->job->envelope;
    struct json_iter iter;
    struct json wanted;
    size_t required = 0, has = 0;
    bool asked = query->queue_count == 0;

    for (size_t i = 0; i < query->queue_count; i++)
        asked = asked || slice_eq(query->queues[i], envelope->queue);
    json_iter_init(&iter, envelope->required_capabilities);
    for (; !step->job->imported && json_next(&iter, NULL, &wanted); required++)
        has += has_capability(query, wanted);
    /* The hints of the histories ask for all of it first, and then for half. */
    bool half = model_dispatched(step->job) && step->job->attempt > step->job->attempt_base;
    if (!asked || (half ? 2 * has : has) < required)
        fold_wrong(step, "the worker did not ask for this queue, or cannot do this");
}

void fold_leased(struct step *step)
{
    struct model_job *job = step->job;

    if (job->state != MODEL_WAITING)
        fold_wrong(step, "only a job that waits can be leased");
    if (job->cancel_wanted)
        fold_wrong(step, "somebody cancelled it: it may not run again");
    if (fold_by(step, COMMAND_LEASE))
        check_query(step);
    if (model_queue_paused(step->model, job->envelope.queue))
        fold_wrong(step, "its queue is paused");
    if (instant_before(step->event->at, job->not_before) && !job->was_due)
        fold_wrong(step, "it is not due yet");
    job->state = MODEL_RUNNING;
    job->worker = fold_why_text(step, "worker_id");
    job->attempt++;
    if (job->attempt - job->attempt_base > job->permitted)
        fold_wrong(step, "no recorded decision allows this run");
    job->started = false;
    job->lease_before = job->lease_id;
    job->lease_id = (struct slice){0};
    job->lease_until = INSTANT_NONE;
}

void fold_started(struct step *step)
{
    fold_by(step, COMMAND_HEARTBEAT);
    if (step->job->state != MODEL_RUNNING || step->job->started)
        fold_wrong(step, "only a run that was not started can be started");
    step->job->started = true;
}

void fold_released(struct step *step)
{
    struct model_job *job = step->job;

    fold_by(step, COMMAND_RELEASE);
    if (job->state != MODEL_RUNNING)
        fold_wrong(step, "only a job that runs can be given back");
    job->state = MODEL_WAITING;
    job->attempt--;
    job->not_before = INSTANT_NONE;
}

/* settle_letter: the end of the job is the end of the wait of a letter that is held, and the event
 * says so; any other letter stays as it is. */
static void settle_letter(struct step *step, enum letter_state outcome, struct slice by)
{
    struct model_job *job = step->job;
    bool held = job->has_letter && job->letter == LETTER_RECOVERING;

    if (!slice_eq(fold_why_text(step, "dlq_id"), held ? job->dlq_id : (struct slice){0}))
        fold_wrong(step, "it names a letter that it does not settle, or does not name its own");
    if (!held)
        return;
    job->letter = outcome;
    if (by.len)
        job->settled_by = arena_dup(&step->model->arena, by);
    if (!slice_is(fold_why_text(step, "letter"), letter_state_name(outcome)) ||
        !slice_eq(fold_why_text(step, "by"), job->settled_by))
        fold_wrong(step, "what it says of its letter is not so");
}

void fold_completed(struct step *step)
{
    if (step->job->state != MODEL_RUNNING)
        fold_wrong(step, "only a job that runs can be completed");
    if (fold_by(step, COMMAND_RESOLVE)) {
        const struct result_item *item = result_of(step);
        if (item && item->failed)
            fold_wrong(step, "its worker reported a failure");
        if (item)
            step->job->result = arena_dup(&step->model->arena, item->result);
    }
    step->job->state = MODEL_DONE;
    settle_letter(step, LETTER_RECOVERED, (struct slice){0});
}

/* ---- failing --------------------------------------------------------------------------------- */

void fold_add_failure(struct step *step, uint32_t attempt, struct slice message)
{
    struct model_job *job = step->job;

    job->failures =
        fold_grow(job->failures, job->failure_count, &job->failure_cap, sizeof(*job->failures));
    job->failures[job->failure_count++] = (struct model_failure){
        .attempt = attempt, .message = arena_dup(&step->model->arena, message)};
}

/* check_worker says that the worker that was cut off had the job. */
static void check_worker(struct step *step)
{
    const struct interrupt_command *command = (struct interrupt_command *)step->op->command;

    if (!slice_eq(command->worker_id, step->job->worker))
        fold_wrong(step, "another worker has it, which was not cut off");
}

/* failure_of is the failure that a worker reported; NULL: its lease ended, or its worker was cut
 * off. */
static const struct failure *failure_of(struct step *step)
{
    if (!step->op) {
        if (instant_before(step->event->at, step->job->lease_until))
            fold_wrong(step, "its lease has not ended yet");
        return NULL;
    }
    if (step->op->command->kind == COMMAND_INTERRUPT) {
        check_worker(step);
        return NULL;
    }
    if (!fold_by(step, COMMAND_RESOLVE))
        return NULL;
    const struct result_item *item = result_of(step);
    if (item && !item->failed)
        fold_wrong(step, "its worker reported success");
    return item ? &item->failure : NULL;
}

static bool is_interrupted(const struct step *step, const struct failure *failure)
{
    return failure ? failure->interrupted
                   : step->op && step->op->command->kind == COMMAND_INTERRUPT;
}

/* is_uncounted says whether a failure is an interruption that does not count: not the tenth in a
 * row since the job was pushed, brought back or failed otherwise. */
static bool is_uncounted(const struct step *step, const struct failure *failure)
{
    const struct model_job *job = step->job;
    size_t row = 0;

    while (row < job->failure_count) {
        const struct model_failure *before = &job->failures[job->failure_count - 1 - row];

        if (!before->interrupted || before->fatal)
            break;
        row++;
    }
    return is_interrupted(step, failure) && row < 9;
}

/* add_failure notes the failed run: the worker's words, or none when it was lost. */
static void add_failure(struct step *step, const struct failure *failure, bool fatal)
{
    struct model_job *job = step->job;

    fold_add_failure(step, job->attempt, failure ? failure->message : (struct slice){0});
    job->failures[job->failure_count - 1].interrupted = is_interrupted(step, failure);
    job->failures[job->failure_count - 1].fatal = fatal;
}

/* is_forbidden says whether the failure itself forbids a retry, by the words of INTERFACES 3. */
static bool is_forbidden(const struct model_job *job, const struct failure *failure)
{
    if (!job->envelope.retry_eligible)
        return true;
    if (!failure)
        return false;
    return failure->retryable == NO || failure_class(failure) >= CLASS_PERMISSION_DENIED ||
           (failure->side_effects > EFFECTS_NONE && !job->envelope.idempotency_key.len);
}

/* must_die says what the policy makes of a failure. */
static bool must_die(struct step *step, const struct failure *failure)
{
    const struct model_job *job = step->job;

    if (is_forbidden(job, failure))
        return true;
    return !is_uncounted(step, failure) &&
           job->attempt - job->attempt_base >= model_allowed(step->model, job);
}

/* begin_unassigned counts the run of a job that is dispatched and that no worker took in time: it
 * fails without having been leased. */
static void begin_unassigned(struct step *step)
{
    struct model_job *job = step->job;

    if (job->state != MODEL_WAITING || step->op || !model_dispatched(job))
        return;
    if (model_queue_paused(step->model, job->envelope.queue))
        fold_wrong(step, "its queue is paused");
    if (instant_before(step->event->at, job->not_before) && !job->was_due)
        fold_wrong(step, "it is not due yet");
    job->attempt++;
    if (job->attempt - job->attempt_base > job->permitted)
        fold_wrong(step, "no recorded decision allows this run");
    job->state = MODEL_RUNNING;
    job->lease_id = (struct slice){0};
    job->lease_until = INSTANT_NONE;
}

void fold_retry(struct step *step)
{
    struct model_job *job = step->job;

    begin_unassigned(step);
    if (job->state != MODEL_RUNNING)
        fold_wrong(step, "only a job that runs can fail");
    if (job->cancel_wanted)
        fold_wrong(step, "somebody cancelled it: it may not be tried again");
    const struct failure *failure = failure_of(step);
    if (must_die(step, failure))
        fold_wrong(step, "its policy does not allow a retry");
    bool uncounted = is_uncounted(step, failure);
    if (uncounted != slice_is(fold_why_text(step, "rule"), "interrupted"))
        fold_wrong(step, "an interruption counts, or another failure does not");
    add_failure(step, failure, false);
    job->state = MODEL_WAITING;
    job->attempt_base += uncounted;
    job->permitted = job->attempt - job->attempt_base + 1;
    job->not_before = fold_why_instant(step, "next_retry_at");
    if (uncounted && job->not_before.us != step->event->at.us)
        fold_wrong(step, "an interrupted run is not retried at once");
    job->not_before_is_fixed = job->was_due = false;
}

void fold_dead(struct step *step)
{
    struct model_job *job = step->job;
    struct slice dlq_id = fold_why_text(step, "dlq_id");

    begin_unassigned(step);
    if (job->state != MODEL_RUNNING)
        fold_wrong(step, "only a job that runs can die");
    const struct failure *failure = failure_of(step);
    if (!must_die(step, failure))
        fold_wrong(step, "its policy allows a retry");
    if (job->has_letter && !slice_eq(job->dlq_id, dlq_id))
        fold_wrong(step, "it has another letter already");
    add_failure(step, failure, true);
    job->state = MODEL_DEAD;
    job->has_letter = true;
    job->dlq_id = dlq_id;
    job->letter = LETTER_DEAD;
    job->settled_by = (struct slice){0};
    job->escalated = false;
}

void fold_cancel_wanted(struct step *step)
{
    fold_by(step, COMMAND_CANCEL);
    if (step->job->state != MODEL_RUNNING || step->job->cancel_wanted)
        fold_wrong(step, "only a job that runs can be asked to stop, once");
    step->job->cancel_wanted = true;
    step->job->cancelled_by = arena_dup(&step->model->arena, step->event->actor);
}

void fold_cancelled(struct step *step)
{
    struct model_job *job = step->job;
    bool asked = step->op && step->op->command->kind == COMMAND_CANCEL;
    bool given_back = step->op && step->op->command->kind == COMMAND_RELEASE;

    if (job->state == MODEL_WAITING && !asked)
        fold_wrong(step, "nobody cancelled it");
    else if (job->state == MODEL_RUNNING && !job->cancel_wanted)
        fold_wrong(step, "it runs, and nobody wanted it cancelled");
    else if (!fold_is_live(job))
        fold_wrong(step, "only a live job can be cancelled");
    if (given_back)
        job->attempt--;
    else if (job->state == MODEL_RUNNING)
        add_failure(step, failure_of(step), false);
    settle_letter(step, LETTER_DISCARDED,
                  job->state == MODEL_RUNNING ? job->cancelled_by : step->event->actor);
    job->state = MODEL_CANCELLED;
}
