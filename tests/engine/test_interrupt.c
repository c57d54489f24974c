/* Runs that were cut off with who ran them: what they cost the job, and how a worker says so. */
#include "engine/fixture.h"

#include "core/reason.h"

#define WORLD(state) struct world *world = *(state)
#define TIMEOUT_FAILURE "{\"class\":\"timeout\",\"message\":\"timed out after 30 s\"}"
#define CUT_OFF "{\"message\":\"stopped by Ctrl-C\",\"interrupted\":true}"
#define TWO_RUNS                                                                                   \
    "\"retry_policy\":{\"max_attempts\":2,\"backoff_strategy\":\"fixed\",\"initial_delay_"         \
    "seconds\":10,"                                                                                \
    "\"jitter\":false}"
#define JOB_J "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}"

static void push_many(struct world *world, size_t count)
{
    struct push_item *items = arena_array(&world->arena, count, sizeof(*items));
    struct push_command command = {.items = items, .count = count};
    for (size_t i = 0; i < count; i++) {
        struct slice body =
            arena_printf(&world->arena, "{\"action\":\"a\",\"job_id\":\"m%zu\"}", i);
        assert_int_equal(envelope_parse(body, ENVELOPE_BODY_MAX, &world->arena, &items[i].envelope,
                                        &items[i].err),
                         STATUS_OK);
    }
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
}

/* take leases up to `max` jobs for a worker. */
static struct lease_command take(struct world *world, const char *worker, size_t max)
{
    struct lease_command command = {.worker_id = slice_of(worker), .max = max};
    assert_int_equal(run(world, &command.command, COMMAND_LEASE), STATUS_OK);
    return command;
}

static struct lease take_one(struct world *world, const char *worker)
{
    struct lease_command command = take(world, worker, 1);
    assert_int_equal(command.count, 1);
    return command.leases[0];
}

static void start(struct world *world, const char *worker, const struct lease *lease)
{
    struct heartbeat_item item = {.lease_id = slice_of(lease->lease_id)};
    struct heartbeat_command command = {.worker_id = slice_of(worker), .items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_HEARTBEAT), STATUS_OK);
    assert_int_equal(item.outcome, HEARTBEAT_EXTENDED);
}

/* interrupt says that a worker was cut off; the answer is how many leases that ended, in all its
 * pages. */
static size_t interrupt(struct world *world, const char *worker, const char *message)
{
    struct interrupt_command command = {.worker_id = slice_of(worker),
                                        .message = slice_of(message)};
    size_t total = 0;
    do {
        assert_int_equal(run(world, &command.command, COMMAND_INTERRUPT), STATUS_OK);
        total += command.interrupted;
    } while (command.more);
    return total;
}

struct evidence {
    int64_t job_seq;
    struct attempt_record *records;
    size_t count;
};

static enum status read_evidence(struct engine *engine, struct store *store, void *ctx,
                                 struct arena *arena, struct err *err)
{
    struct evidence *evidence = ctx;
    (void)engine;
    return store->attempt_list(store, evidence->job_seq, arena, &evidence->records,
                               &evidence->count, err);
}

/* recorded is a member of the evidence of a job's last failed attempt, as JSON. */
static const char *recorded(struct world *world, const char *job_id, const char *member)
{
    struct evidence evidence = {.job_seq = job(world, job_id).job.seq};
    struct read_command read = {.read = read_evidence, .ctx = &evidence};
    struct json record, value;
    assert_int_equal(run(world, &read.command, COMMAND_READ), STATUS_OK);
    assert_true(evidence.count > 0);
    assert_int_equal(json_parse(evidence.records[evidence.count - 1].failure, &record, NULL),
                     STATUS_OK);
    json_get(record, member, &value);
    return arena_printf(&world->arena, "%.*s", SLICE_ARG(value.raw)).ptr;
}

/* ---- what it costs the job ------------------------------------------------------------------- */

static void an_interrupted_run_is_retried_at_once_and_uses_up_no_attempt(void **state)
{
    WORLD(state);
    push(world, JOB_J);
    for (uint32_t n = 1; n <= 3; n++) {
        struct lease taken = lease(world, NULL);
        assert_int_equal(taken.attempt, n);
        struct result_item result = report_failed(world, &taken, CUT_OFF);
        assert_int_equal(result.state, JOB_SCHEDULED);
        assert_int_equal(result.next_retry_at.us, world->wall.us);
        struct job now = job(world, "J").job;
        assert_int_equal(now.attempt, n);
        assert_int_equal(now.attempt_base, n);
    }
    assert_string_equal(recorded(world, "J", "interrupted"), "true");
    assert_string_equal(recorded(world, "J", "class"), "\"crashed\"");
    assert_non_null(strstr(recorded(world, "J", "decision"), "\"rule\":\"interrupted\""));

    /* Both attempts of the policy are still there. */
    struct lease taken = lease(world, NULL);
    assert_int_equal(taken.attempt, 4);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_SCHEDULED);
    world_pass(world, 10000);
    taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, TIMEOUT_FAILURE);
    assert_int_equal(result.state, JOB_DEAD);
    struct letter found = letter(world, result.dlq_id);
    assert_int_equal(found.failure_count, 5);
    assert_int_equal(found.max_attempts, 2);
    assert_string_equal(what_happened(world, "J"),
                        "pushed leased retry-scheduled leased retry-scheduled leased "
                        "retry-scheduled leased retry-scheduled leased dead-lettered");
    assert_chain_holds(world);
}

