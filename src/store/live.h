/* live: the live jobs in memory, indexed for everything the engine asks.
 *
 * Jobs are in one array of slots; every index is made of slot numbers (four bytes each):
 *   by seq, by hash of id, by hash of either key     chained hash tables
 *   ready jobs                                       a list for each lane and priority (ready.h)
 *   due times, lease ends, times to be assigned      a heap each
 * A lane is a queue and a set of required capabilities: a worker looks at the lanes it can serve
 * and never steps over jobs that it cannot.  Hashes can collide, so whoever finds by hash compares
 * the text that is on disk. */
#ifndef LAZARET_STORE_LIVE_H
#define LAZARET_STORE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/job.h"
#include "store/store.h"

struct live;

struct live *live_new(void); /* NULL when memory is exhausted */
void live_free(struct live *live);
void live_clear(struct live *live); /* forgets jobs, queues and capabilities */

/* -- names ------------------------------------------------------------------------------------- */

/* live_queue_set tells the number, name and pause of a queue. */
bool live_queue_set(struct live *live, uint32_t queue, struct slice name, bool paused);
bool live_queue_find(const struct live *live, struct slice name, uint32_t *out);
/* live_queue_name borrows until live_free; `ptr` is NULL for an unknown number. */
struct slice live_queue_name(const struct live *live, uint32_t queue);
bool live_queue_is_paused(const struct live *live, uint32_t queue);
uint32_t live_queue_max(const struct live *live); /* the highest number in use */

/* live_capabilities_set tells the number of a set; `names` are sorted and distinct. */
bool live_capabilities_set(struct live *live, uint32_t number, const struct slice *names,
                           size_t count);
bool live_capabilities_find(const struct live *live, const struct slice *names, size_t count,
                            uint32_t *out);
bool live_capabilities_known(const struct live *live, uint32_t number);
/* live_capabilities_names borrows the names of a set until a set is added; NULL for none. */
const struct slice *live_capabilities_names(const struct live *live, uint32_t number,
                                            size_t *count);
uint32_t live_capabilities_max(const struct live *live);

/* -- jobs -------------------------------------------------------------------------------------- */

/* live_put adds a job or replaces what is known of it.  False when memory is exhausted: nothing
 * changed. */
bool live_put(struct live *live, const struct job *job);
void live_remove(struct live *live, int64_t seq);

const struct job *live_by_seq(const struct live *live, int64_t seq);

/* live_next_by_* walk the jobs with a hash: start with *iter = 0; NULL at the end. */
const struct job *live_next_by_id(const struct live *live, uint64_t hash, uint32_t *iter);
const struct job *live_next_by_key(const struct live *live, enum store_key which, uint64_t hash,
                                   uint32_t *iter);

size_t live_ready(struct live *live, const struct ready_query *query, struct job *out, size_t max);
void live_due(struct live *live, struct instant now);
size_t live_expired(struct live *live, struct instant now, struct job *out, size_t max);
struct instant live_next_timer(const struct live *live);
bool live_shift(struct live *live, struct span by);

/* Jobs that are dispatched (JOB_HAS_HINTS) or claimed (JOB_CLAIMED): see store.h. */
size_t live_hinted(struct live *live, const struct hinted_query *query, struct job *out,
                   size_t max);
size_t live_hinted_count(const struct live *live); /* those that are pending */
size_t live_unassigned(struct live *live, struct instant now, struct job *out, size_t max);
void live_assignment_restart(struct live *live, uint32_t queue, struct instant now);

/* live_page finds up to `max` jobs with a seq below `cursor` (0: any), the highest first, of one
 * state (below 0: any) and one queue (0: any).  False when memory is exhausted. */
bool live_page(const struct live *live, int state, uint32_t queue, int64_t cursor, struct job *out,
               size_t max, size_t *count);

size_t live_count(const struct live *live);
/* live_queue_counts fills the counts of live states (the other states are left as they are) and
 * when the oldest of the jobs that are next in line was pushed. */
void live_queue_counts(const struct live *live, uint32_t queue, int64_t counts[JOB_STATE_COUNT],
                       struct instant *oldest_pending);
/* live_requiring: see `requiring` in store.h.  It looks at lanes, not at jobs, but for next_due. */
void live_requiring(const struct live *live, struct slice capability, struct requiring *out);
/* live_memory is the bytes that the index holds, for the figure that is promised. */
size_t live_memory(const struct live *live);

#endif
