/* ready: lists that are appended to in no time and put in order when somebody looks.
 *
 * Almost every job is appended behind those that were ready before it, so a list is in order by
 * itself.  The exceptions (retries that came due late, the first load) gather behind the part that
 * is in order; ready_look sorts them and works them in from both ends at once, so that it walks
 * only as far as they belong, whether that is near the head or near the tail. */
#include "store/ready.h"

#include "base/mem.h"
#include "base/status.h"

/* -- lanes ------------------------------------------------------------------------------------- */

static uint64_t lane_key(uint32_t queue, uint32_t capabilities, enum lane_kind kind)
{
    /* Numbers are below NAMES_MAX, so there is a bit to spare. */
    uint64_t key = (uint64_t)capabilities << 32 | (uint64_t)kind << 30 | queue;
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

static uint64_t lane_hash(const void *owner, uint32_t number)
{
    const struct lane *lane = &((const struct ready *)owner)->lanes[number];
    return lane_key(lane->queue, lane->capabilities, lane->kind);
}

static uint32_t *lane_link(const void *owner, uint32_t number)
{
    return &((const struct ready *)owner)->lanes[number].link;
}

static const struct table_kind lane_kind = {lane_hash, lane_link};

void ready_init(struct ready *ready, const struct slots *slots, struct names *names)
{
    *ready = (struct ready){.slots = slots, .names = names};
    table_init(&ready->by_key, &lane_kind, ready);
}

void ready_release(struct ready *ready)
{
    mem_free(ready->lanes);
    mem_free(ready->allowed);
    mem_free(ready->heads);
    table_release(&ready->by_key);
    ready_init(ready, ready->slots, ready->names);
}

static bool grow(void **array, size_t count, size_t size)
{
    void *grown = mem_realloc(*array, count * size);
    if (grown)
        *array = grown;
    return grown != NULL;
}

/* lanes_reserve makes room for one more lane, and for it in the arrays that a look needs. */
static bool lanes_reserve(struct ready *ready)
{
    if (ready->lane_count < ready->lane_cap)
        return true;
    if (ready->lane_cap > UINT32_MAX / 4)
        return false;
    uint32_t cap = ready->lane_cap ? ready->lane_cap * 2 : 8;
    void *lanes = ready->lanes, *allowed = ready->allowed, *heads = ready->heads;
    bool ok = grow(&lanes, cap, sizeof(*ready->lanes)) &&
              grow(&allowed, cap, sizeof(*ready->allowed)) &&
              grow(&heads, cap, sizeof(*ready->heads));
    ready->lanes = lanes;
    ready->allowed = allowed;
    ready->heads = heads;
    if (ok)
        ready->lane_cap = cap;
    return ok;
}

static uint32_t lane_make(struct ready *ready, uint32_t queue, uint32_t capabilities,
                          enum lane_kind kind)
{
    struct queue_entry *entry = names_queue(ready->names, queue);
    BUG_ON(!entry);
    BUG_ON(capabilities && !names_set(ready->names, capabilities));
    if (!lanes_reserve(ready) || !table_reserve(&ready->by_key))
        return SLOT_NONE;
    uint32_t number = ready->lane_count++;
    struct lane *lane = &ready->lanes[number];
    *lane = (struct lane){.queue = queue,
                          .capabilities = capabilities,
                          .kind = kind,
                          .next_of_queue = entry->lane_first};
    for (int i = 0; i < READY_PRIORITIES; i++)
        lane->lists[i] = (struct ready_list){SLOT_NONE, SLOT_NONE, SLOT_NONE};
    entry->lane_first = number;
    table_add(&ready->by_key, number);
    return number;
}

uint32_t ready_lane(struct ready *ready, uint32_t queue, uint32_t capabilities, enum lane_kind kind)
{
    uint64_t hash = lane_key(queue, capabilities, kind);
    for (uint32_t at = table_first(&ready->by_key, hash); at != TABLE_NONE;
         at = table_next(&ready->by_key, hash, at)) {
        const struct lane *lane = &ready->lanes[at];
        if (lane->queue == queue && lane->capabilities == capabilities && lane->kind == kind)
            return at;
    }
    return lane_make(ready, queue, capabilities, kind);
}

/* -- lists ------------------------------------------------------------------------------------- */

static struct slot *at(const struct ready *ready, uint32_t number)
{
    return slots_at(ready->slots, number);
}

static bool goes_before(const struct ready *ready, uint32_t a, uint32_t b)
{
    const struct job *x = &at(ready, a)->job, *y = &at(ready, b)->job;
    if (x->due_at.us != y->due_at.us)
        return x->due_at.us < y->due_at.us;
    return x->seq < y->seq;
}

static struct ready_list *list_of(struct ready *ready, const struct slot *slot)
{
    return &ready->lanes[slot->lane].lists[slot->job.priority];
}

void ready_add(struct ready *ready, uint32_t number)
{
    struct slot *slot = at(ready, number);
    struct ready_list *list = list_of(ready, slot);
    bool in_order = list->tail == SLOT_NONE ||
                    (list->sorted == list->tail && goes_before(ready, list->tail, number));
    slot->previous = list->tail;
    slot->next = SLOT_NONE;
    if (list->tail == SLOT_NONE)
        list->head = number;
    else
        at(ready, list->tail)->next = number;
    list->tail = number;
    if (in_order)
        list->sorted = number;
    ready->lanes[slot->lane].count++;
    ready->hinted_count += ready->lanes[slot->lane].kind == LANE_HINTED;
}

void ready_remove(struct ready *ready, uint32_t number)
{
    struct slot *slot = at(ready, number);
    struct ready_list *list = list_of(ready, slot);
    if (slot->previous == SLOT_NONE)
        list->head = slot->next;
    else
        at(ready, slot->previous)->next = slot->next;
    if (slot->next == SLOT_NONE)
        list->tail = slot->previous;
    else
        at(ready, slot->next)->previous = slot->previous;
    if (list->sorted == number)
        list->sorted = slot->previous;
    ready->lanes[slot->lane].count--;
    ready->hinted_count -= ready->lanes[slot->lane].kind == LANE_HINTED;
}

void ready_disorder(struct ready *ready)
{
    for (uint32_t i = 0; i < ready->lane_count; i++)
        for (int p = 0; p < READY_PRIORITIES; p++)
            ready->lanes[i].lists[p].sorted = SLOT_NONE;
}

/* merge joins two chains that are in order (through `next`) into one. */
static uint32_t merge(const struct ready *ready, uint32_t a, uint32_t b)
{
    uint32_t head = SLOT_NONE, *end = &head;
    while (a != SLOT_NONE && b != SLOT_NONE) {
        uint32_t *least = goes_before(ready, b, a) ? &b : &a;
        *end = *least;
        end = &at(ready, *least)->next;
        *least = *end;
    }
    *end = a != SLOT_NONE ? a : b;
    return head;
}

/* run_take cuts the longest run that is in order off the front of a chain. */
static uint32_t run_take(const struct ready *ready, uint32_t *chain)
{
    uint32_t run = *chain, last = run;
    while (at(ready, last)->next != SLOT_NONE && goes_before(ready, last, at(ready, last)->next))
        last = at(ready, last)->next;
    *chain = at(ready, last)->next;
    at(ready, last)->next = SLOT_NONE;
    return run;
}

/* chain_sort sorts a chain by `next`: pile i holds the merge of 2^i runs, or nothing. */
static uint32_t chain_sort(const struct ready *ready, uint32_t chain)
{
    uint32_t piles[32];
    memset(piles, 0xff, sizeof(piles)); /* SLOT_NONE everywhere */
    while (chain != SLOT_NONE) {
        uint32_t run = run_take(ready, &chain);
        int i = 0;
        for (; i < 31 && piles[i] != SLOT_NONE; i++) {
            run = merge(ready, piles[i], run);
            piles[i] = SLOT_NONE;
        }
        piles[i] = merge(ready, piles[i], run);
    }
    uint32_t sorted = SLOT_NONE;
    for (int i = 0; i < 32; i++)
        sorted = merge(ready, piles[i], sorted);
    return sorted;
}

/* chain_link sets `previous` along a chain and returns its last slot. */
static uint32_t chain_link(const struct ready *ready, uint32_t chain)
{
    uint32_t last = SLOT_NONE;
    for (uint32_t i = chain; i != SLOT_NONE; i = at(ready, i)->next) {
        at(ready, i)->previous = last;
        last = i;
    }
    return last;
}

/* link_between puts a slot between two neighbours, either of which may be SLOT_NONE. */
static void link_between(struct ready *ready, struct ready_list *list, uint32_t before,
                         uint32_t number, uint32_t after)
{
    at(ready, number)->previous = before;
    at(ready, number)->next = after;
    *(before == SLOT_NONE ? &list->head : &at(ready, before)->next) = number;
    *(after == SLOT_NONE ? &list->tail : &at(ready, after)->previous) = number;
}

/* struct seam: a sorted chain on its way into a sorted list.  What is left of the chain, from
 * `first` to `last`, belongs after `left` and before `right`; SLOT_NONE is the end of the list. */
struct seam {
    uint32_t first, last;
    uint32_t left, right;
    bool done;
};

/* seam_left looks at one slot after `left`: it stays before the chain, or the chain's first goes
 * before it. */
static void seam_left(struct ready *ready, struct ready_list *list, struct seam *seam)
{
    uint32_t head = seam->left == SLOT_NONE ? list->head : at(ready, seam->left)->next;
    if (head != seam->right && goes_before(ready, head, seam->first)) {
        seam->left = head;
        return;
    }
    uint32_t first = seam->first;
    seam->done = first == seam->last;
    seam->first = at(ready, first)->next;
    link_between(ready, list, seam->left, first, head);
    seam->left = first;
}

/* seam_right is seam_left from the other end. */
static void seam_right(struct ready *ready, struct ready_list *list, struct seam *seam)
{
    uint32_t tail = seam->right == SLOT_NONE ? list->tail : at(ready, seam->right)->previous;
    if (tail != seam->left && goes_before(ready, seam->last, tail)) {
        seam->right = tail;
        return;
    }
    uint32_t last = seam->last;
    seam->done = last == seam->first;
    seam->last = at(ready, last)->previous;
    link_between(ready, list, tail, last, seam->right);
    seam->right = last;
}

/* list_settle puts the whole list in order. */
static void list_settle(struct ready *ready, struct ready_list *list)
{
    if (list->sorted == list->tail)
        return;
    uint32_t chain = list->head;
    if (list->sorted != SLOT_NONE) {
        chain = at(ready, list->sorted)->next;
        at(ready, list->sorted)->next = SLOT_NONE;
    }
    chain = chain_sort(ready, chain);
    uint32_t last = chain_link(ready, chain);
    if (list->sorted == SLOT_NONE) {
        list->head = chain;
        list->tail = last;
    } else {
        list->tail = list->sorted;
        struct seam seam = {chain, last, SLOT_NONE, SLOT_NONE, false};
        while (!seam.done) {
            seam_left(ready, list, &seam);
            if (!seam.done)
                seam_right(ready, list, &seam);
        }
    }
    list->sorted = list->tail;
}

/* -- looking ----------------------------------------------------------------------------------- */

static void allow_lane(struct ready *ready, const struct ready_query *query, uint32_t number,
                       uint32_t *count)
{
    struct lane *lane = &ready->lanes[number];
    if (lane->count == 0 || lane->kind != LANE_COMMON || lane->stamp == ready->stamp ||
        names_queue(ready->names, lane->queue)->paused ||
        !names_set_within(ready->names, lane->capabilities, query->capabilities,
                          query->capability_count))
        return;
    lane->stamp = ready->stamp;
    ready->allowed[(*count)++] = number;
}

/* allow fills ready->allowed with the lanes that have jobs for this query. */
static uint32_t allow(struct ready *ready, const struct ready_query *query)
{
    uint32_t count = 0;
    ready->stamp++;
    if (query->queue_count == 0) {
        for (uint32_t i = 0; i < ready->lane_count; i++)
            allow_lane(ready, query, i, &count);
    }
    for (size_t i = 0; i < query->queue_count; i++) {
        uint32_t queue;
        if (!names_queue_find(ready->names, query->queues[i], &queue))
            continue;
        uint32_t lane = names_queue(ready->names, queue)->lane_first;
        for (; lane != SLOT_NONE; lane = ready->lanes[lane].next_of_queue)
            allow_lane(ready, query, lane, &count);
    }
    return count;
}

/* heads_sink restores the heap of heads below `i`. */
static void heads_sink(const struct ready *ready, uint32_t *heads, uint32_t count, uint32_t i)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= count)
            return;
        if (child + 1 < count && goes_before(ready, heads[child + 1], heads[child]))
            child++;
        if (!goes_before(ready, heads[child], heads[i]))
            return;
        uint32_t head = heads[i];
        heads[i] = heads[child];
        heads[child] = head;
        i = child;
    }
}

