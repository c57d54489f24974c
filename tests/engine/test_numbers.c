/* What the engine counts: by itself, and on the real store with a disk that fails. */
#include "engine/fixture.h"

#include <sqlite3.h>

#include "base/mem.h"
#include "engine/numbers.h"
#include "store/faulty.h"

#define WORLD(state) struct world *world = *(state)
#define INPUT_FAILURE "{\"class\":\"invalid_input\",\"message\":\"no such field\"}"
#define TIMEOUT_FAILURE "{\"class\":\"timeout\",\"message\":\"timed out after 30 s\"}"

/* ---- looking --------------------------------------------------------------------------------- */

static struct numbers_report report(struct world *world)
{
    struct numbers_report out;
    struct err err = {0};
    assert_int_equal(engine_report(world->engine, &world->arena, &out, &err), STATUS_OK);
    return out;
}

static uint64_t attempts(const struct numbers_report *report, const char *queue,
                         enum attempt_outcome outcome)
{
    uint64_t count = 0, rows = 0;
    for (size_t i = 0; i < report->attempt_count; i++) {
        if (slice_is(report->attempts[i].queue, queue)) {
            count += report->attempts[i].by_outcome[outcome];
            rows++;
        }
    }
    assert_true(rows <= 1); /* a name stands once */
    return count;
}

static uint64_t retries(const struct numbers_report *report, const char *policy)
{
    uint64_t count = 0, rows = 0;
    for (size_t i = 0; i < report->retry_count; i++) {
        if (slice_is(report->retries[i].name, policy)) {
            count += report->retries[i].count;
            rows++;
        }
    }
    assert_true(rows <= 1);
    return count;
}

static uint64_t deaths(const struct numbers_report *report, const char *reason, const char *source)
{
    uint64_t count = 0, rows = 0;
    for (size_t i = 0; i < report->death_count; i++) {
        if (slice_is(report->deaths[i].name, reason) &&
            slice_is(report->deaths[i].source, source)) {
            count += report->deaths[i].count;
            rows++;
        }
    }
    assert_true(rows <= 1);
    return count;
}

static uint64_t observed(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= histogram->bound_count; i++)
        count += histogram->buckets[i];
    return count;
}

static uint64_t batches_failed(struct world *world)
{
    struct engine_numbers numbers;
    engine_numbers(world->engine, &numbers);
    return numbers.batches_failed;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void attempts_are_counted_by_queue_and_outcome(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"queue\":\"mail\"}");
    push(world, "{\"action\":\"a\",\"queue\":\"mail\"}");
    push(world, "{\"action\":\"a\",\"queue\":\"print\"}");
    struct lease first = lease(world, "mail"), second = lease(world, "mail");
    struct lease third = lease(world, "print");
    assert_int_equal(report(world).attempt_count, 0); /* none has ended */
    complete(world, &first);
    report_failed(world, &second, TIMEOUT_FAILURE);
    report_failed(world, &third, INPUT_FAILURE);
    struct numbers_report counted = report(world);
    assert_int_equal(counted.attempt_count, 2);
    assert_int_equal(attempts(&counted, "mail", ATTEMPT_COMPLETE), 1);
    assert_int_equal(attempts(&counted, "mail", ATTEMPT_FAILED), 1);
    assert_int_equal(attempts(&counted, "mail", ATTEMPT_CRASHED), 0);
    assert_int_equal(attempts(&counted, "print", ATTEMPT_FAILED), 1);
    assert_int_equal(counted.lease_expired, 0);
}

static void a_lease_that_expires_is_a_crashed_attempt(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"queue\":\"mail\"}");
    lease(world, "mail");
    world_pass(world, 3600 * 1000);
    struct numbers_report counted = report(world);
    assert_int_equal(attempts(&counted, "mail", ATTEMPT_CRASHED), 1);
    assert_int_equal(attempts(&counted, "mail", ATTEMPT_FAILED), 0);
    assert_int_equal(counted.lease_expired, 1);
}

