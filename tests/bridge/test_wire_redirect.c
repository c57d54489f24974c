/* test_wire_redirect: where a request goes on to when its answer sends it there, and where not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "bridge/shots.h"

static bool serve_ok(struct visit *visit)
{
    return visit_answer(visit, "200 OK", "", "{}");
}

/* read_location reads an address that stands in another one: in it "!" is "#". */
static void read_location(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text);
    for (char *c = out; (c = strchr(c, '!'));)
        *c = '#';
}

/* serve_redirect answers "/STATUS?URL" with that status and the address. */
static bool serve_redirect(struct visit *visit)
{
    const char *to = strchr(visit->path, '?');
    char status[64], line[600], location[500];

    if (!to)
        return serve_ok(visit);
    snprintf(status, sizeof status, "%.3s Elsewhere", visit->path + 1);
    read_location(to + 1, location, sizeof location);
    snprintf(line, sizeof line, "Location: %s\r\n", location);
    return visit_answer(visit, status, line, "moved");
}

static void a_redirect_is_an_answer(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_redirect, "/");
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

static enum status anywhere(const struct wire_call *call, struct address address, uint16_t port,
                            struct err *err)
{
    (void)address;
    (void)port;
    (void)err;
    ((struct shot *)call->owner)->asked++;
    return STATUS_OK;
}

/* fire_on follows one redirect, from `host` to an address, in which "PORT" is the endpoint's. */
static void fire_on(struct scene *scene, const char *host, int status, const char *to)
{
    const char *port = strstr(to, "PORT");
    char path[300];

    if (port)
        snprintf(path, sizeof path, "/%d?%.*s%u%s", status, (int)(port - to), to,
                 scene->endpoint.port, port + 4);
    else
        snprintf(path, sizeof path, "/%d?%s", status, to);
    shot_release(&scene->shot);
    shot_init(&scene->shot, &scene->range, host, scene->endpoint.port, path);
    scene->shot.call.redirects = true;
    scene->shot.call.may_connect = anywhere;
    scene->shot.call.owner = &scene->shot;
    shot_fire(&scene->shot);
}

static void a_redirect_that_is_followed_takes_the_whole_request_along(void **state)
{
    static const struct {
        const char *host, *to;
        int status;
    } cases[] = {
        {"127.0.0.1", "/there", 301},
        {"127.0.0.1", "/there", 302},
        {"127.0.0.1", "/there", 303},
        {"127.0.0.1", "/there", 307},
        {"127.0.0.1", "/there", 308},
        {"127.0.0.1", "there", 307},
        {"127.0.0.1", "//127.0.0.1:PORT/there", 307},
        {"127.0.0.1", "HTTP://127.0.0.1:PORT/there!part", 307},
        {"127.0.0.1", "http://127.1:PORT/there", 307},
        {"localhost", "http://LocalHost:PORT/there", 307},
        {"LOCALHOST", "http://localhost:PORT/there", 307},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene scene;
        scene_open(&scene, serve_redirect, "/");
        fire_on(&scene, cases[i].host, cases[i].status, cases[i].to);
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

    scene_open(&scene, serve_loop, "/");
    scene.shot.call.redirects = true;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    assert_int_equal(scene.shot.call.status, 307);
    assert_string_equal(scene.shot.call.location, "/again");
    assert_int_equal(endpoint_requests(&scene.endpoint), 6);
    scene_close(&scene);
}

/* The endpoint would answer at all of these that are on this machine. */
static void a_redirect_to_another_place_is_the_answer_and_nobody_there_is_asked(void **state)
{
    static const char *const addresses[] = {
        "http://127.0.0.2:PORT/",
        "//127.0.0.2:PORT/",
        "http://localhost:PORT/",
        "https://127.0.0.1:PORT/",
        "http://127.0.0.1/",
        "http://127.0.0.1:1/",
        "http://127.0.0.1.:80/",
        "http://user:password@127.0.0.1:PORT/",
        "http://127.0.0.1:PORT@127.0.0.2/",
        "http://127.0.0.1!@127.0.0.1:PORT/",
        "http://nowhere.invalid:PORT/",
        "ftp://127.0.0.1:PORT/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:1/",
        "http://",
        "",
    };
    (void)state;

    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct scene scene;
        char location[300];
        scene_open(&scene, serve_redirect, "/");
        fire_on(&scene, "127.0.0.1", 307, addresses[i]);
        read_location(strchr(scene.shot.url, '?') + 1, location, sizeof location);
        assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
        assert_int_equal(scene.shot.call.status, 307);
        assert_string_equal(scene.shot.call.location, location);
        assert_string_equal(buf_str(&scene.shot.call.answer), "moved");
        assert_true(scene.shot.call.sent);
        assert_int_equal(scene.shot.asked, 1);
        assert_int_equal(endpoint_requests(&scene.endpoint), 1);
        assert_int_equal(endpoint_connections(&scene.endpoint), 1);
        scene_close(&scene);
    }
}

