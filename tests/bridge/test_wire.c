/* test_wire: what becomes of one request, whatever the other side does to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge/shots.h"

/* fire_at has one call served in a way, and closes nothing. */
static struct wire_call *fire_at(struct scene *scene, bool (*serve)(struct visit *visit))
{
    scene_open(scene, serve, "/in?x=1");
    shot_fire(&scene->shot);
    assert_int_equal(scene->shot.dones, 1);
    return &scene->shot.call;
}

static void assert_has(const char *text, const char *part)
{
    assert_non_null(text);
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void assert_has_not(const char *text, const char *part)
{
    assert_non_null(text);
    if (strcasestr(text, part))
        fail_msg("\"%s\" is in \"%s\"", part, text);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static bool serve_ok(struct visit *visit)
{
    return visit_answer(visit, "200 OK",
                        "Content-Type: application/json\r\nRetry-After: 7\r\nLocation: /no\r\n",
                        "{\"fine\":true}");
}

static void an_answer_comes_back_with_its_status_and_head(void **state)
{
    struct scene scene;
    struct wire_call *call = fire_at(&scene, serve_ok);
    (void)state;

    assert_int_equal(call->outcome, WIRE_ANSWERED);
    assert_int_equal(call->status, 200);
    assert_string_equal(buf_str(&call->answer), "{\"fine\":true}");
    assert_false(call->answer_cut);
    assert_string_equal(call->content_type, "application/json");
    assert_string_equal(call->retry_after, "7");
    assert_string_equal(call->location, ""); /* it sends nowhere */
    assert_true(call->sent);
    assert_false(call->timed_out);
    assert_false(call->untrusted);
    assert_true(call->took.us > 0);
    assert_string_equal(call->err.text, "");
    assert_null(call->part);
    scene_close(&scene);
}

static void a_request_is_a_post_with_its_own_headers_and_no_others_that_matter(void **state)
{
    struct scene scene;
    (void)state;

    fire_at(&scene, serve_ok);
    const char *text = endpoint_last(&scene.endpoint);
    assert_non_null(text);
    assert_memory_equal(text, "POST /in?x=1 HTTP/1.1\r\n", 23);
    assert_has(text, "\r\nContent-Type: application/json\r\n");
    assert_has(text, "\r\nAuthorization: Bearer secret\r\n");
    assert_has(text, "\r\nX-Test: yes\r\n");
    assert_has(text, "\r\nUser-Agent: lazaret/");
    assert_has(text, "\r\nContent-Length: 7\r\n");
    assert_has(text, "\r\n\r\n{\"a\":1}");
    assert_has_not(text, "Expect:");
    assert_has_not(text, "Accept-Encoding:");
    assert_has_not(text, "Cookie:");
    scene_close(&scene);
}

static void without_a_content_type_none_is_invented(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/in?x=1");
    scene.shot.call.headers = NULL;
    scene.shot.call.body = (struct slice){0};
    shot_fire(&scene.shot);
    assert_has_not(endpoint_last(&scene.endpoint), "Content-Type");
    assert_has(endpoint_last(&scene.endpoint), "\r\nContent-Length: 0\r\n");
    assert_int_equal(scene.shot.call.status, 200);
    scene_close(&scene);
}

static bool serve_echo(struct visit *visit)
{
    return visit_answer(visit, "200 OK", "", visit->body);
}

static void a_large_body_arrives_whole(void **state)
{
    enum { SIZE = 1 << 20 };
    struct scene scene;
    char *body = malloc(SIZE + 1);
    (void)state;

    assert_non_null(body);
    for (size_t i = 0; i < SIZE; i++)
        body[i] = (char)('a' + i % 23);
    body[SIZE] = '\0';
    scene_open(&scene, serve_echo, "/in?x=1");
    scene.shot.call.body = (struct slice){body, SIZE};
    scene.shot.call.answer_max = SIZE;
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
    assert_true(slice_eq(buf_slice(&scene.shot.call.answer), scene.shot.call.body));
    assert_has_not(endpoint_last(&scene.endpoint), "Expect:");
    scene_close(&scene);
    free(body);
}

static bool serve_error(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 103 Early Hints\r\nRetry-After: 1\r\n\r\n");
    return visit_answer(visit, "503 Busy", "Content-Type: text/plain; charset=utf-8\r\n", "later");
}

static void an_error_is_an_answer_and_what_comes_ahead_of_it_is_not(void **state)
{
    struct scene scene;
    struct wire_call *call = fire_at(&scene, serve_error);
    (void)state;

    assert_int_equal(call->outcome, WIRE_ANSWERED);
    assert_int_equal(call->status, 503);
    assert_string_equal(call->content_type, "text/plain; charset=utf-8");
    assert_string_equal(call->retry_after, "");
    assert_string_equal(buf_str(&call->answer), "later");
    scene_close(&scene);
}

static bool serve_chunks(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++)
        visit_say(visit, "3\r\nabc\r\n");
    return visit_say(visit, "0\r\nRetry-After: 9\r\n\r\n");
}

static void an_answer_that_drips_in_pieces_is_put_together(void **state)
{
    struct scene scene;
    struct wire_call *call = fire_at(&scene, serve_chunks);
    (void)state;

    assert_int_equal(call->outcome, WIRE_ANSWERED);
    assert_int_equal(call->answer.len, 60);
    assert_string_equal(call->retry_after, ""); /* what comes behind the body does not count */
    scene_close(&scene);
}

static bool serve_gigabyte(struct visit *visit)
{
    static char block[1 << 16];
    bool stays = visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n");

    for (size_t i = 0; stays && i < (1u << 30) / sizeof block; i++)
        stays = visit_send(visit, block, sizeof block);
    return false;
}

static void of_an_answer_without_end_only_the_beginning_is_read(void **state)
{
    struct scene scene;
    struct wire_call *call = fire_at(&scene, serve_gigabyte);
    (void)state;

    assert_int_equal(call->outcome, WIRE_ANSWERED);
    assert_int_equal(call->status, 200);
    assert_true(call->answer_cut);
    assert_int_equal(call->answer.len, 1000);
    shot_release(&scene.shot);
    range_close(&scene.range);
    struct endpoint *endpoint = &scene.endpoint;
    pthread_mutex_lock(&endpoint->lock);
    size_t sent = endpoint->sent;
    pthread_mutex_unlock(&endpoint->lock);
    assert_true(sent < 64u << 20); /* what the buffers of both sides hold */
    endpoint_close(endpoint);
}

static void an_answer_of_just_the_size_that_is_kept_is_not_cut(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/in?x=1");
    for (size_t max = 0; max <= 14; max++) {
        scene.shot.call.answer_max = max;
        shot_fire(&scene.shot);
        assert_int_equal(scene.shot.call.outcome, WIRE_ANSWERED);
        assert_int_equal(scene.shot.call.answer.len, max < 13 ? max : 13);
        assert_int_equal(scene.shot.call.answer_cut, max < 13);
        assert_int_equal(scene.shot.call.status, 200);
    }
    scene_close(&scene);
}

/* ---- when nothing left ------------------------------------------------------------------------
 */

static void where_nobody_listens_nothing_was_sent(void **state)
{
    struct range range;
    struct endpoint gone;
    struct shot shot;
    char text[200];
    (void)state;

    endpoint_open(&gone, serve_ok);
    endpoint_close(&gone);
    range_open(&range, 0, 0);
    shot_at(&shot, &range, &gone, "/secret?token=1");
    shot_fire(&shot);
    assert_int_equal(shot.call.outcome, WIRE_UNSENT);
    assert_int_equal(shot.call.status, 0);
    assert_false(shot.call.sent);
    assert_false(shot.call.timed_out);
    snprintf(text, sizeof text, "nobody answers at http://127.0.0.1:%u: Connection refused",
             gone.port);
    assert_string_equal(shot.call.err.text, text);
    shot_release(&shot);
    range_close(&range);
}

static void a_name_without_an_address_is_not_sent_to(void **state)
{
    struct range range;
    struct shot shot;
    (void)state;

    range_open(&range, 0, 0);
    shot_init(&shot, &range, "nowhere.invalid", 80, "/");
    shot_fire(&shot);
    assert_int_equal(shot.call.outcome, WIRE_UNSENT);
    assert_has(shot.call.err.text, "nobody answers at http://nowhere.invalid:80: ");
    shot_release(&shot);
    range_close(&range);
}

static void a_connection_that_does_not_come_about_times_out_unsent(void **state)
{
    struct range range;
    struct pit pit;
    struct shot shot;
    (void)state;

    pit_open(&pit, "127.0.0.1", 0);
    range_open(&range, 0, 0);
    shot_init(&shot, &range, "127.0.0.1", pit.port, "/");
    for (int i = 0; i < 2; i++) { /* whichever time is over */
        shot.call.connect = i == 0 ? span_ms(50) : (struct span){0};
        shot.call.whole = i == 1 ? span_ms(50) : (struct span){0};
        shot_fire(&shot);
        assert_int_equal(shot.call.outcome, WIRE_UNSENT);
        assert_true(shot.call.timed_out);
        assert_false(shot.call.sent);
        assert_has(shot.call.err.text, "no connection within 0.0");
    }
    shot_release(&shot);
    range_close(&range);
    pit_close(&pit);
}

static void what_is_no_url_is_not_sent(void **state)
{
    static const char *const urls[] = {"", "ftp://127.0.0.1/", "file:///etc/passwd",
                                       "http://user@127.0.0.1/", "127.0.0.1"};
    struct range range;
    struct shot shot;
    (void)state;

    range_open(&range, 0, 0);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        shot_init(&shot, &range, "x", 1, "/");
        shot.call.url = urls[i];
        shot_fire(&shot);
        assert_int_equal(shot.call.outcome, WIRE_UNSENT);
        assert_true(shot.call.err.text[0] != '\0');
        assert_int_equal(shot.call.took.us, 0);
        shot_release(&shot);
    }
    range_close(&range);
}

