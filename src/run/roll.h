/* roll: which items a run has, in the order of its input, for what follows it (reduce).
 *
 *     DIR/runs/RUN.ids    an item's id a line, written before the item is pushed
 *
 * The input itself may be a stream that is gone, or a file that the commands have changed. */
#ifndef LAZARET_RUN_ROLL_H
#define LAZARET_RUN_ROLL_H

#include "base/slice.h"
#include "base/status.h"

struct roll;

/* roll_open begins the roll of a run, in place of an earlier one. */
enum status roll_open(const char *data, const char *run_id, struct roll **out, struct err *err);
void roll_close(struct roll *roll); /* NULL is fine */

/* roll_add writes one id, which has no line end in it. */
enum status roll_add(struct roll *roll, struct slice id, struct err *err);

/* roll_each calls `visit` for every id, until one call fails.  STATUS_NOT_FOUND when there is no
 * roll. */
enum status roll_each(const char *data, const char *run_id,
                      enum status (*visit)(void *ctx, struct slice id, struct err *err), void *ctx,
                      struct err *err);

#endif
