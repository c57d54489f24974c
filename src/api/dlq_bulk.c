/* dlq_bulk: retry or discard many letters: by their ids, of a run, of a group, or all.
 *
 * Explicit ids are a person's choice: any letter that is dead.  A run, a group or everything is a
 * net: a retry leaves out what is not eligible or needs review, unless `force` says otherwise.  A
 * discard can be taken back, so it takes all. */
#include "api/dlq_bulk.h"

#include "api/print.h"
#include "api/review.h"
#include "api/routes.h"
#include "core/envelope.h"

#define IDS_MAX 10000                     /* explicit ids of one request */
#define RETRY_ALL_AGE span_seconds(86400) /* letters older than this are left to people */

/* ---- carrying it out ------------------------------------------------------------------------- */

/* list_result prints one result, as long as there is room for it. */
static void list_result(struct bulk *bulk, struct slice dlq_id, const char *status,
                        enum status refusal, struct slice error)
{
    if (!bulk->out.buf || bulk->listed == BULK_RESULTS_MAX)
        return;
    bulk->listed++;
    jsonw_object(&bulk->out);
    jsonw_put_string(&bulk->out, "dlq_id", dlq_id);
    if (status)
        jsonw_put_str(&bulk->out, "status", status);
    else
        print_refusal(&bulk->out, refusal, error);
    jsonw_object_end(&bulk->out);
}

/* fail_rest counts what was not tried as failed. */
static void fail_rest(struct bulk *bulk, const struct id_chunk *chunk, enum status status,
                      const struct err *err)
{
    for (; chunk; chunk = chunk->next) {
        for (size_t i = chunk->begin; i < SELECT_CHUNK; i++) {
            bulk->failed++;
            list_result(bulk, chunk->ids[i], NULL, status, slice_of(err->text));
        }
    }
}

/* await_republished waits for the letters of a chunk that are published again, and makes those that
 * were not taken failures. */
static enum status await_republished(struct call *call, struct review_item *items, size_t count,
                                     struct arena *arena)
{
    struct await_item *awaited = arena_array(arena, count, sizeof(*awaited));
    struct await_command await = {.command = call_command(call, COMMAND_AWAIT),
                                  .items = awaited,
                                  .wait = REVIEW_REPUBLISH_WAIT};
    await.command.arena = arena;
    if (!awaited)
        return err_no_memory(&call->err);
    for (size_t i = 0; i < count; i++)
        if (items[i].republished && items[i].status == STATUS_OK)
            awaited[await.count++] = (struct await_item){.dlq_id = items[i].dlq_id};
    enum status status = await.count ? call_run(call, &await.command) : STATUS_OK;
    for (size_t i = 0, at = 0; status == STATUS_OK && i < count && at < await.count; i++) {
        if (!items[i].republished || items[i].status != STATUS_OK)
            continue;
        if (awaited[at++].state == LETTER_DEAD)
            items[i].status = STATUS_UNAVAILABLE;
    }
    return status;
}

/* run_chunk has the engine review one chunk. */
static enum status run_chunk(struct call *call, struct review_command *command,
                             const struct id_chunk *chunk, struct arena *arena, struct bulk *bulk)
{
    size_t count = SELECT_CHUNK - chunk->begin;
    struct review_item *items = arena_array(arena, count, sizeof(*items));
    if (!items)
        return err_no_memory(&call->err);
    for (size_t i = 0; i < count; i++)
        items[i].dlq_id = chunk->ids[chunk->begin + i];
    command->items = items;
    command->count = count;
    command->command.arena = arena;
    enum status status = call_run(call, &command->command);
    if (status == STATUS_OK)
        status = await_republished(call, items, count, arena);
    if (status != STATUS_OK)
        return status;
    const char *word = review_status_name(command->action);
    for (size_t i = 0; i < count; i++) {
        bool done = items[i].status == STATUS_OK;
        bulk->done += done;
        bulk->failed += !done;
        list_result(bulk, items[i].dlq_id, done ? word : NULL, items[i].status,
                    review_refusal(&items[i]));
    }
    return STATUS_OK;
}

enum status bulk_run(struct call *call, struct review_command *command,
                     const struct selection *selection, struct bulk *bulk)
{
    struct arena arena = {0};
    const struct id_chunk *chunk = selection->chosen.first;
    enum status status = STATUS_OK;
    while (chunk && status == STATUS_OK) {
        arena_reset(&arena);
        status = run_chunk(call, command, chunk, &arena, bulk);
        if (status == STATUS_OK)
            chunk = chunk->next;
    }
    arena_release(&arena);
    if (status != STATUS_OK && bulk->done) {
        fail_rest(bulk, chunk, status, &call->err);
        status = STATUS_OK;
    }
    return status;
}

static void list_skipped(struct bulk *bulk, const struct selection *selection)
{
    for (const struct id_chunk *chunk = selection->skipped.first; chunk; chunk = chunk->next) {
        for (size_t i = chunk->begin; i < SELECT_CHUNK; i++)
            list_result(bulk, chunk->ids[i], "skipped", STATUS_OK, (struct slice){0});
    }
}

