/* field: reading a typed value out of a JSON member, with an error that names the member, says what
 * it must be and shows what it was: "max_attempts: must be a whole number from 1 to 1000, not 0".
 *
 * On error `out` is untouched. */
#ifndef LAZARET_CORE_FIELD_H
#define LAZARET_CORE_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

#define FIELD_SHOWN_MAX 40 /* bytes of a wrong value that stand in the error */

/* field_head is the beginning of a text, at most `max` bytes, never splitting a UTF-8 character. */
struct slice field_head(struct slice text, size_t max);

/* field_wrong is STATUS_INVALID with the sentence "field: must be MUST, not VALUE". */
enum status field_wrong(const char *field, const char *must, struct json value, struct err *err);

enum status field_int(const char *field, struct json value, int64_t min, int64_t max, int64_t *out,
                      struct err *err);
enum status field_double(const char *field, struct json value, double min, double max, double *out,
                         struct err *err);
enum status field_bool(const char *field, struct json value, bool *out, struct err *err);

/* field_text decodes a string, into `arena` when it has escapes. */
enum status field_text(const char *field, struct json value, struct arena *arena, struct slice *out,
                       struct err *err);

#endif
