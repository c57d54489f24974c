/* quarantine.c: how a job becomes a letter, from here or from elsewhere.
 *
 * A job has at most one letter, for life: one that dies again after a replay comes back to the same
 * letter, with the same dlq_id, a longer history and a higher redrive_count. */
#include "engine/internal.h"

#include "core/blind.h"
#include "core/patch.h"
#include "core/reason.h"
#include "core/signature.h"
#include "core/uuid.h"

#define SEARCH_BODY_MAX 4096 /* bytes of a payload that search finds words in */

/* new_id makes an identifier in the arena. */
static struct slice new_id(struct engine *engine, struct arena *arena)
{
    uint8_t random[10];
    char text[UUID_TEXT_LEN + 1];
    engine->seams->random(engine->seams->ctx, random, sizeof(random));
    uuid_format(uuid_v7(engine->now, random), text);
    return arena_dup(arena, (struct slice){text, UUID_TEXT_LEN});
}

struct slice letter_text(struct engine *engine, const struct letter *letter, struct slice message,
                         struct slice body)
{
    struct slice parts[] = {letter->signature, letter->reason,   letter->reason_detail,
                            message,           letter->job_id,   letter->run_id,
                            letter->item_id,   letter->trace_id, letter->queue,
                            letter->source,    letter->agent,    body};
    size_t count = sizeof(parts) / sizeof(parts[0]);
    if (body.len > SEARCH_BODY_MAX)
        parts[count - 1].len = SEARCH_BODY_MAX;
    buf_clear(&engine->text);
    for (size_t i = 0; i < count; i++) {
        buf_add_slice(&engine->text, parts[i]);
        buf_add_char(&engine->text, '\n');
    }
    return buf_slice(&engine->text);
}

/* ---- the death of a job ---------------------------------------------------------------------- */

/* fill_identity copies what the envelope says of the job. */
static void fill_identity(struct engine *engine, struct letter *letter, const struct failed *failed,
                          struct arena *arena)
{
    const struct envelope *envelope = &failed->envelope;
    letter->job_id = failed->job_id;
    letter->run_id = envelope->run_id;
    letter->item_id = envelope->item_id;
    letter->trace_id = envelope->trace_id;
    letter->queue = engine->store->queue_name(engine->store, failed->job.queue);
    letter->source = envelope->source.len ? envelope->source : SLICE("lazaret");
    letter->original_subject = envelope->original_subject;
    if (!envelope->original_subject.len)
        letter->original_subject = arena_printf(arena, "jobs.%.*s", SLICE_ARG(letter->queue));
    letter->envelope_seq = failed->job.envelope_seq;
}

/* fill_failure derives what the last failure says of the letter.  `item` is what it happened to,
 * where that is known: its own words are no part of what went wrong. */
static enum status fill_failure(struct letter *letter, const struct failure *failure,
                                struct json item, struct arena *arena, struct err *err)
{
    struct failure blinded;
    enum status status = blind_failure(failure, item, arena, &blinded, err);
    if (status)
        return status;
    struct buf signature;
    char fingerprint[FINGERPRINT_LEN + 1];
    buf_init(&signature, (size_t)SIGNATURE_MAX * 2);
    signature_print(&blinded, &signature);
    signature_fingerprint(&blinded, fingerprint);
    letter->signature = arena_dup(arena, buf_slice(&signature));
    letter->fingerprint = arena_dup(arena, (struct slice){fingerprint, FINGERPRINT_LEN});
    buf_release(&signature);
    letter->error_type =
        failure->error_type.len ? letter_name(failure->error_type) : SLICE("Unknown");
    letter->agent = letter_name(failure->agent_id);
    if (!letter->signature.ptr || !letter->fingerprint.ptr)
        return err_no_memory(err);
    return letter_artifacts(failure, arena, &letter->artifacts, err);
}

enum status quarantine_name(struct engine *engine, struct failed *failed, struct arena *arena,
                            struct err *err)
{
    struct letter *letter = &failed->letter;
    enum status status = STATUS_NOT_FOUND;
    if (failed->job.flags & JOB_HAS_LETTER)
        status = engine->store->letter_by_job(engine->store, failed->job.seq, arena, letter, err);
    if (status == STATUS_NOT_FOUND) {
        *letter = (struct letter){.first_attempt_at = failed->job.round_at};
        letter->dlq_id = new_id(engine, arena);
        status = letter->dlq_id.ptr ? STATUS_OK : err_no_memory(err);
    }
    if (status)
        return status;
    failed->dlq_id = letter->dlq_id;
    fill_identity(engine, letter, failed, arena);
    if (!letter->original_subject.ptr)
        return err_no_memory(err);
    letter->state = LETTER_DEAD;
    letter->escalated = false;
    letter->recovered_at = INSTANT_NONE;
    letter->recovered_by = (struct slice){0};
    letter->failed_at = letter->last_attempt_at = engine->now;
    letter->failure_count = failed->job.attempt;
    letter->max_attempts = retry_attempts_allowed(&failed->policy, &failed->job);
    letter_judge(letter, failed->failure, &failed->decision,
                 failed->envelope.idempotency_key.len > 0,
                 failed->envelope.requires_human_ack || !failed->envelope.retry_eligible);
    /* What was claimed only the claimant can do: no machine of ours. */
    if (failed->job.flags & JOB_CLAIMED)
        letter->recoverable = false;
    struct json item = {0};
    if (failed->envelope.item_id.len)
        json_get(failed->envelope.inputs, "item", &item);
    return fill_failure(letter, failed->failure, item, arena, err);
}

