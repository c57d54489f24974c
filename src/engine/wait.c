/* wait.c: leases that wait for a job without holding a thread.
 *
 * A lease that finds nothing ready and may wait is parked.  Every batch that may have made a job
 * ready tries the parked ones again in the order in which they came, in its own transaction: so a
 * waiting worker has the job with the commit that made it ready.  Behind them it tries its own
 * leases that found nothing, as what makes a job ready may stand behind them in the batch, and
 * those that waited for the dispatch (dispatch.c), which comes before all of this. */
#include "engine/internal.h"

/* wants_to_wait says whether a command is a lease that found nothing and may wait. */
static bool wants_to_wait(const struct command *command)
{
    const struct lease_command *lease = (const struct lease_command *)command;
    return command->kind == COMMAND_LEASE && !command->status && !lease->count &&
           lease->wait.us > 0 && !atomic_load(&lease->abandoned);
}

bool park(struct engine *engine, struct command *command)
{
    struct lease_command *lease = (struct lease_command *)command;
    if (!wants_to_wait(command))
        return false;
    lease->wait_until = instant_add(engine->now, lease->wait);
    struct command **end = &engine->parked;
    while (*end)
        end = &(*end)->next;
    command->next = NULL;
    *end = command;
    return true;
}

bool wait_is_over(const struct engine *engine, const struct lease_command *lease)
{
    return !instant_before(engine->now, lease->wait_until) || atomic_load(&lease->abandoned);
}

enum status parked_apply(struct engine *engine, struct err *err)
{
    for (struct command *command = engine->parked; command; command = command->next) {
        struct lease_command *lease = (struct lease_command *)command;
        if (wait_is_over(engine, lease))
            continue;
        enum status status = lease_fill(engine, lease, err);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* is_open says whether a lease of the batch may have been left for the end of it. */
static bool is_open(const struct engine *engine, const struct command *command)
{
    return engine->leases_open && command->kind == COMMAND_LEASE && !command->status;
}

enum status unparked_apply(struct engine *engine, struct command *batch, struct err *err)
{
    for (struct command *command = batch; command; command = command->next) {
        if (!wants_to_wait(command) && !is_open(engine, command))
            continue;
        enum status status = lease_fill(engine, (struct lease_command *)command, err);
        if (status)
            return status;
    }
    return STATUS_OK;
}

void command_done(struct engine *engine, struct command *command)
{
    struct lease_command *lease = (struct lease_command *)command;
    if (command->kind == COMMAND_LEASE && lease->worker) {
        workers_answered(engine->workers, lease->worker, !atomic_load(&lease->abandoned),
                         engine->now);
        lease->worker = NULL;
    }
    command->done(command);
}

void parked_undo(struct engine *engine)
{
    for (struct command *command = engine->parked; command; command = command->next) {
        ((struct lease_command *)command)->count = 0;
        command->status = STATUS_OK;
        command->err.text[0] = '\0';
    }
}

void parked_answer(struct engine *engine, bool all)
{
    struct command **link = &engine->parked;
    while (*link) {
        struct command *command = *link;
        const struct lease_command *lease = (const struct lease_command *)command;
        if (!all && !lease->count && !wait_is_over(engine, lease)) {
            link = &command->next;
            continue;
        }
        *link = command->next;
        command_done(engine, command);
    }
}

void parked_shift(struct engine *engine, struct span by)
{
    for (struct command *command = engine->parked; command; command = command->next) {
        struct lease_command *lease = (struct lease_command *)command;
        lease->wait_until = instant_add(lease->wait_until, by);
    }
}

struct instant parked_wake(const struct engine *engine)
{
    struct instant wake = INSTANT_NEVER;
    for (const struct command *command = engine->parked; command; command = command->next) {
        const struct lease_command *lease = (const struct lease_command *)command;
        if (instant_before(lease->wait_until, wake))
            wake = lease->wait_until;
    }
    return wake;
}

void engine_abandon(struct engine *engine, struct lease_command *lease)
{
    atomic_store(&lease->abandoned, true);
    pthread_mutex_lock(&engine->lock);
    engine->abandoned = true;
    pthread_cond_signal(&engine->arrived);
    pthread_mutex_unlock(&engine->lock);
}
