/* The API as a caller sees it: routes and their errors, jobs, leases, results, queues, policies,
 * evidence. */
#include "engine/api_fixture.h"

#include <sqlite3.h>

/* ---- routes and errors ----------------------------------------------------------------------- */

static void a_wrong_request_says_what_is_wrong(void **state)
{
    static const struct {
        const char *method, *target, *body;
        int status;
        const char *code, *says;
    } cases[] = {
        {"GET", "/api", "", 404, "not_found", "no such path"},
        {"POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"queue\":\"q\"}", 400, "invalid",
         "queue: unknown member; known here: worker_id queues "},
        {"GET", "", "", 404, "not_found", "no such path"},
        {"GET", "/api/v1/nothing", "", 404, "not_found", "no such path"},
        {"GET", "/api/v1/dlq//retry", "", 404, "not_found", "no such path"},
        {"GET", "/api/v1/dlq/a/retry/b", "", 404, "not_found", "no such path"},
        {"DELETE", "/api/v1/jobs", "", 405, "method_not_allowed", "DELETE"},
        {"GET", "/api/v1/leases", "", 405, "method_not_allowed", "try POST"},
        {"POST", "/api/v1/dlq/stats", "", 405, "method_not_allowed", "try GET"},
        {"GET", "/api/v1/jobs?colour=red", "", 400, "invalid",
         "colour: unknown query parameter; "
         "known here: state queue limit"},
        {"GET", "/api/v1/dlq/stats?x=1", "", 400, "invalid", "none is known here"},
        {"GET", "/api/v1/jobs?limit=5&limit=6", "", 400, "invalid", "limit: stands twice"},
        {"GET", "/api/v1/jobs?limit=0", "", 400, "invalid", "limit: must be a whole number"},
        {"GET", "/api/v1/dlq?limit=1001", "", 400, "invalid", "from 1 to 1000, not \"1001\""},
        {"GET", "/api/v1/dlq?limit=-1", "", 400, "invalid", "limit: "},
        {"GET", "/api/v1/dlq?limit=abc", "", 400, "invalid", "not \"abc\""},
        {"GET", "/api/v1/dlq?limit=99999999999999999999", "", 400, "invalid", "limit: "},
        {"GET", "/api/v1/dlq?recovered=maybe", "", 400, "invalid", "recovered: must be true"},
        {"GET", "/api/v1/dlq?state=asleep", "", 400, "invalid", "state: must be open, dead"},
        {"GET", "/api/v1/dlq?after=yesterday", "", 400, "invalid", "after: must be a time"},
        {"GET", "/api/v1/dlq?sort=random", "", 400, "invalid", "sort: "},
        {"GET", "/api/v1/dlq?reason=%4", "", 400, "invalid", "two hex digits"},
        {"GET", "/api/v1/dlq?reason=%00", "", 400, "invalid", "NUL"},
        {"GET", "/api/v1/dlq?reason=%ff", "", 400, "invalid", "not UTF-8"},
        {"GET", "/api/v1/dlq/%zz", "", 400, "invalid", "two hex digits"},
        {"GET", "/api/v1/jobs?state=dying", "", 400, "invalid", "state: must be pending"},
        {"GET", "/api/v1/jobs/nobody", "", 404, "not_found", "no job \"nobody\""},
        {"POST", "/api/v1/jobs/nobody/cancel", "", 404, "not_found", "nobody"},
        {"POST", "/api/v1/jobs", "", 400, "invalid", "the body is empty"},
        {"POST", "/api/v1/jobs", "{", 400, "invalid", ""},
        {"POST", "/api/v1/jobs", "[{}", 400, "invalid", "not JSON"},
        {"POST", "/api/v1/jobs", "{}", 400, "invalid", "action: "},
        {"POST", "/api/v1/jobs", "{\"action\":\"a\",\"priority\":12}", 400, "invalid",
         "priority: must be a whole number from 0 to 9, not 12"},
        {"POST", "/api/v1/leases", "{}", 400, "invalid", "worker_id: is required"},
        {"POST", "/api/v1/leases", "[]", 400, "invalid", "must be a JSON object"},
        {"POST", "/api/v1/leases", "{\"worker_id\":7}", 400, "invalid",
         "worker_id: must be a string, not 7"},
        {"POST", "/api/v1/leases", "{\"worker_id\":\"a\\u0000b\"}", 400, "invalid", "NUL"},
        {"POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"count\":0}", 400, "invalid", "count: "},
        {"POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"queues\":[1]}", 400, "invalid",
         "entry 0 of queues: must be a string"},
        {"POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"lease_ms\":-5}", 400, "invalid",
         "lease_ms: "},
        {"POST", "/api/v1/leases/heartbeat", "{\"worker_id\":\"w\"}", 400, "invalid",
         "lease_ids: is required"},
        {"POST", "/api/v1/results", "{\"lease_id\":\"x\"}", 400, "invalid", "status: must be"},
        {"POST", "/api/v1/results", "{\"status\":\"complete\"}", 400, "invalid",
         "lease_id: is required"},
        {"POST", "/api/v1/results", "{\"lease_id\":\"x\",\"status\":\"failed\"}", 400, "invalid",
         "failure: is required"},
        {"POST", "/api/v1/results",
         "{\"lease_id\":\"x\",\"status\":\"failed\",\"failure\":{\"message\":7}}", 400, "invalid",
         "failure.message: must be a string"},
        {"GET", "/api/v1/policies/nope", "", 404, "not_found", "there are: receipts"},
        {"PUT", "/api/v1/policies/mine", "{\"max_attempts\":0}", 400, "invalid", "max_attempts: "},
        {"PUT", "/api/v1/policies/mine", "{\"tries\":5}", 400, "invalid", "tries"},
        {"PUT", "/api/v1/policies/mine", "", 400, "invalid", ""},
        {"POST", "/api/v1/policies/simulate", "{\"policy\":\"map\"}", 400, "invalid",
         "failures: must be an array"},
        {"POST", "/api/v1/policies/simulate", "{\"policy\":\"nope\",\"failures\":[{}]}", 404,
         "not_found", "no policy is named \"nope\""},
        {"GET", "/api/v1/audit?job_id=a&dlq_id=b", "", 400, "invalid", "give one of them"},
        {"GET", "/api/v1/audit?job_id=nobody", "", 404, "not_found", "no job"},
        {"GET", "/api/v1/audit/verify?after=99", "", 400, "invalid", "after: the last event is 0"},
    };
    struct desk *api = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = api_send(api, cases[i].method, cases[i].target, slice_of(cases[i].body));
        const char *error = api_text(api, "error");
        if (status != cases[i].status || !strstr(error, cases[i].says) ||
            strcmp(api_text(api, "code"), cases[i].code) != 0)
            fail_msg("%s %s %s: expected %d %s \"...%s...\", not %d %s", cases[i].method,
                     cases[i].target, cases[i].body, cases[i].status, cases[i].code, cases[i].says,
                     status, buf_str(&api->answer.body));
    }
}

