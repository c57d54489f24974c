/* target: see target.h. */
#include "core/target.h"

#include "core/field.h"

#define URL_MCP_SUFFIX "/mcp"
#define PLAIN_MAX (URL_MAX + 64) /* a plain form has a port and a suffix more */
#define NAMES_SHOWN_MAX 240      /* bytes of names that an error lists */

static const char *const kind_names[] = {
    [DELIVERY_HTTP] = "http", [DELIVERY_MCP] = "mcp", [DELIVERY_SLACK] = "slack"};

const char *delivery_kind_name(enum delivery_kind kind)
{
    return kind_names[kind];
}

bool delivery_kind_from_name(struct slice name, enum delivery_kind *out)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++) {
        if (slice_is(name, kind_names[i])) {
            *out = (enum delivery_kind)i;
            return true;
        }
    }
    return false;
}

enum status target_name_check(struct slice name, struct err *err)
{
    bool plain = name.len >= 1 && name.len <= TARGET_NAME_MAX;

    for (size_t i = 0; plain && i < name.len; i++) {
        char c = name.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        plain = alnum || (i > 0 && (c == '-' || c == '_' || c == '.'));
    }
    if (!plain)
        return err_set(err, STATUS_INVALID,
                       "the name of a target must have 1 to %d letters, digits, \"-\", \"_\" and "
                       "\".\", the first a letter or a digit",
                       TARGET_NAME_MAX);
    return STATUS_OK;
}

enum status target_of_url(struct slice url, enum delivery_kind kind, struct arena *arena,
                          struct target *out, struct err *err)
{
    struct slice plain = {0};
    struct url read;
    struct buf text;

    enum status status = url_parse(url, &read, err);
    if (status != STATUS_OK)
        return status;
    buf_init(&text, PLAIN_MAX);
    url_print(&read, kind == DELIVERY_MCP ? URL_MCP_SUFFIX : NULL, &text);
    status = buf_status(&text, err);
    if (status == STATUS_OK && text.len > URL_MAX)
        status = err_set(err, STATUS_INVALID, "has more than %d bytes in its plain form", URL_MAX);
    if (status == STATUS_OK) {
        plain = arena_dup(arena, buf_slice(&text));
        status = plain.ptr ? STATUS_OK : err_no_memory(err);
    }
    buf_release(&text);
    if (status == STATUS_OK)
        *out = (struct target){.url = plain, .kind = kind};
    return status;
}

/* ---- the allow-list ---------------------------------------------------------------------------
 */

static size_t count_colons(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.ptr[i] == ':';
    return count;
}

/* split_port takes ":PORT" off the end of an entry, when there is one: not for an IPv6 address
 * without brackets. */
static enum status split_port(struct slice *text, uint16_t *port, struct err *err)
{
    bool bracketed = text->len > 0 && text->ptr[0] == '[';
    const char *from = bracketed ? memchr(text->ptr, ']', text->len) : text->ptr;
    const char *end = text->ptr + text->len;

    if (!from || (!bracketed && count_colons(*text) != 1))
        return STATUS_OK;
    const char *colon = memchr(from, ':', (size_t)(end - from));
    if (!colon)
        return STATUS_OK;
    text->len = (size_t)(colon - text->ptr);
    return url_port_parse((struct slice){colon + 1, (size_t)(end - colon - 1)}, port, err);
}

/* read_numeric reads an address, with brackets or without, or a network; false when the entry is
 * neither and must be a name. */
static bool read_numeric(struct slice text, struct allowance *out, enum status *status,
                         struct err *err)
{
    struct address address;

    if (text.len > 0 && text.ptr[0] == '[') {
        bool closed = text.len > 2 && text.ptr[text.len - 1] == ']';
        struct slice inside = {text.ptr + 1, closed ? text.len - 2 : 0};
        if (count_colons(inside) == 0 || !address_parse(inside, &address))
            *status = err_set(err, STATUS_INVALID,
                              "in brackets there must be an IPv6 address, as [::1]:9000");
        else
            *status = network_parse(inside, &out->network, err);
        return true;
    }
    if (!memchr(text.ptr, '/', text.len) && count_colons(text) == 0 &&
        !address_parse(text, &address))
        return false;
    *status = network_parse(text, &out->network, err);
    return true;
}

static enum status read_name(struct slice text, struct allowance *out, struct err *err)
{
    struct address address;

    if (slice_is(text, "*"))
        return err_set(err, STATUS_INVALID,
                       "* would be every host: name them, or those below one as *.example.org");
    if (slice_starts(text, SLICE("*."))) {
        out->below = true;
        text = (struct slice){text.ptr + 2, text.len - 2};
    }
    enum status status = url_host_parse(text, &out->host, err);
    /* A dot at the end, and an address that it hid. */
    if (status == STATUS_OK && address_parse(out->host, &address))
        return err_set(err, STATUS_INVALID, "must be a host, an address or a network");
    return status;
}

enum status allowance_parse(struct slice text, struct allowance *out, struct err *err)
{
    struct allowance read = {0};
    struct slice rest = text;
    enum status status = STATUS_OK;

