/* tally: a small hash table in an arena.  It doubles when it is half full, so what it leaves behind
 * in the arena is less than what it is. */
#include "api/tally.h"

#define TALLY_CAP_FIRST 16

/* fnv is FNV-1a: names are few and short, and nothing is decided by their order here. */
static uint64_t fnv(struct slice name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.ptr[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

/* slot_of is where a name stands, or the free slot where it would. */
static uint32_t *slot_of(const struct tally *tally, struct slice name)
{
    size_t mask = 2 * tally->cap - 1;
    for (size_t i = fnv(name) & mask;; i = (i + 1) & mask) {
        uint32_t number = tally->table[i];
        if (number == 0 || slice_eq(tally->entries[number - 1].name, name))
            return &tally->table[i];
    }
}

static bool grow(struct tally *tally)
{
    struct tally bigger = *tally;
    bigger.cap = tally->cap ? 2 * tally->cap : TALLY_CAP_FIRST;
    if (bigger.cap > UINT32_MAX / 2)
        return false;
    bigger.entries = arena_array(tally->arena, bigger.cap, sizeof(*bigger.entries));
    bigger.table = arena_array(tally->arena, 2 * bigger.cap, sizeof(*bigger.table));
    if (!bigger.entries || !bigger.table)
        return false;
    for (size_t i = 0; i < tally->count; i++) {
        bigger.entries[i] = tally->entries[i];
        *slot_of(&bigger, tally->entries[i].name) = (uint32_t)i + 1;
    }
    *tally = bigger;
    return true;
}

struct tally_entry *tally_add(struct tally *tally, struct slice name, int64_t by)
{
    if (tally->count == tally->cap && !grow(tally))
        return NULL;
    uint32_t *slot = slot_of(tally, name);
    if (*slot == 0) {
        struct slice copy = arena_dup(tally->arena, name);
        if (!copy.ptr)
            return NULL;
        tally->entries[tally->count++] = (struct tally_entry){.name = copy};
        *slot = (uint32_t)tally->count;
    }
    struct tally_entry *entry = &tally->entries[*slot - 1];
    entry->count += by;
    return entry;
}

static int by_name(const void *a, const void *b)
{
    const struct tally_entry *left = a, *right = b;
    size_t shorter = left->name.len < right->name.len ? left->name.len : right->name.len;
    int order = memcmp(left->name.ptr, right->name.ptr, shorter);
    if (order)
        return order;
    return (left->name.len > right->name.len) - (left->name.len < right->name.len);
}

static int by_count(const void *a, const void *b)
{
    const struct tally_entry *left = a, *right = b;
    if (left->count != right->count)
        return left->count < right->count ? 1 : -1;
    return by_name(a, b);
}

void tally_sort_names(struct tally *tally)
{
    if (tally->count)
        qsort(tally->entries, tally->count, sizeof(*tally->entries), by_name);
}

void tally_sort_counts(struct tally *tally)
{
    if (tally->count)
        qsort(tally->entries, tally->count, sizeof(*tally->entries), by_count);
}

void tally_print(struct tally *tally, const char *key, struct jsonw *out)
{
    tally_sort_names(tally);
    jsonw_key(out, key);
    jsonw_object(out);
    for (size_t i = 0; i < tally->count; i++) {
        jsonw_key_slice(out, tally->entries[i].name);
        jsonw_int(out, tally->entries[i].count);
    }
    jsonw_object_end(out);
}
