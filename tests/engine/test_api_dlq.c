/* The quarantine as a caller sees it: the swarm's shapes, review, bulk work, groups, import. */
#include "engine/api_fixture.h"

#define TIMEOUT "{\"message\":\"connection timed out after 30 s\",\"class\":\"timeout\"}"
#define DENIED "{\"message\":\"not yours\",\"class\":\"permission_denied\"}"

static const char *letter_path(struct desk *api, const char *dlq_id)
{
    return api_path(api, "/api/v1/dlq/%s", dlq_id);
}

/* assert_state reads a letter again and checks its state. */
static void assert_state(struct desk *api, const char *dlq_id, const char *expected)
{
    api_ok(api, "GET", letter_path(api, dlq_id), "");
    assert_answer(api, "state", expected);
}

/* ---- look and list --------------------------------------------------------------------------- */

static void a_letter_has_the_names_of_the_contract_in_its_order(void **state)
{
    static const char *const names[] = {"dlq_id",
                                        "original_subject",
                                        "original_payload",
                                        "reason",
                                        "reason_detail",
                                        "failed_at",
                                        "retry_count",
                                        "max_retries",
                                        "retry_history",
                                        "source",
                                        "recoverable",
                                        "recovered",
                                        "state",
                                        "job_id",
                                        "queue",
                                        "trace_id",
                                        "item_id",
                                        "item_data",
                                        "first_attempt",
                                        "last_attempt",
                                        "failure_count",
                                        "failure_history",
                                        "error_signature",
                                        "fingerprint",
                                        "reprocess_eligible",
                                        "manual_review_required",
                                        "worktree_artifacts",
                                        "escalated",
                                        "replay_safety",
                                        "redrive_count",
                                        "envelope"};
    struct desk *api = *state;
    const char *dlq_id = api_dead(api,
                                  "\"job_id\":\"j\",\"queue\":\"mail\",\"trace_id\":\"t\","
                                  "\"inputs\":{\"to\": \"ada\"}",
                                  TIMEOUT);
    api_ok(api, "GET", letter_path(api, dlq_id), "");
    struct json_iter iter;
    struct json key, value;
    size_t n = 0;
    json_iter_init(&iter, api->json);
    for (; json_next(&iter, &key, &value); n++) {
        assert_true(n < sizeof(names) / sizeof(names[0]));
        assert_true(json_string_is(key, names[n]));
    }
    assert_int_equal(n, sizeof(names) / sizeof(names[0]));
    assert_answer(api, "original_subject", "jobs.mail");
    assert_answer(api, "original_payload", api_text(api, "envelope"));
    assert_answer(api, "reason", "retries_exhausted");
    assert_answer(api, "retry_count", "1");
    assert_answer(api, "max_retries", "1");
    assert_answer(api, "retry_history.0.attempt", "1");
    assert_answer(api, "retry_history.0.agent", "w1");
    assert_answer(api, "retry_history.0.failure_reason", "connection timed out after 30 s");
    assert_answer(api, "retry_history.0.attempted_at", api_text(api, "failed_at"));
    assert_answer(api, "source", "lazaret");
    assert_answer(api, "recoverable", "true");
    assert_answer(api, "recovered", "false");
    assert_answer(api, "item_data", "{\"to\": \"ada\"}");
    assert_answer(api, "failure_history.0.error_message", "connection timed out after 30 s");
    assert_answer(api, "failure_history.0.decision.action", "quarantine");
    assert_answer(api, "reprocess_eligible", "true");
    assert_answer(api, "manual_review_required", "false");
}

static void an_unknown_letter_is_the_swarms_404(void **state)
{
    static const char *const posts[] = {"retry", "discard", "rollback", "escalate", "restore"};
    struct desk *api = *state;
    const char *expected = "{\"error\":\"dlq entry not found\",\"code\":\"not_found\"}\n";
    assert_int_equal(api_get(api, "/api/v1/dlq/nobody"), 404);
    assert_string_equal(buf_str(&api->answer.body), expected);
    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        char target[64];
        snprintf(target, sizeof(target), "/api/v1/dlq/nobody/%s", posts[i]);
        assert_int_equal(api_post(api, target, ""), 404);
        assert_string_equal(buf_str(&api->answer.body), expected);
    }
}

