/* numbers: counters that a batch touches and its commit makes true.
 *
 *     bump --> counter.pending, in the list of what was touched --+-- numbers_commit ---> kept
 *                                                                 `-- numbers_rollback -> gone
 *
 * Invariant: outside a batch the list is empty and every `pending` is 0.  Counters stay where they
 * are for as long as the numbers live, so the list may point to them.  A queue is found by its
 * number and not by its name; a queue that a rolled back batch made may give its number to another,
 * which does no harm as nothing was kept for it. */
#include "engine/numbers.h"

#include "base/mem.h"

#define QUEUE_NUMBER_MAX 65535 /* queues with a higher number are counted with the others */

struct counter {
    uint64_t kept, pending;
    struct counter *next; /* that the batch touched before this one */
};

struct queue_counters {
    struct counter outcomes[ATTEMPT_OUTCOME_COUNT];
};

struct named_counter {
    struct counter counter;
    size_t first_len, second_len; /* of the two names in `text` */
    char text[];
};

/* struct named_counters: counters by a name, or by two.  `keys` are searched one by one: they are
 * few, lie side by side, and only a failure asks for one. */
struct named_counters {
    uint64_t keys[NUMBERS_NAMES_MAX];
    struct named_counter *rows[NUMBERS_NAMES_MAX];
    size_t count;
    struct counter other;
};

struct numbers {
    struct counter *touched;
    struct queue_counters **queues; /* by number; NULL: nothing was counted */
    size_t queue_cap;               /* numbers that `queues` has room for */
    size_t queue_count;             /* of those that are not NULL */
    struct queue_counters queue_other;
    struct named_counters retries, deaths;
    struct counter events;
    uint64_t batch_jobs;
    struct histogram commit_us, commit_jobs;
};

static const int64_t commit_bounds_us[] = {100,     250,     500,     1000,    2500,   5000,
                                           10000,   25000,   50000,   100000,  250000, 500000,
                                           1000000, 2500000, 5000000, 10000000};
static const int64_t commit_bounds_jobs[] = {1,   2,   5,    10,   20,   50,    100,
                                             200, 500, 1000, 2000, 5000, 10000, 50000};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
_Static_assert(LENGTH(commit_bounds_us) <= HISTOGRAM_BOUNDS_MAX, "buckets of commit_us");
_Static_assert(LENGTH(commit_bounds_jobs) <= HISTOGRAM_BOUNDS_MAX, "buckets of commit_jobs");

const char *attempt_outcome_name(enum attempt_outcome outcome)
{
    static const char *const names[ATTEMPT_OUTCOME_COUNT] = {"complete", "failed", "crashed",
                                                             "unassigned", "interrupted"};
    return names[outcome];
}

struct slice numbers_name(struct slice name)
{
    if (name.len <= NUMBERS_NAME_BYTES_MAX)
        return name;
    name.len = NUMBERS_NAME_BYTES_MAX;
    /* A byte 10xxxxxx goes on with a character: the cut is before one that begins. */
    while (name.len && ((unsigned char)name.ptr[name.len] & 0xC0) == 0x80)
        name.len--;
    return name;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct numbers *numbers_new(void)
{
    struct numbers *numbers = mem_zalloc(sizeof(*numbers));
    if (!numbers)
        return NULL;
    numbers->commit_us.bounds = commit_bounds_us;
    numbers->commit_us.bound_count = LENGTH(commit_bounds_us);
    numbers->commit_jobs.bounds = commit_bounds_jobs;
    numbers->commit_jobs.bound_count = LENGTH(commit_bounds_jobs);
    return numbers;
}

static void named_release(struct named_counters *named)
{
    for (size_t i = 0; i < named->count; i++)
        mem_free(named->rows[i]);
}

void numbers_free(struct numbers *numbers)
{
    if (!numbers)
        return;
    for (size_t i = 0; i < numbers->queue_cap; i++)
        mem_free(numbers->queues[i]);
    mem_free(numbers->queues);
    named_release(&numbers->retries);
    named_release(&numbers->deaths);
    mem_free(numbers);
}

/* ---- finding a counter ----------------------------------------------------------------------- */

/* queues_grow makes room for a queue's number; false when there is none. */
static bool queues_grow(struct numbers *numbers, uint32_t queue)
{
    size_t cap = numbers->queue_cap ? numbers->queue_cap : 16;
    if (queue > QUEUE_NUMBER_MAX)
        return false;
    while (cap <= queue)
        cap *= 2;
    struct queue_counters **queues =
        mem_realloc(numbers->queues, cap * sizeof(struct queue_counters *));
    if (!queues)
        return false;
    for (size_t i = numbers->queue_cap; i < cap; i++)
        queues[i] = NULL;
    numbers->queues = queues;
    numbers->queue_cap = cap;
    return true;
}

static struct queue_counters *of_queue(struct numbers *numbers, uint32_t queue)
{
    if (queue < numbers->queue_cap && numbers->queues[queue])
        return numbers->queues[queue];
    if (numbers->queue_count == NUMBERS_NAMES_MAX ||
        (queue >= numbers->queue_cap && !queues_grow(numbers, queue)))
        return &numbers->queue_other;
    struct queue_counters *made = mem_zalloc(sizeof(*made));
    if (!made)
        return &numbers->queue_other;
    numbers->queue_count++;
    return numbers->queues[queue] = made;
}

/* key_of is FNV-1a over both names: it only makes the search quick, the names decide. */
static uint64_t key_of(struct slice first, struct slice second)
{
    uint64_t key = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < first.len; i++)
        key = (key ^ (unsigned char)first.ptr[i]) * UINT64_C(1099511628211);
    key = (key ^ 0xFF) * UINT64_C(1099511628211);
    for (size_t i = 0; i < second.len; i++)
        key = (key ^ (unsigned char)second.ptr[i]) * UINT64_C(1099511628211);
    return key;
}

