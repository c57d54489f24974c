/* need: what a job that is dispatched asks of a worker.
 *
 * It stands in the job's envelope, its policy and the records of its failed attempts, so it is read
 * from the disk, once for each attempt: the needs of jobs that are looked at again and again are
 * kept.  They are found by the job and hold for one attempt and one envelope.  When there are too
 * many, or a policy changes, all are forgotten: reading one again is cheap. */
#include "engine/dispatch.h"

#include <inttypes.h>

#include "base/mem.h"

#define NEEDS_MAX 4096
#define NEEDS_BYTES_MAX ((size_t)16 << 20)
#define SLOTS 8192 /* a power of two, twice NEEDS_MAX: there is always a free one */

/* struct kept: a need that was read. */
struct kept {
    int64_t seq, envelope_seq;
    uint32_t attempt, attempt_base; /* of the job, before the attempt that the need is for */
    struct need need;
};

struct needs {
    struct kept *slots[SLOTS]; /* by seq; a collision goes on to the next */
    size_t count;
    struct arena arena; /* of everything that is kept */
};

struct needs *needs_new(void)
{
    return mem_zalloc(sizeof(struct needs));
}

void needs_free(struct needs *needs)
{
    if (needs)
        arena_release(&needs->arena);
    mem_free(needs);
}

void needs_forget(struct needs *needs)
{
    if (!needs->count)
        return;
    memset(needs->slots, 0, sizeof(needs->slots));
    needs->count = 0;
    arena_release(&needs->arena);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* unreadable is the status of an envelope that was not read. */
static enum status unreadable(const struct job *job, enum status status, struct err *err)
{
    if (status_is_fault(status))
        return status;
    err_set(err, STATUS_CORRUPT, "the envelope of job %" PRId64 " cannot be read", job->seq);
    return STATUS_CORRUPT;
}

enum status body_rules(struct engine *engine, const struct job *job, struct slice body,
                       struct arena *arena, struct envelope *envelope, struct policy *policy,
                       struct err *err)
{
    enum status status = envelope_parse(body, SIZE_MAX, arena, envelope, err);
    if (status)
        return unreadable(job, status, err);
    status = policy_of(engine, envelope, arena, policy, err);
    if (status && !status_is_fault(status)) {
        *policy = *policy_find(engine, slice_of(POLICY_DEFAULT));
        err->text[0] = '\0';
        status = STATUS_OK;
    }
    return status;
}

/* job_rules is body_rules of the envelope in force. */
static enum status job_rules(struct engine *engine, const struct job *job, struct arena *arena,
                             struct envelope *envelope, struct policy *policy, struct err *err)
{
    struct stored_envelope stored;
    enum status status =
        engine->store->envelope_get(engine->store, job->envelope_seq, arena, &stored, err);
    if (status)
        return unreadable(job, status, err);
    return body_rules(engine, job, stored.body, arena, envelope, policy, err);
}

enum status assignment_end(struct engine *engine, const struct job *job, struct arena *arena,
                           struct instant *out, struct err *err)
{
    struct envelope envelope;
    struct policy policy;
    enum status status = STATUS_OK;
    if (job->flags & JOB_HAS_HINTS)
        status = job_rules(engine, job, arena, &envelope, &policy, err);
    if (!status)
        *out = wait_end(job, &policy);
    return status;
}

/* worker_of is the worker of a failed attempt; empty when none had it.  `interrupted`: it was cut
 * off, which is not its failure. */
static struct slice worker_of(const struct attempt_record *record, struct arena *arena,
                              bool *interrupted)
{
    struct json failure, value;
    *interrupted = false;
    if (json_parse(record->failure, &failure, NULL))
        return (struct slice){0};
    *interrupted = json_get(failure, "interrupted", &value) && value.type == JSON_TRUE;
    if (!json_get(failure, "worker_id", &value))
        json_get(failure, "agent_id", &value);
    return value.type == JSON_STRING ? json_text(value, arena) : (struct slice){0};
}

/* read_avoid finds who failed the job last, among its last `failures` attempts. */
static enum status read_avoid(struct engine *engine, const struct job *job, uint32_t failures,
                              struct arena *arena, struct slice *out, struct err *err)
{
    struct attempt_record *records = NULL;
    size_t count = 0;
    enum status status = STATUS_OK;
    *out = (struct slice){0};
    if (failures)
        status = engine->store->attempt_list(engine->store, job->seq, arena, &records, &count, err);
    while (!status && failures > 0 && count > 0 && !out->len) {
        bool interrupted;
        struct slice worker = worker_of(&records[--count], arena, &interrupted);
        if (interrupted)
            continue;
        *out = worker;
        failures--;
    }
    return status;
}

/* read_list reads an array of strings. */
static enum status read_list(struct json array, struct arena *arena, struct match_list *out,
                             struct err *err)
{
    size_t count = json_count(array), at = 0;
    struct slice *names = arena_array(arena, count, sizeof(*names));
    struct json_iter iter;
    struct json value;
    if (!names)
        return err_no_memory(err);
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &value)) {
        names[at] = json_text(value, arena);
        if (!names[at++].ptr)
            return err_no_memory(err);
    }
    *out = (struct match_list){names, count};
    return STATUS_OK;
}

