/* endpoint: an HTTP server that does to its visitors whatever a test wants: raw sockets, and a
 * thread for each connection.
 *
 * It uses plain malloc: tests that fail allocations mean the client's. */
#ifndef LAZARET_TESTS_ENDPOINT_H
#define LAZARET_TESTS_ENDPOINT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct endpoint;

/* struct visit: a request that was read whole. */
struct visit {
    struct endpoint *endpoint;
    int fd;
    unsigned number;  /* of the request on its connection, from 1 */
    const char *head; /* up to the empty line */
    const char *path; /* "/a?b" */
    const char *body; /* terminated */
    size_t body_len;
    bool answering; /* something was sent: to the client it may be over */
};

struct endpoint {
    /* serve answers, or does not.  False: the connection is closed. */
    bool (*serve)(struct visit *visit);
    int fd;
    uint16_t port;
    pthread_t acceptor;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*greet)(struct endpoint *endpoint, int fd);
    bool released, stopping;
    unsigned connections, requests, at_once, at_once_max;
    size_t sent; /* bytes */
    char *last;  /* the head and the body of the last request */
    struct guest *guests;
};

/* endpoint_open listens on every address of the loopback network, at a free port. */
void endpoint_open(struct endpoint *endpoint, bool (*serve)(struct visit *visit));
void endpoint_close(struct endpoint *endpoint);

/* endpoint_release lets those go on that are in visit_wait. */
void endpoint_release(struct endpoint *endpoint);
/* endpoint_greet has connections treated so, instead of requests being read. */
void endpoint_greet(struct endpoint *endpoint, void (*greet)(struct endpoint *endpoint, int fd));
/* endpoint_last is the head and the body of the last request, which is there. */
const char *endpoint_last(struct endpoint *endpoint);
unsigned endpoint_at_once_max(struct endpoint *endpoint);
unsigned endpoint_requests(struct endpoint *endpoint);
unsigned endpoint_connections(struct endpoint *endpoint);

/* visit_wait waits until the endpoint is released or closed; false: closed. */
bool visit_wait(struct visit *visit);
/* visit_wait_end waits until the client has closed, or the endpoint is. */
void visit_wait_end(struct visit *visit);
/* visit_send writes bytes; false when the client is gone. */
bool visit_send(struct visit *visit, const void *bytes, size_t len);
bool visit_say(struct visit *visit, const char *text);
/* visit_answer writes a whole answer: "200 OK", more header lines (each with its CRLF) or "", and a
 * body. */
bool visit_answer(struct visit *visit, const char *status, const char *headers, const char *body);
/* visit_reset closes the connection with an RST. */
bool visit_reset(struct visit *visit);

/* struct pit: a port at which connections are never established: its line is full. */
struct pit {
    int fd;
    uint16_t port;
    int fillers[8];
};

/* pit_open listens at `address` ("127.0.0.1") and `port` (0: a free one). */
void pit_open(struct pit *pit, const char *address, uint16_t port);
void pit_close(struct pit *pit);

#endif
