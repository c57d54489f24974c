/* The NATS bridge, with a real nats-server and a real engine. */
#include "bridge/nats_scene.h"

#define LETTER(id, subject, payload)                                                               \
    "{\"dlq_id\":\"" id "\",\"original_subject\":\"" subject "\",\"original_payload\":" payload    \
    ",\"reason\":\"agent_crashed\",\"failed_at\":\"2026-02-13T06:22:00.5Z\",\"retry_count\":3,"    \
    "\"max_retries\":3,\"retry_history\":[],\"source\":\"dispatch\",\"recoverable\":true,"         \
    "\"recovered\":false}"

/* A payload that a JSON library would print otherwise. */
#define ODD "{\"b\": 1.50, \"a\":[ ],\"a\":\"\\u0041\"}"

/* ---- in -------------------------------------------------------------------------------------- */

static void a_letter_is_taken_in_as_it_is_and_acknowledged(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.task.agent_crashed", LETTER("one", "swarm.task.request", ODD));
    UNTIL(letter_count(scene) == 1);
    UNTIL(all_acknowledged(scene));
    struct letter letter = letter_now(scene, "one");
    assert_true(slice_is(letter.original_subject, "swarm.task.request"));
    assert_true(slice_is(letter.reason, "agent_crashed"));
    assert_true(slice_is(payload_of_letter(scene, &letter), ODD));
    assert_true(letter.foreign && letter.recoverable);
    assert_int_equal(letter.failed_at.us, 1770963720500000);
    assert_int_equal(counts(scene).ingested, 1);
    assert_int_equal(counts(scene).malformed, 0);
}

static void what_a_letter_leaves_open_is_derived(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.agent.crash_loop",
              "{\"original_subject\":\"swarm.agent.boot\",\"original_payload\":{}}");
    UNTIL(letter_count(scene) == 1);
    size_t count;
    struct letter letter = letters(scene, &count)[0];
    assert_true(slice_is(letter.reason, "crash_loop"));
    assert_true(slice_is(letter.source, "warren"));
    assert_int_equal(letter.dlq_id.len, 36);
    assert_true(letter.recoverable);
    int64_t age_us = seams_real()->wall(NULL).us - letter.failed_at.us;
    assert_true(age_us >= 0 && age_us < 3600 * INT64_C(1000000));
}

static void the_same_letter_twice_is_stored_once(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.task.x", LETTER("one", "s", "1"));
    send_text(scene, "dlq.task.x", LETTER("one", "s", "2"));
    UNTIL(counts(scene).duplicates == 1);
    UNTIL(all_acknowledged(scene));
    assert_int_equal(letter_count(scene), 1);
    struct letter letter = letter_now(scene, "one");
    assert_true(slice_is(payload_of_letter(scene, &letter), "1"));
}

static void a_message_that_is_delivered_again_is_the_same_letter(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.task.x", "{\"original_subject\":\"s\",\"original_payload\":1}");
    send_text(scene, "dlq.task.x", "{\"original_subject\":\"s\",\"original_payload\":1}");
    send_text(scene, "dlq.task.x", "no letter");
    UNTIL(letter_count(scene) == 3);
    office_close_now(scene);
    assert_int_equal(js_DeleteConsumer(scene->js, "DLQ", "lazaret-DLQ", NULL, NULL), NATS_OK);
    office_open_now(scene);
    UNTIL(counts(scene).duplicates == 3);
    assert_int_equal(letter_count(scene), 3);
}

static void what_is_no_letter_is_kept_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    static const struct slice messages[] = {
        {"\xff\0\x01{", 4},
        {"[]", 2},
        {"", 0},
        {"{\"original_payload\":{}}", 23},
        {"{\"original_subject\":\"s\",\"original_payload\":{},\"failed_at\":\"soon\"}", 65}};
    size_t wanted = sizeof(messages) / sizeof(messages[0]), count;
    for (size_t i = 0; i < wanted; i++)
        send_bytes(scene, "dlq.task.unassignable", messages[i].ptr, messages[i].len);
    UNTIL(letter_count(scene) == wanted);
    UNTIL(all_acknowledged(scene));
    struct letter *list = letters(scene, &count);
    for (size_t i = 0; i < wanted; i++) {
        assert_true(slice_eq(payload_of_letter(scene, &list[i]), messages[i]));
        assert_true(slice_is(list[i].reason, "malformed"));
        assert_true(list[i].reason_detail.len > 0);
        assert_true(slice_is(list[i].original_subject, "dlq.task.unassignable"));
        assert_true(list[i].review && list[i].foreign && !list[i].recoverable);
    }
    assert_int_equal(counts(scene).malformed, wanted);
}

