/* GET /metrics without a server: what is printed of what was done. */
#include "engine/api_fixture.h"

#include "api/meter.h"

static int metrics_setup(void **state)
{
    int status = api_setup(state);
    if (status)
        return status;
    struct desk *api = *state;
    return (api->api.meter = meter_new()) ? 0 : -1;
}

static int metrics_teardown(void **state)
{
    struct desk *api = *state;
    meter_free(api->api.meter);
    return api_teardown(state);
}

/* scrape asks for /metrics in a role, and returns the status. */
static int scrape_as(struct desk *api, enum role role)
{
    struct api_request request = {.method = "GET", .path = SLICE("/metrics"), .role = role};
    api_call(&api->api, &request, &api->answer);
    return api->answer.status;
}

static const char *scrape(struct desk *api)
{
    assert_int_equal(scrape_as(api, ROLE_VIEWER), 200);
    return buf_str(&api->answer.body);
}

/* value is what the one sample with this name and labels says; -1: there is none. */
static double value(const char *text, const char *sample)
{
    double found = -1;
    size_t len = strlen(sample);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, sample, len) != 0 || line[len] != ' ')
            continue;
        assert_true(found < 0); /* it stands once */
        found = strtod(line + len + 1, NULL);
    }
    return found;
}

#define ASSERT_VALUE(text, sample, expected) assert_true(value(text, sample) == (expected))

static void push_to(struct desk *api, const char *queue, int count)
{
    char body[256];
    snprintf(body, sizeof(body),
             "{\"action\":\"a\",\"queue\":\"%s\",\"retry_policy\":{\"max_attempts\":1}}", queue);
    for (int i = 0; i < count; i++)
        assert_int_equal(api_post(api, "/api/v1/jobs", body), 201);
}

/* end_one leases a job of a queue and reports it: `failure` is NULL when it went well. */
static void end_one(struct desk *api, const char *queue, const char *failure)
{
    char body[512];
    struct json id;
    snprintf(body, sizeof(body), "{\"worker_id\":\"w\",\"queues\":[\"%s\"],\"count\":1}", queue);
    assert_int_equal(api_post(api, "/api/v1/leases", body), 200);
    assert_true(api_value(api, "leases.0.lease_id", &id));
    struct slice text = json_text(id, &api->arena);
    if (failure)
        snprintf(body, sizeof(body), "{\"lease_id\":\"%.*s\",\"status\":\"failed\",\"failure\":%s}",
                 SLICE_ARG(text), failure);
    else
        snprintf(body, sizeof(body), "{\"lease_id\":\"%.*s\",\"status\":\"complete\"}",
                 SLICE_ARG(text));
    assert_int_equal(api_post(api, "/api/v1/results", body), 200);
}

static void an_empty_station_has_every_family(void **state)
{
    static const char *const families[] = {
        "lazaret_jobs gauge",
        "lazaret_attempts_total counter",
        "lazaret_retries_scheduled_total counter",
        "lazaret_dead_letters gauge",
        "lazaret_dead_letters_total counter",
        "lazaret_oldest_seconds gauge",
        "lazaret_commit_seconds histogram",
        "lazaret_commit_batch_jobs histogram",
        "lazaret_lease_expired_total counter",
        "lazaret_breaker_state gauge",
        "lazaret_redrive_items gauge",
        "lazaret_http_requests_total counter",
        "lazaret_audit_seq gauge",
        "cognigate_receipts_total counter",
        "cognigate_receipt_retries_total counter",
        "cognigate_dead_letter_queue_size gauge",
    };
    struct desk *api = *state;
    const char *text = scrape(api);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "# TYPE %s\n", families[i]);
        if (!strstr(text, line))
            fail_msg("%s is missing", families[i]);
    }
    ASSERT_VALUE(text, "lazaret_audit_seq", 0);
    ASSERT_VALUE(text, "lazaret_live_jobs", 0);
    ASSERT_VALUE(text, "lazaret_commit_seconds_count", 0);
    assert_string_equal(api->answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_null(strstr(text, "\n\n"));
}

