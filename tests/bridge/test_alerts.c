/* Alerts over a real engine in virtual time: what goes out, when, and what a crash does to it. */
#include "bridge/seat_fixture.h"

#include "bridge/alerts.h"
#include "core/delivery.h"

#define HEARD_MAX 64
#define SEEN_MAX 64

/* struct crier: alerts, their seat, and what was heard on NATS. */
struct crier {
    struct seat seat;
    struct alerts alerts;
    struct arena arena;
    struct slice heard[HEARD_MAX];
    size_t heard_count;
    bool deaf; /* nobody is connected */
};

static bool hear(void *ctx, struct slice subject, struct slice body)
{
    struct crier *crier = ctx;
    assert_true(slice_is(subject, ALERT_SUBJECT));
    if (crier->deaf)
        return false;
    assert_true(crier->heard_count < HEARD_MAX);
    crier->heard[crier->heard_count++] = arena_dup(&crier->arena, body);
    return true;
}

static void appoint_with(struct world *world, struct crier *crier, const char *server,
                         struct alerts_config config)
{
    struct err err;
    *crier = (struct crier){.seat = seat_of(world, server)};
    config.publish = hear;
    config.publish_ctx = crier;
    assert_int_equal(alerts_init(&crier->alerts, &crier->seat, &config, &err), STATUS_OK);
    /* The first look finds where the evidence ends. */
    alerts_run(&crier->alerts);
}

static void appoint(struct world *world, struct crier *crier, const char *server)
{
    appoint_with(
        world, crier, server,
        (struct alerts_config){.slack = ALERTS_TARGET_SLACK, .webhook = ALERTS_TARGET_WEBHOOK});
}

static void dismiss(struct crier *crier)
{
    alerts_release(&crier->alerts);
    arena_release(&crier->arena);
}

/* look lets seconds pass, one by one, and has the alerts look at each. */
static void look(struct world *world, struct crier *crier, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        world_pass(world, SECOND_MS);
        alerts_run(&crier->alerts);
    }
}

/* ---- what was handed over -------------------------------------------------------------------- */

/* struct seen: deliveries that are pending, in the order of their coming. */
struct seen {
    struct slice bodies[SEEN_MAX], job_ids[SEEN_MAX];
    size_t count;
    int64_t cursor; /* of the duty */
    int64_t head;
};

static enum status see(struct engine *engine, struct store *store, void *ctx, struct arena *arena,
                       struct err *err)
{
    struct seen *seen = ctx;
    struct job_row *rows;
    struct stored_envelope stored;
    struct duty duty = {0};
    struct hash hash;
    size_t count;
    (void)engine;
    enum status status =
        store->job_list(store, -1, SLICE(DELIVERY_QUEUE), 0, SEEN_MAX, arena, &rows, &count, err);
    for (size_t i = count; !status && i-- > 0;) {
        status = store->envelope_get(store, rows[i].job.envelope_seq, arena, &stored, err);
        seen->job_ids[seen->count] = stored.job_id;
        seen->bodies[seen->count++] = stored.body;
    }
    if (store->duty_get(store, SLICE(ALERTS_DUTY), arena, &duty, err) == STATUS_OK)
        seen->cursor = duty.cursor;
    err->text[0] = '\0';
    store->event_head(store, &seen->head, &hash);
    return status;
}

static struct seen seen(struct world *world)
{
    struct seen out = {0};
    struct read_command command = {.read = see, .ctx = &out};
    if (run(world, &command.command, COMMAND_READ))
        fail_msg("%s", command.command.err.text);
    return out;
}

static void assert_has(struct slice text, const char *words)
{
    if (!memmem(text.ptr, text.len, words, strlen(words)))
        fail_msg("%.*s does not say %s", SLICE_ARG(text), words);
}

static void assert_has_not(struct slice text, const char *words)
{
    if (memmem(text.ptr, text.len, words, strlen(words)))
        fail_msg("%.*s says %s", SLICE_ARG(text), words);
}

