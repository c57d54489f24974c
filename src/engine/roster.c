/* roster: the workers that are known, for those who ask about them or register.
 *
 * What is answered is copied: it is printed on another thread, when the worker may have left. */
#include "engine/internal.h"

static void info_fill(const struct engine *engine, const struct worker *worker,
                      struct worker_info *out)
{
    out->worker_id = worker->claim.worker_id;
    out->queues = worker->claim.queues;
    out->capabilities = worker->claim.capabilities;
    out->scopes = worker->claim.scopes;
    out->permissions = worker->claim.permissions;
    out->ttl = worker->ttl;
    out->last_seen = worker->seen_at;
    out->live = worker_is_live(worker, engine->now);
    out->running = worker->running;
    out->waiting = worker->asking;
}

static bool list_copy(struct match_list *list, struct arena *arena)
{
    struct slice *names = arena_array(arena, list->count, sizeof(*names));
    bool copied = names != NULL;
    for (size_t i = 0; copied && i < list->count; i++) {
        names[i] = arena_dup(arena, list->names[i]);
        copied = names[i].ptr != NULL;
    }
    list->names = names;
    return copied;
}

static bool info_copy(struct worker_info *info, struct arena *arena)
{
    info->worker_id = arena_dup(arena, info->worker_id);
    return info->worker_id.ptr && list_copy(&info->queues, arena) &&
           list_copy(&info->capabilities, arena) && list_copy(&info->scopes, arena) &&
           list_copy(&info->permissions, arena);
}

enum status engine_worker_set(struct engine *engine, struct worker_info *info, struct err *err)
{
    struct worker_claim claim = {
        .worker_id = info->worker_id,
        .queues = info->queues,
        .capabilities = info->capabilities,
        .scopes = info->scopes,
        .permissions = info->permissions,
    };
    struct span ttl = info->ttl.us > 0 ? info->ttl : span_seconds(WORKER_TTL_SECONDS);
    struct worker *worker;
    enum status status = envelope_name_check("worker_id", info->worker_id, ENVELOPE_ID_MAX, err);
    if (!status)
        status = workers_register(engine->workers, &claim, ttl, engine->now, &worker, err);
    if (status)
        return status;
    struct worker_info known;
    info_fill(engine, worker, &known);
    info->ttl = known.ttl;
    info->last_seen = known.last_seen;
    info->live = known.live;
    info->running = known.running;
    info->waiting = known.waiting;
    return STATUS_OK;
}

enum status engine_worker_list(struct engine *engine, enum tristate live, size_t limit,
                               struct arena *arena, struct worker_info **out, size_t *count,
                               struct err *err)
{
    size_t room = workers_count(engine->workers);
    struct worker_info *found = arena_array(arena, room < limit ? room : limit, sizeof(*found));
    size_t at = 0;
    if (!found)
        return err_no_memory(err);
    const struct worker *worker = workers_newest(engine->workers);
    for (; worker && at < limit; worker = worker->older) {
        bool is_live = worker_is_live(worker, engine->now);
        if (live != UNSAID && is_live != (live == YES))
            continue;
        info_fill(engine, worker, &found[at]);
        if (!info_copy(&found[at++], arena))
            return err_no_memory(err);
    }
    *out = found;
    *count = at;
    return STATUS_OK;
}
