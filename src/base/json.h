/* json: reading JSON without copying it.
 *
 * json_parse checks a whole text strictly (RFC 8259, valid UTF-8, paired surrogates, bounded depth)
 * and yields a value that is a slice of the original bytes, so that a payload can be handed back
 * byte for byte.  Everything below it trusts that check: iterating a value that json_parse accepted
 * cannot fail. */
#ifndef LAZARET_BASE_JSON_H
#define LAZARET_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "base/status.h"

#define JSON_DEPTH_MAX 128

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

/* struct json: a value.  `{0}` is a null without bytes: what an absent member reads as. */
struct json {
    enum json_type type;
    struct slice raw; /* its bytes, without white space around; a string with its quotes */
};

/* json_parse accepts `text` when the whole of it is one JSON value.  The error says at which byte,
 * counted from 1, and what was wrong.  STATUS_INVALID, and `out` untouched, otherwise. */
enum status json_parse(struct slice text, struct json *out, struct err *err);

/* json_parse_prefix accepts one value at the beginning of `text` and sets `rest` to what follows it
 * and its white space: for arrays of documents and NDJSON. */
enum status json_parse_prefix(struct slice text, struct json *out, struct slice *rest,
                              struct err *err);

/* struct json_iter walks the members of an object or the elements of an array, in order. */
struct json_iter {
    const char *at;
    const char *end;
    bool object;
};

/* json_iter_init starts at the first child.  A value that is no container has no children. */
void json_iter_init(struct json_iter *iter, struct json container);

/* json_next steps to the next child; false at the end.  `key` is the member's name as a JSON string
 * value (for an array: untouched) and may be NULL. */
bool json_next(struct json_iter *iter, struct json *key, struct json *value);

/* json_get finds a member by its decoded name; the last of duplicates.  False when there is none,
 * with `out` a null without bytes. */
bool json_get(struct json object, const char *name, struct json *out);

/* json_gather is json_get for several members at once, in one walk over the object: out[i] is the
 * member names[i]. */
void json_gather(struct json object, const char *const *names, size_t count, struct json *out);

/* json_count is the number of children. */
size_t json_count(struct json container);

/* json_string_is compares a string's decoded text with `text`.  False for other types. */
bool json_string_is(struct json value, const char *text);

/* json_text decodes a string: a slice of the original when it has no escapes, else a copy in
 * `arena`. `out->ptr` is NULL when memory is exhausted or the value is no string. */
struct slice json_text(struct json string, struct arena *arena);

/* json_decode decodes the byte or the escape at `*at`, which is between a string's quotes, steps
 * over it, and returns how many bytes it wrote: for comparing texts without a copy. */
size_t json_decode(const char **at, char out[4]);

/* json_int is true when the number is an integer that fits, written in any way (5, 5.0, 5e0). */
bool json_int(struct json value, int64_t *out);

/* json_double is true for a number that is finite as a double. */
bool json_double(struct json value, double *out);

/* json_utf8_valid says whether bytes are UTF-8 as RFC 3629 has it. */
bool json_utf8_valid(struct slice text);

#endif
