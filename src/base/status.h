/* status: how work that can fail in the world says so.
 *
 * A function that can fail returns an `enum status` and, when it is not STATUS_OK, has filled a
 * `struct err` with one sentence that a person can act on.  An outcome of the domain (a job is
 * quarantined) is never a status; a bug is BUG(). */
#ifndef LAZARET_BASE_STATUS_H
#define LAZARET_BASE_STATUS_H

#include <stddef.h>

enum status {
    STATUS_OK = 0,
    STATUS_INVALID,     /* bad input: the message names the field and what is wrong with it */
    STATUS_NOT_FOUND,   /* what was named does not exist */
    STATUS_CONFLICT,    /* it exists, but is not in a state that allows this */
    STATUS_REFUSED,     /* a policy or an authorization says no */
    STATUS_LIMIT,       /* a limit is reached: try again later */
    STATUS_TOO_LARGE,   /* the input is over its size limit */
    STATUS_LEASE_LOST,  /* the lease is unknown or has ended */
    STATUS_NO_MEMORY,   /* an allocation failed */
    STATUS_IO,          /* the disk or the file system failed */
    STATUS_FULL,        /* the disk is full */
    STATUS_READ_ONLY,   /* the store cannot be written */
    STATUS_CORRUPT,     /* the store is damaged */
    STATUS_FOREIGN,     /* not a Lazaret store, or one of a later version */
    STATUS_BUSY,        /* another process owns the data directory */
    STATUS_UNAVAILABLE, /* a part that is needed cannot be reached */
    STATUS_COUNT
};

/* struct err is one sentence for a person.  `{0}` is valid and empty. */
struct err {
    char text[480];
};

/* err_set formats the sentence and returns `status`, so that `return err_set(...)` reads well.
 * `err` may be NULL. */
enum status err_set(struct err *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* err_prefix puts "prefix: " before the sentence: where it happened, for what was said deeper. */
void err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* err_no_memory is the sentence for a failed allocation. */
enum status err_no_memory(struct err *err);

/* status_name is a stable lower-case code, such as "lease_lost"; it stands in answers as "code". */
const char *status_name(enum status status);

/* BUG ends the program: a broken invariant is never survived.  It is always compiled in. */
#define BUG(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
#define BUG_ON(condition)                                                                          \
    do {                                                                                           \
        if (condition)                                                                             \
            BUG("%s", #condition);                                                                 \
    } while (0)
_Noreturn void bug_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
