/* json: a strict scanner over borrowed bytes.
 *
 * There are two readers here.  The *checking* one (scan_*) sees every byte once, in one loop with a
 * bit a level instead of recursion, so that hostile nesting costs nothing.  The *trusting* one
 * (skip_*, json_next and what decodes) reads only what the first has accepted: it looks for the end
 * of a value and for nothing else, and never needs to fail. */
#include "base/json.h"

#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

#define TEXT_OF(macro) TEXT_OF_EXPANDED(macro)
#define TEXT_OF_EXPANDED(text) #text

struct scan {
    const uint8_t *begin;
    const uint8_t *at;
    const uint8_t *end;
    const char *wrong;                     /* what is wrong at `at`, once something is */
    unsigned depth;                        /* open containers */
    uint64_t objects[JSON_DEPTH_MAX / 64]; /* a bit for each of them: it is an object */
};

static bool scan_wrong(struct scan *s, const char *wrong)
{
    s->wrong = wrong;
    return false;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static void scan_space(struct scan *s)
{
    while (s->at < s->end && is_space(*s->at))
        s->at++;
}

/* scan_is takes one byte when it is the one that is wanted. */
static bool scan_is(struct scan *s, char wanted)
{
    if (s->at == s->end || *s->at != (uint8_t)wanted)
        return false;
    s->at++;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* scan_unit reads the four hex digits after "\u"; -1 when they are not there. */
static int scan_unit(struct scan *s)
{
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = s->at < s->end ? hex_digit(*s->at) : -1;
        if (digit < 0) {
            scan_wrong(s, "expected four hex digits after \\u");
            return -1;
        }
        unit = unit << 4 | digit;
        s->at++;
    }
    return unit;
}

/* scan_escape reads what follows a backslash. */
static bool scan_escape(struct scan *s)
{
    const uint8_t *begin = s->at;
    uint8_t c = begin < s->end ? *begin : '\0';
    if (c == '\0' || !strchr("\"\\/bfnrtu", c))
        return scan_wrong(s, "no such escape in a string");
    s->at++;
    if (c != 'u')
        return true;

    int unit = scan_unit(s);
    if (unit < 0)
        return false;
    if (unit < 0xD800 || unit > 0xDFFF)
        return true;
    bool paired = unit < 0xDC00 && scan_is(s, '\\') && scan_is(s, 'u');
    if (paired) {
        unit = scan_unit(s);
        if (unit < 0)
            return false;
        paired = unit >= 0xDC00 && unit <= 0xDFFF;
    }
    if (!paired) {
        s->at = begin;
        return scan_wrong(s, "half of a surrogate pair in a string");
    }
    return true;
}

/* scan_string reads a string from behind its opening quote to behind its closing one. */
static bool scan_string(struct scan *s)
{
    for (;;) {
        s->at += utf8_plain(s->at, (size_t)(s->end - s->at));
        if (s->at == s->end)
            return scan_wrong(s, "the string does not end");
        uint8_t c = *s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c == '\\') {
            s->at++;
            if (!scan_escape(s))
                return false;
            continue;
        }
        if (c < 0x20)
            return scan_wrong(s, "a control character in a string");
        bool valid;
        size_t len = utf8_step(s->at, (size_t)(s->end - s->at), &valid);
        if (!valid)
            return scan_wrong(s, "bytes that are not UTF-8 in a string");
        s->at += len;
    }
}

/* scan_digits reads one digit or more. */
static bool scan_digits(struct scan *s)
{
    if (s->at == s->end || !is_digit(*s->at))
        return scan_wrong(s, "expected a digit");
    while (s->at < s->end && is_digit(*s->at))
        s->at++;
    return true;
}