static void a_trailing_slash_does_not_matter(void **state)
{
    struct desk *api = *state;
    assert_int_equal(api_get(api, "/api/v1/dlq/"), 200);
    assert_string_equal(buf_str(&api->answer.body), "[]\n");
    assert_int_equal(api_get(api, "/api/v1/dlq/stats/"), 200);
    assert_int_equal(api_get(api, "/api/v1/jobs/?limit=1"), 200);
}

static void ids_are_percent_decoded(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"../a b/\\u00e9%\"}");
    assert_int_equal(api_get(api, "/api/v1/jobs/..%2Fa%20b%2F%C3%A9%25"), 200);
    assert_answer(api, "job_id", "../a b/\xc3\xa9%");
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void a_push_is_answered_with_the_job(void **state)
{
    struct desk *api = *state;
    const char *envelope = " {\"action\":\"send\", \"job_id\":\"j1\"}\n";
    assert_int_equal(api_post(api, "/api/v1/jobs", envelope), 201);
    assert_string_equal(buf_str(&api->answer.body),
                        "{\"job_id\":\"j1\",\"state\":\"pending\",\"created\":true}\n");
    assert_int_equal(api_post(api, "/api/v1/jobs", envelope), 200);
    assert_answer(api, "created", "false");
    assert_int_equal(api_post(api, "/api/v1/jobs", "{\"action\":\"x\",\"job_id\":\"j1\"}"), 409);
    assert_answer(api, "code", "conflict");
}

