/* suite_list: pages of letters: every filter, every order, and search. */
#include "store/suite.h"

/* six makes six letters, a to f, one second apart and unlike in everything. */
static void six(struct place *place)
{
    static const struct {
        const char *id, *reason, *source, *agent, *fingerprint, *run, *trace, *actor, *type, *text;
        enum letter_state state;
        uint32_t attempts;
        bool eligible, recoverable;
    } table[] = {
        {"a", "r1", "s1", "w1", "f1", "run1", "t1", "", "Timeout", "disk full on host seven",
         LETTER_DEAD, 1, true, true},
        {"b", "r1", "s2", "w1", "f1", "run1", "t2", "ada", "Timeout", "disk failed",
         LETTER_RECOVERED, 2, true, false},
        {"c", "r2", "s1", "w2", "f2", "run2", "t3", "ada", "Other", "timeout after 30 s",
         LETTER_DISCARDED, 3, false, false},
        {"d", "r2", "s2", "", "f1", "", "t4", "", "Timeout", "full disk", LETTER_RECOVERING, 4,
         true, true},
        {"e", "r1", "s1", "w2", "f2", "run1", "t5", "bob", "Other", "the host is down",
         LETTER_ROLLED_BACK, 5, false, true},
        {"f", "r1", "s1", "w1", "f2", "run1", "t6", "", "Timeout", "Timeouts everywhere",
         LETTER_DEAD, 6, false, false},
    };
    for (size_t i = 0; i < 6; i++) {
        const char *id = arena_printf(&place->arena, "job-%s", table[i].id).ptr;
        begin(place);
        struct job job = insert(place, job_on(place, i < 3 ? "q1" : "q2", id), id);
        struct letter letter = letter_of(place, &job, table[i].id, NOON + (int64_t)i * SECOND);
        letter.reason = slice_of(table[i].reason);
        letter.source = slice_of(table[i].source);
        letter.agent = slice_of(table[i].agent);
        letter.fingerprint = letter.signature = slice_of(table[i].fingerprint);
        letter.run_id = slice_of(table[i].run);
        letter.trace_id = slice_of(table[i].trace);
        letter.recovered_by = slice_of(table[i].actor);
        letter.error_type = slice_of(table[i].type);
        letter.state = table[i].state;
        letter.failure_count = table[i].attempts;
        letter.job.redrive_count = table[i].attempts / 2;
        letter.eligible = table[i].eligible;
        letter.recoverable = table[i].recoverable;
        bury(place, &job, &letter, table[i].text);
        commit(place);
    }
}

static void every_filter_restricts_and_all_of_them_together(void **state)
{
    struct place *place = *state;
    static const struct {
        struct letter_filter filter;
        const char *ids;
    } table[] = {
        {{0}, "f e d c b a"},
        {{.oldest_first = true}, "a b c d e f"},
        {{.limit = 2}, "f e"},
        {{.recovered = YES}, "b"},
        {{.recovered = NO}, "f e d c a"},
        {{.open = YES}, "f d a"},
        {{.open = NO}, "e c b"},
        {{.open = YES, .oldest_first = true, .limit = 2}, "a d"},
        {{.open = YES, .recovered = YES}, ""},
        {{.has_state = true, .state = LETTER_DISCARDED}, "c"},
        {{.has_state = true, .state = LETTER_DEAD}, "f a"},
        {{.eligible = YES}, "d b a"},
        {{.eligible = NO}, "f e c"},
        {{.recoverable = YES}, "e d a"},
        {{.recoverable = YES, .open = YES}, "d a"},
        {{.reason = SLICE("r1")}, "f e b a"},
        {{.reason = SLICE("r1"), .open = YES}, "f a"},
        {{.reason = SLICE("R1")}, ""},
        {{.source = SLICE("s2")}, "d b"},
        {{.queue = SLICE("q1")}, "c b a"},
        {{.signature = SLICE("f2")}, "f e c"},
        {{.fingerprint = SLICE("f1")}, "d b a"},
        {{.fingerprint = SLICE("f1"),
          .reason = SLICE("r1"),
          .queue = SLICE("q1"),
          .source = SLICE("s1")},
         "a"},
        {{.error_type = SLICE("Other")}, "e c"},
        {{.agent = SLICE("w1")}, "f b a"},
        {{.actor = SLICE("ada")}, "c b"},
        {{.trace_id = SLICE("t4")}, "d"},
        {{.job_id = SLICE("job-c")}, "c"},
        {{.job_id = SLICE("run1")}, "f e b a"},
        {{.job_id = SLICE("run1"), .open = YES, .oldest_first = true}, "a f"},
        {{.after = {NOON + SECOND}}, "f e d c b"},
        {{.before = {NOON + SECOND}}, "a"},
        {{.after = {NOON + SECOND}, .before = {NOON + 3 * SECOND}}, "c b"},
        {{.attempts_min = 5}, "f e"},
        {{.attempts_max = 2}, "b a"},
        {{.attempts_min = 2, .attempts_max = 3, .reason = SLICE("r2")}, "c"},
        {{.redrives_below = 1}, "a"},
        {{.redrives_below = 3}, "e d c b a"},
        {{.redrives_below = 2, .reason = SLICE("r1")}, "b a"},
        {{.redrives_below = 2, .q = SLICE("disk"), .open = YES}, "a"},
        {{.cursor = NOON + 2 * SECOND}, "b a"},
        {{.cursor = NOON + 2 * SECOND, .oldest_first = true}, "d e f"},
        {{.cursor = NOON + 4 * SECOND, .reason = SLICE("r1"), .limit = 1}, "b"},
        {{.q = SLICE("disk")}, "d b a"},
        {{.q = SLICE("disk"), .recovered = NO}, "d a"},
        {{.q = SLICE("disk"), .oldest_first = true, .limit = 2}, "a b"},
        {{.q = SLICE("disk"), .cursor = NOON + 3 * SECOND}, "b a"},
        {{.q = SLICE("disk"), .before = {NOON + SECOND}}, "a"},
        {{.q = SLICE("disk"), .job_id = SLICE("run1")}, "b a"},
        {{.q = SLICE("disk"), .job_id = SLICE("job-d"), .agent = SLICE("w1")}, ""},
    };
    six(place);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
            const char *ids = listed(place, table[i].filter);
            if (strcmp(ids, table[i].ids) != 0)
                print_error("row %zu\n", i);
            assert_string_equal(ids, table[i].ids);
        }
        reopen(place);
    }
}

