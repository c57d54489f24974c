/* The steward with its thread, over a real engine: alerts that are delivered by a real office to an
 * endpoint which answers as Slack does. */
#include "engine/api_fixture.h"

#include <time.h>

#include "bridge/endpoint.h"
#include "bridge/office.h"
#include "bridge/steward.h"

#define TIMEOUT "{\"class\":\"timeout\",\"message\":\"no answer came\"}"
#define PATIENCE_MS 30000
#define NAP_MS 10

/* struct scene: everything that a server has for its alerts. */
static struct scene {
    struct desk *desk;
    struct link link;
    struct endpoint endpoint;
    struct targets targets;
    struct office *office;
    struct steward *steward;
    struct arena arena;
} scene;

/* ---- the endpoint ---------------------------------------------------------------------------- */

/* struct reply: what is answered, in turn; the last one again and again. */
struct reply {
    const char *status, *headers, *body;
};

static const struct reply *script;
static size_t script_len;
static atomic_size_t served;

static bool serve(struct visit *visit)
{
    size_t turn = atomic_fetch_add(&served, 1);
    const struct reply *reply = &script[turn < script_len ? turn : script_len - 1];
    return visit_answer(visit, reply->status, reply->headers, reply->body);
}

/* ---- the scene ------------------------------------------------------------------------------- */

static enum status call(void *ctx, const char *method, const char *path, struct slice body,
                        struct buf *answer, int *http, struct err *err)
{
    const char *mark = strchr(path, '?');
    struct api_request request = {.method = method,
                                  .path = {path, mark ? (size_t)(mark - path) : strlen(path)},
                                  .query = slice_of(mark ? mark + 1 : NULL),
                                  .body = body,
                                  .actor = SLICE("office"),
                                  .role = ROLE_ADMIN};
    struct api_answer got;
    (void)ctx, (void)err;
    api_answer_init(&got);
    api_call(&scene.desk->api, &request, &got);
    buf_add_slice(answer, buf_slice(&got.body));
    *http = got.status;
    api_answer_release(&got);
    return STATUS_OK;
}

static void open_steward(const char *server, bool slack, bool webhook)
{
    struct steward_config config = {.engine = scene.desk->engine,
                                    .server = server,
                                    .scan_interval = span_seconds(3600),
                                    .has_inbox = true,
                                    .alerts = {.slack = slack ? ALERTS_TARGET_SLACK : NULL,
                                               .webhook = webhook ? ALERTS_TARGET_WEBHOOK : NULL}};
    struct err err;
    if (steward_open(&config, &scene.steward, &err))
        fail_msg("%s", err.text);
}

/* cursor_is_set says whether the alerts are followed: what dies from then on is said. */
static enum status read_duty(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct duty duty;
    (void)engine;
    *(bool *)ctx = store->duty_get(store, SLICE(ALERTS_DUTY), arena, &duty, err) == STATUS_OK &&
                   duty.cursor != 0;
    err->text[0] = '\0';
    return STATUS_OK;
}

static bool is_following(void)
{
    bool following = false;
    struct read_command command = {.command = {.kind = COMMAND_READ, .arena = &scene.arena},
                                   .read = read_duty,
                                   .ctx = &following};
    assert_int_equal(engine_call(scene.desk->engine, &command.command), STATUS_OK);
    return following;
}

/* await waits until something is so. */
static void await(bool (*is_so)(void), const char *what)
{
    const struct timespec nap = {0, NAP_MS * 1000000L};
    for (int waited = 0; !is_so(); waited += NAP_MS) {
        if (waited >= PATIENCE_MS)
            fail_msg("waited in vain until %s", what);
        nanosleep(&nap, NULL);
    }
}

