/* live: one array of slots, four hash tables, three heaps, the ready lists, and what keeps them in
 * step.
 *
 * Where a job hangs follows from its state:
 *
 *     pending    the ready list of its lane and priority; one that is dispatched (JOB_HAS_HINTS)
 *                also the heap `assignments`, by when a worker must have it
 *     scheduled  the heap `due`, by due_at
 *     running    the heap `leases`, by due_at
 *
 * and in every state in the table by seq and by id, and in those by key when it has keys.
 *
 * Only live_put needs memory, and it takes all that it needs before it changes anything: a lane is
 * made when a job is put, whatever its state, and so is the room in `assignments`, so that coming
 * due cannot fail.
 *
 * The time to be assigned counts from when a job became pending in memory: a job that came due late
 * has all of it, and it is not in the record (but for how long it is, deadline_at - due_at). */
#include "store/live.h"

#include "base/heap.h"
#include "base/mem.h"
#include "base/status.h"
#include "store/names.h"
#include "store/ready.h"
#include "store/slot.h"
#include "store/table.h"

struct live {
    struct slots slots;
    struct names names;
    struct ready ready;
    struct table tables[SLOT_INDEX_COUNT];
    struct heap due;
    struct heap leases;
    struct heap assignments;
    uint32_t apart; /* jobs with hints or a claim, in any state: `assignments` has room for them */
};

/* -- the hash tables --------------------------------------------------------------------------- */

static const struct job *job_at(const void *owner, uint32_t number)
{
    return &slots_at(&((const struct live *)owner)->slots, number)->job;
}

static uint64_t seq_hash(const void *owner, uint32_t number)
{
    return (uint64_t)job_at(owner, number)->seq;
}

static uint64_t id_hash(const void *owner, uint32_t number)
{
    return job_at(owner, number)->id_hash;
}

static uint64_t idempotency_hash(const void *owner, uint32_t number)
{
    return job_at(owner, number)->idempotency_hash;
}

static uint64_t retry_key_hash(const void *owner, uint32_t number)
{
    return job_at(owner, number)->retry_key_hash;
}

static uint32_t *chain_at(const void *owner, uint32_t number, enum slot_index index)
{
    return &slots_at(&((const struct live *)owner)->slots, number)->chain[index];
}

static uint32_t *seq_link(const void *owner, uint32_t number)
{
    return chain_at(owner, number, SLOT_BY_SEQ);
}

static uint32_t *id_link(const void *owner, uint32_t number)
{
    return chain_at(owner, number, SLOT_BY_ID);
}

static uint32_t *idempotency_link(const void *owner, uint32_t number)
{
    return chain_at(owner, number, SLOT_BY_IDEMPOTENCY);
}

static uint32_t *retry_key_link(const void *owner, uint32_t number)
{
    return chain_at(owner, number, SLOT_BY_RETRY_KEY);
}

static const struct table_kind kinds[SLOT_INDEX_COUNT] = {
    [SLOT_BY_SEQ] = {seq_hash, seq_link},
    [SLOT_BY_ID] = {id_hash, id_link},
    [SLOT_BY_IDEMPOTENCY] = {idempotency_hash, idempotency_link},
    [SLOT_BY_RETRY_KEY] = {retry_key_hash, retry_key_link},
};

/* hangs_in says what a job is found by in a table; 0 when it does not hang there. */
static uint64_t hangs_in(const struct job *job, enum slot_index index)
{
    switch (index) {
    case SLOT_BY_SEQ:
        return (uint64_t)job->seq;
    case SLOT_BY_ID:
        return job->id_hash;
    case SLOT_BY_IDEMPOTENCY:
        return job->idempotency_hash;
    default:
        return job->retry_key_hash;
    }
}

/* -- making and freeing ------------------------------------------------------------------------ */

static void position_moved(void *owner, uint32_t number, uint32_t position)
{
    slots_at(&((struct live *)owner)->slots, number)->position = position;
}

