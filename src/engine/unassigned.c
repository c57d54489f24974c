/* unassigned: jobs that no worker took in time.
 *
 * The attempt fails without a run, by what is so at that moment:
 *
 *     no live worker suffices                        no_capable_agent
 *     some do, but none of them may see the job      policy_denied, straight to the quarantine
 *     some may, but none was free or came            all_agents_unavailable
 *
 * It goes through failure_apply like every failure: it counts, it stands in the history, and the
 * policy decides what follows.
 *
 * A claimed job that its claimant did not come for is quarantined: whoever sent it is gone, and
 * nobody else may do its work. */
#include "engine/dispatch.h"

#include "core/reason.h"

/* struct finding: what was found out about the live workers and one job. */
struct finding {
    size_t serving;    /* take jobs of its queue */
    size_t capable;    /* of these, suffice */
    size_t in_scope;   /* of these, cover its scope */
    size_t permitted;  /* of these, cover its permissions too */
    uint32_t has_best; /* required capabilities that the best of those that serve has */
    uint32_t of;       /* and how many are required */
};

static void find_out(const struct crowd *crowd, struct lane_fit *lane, const struct need *need,
                     struct finding *out)
{
    *out = (struct finding){0};
    for (size_t i = 0; i < crowd->count; i++) {
        const struct worker_claim *claim = &crowd->candidates[i].claim;
        const struct fit *fit = crowd_fit(crowd, lane, i);
        if (!fit->serves)
            continue;
        out->serving++;
        out->of = fit->share.of;
        if (fit->share.has > out->has_best)
            out->has_best = fit->share.has;
        if (!match_suffices(fit->share, need->min))
            continue;
        out->capable++;
        bool in_scope = match_covers_scope(claim->scopes, need->scope);
        out->in_scope += in_scope;
        out->permitted +=
            in_scope && match_covers_permissions(claim->permissions, need->permissions);
    }
}

/* print_list is "[a, b]" of an array of strings. */
static void print_list(struct json array, struct arena *arena, struct buf *out)
{
    struct json_iter iter;
    struct json value;
    const char *comma = "";
    buf_add_char(out, '[');
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &value)) {
        buf_addf(out, "%s", comma);
        buf_add_slice(out, json_text(value, arena));
        comma = ", ";
    }
    buf_add_char(out, ']');
}

static void say_incapable(const struct finding *finding, const struct need *need,
                          const struct envelope *envelope, struct arena *arena, struct buf *out)
{
    bool required = json_count(envelope->required_capabilities) > 0;
    buf_add_str(out, "No live worker ");
    if (required) {
        buf_add_str(out, "has ");
        if (need->min < 1)
            buf_addf(out, "%g %% of ", need->min * 100);
        print_list(envelope->required_capabilities, arena, out);
    }
    if (finding->serving)
        buf_addf(out, "; the best has %u of %u", (unsigned)finding->has_best,
                 (unsigned)finding->of);
    else
        buf_addf(out, "%stakes jobs of queue \"%.*s\"", required ? ": none " : "",
                 SLICE_ARG(envelope->queue));
}

static void say_denied(const struct finding *finding, const struct envelope *envelope,
                       struct arena *arena, struct buf *out)
{
    buf_addf(out, "%zu live worker%s could do it, and none covers ", finding->capable,
             finding->capable == 1 ? "" : "s");
    if (!finding->in_scope) {
        buf_addf(out, "the scope \"%.*s\"", SLICE_ARG(envelope->scope_lock));
    } else {
        buf_add_str(out, "the permissions ");
        print_list(envelope->permissions, arena, out);
    }
}

static void say_unavailable(const struct finding *finding, const struct job *job, struct buf *out)
{
    buf_addf(out, "%zu live worker%s could do it, and none came for it within %g seconds",
             finding->permitted, finding->permitted == 1 ? "" : "s",
             span_to_seconds(instant_since(job->deadline_at, job->due_at)));
}

