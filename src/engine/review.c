/* review.c: what people (and, within limits, machines) do with letters.
 *
 *     dead --retry-----> recovered     the job lives again; should it die, the letter is dead again
 *       |---held retry-> recovering    likewise; end.c settles the letter with the job (deliveries
 *       |                              are always held)
 *       |---discard----> discarded --restore--> dead
 *       |---rollback---> rolled_back   the envelope's compensation was pushed as a job of its own
 *       `---escalate---> dead          flagged: no machine may replay it
 *
 * core/letter.c has the table.  Every action is one event with who, why (the note) and, for an
 * edit, the digests of the envelope before and after; the envelope before stays in the store. */
#include "engine/internal.h"

#include "core/delivery.h"
#include "core/patch.h"

static const char *const events[REVIEW_COUNT] = {
    [REVIEW_RETRY] = EVENT_REQUEUED,       [REVIEW_DISCARD] = EVENT_DISCARDED,
    [REVIEW_ROLLBACK] = EVENT_ROLLED_BACK, [REVIEW_ESCALATE] = EVENT_ESCALATED,
    [REVIEW_RESTORE] = EVENT_RESTORED,
};

/* struct replay: a retry on its way. */
struct replay {
    struct letter *letter;
    struct stored_envelope stored; /* as it is */
    struct slice body;             /* as it shall be: the same, or edited */
    bool edited;
    struct envelope envelope; /* `body`, read */
    struct policy policy;
};

static struct slice by(const struct review_command *command)
{
    return command->by.len ? command->by : command->command.actor;
}

/* is_held says whether a retry leaves the letter open until its job is done.  A delivery has
 * arrived then and not before, and a letter from elsewhere has been published. */
static bool is_held(const struct review_command *command, const struct letter *letter)
{
    return command->hold || letter->foreign || slice_is(letter->queue, DELIVERY_QUEUE);
}

static void put_digest(struct jsonw *why, const char *key, struct slice body)
{
    struct hash digest = hash_sha256(&body, 1);
    event_put_digest(why, key, &digest);
}

/* record writes the event of a review and moves letter->job along. */
static enum status record(struct engine *engine, const struct review_command *command,
                          struct letter *letter, const struct replay *replay,
                          struct slice compensation, struct err *err)
{
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "dlq_id", letter->dlq_id);
    jsonw_put_string(&why, "by", by(command));
    jsonw_put_text(&why, "note", command->note);
    if (replay) {
        jsonw_put_int(&why, "redrive_count", letter->job.redrive_count);
        if (is_held(command, letter))
            jsonw_put_bool(&why, "hold", true);
        if (command->claim)
            jsonw_put_bool(&why, "claim", true);
        if (replay->edited) {
            put_digest(&why, "envelope_sha256_before", replay->stored.body);
            put_digest(&why, "envelope_sha256", replay->body);
        }
    }
    if (command->action == REVIEW_ROLLBACK) {
        if (compensation.len)
            jsonw_put_string(&why, "compensation_job_id", compensation);
        else
            jsonw_put_str(&why, "compensation", "none");
    }
    return event_end(engine, &why, command->command.actor, &letter->job, events[command->action],
                     err);
}

/* ---- retry ----------------------------------------------------------------------------------- */

/* overrides is the merge patch for another queue or policy; empty when neither is wanted. */
static enum status overrides(const struct review_command *command, struct buf *out, struct err *err)
{
    struct jsonw w;
    if (!command->queue.len && !command->policy.len)
        return STATUS_OK;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_text(&w, "queue", command->queue);
    jsonw_put_text(&w, "retry_policy", command->policy);
    jsonw_object_end(&w);
    return buf_status(out, err);
}

