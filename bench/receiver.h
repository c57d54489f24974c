/* receiver: the endpoint of deliveries: a process of its own that takes whatever it is sent.
 *
 * It listens at one port of 127.0.0.1, 127.0.0.2 and so on, keeps connections open, answers every
 * request with `200 {}` at once, and counts them by host. */
#ifndef LAZARET_BENCH_RECEIVER_H
#define LAZARET_BENCH_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RECEIVER_HOSTS_MAX 100

struct receiver_counts;

struct receiver {
    pid_t pid;
    int port;
    size_t hosts;
    struct receiver_counts *counts; /* shared with the process */
};

/* receiver_start begins with so many hosts.  With `dead` the last one answers no connection. */
void receiver_start(struct receiver *receiver, size_t hosts, bool dead);
void receiver_stop(struct receiver *receiver);

size_t receiver_count(const struct receiver *receiver); /* requests that came, to all hosts */
void receiver_forget(struct receiver *receiver);        /* counts from 0 */

#endif
