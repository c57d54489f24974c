/* What askers below reviewer are shown when redaction rules are set, and what they may not ask. */
#include "engine/api_fixture.h"

#define CARD "4111111111111111"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int masked_setup(void **state)
{
    static const struct slice rules[] = {
        {"/inputs/card", 12}, {"/inputs/*/pin", 13}, {"/failure/artifacts/error_logs", 29}};
    if (api_setup(state) != 0)
        return -1;
    struct desk *api = *state;
    return redaction_parse(rules, COUNT(rules), &api->arena, &api->api.redaction, NULL);
}

/* seen is the last answer, whole. */
static const char *seen(struct desk *api)
{
    return buf_str(&api->answer.body);
}

/* get asks as somebody. */
static void get(struct desk *api, enum role role, const char *target)
{
    api->role = role;
    api_ok(api, "GET", target, "");
    api->role = ROLE_NONE;
}

/* refused expects that an asker is refused, and why. */
static void refused(struct desk *api, enum role role, const char *method, const char *target,
                    const char *body, const char *why)
{
    api->role = role;
    assert_int_equal(api_send(api, method, target, slice_of(body)), 403);
    api->role = ROLE_NONE;
    if (!strstr(api_text(api, "error"), why))
        fail_msg("%s", api_text(api, "error"));
}

static const char *dead_with_card(struct desk *api)
{
    return api_dead(api,
                    "\"job_id\":\"pay-1\",\"inputs\":{\"card\":\"" CARD
                    "\",\"sum\":7,\"owner\":{\"pin\":987654,\"name\":\"ada\"}}",
                    "{\"class\":\"timeout\",\"message\":\"card " CARD " was declined\","
                    "\"stack_trace\":\"pay(" CARD ", 987654)\",\"error_context\":[\"pin=987654\"],"
                    "\"artifacts\":{\"error_logs\":\"dump\",\"worktree_path\":\"/w\"}}");
}

static void a_letter_is_masked_below_reviewer(void **state)
{
    struct desk *api = *state;
    const char *path = api_path(api, "/api/v1/dlq/%s", dead_with_card(api));
    static const enum role below[] = {ROLE_VIEWER, ROLE_WORKER, ROLE_OPERATOR};

    for (size_t i = 0; i < COUNT(below); i++) {
        get(api, below[i], path);
        assert_null(strstr(seen(api), CARD));
        assert_null(strstr(seen(api), "987654"));
        assert_null(strstr(seen(api), "dump"));
        assert_answer(api, "envelope.inputs.card", "[redacted]");
        assert_answer(api, "envelope.inputs.sum", "7");
        assert_answer(api, "envelope.inputs.owner.name", "ada");
        assert_answer(api, "original_payload.inputs.owner.pin", "[redacted]");
        assert_answer(api, "item_data.card", "[redacted]");
        assert_answer(api, "retry_history.0.failure_reason", "card [redacted] was declined");
        assert_answer(api, "failure_history.0.stack_trace", "pay([redacted], [redacted])");
        assert_answer(api, "failure_history.0.error_context.0", "pin=[redacted]");
        assert_answer(api, "failure_history.0.artifacts.error_logs", "[redacted]");
        assert_answer(api, "worktree_artifacts.error_logs", "[redacted]");
        assert_answer(api, "worktree_artifacts.worktree_path", "/w");
    }
}

static void a_reviewer_sees_everything(void **state)
{
    struct desk *api = *state;
    const char *path = api_path(api, "/api/v1/dlq/%s", dead_with_card(api));

    get(api, ROLE_REVIEWER, path);
    assert_answer(api, "envelope.inputs.card", CARD);
    assert_answer(api, "failure_history.0.stack_trace", "pay(" CARD ", 987654)");
    assert_answer(api, "worktree_artifacts.error_logs", "dump");
    assert_null(strstr(seen(api), "[redacted]"));
}

static void without_rules_everybody_sees_everything(void **state)
{
    struct desk *api = *state;
    const char *path = api_path(api, "/api/v1/dlq/%s", dead_with_card(api));

    api->api.redaction = NULL;
    get(api, ROLE_VIEWER, path);
    assert_answer(api, "envelope.inputs.card", CARD);
    get(api, ROLE_VIEWER, "/api/v1/dlq?q=declined");
    assert_int_equal(api_count(api, ""), 1);
}

