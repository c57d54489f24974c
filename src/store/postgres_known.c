/* postgres_known: the letters that this turn has read or written.
 *
 * An entry is made for each job whose letter was looked at, and kept until the turn ends.  It is
 * found by the job's seq, and by the letter's id once it has one. */
#include "store/postgres_letter.h"

#include "base/mem.h"

static const struct pg_counts *owner_of(const void *owner)
{
    return owner;
}

static uint64_t hash_of_job(int64_t job_seq)
{
    return (uint64_t)job_seq * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t job_hash(const void *owner, uint32_t handle)
{
    return hash_of_job(owner_of(owner)->known[handle].job_seq);
}

static uint32_t *job_link(const void *owner, uint32_t handle)
{
    return &owner_of(owner)->known[handle].job_link;
}

static uint64_t id_hash(const void *owner, uint32_t handle)
{
    return owner_of(owner)->known[handle].id_hash;
}

static uint32_t *id_link(const void *owner, uint32_t handle)
{
    return &owner_of(owner)->known[handle].id_link;
}

static uint64_t origin_hash(const void *owner, uint32_t handle)
{
    return owner_of(owner)->known[handle].origin;
}

static uint32_t *origin_link(const void *owner, uint32_t handle)
{
    return &owner_of(owner)->known[handle].origin_link;
}

static const struct table_kind job_kind = {job_hash, job_link};
static const struct table_kind id_kind = {id_hash, id_link};
static const struct table_kind origin_kind = {origin_hash, origin_link};

void pg_known_init(struct pg_counts *counts)
{
    table_init(&counts->by_job, &job_kind, counts);
    table_init(&counts->by_id, &id_kind, counts);
    table_init(&counts->by_origin, &origin_kind, counts);
}

void pg_known_clear(struct pg_counts *counts)
{
    if (counts->known_count > 0) {
        table_release(&counts->by_job);
        table_release(&counts->by_id);
        table_release(&counts->by_origin);
        pg_known_init(counts);
    }
    arena_reset(&counts->arena);
    counts->known_count = 0;
    counts->waiting = false;
}

void pg_known_release(struct pg_counts *counts)
{
    table_release(&counts->by_job);
    table_release(&counts->by_id);
    table_release(&counts->by_origin);
    arena_release(&counts->arena);
    mem_free(counts->known);
}

/* -- finding ----------------------------------------------------------------------------------- */

static uint32_t find_job(const struct pg_counts *counts, int64_t job_seq)
{
    uint64_t hash = hash_of_job(job_seq);
    uint32_t at = table_first(&counts->by_job, hash);
    while (at != TABLE_NONE && counts->known[at].job_seq != job_seq)
        at = table_next(&counts->by_job, hash, at);
    return at;
}

const struct known_letter *pg_known_job(const struct pg_counts *counts, int64_t job_seq)
{
    uint32_t at = find_job(counts, job_seq);
    return at == TABLE_NONE ? NULL : &counts->known[at];
}

const struct known_letter *pg_known_id(const struct pg_counts *counts, struct slice dlq_id)
{
    uint64_t hash = table_hash(dlq_id, 0);
    uint32_t at = table_first(&counts->by_id, hash);
    while (at != TABLE_NONE && !slice_eq(counts->known[at].dlq_id, dlq_id))
        at = table_next(&counts->by_id, hash, at);
    return at == TABLE_NONE ? NULL : &counts->known[at];
}

const struct known_letter *pg_known_origin(const struct pg_counts *counts, uint64_t origin)
{
    const struct known_letter *found = NULL;
    uint32_t at = table_first(&counts->by_origin, origin);
    for (; at != TABLE_NONE; at = table_next(&counts->by_origin, origin, at))
        if (!found || counts->known[at].waits)
            found = &counts->known[at];
    return found;
}

/* -- learning ---------------------------------------------------------------------------------- */

/* entry_of is the entry of a job, made when there is none; TABLE_NONE when memory is exhausted. */
static uint32_t entry_of(struct pg_counts *counts, int64_t job_seq)
{
    uint32_t at = find_job(counts, job_seq);
    if (at != TABLE_NONE)
        return at;
    if (counts->known_count == counts->known_cap) {
        uint32_t cap = counts->known_cap ? counts->known_cap * 2 : 64;
        void *grown = mem_realloc(counts->known, cap * sizeof(*counts->known));
        if (!grown)
            return TABLE_NONE;
        counts->known = grown;
        counts->known_cap = cap;
    }
    if (!table_reserve(&counts->by_job))
        return TABLE_NONE;
    at = counts->known_count++;
    counts->known[at] = (struct known_letter){.job_seq = job_seq};
    table_add(&counts->by_job, at);
    return at;
}

/* forget takes an entry out of the tables of letters. */
static void forget(struct pg_counts *counts, uint32_t at)
{
    if (counts->known[at].position != 0)
        table_remove(&counts->by_id, at);
    if (counts->known[at].position != 0 && counts->known[at].origin)
        table_remove(&counts->by_origin, at);
    counts->known[at].position = 0;
    counts->known[at].waits = false;
}

bool pg_known_none(struct pg_counts *counts, int64_t job_seq)
{
    uint32_t at = entry_of(counts, job_seq);
    if (at != TABLE_NONE)
        forget(counts, at);
    return at != TABLE_NONE;
}

bool pg_known_put(struct pg_counts *counts, const struct letter *letter, bool waits)
{
    uint32_t at = entry_of(counts, letter->job.seq);
    if (at == TABLE_NONE || !table_reserve(&counts->by_id) || !table_reserve(&counts->by_origin))
        return false;
    struct known_letter made = {
        .job_seq = letter->job.seq,
        .position = letter->position,
        .state = letter->state,
        .recoverable = letter->recoverable,
        .waits = waits,
        .dlq_id = arena_dup(&counts->arena, letter->dlq_id),
        .reason = arena_dup(&counts->arena, letter->reason),
        .source = arena_dup(&counts->arena, letter->source),
        .queue = arena_dup(&counts->arena, letter->queue),
        .fingerprint = arena_dup(&counts->arena, letter->fingerprint),
        .signature = arena_dup(&counts->arena, letter->signature),
        .failed_at = letter->failed_at,
        .origin = letter->foreign ? letter->job.idempotency_hash : 0,
        .id_hash = table_hash(letter->dlq_id, 0),
    };
    if (!made.dlq_id.ptr || !made.reason.ptr || !made.source.ptr || !made.queue.ptr ||
        !made.fingerprint.ptr || !made.signature.ptr)
        return false;
    forget(counts, at);
    made.job_link = counts->known[at].job_link;
    counts->known[at] = made;
    table_add(&counts->by_id, at);
    if (made.origin)
        table_add(&counts->by_origin, at);
    counts->waiting = counts->waiting || waits;
    return true;
}

void pg_known_settled(struct pg_counts *counts)
{
    for (uint32_t i = 0; counts->waiting && i < counts->known_count; i++)
        counts->known[i].waits = false;
    counts->waiting = false;
}
