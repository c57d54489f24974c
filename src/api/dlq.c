/* dlq: /api/v1/dlq: list, look, count, and act on one letter.  Compatible with the swarm's clients:
 * a bare array, its fourteen fields first, its sentences for errors. */
#include "api/counts.h"
#include "api/mask.h"
#include "api/print.h"
#include "api/review.h"
#include "api/routes.h"
#include "api/select.h"
#include "core/envelope.h"

/* A page with a filter reads letters until it is full.  The engine is held for one read at a time,
 * and a request ends after so many, with what was found and a cursor. */
#define SCAN_LETTERS 250
#define SCAN_BYTES ((size_t)4 << 20) /* of payloads that one read looks into */
#define SCAN_READS 20

/* ---- list ------------------------------------------------------------------------------------ */

static void read_sort(struct call *call, struct letter_filter *filter)
{
    struct slice sort = query_text(call, "sort");
    if (sort.len == 0 || slice_is(sort, "newest") || slice_is(sort, "-failed_at"))
        return;
    filter->oldest_first = slice_is(sort, "oldest") || slice_is(sort, "failed_at");
    if (!filter->oldest_first)
        call_fail(call, STATUS_INVALID, "sort: must be newest or oldest, not \"%.*s\"",
                  SLICE_ARG(sort));
}

/* read_state reads a state, or `open`: dead or recovering. */
static void read_state(struct call *call, struct letter_filter *filter)
{
    struct slice state = query_text(call, "state");
    if (slice_is(state, "open"))
        filter->open = YES;
    else if (state.len)
        filter->has_state = letter_state_from_name(state, &filter->state);
    if (state.len && filter->open == UNSAID && !filter->has_state)
        call_fail(call, STATUS_INVALID,
                  "state: must be open, dead, recovering, recovered, discarded or rolled_back, "
                  "not \"%.*s\"",
                  SLICE_ARG(state));
}

/* read_filter reads the filters of INTERFACES 5.1. */
static struct letter_filter read_filter(struct call *call)
{
    struct letter_filter filter = {
        .recovered = query_tristate(call, "recovered"),
        .eligible = query_tristate(call, "eligible"),
        .recoverable = query_tristate(call, "recoverable"),
        .reason = query_text(call, "reason"),
        .source = query_text(call, "source"),
        .queue = query_text(call, "queue"),
        .signature = query_text(call, "signature"),
        .fingerprint = query_text(call, "fingerprint"),
        .error_type = query_text(call, "error_type"),
        .job_id = query_text(call, "job_id"),
        .trace_id = query_text(call, "trace_id"),
        .agent = query_text(call, "agent"),
        .actor = query_text(call, "actor"),
        .q = query_text(call, "q"),
        .after = query_instant(call, "after"),
        .before = query_instant(call, "before"),
        .attempts_min = (uint32_t)query_int(call, "attempts_min", 0, UINT32_MAX, 0),
        .attempts_max = (uint32_t)query_int(call, "attempts_max", 0, UINT32_MAX, 0),
        .cursor = query_cursor(call),
        .limit = query_limit(call),
    };
    read_state(call, &filter);
    /* The swarm's clients list what is left to do with recovered=false: that is what stats counts
     * as unrecovered, not what somebody gave up. */
    if (filter.recovered == NO && !filter.has_state) {
        filter.recovered = UNSAID;
        filter.open = YES;
    }
    read_sort(call, &filter);
    if (filter.q.len)
        mask_refuse(call, "q");
    return filter;
}

struct letter_page {
    struct letter_filter filter; /* of one read */
    size_t limit;                /* letters of the page */
    struct letter_view *views;
    size_t count;
    int64_t cursor; /* the position of the last letter that was looked at */
    bool more;      /* there are others after it, or may be */
    /* With a filter: */
    const struct filter *expression;
    unsigned reads;
    bool done; /* it is full, or there are no others */
};

static enum status read_letters(struct engine *engine, struct store *store, void *ctx,
                                struct arena *arena, struct err *err)
{
    (void)engine;
    struct letter_page *page = ctx;
    struct letter *letters;
    size_t found, begin = arena->used;
    /* One more than the page is asked for, to see whether it ends. */
    page->filter.limit = page->limit + 1;
    enum status status = store->letter_list(store, &page->filter, arena, &letters, &found, err);
    if (status != STATUS_OK)
        return status;
    while (page->count < found && page->count < page->limit &&
           arena->used - begin < PAGE_BYTES_MAX) {
        status =
            letter_view_read(store, &letters[page->count], arena, &page->views[page->count], err);
        if (status != STATUS_OK)
            return status;
        page->cursor = letters[page->count].position;
        page->count++;
    }
    page->more = page->count < found;
    return STATUS_OK;
}