static void a_redirect_that_is_longer_than_is_read_is_not_followed(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_redirect, "/");
    shot_release(&scene.shot);
    shot_at(&scene.shot, &scene.range, &scene.endpoint, "/307?/there");
    scene.shot.call.redirects = true;
    scene.shot.call.answer_max = 2;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    assert_int_equal(scene.shot.call.status, 307);
    assert_true(scene.shot.call.answer_cut);
    assert_string_equal(scene.shot.call.location, "/there");
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
    scene_close(&scene);
}

static enum status only_once(const struct wire_call *call, struct address address, uint16_t port,
                             struct err *err)
{
    struct shot *shot = call->owner;

    (void)address;
    (void)port;
    return ++shot->asked == 1 ? STATUS_OK : err_set(err, STATUS_REFUSED, "once was enough");
}

static void the_address_is_asked_about_again_before_a_redirect_is_followed(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_loop, "/");
    scene.shot.call.redirects = true;
    scene.shot.call.may_connect = only_once;
    scene.shot.call.owner = &scene.shot;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_FORBIDDEN);
    assert_int_equal(scene.shot.call.status, 0);
    assert_false(scene.shot.call.sent);
    assert_string_equal(scene.shot.call.err.text, "once was enough");
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
    scene_close(&scene);
}

/* serve_the_last sends on, and is gone then. */
static bool serve_the_last(struct visit *visit)
{
    shutdown(visit->endpoint->fd, SHUT_RDWR);
    visit_answer(visit, "307 On", "Location: /there\r\nRetry-After: 7\r\nConnection: close\r\n",
                 "moved");
    return false;
}

static void a_redirect_to_where_nobody_is_any_more_leaves_it_unsent(void **state)
{
    struct scene scene;
    char where[100];
    (void)state;

    scene_open(&scene, serve_the_last, "/");
    scene.shot.call.redirects = true;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNSENT);
    assert_int_equal(scene.shot.call.status, 0);
    assert_string_equal(scene.shot.call.location, "");
    assert_string_equal(scene.shot.call.retry_after, "");
    assert_int_equal(scene.shot.call.answer.len, 0);
    assert_false(scene.shot.call.sent);
    snprintf(where, sizeof where, "http://127.0.0.1:%u", scene.endpoint.port);
    assert_non_null(strstr(scene.shot.call.err.text, where));
    scene_close(&scene);
}

/* serve_redirect_only answers nothing but redirects. */
static bool serve_redirect_only(struct visit *visit)
{
    return strchr(visit->path, '?') && serve_redirect(visit);
}

static void a_redirect_to_who_does_not_answer_leaves_it_unknown_without_a_status(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_redirect_only, "/");
    fire_on(&scene, "127.0.0.1", 307, "/there");
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_int_equal(scene.shot.call.status, 0);
    assert_true(scene.shot.call.sent);
    assert_int_equal(endpoint_requests(&scene.endpoint), 2);
    scene_close(&scene);
}

static bool serve_redirect_and_hold(struct visit *visit)
{
    return strchr(visit->path, '?') ? serve_redirect(visit) : visit_wait(visit);
}

static void the_time_of_a_request_is_for_its_redirects_too(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_redirect_and_hold, "/");
    shot_release(&scene.shot);
    shot_at(&scene.shot, &scene.range, &scene.endpoint, "/307?/there");
    scene.shot.call.redirects = true;
    scene.shot.call.whole = span_ms(500);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_true(scene.shot.call.timed_out);
    assert_int_equal(scene.shot.call.status, 0);
    assert_int_equal(endpoint_requests(&scene.endpoint), 2);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redirect_is_an_answer),
        cmocka_unit_test(a_redirect_that_is_followed_takes_the_whole_request_along),
        cmocka_unit_test(redirects_without_end_end_with_the_last),
        cmocka_unit_test(a_redirect_to_another_place_is_the_answer_and_nobody_there_is_asked),
        cmocka_unit_test(a_redirect_that_is_longer_than_is_read_is_not_followed),
        cmocka_unit_test(the_address_is_asked_about_again_before_a_redirect_is_followed),
        cmocka_unit_test(a_redirect_to_where_nobody_is_any_more_leaves_it_unsent),
        cmocka_unit_test(a_redirect_to_who_does_not_answer_leaves_it_unknown_without_a_status),
        cmocka_unit_test(the_time_of_a_request_is_for_its_redirects_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