static int set_up(void **state)
{
    void *desk;
    struct err err;
    scene = (struct scene){0};
    atomic_store(&served, 0);
    api_setup(&desk);
    scene.desk = desk;
    scene.link = (struct link){.call = call};
    endpoint_open(&scene.endpoint, serve);
    const char *slack = arena_printf(&scene.arena, "http://127.0.0.1:%u/services/T/B/hunter2",
                                     (unsigned)scene.endpoint.port)
                            .ptr;
    const char *webhook = arena_printf(&scene.arena, "http://127.0.0.1:%u/hook/hunter2",
                                       (unsigned)scene.endpoint.port)
                              .ptr;
    assert_int_equal(alerts_targets_add(&scene.targets, slack, webhook, &scene.arena, &err),
                     STATUS_OK);
    struct office_config office = {
        .link = &scene.link, .targets = &scene.targets, .worker_id = "deliveries"};
    if (office_open(&office, &scene.office, &err))
        fail_msg("%s", err.text);
    /* As it is, but not so slow. */
    api_ok(scene.desk, "PUT", "/api/v1/policies/receipts",
           "{\"max_attempts\":5,\"backoff_strategy\":\"fixed\",\"initial_delay_seconds\":0.01,"
           "\"jitter\":false}");
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    void *desk = scene.desk;
    (void)state;
    steward_close(scene.steward);
    office_close(scene.office);
    endpoint_close(&scene.endpoint);
    arena_release(&scene.arena);
    return api_teardown(&desk);
}

static void play(const struct reply *replies, size_t count)
{
    script = replies;
    script_len = count;
}

#define PLAY(replies) play(replies, sizeof(replies) / sizeof((replies)[0]))

static size_t deliveries(const char *state)
{
    api_ok(scene.desk, "GET",
           arena_printf(&scene.arena, "/api/v1/jobs?queue=deliveries&state=%s", state).ptr, "");
    return json_count(scene.desk->json);
}

static bool one_is_done(void)
{
    return deliveries("done") == 1;
}

static bool two_are_done(void)
{
    return deliveries("done") == 2;
}

static bool one_is_dead(void)
{
    return deliveries("dead") == 1;
}

