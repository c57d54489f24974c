/* command: commands as people type them, in and out of arguments.  The rest is in template.h. */
#ifndef LAZARET_RUN_COMMAND_H
#define LAZARET_RUN_COMMAND_H

#include "base/buf.h"
#include "base/slice.h"

/* command_is_plain says whether every shell reads a word as it stands.  `first`: it is the first of
 * a command, where a=b is an assignment and `if` is no command's name. */
bool command_is_plain(struct slice word, bool first);

/* command_quote appends a word so that a POSIX shell reads the same word back: as it stands, or in
 * quotes. */
void command_quote(struct slice word, bool first, struct buf *out);

#endif