struct live *live_new(void)
{
    struct live *live = mem_zalloc(sizeof(*live));
    if (!live)
        return NULL;
    slots_init(&live->slots);
    names_init(&live->names);
    ready_init(&live->ready, &live->slots, &live->names);
    for (int i = 0; i < SLOT_INDEX_COUNT; i++)
        table_init(&live->tables[i], &kinds[i], live);
    heap_init(&live->due, position_moved, live);
    heap_init(&live->leases, position_moved, live);
    heap_init(&live->assignments, position_moved, live);
    return live;
}

void live_clear(struct live *live)
{
    live->apart = 0;
    heap_release(&live->assignments);
    heap_release(&live->leases);
    heap_release(&live->due);
    for (int i = 0; i < SLOT_INDEX_COUNT; i++)
        table_release(&live->tables[i]);
    ready_release(&live->ready);
    names_clear(&live->names);
    slots_release(&live->slots);
}

void live_free(struct live *live)
{
    if (!live)
        return;
    live_clear(live);
    names_release(&live->names);
    mem_free(live);
}

/* -- names ------------------------------------------------------------------------------------- */

bool live_queue_set(struct live *live, uint32_t queue, struct slice name, bool paused)
{
    return names_queue_set(&live->names, queue, name, paused);
}

bool live_queue_find(const struct live *live, struct slice name, uint32_t *out)
{
    return names_queue_find(&live->names, name, out);
}

struct slice live_queue_name(const struct live *live, uint32_t queue)
{
    return names_queue_text(&live->names, queue);
}

bool live_queue_is_paused(const struct live *live, uint32_t queue)
{
    const struct queue_entry *entry = names_queue(&live->names, queue);
    return entry && entry->paused;
}

uint32_t live_queue_max(const struct live *live)
{
    return live->names.queue_count ? live->names.queue_count - 1 : 0;
}

bool live_capabilities_set(struct live *live, uint32_t number, const struct slice *names,
                           size_t count)
{
    return names_set_set(&live->names, number, names, count);
}

bool live_capabilities_find(const struct live *live, const struct slice *names, size_t count,
                            uint32_t *out)
{
    return names_set_find(&live->names, names, count, out);
}

bool live_capabilities_known(const struct live *live, uint32_t number)
{
    return number == 0 || names_set(&live->names, number);
}

const struct slice *live_capabilities_names(const struct live *live, uint32_t number, size_t *count)
{
    const struct set_entry *set = number ? names_set(&live->names, number) : NULL;
    *count = set ? set->count : 0;
    return set ? set->names : NULL;
}

uint32_t live_capabilities_max(const struct live *live)
{
    return live->names.set_count ? live->names.set_count - 1 : 0;
}

/* -- putting and removing ---------------------------------------------------------------------- */

/* heap_of is the heap that a state hangs in; NULL for the ready lists. */
static struct heap *heap_of(struct live *live, uint8_t state)
{
    switch (state) {
    case JOB_SCHEDULED:
        return &live->due;
    case JOB_RUNNING:
        return &live->leases;
    default:
        return NULL;
    }
}

/* is_apart says whether a job waits in no line: then a worker must have it by a certain time. */
static bool is_apart(const struct job *job)
{
    return (job->flags & (JOB_HAS_HINTS | JOB_CLAIMED)) != 0;
}

static enum lane_kind lane_of(const struct job *job)
{
    return job->flags & JOB_CLAIMED     ? LANE_CLAIMED
           : job->flags & JOB_HAS_HINTS ? LANE_HINTED
                                        : LANE_COMMON;
}

/* count_slot counts a slot's job among those of its queue and of its lane, or no longer. */
static void count_slot(struct live *live, const struct slot *slot, bool in)
{
    int64_t *of_queue = &names_queue(&live->names, slot->job.queue)->counts[slot->job.state];
    uint32_t *of_lane = &live->ready.lanes[slot->lane].live[slot->job.state];
    *of_queue = in ? *of_queue + 1 : *of_queue - 1;
    *of_lane = in ? *of_lane + 1 : *of_lane - 1;
    if (is_apart(&slot->job))
        live->apart = in ? live->apart + 1 : live->apart - 1;
}

