/* letterview: a letter with everything that is printed about it.
 *
 * A view is gathered on the engine's thread, in one read, so that its parts belong together; it is
 * printed by whoever asked (letterprint.h), so that the engine does not wait for that. */
#ifndef LAZARET_ENGINE_LETTERVIEW_H
#define LAZARET_ENGINE_LETTERVIEW_H

#include "base/json.h"
#include "store/store.h"

struct letter_view {
    struct letter letter;
    struct slice body;      /* the payload in force */
    struct slice original;  /* as it was pushed: the same, unless it was edited */
    struct slice *previous; /* the envelopes before the one in force, as pushed first */
    size_t previous_count;
    struct attempt_record *attempts;
    size_t attempt_count;
};

/* letter_body_read reads a letter's payload in force alone.  For the engine's thread. */
enum status letter_body_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct slice *out, struct err *err);

/* letter_view_read gathers a letter.  For the engine's thread. */
enum status letter_view_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct letter_view *out, struct err *err);

/* envelopes_read_previous reads the envelopes that a job had before the one in force.  Only a job
 * that was brought back can have any.  For the engine's thread. */
enum status envelopes_read_previous(struct store *store, const struct job *job, struct arena *arena,
                                    struct slice **out, size_t *count, struct err *err);

/* envelope_read reads one envelope, which must be there.  For the engine's thread. */
enum status envelope_read(struct store *store, int64_t envelope_seq, struct arena *arena,
                          struct slice *out, struct err *err);

/* letter_item is what filters and people call the item of a letter: the envelope's `item`; of an
 * item of a run also `inputs.item`; else `inputs`.  Of a payload from elsewhere: the payload.
 * `payload` is the parsed body; a null without bytes gives the same. */
struct json letter_item(const struct letter *letter, struct json payload);

#endif
