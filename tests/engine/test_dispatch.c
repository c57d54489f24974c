/* Dispatched jobs in virtual time: who gets which, who waits for whom, and why nobody came. */
#include "engine/fixture.h"

#include <sqlite3.h>

#include "core/reason.h"
#include "store/faulty.h"

#define WORLD(state) struct world *world = *(state)
#define TIMEOUT_FAILURE "{\"class\":\"timeout\",\"message\":\"timed out after 30 s\"}"
#define DISPATCHED "\"retry_policy\":\"dispatch\",\"action\":\"a\""
#define SECOND 1000 /* in milliseconds */

/* ---- workers --------------------------------------------------------------------------------- */

/* words_of makes a list of words with spaces between, in the world's arena. */
static struct match_list words_of(struct world *world, const char *words)
{
    struct slice *names = arena_array(&world->arena, strlen(words) + 1, sizeof(*names));
    size_t count = 0;
    for (const char *word = words; *word; word += *word == ' ') {
        size_t len = strcspn(word, " ");
        names[count++] = arena_dup(&world->arena, (struct slice){word, len});
        word += len;
    }
    return (struct match_list){names, count};
}

/* struct asker: a worker that asks for jobs. */
struct asker {
    struct lease_command command;
    bool done;
};

static void asker_done(struct command *command)
{
    *(bool *)command->owner = true;
}

/* asker_new is a worker with capabilities, that waits up to a minute for one job. */
static struct asker *asker_new(struct world *world, const char *worker, const char *capabilities)
{
    struct asker *asker = arena_alloc(&world->arena, sizeof(*asker));
    struct match_list can = words_of(world, capabilities);
    asker->command = (struct lease_command){
        .command = {.kind = COMMAND_LEASE,
                    .actor = SLICE("test"),
                    .arena = &world->arena,
                    .done = asker_done,
                    .owner = &asker->done},
        .worker_id = arena_dup(&world->arena, slice_of(worker)),
        .query = {.capabilities = can.names, .capability_count = can.count},
        .max = 1,
        .wait = span_seconds(60),
    };
    return asker;
}

static void submit(struct world *world, struct asker *asker)
{
    engine_submit(world->engine, &asker->command.command);
}

/* ask has a worker wait for a job. */
static struct asker *ask(struct world *world, const char *worker, const char *capabilities)
{
    struct asker *asker = asker_new(world, worker, capabilities);
    submit(world, asker);
    engine_step(world->engine);
    return asker;
}

/* poll has a worker ask without waiting. */
static struct asker *poll(struct world *world, const char *worker, const char *capabilities)
{
    struct asker *asker = asker_new(world, worker, capabilities);
    asker->command.wait = (struct span){0};
    submit(world, asker);
    engine_step(world->engine);
    assert_true(asker->done);
    return asker;
}

/* has says whether a worker was given exactly the job `job_id` (NULL: nothing). */
static bool has(const struct asker *asker, const char *job_id)
{
    if (!job_id)
        return asker->command.count == 0;
    return asker->done && asker->command.count == 1 &&
           slice_is(asker->command.leases[0].job_id, job_id);
}

/* give_up ends the wait of a worker, which goes away. */
static void give_up(struct world *world, struct asker *asker)
{
    engine_abandon(world->engine, &asker->command);
    engine_step(world->engine);
    assert_true(asker->done);
}

static void heartbeat(struct world *world, const struct asker *asker)
{
    struct heartbeat_item item = {.lease_id = slice_of(asker->command.leases[0].lease_id)};
    struct heartbeat_command command = {
        .worker_id = asker->command.worker_id, .items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_HEARTBEAT), STATUS_OK);
    assert_int_equal(item.outcome, HEARTBEAT_EXTENDED);
}

