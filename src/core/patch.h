/* patch: edits of an envelope: JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396). */
#ifndef LAZARET_CORE_PATCH_H
#define LAZARET_CORE_PATCH_H

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

/* patch_apply appends to `out` the document `body` after `patch`, an array of operations.  All of
 * them apply or none: the error says which operation (from 0) and why. */
enum status patch_apply(struct slice body, struct slice patch, struct buf *out, struct err *err);

/* patch_merge appends to `out` the document `body` after the merge patch `merge`. */
enum status patch_merge(struct slice body, struct slice merge, struct buf *out, struct err *err);

#endif