static void letters_are_filtered_and_paged(void **state)
{
    static const struct {
        const char *query;
        size_t count;
    } cases[] = {
        {"", 3},
        {"?recovered=false", 3},
        {"?recovered=true", 0},
        {"?recovered=", 3},
        {"?reason=retries_exhausted", 2},
        {"?reason=not_retryable", 1},
        {"?source=lazaret&queue=mail", 1},
        {"?state=dead&eligible=true", 2},
        {"?state=open", 3},
        {"?recoverable=false", 1},
        {"?job_id=b", 1},
        {"?job_id=run-7", 2},
        {"?q=timed+out", 2},
        {"?q=not%20yours", 1},
        {"?after=2100-01-01T00:00:00Z", 0},
        {"?before=2100-01-01T00:00:00Z&attempts_min=1", 3},
        {"?attempts_min=2", 0},
        {"?agent=w1&limit=1000", 3},
        {"?trace_id=nothing", 0},
    };
    struct desk *api = *state;
    api_dead(api, "\"job_id\":\"a\",\"queue\":\"mail\",\"run_id\":\"run-7\"", TIMEOUT);
    api_dead(api, "\"job_id\":\"b\",\"run_id\":\"run-7\"", TIMEOUT);
    api_dead(api, "\"job_id\":\"c\"", DENIED);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char target[128];
        snprintf(target, sizeof(target), "/api/v1/dlq%s", cases[i].query);
        api_ok(api, "GET", target, "");
        if (api_count(api, "") != cases[i].count)
            fail_msg("%s: expected %zu letters, not %zu", target, cases[i].count,
                     api_count(api, ""));
    }
    api_ok(api, "GET", "/api/v1/dlq?limit=2", "");
    assert_answer(api, "0.job_id", "c");
    assert_answer(api, "1.job_id", "b");
    char target[128];
    snprintf(target, sizeof(target), "/api/v1/dlq?limit=2&cursor=%lld",
             (long long)api->answer.cursor);
    api_ok(api, "GET", target, "");
    assert_int_equal(api_count(api, ""), 1);
    assert_answer(api, "0.job_id", "a");
    assert_int_equal(api->answer.cursor, 0);
    api_ok(api, "GET", "/api/v1/dlq?sort=oldest", "");
    assert_answer(api, "0.job_id", "a");
}

/* import_items takes in a run of items {"n":0}, {"n":1}, ...; each died a second after the other.
 */
static void import_items(struct desk *api, int count)
{
    struct buf body;
    buf_init(&body, 1 << 22);
    api->content_type = "application/x-ndjson";
    for (int i = 0; i < count; i++) {
        buf_addf(&body,
                 "{\"item_id\":\"i%04d\",\"item_data\":{\"n\":%d},\"reprocess_eligible\":true,"
                 "\"manual_review_required\":false,"
                 "\"last_attempt\":\"2026-01-01T%02d:%02d:%02dZ\"}\n",
                 i, i, i / 3600, i / 60 % 60, i % 60);
        if (i % 1000 != 999 && i + 1 < count)
            continue;
        assert_int_equal(api_send(api, "POST", "/api/v1/dlq/import?job_id=r", buf_slice(&body)),
                         200);
        buf_clear(&body);
    }
    buf_release(&body);
    api->content_type = NULL;
}

/* pages_of walks over all pages and checks that they are the items from `first` on, each `step`
 * away from the one before.  It returns how many pages there were. */
static int pages_of(struct desk *api, const char *query, int first, int step, int count)
{
    struct json_iter iter;
    struct json letter, item;
    int64_t cursor = 0, n;
    int pages = 0, seen = 0;
    do {
        struct slice target =
            arena_printf(&api->arena, "/api/v1/dlq?%s&cursor=%lld", query, (long long)cursor);
        api_ok(api, "GET", target.ptr, "");
        cursor = api->answer.cursor;
        pages++;
        json_iter_init(&iter, api->json);
        for (; json_next(&iter, NULL, &letter); seen++) {
            assert_true(json_get(letter, "item_data", &item) && json_get(item, "n", &item));
            assert_true(json_int(item, &n));
            assert_int_equal(n, first + seen * step);
        }
    } while (cursor != 0);
    assert_int_equal(seen, count);
    return pages;
}

static void an_expression_goes_over_what_it_is_not_true_for(void **state)
{
    struct desk *api = *state;
    import_items(api, 5203);
    /* item.n < 100: the last ones, after more letters than one request looks at. */
    assert_int_equal(pages_of(api, "limit=30&filter=item.n%20%3C%20100", 99, -1, 100), 5);
    assert_int_equal(pages_of(api, "limit=50&sort=oldest&filter=item.n%20%3C%20100", 0, 1, 100), 3);
    /* A page that is just full, with nothing after it that the request can see. */
    assert_int_equal(pages_of(api, "limit=10&job_id=r&filter=item.n%20%3E=%205193", 5202, -1, 10),
                     2);
    assert_int_equal(pages_of(api, "limit=1000&filter=item.n==5000", 5000, 1, 1), 2);
    assert_int_equal(pages_of(api, "filter=item.n==5203", 0, 1, 0), 2);
    assert_int_equal(
        pages_of(api, "limit=1000&q=i0007&filter=reason%20!=%20'x'%20%26%26%20!(item.n%20==%208)",
                 7, 1, 1),
        1);
    assert_int_equal(pages_of(api, "limit=1000&filter=reprocess_eligible", 5202, -1, 5203), 6);
}

