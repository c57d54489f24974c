/* keyset: linear probing from where the first word of a key points to.
 *
 * Invariant: between that place and the entry there is no free one. */
#include "run/keyset.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

#define CAP_MIN 64

void keyset_release(struct keyset *set)
{
    mem_free(set->words);
    *set = (struct keyset){.width = set->width, .key = set->key};
}

/* place is where a key is, or the free entry where it belongs. */
static uint64_t *place(const struct keyset *set, const uint64_t *key)
{
    size_t at = key[0] & (set->cap - 1);

    for (;; at = (at + 1) & (set->cap - 1)) {
        uint64_t *entry = set->words + at * set->width;
        if (entry[0] == 0 || memcmp(entry, key, set->key * sizeof(*key)) == 0)
            return entry;
    }
}

/* grow doubles the room. */
static bool grow(struct keyset *set)
{
    struct keyset larger = *set;

    larger.cap = set->cap ? set->cap * 2 : CAP_MIN;
    larger.words = mem_array(larger.cap, set->width * sizeof(uint64_t));
    if (!larger.words)
        return false;
    for (size_t i = 0; i < set->cap; i++) {
        const uint64_t *entry = set->words + i * set->width;
        if (entry[0] != 0)
            memcpy(place(&larger, entry), entry, set->width * sizeof(uint64_t));
    }
    mem_free(set->words);
    *set = larger;
    return true;
}

uint64_t *keyset_put(struct keyset *set, const uint64_t *key, bool *found)
{
    uint64_t *entry;

    BUG_ON(key[0] == 0);
    if (set->count >= set->cap / 8 * 7 && !grow(set))
        return NULL;
    entry = place(set, key);
    *found = entry[0] != 0;
    if (!*found) {
        memcpy(entry, key, set->key * sizeof(*key));
        set->count++;
    }
    return entry;
}
