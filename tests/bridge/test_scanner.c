/* The scanner: what it chooses, and what it does over a real engine in virtual time. */
#include "bridge/seat_fixture.h"

#include "bridge/scanner.h"
#include "core/replay.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define INTERVAL_S 300

/* ---- choosing -------------------------------------------------------------------------------- */

/* choose is the ids of what is chosen, with spaces between. */
static const char *choose(struct arena *arena, const struct scanner_candidate *all, size_t count,
                          size_t max)
{
    const struct scanner_candidate *out[16];
    struct slice text = SLICE("");
    size_t chosen;
    assert_true(max <= COUNT(out));
    assert_true(scanner_choose(all, count, max, arena, out, &chosen));
    for (size_t i = 0; i < chosen; i++)
        text = arena_printf(arena, "%.*s%s%.*s", SLICE_ARG(text), i ? " " : "",
                            SLICE_ARG(out[i]->dlq_id));
    return text.ptr;
}

#define LETTER(id, group, at)                                                                      \
    {                                                                                              \
        .dlq_id = {id, sizeof(id) - 1}, .fingerprint = {group, sizeof(group) - 1}, .position = at  \
    }

static void each_group_has_its_turn_the_oldest_first(void **state)
{
    static const struct scanner_candidate all[] = {
        LETTER("a4", "a", 4), LETTER("a1", "a", 1), LETTER("b9", "b", 9), LETTER("a2", "a", 2),
        LETTER("c3", "c", 3), LETTER("a5", "a", 5), LETTER("c8", "c", 8),
    };
    struct arena arena = {0};
    (void)state;
    assert_string_equal(choose(&arena, all, COUNT(all), 16), "a1 c3 b9 a2 c8 a4 a5");
    assert_string_equal(choose(&arena, all, COUNT(all), 4), "a1 c3 b9 a2");
    assert_string_equal(choose(&arena, all, COUNT(all), 1), "a1");
    assert_string_equal(choose(&arena, all, COUNT(all), 0), "");
    assert_string_equal(choose(&arena, all, 0, 16), "");
    arena_release(&arena);
}

static void a_letter_that_was_read_twice_is_chosen_once(void **state)
{
    static const struct scanner_candidate all[] = {LETTER("a1", "a", 1), LETTER("b2", "b", 2),
                                                   LETTER("a1", "a", 1), LETTER("a1", "a", 1)};
    struct arena arena = {0};
    (void)state;
    assert_string_equal(choose(&arena, all, COUNT(all), 16), "a1 b2");
    arena_release(&arena);
}

static void groups_whose_names_begin_alike_are_apart(void **state)
{
    static const struct scanner_candidate all[] = {LETTER("a1", "a", 1), LETTER("a2", "a", 2),
                                                   LETTER("aa3", "aa", 3), LETTER("x4", "", 4)};
    struct arena arena = {0};
    (void)state;
    assert_string_equal(choose(&arena, all, COUNT(all), 16), "a1 aa3 x4 a2");
    arena_release(&arena);
}

/* ---- scanning -------------------------------------------------------------------------------- */

/* struct watchman: a scanner and its seat. */
struct watchman {
    struct seat seat;
    struct scanner scanner;
};

static void appoint(struct world *world, struct watchman *watchman, const char *server)
{
    watchman->seat = seat_of(world, server);
    scanner_init(&watchman->scanner, &watchman->seat, span_seconds(INTERVAL_S));
}

/* scan lets an interval pass and scans. */
static void scan(struct world *world, struct watchman *watchman)
{
    world_pass(world, INTERVAL_S * SECOND_MS);
    scanner_run(&watchman->scanner);
}

