/* import_form: four forms, one letter. */
#include "api/import_form.h"

#include "api/body.h"
#include "api/payload.h"
#include "core/delivery.h"
#include "core/envelope.h"
#include "core/reason.h"
#include "core/signature.h"
#include "core/uuid.h"

#define COUNT_MAX 60000    /* attempts: what fits a job's counters, with room for more of them */
#define SUBJECT_MAX 4096   /* bytes of an original_subject */
#define FINGERPRINT_MAX 64 /* bytes of a fingerprint that was made elsewhere */
#define SIGNATURE_GIVEN_MAX 1024

/* struct form: one letter while it is read. */
struct form {
    struct call *call;
    struct json object;
    struct import_item *item;
    struct letter *letter;   /* the item's */
    struct failure last;     /* the last failure, or what stands for it */
    bool has_key, human_ack; /* of the envelope */
};

static void no_memory(struct call *call)
{
    call_fail(call, STATUS_NO_MEMORY, "out of memory");
}

static bool has(struct json object, const char *name)
{
    struct json value;
    return json_get(object, name, &value) && value.type != JSON_NULL;
}

static struct slice text_of(struct form *form, const char *name, size_t max)
{
    return body_text(form->call, form->object, name, max);
}

/* derive_id makes a UUID (version 8) of the content: the same content has the same id. */
static struct slice derive_id(struct form *form, const struct slice *parts, size_t count)
{
    struct hash hash = hash_sha256(parts, count);
    struct uuid uuid;
    char text[UUID_TEXT_LEN + 1];
    memcpy(uuid.bytes, hash.bytes, sizeof(uuid.bytes));
    uuid.bytes[6] = (uint8_t)((uuid.bytes[6] & 0x0f) | 0x80);
    uuid.bytes[8] = (uint8_t)((uuid.bytes[8] & 0x3f) | 0x80);
    uuid_format(uuid, text);
    struct slice id = arena_dup(&form->call->arena, (struct slice){text, UUID_TEXT_LEN});
    if (!id.ptr)
        no_memory(form->call);
    return id;
}

/* ---- history --------------------------------------------------------------------------------- */

/* read_detail reads an attempt with the map system's names, which are also Lazaret's. */
static void read_detail(struct call *call, struct json entry, struct import_attempt *attempt)
{
    struct err err;
    enum status status = failure_parse(entry, &call->arena, &attempt->failure, &err);
    if (status != STATUS_OK)
        call_fail(call, status, "failure_history: %s", err.text);
    attempt->failure.at = body_instant(call, entry, "timestamp");
    attempt->attempt = (uint32_t)body_int(call, entry, "attempt_number", 0, COUNT_MAX, 0);
    struct json decision;
    if (json_get(entry, "decision", &decision) && decision.type == JSON_OBJECT)
        attempt->decision = decision.raw;
}

/* read_retry reads an attempt with the swarm's names. */
static void read_retry(struct call *call, struct json entry, struct import_attempt *attempt)
{
    failure_init(&attempt->failure);
    attempt->failure.message = body_text(call, entry, "failure_reason", SIZE_MAX);
    attempt->failure.agent_id = body_text(call, entry, "agent", SIZE_MAX);
    attempt->failure.at = body_instant(call, entry, "attempted_at");
    attempt->attempt = (uint32_t)body_int(call, entry, "attempt", 0, COUNT_MAX, 0);
    if (attempt->failure.message.len == 0)
        attempt->failure.message = SLICE("no reason was given");
}

/* read_history reads an array of attempts.  Their numbers grow: one that does not is given the
 * next, as the evidence of a job has one record for each. */
static void read_history(struct form *form, const char *name,
                         void (*read)(struct call *, struct json, struct import_attempt *))
{
    struct call *call = form->call;
    struct json array = body_json(call, form->object, name, JSON_ARRAY), entry;
    size_t count = json_count(array);
    if (count > COUNT_MAX)
        call_fail(call, STATUS_INVALID, "%s: has more than %d entries", name, COUNT_MAX);
    if (count == 0 || call->status != STATUS_OK)
        return;
    struct import_attempt *attempts = arena_array(&call->arena, count, sizeof(*attempts));
    if (!attempts) {
        no_memory(call);
        return;
    }
    struct json_iter iter;
    uint32_t number = 0;
    size_t n = 0;
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &entry) && call->status == STATUS_OK) {
        struct import_attempt *attempt = &attempts[n++];
        read(call, entry, attempt);
        number = attempt->attempt > number ? attempt->attempt : number + 1;
        attempt->attempt = number;
    }
    form->item->attempts = attempts;
    form->item->attempt_count = n;
    form->last = attempts[n - 1].failure;
}