/* apply_on_dead sets what the policy wants on the job's status document.  Members that it does not
 * name stay as they are. */
static enum status apply_on_dead(struct engine *engine, struct failed *failed, struct arena *arena,
                                 struct err *err)
{
    struct store *store = engine->store;
    if (!failed->policy.on_dead.raw.len)
        return STATUS_OK;
    struct slice document = SLICE("{}");
    enum status status = STATUS_OK;
    if (failed->job.flags & JOB_HAS_DOCUMENT)
        status = store->document_get(store, failed->job.seq, arena, &document, err);
    if (status)
        return status;
    struct buf merged;
    buf_init(&merged, (size_t)ENVELOPE_BODY_MAX * 4);
    status = patch_merge(document, failed->policy.on_dead.raw, &merged, err);
    if (!status)
        status = store->document_put(store, failed->job.seq, buf_slice(&merged), err);
    buf_release(&merged);
    failed->job.flags |= JOB_HAS_DOCUMENT;
    return status;
}

enum status quarantine(struct engine *engine, struct failed *failed, struct arena *arena,
                       struct err *err)
{
    struct store *store = engine->store;
    struct letter *letter = &failed->letter;
    enum status status = apply_on_dead(engine, failed, arena, err);
    if (!status)
        status = store->job_bury(store, &failed->job, err);
    if (status)
        return status;
    failed->job.flags |= JOB_HAS_LETTER;
    letter->job = failed->job;
    numbers_death(engine->counted, letter->reason, letter->source);
    struct slice text =
        letter_text(engine, letter, failed->failure->message, failed->envelope.body);
    status = buf_status(&engine->text, err);
    return status ? status : store->letter_put(store, letter, &text, true, err);
}

/* ---- letters from elsewhere ------------------------------------------------------------------ */

/* import_known answers a letter that was taken in before. */
static enum status import_known(struct engine *engine, struct import_item *item,
                                struct arena *arena, bool *known, struct err *err)
{
    struct letter there = {0};
    struct job_row row;
    struct store *store = engine->store;
    *known = false;
    enum status status = STATUS_NOT_FOUND;
    if (item->letter.dlq_id.len)
        status = store->letter_get(store, item->letter.dlq_id, arena, &there, err);
    if (status == STATUS_OK) {
        *known = true;
        item->dlq_id = there.dlq_id;
        return STATUS_OK;
    }
    if (status == STATUS_NOT_FOUND && item->letter.job_id.len) {
        status = store->job_find(store, item->letter.job_id, arena, &row, err);
        if (status == STATUS_OK) {
            *known = true;
            item->status = err_set(
                &item->err, STATUS_CONFLICT, "job_id: \"%.*s\" is known here, as a job that is %s",
                SLICE_ARG(item->letter.job_id), job_state_name((enum job_state)row.job.state));
            return STATUS_OK;
        }
    }
    err->text[0] = '\0';
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* import_job makes the job that the letter stands for: dead, with what its envelope says. */
static enum status import_job(struct engine *engine, struct import_item *item, struct arena *arena,
                              struct err *err)
{
    struct letter *letter = &item->letter;
    struct job *job = &letter->job;
    struct store *store = engine->store;
    struct envelope envelope = {.priority = ENVELOPE_PRIORITY_DEFAULT};
    if (!letter->foreign) {
        enum status status = envelope_parse(item->body, SIZE_MAX, arena, &envelope, err);
        if (status)
            return status;
    }
    uint32_t redrive_count = job->redrive_count;
    *job = (struct job){
        .seq = store->seq_next(store),
        .redrive_count = redrive_count,
        .idempotency_hash = letter->foreign ? job->idempotency_hash : envelope.idempotency_hash,
        .retry_key_hash = envelope.retry_key_hash,
        .id_hash = hash64(letter->job_id),
        .pushed_at = engine->now,
        .deadline_at = INSTANT_NEVER,
        .attempt = letter->failure_count,
        .state = JOB_DEAD,
        .priority = (uint8_t)envelope.priority,
        .flags = (uint16_t)(JOB_HAS_LETTER | (envelope.max_runtime.us ? JOB_HAS_RUNTIME : 0) |
                            (envelope.unique_forever ? JOB_KEY_FOREVER : 0) |
                            (envelope.document.raw.len ? JOB_HAS_DOCUMENT : 0)),
    };
    enum status status = capabilities_of(engine, &envelope, arena, &job->capabilities, err);
    if (!status)
        status = store->queue_number(store, letter->queue, &job->queue, err);
    return status ? status : write_extras(engine, &envelope, job, err);
}

static enum status import_history(struct engine *engine, const struct import_item *item,
                                  struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < item->attempt_count; i++) {
        struct jsonw out;
        buf_clear(&engine->text);
        jsonw_init(&out, &engine->text);
        failure_print(&item->attempts[i].failure, item->attempts[i].attempt, &out);
        if (item->attempts[i].decision.len)
            jsonw_put_raw(&out, "decision", item->attempts[i].decision);
        jsonw_object_end(&out);
        status = buf_status(&engine->text, err);
        if (!status)
            status = engine->store->attempt_add(engine->store, item->letter.job.seq,
                                                item->attempts[i].attempt, buf_slice(&engine->text),
                                                err);
    }
    return status;
}

