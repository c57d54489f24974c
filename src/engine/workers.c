/* workers: a hash table of workers by id, a list of them by when they were seen, and a table of
 * which job runs where.
 *
 *     newest <-> ... <-> oldest    who is seen moves to the front; room is made at the back
 *
 * Which job runs where is needed to count what a worker runs: a result names a lease, not a worker,
 * and the store's answer would be a read of the disk for every job.  It is a count for scores, not
 * the truth: after a restart it is learned from heartbeats. */
#include "engine/workers.h"

#include "base/mem.h"
#include "store/table.h"

#define BUCKETS 4096 /* a power of two */

/* struct run: a job and the worker that has it.  In a free one `link` is the next free one. */
struct run {
    int64_t seq;
    struct worker *worker;
    uint32_t link;
};

struct workers {
    struct worker *buckets[BUCKETS];
    struct worker *newest, *oldest;
    size_t count;
    size_t bytes; /* of all blocks */
    struct run *runs;
    uint32_t run_used, run_cap; /* ever taken, allocated */
    uint32_t run_free;          /* the first free one; TABLE_NONE: none */
    struct table by_seq;
};

/* ---- making and freeing ---------------------------------------------------------------------- */

static uint64_t run_hash(const void *owner, uint32_t number)
{
    return (uint64_t)((const struct workers *)owner)->runs[number].seq;
}

static uint32_t *run_link(const void *owner, uint32_t number)
{
    return &((const struct workers *)owner)->runs[number].link;
}

static const struct table_kind run_kind = {run_hash, run_link};

struct workers *workers_new(void)
{
    struct workers *workers = mem_zalloc(sizeof(*workers));
    if (!workers)
        return NULL;
    workers->run_free = TABLE_NONE;
    table_init(&workers->by_seq, &run_kind, workers);
    return workers;
}

static void worker_free(struct worker *worker)
{
    mem_free(worker->block);
    mem_free(worker);
}

void workers_free(struct workers *workers)
{
    if (!workers)
        return;
    for (struct worker *worker = workers->newest, *older; worker; worker = older) {
        older = worker->older;
        worker_free(worker);
    }
    mem_free(workers->runs);
    table_release(&workers->by_seq);
    mem_free(workers);
}

/* ---- the list -------------------------------------------------------------------------------- */

static void list_remove(struct workers *workers, struct worker *worker)
{
    *(worker->newer ? &worker->newer->older : &workers->newest) = worker->older;
    *(worker->older ? &worker->older->newer : &workers->oldest) = worker->newer;
}

static void list_add(struct workers *workers, struct worker *worker)
{
    worker->newer = NULL;
    worker->older = workers->newest;
    *(workers->newest ? &workers->newest->newer : &workers->oldest) = worker;
    workers->newest = worker;
}

void workers_seen(struct workers *workers, struct worker *worker, struct instant now)
{
    if (!worker)
        return;
    worker->seen_at = now;
    worker->missed = false;
    if (workers->newest == worker)
        return;
    list_remove(workers, worker);
    list_add(workers, worker);
}

struct worker *workers_newest(const struct workers *workers)
{
    return workers->newest;
}

size_t workers_count(const struct workers *workers)
{
    return workers->count;
}

void workers_shift(struct workers *workers, struct span by)
{
    for (struct worker *worker = workers->newest; worker; worker = worker->older) {
        worker->seen_at = instant_add(worker->seen_at, by);
        worker->idle_since = instant_add(worker->idle_since, by);
    }
}

/* ---- finding and leaving --------------------------------------------------------------------- */

static size_t bucket_of(struct slice worker_id)
{
    return table_hash(worker_id, 0) & (BUCKETS - 1);
}

struct worker *workers_find(const struct workers *workers, struct slice worker_id)
{
    struct worker *worker = workers->buckets[bucket_of(worker_id)];
    while (worker && !slice_eq(worker->claim.worker_id, worker_id))
        worker = worker->chain;
    return worker;
}

static void leave(struct workers *workers, struct worker *worker)
{
    struct worker **link = &workers->buckets[bucket_of(worker->claim.worker_id)];
    while (*link != worker)
        link = &(*link)->chain;
    *link = worker->chain;
    list_remove(workers, worker);
    workers->count--;
    workers->bytes -= worker->block_size;
    worker_free(worker);
}

