/* tree: a JSON document that can be edited without touching what the edit does not name.
 *
 * Nodes are *closed* to begin with: the bytes of a value, as they stand in the text.  Stepping into
 * a container *opens* it: it becomes a list of closed children.  Printing copies closed nodes byte
 * for byte, so a number is not rounded, a text not re-escaped and a member not moved unless the
 * edit named it.
 *
 * Nodes are values: they are moved by assignment and live in their parent's list.  A pointer to a
 * node holds until the next insertion into or removal from that list. */
#ifndef LAZARET_CORE_TREE_H
#define LAZARET_CORE_TREE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/jsonw.h"

struct tree_node {
    struct slice name; /* decoded; of an object's member only */
    union {
        struct slice raw; /* closed: the bytes */
        struct {          /* open: the children */
            struct tree_node *children;
            uint32_t count, cap;
        };
    };
    enum json_type type;
    bool open;
};

/* struct tree: a document, and the bounds on what an edit of it may cost. */
struct tree {
    struct arena arena; /* everything but the texts that were read */
    struct tree_node root;
    size_t work;       /* members and bytes looked at */
    size_t memory_max; /* bytes of the arena */
    struct err *err;   /* where every function here says what went wrong */
};

/* tree_init begins with a closed root, and memory in proportion to `size`, the bytes of all inputs.
 */
void tree_init(struct tree *tree, struct json root, size_t size, struct err *err);
void tree_release(struct tree *tree);

/* tree_charge counts work.  STATUS_TOO_LARGE when the edit has taken too much of it or of memory.
 * The functions below charge for themselves. */
enum status tree_charge(struct tree *tree, size_t work);

/* tree_closed is a node without a name that stands for the bytes of `value`. */
struct tree_node tree_closed(struct json value);

/* tree_open makes a container's children reachable.  Other nodes, and open ones, stay as they are.
 */
enum status tree_open(struct tree *tree, struct tree_node *node);

/* tree_copy makes a copy that shares nothing that can change. */
enum status tree_copy(struct tree *tree, const struct tree_node *node, struct tree_node *out);

/* tree_height measures how many levels of open containers a node has. */
enum status tree_height(struct tree *tree, const struct tree_node *node, unsigned *out);

/* tree_equals compares with a value as RFC 6902 has it: numbers by their exact value, texts
 * decoded, objects in any order. */
enum status tree_equals(struct tree *tree, const struct tree_node *node, struct json value,
                        bool *out);

/* tree_same compares two whole values likewise.  False too when that takes too much. */
bool tree_same(struct json a, struct json b);

void tree_print(const struct tree_node *node, struct jsonw *w);

/* tree_insert and tree_delete change an open container's list at `index`. */
enum status tree_insert(struct tree *tree, struct tree_node *parent, uint32_t index,
                        struct tree_node child);
enum status tree_delete(struct tree *tree, struct tree_node *parent, uint32_t index);

/* tree_member finds a member of an open object by name: the last, when the text had it twice, as
 * that is the one readers see.  `*out` is NULL when there is none. */
enum status tree_member(struct tree *tree, struct tree_node *object, struct slice name,
                        struct tree_node **out);

/* tree_put sets a member: in its place when there is one, else at the end. */
enum status tree_put(struct tree *tree, struct tree_node *object, struct slice name,
                     struct tree_node value);

/* tree_drop removes every member of that name: none is to appear from behind another. */
enum status tree_drop(struct tree *tree, struct tree_node *object, struct slice name);

#endif
