/* secret: one line that nobody else may see: read from a file, repeated by no sentence. */
#ifndef LAZARET_CLI_SECRET_H
#define LAZARET_CLI_SECRET_H

#include "cli/cli.h"

/* secret_file reads the one line of a file ("-": standard input), without its newline, into the
 * command's arena.  `name` is the flag or the key that named the file, for sentences.  0, or an
 * exit code after it has said what is wrong. */
int secret_file(struct cli *cli, const char *name, const char *path, const char **out);

/* secret_value is `value` or, when it begins with "@", the one line of the file that follows. */
int secret_value(struct cli *cli, const char *name, const char *value, const char **out);

#endif
