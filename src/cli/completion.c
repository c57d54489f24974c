/* completion: the table of commands as scripts for three shells.
 *
 * Each script finds the command among the words so far (skipping flags and their values), and
 * offers its flags, its subcommands, or the values of the flag before the cursor.  Everything that
 * a script quotes comes from the table, whose texts have no single quotes but in help: those are
 * escaped. */
#include <string.h>

#include "cli/cli.h"
#include "cli/say.h"

static bool is_top(const struct cli_command *c)
{
    return !strchr(c->name, ' ');
}

/* for_flags calls `print` for the flags of a command: its own, then the common ones that it does
 * not replace. */
static void for_flags(struct out *out, const struct cli_command *c,
                      void (*print)(struct out *, const struct cli_command *,
                                    const struct cli_flag *))
{
    for (const struct cli_flag *f = c->flags; f->name; f++)
        print(out, c, f);
    for (const struct cli_flag *f = cli_common_flags; f->name; f++)
        if (commands_flag(c, f->name, strlen(f->name)) == f)
            print(out, c, f);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_flag_word(struct out *out, const struct cli_command *c, const struct cli_flag *f)
{
    (void)c;
    out_format(out, " --%s", f->name);
}

static void bash_leaves(struct out *out, const struct cli_command *group)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (group ? commands_in(group, c) : is_top(c))
            out_format(out, " %s", commands_leaf(c));
}

/* bash_valued prints the flags that take a value, as a pattern: each name once. */
static void bash_valued(struct out *out)
{
    out_str(out, "-o");
    for (const struct cli_flag *f = cli_common_flags; f->name; f++)
        if (f->value)
            out_format(out, "|--%s", f->name);
    for (const struct cli_command *c = cli_commands; c->name; c++)
        for (const struct cli_flag *f = c->flags; f->name; f++)
            if (f->value && commands_flag(NULL, f->name, strlen(f->name)) == f)
                out_format(out, "|--%s", f->name);
}

static void bash_value(struct out *out, const struct cli_command *c, const struct cli_flag *f)
{
    if (!f->value || (!f->words && f->hint == HINT_NONE))
        return;
    out_format(out, "    '%s':--%s", c->name, f->name);
    if (f->letter)
        out_format(out, "|'%s':-%c", c->name, f->letter);
    if (f->words)
        out_format(out, ") words='%s' ;;\n", f->words);
    else
        out_format(out, ") how=%s ;;\n", f->hint == HINT_DIR ? "-d" : "-f");
}

static void bash_command(struct out *out, const struct cli_command *c)
{
    out_format(out, "    '%s') flags='", c->name);
    for_flags(out, c, bash_flag_word);
    out_str(out, "' words='");
    if (!c->run)
        bash_leaves(out, c);
    else if (c->hint == HINT_COMMAND)
        bash_leaves(out, NULL);
    else if (c->words)
        out_str(out, c->words);
    out_format(out, "' how=%s ;;\n", c->hint == HINT_FILE ? "-f" : "''");
}

/* bash_words prints the part that finds the command among the words so far. */
static void bash_words(struct out *out)
{
    out_str(out, "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "  local command='' flags='' words='' how='' word i skip=''\n"
                 "  COMPREPLY=()\n"
                 "  # \"--flag=value\" comes as three words.\n"
                 "  if [[ $cur == = ]]; then cur=''\n"
                 "  elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                 "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                 "    word=${COMP_WORDS[i]}\n"
                 "    if [[ $word == = ]]; then skip=1; continue; fi\n"
                 "    if [[ -n $skip ]]; then skip=''; continue; fi\n"
                 "    case $word in\n"
                 "    ");
    bash_valued(out);
    out_str(out, ") skip=1 ;;\n"
                 "    -*) ;;\n"
                 "    *) case $command in\n"
                 "      '') command=$word ;;\n");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (!c->run)
            out_format(out, "      %s) command=\"%s $word\" ;;\n", c->name, c->name);
    out_str(out, "      esac ;;\n"
                 "    esac\n"
                 "  done\n");
}