/* make_room has those leave that were unseen for the longest, until `bytes` more have room.
 * `stays` (NULL: nobody) is the worker that the room is for: it is known already. */
static bool make_room(struct workers *workers, size_t bytes, const struct worker *stays)
{
    struct worker *worker = workers->oldest;
    while ((!stays && workers->count >= WORKERS_MAX) ||
           workers->bytes + bytes > WORKERS_BYTES_MAX) {
        while (worker && (worker == stays || worker->running || worker->asking))
            worker = worker->newer;
        if (!worker)
            return false;
        struct worker *newer = worker->newer;
        leave(workers, worker);
        worker = newer;
    }
    return true;
}

/* ---- what a worker says ---------------------------------------------------------------------- */

#define LISTS 4

/* lists_of are the lists of a claim, in one order. */
static void lists_of(struct worker_claim *claim, struct match_list *out[LISTS])
{
    out[0] = &claim->queues;
    out[1] = &claim->capabilities;
    out[2] = &claim->scopes;
    out[3] = &claim->permissions;
}

static uint64_t digest_of(struct worker_claim claim)
{
    struct match_list *lists[LISTS];
    uint64_t digest = 0;
    lists_of(&claim, lists);
    for (size_t i = 0; i < LISTS; i++) {
        for (size_t n = 0; n < lists[i]->count; n++)
            digest = table_hash(lists[i]->names[n], digest);
        digest = digest * 31 + lists[i]->count + 1;
    }
    return digest;
}

static size_t claim_size(struct worker_claim claim)
{
    struct match_list *lists[LISTS];
    size_t size = claim.worker_id.len;
    lists_of(&claim, lists);
    for (size_t i = 0; i < LISTS; i++)
        for (size_t n = 0; n < lists[i]->count; n++)
            size += sizeof(struct slice) + lists[i]->names[n].len;
    return size;
}

/* claim_copy copies a claim into a block that has room for it: the slices first, then the bytes. */
static struct worker_claim claim_copy(struct worker_claim claim, void *block)
{
    struct match_list *lists[LISTS];
    struct slice *slices = block;
    lists_of(&claim, lists);
    size_t count = 0, at = 0;
    for (size_t i = 0; i < LISTS; i++)
        count += lists[i]->count;
    char *bytes = (char *)(slices + count);
    for (size_t i = 0; i < LISTS; i++) {
        const struct slice *names = lists[i]->names;
        lists[i]->names = slices + at;
        for (size_t n = 0; n < lists[i]->count; n++) {
            if (names[n].len)
                memcpy(bytes, names[n].ptr, names[n].len);
            slices[at++] = (struct slice){bytes, names[n].len};
            bytes += names[n].len;
        }
    }
    if (claim.worker_id.len)
        memcpy(bytes, claim.worker_id.ptr, claim.worker_id.len);
    claim.worker_id.ptr = bytes;
    return claim;
}

/* claim_set has a worker say something else.  False: as before, for lack of room. */
static bool claim_set(struct workers *workers, struct worker *worker,
                      const struct worker_claim *claim)
{
    uint64_t digest = digest_of(*claim);
    if (worker->block && digest == worker->digest)
        return true;
    size_t size = claim_size(*claim);
    if (!make_room(workers, size, worker))
        return false;
    void *block = mem_alloc(size + 1);
    if (!block)
        return false;
    worker->claim = claim_copy(*claim, block);
    mem_free(worker->block);
    workers->bytes = workers->bytes - worker->block_size + size;
    worker->block = block;
    worker->block_size = size;
    worker->digest = digest;
    return true;
}

static struct worker *join(struct workers *workers, const struct worker_claim *claim,
                           struct instant now)
{
    if (!make_room(workers, claim_size(*claim), NULL))
        return NULL;
    struct worker *worker = mem_zalloc(sizeof(*worker));
    if (!worker || !claim_set(workers, worker, claim)) {
        mem_free(worker);
        return NULL;
    }
    struct worker **bucket = &workers->buckets[bucket_of(claim->worker_id)];
    worker->chain = *bucket;
    *bucket = worker;
    worker->ttl = span_seconds(WORKER_TTL_SECONDS);
    worker->idle_since = now;
    list_add(workers, worker);
    workers->count++;
    return worker;
}

