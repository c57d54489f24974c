/* filter: reading an expression into a small tree.
 *
 *     or      = and { "||" and }
 *     and     = unary { "&&" unary }
 *     unary   = "!" unary | "(" or ")" | compare
 *     compare = field [ OP value ]              a field alone must be true
 *     field   = "item" { "." name | "[" index "]" | "[" string "]" } | a letter's field
 *     value   = string | number | true | false | null
 *
 * `!` reaches over the comparison behind it: !item.a == 1 is !(item.a == 1). */
#include "core/filter.h"

#include "core/field.h"
#include "core/filter_tree.h"
#include "core/scan.h"

#define DEPTH_MAX 64   /* parentheses and ! inside each other */
#define TEXT_MAX 65536 /* bytes of an expression */

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_ELIGIBLE] = "reprocess_eligible",
    [FIELD_FAILURE_COUNT] = "failure_count",
    [FIELD_SIGNATURE] = "error_signature",
    [FIELD_ERROR_TYPE] = "error_type",
    [FIELD_REASON] = "reason",
    [FIELD_FINGERPRINT] = "fingerprint",
    [FIELD_ITEM] = "item",
};

/* is_name_char is true for what a name may have in it; there is no arithmetic, so - is one. */
static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '$' || (unsigned char)c >= 0x80;
}

/* take takes a sign when it stands next. */
static bool take(struct scan *p, const char *sign)
{
    struct slice rest;

    scan_space(p);
    rest = (struct slice){p->text.ptr + p->at, p->text.len - p->at};
    if (!slice_starts(rest, slice_of(sign)))
        return false;
    p->at += strlen(sign);
    return true;
}

/* take_name takes the longest name that stands next; an empty one when there is none. */
static struct slice take_name(struct scan *p)
{
    size_t begin;

    scan_space(p);
    begin = p->at;
    while (p->at < p->text.len && is_name_char(p->text.ptr[p->at]))
        p->at++;
    return (struct slice){p->text.ptr + begin, p->at - begin};
}

/* escape is what a backslash and a letter stand for; '\0' when they stand for nothing. */
static char escape(char letter)
{
    static const char from[] = "nrtbf\\/'\"", to[] = "\n\r\t\b\f\\/'\"";
    const char *at = letter ? strchr(from, letter) : NULL;

    return at ? to[at - from] : '\0';
}

/* string_end is where the string that begins at `begin` has its closing quote, or the text ends. */
static size_t string_end(const struct scan *p, size_t begin)
{
    size_t at = begin + 1;

    while (at < p->text.len && p->text.ptr[at] != p->text.ptr[begin])
        at += p->text.ptr[at] == '\\' ? 2 : 1;
    return at < p->text.len ? at : p->text.len;
}

/* read_string reads a quoted text, with a NUL behind it.  The next character is its quote. */
static bool read_string(struct scan *p, struct slice *out)
{
    size_t begin = p->at, end = string_end(p, begin), len = 0;
    char *text;

    if (end == p->text.len)
        return scan_wrong(p, begin, "this string does not end");
    text = scan_alloc(p, end - begin);
    if (!text)
        return false;
    for (p->at++; p->at < end; p->at++) {
        char c = p->text.ptr[p->at];
        if (c == '\\') {
            c = escape(p->text.ptr[++p->at]);
            if (c == '\0')
                return scan_wrong(p, p->at - 1, "no such escape: write \\\\ for a backslash");
        }
        text[len++] = c;
    }
    p->at++;
    *out = (struct slice){text, len};
    return true;
}

/* read_number takes what looks like a number and has json_parse judge it. */
static bool read_number(struct scan *p, struct operand *out)
{
    size_t begin = p->at;
    struct json number;

    while (scan_peek(p) &&
           (is_name_char(scan_peek(p)) || scan_peek(p) == '.' || scan_peek(p) == '+'))
        p->at++;
    struct slice text = {p->text.ptr + begin, p->at - begin};
    if (json_parse(text, &number, NULL) != STATUS_OK || number.type != JSON_NUMBER)
        return scan_wrong(p, begin, "this is not a number");
    *out = (struct operand){JSON_NUMBER, number.raw, false};
    return true;
}

