/* purge: removing letters for good, by age or by run.
 *
 * Tombstones and events stay.  What still needs somebody's review is kept, unless `force` says
 * otherwise; what is on its way back is always kept. */
#include "api/body.h"
#include "api/routes.h"
#include "api/select.h"
#include "core/envelope.h"

#define DAYS_MAX 36500.0

/* struct purge: a purge on its way. */
struct purge {
    struct call *call;
    struct slice actor; /* empty: the call's */
    bool force;
    struct letter_filter filter;
    struct id_list chosen;
    int64_t purged, kept;
};

static enum status choose(void *ctx, const struct letter_view *view)
{
    struct purge *purge = ctx;
    const struct letter *letter = &view->letter;
    bool needs_review = letter->state == LETTER_DEAD && (letter->review || letter->escalated);
    if (letter->state == LETTER_RECOVERING || (needs_review && !purge->force)) {
        purge->kept++;
        return STATUS_OK;
    }
    if (!id_list_push(&purge->chosen, letter->dlq_id, &purge->call->arena))
        return err_no_memory(&purge->call->err);
    return STATUS_OK;
}

static enum status run_chunk(struct purge *purge, struct id_chunk *chunk, struct arena *arena)
{
    struct purge_command command = {.command =
                                        call_command_by(purge->call, COMMAND_PURGE, purge->actor),
                                    .dlq_ids = &chunk->ids[chunk->begin],
                                    .count = SELECT_CHUNK - chunk->begin,
                                    /* choose() has left out what only force may take. */
                                    .force = true};
    command.command.arena = arena;
    enum status status = call_run(purge->call, &command.command);
    if (status == STATUS_OK) {
        purge->purged += (int64_t)command.purged;
        purge->kept += (int64_t)command.kept;
    }
    return status;
}

static enum status run(struct call *call, struct purge *purge)
{
    struct arena arena = {0};
    enum status status = letters_walk(call, &purge->filter, false, choose, purge);
    for (struct id_chunk *chunk = purge->chosen.first; chunk && status == STATUS_OK;
         chunk = chunk->next) {
        arena_reset(&arena);
        status = run_chunk(purge, chunk, &arena);
    }
    arena_release(&arena);
    if (status != STATUS_OK) {
        if (purge->purged)
            err_prefix(&call->err, "after %lld letters were purged", (long long)purge->purged);
        return status;
    }
    jsonw_object(&call->out);
    jsonw_put_int(&call->out, "purged", purge->purged);
    jsonw_put_int(&call->out, "kept", purge->kept);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* purge_old removes letters whose failed_at is older than so many days. */
enum status purge_old(struct call *call)
{
    struct json body = body_object(call, "older_than_days job_id force actor"), days_given;
    struct purge purge = {.call = call};
    struct instant now;
    purge.force = body_bool(call, body, "force", false);
    purge.actor = body_text(call, body, "actor", ENVELOPE_ID_MAX);
    purge.filter.job_id = body_text(call, body, "job_id", ENVELOPE_ID_MAX);
    double days = body_number(call, body, "older_than_days", 0, DAYS_MAX, 0);
    if (!json_get(body, "older_than_days", &days_given) || days_given.type == JSON_NULL)
        call_fail(call, STATUS_INVALID, "older_than_days: is required");
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = call_now(call, &now);
    if (status != STATUS_OK)
        return status;
    struct span age = span_from_seconds(days * 24 * 3600);
    purge.filter.before = instant_add(now, (struct span){-age.us});
    return run(call, &purge);
}

/* purge_run removes the letters of one run. */
enum status purge_run(struct call *call)
{
    struct json body = body_object(call, "job_id force actor");
    struct purge purge = {.call = call};
    purge.force = body_bool(call, body, "force", false);
    purge.actor = body_text(call, body, "actor", ENVELOPE_ID_MAX);
    purge.filter.job_id = body_text(call, body, "job_id", ENVELOPE_ID_MAX);
    if (purge.filter.job_id.len == 0)
        call_fail(call, STATUS_INVALID, "job_id: is required");
    if (call->status != STATUS_OK)
        return call->status;
    return run(call, &purge);
}
