/* push.c: how a job comes in.
 *
 * The checks are in the order in which their answers matter: what is wrong with the request,
 * whether the job is known (by its id, then by a key that somebody else holds), whether there is
 * room.  Nothing is written before all of them have passed. */
#include "engine/internal.h"

#include "core/uuid.h"

#define LIMIT_RETRY_SECONDS 5 /* when a push that was refused for room may try again */

/* refuse turns a status into the item's answer; only a fault is the caller's business. */
static enum status refuse(struct push_item *item, enum status status, const struct err *err)
{
    if (status_is_fault(status))
        return status;
    item->status = status;
    item->err = *err;
    return STATUS_OK;
}

/* answer_known answers with a job that is there already. */
static enum status answer_known(struct engine *engine, struct arena *arena, const struct job *job,
                                struct push_item *item, struct err *err)
{
    struct stored_envelope stored;
    enum status status =
        engine->store->envelope_get(engine->store, job->envelope_seq, arena, &stored, err);
    if (status)
        return status;
    item->created = false;
    item->job_id = stored.job_id;
    item->state = (enum job_state)job->state;
    return STATUS_OK;
}

/* read_pushed reads the envelope of a job as it was pushed.  Only a job that was brought back can
 * have others. */
static enum status read_pushed(struct engine *engine, const struct job *job, struct arena *arena,
                               struct stored_envelope *out, struct err *err)
{
    struct store *store = engine->store;
    int64_t *seqs = NULL;
    size_t count = 0;
    enum status status = STATUS_OK;
    if (job->redrive_count)
        status = store->envelope_list(store, job->seq, arena, &seqs, &count, err);
    if (status)
        return status;
    return store->envelope_get(store, count ? seqs[0] : job->envelope_seq, arena, out, err);
}

/* known_by_id answers a push whose job_id is known in any state: the same bytes are the same push,
 * others are a conflict.  *known says that the item is answered. */
static enum status known_by_id(struct engine *engine, struct arena *arena, struct push_item *item,
                               bool *known, struct err *err)
{
    struct store *store = engine->store;
    const struct envelope *envelope = &item->envelope;
    struct job_row row = {0};
    enum status status = STATUS_OK;
    *known = false;
    if (!store->job_by_id(store, envelope->job_id, envelope->id_hash, &row.job, err)) {
        if (err->text[0])
            return STATUS_IO;
        status = store->job_find(store, envelope->job_id, arena, &row, err);
        if (status == STATUS_NOT_FOUND) {
            err->text[0] = '\0';
            return STATUS_OK;
        }
        if (status)
            return status;
    }
    *known = true;
    struct stored_envelope stored;
    status = read_pushed(engine, &row.job, arena, &stored, err);
    if (status)
        return status;
    if (!slice_eq(stored.body, envelope->body)) {
        err_set(err, STATUS_CONFLICT,
                "job_id: \"%.*s\" is known with another envelope: choose another id, or push the "
                "same bytes",
                SLICE_ARG(envelope->job_id));
        item->job_id = envelope->job_id;
        return refuse(item, STATUS_CONFLICT, err);
    }
    item->job_id = stored.job_id;
    item->state = (enum job_state)row.job.state;
    return STATUS_OK;
}

/* answer_holder answers with the job that holds a key for good.  It may have been purged: its
 * tombstone holds the key. */
