/* url: see url.h. */
#include "core/url.h"

#include <stdio.h>

#include "core/address.h"

#define LABEL_MAX 63 /* bytes between two dots of a name */
#define PORT_HTTP 80
#define PORT_HTTPS 443

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_hex(char c)
{
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f');
}

static bool is_alnum(char c)
{
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z');
}

static struct slice tail(struct slice text, size_t from)
{
    return (struct slice){text.ptr + from, text.len - from};
}

/* find is where the first of `set` stands in a text; its length when none does. */
static size_t find(struct slice text, const char *set)
{
    size_t at = 0;

    while (at < text.len && (!text.ptr[at] || !strchr(set, text.ptr[at])))
        at++;
    return at;
}

bool url_same_text(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

bool url_same_host(struct slice a, struct slice b)
{
    struct address one, other;

    if (address_parse(a, &one) && address_parse(b, &other))
        return address_equal(one, other);
    return url_same_text(a, b);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* is_number says whether readers of numeric addresses could take a label for a number. */
static bool is_number(struct slice label)
{
    bool hex = label.len >= 2 && label.ptr[0] == '0' && lower(label.ptr[1]) == 'x';

    for (size_t i = hex ? 2 : 0; i < label.len; i++)
        if (hex ? !is_hex(label.ptr[i]) : !is_digit(label.ptr[i]))
            return false;
    return label.len > 0;
}

/* check_labels looks at what stands between the dots; `last` is what stands after the last. */
static enum status check_labels(struct slice host, struct slice *last, struct err *err)
{
    size_t begin = 0;

    for (size_t i = 0; i <= host.len; i++) {
        char c = i < host.len ? host.ptr[i] : '.';
        if (c == '.') {
            *last = (struct slice){host.ptr + begin, i - begin};
            if (last->len == 0 || last->len > LABEL_MAX)
                return err_set(err, STATUS_INVALID,
                               "the parts of a host's name must have 1 to %d characters",
                               LABEL_MAX);
            begin = i + 1;
        } else if (!is_alnum(c) && c != '-' && c != '_') {
            return err_set(err, STATUS_INVALID,
                           "a host's name must be of letters, digits, \"-\", \"_\" and \".\"");
        }
    }
    return STATUS_OK;
}

enum status url_host_parse(struct slice text, struct slice *out, struct err *err)
{
    struct slice host = text, last = {0};
    struct address address;

    if (host.len > 0 && host.ptr[host.len - 1] == '.')
        host.len--;
    if (host.len == 0)
        return err_set(err, STATUS_INVALID, "the host is missing");
    if (host.len > URL_HOST_MAX)
        return err_set(err, STATUS_INVALID, "the host has more than %d characters", URL_HOST_MAX);
    enum status status = check_labels(host, &last, err);
    if (status != STATUS_OK)
        return status;
    if (is_number(last) && !address_parse(host, &address))
        return err_set(err, STATUS_INVALID,
                       "a host that ends in a number must be an IPv4 address of four decimal "
                       "numbers without leading zeros");
    *out = host;
    return STATUS_OK;
}

enum status url_port_parse(struct slice text, uint16_t *out, struct err *err)
{
    unsigned port = 0;
    bool fits = text.len >= 1 && text.len <= 5 && text.ptr[0] != '0';

    for (size_t i = 0; fits && i < text.len; i++) {
        fits = is_digit(text.ptr[i]);
        port = port * 10 + (unsigned)(text.ptr[i] - '0');
    }
    if (!fits || port > UINT16_MAX)
        return err_set(err, STATUS_INVALID, "the port must be a number from 1 to 65535");
    *out = (uint16_t)port;
    return STATUS_OK;
}

/* read_bracketed reads "[::1]" at the beginning of an authority; `rest` is what follows. */
static enum status read_bracketed(struct slice text, struct url *url, struct slice *rest,
                                  struct err *err)
{
    size_t end = find(text, "]");
    struct slice inside = {text.ptr + 1, end - 1};
    struct address address;

    if (end == text.len || find(inside, ":") == inside.len || !address_parse(inside, &address))
        return err_set(err, STATUS_INVALID, "in brackets there must be an IPv6 address, as [::1]");
    url->host = inside;
    url->bracketed = true;
    *rest = tail(text, end + 1);
    return STATUS_OK;
}

/* read_authority reads the host and the port. */
static enum status read_authority(struct slice text, struct url *url, struct err *err)
{
    enum status status;
    struct slice rest = {0};

    if (find(text, "@") < text.len)
        return err_set(err, STATUS_INVALID,
                       "must not have a user or a password before the host: use a token");
    if (text.len > 0 && text.ptr[0] == '[') {
        status = read_bracketed(text, url, &rest, err);
    } else {
        size_t end = find(text, ":");
        rest = tail(text, end);
        status = url_host_parse((struct slice){text.ptr, end}, &url->host, err);
    }
    url->port = url->tls ? PORT_HTTPS : PORT_HTTP;
    if (status != STATUS_OK || rest.len == 0)
        return status;
    if (rest.ptr[0] != ':')
        return err_set(err, STATUS_INVALID, "after the host there must be a port or a path");
    return url_port_parse(tail(rest, 1), &url->port, err);
}

static enum status check_characters(struct slice text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= 0x20 || c >= 0x7f)
            return err_set(err, STATUS_INVALID,
                           "must not have spaces, control characters and characters beyond ASCII: "
                           "write them as %%XX");
        if (strchr("\"\\<>^`{|}", c))
            return err_set(err, STATUS_INVALID, "must not have a %c: write it as %%%02X", c, c);
        if (c == '#')
            return err_set(err, STATUS_INVALID, "must not have a fragment (#)");
        if (c == '%' && (i + 2 >= text.len || !is_hex(text.ptr[i + 1]) || !is_hex(text.ptr[i + 2])))
            return err_set(err, STATUS_INVALID, "after a %% there must be two hex digits");
    }
    return STATUS_OK;
}

