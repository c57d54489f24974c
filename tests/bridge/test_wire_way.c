/* test_wire_way: which way a request goes: over which connection, and to which address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/shots.h"

static bool serve_ok(struct visit *visit)
{
    return visit_answer(visit, "200 OK", "", "{}");
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void a_connection_is_used_again(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/");
    for (int i = 0; i < 50; i++) {
        shot_fire(&scene.shot);
        assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    }
    assert_int_equal(endpoint_connections(&scene.endpoint), 1);
    assert_int_equal(endpoint_requests(&scene.endpoint), 50);
    scene_close(&scene);
}

/* serve_but_swallow answers all but every third request of a connection, which it closes. */
static bool serve_but_swallow(struct visit *visit)
{
    return visit->number % 3 != 0 && serve_ok(visit);
}

static bool serve_but_reset(struct visit *visit)
{
    return visit->number % 3 != 0 ? serve_ok(visit) : visit_reset(visit);
}

static void what_a_kept_connection_swallows_is_not_sent_again(void **state)
{
    bool (*const ways[])(struct visit *) = {serve_but_swallow, serve_but_reset};
    (void)state;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct scene scene;
        scene_open(&scene, ways[i], "/");
        for (unsigned n = 1; n <= 9; n++) {
            shot_fire(&scene.shot);
            assert_int_equal(scene.shot.call.outcome, n % 3 ? WIRE_ANSWERED : WIRE_UNKNOWN);
            assert_true(scene.shot.call.sent);
            assert_int_equal(endpoint_requests(&scene.endpoint), n);
            if (n % 3 == 0)
                assert_non_null(strstr(scene.shot.call.err.text,
                                       " closed a connection that was kept from an earlier "
                                       "request before it answered"));
        }
        assert_int_equal(endpoint_connections(&scene.endpoint), 3);
        scene_close(&scene);
    }
}

/* serve_two_and_swallow answers the first requests of two connections at once, so that both are
 * kept; what comes then is swallowed. */
static bool serve_two_and_swallow(struct visit *visit)
{
    return visit->number == 1 && visit_wait(visit) && serve_ok(visit);
}

static bool two_came(void *ctx)
{
    return endpoint_requests(ctx) == 2;
}

static void nor_is_it_over_another_kept_connection(void **state)
{
    struct scene scene;
    struct shot second;
    (void)state;

    scene_open(&scene, serve_two_and_swallow, "/");
    shot_at(&second, &scene.range, &scene.endpoint, "/");
    shot_send(&scene.shot);
    shot_send(&second);
    range_run_until_true(&scene.range, two_came, &scene.endpoint);
    endpoint_release(&scene.endpoint);
    range_run(&scene.range);
    assert_int_equal(endpoint_connections(&scene.endpoint), 2);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_int_equal(endpoint_requests(&scene.endpoint), 3);
    assert_int_equal(endpoint_connections(&scene.endpoint), 2);
    shot_release(&second);
    scene_close(&scene);
}

static bool serve_and_close(struct visit *visit)
{
    visit_answer(visit, "200 OK", "", "{}"); /* without "Connection: close": it only does so */
    return false;
}

static void a_connection_that_was_closed_meanwhile_is_not_used(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_and_close, "/");
    for (unsigned n = 1; n <= 20; n++) {
        /* It may be closed only as the next request is on its way: then that is unknown, but it is
         * never there twice. */
        shot_fire(&scene.shot);
        if (n == 1 || scene.shot.call.outcome != WIRE_UNKNOWN)
            assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
        assert_true(endpoint_requests(&scene.endpoint) <= n);
    }
    scene_close(&scene);
}

static void one_is_looked_for_and_nothing_is_sent(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/");
    scene.shot.call.connect_only = true;
    for (int i = 0; i < 3; i++) {
        shot_fire(&scene.shot);
        assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
        assert_int_equal(scene.shot.call.status, 0);
        assert_false(scene.shot.call.sent);
    }
    assert_int_equal(endpoint_requests(&scene.endpoint), 0);
    /* The same handle sends again. */
    scene.shot.call.connect_only = false;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.status, 200);
    endpoint_close(&scene.endpoint);
    scene.shot.call.connect_only = true;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNSENT);
    shot_release(&scene.shot);
    range_close(&scene.range);
}

/* ---- addresses --------------------------------------------------------------------------------
 */