enum status need_read(struct engine *engine, const struct job *job, struct arena *arena,
                      struct need *out, struct envelope *envelope, struct err *err)
{
    struct policy policy;
    uint32_t failures = retry_attempt_in_round(job);
    enum status status = job_rules(engine, job, arena, envelope, &policy, err);
    if (status)
        return status;
    *out = (struct need){.min = match_min(&policy, failures + 1), .scope = envelope->scope_lock};
    status = read_list(envelope->permissions, arena, &out->permissions, err);
    return status ? status : read_avoid(engine, job, failures, arena, &out->avoid, err);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* slot_of is where the need of a job is, or would be. */
static struct kept **slot_of(struct needs *needs, int64_t seq)
{
    uint64_t at = (uint64_t)seq * 0x9e3779b97f4a7c15u >> 40;
    while (needs->slots[at & (SLOTS - 1)] && needs->slots[at & (SLOTS - 1)]->seq != seq)
        at++;
    return &needs->slots[at & (SLOTS - 1)];
}

/* copy_need copies a need into the arena of those that are kept. */
static bool copy_need(struct arena *arena, const struct need *need, struct need *out)
{
    size_t count = need->permissions.count;
    struct slice *names = arena_array(arena, count, sizeof(*names));
    *out = *need;
    out->avoid = arena_dup(arena, need->avoid);
    out->scope = arena_dup(arena, need->scope);
    bool copied = names && out->avoid.ptr && out->scope.ptr;
    for (size_t i = 0; copied && i < count; i++) {
        names[i] = arena_dup(arena, need->permissions.names[i]);
        copied = names[i].ptr != NULL;
    }
    out->permissions.names = names;
    return copied;
}

/* keep puts a need that was read where it is found again. */
static enum status keep(struct needs *needs, const struct job *job, const struct need *need,
                        struct kept **out, struct err *err)
{
    if (needs->count >= NEEDS_MAX || needs->arena.used > NEEDS_BYTES_MAX)
        needs_forget(needs);
    struct kept *kept = arena_alloc(&needs->arena, sizeof(*kept));
    if (!kept || !copy_need(&needs->arena, need, &kept->need))
        return err_no_memory(err);
    kept->seq = job->seq;
    kept->envelope_seq = job->envelope_seq;
    kept->attempt = job->attempt;
    kept->attempt_base = job->attempt_base;
    struct kept **slot = slot_of(needs, job->seq);
    needs->count += *slot == NULL;
    *slot = *out = kept;
    return STATUS_OK;
}

enum status need_get(struct engine *engine, const struct job *job, const struct need **out,
                     struct err *err)
{
    struct kept *kept = *slot_of(engine->needs, job->seq);
    enum status status = STATUS_OK;
    if (!kept || kept->envelope_seq != job->envelope_seq || kept->attempt != job->attempt ||
        kept->attempt_base != job->attempt_base) {
        struct arena scratch = {0};
        struct envelope envelope;
        struct need need;
        status = need_read(engine, job, &scratch, &need, &envelope, err);
        if (!status)
            status = keep(engine->needs, job, &need, &kept, err);
        arena_release(&scratch);
    }
    if (!status)
        *out = &kept->need;
    return status;
}