static void tls_with_who_says_nothing_times_out_unsent(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok,
               "/in?x=1"); /* it waits for the end of a head, which TLS does not say */
    snprintf(scene.shot.url, sizeof scene.shot.url, "https://127.0.0.1:%u/", scene.endpoint.port);
    scene.shot.call.connect = span_ms(100);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNSENT);
    assert_true(scene.shot.call.timed_out);
    assert_false(scene.shot.call.sent);
    scene_close(&scene);
}

static void greet_in_plain_text(struct endpoint *endpoint, int fd)
{
    struct visit visit = {.endpoint = endpoint, .fd = fd, .answering = true};
    visit_say(&visit, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    visit_wait_end(&visit);
}

static void tls_that_does_not_come_about_is_untrusted(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_ok, "/in?x=1");
    endpoint_greet(&scene.endpoint, greet_in_plain_text);
    snprintf(scene.shot.url, sizeof scene.shot.url, "https://127.0.0.1:%u/", scene.endpoint.port);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNSENT);
    assert_true(scene.shot.call.untrusted);
    assert_false(scene.shot.call.sent);
    assert_has(scene.shot.call.err.text, "no TLS with https://127.0.0.1:");
    scene_close(&scene);
}

/* ---- when it is not known ---------------------------------------------------------------------
 */

