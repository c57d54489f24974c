/* test_loop: descriptors, times and posts, each at its turn, and none after it was ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "crew/loop.h"

static int make_loop(void **state)
{
    struct loop *loop = NULL;
    struct err err = {0};
    if (loop_open(&loop, &err) != STATUS_OK)
        return -1;
    *state = loop;
    return 0;
}

static int close_loop(void **state)
{
    loop_close(*state);
    return 0;
}

/* struct stopper: a timer that ends the loop. */
struct stopper {
    struct loop_timer timer;
    struct loop *loop;
};

static void stop_by_timer(struct loop_timer *timer)
{
    loop_stop(((struct stopper *)timer)->loop);
}

/* run_for runs the loop until a time has passed. */
static void run_for(struct loop *loop, struct span span)
{
    struct stopper stopper = {.timer.fire = stop_by_timer, .loop = loop};
    assert_true(loop_timer_set(loop, &stopper.timer, span));
    loop_run(loop);
    assert_int_equal(stopper.timer.handle, 0);
}

/* struct ear: our end of a pipe, and what to do when it is ready. */
struct ear {
    struct loop_watch watch;
    struct loop *loop;
    int ends[2];
    int heard; /* how often it was ready */
    uint32_t events;
    struct ear *other; /* which is not watched from then on */
    bool stops;
};

static void ear_ready(struct loop_watch *watch, uint32_t events)
{
    struct ear *ear = (struct ear *)watch;
    ear->heard++;
    ear->events = events;
    if (ear->other)
        loop_unwatch(ear->loop, &ear->other->watch);
    if (ear->stops)
        loop_stop(ear->loop);
}

