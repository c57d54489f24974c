/* view: picking answers apart, and small things made readable. */
#ifndef LAZARET_CLI_VIEW_H
#define LAZARET_CLI_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "cli/out.h"

/* view_get is a member; a null without bytes when there is none. */
struct json view_get(struct json object, const char *name);

/* view_text is a member as text: a string decoded, anything else as its JSON, null empty. */
struct slice view_text(struct json object, const char *name, struct arena *arena);
struct slice view_value(struct json value, struct arena *arena); /* the same, of a value */

int64_t view_int(struct json object, const char *name); /* 0 when it is no whole number */
bool view_true(struct json object, const char *name);

/* view_time is a member that is a time; not set when it is none. */
struct instant view_time(struct json object, const char *name);

/* view_age is how long before `now` a time was: "12s", "5m", "3h", "2d"; "-" when it is not set. */
struct slice view_age(struct instant t, struct instant now, struct arena *arena);

/* view_span is a number of seconds for a person: "25ms", "2s", "1m 30s", "1h". */
struct slice view_span(double seconds, struct arena *arena);

/* view_count is "1 dead letter", "12 dead letters". */
struct slice view_count(int64_t count, const char *noun, struct arena *arena);

/* view_bar prints a bar of `value` on a scale where `max` has `width` columns, padded to `width`.
 */
void view_bar(struct out *out, int64_t value, int64_t max, unsigned width);

/* view_trend prints one character for each value, higher for more. */
void view_trend(struct out *out, struct json values);

#endif
