/* loop: epoll, an eventfd for what is posted, and a heap of timers.
 *
 * One round of loop_run: wait; serve the descriptors that are ready, the eventfd among them, which
 * runs the posts; then fire the timers that are due.  Descriptors come before timers, so that an
 * answer that is there already wins over the time-out for it.
 *
 * Invariants, between callbacks:
 *   - events[at..count) are those of this round that were not served yet.  Those of a watch that
 *     was ended are set to NULL there, so that nobody is called after loop_unwatch.
 *   - A timer with handle h > 0 is in slots[h], which is in the heap at slots[h].position.  Slot 0
 *     is not used.  Free slots form a list from `slot_free` on.
 *   - Posts wait in `posted` (with the lock) and then in `taken` (the loop's own), both in order.
 *     The eventfd is readable whenever one of them is not empty and the loop waits. */
#include "crew/loop.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/mem.h"
#include "base/seams.h"

#define EVENTS_MAX 128 /* served in one round */
#define SLOTS_MIN 64

struct slot {
    struct loop_timer *timer;
    uint32_t position;  /* in the heap */
    uint32_t next_free; /* of a free one; 0: the last */
};

struct posts {
    struct loop_post *first;
    struct loop_post **end; /* where the next one goes */
};

struct loop {
    int epoll_fd;
    struct loop_watch wake; /* of the eventfd */
    int wake_fd;
    bool stopping;

    struct epoll_event events[EVENTS_MAX];
    int at, count;

    struct heap timers; /* by the steady clock, in microseconds */
    struct slot *slots;
    uint32_t slot_count, slot_free;

    pthread_mutex_t lock;
    struct posts posted; /* with the lock */
    struct posts taken;
};

struct span loop_now(void)
{
    const struct seams *seams = seams_real();
    return seams->steady(seams->ctx);
}

/* Descriptors. */

enum status loop_watch(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events,
                       struct err *err)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        int error = errno;
        err_set(err, STATUS_IO, "cannot wait for descriptor %d: %s", fd, strerror(error));
        errno = error;
        return STATUS_IO;
    }
    watch->fd = fd;
    return STATUS_OK;
}

void loop_rewatch(struct loop *loop, struct loop_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) != 0)
        BUG("descriptor %d is not watched: %s", watch->fd, strerror(errno));
}

void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
    if (watch->fd < 0)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->fd = -1;
    for (int i = loop->at; i < loop->count; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
}

static void serve(struct loop *loop)
{
    while (loop->at < loop->count && !loop->stopping) {
        struct epoll_event *event = &loop->events[loop->at++];
        struct loop_watch *watch = event->data.ptr;
        if (watch)
            watch->ready(watch, event->events);
    }
    /* What is left when the loop stops is told again, as it is still so. */
    loop->at = loop->count = 0;
}

/* Timers. */

static void timer_moved(void *owner, uint32_t handle, uint32_t position)
{
    struct loop *loop = owner;
    loop->slots[handle].position = position;
}

/* more_slots doubles the slots and puts those that came on the free list. */
static bool more_slots(struct loop *loop)
{
    uint32_t before = loop->slot_count;
    if (before > UINT32_MAX / 4)
        return false;
    uint32_t count = before ? before * 2 : SLOTS_MIN;
    struct slot *slots = mem_realloc(loop->slots, count * sizeof *slots);
    if (!slots)
        return false;
    loop->slots = slots;
    loop->slot_count = count;
    for (uint32_t i = count; i-- > (before ? before : 1);) {
        slots[i] = (struct slot){.position = HEAP_NONE, .next_free = loop->slot_free};
        loop->slot_free = i;
    }
    return true;
}

bool loop_timer_set(struct loop *loop, struct loop_timer *timer, struct span after)
{
    int64_t due;
    if (__builtin_add_overflow(loop_now().us, after.us, &due))
        due = INT64_MAX;
    if (timer->handle) {
        heap_update(&loop->timers, loop->slots[timer->handle].position, due);
        return true;
    }

    if (!loop->slot_free && !more_slots(loop))
        return false;
    uint32_t handle = loop->slot_free;
    if (!heap_add(&loop->timers, due, handle))
        return false;
    loop->slot_free = loop->slots[handle].next_free;
    loop->slots[handle].timer = timer;
    timer->handle = handle;
    return true;
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
    uint32_t handle = timer->handle;
    if (!handle)
        return;
    heap_remove(&loop->timers, loop->slots[handle].position);
    loop->slots[handle] = (struct slot){.position = HEAP_NONE, .next_free = loop->slot_free};
    loop->slot_free = handle;
    timer->handle = 0;
}

