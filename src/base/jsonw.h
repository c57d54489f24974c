/* jsonw: writing JSON into a buffer.  Commas and nesting are kept by the writer; numbers and
 * strings are always valid JSON, whatever bytes they came from (bytes that are no UTF-8 become
 * U+FFFD). */
#ifndef LAZARET_BASE_JSONW_H
#define LAZARET_BASE_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/time.h"

struct jsonw {
    struct buf *buf;
    bool comma; /* the next value or key is preceded by a comma */
};

void jsonw_init(struct jsonw *w, struct buf *buf);

void jsonw_object(struct jsonw *w); /* { */
void jsonw_object_end(struct jsonw *w);
void jsonw_array(struct jsonw *w); /* [ */
void jsonw_array_end(struct jsonw *w);
void jsonw_key(struct jsonw *w, const char *key);
void jsonw_key_slice(struct jsonw *w, struct slice key);

void jsonw_string(struct jsonw *w, struct slice text);
void jsonw_int(struct jsonw *w, int64_t value);
void jsonw_double(struct jsonw *w, double value); /* shortest text that reads back the same */
void jsonw_bool(struct jsonw *w, bool value);
void jsonw_null(struct jsonw *w);
void jsonw_instant(struct jsonw *w, struct instant t); /* RFC 3339; null when not set */
void jsonw_raw(struct jsonw *w, struct slice json);    /* valid JSON, as it is; null when empty */

/* A member in one call: a key and its value. */
void jsonw_put_string(struct jsonw *w, const char *key, struct slice text);
void jsonw_put_str(struct jsonw *w, const char *key, const char *text);
void jsonw_put_int(struct jsonw *w, const char *key, int64_t value);
void jsonw_put_double(struct jsonw *w, const char *key, double value);
void jsonw_put_bool(struct jsonw *w, const char *key, bool value);
void jsonw_put_instant(struct jsonw *w, const char *key, struct instant t);
void jsonw_put_raw(struct jsonw *w, const char *key, struct slice json);

/* jsonw_put_text writes the member only when the text is not empty. */
void jsonw_put_text(struct jsonw *w, const char *key, struct slice text);

#endif
