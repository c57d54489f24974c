/* documents: see documents.h. */
#include "cli/documents.h"

#include "cli/request.h"
#include "cli/say.h"

#define BATCH_DOCUMENTS 1000
#define BATCH_BYTES (REQUEST_BODY_MAX / 2) /* a batch ends with the document that passes this */
#define BATCH_BYTES_MAX ((size_t)1 << 30)

static bool is_blank(struct slice text)
{
    size_t i = 0;
    while (i < text.len && (text.ptr[i] == ' ' || (text.ptr[i] >= '\t' && text.ptr[i] <= '\r')))
        i++;
    return i == text.len;
}

/* check reads the whole text and counts its documents. */
static int check(const char *name, struct slice text, size_t *count, struct json *first)
{
    struct json value;
    struct err err = {0};

    *count = 0;
    if (strcmp(name, "-") == 0)
        name = "standard input";
    if (is_blank(text))
        return say_error(CLI_USAGE, "%s: there is nothing in it", name);
    do {
        if (json_parse_prefix(text, &value, &text, &err) != STATUS_OK) {
            if (*count > 0)
                return say_error(CLI_USAGE, "%s: document %zu: %s", name, *count + 1, err.text);
            return say_error(CLI_USAGE, "%s: %s", name, err.text);
        }
        if (*count == 0)
            *first = value;
        (*count)++;
    } while (text.len > 0);
    return 0;
}

int documents_each(const char *name, struct slice text, bool *many,
                   int (*visit)(void *ctx, struct json document), void *ctx)
{
    struct json_iter iter;
    struct json value = {0};
    size_t count;
    int code = check(name, text, &count, &value);

    if (code != 0)
        return code;
    *many = count > 1 || value.type == JSON_ARRAY;
    if (count == 1 && value.type == JSON_ARRAY) {
        json_iter_init(&iter, value);
        while (code == 0 && json_next(&iter, NULL, &value))
            code = visit(ctx, value);
        return code;
    }
    while (code == 0 && text.len > 0) {
        if (json_parse_prefix(text, &value, &text, NULL) != STATUS_OK)
            BUG("a document that was read cannot be read again");
        code = visit(ctx, value);
    }
    return code;
}

void batch_init(struct batch *batch, int (*send)(void *ctx, struct slice array), void *ctx)
{
    *batch = (struct batch){.send = send, .ctx = ctx};
    buf_init(&batch->body, BATCH_BYTES_MAX);
}

int batch_add(struct batch *batch, struct slice document)
{
    int code = 0;

    if (batch->body.len + document.len + 2 > REQUEST_BODY_MAX)
        code = batch_flush(batch);
    if (code != 0)
        return code;
    buf_add_char(&batch->body, batch->count == 0 ? '[' : ',');
    buf_add_slice(&batch->body, document);
    batch->count++;
    if (batch->count >= BATCH_DOCUMENTS || batch->body.len >= BATCH_BYTES)
        return batch_flush(batch);
    return 0;
}

int batch_flush(struct batch *batch)
{
    int code;

    if (batch->count == 0)
        return 0;
    buf_add_char(&batch->body, ']');
    code = buf_status(&batch->body, NULL) == STATUS_OK
               ? batch->send(batch->ctx, buf_slice(&batch->body))
               : say_no_memory();
    buf_clear(&batch->body);
    batch->count = 0;
    return code;
}

void batch_release(struct batch *batch)
{
    buf_release(&batch->body);
}