static bool scan_number(struct scan *s)
{
    scan_is(s, '-');
    if (!scan_is(s, '0') && !scan_digits(s))
        return false;
    if (scan_is(s, '.') && !scan_digits(s))
        return false;
    if (scan_is(s, 'e') || scan_is(s, 'E')) {
        if (!scan_is(s, '+'))
            scan_is(s, '-');
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return scan_wrong(s, "expected a value");
    s->at += len;
    return true;
}

/* scan_name reads a member's name and its colon, up to where the value begins. */
static bool scan_name(struct scan *s)
{
    scan_space(s);
    if (!scan_is(s, '"'))
        return scan_wrong(s, "expected a member's name in quotes");
    if (!scan_string(s))
        return false;
    scan_space(s);
    return scan_is(s, ':') || scan_wrong(s, "expected ':'");
}

static bool in_object(const struct scan *s)
{
    unsigned level = s->depth - 1;
    return s->objects[level / 64] >> (level % 64) & 1;
}

static bool scan_open(struct scan *s, bool object)
{
    if (s->depth == JSON_DEPTH_MAX)
        return scan_wrong(s, "nested deeper than " TEXT_OF(JSON_DEPTH_MAX) " levels");
    uint64_t bit = UINT64_C(1) << (s->depth % 64);
    uint64_t *word = &s->objects[s->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    s->depth++;
    s->at++;
    return true;
}

/* scan_begin reads a scalar, or an opening bracket.  `whole` says that the value is read to its
 * end, as an empty container is too. */
static bool scan_begin(struct scan *s, bool *whole)
{
    scan_space(s);
    *whole = true;
    switch (s->at < s->end ? *s->at : '\0') {
    case '"':
        s->at++;
        return scan_string(s);
    case '{':
    case '[': {
        bool object = *s->at == '{';
        if (!scan_open(s, object))
            return false;
        scan_space(s);
        if (scan_is(s, object ? '}' : ']')) {
            s->depth--;
            return true;
        }
        *whole = false;
        return object ? scan_name(s) : true;
    }
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    case '-':
    case '0' ... '9':
        return scan_number(s);
    default:
        return scan_wrong(s, "expected a value");
    }
}

/* scan_end reads what follows a value inside its containers: closing brackets, then perhaps a comma
 * and a name.  Afterwards either no container is open or another value follows. */
static bool scan_end(struct scan *s)
{
    while (s->depth > 0) {
        bool object = in_object(s);
        scan_space(s);
        if (scan_is(s, ','))
            return object ? scan_name(s) : true;
        if (!scan_is(s, object ? '}' : ']'))
            return scan_wrong(s, object ? "expected ',' or '}'" : "expected ',' or ']'");
        s->depth--;
    }
    return true;
}

static bool scan_value(struct scan *s)
{
    do {
        bool whole;
        if (!scan_begin(s, &whole) || (whole && !scan_end(s)))
            return false;
    } while (s->depth > 0);
    return true;
}

/* type_of tells the type of a value by its first byte. */
static enum json_type type_of(char first)
{
    switch (first) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

static enum status scan_failed(const struct scan *s, struct err *err)
{
    return err_set(err, STATUS_INVALID, "not valid JSON at byte %zu: %s",
                   (size_t)(s->at - s->begin) + 1, s->wrong);
}

/* parse reads one value and the space around it.  On success `s->at` is where it stopped. */
static bool parse(struct scan *s, struct slice text, struct json *out)
{
    *s = (struct scan){.begin = (const uint8_t *)(text.len ? text.ptr : "")};
    s->at = s->begin;
    s->end = s->begin + text.len;
    scan_space(s);
    const char *value = (const char *)s->at;
    if (!scan_value(s))
        return false;
    *out = (struct json){type_of(*value), {value, (size_t)((const char *)s->at - value)}};
    scan_space(s);
    return true;
}

enum status json_parse(struct slice text, struct json *out, struct err *err)
{
    struct scan s;
    struct json value;
    bool whole = parse(&s, text, &value);
    if (whole && s.at < s.end)
        whole = scan_wrong(&s, "expected the end of the text");
    if (!whole)
        return scan_failed(&s, err);
    *out = value;
    return STATUS_OK;
}

enum status json_parse_prefix(struct slice text, struct json *out, struct slice *rest,
                              struct err *err)
{
    struct scan s;
    if (!parse(&s, text, out))
        return scan_failed(&s, err);
    *rest = (struct slice){(const char *)s.at, (size_t)(s.end - s.at)};
    return STATUS_OK;
}

/* skip_string returns where the string that begins at `at` ends. */
static const char *skip_string(const char *at, const char *end)
{
    at++;
    for (;;) {
        at += utf8_plain((const uint8_t *)at, (size_t)(end - at));
        if (*at == '"')
            return at + 1;
        at += *at == '\\' ? 2 : 1;
    }
}

/* skip_container returns where the object or array that begins at `at` ends. */
static const char *skip_container(const char *at, const char *end)
{
    unsigned depth = 0;
    for (;;) {
        switch (*at) {
        case '"':
            at = skip_string(at, end);
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0)
                return at + 1;
            break;
        default:
            break;
        }
        at++;
    }
}

/* skip_scalar returns where the number or word that begins at `at` ends. */
static const char *skip_scalar(const char *at, const char *end)
{
    while (at < end && *at != ',' && !is_space((uint8_t)*at))
        at++;
    return at;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && is_space((uint8_t)*at))
        at++;
    return at;
}

/* take_value reads the value at `iter->at`, which is on its first byte. */
static struct json take_value(struct json_iter *iter)
{
    const char *begin = iter->at;
    enum json_type type = type_of(*begin);
    if (type == JSON_STRING)
        iter->at = skip_string(begin, iter->end);
    else if (type == JSON_OBJECT || type == JSON_ARRAY)
        iter->at = skip_container(begin, iter->end);
    else
        iter->at = skip_scalar(begin, iter->end);
    return (struct json){type, {begin, (size_t)(iter->at - begin)}};
}

void json_iter_init(struct json_iter *iter, struct json container)
{
    *iter = (struct json_iter){.object = container.type == JSON_OBJECT};
    if (iter->object || container.type == JSON_ARRAY) {
        iter->end = container.raw.ptr + container.raw.len - 1;
        iter->at = skip_space(container.raw.ptr + 1, iter->end);
    }
}

bool json_next(struct json_iter *iter, struct json *key, struct json *value)
{
    if (iter->at == iter->end)
        return false;
    if (iter->object) {
        struct json name = take_value(iter);
        if (key)
            *key = name;
        const char *colon = skip_space(iter->at, iter->end);
        iter->at = skip_space(colon + 1, iter->end);
    }
    *value = take_value(iter);

    /* Stand on the next child, or at the end. */
    iter->at = skip_space(iter->at, iter->end);
    if (iter->at < iter->end)
        iter->at = skip_space(iter->at + 1, iter->end);
    return true;
}

bool json_get(struct json object, const char *name, struct json *out)
{
    struct json_iter iter;
    struct json key, value;
    bool found = false;

    *out = (struct json){0};
    if (object.type != JSON_OBJECT)
        return false;
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        if (json_string_is(key, name)) {
            *out = value;
            found = true;
        }
    }
    return found;
}

