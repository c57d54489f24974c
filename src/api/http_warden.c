/* http_warden.c: one thread that looks after time.
 *
 * Twice a second it looks at every connection.  libmicrohttpd ends one on which nothing moves;
 * here are the rules for one on which too little does:
 *
 *     idle     when bytes have arrived since the idle phase began, a head is on its way: it has
 *              `head_within` to be whole
 *     body     after `body_grace` it must have come at `rate_min` on average
 *     answer   the same, for what the client takes
 *     both     of the first two: who is seen to have left at two looks will not finish
 *
 * A connection that breaks a rule is shut down; libmicrohttpd then sees its end and closes it.
 * Between these looks it sleeps on the watched exchanges: the end of one's connection is told to
 * `gone` at once. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "api/http_internal.h"

#define LOOK_US 500000LL
#define EVENTS_MAX 64

long long steady_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- the list -------------------------------------------------------------------------------- */

void visitor_add(struct http *http, struct visitor *visitor)
{
    pthread_mutex_lock(&http->lock);
    visitor->next = http->visitors;
    if (visitor->next)
        visitor->next->previous = visitor;
    http->visitors = visitor;
    pthread_mutex_unlock(&http->lock);
}

void visitor_remove(struct http *http, struct visitor *visitor)
{
    pthread_mutex_lock(&http->lock);
    if (visitor->next)
        visitor->next->previous = visitor->previous;
    if (visitor->previous)
        visitor->previous->next = visitor->next;
    else
        http->visitors = visitor->next;
    pthread_mutex_unlock(&http->lock);
}

void visitors_hear_no_more(struct http *http)
{
    pthread_mutex_lock(&http->lock);
    for (struct visitor *visitor = http->visitors; visitor; visitor = visitor->next)
        if (atomic_load_explicit(&visitor->phase, memory_order_acquire) == PHASE_IDLE)
            shutdown(visitor->fd, SHUT_RD);
    pthread_mutex_unlock(&http->lock);
}

void visitor_phase(struct visitor *visitor, enum phase phase, size_t bytes)
{
    atomic_store_explicit(&visitor->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&visitor->since_us, steady_us(), memory_order_relaxed);
    atomic_store_explicit(&visitor->phase, phase, memory_order_release);
}

bool has_left(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLRDHUP};
    return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- time ------------------------------------------------------------------------------------ */

/* received is how many bytes have ever come in on a TCP connection; 0 when that is not known. */
static unsigned long long received(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return 0;
    return info.tcpi_bytes_received;
}

/* head_is_late says whether a head has been arriving for too long. */
static bool head_is_late(struct visitor *visitor, long long since_us, long long now_us,
                         const struct http_limits *limits)
{
    unsigned long long bytes = received(visitor->fd);
    if (!visitor->idle_known || visitor->idle_since_us != since_us) {
        visitor->idle_known = true;
        visitor->idle_since_us = since_us;
        visitor->idle_bytes = bytes;
        visitor->head_since_us = 0;
    }
    if (bytes == visitor->idle_bytes)
        return false;
    if (!visitor->head_since_us)
        visitor->head_since_us = now_us;
    return now_us - visitor->head_since_us > limits->head_within.us;
}

/* is_too_slow says whether `bytes` took too long. */
static bool is_too_slow(size_t bytes, long long took_us, const struct http_limits *limits)
{
    long long allowed_us = limits->body_grace.us;
    return took_us > allowed_us &&
           (double)bytes < (double)limits->rate_min * (double)(took_us - allowed_us) / 1e6;
}

/* answer_is_late says whether an answer should have been taken by this time. */
static bool answer_is_late(size_t bytes, long long took_us, const struct http_limits *limits)
{
    double allowed_us =
        (double)limits->body_grace.us + (double)bytes * 1e6 / (double)limits->rate_min;
    return (double)took_us > allowed_us;
}

/* has_left_midway says whether a client has left before its request was whole.  libmicrohttpd does
 * not see an end that comes together with bytes: it reads the bytes, and its epoll tells of an end
 * once.  What has been read may just be under way to an answer, so it is seen twice before it
 * counts. */
static bool has_left_midway(struct visitor *visitor, long long since_us)
{
    int unread = 0;
    if (!has_left(visitor->fd) || ioctl(visitor->fd, FIONREAD, &unread) != 0 || unread > 0) {
        visitor->left_in_us = 0;
        return false;
    }
    if (visitor->left_in_us == since_us)
        return true;
    visitor->left_in_us = since_us;
    return false;
}

