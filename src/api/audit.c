/* audit: /api/v1/audit: the evidence, in order, and whether it still fits together.
 *
 * The chain is verified from its first event (or from one that somebody verified before: `after`)
 * to the head as it was when the request came, in pages, so that the engine works on meanwhile. */
#include "api/eventpage.h"
#include "api/evidence.h"
#include "api/print.h"
#include "api/routes.h"

#define VERIFY_PAGE 1000 /* events of one read */

/* ---- list ------------------------------------------------------------------------------------ */

struct event_query {
    struct slice job_id, dlq_id; /* empty: any */
    struct event_page page;
};

/* find_purged finds the last event of what is gone: its tombstone has it. */
static enum status find_purged(struct store *store, struct slice id, struct arena *arena,
                               int64_t *last, struct err *err)
{
    struct tombstone tombstone;
    enum status status = store->tombstone_find(store, id, arena, &tombstone, err);
    if (status == STATUS_OK)
        *last = tombstone.event_seq;
    return status;
}

/* find_last finds the last event of the job that is asked for, which may have been purged. */
static enum status find_last(struct store *store, const struct event_query *query,
                             struct arena *arena, int64_t *last, struct err *err)
{
    struct job_row row;
    struct letter letter;
    enum status status;
    if (query->job_id.len) {
        status = store->job_find(store, query->job_id, arena, &row, err);
    } else {
        status = store->letter_get(store, query->dlq_id, arena, &letter, err);
        if (status == STATUS_OK)
            status = store->job_find_seq(store, letter.job.seq, arena, &row, err);
    }
    if (status == STATUS_OK)
        *last = row.job.event_seq;
    if (status != STATUS_NOT_FOUND)
        return status;
    status =
        find_purged(store, query->job_id.len ? query->job_id : query->dlq_id, arena, last, err);
    if (status == STATUS_NOT_FOUND && query->job_id.len)
        return err_set(err, status, "no job \"%.*s\"", SLICE_ARG(query->job_id));
    if (status == STATUS_NOT_FOUND)
        return err_set(err, status, "dlq entry not found");
    return status;
}

static enum status read_events(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine;
    struct event_query *query = ctx;
    struct event_page *page = &query->page;
    int64_t last = 0;
    if (query->job_id.len == 0 && query->dlq_id.len == 0)
        return event_page_read(store, page, arena, err);
    enum status status = find_last(store, query, arena, &last, err);
    if (status == STATUS_OK)
        status = store->event_of_job(store, last, page->after, page->limit, arena, &page->events,
                                     &page->count, err);
    return status == STATUS_OK ? event_page_name(store, page, arena, err) : status;
}

static enum status listed(struct call *call, enum status status)
{
    const struct event_query *query = call->state;
    struct event_page page = query->page;
    if (status != STATUS_OK)
        return status;
    if (page.count == page.limit) { /* the one that was asked for beyond the reader's limit */
        page.count--;
        call->answer->cursor = page.events[page.count - 1].seq;
    }
    status = event_page_hide(&page, call_mask(call), &call->arena, &call->err);
    if (status != STATUS_OK)
        return status;
    jsonw_array(&call->out);
    for (size_t i = 0; i < page.count; i++)
        print_event(&call->out, &page.events[i], page.job_ids[i]);
    jsonw_array_end(&call->out);
    return STATUS_OK;
}

enum status audit_list(struct call *call)
{
    struct event_query *query = call_alloc(call, sizeof(*query));
    if (!query)
        return call->status;
    query->job_id = query_text(call, "job_id");
    query->dlq_id = query_text(call, "dlq_id");
    query->page.after = query_int(call, "after", 0, INT64_MAX, 0);
    query->page.limit = query_limit(call) + 1;
    if (query->job_id.len && query->dlq_id.len)
        call_fail(call, STATUS_INVALID, "job_id and dlq_id: give one of them");
    if (call->status != STATUS_OK)
        return call->status;
    return call_read_then(call, read_events, query, listed);
}

/* ---- head ------------------------------------------------------------------------------------ */

struct chain_head {
    int64_t seq;
    struct hash hash;
};

static enum status read_head(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    (void)engine, (void)arena, (void)err;
    struct chain_head *head = ctx;
    store->event_head(store, &head->seq, &head->hash);
    return STATUS_OK;
}

