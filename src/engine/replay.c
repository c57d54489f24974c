/* replay.c: letters from elsewhere on their way back (core/replay.h).
 *
 *     dead --review: retry--> recovering, job pending in REPLAY_QUEUE
 *                                 |-- published ------------> recovered          (end.c)
 *                                 |-- publisher lost -------> the job is given to another
 *                                 `-- refused, or too often-> dead as it was before; for a person,
 *                                                             when it may have arrived
 *
 * The message id that the publisher uses is made of the letter's id and its redrive_count.  So the
 * count goes back when the message was not taken: whoever tries again uses the same id, and what
 * may have arrived all the same is dropped. */
#include "engine/internal.h"

#include "core/patch.h"
#include "core/replay.h"

bool replay_possible(const struct engine *engine)
{
    return atomic_load(&engine->publisher);
}

void engine_publisher(struct engine *engine, bool connected)
{
    atomic_store(&engine->publisher, connected);
}

uint64_t replay_origin(struct slice subject, struct slice payload)
{
    const struct slice parts[] = {subject, {"", 1}, payload};
    struct hash hash = hash_sha256(parts, 3);
    uint64_t origin = 0;
    for (int i = 0; i < 8; i++)
        origin = origin << 8 | hash.bytes[i];
    return origin ? origin : 1;
}

/* ---- out ------------------------------------------------------------------------------------- */

enum status replay_check(const struct engine *engine, const struct review_command *command,
                         struct err *err)
{
    if (command->queue.len || command->policy.len || command->claim || command->attempts_max)
        return err_set(err, STATUS_INVALID,
                       "the letter came from elsewhere and is published again: it has no queue, "
                       "no policy and no attempts here");
    if (engine->store->live_count(engine->store) >= engine->config.live_max)
        return err_set(err, STATUS_LIMIT, "%zu jobs are live, which is the limit: try again later",
                       engine->config.live_max);
    if (!replay_possible(engine))
        return err_set(
            err, STATUS_UNAVAILABLE,
            "failed to republish: the letter came from elsewhere, and no publisher is connected");
    return STATUS_OK;
}

enum status replay_revive(struct engine *engine, struct letter *letter, struct err *err)
{
    static const struct slice capability = SLICE(REPLAY_CAPABILITY);
    struct store *store = engine->store;
    struct job *job = &letter->job;
    job->state = JOB_DEAD;
    job_move(job, MOVE_REQUEUE);
    job->round_at = INSTANT_NONE;
    job->attempt_base = job->attempt;
    job->attempts_max = 0;
    job->redrive_count++;
    job->lease_nonce = 0;
    job->flags = JOB_HAS_LETTER | JOB_FOREIGN;
    job->due_at = engine->now;
    job->deadline_at = INSTANT_NEVER;
    enum status status = store->queue_number(store, SLICE(REPLAY_QUEUE), &job->queue, err);
    if (!status)
        status = store->capabilities_number(store, &capability, 1, &job->capabilities, err);
    return status;
}

enum status replay_live(struct engine *engine, const struct letter *letter, struct err *err)
{
    struct job job = letter->job;
    job.idempotency_hash = 0; /* of a letter from elsewhere it is its origin, and no key */
    engine->ready_changed = true;
    return engine->store->job_revive(engine->store, &job, err);
}

/* ---- back ------------------------------------------------------------------------------------ */

static void put_failure(struct jsonw *why, const struct failed *failed)
{
    jsonw_put_int(why, "attempt", failed->job.attempt);
    jsonw_put_str(why, "rule", failed->decision.rule);
    jsonw_put_str(why, "class", class_name(failed->decision.class));
    jsonw_put_string(why, "policy", failed->policy.name);
    jsonw_put_text(why, "message", failed->failure->message);
}