static struct worker_info known(struct world *world, const char *worker)
{
    struct worker_info *list;
    struct err err = {0};
    size_t count;
    assert_int_equal(
        engine_worker_list(world->engine, UNSAID, 1000, &world->arena, &list, &count, &err),
        STATUS_OK);
    for (size_t i = 0; i < count; i++)
        if (slice_is(list[i].worker_id, worker))
            return list[i];
    return (struct worker_info){0};
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* push_needing pushes a dispatched job that requires words with spaces between. */
static void push_needing(struct world *world, const char *job_id, const char *words)
{
    struct match_list list = words_of(world, words);
    struct slice text = arena_printf(
        &world->arena, "{" DISPATCHED ",\"job_id\":\"%s\",\"required_capabilities\":[", job_id);
    for (size_t i = 0; i < list.count; i++)
        text = arena_printf(&world->arena, "%.*s%s\"%.*s\"", SLICE_ARG(text), i ? "," : "",
                            SLICE_ARG(list.names[i]));
    text = arena_printf(&world->arena, "%.*s]}", SLICE_ARG(text));
    struct push_item item = push(world, text.ptr);
    if (item.status)
        fail_msg("%s", item.err.text);
}

static void assert_state(struct world *world, const char *job_id, enum job_state state)
{
    struct job_row row = job(world, job_id);
    if (row.job.state != state)
        fail_msg("%s is %s, not %s", job_id, job_state_name((enum job_state)row.job.state),
                 job_state_name(state));
}

/* letter_of is the letter of a job that is dead. */
static struct letter letter_of(struct world *world, const char *job_id)
{
    assert_state(world, job_id, JOB_DEAD);
    return letter(world, job(world, job_id).dlq_id);
}

static void assert_reason(struct world *world, const char *job_id, const char *reason,
                          const char *detail)
{
    struct letter dead = letter_of(world, job_id);
    if (!slice_is(dead.reason, reason) || !slice_is(dead.reason_detail, detail))
        fail_msg("%.*s: %.*s", SLICE_ARG(dead.reason), SLICE_ARG(dead.reason_detail));
}

/* failed reports that the run of a worker failed. */
static void failed(struct world *world, const struct asker *asker)
{
    report_failed(world, &asker->command.leases[0], TIMEOUT_FAILURE);
}

/* ---- who gets it ----------------------------------------------------------------------------- */

static void a_job_without_hints_is_taken_by_whoever_asks(void **state)
{
    WORLD(state);
    push_needing(world, "picky", "a b");
    push(world, "{\"action\":\"a\",\"job_id\":\"plain\"}");
    struct asker *first = poll(world, "w1", "");
    assert_true(has(first, "plain"));
    assert_string_equal(what_happened(world, "plain"), "pushed leased");
    assert_state(world, "picky", JOB_PENDING);
}

static void the_best_of_three_gets_the_job(void **state)
{
    WORLD(state);
    struct asker *part = ask(world, "part", "a");
    struct asker *more = ask(world, "more", "a b c d");
    struct asker *right = ask(world, "right", "a b");
    push_needing(world, "J", "a b");
    assert_true(has(part, NULL) && has(more, NULL));
    assert_true(has(right, "J"));
    assert_true(slice_is(right->command.leases[0].match, "best"));
    push_needing(world, "K", "b a");
    assert_true(has(more, "K"));
    push_needing(world, "L", "b a");
    assert_true(has(part, NULL));
    assert_state(world, "L", JOB_PENDING);
}

static void a_worker_that_comes_later_gets_what_waits_for_it(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a");
    assert_true(has(poll(world, "other", "b"), NULL));
    assert_true(has(poll(world, "right", "a"), "J"));
    assert_string_equal(what_happened(world, "J"), "pushed leased");
}

static void who_runs_less_gets_more(void **state)
{
    WORLD(state);
    struct asker *askers[3];
    static const char *const names[] = {"x", "y", "z"};
    for (int i = 0; i < 3; i++) {
        askers[i] = asker_new(world, names[i], "a");
        askers[i]->command.max = 10;
        submit(world, askers[i]);
    }
    engine_step(world->engine);
    struct push_item items[6] = {0};
    struct push_command command = {.items = items, .count = 6};
    struct err err = {0};
    for (int i = 0; i < 6; i++)
        assert_int_equal(envelope_parse(SLICE("{" DISPATCHED "}"), ENVELOPE_BODY_MAX, &world->arena,
                                        &items[i].envelope, &err),
                         STATUS_OK);
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(askers[i]->command.count, 2);
        assert_int_equal(known(world, names[i]).running, 2);
    }
}

static void among_equals_the_longest_idle_gets_it(void **state)
{
    WORLD(state);
    push_needing(world, "first", "a");
    struct asker *busy = poll(world, "busy", "a");
    assert_true(has(busy, "first"));
    world_pass(world, SECOND);
    struct asker *idle = ask(world, "idle", "a");
    world_pass(world, SECOND);
    complete(world, &busy->command.leases[0]);
    struct asker *again = ask(world, "busy", "a");
    push_needing(world, "second", "a");
    assert_true(has(idle, "second"));
    assert_true(has(again, NULL));
}

static void only_workers_of_the_queue_get_the_job(void **state)
{
    WORLD(state);
    struct slice mail = SLICE("mail"), print = SLICE("print");
    struct asker *other = asker_new(world, "other", ""), *right = asker_new(world, "right", "x");
    other->command.query.queues = &print;
    right->command.query.queues = &mail;
    other->command.query.queue_count = right->command.query.queue_count = 1;
    submit(world, other);
    submit(world, right);
    engine_step(world->engine);
    push(world, "{" DISPATCHED ",\"job_id\":\"J\",\"queue\":\"mail\"}");
    assert_true(has(other, NULL));
    assert_true(has(right, "J"));
}

static void dispatched_jobs_go_by_priority_and_then_by_age(void **state)
{
    WORLD(state);
    static const char *const order[] = {"high", "first", "second", "low"};
    push(world, "{" DISPATCHED ",\"job_id\":\"low\",\"priority\":1}");
    push(world, "{" DISPATCHED ",\"job_id\":\"first\"}");
    push(world, "{" DISPATCHED ",\"job_id\":\"second\",\"required_capabilities\":[\"a\"]}");
    push(world, "{" DISPATCHED ",\"job_id\":\"high\",\"priority\":9}");
    for (int i = 0; i < 4; i++)
        assert_true(has(poll(world, "w", "a"), order[i]));
}