static void ear_open(struct ear *ear, struct loop *loop)
{
    struct err err = {0};
    *ear = (struct ear){.watch = {.ready = ear_ready, .fd = -1}, .loop = loop};
    assert_int_equal(pipe2(ear->ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(loop_watch(loop, &ear->watch, ear->ends[0], EPOLLIN, &err), STATUS_OK);
}

static void ear_tell(const struct ear *ear)
{
    assert_int_equal(write(ear->ends[1], "x", 1), 1);
}

static void ear_close(struct ear *ear)
{
    loop_unwatch(ear->loop, &ear->watch);
    for (int i = 0; i < 2; i++)
        if (ear->ends[i] >= 0)
            close(ear->ends[i]);
}

static void a_descriptor_that_is_ready_is_told_until_it_is_read(void **state)
{
    struct loop *loop = *state;
    struct ear ear;
    char c;

    ear_open(&ear, loop);
    ear.stops = true;
    ear_tell(&ear);
    loop_run(loop);
    loop_run(loop);
    assert_int_equal(ear.heard, 2);
    assert_int_equal(ear.events, EPOLLIN);
    assert_int_equal(read(ear.ends[0], &c, 1), 1);
    run_for(loop, span_ms(1));
    assert_int_equal(ear.heard, 2);
    ear_close(&ear);
}

static void the_end_of_a_pipe_is_told(void **state)
{
    struct loop *loop = *state;
    struct ear ear;

    ear_open(&ear, loop);
    ear.stops = true;
    close(ear.ends[1]);
    ear.ends[1] = -1;
    loop_run(loop);
    assert_int_equal(ear.events, EPOLLHUP);
    ear_close(&ear);
}

static void one_that_is_ended_in_a_callback_is_not_called_in_the_same_round(void **state)
{
    struct loop *loop = *state;
    struct ear a, b;

    ear_open(&a, loop);
    ear_open(&b, loop);
    a.other = &b;
    b.other = &a;
    ear_tell(&a);
    ear_tell(&b);
    run_for(loop, span_ms(1));
    /* Whichever came first has ended the other one. */
    assert_true((a.heard > 0) != (b.heard > 0));
    assert_int_equal(a.heard > 0 ? b.watch.fd : a.watch.fd, -1);
    ear_close(&a);
    ear_close(&b);
}

static void one_that_ends_itself_is_not_called_again(void **state)
{
    struct loop *loop = *state;
    struct ear ear;

    ear_open(&ear, loop);
    ear.other = &ear;
    ear_tell(&ear);
    run_for(loop, span_ms(1));
    assert_int_equal(ear.heard, 1);
    loop_unwatch(loop, &ear.watch);
    ear_close(&ear);
}

/* struct swap: when it is ready it ends itself and the other one, whose watch it uses again. */
struct swap {
    struct ear ear;
    struct swap *other;
    int instead; /* a descriptor on which nothing ever comes */
};

static void swap_ready(struct loop_watch *watch, uint32_t events)
{
    struct swap *swap = (struct swap *)watch;
    struct loop *loop = swap->ear.loop;
    struct loop_watch *again = &swap->other->ear.watch;
    struct err err = {0};

    (void)events;
    swap->ear.heard++;
    loop_unwatch(loop, watch);
    loop_unwatch(loop, again);
    assert_int_equal(loop_watch(loop, again, swap->instead, EPOLLIN, &err), STATUS_OK);
}

static void a_watch_that_is_used_again_does_not_hear_what_was_for_the_one_before(void **state)
{
    struct loop *loop = *state;
    struct swap a, b;
    struct ear silent;

    ear_open(&silent, loop);
    loop_unwatch(loop, &silent.watch);
    ear_open(&a.ear, loop);
    ear_open(&b.ear, loop);
    a.ear.watch.ready = b.ear.watch.ready = swap_ready;
    a.instead = b.instead = silent.ends[0];
    a.other = &b;
    b.other = &a;
    ear_tell(&a.ear);
    ear_tell(&b.ear);
    run_for(loop, span_ms(1));
    assert_int_equal(a.ear.heard + b.ear.heard, 1);
    assert_int_equal(a.ear.heard ? b.ear.watch.fd : a.ear.watch.fd, silent.ends[0]);
    ear_close(&a.ear);
    ear_close(&b.ear);
    ear_close(&silent);
}

static void what_is_waited_for_can_be_changed(void **state)
{
    struct loop *loop = *state;
    struct ear ear, end;

    ear_open(&ear, loop);
    ear_open(&end, loop);
    loop_unwatch(loop, &end.watch);
    end.stops = true;
    ear_tell(&ear);
    loop_rewatch(loop, &ear.watch, 0);
    run_for(loop, span_ms(1));
    assert_int_equal(ear.heard, 0); /* though there is something to read */
    loop_rewatch(loop, &ear.watch, EPOLLIN);
    ear.stops = true;
    loop_run(loop);
    assert_int_equal(ear.heard, 1);
    assert_int_equal(ear.events, EPOLLIN);
    /* The same for the end that is written to. */
    struct err err = {0};
    assert_int_equal(loop_watch(loop, &end.watch, end.ends[1], 0, &err), STATUS_OK);
    loop_rewatch(loop, &ear.watch, 0);
    run_for(loop, span_ms(1));
    assert_int_equal(end.heard, 0);
    loop_rewatch(loop, &end.watch, EPOLLOUT);
    loop_run(loop);
    assert_int_equal(end.events, EPOLLOUT);
    ear_close(&ear);
    ear_close(&end);
}

static void what_cannot_be_waited_for_is_an_error(void **state)
{
    struct loop *loop = *state;
    struct loop_watch watch = {.ready = ear_ready, .fd = -1};
    struct err err = {0};

    assert_int_equal(loop_watch(loop, &watch, 1000000, EPOLLIN, &err), STATUS_IO);
    assert_string_equal(err.text, "cannot wait for descriptor 1000000: Bad file descriptor");
    assert_int_equal(watch.fd, -1);
    loop_unwatch(loop, &watch);
}

/* struct bell: a timer that notes when its turn was. */
struct bell {
    struct loop_timer timer;
    struct loop *loop;
    int64_t due_us, due_us_max; /* between these it is due */
    int rung;                   /* how often */
    int turn;                   /* which of all it was; from 1 */
    struct bell *mute;          /* which it clears */
    bool again;                 /* it sets itself again */
};

static int turns;

static void bell_fire(struct loop_timer *timer)
{
    struct bell *bell = (struct bell *)timer;
    assert_int_equal(timer->handle, 0);
    assert_true(loop_now().us >= bell->due_us);
    bell->rung++;
    bell->turn = ++turns;
    if (bell->mute)
        loop_timer_clear(bell->loop, &bell->mute->timer);
    if (bell->again)
        assert_true(loop_timer_set(bell->loop, timer, (struct span){0}));
}

static void bell_set(struct bell *bell, struct loop *loop, struct span after)
{
    bell->timer.fire = bell_fire;
    bell->loop = loop;
    bell->due_us = loop_now().us + after.us;
    assert_true(loop_timer_set(loop, &bell->timer, after));
    bell->due_us_max = loop_now().us + after.us;
}

static void timers_fire_once_in_the_order_of_their_times(void **state)
{
    enum { COUNT = 300 };
    struct loop *loop = *state;
    struct bell bells[COUNT] = {0};

    turns = 0;
    for (int i = 0; i < COUNT; i++) /* 7 has no part in 300: each time once, in disorder */
        bell_set(&bells[i], loop, (struct span){1 + i * 7 % COUNT * 20});
    for (int i = 0; i < COUNT; i += 3)
        loop_timer_clear(loop, &bells[i].timer);
    run_for(loop, span_ms(50));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(bells[i].rung, i % 3 != 0);
        for (int j = 0; j < COUNT; j++)
            if (bells[i].rung && bells[j].rung && bells[i].due_us_max < bells[j].due_us)
                assert_true(bells[i].turn < bells[j].turn);
    }
    assert_int_equal(turns, COUNT - COUNT / 3);
}

static void a_timer_can_be_moved_and_cleared_by_another(void **state)
{
    struct loop *loop = *state;
    struct bell moved = {0}, muted = {0}, muting = {.mute = &muted};

    turns = 0;
    bell_set(&moved, loop, span_seconds(1000));
    bell_set(&moved, loop, span_ms(1));
    bell_set(&muting, loop, span_ms(1));
    bell_set(&muted, loop, span_ms(2));
    run_for(loop, span_ms(3));
    assert_int_equal(moved.rung, 1);
    assert_int_equal(muting.rung, 1);
    assert_int_equal(muted.rung, 0);
    assert_int_equal(muted.timer.handle, 0);
    loop_timer_clear(loop, &muted.timer);
}

static void a_timer_that_sets_itself_at_once_does_not_keep_descriptors_waiting(void **state)
{
    struct loop *loop = *state;
    struct bell restless = {.again = true};
    struct ear ear;

    ear_open(&ear, loop);
    ear.stops = true;
    ear_tell(&ear);
    bell_set(&restless, loop, (struct span){0});
    loop_run(loop);
    assert_int_equal(ear.heard, 1);
    loop_timer_clear(loop, &restless.timer);
    ear_close(&ear);
}

static void a_span_without_end_is_never_over(void **state)
{
    struct loop *loop = *state;
    struct bell bell = {0};

    bell.timer.fire = bell_fire;
    assert_true(loop_timer_set(loop, &bell.timer, (struct span){INT64_MAX}));
    run_for(loop, span_ms(1));
    assert_int_equal(bell.rung, 0);
    loop_timer_clear(loop, &bell.timer);
}

static void a_timer_without_memory_is_refused_and_nothing_is_changed(void **state)
{
    struct loop *loop = *state;

    for (unsigned long n = 1; n <= 2; n++) {
        struct bell bell = {.timer.fire = bell_fire};
        mem_fail_after(n);
        assert_false(loop_timer_set(loop, &bell.timer, span_ms(1)));
        mem_fail_after(0);
        assert_int_equal(bell.timer.handle, 0);
    }
    run_for(loop, span_ms(1));
}

static void a_timer_that_was_cleared_leaves_its_place_to_the_next(void **state)
{
    struct loop *loop = *state;
    struct bell bells[3] = {0};

    for (int i = 0; i < 3; i++)
        bell_set(&bells[i], loop, span_ms(1));
    mem_fail_after(1); /* From here on nothing more is needed. */
    for (int i = 0; i < 10000; i++) {
        loop_timer_clear(loop, &bells[i % 3].timer);
        bell_set(&bells[i % 3], loop, span_seconds(1000));
    }
    mem_fail_after(0);
    for (int i = 0; i < 3; i++)
        loop_timer_clear(loop, &bells[i].timer);
}

/* struct note: a post that says who posted it and which it was. */
struct note {
    struct loop_post post;
    struct loop *loop;
    int thread, number;
};

enum { POSTERS = 4, NOTES = 5000 };

static int next_number[POSTERS], notes_run;

static void note_run(struct loop_post *post)
{
    struct note *note = (struct note *)post;
    assert_int_equal(note->number, next_number[note->thread]++);
    if (++notes_run == POSTERS * NOTES)
        loop_stop(note->loop);
}

static void *post_notes(void *arg)
{
    struct note *notes = arg;
    for (int i = 0; i < NOTES; i++)
        loop_post(notes[i].loop, &notes[i].post);
    return NULL;
}

static void posts_of_many_threads_are_run_each_in_its_order(void **state)
{
    struct loop *loop = *state;
    struct note *notes = mem_array(POSTERS * NOTES, sizeof *notes);
    pthread_t threads[POSTERS];

    assert_non_null(notes);
    for (int i = 0; i < POSTERS * NOTES; i++)
        notes[i] = (struct note){{.run = note_run}, loop, i / NOTES, i % NOTES};
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_notes, notes + i * NOTES), 0);
    loop_run(loop);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(next_number[i], NOTES);
    }
    mem_free(notes);
}

