/* counts: the numbers of the quarantine, for `stats` and `status`.  They are made of counters that
 * the store keeps: no letter is read. */
#ifndef LAZARET_API_COUNTS_H
#define LAZARET_API_COUNTS_H

#include "api/tally.h"

struct counts {
    int64_t total;       /* letters in any state */
    int64_t unrecovered; /* dead or recovering */
    int64_t recoverable; /* of the dead: a machine may replay them */
    int64_t by_state[LETTER_STATE_COUNT];
    struct tally by_reason, by_source, by_queue; /* of the unrecovered */
    struct instant oldest, newest;               /* failed_at of these; not set: none */
};

/* counts_read reads the counters.  For the engine's thread. */
enum status counts_read(struct store *store, struct arena *arena, struct counts *out,
                        struct err *err);

#endif
