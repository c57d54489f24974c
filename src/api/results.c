/* results: /api/v1/results: workers say how their runs ended.
 *
 * Each result has an answer of its own; one for a lease that is lost changes nothing and says so
 * ("code":"lease_lost").  Of several results one that cannot be read is refused in its place; a
 * single one is a 400. */
#include "api/body.h"
#include "api/print.h"
#include "api/receipts.h"
#include "api/routes.h"
#include "core/envelope.h"

#define RESULTS_MAX 10000
#define RESULT_BYTES_MAX ENVELOPE_BODY_MAX /* of what a worker hands back */

/* struct report: one result of the request. */
struct report {
    struct slice lease_id;
    struct slice receipt;     /* of a delivery: the status of its receipt; empty: none */
    struct result_item *item; /* NULL: refused before the engine saw it */
    enum status status;
    struct slice error;
};

struct reports {
    struct resolve_command command;
    struct report *reports;
    size_t count;
    struct result_item *items;
    size_t item_count;
};

/* print_result writes what is kept of a success: `result` itself or, when the worker also gives a
 * summary or pointers, one object that has all of them. */
static void print_result(struct jsonw *out, struct json result, struct json summary,
                         struct json pointers, struct arena *arena)
{
    struct json_iter iter;
    struct json key, value;
    jsonw_object(out);
    if (result.raw.len && result.type != JSON_OBJECT)
        jsonw_put_raw(out, "value", result.raw);
    json_iter_init(&iter, result.type == JSON_OBJECT ? result : (struct json){0});
    while (json_next(&iter, &key, &value)) {
        if ((summary.raw.len && json_string_is(key, "summary")) ||
            (pointers.raw.len && json_string_is(key, "artifact_pointers")))
            continue;
        struct slice name = json_text(key, arena);
        if (!name.ptr)
            out->buf->status = STATUS_NO_MEMORY;
        jsonw_key_slice(out, name);
        jsonw_raw(out, value.raw);
    }
    if (summary.raw.len)
        jsonw_put_raw(out, "summary", summary.raw);
    if (pointers.raw.len)
        jsonw_put_raw(out, "artifact_pointers", pointers.raw);
    jsonw_object_end(out);
}

/* read_success fills what is kept of a success. */
static void read_success(struct call *call, struct json object, struct result_item *item)
{
    struct json result, summary;
    struct json pointers = body_json(call, object, "artifact_pointers", JSON_ARRAY);
    json_get(object, "result", &result);
    json_get(object, "summary", &summary);
    if (summary.raw.len && summary.type != JSON_STRING && summary.type != JSON_NULL)
        call_fail(call, STATUS_INVALID, "summary: must be a string");
    if (summary.type == JSON_NULL)
        summary = (struct json){0};
    if (result.type == JSON_NULL)
        result = (struct json){0};
    item->result = result.raw;
    if (summary.raw.len || pointers.raw.len) {
        struct buf text;
        struct jsonw out;
        struct err err;
        buf_init(&text, RESULT_BYTES_MAX + 1);
        jsonw_init(&out, &text);
        print_result(&out, result, summary, pointers, &call->arena);
        enum status status = buf_status(&text, &err);
        item->result = arena_dup(&call->arena, buf_slice(&text));
        if (status == STATUS_NO_MEMORY || !item->result.ptr)
            call_fail(call, STATUS_NO_MEMORY, "out of memory");
        else if (status != STATUS_OK)
            call_fail(call, status, "result: has more than %d bytes", RESULT_BYTES_MAX);
        buf_release(&text);
    }
    if (item->result.len > RESULT_BYTES_MAX)
        call_fail(call, STATUS_TOO_LARGE, "result: has more than %d bytes", RESULT_BYTES_MAX);
}

static void read_failure(struct call *call, struct json object, struct result_item *item)
{
    struct err err;
    struct json failure = body_json(call, object, "failure", JSON_OBJECT);
    item->failed = true;
    if (failure.raw.len == 0) {
        call_fail(call, STATUS_INVALID, "failure: is required when status is \"failed\"");
        return;
    }
    enum status status = failure_parse(failure, &call->arena, &item->failure, &err);
    if (status != STATUS_OK)
        call_fail(call, status, "failure.%s", err.text);
}

