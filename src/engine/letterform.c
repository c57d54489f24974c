/* letterform: four forms, one letter. */
#include "engine/letterform_parts.h"

#include <stdio.h>

#include "base/jsonw.h"
#include "core/delivery.h"
#include "core/envelope.h"
#include "core/reason.h"
#include "core/uuid.h"
#include "engine/payload.h"

#define SUBJECT_MAX 4096                          /* bytes of an original_subject */
#define MALFORMED_KEPT (ENVELOPE_BODY_MAX - 1024) /* bytes of a message that is too long */
#define UUID_ZERO "00000000-0000-0000-0000-000000000000"

/* derive_id makes a UUID (version 8) of the parts: the same parts have the same id. */
static struct slice derive_id(struct form *form, const struct slice *parts, size_t count)
{
    struct hash hash = hash_sha256(parts, count);
    struct uuid uuid;
    char text[UUID_TEXT_LEN + 1];
    memcpy(uuid.bytes, hash.bytes, sizeof(uuid.bytes));
    uuid.bytes[6] = (uint8_t)((uuid.bytes[6] & 0x0f) | 0x80);
    uuid.bytes[8] = (uint8_t)((uuid.bytes[8] & 0x3f) | 0x80);
    uuid_format(uuid, text);
    struct slice id = arena_dup(form->members.arena, (struct slice){text, UUID_TEXT_LEN});
    if (!id.ptr)
        form_no_memory(form);
    return id;
}

/* place_id is the id of a letter that has none: of the place where it stood, or of its content. */
static struct slice place_id(struct form *form, struct slice content)
{
    return derive_id(form, form->origin->seed.len ? &form->origin->seed : &content, 1);
}

/* ---- history --------------------------------------------------------------------------------- */

/* read_detail reads an attempt with the map system's names, which are also Lazaret's. */
static void read_detail(struct form *form, struct json entry, struct import_attempt *attempt)
{
    struct err err;
    enum status status = failure_parse(entry, form->members.arena, &attempt->failure, &err);
    if (status != STATUS_OK)
        members_fail(&form->members, status, "failure_history: %s", err.text);
    attempt->failure.at = form_instant(form, entry, "timestamp");
    attempt->attempt = form_count(form, entry, "attempt_number", 0);
    struct json decision;
    if (json_get(entry, "decision", &decision) && decision.type == JSON_OBJECT)
        attempt->decision = decision.raw;
}

/* read_retry reads an attempt with the swarm's names. */
static void read_retry(struct form *form, struct json entry, struct import_attempt *attempt)
{
    struct members *members = &form->members;
    failure_init(&attempt->failure);
    attempt->failure.message = members_text(members, entry, "failure_reason", SIZE_MAX);
    attempt->failure.agent_id = members_text(members, entry, "agent", SIZE_MAX);
    attempt->failure.at = form_instant(form, entry, "attempted_at");
    attempt->attempt = form_count(form, entry, "attempt", 0);
    if (attempt->failure.message.len == 0)
        attempt->failure.message = SLICE("no reason was given");
}

/* read_history reads an array of attempts.  Their numbers grow: one that does not is given the
 * next, as the evidence of a job has one record for each. */
static void read_history(struct form *form, const char *name,
                         void (*read)(struct form *, struct json, struct import_attempt *))
{
    struct members *members = &form->members;
    struct json array = members_json(members, form->object, name, JSON_ARRAY), entry;
    size_t count = json_count(array);
    if (count > FORM_COUNT_MAX)
        members_fail(members, STATUS_INVALID, "%s: has more than %d entries", name, FORM_COUNT_MAX);
    if (count == 0 || members->status != STATUS_OK)
        return;
    struct import_attempt *attempts = arena_array(members->arena, count, sizeof(*attempts));
    if (!attempts) {
        form_no_memory(form);
        return;
    }
    struct json_iter iter;
    uint32_t number = 0;
    size_t n = 0;
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &entry) && members->status == STATUS_OK) {
        struct import_attempt *attempt = &attempts[n++];
        read(form, entry, attempt);
        number = attempt->attempt > number ? attempt->attempt : number + 1;
        attempt->attempt = number;
    }
    form->item->attempts = attempts;
    form->item->attempt_count = n;
    form->last = attempts[n - 1].failure;
}

