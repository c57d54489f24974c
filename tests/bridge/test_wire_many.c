/* test_wire_many: many requests at once: who goes when, who is stopped, and what happens when
 * memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bridge/shots.h"

static bool serve_ok(struct visit *visit)
{
    return visit_answer(visit, "200 OK", "", "{}");
}

/* serve_held answers when the endpoint is released. */
static bool serve_held(struct visit *visit)
{
    return visit_wait(visit) && serve_ok(visit);
}

static bool serve_hang(struct visit *visit)
{
    visit_wait_end(visit);
    return false;
}

/* struct wanted: how many requests are waited for. */
struct wanted {
    struct endpoint *endpoint;
    unsigned count;
};

static bool came(void *ctx)
{
    struct wanted *wanted = ctx;
    return endpoint_requests(wanted->endpoint) >= wanted->count;
}

static void run_until_came(struct range *range, struct endpoint *endpoint, unsigned count)
{
    struct wanted wanted = {endpoint, count};
    range_run_until_true(range, came, &wanted);
}

/* ---- who goes when ----------------------------------------------------------------------------
 */

static void a_host_has_no_more_than_its_share_and_the_rest_wait(void **state)
{
    enum { COUNT = 20, SHARE = 3 };
    struct endpoint endpoint;
    struct range range;
    struct shot shots[COUNT];
    (void)state;

    endpoint_open(&endpoint, serve_held);
    range_open(&range, 0, SHARE);
    for (int i = 0; i < COUNT; i++) {
        shot_at(&shots[i], &range, &endpoint, "/");
        shot_send(&shots[i]);
    }
    run_until_came(&range, &endpoint, SHARE);
    endpoint_release(&endpoint);
    range_run(&range);
    assert_int_equal(endpoint_at_once_max(&endpoint), SHARE);
    assert_int_equal(endpoint_requests(&endpoint), COUNT);
    assert_true(endpoint_connections(&endpoint) <= SHARE);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(shots[i].call.status, 200);
        shot_release(&shots[i]);
    }
    range_close(&range);
    endpoint_close(&endpoint);
}

static void one_host_by_two_names_of_case_is_one(void **state)
{
    struct endpoint endpoint;
    struct range range;
    struct shot shots[2];
    (void)state;

    endpoint_open(&endpoint, serve_ok);
    range_open(&range, 0, 1);
    shot_init(&shots[0], &range, "localhost", endpoint.port, "/");
    shot_init(&shots[1], &range, "LocalHost", endpoint.port, "/");
    for (int i = 0; i < 2; i++)
        shot_send(&shots[i]);
    range_run(&range);
    assert_int_equal(endpoint_at_once_max(&endpoint), 1);
    assert_int_equal(endpoint_connections(&endpoint), 1);
    for (int i = 0; i < 2; i++)
        shot_release(&shots[i]);
    range_close(&range);
    endpoint_close(&endpoint);
}

static void a_call_can_have_a_share_of_its_own(void **state)
{
    enum { COUNT = 6 };
    struct endpoint endpoint;
    struct range range;
    struct shot shots[COUNT];
    (void)state;

    endpoint_open(&endpoint, serve_held);
    range_open(&range, 0, 2);
    for (int i = 0; i < COUNT; i++) {
        shot_at(&shots[i], &range, &endpoint, "/");
        shots[i].call.host_parallel = 5;
        shot_send(&shots[i]);
    }
    run_until_came(&range, &endpoint, 5);
    endpoint_release(&endpoint);
    range_run(&range);
    assert_int_equal(endpoint_at_once_max(&endpoint), 5);
    for (int i = 0; i < COUNT; i++)
        shot_release(&shots[i]);
    range_close(&range);
    endpoint_close(&endpoint);
}

static void hosts_take_turns_when_not_all_can_go(void **state)
{
    static const char hosts[] = "AAAAABBC"; /* as they are sent */
    static const char turns[] = "ABCABAAA"; /* as they go */
    enum { COUNT = sizeof hosts - 1 };
    struct endpoint endpoint;
    struct range range;
    struct shot shots[COUNT];
    char host[20], went[COUNT + 1] = "";
    (void)state;

    endpoint_open(&endpoint, serve_ok);
    range_open(&range, 1, 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(host, sizeof host, "127.0.0.%d", hosts[i] - 'A' + 1);
        shot_init(&shots[i], &range, host, endpoint.port, "/");
        shot_send(&shots[i]);
    }
    range_run(&range);
    for (int i = 0; i < COUNT; i++) {
        assert_in_range(shots[i].turn, 1, COUNT);
        went[shots[i].turn - 1] = hosts[i];
        /* Those of one host go in the order in which they came. */
        if (i > 0 && hosts[i] == hosts[i - 1])
            assert_true(shots[i].turn > shots[i - 1].turn);
        shot_release(&shots[i]);
    }
    assert_string_equal(went, turns);
    assert_int_equal(endpoint_at_once_max(&endpoint), 1);
    range_close(&range);
    endpoint_close(&endpoint);
}