/* read_report reads one result into `item`; what is wrong is the call's error. */
static void read_report(struct call *call, struct slice text, struct report *report,
                        struct result_item *item)
{
    struct json object;
    struct err err;
    enum status status = json_parse(text, &object, &err);
    if (status != STATUS_OK) {
        call_fail(call, status, "not JSON: %s", err.text);
        return;
    }
    if (object.type != JSON_OBJECT) {
        call_fail(call, STATUS_INVALID, "a result must be an object");
        return;
    }
    report->lease_id = item->lease_id = body_text(call, object, "lease_id", ENVELOPE_ID_MAX);
    if (item->lease_id.len == 0)
        call_fail(call, STATUS_INVALID, "lease_id: is required");
    struct slice outcome = body_text(call, object, "status", ENVELOPE_ID_MAX);
    report->receipt = body_text(call, object, "receipt", ENVELOPE_ID_MAX);
    if (slice_is(outcome, "complete"))
        read_success(call, object, item);
    else if (slice_is(outcome, "failed"))
        read_failure(call, object, item);
    else
        call_fail(call, STATUS_INVALID, "status: must be \"complete\" or \"failed\"");
}

/* add_report reads one result; an unreadable one is refused in its place. */
static enum status add_report(struct call *call, struct reports *all, struct slice text)
{
    struct report *report = &all->reports[all->count++];
    struct result_item *item = &all->items[all->item_count];
    *item = (struct result_item){0};
    read_report(call, text, report, item);
    report->status = call->status;
    if (call->status == STATUS_OK) {
        report->item = item;
        all->item_count++;
        return STATUS_OK;
    }
    if (call->status == STATUS_NO_MEMORY)
        return call->status;
    report->error = arena_dup(&call->arena, slice_of(call->err.text));
    if (!report->error.ptr)
        return err_no_memory(&call->err);
    call_forgive(call);
    return STATUS_OK;
}

static enum status read_reports(struct call *call, struct entries *entries, struct reports *all)
{
    struct slice text;
    if (entries->count > RESULTS_MAX)
        return err_set(&call->err, STATUS_TOO_LARGE,
                       "%zu results in one request: at most %d may be given", entries->count,
                       RESULTS_MAX);
    all->reports = arena_array(&call->arena, entries->count + 1, sizeof(*all->reports));
    all->items = arena_array(&call->arena, entries->count + 1, sizeof(*all->items));
    if (!all->reports || !all->items)
        return err_no_memory(&call->err);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && entries_next(entries, &text))
        status = add_report(call, all, text);
    if (status == STATUS_OK && !entries->many && all->reports[0].status != STATUS_OK)
        return err_set(&call->err, all->reports[0].status, "%.*s",
                       SLICE_ARG(all->reports[0].error));
    return status;
}

static void print_report(struct jsonw *out, const struct report *report)
{
    const struct result_item *item = report->item;
    enum status status = item ? item->status : report->status;
    jsonw_object(out);
    jsonw_put_string(out, "lease_id", report->lease_id);
    if (!item || status != STATUS_OK) {
        print_refusal(out, status, item ? slice_of(item->err.text) : report->error);
    } else {
        jsonw_put_string(out, "job_id", item->job_id);
        jsonw_put_str(out, "state", job_state_name(item->state));
        jsonw_put_instant(out, "next_retry_at", item->next_retry_at);
        jsonw_key(out, "dlq_id");
        if (item->dlq_id.len)
            jsonw_string(out, item->dlq_id);
        else
            jsonw_null(out);
    }
    jsonw_object_end(out);
}

static enum status reported(struct call *call, enum status status)
{
    const struct reports *all = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_key(&call->out, "results");
    jsonw_array(&call->out);
    for (size_t i = 0; i < all->count; i++) {
        const struct report *report = &all->reports[i];
        print_report(&call->out, report);
        if (report->item)
            receipts_count(call->api->receipts, report->receipt, report->item);
    }
    jsonw_array_end(&call->out);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

enum status results_report(struct call *call)
{
    struct entries entries;
    struct reports *all = call_alloc(call, sizeof(*all));
    if (!all)
        return call->status;
    enum status status = entries_open(&entries, call);
    if (status == STATUS_OK)
        status = read_reports(call, &entries, all);
    if (status != STATUS_OK)
        return status;
    all->command = (struct resolve_command){.command = call_command(call, COMMAND_RESOLVE),
                                            .items = all->items,
                                            .count = all->item_count};
    call->state = all;
    return all->item_count ? call_then(call, &all->command.command, reported, all)
                           : reported(call, STATUS_OK);
}
