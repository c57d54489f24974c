/* jsonpath_tree: what jsonpath.c makes of a path and jsonpath_walk.c follows.  For these two alone.
 */
#ifndef LAZARET_CORE_JSONPATH_TREE_H
#define LAZARET_CORE_JSONPATH_TREE_H

#include "core/jsonpath.h"

enum path_kind { PATH_NAME, PATH_INDEX, PATH_SLICE, PATH_ALL };

/* struct path_selector: which children of a node are meant. */
struct path_selector {
    struct path_selector *next; /* the one behind the comma */
    enum path_kind kind;
    struct slice name;        /* of a name: decoded */
    int64_t start, end, step; /* of a slice; of an index: `start` */
    bool has_start, has_end;  /* of a slice: they are given */
};

/* struct path_segment: one step: selectors, for a node or also for everything below it. */
struct path_segment {
    struct path_segment *next;
    bool descent; /* written with two dots */
    struct path_selector *selectors;
};

struct jsonpath {
    struct path_segment *first; /* NULL: the document itself */
};

#endif