/* look asks the expression about one letter, and takes it into the page when it is true.  One that
 * is true when the page is full is left for the next page. */
static enum status look(struct letter_page *page, struct store *store, const struct letter *letter,
                        struct slice body, struct arena *arena, struct err *err)
{
    enum status status = STATUS_OK;
    bool matches = selection_matches(page->expression, letter, body);
    if (matches && page->count == page->limit) {
        page->more = page->done = true;
        return STATUS_OK;
    }
    if (matches)
        status = letter_view_read(store, letter, arena, &page->views[page->count++], err);
    page->cursor = letter->position;
    if (arena->used > PAGE_BYTES_MAX)
        page->more = page->done = true;
    return status;
}

/* read_matching looks at the next letters.  Payloads that do not match are not kept. */
static enum status read_matching(struct engine *engine, struct store *store, void *ctx,
                                 struct arena *arena, struct err *err)
{
    (void)engine;
    struct letter_page *page = ctx;
    struct letter *letters;
    struct arena scratch = {0};
    size_t found, at = 0, bytes = 0;
    page->filter.limit = SCAN_LETTERS;
    page->filter.cursor = page->cursor;
    enum status status = store->letter_list(store, &page->filter, arena, &letters, &found, err);
    while (status == STATUS_OK && at < found && bytes < SCAN_BYTES && !page->done) {
        struct slice body = {0};
        arena_reset(&scratch);
        if (filter_reads_item(page->expression))
            status = letter_body_read(store, &letters[at], &scratch, &body, err);
        bytes += body.len;
        if (status == STATUS_OK)
            status = look(page, store, &letters[at++], body, arena, err);
    }
    arena_release(&scratch);
    if (status == STATUS_OK && at == found && found < SCAN_LETTERS)
        page->done = true;
    return status;
}

static enum status listed(struct call *call, enum status status)
{
    const struct letter_page *page = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_array(&call->out);
    for (size_t i = 0; i < page->count && status == STATUS_OK; i++)
        status =
            print_letter(&call->out, &page->views[i], call_mask(call), &call->arena, &call->err);
    jsonw_array_end(&call->out);
    if (page->more)
        call->answer->cursor = page->cursor;
    return status;
}

/* looked goes on until the page is full, or too much was read for one request. */
static enum status looked(struct call *call, enum status status)
{
    struct letter_page *page = call->state;
    if (status != STATUS_OK || page->done)
        return listed(call, status);
    if (++page->reads < SCAN_READS)
        return call_read_then(call, read_matching, page, looked);
    page->more = true;
    return listed(call, status);
}

enum status dlq_list(struct call *call)
{
    struct letter_page *page = call_alloc(call, sizeof(*page));
    if (!page)
        return call->status;
    struct slice filter = query_text(call, "filter");
    page->filter = read_filter(call);
    page->limit = page->filter.limit;
    page->cursor = page->filter.cursor;
    if (filter.len)
        page->expression = selection_expression(call, filter);
    page->views = call_alloc(call, page->limit * sizeof(*page->views));
    if (call->status != STATUS_OK)
        return call->status;
    return page->expression ? call_read_then(call, read_matching, page, looked)
                            : call_read_then(call, read_letters, page, listed);
}

/* ---- look ------------------------------------------------------------------------------------ */

struct letter_query {
    struct slice dlq_id;
    struct letter_view view;
};

static enum status read_letter(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine;
    struct letter_query *query = ctx;
    struct letter letter;
    enum status status = store->letter_get(store, query->dlq_id, arena, &letter, err);
    if (status != STATUS_OK)
        return status;
    return letter_view_read(store, &letter, arena, &query->view, err);
}

static enum status got(struct call *call, enum status status)
{
    const struct letter_query *query = call->state;
    if (status == STATUS_NOT_FOUND)
        return err_set(&call->err, status, "dlq entry not found");
    if (status != STATUS_OK)
        return status;
    return print_letter(&call->out, &query->view, call_mask(call), &call->arena, &call->err);
}

enum status dlq_get(struct call *call)
{
    struct letter_query *query = call_alloc(call, sizeof(*query));
    if (query)
        query->dlq_id = call->id;
    return call_read_then(call, read_letter, query, got);
}

struct like_query {
    struct slice prefix;
    size_t max;
    struct slice *ids;
    size_t count;
};

static enum status read_like(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    (void)engine;
    struct like_query *query = ctx;
    return store->letter_like(store, query->prefix, query->max, arena, &query->ids, &query->count,
                              err);
}

