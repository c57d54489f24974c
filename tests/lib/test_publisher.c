/* The publisher of lazaret.h, with a real nats-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <nats/nats.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "bridge/natsserver.h"
#include "lazaret.h"

#define STREAM "DLQ"
#define DLQ_ID "019a8c5d-ac96-774b-bcce-b302099a8057"

struct fixture {
    struct natsserver server;
    struct lz_publisher *publisher;
    struct lz_error error;
};

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != LZ_OK)                                                                       \
            fail_msg("%s: %s", #call, f->error.text);                                              \
    } while (0)

/* struct looker: a connection of the test's own. */
struct looker {
    natsConnection *connection;
    jsCtx *js;
};

static struct looker look(const struct natsserver *server)
{
    struct looker looker = {0};
    assert_int_equal(natsConnection_ConnectTo(&looker.connection, server->url), NATS_OK);
    assert_int_equal(natsConnection_JetStream(&looker.js, looker.connection, NULL), NATS_OK);
    return looker;
}

static void look_away(struct looker *looker)
{
    jsCtx_Destroy(looker->js);
    natsConnection_Destroy(looker->connection);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const char *subject = "dlq.>";
    jsStreamConfig config;
    natsserver_init(&f->server);
    natsserver_start(&f->server);
    jsStreamConfig_Init(&config);
    config.Name = STREAM;
    config.Subjects = &subject;
    config.SubjectsLen = 1;
    struct looker looker = look(&f->server);
    assert_int_equal(js_AddStream(NULL, looker.js, &config, NULL, NULL), NATS_OK);
    look_away(&looker);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lz_publisher_close(f->publisher);
    natsserver_release(&f->server);
    free(f);
    return 0;
}

static struct lz_publisher_options where(struct fixture *f)
{
    return (struct lz_publisher_options){
        .source = "dispatch", .url = f->server.url, .timeout_ms = 60000};
}

static void open_publisher(struct fixture *f)
{
    struct lz_publisher_options options = where(f);
    OK(lz_publisher_open(&options, &f->publisher, &f->error));
}

static struct lz_publish_options letter_of(const char *payload)
{
    return (struct lz_publish_options){.original_subject = "swarm.task.request",
                                       .original_payload = payload,
                                       .original_payload_len = strlen(payload),
                                       .reason = "no_capable_agent"};
}

/* stored is how many letters are in the stream. */
static uint64_t stored(struct fixture *f)
{
    struct looker looker = look(&f->server);
    jsStreamInfo *info = NULL;
    assert_int_equal(js_GetStreamInfo(&info, looker.js, STREAM, NULL, NULL), NATS_OK);
    uint64_t count = info->State.Msgs;
    jsStreamInfo_Destroy(info);
    look_away(&looker);
    return count;
}

/* message reads one letter of the stream, as JSON; its headers and its text when they are asked
 * for. */
static json_t *message(struct fixture *f, uint64_t seq, char id[64], char **text)
{
    struct looker looker = look(&f->server);
    natsMsg *msg = NULL;
    const char *value = NULL;
    assert_int_equal(js_GetMsg(&msg, looker.js, STREAM, seq, NULL, NULL), NATS_OK);
    if (id) {
        assert_int_equal(natsMsgHeader_Get(msg, "Nats-Msg-Id", &value), NATS_OK);
        snprintf(id, 64, "%s", value);
    }
    if (text)
        *text = strndup(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
    json_t *letter = json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), 0, NULL);
    assert_non_null(letter);
    natsMsg_Destroy(msg);
    look_away(&looker);
    return letter;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    assert_non_null(text);
    return text;
}

