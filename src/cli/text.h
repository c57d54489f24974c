/* text: what came from a job, made safe to show.
 *
 * Messages, payloads and ids are written by whoever failed.  Shown as they are, they could move the
 * cursor, retitle the window, hide a line or turn it round.  So every such text passes through here
 * on its way to a terminal or to plain rows:
 *
 *     escape sequences            go as a whole: ESC [ 31 m leaves nothing, not "[31m"
 *     C0, DEL, C1                 go (C1 also as the two bytes that UTF-8 makes of it)
 *     bidirectional controls      go: what is read is what is there
 *     bytes that are no UTF-8     become U+FFFD
 *
 * JSON output is not altered, as JSON escapes C0 by itself; on a terminal the rest of the above is
 * escaped in it too, which changes its bytes and not its meaning. */
#ifndef LAZARET_CLI_TEXT_H
#define LAZARET_CLI_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum text_shape {
    TEXT_LINE, /* one line: line ends and tabs become a space */
    TEXT_BLOCK /* line ends and tabs are kept; a lone CR ends a line too */
};

/* text_clean appends `text` without anything that a terminal would act on. */
void text_clean(struct slice text, enum text_shape shape, struct buf *out);

/* text_escape_json appends valid JSON with DEL, C1 and bidirectional controls as \u escapes. */
void text_escape_json(struct slice json, struct buf *out);

/* text_next decodes the character at the beginning of `text` (not empty) and returns how many bytes
 * it takes; bytes that are no UTF-8 are U+FFFD. */
size_t text_next(struct slice text, uint32_t *character);

/* text_columns is how many columns clean text takes on a terminal.  Where that is in doubt it is
 * rather too many than too few. */
size_t text_columns(struct slice text);

/* text_fit is how many bytes at the beginning of clean text fit into so many columns: whole
 * characters, with the marks that stand on them. */
size_t text_fit(struct slice text, size_t columns);

#endif
