/* import: /api/v1/dlq/import: letters from elsewhere, one, an array or NDJSON of them.
 *
 * Each has an answer of its own, in its place.  One whose dlq_id is known is not taken again, so an
 * import that was cut off can be repeated whole. */
#include "api/body.h"
#include "api/print.h"
#include "api/routes.h"
#include "core/delivery.h"
#include "core/envelope.h"
#include "core/tree.h"
#include "engine/letterform.h"

#define IMPORT_CHUNK 500                    /* letters of one engine command */
#define RESULTS_BYTES_MAX ((size_t)1 << 29) /* of the answers to all of them */

/* struct intake: an import on its way. */
struct intake {
    struct call *call;
    struct entries entries;
    struct letterform_origin origin; /* of all of them */
    struct import_item *items;       /* those of the chunk that can be read */
    struct slice *errors;            /* for each entry of the chunk: why it cannot; empty: it can */
    enum status *statuses;           /* and with which status */
    size_t count;                    /* entries of the chunk */
    size_t item_count;
    int64_t imported, known, failed;
    struct buf results; /* the answers, printed as they come */
    struct jsonw out;
};

/* ---- receipts that are known ------------------------------------------------------------------
 *
 * An entry of receipts.json tells the second of a death and no id.  When a letter of the same
 * receipt died in that second it is that letter: so the file that mirrors the quarantine can be
 * imported into it. */

#define SAME_SECOND_MAX 10000 /* letters of one second that are looked at */

struct receipt_search {
    const struct import_item *item;
    struct slice dlq_id; /* of the letter; empty: none was found */
};

/* receipt_of is the receipt in an envelope. */
static bool receipt_of(struct slice body, struct slice job_id, struct arena *arena,
                       struct json *out)
{
    struct json job;
    struct delivery delivery;
    struct err err;
    if (json_parse(body, &job, NULL) ||
        delivery_read(job, job_id, arena, &delivery, &err) != STATUS_OK)
        return false;
    *out = delivery.body;
    return true;
}

static enum status find_receipt(struct engine *engine, struct store *store, void *ctx,
                                struct arena *arena, struct err *err)
{
    struct receipt_search *search = ctx;
    const struct letter *wanted = &search->item->letter;
    struct instant second = {wanted->failed_at.us - wanted->failed_at.us % 1000000};
    struct letter_filter filter = {.source = SLICE(DELIVERY_SOURCE_RECEIPTS),
                                   .after = second,
                                   .before = instant_add(second, span_seconds(1)),
                                   .limit = SAME_SECOND_MAX};
    struct letter *letters;
    size_t count;
    struct json receipt, other;
    (void)engine;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    if (status || !receipt_of(search->item->body, wanted->job_id, arena, &receipt))
        return status;
    for (size_t i = 0; !status && i < count && !search->dlq_id.len; i++) {
        struct stored_envelope stored;
        status = store->envelope_get(store, letters[i].envelope_seq, arena, &stored, err);
        if (!status && receipt_of(stored.body, stored.job_id, arena, &other) &&
            tree_same(receipt, other))
            search->dlq_id = letters[i].dlq_id;
    }
    return status;
}

