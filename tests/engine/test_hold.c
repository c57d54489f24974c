/* Held retries: a letter that waits for the outcome of its replay; and what is left of a run. */
#include "engine/fixture.h"

#include "core/event.h"

#define WORLD(state) struct world *world = *(state)
#define INPUT_FAILURE "{\"class\":\"invalid_input\",\"message\":\"no such field\"}"
#define TIMEOUT_FAILURE "{\"class\":\"timeout\",\"message\":\"timed out\"}"

/* dead pushes a job and quarantines it at once; the answer is its dlq_id. */
static struct slice dead(struct world *world, const char *envelope)
{
    assert_int_equal(push(world, envelope).status, STATUS_OK);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, INPUT_FAILURE);
    assert_int_equal(result.state, JOB_DEAD);
    return result.dlq_id;
}

/* hold brings letters back, by "bob", and holds them. */
static void hold(struct world *world, struct review_item *items, size_t count)
{
    struct review_command command = {.command = {.actor = SLICE("bob")},
                                     .action = REVIEW_RETRY,
                                     .items = items,
                                     .count = count,
                                     .hold = true};
    assert_int_equal(run(world, &command.command, COMMAND_REVIEW), STATUS_OK);
    for (size_t i = 0; i < count; i++)
        if (items[i].status)
            fail_msg("%s", items[i].err.text);
}

static void hold_one(struct world *world, struct slice dlq_id)
{
    hold(world, &(struct review_item){.dlq_id = dlq_id}, 1);
}

static void cancel(struct world *world, const char *job_id, const char *actor)
{
    struct cancel_command command = {.command = {.actor = slice_of(actor)},
                                     .job_id = slice_of(job_id)};
    assert_int_equal(run(world, &command.command, COMMAND_CANCEL), STATUS_OK);
}

/* ---- reads ----------------------------------------------------------------------------------- */

struct counts {
    int64_t by_state[LETTER_STATE_COUNT];
    int64_t in_groups;
    size_t open;
};

