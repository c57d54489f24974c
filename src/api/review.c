/* review: reading the body of a review action. */
#include "api/review.h"

#include "api/mask.h"
#include "core/envelope.h"

const char *review_members(enum review_action action)
{
    return action == REVIEW_RETRY ? REVIEW_RETRY_MEMBERS : REVIEW_MEMBERS;
}

/* read_retry reads what only a retry may say. */
static void read_retry(struct call *call, struct json body, struct review_command *command)
{
    command->patch = body_json(call, body, "patch", JSON_ARRAY).raw;
    mask_check_patch(call, command->patch);
    command->merge = body_json(call, body, "merge", JSON_OBJECT).raw;
    command->queue = body_text(call, body, "queue", ENVELOPE_QUEUE_MAX);
    command->policy = body_text(call, body, "policy", POLICY_NAME_MAX);
    command->attempts_max =
        (uint32_t)body_int(call, body, "max_retries", 1, POLICY_ATTEMPTS_MAX, 0);
    command->hold = body_bool(call, body, "hold", false);
    command->claim = body_bool(call, body, "claim", false);
}

void review_read(struct call *call, struct json body, enum review_action action, struct slice by,
                 struct review_command *command)
{
    struct slice actor = body_text(call, body, "actor", ENVELOPE_ID_MAX);
    *command = (struct review_command){.command = call_command_by(call, COMMAND_REVIEW, actor),
                                       .action = action,
                                       .refuse_review = call->request->role < ROLE_REVIEWER,
                                       .note = body_text(call, body, "note", BODY_NOTE_MAX)};
    if (action == REVIEW_RETRY) {
        command->by = actor.len ? command->command.actor : by;
        read_retry(call, body, command);
    }
}

struct slice review_refusal(const struct review_item *item)
{
    if (item->status == STATUS_NOT_FOUND)
        return SLICE("dlq entry not found");
    if (item->status == STATUS_UNAVAILABLE)
        return SLICE("failed to republish");
    return slice_of(item->err.text);
}