static void a_waiting_worker_gets_an_interrupted_job_without_any_delay(void **state)
{
    WORLD(state);
    push(world, JOB_J);
    struct lease taken = lease(world, NULL);
    report_failed(world, &taken, CUT_OFF);
    assert_int_equal(engine_next_wake(world->engine).us, world->wall.us);
    assert_int_equal(lease_count(world, NULL), 1);
}

/* interrupt_times has the job interrupted so many times, each of which does not count. */
static void interrupt_times(struct world *world, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        struct lease taken = lease(world, NULL);
        struct result_item result = report_failed(world, &taken, CUT_OFF);
        assert_int_equal(result.state, JOB_SCHEDULED);
        assert_int_equal(result.next_retry_at.us, world->wall.us);
    }
}

static void the_tenth_interruption_in_a_row_counts_as_a_crash(void **state)
{
    WORLD(state);
    push(world, JOB_J);
    interrupt_times(world, 9);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, CUT_OFF);
    assert_int_equal(result.state, JOB_SCHEDULED);
    assert_int_equal(result.next_retry_at.us, world->wall.us + 10000000);
    world_reopen(world);
    world_pass(world, 10000);
    taken = lease(world, NULL);
    result = report_failed(world, &taken, CUT_OFF);
    assert_int_equal(result.state, JOB_DEAD);
    assert_true(slice_is(letter(world, result.dlq_id).reason, REASON_AGENT_CRASHED));
    assert_int_equal(letter(world, result.dlq_id).failure_count, 11);
}

static void another_failure_ends_the_row_of_interruptions(void **state)
{
    WORLD(state);
    push(world, JOB_J);
    interrupt_times(world, 9);
    struct lease taken = lease(world, NULL);
    report_failed(world, &taken, TIMEOUT_FAILURE);
    world_pass(world, 10000);
    interrupt_times(world, 9);
    taken = lease(world, NULL);
    assert_int_equal(taken.attempt, 20);
    assert_int_equal(report_failed(world, &taken, CUT_OFF).state, JOB_DEAD);
}

static void a_replay_begins_with_no_interruptions_behind_it(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"retry_policy\":{\"max_attempts\":1}}");
    interrupt_times(world, 9);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, CUT_OFF);
    assert_int_equal(result.state, JOB_DEAD);
    assert_int_equal(review(world, REVIEW_RETRY, result.dlq_id).status, STATUS_OK);
    interrupt_times(world, 9);
    taken = lease(world, NULL);
    assert_int_equal(report_failed(world, &taken, CUT_OFF).state, JOB_DEAD);
}

static void a_cancelled_job_that_is_interrupted_does_not_come_back(void **state)
{
    WORLD(state);
    push(world, JOB_J);
    struct lease taken = lease(world, NULL);
    struct cancel_command cancel = {.job_id = SLICE("J")};
    assert_int_equal(run(world, &cancel.command, COMMAND_CANCEL), STATUS_OK);
    assert_int_equal(report_failed(world, &taken, CUT_OFF).state, JOB_CANCELLED);
}

static void side_effects_are_not_repeated_because_of_an_interruption(void **state)
{
    WORLD(state);
    push(world, JOB_J);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(
        world, &taken,
        "{\"message\":\"stopped\",\"interrupted\":true,\"side_effects\":\"unknown\"}");
    assert_int_equal(result.state, JOB_DEAD);
    assert_true(slice_is(letter(world, result.dlq_id).reason, REASON_NOT_IDEMPOTENT));
}

/* ---- a worker that was cut off --------------------------------------------------------------- */

