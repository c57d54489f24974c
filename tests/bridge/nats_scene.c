#include "bridge/nats_scene.h"

#include <string.h>

atomic_bool commits_fail, recoveries_fail;
atomic_int_fast64_t clock_ahead_us;

static enum status (*real_commit)(struct store *store, struct err *err);

static enum status failing_commit(struct store *store, struct err *err)
{
    if (atomic_load(&commits_fail))
        return err_set(err, STATUS_IO, "the disk is gone");
    return real_commit(store, err);
}

static enum status (*real_letter_put)(struct store *store, struct letter *letter,
                                      const struct slice *text, bool is_new, struct err *err);

static enum status failing_letter_put(struct store *store, struct letter *letter,
                                      const struct slice *text, bool is_new, struct err *err)
{
    if (slice_is(letter->dlq_id, POISON_ID))
        return err_set(err, STATUS_CORRUPT, "the row is impossible");
    if (atomic_load(&recoveries_fail) && letter->state == LETTER_RECOVERED)
        return err_set(err, STATUS_IO, "the disk is gone");
    return real_letter_put(store, letter, text, is_new, err);
}

static struct instant wall_ahead(void *ctx)
{
    return (struct instant){seams_real()->wall(ctx).us + atomic_load(&clock_ahead_us)};
}

static struct span steady_ahead(void *ctx)
{
    return (struct span){seams_real()->steady(ctx).us + atomic_load(&clock_ahead_us)};
}

/* ---- opening --------------------------------------------------------------------------------- */

static void engine_open(struct scene *scene)
{
    struct err err = {0};
    char path[128];
    snprintf(scene->directory, sizeof(scene->directory), "/tmp/lazaret-test-XXXXXX");
    assert_non_null(mkdtemp(scene->directory));
    snprintf(path, sizeof(path), "%s/lazaret.db", scene->directory);
    scene->seams = *seams_real();
    scene->seams.wall = wall_ahead;
    scene->seams.steady = steady_ahead;
    struct store_config store = {.path = path, .seams = &scene->seams};
    struct engine_config config = {.seams = &scene->seams};
    if (store_sqlite_open(&store, &config.store, &err))
        fail_msg("%s", err.text);
    real_commit = config.store->commit;
    config.store->commit = failing_commit;
    real_letter_put = config.store->letter_put;
    config.store->letter_put = failing_letter_put;
    if (engine_new(&config, &scene->engine, &err) || engine_start(scene->engine, &err))
        fail_msg("%s", err.text);
}

void client_open(struct scene *scene)
{
    natsOptions *options;
    assert_int_equal(natsOptions_Create(&options), NATS_OK);
    assert_int_equal(natsOptions_SetURL(options, scene->server.url), NATS_OK);
    assert_int_equal(natsOptions_SetMaxReconnect(options, 100000), NATS_OK);
    assert_int_equal(natsOptions_SetReconnectWait(options, 20), NATS_OK);
    assert_int_equal(natsConnection_Connect(&scene->client, options), NATS_OK);
    assert_int_equal(natsConnection_JetStream(&scene->js, scene->client, NULL), NATS_OK);
    natsOptions_Destroy(options);
}

void client_close(struct scene *scene)
{
    jsCtx_Destroy(scene->js);
    natsConnection_Destroy(scene->client);
    scene->js = NULL;
    scene->client = NULL;
}

void office_open_now(struct scene *scene)
{
    struct err err = {0};
    struct natsoffice_config config = {
        .engine = scene->engine, .nats = {.url = scene->server.url}, .server_name = "here"};
    if (natsoffice_open(&config, &scene->office, &err))
        fail_msg("%s", err.text);
}

void office_close_now(struct scene *scene)
{
    natsoffice_close(scene->office);
    scene->office = NULL;
}

int scene_setup_apart(void **state)
{
    struct scene *scene = mem_zalloc(sizeof(*scene));
    atomic_store(&commits_fail, false);
    atomic_store(&recoveries_fail, false);
    atomic_store(&clock_ahead_us, 0);
    natsserver_init(&scene->server);
    natsserver_start(&scene->server);
    engine_open(scene);
    client_open(scene);
    *state = scene;
    return 0;
}

int scene_setup(void **state)
{
    scene_setup_apart(state);
    struct scene *scene = *state;
    office_open_now(scene);
    UNTIL(has_consumer(scene));
    return 0;
}

