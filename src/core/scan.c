/* scan: see scan.h. */
#include "core/scan.h"

#include <stdio.h>

#include "core/field.h"

#define FOUND_MAX 20 /* bytes of the text that an error repeats */

/* column counts characters from 1, as a person does. */
static size_t column(const struct scan *scan, size_t at)
{
    size_t count = 1;

    for (size_t i = 0; i < at; i++)
        count += ((unsigned char)scan->text.ptr[i] & 0xC0) != 0x80;
    return count;
}

/* found writes what stands at `at`, for an error. */
static const char *found(const struct scan *scan, size_t at, char out[FOUND_MAX + 8])
{
    struct slice rest = {scan->text.ptr + at, scan->text.len - at};
    size_t len = 1;

    if (rest.len == 0) {
        snprintf(out, FOUND_MAX + 8, "end of %s", scan->whole);
        return out;
    }
    if (scan->is_name(rest.ptr[0]))
        while (len < rest.len && scan->is_name(rest.ptr[len]))
            len++;
    rest = field_head(rest, len < FOUND_MAX ? len : FOUND_MAX);
    snprintf(out, FOUND_MAX + 8, "'%.*s'", SLICE_ARG(rest));
    return out;
}

void *scan_expected(struct scan *scan, const char *what)
{
    char text[FOUND_MAX + 8];

    if (scan->status == STATUS_OK)
        scan->status = err_set(scan->err, STATUS_INVALID, "column %zu: expected %s, found %s",
                               column(scan, scan->at), what, found(scan, scan->at, text));
    return NULL;
}

void *scan_wrong(struct scan *scan, size_t at, const char *what)
{
    if (scan->status == STATUS_OK)
        scan->status = err_set(scan->err, STATUS_INVALID, "column %zu: %s", column(scan, at), what);
    return NULL;
}

void *scan_alloc(struct scan *scan, size_t size)
{
    void *memory = arena_alloc(scan->arena, size);

    if (!memory && scan->status == STATUS_OK)
        scan->status = err_no_memory(scan->err);
    return memory;
}

char scan_peek(const struct scan *scan)
{
    return scan->at < scan->text.len ? scan->text.ptr[scan->at] : '\0';
}

void scan_space(struct scan *scan)
{
    while (scan_peek(scan) == ' ' || scan_peek(scan) == '\t' || scan_peek(scan) == '\n' ||
           scan_peek(scan) == '\r')
        scan->at++;
}
