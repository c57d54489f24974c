/* lockedfile: a file that is read and replaced whole, under a lock.
 *
 * The lock is FILE.lock, which stays: every program that writes the file this way waits for it.
 * What is written goes to FILE.tmp, is synced, renamed into its place, and the directory synced, so
 * that after a crash at any moment there is the whole of what was there before or the whole of what
 * was written; a FILE.tmp that was left over is replaced by the next writer.  A file that is a
 * symbolic link stays one: what it leads to is replaced.
 *
 * An editor knows nothing of the lock: a file that is not the one that was read is not replaced. */
#ifndef LAZARET_BRIDGE_LOCKEDFILE_H
#define LAZARET_BRIDGE_LOCKEDFILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/status.h"

/* struct lockedfile: `{0}` is closed. */
struct lockedfile {
    char *path; /* where the file is, symbolic links followed */
    bool locked;
    int lock;         /* the lock's descriptor, when it is locked */
    bool there;       /* the file was, when it was read or written last */
    struct stat seen; /* which one it was */
};

/* lockedfile_open waits for the lock: STATUS_BUSY when somebody keeps it for longer than ten
 * seconds.  The file need not be there, but its directory: STATUS_NOT_FOUND, unless `make` is set:
 * then it is made, for its owner alone. */
enum status lockedfile_open(struct lockedfile *file, const char *path, bool make, struct err *err);

/* lockedfile_name is lockedfile_open for whoever only reads: it takes no lock and makes nothing. As
 * the file is replaced whole, what is read is whole. */
enum status lockedfile_name(struct lockedfile *file, const char *path, struct err *err);

/* lockedfile_read appends the file's bytes to `text`; a file that is not there has none. */
enum status lockedfile_read(struct lockedfile *file, struct buf *text, struct err *err);

/* lockedfile_write replaces the file, for its owner alone to read.  STATUS_CONFLICT: it is not the
 * one that was read any more.  On any error the file is as it was. */
enum status lockedfile_write(struct lockedfile *file, struct slice text, struct err *err);

void lockedfile_close(struct lockedfile *file); /* fine when closed */

/* lockedfile_same says that two looks at a file saw the same one, with the same content. */
bool lockedfile_same(const struct stat *a, const struct stat *b);

#endif
