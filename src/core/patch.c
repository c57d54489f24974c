/* patch: the operations of RFC 6902 and the merging of RFC 7396, on a tree (tree.h) that leaves
 * alone what no operation names.
 *
 * The tree is private to the call: when an operation fails it is thrown away, so all operations
 * apply or none.  The result is read back before it is handed out: a document that is nested too
 * deep to be read is never made. */
#include "core/patch.h"

#include "core/field.h"
#include "core/tree.h"

#define QUOTED_MAX 80 /* bytes of a pointer that an error repeats */

/* ---- pointers (RFC 6901) --------------------------------------------------------------------- */

/* struct place: where a pointer leads: a container that is there, and a name or index in it. */
struct place {
    struct tree_node *parent; /* open; NULL: the place is the whole document */
    struct tree_node *node;   /* what is there; NULL: nothing */
    struct slice last;        /* the last token */
    uint32_t index;           /* of an array's element: its count for "-" */
    unsigned depth;           /* tokens in the pointer */
};

/* place_is_empty says that nothing is there.  The whole document, which has no parent, always is.
 */
static bool place_is_empty(const struct place *place)
{
    return place->parent && !place->node;
}

static enum status refuse_pointer(struct tree *tree, struct slice pointer, const char *why)
{
    struct slice head = field_head(pointer, QUOTED_MAX);

    return err_set(tree->err, STATUS_INVALID, "%s \"%.*s%s\"", why, SLICE_ARG(head),
                   head.len < pointer.len ? "..." : "");
}

/* token_decode replaces ~1 by / and ~0 by ~. */
static enum status token_decode(struct tree *tree, struct slice pointer, struct slice *token)
{
    char *text, *end;

    if (!token->len || !memchr(token->ptr, '~', token->len))
        return STATUS_OK;
    text = end = arena_alloc(&tree->arena, token->len);
    if (!text)
        return err_no_memory(tree->err);
    for (size_t i = 0; i < token->len; i++) {
        char c = token->ptr[i];
        if (c == '~') {
            char code = ++i < token->len ? token->ptr[i] : '\0';
            if (code != '0' && code != '1')
                return refuse_pointer(tree, pointer, "only ~0 and ~1 may stand in the pointer");
            c = code == '0' ? '~' : '/';
        }
        *end++ = c;
    }
    *token = (struct slice){text, (size_t)(end - text)};
    return STATUS_OK;
}

/* element_index reads an array's index: digits without a leading zero, or "-" for the end.  All
 * that are past the end are one past it. */
static bool element_index(struct slice token, uint32_t count, uint32_t *out)
{
    uint64_t index = 0;

    if (slice_is(token, "-")) {
        *out = count;
        return true;
    }
    if (token.len == 0 || (token.len > 1 && token.ptr[0] == '0'))
        return false;
    for (size_t i = 0; i < token.len; i++) {
        if (token.ptr[i] < '0' || token.ptr[i] > '9')
            return false;
        if (index <= count)
            index = index * 10 + (uint64_t)(token.ptr[i] - '0');
    }
    *out = index <= count ? (uint32_t)index : count + 1;
    return true;
}

/* step takes a place one token further: from what is there to a child of it. */
static enum status step(struct tree *tree, struct slice pointer, struct slice token,
                        struct place *place)
{
    struct tree_node *parent = place->node;
    enum status status;

    if (place_is_empty(place))
        return refuse_pointer(tree, pointer, "there is nothing to step into on the way to");
    status = tree_open(tree, parent);
    if (status != STATUS_OK)
        return status;
    *place = (struct place){.parent = parent, .last = token, .depth = place->depth + 1};
    if (place->depth > JSON_DEPTH_MAX)
        return refuse_pointer(tree, pointer, "there are too many steps in");
    if (parent->type == JSON_OBJECT)
        return tree_member(tree, parent, token, &place->node);
    if (parent->type != JSON_ARRAY)
        return refuse_pointer(tree, pointer, "there is no object or array on the way to");
    if (!element_index(token, parent->count, &place->index))
        return refuse_pointer(tree, pointer, "an array's index must be a number or - in");
    place->node = place->index < parent->count ? &parent->children[place->index] : NULL;
    return STATUS_OK;
}

