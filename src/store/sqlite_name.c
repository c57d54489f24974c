/* sqlite_name: queues and sets of capabilities.
 *
 * Both are few, so they are all in memory; a row is written when one is new.  How many jobs of a
 * queue have ended is counted in memory and written once for each commit, not once for each job. */
#include "base/mem.h"
#include "store/names.h"
#include "store/sqlite.h"

/* -- totals ------------------------------------------------------------------------------------ */

static bool totals_reach(struct sqlite_store *s, uint32_t queue)
{
    if (queue < s->total_count)
        return true;
    uint32_t count = s->total_count ? s->total_count : 16;
    while (count <= queue)
        count *= 2;
    struct queue_total *totals = mem_realloc(s->totals, count * sizeof(*totals));
    if (!totals)
        return false;
    memset(totals + s->total_count, 0, (count - s->total_count) * sizeof(*totals));
    s->totals = totals;
    s->total_count = count;
    return true;
}

void sqlite_total_add(struct sqlite_store *s, uint32_t queue, enum job_state state, int64_t by)
{
    BUG_ON(queue >= s->total_count);
    struct queue_total *total = &s->totals[queue];
    *(state == JOB_CANCELLED ? &total->cancelled : &total->done) += by;
    total->dirty = true;
    s->totals_dirty = true;
}

enum status sqlite_total_write(struct sqlite_store *s, struct err *err)
{
    for (uint32_t i = 0; s->totals_dirty && i < s->total_count; i++) {
        if (!s->totals[i].dirty)
            continue;
        sqlite3_stmt *stmt = sql(s, SQL_QUEUE_TOTALS,
                                 "UPDATE queue SET done = ?, cancelled = ? WHERE number = ?", err);
        if (!stmt)
            return s->trouble;
        sql_bind_int(stmt, 1, s->totals[i].done);
        sql_bind_int(stmt, 2, s->totals[i].cancelled);
        sql_bind_int(stmt, 3, i);
        enum status status = sql_write(s, stmt, err);
        if (status != STATUS_OK)
            return status;
        s->totals[i].dirty = false;
    }
    s->totals_dirty = false;
    return STATUS_OK;
}

/* -- queues ------------------------------------------------------------------------------------ */

static enum status queue_known(struct sqlite_store *s, uint32_t queue, struct slice name,
                               bool paused, struct err *err)
{
    if (!totals_reach(s, queue) || !live_queue_set(s->live, queue, name, paused))
        return err_no_memory(err);
    return STATUS_OK;
}

static enum status load_queues(struct sqlite_store *s, struct err *err)
{
    enum status status, failed = STATUS_OK;
    sqlite3_stmt *stmt =
        sql_once(s, "SELECT number, name, paused, done, cancelled FROM queue", err);
    if (!stmt)
        return s->trouble;
    if (s->totals)
        memset(s->totals, 0, s->total_count * sizeof(*s->totals));
    s->totals_dirty = false;
    while (failed == STATUS_OK && sql_row(s, stmt, &status, err)) {
        int64_t number = sqlite3_column_int64(stmt, 0);
        if (number <= 0 || number >= NAMES_MAX) {
            failed = sql_damage(s, err, "a queue has number %lld", (long long)number);
            break;
        }
        uint32_t queue = (uint32_t)number;
        failed = queue_known(s, queue, sql_text(stmt, 1), sqlite3_column_int(stmt, 2) != 0, err);
        if (failed == STATUS_OK)
            s->totals[queue] = (struct queue_total){.done = sqlite3_column_int64(stmt, 3),
                                                    .cancelled = sqlite3_column_int64(stmt, 4)};
    }
    sqlite3_finalize(stmt);
    return failed != STATUS_OK ? failed : status;
}

bool sqlite_names_known(struct sqlite_store *s, const struct job *job)
{
    return live_queue_name(s->live, job->queue).ptr &&
           live_capabilities_known(s->live, job->capabilities);
}

enum status sqlite_queue_number(struct store *store, struct slice name, uint32_t *out,
                                struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    if (live_queue_find(s->live, name, out))
        return STATUS_OK;
    uint32_t number = live_queue_max(s->live) + 1;
    if (number >= NAMES_MAX)
        return err_set(err, STATUS_LIMIT, "there are too many queues for one more");
    sqlite3_stmt *stmt =
        sql(s, SQL_QUEUE_INSERT,
            "INSERT INTO queue(number, name, paused, done, cancelled) VALUES(?, ?, 0, 0, 0)", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, number);
    sql_bind_name(stmt, 2, name);
    enum status status = sql_write(s, stmt, err);
    if (status == STATUS_OK && queue_known(s, number, name, false, err) != STATUS_OK)
        status = sql_fail_write(s, err);
    if (status == STATUS_OK)
        *out = number;
    return status;
}

struct slice sqlite_queue_name(struct store *store, uint32_t queue)
{
    return live_queue_name(sqlite_of(store)->live, queue);
}

bool sqlite_queue_paused(struct store *store, uint32_t queue)
{
    return live_queue_is_paused(sqlite_of(store)->live, queue);
}

