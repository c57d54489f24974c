/* call: what every handler needs: the engine, the query, and the first error. */
#include "api/call.h"

#include <stdarg.h>
#include <stdio.h>

enum status call_fail(struct call *call, enum status status, const char *format, ...)
{
    if (call->status != STATUS_OK)
        return call->status;
    va_list args;
    va_start(args, format);
    vsnprintf(call->err.text, sizeof(call->err.text), format, args);
    va_end(args);
    return call->status = status;
}

void call_forgive(struct call *call)
{
    call->status = STATUS_OK;
    call->err = (struct err){0};
}

void *call_alloc(struct call *call, size_t size)
{
    void *memory = arena_alloc(&call->arena, size);
    if (!memory)
        call_fail(call, STATUS_NO_MEMORY, "out of memory");
    return memory;
}

/* ---- the engine ------------------------------------------------------------------------------ */

struct command call_command(struct call *call, enum command_kind kind)
{
    struct slice actor = call->request->actor;
    return (struct command){
        .kind = kind, .actor = actor.len ? actor : SLICE("api"), .arena = &call->arena};
}

struct command call_command_by(struct call *call, enum command_kind kind, struct slice claimed)
{
    struct command command = call_command(call, kind);
    if (claimed.len && !call->request->actor_proven)
        command.actor = claimed;
    return command;
}

const struct redaction *call_mask(const struct call *call)
{
    return call->request->role < ROLE_REVIEWER ? call->api->redaction : NULL;
}

enum status call_then(struct call *call, struct command *command, call_next next, void *state)
{
    call->command = command;
    call->next = next;
    call->state = state;
    return STATUS_OK;
}

enum status call_read_then(struct call *call, call_reader read, void *ctx, call_next next)
{
    struct read_command *command = call_alloc(call, sizeof(*command));
    if (!command || !ctx)
        return err_no_memory(&call->err);
    command->command = call_command(call, COMMAND_READ);
    command->read = read;
    command->ctx = ctx;
    return call_then(call, &command->command, next, ctx);
}

enum status call_run(struct call *call, struct command *command)
{
    BUG_ON(!call->may_wait);
    enum status status = engine_call(call->engine, command);
    if (status != STATUS_OK)
        call->err = command->err;
    return status;
}

enum status call_read(struct call *call, call_reader read, void *ctx, struct arena *arena)
{
    struct read_command command = {
        .command = call_command(call, COMMAND_READ), .read = read, .ctx = ctx};
    command.command.arena = arena;
    return call_run(call, &command.command);
}

static enum status read_now(struct engine *engine, struct store *store, void *ctx,
                            struct arena *arena, struct err *err)
{
    (void)store, (void)arena, (void)err;
    *(struct instant *)ctx = engine_now(engine);
    return STATUS_OK;
}

enum status call_now(struct call *call, struct instant *out)
{
    return call_read(call, read_now, out, &call->arena);
}

/* ---- the query ------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

enum status url_decode(struct slice text, bool plus, struct arena *arena, struct slice *out,
                       struct err *err)
{
    char *decoded = arena_alloc(arena, text.len + 1);
    if (!decoded)
        return err_no_memory(err);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.ptr[i + 2]) : -1;
            if (low < 0)
                return err_set(err, STATUS_INVALID,
                               "a %% in the address must be followed by two hex digits");
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return err_set(err, STATUS_INVALID, "the address holds a NUL");
        decoded[len++] = c;
    }
    struct slice result = {decoded, len};
    if (!json_utf8_valid(result))
        return err_set(err, STATUS_INVALID, "the address is not UTF-8");
    *out = result;
    return STATUS_OK;
}

bool words_have(const char *words, struct slice word)
{
    while (*words) {
        size_t len = strcspn(words, " ");
        if (slice_eq((struct slice){words, len}, word))
            return true;
        words += len + (words[len] == ' ');
    }
    return false;
}

/* split cuts `text` at the first `at`; false when there is none, with all of it in `head`. */
static bool split(struct slice text, char at, struct slice *head, struct slice *rest)
{
    const char *found = text.len ? memchr(text.ptr, at, text.len) : NULL;
    if (!found) {
        *head = text;
        *rest = (struct slice){0};
        return false;
    }
    size_t len = (size_t)(found - text.ptr);
    *head = (struct slice){text.ptr, len};
    *rest = (struct slice){found + 1, text.len - len - 1};
    return true;
}

