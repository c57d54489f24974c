/* report: an outcome on its way to the engine, and what the engine made of it. */
#ifndef LAZARET_CREW_REPORT_H
#define LAZARET_CREW_REPORT_H

#include "base/buf.h"
#include "crew/craft.h"
#include "crew/watch.h"

struct report {
    struct report *next;
    struct buf text;          /* the entry of POST /results */
    struct watch_event event; /* what is told when it is taken down; its texts are in `arena` */
    enum effort_outcome outcome;
    bool plain; /* it was refused once: this is all that is left to say */
    struct arena arena;
};

/* report_new makes the report of an ended attempt; NULL when memory is exhausted. */
struct report *report_new(const struct grant *grant, const struct effort_end *end);
void report_free(struct report *report);

/* report_outcome is what the engine's answer to it means; `dead_is` is what a death is called. */
enum watch_what report_outcome(const struct report *report, struct json answer,
                               enum watch_what dead_is);

/* report_is_refused says that the engine did not take the entry down, though the lease is ours:
 * what it says cannot stand.  report_say_less replaces it by what is left to say. */
bool report_is_refused(struct json answer);
void report_say_less(struct report *report, struct json answer);

#endif