/* only_127_0_0_1 is a rule: no other address. */
static enum status only_127_0_0_1(const struct wire_call *call, struct address address,
                                  uint16_t port, struct err *err)
{
    struct address allowed;

    ((struct shot *)call->owner)->asked++;
    address_parse(SLICE("127.0.0.1"), &allowed);
    if (memcmp(&allowed, &address, sizeof address) == 0)
        return STATUS_OK;
    return err_set(err, STATUS_REFUSED, "port %u is not for you", port);
}

static void rule(struct shot *shot)
{
    shot->call.may_connect = only_127_0_0_1;
    shot->call.owner = shot;
}

static void an_address_that_is_not_allowed_is_not_connected_to(void **state)
{
    struct scene scene;
    char text[100];
    (void)state;

    scene_open(&scene, serve_ok, "/");
    for (int i = 0; i < 2; i++) {
        shot_init(&scene.shot, &scene.range, "127.0.0.2", scene.endpoint.port, "/");
        rule(&scene.shot);
        scene.shot.call.connect_only = i == 1;
        shot_fire(&scene.shot);
        assert_int_equal(scene.shot.call.outcome, WIRE_FORBIDDEN);
        assert_false(scene.shot.call.sent);
        assert_int_equal(scene.shot.call.status, 0);
        snprintf(text, sizeof text, "port %u is not for you", scene.endpoint.port);
        assert_string_equal(scene.shot.call.err.text, text);
        shot_release(&scene.shot);
    }
    shot_at(&scene.shot, &scene.range, &scene.endpoint, "/");
    rule(&scene.shot);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.status, 200);
    assert_int_equal(endpoint_connections(&scene.endpoint), 1);
    assert_int_equal(scene.shot.asked, 1);
    scene_close(&scene);
}

static void a_name_is_judged_by_the_addresses_that_it_has(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/");
    shot_release(&scene.shot);
    shot_init(&scene.shot, &scene.range, "localhost", scene.endpoint.port, "/");
    rule(&scene.shot);
    shot_fire(&scene.shot); /* ::1, where there is one, is refused; the other one will do */
    assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    assert_int_equal(scene.shot.call.status, 200);
    assert_true(scene.shot.asked > 0);
    scene_close(&scene);
}

static void a_connection_that_another_call_opened_is_asked_about_too(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/");
    shot_release(&scene.shot);
    shot_init(&scene.shot, &scene.range, "127.0.0.2", scene.endpoint.port, "/");
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.status, 200);
    rule(&scene.shot);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_FORBIDDEN);
    assert_int_equal(scene.shot.asked, 1);
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
    scene_close(&scene);
}

static void proxies_are_used_only_where_they_may_be(void **state)
{
    struct endpoint proxy;
    struct range range;
    struct shot shot;
    char url[100];
    (void)state;

    endpoint_open(&proxy, serve_ok);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", proxy.port);
    setenv("http_proxy", url, 1);
    for (int i = 0; i < 4; i++) {
        /* Without leave; by a call with rules; for this machine; and where it is right. */
        range_open_with(&range, (struct wire_config){.proxies = i > 0});
        if (i == 2)
            shot_init(&shot, &range, "127.0.0.1", 1, "/");
        else
            shot_init(&shot, &range, "nowhere.invalid", 80, "/x");
        if (i == 1)
            rule(&shot);
        shot_fire(&shot);
        assert_int_equal(shot.call.outcome, i < 3 ? WIRE_UNSENT : WIRE_ANSWERED);
        assert_int_equal(endpoint_requests(&proxy), i < 3 ? 0 : 1);
        shot_release(&shot);
        range_close(&range);
    }
    assert_non_null(endpoint_last(&proxy));
    assert_memory_equal(endpoint_last(&proxy), "POST http://nowhere.invalid", 27);
    unsetenv("http_proxy");
    endpoint_close(&proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_is_used_again),
        cmocka_unit_test(what_a_kept_connection_swallows_is_not_sent_again),
        cmocka_unit_test(nor_is_it_over_another_kept_connection),
        cmocka_unit_test(a_connection_that_was_closed_meanwhile_is_not_used),
        cmocka_unit_test(one_is_looked_for_and_nothing_is_sent),
        cmocka_unit_test(an_address_that_is_not_allowed_is_not_connected_to),
        cmocka_unit_test(a_name_is_judged_by_the_addresses_that_it_has),
        cmocka_unit_test(a_connection_that_another_call_opened_is_asked_about_too),
        cmocka_unit_test(proxies_are_used_only_where_they_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
