/* The engine in virtual time: each rule of the life of a job, on the real store. */
#include "engine/fixture.h"

#include "core/reason.h"

#define WORLD(state) struct world *world = *(state)
#define TIMEOUT_FAILURE "{\"class\":\"timeout\",\"message\":\"timed out after 30 s\"}"
#define INPUT_FAILURE "{\"class\":\"invalid_input\",\"message\":\"no such field\"}"
#define TWO_RUNS                                                                                   \
    "\"retry_policy\":{\"max_attempts\":2,\"backoff_strategy\":\"fixed\",\"initial_delay_"         \
    "seconds\":10,"                                                                                \
    "\"jitter\":false}"

/* dead pushes a job and quarantines it at once; the answer is its dlq_id. */
static struct slice dead(struct world *world, const char *envelope)
{
    assert_int_equal(push(world, envelope).status, STATUS_OK);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, INPUT_FAILURE);
    assert_int_equal(result.state, JOB_DEAD);
    return result.dlq_id;
}

/* ---- push ------------------------------------------------------------------------------------ */

static void push_makes_a_pending_job_with_an_id(void **state)
{
    WORLD(state);
    struct push_item item = push(world, "{\"action\":\"a\"}");
    assert_true(item.created);
    assert_int_equal(item.state, JOB_PENDING);
    assert_int_equal(item.job_id.len, 36);
}

static void the_payload_comes_back_byte_for_byte(void **state)
{
    WORLD(state);
    const char *body = "{ \"action\" : \"a\",\n  \"x\":[1.10, 1e400, \"\\u00e9\"], \"x\":2 }";
    push(world, body);
    struct lease taken = lease(world, "default");
    assert_int_equal(taken.body.len, strlen(body));
    assert_memory_equal(taken.body.ptr, body, strlen(body));
}

static void the_same_id_and_bytes_are_the_same_push(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct push_item again = push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_int_equal(again.status, STATUS_OK);
    assert_false(again.created);
}

static void the_same_id_with_other_bytes_is_a_conflict(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_int_equal(push(world, "{\"action\":\"b\",\"job_id\":\"J\"}").status, STATUS_CONFLICT);
    assert_string_equal(what_happened(world, "J"), "pushed");
}

static void a_finished_job_is_still_known_by_its_id(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    struct push_item again = push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_false(again.created);
    assert_int_equal(again.state, JOB_DONE);
}

