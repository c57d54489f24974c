/* args: one pass over the words, then a check against the command that they name.
 *
 * A flag is looked up among all commands first, as the command may come after it; that is possible
 * because a flag's name takes a value everywhere or nowhere (commands.h). */
#include "cli/args.h"

#include <errno.h>

#include "cli/cli.h"
#include "cli/say.h"

/* struct reader: where the pass over the words is. */
struct reader {
    int argc;
    char **argv;
    int at;        /* the next word */
    bool no_flags; /* "--" has been read */
    struct args *out;
};

/* named_so_far is the command that the words up to here name; NULL: none. */
static const struct cli_command *named_so_far(const struct args *args)
{
    const struct cli_command *first =
        args->operand_count > 0 ? commands_find(args->operands[0], NULL) : NULL;
    if (!first || first->run || args->operand_count < 2)
        return first;
    return commands_find(args->operands[0], args->operands[1]);
}

static int unknown_flag(const struct args *args, const char *word)
{
    const struct cli_command *command = named_so_far(args);
    const char *name = word + strspn(word, "-");
    const char *near = word[1] == '-' ? commands_suggest_flag(command, name) : NULL;
    const char *of = command ? command->name : "";

    if (near)
        say_error(CLI_USAGE, "no flag %s; did you mean --%s?", word, near);
    else
        say_error(CLI_USAGE, "no flag %s", word);
    if (command && strstr(command->operands, "-- ") && args->operand_count > 1)
        say_hint("flags of the command that is run go behind \"--\": lazaret %s ... -- %s %s", of,
                 args->operands[1], word);
    else
        say_hint("lazaret %s%s--help lists the flags", of, *of ? " " : "");
    return CLI_USAGE;
}

static void add_flag(struct reader *r, const struct cli_flag *flag, const char *value)
{
    r->out->flags[r->out->flag_count++] = (struct arg){flag, value};
    if (strcmp(flag->name, "help") == 0)
        r->out->help = true;
    if (strcmp(flag->name, "version") == 0)
        r->out->version = true;
}

/* take_value reads what belongs to `flag`: `attached` (after "=" or the letter) or the next word.
 */
static int take_value(struct reader *r, const struct cli_flag *flag, const char *attached)
{
    if (!flag->value) {
        if (attached)
            return say_error(CLI_USAGE, "--%s takes no value", flag->name);
        add_flag(r, flag, NULL);
        return 0;
    }
    if (!attached && r->at < r->argc)
        attached = r->argv[r->at++];
    if (!attached)
        return say_error(CLI_USAGE, "--%s needs a value: --%s %s", flag->name, flag->name,
                         flag->value);
    add_flag(r, flag, attached);
    return 0;
}

static int read_long(struct reader *r, const char *word)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct cli_flag *flag = commands_flag(NULL, name, len);

    if (!flag)
        return unknown_flag(r->out, word);
    return take_value(r, flag, equals ? equals + 1 : NULL);
}

static int read_short(struct reader *r, const char *word)
{
    const struct cli_flag *flag = commands_letter(word[1]);

    if (!flag)
        return unknown_flag(r->out, word);
    return take_value(r, flag, word[2] ? word + 2 : NULL);
}

static int read_word(struct reader *r)
{
    const char *word = r->argv[r->at++];

    if (r->no_flags || word[0] != '-' || word[1] == '\0') {
        r->out->operands[r->out->operand_count++] = word;
        return 0;
    }
    if (strcmp(word, "--") == 0) {
        r->no_flags = true;
        return 0;
    }
    return word[1] == '-' ? read_long(r, word) : read_short(r, word);
}

static int unknown_command(const struct cli_command *group, const char *word)
{
    const char *near = commands_suggest_command(group, word);
    const char *in = group ? group->name : "";
    const char *space = group ? " " : "";

    if (near)
        say_error(CLI_USAGE, "no command \"%s%s%s\"; did you mean \"%s\"?", in, space, word, near);
    else
        say_error(CLI_USAGE, "no command \"%s%s%s\"", in, space, word);
    say_hint("lazaret help%s%s lists the commands", space, in);
    return CLI_USAGE;
}

/* find_command takes the command's name off the operands. */
static int find_command(struct args *out)
{
    size_t taken = 1;

    if (out->operand_count == 0)
        return 0;
    const char *first = out->operands[0];
    const char *second = out->operand_count > 1 ? out->operands[1] : NULL;
    out->command = commands_find(first, NULL);
    if (!out->command)
        return unknown_command(NULL, first);
    if (!out->command->run && second) {
        const struct cli_command *group = out->command;
        out->command = commands_find(first, second);
        if (!out->command)
            return unknown_command(group, second);
        taken = 2;
    }
    out->operands += taken;
    out->operand_count -= taken;
    return 0;
}

