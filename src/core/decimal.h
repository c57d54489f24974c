/* decimal: JSON numbers compared by their exact values, as they are written: no digit is lost to a
 * binary fraction and no integer is too long. */
#ifndef LAZARET_CORE_DECIMAL_H
#define LAZARET_CORE_DECIMAL_H

#include "base/slice.h"

/* decimal_compare orders two texts that json_parse accepts as numbers: less than 0, 0 or more than
 * 0, as `a` is less than, equal to or more than `b`.  1, 1.0 and 10e-1 are equal, and so are 0 and
 * -0.  An exponent past 10^17 counts as 10^17. */
int decimal_compare(struct slice a, struct slice b);

#endif
