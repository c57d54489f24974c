/* pool: a ring of work behind one lock.
 *
 * Invariants, whenever the lock is free: `waiting` pieces of work are in the ring, `running` are
 * being done, and waiting + running <= capacity, which is the size of the ring.  When something
 * waits there is a thread. */
#include "api/pool.h"

#include <pthread.h>

#include "base/mem.h"
#include "base/status.h"

struct work {
    void (*fn)(void *arg);
    void *arg;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was given, or the end begins */
    struct work *ring;
    unsigned capacity; /* what may run and wait */
    unsigned first;    /* where in the ring the oldest waits */
    unsigned waiting, running;
    unsigned threads_max, started;
    bool ending;
    pthread_t threads[]; /* threads_max; the first `started` are there */
};

/* take_and_do does the oldest piece of work.  The lock is held on the way in and out. */
static void take_and_do(struct pool *pool)
{
    struct work work = pool->ring[pool->first];

    pool->first = (pool->first + 1) % pool->capacity;
    pool->waiting--;
    pool->running++;
    pthread_mutex_unlock(&pool->lock);
    work.fn(work.arg);
    pthread_mutex_lock(&pool->lock);
    pool->running--;
    /* Work may give work: whoever waits for the end has to look again. */
    if (pool->ending)
        pthread_cond_broadcast(&pool->changed);
}

static void *thread_main(void *arg)
{
    struct pool *pool = arg;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (pool->waiting > 0)
            take_and_do(pool);
        else if (pool->ending && pool->running == 0)
            break;
        else
            pthread_cond_wait(&pool->changed, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct pool *pool_new(unsigned threads_max, unsigned waiting_max)
{
    BUG_ON(threads_max == 0);
    struct pool *pool = mem_zalloc(sizeof *pool + threads_max * sizeof pool->threads[0]);

    if (!pool)
        return NULL;
    pool->threads_max = threads_max;
    pool->capacity = threads_max + waiting_max;
    pool->ring = mem_array(pool->capacity, sizeof *pool->ring);
    if (!pool->ring) {
        mem_free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    return pool;
}

/* staffed starts a thread when more waits than idle threads will take, and says whether there is
 * any thread at all.  With the lock. */
static bool staffed(struct pool *pool)
{
    unsigned idle = pool->started - pool->running;

    if (pool->waiting >= idle && pool->started < pool->threads_max &&
        pthread_create(&pool->threads[pool->started], NULL, thread_main, pool) == 0)
        pool->started++;
    return pool->started > 0;
}

bool pool_run(struct pool *pool, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&pool->lock);
    bool taken = pool->waiting + pool->running < pool->capacity && staffed(pool);
    if (taken) {
        pool->ring[(pool->first + pool->waiting) % pool->capacity] = (struct work){fn, arg};
        pool->waiting++;
        pthread_cond_signal(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->changed);
    /* Threads that work starts meanwhile are joined too. */
    for (unsigned i = 0; i < pool->started; i++) {
        pthread_mutex_unlock(&pool->lock);
        pthread_join(pool->threads[i], NULL);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool->ring);
    mem_free(pool);
}
