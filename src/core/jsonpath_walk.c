/* jsonpath_walk: finding the values that a path selects, one after the other.
 *
 * The walk is a stack of frames.  A frame is a container of the document and the segment that is
 * applied to it: first the segment's selectors, in order, then, when the segment descends, the same
 * segment on each child.  A value that is selected is yielded when no segment is left, else it gets
 * a frame with the next one.  Every frame's container is a child of the one below it, so there are
 * never more frames than a document has levels.
 *
 *     select --values--> yield, or push(next segment)
 *        |  `--no selector left--> descend --children--> push(same segment)
 *        `---------------------------^   `--no child left--> pop
 *
 * Arrays are also read from the end, for negative positions and steps: outside of strings no
 * backslash stands, so a quote with an even number of backslashes before it is where a string
 * begins.
 */
#include "core/jsonpath_tree.h"

struct frame {
    const struct path_segment *segment;
    const struct path_selector *selector; /* NULL: descending */
    struct json node;                     /* an array or an object */
    bool begun;                           /* the fields below are of what is being done */
    struct json_iter iter;                /* forward: the next child */
    const char *back;                     /* backward: where the next element ends */
    int64_t at;                           /* of a slice: the position that is read next */
    int64_t wanted, stop; /* the position that is selected next, and the first that is not */
};

struct jsonpath_walk {
    const struct jsonpath *path;
    struct json root;
    bool yielded; /* of a path without segments: the root */
    unsigned depth;
    struct frame frames[JSON_DEPTH_MAX];
};

static bool is_container(struct json value)
{
    return value.type == JSON_ARRAY || value.type == JSON_OBJECT;
}

/* name_is compares a key, decoded as it is read, with a name. */
static bool name_is(struct json key, struct slice name)
{
    struct slice in = {key.raw.ptr + 1, key.raw.len - 2};
    const char *at = in.ptr, *end = in.ptr + in.len;
    char part[4] = {0};

    if (!memchr(in.ptr, '\\', in.len))
        return slice_eq(in, name);
    while (at < end) {
        struct slice decoded = {part, json_decode(&at, part)};
        if (!slice_starts(name, decoded))
            return false;
        name = (struct slice){name.ptr + decoded.len, name.len - decoded.len};
    }
    return name.len == 0;
}

bool jsonpath_member(struct json object, struct slice name, struct json *out)
{
    struct json_iter iter;
    struct json key, value;
    bool found = false;

    *out = (struct json){0};
    if (object.type != JSON_OBJECT)
        return false;
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        if (name_is(key, name)) {
            *out = value;
            found = true;
        }
    }
    return found;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* string_begin is where the string begins whose closing quote is at `at`. */
static const char *string_begin(const char *at)
{
    for (;;) {
        const char *slash = --at;
        if (*at != '"')
            continue;
        while (slash[-1] == '\\')
            slash--;
        if ((at - slash) % 2 == 0)
            return at;
    }
}

/* container_begin is where the container begins that ends before `at`. */
static const char *container_begin(const char *at)
{
    unsigned depth = 0;

    for (;;) {
        switch (*--at) {
        case '"':
            at = string_begin(at);
            break;
        case ']':
        case '}':
            depth++;
            break;
        case '[':
        case '{':
            if (--depth == 0)
                return at;
            break;
        default:
            break;
        }
    }
}

/* element_back reads the last element of an array that ends at or before `*at`; false when there is
 * none.  `begin` is behind the opening bracket. */
static bool element_back(const char *begin, const char **at, struct json *out)
{
    const char *end = *at, *first;

    while (end > begin && is_space(end[-1]))
        end--;
    if (end == begin)
        return false;
    first = end - 1;
    if (*first == '"')
        first = string_begin(first);
    else if (*first == ']' || *first == '}')
        first = container_begin(end);
    else
        while (first > begin && first[-1] != ',' && !is_space(first[-1]))
            first--;

    struct json_iter iter = {.at = first, .end = end};
    json_next(&iter, NULL, out);
    while (first > begin && is_space(first[-1]))
        first--;
    *at = first > begin ? first - 1 : begin; /* before the comma */
    return true;
}

/* element finds one element by its position; a negative one counts from the end. */
static bool element(struct json array, int64_t position, struct json *out)
{
    const char *begin = array.raw.ptr + 1, *back = array.raw.ptr + array.raw.len - 1;
    struct json_iter iter;

    if (array.type != JSON_ARRAY)
        return false;
    if (position < 0) {
        while (element_back(begin, &back, out))
            if (++position == 0)
                return true;
        return false;
    }
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, out))
        if (position-- == 0)
            return true;
    return false;
}

static int64_t clamp(int64_t value, int64_t min, int64_t max)
{
    return value < min ? min : value > max ? max : value;
}

/* slice_begin finds the bounds of a slice, as section 2.3.4.2.2 of the RFC has it.  An array is
 * only counted when a bound is from its end. */