static void priorities_hold_across_both_kinds_of_jobs(void **state)
{
    WORLD(state);
    static const char *const order[] = {"p9", "d5", "p5", "d1", "p0"};
    push(world, "{\"action\":\"a\",\"job_id\":\"p0\",\"priority\":0}");
    push(world, "{" DISPATCHED ",\"job_id\":\"d5\",\"priority\":5}");
    push(world, "{\"action\":\"a\",\"job_id\":\"p5\",\"priority\":5}");
    push(world, "{" DISPATCHED ",\"job_id\":\"d1\",\"priority\":1}");
    push(world, "{\"action\":\"a\",\"job_id\":\"p9\",\"priority\":9}");
    for (int i = 0; i < 5; i++)
        assert_true(has(poll(world, "w", ""), order[i]));
    push(world, "{" DISPATCHED ",\"job_id\":\"d\"}");
    push(world, "{\"action\":\"a\",\"job_id\":\"p\",\"priority\":9}");
    struct asker *both = asker_new(world, "w", "");
    both->command.max = 10;
    submit(world, both);
    engine_step(world->engine);
    assert_int_equal(both->command.count, 2);
    assert_true(slice_is(both->command.leases[0].job_id, "p"));
    assert_true(slice_is(both->command.leases[1].job_id, "d"));
}

static void a_parked_worker_that_is_full_of_others_leaves_the_job_to_the_next(void **state)
{
    WORLD(state);
    struct asker *first = ask(world, "first", ""), *second = ask(world, "second", "");
    struct push_item items[2] = {0};
    struct push_command command = {.items = items, .count = 2};
    struct err err = {0};
    assert_int_equal(envelope_parse(SLICE("{" DISPATCHED ",\"job_id\":\"D\"}"), ENVELOPE_BODY_MAX,
                                    &world->arena, &items[0].envelope, &err),
                     STATUS_OK);
    assert_int_equal(envelope_parse(SLICE("{\"action\":\"a\",\"job_id\":\"P\",\"priority\":9}"),
                                    ENVELOPE_BODY_MAX, &world->arena, &items[1].envelope, &err),
                     STATUS_OK);
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    assert_true(has(first, "P"));
    assert_true(has(second, "D"));
}

static void a_lease_that_was_abandoned_gets_nothing(void **state)
{
    WORLD(state);
    struct asker *gone = ask(world, "gone", "a");
    engine_abandon(world->engine, &gone->command);
    push_needing(world, "J", "a");
    assert_true(gone->done && has(gone, NULL));
    assert_state(world, "J", JOB_PENDING);
}

static void a_job_that_is_cancelled_is_given_to_nobody(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a");
    struct cancel_command cancel = {.job_id = SLICE("J")};
    assert_int_equal(run(world, &cancel.command, COMMAND_CANCEL), STATUS_OK);
    assert_state(world, "J", JOB_CANCELLED);
    assert_true(has(poll(world, "w", "a"), NULL));
    world_pass(world, 60 * SECOND);
    assert_state(world, "J", JOB_CANCELLED);
}

static void jobs_that_nobody_here_can_do_do_not_stand_in_the_way(void **state)
{
    WORLD(state);
    enum { MANY = 1500 };
    struct push_item *items = arena_array(&world->arena, MANY, sizeof(*items));
    struct push_command command = {.items = items, .count = MANY};
    struct err err = {0};
    for (int i = 0; i < MANY; i++)
        assert_int_equal(
            envelope_parse(SLICE("{" DISPATCHED ",\"required_capabilities\":[\"rare\"]}"),
                           ENVELOPE_BODY_MAX, &world->arena, &items[i].envelope, &err),
            STATUS_OK);
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    push_needing(world, "J", "common");
    assert_true(has(poll(world, "w", "common"), "J"));
}

/* ---- the next attempt ------------------------------------------------------------------------ */

static void the_second_attempt_goes_to_another_worker(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a");
    struct asker *first = poll(world, "w1", "a");
    failed(world, first);
    world_pass(world, 9 * SECOND);
    struct asker *again = ask(world, "w1", "a");
    struct asker *other = ask(world, "w2", "a x y z");
    assert_true(has(again, NULL) && has(other, NULL));
    world_pass(world, SECOND);
    assert_true(has(again, NULL));
    assert_true(has(other, "J"));
    assert_true(slice_is(other->command.leases[0].match, "rescore"));
    assert_int_equal(other->command.leases[0].attempt, 2);
}

static void the_worker_that_failed_gets_it_again_when_nobody_else_can_do_it(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a b");
    failed(world, poll(world, "w1", "a b"));
    struct asker *again = ask(world, "w1", "a b"), *other = ask(world, "w2", "a");
    world_pass(world, 10 * SECOND);
    assert_true(has(again, "J"));
    assert_true(has(other, NULL));
}

static void a_report_that_names_another_agent_does_not_hide_who_failed(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a");
    struct asker *first = poll(world, "w1", "a");
    report_failed(world, &first->command.leases[0],
                  "{\"message\":\"m\",\"class\":\"timeout\",\"agent_id\":\"soul-7\"}");
    world_reopen(world);
    struct asker *again = ask(world, "w1", "a"), *other = ask(world, "w2", "a");
    world_pass(world, 10 * SECOND);
    assert_true(has(again, NULL));
    assert_true(has(other, "J"));
}