/* edit_step applies one kind of edit to replay->body, which then lives in the arena. */
static enum status edit_step(struct replay *replay, struct slice edit,
                             enum status (*apply)(struct slice, struct slice, struct buf *,
                                                  struct err *),
                             const char *what, struct arena *arena, struct err *err)
{
    if (!edit.len)
        return STATUS_OK;
    struct buf out;
    buf_init(&out, ENVELOPE_BODY_MAX);
    enum status status = apply(replay->body, edit, &out, err);
    if (!status)
        status = buf_status(&out, err);
    if (!status) {
        replay->body = arena_dup(arena, buf_slice(&out));
        replay->edited = true;
        if (!replay->body.ptr)
            status = err_no_memory(err);
    } else {
        err_prefix(err, "%s", what);
    }
    buf_release(&out);
    return status;
}

/* same_identity refuses an edit of what a job keeps for life. */
static enum status same_identity(const struct envelope *before, const struct envelope *after,
                                 struct err *err)
{
    const char *changed = NULL;
    if (!slice_eq(before->job_id, after->job_id))
        changed = "job_id";
    else if (!slice_eq(before->idempotency_key, after->idempotency_key))
        changed = "idempotency_key";
    else if (!slice_eq(before->retry_key, after->retry_key))
        changed = "retry_key";
    if (!changed)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID,
                   "%s: an edit cannot change it: a job keeps its id and its keys for life",
                   changed);
}

/* edit makes the body that the job shall have, and reads it. */
static enum status edit(struct engine *engine, const struct review_command *command,
                        struct replay *replay, struct err *err)
{
    struct arena *arena = command->command.arena;
    struct envelope before;
    struct buf merge;
    buf_init(&merge, 4096);
    replay->body = replay->stored.body;
    enum status status = envelope_parse(replay->stored.body, SIZE_MAX, arena, &before, err);
    if (!status)
        status = edit_step(replay, command->patch, patch_apply, "patch", arena, err);
    if (!status)
        status = edit_step(replay, command->merge, patch_merge, "merge", arena, err);
    if (!status)
        status = overrides(command, &merge, err);
    if (!status)
        status = edit_step(replay, buf_slice(&merge), patch_merge, "queue or policy", arena, err);
    if (!status)
        status = envelope_parse(replay->body, SIZE_MAX, arena, &replay->envelope, err);
    if (!status && replay->edited)
        status = same_identity(&before, &replay->envelope, err);
    if (!status)
        status = policy_of(engine, &replay->envelope, arena, &replay->policy, err);
    buf_release(&merge);
    return status;
}

/* key_is_free refuses a key that another job holds: a live one, or one that keeps it for good. */
static enum status key_is_free(struct engine *engine, enum store_key which, struct slice key,
                               uint64_t hash, int64_t job_seq, struct err *err)
{
    const char *name = which == STORE_KEY_IDEMPOTENCY ? "idempotency_key" : "retry_key";
    struct store *store = engine->store;
    struct job holder;
    int64_t forever;
    if (!hash)
        return STATUS_OK;
    if (store->job_by_key(store, which, key, hash, &holder, err))
        return err_set(err, STATUS_CONFLICT,
                       "another job with the same %s is live: let it end, or cancel it", name);
    if (err->text[0])
        return STATUS_IO;
    if (store->forever_get(store, which, key, &forever, err) && forever != job_seq)
        return err_set(err, STATUS_CONFLICT, "another job keeps the same %s for good", name);
    return err->text[0] ? STATUS_IO : STATUS_OK;
}

/* may_live checks what speaks against a job's return. */
static enum status may_live(struct engine *engine, const struct envelope *envelope, int64_t job_seq,
                            struct err *err)
{
    if (engine->store->live_count(engine->store) >= engine->config.live_max)
        return err_set(err, STATUS_LIMIT, "%zu jobs are live, which is the limit: try again later",
                       engine->config.live_max);
    enum status status = key_is_free(engine, STORE_KEY_IDEMPOTENCY, envelope->idempotency_key,
                                     envelope->idempotency_hash, job_seq, err);
    return status ? status
                  : key_is_free(engine, STORE_KEY_RETRY, envelope->retry_key,
                                envelope->retry_key_hash, job_seq, err);
}

