/* order: items in the order of their fields: "item.priority DESC, item.name".
 *
 * A term is a path, with or without "item." in front ("item" alone is the item itself), and ASC (as
 * without) or DESC.  Ascending, numbers come first, by their exact value; then strings, by their
 * bytes; then false, true, and last arrays and objects, which are all equal.  Descending is the
 * reverse.  Items that have no such field, or null, come last either way.  Items that are equal
 * stay in the order of the input. */
#ifndef LAZARET_RUN_ORDER_H
#define LAZARET_RUN_ORDER_H

#include "run/source.h"

#define ORDER_TERMS_MAX 8

/* struct order_entry: an item that waits to be sorted, and the values that it is sorted by. */
struct order_entry {
    struct order_row *row;
};

/* struct order: `{0}` sorts nothing. */
struct order {
    struct order_term {
        struct slice path;
        bool descending;
    } terms[ORDER_TERMS_MAX];
    size_t term_count;
    struct order_entry *rows;
    size_t count, cap;
    struct arena arena; /* of the rows and what they are sorted by */
};

/* order_parse reads terms; their paths borrow from `text`.  STATUS_INVALID says the column. */
enum status order_parse(struct slice text, struct order *out, struct err *err);
void order_release(struct order *order);

/* order_path takes the "item." off a path.  False when it is none: a name in it is empty. */
bool order_path(struct slice text, struct slice *out);

/* order_add takes a record, and the item that was made of it, into the rows.  `copy`: its bytes do
 * not stay. */
enum status order_add(struct order *order, const struct record *record, const struct item *item,
                      bool copy, struct err *err);
void order_sort(struct order *order);

/* order_at is the record of a row; it holds until order_release. */
const struct record *order_at(const struct order *order, size_t row);

#endif