/* fire calls the timers that were due when it began; one that is set again in its own callback has
 * its turn in the next round. */
static void fire(struct loop *loop)
{
    const struct heap_entry *first = heap_min(&loop->timers);
    if (!first)
        return;
    int64_t now = loop_now().us;
    while (first && first->key <= now && !loop->stopping) {
        struct loop_timer *timer = loop->slots[first->handle].timer;
        loop_timer_clear(loop, timer);
        timer->fire(timer);
        first = heap_min(&loop->timers);
    }
}

/* wait_ms is how long epoll_wait may wait.  Rounded up: a wait that ends too early would be spent
 * on rounds in which nothing is due. */
static int wait_ms(const struct loop *loop)
{
    const struct heap_entry *first = heap_min(&loop->timers);
    if (!first)
        return -1;
    int64_t now = loop_now().us;
    if (first->key <= now)
        return 0;
    int64_t ms = (first->key - now - 1) / 1000 + 1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Posts. */

static void posts_init(struct posts *posts)
{
    posts->first = NULL;
    posts->end = &posts->first;
}

static void posts_append(struct posts *posts, struct loop_post *first, struct loop_post **end)
{
    *posts->end = first;
    posts->end = end;
}

static void wake_up(struct loop *loop)
{
    uint64_t one = 1;
    ssize_t written;
    /* It can fail only when the count is at its end, and then the loop will wake up anyway. */
    do
        written = write(loop->wake_fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
}

void loop_post(struct loop *loop, struct loop_post *post)
{
    post->next = NULL;
    pthread_mutex_lock(&loop->lock);
    bool first = !loop->posted.first;
    posts_append(&loop->posted, post, &post->next);
    /* With the lock: so nobody is in here any more when the post is run, and the loop may close. */
    if (first)
        wake_up(loop);
    pthread_mutex_unlock(&loop->lock);
}

static void take_posts(struct loop *loop)
{
    uint64_t count;

    pthread_mutex_lock(&loop->lock);
    while (read(loop->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    if (loop->posted.first) {
        posts_append(&loop->taken, loop->posted.first, loop->posted.end);
        posts_init(&loop->posted);
    }
    pthread_mutex_unlock(&loop->lock);
}

/* run_posts runs those that are there; those that they post have their turn in the next round. */
static void run_posts(struct loop_watch *watch, uint32_t events)
{
    struct loop *loop = (struct loop *)((char *)watch - offsetof(struct loop, wake));
    (void)events;

    take_posts(loop);
    while (loop->taken.first && !loop->stopping) {
        struct loop_post *post = loop->taken.first;
        loop->taken.first = post->next;
        if (!post->next)
            posts_init(&loop->taken);
        post->run(post);
    }
    if (loop->taken.first)
        wake_up(loop); /* The loop stops; when it is run again, these are first. */
}

/* The loop. */

static enum status open_descriptors(struct loop *loop, struct err *err)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return err_set(err, STATUS_IO, "cannot make an epoll descriptor: %s", strerror(errno));
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0)
        return err_set(err, STATUS_IO, "cannot make an event descriptor: %s", strerror(errno));
    return loop_watch(loop, &loop->wake, loop->wake_fd, EPOLLIN, err);
}

enum status loop_open(struct loop **out, struct err *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    if (!loop)
        return err_no_memory(err);
    loop->epoll_fd = loop->wake_fd = -1;
    loop->wake = (struct loop_watch){.ready = run_posts, .fd = -1};
    pthread_mutex_init(&loop->lock, NULL);
    posts_init(&loop->posted);
    posts_init(&loop->taken);
    heap_init(&loop->timers, timer_moved, loop);

    enum status status = open_descriptors(loop, err);
    if (status != STATUS_OK) {
        loop_close(loop);
        return status;
    }
    *out = loop;
    return STATUS_OK;
}

void loop_close(struct loop *loop)
{
    if (!loop)
        return;
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    pthread_mutex_destroy(&loop->lock);
    heap_release(&loop->timers);
    mem_free(loop->slots);
    mem_free(loop);
}

void loop_run(struct loop *loop)
{
    while (!loop->stopping) {
        int count = epoll_wait(loop->epoll_fd, loop->events, EVENTS_MAX, wait_ms(loop));
        if (count < 0 && errno != EINTR)
            BUG("epoll_wait: %s", strerror(errno));
        loop->at = 0;
        loop->count = count < 0 ? 0 : count;
        serve(loop);
        fire(loop);
    }
    loop->stopping = false;
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}
