/* Letters: what is judged of a failure, and every cell of the table of review actions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/letter.h"
#include "core/reason.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct failure failure_with(const char *type, const char *message)
{
    struct failure failure;

    failure_init(&failure);
    failure.error_type = slice_of(type);
    failure.message = slice_of(message);
    return failure;
}

static struct letter judged(const struct failure *failure, enum failure_class class,
                            const char *reason)
{
    struct letter letter = {0};
    struct decision decision = {
        .action = DECISION_QUARANTINE, .class = class, .rule = "test", .reason = reason};

    letter_judge(&letter, failure, &decision, false, false);
    return letter;
}

static void the_map_example_is_eligible_and_needs_no_review(void **state)
{
    struct failure failure = failure_with("CommandFailed", "cargo test failed with exit code 101");
    struct letter letter = judged(&failure, CLASS_UNKNOWN, REASON_RETRIES_EXHAUSTED);

    (void)state;
    assert_true(letter.eligible);
    assert_false(letter.review);
    assert_true(letter.recoverable);
    assert_true(slice_is(letter.reason, "retries_exhausted"));
    assert_true(slice_is(letter.reason_detail, "cargo test failed with exit code 101"));
    assert_int_equal(letter.replay_safety, REPLAY_UNKNOWN);
}

static void the_class_decides_eligibility(void **state)
{
    struct failure failure = failure_with("", "x");

    (void)state;
    for (int class = 0; class < CLASS_COUNT; class ++) {
        struct letter letter = judged(&failure, (enum failure_class) class, "r");
        bool environmental = class < CLASS_PERMISSION_DENIED;
        assert_int_equal(letter.eligible, environmental);
        assert_int_equal(letter.review, !environmental);
        assert_int_equal(letter.recoverable, environmental);
    }
}

static void grave_words_need_a_person_when_nothing_else_tells(void **state)
{
    static const struct {
        const char *type, *message;
        enum failure_class class;
        bool eligible;
    } cases[] = {
        {"", "Permission was refused", CLASS_UNKNOWN, false},
        {"", "bad permissions", CLASS_UNKNOWN, false},
        {"", "ACCESS DENIED", CLASS_UNKNOWN, false},
        {"", "access granted, denied later", CLASS_UNKNOWN, true},
        {"", "a CRITICAL thing", CLASS_UNKNOWN, false},
        {"", "fatal: no such ref", CLASS_UNKNOWN, false},
        {"", "nonfatal", CLASS_UNKNOWN, true},
        {"", "the index is corrupted", CLASS_UNKNOWN, false},
        {"", "schema validation", CLASS_UNKNOWN, false},
        {"", "fata", CLASS_UNKNOWN, true},
        {"", "", CLASS_UNKNOWN, true},
        {"", "fatal timeout", CLASS_TIMEOUT, true}, /* a class tells more than a word */
        {"ValidationFailed", "x", CLASS_UNKNOWN, false},
        {"CommitValidationFailed", "x", CLASS_UNKNOWN, false},
        {"MergeConflict", "x", CLASS_CONGESTION, false},
        {"WorktreeError", "x", CLASS_UNKNOWN, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct failure failure = failure_with(cases[i].type, cases[i].message);
        struct letter letter = judged(&failure, cases[i].class, "r");
        if (letter.eligible != cases[i].eligible || letter.review == cases[i].eligible ||
            letter.recoverable != cases[i].eligible)
            fail_msg("case %zu: %s %s", i, cases[i].type, cases[i].message);
    }
}

static void the_reporters_words_win(void **state)
{
    struct failure failure = failure_with("", "nobody can do this");
    struct letter letter;

    (void)state;
    failure.reason = SLICE("no_capable_agent");
    failure.reason_detail = SLICE("No agent with capabilities [research]");
    letter = judged(&failure, CLASS_UNKNOWN, REASON_RETRIES_EXHAUSTED);
    assert_true(slice_is(letter.reason, "no_capable_agent"));
    assert_true(slice_is(letter.reason_detail, "No agent with capabilities [research]"));
    assert_true(letter.recoverable);

    failure.reason = SLICE("policy_denied");
    letter = judged(&failure, CLASS_UNKNOWN, REASON_RETRIES_EXHAUSTED);
    assert_true(letter.review && !letter.recoverable);
}

