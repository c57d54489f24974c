/* tally: counting by name: how many letters have this reason, that source. */
#ifndef LAZARET_API_TALLY_H
#define LAZARET_API_TALLY_H

#include "api/call.h"

#define TALLY_SAMPLES 3

/* struct tally_entry: a name and how often it came.  What stands below `count` is the counter's
 * own, for those that keep more than a number. */
struct tally_entry {
    struct slice name; /* a copy in the tally's arena */
    int64_t count;
    struct slice label;
    struct instant first, last;
    struct slice samples[TALLY_SAMPLES];
    size_t sample_count;
};

/* struct tally: `{.arena = ...}` is an empty one.  Entries are in the order of their first coming.
 */
struct tally {
    struct arena *arena;
    struct tally_entry *entries;
    size_t count, cap;
    uint32_t *table; /* open addressing: an entry's number and 1; 0: free.  2 * cap slots */
};

/* tally_add counts `by` for a name.  The entry is valid until the next tally_add; NULL when memory
 * is exhausted. */
struct tally_entry *tally_add(struct tally *tally, struct slice name, int64_t by);

void tally_sort_names(struct tally *tally);  /* by name; nothing is added after it */
void tally_sort_counts(struct tally *tally); /* the highest first; nothing is added after it */

/* tally_print writes {"name":count,...} as the member `key`, by name. */
void tally_print(struct tally *tally, const char *key, struct jsonw *out);

#endif