static void the_stream_has_a_letter_when_publish_returns(void **state)
{
    struct fixture *f = *state;
    struct lz_attempt history[] = {{1, INT64_C(1763280000000000), "a", "no answer"},
                                   {2, 0, NULL, NULL}};
    struct lz_publish_options options = letter_of("{\"task\": 7}");
    struct lz_published published;
    char id[64], *text;
    options.reason_detail = "nobody can research";
    options.retry_count = 3;
    options.max_retries = 4;
    options.retry_history = history;
    options.retry_history_count = 2;
    options.recoverable = 1;
    options.failed_at_us = INT64_C(1763280001500000);
    open_publisher(f);
    OK(lz_publish(f->publisher, &options, &published, &f->error));
    assert_string_equal(published.subject, "dlq.task.unassignable");
    assert_false(published.duplicate);
    json_t *letter = message(f, 1, id, &text);
    char expected[1024];
    snprintf(expected, sizeof(expected),
             "{\"dlq_id\":\"%s\",\"original_subject\":\"swarm.task.request\",\"original_payload\":{"
             "\"task\": 7},\"reason\":\"no_capable_agent\",\"reason_detail\":\"nobody can "
             "research\",\"failed_at\":\"2025-11-16T08:00:01.500Z\",\"retry_count\":3,\"max_"
             "retries\":4,\"retry_history\":[{\"attempt\":1,\"attempted_at\":\"2025-11-16T08:00:"
             "00Z\",\"agent\":\"a\",\"failure_reason\":\"no answer\"},{\"attempt\":2,\"attempted_"
             "at\":null,\"agent\":\"\",\"failure_reason\":\"\"}],\"source\":\"dispatch\","
             "\"recoverable\":true,\"recovered\":false}",
             published.dlq_id);
    assert_string_equal(text, expected);
    assert_string_equal(id, published.dlq_id);
    free(text);
    json_decref(letter);
}

static void a_letter_needs_little(void **state)
{
    struct fixture *f = *state;
    struct lz_publish_options options = letter_of("null");
    open_publisher(f);
    options.reason = "of my own";
    OK(lz_publish(f->publisher, &options, NULL, &f->error));
    json_t *letter = message(f, 1, NULL, NULL);
    assert_true(json_is_null(json_object_get(letter, "original_payload")));
    assert_null(json_object_get(letter, "reason_detail"));
    assert_int_equal(json_array_size(json_object_get(letter, "retry_history")), 0);
    assert_true(json_is_false(json_object_get(letter, "recoverable")));
    assert_int_equal(strlen(text_of(letter, "dlq_id")), 36);
    json_decref(letter);
}

static void bytes_that_are_no_json_say_how_they_are_written(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *value, *encoding;
    } rows[] = {{"hello", 5, "hello", "text"},
                {"{\"a\":", 5, "{\"a\":", "text"},
                {"", 0, "", "text"},
                {"\xff\x00\xfe", 3, "/wD+", "base64"}};
    open_publisher(f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct lz_publish_options options = letter_of("");
        options.original_payload = rows[i].bytes;
        options.original_payload_len = rows[i].len;
        OK(lz_publish(f->publisher, &options, NULL, &f->error));
        json_t *letter = message(f, i + 1, NULL, NULL);
        assert_string_equal(text_of(letter, "original_payload"), rows[i].value);
        assert_string_equal(text_of(letter, "payload_encoding"), rows[i].encoding);
        json_decref(letter);
    }
}

static void a_letter_that_is_wrong_is_not_published(void **state)
{
    struct fixture *f = *state;
    struct lz_publish_options rows[] = {letter_of("1"), letter_of("1"), letter_of("1"),
                                        letter_of("1"), letter_of("1"), letter_of("1"),
                                        letter_of("1"), letter_of("1")};
    static const char *const sentences[] = {
        "original_subject: is required", "original_subject: must be a subject of NATS",
        "reason: is required",           "original_payload: is required",
        "retry_count: must be at most",  "dlq_id: must be a UUID",
        "original_payload: has 2000000", "reason: is not UTF-8"};
    rows[0].original_subject = NULL;
    rows[1].original_subject = "swarm.>";
    rows[2].reason = "";
    rows[3].original_payload = NULL;
    rows[4].retry_count = 60001;
    rows[5].dlq_id = "7";
    rows[6].original_payload_len = 2000000;
    rows[7].reason = "\xff";
    open_publisher(f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct lz_published untouched = {.dlq_id = "x"};
        assert_int_equal(lz_publish(f->publisher, &rows[i], &untouched, &f->error), LZ_INVALID);
        assert_non_null(strstr(f->error.text, sentences[i]));
        assert_string_equal(untouched.dlq_id, "x");
    }
    assert_int_equal(stored(f), 0);
}

