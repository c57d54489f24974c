/* test_pool: what is given is done, once; what is too much is refused; the end waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/pool.h"
#include "base/mem.h"

/* struct gate: work that waits until it is let through. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int inside, most_inside, passed;
    bool open;
};

#define GATE                                                                                       \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void pass(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    if (++gate->inside > gate->most_inside)
        gate->most_inside = gate->inside;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->inside--;
    gate->passed++;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void await_inside(struct gate *gate, int count)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->inside < count)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void await_passed(struct gate *gate, int count)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->passed < count)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void a_pool_that_was_given_nothing_ends(void **state)
{
    (void)state;
    pool_free(pool_new(3, 3));
    pool_free(NULL);
}

static void what_is_too_much_is_refused_until_there_is_room(void **state)
{
    struct gate gate = GATE;
    struct pool *pool = pool_new(2, 3);
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(pool_run(pool, pass, &gate));
    assert_false(pool_run(pool, pass, &gate));
    await_inside(&gate, 2);
    assert_false(pool_run(pool, pass, &gate));
    open_gate(&gate);
    await_passed(&gate, 5);
    while (!pool_run(pool, pass, &gate))
        sched_yield(); /* The fifth has passed, but its thread has not come back yet. */
    pool_free(pool);
    assert_int_equal(gate.passed, 6);
    assert_int_equal(gate.most_inside, 2);
}

static void all_threads_work_at_the_same_time(void **state)
{
    struct gate gate = GATE;
    struct pool *pool = pool_new(4, 0);
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_true(pool_run(pool, pass, &gate));
    await_inside(&gate, 4);
    open_gate(&gate);
    pool_free(pool);
    assert_int_equal(gate.passed, 4);
}

struct order {
    int seen[100];
    int count;
};

struct order_entry {
    struct order *order;
    int number;
};

static void note(void *arg)
{
    struct order_entry *entry = arg;
    entry->order->seen[entry->order->count++] = entry->number;
}

static void one_thread_keeps_the_order_and_the_end_waits_for_all(void **state)
{
    struct order order = {0};
    struct order_entry entries[100];
    struct pool *pool = pool_new(1, 100);
    (void)state;
    for (int i = 0; i < 100; i++) {
        entries[i] = (struct order_entry){&order, i};
        assert_true(pool_run(pool, note, &entries[i]));
    }
    pool_free(pool);
    assert_int_equal(order.count, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(order.seen[i], i);
}

struct chain {
    struct pool *pool;
    int left;
};

static void give_the_next(void *arg)
{
    struct chain *chain = arg;
    if (--chain->left > 0)
        assert_true(pool_run(chain->pool, give_the_next, chain));
}

static void work_may_give_work_while_the_pool_ends(void **state)
{
    struct chain chain = {.pool = pool_new(3, 4), .left = 1000};
    (void)state;
    assert_true(pool_run(chain.pool, give_the_next, &chain));
    pool_free(chain.pool);
    assert_int_equal(chain.left, 0);
}

static void count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

struct giver {
    struct pool *pool;
    atomic_int *done;
    int taken;
};

static void *give(void *arg)
{
    struct giver *giver = arg;
    for (int i = 0; i < 3000; i++)
        giver->taken += pool_run(giver->pool, count_up, giver->done);
    return NULL;
}

static void many_givers_have_each_piece_done_once(void **state)
{
    atomic_int done = 0;
    struct pool *pool = pool_new(3, 16);
    struct giver givers[4];
    pthread_t threads[4];
    int taken = 0;
    (void)state;
    for (int i = 0; i < 4; i++) {
        givers[i] = (struct giver){.pool = pool, .done = &done};
        assert_int_equal(pthread_create(&threads[i], NULL, give, &givers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        taken += givers[i].taken;
    }
    pool_free(pool);
    assert_true(taken > 0);
    assert_int_equal(atomic_load(&done), taken);
}

static void no_memory_gives_no_pool(void **state)
{
    (void)state;
    for (unsigned long n = 1; n <= 2; n++) {
        mem_fail_after(n);
        assert_null(pool_new(2, 2));
    }
    mem_fail_after(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_that_was_given_nothing_ends),
        cmocka_unit_test(what_is_too_much_is_refused_until_there_is_room),
        cmocka_unit_test(all_threads_work_at_the_same_time),
        cmocka_unit_test(one_thread_keeps_the_order_and_the_end_waits_for_all),
        cmocka_unit_test(work_may_give_work_while_the_pool_ends),
        cmocka_unit_test(many_givers_have_each_piece_done_once),
        cmocka_unit_test(no_memory_gives_no_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
