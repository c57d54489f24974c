/* test_wire_way: which way a request goes: over which connection, to which address, and on to where
 * an answer sends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/shots.h"

struct scene {
    struct endpoint endpoint;
    struct range range;
    struct shot shot;
};

static void scene_open(struct scene *scene, bool (*serve)(struct visit *visit))
{
    endpoint_open(&scene->endpoint, serve);
    range_open(&scene->range, 0, 0);
    shot_at(&scene->shot, &scene->range, &scene->endpoint, "/");
}

static void scene_close(struct scene *scene)
{
    shot_release(&scene->shot);
    range_close(&scene->range);
    endpoint_close(&scene->endpoint);
}

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

    scene_open(&scene, serve_ok);
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
        scene_open(&scene, ways[i]);
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

    scene_open(&scene, serve_two_and_swallow);
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

    scene_open(&scene, serve_and_close);
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

    scene_open(&scene, serve_ok);
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

    scene_open(&scene, serve_ok);
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

    scene_open(&scene, serve_ok);
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

    scene_open(&scene, serve_ok);
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

/* ---- redirects --------------------------------------------------------------------------------
 */

/* serve_redirect answers "/STATUS?URL" with that status and the address. */
static bool serve_redirect(struct visit *visit)
{
    const char *to = strchr(visit->path, '?');
    char status[64], location[600];

    if (!to)
        return serve_ok(visit);
    snprintf(status, sizeof status, "%.3s Elsewhere", visit->path + 1);
    snprintf(location, sizeof location, "Location: %s\r\n", to + 1);
    return visit_answer(visit, status, location, "moved");
}

static void a_redirect_is_an_answer(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_redirect);
    shot_release(&scene.shot);
    shot_at(&scene.shot, &scene.range, &scene.endpoint, "/302?/there");
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    assert_int_equal(scene.shot.call.status, 302);
    assert_string_equal(scene.shot.call.location, "/there");
    assert_string_equal(buf_str(&scene.shot.call.answer), "moved");
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
    scene_close(&scene);
}

static void a_redirect_that_is_followed_takes_the_whole_request_along(void **state)
{
    static const char *const paths[] = {"/301?/there", "/302?/there", "/303?/there", "/307?/there",
                                        "/308?/there"};
    (void)state;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct scene scene;
        scene_open(&scene, serve_redirect);
        shot_release(&scene.shot);
        shot_at(&scene.shot, &scene.range, &scene.endpoint, paths[i]);
        scene.shot.call.redirects = true;
        shot_fire(&scene.shot);
        assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
        assert_int_equal(scene.shot.call.status, 200);
        assert_string_equal(scene.shot.call.location, "");
        assert_string_equal(buf_str(&scene.shot.call.answer), "{}");
        assert_int_equal(endpoint_requests(&scene.endpoint), 2);
        assert_memory_equal(endpoint_last(&scene.endpoint), "POST /there ", 12);
        assert_non_null(strstr(endpoint_last(&scene.endpoint), "\r\n\r\n{\"a\":1}"));
        assert_non_null(strstr(endpoint_last(&scene.endpoint), "\r\nAuthorization: Bearer secret"));
        scene_close(&scene);
    }
}

/* serve_loop sends everybody back to where they are. */
static bool serve_loop(struct visit *visit)
{
    return visit_answer(visit, "307 Again", "Location: /again\r\n", "");
}

static void redirects_without_end_end_with_the_last(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_loop);
    scene.shot.call.redirects = true;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    assert_int_equal(scene.shot.call.status, 307);
    assert_string_equal(scene.shot.call.location, "/again");
    assert_int_equal(endpoint_requests(&scene.endpoint), 6);
    scene_close(&scene);
}

/* fire_to follows one redirect to an address. */
static void fire_to(struct scene *scene, const char *to)
{
    char path[300];

    endpoint_open(&scene->endpoint, serve_redirect);
    range_open(&scene->range, 0, 0);
    snprintf(path, sizeof path, "/302?%s", to);
    shot_at(&scene->shot, &scene->range, &scene->endpoint, path);
    scene->shot.call.redirects = true;
    rule(&scene->shot);
    shot_fire(&scene->shot);
}