static void a_live_key_answers_with_the_job_that_holds_it(void **state)
{
    WORLD(state);
    struct push_item first = push(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    struct push_item second = push(world, "{\"action\":\"b\",\"idempotency_key\":\"K\"}");
    struct push_item other = push(world, "{\"action\":\"b\",\"retry_key\":\"K\"}");
    assert_false(second.created);
    assert_true(slice_eq(first.job_id, second.job_id));
    assert_true(other.created);
}

static void a_dead_job_does_not_block_its_key(void **state)
{
    WORLD(state);
    dead(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    assert_true(push(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}").created);
}

static void a_key_that_is_unique_forever_stays_taken(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"idempotency_key\":\"K\","
                "\"constraints\":{\"unique_forever\":true}}");
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    world_reopen(world);
    struct push_item again = push(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    assert_false(again.created);
    assert_true(slice_is(again.job_id, "J"));
}

static void a_key_for_good_outlives_the_purge_of_its_job(void **state)
{
    WORLD(state);
    struct slice dlq_id =
        dead(world, "{\"action\":\"a\",\"job_id\":\"J\",\"idempotency_key\":\"K\","
                    "\"constraints\":{\"unique_forever\":true}}");
    struct purge_command purge = {.dlq_ids = &dlq_id, .count = 1, .force = true};
    run(world, &purge.command, COMMAND_PURGE);
    struct push_item again = push(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    assert_false(again.created);
    assert_true(slice_is(again.job_id, "J"));
}

static void the_bytes_of_the_push_are_known_after_an_edit(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct review_item item = {.dlq_id = dlq_id};
    struct review_command edit = {.action = REVIEW_RETRY,
                                  .items = &item,
                                  .count = 1,
                                  .merge = SLICE("{\"inputs\":{\"n\":2}}")};
    run(world, &edit.command, COMMAND_REVIEW);
    struct push_item again = push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_int_equal(again.status, STATUS_OK);
    assert_false(again.created);
}

static void an_unknown_policy_is_refused_by_name(void **state)
{
    WORLD(state);
    struct push_item item = push(world, "{\"action\":\"a\",\"retry_policy\":\"nope\"}");
    assert_int_equal(item.status, STATUS_INVALID);
    assert_non_null(strstr(item.err.text, "nope"));
    assert_non_null(strstr(item.err.text, "governed"));
}

static void a_full_house_refuses_new_work_but_takes_results(void **state)
{
    WORLD(state);
    world->config.live_max = 2;
    world_reopen(world);
    push(world, "{\"action\":\"a\"}");
    struct lease taken = lease(world, NULL);
    push(world, "{\"action\":\"a\"}");
    struct push_item third = push(world, "{\"action\":\"a\"}");
    assert_int_equal(third.status, STATUS_LIMIT);
    assert_true(third.retry_after.us > 0);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_SCHEDULED);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void higher_priority_goes_first_then_the_older(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"low\",\"priority\":1}");
    push(world, "{\"action\":\"a\",\"job_id\":\"first\"}");
    push(world, "{\"action\":\"a\",\"job_id\":\"second\"}");
    push(world, "{\"action\":\"a\",\"job_id\":\"high\",\"priority\":9}");
    static const char *const order[] = {"high", "first", "second", "low"};
    for (size_t i = 0; i < 4; i++) {
        struct lease taken = lease(world, NULL);
        assert_true(slice_is(taken.job_id, order[i]));
    }
}

static void a_delayed_job_is_not_leased_before_its_time(void **state)
{
    WORLD(state);
    struct push_item item =
        push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"run_at\":\"2026-02-13T06:23:00Z\"}");
    assert_int_equal(item.state, JOB_SCHEDULED);
    assert_int_equal(lease_count(world, NULL), 0);
    world_pass(world, 59000);
    assert_int_equal(lease_count(world, NULL), 0);
    world_pass(world, 1000);
    assert_int_equal(lease_count(world, NULL), 1);
}

static void a_paused_queue_gives_nothing_until_it_is_resumed(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"queue\":\"q\"}");
    struct queue_command pause = {.queue = SLICE("q"), .paused = true};
    assert_int_equal(run(world, &pause.command, COMMAND_QUEUE), STATUS_OK);
    world_reopen(world);
    assert_int_equal(lease_count(world, "q"), 0);
    struct queue_command resume = {.queue = SLICE("q"), .paused = false};
    assert_int_equal(run(world, &resume.command, COMMAND_QUEUE), STATUS_OK);
    assert_int_equal(lease_count(world, "q"), 1);
}

static void capabilities_must_cover_what_the_job_requires(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"required_capabilities\":[\"gpu\",\"research\"]}");
    struct slice one[] = {SLICE("gpu")};
    struct slice both[] = {SLICE("research"), SLICE("cpu"), SLICE("gpu")};
    struct lease_command poor = {
        .worker_id = SLICE("w"), .query = {.capabilities = one, .capability_count = 1}, .max = 1};
    struct lease_command able = {
        .worker_id = SLICE("w"), .query = {.capabilities = both, .capability_count = 3}, .max = 1};
    run(world, &poor.command, COMMAND_LEASE);
    run(world, &able.command, COMMAND_LEASE);
    assert_int_equal(poor.count, 0);
    assert_int_equal(able.count, 1);
}

/* ---- the end of a run ------------------------------------------------------------------------ */

static void a_completed_job_is_done_and_its_history_is_whole(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    assert_int_equal(job(world, "J").job.state, JOB_DONE);
    assert_string_equal(what_happened(world, "J"), "pushed leased completed");
    assert_chain_holds(world);
}

static void a_failed_run_is_retried_after_the_delay_of_its_policy(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, TIMEOUT_FAILURE);
    assert_int_equal(result.state, JOB_SCHEDULED);
    assert_int_equal(result.next_retry_at.us, world->wall.us + 10000000);
    world_pass(world, 9999);
    assert_int_equal(lease_count(world, NULL), 0);
    world_pass(world, 1);
    taken = lease(world, NULL);
    assert_int_equal(taken.attempt, 2);
}

static void a_job_without_attempts_left_is_quarantined(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct lease taken = lease(world, NULL);
    report_failed(world, &taken, TIMEOUT_FAILURE);
    world_pass(world, 10000);
    taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, TIMEOUT_FAILURE);
    assert_int_equal(result.state, JOB_DEAD);
    struct letter found = letter(world, result.dlq_id);
    assert_true(slice_is(found.reason, REASON_RETRIES_EXHAUSTED));
    assert_int_equal(found.failure_count, 2);
    assert_int_equal(found.max_attempts, 2);
    assert_true(found.recoverable);
    assert_string_equal(what_happened(world, "J"),
                        "pushed leased retry-scheduled leased dead-lettered");
}

static void a_structural_failure_is_quarantined_at_once(void **state)
{
    WORLD(state);
    struct letter found = letter(world, dead(world, "{\"action\":\"a\"}"));
    assert_true(slice_is(found.reason, REASON_NOT_RETRYABLE));
    assert_false(found.recoverable);
    assert_true(found.review);
}

static void a_late_result_changes_nothing(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    world_pass(world, 30000);
    assert_int_equal(complete(world, &taken).status, STATUS_LEASE_LOST);
    assert_int_equal(job(world, "J").job.state, JOB_SCHEDULED);
}

