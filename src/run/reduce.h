/* reduce: what follows when every item of a workflow has ended: its results, for the last steps. */
#ifndef LAZARET_RUN_REDUCE_H
#define LAZARET_RUN_REDUCE_H

#include "crew/link.h"
#include "run/spec.h"

/* reduce_run asks the store what became of each item, writes it to DIR/artifacts/RUN/results.json
 * (an array of
 * {"item_id","state","result"} in the order of the run's roll) and runs the steps, with
 * ${map.successful}, ${map.failed},
 * ${map.total}, ${map.results} and ${map.results_file}, and `out` as their standard output. */
enum status reduce_run(const struct link *link, const char *data, const struct map_spec *spec,
                       const struct steps *steps, int out, struct err *err);

#endif
