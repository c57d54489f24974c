/* signature: finding the words of a message that do not vary.
 *
 * A text is cut into tokens at white space, terminal colours and quoted values, which are dropped.
 * A token loses the punctuation around it and is then a *word*, or it is *volatile* and is dropped:
 *
 *     a path, an address, a mail address      it has a / or \ in it, is C:x, or has an @ inside
 *     a number, a time, an IP, item-123, 30s  a part of it (a run of letters and digits) begins
 * with a digit, or has five of them or more hex, a UUID                             a part of it is
 * 6 or more hex digits, one of them 0-9
 *
 * Of a volatile token that has a name in front (code=101, main.rs:42, main.run(0xc01)), the name
 * stays.  Letters with a digit behind them (utf8, sha256, E0308) are words.
 *
 * Only the first TEXT_MAX bytes count, each is looked at a bounded number of times, and nothing is
 * allocated here: a fingerprint must not depend on how much memory there is. */
#include "core/signature.h"

#include <stdio.h>

#include "base/hash.h"
#include "core/field.h"

#define TEXT_MAX 16384 /* bytes of a text that are looked at */
#define QUOTE_MAX 512  /* a quote that does not close within this many bytes is punctuation */
#define TOKEN_MAX 256  /* a longer token is taken or dropped whole */
#define DIGITS_MAX 4   /* a part with more digits than this is an id */
#define HEX_MIN 6
#define SIGNATURE_WORDS 5
#define FRAMES 3      /* stack frames that count */
#define FRAME_MAX 512 /* bytes of each */
#define STEP_MAX 1024 /* bytes of the step */

/* ---- characters ------------------------------------------------------------------------------ */

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7F;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* lower folds ASCII alone: a fingerprint must not depend on the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static bool is_hex(char c)
{
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f');
}

/* is_word_char is true for letters, digits and every byte beyond ASCII. */
static bool is_word_char(char c)
{
    return is_letter(c) || is_digit(c) || (unsigned char)c >= 0x80;
}

/* ---- volatile words -------------------------------------------------------------------------- */

/* part_is_volatile judges a run of letters and digits. */
static bool part_is_volatile(struct slice part)
{
    size_t digits = 0, hex = 0;

    for (size_t i = 0; i < part.len; i++) {
        digits += is_digit(part.ptr[i]);
        hex += is_hex(part.ptr[i]);
    }
    return is_digit(part.ptr[0]) || digits > DIGITS_MAX ||
           (hex == part.len && hex >= HEX_MIN && digits > 0);
}

static bool word_is_path(struct slice word)
{
    const char *at;

    if (memchr(word.ptr, '/', word.len) || memchr(word.ptr, '\\', word.len))
        return true;
    if (word.len > 2 && is_letter(word.ptr[0]) && word.ptr[1] == ':' && word.ptr[2] != ':')
        return true;
    at = memchr(word.ptr, '@', word.len);
    return at && at > word.ptr && at < word.ptr + word.len - 1;
}

static bool word_is_volatile(struct slice word)
{
    if (word_is_path(word))
        return true;
    for (size_t i = 0, begin; i < word.len; i++) {
        begin = i;
        while (i < word.len && is_word_char(word.ptr[i]))
            i++;
        if (i > begin && part_is_volatile((struct slice){word.ptr + begin, i - begin}))
            return true;
    }
    return false;
}

/* trim takes the punctuation off both ends of a token, but not a path's slash, and not a closing
 * bracket that was opened inside: "main()". */
static struct slice trim(struct slice token)
{
    static const char closing[] = ")]}", opening[] = "([{";

    while (token.len > 0 && !is_word_char(token.ptr[0]) && !strchr("/\\", token.ptr[0])) {
        token.ptr++;
        token.len--;
    }
    while (token.len > 0) {
        char last = token.ptr[token.len - 1];
        const char *bracket = strchr(closing, last);
        if (is_word_char(last) || last == '/' || last == '\\')
            break;
        if (bracket && memchr(token.ptr, opening[bracket - closing], token.len - 1))
            break;
        token.len--;
    }
    return token;
}

static bool path_begins(struct slice text, size_t from)
{
    return from < text.len && (text.ptr[from] == '/' || text.ptr[from] == '\\');
}

/* word_is_ipv6 is true for hex digits and two colons or more: what stands in front is no name. */
static bool word_is_ipv6(struct slice word)
{
    size_t colons = 0;

    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == ':')
            colons++;
        else if (!is_hex(word.ptr[i]))
            return false;
    }
    return colons >= 2;
}

/* name_of is what stays of a volatile token: what stands before its last =, : or ( when that is a
 * word by itself, else nothing.  Nothing stays of "https://...". */
static struct slice name_of(struct slice token)
{
    struct slice name = token;

