/* out: printing for a person or for a program; see out.h. */
#include "cli/out.h"

#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/seams.h"
#include "cli/cli.h"
#include "cli/say.h"
#include "cli/text.h"

#define OUT_WRAP_COLUMNS 80
#define OUT_TEXT_MAX ((size_t)1 << 30)

size_t out_columns(const struct out *out)
{
    struct winsize size = {0};
    if (out->terminal && ioctl(fileno(out->file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return OUT_WRAP_COLUMNS;
}

/* table_columns is the width that tables are made for: no table fits into less than 20. */
static size_t table_columns(const struct out *out)
{
    size_t columns = out_columns(out);
    return columns < 20 ? OUT_WRAP_COLUMNS : columns;
}

void out_init(struct out *out, FILE *file, bool no_color)
{
    const char *asked = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    const struct seams *world = seams_real();

    *out = (struct out){.file = file, .now = world->wall(world->ctx)};
    out->terminal = isatty(fileno(file)) == 1;
    out->columns = table_columns(out);
    out->color =
        out->terminal && !no_color && !(asked && *asked) && term && strcmp(term, "dumb") != 0;
    out->unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void out_str(struct out *out, const char *text)
{
    fputs(text, out->file);
}

void out_format(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(out->file, format, args);
    va_end(args);
}

const char *out_code(const struct out *out, enum style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m", [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
        [STYLE_RED] = "\033[31m",  [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m"};
    return out->color ? codes[style] : "";
}

void out_style(struct out *out, enum style style)
{
    fputs(out_code(out, style), out->file);
}

void out_styled(struct out *out, enum style style, const char *text)
{
    out_style(out, style);
    out_str(out, text);
    out_style(out, STYLE_PLAIN);
}

static void write_slice(struct out *out, struct slice text)
{
    if (text.len > 0)
        fwrite(text.ptr, 1, text.len, out->file);
}

/* write_buf writes what was made in `buf` and releases it; a text that had no room is an error. */
static void write_buf(struct out *out, struct buf *buf)
{
    if (buf_status(buf, NULL) == STATUS_OK)
        write_slice(out, buf_slice(buf));
    else
        out_str(out, "(too large to show: see -o json)");
    buf_release(buf);
}

void out_clean(struct out *out, struct slice text)
{
    struct buf buf;
    buf_init(&buf, OUT_TEXT_MAX);
    text_clean(text, TEXT_LINE, &buf);
    write_buf(out, &buf);
}

void out_word(struct out *out, struct slice word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._:@%+,/-";
    bool quote = word.len == 0;

    for (size_t i = 0; i < word.len; i++)
        quote = quote || word.ptr[i] == '\0' || !strchr(plain, word.ptr[i]);
    if (!quote) {
        out_clean(out, word);
        return;
    }
    out_str(out, "'");
    for (size_t i = 0, start = 0; i <= word.len; i++) {
        if (i < word.len && word.ptr[i] != '\'')
            continue;
        out_clean(out, (struct slice){word.ptr + start, i - start});
        out_str(out, i < word.len ? "'\\''" : "'");
        start = i + 1;
    }
}

void out_block(struct out *out, struct slice text, unsigned indent)
{
    struct buf clean;
    buf_init(&clean, OUT_TEXT_MAX);
    text_clean(text, TEXT_BLOCK, &clean);
    struct slice rest = buf_slice(&clean);
    while (rest.len > 0) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
        out_format(out, "%*s", len > 0 ? (int)indent : 0, "");
        write_slice(out, (struct slice){rest.ptr, len});
        out_str(out, "\n");
        len += end != NULL;
        rest = (struct slice){rest.ptr + len, rest.len - len};
    }
    buf_release(&clean);
}

void out_wrap(struct out *out, const char *text, unsigned indent)
{
    size_t width = out->columns < OUT_WRAP_COLUMNS ? out->columns : OUT_WRAP_COLUMNS;
    size_t column = 0;

    while (*text) {
        if (*text == '\n') {
            out_str(out, text[1] == '\n' ? "\n\n" : column ? "\n" : "");
            text += text[1] == '\n' ? 2 : 1;
            column = 0;
            continue;
        }
        size_t len = strcspn(text, " \n");
        if (column > 0 && column + 1 + len > width) {
            out_str(out, "\n");
            column = 0;
        }
        out_format(out, "%*s%.*s", column == 0 ? (int)indent : 1, "", (int)len, text);
        column += len + (column == 0 ? indent : 1);
        text += len;
        text += strspn(text, " ");
    }
    out_str(out, "\n");
}

void out_raw(struct out *out, struct slice json)
{
    if (!out->terminal) {
        write_slice(out, json);
        return;
    }
    struct buf buf;
    buf_init(&buf, OUT_TEXT_MAX);
    text_escape_json(json, &buf);
    write_buf(out, &buf);
}

void out_json(struct out *out, struct slice json)
{
    while (json.len > 0 && json.ptr[json.len - 1] == '\n')
        json.len--;
    out_raw(out, json);
    out_str(out, "\n");
}

static void pretty(struct buf *buf, struct json value, unsigned indent)
{
    bool object = value.type == JSON_OBJECT;
    struct json_iter iter;
    struct json key = {0}, child;
    bool first = true;

    if ((!object && value.type != JSON_ARRAY) || json_count(value) == 0) {
        text_clean(value.raw, TEXT_LINE, buf);
        return;
    }
    buf_add_char(buf, object ? '{' : '[');
    json_iter_init(&iter, value);
    while (json_next(&iter, &key, &child)) {
        buf_addf(buf, "%s\n%*s", first ? "" : ",", (int)indent + 2, "");
        if (object) {
            text_clean(key.raw, TEXT_LINE, buf);
            buf_add_str(buf, ": ");
        }
        pretty(buf, child, indent + 2);
        first = false;
    }
    buf_addf(buf, "\n%*s%c", (int)indent, "", object ? '}' : ']');
}

void out_pretty(struct out *out, struct json value, unsigned indent)
{
    struct buf buf;
    buf_init(&buf, OUT_TEXT_MAX);
    buf_addf(&buf, "%*s", (int)indent, "");
    pretty(&buf, value, indent);
    buf_add_char(&buf, '\n');
    write_buf(out, &buf);
}

bool out_ok(const struct out *out)
{
    return !ferror(out->file);
}

/* reader_is_gone asks the descriptor, as the errno of an earlier write is lost by now. */
static bool reader_is_gone(FILE *file)
{
    struct pollfd end = {.fd = fileno(file), .events = POLLOUT};
    return poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

int out_finish(struct out *out)
{
    bool failed = ferror(out->file) != 0;

    errno = 0;
    if (fflush(out->file) != 0)
        failed = true;
    if (!failed || errno == EPIPE || reader_is_gone(out->file))
        return 0;
    if (errno == 0)
        return say_error(CLI_STORE, "cannot write the output");
    return say_error(CLI_STORE, "cannot write the output: %s", strerror(errno));
}
