/* numbers: counts as bars, groups as lines: what analyze, stats and status share. */
#ifndef LAZARET_CLI_NUMBERS_H
#define LAZARET_CLI_NUMBERS_H

#include "base/json.h"
#include "cli/cli.h"

#define NUMBERS_BAR 30 /* columns of the longest bar */

void numbers_heading(struct out *out, const char *text);

/* numbers_bars prints an object of counts, those above 0, a line and a bar each. */
void numbers_bars(struct cli *cli, struct json counts);

/* numbers_groups prints groups, a line each, with the share of `total` that they have. */
void numbers_groups(struct cli *cli, struct json groups, int64_t total);

#endif