static void a_made_up_lease_is_lost(void **state)
{
    WORLD(state);
    static const char *const ids[] = {"",
                                      "x",
                                      "1",
                                      "1-",
                                      "-1",
                                      "1-zz",
                                      "1-0000000000000000",
                                      "11111111111111111-1",
                                      "1-0000000000000000-"};
    push(world, "{\"action\":\"a\"}");
    lease(world, NULL);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct lease made_up = {0};
        snprintf(made_up.lease_id, sizeof(made_up.lease_id), "%s", ids[i]);
        assert_int_equal(complete(world, &made_up).status, STATUS_LEASE_LOST);
    }
}

/* start is the first heartbeat of a run. */
static void start(struct world *world, const struct lease *taken)
{
    struct heartbeat_item item = {.lease_id = slice_of(taken->lease_id)};
    struct heartbeat_command command = {.worker_id = SLICE("w1"), .items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_HEARTBEAT), STATUS_OK);
    assert_int_equal(item.outcome, HEARTBEAT_EXTENDED);
}

static void an_expired_lease_counts_as_a_crashed_attempt(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct lease taken = lease(world, NULL);
    start(world, &taken);
    world_pass(world, 30000);
    assert_int_equal(job(world, "J").job.state, JOB_SCHEDULED);
    world_pass(world, 10000);
    taken = lease(world, NULL);
    start(world, &taken);
    world_pass(world, 30000);
    struct job_row row = job(world, "J");
    assert_int_equal(row.job.state, JOB_DEAD);
    assert_true(slice_is(letter(world, row.dlq_id).reason, REASON_AGENT_CRASHED));
}

static void a_lease_that_ends_without_a_heartbeat_was_never_started(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct lease taken = lease(world, NULL);
    start(world, &taken);
    world_pass(world, 30000);
    world_pass(world, 10000);
    lease(world, NULL);
    world_pass(world, 30000);
    struct job_row row = job(world, "J");
    assert_int_equal(row.job.state, JOB_DEAD);
    struct letter dead_letter = letter(world, row.dlq_id);
    assert_true(slice_is(dead_letter.reason, REASON_TIMEOUT_ASSIGNED));
    assert_true(slice_is(dead_letter.reason_detail, "the worker never started the job: its lease "
                                                    "ended without a heartbeat"));
    assert_true(slice_is(dead_letter.agent, "w1"));
}

static void a_job_that_is_not_retry_eligible_goes_straight_to_the_quarantine(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"retry_eligible\":false}");
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, TIMEOUT_FAILURE);
    assert_int_equal(result.state, JOB_DEAD);
    struct letter dead_letter = letter(world, result.dlq_id);
    assert_true(slice_is(dead_letter.reason, REASON_NOT_RETRYABLE));
    assert_false(dead_letter.recoverable); /* no machine tries it again either */
    push(world, "{\"action\":\"a\",\"job_id\":\"K\",\"constraints\":{\"retry_eligible\":false}}");
    lease(world, NULL);
    world_pass(world, 30000);
    struct job_row row = job(world, "K");
    assert_int_equal(row.job.state, JOB_DEAD);
    assert_true(slice_is(letter(world, row.dlq_id).reason, REASON_TIMEOUT_ASSIGNED));
    push(world, "{\"action\":\"a\",\"job_id\":\"L\"}");
    taken = lease(world, NULL);
    result = report_failed(world, &taken, "{\"message\":\"m\",\"retry_eligible\":false}");
    assert_int_equal(result.state, JOB_DEAD);
}

static void a_lease_survives_a_restart(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    world_reopen(world);
    assert_int_equal(lease_count(world, NULL), 0);
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
}

static void a_heartbeat_keeps_the_lease_and_marks_the_start(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    for (int i = 0; i < 3; i++) {
        world_pass(world, 20000);
        struct heartbeat_item item = {.lease_id = slice_of(taken.lease_id)};
        struct heartbeat_command beat = {.worker_id = SLICE("w1"), .items = &item, .count = 1};
        assert_int_equal(run(world, &beat.command, COMMAND_HEARTBEAT), STATUS_OK);
        assert_int_equal(item.outcome, HEARTBEAT_EXTENDED);
    }
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    assert_string_equal(what_happened(world, "J"), "pushed leased started completed");
}

static void max_runtime_ends_a_run_that_keeps_beating(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"retry_policy\":{\"max_attempts\":1},"
                "\"constraints\":{\"max_runtime_seconds\":40}}");
    struct lease taken = lease(world, NULL);
    world_pass(world, 20000);
    struct heartbeat_item item = {.lease_id = slice_of(taken.lease_id)};
    struct heartbeat_command beat = {.worker_id = SLICE("w1"), .items = &item, .count = 1};
    run(world, &beat.command, COMMAND_HEARTBEAT);
    world_pass(world, 20000);
    struct job_row row = job(world, "J");
    assert_int_equal(row.job.state, JOB_DEAD);
    assert_true(slice_is(letter(world, row.dlq_id).reason, REASON_TIMEOUT_IN_PROGRESS));
}

