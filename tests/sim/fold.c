/* fold: how a committed event moves a job, by the model's own table.
 *
 *   event             from              to         checked
 *   ----------------  ----------------  ---------  ------------------------------------
 *   pushed            nothing           waiting    the bytes; nobody else has its keys
 *   leased            waiting           running    a decision allows the run; it is due
 *   started           running           running    once a run
 *   released          running           waiting    the run does not count
 *   completed         running           done       its worker said so; a held letter is settled
 *   retry-scheduled   running           waiting    the policy allows it; interruptions, nine in a
 *                                                  row at most, do not count
 *   dead-lettered     running           dead       the policy forbids a retry
 *   (these two)       waiting           likewise   a dispatched job that no worker took: counts as
 *                                                  a run
 *   cancel-requested  running           running    once
 *   cancelled         waiting, running  cancelled  somebody asked for it; a held letter is settled
 *   requeued          dead              waiting    one decision, one replay
 *   discarded         dead              dead       the letter was dead
 *   rolled-back       dead              dead       the letter was dead
 *   escalated         dead              dead       the letter was dead
 *   restored          dead              dead       the letter was discarded
 *   imported          nothing           dead       the bytes; taken once
 *   purged            what has ended    purged     what needs review only by force
 *
 * The first part of the functions is in fold_job.c, those of letters in fold_letter.c. */
#include "sim/fold.h"

#include <inttypes.h>
#include <stdlib.h>

void fold_wrong(struct step *step, const char *what)
{
    model_violated(step->model, "event %" PRId64 " (%.*s by %.*s) of job %.*s, which is %s: %s",
                   step->event->seq, SLICE_ARG(step->event->what), SLICE_ARG(step->event->actor),
                   SLICE_ARG(step->job ? step->job->id : SLICE("-")),
                   step->job ? model_state_name(step->job->state) : "-", what);
}

void *fold_grow(void *array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 8;
    array = realloc(array, *cap * size);
    if (!array)
        abort();
    return array;
}

/* ---- what the event says --------------------------------------------------------------------- */

struct json fold_why(struct step *step, const char *name)
{
    struct json why, value = {0};

    if (json_parse(step->event->why, &why, NULL) == STATUS_OK)
        json_get(why, name, &value);
    return value;
}

struct slice fold_why_text(struct step *step, const char *name)
{
    /* json_text may borrow from the event, which does not last. */
    struct slice text = json_text(fold_why(step, name), &step->model->arena);

    return text.ptr ? arena_dup(&step->model->arena, text) : (struct slice){0};
}

struct instant fold_why_instant(struct step *step, const char *name)
{
    struct instant out = INSTANT_NONE;

    if (instant_parse(fold_why_text(step, name), &out, NULL) != STATUS_OK)
        fold_wrong(step, "the time that it names cannot be read");
    return out;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct rule {
    const char *what;
    void (*fold)(struct step *step);
    bool makes_job; /* its job was not known before */
    bool has_job;
} rules[] = {
    {EVENT_PUSHED, fold_pushed, true, true},
    {EVENT_IMPORTED, fold_imported, true, true},
    {EVENT_LEASED, fold_leased, false, true},
    {EVENT_STARTED, fold_started, false, true},
    {EVENT_RELEASED, fold_released, false, true},
    {EVENT_COMPLETED, fold_completed, false, true},
    {EVENT_RETRY_SCHEDULED, fold_retry, false, true},
    {EVENT_DEAD_LETTERED, fold_dead, false, true},
    {EVENT_CANCEL_WANTED, fold_cancel_wanted, false, true},
    {EVENT_CANCELLED, fold_cancelled, false, true},
    {EVENT_REQUEUED, fold_requeued, false, true},
    {EVENT_DISCARDED, fold_discarded, false, true},
    {EVENT_ROLLED_BACK, fold_rolled_back, false, true},
    {EVENT_ESCALATED, fold_escalated, false, true},
    {EVENT_RESTORED, fold_restored, false, true},
    {EVENT_PURGED, fold_purged, false, true},
    {EVENT_QUEUE_PAUSED, fold_queue, false, false},
    {EVENT_QUEUE_RESUMED, fold_queue, false, false},
    {EVENT_POLICY_SET, fold_policy, false, false},
    {EVENT_GROUP_SET, fold_group, false, false},
    {EVENT_CLOCK_JUMPED, fold_jump, false, false},
};

static const struct rule *rule_of(struct slice what)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (slice_is(what, rules[i].what))
            return &rules[i];
    return NULL;
}