static int64_t total_of(struct slice heard)
{
    struct json json, total;
    int64_t value = -1;
    assert_int_equal(json_parse(heard, &json, NULL), STATUS_OK);
    assert_true(json_get(json, "total", &total));
    assert_true(json_int(total, &value));
    return value;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void the_first_goes_out_at_once_and_a_digest_later(void **state)
{
    struct world *world = *state;
    struct crier crier;
    die(world, "before"); /* nobody followed then */
    appoint(world, &crier, "one");
    look(world, &crier, 3);
    assert_int_equal(seen(world).count, 0);
    struct slice dead = die(world, "mail");
    look(world, &crier, 1);
    struct seen posts = seen(world);
    assert_int_equal(posts.count, 2);
    assert_has(posts.bodies[0], "\"target\":\"slack\",\"kind\":\"slack\"");
    assert_has(posts.bodies[0], "\"source\":\"alerts\"");
    assert_has(posts.bodies[0], "\"retry_policy\":\"receipts\"");
    assert_has(posts.bodies[0], "Dead letter: retries_exhausted");
    assert_has(posts.bodies[1], "\"target\":\"alert-webhook\",\"kind\":\"http\"");
    assert_has(posts.bodies[1], "\"event\":\"dead_letters\",\"first\":true");
    assert_has(posts.bodies[1],
               arena_printf(&world->arena, "\"sample_dlq_id\":\"%.*s\"", SLICE_ARG(dead)).ptr);
    assert_int_equal(crier.heard_count, 1);
    for (int i = 0; i < 7; i++)
        die(world, "mail");
    look(world, &crier, 30);
    assert_int_equal(seen(world).count, 2);
    look(world, &crier, 1);
    posts = seen(world);
    assert_int_equal(posts.count, 4);
    assert_has(posts.bodies[2], "*7 more*");
    assert_has(posts.bodies[3], "\"first\":false,\"window_seconds\":30");
    assert_has(posts.bodies[3], "\"count\":7");
    assert_int_equal(crier.heard_count, 2);
    assert_int_equal(total_of(crier.heard[1]), 7);
    assert_int_equal(crier.alerts.counts.slack, 2);
    assert_int_equal(crier.alerts.counts.webhook, 2);
    assert_int_equal(crier.alerts.counts.nats, 2);
    assert_int_equal(crier.alerts.counts.firsts, 1);
    assert_int_equal(crier.alerts.counts.digested, 7);
    look(world, &crier, 100);
    assert_int_equal(seen(world).count, 4);
    dismiss(&crier);
}

static void nothing_is_lost_while_letters_keep_coming(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    int64_t died = 0, said = 0;
    for (int second = 0; second < 150; second++) {
        for (int i = 0; i < second % 4; i++, died++)
            die(world, i % 2 ? "mail" : "web");
        look(world, &crier, 1);
    }
    look(world, &crier, 31);
    for (size_t i = 0; i < crier.heard_count; i++)
        said += total_of(crier.heard[i]);
    assert_int_equal(said, died);
    /* One at once (they are one group), and at most one digest in 30 seconds. */
    assert_in_range(crier.heard_count, 5, 1 + 181 / 30);
    dismiss(&crier);
}

static void letters_that_come_in_are_said_too(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    make_letters(world, (struct made){"far", "elsewhere", ago(world, 5), true, false, 0}, 20);
    look(world, &crier, 1);
    assert_int_equal(crier.heard_count, 1);
    assert_has(crier.heard[0], "\"sample_dlq_id\":\"far-00000\"");
    assert_has(crier.heard[0], "\"reason\":\"timeout_assigned\",\"source\":\"swarm\"");
    look(world, &crier, 31);
    assert_int_equal(crier.heard_count, 2);
    assert_int_equal(total_of(crier.heard[1]), 19);
    /* One that was settled before it came is no news. */
    struct import_item item = {.letter = {.dlq_id = SLICE("settled"),
                                          .original_subject = SLICE("a.b"),
                                          .reason = SLICE("r"),
                                          .source = SLICE("s"),
                                          .state = LETTER_RECOVERED,
                                          .recovered_at = ago(world, 1),
                                          .foreign = true},
                               .body = SLICE("x")};
    struct import_command command = {.items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_IMPORT), STATUS_OK);
    look(world, &crier, 40);
    assert_int_equal(crier.heard_count, 2);
    assert_int_equal(crier.alerts.counts.suppressed, 1);
    dismiss(&crier);
}

/* take_posts leases the deliveries, as the office does. */
static struct lease_command take_posts(struct world *world)
{
    struct slice queue = SLICE(DELIVERY_QUEUE), able = SLICE(DELIVERY_CAPABILITY);
    struct lease_command take = {
        .worker_id = SLICE("office"), .query = {&queue, 1, &able, 1}, .max = 10};
    assert_int_equal(run(world, &take.command, COMMAND_LEASE), STATUS_OK);
    return take;
}

