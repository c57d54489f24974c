/* cut: one thread, a listening socket, and pairs of connected ones. */
#include "store/cut.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS_MAX 32
#define LOOK_MS 20 /* how often the mode is looked at while nobody says anything */

struct pair {
    int client, server; /* -1: free */
};

struct cut {
    pthread_t thread;
    int listener;
    uint16_t port, to_port;
    atomic_int mode;
    atomic_bool stop;
    struct pair pairs[PAIRS_MAX];
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "cut: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void pair_close(struct pair *pair)
{
    if (pair->client >= 0)
        close(pair->client);
    if (pair->server >= 0)
        close(pair->server);
    pair->client = pair->server = -1;
}

static void pair_open(struct cut *cut)
{
    struct sockaddr_in address = loopback(cut->to_port);
    struct pair pair = {accept(cut->listener, NULL, NULL), socket(AF_INET, SOCK_STREAM, 0)};
    const int one = 1;
    if (pair.client < 0 || pair.server < 0 ||
        connect(pair.server, (struct sockaddr *)&address, sizeof(address)) != 0) {
        pair_close(&pair);
        return;
    }
    setsockopt(pair.client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(pair.server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int i = 0; i < PAIRS_MAX; i++)
        if (cut->pairs[i].client < 0) {
            cut->pairs[i] = pair;
            return;
        }
    check(false, "too many connections");
}

/* pass moves what `from` says to `to`; false when one of them is gone. */
static bool pass(int from, int to)
{
    char bytes[65536];
    ssize_t count = recv(from, bytes, sizeof(bytes), 0);
    if (count <= 0)
        return false;
    for (ssize_t sent = 0; sent < count;) {
        ssize_t some = send(to, bytes + sent, (size_t)(count - sent), MSG_NOSIGNAL);
        if (some <= 0)
            return false;
        sent += some;
    }
    return true;
}

/* pair_serve passes on or cuts what a pair says. */
static void pair_serve(struct cut *cut, struct pair *pair, bool from_client)
{
    int mode = atomic_load(&cut->mode);
    bool words = mode == CUT_WORDS && from_client, answers = mode == CUT_ANSWERS && !from_client;
    if (words || answers) {
        pair_close(pair);
        atomic_store(&cut->mode, CUT_NOTHING);
    } else if (!pass(from_client ? pair->client : pair->server,
                     from_client ? pair->server : pair->client)) {
        pair_close(pair);
    }
}

static void *cut_main(void *arg)
{
    struct cut *cut = arg;
    while (!atomic_load(&cut->stop)) {
        struct pollfd fds[1 + 2 * PAIRS_MAX];
        bool silent = atomic_load(&cut->mode) == CUT_ALL;
        fds[0] = (struct pollfd){cut->listener, POLLIN, 0};
        for (int i = 0; i < PAIRS_MAX; i++) {
            fds[1 + 2 * i] = (struct pollfd){silent ? -1 : cut->pairs[i].client, POLLIN, 0};
            fds[2 + 2 * i] = (struct pollfd){silent ? -1 : cut->pairs[i].server, POLLIN, 0};
        }
        if (poll(fds, 1 + 2 * PAIRS_MAX, LOOK_MS) <= 0)
            continue;
        for (int i = 0; i < 2 * PAIRS_MAX; i++)
            if (fds[1 + i].revents && cut->pairs[i / 2].client >= 0)
                pair_serve(cut, &cut->pairs[i / 2], i % 2 == 0);
        if (fds[0].revents)
            pair_open(cut);
    }
    return NULL;
}

struct cut *cut_start(uint16_t to_port)
{
    struct cut *cut = calloc(1, sizeof(*cut));
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    check(cut != NULL, "memory");
    for (int i = 0; i < PAIRS_MAX; i++)
        cut->pairs[i] = (struct pair){-1, -1};
    cut->to_port = to_port;
    cut->listener = socket(AF_INET, SOCK_STREAM, 0);
    check(cut->listener >= 0 &&
              bind(cut->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
              listen(cut->listener, 16) == 0 &&
              getsockname(cut->listener, (struct sockaddr *)&address, &size) == 0,
          "listening");
    cut->port = ntohs(address.sin_port);
    errno = pthread_create(&cut->thread, NULL, cut_main, cut);
    check(errno == 0, "thread");
    return cut;
}

uint16_t cut_port(const struct cut *cut)
{
    return cut->port;
}

void cut_set(struct cut *cut, enum cut_mode mode)
{
    atomic_store(&cut->mode, (int)mode);
}

enum cut_mode cut_mode(const struct cut *cut)
{
    return (enum cut_mode)atomic_load(&cut->mode);
}

void cut_stop(struct cut *cut)
{
    atomic_store(&cut->stop, true);
    pthread_join(cut->thread, NULL);
    for (int i = 0; i < PAIRS_MAX; i++)
        pair_close(&cut->pairs[i]);
    close(cut->listener);
    free(cut);
}