/* the_job is the delivery, as GET /api/v1/jobs/{id} has it. */
static const char *the_job(const char *state)
{
    assert_int_equal(deliveries(state), 1);
    const char *job_id = api_text(scene.desk, "0.job_id");
    struct buf path;
    buf_init(&path, 1024);
    buf_add_str(&path, "/api/v1/jobs/");
    buf_add_percent(&path, slice_of(job_id));
    api_ok(scene.desk, "GET", buf_str(&path), "");
    buf_release(&path);
    return buf_str(&scene.desk->answer.body);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void a_death_is_posted_to_slack(void **state)
{
    static const struct reply replies[] = {{"200 OK", "", "ok"}};
    (void)state;
    PLAY(replies);
    open_steward("one", true, false);
    await(is_following, "the alerts are followed");
    const char *dlq_id = api_dead(scene.desk, "\"queue\":\"mail\"", TIMEOUT);
    await(one_is_done, "the message is delivered");
    const char *post = endpoint_last(&scene.endpoint);
    assert_non_null(strstr(post, "POST /services/T/B/hunter2 HTTP/1.1"));
    assert_non_null(strstr(post, "{\"type\":\"header\",\"text\":{\"type\":\"plain_text\""));
    assert_non_null(strstr(post, "*Queue*\\n`mail`"));
    assert_non_null(strstr(post, arena_printf(&scene.arena, "`lazaret dlq show %s`", dlq_id).ptr));
    struct steward_counts counts;
    steward_counts(scene.steward, &counts);
    assert_int_equal(counts.alerts_slack, 1);
    assert_int_equal(counts.alerts_firsts, 1);
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
}

static void both_targets_get_their_own(void **state)
{
    static const struct reply replies[] = {{"200 OK", "", "ok"}};
    (void)state;
    PLAY(replies);
    open_steward("one", true, true);
    await(is_following, "the alerts are followed");
    api_dead(scene.desk, "", TIMEOUT);
    await(two_are_done, "both messages are delivered");
    assert_int_equal(endpoint_requests(&scene.endpoint), 2);
}

static void a_post_that_fails_is_tried_again(void **state)
{
    static const struct reply replies[] = {
        {"500 Internal Server Error", "", "rollup_error"},
        {"429 Too Many Requests", "Retry-After: 1\r\n", "ratelimited"},
        {"200 OK", "", "{\"ok\":false,\"error\":\"ratelimited\"}"},
        {"200 OK", "", "ok"},
    };
    (void)state;
    PLAY(replies);
    open_steward("one", true, false);
    await(is_following, "the alerts are followed");
    api_dead(scene.desk, "", TIMEOUT);
    await(one_is_done, "the message is delivered");
    assert_int_equal(endpoint_requests(&scene.endpoint), 4);
    const char *job = the_job("done");
    assert_non_null(strstr(job, "\"class\":\"server_error\""));
    assert_non_null(strstr(job, "\"class\":\"rate_limited\""));
    assert_non_null(strstr(job, "\"retry_after_seconds\":1"));
    assert_null(strstr(job, "hunter2"));
}

static void a_refusal_ends_in_the_quarantine_and_is_not_said(void **state)
{
    static const struct reply replies[] = {
        {"200 OK", "", "{\"ok\":false,\"error\":\"channel_not_found\"}"}};
    (void)state;
    PLAY(replies);
    open_steward("one", true, false);
    await(is_following, "the alerts are followed");
    api_dead(scene.desk, "", TIMEOUT);
    await(one_is_dead, "the message is refused");
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
    api_ok(scene.desk, "GET", "/api/v1/dlq?source=alerts", "");
    assert_int_equal(json_count(scene.desk->json), 1);
    const char *letter = buf_str(&scene.desk->answer.body);
    assert_non_null(strstr(letter, "SlackError"));
    assert_non_null(strstr(letter, "channel_not_found"));
    assert_null(strstr(letter, "hunter2"));
}

static bool is_suppressed(void)
{
    struct steward_counts counts;
    steward_counts(scene.steward, &counts);
    return counts.alerts_suppressed == 1;
}

static void the_letter_of_an_alert_is_no_news(void **state)
{
    static const struct reply replies[] = {{"404 Not Found", "", "no_service"}};
    (void)state;
    PLAY(replies);
    open_steward("one", true, false);
    await(is_following, "the alerts are followed");
    api_dead(scene.desk, "", TIMEOUT);
    await(is_suppressed, "the letter of the alert is left out");
    assert_int_equal(endpoint_requests(&scene.endpoint), 1);
}

static void one_that_closes_leaves_its_duties_to_the_next(void **state)
{
    static const struct reply replies[] = {{"200 OK", "", "ok"}};
    (void)state;
    PLAY(replies);
    open_steward("one", true, false);
    await(is_following, "the alerts are followed");
    steward_poke(scene.steward);
    steward_close(scene.steward);
    scene.steward = NULL;
    api_dead(scene.desk, "", TIMEOUT);
    open_steward("two", true, false);
    await(one_is_done, "the other says it");
}

static void one_with_nothing_to_do_has_no_thread(void **state)
{
    struct steward_config config = {.engine = scene.desk->engine, .server = "one"};
    struct steward_counts counts;
    struct err err;
    (void)state;
    assert_int_equal(steward_open(&config, &scene.steward, &err), STATUS_OK);
    steward_poke(scene.steward);
    steward_counts(scene.steward, &counts);
    assert_int_equal(counts.scans, 0);
    steward_counts(NULL, &counts);
    assert_false(is_following());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_death_is_posted_to_slack),
        TEST(both_targets_get_their_own),
        TEST(a_post_that_fails_is_tried_again),
        TEST(a_refusal_ends_in_the_quarantine_and_is_not_said),
        TEST(the_letter_of_an_alert_is_no_news),
        TEST(one_that_closes_leaves_its_duties_to_the_next),
        TEST(one_with_nothing_to_do_has_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
