/* dispatch: jobs whose policy has hints, and the workers that are right for them.
 *
 * At the end of each batch that may have changed something, the jobs that wait are matched, in
 * their order, with the workers that ask now: the leases of the batch that have room left, and the
 * parked ones.  The best of those that suffice gets the job (core/match.h), in the transaction of
 * the batch.
 *
 *     no one who suffices asks        the job waits: for somebody to come, or for its time to end
 *     the best of all is not asking   the job is held for it, for a moment; then the best who asks
 *                                     gets it
 *     else                            the best who asks gets it
 *
 * A job is held for a worker that is idle between two polls, one job for each: HOLD_MS from when it
 * became ready, or half of its time to be assigned when that is shorter.  A worker that is busy is
 * not waited for, but when only the one asks that failed the job last: then any other that would do
 * is given half of the job's time.  Who did not come is not waited for again until it is seen.
 *
 * Before a worker is given a dispatched job it gets the others that go before it, so that
 * priorities hold across both kinds. */
#include "engine/dispatch.h"

#include "engine/colleagues.h"

#define WINDOW 1000  /* jobs that one look takes */
#define HOLD_MS 1000 /* how long a job is held for an idle worker, at most */

/* ---- crowds ---------------------------------------------------------------------------------- */

static void crowd_add(struct crowd *crowd, struct worker *worker, struct worker_claim claim,
                      struct lease_command *lease)
{
    crowd->candidates[crowd->count++] = (struct candidate){worker, claim, lease, false};
}

static void crowd_add_lease(struct crowd *crowd, struct lease_command *lease)
{
    struct worker_claim claim = lease_claim(lease);
    if (lease->worker && lease_room(lease) > 0 && !atomic_load(&lease->abandoned))
        crowd_add(crowd, lease->worker, worker_claim_of(lease->worker, &claim), lease);
}

static size_t count_leases(const struct engine *engine, const struct command *batch)
{
    size_t count = 0;
    for (const struct command *command = engine->parked; command; command = command->next)
        count++;
    for (; batch; batch = batch->next)
        count += batch->kind == COMMAND_LEASE;
    return count;
}

enum status crowd_gather(struct engine *engine, bool with_asking, struct command *batch,
                         struct crowd *out, struct err *err)
{
    size_t room = workers_count(engine->workers);
    struct colleagues others = {0};
    *out = (struct crowd){.engine = engine};
    enum status status =
        with_asking ? STATUS_OK : colleagues_read(engine, &engine->arena, &others, err);
    if (status)
        return status;
    room += with_asking ? count_leases(engine, batch) : others.count;
    out->candidates = arena_array(&engine->arena, room, sizeof(*out->candidates));
    if (!out->candidates)
        return err_no_memory(err);
    for (struct command *command = engine->parked; with_asking && command; command = command->next)
        if (!wait_is_over(engine, (struct lease_command *)command))
            crowd_add_lease(out, (struct lease_command *)command);
    for (struct command *command = batch; with_asking && command; command = command->next)
        if (command->kind == COMMAND_LEASE && !command->status)
            crowd_add_lease(out, (struct lease_command *)command);
    out->asking = out->count;
    struct worker *worker = workers_newest(engine->workers);
    for (; worker; worker = worker->older)
        if (worker_is_live(worker, engine->now) && !(with_asking && worker->asking))
            crowd_add(out, worker, worker->claim, NULL);
    for (size_t i = 0; i < others.count; i++)
        crowd_add(out, NULL, others.claims[i], NULL);
    return STATUS_OK;
}

struct lane_fit *crowd_lane(struct crowd *crowd, uint32_t queue, uint32_t capabilities)
{
    for (size_t i = 0; i < CROWD_LANES && crowd->lanes[i].fits; i++)
        if (crowd->lanes[i].queue == queue && crowd->lanes[i].capabilities == capabilities)
            return &crowd->lanes[i];
    struct lane_fit *lane = &crowd->lanes[crowd->lane_next++ % CROWD_LANES];
    if (!lane->fits)
        lane->fits = arena_array(&crowd->engine->arena, crowd->count, sizeof(*lane->fits));
    else
        memset(lane->fits, 0, crowd->count * sizeof(*lane->fits));
    lane->queue = queue;
    lane->capabilities = capabilities;
    return lane->fits ? lane : NULL;
}

