/* fold_letter: events of letters, and of what concerns no job. */
#include "sim/fold.h"

#include "core/policy.h"

/* review_of finds the decision that made the event; each decision makes one. */
static const struct review_command *review_of(struct step *step, enum review_action action)
{
    if (!fold_by(step, COMMAND_REVIEW))
        return NULL;
    struct review_command *command = (struct review_command *)step->op->command;
    for (size_t i = 0; i < command->count; i++)
        if (!step->op->item_done[i] && slice_eq(command->items[i].dlq_id, step->job->dlq_id) &&
            command->action == action) {
            step->op->item_done[i] = true;
            return command;
        }
    fold_wrong(step, "nobody asked for this, or it was done twice");
    return NULL;
}

void fold_imported(struct step *step)
{
    struct model_job *job = step->job;

    job->state = MODEL_DEAD;
    job->imported = job->has_letter = true;
    if (!fold_by(step, COMMAND_IMPORT))
        return;
    struct import_command *command = (struct import_command *)step->op->command;
    struct slice dlq_id = fold_why_text(step, "dlq_id");
    job->dlq_id = dlq_id;
    for (size_t i = 0; i < command->count; i++) {
        struct import_item *item = &command->items[i];

        if (step->op->item_done[i] || !slice_eq(item->letter.dlq_id, dlq_id))
            continue;
        step->op->item_done[i] = true;
        job->foreign = item->letter.foreign;
        job->letter = item->letter.state;
        job->attempt = item->letter.failure_count;
        fold_read_body(step, &job->id);
        job->body = job->body_now;
        if (!slice_eq(job->body, item->body))
            fold_wrong(step, "its payload is not what was imported");
        for (size_t k = 0; k < item->attempt_count; k++)
            fold_add_failure(step, item->attempts[k].attempt, item->attempts[k].failure.message);
        return;
    }
    fold_wrong(step, "nobody imported this, or it was taken twice");
}

/* ---- reviews --------------------------------------------------------------------------------- */

static void check_letter(struct step *step, enum letter_state state)
{
    if (step->job->state != MODEL_DEAD || step->job->letter != state)
        fold_wrong(step, "its letter is not in a state that allows this");
}

static void settled_by(struct step *step)
{
    step->job->settled_by = arena_dup(&step->model->arena, step->event->actor);
}

void fold_requeued(struct step *step)
{
    struct model_job *job = step->job;
    struct slice before = job->body_now, job_id;
    const struct review_command *command = review_of(step, REVIEW_RETRY);

    check_letter(step, LETTER_DEAD);
    if (!command)
        return;
    fold_read_body(step, &job_id);
    bool edited =
        command->patch.len || command->merge.len || command->queue.len || command->policy.len;
    if (!edited && !slice_eq(before, job->body_now))
        fold_wrong(step, "its payload changed without an edit");
    job->state = MODEL_WAITING;
    job->letter = command->hold ? LETTER_RECOVERING : LETTER_RECOVERED;
    if (command->hold != (fold_why(step, "hold").type == JSON_TRUE))
        fold_wrong(step, "it does not say whether the letter is held");
    settled_by(step);
    job->escalated = false;
    job->attempt_base = job->attempt;
    job->permitted = 1;
    job->attempts_max = command->attempts_max;
    job->redrives++;
    job->cancel_wanted = false;
    job->not_before = INSTANT_NONE;
    fold_check_keys(step, false);
}

void fold_discarded(struct step *step)
{
    check_letter(step, LETTER_DEAD);
    review_of(step, REVIEW_DISCARD);
    step->job->letter = LETTER_DISCARDED;
    settled_by(step);
}

void fold_rolled_back(struct step *step)
{
    check_letter(step, LETTER_DEAD);
    review_of(step, REVIEW_ROLLBACK);
    step->job->letter = LETTER_ROLLED_BACK;
    settled_by(step);
}

void fold_escalated(struct step *step)
{
    check_letter(step, LETTER_DEAD);
    review_of(step, REVIEW_ESCALATE);
    step->job->escalated = true;
}

void fold_restored(struct step *step)
{
    check_letter(step, LETTER_DISCARDED);
    review_of(step, REVIEW_RESTORE);
    step->job->letter = LETTER_DEAD;
    step->job->settled_by = (struct slice){0};
}

void fold_purged(struct step *step)
{
    struct model_job *job = step->job;
    bool forced = false;

    if (step->op && fold_by(step, COMMAND_PURGE))
        forced = ((struct purge_command *)step->op->command)->force;
    if (fold_is_live(job) || job->state == MODEL_PURGED)
        fold_wrong(step, "it cannot be purged");
    if (job->state == MODEL_DEAD && job->letter == LETTER_DEAD && !forced)
        fold_wrong(step, "its letter needs review: only force purges it");
    job->state = MODEL_PURGED;
}

/* ---- what concerns no job -------------------------------------------------------------------- */

void fold_queue(struct step *step)
{
    struct model *model = step->model;
    struct slice name = fold_why_text(step, "queue");
    struct model_queue *queue = model->queues;

    fold_by(step, COMMAND_QUEUE);
    while (queue && !slice_eq(queue->name, name))
        queue = queue->next;
    if (!queue) {
        queue = arena_alloc(&model->arena, sizeof(*queue));
        *queue = (struct model_queue){.name = name, .next = model->queues};
        model->queues = queue;
    }
    queue->paused = slice_is(step->event->what, EVENT_QUEUE_PAUSED);
}

void fold_policy(struct step *step)
{
    struct model *model = step->model;
    struct slice name = fold_why_text(step, "name");
    struct model_policy *stored = model->policies;
    struct json json;
    struct policy policy;

    if (!fold_by(step, COMMAND_POLICY))
        return;
    const struct policy_command *command = (struct policy_command *)step->op->command;
    while (stored && !slice_eq(stored->name, name))
        stored = stored->next;
    if (!stored) {
        stored = arena_alloc(&model->arena, sizeof(*stored));
        *stored = (struct model_policy){.name = name, .next = model->policies};
        model->policies = stored;
    }
    stored->body = arena_dup(&model->arena, command->body);
    stored->version++;
    if (json_parse(stored->body, &json, NULL) != STATUS_OK ||
        policy_parse(json, &model->arena, &policy, NULL) != STATUS_OK)
        fold_wrong(step, "the policy cannot be read");
    else
        stored->max_attempts = policy.max_attempts;
}

/* fold_jump moves the times that were delays along with the clock. */
void fold_jump(struct step *step)
{
    double seconds = 0;

    if (step->op || !json_double(fold_why(step, "by_seconds"), &seconds))
        fold_wrong(step, "it does not say by how much");
    struct span by = {(int64_t)(seconds * 1e6)};
    for (struct model_job *job = step->model->jobs; job; job = job->next) {
        /* A microsecond may be lost on the way through decimal seconds. */
        if (instant_is_set(job->lease_until))
            job->lease_until.us += by.us - 2;
        if (instant_is_set(job->not_before) && !job->not_before_is_fixed)
            job->not_before.us += by.us - 2;
    }
}

void fold_group(struct step *step)
{
    fold_by(step, COMMAND_GROUP);
}