static enum status answer_holder(struct engine *engine, struct arena *arena, int64_t holder,
                                 struct push_item *item, struct err *err)
{
    struct store *store = engine->store;
    struct job_row row;
    enum status status = store->job_find_seq(store, holder, arena, &row, err);
    if (status == STATUS_OK) {
        item->job_id = row.job_id;
        item->state = (enum job_state)row.job.state;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    struct tombstone tombstone;
    status = store->tombstone_get(store, holder, arena, &tombstone, err);
    if (status)
        return status == STATUS_NOT_FOUND
                   ? err_set(err, STATUS_CORRUPT, "a job that holds a key for good is missing")
                   : status;
    err->text[0] = '\0';
    item->job_id = tombstone.job_id;
    item->state = tombstone.dlq_id.len ? JOB_DEAD : JOB_DONE;
    return STATUS_OK;
}

/* known_by_key answers a push whose key another job holds. */
static enum status known_by_key(struct engine *engine, struct arena *arena, enum store_key which,
                                struct slice key, uint64_t hash, struct push_item *item,
                                bool *known, struct err *err)
{
    struct store *store = engine->store;
    struct job job;
    *known = false;
    if (!hash)
        return STATUS_OK;
    if (store->job_by_key(store, which, key, hash, &job, err)) {
        *known = true;
        return answer_known(engine, arena, &job, item, err);
    }
    if (err->text[0])
        return STATUS_IO;
    int64_t holder;
    if (!store->forever_get(store, which, key, &holder, err))
        return err->text[0] ? STATUS_IO : STATUS_OK;
    *known = true;
    return answer_holder(engine, arena, holder, item, err);
}

/* known answers a push of something that is there already, by id or by key. */
static enum status known(struct engine *engine, struct arena *arena, struct push_item *item,
                         bool *answered, struct err *err)
{
    const struct envelope *envelope = &item->envelope;
    enum status status = STATUS_OK;
    *answered = false;
    if (envelope->job_id.len)
        status = known_by_id(engine, arena, item, answered, err);
    if (!status && !*answered)
        status = known_by_key(engine, arena, STORE_KEY_IDEMPOTENCY, envelope->idempotency_key,
                              envelope->idempotency_hash, item, answered, err);
    if (!status && !*answered)
        status = known_by_key(engine, arena, STORE_KEY_RETRY, envelope->retry_key,
                              envelope->retry_key_hash, item, answered, err);
    return status;
}

/* name_job sets the job's id: the pusher's, or one that is made here. */
static enum status name_job(struct engine *engine, struct arena *arena, struct push_item *item,
                            struct job *job, struct err *err)
{
    item->job_id = item->envelope.job_id;
    job->id_hash = item->envelope.id_hash;
    if (item->job_id.len)
        return STATUS_OK;
    uint8_t random[10];
    char text[UUID_TEXT_LEN + 1];
    engine->seams->random(engine->seams->ctx, random, sizeof(random));
    uuid_format(uuid_v7(engine->now, random), text);
    item->job_id = arena_dup(arena, (struct slice){text, UUID_TEXT_LEN});
    if (!item->job_id.ptr)
        return err_no_memory(err);
    job->id_hash = hash64(item->job_id);
    return STATUS_OK;
}

enum status capabilities_of(struct engine *engine, const struct envelope *envelope,
                            struct arena *arena, uint32_t *out, struct err *err)
{
    *out = 0;
    size_t count = json_count(envelope->required_capabilities);
    if (!count)
        return STATUS_OK;
    struct slice *names = arena_array(arena, count, sizeof(*names));
    if (!names)
        return err_no_memory(err);
    struct json_iter iter;
    struct json value;
    json_iter_init(&iter, envelope->required_capabilities);
    for (size_t i = 0; json_next(&iter, NULL, &value); i++) {
        names[i] = json_text(value, arena);
        if (!names[i].ptr)
            return err_no_memory(err);
    }
    return engine->store->capabilities_number(engine->store, names, count, out, err);
}

/* schedule sets when the job may first run. */
static void schedule(struct engine *engine, const struct envelope *envelope,
                     const struct policy *policy, struct job *job)
{
    job->due_at = engine->now;
    if (instant_is_set(envelope->run_at)) {
        job->due_at = envelope->run_at;
        job->flags |= JOB_RUN_AT;
    } else if (policy->first_delay.us > 0) {
        job->due_at = instant_add(engine->now, policy->first_delay);
    }
    job->state = instant_before(engine->now, job->due_at) ? JOB_SCHEDULED : JOB_PENDING;
    if (job->state == JOB_PENDING) {
        job->due_at = engine->now;
        job->flags &= (uint16_t)~JOB_RUN_AT;
    }
}

/* record_push writes the event of a push: what came in, by its digest. */
static enum status record_push(struct engine *engine, struct slice actor,
                               const struct push_item *item, struct job *job, struct err *err)
{
    const struct envelope *envelope = &item->envelope;
    struct hash digest = hash_sha256(&envelope->body, 1);
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_string(&why, "job_id", item->job_id);
    jsonw_put_string(&why, "queue", envelope->queue);
    event_put_digest(&why, "envelope_sha256", &digest);
    if (item->claim)
        jsonw_put_bool(&why, "claim", true);
    if (job->state == JOB_SCHEDULED)
        jsonw_put_instant(&why, "run_at", job->due_at);
    return event_end(engine, &why, actor, job, EVENT_PUSHED, err);
}

static enum status keep_key(struct engine *engine, enum store_key which, struct slice key,
                            const struct job *job, struct err *err)
{
    if (!key.len)
        return STATUS_OK;
    return engine->store->forever_put(engine->store, which, key, job->seq, err);
}

enum status write_extras(struct engine *engine, const struct envelope *envelope,
                         const struct job *job, struct err *err)
{
    enum status status = STATUS_OK;
    if (job->flags & JOB_KEY_FOREVER) {
        status = keep_key(engine, STORE_KEY_IDEMPOTENCY, envelope->idempotency_key, job, err);
        if (!status)
            status = keep_key(engine, STORE_KEY_RETRY, envelope->retry_key, job, err);
    }
    if (!status && (job->flags & JOB_HAS_DOCUMENT))
        status = engine->store->document_put(engine->store, job->seq, envelope->document.raw, err);
    return status;
}

static uint16_t flags_of(const struct envelope *envelope, const struct policy *policy, bool claim)
{
    unsigned flags = 0;
    if (envelope->unique_forever)
        flags |= JOB_KEY_FOREVER;
    if (envelope->document.raw.len)
        flags |= JOB_HAS_DOCUMENT;
    if (envelope->max_runtime.us)
        flags |= JOB_HAS_RUNTIME;
    if (claim)
        flags |= JOB_CLAIMED;
    else if (policy->hints.raw.len)
        flags |= JOB_HAS_HINTS;
    return (uint16_t)flags;
}

struct instant wait_end(const struct job *job, const struct policy *policy)
{
    if (job->flags & JOB_CLAIMED)
        return instant_add(job->due_at, span_seconds(CLAIM_SECONDS));
    if (job->flags & JOB_HAS_HINTS)
        return instant_add(job->due_at, policy->assignment_timeout);
    return INSTANT_NEVER;
}

/* write_job writes a job that nothing speaks against. */
static enum status write_job(struct engine *engine, struct slice actor, struct arena *arena,
                             const struct policy *policy, struct push_item *item, struct err *err)
{
    struct store *store = engine->store;
    const struct envelope *envelope = &item->envelope;
    struct job job = {
        .idempotency_hash = envelope->idempotency_hash,
        .retry_key_hash = envelope->retry_key_hash,
        .pushed_at = engine->now,
        .deadline_at = INSTANT_NEVER,
        .priority = (uint8_t)envelope->priority,
        .flags = flags_of(envelope, policy, item->claim),
        .seq = store->seq_next(store),
    };
    schedule(engine, envelope, policy, &job);
    job.deadline_at = wait_end(&job, policy);
    enum status status = name_job(engine, arena, item, &job, err);
    if (!status)
        status = store->queue_number(store, envelope->queue, &job.queue, err);
    if (!status)
        status = capabilities_of(engine, envelope, arena, &job.capabilities, err);
    if (!status)
        status = record_push(engine, actor, item, &job, err);
    if (!status)
        status = store->job_insert(store, &job, item->job_id, envelope->body, err);
    if (!status)
        status = write_extras(engine, envelope, &job, err);
    item->created = true;
    item->state = (enum job_state)job.state;
    numbers_job(engine->counted);
    engine->ready_changed = engine->ready_changed || job.state == JOB_PENDING;
    return status;
}

enum status push_one(struct engine *engine, struct slice actor, struct arena *arena,
                     struct push_item *item, struct err *err)
{
    item->status = STATUS_OK;
    item->created = false;
    struct policy policy;
    enum status status = policy_of(engine, &item->envelope, arena, &policy, err);
    if (status)
        return refuse(item, status, err);
    bool answered;
    status = known(engine, arena, item, &answered, err);
    if (status || answered)
        return status;
    if (engine->store->live_count(engine->store) >= engine->config.live_max) {
        item->retry_after = span_seconds(LIMIT_RETRY_SECONDS);
        status = err_set(err, STATUS_LIMIT,
                         "%zu jobs are live, which is the limit: try again in %d seconds",
                         engine->config.live_max, LIMIT_RETRY_SECONDS);
        return refuse(item, status, err);
    }
    return write_job(engine, actor, arena, &policy, item, err);
}

enum status push_apply(struct engine *engine, struct push_command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        struct err *err = &command->command.err;
        enum status status = push_one(engine, command->command.actor, command->command.arena,
                                      &command->items[i], err);
        if (status)
            return status;
        err->text[0] = '\0';
    }
    return STATUS_OK;
}