static enum status read_counts(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct counts *counts = ctx;
    struct letter_count *rows;
    struct letter_group *groups;
    struct letter *letters;
    struct letter_filter open = {.open = YES, .limit = 10000};
    size_t count;
    enum status status = store->letter_counts(store, arena, &rows, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        counts->by_state[rows[i].state] += rows[i].count;
    if (!status)
        status = store->group_list(store, engine_now(engine), 0, 1000, arena, &groups, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        counts->in_groups += groups[i].count;
    return status ? status : store->letter_list(store, &open, arena, &letters, &counts->open, err);
}

/* assert_counts holds the kept counters, the groups and the list of open letters together. */
static void assert_counts(struct world *world, int64_t dead_, int64_t recovering, int64_t recovered,
                          int64_t discarded)
{
    struct counts counts = {0};
    struct read_command read = {.read = read_counts, .ctx = &counts};
    assert_int_equal(run(world, &read.command, COMMAND_READ), STATUS_OK);
    assert_int_equal(counts.by_state[LETTER_DEAD], dead_);
    assert_int_equal(counts.by_state[LETTER_RECOVERING], recovering);
    assert_int_equal(counts.by_state[LETTER_RECOVERED], recovered);
    assert_int_equal(counts.by_state[LETTER_DISCARDED], discarded);
    assert_int_equal(counts.in_groups, dead_ + recovering);
    assert_int_equal(counts.open, dead_ + recovering);
}

struct last_event {
    int64_t seq;
    const char *why;
};

static enum status read_event(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    struct last_event *last = ctx;
    struct event *event;
    size_t count;
    (void)engine;
    enum status status = store->event_list(store, last->seq - 1, 1, arena, &event, &count, err);
    if (!status)
        last->why =
            arena_printf(arena, "%.*s %.*s", SLICE_ARG(event->what), SLICE_ARG(event->why)).ptr;
    return status;
}

/* last_event is what the last event of a job says: "what {why}". */
static const char *last_event(struct world *world, const char *job_id)
{
    struct last_event last = {.seq = job(world, job_id).job.event_seq};
    struct read_command read = {.read = read_event, .ctx = &last};
    assert_int_equal(run(world, &read.command, COMMAND_READ), STATUS_OK);
    return last.why;
}

struct left {
    struct requiring live;
    int64_t dead, recovering;
};

static enum status read_left(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct left *left = ctx;
    (void)engine, (void)arena;
    store->requiring(store, SLICE("run:R"), &left->live);
    return store->letter_run(store, SLICE("R"), &left->dead, &left->recovering, err);
}

static struct left left_of_run(struct world *world)
{
    struct left left = {0};
    struct read_command read = {.read = read_left, .ctx = &left};
    assert_int_equal(run(world, &read.command, COMMAND_READ), STATUS_OK);
    return left;
}

/* ---- how it ends ----------------------------------------------------------------------------- */

#define JOB_J "{\"action\":\"a\",\"job_id\":\"J\"}"

static void a_held_letter_is_open_until_its_job_is_done(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    struct letter found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_RECOVERING);
    assert_true(slice_is(found.recovered_by, "bob"));
    assert_false(instant_is_set(found.recovered_at));
    assert_counts(world, 0, 1, 0, 0);
    assert_non_null(strstr(last_event(world, "J"), "\"hold\":true"));

    world_pass(world, 5000);
    struct lease taken = lease(world, NULL);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERING);
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_RECOVERED);
    assert_true(slice_is(found.recovered_by, "bob"));
    assert_int_equal(found.recovered_at.us, world->wall.us);
    assert_counts(world, 0, 0, 1, 0);
    const char *event = arena_printf(&world->arena,
                                     "completed {\"attempt\":2,\"dlq_id\":\"%.*s\","
                                     "\"letter\":\"recovered\",\"by\":\"bob\"}",
                                     SLICE_ARG(dlq_id))
                            .ptr;
    assert_string_equal(last_event(world, "J"), event);
    assert_string_equal(what_happened(world, "J"),
                        "pushed leased dead-lettered requeued leased completed");
    assert_chain_holds(world);
}

static void a_held_letter_whose_job_dies_is_dead_again_under_its_id(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    struct lease taken = lease(world, NULL);
    struct result_item result = report_failed(world, &taken, INPUT_FAILURE);
    assert_true(slice_eq(result.dlq_id, dlq_id));
    struct letter found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_DEAD);
    assert_int_equal(found.recovered_by.len, 0);
    assert_int_equal(found.failure_count, 2);
    assert_counts(world, 1, 0, 0, 0);
    hold_one(world, dlq_id);
    taken = lease(world, NULL);
    complete(world, &taken);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERED);
    assert_int_equal(letter(world, dlq_id).job.redrive_count, 2);
}

static void a_held_letter_is_discarded_by_who_cancels_its_job(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    cancel(world, "J", "eve");
    struct letter found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_DISCARDED);
    assert_true(slice_is(found.recovered_by, "eve"));
    assert_int_equal(found.recovered_at.us, world->wall.us);
    assert_counts(world, 0, 0, 0, 1);
    assert_int_equal(job(world, "J").job.state, JOB_CANCELLED);
    assert_non_null(strstr(last_event(world, "J"), "\"letter\":\"discarded\",\"by\":\"eve\""));
}

static void a_running_job_that_is_cancelled_names_who_asked_for_it(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    struct lease taken = lease(world, NULL);
    cancel(world, "J", "eve");
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERING);
    struct heartbeat_item beat = {.lease_id = slice_of(taken.lease_id)};
    struct heartbeat_command told = {.worker_id = SLICE("w1"), .items = &beat, .count = 1};
    run(world, &told.command, COMMAND_HEARTBEAT); /* an event stands between the wish and its end */
    assert_int_equal(beat.outcome, HEARTBEAT_CANCELLED);
    assert_int_equal(report_failed(world, &taken, TIMEOUT_FAILURE).state, JOB_CANCELLED);
    assert_int_equal(letter(world, dlq_id).state, LETTER_DISCARDED);
    assert_true(slice_is(letter(world, dlq_id).recovered_by, "eve"));
}

