/* grid: libsmartcols on a terminal, plain lines elsewhere; see grid.h. */
#include "cli/grid.h"

#include <libsmartcols/libsmartcols.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/say.h"
#include "cli/text.h"

#define CELL_MAX (64 << 10)

struct grid {
    struct out *out;
    size_t column_count;
    struct libscols_table *smart; /* NULL: plain lines */
    struct buf cell;
    bool failed;
};

static bool add_columns(struct grid *grid, const struct grid_column *columns)
{
    for (size_t i = 0; i < grid->column_count; i++) {
        int flags = (columns[i].right ? SCOLS_FL_RIGHT : 0) | (columns[i].cut ? SCOLS_FL_TRUNC : 0);
        if (!scols_table_new_column(grid->smart, columns[i].name, columns[i].cut ? 0.3 : 0, flags))
            return false;
    }
    return true;
}

struct grid *grid_new(struct out *out, const struct grid_column *columns, size_t count)
{
    struct grid *grid = mem_zalloc(sizeof *grid);
    if (!grid)
        return NULL;
    grid->out = out;
    grid->column_count = count;
    buf_init(&grid->cell, CELL_MAX);
    if (!out->terminal)
        return grid;
    grid->smart = scols_new_table();
    if (!grid->smart || !add_columns(grid, columns)) {
        grid_free(grid);
        return NULL;
    }
    scols_table_set_termwidth(grid->smart, out->columns);
    scols_table_set_termforce(grid->smart, SCOLS_TERMFORCE_ALWAYS);
    return grid;
}

/* clean_cell is valid until the next cell. */
static const char *clean_cell(struct grid *grid, struct slice cell)
{
    /* What a table has no room for is in `show`; a cell is never a whole stack trace. */
    if (cell.len > CELL_MAX / 8)
        cell.len = CELL_MAX / 8;
    buf_clear(&grid->cell);
    text_clean(cell, TEXT_LINE, &grid->cell);
    if (buf_status(&grid->cell, NULL) != STATUS_OK)
        grid->failed = true;
    return grid->cell.len > 0 ? buf_str(&grid->cell) : "-";
}

void grid_add(struct grid *grid, const struct slice *cells)
{
    struct libscols_line *line = NULL;

    if (!grid || grid->failed)
        return;
    if (grid->smart)
        line = scols_table_new_line(grid->smart, NULL);
    if (grid->smart && !line)
        grid->failed = true;
    for (size_t i = 0; i < grid->column_count && !grid->failed; i++) {
        const char *text = clean_cell(grid, cells[i]);
        if (!line)
            out_format(grid->out, "%s%s", i > 0 ? "\t" : "", text);
        else if (scols_line_set_data(line, i, text) != 0)
            grid->failed = true;
    }
    if (!line)
        out_str(grid->out, "\n");
}

int grid_print(struct grid *grid)
{
    bool failed = !grid || grid->failed;

    if (!failed && grid->smart && scols_table_get_nlines(grid->smart) > 0) {
        char *text = NULL;
        failed = scols_print_table_to_string(grid->smart, &text) != 0;
        if (!failed) {
            out_str(grid->out, text);
            out_str(grid->out, "\n");
        }
        /* smartcols allocates by itself, so it is freed as it was allocated. */
        (free)(text);
    }
    grid_free(grid);
    return failed ? say_no_memory() : 0;
}

void grid_free(struct grid *grid)
{
    if (!grid)
        return;
    scols_unref_table(grid->smart);
    buf_release(&grid->cell);
    mem_free(grid);
}