int scene_teardown(void **state)
{
    struct scene *scene = *state;
    char command[128];
    log_set(LOG_INFO, NULL, NULL);
    atomic_store(&commits_fail, false);
    atomic_store(&recoveries_fail, false);
    client_close(scene);
    office_close_now(scene);
    engine_free(scene->engine);
    natsserver_release(&scene->server);
    snprintf(command, sizeof(command), "rm -rf '%s'", scene->directory);
    int removed = system(command);
    arena_release(&scene->arena);
    mem_free(scene);
    return removed;
}

/* ---- the stream ------------------------------------------------------------------------------ */

bool has_consumer(struct scene *scene)
{
    jsConsumerInfo *info = NULL;
    natsStatus s = js_GetConsumerInfo(&info, scene->js, "DLQ", "lazaret-DLQ", NULL, NULL);
    jsConsumerInfo_Destroy(info);
    return s == NATS_OK;
}

bool all_acknowledged(struct scene *scene)
{
    jsConsumerInfo *info = NULL;
    natsStatus s = js_GetConsumerInfo(&info, scene->js, "DLQ", "lazaret-DLQ", NULL, NULL);
    bool all = s == NATS_OK && info->NumAckPending == 0 && info->NumPending == 0;
    jsConsumerInfo_Destroy(info);
    return all;
}

void send_bytes(struct scene *scene, const char *subject, const void *bytes, size_t len)
{
    natsStatus s = js_Publish(NULL, scene->js, subject, bytes, (int)len, NULL, NULL);
    assert_int_equal(s, NATS_OK);
}

void send_text(struct scene *scene, const char *subject, const char *text)
{
    send_bytes(scene, subject, text, strlen(text));
}

void make_stream(struct scene *scene, const char *name, const char *subject,
                 const jsStreamConfig *config)
{
    jsStreamConfig whole;
    const char *subjects[] = {subject};
    jsStreamConfig_Init(&whole);
    if (config)
        whole = *config;
    whole.Name = name;
    whole.Subjects = subjects;
    whole.SubjectsLen = 1;
    assert_int_equal(js_AddStream(NULL, scene->js, &whole, NULL, NULL), NATS_OK);
}

natsMsg *find_told(struct scene *scene, const char *dlq_id, int *times)
{
    jsStreamInfo *info = NULL;
    natsMsg *found = NULL, *msg = NULL;
    char part[128];
    *times = 0;
    snprintf(part, sizeof(part), "{\"dlq_id\":\"%s\"", dlq_id);
    if (js_GetStreamInfo(&info, scene->js, "DLQ", NULL, NULL) != NATS_OK)
        return NULL;
    for (uint64_t seq = info->State.FirstSeq; seq && seq <= info->State.LastSeq; seq++) {
        if (js_GetMsg(&msg, scene->js, "DLQ", seq, NULL, NULL) != NATS_OK)
            continue;
        struct slice text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
        if (slice_starts(text, slice_of(part)) && ++*times == 1)
            found = msg;
        else
            natsMsg_Destroy(msg);
    }
    jsStreamInfo_Destroy(info);
    return found;
}

