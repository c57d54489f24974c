/* signature: which failures are the same failure.
 *
 * `error_signature` is for people: the type, "::", and the first five words of the message that do
 * not vary.  `fingerprint` is for grouping: a hash over type, step, the whole normalized message
 * and the top stack frames.  Volatile words (numbers, paths, hex, UUIDs, times, quoted values)
 * never count. */
#ifndef LAZARET_CORE_SIGNATURE_H
#define LAZARET_CORE_SIGNATURE_H

#include "base/buf.h"
#include "core/failure.h"

#define SIGNATURE_MAX 240  /* bytes of an error_signature */
#define FINGERPRINT_LEN 16 /* characters of a fingerprint: lower-case hex */

/* signature_print appends the error_signature: "CommandFailed::cargo test failed with exit". */
void signature_print(const struct failure *failure, struct buf *out);

/* signature_fingerprint fills `out` with FINGERPRINT_LEN hex characters and a NUL. */
void signature_fingerprint(const struct failure *failure, char out[FINGERPRINT_LEN + 1]);

/* signature_normalize appends `text` with volatile words dropped and white space folded. */
void signature_normalize(struct slice text, struct buf *out);

#endif
