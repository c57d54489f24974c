/* say: sentences on standard error. */
#include "cli/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/text.h"

#define SENTENCE_MAX (16 << 10)

__attribute__((format(printf, 2, 0))) static void print_line(const char *before, const char *format,
                                                             va_list args)
{
    struct buf sentence, line;

    buf_init(&sentence, SENTENCE_MAX);
    buf_init(&line, SENTENCE_MAX << 2);
    buf_vaddf(&sentence, format, args);
    text_clean(buf_slice(&sentence), TEXT_LINE, &line);
    /* Output of before the sentence belongs before it, also where both go to one terminal. */
    fflush(stdout);
    fprintf(stderr, "%s%s\n", before, buf_str(&line));
    buf_release(&sentence);
    buf_release(&line);
}

int say_error(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("lazaret: ", format, args);
    va_end(args);
    return code;
}

void say_hint(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("hint: ", format, args);
    va_end(args);
}

void say_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("", format, args);
    va_end(args);
}

int say_no_memory(void)
{
    fputs("lazaret: memory is exhausted\n", stderr);
    return CLI_STORE;
}

static bool answer_is_yes(void)
{
    char line[64];
    if (!fgets(line, sizeof line, stdin))
        return false;
    line[strcspn(line, "\r\n")] = '\0';
    return strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

int say_confirm(struct cli *cli, const char *what)
{
    if (cli->yes)
        return 0;
    if (!cli->interactive) {
        say_error(CLI_REFUSED, "this would %s; nothing was changed", what);
        say_hint("--yes does it without being asked");
        return CLI_REFUSED;
    }
    struct buf line;
    buf_init(&line, SENTENCE_MAX);
    text_clean(slice_of(what), TEXT_LINE, &line);
    if (line.len > 0 && line.ptr[0] >= 'a' && line.ptr[0] <= 'z')
        line.ptr[0] = (char)(line.ptr[0] - 'a' + 'A');
    fflush(stdout);
    fprintf(stderr, "%s? [y/N] ", buf_str(&line));
    fflush(stderr);
    buf_release(&line);
    if (answer_is_yes())
        return 0;
    return say_error(CLI_REFUSED, "nothing was changed");
}
