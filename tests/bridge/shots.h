/* shots: calls of the wire, as tests make them. */
#ifndef LAZARET_TESTS_SHOTS_H
#define LAZARET_TESTS_SHOTS_H

#include "bridge/endpoint.h"
#include "bridge/wire.h"

/* struct range: a wire and its loop, which runs until all shots are done. */
struct range {
    struct loop *loop;
    struct wire *wire;
    unsigned pending;    /* shots that are not done */
    unsigned until;      /* the loop stops when no more than these are */
    unsigned done_count; /* of all shots */
    bool inside;         /* wire_send or wire_cancel is being called */
};

struct shot {
    struct wire_call call; /* first */
    struct range *range;
    char url[300];
    unsigned turn; /* which one to be done it was, from 1; 0: it is not */
    unsigned dones;
    void (*then)(struct shot *shot); /* called when it is done; may be NULL */
    struct shot *other;              /* the test's */
    unsigned asked;                  /* how often may_connect was */
};

/* range_open makes a wire with these limits (0: the default). */
void range_open(struct range *range, unsigned parallel, unsigned host_parallel);
void range_open_with(struct range *range, struct wire_config config);
void range_close(struct range *range);

/* shot_init makes a call to a path of a host and port: {"a":1} as JSON. */
void shot_init(struct shot *shot, struct range *range, const char *host, uint16_t port,
               const char *path);
void shot_at(struct shot *shot, struct range *range, const struct endpoint *endpoint,
             const char *path);
void shot_release(struct shot *shot);

void shot_send(struct shot *shot);
void shot_cancel(struct shot *shot);

/* range_run runs until all are done; range_run_until until no more than `left` are not. */
void range_run(struct range *range);
void range_run_until(struct range *range, unsigned left);
/* range_run_until_true runs until `condition` is true; it is looked at every millisecond. */
void range_run_until_true(struct range *range, bool (*condition)(void *ctx), void *ctx);

/* shot_fire sends and waits. */
void shot_fire(struct shot *shot);

/* struct scene: an endpoint, a wire and a call. */
struct scene {
    struct endpoint endpoint;
    struct range range;
    struct shot shot;
};

/* scene_open has the endpoint serve in a way, and makes a call to one of its paths. */
void scene_open(struct scene *scene, bool (*serve)(struct visit *visit), const char *path);
void scene_close(struct scene *scene);

#endif
