/* Claims: jobs that only whoever names them gets, and what becomes of those whose claimant is gone.
 */
#include "engine/fixture.h"

#include "core/reason.h"

#define WORLD(state) struct world *world = *(state)
#define TIMEOUT_FAILURE "{\"class\":\"timeout\",\"message\":\"timed out\"}"
#define INPUT_FAILURE "{\"class\":\"invalid_input\",\"message\":\"no such field\"}"
#define CLAIM_MS (CLAIM_SECONDS * 1000)

static struct push_item claim(struct world *world, const char *envelope)
{
    struct push_item item = {.claim = true};
    struct push_command command = {
        .command = {.actor = SLICE("alice")}, .items = &item, .count = 1};
    struct err err;
    assert_int_equal(
        envelope_parse(slice_of(envelope), ENVELOPE_BODY_MAX, &world->arena, &item.envelope, &err),
        STATUS_OK);
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    return item;
}

/* named takes the named job; how many leases came. */
static size_t named(struct world *world, const char *job_id, struct lease *out)
{
    struct slice id = slice_of(job_id), deliver = SLICE("deliver");
    struct lease_command command = {.command = {.actor = SLICE("alice")},
                                    .worker_id = SLICE("sender"),
                                    .query = {.capabilities = &deliver, .capability_count = 1},
                                    .job_ids = &id,
                                    .job_id_count = 1,
                                    .max = 10};
    assert_int_equal(run(world, &command.command, COMMAND_LEASE), STATUS_OK);
    if (command.count)
        *out = command.leases[0];
    return command.count;
}

static void a_claimed_job_is_leased_only_by_its_name(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\"}");
    push(world, "{\"job_id\":\"b\",\"action\":\"x\"}");
    assert_int_equal(lease_count(world, NULL), 1);
    assert_int_equal(named(world, "b", &lease_), 0);
    assert_int_equal(named(world, "a", &lease_), 1);
    assert_true(slice_is(lease_.job_id, "a"));
    assert_int_equal(named(world, "a", &lease_), 0);
    assert_int_equal(complete(world, &lease_).state, JOB_DONE);
    assert_string_equal(what_happened(world, "a"), "pushed leased completed");
}

static void a_job_that_is_not_claimed_can_be_leased_by_its_name(void **state)
{
    WORLD(state);
    struct lease lease_;
    push(world, "{\"job_id\":\"a\",\"action\":\"x\"}");
    push(world, "{\"job_id\":\"b\",\"action\":\"x\"}");
    assert_int_equal(named(world, "b", &lease_), 1);
    assert_int_equal(lease_count(world, NULL), 1);
}

static void a_name_does_not_help_past_capabilities_and_pauses(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\",\"required_capabilities\":[\"gpu\"]}");
    assert_int_equal(named(world, "a", &lease_), 0);
    claim(world, "{\"job_id\":\"b\",\"action\":\"x\",\"required_capabilities\":[\"deliver\"]}");
    struct queue_command pause = {.queue = SLICE("default"), .paused = true};
    assert_int_equal(run(world, &pause.command, COMMAND_QUEUE), STATUS_OK);
    assert_int_equal(named(world, "b", &lease_), 0);
    pause.paused = false;
    assert_int_equal(run(world, &pause.command, COMMAND_QUEUE), STATUS_OK);
    assert_int_equal(named(world, "b", &lease_), 1);
    assert_int_equal(named(world, "nobody", &lease_), 0);
}

static void a_claim_that_nobody_comes_for_is_quarantined(void **state)
{
    WORLD(state);
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\"}");
    world_pass(world, CLAIM_MS - 1);
    assert_int_equal(job(world, "a").job.state, JOB_PENDING);
    world_pass(world, 1);
    struct job_row row = job(world, "a");
    assert_int_equal(row.job.state, JOB_DEAD);
    assert_string_equal(what_happened(world, "a"), "pushed dead-lettered");
    assert_chain_holds(world);
}

static void a_claim_has_its_time_while_nobody_is_here(void **state)
{
    WORLD(state);
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\"}");
    world_pass(world, CLAIM_MS / 2);
    world_reopen(world);
    world_pass(world, CLAIM_MS / 2);
    assert_int_equal(job(world, "a").job.state, JOB_DEAD);
}

static void a_retry_of_a_claimed_job_is_claimed_and_timed_anew(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\",\"retry_policy\":\"receipts\"}");
    assert_int_equal(named(world, "a", &lease_), 1);
    assert_int_equal(report_failed(world, &lease_, TIMEOUT_FAILURE).state, JOB_SCHEDULED);
    world_pass(world, 2000);
    assert_int_equal(lease_count(world, NULL), 0);
    world_pass(world, CLAIM_MS - 1);
    assert_int_equal(job(world, "a").job.state, JOB_PENDING);
    world_pass(world, 1);
    assert_int_equal(job(world, "a").job.state, JOB_DEAD);
}

