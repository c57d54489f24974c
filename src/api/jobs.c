/* jobs: /api/v1/jobs: push, look, list, cancel. */
#include "api/body.h"
#include "api/print.h"
#include "api/routes.h"
#include "core/envelope.h"

#define PUSH_MAX 10000 /* envelopes of one request */

/* ---- push ------------------------------------------------------------------------------------ */

/* struct push_entry: one envelope of the request: an item of the command, or why it is none. */
struct push_entry {
    struct push_item *item; /* NULL: refused before the engine saw it */
    enum status status;
    struct slice error;
    int64_t retry_after_s; /* of STATUS_LIMIT */
};

/* struct push: the entries in the request's order, and those of them that the engine is given. */
struct push {
    struct push_command command;
    bool many; /* of an array or NDJSON: each has an answer of its own */
    struct push_entry *entries;
    size_t count;
    struct push_item *items;
    size_t item_count;
};

/* add_entry reads one envelope. */
static enum status add_entry(struct call *call, struct push *push, struct slice text)
{
    struct push_entry *entry = &push->entries[push->count++];
    struct push_item *item = &push->items[push->item_count];
    struct err err = {0};
    entry->status = envelope_parse(text, ENVELOPE_BODY_MAX, &call->arena, &item->envelope, &err);
    if (entry->status == STATUS_OK) {
        entry->item = item;
        push->item_count++;
        return STATUS_OK;
    }
    if (entry->status == STATUS_NO_MEMORY)
        return err_no_memory(&call->err);
    entry->error = arena_dup(&call->arena, slice_of(err.text));
    return entry->error.ptr ? STATUS_OK : err_no_memory(&call->err);
}

static enum status read_entries(struct call *call, struct entries *entries, struct push *push)
{
    struct slice text;
    if (entries->count > PUSH_MAX)
        return err_set(&call->err, STATUS_TOO_LARGE,
                       "%zu jobs in one request: at most %d may be pushed at once", entries->count,
                       PUSH_MAX);
    push->entries = arena_array(&call->arena, entries->count + 1, sizeof(*push->entries));
    push->items = arena_array(&call->arena, entries->count + 1, sizeof(*push->items));
    if (!push->entries || !push->items)
        return err_no_memory(&call->err);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && entries_next(entries, &text))
        status = add_entry(call, push, text);
    return status;
}

/* whole_seconds rounds up: a client that waits this long has waited long enough. */
static int64_t whole_seconds(struct span span)
{
    return span.us <= 0 ? 1 : (span.us - 1) / 1000000 + 1;
}

/* settle makes the engine's refusal the entry's. */
static void settle(struct push_entry *entry)
{
    if (!entry->item || entry->item->status == STATUS_OK)
        return;
    entry->status = entry->item->status;
    entry->error = slice_of(entry->item->err.text);
    if (entry->status == STATUS_LIMIT)
        entry->retry_after_s = whole_seconds(entry->item->retry_after);
}

static void print_pushed(struct jsonw *out, const struct push_item *item)
{
    jsonw_object(out);
    jsonw_put_string(out, "job_id", item->job_id);
    jsonw_put_str(out, "state", job_state_name(item->state));
    jsonw_put_bool(out, "created", item->created);
    jsonw_object_end(out);
}

static void print_push_refusal(struct jsonw *out, const struct push_entry *entry)
{
    jsonw_object(out);
    print_refusal(out, entry->status, entry->error);
    if (entry->item)
        jsonw_put_text(out, "job_id", entry->item->job_id);
    if (entry->retry_after_s)
        jsonw_put_int(out, "retry_after", entry->retry_after_s);
    jsonw_object_end(out);
}

static void answer_many(struct call *call, const struct push *push)
{
    jsonw_object(&call->out);
    jsonw_key(&call->out, "results");
    jsonw_array(&call->out);
    for (size_t i = 0; i < push->count; i++) {
        if (push->entries[i].status == STATUS_OK)
            print_pushed(&call->out, push->entries[i].item);
        else
            print_push_refusal(&call->out, &push->entries[i]);
    }
    jsonw_array_end(&call->out);
    jsonw_object_end(&call->out);
}

static enum status answer_one(struct call *call, const struct push_entry *entry)
{
    if (entry->status == STATUS_OK) {
        call->answer->status = entry->item->created ? 201 : 200;
        print_pushed(&call->out, entry->item);
        return STATUS_OK;
    }
    if (entry->item)
        call->error_job_id = entry->item->job_id;
    call->answer->retry_after_s = entry->retry_after_s;
    return err_set(&call->err, entry->status, "%.*s", SLICE_ARG(entry->error));
}