static void a_list_is_masked_too(void **state)
{
    struct desk *api = *state;

    dead_with_card(api);
    get(api, ROLE_VIEWER, "/api/v1/dlq");
    assert_int_equal(api_count(api, ""), 1);
    assert_null(strstr(seen(api), CARD));
    assert_answer(api, "0.item_data.owner.pin", "[redacted]");
}

static void a_job_is_masked_with_its_result_and_its_earlier_envelopes(void **state)
{
    struct desk *api = *state;
    const char *dlq_id = dead_with_card(api);

    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/retry", dlq_id),
           "{\"merge\":{\"inputs\":{\"card\":\"5500000000000004\"}}}");
    api_result(
        api, api_lease(api),
        "\"status\":\"complete\",\"result\":{\"paid_with\":\"5500000000000004\",\"not\":\"" CARD
        "\"}");
    get(api, ROLE_VIEWER, "/api/v1/jobs/pay-1");
    assert_null(strstr(seen(api), CARD));
    assert_null(strstr(seen(api), "5500000000000004"));
    assert_answer(api, "result.paid_with", "[redacted]");
    assert_answer(api, "envelope.inputs.card", "[redacted]");
    assert_answer(api, "previous_envelopes.0.inputs.card", "[redacted]");
    assert_answer(api, "attempts.0.error_message", "card [redacted] was declined");
    get(api, ROLE_REVIEWER, "/api/v1/jobs/pay-1");
    assert_answer(api, "previous_envelopes.0.inputs.card", CARD);
    assert_answer(api, "result.paid_with", "5500000000000004");
}

static void a_worker_leases_the_payload_as_it_is(void **state)
{
    struct desk *api = *state;

    api_ok(api, "POST", "/api/v1/jobs", "{\"action\":\"pay\",\"inputs\":{\"card\":\"" CARD "\"}}");
    api->role = ROLE_WORKER;
    api_lease(api);
    api->role = ROLE_NONE;
    assert_answer(api, "leases.0.job.inputs.card", CARD);
}

static void a_payload_that_is_no_json_is_masked_whole(void **state)
{
    struct desk *api = *state;

    api_ok(
        api, "POST", "/api/v1/dlq/import",
        "{\"dlq_id\":\"t\",\"original_subject\":\"s\",\"original_payload\":\"plain secret text\","
        "\"payload_encoding\":\"text\",\"reason\":\"r\",\"reason_detail\":\"got plain secret "
        "text\",\"failed_at\":\"2026-01-01T00:00:00Z\"}");
    get(api, ROLE_VIEWER, "/api/v1/dlq/t");
    assert_null(strstr(seen(api), "secret"));
    assert_answer(api, "original_payload", "[redacted]");
    assert_answer(api, "item_data", "[redacted]");
    assert_answer(api, "reason_detail", "got [redacted]");
    assert_answer(api, "payload_encoding", "(nothing)");
    get(api, ROLE_ADMIN, "/api/v1/dlq/t");
    assert_answer(api, "original_payload", "plain secret text");
}

static void signatures_are_masked_wherever_they_stand(void **state)
{
    struct desk *api = *state;
    static const char *const targets[] = {"/api/v1/dlq", "/api/v1/dlq/groups",
                                          "/api/v1/dlq/analyze", "/api/v1/status"};

    api_dead(api, "\"inputs\":{\"card\":\"lovelace\"}",
             "{\"class\":\"invalid_input\",\"message\":\"unknown customer lovelace in ledger\"}");
    for (size_t i = 0; i < COUNT(targets); i++) {
        get(api, ROLE_ADMIN, targets[i]);
        assert_non_null(strstr(seen(api), "unknown customer lovelace"));
        get(api, ROLE_OPERATOR, targets[i]);
        assert_null(strstr(seen(api), "lovelace"));
        assert_non_null(strstr(seen(api), "unknown customer [redacted]"));
    }
    get(api, ROLE_VIEWER, "/api/v1/dlq/groups");
    get(api, ROLE_VIEWER, api_path(api, "/api/v1/dlq/groups/%s", api_text(api, "0.fingerprint")));
    assert_null(strstr(seen(api), "lovelace"));
}

