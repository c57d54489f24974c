/* http.c: exchanges over libmicrohttpd.
 *
 *     head read --> exchange_access --> head_fault, begin --+-- answered: no body is read
 *                                                     `-- body ... --> request --+-- answered
 *                        request again <-- http_resume <-- suspended <-- held ---+
 *                                                                                `-- stream
 *     sent, or not --> exchange_completed --> end, freed
 *
 * The address is taken as it was sent (libmicrohttpd's own copy is decoded, which would make "%2F"
 * a slash).  A response is made for each answer; its body is the caller's buffer, not a copy. */
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

#include "api/http_internal.h"
#include "base/jsonw.h"
#include "base/mem.h"

#define OVERRUN 4 /* a body without a length is read to so many limits, then cut */
#define STREAM_BLOCK (32 << 10)

struct http_exchange {
    struct http *http;
    struct loop *loop;                  /* whose connection it is */
    struct http_exchange *resumed_next; /* of the loop's list */
    struct MHD_Connection *connection;
    struct visitor *visitor;
    struct buf uri; /* as it was sent */
    struct slice path, query;
    const char *method;
    struct buf body;
    size_t body_len; /* of all that came, also what was not kept */
    long long since_us;
    void *own;     /* the handler's */
    bool begun;    /* `begin` was called, so `end` will be */
    bool answered; /* a response was queued, or could not be */
    bool held;     /* suspended */
    bool watched;
    bool dropped;
    enum MHD_Result queued;

    long (*stream_read)(void *own, char *out, size_t max);
    void *stream_own;
    pthread_mutex_t stream_lock;
    bool stream_asleep; /* suspended: a wake resumes it */
    bool stream_woken;  /* woken while it was not asleep */
};

/* ---- an exchange ------------------------------------------------------------------------------
 */

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

struct slice http_path(const struct http_exchange *exchange)
{
    return exchange->path;
}

struct slice http_query(const struct http_exchange *exchange)
{
    return exchange->query;
}

struct slice http_header(const struct http_exchange *exchange, const char *name)
{
    return slice_of(MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name));
}

struct slice http_body(const struct http_exchange *exchange)
{
    return buf_slice(&exchange->body);
}

bool http_has_body(const struct http_exchange *exchange)
{
    struct slice length = http_header(exchange, "Content-Length");
    return http_header(exchange, "Transfer-Encoding").len || (length.len && !slice_is(length, "0"));
}

struct slice http_peer(const struct http_exchange *exchange)
{
    return slice_of(exchange->visitor->peer);
}

bool http_local(const struct http_exchange *exchange)
{
    return exchange->http->config.local;
}

bool http_loopback(const struct http_exchange *exchange)
{
    return exchange->visitor->loopback;
}

struct span http_since(const struct http_exchange *exchange)
{
    return (struct span){steady_us() - exchange->since_us};
}

void http_set(struct http_exchange *exchange, void *own)
{
    exchange->own = own;
}

void *http_get(const struct http_exchange *exchange)
{
    return exchange->own;
}

/* ---- holding ----------------------------------------------------------------------------------
 */

void http_hold(struct http_exchange *exchange, bool watch)
{
    visitor_phase(exchange->visitor, PHASE_HELD, 0);
    exchange->held = true;
    exchange->watched = watch;
    MHD_suspend_connection(exchange->connection);
    if (watch)
        visitor_watch(exchange->http, exchange->visitor, exchange);
}

void http_resume(struct http_exchange *exchange)
{
    loop_resume(exchange->loop, exchange);
}

void exchange_link(struct http_exchange *exchange, struct http_exchange *next)
{
    exchange->resumed_next = next;
}

struct http_exchange *exchange_wake(struct http_exchange *exchange)
{
    struct http_exchange *next = exchange->resumed_next;
    MHD_resume_connection(exchange->connection);
    return next;
}

/* unhold is for the network thread, when the exchange is back. */
static void unhold(struct http_exchange *exchange)
{
    if (exchange->watched)
        visitor_unwatch(exchange->http, exchange->visitor);
    exchange->held = exchange->watched = false;
}

bool http_present(const struct http_exchange *exchange)
{
    const struct http *http = exchange->http;
    /* In a drain this end has stopped listening itself: see visitors_hear_no_more. */
    if (http->config.local && atomic_load(&http->draining))
        return true;
    return !has_left(exchange->visitor->fd);
}

/* ---- answering --------------------------------------------------------------------------------
 */