/* ---- judgement ------------------------------------------------------------------------------- */

static void read_safety(struct form *form)
{
    struct slice name = text_of(form, "replay_safety", ENVELOPE_ID_MAX);
    if (name.len == 0)
        return;
    for (int i = REPLAY_SAFE; i <= REPLAY_UNSAFE; i++) {
        if (slice_is(name, replay_safety_name((enum replay_safety)i))) {
            form->letter->replay_safety = (enum replay_safety)i;
            return;
        }
    }
    call_fail(form->call, STATUS_INVALID, "replay_safety: must be safe, unknown or unsafe");
}

/* read_flags takes over what the sender judged, and completes it. */
static void read_flags(struct form *form)
{
    struct call *call = form->call;
    struct json object = form->object;
    struct letter *letter = form->letter;
    if (has(object, "recoverable") && !has(object, "reprocess_eligible") &&
        !has(object, "manual_review_required")) {
        letter->eligible = body_bool(call, object, "recoverable", false);
        letter->review = !letter->eligible;
    }
    letter->eligible = body_bool(call, object, "reprocess_eligible", letter->eligible);
    letter->review = body_bool(call, object, "manual_review_required", letter->review);
    letter->escalated = body_bool(call, object, "escalated", false);
    letter->recoverable = body_bool(call, object, "recoverable",
                                    letter->eligible && !letter->review && !letter->escalated);
    read_safety(form);
}

/* judge fills what follows from the last failure, but for what the sender says itself. */
static void judge(struct form *form)
{
    struct letter *letter = form->letter;
    struct slice reason = letter->reason, detail = letter->reason_detail;
    if (form->last.reason.len == 0)
        form->last.reason = reason;
    if (form->last.message.len == 0)
        form->last.message = detail.len ? detail : SLICE("no error was recorded");
    enum failure_class class = failure_class(&form->last);
    struct decision decision = {.action = DECISION_QUARANTINE,
                                .class = class,
                                .rule = "imported",
                                .reason = class_is_retryable(class) ? REASON_RETRIES_EXHAUSTED
                                                                    : REASON_NOT_RETRYABLE};
    letter_judge(letter, &form->last, &decision, form->has_key, form->human_ack);
    if (reason.len)
        letter->reason = reason;
    letter->reason_detail = detail;
    read_flags(form);
}

/* read_signature takes the grouping that was given, or makes it. */
static void read_signature(struct form *form)
{
    struct letter *letter = form->letter;
    struct arena *arena = &form->call->arena;
    letter->signature = text_of(form, "error_signature", SIGNATURE_GIVEN_MAX);
    letter->fingerprint = text_of(form, "fingerprint", FINGERPRINT_MAX);
    if (letter->signature.len == 0) {
        struct buf text;
        buf_init(&text, (size_t)2 * SIGNATURE_MAX);
        signature_print(&form->last, &text);
        letter->signature = arena_dup(arena, buf_slice(&text));
        buf_release(&text);
    }
    if (letter->fingerprint.len == 0) {
        char text[FINGERPRINT_LEN + 1];
        signature_fingerprint(&form->last, text);
        letter->fingerprint = arena_dup(arena, (struct slice){text, FINGERPRINT_LEN});
    }
    if (!letter->signature.ptr || !letter->fingerprint.ptr)
        no_memory(form->call);
    letter->error_type = form->last.error_type.len ? form->last.error_type : SLICE("Unknown");
    letter->agent = form->last.agent_id;
    letter->artifacts = body_json(form->call, form->object, "worktree_artifacts", JSON_OBJECT).raw;
    struct err err;
    if (letter->artifacts.len == 0 &&
        letter_artifacts(&form->last, arena, &letter->artifacts, &err) != STATUS_OK)
        no_memory(form->call);
}

