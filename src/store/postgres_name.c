/* postgres_name: queues and sets of capabilities.
 *
 * Both are few, so they are all in memory on every server; a row is written when one is new, and
 * the turn says that names changed.  Only who has the turn makes one, so numbers are given in
 * memory.  How many jobs of a queue have ended is added up in memory and sent once for each turn.
 */
#include "base/mem.h"
#include "store/names.h"
#include "store/postgres.h"

/* -- totals ------------------------------------------------------------------------------------ */

/* struct queue_change: what a turn adds to the totals of a queue. */
struct queue_change {
    int64_t done, cancelled;
    bool changed;
};

struct pg_totals {
    struct queue_change *queues; /* by number */
    uint32_t count;
    uint32_t *changed; /* numbers of those that are; as long as `queues` */
    uint32_t changed_count;
};

struct pg_totals *pg_totals_new(void)
{
    return mem_zalloc(sizeof(struct pg_totals));
}

void pg_totals_free(struct pg_totals *totals)
{
    if (!totals)
        return;
    mem_free(totals->queues);
    mem_free(totals->changed);
    mem_free(totals);
}

void pg_totals_clear(struct pg_totals *totals)
{
    for (uint32_t i = 0; i < totals->changed_count; i++)
        totals->queues[totals->changed[i]] = (struct queue_change){0};
    totals->changed_count = 0;
}

static bool totals_reach(struct pg_totals *totals, uint32_t queue)
{
    if (queue < totals->count)
        return true;
    uint32_t count = totals->count ? totals->count : 16;
    while (count <= queue)
        count *= 2;
    struct queue_change *queues = mem_realloc(totals->queues, count * sizeof(*queues));
    if (queues)
        totals->queues = queues;
    uint32_t *changed = mem_realloc(totals->changed, count * sizeof(*changed));
    if (changed)
        totals->changed = changed;
    if (!queues || !changed)
        return false;
    memset(queues + totals->count, 0, (count - totals->count) * sizeof(*queues));
    totals->count = count;
    return true;
}

enum status pg_total_add(struct postgres_store *s, uint32_t queue, enum job_state state, int64_t by,
                         struct err *err)
{
    struct pg_totals *totals = s->totals;
    if (queue >= NAMES_MAX || !totals_reach(totals, queue))
        return pg_fail_write(s, err);
    struct queue_change *change = &totals->queues[queue];
    *(state == JOB_CANCELLED ? &change->cancelled : &change->done) += by;
    if (!change->changed)
        totals->changed[totals->changed_count++] = queue;
    change->changed = true;
    return STATUS_OK;
}

static const struct pg_statement queue_totals = {
    "queue_totals",
    "UPDATE " PG_SCHEMA ".queue AS q SET done = q.done + u.done,"
    " cancelled = q.cancelled + u.cancelled"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(number, done, cancelled)"
    " WHERE q.number = u.number"};

enum status pg_totals_flush(struct postgres_store *s, struct err *err)
{
    struct pg_totals *totals = s->totals;
    struct pg_column columns[3];
    struct pg_params params = {0};
    enum status status = STATUS_OK;
    if (totals->changed_count == 0)
        return STATUS_OK;
    for (int i = 0; i < 3; i++)
        pg_column_init(&columns[i], PG_INT8);
    for (uint32_t i = 0; i < totals->changed_count; i++) {
        const struct queue_change *change = &totals->queues[totals->changed[i]];
        pg_column_int(&columns[0], totals->changed[i]);
        pg_column_int(&columns[1], change->done);
        pg_column_int(&columns[2], change->cancelled);
    }
    for (int i = 0; i < 3 && status == STATUS_OK; i++) {
        status = buf_status(&columns[i].array, err);
        pg_array(&params, &columns[i]);
    }
    if (status == STATUS_OK)
        status = pg_send(s, &queue_totals, &params, err);
    for (int i = 0; i < 3; i++)
        buf_release(&columns[i].array);
    pg_totals_clear(totals);
    s->failed = s->failed || status != STATUS_OK;
    return status;
}

