/* api: the table of routes, and the errors.
 *
 * A path is matched segment by segment, the first route that fits wins, so a fixed name stands
 * before the {id} that would also match it.  A trailing slash does not matter.  When only the
 * method is wrong the answer is 405, when no route has the path 404. */
#include "api/api.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/call.h"
#include "api/routes.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/letter.h"

#define ANSWER_MAX ((size_t)1 << 30) /* bytes of an answer; pages end long before it */

enum route_kind {
    ROUTE_QUICK,  /* the handler never waits: its thread is the carrier's */
    ROUTE_SLOW,   /* the handler waits for the engine again and again: it needs a thread */
    ROUTE_EVENTS, /* a stream: the carrier's business */
};

struct route {
    const char *method;
    const char *pattern;
    enum role role; /* who may ask: this one and those above it */
    enum route_kind kind;
    enum status (*handler)(struct call *call);
    const char *params; /* the query parameters it knows, with spaces between */
    int argument;       /* for a handler that serves several routes */
};

#define LETTER_PARAMS                                                                              \
    "recovered reason source limit queue state signature fingerprint error_type q job_id "         \
    "trace_id agent actor eligible recoverable after before attempts_min attempts_max sort "       \
    "filter cursor"

static const struct route routes[] = {
    {"POST", "/api/v1/jobs", ROLE_WORKER, ROUTE_QUICK, jobs_push, "", 0},
    {"GET", "/api/v1/jobs", ROLE_VIEWER, ROUTE_QUICK, jobs_list, "state queue limit cursor", 0},
    {"GET", "/api/v1/jobs/{id}", ROLE_VIEWER, ROUTE_QUICK, jobs_get, "", 0},
    {"POST", "/api/v1/jobs/{id}/cancel", ROLE_OPERATOR, ROUTE_QUICK, jobs_cancel, "", 0},

    {"POST", "/api/v1/deliveries", ROLE_WORKER, ROUTE_QUICK, deliveries_push, "", 0},

    {"POST", "/api/v1/leases", ROLE_WORKER, ROUTE_QUICK, leases_take, "", 0},
    {"POST", "/api/v1/leases/heartbeat", ROLE_WORKER, ROUTE_QUICK, leases_heartbeat, "", 0},
    {"POST", "/api/v1/leases/release", ROLE_WORKER, ROUTE_QUICK, leases_release, "", 0},
    {"POST", "/api/v1/leases/interrupted", ROLE_WORKER, ROUTE_QUICK, leases_interrupted, "", 0},
    {"POST", "/api/v1/results", ROLE_WORKER, ROUTE_QUICK, results_report, "", 0},
    {"POST", "/api/v1/workers", ROLE_WORKER, ROUTE_QUICK, workers_put, "", 0},
    {"GET", "/api/v1/workers", ROLE_VIEWER, ROUTE_QUICK, workers_list, "live limit", 0},

    {"GET", "/api/v1/dlq", ROLE_VIEWER, ROUTE_QUICK, dlq_list, LETTER_PARAMS, 0},
    {"GET", "/api/v1/dlq/stats", ROLE_VIEWER, ROUTE_QUICK, dlq_stats, "", 0},
    {"GET", "/api/v1/dlq/like", ROLE_VIEWER, ROUTE_QUICK, dlq_like, "prefix limit", 0},
    {"GET", "/api/v1/dlq/analyze", ROLE_VIEWER, ROUTE_SLOW, analyze_letters, "job_id", 0},
    {"GET", "/api/v1/dlq/groups", ROLE_VIEWER, ROUTE_QUICK, groups_list, "all limit cursor", 0},
    {"GET", "/api/v1/dlq/groups/{id}", ROLE_VIEWER, ROUTE_QUICK, groups_get, "", 0},
    {"POST", "/api/v1/dlq/groups/{id}/retry", ROLE_OPERATOR, ROUTE_SLOW, groups_review, "",
     REVIEW_RETRY},
    {"POST", "/api/v1/dlq/groups/{id}/discard", ROLE_OPERATOR, ROUTE_SLOW, groups_review, "",
     REVIEW_DISCARD},
    {"POST", "/api/v1/dlq/groups/{id}/resolve", ROLE_OPERATOR, ROUTE_QUICK, groups_set, "",
     GROUP_RESOLVED},
    {"POST", "/api/v1/dlq/groups/{id}/ignore", ROLE_OPERATOR, ROUTE_QUICK, groups_set, "",
     GROUP_IGNORED},
    {"POST", "/api/v1/dlq/groups/{id}/reopen", ROLE_OPERATOR, ROUTE_QUICK, groups_set, "",
     GROUP_OPEN},
    {"POST", "/api/v1/dlq/retry-all", ROLE_OPERATOR, ROUTE_SLOW, bulk_retry_all, "", 0},
    {"POST", "/api/v1/dlq/retry", ROLE_OPERATOR, ROUTE_SLOW, bulk_review, "", REVIEW_RETRY},
    {"POST", "/api/v1/dlq/discard", ROLE_OPERATOR, ROUTE_SLOW, bulk_review, "", REVIEW_DISCARD},
    {"POST", "/api/v1/dlq/purge", ROLE_ADMIN, ROUTE_SLOW, purge_old, "", 0},
    {"POST", "/api/v1/dlq/clear", ROLE_ADMIN, ROUTE_SLOW, purge_run, "", 0},
    {"POST", "/api/v1/dlq/import", ROLE_OPERATOR, ROUTE_SLOW, import_letters, "job_id", 0},
    {"GET", "/api/v1/dlq/{id}", ROLE_VIEWER, ROUTE_QUICK, dlq_get, "", 0},
    {"POST", "/api/v1/dlq/{id}/retry", ROLE_OPERATOR, ROUTE_QUICK, dlq_review, "", REVIEW_RETRY},
    {"POST", "/api/v1/dlq/{id}/discard", ROLE_OPERATOR, ROUTE_QUICK, dlq_review, "",
     REVIEW_DISCARD},
    {"POST", "/api/v1/dlq/{id}/rollback", ROLE_OPERATOR, ROUTE_QUICK, dlq_review, "",
     REVIEW_ROLLBACK},
    {"POST", "/api/v1/dlq/{id}/escalate", ROLE_OPERATOR, ROUTE_QUICK, dlq_review, "",
     REVIEW_ESCALATE},
    {"POST", "/api/v1/dlq/{id}/restore", ROLE_OPERATOR, ROUTE_QUICK, dlq_review, "",
     REVIEW_RESTORE},

    {"GET", "/api/v1/runs/{id}", ROLE_VIEWER, ROUTE_QUICK, runs_get, "", 0},

    {"GET", "/api/v1/queues", ROLE_VIEWER, ROUTE_QUICK, queues_list, "", 0},
    {"POST", "/api/v1/queues/{id}/pause", ROLE_OPERATOR, ROUTE_QUICK, queues_pause, "", true},
    {"POST", "/api/v1/queues/{id}/resume", ROLE_OPERATOR, ROUTE_QUICK, queues_pause, "", false},

    {"GET", "/api/v1/policies", ROLE_VIEWER, ROUTE_QUICK, policies_list, "", 0},
    {"POST", "/api/v1/policies/simulate", ROLE_VIEWER, ROUTE_SLOW, policies_simulate, "", 0},
    {"GET", "/api/v1/policies/{id}", ROLE_VIEWER, ROUTE_QUICK, policies_get, "", 0},
    {"PUT", "/api/v1/policies/{id}", ROLE_OPERATOR, ROUTE_QUICK, policies_put, "", 0},
    {"GET", "/api/v1/policies/{id}/explain", ROLE_VIEWER, ROUTE_QUICK, policies_explain, "", 0},

    {"GET", "/api/v1/audit", ROLE_VIEWER, ROUTE_QUICK, audit_list, "job_id dlq_id after limit", 0},
    {"GET", "/api/v1/audit/head", ROLE_VIEWER, ROUTE_QUICK, audit_head, "", 0},
    {"GET", "/api/v1/audit/verify", ROLE_VIEWER, ROUTE_SLOW, audit_verify, "after", 0},

    {"GET", "/api/v1/events", ROLE_VIEWER, ROUTE_EVENTS, NULL, "after what", 0},
    {"GET", "/api/v1/status", ROLE_VIEWER, ROUTE_QUICK, status_get, "", 0},

    {"GET", "/api/v1/openapi.json", ROLE_NONE, ROUTE_QUICK, openapi_get, "", 0},
    {"GET", "/metrics", ROLE_VIEWER, ROUTE_QUICK, metrics_get, "", 0},
    {"GET", "/healthz", ROLE_NONE, ROUTE_QUICK, health_live, "", 0},
    {"GET", "/readyz", ROLE_NONE, ROUTE_QUICK, health_ready, "", 0},
    {"GET", "/", ROLE_NONE, ROUTE_QUICK, index_get, "", 0},
};