static void of_many_pushes_each_has_its_answer_in_its_place(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs",
           "[{\"action\":\"a\",\"job_id\":\"1\"},7,{\"action\":\"a\",\"job_id\":\"2\"},"
           "{\"action\":\"b\",\"job_id\":\"1\"}]");
    assert_int_equal(api->answer.status, 200);
    assert_int_equal(api_count(api, "results"), 4);
    assert_answer(api, "results.0.job_id", "1");
    assert_answer(api, "results.1.code", "invalid");
    assert_answer(api, "results.2.created", "true");
    assert_answer(api, "results.3.code", "conflict");

    api->content_type = "application/x-ndjson; charset=utf-8";
    api_ok(api, "POST", "/api/v1/jobs",
           "{\"action\":\"a\",\"job_id\":\"3\"}\r\n\n  \nnot json\n{\"action\":\"a\"}");
    assert_int_equal(api_count(api, "results"), 3);
    assert_answer(api, "results.0.job_id", "3");
    assert_answer(api, "results.1.code", "invalid");
    assert_answer(api, "results.2.created", "true");
    api_ok(api, "POST", "/api/v1/jobs", "");
    assert_int_equal(api_count(api, "results"), 0);
}

static void more_than_ten_thousand_pushes_are_refused(void **state)
{
    struct desk *api = *state;
    struct buf body;
    buf_init(&body, 1 << 20);
    for (int i = 0; i < 10001; i++)
        buf_add_str(&body, "{\"action\":\"a\"}\n");
    api->content_type = "application/x-ndjson";
    assert_int_equal(api_send(api, "POST", "/api/v1/jobs", buf_slice(&body)), 413);
    assert_answer(api, "code", "too_large");
    body.len -= sizeof("{\"action\":\"a\"}");
    assert_int_equal(api_send(api, "POST", "/api/v1/jobs", buf_slice(&body)), 200);
    assert_int_equal(api_count(api, "results"), 10000);
    buf_release(&body);
}

static int setup_full(void **state)
{
    int failed = api_setup(state);
    struct desk *api = *state;
    engine_free(api->engine);
    api->config.live_max = 1;
    api_open(api);
    return failed;
}

static void a_push_over_the_limit_says_when_to_try_again(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\"}");
    assert_int_equal(api_post(api, "/api/v1/jobs", "{\"action\":\"a\"}"), 429);
    assert_answer(api, "code", "limit");
    assert_true(api->answer.retry_after_s >= 1);
    api_ok(api, "POST", "/api/v1/jobs", "[{\"action\":\"a\"}]");
    assert_answer(api, "results.0.code", "limit");
    assert_string_not_equal(api_text(api, "results.0.retry_after"), "(nothing)");
}

