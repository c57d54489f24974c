/* Requests that are carried out without holding a thread, as a server does it; and roles. */
#include "engine/api_fixture.h"

#include <semaphore.h>

/* struct errand: one request on its way. */
struct errand {
    struct api_request request;
    struct api_answer answer;
    struct api_run *run;
    sem_t woken;
};

static void wake(void *ctx)
{
    sem_post(ctx);
}

static void begin(struct desk *api, struct errand *errand, const char *method, const char *path,
                  const char *body)
{
    *errand = (struct errand){.request = {.method = method,
                                          .path = slice_of(path),
                                          .body = slice_of(body),
                                          .actor = SLICE("test"),
                                          .role = ROLE_ADMIN}};
    api_answer_init(&errand->answer);
    sem_init(&errand->woken, 0, 0);
    errand->run = api_run_new(&api->api, &errand->request, &errand->answer);
    assert_non_null(errand->run);
}

/* carry submits, waits for the wake and takes the next step. */
static enum api_progress carry(struct errand *errand)
{
    api_run_submit(errand->run, wake, &errand->woken);
    sem_wait(&errand->woken);
    return api_run_step(errand->run);
}

static void finish(struct errand *errand)
{
    api_run_free(errand->run);
    api_answer_release(&errand->answer);
    sem_destroy(&errand->woken);
}

static void a_push_is_one_errand_to_the_engine(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    begin(api, &errand, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"J\"}");
    assert_int_equal(api_run_step(errand.run), API_ENGINE);
    assert_int_equal(carry(&errand), API_DONE);
    assert_int_equal(errand.answer.status, 201);
    assert_string_equal(api_run_route(errand.run), "/api/v1/jobs");
    finish(&errand);
    api_ok(api, "GET", "/api/v1/jobs/J", "");
}

static void what_is_refused_needs_no_engine(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    begin(api, &errand, "POST", "/api/v1/jobs", "{\"no_action\":1}");
    assert_int_equal(api_run_step(errand.run), API_DONE);
    assert_int_equal(errand.answer.status, 400);
    finish(&errand);
}

static void a_slow_route_asks_for_a_thread(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    begin(api, &errand, "GET", "/api/v1/audit/verify", "");
    assert_int_equal(api_run_step(errand.run), API_SLOW);
    api_run_block(errand.run);
    assert_int_equal(errand.answer.status, 200);
    finish(&errand);
}

static void events_are_the_carriers_business(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    begin(api, &errand, "GET", "/api/v1/events", "");
    assert_int_equal(api_run_step(errand.run), API_EVENTS);
    finish(&errand);
    assert_int_equal(api_get(api, "/api/v1/events"), 501);
}

static void a_wait_that_is_abandoned_ends(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    begin(api, &errand, "POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"wait_ms\":600000}");
    assert_int_equal(api_run_step(errand.run), API_ENGINE);
    assert_true(api_run_waits(errand.run));
    api_run_submit(errand.run, wake, &errand.woken);
    api_run_abandon(errand.run);
    sem_wait(&errand.woken);
    assert_int_equal(api_run_step(errand.run), API_DONE);
    assert_false(api_run_leased(errand.run));
    finish(&errand);
}

static void leases_that_were_not_delivered_are_given_back_and_count_nothing(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"J\"}");
    begin(api, &errand, "POST", "/api/v1/leases", "{\"worker_id\":\"w\"}");
    assert_int_equal(api_run_step(errand.run), API_ENGINE);
    assert_int_equal(carry(&errand), API_DONE);
    assert_true(api_run_leased(errand.run));
    api_run_undelivered(errand.run);
    finish(&errand);
    api_ok(api, "GET", "/api/v1/jobs/J", "");
    assert_string_equal(api_text(api, "state"), "pending");
    api_ok(api, "POST", "/api/v1/leases", "{\"worker_id\":\"w\"}");
    struct json attempt = {0};
    assert_true(api_value(api, "leases.0.attempt", &attempt));
    assert_true(slice_is(attempt.raw, "1"));
}

static void leases_that_no_step_looked_at_are_given_back_too(void **state)
{
    struct desk *api = *state;
    struct errand errand;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"J\"}");
    begin(api, &errand, "POST", "/api/v1/leases", "{\"worker_id\":\"w\"}");
    assert_int_equal(api_run_step(errand.run), API_ENGINE);
    api_run_submit(errand.run, wake, &errand.woken);
    sem_wait(&errand.woken);
    api_run_undelivered(errand.run);
    finish(&errand);
    api_ok(api, "GET", "/api/v1/jobs/J", "");
    assert_string_equal(api_text(api, "state"), "pending");
}

