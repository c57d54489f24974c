/* slice: a borrowed run of bytes.  Not terminated, never owned. `{0}` is the empty slice. */
#ifndef LAZARET_BASE_SLICE_H
#define LAZARET_BASE_SLICE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *ptr;
    size_t len;
};

/* SLICE is a string literal as a slice. */
#define SLICE(literal) ((struct slice){"" literal, sizeof(literal) - 1})

/* SLICE_ARG spreads a slice over a "%.*s". */
#define SLICE_ARG(s) (int)((s).len < INT_MAX ? (s).len : INT_MAX), (s).len ? (s).ptr : ""

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, text ? strlen(text) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_eq(a, slice_of(text));
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

#endif