static void an_alert_that_died_is_not_said(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    die(world, "mail");
    look(world, &crier, 1);
    /* Both deliveries are refused for good. */
    struct lease_command take = take_posts(world);
    assert_int_equal(take.count, 2);
    for (size_t i = 0; i < take.count; i++)
        assert_int_equal(report_failed(world, &take.leases[i],
                                       "{\"class\":\"client_error\",\"message\":\"no_service\"}")
                             .state,
                         JOB_DEAD);
    look(world, &crier, 60);
    assert_int_equal(crier.heard_count, 1);
    assert_int_equal(seen(world).count, 2);
    assert_int_equal(crier.alerts.counts.suppressed, 2);
    dismiss(&crier);
}

/* set_group does what a person does with the group of a letter. */
static void set_group(struct world *world, struct slice dlq_id, enum group_status status)
{
    struct group_command command = {.fingerprint = letter(world, dlq_id).fingerprint,
                                    .status = status};
    assert_int_equal(run(world, &command.command, COMMAND_GROUP), STATUS_OK);
}

static void a_group_that_was_resolved_is_said_at_once_when_it_comes_back(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    struct slice dead = die(world, "mail");
    look(world, &crier, 1);
    assert_int_equal(crier.heard_count, 1);
    set_group(world, dead, GROUP_RESOLVED);
    die(world, "mail");
    look(world, &crier, 1);
    assert_int_equal(crier.heard_count, 2);
    assert_has(crier.heard[1], "\"first\":true");
    dismiss(&crier);
}

static void a_group_that_is_ignored_is_not_said(void **state)
{
    struct world *world = *state;
    struct crier crier;
    struct slice dead = die(world, "mail");
    set_group(world, dead, GROUP_IGNORED);
    appoint(world, &crier, "one");
    die(world, "mail");
    look(world, &crier, 40);
    assert_int_equal(crier.heard_count, 0);
    assert_int_equal(crier.alerts.counts.suppressed, 1);
    set_group(world, dead, GROUP_OPEN);
    die(world, "mail");
    look(world, &crier, 1);
    assert_int_equal(crier.heard_count, 1);
    set_group(world, dead, GROUP_IGNORED);
    die(world, "mail");
    look(world, &crier, 40);
    assert_int_equal(crier.heard_count, 1);
    dismiss(&crier);
}

static void what_was_only_counted_is_counted_again_after_a_crash(void **state)
{
    struct world *world = *state;
    struct crier crier, next;
    appoint(world, &crier, "one");
    die(world, "mail");
    look(world, &crier, 1);
    for (int i = 0; i < 5; i++)
        die(world, "mail");
    look(world, &crier, 10);
    assert_int_equal(crier.heard_count, 1);
    dismiss(&crier); /* it is gone, without a word */
    world_reopen(world);
    appoint(world, &next, "one");
    die(world, "mail");
    look(world, &next, 31);
    assert_int_equal(next.heard_count, 1);
    assert_has(next.heard[0], "\"first\":false");
    assert_int_equal(total_of(next.heard[0]), 6);
    assert_int_equal(seen(world).count, 4);
    dismiss(&next);
}

static void a_message_that_was_handed_over_before_a_crash_is_not_sent_again(void **state)
{
    struct world *world = *state;
    struct crier crier, next;
    appoint(world, &crier, "one");
    int64_t cursor = seen(world).cursor;
    die(world, "mail");
    look(world, &crier, 1);
    struct lease_command take = take_posts(world);
    assert_int_equal(take.count, 2);
    for (size_t i = 0; i < take.count; i++)
        assert_int_equal(complete(world, &take.leases[i]).state, JOB_DONE);
    dismiss(&crier);
    /* As if it had died between handing over and writing that down. */
    struct duty_command back = {.name = SLICE(ALERTS_DUTY),
                                .holder = SLICE("one"),
                                .ttl = span_seconds(30),
                                .advance = true,
                                .cursor = cursor};
    assert_int_equal(run(world, &back.command, COMMAND_DUTY), STATUS_OK);
    assert_true(back.held);
    appoint(world, &next, "one");
    look(world, &next, 2);
    assert_int_equal(next.alerts.counts.firsts, 1);
    assert_int_equal(next.alerts.counts.slack, 0);
    assert_int_equal(seen(world).count, 2);
    assert_true(seen(world).cursor > cursor);
    dismiss(&next);
}

