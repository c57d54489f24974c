/* The NATS bridge when something refuses or does not answer: what is not known is not said, and one
 * letter does not stop the others. */
#include "bridge/nats_scene.h"

#define LETTER(id, subject)                                                                        \
    "{\"dlq_id\":\"" id "\",\"original_subject\":\"" subject "\",\"original_payload\":\"" id       \
    "\",\"reason\":\"agent_crashed\",\"recoverable\":true}"

#define SUBJECTS 40 /* three seconds for each would be longer than UNTIL is patient */

/* forbid_lookup has the server drop questions for the names of streams. */
static void forbid_lookup(struct scene *scene)
{
    client_close(scene);
    natsserver_stop(&scene->server, SIGTERM);
    natsserver_configure(&scene->server,
                         "authorization { users = [ { user: a, password: b, permissions: { "
                         "publish: { deny: [\"$JS.API.STREAM.NAMES\"] } } } ] }\n"
                         "no_auth_user: a");
    natsserver_start(&scene->server);
    client_open(scene);
}

static void open_without_lookup(struct scene *scene)
{
    forbid_lookup(scene);
    office_open_now(scene);
    UNTIL(has_consumer(scene));
}

static int64_t messages_of(struct scene *scene, const char *stream)
{
    jsStreamInfo *info = NULL;
    if (js_GetStreamInfo(&info, scene->js, stream, NULL, NULL) != NATS_OK)
        return -1;
    int64_t count = (int64_t)info->State.Msgs;
    jsStreamInfo_Destroy(info);
    return count;
}

/* ---- is there a stream? ---------------------------------------------------------------------- */

static void what_a_stream_refuses_is_dead_though_nobody_says_that_there_is_one(void **state)
{
    struct scene *scene = *state;
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.MaxMsgs = 1;
    config.Discard = js_DiscardNew;
    open_without_lookup(scene);
    make_stream(scene, "FULL", "full.>", &config);
    send_text(scene, "full.up", "x");
    send_text(scene, "dlq.task.x", LETTER("one", "full.up"));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(bring_back(scene, "one"), LETTER_DEAD);
    assert_non_null(strstr(last_why(scene, "replay-failed"), "maximum messages exceeded"));
    assert_int_equal(counts(scene).replayed, 0);
}

static void letters_of_many_subjects_go_back_though_the_server_does_not_answer(void **state)
{
    struct scene *scene = *state;
    char text[256];
    open_without_lookup(scene);
    make_stream(scene, "WORK", "work.>", NULL);
    for (int i = 0; i < SUBJECTS; i++) {
        snprintf(text, sizeof(text),
                 "{\"dlq_id\":\"%d\",\"original_subject\":\"work.%d\",\"original_payload\":%d,"
                 "\"recoverable\":true}",
                 i, i, i);
        send_text(scene, "dlq.task.x", text);
    }
    UNTIL(letter_count(scene) == SUBJECTS);
    for (int i = 0; i < SUBJECTS; i++) {
        snprintf(text, sizeof(text), "%d", i);
        assert_int_equal(retry(scene, text).status, STATUS_OK);
    }
    UNTIL(counts(scene).replayed == SUBJECTS);
    assert_int_equal(messages_of(scene, "WORK"), SUBJECTS);
}

static void what_somebody_got_without_an_acknowledgement_is_for_people(void **state)
{
    struct scene *scene = *state;
    natsSubscription *heard = NULL;
    natsMsg *msg = NULL;
    open_without_lookup(scene);
    assert_int_equal(natsConnection_SubscribeSync(&heard, scene->client, "plain.*"), NATS_OK);
    assert_int_equal(natsConnection_Flush(scene->client), NATS_OK);
    send_text(scene, "dlq.task.x", LETTER("one", "plain.request"));
    UNTIL(letter_count(scene) == 1);
    assert_int_equal(retry(scene, "one").status, STATUS_OK);
    assert_int_equal(natsSubscription_NextMsg(&msg, heard, 60000), NATS_OK);
    natsMsg_Destroy(msg);
    office_close_now(scene);
    struct letter letter = letter_now(scene, "one");
    assert_int_equal(letter.state, LETTER_DEAD);
    assert_true(letter.review && !letter.recoverable);
    assert_non_null(strstr(last_why(scene, "replay-failed"), "not known whether the message"));
    assert_int_equal(natsSubscription_NextMsg(&msg, heard, 1), NATS_TIMEOUT);
    natsSubscription_Destroy(heard);
}

/* ---- a store that fails ---------------------------------------------------------------------- */

static void a_letter_that_the_store_refuses_stops_no_other(void **state)
{
    struct scene *scene = *state;
    char text[256];
    atomic_store(&commits_fail, true); /* so that they come in batches */
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof(text),
                 "{\"dlq_id\":\"%d\",\"original_subject\":\"s\",\"original_payload\":%d}", i, i);
        send_text(scene, "dlq.task.x", i == 10 ? LETTER(POISON_ID, "s") : text);
    }
    atomic_store(&commits_fail, false);
    UNTIL(letter_count(scene) == 20);
    UNTIL(all_acknowledged(scene));
    assert_int_equal(counts(scene).ingested, 20);
    assert_int_equal(counts(scene).malformed, 1);
    size_t count;
    struct letter *list = letters(scene, &count);
    for (size_t i = 0; i < count; i++) {
        if (!slice_is(list[i].reason, "malformed"))
            continue;
        assert_true(has_text(list[i].reason_detail, "the row is impossible"));
        assert_true(slice_is(payload_of_letter(scene, &list[i]), LETTER(POISON_ID, "s")));
    }
}

