/* await.c: those who wait for the outcome of letters that are on their way back.
 *
 * A letter is recovering exactly as long as its job is live.  So the letters are read twice, at the
 * beginning and at the end; in between it is enough to look for their jobs, in memory. */
#include "engine/internal.h"

/* look_up reads what a letter is; a recovering one has its job's seq noted. */
static enum status look_up(struct engine *engine, const struct await_command *command,
                           struct await_item *item, struct err *err)
{
    struct letter letter;
    enum status status = engine->store->letter_get(engine->store, item->dlq_id,
                                                   command->command.arena, &letter, err);
    if (status && status != STATUS_NOT_FOUND)
        return status;
    err->text[0] = '\0';
    item->state = status ? LETTER_STATE_COUNT : letter.state;
    item->job_seq = !status && letter.state == LETTER_RECOVERING ? letter.job.seq : 0;
    return STATUS_OK;
}

enum status await_begin(struct engine *engine, struct await_command *command)
{
    enum status status = STATUS_OK;
    command->pending = 0;
    command->wait_until = instant_add(engine->now, command->wait);
    for (size_t i = 0; !status && i < command->count; i++) {
        status = look_up(engine, command, &command->items[i], &command->command.err);
        command->pending += command->items[i].job_seq != 0;
    }
    return status;
}

/* await_look reads again those letters whose jobs are not live any more. */
static enum status await_look(struct engine *engine, struct await_command *command)
{
    struct job job;
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < command->count; i++) {
        struct await_item *item = &command->items[i];
        if (!item->job_seq || engine->store->job_by_seq(engine->store, item->job_seq, &job))
            continue;
        status = look_up(engine, command, item, &command->command.err);
        command->pending -= item->job_seq == 0;
    }
    return status;
}

bool await_park(struct engine *engine, struct command *command)
{
    const struct await_command *await = (const struct await_command *)command;
    if (command->kind != COMMAND_AWAIT || command->status || !await->pending || await->wait.us <= 0)
        return false;
    command->next = engine->awaiting;
    engine->awaiting = command;
    return true;
}

void await_answer(struct engine *engine, bool all)
{
    struct command **link = &engine->awaiting;
    while (*link) {
        struct command *command = *link;
        struct await_command *await = (struct await_command *)command;
        if (!engine->broken && !all)
            command->status = await_look(engine, await);
        if (!all && !command->status && await->pending &&
            instant_before(engine->now, await->wait_until)) {
            link = &command->next;
            continue;
        }
        *link = command->next;
        command->done(command);
    }
}

void await_shift(struct engine *engine, struct span by)
{
    for (struct command *command = engine->awaiting; command; command = command->next) {
        struct await_command *await = (struct await_command *)command;
        await->wait_until = instant_add(await->wait_until, by);
    }
}

struct instant await_wake(const struct engine *engine)
{
    struct instant wake = INSTANT_NEVER;
    for (const struct command *command = engine->awaiting; command; command = command->next) {
        const struct await_command *await = (const struct await_command *)command;
        if (instant_before(await->wait_until, wake))
            wake = await->wait_until;
    }
    return wake;
}
