/* manpage: the table of commands as a manual page, in the man macros of roff.
 *
 * Printed text is never taken for a request: a backslash is written \e, a dash \- (so that it can
 * be copied from the page), and a dot or quote at the beginning of a line is preceded by \&. */
#include <string.h>

#include "cli/cli.h"

#define MAN_DATE "2025-11-15"
#define MAN_COLUMNS 72

static void roff_char(struct out *out, char c)
{
    static const struct {
        char c;
        const char *roff;
    } escapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                   {'~', "\\(ti"}, {'^', "\\(ha"}, {'`', "\\(ga"}};
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].c == c) {
            out_str(out, escapes[i].roff);
            return;
        }
    }
    out_format(out, "%c", c);
}

/* roff_len prints `len` bytes; at the beginning of a line nothing is taken for a request. */
static void roff_len(struct out *out, const char *text, size_t len, bool line_start)
{
    if (line_start && len > 0 && (text[0] == '.' || text[0] == '\''))
        out_str(out, "\\&");
    for (size_t i = 0; i < len; i++)
        roff_char(out, text[i]);
}

static void roff(struct out *out, const char *text)
{
    roff_len(out, text, strlen(text), true);
}

/* fill prints text in short lines, each sentence on its own as roff likes it; an empty line begins
 * a paragraph. */
static void fill(struct out *out, const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " \n");
        bool ends = len > 1 && strchr(".?!:", text[len - 1]) && text[len - 2] != '.';
        if (column > 0 && column + 1 + len > MAN_COLUMNS) {
            out_str(out, "\n");
            column = 0;
        }
        out_str(out, column > 0 ? " " : "");
        roff_len(out, text, len, column == 0);
        column += len + 1;
        text += len;
        if (text[0] == '\n' && text[1] == '\n') {
            out_str(out, "\n.PP");
            ends = true;
        }
        text += strspn(text, " \n");
        if (ends && *text) {
            out_str(out, "\n");
            column = 0;
        }
    }
    out_str(out, "\n");
}

static void flag(struct out *out, const struct cli_flag *f)
{
    out_str(out, ".TP\n\\fB");
    if (f->letter)
        out_format(out, "\\-%c\\fR, \\fB", f->letter);
    roff(out, "--");
    roff(out, f->name);
    out_str(out, "\\fR");
    if (f->value) {
        out_str(out, " \\fI");
        roff(out, f->value);
        out_str(out, "\\fR");
    }
    out_str(out, "\n");
    char text[500], words[COMMANDS_WORDS_SIZE];
    snprintf(text, sizeof text, "%s%s%s.", f->closed ? commands_words(f, words) : "",
             f->closed ? ": " : "", f->help);
    if (text[0] >= 'a' && text[0] <= 'z' && !f->closed)
        text[0] = (char)(text[0] - 'a' + 'A');
    fill(out, text);
}

static void command(struct out *out, const struct cli_command *c)
{
    out_str(out, ".SS \"lazaret ");
    roff(out, c->name);
    if (*c->operands) {
        out_str(out, " ");
        roff(out, c->operands);
    }
    out_str(out, "\"\n");
    fill(out, c->about);
    for (const struct cli_flag *f = c->flags; f->name; f++)
        flag(out, f);
    for (const struct cli_example *e = c->examples; e->why; e++) {
        out_str(out, ".PP\n");
        fill(out, e->why);
        out_str(out, ".PP\n.RS 4\n.nf\n");
        roff(out, e->line);
        out_str(out, "\n.fi\n.RE\n");
    }
}

static void files_and_codes(struct out *out)
{
    static const char *const codes[][2] = {
        {"0", "done"},
        {"1", "the work failed: an audit that does not verify"},
        {"2", "wrong usage or bad input"},
        {"3", "not found"},
        {"4", "refused: a policy, a conflict, or nobody said yes"},
        {"5", "the store cannot be reached, read or written"}};

    out_str(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        out_format(out, ".TP\n%s\n%s.\n", codes[i][0], codes[i][1]);
    out_str(out, ".SH ENVIRONMENT\n"
                 ".TP\nLAZARET_DATA\nThe data directory, when\n.B \\-\\-data\nis not given.\n"
                 ".TP\nXDG_DATA_HOME\nThe place of the data directory, when neither is given.\n"
                 ".TP\nNO_COLOR\nNo colour on a terminal, when it is set and not empty.\n"
                 ".SH FILES\n"
                 ".TP\n.I lazaret.db\nThe store, in the data directory.\n"
                 ".TP\n.I lazaret.lock\nHeld by the process that owns the directory.\n"
                 "Another one waits for it (lock_wait_seconds, 10 by default).\n");
}

static const char description[] =
    "Lazaret is a quarantine station for failed work. It decides whether a failed job may be tried "
    "again, when, and how often; it keeps what may not in a quarantine with every piece of "
    "evidence; and it lets people bring work back safely.\n\n"
    "Flags may stand anywhere, as --flag value or --flag=value; after -- nothing is a flag. Tables "
    "and colour appear on a terminal only. What came from a job is stripped of control and escape "
    "sequences before it is shown. What changes much asks first, on a terminal; elsewhere it needs "
    "--yes.";

int cmd_man(struct cli *cli)
{
    struct out *out = &cli->out;

    out_format(out, ".TH LAZARET 1 \"%s\" \"Lazaret %s\" \"User Commands\"\n", MAN_DATE,
               LAZARET_VERSION);
    out_str(out, ".SH NAME\nlazaret \\- a quarantine station for failed work\n"
                 ".SH SYNOPSIS\n.B lazaret\n.I command\n[flags]\n.SH DESCRIPTION\n");
    fill(out, description);
    out_str(out, ".SH COMMON FLAGS\n");
    for (const struct cli_flag *f = cli_common_flags; f->name; f++)
        flag(out, f);
    out_str(out, ".SH COMMANDS\n");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        command(out, c);
    files_and_codes(out);
    return 0;
}
