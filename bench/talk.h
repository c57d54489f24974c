/* talk: what a worker reads in an answer and says of its jobs, without a JSON parser: the bench
 * knows what its own envelopes hold, and should cost next to nothing. */
#ifndef LAZARET_BENCH_TALK_H
#define LAZARET_BENCH_TALK_H

#include "base/buf.h"

/* struct leased: one lease. */
struct leased {
    struct slice lease_id;
    size_t attempt;
    struct slice job; /* its envelope, and whatever follows it */
};

/* leased_next takes the next lease off the front of an answer; false when there is none. */
bool leased_next(struct slice *rest, struct leased *out);

/* skip_to moves behind the next `text`; false, and it stays where it is, when there is none. */
bool skip_to(struct slice *rest, const char *text);

/* number_of reads the number behind `text`; 0 when it is not there. */
size_t number_of(struct slice in, const char *text);

/* count_of counts how often `text` occurs. */
size_t count_of(struct slice in, const char *text);

void add_success(struct buf *out, const struct leased *leased);
void add_failure(struct buf *out, const struct leased *leased);

#endif
