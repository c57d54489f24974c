/* audit: /api/v1/audit: the evidence, in order, and whether it still fits together.
 *
 * The chain is verified from its first event (or from one that somebody verified before: `after`)
 * to the head as it was when the request came, in pages, so that the engine works on meanwhile. */
#include "api/evidence.h"
#include "api/print.h"
#include "api/routes.h"

#define VERIFY_PAGE 1000 /* events of one read */

/* ---- list ------------------------------------------------------------------------------------ */

struct event_page {
    struct slice job_id, dlq_id; /* empty: any */
    int64_t after;
    size_t limit;
    struct event *events;
    struct slice *job_ids; /* of each event; empty: it is about no job */
    size_t count;
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
static enum status find_last(struct store *store, const struct event_page *page,
                             struct arena *arena, int64_t *last, struct err *err)
{
    struct job_row row;
    struct letter letter;
    enum status status;
    if (page->job_id.len) {
        status = store->job_find(store, page->job_id, arena, &row, err);
    } else {
        status = store->letter_get(store, page->dlq_id, arena, &letter, err);
        if (status == STATUS_OK)
            status = store->job_find_seq(store, letter.job.seq, arena, &row, err);
    }
    if (status == STATUS_OK)
        *last = row.job.event_seq;
    if (status != STATUS_NOT_FOUND)
        return status;
    status = find_purged(store, page->job_id.len ? page->job_id : page->dlq_id, arena, last, err);
    if (status == STATUS_NOT_FOUND && page->job_id.len)
        return err_set(err, status, "no job \"%.*s\"", SLICE_ARG(page->job_id));
    if (status == STATUS_NOT_FOUND)
        return err_set(err, status, "dlq entry not found");
    return status;
}

/* name_job finds the id of a job that may be gone: then its tombstone has it. */
static enum status name_job(struct store *store, int64_t seq, struct arena *arena,
                            struct slice *out, struct err *err)
{
    struct job_row row;
    struct tombstone tombstone;
    enum status status = store->job_find_seq(store, seq, arena, &row, err);
    if (status == STATUS_OK)
        *out = row.job_id;
    if (status != STATUS_NOT_FOUND)
        return status;
    status = store->tombstone_get(store, seq, arena, &tombstone, err);
    if (status == STATUS_OK)
        *out = tombstone.job_id;
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* name_jobs fills the ids; events of one job often stand together. */
static enum status name_jobs(struct store *store, struct event_page *page, struct arena *arena,
                             struct err *err)
{
    page->job_ids = arena_array(arena, page->count + 1, sizeof(*page->job_ids));
    if (!page->job_ids)
        return err_no_memory(err);
    for (size_t i = 0; i < page->count; i++) {
        int64_t seq = page->events[i].job_seq;
        if (seq == 0)
            continue;
        if (i > 0 && page->events[i - 1].job_seq == seq) {
            page->job_ids[i] = page->job_ids[i - 1];
            continue;
        }
        enum status status = name_job(store, seq, arena, &page->job_ids[i], err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status read_events(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine;
    struct event_page *page = ctx;
    int64_t last = 0;
    enum status status;
    if (page->job_id.len || page->dlq_id.len) {
        status = find_last(store, page, arena, &last, err);
        if (status == STATUS_OK)
            status = store->event_of_job(store, last, page->after, page->limit + 1, arena,
                                         &page->events, &page->count, err);
    } else {
        status = store->event_list(store, page->after, page->limit + 1, arena, &page->events,
                                   &page->count, err);
    }
    return status == STATUS_OK ? name_jobs(store, page, arena, err) : status;
}

enum status audit_list(struct call *call)
{
    struct event_page page = {.job_id = query_text(call, "job_id"),
                              .dlq_id = query_text(call, "dlq_id"),
                              .after = query_int(call, "after", 0, INT64_MAX, 0),
                              .limit = query_limit(call)};
    if (page.job_id.len && page.dlq_id.len)
        call_fail(call, STATUS_INVALID, "job_id and dlq_id: give one of them");
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = call_read(call, read_events, &page, &call->arena);
    if (status != STATUS_OK)
        return status;
    if (page.count > page.limit) {
        page.count = page.limit;
        call->answer->cursor = page.events[page.count - 1].seq;
    }
    jsonw_array(&call->out);
    for (size_t i = 0; i < page.count; i++)
        print_event(&call->out, &page.events[i], page.job_ids[i]);
    jsonw_array_end(&call->out);
    return STATUS_OK;
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

enum status audit_head(struct call *call)
{
    struct chain_head head;
    enum status status = call_read(call, read_head, &head, &call->arena);
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_put_int(&call->out, "seq", head.seq);
    print_hash(&call->out, "hash", &head.hash);
    jsonw_object_end(&call->out);
    return STATUS_OK;
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
