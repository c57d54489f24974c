/* map: a command mapped over items, from the first item to the last outcome.
 *
 *     map_run:   feed (items -> engine)  +  crew (engine -> commands -> engine)  +  the rules of
 * the run
 *
 * The store knows every item and what became of it; this process can end at any moment.  Whoever
 * runs the same run again goes on with what is pending, due or was cut off. */
#ifndef LAZARET_RUN_MAP_H
#define LAZARET_RUN_MAP_H

#include "crew/link.h"
#include "crew/watch.h"
#include "run/spec.h"

struct map_config {
    const struct link *link;
    const struct watch *watch;
    const char *data; /* the data directory */
    const struct map_spec *spec;
    struct items
        *items;  /* that are fed; NULL: only what is in the store is run.  map_run closes them */
    bool roll;   /* the items are put on a roll (roll.h) as they are fed */
    bool resume; /* the run is known: leases of a runner that was cut off are taken over */
};

/* struct map_outcome: how it ended. */
struct map_outcome {
    struct watch_counts counts;
    bool interrupted;   /* somebody stopped it (a signal) */
    struct err stopped; /* why it stopped before all was done; empty: it did not */
    enum status input;  /* what was wrong with the items; STATUS_OK: nothing */
    struct err input_err;
};

/* map_run runs until everything is done or it was stopped.  SIGINT and SIGTERM stop it: the first
 * lets what runs finish, the second ends it; they must be blocked in every thread.  An error:
 * nothing was run. */
enum status map_run(const struct map_config *config, struct map_outcome *out, struct err *err);

/* map_check finds out whether the spec can be run where it says: worktrees need a repository.  It
 * changes nothing, and waits for git. */
enum status map_check(const char *data, const struct map_spec *spec, struct err *err);

/* map_policy writes the retry_policy of a run's items into the arena: of `name` (NULL: "map"),
 * limited to `runs` (0: as it is) and, for ON_FAILURE_RETRY, without delays.  STATUS_INVALID when
 * `policy`, JSON, is none. */
const char *map_policy(const char *policy, int64_t runs, enum on_failure on_failure,
                       struct arena *arena, struct err *err);

#endif