static void a_job_is_shown_with_its_attempts_and_its_envelope(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs",
           "{\"action\":\"send\",\"job_id\":\"j1\",\"queue\":\"mail\",\"priority\":7,"
           "\"retry_policy\":\"map\",\"extra\" : [1, 2]}");
    const char *lease = api_lease(api);
    api_ok(api, "GET", "/api/v1/jobs/j1", "");
    assert_answer(api, "state", "running");
    assert_answer(api, "worker", "w1");
    assert_answer(api, "max_attempts", "3");
    assert_answer(api, "policy", "map");
    assert_answer(api, "next_run_at", "null");
    api_result(api, lease, "\"status\":\"failed\",\"failure\":{\"message\":\"timed out\"}");
    assert_answer(api, "results.0.state", "scheduled");
    const char *next = api_text(api, "results.0.next_retry_at");
    api_ok(api, "GET", "/api/v1/jobs/j1", "");
    assert_answer(api, "state", "scheduled");
    assert_answer(api, "next_run_at", next);
    assert_answer(api, "priority", "7");
    assert_answer(api, "queue", "mail");
    assert_answer(api, "attempts.0.error_message", "timed out");
    assert_answer(api, "attempts.0.decision.action", "retry");
    assert_answer(api, "lease_expires_at", "null");
    assert_answer(api, "envelope.extra", "[1, 2]");
    assert_answer(api, "result", "null");
}

static void jobs_are_listed_in_pages(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs",
           "[{\"action\":\"a\",\"job_id\":\"1\"},{\"action\":\"a\",\"job_id\":\"2\"},"
           "{\"action\":\"a\",\"job_id\":\"3\",\"queue\":\"q\"}]");
    api_ok(api, "GET", "/api/v1/jobs?limit=2", "");
    assert_int_equal(api_count(api, ""), 2);
    assert_answer(api, "0.job_id", "3");
    assert_true(api->answer.cursor != 0);
    char target[96];
    snprintf(target, sizeof(target), "/api/v1/jobs?limit=2&cursor=%lld",
             (long long)api->answer.cursor);
    api_ok(api, "GET", target, "");
    assert_int_equal(api_count(api, ""), 1);
    assert_answer(api, "0.job_id", "1");
    assert_int_equal(api->answer.cursor, 0);
    api_ok(api, "GET", "/api/v1/jobs?queue=q&state=pending", "");
    assert_int_equal(api_count(api, ""), 1);
    api_ok(api, "GET", "/api/v1/jobs?state=done", "");
    assert_int_equal(api_count(api, ""), 0);
}

static void a_pending_job_is_cancelled_and_a_running_one_told(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"1\"}");
    api_ok(api, "POST", "/api/v1/jobs/1/cancel", "{\"actor\":\"human:ada\"}");
    assert_answer(api, "state", "cancelled");
    assert_int_equal(api_post(api, "/api/v1/jobs/1/cancel", ""), 409);
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"2\"}");
    const char *lease = api_lease(api);
    api_ok(api, "POST", "/api/v1/jobs/2/cancel", "");
    assert_answer(api, "state", "running");
    assert_answer(api, "cancel_requested", "true");
    struct slice body =
        arena_printf(&api->arena, "{\"worker_id\":\"w1\",\"lease_ids\":[\"%s\",\"no\"]}", lease);
    api_ok(api, "POST", "/api/v1/leases/heartbeat", body.ptr);
    assert_answer(api, "cancelled.0", lease);
    assert_answer(api, "lost.0", "no");
    assert_int_equal(api_count(api, "extended"), 0);
}

/* ---- leases and results ---------------------------------------------------------------------- */

static void a_lease_hands_over_the_job_byte_for_byte(void **state)
{
    struct desk *api = *state;
    const char *envelope = "{ \"action\":\"a\",  \"job_id\":\"1\", \"n\": 1.50, \"n\": 2 }";
    api_ok(api, "POST", "/api/v1/jobs", envelope);
    api_ok(api, "POST", "/api/v1/leases",
           "{\"worker_id\":\"w\",\"queues\":[\"other\"],\"count\":5}");
    assert_string_equal(buf_str(&api->answer.body), "{\"leases\":[]}\n");
    api_ok(api, "POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"count\":5,\"wait_ms\":5000}");
    assert_int_equal(api_count(api, "leases"), 1);
    assert_answer(api, "leases.0.job", envelope);
    assert_answer(api, "leases.0.attempt", "1");
    assert_answer(api, "leases.0.match", "best");
    assert_answer(api, "leases.0.queue", "default");
}