static void opening_says_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    struct natsserver nowhere;
    struct lz_publisher_options options = where(f);
    options.source = NULL;
    assert_int_equal(lz_publisher_open(&options, &f->publisher, &f->error), LZ_INVALID);
    assert_non_null(strstr(f->error.text, "source: is required"));
    assert_int_equal(lz_publisher_open(NULL, &f->publisher, NULL), LZ_INVALID);
    options = where(f);
    options.url = "http://127.0.0.1";
    assert_int_equal(lz_publisher_open(&options, &f->publisher, &f->error), LZ_INVALID);
    natsserver_init(&nowhere);
    options.url = nowhere.url;
    assert_int_equal(lz_publisher_open(&options, &f->publisher, &f->error), LZ_UNAVAILABLE);
    assert_int_equal(f->error.status, LZ_UNAVAILABLE);
    assert_string_equal(lz_status_name(f->error.status), "unavailable");
    assert_null(f->publisher);
    natsserver_release(&nowhere);
}

static void the_same_id_is_stored_once(void **state)
{
    struct fixture *f = *state;
    struct lz_publish_options options = letter_of("1");
    struct lz_published first, second;
    options.dlq_id = DLQ_ID;
    open_publisher(f);
    OK(lz_publish(f->publisher, &options, &first, &f->error));
    OK(lz_publish(f->publisher, &options, &second, &f->error));
    assert_false(first.duplicate);
    assert_true(second.duplicate);
    assert_int_equal(stored(f), 1);
}

static void without_a_stream_nothing_is_published(void **state)
{
    struct fixture *f = *state;
    struct natsserver bare;
    struct lz_publisher_options options = where(f);
    struct lz_publish_options letter = letter_of("1");
    struct lz_published published = {0};
    natsserver_init(&bare);
    natsserver_start(&bare);
    options.url = bare.url;
    OK(lz_publisher_open(&options, &f->publisher, &f->error));
    assert_int_equal(lz_publish(f->publisher, &letter, &published, &f->error), LZ_UNAVAILABLE);
    assert_non_null(strstr(f->error.text, "no stream of NATS"));
    assert_int_equal(strlen(published.dlq_id), 36);
    natsserver_release(&bare);
}

/* ---- outages --------------------------------------------------------------------------------- */

static void a_patient_publisher_opens_before_its_server(void **state)
{
    struct fixture *f = *state;
    struct lz_publisher_options options = where(f);
    struct lz_publish_options letter = letter_of("1");
    struct lz_published published;
    natsserver_stop(&f->server, SIGKILL);
    options.patient = 1;
    options.timeout_ms = 50;
    OK(lz_publisher_open(&options, &f->publisher, &f->error));
    assert_int_equal(lz_publish(f->publisher, &letter, &published, &f->error), LZ_UNAVAILABLE);
    assert_non_null(strstr(f->error.text, "there is no connection to NATS"));
    natsserver_start(&f->server);
    assert_int_equal(stored(f), 0);
    letter.dlq_id = published.dlq_id;
    while (lz_publish(f->publisher, &letter, &published, &f->error) != LZ_OK)
        assert_int_equal(f->error.status, LZ_UNAVAILABLE);
    assert_int_equal(stored(f), 1);
}

static void *publish_one(void *arg)
{
    struct fixture *f = arg;
    struct lz_publish_options letter = letter_of("1");
    return lz_publish(f->publisher, &letter, NULL, &f->error) == LZ_OK ? f : NULL;
}