#define ROUTE_COUNT ((int)(sizeof(routes) / sizeof(routes[0])))

/* ---- errors ---------------------------------------------------------------------------------- */

static const int http_statuses[STATUS_COUNT] = {
    [STATUS_OK] = 200,          [STATUS_INVALID] = 400,    [STATUS_NOT_FOUND] = 404,
    [STATUS_CONFLICT] = 409,    [STATUS_REFUSED] = 403,    [STATUS_LIMIT] = 429,
    [STATUS_TOO_LARGE] = 413,   [STATUS_LEASE_LOST] = 409, [STATUS_NO_MEMORY] = 503,
    [STATUS_IO] = 503,          [STATUS_FULL] = 503,       [STATUS_READ_ONLY] = 503,
    [STATUS_CORRUPT] = 503,     [STATUS_FOREIGN] = 503,    [STATUS_BUSY] = 503,
    [STATUS_UNAVAILABLE] = 503,
};

/* answer_error replaces whatever was written with the error. */
static void answer_error(struct call *call, enum status status)
{
    struct api_answer *answer = call->answer;
    BUG_ON(status == STATUS_OK || status >= STATUS_COUNT);
    answer->status = call->http_status ? call->http_status : http_statuses[status];
    answer->content_type = NULL;
    answer->cursor = 0;
    if (status == STATUS_LIMIT && answer->retry_after_s < 1)
        answer->retry_after_s = 1;
    buf_clear(&answer->body);
    jsonw_init(&call->out, &answer->body);
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "error", call->err.text[0] ? call->err.text : status_name(status));
    jsonw_put_str(&call->out, "code", call->code ? call->code : status_name(status));
    jsonw_put_text(&call->out, "job_id", call->error_job_id);
    if (answer->retry_after_s)
        jsonw_put_int(&call->out, "retry_after", answer->retry_after_s);
    jsonw_object_end(&call->out);
    buf_add_char(&answer->body, '\n');
}