static void the_leases_of_a_worker_that_was_cut_off_end_and_others_stay(void **state)
{
    WORLD(state);
    push_many(world, 7);
    struct lease_command ours = take(world, "us", 4), theirs = take(world, "them", 3);
    start(world, "us", &ours.leases[0]);
    assert_int_equal(interrupt(world, "us", ""), 4);
    assert_string_equal(recorded(world, "m0", "error_message"),
                        "\"the runner was cut off while the job was running\"");
    assert_string_equal(
        recorded(world, "m1", "error_message"),
        "\"the runner was cut off when it had taken the job: the command may have begun\"");
    assert_string_equal(recorded(world, "m1", "agent_id"), "\"us\"");
    assert_string_equal(recorded(world, "m1", "error_type"), "\"Unknown\"");
    assert_string_equal(recorded(world, "m1", "class"), "\"crashed\"");
    assert_string_equal(recorded(world, "m1", "interrupted"), "true");
    assert_string_equal(what_happened(world, "m0"), "pushed leased started retry-scheduled");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(complete(world, &ours.leases[i]).status, STATUS_LEASE_LOST);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(complete(world, &theirs.leases[i]).state, JOB_DONE);
    assert_int_equal(interrupt(world, "us", ""), 0);
    struct lease_command again = take(world, "us", 10);
    assert_int_equal(again.count, 4);
    assert_int_equal(again.leases[0].attempt, 2);
    assert_chain_holds(world);
}

static void the_worker_may_say_why_in_its_own_words(void **state)
{
    WORLD(state);
    push_many(world, 1);
    take_one(world, "us");
    assert_int_equal(interrupt(world, "us", "SIGKILL, it seems"), 1);
    assert_string_equal(recorded(world, "m0", "error_message"), "\"SIGKILL, it seems\"");
}

static void leases_are_known_to_be_a_workers_after_a_restart(void **state)
{
    WORLD(state);
    push_many(world, 3);
    take(world, "us", 2);
    take(world, "them", 1);
    world_reopen(world);
    assert_int_equal(interrupt(world, "us", ""), 2);
    assert_int_equal(job(world, "m2").job.state, JOB_RUNNING);
}

static void many_running_jobs_are_looked_at_in_many_short_commands(void **state)
{
    WORLD(state);
    struct lease_command first, last;
    push_many(world, 2502);
    first = take(world, "us", 1);
    assert_int_equal(take(world, "them", 1000).count, 1000);
    assert_int_equal(take(world, "them", 1000).count, 1000);
    assert_int_equal(take(world, "them", 500).count, 500);
    last = take(world, "us", 1);

    struct interrupt_command command = {.worker_id = SLICE("us")};
    size_t ended[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(run(world, &command.command, COMMAND_INTERRUPT), STATUS_OK);
        ended[i] = command.interrupted;
        assert_int_equal(command.more, i < 2);
    }
    assert_int_equal(ended[0], 1);
    assert_int_equal(ended[1], 0);
    assert_int_equal(ended[2], 1);
    assert_int_equal(complete(world, &first.leases[0]).status, STATUS_LEASE_LOST);
    assert_int_equal(complete(world, &last.leases[0]).status, STATUS_LEASE_LOST);
    assert_int_equal(job(world, "m1000").job.state, JOB_RUNNING);
}

static void a_worker_without_a_name_is_refused(void **state)
{
    WORLD(state);
    struct interrupt_command command = {0};
    assert_int_equal(run(world, &command.command, COMMAND_INTERRUPT), STATUS_INVALID);
    assert_non_null(strstr(command.command.err.text, "worker_id"));
}

static void a_job_that_keeps_killing_its_runner_is_quarantined(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"retry_policy\":{\"max_attempts\":1}}");
    for (int i = 0; i < 10; i++) {
        take_one(world, "us");
        assert_int_equal(interrupt(world, "us", ""), 1);
    }
    struct job_row row = job(world, "J");
    assert_int_equal(row.job.state, JOB_DEAD);
    assert_true(slice_is(letter(world, row.dlq_id).reason, REASON_AGENT_CRASHED));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_interrupted_run_is_retried_at_once_and_uses_up_no_attempt),
        TEST(a_waiting_worker_gets_an_interrupted_job_without_any_delay),
        TEST(the_tenth_interruption_in_a_row_counts_as_a_crash),
        TEST(another_failure_ends_the_row_of_interruptions),
        TEST(a_replay_begins_with_no_interruptions_behind_it),
        TEST(a_cancelled_job_that_is_interrupted_does_not_come_back),
        TEST(side_effects_are_not_repeated_because_of_an_interruption),
        TEST(the_leases_of_a_worker_that_was_cut_off_end_and_others_stay),
        TEST(the_worker_may_say_why_in_its_own_words),
        TEST(leases_are_known_to_be_a_workers_after_a_restart),
        TEST(many_running_jobs_are_looked_at_in_many_short_commands),
        TEST(a_worker_without_a_name_is_refused),
        TEST(a_job_that_keeps_killing_its_runner_is_quarantined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
