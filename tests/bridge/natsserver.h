/* natsserver: a real nats-server of a test's own, with JetStream, on a free port of 127.0.0.1.
 *
 * It is stopped by its process id, and dies with the test program.  What cannot be done ends the
 * program with a sentence: a nats-server that is not installed is no reason to pass. */
#ifndef LAZARET_TESTS_BRIDGE_NATSSERVER_H
#define LAZARET_TESTS_BRIDGE_NATSSERVER_H

#include <stdint.h>
#include <sys/types.h>

struct natsserver {
    char directory[64]; /* of its streams */
    char url[64];
    uint16_t port;
    pid_t pid; /* 0: it is not running */
};

/* natsserver_init finds a port and a directory; natsserver_release stops it and removes them. */
void natsserver_init(struct natsserver *server);
void natsserver_release(struct natsserver *server);

/* natsserver_configure has the next starts read this configuration, too. */
void natsserver_configure(const struct natsserver *server, const char *config);

/* natsserver_start returns when it takes connections.  It has the streams that it had before.  It
 * ends with the thread that started it. */
void natsserver_start(struct natsserver *server);

/* natsserver_stop ends it: in order, or as if it had crashed (SIGKILL). */
void natsserver_stop(struct natsserver *server, int signal_number);

#endif