static void what_was_done_is_counted(void **state)
{
    struct desk *api = *state;
    push_to(api, "mail", 5);
    end_one(api, "mail", NULL);
    end_one(api, "mail", "{\"class\":\"invalid_input\",\"message\":\"no\"}");
    end_one(api, "mail", "{\"class\":\"timeout\",\"message\":\"slow\"}");
    const char *text = scrape(api);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"mail\",state=\"pending\"}", 2);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"mail\",state=\"running\"}", 0);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"mail\",state=\"done\"}", 1);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"mail\",state=\"dead\"}", 2);
    ASSERT_VALUE(text, "lazaret_live_jobs", 2);
    ASSERT_VALUE(text, "lazaret_attempts_total{queue=\"mail\",outcome=\"complete\"}", 1);
    ASSERT_VALUE(text, "lazaret_attempts_total{queue=\"mail\",outcome=\"failed\"}", 2);
    ASSERT_VALUE(text, "lazaret_attempts_total{queue=\"mail\",outcome=\"crashed\"}", 0);
    ASSERT_VALUE(text, "lazaret_dead_letters{reason=\"not_retryable\",state=\"dead\"}", 1);
    ASSERT_VALUE(text, "lazaret_dead_letters{reason=\"not_retryable\",state=\"recovered\"}", 0);
    ASSERT_VALUE(text, "lazaret_dead_letters{reason=\"retries_exhausted\",state=\"dead\"}", 1);
    ASSERT_VALUE(text, "lazaret_dead_letters_total{reason=\"not_retryable\",source=\"lazaret\"}",
                 1);
    ASSERT_VALUE(text, "lazaret_commit_batch_jobs_sum", 5 + 3 + 3);
    ASSERT_VALUE(text, "lazaret_commit_failed_total", 0);
    assert_true(value(text, "lazaret_oldest_seconds{queue=\"mail\",state=\"pending\"}") > 0);
    assert_true(value(text, "lazaret_oldest_seconds{queue=\"mail\",state=\"dead\"}") > 0);
    assert_true(value(text, "lazaret_audit_seq") >= 11);
    assert_true(value(text, "process_resident_memory_bytes") > 0);
}

static void open_receipts_are_the_size_of_their_queue(void **state)
{
    struct desk *api = *state;
    assert_int_equal(api_post(api, "/api/v1/dlq/import",
                              "[{\"receipt\":{\"lease_id\":\"1\",\"status\":\"failed\",\"task_id\":"
                              "\"1\",\"worker_id\":\"w\"},"
                              "\"failed_at\":\"2026-01-01T00:00:00Z\",\"attempts\":5},"
                              "{\"receipt\":{\"lease_id\":\"2\",\"status\":\"failed\",\"task_id\":"
                              "\"2\",\"worker_id\":\"w\"},"
                              "\"failed_at\":\"2026-01-01T00:00:00Z\",\"attempts\":5}]"),
                     200);
    push_to(api, "mail", 1);
    end_one(api, "mail", "{\"message\":\"no receipt\"}");
    ASSERT_VALUE(scrape(api), "cognigate_dead_letter_queue_size", 2);
    ASSERT_VALUE(scrape(api), "cognigate_receipt_retries_total", 0);
    assert_int_equal(api_get(api, "/api/v1/dlq?source=receipts&limit=1"), 200);
    struct json id;
    char path[256];
    assert_true(api_value(api, "0.dlq_id", &id));
    struct slice text = json_text(id, &api->arena);
    snprintf(path, sizeof(path), "/api/v1/dlq/%.*s/discard", SLICE_ARG(text));
    assert_int_equal(api_post(api, path, ""), 200);
    ASSERT_VALUE(scrape(api), "cognigate_dead_letter_queue_size", 1);
}

static void names_from_outside_are_escaped_and_cut(void **state)
{
    struct desk *api = *state;
    char failure[512], sample[512];
    snprintf(failure, sizeof(failure), "{\"message\":\"m\",\"reason\":\"a\\\\b\\\"c%0200d\"}", 0);
    push_to(api, "mail", 1);
    end_one(api, "mail", failure);
    snprintf(sample, sizeof(sample),
             "lazaret_dead_letters{reason=\"a\\\\b\\\"c%0123d\",state=\"dead\"}", 0);
    ASSERT_VALUE(scrape(api), sample, 1);
    snprintf(sample, sizeof(sample),
             "lazaret_dead_letters_total{reason=\"a\\\\b\\\"c%0123d\",source=\"lazaret\"}", 0);
    ASSERT_VALUE(scrape(api), sample, 1);
}