/* ---- routing --------------------------------------------------------------------------------- */

/* next_segment takes "/name" off the front of a path. */
static bool next_segment(struct slice *path, struct slice *segment)
{
    if (path->len == 0 || path->ptr[0] != '/')
        return false;
    const char *begin = path->ptr + 1;
    size_t rest = path->len - 1;
    const char *end = rest ? memchr(begin, '/', rest) : NULL;
    size_t len = end ? (size_t)(end - begin) : rest;
    *segment = (struct slice){begin, len};
    *path = (struct slice){begin + len, rest - len};
    return true;
}

/* match says whether a path fits a pattern; `id` is what stands for its {...}, still encoded. */
static bool match(const char *pattern, struct slice path, struct slice *id)
{
    struct slice rest = slice_of(pattern), want, have;
    *id = (struct slice){0};
    while (next_segment(&rest, &want)) {
        if (!next_segment(&path, &have) || (have.len == 0 && want.len > 0))
            return false;
        if (want.ptr[0] == '{')
            *id = have;
        else if (!slice_eq(want, have))
            return false;
    }
    return path.len == 0;
}

/* struct found: what the table says of a path. */
struct found {
    const struct route *route; /* NULL: none */
    const struct route *other; /* one that has the path with another method; NULL: none */
    struct slice id;           /* what stands for the {...}, still encoded */
    unsigned methods;          /* that the path has, when there is no route: METHOD_* */
};

enum { METHOD_GET = 1, METHOD_POST = 2, METHOD_PUT = 4 };

static unsigned method_bit(const char *method)
{
    return strcmp(method, "GET") == 0    ? METHOD_GET
           : strcmp(method, "POST") == 0 ? METHOD_POST
                                         : METHOD_PUT;
}

static struct found find(const char *method, struct slice path)
{
    struct found found = {0};
    struct slice id;
    if (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    for (int i = 0; i < ROUTE_COUNT && !found.route; i++) {
        if (!match(routes[i].pattern, path, &id))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            found.route = &routes[i];
            found.id = id;
            continue;
        }
        found.methods |= method_bit(routes[i].method);
        if (!found.other)
            found.other = &routes[i];
    }
    return found;
}

static enum status no_route(struct call *call, const struct found *found)
{
    static const char *const allow[] = {
        [METHOD_GET] = "GET, HEAD",
        [METHOD_POST] = "POST",
        [METHOD_PUT] = "PUT",
        [METHOD_GET | METHOD_POST] = "GET, HEAD, POST",
        [METHOD_GET | METHOD_PUT] = "GET, HEAD, PUT",
        [METHOD_POST | METHOD_PUT] = "POST, PUT",
        [METHOD_GET | METHOD_POST | METHOD_PUT] = "GET, HEAD, POST, PUT",
    };
    if (!found->other)
        return err_set(&call->err, STATUS_NOT_FOUND, "no such path");
    call->http_status = 405;
    call->code = "method_not_allowed";
    call->answer->allow = allow[found->methods];
    return err_set(&call->err, STATUS_INVALID, "%s is not allowed here; try %s",
                   call->request->method, call->answer->allow);
}

