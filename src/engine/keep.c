/* keep.c: how ended work is let go: by somebody's word (purge) or by the retention rules (sweep).
 *
 * Nothing disappears: each thing that goes leaves a tombstone with its ids and an event, and the
 * events of its life stay.  The rules are off unless the configuration sets them, and never touch
 * what is dead. */
#include "engine/internal.h"

#define SWEEP_EVERY_SECONDS 60

static enum status record_purge(struct engine *engine, struct slice actor, struct job *job,
                                struct slice job_id, struct slice dlq_id, const char *rule,
                                struct err *err)
{
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "job_id", job_id);
    jsonw_put_text(&why, "dlq_id", dlq_id);
    jsonw_put_str(&why, "rule", rule);
    return event_end(engine, &why, actor, job, EVENT_PURGED, err);
}

/* purge_letter removes a letter.  Its last event is found where the job is: it may have finished
 * after a replay. */
static enum status purge_letter(struct engine *engine, struct slice actor, struct letter *letter,
                                const char *rule, struct err *err)
{
    struct job_row row;
    enum status status =
        engine->store->job_find_seq(engine->store, letter->job.seq, &engine->arena, &row, err);
    if (status)
        return status;
    letter->job.event_seq = row.job.event_seq;
    status = record_purge(engine, actor, &letter->job, letter->job_id, letter->dlq_id, rule, err);
    return status ? status : engine->store->letter_purge(engine->store, letter, engine->now, err);
}

/* is_live says that the letter's job was brought back and has not ended. */
static bool is_live(struct engine *engine, const struct letter *letter)
{
    struct job job;
    return engine->store->job_by_seq(engine->store, letter->job.seq, &job);
}

/* ---- purge ----------------------------------------------------------------------------------- */

enum status purge_apply(struct engine *engine, struct purge_command *command)
{
    struct err *err = &command->command.err;
    command->purged = command->kept = 0;
    for (size_t i = 0; i < command->count; i++) {
        struct letter letter;
        enum status status = engine->store->letter_get(engine->store, command->dlq_ids[i],
                                                       command->command.arena, &letter, err);
        if (status == STATUS_NOT_FOUND) {
            err->text[0] = '\0';
            continue;
        }
        if (status)
            return status;
        bool open = letter.state == LETTER_DEAD || letter.state == LETTER_RECOVERING;
        if (is_live(engine, &letter) || (open && !command->force)) {
            command->kept++;
            continue;
        }
        status = purge_letter(engine, command->command.actor, &letter, "purge", err);
        if (status)
            return status;
        command->purged++;
    }
    return STATUS_OK;
}

/* ---- retention ------------------------------------------------------------------------------- */

bool sweep_wanted(const struct engine *engine)
{
    return instant_is_set(engine->sweep_at) && !instant_before(engine->now, engine->sweep_at);
}

static struct instant cutoff(const struct engine *engine, struct span keep)
{
    return instant_add(engine->now, (struct span){-keep.us});
}

/* is_kept says that a rule has nothing to purge: it is off, or the clock jumped less than its time
 * ago, so that the times of what was there before cannot be trusted to be that old. */
static bool is_kept(const struct engine *engine, struct span keep)
{
    return !keep.us || (instant_is_set(engine->jumped_at) &&
                        instant_before(cutoff(engine, keep), engine->jumped_at));
}

/* sweep_jobs purges jobs that ended long ago.  *more says that there may be others. */
static enum status sweep_jobs(struct engine *engine, bool *more, struct err *err)
{
    struct span keep = engine->config.retention.done;
    struct finished *list;
    size_t count;
    if (is_kept(engine, keep))
        return STATUS_OK;
    enum status status = engine->store->finished_before(
        engine->store, cutoff(engine, keep), SWEEP_BATCH, &engine->arena, &list, &count, err);
    for (size_t i = 0; !status && i < count; i++) {
        struct slice job_id;
        status = engine->store->envelope_job_id(engine->store, list[i].job.envelope_seq,
                                                &engine->arena, &job_id, err);
        if (!status)
            status = record_purge(engine, ENGINE_ACTOR, &list[i].job, job_id, (struct slice){0},
                                  "retention.done", err);
        if (!status)
            status = engine->store->finished_purge(engine->store, &list[i], engine->now, err);
    }
    *more = *more || (!status && count == SWEEP_BATCH);
    return status;
}

/* sweep_letters purges letters of one state that were settled long ago, a page at a time from where
 * the last sweep stopped: letters that are younger than they look are stepped over. */
static enum status sweep_letters(struct engine *engine, enum letter_state state, struct span keep,
                                 const char *rule, struct sweep *sweep, bool *more, struct err *err)
{
    struct letter *list;
    size_t count;
    if (is_kept(engine, keep))
        return STATUS_OK;
    struct instant before = cutoff(engine, keep);
    struct letter_filter filter = {.has_state = true,
                                   .state = state,
                                   .before = before,
                                   .oldest_first = true,
                                   .cursor = sweep->cursor,
                                   .limit = SWEEP_BATCH};
    enum status status =
        engine->store->letter_list(engine->store, &filter, &engine->arena, &list, &count, err);
    for (size_t i = 0; !status && i < count; i++) {
        sweep->cursor = list[i].position;
        if (instant_before(list[i].recovered_at, before) && !is_live(engine, &list[i]))
            status = purge_letter(engine, ENGINE_ACTOR, &list[i], rule, err);
    }
    if (!status && count < SWEEP_BATCH)
        sweep->cursor = 0;
    *more = *more || (!status && count == SWEEP_BATCH);
    return status;
}

enum status sweep_apply(struct engine *engine, struct err *err)
{
    const struct retention *retention = &engine->config.retention;
    bool more = false;
    enum status status = sweep_jobs(engine, &more, err);
    if (!status)
        status = sweep_letters(engine, LETTER_RECOVERED, retention->recovered,
                               "retention.recovered", &engine->sweeps[0], &more, err);
    if (!status)
        status = sweep_letters(engine, LETTER_ROLLED_BACK, retention->recovered,
                               "retention.recovered", &engine->sweeps[1], &more, err);
    if (!status)
        status = sweep_letters(engine, LETTER_DISCARDED, retention->discarded,
                               "retention.discarded", &engine->sweeps[2], &more, err);
    if (!status)
        engine->sweep_at =
            more ? engine->now : instant_add(engine->now, span_seconds(SWEEP_EVERY_SECONDS));
    return status;
}