/* give_again has another publisher take the job. */
static enum status give_again(struct engine *engine, struct failed *failed, struct err *err)
{
    struct job *job = &failed->job;
    struct jsonw why;
    job_move(job, MOVE_RETRY);
    job->due_at = failed->decision.retry_at;
    job->deadline_at = INSTANT_NEVER;
    job->attempt_base += failed->decision.uncounted;
    event_begin(engine, &why);
    put_failure(&why, failed);
    jsonw_put_instant(&why, "next_retry_at", job->due_at);
    numbers_retry(engine->counted, failed->policy.name);
    enum status status = event_end(engine, &why, failed->actor, job, EVENT_REPLAY_FAILED, err);
    return status ? status : engine->store->job_update(engine->store, job, (struct slice){0}, err);
}

/* may_have_arrived: nobody knows whether the message was taken.  Then no machine sends it again. */
static bool may_have_arrived(const struct failure *failure)
{
    return failure->side_effects == EFFECTS_UNKNOWN || failure->side_effects == EFFECTS_COMMITTED;
}

/* give_up makes the letter what it was before, but for what is not known. */
static enum status give_up(struct engine *engine, struct failed *failed, struct arena *arena,
                           struct err *err)
{
    struct store *store = engine->store;
    struct job *job = &failed->job;
    struct letter *letter = &failed->letter;
    struct jsonw why;
    enum status status = store->letter_by_job(store, job->seq, arena, letter, err);
    if (status)
        return status;
    job_move(job, MOVE_QUARANTINE);
    event_begin(engine, &why);
    jsonw_put_string(&why, "dlq_id", letter->dlq_id);
    put_failure(&why, failed);
    status = event_end(engine, &why, failed->actor, job, EVENT_REPLAY_FAILED, err);
    if (!status)
        status = store->job_bury(store, job, err);
    if (status)
        return status;
    job->idempotency_hash = letter->job.idempotency_hash;
    job->redrive_count -= job->redrive_count > 0;
    letter->job = *job;
    letter->state = letter_after(letter->state, JOB_DEAD);
    letter->recovered_by = (struct slice){0};
    letter->recovered_at = INSTANT_NONE;
    if (may_have_arrived(failed->failure)) {
        letter->review = true;
        letter->recoverable = false;
    }
    failed->dlq_id = letter->dlq_id;
    return store->letter_put(store, letter, NULL, false, err);
}

enum status replay_failed(struct engine *engine, struct failed *failed, struct arena *arena,
                          struct err *err)
{
    struct retry_facts facts = {
        .now = engine->now, .random = seams_random_u64(engine->seams), .has_idempotency_key = true};
    enum status status = engine->store->envelope_job_id(engine->store, failed->job.envelope_seq,
                                                        arena, &failed->job_id, err);
    if (status)
        return status;
    failed->policy = *policy_find(engine, SLICE("replay"));
    failed->decision = retry_decide(&failed->policy, &failed->job, failed->failure, &facts);
    if (failed->decision.action == DECISION_RETRY && !(failed->job.flags & JOB_CANCEL_WANTED))
        return give_again(engine, failed, err);
    return give_up(engine, failed, arena, err);
}

/* ---- in -------------------------------------------------------------------------------------- */

enum status replay_lineage(struct engine *engine, struct letter *letter, struct slice payload,
                           struct arena *arena, struct err *err)
{
    struct letter before;
    letter->job.idempotency_hash = replay_origin(letter->original_subject, payload);
    enum status status = engine->store->letter_by_origin(
        engine->store, letter->job.idempotency_hash, arena, &before, err);
    if (status == STATUS_NOT_FOUND) {
        err->text[0] = '\0';
        return STATUS_OK;
    }
    if (status)
        return status;
    if (letter->job.redrive_count < before.job.redrive_count)
        letter->job.redrive_count = before.job.redrive_count;
    if (letter->job.redrive_count >= REPLAY_AUTOMATIC_MAX) {
        letter->review = true;
        letter->recoverable = false;
    }
    return STATUS_OK;
}
