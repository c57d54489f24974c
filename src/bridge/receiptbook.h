/* receiptbook: the dead receipts as the engine has them, while a file of them is looked at.
 *
 * An entry of a file and a letter are the same when the receipt is, as JSON, and the letter died at
 * the entry's failed_at: lately, or before a replay that failed as well.  So an entry that was
 * written before a replay is not taken for somebody's own. */
#ifndef LAZARET_BRIDGE_RECEIPTBOOK_H
#define LAZARET_BRIDGE_RECEIPTBOOK_H

#include "base/arena.h"
#include "base/time.h"
#include "crew/link.h"

/* receiptbook_second is the whole second that a time is in: entries tell no more than that. */
struct instant receiptbook_second(struct instant t);

/* struct receipt_letter: a letter, as far as files are concerned.  All in the book's arena. */
struct receipt_letter {
    struct slice dlq_id, job_id;
    struct slice state;  /* "dead" */
    struct instant died; /* lately */
    int64_t attempts;
    struct json receipt;   /* as it is now */
    struct json original;  /* as it was before a person edited it; a null without bytes: the same */
    struct instant *times; /* when it died, this time and before */
    size_t time_count;
    bool open;     /* dead or recovering */
    bool complete; /* it is a receipt that can be imported again (receipt_check) */
    bool listed;   /* for whoever uses the book */
    size_t place;  /* likewise: among those of one moment */
};

struct receiptbook {
    const struct link *link;
    struct arena arena;
    struct receipt_letter **letters; /* the open ones, oldest first, then what was found */
    size_t count, cap;
    struct receiptbook_key *keys; /* of the letters that were loaded, sorted */
    size_t key_count, key_cap;
    struct buf answer; /* to the last request */
};

void receiptbook_init(struct receiptbook *book, const struct link *link);
void receiptbook_release(struct receiptbook *book);

/* receiptbook_load lists the open letters. */
enum status receiptbook_load(struct receiptbook *book, struct err *err);

/* receiptbook_find is the letter of an entry among those that were loaded; NULL: none. */
struct receipt_letter *receiptbook_find(struct receiptbook *book, struct json receipt,
                                        struct instant failed_at);

/* receiptbook_seek asks for a letter of any state.  `*out` is NULL when there is none. */
enum status receiptbook_seek(struct receiptbook *book, struct json receipt,
                             struct instant failed_at, struct receipt_letter **out,
                             struct err *err);

/* receiptbook_import makes entries, as JSON, letters; `out[i]` is that of entry i and `created[i]`
 * says that it is a new one.  `refused[i]` says why the engine refuses an entry, which has no
 * letter then; empty: it does not. */
enum status receiptbook_import(struct receiptbook *book, const struct slice *entries, size_t count,
                               struct receipt_letter **out, bool *created, struct slice *refused,
                               struct err *err);

/* receipt_of finds the receipt in a letter, as GET /api/v1/dlq has it.  False: there is none. */
bool receipt_of(struct json letter, struct json *out);

#endif