static bool is_over(void *ctx)
{
    return loop_now().us >= *(const int64_t *)ctx;
}

static void the_time_in_the_line_does_not_count(void **state)
{
    struct endpoint endpoint;
    struct range range;
    struct shot slow, waiting;
    (void)state;

    endpoint_open(&endpoint, serve_held);
    range_open(&range, 0, 1);
    shot_at(&slow, &range, &endpoint, "/");
    shot_at(&waiting, &range, &endpoint, "/");
    waiting.call.whole = span_ms(500);
    shot_send(&slow);
    shot_send(&waiting);
    int64_t until_us = loop_now().us + 600000; /* when its time would be over */
    range_run_until_true(&range, is_over, &until_us);
    assert_int_equal(waiting.dones, 0);
    endpoint_release(&endpoint);
    range_run(&range);
    assert_int_equal(waiting.call.outcome, WIRE_ANSWERED);
    assert_false(waiting.call.timed_out);
    shot_release(&slow);
    shot_release(&waiting);
    range_close(&range);
    endpoint_close(&endpoint);
}

static void a_dead_host_does_not_hold_up_the_others(void **state)
{
    enum { DEAD = 40, ALIVE = 400 };
    struct endpoint endpoint;
    struct pit pit;
    struct range range;
    struct shot *shots = calloc(DEAD + ALIVE, sizeof *shots);
    char host[20];
    (void)state;

    assert_non_null(shots);
    endpoint_open(&endpoint, serve_ok);
    pit_open(&pit, "127.0.0.1", 0);
    range_open(&range, 20, 4);
    for (int i = 0; i < DEAD + ALIVE; i++) {
        snprintf(host, sizeof host, "127.0.0.%d", 2 + i % 10);
        shot_init(&shots[i], &range, i < DEAD ? "127.0.0.1" : host,
                  i < DEAD ? pit.port : endpoint.port, "/");
        shot_send(&shots[i]);
    }
    range_run_until(&range, DEAD);
    for (int i = 0; i < DEAD + ALIVE; i++)
        assert_int_equal(shots[i].dones, i >= DEAD);
    for (int i = 0; i < DEAD; i++)
        shot_cancel(&shots[i]);
    range_run(&range);
    for (int i = 0; i < DEAD + ALIVE; i++) {
        assert_int_equal(shots[i].call.outcome, i < DEAD ? WIRE_STOPPED : WIRE_ANSWERED);
        assert_int_equal(shots[i].call.sent, i >= DEAD);
        shot_release(&shots[i]);
    }
    free(shots);
    range_close(&range);
    pit_close(&pit);
    endpoint_close(&endpoint);
}

static void who_waits_for_a_host_that_lets_time_pass_does_not_wait_longer(void **state)
{
    enum { COUNT = 9 };
    struct pit pit;
    struct range range;
    struct shot shots[COUNT];
    (void)state;

    pit_open(&pit, "127.0.0.1", 0);
    range_open(&range, 0, 2);
    for (int i = 0; i < COUNT; i++) {
        shot_init(&shots[i], &range, "127.0.0.1", pit.port, "/");
        shots[i].call.connect = span_ms(i < 2 ? 100 : 600000);
        shots[i].call.whole = span_ms(600000);
        shot_send(&shots[i]);
    }
    range_run(&range);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(shots[i].call.outcome, WIRE_UNSENT);
        assert_int_equal(shots[i].call.timed_out, i < 2);
        if (i >= 2)
            assert_non_null(strstr(shots[i].call.err.text, "not sent, as one before it"));
        shot_release(&shots[i]);
    }
    range_close(&range);
    pit_close(&pit);
}

/* serve_first_hangs answers all but the first request. */
static bool serve_first_hangs(struct visit *visit)
{
    return strcmp(visit->path, "/first") == 0 ? serve_hang(visit) : serve_ok(visit);
}

