/* jsonpath: which values of a document are items: `$.items[*]`, `$..file`, `$.a['b c'][0:10]`.
 *
 * The part of RFC 9535 that selects by place: members, positions (also from the end), slices,
 * unions of these, wildcards and descent.  Filters (`?`) are not part of it: an error points to
 * `--filter`.
 */
#ifndef LAZARET_CORE_JSONPATH_H
#define LAZARET_CORE_JSONPATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/status.h"

struct jsonpath;      /* lives in its arena */
struct jsonpath_walk; /* how far the values of a document have been yielded; likewise */

/* jsonpath_parse reads a path.  STATUS_INVALID says the column and what was expected there. */
enum status jsonpath_parse(struct slice text, struct arena *arena, const struct jsonpath **out,
                           struct err *err);

/* jsonpath_each calls `each` with every value that the path selects, in the order of RFC 9535,
 * until it returns false: the document's order, but for unions and slices with a negative step,
 * which select in the order that they say.  Without recursion over what the document controls, and
 * without memory in proportion to what is selected.  False: `each` ended it. */
bool jsonpath_each(const struct jsonpath *path, struct json root,
                   bool (*each)(void *ctx, struct json value), void *ctx);

/* jsonpath_begin and jsonpath_next are the same for who wants to be handed one value after the
 * other. jsonpath_begin is NULL when memory is exhausted; jsonpath_next is false at the end. */
struct jsonpath_walk *jsonpath_begin(const struct jsonpath *path, struct json root,
                                     struct arena *arena);
bool jsonpath_next(struct jsonpath_walk *walk, struct json *out);

/* jsonpath_member finds a member by its decoded name, as json_get does, for a name that is a slice.
 */
bool jsonpath_member(struct json object, struct slice name, struct json *out);

#endif
