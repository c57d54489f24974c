/* receiptlist: the entries of a file of dead receipts, and the letters that they are.
 *
 * An entry comes to have a letter or, when it is no receipt, a reason why it has none: so nothing
 * is left out of the file that no letter is known of. */
#ifndef LAZARET_BRIDGE_RECEIPTLIST_H
#define LAZARET_BRIDGE_RECEIPTLIST_H

#include "bridge/lockedfile.h"
#include "bridge/receiptbook.h"

#define RECEIPTLIST_TEXT_MAX ((size_t)256 << 20) /* bytes of a file */

/* struct receiptlist_entry: one of the file.  It borrows from the list's text. */
struct receiptlist_entry {
    struct json json; /* the whole of it */
    struct json receipt;
    struct instant failed_at; /* not set: it does not say */
    struct receipt_letter *letter;
    const char *bad;                /* why it is no receipt, and has no letter; NULL: it is one */
    bool gone;                      /* its letter was purged */
    struct receiptlist_entry *twin; /* for whoever uses the list: the next of the same letter */
};

struct receiptlist {
    const char *path; /* for sentences; NULL: there is no file */
    struct receiptbook book;
    struct buf text; /* of the file */
    struct receiptlist_entry *entries;
    size_t count;
    bool ours; /* nobody put anything there: an entry without a letter is that of a purged one */
};

void receiptlist_init(struct receiptlist *list, const struct link *link, const char *path);
void receiptlist_release(struct receiptlist *list);

/* receiptlist_read reads the entries.  A file that is not there, or is empty, has none.
 * STATUS_INVALID: it is no array. */
enum status receiptlist_read(struct receiptlist *list, struct lockedfile *file, struct err *err);

/* receiptlist_know gives an entry the letter that is known of it; the book must be loaded.  One
 * that has none must be a receipt, else it is bad.  An entry that says no time is known by its
 * import alone. */
enum status receiptlist_know(struct receiptlist *list, struct receiptlist_entry *entry,
                             struct err *err);

/* receiptlist_resolve gives each entry its letter, a new one when none is known, or a reason; the
 * new ones are added to `*taken`. */
enum status receiptlist_resolve(struct receiptlist *list, size_t *taken, struct err *err);

#endif