/* ask carries out a request in a role. */
static int ask(struct desk *api, enum role role, const char *method, const char *path,
               const char *body)
{
    struct api_request request = {.method = method,
                                  .path = slice_of(path),
                                  .body = slice_of(body),
                                  .actor = SLICE("ada"),
                                  .actor_proven = true,
                                  .role = role};
    api_call(&api->api, &request, &api->answer);
    assert_int_equal(json_parse(buf_slice(&api->answer.body), &api->json, NULL), STATUS_OK);
    return api->answer.status;
}

static void a_role_may_do_what_the_roles_before_it_may(void **state)
{
    static const struct {
        const char *method, *path, *body;
        enum role least;
    } cases[] = {
        {"GET", "/healthz", "", ROLE_NONE},
        {"GET", "/api/v1/dlq", "", ROLE_VIEWER},
        {"POST", "/api/v1/jobs", "{\"action\":\"a\"}", ROLE_WORKER},
        {"POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"queues\":[\"none\"]}", ROLE_WORKER},
        {"POST", "/api/v1/queues/q/pause", "", ROLE_OPERATOR},
        {"POST", "/api/v1/dlq/retry-all", "", ROLE_OPERATOR},
        {"POST", "/api/v1/dlq/purge", "{\"older_than_days\":1}", ROLE_ADMIN},
    };
    struct desk *api = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (enum role role = ROLE_NONE; role < ROLE_COUNT; role++) {
            int status = ask(api, role, cases[i].method, cases[i].path, cases[i].body);
            int refused = role == ROLE_NONE ? 401 : 403;
            if (role >= cases[i].least ? status >= 300 : status != refused)
                fail_msg("%s %s as %s: %d %s", cases[i].method, cases[i].path, role_name(role),
                         status, buf_str(&api->answer.body));
        }
    }
}

static void a_letter_that_needs_review_is_a_reviewers(void **state)
{
    struct desk *api = *state;
    char path[128];
    const char *id = api_dead(api, "", "{\"message\":\"no\",\"class\":\"permission_denied\"}");
    snprintf(path, sizeof(path), "/api/v1/dlq/%s/discard", id);
    assert_int_equal(ask(api, ROLE_OPERATOR, "POST", path, ""), 403);
    snprintf(path, sizeof(path), "/api/v1/dlq/%s/escalate", id);
    assert_int_equal(ask(api, ROLE_OPERATOR, "POST", path, ""), 200);
    snprintf(path, sizeof(path), "/api/v1/dlq/%s/retry", id);
    assert_int_equal(ask(api, ROLE_OPERATOR, "POST", path, ""), 403);
    assert_int_equal(ask(api, ROLE_REVIEWER, "POST", path, ""), 200);
}

static void a_proven_actor_cannot_be_another(void **state)
{
    struct desk *api = *state;
    char path[128];
    const char *id = api_dead(api, "", "{\"message\":\"timed out\",\"class\":\"timeout\"}");
    snprintf(path, sizeof(path), "/api/v1/dlq/%s/retry", id);
    assert_int_equal(ask(api, ROLE_OPERATOR, "POST", path, "{\"actor\":\"mallory\"}"), 200);
    snprintf(path, sizeof(path), "/api/v1/dlq/%s", id);
    api_ok(api, "GET", path, "");
    assert_string_equal(api_text(api, "recovered_by"), "ada");
    api_ok(api, "GET", "/api/v1/audit?limit=1000", "");
    assert_null(strstr(buf_str(&api->answer.body), "mallory"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_push_is_one_errand_to_the_engine),
        TEST(what_is_refused_needs_no_engine),
        TEST(a_slow_route_asks_for_a_thread),
        TEST(events_are_the_carriers_business),
        TEST(a_wait_that_is_abandoned_ends),
        TEST(leases_that_were_not_delivered_are_given_back_and_count_nothing),
        TEST(leases_that_no_step_looked_at_are_given_back_too),
        TEST(a_role_may_do_what_the_roles_before_it_may),
        TEST(a_letter_that_needs_review_is_a_reviewers),
        TEST(a_proven_actor_cannot_be_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