struct worker_claim worker_claim_of(const struct worker *worker, const struct worker_claim *claim)
{
    struct worker_claim whole = *claim, known = worker->claim;
    struct match_list *lists[LISTS], *before[LISTS];
    lists_of(&whole, lists);
    lists_of(&known, before);
    for (size_t i = 0; worker->registered && i < LISTS; i++)
        if (lists[i]->count == 0)
            *lists[i] = *before[i];
    return whole;
}

struct worker *workers_declare(struct workers *workers, const struct worker_claim *claim,
                               struct instant now)
{
    struct worker *worker = workers_find(workers, claim->worker_id);
    if (!worker)
        worker = join(workers, claim, now);
    else if (!worker->registered && !claim_set(workers, worker, claim))
        return NULL;
    workers_seen(workers, worker, now);
    if (worker)
        worker->asking++;
    return worker;
}

void workers_answered(struct workers *workers, struct worker *worker, bool seen, struct instant now)
{
    BUG_ON(worker->asking == 0);
    worker->asking--;
    if (seen)
        workers_seen(workers, worker, now);
}

enum status workers_register(struct workers *workers, const struct worker_claim *claim,
                             struct span ttl, struct instant now, struct worker **out,
                             struct err *err)
{
    struct worker *worker = workers_find(workers, claim->worker_id);
    bool known = worker != NULL;
    if (!known)
        worker = join(workers, claim, now);
    if (!worker || (known && !claim_set(workers, worker, claim)))
        return err_set(err, STATUS_UNAVAILABLE,
                       "%zu workers are at work, and there is no room to know one more",
                       workers->count);
    worker->registered = true;
    worker->ttl = ttl;
    workers_seen(workers, worker, now);
    *out = worker;
    return STATUS_OK;
}

bool worker_is_live(const struct worker *worker, struct instant now)
{
    return worker->asking || worker->running ||
           instant_before(now, instant_add(worker->seen_at, worker->ttl));
}

bool worker_serves(struct match_list queues, struct slice queue)
{
    return queues.count == 0 || match_list_has(queues, queue);
}

/* ---- what runs where ------------------------------------------------------------------------- */

static uint32_t run_find(const struct workers *workers, int64_t job_seq)
{
    return table_first(&workers->by_seq, (uint64_t)job_seq);
}

/* run_take is a free entry, or TABLE_NONE when memory is exhausted. */
static uint32_t run_take(struct workers *workers)
{
    uint32_t number = workers->run_free;
    if (!table_reserve(&workers->by_seq))
        return TABLE_NONE;
    if (number != TABLE_NONE) {
        workers->run_free = workers->runs[number].link;
        return number;
    }
    if (workers->run_used == workers->run_cap) {
        uint32_t cap = workers->run_cap ? workers->run_cap * 2 : 256;
        struct run *runs = mem_realloc(workers->runs, cap * sizeof(*runs));
        if (!runs)
            return TABLE_NONE;
        workers->runs = runs;
        workers->run_cap = cap;
    }
    return workers->run_used++;
}

static void run_remove(struct workers *workers, uint32_t number, struct instant now)
{
    struct run *run = &workers->runs[number];
    if (--run->worker->running == 0)
        run->worker->idle_since = now;
    table_remove(&workers->by_seq, number);
    run->seq = 0;
    run->link = workers->run_free;
    workers->run_free = number;
}

void workers_runs(struct workers *workers, struct worker *worker, int64_t job_seq)
{
    if (!worker)
        return;
    uint32_t number = run_find(workers, job_seq);
    if (number != TABLE_NONE) {
        workers->runs[number].worker->running--;
    } else {
        number = run_take(workers);
        if (number == TABLE_NONE)
            return;
        workers->runs[number] = (struct run){.seq = job_seq};
        table_add(&workers->by_seq, number);
    }
    workers->runs[number].worker = worker;
    worker->running++;
}

void workers_ended(struct workers *workers, int64_t job_seq, bool seen, struct instant now)
{
    uint32_t number = run_find(workers, job_seq);
    if (number == TABLE_NONE)
        return;
    struct worker *worker = workers->runs[number].worker;
    run_remove(workers, number, now);
    if (seen)
        workers_seen(workers, worker, now);
}

void workers_reconcile(struct workers *workers, struct store *store)
{
    struct job job;
    for (uint32_t i = 0; i < workers->run_used; i++) {
        struct run *run = &workers->runs[i];
        if (run->seq && (!store->job_by_seq(store, run->seq, &job) || job.state != JOB_RUNNING))
            run_remove(workers, i, run->worker->idle_since);
    }
}
