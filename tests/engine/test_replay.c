/* Letters from elsewhere on their way back, those who wait for them, and what servers and programs
 * that share a store agree about. */
#include "engine/fixture.h"

#include "core/event.h"
#include "core/replay.h"

#define WORLD(state) struct world *world = *(state)

/* bring_in imports a letter from elsewhere; the answer is its dlq_id. */
static struct slice bring_in(struct world *world, const char *dlq_id, const char *payload)
{
    struct import_item item = {.letter = {.dlq_id = slice_of(dlq_id),
                                          .original_subject = SLICE("swarm.task.request"),
                                          .reason = SLICE("agent_crashed"),
                                          .source = SLICE("dispatch"),
                                          .failed_at = world->wall,
                                          .failure_count = 3,
                                          .recoverable = true,
                                          .foreign = true},
                               .body = slice_of(payload)};
    struct import_command command = {
        .command = {.actor = SLICE("nats")}, .items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_IMPORT), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    return slice_of(dlq_id);
}

/* retry brings a letter back, as the scanner does. */
static struct review_item retry(struct world *world, const char *dlq_id)
{
    struct review_item item = {.dlq_id = slice_of(dlq_id)};
    struct review_command command = {.command = {.actor = SLICE("scanner")},
                                     .action = REVIEW_RETRY,
                                     .items = &item,
                                     .count = 1,
                                     .by = SLICE("auto-scanner"),
                                     .refuse_review = true};
    assert_int_equal(run(world, &command.command, COMMAND_REVIEW), STATUS_OK);
    return item;
}

/* publisher leases what is to be published; false: there is nothing. */
static bool publisher(struct world *world, struct lease *out)
{
    static const struct slice queue = SLICE(REPLAY_QUEUE), capability = SLICE(REPLAY_CAPABILITY);
    struct lease_command command = {.worker_id = SLICE("nats:a"),
                                    .query = {.queues = &queue,
                                              .queue_count = 1,
                                              .capabilities = &capability,
                                              .capability_count = 1},
                                    .max = 1};
    assert_int_equal(run(world, &command.command, COMMAND_LEASE), STATUS_OK);
    if (command.count)
        *out = command.leases[0];
    return command.count == 1;
}

static void letters_go_nowhere_without_a_publisher(void **state)
{
    WORLD(state);
    bring_in(world, "d1", "{\"task\":1}");
    struct review_item item = retry(world, "d1");
    assert_int_equal(item.status, STATUS_UNAVAILABLE);
    assert_non_null(strstr(item.err.text, "failed to republish"));
    assert_int_equal(letter(world, SLICE("d1")).state, LETTER_DEAD);
}

static void a_published_letter_is_recovered(void **state)
{
    WORLD(state);
    struct lease taken;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", " {\"task\" : 1}\n");
    struct review_item item = retry(world, "d1");
    assert_int_equal(item.status, STATUS_OK);
    assert_true(item.republished);
    assert_int_equal(letter(world, SLICE("d1")).state, LETTER_RECOVERING);
    assert_int_equal(lease_count(world, NULL), 0); /* no ordinary worker gets it */
    assert_true(publisher(world, &taken));
    assert_true(slice_is(taken.body, " {\"task\" : 1}\n"));
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    struct letter after = letter(world, SLICE("d1"));
    assert_int_equal(after.state, LETTER_RECOVERED);
    assert_true(slice_is(after.recovered_by, "auto-scanner"));
    assert_int_equal(retry(world, "d1").status, STATUS_CONFLICT);
    assert_chain_holds(world);
}

static void a_letter_on_its_way_is_not_sent_twice(void **state)
{
    WORLD(state);
    struct lease taken;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_int_equal(retry(world, "d1").status, STATUS_CONFLICT);
    assert_true(publisher(world, &taken));
    assert_int_equal(retry(world, "d1").status, STATUS_CONFLICT);
    assert_false(publisher(world, &taken));
}