static void a_scheduled_claim_dies_also_when_nobody_saw_it_become_due(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\",\"retry_policy\":\"receipts\"}");
    assert_int_equal(named(world, "a", &lease_), 1);
    report_failed(world, &lease_, TIMEOUT_FAILURE);
    world->wall.us += INT64_C(3600) * 1000000;
    world->steady.us += INT64_C(3600) * 1000000;
    world_reopen(world);
    world_pass(world, 1);
    assert_int_equal(job(world, "a").job.state, JOB_DEAD);
}

static void a_claimant_that_dies_with_a_lease_loses_the_claim(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\",\"retry_policy\":\"receipts\"}");
    assert_int_equal(named(world, "a", &lease_), 1);
    world_pass(world, 30 * 1000); /* the lease */
    assert_int_equal(job(world, "a").job.state, JOB_SCHEDULED);
    world_pass(world, 2000 + CLAIM_MS);
    assert_int_equal(job(world, "a").job.state, JOB_DEAD);
}

static void a_letter_is_claimed_for_one_round(void **state)
{
    WORLD(state);
    push(world, "{\"job_id\":\"a\",\"action\":\"x\"}");
    struct lease lease_ = lease(world, NULL);
    struct slice dlq_id = report_failed(world, &lease_, INPUT_FAILURE).dlq_id;
    struct review_item item = {.dlq_id = dlq_id};
    struct review_command command = {.command = {.actor = SLICE("bob")},
                                     .action = REVIEW_RETRY,
                                     .items = &item,
                                     .count = 1,
                                     .hold = true,
                                     .claim = true};
    assert_int_equal(run(world, &command.command, COMMAND_REVIEW), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    assert_int_equal(lease_count(world, NULL), 0);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERING);
    world_pass(world, CLAIM_MS);
    assert_int_equal(letter(world, dlq_id).state, LETTER_DEAD);
    assert_true(slice_is(letter(world, dlq_id).reason, REASON_AGENT_CRASHED));
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_OK);
    assert_int_equal(lease_count(world, NULL), 1);
}

static void a_letter_of_a_claimed_job_is_no_machines_to_replay(void **state)
{
    WORLD(state);
    struct lease lease_;
    const char *once = "{\"job_id\":\"a\",\"action\":\"x\",\"retry_policy\":{\"max_attempts\":1}}";
    claim(world, once);
    assert_int_equal(named(world, "a", &lease_), 1);
    struct slice dlq_id = report_failed(world, &lease_, TIMEOUT_FAILURE).dlq_id;
    assert_false(letter(world, dlq_id).recoverable);
    push(world, "{\"job_id\":\"b\",\"action\":\"x\",\"retry_policy\":{\"max_attempts\":1}}");
    lease_ = lease(world, NULL);
    dlq_id = report_failed(world, &lease_, TIMEOUT_FAILURE).dlq_id;
    assert_true(letter(world, dlq_id).recoverable);
}

static void a_claim_wins_over_dispatch(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\",\"retry_policy\":\"dispatch\"}");
    assert_int_equal(lease_count(world, NULL), 0);
    assert_int_equal(named(world, "a", &lease_), 1);
}

static void a_released_claim_is_timed_anew(void **state)
{
    WORLD(state);
    struct lease lease_;
    claim(world, "{\"job_id\":\"a\",\"action\":\"x\"}");
    world_pass(world, CLAIM_MS - 1);
    assert_int_equal(named(world, "a", &lease_), 1);
    struct release_item item = {.lease_id = slice_of(lease_.lease_id)};
    struct release_command command = {.items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_RELEASE), STATUS_OK);
    world_pass(world, CLAIM_MS - 1);
    assert_int_equal(job(world, "a").job.state, JOB_PENDING);
    world_pass(world, 1);
    assert_int_equal(job(world, "a").job.state, JOB_DEAD);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_claimed_job_is_leased_only_by_its_name),
        CASE(a_job_that_is_not_claimed_can_be_leased_by_its_name),
        CASE(a_name_does_not_help_past_capabilities_and_pauses),
        CASE(a_claim_that_nobody_comes_for_is_quarantined),
        CASE(a_claim_has_its_time_while_nobody_is_here),
        CASE(a_retry_of_a_claimed_job_is_claimed_and_timed_anew),
        CASE(a_scheduled_claim_dies_also_when_nobody_saw_it_become_due),
        CASE(a_claimant_that_dies_with_a_lease_loses_the_claim),
        CASE(a_letter_is_claimed_for_one_round),
        CASE(a_letter_of_a_claimed_job_is_no_machines_to_replay),
        CASE(a_claim_wins_over_dispatch),
        CASE(a_released_claim_is_timed_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
