/* share.c: what servers that share a store, and programs that share its relations, agree about:
 * who has a duty, and what became of letters elsewhere. */
#include "engine/internal.h"

/* may_take says whether `holder` has the duty, or may have it now. */
static bool may_take(const struct engine *engine, const struct duty *duty, struct slice holder)
{
    return slice_eq(duty->holder, holder) || !instant_before(engine->now, duty->until);
}

enum status duty_apply(struct engine *engine, struct duty_command *command)
{
    struct err *err = &command->command.err;
    struct store *store = engine->store;
    struct duty duty = {0};
    enum status status = store->duty_get(store, command->name, command->command.arena, &duty, err);
    bool known = status == STATUS_OK;
    command->held = false;
    if (status && status != STATUS_NOT_FOUND)
        return status;
    err->text[0] = '\0';
    if (known && !may_take(engine, &duty, command->holder)) {
        command->cursor = duty.cursor;
        return STATUS_OK;
    }
    if (command->advance && (!known || slice_eq(duty.holder, command->holder)))
        duty.cursor = command->cursor;
    duty.name = command->name;
    duty.holder = command->holder;
    duty.until = instant_add(engine->now, command->ttl);
    command->cursor = duty.cursor;
    command->held = command->ttl.us > 0;
    return store->duty_put(store, &duty, err);
}

/* settle_recovered and settle_recoverable make the letter what the item says, and print it. */
static void settle_recovered(struct engine *engine, const struct settle_command *command,
                             const struct settle_item *item, struct letter *letter,
                             struct jsonw *why)
{
    letter->state = LETTER_RECOVERED;
    letter->recovered_by = item->by.len ? item->by : command->command.actor;
    letter->recovered_at = instant_is_set(item->at) ? item->at : engine->now;
    jsonw_put_string(why, "by", letter->recovered_by);
}

static void settle_recoverable(const struct settle_item *item, struct letter *letter,
                               struct jsonw *why)
{
    letter->recoverable = item->recoverable == YES && !letter->review && !letter->escalated;
    jsonw_put_bool(why, "recoverable", letter->recoverable);
}

/* settle_one takes note of what somebody else did with one letter.  A refusal is in the item. */
static enum status settle_one(struct engine *engine, const struct settle_command *command,
                              struct settle_item *item, struct err *err)
{
    struct store *store = engine->store;
    struct letter letter;
    enum status status =
        store->letter_get(store, item->dlq_id, command->command.arena, &letter, err);
    if (!status && letter.state != LETTER_DEAD)
        status = err_set(err, STATUS_CONFLICT, "the letter is %s", letter_state_name(letter.state));
    if (status)
        return status;
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "dlq_id", letter.dlq_id);
    if (item->recoverable == UNSAID)
        settle_recovered(engine, command, item, &letter, &why);
    else
        settle_recoverable(item, &letter, &why);
    status =
        event_end(engine, &why, command->command.actor, &letter.job, EVENT_SETTLED_ELSEWHERE, err);
    return status ? status : store->letter_put(store, &letter, NULL, false, err);
}

enum status inbox_done(struct engine *engine, const int64_t *seqs, size_t count, struct err *err)
{
    return count ? engine->store->inbox_done(engine->store, seqs, count, err) : STATUS_OK;
}

enum status settle_apply(struct engine *engine, struct settle_command *command)
{
    struct err *err = &command->command.err;
    for (size_t i = 0; i < command->count; i++) {
        struct settle_item *item = &command->items[i];
        item->status = settle_one(engine, command, item, err);
        if (status_is_fault(item->status))
            return item->status;
        item->err = *err;
        err->text[0] = '\0';
    }
    return inbox_done(engine, command->inbox, command->inbox_count, err);
}
