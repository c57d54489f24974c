/* postgres_cache: envelopes that were read or written lately.
 *
 * Leasing needs the whole envelope of a job and completing it needs the id in it; the server that
 * leases or completes is often the one that had the envelope in its hands a moment before.  The
 * least recently used go when there is too much. */
#include "store/postgres.h"

#include "base/mem.h"

#define BUCKETS 16384 /* a power of two */

struct entry {
    struct entry *next_in_bucket;
    struct entry *newer, *older;
    int64_t seq, job_seq;
    size_t id_len, body_len;
    char bytes[]; /* the job_id, then the body */
};

struct pg_cache {
    size_t bytes, bytes_max;
    struct entry *newest, *oldest;
    struct entry *buckets[BUCKETS];
};

static struct entry **bucket_of(struct pg_cache *cache, int64_t seq)
{
    return &cache->buckets[(size_t)((uint64_t)seq * UINT64_C(0x9E3779B97F4A7C15) >> 50)];
}
_Static_assert(BUCKETS == 1 << (64 - 50), "the shift in bucket_of");

struct pg_cache *pg_cache_new(size_t bytes_max)
{
    struct pg_cache *cache = mem_zalloc(sizeof(*cache));
    if (cache)
        cache->bytes_max = bytes_max;
    return cache;
}

static size_t size_of(const struct entry *entry)
{
    return sizeof(*entry) + entry->id_len + entry->body_len;
}

static void unlink_age(struct pg_cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct pg_cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void entry_drop(struct pg_cache *cache, struct entry *entry)
{
    struct entry **at = bucket_of(cache, entry->seq);
    while (*at != entry)
        at = &(*at)->next_in_bucket;
    *at = entry->next_in_bucket;
    unlink_age(cache, entry);
    cache->bytes -= size_of(entry);
    mem_free(entry);
}

void pg_cache_clear(struct pg_cache *cache)
{
    while (cache->oldest)
        entry_drop(cache, cache->oldest);
}

void pg_cache_free(struct pg_cache *cache)
{
    if (cache)
        pg_cache_clear(cache);
    mem_free(cache);
}

static struct entry *find(struct pg_cache *cache, int64_t seq)
{
    struct entry *entry = *bucket_of(cache, seq);
    while (entry && entry->seq != seq)
        entry = entry->next_in_bucket;
    return entry;
}

void pg_cache_put(struct pg_cache *cache, int64_t seq, const struct stored_envelope *envelope)
{
    size_t len = envelope->job_id.len + envelope->body.len;
    if (len > cache->bytes_max / 4 || find(cache, seq))
        return;
    struct entry *entry = mem_alloc(sizeof(*entry) + len);
    if (!entry)
        return;
    *entry = (struct entry){.seq = seq,
                            .job_seq = envelope->job_seq,
                            .id_len = envelope->job_id.len,
                            .body_len = envelope->body.len};
    if (entry->id_len)
        memcpy(entry->bytes, envelope->job_id.ptr, entry->id_len);
    if (entry->body_len)
        memcpy(entry->bytes + entry->id_len, envelope->body.ptr, entry->body_len);
    struct entry **bucket = bucket_of(cache, seq);
    entry->next_in_bucket = *bucket;
    *bucket = entry;
    link_newest(cache, entry);
    cache->bytes += size_of(entry);
    while (cache->bytes > cache->bytes_max)
        entry_drop(cache, cache->oldest);
}

bool pg_cache_get(struct pg_cache *cache, int64_t seq, struct stored_envelope *out)
{
    struct entry *entry = find(cache, seq);
    if (!entry)
        return false;
    unlink_age(cache, entry);
    link_newest(cache, entry);
    *out = (struct stored_envelope){.job_seq = entry->job_seq,
                                    .job_id = {entry->bytes, entry->id_len},
                                    .body = {entry->bytes + entry->id_len, entry->body_len}};
    return true;
}
