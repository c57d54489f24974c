/* receiver: see receiver.h.  One thread and epoll, level-triggered. */
#include "receiver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define REQUEST_MAX 8192
#define EVENTS_MAX 256
#define FILLERS 8 /* connections that fill the line of a host that is dead */

struct receiver_counts {
    _Atomic size_t requests;
};

/* struct guest: a connection; one that listens has no room for requests. */
struct guest {
    int fd;
    bool listens;
    size_t len;
    char text[];
};

/* ---- in the parent ----------------------------------------------------------------------------
 */

static int listen_at(unsigned host, int *port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host)};
    socklen_t size = sizeof(at);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, backlog) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        bench_die("127.0.0.%u cannot be listened at: %s", host + 1, strerror(errno));
    *port = ntohs(at.sin_port);
    return fd;
}

/* fill connects until the system answers nobody else: the first one takes the only place. */
static void fill(unsigned host, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host)};
    for (int i = 0; i < FILLERS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd established = {.fd = fd, .events = POLLOUT};
        if (fd < 0 || (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 &&
                       errno != EINPROGRESS && errno != EAGAIN))
            bench_die("a connection for 127.0.0.%u: %s", host + 1, strerror(errno));
        if (i == 0 && poll(&established, 1, 10000) != 1)
            bench_die("127.0.0.%u does not take a single connection", host + 1);
    }
}

/* ---- the process ------------------------------------------------------------------------------
 */

static void add_guest(int epoll, int fd, bool listens)
{
    struct guest *guest = calloc(1, sizeof(*guest) + (listens ? 0 : REQUEST_MAX));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};
    if (!guest)
        _exit(1);
    guest->fd = fd;
    guest->listens = listens;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        _exit(1);
}

static void welcome(int epoll, const struct guest *door)
{
    int fd, one = 1;
    while ((fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        add_guest(epoll, fd, false);
    }
}

/* whole is the length of the request at the front; 0 while some of it is missing. */
static size_t whole(const struct guest *guest)
{
    const char *end = memmem(guest->text, guest->len, "\r\n\r\n", 4);
    const char *length = memmem(guest->text, guest->len, "Content-Length: ", 16);
    if (!end)
        return 0;
    size_t body = length && length < end ? strtoul(length + 16, NULL, 10) : 0;
    size_t size = (size_t)(end - guest->text) + 4 + body;
    return guest->len >= size ? size : 0;
}

/* serve answers what has arrived; false when the other side is gone. */
static bool serve(struct guest *guest, struct receiver_counts *counts)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 2\r\n\r\n{}";
    ssize_t got = recv(guest->fd, guest->text + guest->len, REQUEST_MAX - 1 - guest->len, 0);
    size_t size;
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    guest->len += (size_t)got;
    guest->text[guest->len] = '\0';
    while ((size = whole(guest))) {
        memmove(guest->text, guest->text + size, guest->len - size + 1);
        guest->len -= size;
        atomic_fetch_add(&counts->requests, 1);
        if (send(guest->fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL) != sizeof(answer) - 1)
            return false;
    }
    return guest->len < REQUEST_MAX - 1;
}

static _Noreturn void receive(const int *doors, size_t count, struct receiver_counts *counts)
{
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < count; i++)
        add_guest(epoll, doors[i], true);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            struct guest *guest = events[i].data.ptr;
            if (guest->listens) {
                welcome(epoll, guest);
            } else if (!serve(guest, counts)) {
                close(guest->fd);
                free(guest);
            }
        }
    }
}

static _Noreturn void child(const int *doors, size_t count, struct receiver_counts *counts,
                            pid_t parent)
{
    /* What the bench does upon a signal is not for this one to do. */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGABRT};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    receive(doors, count, counts);
}

void receiver_start(struct receiver *receiver, size_t hosts, bool dead)
{
    int doors[RECEIVER_HOSTS_MAX];
    size_t alive = hosts - dead;
    pid_t parent = getpid();
    *receiver = (struct receiver){.hosts = hosts};
    receiver->counts = mmap(NULL, sizeof(*receiver->counts), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (receiver->counts == MAP_FAILED || hosts > RECEIVER_HOSTS_MAX)
        bench_die("a receiver cannot be made");
    for (size_t i = 0; i < hosts; i++)
        doors[i] = listen_at((unsigned)i, &receiver->port, i < alive ? 1024 : 0);
    fflush(NULL);
    receiver->pid = fork();
    if (receiver->pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (receiver->pid == 0) {
        if (dead)
            fill((unsigned)alive, receiver->port);
        child(doors, alive, receiver->counts, parent);
    }
    for (size_t i = 0; i < hosts; i++)
        close(doors[i]);
}

void receiver_stop(struct receiver *receiver)
{
    kill(receiver->pid, SIGKILL);
    waitpid(receiver->pid, NULL, 0);
    munmap(receiver->counts, sizeof(*receiver->counts));
    *receiver = (struct receiver){0};
}

size_t receiver_count(const struct receiver *receiver)
{
    return atomic_load(&receiver->counts->requests);
}

void receiver_forget(struct receiver *receiver)
{
    atomic_store(&receiver->counts->requests, 0);
}