    if (token.len > TOKEN_MAX || word_is_ipv6(token))
        return (struct slice){0};
    while (name.len > 0) {
        char c = name.ptr[--name.len];
        if (c == ':' && path_begins(token, name.len + 1))
            return (struct slice){0};
        if (c != '=' && c != ':' && c != '(')
            continue;
        struct slice word = trim(name);
        if (word_is_ipv6(word))
            return (struct slice){0};
        if (word.len > 0 && !word_is_volatile(word))
            return word;
    }
    return name;
}

/* ---- the words of a text --------------------------------------------------------------------- */

struct words {
    const char *at;
    const char *end;
};

static struct words words_of(struct slice text, size_t max)
{
    text = field_head(text, max);
    return (struct words){text.ptr, text.len ? text.ptr + text.len : text.ptr};
}

/* colour_len is the length of a terminal's control sequence at `at`, or 0. */
static size_t colour_len(const char *at, const char *end)
{
    const char *p;

    if (end - at < 2 || at[0] != 0x1B || at[1] != '[')
        return 0;
    for (p = at + 2; p < end && *p >= 0x20 && *p <= 0x3F;)
        p++;
    return (size_t)(p - at) + (p < end);
}

/* quoted_len is the length of the quoted value at `at`, its quotes included, or 0 when there is
 * none.  An apostrophe inside a value ('can't open') does not close it. */
static size_t quoted_len(const char *at, const char *end)
{
    static const struct {
        const char *open, *close;
    } quotes[] = {{"'", "'"},
                  {"\"", "\""},
                  {"`", "`"},
                  {"`", "'"}, /* `as m4 does' */
                  {"\xE2\x80\x98", "\xE2\x80\x99"},
                  {"\xE2\x80\x9C", "\xE2\x80\x9D"}};
    size_t left = (size_t)(end - at);

    for (size_t i = 0; i < sizeof(quotes) / sizeof(quotes[0]); i++) {
        size_t open = strlen(quotes[i].open), close = strlen(quotes[i].close);
        if (left < open || memcmp(at, quotes[i].open, open) != 0)
            continue;
        const char *limit = left > QUOTE_MAX ? at + QUOTE_MAX : end;
        for (const char *p = at + open; limit - p >= (ptrdiff_t)close; p++) {
            const char *after = p + close;
            if (*p == '\n')
                break;
            if (memcmp(p, quotes[i].close, close) == 0 && (after == end || !is_word_char(*after)))
                return (size_t)(after - at);
        }
    }
    return 0;
}

/* skip_dropped steps over white space, colours and quoted values. */
static void skip_dropped(struct words *words)
{
    while (words->at < words->end) {
        size_t len = colour_len(words->at, words->end);
        if (len == 0)
            len = quoted_len(words->at, words->end);
        if (len == 0)
            len = is_blank(*words->at);
        if (len == 0)
            return;
        words->at += len;
    }
}

/* take_token takes what reaches to the next white space, colour or quoted value.  A quote opens
 * only behind punctuation: the one in "can't" is part of the word. */
static struct slice take_token(struct words *words)
{
    const char *begin = words->at++;

    for (; words->at < words->end && !is_blank(*words->at); words->at++)
        if (!is_word_char(words->at[-1]) && quoted_len(words->at, words->end))
            break;
    return (struct slice){begin, (size_t)(words->at - begin)};
}

/* next_word finds the next word that counts; false at the end. */
static bool next_word(struct words *words, struct slice *word)
{
    for (;;) {
        skip_dropped(words);
        if (words->at >= words->end)
            return false;
        *word = trim(take_token(words));
        if (word->len > 0 && word_is_volatile(*word))
            *word = name_of(*word);
        if (word->len > 0)
            return true;
    }
}

void signature_normalize(struct slice text, struct buf *out)
{
    struct words words = words_of(text, TEXT_MAX);
    struct slice word;
    bool first = true;

    while (next_word(&words, &word)) {
        if (!first)
            buf_add_char(out, ' ');
        buf_add_slice(out, word);
        first = false;
    }
}

static struct slice type_of(const struct failure *failure)
{
    return failure->error_type.len ? failure->error_type : SLICE("Unknown");
}

void signature_print(const struct failure *failure, struct buf *out)
{
    struct words words = words_of(failure->message, TEXT_MAX);
    size_t left = SIGNATURE_MAX - 2;
    struct slice word = field_head(type_of(failure), left);

    buf_add_slice(out, word);
    buf_add_str(out, "::");
    left -= word.len;
    for (int i = 0; i < SIGNATURE_WORDS && left > 1 && next_word(&words, &word); i++) {
        if (i > 0) {
            buf_add_char(out, ' ');
            left--;
        }
        word = field_head(word, left);
        buf_add_slice(out, word);
        left -= word.len;
    }
}

/* ---- the fingerprint ------------------------------------------------------------------------- */

