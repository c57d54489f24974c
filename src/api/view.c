/* view: gathering what is printed. */
#include "api/view.h"

#include "core/envelope.h"

#define WALK_PAGE 500 /* letters of one read */

/* read_policy finds out how often the job may run.  That a policy is gone, or that the payload is
 * no envelope, is no reason not to show the job. */
static void read_policy(struct engine *engine, struct arena *arena, struct job_view *view)
{
    struct envelope envelope;
    struct policy policy;
    enum status status;
    if (envelope_parse(view->body, SIZE_MAX, arena, &envelope, NULL) != STATUS_OK)
        return;
    if (envelope.policy_inline.raw.len) {
        view->policy = SLICE("inline");
        status = policy_parse(envelope.policy_inline, arena, &policy, NULL);
    } else {
        view->policy = envelope.policy_name.len ? envelope.policy_name : SLICE(POLICY_DEFAULT);
        status = engine_policy(engine, view->policy, &policy, NULL);
    }
    if (status == STATUS_OK)
        view->max_attempts = policy.max_attempts;
    if (view->row.job.attempts_max)
        view->max_attempts = view->row.job.attempts_max;
}

/* read_end reads what only an ended job has, and its document. */
static enum status read_end(struct store *store, struct arena *arena, struct job_view *view,
                            struct err *err)
{
    const struct job *job = &view->row.job;
    if (job->state == JOB_DONE || job->state == JOB_CANCELLED) {
        struct finished finished;
        enum status status = store->finished_get(store, job->seq, arena, &finished, err);
        if (status != STATUS_OK)
            return status;
        view->result = finished.result;
    }
    enum status status = store->document_get(store, job->seq, arena, &view->document, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status job_view_read(struct engine *engine, struct store *store, const struct job_row *row,
                          struct arena *arena, struct job_view *out, struct err *err)
{
    struct job_view view = {.row = *row};
    enum status status = envelope_read(store, row->job.envelope_seq, arena, &view.body, err);
    if (status == STATUS_OK)
        status = envelopes_read_previous(store, &row->job, arena, &view.previous,
                                         &view.previous_count, err);
    if (status == STATUS_OK)
        status = store->attempt_list(store, row->job.seq, arena, &view.attempts,
                                     &view.attempt_count, err);
    if (status == STATUS_OK)
        status = read_end(store, arena, &view, err);
    if (status != STATUS_OK)
        return status;
    read_policy(engine, arena, &view);
    *out = view;
    return STATUS_OK;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* struct walk: one page of a walk. */
struct walk {
    struct letter_filter filter;
    bool bodies;
    struct letter_view *views;
    size_t count;
    bool more;
};

static enum status read_page(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    (void)engine;
    struct walk *walk = ctx;
    struct letter *letters;
    size_t found, begin = arena->used;
    walk->filter.limit = WALK_PAGE;
    walk->count = 0;
    enum status status = store->letter_list(store, &walk->filter, arena, &letters, &found, err);
    if (status != STATUS_OK)
        return status;
    walk->more = found == WALK_PAGE;
    walk->views = arena_array(arena, found + 1, sizeof(*walk->views));
    if (!walk->views)
        return err_no_memory(err);
    for (size_t i = 0; i < found && status == STATUS_OK; i++) {
        struct letter_view *view = &walk->views[i];
        *view = (struct letter_view){.letter = letters[i]};
        if (walk->bodies)
            status = envelope_read(store, letters[i].envelope_seq, arena, &view->body, err);
        walk->count = i + 1;
        if (arena->used - begin > PAGE_BYTES_MAX && i + 1 < found) {
            walk->more = true;
            break;
        }
    }
    return status;
}

enum status letters_walk(struct call *call, const struct letter_filter *filter, bool bodies,
                         enum status (*visit)(void *ctx, const struct letter_view *view), void *ctx)
{
    struct walk walk = {.filter = *filter, .bodies = bodies, .more = true};
    struct arena arena = {0};
    enum status status = STATUS_OK;
    walk.filter.oldest_first = false;
    walk.filter.cursor = 0;
    while (walk.more && status == STATUS_OK) {
        arena_reset(&arena);
        status = call_read(call, read_page, &walk, &arena);
        for (size_t i = 0; i < walk.count && status == STATUS_OK; i++)
            status = visit(ctx, &walk.views[i]);
        if (walk.count == 0)
            break;
        walk.filter.cursor = walk.views[walk.count - 1].letter.position;
    }
    arena_release(&arena);
    return status;
}
