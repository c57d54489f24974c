/* keyset: a set of hashes, for millions of items.
 *
 * Open addressing in one array that doubles at seven eighths: an entry takes between 1.1 and 2.3
 * times its own size.  Nothing is ever removed. */
#ifndef LAZARET_RUN_KEYSET_H
#define LAZARET_RUN_KEYSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* struct keyset: `{.width = W, .key = K}` is an empty set of entries with W words, of which the
 * first K tell them apart. */
struct keyset {
    uint64_t *words;     /* the entries; the first word of one that is free is 0 */
    size_t cap;          /* entries there is room for: a power of two, or 0 */
    size_t count;        /* entries in use */
    unsigned width, key; /* words of an entry, and of its key */
};

void keyset_release(struct keyset *set); /* frees; empty again */

/* keyset_put finds the entry with that key, or adds one whose other words are 0; `*found` says
 * which.  Keys must be hashes: their first word, which is not 0, is used as it is.  NULL when
 * memory is exhausted.  The pointer holds until the next call. */
uint64_t *keyset_put(struct keyset *set, const uint64_t *key, bool *found);

#endif