/* assignment_end is when a worker must have a job that becomes pending at `now`.  A claim has its
 * time whether or not anybody was here to see it pass. */
static struct instant assignment_end(const struct job *job, struct instant now)
{
    if (job->deadline_at.us == INT64_MAX || (job->flags & JOB_CLAIMED))
        return job->deadline_at;
    return instant_add(now, instant_since(job->deadline_at, job->due_at));
}

/* ready_join hangs a pending job where it belongs; `until` is when a worker must have it. */
static void ready_join(struct live *live, uint32_t number, struct instant until)
{
    ready_add(&live->ready, number);
    if (is_apart(job_at(live, number)))
        BUG_ON(!heap_add(&live->assignments, until.us, number)); /* reserve() made the room */
}

/* ready_leave takes it out again. */
static void ready_leave(struct live *live, uint32_t number)
{
    const struct slot *slot = slots_at(&live->slots, number);
    ready_remove(&live->ready, number);
    if (is_apart(&slot->job))
        heap_remove(&live->assignments, slot->position);
}

/* reserve takes the memory that the tables, the lane and the time of a job will need. */
static bool reserve(struct live *live, const struct job *job, uint32_t *lane)
{
    for (enum slot_index i = 0; i < SLOT_INDEX_COUNT; i++)
        if (hangs_in(job, i) && !table_reserve(&live->tables[i]))
            return false;
    if (is_apart(job) && !heap_reserve(&live->assignments, live->apart + 1))
        return false;
    *lane = ready_lane(&live->ready, job->queue, job->capabilities, lane_of(job));
    return *lane != SLOT_NONE;
}

static bool add(struct live *live, const struct job *job, uint32_t lane)
{
    struct heap *heap = heap_of(live, job->state);
    uint32_t number = slots_take(&live->slots);
    if (number == SLOT_NONE)
        return false;
    struct slot *slot = slots_at(&live->slots, number);
    slot->job = *job;
    slot->lane = lane;
    slot->position = HEAP_NONE;
    if (!heap) {
        ready_join(live, number, job->deadline_at);
    } else if (!heap_add(heap, job->due_at.us, number)) {
        slots_give(&live->slots, number);
        return false;
    }
    for (enum slot_index i = 0; i < SLOT_INDEX_COUNT; i++)
        if (hangs_in(job, i))
            table_add(&live->tables[i], number);
    count_slot(live, slot, true);
    return true;
}

/* leave takes a slot out of its heap or ready list. */
static void leave(struct live *live, uint32_t number)
{
    struct slot *slot = slots_at(&live->slots, number);
    struct heap *heap = heap_of(live, slot->job.state);
    if (heap)
        heap_remove(heap, slot->position);
    else
        ready_leave(live, number);
}

/* change_place moves a slot to where its next job state hangs; the slot still has the earlier one.
 * Moving into a heap is the only step that can fail, and comes first or is undone. */
static bool change_place(struct live *live, uint32_t number, const struct job *job)
{
    struct slot *slot = slots_at(&live->slots, number);
    struct heap *from = heap_of(live, slot->job.state), *to = heap_of(live, job->state);
    if (from && from == to) {
        heap_update(to, slot->position, job->due_at.us);
        return true;
    }
    if (from && to) {
        heap_remove(from, slot->position);
        if (heap_add(to, job->due_at.us, number))
            return true;
        BUG_ON(!heap_add(from, slot->job.due_at.us, number)); /* it has the room it had */
        return false;
    }
    if (from) {
        heap_remove(from, slot->position);
        return true;
    }
    struct instant until = INSTANT_NEVER; /* a slot has one position: it leaves before it joins */
    if (is_apart(&slot->job))
        until.us = live->assignments.entries[slot->position].key;
    ready_leave(live, number);
    if (!to || heap_add(to, job->due_at.us, number))
        return true;
    ready_join(live, number, until);
    return false;
}

