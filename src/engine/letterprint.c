/* letterprint: the shape of a letter, in one place. */
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

void attempts_print(struct jsonw *out, const char *key, const struct attempt_record *attempts,
                    size_t count)
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
    attempts_print(out, "failure_history", view->attempts, view->attempt_count);
    jsonw_put_string(out, "error_signature", letter->signature);
    jsonw_put_string(out, "fingerprint", letter->fingerprint);
    jsonw_put_bool(out, "reprocess_eligible", letter->eligible);
    jsonw_put_bool(out, "manual_review_required", letter->review);
    jsonw_put_raw(out, "worktree_artifacts", letter->artifacts);
}

enum status letter_print(struct jsonw *out, const struct letter_view *view, struct arena *arena,
                         struct err *err)
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