/* struct chain: a post that posts itself, and stops the loop at some of its turns. */
struct chain {
    struct loop_post post;
    struct loop *loop;
    int turns, stop_at;
    bool goes_on;
};

static void chain_run(struct loop_post *post)
{
    struct chain *chain = (struct chain *)post;
    if (++chain->turns == chain->stop_at)
        loop_stop(chain->loop);
    if (chain->goes_on)
        loop_post(chain->loop, post);
}

static void a_post_that_posts_itself_does_not_keep_the_timers_waiting(void **state)
{
    struct loop *loop = *state;
    struct chain chain = {{.run = chain_run}, loop, 0, 0, true};

    loop_post(loop, &chain.post);
    run_for(loop, span_ms(1));
    assert_true(chain.turns > 0);
}

static void posts_behind_a_stop_wait_for_the_next_run(void **state)
{
    struct loop *loop = *state;
    struct chain stops = {{.run = chain_run}, loop, 0, 1, false};
    struct chain waits = {{.run = chain_run}, loop, 0, 0, false};
    struct chain last = {{.run = chain_run}, loop, 0, 1, false};

    loop_post(loop, &stops.post);
    loop_post(loop, &waits.post);
    loop_post(loop, &last.post);
    loop_run(loop);
    assert_int_equal(stops.turns, 1);
    assert_int_equal(waits.turns, 0);
    loop_run(loop);
    assert_int_equal(waits.turns, 1);
    assert_int_equal(last.turns, 1);
}

