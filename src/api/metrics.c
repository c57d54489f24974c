/* metrics: GET /metrics: the numbers of INTERFACES 10, and a few more, in the format of Prometheus.
 *
 * One read on the engine's thread copies what was counted; printing is done here.  All of it comes
 * from counters and from indexes, so a scrape costs the same whatever lies in the quarantine.
 *
 * Names from outside are bounded as in numbers.h: a metric has up to NUMBERS_NAMES_MAX queues or
 * reasons (queues in the order in which they were made, reasons in that of the alphabet), and the
 * rest is added up under "other".  A queue that has a name here shows every state, so a series does
 * not vanish when it falls to 0. */
#include "api/expose.h"
#include "api/meter.h"
#include "api/process.h"
#include "api/receipts.h"
#include "api/routes.h"
#include "core/delivery.h"

#define US_PER_SECOND 1e6

/* struct reading: what the engine's thread copied. */
struct reading {
    struct instant now;
    struct queue_info *queues;
    struct instant *oldest_dead; /* of each queue that has a name here */
    size_t queue_count;
    struct letter_count *letters;
    size_t letter_count;
    struct numbers_report report;
    struct engine_numbers engine;
    int64_t audit_seq;
};

static bool is_other(struct slice name)
{
    return slice_is(name, NUMBERS_OTHER);
}

/* has_name says whether the n-th queue is shown by its name. */
static bool has_name(const struct reading *reading, size_t n)
{
    return n < NUMBERS_NAMES_MAX && !is_other(reading->queues[n].name);
}

/* read_oldest_dead asks only for queues that have dead letters. */
static enum status read_oldest_dead(struct store *store, struct reading *reading,
                                    struct arena *arena, struct err *err)
{
    reading->oldest_dead = arena_array(arena, reading->queue_count, sizeof(*reading->oldest_dead));
    if (!reading->oldest_dead)
        return err_no_memory(err);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < reading->queue_count; i++) {
        const struct queue_info *queue = &reading->queues[i];
        if (has_name(reading, i) && queue->counts[JOB_DEAD] > 0)
            status = store->letter_oldest(store, queue->name, &reading->oldest_dead[i], err);
    }
    return status;
}