static void a_refused_letter_is_dead_as_before(void **state)
{
    WORLD(state);
    struct lease taken;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    struct letter before = letter(world, SLICE("d1"));
    world_pass(world, 5000);
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_true(publisher(world, &taken));
    struct result_item result =
        report_failed(world, &taken, "{\"class\":\"unavailable\",\"message\":\"nobody listens\"}");
    assert_int_equal(result.state, JOB_DEAD);
    assert_true(slice_is(result.dlq_id, "d1"));
    struct letter after = letter(world, SLICE("d1"));
    assert_int_equal(after.state, LETTER_DEAD);
    assert_true(slice_is(after.reason, "agent_crashed"));
    assert_int_equal(after.failed_at.us, before.failed_at.us);
    assert_int_equal(after.position, before.position);
    assert_int_equal(after.failure_count, before.failure_count);
    assert_int_equal(after.job.redrive_count, before.job.redrive_count);
    assert_int_equal(after.recovered_by.len, 0);
    assert_true(after.recoverable);
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_chain_holds(world);
}

static void a_letter_that_may_have_arrived_is_for_a_person(void **state)
{
    WORLD(state);
    struct lease taken;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_true(publisher(world, &taken));
    report_failed(
        world, &taken,
        "{\"class\":\"unavailable\",\"message\":\"no answer\",\"side_effects\":\"unknown\"}");
    struct letter after = letter(world, SLICE("d1"));
    assert_int_equal(after.state, LETTER_DEAD);
    assert_true(after.review);
    assert_false(after.recoverable);
    assert_int_equal(retry(world, "d1").status, STATUS_REFUSED);
}

static void replays_count_among_the_live(void **state)
{
    WORLD(state);
    world->config.live_max = 1;
    world_reopen(world);
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    bring_in(world, "d2", "{}");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_int_equal(retry(world, "d2").status, STATUS_LIMIT);
    assert_int_equal(letter(world, SLICE("d2")).state, LETTER_DEAD);
}

static void a_lost_publisher_is_replaced(void **state)
{
    WORLD(state);
    struct lease first, second;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_true(publisher(world, &first));
    world_pass(world, 31000); /* its lease ends */
    assert_int_equal(letter(world, SLICE("d1")).state, LETTER_RECOVERING);
    world_pass(world, 1000);
    assert_true(publisher(world, &second));
    assert_int_equal(letter(world, SLICE("d1")).job.redrive_count, 1);
    assert_int_equal(complete(world, &first).status, STATUS_LEASE_LOST);
    assert_int_equal(complete(world, &second).state, JOB_DONE);
    assert_int_equal(letter(world, SLICE("d1")).state, LETTER_RECOVERED);
}

static void a_restart_goes_on_with_what_was_on_its_way(void **state)
{
    WORLD(state);
    struct lease taken;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "\xff\xfe not JSON");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    world_reopen(world);
    assert_true(publisher(world, &taken));
    assert_true(slice_is(taken.body, "\xff\xfe not JSON"));
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    assert_int_equal(letter(world, SLICE("d1")).state, LETTER_RECOVERED);
}

static void a_letter_that_keeps_coming_back_needs_a_person(void **state)
{
    WORLD(state);
    struct lease taken;
    char id[8];
    engine_publisher(world->engine, true);
    for (int round = 0; round < REPLAY_AUTOMATIC_MAX; round++) {
        snprintf(id, sizeof(id), "d%d", round);
        bring_in(world, id, "{\"poison\":true}");
        struct letter came = letter(world, slice_of(id));
        assert_int_equal(came.job.redrive_count, round);
        assert_true(came.recoverable);
        assert_int_equal(retry(world, id).status, STATUS_OK);
        assert_true(publisher(world, &taken));
        assert_int_equal(complete(world, &taken).state, JOB_DONE);
        world_pass(world, 1000);
    }
    bring_in(world, "last", "{\"poison\":true}");
    assert_true(letter(world, SLICE("last")).review);
    assert_false(letter(world, SLICE("last")).recoverable);
    assert_int_equal(retry(world, "last").status, STATUS_REFUSED);
    assert_int_equal(letter(world, bring_in(world, "other", "{\"poison\":false}")).review, false);
    /* A person may. */
    assert_int_equal(review(world, REVIEW_RETRY, SLICE("last")).status, STATUS_OK);
}

