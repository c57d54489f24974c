/* world: see world.h. */
#include "sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define WORLD_BEGIN_US INT64_C(1770000000000000) /* a day of February 2026 */
#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static struct instant read_wall(void *ctx)
{
    const struct world *world = ctx;

    return world->wall;
}

static struct span read_steady(void *ctx)
{
    const struct world *world = ctx;

    return world->steady;
}

static void draw(void *ctx, void *out, size_t len)
{
    struct world *world = ctx;
    unsigned char *bytes = out;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)rng_next(&world->random);
}

void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){
        .seams = {read_wall, read_steady, draw, DISK_VFS, world},
        .disk = disk_new(seed),
        .random = rng_fork(seed, 3),
        .wall = {WORLD_BEGIN_US},
        .steady = span_seconds(100),
        .trace_hash = FNV_OFFSET,
    };
}

void world_release(struct world *world)
{
    disk_free(world->disk);
    world->disk = NULL;
}

void world_pass(struct world *world, struct span span)
{
    world->wall = instant_add(world->wall, span);
    world->steady.us += span.us;
}

void world_jump(struct world *world, struct span span)
{
    world->wall = instant_add(world->wall, span);
}

void world_reboot(struct world *world)
{
    world->steady = span_seconds(10);
}

void world_trace(struct world *world, const char *format, ...)
{
    char line[1024];
    int len = snprintf(line, sizeof(line), "%" PRId64 " ", world->wall.us - WORLD_BEGIN_US);
    va_list args;

    va_start(args, format);
    vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        world->trace_hash = (world->trace_hash ^ (unsigned char)*c) * FNV_PRIME;
    if (world->verbose)
        fprintf(stderr, "%s\n", line);
}