static void a_letter_that_the_engine_refuses_is_kept_as_malformed(void **state)
{
    struct scene *scene = *state;
    const char *id = die(scene, "busy", "");
    send_text(scene, "dlq.task.x",
              "{\"dlq_id\":\"other\",\"job_id\":\"busy\",\"original_subject\":\"s\","
              "\"original_payload\":1}");
    UNTIL(letter_count(scene) == 2);
    UNTIL(all_acknowledged(scene));
    size_t count;
    struct letter *list = letters(scene, &count);
    struct letter kept = slice_is(list[0].dlq_id, id) ? list[1] : list[0];
    assert_true(slice_is(kept.reason, "malformed"));
    assert_true(has_text(kept.reason_detail, "\"busy\" is known here"));
    assert_true(has_text(payload_of_letter(scene, &kept), "\"dlq_id\":\"other\""));
}

/* unacknowledged counts what is not acknowledged, when some of it was delivered. */
static int64_t unacknowledged(struct scene *scene)
{
    jsConsumerInfo *info = NULL;
    assert_int_equal(js_GetConsumerInfo(&info, scene->js, "DLQ", "lazaret-DLQ", NULL, NULL),
                     NATS_OK);
    int64_t pending = info->NumAckPending ? info->NumAckPending + (int64_t)info->NumPending : 0;
    jsConsumerInfo_Destroy(info);
    return pending;
}

static void nothing_is_acknowledged_before_it_is_on_disk(void **state)
{
    struct scene *scene = *state;
    atomic_store(&commits_fail, true);
    for (int i = 0; i < 10; i++)
        send_text(scene, "dlq.task.x", "{\"original_subject\":\"s\",\"original_payload\":1}");
    UNTIL(unacknowledged(scene) == 10);
    assert_int_equal(counts(scene).ingested, 0);
    atomic_store(&commits_fail, false);
    UNTIL(all_acknowledged(scene));
    assert_int_equal(letter_count(scene), 10);
}

static void an_office_that_ends_while_the_store_fails_loses_nothing(void **state)
{
    struct scene *scene = *state;
    atomic_store(&commits_fail, true);
    send_text(scene, "dlq.task.x", LETTER("one", "s", "1"));
    office_close_now(scene);
    atomic_store(&commits_fail, false);
    assert_int_equal(letter_count(scene), 0);
    assert_false(all_acknowledged(scene));
    assert_int_equal(js_DeleteConsumer(scene->js, "DLQ", "lazaret-DLQ", NULL, NULL), NATS_OK);
    office_open_now(scene);
    UNTIL(letter_count(scene) == 1);
    UNTIL(all_acknowledged(scene));
}

static void a_crash_of_the_server_loses_and_doubles_nothing(void **state)
{
    struct scene *scene = *state;
    char text[256];
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof(text),
                 "{\"dlq_id\":\"%d\",\"original_subject\":\"s\",\"original_payload\":%d}", i, i);
        if (i == 1000 || i == 2000) {
            natsserver_stop(&scene->server, SIGKILL);
            natsserver_start(&scene->server);
            UNTIL(natsConnection_Status(scene->client) == NATS_CONN_STATUS_CONNECTED);
        }
        UNTIL(js_Publish(NULL, scene->js, "dlq.task.x", text, (int)strlen(text), NULL, NULL) ==
              NATS_OK);
    }
    UNTIL(letter_count(scene) == 3000);
    UNTIL(all_acknowledged(scene));
    assert_int_equal(letter_count(scene), 3000);
    assert_int_equal(counts(scene).ingested, 3000);
    assert_true(counts(scene).reconnects > 0);
}