static void an_edit_is_what_is_published(void **state)
{
    WORLD(state);
    struct lease taken;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{\"a\":1}");
    struct review_item item = {.dlq_id = SLICE("d1")};
    struct review_command command = {.command = {.actor = SLICE("ada")},
                                     .action = REVIEW_RETRY,
                                     .items = &item,
                                     .count = 1,
                                     .merge = SLICE("{\"a\":2}")};
    assert_int_equal(run(world, &command.command, COMMAND_REVIEW), STATUS_OK);
    assert_int_equal(item.status, STATUS_OK);
    assert_true(publisher(world, &taken));
    assert_true(slice_is(taken.body, "{\"a\":2}"));
    command.queue = SLICE("other");
    bring_in(world, "d2", "{\"a\":1}");
    item = (struct review_item){.dlq_id = SLICE("d2")};
    assert_int_equal(run(world, &command.command, COMMAND_REVIEW), STATUS_OK);
    assert_int_equal(item.status, STATUS_INVALID);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void note_done(struct command *command)
{
    *(bool *)command->owner = true;
}

static void who_waits_is_answered_with_the_outcome(void **state)
{
    WORLD(state);
    struct lease taken;
    bool done = false;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    bring_in(world, "d2", "{\"b\":2}");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    assert_int_equal(retry(world, "d2").status, STATUS_OK);
    struct await_item items[] = {
        {.dlq_id = SLICE("d1")}, {.dlq_id = SLICE("d2")}, {.dlq_id = SLICE("none")}};
    struct await_command await = {.command = {.kind = COMMAND_AWAIT,
                                              .arena = &world->arena,
                                              .done = note_done,
                                              .owner = &done},
                                  .items = items,
                                  .count = 3,
                                  .wait = span_seconds(10)};
    engine_submit(world->engine, &await.command);
    engine_step(world->engine);
    assert_false(done);
    assert_true(publisher(world, &taken));
    complete(world, &taken);
    assert_false(done);
    assert_true(publisher(world, &taken));
    report_failed(world, &taken, "{\"message\":\"no\",\"class\":\"unavailable\"}");
    assert_true(done);
    assert_int_equal(await.pending, 0);
    assert_int_equal(items[0].state, LETTER_RECOVERED);
    assert_int_equal(items[1].state, LETTER_DEAD);
    assert_int_equal(items[2].state, LETTER_STATE_COUNT);
}

static void nobody_waits_for_ever(void **state)
{
    WORLD(state);
    bool done = false;
    engine_publisher(world->engine, true);
    bring_in(world, "d1", "{}");
    assert_int_equal(retry(world, "d1").status, STATUS_OK);
    struct await_item item = {.dlq_id = SLICE("d1")};
    struct await_command await = {.command = {.kind = COMMAND_AWAIT,
                                              .arena = &world->arena,
                                              .done = note_done,
                                              .owner = &done},
                                  .items = &item,
                                  .count = 1,
                                  .wait = span_seconds(10)};
    engine_submit(world->engine, &await.command);
    engine_step(world->engine);
    world_pass(world, 9000);
    assert_false(done);
    world_pass(world, 1000);
    assert_true(done);
    assert_int_equal(await.pending, 1);
    assert_int_equal(item.state, LETTER_RECOVERING);
}

/* ---- duties ---------------------------------------------------------------------------------- */

static struct duty_command duty(struct world *world, const char *holder, int64_t ttl_s,
                                int64_t cursor)
{
    struct duty_command command = {.name = SLICE("scanner"),
                                   .holder = slice_of(holder),
                                   .ttl = span_seconds(ttl_s),
                                   .advance = cursor > 0,
                                   .cursor = cursor};
    assert_int_equal(run(world, &command.command, COMMAND_DUTY), STATUS_OK);
    return command;
}

static void a_duty_has_one_holder(void **state)
{
    WORLD(state);
    assert_true(duty(world, "a", 30, 7).held);
    struct duty_command other = duty(world, "b", 30, 99);
    assert_false(other.held);
    assert_int_equal(other.cursor, 7);
    assert_int_equal(duty(world, "a", 30, 8).cursor, 8);
    world_pass(world, 29000);
    assert_false(duty(world, "b", 30, 0).held);
    world_pass(world, 1000);
    other = duty(world, "b", 30, 99); /* it takes over where the other was */
    assert_true(other.held);
    assert_int_equal(other.cursor, 8);
    assert_int_equal(duty(world, "b", 30, 99).cursor, 99);
    assert_false(duty(world, "a", 30, 1).held);
    assert_false(duty(world, "b", 0, 0).held); /* given up */
    assert_true(duty(world, "a", 30, 0).held);
    world_reopen(world);
    assert_int_equal(duty(world, "b", 30, 0).cursor, 99);
}

/* ---- elsewhere ------------------------------------------------------------------------------- */

static void what_others_recovered_is_recovered(void **state)
{
    WORLD(state);
    bring_in(world, "d1", "{}");
    struct settle_item items[] = {{.dlq_id = SLICE("d1"), .by = SLICE("old-scanner")},
                                  {.dlq_id = SLICE("none")}};
    struct settle_command command = {
        .command = {.actor = SLICE("swarm_dlq")}, .items = items, .count = 2};
    assert_int_equal(run(world, &command.command, COMMAND_SETTLE), STATUS_OK);
    assert_int_equal(items[0].status, STATUS_OK);
    assert_int_equal(items[1].status, STATUS_NOT_FOUND);
    struct letter after = letter(world, SLICE("d1"));
    assert_int_equal(after.state, LETTER_RECOVERED);
    assert_true(slice_is(after.recovered_by, "old-scanner"));
    assert_int_equal(run(world, &command.command, COMMAND_SETTLE), STATUS_OK);
    assert_int_equal(items[0].status, STATUS_CONFLICT);
    assert_chain_holds(world);
}

static void what_others_forbid_is_not_for_machines(void **state)
{
    WORLD(state);
    bring_in(world, "d1", "{}");
    struct settle_item item = {.dlq_id = SLICE("d1"), .recoverable = NO};
    struct settle_command command = {
        .command = {.actor = SLICE("swarm_dlq")}, .items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_SETTLE), STATUS_OK);
    assert_int_equal(letter(world, SLICE("d1")).state, LETTER_DEAD);
    assert_false(letter(world, SLICE("d1")).recoverable);
    item.recoverable = YES;
    assert_int_equal(run(world, &command.command, COMMAND_SETTLE), STATUS_OK);
    assert_true(letter(world, SLICE("d1")).recoverable);
}