enum status url_parse(struct slice text, struct url *out, struct err *err)
{
    static const struct slice schemes[] = {{"http://", 7}, {"https://", 8}};
    struct url url = {0};
    struct slice rest = {0};

    if (text.len > URL_MAX)
        return err_set(err, STATUS_INVALID, "has more than %d bytes", URL_MAX);
    enum status status = check_characters(text, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < 2; i++) {
        struct slice scheme = schemes[i];
        if (text.len >= scheme.len && url_same_text((struct slice){text.ptr, scheme.len}, scheme)) {
            rest = tail(text, scheme.len);
            url.tls = i == 1;
        }
    }
    if (!rest.ptr)
        return err_set(err, STATUS_INVALID, "must begin with http:// or https://");
    size_t end = find(rest, "/?");
    url.path = tail(rest, end);
    status = read_authority((struct slice){rest.ptr, end}, &url, err);
    if (status == STATUS_OK)
        *out = url;
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void print_host(const struct url *url, struct buf *out)
{
    struct address address;

    if (address_parse(url->host, &address)) {
        char text[ADDRESS_TEXT_SIZE];
        address_format(address, text);
        buf_addf(out, address_is_v4(address) ? "%s" : "[%s]", text);
        return;
    }
    for (size_t i = 0; i < url->host.len; i++)
        buf_add_char(out, lower(url->host.ptr[i]));
}

static bool ends(struct slice text, struct slice end)
{
    return text.len >= end.len && slice_eq(tail(text, text.len - end.len), end);
}

/* print_path prints a path without its query, with the suffix. */
static void print_path(struct slice path, struct slice suffix, struct buf *out)
{
    struct slice bare = path;

    while (bare.len > 0 && bare.ptr[bare.len - 1] == '/')
        bare.len--;
    if (suffix.len > 0 && !ends(bare, suffix)) {
        buf_add_slice(out, bare);
        buf_add_slice(out, suffix);
    } else {
        buf_add_slice(out, path.len > 0 ? path : SLICE("/"));
    }
}

void url_print(const struct url *url, const char *suffix, struct buf *out)
{
    size_t query = find(url->path, "?");

    buf_add_str(out, url->tls ? "https://" : "http://");
    print_host(url, out);
    buf_addf(out, ":%u", (unsigned)url->port);
    print_path((struct slice){url->path.ptr, query}, slice_of(suffix), out);
    buf_add_slice(out, tail(url->path, query));
}
