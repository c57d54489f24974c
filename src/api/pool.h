/* pool: a few threads for work that may wait, so that those that must not wait can hand it on.
 *
 * A thread is started when something is given and nobody is idle, up to a maximum, and then stays.
 * What is given is begun in the order of giving. */
#ifndef LAZARET_API_POOL_H
#define LAZARET_API_POOL_H

#include <stdbool.h>

struct pool;

/* pool_new makes a pool of at most `threads_max` threads, one at least, in which at most
 * `waiting_max` pieces of work wait beside those that run.  NULL when memory is exhausted. */
struct pool *pool_new(unsigned threads_max, unsigned waiting_max);

/* pool_run has `fn(arg)` called by a thread of the pool.  False, and nothing will be called, when
 * as many run and wait as may, or when no thread can be started.  Any thread; it does not wait. */
bool pool_run(struct pool *pool, void (*fn)(void *arg), void *arg);

/* pool_free returns when everything that was given is done.  Nothing may be given any more, but by
 * work that runs.  Never by a thread of the pool.  NULL is fine. */
void pool_free(struct pool *pool);

#endif
