/* http_loop.c: the network threads.
 *
 * Each has a libmicrohttpd daemon of its own, in epoll mode, and runs it:
 *
 *     sleep on the daemon's epoll and on an eventfd --> resume what was resumed --> MHD_run
 *
 * Connections that do nothing cost nothing: poll mode looks at each of them in every turn (2,000
 * idle ones made others 2.5 times slower).  libmicrohttpd's own threads in epoll mode are no
 * choice: after exactly 128 events they sleep on although there is work.  Here it is only ever
 * asked to look (MHD_run does not sleep), and sleeping is this file's business.
 *
 * What other threads resume is put on a list, with one write to the eventfd for as many as come
 * before the loop looks: the engine answers hundreds of requests with one commit. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "base/log.h"
#include "base/mem.h"

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define SLEEP_MS_MAX 1000
#define BACKLOG_MS_MAX 1000 /* for those who are knocking when a drain begins */
#define QUIET_MS_MAX 1000   /* for the loops to stop listening */

/* ---- connections ----------------------------------------------------------------------------- */

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

/* is_one_too_many says whether an address has as many connections as it may. */
static bool is_one_too_many(struct http *http, const struct sockaddr *address)
{
    struct visitor knocking = {.fd = -1};
    unsigned count = 0;
    name_peer(&knocking, address, false);
    pthread_mutex_lock(&http->lock);
    for (const struct visitor *visitor = http->visitors; visitor; visitor = visitor->next)
        count += strcmp(visitor->peer, knocking.peer) == 0;
    pthread_mutex_unlock(&http->lock);
    return count >= http->config.limits.address_max;
}

static enum MHD_Result on_accept(void *ctx, const struct sockaddr *address, socklen_t len)
{
    (void)len;
    struct loop *loop = ctx;
    struct http *http = loop->http;
    bool limited = http->config.limits.address_max && !http->config.local;
    return limited && is_one_too_many(http, address) ? MHD_NO : MHD_YES;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct loop *loop = ctx;
    struct http *http = loop->http;
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
            exchange_end(visitor->exchange, false);
        visitor_remove(http, visitor);
        mem_free(visitor);
        *own = NULL;
    }
    if (handler->connections)
        handler->connections(handler->ctx, what == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}

/* ---- a loop ---------------------------------------------------------------------------------- */

void loop_resume(struct loop *loop, struct http_exchange *exchange)
{
    struct http_exchange *head = atomic_load_explicit(&loop->resumed, memory_order_relaxed);
    do
        exchange_link(exchange, head);
    while (!atomic_compare_exchange_weak(&loop->resumed, &head, exchange));
    if (!head)
        eventfd_write(loop->event, 1);
}

/* take_resumed lets libmicrohttpd go on with what was resumed. */
static void take_resumed(struct loop *loop)
{
    struct http_exchange *exchange = atomic_exchange(&loop->resumed, NULL);
    while (exchange)
        exchange = exchange_wake(exchange);
}

/* stop_listening is the loop's part in a drain. */
static void stop_listening(struct loop *loop)
{
    int fd = MHD_quiesce_daemon(loop->daemon);
    if (fd >= 0)
        close(fd);
    loop->quiet = true;
    atomic_fetch_add(&loop->http->loops_quiet, 1);
}

/* sleep_ms is how long there is nothing to do for libmicrohttpd. */
static int sleep_ms(const struct loop *loop)
{
    MHD_UNSIGNED_LONG_LONG left;
    if (MHD_get_timeout(loop->daemon, &left) == MHD_YES && left < SLEEP_MS_MAX)
        return (int)left;
    return SLEEP_MS_MAX;
}

static void *loop_main(void *arg)
{
    struct loop *loop = arg;
    struct http *http = loop->http;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    pthread_setname_np(pthread_self(), "lazaret-net");
    struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = loop->event, .events = POLLIN}};
    while (!atomic_load(&http->stopping)) {
        eventfd_t count;
        if (poll(fds, 2, sleep_ms(loop)) > 0 && fds[1].revents)
            eventfd_read(loop->event, &count);
        if (atomic_load(&http->deaf) && !loop->quiet)
            stop_listening(loop);
        take_resumed(loop);
        MHD_run(loop->daemon);
    }
    return NULL;
}

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