/* bash_offers prints what each command offers, and what the flag before the cursor does. */
static void bash_offers(struct out *out)
{
    out_str(out, "  case $command in\n"
                 "    '') words='");
    bash_leaves(out, NULL);
    out_str(out, "' flags='--help --version --data' ;;\n");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        bash_command(out, c);
    out_str(out, "  esac\n"
                 "  if [[ $cur == -* && $prev != = ]]; then words=$flags; how=''\n"
                 "  elif [[ $prev == -* ]]; then\n"
                 "    case $prev in\n"
                 "    ");
    bash_valued(out);
    out_str(out, ") words=''; how='' ;;\n"
                 "    esac\n"
                 "    case $command:$prev in\n");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        for_flags(out, c, bash_value);
    out_str(out, "    esac\n"
                 "  fi\n");
}

static void print_bash(struct out *out)
{
    out_str(out, "# Completion of lazaret for bash.  source <(lazaret completion bash)\n"
                 "_lazaret() {\n");
    bash_words(out);
    bash_offers(out);
    out_str(out, "  if [[ -n $how ]]; then\n"
                 "    compopt -o filenames 2>/dev/null\n"
                 "    mapfile -t COMPREPLY < <(compgen \"$how\" -- \"$cur\")\n"
                 "  else\n"
                 "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                 "  fi\n"
                 "}\n"
                 "complete -F _lazaret lazaret\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* zsh_text prints help inside a single-quoted specification: brackets and colons are escaped. */
static void zsh_text(struct out *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            out_str(out, "'\\''");
        else if (strchr("[]:\\", *text))
            out_format(out, "\\%c", *text);
        else
            out_format(out, "%c", *text);
    }
}

static void zsh_action(struct out *out, const char *words, enum hint hint)
{
    if (words)
        out_format(out, "(%s)", words);
    else if (hint == HINT_FILE)
        out_str(out, "_files");
    else if (hint == HINT_DIR)
        out_str(out, "_files -/");
}

static void zsh_flag(struct out *out, const struct cli_command *c, const struct cli_flag *f)
{
    (void)c;
    out_str(out, "      '");
    if (f->many)
        out_str(out, "*");
    out_format(out, "--%s%s[", f->name, f->value ? "=" : "");
    zsh_text(out, f->help);
    out_str(out, "]");
    if (f->value) {
        out_str(out, ":");
        zsh_text(out, f->value);
        out_str(out, ":");
        zsh_action(out, f->words, f->hint);
    }
    out_str(out, "' \\\n");
    if (f->letter) {
        out_format(out, "      '-%c[", f->letter);
        zsh_text(out, f->help);
        out_str(out, "]");
        if (f->value) {
            out_format(out, ":%s:", f->value);
            zsh_action(out, f->words, f->hint);
        }
        out_str(out, "' \\\n");
    }
}

static void zsh_describe(struct out *out, const struct cli_command *group)
{
    out_str(out, "    local -a commands=(\n");
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (group ? !commands_in(group, c) : !is_top(c))
            continue;
        out_format(out, "      '%s:", commands_leaf(c));
        zsh_text(out, c->summary);
        out_str(out, "'\n");
    }
    out_str(out, "    )\n    _describe command commands ;;\n");
}

static void zsh_command(struct out *out, const struct cli_command *c)
{
    out_format(out, "  '%s')\n", c->name);
    if (!c->run) {
        zsh_describe(out, c);
        return;
    }
    out_format(out, "    (( CURRENT -= %d )); shift %d words\n", is_top(c) ? 1 : 2,
               is_top(c) ? 1 : 2);
    out_str(out, "    _arguments \\\n");
    for_flags(out, c, zsh_flag);
    out_str(out, "      '*:operand:");
    if (c->hint == HINT_COMMAND) {
        out_str(out, "(");
        bash_leaves(out, NULL);
        out_str(out, ")");
    } else {
        zsh_action(out, c->words, c->hint);
    }
    out_str(out, "' ;;\n");
}