static void a_wrong_expression_lists_nothing(void **state)
{
    struct desk *api = *state;
    api_dead(api, "", TIMEOUT);
    assert_int_equal(api_get(api, "/api/v1/dlq?filter=item.n%20%3D%201"), 400);
    if (strncmp(api_text(api, "error"), "filter: ", 8) != 0)
        fail_msg("%s", api_text(api, "error"));
    assert_int_equal(api_get(api, "/api/v1/dlq?filter=%20"), 400);
    api_ok(api, "GET", "/api/v1/dlq?filter=error_signature%20contains%20'timed%20out'", "");
    assert_int_equal(api_count(api, ""), 1);
    assert_answer(api, "0.failure_history.0.error_message", "connection timed out after 30 s");
}

static void ids_can_be_found_by_their_beginning(void **state)
{
    struct desk *api = *state;
    const char *dlq_id = api_dead(api, "", TIMEOUT);
    char target[96];
    snprintf(target, sizeof(target), "/api/v1/dlq/like?prefix=%.8s", dlq_id);
    api_ok(api, "GET", target, "");
    assert_answer(api, "dlq_ids.0", dlq_id);
    api_ok(api, "GET", "/api/v1/dlq/like?prefix=zz", "");
    assert_int_equal(api_count(api, "dlq_ids"), 0);
}

static void stats_count_the_unrecovered(void **state)
{
    struct desk *api = *state;
    const char *one = api_dead(api, "\"queue\":\"mail\"", TIMEOUT);
    const char *two = api_dead(api, "", TIMEOUT);
    api_dead(api, "", DENIED);
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/retry", one), "");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/discard", two), "");
    api_ok(api, "GET", "/api/v1/dlq/stats", "");
    assert_answer(api, "total", "3");
    assert_answer(api, "unrecovered", "1");
    assert_answer(api, "recoverable", "0");
    assert_answer(api, "by_reason", "{\"not_retryable\":1}");
    assert_answer(api, "by_source", "{\"lazaret\":1}");
    assert_answer(api, "discarded", "1");
    assert_answer(api, "by_state.recovered", "1");
    assert_answer(api, "by_queue", "{\"default\":1}");
    assert_string_not_equal(api_text(api, "oldest"), "null");
}

/* ---- review ---------------------------------------------------------------------------------- */

static void a_retried_letter_is_recovered_and_its_job_lives(void **state)
{
    struct desk *api = *state;
    const char *dlq_id = api_dead(api, "\"job_id\":\"j\"", DENIED);
    const char *retry = api_path(api, "/api/v1/dlq/%s/retry", dlq_id);
    api_ok(api, "POST", retry, "");
    struct slice expected =
        arena_printf(&api->arena, "{\"status\":\"retried\",\"dlq_id\":\"%s\"}\n", dlq_id);
    assert_string_equal(buf_str(&api->answer.body), expected.ptr);
    assert_state(api, dlq_id, "recovered");
    assert_answer(api, "recovered", "true");
    assert_answer(api, "recovered_by", "api-retry");
    assert_string_not_equal(api_text(api, "recovered_at"), "(nothing)");
    assert_int_equal(api_post(api, retry, ""), 409);
    assert_answer(api, "error", "already recovered");
    api_ok(api, "GET", "/api/v1/jobs/j", "");
    assert_answer(api, "state", "pending");
    assert_answer(api, "redrive_count", "1");
}

static void a_retry_may_edit_the_job(void **state)
{
    struct desk *api = *state;
    const char *dlq_id = api_dead(api, "\"job_id\":\"j\",\"inputs\":{\"to\":\"ada\"}", DENIED);
    const char *retry = api_path(api, "/api/v1/dlq/%s/retry", dlq_id);
    assert_int_equal(api_post(api, retry, "{\"patch\":{}}"), 400);
    assert_true(strstr(api_text(api, "error"), "patch: must be an array") != NULL);
    assert_int_equal(api_post(api, retry, "{\"patches\":[]}"), 400);
    assert_true(strstr(api_text(api, "error"), "patches: unknown member") != NULL);
    assert_int_equal(
        api_post(api, retry, "{\"patch\":[{\"op\":\"remove\",\"path\":\"/inputs/no\"}]}"), 400);
    assert_state(api, dlq_id, "dead");
    api_ok(
        api, "POST", retry,
        "{\"actor\":\"human:ada\",\"note\":\"wrong address\",\"queue\":\"slow\",\"policy\":\"map\","
        "\"patch\":[{\"op\":\"replace\",\"path\":\"/inputs/to\",\"value\":\"bob\"}],"
        "\"merge\":{\"priority\":9}}");
    api_lease(api);
    assert_answer(api, "leases.0.queue", "slow");
    assert_answer(api, "leases.0.job.inputs.to", "bob");
    assert_answer(api, "leases.0.job.priority", "9");
    assert_answer(api, "leases.0.job.retry_policy", "map");
    api_ok(api, "GET", letter_path(api, dlq_id), "");
    assert_answer(api, "recovered_by", "human:ada");
    api_ok(api, "GET", "/api/v1/audit?job_id=j&after=3", "");
    assert_answer(api, "0.what", "requeued");
    assert_answer(api, "0.actor", "human:ada");
    assert_answer(api, "0.why.note", "wrong address");
}