/* locate follows a pointer.  Its last token may lead to nothing: that is a place to add to. */
static enum status locate(struct tree *tree, struct slice pointer, struct place *out)
{
    struct place place = {.node = &tree->root};
    struct slice rest = pointer;
    enum status status = STATUS_OK;

    if (pointer.len > 0 && pointer.ptr[0] != '/')
        return refuse_pointer(tree, pointer, "a pointer must be empty or begin with /, not");
    while (status == STATUS_OK && rest.len > 0) {
        const char *begin = rest.ptr + 1, *end = rest.ptr + rest.len;
        const char *slash = memchr(begin, '/', rest.len - 1);
        struct slice token = {begin, (size_t)((slash ? slash : end) - begin)};
        rest = (struct slice){begin + token.len, (size_t)(end - begin) - token.len};
        status = token_decode(tree, pointer, &token);
        if (status == STATUS_OK)
            status = step(tree, pointer, token, &place);
    }
    if (status == STATUS_OK)
        *out = place;
    return status;
}

/* locate_existing is locate, for operations that need something to be there. */
static enum status locate_existing(struct tree *tree, struct slice pointer, struct place *out)
{
    enum status status = locate(tree, pointer, out);

    if (status == STATUS_OK && place_is_empty(out))
        return refuse_pointer(tree, pointer, "there is nothing at");
    return status;
}

/* ---- operations (RFC 6902) ------------------------------------------------------------------- */

/* struct operation: one element of a patch, read. */
struct operation {
    struct slice op, path, from;
    struct json value;
    bool has_path, has_from, has_value;
};

static enum status put_at(struct tree *tree, struct slice pointer, struct tree_node value)
{
    struct place place = {0};
    unsigned height = 0;
    enum status status = locate(tree, pointer, &place);

    if (status == STATUS_OK)
        status = tree_height(tree, &value, &height);
    if (status != STATUS_OK)
        return status;
    if (place.depth + height > JSON_DEPTH_MAX)
        return refuse_pointer(tree, pointer, "nested too deep at");
    if (!place.parent) {
        tree->root = value;
        return STATUS_OK;
    }
    if (place.parent->type == JSON_OBJECT)
        return tree_put(tree, place.parent, place.last, value);
    if (place.index > place.parent->count)
        return refuse_pointer(tree, pointer, "the array ends before");
    return tree_insert(tree, place.parent, place.index, value);
}

static enum status op_add(struct tree *tree, const struct operation *operation)
{
    return put_at(tree, operation->path, tree_closed(operation->value));
}

/* take_at removes what is at a pointer and hands it over. */
static enum status take_at(struct tree *tree, struct slice pointer, struct tree_node *out)
{
    struct place place = {0};
    enum status status = locate_existing(tree, pointer, &place);

    if (status != STATUS_OK)
        return status;
    if (!place.parent)
        return err_set(tree->err, STATUS_INVALID, "the whole document cannot be removed");
    *out = *place.node;
    if (place.parent->type == JSON_OBJECT)
        return tree_drop(tree, place.parent, place.last);
    return tree_delete(tree, place.parent, place.index);
}

static enum status op_remove(struct tree *tree, const struct operation *operation)
{
    struct tree_node removed;

    return take_at(tree, operation->path, &removed);
}

static enum status op_replace(struct tree *tree, const struct operation *operation)
{
    struct place place = {0};
    enum status status = locate_existing(tree, operation->path, &place);

    if (status != STATUS_OK)
        return status;
    struct slice name = place.node->name;
    *place.node = tree_closed(operation->value);
    place.node->name = name;
    return STATUS_OK;
}

static enum status op_move(struct tree *tree, const struct operation *operation)
{
    struct slice from = operation->from, path = operation->path;
    struct place place = {0};
    struct tree_node node = {0};
    enum status status = locate_existing(tree, from, &place);

