/* endpoint: see endpoint.h. */
#include "bridge/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MAX (4u << 20)

/* struct guest: a connection and its thread. */
struct guest {
    struct endpoint *endpoint;
    int fd;
    pthread_t thread;
    struct guest *next;
};

static void must(bool fine, const char *what)
{
    if (fine)
        return;
    perror(what);
    abort();
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* body_length is what the head says; 0 when it says nothing. */
static size_t body_length(const char *head)
{
    const char *at = strcasestr(head, "\r\nContent-Length:");
    return at ? strtoul(at + 17, NULL, 10) : 0;
}

/* read_request reads one request into `text`, terminated; the length of its head, or 0 when the
 * connection has ended. */
static size_t read_request(int fd, char *text, size_t *len, size_t *used)
{
    *used = 0;
    for (;;) {
        text[*len] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        if (end) {
            size_t head = (size_t)(end - text) + 4, whole = head + body_length(text);
            if (*len >= whole) {
                *used = whole;
                return head;
            }
        }
        ssize_t got = recv(fd, text + *len, REQUEST_MAX - 1 - *len, 0);
        if (got <= 0)
            return 0;
        *len += (size_t)got;
    }
}

static void note_request(struct endpoint *endpoint, const char *text, size_t len)
{
    char *copy = malloc(len + 1);

    must(copy, "malloc");
    memcpy(copy, text, len);
    copy[len] = '\0';
    pthread_mutex_lock(&endpoint->lock);
    free(endpoint->last);
    endpoint->last = copy;
    endpoint->requests++;
    if (++endpoint->at_once > endpoint->at_once_max)
        endpoint->at_once_max = endpoint->at_once;
    pthread_cond_broadcast(&endpoint->changed);
    pthread_mutex_unlock(&endpoint->lock);
}

/* leave counts a visit out: before the first byte of the answer, as the client may send the next
 * request as soon as it has that. */
static void leave(struct visit *visit)
{
    if (visit->answering)
        return;
    visit->answering = true;
    pthread_mutex_lock(&visit->endpoint->lock);
    visit->endpoint->at_once--;
    pthread_mutex_unlock(&visit->endpoint->lock);
}

/* serve_request makes a visit of what was read. */
static bool serve_request(struct guest *guest, char *text, size_t head, size_t used,
                          unsigned number)
{
    char *copy = strndup(text, head), *body = malloc(used - head + 1), path[2048] = "";

    must(copy && body, "malloc");
    memcpy(body, text + head, used - head);
    body[used - head] = '\0';
    sscanf(text, "%*s %2047s", path);
    struct visit visit = {guest->endpoint, guest->fd, number, copy, path, body, used - head, false};
    bool stays = guest->endpoint->serve(&visit);
    leave(&visit);
    free(copy);
    free(body);
    return stays && visit.fd >= 0;
}

static void *guest_main(void *arg)
{
    struct guest *guest = arg;
    char *text = malloc(REQUEST_MAX);
    size_t len = 0, head, used;
    unsigned number = 0;

    must(text, "malloc");
    pthread_mutex_lock(&guest->endpoint->lock);
    void (*greet)(struct endpoint *, int) = guest->endpoint->greet;
    pthread_mutex_unlock(&guest->endpoint->lock);
    if (greet)
        greet(guest->endpoint, guest->fd);
    bool stays = !greet;
    while (stays && (head = read_request(guest->fd, text, &len, &used))) {
        note_request(guest->endpoint, text, used);
        stays = serve_request(guest, text, head, used, ++number);
        memmove(text, text + used, len - used);
        len -= used;
    }
    free(text);
    /* The descriptor itself stays ours until the endpoint is closed: its number must not be another
     * one's while somebody may shut it down. */
    shutdown(guest->fd, SHUT_RDWR);
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------------
 */

static bool admit(struct endpoint *endpoint, int fd)
{
    struct guest *guest = calloc(1, sizeof *guest);
    pthread_attr_t attributes;
    int one = 1;

    must(guest, "calloc");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    guest->endpoint = endpoint;
    guest->fd = fd;
    pthread_mutex_lock(&endpoint->lock);
    bool goes_on = !endpoint->stopping;
    if (goes_on) {
        guest->next = endpoint->guests;
        endpoint->guests = guest;
        endpoint->connections++;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 256 << 10);
        must(pthread_create(&guest->thread, &attributes, guest_main, guest) == 0, "pthread_create");
        pthread_attr_destroy(&attributes);
    }
    pthread_mutex_unlock(&endpoint->lock);
    if (!goes_on) {
        close(fd);
        free(guest);
    }
    return goes_on;
}

static void *acceptor_main(void *arg)
{
    struct endpoint *endpoint = arg;
    int fd;

    while ((fd = accept4(endpoint->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        if (!admit(endpoint, fd))
            break;
    return NULL;
}

static int listen_at(const char *address, uint16_t *port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t size = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0, "socket");
    must(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    must(listen(fd, backlog) == 0, "listen");
    must(getsockname(fd, (struct sockaddr *)&at, &size) == 0, "getsockname");
    *port = ntohs(at.sin_port);
    return fd;
}

void endpoint_open(struct endpoint *endpoint, bool (*serve)(struct visit *visit))
{
    *endpoint = (struct endpoint){.serve = serve};
    pthread_mutex_init(&endpoint->lock, NULL);
    pthread_cond_init(&endpoint->changed, NULL);
    endpoint->fd = listen_at("0.0.0.0", &endpoint->port, 1024);
    must(pthread_create(&endpoint->acceptor, NULL, acceptor_main, endpoint) == 0, "pthread_create");
}

void endpoint_close(struct endpoint *endpoint)
{
    struct guest *guest;

    pthread_mutex_lock(&endpoint->lock);
    endpoint->stopping = true;
    pthread_cond_broadcast(&endpoint->changed);
    for (guest = endpoint->guests; guest; guest = guest->next)
        shutdown(guest->fd, SHUT_RDWR);
    pthread_mutex_unlock(&endpoint->lock);
    shutdown(endpoint->fd, SHUT_RDWR);
    pthread_join(endpoint->acceptor, NULL);
    while ((guest = endpoint->guests)) {
        endpoint->guests = guest->next;
        pthread_join(guest->thread, NULL);
        close(guest->fd);
        free(guest);
    }
    close(endpoint->fd);
    free(endpoint->last);
    pthread_cond_destroy(&endpoint->changed);
    pthread_mutex_destroy(&endpoint->lock);
}

void endpoint_release(struct endpoint *endpoint)
{
    pthread_mutex_lock(&endpoint->lock);
    endpoint->released = true;
    pthread_cond_broadcast(&endpoint->changed);
    pthread_mutex_unlock(&endpoint->lock);
}

static unsigned locked(struct endpoint *endpoint, const unsigned *count)
{
    pthread_mutex_lock(&endpoint->lock);
    unsigned value = *count;
    pthread_mutex_unlock(&endpoint->lock);
    return value;
}

void endpoint_greet(struct endpoint *endpoint, void (*greet)(struct endpoint *endpoint, int fd))
{
    pthread_mutex_lock(&endpoint->lock);
    endpoint->greet = greet;
    pthread_mutex_unlock(&endpoint->lock);
}

const char *endpoint_last(struct endpoint *endpoint)
{
    pthread_mutex_lock(&endpoint->lock);
    const char *last = endpoint->last;
    pthread_mutex_unlock(&endpoint->lock);
    return last ? last : "";
}

unsigned endpoint_at_once_max(struct endpoint *endpoint)
{
    return locked(endpoint, &endpoint->at_once_max);
}

unsigned endpoint_requests(struct endpoint *endpoint)
{
    return locked(endpoint, &endpoint->requests);
}

unsigned endpoint_connections(struct endpoint *endpoint)
{
    return locked(endpoint, &endpoint->connections);
}

/* ---- visits -----------------------------------------------------------------------------------
 */

bool visit_wait(struct visit *visit)
{
    struct endpoint *endpoint = visit->endpoint;

    pthread_mutex_lock(&endpoint->lock);
    while (!endpoint->released && !endpoint->stopping)
        pthread_cond_wait(&endpoint->changed, &endpoint->lock);
    bool released = endpoint->released;
    pthread_mutex_unlock(&endpoint->lock);
    return released;
}

void visit_wait_end(struct visit *visit)
{
    char c;
    while (recv(visit->fd, &c, 1, 0) > 0)
        ;
}

bool visit_send(struct visit *visit, const void *bytes, size_t len)
{
    size_t done = 0;
    ssize_t sent = 0;

    leave(visit);
    while (done < len && sent >= 0) {
        sent = send(visit->fd, (const char *)bytes + done, len - done, MSG_NOSIGNAL);
        if (sent > 0)
            done += (size_t)sent;
        if (sent < 0 && errno == EINTR)
            sent = 0;
    }
    pthread_mutex_lock(&visit->endpoint->lock);
    visit->endpoint->sent += done;
    pthread_mutex_unlock(&visit->endpoint->lock);
    return done == len;
}

bool visit_say(struct visit *visit, const char *text)
{
    return visit_send(visit, text, strlen(text));
}

bool visit_answer(struct visit *visit, const char *status, const char *headers, const char *body)
{
    size_t size = strlen(status) + strlen(headers) + strlen(body) + 100;
    char *text = malloc(size);

    must(text, "malloc");
    snprintf(text, size, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, strlen(body),
             headers, body);
    bool stays = visit_say(visit, text);
    free(text);
    return stays;
}

bool visit_reset(struct visit *visit)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    setsockopt(visit->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    /* As a close would do, but the number of the descriptor stays taken. */
    connect(visit->fd, &nowhere, sizeof nowhere);
    return false;
}

/* ---- a port that nobody answers ---------------------------------------------------------------
 */

void pit_open(struct pit *pit, const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET};

    pit->port = port;
    pit->fd = listen_at(address, &pit->port, 0);
    to.sin_port = htons(pit->port);
    inet_pton(AF_INET, address, &to.sin_addr);
    for (size_t i = 0; i < sizeof pit->fillers / sizeof *pit->fillers; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        must(fd >= 0, "socket");
        connect(fd, (struct sockaddr *)&to, sizeof to);
        pit->fillers[i] = fd;
        /* The first one is established, and fills the line; the kernel answers no other. */
        if (i == 0) {
            struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
            must(poll(&poll_fd, 1, 10000) == 1, "poll");
        }
    }
}

void pit_close(struct pit *pit)
{
    for (size_t i = 0; i < sizeof pit->fillers / sizeof *pit->fillers; i++)
        close(pit->fillers[i]);
    close(pit->fd);
}