static enum status permit(struct call *call, const struct route *route)
{
    enum role role = call->request->role;
    if (role >= route->role)
        return STATUS_OK;
    if (role == ROLE_NONE) {
        call->http_status = 401;
        call->code = "unauthorized";
        return err_set(&call->err, STATUS_REFUSED,
                       "a token is needed: send \"Authorization: Bearer TOKEN\"");
    }
    return err_set(&call->err, STATUS_REFUSED, "this needs the role %s; the token has %s",
                   role_name(route->role), role_name(role));
}

int api_route_find(const char *method, struct slice path)
{
    struct found found = find(method, path);
    return found.route ? (int)(found.route - routes) : -1;
}

const char *api_route_pattern(int route)
{
    return route >= 0 && route < ROUTE_COUNT ? routes[route].pattern : NULL;
}

const char *api_route_method(int route)
{
    return route >= 0 && route < ROUTE_COUNT ? routes[route].method : NULL;
}

enum role api_route_role(int route)
{
    return route >= 0 && route < ROUTE_COUNT ? routes[route].role : ROLE_ADMIN;
}

/* ---- answers --------------------------------------------------------------------------------- */

void api_answer_init(struct api_answer *answer)
{
    *answer = (struct api_answer){0};
    buf_init(&answer->body, ANSWER_MAX);
}

void api_answer_release(struct api_answer *answer)
{
    buf_release(&answer->body);
    *answer = (struct api_answer){0};
}

