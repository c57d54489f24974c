/* letterform: letters as other systems write them down.
 *
 *     swarm      the fourteen fields: it has `original_subject` or `original_payload`
 *     own        a letter as GET /api/v1/dlq/{id} prints it: the swarm's fields and more
 *     map        a DeadLetteredItem: it has `item_id` or `item_data`
 *     receipts   an entry of receipts.json: it has `receipt`
 *
 * What a form says itself is kept.  What it does not say is derived: the reason and the source from
 * the subject it came under, the judgement (may a machine replay it?) from the last failure and the
 * reason, the time from when it came, the dlq_id (so that the same letter is not taken twice) from
 * where it stood or from the content.  Go's zero values, the year 1 and the UUID of zeros, say
 * nothing. */
#ifndef LAZARET_ENGINE_LETTERFORM_H
#define LAZARET_ENGINE_LETTERFORM_H

#include "engine/engine.h"

/* struct letterform_origin: how a letter came.  `{0}` but for `at` is a letter in a file. */
struct letterform_origin {
    struct slice run_id;  /* of items that do not name a run */
    struct slice subject; /* that it was published under */
    struct slice seed;    /* what names its place, such as a stream and a sequence: an id that is
                             not given is made of it; empty: of the content */
    struct instant at;    /* when it came */
};

/* letterform_read reads one letter, in whichever form it is.  STATUS_INVALID or STATUS_TOO_LARGE,
 * with a sentence that names the member: it is no letter.  What the item says borrows from `text`,
 * `origin` and `arena`; original_payload is the bytes of `text` as they are. */
enum status letterform_read(struct slice text, const struct letterform_origin *origin,
                            struct arena *arena, struct import_item *item, struct err *err);

/* letterform_malformed makes the letter of what is none: reason `malformed`, with `why` as the
 * detail, for a person to look at.  The bytes are its payload, as they are; of more than a letter
 * may have, head and tail are kept, and the detail says how many were left out. */
enum status letterform_malformed(struct slice bytes, const struct letterform_origin *origin,
                                 const char *why, struct arena *arena, struct import_item *item,
                                 struct err *err);

#endif
