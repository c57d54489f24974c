/* letterform_judge: what a letter does not say follows from what it says. */
#include "engine/letterform_parts.h"

#include "core/reason.h"
#include "core/signature.h"

#define FINGERPRINT_MAX 64 /* bytes of a fingerprint that was made elsewhere */
#define SIGNATURE_GIVEN_MAX 1024
#define GO_ZERO_TIME_US (-62135596800000000) /* 0001-01-01T00:00:00Z */

void form_no_memory(struct form *form)
{
    members_fail(&form->members, STATUS_NO_MEMORY, "out of memory");
}

bool form_has(const struct form *form, const char *name)
{
    struct json value;
    return members_get(&form->members, form->object, name, &value) && value.type != JSON_NULL;
}

struct slice form_text(struct form *form, const char *name, size_t max)
{
    return members_text(&form->members, form->object, name, max);
}

/* form_instant reads a time.  The year 1 is how Go writes a time that was never set; an entry of
 * receipts.json, which no program in Go writes, is found again by the time that it has. */
struct instant form_instant(struct form *form, struct json object, const char *name)
{
    struct instant t = members_instant(&form->members, object, name);
    return t.us == GO_ZERO_TIME_US && !form->item->from_receipt ? INSTANT_NONE : t;
}

bool form_bool(struct form *form, const char *name, bool fallback)
{
    return members_bool(&form->members, form->object, name, fallback);
}

uint32_t form_count(struct form *form, struct json object, const char *name, uint32_t fallback)
{
    return (uint32_t)members_int(&form->members, object, name, 0, FORM_COUNT_MAX, fallback);
}

static void read_safety(struct form *form)
{
    struct slice name = form_text(form, "replay_safety", ENVELOPE_ID_MAX);
    if (name.len == 0)
        return;
    for (int i = REPLAY_SAFE; i <= REPLAY_UNSAFE; i++) {
        if (slice_is(name, replay_safety_name((enum replay_safety)i))) {
            form->letter->replay_safety = (enum replay_safety)i;
            return;
        }
    }
    members_fail(&form->members, STATUS_INVALID, "replay_safety: must be safe, unknown or unsafe");
}

/* read_flags takes over what the sender judged, and completes it. */
static void read_flags(struct form *form)
{
    struct letter *letter = form->letter;
    if (form_has(form, "recoverable") && !form_has(form, "reprocess_eligible") &&
        !form_has(form, "manual_review_required")) {
        letter->eligible = form_bool(form, "recoverable", false);
        letter->review = !letter->eligible;
    }
    letter->eligible = form_bool(form, "reprocess_eligible", letter->eligible);
    letter->review = form_bool(form, "manual_review_required", letter->review);
    letter->escalated = form_bool(form, "escalated", false);
    letter->recoverable =
        form_bool(form, "recoverable", letter->eligible && !letter->review && !letter->escalated);
    read_safety(form);
}

/* class_of is the class of the last failure.  Where only its words tell, a reason that says that
 * the work cannot succeed says more. */
static enum failure_class class_of(const struct form *form)
{
    enum failure_class class = failure_class(&form->last);
    enum failure_class by_reason = reason_class(form->last.reason);
    bool told = form->last.has_class || form->last.interrupted;
    if (class == CLASS_UNKNOWN && !told)
        return by_reason;
    return told || class_is_retryable(by_reason) || !class_is_retryable(class) ? class : by_reason;
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
    enum failure_class class = class_of(form);
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

/* read_signature takes the grouping that was given, or makes it.  Of what came from elsewhere the
 * reason is the only type of error there is. */
static void read_signature(struct form *form)
{
    struct letter *letter = form->letter;
    if (letter->foreign && form->last.error_type.len == 0)
        form->last.error_type = letter->reason;
    struct arena *arena = form->members.arena;
    letter->signature = form_text(form, "error_signature", SIGNATURE_GIVEN_MAX);
    letter->fingerprint = form_text(form, "fingerprint", FINGERPRINT_MAX);
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
        form_no_memory(form);
    letter->error_type =
        form->last.error_type.len ? letter_name(form->last.error_type) : SLICE("Unknown");
    letter->agent = letter_name(form->last.agent_id);
    letter->artifacts =
        members_json(&form->members, form->object, "worktree_artifacts", JSON_OBJECT).raw;
    struct err err;
    if (letter->artifacts.len == 0 &&
        letter_artifacts(&form->last, arena, &letter->artifacts, &err) != STATUS_OK)
        form_no_memory(form);
}

/* read_times reads when.  A letter that was published was published when it died; otherwise what
 * is not said is taken from the attempts, and at last from when the letter came. */
static void read_times(struct form *form)
{
    struct letter *letter = form->letter;
    const struct import_item *item = form->item;
    letter->failed_at = form_instant(form, form->object, "failed_at");
    letter->first_attempt_at = form_instant(form, form->object, "first_attempt");
    letter->last_attempt_at = form_instant(form, form->object, "last_attempt");
    if (!instant_is_set(letter->failed_at) && form->origin->subject.len)
        letter->failed_at = form->origin->at;
    if (!instant_is_set(letter->last_attempt_at))
        letter->last_attempt_at = instant_is_set(form->last.at) ? form->last.at : letter->failed_at;
    if (!instant_is_set(letter->last_attempt_at))
        letter->last_attempt_at = form->origin->at;
    if (item->attempt_count && !instant_is_set(letter->first_attempt_at))
        letter->first_attempt_at = item->attempts[0].failure.at;
    if (!instant_is_set(letter->first_attempt_at))
        letter->first_attempt_at = letter->last_attempt_at;
    if (!instant_is_set(letter->failed_at))
        letter->failed_at = letter->last_attempt_at;
}

void form_judge(struct form *form)
{
    judge(form);
    if (form->item->from_receipt)
        form->letter->recoverable = false;
    read_times(form);
    read_signature(form);
}