static void what_may_be_brought_back_is_after_an_interval(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    struct slice dead = die(world, "work");
    appoint(world, &watchman, "one");
    scanner_run(&watchman.scanner);
    assert_int_equal(letter(world, dead).state, LETTER_DEAD);
    world_pass(world, INTERVAL_S * SECOND_MS - 1);
    scanner_run(&watchman.scanner);
    assert_int_equal(watchman.scanner.counts.scans, 0);
    world_pass(world, 1);
    struct span next = scanner_run(&watchman.scanner);
    assert_int_equal(next.us - world->steady.us, INTERVAL_S * INT64_C(1000000));
    struct letter back = letter(world, dead);
    assert_int_equal(back.state, LETTER_RECOVERED);
    assert_true(slice_is(back.recovered_by, SCANNER_BY));
    assert_int_equal(lease_count(world, "work"), 1);
    assert_int_equal(watchman.scanner.counts.scans, 1);
    assert_int_equal(watchman.scanner.counts.replayed, 1);
    assert_int_equal(watchman.scanner.counts.refused, 0);
    assert_chain_holds(world);
}

static void what_is_for_people_stays(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    struct slice forbidden =
        die_of(world, "work", "", "{\"class\":\"permission_denied\",\"message\":\"not you\"}");
    struct slice escalated = die(world, "work");
    struct slice discarded = die(world, "work");
    struct slice acked =
        die_of(world, "work", "\"constraints\":{\"requires_human_ack\":true}", FAILURE);
    assert_int_equal(review(world, REVIEW_ESCALATE, escalated).status, STATUS_OK);
    assert_int_equal(review(world, REVIEW_DISCARD, discarded).status, STATUS_OK);
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    assert_int_equal(letter(world, forbidden).state, LETTER_DEAD);
    assert_int_equal(letter(world, escalated).state, LETTER_DEAD);
    assert_int_equal(letter(world, discarded).state, LETTER_DISCARDED);
    assert_int_equal(letter(world, acked).state, LETTER_DEAD);
    assert_int_equal(watchman.scanner.counts.scans, 1);
    assert_int_equal(watchman.scanner.counts.replayed, 0);
    assert_int_equal(watchman.scanner.counts.refused, 0);
}

static void a_day_old_is_too_old(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    struct made made = {.fingerprint = "g"};
    made.prefix = "old";
    made.failed_at = ago(world, SCANNER_AGE_SECONDS - INTERVAL_S);
    make_letters(world, made, 1);
    made.prefix = "young";
    made.failed_at.us++;
    make_letters(world, made, 1);
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    assert_int_equal(letter(world, SLICE("old-00000")).state, LETTER_DEAD);
    assert_int_equal(letter(world, SLICE("young-00000")).state, LETTER_RECOVERED);
}

static void a_paused_queue_is_left_alone(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    struct slice paused = die(world, "paused"), other = die(world, "other");
    struct queue_command command = {.queue = SLICE("paused"), .paused = true};
    assert_int_equal(run(world, &command.command, COMMAND_QUEUE), STATUS_OK);
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    assert_int_equal(letter(world, paused).state, LETTER_DEAD);
    assert_int_equal(letter(world, other).state, LETTER_RECOVERED);
    command = (struct queue_command){.queue = SLICE("paused"), .paused = false};
    assert_int_equal(run(world, &command.command, COMMAND_QUEUE), STATUS_OK);
    scan(world, &watchman);
    assert_int_equal(letter(world, paused).state, LETTER_RECOVERED);
}