static void a_released_lease_counts_no_attempt(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    struct release_item item = {.lease_id = slice_of(taken.lease_id)};
    struct release_command release = {.items = &item, .count = 1};
    assert_int_equal(run(world, &release.command, COMMAND_RELEASE), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    taken = lease(world, NULL);
    assert_int_equal(taken.attempt, 1);
}

static void side_effects_without_a_key_are_not_repeated(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\"}");
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(
        world, &taken, "{\"class\":\"timeout\",\"message\":\"m\",\"side_effects\":\"committed\"}");
    struct letter found = letter(world, result.dlq_id);
    assert_true(slice_is(found.reason, REASON_NOT_IDEMPOTENT));
    assert_int_equal(found.replay_safety, REPLAY_UNSAFE);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static void a_waiting_job_is_cancelled_at_once(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct cancel_command cancel = {.job_id = SLICE("J")};
    assert_int_equal(run(world, &cancel.command, COMMAND_CANCEL), STATUS_OK);
    assert_int_equal(cancel.state, JOB_CANCELLED);
    assert_int_equal(lease_count(world, NULL), 0);
    assert_int_equal(run(world, &cancel.command, COMMAND_CANCEL), STATUS_CONFLICT);
}

static void a_running_job_is_told_at_its_next_heartbeat(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    struct cancel_command cancel = {.job_id = SLICE("J")};
    run(world, &cancel.command, COMMAND_CANCEL);
    assert_int_equal(cancel.state, JOB_RUNNING);
    struct heartbeat_item item = {.lease_id = slice_of(taken.lease_id)};
    struct heartbeat_command beat = {.worker_id = SLICE("w1"), .items = &item, .count = 1};
    run(world, &beat.command, COMMAND_HEARTBEAT);
    assert_int_equal(item.outcome, HEARTBEAT_CANCELLED);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_CANCELLED);
}

static void a_cancelled_job_that_is_released_does_not_come_back(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    struct cancel_command cancel = {.job_id = SLICE("J")};
    run(world, &cancel.command, COMMAND_CANCEL);
    struct release_item item = {.lease_id = slice_of(taken.lease_id)};
    struct release_command release = {.items = &item, .count = 1};
    assert_int_equal(run(world, &release.command, COMMAND_RELEASE), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    assert_int_equal(job(world, "J").job.state, JOB_CANCELLED);
    assert_int_equal(lease_count(world, NULL), 0);
}

/* ---- waiting leases -------------------------------------------------------------------------- */

static void count_done(struct command *command)
{
    (*(int *)command->owner)++;
}

static void a_waiting_lease_gets_the_job_with_the_commit_that_brings_it(void **state)
{
    WORLD(state);
    int done = 0;
    struct lease_command waiting = {.command = {.kind = COMMAND_LEASE,
                                                .actor = SLICE("t"),
                                                .arena = &world->arena,
                                                .done = count_done,
                                                .owner = &done},
                                    .worker_id = SLICE("w"),
                                    .max = 1,
                                    .wait = span_seconds(60)};
    engine_submit(world->engine, &waiting.command);
    engine_step(world->engine);
    world_pass(world, 1000);
    assert_int_equal(done, 0);
    push(world, "{\"action\":\"a\"}");
    assert_int_equal(done, 1);
    assert_int_equal(waiting.count, 1);
}

static void a_waiting_lease_gets_what_stands_behind_it_in_its_batch(void **state)
{
    WORLD(state);
    int done = 0;
    struct lease_command waiting = {.command = {.kind = COMMAND_LEASE,
                                                .actor = SLICE("t"),
                                                .arena = &world->arena,
                                                .done = count_done,
                                                .owner = &done},
                                    .worker_id = SLICE("w"),
                                    .max = 1,
                                    .wait = span_seconds(60)};
    engine_submit(world->engine, &waiting.command);
    push(world, "{\"action\":\"a\"}");
    assert_int_equal(done, 1);
    assert_int_equal(waiting.count, 1);
}

static void a_waiting_lease_gives_up_when_its_time_is_over(void **state)
{
    WORLD(state);
    int done = 0;
    struct lease_command waiting = {.command = {.kind = COMMAND_LEASE,
                                                .actor = SLICE("t"),
                                                .arena = &world->arena,
                                                .done = count_done,
                                                .owner = &done},
                                    .worker_id = SLICE("w"),
                                    .max = 1,
                                    .wait = span_ms(500)};
    engine_submit(world->engine, &waiting.command);
    engine_step(world->engine);
    assert_int_equal(engine_next_wake(world->engine).us, world->wall.us + 500000);
    world_pass(world, 500);
    assert_int_equal(done, 1);
    assert_int_equal(waiting.count, 0);
}

static void a_waiting_lease_that_is_abandoned_is_answered_and_takes_no_job(void **state)
{
    WORLD(state);
    int done = 0;
    struct lease_command waiting = {.command = {.kind = COMMAND_LEASE,
                                                .actor = SLICE("w1"),
                                                .arena = &world->arena,
                                                .done = count_done,
                                                .owner = &done},
                                    .worker_id = SLICE("w1"),
                                    .max = 1,
                                    .wait = span_seconds(60)};
    engine_submit(world->engine, &waiting.command);
    engine_step(world->engine);
    assert_int_equal(done, 0);
    engine_abandon(world->engine, &waiting);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_int_equal(done, 1);
    assert_int_equal(waiting.count, 0);
    assert_int_equal(job(world, "J").job.state, JOB_PENDING);
}

/* ---- review ---------------------------------------------------------------------------------- */

static void a_retried_letter_lives_again_under_the_same_id(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_OK);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERED);
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_CONFLICT);
    struct lease taken = lease(world, NULL);
    assert_true(slice_is(taken.job_id, "J"));
    assert_int_equal(taken.attempt, 2);
    complete(world, &taken);
    assert_int_equal(job(world, "J").job.state, JOB_DONE);
    assert_string_equal(what_happened(world, "J"),
                        "pushed leased dead-lettered requeued leased completed");
}

