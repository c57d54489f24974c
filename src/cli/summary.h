/* summary: what a run came to, and what can be done about what failed.
 *
 *     200 items: 180 done, 20 quarantined in 3 groups, in 12.3 s (16/s)
 *         12  CommandFailed::no such header  3f2a9c41d0e7b865
 *          5  Timeout::timed out after  8c1f0c5be2d94a37
 *          3  ValidationFailed::bad checksum  10d3a7b1c94be02f
 *     Look:   lazaret dlq list --job-id nightly
 *     Groups: lazaret dlq analyze --job-id nightly
 *     Again:  lazaret dlq retry nightly    (one group: lazaret dlq retry --group 3f2a9c41d0e7b865)
 *
 * It is the command's answer, so it goes to standard output; with -o json it is one object on one
 * line, the last of the events. */
#ifndef LAZARET_CLI_SUMMARY_H
#define LAZARET_CLI_SUMMARY_H

#include "cli/cli.h"
#include "crew/watch.h"

struct summary_facts {
    const char *noun;   /* "item" or "job" */
    const char *run_id; /* NULL: it was no run, there is nothing to ask about or to resume */
    struct watch_counts counts;
    const char *stopped; /* why it ended early, as a phrase; NULL: it did not */
    bool interrupted;    /* by a signal */
};

/* summary_show asks for the groups of what is in the quarantine of the run, and prints.  0, or an
 * exit code after it has said why the groups could not be had; the rest is printed all the same. */
int summary_show(struct cli *cli, const struct summary_facts *facts);

#endif
