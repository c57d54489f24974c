/* scan: what readers of small languages (filters, paths into JSON) have in common: where they are
 * in the text, and errors that say the column, what was expected there and what was found. */
#ifndef LAZARET_CORE_SCAN_H
#define LAZARET_CORE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/slice.h"
#include "base/status.h"

/* struct scan: a text that is being read. */
struct scan {
    struct slice text;
    size_t at;
    unsigned depth;      /* levels that the reader is in */
    struct arena *arena; /* of what is made */
    struct err *err;
    enum status status;      /* of the first error */
    const char *whole;       /* what the text is called in an error: "filter" */
    bool (*is_name)(char c); /* what belongs together when an error shows it */
};

/* scan_expected and scan_wrong keep the first error.  They are NULL, which is also false, so that
 * `return scan_expected(...)` ends a reader of either kind. */
void *scan_expected(struct scan *scan, const char *what);
void *scan_wrong(struct scan *scan, size_t at, const char *what);

/* scan_alloc is zeroed memory of the arena; NULL, with the status set, when it is exhausted. */
void *scan_alloc(struct scan *scan, size_t size);

char scan_peek(const struct scan *scan); /* the next character; NUL at the end */
void scan_space(struct scan *scan);      /* steps over white space */

#endif