static void a_discarded_letter_must_be_restored_first(void **state)
{
    struct desk *api = *state;
    const char *dlq_id = api_dead(api, "", TIMEOUT);
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/discard", dlq_id), "{\"note\":\"junk\"}");
    assert_answer(api, "status", "discarded");
    assert_state(api, dlq_id, "discarded");
    assert_answer(api, "recovered", "false");
    assert_int_equal(api_post(api, api_path(api, "/api/v1/dlq/%s/retry", dlq_id), ""), 409);
    assert_true(strstr(api_text(api, "error"), "restore it first") != NULL);
    assert_int_equal(
        api_post(api, api_path(api, "/api/v1/dlq/%s/discard", dlq_id), "{\"patch\":[]}"), 400);
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/restore", dlq_id), "");
    assert_answer(api, "status", "restored");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/escalate", dlq_id), "");
    assert_answer(api, "status", "escalated");
    assert_state(api, dlq_id, "dead");
    assert_answer(api, "escalated", "true");
    assert_answer(api, "recoverable", "false");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/rollback", dlq_id), "");
    assert_answer(api, "status", "rolled_back");
}

/* ---- many letters ---------------------------------------------------------------------------- */

static void retry_all_takes_what_a_machine_may_replay(void **state)
{
    struct desk *api = *state;
    const char *one = api_dead(api, "", TIMEOUT);
    const char *two = api_dead(api, "", TIMEOUT);
    const char *denied = api_dead(api, "", DENIED);
    api_ok(api, "POST", "/api/v1/dlq/import",
           "{\"dlq_id\":\"old\",\"original_subject\":\"s\",\"original_payload\":{},"
           "\"recoverable\":true,\"failed_at\":\"2020-01-01T00:00:00Z\"}");
    api_ok(api, "POST", "/api/v1/dlq/retry-all", "");
    assert_string_equal(buf_str(&api->answer.body), "{\"retried\":2,\"failed\":0,\"total\":2}\n");
    assert_state(api, one, "recovered");
    assert_answer(api, "recovered_by", "api-retry-all");
    assert_state(api, two, "recovered");
    assert_state(api, denied, "dead");
    assert_state(api, "old", "dead");
    api_ok(api, "POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"count\":2}");
    api_ok(api, "POST", "/api/v1/dlq/retry-all", "");
    assert_answer(api, "total", "0");
}

static void a_bulk_retry_takes_exactly_what_was_asked_for(void **state)
{
    static const struct {
        const char *body, *says;
    } wrong[] = {
        {"", "exactly one of"},
        {"{\"all\":false}", "exactly one of"},
        {"{\"all\":true,\"job_id\":\"r\"}", "exactly one of"},
        {"{\"ids\":[7]}", "ids: must be a string"},
        {"{\"all\":true,\"filter\":\"item.n ==\"}", "filter: "},
        {"{\"ids\":[\"a\"],\"filter\":\"item.n == 1\"}", "filter: goes with"},
        {"{\"all\":true,\"max_retries\":0}", "max_retries: "},
        {"{\"al\":true}", "al: unknown member"},
    };
    struct desk *api = *state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(api_post(api, "/api/v1/dlq/retry", wrong[i].body), 400);
        if (!strstr(api_text(api, "error"), wrong[i].says))
            fail_msg("%s: %s", wrong[i].body, api_text(api, "error"));
    }
    const char *one = api_dead(api, "\"run_id\":\"r\",\"inputs\":{\"n\":1}", TIMEOUT);
    const char *two = api_dead(api, "\"run_id\":\"r\",\"inputs\":{\"n\":2}", TIMEOUT);
    const char *denied = api_dead(api, "\"run_id\":\"r\",\"inputs\":{\"n\":3}", DENIED);
    api_dead(api, "\"inputs\":{\"n\":4}", TIMEOUT);

    api_ok(api, "POST", "/api/v1/dlq/retry", "{\"job_id\":\"r\",\"filter\":\"item.n > 1\"}");
    assert_answer(api, "retried", "1");
    assert_answer(api, "skipped", "1");
    assert_answer(api, "failed", "0");
    assert_answer(api, "total", "2");
    assert_answer(api, "results.0.dlq_id", two);
    assert_answer(api, "results.0.status", "retried");
    assert_answer(api, "results.1.dlq_id", denied);
    assert_answer(api, "results.1.status", "skipped");
    assert_state(api, one, "dead");

    struct slice body = arena_printf(
        &api->arena, "{\"ids\":[\"%s\",\"%s\",\"nobody\"],\"max_retries\":2}", denied, two);
    api_ok(api, "POST", "/api/v1/dlq/retry", body.ptr);
    assert_answer(api, "retried", "1");
    assert_answer(api, "failed", "2");
    assert_answer(api, "results.0.status", "retried");
    assert_answer(api, "results.1.error", "already recovered");
    assert_answer(api, "results.2.error", "dlq entry not found");

    api_ok(api, "POST", "/api/v1/dlq/discard", "{\"all\":true}");
    assert_answer(api, "discarded", "2");
    assert_answer(api, "total", "2");
    assert_state(api, one, "discarded");
}

