/* remote: see remote.h.  One handle of libcurl's, which keeps the connection between requests. */
#include "cli/remote.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"

#define SOCKET_PATH_MAX 108 /* of sockaddr_un */
#define CONNECT_TIMEOUT_MS 10000
#define OWNER_TIMEOUT_MS 3600000L /* for an owner to ask for a body; a server has a second */
#define URL_MAX_BYTES (256 << 10) /* a base, a path and a query */
#define HEADER_MAX_BYTES (16 << 10)

struct remote {
    CURL *curl;
    struct buf base;  /* "https://host:8700/prefix", without a slash at its end */
    struct buf where; /* what a person calls it: the URL, or the path of the socket */
    struct buf socket;
    struct buf authorization; /* the header; empty: none */
    uint32_t connect_timeout_ms;
    bool direct; /* no proxy in between: a socket, or this machine */
    char trouble[CURL_ERROR_SIZE];
    bool probing;  /* the request that is being sent only looks whether anybody answers */
    bool alive;    /* somebody did */
    int directory; /* of a socket with a long path; -1: none */
};

/* ---- the address ------------------------------------------------------------------------------
 */

static enum status bad_url(const char *url, const char *why, struct err *err)
{
    return err_set(err, STATUS_INVALID, "\"%s\" is no address of a server: %s", url, why);
}

/* has_part says whether a URL has something that belongs into no address. */
static bool has_part(CURLU *parsed, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(parsed, part, &text, 0) == CURLUE_OK && text && *text;
    curl_free(text);
    return has;
}

static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

/* check_url accepts http and https with a host, a port and a path. */
static enum status check_url(struct remote *remote, CURLU *parsed, const char *url, struct err *err)
{
    char *scheme = NULL, *host = NULL;
    enum status status = STATUS_OK;

