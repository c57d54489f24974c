/* report: the entry of POST /results, printed once, and the answer to it. */
#include "crew/report.h"

#include "base/jsonw.h"
#include "base/mem.h"

/* print_report writes the entry for POST /results. */
static void print_report(struct report *report, struct slice lease_id, const struct effort_end *end)
{
    bool complete = end->outcome == EFFORT_SUCCEEDED || end->outcome == EFFORT_HANDLED;
    struct jsonw w;
    buf_init(&report->text, (size_t)8 << 20);
    jsonw_init(&w, &report->text);
    jsonw_object(&w);
    jsonw_put_string(&w, "lease_id", lease_id);
    jsonw_put_str(&w, "status", complete ? "complete" : "failed");
    if (end->outcome == EFFORT_HANDLED) {
        jsonw_key(&w, "result");
        jsonw_object(&w);
        jsonw_put_bool(&w, "handled", true);
        jsonw_put_raw(&w, "failure", end->report);
        jsonw_object_end(&w);
    } else {
        jsonw_put_raw(&w, complete ? "result" : "failure", end->report);
    }
    if (end->receipt.len)
        jsonw_put_string(&w, "receipt", end->receipt);
    jsonw_object_end(&w);
}

struct report *report_new(const struct grant *grant, const struct effort_end *end)
{
    struct report *report = mem_zalloc(sizeof(*report));
    if (!report)
        return NULL;
    struct arena *arena = &report->arena;
    report->outcome = end->outcome;
    report->event = (struct watch_event){
        .job_id = arena_dup(arena, grant->job_id),
        .item_id = arena_dup(arena, grant->item_id),
        .label = arena_dup(arena, grant->label),
        .attempt = grant->attempt,
        .duration = end->duration,
        .error_type = arena_dup(arena, end->error_type),
        .message = arena_dup(arena, end->message),
        .artifact = arena_dup(arena, end->artifact),
    };
    print_report(report, grant->lease_id, end);
    return report;
}

void report_free(struct report *report)
{
    buf_release(&report->text);
    arena_release(&report->arena);
    mem_free(report);
}

enum watch_what report_outcome(const struct report *report, struct json answer,
                               enum watch_what dead_is)
{
    struct json state;
    if (!json_get(answer, "state", &state))
        return WATCH_LOST;
    if (report->outcome == EFFORT_HANDLED)
        return WATCH_HANDLED;
    if (report->outcome == EFFORT_INTERRUPTED && !json_string_is(state, "dead"))
        return WATCH_INTERRUPTED;
    return json_string_is(state, "done")        ? WATCH_SUCCEEDED
           : json_string_is(state, "dead")      ? dead_is
           : json_string_is(state, "cancelled") ? WATCH_CANCELLED
                                                : WATCH_RETRYING;
}

bool report_is_refused(struct json answer)
{
    struct json code;
    return json_get(answer, "code", &code) && !json_string_is(code, "lease_lost");
}

void report_say_less(struct report *report, struct json answer)
{
    struct json entry, lease, error;
    struct jsonw w;
    struct buf less;
    struct slice why = SLICE("the report of this attempt was refused");
    json_parse(buf_slice(&report->text), &entry, NULL);
    json_get(entry, "lease_id", &lease);
    if (json_get(answer, "error", &error))
        why = json_text(error, &report->arena);
    buf_init(&less, 8192);
    jsonw_init(&w, &less);
    jsonw_object(&w);
    jsonw_put_raw(&w, "lease_id", lease.raw);
    bool complete = report->outcome == EFFORT_SUCCEEDED || report->outcome == EFFORT_HANDLED;
    jsonw_put_str(&w, "status", complete ? "complete" : "failed");
    if (!complete) {
        jsonw_key(&w, "failure");
        jsonw_object(&w);
        jsonw_put_string(&w, "message", report->event.message);
        jsonw_put_string(&w, "reason_detail", why);
        jsonw_object_end(&w);
    }
    jsonw_object_end(&w);
    buf_release(&report->text);
    report->text = less;
    report->plain = true;
}
