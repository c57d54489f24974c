/* Matching jobs with workers: shares, who may see what, and which of two is better. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "core/match.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena;

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

/* list_of makes a list of words with spaces between. */
static struct match_list list_of(const char *words)
{
    struct slice *names = arena_array(&arena, strlen(words) + 1, sizeof(*names));
    size_t count = 0;

    for (const char *word = words; *word; word += *word == ' ') {
        size_t len = strcspn(word, " ");
        names[count++] = (struct slice){word, len};
        word += len;
    }
    return (struct match_list){names, count};
}

static struct policy policy_of(const char *text)
{
    struct json json;
    struct policy policy;
    struct err err = {0};

    if (json_parse(slice_of(text), &json, &err) || policy_parse(json, &arena, &policy, &err))
        fail_msg("%s", err.text);
    return policy;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void a_share_counts_what_is_there_and_what_is_spare(void **state)
{
    static const struct {
        const char *required, *capabilities;
        uint32_t has, of, spare;
    } cases[] = {
        {"", "", 0, 0, 0},         {"", "a b", 0, 0, 2},
        {"a", "", 0, 1, 0},        {"a b", "b a", 2, 2, 0},
        {"a b", "a c d", 1, 2, 2}, {"a b c", "ab bc", 0, 3, 2}, /* names are whole */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct match_share share =
            match_share(list_of(cases[i].required), list_of(cases[i].capabilities));
        assert_int_equal(share.has, cases[i].has);
        assert_int_equal(share.of, cases[i].of);
        assert_int_equal(share.spare, cases[i].spare);
    }
}

static void a_share_suffices_from_the_minimum_on(void **state)
{
    static const struct {
        uint32_t has, of;
        double min;
        bool suffices;
    } cases[] = {
        {0, 0, 1, true},       {2, 2, 1, true},      {1, 2, 1, false},    {7, 10, 0.7, true},
        {69, 100, 0.7, false}, {70, 100, 0.7, true}, {9, 13, 0.7, false}, {2, 3, 0.7, false},
        {3, 4, 0.7, true},     {1, 3, 0.34, false},  {1, 3, 0.33, true},  {3, 10, 0.3, true},
        {0, 5, 0.001, false},  {44, 63, 0.7, false}, {45, 64, 0.7, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct match_share share = {.has = cases[i].has, .of = cases[i].of};
        if (match_suffices(share, cases[i].min) != cases[i].suffices)
            fail_msg("%u of %u, at least %g", cases[i].has, cases[i].of, cases[i].min);
    }
}

static void every_tenth_is_the_share_that_it_is_written_as(void **state)
{
    char text[64];
    struct policy policy;

    (void)state;
    for (uint32_t of = 1; of <= 64; of++) {
        for (uint32_t tenths = 1; tenths <= 10; tenths++) {
            snprintf(text, sizeof(text), "{\"hints\":[{\"match\":\"x\",\"min_match\":%u.%u}]}",
                     tenths / 10, tenths % 10);
            policy = policy_of(text);
            for (uint32_t has = 0; has <= of; has++)
                assert_int_equal(match_suffices((struct match_share){.has = has, .of = of},
                                                match_min(&policy, 1)),
                                 10 * has >= tenths * of);
        }
    }
}

static void the_hint_of_the_attempt_says_how_much_is_enough(void **state)
{
    static const struct {
        const char *policy;
        double min[4]; /* of attempts 1 to 4 */
    } cases[] = {
        {"{}", {1, 1, 1, 1}},
        {"{\"hints\":[{\"match\":\"best\"},{\"match\":\"rescore\"},"
         "{\"match\":\"broadened\",\"min_match\":0.7}]}",
         {1, 1, 0.7, 0.7}},
        {"{\"hints\":[{\"match\":\"best\"},{\"match\":\"broadened\"}]}", {1, 0.7, 0.7, 0.7}},
        {"{\"hints\":[{\"match\":\"broadened\",\"min_match\":null}]}", {0.7, 0.7, 0.7, 0.7}},
        {"{\"hints\":[{\"match\":\"best\",\"min_match\":0.5},{\"match\":\"other\"}]}",
         {0.5, 1, 1, 1}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct policy policy = policy_of(cases[i].policy);
        for (uint32_t n = 1; n <= 4; n++)
            assert_true(match_min(&policy, n) == cases[i].min[n - 1]);
    }
}

/* ---- who may see what ------------------------------------------------------------------------ */

static void a_worker_sees_what_its_scopes_and_permissions_cover(void **state)
{
    static const struct {
        const char *scopes, *permissions; /* of the worker */
        const char *scope, *needed;       /* of the job */
        bool sees;
    } cases[] = {
        {"", "", "", "", true},
        {"", "", "finance", "read write", true}, /* who declares nothing is not restricted */
        {"finance", "", "", "", true},           /* a job without a scope is everybody's */
        {"finance", "", "finance", "", true},
        {"legal finance", "", "finance", "", true},
        {"legal", "", "finance", "", false},
        {"", "read", "", "", true},
        {"", "read", "", "read", true},
        {"", "write read", "", "read write", true},
        {"", "read", "", "read write", false},
        {"legal", "read write", "finance", "read", false},
        {"finance", "read", "finance", "write", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool sees =
            match_covers_scope(list_of(cases[i].scopes), slice_of(cases[i].scope)) &&
            match_covers_permissions(list_of(cases[i].permissions), list_of(cases[i].needed));
        if (sees != cases[i].sees)
            fail_msg("case %zu", i);
    }
}

/* ---- which is better ------------------------------------------------------------------------- */

/* The scores below are in order: each is better than all that follow. */
#define SCORE(has, of, failed, running, spare, idle)                                               \
    {                                                                                              \
        {has, of, spare}, failed, running,                                                         \
        {                                                                                          \
            idle                                                                                   \
        }                                                                                          \
    }

static const struct match_score ordered[] = {
    SCORE(4, 4, false, 0, 0, 100), SCORE(4, 4, false, 0, 0, 200), SCORE(4, 4, false, 0, 3, 1),
    SCORE(4, 4, false, 1, 0, 1),   SCORE(4, 4, false, 9, 9, 1),   SCORE(4, 4, true, 0, 0, 1),
    SCORE(3, 4, false, 0, 0, 1),   SCORE(3, 4, false, 1, 0, 1),   SCORE(3, 4, true, 0, 0, 1),
    SCORE(1, 4, false, 0, 0, 1),
};

static void share_then_not_the_failed_then_load_then_fitness_then_idleness(void **state)
{
    (void)state;
    for (size_t a = 0; a < COUNT(ordered); a++) {
        for (size_t b = 0; b < COUNT(ordered); b++) {
            int sign = match_compare(&ordered[a], &ordered[b]);
            if (a < b ? sign >= 0 : a > b ? sign <= 0 : sign != 0)
                fail_msg("%zu and %zu: %d", a, b, sign);
        }
    }
}

static void being_idle_for_longer_is_not_worth_waiting_for(void **state)
{
    (void)state;
    assert_false(match_is_worth(&ordered[0], &ordered[0]));
    assert_false(match_is_worth(&ordered[0], &ordered[1])); /* they differ in idleness alone */
    for (size_t a = 0; a < COUNT(ordered); a++)
        for (size_t b = 2; b < COUNT(ordered); b++)
            assert_int_equal(match_is_worth(&ordered[a], &ordered[b]), a < b);
}

static void where_nothing_is_required_every_share_is_the_same(void **state)
{
    struct match_score idle = SCORE(0, 0, false, 0, 5, 1), busy = SCORE(0, 0, false, 1, 0, 1);

    (void)state;
    assert_true(match_compare(&idle, &busy) < 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_share_counts_what_is_there_and_what_is_spare),
        TEST(a_share_suffices_from_the_minimum_on),
        TEST(every_tenth_is_the_share_that_it_is_written_as),
        TEST(the_hint_of_the_attempt_says_how_much_is_enough),
        TEST(a_worker_sees_what_its_scopes_and_permissions_cover),
        TEST(share_then_not_the_failed_then_load_then_fitness_then_idleness),
        TEST(being_idle_for_longer_is_not_worth_waiting_for),
        TEST(where_nothing_is_required_every_share_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