/* apart_flag says why the job shall stand in no line; 0: it shall. */
static unsigned apart_flag(const struct review_command *command, const struct policy *policy)
{
    return command->claim ? JOB_CLAIMED : policy->hints.raw.len ? JOB_HAS_HINTS : 0;
}

/* revive puts the job back into its queue, for a new round of attempts under its policy: at the end
 * or, when the letter is held, at the place that it had when it was pushed, so that the items of a
 * run come in their old order. */
static enum status revive(struct engine *engine, const struct review_command *command,
                          struct replay *replay, struct err *err)
{
    struct store *store = engine->store;
    struct job *job = &replay->letter->job;
    const struct envelope *envelope = &replay->envelope;
    enum status status = STATUS_OK;
    job->state = JOB_DEAD;
    job_move(job, MOVE_REQUEUE);
    job->round_at = INSTANT_NONE;
    job->attempt_base = job->attempt;
    job->attempts_max = (uint16_t)command->attempts_max;
    job->redrive_count++;
    job->priority = (uint8_t)envelope->priority;
    job->lease_nonce = 0;
    job->flags &= (uint16_t) ~(JOB_RUN_AT | JOB_STARTED | JOB_CANCEL_WANTED | JOB_HAS_RUNTIME |
                               JOB_HAS_HINTS | JOB_CLAIMED);
    job->flags |= (uint16_t)(JOB_HAS_LETTER | (envelope->max_runtime.us ? JOB_HAS_RUNTIME : 0) |
                             apart_flag(command, &replay->policy));
    /* Only what stands in a line has a place in it. */
    bool in_line = !(job->flags & (JOB_HAS_HINTS | JOB_CLAIMED));
    job->due_at = is_held(command, replay->letter) && in_line ? job->pushed_at : engine->now;
    job->deadline_at = wait_end(job, &replay->policy);
    if (replay->edited) {
        status = store->envelope_add(store, job->seq, replay->stored.job_id, replay->body,
                                     &job->envelope_seq, err);
        replay->letter->envelope_seq = job->envelope_seq;
    }
    if (!status && replay->edited)
        status = store->queue_number(store, envelope->queue, &job->queue, err);
    if (!status && replay->edited)
        status = capabilities_of(engine, envelope, command->command.arena, &job->capabilities, err);
    if (!status)
        status = record(engine, command, replay->letter, replay, (struct slice){0}, err);
    engine->ready_changed = true;
    return status ? status : store->job_revive(store, job, err);
}

/* republish has a letter from elsewhere published again, edited or not. */
static enum status republish(struct engine *engine, const struct review_command *command,
                             struct letter *letter, struct err *err)
{
    struct store *store = engine->store;
    struct arena *arena = command->command.arena;
    struct replay replay = {.letter = letter};
    enum status status = replay_check(engine, command, err);
    if (!status)
        status = store->envelope_get(store, letter->envelope_seq, arena, &replay.stored, err);
    replay.body = replay.stored.body;
    if (!status)
        status = edit_step(&replay, command->patch, patch_apply, "patch", arena, err);
    if (!status)
        status = edit_step(&replay, command->merge, patch_merge, "merge", arena, err);
    if (!status && replay.edited)
        status = store->envelope_add(store, letter->job.seq, replay.stored.job_id, replay.body,
                                     &letter->envelope_seq, err);
    letter->job.envelope_seq = letter->envelope_seq;
    if (!status)
        status = replay_revive(engine, letter, err);
    if (!status)
        status = record(engine, command, letter, &replay, (struct slice){0}, err);
    letter->escalated = false;
    return status ? status : replay_live(engine, letter, err);
}

static enum status review_retry(struct engine *engine, const struct review_command *command,
                                struct letter *letter, struct err *err)
{
    struct replay replay = {.letter = letter};
    if (letter->foreign)
        return republish(engine, command, letter, err);
    enum status status = engine->store->envelope_get(engine->store, letter->envelope_seq,
                                                     command->command.arena, &replay.stored, err);
    if (!status)
        status = edit(engine, command, &replay, err);
    if (!status)
        status = may_live(engine, &replay.envelope, letter->job.seq, err);
    if (!status)
        status = revive(engine, command, &replay, err);
    letter->escalated = false;
    return status;
}

