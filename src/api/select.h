/* select: many letters at once, frozen to a list before anything is done.
 *
 * A selection is made first, completely; only then are its letters reviewed, oldest first and in
 * chunks, so that what arrives meanwhile is not touched and the engine is never held long. */
#ifndef LAZARET_API_SELECT_H
#define LAZARET_API_SELECT_H

#include "api/view.h"
#include "core/filter.h"

#define SELECT_CHUNK 500 /* letters of one engine command */

/* struct id_chunk: dlq_ids from `begin` to the end, oldest first. */
struct id_chunk {
    struct slice ids[SELECT_CHUNK];
    size_t begin; /* it is filled from the end, as letters come newest first */
    struct id_chunk *next;
};

/* struct id_list: `{0}` is empty.  The first chunk has the oldest ids. */
struct id_list {
    struct id_chunk *first;
    size_t count;
};

/* id_list_push puts an id, copied, before all others; false when memory is exhausted. */
bool id_list_push(struct id_list *list, struct slice dlq_id, struct arena *arena);

/* struct selection: which letters, and what became of the choice. */
struct selection {
    struct letter_filter filter;
    const struct filter *expression; /* `filter` of the request; NULL: none */
    bool machine;                    /* leave out what no machine may replay */
    struct id_list chosen;
    struct id_list skipped; /* left out by `machine` */
};

/* selection_expression reads the `filter` of a request.  An asker who may not see everything may
 * not ask about what it would find masked.  NULL, with the call failed, when it is refused. */
const struct filter *selection_expression(struct call *call, struct slice text);

/* selection_matches asks an expression about a letter.  `body` is its payload; it may be empty when
 * the expression does not look into the item. */
bool selection_matches(const struct filter *expression, const struct letter *letter,
                       struct slice body);

/* selection_freeze makes the lists. */
enum status selection_freeze(struct call *call, struct selection *selection);

#endif
