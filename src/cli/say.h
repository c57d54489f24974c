/* say: what is said to the person beside the output, on standard error. */
#ifndef LAZARET_CLI_SAY_H
#define LAZARET_CLI_SAY_H

#include <stdbool.h>

struct cli;

/* say_error prints "lazaret: sentence" and returns `code`, so that `return say_error(...)` reads
 * well.  Whatever the sentence quotes is made safe. */
int say_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* say_hint prints a line that tells what to do about the error before it. */
void say_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* say_note prints a line about how the work goes. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* say_confirm asks before much is changed.  `what` is a phrase such as "retry 12 dead letters".  0
 * when the answer is yes or --yes was given, else an exit code after it has said that nothing was
 * changed. */
int say_confirm(struct cli *cli, const char *what);

/* say_no_memory says that memory is exhausted and returns the exit code for it. */
int say_no_memory(void);

#endif
