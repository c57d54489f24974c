/* errand: one message after the other to the engine, each sent until it is answered.
 *
 *     errand_send --> on its way --> answered --> (the owner) --+--> errand_send, errand_later:
 *                         ^                                     |    the next one
 *                         `--------- a little later ------------+--> errand_trouble: the same one
 */
#ifndef LAZARET_RUN_ERRAND_H
#define LAZARET_RUN_ERRAND_H

#include "base/jsonw.h"
#include "crew/courier.h"

struct errand {
    struct loop *loop;
    struct courier *courier; /* borrowed */
    struct message message;
    struct buf path;         /* of the message */
    struct loop_timer again; /* until it is sent again */
    int64_t again_ms;        /* the wait after the last trouble; 0: there was none */
};

/* errand_init makes ready: `answered` is called on the loop's thread for every answer, also for
 * none (message.status). */
void errand_init(struct errand *errand, struct loop *loop, struct courier *courier,
                 void (*answered)(struct message *message), void *owner);
void errand_release(struct errand *errand); /* when its courier has ended */

/* errand_path begins a request: `before`, a name in which every byte that could mean something is
 * escaped, and `after`.  Its body is empty. */
void errand_path(struct errand *errand, const char *before, struct slice name, const char *after);

/* errand_body begins the body of the request. */
void errand_body(struct errand *errand, struct jsonw *w);

void errand_send(struct errand *errand, const char *method);

/* errand_later sends it after a time; errand_trouble sends the last one again, after a time that
 * becomes longer with each in a row.  True: it is the first of them.  errand_fine ends the row. */
void errand_later(struct errand *errand, const char *method, struct span after);
bool errand_trouble(struct errand *errand);
void errand_fine(struct errand *errand);

/* errand_waits says that a message is to be sent later; errand_stay has it not sent. */
bool errand_waits(const struct errand *errand);
void errand_stay(struct errand *errand);

/* errand_text copies a member that is a string; false, and `out` as it was, when there is none. */
bool errand_text(struct json object, const char *name, struct buf *out);

#endif