static void print_zsh(struct out *out)
{
    out_str(out, "#compdef lazaret\n"
                 "# Completion of lazaret for zsh.\n"
                 "_lazaret() {\n"
                 "  local name=''\n"
                 "  (( CURRENT > 2 )) && name=$words[2]\n"
                 "  case $name in\n");
    out_str(out, "  ");
    const char *bar = "";
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (c->run)
            continue;
        out_format(out, "%s%s", bar, c->name);
        bar = "|";
    }
    out_str(out, ") (( CURRENT > 3 )) && name=\"$words[2] $words[3]\" ;;\n"
                 "  esac\n"
                 "  case $name in\n"
                 "  '')\n");
    zsh_describe(out, NULL);
    for (const struct cli_command *c = cli_commands; c->name; c++)
        zsh_command(out, c);
    out_str(out, "  esac\n"
                 "}\n"
                 "if [[ $funcstack[1] == _lazaret ]]; then _lazaret \"$@\"\n"
                 "else compdef _lazaret lazaret; fi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_text(struct out *out, const char *text)
{
    out_str(out, "'");
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            out_str(out, "\\");
        out_format(out, "%c", *text);
    }
    out_str(out, "'");
}

/* fish_when prints the condition under which a line applies: the command that the words name. */
static void fish_when(struct out *out, const struct cli_command *c)
{
    out_format(out, "complete -c lazaret -n '__lazaret_at %s'", c ? c->name : "");
}

static void fish_flag(struct out *out, const struct cli_command *c, const struct cli_flag *f)
{
    fish_when(out, c);
    out_format(out, " -l %s", f->name);
    if (f->letter)
        out_format(out, " -s %c", f->letter);
    if (f->value)
        out_str(out, " -r");
    if (f->words)
        out_format(out, " -f -a '%s'", f->words);
    else if (f->hint == HINT_DIR)
        out_str(out, " -f -a '(__fish_complete_directories)'");
    else if (f->hint == HINT_FILE)
        out_str(out, " -F");
    else if (f->value)
        out_str(out, " -f");
    out_str(out, " -d ");
    fish_text(out, f->help);
    out_str(out, "\n");
}

static void fish_leaves(struct out *out, const struct cli_command *group)
{
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (group ? !commands_in(group, c) : !is_top(c))
            continue;
        fish_when(out, group);
        out_format(out, " -a %s -d ", commands_leaf(c));
        fish_text(out, c->summary);
        out_str(out, "\n");
    }
}

static void print_fish(struct out *out)
{
    out_str(out, "# Completion of lazaret for fish.\n"
                 "# __lazaret_at is true when the words so far, without flags and their values,\n"
                 "# begin with just these command names.\n"
                 "function __lazaret_at\n"
                 "    set -l words\n"
                 "    set -l skip 0\n"
                 "    for word in (commandline -opc)[2..-1]\n"
                 "        if test $skip = 1\n"
                 "            set skip 0\n"
                 "        else if string match -qr -- '^(");
    bash_valued(out);
    out_str(out, ")$' $word\n"
                 "            set skip 1\n"
                 "        else if not string match -q -- '-*' $word\n"
                 "            set -a words $word\n"
                 "        end\n"
                 "    end\n"
                 "    switch \"$words[1]\"\n"
                 "        case");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (!c->run)
            out_format(out, " %s", c->name);
    out_str(out, "\n"
                 "            test \"$words[1..2]\" = \"$argv\"\n"
                 "        case '*'\n"
                 "            test \"$words[1]\" = \"$argv\"\n"
                 "    end\n"
                 "end\n"
                 "complete -c lazaret -f\n");
    fish_leaves(out, NULL);
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (!c->run) {
            fish_leaves(out, c);
            continue;
        }
        for_flags(out, c, fish_flag);
        fish_when(out, c);
        if (c->hint == HINT_FILE) {
            out_str(out, " -F\n");
            continue;
        }
        out_str(out, " -a '");
        if (c->hint == HINT_COMMAND)
            bash_leaves(out, NULL);
        out_format(out, "%s'\n", c->words ? c->words : "");
    }
}

int cmd_completion(struct cli *cli)
{
    static const struct {
        const char *shell;
        void (*print)(struct out *out);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const char *shell = cli->args.operands[0];

    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shells[i].shell, shell) == 0) {
            shells[i].print(&cli->out);
            return 0;
        }
    }
    return say_error(CLI_USAGE, "no completion for \"%s\": it must be bash, zsh or fish", shell);
}