static void a_lease_that_is_given_back_is_no_attempt(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\"}");
    struct lease taken = lease(world, NULL);
    struct release_item item = {.lease_id = slice_of(taken.lease_id)};
    struct release_command release = {.items = &item, .count = 1};
    assert_int_equal(run(world, &release.command, COMMAND_RELEASE), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    assert_int_equal(report(world).attempt_count, 0);
}

static void retries_are_counted_by_policy(void **state)
{
    WORLD(state);
    const char *const envelopes[] = {
        "{\"action\":\"a\",\"queue\":\"q\",\"retry_policy\":\"map\"}",
        "{\"action\":\"a\",\"queue\":\"q\",\"retry_policy\":\"map\"}",
        "{\"action\":\"a\",\"queue\":\"q\",\"retry_policy\":{\"max_attempts\":9}}",
    };
    for (size_t i = 0; i < 3; i++) {
        push(world, envelopes[i]);
        struct lease taken = lease(world, "q");
        assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_SCHEDULED);
    }
    struct numbers_report counted = report(world);
    assert_int_equal(counted.retry_count, 2);
    assert_int_equal(retries(&counted, "map"), 2);
    assert_int_equal(retries(&counted, "inline"), 1);
    assert_int_equal(counted.death_count, 0);
}

static void deaths_are_counted_by_reason_and_source(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"source\":\"warren\"}");
    struct lease taken = lease(world, NULL);
    struct slice dlq_id = report_failed(world, &taken, INPUT_FAILURE).dlq_id;
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_OK);
    taken = lease(world, NULL);
    report_failed(world, &taken, INPUT_FAILURE); /* back to its letter: another death */
    push(world, "{\"action\":\"a\"}");
    taken = lease(world, NULL);
    report_failed(world, &taken, INPUT_FAILURE);
    struct numbers_report counted = report(world);
    assert_int_equal(counted.death_count, 2);
    assert_int_equal(deaths(&counted, "not_retryable", "warren"), 2);
    assert_int_equal(deaths(&counted, "not_retryable", "lazaret"), 1);
}

static void a_letter_from_elsewhere_is_a_death_once(void **state)
{
    WORLD(state);
    for (int i = 0; i < 2; i++) {
        struct import_item item = {.letter = {.dlq_id = SLICE("D"),
                                              .reason = SLICE("crash_loop"),
                                              .source = SLICE("warren"),
                                              .original_subject = SLICE("s"),
                                              .foreign = true},
                                   .body = SLICE("{}")};
        struct import_command import = {.items = &item, .count = 1};
        assert_int_equal(run(world, &import.command, COMMAND_IMPORT), STATUS_OK);
        assert_int_equal(item.status, STATUS_OK);
        assert_int_equal(item.created, i == 0);
    }
    struct numbers_report counted = report(world);
    assert_int_equal(deaths(&counted, "crash_loop", "warren"), 1);
}

static void a_batch_is_as_large_as_the_jobs_that_it_wrote(void **state)
{
    WORLD(state);
    struct push_item items[7] = {0};
    struct push_command many = {.items = items, .count = 7};
    struct err err;
    for (size_t i = 0; i < many.count; i++)
        assert_int_equal(envelope_parse(SLICE("{\"action\":\"a\"}"), ENVELOPE_BODY_MAX,
                                        &world->arena, &items[i].envelope, &err),
                         STATUS_OK);
    assert_int_equal(run(world, &many.command, COMMAND_PUSH), STATUS_OK);
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    struct queue_command pause = {.queue = SLICE("default"), .paused = true};
    assert_int_equal(run(world, &pause.command, COMMAND_QUEUE), STATUS_OK);
    struct numbers_report counted = report(world);
    assert_int_equal(counted.commit_jobs.bounds[0], 1);
    assert_int_equal(counted.commit_jobs.bounds[3], 10);
    assert_int_equal(counted.commit_jobs.buckets[0], 2); /* the lease and the result */
    assert_int_equal(counted.commit_jobs.buckets[3], 1); /* the seven */
    assert_int_equal(counted.commit_jobs.sum, 9);
    assert_int_equal(observed(&counted.commit_jobs), 3);
    assert_int_equal(observed(&counted.commit_us), 4); /* the pause too */
}