/* -- queues ------------------------------------------------------------------------------------ */

static const struct pg_statement queue_load = {
    "queue_load", "SELECT number, name, paused FROM " PG_SCHEMA ".queue ORDER BY number"};
static const struct pg_statement set_load = {"set_load", "SELECT number, names FROM " PG_SCHEMA
                                                         ".capability_set ORDER BY number"};
static const struct pg_statement queue_insert = {
    "queue_insert", "INSERT INTO " PG_SCHEMA ".queue(number, name, paused, done, cancelled)"
                    " VALUES($1, $2, 0, 0, 0)"};
static const struct pg_statement queue_pause = {
    "queue_pause", "UPDATE " PG_SCHEMA ".queue SET paused = $1 WHERE number = $2"};

static enum status load_queues(struct postgres_store *s, const PGresult *rows, struct err *err)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        int64_t number = pg_get_int(rows, i, 0);
        struct slice name = pg_get_slice(rows, i, 1);
        if (number <= 0 || number >= NAMES_MAX)
            return pg_damage(s, err, "a queue has number %lld", (long long)number);
        struct slice before = live_queue_name(s->live, (uint32_t)number);
        if (before.ptr && !slice_eq(before, name))
            return pg_damage(s, err, "queue %lld has changed its name", (long long)number);
        if (!live_queue_set(s->live, (uint32_t)number, name, pg_get_int(rows, i, 2) != 0))
            return err_no_memory(err);
    }
    return STATUS_OK;
}

bool pg_names_known(struct postgres_store *s, const struct job *job)
{
    return live_queue_name(s->live, job->queue).ptr &&
           live_capabilities_known(s->live, job->capabilities);
}

enum status postgres_queue_number(struct store *store, struct slice name, uint32_t *out,
                                  struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_params params = {0};
    if (live_queue_find(s->live, name, out))
        return STATUS_OK;
    uint32_t number = live_queue_max(s->live) + 1;
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK && number >= NAMES_MAX)
        status = err_set(err, STATUS_LIMIT, "there are too many queues for one more");
    if (status != STATUS_OK)
        return status;
    pg_int(&params, number);
    pg_body(&params, name);
    s->names_changed = true;
    status = pg_send(s, &queue_insert, &params, err);
    if (status == STATUS_OK && !live_queue_set(s->live, number, name, false))
        status = pg_fail_write(s, err);
    if (status == STATUS_OK)
        *out = number;
    return status;
}

struct slice postgres_queue_name(struct store *store, uint32_t queue)
{
    return live_queue_name(postgres_of(store)->live, queue);
}

bool postgres_queue_paused(struct store *store, uint32_t queue)
{
    return live_queue_is_paused(postgres_of(store)->live, queue);
}

enum status postgres_queue_pause(struct store *store, uint32_t queue, bool paused, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct slice name = live_queue_name(s->live, queue);
    struct pg_params params = {0};
    if (!name.ptr)
        return err_set(err, STATUS_NOT_FOUND, "no queue with number %u", queue);
    enum status status = pg_writable(s, err);
    if (status != STATUS_OK)
        return status;
    pg_int(&params, paused);
    pg_int(&params, queue);
    s->names_changed = true;
    status = pg_send(s, &queue_pause, &params, err);
    if (status == STATUS_OK && !live_queue_set(s->live, queue, name, paused))
        status = pg_fail_write(s, err);
    return status;
}

static const struct pg_statement queue_ended = {
    "queue_ended", "SELECT number, done, cancelled FROM " PG_SCHEMA ".queue"};
static const struct pg_statement queue_dead = {
    "queue_dead", "SELECT queue, sum(count)::bigint FROM " PG_SCHEMA ".letter_count"
                  " WHERE state <= 1 GROUP BY queue"};
