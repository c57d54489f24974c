/* surroundings: what a command finds when it starts: variables, and files of its slot.
 *
 *     LAZARET_ITEM, LAZARET_ITEM_ID, LAZARET_ATTEMPT, LAZARET_JOB_ID      always (an item that is
 * too large, or has a NUL, is only in the file) LAZARET_ITEM_FILE       a file with the item, when
 * it is too large to be a variable LAZARET_FAILURE_FILE    where the command may leave a failure
 * object, as on descriptor 3 LAZARET_QUEUE, LAZARET_ACTION, ... LAZARET_INPUT_NAME               of
 * a worker's job */
#ifndef LAZARET_RUN_SURROUNDINGS_H
#define LAZARET_RUN_SURROUNDINGS_H

#include "run/attempt.h"

struct surroundings {
    char **envp; /* in the grant's arena */
    size_t count, cap;
    const char *failure_file;
    const char *item_file; /* NULL: none was made */
};

/* surroundings_make fills in the variables, and writes the item's file when one is needed. */
enum status surroundings_make(const struct attempt_plan *plan, struct grant *grant,
                              const struct item *item, unsigned slot, struct surroundings *out,
                              struct err *err);

/* surroundings_add adds one variable; a value with a NUL, or one that is too large, is
 * STATUS_INVALID. */
enum status surroundings_add(struct surroundings *s, struct arena *arena, const char *name,
                             struct slice value, struct err *err);

/* surroundings_said appends what the command left in its failure file, and removes the file. */
void surroundings_said(const struct surroundings *s, struct buf *out);

void surroundings_clear(const struct surroundings *s); /* removes the files */

#endif