/* daemon_new makes libmicrohttpd's part of a loop. */
static struct MHD_Daemon *daemon_new(struct loop *loop, int listen_fd)
{
    const struct http_config *config = &loop->http->config;
    const struct http_limits *limits = &config->limits;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    bool tls = config->tls_certificate && config->tls_key;
    struct MHD_OptionItem secrets[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? (void *)(uintptr_t)config->tls_certificate : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? (void *)(uintptr_t)config->tls_key : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        flags | (tls ? MHD_USE_TLS : 0u), 0, on_accept, loop, exchange_access, loop,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, loop, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, loop, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, loop, MHD_OPTION_URI_LOG_CALLBACK, exchange_uri, loop,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits->head_max + CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_LIMIT,
        (limits->connections_max + loop->http->loop_count - 1) / loop->http->loop_count,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(limits->idle_within.us / 1000000) + 1,
        MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_ARRAY, tls ? secrets : none, MHD_OPTION_END);
}

static enum status loop_start(struct http *http, struct loop *loop, struct err *err)
{
    loop->http = http;
    loop->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* libmicrohttpd closes the socket that it is given. */
    int fd = fcntl(http->config.listen_fd, F_DUPFD_CLOEXEC, 0);
    if (loop->event < 0 || fd < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return err_set(err, STATUS_UNAVAILABLE, "the HTTP server cannot be started: %s",
                       strerror(error));
    }
    loop->daemon = daemon_new(loop, fd);
    if (!loop->daemon) {
        close(fd);
        if (http->config.tls_key)
            return err_set(err, STATUS_INVALID,
                           "the TLS certificate and key cannot be used: are they PEM, and do they "
                           "belong together?");
        return err_set(err, STATUS_UNAVAILABLE, "the HTTP server cannot be started: %s",
                       strerror(errno));
    }
    int error = pthread_create(&loop->thread, NULL, loop_main, loop);
    if (error)
        return err_set(err, STATUS_UNAVAILABLE, "a thread cannot be started: %s", strerror(error));
    loop->runs = true;
    return STATUS_OK;
}

static void loop_stop(struct loop *loop)
{
    if (loop->runs) {
        eventfd_write(loop->event, 1);
        pthread_join(loop->thread, NULL);
    }
    if (loop->daemon) {
        take_resumed(loop);
        MHD_stop_daemon(loop->daemon);
    }
    if (loop->event >= 0)
        close(loop->event);
}

/* ---- life ------------------------------------------------------------------------------------ */

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

/* start starts the threads.  They take no signals: those are the program's. */
static enum status start(struct http *http, struct err *err)
{
    sigset_t all, before;
    int flags = fcntl(http->config.listen_fd, F_GETFL);
    /* Several loops wait for one socket: who comes late must not wait in accept. */
    if (flags < 0 || fcntl(http->config.listen_fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return err_set(err, STATUS_UNAVAILABLE, "the listening socket cannot be used: %s",
                       strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    enum status status = warden_start(http, err);
    for (unsigned i = 0; !status && i < http->loop_count; i++)
        status = loop_start(http, &http->loops[i], err);
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
    http->loop_count = config->threads ? config->threads : 1;
    if (http->loop_count > LOOPS_MAX)
        http->loop_count = LOOPS_MAX;
    for (unsigned i = 0; i < LOOPS_MAX; i++)
        http->loops[i].event = -1;
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

/* pause_ms waits a moment. */
static void pause_ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* take_backlog waits, for a moment at most, until who has connected is let in. */
static void take_backlog(const struct http *http)
{
    struct pollfd fd = {.fd = http->config.listen_fd, .events = POLLIN};
    for (int n = 0; n < BACKLOG_MS_MAX && poll(&fd, 1, 0) > 0; n++)
        pause_ms();
}

void http_drain(struct http *http)
{
    if (atomic_exchange(&http->draining, true))
        return;
    take_backlog(http);
    atomic_store(&http->deaf, true);
    for (unsigned i = 0; i < http->loop_count; i++)
        eventfd_write(http->loops[i].event, 1);
    for (int n = 0; n < QUIET_MS_MAX && atomic_load(&http->loops_quiet) < http->loop_count; n++)
        pause_ms();
    close(http->config.listen_fd);
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
    atomic_store(&http->stopping, true);
    for (unsigned i = 0; i < http->loop_count; i++)
        loop_stop(&http->loops[i]);
    if (http->config.listen_fd >= 0)
        close(http->config.listen_fd);
    warden_stop(http);
    pthread_mutex_destroy(&http->lock);
    mem_free(http);
}
