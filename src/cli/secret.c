/* secret: see secret.h. */
#include "cli/secret.h"

#include "base/json.h"
#include "cli/file.h"
#include "cli/say.h"

#define SECRET_MAX 16384

/* one_line takes the newline off a text; false when what is left is empty or more than a line. */
static bool one_line(struct slice *text)
{
    if (text->len > 0 && text->ptr[text->len - 1] == '\n')
        text->len--;
    if (text->len > 0 && text->ptr[text->len - 1] == '\r')
        text->len--;
    for (size_t i = 0; i < text->len; i++)
        if ((unsigned char)text->ptr[i] < ' ' || text->ptr[i] == '\x7f')
            return false;
    return text->len > 0 && json_utf8_valid(*text);
}

int secret_file(struct cli *cli, const char *name, const char *path, const char **out)
{
    struct buf text;
    struct err err = {0};
    int code = 0;

    buf_init(&text, SECRET_MAX);
    if (file_read(path, &text, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "%s: %s", name, err.text);
    struct slice line = buf_slice(&text);
    if (code == 0 && !one_line(&line))
        code =
            say_error(CLI_USAGE, "%s: %s must have one line of text, and nothing else", name, path);
    if (code == 0) {
        *out = arena_dup(&cli->arena, line).ptr;
        code = *out ? 0 : say_no_memory();
    }
    buf_release(&text);
    return code;
}

int secret_value(struct cli *cli, const char *name, const char *value, const char **out)
{
    if (value[0] == '@')
        return secret_file(cli, name, value + 1, out);
    if (!*value)
        return say_error(CLI_USAGE, "%s: must not be empty", name);
    *out = value;
    return 0;
}
