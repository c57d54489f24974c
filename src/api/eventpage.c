/* eventpage: see eventpage.h. */
#include "api/eventpage.h"

#include <inttypes.h>

#include "api/print.h"
#include "base/json.h"
#include "base/jsonw.h"

#define EVENT_TEXT_MAX (64u << 20) /* the facts of an event, written twice over, are far less */

/* ---- reading --------------------------------------------------------------------------------- */

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

enum status event_page_name(struct store *store, struct event_page *page, struct arena *arena,
                            struct err *err)
{
    page->job_ids = arena_array(arena, page->count + 1, sizeof(*page->job_ids));
    if (!page->job_ids)
        return err_no_memory(err);
    for (size_t i = 0; i < page->count; i++) {
        int64_t seq = page->events[i].job_seq;
        if (seq == 0)
            continue;
        /* Events of one job often stand together. */
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

enum status event_page_read(struct store *store, struct event_page *page, struct arena *arena,
                            struct err *err)
{
    enum status status =
        store->event_list(store, page->after, page->limit, arena, &page->events, &page->count, err);
    return status == STATUS_OK ? event_page_name(store, page, arena, err) : status;
}

/* ---- masking --------------------------------------------------------------------------------- */

/* copied are the facts that the engine copies from an envelope's inputs, each with the smallest
 * envelope that has it. */
static const struct copied {
    const char *name;
    const char *envelope;
} copied[] = {
    {"outcome", "{\"inputs\":{\"outcome\":\"\"}}"},
    {"dispatch_reference", "{\"inputs\":{\"dispatch_reference\":\"\"}}"},
};

/* is_copy_of_masked says whether the fact is a copy of something that the rules mask. */
static bool is_copy_of_masked(const struct redaction *redaction, struct json name)
{
    for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
        if (json_string_is(name, copied[i].name))
            return redact_touches(redaction, slice_of(copied[i].envelope));
    return false;
}

/* mask_copies prints the facts with the copies masked. */
static void mask_copies(const struct redaction *redaction, struct slice why, struct buf *out)
{
    struct json facts, name, value;
    struct json_iter iter;
    struct jsonw print;
    if (json_parse(why, &facts, NULL) != STATUS_OK || facts.type != JSON_OBJECT) {
        buf_add_slice(out, why);
        return;
    }
    jsonw_init(&print, out);
    jsonw_object(&print);
    json_iter_init(&iter, facts);
    while (json_next(&iter, &name, &value)) {
        if (print.comma)
            buf_add_char(out, ',');
        buf_add_slice(out, name.raw);
        buf_add_char(out, ':');
        print.comma = false;
        if (is_copy_of_masked(redaction, name))
            jsonw_string(&print, SLICE("[redacted]"));
        else
            jsonw_raw(&print, value.raw);
    }
    jsonw_object_end(&print);
}

void event_page_mask(const struct redaction *redaction, struct slice why, struct buf *out)
{
    const struct slice head = SLICE("{\"event\":");
    struct buf whole, masked;
    if (!redaction) {
        buf_add_slice(out, why);
        return;
    }
    buf_init(&whole, EVENT_TEXT_MAX);
    buf_init(&masked, EVENT_TEXT_MAX);
    buf_add_slice(&whole, head);
    buf_add_slice(&whole, why);
    buf_add_char(&whole, '}');
    redact(redaction, buf_slice(&whole), &masked);
    struct slice text = buf_slice(&masked);
    if (whole.status != STATUS_OK || masked.status != STATUS_OK)
        buf_add_str(out, "\"[redacted]\""); /* what cannot be looked into is not shown */
    else if (slice_starts(text, head))
        mask_copies(redaction, (struct slice){text.ptr + head.len, text.len - head.len - 1}, out);
    else
        buf_add_slice(out, text);
    buf_release(&whole);
    buf_release(&masked);
}

enum status event_page_hide(struct event_page *page, const struct redaction *redaction,
                            struct arena *arena, struct err *err)
{
    struct buf masked;
    enum status status = STATUS_OK;
    if (!redaction)
        return STATUS_OK;
    buf_init(&masked, EVENT_TEXT_MAX);
    for (size_t i = 0; i < page->count && status == STATUS_OK; i++) {
        struct event *event = &page->events[i];
        buf_clear(&masked);
        event_page_mask(redaction, event->why, &masked);
        status = buf_status(&masked, err);
        event->why = arena_dup(arena, buf_slice(&masked));
        if (status == STATUS_OK && !event->why.ptr)
            status = err_no_memory(err);
    }
    buf_release(&masked);
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* one_line turns line breaks since `from` into spaces: JSON has them only where a space may be. */
static void one_line(struct buf *out, size_t from)
{
    for (size_t i = from; i < out->len; i++)
        if (out->ptr[i] == '\n' || out->ptr[i] == '\r')
            out->ptr[i] = ' ';
}

void event_page_stream(const struct event *event, struct slice job_id,
                       const struct redaction *redaction, struct buf *out)
{
    struct event shown = *event;
    struct buf masked;
    struct jsonw print;
    buf_init(&masked, EVENT_TEXT_MAX);
    if (redaction) {
        event_page_mask(redaction, event->why, &masked);
        shown.why = buf_slice(&masked);
    }
    buf_addf(out, "id: %" PRId64 "\nevent: ", event->seq);
    size_t from = out->len;
    buf_add_slice(out, event->what);
    one_line(out, from);
    buf_add_str(out, "\ndata: ");
    from = out->len;
    jsonw_init(&print, out);
    print_event(&print, &shown, job_id);
    one_line(out, from);
    buf_add_str(out, "\n\n");
    if (masked.status != STATUS_OK && out->status == STATUS_OK)
        out->status = masked.status;
    buf_release(&masked);
}
