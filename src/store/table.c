/* table: buckets double when there are as many entries as buckets. */
#include "store/table.h"

#include "base/mem.h"
#include "base/status.h"

#define TABLE_BUCKETS_MIN 64u

void table_init(struct table *table, const struct table_kind *kind, const void *owner)
{
    *table = (struct table){.kind = kind, .owner = owner};
}

void table_release(struct table *table)
{
    mem_free(table->buckets);
    table_init(table, table->kind, table->owner);
}

static uint32_t *bucket_of(const struct table *table, uint64_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

static void push(struct table *table, uint32_t handle)
{
    uint32_t *bucket = bucket_of(table, table->kind->hash(table->owner, handle));
    *table->kind->link(table->owner, handle) = *bucket;
    *bucket = handle;
}

/* rehash moves every entry to `count` buckets. */
static bool rehash(struct table *table, uint32_t count)
{
    struct table before = *table;
    uint32_t *buckets = mem_alloc(count * sizeof(*buckets));
    if (!buckets)
        return false;
    memset(buckets, 0xff, count * sizeof(*buckets)); /* TABLE_NONE everywhere */
    table->buckets = buckets;
    table->bucket_count = count;
    for (uint32_t i = 0; i < before.bucket_count; i++) {
        for (uint32_t at = before.buckets[i], next; at != TABLE_NONE; at = next) {
            next = *table->kind->link(table->owner, at);
            push(table, at);
        }
    }
    mem_free(before.buckets);
    return true;
}

bool table_reserve(struct table *table)
{
    if (table->count < table->bucket_count)
        return true;
    if (table->bucket_count == 0)
        return rehash(table, TABLE_BUCKETS_MIN);
    /* Chains that are a little too long are no failure. */
    if (table->bucket_count <= UINT32_MAX / 4)
        (void)rehash(table, table->bucket_count * 2);
    return true;
}

void table_add(struct table *table, uint32_t handle)
{
    BUG_ON(table->bucket_count == 0);
    push(table, handle);
    table->count++;
}

void table_remove(struct table *table, uint32_t handle)
{
    BUG_ON(table->count == 0);
    uint32_t *at = bucket_of(table, table->kind->hash(table->owner, handle));
    while (*at != handle) {
        BUG_ON(*at == TABLE_NONE);
        at = table->kind->link(table->owner, *at);
    }
    *at = *table->kind->link(table->owner, handle);
    table->count--;
}

static uint32_t skip(const struct table *table, uint64_t hash, uint32_t at)
{
    while (at != TABLE_NONE && table->kind->hash(table->owner, at) != hash)
        at = *table->kind->link(table->owner, at);
    return at;
}

uint32_t table_first(const struct table *table, uint64_t hash)
{
    return table->count ? skip(table, hash, *bucket_of(table, hash)) : TABLE_NONE;
}

uint32_t table_next(const struct table *table, uint64_t hash, uint32_t handle)
{
    return skip(table, hash, *table->kind->link(table->owner, handle));
}

size_t table_memory(const struct table *table)
{
    return table->bucket_count * sizeof(*table->buckets);
}

uint64_t table_hash(struct slice text, uint64_t seed)
{
    /* FNV-1a, with its high half folded in as buckets go by the low bits. */
    uint64_t hash = 14695981039346656037u ^ seed;
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}