const struct fit *crowd_fit(const struct crowd *crowd, struct lane_fit *lane, size_t i)
{
    struct store *store = crowd->engine->store;
    const struct worker_claim *claim = &crowd->candidates[i].claim;
    struct fit *fit = &lane->fits[i];
    if (fit->known)
        return fit;
    struct match_list required;
    required.names = store->capabilities_names(store, lane->capabilities, &required.count);
    fit->known = true;
    fit->serves = worker_serves(claim->queues, store->queue_name(store, lane->queue));
    fit->share = match_share(required, claim->capabilities);
    return fit;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* struct look: one job of a look. */
struct look {
    struct crowd *crowd;
    struct job *job;
    const struct need *need;
    struct lane_fit *lane;
};

/* score says whether candidate `i` could have the job, and how good it is. */
static bool score(const struct look *look, size_t i, struct match_score *out)
{
    const struct candidate *candidate = &look->crowd->candidates[i];
    const struct fit *fit = crowd_fit(look->crowd, look->lane, i);
    const struct need *need = look->need;
    if (!fit->serves || !match_suffices(fit->share, need->min) ||
        !match_covers_scope(candidate->claim.scopes, need->scope) ||
        !match_covers_permissions(candidate->claim.permissions, need->permissions))
        return false;
    const struct worker *worker = candidate->worker;
    *out = (struct match_score){
        .share = fit->share,
        .failed_last = need->avoid.len > 0 && slice_eq(worker->claim.worker_id, need->avoid),
        .running = worker->running,
        .idle_since = worker->idle_since,
    };
    return true;
}

/* best_asking is the best of those that ask and have room; NULL: none. */
static struct candidate *best_asking(const struct look *look, struct match_score *out)
{
    struct candidate *best = NULL;
    for (size_t i = 0; i < look->crowd->asking; i++) {
        struct candidate *candidate = &look->crowd->candidates[i];
        struct match_score found;
        if (lease_room(candidate->lease) == 0 || !score(look, i, &found) ||
            (best && match_compare(&found, out) >= 0))
            continue;
        best = candidate;
        *out = found;
    }
    return best;
}

/* struct patience: until when a job waits for somebody better. */
struct patience {
    struct instant for_idle;    /* who is between two polls */
    struct instant for_another; /* than the one that failed it */
};

static struct patience patience_of(const struct engine *engine, const struct job *job)
{
    struct instant since = job->due_at;
    if (instant_before(since, engine->started_at))
        since = engine->started_at;
    if (instant_before(engine->now, since) || job->deadline_at.us == INT64_MAX)
        return (struct patience){0}; /* the clock went back, or nobody knows its time */
    struct span half = {instant_since(job->deadline_at, job->due_at).us / 2};
    struct span hold = span_ms(HOLD_MS);
    if (half.us < hold.us)
        hold = half;
    return (struct patience){instant_add(since, hold), instant_add(since, half)};
}

/* worth_until is until when the job waits for a worker that does not ask; not set: it does not. */
static struct instant worth_until(const struct patience *patience, const struct match_score *best,
                                  const struct candidate *candidate,
                                  const struct match_score *other)
{
    if (candidate->worker->missed || !match_is_worth(other, best))
        return INSTANT_NONE;
    if (best->failed_last)
        return patience->for_another;
    return candidate->worker->running == 0 && !candidate->awaited ? patience->for_idle
                                                                  : INSTANT_NONE;
}

/* is_held says whether the job waits for somebody better than the best who asks. */
static bool is_held(const struct look *look, const struct match_score *best)
{
    struct crowd *crowd = look->crowd;
    struct engine *engine = crowd->engine;
    struct patience patience = patience_of(engine, look->job);
    for (size_t i = crowd->asking; i < crowd->count; i++) {
        struct candidate *candidate = &crowd->candidates[i];
        struct match_score other;
        if (!score(look, i, &other))
            continue;
        struct instant until = worth_until(&patience, best, candidate, &other);
        if (instant_before(engine->now, until)) {
            if (instant_before(until, engine->dispatch_at))
                engine->dispatch_at = until;
            candidate->awaited = true;
            return true;
        }
        if (instant_is_set(until) && candidate->worker->running == 0)
            candidate->worker->missed = true;
    }
    return false;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* match_one gives a job to the worker that is right for it, or leaves it. */
static enum status match_one(struct crowd *crowd, struct job *job, struct err *err)
{
    struct engine *engine = crowd->engine;
    struct look look = {.crowd = crowd, .job = job};
    enum status status = need_get(engine, job, &look.need, err);
    if (status)
        return status;
    look.lane = crowd_lane(crowd, job->queue, job->capabilities);
    if (!look.lane)
        return err_no_memory(err);
    struct match_score best;
    struct candidate *candidate;
    while ((candidate = best_asking(&look, &best)) && !is_held(&look, &best)) {
        status = lease_ahead(engine, candidate->lease, job, err);
        if (status)
            return status;
        if (lease_room(candidate->lease) > 0)
            return lease_give(engine, candidate->lease, job, err);
    }
    return STATUS_OK;
}

/* has_room says whether anybody can still be given something. */
static bool has_room(const struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->asking; i++)
        if (lease_room(crowd->candidates[i].lease) > 0)
            return true;
    return false;
}

/* wants says whether somebody who asks has anything of what a lane requires.  A worker that has
 * nothing of it never suffices (policy.c), so such jobs are not stepped over one by one. */
static bool wants(void *ctx, uint32_t queue, uint32_t capabilities)
{
    struct crowd *crowd = ctx;
    struct lane_fit *lane = crowd_lane(crowd, queue, capabilities);
    for (size_t i = 0; lane && i < crowd->asking; i++) {
        const struct fit *fit = crowd_fit(crowd, lane, i);
        if (fit->serves && (fit->share.has > 0 || fit->share.of == 0))
            return true;
    }
    return false;
}

enum status dispatch_apply(struct engine *engine, struct command *batch, struct err *err)
{
    struct crowd crowd;
    struct hinted_query query = {wants, &crowd};
    engine->dispatch_at = INSTANT_NEVER;
    enum status status = crowd_gather(engine, true, batch, &crowd, err);
    if (status || crowd.asking == 0)
        return status;
    struct job *jobs = arena_array(&engine->arena, WINDOW, sizeof(*jobs));
    if (!jobs)
        return err_no_memory(err);
    size_t count = engine->store->hinted(engine->store, &query, jobs, WINDOW);
    for (size_t i = 0; !status && i < count && has_room(&crowd); i++)
        status = match_one(&crowd, &jobs[i], err);
    return status;
}