/* read_counts reads how often; never less than the attempts that are recorded. */
static void read_counts(struct form *form, const char *count_name)
{
    struct letter *letter = form->letter;
    const struct import_item *item = form->item;
    uint32_t recorded = item->attempt_count ? item->attempts[item->attempt_count - 1].attempt : 0;
    letter->failure_count = form_count(form, form->object, count_name, recorded);
    if (letter->failure_count < recorded)
        letter->failure_count = recorded;
    letter->max_attempts = form_count(form, form->object, "max_retries", letter->failure_count);
}

/* ---- the payload ----------------------------------------------------------------------------- */

/* take_envelope makes `body` the letter's envelope: the job can live again here. */
static void take_envelope(struct form *form, struct slice body)
{
    struct envelope envelope;
    struct err err = {0};
    struct letter *letter = form->letter;
    if (form->members.status != STATUS_OK)
        return;
    enum status status =
        envelope_parse(body, ENVELOPE_BODY_MAX, form->members.arena, &envelope, &err);
    if (status != STATUS_OK) {
        members_fail(&form->members, status, "envelope: %s", err.text);
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
    struct members *members = &form->members;
    struct json value;
    struct err err;
    struct slice encoding = form_text(form, "payload_encoding", ENVELOPE_ID_MAX);
    if (members->status != STATUS_OK)
        return;
    form->letter->foreign = true;
    if (!members_get(&form->members, form->object, "original_payload", &value)) {
        members_fail(members, STATUS_INVALID, "original_payload: is required");
        return;
    }
    enum status status = payload_read(value, encoding, members->arena, &form->item->body, &err);
    if (status != STATUS_OK)
        members_fail(members, status, "%s", err.text);
    else if (form->item->body.len > ENVELOPE_BODY_MAX)
        members_fail(members, STATUS_TOO_LARGE, "original_payload: has more than %d bytes",
                     ENVELOPE_BODY_MAX);
}

/* ---- the forms ------------------------------------------------------------------------------- */

/* read_state reads what has become of the letter.  One that was being replayed elsewhere is dead
 * here: nobody here will say how that ended. */
static void read_state(struct form *form)
{
    struct letter *letter = form->letter;
    struct slice name = form_text(form, "state", ENVELOPE_ID_MAX);
    bool recovered = form_bool(form, "recovered", false);
    letter->state = recovered ? LETTER_RECOVERED : LETTER_DEAD;
    if (name.len && !letter_state_from_name(name, &letter->state))
        members_fail(&form->members, STATUS_INVALID, "state: \"%.*s\" is no state of a letter",
                     SLICE_ARG(name));
    if (letter->state == LETTER_RECOVERING)
        letter->state = LETTER_DEAD;
    if (letter->state == LETTER_DEAD)
        return;
    letter->recovered_at = form_instant(form, form->object, "recovered_at");
    letter->recovered_by = form_text(form, "recovered_by", ENVELOPE_ID_MAX);
}

/* one_spelling is the id in the one form that it is kept in: of a UUID, small letters.  To a
 * database both are the same. */
static struct slice one_spelling(struct form *form, struct slice id)
{
    struct uuid uuid;
    char text[UUID_TEXT_LEN + 1];
    if (!uuid_parse(id, &uuid))
        return id;
    uuid_format(uuid, text);
    struct slice kept = arena_dup(form->members.arena, (struct slice){text, UUID_TEXT_LEN});
    if (!kept.ptr)
        form_no_memory(form);
    return kept;
}

/* read_words reads the texts of a letter, and takes from the subject what they leave open. */
static void read_words(struct form *form)
{
    struct letter *letter = form->letter;
    struct slice subject = form->origin->subject;
    letter->dlq_id = one_spelling(form, form_text(form, "dlq_id", ENVELOPE_ID_MAX));
    letter->original_subject = form_text(form, "original_subject", SUBJECT_MAX);
    letter->reason = form_text(form, "reason", ENVELOPE_ID_MAX);
    letter->reason_detail = form_text(form, "reason_detail", SIZE_MAX);
    letter->source = form_text(form, "source", ENVELOPE_ID_MAX);
    letter->job_id = form_text(form, "job_id", ENVELOPE_ID_MAX);
    letter->queue = form_text(form, "queue", ENVELOPE_QUEUE_MAX);
    letter->trace_id = form_text(form, "trace_id", ENVELOPE_ID_MAX);
    letter->item_id = form_text(form, "item_id", ENVELOPE_ID_MAX);
    if (letter->original_subject.len == 0)
        members_fail(&form->members, STATUS_INVALID, "original_subject: is required");
    if (letter->reason.len == 0 && subject.len <= ENVELOPE_ID_MAX)
        letter->reason = reason_of_subject(subject);
    if (letter->source.len == 0)
        letter->source = reason_source(subject);
    if (letter->source.len == 0)
        letter->source = SLICE("unknown");
}

/* read_letter reads the swarm's form and Lazaret's own, which begins with it. */
static void read_letter(struct form *form)
{
    struct letter *letter = form->letter;
    read_words(form);
    struct json envelope = members_json(&form->members, form->object, "envelope", JSON_OBJECT);
    if (envelope.raw.len)
        take_envelope(form, envelope.raw);
    else
        take_payload(form);
    if (form_has(form, "failure_history"))
        read_history(form, "failure_history", read_detail);
    else
        read_history(form, "retry_history", read_retry);
    read_state(form);
    letter->job.redrive_count = (uint16_t)form_count(form, form->object, "redrive_count", 0);
    read_counts(form, form_has(form, "failure_count") ? "failure_count" : "retry_count");
    if (letter->dlq_id.len == 0 || slice_is(letter->dlq_id, UUID_ZERO))
        letter->dlq_id = place_id(form, form->object.raw);
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

/* keep_text puts what was printed, of the member `name`, into the arena. */
static struct slice keep_text(struct form *form, const char *name, struct buf *text)
{
    struct slice kept = arena_dup(form->members.arena, buf_slice(text));
    if (text->status == STATUS_TOO_LARGE)
        members_fail(&form->members, STATUS_TOO_LARGE, "%s: has more than %d bytes", name,
                     ENVELOPE_BODY_MAX);
    else if (text->status != STATUS_OK || !kept.ptr)
        form_no_memory(form);
    buf_release(text);
    return kept;
}

/* read_item reads the map system's form.  Its item becomes the envelope of a job, so that it can be
 * tried again. */
static void read_item(struct form *form)
{
    struct letter *letter = form->letter;
    struct slice run_id = form->origin->run_id;
    struct json data;
    struct buf text;
    struct slice given = form_text(form, "job_id", ENVELOPE_ID_MAX);
    if (given.len)
        run_id = given;
    letter->item_id = form_text(form, "item_id", ENVELOPE_ID_MAX);
    letter->source = SLICE("map");
    letter->original_subject = SLICE("jobs.map");
    members_get(&form->members, form->object, "item_data", &data);
    if (letter->item_id.len == 0)
        members_fail(&form->members, STATUS_INVALID, "item_id: is required");
    buf_init(&text, ENVELOPE_BODY_MAX);
    print_item_envelope(form, run_id, data, &text);
    take_envelope(form, keep_text(form, "item_data", &text));
    read_history(form, "failure_history", read_detail);
    read_counts(form, "failure_count");
    struct slice parts[] = {SLICE("map"), {"", 1}, run_id, {"", 1}, letter->item_id};
    letter->dlq_id = derive_id(form, parts, sizeof(parts) / sizeof(parts[0]));
}

/* print_delivery makes the envelope of the job that would deliver a receipt.  Where to, nobody
 * knows yet. */
static struct slice print_delivery(struct form *form, struct json receipt)
{
    struct delivery_order order = {.body = receipt};
    struct buf text;
    buf_init(&text, ENVELOPE_BODY_MAX);
    delivery_print(&order, &text);
    return keep_text(form, "receipt", &text);
}

/* receipt_id derives the dlq_id of an entry.  How the entry is laid out does not matter, as the
 * file of them is written anew whenever one comes or goes. */
static struct slice receipt_id(struct form *form, struct json receipt)
{
    char failed_at[INSTANT_TEXT_SIZE] = "", attempts[16];
    struct instant t = form_instant(form, form->object, "failed_at");
    if (instant_is_set(t))
        instant_format(t, failed_at);
    snprintf(attempts, sizeof(attempts), "%u", form->letter->failure_count);
    struct slice parts[] = {SLICE("receipts"),   {"", 1}, receipt.raw,       {"", 1},
                            slice_of(failed_at), {"", 1}, slice_of(attempts)};
    return derive_id(form, parts, sizeof(parts) / sizeof(parts[0]));
}

/* read_receipt reads an entry of receipts.json.  It becomes a delivery for an endpoint that only a
 * person can name, so no machine replays it. */
static void read_receipt(struct form *form)
{
    struct members *members = &form->members;
    struct letter *letter = form->letter;
    struct err err;
    struct json receipt = members_json(members, form->object, "receipt", JSON_OBJECT);
    if (members->status != STATUS_OK)
        return;
    enum status status = receipt_check(receipt, &err);
    if (status != STATUS_OK) {
        members_fail(members, status, "receipt: %s", err.text);
        return;
    }
    letter->source = SLICE(DELIVERY_SOURCE_RECEIPTS);
    letter->original_subject = SLICE("jobs." DELIVERY_QUEUE);
    letter->reason = SLICE(REASON_UNDELIVERABLE);
    take_envelope(form, print_delivery(form, receipt));
    form->last.message = SLICE("the receipt could not be delivered");
    form->last.has_class = true;
    form->last.given_class = CLASS_NETWORK;
    form->last.agent_id = members_text(members, receipt, "worker_id", ENVELOPE_ID_MAX);
    read_counts(form, "attempts");
    letter->dlq_id = receipt_id(form, receipt);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* form_init begins a letter. */
static void form_init(struct form *form, const struct letterform_origin *origin,
                      struct arena *arena, struct import_item *item, struct err *err)
{
    *item = (struct import_item){0};
    form->members = (struct members){.arena = arena, .err = err, .index = &form->index};
    form->origin = origin;
    form->object = (struct json){0};
    form->index.object = (struct json){0};
    form->item = item;
    form->letter = &item->letter;
    form->has_key = form->human_ack = false;
    failure_init(&form->last);
}

/* complete fills what follows from what was read. */
static enum status complete(struct form *form)
{
    if (form->members.status != STATUS_OK)
        return form->members.status;
    form_judge(form);
    return form->members.status;
}

enum status letterform_read(struct slice text, const struct letterform_origin *origin,
                            struct arena *arena, struct import_item *item, struct err *err)
{
    struct form form;
    form_init(&form, origin, arena, item, err);
    enum status status = json_parse(text, &form.object, err);
    if (status != STATUS_OK) {
        err_prefix(err, "not JSON");
        return status;
    }
    members_index_fill(&form.index, form.object);
    item->from_receipt = form_has(&form, "receipt");
    if (item->from_receipt)
        read_receipt(&form);
    else if (form_has(&form, "original_subject") || form_has(&form, "original_payload"))
        read_letter(&form);
    else if (form_has(&form, "item_id") || form_has(&form, "item_data"))
        read_item(&form);
    else
        members_fail(&form.members, STATUS_INVALID,
                     "not a letter: expected original_payload, item_data or receipt");
    return complete(&form);
}

/* cut_payload keeps as much of the bytes as a letter may have, and says in `why` what it left. */
static void cut_payload(struct form *form, struct slice bytes)
{
    struct buf text;
    buf_init(&text, ENVELOPE_BODY_MAX);
    size_t cut = text_truncate(bytes, MALFORMED_KEPT, &text);
    form->item->body = keep_text(form, "the message", &text);
    struct slice why = form->letter->reason_detail;
    why = arena_printf(form->members.arena, "%.*s; truncated_bytes: %zu", SLICE_ARG(why), cut);
    if (!why.ptr)
        form_no_memory(form);
    form->letter->reason_detail = why;
}

enum status letterform_malformed(struct slice bytes, const struct letterform_origin *origin,
                                 const char *why, struct arena *arena, struct import_item *item,
                                 struct err *err)
{
    struct form form;
    form_init(&form, origin, arena, item, err);
    struct letter *letter = form.letter;
    struct slice detail = arena_dup(arena, slice_of(why));
    /* A sentence that was too long may end within a character. */
    while (detail.len && !json_utf8_valid(detail))
        detail.len--;
    letter->foreign = true;
    letter->original_subject = origin->subject;
    letter->reason = SLICE(REASON_MALFORMED);
    letter->reason_detail = detail;
    letter->source = reason_source(origin->subject);
    if (letter->source.len == 0)
        letter->source = SLICE("unknown");
    form.last.message = detail;
    form.last.has_class = true;
    form.last.given_class = CLASS_MALFORMED_PAYLOAD;
    item->body = bytes;
    if (bytes.len > ENVELOPE_BODY_MAX)
        cut_payload(&form, bytes);
    letter->dlq_id = place_id(&form, bytes);
    if (!detail.ptr)
        form_no_memory(&form);
    return complete(&form);
}
