/* args: the words of a command line, read by the table of commands. */
#ifndef LAZARET_CLI_ARGS_H
#define LAZARET_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/time.h"
#include "cli/commands.h"

/* struct arg: one flag that was given. */
struct arg {
    const struct cli_flag *flag;
    const char *value; /* NULL: a switch */
};

struct args {
    const struct cli_command *command; /* NULL: none was given */
    struct arg *flags;
    size_t flag_count;
    const char **operands; /* the words after the command's name */
    size_t operand_count;
    bool help;    /* --help */
    bool version; /* --version */
};

/* args_parse reads the command line.  0, or an exit code after it has said what is wrong.  Flags
 * may stand anywhere, as `--flag value` or `--flag=value`; after `--` nothing is a flag. */
int args_parse(int argc, char **argv, struct arena *arena, struct args *out);

/* args_has says whether a flag was given; args_value is its last value, or NULL. */
bool args_has(const struct args *args, const char *name);
const char *args_value(const struct args *args, const char *name);

/* args_int reads a flag's value as a whole number of `min` to `max`; `*out` is untouched when the
 * flag was not given.  0, or an exit code after it has said what is wrong. */
int args_int(const struct args *args, const char *name, int64_t min, int64_t max, int64_t *out);

/* args_span reads a flag's value as a time such as 90, 90s, 10m, 2h, 7d or 500ms. */
int args_span(const struct args *args, const char *name, struct span *out);

#endif
