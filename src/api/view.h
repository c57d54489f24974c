/* view: a letter or a job with everything that is printed about it.
 *
 * A view is gathered on the engine's thread, in one read, so that its parts belong together; it is
 * printed by whoever asked, so that the engine does not wait for that. */
#ifndef LAZARET_API_VIEW_H
#define LAZARET_API_VIEW_H

#include "api/call.h"

struct letter_view {
    struct letter letter;
    struct slice body;      /* the payload in force */
    struct slice original;  /* as it was pushed: the same, unless it was edited */
    struct slice *previous; /* the envelopes before the one in force, as pushed first */
    size_t previous_count;
    struct attempt_record *attempts;
    size_t attempt_count;
};

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

/* letter_body_read reads a letter's payload in force alone.  For the engine's thread. */
enum status letter_body_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct slice *out, struct err *err);

/* letter_view_read gathers a letter.  For the engine's thread. */
enum status letter_view_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct letter_view *out, struct err *err);

/* job_view_read gathers a job. For the engine's thread. */
enum status job_view_read(struct engine *engine, struct store *store, const struct job_row *row,
                          struct arena *arena, struct job_view *out, struct err *err);

/* letter_item is what filters and people call the item of a letter: the envelope's `item`; of an
 * item of a run also `inputs.item`; else `inputs`.  Of a payload from elsewhere: the payload.
 * `payload` is the parsed body; a null without bytes gives the same. */
struct json letter_item(const struct letter *letter, struct json payload);

/* letters_walk hands each letter that the filter lets through to `visit`, newest first, in pages,
 * so that the engine is never held long.  `bodies` says that `body` is wanted; the attempts are not
 * read.  Texts are gone when `visit` returns.  A letter that dies again meanwhile is not seen
 * twice. */
enum status letters_walk(struct call *call, const struct letter_filter *filter, bool bodies,
                         enum status (*visit)(void *ctx, const struct letter_view *view),
                         void *ctx);

#endif
