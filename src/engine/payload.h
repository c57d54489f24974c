/* payload: a letter's bytes inside JSON, and back, so that nothing is lost on the way.
 *
 * A payload that is JSON stands as it is, without white space around it.  One from elsewhere may be
 * anything: UTF-8 that is no JSON stands as a string, other bytes as a string of base64;
 * `payload_encoding` ("text" or "base64") then says so.  It is absent for JSON, whose meaning is
 * never in doubt. */
#ifndef LAZARET_ENGINE_PAYLOAD_H
#define LAZARET_ENGINE_PAYLOAD_H

#include "base/arena.h"
#include "base/jsonw.h"

/* struct payload: bytes, and what they are. */
struct payload {
    struct slice bytes;
    struct json json;     /* when they are JSON; else a null without bytes */
    const char *encoding; /* NULL: JSON; "text" or "base64" */
};

struct payload payload_of(struct slice bytes);

/* payload_print writes the value that stands for the bytes. */
enum status payload_print(const struct payload *payload, struct arena *arena, struct jsonw *out,
                          struct err *err);

/* payload_read gives the bytes that a value stands for.  An empty encoding means JSON. */
enum status payload_read(struct json value, struct slice encoding, struct arena *arena,
                         struct slice *out, struct err *err);

#endif
