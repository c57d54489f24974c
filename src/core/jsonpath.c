/* jsonpath: reading a path into segments.
 *
 *     path     = "$" { space segment }
 *     segment  = "." ( name | "*" ) | ".." ( name | "*" | list ) | list
 *     list     = "[" selector { "," selector } "]"
 *     selector = string | "*" | int | [ int ] ":" [ int ] [ ":" [ int ] ]
 *     name     = a letter, "_" or a character past ASCII, then these and digits
 *
 * As in RFC 9535, white space may stand between segments and inside brackets, and nowhere else. */
#include <stdio.h>

#include "core/field.h"
#include "core/jsonpath_tree.h"

#define TEXT_MAX 65536               /* bytes of a path */
#define FOUND_MAX 20                 /* bytes of it that an error repeats */
#define INT_LIMIT 9007199254740991LL /* 2^53 - 1: RFC 9535 allows no more */

struct parser {
    struct slice text;
    size_t at;
    struct arena *arena;
    struct err *err;
    enum status status;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* is_name_first is true for what a name outside of quotes may begin with. */
static bool is_name_first(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* column counts characters from 1, as a person does. */
static size_t column(const struct parser *p, size_t at)
{
    size_t count = 1;

    for (size_t i = 0; i < at; i++)
        count += ((unsigned char)p->text.ptr[i] & 0xC0) != 0x80;
    return count;
}

/* found writes what stands at `at`, for an error. */
static const char *found(const struct parser *p, size_t at, char out[FOUND_MAX + 8])
{
    struct slice rest = {p->text.ptr + at, p->text.len - at};
    size_t len = 1;

    if (rest.len == 0)
        return "end of path";
    if (is_name_first(rest.ptr[0]))
        while (len < rest.len && (is_name_first(rest.ptr[len]) || is_digit(rest.ptr[len])))
            len++;
    rest = field_head(rest, len < FOUND_MAX ? len : FOUND_MAX);
    snprintf(out, FOUND_MAX + 8, "'%.*s'", SLICE_ARG(rest));
    return out;
}

/* expected and wrong keep the first error.  They are NULL, which is also false, so that
 * `return expected(...)` ends a reader of either kind. */
static void *expected(struct parser *p, const char *what)
{
    char text[FOUND_MAX + 8];

    if (p->status == STATUS_OK)
        p->status = err_set(p->err, STATUS_INVALID, "column %zu: expected %s, found %s",
                            column(p, p->at), what, found(p, p->at, text));
    return NULL;
}

static void *wrong(struct parser *p, size_t at, const char *what)
{
    if (p->status == STATUS_OK)
        p->status = err_set(p->err, STATUS_INVALID, "column %zu: %s", column(p, at), what);
    return NULL;
}

static void *alloc(struct parser *p, size_t size)
{
    void *memory = arena_alloc(p->arena, size);

    if (!memory && p->status == STATUS_OK)
        p->status = err_no_memory(p->err);
    return memory;
}

static char peek(const struct parser *p)
{
    return p->at < p->text.len ? p->text.ptr[p->at] : '\0';
}

static void skip_space(struct parser *p)
{
    while (is_space(peek(p)))
        p->at++;
}

/* take takes one character, and the space before it, when it stands next. */
static bool take(struct parser *p, char c)
{
    skip_space(p);
    if (p->at == p->text.len || p->text.ptr[p->at] != c)
        return false;
    p->at++;
    return true;
}

/* string_end is where the string that begins at `begin` has its closing quote, or the text ends. */
static size_t string_end(const struct parser *p, size_t begin)
{
    size_t at = begin + 1;

    while (at < p->text.len && p->text.ptr[at] != p->text.ptr[begin])
        at += p->text.ptr[at] == '\\' ? 2 : 1;
    return at < p->text.len ? at : p->text.len;
}

/* requote writes a string of a path as JSON has it: in double quotes, which '...' need not escape
 * and may not, as "..." may not escape a single one.  Returns its length; 0 when it does. */
static size_t requote(struct parser *p, size_t begin, size_t end, char *out)
{
    char quote = p->text.ptr[begin];
    size_t len = 0;

    out[len++] = '"';
    for (size_t at = begin + 1; at < end; at++) {
        char c = p->text.ptr[at];
        if (c == '\\') {
            char next = p->text.ptr[++at];
            if ((next == '\'' || next == '"') && next != quote) {
                wrong(p, at - 1, "no such escape: only the quote that the name stands in has one");
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
static bool read_string(struct parser *p, struct slice *out)
{
    size_t begin = p->at, end = string_end(p, begin), len;
    struct json string;
    struct err err = {0};
    char *text;

    if (end == p->text.len)
        return wrong(p, begin, "this name does not end");
    text = alloc(p, 2 * (end - begin) + 2);
    len = text ? requote(p, begin, end, text) : 0;
    if (len == 0)
        return false;
    if (json_parse((struct slice){text, len}, &string, &err) != STATUS_OK) {
        const char *what = strrchr(err.text, ':');
        return wrong(p, begin, what ? what + 2 : err.text);
    }
    *out = json_text(string, p->arena);
    if (!out->ptr && p->status == STATUS_OK)
        p->status = err_no_memory(p->err);
    p->at = end + 1;
    return out->ptr;
}

/* read_int reads a whole number: no plus, no zeros in front, no -0. */
static bool read_int(struct parser *p, int64_t *out)
{
    size_t begin = p->at;
    bool negative = peek(p) == '-';
    int64_t value = 0;

    p->at += negative;
    size_t first = p->at;
    for (; is_digit(peek(p)); p->at++)
        if (value <= INT_LIMIT)
            value = value * 10 + (peek(p) - '0');
    if (p->at == first)
        return expected(p, "a digit");
    if (p->text.ptr[first] == '0' && (negative || p->at > first + 1))
        return wrong(p, begin, "a number has no 0 in front, and no -0");
    if (value > INT_LIMIT)
        return wrong(p, begin, "this number is too large");
    *out = negative ? -value : value;
    return true;
}

/* read_bound reads a number of a slice when one stands there. */
static bool read_bound(struct parser *p, int64_t *out, bool *given)
{
    skip_space(p);
    *given = peek(p) == '-' || is_digit(peek(p));
    return !*given || read_int(p, out);
}

/* read_place reads an index or a slice. */
static bool read_place(struct parser *p, struct path_selector *out)
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

static bool read_selector(struct parser *p, struct path_selector *out)
{
    skip_space(p);
    char c = peek(p);
    if (c == '"' || c == '\'') {
        out->kind = PATH_NAME;
        return read_string(p, &out->name);
    }
    if (c == '-' || c == ':' || is_digit(c))
        return read_place(p, out);
    if (c == '?')
        return wrong(p, p->at, "a condition (?) cannot stand in a path: give it as --filter");
    out->kind = PATH_ALL;
    return take(p, '*') || expected(p, "a name in quotes, a position, a slice or '*'");
}

/* read_list reads the selectors of a bracket, from behind it on. */
static bool read_list(struct parser *p, struct path_selector **out)
{
    do {
        struct path_selector *selector = alloc(p, sizeof(*selector));
        if (!selector || !read_selector(p, selector))
            return false;
        *out = selector;
        out = &selector->next;
    } while (take(p, ','));
    return take(p, ']') || expected(p, "',' or ']'");
}

/* read_short reads a name without quotes, or the wildcard. */
static bool read_short(struct parser *p, const char *what, struct path_selector **out)
{
    struct path_selector *selector = alloc(p, sizeof(*selector));
    size_t begin = p->at;

    if (!selector)
        return false;
    *out = selector;
    if (peek(p) == '*') {
        selector->kind = PATH_ALL;
        p->at++;
        return true;
    }
    if (!is_name_first(peek(p)))
        return expected(p, what);
    while (is_name_first(peek(p)) || is_digit(peek(p)))
        p->at++;
    selector->kind = PATH_NAME;
    selector->name = arena_dup(p->arena, (struct slice){p->text.ptr + begin, p->at - begin});
    if (!selector->name.ptr && p->status == STATUS_OK)
        p->status = err_no_memory(p->err);
    return selector->name.ptr;
}

static bool read_segment(struct parser *p, struct path_segment *out)
{
    if (take(p, '['))
        return read_list(p, &out->selectors);
    if (!take(p, '.'))
        return expected(p, "'.' or '[' (a name with other characters stands in quotes: ['a-b'])");
    out->descent = peek(p) == '.';
    if (!out->descent)
        return read_short(p, "a name or '*' after '.'", &out->selectors);
    p->at++;
    if (peek(p) != '[')
        return read_short(p, "a name, '*' or '[' after '..'", &out->selectors);
    p->at++;
    return read_list(p, &out->selectors);
}

static bool read_path(struct parser *p, struct jsonpath *out)
{
    struct path_segment **last = &out->first;

    if (peek(p) != '$')
        return expected(p, "'$'");
    p->at++;
    while (p->at < p->text.len) {
        size_t begin = p->at;
        skip_space(p);
        if (p->at == p->text.len)
            return wrong(p, begin, "white space may not stand at the end of a path");
        struct path_segment *segment = alloc(p, sizeof(*segment));
        if (!segment || !read_segment(p, segment))
            return false;
        *last = segment;
        last = &segment->next;
    }
    return true;
}

/* check_text refuses what no path may have in it. */
static enum status check_text(struct parser *p)
{
    const char *nul = p->text.len ? memchr(p->text.ptr, '\0', p->text.len) : NULL;

    if (p->text.len > TEXT_MAX)
        return err_set(p->err, STATUS_INVALID, "a path may have %d bytes: this one has %zu",
                       TEXT_MAX, p->text.len);
    if (!json_utf8_valid(p->text))
        return err_set(p->err, STATUS_INVALID, "a path must be valid UTF-8");
    if (nul)
        wrong(p, (size_t)(nul - p->text.ptr), "a NUL byte may not stand in a path");
    return p->status;
}

enum status jsonpath_parse(struct slice text, struct arena *arena, const struct jsonpath **out,
                           struct err *err)
{
    struct parser parser = {.text = text, .arena = arena, .err = err};
    struct jsonpath *path;

    if (check_text(&parser) != STATUS_OK)
        return STATUS_INVALID;
    path = alloc(&parser, sizeof(*path));
    if (!path || !read_path(&parser, path))
        return parser.status;
    *out = path;
    return STATUS_OK;
}
