#include "engine/fixture.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "core/event.h"

static struct instant fake_wall(void *ctx)
{
    return ((struct world *)ctx)->wall;
}

static struct span fake_steady(void *ctx)
{
    return ((struct world *)ctx)->steady;
}

/* fake_random is a plain counter through a mixer: the same in every run. */
static void fake_random(void *ctx, void *out, size_t len)
{
    struct world *world = ctx;
    uint8_t *bytes = out;
    for (size_t i = 0; i < len; i++) {
        uint64_t z = world->random += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        bytes[i] = (uint8_t)(z >> 56);
    }
}

static void world_open(struct world *world)
{
    struct err err = {0};
    char path[128];
    snprintf(path, sizeof(path), "%s/lazaret.db", world->directory);
    struct store_config store = {.path = path, .seams = &world->seams};
    struct engine_config config = world->config;
    config.seams = &world->seams;
    if (store_sqlite_open(&store, &config.store, &err) || engine_new(&config, &world->engine, &err))
        fail_msg("%s", err.text);
}

int world_setup(void **state)
{
    struct world *world = mem_zalloc(sizeof(*world));
    world->wall = (struct instant){1770963720000000};
    world->steady = span_seconds(1000);
    world->seams = (struct seams){fake_wall, fake_steady, fake_random, NULL, world};
    snprintf(world->directory, sizeof(world->directory), "/tmp/lazaret-test-XXXXXX");
    assert_non_null(mkdtemp(world->directory));
    world_open(world);
    *state = world;
    return 0;
}

int world_teardown(void **state)
{
    struct world *world = *state;
    char command[128];
    engine_free(world->engine);
    snprintf(command, sizeof(command), "rm -rf '%s'", world->directory);
    int removed = system(command);
    arena_release(&world->arena);
    mem_free(world);
    return removed;
}

void world_reopen(struct world *world)
{
    engine_free(world->engine);
    world_open(world);
}

void world_pass(struct world *world, int64_t ms)
{
    world->wall.us += ms * 1000;
    world->steady.us += ms * 1000;
    engine_step(world->engine);
}

void world_jump(struct world *world, int64_t seconds)
{
    world->wall.us += seconds * 1000000;
    engine_step(world->engine);
}

static void mark_done(struct command *command)
{
    *(bool *)command->owner = true;
}

enum status run(struct world *world, struct command *command, enum command_kind kind)
{
    bool done = false;
    command->kind = kind;
    command->arena = &world->arena;
    command->done = mark_done;
    command->owner = &done;
    if (!command->actor.len)
        command->actor = SLICE("test");
    engine_submit(world->engine, command);
    engine_step(world->engine);
    assert_true(done);
    return command->status;
}

struct push_item push(struct world *world, const char *envelope)
{
    struct push_item item = {0};
    struct push_command command = {.items = &item, .count = 1};
    item.status = envelope_parse(slice_of(envelope), ENVELOPE_BODY_MAX, &world->arena,
                                 &item.envelope, &item.err);
    if (!item.status)
        assert_int_equal(run(world, &command.command, COMMAND_PUSH), STATUS_OK);
    return item;
}

static struct lease_command take(struct world *world, const char *queue, size_t max)
{
    struct slice name = slice_of(queue);
    struct lease_command command = {
        .worker_id = SLICE("w1"),
        .query = {.queues = &name, .queue_count = queue ? 1 : 0},
        .max = max,
    };
    assert_int_equal(run(world, &command.command, COMMAND_LEASE), STATUS_OK);
    return command;
}

struct lease lease(struct world *world, const char *queue)
{
    struct lease_command command = take(world, queue, 1);
    assert_int_equal(command.count, 1);
    return command.leases[0];
}

size_t lease_count(struct world *world, const char *queue)
{
    return take(world, queue, 1000).count;
}

static struct result_item resolve(struct world *world, struct result_item item)
{
    struct resolve_command command = {.items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_RESOLVE), STATUS_OK);
    return item;
}

struct result_item complete(struct world *world, const struct lease *lease_)
{
    return resolve(world, (struct result_item){.lease_id = slice_of(lease_->lease_id)});
}

struct result_item report_failed(struct world *world, const struct lease *lease_,
                                 const char *failure)
{
    struct result_item item = {.lease_id = slice_of(lease_->lease_id), .failed = true};
    struct json json;
    struct err err = {0};
    if (json_parse(slice_of(failure), &json, &err) ||
        failure_parse(json, &world->arena, &item.failure, &err))
        fail_msg("%s", err.text);
    return resolve(world, item);
}

struct review_item review(struct world *world, enum review_action action, struct slice dlq_id)
{
    struct review_item item = {.dlq_id = dlq_id};
    struct review_command command = {.action = action, .items = &item, .count = 1};
    assert_int_equal(run(world, &command.command, COMMAND_REVIEW), STATUS_OK);
    return item;
}

/* struct look: one read of the store. */
struct look {
    const char *job_id;
    struct slice dlq_id;
    struct job_row row;
    struct letter letter;
    struct buf text;
};

static enum status read_job(struct engine *engine, struct store *store, void *ctx,
                            struct arena *arena, struct err *err)
{
    struct look *look = ctx;
    (void)engine;
    return store->job_find(store, slice_of(look->job_id), arena, &look->row, err);
}

static enum status read_letter(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct look *look = ctx;
    (void)engine;
    return store->letter_get(store, look->dlq_id, arena, &look->letter, err);
}

static enum status read_events(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct look *look = ctx;
    struct event *events;
    size_t count;
    enum status status = read_job(engine, store, ctx, arena, err);
    if (!status)
        status = store->event_of_job(store, look->row.job.event_seq, 0, 1000, arena, &events,
                                     &count, err);
    for (size_t i = 0; !status && i < count; i++)
        buf_addf(&look->text, "%s%.*s", i ? " " : "", SLICE_ARG(events[i].what));
    return status;
}

static enum status read_chain(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    struct hash previous = {0};
    struct event *events;
    size_t count;
    (void)engine;
    (void)ctx;
    enum status status = store->event_list(store, 0, 100000, arena, &events, &count, err);
    for (size_t i = 0; !status && i < count; i++) {
        struct hash hash = event_hash(&events[i], previous);
        assert_int_equal(events[i].seq, (int64_t)i + 1);
        assert_memory_equal(hash.bytes, events[i].hash.bytes, HASH_SIZE);
        previous = hash;
    }
    return status;
}

static void look_at(struct world *world, struct look *look,
                    enum status (*read)(struct engine *, struct store *, void *, struct arena *,
                                        struct err *))
{
    struct read_command command = {.read = read, .ctx = look};
    if (run(world, &command.command, COMMAND_READ))
        fail_msg("%s", command.command.err.text);
}

struct job_row job(struct world *world, const char *job_id)
{
    struct look look = {.job_id = job_id};
    look_at(world, &look, read_job);
    return look.row;
}

struct letter letter(struct world *world, struct slice dlq_id)
{
    struct look look = {.dlq_id = dlq_id};
    look_at(world, &look, read_letter);
    return look.letter;
}

const char *what_happened(struct world *world, const char *job_id)
{
    struct look look = {.job_id = job_id};
    buf_init(&look.text, 4096);
    look_at(world, &look, read_events);
    struct slice text = arena_dup(&world->arena, buf_slice(&look.text));
    buf_release(&look.text);
    return text.ptr;
}

void assert_chain_holds(struct world *world)
{
    look_at(world, NULL, read_chain);
}