static enum status liked(struct call *call, enum status status)
{
    const struct like_query *query = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_key(&call->out, "dlq_ids");
    jsonw_array(&call->out);
    for (size_t i = 0; i < query->count; i++)
        jsonw_string(&call->out, query->ids[i]);
    jsonw_array_end(&call->out);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* dlq_like lists dlq_ids that begin with a prefix: for "did you mean". */
enum status dlq_like(struct call *call)
{
    struct like_query *query = call_alloc(call, sizeof(*query));
    if (!query)
        return call->status;
    query->prefix = query_text(call, "prefix");
    query->max = query_limit(call);
    if (query->prefix.len == 0)
        call_fail(call, STATUS_INVALID, "prefix: is required");
    if (call->status != STATUS_OK)
        return call->status;
    return call_read_then(call, read_like, query, liked);
}

/* ---- count ----------------------------------------------------------------------------------- */

static enum status read_counts(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine;
    return counts_read(store, arena, ctx, err);
}

static enum status counted(struct call *call, enum status status)
{
    struct counts *counts = call->state;
    struct jsonw *out = &call->out;
    if (status != STATUS_OK)
        return status;
    jsonw_object(out);
    jsonw_put_int(out, "total", counts->total);
    jsonw_put_int(out, "unrecovered", counts->unrecovered);
    jsonw_put_int(out, "recoverable", counts->recoverable);
    tally_print(&counts->by_reason, "by_reason", out);
    tally_print(&counts->by_source, "by_source", out);
    jsonw_put_int(out, "discarded", counts->by_state[LETTER_DISCARDED]);
    jsonw_key(out, "by_state");
    jsonw_object(out);
    for (int state = 0; state < LETTER_STATE_COUNT; state++)
        jsonw_put_int(out, letter_state_name((enum letter_state)state), counts->by_state[state]);
    jsonw_object_end(out);
    tally_print(&counts->by_queue, "by_queue", out);
    jsonw_put_instant(out, "oldest", counts->oldest);
    jsonw_put_instant(out, "newest", counts->newest);
    jsonw_object_end(out);
    return STATUS_OK;
}

enum status dlq_stats(struct call *call)
{
    return call_read_then(call, read_counts, call_alloc(call, sizeof(struct counts)), counted);
}

/* ---- act on one letter ----------------------------------------------------------------------- */

/* struct letter_review: one letter, and what is done to it. */
struct letter_review {
    struct review_command command;
    struct review_item item;
    struct await_command await; /* for a letter that is published again */
    struct await_item awaited;
};

static void print_reviewed(struct call *call, const struct letter_review *review,
                           const char *status)
{
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "status", status);
    jsonw_put_string(&call->out, "dlq_id", call->id);
    jsonw_put_text(&call->out, "compensation", review->item.compensation);
    jsonw_object_end(&call->out);
}

/* republished answers when it is known whether the letter has arrived where it came from. */
static enum status republished(struct call *call, enum status status)
{
    const struct letter_review *review = call->state;
    if (status != STATUS_OK)
        return status;
    if (review->awaited.state == LETTER_RECOVERING) {
        call->answer->status = 202;
        print_reviewed(call, review, "recovering");
        return STATUS_OK;
    }
    if (review->awaited.state != LETTER_RECOVERED) {
        call->http_status = 502;
        return err_set(&call->err, STATUS_UNAVAILABLE, "failed to republish");
    }
    print_reviewed(call, review, review_status_name(REVIEW_RETRY));
    return STATUS_OK;
}

static enum status reviewed(struct call *call, enum status status)
{
    struct letter_review *review = call->state;
    const struct review_item *item = &review->item;
    if (status != STATUS_OK)
        return status;
    if (item->status == STATUS_UNAVAILABLE)
        call->http_status = 502;
    if (item->status != STATUS_OK) {
        struct slice why = review_refusal(item);
        return err_set(&call->err, item->status, "%.*s", SLICE_ARG(why));
    }
    if (item->republished) {
        review->awaited.dlq_id = item->dlq_id;
        review->await = (struct await_command){.command = call_command(call, COMMAND_AWAIT),
                                               .items = &review->awaited,
                                               .count = 1,
                                               .wait = REVIEW_REPUBLISH_WAIT};
        return call_then(call, &review->await.command, republished, review);
    }
    print_reviewed(call, review, review_status_name(review->command.action));
    return STATUS_OK;
}

/* dlq_review carries out the action of the route.  A letter from elsewhere goes back there: when
 * that cannot be reached the answer is 502, and the letter stays dead. */
enum status dlq_review(struct call *call)
{
    enum review_action action = (enum review_action)call->argument;
    struct json body = body_object(call, review_members(action));
    struct letter_review *review = call_alloc(call, sizeof(*review));
    if (!review)
        return call->status;
    review_read(call, body, action, SLICE("api-retry"), &review->command);
    if (call->status != STATUS_OK)
        return call->status;
    review->item.dlq_id = call->id;
    review->command.items = &review->item;
    review->command.count = 1;
    return call_then(call, &review->command.command, reviewed, review);
}