/* find_op finds the command that made the event, among the batch and those in doubt. */
static bool find_op(struct step *step, struct batch *batch, struct batch *doubtful)
{
    uint64_t number;

    if (slice_is(step->event->actor, "engine"))
        return true;
    if (!op_number(step->event->actor, &number))
        return false;
    if (batch)
        step->op = batch_op(batch, number);
    for (; !step->op && doubtful; doubtful = doubtful->next)
        step->op = batch_op(doubtful, number);
    if (step->op)
        step->op->events++;
    return step->op != NULL;
}

static struct model_job *job_add(struct model *model, int64_t seq)
{
    struct model_job *job = arena_alloc(&model->arena, sizeof(*job));

    if (!job)
        abort();
    job->seq = seq;
    job->next = model->jobs;
    model->jobs = job;
    model->job_count++;
    return job;
}

/* enter writes the event into the ledger and its job's list. */
static void enter(struct step *step)
{
    struct model *model = step->model;
    struct model_job *job = step->job;

    model->ledger =
        fold_grow(model->ledger, model->ledger_count, &model->ledger_cap, sizeof(*model->ledger));
    model->ledger[model->ledger_count++] =
        (struct ledger_entry){step->event->hash, step->event->job_seq};
    if (!job)
        return;
    int64_t last = job->event_count ? job->events[job->event_count - 1] : 0;
    if (step->event->previous_seq != last)
        fold_wrong(step, "it does not follow the job's last event");
    job->events = fold_grow(job->events, job->event_count, &job->event_cap, sizeof(*job->events));
    job->events[job->event_count++] = step->event->seq;
}

static void check_chain(struct step *step)
{
    struct model *model = step->model;
    struct hash previous = {{0}};

    if (model->ledger_count)
        previous = model->ledger[model->ledger_count - 1].hash;
    struct hash hash = event_hash(step->event, previous);
    if (step->event->seq != (int64_t)model->ledger_count + 1)
        fold_wrong(step, "the chain has a gap");
    else if (memcmp(hash.bytes, step->event->hash.bytes, sizeof(hash.bytes)) != 0)
        fold_wrong(step, "the chain does not fit");
}

static void fold_event(struct step *step, struct batch *batch, struct batch *doubtful)
{
    const struct rule *rule = rule_of(step->event->what);

    check_chain(step);
    if (!rule) {
        fold_wrong(step, "unknown to the model");
        return;
    }
    if (!find_op(step, batch, doubtful)) {
        fold_wrong(step, "made by nobody who acts in this batch");
        return;
    }
    if (rule->has_job)
        step->job = rule->makes_job ? job_add(step->model, step->event->job_seq)
                                    : model_by_seq(step->model, step->event->job_seq);
    if (rule->has_job && !step->job) {
        fold_wrong(step, "its job is not known");
        return;
    }
    enter(step);
    rule->fold(step);
}

void model_fold(struct model *model, struct store *store, const struct event *events, size_t count,
                struct batch *batch, struct batch *doubtful)
{
    model->batch_start = model->ledger_count;
    for (size_t i = 0; i < count && !model->violated; i++) {
        struct step step = {.model = model, .store = store, .event = &events[i]};

        fold_event(&step, batch, doubtful);
    }
}