static void more_letters_than_a_chunk_holds_are_all_reviewed_oldest_first(void **state)
{
    struct desk *api = *state;
    struct buf body;
    buf_init(&body, 1 << 22);
    for (int i = 0; i < 1203; i++)
        buf_addf(
            &body,
            "{\"item_id\":\"i%04d\",\"item_data\":{\"n\":%d},\"reprocess_eligible\":true,"
            "\"manual_review_required\":false,\"last_attempt\":\"2026-01-01T00:%02d:%02dZ\"}\n",
            i, i, i / 60, i % 60);
    api->content_type = "application/x-ndjson";
    assert_int_equal(api_send(api, "POST", "/api/v1/dlq/import?job_id=r", buf_slice(&body)), 200);
    assert_answer(api, "imported", "1203");
    assert_int_equal(api_send(api, "POST", "/api/v1/dlq/import?job_id=r", buf_slice(&body)), 200);
    assert_answer(api, "known", "1203");
    buf_release(&body);
    api->content_type = NULL;
    api_ok(api, "GET", "/api/v1/dlq/analyze?job_id=r", "");
    assert_answer(api, "total", "1203");
    assert_answer(api, "eligible", "1203");
    assert_answer(api, "needs_review", "0");
    assert_answer(api, "by_hour", "[{\"hour\":\"2026-01-01T00:00:00Z\",\"count\":1203}]");
    api_ok(api, "POST", "/api/v1/dlq/retry", "{\"job_id\":\"r\"}");
    assert_answer(api, "retried", "1203");
    assert_int_equal(api_count(api, "results"), 1203);
    api_ok(api, "POST", "/api/v1/leases", "{\"worker_id\":\"w\",\"count\":2}");
    assert_answer(api, "leases.0.job.item.n", "0");
    assert_answer(api, "leases.1.job.item.n", "1");
}

static void a_group_is_treated_as_one(void **state)
{
    struct desk *api = *state;
    api_dead(api, "", TIMEOUT);
    api_dead(api, "", "{\"message\":\"connection timed out after 60 s\",\"class\":\"timeout\"}");
    const char *denied = api_dead(api, "", DENIED);
    api_ok(api, "GET", "/api/v1/dlq/groups", "");
    assert_int_equal(api_count(api, ""), 2);
    assert_answer(api, "0.count", "1");
    assert_answer(api, "0.sample_ids.0", denied);
    assert_answer(api, "1.count", "2");
    assert_answer(api, "1.status", "open");
    assert_int_equal(api_count(api, "1.trend"), 24);
    const char *timeouts = api_text(api, "1.fingerprint");
    const char *denials = api_text(api, "0.fingerprint");

    api_ok(api, "POST", api_path(api, "/api/v1/dlq/groups/%s/retry", timeouts), "");
    assert_answer(api, "retried", "2");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/groups/%s/retry", denials), "");
    assert_answer(api, "skipped", "1");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/groups/%s/retry", denials), "{\"force\":true}");
    assert_answer(api, "retried", "1");
    api_ok(api, "GET", "/api/v1/dlq/groups", "");
    assert_int_equal(api_count(api, ""), 0);
    api_ok(api, "GET", "/api/v1/dlq/groups?all=true&limit=1", "");
    assert_int_equal(api_count(api, ""), 1);
    assert_true(api->answer.cursor != 0);

    api_ok(api, "POST", api_path(api, "/api/v1/dlq/groups/%s/resolve", timeouts), "");
    assert_answer(api, "status", "resolved");
    api_ok(api, "GET", api_path(api, "/api/v1/dlq/groups/%s", timeouts), "");
    assert_answer(api, "status", "resolved");
    assert_int_equal(api_post(api, "/api/v1/dlq/groups/nope/ignore", ""), 404);
    assert_int_equal(api_post(api, "/api/v1/dlq/groups/nope/retry", ""), 404);
    assert_answer(api, "error", "no group \"nope\"");
}