    if (curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
        return bad_url(url, "it should be like http://127.0.0.1:8700", err);
    if (curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parsed, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        status = bad_url(url, "it should be like http://127.0.0.1:8700", err);
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        status = bad_url(url, "it begins with neither http:// nor https://", err);
    else if (has_part(parsed, CURLUPART_USER) || has_part(parsed, CURLUPART_PASSWORD))
        status = bad_url(url, "it has a name or a password; give a token instead", err);
    else if (has_part(parsed, CURLUPART_QUERY) || has_part(parsed, CURLUPART_FRAGMENT))
        status = bad_url(url, "it has something after a \"?\" or a \"#\"", err);
    else
        remote->direct = is_loopback(host);
    curl_free(scheme);
    curl_free(host);
    return status;
}

static enum status take_url(struct remote *remote, const char *url, struct err *err)
{
    CURLU *parsed = curl_url();
    enum status status = parsed ? check_url(remote, parsed, url, err) : err_no_memory(err);
    size_t len = strlen(url);

    curl_url_cleanup(parsed);
    while (len > 0 && url[len - 1] == '/')
        len--;
    buf_add(&remote->base, url, len);
    buf_add(&remote->where, url, len);
    return status;
}

static void take_socket(struct remote *remote, const char *path)
{
    const char *name = strrchr(path, '/');

    remote->direct = true;
    /* A path that is too long for a socket's address is reached through its directory. */
    if (name && strlen(path) >= SOCKET_PATH_MAX) {
        struct buf parent;
        buf_init(&parent, URL_MAX_BYTES);
        buf_add(&parent, path, (size_t)(name - path));
        remote->directory = open(buf_str(&parent), O_PATH | O_DIRECTORY | O_CLOEXEC);
        buf_addf(&remote->socket, "/proc/self/fd/%d%s", remote->directory, name);
        buf_release(&parent);
    } else {
        buf_add_str(&remote->socket, path);
    }
    buf_add_str(&remote->where, path);
    buf_add_str(&remote->base, "http://localhost");
}

/* take_token refuses what could not stand in a header. */
static enum status take_token(struct remote *remote, const char *token, struct err *err)
{
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~')
            return err_set(err, STATUS_INVALID,
                           "the token has a character that no token has: letters, digits and signs "
                           "without spaces are what it is made of");
    buf_addf(&remote->authorization, "Authorization: Bearer %s", token);
    return STATUS_OK;
}

/* ---- open and close ---------------------------------------------------------------------------
 */

/* check_texts says whether there was room for every text. */
static enum status check_texts(const struct remote *remote, struct err *err)
{
    enum status status = buf_status(&remote->base, err);
    if (status == STATUS_OK)
        status = buf_status(&remote->where, err);
    if (status == STATUS_OK)
        status = buf_status(&remote->socket, err);
    if (status == STATUS_OK)
        status = buf_status(&remote->authorization, err);
    return status;
}

enum status remote_open(const struct remote_config *config, struct remote **out, struct err *err)
{
    struct remote *remote = mem_zalloc(sizeof *remote);
    enum status status = STATUS_OK;

    if (!remote)
        return err_no_memory(err);
    remote->directory = -1;
    buf_init(&remote->base, URL_MAX_BYTES);
    buf_init(&remote->where, URL_MAX_BYTES);
    buf_init(&remote->socket, URL_MAX_BYTES);
    buf_init(&remote->authorization, HEADER_MAX_BYTES);
    remote->connect_timeout_ms =
        config->connect_timeout_ms ? config->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    if (config->socket)
        take_socket(remote, config->socket);
    else
        status = take_url(remote, config->url, err);
    if (status == STATUS_OK && config->token && *config->token)
        status = take_token(remote, config->token, err);
    if (status == STATUS_OK)
        status = check_texts(remote, err);
    if (status == STATUS_OK &&
        (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK || !(remote->curl = curl_easy_init())))
        status = err_no_memory(err);
    if (status != STATUS_OK) {
        remote_close(remote);
        return status;
    }
    *out = remote;
    return STATUS_OK;
}

void remote_close(struct remote *remote)
{
    if (!remote)
        return;
    curl_easy_cleanup(remote->curl);
    if (remote->directory >= 0)
        close(remote->directory);
    buf_release(&remote->base);
    buf_release(&remote->where);
    buf_release(&remote->socket);
    buf_release(&remote->authorization);
    mem_free(remote);
}

/* ---- the request ------------------------------------------------------------------------------
 */

/* struct exchange: one request and what came back. */
struct exchange {
    struct remote *remote;
    const struct api_request *request;
    struct api_answer *answer;
    struct buf url;
    struct curl_slist *headers;
    bool no_memory;
};

/* header adds a line to the request's head. */
__attribute__((format(printf, 2, 3))) static void header(struct exchange *x, const char *format,
                                                         ...)
{
    struct buf line;
    struct curl_slist *longer;
    va_list args;

    buf_init(&line, HEADER_MAX_BYTES);
    va_start(args, format);
    buf_vaddf(&line, format, args);
    va_end(args);
    longer =
        buf_status(&line, NULL) == STATUS_OK ? curl_slist_append(x->headers, buf_str(&line)) : NULL;
    if (longer)
        x->headers = longer;
    else
        x->no_memory = true;
    buf_release(&line);
}

static void make_headers(struct exchange *x)
{
    const struct api_request *request = x->request;

    header(x, "Accept: application/json");
    if (strcmp(request->method, "GET") != 0) {
        header(x, "Content-Type: %.*s",
               SLICE_ARG(request->content_type.len > 0 ? request->content_type
                                                       : SLICE("application/json")));
        header(x, "Expect:%s", request->body.len > 0 ? " 100-continue" : "");
    }
    if (request->actor.len > 0)
        header(x, "X-Lazaret-Actor: %.*s", SLICE_ARG(request->actor));
    if (x->remote->authorization.len > 0)
        header(x, "%s", buf_str(&x->remote->authorization));
}

static void make_url(struct exchange *x)
{
    buf_add_slice(&x->url, buf_slice(&x->remote->base));
    buf_add_slice(&x->url, x->request->path);
    if (x->request->query.len > 0) {
        buf_add_char(&x->url, '?');
        buf_add_slice(&x->url, x->request->query);
    }
}

/* ---- the answer -------------------------------------------------------------------------------
 */

static size_t take_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct exchange *x = ctx;
    buf_add(&x->answer->body, bytes, size * count);
    return x->answer->body.status == STATUS_OK ? size * count : 0;
}

/* header_value finds a header of the answer; false when it is not there. */
static bool header_value(struct exchange *x, const char *name, struct slice *out)
{
    struct curl_header *found = NULL;
    if (curl_easy_header(x->remote->curl, name, 0, CURLH_HEADER, -1, &found) != CURLHE_OK)
        return false;
    *out = slice_of(found->value);
    return true;
}

static int64_t header_number(struct exchange *x, const char *name)
{
    struct slice text;
    struct json value;
    int64_t number = 0;
    if (!header_value(x, name, &text) || json_parse(text, &value, NULL) != STATUS_OK ||
        !json_int(value, &number))
        return 0;
    return number;
}

static bool is_json(struct slice type)
{
    return type.len >= 16 && strncasecmp(type.ptr, "application/json", 16) == 0;
}

/* not_lazaret is for an answer that Lazaret would not give. */
static enum remote_outcome not_lazaret(struct exchange *x, long status, struct err *err)
{
    struct slice type = SLICE("nothing readable"), target;
    const char *where = buf_str(&x->remote->where);