static void a_busy_worker_is_preferred_to_the_one_that_failed_for_half_of_the_time(void **state)
{
    WORLD(state);
    push_needing(world, "other", "a");
    struct asker *busy = poll(world, "busy", "a");
    heartbeat(world, busy);
    push_needing(world, "J", "a");
    failed(world, poll(world, "w1", "a"));
    struct asker *again = ask(world, "w1", "a");
    world_pass(world, 10 * SECOND);
    assert_true(has(again, NULL));
    world_pass(world, 15 * SECOND - 1);
    assert_true(has(again, NULL));
    assert_int_equal(engine_next_wake(world->engine).us, world->wall.us + 1000);
    world_pass(world, 1);
    assert_true(has(again, "J"));
}

static void the_third_attempt_takes_seven_of_ten(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a b c d e f g h i j");
    push_needing(world, "K", "k l m n o p q r s t u v w");
    struct asker *seven = asker_new(world, "seven", "a b c d e f g");
    struct asker *nine = asker_new(world, "nine", "k l m n o p q r s"); /* 9 of 13 is 0.69 */
    seven->command.wait = nine->command.wait = span_seconds(600);
    submit(world, seven);
    submit(world, nine);
    world_pass(world, 30 * SECOND); /* nobody for attempt 1 */
    world_pass(world, 10 * SECOND);
    world_pass(world, 30 * SECOND); /* nor for attempt 2 */
    assert_true(has(seven, NULL));
    assert_int_equal(job(world, "J").job.attempt, 2);
    world_pass(world, 30 * SECOND);
    assert_true(has(seven, "J"));
    assert_true(slice_is(seven->command.leases[0].match, "broadened"));
    assert_int_equal(seven->command.leases[0].attempt, 3);
    world_pass(world, 30 * SECOND);
    assert_true(has(nine, NULL));
    assert_reason(world, "K", REASON_NO_CAPABLE_AGENT,
                  "No live worker has 70 % of [k, l, m, n, o, p, q, r, s, t, u, v, w]; the best "
                  "has 9 of 13");
}

static void a_replay_begins_with_the_best_again(void **state)
{
    WORLD(state);
    push(world, "{" DISPATCHED ",\"job_id\":\"J\",\"retry_eligible\":false}");
    struct asker *first = poll(world, "w1", "");
    failed(world, first);
    struct letter dead = letter_of(world, "J");
    assert_int_equal(review(world, REVIEW_RETRY, dead.dlq_id).status, STATUS_OK);
    struct asker *again = poll(world, "w1", "");
    assert_true(has(again, "J"));
    assert_true(slice_is(again->command.leases[0].match, "best"));
    assert_int_equal(again->command.leases[0].attempt, 2);
}

static void a_job_that_is_given_back_is_dispatched_anew(void **state)
{
    WORLD(state);
    push_needing(world, "J", "a");
    struct asker *first = poll(world, "w1", "a");
    world_pass(world, 20 * SECOND);
    struct release_item item = {.lease_id = slice_of(first->command.leases[0].lease_id)};
    struct release_command release = {.items = &item, .count = 1};
    assert_int_equal(run(world, &release.command, COMMAND_RELEASE), STATUS_OK);
    assert_int_equal(known(world, "w1").running, 0);
    world_pass(world, 30 * SECOND - 1);
    assert_state(world, "J", JOB_PENDING);
    assert_true(has(poll(world, "w2", "a"), "J"));
    assert_int_equal(job(world, "J").job.attempt, 1);
}

/* ---- who is waited for ----------------------------------------------------------------------- */

static void a_job_is_held_for_a_better_worker_between_two_polls(void **state)
{
    WORLD(state);
    poll(world, "right", "a");
    struct asker *more = ask(world, "more", "a b c");
    push_needing(world, "J", "a");
    assert_true(has(more, NULL));
    world_pass(world, SECOND - 1);
    assert_true(has(more, NULL));
    struct asker *right = poll(world, "right", "a");
    assert_true(has(right, "J"));
    assert_true(has(more, NULL));
}

static void after_a_second_the_best_that_asks_gets_it(void **state)
{
    WORLD(state);
    poll(world, "right", "a");
    struct asker *more = ask(world, "more", "a b c");
    push_needing(world, "J", "a");
    assert_true(has(more, NULL));
    assert_int_equal(engine_next_wake(world->engine).us, world->wall.us + 1000000);
    world_pass(world, SECOND);
    assert_true(has(more, "J"));
    /* It did not come, so it is not waited for again, */
    push_needing(world, "K", "a");
    assert_true(has(poll(world, "more", "a b c"), "K"));
    /* until it is seen. */
    poll(world, "right", "a");
    push_needing(world, "L", "a");
    assert_true(has(poll(world, "more", "a b c"), NULL));
}

static void one_job_is_held_for_a_worker_and_not_all_of_them(void **state)
{
    WORLD(state);
    poll(world, "right", "a");
    push_needing(world, "J", "a");
    push_needing(world, "K", "a");
    assert_true(has(poll(world, "more", "a b c"), "K"));
    assert_state(world, "J", JOB_PENDING);
}

static void a_worker_that_is_as_good_is_not_waited_for(void **state)
{
    WORLD(state);
    poll(world, "idle", "a"); /* idle for longer, and not there */
    world_pass(world, 10 * SECOND);
    struct asker *here = ask(world, "here", "a");
    push_needing(world, "J", "a");
    assert_true(has(here, "J"));
}

static void a_busy_worker_is_not_waited_for(void **state)
{
    WORLD(state);
    push_needing(world, "first", "a");
    assert_true(has(poll(world, "right", "a"), "first"));
    struct asker *more = ask(world, "more", "a b c");
    push_needing(world, "J", "a");
    assert_true(has(more, "J"));
}