static enum status pushed(struct call *call, enum status status)
{
    struct push *push = call->state;
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < push->count; i++)
        settle(&push->entries[i]);
    if (push->many) {
        answer_many(call, push);
        return STATUS_OK;
    }
    BUG_ON(push->count != 1);
    return answer_one(call, &push->entries[0]);
}

enum status jobs_push(struct call *call)
{
    struct entries entries;
    struct push *push = call_alloc(call, sizeof(*push));
    if (!push)
        return call->status;
    enum status status = entries_open(&entries, call);
    if (status == STATUS_OK)
        status = read_entries(call, &entries, push);
    if (status != STATUS_OK)
        return status;
    push->many = entries.many;
    push->command = (struct push_command){.command = call_command(call, COMMAND_PUSH),
                                          .items = push->items,
                                          .count = push->item_count};
    call->state = push;
    return push->item_count ? call_then(call, &push->command.command, pushed, push)
                            : pushed(call, STATUS_OK);
}

/* ---- look and list --------------------------------------------------------------------------- */

static enum status no_job(struct call *call)
{
    return err_set(&call->err, STATUS_NOT_FOUND, "no job \"%.*s\"", SLICE_ARG(call->id));
}

struct job_query {
    struct slice job_id;
    struct job_view view;
};

static enum status read_job(struct engine *engine, struct store *store, void *ctx,
                            struct arena *arena, struct err *err)
{
    struct job_query *query = ctx;
    struct job_row row;
    enum status status = store->job_find(store, query->job_id, arena, &row, err);
    if (status != STATUS_OK)
        return status;
    return job_view_read(engine, store, &row, arena, &query->view, err);
}

static enum status got(struct call *call, enum status status)
{
    const struct job_query *query = call->state;
    if (status == STATUS_NOT_FOUND)
        return no_job(call);
    if (status == STATUS_OK)
        status = print_job(&call->out, &query->view, call_mask(call), &call->arena, &call->err);
    return status;
}

enum status jobs_get(struct call *call)
{
    struct job_query *query = call_alloc(call, sizeof(*query));
    if (query)
        query->job_id = call->id;
    return call_read_then(call, read_job, query, got);
}

struct job_page {
    int state; /* < 0: any */
    struct slice queue;
    int64_t cursor;
    size_t limit;
    struct job_row *rows;
    size_t count;
};

static enum status read_jobs(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    (void)engine;
    struct job_page *page = ctx;
    return store->job_list(store, page->state, page->queue, page->cursor, page->limit + 1, arena,
                           &page->rows, &page->count, err);
}

static enum status listed(struct call *call, enum status status)
{
    struct job_page *page = call->state;
    if (status != STATUS_OK)
        return status;
    if (page->count > page->limit) {
        page->count = page->limit;
        call->answer->cursor = page->rows[page->count - 1].job.seq;
    }
    jsonw_array(&call->out);
    for (size_t i = 0; i < page->count; i++)
        print_job_row(&call->out, &page->rows[i]);
    jsonw_array_end(&call->out);
    return STATUS_OK;
}

/* read_job_state reads the state; -1: any. */
static int read_job_state(struct call *call)
{
    struct slice name = query_text(call, "state");
    enum job_state state;
    if (name.len == 0)
        return -1;
    if (job_state_from_name(name, &state))
        return (int)state;
    call_fail(call, STATUS_INVALID,
              "state: must be pending, scheduled, running, done, cancelled or dead, not \"%.*s\"",
              SLICE_ARG(name));
    return -1;
}

enum status jobs_list(struct call *call)
{
    struct job_page *page = call_alloc(call, sizeof(*page));
    if (!page)
        return call->status;
    *page = (struct job_page){.state = read_job_state(call),
                              .queue = query_text(call, "queue"),
                              .cursor = query_cursor(call),
                              .limit = query_limit(call)};
    if (call->status != STATUS_OK)
        return call->status;
    return call_read_then(call, read_jobs, page, listed);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static enum status cancelled(struct call *call, enum status status)
{
    const struct cancel_command *command = call->state;
    if (status == STATUS_NOT_FOUND)
        return no_job(call);
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_put_string(&call->out, "job_id", call->id);
    jsonw_put_str(&call->out, "state", job_state_name(command->state));
    jsonw_put_bool(&call->out, "cancel_requested", command->state == JOB_RUNNING);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

enum status jobs_cancel(struct call *call)
{
    struct json body = body_object(call, "actor");
    struct slice actor = body_text(call, body, "actor", ENVELOPE_ID_MAX);
    struct cancel_command *command = call_alloc(call, sizeof(*command));
    if (call->status != STATUS_OK)
        return call->status;
    command->command = call_command_by(call, COMMAND_CANCEL, actor);
    command->job_id = call->id;
    return call_then(call, &command->command, cancelled, command);
}
