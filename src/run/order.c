/* order: see order.h.  The values that rows are sorted by are taken out of them once, when they are
 * added: a comparison looks into no JSON. */
#include "run/order.h"

#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"
#include "core/decimal.h"

/* Ranks, ascending.  What is missing is last in both directions. */
enum rank { RANK_NUMBER, RANK_STRING, RANK_FALSE, RANK_TRUE, RANK_CONTAINER, RANK_MISSING };

struct order_key {
    enum rank rank;
    struct slice text; /* of a number or a string */
};

struct order_row {
    struct record record;
    struct order_key keys[]; /* one for each term */
};

void order_release(struct order *order)
{
    mem_free(order->rows);
    arena_release(&order->arena);
    *order = (struct order){0};
}

/* ---- reading ----------------------------------------------------------------------------------
 */

bool order_path(struct slice text, struct slice *out)
{
    bool name = false; /* the name that is being read has a character */

    if (slice_is(text, "item")) {
        *out = SLICE("");
        return true;
    }
    if (slice_starts(text, SLICE("item.")))
        text = (struct slice){text.ptr + 5, text.len - 5};
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '.' && !name)
            return false;
        name = text.ptr[i] != '.';
    }
    *out = text;
    return name;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* take_word takes the characters up to white space or a comma. */
static struct slice take_word(struct slice text, size_t *at)
{
    while (*at < text.len && is_space(text.ptr[*at]))
        (*at)++;
    size_t begin = *at;
    while (*at < text.len && !is_space(text.ptr[*at]) && text.ptr[*at] != ',')
        (*at)++;
    return (struct slice){text.ptr + begin, *at - begin};
}

static bool word_is(struct slice word, const char *text)
{
    return word.len == strlen(text) && strncasecmp(word.ptr, text, word.len) == 0;
}

static enum status wrong(struct slice text, const char *at, const char *what, struct err *err)
{
    size_t column = 1;

    for (const char *c = text.ptr; c < at; c++)
        column += ((unsigned char)*c & 0xC0) != 0x80;
    return err_set(err, STATUS_INVALID, "column %zu: expected %s", column, what);
}

/* read_term reads a path and its direction, up to a comma or the end. */
static enum status read_term(struct slice text, size_t *at, struct order_term *out, struct err *err)
{
    struct slice path = take_word(text, at), word = take_word(text, at);

    if (!order_path(path, &out->path))
        return wrong(text, path.ptr, "a path such as item.priority", err);
    out->descending = word_is(word, "DESC");
    if (word.len > 0 && !out->descending && !word_is(word, "ASC"))
        return wrong(text, word.ptr, "ASC, DESC, a comma or the end", err);
    word = take_word(text, at);
    if (word.len > 0)
        return wrong(text, word.ptr, "a comma or the end", err);
    return STATUS_OK;
}

enum status order_parse(struct slice text, struct order *out, struct err *err)
{
    struct order order = {0};
    size_t at = 0;

    for (;;) {
        if (order.term_count == ORDER_TERMS_MAX)
            return err_set(err, STATUS_INVALID, "at most %d paths can be sorted by",
                           ORDER_TERMS_MAX);
        enum status status = read_term(text, &at, &order.terms[order.term_count], err);
        if (status != STATUS_OK)
            return status;
        order.term_count++;
        if (at == text.len)
            break;
        at++; /* the comma */
    }
    *out = order;
    return STATUS_OK;
}

/* ---- sorting ----------------------------------------------------------------------------------
 */

/* key_of makes what a row is sorted by; its text is put in the arena. */
static bool key_of(struct json item, struct slice path, struct arena *arena, struct order_key *out)
{
    static const enum rank ranks[] = {
        [JSON_NULL] = RANK_MISSING,     [JSON_FALSE] = RANK_FALSE,   [JSON_TRUE] = RANK_TRUE,
        [JSON_NUMBER] = RANK_NUMBER,    [JSON_STRING] = RANK_STRING, [JSON_ARRAY] = RANK_CONTAINER,
        [JSON_OBJECT] = RANK_CONTAINER,
    };
    struct arena scratch = {0};
    struct json value;

    *out = (struct order_key){.rank = RANK_MISSING};
    if (!item_field(item, path, &value))
        return true;
    out->rank = ranks[value.type];
    if (out->rank != RANK_NUMBER && out->rank != RANK_STRING)
        return true;
    struct slice text = out->rank == RANK_STRING ? json_text(value, &scratch) : value.raw;
    out->text = text.ptr ? arena_dup(arena, text) : (struct slice){0};
    arena_release(&scratch);
    return out->text.ptr;
}

/* record_keep copies the bytes of a record. */
static bool record_keep(struct record *record, struct arena *arena)
{
    struct slice *bytes = record->line ? &record->text : &record->value.raw;

    *bytes = arena_dup(arena, *bytes);
    return bytes->ptr;
}

static bool make_room(struct order *order)
{
    if (order->count < order->cap)
        return true;
    size_t cap = order->cap ? order->cap * 2 : 64;
    struct order_entry *rows = mem_realloc(order->rows, cap * sizeof(*rows));
    if (!rows)
        return false;
    order->rows = rows;
    order->cap = cap;
    return true;
}

enum status order_add(struct order *order, const struct record *record, const struct item *item,
                      bool copy, struct err *err)
{
    struct order_row *row =
        arena_alloc(&order->arena, sizeof(*row) + order->term_count * sizeof(struct order_key));

    if (!row || !make_room(order))
        return err_no_memory(err);
    row->record = *record;
    if (copy && !record_keep(&row->record, &order->arena))
        return err_no_memory(err);
    for (size_t i = 0; i < order->term_count; i++)
        if (!key_of(item->value, order->terms[i].path, &order->arena, &row->keys[i]))
            return err_no_memory(err);
    order->rows[order->count++].row = row;
    return STATUS_OK;
}

static int bytes_compare(struct slice a, struct slice b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order ? (order > 0 ? 1 : -1) : (a.len > b.len) - (a.len < b.len);
}

/* key_compare orders two values in one direction. */
static int key_compare(const struct order_key *a, const struct order_key *b, bool descending)
{
    int order;

    if (a->rank == RANK_MISSING || b->rank == RANK_MISSING)
        return (a->rank == RANK_MISSING) - (b->rank == RANK_MISSING);
    if (a->rank != b->rank)
        order = a->rank < b->rank ? -1 : 1;
    else if (a->rank == RANK_NUMBER)
        order = decimal_compare(a->text, b->text);
    else
        order = a->rank == RANK_STRING ? bytes_compare(a->text, b->text) : 0;
    return descending ? -order : order;
}

static int row_compare(const void *a, const void *b, void *ctx)
{
    const struct order_row *left = ((const struct order_entry *)a)->row;
    const struct order_row *right = ((const struct order_entry *)b)->row;
    const struct order *order = ctx;

    for (size_t i = 0; i < order->term_count; i++) {
        int way = key_compare(&left->keys[i], &right->keys[i], order->terms[i].descending);
        if (way != 0)
            return way;
    }
    return (left->record.number > right->record.number) -
           (left->record.number < right->record.number);
}

void order_sort(struct order *order)
{
    if (order->count > 1)
        qsort_r(order->rows, order->count, sizeof(*order->rows), row_compare, order);
}

const struct record *order_at(const struct order *order, size_t row)
{
    return &order->rows[row].row->record;
}