static void a_job_that_dies_again_comes_back_to_its_letter(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\"}");
    review(world, REVIEW_RETRY, dlq_id);
    world_pass(world, 1000);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, INPUT_FAILURE);
    assert_true(slice_eq(result.dlq_id, dlq_id));
    struct letter found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_DEAD);
    assert_int_equal(found.failure_count, 2);
    assert_int_equal(found.job.redrive_count, 1);
    assert_int_equal(found.recovered_by.len, 0);
}

static void a_replay_starts_a_round_of_attempts_of_its_own(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct result_item result = {0};
    for (int i = 0; i < 2; i++) {
        struct lease taken = lease(world, NULL);
        result = report_failed(world, &taken, TIMEOUT_FAILURE);
        world_pass(world, 10000);
    }
    review(world, REVIEW_RETRY, result.dlq_id);
    struct lease taken = lease(world, NULL);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_SCHEDULED);
    world_pass(world, 10000);
    taken = lease(world, NULL);
    assert_int_equal(taken.attempt, 4);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_DEAD);
}

static void an_edit_changes_the_payload_and_keeps_the_identity(void **state)
{
    WORLD(state);
    struct slice dlq_id =
        dead(world, "{\"action\":\"a\",\"job_id\":\"J\",\"inputs\":{\"n\":1.10,\"to\":\"x\"}}");
    struct review_item item = {.dlq_id = dlq_id};
    struct review_command command = {
        .action = REVIEW_RETRY,
        .items = &item,
        .count = 1,
        .patch = SLICE("[{\"op\":\"replace\",\"path\":\"/inputs/to\",\"value\":\"y\"}]"),
        .queue = SLICE("fixed")};
    run(world, &command.command, COMMAND_REVIEW);
    assert_string_equal(item.err.text, "");
    struct lease taken = lease(world, "fixed");
    assert_true(slice_is(taken.body,
                         "{\"action\":\"a\",\"job_id\":\"J\",\"inputs\":{\"n\":1.10,\"to\":\"y\"},"
                         "\"queue\":\"fixed\"}"));
}

static void an_edit_that_is_wrong_changes_nothing(void **state)
{
    WORLD(state);
    static const struct {
        struct slice patch;
        struct slice merge;
        const char *says;
    } cases[] = {
        {SLICE("[{\"op\":\"remove\",\"path\":\"/nope\"}]"), {0}, "patch"},
        {SLICE("{\"not\":\"an array\"}"), {0}, "patch"},
        {{0}, SLICE("{\"job_id\":\"other\"}"), "job_id"},
        {{0}, SLICE("{\"action\":null}"), "action"},
        {{0}, SLICE("{\"priority\":99}"), "priority"},
        {{0}, SLICE("{\"retry_policy\":\"nope\"}"), "nope"},
        {{0}, SLICE("{\"idempotency_key\":\"k\"}"), "idempotency_key"},
    };
    struct slice dlq_id = dead(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct review_item item = {.dlq_id = dlq_id};
        struct review_command command = {.action = REVIEW_RETRY,
                                         .items = &item,
                                         .count = 1,
                                         .patch = cases[i].patch,
                                         .merge = cases[i].merge};
        run(world, &command.command, COMMAND_REVIEW);
        assert_int_equal(item.status, STATUS_INVALID);
        assert_non_null(strstr(item.err.text, cases[i].says));
    }
    assert_int_equal(letter(world, dlq_id).state, LETTER_DEAD);
    assert_string_equal(what_happened(world, "J"), "pushed leased dead-lettered");
}