void json_gather(struct json object, const char *const *names, size_t count, struct json *out)
{
    struct json_iter iter;
    struct json key, value;

    for (size_t i = 0; i < count; i++)
        out[i] = (struct json){0};
    if (object.type != JSON_OBJECT)
        return;
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value))
        for (size_t i = 0; i < count; i++)
            if (json_string_is(key, names[i])) {
                out[i] = value;
                break;
            }
}

size_t json_count(struct json container)
{
    struct json_iter iter;
    struct json value;
    size_t count = 0;
    json_iter_init(&iter, container);
    while (json_next(&iter, NULL, &value))
        count++;
    return count;
}

/* inside is a string's bytes between its quotes. */
static struct slice inside(struct json string)
{
    return (struct slice){string.raw.ptr + 1, string.raw.len - 2};
}

static unsigned unit_at(const char *hex)
{
    unsigned unit = 0;
    for (int i = 0; i < 4; i++)
        unit = unit << 4 | (unsigned)hex_digit((uint8_t)hex[i]);
    return unit;
}

static size_t put_utf8(unsigned c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

size_t json_decode(const char **at, char out[4])
{
    const char *in = *at;
    if (*in != '\\') {
        out[0] = *in;
        *at = in + 1;
        return 1;
    }
    *at = in + 2;
    switch (in[1]) {
    case 'b':
        return put_utf8('\b', out);
    case 'f':
        return put_utf8('\f', out);
    case 'n':
        return put_utf8('\n', out);
    case 'r':
        return put_utf8('\r', out);
    case 't':
        return put_utf8('\t', out);
    case 'u':
        break;
    default: /* the quote, the backslash and the slash stand for themselves */
        return put_utf8((unsigned char)in[1], out);
    }
    unsigned c = unit_at(in + 2);
    *at = in + 6;
    if (c >= 0xD800 && c <= 0xDFFF) {
        c = 0x10000 + ((c - 0xD800) << 10) + (unit_at(in + 8) - 0xDC00);
        *at = in + 12;
    }
    return put_utf8(c, out);
}

bool json_string_is(struct json value, const char *text)
{
    if (value.type != JSON_STRING)
        return false;
    struct slice in = inside(value), left = {text, strlen(text)};
    if (!memchr(in.ptr, '\\', in.len))
        return slice_eq(in, left);

    char part[4] = {0};
    for (const char *at = in.ptr, *end = in.ptr + in.len; at < end;) {
        struct slice decoded = {part, json_decode(&at, part)};
        if (!slice_starts(left, decoded))
            return false;
        left.ptr += decoded.len;
        left.len -= decoded.len;
    }
    return left.len == 0;
}

struct slice json_text(struct json string, struct arena *arena)
{
    if (string.type != JSON_STRING)
        return (struct slice){0};
    struct slice in = inside(string);
    if (!memchr(in.ptr, '\\', in.len))
        return in;

    /* An escape is never shorter than what it stands for. */
    char *text = arena_alloc(arena, in.len + 1);
    if (!text)
        return (struct slice){0};
    size_t len = 0;
    for (const char *at = in.ptr, *end = in.ptr + in.len; at < end;) {
        char part[4];
        size_t count = json_decode(&at, part);
        memcpy(text + len, part, count);
        len += count;
    }
    text[len] = '\0';
    return (struct slice){text, len};
}

bool json_int(struct json value, int64_t *out)
{
    return value.type == JSON_NUMBER && number_int(value.raw, out);
}

bool json_double(struct json value, double *out)
{
    return value.type == JSON_NUMBER && number_double(value.raw, out);
}

bool json_utf8_valid(struct slice text)
{
    bool valid = true;
    for (size_t at = 0; valid && at < text.len;) {
        const uint8_t *bytes = (const uint8_t *)text.ptr + at;
        size_t plain = utf8_plain(bytes, text.len - at);
        at += plain ? plain : utf8_step(bytes, text.len - at, &valid);
    }
    return valid;
}
