/* eventpage: a page of the evidence with the names of its jobs, for the audit list and for streams.
 *
 * Reading is for the engine's thread; printing is for any. */
#ifndef LAZARET_API_EVENTPAGE_H
#define LAZARET_API_EVENTPAGE_H

#include "base/buf.h"
#include "core/redact.h"
#include "engine/engine.h"

/* struct event_page: events in order, and what their jobs are called. */
struct event_page {
    int64_t after; /* asked for: events with a greater seq, */
    size_t limit;  /* so many at most */
    struct event *events;
    size_t count;
    struct slice *job_ids; /* of each event; empty: it is about no job */
};

/* event_page_read fills the page with the next events and names their jobs. */
enum status event_page_read(struct store *store, struct event_page *page, struct arena *arena,
                            struct err *err);

/* event_page_name fills the names of a page whose events are there.  A job that was purged is named
 * by its tombstone. */
enum status event_page_name(struct store *store, struct event_page *page, struct arena *arena,
                            struct err *err);

/* event_page_mask appends the facts of an event as a masked reader sees them.  A rule that begins
 * with /event/ names a fact; a rule that masks inputs.outcome or inputs.dispatch_reference of an
 * envelope also masks the copies of these in the facts. */
void event_page_mask(const struct redaction *redaction, struct slice why, struct buf *out);

/* event_page_hide puts the masked facts in the place of the facts of each event. */
enum status event_page_hide(struct event_page *page, const struct redaction *redaction,
                            struct arena *arena, struct err *err);

/* event_page_stream appends an event as server-sent events are written.  `redaction` masks its
 * facts; NULL: nothing. */
void event_page_stream(const struct event *event, struct slice job_id,
                       const struct redaction *redaction, struct buf *out);

#endif