    if (text.len == 0)
        return err_set(err, STATUS_INVALID, "must be a host, an address or a network");
    if (memmem(text.ptr, text.len, "://", 3))
        return err_set(err, STATUS_INVALID,
                       "must be a host as hooks.example.org or hooks.example.org:8443, without "
                       "http:// and a path");
    status = split_port(&rest, &read.port, err);
    if (status == STATUS_OK && !(rest.len > 0 && read_numeric(rest, &read, &status, err)))
        status = read_name(rest, &read, err);
    if (status == STATUS_OK)
        *out = read;
    return status;
}

static bool port_fits(const struct allowance *entry, uint16_t port)
{
    return entry->port == 0 || entry->port == port;
}

/* network_allows says whether a listed network has an address. */
static bool network_allows(const struct targets *targets, struct address address, uint16_t port)
{
    for (size_t i = 0; i < targets->allow_count; i++) {
        const struct allowance *entry = &targets->allow[i];
        if (entry->host.len == 0 && port_fits(entry, port) && network_has(entry->network, address))
            return true;
    }
    return false;
}

/* name_fits says whether a host is the one of an entry, or one below it. */
static bool name_fits(const struct allowance *entry, struct slice host)
{
    size_t len = entry->host.len;

    if (!entry->below)
        return url_same_text(host, entry->host);
    return host.len > len + 1 && host.ptr[host.len - len - 1] == '.' &&
           url_same_text((struct slice){host.ptr + host.len - len, len}, entry->host);
}

static bool name_allows(const struct targets *targets, struct slice host, uint16_t port)
{
    for (size_t i = 0; i < targets->allow_count; i++) {
        const struct allowance *entry = &targets->allow[i];
        if (entry->host.len > 0 && port_fits(entry, port) && name_fits(entry, host))
            return true;
    }
    return false;
}

/* ---- resolving --------------------------------------------------------------------------------
 */

/* not_configured lists the names that are. */
static enum status not_configured(const struct targets *targets, struct slice name, struct err *err)
{
    char list[NAMES_SHOWN_MAX + TARGET_NAME_MAX + 8];
    size_t len = 0;

    if (target_name_check(name, NULL) != STATUS_OK)
        return err_set(err, STATUS_NOT_FOUND,
                       "target: neither the name of a target nor an address that begins with "
                       "http:// or https://");
    if (targets->count == 0)
        return err_set(err, STATUS_NOT_FOUND,
                       "target: there is no target %.*s: none is configured (targets)",
                       SLICE_ARG(name));
    list[0] = '\0';
    for (size_t i = 0; i < targets->count && len < NAMES_SHOWN_MAX; i++) {
        struct slice shown = field_head(targets->list[i].name, TARGET_NAME_MAX);
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%.*s", i ? ", " : "",
                                SLICE_ARG(shown));
    }
    return err_set(err, STATUS_NOT_FOUND,
                   "target: there is no target %.*s; configured (targets): %s%s", SLICE_ARG(name),
                   list, len < NAMES_SHOWN_MAX ? "" : ", ...");
}

static enum status check_allowed(const struct targets *targets, struct slice plain, struct err *err)
{
    struct url url;
    struct address address;

    enum status status = url_parse(plain, &url, err);
    if (status != STATUS_OK)
        return status;
    bool numeric = address_parse(url.host, &address);
    if (numeric ? network_allows(targets, address, url.port)
                : name_allows(targets, url.host, url.port))
        return STATUS_OK;
    const char *range = numeric ? address_range(address) : NULL;
    return err_set(
        err, STATUS_REFUSED,
        "target: deliveries to %s%.*s%s:%u%s%s%s are not allowed: configure a target for "
        "it (targets), or list the host (deliveries.allow)",
        url.bracketed ? "[" : "", SLICE_ARG(url.host), url.bracketed ? "]" : "", (unsigned)url.port,
        range ? " (" : "", range ? range : "", range ? ")" : "");
}

enum status targets_resolve(const struct targets *targets, struct slice text,
                            enum delivery_kind kind, struct arena *arena, struct target *out,
                            struct err *err)
{
    struct target target;

    if (text.len == 0 || !memmem(text.ptr, text.len, "://", 3)) {
        for (size_t i = 0; i < targets->count; i++) {
            if (slice_eq(targets->list[i].name, text)) {
                *out = targets->list[i];
                return STATUS_OK;
            }
        }
        return not_configured(targets, text, err);
    }
    enum status status = target_of_url(text, kind, arena, &target, err);
    if (status != STATUS_OK) {
        err_prefix(err, "target");
        return status;
    }
    status = check_allowed(targets, target.url, err);
    if (status != STATUS_OK)
        return status;
    target.connect = targets->connect;
    target.whole = targets->whole;
    *out = target;
    return STATUS_OK;
}

enum status targets_may_connect(const struct targets *targets, const struct target *target,
                                struct address address, uint16_t port, struct err *err)
{
    const char *range = address_range(address);
    char text[ADDRESS_TEXT_SIZE];

    if (!range || target->trusted || network_allows(targets, address, port))
        return STATUS_OK;
    address_format(address, text);
    return err_set(err, STATUS_REFUSED,
                   "%s (%s) may not be connected to: list it (deliveries.allow)", text, range);
}