/* queue sends a response, with the fields, and lets go of it. */
static void queue(struct http_exchange *exchange, int status, const struct http_field *fields,
                  struct MHD_Response *response)
{
    exchange->answered = true;
    exchange->queued = MHD_NO;
    if (!response)
        return;
    for (; fields && fields->name; fields++)
        MHD_add_response_header(response, fields->name, fields->value);
    if (atomic_load_explicit(&exchange->http->draining, memory_order_relaxed))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    exchange->queued = MHD_queue_response(exchange->connection, (unsigned)status, response);
    MHD_destroy_response(response);
}

void http_answer(struct http_exchange *exchange, int status, const struct http_field *fields,
                 struct buf *body)
{
    size_t len = body->len;
    char *bytes = body->ptr;
    visitor_phase(exchange->visitor, PHASE_ANSWER, len);
    struct MHD_Response *response =
        len ? MHD_create_response_from_buffer_with_free_callback(len, bytes, mem_free)
            : MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (response && len)
        *body = (struct buf){.max = body->max};
    queue(exchange, status, fields, response);
}

void http_drop(struct http_exchange *exchange)
{
    exchange->dropped = true;
}

/* refuse answers what is wrong with the request itself, and ends the connection: what follows on it
 * cannot be trusted. */
static void refuse(struct http_exchange *exchange, int status, const char *sentence)
{
    static const struct http_field fields[] = {
        {"Content-Type", "application/json"},
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
        {"Connection", "close"},
        {NULL, NULL}};
    struct buf body;
    struct jsonw out;
    buf_init(&body, 1024);
    jsonw_init(&out, &body);
    jsonw_object(&out);
    jsonw_put_str(&out, "error", sentence);
    jsonw_put_str(&out, "code", status == 413 || status == 431 ? "too_large" : "invalid");
    jsonw_object_end(&out);
    buf_add_char(&body, '\n');
    http_answer(exchange, status, fields, &body);
    buf_release(&body);
}

/* ---- a stream ---------------------------------------------------------------------------------
 */

static ssize_t on_stream_read(void *ctx, uint64_t position, char *out, size_t max)
{
    (void)position;
    struct http_exchange *exchange = ctx;
    for (;;) {
        long len = exchange->stream_read(exchange->stream_own, out, max);
        if (len != 0)
            return len > 0 ? (ssize_t)len : MHD_CONTENT_READER_END_OF_STREAM;
        pthread_mutex_lock(&exchange->stream_lock);
        bool woken = exchange->stream_woken;
        exchange->stream_woken = false;
        if (!woken) {
            exchange->stream_asleep = true;
            MHD_suspend_connection(exchange->connection);
        }
        pthread_mutex_unlock(&exchange->stream_lock);
        if (!woken)
            return 0;
    }
}

void http_stream(struct http_exchange *exchange, const struct http_field *fields,
                 long (*read)(void *own, char *out, size_t max), void *own)
{
    exchange->stream_read = read;
    exchange->stream_own = own;
    visitor_phase(exchange->visitor, PHASE_STREAM, 0);
    queue(exchange, 200, fields,
          MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, on_stream_read,
                                            exchange, NULL));
}

void http_stream_wake(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->stream_lock);
    if (exchange->stream_asleep) {
        exchange->stream_asleep = false;
        loop_resume(exchange->loop, exchange);
    } else {
        exchange->stream_woken = true;
    }
    pthread_mutex_unlock(&exchange->stream_lock);
}

/* ---- libmicrohttpd's calls --------------------------------------------------------------------
 */

/* own_authority says whether an absolute address names this server, as Host does. */
static bool own_authority(const struct http_exchange *exchange, struct slice authority)
{
    struct slice host = http_header(exchange, "Host");
    return authority.len > 0 && authority.len == host.len &&
           strncasecmp(authority.ptr, host.ptr, host.len) == 0;
}

/* split_uri finds path and query, and returns both; of an absolute address ("http://host/path")
 * only what follows the host counts, and the host must be the one of the Host header. */
static struct slice split_uri(struct http_exchange *exchange)
{
    struct slice target = buf_slice(&exchange->uri);
    if (slice_starts(target, SLICE("http://")) || slice_starts(target, SLICE("https://"))) {
        const char *host = strstr(target.ptr, "//") + 2;
        size_t len = strcspn(host, "/?#");
        target =
            own_authority(exchange, (struct slice){host, len}) ? slice_of(host + len) : SLICE("");
    }
    const char *mark = target.len ? memchr(target.ptr, '?', target.len) : NULL;
    size_t len = mark ? (size_t)(mark - target.ptr) : target.len;
    exchange->path = (struct slice){target.ptr, len};
    if (mark)
        exchange->query = (struct slice){mark + 1, target.len - len - 1};
    return target;
}