static void one_server_says_it_and_another_takes_over(void **state)
{
    struct world *world = *state;
    struct crier one, two;
    appoint(world, &one, "one");
    appoint(world, &two, "two");
    die(world, "mail");
    for (int i = 0; i < 40; i++) {
        look(world, &one, 1);
        alerts_run(&two.alerts);
    }
    assert_int_equal(one.heard_count, 1);
    assert_int_equal(two.heard_count, 0);
    die(world, "mail"); /* and one is gone */
    look(world, &two, 75);
    assert_int_equal(two.heard_count, 1);
    assert_has(two.heard[0], "\"first\":false");
    assert_int_equal(total_of(two.heard[0]), 1);
    /* The first, which was only asleep, finds that it is not its turn. */
    die(world, "mail");
    look(world, &one, 1);
    assert_int_equal(one.heard_count, 1);
    alerts_leave(&two.alerts);
    look(world, &one, 40);
    assert_int_equal(one.heard_count, 2);
    dismiss(&one);
    dismiss(&two);
}

static void an_engine_that_takes_no_more_is_asked_again(void **state)
{
    struct world *world = *state;
    struct crier crier;
    world->config.live_max = 2;
    world_reopen(world);
    appoint(world, &crier, "one");
    die(world, "mail");
    for (int i = 0; i < 2; i++)
        assert_int_equal(push(world, "{\"action\":\"x\",\"queue\":\"full\"}").status, STATUS_OK);
    look(world, &crier, 5);
    assert_int_equal(seen(world).count, 0);
    assert_int_equal(crier.heard_count, 0);
    lease_count(world, "full");
    world->config.live_max = 0;
    dismiss(&crier);
    world_reopen(world);
    appoint(world, &crier, "one");
    look(world, &crier, 1);
    assert_int_equal(seen(world).count, 2);
    assert_int_equal(crier.heard_count, 1);
    dismiss(&crier);
}

static void a_nats_that_is_away_holds_up_nobody(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    crier.deaf = true;
    die(world, "mail");
    look(world, &crier, 1);
    assert_int_equal(seen(world).count, 2);
    assert_int_equal(crier.alerts.counts.nats, 0);
    crier.deaf = false;
    look(world, &crier, 1);
    assert_int_equal(crier.heard_count, 1);
    assert_int_equal(crier.alerts.counts.nats, 1);
    look(world, &crier, 40);
    assert_int_equal(crier.heard_count, 1);
    assert_int_equal(crier.alerts.counts.failed, 0);
    dismiss(&crier);
}

static void what_nats_never_took_is_counted(void **state)
{
    struct world *world = *state;
    struct crier crier;
    char queue[16];
    appoint(world, &crier, "one");
    crier.deaf = true;
    for (int i = 0; i < ALERTS_WAITING_MAX + 3; i++) {
        snprintf(queue, sizeof(queue), "mail%d", i);
        die_of(world, queue, "", FAILURE);
        look(world, &crier, ALERTBOOK_WINDOW_SECONDS + 1);
    }
    uint64_t dropped = crier.alerts.counts.failed;
    assert_int_equal(crier.alerts.waiting_count, ALERTS_WAITING_MAX);
    assert_true(dropped > 0);
    alerts_leave(&crier.alerts);
    assert_int_equal(crier.alerts.counts.failed, dropped + ALERTS_WAITING_MAX);
    assert_int_equal(crier.alerts.counts.nats, 0);
    dismiss(&crier);
}

static void what_is_masked_is_masked_here(void **state)
{
    struct world *world = *state;
    struct crier crier;
    const struct redaction *redaction;
    struct slice pointer = SLICE("/inputs/customer");
    struct err err;
    assert_int_equal(redaction_parse(&pointer, 1, &world->arena, &redaction, &err), STATUS_OK);
    appoint_with(world, &crier, "one",
                 (struct alerts_config){.slack = ALERTS_TARGET_SLACK, .redaction = redaction});
    die_of(world, "mail", "\"inputs\":{\"customer\":\"Lovelace\"}",
           "{\"class\":\"timeout\",\"message\":\"no answer for Lovelace today\"}");
    look(world, &crier, 1);
    struct seen posts = seen(world);
    assert_int_equal(posts.count, 1);
    assert_has(posts.bodies[0], "[redacted]");
    assert_has_not(posts.bodies[0], "Lovelace");
    assert_has_not(crier.heard[0], "Lovelace");
    dismiss(&crier);
}

