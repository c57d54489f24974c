/* Deliveries: which bodies are receipts, their two keys, and envelopes made and read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/delivery.h"
#include "core/envelope.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OUT_MAX ((size_t)4 << 20)

static struct arena arena; /* emptied after each test */
static struct buf out;     /* what was printed last */

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, OUT_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&out);
    arena_release(&arena);
    return 0;
}

static struct json parse(struct slice text)
{
    struct json json;
    struct err err = {0};

    if (json_parse(text, &json, &err) != STATUS_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return json;
}

static struct json json_of(const char *text)
{
    return parse(slice_of(text));
}

static void assert_text(struct slice text, const char *expected)
{
    if (!slice_is(text, expected))
        fail_msg("\"%.*s\" is not \"%s\"", SLICE_ARG(text), expected);
}

/* Seed 000: its receipt. */
#define RECEIPT                                                                                    \
    "{\"lease_id\":\"abc-123\",\"task_id\":\"task-456\",\"worker_id\":\"cognigate-0\","            \
    "\"status\":\"complete\",\"timestamp\":\"2024-01-15T10:30:00Z\","                              \
    "\"summary\":\"Task completed successfully\","                                                 \
    "\"artifact_pointers\":[\"s3://bucket/results.json\"]}"

/* print makes the envelope of an order, and finds that it could be pushed. */
static struct envelope print(const struct delivery_order *order)
{
    struct envelope envelope;
    struct err err = {0};

    buf_clear(&out);
    delivery_print(order, &out);
    assert_int_equal(out.status, STATUS_OK);
    struct slice text = arena_dup(&arena, buf_slice(&out));
    if (envelope_parse(text, OUT_MAX, &arena, &envelope, &err) != STATUS_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return envelope;
}

static struct envelope print_body(struct json body)
{
    struct delivery_order order = {.body = body, .job_id = SLICE("job-1")};

    return print(&order);
}

static struct delivery read_job(struct slice text, const char *job_id)
{
    struct delivery delivery;
    struct err err = {0};

    if (delivery_read(parse(text), slice_of(job_id), &arena, &delivery, &err) != STATUS_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return delivery;
}

static const char *refuse_job(const char *text)
{
    static struct err err;
    struct delivery delivery;

    if (delivery_read(json_of(text), SLICE("j"), &arena, &delivery, &err) != STATUS_INVALID)
        fail_msg("%s was read", text);
    return err.text;
}

/* body_with makes a receipt whose lease_id and status are `lease` and `status` letters long. */
static struct json body_with(size_t lease, size_t status)
{
    char *text = arena_alloc(&arena, lease + status + 64);
    int at = snprintf(text, 64, "{\"lease_id\":\"");