static void a_worker_that_was_not_seen_for_a_minute_is_not_waited_for(void **state)
{
    WORLD(state);
    poll(world, "right", "a");
    world_pass(world, 60 * SECOND);
    push_needing(world, "J", "a");
    assert_true(has(poll(world, "more", "a b c"), "J"));
}

static void a_short_time_to_be_assigned_is_not_used_up_by_holding(void **state)
{
    WORLD(state);
    poll(world, "right", "a");
    struct asker *more = ask(world, "more", "a b c");
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"required_capabilities\":[\"a\"],"
                "\"retry_policy\":{\"assignment_timeout_seconds\":0.2,"
                "\"hints\":[{\"match\":\"best\"}]}}");
    world_pass(world, 99);
    assert_true(has(more, NULL));
    world_pass(world, 1);
    assert_true(has(more, "J"));
}

/* ---- why nobody has it ----------------------------------------------------------------------- */

static void without_a_capable_worker_each_attempt_fails_and_the_last_reason_stands(void **state)
{
    WORLD(state);
    push_needing(world, "J", "research competitor-analysis");
    assert_int_equal(engine_next_wake(world->engine).us, world->wall.us + 30000000);
    world_pass(world, 30 * SECOND);
    struct job_row row = job(world, "J");
    assert_int_equal(row.job.state, JOB_SCHEDULED);
    assert_int_equal(row.job.attempt, 1);
    assert_int_equal(row.job.due_at.us, world->wall.us + 10000000);
    world_pass(world, 10 * SECOND);
    world_pass(world, 30 * SECOND);
    row = job(world, "J");
    assert_int_equal(row.job.attempt, 2);
    assert_int_equal(row.job.due_at.us, world->wall.us + 30000000);
    world_pass(world, 30 * SECOND);
    poll(world, "w", "research");
    world_pass(world, 30 * SECOND);
    assert_reason(
        world, "J", REASON_NO_CAPABLE_AGENT,
        "No live worker has 70 % of [research, competitor-analysis]; the best has 1 of 2");
    struct letter dead = letter_of(world, "J");
    assert_int_equal(dead.failure_count, 3);
    assert_true(dead.recoverable);
    assert_true(slice_is(dead.error_type, "Unassigned"));
    assert_string_equal(what_happened(world, "J"),
                        "pushed retry-scheduled retry-scheduled dead-lettered");
    assert_chain_holds(world);
}

#define ONCE(more)                                                                                 \
    "{\"action\":\"a\",\"job_id\":\"J\",\"retry_policy\":{\"max_attempts\":1,"                     \
    "\"hints\":[{\"match\":\"best\"}]}" more "}"

