/* lookup: finding things in the table of commands, and what was probably meant. */
#include <stdio.h>
#include <string.h>

#include "base/distance.h"
#include "cli/commands.h"

#define NEAR_MAX 3 /* letters that a suggestion may differ by */

const struct cli_command *commands_find(const char *first, const char *second)
{
    size_t len = strlen(first);
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (strncmp(c->name, first, len) != 0)
            continue;
        if (second ? c->name[len] == ' ' && strcmp(c->name + len + 1, second) == 0
                   : c->name[len] == '\0')
            return c;
    }
    return NULL;
}

bool commands_in(const struct cli_command *group, const struct cli_command *command)
{
    size_t len = strlen(group->name);
    return strncmp(command->name, group->name, len) == 0 && command->name[len] == ' ';
}

const char *commands_leaf(const struct cli_command *command)
{
    const char *space = strrchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

/* same_name compares a flag's name with what was typed; the API's way to write it is fine too. */
static bool same_name(const char *flag, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (flag[i] != (name[i] == '_' ? '-' : name[i]))
            return false;
    return flag[len] == '\0';
}

static const struct cli_flag *find_in(const struct cli_flag *flags, const char *name, size_t len)
{
    for (; flags->name; flags++)
        if (same_name(flags->name, name, len))
            return flags;
    return NULL;
}

const struct cli_flag *commands_flag(const struct cli_command *command, const char *name,
                                     size_t len)
{
    const struct cli_flag *found = command ? find_in(command->flags, name, len) : NULL;
    if (!found)
        found = find_in(cli_common_flags, name, len);
    if (command)
        return found;
    for (const struct cli_command *c = cli_commands; !found && c->name; c++)
        found = find_in(c->flags, name, len);
    return found;
}

static const struct cli_flag *find_letter(const struct cli_flag *flags, char letter)
{
    for (; flags->name; flags++)
        if (flags->letter == letter)
            return flags;
    return NULL;
}

const struct cli_flag *commands_letter(char letter)
{
    const struct cli_flag *found = find_letter(cli_common_flags, letter);
    for (const struct cli_command *c = cli_commands; !found && c->name; c++)
        found = find_letter(c->flags, letter);
    return found;
}

/* struct nearest: the best of the names that were offered so far. */
struct nearest {
    struct slice word;
    const char *name;
    size_t distance;
};

static void offer(struct nearest *best, const char *name)
{
    size_t far = distance(best->word, slice_of(name));
    /* A word that shares no more than half of its letters is not what was meant. */
    if (far < best->distance && far * 2 < best->word.len + 1) {
        best->name = name;
        best->distance = far;
    }
}

const char *commands_suggest_command(const struct cli_command *group, const char *word)
{
    struct nearest best = {slice_of(word), NULL, NEAR_MAX + 1};
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (group ? commands_in(group, c) : !strchr(c->name, ' '))
            offer(&best, commands_leaf(c));
    if (group || best.name)
        return best.name;
    /* The name of a command whose group was left out. */
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (strcmp(commands_leaf(c), word) == 0)
            return c->name;
    return NULL;
}

static void offer_flags(struct nearest *best, const struct cli_flag *flags)
{
    for (; flags->name; flags++)
        offer(best, flags->name);
}

const char *commands_suggest_flag(const struct cli_command *command, const char *name)
{
    struct nearest best = {{name, strcspn(name, "=")}, NULL, NEAR_MAX + 1};
    offer_flags(&best, cli_common_flags);
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (!command || c == command)
            offer_flags(&best, c->flags);
    return best.name;
}

const char *commands_words(const struct cli_flag *flag, char out[COMMANDS_WORDS_SIZE])
{
    const char *word = flag->words;
    size_t used = 0;

    while (*word && used < COMMANDS_WORDS_SIZE) {
        size_t len = strcspn(word, " ");
        bool last = word[len] == '\0', before_last = !last && !strchr(word + len + 1, ' ');
        used += (size_t)snprintf(out + used, COMMANDS_WORDS_SIZE - used, "%.*s%s", (int)len, word,
                                 last          ? ""
                                 : before_last ? " or "
                                               : ", ");
        word += len + !last;
    }
    return out;
}