static void print_bulk(struct jsonw *out, const struct bulk *bulk,
                       const struct selection *selection, const char *done)
{
    size_t total = selection->chosen.count + selection->skipped.count;
    jsonw_object(out);
    jsonw_put_int(out, done, (int64_t)bulk->done);
    jsonw_put_int(out, "failed", (int64_t)bulk->failed);
    jsonw_put_int(out, "skipped", (int64_t)selection->skipped.count);
    jsonw_put_int(out, "total", (int64_t)total);
    jsonw_key(out, "results");
    jsonw_raw(out, buf_slice(&bulk->results));
    if (total > bulk->listed)
        jsonw_put_int(out, "results_left_out", (int64_t)(total - bulk->listed));
    jsonw_object_end(out);
}

enum status bulk_answer(struct call *call, struct review_command *command,
                        const struct selection *selection)
{
    struct bulk bulk = {0};
    buf_init(&bulk.results, (size_t)64 << 20);
    jsonw_init(&bulk.out, &bulk.results);
    jsonw_array(&bulk.out);
    enum status status = bulk_run(call, command, selection, &bulk);
    list_skipped(&bulk, selection);
    jsonw_array_end(&bulk.out);
    if (status == STATUS_OK)
        status = buf_status(&bulk.results, &call->err);
    if (status == STATUS_OK)
        print_bulk(&call->out, &bulk, selection, review_status_name(command->action));
    buf_release(&bulk.results);
    return status;
}

/* ---- the requests ---------------------------------------------------------------------------- */

/* struct choice: which letters the body names. */
struct choice {
    struct slice *ids;
    size_t id_count;
    bool by_ids;
    struct selection selection;
};

static void read_expression(struct call *call, struct json body, struct choice *choice)
{
    struct json given;
    if (!json_get(body, "filter", &given) || given.type == JSON_NULL)
        return;
    struct slice text = body_text(call, body, "filter", BODY_NOTE_MAX);
    if (call->status != STATUS_OK)
        return;
    if (choice->by_ids)
        call_fail(call, STATUS_INVALID, "filter: goes with job_id, fingerprint or all, not ids");
    choice->selection.expression = selection_expression(call, text);
}

/* read_choice reads exactly one of ids, job_id, fingerprint and all. */
static void read_choice(struct call *call, struct json body, enum review_action action,
                        struct choice *choice)
{
    struct letter_filter *filter = &choice->selection.filter;
    choice->by_ids = body_json(call, body, "ids", JSON_ARRAY).raw.len > 0;
    choice->ids = body_texts(call, body, "ids", IDS_MAX, ENVELOPE_ID_MAX, &choice->id_count);
    filter->job_id = body_text(call, body, "job_id", ENVELOPE_ID_MAX);
    filter->fingerprint = body_text(call, body, "fingerprint", ENVELOPE_ID_MAX);
    filter->has_state = true;
    filter->state = LETTER_DEAD;
    int given = choice->by_ids + (filter->job_id.len > 0) + (filter->fingerprint.len > 0) +
                body_bool(call, body, "all", false);
    if (given != 1)
        call_fail(call, STATUS_INVALID,
                  "say which letters: exactly one of ids, job_id, fingerprint and all");
    bool force = body_bool(call, body, "force", false);
    choice->selection.machine = action == REVIEW_RETRY && !force;
    read_expression(call, body, choice);
}

/* choose_ids takes the ids in the order in which they were given. */
static enum status choose_ids(struct call *call, const struct choice *choice,
                              struct selection *selection)
{
    for (size_t i = choice->id_count; i > 0; i--) {
        if (!id_list_push(&selection->chosen, choice->ids[i - 1], &call->arena))
            return err_no_memory(&call->err);
    }
    return STATUS_OK;
}

enum status bulk_review(struct call *call)
{
    enum review_action action = (enum review_action)call->argument;
    const char *known = action == REVIEW_RETRY
                            ? "ids job_id fingerprint all filter force " REVIEW_RETRY_MEMBERS
                            : "ids job_id fingerprint all filter force " REVIEW_MEMBERS;
    struct json body = body_object(call, known);
    struct review_command command;
    struct choice choice = {0};
    review_read(call, body, action, SLICE("api-retry"), &command);
    read_choice(call, body, action, &choice);
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = choice.by_ids ? choose_ids(call, &choice, &choice.selection)
                                       : selection_freeze(call, &choice.selection);
    if (status != STATUS_OK)
        return status;
    return bulk_answer(call, &command, &choice.selection);
}

/* bulk_retry_all is the swarm's: all recoverable ones of the last day, oldest first. */
enum status bulk_retry_all(struct call *call)
{
    struct json body = body_object(call, REVIEW_MEMBERS);
    struct review_command command;
    struct instant now;
    struct selection selection = {
        .machine = true, .filter = {.has_state = true, .state = LETTER_DEAD, .recoverable = YES}};
    review_read(call, body, REVIEW_RETRY, SLICE("api-retry-all"), &command);
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = call_now(call, &now);
    if (status != STATUS_OK)
        return status;
    selection.filter.after = instant_add(now, (struct span){-RETRY_ALL_AGE.us});
    status = selection_freeze(call, &selection);
    if (status != STATUS_OK)
        return status;
    struct bulk bulk = {0};
    status = bulk_run(call, &command, &selection, &bulk);
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_put_int(&call->out, "retried", (int64_t)bulk.done);
    jsonw_put_int(&call->out, "failed", (int64_t)bulk.failed);
    jsonw_put_int(&call->out, "total", (int64_t)selection.chosen.count);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}
