/* evidence: whether what an event says is still what the store holds.
 *
 * The chain of hashes shows that no event was changed.  Events also hold digests of what lies
 * beside them: the envelope of a push, the record of a failed attempt.  This compares them, and
 * misses what is gone without a tombstone. */
#ifndef LAZARET_API_EVIDENCE_H
#define LAZARET_API_EVIDENCE_H

#include "engine/engine.h"

/* evidence_check sets *wrong to what does not fit, or to NULL.  For the engine's thread. */
enum status evidence_check(struct store *store, const struct event *event, struct arena *arena,
                           const char **wrong, struct err *err);

#endif