/* look_at merges the lists of one priority of the allowed lanes. */
static size_t look_at(struct ready *ready, uint32_t lanes, int priority, struct job *out,
                      size_t max)
{
    uint32_t *heads = ready->heads, count = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        struct ready_list *list = &ready->lanes[ready->allowed[i]].lists[priority];
        list_settle(ready, list);
        if (list->head != SLOT_NONE)
            heads[count++] = list->head;
    }
    for (uint32_t i = count / 2; i-- > 0;)
        heads_sink(ready, heads, count, i);
    size_t found = 0;
    while (count > 0 && found < max) {
        const struct slot *slot = at(ready, heads[0]);
        out[found++] = slot->job;
        heads[0] = slot->next != SLOT_NONE ? slot->next : heads[--count];
        heads_sink(ready, heads, count, 0);
    }
    return found;
}

size_t ready_look(struct ready *ready, const struct ready_query *query, struct job *out, size_t max)
{
    size_t found = 0;
    uint32_t lanes = allow(ready, query);
    for (int p = READY_PRIORITIES - 1; p >= 0 && found < max; p--)
        found += look_at(ready, lanes, p, out + found, max - found);
    return found;
}

size_t ready_look_hinted(struct ready *ready, const struct hinted_query *query, struct job *out,
                         size_t max)
{
    size_t found = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; ready->hinted_count > 0 && i < ready->lane_count; i++) {
        const struct lane *lane = &ready->lanes[i];
        if (lane->count > 0 && lane->kind == LANE_HINTED &&
            !names_queue(ready->names, lane->queue)->paused &&
            query->wants(query->ctx, lane->queue, lane->capabilities))
            ready->allowed[count++] = i;
    }
    for (int p = READY_PRIORITIES - 1; p >= 0 && found < max; p--)
        found += look_at(ready, count, p, out + found, max - found);
    return found;
}