static void a_small_group_behind_a_flood_gets_its_share(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    make_letters(world, (struct made){"flood", "flooding", ago(world, 7200), false, false, 0},
                 3 * SCANNER_MAX);
    make_letters(world, (struct made){"small", "little", ago(world, 60), false, false, 0}, 5);
    make_letters(world, (struct made){"mid", "middle", ago(world, 30), false, false, 0}, 600);
    make_letters(world, (struct made){"stuck", "stuck", ago(world, 20), false, true, 0}, 100);
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    assert_int_equal(watchman.scanner.counts.replayed, SCANNER_MAX);
    assert_int_equal(tally_of(world, "little").counts[LETTER_RECOVERED], 5);
    /* What the small one does not need is shared by the others, evenly. */
    assert_in_range(tally_of(world, "middle").counts[LETTER_RECOVERED], 497, 498);
    assert_in_range(tally_of(world, "flooding").counts[LETTER_RECOVERED], 497, 498);
    assert_int_equal(letter(world, SLICE("flood-00000")).state, LETTER_RECOVERED);
    assert_int_equal(letter(world, SLICE("flood-02999")).state, LETTER_DEAD);
    for (int i = 0; i < 3; i++)
        scan(world, &watchman);
    assert_int_equal(tally_of(world, "middle").counts[LETTER_RECOVERED], 600);
    assert_int_equal(tally_of(world, "flooding").counts[LETTER_RECOVERED], 3 * SCANNER_MAX);
    assert_int_equal(tally_of(world, "stuck").counts[LETTER_DEAD], 100);
    assert_int_equal(watchman.scanner.counts.replayed, 3 * SCANNER_MAX + 605);
}

static void more_groups_than_one_scan_looks_into_all_have_their_turn(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    char name[32];
    const size_t groups = SCANNER_GROUPS_MAX + 300;
    for (size_t i = 0; i < groups; i++) {
        snprintf(name, sizeof(name), "group%04zu", i);
        const char *kept = arena_dup(&world->arena, slice_of(name)).ptr;
        make_letters(world,
                     (struct made){kept, kept, ago(world, 9000 - (int64_t)i), false, false, 0}, 2);
    }
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    assert_int_equal(watchman.scanner.counts.replayed, SCANNER_MAX);
    /* The newest groups were first; the oldest, which were not reached, are next. */
    assert_int_equal(letter(world, SLICE("group0000-00000")).state, LETTER_DEAD);
    scan(world, &watchman);
    for (size_t i = 0; i < groups; i++) {
        snprintf(name, sizeof(name), "group%04zu", i);
        assert_true(tally_of(world, name).counts[LETTER_RECOVERED] > 0);
    }
}

static void one_server_scans_and_another_takes_over(void **state)
{
    struct world *world = *state;
    struct watchman one, two;
    struct slice dead = die(world, "work");
    appoint(world, &one, "one");
    appoint(world, &two, "two");
    scan(world, &one);
    assert_int_equal(letter(world, dead).state, LETTER_RECOVERED);
    dead = die(world, "other");
    scan(world, &two);
    assert_int_equal(two.scanner.counts.scans, 0);
    assert_int_equal(letter(world, dead).state, LETTER_DEAD);
    /* The first is gone, and its time passes. */
    scan(world, &two);
    assert_int_equal(two.scanner.counts.scans, 1);
    assert_int_equal(letter(world, dead).state, LETTER_RECOVERED);
    scan(world, &one);
    assert_int_equal(one.scanner.counts.scans, 1);
    /* One that leaves lets the other do it at once. */
    scanner_leave(&two.scanner);
    scan(world, &one);
    assert_int_equal(one.scanner.counts.scans, 2);
}

static void a_letter_that_keeps_coming_back_is_left(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    struct slice dead = die(world, "work");
    appoint(world, &watchman, "one");
    for (int i = 0; i < REPLAY_AUTOMATIC_MAX; i++) {
        scan(world, &watchman);
        assert_int_equal(watchman.scanner.counts.replayed, i + 1);
        struct lease taken = lease(world, "work");
        assert_int_equal(report_failed(world, &taken, FAILURE).state, JOB_DEAD);
    }
    for (int i = 0; i < 3; i++)
        scan(world, &watchman);
    assert_int_equal(watchman.scanner.counts.replayed, REPLAY_AUTOMATIC_MAX);
    assert_int_equal(watchman.scanner.counts.left, 1);
    assert_int_equal(letter(world, dead).state, LETTER_DEAD);
    assert_int_equal(letter(world, dead).job.redrive_count, REPLAY_AUTOMATIC_MAX);
    /* A person still may. */
    assert_int_equal(review(world, REVIEW_RETRY, dead).status, STATUS_OK);
}

