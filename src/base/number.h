/* number: decimal text, as JSON writes numbers, to and from the machine's own, exactly and whatever
 * the program's locale.  The text that is read must be a JSON number, of any length. */
#ifndef LAZARET_BASE_NUMBER_H
#define LAZARET_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define NUMBER_TEXT_SIZE 32 /* room for a double's text and its NUL */

/* number_int is true when the number is an integer that fits, written in any way (5, 5.0, 5e0). */
bool number_int(struct slice text, int64_t *out);

/* number_double is true when the nearest double is finite. */
bool number_double(struct slice text, double *out);

/* number_format writes the shortest text that reads back as the same finite double, and returns its
 * length.  `out` has NUMBER_TEXT_SIZE bytes. */
size_t number_format(double number, char *out);

#endif