static void clear_keeps_what_needs_review(void **state)
{
    struct desk *api = *state;
    const char *timeout = api_dead(api, "\"run_id\":\"r\"", TIMEOUT);
    const char *denied = api_dead(api, "\"run_id\":\"r\"", DENIED);
    const char *other = api_dead(api, "\"run_id\":\"other\"", TIMEOUT);
    assert_int_equal(api_post(api, "/api/v1/dlq/clear", "{}"), 400);
    api_ok(api, "POST", "/api/v1/dlq/clear", "{\"job_id\":\"r\"}");
    assert_string_equal(buf_str(&api->answer.body), "{\"purged\":1,\"kept\":1}\n");
    assert_int_equal(api_get(api, letter_path(api, timeout)), 404);
    assert_state(api, denied, "dead");
    assert_state(api, other, "dead");
    api_ok(api, "POST", "/api/v1/dlq/clear", "{\"job_id\":\"r\",\"force\":true}");
    assert_answer(api, "purged", "1");
    api_ok(api, "GET", "/api/v1/audit/verify", "");
    assert_answer(api, "ok", "true");
}

static void purge_takes_only_what_is_old_enough(void **state)
{
    struct desk *api = *state;
    api_dead(api, "", TIMEOUT);
    api_ok(api, "POST", "/api/v1/dlq/import",
           "{\"dlq_id\":\"old\",\"original_subject\":\"s\",\"original_payload\":{},"
           "\"recoverable\":true,\"failed_at\":\"2020-01-01T00:00:00Z\"}");
    assert_int_equal(api_post(api, "/api/v1/dlq/purge", "{}"), 400);
    assert_answer(api, "error", "older_than_days: is required");
    assert_int_equal(api_post(api, "/api/v1/dlq/purge", "{\"older_than_days\":-1}"), 400);
    api_ok(api, "POST", "/api/v1/dlq/purge", "{\"older_than_days\":30,\"job_id\":\"other\"}");
    assert_answer(api, "purged", "0");
    api_ok(api, "POST", "/api/v1/dlq/purge", "{\"older_than_days\":30}");
    assert_answer(api, "purged", "1");
    api_ok(api, "GET", "/api/v1/dlq", "");
    assert_int_equal(api_count(api, ""), 1);
}

/* ---- import ---------------------------------------------------------------------------------- */

