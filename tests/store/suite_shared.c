/* suite_shared: two writers of one shared store, each with an index of live jobs in memory.  Only
 * for stores that can be shared. */
#include "store/suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define PATIENCE_MS 60000

/* colleague opens the place's store a second time, as another server does. */
static struct place *colleague(struct place *place)
{
    struct place *other = calloc(1, sizeof(*other));
    assert_non_null(other);
    other->kind = place->kind;
    snprintf(other->directory, sizeof(other->directory), "%s", place->directory);
    assert_ok(other, other->kind->open(other->directory, &other->store, &other->err));
    return other;
}

static void leave(struct place *other)
{
    other->store->close(other->store);
    arena_release(&other->arena);
    free(other);
}

static void refresh(struct place *place)
{
    assert_ok(place, place->store->refresh(place->store, &place->err));
}

static unsigned news(struct place *place)
{
    return place->store->news(place->store);
}

static void lease(struct place *place, struct job *job, const char *worker)
{
    job->state = JOB_RUNNING;
    job->due_at = at(NOON + HOUR);
    update(place, job, worker);
}

/* ---- what the other sees ----------------------------------------------------------------------
 */

static void what_one_writes_the_other_has_in_its_turn(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct job job = push(place, "q", "a"), found;
    begin(other);
    assert_string_equal(ready(other, "q", NULL, 9), "a");
    assert_true(live(other, job.seq, &found));
    assert_memory_equal(&found, &job, sizeof(job));
    lease(other, &found, "w");
    insert(other, job_on(other, "q", "b"), "b");
    commit(other);
    begin(place);
    assert_string_equal(ready(place, NULL, NULL, 9), "b");
    struct slice worker;
    assert_ok(place,
              place->store->job_worker(place->store, job.seq, &place->arena, &worker, &place->err));
    assert_slice(worker, "w");
    assert_true(live(place, job.seq, &job));
    finish(place, job, "a", NOON);
    commit(place);
    begin(other);
    assert_false(live(other, job.seq, NULL));
    assert_int_equal(other->store->live_count(other->store), 1);
    rollback(other);
    leave(other);
}

static void a_refresh_shows_what_others_did_without_a_turn(void **state)
{
    struct place *place = *state, *other = colleague(place);
    push(place, "q", "a");
    assert_string_equal(ready(other, NULL, NULL, 9), "");
    refresh(other);
    assert_string_equal(ready(other, NULL, NULL, 9), "a");
    leave(other);
}

static void a_rollback_leaves_nothing_for_the_other(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct job a = push(place, "q", "a");
    begin(place);
    insert(place, job_on(place, "q", "b"), "b");
    lease(place, &a, "w");
    rollback(place);
    refresh(other);
    assert_string_equal(ready(other, NULL, NULL, 9), "a");
    assert_string_equal(ready(place, NULL, NULL, 9), "a");
    leave(other);
}

static void many_turns_of_both_leave_both_with_the_same_jobs(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct place *both[] = {place, other};
    for (int i = 0; i < 60; i++) {
        struct place *mine = both[i % 2];
        char id[16];
        struct job jobs[3];
        const struct ready_query any = {0};
        snprintf(id, sizeof(id), "j%d", i);
        begin(mine);
        insert(mine, job_on(mine, i % 3 ? "q" : "r", id), id);
        size_t count = mine->store->ready(mine->store, &any, jobs, 3);
        if (i % 4 == 3)
            lease(mine, &jobs[count - 1], "w");
        else if (i % 5 == 4)
            finish(mine, jobs[0], "x", NOON);
        i % 7 == 6 ? rollback(mine) : commit(mine);
    }
    refresh(place);
    refresh(other);
    const char *seen = ready(place, NULL, NULL, 64);
    assert_string_equal(seen, ready(other, NULL, NULL, 64));
    assert_int_equal(place->store->live_count(place->store),
                     other->store->live_count(other->store));
    reopen(place);
    assert_string_equal(seen, ready(place, NULL, NULL, 64));
    leave(other);
}

