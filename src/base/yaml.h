/* yaml: configuration and workflow files, read into JSON text, so that one set of readers serves
 * both. */
#ifndef LAZARET_BASE_YAML_H
#define LAZARET_BASE_YAML_H

#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

/* yaml_to_json appends the one document in `text` as JSON.  Plain scalars follow the JSON schema of
 * YAML 1.2 (null, true, false, numbers; anything else is a string).  Duplicate keys, anchors,
 * aliases, tags and a second document are errors.  Errors say line and column, from 1. */
enum status yaml_to_json(struct slice text, struct buf *out, struct err *err);

/* struct yaml_mark: where a key or a value of the JSON text stood in the YAML text. */
struct yaml_mark {
    size_t offset;   /* of its first byte, from where the JSON text begins in the buffer */
    uint32_t line;   /* from 1 */
    uint32_t column; /* from 1, in characters */
};

/* struct yaml_marks: the marks of a document, in the order of their offsets.  `{0}` is valid and
 * empty. */
struct yaml_marks {
    struct yaml_mark *marks;
    size_t count;
    size_t cap;
};

/* yaml_to_json_marked is yaml_to_json, and says where each key and value stood.  `marks` is empty
 * before it, and stays empty when the text is refused. */
enum status yaml_to_json_marked(struct slice text, struct buf *out, struct yaml_marks *marks,
                                struct err *err);

/* yaml_mark_find is the mark of the key or value that begins at `offset`: the last one that begins
 * there or before it. */
struct yaml_mark yaml_mark_find(const struct yaml_marks *marks, size_t offset);

void yaml_marks_release(struct yaml_marks *marks);

#endif