_Static_assert(LETTER_DEAD == 0 && LETTER_RECOVERING == 1, "the states that SQL calls <= 1");

/* count_ended adds what only the tables know to the queues that have it. */
static void count_ended(struct postgres_store *s, PGresult *rows[2], struct queue_info *infos,
                        const uint32_t *places, uint32_t max)
{
    for (int i = 0; i < PQntuples(rows[0]); i++) {
        int64_t queue = pg_get_int(rows[0], i, 0);
        if (queue <= 0 || queue > max || !live_queue_name(s->live, (uint32_t)queue).ptr)
            continue;
        struct queue_info *info = &infos[places[queue]];
        info->counts[JOB_DONE] = pg_get_int(rows[0], i, 1);
        info->counts[JOB_CANCELLED] = pg_get_int(rows[0], i, 2);
    }
    for (int i = 0; i < PQntuples(rows[1]); i++) {
        uint32_t queue;
        if (live_queue_find(s->live, pg_get_slice(rows[1], i, 0), &queue))
            infos[places[queue]].counts[JOB_DEAD] = pg_get_int(rows[1], i, 1);
    }
}

static enum status ask_ended(struct postgres_store *s, PGresult *rows[2], struct err *err)
{
    enum status status = pg_settled(s, err);
    if (status == STATUS_OK)
        status = pg_query(s, &queue_ended, NULL, &rows[0], err);
    if (status == STATUS_OK)
        status = pg_query(s, &queue_dead, NULL, &rows[1], err);
    return status;
}

enum status postgres_queue_list(struct store *store, struct arena *arena, struct queue_info **out,
                                size_t *count, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    uint32_t max = live_queue_max(s->live), found = 0;
    PGresult *rows[2] = {NULL, NULL};
    struct queue_info *infos = arena_array(arena, (size_t)max + 1, sizeof(*infos));
    uint32_t *places = arena_array(arena, (size_t)max + 1, sizeof(*places));
    if (!infos || !places)
        return err_no_memory(err);
    for (uint32_t queue = 1; queue <= max; queue++) {
        struct slice name = live_queue_name(s->live, queue);
        if (!name.ptr)
            continue;
        struct queue_info *info = &infos[found];
        places[queue] = found++;
        info->queue = queue;
        info->name = arena_dup(arena, name);
        info->paused = live_queue_is_paused(s->live, queue);
        live_queue_counts(s->live, queue, info->counts, &info->oldest_pending);
        if (!info->name.ptr)
            return err_no_memory(err);
    }
    enum status status = ask_ended(s, rows, err);
    if (status == STATUS_OK) {
        count_ended(s, rows, infos, places, max);
        *out = infos;
        *count = found;
    }
    PQclear(rows[0]);
    PQclear(rows[1]);
    return status;
}

/* -- sets of capabilities ---------------------------------------------------------------------- */

#define SET_TEXT_MAX (1 << 20)

/* set_print appends the names of a set, each as LENGTH:BYTES and a comma. */
static void set_print(const struct slice *names, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        buf_addf(out, "%zu:", names[i].len);
        buf_add_slice(out, names[i]);
        buf_add_char(out, ',');
    }
}

/* set_next takes the next name off the front of a text of set_print; false when it is none. */
static bool set_next(struct slice *text, struct slice *name)
{
    size_t len = 0, i = 0;
    while (i < text->len && i < 8 && text->ptr[i] >= '0' && text->ptr[i] <= '9')
        len = len * 10 + (size_t)(text->ptr[i++] - '0');
    if (i == 0 || i >= text->len || text->ptr[i] != ':' || len >= text->len - i - 1 ||
        text->ptr[i + 1 + len] != ',')
        return false;
    *name = (struct slice){text->ptr + i + 1, len};
    *text = (struct slice){text->ptr + i + 1 + len + 1, text->len - (i + 1 + len + 1)};
    return true;
}