/* exchange_uri makes the exchange when the first line of a request was read. */
void *exchange_uri(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    struct loop *loop = ctx;
    struct http *http = loop->http;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_exchange *exchange = mem_zalloc(sizeof(*exchange));
    if (!exchange || !info || !info->socket_context) {
        mem_free(exchange);
        return NULL;
    }
    exchange->http = http;
    exchange->loop = loop;
    exchange->connection = connection;
    exchange->visitor = info->socket_context;
    exchange->visitor->exchange = exchange;
    exchange->since_us = steady_us();
    pthread_mutex_init(&exchange->stream_lock, NULL);
    /* All that libmicrohttpd can have read: what is over the limit is refused, not dropped. */
    buf_init(&exchange->uri, http->config.limits.head_max + CONNECTION_MEMORY);
    buf_init(&exchange->body, http->config.limits.body_max);
    buf_add_str(&exchange->uri, uri);
    return exchange;
}

/* begin looks at the head. */
static void begin(struct http_exchange *exchange, const struct request_line *line)
{
    struct http *http = exchange->http;
    const struct http_handler *handler = &http->config.handler;
    const char *sentence;
    exchange->method = line->method;
    visitor_phase(exchange->visitor, PHASE_BODY, 0);
    struct slice target = split_uri(exchange);
    int fault = head_fault(exchange->connection, line, target, &http->config.limits, &sentence);
    if (fault) {
        refuse(exchange, fault, sentence);
        return;
    }
    exchange->begun = true;
    handler->begin(handler->ctx, exchange);
}

/* take keeps a piece of the body.  It cannot be answered in the middle: what is too much is read,
 * up to a point, and not kept. */
static enum MHD_Result take(struct http_exchange *exchange, const char *data, size_t len)
{
    exchange->body_len += len;
    atomic_store_explicit(&exchange->visitor->bytes, exchange->body_len, memory_order_relaxed);
    if (exchange->body_len > OVERRUN * exchange->http->config.limits.body_max)
        return MHD_NO;
    buf_add(&exchange->body, data, len);
    return MHD_YES;
}

/* carry_on has the handler answer, or hold. */
static enum MHD_Result carry_on(struct http_exchange *exchange)
{
    const struct http_handler *handler = &exchange->http->config.handler;
    unhold(exchange);
    if (exchange->body.status == STATUS_TOO_LARGE)
        refuse(exchange, 413, "the body is over the limit");
    else if (exchange->body.status)
        refuse(exchange, 503, "out of memory");
    else if (has_trailers(exchange->connection))
        refuse(exchange, 400, "fields behind the body (trailers) are not understood");
    else
        handler->request(handler->ctx, exchange);
    if (exchange->dropped)
        return MHD_NO;
    BUG_ON(!exchange->answered && !exchange->held);
    return exchange->answered ? exchange->queued : MHD_YES;
}

enum MHD_Result exchange_access(void *ctx, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_len, void **own)
{
    (void)ctx, (void)connection;
    struct http_exchange *exchange = *own;
    if (!exchange || buf_status(&exchange->uri, NULL) != STATUS_OK)
        return MHD_NO;
    if (!exchange->method) {
        const struct request_line line = {method, url, exchange->uri.len, version};
        begin(exchange, &line);
        if (exchange->dropped)
            return MHD_NO;
        return exchange->answered ? exchange->queued : MHD_YES;
    }
    if (*data_len) {
        enum MHD_Result result = take(exchange, data, *data_len);
        *data_len = 0;
        return result;
    }
    return carry_on(exchange);
}

void exchange_end(struct http_exchange *exchange, bool delivered)
{
    const struct http_handler *handler = &exchange->http->config.handler;
    unhold(exchange);
    if (exchange->begun)
        handler->end(handler->ctx, exchange, delivered);
    exchange->visitor->exchange = NULL;
    visitor_phase(exchange->visitor, PHASE_IDLE, 0);
    buf_release(&exchange->uri);
    buf_release(&exchange->body);
    pthread_mutex_destroy(&exchange->stream_lock);
    mem_free(exchange);
}

void exchange_completed(void *ctx, struct MHD_Connection *connection, void **own,
                        enum MHD_RequestTerminationCode how)
{
    (void)ctx, (void)connection;
    struct http_exchange *exchange = *own;
    if (exchange)
        exchange_end(exchange, exchange->answered && how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *own = NULL;
}
