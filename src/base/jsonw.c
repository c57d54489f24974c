/* jsonw: writing JSON into a buffer.
 *
 * A value or a key writes the comma before itself; a key or an opening bracket says that none is
 * needed next.  That one bit is all the state there is, so a writer can be begun anywhere. */
#include "base/jsonw.h"

#include <math.h>

#include "base/number.h"
#include "base/utf8.h"

void jsonw_init(struct jsonw *w, struct buf *buf)
{
    *w = (struct jsonw){.buf = buf};
}

static void separate(struct jsonw *w)
{
    if (w->comma)
        buf_add_char(w->buf, ',');
    w->comma = true;
}

static void open_with(struct jsonw *w, char bracket)
{
    separate(w);
    buf_add_char(w->buf, bracket);
    w->comma = false;
}

static void close_with(struct jsonw *w, char bracket)
{
    buf_add_char(w->buf, bracket);
    w->comma = true;
}

void jsonw_object(struct jsonw *w)
{
    open_with(w, '{');
}

void jsonw_object_end(struct jsonw *w)
{
    close_with(w, '}');
}

void jsonw_array(struct jsonw *w)
{
    open_with(w, '[');
}

void jsonw_array_end(struct jsonw *w)
{
    close_with(w, ']');
}

/* add_escaped writes one byte that may not stand in a string as it is. */
static void add_escaped(struct buf *buf, uint8_t c)
{
    static const char letters[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't',
    };
    char letter = c < 0x20 ? letters[c] : (char)c; /* else the quote or the backslash itself */
    if (letter) {
        char escape[2] = {'\\', letter};
        buf_add(buf, escape, sizeof(escape));
    } else {
        buf_add_str(buf, "\\u00");
        buf_add_hex(buf, &c, 1);
    }
}

/* add_quoted writes text as a JSON string: runs that need no care as they are, one step at a time
 * between them. */
static void add_quoted(struct buf *buf, struct slice text)
{
    buf_add_char(buf, '"');
    for (size_t i = 0; i < text.len;) {
        const uint8_t *at = (const uint8_t *)text.ptr + i;
        size_t left = text.len - i, plain = utf8_plain(at, left);
        if (plain) {
            buf_add(buf, at, plain);
            i += plain;
            continue;
        }
        bool valid;
        size_t len = utf8_step(at, left, &valid);
        if (len == 1 && valid)
            add_escaped(buf, *at);
        else if (valid)
            buf_add(buf, at, len);
        else
            buf_add_str(buf, "\xEF\xBF\xBD"); /* U+FFFD */
        i += len;
    }
    buf_add_char(buf, '"');
}

void jsonw_key_slice(struct jsonw *w, struct slice key)
{
    separate(w);
    add_quoted(w->buf, key);
    buf_add_char(w->buf, ':');
    w->comma = false;
}

void jsonw_key(struct jsonw *w, const char *key)
{
    jsonw_key_slice(w, slice_of(key));
}

void jsonw_string(struct jsonw *w, struct slice text)
{
    separate(w);
    add_quoted(w->buf, text);
}

void jsonw_int(struct jsonw *w, int64_t value)
{
    char digits[24];
    char *at = digits + sizeof(digits), *end = at;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    separate(w);
    buf_add(w->buf, at, (size_t)(end - at));
}

void jsonw_double(struct jsonw *w, double value)
{
    if (!isfinite(value)) {
        jsonw_null(w);
        return;
    }
    char text[NUMBER_TEXT_SIZE];
    jsonw_raw(w, (struct slice){text, number_format(value, text)});
}

void jsonw_bool(struct jsonw *w, bool value)
{
    jsonw_raw(w, value ? SLICE("true") : SLICE("false"));
}

void jsonw_null(struct jsonw *w)
{
    jsonw_raw(w, SLICE("null"));
}

void jsonw_instant(struct jsonw *w, struct instant t)
{
    if (!instant_is_set(t)) {
        jsonw_null(w);
        return;
    }
    separate(w);
    buf_add_char(w->buf, '"');
    instant_print(t, w->buf);
    buf_add_char(w->buf, '"');
}

void jsonw_raw(struct jsonw *w, struct slice json)
{
    separate(w);
    buf_add_slice(w->buf, json.len ? json : SLICE("null"));
}

void jsonw_put_string(struct jsonw *w, const char *key, struct slice text)
{
    jsonw_key(w, key);
    jsonw_string(w, text);
}

void jsonw_put_str(struct jsonw *w, const char *key, const char *text)
{
    jsonw_key(w, key);
    jsonw_string(w, slice_of(text));
}

void jsonw_put_int(struct jsonw *w, const char *key, int64_t value)
{
    jsonw_key(w, key);
    jsonw_int(w, value);
}

void jsonw_put_double(struct jsonw *w, const char *key, double value)
{
    jsonw_key(w, key);
    jsonw_double(w, value);
}

void jsonw_put_bool(struct jsonw *w, const char *key, bool value)
{
    jsonw_key(w, key);
    jsonw_bool(w, value);
}

void jsonw_put_instant(struct jsonw *w, const char *key, struct instant t)
{
    jsonw_key(w, key);
    jsonw_instant(w, t);
}

void jsonw_put_raw(struct jsonw *w, const char *key, struct slice json)
{
    jsonw_key(w, key);
    jsonw_raw(w, json);
}

void jsonw_put_text(struct jsonw *w, const char *key, struct slice text)
{
    if (text.len)
        jsonw_put_string(w, key, text);
}
