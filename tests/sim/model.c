/* model: what the oracle remembers, and how it is found. */
#include "sim/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void model_init(struct model *model, struct world *world)
{
    *model = (struct model){.world = world};
}

void model_release(struct model *model)
{
    for (struct model_job *job = model->jobs; job; job = job->next) {
        free(job->failures);
        free(job->events);
    }
    free(model->ledger);
    arena_release(&model->arena);
}

void model_violated(struct model *model, const char *format, ...)
{
    va_list args;

    if (model->violated)
        return;
    model->violated = true;
    va_start(args, format);
    vsnprintf(model->violation, sizeof(model->violation), format, args);
    va_end(args);
    world_trace(model->world, "VIOLATION %s", model->violation);
}

struct model_job *model_by_seq(struct model *model, int64_t seq)
{
    for (struct model_job *job = model->jobs; job; job = job->next)
        if (job->seq == seq)
            return job;
    return NULL;
}

struct model_job *model_by_id(struct model *model, struct slice id)
{
    for (struct model_job *job = model->jobs; job; job = job->next)
        if (slice_eq(job->id, id))
            return job;
    return NULL;
}

struct model_job *model_by_letter(struct model *model, struct slice dlq_id)
{
    for (struct model_job *job = model->jobs; job; job = job->next)
        if (job->has_letter && slice_eq(job->dlq_id, dlq_id))
            return job;
    return NULL;
}

bool model_queue_paused(const struct model *model, struct slice name)
{
    for (const struct model_queue *queue = model->queues; queue; queue = queue->next)
        if (slice_eq(queue->name, name))
            return queue->paused;
    return false;
}

const char *model_state_name(enum model_state state)
{
    static const char *const names[MODEL_STATE_COUNT] = {"waiting",   "running", "done",
                                                         "cancelled", "dead",    "purged"};

    return names[state];
}

void model_time(struct model *model, struct instant now, bool timely)
{
    for (struct model_job *job = model->jobs; job; job = job->next) {
        if (!instant_before(now, job->not_before))
            job->was_due = true;
        if (timely && job->state == MODEL_RUNNING && instant_is_set(job->lease_until) &&
            !instant_before(now, job->lease_until))
            model_violated(model, "the lease of job %.*s has ended, and nothing followed",
                           SLICE_ARG(job->id));
    }
}

bool model_dispatched(const struct model_job *job)
{
    struct json hints;

    return json_get(job->envelope.policy_inline, "hints", &hints);
}

const struct model_job *model_ready(const struct model *model, struct instant now)
{
    for (const struct model_job *job = model->jobs; job; job = job->next)
        if (job->state == MODEL_WAITING && !instant_before(now, job->not_before) &&
            !model_dispatched(job))
            return job;
    return NULL;
}

/* preset_max_attempts is the limit of a built-in policy; 0 when there is none of that name. */
static uint32_t preset_max_attempts(struct model *model, struct slice name)
{
    const char *preset;
    struct slice text;
    struct json json;
    struct policy policy;

    for (size_t i = 0; policy_preset(i, &preset, &text); i++)
        if (slice_is(name, preset) && json_parse(text, &json, NULL) == STATUS_OK &&
            policy_parse(json, &model->arena, &policy, NULL) == STATUS_OK)
            return policy.max_attempts;
    return 0;
}

uint32_t model_allowed(struct model *model, const struct model_job *job)
{
    const struct envelope *envelope = &job->envelope;
    struct slice name = envelope->policy_name;
    struct policy policy;

    if (job->attempts_max)
        return job->attempts_max;
    if (envelope->policy_inline.raw.len)
        return policy_parse(envelope->policy_inline, &model->arena, &policy, NULL) == STATUS_OK
                   ? policy.max_attempts
                   : 0;
    if (!name.len)
        name = slice_of(POLICY_DEFAULT);
    for (const struct model_policy *stored = model->policies; stored; stored = stored->next)
        if (slice_eq(stored->name, name))
            return stored->max_attempts;
    return preset_max_attempts(model, name);
}