static atomic_bool unreported;

static void note_unreported(enum log_level level, const char *line, void *ctx)
{
    (void)level;
    (void)ctx;
    if (strstr(line, "republish: the disk is gone"))
        atomic_store(&unreported, true);
}

static void what_was_stored_is_not_sent_again_when_its_lease_ended_in_an_outage(void **state)
{
    struct scene *scene = *state;
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Duplicates = 100 * 1000000; /* ns: the stream forgets ids soon */
    make_stream(scene, "WORK", "work.>", &config);
    send_text(scene, "dlq.task.x", LETTER("one", "work.a"));
    UNTIL(letter_count(scene) == 1);
    atomic_store(&unreported, false);
    log_set(LOG_INFO, note_unreported, NULL);
    atomic_store(&recoveries_fail, true);
    assert_int_equal(retry(scene, "one").status, STATUS_OK);
    UNTIL(atomic_load(&unreported));
    assert_int_equal(messages_of(scene, "WORK"), 1);
    atomic_store(&clock_ahead_us, INT64_C(3600) * 1000000);
    UNTIL(*last_why(scene, "replay-failed")); /* the lease has ended */
    atomic_store(&clock_ahead_us, INT64_C(7200) * 1000000);
    atomic_store(&recoveries_fail, false);
    UNTIL(letter_now(scene, "one").state == LETTER_RECOVERED);
    assert_int_equal(messages_of(scene, "WORK"), 1);
    UNTIL(counts(scene).replayed == 1);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

static void deaths_before_nats_was_ever_there_are_told(void **state)
{
    struct scene *scene = *state;
    int times = 0;
    client_close(scene);
    natsserver_stop(&scene->server, SIGTERM);
    office_open_now(scene);
    const char *id = die(scene, "early", "");
    natsserver_start(&scene->server);
    client_open(scene);
    UNTIL((natsMsg_Destroy(find_told(scene, id, &times)), times) == 1);
}

static void limit_size(struct scene *scene, int32_t bytes)
{
    jsStreamConfig config;
    const char *subjects[] = {"dlq.>"};
    jsStreamConfig_Init(&config);
    config.Name = "DLQ";
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.MaxMsgSize = bytes;
    assert_int_equal(js_UpdateStream(NULL, scene->js, &config, NULL, NULL), NATS_OK);
}

static void a_letter_that_is_too_large_for_the_stream_is_told_short(void **state)
{
    struct scene *scene = *state;
    int times;
    limit_size(scene, 2000);
    const char *id = die_of(scene, "large", "", 5000);
    UNTIL(counts(scene).announced == 1);
    natsMsg *msg = find_told(scene, id, &times);
    assert_non_null(msg);
    struct slice text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    assert_true(has_text(text, "\"original_payload\":null"));
    natsMsg_Destroy(msg);
    assert_int_equal(counts(scene).announce_skipped, 0);
}

static void a_letter_that_the_stream_takes_in_no_form_is_skipped(void **state)
{
    struct scene *scene = *state;
    int times;
    limit_size(scene, 50);
    const char *lost = die(scene, "lost", "");
    UNTIL(counts(scene).announce_skipped == 1);
    limit_size(scene, -1);
    const char *id = die(scene, "told", "");
    UNTIL(counts(scene).announced == 1);
    natsMsg_Destroy(find_told(scene, id, &times));
    assert_int_equal(times, 1);
    assert_null(find_told(scene, lost, &times));
}

/* A stream that takes one message of each subject refuses the second for ever, and takes others. */
static void a_letter_that_is_refused_while_others_are_taken_is_skipped(void **state)
{
    struct scene *scene = *state;
    jsStreamConfig config;
    int times;
    jsStreamConfig_Init(&config);
    config.MaxMsgsPerSubject = 1;
    config.Discard = js_DiscardNew;
    config.DiscardNewPerSubject = true;
    make_stream(scene, "DLQ", "dlq.>", &config);
    send_text(scene, "dlq.task.unassignable", "in the way");
    office_open_now(scene);
    const char *refused = die(scene, "a", "no_capable_agent");
    const char *id = die(scene, "b", "crash_loop");
    UNTIL(counts(scene).announce_skipped == 1);
    natsMsg_Destroy(find_told(scene, id, &times));
    assert_int_equal(times, 1);
    assert_null(find_told(scene, refused, &times));
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, scene_setup, scene_teardown)
#define APART(name) cmocka_unit_test_setup_teardown(name, scene_setup_apart, scene_teardown)

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        APART(what_a_stream_refuses_is_dead_though_nobody_says_that_there_is_one),
        APART(letters_of_many_subjects_go_back_though_the_server_does_not_answer),
        APART(what_somebody_got_without_an_acknowledgement_is_for_people),
        SCENE(a_letter_that_the_store_refuses_stops_no_other),
        SCENE(what_was_stored_is_not_sent_again_when_its_lease_ended_in_an_outage),
        APART(deaths_before_nats_was_ever_there_are_told),
        SCENE(a_letter_that_is_too_large_for_the_stream_is_told_short),
        SCENE(a_letter_that_the_stream_takes_in_no_form_is_skipped),
        APART(a_letter_that_is_refused_while_others_are_taken_is_skipped),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    nats_Close();
    return failed;
}
