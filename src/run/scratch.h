/* scratch: a temporary directory of this process, for files that commands and runner hand each
 * other. */
#ifndef LAZARET_RUN_SCRATCH_H
#define LAZARET_RUN_SCRATCH_H

#include "base/status.h"

#define SCRATCH_SIZE 128

/* scratch_make makes a directory under $TMPDIR (or /tmp) and writes its path; scratch_remove
 * removes it and the files in it.  An empty path is fine. */
enum status scratch_make(char path[SCRATCH_SIZE], struct err *err);
void scratch_remove(const char *path);

#endif