static void long_names_are_bounded(void **state)
{
    WORLD(state);
    static char failure[8192];
    struct buf text;
    buf_init(&text, sizeof(failure));
    buf_add_str(&text, "{\"class\":\"invalid_input\",\"message\":\"m\",\"agent_id\":\"");
    for (int i = 0; i < 1500; i++)
        buf_add_str(&text, "\u00e9");
    buf_add_str(&text, "\",\"error_type\":\"");
    for (int i = 0; i < 3000; i++)
        buf_add_char(&text, 'x');
    buf_add_str(&text, "\"}");
    memcpy(failure, buf_str(&text), text.len + 1);
    buf_release(&text);
    push(world, "{\"action\":\"a\"}");
    struct lease taken = lease(world, NULL);
    struct letter dead = letter(world, report_failed(world, &taken, failure).dlq_id);
    assert_int_equal(dead.error_type.len, LETTER_NAME_MAX);
    assert_int_equal(dead.agent.len, LETTER_NAME_MAX);
    assert_true(json_utf8_valid(dead.agent));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        CASE(letters_go_nowhere_without_a_publisher),
        CASE(a_published_letter_is_recovered),
        CASE(a_letter_on_its_way_is_not_sent_twice),
        CASE(a_refused_letter_is_dead_as_before),
        CASE(a_letter_that_may_have_arrived_is_for_a_person),
        CASE(replays_count_among_the_live),
        CASE(a_lost_publisher_is_replaced),
        CASE(a_restart_goes_on_with_what_was_on_its_way),
        CASE(a_letter_that_keeps_coming_back_needs_a_person),
        CASE(an_edit_is_what_is_published),
        CASE(who_waits_is_answered_with_the_outcome),
        CASE(nobody_waits_for_ever),
        CASE(a_duty_has_one_holder),
        CASE(what_others_recovered_is_recovered),
        CASE(what_others_forbid_is_not_for_machines),
        CASE(long_names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