/* know_receipt gives an entry the id of the letter that it is. */
static enum status know_receipt(struct intake *intake, struct import_item *item)
{
    struct receipt_search search = {.item = item};
    if (!item->from_receipt)
        return STATUS_OK;
    enum status status = call_read(intake->call, find_receipt, &search, &intake->call->arena);
    if (search.dlq_id.len)
        item->letter.dlq_id = search.dlq_id;
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* read_entry reads one letter of a chunk. */
static enum status read_entry(struct intake *intake, struct slice text)
{
    struct call *call = intake->call;
    size_t n = intake->count++;
    struct import_item *item = &intake->items[intake->item_count];
    enum status status = letterform_read(text, &intake->origin, &call->arena, item, &call->err);
    intake->statuses[n] = status;
    if (status == STATUS_OK) {
        intake->item_count++;
        return know_receipt(intake, item);
    }
    if (status == STATUS_NO_MEMORY)
        return status;
    intake->errors[n] = arena_dup(&call->arena, slice_of(call->err.text));
    if (!intake->errors[n].ptr)
        return err_no_memory(&call->err);
    call_forgive(call);
    return STATUS_OK;
}

static enum status read_chunk(struct intake *intake)
{
    struct slice text;
    enum status status = STATUS_OK;
    intake->count = intake->item_count = 0;
    while (intake->count < IMPORT_CHUNK && status == STATUS_OK &&
           entries_next(&intake->entries, &text))
        status = read_entry(intake, text);
    return status;
}

static void print_failed(struct intake *intake, struct slice dlq_id, enum status status,
                         struct slice error)
{
    intake->failed++;
    jsonw_object(&intake->out);
    jsonw_put_text(&intake->out, "dlq_id", dlq_id);
    print_refusal(&intake->out, status, error);
    jsonw_object_end(&intake->out);
}

static void print_item(struct intake *intake, const struct import_item *item)
{
    if (item->status != STATUS_OK) {
        print_failed(intake, item->letter.dlq_id, item->status, slice_of(item->err.text));
        return;
    }
    intake->imported += item->created;
    intake->known += !item->created;
    jsonw_object(&intake->out);
    jsonw_put_string(&intake->out, "dlq_id", item->dlq_id);
    jsonw_put_bool(&intake->out, "created", item->created);
    jsonw_object_end(&intake->out);
}

/* print_chunk prints an answer for each entry; those that were read are in the items, in order. */
static void print_chunk(struct intake *intake)
{
    const struct import_item *item = intake->items;
    for (size_t i = 0; i < intake->count; i++) {
        if (intake->statuses[i] == STATUS_OK)
            print_item(intake, item++);
        else
            print_failed(intake, (struct slice){0}, intake->statuses[i], intake->errors[i]);
    }
}

static enum status run_chunk(struct intake *intake)
{
    if (intake->item_count == 0)
        return STATUS_OK;
    struct import_command command = {.command = call_command(intake->call, COMMAND_IMPORT),
                                     .items = intake->items,
                                     .count = intake->item_count};
    return call_run(intake->call, &command.command);
}

static enum status run(struct intake *intake)
{
    struct arena *arena = &intake->call->arena;
    intake->items = arena_array(arena, IMPORT_CHUNK, sizeof(*intake->items));
    intake->errors = arena_array(arena, IMPORT_CHUNK, sizeof(*intake->errors));
    intake->statuses = arena_array(arena, IMPORT_CHUNK, sizeof(*intake->statuses));
    if (!intake->items || !intake->errors || !intake->statuses)
        return err_no_memory(&intake->call->err);
    for (;;) {
        enum status status = read_chunk(intake);
        if (status != STATUS_OK || intake->count == 0)
            return status;
        status = run_chunk(intake);
        if (status != STATUS_OK) {
            if (intake->imported)
                err_prefix(&intake->call->err, "after %lld letters were imported",
                           (long long)intake->imported);
            return status;
        }
        print_chunk(intake);
    }
}

/* answer prints the numbers, then what became of each. */
static enum status answer(struct intake *intake)
{
    struct jsonw *out = &intake->call->out;
    enum status status = buf_status(&intake->results, &intake->call->err);
    if (status != STATUS_OK)
        return status;
    jsonw_object(out);
    jsonw_put_int(out, "imported", intake->imported);
    jsonw_put_int(out, "known", intake->known);
    jsonw_put_int(out, "failed", intake->failed);
    jsonw_put_raw(out, "results", buf_slice(&intake->results));
    jsonw_object_end(out);
    return STATUS_OK;
}

enum status import_letters(struct call *call)
{
    struct intake intake = {.call = call, .origin.run_id = query_text(call, "job_id")};
    enum status status = STATUS_OK;
    if (intake.origin.run_id.len)
        status = envelope_name_check("job_id", intake.origin.run_id, ENVELOPE_ID_MAX, &call->err);
    if (status == STATUS_OK)
        status = entries_open(&intake.entries, call);
    if (status == STATUS_OK)
        status = call_now(call, &intake.origin.at);
    if (status != STATUS_OK)
        return status;
    buf_init(&intake.results, RESULTS_BYTES_MAX);
    jsonw_init(&intake.out, &intake.results);
    jsonw_array(&intake.out);
    status = run(&intake);
    jsonw_array_end(&intake.out);
    if (status == STATUS_OK)
        status = answer(&intake);
    buf_release(&intake.results);
    return status;
}
