/* yaml: configuration and workflow files, read into JSON text, so that one set of readers serves
 * both. */
#ifndef LAZARET_BASE_YAML_H
#define LAZARET_BASE_YAML_H

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

/* yaml_to_json appends the one document in `text` as JSON.  Plain scalars follow the JSON schema of
 * YAML 1.2 (null, true, false, numbers; anything else is a string).  Duplicate keys, anchors,
 * aliases, tags and a second document are errors.  Errors say line and column, from 1. */
enum status yaml_to_json(struct slice text, struct buf *out, struct err *err);

#endif
