/* natsurl: what libnats takes is wide (any scheme, any port); here a mistake is named before
 * anything is connected to. */
#include "bridge/natsurl.h"

#include "base/buf.h"
#include "core/url.h"

#define TEXT_MAX 8192

/* struct part: one server of the list. */
struct part {
    bool tls;
    struct slice secret; /* what stands before the "@"; empty: none */
    struct slice host;   /* with its brackets, if it has any */
    struct slice port;   /* empty: none is written */
};

static struct slice after(struct slice text, size_t count)
{
    return (struct slice){text.ptr + count, text.len - count};
}

/* take_scheme steps over "nats://" or "tls://". */
static enum status take_scheme(struct slice *text, struct part *part, struct err *err)
{
    for (size_t i = 0; i + 3 <= text->len; i++) {
        if (memcmp(text->ptr + i, "://", 3) != 0)
            continue;
        struct slice scheme = {text->ptr, i};
        part->tls = slice_is(scheme, "tls");
        if (!part->tls && !slice_is(scheme, "nats"))
            return err_set(err, STATUS_INVALID,
                           "the URL of NATS must begin with nats:// or tls://, as "
                           "nats://127.0.0.1:" NATSURL_PORT);
        *text = after(*text, i + 3);
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* take_secret steps over everything up to the last "@": a password may have one. */
static void take_secret(struct slice *text, struct part *part)
{
    size_t at = text->len;
    while (at > 0 && text->ptr[at - 1] != '@')
        at--;
    part->secret = (struct slice){text->ptr, at > 0 ? at - 1 : 0};
    *text = after(*text, at);
}

/* take_bracketed steps over "[" address "]"; getaddrinfo checks it further. */
static enum status take_bracketed(struct slice *text, struct part *part, struct err *err)
{
    const char *close = memchr(text->ptr, ']', text->len);
    size_t len = close ? (size_t)(close - text->ptr) + 1 : 0;
    for (size_t i = 1; i + 1 < len; i++)
        if (!strchr("0123456789abcdefABCDEF:.", text->ptr[i]))
            len = 0;
    if (len < 4)
        return err_set(err, STATUS_INVALID,
                       "the URL of NATS: an IPv6 address stands in brackets, as "
                       "nats://[::1]:" NATSURL_PORT);
    part->host = (struct slice){text->ptr, len};
    *text = after(*text, len);
    return STATUS_OK;
}

static enum status take_host(struct slice *text, struct part *part, struct err *err)
{
    size_t len = 0;
    struct slice host;
    if (text->len > 0 && text->ptr[0] == '[')
        return take_bracketed(text, part, err);
    while (len < text->len && text->ptr[len] != ':')
        len++;
    part->host = (struct slice){text->ptr, len};
    *text = after(*text, len);
    if (len == 0)
        return err_set(err, STATUS_INVALID,
                       "the URL of NATS has no host: write it as nats://127.0.0.1:" NATSURL_PORT);
    enum status status = url_host_parse(part->host, &host, err);
    if (status)
        err_prefix(err, "the URL of NATS");
    return status;
}

static enum status read_part(struct slice text, struct part *part, struct err *err)
{
    uint16_t port;
    *part = (struct part){0};
    enum status status = take_scheme(&text, part, err);
    if (status)
        return status;
    while (text.len > 0 && text.ptr[text.len - 1] == '/')
        text.len--;
    take_secret(&text, part);
    status = take_host(&text, part, err);
    if (status || text.len == 0)
        return status;
    part->port = after(text, 1);
    status = text.ptr[0] == ':' ? url_port_parse(part->port, &port, err)
                                : err_set(err, STATUS_INVALID, "something follows the host");
    if (status)
        err_prefix(err, "the URL of NATS");
    return status;
}

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("-._~", c));
}