static void a_released_job_is_ready_again(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"1\"}");
    const char *lease = api_lease(api);
    struct slice body = arena_printf(&api->arena, "{\"lease_ids\":[\"%s\",\"no\"]}", lease);
    api_ok(api, "POST", "/api/v1/leases/release", body.ptr);
    assert_answer(api, "released.0", lease);
    assert_answer(api, "lost.0", "no");
    api_lease(api);
    assert_answer(api, "leases.0.attempt", "1");
}

static void results_keep_what_the_worker_hands_back(void **state)
{
    static const struct {
        const char *reported, *kept;
    } cases[] = {
        {"\"status\":\"complete\"", "null"},
        {"\"status\":\"complete\",\"result\":null", "null"},
        {"\"status\":\"complete\",\"result\":{\"n\": 1}", "{\"n\": 1}"},
        {"\"status\":\"complete\",\"result\":{\"n\":1,\"summary\":\"x\"},\"summary\":\"ok\","
         "\"artifact_pointers\":[\"s3://b/r\"]",
         "{\"n\":1,\"summary\":\"ok\",\"artifact_pointers\":[\"s3://b/r\"]}"},
        {"\"status\":\"complete\",\"result\":7,\"summary\":\"ok\"",
         "{\"value\":7,\"summary\":\"ok\"}"},
        {"\"status\":\"complete\",\"summary\":\"ok\"", "{\"summary\":\"ok\"}"},
    };
    struct desk *api = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\"}");
        const char *job = api_text(api, "job_id");
        api_result(api, api_lease(api), cases[i].reported);
        assert_answer(api, "results.0.state", "done");
        assert_answer(api, "results.0.dlq_id", "null");
        api_ok(api, "GET", api_path(api, "/api/v1/jobs/%s", job), "");
        assert_answer(api, "state", "done");
        assert_answer(api, "result", cases[i].kept);
    }
}

static void a_result_for_a_lost_lease_changes_nothing(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"1\"}");
    const char *lease = api_lease(api);
    struct slice body = arena_printf(&api->arena,
                                     "[{\"lease_id\":\"gone\",\"status\":\"complete\"},{},"
                                     "{\"lease_id\":\"%s\",\"status\":\"complete\"}]",
                                     lease);
    api_ok(api, "POST", "/api/v1/results", body.ptr);
    assert_int_equal(api_count(api, "results"), 3);
    assert_answer(api, "results.0.code", "lease_lost");
    assert_answer(api, "results.0.lease_id", "gone");
    assert_answer(api, "results.1.code", "invalid");
    assert_answer(api, "results.2.state", "done");
    api_result(api, lease, "\"status\":\"complete\"");
    assert_answer(api, "results.0.code", "lease_lost");
}

/* ---- queues, policies ------------------------------------------------------------------------ */

static void a_paused_queue_hands_out_nothing(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"queue\":\"mail\"}");
    api_ok(api, "POST", "/api/v1/queues/mail/pause", "");
    assert_string_equal(buf_str(&api->answer.body), "{\"status\":\"paused\",\"queue\":\"mail\"}\n");
    api_ok(api, "POST", "/api/v1/leases", "{\"worker_id\":\"w\"}");
    assert_int_equal(api_count(api, "leases"), 0);
    api_ok(api, "GET", "/api/v1/queues", "");
    assert_answer(api, "0.name", "mail");
    assert_answer(api, "0.paused", "true");
    assert_answer(api, "0.depth.pending", "1");
    api_ok(api, "POST", "/api/v1/queues/mail/resume", "{\"actor\":\"human:ada\"}");
    assert_answer(api, "status", "resumed");
    api_lease(api);
}

