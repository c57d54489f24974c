/* documents: a file that holds one JSON document, an array of them, or one after the other
 * (NDJSON), sent to the API in batches. */
#ifndef LAZARET_CLI_DOCUMENTS_H
#define LAZARET_CLI_DOCUMENTS_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/cli.h"

/* documents_each reads all of `text` first, so that a mistake in the middle is found before
 * anything is done, and then hands over each document.  `name` is for errors.  `*many` says that
 * there is an array, or more than one document; it is set before the first visit.  0, or an exit
 * code: of `visit`, or after it has said what is wrong. */
int documents_each(const char *name, struct slice text, bool *many,
                   int (*visit)(void *ctx, struct json document), void *ctx);

/* struct batch: documents that wait to be sent as one array. */
struct batch {
    struct buf body; /* "[a,b,c" */
    size_t count;
    int (*send)(void *ctx, struct slice array); /* called when it is full, and by batch_flush */
    void *ctx;
};

void batch_init(struct batch *batch, int (*send)(void *ctx, struct slice array), void *ctx);
int batch_add(struct batch *batch, struct slice document);
int batch_flush(struct batch *batch);
void batch_release(struct batch *batch);

#endif
