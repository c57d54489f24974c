/* receiptfile: receipts.json, the dead receipts as a file that people and programs read:
 *
 *     [{"receipt":{...},"failed_at":"2024-01-15T10:30:45Z","attempts":5}]
 *
 * It mirrors the open letters of receipts, oldest first.  It is replaced whole (a temporary file,
 * synced, renamed, the directory synced), under a lock (FILE.lock), and never by less than it held:
 * an entry that no letter is known for was put there by hand, and becomes a letter first.  An entry
 * leaves when its letter is recovered, discarded or rolled back.  A file that cannot be read as
 * such an array is left as it is, and said so.
 *
 * An entry that is no receipt holds nothing up: it stays byte for byte, behind the entry that it
 * stood behind, and is said.  Members that somebody added to an entry are kept, behind its own
 * three, for as long as its letter is open.
 *
 * An entry and a letter are the same when the receipt is, as JSON, and failed_at is the second in
 * which it died, lately or before a replay; an entry that was put there without a failed_at is the
 * letter that it became.  An entry that stands twice is one.
 *
 * The link must have a `page`, and see letters as they are: as a reviewer at least. */
#ifndef LAZARET_BRIDGE_RECEIPTFILE_H
#define LAZARET_BRIDGE_RECEIPTFILE_H

#include <sys/stat.h>

#include "base/arena.h"
#include "crew/link.h"

/* receiptfile_print appends an entry as it stands in such a file, indented and without a comma, for
 * a letter as GET /api/v1/dlq has it.  False, and nothing is appended: the letter holds no receipt.
 */
bool receiptfile_print(struct json letter, struct buf *out);

/* struct receiptfile_counts: what a sync, or a look, found and did. */
struct receiptfile_counts {
    size_t entries;     /* in the file afterwards, with the bad ones */
    size_t taken;       /* entries that somebody put there, and that are letters now */
    size_t left;        /* entries that left */
    size_t bad;         /* entries that are no receipts, and stay as they are */
    struct err bad_err; /* of the first: which of the file it is (afterwards, from 1), what is wrong
                         * and what to do; empty: all are receipts */
    bool written;       /* the file was replaced */
    bool there;         /* there is a file */
    struct stat seen;   /* which one: to see whether it is another now */
};

/* receiptfile_sync brings the file and the letters together.  A file that is not there is empty; it
 * is made, with its directory, when there is something to write.  STATUS_INVALID: the file is no
 * such array; it is not changed, and the sentence says what to do.  STATUS_BUSY: somebody keeps it
 * locked.  `counts` may be NULL; after an error only `there` and `seen` count.  Without a path (a
 * server keeps its own file) the letters are only counted.
 *
 * `memory` (may be NULL; 0 to begin with) is how a process that syncs again knows its own file: in
 * one that nobody has touched since, an entry without a letter is that of a letter that was purged,
 * and leaves. */
enum status receiptfile_sync(const struct link *link, const char *path, uint64_t *memory,
                             struct receiptfile_counts *counts, struct err *err);

/* struct receiptfile_keeper: a thread that syncs when letters or the file changed.  What goes wrong
 * is logged, once. */
struct receiptfile_keeper;

/* receiptfile_keep syncs for the first time, and starts the thread: also when that sync failed. */
enum status receiptfile_keep(const struct link *link, const char *path,
                             struct receiptfile_keeper **out, struct err *err);
void receiptfile_release(struct receiptfile_keeper *keeper); /* a last sync; NULL is fine */

/* ---- a file of its own ----------------------------------------------------------------------- */

/* struct receipt_entry: one entry of a file, and its letter. */
struct receipt_entry {
    struct slice dlq_id;
    struct slice job_id;
    struct slice label; /* "abc-123:complete" */
    bool recovering;    /* a replay of it is on its way */
    bool again;         /* for whoever sends it: it was put off once */
};

/* receiptfile_open lists the open letters of the entries of a file, in their order, after a sync of
 * it: of all open receipts when it is the mirror, else of its own entries alone, which are imported
 * when they are not known.  A letter is listed once.  STATUS_NOT_FOUND: there is no such file, and
 * it is no mirror.  `counts` is as receiptfile_sync has it, and may be NULL. */
enum status receiptfile_open(const struct link *link, const char *path, bool mirror,
                             struct arena *arena, struct receipt_entry **out, size_t *count,
                             struct receiptfile_counts *counts, struct err *err);

/* receiptfile_peek counts what there would be to do, and changes nothing: no letter is made, and no
 * file, directory or lock.  `*count` is how many letters receiptfile_open would list, and of a file
 * that is no mirror also the entries that would only leave it.  It may be too many, never too few:
 * entries that say no time are known by their import alone, so they count, each.  Entries that are
 * no receipts do not count.  Of `counts`, which may be NULL, `entries`, `bad` and `bad_err` tell of
 * the file as it is.  Without a path the letters are counted.  STATUS_NOT_FOUND: there is no such
 * file, and it is no mirror.  STATUS_INVALID: the file is no such array. */
enum status receiptfile_peek(const struct link *link, const char *path, bool mirror, size_t *count,
                             struct receiptfile_counts *counts, struct err *err);

/* receiptfile_settle takes those entries out of a file that is no mirror whose letters are not open
 * any more; the others stay as they are, and so do those that are no receipts.  `*left` is how many
 * stay. */
enum status receiptfile_settle(const struct link *link, const char *path, size_t *left,
                               struct err *err);

#endif
