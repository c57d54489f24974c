/* commands: what the program can be told, as one table.
 *
 * Parsing, `--help`, `lazaret help`, the completions of three shells and the man page are all made
 * from this table, so none of them can forget a flag that another one knows.  A flag's name takes a
 * value everywhere or nowhere: so flags may stand before the command that they belong to. */
#ifndef LAZARET_CLI_COMMANDS_H
#define LAZARET_CLI_COMMANDS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct cli;

/* enum hint: what a shell offers for a value or an operand. */
enum hint { HINT_NONE, HINT_FILE, HINT_DIR, HINT_COMMAND };

struct cli_flag {
    const char *name;  /* without its dashes; NULL ends a table */
    char letter;       /* its short form; 0: none */
    bool many;         /* may be given more than once */
    const char *value; /* what its value is called; NULL: a switch */
    const char *words; /* values that a shell offers, separated by spaces; NULL: none */
    bool closed;       /* no other value is accepted */
    enum hint hint;
    const char *help; /* a phrase: lower case, no full stop */
};

struct cli_example {
    const char *why;  /* NULL ends a table */
    const char *line; /* what is typed */
};

struct cli_command {
    const char *name;     /* one or two words: "push", "dlq list"; NULL ends the table */
    const char *operands; /* as in the usage line; "": none */
    const char *summary;  /* a phrase */
    const char *about;    /* paragraphs, separated by an empty line */
    const struct cli_flag *flags;
    const struct cli_example *examples;
    int operands_min, operands_max;
    const char *words; /* what a shell offers for an operand; NULL: nothing */
    enum hint hint;
    bool local;   /* it needs the data directory itself: no --server */
    bool letters; /* it changes letters: receipts.json follows */
    bool purges;  /* it takes letters away for good: receipts.json comes first, too */
    int (*run)(struct cli *cli); /* NULL: a group, whose commands follow it */
};

/* cli_commands are all commands; a group stands before those that begin with its name. */
extern const struct cli_command cli_commands[];

/* cli_common_flags are understood by every command, but for one that has its own of that name. */
extern const struct cli_flag cli_common_flags[];

/* commands_find finds a command by its name of one or two words; `second` may be NULL.  NULL when
 * there is none. */
const struct cli_command *commands_find(const char *first, const char *second);

/* commands_in says whether `command` belongs to `group`. */
bool commands_in(const struct cli_command *group, const struct cli_command *command);

/* commands_leaf is the last word of a command's name. */
const char *commands_leaf(const struct cli_command *command);

/* commands_flag finds a flag that `command` (NULL: any) understands, the common ones included. */
const struct cli_flag *commands_flag(const struct cli_command *command, const char *name,
                                     size_t len);
const struct cli_flag *commands_letter(char letter);

/* commands_suggest_command and commands_suggest_flag find what was probably meant; NULL: nothing is
 * near.  `group` NULL: among the commands of one word. */
const char *commands_suggest_command(const struct cli_command *group, const char *word);
const char *commands_suggest_flag(const struct cli_command *command, const char *name);

/* commands_words writes the values of a closed flag as people read them: "open, all or dead". */
#define COMMANDS_WORDS_SIZE 200
const char *commands_words(const struct cli_flag *flag, char out[COMMANDS_WORDS_SIZE]);

#define OPERANDS_ANY INT_MAX

#endif
