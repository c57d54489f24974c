/* decimal: exact comparison of JSON numbers.
 *
 * A number is taken apart into its sign, its significant digits (from the first to the last that is
 * not 0; a point may stand among them) and its scale, so that its value is 0.DIGITS * 10^scale.
 * Two numbers of one sign then compare by scale first and digit by digit after that. */
#include "core/decimal.h"

#include <stdint.h>

#define EXPONENT_MAX INT64_C(100000000000000000) /* so that a scale cannot overflow */

struct decimal {
    int sign;          /* -1, 0 or 1 */
    const char *first; /* the first significant digit */
    const char *last;  /* behind the last one */
    int64_t scale;
};

static int64_t exponent_of(const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int64_t exponent = 0;

    if (at < end && (*at == '-' || *at == '+'))
        at++;
    for (; at < end && exponent < EXPONENT_MAX; at++)
        exponent = exponent * 10 + (*at - '0');
    if (exponent > EXPONENT_MAX)
        exponent = EXPONENT_MAX;
    return negative ? -exponent : exponent;
}

static struct decimal decimal_of(struct slice text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool negative = at < end && *at == '-';
    const char *point = NULL, *mantissa_end;
    struct decimal d = {0};

    for (at += negative; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            point = at;
        } else if (*at != '0') {
            if (!d.first)
                d.first = at;
            d.last = at + 1;
        }
    }
    mantissa_end = at;
    if (!d.first)
        return d;

    d.sign = negative ? -1 : 1;
    if (!point)
        point = mantissa_end;
    /* Digits before the point count up; zeros between the point and the first digit count down. */
    d.scale = d.first < point ? point - d.first : point + 1 - d.first;
    if (at < end)
        d.scale += exponent_of(at + 1, end);
    return d;
}

static int compare_digits(const struct decimal *a, const struct decimal *b)
{
    const char *x = a->first, *y = b->first;

    for (;;) {
        x += x < a->last && *x == '.';
        y += y < b->last && *y == '.';
        if (x == a->last || y == b->last)
            return (x < a->last) - (y < b->last);
        if (*x != *y)
            return *x < *y ? -1 : 1;
        x++;
        y++;
    }
}

int decimal_compare(struct slice a, struct slice b)
{
    struct decimal x = decimal_of(a), y = decimal_of(b);

    if (x.sign != y.sign)
        return x.sign < y.sign ? -1 : 1;
    if (x.sign == 0)
        return 0;
    if (x.scale != y.scale)
        return x.scale < y.scale ? -x.sign : x.sign;
    return x.sign * compare_digits(&x, &y);
}