/* read_times reads when; what is not said is taken from the attempts. */
static void read_times(struct form *form)
{
    struct call *call = form->call;
    struct letter *letter = form->letter;
    const struct import_item *item = form->item;
    letter->failed_at = body_instant(call, form->object, "failed_at");
    letter->first_attempt_at = body_instant(call, form->object, "first_attempt");
    letter->last_attempt_at = body_instant(call, form->object, "last_attempt");
    if (!instant_is_set(letter->last_attempt_at))
        letter->last_attempt_at = instant_is_set(form->last.at) ? form->last.at : letter->failed_at;
    if (!instant_is_set(letter->first_attempt_at))
        letter->first_attempt_at =
            item->attempt_count ? item->attempts[0].failure.at : letter->last_attempt_at;
    if (!instant_is_set(letter->failed_at))
        letter->failed_at = letter->last_attempt_at;
}

/* read_counts reads how often; never less than the attempts that are recorded. */
static void read_counts(struct form *form, const char *count_name)
{
    struct letter *letter = form->letter;
    const struct import_item *item = form->item;
    uint32_t recorded = item->attempt_count ? item->attempts[item->attempt_count - 1].attempt : 0;
    letter->failure_count =
        (uint32_t)body_int(form->call, form->object, count_name, 0, COUNT_MAX, recorded);
    if (letter->failure_count < recorded)
        letter->failure_count = recorded;
    letter->max_attempts = (uint32_t)body_int(form->call, form->object, "max_retries", 0, COUNT_MAX,
                                              letter->failure_count);
}

/* ---- the payload ----------------------------------------------------------------------------- */

/* take_envelope makes `body` the letter's envelope: the job can live again here. */
static void take_envelope(struct form *form, struct slice body)
{
    struct envelope envelope;
    struct err err = {0};
    struct letter *letter = form->letter;
    if (form->call->status != STATUS_OK)
        return;
    enum status status =
        envelope_parse(body, ENVELOPE_BODY_MAX, &form->call->arena, &envelope, &err);
    if (status != STATUS_OK) {
        call_fail(form->call, status, "envelope: %s", err.text);
        return;
    }
    form->item->body = body;
    form->has_key = envelope.idempotency_key.len > 0;
    form->human_ack = envelope.requires_human_ack;
    letter->run_id = envelope.run_id;
    if (letter->item_id.len == 0)
        letter->item_id = envelope.item_id;
    if (letter->job_id.len == 0)
        letter->job_id = envelope.job_id;
    if (letter->trace_id.len == 0)
        letter->trace_id = envelope.trace_id;
    if (letter->queue.len == 0)
        letter->queue = envelope.queue;
}

/* take_payload keeps bytes that are no envelope: the letter goes back to where it came from. */
static void take_payload(struct form *form)
{
    struct json value;
    struct err err;
    struct slice encoding = text_of(form, "payload_encoding", ENVELOPE_ID_MAX);
    if (form->call->status != STATUS_OK)
        return;
    form->letter->foreign = true;
    if (!json_get(form->object, "original_payload", &value)) {
        call_fail(form->call, STATUS_INVALID, "original_payload: is required");
        return;
    }
    enum status status = payload_read(value, encoding, &form->call->arena, &form->item->body, &err);
    if (status != STATUS_OK)
        call_fail(form->call, status, "%s", err.text);
    else if (form->item->body.len > ENVELOPE_BODY_MAX)
        call_fail(form->call, STATUS_TOO_LARGE, "original_payload: has more than %d bytes",
                  ENVELOPE_BODY_MAX);
}

/* ---- the forms ------------------------------------------------------------------------------- */

/* read_state reads what has become of the letter.  One that was being replayed elsewhere is dead
 * here: nobody here will say how that ended. */
static void read_state(struct form *form)
{
    struct letter *letter = form->letter;
    struct slice name = text_of(form, "state", ENVELOPE_ID_MAX);
    bool recovered = body_bool(form->call, form->object, "recovered", false);
    letter->state = recovered ? LETTER_RECOVERED : LETTER_DEAD;
    if (name.len && !letter_state_from_name(name, &letter->state))
        call_fail(form->call, STATUS_INVALID, "state: \"%.*s\" is no state of a letter",
                  SLICE_ARG(name));
    if (letter->state == LETTER_RECOVERING)
        letter->state = LETTER_DEAD;
    if (letter->state == LETTER_DEAD)
        return;
    letter->recovered_at = body_instant(form->call, form->object, "recovered_at");
    letter->recovered_by = text_of(form, "recovered_by", ENVELOPE_ID_MAX);
}