static void posts_that_were_not_run_are_dropped_with_the_loop(void **state)
{
    struct loop *loop = NULL;
    struct err err = {0};
    (void)state;

    assert_int_equal(loop_open(&loop, &err), STATUS_OK);
    struct chain chain = {{.run = chain_run}, loop, 0, 1, false};
    loop_post(loop, &chain.post);
    loop_close(loop);
    assert_int_equal(chain.turns, 0);
    loop_close(NULL);
}

static atomic_int caught;

static void catch_signal(int number)
{
    (void)number;
    atomic_fetch_add(&caught, 1);
}

/* struct pester: a thread that sends signals until some were caught, and then posts. */
struct pester {
    struct chain chain;
    pthread_t victim;
};

static void *pester_main(void *arg)
{
    struct pester *pester = arg;
    while (atomic_load(&caught) < 100)
        pthread_kill(pester->victim, SIGUSR1);
    loop_post(pester->chain.loop, &pester->chain.post);
    return NULL;
}

static void a_signal_does_not_disturb_the_wait(void **state)
{
    struct loop *loop = *state;
    struct sigaction action = {.sa_handler = catch_signal}, before;
    struct pester pester = {{{.run = chain_run}, loop, 0, 1, false}, pthread_self()};
    pthread_t thread;

    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, pester_main, &pester), 0);
    loop_run(loop);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(pester.chain.turns, 1);
}

static void a_loop_without_memory_is_refused(void **state)
{
    struct loop *loop = NULL;
    struct err err = {0};
    (void)state;

    mem_fail_after(1);
    assert_int_equal(loop_open(&loop, &err), STATUS_NO_MEMORY);
    mem_fail_after(0);
    assert_null(loop);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, make_loop, close_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_descriptor_that_is_ready_is_told_until_it_is_read),
        LOOP_TEST(the_end_of_a_pipe_is_told),
        LOOP_TEST(one_that_is_ended_in_a_callback_is_not_called_in_the_same_round),
        LOOP_TEST(one_that_ends_itself_is_not_called_again),
        LOOP_TEST(a_watch_that_is_used_again_does_not_hear_what_was_for_the_one_before),
        LOOP_TEST(what_is_waited_for_can_be_changed),
        LOOP_TEST(what_cannot_be_waited_for_is_an_error),
        LOOP_TEST(timers_fire_once_in_the_order_of_their_times),
        LOOP_TEST(a_timer_can_be_moved_and_cleared_by_another),
        LOOP_TEST(a_timer_that_sets_itself_at_once_does_not_keep_descriptors_waiting),
        LOOP_TEST(a_span_without_end_is_never_over),
        LOOP_TEST(a_timer_without_memory_is_refused_and_nothing_is_changed),
        LOOP_TEST(a_timer_that_was_cleared_leaves_its_place_to_the_next),
        LOOP_TEST(posts_of_many_threads_are_run_each_in_its_order),
        LOOP_TEST(a_post_that_posts_itself_does_not_keep_the_timers_waiting),
        LOOP_TEST(posts_behind_a_stop_wait_for_the_next_run),
        cmocka_unit_test(posts_that_were_not_run_are_dropped_with_the_loop),
        LOOP_TEST(a_signal_does_not_disturb_the_wait),
        cmocka_unit_test(a_loop_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