static void what_the_live_workers_lack_is_told(void **state)
{
    WORLD(state);
    static const struct {
        const char *id, *more, *detail;
    } cases[] = {
        {"1", ",\"queue\":\"q\"", "No live worker takes jobs of queue \"q\""},
        {"2", ",\"queue\":\"q\",\"required_capabilities\":[\"b\",\"a\"]",
         "No live worker has [b, a]: none takes jobs of queue \"q\""},
        {"3", ",\"required_capabilities\":[\"a\",\"a\",\"b\",\"c\"]",
         "No live worker has [a, a, b, c]; the best has 2 of 3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slice text =
            arena_printf(&world->arena,
                         "{\"action\":\"a\",\"job_id\":\"%s\",\"retry_policy\":{\"max_attempts\":1,"
                         "\"hints\":[{\"match\":\"best\"}]}%s}",
                         cases[i].id, cases[i].more);
        assert_int_equal(push(world, text.ptr).status, STATUS_OK);
    }
    struct slice queue = SLICE("default");
    struct asker *here = asker_new(world, "w", "a b x");
    here->command.query.queues = &queue;
    here->command.query.queue_count = 1;
    submit(world, here);
    engine_step(world->engine);
    world_pass(world, 30 * SECOND);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_reason(world, cases[i].id, REASON_NO_CAPABLE_AGENT, cases[i].detail);
}

static void a_capable_worker_that_does_not_come_is_unavailable(void **state)
{
    WORLD(state);
    push(world, "{" DISPATCHED ",\"job_id\":\"first\",\"required_capabilities\":[\"a\"]}");
    struct asker *busy = poll(world, "busy", "a");
    heartbeat(world, busy);
    push(world, ONCE(",\"required_capabilities\":[\"a\"]"));
    world_pass(world, 20 * SECOND);
    heartbeat(world, busy);
    world_pass(world, 10 * SECOND);
    assert_reason(world, "J", REASON_ALL_AGENTS_UNAVAILABLE,
                  "1 live worker could do it, and none came for it within 30 seconds");
    assert_true(letter_of(world, "J").recoverable);
}

static void a_job_that_no_capable_worker_may_see_is_denied_at_once(void **state)
{
    WORLD(state);
    struct asker *right = asker_new(world, "right", "a");
    right->command.scopes = words_of(world, "legal hr");
    right->command.permissions = words_of(world, "read");
    submit(world, right);
    push(world, "{" DISPATCHED ",\"job_id\":\"J\",\"scope_lock\":\"finance\","
                "\"required_capabilities\":[\"a\"]}");
    push(world, "{" DISPATCHED ",\"job_id\":\"K\",\"scope_lock\":\"legal\","
                "\"permissions\":[\"read\",\"write\"]}");
    ask(world, "free", "b");
    assert_state(world, "K", JOB_RUNNING); /* who declares nothing sees everything */
    push(world, "{" DISPATCHED ",\"job_id\":\"L\",\"scope_lock\":\"legal\","
                "\"permissions\":[\"read\",\"write\"],\"required_capabilities\":[\"a\"]}");
    assert_true(has(right, NULL));
    world_pass(world, 30 * SECOND);
    assert_reason(world, "J", REASON_POLICY_DENIED,
                  "1 live worker could do it, and none covers the scope \"finance\"");
    assert_reason(world, "L", REASON_POLICY_DENIED,
                  "1 live worker could do it, and none covers the permissions [read, write]");
    assert_true(letter_of(world, "J").review);
    assert_int_equal(letter_of(world, "J").failure_count, 1);
    push(world, "{" DISPATCHED ",\"job_id\":\"M\",\"scope_lock\":\"legal\","
                "\"permissions\":[\"read\"],\"required_capabilities\":[\"a\"]}");
    assert_true(has(right, "M"));
}

static void a_job_that_its_worker_never_began_says_so(void **state)
{
    WORLD(state);
    push(world, ONCE(""));
    assert_true(has(poll(world, "w", ""), "J"));
    world_pass(world, 30 * SECOND);
    assert_reason(world, "J", REASON_TIMEOUT_ASSIGNED,
                  "the worker never started the job: its lease ended without a heartbeat");
}

static void a_job_that_its_worker_did_not_finish_says_so(void **state)
{
    WORLD(state);
    push(world, ONCE(",\"constraints\":{\"max_runtime_seconds\":10}"));
    heartbeat(world, poll(world, "w", ""));
    world_pass(world, 10 * SECOND);
    assert_reason(world, "J", REASON_TIMEOUT_IN_PROGRESS,
                  "the job ran longer than its max_runtime_seconds");
}

static void a_job_whose_worker_was_lost_says_so(void **state)
{
    WORLD(state);
    push(world, ONCE(""));
    heartbeat(world, poll(world, "w", ""));
    world_pass(world, 30 * SECOND);
    assert_reason(world, "J", REASON_AGENT_CRASHED,
                  "the worker was lost: its lease ended without a result");
    assert_int_equal(known(world, "w").running, 0);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void after_a_restart_the_time_begins_anew(void **state)
{
    WORLD(state);
    push(world, ONCE(""));
    world_pass(world, 29 * SECOND);
    world->wall.us += 3600 * INT64_C(1000000);
    world->steady.us += 3600 * INT64_C(1000000);
    world_reopen(world);
    world_pass(world, 30 * SECOND - 1);
    assert_state(world, "J", JOB_PENDING);
    world_pass(world, 1);
    assert_state(world, "J", JOB_DEAD);
}

static void a_paused_queue_holds_the_time(void **state)
{
    WORLD(state);
    push(world, ONCE(""));
    struct queue_command pause = {.queue = SLICE("default"), .paused = true};
    run(world, &pause.command, COMMAND_QUEUE);
    world_pass(world, 3600 * SECOND);
    assert_state(world, "J", JOB_PENDING);
    assert_true(has(poll(world, "w", ""), NULL));
    struct queue_command resume = {.queue = SLICE("default"), .paused = false};
    struct asker *waiting = ask(world, "w", "");
    run(world, &resume.command, COMMAND_QUEUE);
    assert_true(has(waiting, "J"));
}

static void a_queue_that_goes_on_gives_its_jobs_their_time_again(void **state)
{
    WORLD(state);
    push(world, ONCE(""));
    struct queue_command pause = {.queue = SLICE("default"), .paused = true};
    run(world, &pause.command, COMMAND_QUEUE);
    world_pass(world, 3600 * SECOND);
    struct queue_command resume = {.queue = SLICE("default"), .paused = false};
    run(world, &resume.command, COMMAND_QUEUE);
    world_pass(world, 30 * SECOND - 1);
    assert_state(world, "J", JOB_PENDING);
    world_pass(world, 1);
    assert_state(world, "J", JOB_DEAD);
}

static void a_clock_that_jumps_does_not_use_the_time_up(void **state)
{
    WORLD(state);
    push(world, ONCE(""));
    world_pass(world, 10 * SECOND);
    world_jump(world, 7200);
    assert_state(world, "J", JOB_PENDING);
    world_pass(world, 20 * SECOND - 1);
    assert_state(world, "J", JOB_PENDING);
    world_jump(world, -86400);
    world_pass(world, 1);
    assert_state(world, "J", JOB_DEAD);
}

static void a_job_for_a_time_of_day_has_its_time_from_then_on(void **state)
{
    WORLD(state);
    push(world, ONCE(",\"run_at\":\"2026-02-13T06:23:00Z\"")); /* in a minute */
    world_pass(world, 60 * SECOND);
    world_pass(world, 30 * SECOND - 1);
    assert_state(world, "J", JOB_PENDING);
    world_pass(world, 1);
    assert_state(world, "J", JOB_DEAD);
}

static void the_policy_says_how_long_a_job_waits(void **state)
{
    WORLD(state);
    push(world, "{\"action\":\"a\",\"job_id\":\"J\",\"retry_policy\":{\"max_attempts\":1,"
                "\"assignment_timeout_seconds\":0.2,\"hints\":[{\"match\":\"best\"}]}}");
    world_pass(world, 199);
    assert_state(world, "J", JOB_PENDING);
    world_pass(world, 1);
    assert_reason(world, "J", REASON_NO_CAPABLE_AGENT,
                  "No live worker takes jobs of queue \"default\"");
}

/* ---- the registry ---------------------------------------------------------------------------- */

static void a_worker_is_known_by_what_it_does(void **state)
{
    WORLD(state);
    struct worker_info info = known(world, "w");
    assert_int_equal(info.worker_id.len, 0);
    struct asker *waiting = ask(world, "w", "a b");
    info = known(world, "w");
    assert_true(info.live);
    assert_int_equal(info.waiting, 1);
    assert_int_equal(info.running, 0);
    assert_int_equal(info.capabilities.count, 2);
    assert_int_equal(info.last_seen.us, world->wall.us);
    push_needing(world, "J", "a");
    assert_true(has(waiting, "J"));
    info = known(world, "w");
    assert_int_equal(info.waiting, 0);
    assert_int_equal(info.running, 1);
    world_pass(world, 20 * SECOND);
    heartbeat(world, waiting);
    assert_int_equal(known(world, "w").last_seen.us, world->wall.us);
    world_pass(world, 20 * SECOND);
    complete(world, &waiting->command.leases[0]);
    info = known(world, "w");
    assert_int_equal(info.last_seen.us, world->wall.us);
    assert_int_equal(info.running, 0);
    world_pass(world, 60 * SECOND - 1);
    assert_true(known(world, "w").live);
    world_pass(world, 1);
    assert_false(known(world, "w").live);
}

static void a_worker_may_register_without_asking(void **state)
{
    WORLD(state);
    struct err err = {0};
    struct worker_info info = {.worker_id = SLICE("w"),
                               .capabilities = words_of(world, "a"),
                               .scopes = words_of(world, "legal"),
                               .ttl = span_seconds(5)};
    assert_int_equal(engine_worker_set(world->engine, &info, &err), STATUS_OK);
    assert_true(info.live);
    /* Its lease need not say it again. */
    push(world, "{" DISPATCHED ",\"job_id\":\"J\",\"scope_lock\":\"finance\","
                "\"required_capabilities\":[\"a\"]}");
    push(world, "{" DISPATCHED ",\"job_id\":\"K\",\"scope_lock\":\"legal\","
                "\"required_capabilities\":[\"a\"]}");
    assert_true(has(poll(world, "w", ""), "K"));
    world_pass(world, 30 * SECOND);
    assert_false(known(world, "w").live);
    struct worker_info nobody = {0};
    assert_int_equal(engine_worker_set(world->engine, &nobody, &err), STATUS_INVALID);
    assert_string_equal(err.text, "worker_id: must not be empty");
}

static void a_worker_that_went_away_leaves_the_list_of_the_live(void **state)
{
    WORLD(state);
    struct asker *gone = ask(world, "gone", "a");
    world_pass(world, 50 * SECOND);
    assert_true(known(world, "gone").live);
    give_up(world, gone);
    assert_int_equal(known(world, "gone").waiting, 0);
    world_pass(world, 10 * SECOND); /* it was last heard of when it asked */
    assert_false(known(world, "gone").live);
}

static void no_more_workers_are_remembered_than_there_is_room_for(void **state)
{
    WORLD(state);
    struct err err = {0};
    struct asker *holds = ask(world, "holds", "a");
    for (int i = 0; i < 10100; i++) {
        struct worker_info info = {.worker_id = arena_printf(&world->arena, "w%d", i)};
        assert_int_equal(engine_worker_set(world->engine, &info, &err), STATUS_OK);
    }
    struct worker_info *list;
    size_t count;
    assert_int_equal(
        engine_worker_list(world->engine, YES, 20000, &world->arena, &list, &count, &err),
        STATUS_OK);
    assert_int_equal(count, 10000);
    assert_true(slice_is(list[0].worker_id, "w10099"));
    assert_int_equal(known(world, "w0").worker_id.len, 0); /* unseen for the longest */
    push_needing(world, "J", "a");
    assert_true(has(holds, "J")); /* who waits stays */
}

/* ---- trouble --------------------------------------------------------------------------------- */

static void a_batch_that_fails_gives_nothing_away(void **state)
{
    WORLD(state);
    world->seams.vfs = FAULTY_VFS;
    world_reopen(world);
    struct asker *waiting = ask(world, "w", "a");
    struct push_item item = {0};
    struct push_command command = {.items = &item, .count = 1};
    struct err err = {0};
    assert_int_equal(envelope_parse(SLICE("{" DISPATCHED ",\"job_id\":\"J\"}"), ENVELOPE_BODY_MAX,
                                    &world->arena, &item.envelope, &err),
                     STATUS_OK);
    faulty.write = SQLITE_FULL;
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_FULL);
    faulty.write = 0;
    assert_true(has(waiting, NULL));
    assert_false(waiting->done);
    assert_int_equal(known(world, "w").running, 0);
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    assert_true(has(waiting, "J"));
    assert_int_equal(known(world, "w").running, 1);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static size_t envelopes_read;
static enum status (*envelope_get_real)(struct store *, int64_t, struct arena *,
                                        struct stored_envelope *, struct err *);

static enum status envelope_get_counted(struct store *store, int64_t seq, struct arena *arena,
                                        struct stored_envelope *out, struct err *err)
{
    envelopes_read++;
    return envelope_get_real(store, seq, arena, out, err);
}

static enum status count_reads(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    (void)engine, (void)ctx, (void)arena, (void)err;
    envelope_get_real = store->envelope_get;
    store->envelope_get = envelope_get_counted;
    envelopes_read = 0;
    return STATUS_OK;
}

static void
a_thousand_jobs_and_a_hundred_workers_are_matched_without_reading_them_again(void **state)
{
    WORLD(state);
    enum { JOBS = 1000, WORKERS = 100 };
    struct push_item *items = arena_array(&world->arena, JOBS, sizeof(*items));
    struct push_command command = {.items = items, .count = JOBS};
    struct read_command read = {.read = count_reads};
    struct err err = {0};
    char name[16];
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(
            envelope_parse(SLICE("{" DISPATCHED ",\"required_capabilities\":[\"a\",\"b\"]}"),
                           ENVELOPE_BODY_MAX, &world->arena, &items[i].envelope, &err),
            STATUS_OK);
    assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    assert_int_equal(run(world, &read.command, COMMAND_READ), STATUS_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WORKERS; i++) {
            snprintf(name, sizeof(name), "half-%d", i);
            assert_true(has(poll(world, name, "a"), NULL)); /* half is not enough */
        }
    }
    assert_int_equal(envelopes_read, JOBS);
    struct asker *askers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof(name), "whole-%d", i);
        askers[i] = asker_new(world, name, "a b");
        askers[i]->command.max = 10;
        submit(world, askers[i]);
    }
    engine_step(world->engine);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(askers[i]->command.count, 10);
    assert_int_equal(envelopes_read, 2 * JOBS); /* each once more, to be handed out */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_without_hints_is_taken_by_whoever_asks),
        TEST(the_best_of_three_gets_the_job),
        TEST(a_worker_that_comes_later_gets_what_waits_for_it),
        TEST(who_runs_less_gets_more),
        TEST(among_equals_the_longest_idle_gets_it),
        TEST(only_workers_of_the_queue_get_the_job),
        TEST(dispatched_jobs_go_by_priority_and_then_by_age),
        TEST(priorities_hold_across_both_kinds_of_jobs),
        TEST(a_parked_worker_that_is_full_of_others_leaves_the_job_to_the_next),
        TEST(a_lease_that_was_abandoned_gets_nothing),
        TEST(a_job_that_is_cancelled_is_given_to_nobody),
        TEST(jobs_that_nobody_here_can_do_do_not_stand_in_the_way),
        TEST(the_second_attempt_goes_to_another_worker),
        TEST(the_worker_that_failed_gets_it_again_when_nobody_else_can_do_it),
        TEST(a_report_that_names_another_agent_does_not_hide_who_failed),
        TEST(a_busy_worker_is_preferred_to_the_one_that_failed_for_half_of_the_time),
        TEST(the_third_attempt_takes_seven_of_ten),
        TEST(a_replay_begins_with_the_best_again),
        TEST(a_job_that_is_given_back_is_dispatched_anew),
        TEST(a_job_is_held_for_a_better_worker_between_two_polls),
        TEST(after_a_second_the_best_that_asks_gets_it),
        TEST(one_job_is_held_for_a_worker_and_not_all_of_them),
        TEST(a_worker_that_is_as_good_is_not_waited_for),
        TEST(a_busy_worker_is_not_waited_for),
        TEST(a_worker_that_was_not_seen_for_a_minute_is_not_waited_for),
        TEST(a_short_time_to_be_assigned_is_not_used_up_by_holding),
        TEST(without_a_capable_worker_each_attempt_fails_and_the_last_reason_stands),
        TEST(what_the_live_workers_lack_is_told),
        TEST(a_capable_worker_that_does_not_come_is_unavailable),
        TEST(a_job_that_no_capable_worker_may_see_is_denied_at_once),
        TEST(a_job_that_its_worker_never_began_says_so),
        TEST(a_job_that_its_worker_did_not_finish_says_so),
        TEST(a_job_whose_worker_was_lost_says_so),
        TEST(after_a_restart_the_time_begins_anew),
        TEST(a_paused_queue_holds_the_time),
        TEST(a_queue_that_goes_on_gives_its_jobs_their_time_again),
        TEST(a_clock_that_jumps_does_not_use_the_time_up),
        TEST(a_job_for_a_time_of_day_has_its_time_from_then_on),
        TEST(the_policy_says_how_long_a_job_waits),
        TEST(a_worker_is_known_by_what_it_does),
        TEST(a_worker_may_register_without_asking),
        TEST(a_worker_that_went_away_leaves_the_list_of_the_live),
        TEST(no_more_workers_are_remembered_than_there_is_room_for),
        TEST(a_batch_that_fails_gives_nothing_away),
        TEST(a_thousand_jobs_and_a_hundred_workers_are_matched_without_reading_them_again),
    };
    faulty_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