static enum status read_all(struct engine *engine, struct store *store, void *ctx,
                            struct arena *arena, struct err *err)
{
    struct reading *reading = ctx;
    struct hash hash;
    reading->now = engine_now(engine);
    engine_numbers(engine, &reading->engine);
    store->event_head(store, &reading->audit_seq, &hash);
    enum status status = engine_report(engine, arena, &reading->report, err);
    if (status == STATUS_OK)
        status = store->queue_list(store, arena, &reading->queues, &reading->queue_count, err);
    if (status == STATUS_OK)
        status = store->letter_counts(store, arena, &reading->letters, &reading->letter_count, err);
    if (status == STATUS_OK)
        status = read_oldest_dead(store, reading, arena, err);
    return status;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void print_jobs_of(struct expose *expose, struct slice queue,
                          const int64_t counts[JOB_STATE_COUNT])
{
    for (int state = 0; state < JOB_STATE_COUNT; state++) {
        struct slice name = slice_of(job_state_name((enum job_state)state));
        expose_int(expose, counts[state], EXPOSE_LABELS({"queue", queue}, {"state", name}));
    }
}

static void print_jobs(struct expose *expose, const struct reading *reading)
{
    int64_t others[JOB_STATE_COUNT] = {0};
    bool any_other = false;
    expose_family(expose, "lazaret_jobs", "gauge",
                  "Jobs by queue and state; dead are the letters that are not recovered.");
    for (size_t i = 0; i < reading->queue_count; i++) {
        const struct queue_info *queue = &reading->queues[i];
        if (has_name(reading, i)) {
            print_jobs_of(expose, queue->name, queue->counts);
            continue;
        }
        any_other = true;
        for (int state = 0; state < JOB_STATE_COUNT; state++)
            others[state] += queue->counts[state];
    }
    if (any_other)
        print_jobs_of(expose, SLICE(NUMBERS_OTHER), others);
}

static void print_paused(struct expose *expose, const struct reading *reading)
{
    expose_family(expose, "lazaret_queue_paused", "gauge",
                  "1 when the queue is paused: its jobs wait.");
    for (size_t i = 0; i < reading->queue_count; i++) {
        if (has_name(reading, i))
            expose_int(expose, reading->queues[i].paused,
                       EXPOSE_LABELS({"queue", reading->queues[i].name}));
    }
}

static void print_age(struct expose *expose, const struct reading *reading, struct slice queue,
                      const char *state, struct instant since)
{
    int64_t us = instant_is_set(since) ? instant_since(reading->now, since).us : 0;
    expose_double(expose, us > 0 ? (double)us / US_PER_SECOND : 0,
                  EXPOSE_LABELS({"queue", queue}, {"state", slice_of(state)}));
}

static void print_oldest(struct expose *expose, const struct reading *reading)
{
    expose_family(expose, "lazaret_oldest_seconds", "gauge",
                  "Age of the oldest job that waits (pending) and of the oldest letter (dead); 0 "
                  "when there is none.");
    for (size_t i = 0; i < reading->queue_count; i++) {
        const struct queue_info *queue = &reading->queues[i];
        if (!has_name(reading, i))
            continue;
        print_age(expose, reading, queue->name, "pending", queue->oldest_pending);
        print_age(expose, reading, queue->name, "dead", reading->oldest_dead[i]);
    }
}

/* ---- letters --------------------------------------------------------------------------------- */

static int by_reason(const void *a, const void *b)
{
    struct slice left = numbers_name(((const struct letter_count *)a)->reason);
    struct slice right = numbers_name(((const struct letter_count *)b)->reason);
    size_t len = left.len < right.len ? left.len : right.len;
    int order = len ? memcmp(left.ptr, right.ptr, len) : 0;
    return order ? order : (left.len > right.len) - (left.len < right.len);
}

static void print_letters_of(struct expose *expose, struct slice reason,
                             const int64_t counts[LETTER_STATE_COUNT])
{
    for (int state = 0; state < LETTER_STATE_COUNT; state++) {
        struct slice name = slice_of(letter_state_name((enum letter_state)state));
        expose_int(expose, counts[state], EXPOSE_LABELS({"reason", reason}, {"state", name}));
    }
}

/* print_letters adds up the store's counters, which are by more than the reason: it sorts them, so
 * that those of a reason stand together. */
static void print_letters(struct expose *expose, struct reading *reading)
{
    int64_t others[LETTER_STATE_COUNT] = {0};
    bool any_other = false;
    size_t named = 0, next;
    expose_family(expose, "lazaret_dead_letters", "gauge", "Letters by reason and state.");
    if (reading->letter_count)
        qsort(reading->letters, reading->letter_count, sizeof(*reading->letters), by_reason);
    for (size_t i = 0; i < reading->letter_count; i = next) {
        struct slice reason = numbers_name(reading->letters[i].reason);
        bool other = is_other(reason) || named == NUMBERS_NAMES_MAX;
        int64_t own[LETTER_STATE_COUNT] = {0};
        int64_t *counts = other ? others : own;
        for (next = i; next < reading->letter_count &&
                       by_reason(&reading->letters[i], &reading->letters[next]) == 0;
             next++)
            counts[reading->letters[next].state] += reading->letters[next].count;
        any_other = any_other || other;
        if (other)
            continue;
        named++;
        print_letters_of(expose, reason, own);
    }
    if (any_other)
        print_letters_of(expose, SLICE(NUMBERS_OTHER), others);
}

static void print_receipts(struct expose *expose, const struct reading *reading,
                           const struct receipts *receipts)
{
    int64_t open = 0;
    for (size_t i = 0; i < reading->letter_count; i++) {
        const struct letter_count *row = &reading->letters[i];
        if (slice_is(row->source, DELIVERY_SOURCE_RECEIPTS) &&
            (row->state == LETTER_DEAD || row->state == LETTER_RECOVERING))
            open += row->count;
    }
    receipts_expose(receipts, expose);
    expose_family(expose, "cognigate_dead_letter_queue_size", "gauge",
                  "Receipts in the quarantine that are not recovered.");
    expose_int(expose, open, EXPOSE_PLAIN);
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void print_attempts(struct expose *expose, const struct numbers_report *report)
{
    expose_family(expose, "lazaret_attempts_total", "counter",
                  "Attempts that ended: complete, failed (the worker said so), crashed (the lease "
                  "ended without a result), or interrupted (the worker was cut off).");
    for (size_t i = 0; i < report->attempt_count; i++) {
        const struct attempts_counted *row = &report->attempts[i];
        for (int outcome = 0; outcome < ATTEMPT_OUTCOME_COUNT; outcome++) {
            const char *name = attempt_outcome_name((enum attempt_outcome)outcome);
            expose_int(expose, (int64_t)row->by_outcome[outcome],
                       EXPOSE_LABELS({"queue", row->queue}, {"outcome", slice_of(name)}));
        }
    }
}

static void print_decisions(struct expose *expose, const struct numbers_report *report)
{
    expose_family(expose, "lazaret_retries_scheduled_total", "counter",
                  "Retries that a policy allowed; one that stands in its envelope is \"inline\".");
    for (size_t i = 0; i < report->retry_count; i++)
        expose_int(expose, (int64_t)report->retries[i].count,
                   EXPOSE_LABELS({"policy", report->retries[i].name}));
    expose_family(expose, "lazaret_dead_letters_total", "counter",
                  "Deaths, imports and returns to the quarantine included.");
    for (size_t i = 0; i < report->death_count; i++) {
        const struct named_counted *row = &report->deaths[i];
        expose_int(expose, (int64_t)row->count,
                   EXPOSE_LABELS({"reason", row->name}, {"source", row->source}));
    }
}

/* print_histogram prints one of the engine's, whose bounds are `unit` times what is printed. */
static void print_histogram(struct expose *expose, const struct histogram *histogram, double unit)
{
    double bounds[HISTOGRAM_BOUNDS_MAX];
    for (size_t i = 0; i < histogram->bound_count; i++)
        bounds[i] = (double)histogram->bounds[i] / unit;
    expose_histogram(expose, bounds, histogram->buckets, histogram->bound_count,
                     histogram->buckets[histogram->bound_count], (double)histogram->sum / unit);
}

static void print_commits(struct expose *expose, const struct reading *reading)
{
    expose_family(expose, "lazaret_commit_seconds", "histogram",
                  "How long commits took, the sync of the disk included.");
    print_histogram(expose, &reading->report.commit_us, US_PER_SECOND);
    expose_family(expose, "lazaret_commit_batch_jobs", "histogram",
                  "Jobs pushed, leased and resolved by one commit; commits without any are left "
                  "out.");
    print_histogram(expose, &reading->report.commit_jobs, 1);
    expose_family(expose, "lazaret_commit_failed_total", "counter",
                  "Batches that the store could not commit: all of each was taken back.");
    expose_int(expose, (int64_t)reading->engine.batches_failed, EXPOSE_PLAIN);
}

static void print_station(struct expose *expose, const struct reading *reading)
{
    expose_family(expose, "lazaret_build_info", "gauge", "Always 1; the version is in the label.");
    expose_int(expose, 1, EXPOSE_LABELS({"version", SLICE(LAZARET_VERSION)}));
    expose_family(expose, "lazaret_live_jobs", "gauge", "Jobs that wait, are scheduled or run.");
    expose_int(expose, (int64_t)reading->engine.live, EXPOSE_PLAIN);
    expose_family(expose, "lazaret_lease_expired_total", "counter",
                  "Leases that ended without a result.");
    expose_int(expose, (int64_t)reading->report.lease_expired, EXPOSE_PLAIN);
    expose_family(expose, "lazaret_audit_seq", "gauge", "Number of the last event of the audit.");
    expose_int(expose, reading->audit_seq, EXPOSE_PLAIN);
    expose_family(expose, "lazaret_breaker_state", "gauge",
                  "Breakers by dependency: 0 closed, 1 half open, 2 open.");
    expose_family(expose, "lazaret_redrive_items", "gauge", "Letters of redrives by outcome.");
}

/* ---- the carrier ----------------------------------------------------------------------------- */

/* struct http_counts: requests by pattern and status: routes with one pattern, for several methods,
 * are one. */
struct http_counts {
    struct arena *arena;
    struct http_count {
        const char *pattern;
        int status;
        uint64_t count;
    } * rows;
    size_t count, cap;
    bool full; /* memory is exhausted */
};

static struct http_count *http_row(struct http_counts *counts, const char *pattern, int status)
{
    for (size_t i = 0; i < counts->count; i++) {
        if (counts->rows[i].status == status && strcmp(counts->rows[i].pattern, pattern) == 0)
            return &counts->rows[i];
    }
    if (counts->count == counts->cap) {
        size_t cap = counts->cap ? 2 * counts->cap : 64;
        struct http_count *rows = arena_array(counts->arena, cap, sizeof(*rows));
        if (!rows)
            return NULL;
        if (counts->count)
            memcpy(rows, counts->rows, counts->count * sizeof(*rows));
        counts->rows = rows;
        counts->cap = cap;
    }
    struct http_count *row = &counts->rows[counts->count++];
    *row = (struct http_count){.pattern = pattern, .status = status};
    return row;
}

static void visit_route(void *ctx, int route, int http_status, uint64_t count)
{
    struct http_counts *counts = ctx;
    const char *pattern = api_route_pattern(route);
    struct http_count *row = http_row(counts, pattern ? pattern : "none", http_status);
    if (row)
        row->count += count;
    else
        counts->full = true;
}

static enum status print_requests(struct expose *expose, const struct meter *meter,
                                  struct call *call)
{
    struct http_counts counts = {.arena = &call->arena};
    meter_walk(meter, visit_route, &counts);
    if (counts.full)
        return err_no_memory(&call->err);
    expose_family(expose, "lazaret_http_requests_total", "counter",
                  "Requests that were answered, by the pattern of their path and the status.");
    for (size_t i = 0; i < counts.count; i++) {
        const struct http_count *row = &counts.rows[i];
        struct slice status = arena_printf(&call->arena, "%d", row->status);
        if (!status.ptr)
            return err_no_memory(&call->err);
        expose_int(expose, (int64_t)row->count,
                   EXPOSE_LABELS({"route", slice_of(row->pattern)}, {"status", status}));
    }
    return STATUS_OK;
}

static enum status print_carrier(struct expose *expose, const struct meter *meter,
                                 struct call *call)
{
    struct meter_numbers numbers;
    if (!meter)
        return STATUS_OK;
    enum status status = print_requests(expose, meter, call);
    if (status != STATUS_OK)
        return status;
    meter_read(meter, &numbers);
    uint64_t above = numbers.count;
    for (int i = 0; i < METER_BUCKETS; i++)
        above -= numbers.seconds_le[i];
    expose_family(expose, "lazaret_http_request_seconds", "histogram",
                  "How long answers took; a lease that waits for a job is one of them.");
    expose_histogram(expose, meter_bounds_seconds, numbers.seconds_le, METER_BUCKETS, above,
                     numbers.seconds_sum);
    expose_family(expose, "lazaret_http_connections", "gauge", "Connections that are open.");
    expose_int(expose, numbers.connections, EXPOSE_PLAIN);
    expose_family(expose, "lazaret_event_streams", "gauge", "Streams of events that are open.");
    expose_int(expose, numbers.streams, EXPOSE_PLAIN);
    return STATUS_OK;
}

/* print_process prints what the system says; what it does not say is left out. */
static void print_process(struct expose *expose)
{
    struct process_numbers process;
    process_read(&process);
    if (process.resident_bytes >= 0) {
        expose_family(expose, "process_resident_memory_bytes", "gauge", "Resident memory.");
        expose_int(expose, process.resident_bytes, EXPOSE_PLAIN);
    }
    if (process.open_fds >= 0) {
        expose_family(expose, "process_open_fds", "gauge", "Open file descriptors.");
        expose_int(expose, process.open_fds, EXPOSE_PLAIN);
    }
    if (process.start_seconds >= 0) {
        expose_family(expose, "process_start_time_seconds", "gauge",
                      "When the process started, in seconds since 1970.");
        expose_double(expose, process.start_seconds, EXPOSE_PLAIN);
    }
}

/* ---- the resource ---------------------------------------------------------------------------- */

static enum status print_all(struct call *call, enum status status)
{
    struct reading *reading = call->state;
    struct expose expose = {.out = &call->answer->body};
    if (status != STATUS_OK)
        return status;
    call->answer->content_type = EXPOSE_CONTENT_TYPE;
    print_station(&expose, reading);
    print_jobs(&expose, reading);
    print_paused(&expose, reading);
    print_oldest(&expose, reading);
    print_attempts(&expose, &reading->report);
    print_letters(&expose, reading);
    print_decisions(&expose, &reading->report);
    print_commits(&expose, reading);
    print_receipts(&expose, reading, call->api->receipts);
    if (call->api->outside)
        call->api->outside(call->api->outside_ctx, &expose);
    print_process(&expose);
    return print_carrier(&expose, call->api->meter, call);
}

enum status metrics_get(struct call *call)
{
    struct reading *reading = call_alloc(call, sizeof(*reading));
    if (!reading)
        return call->status;
    return call_read_then(call, read_all, reading, print_all);
}