static void any_words_can_be_searched_for(void **state)
{
    struct place *place = *state;
    static const struct {
        struct slice q;
        const char *ids;
    } table[] = {
        {SLICE("full disk"), "d a"},
        {SLICE("\"disk full\""), "a"},
        {SLICE("\"disk full"), "a"},
        {SLICE("DISK\tFull\n"), "d a"},
        {SLICE("time*"), "f c"},
        {SLICE("timeout"), "c"},
        {SLICE("\"after 3\"*"), "c"},
        {SLICE("disk NOT full"), ""},
        {SLICE("disk OR timeout"), ""},
        {SLICE("text:disk"), ""},
        {SLICE("disk-full"), "a"},
        {SLICE("disk ( - * \" \""), "d b a"},
        {SLICE("disk\0full"), "d a"},
        {SLICE("di\"sk"), ""},
        {SLICE("   "), ""},
        {SLICE("---"), ""},
        {SLICE("*"), ""},
        {SLICE("\""), ""},
        {SLICE("\"\""), ""},
        {SLICE("\xff\xfe\x80"), ""},
        {SLICE("nowhere"), ""},
    };
    six(place);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *ids = listed(place, (struct letter_filter){.q = table[i].q});
        if (strcmp(ids, table[i].ids) != 0)
            print_error("q: %.*s\n", SLICE_ARG(table[i].q));
        assert_string_equal(ids, table[i].ids);
    }
}

static void a_limit_of_nothing_lists_nothing(void **state)
{
    struct place *place = *state;
    struct letter *letters;
    size_t count = 9;
    six(place);
    assert_ok(place, place->store->letter_list(place->store, &(struct letter_filter){0},
                                               &place->arena, &letters, &count, &place->err));
    assert_int_equal(count, 0);
}

static void pages_visit_each_letter_once_while_others_arrive(void **state)
{
    struct place *place = *state;
    struct letter_filter filter = {.recovered = NO, .limit = 2};
    char seen[64] = "";
    for (char id[] = "a"; *id <= 'i'; ++*id)
        dead(place, id, NOON + *id);
    for (int i = 0; i < 6; i++) {
        struct letter *letters;
        size_t count;
        assert_ok(place, place->store->letter_list(place->store, &filter, &place->arena, &letters,
                                                   &count, &place->err));
        for (size_t k = 0; k < count; k++) {
            snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%.*s",
                     SLICE_ARG(letters[k].dlq_id));
            filter.cursor = letters[k].position;
        }
        char fresh[] = {'n', (char)('0' + i), 0};
        dead(place, fresh, NOON + SECOND + i);
    }
    assert_string_equal(seen, "ihgfedcba");
}

struct cases list_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(every_filter_restricts_and_all_of_them_together),
        CASE(any_words_can_be_searched_for),
        CASE(a_limit_of_nothing_lists_nothing),
        CASE(pages_visit_each_letter_once_while_others_arrive),
    };
    return CASES(tests);
}
