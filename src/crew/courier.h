/* courier: a thread that carries messages to the engine, one after the other, and brings the
 * answers to the loop.  So that nothing in the loop ever waits for a commit. */
#ifndef LAZARET_CREW_COURIER_H
#define LAZARET_CREW_COURIER_H

#include "crew/link.h"
#include "crew/loop.h"

struct courier;

/* struct message: a request and its answer.  Who sends it owns it, and keeps its hands off from
 * courier_send until `done`. */
struct message {
    const char *method, *path;
    struct buf body;
    void (*done)(struct message *message); /* on the loop's thread */
    void *owner;                           /* the sender's, for `done` */

    enum status status; /* the answer: as link_ask has it */
    struct err err;
    struct buf answer;
    struct json value; /* borrows from `answer` */
    struct span took;  /* from send to answer */

    struct loop_post post; /* the courier's */
    struct message *next;
};

void message_init(struct message *message, const char *method, const char *path,
                  void (*done)(struct message *message), void *owner);
void message_release(struct message *message);

/* courier_new starts the thread.  courier_free lets it finish what was sent, and ends it; `done` of
 * these is not called any more unless the loop still runs. */
enum status courier_new(struct loop *loop, const struct link *link, struct courier **out,
                        struct err *err);
void courier_free(struct courier *courier); /* NULL is fine */

/* courier_send puts a message behind those that wait.  Only the loop's thread. */
void courier_send(struct courier *courier, struct message *message);

#endif