static void the_cursor_follows_what_was_said_and_is_not_written_for_nothing(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    assert_int_equal(seen(world).cursor, -1); /* the store is empty */
    for (int i = 0; i < 5; i++)
        push(world, "{\"action\":\"x\",\"queue\":\"other\"}");
    look(world, &crier, 5);
    assert_int_equal(seen(world).cursor, -1);
    look(world, &crier, 6);
    assert_int_equal(seen(world).cursor, 5);
    die(world, "mail");
    int64_t death = seen(world).head;
    look(world, &crier, 1);
    assert_int_equal(seen(world).cursor, death);
    die(world, "mail");
    int64_t counted = seen(world).head;
    look(world, &crier, 20);
    assert_in_range(seen(world).cursor, death, counted - 1);
    look(world, &crier, 12);
    assert_true(seen(world).cursor >= counted);
    dismiss(&crier);
}

static void deaths_in_an_empty_store_are_found_after_a_crash(void **state)
{
    struct world *world = *state;
    struct crier crier;
    appoint(world, &crier, "one");
    die(world, "mail");
    dismiss(&crier);
    world_reopen(world);
    appoint(world, &crier, "one");
    look(world, &crier, 1);
    assert_int_equal(crier.heard_count, 1);
    dismiss(&crier);
}

static void targets_are_made_of_addresses(void **state)
{
    struct world *world = *state;
    struct target configured = {.name = SLICE("hooks"), .url = SLICE("http://h/")};
    struct targets targets = {.list = &configured, .count = 1};
    struct target found;
    struct err err;
    assert_int_equal(alerts_targets_add(&targets, "https://hooks.slack.com/services/T/B/secret",
                                        "http://10.0.0.1:9000/x", &world->arena, &err),
                     STATUS_OK);
    assert_int_equal(targets.count, 3);
    assert_int_equal(
        targets_resolve(&targets, SLICE("slack"), DELIVERY_HTTP, &world->arena, &found, &err),
        STATUS_OK);
    assert_int_equal(found.kind, DELIVERY_SLACK);
    assert_true(found.trusted && found.private_path);
    assert_true(slice_is(found.url, "https://hooks.slack.com:443/services/T/B/secret"));
    assert_int_equal(targets_resolve(&targets, SLICE("alert-webhook"), DELIVERY_HTTP, &world->arena,
                                     &found, &err),
                     STATUS_OK);
    assert_int_equal(found.kind, DELIVERY_HTTP);
    assert_int_equal(
        targets_resolve(&targets, SLICE("hooks"), DELIVERY_HTTP, &world->arena, &found, &err),
        STATUS_OK);
    /* A name that is taken, and an address that is none. */
    configured.name = SLICE("slack");
    targets = (struct targets){.list = &configured, .count = 1};
    assert_int_equal(alerts_targets_add(&targets, "https://h/", NULL, &world->arena, &err),
                     STATUS_INVALID);
    assert_int_equal(alerts_targets_add(&targets, NULL, "https://h/", &world->arena, &err),
                     STATUS_OK);
    assert_int_equal(alerts_targets_add(&targets, NULL, NULL, &world->arena, &err), STATUS_OK);
    targets = (struct targets){0};
    assert_int_equal(alerts_targets_add(&targets, "ftp://h/", NULL, &world->arena, &err),
                     STATUS_INVALID);
    assert_int_equal(targets.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_first_goes_out_at_once_and_a_digest_later),
        CASE(nothing_is_lost_while_letters_keep_coming),
        CASE(letters_that_come_in_are_said_too),
        CASE(an_alert_that_died_is_not_said),
        CASE(a_group_that_was_resolved_is_said_at_once_when_it_comes_back),
        CASE(a_group_that_is_ignored_is_not_said),
        CASE(what_was_only_counted_is_counted_again_after_a_crash),
        CASE(a_message_that_was_handed_over_before_a_crash_is_not_sent_again),
        CASE(one_server_says_it_and_another_takes_over),
        CASE(an_engine_that_takes_no_more_is_asked_again),
        CASE(a_nats_that_is_away_holds_up_nobody),
        CASE(what_nats_never_took_is_counted),
        CASE(what_is_masked_is_masked_here),
        CASE(the_cursor_follows_what_was_said_and_is_not_written_for_nothing),
        CASE(deaths_in_an_empty_store_are_found_after_a_crash),
        CASE(targets_are_made_of_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
