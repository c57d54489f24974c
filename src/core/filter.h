/* filter: `item.path OP value` expressions over letters and items (INTERFACES 7). */
#ifndef LAZARET_CORE_FILTER_H
#define LAZARET_CORE_FILTER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/status.h"
#include "core/letter.h"

struct filter; /* a parsed expression; lives in its arena */

/* filter_parse reads an expression.  An invalid one is STATUS_INVALID, with the column and what was
 * expected there: it never matches everything. */
enum status filter_parse(struct slice text, struct arena *arena, const struct filter **out,
                         struct err *err);

/* filter_reads_item says whether the expression looks into the item: it has `item` in it.
 * filter_reads_signature says the same of `error_signature`. */
bool filter_reads_item(const struct filter *filter);
bool filter_reads_signature(const struct filter *filter);

/* filter_match evaluates over an item and, when not NULL, the letter that it is in.  A path that
 * does not exist compares as null: equal to nothing but null, neither less nor more than anything.
 */
bool filter_match(const struct filter *filter, struct json item, const struct letter *letter);

#endif
