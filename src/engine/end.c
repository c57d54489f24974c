/* end.c: how a job ends well or by somebody's wish, and what becomes of the letter that waits for
 * it.
 *
 * A letter that was brought back with `hold` is recovering, and follows its job, in the transaction
 * that ends it (core/letter.c has the table):
 *
 *     recovering --job done-------> recovered   by who brought it back
 *          |-------job cancelled--> discarded   by who cancelled it
 *          `-------job dies-------> dead        (quarantine.c)
 *
 * The event of the job's end names the letter and what it is from then on.  So a recovering letter
 * always has a live job. */
#include "engine/internal.h"

/* who_cancelled finds who asked for the end of a job that was running then: the actor of its last
 * cancel-requested event, which is among the last of the job's. */
static enum status who_cancelled(struct engine *engine, const struct job *job, struct arena *arena,
                                 struct slice *out, struct err *err)
{
    for (int64_t seq = job->event_seq; seq > 0;) {
        struct event *event;
        size_t count;
        enum status status =
            engine->store->event_list(engine->store, seq - 1, 1, arena, &event, &count, err);
        if (status || !count)
            return status;
        if (slice_is(event->what, EVENT_CANCEL_WANTED)) {
            *out = event->actor;
            return STATUS_OK;
        }
        seq = event->previous_seq;
    }
    return STATUS_OK;
}

/* held_letter reads the letter, when it is held, and makes it what it is from the job's end on.
 * Else `out` is untouched. */
static enum status held_letter(struct engine *engine, const struct job *job, enum job_state end,
                               struct slice actor, struct arena *arena, struct letter *out,
                               struct err *err)
{
    struct letter letter;
    if (!(job->flags & JOB_HAS_LETTER))
        return STATUS_OK;
    enum status status = engine->store->letter_by_job(engine->store, job->seq, arena, &letter, err);
    if (status == STATUS_NOT_FOUND) {
        err->text[0] = '\0';
        return STATUS_OK;
    }
    if (status || letter.state != LETTER_RECOVERING)
        return status;
    letter.state = letter_after(letter.state, end);
    letter.recovered_at = engine->now;
    if (end == JOB_CANCELLED) {
        letter.recovered_by = actor;
        if (job->flags & JOB_CANCEL_WANTED)
            status = who_cancelled(engine, job, arena, &letter.recovered_by, err);
    }
    *out = letter;
    return status;
}

enum status job_end(struct engine *engine, struct job *job, enum job_move move, struct slice actor,
                    struct slice result, struct arena *arena, struct slice *job_id, struct err *err)
{
    struct store *store = engine->store;
    struct letter letter = {0}; /* without a dlq_id: none is held */
    enum status status = store->envelope_job_id(store, job->envelope_seq, arena, job_id, err);
    if (!status)
        status = held_letter(engine, job, job_next((enum job_state)job->state, move), actor, arena,
                             &letter, err);
    if (status)
        return status;
    job_move(job, move);
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_int(&why, "attempt", job->attempt);
    if (letter.dlq_id.len) {
        jsonw_put_string(&why, "dlq_id", letter.dlq_id);
        jsonw_put_str(&why, "letter", letter_state_name(letter.state));
        jsonw_put_string(&why, "by", letter.recovered_by);
    }
    const char *what = move == MOVE_COMPLETE ? EVENT_COMPLETED : EVENT_CANCELLED;
    status = event_end(engine, &why, actor, job, what, err);
    if (!status)
        status = store->job_finish(store, job, *job_id, engine->now, result, err);
    if (!status && letter.dlq_id.len)
        status = store->letter_put(store, &letter, NULL, false, err);
    return status;
}