static void a_cancelled_job_that_is_given_back_takes_its_letter_along(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    struct lease taken = lease(world, NULL);
    cancel(world, "J", "eve");
    struct release_item item = {.lease_id = slice_of(taken.lease_id)};
    struct release_command release = {.items = &item, .count = 1};
    run(world, &release.command, COMMAND_RELEASE);
    assert_int_equal(letter(world, dlq_id).state, LETTER_DISCARDED);
    assert_true(slice_is(letter(world, dlq_id).recovered_by, "eve"));
}

static void a_worker_that_is_done_before_it_hears_of_the_cancel_wins(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    struct lease taken = lease(world, NULL);
    cancel(world, "J", "eve");
    assert_int_equal(complete(world, &taken).state, JOB_DONE);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERED);
    assert_true(slice_is(letter(world, dlq_id).recovered_by, "bob"));
}

static void a_letter_that_went_with_its_cancelled_job_cannot_be_restored(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    cancel(world, "J", "eve");
    struct review_item item = review(world, REVIEW_RESTORE, dlq_id);
    assert_int_equal(item.status, STATUS_CONFLICT);
    assert_non_null(strstr(item.err.text, "cancelled"));
    assert_int_equal(letter(world, dlq_id).state, LETTER_DISCARDED);
    struct purge_command purge = {.dlq_ids = &dlq_id, .count = 1};
    run(world, &purge.command, COMMAND_PURGE);
    assert_int_equal(purge.purged, 1);
}

static void a_restart_between_changes_nothing(void **state)
{
    WORLD(state);
    struct slice done = dead(world, JOB_J);
    struct slice dies = dead(world, "{\"action\":\"a\",\"job_id\":\"K\"}");
    struct slice ends = dead(world, "{\"action\":\"a\",\"job_id\":\"L\"}");
    hold(world, (struct review_item[]){{.dlq_id = done}, {.dlq_id = dies}, {.dlq_id = ends}}, 3);
    world_reopen(world);
    assert_counts(world, 0, 3, 0, 0);
    struct lease first = lease(world, NULL), second = lease(world, NULL);
    world_reopen(world);
    assert_int_equal(complete(world, &first).state, JOB_DONE);
    assert_int_equal(report_failed(world, &second, INPUT_FAILURE).state, JOB_DEAD);
    cancel(world, "L", "eve");
    world_reopen(world);
    assert_int_equal(letter(world, done).state, LETTER_RECOVERED);
    assert_int_equal(letter(world, dies).state, LETTER_DEAD);
    assert_int_equal(letter(world, ends).state, LETTER_DISCARDED);
    assert_counts(world, 1, 0, 1, 1);
    assert_chain_holds(world);
}

/* ---- meanwhile ------------------------------------------------------------------------------- */

static void a_held_letter_can_neither_be_reviewed_nor_purged(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    for (int action = 0; action < REVIEW_COUNT; action++) {
        struct review_item item = review(world, (enum review_action)action, dlq_id);
        assert_int_equal(item.status, STATUS_CONFLICT);
        assert_string_equal(item.err.text, "it is being replayed");
    }
    struct purge_command purge = {.dlq_ids = &dlq_id, .count = 1, .force = true};
    run(world, &purge.command, COMMAND_PURGE);
    assert_int_equal(purge.kept, 1);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERING);
}

static void an_interrupted_replay_is_still_held(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    hold_one(world, dlq_id);
    lease(world, NULL);
    struct interrupt_command command = {.worker_id = SLICE("w1")};
    assert_int_equal(run(world, &command.command, COMMAND_INTERRUPT), STATUS_OK);
    assert_int_equal(command.interrupted, 1);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERING);
    struct lease taken = lease(world, NULL);
    complete(world, &taken);
    assert_int_equal(letter(world, dlq_id).state, LETTER_RECOVERED);
}