static void the_four_forms_of_a_letter_are_taken_in(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/dlq/import?job_id=mapreduce-1",
           "[{\"dlq_id\":\"s1\",\"original_subject\":\"swarm.task.request\","
           "\"original_payload\":{\"b\": 1, \"a\": 2},\"reason\":\"no_capable_agent\","
           "\"failed_at\":\"2026-02-13T06:22:00Z\",\"retry_count\":3,\"max_retries\":3,"
           "\"retry_history\":[{\"attempt\":1,\"attempted_at\":\"2026-02-13T06:20:00Z\","
           "\"agent\":\"a1\",\"failure_reason\":\"none\"}],\"source\":\"dispatch\","
           "\"recoverable\":true,\"recovered\":false},"
           "{\"item_id\":\"item-123\",\"item_data\":{\"file\":\"src/main.rs\",\"priority\":5},"
           "\"first_attempt\":\"2025-01-11T10:25:00Z\",\"last_attempt\":\"2025-01-11T10:30:00Z\","
           "\"failure_count\":3,\"failure_history\":[{\"attempt_number\":1,"
           "\"timestamp\":\"2025-01-11T10:30:00Z\","
           "\"error_type\":{\"CommandFailed\":{\"exit_code\":101}},"
           "\"error_message\":\"cargo test failed with exit code 101\",\"agent_id\":\"agent-1\","
           "\"step_failed\":\"shell: cargo test\",\"duration_ms\":45000}],"
           "\"error_signature\":\"CommandFailed::cargo test failed with exit\","
           "\"reprocess_eligible\":true,\"manual_review_required\":false,"
           "\"worktree_artifacts\":{\"branch_name\":\"agent-1\"}},"
           "{\"receipt\":{\"lease_id\":\"abc-123\",\"task_id\": \"t\","
           "\"worker_id\":\"cognigate-0\",\"status\":\"complete\"},"
           "\"failed_at\":\"2024-01-15T10:30:45Z\",\"attempts\":5},"
           "{\"what\":\"is this\"},7]");
    assert_answer(api, "imported", "3");
    assert_answer(api, "known", "0");
    assert_answer(api, "failed", "2");
    assert_true(strstr(api_text(api, "results.3.error"), "not a letter") != NULL);
    assert_answer(api, "results.4.code", "invalid");
    const char *item = api_text(api, "results.1.dlq_id");
    const char *receipt = api_text(api, "results.2.dlq_id");

    api_ok(api, "GET", letter_path(api, "s1"), "");
    assert_answer(api, "original_payload", "{\"b\": 1, \"a\": 2}");
    assert_answer(api, "envelope", "null");
    assert_answer(api, "failed_at", "2026-02-13T06:22:00Z");
    assert_answer(api, "retry_count", "3");
    assert_answer(api, "recoverable", "true");
    assert_answer(api, "retry_history.0.agent", "a1");
    assert_answer(api, "source", "dispatch");
    assert_int_equal(api_post(api, "/api/v1/dlq/s1/retry", ""), 502);
    assert_answer(api, "error", "failed to republish");
    assert_state(api, "s1", "dead");

    api_ok(api, "GET", letter_path(api, item), "");
    assert_answer(api, "item_id", "item-123");
    assert_answer(api, "item_data", "{\"file\":\"src/main.rs\",\"priority\":5}");
    assert_answer(api, "failure_count", "3");
    assert_answer(api, "error_signature", "CommandFailed::cargo test failed with exit");
    assert_answer(api, "worktree_artifacts.branch_name", "agent-1");
    assert_answer(api, "failure_history.0.error_type.CommandFailed.exit_code", "101");
    assert_answer(api, "first_attempt", "2025-01-11T10:25:00Z");
    api_ok(api, "GET", "/api/v1/dlq?job_id=mapreduce-1", "");
    assert_int_equal(api_count(api, ""), 1);
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/retry", item), "");
    api_lease(api);
    assert_answer(api, "leases.0.job.item.file", "src/main.rs");
    assert_answer(api, "leases.0.attempt", "4");

    api_ok(api, "GET", letter_path(api, receipt), "");
    assert_answer(api, "reason", "undeliverable");
    assert_answer(api, "retry_count", "5");
    assert_answer(api, "recoverable", "false");
    assert_answer(api, "failed_at", "2024-01-15T10:30:45Z");
    assert_answer(api, "source", "receipts");
    assert_answer(api, "queue", "deliveries");
    assert_answer(api, "envelope.action", "deliver");
    assert_answer(api, "envelope.retry_policy", "receipts");
    assert_answer(api, "envelope.idempotency_key", "abc-123:complete");
    assert_answer(api, "envelope.inputs",
                  "{\"body\":{\"lease_id\":\"abc-123\",\"task_id\": \"t\","
                  "\"worker_id\":\"cognigate-0\",\"status\":\"complete\"}}");
}

#define RECEIPT "{\"lease_id\":\"l\",\"task_id\":\"t\",\"worker_id\":\"w\",\"status\":\"complete\"}"

static void an_imported_receipt_can_be_replayed_by_a_person(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/dlq/import", "{\"receipt\":" RECEIPT ",\"attempts\":5}");
    const char *id = api_text(api, "results.0.dlq_id");
    api_ok(api, "POST", "/api/v1/dlq/retry-all", "");
    assert_answer(api, "total", "0");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/retry", id),
           "{\"merge\":{\"inputs\":{\"target\":\"http://127.0.0.1:1/\"}}}");
    api_ok(api, "POST", "/api/v1/leases",
           "{\"worker_id\":\"w1\",\"queues\":[\"deliveries\"],\"capabilities\":[\"deliver\"]}");
    assert_answer(api, "leases.0.attempt", "6");
    assert_answer(api, "leases.0.job.inputs.body", RECEIPT);
    assert_answer(api, "leases.0.job.inputs.target", "http://127.0.0.1:1/");
}

static void a_receipt_is_known_however_its_entry_is_laid_out(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/dlq/import",
           "[{\"receipt\":" RECEIPT ",\"failed_at\":\"2024-01-15T10:30:45Z\",\"attempts\":5},"
           " { \"attempts\": 5, \"failed_at\": \"2024-01-15T11:30:45+01:00\", \"receipt\": " RECEIPT
           "},{\"receipt\":" RECEIPT ",\"failed_at\":\"2024-01-15T10:30:46Z\",\"attempts\":5},"
           "{\"receipt\":" RECEIPT "},{\"receipt\":" RECEIPT ",\"attempts\":0}]");
    assert_answer(api, "imported", "3");
    assert_answer(api, "known", "2");
    assert_string_equal(api_text(api, "results.0.dlq_id"), api_text(api, "results.1.dlq_id"));
    assert_string_equal(api_text(api, "results.3.dlq_id"), api_text(api, "results.4.dlq_id"));
}