static void slice_begin(struct frame *frame, const struct path_selector *slice)
{
    bool counted = slice->step < 0 || (slice->has_start && slice->start < 0) ||
                   (slice->has_end && slice->end < 0);
    int64_t len = counted ? (int64_t)json_count(frame->node) : INT64_MAX;
    int64_t start = slice->start < 0 ? len + slice->start : slice->start;
    int64_t end = slice->end < 0 ? len + slice->end : slice->end;

    if (slice->step > 0) {
        frame->at = 0;
        frame->wanted = slice->has_start ? clamp(start, 0, len) : 0;
        frame->stop = slice->has_end ? clamp(end, 0, len) : len;
        json_iter_init(&frame->iter, frame->node);
    } else {
        frame->at = len - 1;
        frame->wanted = slice->has_start ? clamp(start, -1, len - 1) : len - 1;
        frame->stop = slice->has_end ? clamp(end, -1, len - 1) : -1;
        frame->back = frame->node.raw.ptr + frame->node.raw.len - 1;
    }
}

/* slice_next reads on to the next position that is wanted. */
static bool slice_next(struct frame *frame, int64_t step, struct json *out)
{
    while (step > 0 && frame->wanted < frame->stop && json_next(&frame->iter, NULL, out)) {
        if (frame->at++ == frame->wanted) {
            frame->wanted += step;
            return true;
        }
    }
    while (step < 0 && frame->wanted > frame->stop &&
           element_back(frame->node.raw.ptr + 1, &frame->back, out)) {
        if (frame->at-- == frame->wanted) {
            frame->wanted += step;
            return true;
        }
    }
    return false;
}

/* select_next is the next value that the frame's selector selects; false when there is none left.
 */
static bool select_next(struct frame *frame, struct json *out)
{
    const struct path_selector *selector = frame->selector;
    bool first = !frame->begun;

    frame->begun = true;
    switch (selector->kind) {
    case PATH_NAME:
        return first && jsonpath_member(frame->node, selector->name, out);
    case PATH_INDEX:
        return first && element(frame->node, selector->start, out);
    case PATH_SLICE:
        if (frame->node.type != JSON_ARRAY)
            return false;
        if (first)
            slice_begin(frame, selector);
        return slice_next(frame, selector->step, out);
    case PATH_ALL:
        if (first)
            json_iter_init(&frame->iter, frame->node);
        return json_next(&frame->iter, NULL, out);
    }
    BUG("no such selector: %d", (int)selector->kind);
}

/* push puts a frame on the stack; what is no container has no children to select. */
static void push(struct jsonpath_walk *walk, const struct path_segment *segment, struct json node)
{
    if (!is_container(node))
        return;
    BUG_ON(walk->depth == JSON_DEPTH_MAX);
    walk->frames[walk->depth++] =
        (struct frame){.segment = segment, .selector = segment->selectors, .node = node};
}

/* descend pushes the next child, or ends the frame. */
static void descend(struct jsonpath_walk *walk, struct frame *frame)
{
    struct json child;

    if (!frame->begun)
        json_iter_init(&frame->iter, frame->node);
    frame->begun = true;
    if (frame->segment->descent && json_next(&frame->iter, NULL, &child))
        push(walk, frame->segment, child);
    else
        walk->depth--;
}

static void walk_init(struct jsonpath_walk *walk, const struct jsonpath *path, struct json root)
{
    walk->path = path;
    walk->root = root;
    walk->yielded = false;
    walk->depth = 0;
    if (path->first)
        push(walk, path->first, root);
}

bool jsonpath_next(struct jsonpath_walk *walk, struct json *out)
{
    if (!walk->path->first && !walk->yielded) {
        walk->yielded = true;
        *out = walk->root;
        return true;
    }
    while (walk->depth > 0) {
        struct frame *frame = &walk->frames[walk->depth - 1];
        struct json value;
        if (!frame->selector) {
            descend(walk, frame);
        } else if (!select_next(frame, &value)) {
            frame->selector = frame->selector->next;
            frame->begun = false;
        } else if (frame->segment->next) {
            push(walk, frame->segment->next, value);
        } else {
            *out = value;
            return true;
        }
    }
    return false;
}

struct jsonpath_walk *jsonpath_begin(const struct jsonpath *path, struct json root,
                                     struct arena *arena)
{
    struct jsonpath_walk *walk = arena_alloc(arena, sizeof(*walk));

    if (walk)
        walk_init(walk, path, root);
    return walk;
}

bool jsonpath_each(const struct jsonpath *path, struct json root,
                   bool (*each)(void *ctx, struct json value), void *ctx)
{
    struct jsonpath_walk walk;
    struct json value;

    walk_init(&walk, path, root);
    while (jsonpath_next(&walk, &value))
        if (!each(ctx, value))
            return false;
    return true;
}