static enum status load_set(struct postgres_store *s, int64_t number, struct slice text,
                            struct err *err)
{
    struct arena arena = {0};
    size_t count = 0, room = text.len / 3 + 1; /* a name has three bytes at least */
    struct slice *names = arena_array(&arena, room, sizeof(*names));
    bool good = number > 0 && number < NAMES_MAX && text.len > 0;
    while (names && good && text.len > 0 && count < room)
        good = set_next(&text, &names[count++]);
    enum status status = STATUS_OK;
    if (!names)
        status = err_no_memory(err);
    else if (!good || text.len > 0)
        status = pg_damage(s, err, "capability set %lld is not one", (long long)number);
    else if (!live_capabilities_set(s->live, (uint32_t)number, names, count))
        status = err_no_memory(err);
    arena_release(&arena);
    return status;
}

enum status pg_names_ask(struct postgres_store *s, struct err *err)
{
    enum status status = pg_ask(s, &queue_load, NULL, err);
    return status == STATUS_OK ? pg_ask(s, &set_load, NULL, err) : status;
}

enum status pg_names_take(struct postgres_store *s, PGresult *rows[2], struct err *err)
{
    enum status status = load_queues(s, rows[0], err);
    for (int i = 0; i < PQntuples(rows[1]) && status == STATUS_OK; i++)
        status = load_set(s, pg_get_int(rows[1], i, 0), pg_get_slice(rows[1], i, 1), err);
    return status;
}

static int name_compare(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = len ? memcmp(x->ptr, y->ptr, len) : 0;
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* sorted_set copies the names in order and without repeats. */
static struct slice *sorted_set(const struct slice *names, size_t *count, struct arena *arena)
{
    struct slice *set = arena_array(arena, *count + 1, sizeof(*set));
    size_t kept = 0;
    if (!set)
        return NULL;
    if (*count) {
        memcpy(set, names, *count * sizeof(*set));
        qsort(set, *count, sizeof(*set), name_compare);
    }
    for (size_t i = 0; i < *count; i++)
        if (kept == 0 || !slice_eq(set[kept - 1], set[i]))
            set[kept++] = set[i];
    *count = kept;
    return set;
}

static const struct pg_statement set_insert = {
    "set_insert", "INSERT INTO " PG_SCHEMA ".capability_set(number, names) VALUES($1, $2)"};

static enum status set_make(struct postgres_store *s, const struct slice *names, size_t count,
                            uint32_t *out, struct err *err)
{
    struct buf text;
    struct pg_params params = {0};
    uint32_t number = live_capabilities_max(s->live) + 1;
    enum status status = pg_writable(s, err);
    if (status == STATUS_OK && number >= NAMES_MAX)
        status = err_set(err, STATUS_LIMIT, "there are too many sets of capabilities for one more");
    if (status != STATUS_OK)
        return status;
    buf_init(&text, SET_TEXT_MAX);
    set_print(names, count, &text);
    status = buf_status(&text, err);
    if (status == STATUS_OK) {
        pg_int(&params, number);
        pg_body(&params, buf_slice(&text));
        s->names_changed = true;
        status = pg_send(s, &set_insert, &params, err);
    }
    buf_release(&text);
    if (status == STATUS_OK && !live_capabilities_set(s->live, number, names, count))
        status = pg_fail_write(s, err);
    if (status == STATUS_OK)
        *out = number;
    return status;
}

enum status postgres_capabilities_number(struct store *store, const struct slice *names,
                                         size_t count, uint32_t *out, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct arena arena = {0};
    enum status status = STATUS_OK;
    struct slice *set = sorted_set(names, &count, &arena);
    if (!set)
        status = err_no_memory(err);
    else if (!live_capabilities_find(s->live, set, count, out))
        status = set_make(s, set, count, out, err);
    arena_release(&arena);
    return status;
}
