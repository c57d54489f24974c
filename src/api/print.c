/* print: the shapes of the contract, in one place. */
#include "api/print.h"

#include "api/mask.h"
#include "api/payload.h"

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

/* put_member copies a member of recorded evidence under another name; "" when it has none. */
static void put_member(struct jsonw *out, const char *key, struct json object, const char *name)
{
    struct json value;
    jsonw_key(out, key);
    if (json_get(object, name, &value) && value.type != JSON_NULL)
        jsonw_raw(out, value.raw);
    else
        jsonw_string(out, SLICE(""));
}

/* print_retry_history prints the attempts with the swarm's names. */
static void print_retry_history(struct jsonw *out, const struct letter_view *view)
{
    jsonw_key(out, "retry_history");
    jsonw_array(out);
    for (size_t i = 0; i < view->attempt_count; i++) {
        struct json failure = {0};
        json_parse(view->attempts[i].failure, &failure, NULL);
        jsonw_object(out);
        jsonw_put_int(out, "attempt", view->attempts[i].attempt);
        put_member(out, "attempted_at", failure, "timestamp");
        put_member(out, "agent", failure, "agent_id");
        put_member(out, "failure_reason", failure, "error_message");
        jsonw_object_end(out);
    }
    jsonw_array_end(out);
}

/* The names of the map system, in its order, and what stands for one that was not recorded. */
static const struct {
    const char *name, *nothing;
} attempt_names[] = {
    {"attempt_number", "null"},    {"timestamp", "null"},   {"error_type", "null"},
    {"error_message", "null"},     {"error_context", "[]"}, {"stack_trace", "null"},
    {"agent_id", "null"},          {"step_failed", "null"}, {"duration_ms", "null"},
    {"json_log_location", "null"},
};
#define ATTEMPT_NAMES (sizeof(attempt_names) / sizeof(attempt_names[0]))

static bool is_attempt_name(struct json key)
{
    for (size_t i = 0; i < ATTEMPT_NAMES; i++)
        if (json_string_is(key, attempt_names[i].name))
            return true;
    return false;
}

/* print_attempt prints recorded evidence: first all names of the map system, then what else it has,
 * as it is. */
static void print_attempt(struct jsonw *out, struct slice record)
{
    struct json object, key, value;
    struct json_iter iter;
    if (json_parse(record, &object, NULL) != STATUS_OK || object.type != JSON_OBJECT) {
        jsonw_raw(out, record);
        return;
    }
    jsonw_object(out);
    for (size_t i = 0; i < ATTEMPT_NAMES; i++) {
        bool there = json_get(object, attempt_names[i].name, &value);
        jsonw_put_raw(out, attempt_names[i].name,
                      there ? value.raw : slice_of(attempt_names[i].nothing));
    }
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        if (is_attempt_name(key))
            continue;
        /* A record's names are this program's own: nothing in them is escaped. */
        jsonw_key_slice(out, (struct slice){key.raw.ptr + 1, key.raw.len - 2});
        jsonw_raw(out, value.raw);
    }
    jsonw_object_end(out);
}

static void print_attempts(struct jsonw *out, const char *key,
                           const struct attempt_record *attempts, size_t count)
{
    jsonw_key(out, key);
    jsonw_array(out);
    for (size_t i = 0; i < count; i++)
        print_attempt(out, attempts[i].failure);
    jsonw_array_end(out);
}

/* print_swarm_fields prints the swarm's fourteen fields, in its order. */
static enum status print_swarm_fields(struct jsonw *out, const struct letter_view *view,
                                      struct arena *arena, struct err *err)
{
    const struct letter *letter = &view->letter;
    struct payload original = payload_of(view->original);
    jsonw_put_string(out, "dlq_id", letter->dlq_id);
    jsonw_put_string(out, "original_subject", letter->original_subject);
    jsonw_key(out, "original_payload");
    enum status status = payload_print(&original, arena, out, err);
    if (status != STATUS_OK)
        return status;
    jsonw_put_string(out, "reason", letter->reason);
    jsonw_put_text(out, "reason_detail", letter->reason_detail);
    jsonw_put_instant(out, "failed_at", letter->failed_at);
    jsonw_put_int(out, "retry_count", letter->failure_count);
    jsonw_put_int(out, "max_retries", letter->max_attempts);
    print_retry_history(out, view);
    jsonw_put_string(out, "source", letter->source);
    jsonw_put_bool(out, "recoverable", letter->recoverable);
    jsonw_put_bool(out, "recovered", letter->state == LETTER_RECOVERED);
    if (instant_is_set(letter->recovered_at))
        jsonw_put_instant(out, "recovered_at", letter->recovered_at);
    jsonw_put_text(out, "recovered_by", letter->recovered_by);
    return STATUS_OK;
}

/* print_map_fields prints what the map system knows of an item, in its order. */
static void print_map_fields(struct jsonw *out, const struct letter_view *view,
                             const struct payload *payload)
{
    const struct letter *letter = &view->letter;
    put_or_null(out, "item_id", letter->item_id);
    jsonw_put_raw(out, "item_data", letter_item(letter, payload->json).raw);
    jsonw_put_instant(out, "first_attempt", letter->first_attempt_at);
    jsonw_put_instant(out, "last_attempt", letter->last_attempt_at);
    jsonw_put_int(out, "failure_count", letter->failure_count);
    print_attempts(out, "failure_history", view->attempts, view->attempt_count);
    jsonw_put_string(out, "error_signature", letter->signature);
    jsonw_put_string(out, "fingerprint", letter->fingerprint);
    jsonw_put_bool(out, "reprocess_eligible", letter->eligible);
    jsonw_put_bool(out, "manual_review_required", letter->review);
    jsonw_put_raw(out, "worktree_artifacts", letter->artifacts);
}

/* put_letter prints a letter as the view has it. */
static enum status put_letter(struct jsonw *out, const struct letter_view *view,
                              struct arena *arena, struct err *err)
{
    const struct letter *letter = &view->letter;
    struct payload payload = payload_of(view->body);
    struct slice envelope = payload.json.raw;
    if (letter->foreign)
        envelope = SLICE("null");
    jsonw_object(out);
    enum status status = print_swarm_fields(out, view, arena, err);
    if (status != STATUS_OK)
        return status;
    jsonw_put_str(out, "state", letter_state_name(letter->state));
    jsonw_put_string(out, "job_id", letter->job_id);
    jsonw_put_string(out, "queue", letter->queue);
    put_or_null(out, "trace_id", letter->trace_id);
    print_map_fields(out, view, &payload);
    jsonw_put_bool(out, "escalated", letter->escalated);
    jsonw_put_str(out, "replay_safety", replay_safety_name(letter->replay_safety));
    jsonw_put_int(out, "redrive_count", letter->job.redrive_count);
    jsonw_put_raw(out, "envelope", envelope);
    if (payload.encoding)
        jsonw_put_str(out, "payload_encoding", payload.encoding);
    jsonw_object_end(out);
    return STATUS_OK;
}

enum status print_letter(struct jsonw *out, const struct letter_view *view,
                         const struct redaction *mask, struct arena *arena, struct err *err)
{
    struct letter_view shown = *view;
    enum status status = mask_letter(mask, &shown, arena, err);
    return status == STATUS_OK ? put_letter(out, &shown, arena, err) : status;
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
    print_attempts(out, "attempts", view->attempts, view->attempt_count);
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
