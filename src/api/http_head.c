/* http_head.c: what is wrong with the head of a request.
 *
 * libmicrohttpd is lenient where two readers of one request could disagree about where it ends.
 * Behind a proxy such a disagreement lets one client's bytes become another's request, so
 * everything that is ambiguous is refused here, and the connection is closed with the answer.
 *
 * Some of it cannot be seen in the names and values that libmicrohttpd 0.9.75 hands out: it glues a
 * folded line to the *name* of its field (so that a folded Transfer-Encoding is none), takes a line
 * that begins with a colon for the end of the head, ends texts at a NUL, and takes a bare LF for
 * CRLF.  But it cuts the head in place, where it was received.  So the pieces must lie one behind
 * the other with exactly the separators between them that a plain head has: whatever else stood
 * there shows as a gap.
 *
 *     method SP address SP version CRLF name ":" blanks value CRLF ... CRLF */
#include <ctype.h>
#include <stdint.h>
#include <strings.h>

#include "api/http_internal.h"

/* struct head: what was counted in the fields. */
struct head {
    size_t hosts, lengths, encodings;
    bool length_bad, encoding_bad, name_bad, value_bad;
    bool gap;      /* between the pieces is something else than separators */
    uintptr_t end; /* where the piece before ends */
    unsigned long long length;
};

/* follow says that a piece lies at `at`, behind `separators` bytes. */
static void follow(struct head *head, const char *at, size_t separators, size_t len)
{
    if ((uintptr_t)at != head->end + separators)
        head->gap = true;
    head->end = (uintptr_t)at + len;
}

static bool is_token_char(unsigned char c)
{
    return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_token_char((unsigned char)text.ptr[i]))
            return false;
    return text.len > 0;
}

/* is_field_value: visible characters, spaces, tabs, and bytes above ASCII. */
static bool is_field_value(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool names(struct slice name, const char *wanted)
{
    return name.len == strlen(wanted) && strncasecmp(name.ptr, wanted, name.len) == 0;
}

/* read_length reads digits alone: no sign, no list, no overflow. */
static bool read_length(struct slice text, unsigned long long *out)
{
    unsigned long long length = 0;
    if (text.len == 0 || text.len > 18)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!isdigit((unsigned char)text.ptr[i]))
            return false;
        length = length * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *out = length;
    return true;
}

static enum MHD_Result look_at_field(void *ctx, enum MHD_ValueKind kind, const char *key,
                                     size_t key_len, const char *value, size_t value_len)
{
    (void)kind;
    struct head *head = ctx;
    struct slice name = {key, key_len}, text = {value, value_len};
    follow(head, key, 2, key_len);
    /* Behind the name libmicrohttpd skips the colon and blanks, and nothing else. */
    if ((uintptr_t)value <= head->end)
        head->gap = true;
    head->end = (uintptr_t)value + value_len;
    if (!is_token(name))
        head->name_bad = true;
    if (!is_field_value(text))
        head->value_bad = true;
    if (names(name, "host")) {
        head->hosts++;
    } else if (names(name, "content-length")) {
        head->lengths++;
        if (!read_length(text, &head->length))
            head->length_bad = true;
    } else if (names(name, "transfer-encoding")) {
        head->encodings++;
        if (!names(text, "chunked"))
            head->encoding_bad = true;
    }
    return MHD_YES;
}

/* uri_is_clean: what may stand in a request line, without a fragment. */
static bool uri_is_clean(struct slice uri)
{
    for (size_t i = 0; i < uri.len; i++) {
        unsigned char c = (unsigned char)uri.ptr[i];
        if (c <= 0x20 || c >= 0x7f || strchr("#\"<>\\^`{|}", c))
            return false;
    }
    return true;
}

static size_t head_size(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

static int length_fault(const struct head *head, const char *version,
                        const struct http_limits *limits, const char **sentence)
{
    if (head->lengths + head->encodings > 1) {
        *sentence = "the request says its length more than once";
        return 400;
    }
    if (head->length_bad) {
        *sentence = "Content-Length must be a whole number";
        return 400;
    }
    if (head->encoding_bad || (head->encodings && strcmp(version, "HTTP/1.0") == 0)) {
        *sentence = "of the transfer encodings only chunked is understood";
        return 400;
    }
    if (head->length > limits->body_max) {
        *sentence = "the body is over the limit";
        return 413;
    }
    return 0;
}

int head_fault(struct MHD_Connection *connection, const struct request_line *line,
               struct slice target, const struct http_limits *limits, const char **sentence)
{
    const char *version = line->version;
    struct head head = {.end = (uintptr_t)line->method + strlen(line->method)};
    follow(&head, line->url, 1, line->uri_len);
    follow(&head, version, 1, strlen(version));
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look_at_field, &head);
    follow(&head, line->method + head_size(connection), 4, 0);
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0) {
        *sentence = "only HTTP/1.1 and HTTP/1.0 are understood";
        return 505;
    }
    if (head_size(connection) > limits->head_max) {
        *sentence = "the head of the request is over the limit";
        return 431;
    }
    if (!is_token(slice_of(line->method)))
        *sentence = "the method is malformed";
    else if (target.len == 0 || target.ptr[0] != '/' || slice_starts(target, SLICE("//")))
        *sentence = "the address must be a path, or begin with http:// and the name of Host";
    else if (!uri_is_clean(target))
        *sentence = "the address holds characters that must be percent-encoded";
    else if (head.name_bad)
        *sentence = "a header has a malformed name";
    else if (head.value_bad)
        *sentence = "a header holds control characters";
    else if (head.gap)
        *sentence = "the head of the request is malformed: are there folded lines, lines that do "
                    "not end with CR and LF, or NULs in it?";
    else if (head.hosts > 1 || (head.hosts == 0 && strcmp(version, "HTTP/1.1") == 0))
        *sentence = "a request must have one Host header";
    else
        return length_fault(&head, version, limits, sentence);
    return 400;
}

static enum MHD_Result count_field(void *ctx, enum MHD_ValueKind kind, const char *key,
                                   size_t key_len, const char *value, size_t value_len)
{
    (void)kind, (void)key, (void)key_len, (void)value, (void)value_len;
    ++*(size_t *)ctx;
    return MHD_YES;
}

bool has_trailers(struct MHD_Connection *connection)
{
    size_t count = 0;
    MHD_get_connection_values_n(connection, MHD_FOOTER_KIND, count_field, &count);
    return count > 0;
}