static void reads_commit_nothing(void **state)
{
    WORLD(state);
    engine_step(world->engine);
    assert_int_equal(report(world).events, 0);
    struct numbers_report counted = report(world);
    assert_int_equal(observed(&counted.commit_us), 0);
}

static int faulty_setup(void **state)
{
    int status = world_setup(state);
    if (status)
        return status;
    WORLD(state);
    world->seams.vfs = FAULTY_VFS;
    world_reopen(world);
    return 0;
}

static int faulty_teardown(void **state)
{
    faulty = (struct faulty){0};
    return world_teardown(state);
}

static void a_batch_that_is_rolled_back_counts_nothing(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"queue\":\"mail\"}");
    push(world, "{\"action\":\"a\",\"queue\":\"mail\",\"retry_policy\":\"map\"}");
    struct lease first = lease(world, "mail"), second = lease(world, "mail");
    struct numbers_report before = report(world);

    struct result_item items[] = {
        {.lease_id = slice_of(first.lease_id), .failed = true},
        {.lease_id = slice_of(second.lease_id), .failed = true},
    };
    struct json json;
    struct err err;
    assert_int_equal(json_parse(SLICE(INPUT_FAILURE), &json, &err), STATUS_OK);
    assert_int_equal(failure_parse(json, &world->arena, &items[0].failure, &err), STATUS_OK);
    assert_int_equal(json_parse(SLICE(TIMEOUT_FAILURE), &json, &err), STATUS_OK);
    assert_int_equal(failure_parse(json, &world->arena, &items[1].failure, &err), STATUS_OK);
    struct resolve_command resolve = {.items = items, .count = 2};

    faulty.write = SQLITE_FULL;
    assert_int_equal(run(world, &resolve.command, COMMAND_RESOLVE), STATUS_FULL);
    faulty.write = 0;
    struct numbers_report after = report(world);
    assert_int_equal(batches_failed(world), 1);
    assert_int_equal(after.attempt_count, 0);
    assert_int_equal(after.retry_count, 0);
    assert_int_equal(after.death_count, 0);
    assert_int_equal(after.events, before.events);
    assert_int_equal(observed(&after.commit_us), observed(&before.commit_us));
    assert_int_equal(observed(&after.commit_jobs), observed(&before.commit_jobs));

    /* The same again, on a disk that is well: each counts once. */
    assert_int_equal(run(world, &resolve.command, COMMAND_RESOLVE), STATUS_OK);
    after = report(world);
    assert_int_equal(batches_failed(world), 1);
    assert_int_equal(attempts(&after, "mail", ATTEMPT_FAILED), 2);
    assert_int_equal(retries(&after, "map"), 1);
    assert_int_equal(deaths(&after, "not_retryable", "lazaret"), 1);
    assert_int_equal(after.events, before.events + 2);
    assert_int_equal(after.commit_jobs.sum, before.commit_jobs.sum + 2);
}