void ready_visit(const struct ready *ready, enum lane_kind kind, uint32_t queue,
                 void (*visit)(void *ctx, uint32_t number), void *ctx)
{
    for (uint32_t i = 0; i < ready->lane_count; i++) {
        const struct lane *lane = &ready->lanes[i];
        if (lane->kind != kind || (queue && lane->queue != queue))
            continue;
        for (int p = 0; p < READY_PRIORITIES; p++)
            for (uint32_t n = lane->lists[p].head; n != SLOT_NONE; n = at(ready, n)->next)
                visit(ctx, n);
    }
}

struct instant ready_oldest(const struct ready *ready, uint32_t queue)
{
    struct instant oldest = INSTANT_NONE;
    uint32_t lane = names_queue(ready->names, queue)->lane_first;
    for (; lane != SLOT_NONE; lane = ready->lanes[lane].next_of_queue) {
        for (int p = 0; p < READY_PRIORITIES; p++) {
            uint32_t head = ready->lanes[lane].lists[p].head;
            if (head == SLOT_NONE)
                continue;
            struct instant pushed = at(ready, head)->job.pushed_at;
            if (!instant_is_set(oldest) || instant_before(pushed, oldest))
                oldest = pushed;
        }
    }
    return oldest;
}

size_t ready_memory(const struct ready *ready)
{
    return table_memory(&ready->by_key) +
           ready->lane_cap *
               (sizeof(*ready->lanes) + sizeof(*ready->allowed) + sizeof(*ready->heads));
}