static void presets_explain_themselves_as_the_contract_has_them(void **state)
{
    static const struct {
        const char *name, *attempts, *delays, *total, *jitter;
    } cases[] = {
        {"receipts", "5", "[2,4,8,16]", "30", "false"},
        {"dispatch", "3", "[10,30]", "40", "false"},
        {"governed", "6", "[5,30,120,600,3600]", "4355", "true"},
        {"map", "3", "[1,2]", "3", NULL},
        {"background", "4", "[0.025,0.05,0.1]", "0.175", NULL},
    };
    struct desk *api = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        api_ok(api, "GET", api_path(api, "/api/v1/policies/%s/explain", cases[i].name), "");
        assert_answer(api, "name", cases[i].name);
        assert_answer(api, "max_attempts", cases[i].attempts);
        assert_answer(api, "delays", cases[i].delays);
        assert_answer(api, "total_seconds", cases[i].total);
        if (cases[i].jitter)
            assert_answer(api, "jitter", cases[i].jitter);
    }
}

static void a_policy_that_was_read_can_be_put_back(void **state)
{
    struct desk *api = *state;
    api_ok(api, "GET", "/api/v1/policies", "");
    size_t presets = api_count(api, "");
    api_ok(api, "PUT", "/api/v1/policies/mine",
           "{\"max_attempts\":2,\"backoff_strategy\":\"fixed\",\"initial_delay_seconds\":0.5,"
           "\"jitter\":false}");
    assert_answer(api, "name", "mine");
    assert_answer(api, "version", "1");
    api_ok(api, "GET", "/api/v1/policies/mine", "");
    assert_answer(api, "initial_delay_seconds", "0.5");
    struct slice printed = arena_dup(&api->arena, api->json.raw);
    api_ok(api, "PUT", "/api/v1/policies/mine", printed.ptr);
    assert_answer(api, "version", "2");
    api_ok(api, "PUT", "/api/v1/policies/map", "{\"max_attempts\":9}");
    api_ok(api, "GET", "/api/v1/policies", "");
    assert_int_equal(api_count(api, ""), presets + 1);
    api_ok(api, "GET", "/api/v1/policies/map", "");
    assert_answer(api, "max_attempts", "9");
}

static void a_simulation_decides_as_the_engine_would(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/policies/simulate",
           "{\"policy\":\"receipts\",\"repeat\":true,"
           "\"failures\":[{\"message\":\"refused\",\"class\":\"network\"}]}");
    assert_int_equal(api_count(api, ""), 5);
    assert_answer(api, "0.attempt", "1");
    assert_answer(api, "0.action", "retry");
    assert_answer(api, "0.delay_seconds", "2");
    assert_answer(api, "0.at_seconds", "0");
    assert_answer(api, "1.at_seconds", "2");
    assert_answer(api, "3.delay_seconds", "16");
    assert_answer(api, "4.action", "quarantine");
    assert_answer(api, "4.reason", "retries_exhausted");
    assert_answer(api, "4.at_seconds", "30");
    assert_answer(api, "4.delay_seconds", "null");

    api_ok(api, "POST", "/api/v1/policies/simulate",
           "{\"policy\":{\"max_attempts\":5,\"jitter\":false},\"failures\":["
           "{\"message\":\"x\",\"http_status\":503,\"duration_ms\":1500},"
           "{\"message\":\"no\",\"http_status\":404},{\"message\":\"never reached\"}]}");
    assert_int_equal(api_count(api, ""), 2);
    assert_answer(api, "0.class", "unavailable");
    assert_answer(api, "0.at_seconds", "1.5");
    assert_answer(api, "1.class", "client_error");
    assert_answer(api, "1.action", "quarantine");
}

/* ---- evidence -------------------------------------------------------------------------------- */