/* A queue that a failed batch made does not leave its number's counts to another queue. */
static void a_queue_of_a_rolled_back_batch_lends_its_name_to_no_count(void **state)
{
    WORLD(state);
    struct push_item item = {0};
    struct push_command gone = {.items = &item, .count = 1};
    struct err err;
    assert_int_equal(envelope_parse(SLICE("{\"action\":\"a\",\"queue\":\"gone\"}"),
                                    ENVELOPE_BODY_MAX, &world->arena, &item.envelope, &err),
                     STATUS_OK);
    faulty.write = SQLITE_FULL;
    assert_int_equal(run(world, &gone.command, COMMAND_PUSH), STATUS_FULL);
    faulty.write = 0;
    push(world, "{\"action\":\"a\",\"queue\":\"there\"}");
    struct lease taken = lease(world, "there");
    complete(world, &taken);
    struct numbers_report counted = report(world);
    assert_int_equal(attempts(&counted, "there", ATTEMPT_COMPLETE), 1);
    assert_int_equal(attempts(&counted, "gone", ATTEMPT_COMPLETE), 0);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* struct names: a store that only knows names of queues: "q<number>", and one that is "other". */
struct names {
    struct store store;
    uint32_t other;
    char text[32];
};

static struct slice fake_queue_name(struct store *store, uint32_t queue)
{
    struct names *names = (struct names *)store;
    if (queue == names->other)
        return SLICE("other");
    snprintf(names->text, sizeof(names->text), "q%u", queue);
    return slice_of(names->text);
}

struct bare {
    struct numbers *numbers;
    struct names names;
    struct arena arena;
};

static int bare_setup(void **state)
{
    struct bare *bare = mem_zalloc(sizeof(*bare));
    bare->numbers = numbers_new();
    bare->names.store.queue_name = fake_queue_name;
    *state = bare;
    return bare->numbers ? 0 : -1;
}

static int bare_teardown(void **state)
{
    struct bare *bare = *state;
    numbers_free(bare->numbers);
    arena_release(&bare->arena);
    mem_free(bare);
    return 0;
}

static struct numbers_report bare_report(struct bare *bare)
{
    struct numbers_report out;
    struct err err = {0};
    assert_int_equal(numbers_report(bare->numbers, &bare->names.store, &bare->arena, &out, &err),
                     STATUS_OK);
    return out;
}

static void past_the_limit_queues_are_counted_together(void **state)
{
    struct bare *bare = *state;
    for (uint32_t queue = 1; queue <= NUMBERS_NAMES_MAX + 5; queue++)
        numbers_attempt(bare->numbers, queue, ATTEMPT_COMPLETE);
    numbers_attempt(bare->numbers, UINT32_MAX, ATTEMPT_CRASHED); /* a number past all bounds */
    numbers_attempt(bare->numbers, 7, ATTEMPT_COMPLETE);         /* one that has its place */
    numbers_commit(bare->numbers, (struct span){1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(counted.attempt_count, NUMBERS_NAMES_MAX + 1);
    assert_int_equal(attempts(&counted, "q7", ATTEMPT_COMPLETE), 2);
    assert_int_equal(attempts(&counted, "other", ATTEMPT_COMPLETE), 5);
    assert_int_equal(attempts(&counted, "other", ATTEMPT_CRASHED), 1);
    assert_int_equal(counted.lease_expired, 1);
}

static void past_the_limit_names_are_counted_together(void **state)
{
    struct bare *bare = *state;
    char name[32];
    for (int i = 0; i < NUMBERS_NAMES_MAX + 3; i++) {
        snprintf(name, sizeof(name), "name%d", i);
        numbers_death(bare->numbers, slice_of(name), SLICE("s"));
        numbers_retry(bare->numbers, slice_of(name));
    }
    numbers_death(bare->numbers, SLICE("other"), SLICE("other"));
    numbers_retry(bare->numbers, SLICE("other"));
    numbers_commit(bare->numbers, (struct span){1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(counted.death_count, NUMBERS_NAMES_MAX + 1);
    assert_int_equal(counted.retry_count, NUMBERS_NAMES_MAX + 1);
    assert_int_equal(deaths(&counted, "other", "other"), 4);
    assert_int_equal(retries(&counted, "other"), 4);
    assert_int_equal(deaths(&counted, "name0", "s"), 1);
}

static void a_queue_that_is_called_other_is_one_of_them(void **state)
{
    struct bare *bare = *state;
    bare->names.other = 3;
    numbers_attempt(bare->numbers, 3, ATTEMPT_COMPLETE);
    numbers_attempt(bare->numbers, UINT32_MAX, ATTEMPT_COMPLETE);
    numbers_commit(bare->numbers, (struct span){1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(counted.attempt_count, 1);
    assert_int_equal(attempts(&counted, "other", ATTEMPT_COMPLETE), 2);
}

static void a_long_name_is_cut_between_two_characters(void **state)
{
    struct bare *bare = *state;
    char text[NUMBERS_NAME_BYTES_MAX + 8];
    memset(text, 'x', sizeof(text));
    memcpy(text + NUMBERS_NAME_BYTES_MAX - 1, "\xC3\xA9", 2); /* é across the limit */
    struct slice name = numbers_name((struct slice){text, sizeof(text)});
    assert_int_equal(name.len, NUMBERS_NAME_BYTES_MAX - 1);
    numbers_death(bare->numbers, (struct slice){text, sizeof(text)}, SLICE(""));
    text[sizeof(text) - 1] = 'y'; /* what is cut off makes no other name */
    numbers_death(bare->numbers, (struct slice){text, sizeof(text)}, SLICE(""));
    numbers_commit(bare->numbers, (struct span){1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(counted.death_count, 1);
    assert_int_equal(counted.deaths[0].count, 2);
}

static void names_do_not_run_into_each_other(void **state)
{
    struct bare *bare = *state;
    numbers_death(bare->numbers, SLICE("ab"), SLICE("c"));
    numbers_death(bare->numbers, SLICE("a"), SLICE("bc"));
    numbers_commit(bare->numbers, (struct span){1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(counted.death_count, 2);
    assert_int_equal(deaths(&counted, "ab", "c"), 1);
}

static void without_memory_names_are_counted_together(void **state)
{
    struct bare *bare = *state;
    mem_fail_after(1);
    numbers_attempt(bare->numbers, 1, ATTEMPT_COMPLETE);
    mem_fail_after(1);
    numbers_death(bare->numbers, SLICE("r"), SLICE("s"));
    mem_fail_after(0);
    numbers_commit(bare->numbers, (struct span){1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(attempts(&counted, "other", ATTEMPT_COMPLETE), 1);
    assert_int_equal(deaths(&counted, "other", "other"), 1);
}

static void durations_fall_into_their_buckets(void **state)
{
    struct bare *bare = *state;
    const struct numbers_report empty = bare_report(bare);
    const struct histogram *us = &empty.commit_us;
    size_t last = us->bound_count;
    int64_t top = us->bounds[last - 1];
    for (size_t i = 1; i < last; i++)
        assert_true(us->bounds[i] > us->bounds[i - 1]);
    numbers_commit(bare->numbers, (struct span){0});
    numbers_commit(bare->numbers, (struct span){us->bounds[0]});
    numbers_commit(bare->numbers, (struct span){us->bounds[0] + 1});
    numbers_commit(bare->numbers, (struct span){top});
    numbers_commit(bare->numbers, (struct span){top + 1});
    numbers_commit(bare->numbers, (struct span){-1});
    struct numbers_report counted = bare_report(bare);
    assert_int_equal(counted.commit_us.buckets[0], 3);
    assert_int_equal(counted.commit_us.buckets[1], 1);
    assert_int_equal(counted.commit_us.buckets[last - 1], 1);
    assert_int_equal(counted.commit_us.buckets[last], 1);
    assert_int_equal(counted.commit_us.sum, 2 * counted.commit_us.bounds[0] + 1 + 2 * top + 1);
    assert_int_equal(observed(&counted.commit_jobs), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
#define FAULTY(name) cmocka_unit_test_setup_teardown(name, faulty_setup, faulty_teardown)
#define BARE(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attempts_are_counted_by_queue_and_outcome),
        TEST(a_lease_that_expires_is_a_crashed_attempt),
        TEST(a_lease_that_is_given_back_is_no_attempt),
        TEST(retries_are_counted_by_policy),
        TEST(deaths_are_counted_by_reason_and_source),
        TEST(a_letter_from_elsewhere_is_a_death_once),
        TEST(a_batch_is_as_large_as_the_jobs_that_it_wrote),
        TEST(reads_commit_nothing),
        FAULTY(a_batch_that_is_rolled_back_counts_nothing),
        FAULTY(a_queue_of_a_rolled_back_batch_lends_its_name_to_no_count),
        BARE(past_the_limit_queues_are_counted_together),
        BARE(past_the_limit_names_are_counted_together),
        BARE(a_queue_that_is_called_other_is_one_of_them),
        BARE(a_long_name_is_cut_between_two_characters),
        BARE(names_do_not_run_into_each_other),
        BARE(without_memory_names_are_counted_together),
        BARE(durations_fall_into_their_buckets),
    };
    faulty_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
