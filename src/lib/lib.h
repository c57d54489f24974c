/* lib: what the files behind lazaret.h share. */
#ifndef LAZARET_LIB_LIB_H
#define LAZARET_LIB_LIB_H

#include "api/owner.h"
#include "lazaret.h"

struct lz {
    struct owner *owner; /* of the data directory */
    struct engine *engine;
    struct buf actor;
};

/* lib_fail turns an inner status into the public one and fills `error` (may be NULL). */
enum lz_status lib_fail(struct lz_error *error, enum status status, const struct err *err);

/* lib_ok clears `error`. */
enum lz_status lib_ok(struct lz_error *error);

/* lib_push enqueues one envelope, whose text outlives the call. */
enum lz_status lib_push(struct lz *lz, struct slice envelope, struct lz_pushed *out,
                        struct lz_error *error);

/* lib_resolve reports one outcome: success with `result`, or the failure. */
struct result_item;
enum lz_status lib_resolve(struct lz *lz, struct slice actor, struct result_item *item,
                           struct arena *arena, struct lz_error *error);

#endif