static bool serve_hang(struct visit *visit)
{
    visit_wait_end(visit);
    return false;
}

static void an_answer_that_never_comes_leaves_it_unknown(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_hang, "/in?x=1");
    scene.shot.call.whole = span_ms(50);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_true(scene.shot.call.timed_out);
    assert_true(scene.shot.call.sent);
    assert_int_equal(scene.shot.call.status, 0);
    assert_has(scene.shot.call.err.text, " has not answered within 0.0");
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
    scene_close(&scene);
}

static bool serve_close(struct visit *visit)
{
    (void)visit;
    return false;
}

static bool serve_reset(struct visit *visit)
{
    return visit_reset(visit);
}

static bool serve_half_a_head(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Le");
    return false;
}

static void a_connection_that_breaks_before_the_answer_leaves_it_unknown(void **state)
{
    bool (*const ways[])(struct visit *) = {serve_close, serve_reset};
    (void)state;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct scene scene;
        struct wire_call *call = fire_at(&scene, ways[i]);
        assert_int_equal(call->outcome, WIRE_UNKNOWN);
        assert_int_equal(call->status, 0);
        assert_true(call->sent);
        assert_false(call->timed_out);
        assert_has(call->err.text, " went away before it answered: ");
        assert_int_equal(endpoint_requests(&scene.endpoint), 1);
        scene_close(&scene);
    }
}

static bool serve_less_than_promised(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    return false;
}

static bool serve_reset_in_the_middle(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    visit_wait(visit); /* so that it is read before the reset overtakes it */
    return visit_reset(visit);
}

static bool serve_half_a_chunk(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf");
    return false;
}

static bool some_answer(void *ctx)
{
    return ((struct shot *)ctx)->call.answer.len > 0 || ((struct shot *)ctx)->dones > 0;
}