    memset(text + at, 'l', lease);
    at += (int)lease;
    at += snprintf(text + at, 32, "\",\"status\":\"");
    memset(text + at, 's', status);
    at += (int)status;
    snprintf(text + at, 8, "\"}");
    return json_of(text);
}

/* ---- receipts -------------------------------------------------------------------------------- */

static void the_seeds_receipt_is_read(void **state)
{
    struct receipt receipt;

    (void)state;
    assert_true(receipt_read(json_of(RECEIPT), &arena, &receipt));
    assert_text(receipt.lease_id, "abc-123");
    assert_text(receipt.task_id, "task-456");
    assert_text(receipt.worker_id, "cognigate-0");
    assert_text(receipt.status, "complete");
    assert_text(receipt.summary, "Task completed successfully");
    assert_text(receipt.artifact_pointers.raw, "[\"s3://bucket/results.json\"]");
    assert_int_equal(receipt.error_metadata.raw.len, 0);
    assert_int_equal(receipt_check(json_of(RECEIPT), NULL), STATUS_OK);
}

static void a_lease_and_a_status_make_a_receipt(void **state)
{
    static const struct {
        const char *body;
        bool is_receipt;
    } rows[] = {
        {"{\"lease_id\":\"a\",\"status\":\"b\"}", true},
        {"{\"lease_id\":\"\\u0061\",\"status\":\"b\",\"artifact_pointers\":null}", true},
        {"{\"lease_id\":\"a\"}", false},
        {"{\"status\":\"b\"}", false},
        {"{\"lease_id\":\"\",\"status\":\"b\"}", false},
        {"{\"lease_id\":\"a\",\"status\":\"\"}", false},
        {"{\"lease_id\":1,\"status\":\"b\"}", false},
        {"{\"lease_id\":\"a\",\"status\":null}", false},
        {"[\"lease_id\",\"status\"]", false},
        {"\"lease_id\"", false},
        {"{}", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct receipt receipt;
        if (receipt_read(json_of(rows[i].body), &arena, &receipt) != rows[i].is_receipt)
            fail_msg("%s", rows[i].body);
        if (rows[i].is_receipt) {
            assert_text(receipt.lease_id, "a");
            assert_int_equal(receipt.artifact_pointers.raw.len, 0);
            assert_int_equal(receipt.task_id.len, 0);
        }
    }
}

#define IDS "\"lease_id\":\"a\",\"task_id\":\"b\",\"worker_id\":\"c\""

static void what_a_receipt_lacks_is_named(void **state)
{
    static const struct {
        const char *body;
        const char *names; /* NULL: nothing is wrong */
    } rows[] = {
        {"{" IDS ",\"status\":\"running\"}", NULL},
        {"{" IDS ",\"status\":\"d\",\"summary\":null,\"other\":1}", NULL},
        {"{" IDS ",\"status\":\"failed\",\"error_metadata\":{\"code\":7}}", NULL},
        {"[]", "a receipt must be an object"},
        {"{}", "lease_id: must be given"},
        {"{\"lease_id\":\"a\",\"status\":\"d\",\"worker_id\":\"c\"}", "task_id: must be given"},
        {"{\"lease_id\":\"a\",\"status\":\"d\",\"task_id\":\"c\"}", "worker_id: must be given"},
        {"{" IDS "}", "status: must be given, as a text, such as complete"},
        {"{" IDS ",\"status\":null}", "status: must be given"},
        {"{" IDS ",\"status\":\"\"}", "status: must not be empty"},
        {"{" IDS ",\"status\":5}", "status: must be a text"},
        {"{" IDS ",\"status\":\"d\",\"summary\":[]}", "summary: must be a text, not []"},
        {"{" IDS ",\"status\":\"d\",\"timestamp\":1}", "timestamp: must be a text, not 1"},
        {"{" IDS ",\"status\":\"d\",\"artifact_pointers\":\"x\"}",
         "artifact_pointers: must be an array, not \"x\""},
        {"{" IDS ",\"status\":\"d\",\"error_metadata\":[1]}",
         "error_metadata: must be an object, not [1]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err err = {0};
        enum status status = receipt_check(json_of(rows[i].body), &err);
        assert_int_equal(status, rows[i].names ? STATUS_INVALID : STATUS_OK);
        if (rows[i].names && !strstr(err.text, rows[i].names))
            fail_msg("%s: %s", rows[i].body, err.text);
    }
}

static void an_id_may_have_two_hundred_bytes(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(receipt_check(body_with(201, 1), &err), STATUS_INVALID);
    assert_string_equal(err.text, "lease_id: must have at most 200 bytes, not 201");
    /* What is missed next shows that this one is long enough and no more. */
    assert_int_equal(receipt_check(body_with(200, 1), &err), STATUS_INVALID);
    assert_string_equal(err.text, "task_id: must be given, as a text");
}

/* ---- envelopes ------------------------------------------------------------------------------- */

static void an_order_becomes_the_envelope_of_a_job(void **state)
{
    const struct delivery_order order = {.target = SLICE("asyncgate"),
                                         .has_kind = true,
                                         .kind = DELIVERY_MCP,
                                         .tool = SLICE("x.y"),
                                         .policy = SLICE("map"),
                                         .body = json_of(RECEIPT)};
    struct envelope envelope = print(&order);

    (void)state;
    assert_text(envelope.action, "deliver");
    assert_text(envelope.queue, "deliveries");
    assert_text(envelope.source, "receipts");
    assert_text(envelope.policy_name, "map");
    assert_text(envelope.idempotency_key, "abc-123:complete");
    assert_text(envelope.required_capabilities.raw, "[\"deliver\"]");
    assert_int_equal(envelope.job_id.len, 0);
    assert_text(envelope.inputs.raw, "{\"target\":\"asyncgate\",\"kind\":\"mcp\",\"tool\":\"x.y\","
                                     "\"body\":" RECEIPT "}");
}

static void an_order_may_say_what_it_is_of(void **state)
{
    const struct delivery_order order = {.target = SLICE("slack"),
                                         .has_kind = true,
                                         .kind = DELIVERY_SLACK,
                                         .source = SLICE("alerts"),
                                         .key = SLICE("k"),
                                         .body = json_of("{}")};
    struct envelope envelope = print(&order);

    (void)state;
    assert_text(envelope.source, "alerts");
    assert_text(envelope.inputs.raw, "{\"target\":\"slack\",\"kind\":\"slack\",\"body\":{}}");
}

static void what_was_not_ordered_has_its_default(void **state)
{
    struct envelope envelope = print_body(json_of("{\"a\": [1,  2e0], \"a\":\"\\u00e9\"}"));

    (void)state;
    assert_text(envelope.source, "deliveries");
    assert_text(envelope.policy_name, "receipts");
    assert_text(envelope.job_id, "job-1");
    assert_text(envelope.idempotency_key, "job-1");
    assert_text(envelope.inputs.raw, "{\"body\":{\"a\": [1,  2e0], \"a\":\"\\u00e9\"}}");
}

static void a_key_that_was_given_is_the_jobs(void **state)
{
    struct delivery_order order = {.key = SLICE("mine"), .body = json_of(RECEIPT)};
    struct envelope envelope = print(&order);

    (void)state;
    assert_text(envelope.idempotency_key, "mine");
    /* On the wire a receipt has its own all the same. */
    assert_text(read_job(envelope.body, "j").key, "abc-123:complete");
    order.body = json_of("[1]");
    envelope = print(&order);
    assert_text(envelope.idempotency_key, "mine");
    assert_int_equal(envelope.job_id.len, 0);
    assert_text(read_job(envelope.body, "j").key, "mine");
}

static void an_order_is_read_as_the_delivery_that_it_was(void **state)
{
    const struct delivery_order order = {.target = SLICE("http://h/x?a=\"\n"),
                                         .has_kind = true,
                                         .kind = DELIVERY_MCP,
                                         .tool = SLICE("x.y"),
                                         .body = json_of(RECEIPT)};
    struct delivery delivery = read_job(print(&order).body, "j");

    (void)state;
    assert_text(delivery.target, "http://h/x?a=\"\n");
    assert_true(delivery.has_kind);
    assert_int_equal(delivery.kind, DELIVERY_MCP);
    assert_text(delivery.tool, "x.y");
    assert_text(delivery.body.raw, RECEIPT);
    assert_true(delivery.is_receipt);
    assert_text(delivery.receipt.task_id, "task-456");
    assert_text(delivery.key, "abc-123:complete");
}

static void a_delivery_needs_but_a_body(void **state)
{
    struct delivery delivery = read_job(
        SLICE("{\"action\":\"deliver\",\"inputs\":{\"kind\":null,\"target\":null,\"body\":7}}"),
        "job-9");

    (void)state;
    assert_false(delivery.has_kind);
    assert_false(delivery.is_receipt);
    assert_int_equal(delivery.target.len, 0);
    assert_int_equal(delivery.tool.len, 0);
    assert_text(delivery.body.raw, "7");
    assert_text(delivery.key, "job-9");
}

static void a_document_has_the_key_of_its_job(void **state)
{
    (void)state;
    assert_text(read_job(SLICE("{\"action\":\"deliver\",\"idempotency_key\":\"k\\n\","
                               "\"inputs\":{\"body\":[]}}"),
                         "job-9")
                    .key,
                "k\n");
}

static void what_is_no_delivery_is_refused(void **state)
{
    static const struct {
        const char *job, *names;
    } rows[] = {
        {"{\"action\":\"run\",\"inputs\":{\"body\":1}}", "action: must be \"deliver\""},
        {"{\"inputs\":{\"body\":1}}", "action: must be \"deliver\""},
        {"{\"action\":\"deliver\"}", "inputs: must be an object"},
        {"{\"action\":\"deliver\",\"inputs\":[1]}", "inputs: must be an object"},
        {"{\"action\":\"deliver\",\"inputs\":{}}", "inputs.body: must be given"},
        {"{\"action\":\"deliver\",\"inputs\":{\"body\":null}}", "inputs.body: must be given"},
        {"{\"action\":\"deliver\",\"inputs\":{\"body\":1,\"target\":2}}", "inputs.target: must be"},
        {"{\"action\":\"deliver\",\"inputs\":{\"body\":1,\"tool\":2}}", "inputs.tool: must be"},
        {"{\"action\":\"deliver\",\"inputs\":{\"body\":1,\"kind\":2}}", "inputs.kind: must be"},
        {"{\"action\":\"deliver\",\"inputs\":{\"body\":1,\"kind\":\"smtp\"}}",
         "inputs.kind: must be http, mcp or slack, not \"smtp\""},
        {"{\"action\":\"deliver\",\"inputs\":{\"body\":[],\"kind\":\"mcp\"}}",
         "inputs.body: must be an object for MCP, not []"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *said = refuse_job(rows[i].job);
        if (!strstr(said, rows[i].names))
            fail_msg("%s: %s", rows[i].job, said);
    }
}

static void a_receipt_whose_key_would_be_endless_is_refused(void **state)
{
    struct delivery delivery;
    struct err err = {0};

    (void)state;
    struct envelope long_lease = print_body(body_with(201, 1));
    assert_int_equal(delivery_read(parse(long_lease.body), SLICE("j"), &arena, &delivery, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "inputs.body.lease_id: must have at most 200 bytes"));
    struct envelope long_status = print_body(body_with(1, 201));
    assert_int_equal(delivery_read(parse(long_status.body), SLICE("j"), &arena, &delivery, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "inputs.body.status: must have at most 200 bytes"));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void a_long_key_is_a_digest_for_the_job_and_whole_on_the_wire(void **state)
{
    static const struct {
        size_t lease, status;
        bool digest;
    } rows[] = {{198, 1, false}, {199, 1, true}, {1, 198, false}, {1, 199, true}, {200, 200, true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct envelope envelope = print_body(body_with(rows[i].lease, rows[i].status));
        struct delivery delivery = read_job(envelope.body, "j");
        assert_int_equal(delivery.key.len, rows[i].lease + 1 + rows[i].status);
        assert_int_equal(delivery.key.ptr[rows[i].lease], ':');
        if (rows[i].digest) {
            assert_int_equal(envelope.idempotency_key.len, 7 + 64);
            assert_true(slice_starts(envelope.idempotency_key, SLICE("sha256:")));
        } else {
            assert_true(slice_eq(envelope.idempotency_key, delivery.key));
        }
    }
    /* Two of them are still two. */
    assert_false(slice_eq(print_body(body_with(200, 1)).idempotency_key,
                          print_body(body_with(200, 2)).idempotency_key));
    assert_true(slice_eq(print_body(body_with(200, 2)).idempotency_key,
                         print_body(body_with(200, 2)).idempotency_key));
}

static void a_nul_in_a_lease_is_carried_on_the_wire(void **state)
{
    struct envelope envelope =
        print_body(json_of("{\"lease_id\":\"a\\u0000b\",\"status\":\"complete\"}"));
    struct slice key = read_job(envelope.body, "j").key;

    (void)state;
    assert_true(slice_starts(envelope.idempotency_key, SLICE("sha256:")));
    assert_int_equal(key.len, 12);
    assert_memory_equal(key.ptr, "a\0b:complete", 12);
}

static void progress_is_reported_again_and_again(void **state)
{
    struct slice keys[3];
    static const char *const bodies[] = {
        "{\"lease_id\":\"a\",\"status\":\"running\",\"timestamp\":\"2026-01-01T00:00:00Z\"}",
        "{\"lease_id\":\"a\",\"status\":\"running\",\"timestamp\":\"2026-01-01T00:00:00Z\","
        "\"summary\":\"half\"}",
        "{\"lease_id\":\"a\",\"status\":\"running\"}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bodies); i++) {
        struct envelope envelope = print_body(json_of(bodies[i]));
        keys[i] = envelope.idempotency_key;
        assert_true(slice_starts(keys[i], SLICE("a:running:")));
        assert_int_equal(keys[i].len, 10 + 32);
        assert_text(read_job(envelope.body, "j").key, "a:running");
        /* The same report is the same one. */
        assert_true(slice_eq(print_body(json_of(bodies[i])).idempotency_key, keys[i]));
    }
    assert_false(slice_eq(keys[0], keys[1]));
    assert_false(slice_eq(keys[1], keys[2]));
    assert_false(slice_eq(keys[0], keys[2]));
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Every text has an escape, so that each is copied. */
#define ESCAPED                                                                                    \
    "{\"lease_id\":\"\\u0061\",\"task_id\":\"\\u0062\",\"worker_id\":\"\\u0063\","                 \
    "\"status\":\"\\u0064\",\"summary\":\"\\u0065\"}"

static void memory_that_is_exhausted_makes_no_document_of_a_receipt(void **state)
{
    struct json job = json_of("{\"action\":\"deliver\",\"inputs\":{\"body\":" ESCAPED "}}");
    enum status status = STATUS_NO_MEMORY;
    struct delivery delivery = {0};
    struct err err;

    (void)state;
    for (unsigned long n = 1; status != STATUS_OK; n++) {
        arena_release(&arena);
        mem_fail_after(n);
        status = delivery_read(job, SLICE("j"), &arena, &delivery, &err);
        mem_fail_after(0);
        assert_true(status == STATUS_OK ? n > 1 : status == STATUS_NO_MEMORY);
    }
    assert_true(delivery.is_receipt);
    assert_text(delivery.key, "a:d");
}

static void memory_that_is_exhausted_while_printing_is_remembered(void **state)
{
    const struct delivery_order order = {.body = json_of(ESCAPED)};
    unsigned long n = 0;

    (void)state;
    do {
        buf_release(&out);
        mem_fail_after(++n);
        delivery_print(&order, &out);
        mem_fail_after(0);
        assert_true(out.status == STATUS_OK || out.status == STATUS_NO_MEMORY);
    } while (out.status != STATUS_OK);
    assert_true(n > 2);
    assert_non_null(strstr(buf_str(&out), "\"idempotency_key\":\"a:d\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_seeds_receipt_is_read),
        TEST(a_lease_and_a_status_make_a_receipt),
        TEST(what_a_receipt_lacks_is_named),
        TEST(an_id_may_have_two_hundred_bytes),
        TEST(an_order_becomes_the_envelope_of_a_job),
        TEST(an_order_may_say_what_it_is_of),
        TEST(what_was_not_ordered_has_its_default),
        TEST(a_key_that_was_given_is_the_jobs),
        TEST(an_order_is_read_as_the_delivery_that_it_was),
        TEST(a_delivery_needs_but_a_body),
        TEST(a_document_has_the_key_of_its_job),
        TEST(what_is_no_delivery_is_refused),
        TEST(a_receipt_whose_key_would_be_endless_is_refused),
        TEST(a_long_key_is_a_digest_for_the_job_and_whole_on_the_wire),
        TEST(a_nul_in_a_lease_is_carried_on_the_wire),
        TEST(progress_is_reported_again_and_again),
        TEST(memory_that_is_exhausted_makes_no_document_of_a_receipt),
        TEST(memory_that_is_exhausted_while_printing_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
