/* line: who waits for whom.  A host has a line of its own; its first goes when fewer than may be
 * are under way to it, and hosts take turns when fewer may be under way at all than want to.
 *
 * Every operation takes the same time, however many wait and however many hosts there are. */
#ifndef LAZARET_BRIDGE_LINE_H
#define LAZARET_BRIDGE_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "store/table.h"

struct line_host;

/* struct line_entry: one that waits or is under way.  The owner embeds it. */
struct line_entry {
    struct line_entry *next, *before; /* in the line of its host */
    uint32_t host;                    /* the line's */
    unsigned limit;                   /* it goes when fewer than this are under way to its host */
    enum { LINE_OUT, LINE_WAITING, LINE_UNDER_WAY } state;
};

struct line {
    struct line_host *hosts; /* by handle; a host with nobody is free */
    uint32_t host_count, host_free;
    struct table by_name;
    uint32_t turn_first, turn_last; /* hosts whose first may go, the next one first */
    unsigned parallel;              /* that may be under way at once */
    unsigned under_way, waiting;
};

void line_init(struct line *line, unsigned parallel);
void line_release(struct line *line); /* frees; nobody must be in it */

/* line_join puts an entry, whose `limit` is above 0, at the end of its host's line.  False when
 * memory is exhausted: it is not in it. */
bool line_join(struct line *line, struct line_entry *entry, struct slice host);

/* line_next is whose turn it is; it is under way then.  NULL: nobody's. */
struct line_entry *line_next(struct line *line);

/* line_answered notes that the host of an entry has answered at `now`; line_silent says that it has
 * not since `since`, as far as is known. */
void line_answered(struct line *line, const struct line_entry *entry, struct span now);
bool line_silent(const struct line *line, const struct line_entry *entry, struct span since);

/* line_waiting is the first that waits for the host of an entry; NULL: nobody does. */
struct line_entry *line_waiting(const struct line *line, const struct line_entry *entry);

/* line_leave takes an entry out, whether it waits or is under way. */
void line_leave(struct line *line, struct line_entry *entry);

#endif
