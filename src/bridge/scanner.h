/* scanner: brings back, by itself, letters that a machine may bring back.
 *
 * Every `interval` one server (the duty "scanner") looks for letters that are dead, recoverable,
 * need no review, failed in the last 24 hours, were brought back fewer than REPLAY_AUTOMATIC_MAX
 * times and are of a queue that is not paused.  It brings back SCANNER_MAX of them at most, the
 * oldest first, in waves.
 *
 * It is fair: of many groups each gets its share.  When there are more letters than one scan
 * brings back, it asks for the oldest of each group instead of the oldest of all; so a small group
 * behind a flood is reached in the same scan.  Of more than SCANNER_GROUPS_MAX groups those that
 * were not reached are the first of the next scan.
 *
 * Two scanners never bring one letter back twice: the second finds it no longer dead. */
#ifndef LAZARET_BRIDGE_SCANNER_H
#define LAZARET_BRIDGE_SCANNER_H

#include "bridge/seat.h"

#define SCANNER_DUTY "scanner"
#define SCANNER_BY "auto-scanner" /* recovered_by */
#define SCANNER_MAX 1000          /* letters brought back in one scan */
#define SCANNER_WAVE 100          /* of these with one command */
#define SCANNER_GROUPS_MAX 1000   /* groups that one scan looks into */
#define SCANNER_AGE_SECONDS 86400 /* letters that failed before are for people */

/* struct scanner_candidate: a letter that may be brought back. */
struct scanner_candidate {
    struct slice dlq_id, fingerprint;
    int64_t position; /* the oldest has the lowest */
    bool foreign;
};

/* scanner_choose takes up to `max` candidates: one of each group, the oldest of it, then the next
 * of each, and so on.  The groups come in the order of their oldest letters.  One that is there
 * twice is taken once.  Pure.  `out` has room for `max`; false when memory is exhausted. */
bool scanner_choose(const struct scanner_candidate *all, size_t count, size_t max,
                    struct arena *arena, const struct scanner_candidate **out, size_t *chosen);

/* struct scanner_counts: since the start, but for `left`.  Any thread may read them. */
struct scanner_counts {
    atomic_uint_fast64_t scans;
    atomic_uint_fast64_t replayed; /* letters brought back */
    atomic_uint_fast64_t refused;  /* letters that the engine did not let go */
    atomic_uint_fast64_t left;     /* at the last scan: letters that came back too often */
};

struct scanner {
    const struct seat *seat;
    struct span interval;
    struct span next; /* on the steady clock: when to scan */
    struct seat_duty duty;
    int64_t group_cursor; /* where the groups of the next scan begin; 0: at the newest */
    struct scanner_counts counts;
    struct seat_trouble trouble;
};

/* scanner_init: the first scan is one interval from now. */
void scanner_init(struct scanner *scanner, const struct seat *seat, struct span interval);

/* scanner_run scans, when it is time and the duty is ours, and says when to call it next. */
struct span scanner_run(struct scanner *scanner);

/* scanner_leave gives the duty up. */
void scanner_leave(struct scanner *scanner);

#endif
