/* plain: steps that run in the foreground, with our own standard streams: setup and reduce.  Where
 * our standard output is read by a program, theirs goes to standard error. */
#ifndef LAZARET_RUN_PLAIN_H
#define LAZARET_RUN_PLAIN_H

#include "run/workflow.h"

/* plain_run runs steps one after the other in `cwd` (NULL: here) until one fails.  `item` is what
 * their places stand for. STATUS_REFUSED when a step failed, with what and how in the sentence;
 * another status when one could not be run. `setup` or `reduce` is `what`; `out` is the descriptor
 * for their standard output. */
enum status plain_run(const char *what, const struct steps *steps, const struct item *item,
                      const char *cwd, int out, struct err *err);

#endif