static void a_failure_that_must_not_be_retried_waits_for_a_person(void **state)
{
    struct failure failure = failure_with("Timeout", "x");
    struct letter letter;

    (void)state;
    failure.retryable = NO;
    letter = judged(&failure, CLASS_TIMEOUT, REASON_NOT_RETRYABLE);
    assert_true(!letter.eligible && letter.review && !letter.recoverable);
    failure.retryable = YES;
    letter = judged(&failure, CLASS_CLIENT_ERROR, REASON_NOT_RETRYABLE);
    assert_true(!letter.eligible && letter.review && !letter.recoverable);
}

static void review_keeps_machines_away_without_touching_eligibility(void **state)
{
    struct failure failure = failure_with("Timeout", "x");
    struct decision decision = {
        .action = DECISION_QUARANTINE, .class = CLASS_TIMEOUT, .reason = "retries_exhausted"};
    struct letter letter = {0};

    (void)state;
    letter_judge(&letter, &failure, &decision, false, true);
    assert_true(letter.eligible && letter.review && !letter.recoverable);

    letter = judged(&failure, CLASS_TIMEOUT, REASON_NOT_IDEMPOTENT);
    assert_true(letter.eligible && letter.review && !letter.recoverable);

    letter = (struct letter){.escalated = true};
    letter_judge(&letter, &failure, &decision, false, false);
    assert_true(letter.eligible && !letter.review && !letter.recoverable);
}

static void replay_safety_follows_key_and_side_effects(void **state)
{
    static const struct {
        enum side_effects effects;
        bool key;
        enum replay_safety safety;
        bool review;
    } cases[] = {
        {EFFECTS_UNSAID, false, REPLAY_UNKNOWN, false},
        {EFFECTS_UNKNOWN, false, REPLAY_UNKNOWN, false},
        {EFFECTS_NONE, false, REPLAY_SAFE, false},
        {EFFECTS_COMMITTED, false, REPLAY_UNSAFE, true},
        {EFFECTS_UNSAID, true, REPLAY_SAFE, false},
        {EFFECTS_UNKNOWN, true, REPLAY_SAFE, false},
        {EFFECTS_NONE, true, REPLAY_SAFE, false},
        {EFFECTS_COMMITTED, true, REPLAY_SAFE, false},
    };
    struct decision decision = {
        .action = DECISION_QUARANTINE, .class = CLASS_TIMEOUT, .reason = "retries_exhausted"};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct failure failure = failure_with("Timeout", "x");
        struct letter letter = {0};
        failure.side_effects = cases[i].effects;
        letter_judge(&letter, &failure, &decision, cases[i].key, false);
        assert_int_equal(letter.replay_safety, cases[i].safety);
        assert_int_equal(letter.review, cases[i].review);
    }
}

static void the_table_of_review_actions_is_whole(void **state)
{
    /* For each state, in the order retry, discard, rollback, escalate, restore: the state that
     * follows, or the sentence. */
    static const struct {
        const char *state, *next[REVIEW_COUNT];
    } cases[LETTER_STATE_COUNT] = {
        {"dead", {"recovered", "discarded", "rolled_back", "dead", "it is not discarded"}},
        {"recovering",
         {"it is being replayed", "it is being replayed", "it is being replayed",
          "it is being replayed", "it is being replayed"}},
        {"recovered",
         {"already recovered", "already recovered", "already recovered", "already recovered",
          "already recovered"}},
        {"discarded",
         {"it is discarded: restore it first", "already discarded",
          "it is discarded: restore it first", "it is discarded: restore it first", "dead"}},
        {"rolled_back",
         {"already rolled back", "already rolled back", "already rolled back",
          "already rolled back", "already rolled back"}},
    };

    (void)state;
    for (size_t i = 0; i < LETTER_STATE_COUNT; i++) {
        enum letter_state from;
        assert_true(letter_state_from_name(slice_of(cases[i].state), &from));
        for (int action = 0; action < REVIEW_COUNT; action++) {
            const char *why = "unset";
            enum letter_state next = letter_next(from, (enum review_action)action, &why);
            const char *is = next == LETTER_STATE_COUNT ? why : letter_state_name(next);
            assert_string_equal(is, cases[i].next[action]);
            assert_int_equal(why == NULL, next != LETTER_STATE_COUNT);
            assert_int_equal(letter_next(from, (enum review_action)action, NULL), next);
        }
    }
}

