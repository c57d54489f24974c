/* phrase: how the words that a person searches for are cut, the same for every store. */
#ifndef LAZARET_STORE_PHRASE_H
#define LAZARET_STORE_PHRASE_H

#include <stdbool.h>

#include "base/slice.h"

/* phrase_next takes a word, or a phrase in quotes, off the front; false at the end.  *prefix: a
 * star follows, so that it may go on. */
bool phrase_next(struct slice *rest, struct slice *word, bool *prefix);

#endif
