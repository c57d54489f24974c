/* distance: how far one word is from another, for finding what somebody probably meant. */
#ifndef LAZARET_BASE_DISTANCE_H
#define LAZARET_BASE_DISTANCE_H

#include <stddef.h>

#include "base/slice.h"

#define DISTANCE_TEXT_MAX 64

/* distance is how many letters must be put in, taken out, changed or swapped with their
 * neighbour to make `b` of `a`; texts over 64 bytes are as far apart as can be. */
size_t distance(struct slice a, struct slice b);

#endif