static void a_removed_consumer_is_made_again(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.task.x", LETTER("one", "s", "1"));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(js_DeleteStream(scene->js, "DLQ", NULL, NULL), NATS_OK);
    UNTIL(has_consumer(scene));
    send_text(scene, "dlq.task.x", LETTER("two", "s", "2"));
    UNTIL(letter_count(scene) == 2);
}

static char logged[4096];
static atomic_int said;

static void keep_line(enum log_level level, const char *line, void *ctx)
{
    (void)ctx;
    if (level != LOG_ERROR)
        return;
    if (atomic_load(&said) == 0) /* lines come one at a time */
        snprintf(logged, sizeof(logged), "%s", line);
    atomic_fetch_add(&said, 1);
}

static void a_stream_that_takes_too_little_is_told_and_waited_for(void **state)
{
    struct scene *scene = *state;
    const char *subjects[] = {"dlq.>"};
    atomic_store(&said, 0);
    log_set(LOG_INFO, keep_line, NULL);
    make_stream(scene, "DLQ", "dlq.task.>", NULL);
    office_open_now(scene);
    UNTIL(atomic_load(&said) > 0);
    assert_non_null(strstr(logged, "does not take all of dlq.>"));
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = "DLQ";
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    assert_int_equal(js_UpdateStream(NULL, scene->js, &config, NULL, NULL), NATS_OK);
    UNTIL(has_consumer(scene));
    send_text(scene, "dlq.agent.x", LETTER("one", "s", "1"));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(atomic_load(&said), 1);
}

/* ---- out again ------------------------------------------------------------------------------- */

/* take_one waits for the one message of a subscription, and checks that it is only one. */
static natsMsg *take_one(natsSubscription *subscription)
{
    natsMsg *msg = NULL, *other = NULL;
    assert_int_equal(natsSubscription_NextMsg(&msg, subscription, 30000), NATS_OK);
    assert_int_equal(natsSubscription_NextMsg(&other, subscription, 1), NATS_TIMEOUT);
    return msg;
}

static void assert_message(natsMsg *msg, const char *bytes, const char *id)
{
    const char *value = NULL, **keys = NULL;
    int count = 0;
    assert_int_equal(natsMsg_GetDataLength(msg), strlen(bytes));
    assert_memory_equal(natsMsg_GetData(msg), bytes, strlen(bytes));
    assert_int_equal(natsMsgHeader_Get(msg, "Nats-Msg-Id", &value), NATS_OK);
    assert_string_equal(value, id);
    assert_int_equal(natsMsgHeader_Keys(msg, &keys, &count), NATS_OK);
    assert_int_equal(count, 1);
    free(keys);
    natsMsg_Destroy(msg);
}

static void a_letter_goes_back_into_its_stream_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    natsMsg *msg = NULL;
    make_stream(scene, "WORK", "swarm.task.>", NULL);
    send_text(scene, "dlq.task.agent_crashed", LETTER("one", "swarm.task.request", ODD));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(bring_back(scene, "one"), LETTER_RECOVERED);
    UNTIL(counts(scene).replayed == 1);
    assert_int_equal(js_GetMsg(&msg, scene->js, "WORK", 1, NULL, NULL), NATS_OK);
    assert_message(msg, ODD, "one:1");
    assert_int_equal(js_GetMsg(&msg, scene->js, "WORK", 2, NULL, NULL), NATS_NOT_FOUND);
}

static void a_letter_goes_back_to_a_subscriber_without_a_stream(void **state)
{
    struct scene *scene = *state;
    natsSubscription *subscription = NULL;
    assert_int_equal(natsConnection_SubscribeSync(&subscription, scene->client, "plain.*"),
                     NATS_OK);
    assert_int_equal(natsConnection_Flush(scene->client), NATS_OK);
    send_text(scene, "dlq.task.agent_crashed", LETTER("one", "plain.request", ODD));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(bring_back(scene, "one"), LETTER_RECOVERED);
    assert_message(take_one(subscription), ODD, "one:1");
    natsSubscription_Destroy(subscription);
}