static bool read_value(struct scan *p, struct operand *out)
{
    static const struct {
        const char *name;
        enum json_type type;
    } words[] = {{"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};
    struct slice word;
    size_t begin;

    scan_space(p);
    if (scan_peek(p) == '"' || scan_peek(p) == '\'') {
        *out = (struct operand){.type = JSON_STRING};
        return read_string(p, &out->text);
    }
    if (scan_peek(p) == '-' || (scan_peek(p) >= '0' && scan_peek(p) <= '9'))
        return read_number(p, out);
    begin = p->at;
    word = take_name(p);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_is(word, words[i].name)) {
            *out = (struct operand){.type = words[i].type};
            return true;
        }
    }
    p->at = begin;
    return scan_expected(p, word.len ? "a value (a text stands in quotes)" : "a value");
}

/* read_index reads the digits of [12]. */
static bool read_index(struct scan *p, uint64_t *out)
{
    uint64_t index = 0;

    if (scan_peek(p) < '0' || scan_peek(p) > '9')
        return scan_expected(p, "an index or a name in quotes");
    for (; scan_peek(p) >= '0' && scan_peek(p) <= '9'; p->at++)
        if (index <= UINT32_MAX) /* no array is longer: more digits do not matter */
            index = index * 10 + (uint64_t)(scan_peek(p) - '0');
    *out = index;
    return true;
}

/* read_segment reads one step of a path, from behind its . or [ on. */
static bool read_segment(struct scan *p, bool bracket, struct segment *out)
{
    struct slice name;

    if (!bracket) {
        name = take_name(p);
        if (name.len == 0)
            return scan_expected(p, "a name after '.'");
        name = arena_dup(p->arena, name);
        if (!name.ptr && p->status == STATUS_OK)
            p->status = err_no_memory(p->err);
        out->name = name.ptr;
        return name.ptr;
    }
    scan_space(p);
    if (scan_peek(p) == '"' || scan_peek(p) == '\'') {
        if (!read_string(p, &name))
            return false;
        out->name = name.ptr;
    } else if (!read_index(p, &out->index)) {
        return false;
    }
    return take(p, "]") || scan_expected(p, "']'");
}

static bool read_path(struct scan *p, struct segment **out)
{
    while (scan_peek(p) == '.' || scan_peek(p) == '[') {
        bool bracket = p->text.ptr[p->at++] == '[';
        struct segment *segment = scan_alloc(p, sizeof(*segment));
        if (!segment || !read_segment(p, bracket, segment))
            return false;
        *out = segment;
        out = &segment->next;
    }
    return true;
}

static bool read_field(struct scan *p, struct filter *out)
{
    size_t begin;
    struct slice name;

    scan_space(p);
    begin = p->at;
    name = take_name(p);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (slice_is(name, field_names[i])) {
            out->field = (enum field)i;
            return out->field != FIELD_ITEM || read_path(p, &out->path);
        }
    }
    p->at = begin;
    return scan_expected(p, name.len ? "a field (item.NAME for a member of the item)" : "a field");
}

/* read_operator takes an operator; OP_TRUE when none stands there. */
static enum op read_operator(struct scan *p)
{
    static const struct {
        const char *sign;
        enum op op;
    } signs[] = {{"==", OP_EQ}, {"!=", OP_NE}, {">=", OP_GE},
                 {">", OP_GT},  {"<=", OP_LE}, {"<", OP_LT}};
    size_t begin = p->at;

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (take(p, signs[i].sign))
            return signs[i].op;
    if (slice_is(take_name(p), "contains"))
        return OP_CONTAINS;
    p->at = begin;
    return OP_TRUE;
}

/* borders_make fills the borders of the text that is looked for. */
static bool borders_make(struct scan *p, struct filter *out)
{
    struct slice needle = out->value.text;
    size_t border = 0;

    if (out->value.type != JSON_STRING)
        return true;
    out->borders = scan_alloc(p, (needle.len + 1) * sizeof(size_t));
    if (!out->borders)
        return false;
    for (size_t i = 1; i < needle.len; i++) {
        while (border > 0 && needle.ptr[i] != needle.ptr[border])
            border = out->borders[border];
        border += needle.ptr[i] == needle.ptr[border];
        out->borders[i + 1] = border;
    }
    return true;
}