void api_answer_error(struct api_answer *answer, int http_status, const char *code,
                      const char *format, ...)
{
    struct call call = {.answer = answer, .http_status = http_status, .code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(call.err.text, sizeof(call.err.text), format, args);
    va_end(args);
    answer_error(&call, STATUS_INVALID);
}

/* finish ends the body.  An answer that could not be kept whole is no answer. */
static enum status finish(struct call *call)
{
    if (!call->answer->content_type)
        buf_add_char(&call->answer->body, '\n');
    enum status status = buf_status(&call->answer->body, &call->err);
    if (status == STATUS_TOO_LARGE)
        return err_set(&call->err, STATUS_UNAVAILABLE,
                       "the answer has over %zu bytes: ask for a smaller page", ANSWER_MAX);
    return status;
}

/* ---- carrying out ---------------------------------------------------------------------------- */

struct api_run {
    struct call call;
    const struct route *route; /* NULL: none was found, or none was looked for yet */
    bool begun;
    void (*wake)(void *ctx);
    void *wake_ctx;
};

static void run_init(struct api_run *run, struct api *api, const struct api_request *request,
                     struct api_answer *answer)
{
    *run = (struct api_run){
        .call = {.api = api, .engine = api->engine, .request = request, .answer = answer}};
    struct buf body = answer->body;
    buf_clear(&body);
    *answer = (struct api_answer){.status = 200, .body = body};
    jsonw_init(&run->call.out, &answer->body);
}

/* prepare finds the route and reads the address. */
static enum status prepare(struct api_run *run)
{
    struct call *call = &run->call;
    struct found found = find(call->request->method, call->request->path);
    if (!found.route || (call->api->no_metrics && found.route->handler == metrics_get))
        return no_route(call, &found);
    run->route = found.route;
    call->argument = found.route->argument;
    enum status status = permit(call, found.route);
    if (status == STATUS_OK)
        status = query_parse(call, found.route->params);
    if (status == STATUS_OK && found.id.len)
        status = url_decode(found.id, false, &call->arena, &call->id, &call->err);
    return status;
}

/* settle looks at what a step left: work for the engine, or the end. */
static enum api_progress settle(struct call *call, enum status status)
{
    if (status == STATUS_OK && call->command)
        return API_ENGINE;
    if (status == STATUS_OK)
        status = finish(call);
    if (status != STATUS_OK)
        answer_error(call, status);
    return API_DONE;
}

/* go_on takes the step that follows the engine's answer. */
static enum status go_on(struct call *call)
{
    struct command *command = call->command;
    call->command = NULL;
    if (command->status != STATUS_OK)
        call->err = command->err;
    return call->next(call, command->status);
}

enum api_progress api_run_step(struct api_run *run)
{
    struct call *call = &run->call;
    if (run->begun)
        return settle(call, go_on(call));
    run->begun = true;
    enum status status = prepare(run);
    if (status != STATUS_OK)
        return settle(call, status);
    switch (run->route->kind) {
    case ROUTE_SLOW:
        return API_SLOW;
    case ROUTE_EVENTS:
        return API_EVENTS;
    case ROUTE_QUICK:
        break;
    }
    return settle(call, run->route->handler(call));
}

static void submitted_done(struct command *command)
{
    struct api_run *run = command->owner;
    run->wake(run->wake_ctx);
}

void api_run_submit(struct api_run *run, void (*wake)(void *ctx), void *ctx)
{
    struct command *command = run->call.command;
    run->wake = wake;
    run->wake_ctx = ctx;
    command->done = submitted_done;
    command->owner = run;
    engine_submit(run->call.engine, command);
}

void api_run_block(struct api_run *run)
{
    struct call *call = &run->call;
    call->may_wait = true;
    enum api_progress progress = settle(call, run->route->handler(call));
    while (progress == API_ENGINE) {
        engine_call(call->engine, call->command);
        progress = settle(call, go_on(call));
    }
}

void api_call(struct api *api, const struct api_request *request, struct api_answer *answer)
{
    struct api_run run;
    run_init(&run, api, request, answer);
    enum api_progress progress = api_run_step(&run);
    while (progress == API_ENGINE) {
        engine_call(api->engine, run.call.command);
        progress = api_run_step(&run);
    }
    if (progress == API_SLOW)
        api_run_block(&run);
    if (progress == API_EVENTS)
        api_answer_error(answer, 501, "unavailable", "events are streamed by a server only");
    arena_release(&run.call.arena);
}

/* ---- without holding a thread ---------------------------------------------------------------- */

struct api_run *api_run_new(struct api *api, const struct api_request *request,
                            struct api_answer *answer)
{
    struct api_run *run = mem_alloc(sizeof(*run));
    if (run)
        run_init(run, api, request, answer);
    return run;
}

void api_run_free(struct api_run *run)
{
    if (!run)
        return;
    arena_release(&run->call.arena);
    mem_free(run);
}

bool api_run_leased(const struct api_run *run)
{
    return run->call.leased && run->call.leased->count > 0;
}

struct slice api_run_param(struct api_run *run, const char *name)
{
    return query_text(&run->call, name);
}

bool api_run_waits(const struct api_run *run)
{
    const struct command *command = run->call.command;
    return command && command->kind == COMMAND_LEASE &&
           ((const struct lease_command *)command)->wait.us > 0;
}

void api_run_abandon(struct api_run *run)
{
    if (api_run_waits(run))
        engine_abandon(run->call.engine, (struct lease_command *)run->call.command);
}

/* struct give_back: leases on their way back; it frees itself. */
struct give_back {
    struct release_command release;
    struct arena arena;
};

static void given_back(struct command *command)
{
    struct give_back *back = command->owner;
    arena_release(&back->arena);
    mem_free(back);
}

/* handed_out is the lease that the engine has answered, also when no step has looked at it since.
 */
static const struct lease_command *handed_out(const struct api_run *run)
{
    const struct command *command = run->call.command;
    if (!run->call.leased && command && command->kind == COMMAND_LEASE &&
        command->status == STATUS_OK)
        return (const struct lease_command *)command;
    return run->call.leased;
}

void api_run_undelivered(struct api_run *run)
{
    const struct lease_command *leased = handed_out(run);
    if (!leased || leased->count == 0)
        return;
    struct give_back *back = mem_zalloc(sizeof(*back));
    struct release_item *items =
        back ? arena_array(&back->arena, leased->count, sizeof(*items)) : NULL;
    struct slice actor =
        back ? arena_dup(&back->arena, run->call.request->actor) : (struct slice){0};
    for (size_t i = 0; items && i < leased->count; i++) {
        items[i].lease_id = arena_dup(&back->arena, slice_of(leased->leases[i].lease_id));
        if (!items[i].lease_id.ptr)
            items = NULL;
    }
    if (!items || !actor.ptr) {
        /* The leases end by themselves, which counts as an attempt: all that can be done. */
        log_line(LOG_ERROR, "out of memory: %zu leases that nobody took are not given back",
                 leased->count);
        if (back)
            arena_release(&back->arena);
        mem_free(back);
        return;
    }
    back->release = (struct release_command){.command = {.kind = COMMAND_RELEASE,
                                                         .actor = actor,
                                                         .arena = &back->arena,
                                                         .done = given_back,
                                                         .owner = back},
                                             .items = items,
                                             .count = leased->count};
    engine_submit(run->call.engine, &back->release.command);
}

const char *api_run_route(const struct api_run *run)
{
    return run->route ? run->route->pattern : "none";
}