static void a_host_that_answers_others_meanwhile_is_waited_for(void **state)
{
    enum { COUNT = 40 };
    struct endpoint endpoint;
    struct range range;
    struct shot shots[COUNT];
    (void)state;

    endpoint_open(&endpoint, serve_first_hangs);
    range_open(&range, 0, 2);
    for (int i = 0; i < COUNT; i++) {
        shot_at(&shots[i], &range, &endpoint, i ? "/" : "/first");
        if (i == 0)
            shots[i].call.whole = span_ms(300);
        shot_send(&shots[i]);
    }
    range_run(&range);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(shots[i].call.outcome, i ? WIRE_ANSWERED : WIRE_UNKNOWN);
        shot_release(&shots[i]);
    }
    range_close(&range);
    endpoint_close(&endpoint);
}

static void thousands_to_many_hosts_all_arrive_once(void **state)
{
    enum { COUNT = 5000, HOSTS = 50 };
    struct endpoint endpoint;
    struct range range;
    struct shot *shots = calloc(COUNT, sizeof *shots);
    char host[20];
    (void)state;

    assert_non_null(shots);
    endpoint_open(&endpoint, serve_ok);
    range_open(&range, 100, 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(host, sizeof host, "127.0.1.%d", 1 + i % HOSTS);
        shot_init(&shots[i], &range, host, endpoint.port, "/");
        shot_send(&shots[i]);
    }
    range_run(&range);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(shots[i].dones, 1);
        assert_int_equal(shots[i].call.outcome, WIRE_ANSWERED);
        shot_release(&shots[i]);
    }
    assert_int_equal(endpoint_requests(&endpoint), COUNT);
    assert_true(endpoint_at_once_max(&endpoint) <= 100);
    free(shots);
    range_close(&range);
    endpoint_close(&endpoint);
}

/* ---- what is stopped --------------------------------------------------------------------------
 */

static void a_request_can_be_stopped_wherever_it_is(void **state)
{
    struct endpoint endpoint;
    struct range range;
    struct shot under_way, waiting, fresh;
    (void)state;

    endpoint_open(&endpoint, serve_held);
    range_open(&range, 0, 1);
    shot_at(&under_way, &range, &endpoint, "/");
    shot_at(&waiting, &range, &endpoint, "/");
    shot_at(&fresh, &range, &endpoint, "/");
    shot_send(&under_way);
    shot_send(&waiting);
    run_until_came(&range, &endpoint, 1);
    shot_send(&fresh);
    shot_cancel(&fresh);
    shot_cancel(&waiting);
    shot_cancel(&waiting);
    assert_int_equal(waiting.dones + fresh.dones, 0); /* not inside */
    range_run_until(&range, 1);
    assert_int_equal(waiting.dones, 1);
    assert_int_equal(waiting.call.outcome, WIRE_STOPPED);
    assert_false(waiting.call.sent);
    assert_int_equal(fresh.call.outcome, WIRE_STOPPED);
    shot_cancel(&under_way);
    range_run(&range);
    assert_int_equal(under_way.call.outcome, WIRE_STOPPED);
    assert_true(under_way.call.sent);
    assert_string_equal(under_way.call.err.text, "it was stopped");
    shot_cancel(&under_way); /* It is over. */
    /* The line is free again. */
    endpoint_release(&endpoint);
    shot_fire(&waiting);
    assert_int_equal(waiting.call.outcome, WIRE_ANSWERED);
    shot_release(&under_way);
    shot_release(&waiting);
    shot_release(&fresh);
    range_close(&range);
    endpoint_close(&endpoint);
}

static void stop_the_other(struct shot *shot)
{
    shot_cancel(shot->other);
    shot_cancel(shot);
}

static void one_that_is_done_can_stop_another(void **state)
{
    struct endpoint endpoint;
    struct pit pit;
    struct range range;
    struct shot done, under_way, waiting;
    (void)state;

    endpoint_open(&endpoint, serve_ok);
    pit_open(&pit, "127.0.0.1", 0);
    range_open(&range, 0, 1);
    shot_at(&done, &range, &endpoint, "/");
    shot_init(&under_way, &range, "127.0.0.1", pit.port, "/");
    shot_init(&waiting, &range, "127.0.0.1", pit.port, "/");
    done.then = under_way.then = waiting.then = stop_the_other;
    done.other = &under_way;
    under_way.other = &waiting;
    waiting.other = &done;
    shot_send(&under_way);
    shot_send(&waiting);
    shot_send(&done);
    range_run(&range);
    assert_int_equal(done.call.outcome, WIRE_ANSWERED);
    assert_int_equal(under_way.call.outcome, WIRE_STOPPED);
    assert_int_equal(waiting.call.outcome, WIRE_STOPPED);
    shot_release(&done);
    shot_release(&under_way);
    shot_release(&waiting);
    range_close(&range);
    pit_close(&pit);
    endpoint_close(&endpoint);
}

