/* http.c: exchanges over libmicrohttpd.
 *
 *     head read --> on_access --> head_fault, begin --+-- answered: no body is read
 *                                                     `-- body ... --> request --+-- answered
 *                        request again <-- http_resume <-- suspended <-- held ---+
 *                                                                                `-- stream
 *     sent, or not --> on_completed --> end, freed
 *
 * The address is taken as it was sent (libmicrohttpd's own copy is decoded, which would make "%2F"
 * a slash).  A response is made for each answer; its body is the caller's buffer, not a copy. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"

/* libmicrohttpd's memory for one connection, beside the head: the answer's head, and a body's
 * pieces. It is zeroed with every request, so little is better. */
#define CONNECTION_MEMORY (4 << 10)
#define OVERRUN 4 /* a body without a length is read to so many limits, then cut */
#define BACKLOG_MS_MAX 1000
#define STREAM_BLOCK (32 << 10)

struct http_exchange {
    struct http *http;
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
    MHD_resume_connection(exchange->connection);
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
    struct pollfd fd = {.fd = exchange->visitor->fd, .events = POLLRDHUP};
    /* In a drain this end has stopped listening itself: see visitors_hear_no_more. */
    if (http->config.local && atomic_load(&http->draining))
        return true;
    return poll(&fd, 1, 0) <= 0 || !(fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
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
        MHD_resume_connection(exchange->connection);
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

/* on_uri makes the exchange when the first line of a request was read. */
static void *on_uri(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    struct http *http = ctx;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_exchange *exchange = mem_zalloc(sizeof(*exchange));
    if (!exchange || !info || !info->socket_context) {
        mem_free(exchange);
        return NULL;
    }
    exchange->http = http;
    exchange->connection = connection;
    exchange->visitor = info->socket_context;
    exchange->visitor->exchange = exchange;
    exchange->since_us = steady_us();
    pthread_mutex_init(&exchange->stream_lock, NULL);
    buf_init(&exchange->uri, http->config.limits.head_max);
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

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *connection, const char *url,
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

/* finish is the end of an exchange. */
static void finish(struct http_exchange *exchange, bool delivered)
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

static void on_completed(void *ctx, struct MHD_Connection *connection, void **own,
                         enum MHD_RequestTerminationCode how)
{
    (void)ctx, (void)connection;
    struct http_exchange *exchange = *own;
    if (exchange)
        finish(exchange, exchange->answered && how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *own = NULL;
}

/* ---- connections ------------------------------------------------------------------------------
 */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >>
                24) == 127;
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

/* name_peer writes who is at the other end. */
static void name_peer(struct visitor *visitor, const struct sockaddr *address, bool local)
{
    struct ucred who;
    socklen_t len = sizeof(who);
    if (local) {
        bool known = getsockopt(visitor->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0;
        snprintf(visitor->peer, PEER_SIZE, "unix:%ld", known ? (long)who.uid : -1L);
        visitor->loopback = true;
        return;
    }
    visitor->loopback = is_loopback(address);
    const void *bytes =
        address->sa_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    if (!inet_ntop(address->sa_family, bytes, visitor->peer, PEER_SIZE))
        snprintf(visitor->peer, PEER_SIZE, "unknown");
}

static struct visitor *visitor_new(struct http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct visitor *visitor = mem_zalloc(sizeof(*visitor));
    if (!visitor || !fd || !address) {
        mem_free(visitor);
        return NULL;
    }
    visitor->fd = fd->connect_fd;
    name_peer(visitor, address->client_addr, http->config.local);
    visitor_phase(visitor, PHASE_IDLE, 0);
    return visitor;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = ctx;
    const struct http_handler *handler = &http->config.handler;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct visitor *visitor = visitor_new(http, connection);
        if (!visitor)
            return;
        *own = visitor;
        visitor_add(http, visitor);
    } else if (*own) {
        struct visitor *visitor = *own;
        /* libmicrohttpd does not complete a request whose parameters it has no room for. */
        if (visitor->exchange)
            finish(visitor->exchange, false);
        visitor_remove(http, visitor);
        mem_free(visitor);
        *own = NULL;
    }
    if (handler->connections)
        handler->connections(handler->ctx, what == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}

/* ---- life -------------------------------------------------------------------------------------
 */

__attribute__((format(printf, 2, 0))) static void on_log(void *ctx, const char *format,
                                                         va_list args)
{
    (void)ctx;
    struct buf line;
    buf_init(&line, 1024);
    buf_vaddf(&line, format, args);
    while (line.len && line.ptr[line.len - 1] == '\n')
        line.ptr[--line.len] = '\0';
    log_line(LOG_DEBUG, "http: %s", buf_str(&line));
    buf_release(&line);
}

static void limits_default(struct http_limits *limits)
{
    const struct http_limits usual = {.body_max = 4 << 20,
                                      .head_max = 8 << 10,
                                      .connections_max = 4096,
                                      .head_within = span_seconds(15),
                                      .idle_within = span_seconds(75),
                                      .body_grace = span_seconds(20),
                                      .rate_min = 1024};
    if (!limits->body_max)
        limits->body_max = usual.body_max;
    if (!limits->head_max)
        limits->head_max = usual.head_max;
    if (!limits->connections_max)
        limits->connections_max = usual.connections_max;
    if (!limits->head_within.us)
        limits->head_within = usual.head_within;
    if (!limits->idle_within.us)
        limits->idle_within = usual.idle_within;
    if (!limits->body_grace.us)
        limits->body_grace = usual.body_grace;
    if (!limits->rate_min)
        limits->rate_min = usual.rate_min;
}

/* daemon_start starts libmicrohttpd. */
static enum status daemon_start(struct http *http, struct err *err)
{
    const struct http_config *config = &http->config;
    const struct http_limits *limits = &config->limits;
    unsigned flags =
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    bool tls = config->tls_certificate && config->tls_key;
    struct MHD_OptionItem secrets[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? (void *)(uintptr_t)config->tls_certificate : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? (void *)(uintptr_t)config->tls_key : NULL},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    http->daemon = MHD_start_daemon(
        flags | (tls ? MHD_USE_TLS : 0u), 0, NULL, NULL, on_access, http,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, http, MHD_OPTION_LISTEN_SOCKET, config->listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_URI_LOG_CALLBACK, on_uri, http,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits->head_max + CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_LIMIT, limits->connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        limits->address_max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(limits->idle_within.us / 1000000) + 1, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_THREAD_POOL_SIZE, config->threads > 1 ? config->threads : 0u, MHD_OPTION_ARRAY,
        tls ? secrets : none, MHD_OPTION_END);
    if (!http->daemon)
        return err_set(err, STATUS_UNAVAILABLE, "the HTTP server cannot be started: %s",
                       tls ? "is the TLS certificate or its key damaged?" : strerror(errno));
    return STATUS_OK;
}

/* start starts the threads.  They take no signals: those are the program's. */
static enum status start(struct http *http, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    enum status status = warden_start(http, err);
    if (!status)
        status = daemon_start(http, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum status http_start(const struct http_config *config, struct http **out, struct err *err)
{
    struct http *http = mem_zalloc(sizeof(*http));
    if (!http) {
        close(config->listen_fd);
        return err_no_memory(err);
    }
    http->config = *config;
    http->epoll = http->stop_event = -1;
    limits_default(&http->config.limits);
    pthread_mutex_init(&http->lock, NULL);
    enum status status = start(http, err);
    if (status) {
        http_stop(http);
        return status;
    }
    *out = http;
    return STATUS_OK;
}

/* take_backlog waits, for a moment at most, until who has connected is let in. */
static void take_backlog(const struct http *http)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct pollfd fd = {.fd = http->config.listen_fd, .events = POLLIN};
    for (int n = 0; n < BACKLOG_MS_MAX && poll(&fd, 1, 0) > 0; n++)
        nanosleep(&pause, NULL);
}

void http_drain(struct http *http)
{
    if (atomic_exchange(&http->draining, true))
        return;
    take_backlog(http);
    int fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0)
        close(fd);
    http->config.listen_fd = -1;
    if (http->config.local)
        visitors_hear_no_more(http);
}

bool http_busy(struct http *http)
{
    if (http->config.local && atomic_load(&http->draining))
        visitors_hear_no_more(http); /* those whose answer has been taken since */
    pthread_mutex_lock(&http->lock);
    bool busy = http->visitors != NULL;
    pthread_mutex_unlock(&http->lock);
    return busy;
}

void http_stop(struct http *http)
{
    if (!http)
        return;
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    else if (http->config.listen_fd >= 0)
        close(http->config.listen_fd);
    warden_stop(http);
    pthread_mutex_destroy(&http->lock);
    mem_free(http);
}
