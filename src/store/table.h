/* table: a chained hash table of handles, which are indexes into the owner's own array.
 *
 * The table keeps only the heads of the chains; the link and the hash of an entry lie with the
 * owner, who says through two functions where. */
#ifndef LAZARET_STORE_TABLE_H
#define LAZARET_STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define TABLE_NONE UINT32_MAX /* the end of a chain */

struct table_kind {
    uint64_t (*hash)(const void *owner, uint32_t handle);
    uint32_t *(*link)(const void *owner, uint32_t handle); /* where the next handle is kept */
};

struct table {
    const struct table_kind *kind;
    const void *owner;
    uint32_t *buckets;
    uint32_t bucket_count; /* 0 or a power of two */
    uint32_t count;        /* entries */
};

void table_init(struct table *table, const struct table_kind *kind, const void *owner);
void table_release(struct table *table); /* frees; the table is as after table_init */

/* table_reserve makes sure that one more entry can be added.  False when memory is exhausted. */
bool table_reserve(struct table *table);

/* table_add adds an entry that is not in the table; table_reserve came before. */
void table_add(struct table *table, uint32_t handle);
void table_remove(struct table *table, uint32_t handle); /* an entry that is in the table */

/* table_first is the first entry that may have `hash`, table_next the one after it: both step over
 * entries with another hash.  TABLE_NONE at the end. */
uint32_t table_first(const struct table *table, uint64_t hash);
uint32_t table_next(const struct table *table, uint64_t hash, uint32_t handle);

size_t table_memory(const struct table *table);

/* table_hash is a quick hash of a short text, for names. */
uint64_t table_hash(struct slice text, uint64_t seed);

#endif