    if (status != STATUS_OK || slice_eq(from, path))
        return status;
    if (slice_starts(path, from) && path.ptr[from.len] == '/')
        return refuse_pointer(tree, path, "a value cannot be moved into itself, to");
    status = take_at(tree, from, &node);
    return status == STATUS_OK ? put_at(tree, path, node) : status;
}

static enum status op_copy(struct tree *tree, const struct operation *operation)
{
    struct place place = {0};
    struct tree_node node = {0};
    enum status status = locate_existing(tree, operation->from, &place);

    if (status == STATUS_OK)
        status = tree_copy(tree, place.node, &node);
    return status == STATUS_OK ? put_at(tree, operation->path, node) : status;
}

static enum status op_test(struct tree *tree, const struct operation *operation)
{
    struct place place = {0};
    bool equal = false;
    enum status status = locate_existing(tree, operation->path, &place);

    if (status == STATUS_OK)
        status = tree_equals(tree, place.node, operation->value, &equal);
    if (status == STATUS_OK && !equal)
        status = refuse_pointer(tree, operation->path, "another value is at");
    return status;
}

static const struct {
    const char *name;
    enum status (*apply)(struct tree *, const struct operation *);
    bool needs_from, needs_value;
} operations[] = {
    {"add", op_add, false, true},   {"remove", op_remove, false, false},
    {"move", op_move, true, false}, {"replace", op_replace, false, true},
    {"copy", op_copy, true, false}, {"test", op_test, false, true},
};

/* read_member takes one member of an operation.  Unknown ones are ignored, as the RFC wants. */
static enum status read_member(struct tree *tree, struct json key, struct json value,
                               struct operation *out)
{
    bool has_op = out->op.ptr != NULL;
    struct {
        const char *name;
        struct slice *text;
        bool *has;
    } members[] = {{"op", &out->op, &has_op},
                   {"path", &out->path, &out->has_path},
                   {"from", &out->from, &out->has_from},
                   {"value", NULL, &out->has_value}};

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (!json_string_is(key, members[i].name))
            continue;
        if (*members[i].has)
            return err_set(tree->err, STATUS_INVALID, "%s: stands twice", members[i].name);
        *members[i].has = true;
        if (!members[i].text) {
            out->value = value;
            return STATUS_OK;
        }
        if (value.type != JSON_STRING)
            return err_set(tree->err, STATUS_INVALID, "%s: must be a string", members[i].name);
        *members[i].text = json_text(value, &tree->arena);
        return members[i].text->ptr ? STATUS_OK : err_no_memory(tree->err);
    }
    return STATUS_OK;
}

static enum status apply_operation(struct tree *tree, struct json element)
{
    struct operation operation = {0};
    struct json_iter iter;
    struct json key, value;
    enum status status = STATUS_OK;

    if (element.type != JSON_OBJECT)
        return err_set(tree->err, STATUS_INVALID, "must be an object");
    json_iter_init(&iter, element);
    while (status == STATUS_OK && json_next(&iter, &key, &value))
        status = read_member(tree, key, value, &operation);
    if (status != STATUS_OK)
        return status;
    if (!operation.op.ptr)
        return err_set(tree->err, STATUS_INVALID, "op: is required");
    if (!operation.has_path)
        return err_set(tree->err, STATUS_INVALID, "path: is required");
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (!slice_is(operation.op, operations[i].name))
            continue;
        if (operations[i].needs_from && !operation.has_from)
            return err_set(tree->err, STATUS_INVALID, "from: is required");
        if (operations[i].needs_value && !operation.has_value)
            return err_set(tree->err, STATUS_INVALID, "value: is required");
        return operations[i].apply(tree, &operation);
    }
    return err_set(tree->err, STATUS_INVALID,
                   "op: must be add, remove, replace, move, copy or test");
}

/* ---- merging (RFC 7396) ---------------------------------------------------------------------- */

/* merge applies a merge patch to one node.  The recursion is as deep as the patch, which
 * json_parse has bounded. */