static void a_letter_that_nobody_takes_is_dead_as_before(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.task.agent_crashed", LETTER("one", "nobody.there", ODD));
    send_text(scene, "dlq.task.agent_crashed", LETTER("two", "two words", ODD));
    send_text(scene, "dlq.task.agent_crashed", LETTER("three", "any.>", ODD));
    UNTIL(letter_count(scene) == 3);
    assert_int_equal(bring_back(scene, "one"), LETTER_DEAD);
    assert_non_null(strstr(last_why(scene, "replay-failed"), "nobody listens on nobody.there"));
    assert_int_equal(bring_back(scene, "two"), LETTER_DEAD);
    assert_non_null(strstr(last_why(scene, "replay-failed"), "has a space"));
    assert_int_equal(bring_back(scene, "three"), LETTER_DEAD);
    assert_non_null(strstr(last_why(scene, "replay-failed"), "has a wildcard"));
    UNTIL(counts(scene).refused == 3);
    assert_true(letter_now(scene, "one").recoverable);
}

static void a_stream_that_is_full_refuses_and_says_why(void **state)
{
    struct scene *scene = *state;
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.MaxMsgs = 1;
    config.Discard = js_DiscardNew;
    make_stream(scene, "FULL", "full.>", &config);
    send_text(scene, "full.up", "x");
    send_text(scene, "dlq.task.agent_crashed", LETTER("one", "full.up", ODD));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(bring_back(scene, "one"), LETTER_DEAD);
    assert_non_null(strstr(last_why(scene, "replay-failed"), "maximum messages exceeded"));
}

static void what_was_refused_once_arrives_when_somebody_listens(void **state)
{
    struct scene *scene = *state;
    natsMsg *msg = NULL;
    send_text(scene, "dlq.task.agent_crashed", LETTER("one", "later.on", ODD));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(bring_back(scene, "one"), LETTER_DEAD);
    make_stream(scene, "LATER", "later.>", NULL);
    assert_int_equal(bring_back(scene, "one"), LETTER_RECOVERED);
    assert_int_equal(js_GetMsg(&msg, scene->js, "LATER", 1, NULL, NULL), NATS_OK);
    assert_message(msg, ODD, "one:1");
}

static void a_thousand_letters_go_back_once_each_through_a_crash(void **state)
{
    struct scene *scene = *state;
    char text[256];
    jsStreamInfo *info = NULL;
    make_stream(scene, "WORK", "swarm.task.>", NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text),
                 "{\"dlq_id\":\"%d\",\"original_subject\":\"swarm.task.%d\","
                 "\"original_payload\":%d,\"recoverable\":true}",
                 i, i % 7, i);
        send_text(scene, "dlq.task.x", text);
    }
    UNTIL(letter_count(scene) == 1000);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "%d", i);
        UNTIL(retry(scene, text).status == STATUS_OK);
        if (i == 500) {
            natsserver_stop(&scene->server, SIGKILL);
            natsserver_start(&scene->server);
        }
    }
    UNTIL(counts(scene).replayed == 1000);
    UNTIL(natsConnection_Status(scene->client) == NATS_CONN_STATUS_CONNECTED);
    UNTIL(js_GetStreamInfo(&info, scene->js, "WORK", NULL, NULL) == NATS_OK);
    assert_int_equal(info->State.Msgs, 1000);
    jsStreamInfo_Destroy(info);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

/* wait_for_the_present has jobs die until one is told: from then on each is. */
static void wait_for_the_present(struct scene *scene)
{
    static int number;
    char job_id[32];
    do {
        snprintf(job_id, sizeof(job_id), "first-%d", number++);
        die(scene, job_id, "");
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    } while (counts(scene).announced == 0);
}

static void assert_told(struct scene *scene, const char *dlq_id, const char *subject)
{
    int times;
    char id[128];
    const char *value = NULL;
    natsMsg *msg = find_told(scene, dlq_id, &times);
    assert_non_null(msg);
    assert_int_equal(times, 1);
    assert_string_equal(natsMsg_GetSubject(msg), subject);
    struct slice text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    assert_true(has_text(text, "\"original_payload\":{\"job_id\":"));
    assert_true(has_text(text, " \"n\": 1.50}"));
    snprintf(id, sizeof(id), "%s:%lld", dlq_id, (long long)letter_now(scene, dlq_id).failed_at.us);
    assert_int_equal(natsMsgHeader_Get(msg, "Nats-Msg-Id", &value), NATS_OK);
    assert_string_equal(value, id);
    natsMsg_Destroy(msg);
}

