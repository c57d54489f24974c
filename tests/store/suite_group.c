/* suite_group: letters with one fingerprint. */
#include "store/suite.h"

static struct letter_group get(struct place *place, const char *fingerprint, int64_t now)
{
    struct letter_group group;
    assert_ok(place, place->store->group_get(place->store, slice_of(fingerprint), at(now),
                                             &place->arena, &group, &place->err));
    return group;
}

/* die makes a letter of a fingerprint. */
static struct letter die(struct place *place, const char *dlq_id, const char *fingerprint,
                         int64_t failed_at)
{
    const char *id = arena_printf(&place->arena, "job-%s", dlq_id).ptr;
    begin(place);
    struct job job = insert(place, job_on(place, "q", id), id);
    struct letter letter = letter_of(place, &job, dlq_id, failed_at);
    letter.fingerprint = slice_of(fingerprint);
    letter.signature = slice_of(fingerprint);
    bury(place, &job, &letter, "text");
    commit(place);
    return letter;
}

static void set_status(struct place *place, const char *fingerprint, enum group_status status)
{
    begin(place);
    assert_ok(place,
              place->store->group_set(place->store, slice_of(fingerprint), status, &place->err));
    commit(place);
}

static void a_group_knows_its_letters_and_when_they_died(void **state)
{
    struct place *place = *state;
    const int64_t hour = NOON - NOON % HOUR;
    die(place, "a", "f1", hour - 23 * HOUR);
    die(place, "b", "f1", hour - HOUR);
    die(place, "c", "f1", hour + 1);
    die(place, "d", "f1", hour + 2);
    die(place, "x", "f1", hour - 24 * HOUR);
    for (int i = 0; i < 2; i++) {
        struct letter_group group = get(place, "f1", hour + 3);
        assert_slice(group.fingerprint, "f1");
        assert_slice(group.signature, "f1");
        assert_true(group.count == 5 && group.total == 5);
        assert_true(group.first_seen.us == hour - 24 * HOUR && group.last_seen.us == hour + 2);
        assert_int_equal(group.status, GROUP_OPEN);
        assert_string_equal(joined(place, group.sample_ids, group.sample_count), "d c b");
        for (int k = 0; k < GROUP_TREND_HOURS; k++)
            assert_true(group.trend[k] == (k == 0 || k == 22 ? 1 : k == 23 ? 2 : 0));
        reopen(place);
    }
}

static void the_count_is_of_letters_that_are_dead_now_and_the_total_of_deaths(void **state)
{
    struct place *place = *state;
    struct letter a = die(place, "a", "f1", NOON), b = die(place, "b", "f1", NOON + 1);
    static const enum letter_state states[] = {LETTER_RECOVERING, LETTER_RECOVERED, LETTER_DEAD,
                                               LETTER_DISCARDED, LETTER_ROLLED_BACK};
    static const int64_t counts[] = {2, 1, 2, 1, 1};
    for (size_t i = 0; i < 5; i++) {
        begin(place);
        a.state = states[i];
        put(place, &a, NULL, states[i] == LETTER_DEAD);
        commit(place);
        assert_true(get(place, "f1", NOON).count == counts[i]);
    }
    assert_true(get(place, "f1", NOON).total == 3);
    /* What is dead is shown before what is not, newer though it may be. */
    begin(place);
    b.failed_at = at(NOON - 5);
    put(place, &b, NULL, false);
    commit(place);
    die(place, "c", "f1", NOON - 9);
    die(place, "d", "f1", NOON - 7);
    struct letter_group group = get(place, "f1", NOON);
    assert_string_equal(joined(place, group.sample_ids, group.sample_count), "b d c");
}

static void a_letter_that_dies_of_something_else_changes_groups(void **state)
{
    struct place *place = *state;
    struct letter a = die(place, "a", "f1", NOON);
    begin(place);
    a.fingerprint = SLICE("f2");
    a.failed_at = at(NOON + 1);
    put(place, &a, NULL, true);
    commit(place);
    assert_true(get(place, "f1", NOON).count == 0 && get(place, "f1", NOON).total == 1);
    assert_true(get(place, "f2", NOON).count == 1 && get(place, "f2", NOON).total == 1);
    assert_int_equal(get(place, "f1", NOON).sample_count, 0);
}

static void a_death_opens_a_resolved_group_and_leaves_an_ignored_one(void **state)
{
    struct place *place = *state;
    struct letter a = die(place, "a", "f1", NOON);
    die(place, "b", "f2", NOON);
    set_status(place, "f1", GROUP_RESOLVED);
    set_status(place, "f2", GROUP_IGNORED);
    begin(place);
    a.state = LETTER_DISCARDED; /* a review is no death */
    put(place, &a, NULL, false);
    commit(place);
    reopen(place);
    assert_int_equal(get(place, "f1", NOON).status, GROUP_RESOLVED);
    die(place, "c", "f1", NOON + 1);
    die(place, "d", "f2", NOON + 1);
    assert_int_equal(get(place, "f1", NOON).status, GROUP_OPEN);
    assert_int_equal(get(place, "f2", NOON).status, GROUP_IGNORED);
}

static void an_unknown_group_is_not_found(void **state)
{
    struct place *place = *state;
    struct letter_group group = {.count = 42};
    assert_int_equal(place->store->group_get(place->store, SLICE("no"), at(NOON), &place->arena,
                                             &group, &place->err),
                     STATUS_NOT_FOUND);
    assert_true(group.count == 42);
    begin(place);
    assert_int_equal(place->store->group_set(place->store, SLICE("no"), GROUP_IGNORED, &place->err),
                     STATUS_NOT_FOUND);
    commit(place);
}

static void a_letter_without_a_fingerprint_is_in_no_group(void **state)
{
    struct place *place = *state;
    struct letter_group *groups;
    size_t count;
    die(place, "a", "", NOON);
    assert_ok(place, place->store->group_list(place->store, at(NOON), 0, 9, &place->arena, &groups,
                                              &count, &place->err));
    assert_int_equal(count, 0);
}

static void pages_of_groups_lose_none_though_they_were_seen_at_one_instant(void **state)
{
    struct place *place = *state;
    char seen[64] = "";
    int64_t cursor = 0;
    for (char id[] = "a"; *id <= 'g'; ++*id)
        die(place, id, arena_printf(&place->arena, "f%s", id).ptr, NOON);
    for (size_t pages = 0;; pages++) {
        struct letter_group *groups;
        size_t count;
        assert_ok(place, place->store->group_list(place->store, at(NOON), cursor, 2, &place->arena,
                                                  &groups, &count, &place->err));
        if (count == 0)
            break;
        assert_true(count <= 2 && pages < 9);
        for (size_t i = 0; i < count; i++) {
            snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%.*s ",
                     SLICE_ARG(groups[i].fingerprint));
            assert_int_equal(groups[i].sample_count, 1);
            cursor = groups[i].last_seen.us;
        }
    }
    assert_string_equal(seen, "fg ff fe fd fc fb fa ");
}

struct cases group_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_group_knows_its_letters_and_when_they_died),
        CASE(the_count_is_of_letters_that_are_dead_now_and_the_total_of_deaths),
        CASE(a_letter_that_dies_of_something_else_changes_groups),
        CASE(a_death_opens_a_resolved_group_and_leaves_an_ignored_one),
        CASE(an_unknown_group_is_not_found),
        CASE(a_letter_without_a_fingerprint_is_in_no_group),
        CASE(pages_of_groups_lose_none_though_they_were_seen_at_one_instant),
    };
    return CASES(tests);
}
