/* artifact: the file that has the whole output of one attempt.
 *
 *     DIR/artifacts/RUN/xx/ITEM-ATTEMPT.log       xx: two hex digits of the item's hash
 *
 * Names come from users, so they are escaped (artifact_name) and can neither leave the directory
 * nor be too long for it.  The file is made with the first byte: a silent command leaves none.  A
 * limit keeps a command that writes without end from filling the disk: what is over it is counted,
 * and the file says so in its last line. */
#ifndef LAZARET_RUN_ARTIFACT_H
#define LAZARET_RUN_ARTIFACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

#define ARTIFACT_MAX_DEFAULT (UINT64_C(1) << 30)
#define ARTIFACT_NAME_MAX 120 /* bytes of an escaped name */

/* struct artifact: `{.fd = -1}` is none: what is added is dropped. */
struct artifact {
    char *path;    /* NULL: none */
    int fd;        /* -1: not made yet */
    uint64_t size; /* bytes written */
    uint64_t cut;  /* bytes that were over the limit */
    uint64_t max;
    int error; /* errno of the first write that failed; nothing is written after it */
};

/* artifact_init names the file; nothing is made yet.  `directory` is DIR/artifacts. */
enum status artifact_init(struct artifact *artifact, const char *directory, struct slice run,
                          struct slice item, uint32_t attempt, uint64_t max, struct err *err);

/* artifact_add appends bytes as they came. */
void artifact_add(struct artifact *artifact, struct slice bytes);

/* artifact_close ends the file (with a last line when something was cut) and closes it. */
void artifact_close(struct artifact *artifact);
void artifact_release(struct artifact *artifact); /* closes and frees; the file stays */

/* artifact_name appends a text as a file name: letters, digits, "-", "_", and "." but not in front
 * stay as they are, every other byte becomes %XX; a name over ARTIFACT_NAME_MAX keeps its beginning
 * and ends in a hash of the whole.  An empty text is "%".  Different texts give different names. */
void artifact_name(struct slice text, struct buf *out);

#endif
