/* view: gathering what is printed. */
#include "api/view.h"

#include "core/envelope.h"

#define WALK_PAGE 500 /* letters of one read */

static enum status read_body(struct store *store, int64_t envelope_seq, struct arena *arena,
                             struct slice *out, struct err *err)
{
    struct stored_envelope stored;
    enum status status = store->envelope_get(store, envelope_seq, arena, &stored, err);
    if (status == STATUS_OK)
        *out = stored.body;
    return status == STATUS_NOT_FOUND
               ? err_set(err, STATUS_CORRUPT, "the store is damaged: envelope %lld is missing",
                         (long long)envelope_seq)
               : status;
}

enum status letter_body_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct slice *out, struct err *err)
{
    return read_body(store, letter->envelope_seq, arena, out, err);
}

/* read_previous reads the envelopes that a job had before the one in force.  Only a job that was
 * brought back can have any. */
static enum status read_previous(struct store *store, const struct job *job, struct arena *arena,
                                 struct slice **out, size_t *count, struct err *err)
{
    int64_t *seqs;
    size_t total;
    *count = 0;
    if (job->redrive_count == 0)
        return STATUS_OK;
    enum status status = store->envelope_list(store, job->seq, arena, &seqs, &total, err);
    if (status != STATUS_OK)
        return status;
    *out = arena_array(arena, total + 1, sizeof(**out));
    if (!*out)
        return err_no_memory(err);
    for (size_t i = 0; i + 1 < total && status == STATUS_OK; i++)
        status = read_body(store, seqs[i], arena, &(*out)[(*count)++], err);
    return status;
}

enum status letter_view_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct letter_view *out, struct err *err)
{
    struct letter_view view = {.letter = *letter};
    enum status status = read_body(store, letter->envelope_seq, arena, &view.body, err);
    if (status == STATUS_OK)
        status =
            read_previous(store, &letter->job, arena, &view.previous, &view.previous_count, err);
    if (status == STATUS_OK)
        status = store->attempt_list(store, letter->job.seq, arena, &view.attempts,
                                     &view.attempt_count, err);
    if (status != STATUS_OK)
        return status;
    view.original = view.previous_count ? view.previous[0] : view.body;
    *out = view;
    return status;
}

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
    enum status status = read_body(store, row->job.envelope_seq, arena, &view.body, err);
    if (status == STATUS_OK)
        status = read_previous(store, &row->job, arena, &view.previous, &view.previous_count, err);
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

struct json letter_item(const struct letter *letter, struct json payload)
{
    struct json inputs, item;
    if (letter->foreign || json_get(payload, "item", &item))
        return letter->foreign ? payload : item;
    json_get(payload, "inputs", &inputs);
    if (letter->item_id.len && json_get(inputs, "item", &item))
        return item;
    return inputs;
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
            status = read_body(store, letters[i].envelope_seq, arena, &view->body, err);
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
