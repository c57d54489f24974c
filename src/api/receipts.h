/* receipts: how many receipts were sent, for /metrics.
 *
 * Whoever sends one says with the result which status it reports ("receipt": "complete"); it is
 * counted when the result is on disk.  Any thread counts, without a lock. */
#ifndef LAZARET_API_RECEIPTS_H
#define LAZARET_API_RECEIPTS_H

#include "api/expose.h"
#include "engine/engine.h"

struct receipts;

struct receipts *receipts_new(void); /* NULL when memory is exhausted */
void receipts_free(struct receipts *receipts);

/* receipts_count counts an attempt to send a receipt of that status, and the retry that follows. */
void receipts_count(struct receipts *receipts, struct slice status, const struct result_item *item);

/* receipts_expose prints the two counters; all of them are 0 when `receipts` is NULL. */
void receipts_expose(const struct receipts *receipts, struct expose *expose);

#endif
