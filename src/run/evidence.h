/* evidence: texts that are kept with a failure, no larger than they may be.
 *
 * A failure's structures are bounded as JSON (FAILURE_STRUCTURE_MAX), and a byte of output may need
 * six bytes there.  So a limit here counts what is written, not what came. */
#ifndef LAZARET_RUN_EVIDENCE_H
#define LAZARET_RUN_EVIDENCE_H

#include "base/jsonw.h"
#include "base/slice.h"

/* evidence_put writes a member: the text, or its head and tail around a mark when it has more than
 * `max` bytes or needs more than `max` and a quarter as JSON.  It returns how many bytes of it were
 * left out. */
size_t evidence_put(struct jsonw *out, const char *key, struct slice text, size_t max);

#endif
