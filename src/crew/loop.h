/* loop: one thread that waits for file descriptors, times and what other threads post to it.
 *
 * Everything that changes while a crew works belongs to the thread that is in loop_run: processes,
 * transfers, attempts, counts.  Other threads (couriers, readers of items) only post. */
#ifndef LAZARET_CREW_LOOP_H
#define LAZARET_CREW_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/time.h"

struct loop;

/* struct loop_watch: a file descriptor that is waited for.  The owner embeds it. */
struct loop_watch {
    void (*ready)(struct loop_watch *watch, uint32_t events); /* EPOLLIN, EPOLLHUP, ... */
    int fd;                                                   /* -1: not watched */
};

/* struct loop_timer: a moment that is waited for.  The owner embeds it; `{.fire = f}` is not set.
 */
struct loop_timer {
    void (*fire)(struct loop_timer *timer);
    uint32_t handle; /* the loop's; 0: not set */
};

/* struct loop_post: something that another thread wants done on the loop's.  The poster keeps its
 * hands off it until it is run. */
struct loop_post {
    void (*run)(struct loop_post *post);
    struct loop_post *next;
};

enum status loop_open(struct loop **out, struct err *err);
void loop_close(struct loop *loop); /* NULL is fine; posts that were not run are not run */

/* loop_watch begins to wait for `events` (of epoll) on a descriptor, level-triggered.  When it
 * cannot, errno says why too. */
enum status loop_watch(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events,
                       struct err *err);
/* loop_rewatch waits for other events on a descriptor that is watched.  What was seen of it in this
 * round is still told. */
void loop_rewatch(struct loop *loop, struct loop_watch *watch, uint32_t events);
/* loop_unwatch ends that; also inside any callback.  The descriptor stays open.  It may be called
 * for one that is not watched.  `ready` is not called after it returns. */
void loop_unwatch(struct loop *loop, struct loop_watch *watch);

/* loop_timer_set has `fire` called once, after the span; one that was set before is moved.  False
 * when memory is exhausted. */
bool loop_timer_set(struct loop *loop, struct loop_timer *timer, struct span after);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer); /* not set: nothing */

/* loop_post has `run` called on the loop's thread, in the order of posting.  Any thread. */
void loop_post(struct loop *loop, struct loop_post *post);

/* loop_run serves until loop_stop, which is called on the loop's thread. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* loop_now is the steady clock, read afresh. */
struct span loop_now(void);

#endif
