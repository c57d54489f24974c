/* view: a letter or a job with everything that is printed about it.
 *
 * A view is gathered on the engine's thread, in one read, so that its parts belong together; it is
 * printed by whoever asked, so that the engine does not wait for that. */
#ifndef LAZARET_API_VIEW_H
#define LAZARET_API_VIEW_H

#include "api/call.h"
#include "engine/letterview.h"

struct job_view {
    struct job_row row;
    struct slice body;
    struct slice *previous; /* the envelopes before the one in force, as pushed first */
    size_t previous_count;
    struct attempt_record *attempts;
    size_t attempt_count;
    struct slice result;   /* of a done job; empty: none */
    struct slice document; /* empty: none */
    struct slice policy;   /* its name; "inline", or empty for a payload that is no envelope */
    uint32_t max_attempts; /* 0: unknown */
};

/* job_view_read gathers a job. For the engine's thread. */
enum status job_view_read(struct engine *engine, struct store *store, const struct job_row *row,
                          struct arena *arena, struct job_view *out, struct err *err);

/* letters_walk hands each letter that the filter lets through to `visit`, newest first, in pages,
 * so that the engine is never held long.  `bodies` says that `body` is wanted; the attempts are not
 * read.  Texts are gone when `visit` returns.  A letter that dies again meanwhile is not seen
 * twice. */
enum status letters_walk(struct call *call, const struct letter_filter *filter, bool bodies,
                         enum status (*visit)(void *ctx, const struct letter_view *view),
                         void *ctx);

#endif
