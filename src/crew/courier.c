/* courier: a queue, a thread, and the way back through the loop. */
#include "crew/courier.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"

#define MESSAGE_MAX ((size_t)64 << 20) /* bytes of a body or an answer */

struct courier {
    struct loop *loop;
    struct link link;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t arrived;
    struct message *first, *last;
    bool ending;
};

void message_init(struct message *message, const char *method, const char *path,
                  void (*done)(struct message *message), void *owner)
{
    *message = (struct message){.method = method, .path = path, .done = done, .owner = owner};
    buf_init(&message->body, MESSAGE_MAX);
    buf_init(&message->answer, MESSAGE_MAX);
}

void message_release(struct message *message)
{
    buf_release(&message->body);
    buf_release(&message->answer);
}

static struct message *message_of(struct loop_post *post)
{
    return (struct message *)((char *)post - offsetof(struct message, post));
}

static void arrive(struct loop_post *post)
{
    struct message *message = message_of(post);
    message->done(message);
}

/* carry has one message answered. */
static void carry(struct courier *courier, struct message *message)
{
    struct span began = loop_now();
    message->err.text[0] = '\0';
    message->status = buf_status(&message->body, &message->err);
    if (!message->status)
        message->status =
            link_ask(&courier->link, message->method, message->path, buf_slice(&message->body),
                     &message->answer, &message->value, &message->err);
    message->took = (struct span){loop_now().us - began.us};
    message->post.run = arrive;
    loop_post(courier->loop, &message->post);
}

/* take waits for the next message; NULL when there is none and there will be none. */
static struct message *take(struct courier *courier)
{
    pthread_mutex_lock(&courier->lock);
    while (!courier->first && !courier->ending)
        pthread_cond_wait(&courier->arrived, &courier->lock);
    struct message *message = courier->first;
    if (message) {
        courier->first = message->next;
        if (!courier->first)
            courier->last = NULL;
    }
    pthread_mutex_unlock(&courier->lock);
    return message;
}

static void *work(void *ctx)
{
    struct courier *courier = ctx;
    struct message *message;
    while ((message = take(courier)))
        carry(courier, message);
    return NULL;
}

/* start begins the thread with every signal blocked: they are the loop's business. */
static int start(struct courier *courier)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&courier->thread, NULL, work, courier);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum status courier_new(struct loop *loop, const struct link *link, struct courier **out,
                        struct err *err)
{
    struct courier *courier = mem_zalloc(sizeof(*courier));
    if (!courier)
        return err_no_memory(err);
    courier->loop = loop;
    courier->link = *link;
    pthread_mutex_init(&courier->lock, NULL);
    pthread_cond_init(&courier->arrived, NULL);
    if (start(courier)) {
        pthread_cond_destroy(&courier->arrived);
        pthread_mutex_destroy(&courier->lock);
        mem_free(courier);
        return err_set(err, STATUS_LIMIT, "a thread cannot be started: too many are running");
    }
    *out = courier;
    return STATUS_OK;
}

void courier_free(struct courier *courier)
{
    if (!courier)
        return;
    pthread_mutex_lock(&courier->lock);
    courier->ending = true;
    pthread_cond_signal(&courier->arrived);
    pthread_mutex_unlock(&courier->lock);
    pthread_join(courier->thread, NULL);
    pthread_cond_destroy(&courier->arrived);
    pthread_mutex_destroy(&courier->lock);
    mem_free(courier);
}

void courier_send(struct courier *courier, struct message *message)
{
    message->next = NULL;
    pthread_mutex_lock(&courier->lock);
    if (courier->last)
        courier->last->next = message;
    else
        courier->first = message;
    courier->last = message;
    pthread_cond_signal(&courier->arrived);
    pthread_mutex_unlock(&courier->lock);
}