static void deaths_are_told_under_the_subject_of_their_reason(void **state)
{
    struct scene *scene = *state;
    static const char *const cases[][2] = {
        {"no_capable_agent", "dlq.task.unassignable"},
        {"timeout_in_progress", "dlq.task.execution_timeout"},
        {"crash_loop", "dlq.agent.crash_loop"},
        {"sunspots", "dlq.task.unknown"},
        {"", "dlq.task.retries_exhausted"},
    };
    const size_t count = sizeof(cases) / sizeof(cases[0]);
    const char *ids[sizeof(cases) / sizeof(cases[0])];
    char job_id[32];
    wait_for_the_present(scene);
    uint64_t before = counts(scene).announced;
    for (size_t i = 0; i < count; i++) {
        snprintf(job_id, sizeof(job_id), "job-%zu", i);
        ids[i] = die(scene, job_id, cases[i][0]);
    }
    UNTIL(counts(scene).announced >= before + count);
    for (size_t i = 0; i < count; i++)
        assert_told(scene, ids[i], cases[i][1]);
    size_t there = letter_count(scene);
    UNTIL(all_acknowledged(scene));
    assert_true(counts(scene).duplicates >= count);
    assert_int_equal(counts(scene).ingested, 0);
    assert_int_equal(letter_count(scene), there);
}

static void deaths_before_the_first_office_are_history_and_later_ones_are_not(void **state)
{
    struct scene *scene = *state;
    int times;
    const char *old = die(scene, "old", "");
    office_open_now(scene);
    UNTIL(has_consumer(scene));
    wait_for_the_present(scene);
    office_close_now(scene);
    const char *meanwhile = die(scene, "meanwhile", "");
    office_open_now(scene);
    UNTIL(counts(scene).announced > 0);
    assert_told(scene, meanwhile, "dlq.task.retries_exhausted");
    assert_null(find_told(scene, old, &times));
}

static void letters_from_elsewhere_are_not_told(void **state)
{
    struct scene *scene = *state;
    int times;
    send_text(scene, "dlq.task.x", LETTER("one", "s", "1"));
    UNTIL(letter_count(scene) == 1);
    wait_for_the_present(scene);
    natsMsg_Destroy(find_told(scene, "one", &times));
    assert_int_equal(times, 1);
}

static void a_letter_that_is_too_large_for_nats_is_told_without_what_it_carries(void **state)
{
    struct scene *scene = *state;
    int times;
    wait_for_the_present(scene);
    uint64_t before = counts(scene).announced;
    const char *id = die_of(scene, "large", "", 700 << 10);
    UNTIL(counts(scene).announced > before);
    natsMsg *msg = find_told(scene, id, &times);
    assert_non_null(msg);
    struct slice text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    assert_true(has_text(text, "\"original_payload\":null"));
    assert_true(has_text(text, "\"recoverable\":false"));
    assert_true(has_text(text, "\"truncated_bytes\":"));
    natsMsg_Destroy(msg);
    UNTIL(all_acknowledged(scene));
    assert_int_equal(counts(scene).ingested, 0);
}

/* ---- without NATS ---------------------------------------------------------------------------- */

static void an_office_opens_without_nats_and_connects_later(void **state)
{
    struct scene *scene = *state;
    client_close(scene);
    natsserver_stop(&scene->server, SIGTERM);
    office_open_now(scene);
    assert_false(counts(scene).connected);
    natsserver_start(&scene->server);
    client_open(scene);
    UNTIL(counts(scene).connected && has_consumer(scene));
    send_text(scene, "dlq.task.x", LETTER("one", "s", "1"));
    UNTIL(letter_count(scene) == 1);
}

static void an_office_that_never_connected_can_be_closed(void **state)
{
    struct scene *scene = *state;
    client_close(scene);
    natsserver_stop(&scene->server, SIGTERM);
    office_open_now(scene);
    office_close_now(scene);
}