/* read_letter reads the swarm's form and Lazaret's own, which begins with it. */
static void read_letter(struct form *form)
{
    struct letter *letter = form->letter;
    letter->dlq_id = text_of(form, "dlq_id", ENVELOPE_ID_MAX);
    letter->original_subject = text_of(form, "original_subject", SUBJECT_MAX);
    letter->reason = text_of(form, "reason", ENVELOPE_ID_MAX);
    letter->reason_detail = text_of(form, "reason_detail", SIZE_MAX);
    letter->source = text_of(form, "source", ENVELOPE_ID_MAX);
    letter->job_id = text_of(form, "job_id", ENVELOPE_ID_MAX);
    letter->queue = text_of(form, "queue", ENVELOPE_QUEUE_MAX);
    letter->trace_id = text_of(form, "trace_id", ENVELOPE_ID_MAX);
    letter->item_id = text_of(form, "item_id", ENVELOPE_ID_MAX);
    if (letter->original_subject.len == 0)
        call_fail(form->call, STATUS_INVALID, "original_subject: is required");
    if (letter->source.len == 0)
        letter->source = SLICE("unknown");
    struct json envelope = body_json(form->call, form->object, "envelope", JSON_OBJECT);
    if (envelope.raw.len)
        take_envelope(form, envelope.raw);
    else
        take_payload(form);
    if (has(form->object, "failure_history"))
        read_history(form, "failure_history", read_detail);
    else
        read_history(form, "retry_history", read_retry);
    read_state(form);
    letter->job.redrive_count =
        (uint16_t)body_int(form->call, form->object, "redrive_count", 0, COUNT_MAX, 0);
    read_counts(form, has(form->object, "failure_count") ? "failure_count" : "retry_count");
    if (letter->dlq_id.len == 0)
        letter->dlq_id = derive_id(form, &form->object.raw, 1);
}

/* print_item_envelope writes the job that an item of a map run stands for. */
static void print_item_envelope(struct form *form, struct slice run_id, struct json data,
                                struct buf *out)
{
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_str(&w, "action", "map");
    jsonw_put_str(&w, "queue", "map");
    jsonw_put_str(&w, "retry_policy", "map");
    jsonw_put_str(&w, "source", "map");
    jsonw_put_text(&w, "run_id", run_id);
    jsonw_put_string(&w, "item_id", form->letter->item_id);
    jsonw_put_raw(&w, "item", data.raw);
    jsonw_object_end(&w);
}

/* read_item reads the map system's form.  Its item becomes the envelope of a job, so that it can be
 * tried again. */
static void read_item(struct form *form, struct slice run_id)
{
    struct call *call = form->call;
    struct letter *letter = form->letter;
    struct json data;
    struct buf text;
    struct slice given = text_of(form, "job_id", ENVELOPE_ID_MAX);
    if (given.len)
        run_id = given;
    letter->item_id = text_of(form, "item_id", ENVELOPE_ID_MAX);
    letter->source = SLICE("map");
    letter->original_subject = SLICE("jobs.map");
    json_get(form->object, "item_data", &data);
    if (letter->item_id.len == 0)
        call_fail(call, STATUS_INVALID, "item_id: is required");
    buf_init(&text, ENVELOPE_BODY_MAX);
    print_item_envelope(form, run_id, data, &text);
    struct slice body = arena_dup(&call->arena, buf_slice(&text));
    if (text.status == STATUS_TOO_LARGE)
        call_fail(call, STATUS_TOO_LARGE, "item_data: has more than %d bytes", ENVELOPE_BODY_MAX);
    else if (text.status != STATUS_OK || !body.ptr)
        no_memory(call);
    buf_release(&text);
    take_envelope(form, body);
    read_history(form, "failure_history", read_detail);
    read_counts(form, "failure_count");
    struct slice parts[] = {SLICE("map"), {"", 1}, run_id, {"", 1}, letter->item_id};
    letter->dlq_id = derive_id(form, parts, sizeof(parts) / sizeof(parts[0]));
}

/* print_delivery makes the envelope of the job that would deliver a receipt.  Where to, nobody
 * knows yet. */
