/* fuzz_jsonpath: a first line as a path, the rest as the document that it selects from.
 *
 * What is refused must say why and yield nothing.  What is selected is JSON inside of the document,
 * the same whether it is pushed or pulled, and a slice backward is the slice forward, reversed. */
#include <stddef.h>
#include <stdint.h>

#include "core/jsonpath.h"

#define VALUES_MAX 2000 /* descents inside of descents select without end */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct check {
    struct json root;
    struct jsonpath_walk *walk;
    size_t count;
};

static bool check_value(void *ctx, struct json value)
{
    struct check *check = ctx;
    struct json again, pulled;

    BUG_ON(value.raw.ptr < check->root.raw.ptr ||
           value.raw.ptr + value.raw.len > check->root.raw.ptr + check->root.raw.len);
    BUG_ON(json_parse(value.raw, &again, NULL) != STATUS_OK || again.type != value.type);
    BUG_ON(again.raw.len != value.raw.len);
    BUG_ON(!jsonpath_next(check->walk, &pulled) || pulled.raw.ptr != value.raw.ptr);
    return ++check->count < VALUES_MAX;
}

/* check_reverse reads an array from both ends. */
static void check_reverse(struct json root, struct arena *arena)
{
    const struct jsonpath *forward, *backward;
    size_t count = json_count(root);
    struct json value, last = {0};

    if (root.type != JSON_ARRAY || count == 0)
        return;
    BUG_ON(jsonpath_parse(SLICE("$[0]"), arena, &forward, NULL) != STATUS_OK);
    BUG_ON(jsonpath_parse(SLICE("$[::-1]"), arena, &backward, NULL) != STATUS_OK);
    struct jsonpath_walk *walk = jsonpath_begin(backward, root, arena);
    for (; jsonpath_next(walk, &value); count--)
        last = value;
    walk = jsonpath_begin(forward, root, arena);
    BUG_ON(count != 0 || !jsonpath_next(walk, &value) || value.raw.ptr != last.raw.ptr ||
           value.raw.len != last.raw.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct check check = {.root = {JSON_NULL, SLICE("null")}};
    struct arena arena = {0};
    const struct jsonpath *path = NULL;
    struct err err = {0};

    if (newline)
        (void)json_parse((struct slice){newline + 1, size - len - 1}, &check.root, NULL);
    if (jsonpath_parse((struct slice){(const char *)data, len}, &arena, &path, &err) == STATUS_OK) {
        struct json more;
        check.walk = jsonpath_begin(path, check.root, &arena);
        if (jsonpath_each(path, check.root, check_value, &check))
            BUG_ON(jsonpath_next(check.walk, &more));
    } else {
        BUG_ON(err.text[0] == '\0' || path);
    }
    check_reverse(check.root, &arena);
    arena_release(&arena);
    return 0;
}