static void a_replay_waits_while_its_key_is_taken(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    push(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    struct review_item item = review(world, REVIEW_RETRY, dlq_id);
    assert_int_equal(item.status, STATUS_CONFLICT);
    assert_non_null(strstr(item.err.text, "idempotency_key"));
}

static void a_replay_is_refused_while_another_job_keeps_its_key_for_good(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\",\"idempotency_key\":\"K\"}");
    push(world,
         "{\"action\":\"a\",\"idempotency_key\":\"K\",\"constraints\":{\"unique_forever\":true}}");
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_CONFLICT);
}

static void an_edit_of_the_capabilities_changes_who_may_lease(void **state)
{
    WORLD(state);
    struct slice gpu[] = {SLICE("gpu")};
    struct lease_command able = {
        .worker_id = SLICE("w"), .query = {.capabilities = gpu, .capability_count = 1}, .max = 1};
    push(world, "{\"action\":\"a\",\"required_capabilities\":[\"gpu\"]}");
    run(world, &able.command, COMMAND_LEASE);
    assert_int_equal(able.count, 1);
    struct result_item result = report_failed(world, &able.leases[0], INPUT_FAILURE);
    struct review_item item = {.dlq_id = result.dlq_id};
    struct review_command edit = {.action = REVIEW_RETRY,
                                  .items = &item,
                                  .count = 1,
                                  .merge = SLICE("{\"required_capabilities\":[]}")};
    run(world, &edit.command, COMMAND_REVIEW);
    assert_int_equal(lease_count(world, NULL), 1);
}

static void a_discarded_letter_must_be_restored_before_a_retry(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\"}");
    assert_int_equal(review(world, REVIEW_DISCARD, dlq_id).status, STATUS_OK);
    assert_int_equal(letter(world, dlq_id).state, LETTER_DISCARDED);
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_CONFLICT);
    assert_int_equal(review(world, REVIEW_RESTORE, dlq_id).status, STATUS_OK);
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_OK);
}

static void an_escalated_letter_is_dead_and_no_machine_may_replay_it(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\"}");
    assert_int_equal(review(world, REVIEW_ESCALATE, dlq_id).status, STATUS_OK);
    struct letter found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_DEAD);
    assert_true(found.escalated);
    assert_false(found.recoverable);
}

static void a_rollback_pushes_the_compensation(void **state)
{
    WORLD(state);
    struct slice dlq_id =
        dead(world, "{\"action\":\"charge\",\"job_id\":\"J\",\"inputs\":{\"id\":7},"
                    "\"compensation\":{\"action\":\"refund\"}}");
    struct review_item item = review(world, REVIEW_ROLLBACK, dlq_id);
    assert_int_equal(item.status, STATUS_OK);
    struct lease taken = lease(world, NULL);
    assert_true(slice_eq(taken.job_id, item.compensation));
    assert_non_null(strstr(taken.body.ptr, "\"action\":\"refund\""));
    assert_non_null(strstr(taken.body.ptr, "\"rollback_of\":\"J\""));
    assert_non_null(strstr(taken.body.ptr, "\"inputs\":{\"id\":7}"));
    assert_int_equal(letter(world, dlq_id).state, LETTER_ROLLED_BACK);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static void purging_spares_what_is_dead_unless_forced(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct purge_command purge = {.dlq_ids = &dlq_id, .count = 1};
    run(world, &purge.command, COMMAND_PURGE);
    assert_int_equal(purge.purged, 0);
    assert_int_equal(purge.kept, 1);
    purge.force = true;
    run(world, &purge.command, COMMAND_PURGE);
    assert_int_equal(purge.purged, 1);
    assert_chain_holds(world);
    assert_true(push(world, "{\"action\":\"a\",\"job_id\":\"J\"}").created);
}

static void a_letter_whose_job_lives_again_is_not_purged(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, "{\"action\":\"a\"}");
    review(world, REVIEW_RETRY, dlq_id);
    struct purge_command purge = {.dlq_ids = &dlq_id, .count = 1, .force = true};
    run(world, &purge.command, COMMAND_PURGE);
    assert_int_equal(purge.kept, 1);
    struct lease taken = lease(world, NULL);
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    run(world, &purge.command, COMMAND_PURGE);
    assert_int_equal(purge.purged, 1);
}

static void nothing_is_purged_by_default(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    world_pass(world, (int64_t)400 * 24 * 3600 * 1000);
    assert_int_equal(job(world, "J").job.state, JOB_DONE);
}

