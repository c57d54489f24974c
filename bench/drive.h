/* drive: many connections to one server, served by one thread, so that the peers that are compared
 * are loaded by the same loop and the loop leaves the processors to them.
 *
 * A link is one connection.  It has one request under way at a time: `ask` writes it, the loop
 * sends it and gathers the answer, `answered` looks at it, and `ask` writes the next. */
#ifndef LAZARET_BENCH_DRIVE_H
#define LAZARET_BENCH_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* struct answer: one whole answer of a server. */
struct answer {
    int status;        /* HTTP's; of beanstalkd, the first letter of its word */
    size_t len;        /* of all of it; 0 while that is not known */
    struct slice body; /* without the head; of beanstalkd, its first line when there is no body */
};

/* A wire reads answers.  It is given what has arrived and fills `out`; true when it is whole.  An
 * `out->len` that is known sooner says how much must be there before it is asked again. */
typedef bool wire(struct slice in, struct answer *out);
wire wire_http, wire_beanstalk;

/* struct link: one connection. */
struct link {
    int fd;
    size_t index;    /* among those of its drive */
    int step;        /* for the talk: where it is */
    struct buf out;  /* the request */
    size_t out_sent; /* of its bytes */
    char *in;        /* what has arrived of the answer */
    size_t in_len, in_cap;
    size_t in_need;  /* no use in looking before so much has arrived */
    int64_t sent_ns; /* when the request was begun */
    bool busy;       /* a request is under way */
    bool writes;     /* it waits for room to send */
};

/* struct talk: what is said over the links.  `ask` appends a request, or returns false when the
 * link is to rest for the remainder of the run.  `answered` may be NULL. */
struct talk {
    wire *wire;
    bool (*ask)(void *ctx, struct link *link, struct buf *out);
    void (*answered)(void *ctx, struct link *link, const struct answer *answer);
    void *ctx;
};

/* struct tally: what one run or several came to. */
struct tally {
    double *us; /* how long each answer took */
    size_t count, cap;
    double seconds;
    double client_cpu_seconds; /* of this process */
};
void tally_release(struct tally *tally);
double tally_percentile(struct tally *tally, double share); /* in microseconds */

struct drive;

/* drive_open connects `links` times to a port of this machine. */
struct drive *drive_open(int port, size_t links, const struct talk *talk);
/* drive_open_among deals the links out to several servers, in turns. */
struct drive *drive_open_among(const int *ports, size_t port_count, size_t links,
                               const struct talk *talk);
void drive_close(struct drive *drive);

/* drive_run has all links ask for so many seconds, or until each `ask` has declined when `seconds`
 * is 0, and returns when every answer has come.  It adds to the tally. */
void drive_run(struct drive *drive, double seconds, struct tally *tally);

/* ---- requests, one at a time ------------------------------------------------------------------
 */

/* link_connect opens one connection, for link_send and link_receive, which wait. */
void link_connect(struct link *link, int port);
void link_release(struct link *link);
void link_send(struct link *link);                                       /* what is in link->out */
void link_receive(struct link *link, wire *wire, struct answer *answer); /* valid until the next */

/* ---- what requests look like ------------------------------------------------------------------
 */

/* http_ask appends a request; `type` is that of the body, which may be empty. */
void http_ask(struct buf *out, const char *method, const char *path, const char *type,
              struct slice body);
#define JSON_TYPE "application/json"
#define NDJSON_TYPE "application/x-ndjson"

/* answer_expect ends the program unless the answer has this status; `what` was asked. */
void answer_expect(const struct answer *answer, int status, const char *what);

#endif