static void the_evidence_of_a_job_is_listed_in_order(void **state)
{
    struct desk *api = *state;
    const char *dlq_id = api_dead(api, "\"job_id\":\"1\"", "{\"message\":\"timed out\"}");
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"2\"}");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/retry", dlq_id), "");
    api_ok(api, "GET", "/api/v1/audit?job_id=1", "");
    assert_int_equal(api_count(api, ""), 4);
    assert_answer(api, "0.what", "pushed");
    assert_answer(api, "0.actor", "test");
    assert_answer(api, "0.previous", "null");
    assert_answer(api, "1.what", "leased");
    assert_answer(api, "2.what", "dead-lettered");
    assert_answer(api, "2.previous", api_text(api, "1.seq"));
    assert_answer(api, "3.what", "requeued");
    assert_answer(api, "3.job_id", "1");
    struct slice mine = arena_dup(&api->arena, api->json.raw);
    api_ok(api, "GET", api_path(api, "/api/v1/audit?dlq_id=%s", dlq_id), "");
    assert_string_equal(api_text(api, ""), mine.ptr);
    api_ok(api, "GET", "/api/v1/audit?limit=2&after=1", "");
    assert_answer(api, "0.seq", "2");
    assert_int_equal(api_count(api, ""), 2);
    assert_int_equal(api->answer.cursor, 3);
}

static void the_chain_of_evidence_verifies(void **state)
{
    struct desk *api = *state;
    api_ok(api, "GET", "/api/v1/audit/head", "");
    assert_answer(api, "seq", "0");
    api_ok(api, "GET", "/api/v1/audit/verify", "");
    assert_answer(api, "ok", "true");
    assert_answer(api, "events", "0");
    for (int i = 0; i < 3; i++)
        api_ok(api, "POST", "/api/v1/jobs", "[{\"action\":\"a\"},{\"action\":\"b\"}]");
    api_ok(api, "GET", "/api/v1/audit/head", "");
    const char *hash = api_text(api, "hash");
    api_ok(api, "GET", "/api/v1/audit/verify", "");
    assert_answer(api, "ok", "true");
    assert_answer(api, "events", "6");
    assert_answer(api, "seq", "6");
    assert_answer(api, "hash", hash);
    api_ok(api, "GET", "/api/v1/audit/verify?after=4", "");
    assert_answer(api, "ok", "true");
    assert_answer(api, "events", "2");
}

/* tamper changes the store behind the engine's back. */
static void tamper(struct desk *api, const char *sql)
{
    char path[128];
    sqlite3 *db;
    engine_free(api->engine);
    snprintf(path, sizeof(path), "%s/lazaret.db", api->directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    api_open(api);
}

static void a_changed_or_missing_event_is_named(void **state)
{
    static const struct {
        const char *sql, *seq, *says;
    } cases[] = {
        {"UPDATE event SET actor = 'somebody else' WHERE seq = 4", "4", "changed"},
        {"UPDATE event SET at = at + 1 WHERE seq = 3", "3", "changed"},
        {"DELETE FROM event WHERE seq = 2", "2", "missing"},
    };
    struct desk *api = *state;
    for (int i = 0; i < 6; i++)
        api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\"}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tamper(api, cases[i].sql);
        assert_int_equal(api_get(api, "/api/v1/audit/verify"), 200);
        assert_answer(api, "ok", "false");
        assert_answer(api, "seq", cases[i].seq);
        assert_true(strstr(api_text(api, "error"), cases[i].says) != NULL);
    }
    api_ok(api, "GET", "/api/v1/audit/verify?after=4", "");
    assert_answer(api, "ok", "true");
}

static void the_status_adds_up(void **state)
{
    struct desk *api = *state;
    api_dead(api, "\"queue\":\"q\"", "{\"message\":\"timed out\"}");
    api_ok(api, "POST", "/api/v1/jobs", "[{\"action\":\"a\"},{\"action\":\"b\"}]");
    api_ok(api, "GET", "/api/v1/status", "");
    assert_answer(api, "live", "2");
    assert_answer(api, "states.pending", "2");
    assert_answer(api, "states.dead", "1");
    assert_answer(api, "audit_seq", "5");
    assert_answer(api, "letters.unrecovered", "1");
    assert_answer(api, "letters.by_reason.retries_exhausted", "1");
    assert_int_equal(api_count(api, "queues"), 2);
    assert_int_equal(api_count(api, "letters.groups"), 1);
    assert_int_equal(api_count(api, "letters.trend"), 24);
    assert_answer(api, "letters.trend.23.count", "1");
    assert_string_not_equal(api_text(api, "oldest_pending"), "null");
}