static void a_retry_without_hold_is_recovered_at_once_as_ever(void **state)
{
    WORLD(state);
    struct slice dlq_id = dead(world, JOB_J);
    assert_int_equal(review(world, REVIEW_RETRY, dlq_id).status, STATUS_OK);
    struct letter found = letter(world, dlq_id);
    assert_int_equal(found.state, LETTER_RECOVERED);
    assert_int_equal(found.recovered_at.us, world->wall.us);
    assert_null(strstr(last_event(world, "J"), "hold"));
    assert_int_equal(job(world, "J").job.due_at.us, world->wall.us);
    struct lease taken = lease(world, NULL);
    world_pass(world, 1000);
    complete(world, &taken);
    assert_string_equal(last_event(world, "J"), "completed {\"attempt\":2}");
    assert_int_equal(letter(world, dlq_id).recovered_at.us, found.recovered_at.us);
}

/* ---- order ----------------------------------------------------------------------------------- */

#define ORDER_COUNT 1200
#define ORDER_CHUNK 500

/* push_numbered pushes jobs "n0000", "n0001", ... in several commands, at several times. */
static void push_numbered(struct world *world, size_t count)
{
    for (size_t at = 0; at < count; at += 100) {
        struct push_item items[100] = {0};
        struct push_command command = {.items = items, .count = 100};
        for (size_t i = 0; i < 100; i++) {
            struct slice body =
                arena_printf(&world->arena, "{\"action\":\"a\",\"job_id\":\"n%04zu\"}", at + i);
            assert_int_equal(envelope_parse(body, ENVELOPE_BODY_MAX, &world->arena,
                                            &items[i].envelope, &items[i].err),
                             STATUS_OK);
        }
        assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
        world_pass(world, 1);
    }
}

static size_t lease_some(struct world *world, struct lease *out, size_t max)
{
    struct lease_command command = {.worker_id = SLICE("w1"), .max = max};
    assert_int_equal(run(world, &command.command, COMMAND_LEASE), STATUS_OK);
    if (command.count)
        memcpy(out, command.leases, command.count * sizeof(*out));
    return command.count;
}

