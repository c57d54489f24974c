/* postgres_expect: letters that are known not to be there.
 *
 * An import asks for each of its letters, by id and by origin, and finds hardly any.  When the
 * turn is told beforehand what it will be asked for, one wait answers for them all. */
#include "store/postgres_letter.h"

#include "base/mem.h"

/* -- what is missing --------------------------------------------------------------------------- */

static uint64_t missing_hash(const void *owner, uint32_t handle)
{
    return ((const struct pg_counts *)owner)->missing[handle].hash;
}

static uint32_t *missing_link(const void *owner, uint32_t handle)
{
    return &((const struct pg_counts *)owner)->missing[handle].link;
}

static const struct table_kind missing_kind = {missing_hash, missing_link};

void pg_missing_init(struct pg_counts *counts)
{
    table_init(&counts->missing_table, &missing_kind, counts);
}

void pg_missing_clear(struct pg_counts *counts)
{
    if (counts->missing_count == 0)
        return;
    table_release(&counts->missing_table);
    pg_missing_init(counts);
    counts->missing_count = 0;
}

void pg_missing_release(struct pg_counts *counts)
{
    table_release(&counts->missing_table);
    mem_free(counts->missing);
}

/* find is the entry of an id or (without one) of an origin. */
static uint32_t find(const struct pg_counts *counts, struct slice dlq_id, uint64_t hash)
{
    uint32_t at = table_first(&counts->missing_table, hash);
    while (at != TABLE_NONE && (!counts->missing[at].dlq_id.ptr != !dlq_id.ptr ||
                                !slice_eq(counts->missing[at].dlq_id, dlq_id)))
        at = table_next(&counts->missing_table, hash, at);
    return at;
}

bool pg_missing_id(const struct pg_counts *counts, struct slice dlq_id)
{
    return counts->missing_count > 0 && find(counts, dlq_id, table_hash(dlq_id, 0)) != TABLE_NONE &&
           !pg_known_id(counts, dlq_id);
}

bool pg_missing_origin(const struct pg_counts *counts, uint64_t origin)
{
    return counts->missing_count > 0 && find(counts, (struct slice){0}, origin) != TABLE_NONE &&
           !pg_known_origin(counts, origin);
}

/* add keeps that something may be missing; false when memory is exhausted. */
static bool add(struct pg_counts *counts, struct slice dlq_id, uint64_t hash)
{
    if (find(counts, dlq_id, hash) != TABLE_NONE)
        return true;
    if (counts->missing_count == counts->missing_cap) {
        uint32_t cap = counts->missing_cap ? counts->missing_cap * 2 : 64;
        void *grown = mem_realloc(counts->missing, cap * sizeof(*counts->missing));
        if (!grown)
            return false;
        counts->missing = grown;
        counts->missing_cap = cap;
    }
    if (!table_reserve(&counts->missing_table))
        return false;
    counts->missing[counts->missing_count] = (struct missing){.dlq_id = dlq_id, .hash = hash};
    table_add(&counts->missing_table, counts->missing_count++);
    return true;
}

/* drop forgets an entry: what it names is there. */
static void drop(struct pg_counts *counts, struct slice dlq_id, uint64_t hash)
{
    uint32_t at = find(counts, dlq_id, hash);
    if (at != TABLE_NONE)
        table_remove(&counts->missing_table, at);
}

/* -- looking ----------------------------------------------------------------------------------- */

static const struct pg_statement ids_there = {
    "letter_ids_there",
    "SELECT dlq_id FROM " PG_SCHEMA
    ".letter WHERE lazaret.key(dlq_id) = ANY(ARRAY(SELECT lazaret.key(i) FROM unnest($1) AS i))"};
static const struct pg_statement origins_there = {
    "letter_origins_there", "SELECT job_idempotency_hash FROM " PG_SCHEMA ".letter"
                            " WHERE foreign_body = 1 AND job_idempotency_hash = ANY($1)"};

/* ask sends both questions. */
static enum status ask(struct postgres_store *s, struct pg_column *ids, struct pg_column *origins,
                       struct err *err)
{
    struct pg_params for_ids = {0}, for_origins = {0};
    enum status status = buf_status(&ids->array, err);
    if (status == STATUS_OK)
        status = buf_status(&origins->array, err);
    if (status != STATUS_OK)
        return status;
    pg_array(&for_ids, ids);
    pg_array(&for_origins, origins);
    status = pg_ask(s, &ids_there, &for_ids, err);
    return status == STATUS_OK ? pg_ask(s, &origins_there, &for_origins, err) : status;
}

/* collect notes what is looked for, as missing until it is found. */
static bool collect(struct pg_counts *counts, const struct letter_wanted *wanted, size_t count,
                    struct pg_column *ids, struct pg_column *origins)
{
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].dlq_id.len) {
            struct slice clean = pg_text_cleaned(wanted[i].dlq_id, &counts->arena);
            struct slice id = clean.ptr ? arena_dup(&counts->arena, clean) : clean;
            if (!id.ptr || !add(counts, id, table_hash(id, 0)))
                return false;
            pg_column_text(ids, id);
        }
        if (wanted[i].origin) {
            if (!add(counts, (struct slice){0}, wanted[i].origin))
                return false;
            pg_column_int(origins, (int64_t)wanted[i].origin);
        }
    }
    return true;
}

enum status postgres_letter_expect(struct store *store, const struct letter_wanted *wanted,
                                   size_t count, struct err *err)
{
    struct postgres_store *s = postgres_of(store);
    struct pg_column ids, origins;
    PGresult *rows[2] = {NULL, NULL};
    BUG_ON(!s->in_transaction);
    pg_column_init(&ids, PG_TEXT);
    pg_column_init(&origins, PG_INT8);
    enum status status = collect(s->counts, wanted, count, &ids, &origins)
                             ? ask(s, &ids, &origins, err)
                             : err_no_memory(err);
    if (status == STATUS_OK)
        status = pg_answers(s, rows, 2, err);
    for (int i = 0; status == STATUS_OK && i < PQntuples(rows[0]); i++) {
        struct slice id = pg_get_slice(rows[0], i, 0);
        drop(s->counts, id, table_hash(id, 0));
    }
    for (int i = 0; status == STATUS_OK && i < PQntuples(rows[1]); i++)
        drop(s->counts, (struct slice){0}, (uint64_t)pg_get_int(rows[1], i, 0));
    if (status != STATUS_OK)
        pg_missing_clear(s->counts); /* nothing is known */
    PQclear(rows[0]);
    PQclear(rows[1]);
    buf_release(&ids.array);
    buf_release(&origins.array);
    return status;
}
