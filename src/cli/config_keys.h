/* config_keys: reading a mapping into a struct, by a table of the keys that it may have.
 *
 * An unknown key, a wrong type and a value out of range are errors that name the key as one would
 * write its way through the file: "http.threads", "targets.asyncgate.url". */
#ifndef LAZARET_CLI_CONFIG_KEYS_H
#define LAZARET_CLI_CONFIG_KEYS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

#define CONFIG_PLACE_MAX 160 /* bytes of the way to a key, and its NUL */

enum config_kind {
    KIND_COUNT,      /* a whole number: int64_t */
    KIND_SIZE,       /* likewise: size_t */
    KIND_UNSIGNED,   /* likewise: unsigned */
    KIND_DAYS,       /* struct span */
    KIND_SECONDS,    /* struct span */
    KIND_SECONDS_MS, /* uint32_t */
    KIND_FLAG,       /* bool */
    KIND_TEXT,       /* const char *: the name of a file */
    KIND_ADDRESS,    /* const char *: HOST:PORT */
    KIND_LINE,       /* const char *: any text in one line; no sentence repeats it */
    KIND_OWN,        /* what `own` makes of it */
};

/* config_own reads a value into `member`, the struct at its key's offset; what stays is copied into
 * `arena`, as the value does not.  `place` is the key, for errors. */
typedef enum status config_own(const char *place, struct json value, struct arena *arena,
                               void *member, struct err *err);

struct config_key {
    const char *section; /* a mapping inside of the mapping; NULL: none */
    const char *name;
    enum config_kind kind;
    double min, max; /* of numbers */
    size_t offset;   /* of the member in the struct */
    config_own *own; /* of KIND_OWN */
};

struct config_table {
    const struct config_key *keys;
    size_t count;
};

/* config_keys_read reads a mapping (a null is an empty one) into the struct `into`.  `place` is the
 * way to it; NULL: it is the file itself.  On an error `into` may have been filled in part. */
enum status config_keys_read(const struct config_table *table, const char *place,
                             struct json mapping, struct arena *arena, void *into, struct err *err);

/* config_wrong is STATUS_INVALID with the sentence "place: must be WANTED, not VALUE". */
enum status config_wrong(const char *place, const char *wanted, struct json value, struct err *err);

/* config_text copies a string into `arena`: `ptr` is NULL when it is none, or memory is exhausted.
 */
struct slice config_text(struct json value, struct arena *arena);

#endif
