/* alertbook: which dead letters are said at once, and which are counted.  Pure: time comes in.
 *
 * The first letter of a group is said at once; those that follow are counted, and a digest says how
 * many, ALERTBOOK_WINDOW_SECONDS after the first that was counted: so digests are at least that far
 * apart, and nothing waits longer.  A group begins anew when it has been quiet for
 * ALERTBOOK_QUIET_SECONDS, or when somebody resolved it.
 *
 * It is bounded.  More than ALERTBOOK_FIRSTS_MAX beginnings in one window are counted like the
 * others; so are, without a name, letters of more than ALERTBOOK_GROUPS_MAX groups that have
 * something to be said of.
 *
 *     note --> first ----> firsts_said
 *        `---> counted --> digest --> digest_said */
#ifndef LAZARET_BRIDGE_ALERTBOOK_H
#define LAZARET_BRIDGE_ALERTBOOK_H

#include "base/arena.h"
#include "bridge/alert.h"

#define ALERTBOOK_WINDOW_SECONDS 30
#define ALERTBOOK_QUIET_SECONDS 600
#define ALERTBOOK_FIRSTS_MAX 10
#define ALERTBOOK_GROUPS_MAX 1000

/* struct alertbook_death: a letter that died, or came in. */
struct alertbook_death {
    struct slice fingerprint, signature, reason, source, queue, dlq_id;
    struct instant at;
    int64_t seq; /* of its event */
};

/* struct alertbook_first: what is to be said at once. */
struct alertbook_first {
    struct alert_group group;
    int64_t seq;
};

struct alertbook;

struct alertbook *alertbook_new(void);        /* NULL: memory is exhausted */
void alertbook_free(struct alertbook *book);  /* NULL is fine */
void alertbook_clear(struct alertbook *book); /* as after alertbook_new */

/* What a group is to the book, when a letter of it dies at a time. */
enum alertbook_standing {
    ALERTBOOK_NEW,     /* it is not known */
    ALERTBOOK_BEGINS,  /* it was quiet, or resolved */
    ALERTBOOK_GOES_ON, /* the letter is one more */
    ALERTBOOK_IGNORED, /* it is not to be said */
};

enum alertbook_standing alertbook_standing(const struct alertbook *book, struct slice fingerprint,
                                           struct instant at);

/* alertbook_note takes a letter.  `now` is on the steady clock.  `going_on` says of a new group
 * that it was said before: another server, or this one before it ended, did.  The texts of the
 * letter are read only when its group is new, or begins. */
void alertbook_note(struct alertbook *book, const struct alertbook_death *death, struct span now,
                    bool going_on);

/* alertbook_ignore says whether letters of a group are not to be said.  The first that is said
 * again is a first one. */
void alertbook_ignore(struct alertbook *book, struct slice fingerprint, bool ignored);

/* alertbook_resolved has the next letter of a group be a first one. */
void alertbook_resolved(struct alertbook *book, struct slice fingerprint);

/* alertbook_firsts fills `out`, with room for ALERTBOOK_FIRSTS_MAX, with what is to be said at
 * once, in order, borrowing from the book; alertbook_firsts_said says that it was. */
size_t alertbook_firsts(const struct alertbook *book, struct alertbook_first *out);
void alertbook_firsts_said(struct alertbook *book);

/* alertbook_due is when a digest is to be said, on the steady clock; INT64_MAX: nothing is counted.
 */
struct span alertbook_due(const struct alertbook *book);

/* alertbook_digest makes the digest of what is counted, in `arena`, borrowing from the book.  False
 * when memory is exhausted. */
bool alertbook_digest(const struct alertbook *book, struct arena *arena, struct alert *out);
void alertbook_digest_said(struct alertbook *book);

/* alertbook_unsaid is the seq of the first event that was not said yet; 0: all were. */
int64_t alertbook_unsaid(const struct alertbook *book);

#endif