/* word_in says whether `value` is one of the space-separated `words`. */
static bool word_in(const char *words, const char *value)
{
    size_t len = strlen(value);
    for (const char *at = words; len > 0 && (at = strstr(at, value)) != NULL; at++) {
        bool begins = at == words || at[-1] == ' ';
        if (begins && (at[len] == ' ' || at[len] == '\0') && !memchr(value, ' ', len))
            return true;
    }
    return false;
}

static int check_flags(const struct args *args)
{
    for (size_t i = 0; i < args->flag_count; i++) {
        const struct cli_flag *flag = args->flags[i].flag;
        const char *value = args->flags[i].value;
        const struct cli_flag *own = commands_flag(args->command, flag->name, strlen(flag->name));

        if (!own) {
            say_error(CLI_USAGE, "\"%s\" has no flag --%s", args->command->name, flag->name);
            say_hint("lazaret %s --help lists its flags", args->command->name);
            return CLI_USAGE;
        }
        args->flags[i].flag = own;
        if (own->closed && !word_in(own->words, value)) {
            char words[COMMANDS_WORDS_SIZE];
            return say_error(CLI_USAGE, "--%s: must be %s, not \"%s\"", own->name,
                             commands_words(own, words), value);
        }
    }
    return 0;
}

static int check_operands(const struct args *args)
{
    const struct cli_command *command = args->command;
    int count = args->operand_count > INT_MAX ? INT_MAX : (int)args->operand_count;

    if (count < command->operands_min)
        say_error(CLI_USAGE, "\"%s\" needs %s", command->name, command->operands);
    else if (count > command->operands_max)
        say_error(CLI_USAGE, "\"%s\" does not take \"%s\"", command->name,
                  args->operands[command->operands_max]);
    else
        return 0;
    say_hint("usage: lazaret %s%s%s", command->name, *command->operands ? " " : "",
             command->operands);
    return CLI_USAGE;
}

int args_parse(int argc, char **argv, struct arena *arena, struct args *out)
{
    struct reader r = {.argc = argc, .argv = argv, .at = 1, .out = out};
    size_t most = argc > 0 ? (size_t)argc : 1;
    int code = 0;

    *out = (struct args){.flags = arena_array(arena, most, sizeof *out->flags),
                         .operands = arena_array(arena, most, sizeof *out->operands)};
    if (!out->flags || !out->operands)
        return say_no_memory();
    while (code == 0 && r.at < argc)
        code = read_word(&r);
    if (code == 0)
        code = find_command(out);
    if (code != 0 || !out->command || out->help || out->version)
        return code;
    code = check_flags(out);
    if (code == 0 && out->command->run)
        code = check_operands(out);
    return code;
}

static const struct arg *find_arg(const struct args *args, const char *name)
{
    for (size_t i = args->flag_count; i > 0; i--)
        if (strcmp(args->flags[i - 1].flag->name, name) == 0)
            return &args->flags[i - 1];
    return NULL;
}

bool args_has(const struct args *args, const char *name)
{
    return find_arg(args, name) != NULL;
}

const char *args_value(const struct args *args, const char *name)
{
    const struct arg *arg = find_arg(args, name);
    return arg ? arg->value : NULL;
}

int args_int(const struct args *args, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const char *text = args_value(args, name);
    char *end;

    if (!text)
        return 0;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool number = (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) && *end == '\0';
    if (!number || errno != 0 || value < min || value > max)
        return say_error(CLI_USAGE, "--%s: must be a whole number from %lld to %lld, not \"%s\"",
                         name, (long long)min, (long long)max, text);
    *out = value;
    return 0;
}

int args_span(const struct args *args, const char *name, struct span *out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    const char *text = args_value(args, name);
    size_t digits;

    if (!text)
        return 0;
    digits = strspn(text, "0123456789.");
    for (size_t i = 0; digits > 0 && i < sizeof units / sizeof *units; i++) {
        char *end;
        double value = strtod(text, &end);
        if (end != text + digits || strcmp(end, units[i].unit) != 0)
            continue;
        *out = span_from_seconds(value * units[i].seconds);
        return 0;
    }
    return say_error(CLI_USAGE, "--%s: must be a time such as 90s, 10m, 2h or 7d, not \"%s\"", name,
                     text);
}