/* ---- exhausted memory ------------------------------------------------------------------------ */

static void a_failed_allocation_fails_one_request_and_no_more(void **state)
{
    static const struct {
        const char *method, *target, *body;
    } cases[] = {
        {"GET", "/api/v1/jobs/1", ""},
        {"GET", "/api/v1/jobs", ""},
        {"GET", "/api/v1/dlq", ""},
        {"GET", "/api/v1/dlq/stats", ""},
        {"GET", "/api/v1/dlq/groups", ""},
        {"GET", "/api/v1/dlq/analyze", ""},
        {"GET", "/api/v1/policies", ""},
        {"GET", "/api/v1/policies/map/explain", ""},
        {"GET", "/api/v1/audit", ""},
        {"GET", "/api/v1/audit/verify?after=1", ""},
        {"GET", "/api/v1/status", ""},
        {"POST", "/api/v1/jobs", "[{\"action\":\"a\",\"job_id\":\"1\"},7]"},
        {"POST", "/api/v1/results", "[{\"lease_id\":\"a\",\"status\":\"complete\"},7]"},
        {"POST", "/api/v1/dlq/retry", "{\"all\":true,\"filter\":\"item.n == 9\"}"},
        {"POST", "/api/v1/dlq/import", "[{\"receipt\":{\"n\":1},\"attempts\":1},7]"},
        {"POST", "/api/v1/policies/simulate",
         "{\"policy\":\"map\",\"failures\":[{\"message\":\"x\"}]}"},
    };
    struct desk *api = *state;
    api_dead(api, "", "{\"message\":\"timed out\"}");
    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"a\",\"job_id\":\"1\"}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned failed = 0;
        for (unsigned long n = 1; n <= 40; n++) {
            mem_fail_after(n);
            int status = api_send(api, cases[i].method, cases[i].target, slice_of(cases[i].body));
            mem_fail_after(0);
            if (status == 200)
                continue;
            failed++;
            if (status != 503 || strcmp(api_text(api, "code"), "no_memory") != 0)
                fail_msg("%s: allocation %lu: %d %s", cases[i].target, n, status,
                         buf_str(&api->answer.body));
        }
        assert_true(failed > 0);
        api_ok(api, cases[i].method, cases[i].target, cases[i].body);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wrong_request_says_what_is_wrong),
        TEST(a_trailing_slash_does_not_matter),
        TEST(ids_are_percent_decoded),
        TEST(a_push_is_answered_with_the_job),
        TEST(of_many_pushes_each_has_its_answer_in_its_place),
        TEST(more_than_ten_thousand_pushes_are_refused),
        cmocka_unit_test_setup_teardown(a_push_over_the_limit_says_when_to_try_again, setup_full,
                                        api_teardown),
        TEST(a_job_is_shown_with_its_attempts_and_its_envelope),
        TEST(jobs_are_listed_in_pages),
        TEST(a_pending_job_is_cancelled_and_a_running_one_told),
        TEST(a_lease_hands_over_the_job_byte_for_byte),
        TEST(a_released_job_is_ready_again),
        TEST(results_keep_what_the_worker_hands_back),
        TEST(a_result_for_a_lost_lease_changes_nothing),
        TEST(a_paused_queue_hands_out_nothing),
        TEST(presets_explain_themselves_as_the_contract_has_them),
        TEST(a_policy_that_was_read_can_be_put_back),
        TEST(a_simulation_decides_as_the_engine_would),
        TEST(the_evidence_of_a_job_is_listed_in_order),
        TEST(the_chain_of_evidence_verifies),
        TEST(a_changed_or_missing_event_is_named),
        TEST(the_status_adds_up),
        TEST(a_failed_allocation_fails_one_request_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
