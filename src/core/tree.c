/* tree: nodes in one arena, and what it costs to work on them.
 *
 * Every loop over children and every byte that is looked at is charged, and every list of children
 * is bounded by memory_max, so that an edit made to be expensive (a copy of a copy of a copy, ten
 * thousand insertions at the front) is refused after a fraction of a second. */
#include "core/tree.h"

#include <stdlib.h>

#include "core/decimal.h"

#define WORK_MAX 50000000u     /* members and bytes: a fraction of a second */
#define MEMORY_SPARE (1 << 20) /* beside MEMORY_FACTOR times the inputs' size */
#define MEMORY_FACTOR 128

void tree_init(struct tree *tree, struct json root, size_t size, struct err *err)
{
    *tree = (struct tree){.root = tree_closed(root), .err = err};
    tree->memory_max = MEMORY_SPARE + MEMORY_FACTOR * size;
}

void tree_release(struct tree *tree)
{
    arena_release(&tree->arena);
}

enum status tree_charge(struct tree *tree, size_t work)
{
    tree->work += work;
    if (tree->work > WORK_MAX || tree->arena.used > tree->memory_max)
        return err_set(tree->err, STATUS_TOO_LARGE, "the edit is too large: split it");
    return STATUS_OK;
}

/* new_children allocates room for a container's children.  When it is NULL, `status` says why. */
static struct tree_node *new_children(struct tree *tree, size_t cap, enum status *status)
{
    struct tree_node *children;

    *status = tree_charge(tree, cap);
    if (*status != STATUS_OK)
        return NULL;
    if (cap > UINT32_MAX || cap * sizeof(*children) > tree->memory_max) {
        *status = err_set(tree->err, STATUS_TOO_LARGE, "the edit is too large: split it");
        return NULL;
    }
    children = arena_array(&tree->arena, cap ? cap : 1, sizeof(*children));
    if (!children)
        *status = err_no_memory(tree->err);
    return children;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct tree_node tree_closed(struct json value)
{
    return (struct tree_node){.type = value.type, .raw = value.raw};
}

static struct json closed_value(const struct tree_node *node)
{
    return (struct json){node->type, node->raw};
}

enum status tree_open(struct tree *tree, struct tree_node *node)
{
    struct json container, key, value;
    struct json_iter iter;
    struct tree_node opened;
    enum status status;
    size_t count;

    if (node->open || (node->type != JSON_OBJECT && node->type != JSON_ARRAY))
        return STATUS_OK;
    container = closed_value(node);
    status = tree_charge(tree, node->raw.len);
    if (status != STATUS_OK)
        return status;
    count = json_count(container);
    opened = (struct tree_node){.type = node->type, .name = node->name, .open = true};
    opened.children = new_children(tree, count, &status);
    if (!opened.children)
        return status;
    opened.cap = (uint32_t)count;
    json_iter_init(&iter, container);
    while (json_next(&iter, &key, &value)) {
        struct tree_node *child = &opened.children[opened.count++];
        *child = tree_closed(value);
        if (node->type != JSON_OBJECT)
            continue;
        child->name = json_text(key, &tree->arena);
        if (!child->name.ptr)
            return err_no_memory(tree->err);
    }
    *node = opened;
    return STATUS_OK;
}

enum status tree_copy(struct tree *tree, const struct tree_node *node, struct tree_node *out)
{
    struct tree_node copy = *node;
    enum status status = STATUS_OK;

    if (node->open) {
        copy.cap = node->count;
        copy.children = new_children(tree, node->count, &status);
        for (uint32_t i = 0; status == STATUS_OK && i < node->count; i++)
            status = tree_copy(tree, &node->children[i], &copy.children[i]);
    }
    if (status == STATUS_OK)
        *out = copy;
    return status;
}

enum status tree_height(struct tree *tree, const struct tree_node *node, unsigned *out)
{
    unsigned height = 0, child;
    enum status status;

    *out = 0;
    if (!node->open)
        return STATUS_OK;
    status = tree_charge(tree, node->count);
    for (uint32_t i = 0; status == STATUS_OK && i < node->count; i++) {
        status = tree_height(tree, &node->children[i], &child);
        height = child > height ? child : height;
    }
    *out = height + 1;
    return status;
}

void tree_print(const struct tree_node *node, struct jsonw *w)
{
    if (!node->open) {
        jsonw_raw(w, node->raw);
        return;
    }
    if (node->type == JSON_OBJECT)
        jsonw_object(w);
    else
        jsonw_array(w);
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->type == JSON_OBJECT)
            jsonw_key_slice(w, node->children[i].name);
        tree_print(&node->children[i], w);
    }
    if (node->type == JSON_OBJECT)
        jsonw_object_end(w);
    else
        jsonw_array_end(w);
}

enum status tree_insert(struct tree *tree, struct tree_node *parent, uint32_t index,
                        struct tree_node child)
{
    struct tree_node *grown;
    enum status status = tree_charge(tree, parent->count - index);

    if (status != STATUS_OK)
        return status;
    if (parent->count == parent->cap) {
        size_t cap = parent->cap ? 2 * (size_t)parent->cap : 4;
        grown = new_children(tree, cap, &status);
        if (!grown)
            return status;
        memcpy(grown, parent->children, parent->count * sizeof(*grown));
        parent->children = grown;
        parent->cap = (uint32_t)cap;
    }
    memmove(&parent->children[index + 1], &parent->children[index],
            (parent->count - index) * sizeof(child));
    parent->children[index] = child;
    parent->count++;
    return STATUS_OK;
}

enum status tree_delete(struct tree *tree, struct tree_node *parent, uint32_t index)
{
    parent->count--;
    memmove(&parent->children[index], &parent->children[index + 1],
            (parent->count - index) * sizeof(*parent->children));
    return tree_charge(tree, parent->count - index);
}

