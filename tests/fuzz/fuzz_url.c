/* fuzz_url: a first line as the address of an endpoint, the rest as an entry of the allow-list.
 *
 * What is refused must say why, without repeating it.  What is accepted has a plain form that
 * is read as the same, once and for all, and the platform's own reader of numeric addresses, which
 * is lax, finds in its host nothing that ours does not.  An address that is let through is one that
 * its entry names. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>

#include "core/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* check_numeric compares with the platform: a host is a numeric address for both or for neither. */
static void check_numeric(const struct url *url)
{
    char text[URL_HOST_MAX + 1];
    struct in_addr v4;
    struct in6_addr v6;
    struct address ours = {{0}}, theirs = {{0}};

    BUG_ON(url->host.len == 0 || url->host.len > URL_HOST_MAX);
    memcpy(text, url->host.ptr, url->host.len);
    text[url->host.len] = '\0';
    bool numeric = address_parse(url->host, &ours), lax = true;
    if (inet_aton(text, &v4))
        theirs = address_v4((const uint8_t *)&v4);
    else if (inet_pton(AF_INET6, text, &v6) == 1)
        theirs = address_v6((const uint8_t *)&v6);
    else
        lax = false;
    BUG_ON(numeric != lax || (numeric && !address_equal(ours, theirs)));
    BUG_ON(url->bracketed && !numeric);
}

static void check_plain(const struct url *url, const char *suffix)
{
    struct buf plain, again;
    struct url read;

    buf_init(&plain, 2 * URL_MAX);
    buf_init(&again, 2 * URL_MAX);
    url_print(url, suffix, &plain);
    BUG_ON(buf_status(&plain, NULL) != STATUS_OK);
    if (plain.len <= URL_MAX) {
        BUG_ON(url_parse(buf_slice(&plain), &read, NULL) != STATUS_OK);
        BUG_ON(read.tls != url->tls || read.port != url->port);
        BUG_ON(!url_same_host(read.host, url->host) || read.path.len == 0);
        url_print(&read, suffix, &again);
        BUG_ON(!slice_eq(buf_slice(&plain), buf_slice(&again)));
    }
    buf_release(&plain);
    buf_release(&again);
}

static void check_entry(struct slice entry, struct slice address, struct arena *arena)
{
    struct allowance allowance;
    struct targets targets = {.allow = &allowance, .allow_count = 1};
    struct target target;
    struct url url;
    struct address numeric;
    struct err err = {0};

    if (allowance_parse(entry, &allowance, &err) != STATUS_OK) {
        BUG_ON(err.text[0] == '\0');
        return;
    }
    BUG_ON(allowance.host.len > 0 && address_parse(allowance.host, &numeric));
    if (targets_resolve(&targets, address, DELIVERY_MCP, arena, &target, &err) != STATUS_OK) {
        BUG_ON(err.text[0] == '\0');
        return;
    }
    BUG_ON(url_parse(target.url, &url, NULL) != STATUS_OK);
    BUG_ON(allowance.port && allowance.port != url.port);
    if (allowance.host.len == 0) {
        BUG_ON(!address_parse(url.host, &numeric) || !network_has(allowance.network, numeric));
        BUG_ON(targets_may_connect(&targets, &target, numeric, url.port, &err) != STATUS_OK);
    } else {
        BUG_ON(!allowance.below && !url_same_host(url.host, allowance.host));
        BUG_ON(allowance.below && url.host.len <= allowance.host.len + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct slice text = {(const char *)data, len};
    struct arena arena = {0};
    struct url url;
    struct err err = {0};

    if (url_parse(text, &url, &err) == STATUS_OK) {
        check_numeric(&url);
        check_plain(&url, NULL);
        check_plain(&url, "/mcp");
    } else {
        BUG_ON(err.text[0] == '\0');
        BUG_ON(len >= 32 && memmem(err.text, strlen(err.text), text.ptr, len));
    }
    if (newline)
        check_entry((struct slice){newline + 1, size - len - 1}, text, &arena);
    arena_release(&arena);
    return 0;
}
