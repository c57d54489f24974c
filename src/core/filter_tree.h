/* filter_tree: what filter.c makes of an expression and filter_match.c asks.  For these two alone.
 */
#ifndef LAZARET_CORE_FILTER_TREE_H
#define LAZARET_CORE_FILTER_TREE_H

#include "core/filter.h"

enum kind { KIND_OR, KIND_AND, KIND_NOT, KIND_COMPARE };
enum op { OP_TRUE, OP_EQ, OP_NE, OP_GE, OP_GT, OP_LE, OP_LT, OP_CONTAINS };
enum field {
    FIELD_ELIGIBLE,
    FIELD_FAILURE_COUNT,
    FIELD_SIGNATURE,
    FIELD_ERROR_TYPE,
    FIELD_REASON,
    FIELD_FINGERPRINT,
    FIELD_ITEM,
    FIELD_COUNT
};

/* struct segment: one step of a path: a member's name, or an element's index. */
struct segment {
    struct segment *next;
    const char *name; /* NULL: an index */
    uint64_t index;
};

/* struct operand: one side of a comparison. */
struct operand {
    enum json_type type;
    struct slice text; /* of a number: as it is written; of a string: see `raw` */
    bool raw;          /* the string is inside its JSON quotes and may have escapes */
};

struct filter {
    enum kind kind;
    struct filter *first; /* of or, and, not: the parts */
    struct filter *next;  /* the part after this one */
    enum field field;     /* of a comparison: */
    struct segment *path;
    enum op op;
    struct operand value;
    size_t *borders; /* of "contains" with a text, by which it is looked for in a stream of bytes
                        (Knuth, Morris, Pratt): for each length of what has matched, how much of it
                        still matches when the next byte does not */
};

#endif