static void the_retention_rules_purge_what_ended_long_ago(void **state)
{
    WORLD(state);
    world->config.retention = (struct retention){.done = span_seconds(3600),
                                                 .recovered = span_seconds(3600),
                                                 .discarded = span_seconds(7200)};
    world_reopen(world);
    push(world, "{\"action\":\"a\",\"job_id\":\"done\"}");
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    struct slice discarded = dead(world, "{\"action\":\"a\",\"job_id\":\"discarded\"}");
    struct slice kept = dead(world, "{\"action\":\"a\",\"job_id\":\"dead\"}");
    review(world, REVIEW_DISCARD, discarded);
    world_pass(world, 3700 * 1000);
    assert_true(push(world, "{\"action\":\"b\",\"job_id\":\"done\"}").created);
    assert_int_equal(letter(world, discarded).state, LETTER_DISCARDED);
    world_pass(world, 3700 * 1000);
    assert_true(push(world, "{\"action\":\"b\",\"job_id\":\"discarded\"}").created);
    assert_int_equal(letter(world, kept).state, LETTER_DEAD);
    assert_chain_holds(world);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void a_clock_that_jumps_a_year_ahead_ends_no_lease(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    world_jump(world, 366 * 24 * 3600);
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
}

static void a_clock_that_jumps_a_year_back_delays_no_retry(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct lease taken = lease(world, NULL);
    report_failed(world, &taken, TIMEOUT_FAILURE);
    world_jump(world, -366 * 24 * 3600);
    world_pass(world, 10000);
    assert_int_equal(lease_count(world, NULL), 1);
    assert_chain_holds(world);
}

static void a_clock_that_was_set_back_between_runs_strands_nothing(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"," TWO_RUNS "}");
    struct lease taken = lease(world, NULL);
    report_failed(world, &taken, TIMEOUT_FAILURE);
    world->wall.us -= (int64_t)366 * 24 * 3600 * 1000000;
    world_reopen(world);
    world_pass(world, 0);
    world_pass(world, 10000);
    assert_int_equal(lease_count(world, NULL), 1);
}

static void a_jump_does_not_use_up_a_retry_budget(void **state)
{
    WORLD(state);
    push(world,
         "{\"action\":\"a\",\"retry_policy\":{\"max_attempts\":5,\"backoff_strategy\":\"fixed\","
         "\"initial_delay_seconds\":1,\"jitter\":false,\"retry_budget_seconds\":3600}}");
    struct lease taken = lease(world, NULL);
    report_failed(world, &taken, TIMEOUT_FAILURE);
    world_jump(world, 366 * 24 * 3600);
    world_pass(world, 1000);
    taken = lease(world, NULL);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_SCHEDULED);
    world_jump(world, -2 * 366 * 24 * 3600);
    world_pass(world, 3600 * 1000);
    taken = lease(world, NULL);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_DEAD);
}

static void a_jump_ahead_purges_nothing(void **state)
{
    WORLD(state);
    world->config.retention.done = span_seconds((int64_t)30 * 24 * 3600);
    world_reopen(world);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\"}");
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    world_jump(world, 366 * 24 * 3600);
    world_pass(world, 120000);
    assert_int_equal(job(world, "J").job.state, JOB_DONE);
    world_pass(world, (int64_t)31 * 24 * 3600 * 1000);
    assert_true(push(world, "{\"action\":\"b\",\"job_id\":\"J\"}").created);
}

static void a_time_of_day_is_kept_when_the_clock_jumps(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"run_at\":\"2026-02-13T07:22:00Z\"}");
    world_jump(world, 3600);
    assert_int_equal(lease_count(world, NULL), 1);
}

/* ---- policies and documents ------------------------------------------------------------------ */

static void a_policy_that_is_set_is_in_force_and_survives(void **state)
{
    WORLD(state);
    struct policy_command set = {.name = SLICE("map"), .body = SLICE("{\"max_attempts\":1}")};
    assert_int_equal(run(world, &set.command, COMMAND_POLICY), STATUS_OK);
    assert_int_equal(set.version, 1);
    world_reopen(world);
    push(world, "{\"action\":\"a\",\"retry_policy\":\"map\"}");
    struct lease taken = lease(world, NULL);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_DEAD);
    struct policy_command bad = {.name = SLICE("map"), .body = SLICE("{\"max_attempts\":0}")};
    assert_int_equal(run(world, &bad.command, COMMAND_POLICY), STATUS_INVALID);
}

static enum status read_document(struct engine *engine, struct store *store, void *ctx,
                                 struct arena *arena, struct err *err)
{
    (void)engine;
    struct job_row row;
    enum status status = store->job_find(store, SLICE("J"), arena, &row, err);
    return status ? status : store->document_get(store, row.job.seq, arena, ctx, err);
}

