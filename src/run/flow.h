/* flow: reading the keys of a YAML document, with errors that say where.
 *
 * The document is JSON text beside the marks of base/yaml.h.  A section is a table of the keys that
 * a mapping may have, each with its reader; what is not in the table is an error that suggests what
 * was probably meant. */
#ifndef LAZARET_RUN_FLOW_H
#define LAZARET_RUN_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "base/yaml.h"

/* struct flow: a document that is being read.  `err` is never NULL. */
struct flow {
    struct slice json;              /* the whole document; it lives in the arena */
    const struct yaml_marks *marks; /* of it */
    struct arena *arena;
    struct err *err;
};

/* struct flow_key: one key of a mapping.  Its name is as errors have it, "map.filter"; the key is
 * what stands behind the last dot.  `read` gets the field's address. */
struct flow_key {
    const char *name;
    enum status (*read)(struct flow *flow, const struct flow_key *key, struct json value,
                        void *field);
    size_t offset;       /* of the field in what the section is read into */
    int64_t min, max;    /* of a whole number */
    const char *more;    /* whatever else the reader wants to know */
    bool null_is_absent; /* else a key without a value is an error */
};

struct flow_section {
    const char *name; /* as errors have it */
    const struct flow_key *keys;
    size_t count;
};

#define FLOW_SECTION(name, keys)                                                                   \
    {                                                                                              \
        name, keys, sizeof(keys) / sizeof((keys)[0])                                               \
    }

/* flow_keys reads a mapping into `target`, in the order of the file.  STATUS_INVALID when it is
 * none, and for a key that is unknown or has no value. */
enum status flow_keys(struct flow *flow, const struct flow_section *section, struct json object,
                      void *target);

/* flow_wrong is STATUS_INVALID with "line 7, column 3: " before the sentence. */
enum status flow_wrong(struct flow *flow, struct json at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* flow_at puts the place of a value before an error that something else made, and hands its status
 * on. */
enum status flow_at(struct flow *flow, struct json at, enum status status);

/* Readers for the tables. */
enum status flow_value(struct flow *flow, const struct flow_key *key, struct json value,
                       void *field); /* struct json: any value, to be looked at later */
enum status flow_text(struct flow *flow, const struct flow_key *key, struct json value,
                      void *field); /* const char *; not empty, without NUL */
enum status flow_script(struct flow *flow, const struct flow_key *key, struct json value,
                        void *field); /* struct slice; likewise, followed by a NUL */
enum status flow_int(struct flow *flow, const struct flow_key *key, struct json value,
                     void *field); /* int64_t */
enum status flow_bool(struct flow *flow, const struct flow_key *key, struct json value,
                      void *field); /* bool */
enum status flow_time(struct flow *flow, const struct flow_key *key, struct json value,
                      void *field); /* struct span; more than 0 */

/* flow_seconds reads a time: a number of seconds, or a text such as 500ms, 2s, 5m, 1h30m or 1d.
 * False when it is none. */
bool flow_seconds(struct flow *flow, struct json value, double *out);

#endif