static void letters_from_elsewhere_wait_for_a_publisher(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    make_letters(world, (struct made){"far", "away", ago(world, 600), true, false, 0},
                 2 * SCANNER_MAX);
    make_letters(world, (struct made){"own", "ours", ago(world, 60), false, false, 0}, 800);
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    /* What they cannot use of the scan goes to the others. */
    assert_int_equal(tally_of(world, "ours").counts[LETTER_RECOVERED], 800);
    assert_int_equal(tally_of(world, "away").counts[LETTER_DEAD], 2 * SCANNER_MAX);
    assert_int_equal(watchman.scanner.counts.refused, 0);
    assert_int_equal(watchman.scanner.counts.replayed, 800);
    engine_publisher(world->engine, true);
    scan(world, &watchman);
    assert_int_equal(tally_of(world, "away").counts[LETTER_RECOVERING], SCANNER_MAX);
}

static void a_key_that_is_taken_is_a_refusal(void **state)
{
    struct world *world = *state;
    struct watchman watchman;
    struct slice dead = die_of(world, "work", "\"idempotency_key\":\"k\"", FAILURE);
    assert_true(
        push(world, "{\"action\":\"x\",\"queue\":\"work\",\"idempotency_key\":\"k\"}").created);
    appoint(world, &watchman, "one");
    scan(world, &watchman);
    assert_int_equal(letter(world, dead).state, LETTER_DEAD);
    assert_int_equal(watchman.scanner.counts.refused, 1);
    assert_int_equal(watchman.scanner.counts.replayed, 0);
}

/* rival scans between what another scanner has chosen and what it then does. */
static struct watchman *rival;

static enum status overtaken(struct engine *engine, struct command *command)
{
    struct watchman *other = rival;
    if (command->kind == COMMAND_REVIEW && other) {
        rival = NULL;
        scanner_run(&other->scanner);
    }
    return seat_step(engine, command);
}

static void two_scanners_at_once_bring_no_letter_back_twice(void **state)
{
    struct world *world = *state;
    struct watchman one, two;
    make_letters(world, (struct made){"both", "both", ago(world, 600), false, false, 0}, 900);
    appoint(world, &one, "one");
    appoint(world, &two, "two");
    rival = &one;
    two.seat.call = overtaken;
    /* The second was told, before it lost the duty, that it has it. */
    two.scanner.duty.held = true;
    two.scanner.duty.ask_at = two.scanner.duty.until = (struct span){INT64_MAX};
    scan(world, &two);
    assert_null(rival);
    assert_int_equal(one.scanner.counts.replayed, 900);
    assert_int_equal(two.scanner.counts.replayed, 0);
    assert_int_equal(two.scanner.counts.refused, 900);
    assert_int_equal(lease_count(world, "default"), 900);
    assert_chain_holds(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_has_its_turn_the_oldest_first),
        cmocka_unit_test(a_letter_that_was_read_twice_is_chosen_once),
        cmocka_unit_test(groups_whose_names_begin_alike_are_apart),
        CASE(what_may_be_brought_back_is_after_an_interval),
        CASE(what_is_for_people_stays),
        CASE(a_day_old_is_too_old),
        CASE(a_paused_queue_is_left_alone),
        CASE(a_small_group_behind_a_flood_gets_its_share),
        CASE(more_groups_than_one_scan_looks_into_all_have_their_turn),
        CASE(one_server_scans_and_another_takes_over),
        CASE(a_letter_that_keeps_coming_back_is_left),
        CASE(letters_from_elsewhere_wait_for_a_publisher),
        CASE(a_key_that_is_taken_is_a_refusal),
        CASE(two_scanners_at_once_bring_no_letter_back_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