/* import_complete fills what the sender left open. */
static enum status import_complete(struct engine *engine, struct import_item *item,
                                   struct arena *arena, struct err *err)
{
    struct letter *letter = &item->letter;
    if (!letter->dlq_id.len)
        letter->dlq_id = new_id(engine, arena);
    if (!letter->job_id.len)
        letter->job_id = new_id(engine, arena);
    if (!letter->queue.len)
        letter->queue = SLICE("default");
    if (!instant_is_set(letter->failed_at))
        letter->failed_at = engine->now;
    if (!letter->dlq_id.ptr || !letter->job_id.ptr)
        return err_no_memory(err);
    if (letter->signature.len && letter->fingerprint.len)
        return STATUS_OK;
    struct failure failure;
    struct slice artifacts = letter->artifacts;
    failure_init(&failure);
    failure.message = letter->reason_detail;
    if (item->attempt_count)
        failure = item->attempts[item->attempt_count - 1].failure;
    enum status status = fill_failure(letter, &failure, (struct json){0}, arena, err);
    if (artifacts.len)
        letter->artifacts = artifacts;
    return status;
}

static enum status import_write(struct engine *engine, struct slice actor, struct import_item *item,
                                struct err *err)
{
    struct store *store = engine->store;
    struct letter *letter = &item->letter;
    enum status status = store->envelope_add(store, letter->job.seq, letter->job_id, item->body,
                                             &letter->envelope_seq, err);
    letter->job.envelope_seq = letter->envelope_seq;
    if (!status)
        status = import_history(engine, item, err);
    if (status)
        return status;
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "dlq_id", letter->dlq_id);
    jsonw_put_string(&why, "job_id", letter->job_id);
    jsonw_put_string(&why, "reason", letter->reason);
    status = event_end(engine, &why, actor, &letter->job, EVENT_IMPORTED, err);
    if (status)
        return status;
    struct slice message = {0};
    if (item->attempt_count)
        message = item->attempts[item->attempt_count - 1].failure.message;
    numbers_death(engine->counted, letter->reason, letter->source);
    struct slice text = letter_text(engine, letter, message, item->body);
    status = buf_status(&engine->text, err);
    return status ? status : store->letter_put(store, letter, &text, true, err);
}

static enum status import_one(struct engine *engine, struct import_command *command,
                              struct import_item *item, struct err *err)
{
    struct arena *arena = command->command.arena;
    bool known;
    item->status = STATUS_OK;
    item->created = false;
    enum status status = import_known(engine, item, arena, &known, err);
    if (status || known)
        return status;
    status = import_complete(engine, item, arena, err);
    if (!status && item->letter.foreign)
        status = replay_lineage(engine, &item->letter, item->body, arena, err);
    if (!status)
        status = import_job(engine, item, arena, err);
    if (status && !status_is_fault(status)) {
        item->status = status;
        item->err = *err;
        err->text[0] = '\0';
        return STATUS_OK;
    }
    if (!status)
        status = import_write(engine, command->command.actor, item, err);
    item->created = true;
    item->dlq_id = item->letter.dlq_id;
    return status;
}

/* import_expect tells a store that has to wait for its answers what it will be asked. */
static enum status import_expect(struct engine *engine, const struct import_command *command,
                                 struct err *err)
{
    if (!engine->store->letter_expect || command->count < 2)
        return STATUS_OK;
    struct letter_wanted *wanted =
        arena_array(command->command.arena, command->count, sizeof(*wanted));
    if (!wanted)
        return err_no_memory(err);
    for (size_t i = 0; i < command->count; i++) {
        const struct import_item *item = &command->items[i];
        wanted[i].dlq_id = item->letter.dlq_id;
        if (item->letter.foreign)
            wanted[i].origin = replay_origin(item->letter.original_subject, item->body);
    }
    return engine->store->letter_expect(engine->store, wanted, command->count, err);
}

enum status import_apply(struct engine *engine, struct import_command *command)
{
    enum status status = import_expect(engine, command, &command->command.err);
    for (size_t i = 0; !status && i < command->count; i++)
        status = import_one(engine, command, &command->items[i], &command->command.err);
    return status ? status
                  : inbox_done(engine, command->inbox, command->inbox_count, &command->command.err);
}
