/* source: an input as a sequence of records, whatever its format: the lines of a text, the values
 * of NDJSON, or what a path selects of a JSON document.
 *
 * The format is that which the configuration says, else the name of the file: .json is JSON,
 * .ndjson and .jsonl are NDJSON; else JSON when there is a path, else by its beginning
 * (source_detect in source_detect.c).  A stream is not looked at before the first record is asked
 * for. */
#ifndef LAZARET_RUN_SOURCE_H
#define LAZARET_RUN_SOURCE_H

#include "core/jsonpath.h"
#include "run/items.h"
#include "run/lines.h"

#define SOURCE_DOCUMENT_MAX ((size_t)1 << 30) /* bytes of a JSON document, which is read whole */

/* struct record: one line or value.  It borrows from the source until the next is asked for; a
 * value of a JSON document for as long as the source is open. */
struct record {
    bool line;         /* it is a line of text: `text`, not `value` */
    struct slice text; /* of a line: its bytes */
    struct json value; /* else: valid JSON */
    int64_t number;    /* its line, or its place among what the path selects; from 1 */
};

struct source {
    struct lines lines;
    enum items_format format;    /* ITEMS_DETECT: not known yet */
    bool begun;                  /* the format is known, and a document has been read */
    struct arena arena;          /* of the path and the walk */
    const struct jsonpath *path; /* NULL: every element of a document that is an array */
    struct json root;            /* of a JSON document */
    struct jsonpath_walk *walk;  /* likewise */
    int64_t number;              /* of the record that was yielded last */
};

/* source_open opens the input that a configuration names and checks what it says about it.
 * source_close may be called whatever it returned. */
enum status source_open(struct source *source, const struct items_config *config, struct err *err);
void source_close(struct source *source);

/* source_next yields the next record; `*more` is false at the end, or when it was stopped.  An
 * error names the input, the line and the column. */
enum status source_next(struct source *source, struct record *out, bool *more, struct err *err);

/* source_repeats says whether it can be read a second time; source_rewind begins it again. */
bool source_repeats(const struct source *source);
enum status source_rewind(struct source *source, struct err *err);

/* source_blame puts the input and a record's place before an error. */
void source_blame(const struct source *source, const struct record *record, struct err *err);

/* source_detect finds out the format of what was opened by how it begins.  For source.c. */
enum status source_detect(struct source *source, struct err *err);

/* source_flaw tells where json_parse found fault with a text, from the error that it gave: the
 * byte, counted from 1, and what is wrong there. */
size_t source_flaw(const struct err *err, const char **what);

#endif
