/* blind: a failure without the names of the item that it happened to.
 *
 * "foo.c: no such header" and "bar.c: no such header" are one failure that happened to two items.
 * Where the item is known, its own words (a line, its last part as a path, the plain values of an
 * object) are taken out of the texts before a signature or a fingerprint is made of them.  The
 * evidence keeps them. */
#ifndef LAZARET_CORE_BLIND_H
#define LAZARET_CORE_BLIND_H

#include "base/arena.h"
#include "base/json.h"
#include "core/failure.h"

#define BLIND_WORDS_MAX 32   /* words of an item that are looked for */
#define BLIND_TEXT_MAX 16384 /* bytes of a text that are looked at: as many as a signature does */

/* blind_failure copies a failure with message and stack trace blinded for `item`.  The step is the
 * command as it is for every item, and stays, also where the message begins with it.  An item
 * that is a number, or has no words, leaves them as they are.  STATUS_NO_MEMORY is all that can go
 * wrong. */
enum status blind_failure(const struct failure *failure, struct json item, struct arena *arena,
                          struct failure *out, struct err *err);

#endif