static struct filter *read_compare(struct scan *p)
{
    struct filter *compare = scan_alloc(p, sizeof(*compare));

    if (!compare || !read_field(p, compare))
        return NULL;
    compare->kind = KIND_COMPARE;
    compare->op = read_operator(p);
    if (compare->op == OP_TRUE) {
        scan_space(p);
        if (compare->field == FIELD_ELIGIBLE || compare->field == FIELD_ITEM)
            if (p->at == p->text.len || strchr(")&|", scan_peek(p)))
                return compare;
        return scan_expected(p, "an operator (== != > >= < <= contains)");
    }
    if (!read_value(p, &compare->value))
        return NULL;
    return compare->op != OP_CONTAINS || borders_make(p, compare) ? compare : NULL;
}

static struct filter *read_or(struct scan *p);

static struct filter *read_unary(struct scan *p)
{
    struct filter *inner;

    scan_space(p);
    bool negated = take(p, "!");
    if (!negated && !take(p, "("))
        return read_compare(p);
    if (p->depth == DEPTH_MAX)
        return scan_wrong(p, p->at - 1, "nested too deep");
    p->depth++;
    inner = negated ? read_unary(p) : read_or(p);
    p->depth--;
    if (!inner)
        return NULL;
    if (!negated)
        return take(p, ")") ? inner : scan_expected(p, "')', '&&' or '||'");
    struct filter *negation = scan_alloc(p, sizeof(*negation));
    if (negation)
        *negation = (struct filter){.kind = KIND_NOT, .first = inner};
    return negation;
}

/* read_list reads parts that are joined by one sign.  However many there are, the tree grows no
 * deeper. */
static struct filter *read_list(struct scan *p, enum kind kind, const char *sign,
                                struct filter *(*read_part)(struct scan *))
{
    struct filter *first = read_part(p), *last = first, *list;

    while (last && take(p, sign)) {
        last->next = read_part(p);
        last = last->next;
    }
    if (!last || first == last)
        return last;
    list = scan_alloc(p, sizeof(*list));
    if (list)
        *list = (struct filter){.kind = kind, .first = first};
    return list;
}

static struct filter *read_and(struct scan *p)
{
    return read_list(p, KIND_AND, "&&", read_unary);
}

static struct filter *read_or(struct scan *p)
{
    return read_list(p, KIND_OR, "||", read_and);
}

/* check_text refuses what no expression may have in it. */
static enum status check_text(struct scan *p)
{
    const char *nul = p->text.len ? memchr(p->text.ptr, '\0', p->text.len) : NULL;

    if (p->text.len > TEXT_MAX)
        return err_set(p->err, STATUS_INVALID, "a filter may have %d bytes: this one has %zu",
                       TEXT_MAX, p->text.len);
    if (!json_utf8_valid(p->text))
        return err_set(p->err, STATUS_INVALID, "a filter must be valid UTF-8");
    if (nul)
        scan_wrong(p, (size_t)(nul - p->text.ptr), "a NUL byte may not stand in a filter");
    return p->status;
}

enum status filter_parse(struct slice text, struct arena *arena, const struct filter **out,
                         struct err *err)
{
    struct scan parser = {
        .text = text, .arena = arena, .err = err, .whole = "filter", .is_name = is_name_char};
    struct filter *filter;

    if (check_text(&parser) != STATUS_OK)
        return STATUS_INVALID;
    parser.text = arena_dup(arena, text);
    if (!parser.text.ptr)
        return err_no_memory(err);
    filter = read_or(&parser);
    scan_space(&parser);
    if (filter && parser.at < text.len)
        filter = scan_expected(&parser, "'&&', '||' or end of filter");
    if (!filter)
        return parser.status;
    *out = filter;
    return STATUS_OK;
}