static enum status got_head(struct call *call, enum status status)
{
    const struct chain_head *head = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_put_int(&call->out, "seq", head->seq);
    print_hash(&call->out, "hash", &head->hash);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

enum status audit_head(struct call *call)
{
    return call_read_then(call, read_head, call_alloc(call, sizeof(struct chain_head)), got_head);
}

/* ---- verify ---------------------------------------------------------------------------------- */

/* struct verification: a walk along the chain.  `at` is the last event that fitted. */
struct verification {
    struct chain_head head; /* where the walk ends */
    struct chain_head at;
    struct event *events; /* the page that was read */
    const char **found;   /* what is wrong with what lies beside each; NULL: nothing */
    size_t count;
    int64_t wrong_seq; /* the first event that does not fit; 0: all do so far */
    const char *wrong; /* and what is wrong with it */
};

static enum status read_chain(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    (void)engine;
    struct verification *walk = ctx;
    int64_t left = walk->head.seq - walk->at.seq;
    enum status status =
        store->event_list(store, walk->at.seq, (size_t)(left < VERIFY_PAGE ? left : VERIFY_PAGE),
                          arena, &walk->events, &walk->count, err);
    if (status != STATUS_OK)
        return status;
    walk->found = arena_array(arena, walk->count, sizeof(*walk->found));
    if (!walk->found)
        return err_no_memory(err);
    struct arena scratch = {0};
    for (size_t i = 0; i < walk->count && status == STATUS_OK; i++) {
        arena_reset(&scratch);
        status = evidence_check(store, &walk->events[i], &scratch, &walk->found[i], err);
    }
    arena_release(&scratch);
    return status;
}

static void wrong(struct verification *walk, int64_t seq, const char *what)
{
    walk->wrong_seq = seq;
    walk->wrong = what;
}

/* check_page follows the chain through a page, up to the first event that does not fit. */
static void check_page(struct verification *walk)
{
    if (walk->count == 0)
        wrong(walk, walk->at.seq + 1, "the event is missing");
    for (size_t i = 0; i < walk->count && !walk->wrong; i++) {
        const struct event *event = &walk->events[i];
        struct hash hash = event_hash(event, walk->at.hash);
        if (event->seq != walk->at.seq + 1)
            wrong(walk, walk->at.seq + 1, "the event is missing");
        else if (memcmp(&hash, &event->hash, sizeof(hash)) != 0)
            wrong(walk, event->seq, "the event does not fit the one before it: it was changed");
        else if (walk->found[i])
            wrong(walk, event->seq, walk->found[i]);
        else
            walk->at = (struct chain_head){event->seq, hash};
    }
}

/* start puts the walk at the event `after`, whose hash is trusted. */
static enum status start(struct call *call, struct verification *walk, int64_t after)
{
    struct arena arena = {0};
    enum status status = call_read(call, read_head, &walk->head, &call->arena);
    if (status != STATUS_OK || after == 0)
        return status;
    if (after > walk->head.seq)
        return err_set(&call->err, STATUS_INVALID, "after: the last event is %lld, not %lld",
                       (long long)walk->head.seq, (long long)after);
    struct chain_head head = walk->head;
    walk->at.seq = after - 1;
    walk->head.seq = after;
    status = call_read(call, read_chain, walk, &arena);
    walk->head = head;
    if (status == STATUS_OK) {
        walk->at.seq = after;
        if (walk->count == 1 && walk->events[0].seq == after)
            walk->at.hash = walk->events[0].hash;
        else
            wrong(walk, after, "the event is missing");
    }
    arena_release(&arena);
    return status;
}

static enum status walk_chain(struct call *call, struct verification *walk)
{
    struct arena arena = {0};
    enum status status = STATUS_OK;
    while (walk->at.seq < walk->head.seq && !walk->wrong && status == STATUS_OK) {
        arena_reset(&arena);
        status = call_read(call, read_chain, walk, &arena);
        if (status == STATUS_OK)
            check_page(walk);
    }
    arena_release(&arena);
    if (status == STATUS_OK && !walk->wrong &&
        memcmp(&walk->at.hash, &walk->head.hash, sizeof(walk->at.hash)) != 0)
        wrong(walk, walk->head.seq, "the head of the chain does not fit its last event");
    return status;
}

enum status audit_verify(struct call *call)
{
    struct verification walk = {0};
    struct jsonw *out = &call->out;
    int64_t after = query_int(call, "after", 0, INT64_MAX, 0);
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = start(call, &walk, after);
    if (status == STATUS_OK)
        status = walk_chain(call, &walk);
    if (status != STATUS_OK)
        return status;
    jsonw_object(out);
    jsonw_put_bool(out, "ok", !walk.wrong);
    if (walk.wrong) {
        jsonw_put_int(out, "seq", walk.wrong_seq);
        jsonw_put_str(out, "error", walk.wrong);
    } else {
        jsonw_put_int(out, "events", walk.at.seq - after);
        jsonw_put_int(out, "seq", walk.at.seq);
        print_hash(out, "hash", &walk.at.hash);
    }
    jsonw_object_end(out);
    return STATUS_OK;
}
