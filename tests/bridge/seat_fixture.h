/* seat_fixture: a server's seat over an engine in virtual time, and letters to look after. */
#ifndef LAZARET_TESTS_BRIDGE_SEAT_FIXTURE_H
#define LAZARET_TESTS_BRIDGE_SEAT_FIXTURE_H

#include "engine/fixture.h"

#include "base/jsonw.h"
#include "bridge/seat.h"

#define SECOND_MS INT64_C(1000)
#define FAILURE "{\"error_type\":\"Timeout\",\"class\":\"timeout\",\"message\":\"no answer came\"}"

static inline void seat_mark(struct command *command)
{
    *(bool *)command->owner = true;
}

/* seat_step carries a command out on this thread. */
static inline enum status seat_step(struct engine *engine, struct command *command)
{
    bool done = false;
    command->done = seat_mark;
    command->owner = &done;
    engine_submit(engine, command);
    engine_step(engine);
    assert_true(done);
    return command->status;
}

static inline struct seat seat_of(struct world *world, const char *server)
{
    return (struct seat){.engine = world->engine,
                         .call = seat_step,
                         .seams = &world->seams,
                         .server = slice_of(server)};
}

/* die_of makes a letter of a job in a queue that is empty. */
static inline struct slice die_of(struct world *world, const char *queue, const char *members,
                                  const char *failure)
{
    struct push_item item =
        push(world, arena_printf(&world->arena,
                                 "{\"action\":\"x\",\"queue\":\"%s\",\"retry_policy\":{"
                                 "\"max_attempts\":1}%s%s}",
                                 queue, *members ? "," : "", members)
                        .ptr);
    assert_int_equal(item.status, STATUS_OK);
    struct lease taken = lease(world, queue);
    struct result_item result = report_failed(world, &taken, failure);
    assert_int_equal(result.state, JOB_DEAD);
    return result.dlq_id;
}

/* die makes a letter that a machine may bring back. */
static inline struct slice die(struct world *world, const char *queue)
{
    return die_of(world, queue, "", FAILURE);
}

/* struct made: what letters that are made in bulk have in common. */
struct made {
    const char *prefix; /* of their ids */
    const char *fingerprint;
    struct instant failed_at; /* of the first; each is a millisecond later */
    bool foreign;
    bool stuck; /* no machine may bring them back */
    uint16_t redrives;
};

#define MADE_AT_ONCE 500

/* make_letters imports `count` letters. */
static inline void make_letters(struct world *world, struct made made, size_t count)
{
    static struct import_item items[MADE_AT_ONCE];
    for (size_t begin = 0; begin < count; begin += MADE_AT_ONCE) {
        size_t n = count - begin < MADE_AT_ONCE ? count - begin : MADE_AT_ONCE;
        memset(items, 0, sizeof(items));
        for (size_t i = 0; i < n; i++) {
            struct letter *letter = &items[i].letter;
            letter->dlq_id = arena_printf(&world->arena, "%s-%05zu", made.prefix, begin + i);
            letter->original_subject = SLICE("tasks.run");
            letter->reason = SLICE("timeout_assigned");
            letter->source = SLICE("swarm");
            letter->signature = SLICE("Timeout::no answer came");
            letter->fingerprint = slice_of(made.fingerprint);
            letter->failed_at = (struct instant){made.failed_at.us + (int64_t)(begin + i) * 1000};
            letter->recoverable = letter->eligible = !made.stuck;
            letter->review = made.stuck;
            letter->foreign = made.foreign;
            letter->job.redrive_count = made.redrives;
            /* Another body for each: a letter from elsewhere is known by its payload. */
            items[i].body =
                arena_printf(&world->arena, "{\"action\":\"x\",\"inputs\":{\"of\":\"%.*s\"}}",
                             SLICE_ARG(letter->dlq_id));
        }
        struct import_command command = {.items = items, .count = n};
        assert_int_equal(run(world, &command.command, COMMAND_IMPORT), STATUS_OK);
        for (size_t i = 0; i < n; i++)
            assert_true(items[i].created);
    }
}

/* struct tally: letters of a group by state. */
struct tally {
    const char *fingerprint;
    size_t counts[LETTER_STATE_COUNT];
};

static inline enum status tally_read(struct engine *engine, struct store *store, void *ctx,
                                     struct arena *arena, struct err *err)
{
    struct tally *tally = ctx;
    struct letter_filter filter = {.fingerprint = slice_of(tally->fingerprint), .limit = 1000000};
    struct letter *letters;
    size_t count;
    (void)engine;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        tally->counts[letters[i].state]++;
    return status;
}

/* tally_of counts the letters of a group; NULL: of all. */
static inline struct tally tally_of(struct world *world, const char *fingerprint)
{
    struct tally tally = {.fingerprint = fingerprint};
    struct read_command command = {.read = tally_read, .ctx = &tally};
    assert_int_equal(run(world, &command.command, COMMAND_READ), STATUS_OK);
    return tally;
}

/* ago is a time before the world's present. */
static inline struct instant ago(const struct world *world, int64_t seconds)
{
    return (struct instant){world->wall.us - seconds * 1000000};
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

#endif
