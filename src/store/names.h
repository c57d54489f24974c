/* names: queues and sets of capabilities, each by its number and by its name.
 *
 * Numbers are small and dense: they index arrays. */
#ifndef LAZARET_STORE_NAMES_H
#define LAZARET_STORE_NAMES_H

#include "core/job.h"
#include "store/table.h"

#define NAMES_MAX (1u << 24) /* numbers are below this */

/* struct queue_name: the name of a queue.  Names are never freed while the index exists: whoever
 * was given one may keep it, also when the queue was made in a transaction that was undone. */
struct queue_name {
    char *text;
    size_t len;
    uint64_t hash;
    uint32_t link;   /* of the table by name */
    uint32_t number; /* of the queue; 0: there is none by this name */
};

/* struct queue_entry: what is known of a queue, and how many live jobs it has. */
struct queue_entry {
    uint32_t name;       /* index of its name, plus one; 0: there is no such queue */
    uint32_t lane_first; /* the first of its lanes; SLOT_NONE: none.  Kept by ready.c */
    bool paused;
    int64_t counts[JOB_RUNNING + 1]; /* live jobs by state.  Kept by live.c */
};

/* struct set_entry: the capabilities of a set, sorted. */
struct set_entry {
    struct slice *names; /* one block of memory holds the slices and then their bytes */
    size_t count;        /* 0: there is no such set */
    size_t size;         /* bytes of the block */
    uint64_t hash;
    uint32_t link;
};

struct names {
    struct queue_name *texts;
    uint32_t text_count;
    uint32_t text_cap;
    struct queue_entry *queues; /* by number */
    uint32_t queue_count;       /* one more than the highest number */
    uint32_t queue_cap;
    struct set_entry *sets;
    uint32_t set_count;
    uint32_t set_cap;
    struct table texts_by_name;
    struct table sets_by_names;
};

void names_init(struct names *names);
void names_clear(struct names *names);   /* forgets queues and sets; names stay where they are */
void names_release(struct names *names); /* frees everything; empty again */

/* names_queue_set makes or changes a queue with a number above 0; false when memory is exhausted or
 * the number is out of range: nothing changed. */
bool names_queue_set(struct names *names, uint32_t number, struct slice name, bool paused);
/* names_queue is the entry of a number, or NULL. */
struct queue_entry *names_queue(const struct names *names, uint32_t number);
/* names_queue_text is its name; `ptr` is NULL when there is no such queue. */
struct slice names_queue_text(const struct names *names, uint32_t number);
bool names_queue_find(const struct names *names, struct slice name, uint32_t *out);

bool names_set_set(struct names *names, uint32_t number, const struct slice *capabilities,
                   size_t count);
const struct set_entry *names_set(const struct names *names, uint32_t number);
bool names_set_find(const struct names *names, const struct slice *capabilities, size_t count,
                    uint32_t *out);

/* names_set_within says whether every capability of a set is among `capabilities`. */
bool names_set_within(const struct names *names, uint32_t number, const struct slice *capabilities,
                      size_t count);

/* names_set_has says whether a set has a capability. */
bool names_set_has(const struct names *names, uint32_t number, struct slice capability);

size_t names_memory(const struct names *names);

#endif
