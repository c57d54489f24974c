/* gate.c: see gate.h. */
#include "api/gate.h"

#include <strings.h>

#include "base/json.h"

/* ---- who ------------------------------------------------------------------------------------- */

/* claim takes the actor that the asker names, where that is believed. */
static void claim(const struct http_exchange *exchange, struct visit *visit, const char *otherwise)
{
    struct slice name = http_header(exchange, "X-Lazaret-Actor");
    if (name.len == 0 || name.len > GATE_ACTOR_MAX || !json_utf8_valid(name))
        name = slice_of(otherwise);
    memcpy(visit->actor, name.ptr, name.len);
    visit->actor[name.len] = '\0';
}

/* bearer finds the token of the Authorization header; empty: there is none. */
static struct slice bearer(const struct http_exchange *exchange)
{
    struct slice value = http_header(exchange, "Authorization");
    if (value.len < 7 || strncasecmp(value.ptr, "Bearer ", 7) != 0)
        return (struct slice){0};
    value.ptr += 7;
    value.len -= 7;
    while (value.len && value.ptr[0] == ' ')
        value.ptr++, value.len--;
    return value;
}

static struct refusal identify(struct tokens *tokens, const struct http_exchange *exchange,
                               struct visit *visit)
{
    struct token_identity identity;
    struct slice token = bearer(exchange);
    if (http_header(exchange, "Authorization").len == 0)
        return (struct refusal){0};
    if (token.len == 0 || !tokens_check(tokens, token, &identity))
        return (struct refusal){401, "unauthorized", "the token is unknown, revoked or expired"};
    visit->role = identity.role;
    visit->proven = true;
    memcpy(visit->actor, identity.name, strlen(identity.name) + 1);
    return (struct refusal){0};
}

/* ---- from where ------------------------------------------------------------------------------ */

/* host_name is the Host header without its port. */
static struct slice host_name(struct slice host)
{
    if (host.len && host.ptr[0] == '[') {
        const char *end = memchr(host.ptr, ']', host.len);
        return end ? (struct slice){host.ptr, (size_t)(end - host.ptr) + 1} : host;
    }
    const char *colon = host.len ? memchr(host.ptr, ':', host.len) : NULL;
    return colon ? (struct slice){host.ptr, (size_t)(colon - host.ptr)} : host;
}

/* is_loopback_number: 127.x.y.z.  Digits and dots alone: anybody may own "127.0.0.1.example.com".
 */
static bool is_loopback_number(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] != '.' && (name.ptr[i] < '0' || name.ptr[i] > '9'))
            return false;
    return slice_starts(name, SLICE("127."));
}

static bool is_loopback_name(struct slice host)
{
    struct slice name = host_name(host);
    return (name.len == 9 && strncasecmp(name.ptr, "localhost", 9) == 0) ||
           is_loopback_number(name) || slice_is(name, "[::1]");
}

/* is_foreign says whether a browser sent the request for a page of another site. */
static bool is_foreign(const struct http_exchange *exchange)
{
    struct slice site = http_header(exchange, "Sec-Fetch-Site");
    struct slice origin = http_header(exchange, "Origin");
    struct slice host = http_header(exchange, "Host");
    if (site.len && !slice_is(site, "same-origin") && !slice_is(site, "none"))
        return true;
    if (origin.len == 0)
        return false;
    const char *authority = memmem(origin.ptr, origin.len, "://", 3);
    if (!authority)
        return true;
    struct slice from = {authority + 3, origin.len - (size_t)(authority + 3 - origin.ptr)};
    return from.len != host.len || strncasecmp(from.ptr, host.ptr, host.len) != 0;
}

static bool only_looks(const struct http_exchange *exchange)
{
    const char *method = http_method(exchange);
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* ---- what ------------------------------------------------------------------------------------ */

/* is_json says whether a media type is JSON, or lines of it; none is taken for JSON. */
static bool is_json(struct slice type)
{
    const char *end = type.len ? memchr(type.ptr, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.ptr);
    while (type.len && type.ptr[type.len - 1] == ' ')
        type.len--;
    static const char *const known[] = {"application/json", "application/x-ndjson",
                                        "application/merge-patch+json",
                                        "application/json-patch+json"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (type.len == strlen(known[i]) && strncasecmp(type.ptr, known[i], type.len) == 0)
            return true;
    return type.len == 0;
}

/* ---- the gate -------------------------------------------------------------------------------- */

struct refusal gate_enter(struct tokens *tokens, const struct http_exchange *exchange,
                          struct visit *visit)
{
    struct refusal refusal = {0};
    *visit = (struct visit){0};
    bool required = tokens && !http_local(exchange) && tokens_required(tokens);
    if (http_local(exchange) || !required) {
        visit->role = ROLE_ADMIN;
        claim(exchange, visit, http_local(exchange) ? "local" : "api");
    } else {
        refusal = identify(tokens, exchange, visit);
    }
    if (!refusal.status && !http_local(exchange) && !required &&
        (!http_loopback(exchange) || !is_loopback_name(http_header(exchange, "Host"))))
        refusal = (struct refusal){403, "refused",
                                   "without tokens only this machine may ask, by a loopback name: "
                                   "make a token with \"lazaret token create\""};
    if (!refusal.status && !only_looks(exchange) && is_foreign(exchange))
        refusal =
            (struct refusal){403, "refused", "a browser says that this request is another site's"};
    if (!refusal.status && http_has_body(exchange) &&
        !is_json(http_header(exchange, "Content-Type")))
        refusal = (struct refusal){415, "unsupported_media_type",
                                   "the body must be JSON: send \"Content-Type: application/json\" "
                                   "(or application/x-ndjson for one document a line)"};
    return refusal;
}

bool gate_still(struct tokens *tokens, const struct http_exchange *exchange,
                const struct visit *visit)
{
    struct token_identity identity;
    if (visit->proven)
        return tokens_check(tokens, bearer(exchange), &identity) && identity.role == visit->role;
    return http_local(exchange) || !tokens || !tokens_required(tokens);
}
