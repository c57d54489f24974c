/* text: a pass over decoded characters; see text.h for what is dropped and why.
 *
 * An escape sequence is recognised by the grammar of ECMA-48:
 *
 *     ESC [  or U+009B      control sequence: parameters 0x30-3F, intermediates 0x20-2F, final
 * 40-7E ESC P X ] ^ _  or C1  control string: up to BEL or ST (ESC \ or U+009C) ESC 0x20-2F...
 * final  any other sequence
 *
 * One that does not end within the text loses its introducer only, so that an unended sequence
 * cannot hide what follows it. */
#include "cli/text.h"

#include <wchar.h>

#include "base/utf8.h"

#define ESC 0x1b
#define BEL 0x07

size_t text_next(struct slice text, uint32_t *character)
{
    const uint8_t *p = (const uint8_t *)text.ptr;
    bool valid;
    size_t len = utf8_step(p, text.len, &valid);

    uint32_t c = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3fu);
    *character = valid ? c : 0xfffd;
    return len;
}

static struct slice slice_after(struct slice text, size_t len)
{
    return (struct slice){text.ptr + len, text.len - len};
}

static bool is_bidi(uint32_t c)
{
    return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* control_sequence_len is the length of parameters, intermediates and final byte; 0: unended. */
static size_t control_sequence_len(struct slice text)
{
    size_t i = 0;
    while (i < text.len && text.ptr[i] >= 0x30 && text.ptr[i] <= 0x3f)
        i++;
    while (i < text.len && text.ptr[i] >= 0x20 && text.ptr[i] <= 0x2f)
        i++;
    return i < text.len && text.ptr[i] >= 0x40 && text.ptr[i] <= 0x7e ? i + 1 : 0;
}

/* control_string_len is the length up to and with the terminator; 0: unended. */
static size_t control_string_len(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        unsigned char next = i + 1 < text.len ? (unsigned char)text.ptr[i + 1] : 0;
        if (c == BEL)
            return i + 1;
        if ((c == ESC && next == '\\') || (c == 0xc2 && next == 0x9c))
            return i + 2;
    }
    return 0;
}

/* plain_escape_len is the length of the bytes after ESC that belong to any other sequence. */
static size_t plain_escape_len(struct slice text)
{
    size_t i = 0;
    while (i < text.len && text.ptr[i] >= 0x20 && text.ptr[i] <= 0x2f)
        i++;
    return i < text.len && text.ptr[i] >= 0x30 && text.ptr[i] <= 0x7e ? i + 1 : 0;
}

/* sequence_len is how many bytes at the beginning of `text` are an escape sequence whose first
 * character `c` takes `len` bytes; at least `len`. */
static size_t sequence_len(struct slice text, uint32_t c, size_t len)
{
    struct slice rest = slice_after(text, len);

    /* ESC and a byte of 0x40-5F are another way to write a C1 character. */
    if (c == ESC && rest.len > 0 && rest.ptr[0] >= 0x40 && rest.ptr[0] <= 0x5f) {
        c = 0x40 + (unsigned char)rest.ptr[0];
        len++;
        rest = slice_after(text, len);
    }
    switch (c) {
    case ESC:
        return len + plain_escape_len(rest);
    case 0x9b:
        return len + control_sequence_len(rest);
    case 0x90:
    case 0x98:
    case 0x9d:
    case 0x9e:
    case 0x9f:
        return len + control_string_len(rest);
    default:
        return len;
    }
}

/* line_end_len is how many bytes at the beginning of `text` end a line; 0: none do. */
static size_t line_end_len(struct slice text, uint32_t c, size_t len)
{
    if (c == '\r')
        return text.len > 1 && text.ptr[1] == '\n' ? 2 : 1;
    return c == '\n' || c == 0x2028 || c == 0x2029 ? len : 0;
}

void text_clean(struct slice text, enum text_shape shape, struct buf *out)
{
    while (text.len > 0) {
        uint32_t c;
        size_t len = text_next(text, &c);
        size_t end = line_end_len(text, c, len);

        if (end > 0) {
            buf_add_char(out, shape == TEXT_LINE ? ' ' : '\n');
            len = end;
        } else if (c == '\t') {
            buf_add_char(out, shape == TEXT_LINE ? ' ' : '\t');
        } else if (is_control(c)) {
            len = sequence_len(text, c, len);
        } else if (c == 0xfffd) {
            buf_add_str(out, "\xef\xbf\xbd");
        } else if (!is_bidi(c)) {
            buf_add(out, text.ptr, len);
        }
        text = slice_after(text, len);
    }
}

void text_escape_json(struct slice json, struct buf *out)
{
    while (json.len > 0) {
        uint32_t c;
        size_t len = text_next(json, &c);
        if ((c >= 0x7f && c < 0xa0) || is_bidi(c))
            buf_addf(out, "\\u%04x", (unsigned)c);
        else
            buf_add(out, json.ptr, len);
        json = slice_after(json, len);
    }
}

/* character_columns is 0 for a mark that stands on the character before it, 2 for a wide one. */
static size_t character_columns(uint32_t c)
{
    if (c < 0x7f)
        return 1;
    /* It makes a picture of the character before it: on some terminals a wide one. */
    if (c == 0xfe0f)
        return 1;
    int columns = wcwidth((wchar_t)c);
    if (columns >= 0)
        return (size_t)columns;
    /* The locale does not know it.  No character before these is wide. */
    return c < 0x1100 ? 1 : 2;
}

size_t text_columns(struct slice text)
{
    size_t columns = 0;
    while (text.len > 0) {
        uint32_t c;
        size_t len = text_next(text, &c);
        columns += character_columns(c);
        text = slice_after(text, len);
    }
    return columns;
}

size_t text_fit(struct slice text, size_t columns)
{
    size_t taken = 0;
    while (taken < text.len) {
        uint32_t c;
        size_t len = text_next(slice_after(text, taken), &c);
        size_t needed = character_columns(c);
        if (needed > columns)
            break;
        columns -= needed;
        taken += len;
    }
    return taken;
}