/* struct digest: what is hashed.  Each field ends with a NUL, which no word contains. */
struct digest {
    char bytes[TEXT_MAX + STEP_MAX + FRAMES * FRAME_MAX + 1024];
    size_t len;
};

static void digest_add(struct digest *digest, struct slice text)
{
    size_t room = sizeof(digest->bytes) - digest->len;
    size_t len = text.len < room ? text.len : room;

    if (len > 0)
        memcpy(digest->bytes + digest->len, text.ptr, len);
    digest->len += len;
}

static void digest_words(struct digest *digest, struct slice text, size_t max)
{
    struct words words = words_of(text, max);
    size_t begin = digest->len;
    struct slice word;

    while (next_word(&words, &word)) {
        digest_add(digest, word);
        digest_add(digest, SLICE(" "));
    }
    for (size_t i = begin; i < digest->len; i++)
        digest->bytes[i] = lower(digest->bytes[i]);
    digest_add(digest, SLICE("\0"));
}

/* line_is_call is true for "main.run(0xc01, 0x2)": a name, an argument list and nothing else. */
static bool line_is_call(struct slice line)
{
    size_t name = 0;

    while (name < line.len && line.ptr[name] != '(' && !is_blank(line.ptr[name]))
        name++;
    return name > 0 && name < line.len && line.ptr[name] == '(' && line.ptr[line.len - 1] == ')';
}

/* line_is_frame knows the frames of the common languages from what else stands in a trace:
 * "at f (x.js:1)", "#0 0x1 in f", "3: f", `File "x.py", line 1, in f`, "main.f(0x1)". */
static bool line_is_frame(struct slice line)
{
    size_t digits = 0;

    if (slice_starts(line, SLICE("at ")) || slice_starts(line, SLICE("File \"")))
        return true;
    if (line.len > 1 && line.ptr[0] == '#' && is_digit(line.ptr[1]))
        return true;
    while (digits < line.len && is_digit(line.ptr[digits]))
        digits++;
    return digits > 0 ? digits < line.len && line.ptr[digits] == ':' : line_is_call(line);
}

/* next_line takes a line off the front of `text`, without the white space around it. */
static bool next_line(struct slice *text, struct slice *line)
{
    const char *newline;
    size_t len;

    if (text->len == 0)
        return false;
    newline = memchr(text->ptr, '\n', text->len);
    len = newline ? (size_t)(newline - text->ptr) : text->len;
    *line = (struct slice){text->ptr, len};
    len += newline != NULL;
    text->ptr += len;
    text->len -= len;
    while (line->len > 0 && is_blank(line->ptr[0])) {
        line->ptr++;
        line->len--;
    }
    while (line->len > 0 && is_blank(line->ptr[line->len - 1]))
        line->len--;
    return true;
}

/* digest_frames adds the frames nearest to the failure: the first ones, or, of a Python traceback,
 * the last.  What is no frame in a trace is output, and varies. */
static void digest_frames(struct digest *digest, struct slice trace)
{
    struct slice frames[FRAMES], line;
    size_t count = 0;
    bool last = field_head(trace, FRAME_MAX).len > 0 &&
                memmem(trace.ptr, field_head(trace, FRAME_MAX).len, "most recent call last", 21);

    if (last && trace.len > TEXT_MAX)
        trace = (struct slice){trace.ptr + trace.len - TEXT_MAX, TEXT_MAX};
    trace = field_head(trace, TEXT_MAX);
    while ((last || count < FRAMES) && next_line(&trace, &line))
        if (line_is_frame(line))
            frames[count++ % FRAMES] = line;

    size_t kept = count < FRAMES ? count : FRAMES;
    for (size_t i = count - kept; i < count; i++)
        digest_words(digest, frames[i % FRAMES], FRAME_MAX);
}

void signature_fingerprint(const struct failure *failure, char out[FINGERPRINT_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";
    struct digest digest;
    struct hash hash;
    char exit_code[16] = "";

    digest.len = 0;
    if (failure->has_exit_code)
        snprintf(exit_code, sizeof(exit_code), "%d", failure->exit_code);
    digest_add(&digest, field_head(type_of(failure), SIGNATURE_MAX));
    digest_add(&digest, SLICE("\0"));
    digest_add(&digest, slice_of(exit_code));
    digest_add(&digest, SLICE("\0"));
    digest_words(&digest, failure->step_failed, STEP_MAX);
    digest_words(&digest, failure->message, TEXT_MAX);
    digest_frames(&digest, failure->stack_trace);

    hash = hash_sha256(&(struct slice){digest.bytes, digest.len}, 1);
    for (size_t i = 0; i < FINGERPRINT_LEN; i++)
        out[i] = hex[hash.bytes[i / 2] >> (i % 2 ? 0 : 4) & 0xF];
    out[FINGERPRINT_LEN] = '\0';
}
