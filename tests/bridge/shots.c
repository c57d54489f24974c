/* shots: see shots.h. */
#include "bridge/shots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

void range_open_with(struct range *range, struct wire_config config)
{
    struct err err = {0};

    *range = (struct range){0};
    assert_int_equal(loop_open(&range->loop, &err), STATUS_OK);
    config.loop = range->loop;
    assert_int_equal(wire_open(&config, &range->wire, &err), STATUS_OK);
}

void range_open(struct range *range, unsigned parallel, unsigned host_parallel)
{
    range_open_with(range,
                    (struct wire_config){.parallel = parallel, .host_parallel = host_parallel});
}

void range_close(struct range *range)
{
    wire_close(range->wire);
    loop_close(range->loop);
}

static void shot_done(struct wire_call *call)
{
    struct shot *shot = (struct shot *)call;
    struct range *range = shot->range;

    assert_false(range->inside);
    shot->turn = ++range->done_count;
    shot->dones++;
    range->pending--;
    if (shot->then)
        shot->then(shot);
    if (range->pending <= range->until)
        loop_stop(range->loop);
}

void shot_init(struct shot *shot, struct range *range, const char *host, uint16_t port,
               const char *path)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Authorization: Bearer secret", "X-Test: yes", NULL};

    *shot = (struct shot){.range = range};
    wire_call_init(&shot->call);
    snprintf(shot->url, sizeof shot->url, "http://%s:%u%s", host, port, path);
    shot->call.url = shot->url;
    shot->call.headers = headers;
    shot->call.body = SLICE("{\"a\":1}");
    shot->call.answer_max = 1000;
    shot->call.done = shot_done;
}

void shot_at(struct shot *shot, struct range *range, const struct endpoint *endpoint,
             const char *path)
{
    shot_init(shot, range, "127.0.0.1", endpoint->port, path);
}

void shot_release(struct shot *shot)
{
    wire_call_release(&shot->call);
}

void shot_send(struct shot *shot)
{
    shot->range->pending++;
    shot->range->inside = true;
    assert_true(wire_send(shot->range->wire, &shot->call));
    shot->range->inside = false;
}

void shot_cancel(struct shot *shot)
{
    shot->range->inside = true;
    wire_cancel(shot->range->wire, &shot->call);
    shot->range->inside = false;
}

void range_run_until(struct range *range, unsigned left)
{
    range->until = left;
    if (range->pending > left)
        loop_run(range->loop);
    range->until = 0;
}

void range_run(struct range *range)
{
    range_run_until(range, 0);
}

struct look {
    struct loop_timer timer;
    struct range *range;
    bool (*condition)(void *ctx);
    void *ctx;
};

static void look_fire(struct loop_timer *timer)
{
    struct look *look = (struct look *)timer;

    if (look->condition(look->ctx))
        loop_stop(look->range->loop);
    else
        assert_true(loop_timer_set(look->range->loop, timer, span_ms(1)));
}

void range_run_until_true(struct range *range, bool (*condition)(void *ctx), void *ctx)
{
    struct look look = {{.fire = look_fire}, range, condition, ctx};
    unsigned until = range->until;

    assert_true(loop_timer_set(range->loop, &look.timer, (struct span){0}));
    while (look.timer.handle) /* the last shot that is done stops the loop too */
        loop_run(range->loop);
    range->until = until;
}

void shot_fire(struct shot *shot)
{
    shot_send(shot);
    range_run(shot->range);
}

void scene_open(struct scene *scene, bool (*serve)(struct visit *visit), const char *path)
{
    endpoint_open(&scene->endpoint, serve);
    range_open(&scene->range, 0, 0);
    shot_at(&scene->shot, &scene->range, &scene->endpoint, path);
}

void scene_close(struct scene *scene)
{
    shot_release(&scene->shot);
    range_close(&scene->range);
    endpoint_close(&scene->endpoint);
}