static const struct call_param *find_param(const struct call *call, struct slice name)
{
    for (size_t i = 0; i < call->param_count; i++) {
        if (slice_eq(call->params[i].name, name))
            return &call->params[i];
    }
    return NULL;
}

static enum status add_param(struct call *call, struct slice piece, const char *known)
{
    struct slice name, value;
    split(piece, '=', &name, &value);
    struct call_param param = {0};
    enum status status = url_decode(name, true, &call->arena, &param.name, &call->err);
    if (status == STATUS_OK)
        status = url_decode(value, true, &call->arena, &param.value, &call->err);
    if (status != STATUS_OK)
        return status;
    if (!words_have(known, param.name))
        return err_set(&call->err, STATUS_INVALID, "%.*s: unknown query parameter; %s%s",
                       SLICE_ARG(param.name), *known ? "known here: " : "none is known here",
                       known);
    if (find_param(call, param.name))
        return err_set(&call->err, STATUS_INVALID, "%.*s: stands twice in the query",
                       SLICE_ARG(param.name));
    call->params[call->param_count++] = param;
    return STATUS_OK;
}

enum status query_parse(struct call *call, const char *known)
{
    struct slice rest = call->request->query;
    size_t count = 1;
    for (size_t i = 0; i < rest.len; i++)
        count += rest.ptr[i] == '&';
    call->params = arena_array(&call->arena, count, sizeof(*call->params));
    if (!call->params)
        return err_no_memory(&call->err);
    while (rest.len) {
        struct slice piece;
        split(rest, '&', &piece, &rest);
        if (piece.len == 0)
            continue;
        enum status status = add_param(call, piece, known);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

struct slice query_text(struct call *call, const char *name)
{
    const struct call_param *param = find_param(call, slice_of(name));
    return param ? param->value : (struct slice){0};
}

int64_t query_int(struct call *call, const char *name, int64_t min, int64_t max, int64_t fallback)
{
    struct slice text = query_text(call, name);
    if (text.len == 0)
        return fallback;
    /* A whole JSON number is what a whole number in a query looks like. */
    struct json value;
    int64_t number;
    if (json_parse(text, &value, NULL) == STATUS_OK && json_int(value, &number) && number >= min &&
        number <= max)
        return number;
    call_fail(call, STATUS_INVALID, "%s: must be a whole number from %lld to %lld, not \"%.*s\"",
              name, (long long)min, (long long)max, SLICE_ARG(text));
    return fallback;
}

enum tristate query_tristate(struct call *call, const char *name)
{
    struct slice text = query_text(call, name);
    if (text.len == 0)
        return UNSAID;
    if (slice_is(text, "true") || slice_is(text, "1"))
        return YES;
    if (slice_is(text, "false") || slice_is(text, "0"))
        return NO;
    call_fail(call, STATUS_INVALID, "%s: must be true or false, not \"%.*s\"", name,
              SLICE_ARG(text));
    return UNSAID;
}

struct instant query_instant(struct call *call, const char *name)
{
    struct slice text = query_text(call, name);
    struct instant t = INSTANT_NONE;
    if (text.len && instant_parse(text, &t, NULL) != STATUS_OK)
        call_fail(call, STATUS_INVALID,
                  "%s: must be a time such as 2026-02-13T06:22:00Z, not \"%.*s\"", name,
                  SLICE_ARG(text));
    return t;
}

size_t query_limit(struct call *call)
{
    return (size_t)query_int(call, "limit", 1, PAGE_LIMIT_MAX, PAGE_LIMIT_DEFAULT);
}

int64_t query_cursor(struct call *call)
{
    return query_int(call, "cursor", INT64_MIN, INT64_MAX, 0);
}