static void seqs_and_positions_are_given_once(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct job a = push(place, "q", "a"), b = push(other, "q", "b"), c = push(place, "q", "c");
    assert_true(a.seq < b.seq && b.seq < c.seq);
    assert_true(a.envelope_seq != b.envelope_seq && b.envelope_seq != c.envelope_seq);
    struct letter x = dead(place, "x", NOON), y = dead(other, "y", NOON),
                  z = dead(place, "z", NOON);
    assert_true(x.position != y.position && y.position != z.position && x.position != z.position);
    assert_string_equal(listed(other, (struct letter_filter){.oldest_first = true}), "x y z");
    leave(other);
}

static void a_key_of_one_is_found_by_the_other(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct job found;
    begin(place);
    struct job job = job_on(place, "q", "a");
    job.idempotency_hash = hash64(SLICE("k"));
    struct slice body = SLICE("{\"action\":\"x\",\"job_id\":\"a\",\"idempotency_key\":\"k\"}");
    assert_ok(place, place->store->job_insert(place->store, &job, SLICE("a"), body, &place->err));
    commit(place);
    begin(other);
    assert_true(other->store->job_by_key(other->store, STORE_KEY_IDEMPOTENCY, SLICE("k"),
                                         hash64(SLICE("k")), &found, &other->err));
    assert_true(found.seq == job.seq);
    assert_true(
        other->store->job_by_id(other->store, SLICE("a"), hash64(SLICE("a")), &found, &other->err));
    rollback(other);
    leave(other);
}

static void queues_and_capabilities_have_the_same_numbers(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct place *both[] = {place, other};
    const char *names[] = {"a", "b", "c", "a", "d", "c"};
    uint32_t numbers[2][6], sets[2];
    for (int i = 0; i < 6; i++) {
        begin(both[i % 2]);
        assert_ok(both[i % 2],
                  both[i % 2]->store->queue_number(both[i % 2]->store, slice_of(names[i]),
                                                   &numbers[0][i], &both[i % 2]->err));
        commit(both[i % 2]);
    }
    const struct slice gpu[] = {SLICE("gpu"), SLICE("linux")};
    for (int i = 0; i < 2; i++) {
        struct store *store = both[i]->store;
        begin(both[i]);
        for (int n = 0; n < 6; n++)
            assert_ok(both[i], store->queue_number(store, slice_of(names[n]), &numbers[1][n],
                                                   &both[i]->err));
        assert_memory_equal(numbers[0], numbers[1], sizeof(numbers[0]));
        assert_ok(both[i], store->capabilities_number(store, gpu, 2, &sets[i], &both[i]->err));
        commit(both[i]);
    }
    assert_int_equal(sets[0], sets[1]);
    leave(other);
}

static void a_queue_that_one_pauses_is_paused_for_the_other(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct job job = push(place, "q", "a");
    begin(place);
    assert_ok(place, place->store->queue_pause(place->store, job.queue, true, &place->err));
    commit(place);
    begin(other);
    assert_true(other->store->queue_paused(other->store, job.queue));
    assert_string_equal(ready(other, "q", NULL, 9), "");
    assert_ok(other, other->store->queue_pause(other->store, job.queue, false, &other->err));
    commit(other);
    refresh(place);
    assert_string_equal(ready(place, "q", NULL, 9), "a");
    leave(other);
}

static void the_events_of_both_are_one_chain(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct place *both[] = {place, other};
    struct event *events;
    struct hash hash = {{0}};
    size_t count;
    for (int i = 0; i < 10; i++) {
        struct place *mine = both[i % 2];
        struct event event = {.at = at(NOON), .actor = SLICE("a"), .what = SLICE("w")};
        begin(mine);
        assert_ok(mine, mine->store->event_append(mine->store, &event, &mine->err));
        assert_true(event.seq == i + 1);
        commit(mine);
    }
    assert_ok(place, place->store->event_list(place->store, 0, 64, &place->arena, &events, &count,
                                              &place->err));
    assert_int_equal(count, 10);
    for (size_t i = 0; i < count; i++) {
        hash = event_hash(&events[i], hash);
        assert_memory_equal(&hash, &events[i].hash, sizeof(hash));
    }
    leave(other);
}

/* ---- news ------------------------------------------------------------------------------------ */

