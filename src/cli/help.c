/* help: the table of commands, told to a person. */
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"
#include "cli/say.h"

#define HELP_COLUMN 24 /* where the explanations begin */

static void heading(struct out *out, const char *text)
{
    out_str(out, "\n");
    out_styled(out, STYLE_BOLD, text);
    out_str(out, "\n");
}

/* two_columns prints `left` and, from HELP_COLUMN on, `right` in as many lines as it needs. */
static void two_columns(struct out *out, const char *left, const char *right)
{
    size_t width = out->columns < 80 ? out->columns : 80;
    size_t column = HELP_COLUMN;

    out_format(out, "  %-*s", HELP_COLUMN - 2, left);
    if (strlen(left) + 3 > HELP_COLUMN)
        out_format(out, "\n%*s", HELP_COLUMN, "");
    while (*right) {
        size_t len = strcspn(right, " ");
        if (column > HELP_COLUMN && column + 1 + len > width) {
            out_format(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        out_format(out, "%s%.*s", column > HELP_COLUMN ? " " : "", (int)len, right);
        column += len + (column > HELP_COLUMN);
        right += len + strspn(right + len, " ");
    }
    out_str(out, "\n");
}

static void print_flag(struct out *out, const struct cli_flag *flag)
{
    char left[80], short_form[8] = "", words[COMMANDS_WORDS_SIZE];

    if (flag->letter)
        snprintf(short_form, sizeof short_form, "-%c, ", flag->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", short_form, flag->name, flag->value ? " " : "",
             flag->value ? flag->value : "");
    char right[400];
    snprintf(right, sizeof right, "%s%s%s", flag->closed ? commands_words(flag, words) : "",
             flag->closed ? ": " : "", flag->help);
    two_columns(out, left, right);
}

static void print_commands(struct out *out, const struct cli_command *group)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (group ? commands_in(group, c) : !strchr(c->name, ' '))
            two_columns(out, commands_leaf(c), c->summary);
}

static void print_common_flags(struct out *out, const struct cli_command *command)
{
    heading(out, "Common flags");
    for (const struct cli_flag *flag = cli_common_flags; flag->name; flag++)
        if (!command || commands_flag(command, flag->name, strlen(flag->name)) == flag)
            print_flag(out, flag);
}

static void print_examples(struct out *out, const struct cli_command *command)
{
    if (!command->examples->why)
        return;
    heading(out, "Examples");
    for (const struct cli_example *e = command->examples; e->why; e++) {
        out_style(out, STYLE_DIM);
        out_format(out, "  # %s", e->why);
        out_style(out, STYLE_PLAIN);
        out_format(out, "\n  %s\n", e->line);
    }
}

void help_command(struct out *out, const struct cli_command *command)
{
    out_format(out, "lazaret %s: %s\n\n", command->name, command->summary);
    out_format(out, "Usage: lazaret %s%s%s [flags]\n\n", command->name,
               *command->operands ? " " : "", command->operands);
    out_wrap(out, command->about, 0);
    if (!command->run) {
        heading(out, "Commands");
        print_commands(out, command);
        out_format(out, "\n\"lazaret %s COMMAND --help\" explains one, with examples.\n",
                   command->name);
        return;
    }
    if (command->flags->name) {
        heading(out, "Flags");
        for (const struct cli_flag *flag = command->flags; flag->name; flag++)
            print_flag(out, flag);
    }
    print_common_flags(out, command);
    print_examples(out, command);
}

void help_overview(struct out *out)
{
    out_str(out, "lazaret: a quarantine station for failed work\n\n"
                 "Usage: lazaret COMMAND [flags]\n\n");
    out_wrap(out,
             "A failed job is tried again only if a policy permits it. What may not be tried again "
             "goes into the quarantine with the evidence of every attempt, and people bring it "
             "back safely.",
             0);
    heading(out, "Commands");
    print_commands(out, NULL);
    print_common_flags(out, NULL);
    heading(out, "First steps");
    out_str(out, "  lazaret push --action greet --inputs '{\"name\": \"Ada\"}'\n"
                 "  lazaret status\n"
                 "  lazaret dlq list\n");
    heading(out, "Exit codes");
    out_str(out,
            "  0 done   1 the work failed   2 wrong usage or bad input   3 not found\n"
            "  4 refused: policy, conflict, nobody said yes   5 the store cannot be reached\n");
    out_str(out, "\n\"lazaret help COMMAND\" explains one, with examples.\n");
}

int cmd_help(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *second = args->operand_count > 1 ? args->operands[1] : NULL;

    if (args->operand_count == 0) {
        help_overview(&cli->out);
        return 0;
    }
    const struct cli_command *command = commands_find(args->operands[0], second);
    if (command) {
        help_command(&cli->out, command);
        return 0;
    }
    const struct cli_command *group = second ? commands_find(args->operands[0], NULL) : NULL;
    const char *word = group ? second : args->operands[0];
    const char *near = group && group->run ? NULL : commands_suggest_command(group, word);
    if (near)
        return say_error(CLI_USAGE, "no command \"%s\"; did you mean \"%s\"?", word, near);
    return say_error(CLI_USAGE, "no command \"%s\"", word);
}
