/* retry: what `dlq retry` does beside bringing letters back: items of map runs are run here, with
 * the command of their run, and --wait waits for the rest. */
#ifndef LAZARET_CLI_RETRY_H
#define LAZARET_CLI_RETRY_H

#include "base/json.h"
#include "cli/cli.h"

#define RETRY_RUNS_MAX 100

/* struct retry_plan: `{0}` is empty. */
struct retry_plan {
    const char *runs[RETRY_RUNS_MAX]; /* map runs that the letters belong to */
    size_t run_count;
    bool hold; /* the letters stay open until their jobs have succeeded */
};

/* retry_plan_run adds a run, once.  retry_plan_query adds those of the letters that a query of the
 * API selects, retry_plan_letter that of one letter.  0, or an exit code after it has said what is
 * wrong. */
int retry_plan_run(struct cli *cli, struct retry_plan *plan, struct slice run_id);
int retry_plan_query(struct cli *cli, struct retry_plan *plan, struct slice query);
int retry_plan_letter(struct cli *cli, struct retry_plan *plan, struct slice dlq_id);

/* retry_run_waits says whether a run has items that are pending, due or cut off. */
bool retry_run_waits(struct cli *cli, const char *run_id);

/* retry_waits says that of any of the plan's runs. */
bool retry_waits(struct cli *cli, const struct retry_plan *plan);

/* retry_confirm asks, where runs have items left beside the letters: these are run too.  0, or an
 * exit code: nothing was changed. */
int retry_confirm(struct cli *cli, const struct retry_plan *plan);

/* retry_follow runs the runs and waits.  `answer` is what the API said of the retry; its letters
 * are waited for with --wait. CLI_FAILED when something died again. */
int retry_follow(struct cli *cli, const struct retry_plan *plan, struct json answer);

#endif