static struct slice print_delivery(struct form *form, struct json receipt)
{
    struct call *call = form->call;
    struct delivery_order order = {.body = receipt};
    struct buf text;
    buf_init(&text, ENVELOPE_BODY_MAX);
    delivery_print(&order, &text);
    struct slice body = arena_dup(&call->arena, buf_slice(&text));
    if (text.status == STATUS_TOO_LARGE)
        call_fail(call, STATUS_TOO_LARGE, "receipt: has more than %d bytes", ENVELOPE_BODY_MAX);
    else if (text.status != STATUS_OK || !body.ptr)
        no_memory(call);
    buf_release(&text);
    return body;
}

/* receipt_id derives the dlq_id of an entry.  How the entry is laid out does not matter, as the
 * file of them is written anew whenever one comes or goes. */
static struct slice receipt_id(struct form *form, struct json receipt)
{
    char failed_at[INSTANT_TEXT_SIZE] = "", attempts[16];
    struct instant t = body_instant(form->call, form->object, "failed_at");
    if (instant_is_set(t))
        instant_format(t, failed_at);
    snprintf(attempts, sizeof(attempts), "%u", form->letter->failure_count);
    struct slice parts[] = {SLICE("receipts"),   {"", 1}, receipt.raw,       {"", 1},
                            slice_of(failed_at), {"", 1}, slice_of(attempts)};
    return derive_id(form, parts, sizeof(parts) / sizeof(parts[0]));
}

/* date_receipt gives an entry that does not say when it failed the time at which it is taken in. */
static void date_receipt(struct form *form)
{
    struct letter *letter = form->letter;
    struct instant now;
    if (instant_is_set(letter->failed_at))
        return;
    form->call->status = call_now(form->call, &now);
    if (form->call->status != STATUS_OK)
        return;
    letter->failed_at = letter->first_attempt_at = letter->last_attempt_at = now;
}

/* read_receipt reads an entry of receipts.json.  It becomes a delivery for an endpoint that only a
 * person can name, so no machine replays it. */
static void read_receipt(struct form *form)
{
    struct call *call = form->call;
    struct letter *letter = form->letter;
    struct err err;
    struct json receipt = body_json(call, form->object, "receipt", JSON_OBJECT);
    if (call->status != STATUS_OK)
        return;
    enum status status = receipt_check(receipt, &err);
    if (status != STATUS_OK) {
        call_fail(call, status, "receipt: %s", err.text);
        return;
    }
    letter->source = SLICE(DELIVERY_SOURCE_RECEIPTS);
    letter->original_subject = SLICE("jobs." DELIVERY_QUEUE);
    letter->reason = SLICE(REASON_UNDELIVERABLE);
    take_envelope(form, print_delivery(form, receipt));
    form->last.message = SLICE("the receipt could not be delivered");
    form->last.has_class = true;
    form->last.given_class = CLASS_NETWORK;
    form->last.agent_id = body_text(call, receipt, "worker_id", ENVELOPE_ID_MAX);
    read_counts(form, "attempts");
    letter->dlq_id = receipt_id(form, receipt);
}

void import_form_read(struct call *call, struct slice text, struct slice run_id,
                      struct import_item *item)
{
    struct form form = {.call = call, .item = item, .letter = &item->letter};
    struct err err;
    *item = (struct import_item){0};
    failure_init(&form.last);
    enum status status = json_parse(text, &form.object, &err);
    if (status != STATUS_OK) {
        call_fail(call, status, "not JSON: %s", err.text);
        return;
    }
    bool is_receipt = has(form.object, "receipt");
    if (is_receipt)
        read_receipt(&form);
    else if (has(form.object, "original_subject") || has(form.object, "original_payload"))
        read_letter(&form);
    else if (has(form.object, "item_id") || has(form.object, "item_data"))
        read_item(&form, run_id);
    else
        call_fail(call, STATUS_INVALID,
                  "not a letter: expected original_payload, item_data or receipt");
    if (call->status != STATUS_OK)
        return;
    judge(&form);
    item->from_receipt = is_receipt;
    if (is_receipt)
        item->letter.recoverable = false;
    read_times(&form);
    if (is_receipt)
        date_receipt(&form);
    read_signature(&form);
}