static bool replace(struct live *live, uint32_t number, const struct job *job, uint32_t lane)
{
    struct slot *slot = slots_at(&live->slots, number);
    bool rehang[SLOT_INDEX_COUNT];
    if (!change_place(live, number, job))
        return false;
    count_slot(live, slot, false);
    for (enum slot_index i = 0; i < SLOT_INDEX_COUNT; i++) {
        rehang[i] = hangs_in(&slot->job, i) != hangs_in(job, i);
        if (rehang[i] && hangs_in(&slot->job, i))
            table_remove(&live->tables[i], number);
    }
    slot->job = *job;
    slot->lane = lane;
    for (enum slot_index i = 0; i < SLOT_INDEX_COUNT; i++)
        if (rehang[i] && hangs_in(job, i))
            table_add(&live->tables[i], number);
    if (!heap_of(live, job->state))
        ready_join(live, number, job->deadline_at);
    count_slot(live, slot, true);
    return true;
}

static uint32_t find(const struct live *live, int64_t seq)
{
    return seq > 0 ? table_first(&live->tables[SLOT_BY_SEQ], (uint64_t)seq) : TABLE_NONE;
}

bool live_put(struct live *live, const struct job *job)
{
    uint32_t lane;
    BUG_ON(job->seq <= 0);
    BUG_ON(!job_is_live(job->state) || job->priority >= READY_PRIORITIES);
    if (!reserve(live, job, &lane))
        return false;
    uint32_t number = find(live, job->seq);
    return number == TABLE_NONE ? add(live, job, lane) : replace(live, number, job, lane);
}

void live_remove(struct live *live, int64_t seq)
{
    uint32_t number = find(live, seq);
    if (number == TABLE_NONE)
        return;
    const struct job *job = job_at(live, number);
    leave(live, number);
    for (enum slot_index i = 0; i < SLOT_INDEX_COUNT; i++)
        if (hangs_in(job, i))
            table_remove(&live->tables[i], number);
    count_slot(live, slots_at(&live->slots, number), false);
    slots_give(&live->slots, number);
}

/* -- finding ----------------------------------------------------------------------------------- */

const struct job *live_by_seq(const struct live *live, int64_t seq)
{
    uint32_t number = find(live, seq);
    return number == TABLE_NONE ? NULL : job_at(live, number);
}

/* next_by steps along a chain; *iter is one more than the slot that was returned last. */
static const struct job *next_by(const struct live *live, enum slot_index index, uint64_t hash,
                                 uint32_t *iter)
{
    const struct table *table = &live->tables[index];
    uint32_t number;
    if (hash == 0)
        return NULL;
    number = *iter ? table_next(table, hash, *iter - 1) : table_first(table, hash);
    if (number == TABLE_NONE)
        return NULL;
    *iter = number + 1;
    return job_at(live, number);
}

const struct job *live_next_by_id(const struct live *live, uint64_t hash, uint32_t *iter)
{
    return next_by(live, SLOT_BY_ID, hash, iter);
}

const struct job *live_next_by_key(const struct live *live, enum store_key which, uint64_t hash,
                                   uint32_t *iter)
{
    return next_by(live, which == STORE_KEY_RETRY ? SLOT_BY_RETRY_KEY : SLOT_BY_IDEMPOTENCY, hash,
                   iter);
}

size_t live_ready(struct live *live, const struct ready_query *query, struct job *out, size_t max)
{
    return ready_look(&live->ready, query, out, max);
}

/* -- time -------------------------------------------------------------------------------------- */

void live_due(struct live *live, struct instant now)
{
    const struct heap_entry *min;
    while ((min = heap_min(&live->due)) && min->key <= now.us) {
        uint32_t number = min->handle;
        struct slot *slot = slots_at(&live->slots, number);
        heap_remove(&live->due, 0);
        count_slot(live, slot, false);
        slot->job.state = JOB_PENDING;
        count_slot(live, slot, true);
        ready_join(live, number, assignment_end(&slot->job, now));
    }
}

