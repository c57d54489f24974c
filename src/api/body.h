/* body: reading what a request carries, with errors that name the member.
 *
 * All readers are sticky, as call.h says: the first error stays in the call, and what is read after
 * it is a default.  An absent member and a null are the same: the default. */
#ifndef LAZARET_API_BODY_H
#define LAZARET_API_BODY_H

#include "api/call.h"

#define BODY_NOTE_MAX 16384 /* bytes of a person's words */

/* body_object reads the body as one object; an empty body is an empty object.  A member that
 * `known` (names with spaces between; NULL: any) does not list is an error: a mistyped member of an
 * operator's request must not silently widen what is done. */
struct json body_object(struct call *call, const char *known);

/* body_known checks the members of an object against `known`. */
void body_known(struct call *call, struct json object, const char *known);

/* body_text reads a string of UTF-8 without a NUL, of at most `max` bytes. */
struct slice body_text(struct call *call, struct json object, const char *name, size_t max);
bool body_bool(struct call *call, struct json object, const char *name, bool fallback);
int64_t body_int(struct call *call, struct json object, const char *name, int64_t min, int64_t max,
                 int64_t fallback);
double body_number(struct call *call, struct json object, const char *name, double min, double max,
                   double fallback);
struct instant body_instant(struct call *call, struct json object, const char *name);

/* body_json reads a member that must be an array or an object; absent: a null without bytes. */
struct json body_json(struct call *call, struct json object, const char *name, enum json_type type);

/* body_texts reads an array of strings, each of 1 to `text_max` bytes. */
struct slice *body_texts(struct call *call, struct json object, const char *name, size_t count_max,
                         size_t text_max, size_t *count);

/* ---- many documents -------------------------------------------------------------------------- */

/* struct entries walks a body that is one document, an array of documents, or NDJSON. */
struct entries {
    bool many;    /* an array or NDJSON */
    size_t count; /* how many there are */
    bool lines;
    struct slice rest;     /* of one document or NDJSON: what is still to come */
    struct json_iter iter; /* of an array */
};

/* entries_open looks at the body.  An array must be valid JSON as a whole; one document and each
 * line are checked by whoever reads them. */
enum status entries_open(struct entries *entries, struct call *call);

/* entries_next is the text of the next document, without white space around; false at the end. */
bool entries_next(struct entries *entries, struct slice *text);

#endif