    if (status >= 300 && status < 400 && header_value(x, "Location", &target))
        err_set(err, STATUS_UNAVAILABLE,
                "%s sends requests on to %.*s: give the address of the Lazaret server itself",
                where, SLICE_ARG(target));
    else if (!header_value(x, "Content-Type", &type) || !is_json(type))
        err_set(err, STATUS_UNAVAILABLE,
                "what answers at %s is not Lazaret, or something stands in between: it answered "
                "%ld with %.*s",
                where, status, SLICE_ARG(type));
    else
        err_set(err, STATUS_UNAVAILABLE,
                "what answers at %s is not Lazaret: it answered %ld with something that is not "
                "JSON",
                where, status);
    return REMOTE_REFUSED;
}

/* read_answer takes what the head says, and looks whether it is Lazaret that answered. */
static enum remote_outcome read_answer(struct exchange *x, struct err *err)
{
    struct api_answer *answer = x->answer;
    struct slice type;
    struct json value;
    long status = 0;

    curl_easy_getinfo(x->remote->curl, CURLINFO_RESPONSE_CODE, &status);
    if ((status >= 300 && status < 400) || !header_value(x, "Content-Type", &type) ||
        !is_json(type) || json_parse(buf_slice(&answer->body), &value, NULL) != STATUS_OK)
        return not_lazaret(x, status, err);
    if (status == 401) {
        buf_clear(&answer->body);
        api_answer_error(answer, 401, "unauthorized",
                         x->remote->authorization.len > 0
                             ? "the server does not know this token: it may have been revoked"
                             : "the server asks for a token: give --token or set LAZARET_TOKEN");
        return REMOTE_ANSWERED;
    }
    answer->status = (int)status;
    answer->cursor = header_number(x, "X-Next-Cursor");
    answer->retry_after_s = header_number(x, "Retry-After");
    return REMOTE_ANSWERED;
}

/* ---- when there is none -----------------------------------------------------------------------
 */

/* os_reason is why the system would not connect; "" when it is not known. */
static const char *os_reason(struct remote *remote)
{
    long number = 0;
    curl_easy_getinfo(remote->curl, CURLINFO_OS_ERRNO, &number);
    return number > 0 ? strerror((int)number) : "";
}

/* unreached is for a request that never left. */
static enum remote_outcome unreached(struct remote *remote, CURLcode code, struct err *err)
{
    const char *where = buf_str(&remote->where), *why = os_reason(remote);

    if (code == CURLE_OPERATION_TIMEDOUT)
        err_set(err, STATUS_UNAVAILABLE, "no server answers at %s within %g s", where,
                remote->connect_timeout_ms / 1000.0);
    else if (code == CURLE_COULDNT_RESOLVE_HOST)
        err_set(err, STATUS_UNAVAILABLE, "no server answers at %s: its host has no address", where);
    else if (code == CURLE_COULDNT_RESOLVE_PROXY)
        err_set(err, STATUS_UNAVAILABLE,
                "no server answers at %s: the proxy that the environment names has no address",
                where);
    else
        err_set(err, STATUS_UNAVAILABLE, "no server answers at %s%s%s", where, *why ? ": " : "",
                why);
    return REMOTE_UNSENT;
}

/* untrusted is for TLS that did not come about: nothing was sent, and trying again is no use. */
static enum remote_outcome untrusted(struct remote *remote, CURLcode code, struct err *err)
{
    const char *where = buf_str(&remote->where);
    const char *why = *remote->trouble ? remote->trouble : curl_easy_strerror(code);

    if (code == CURLE_PEER_FAILED_VERIFICATION)
        err_set(err, STATUS_UNAVAILABLE,
                "the certificate of %s is not trusted: %s; when it is right, name the file of "
                "its authority in SSL_CERT_FILE",
                where, why);
    else if (code == CURLE_SSL_CACERT_BADFILE)
        err_set(err, STATUS_UNAVAILABLE, "SSL_CERT_FILE: %s", why);
    else
        err_set(err, STATUS_UNAVAILABLE, "no TLS with %s: %s; does it speak plain http?", where,
                why);
    return REMOTE_REFUSED;
}

/* broken is for a connection that broke while the request was on its way. */
static enum remote_outcome broken(struct exchange *x, CURLcode code, struct err *err)
{
    struct remote *remote = x->remote;
    const char *where = buf_str(&remote->where);
    curl_off_t sent = 0;

