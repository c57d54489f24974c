/* analyze: what the open letters (of a run, or all) have in common.  It reads each of them once, in
 * pages; the summaries that are asked for often (`stats`, `groups`, `status`) do not. */
#include "api/mask.h"
#include "api/print.h"
#include "api/routes.h"
#include "api/tally.h"
#include "core/envelope.h"

#define GROUPS_SHOWN 20
#define HOUR_US (INT64_C(3600) * 1000000)

/* struct hours: deaths by hour, the newest first, as letters come in that order. */
struct hours {
    struct hour_count *entries;
    size_t count, cap;
};

struct analysis {
    struct call *call;
    int64_t total, eligible, review;
    struct tally groups, error_types, reasons;
    struct hours hours;
};

/* add_hour counts a death; false when memory is exhausted. */
static bool add_hour(struct analysis *analysis, struct instant t)
{
    struct hours *hours = &analysis->hours;
    /* Round down, also before 1970. */
    int64_t hour = t.us / HOUR_US - (t.us % HOUR_US < 0);
    struct instant begin = {hour * HOUR_US};
    if (hours->count && hours->entries[hours->count - 1].hour.us == begin.us) {
        hours->entries[hours->count - 1].count++;
        return true;
    }
    if (hours->count == hours->cap) {
        size_t cap = hours->cap ? 2 * hours->cap : 64;
        struct hour_count *grown = arena_array(&analysis->call->arena, cap, sizeof(*grown));
        if (!grown)
            return false;
        if (hours->count)
            memcpy(grown, hours->entries, hours->count * sizeof(*grown));
        hours->entries = grown;
        hours->cap = cap;
    }
    hours->entries[hours->count++] = (struct hour_count){begin, 1};
    return true;
}

/* add_group counts a letter of a group and keeps the first samples: the newest. */
static bool add_group(struct analysis *analysis, const struct letter_view *view)
{
    struct call *call = analysis->call;
    struct arena *arena = &call->arena;
    const struct letter *letter = &view->letter;
    struct tally_entry *group = tally_add(&analysis->groups, letter->fingerprint, 1);
    if (!group)
        return false;
    if (group->count == 1) {
        group->label = arena_dup(arena, letter->signature);
        group->last = letter->failed_at;
        if (!group->label.ptr || mask_signature(call_mask(call), view->body, arena, &group->label,
                                                &call->err) != STATUS_OK)
            return false;
    }
    group->first = letter->failed_at;
    if (group->sample_count < TALLY_SAMPLES) {
        struct slice id = arena_dup(arena, letter->dlq_id);
        if (!id.ptr)
            return false;
        group->samples[group->sample_count++] = id;
    }
    return true;
}

static enum status add_letter(void *ctx, const struct letter_view *view)
{
    struct analysis *analysis = ctx;
    const struct letter *letter = &view->letter;
    analysis->total++;
    analysis->eligible += letter->eligible;
    analysis->review += letter->review;
    if (add_group(analysis, view) && tally_add(&analysis->error_types, letter->error_type, 1) &&
        tally_add(&analysis->reasons, letter->reason, 1) && add_hour(analysis, letter->failed_at))
        return STATUS_OK;
    return err_no_memory(&analysis->call->err);
}

static void print_groups(struct jsonw *out, struct tally *groups)
{
    tally_sort_counts(groups);
    jsonw_key(out, "groups");
    jsonw_array(out);
    for (size_t i = 0; i < groups->count && i < GROUPS_SHOWN; i++) {
        const struct tally_entry *group = &groups->entries[i];
        jsonw_object(out);
        jsonw_put_string(out, "fingerprint", group->name);
        jsonw_put_string(out, "signature", group->label);
        jsonw_put_int(out, "count", group->count);
        jsonw_put_instant(out, "first_seen", group->first);
        jsonw_put_instant(out, "last_seen", group->last);
        jsonw_key(out, "sample_ids");
        jsonw_array(out);
        for (size_t s = 0; s < group->sample_count; s++)
            jsonw_string(out, group->samples[s]);
        jsonw_array_end(out);
        jsonw_object_end(out);
    }
    jsonw_array_end(out);
}

static void print_analysis(struct jsonw *out, struct analysis *analysis)
{
    jsonw_object(out);
    jsonw_put_int(out, "total", analysis->total);
    print_groups(out, &analysis->groups);
    jsonw_put_int(out, "group_count", (int64_t)analysis->groups.count);
    tally_print(&analysis->error_types, "error_types", out);
    tally_print(&analysis->reasons, "reasons", out);
    jsonw_key(out, "by_hour");
    jsonw_array(out);
    for (size_t i = analysis->hours.count; i > 0; i--)
        print_hour(out, analysis->hours.entries[i - 1].hour, analysis->hours.entries[i - 1].count);
    jsonw_array_end(out);
    jsonw_put_int(out, "eligible", analysis->eligible);
    jsonw_put_int(out, "needs_review", analysis->review);
    jsonw_object_end(out);
}

enum status analyze_letters(struct call *call)
{
    struct arena *arena = &call->arena;
    struct analysis analysis = {.call = call,
                                .groups = {.arena = arena},
                                .error_types = {.arena = arena},
                                .reasons = {.arena = arena}};
    struct letter_filter filter = {.open = YES, .job_id = query_text(call, "job_id")};
    enum status status =
        letters_walk(call, &filter, call_mask(call) != NULL, add_letter, &analysis);
    if (status == STATUS_OK)
        print_analysis(&call->out, &analysis);
    return status;
}
