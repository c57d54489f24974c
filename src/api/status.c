/* status: /api/v1/status: the station on one screen.  All of it comes from kept counters and the
 * index in memory: it costs the same whatever lies in the quarantine. */
#include "api/counts.h"
#include "api/mask.h"
#include "api/print.h"
#include "api/routes.h"

#define RECENT_GROUPS 50 /* the groups last seen: of these the largest are shown */
#define GROUPS_SHOWN 5
#define TREND_HOURS 24
#define HOUR_US (INT64_C(3600) * 1000000)

struct summary {
    const struct redaction *mask; /* of the groups' signatures */
    struct instant now;
    struct queue_info *queues;
    size_t queue_count;
    struct counts counts;
    struct letter_group *groups;
    size_t group_count;
    struct hour_count *hours;
    size_t hour_count;
    struct instant first_hour; /* of the trend */
    size_t live;
    int64_t seq;
};

static enum status read_summary(struct engine *engine, struct store *store, void *ctx,
                                struct arena *arena, struct err *err)
{
    struct summary *summary = ctx;
    struct hash hash;
    summary->now = engine_now(engine);
    summary->first_hour.us = (summary->now.us / HOUR_US - (TREND_HOURS - 1)) * HOUR_US;
    summary->live = store->live_count(store);
    store->event_head(store, &summary->seq, &hash);
    enum status status =
        store->queue_list(store, arena, &summary->queues, &summary->queue_count, err);
    if (status == STATUS_OK)
        status = counts_read(store, arena, &summary->counts, err);
    if (status == STATUS_OK)
        status = store->group_list(store, summary->now, 0, RECENT_GROUPS, arena, &summary->groups,
                                   &summary->group_count, err);
    if (status == STATUS_OK)
        status =
            mask_groups(summary->mask, store, summary->groups, summary->group_count, arena, err);
    if (status == STATUS_OK)
        status = store->letter_hours(store, summary->first_hour, arena, &summary->hours,
                                     &summary->hour_count, err);
    return status;
}

static void print_states(struct jsonw *out, const struct summary *summary)
{
    int64_t totals[JOB_STATE_COUNT] = {0};
    struct instant oldest = INSTANT_NONE;
    for (size_t i = 0; i < summary->queue_count; i++) {
        const struct queue_info *queue = &summary->queues[i];
        for (int state = 0; state < JOB_STATE_COUNT; state++)
            totals[state] += queue->counts[state];
        if (instant_is_set(queue->oldest_pending) &&
            (!instant_is_set(oldest) || instant_before(queue->oldest_pending, oldest)))
            oldest = queue->oldest_pending;
    }
    jsonw_key(out, "states");
    jsonw_object(out);
    for (int state = 0; state < JOB_STATE_COUNT; state++)
        jsonw_put_int(out, job_state_name((enum job_state)state), totals[state]);
    jsonw_object_end(out);
    jsonw_put_instant(out, "oldest_pending", oldest);
    jsonw_key(out, "queues");
    jsonw_array(out);
    for (size_t i = 0; i < summary->queue_count; i++)
        print_queue(out, &summary->queues[i]);
    jsonw_array_end(out);
}

static int by_count(const void *a, const void *b)
{
    const struct letter_group *left = a, *right = b;
    return (left->count < right->count) - (left->count > right->count);
}

static void print_groups(struct jsonw *out, struct summary *summary)
{
    if (summary->group_count)
        qsort(summary->groups, summary->group_count, sizeof(*summary->groups), by_count);
    jsonw_key(out, "groups");
    jsonw_array(out);
    for (size_t i = 0; i < summary->group_count && i < GROUPS_SHOWN; i++) {
        if (summary->groups[i].count > 0)
            print_group(out, &summary->groups[i]);
    }
    jsonw_array_end(out);
}

/* print_trend prints every hour of the last day, those without a death too. */
static void print_trend(struct jsonw *out, const struct summary *summary)
{
    jsonw_key(out, "trend");
    jsonw_array(out);
    for (int n = 0; n < TREND_HOURS; n++) {
        struct instant hour = {summary->first_hour.us + n * HOUR_US};
        int64_t count = 0;
        for (size_t i = 0; i < summary->hour_count; i++) {
            if (summary->hours[i].hour.us == hour.us)
                count += summary->hours[i].count;
        }
        print_hour(out, hour, count);
    }
    jsonw_array_end(out);
}

static void print_letters(struct jsonw *out, struct summary *summary)
{
    struct counts *counts = &summary->counts;
    jsonw_key(out, "letters");
    jsonw_object(out);
    jsonw_put_int(out, "total", counts->total);
    jsonw_put_int(out, "unrecovered", counts->unrecovered);
    jsonw_put_int(out, "recoverable", counts->recoverable);
    tally_print(&counts->by_reason, "by_reason", out);
    jsonw_put_instant(out, "oldest", counts->oldest);
    jsonw_put_instant(out, "newest", counts->newest);
    print_groups(out, summary);
    print_trend(out, summary);
    jsonw_object_end(out);
}

static enum status summed_up(struct call *call, enum status status)
{
    struct summary *summary = call->state;
    struct jsonw *out = &call->out;
    if (status != STATUS_OK)
        return status;
    jsonw_object(out);
    jsonw_put_instant(out, "now", summary->now);
    jsonw_put_int(out, "live", (int64_t)summary->live);
    jsonw_put_int(out, "audit_seq", summary->seq);
    print_states(out, summary);
    print_letters(out, summary);
    jsonw_object_end(out);
    return STATUS_OK;
}

enum status status_get(struct call *call)
{
    struct summary *summary = call_alloc(call, sizeof(*summary));
    if (summary)
        summary->mask = call_mask(call);
    return call_read_then(call, read_summary, summary, summed_up);
}
