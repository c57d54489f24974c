/* clock.c: the time that the engine goes by.
 *
 * It is the wall clock, as its times must outlive the engine, but it is compared with the steady
 * one: when the wall clock jumps, lease ends and retry delays are moved along, and the jump is
 * recorded. */
#include "engine/internal.h"

#define CLOCK_JUMP_US 5000000 /* clocks that part by more than this have jumped */

/* clock_jumped notes a jump for the next batch, and moves what only memory times. */
static void clock_jumped(struct engine *engine, struct span by)
{
    engine->clock_jump.us += by.us;
    engine->jumped_at = engine->seams->wall(engine->seams->ctx);
    engine->timers_at = instant_add(engine->timers_at, by);
    engine->started_at = instant_add(engine->started_at, by);
    if (engine->dispatch_at.us != INT64_MAX)
        engine->dispatch_at = instant_add(engine->dispatch_at, by);
    workers_shift(engine->workers, by);
    engine->roster_at = instant_add(engine->roster_at, by);
    if (instant_is_set(engine->sweep_at))
        engine->sweep_at = instant_add(engine->sweep_at, by);
    parked_shift(engine, by);
    await_shift(engine, by);
}

void clock_look(struct engine *engine)
{
    struct instant wall = engine->seams->wall(engine->seams->ctx);
    struct span steady = engine->seams->steady(engine->seams->ctx);
    if (wall.us < 1)
        wall.us = 1;
    if (instant_is_set(engine->clock_wall)) {
        struct span passed = {steady.us - engine->clock_steady.us};
        struct span drift = instant_since(wall, instant_add(engine->clock_wall, passed));
        if (drift.us > CLOCK_JUMP_US || drift.us < -CLOCK_JUMP_US)
            clock_jumped(engine, drift);
    }
    engine->clock_wall = wall;
    engine->clock_steady = steady;
    engine->now = wall;
}

enum status clock_apply(struct engine *engine, struct err *err)
{
    struct span jump = engine->clock_jump;
    enum status status = engine->store->shift(engine->store, jump, err);
    if (status)
        return status;
    struct jsonw why;
    event_begin(engine, &why);
    jsonw_put_double(&why, "by_seconds", span_to_seconds(jump));
    return event_end(engine, &why, ENGINE_ACTOR, NULL, EVENT_CLOCK_JUMPED, err);
}

enum status clock_since_last(struct engine *engine, struct err *err)
{
    struct event *last;
    size_t count;
    int64_t seq;
    struct hash hash;
    if (engine->config.server.len)
        return STATUS_OK;
    engine->store->event_head(engine->store, &seq, &hash);
    enum status status =
        engine->store->event_list(engine->store, seq - 1, 1, &engine->arena, &last, &count, err);
    if (status || !count)
        return status;
    struct span drift = instant_since(engine->now, last->at);
    if (drift.us < -CLOCK_JUMP_US)
        engine->clock_jump = drift;
    return STATUS_OK;
}
