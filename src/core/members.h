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

#define MEMBERS_INDEXED_MAX 64

/* struct members_index: the members of one object that many are read from, found once. */
struct members_index {
    struct json object; /* without bytes: none */
    size_t count;
    struct json keys[MEMBERS_INDEXED_MAX], values[MEMBERS_INDEXED_MAX];
};

/* members_index_fill finds them; of an object with more than there is room for, it finds none. */
void members_index_fill(struct members_index *index, struct json object);

/* struct members: a reader. */
struct members {
    struct arena *arena;               /* for texts that need decoding */
    struct err *err;                   /* the sentence for `status` */
    enum status status;                /* the first thing that was wrong */
    const struct members_index *index; /* NULL: there is none */
};

/* members_get is json_get, by the index where that is the object's. */
bool members_get(const struct members *members, struct json object, const char *name,
                 struct json *out);

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
