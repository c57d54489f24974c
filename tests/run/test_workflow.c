/* test_workflow: workflow files: what they mean, and where they are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "core/policy.h"
#include "run/workflow.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What every workflow must have; the tests put their own before or behind it. */
#define MAP "map: {input: items.json, agent_template: 'ls {}'}\n"

struct reading {
    struct arena arena;
    struct workflow flow;
    struct err err;
};

/* read reads a text that must be right. */
static const struct workflow *read_good(struct reading *r, const char *text)
{
    *r = (struct reading){0};
    if (workflow_parse(slice_of(text), "w.yml", &r->arena, &r->flow, &r->err) != STATUS_OK)
        fail_msg("%s\n%s", text, r->err.text);
    return &r->flow;
}

static void release(struct reading *r)
{
    arena_release(&r->arena);
}

/* same says whether a slice is a text, and shows both when it is not. */
static void same(struct slice got, const char *expected)
{
    if (!slice_is(got, expected))
        fail_msg("'%.*s', not '%s'", SLICE_ARG(got), expected);
}

/* filled is a step's arguments for an item, as one text: "[ls][-l][a b]". */
static void filled(const struct step *step, const char *json, const char *expected)
{
    struct arena arena = {0};
    struct json value;
    struct item item;
    struct err err = {0};
    struct buf text;
    char **argv;

    assert_non_null(step->template);
    assert_int_equal(json_parse(slice_of(json), &value, &err), STATUS_OK);
    assert_int_equal(item_from_value(value, &arena, &item, &err), STATUS_OK);
    if (template_fill(step->template, &item, &arena, &argv, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    buf_init(&text, 10000);
    for (size_t i = 0; argv[i]; i++)
        buf_addf(&text, "[%s]", argv[i]);
    assert_string_equal(buf_str(&text), expected);
    buf_release(&text);
    arena_release(&arena);
}

/* ---- what they mean ------------------------------------------------------------------------- */

static void every_key_is_read(void **state)
{
    struct reading r;
    const struct workflow *w = read_good(&r, "name: tidy\n"
                                             "mode: mapreduce\n"
                                             "setup:\n"
                                             "  - mkdir -p out\n"
                                             "map:\n"
                                             "  input: items.json\n"
                                             "  json_path: $.items[*]\n"
                                             "  agent_template: [clang-format, -i, '{file}']\n"
                                             "  max_parallel: 4\n"
                                             "  filter: item.size > 10\n"
                                             "  sort_by: item.size DESC\n"
                                             "  max_items: 100\n"
                                             "  offset: 3\n"
                                             "  distinct: item.file\n"
                                             "  agent_timeout_secs: 1.5\n"
                                             "  id_field: item.meta.id\n"
                                             "  validate: test -s out\n"
                                             "  worktree: true\n"
                                             "  commit_required: true\n"
                                             "reduce:\n"
                                             "  - shell: echo ${map.total}\n"
                                             "error_policy:\n"
                                             "  on_item_failure: custom\n"
                                             "  custom: exit 75\n"
                                             "  continue_on_failure: true\n"
                                             "  max_failures: 7\n"
                                             "  failure_threshold: 0.25\n"
                                             "  retry_config: background\n");
    (void)state;
    assert_string_equal(w->name, "tidy");
    assert_int_equal(w->setup.count, 1);
    assert_int_equal(w->map.count, 1);
    assert_int_equal(w->reduce.count, 1);
    assert_string_equal(w->input, "items.json");
    assert_int_equal(w->items.type, JSON_NULL);
    assert_string_equal(w->json_path, "$.items[*]");
    filled(&w->map.steps[0], "{\"file\":\"a b\"}", "[clang-format][-i][a b]");
    assert_int_equal(w->parallel_max, 4);
    assert_string_equal(w->filter, "item.size > 10");
    assert_string_equal(w->sort_by, "item.size DESC");
    assert_int_equal(w->items_max, 100);
    assert_int_equal(w->offset, 3);
    assert_string_equal(w->distinct, "file");
    assert_int_equal(w->timeout.us, 1500000);
    assert_string_equal(w->id_field, "meta.id");
    same(w->validate, "test -s out");
    assert_true(w->worktree);
    assert_true(w->commit_required);
    assert_int_equal(w->on_failure, ON_FAILURE_CUSTOM);
    same(w->custom, "exit 75");
    assert_int_equal(w->failures_max, 7);
    assert_true(w->failure_threshold == 0.25);
    same(w->policy, "\"background\"");
    release(&r);
}

static void what_is_not_said_has_its_default(void **state)
{
    struct reading r;
    const struct workflow *w = read_good(&r, MAP);
    (void)state;
    assert_null(w->name);
    assert_int_equal(w->setup.count, 0);
    assert_int_equal(w->reduce.count, 0);
    assert_null(w->json_path);
    assert_null(w->filter);
    assert_int_equal(w->parallel_max, 0);
    assert_int_equal(w->items_max, 0);
    assert_int_equal(w->timeout.us, 0);
    assert_false(w->worktree || w->commit_required);
    assert_int_equal(w->on_failure, ON_FAILURE_DLQ);
    assert_int_equal(w->failures_max, -1);
    assert_true(w->failure_threshold == -1);
    assert_int_equal(w->policy.len, 0);
    release(&r);
}

static void items_may_stand_in_the_file_itself(void **state)
{
    struct reading r;
    const struct workflow *w =
        read_good(&r, "map:\n  input: [a.c, {file: b.c, size: 2}, 3]\n  agent_template: 'wc {}'\n");
    (void)state;
    assert_null(w->input);
    assert_int_equal(w->items.type, JSON_ARRAY);
    same(w->items.raw, "[\"a.c\",{\"file\":\"b.c\",\"size\":2},3]");
    release(&r);
    w = read_good(&r, "map: {input: [], agent_template: 'wc {}'}\n");
    assert_int_equal(w->items.type, JSON_ARRAY);
    release(&r);
}

static void a_command_has_many_forms(void **state)
{
    static const struct {
        const char *template, *filled;
    } rows[] = {
        {"'cp -- {} \"out dir\"'", "[cp][--][x y][out dir]"},
        {"[cp, --, '{}', out]", "[cp][--][x y][out]"},
        {"[head, -n, 5, -c, 2.50, true, '{}']", "[head][-n][5][-c][2.50][true][x y]"},
        {"['cp {}', '']", "[cp x y][]"},
        {"[['wc', '${item}']]", "[wc][x y]"},
        {"{run: 'wc ${item}'}", "[wc][x y]"},
        {"{run: [wc, 'a${item}b']}", "[wc][ax yb]"},
        {"[{run: [wc, '{}']}]", "[wc][x y]"},
        {"{commands: ['wc {}']}", "[wc][x y]"},
        {"{commands: [[wc, '{}']]}", "[wc][x y]"},
        {"[awk, '{print $1}', '{}']", "[awk][{print $1}][x y]"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct reading r;
        char text[400];
        snprintf(text, sizeof(text), "map:\n  input: i\n  agent_template: %s\n", rows[i].template);
        const struct workflow *w = read_good(&r, text);
        assert_int_equal(w->map.count, 1);
        filled(&w->map.steps[0], "\"x y\"", rows[i].filled);
        release(&r);
    }
}

static void steps_keep_their_order_and_their_own_settings(void **state)
{
    struct reading r;
    const struct workflow *w = read_good(&r, "setup:\n"
                                             "  commands:\n"
                                             "  - mkdir -p out\n"
                                             "  - [touch, a b]\n"
                                             "map:\n"
                                             "  input: i\n"
                                             "  agent_template:\n"
                                             "  - make {}\n"
                                             "  - shell: |\n"
                                             "      make check\n"
                                             "      git commit -am done\n"
                                             "    timeout: 1h30m\n"
                                             "    commit_required: true\n"
                                             "  - run: make clean\n"
                                             "    timeout: 250ms\n"
                                             "reduce: make report\n");
    const struct step *steps = w->map.steps;
    (void)state;
    assert_int_equal(w->setup.count, 2);
    same(w->setup.steps[0].text, "mkdir -p out");
    filled(&w->setup.steps[1], "null", "[touch][a b]");
    assert_int_equal(w->map.count, 3);
    same(steps[0].text, "make {}");
    assert_int_equal(steps[0].timeout.us, 0);
    assert_null(steps[1].template);
    same(steps[1].text, "make check\ngit commit -am done\n");
    assert_string_equal(steps[1].script.text, "make check\ngit commit -am done\n");
    assert_int_equal(steps[1].timeout.us, INT64_C(5400) * 1000000);
    assert_true(steps[1].commit_required);
    assert_int_equal(steps[2].timeout.us, 250000);
    assert_false(steps[0].commit_required || steps[2].commit_required);
    assert_int_equal(w->reduce.count, 1);
    release(&r);
}

static void scripts_have_places_by_phase(void **state)
{
    struct reading r;
    const struct workflow *w =
        read_good(&r, "setup: {shell: 'for f in *; do echo \"${f}\" $item; done'}\n"
                      "map:\n"
                      "  input: i\n"
                      "  agent_template: {shell: 'wc -l ${item.file} > ${HOME}/out'}\n"
                      "reduce:\n"
                      "- shell: echo ${map.successful}/${map.total}, failed ${map.failed}\n");
    const struct script *script = &w->map.steps[0].script;
    (void)state;
    assert_int_equal(w->setup.steps[0].script.place_count, 0);
    assert_int_equal(script->place_count, 1);
    same(script->places[0].name, "item.file");
    assert_non_null(strstr(script->text, "${HOME}/out"));
    script = &w->reduce.steps[0].script;
    assert_int_equal(script->place_count, 3);
    same(script->places[0].name, "map.successful");
    same(script->places[1].name, "map.total");
    same(script->places[2].name, "map.failed");
    release(&r);
}

static void arguments_of_reduce_have_the_results(void **state)
{
    struct reading r;
    const struct workflow *w = read_good(
        &r, MAP "reduce:\n"
                "- [report, '${map.successful}/${map.total}', '{map.results_file}', '$5']\n"
                "- echo ${map.results} ${map.failed}\n");
    static const char results[] = "{\"map\":{\"successful\":3,\"failed\":1,\"total\":4,"
                                  "\"results\":[1,2],\"results_file\":\"/tmp/r\"}}";
    (void)state;
    filled(&w->reduce.steps[0], results, "[report][3/4][/tmp/r][$5]");
    filled(&w->reduce.steps[1], results, "[echo][[1,2]][1]");
    same(w->reduce.steps[0].text,
         "report '${map.successful}/${map.total}' {map.results_file} '$5'");
    same(w->reduce.steps[1].text, "echo ${map.results} ${map.failed}");
    release(&r);
}

static void times_are_seconds_or_have_a_unit(void **state)
{
    static const struct {
        const char *time;
        int64_t us;
    } rows[] = {
        {"30", 30000000},  {"0.25", 250000},     {"500ms", 500000},     {"2s", 2000000},
        {"5m", 300000000}, {"1.5h", 5400000000}, {"1h30m", 5400000000}, {"1d", 86400000000},
        {"'2s'", 2000000}, {"1m0.5s", 60500000},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct reading r;
        char text[200];
        snprintf(text, sizeof(text),
                 "map:\n  input: i\n  agent_template: ls\n  agent_timeout_secs: %s\n",
                 rows[i].time);
        assert_int_equal(read_good(&r, text)->timeout.us, rows[i].us);
        release(&r);
    }
}

/* ---- the error policy ----------------------------------------------------------------------- */

static void a_run_that_does_not_go_on_stops_at_the_first_failure(void **state)
{
    struct reading r;
    (void)state;
    assert_int_equal(
        read_good(&r, MAP "error_policy: {continue_on_failure: false}\n")->failures_max, 1);
    release(&r);
    assert_int_equal(read_good(&r, MAP "error_policy: {continue_on_failure: true}\n")->failures_max,
                     -1);
    release(&r);
}

static void on_failure_names_are_read_back(void **state)
{
    static const char *const names[] = {"dlq", "retry", "skip", "stop", "custom"};
    enum on_failure on_failure = ON_FAILURE_SKIP;
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_true(on_failure_from_name(slice_of(names[i]), &on_failure));
        assert_int_equal(on_failure, i);
        assert_string_equal(on_failure_name(on_failure), names[i]);
    }
    on_failure = ON_FAILURE_SKIP;
    assert_false(on_failure_from_name(SLICE("DLQ"), &on_failure));
    assert_false(on_failure_from_name(SLICE(""), &on_failure));
    assert_int_equal(on_failure, ON_FAILURE_SKIP);
}

static void retry_config_is_a_policy(void **state)
{
    /* The numbers are attempts, then the delays after attempts 1, 2 and 3 in milliseconds. */
    static const struct {
        const char *config;
        uint32_t attempts;
        int64_t delays_ms[3];
        enum jitter jitter;
    } rows[] = {
        {"{}", 3, {1000, 2000, 4000}, JITTER_NONE},
        {"{max_attempts: 7}", 7, {1000, 2000, 4000}, JITTER_NONE},
        {"{attempts: 2}", 2, {1000, 2000, 4000}, JITTER_NONE},
        {"{backoff: fixed, initial_delay: 500ms}", 3, {500, 500, 500}, JITTER_NONE},
        {"{backoff: fixed, initial_delay: 2m}", 3, {120000, 120000, 120000}, JITTER_NONE},
        {"{backoff: exponential, initial_delay: 10, multiplier: 3}", 3, {10000, 30000, 30000}, 0},
        {"{initial_delay: 10, multiplier: 3, max_delay: 1h}", 3, {10000, 30000, 90000}, 0},
        {"{backoff: linear, initial_delay: 1s, increment: 2s}", 3, {1000, 3000, 5000}, 0},
        {"{backoff: {type: linear, initial: 1s, increment: 2s, max: 4s}}",
         3,
         {1000, 3000, 4000},
         0},
        {"{backoff: {fixed: {delay: 5s}}}", 3, {5000, 5000, 5000}, JITTER_NONE},
        {"{backoff: {exponential: {initial: 2s, base: 4, max: 1m}}}", 3, {2000, 8000, 32000}, 0},
        {"{backoff: {fibonacci: {initial: 3s}}}", 3, {3000, 3000, 6000}, JITTER_NONE},
        {"{backoff: {custom: {delays: [500ms, 1s]}}}", 3, {500, 1000, 1000}, JITTER_NONE},
        {"{schedule: [1s, 5m, 30]}", 4, {1000, 300000, 30000}, JITTER_NONE},
        {"{backoff: schedule, schedule: [1, 2], max_attempts: 9}", 9, {1000, 2000, 2000}, 0},
        {"{jitter: true}", 3, {1000, 2000, 4000}, JITTER_FULL},
        {"{jitter_mode: equal}", 3, {1000, 2000, 4000}, JITTER_EQUAL},
        {"{jitter: true, jitter_factor: 0.1}", 3, {1000, 2000, 4000}, JITTER_PROPORTIONAL},
        {"{jitter: false, jitter_factor: 0.1}", 3, {1000, 2000, 4000}, JITTER_NONE},
        {"{max_attempts: 4, backoff_strategy: linear, initial_delay_seconds: 0.025, "
         "retry_budget_seconds: null, retry_on: [timeout]}",
         4,
         {25, 50, 75},
         JITTER_NONE},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct reading r;
        struct json json;
        struct policy policy;
        char text[400];
        snprintf(text, sizeof(text), MAP "error_policy:\n  retry_config: %s\n", rows[i].config);
        const struct workflow *w = read_good(&r, text);
        assert_int_equal(json_parse(w->policy, &json, &r.err), STATUS_OK);
        assert_int_equal(policy_parse(json, &r.arena, &policy, &r.err), STATUS_OK);
        assert_int_equal(policy.max_attempts, rows[i].attempts);
        assert_int_equal(policy.jitter, rows[i].jitter);
        for (uint32_t n = 1; n <= 3; n++)
            if (policy_delay(&policy, n).us != rows[i].delays_ms[n - 1] * 1000)
                fail_msg("%s: delay %u is %lld us", rows[i].config, n,
                         (long long)policy_delay(&policy, n).us);
        release(&r);
    }
}

static void retry_config_takes_budget_and_kinds_of_failures(void **state)
{
    struct reading r;
    struct json json;
    struct policy policy;
    const struct workflow *w =
        read_good(&r, MAP "error_policy:\n  retry_config:\n    retry_budget: 5m\n"
                          "    never_retry: [invalid_input, 404]\n    first_attempt_delay: 2s\n");
    (void)state;
    assert_int_equal(json_parse(w->policy, &json, &r.err), STATUS_OK);
    assert_int_equal(policy_parse(json, &r.arena, &policy, &r.err), STATUS_OK);
    assert_int_equal(policy.retry_budget.us, 300000000);
    assert_int_equal(policy.first_delay.us, 2000000);
    same(policy.never_retry.raw, "[\"invalid_input\",404]");
    release(&r);
}

/* ---- where they are wrong ------------------------------------------------------------------- */

/* refuse expects the error; what it ends in is left open when the sentence ends in "...". */
static void refuse(const char *text, const char *error)
{
    struct arena arena = {0};
    struct workflow untouched = {.offset = 42};
    struct err err = {0};
    size_t len = strlen(error);
    bool open = len > 3 && strcmp(error + len - 3, "...") == 0;
    enum status status = workflow_parse(slice_of(text), "w.yml", &arena, &untouched, &err);

    if (status != STATUS_INVALID)
        fail_msg("accepted: %s", text);
    if (strncmp(err.text, "w.yml: ", 7) != 0 ||
        (open ? strncmp(err.text + 7, error, len - 3) : strcmp(err.text + 7, error)) != 0)
        fail_msg("%s\n'%s', not\n'w.yml: %s'", text, err.text, error);
    assert_int_equal(untouched.offset, 42);
    arena_release(&arena);
}

struct wrong {
    const char *text, *error;
};

#define REFUSE_ALL(rows)                                                                           \
    for (size_t row = 0; row < COUNT(rows); row++)                                                 \
    refuse(rows[row].text, rows[row].error)

static void yaml_errors_have_their_place(void **state)
{
    static const struct wrong rows[] = {
        {"map:\n  input: [a\n", "line 3, column 1: ..."},
        {"name: a\nname: b\n", "line 2, column 1: duplicate key 'name'"},
        {"name: &a b\n", "line 1, column 7: anchors are not allowed"},
        {"", "line 1, column 1: there is no document"},
        {"- a\n", "line 1, column 1: a workflow: must be a mapping of keys, not [\"a\"]"},
        {"text", "line 1, column 1: a workflow: must be a mapping of keys, not \"text\""},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void unknown_keys_have_their_place_and_a_suggestion(void **state)
{
    static const struct wrong rows[] = {
        {MAP "reducee: []\n",
         "line 2, column 1: a workflow has no key \"reducee\"; did you mean \"reduce\"?"},
        {MAP "env: {A: b}\n",
         "line 2, column 1: a workflow has no key \"env\"; it has name, mode, setup, map, reduce, "
         "error_policy"},
        {"map:\n  input: i\n  max_paralel: 4\n",
         "line 3, column 3: map has no key \"max_paralel\"; did you mean \"max_parallel\"?"},
        {"map:\n  input: i\n  parallel: 4\n",
         "line 3, column 3: map has no key \"parallel\"; did you mean \"max_parallel\"?"},
        {"map:\n  input: i\n  timeout: 4\n", "line 3, column 3: map has no key \"timeout\"; it has "
                                             "input, json_path, agent_template, ..."},
        {MAP "error_policy:\n  on_item_failur: dlq\n",
         "line 3, column 3: error_policy has no key \"on_item_failur\"; did you mean "
         "\"on_item_failure\"?"},
        {MAP "error_policy:\n  retry_config: {max_attempt: 3}\n",
         "line 3, column 18: error_policy.retry_config has no key \"max_attempt\"; did you mean "
         "\"max_attempts\"?"},
        {MAP "error_policy:\n  retry_config:\n    backoff: {typ: fixed}\n",
         "line 4, column 15: error_policy.retry_config.backoff has no key \"typ\"; did you mean "
         "\"type\"?"},
        {MAP "setup:\n- shell: ls\n  timout: 3\n",
         "line 4, column 3: a step has no key \"timout\"; did you mean \"timeout\"?"},
        {MAP "setup:\n  commands: []\n  timeout: 3\n",
         "line 4, column 3: setup has no key \"timeout\"; it has commands"},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void missing_keys_have_a_place(void **state)
{
    static const struct wrong rows[] = {
        {"name: tidy\n", "line 1, column 1: map is missing: the items and what to do with them"},
        {"{}", "line 1, column 1: map is missing: the items and what to do with them"},
        {"name: a\nmap:\n  agent_template: ls\n",
         "line 3, column 3: map.input is missing: the path of a file of items, or a list of them"},
        {"map:\n  input: a\n",
         "line 2, column 3: map.agent_template is missing: the command to run for each item"},
        {"name: a\nmap:\n",
         "line 2, column 1: map: has no value; give it one or leave the key out"},
        {"map:\n  input: a\n  filter:\n  agent_template: ls\n",
         "line 3, column 3: map.filter: has no value; give it one or leave the key out"},
        {"map:\n  input: a\n  agent_template: []\n",
         "line 3, column 19: map.agent_template: has no command"},
        {"map:\n  input: a\n  agent_template: {commands: []}\n",
         "line 3, column 19: map.agent_template: has no command"},
        {MAP "error_policy:\n  on_item_failure: custom\n",
         "line 3, column 20: error_policy.custom is missing: the script that decides, by its exit "
         "code, about an item that failed"},
        {MAP "error_policy:\n  custom: exit 1\n",
         "line 3, column 11: error_policy.custom: is for on_item_failure: custom"},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void wrong_types_and_values_have_their_place(void **state)
{
    static const struct wrong rows[] = {
        {"mode: sequential\n" MAP, "line 1, column 7: mode: must be mapreduce, not \"sequential\""},
        {"name: 5\n" MAP, "line 1, column 7: name: must be a string, not 5"},
        {"name: ''\n" MAP, "line 1, column 7: name: may not be empty"},
        {"name: \"a\\0b\"\n" MAP, "line 1, column 7: name: may not have a NUL in it"},
        {"map: [a]\n", "line 1, column 6: map: must be a mapping of keys, not [\"a\"]"},
        {"map:\n  input: {a: b}\n", "line 2, column 10: map.input: must be the path of a file or a "
                                    "list of items, not {\"a\":\"b\"}"},
        {"map:\n  max_parallel: 0\n", "line 2, column 17: map.max_parallel: must be a whole number "
                                      "from 1 to 1000, not 0"},
        {"map:\n  max_parallel: '4'\n", "line 2, column 17: map.max_parallel: must be a whole "
                                        "number from 1 to 1000, not \"4\""},
        {"map:\n  max_items: 1.5\n", "line 2, column 14: map.max_items: must be a whole number..."},
        {"map:\n  offset: -1\n", "line 2, column 11: map.offset: must be a whole number from 0..."},
        {"map:\n  worktree: yes\n", "line 2, column 13: map.worktree: must be true or false, not "
                                    "\"yes\""},
        {"map:\n  agent_timeout_secs: 0\n",
         "line 2, column 23: map.agent_timeout_secs: must be a time of more than 0, such as 30 "
         "(seconds), 500ms, 2s, 5m or 1h, not 0"},
        {"map:\n  agent_timeout_secs: 5 minutes\n",
         "line 2, column 23: map.agent_timeout_secs: ..."},
        {"map:\n  agent_timeout_secs: 1e300\n", "line 2, column 23: map.agent_timeout_secs: ..."},
        {"map:\n  agent_timeout_secs: 99999999999d\n", "line 2, column 23: map.agent_timeout..."},
        {"map:\n  agent_timeout_secs: ''\n", "line 2, column 23: map.agent_timeout_secs: ..."},
        {"map:\n  agent_timeout_secs: -2s\n", "line 2, column 23: map.agent_timeout_secs: ..."},
        {"map:\n  agent_timeout_secs: s\n", "line 2, column 23: map.agent_timeout_secs: ..."},
        {MAP "error_policy: dlq\n",
         "line 2, column 15: error_policy: must be a mapping of keys, not \"dlq\""},
        {MAP "error_policy:\n  on_item_failure: ignore\n",
         "line 3, column 20: error_policy.on_item_failure: must be dlq, retry, skip, stop or "
         "custom, not \"ignore\""},
        {MAP "error_policy:\n  on_item_failure: [dlq]\n", "line 3, column 20: error_policy.on_..."},
        {MAP "error_policy:\n  max_failures: 0\n",
         "line 3, column 17: error_policy.max_failures: must be a whole number from 1..."},
        {MAP "error_policy:\n  max_failures: 2\n  continue_on_failure: false\n",
         "line 3, column 17: error_policy.max_failures: continue_on_failure: false stops at the "
         "first failure; leave one of them out"},
        {MAP "error_policy:\n  failure_threshold: 0\n",
         "line 3, column 22: error_policy.failure_threshold: must be a share from 0 to 1 and more "
         "than 0, such as 0.2, not 0"},
        {MAP "error_policy:\n  failure_threshold: 20\n",
         "line 3, column 22: error_policy.failure..."},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void filters_and_paths_are_checked(void **state)
{
    static const struct wrong rows[] = {
        {"map:\n  input: a\n  filter: item.size >\n",
         "line 3, column 11: map.filter: column 12: expected a value..."},
        {"map:\n  filter: 'size > 5'\n",
         "line 2, column 11: map.filter: column 1: expected a field "
         "(item.NAME for a member of the item), found 'size'"},
        {"map:\n  filter: ''\n", "line 2, column 11: map.filter: may not be empty"},
        {"map:\n  filter: true\n", "line 2, column 11: map.filter: must be a string, not true"},
        {"map:\n  sort_by: item.size UP\n", "line 2, column 12: map.sort_by: column 11: ..."},
        {"map:\n  distinct: a..b\n", "line 2, column 13: map.distinct: must be a path such as "
                                     "meta.name, not \"a..b\""},
        {"map:\n  id_field: item\n",
         "line 2, column 13: map.id_field: must be a field of the item: meta.name, not item"},
        {"map:\n  json_path: items[*]\n", "line 2, column 14: map.json_path: ..."},
        {"map:\n  json_path: \"$.a[\"\n", "line 2, column 14: map.json_path: ..."},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void steps_are_checked(void **state)
{
    static const struct wrong rows[] = {
        {"setup:\n- claude: /fix\n" MAP, "line 2, column 3: a step of the kind \"claude\" can not "
                                         "be run here: a step has shell: (a "
                                         "script) or run: (a command)"},
        {"setup:\n- shell: ls\n  run: ls\n" MAP,
         "line 2, column 3: a step has either shell: (a script) or run: (a command)"},
        {"setup:\n- timeout: 5\n" MAP,
         "line 2, column 3: a step has either shell: (a script) or run: (a command)"},
        {"setup: 5\n" MAP, "line 1, column 8: a step: must be a command line, a list of arguments, "
                           "or one of shell: and run:, not 5"},
        {"setup:\n- ls\n-\n" MAP, "line 3, column 2: a step: must be a command line..."},
        {"setup: {commands: ls}\n" MAP, "line 1, column 19: commands: must be a list of steps, not "
                                        "\"ls\""},
        {"setup:\n- ls 'open\n" MAP,
         "line 2, column 3: in the line: column 4: this quote does not end"},
        {"setup:\n- ls | wc\n" MAP,
         "line 2, column 3: in the line: column 4: only a shell can do this..."},
        {"setup:\n- ''\n" MAP, "line 2, column 3: a command: may not be empty"},
        {"setup:\n- '  '\n" MAP, "line 2, column 3: a command begins with the name of a program"},
        {"setup:\n- []\n" MAP, "line 2, column 3: a command begins with the name of a program"},
        {"setup:\n- ['', a]\n" MAP,
         "line 2, column 3: a command begins with the name of a program"},
        {"setup:\n- [ls, [a]]\n" MAP, "line 2, column 8: an argument: must be a text or a number, "
                                      "not [\"a\"]"},
        {"setup:\n- [ls, \"a\\0\"]\n" MAP,
         "line 2, column 8: an argument may not have a NUL in it"},
        {"setup:\n- shell: [ls]\n" MAP, "line 2, column 10: shell: must be a string, not [\"ls\"]"},
        {"setup:\n- run: {a: b}\n" MAP,
         "line 2, column 8: run: must be a command line or a list of "
         "arguments, not {\"a\":\"b\"}"},
        {"setup:\n- shell: ls\n  timeout: never\n" MAP,
         "line 3, column 12: timeout: must be a time..."},
        {"setup:\n- shell: ls\n  commit_required: true\n" MAP,
         "line 3, column 20: commit_required: is for the steps of map, not of setup"},
        {"map:\n  agent_template:\n  - shell: ls\n    commit_required: 1\n",
         "line 4, column 22: commit_required: must be true or false, not 1"},
        {"map:\n  agent_template:\n  - shell: echo '${item}'\n",
         "line 3, column 12: in the script: column 7: a shell puts nothing in inside of single "
         "quotes..."},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void a_place_without_quotes_is_a_mapping_and_the_error_says_so(void **state)
{
    static const char hint[] = "an argument must be a text: a place for the item stands in quotes, "
                               "\"{}\" or \"{file}\"";
    static const struct {
        const char *text;
        int column;
    } rows[] = {
        {"map:\n  agent_template: [ls, {}]\n", 24},
        {"map:\n  agent_template: [ls, {file}]\n", 24},
        {"map:\n  agent_template: [[ls, {file}]]\n", 25},
        {"map:\n  agent_template: {}\n", 19},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char error[300];
        snprintf(error, sizeof(error), "line 2, column %d: %s", rows[i].column, hint);
        refuse(rows[i].text, error);
    }
}

static void what_is_not_known_in_a_phase_is_an_error(void **state)
{
    static const struct wrong rows[] = {
        {"setup:\n- shell: echo ${item.file}\n" MAP,
         "line 2, column 10: ${item.file} can not be put into setup: there is no item yet"},
        {"setup:\n- shell: |\n    for item in *; do\n      echo ${item}\n    done\n" MAP,
         "line 2, column 10: ${item} can not be put into setup: there is no item yet (a variable "
         "of "
         "the script's own is written $item)"},
        {"setup:\n- echo ${item}\n" MAP,
         "line 2, column 3: ${item} can not be put into setup: there is no item yet"},
        {"setup:\n- [find, ., -exec, rm, '{}', ;]\n" MAP,
         "line 2, column 24: {} can not be put into setup: there is no item yet; where the braces "
         "stand for themselves, write the command as shell:"},
        {"setup:\n- echo ${map.total}\n" MAP,
         "line 2, column 3: ${map.total} can not be put into setup: it is known in reduce"},
        {"map:\n  agent_template:\n  - shell: echo ${map.total}\n",
         "line 3, column 12: ${map.total} can not be put into map: it is known in reduce"},
        {"map:\n  agent_template: [echo, '${map.total}']\n",
         "line 2, column 26: ${map.total} can not be put into map: it is known in reduce"},
        {MAP "reduce:\n- shell: echo ${item}\n",
         "line 3, column 10: ${item} can not be put into reduce: the items are done, and "
         "${map.results} says what became of them (a variable of the script's own is written "
         "$item)"},
        {MAP "reduce:\n- [echo, '{file}']\n",
         "line 3, column 10: {file} can not be put into reduce..."},
        {MAP "reduce:\n- [echo, a, '${map.totl}']\n",
         "line 3, column 13: ${map.totl} is unknown; there are ${map.successful}, ${map.failed}, "
         "${map.total}, ${map.results} and ${map.results_file}"},
        {MAP "reduce:\n- shell: echo ${map}\n",
         "line 3, column 10: ${map} is unknown; there are..."},
        {MAP "reduce:\n- echo {map.x}\n", "line 3, column 3: {map.x} is unknown; there are..."},
        {"map:\n  agent_template: echo ${item.tags[0]}\n",
         "line 2, column 19: ${item.tags[0]} can not be put in: a place is ${item.name}, or "
         "${item.list.0} for the first of a list"},
        {"map:\n  agent_template: [echo, '${item:-x}']\n",
         "line 2, column 26: ${item:-x} can not be put in..."},
        {MAP "reduce: 'echo ${map:-x}'\n", "line 2, column 9: ${map:-x} can not be put in..."},
        {"map:\n  validate: test -s ${item.file}\n",
         "line 2, column 13: ${item.file} can not be put into this script: the item is in "
         "$LAZARET_ITEM"},
        {MAP "error_policy:\n  on_item_failure: custom\n  custom: echo ${item}\n",
         "line 4, column 11: ${item} can not be put into this script: the item is in "
         "$LAZARET_ITEM (a variable of the script's own is written $item)"},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void braces_of_the_shell_are_left_alone(void **state)
{
    struct reading r;
    const struct workflow *w = read_good(
        &r, "setup:\n"
            "- shell: \"x=1; echo ${x} ${item:-none} \\\\${item} ${map} {a,b} {} {file}\"\n"
            "- [awk, '{print $1}', '{', '}{', '${HOME}', '${map', '${', '{a..b}']\n" MAP
            "reduce:\n- [echo, '${mapping', '{map.total}', '$${map.total}']\n");
    (void)state;
    same(w->setup.steps[0].text, "x=1; echo ${x} ${item:-none} \\${item} ${map} {a,b} {} {file}");
    filled(&w->setup.steps[1], "null", "[awk][{print $1}][{][}{][${HOME}][${map][${][{a..b}]");
    filled(&w->reduce.steps[0], "{\"map\":{\"total\":4}}", "[echo][${mapping][4][$4]");
    release(&r);
}

static void errors_of_the_policy_are_in_the_words_of_the_file(void **state)
{
    static const struct wrong rows[] = {
        {MAP "error_policy:\n  retry_config: 3\n",
         "line 3, column 17: error_policy.retry_config: must be a policy's name or a mapping of "
         "keys, not 3"},
        {MAP "error_policy:\n  retry_config: ''\n",
         "line 3, column 17: error_policy.retry_config..."},
        {MAP "error_policy:\n  retry_config:\n    attempts: 0\n",
         "line 4, column 15: error_policy.retry_config.attempts: must be a whole number from 1 to "
         "1000, not 0"},
        {MAP "error_policy:\n  retry_config:\n    attempts: 2\n    max_attempts: 3\n",
         "line 5, column 19: error_policy.retry_config.max_attempts: says again what "
         "error_policy.retry_config.attempts has said"},
        {MAP "error_policy:\n  retry_config:\n    initial_delay: soon\n",
         "line 4, column 20: error_policy.retry_config.initial_delay: must be a time such as 30 "
         "(seconds), 500ms, 2s, 5m or 1h, not \"soon\""},
        {MAP "error_policy:\n  retry_config:\n    initial_delay: [1s]\n",
         "line 4, column 20: error_policy.retry_config.initial_delay: must be a number from 0..."},
        {MAP "error_policy:\n  retry_config:\n    schedule: [1s, x]\n",
         "line 4, column 20: error_policy.retry_config.schedule: must be a time..."},
        {MAP "error_policy:\n  retry_config:\n    backoff: polynomial\n",
         "line 4, column 14: error_policy.retry_config.backoff: must be exponential, fixed, "
         "linear, "
         "fibonacci or schedule, not \"polynomial\""},
        {MAP "error_policy:\n  retry_config:\n    backoff:\n      type: polynomial\n",
         "line 5, column 13: error_policy.retry_config.backoff.type: must be exponential..."},
        {MAP "error_policy:\n  retry_config:\n    backoff: schedule\n",
         "line 4, column 14: error_policy.retry_config.backoff: schedule needs the times: "
         "schedule: [1s, 10s, 1m]"},
        {MAP "error_policy:\n  retry_config:\n    backoff: {exponential: {base: 0.5}}\n",
         "line 4, column 35: error_policy.retry_config.backoff.base: must be a number from 1..."},
        {MAP "error_policy:\n  retry_config:\n    backoff: 5\n",
         "line 4, column 14: error_policy.retry_config.backoff: must be..."},
        {MAP "error_policy:\n  retry_config:\n    jitter: maybe\n",
         "line 4, column 13: error_policy.retry_config.jitter: must be true or false, not "
         "\"maybe\""},
        {MAP "error_policy:\n  retry_config:\n    retry_on: ['404']\n",
         "line 4, column 15: error_policy.retry_config.retry_on: must be a list of classes..."},
        {MAP "error_policy:\n  retry_config:\n    multiplier: 0.5\n",
         "line 4, column 17: error_policy.retry_config.multiplier: must be a number from 1 to..."},
    };
    (void)state;
    REFUSE_ALL(rows);
}

static void a_long_file_name_leaves_room_for_the_error(void **state)
{
    struct arena arena = {0};
    struct workflow w;
    struct err err;
    char name[3000];
    (void)state;
    memset(name, 'd', sizeof(name));
    memcpy(name + sizeof(name) - 7, "/w.yml", 7);
    assert_int_equal(workflow_parse(SLICE("mode: x\n"), name, &arena, &w, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "d/w.yml: line 1, column 7: mode: must be mapreduce"));
    arena_release(&arena);
}

/* ---- the world ------------------------------------------------------------------------------ */

/* file_with makes a file of its own for a test; its path is in `path`. */
static void file_with(struct slice text, char path[64])
{
    snprintf(path, 64, "/tmp/lazaret-workflow-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.ptr, text.len), text.len);
    close(fd);
}

static void a_file_is_read(void **state)
{
    struct arena arena = {0};
    struct workflow w;
    struct err err;
    char path[64], expected[128];
    (void)state;
    file_with(SLICE("name: a\n" MAP), path);
    assert_int_equal(workflow_read(path, &arena, &w, &err), STATUS_OK);
    assert_string_equal(w.name, "a");
    unlink(path);
    file_with(SLICE("name: a\nmap: []\n"), path);
    assert_int_equal(workflow_read(path, &arena, &w, &err), STATUS_INVALID);
    snprintf(expected, sizeof(expected), "%s: line 2, column 6: map: must be", path);
    assert_int_equal(strncmp(err.text, expected, strlen(expected)), 0);
    unlink(path);
    arena_release(&arena);
}

static void the_example_is_right(void **state)
{
    struct arena arena = {0};
    struct workflow w;
    struct err err;
    if (workflow_read(*state, &arena, &w, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(w.setup.count, 2);
    assert_int_equal(w.map.count, 2);
    assert_int_equal(w.reduce.count, 1);
    arena_release(&arena);
}

static void a_file_that_is_not_there_or_no_file_is_told(void **state)
{
    struct arena arena = {0};
    struct workflow w;
    struct err err;
    (void)state;
    assert_int_equal(workflow_read("/nowhere/w.yml", &arena, &w, &err), STATUS_NOT_FOUND);
    assert_string_equal(err.text, "cannot read /nowhere/w.yml: No such file or directory");
    assert_int_equal(workflow_read("/", &arena, &w, &err), STATUS_IO);
    assert_string_equal(err.text, "cannot read /: Is a directory");
    arena_release(&arena);
}

static void a_file_that_is_too_large_is_refused(void **state)
{
    struct arena arena = {0};
    struct workflow w;
    struct err err;
    struct buf text;
    char path[64];
    (void)state;
    buf_init(&text, 8 << 20);
    buf_add_str(&text, MAP);
    while (text.len <= 4 << 20)
        buf_add_str(&text, "# and so on, and so on, and so on, and so on, and so on\n");
    file_with(buf_slice(&text), path);
    assert_int_equal(workflow_read(path, &arena, &w, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "a workflow may have 4194304 bytes"));
    assert_int_equal(workflow_parse(buf_slice(&text), "w", &arena, &w, &err), STATUS_TOO_LARGE);
    assert_int_equal(workflow_parse((struct slice){text.ptr, 4 << 20}, "w", &arena, &w, &err),
                     STATUS_OK);
    unlink(path);
    buf_release(&text);
    arena_release(&arena);
}

static void nobody_has_to_ask_for_the_sentence(void **state)
{
    struct arena arena = {0};
    struct workflow w;
    (void)state;
    assert_int_equal(workflow_parse(SLICE("a: b"), "w", &arena, &w, NULL), STATUS_INVALID);
    assert_int_equal(workflow_parse(SLICE(MAP "error_policy: {retry_config: {attempts: 0}}"), "w",
                                    &arena, &w, NULL),
                     STATUS_INVALID);
    arena_release(&arena);
}

static void each_allocation_may_fail(void **state)
{
    static const char text[] =
        "setup:\n- shell: ls\n- ls -l\n"
        "map:\n"
        "  input: \"caf\\u00e9\"\n"
        "  json_path: $.a[*]\n"
        "  filter: item.a == 'b'\n"
        "  agent_template: [[ls, '{a.b}'], {shell: 'ls ${item.c}'}]\n"
        "reduce: [[echo, '${map.total}']]\n"
        "error_policy: {retry_config: {schedule: [1s], jitter_factor: 0.1}}\n";
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;
    (void)state;
    while (status != STATUS_OK) {
        struct arena arena = {0};
        struct workflow w = {.offset = 42};
        struct err err = {0};
        mem_fail_after(++n);
        status = workflow_parse(slice_of(text), "w", &arena, &w, &err);
        mem_fail_after(0);
        if (status != STATUS_OK && status != STATUS_NO_MEMORY)
            fail_msg("allocation %lu: %s", n, err.text);
        assert_true(status == STATUS_OK || (w.offset == 42 && err.text[0]));
        arena_release(&arena);
    }
    assert_true(n > 5);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_workflow EXAMPLE.yml\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(items_may_stand_in_the_file_itself),
        cmocka_unit_test(a_command_has_many_forms),
        cmocka_unit_test(steps_keep_their_order_and_their_own_settings),
        cmocka_unit_test(scripts_have_places_by_phase),
        cmocka_unit_test(arguments_of_reduce_have_the_results),
        cmocka_unit_test(times_are_seconds_or_have_a_unit),
        cmocka_unit_test(a_run_that_does_not_go_on_stops_at_the_first_failure),
        cmocka_unit_test(on_failure_names_are_read_back),
        cmocka_unit_test(retry_config_is_a_policy),
        cmocka_unit_test(retry_config_takes_budget_and_kinds_of_failures),
        cmocka_unit_test(yaml_errors_have_their_place),
        cmocka_unit_test(unknown_keys_have_their_place_and_a_suggestion),
        cmocka_unit_test(missing_keys_have_a_place),
        cmocka_unit_test(wrong_types_and_values_have_their_place),
        cmocka_unit_test(filters_and_paths_are_checked),
        cmocka_unit_test(steps_are_checked),
        cmocka_unit_test(a_place_without_quotes_is_a_mapping_and_the_error_says_so),
        cmocka_unit_test(what_is_not_known_in_a_phase_is_an_error),
        cmocka_unit_test(braces_of_the_shell_are_left_alone),
        cmocka_unit_test(errors_of_the_policy_are_in_the_words_of_the_file),
        cmocka_unit_test(a_long_file_name_leaves_room_for_the_error),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test_prestate(the_example_is_right, argv[1]),
        cmocka_unit_test(a_file_that_is_not_there_or_no_file_is_told),
        cmocka_unit_test(a_file_that_is_too_large_is_refused),
        cmocka_unit_test(nobody_has_to_ask_for_the_sentence),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