static void on_dead_sets_the_document_and_keeps_the_rest(void **state)
{
    WORLD(state);
    struct slice document;
    dead(world, "{\"action\":\"a\",\"job_id\":\"J\",\"retry_policy\":\"post-adjudication\","
                "\"document\":{\"escrow_adjudication\":\"release\"}}");
    struct read_command read = {.read = read_document, .ctx = &document};
    assert_int_equal(run(world, &read.command, COMMAND_READ), STATUS_OK);
    assert_non_null(strstr(document.ptr, "\"escrow_adjudication\":\"release\""));
    assert_non_null(strstr(document.ptr, "\"settlement_progression_status\":\"dispute-ready\""));
    assert_non_null(strstr(document.ptr, "\"settlement_progression_reason_code\":\"escalate\""));
    assert_non_null(strstr(document.ptr, "\"dispute_lifecycle_status\":\"re-escalated\""));
}

/* ---- all of it ------------------------------------------------------------------------------- */

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(push_makes_a_pending_job_with_an_id),
        TEST(the_payload_comes_back_byte_for_byte),
        TEST(the_same_id_and_bytes_are_the_same_push),
        TEST(the_same_id_with_other_bytes_is_a_conflict),
        TEST(a_finished_job_is_still_known_by_its_id),
        TEST(a_live_key_answers_with_the_job_that_holds_it),
        TEST(a_dead_job_does_not_block_its_key),
        TEST(a_key_that_is_unique_forever_stays_taken),
        TEST(a_key_for_good_outlives_the_purge_of_its_job),
        TEST(the_bytes_of_the_push_are_known_after_an_edit),
        TEST(an_unknown_policy_is_refused_by_name),
        TEST(a_full_house_refuses_new_work_but_takes_results),
        TEST(higher_priority_goes_first_then_the_older),
        TEST(a_delayed_job_is_not_leased_before_its_time),
        TEST(a_paused_queue_gives_nothing_until_it_is_resumed),
        TEST(capabilities_must_cover_what_the_job_requires),
        TEST(a_completed_job_is_done_and_its_history_is_whole),
        TEST(a_failed_run_is_retried_after_the_delay_of_its_policy),
        TEST(a_job_without_attempts_left_is_quarantined),
        TEST(a_structural_failure_is_quarantined_at_once),
        TEST(a_late_result_changes_nothing),
        TEST(a_made_up_lease_is_lost),
        TEST(an_expired_lease_counts_as_a_crashed_attempt),
        TEST(a_lease_that_ends_without_a_heartbeat_was_never_started),
        TEST(a_job_that_is_not_retry_eligible_goes_straight_to_the_quarantine),
        TEST(a_lease_survives_a_restart),
        TEST(a_heartbeat_keeps_the_lease_and_marks_the_start),
        TEST(max_runtime_ends_a_run_that_keeps_beating),
        TEST(a_released_lease_counts_no_attempt),
        TEST(side_effects_without_a_key_are_not_repeated),
        TEST(a_waiting_job_is_cancelled_at_once),
        TEST(a_running_job_is_told_at_its_next_heartbeat),
        TEST(a_cancelled_job_that_is_released_does_not_come_back),
        TEST(a_waiting_lease_gets_the_job_with_the_commit_that_brings_it),
        TEST(a_waiting_lease_gets_what_stands_behind_it_in_its_batch),
        TEST(a_waiting_lease_gives_up_when_its_time_is_over),
        TEST(a_waiting_lease_that_is_abandoned_is_answered_and_takes_no_job),
        TEST(a_retried_letter_lives_again_under_the_same_id),
        TEST(a_job_that_dies_again_comes_back_to_its_letter),
        TEST(a_replay_starts_a_round_of_attempts_of_its_own),
        TEST(an_edit_changes_the_payload_and_keeps_the_identity),
        TEST(an_edit_that_is_wrong_changes_nothing),
        TEST(a_replay_waits_while_its_key_is_taken),
        TEST(a_replay_is_refused_while_another_job_keeps_its_key_for_good),
        TEST(an_edit_of_the_capabilities_changes_who_may_lease),
        TEST(a_discarded_letter_must_be_restored_before_a_retry),
        TEST(an_escalated_letter_is_dead_and_no_machine_may_replay_it),
        TEST(a_rollback_pushes_the_compensation),
        TEST(purging_spares_what_is_dead_unless_forced),
        TEST(a_letter_whose_job_lives_again_is_not_purged),
        TEST(nothing_is_purged_by_default),
        TEST(the_retention_rules_purge_what_ended_long_ago),
        TEST(a_clock_that_jumps_a_year_ahead_ends_no_lease),
        TEST(a_clock_that_jumps_a_year_back_delays_no_retry),
        TEST(a_clock_that_was_set_back_between_runs_strands_nothing),
        TEST(a_jump_does_not_use_up_a_retry_budget),
        TEST(a_jump_ahead_purges_nothing),
        TEST(a_time_of_day_is_kept_when_the_clock_jumps),
        TEST(a_policy_that_is_set_is_in_force_and_survives),
        TEST(on_dead_sets_the_document_and_keeps_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