static void an_answer_that_breaks_off_leaves_it_unknown_with_its_status(void **state)
{
    bool (*const ways[])(struct visit *) = {serve_less_than_promised, serve_reset_in_the_middle,
                                            serve_half_a_chunk};
    (void)state;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct scene scene;
        scene_open(&scene, ways[i], "/in?x=1");
        shot_send(&scene.shot);
        range_run_until_true(&scene.range, some_answer, &scene.shot);
        endpoint_release(&scene.endpoint);
        range_run(&scene.range);
        assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
        assert_int_equal(scene.shot.call.status, 200);
        assert_has(scene.shot.call.err.text, " went away in the middle of its answer: ");
        assert_int_equal(endpoint_requests(&scene.endpoint), 1);
        scene_close(&scene);
    }
}

static void a_head_that_breaks_off_is_no_answer(void **state)
{
    struct scene scene;
    struct wire_call *call = fire_at(&scene, serve_half_a_head);
    (void)state;

    assert_int_equal(call->outcome, WIRE_UNKNOWN);
    assert_has(call->err.text, "in the middle of its answer: the head of the answer has no end");
    scene_close(&scene);
}

static bool serve_slowly(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    visit_wait_end(visit);
    return false;
}

static void an_answer_that_takes_too_long_to_end_is_unknown(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, serve_slowly, "/in?x=1");
    scene.shot.call.whole = span_ms(100);
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_int_equal(scene.shot.call.status, 200);
    assert_true(scene.shot.call.timed_out);
    assert_has(scene.shot.call.err.text, " has not answered to the end within 0.1");
    scene_close(&scene);
}

static bool serve_nonsense(struct visit *visit)
{
    visit_say(visit, "220 mail.example.org ESMTP\r\n");
    return false;
}

static void what_speaks_no_http_has_not_answered(void **state)
{
    struct scene scene;
    struct wire_call *call = fire_at(&scene, serve_nonsense);
    (void)state;

    assert_int_equal(call->outcome, WIRE_UNKNOWN);
    assert_int_equal(call->status, 0);
    assert_has(call->err.text, " does not speak HTTP");
    scene_close(&scene);
}

static void greet_and_leave(struct endpoint *endpoint, int fd)
{
    char c;
    struct visit visit = {.endpoint = endpoint, .fd = fd, .answering = true};
    if (read(fd, &c, 1) == 1)
        visit_reset(&visit);
}

static void a_body_of_which_only_some_has_left_is_unknown(void **state)
{
    enum { SIZE = 32 << 20 };
    struct scene scene;
    char *body = calloc(1, SIZE);
    (void)state;

    assert_non_null(body);
    scene_open(&scene, serve_ok, "/in?x=1");
    endpoint_greet(&scene.endpoint, greet_and_leave);
    scene.shot.call.body = (struct slice){body, SIZE};
    shot_fire(&scene.shot);
    assert_int_equal(scene.shot.call.outcome, WIRE_UNKNOWN);
    assert_true(scene.shot.call.sent);
    scene_close(&scene);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_comes_back_with_its_status_and_head),
        cmocka_unit_test(a_request_is_a_post_with_its_own_headers_and_no_others_that_matter),
        cmocka_unit_test(without_a_content_type_none_is_invented),
        cmocka_unit_test(a_large_body_arrives_whole),
        cmocka_unit_test(an_error_is_an_answer_and_what_comes_ahead_of_it_is_not),
        cmocka_unit_test(an_answer_that_drips_in_pieces_is_put_together),
        cmocka_unit_test(of_an_answer_without_end_only_the_beginning_is_read),
        cmocka_unit_test(an_answer_of_just_the_size_that_is_kept_is_not_cut),
        cmocka_unit_test(where_nobody_listens_nothing_was_sent),
        cmocka_unit_test(a_name_without_an_address_is_not_sent_to),
        cmocka_unit_test(a_connection_that_does_not_come_about_times_out_unsent),
        cmocka_unit_test(what_is_no_url_is_not_sent),
        cmocka_unit_test(tls_with_who_says_nothing_times_out_unsent),
        cmocka_unit_test(tls_that_does_not_come_about_is_untrusted),
        cmocka_unit_test(an_answer_that_never_comes_leaves_it_unknown),
        cmocka_unit_test(a_connection_that_breaks_before_the_answer_leaves_it_unknown),
        cmocka_unit_test(an_answer_that_breaks_off_leaves_it_unknown_with_its_status),
        cmocka_unit_test(a_head_that_breaks_off_is_no_answer),
        cmocka_unit_test(an_answer_that_takes_too_long_to_end_is_unknown),
        cmocka_unit_test(what_speaks_no_http_has_not_answered),
        cmocka_unit_test(a_body_of_which_only_some_has_left_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
