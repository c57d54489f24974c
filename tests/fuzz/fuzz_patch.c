/* fuzz_patch: a first line as a document, the rest as an edit of it, both ways.
 *
 * What is refused must say why and add nothing.  What is accepted must be JSON; merging the same
 * edit into the result changes nothing any more, but for the order of members that the edit names
 * twice; and a merge patch that is no object is the result itself. */
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "core/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX (8 << 20)

static void check(enum status status, const struct buf *out, const struct err *err)
{
    struct json json;

    if (status != STATUS_OK)
        BUG_ON(err->text[0] == '\0' || out->len > 0);
    else
        BUG_ON(json_parse(buf_slice(out), &json, NULL) != STATUS_OK);
}

static void check_patch(struct slice body, struct slice edit)
{
    struct buf out;
    struct err err = {0};

    buf_init(&out, OUTPUT_MAX);
    check(patch_apply(body, edit, &out, &err), &out, &err);
    buf_release(&out);
}

static void check_merge(struct slice body, struct slice edit)
{
    struct buf out, again;
    struct err err = {0};
    struct json json;
    enum status status;

    buf_init(&out, OUTPUT_MAX);
    buf_init(&again, OUTPUT_MAX);
    status = patch_merge(body, edit, &out, &err);
    check(status, &out, &err);
    if (status == STATUS_OK && json_parse(edit, &json, NULL) == STATUS_OK) {
        if (json.type != JSON_OBJECT)
            BUG_ON(!slice_eq(json.raw, buf_slice(&out)));
        if (patch_merge(buf_slice(&out), edit, &again, &err) == STATUS_OK)
            BUG_ON(again.len != out.len);
    }
    buf_release(&out);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct slice body = {(const char *)data, len};
    struct slice edit = {body.ptr + len, size - len};

    check_patch(body, edit);
    check_merge(body, edit);
    return 0;
}