static bool breaks_a_rule(struct visitor *visitor, long long now_us,
                          const struct http_limits *limits)
{
    enum phase phase = atomic_load_explicit(&visitor->phase, memory_order_acquire);
    long long since_us = atomic_load_explicit(&visitor->since_us, memory_order_relaxed);
    size_t bytes = atomic_load_explicit(&visitor->bytes, memory_order_relaxed);
    switch (phase) {
    case PHASE_IDLE:
        return has_left_midway(visitor, since_us) ||
               head_is_late(visitor, since_us, now_us, limits);
    case PHASE_BODY:
        return has_left_midway(visitor, since_us) || is_too_slow(bytes, now_us - since_us, limits);
    case PHASE_ANSWER:
        return answer_is_late(bytes, now_us - since_us, limits);
    case PHASE_HELD:
    case PHASE_STREAM:
        break;
    }
    return false;
}

/* look cuts off who breaks a rule. */
static void look(struct http *http)
{
    long long now_us = steady_us();
    pthread_mutex_lock(&http->lock);
    for (struct visitor *visitor = http->visitors; visitor; visitor = visitor->next) {
        if (breaks_a_rule(visitor, now_us, &http->config.limits))
            shutdown(visitor->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&http->lock);
}

/* ---- presence -------------------------------------------------------------------------------- */

void visitor_watch(struct http *http, struct visitor *visitor, struct http_exchange *exchange)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data = {.ptr = visitor}};
    pthread_mutex_lock(&http->lock);
    visitor->watched = exchange;
    /* When it cannot be watched, a client that goes away is noticed when it is answered. */
    epoll_ctl(http->epoll, EPOLL_CTL_ADD, visitor->fd, &event);
    pthread_mutex_unlock(&http->lock);
}

void visitor_unwatch(struct http *http, struct visitor *visitor)
{
    pthread_mutex_lock(&http->lock);
    epoll_ctl(http->epoll, EPOLL_CTL_DEL, visitor->fd, NULL);
    visitor->watched = NULL;
    pthread_mutex_unlock(&http->lock);
}

/* tell_gone tells about one event.  The visitor may have been freed since: only the list knows, and
 * another may be in its place. */
static void tell_gone(struct http *http, const struct visitor *maybe)
{
    const struct http_handler *handler = &http->config.handler;
    pthread_mutex_lock(&http->lock);
    struct visitor *visitor = http->visitors;
    while (visitor && visitor != maybe)
        visitor = visitor->next;
    if (visitor && visitor->watched && has_left(visitor->fd))
        handler->gone(handler->ctx, visitor->watched);
    pthread_mutex_unlock(&http->lock);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *warden_main(void *arg)
{
    struct http *http = arg;
    struct epoll_event events[EVENTS_MAX];
    long long look_at_us = steady_us() + LOOK_US;
    pthread_setname_np(pthread_self(), "lazaret-warden");
    for (;;) {
        long long left_us = look_at_us - steady_us();
        int count = epoll_wait(http->epoll, events, EVENTS_MAX,
                               left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
        for (int i = 0; i < count; i++) {
            if (!events[i].data.ptr)
                return NULL;
            tell_gone(http, events[i].data.ptr);
        }
        if (steady_us() >= look_at_us) {
            look(http);
            look_at_us = steady_us() + LOOK_US;
        }
    }
}

enum status warden_start(struct http *http, struct err *err)
{
    struct epoll_event stop = {.events = EPOLLIN, .data = {.ptr = NULL}};
    http->epoll = epoll_create1(EPOLL_CLOEXEC);
    http->stop_event = eventfd(0, EFD_CLOEXEC);
    if (http->epoll < 0 || http->stop_event < 0 ||
        epoll_ctl(http->epoll, EPOLL_CTL_ADD, http->stop_event, &stop) != 0)
        return err_set(err, STATUS_UNAVAILABLE, "the server cannot watch its connections: %s",
                       strerror(errno));
    int error = pthread_create(&http->warden, NULL, warden_main, http);
    if (error)
        return err_set(err, STATUS_UNAVAILABLE, "a thread cannot be started: %s", strerror(error));
    http->has_warden = true;
    return STATUS_OK;
}

void warden_stop(struct http *http)
{
    if (http->has_warden) {
        eventfd_write(http->stop_event, 1);
        pthread_join(http->warden, NULL);
        http->has_warden = false;
    }
    if (http->stop_event >= 0)
        close(http->stop_event);
    if (http->epoll >= 0)
        close(http->epoll);
    http->stop_event = http->epoll = -1;
}