static void searching_in_payloads_is_for_reviewers(void **state)
{
    struct desk *api = *state;

    dead_with_card(api);
    refused(api, ROLE_OPERATOR, "GET", "/api/v1/dlq?q=" CARD, "", "q: searching in payloads");
    refused(api, ROLE_OPERATOR, "POST", "/api/v1/dlq/retry",
            "{\"all\":true,\"filter\":\"reason == 'x' && !(item.card contains '4')\"}",
            "filter: searching in payloads");
    refused(api, ROLE_VIEWER, "GET", "/api/v1/dlq?filter=item.card%20contains%20'4'", "",
            "filter: searching in payloads");
    refused(api, ROLE_OPERATOR, "GET", "/api/v1/dlq?filter=!(error_signature%20%3E%20'b')", "",
            "filter: searching in payloads");
    get(api, ROLE_VIEWER, "/api/v1/dlq?filter=failure_count%20==%201");
    assert_int_equal(api_count(api, ""), 1);
    assert_null(strstr(seen(api), CARD));
    get(api, ROLE_REVIEWER, "/api/v1/dlq?filter=item.card%20==%20'" CARD "'");
    assert_int_equal(api_count(api, ""), 1);
    get(api, ROLE_REVIEWER, "/api/v1/dlq?q=" CARD);
    assert_int_equal(api_count(api, ""), 1);
    api->role = ROLE_OPERATOR;
    api_ok(api, "POST", "/api/v1/dlq/retry", "{\"all\":true,\"filter\":\"reason == 'x'\"}");
    api->role = ROLE_REVIEWER;
    api_ok(api, "POST", "/api/v1/dlq/retry", "{\"all\":true,\"filter\":\"item.card == 'x'\"}");
    assert_answer(api, "total", "0");
}

static void a_patch_does_not_bring_out_what_is_masked(void **state)
{
    struct desk *api = *state;
    static const char *const patches[] = {
        "[{\"op\":\"test\",\"path\":\"/inputs/card\",\"value\":\"x\"}]",
        "[{\"op\":\"copy\",\"from\":\"/inputs/card\",\"path\":\"/inputs/sum\"}]",
        "[{\"op\":\"move\",\"from\":\"/inputs\",\"path\":\"/other\"}]",
        "[{\"op\":\"copy\",\"from\":\"/inputs/owner/pin\",\"path\":\"/x\"}]",
        "[{\"op\":\"add\",\"path\":\"/"
        "x\",\"value\":1},{\"\\u006fp\":\"copy\",\"from\":\"\",\"path\":\"/x\"}]",
    };
    const char *path = api_path(api, "/api/v1/dlq/%s/retry", dead_with_card(api));

    for (size_t i = 0; i < COUNT(patches); i++) {
        struct slice body = arena_printf(&api->arena, "{\"patch\":%s}", patches[i]);
        refused(api, ROLE_OPERATOR, "POST", path, body.ptr, "is redacted: only a reviewer may");
    }
    api->role = ROLE_OPERATOR;
    api_ok(api, "POST", path,
           "{\"patch\":[{\"op\":\"copy\",\"from\":\"/action\",\"path\":\"/inputs/total\"},"
           "{\"op\":\"replace\",\"path\":\"/inputs/card\",\"value\":\"0\"}]}");
    api->role = ROLE_NONE;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, masked_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_letter_is_masked_below_reviewer),
        TEST(a_reviewer_sees_everything),
        TEST(without_rules_everybody_sees_everything),
        TEST(a_list_is_masked_too),
        TEST(a_job_is_masked_with_its_result_and_its_earlier_envelopes),
        TEST(a_worker_leases_the_payload_as_it_is),
        TEST(a_payload_that_is_no_json_is_masked_whole),
        TEST(signatures_are_masked_wherever_they_stand),
        TEST(searching_in_payloads_is_for_reviewers),
        TEST(a_patch_does_not_bring_out_what_is_masked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