static atomic_bool gone;

static void note_gone(enum log_level level, const char *line, void *ctx)
{
    (void)level;
    (void)ctx;
    if (strstr(line, "republish: the connection is gone"))
        atomic_store(&gone, true);
}

static void while_nats_is_away_a_retry_is_refused_and_deaths_are_kept(void **state)
{
    struct scene *scene = *state;
    send_text(scene, "dlq.task.x", LETTER("one", "dlq.back", "1"));
    UNTIL(letter_count(scene) == 1);
    wait_for_the_present(scene);
    atomic_store(&gone, false);
    log_set(LOG_INFO, note_gone, NULL);
    natsserver_stop(&scene->server, SIGTERM);
    UNTIL(atomic_load(&gone));
    assert_int_equal(retry(scene, "one").status, STATUS_UNAVAILABLE);
    assert_false(counts(scene).connected);
    assert_false(natsoffice_publish(scene->office, SLICE("swarm.alert.dlq"), SLICE("{}")));
    const char *id = die(scene, "meanwhile", "");
    natsserver_start(&scene->server);
    UNTIL(counts(scene).connected);
    UNTIL(natsConnection_Status(scene->client) == NATS_CONN_STATUS_CONNECTED);
    int times = 0;
    UNTIL((natsMsg_Destroy(find_told(scene, id, &times)), times) == 1);
    assert_int_equal(bring_back(scene, "one"), LETTER_RECOVERED);
}

static void anybody_can_be_told_something(void **state)
{
    struct scene *scene = *state;
    natsSubscription *subscription = NULL;
    assert_int_equal(natsConnection_SubscribeSync(&subscription, scene->client, "swarm.alert.dlq"),
                     NATS_OK);
    assert_int_equal(natsConnection_Flush(scene->client), NATS_OK);
    assert_true(natsoffice_publish(scene->office, SLICE("swarm.alert.dlq"), SLICE("{\"n\":1}")));
    natsMsg *msg = take_one(subscription);
    assert_string_equal(natsMsg_GetData(msg), "{\"n\":1}");
    natsMsg_Destroy(msg);
    natsSubscription_Destroy(subscription);
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, scene_setup, scene_teardown)
#define APART(name) cmocka_unit_test_setup_teardown(name, scene_setup_apart, scene_teardown)

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        SCENE(a_letter_is_taken_in_as_it_is_and_acknowledged),
        SCENE(what_a_letter_leaves_open_is_derived),
        SCENE(the_same_letter_twice_is_stored_once),
        SCENE(a_message_that_is_delivered_again_is_the_same_letter),
        SCENE(what_is_no_letter_is_kept_byte_for_byte),
        SCENE(a_letter_that_the_engine_refuses_is_kept_as_malformed),
        SCENE(nothing_is_acknowledged_before_it_is_on_disk),
        SCENE(an_office_that_ends_while_the_store_fails_loses_nothing),
        SCENE(a_crash_of_the_server_loses_and_doubles_nothing),
        SCENE(a_removed_consumer_is_made_again),
        APART(a_stream_that_takes_too_little_is_told_and_waited_for),
        SCENE(a_letter_goes_back_into_its_stream_byte_for_byte),
        SCENE(a_letter_goes_back_to_a_subscriber_without_a_stream),
        SCENE(a_letter_that_nobody_takes_is_dead_as_before),
        SCENE(a_stream_that_is_full_refuses_and_says_why),
        SCENE(what_was_refused_once_arrives_when_somebody_listens),
        SCENE(a_thousand_letters_go_back_once_each_through_a_crash),
        SCENE(deaths_are_told_under_the_subject_of_their_reason),
        APART(deaths_before_the_first_office_are_history_and_later_ones_are_not),
        SCENE(letters_from_elsewhere_are_not_told),
        SCENE(a_letter_that_is_too_large_for_nats_is_told_without_what_it_carries),
        APART(an_office_opens_without_nats_and_connects_later),
        APART(an_office_that_never_connected_can_be_closed),
        SCENE(while_nats_is_away_a_retry_is_refused_and_deaths_are_kept),
        SCENE(anybody_can_be_told_something),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    nats_Close();
    return failed;
}