static void a_publish_waits_for_its_server(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    void *published;
    open_publisher(f);
    assert_ptr_equal(publish_one(f), f);
    natsserver_stop(&f->server, SIGKILL);
    assert_int_equal(pthread_create(&thread, NULL, publish_one, f), 0);
    natsserver_start(&f->server);
    pthread_join(thread, &published);
    if (!published)
        fail_msg("%s", f->error.text);
    assert_int_equal(stored(f), 2);
}

static void a_letter_whose_acknowledgement_was_lost_is_published_again(void **state)
{
    struct fixture *f = *state;
    struct lz_publisher_options options = where(f);
    struct lz_publish_options letter = letter_of("1");
    struct lz_published published;
    options.timeout_ms = 200;
    OK(lz_publisher_open(&options, &f->publisher, &f->error));
    kill(f->server.pid, SIGSTOP);
    waitpid(f->server.pid, NULL, WUNTRACED); /* until all of its threads stand */
    assert_int_equal(lz_publish(f->publisher, &letter, &published, &f->error), LZ_UNAVAILABLE);
    assert_non_null(strstr(f->error.text, "did not answer in time"));
    kill(f->server.pid, SIGCONT);
    letter.dlq_id = published.dlq_id;
    while (lz_publish(f->publisher, &letter, &published, &f->error) != LZ_OK)
        assert_int_equal(f->error.status, LZ_UNAVAILABLE);
    assert_true(published.duplicate);
    assert_int_equal(stored(f), 1);
}

/* libnats gives up when it is refused twice; the publisher does not. */
static void keys_that_were_replaced_and_put_back_are_no_end(void **state)
{
    struct fixture *f = *state;
    struct lz_publish_options letter = letter_of("1");
    open_publisher(f);
    OK(lz_publish(f->publisher, &letter, NULL, &f->error));
    natsserver_stop(&f->server, SIGKILL);
    natsserver_configure(&f->server, "authorization { user: ada, password: secret }");
    natsserver_start(&f->server);
    enum lz_status status;
    while ((status = lz_publish(f->publisher, &letter, NULL, &f->error)) != LZ_REFUSED)
        assert_int_equal(status, LZ_UNAVAILABLE);
    assert_non_null(strstr(f->error.text, "wants credentials"));
    natsserver_stop(&f->server, SIGKILL);
    natsserver_configure(&f->server, "");
    natsserver_start(&f->server);
    OK(lz_publish(f->publisher, &letter, NULL, &f->error));
    assert_int_equal(stored(f), 2);
}

/* Every allocation of the library fails once. */
static void memory_that_is_exhausted_is_said(void **state)
{
    struct fixture *f = *state;
    struct lz_publisher_options options = where(f);
    struct lz_publish_options letter = letter_of("\xff");
    unsigned long n = 0;
    enum lz_status status;
    do {
        mem_fail_after(++n);
        status = lz_publisher_open(&options, &f->publisher, &f->error);
        mem_fail_after(0);
    } while (status == LZ_NO_MEMORY);
    OK(status);
    assert_true(n > 3);
    n = 0;
    do {
        mem_fail_after(++n);
        status = lz_publish(f->publisher, &letter, NULL, &f->error);
        mem_fail_after(0);
    } while (status == LZ_NO_MEMORY);
    OK(status);
    assert_true(n > 1);
    assert_int_equal(stored(f), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_stream_has_a_letter_when_publish_returns),
        TEST(a_letter_needs_little),
        TEST(bytes_that_are_no_json_say_how_they_are_written),
        TEST(a_letter_that_is_wrong_is_not_published),
        TEST(opening_says_what_is_wrong),
        TEST(the_same_id_is_stored_once),
        TEST(without_a_stream_nothing_is_published),
        TEST(a_patient_publisher_opens_before_its_server),
        TEST(a_publish_waits_for_its_server),
        TEST(a_letter_whose_acknowledgement_was_lost_is_published_again),
        TEST(keys_that_were_replaced_and_put_back_are_no_end),
        TEST(memory_that_is_exhausted_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