static void held_jobs_come_in_the_order_in_which_they_were_pushed(void **state)
{
    WORLD(state);
    struct lease *leases = arena_array(&world->arena, ORDER_COUNT, sizeof(*leases));
    struct review_item *items = arena_array(&world->arena, ORDER_COUNT, sizeof(*items));
    push_numbered(world, ORDER_COUNT);
    assert_int_equal(lease_some(world, leases, 1000), 1000);
    assert_int_equal(lease_some(world, leases + 1000, 1000), 200);

    /* They die in a muddle, and are brought back in several commands, the last dead first. */
    for (size_t i = 0; i < ORDER_COUNT; i++) {
        size_t at = i * 7 % ORDER_COUNT;
        struct result_item result = report_failed(world, &leases[at], INPUT_FAILURE);
        items[ORDER_COUNT - 1 - i].dlq_id = result.dlq_id;
    }
    push(world, "{\"action\":\"a\",\"job_id\":\"later\"}");
    for (size_t at = 0; at < ORDER_COUNT; at += ORDER_CHUNK) {
        size_t count = ORDER_COUNT - at < ORDER_CHUNK ? ORDER_COUNT - at : ORDER_CHUNK;
        hold(world, items + at, count);
        world_pass(world, 10);
        if (at == ORDER_CHUNK)
            world_reopen(world);
    }
    struct lease *again = arena_array(&world->arena, ORDER_COUNT + 1, sizeof(*again));
    assert_int_equal(lease_some(world, again, 1000), 1000);
    assert_int_equal(lease_some(world, again + 1000, 1000), ORDER_COUNT + 1 - 1000);
    for (size_t i = 0; i < ORDER_COUNT; i++)
        assert_true(slice_eq(again[i].job_id, leases[i].job_id));
    assert_true(slice_is(again[ORDER_COUNT].job_id, "later"));
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct lease lease_of_run(struct world *world)
{
    struct slice capability = SLICE("run:R");
    struct lease_command command = {.worker_id = SLICE("w1"), .max = 1};
    command.query.capabilities = &capability;
    command.query.capability_count = 1;
    assert_int_equal(run(world, &command.command, COMMAND_LEASE), STATUS_OK);
    assert_int_equal(command.count, 1);
    return command.leases[0];
}

#define ITEM(id, more)                                                                             \
    "{\"action\":\"a\",\"run_id\":\"R\",\"job_id\":\"" id "\","                                    \
    "\"required_capabilities\":[\"run:R\"]" more "}"

static void what_is_left_of_a_run_is_counted_by_its_capability(void **state)
{
    WORLD(state);
    struct left left = left_of_run(world);
    assert_int_equal(left.live.counts[JOB_PENDING] + left.live.counts[JOB_SCHEDULED] +
                         left.live.counts[JOB_RUNNING] + left.dead + left.recovering,
                     0);
    assert_false(instant_is_set(left.live.next_due));

    push(world, "{\"action\":\"a\",\"priority\":0}");
    push(world, "{\"action\":\"a\",\"required_capabilities\":[\"run:R2\"]}");
    push(world, ITEM("a", ""));
    push(world, ITEM("b", ",\"queue\":\"other\""));
    push(world, ITEM("c", ""));
    push(world, ITEM("d", ",\"run_at\":\"2026-02-13T06:23:00Z\""));
    push(world, "{\"action\":\"a\",\"job_id\":\"e\",\"run_at\":\"2026-02-13T06:22:30Z\","
                "\"required_capabilities\":[\"gpu\",\"run:R\"]}");
    push(world, "{\"action\":\"a\",\"run_at\":\"2026-02-13T06:22:10Z\"}");
    struct lease first = lease_of_run(world), second = lease_of_run(world);
    left = left_of_run(world);
    assert_int_equal(left.live.counts[JOB_PENDING], 1);
    assert_int_equal(left.live.counts[JOB_SCHEDULED], 2);
    assert_int_equal(left.live.counts[JOB_RUNNING], 2);
    assert_int_equal(left.live.next_due.us, job(world, "e").job.due_at.us);
    assert_int_equal(left.dead, 0);

    struct result_item result = report_failed(world, &first, INPUT_FAILURE);
    complete(world, &second);
    world_reopen(world);
    left = left_of_run(world);
    assert_int_equal(left.live.counts[JOB_PENDING], 1);
    assert_int_equal(left.live.counts[JOB_RUNNING], 0);
    assert_int_equal(left.dead, 1);
    hold_one(world, result.dlq_id);
    left = left_of_run(world);
    assert_int_equal(left.live.counts[JOB_PENDING], 2);
    assert_int_equal(left.dead, 0);
    assert_int_equal(left.recovering, 1);
    world_pass(world, 60000);
    left = left_of_run(world);
    assert_int_equal(left.live.counts[JOB_PENDING], 4);
    assert_int_equal(left.live.counts[JOB_SCHEDULED], 0);
    assert_false(instant_is_set(left.live.next_due));
    cancel(world, "d", "eve");
    assert_int_equal(left_of_run(world).live.counts[JOB_PENDING], 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_held_letter_is_open_until_its_job_is_done),
        TEST(a_held_letter_whose_job_dies_is_dead_again_under_its_id),
        TEST(a_held_letter_is_discarded_by_who_cancels_its_job),
        TEST(a_running_job_that_is_cancelled_names_who_asked_for_it),
        TEST(a_cancelled_job_that_is_given_back_takes_its_letter_along),
        TEST(a_worker_that_is_done_before_it_hears_of_the_cancel_wins),
        TEST(a_letter_that_went_with_its_cancelled_job_cannot_be_restored),
        TEST(a_restart_between_changes_nothing),
        TEST(a_held_letter_can_neither_be_reviewed_nor_purged),
        TEST(an_interrupted_replay_is_still_held),
        TEST(a_retry_without_hold_is_recovered_at_once_as_ever),
        TEST(held_jobs_come_in_the_order_in_which_they_were_pushed),
        TEST(what_is_left_of_a_run_is_counted_by_its_capability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
