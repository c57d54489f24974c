/* interrupt.c: how the runs of a worker end that was cut off.
 *
 * A runner that is stopped, or that comes back after it was killed, says so once, for all leases
 * that it held: each ends as an interrupted failure, which is not the job's fault (core/retry.c).
 *
 * Who holds a lease is on disk, not in memory, so every running job has to be looked at.  One
 * command looks at INTERRUPT_PAGE of them, from the newest down: a hundred thousand jobs of other
 * workers are many short batches, and never one long one. */
#include "engine/internal.h"

#define INTERRUPT_PAGE 1000 /* running jobs that one command looks at */

/* default_message says what is known of the run: a job without a heartbeat may have begun too. */
static struct slice default_message(const struct job *job)
{
    return job->flags & JOB_STARTED
               ? SLICE("the runner was cut off while the job was running")
               : SLICE("the runner was cut off when it had taken the job: the command may have "
                       "begun");
}

static enum status interrupt_one(struct engine *engine, const struct interrupt_command *command,
                                 const struct job *job, struct err *err)
{
    struct failure failure;
    failure_init(&failure);
    failure.at = engine->now;
    failure.interrupted = true;
    failure.has_class = true;
    failure.given_class = CLASS_CRASHED;
    failure.error_type = SLICE("Unknown");
    failure.agent_id = command->worker_id;
    failure.message = command->message.len ? command->message : default_message(job);
    struct failed failed = {.job = *job, .failure = &failure, .actor = command->command.actor};
    numbers_attempt(engine->counted, job->queue, ATTEMPT_INTERRUPTED);
    workers_ended(engine->workers, job->seq, true, engine->now);
    return failure_apply(engine, &failed, &engine->arena, err);
}

enum status interrupt_apply(struct engine *engine, struct interrupt_command *command)
{
    struct err *err = &command->command.err;
    struct job_row *rows = NULL;
    size_t count = 0, interrupted = 0;
    enum status status = envelope_name_check("worker_id", command->worker_id, ENVELOPE_ID_MAX, err);
    if (!status)
        status =
            engine->store->job_list(engine->store, JOB_RUNNING, (struct slice){0}, command->cursor,
                                    INTERRUPT_PAGE, &engine->arena, &rows, &count, err);
    for (size_t i = 0; !status && i < count; i++) {
        if (!slice_eq(rows[i].worker, command->worker_id))
            continue;
        status = interrupt_one(engine, command, &rows[i].job, err);
        interrupted++;
    }
    if (status)
        return status;
    command->interrupted = interrupted;
    command->more = count == INTERRUPT_PAGE;
    if (count)
        command->cursor = rows[count - 1].job.seq;
    return STATUS_OK;
}
