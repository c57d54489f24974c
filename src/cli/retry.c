/* retry: see retry.h. */
#include "cli/retry.h"

#include <inttypes.h>
#include <time.h>

#include "cli/letters.h"
#include "cli/map.h"
#include "cli/request.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/view.h"
#include "run/spec.h"

#define WAIT_MS 200 /* between two looks at letters that are waited for */

/* ---- which runs ------------------------------------------------------------------------------ */

int retry_plan_run(struct cli *cli, struct retry_plan *plan, struct slice run_id)
{
    for (size_t i = 0; i < plan->run_count; i++)
        if (slice_is(run_id, plan->runs[i]))
            return 0;
    if (plan->run_count == RETRY_RUNS_MAX)
        return say_error(CLI_USAGE,
                         "these are letters of more than %d runs: retry one after the other",
                         RETRY_RUNS_MAX);
    const char *copy = arena_dup(&cli->arena, run_id).ptr;
    if (!copy)
        return say_no_memory();
    plan->runs[plan->run_count++] = copy;
    plan->hold = true;
    return 0;
}

/* struct gathering: a walk over letters. */
struct gathering {
    struct cli *cli;
    struct retry_plan *plan;
};

static int gather(void *ctx, struct json letter)
{
    struct gathering *g = ctx;
    struct arena arena = {0};
    struct json envelope = view_get(letter, "envelope");
    struct slice run = view_text(envelope, "run_id", &arena);
    bool map = slice_is(view_text(envelope, "action", &arena), "map");
    int code = map && run.len > 0 ? retry_plan_run(g->cli, g->plan, run) : 0;

    arena_release(&arena);
    return code;
}

int retry_plan_query(struct cli *cli, struct retry_plan *plan, struct slice query)
{
    struct gathering g = {cli, plan};
    return letters_each(cli, query, 0, gather, &g, NULL);
}

int retry_plan_letter(struct cli *cli, struct retry_plan *plan, struct slice dlq_id)
{
    struct gathering g = {cli, plan};
    struct reply reply;
    const char *path = request_path(cli, "/api/v1/dlq/", dlq_id, "");
    int code = request_send(cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply);

    if (code == 0)
        code = gather(&g, reply.value);
    reply_release(&reply);
    return code;
}

/* left_of is how many items of a run are pending, due or running. */
static int64_t left_of(struct cli *cli, const char *run_id)
{
    struct reply reply;
    const char *path = request_path(cli, "/api/v1/runs/", slice_of(run_id), "");
    int64_t left = 0;

    if (request_try(cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply) == 0 &&
        reply.answer.status == 200)
        left = view_int(reply.value, "pending") + view_int(reply.value, "scheduled") +
               view_int(reply.value, "running");
    reply_release(&reply);
    return left;
}

bool retry_run_waits(struct cli *cli, const char *run_id)
{
    return left_of(cli, run_id) > 0;
}

bool retry_waits(struct cli *cli, const struct retry_plan *plan)
{
    for (size_t i = 0; i < plan->run_count; i++)
        if (retry_run_waits(cli, plan->runs[i]))
            return true;
    return false;
}

int retry_confirm(struct cli *cli, const struct retry_plan *plan)
{
    int code = 0;

    for (size_t i = 0; i < plan->run_count && code == 0 && !cli->server; i++) {
        int64_t left = left_of(cli, plan->runs[i]);
        struct slice count = view_count(left, "item", &cli->arena);
        struct slice what =
            arena_printf(&cli->arena, "go on with run \"%s\", which has %.*s left beside these",
                         plan->runs[i], SLICE_ARG(count));
        if (left > 0)
            code = what.ptr ? say_confirm(cli, what.ptr) : say_no_memory();
    }
    return code;
}

/* ---- what follows ---------------------------------------------------------------------------- */

/* run_one runs what a run has to do, here. */
static int run_one(struct cli *cli, const char *run_id)
{
    int64_t parallel = 0;
    int code = args_int(&cli->args, "parallel", 1, PARALLEL_MAX, &parallel);

    if (code == 0 && cli->server) {
        say_note("the items of run \"%s\" are pending: run them where its data directory is, with "
                 "\"lazaret map --resume --job-id %s\"",
                 run_id, run_id);
        return 0;
    }
    if (code == 0)
        code = map_again(cli, run_id, (unsigned)parallel);
    if (code == CLI_MISSING) {
        say_note("run \"%s\" was not begun in this data directory, so its command is not known: "
                 "its items are pending; run them with \"lazaret map --resume --job-id %s -- "
                 "COMMAND\"",
                 run_id, run_id);
        return 0;
    }
    if (code == CLI_REFUSED) {
        say_note("run \"%s\" is being run by another process, which takes its items up", run_id);
        return 0;
    }
    return code;
}

/* struct waiting: letters whose outcome is waited for. */
struct waiting {
    struct slice *ids;
    size_t count;
    int64_t dead;
};

static int collect(struct cli *cli, struct json answer, struct waiting *w)
{
    struct json_iter iter;
    struct json result, results = view_get(answer, "results");

    w->ids = arena_array(&cli->arena, json_count(results) + 1, sizeof *w->ids);
    if (!w->ids)
        return say_no_memory();
    json_iter_init(&iter, results);
    while (json_next(&iter, NULL, &result))
        if (slice_is(view_text(result, "status", &cli->arena), "retried"))
            w->ids[w->count++] = view_text(result, "dlq_id", &cli->arena);
    return 0;
}

/* look asks after each that is not settled yet. */
static int look(struct cli *cli, struct waiting *w)
{
    size_t left = 0;
    for (size_t i = 0; i < w->count; i++) {
        struct arena arena = {0};
        struct reply reply;
        const char *path = request_path(cli, "/api/v1/dlq/", w->ids[i], "");
        int code = request_send(cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply);
        struct slice state = view_text(reply.value, "state", &arena);
        if (code == 0 && slice_is(state, "recovering"))
            w->ids[left++] = w->ids[i];
        w->dead += code == 0 && slice_is(state, "dead");
        arena_release(&arena);
        reply_release(&reply);
        if (code != 0)
            return code;
    }
    w->count = left;
    return 0;
}

static int wait_for(struct cli *cli, struct json answer)
{
    struct waiting w = {0};
    int code = collect(cli, answer, &w);
    size_t all = w.count;

    while (code == 0 && w.count > 0) {
        code = look(cli, &w);
        if (code == 0 && w.count > 0)
            nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000L}, NULL);
    }
    if (code != 0)
        return code;
    say_note("%zu came to an end: %" PRId64 " succeeded, %" PRId64 " died again", all,
             (int64_t)all - w.dead, w.dead);
    return w.dead > 0 ? CLI_FAILED : 0;
}

int retry_follow(struct cli *cli, const struct retry_plan *plan, struct json answer)
{
    int code = 0;

    if (plan->run_count > 0)
        runlink_block();
    for (size_t i = 0; i < plan->run_count; i++) {
        int one = run_one(cli, plan->runs[i]);
        code = one > code ? one : code;
    }
    if (args_has(&cli->args, "wait")) {
        int one = wait_for(cli, answer);
        code = one > code ? one : code;
    }
    return code;
}
