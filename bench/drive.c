/* drive: the loop.
 *
 * Level-triggered epoll; each descriptor is registered once, for reading, and for writing only
 * while a request did not fit into the socket.  A request costs one send, one recv and its share of
 * an epoll_wait: what a client cannot do without. */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench.h"

#define EVENTS_MAX 256
#define IN_FIRST ((size_t)4096)
#define IN_MAX ((size_t)64 << 20)
#define PATIENCE_MS 60000 /* of a run in which nothing arrives */

struct drive {
    struct talk talk;
    struct link *links;
    size_t count;
    size_t busy; /* links with a request under way */
    int epoll;
    bool over; /* nobody asks any more */
    struct tally *tally;
};

/* ---- a tally ----------------------------------------------------------------------------------
 */

static void tally_add(struct tally *tally, double us)
{
    if (tally->count == tally->cap) {
        size_t cap = tally->cap ? tally->cap * 2 : 4096;
        double *more = bench_array(cap, sizeof(*more));
        if (tally->count)
            memcpy(more, tally->us, tally->count * sizeof(*more));
        mem_free(tally->us);
        tally->us = more;
        tally->cap = cap;
    }
    tally->us[tally->count++] = us;
}

void tally_release(struct tally *tally)
{
    mem_free(tally->us);
    *tally = (struct tally){0};
}

double tally_percentile(struct tally *tally, double share)
{
    return percentile(tally->us, tally->count, share);
}

/* ---- a link -----------------------------------------------------------------------------------
 */

