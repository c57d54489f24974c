/* grid: rows for a person on a terminal, tab-separated lines for everything else.
 *
 *     struct grid *grid = grid_new(&cli->out, columns, 3);
 *     grid_add(grid, (struct slice[]){id, reason, queue});
 *     grid_print(grid);      prints and frees
 *
 * Cells are made safe here.  An empty cell is shown as "-".  Without a terminal there is no heading
 * line, so that every line is a row. */
#ifndef LAZARET_CLI_GRID_H
#define LAZARET_CLI_GRID_H

#include <stdbool.h>

#include "base/slice.h"
#include "cli/out.h"

struct grid_column {
    const char *name;
    bool right; /* numbers */
    bool cut;   /* shortened first when the terminal is too narrow */
};

struct grid;

/* grid_new begins a table; NULL when memory is exhausted. */
struct grid *grid_new(struct out *out, const struct grid_column *columns, size_t count);

/* grid_add adds a row of as many cells as there are columns.  Failure is sticky. */
void grid_add(struct grid *grid, const struct slice *cells);

/* grid_print prints and frees.  0, or an exit code after it has said what is wrong; a NULL table is
 * such a case. */
int grid_print(struct grid *grid);
void grid_free(struct grid *grid); /* without printing; NULL is fine */

#endif