/* judge fills a failure by what was found. */
static enum status judge(struct engine *engine, const struct finding *finding,
                         const struct need *need, const struct envelope *envelope,
                         const struct job *job, struct failure *out, struct err *err)
{
    struct buf text;
    buf_init(&text, FAILURE_MESSAGE_MAX);
    out->given_class = CLASS_UNAVAILABLE;
    if (!finding->capable) {
        out->reason = SLICE(REASON_NO_CAPABLE_AGENT);
        say_incapable(finding, need, envelope, &engine->arena, &text);
    } else if (!finding->permitted) {
        out->given_class = CLASS_POLICY_VIOLATION;
        out->reason = SLICE(REASON_POLICY_DENIED);
        say_denied(finding, envelope, &engine->arena, &text);
    } else {
        out->reason = SLICE(REASON_ALL_AGENTS_UNAVAILABLE);
        say_unavailable(finding, job, &text);
    }
    enum status status = buf_status(&text, err);
    if (status == STATUS_TOO_LARGE) { /* a list without end: what fits says enough */
        err->text[0] = '\0';
        status = STATUS_OK;
    }
    out->message = arena_dup(&engine->arena, buf_slice(&text));
    out->reason_detail = out->message;
    buf_release(&text);
    return status || out->message.ptr ? status : err_no_memory(err);
}

/* judge_unassigned fills the failure of a job that nobody was found for. */
static enum status judge_unassigned(struct crowd *crowd, const struct job *job, struct failure *out,
                                    struct err *err)
{
    struct engine *engine = crowd->engine;
    struct envelope envelope;
    struct need need;
    struct finding finding;
    enum status status = need_read(engine, job, &engine->arena, &need, &envelope, err);
    if (status)
        return status;
    struct lane_fit *lane = crowd_lane(crowd, job->queue, job->capabilities);
    if (!lane)
        return err_no_memory(err);
    find_out(crowd, lane, &need, &finding);
    out->error_type = SLICE("Unassigned");
    return judge(engine, &finding, &need, &envelope, job, out, err);
}

/* judge_unclaimed fills the failure of a job whose claimant is gone. */
static void judge_unclaimed(struct failure *out)
{
    out->given_class = CLASS_CRASHED;
    out->error_type = SLICE("Unclaimed");
    out->reason = SLICE(REASON_AGENT_CRASHED);
    out->retryable = NO;
    out->message = SLICE("the process that claimed the job did not come for it: it has ended");
}

static enum status fail_one(struct crowd *crowd, struct job *job, struct err *err)
{
    struct engine *engine = crowd->engine;
    struct failure failure;
    enum status status = STATUS_OK;
    failure_init(&failure);
    failure.at = engine->now;
    failure.has_class = true;
    if (job->flags & JOB_CLAIMED)
        judge_unclaimed(&failure);
    else
        status = judge_unassigned(crowd, job, &failure, err);
    if (status)
        return status;
    job->attempt++;
    job->flags &= (uint16_t) ~(JOB_STARTED | JOB_CANCEL_WANTED | JOB_RUN_AT);
    if (!instant_is_set(job->round_at))
        job->round_at = engine->now;
    struct failed failed = {.job = *job, .failure = &failure, .actor = ENGINE_ACTOR};
    numbers_attempt(engine->counted, job->queue, ATTEMPT_UNASSIGNED);
    return failure_apply(engine, &failed, &engine->arena, err);
}

enum status unassigned_apply(struct engine *engine, struct err *err)
{
    struct crowd crowd;
    struct job *jobs = arena_array(&engine->arena, TIMER_BATCH, sizeof(*jobs));
    if (!jobs)
        return err_no_memory(err);
    size_t count = engine->store->unassigned(engine->store, engine->now, jobs, TIMER_BATCH);
    enum status status = count ? crowd_gather(engine, false, NULL, &crowd, err) : STATUS_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = fail_one(&crowd, &jobs[i], err);
    return status;
}
