/* print: the shapes of the contract, in one place. */
#include "api/print.h"

#include "api/mask.h"
#include "engine/letterprint.h"
#include "engine/payload.h"

/* put_or_null writes a text, or null when it is empty. */
static void put_or_null(struct jsonw *out, const char *key, struct slice text)
{
    jsonw_key(out, key);
    if (text.len)
        jsonw_string(out, text);
    else
        jsonw_null(out);
}

void print_refusal(struct jsonw *out, enum status status, struct slice error)
{
    jsonw_put_string(out, "error", error.len ? error : slice_of(status_name(status)));
    jsonw_put_str(out, "code", status_name(status));
}

/* ---- letters --------------------------------------------------------------------------------- */

enum status print_letter(struct jsonw *out, const struct letter_view *view,
                         const struct redaction *mask, struct arena *arena, struct err *err)
{
    struct letter_view shown = *view;
    enum status status = mask_letter(mask, &shown, arena, err);
    return status == STATUS_OK ? letter_print(out, &shown, arena, err) : status;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* put_row prints the members that listings and single jobs share. */
static void put_row(struct jsonw *out, const struct job_row *row)
{
    const struct job *job = &row->job;
    bool running = job->state == JOB_RUNNING;
    bool waiting = job->state == JOB_PENDING || job->state == JOB_SCHEDULED;
    jsonw_put_string(out, "job_id", row->job_id);
    jsonw_put_str(out, "state", job_state_name((enum job_state)job->state));
    jsonw_put_string(out, "queue", row->queue);
    jsonw_put_int(out, "priority", job->priority);
    jsonw_put_int(out, "attempt", job->attempt);
    jsonw_put_instant(out, "pushed_at", job->pushed_at);
    jsonw_put_instant(out, "next_run_at", waiting ? job->due_at : INSTANT_NONE);
    jsonw_put_instant(out, "lease_expires_at", running ? job->due_at : INSTANT_NONE);
    put_or_null(out, "worker", running ? row->worker : SLICE(""));
    jsonw_put_bool(out, "started", running && (job->flags & JOB_STARTED));
    jsonw_put_bool(out, "cancel_requested", running && (job->flags & JOB_CANCEL_WANTED));
    jsonw_put_int(out, "redrive_count", job->redrive_count);
    put_or_null(out, "dlq_id", row->dlq_id);
    jsonw_put_instant(out, "ended_at", row->ended_at);
}

void print_job_row(struct jsonw *out, const struct job_row *row)
{
    jsonw_object(out);
    put_row(out, row);
    jsonw_object_end(out);
}

/* put_job prints a job as the view has it. */
static void put_job(struct jsonw *out, const struct job_view *view)
{
    struct payload payload = payload_of(view->body);
    jsonw_object(out);
    put_row(out, &view->row);
    jsonw_key(out, "max_attempts");
    if (view->max_attempts)
        jsonw_int(out, view->max_attempts);
    else
        jsonw_null(out);
    put_or_null(out, "policy", view->policy);
    jsonw_put_raw(out, "result", view->result);
    jsonw_put_raw(out, "document", view->document);
    attempts_print(out, "attempts", view->attempts, view->attempt_count);
    jsonw_put_raw(out, "envelope", payload.json.raw);
    if (view->previous_count) {
        jsonw_key(out, "previous_envelopes");
        jsonw_array(out);
        for (size_t i = 0; i < view->previous_count; i++)
            jsonw_raw(out, view->previous[i]);
        jsonw_array_end(out);
    }
    jsonw_object_end(out);
}

enum status print_job(struct jsonw *out, const struct job_view *view, const struct redaction *mask,
                      struct arena *arena, struct err *err)
{
    struct job_view shown = *view;
    enum status status = mask_job(mask, &shown, arena, err);
    if (status == STATUS_OK)
        put_job(out, &shown);
    return status;
}

/* ---- groups, events, queues -------------------------------------------------------------------
 */

const char *group_status_name(enum group_status status)
{
    static const char *const names[] = {
        [GROUP_OPEN] = "open", [GROUP_RESOLVED] = "resolved", [GROUP_IGNORED] = "ignored"};
    return names[status];
}

void print_group(struct jsonw *out, const struct letter_group *group)
{
    jsonw_object(out);
    jsonw_put_string(out, "fingerprint", group->fingerprint);
    jsonw_put_string(out, "signature", group->signature);
    jsonw_put_int(out, "count", group->count);
    jsonw_put_instant(out, "first_seen", group->first_seen);
    jsonw_put_instant(out, "last_seen", group->last_seen);
    jsonw_key(out, "sample_ids");
    jsonw_array(out);
    for (size_t i = 0; i < group->sample_count; i++)
        jsonw_string(out, group->sample_ids[i]);
    jsonw_array_end(out);
    jsonw_put_str(out, "status", group_status_name(group->status));
    jsonw_key(out, "trend");
    jsonw_array(out);
    for (size_t i = 0; i < GROUP_TREND_HOURS; i++)
        jsonw_int(out, group->trend[i]);
    jsonw_array_end(out);
    jsonw_put_int(out, "total", group->total);
    jsonw_object_end(out);
}

void print_hash(struct jsonw *out, const char *key, const struct hash *hash)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * HASH_SIZE];
    for (size_t i = 0; i < HASH_SIZE; i++) {
        text[2 * i] = digits[hash->bytes[i] >> 4];
        text[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    jsonw_put_string(out, key, (struct slice){text, sizeof(text)});
}

/* put_number writes a number, or null for 0. */
static void put_number(struct jsonw *out, const char *key, int64_t value)
{
    jsonw_key(out, key);
    if (value)
        jsonw_int(out, value);
    else
        jsonw_null(out);
}

void print_event(struct jsonw *out, const struct event *event, struct slice job_id)
{
    jsonw_object(out);
    jsonw_put_int(out, "seq", event->seq);
    jsonw_put_instant(out, "at", event->at);
    jsonw_put_string(out, "actor", event->actor);
    put_or_null(out, "job_id", job_id);
    jsonw_put_string(out, "what", event->what);
    jsonw_put_raw(out, "why", event->why);
    print_hash(out, "hash", &event->hash);
    put_number(out, "previous", event->previous_seq);
    put_number(out, "job_seq", event->job_seq);
    jsonw_object_end(out);
}

void print_queue(struct jsonw *out, const struct queue_info *queue)
{
    jsonw_object(out);
    jsonw_put_string(out, "name", queue->name);
    jsonw_put_bool(out, "paused", queue->paused);
    jsonw_key(out, "depth");
    jsonw_object(out);
    for (int state = 0; state < JOB_STATE_COUNT; state++)
        jsonw_put_int(out, job_state_name((enum job_state)state), queue->counts[state]);
    jsonw_object_end(out);
    jsonw_put_instant(out, "oldest", queue->oldest_pending);
    /* Nothing is broken off or limited by queue. */
    jsonw_key(out, "breaker");
    jsonw_null(out);
    jsonw_key(out, "limits");
    jsonw_null(out);
    jsonw_object_end(out);
}

void print_hour(struct jsonw *out, struct instant hour, int64_t count)
{
    jsonw_object(out);
    jsonw_put_instant(out, "hour", hour);
    jsonw_put_int(out, "count", count);
    jsonw_object_end(out);
}
