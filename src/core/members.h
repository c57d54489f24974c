/* members: reading the members of a JSON object one after the other, and asking once.
 *
 * All readers are sticky: the first error stays in the reader, and what is read after it is a
 * default.  An absent member and a null are the same: the default. */
#ifndef LAZARET_CORE_MEMBERS_H
#define LAZARET_CORE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/time.h"

/* struct members: a reader. */
struct members {
    struct arena *arena; /* for texts that need decoding */
    struct err *err;     /* the sentence for `status` */
    enum status status;  /* the first thing that was wrong */
};

/* members_fail keeps the first error and returns the reader's status. */
enum status members_fail(struct members *members, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* members_text reads a string of UTF-8 without a NUL, of at most `max` bytes. */
struct slice members_text(struct members *members, struct json object, const char *name,
                          size_t max);
bool members_bool(struct members *members, struct json object, const char *name, bool fallback);
int64_t members_int(struct members *members, struct json object, const char *name, int64_t min,
                    int64_t max, int64_t fallback);
double members_number(struct members *members, struct json object, const char *name, double min,
                      double max, double fallback);

/* members_instant reads RFC 3339; INSTANT_NONE when absent or empty. */
struct instant members_instant(struct members *members, struct json object, const char *name);

/* members_json reads a member that must be an array or an object; absent: a null without bytes. */
struct json members_json(struct members *members, struct json object, const char *name,
                         enum json_type type);

#endif