static void news_is_what_others_changed_and_nothing_of_ones_own(void **state)
{
    struct place *place = *state, *other = colleague(place);
    int64_t version;
    news(place), news(other);
    push(place, "q", "a");
    assert_int_equal(news(place) & (STORE_NEWS_JOBS | STORE_NEWS_POLICIES), 0);
    refresh(other);
    assert_true(news(other) & STORE_NEWS_JOBS);
    assert_int_equal(news(other), 0);
    begin(place);
    assert_ok(place, place->store->policy_put(place->store, SLICE("p"), SLICE("{}"), at(NOON),
                                              &version, &place->err));
    commit(place);
    begin(other);
    assert_true(news(other) & STORE_NEWS_POLICIES);
    rollback(other);
    leave(other);
}

static void woken(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void a_commit_wakes_those_who_listen(void **state)
{
    struct place *place = *state, *other = colleague(place);
    static atomic_int calls;
    other->store->listen(other->store, woken, &calls);
    int before = atomic_load(&calls);
    push(place, "q", "a");
    for (int ms = 0; atomic_load(&calls) == before && ms < PATIENCE_MS; ms += 5)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    assert_true(atomic_load(&calls) > before);
    leave(other);
}

/* ---- the turn -------------------------------------------------------------------------------- */

struct turn {
    struct place *place;
    atomic_bool asks, has;
};

static void *take_turn(void *arg)
{
    struct turn *turn = arg;
    atomic_store(&turn->asks, true);
    if (turn->place->store->begin(turn->place->store, &turn->place->err) == STATUS_OK)
        atomic_store(&turn->has, true);
    return NULL;
}

static void one_has_the_turn_and_the_other_waits_for_its_commit(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct turn turn = {.place = other};
    pthread_t thread;
    begin(place);
    insert(place, job_on(place, "q", "a"), "a");
    assert_int_equal(pthread_create(&thread, NULL, take_turn, &turn), 0);
    while (!atomic_load(&turn.asks))
        sched_yield();
    for (int i = 0; i < 100; i++) { /* it would have had it by then */
        assert_false(atomic_load(&turn.has));
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    commit(place);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&turn.has));
    assert_string_equal(ready(other, NULL, NULL, 9), "a");
    rollback(other);
    leave(other);
}

struct pusher {
    struct place *place;
    const char *name;
    bool failed;
};

static void *push_many(void *arg)
{
    struct pusher *pusher = arg;
    struct store *store = pusher->place->store;
    struct err *err = &pusher->place->err;
    for (int i = 0; i < 50 && !pusher->failed; i++) {
        char id[32];
        struct job job = {.pushed_at = at(NOON), .due_at = at(NOON), .deadline_at = INSTANT_NEVER};
        snprintf(id, sizeof(id), "%s%d", pusher->name, i);
        job.id_hash = hash64(slice_of(id));
        pusher->failed = store->begin(store, err) ||
                         store->queue_number(store, SLICE("q"), &job.queue, err) ||
                         store->job_insert(store, &job, slice_of(id), SLICE("{}"), err) ||
                         store->commit(store, err);
    }
    return NULL;
}

static void turns_of_two_threads_at_once_lose_nothing(void **state)
{
    struct place *place = *state, *other = colleague(place);
    struct pusher pushers[] = {{place, "a", false}, {other, "b", false}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, push_many, &pushers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        if (pushers[i].failed)
            print_error("%s\n", pushers[i].place->err.text);
        assert_false(pushers[i].failed);
        refresh(pushers[i].place);
        assert_int_equal(pushers[i].place->store->live_count(pushers[i].place->store), 100);
    }
    leave(other);
}

struct cases shared_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(what_one_writes_the_other_has_in_its_turn),
        CASE(a_refresh_shows_what_others_did_without_a_turn),
        CASE(a_rollback_leaves_nothing_for_the_other),
        CASE(many_turns_of_both_leave_both_with_the_same_jobs),
        CASE(seqs_and_positions_are_given_once),
        CASE(a_key_of_one_is_found_by_the_other),
        CASE(queues_and_capabilities_have_the_same_numbers),
        CASE(a_queue_that_one_pauses_is_paused_for_the_other),
        CASE(the_events_of_both_are_one_chain),
        CASE(news_is_what_others_changed_and_nothing_of_ones_own),
        CASE(a_commit_wakes_those_who_listen),
        CASE(one_has_the_turn_and_the_other_waits_for_its_commit),
        CASE(turns_of_two_threads_at_once_lose_nothing),
    };
    return CASES(tests);
}