    if (code == CURLE_WRITE_ERROR && x->answer->body.status != STATUS_OK) {
        buf_status(&x->answer->body, err);
        err_prefix(err, "the answer of %s", where);
        return REMOTE_REFUSED;
    }
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
        err_set(err, STATUS_UNAVAILABLE, "what answers at %s does not speak HTTP: is it https?",
                where);
        return REMOTE_REFUSED;
    }
    err_set(err, STATUS_UNAVAILABLE, "%s went away before it answered: %s", where,
            *remote->trouble ? remote->trouble : curl_easy_strerror(code));
    /* A body that was never asked for was never sent, and without it nothing happened. */
    curl_easy_getinfo(remote->curl, CURLINFO_SIZE_UPLOAD_T, &sent);
    return x->request->body.len > 0 && sent == 0 ? REMOTE_UNSENT : REMOTE_UNKNOWN;
}

static enum remote_outcome no_answer(struct exchange *x, CURLcode code, struct err *err)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        err_no_memory(err);
        return REMOTE_REFUSED;
    case CURLE_URL_MALFORMAT:
        err_set(err, STATUS_INVALID, "the request to %s is too long", buf_str(&x->remote->where));
        return REMOTE_REFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT: /* only connecting and the probe have a limit */
        return unreached(x->remote, code, err);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        return untrusted(x->remote, code, err);
    default:
        return broken(x, code, err);
    }
}

/* ---- the call ---------------------------------------------------------------------------------
 */

/* set_way sets how to get there. */
static void set_way(struct exchange *x)
{
    struct remote *remote = x->remote;
    const char *authority = getenv("SSL_CERT_FILE");

    curl_easy_setopt(remote->curl, CURLOPT_URL, buf_str(&x->url));
    curl_easy_setopt(remote->curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(remote->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(remote->curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(remote->curl, CURLOPT_MAXCONNECTS, 1L);
    curl_easy_setopt(remote->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(remote->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(remote->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)remote->connect_timeout_ms);
    if (remote->probing)
        curl_easy_setopt(remote->curl, CURLOPT_TIMEOUT_MS, (long)remote->connect_timeout_ms);
    if (remote->socket.len > 0)
        curl_easy_setopt(remote->curl, CURLOPT_UNIX_SOCKET_PATH, buf_str(&remote->socket));
    if (remote->direct)
        curl_easy_setopt(remote->curl, CURLOPT_PROXY, "");
    if (authority && *authority)
        curl_easy_setopt(remote->curl, CURLOPT_CAINFO, authority);
    curl_easy_setopt(remote->curl, CURLOPT_ERRORBUFFER, remote->trouble);
}

static void set_request(struct exchange *x)
{
    CURL *curl = x->remote->curl;
    const struct api_request *request = x->request;
    bool get = strcmp(request->method, "GET") == 0;

    if (!get) {
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.len > 0 ? request->body.ptr : "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
        if (x->remote->socket.len > 0)
            curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, OWNER_TIMEOUT_MS);
    }
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "lazaret/" LAZARET_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
}

/* perform sends one request. */
static enum remote_outcome perform(struct remote *remote, const struct api_request *request,
                                   struct api_answer *answer, struct err *err)
{
    struct exchange x = {.remote = remote, .request = request, .answer = answer};
    enum remote_outcome outcome;

    buf_init(&x.url, URL_MAX_BYTES);
    make_url(&x);
    make_headers(&x);
    if (x.no_memory || buf_status(&x.url, NULL) != STATUS_OK) {
        err_no_memory(err);
        outcome = REMOTE_REFUSED;
    } else {
        buf_clear(&answer->body);
        remote->trouble[0] = '\0';
        curl_easy_reset(remote->curl); /* keeps the connection */
        set_way(&x);
        set_request(&x);
        CURLcode code = curl_easy_perform(remote->curl);
        outcome = code == CURLE_OK ? read_answer(&x, err) : no_answer(&x, code, err);
    }
    curl_slist_free_all(x.headers);
    buf_release(&x.url);
    return outcome;
}

/* probe looks whether anybody is at home: a process that hangs accepts connections all the same.
 * What is answered does not matter: the request itself will show it. */
static enum remote_outcome probe(struct remote *remote, struct err *err)
{
    const struct api_request request = {.method = "GET", .path = SLICE("/healthz")};
    struct api_answer answer;

    api_answer_init(&answer);
    remote->probing = true;
    enum remote_outcome outcome = perform(remote, &request, &answer, err);
    remote->probing = false;
    api_answer_release(&answer);
    return outcome == REMOTE_UNKNOWN ? REMOTE_UNSENT : outcome;
}

enum remote_outcome remote_call(struct remote *remote, const struct api_request *request,
                                struct api_answer *answer, struct err *err)
{
    if (!remote->alive) {
        enum remote_outcome outcome = probe(remote, err);
        if (outcome != REMOTE_ANSWERED)
            return outcome;
        remote->alive = true;
    }
    return perform(remote, request, answer, err);
}
