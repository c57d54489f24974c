/* test_line: whose turn it is, against a plain model that looks at everybody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bridge/line.h"

enum { ENTRIES = 300, HOSTS = 40 };

/* struct person: an entry, and what the model knows of it. */
struct person {
    struct line_entry entry; /* first */
    int host;
    uint64_t came; /* when it joined */
};

struct model {
    struct line line;
    struct person people[ENTRIES];
    uint64_t clock;
};

static uint64_t random_state;

static unsigned pick(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static unsigned under_way(const struct model *model, int host)
{
    unsigned count = 0;
    for (int i = 0; i < ENTRIES; i++)
        count += model->people[i].entry.state == LINE_UNDER_WAY &&
                 (host < 0 || model->people[i].host == host);
    return count;
}

/* first_of is who has waited longest for a host; NULL: nobody waits. */
static const struct person *first_of(const struct model *model, int host)
{
    const struct person *first = NULL;
    for (int i = 0; i < ENTRIES; i++) {
        const struct person *person = &model->people[i];
        if (person->entry.state == LINE_WAITING && person->host == host &&
            (!first || person->came < first->came))
            first = person;
    }
    return first;
}

static bool may_go(const struct model *model, int host)
{
    const struct person *first = first_of(model, host);
    return first && under_way(model, host) < first->entry.limit;
}

static void join(struct model *model, struct person *person)
{
    char name[32];

    person->host = (int)pick(HOSTS);
    person->entry.limit = 1 + pick(3);
    person->came = ++model->clock;
    int len = snprintf(name, sizeof name, "host-%d:80", person->host);
    assert_true(line_join(&model->line, &person->entry, (struct slice){name, (size_t)len}));
    assert_int_equal(person->entry.state, LINE_WAITING);
}

static void check_next(struct model *model)
{
    bool any = false;
    for (int host = 0; host < HOSTS; host++)
        any = any || may_go(model, host);
    any = any && under_way(model, -1) < model->line.parallel;

    struct model before = *model;
    struct person *person = (struct person *)line_next(&model->line);
    assert_int_equal(person != NULL, any);
    if (!person)
        return;
    assert_ptr_equal(first_of(&before, person->host), &before.people[person - model->people]);
    assert_true(may_go(&before, person->host));
    assert_int_equal(person->entry.state, LINE_UNDER_WAY);
}

static void who_goes_is_the_first_of_a_host_that_may(void **state)
{
    static struct model model;
    (void)state;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        memset(&model, 0, sizeof model);
        random_state = seed;
        line_init(&model.line, 1 + pick(60));
        for (int i = 0; i < 2000; i++) {
            struct person *person = &model.people[pick(ENTRIES)];
            if (pick(3) == 0)
                check_next(&model);
            else if (person->entry.state == LINE_OUT)
                join(&model, person);
            else
                line_leave(&model.line, &person->entry);
        }
        for (int i = 0; i < ENTRIES; i++)
            if (model.people[i].entry.state != LINE_OUT)
                line_leave(&model.line, &model.people[i].entry);
        assert_int_equal(model.line.by_name.count, 0); /* hosts with nobody are dropped */
        assert_null(line_next(&model.line));
        line_release(&model.line);
    }
}

static void a_host_waits_for_no_more_than_one_turn_of_each_other(void **state)
{
    static struct person people[ENTRIES];
    unsigned since[3] = {0};
    struct line line;
    char name[2] = "";
    (void)state;

    line_init(&line, ENTRIES);
    memset(people, 0, sizeof people);
    for (int i = 0; i < ENTRIES; i++) { /* the first has most of them, and they came first */
        people[i].host = i < 200 ? 0 : i < 298 ? 1 : 2;
        people[i].entry.limit = ENTRIES;
        name[0] = (char)('a' + people[i].host);
        assert_true(line_join(&line, &people[i].entry, (struct slice){name, 1}));
    }
    struct person *person;
    unsigned left[3] = {200, 98, 2};
    while ((person = (struct person *)line_next(&line))) {
        for (int host = 0; host < 3; host++) {
            since[host] = host == person->host || left[host] == 0 ? 0 : since[host] + 1;
            assert_true(since[host] <= 2);
        }
        left[person->host]--;
    }
    assert_int_equal(line.under_way, ENTRIES);
    for (int i = 0; i < ENTRIES; i++)
        line_leave(&line, &people[i].entry);
    line_release(&line);
}

static void without_memory_nobody_joins(void **state)
{
    struct person person = {.entry.limit = 1};
    struct line line;
    (void)state;

    line_init(&line, 1);
    for (unsigned long n = 1; n <= 3; n++) {
        mem_fail_after(n);
        bool joined = line_join(&line, &person.entry, SLICE("host"));
        mem_fail_after(0);
        if (joined)
            line_leave(&line, &person.entry);
        assert_int_equal(person.entry.state, LINE_OUT);
        assert_int_equal(line.waiting, 0);
        if (n == 1)
            assert_false(joined);
    }
    assert_true(line_join(&line, &person.entry, SLICE("host")));
    line_leave(&line, &person.entry);
    line_release(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_goes_is_the_first_of_a_host_that_may),
        cmocka_unit_test(a_host_waits_for_no_more_than_one_turn_of_each_other),
        cmocka_unit_test(without_memory_nobody_joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