static struct slice first_of(const struct named_counter *row)
{
    return (struct slice){row->text, row->first_len};
}

static struct slice second_of(const struct named_counter *row)
{
    return (struct slice){row->text + row->first_len, row->second_len};
}

static struct counter *named_add(struct named_counters *named, uint64_t key, struct slice first,
                                 struct slice second)
{
    if (named->count == NUMBERS_NAMES_MAX)
        return &named->other;
    struct named_counter *row = mem_zalloc(sizeof(*row) + first.len + second.len + 1);
    if (!row)
        return &named->other;
    row->first_len = first.len;
    row->second_len = second.len;
    if (first.len)
        memcpy(row->text, first.ptr, first.len);
    if (second.len)
        memcpy(row->text + first.len, second.ptr, second.len);
    named->keys[named->count] = key;
    named->rows[named->count++] = row;
    return &row->counter;
}

/* named_find finds the counter of two names (the second may be empty).  Whatever is called as the
 * others are is counted with them. */
static struct counter *named_find(struct named_counters *named, struct slice first,
                                  struct slice second)
{
    first = numbers_name(first);
    second = numbers_name(second);
    if (slice_is(first, NUMBERS_OTHER) && (!second.len || slice_is(second, NUMBERS_OTHER)))
        return &named->other;
    uint64_t key = key_of(first, second);
    for (size_t i = 0; i < named->count; i++) {
        if (named->keys[i] == key && slice_eq(first_of(named->rows[i]), first) &&
            slice_eq(second_of(named->rows[i]), second))
            return &named->rows[i]->counter;
    }
    return named_add(named, key, first, second);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void bump(struct numbers *numbers, struct counter *counter)
{
    if (counter->pending++ == 0) {
        counter->next = numbers->touched;
        numbers->touched = counter;
    }
}

void numbers_event(struct numbers *numbers)
{
    bump(numbers, &numbers->events);
}

void numbers_job(struct numbers *numbers)
{
    numbers->batch_jobs++;
}

void numbers_attempt(struct numbers *numbers, uint32_t queue, enum attempt_outcome outcome)
{
    numbers->batch_jobs++;
    bump(numbers, &of_queue(numbers, queue)->outcomes[outcome]);
}

void numbers_retry(struct numbers *numbers, struct slice policy)
{
    if (!policy.len)
        policy = SLICE(NUMBERS_INLINE_POLICY);
    bump(numbers, named_find(&numbers->retries, policy, (struct slice){0}));
}

void numbers_death(struct numbers *numbers, struct slice reason, struct slice source)
{
    bump(numbers, named_find(&numbers->deaths, reason, source));
}

static void observe(struct histogram *histogram, int64_t value)
{
    size_t i = 0;
    while (i < histogram->bound_count && value > histogram->bounds[i])
        i++;
    histogram->buckets[i]++;
    histogram->sum += value;
}

/* settle empties the list of what the batch touched, and keeps it or not. */
static void settle(struct numbers *numbers, bool keep)
{
    for (struct counter *counter = numbers->touched; counter; counter = counter->next) {
        if (keep)
            counter->kept += counter->pending;
        counter->pending = 0;
    }
    numbers->touched = NULL;
    numbers->batch_jobs = 0;
}

void numbers_commit(struct numbers *numbers, struct span took)
{
    observe(&numbers->commit_us, took.us > 0 ? took.us : 0);
    if (numbers->batch_jobs)
        observe(&numbers->commit_jobs, (int64_t)numbers->batch_jobs);
    settle(numbers, true);
}

void numbers_rollback(struct numbers *numbers)
{
    settle(numbers, false);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool attempts_add(struct attempts_counted *row, const struct queue_counters *from)
{
    bool any = false;
    for (int i = 0; i < ATTEMPT_OUTCOME_COUNT; i++) {
        row->by_outcome[i] += from->outcomes[i].kept;
        any = any || from->outcomes[i].kept;
    }
    return any;
}

/* report_attempts copies the counters of the queues; the row of the others is the last.  A queue
 * that is called as they are is one of them. */
static enum status report_attempts(const struct numbers *numbers, struct store *store,
                                   struct arena *arena, struct numbers_report *out, struct err *err)
{
    struct attempts_counted *rows = arena_array(arena, numbers->queue_count + 1, sizeof(*rows));
    struct attempts_counted others = {.queue = SLICE(NUMBERS_OTHER)};
    size_t count = 0;
    bool any_other = attempts_add(&others, &numbers->queue_other);
    if (!rows)
        return err_no_memory(err);
    for (uint32_t queue = 0; queue < numbers->queue_cap; queue++) {
        const struct queue_counters *from = numbers->queues[queue];
        if (!from)
            continue;
        struct slice name = store->queue_name(store, queue);
        if (slice_is(name, NUMBERS_OTHER)) {
            any_other |= attempts_add(&others, from);
        } else if (attempts_add(&rows[count], from)) {
            rows[count].queue = arena_dup(arena, name);
            if (!rows[count++].queue.ptr)
                return err_no_memory(err);
        }
    }
    if (any_other)
        rows[count++] = others;
    for (size_t i = 0; i < count; i++)
        out->lease_expired += rows[i].by_outcome[ATTEMPT_CRASHED];
    out->attempts = rows;
    out->attempt_count = count;
    return STATUS_OK;
}

/* report_named copies a table; the row of the others is the last, with `other_source`. */
static enum status report_named(const struct named_counters *named, struct slice other_source,
                                struct arena *arena, struct named_counted **out, size_t *out_count,
                                struct err *err)
{
    struct named_counted *rows = arena_array(arena, named->count + 1, sizeof(*rows));
    size_t count = 0;
    if (!rows)
        return err_no_memory(err);
    for (size_t i = 0; i < named->count; i++) {
        const struct named_counter *from = named->rows[i];
        if (!from->counter.kept)
            continue;
        struct named_counted *row = &rows[count++];
        row->name = arena_dup(arena, first_of(from));
        row->source = arena_dup(arena, second_of(from));
        row->count = from->counter.kept;
        if (!row->name.ptr || !row->source.ptr)
            return err_no_memory(err);
    }
    if (named->other.kept)
        rows[count++] =
            (struct named_counted){SLICE(NUMBERS_OTHER), other_source, named->other.kept};
    *out = rows;
    *out_count = count;
    return STATUS_OK;
}

enum status numbers_report(const struct numbers *numbers, struct store *store, struct arena *arena,
                           struct numbers_report *out, struct err *err)
{
    *out = (struct numbers_report){
        .events = numbers->events.kept,
        .commit_us = numbers->commit_us,
        .commit_jobs = numbers->commit_jobs,
    };
    enum status status = report_attempts(numbers, store, arena, out, err);
    if (!status)
        status = report_named(&numbers->retries, (struct slice){0}, arena, &out->retries,
                              &out->retry_count, err);
    if (!status)
        status = report_named(&numbers->deaths, SLICE(NUMBERS_OTHER), arena, &out->deaths,
                              &out->death_count, err);
    return status;
}