size_t live_expired(struct live *live, struct instant now, struct job *out, size_t max)
{
    /* What has ended is a connected part at the top of the heap: a walk that turns back at the
     * first entry that has not.  Each level down adds at most one to the stack. */
    const struct heap *heap = &live->leases;
    uint64_t stack[64] = {0};
    size_t found = 0, depth = 1;
    while (depth > 0 && found < max) {
        uint64_t position = stack[--depth];
        if (position >= heap->count || heap->entries[position].key > now.us)
            continue;
        out[found++] = *job_at(live, heap->entries[position].handle);
        stack[depth++] = 2 * position + 2;
        stack[depth++] = 2 * position + 1;
    }
    return found;
}

struct instant live_next_timer(const struct live *live)
{
    const struct heap *heaps[] = {&live->due, &live->leases, &live->assignments};
    struct instant next = INSTANT_NEVER;
    for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++) {
        const struct heap_entry *min = heap_min(heaps[i]);
        if (min && min->key < next.us)
            next.us = min->key;
    }
    return next;
}

/* assignments_shift moves every time to be assigned.  They keep their order, so the heap does. */
static void assignments_shift(struct live *live, struct span by)
{
    for (uint32_t i = 0; i < live->assignments.count; i++) {
        struct heap_entry *entry = &live->assignments.entries[i];
        if (entry->key != INT64_MAX)
            entry->key = instant_add((struct instant){entry->key}, by).us;
    }
}

bool live_shift(struct live *live, struct span by)
{
    for (uint32_t i = 0; i < live->slots.used; i++) {
        struct slot *slot = slots_at(&live->slots, i);
        struct job *job = &slot->job;
        bool running = job->state == JOB_RUNNING;
        if (job->seq == 0)
            continue;
        if (instant_is_set(job->round_at))
            job->round_at = instant_add(job->round_at, by);
        if (!running && (job->flags & JOB_RUN_AT))
            continue;
        job->due_at = instant_add(job->due_at, by);
        if ((running || is_apart(job)) && instant_is_set(job->deadline_at) &&
            job->deadline_at.us != INT64_MAX)
            job->deadline_at = instant_add(job->deadline_at, by);
        if (heap_of(live, job->state))
            heap_update(heap_of(live, job->state), slot->position, job->due_at.us);
    }
    assignments_shift(live, by);
    ready_disorder(&live->ready);
    return true;
}

/* -- dispatch ---------------------------------------------------------------------------------- */

size_t live_hinted(struct live *live, const struct hinted_query *query, struct job *out, size_t max)
{
    return ready_look_hinted(&live->ready, query, out, max);
}

size_t live_hinted_count(const struct live *live)
{
    return live->ready.hinted_count;
}

size_t live_unassigned(struct live *live, struct instant now, struct job *out, size_t max)
{
    size_t found = 0;
    const struct heap_entry *min;
    while (found < max && (min = heap_min(&live->assignments)) && min->key <= now.us) {
        const struct job *job = job_at(live, min->handle);
        if (!live_queue_is_paused(live, job->queue))
            out[found++] = *job;
        heap_update(&live->assignments, 0, INT64_MAX);
    }
    return found;
}

struct restart {
    struct live *live;
    struct instant now;
};

static void restart_one(void *ctx, uint32_t number)
{
    const struct restart *restart = ctx;
    const struct slot *slot = slots_at(&restart->live->slots, number);
    heap_update(&restart->live->assignments, slot->position,
                assignment_end(&slot->job, restart->now).us);
}

void live_assignment_restart(struct live *live, uint32_t queue, struct instant now)
{
    struct restart restart = {live, now};
    ready_visit(&live->ready, LANE_HINTED, queue, restart_one, &restart);
    if (queue) /* those that were passed over while it was paused */
        ready_visit(&live->ready, LANE_CLAIMED, queue, restart_one, &restart);
}

/* -- figures ----------------------------------------------------------------------------------- */

static void position_ignored(void *owner, uint32_t handle, uint32_t position)
{
    (void)owner;
    (void)handle;
    (void)position;
}

/* page_offer keeps the `max` highest seqs in a heap whose smallest is on top. */
static bool page_offer(struct heap *page, const struct job *job, uint32_t number, size_t max)
{
    if (page->count == max) {
        if (job->seq < heap_min(page)->key)
            return true;
        heap_remove(page, 0);
    }
    return heap_add(page, job->seq, number);
}