static enum status merge(struct tree *tree, struct tree_node *node, struct json patch)
{
    struct json_iter iter;
    struct json key, value;
    struct tree_node *member;
    struct slice name = node->name;
    enum status status;

    if (patch.type != JSON_OBJECT) {
        *node = tree_closed(patch);
        node->name = name;
        return STATUS_OK;
    }
    if (node->type != JSON_OBJECT) {
        *node = tree_closed((struct json){JSON_OBJECT, SLICE("{}")});
        node->name = name;
    }
    status = tree_open(tree, node);
    json_iter_init(&iter, patch);
    while (status == STATUS_OK && json_next(&iter, &key, &value)) {
        name = json_text(key, &tree->arena);
        if (!name.ptr)
            return err_no_memory(tree->err);
        if (value.type == JSON_NULL) {
            status = tree_drop(tree, node, name);
            continue;
        }
        status = tree_member(tree, node, name, &member);
        if (status == STATUS_OK && !member) {
            struct tree_node null = {.name = name, .type = JSON_NULL, .raw = SLICE("null")};
            status = tree_insert(tree, node, node->count, null);
            member = &node->children[node->count - 1];
        }
        if (status == STATUS_OK)
            status = merge(tree, member, value);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* begin reads the document and the edit.  On error there is nothing to release. */
static enum status begin(struct slice body, struct slice edit, struct tree *tree,
                         struct json *out_edit, struct err *err)
{
    struct json root;
    enum status status = json_parse(body, &root, err);

    if (status != STATUS_OK) {
        err_prefix(err, "the document");
        return status;
    }
    status = json_parse(edit, out_edit, err);
    if (status != STATUS_OK) {
        err_prefix(err, "the patch");
        return status;
    }
    tree_init(tree, root, body.len + edit.len, err);
    return STATUS_OK;
}

/* finish prints the document, checks that it can be read back, and appends it to `out`. */
static enum status finish(struct tree *tree, struct buf *out)
{
    struct buf printed;
    struct jsonw w;
    struct json value;
    enum status status;

    buf_init(&printed, out->max);
    jsonw_init(&w, &printed);
    tree_print(&tree->root, &w);
    status = buf_status(&printed, tree->err);
    if (status == STATUS_OK) {
        status = json_parse(buf_slice(&printed), &value, tree->err);
        if (status != STATUS_OK)
            err_prefix(tree->err, "the result");
    }
    if (status == STATUS_OK) {
        buf_add_slice(out, buf_slice(&printed));
        status = buf_status(out, tree->err);
    }
    buf_release(&printed);
    return status;
}

static enum status apply_all(struct tree *tree, struct json patch)
{
    struct json_iter iter;
    struct json operation;
    enum status status = STATUS_OK;

    if (patch.type != JSON_ARRAY)
        return err_set(tree->err, STATUS_INVALID, "a JSON Patch must be an array of operations");
    json_iter_init(&iter, patch);
    for (size_t i = 0; status == STATUS_OK && json_next(&iter, NULL, &operation); i++) {
        status = apply_operation(tree, operation);
        if (status != STATUS_OK)
            err_prefix(tree->err, "operation %zu", i);
    }
    return status;
}

enum status patch_apply(struct slice body, struct slice patch, struct buf *out, struct err *err)
{
    struct tree tree;
    struct json operations_list;
    enum status status = begin(body, patch, &tree, &operations_list, err);

    if (status != STATUS_OK)
        return status;
    status = apply_all(&tree, operations_list);
    if (status == STATUS_OK)
        status = finish(&tree, out);
    tree_release(&tree);
    return status;
}

enum status patch_merge(struct slice body, struct slice merge_patch, struct buf *out,
                        struct err *err)
{
    struct tree tree;
    struct json patch;
    enum status status = begin(body, merge_patch, &tree, &patch, err);

    if (status != STATUS_OK)
        return status;
    status = merge(&tree, &tree.root, patch);
    if (status == STATUS_OK)
        status = finish(&tree, out);
    tree_release(&tree);
    return status;
}
