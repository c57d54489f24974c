/* source_detect: what an input is, by the first line that is not blank.
 *
 *     it begins with   and its first line                       it is
 *     ---------------  ---------------------------------------  --------------------------
 *     {                is broken off: the value goes on below   a JSON document
 *                      is anything else                         NDJSON
 *     [                is broken off                            a JSON document
 *                      is one value, and nothing follows        a JSON document
 *                      is anything else                         lines
 *     anything else                                             lines
 *
 * So a document with a flaw in line 900 is refused as JSON, and not taken for 900 lines. */
#include "run/source.h"

/* first_char reads on until there is something that is no white space; NULL when there is not. */
static enum status first_char(struct source *source, size_t from, const char **out, struct err *err)
{
    enum status status = STATUS_OK;

    *out = NULL;
    for (;;) {
        struct slice ahead = lines_ahead(&source->lines);
        for (; from < ahead.len && !*out; from++)
            if (!strchr(" \t\r\n", ahead.ptr[from]) || ahead.ptr[from] == '\0')
                *out = ahead.ptr + from;
        if (*out || source->lines.ended || status != STATUS_OK)
            return status;
        status = lines_more(&source->lines, SOURCE_DOCUMENT_MAX, err);
    }
}

/* line_from reads on until the line at `from` is whole, and gives it with its newline. */
static enum status line_from(struct source *source, size_t from, struct slice *out, struct err *err)
{
    enum status status = STATUS_OK;
    size_t clean = from;

    for (;;) {
        struct slice ahead = lines_ahead(&source->lines);
        const char *newline = memchr(ahead.ptr + clean, '\n', ahead.len - clean);
        size_t end = newline ? (size_t)(newline - ahead.ptr) + 1 : ahead.len;
        *out = (struct slice){ahead.ptr + from, end - from};
        if (newline || source->lines.ended || status != STATUS_OK)
            return status;
        clean = ahead.len;
        status = lines_more(&source->lines, SOURCE_DOCUMENT_MAX, err);
    }
}

/* decide looks at the first line, which begins at `from` with a bracket. */
static enum status decide(struct source *source, size_t from, struct err *err)
{
    struct slice line, rest;
    struct json value;
    struct err found = {0};
    const char *what, *next;
    enum status status = line_from(source, from, &line, err);

    if (status != STATUS_OK)
        return status;
    bool object = line.ptr[0] == '{';
    size_t end = from + line.len;
    source->format = object ? ITEMS_NDJSON : ITEMS_LINES;
    if (json_parse_prefix(line, &value, &rest, &found) != STATUS_OK) {
        if (source_flaw(&found, &what) > line.len)
            source->format = ITEMS_JSON;
    } else if (!object && rest.len == 0) {
        status = first_char(source, end, &next, err);
        if (status == STATUS_OK && !next)
            source->format = ITEMS_JSON;
    }
    return status;
}

enum status source_detect(struct source *source, struct err *err)
{
    const char *first;
    enum status status = first_char(source, 0, &first, err);

    if (status != STATUS_OK)
        return status;
    source->format = ITEMS_LINES;
    if (first && (*first == '{' || *first == '['))
        return decide(source, (size_t)(first - lines_ahead(&source->lines).ptr), err);
    return STATUS_OK;
}