static void what_is_no_receipt_is_not_imported_as_one(void **state)
{
    struct desk *api = *state;
    api_ok(api, "POST", "/api/v1/dlq/import",
           "[{\"receipt\":{\"lease_id\":\"l\",\"worker_id\":\"w\",\"status\":\"complete\"}},"
           "{\"receipt\":7},{\"receipt\":" RECEIPT ",\"failed_at\":\"yesterday\"},"
           "{\"receipt\":" RECEIPT ",\"attempts\":-1}]");
    assert_answer(api, "failed", "4");
    assert_non_null(strstr(api_text(api, "results.0.error"), "receipt: task_id:"));
    assert_non_null(strstr(api_text(api, "results.1.error"), "receipt:"));
    assert_non_null(strstr(api_text(api, "results.2.error"), "failed_at:"));
    assert_non_null(strstr(api_text(api, "results.3.error"), "attempts:"));
}

static void an_exported_letter_comes_back_the_same(void **state)
{
    struct desk *api = *state;
    const char *one = api_dead(api, "\"job_id\":\"j\",\"inputs\":{\"n\": 1}", DENIED);
    api_ok(api, "POST", "/api/v1/dlq/import",
           "[{\"dlq_id\":\"text\",\"original_subject\":\"s\",\"original_payload\":\"no json\","
           "\"payload_encoding\":\"text\",\"failed_at\":\"2026-01-01T00:00:00Z\"},"
           "{\"dlq_id\":\"bytes\",\"original_subject\":\"s\",\"original_payload\":\"/wAB\","
           "\"payload_encoding\":\"base64\",\"failed_at\":\"2026-01-02T00:00:00Z\"},"
           "{\"dlq_id\":\"bad\",\"original_subject\":\"s\",\"original_payload\":\"/w\","
           "\"payload_encoding\":\"base64\"}]");
    assert_answer(api, "imported", "2");
    assert_answer(api, "results.2.error", "original_payload: is not base64");
    api_ok(api, "POST", api_path(api, "/api/v1/dlq/%s/discard", one), "");
    api_ok(api, "GET", "/api/v1/dlq", "");
    assert_int_equal(api_count(api, ""), 3);
    struct slice exported = arena_dup(&api->arena, api->json.raw);

    struct desk *other;
    void *other_state;
    assert_int_equal(api_setup(&other_state), 0);
    other = other_state;
    api_ok(other, "POST", "/api/v1/dlq/import", exported.ptr);
    assert_answer(other, "imported", "3");
    api_ok(other, "GET", "/api/v1/dlq", "");
    assert_int_equal(api_count(other, ""), 3);
    static const char *const same[] = {"dlq_id",
                                       "original_payload",
                                       "reason",
                                       "failed_at",
                                       "retry_count",
                                       "max_retries",
                                       "state",
                                       "job_id",
                                       "item_data",
                                       "fingerprint",
                                       "reprocess_eligible",
                                       "recoverable",
                                       "recovered_by",
                                       "envelope",
                                       "payload_encoding"};
    for (int n = 0; n < 3; n++) {
        for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
            char path[64];
            snprintf(path, sizeof(path), "%d.%s", n, same[i]);
            assert_string_equal(api_text(other, path), api_text(api, path));
        }
    }
    assert_answer(other, "0.state", "discarded");
    assert_answer(other, "1.original_payload", "/wAB");
    assert_int_equal(api_teardown(&other_state), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_letter_has_the_names_of_the_contract_in_its_order),
        TEST(an_unknown_letter_is_the_swarms_404),
        TEST(letters_are_filtered_and_paged),
        TEST(an_expression_goes_over_what_it_is_not_true_for),
        TEST(a_wrong_expression_lists_nothing),
        TEST(ids_can_be_found_by_their_beginning),
        TEST(stats_count_the_unrecovered),
        TEST(a_retried_letter_is_recovered_and_its_job_lives),
        TEST(a_retry_may_edit_the_job),
        TEST(a_discarded_letter_must_be_restored_first),
        TEST(retry_all_takes_what_a_machine_may_replay),
        TEST(a_bulk_retry_takes_exactly_what_was_asked_for),
        TEST(more_letters_than_a_chunk_holds_are_all_reviewed_oldest_first),
        TEST(a_group_is_treated_as_one),
        TEST(clear_keeps_what_needs_review),
        TEST(purge_takes_only_what_is_old_enough),
        TEST(the_four_forms_of_a_letter_are_taken_in),
        TEST(an_imported_receipt_can_be_replayed_by_a_person),
        TEST(a_receipt_is_known_however_its_entry_is_laid_out),
        TEST(what_is_no_receipt_is_not_imported_as_one),
        TEST(an_exported_letter_comes_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
