/* item: one thing that a command is mapped over, and how it is written in an envelope.
 *
 * An item is any JSON value, or a line of bytes.  A line that is no UTF-8 cannot stand in JSON, so
 * its envelope has it twice: readable in `inputs.item`, and exact, in base64, in
 * `inputs.item_bytes`. */
#ifndef LAZARET_RUN_ITEM_H
#define LAZARET_RUN_ITEM_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/slice.h"
#include "base/status.h"

#define ITEM_ID_MAX 120 /* bytes of an item's id; a longer one ends in a hash of the whole */

/* struct item: slices borrow. */
struct item {
    struct json value;  /* what filters and {field.path} look at; a line is a JSON string */
    struct slice bytes; /* what {} is: a string's text, the line as it came, else compact JSON */
};

/* item_from_value and item_from_line make an item; texts that need decoding are put in `arena`.
 * STATUS_NO_MEMORY is all that can go wrong. */
enum status item_from_value(struct json value, struct arena *arena, struct item *out,
                            struct err *err);
enum status item_from_line(struct slice line, struct arena *arena, struct item *out,
                           struct err *err);

/* item_print writes the members of `inputs` for an item: "item" and, when needed, "item_bytes".
 * item_parse reads them back to an item with the same bytes; inputs without "item" are the item
 * themselves (letters that were imported or pushed by hand). */
void item_print(const struct item *item, struct jsonw *out);
enum status item_parse(struct json inputs, struct arena *arena, struct item *out, struct err *err);

/* item_id appends the id of an item: the text (or number, or compact JSON) of `field`, a path such
 * as "meta.id", when it is given; else 16 hex digits of the hash of its bytes and kind.
 * STATUS_INVALID when it has no such field, or one that is null or empty.  An id is UTF-8, has no
 * control characters (they become %XX, as do bytes that are no UTF-8) and at most ITEM_ID_MAX
 * bytes. */
enum status item_id(const struct item *item, const char *field, struct buf *out, struct err *err);

/* item_field finds a value by its path of names and array positions: "a.b.0"; an empty path is the
 * value itself.  False: there is none. */
bool item_field(struct json value, struct slice path, struct json *out);

/* item_missing is STATUS_INVALID with the sentence for a field that an item does not have. */
enum status item_missing(const struct item *item, struct slice path, struct err *err);

#endif
