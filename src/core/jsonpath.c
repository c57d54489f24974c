/* jsonpath: reading a path into segments.
 *
 *     path     = "$" { space segment }
 *     segment  = "." ( name | "*" ) | ".." ( name | "*" | list ) | list
 *     list     = "[" selector { "," selector } "]"
 *     selector = string | "*" | int | [ int ] ":" [ int ] [ ":" [ int ] ]
 *     name     = a letter, "_" or a character past ASCII, then these and digits
 *
 * As in RFC 9535, white space may stand between segments and inside brackets, and nowhere else. */
#include "core/jsonpath_tree.h"
#include "core/scan.h"

#define TEXT_MAX 65536               /* bytes of a path */
#define INT_LIMIT 9007199254740991LL /* 2^53 - 1: RFC 9535 allows no more */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* is_name_first is true for what a name outside of quotes may begin with. */
static bool is_name_first(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* is_name_char is true for what a name outside of quotes may have in it. */
static bool is_name_char(char c)
{
    return is_name_first(c) || is_digit(c);
}

/* take takes one character, and the space before it, when it stands next. */
static bool take(struct scan *p, char c)
{
    scan_space(p);
    if (p->at == p->text.len || p->text.ptr[p->at] != c)
        return false;
    p->at++;
    return true;
}

/* string_end is where the string that begins at `begin` has its closing quote, or the text ends. */
static size_t string_end(const struct scan *p, size_t begin)
{
    size_t at = begin + 1;

    while (at < p->text.len && p->text.ptr[at] != p->text.ptr[begin])
        at += p->text.ptr[at] == '\\' ? 2 : 1;
    return at < p->text.len ? at : p->text.len;
}

/* requote writes a string of a path as JSON has it: in double quotes, which '...' need not escape
 * and may not, as "..." may not escape a single one.  Returns its length; 0 when it does. */
static size_t requote(struct scan *p, size_t begin, size_t end, char *out)
{
    char quote = p->text.ptr[begin];
    size_t len = 0;

    out[len++] = '"';
    for (size_t at = begin + 1; at < end; at++) {
        char c = p->text.ptr[at];
        if (c == '\\') {
            char next = p->text.ptr[++at];
            if ((next == '\'' || next == '"') && next != quote) {
                scan_wrong(p, at - 1,
                           "no such escape: only the quote that the name stands in has one");
                return 0;
            }
            if (next != '\'')
                out[len++] = '\\';
            c = next;
        } else if (c == '"') {
            out[len++] = '\\';
        }
        out[len++] = c;
    }
    out[len++] = '"';
    return len;
}

/* read_string reads a name in quotes; escapes are those of JSON, which judges and decodes them. */
static bool read_string(struct scan *p, struct slice *out)
{
    size_t begin = p->at, end = string_end(p, begin), len;
    struct json string;
    struct err err = {0};
    char *text;

    if (end == p->text.len)
        return scan_wrong(p, begin, "this name does not end");
    text = scan_alloc(p, 2 * (end - begin) + 2);
    len = text ? requote(p, begin, end, text) : 0;
    if (len == 0)
        return false;
    if (json_parse((struct slice){text, len}, &string, &err) != STATUS_OK) {
        const char *what = strrchr(err.text, ':');
        return scan_wrong(p, begin, what ? what + 2 : err.text);
    }
    *out = json_text(string, p->arena);
    if (!out->ptr && p->status == STATUS_OK)
        p->status = err_no_memory(p->err);
    p->at = end + 1;
    return out->ptr;
}

/* read_int reads a whole number: no plus, no zeros in front, no -0. */
static bool read_int(struct scan *p, int64_t *out)
{
    size_t begin = p->at;
    bool negative = scan_peek(p) == '-';
    int64_t value = 0;

    p->at += negative;
    size_t first = p->at;
    for (; is_digit(scan_peek(p)); p->at++)
        if (value <= INT_LIMIT)
            value = value * 10 + (scan_peek(p) - '0');
    if (p->at == first)
        return scan_expected(p, "a digit");
    if (p->text.ptr[first] == '0' && (negative || p->at > first + 1))
        return scan_wrong(p, begin, "a number has no 0 in front, and no -0");
    if (value > INT_LIMIT)
        return scan_wrong(p, begin, "this number is too large");
    *out = negative ? -value : value;
    return true;
}

/* read_bound reads a number of a slice when one stands there. */
static bool read_bound(struct scan *p, int64_t *out, bool *given)
{
    scan_space(p);
    *given = scan_peek(p) == '-' || is_digit(scan_peek(p));
    return !*given || read_int(p, out);
}

/* read_place reads an index or a slice. */
static bool read_place(struct scan *p, struct path_selector *out)
{
    bool step;

    out->kind = PATH_INDEX;
    out->step = 1;
    if (!read_bound(p, &out->start, &out->has_start))
        return false;
    if (!take(p, ':'))
        return true;
    out->kind = PATH_SLICE;
    if (!read_bound(p, &out->end, &out->has_end))
        return false;
    return !take(p, ':') || read_bound(p, &out->step, &step);
}

static bool read_selector(struct scan *p, struct path_selector *out)
{
    scan_space(p);
    char c = scan_peek(p);
    if (c == '"' || c == '\'') {
        out->kind = PATH_NAME;
        return read_string(p, &out->name);
    }
    if (c == '-' || c == ':' || is_digit(c))
        return read_place(p, out);
    if (c == '?')
        return scan_wrong(p, p->at, "a condition (?) cannot stand in a path: give it as --filter");
    out->kind = PATH_ALL;
    return take(p, '*') || scan_expected(p, "a name in quotes, a position, a slice or '*'");
}

/* read_list reads the selectors of a bracket, from behind it on. */
static bool read_list(struct scan *p, struct path_selector **out)
{
    do {
        struct path_selector *selector = scan_alloc(p, sizeof(*selector));
        if (!selector || !read_selector(p, selector))
            return false;
        *out = selector;
        out = &selector->next;
    } while (take(p, ','));
    return take(p, ']') || scan_expected(p, "',' or ']'");
}

/* read_short reads a name without quotes, or the wildcard. */
static bool read_short(struct scan *p, const char *what, struct path_selector **out)
{
    struct path_selector *selector = scan_alloc(p, sizeof(*selector));
    size_t begin = p->at;

    if (!selector)
        return false;
    *out = selector;
    if (scan_peek(p) == '*') {
        selector->kind = PATH_ALL;
        p->at++;
        return true;
    }
    if (!is_name_first(scan_peek(p)))
        return scan_expected(p, what);
    while (is_name_char(scan_peek(p)))
        p->at++;
    selector->kind = PATH_NAME;
    selector->name = arena_dup(p->arena, (struct slice){p->text.ptr + begin, p->at - begin});
    if (!selector->name.ptr && p->status == STATUS_OK)
        p->status = err_no_memory(p->err);
    return selector->name.ptr;
}

static bool read_segment(struct scan *p, struct path_segment *out)
{
    if (take(p, '['))
        return read_list(p, &out->selectors);
    if (!take(p, '.'))
        return scan_expected(p,
                             "'.' or '[' (a name with other characters stands in quotes: ['a-b'])");
    out->descent = scan_peek(p) == '.';
    if (!out->descent)
        return read_short(p, "a name or '*' after '.'", &out->selectors);
    p->at++;
    if (scan_peek(p) != '[')
        return read_short(p, "a name, '*' or '[' after '..'", &out->selectors);
    p->at++;
    return read_list(p, &out->selectors);
}

static bool read_path(struct scan *p, struct jsonpath *out)
{
    struct path_segment **last = &out->first;

    if (scan_peek(p) != '$')
        return scan_expected(p, "'$'");
    p->at++;
    while (p->at < p->text.len) {
        size_t begin = p->at;
        scan_space(p);
        if (p->at == p->text.len)
            return scan_wrong(p, begin, "white space may not stand at the end of a path");
        struct path_segment *segment = scan_alloc(p, sizeof(*segment));
        if (!segment || !read_segment(p, segment))
            return false;
        *last = segment;
        last = &segment->next;
    }
    return true;
}

/* check_text refuses what no path may have in it. */
static enum status check_text(struct scan *p)
{
    const char *nul = p->text.len ? memchr(p->text.ptr, '\0', p->text.len) : NULL;

    if (p->text.len > TEXT_MAX)
        return err_set(p->err, STATUS_INVALID, "a path may have %d bytes: this one has %zu",
                       TEXT_MAX, p->text.len);
    if (!json_utf8_valid(p->text))
        return err_set(p->err, STATUS_INVALID, "a path must be valid UTF-8");
    if (nul)
        scan_wrong(p, (size_t)(nul - p->text.ptr), "a NUL byte may not stand in a path");
    return p->status;
}

enum status jsonpath_parse(struct slice text, struct arena *arena, const struct jsonpath **out,
                           struct err *err)
{
    struct scan parser = {
        .text = text, .arena = arena, .err = err, .whole = "path", .is_name = is_name_char};
    struct jsonpath *path;

    if (check_text(&parser) != STATUS_OK)
        return STATUS_INVALID;
    path = scan_alloc(&parser, sizeof(*path));
    if (!path || !read_path(&parser, path))
        return parser.status;
    *out = path;
    return STATUS_OK;
}