void natsurl_quote(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (is_plain(text.ptr[i]) || c >= 0x80)
            buf_add_char(out, text.ptr[i]);
        else
            buf_addf(out, "\\u%04x", c);
    }
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* print_word quotes a user or a password, whose %XX are decoded first; any other "%" is one. */
static void print_word(struct slice word, struct buf *out)
{
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        int high = c == '%' && i + 2 < word.len ? hex_digit(word.ptr[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(word.ptr[i + 2]) : -1;
        if (low >= 0) {
            c = (char)(high << 4 | low);
            i += 2;
        }
        natsurl_quote((struct slice){&c, 1}, out);
    }
}

/* print_secret writes "user:password@" or "token@". */
static void print_secret(struct slice secret, struct buf *out)
{
    const char *colon = secret.len > 0 ? memchr(secret.ptr, ':', secret.len) : NULL;
    size_t user = colon ? (size_t)(colon - secret.ptr) : secret.len;
    print_word((struct slice){secret.ptr, user}, out);
    if (colon) {
        buf_add_char(out, ':');
        print_word(after(secret, user + 1), out);
    }
    buf_add_char(out, '@');
}

static void print_part(const struct part *part, bool whole, struct buf *out)
{
    buf_add_str(out, part->tls ? "tls://" : "nats://");
    if (whole && part->secret.len > 0)
        print_secret(part->secret, out);
    buf_add_slice(out, part->host);
    buf_add_char(out, ':');
    if (part->port.len > 0)
        buf_add_slice(out, part->port);
    else
        buf_add_str(out, NATSURL_PORT);
}

/* add_part adds one server to the list, and to `place`. */
static enum status add_part(const struct part *part, struct arena *arena, struct natsurl *out,
                            struct buf *place, struct err *err)
{
    struct buf whole;
    if (out->count == NATSURL_SERVERS_MAX)
        return err_set(err, STATUS_INVALID, "the URL of NATS names more than %d servers",
                       NATSURL_SERVERS_MAX);
    buf_init(&whole, (size_t)TEXT_MAX * 8);
    print_part(part, true, &whole);
    const char *server = arena_dup(arena, buf_slice(&whole)).ptr;
    enum status status = buf_status(&whole, err);
    buf_release(&whole);
    if (!status && !server)
        status = err_no_memory(err);
    if (status)
        return status;
    out->servers[out->count++] = server;
    out->tls = out->tls || part->tls;
    out->secret = out->secret || part->secret.len > 0;
    if (place->len > 0)
        buf_add_char(place, ',');
    print_part(part, false, place);
    return STATUS_OK;
}

static enum status check_text(struct slice text, struct err *err)
{
    if (text.len == 0 || text.len > TEXT_MAX)
        return err_set(err, STATUS_INVALID,
                       "the URL of NATS is %s: write it as nats://127.0.0.1:" NATSURL_PORT,
                       text.len ? "too long" : "empty");
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == '\x7f')
            return err_set(err, STATUS_INVALID,
                           "the URL of NATS has a space or a control character inside");
    return STATUS_OK;
}

enum status natsurl_read(const char *text, struct arena *arena, struct natsurl *out,
                         struct err *err)
{
    struct slice rest = slice_of(text);
    struct natsurl url = {.servers = arena_array(arena, NATSURL_SERVERS_MAX, sizeof(char *))};
    struct buf place;
    enum status status = check_text(rest, err);

    if (!status && !url.servers)
        return err_no_memory(err);
    buf_init(&place, (size_t)TEXT_MAX * 2);
    while (!status && rest.ptr) {
        struct part part;
        const char *comma = memchr(rest.ptr, ',', rest.len);
        struct slice one = {rest.ptr, comma ? (size_t)(comma - rest.ptr) : rest.len};
        rest = comma ? after(rest, one.len + 1) : (struct slice){0};
        status = read_part(one, &part, err);
        if (!status)
            status = add_part(&part, arena, &url, &place, err);
    }
    if (!status)
        status = buf_status(&place, err);
    if (!status && !(url.place = arena_dup(arena, buf_slice(&place)).ptr))
        status = err_no_memory(err);
    buf_release(&place);
    if (!status)
        *out = url;
    return status;
}