static void a_redirect_to_what_is_not_http_is_not_followed(void **state)
{
    static const char *const addresses[] = {"ftp://127.0.0.1/", "file:///etc/passwd",
                                            "gopher://127.0.0.1:1/", "http://"};
    (void)state;

    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct scene scene;
        fire_to(&scene, addresses[i]);
        assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
        assert_int_equal(scene.shot.call.status, 302);
        assert_string_equal(scene.shot.call.location, addresses[i]);
        scene_close(&scene);
    }
}

static void a_redirect_to_a_forbidden_address_is_forbidden(void **state)
{
    struct endpoint other;
    struct scene scene;
    char to[100];
    (void)state;

    endpoint_open(&other, serve_ok);
    snprintf(to, sizeof to, "http://127.0.0.2:%u/", other.port);
    fire_to(&scene, to);
    assert_int_equal(scene.shot.call.outcome, WIRE_FORBIDDEN);
    assert_int_equal(scene.shot.call.status, 0);
    assert_int_equal(endpoint_connections(&other), 0);
    scene_close(&scene);
    endpoint_close(&other);
}

static void a_redirect_to_where_nobody_is_leaves_it_unsent(void **state)
{
    struct endpoint gone;
    struct scene scene;
    char to[100];
    (void)state;

    endpoint_open(&gone, serve_ok);
    endpoint_close(&gone);
    snprintf(to, sizeof to, "http://127.0.0.1:%u", gone.port);
    fire_to(&scene, to);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNSENT);
    assert_int_equal(scene.shot.call.status, 0);
    assert_string_equal(scene.shot.call.location, "");
    assert_false(scene.shot.call.sent);
    assert_non_null(strstr(scene.shot.call.err.text, to)); /* where it went last */
    scene_close(&scene);
}

static bool serve_nothing(struct visit *visit)
{
    (void)visit;
    return false;
}

static void a_redirect_to_who_does_not_answer_leaves_it_unknown_without_a_status(void **state)
{
    struct endpoint other;
    struct scene scene;
    char to[100];
    (void)state;

    endpoint_open(&other, serve_nothing);
    snprintf(to, sizeof to, "http://127.0.0.1:%u/", other.port);
    fire_to(&scene, to);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_int_equal(scene.shot.call.status, 0);
    assert_true(scene.shot.call.sent);
    scene_close(&scene);
    endpoint_close(&other);
}

static void a_secret_is_not_told_to_another_host(void **state)
{
    struct endpoint other;
    struct scene scene;
    char to[100];
    (void)state;

    endpoint_open(&other, serve_ok);
    snprintf(to, sizeof to, "http://127.0.0.1:%u/", other.port);
    fire_to(&scene, to);
    assert_int_equal(scene.shot.call.status, 200);
    assert_non_null(endpoint_last(&other));
    assert_null(strstr(endpoint_last(&other), "secret"));
    assert_non_null(strstr(endpoint_last(&other), "\r\nX-Test: yes\r\n"));
    assert_non_null(strstr(endpoint_last(&other), "\r\n\r\n{\"a\":1}"));
    scene_close(&scene);
    endpoint_close(&other);
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
        cmocka_unit_test(a_redirect_is_an_answer),
        cmocka_unit_test(a_redirect_that_is_followed_takes_the_whole_request_along),
        cmocka_unit_test(redirects_without_end_end_with_the_last),
        cmocka_unit_test(a_redirect_to_what_is_not_http_is_not_followed),
        cmocka_unit_test(a_redirect_to_a_forbidden_address_is_forbidden),
        cmocka_unit_test(a_redirect_to_where_nobody_is_leaves_it_unsent),
        cmocka_unit_test(a_redirect_to_who_does_not_answer_leaves_it_unknown_without_a_status),
        cmocka_unit_test(a_secret_is_not_told_to_another_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