void link_connect(struct link *link, int port)
{
    int yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *link = (struct link){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        bench_die("port %d cannot be connected to: %s", port, strerror(errno));
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    buf_init(&link->out, IN_MAX);
}

void link_release(struct link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    buf_release(&link->out);
    mem_free(link->in);
    link->in = NULL;
    link->in_len = link->in_cap = 0;
}

/* link_room makes sure that something can be received. */
static void link_room(struct link *link)
{
    size_t wanted = link->in_need > link->in_len ? link->in_need : link->in_len + IN_FIRST / 2;
    if (wanted <= link->in_cap)
        return;
    size_t cap = link->in_cap ? link->in_cap : IN_FIRST;
    while (cap < wanted)
        cap *= 2;
    if (cap > IN_MAX)
        bench_die("an answer has more than %zu bytes", IN_MAX);
    link->in = mem_realloc(link->in, cap);
    if (!link->in)
        bench_die("no memory for an answer of %zu bytes", wanted);
    link->in_cap = cap;
}

/* link_push sends what it can of the request; true when all of it is sent. */
static bool link_push(struct link *link)
{
    while (link->out_sent < link->out.len) {
        ssize_t sent = send(link->fd, link->out.ptr + link->out_sent,
                            link->out.len - link->out_sent, MSG_NOSIGNAL);
        if (sent > 0)
            link->out_sent += (size_t)sent;
        else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        else if (sent < 0 && errno != EINTR)
            bench_die("a request cannot be sent: %s", strerror(errno));
    }
    return true;
}

/* link_pull receives once; false when nothing is there. */
static bool link_pull(struct link *link)
{
    link_room(link);
    ssize_t got = recv(link->fd, link->in + link->in_len, link->in_cap - link->in_len, 0);
    if (got > 0) {
        link->in_len += (size_t)got;
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    bench_die("a server closed connection %zu in the middle of an answer: %s", link->index,
              got == 0 ? "end of file" : strerror(errno));
}

/* link_whole says whether the answer is there. */
static bool link_whole(struct link *link, wire *read, struct answer *answer)
{
    if (link->in_len < link->in_need)
        return false;
    *answer = (struct answer){0};
    if (read((struct slice){link->in, link->in_len}, answer)) {
        if (answer->len != link->in_len)
            bench_die("a server sent %zu bytes more than one answer", link->in_len - answer->len);
        return true;
    }
    link->in_need = answer->len;
    return false;
}

static void link_begin(struct link *link)
{
    link->out_sent = 0;
    link->in_len = 0;
    link->in_need = 0;
}

void link_send(struct link *link)
{
    link_begin(link);
    link->sent_ns = clock_ns();
    link_push(link);
}

void link_receive(struct link *link, wire *read, struct answer *answer)
{
    do
        link_pull(link);
    while (!link_whole(link, read, answer));
    buf_clear(&link->out);
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

/* watch has epoll look out for room to send, too, or no longer. */
static void watch(struct drive *drive, struct link *link, bool writes)
{
    if (link->writes == writes)
        return;
    struct epoll_event event = {.events = EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = link};
    if (epoll_ctl(drive->epoll, EPOLL_CTL_MOD, link->fd, &event) != 0)
        bench_die("epoll: %s", strerror(errno));
    link->writes = writes;
}

/* ask has the link begin its next request, if there is one. */
static void ask(struct drive *drive, struct link *link, int64_t now)
{
    buf_clear(&link->out);
    if (drive->over || !drive->talk.ask(drive->talk.ctx, link, &link->out))
        return;
    bench_check(link->out.status, &(struct err){0}, "writing a request");
    link_begin(link);
    link->sent_ns = now;
    link->busy = true;
    drive->busy++;
    watch(drive, link, !link_push(link));
}

/* arrived takes in what a link has received, and has it go on when its answer is whole. */
static void arrived(struct drive *drive, struct link *link)
{
    struct answer answer;
    if (!link_pull(link))
        return;
    if (!link->busy)
        bench_die("a server answered before it was asked");
    if (!link_whole(link, drive->talk.wire, &answer))
        return;
    int64_t now = clock_ns();
    tally_add(drive->tally, (double)(now - link->sent_ns) / 1e3);
    link->busy = false;
    drive->busy--;
    if (drive->talk.answered)
        drive->talk.answered(drive->talk.ctx, link, &answer);
    ask(drive, link, now);
}

static void serve(struct drive *drive, const struct epoll_event *event)
{
    struct link *link = event->data.ptr;
    if (event->events & EPOLLOUT)
        watch(drive, link, !link_push(link));
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        arrived(drive, link);
}

void drive_run(struct drive *drive, double seconds, struct tally *tally)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t cpu = cpu_ns(), start = clock_ns();
    int64_t until = seconds > 0 ? start + (int64_t)(seconds * 1e9) : INT64_MAX;
    drive->tally = tally;
    drive->over = false;
    for (size_t i = 0; i < drive->count; i++)
        ask(drive, &drive->links[i], clock_ns());
    while (drive->busy) {
        int count = epoll_wait(drive->epoll, events, EVENTS_MAX, PATIENCE_MS);
        if (count == 0)
            bench_die("%zu answers did not come within %d s", drive->busy, PATIENCE_MS / 1000);
        if (count < 0 && errno != EINTR)
            bench_die("epoll: %s", strerror(errno));
        for (int i = 0; i < count; i++)
            serve(drive, &events[i]);
        drive->over = until != INT64_MAX && clock_ns() >= until;
    }
    tally->seconds += (double)(clock_ns() - start) / 1e9;
    tally->client_cpu_seconds += (double)(cpu_ns() - cpu) / 1e9;
}

struct drive *drive_open(int port, size_t links, const struct talk *talk)
{
    return drive_open_among(&port, 1, links, talk);
}

struct drive *drive_open_among(const int *ports, size_t port_count, size_t links,
                               const struct talk *talk)
{
    struct drive *drive = bench_array(1, sizeof(*drive));
    *drive = (struct drive){.talk = *talk, .count = links, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    drive->links = bench_array(links, sizeof(*drive->links));
    if (drive->epoll < 0)
        bench_die("epoll: %s", strerror(errno));
    for (size_t i = 0; i < links; i++) {
        struct link *link = &drive->links[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
        link_connect(link, ports[i % port_count]);
        link->index = i;
        if (fcntl(link->fd, F_SETFL, O_NONBLOCK) != 0 ||
            epoll_ctl(drive->epoll, EPOLL_CTL_ADD, link->fd, &event) != 0)
            bench_die("epoll: %s", strerror(errno));
    }
    return drive;
}

void drive_close(struct drive *drive)
{
    if (!drive)
        return;
    for (size_t i = 0; i < drive->count; i++)
        link_release(&drive->links[i]);
    close(drive->epoll);
    mem_free(drive->links);
    mem_free(drive);
}