/* ---- rollback -------------------------------------------------------------------------------- */

/* print_compensation prints the job that undoes this one: the envelope's `compensation`, tied to
 * the job and with a key, so that it is pushed once. */
static void print_compensation(const struct envelope *envelope, struct slice job_id,
                               struct buf *out)
{
    struct json_iter iter;
    struct json key, value, given;
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    json_iter_init(&iter, envelope->compensation);
    while (json_next(&iter, &key, &value)) {
        if (w.comma)
            buf_add_char(out, ',');
        buf_add_slice(out, key.raw);
        buf_add_char(out, ':');
        buf_add_slice(out, value.raw);
        w.comma = true;
    }
    jsonw_put_string(&w, "rollback_of", job_id);
    if (!json_get(envelope->compensation, "inputs", &given))
        jsonw_put_raw(&w, "inputs", envelope->inputs.raw.len ? envelope->inputs.raw : SLICE("{}"));
    if (!json_get(envelope->compensation, "idempotency_key", &given)) {
        struct hash digest = hash_sha256(&job_id, 1);
        jsonw_key(&w, "idempotency_key");
        buf_add_str(out, "\"rollback:");
        buf_add_hex(out, digest.bytes, 16);
        buf_add_char(out, '"');
        w.comma = true;
    }
    jsonw_object_end(&w);
}

/* read_compensation makes the envelope of the compensation in the arena. */
static enum status read_compensation(const struct envelope *envelope, struct slice job_id,
                                     struct arena *arena, struct envelope *out, struct err *err)
{
    struct buf body;
    struct slice kept = {0};
    buf_init(&body, ENVELOPE_BODY_MAX);
    print_compensation(envelope, job_id, &body);
    enum status status = buf_status(&body, err);
    if (!status) {
        kept = arena_dup(arena, buf_slice(&body));
        status = kept.ptr ? STATUS_OK : err_no_memory(err);
    }
    buf_release(&body);
    return status ? status : envelope_parse(kept, ENVELOPE_BODY_MAX, arena, out, err);
}

/* push_compensation pushes it; *job_id is its id. */
static enum status push_compensation(struct engine *engine, const struct review_command *command,
                                     const struct envelope *envelope, struct slice original_id,
                                     struct slice *job_id, struct err *err)
{
    struct arena *arena = command->command.arena;
    struct push_item item = {0};
    enum status status = read_compensation(envelope, original_id, arena, &item.envelope, err);
    if (!status)
        status = push_one(engine, command->command.actor, arena, &item, err);
    if (!status && item.status) {
        *err = item.err;
        status = item.status;
    }
    if (status && !status_is_fault(status))
        err_prefix(err, "compensation");
    *job_id = item.job_id;
    return status;
}

/* compensate pushes the compensation, when the envelope has one. */
static enum status compensate(struct engine *engine, const struct review_command *command,
                              const struct letter *letter, struct slice *job_id, struct err *err)
{
    struct arena *arena = command->command.arena;
    struct stored_envelope stored;
    struct envelope envelope;
    if (letter->foreign)
        return STATUS_OK;
    enum status status =
        engine->store->envelope_get(engine->store, letter->envelope_seq, arena, &stored, err);
    if (!status)
        status = envelope_parse(stored.body, SIZE_MAX, arena, &envelope, err);
    if (status || !envelope.compensation.raw.len)
        return status;
    return push_compensation(engine, command, &envelope, stored.job_id, job_id, err);
}

/* ---- all actions ----------------------------------------------------------------------------- */

/* act carries out what belongs to the action beside the letter's own state, and records it. */
static enum status act(struct engine *engine, const struct review_command *command,
                       struct review_item *item, struct letter *letter, struct err *err)
{
    if (command->action == REVIEW_RETRY)
        return review_retry(engine, command, letter, err);
    enum status status = STATUS_OK;
    if (command->action == REVIEW_ROLLBACK)
        status = compensate(engine, command, letter, &item->compensation, err);
    if (command->action == REVIEW_ESCALATE) {
        letter->escalated = true;
        letter->review = true;
        letter->recoverable = false;
    }
    return status ? status : record(engine, command, letter, NULL, item->compensation, err);
}

