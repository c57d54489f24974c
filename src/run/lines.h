/* lines: an input that is read line by line, as it comes, by one thread; another can end the wait.
 *
 * A regular file can be read twice: the second time up to where the first ended, so that what is
 * appended in between does not count.  It is read and not mapped: a mapping would change under the
 * reader when somebody writes to the file, and end the program when somebody shortens it. */
#ifndef LAZARET_RUN_LINES_H
#define LAZARET_RUN_LINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/status.h"

#define LINES_LINE_MAX ((size_t)64 << 20) /* bytes of a line */

struct lines {
    const char *name;    /* for errors; borrowed */
    int fd;              /* what is read */
    bool file;           /* it is a regular file: it is read by `offset` and never waited for */
    int64_t start;       /* of a file: where reading began */
    int64_t offset;      /* of a file: where the next byte is read */
    int64_t limit;       /* of a file: where it ends, however long it has become; -1: at its end */
    int wake;            /* an eventfd: readable once it is stopped */
    atomic_bool stopped; /* somebody wants no more of it */
    char *bytes;         /* what was read */
    size_t cap;          /* room in `bytes` */
    size_t begin, end;   /* what of it was not yielded yet */
    size_t clean;        /* bytes from `begin` on that have no newline in them */
    bool ended;          /* nothing more can be read */
    int64_t number;      /* of the line that was yielded last, from 1 */
};

/* lines_open opens `path`; "-" is standard input.  It waits for nothing.  STATUS_NOT_FOUND,
 * STATUS_IO and STATUS_INVALID (a directory) say what to do.  lines_close may be called whatever it
 * returned. */
enum status lines_open(struct lines *lines, const char *path, struct err *err);
void lines_close(struct lines *lines);

/* lines_stop ends the input: what is waited for, and what is asked for after that.  Any thread. */
void lines_stop(struct lines *lines);
bool lines_stopped(struct lines *lines);

/* lines_next yields the next line without its end (LF or CR LF); it holds until the next call.  The
 * last one needs no end.  STATUS_TOO_LARGE for one over LINES_LINE_MAX. */
enum status lines_next(struct lines *lines, struct slice *out, bool *more, struct err *err);

/* lines_more reads on, without yielding anything, while there are less than `max` bytes ahead;
 * STATUS_TOO_LARGE else.  `ended` says whether there may be more. */
enum status lines_more(struct lines *lines, size_t max, struct err *err);

/* lines_ahead is what was read and not yielded; it holds until more is read.  lines_skip leaves out
 * the first bytes of it. */
struct slice lines_ahead(const struct lines *lines);
void lines_skip(struct lines *lines, size_t count);

/* lines_rewind begins a regular file again. */
void lines_rewind(struct lines *lines);

#endif