static void a_queue_that_is_called_other_stands_once(void **state)
{
    struct desk *api = *state;
    push_to(api, "other", 2);
    push_to(api, "mail", 1);
    end_one(api, "other", "{\"message\":\"m\",\"reason\":\"other\"}");
    const char *text = scrape(api);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"other\",state=\"pending\"}", 1);
    ASSERT_VALUE(text, "lazaret_attempts_total{queue=\"other\",outcome=\"failed\"}", 1);
    ASSERT_VALUE(text, "lazaret_dead_letters{reason=\"other\",state=\"dead\"}", 1);
}

static void past_the_limit_queues_are_added_up(void **state)
{
    struct desk *api = *state;
    struct buf body;
    buf_init(&body, 1 << 20);
    for (int i = 0; i < NUMBERS_NAMES_MAX + 3; i++)
        buf_addf(&body, "%c{\"action\":\"a\",\"queue\":\"q%d\"}", i ? ',' : '[', i);
    buf_add_char(&body, ']');
    push_to(api, "other", 1); /* one that has this name is added to them */
    assert_int_equal(api_send(api, "POST", "/api/v1/jobs", buf_slice(&body)), 200);
    buf_release(&body);
    const char *text = scrape(api);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"q0\",state=\"pending\"}", 1);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"other\",state=\"pending\"}", 1 + 4);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"q998\",state=\"pending\"}", 1);
    ASSERT_VALUE(text, "lazaret_jobs{queue=\"q999\",state=\"pending\"}", -1);
}

static void requests_are_shown_by_pattern_and_status(void **state)
{
    struct desk *api = *state;
    struct meter *meter = api->api.meter;
    meter_request(meter, api_route_find("GET", SLICE("/api/v1/jobs")), 200, span_ms(2));
    meter_request(meter, api_route_find("POST", SLICE("/api/v1/jobs")), 200, span_ms(2));
    meter_request(meter, api_route_find("POST", SLICE("/api/v1/jobs")), 201, span_ms(2));
    meter_request(meter, api_route_find("GET", SLICE("/api/v1/jobs/x")), 404, span_ms(40000));
    meter_request(meter, api_route_find("GET", SLICE("/nowhere")), 404, span_ms(2));
    meter_connections(meter, 3);
    meter_streams(meter, 1);
    const char *text = scrape(api);
    ASSERT_VALUE(text, "lazaret_http_requests_total{route=\"/api/v1/jobs\",status=\"200\"}", 2);
    ASSERT_VALUE(text, "lazaret_http_requests_total{route=\"/api/v1/jobs\",status=\"201\"}", 1);
    ASSERT_VALUE(text, "lazaret_http_requests_total{route=\"/api/v1/jobs/{id}\",status=\"404\"}",
                 1);
    ASSERT_VALUE(text, "lazaret_http_requests_total{route=\"none\",status=\"404\"}", 1);
    ASSERT_VALUE(text, "lazaret_http_request_seconds_bucket{le=\"0.0025\"}", 4);
    ASSERT_VALUE(text, "lazaret_http_request_seconds_bucket{le=\"30\"}", 4);
    ASSERT_VALUE(text, "lazaret_http_request_seconds_bucket{le=\"+Inf\"}", 5);
    ASSERT_VALUE(text, "lazaret_http_request_seconds_count", 5);
    ASSERT_VALUE(text, "lazaret_http_connections", 3);
    ASSERT_VALUE(text, "lazaret_event_streams", 1);
}

static void without_a_carrier_its_numbers_are_left_out(void **state)
{
    struct desk *api = *state;
    meter_free(api->api.meter);
    api->api.meter = NULL;
    const char *text = scrape(api);
    assert_null(strstr(text, "lazaret_http"));
    ASSERT_VALUE(text, "lazaret_live_jobs", 0);
}

static void a_stranger_sees_nothing(void **state)
{
    struct desk *api = *state;
    assert_int_equal(scrape_as(api, ROLE_NONE), 401);
    assert_null(strstr(buf_str(&api->answer.body), "lazaret_"));
    assert_null(api->answer.content_type);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, metrics_setup, metrics_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_station_has_every_family),
        TEST(what_was_done_is_counted),
        TEST(open_receipts_are_the_size_of_their_queue),
        TEST(names_from_outside_are_escaped_and_cut),
        TEST(a_queue_that_is_called_other_stands_once),
        TEST(past_the_limit_queues_are_added_up),
        TEST(requests_are_shown_by_pattern_and_status),
        TEST(without_a_carrier_its_numbers_are_left_out),
        TEST(a_stranger_sees_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