static void the_table_of_outcomes_is_whole(void **state)
{
    /* For each state: what the letter is when its job is done, is cancelled, dies. */
    static const struct {
        enum letter_state from, done, cancelled, dead;
    } cases[] = {
        {LETTER_DEAD, LETTER_DEAD, LETTER_DEAD, LETTER_DEAD},
        {LETTER_RECOVERING, LETTER_RECOVERED, LETTER_DISCARDED, LETTER_DEAD},
        {LETTER_RECOVERED, LETTER_RECOVERED, LETTER_RECOVERED, LETTER_DEAD},
        {LETTER_DISCARDED, LETTER_DISCARDED, LETTER_DISCARDED, LETTER_DEAD},
        {LETTER_ROLLED_BACK, LETTER_ROLLED_BACK, LETTER_ROLLED_BACK, LETTER_DEAD},
    };

    (void)state;
    assert_int_equal(COUNT(cases), LETTER_STATE_COUNT);
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(letter_after(cases[i].from, JOB_DONE), cases[i].done);
        assert_int_equal(letter_after(cases[i].from, JOB_CANCELLED), cases[i].cancelled);
        assert_int_equal(letter_after(cases[i].from, JOB_DEAD), cases[i].dead);
    }
}

static void worktree_artifacts_are_those_of_a_worktree_and_no_others(void **state)
{
    static const struct {
        const char *artifacts, *kept;
    } cases[] = {
        {"", ""},
        {"{}", ""},
        {"{\"exit_code\":1,\"stdout\":\"x\",\"branch_name\":\"b\"}", ""},
        {"{\"worktree_path\":null,\"branch_name\":\"b\"}", ""},
        {"{\"worktree_path\":\"/w\"}",
         "{\"worktree_path\":\"/w\",\"branch_name\":null,\"uncommitted_changes\":null,"
         "\"error_logs\":null}"},
        {"{\"exit_code\":1,\"error_logs\":\"l\\n\", \"branch_name\" : \"b\",\"stderr\":\"e\","
         "\"uncommitted_changes\":[\"M a\"],\"worktree_path\":\"/w\"}",
         "{\"worktree_path\":\"/w\",\"branch_name\":\"b\",\"uncommitted_changes\":[\"M a\"],"
         "\"error_logs\":\"l\\n\"}"},
    };
    struct arena arena = {0};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct failure failure = failure_with("CommandFailed", "x");
        struct slice kept = SLICE("unset");
        if (cases[i].artifacts[0])
            assert_int_equal(json_parse(slice_of(cases[i].artifacts), &failure.artifacts, &err),
                             STATUS_OK);
        assert_int_equal(letter_artifacts(&failure, &arena, &kept, &err), STATUS_OK);
        if (!slice_is(kept, cases[i].kept))
            fail_msg("%s: %.*s", cases[i].artifacts, SLICE_ARG(kept));
    }
    arena_release(&arena);
}

static void names_are_those_of_the_contract(void **state)
{
    static const char *const actions[] = {"retry", "discard", "rollback", "escalate", "restore"};
    static const char *const statuses[] = {"retried", "discarded", "rolled_back", "escalated",
                                           "restored"};
    enum letter_state letter_state = LETTER_RECOVERED;

    (void)state;
    for (int i = 0; i < REVIEW_COUNT; i++) {
        assert_string_equal(review_action_name((enum review_action)i), actions[i]);
        assert_string_equal(review_status_name((enum review_action)i), statuses[i]);
    }
    assert_string_equal(replay_safety_name(REPLAY_SAFE), "safe");
    assert_string_equal(replay_safety_name(REPLAY_UNKNOWN), "unknown");
    assert_string_equal(replay_safety_name(REPLAY_UNSAFE), "unsafe");
    assert_false(letter_state_from_name(SLICE("undead"), &letter_state));
    assert_false(letter_state_from_name(SLICE(""), &letter_state));
    assert_int_equal(letter_state, LETTER_RECOVERED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_example_is_eligible_and_needs_no_review),
        cmocka_unit_test(the_class_decides_eligibility),
        cmocka_unit_test(grave_words_need_a_person_when_nothing_else_tells),
        cmocka_unit_test(the_reporters_words_win),
        cmocka_unit_test(a_failure_that_must_not_be_retried_waits_for_a_person),
        cmocka_unit_test(review_keeps_machines_away_without_touching_eligibility),
        cmocka_unit_test(replay_safety_follows_key_and_side_effects),
        cmocka_unit_test(the_table_of_review_actions_is_whole),
        cmocka_unit_test(the_table_of_outcomes_is_whole),
        cmocka_unit_test(worktree_artifacts_are_those_of_a_worktree_and_no_others),
        cmocka_unit_test(names_are_those_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