enum status sqlite_queue_pause(struct store *store, uint32_t queue, bool paused, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct slice name = live_queue_name(s->live, queue);
    if (!name.ptr)
        return err_set(err, STATUS_NOT_FOUND, "no queue with number %u", queue);
    sqlite3_stmt *stmt =
        sql(s, SQL_QUEUE_PAUSE, "UPDATE queue SET paused = ? WHERE number = ?", err);
    if (!stmt)
        return s->trouble;
    sql_bind_int(stmt, 1, paused);
    sql_bind_int(stmt, 2, queue);
    enum status status = sql_write(s, stmt, err);
    if (status == STATUS_OK && !live_queue_set(s->live, queue, name, paused))
        status = sql_fail_write(s, err);
    return status;
}

/* count_dead adds the letters that are dead now to the queues that have them. */
static enum status count_dead(struct sqlite_store *s, struct queue_info *infos,
                              const uint32_t *places, struct err *err)
{
    enum status status;
    sqlite3_stmt *stmt = sql(s, SQL_COUNT_DEAD,
                             "SELECT queue, sum(count) FROM letter_count WHERE state <= 1"
                             " GROUP BY queue",
                             err);
    if (!stmt)
        return s->trouble;
    while (sql_row(s, stmt, &status, err)) {
        uint32_t queue;
        if (live_queue_find(s->live, sql_text(stmt, 0), &queue))
            infos[places[queue]].counts[JOB_DEAD] = sqlite3_column_int64(stmt, 1);
    }
    return status;
}
_Static_assert(LETTER_DEAD == 0 && LETTER_RECOVERING == 1, "the states that SQL calls <= 1");

enum status sqlite_queue_list(struct store *store, struct arena *arena, struct queue_info **out,
                              size_t *count, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    uint32_t max = live_queue_max(s->live), found = 0;
    struct queue_info *infos = arena_array(arena, max + 1, sizeof(*infos));
    uint32_t *places = arena_array(arena, max + 1, sizeof(*places));
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
        info->counts[JOB_DONE] = s->totals[queue].done;
        info->counts[JOB_CANCELLED] = s->totals[queue].cancelled;
        live_queue_counts(s->live, queue, info->counts, &info->oldest_pending);
        if (!info->name.ptr)
            return err_no_memory(err);
    }
    enum status status = count_dead(s, infos, places, err);
    if (status == STATUS_OK) {
        *out = infos;
        *count = found;
    }
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

static enum status load_set(struct sqlite_store *s, sqlite3_stmt *stmt, struct err *err)
{
    struct arena arena = {0};
    struct rows names = {0};
    int64_t number = sqlite3_column_int64(stmt, 0);
    struct slice text = sql_text(stmt, 1);
    enum status status = STATUS_OK;
    while (text.len > 0 && status == STATUS_OK) {
        struct slice *name = rows_next(&names, &arena, sizeof(*name));
        if (!name)
            status = err_no_memory(err);
        else if (!set_next(&text, name))
            status = sql_damage(s, err, "capability set %lld is not one", (long long)number);
    }
    if (status == STATUS_OK && (number <= 0 || number >= NAMES_MAX || names.count == 0))
        status = sql_damage(s, err, "capability set %lld is not one", (long long)number);
    if (status == STATUS_OK &&
        !live_capabilities_set(s->live, (uint32_t)number, names.items, names.count))
        status = err_no_memory(err);
    arena_release(&arena);
    return status;
}

static enum status load_sets(struct sqlite_store *s, struct err *err)
{
    enum status status, failed = STATUS_OK;
    sqlite3_stmt *stmt = sql_once(s, "SELECT number, names FROM capability_set", err);
    if (!stmt)
        return s->trouble;
    while (failed == STATUS_OK && sql_row(s, stmt, &status, err))
        failed = load_set(s, stmt, err);
    sqlite3_finalize(stmt);
    return failed != STATUS_OK ? failed : status;
}

enum status sqlite_name_load(struct sqlite_store *s, struct err *err)
{
    enum status status = load_queues(s, err);
    return status == STATUS_OK ? load_sets(s, err) : status;
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

static enum status set_insert(struct sqlite_store *s, const struct slice *names, size_t count,
                              uint32_t *out, struct err *err)
{
    struct buf text;
    uint32_t number = live_capabilities_max(s->live) + 1;
    if (number >= NAMES_MAX)
        return err_set(err, STATUS_LIMIT, "there are too many sets of capabilities for one more");
    sqlite3_stmt *stmt =
        sql(s, SQL_SET_INSERT, "INSERT INTO capability_set(number, names) VALUES(?, ?)", err);
    if (!stmt)
        return s->trouble;
    buf_init(&text, SET_TEXT_MAX);
    set_print(names, count, &text);
    enum status status = buf_status(&text, err);
    if (status == STATUS_OK) {
        sql_bind_int(stmt, 1, number);
        sql_bind_body(stmt, 2, buf_slice(&text));
        status = sql_write(s, stmt, err);
    }
    buf_release(&text);
    if (status == STATUS_OK && !live_capabilities_set(s->live, number, names, count))
        status = sql_fail_write(s, err);
    if (status == STATUS_OK)
        *out = number;
    return status;
}

enum status sqlite_capabilities_number(struct store *store, const struct slice *names, size_t count,
                                       uint32_t *out, struct err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct arena arena = {0};
    enum status status = STATUS_OK;
    struct slice *set = sorted_set(names, &count, &arena);
    if (!set)
        status = err_no_memory(err);
    else if (!live_capabilities_find(s->live, set, count, out))
        status = set_insert(s, set, count, out, err);
    arena_release(&arena);
    return status;
}
