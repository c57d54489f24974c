/* time: instants and spans as types of their own, so that they cannot be mixed up.
 * Both count microseconds; an instant counts them from 1970-01-01T00:00:00Z. */
#ifndef LAZARET_BASE_TIME_H
#define LAZARET_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

struct instant {
    int64_t us;
};

struct span {
    int64_t us;
};

#define INSTANT_NONE ((struct instant){0})          /* "no such time": the epoch itself */
#define INSTANT_NEVER ((struct instant){INT64_MAX}) /* later than any other */
#define INSTANT_TEXT_SIZE 32                        /* room for an RFC 3339 text and its NUL */

/* span_ms, span_seconds and instant_add saturate instead of overflowing, as all arithmetic here
 * does. */
static inline struct span span_of(int64_t count, int64_t unit_us)
{
    int64_t us;
    if (__builtin_mul_overflow(count, unit_us, &us))
        us = count < 0 ? INT64_MIN : INT64_MAX;
    return (struct span){us};
}

static inline struct span span_ms(int64_t ms)
{
    return span_of(ms, 1000);
}

static inline struct span span_seconds(int64_t seconds)
{
    return span_of(seconds, 1000000);
}

struct instant instant_add(struct instant t, struct span span);
struct span instant_since(struct instant later, struct instant earlier);

static inline bool instant_before(struct instant a, struct instant b)
{
    return a.us < b.us;
}

static inline bool instant_is_set(struct instant t)
{
    return t.us != 0;
}

/* span_from_seconds converts a finite, non-negative number of seconds, rounded to a microsecond and
 * saturated at a hundred years. */
struct span span_from_seconds(double seconds);
double span_to_seconds(struct span span);

/* instant_format writes RFC 3339 in UTC: "2026-02-13T06:22:00Z", with a fraction of three or six
 * digits only where there is one.  A time outside the years 0001 to 9999 is written as the first or
 * the last of them.  `out` has INSTANT_TEXT_SIZE bytes. */
void instant_format(struct instant t, char *out);
void instant_print(struct instant t, struct buf *out);

/* instant_parse reads RFC 3339 with any offset and fraction (digits past the sixth are dropped).  A
 * leap second counts as the second after it. */
enum status instant_parse(struct slice text, struct instant *out, struct err *err);

#endif