/* settle sets the letter's state and who put it there.  One that is held has no outcome yet. */
static void settle(struct engine *engine, const struct review_command *command,
                   struct letter *letter, enum letter_state next)
{
    letter->state = next;
    if (command->action == REVIEW_ESCALATE)
        return;
    bool ended = next != LETTER_DEAD && next != LETTER_RECOVERING;
    letter->recovered_at = ended ? engine->now : INSTANT_NONE;
    letter->recovered_by = next != LETTER_DEAD ? by(command) : (struct slice){0};
}

/* needs_review says whether only a reviewer may decide.  Anybody may ask for one: escalate. */
static bool needs_review(const struct review_command *command, const struct letter *letter)
{
    return command->action != REVIEW_ESCALATE && (letter->review || letter->escalated);
}

/* may_restore refuses a letter that was discarded as its job, which was on its way back, was
 * cancelled: that job has ended. */
static enum status may_restore(struct engine *engine, const struct review_command *command,
                               const struct letter *letter, struct err *err)
{
    struct finished finished;
    enum status status = engine->store->finished_get(engine->store, letter->job.seq,
                                                     command->command.arena, &finished, err);
    if (status == STATUS_OK)
        return err_set(
            err, STATUS_CONFLICT,
            "its job was cancelled, which cannot be taken back: push it under another id");
    if (status == STATUS_NOT_FOUND) {
        err->text[0] = '\0';
        return STATUS_OK;
    }
    return status;
}

/* may_act says what the letter is after the action, or why the action is refused. */
static enum status may_act(struct engine *engine, const struct review_command *command,
                           const struct letter *letter, enum letter_state *next, struct err *err)
{
    const char *why = NULL;
    *next = letter_next(letter->state, command->action, &why);
    if (*next == LETTER_STATE_COUNT)
        return err_set(err, STATUS_CONFLICT, "%s", why);
    if (command->refuse_review && needs_review(command, letter))
        return err_set(err, STATUS_REFUSED, "the letter needs review: ask a reviewer");
    if (*next == LETTER_RECOVERED && is_held(command, letter))
        *next = LETTER_RECOVERING;
    return command->action == REVIEW_RESTORE ? may_restore(engine, command, letter, err)
                                             : STATUS_OK;
}

/* review_one acts on one letter.  A refusal is in the item; the return value is only ever a fault.
 * All that can be refused is refused before the first write. */
static enum status review_one(struct engine *engine, const struct review_command *command,
                              struct review_item *item, struct err *err)
{
    struct letter letter;
    enum letter_state next = LETTER_STATE_COUNT;
    enum status status = engine->store->letter_get(engine->store, item->dlq_id,
                                                   command->command.arena, &letter, err);
    if (!status) {
        item->job_id = letter.job_id;
        item->republished = command->action == REVIEW_RETRY && letter.foreign;
        status = may_act(engine, command, &letter, &next, err);
    }
    if (!status)
        status = act(engine, command, item, &letter, err);
    if (!status) {
        settle(engine, command, &letter, next);
        status = engine->store->letter_put(engine->store, &letter, NULL, false, err);
    }
    if (status_is_fault(status))
        return status;
    item->status = status;
    item->err = *err;
    err->text[0] = '\0';
    return STATUS_OK;
}

enum status review_apply(struct engine *engine, struct review_command *command)
{
    struct err *err = &command->command.err;
    enum status status = STATUS_OK;
    if (command->attempts_max > POLICY_ATTEMPTS_MAX)
        return err_set(err, STATUS_INVALID, "max_retries: at most %d, not %u", POLICY_ATTEMPTS_MAX,
                       command->attempts_max);
    for (size_t i = 0; !status && i < command->count; i++)
        status = review_one(engine, command, &command->items[i], err);
    return status;
}
