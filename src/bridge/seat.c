/* seat: see seat.h. */
#include "bridge/seat.h"

#include "base/log.h"

bool seat_ended(const struct seat *seat)
{
    return seat->ended && atomic_load(seat->ended);
}

struct span seat_now(const struct seat *seat)
{
    return seat->seams->steady(seat->seams->ctx);
}

enum status seat_ask(const struct seat *seat, struct command *command, enum command_kind kind,
                     const char *what, struct arena *arena, struct err *err)
{
    command->kind = kind;
    command->arena = arena;
    command->actor = arena_printf(arena, "%s:%.*s", what, SLICE_ARG(seat->server));
    if (!command->actor.ptr)
        return err_no_memory(err);
    enum status status = seat->call(seat->engine, command);
    if (status)
        *err = command->err;
    return status;
}

enum status seat_read(const struct seat *seat,
                      enum status (*read)(struct engine *engine, struct store *store, void *ctx,
                                          struct arena *arena, struct err *err),
                      void *ctx, struct arena *arena, struct err *err)
{
    struct read_command command = {.read = read, .ctx = ctx};
    return seat_ask(seat, &command.command, COMMAND_READ, "server", arena, err);
}

/* ---- duties ---------------------------------------------------------------------------------- */

/* ask has the engine decide who has the duty. */
static enum status ask(const struct seat *seat, struct seat_duty *duty, struct span ttl,
                       const int64_t *cursor, struct err *err)
{
    struct arena arena = {0};
    struct duty_command command = {.name = slice_of(duty->name),
                                   .holder = seat->server,
                                   .ttl = ttl,
                                   .advance = cursor != NULL,
                                   .cursor = cursor ? *cursor : 0};
    /* The time counts from before the question: the answer may have been long on its way. */
    struct span began = seat_now(seat);
    enum status status = seat_ask(seat, &command.command, COMMAND_DUTY, duty->name, &arena, err);
    if (status == STATUS_OK) {
        duty->held = command.held;
        duty->cursor = command.cursor;
        duty->until.us = began.us + ttl.us;
        duty->ask_at.us = began.us + ttl.us / (command.held ? 3 : 6);
    }
    arena_release(&arena);
    return status;
}

enum status seat_hold(const struct seat *seat, struct seat_duty *duty, struct err *err)
{
    struct span now = seat_now(seat);
    enum status status = STATUS_OK;
    if (now.us >= duty->ask_at.us)
        status = ask(seat, duty, duty->ttl, NULL, err);
    if (status && now.us >= duty->until.us)
        duty->held = false;
    return status;
}

enum status seat_advance(const struct seat *seat, struct seat_duty *duty, int64_t cursor,
                         struct err *err)
{
    return ask(seat, duty, duty->ttl, &cursor, err);
}

void seat_leave(const struct seat *seat, struct seat_duty *duty)
{
    struct err err;
    if (duty->held)
        ask(seat, duty, (struct span){0}, NULL, &err);
    duty->held = false;
    duty->ask_at = (struct span){0};
}

/* ---- the log --------------------------------------------------------------------------------- */

void seat_say(struct seat_trouble *trouble, const char *what, enum status status,
              const struct err *err)
{
    if (status && strcmp(trouble->said.text, err->text) != 0)
        log_line(LOG_ERROR, "%s: %s", what, err->text);
    if (!status && trouble->said.text[0])
        log_line(LOG_INFO, "%s: it works again", what);
    trouble->said = status ? *err : (struct err){0};
}