static void send_again(struct shot *shot)
{
    if (shot->dones < 100)
        shot_send(shot);
}

static void a_call_can_be_sent_again_when_it_is_done(void **state)
{
    struct endpoint endpoint;
    struct range range;
    struct shot shots[3];
    (void)state;

    endpoint_open(&endpoint, serve_ok);
    range_open(&range, 0, 2);
    for (int i = 0; i < 3; i++) {
        shot_at(&shots[i], &range, &endpoint, "/");
        shots[i].then = send_again;
        shot_send(&shots[i]);
    }
    range_run(&range);
    assert_int_equal(endpoint_requests(&endpoint), 300);
    assert_true(endpoint_connections(&endpoint) <= 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(shots[i].dones, 100);
        shot_release(&shots[i]);
    }
    range_close(&range);
    endpoint_close(&endpoint);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

/* try_without_memory sends to two hosts while the n-th allocation fails.  True when all was well:
 * it was not reached. */
static bool try_without_memory(struct endpoint *endpoint, unsigned long n)
{
    struct range range = {0};
    struct shot shots[4];
    struct err err = {0};
    unsigned answered = 0;

    assert_int_equal(loop_open(&range.loop, &err), STATUS_OK);
    struct wire_config config = {.loop = range.loop, .host_parallel = 1, .user_agent = "me"};
    mem_fail_after(n);
    if (wire_open(&config, &range.wire, &err) != STATUS_OK) {
        mem_fail_after(0);
        assert_string_equal(err.text, "out of memory");
        loop_close(range.loop);
        return false;
    }
    for (int i = 0; i < 4; i++) {
        shot_init(&shots[i], &range, i % 2 ? "127.0.0.1" : "127.0.0.2", endpoint->port, "/");
        range.pending++;
        if (!wire_send(range.wire, &shots[i].call))
            range.pending--;
    }
    range_run(&range);
    mem_fail_after(0);
    for (int i = 0; i < 4; i++) {
        const struct wire_call *call = &shots[i].call;
        assert_null(call->part);
        assert_true(shots[i].dones == 0 || call->outcome == WIRE_ANSWERED ||
                    strcmp(call->err.text, "out of memory") == 0);
        answered += shots[i].dones == 1 && call->outcome == WIRE_ANSWERED;
        shot_release(&shots[i]);
    }
    assert_true(answered >= 3);
    range_close(&range);
    return answered == 4;
}

static void without_memory_a_call_fails_and_the_others_do_not(void **state)
{
    struct endpoint endpoint;
    unsigned long n = 1, fine = 0;
    (void)state;

    endpoint_open(&endpoint, serve_ok);
    for (; fine < 3; n++) /* Some allocations can fail without harm. */
        fine = try_without_memory(&endpoint, n) ? fine + 1 : 0;
    assert_true(n > 12);
    endpoint_close(&endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_has_no_more_than_its_share_and_the_rest_wait),
        cmocka_unit_test(one_host_by_two_names_of_case_is_one),
        cmocka_unit_test(a_call_can_have_a_share_of_its_own),
        cmocka_unit_test(hosts_take_turns_when_not_all_can_go),
        cmocka_unit_test(the_time_in_the_line_does_not_count),
        cmocka_unit_test(a_dead_host_does_not_hold_up_the_others),
        cmocka_unit_test(who_waits_for_a_host_that_lets_time_pass_does_not_wait_longer),
        cmocka_unit_test(a_host_that_answers_others_meanwhile_is_waited_for),
        cmocka_unit_test(thousands_to_many_hosts_all_arrive_once),
        cmocka_unit_test(a_request_can_be_stopped_wherever_it_is),
        cmocka_unit_test(one_that_is_done_can_stop_another),
        cmocka_unit_test(a_call_can_be_sent_again_when_it_is_done),
        cmocka_unit_test(without_memory_a_call_fails_and_the_others_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