struct natsoffice_counts counts(struct scene *scene)
{
    struct natsoffice_counts now;
    natsoffice_counts(scene->office, &now);
    return now;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static enum status call(struct scene *scene, struct command *command, enum command_kind kind)
{
    command->kind = kind;
    command->arena = &scene->arena;
    command->actor = SLICE("test");
    return engine_call(scene->engine, command);
}

struct listing {
    struct letter *letters;
    size_t count;
    const struct letter *letter; /* of which the payload is wanted */
    struct slice payload;
    struct event *events;
    size_t event_count;
};

static enum status read_all(struct engine *engine, struct store *store, void *ctx,
                            struct arena *arena, struct err *err)
{
    struct listing *listing = ctx;
    struct letter_filter filter = {.oldest_first = true, .limit = 100000};
    struct stored_envelope stored;
    (void)engine;
    if (listing->letter) {
        enum status status =
            store->envelope_get(store, listing->letter->envelope_seq, arena, &stored, err);
        listing->payload = stored.body;
        return status;
    }
    enum status status =
        store->letter_list(store, &filter, arena, &listing->letters, &listing->count, err);
    return status ? status
                  : store->event_list(store, 0, 100000, arena, &listing->events,
                                      &listing->event_count, err);
}

static void read_listing(struct scene *scene, struct listing *listing)
{
    struct read_command command = {.read = read_all, .ctx = listing};
    assert_int_equal(call(scene, &command.command, COMMAND_READ), STATUS_OK);
}

struct letter *letters(struct scene *scene, size_t *count)
{
    struct listing listing = {0};
    read_listing(scene, &listing);
    *count = listing.count;
    return listing.letters;
}

size_t letter_count(struct scene *scene)
{
    size_t count;
    letters(scene, &count);
    return count;
}

struct letter letter_now(struct scene *scene, const char *dlq_id)
{
    size_t count;
    struct letter *list = letters(scene, &count);
    for (size_t i = 0; i < count; i++)
        if (slice_is(list[i].dlq_id, dlq_id))
            return list[i];
    fail_msg("there is no letter %s", dlq_id);
    return (struct letter){0};
}

struct slice payload_of_letter(struct scene *scene, const struct letter *letter)
{
    struct listing listing = {.letter = letter};
    read_listing(scene, &listing);
    return listing.payload;
}

const char *last_why(struct scene *scene, const char *what)
{
    struct listing listing = {0};
    read_listing(scene, &listing);
    for (size_t i = listing.event_count; i > 0; i--)
        if (slice_is(listing.events[i - 1].what, what))
            return arena_dup(&scene->arena, listing.events[i - 1].why).ptr;
    return "";
}

struct review_item retry(struct scene *scene, const char *dlq_id)
{
    struct review_item item = {.dlq_id = slice_of(dlq_id)};
    struct review_command command = {.action = REVIEW_RETRY, .items = &item, .count = 1};
    assert_int_equal(call(scene, &command.command, COMMAND_REVIEW), STATUS_OK);
    return item;
}

enum letter_state bring_back(struct scene *scene, const char *dlq_id)
{
    struct review_item item = retry(scene, dlq_id);
    assert_string_equal(item.err.text, "");
    assert_int_equal(item.status, STATUS_OK);
    struct await_item waiting = {.dlq_id = slice_of(dlq_id)};
    struct await_command command = {.items = &waiting, .count = 1, .wait = span_seconds(60)};
    assert_int_equal(call(scene, &command.command, COMMAND_AWAIT), STATUS_OK);
    return waiting.state;
}

const char *die(struct scene *scene, const char *job_id, const char *reason)
{
    return die_of(scene, job_id, reason, 0);
}

const char *die_of(struct scene *scene, const char *job_id, const char *reason, int padding)
{
    struct push_item pushed = {0};
    struct slice body =
        arena_printf(&scene->arena,
                     "{\"job_id\":\"%s\",\"action\":\"x\",\"queue\":\"%s\","
                     "\"retry_policy\":{\"max_attempts\":1},\"padding\":\"%*s\", \"n\": 1.50}",
                     job_id, job_id, padding, "");
    assert_int_equal(envelope_parse(body, SIZE_MAX, &scene->arena, &pushed.envelope, NULL),
                     STATUS_OK);
    struct push_command push = {.items = &pushed, .count = 1};
    assert_int_equal(call(scene, &push.command, COMMAND_PUSH), STATUS_OK);
    assert_int_equal(pushed.status, STATUS_OK);
    struct slice queue = slice_of(job_id);
    struct lease_command lease = {
        .worker_id = SLICE("w"), .query = {.queues = &queue, .queue_count = 1}, .max = 1};
    assert_int_equal(call(scene, &lease.command, COMMAND_LEASE), STATUS_OK);
    assert_int_equal(lease.count, 1);
    struct result_item result = {.lease_id = slice_of(lease.leases[0].lease_id), .failed = true};
    failure_init(&result.failure);
    result.failure.message = SLICE("it does not work");
    result.failure.reason = slice_of(reason);
    struct resolve_command resolve = {.items = &result, .count = 1};
    assert_int_equal(call(scene, &resolve.command, COMMAND_RESOLVE), STATUS_OK);
    assert_int_equal(result.state, JOB_DEAD);
    return arena_dup(&scene->arena, result.dlq_id).ptr;
}

bool has_text(struct slice text, const char *part)
{
    return text.len && memmem(text.ptr, text.len, part, strlen(part));
}