enum status tree_member(struct tree *tree, struct tree_node *object, struct slice name,
                        struct tree_node **out)
{
    *out = NULL;
    for (uint32_t i = object->count; i > 0 && !*out; i--)
        if (slice_eq(object->children[i - 1].name, name))
            *out = &object->children[i - 1];
    return tree_charge(tree, object->count);
}

enum status tree_drop(struct tree *tree, struct tree_node *object, struct slice name)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < object->count; i++)
        if (!slice_eq(object->children[i].name, name))
            object->children[kept++] = object->children[i];
    object->count = kept;
    return tree_charge(tree, object->count);
}

enum status tree_put(struct tree *tree, struct tree_node *object, struct slice name,
                     struct tree_node value)
{
    struct tree_node *found;
    enum status status = tree_member(tree, object, name, &found);

    if (status != STATUS_OK)
        return status;
    value.name = name;
    if (!found)
        return tree_insert(tree, object, object->count, value);
    *found = value;
    return STATUS_OK;
}

/* ---- equality, as the operation "test" has it ------------------------------------------------ */

struct pair {
    struct slice name;
    struct json value;
    size_t order;
};

static int pair_order(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    int order = len ? memcmp(a->name.ptr, b->name.ptr, len) : 0;

    if (order == 0)
        order = (a->name.len > b->name.len) - (a->name.len < b->name.len);
    if (order == 0)
        order = (a->order > b->order) - (a->order < b->order);
    return order;
}

/* sorted_pairs lists an object's members by name, the last one of each name; NULL when memory is
 * exhausted. */
static struct pair *sorted_pairs(struct tree *tree, struct json object, size_t *out_count)
{
    size_t count = json_count(object), kept = 0, i = 0;
    struct pair *pairs = arena_array(&tree->arena, count + 1, sizeof(*pairs));
    struct json_iter iter;
    struct json key;

    *out_count = 0;
    if (!pairs)
        return NULL;
    json_iter_init(&iter, object);
    for (; json_next(&iter, &key, &pairs[i].value); i++) {
        pairs[i].order = i;
        pairs[i].name = json_text(key, &tree->arena);
        if (!pairs[i].name.ptr)
            return NULL;
    }
    qsort(pairs, count, sizeof(*pairs), pair_order);
    for (i = 0; i < count; i++)
        if (i + 1 == count || !slice_eq(pairs[i].name, pairs[i + 1].name))
            pairs[kept++] = pairs[i];
    *out_count = kept;
    return pairs;
}

static enum status values_equal(struct tree *tree, struct json a, struct json b, bool *out);

static enum status objects_equal(struct tree *tree, struct json a, struct json b, bool *out)
{
    size_t left_count, right_count;
    struct pair *left = sorted_pairs(tree, a, &left_count);
    struct pair *right = sorted_pairs(tree, b, &right_count);
    enum status status = STATUS_OK;

    if (!left || !right)
        return err_no_memory(tree->err);
    *out = left_count == right_count;
    for (size_t i = 0; status == STATUS_OK && *out && i < left_count; i++) {
        *out = slice_eq(left[i].name, right[i].name);
        if (*out)
            status = values_equal(tree, left[i].value, right[i].value, out);
    }
    return status;
}

static enum status arrays_equal(struct tree *tree, struct json a, struct json b, bool *out)
{
    struct json_iter left, right;
    struct json x, y;
    enum status status = STATUS_OK;
    bool more;

    *out = true;
    json_iter_init(&left, a);
    json_iter_init(&right, b);
    while (status == STATUS_OK && *out) {
        more = json_next(&left, NULL, &x);
        if (more != json_next(&right, NULL, &y))
            *out = false;
        if (!more)
            break;
        if (*out)
            status = values_equal(tree, x, y, out);
    }
    return status;
}

static enum status values_equal(struct tree *tree, struct json a, struct json b, bool *out)
{
    struct slice x, y;
    enum status status = tree_charge(tree, a.raw.len);

    *out = a.type == b.type;
    if (status != STATUS_OK || !*out || slice_eq(a.raw, b.raw))
        return status;
    switch (a.type) {
    case JSON_NUMBER:
        *out = decimal_compare(a.raw, b.raw) == 0;
        return STATUS_OK;
    case JSON_STRING:
        x = json_text(a, &tree->arena);
        y = json_text(b, &tree->arena);
        *out = slice_eq(x, y);
        return x.ptr && y.ptr ? STATUS_OK : err_no_memory(tree->err);
    case JSON_ARRAY:
        return arrays_equal(tree, a, b, out);
    case JSON_OBJECT:
        return objects_equal(tree, a, b, out);
    default:
        return STATUS_OK;
    }
}

enum status tree_equals(struct tree *tree, const struct tree_node *node, struct json value,
                        bool *out)
{
    struct buf printed;
    struct jsonw w;
    struct json own = closed_value(node);
    enum status status = STATUS_OK;

    buf_init(&printed, tree->memory_max);
    if (node->open) {
        jsonw_init(&w, &printed);
        tree_print(node, &w);
        own.raw = buf_slice(&printed);
        status = buf_status(&printed, tree->err);
    }
    if (status == STATUS_OK)
        status = values_equal(tree, own, value, out);
    buf_release(&printed);
    return status;
}

bool tree_same(struct json a, struct json b)
{
    struct err err;
    struct tree tree;
    bool same = false;
    tree_init(&tree, a, a.raw.len + b.raw.len, &err);
    enum status status = tree_equals(&tree, &tree.root, b, &same);
    tree_release(&tree);
    return status == STATUS_OK && same;
}
