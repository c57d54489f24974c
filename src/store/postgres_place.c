/* postgres_place: places in time.
 *
 * A letter's position is its failed_at in microseconds, moved on to the next number that no letter
 * has.  A letter that is newer than all others needs no look-up: s->position_last is the highest
 * position that was ever given.  For an older one the neighbours of its place are read, some
 * hundred on each side, so that the next letters of an import know already whether their places
 * are free. */
#include "store/postgres_letter.h"

#include "base/mem.h"

#define NEIGHBOURS 256

/* -- sorted numbers ---------------------------------------------------------------------------- */

/* place_of is how many of the numbers are less than `number`. */
static size_t place_of(const struct positions *positions, int64_t number)
{
    size_t low = 0, high = positions->count;
    if (high > 0 && positions->items[high - 1] < number)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (positions->items[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool contains(const struct positions *positions, int64_t number)
{
    size_t at = place_of(positions, number);
    return at < positions->count && positions->items[at] == number;
}

/* insert puts a number into its place; false when memory is exhausted. */
static bool insert(struct positions *positions, int64_t number)
{
    if (positions->count == positions->cap) {
        size_t cap = positions->cap ? positions->cap * 2 : 2 * NEIGHBOURS;
        int64_t *grown = mem_realloc(positions->items, cap * sizeof(*grown));
        if (!grown)
            return false;
        positions->items = grown;
        positions->cap = cap;
    }
    size_t at = place_of(positions, number);
    memmove(positions->items + at + 1, positions->items + at,
            (positions->count - at) * sizeof(*positions->items));
    positions->items[at] = number;
    positions->count++;
    return true;
}

void pg_places_clear(struct pg_counts *counts)
{
    counts->given.count = counts->taken.count = 0;
    counts->first = 1;
    counts->last = 0;
    counts->drift = counts->drift_sent = 0;
}

void pg_places_release(struct pg_counts *counts)
{
    mem_free(counts->given.items);
    mem_free(counts->taken.items);
}

/* -- what the database has --------------------------------------------------------------------- */

static const struct pg_statement neighbours = {
    "letter_neighbours",
    "(SELECT position FROM " PG_SCHEMA ".letter WHERE position >= $1 ORDER BY position LIMIT $2)"
    " UNION ALL"
    " (SELECT position FROM " PG_SCHEMA ".letter WHERE position < $1 ORDER BY position DESC"
    " LIMIT $2)"};

/* look reads which places around `from` are taken. */
static enum status look(struct postgres_store *s, int64_t from, struct err *err)
{
    struct pg_counts *counts = s->counts;
    struct pg_params params = {0};
    PGresult *rows;
    int above = 0, below = 0;
    pg_int(&params, from);
    pg_int(&params, NEIGHBOURS);
    enum status status = pg_query(s, &neighbours, &params, &rows, err);
    if (status != STATUS_OK)
        return status;
    counts->taken.count = 0;
    for (int i = 0; i < PQntuples(rows) && status == STATUS_OK; i++) {
        int64_t position = pg_get_int(rows, i, 0);
        *(position < from ? &below : &above) += 1;
        if (!insert(&counts->taken, position))
            status = err_no_memory(err);
    }
    PQclear(rows);
    const struct positions *taken = &counts->taken;
    counts->first = below < NEIGHBOURS ? INT64_MIN : taken->items[0];
    counts->last = above < NEIGHBOURS ? INT64_MAX : taken->items[taken->count - 1];
    return status;
}

/* first_free finds the first place from `from` on that no letter has.  0 is none: it is the cursor
 * that means "from the start". */
static enum status first_free(struct postgres_store *s, int64_t from, int64_t *out, struct err *err)
{
    const struct pg_counts *counts = s->counts;
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        *out = from;
        if (from > s->position_last && from != 0)
            break;
        bool looked = from >= counts->first && from <= counts->last;
        if (from == 0 || contains(&counts->given, from) ||
            (looked && contains(&counts->taken, from)))
            from++;
        else if (looked)
            break;
        else
            status = look(s, from, err);
    }
    return status;
}

/* -- taking ------------------------------------------------------------------------------------ */

static const struct pg_statement drift_grow = {
    "drift_grow", "UPDATE " PG_SCHEMA ".letter_drift SET drift = $1 WHERE drift < $1"};

enum status pg_places_flush(struct postgres_store *s, struct err *err)
{
    struct pg_params params = {0};
    if (s->counts->drift <= s->counts->drift_sent)
        return STATUS_OK;
    s->counts->drift_sent = s->counts->drift;
    pg_int(&params, s->counts->drift);
    return pg_send(s, &drift_grow, &params, err);
}

enum status pg_place(struct postgres_store *s, struct instant failed_at, int64_t *out,
                     struct err *err)
{
    /* Many letters may have failed at the same time (imports know only seconds): the hint says
     * where the last of them went, so that the next does not walk past them all. */
    const int64_t latest = INT64_MAX - (INT64_C(1) << 40);
    int64_t wanted = failed_at.us > latest ? latest : failed_at.us ? failed_at.us : 1;
    uint64_t slot = (uint64_t)wanted * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    struct position_hint *hint = &s->counts->hints[slot & (POSITION_HINTS - 1)];
    bool hinted = hint->failed_at == wanted && hint->next > wanted;
    enum status status = first_free(s, hinted ? hint->next : wanted, out, err);
    if (status == STATUS_OK && !insert(&s->counts->given, *out))
        status = pg_fail_write(s, err);
    if (status != STATUS_OK)
        return status;
    *hint = (struct position_hint){wanted, *out + 1};
    if (*out > s->position_last)
        s->position_last = *out;
    if (*out - wanted > s->counts->drift)
        s->counts->drift = *out - wanted;
    return STATUS_OK;
}
