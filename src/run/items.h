/* items: where the items of a run come from: a file or standard input, as JSON, NDJSON or lines.
 *
 * Lines and NDJSON are read as they come, so that work begins with the first one; a file is checked
 * from end to end before that, so that a bad line 900,000 is told before anything is run.  JSON is
 * one document, of which a path selects the items.  `filter`, `sort_by`, `distinct`, `offset` and
 * `items_max`, in this order, shape the stream on the way (only sorting has to read all of it
 * first).
 *
 * A stream is not looked at before the first item is asked for: items_open never waits. */
#ifndef LAZARET_RUN_ITEMS_H
#define LAZARET_RUN_ITEMS_H

#include <stdint.h>

#include "core/filter.h"
#include "run/item.h"

enum items_format { ITEMS_DETECT, ITEMS_JSON, ITEMS_NDJSON, ITEMS_LINES };

/* struct items_config: `{.path = P}` is enough. */
struct items_config {
    const char *path; /* a file; "-": standard input */
    enum items_format
        format; /* ITEMS_DETECT: by the file's name, json_path, then its first character */
    const char *json_path;       /* NULL: "$[*]" of a document that is an array */
    const char *id_field;        /* NULL: ids are hashes */
    const struct filter *filter; /* NULL: all */
    const char *sort_by;  /* "item.priority DESC, item.name": see order.h; NULL: as they come */
    const char *distinct; /* a path: of the items with the same value only the first; NULL: all */
    int64_t offset;       /* items to leave out first */
    int64_t items_max;    /* items at most; 0: all */
};

struct items;

/* struct items_entry: the next item.  It borrows from the reader, until the next call. */
struct items_entry {
    struct item item;
    struct slice id; /* distinct within the input: the second item with an id "x" gets "x#2" */
    int64_t number;  /* its place in the input, from 1: a line, or an element */
    bool repeated;   /* another one before it had the same id */
};

/* items_open opens and, where it can, checks the input.  Errors name the file, the line and the
 * column, and what to do: a JSON object without a json_path is told to give one. */
enum status items_open(const struct items_config *config, struct items **out, struct err *err);

/* items_next yields the next item; `*more` is false at the end.  It may wait for standard input:
 * then items_stop, by another thread, ends the wait and the input. */
enum status items_next(struct items *items, struct items_entry *out, bool *more, struct err *err);
void items_stop(struct items *items);
void items_close(struct items *items); /* NULL is fine */

/* items_total is how many there will be; -1: not known (a stream). */
int64_t items_total(const struct items *items);

#endif