/* page_candidate is the i-th slot that may be of `state`; SLOT_NONE past the last. */
static uint32_t page_candidate(const struct live *live, int state, uint32_t i)
{
    if (state == JOB_SCHEDULED)
        return i < live->due.count ? live->due.entries[i].handle : SLOT_NONE;
    if (state == JOB_RUNNING)
        return i < live->leases.count ? live->leases.entries[i].handle : SLOT_NONE;
    return i < live->slots.used ? i : SLOT_NONE;
}

bool live_page(const struct live *live, int state, uint32_t queue, int64_t cursor, struct job *out,
               size_t max, size_t *count)
{
    struct heap page;
    uint32_t number;
    bool ok = max > 0;
    *count = 0;
    heap_init(&page, position_ignored, NULL);
    for (uint32_t i = 0; ok && (number = page_candidate(live, state, i)) != SLOT_NONE; i++) {
        const struct job *job = job_at(live, number);
        if (job->seq != 0 && (state < 0 || job->state == state) &&
            (queue == 0 || job->queue == queue) && (cursor == 0 || job->seq < cursor))
            ok = page_offer(&page, job, number, max);
    }
    if (ok) {
        *count = page.count;
        for (size_t i = page.count; i-- > 0; heap_remove(&page, 0))
            out[i] = *job_at(live, heap_min(&page)->handle);
    }
    heap_release(&page);
    return ok || max == 0;
}

size_t live_count(const struct live *live)
{
    return live->tables[SLOT_BY_SEQ].count;
}

void live_queue_counts(const struct live *live, uint32_t queue, int64_t counts[JOB_STATE_COUNT],
                       struct instant *oldest_pending)
{
    const struct queue_entry *entry = names_queue(&live->names, queue);
    for (int i = 0; i <= JOB_RUNNING; i++)
        counts[i] = entry ? entry->counts[i] : 0;
    *oldest_pending = entry ? ready_oldest(&live->ready, queue) : INSTANT_NONE;
}

/* next_due_requiring is the earliest due time of the scheduled jobs that require a capability.  A
 * heap has nothing earlier below an entry: the walk turns back at the first match, and where all is
 * later than what was found.  Each level down adds at most one to the stack. */
static struct instant next_due_requiring(const struct live *live, struct slice capability)
{
    const struct heap *heap = &live->due;
    uint64_t stack[64] = {0};
    struct instant next = INSTANT_NONE;
    for (size_t depth = 1; depth > 0;) {
        uint64_t position = stack[--depth];
        if (position >= heap->count ||
            (instant_is_set(next) && heap->entries[position].key >= next.us))
            continue;
        const struct job *job = job_at(live, heap->entries[position].handle);
        if (names_set_has(&live->names, job->capabilities, capability)) {
            next = job->due_at;
            continue;
        }
        stack[depth++] = 2 * position + 2;
        stack[depth++] = 2 * position + 1;
    }
    return next;
}

void live_requiring(const struct live *live, struct slice capability, struct requiring *out)
{
    *out = (struct requiring){0};
    for (uint32_t i = 0; i < live->ready.lane_count; i++) {
        const struct lane *lane = &live->ready.lanes[i];
        if (!names_set_has(&live->names, lane->capabilities, capability))
            continue;
        for (int state = 0; state <= JOB_RUNNING; state++)
            out->counts[state] += lane->live[state];
    }
    if (out->counts[JOB_SCHEDULED] > 0)
        out->next_due = next_due_requiring(live, capability);
}

static size_t heap_memory(const struct heap *heap)
{
    return heap->cap * sizeof(*heap->entries);
}

size_t live_memory(const struct live *live)
{
    size_t total = sizeof(*live) + slots_memory(&live->slots) + names_memory(&live->names) +
                   ready_memory(&live->ready) + heap_memory(&live->due) +
                   heap_memory(&live->leases) + heap_memory(&live->assignments);
    for (int i = 0; i < SLOT_INDEX_COUNT; i++)
        total += table_memory(&live->tables[i]);
    return total;
}
