/* policy: looking at retry policies, trying them out, and setting them. */
#include <inttypes.h>

#include "base/jsonw.h"
#include "cli/file.h"
#include "cli/grid.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"

#define POLICY_TEXT_MAX (256 << 10)

static const struct slice nothing = {0};

/* ---- list and show --------------------------------------------------------------------------- */

static void list_row(struct grid *grid, struct json policy, struct arena *arena)
{
    int64_t version = view_int(policy, "version");
    struct slice origin =
        version > 0 ? arena_printf(arena, "version %" PRId64, version) : SLICE("built in");
    grid_add(grid, (struct slice[]){view_text(policy, "name", arena),
                                    view_text(policy, "max_attempts", arena),
                                    view_text(policy, "backoff_strategy", arena), origin});
}

int cmd_policy_list(struct cli *cli)
{
    static const struct grid_column columns[] = {
        {.name = "NAME"}, {.name = "RUNS", .right = true}, {.name = "BACKOFF"}, {.name = "ORIGIN"}};
    struct json_iter iter;
    struct json policy;
    struct reply reply;
    int code = request_send(cli, "GET", "/api/v1/policies", nothing, nothing, &reply);

    if (code == 0 && cli->json) {
        out_json(&cli->out, buf_slice(&reply.answer.body));
    } else if (code == 0) {
        struct grid *grid = grid_new(&cli->out, columns, 4);
        json_iter_init(&iter, reply.value);
        while (json_next(&iter, NULL, &policy))
            list_row(grid, policy, &cli->arena);
        code = grid_print(grid);
    }
    reply_release(&reply);
    return code;
}

/* ask_policy gets what stands at the path of a named policy. */
static int ask_policy(struct cli *cli, const char *after, struct reply *reply)
{
    struct slice name = slice_of(cli->args.operands[0]);
    if (name.len == 0) {
        *reply = (struct reply){0};
        return say_error(CLI_USAGE, "a policy's name must not be empty");
    }
    return request_send(cli, "GET", request_path(cli, "/api/v1/policies/", name, after), nothing,
                        nothing, reply);
}

int cmd_policy_show(struct cli *cli)
{
    struct reply reply;
    int code = ask_policy(cli, "", &reply);

    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0)
        out_pretty(&cli->out, reply.value, 0);
    reply_release(&reply);
    return code;
}

int cmd_policy_set(struct cli *cli)
{
    struct slice name = slice_of(cli->args.operands[0]);
    struct err err = {0};
    struct reply reply = {0};
    struct buf text;
    int code = 0;

    if (name.len == 0)
        return say_error(CLI_USAGE, "a policy's name must not be empty");
    buf_init(&text, POLICY_TEXT_MAX);
    if (file_read(cli->args.operands[1], &text, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "%s", err.text);
    if (code == 0)
        code = request_send(cli, "PUT", request_path(cli, "/api/v1/policies/", name, ""), nothing,
                            buf_slice(&text), &reply);
    if (code == 0 && cli->json) {
        out_json(&cli->out, buf_slice(&reply.answer.body));
    } else if (code == 0) {
        out_str(&cli->out, "policy ");
        out_clean(&cli->out, name);
        out_format(&cli->out, " is set: version %" PRId64 "\n", view_int(reply.value, "version"));
    }
    reply_release(&reply);
    buf_release(&text);
    return code;
}

/* ---- explain --------------------------------------------------------------------------------- */

static const struct grid_column schedule_columns[] = {{.name = "ATTEMPT", .right = true},
                                                      {.name = "DELAY", .right = true},
                                                      {.name = "AFTER THE FIRST", .right = true}};

/* schedule_row adds an attempt; the delays of a program's rows are plain seconds. */
static void schedule_row(struct cli *cli, struct grid *grid, int64_t attempt, double delay,
                         double since)
{
    struct arena *arena = &cli->arena;
    bool person = cli->out.terminal;
    grid_add(grid, (struct slice[]){
                       arena_printf(arena, "%" PRId64, attempt),
                       person ? view_span(delay, arena) : arena_printf(arena, "%.15g", delay),
                       person ? view_span(since, arena) : arena_printf(arena, "%.15g", since)});
}

static int explain_table(struct cli *cli, struct json answer)
{
    struct grid *grid = grid_new(&cli->out, schedule_columns, 3);
    struct json_iter iter;
    struct json value;
    double delay, since = 0;
    int64_t attempt = 1;

    schedule_row(cli, grid, 1, 0, 0);
    json_iter_init(&iter, view_get(answer, "delays"));
    while (json_next(&iter, NULL, &value)) {
        if (!json_double(value, &delay))
            delay = 0;
        since += delay;
        schedule_row(cli, grid, ++attempt, delay, since);
    }
    int code = grid_print(grid);
    if (code == 0 && cli->out.terminal) {
        struct slice total = view_span(since, &cli->arena);
        out_format(&cli->out, "%" PRId64 " runs in all, over %.*s; %s jitter.\n",
                   view_int(answer, "max_attempts"), SLICE_ARG(total),
                   view_true(answer, "jitter") ? "spread by" : "no");
    }
    return code;
}

int cmd_policy_explain(struct cli *cli)
{
    struct reply reply;
    int code = ask_policy(cli, "/explain", &reply);

    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0)
        code = explain_table(cli, reply.value);
    reply_release(&reply);
    return code;
}

/* ---- simulate -------------------------------------------------------------------------------- */

/* put_given writes the failure that was given whole, as JSON or "@file". */
static int put_given(const char *given, struct jsonw *w)
{
    struct err err = {0};
    struct json value;
    struct buf text;
    int code = 0;

    buf_init(&text, POLICY_TEXT_MAX);
    if (given[0] != '@')
        buf_add_str(&text, given);
    else if (file_read(given + 1, &text, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--failure: %s", err.text);
    if (code == 0 && json_parse(buf_slice(&text), &value, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--failure: %s", err.text);
    if (code == 0)
        jsonw_raw(w, value.raw);
    buf_release(&text);
    return code;
}

static int put_failure(struct cli *cli, struct jsonw *w)
{
    const char *given = args_value(&cli->args, "failure");
    const char *class = args_value(&cli->args, "class");
    int64_t http = 0;
    int code = args_int(&cli->args, "http-status", 100, 599, &http);

    if (code != 0)
        return code;
    if ((given != NULL) + (class != NULL) + (http > 0) > 1)
        return say_error(CLI_USAGE, "give one of --class, --http-status and --failure");
    if (given)
        return put_given(given, w);
    jsonw_object(w);
    jsonw_put_str(w, "message", "simulated");
    if (http > 0)
        jsonw_put_int(w, "http_status", http);
    else
        jsonw_put_str(w, "class", class ? class : "timeout");
    jsonw_object_end(w);
    return 0;
}

static int simulate_body(struct cli *cli, struct buf *body)
{
    struct jsonw w;
    int64_t seed = 0;
    int code = args_int(&cli->args, "seed", INT64_MIN, INT64_MAX, &seed);

    jsonw_init(&w, body);
    jsonw_object(&w);
    jsonw_put_str(&w, "policy", cli->args.operands[0]);
    jsonw_key(&w, "failures");
    jsonw_array(&w);
    if (code == 0)
        code = put_failure(cli, &w);
    jsonw_array_end(&w);
    jsonw_put_bool(&w, "repeat", true);
    jsonw_put_int(&w, "seed", seed);
    jsonw_put_bool(&w, "has_idempotency_key", args_has(&cli->args, "idempotent"));
    jsonw_object_end(&w);
    if (code == 0 && buf_status(body, NULL) != STATUS_OK)
        code = say_error(CLI_USAGE, "the failure is too large");
    return code;
}

static struct slice seconds_text(struct cli *cli, struct json value)
{
    double seconds;
    if (!json_double(value, &seconds))
        return nothing;
    return cli->out.terminal ? view_span(seconds, &cli->arena) : value.raw;
}

static int simulate_table(struct cli *cli, struct json decisions)
{
    static const struct grid_column columns[] = {{.name = "ATTEMPT", .right = true},
                                                 {.name = "AT", .right = true},
                                                 {.name = "CLASS"},
                                                 {.name = "DECISION"},
                                                 {.name = "RULE"},
                                                 {.name = "DELAY", .right = true},
                                                 {.name = "REASON"}};
    struct grid *grid = grid_new(&cli->out, columns, 7);
    struct arena *arena = &cli->arena;
    struct json_iter iter;
    struct json d;

    json_iter_init(&iter, decisions);
    while (json_next(&iter, NULL, &d))
        grid_add(grid, (struct slice[]){view_text(d, "attempt", arena),
                                        seconds_text(cli, view_get(d, "at_seconds")),
                                        view_text(d, "class", arena), view_text(d, "action", arena),
                                        view_text(d, "rule", arena),
                                        seconds_text(cli, view_get(d, "delay_seconds")),
                                        view_text(d, "reason", arena)});
    return grid_print(grid);
}

int cmd_policy_simulate(struct cli *cli)
{
    struct reply reply = {0};
    struct buf body;
    int code;

    buf_init(&body, POLICY_TEXT_MAX << 1);
    code = simulate_body(cli, &body);
    if (code == 0)
        code = request_send(cli, "POST", "/api/v1/policies/simulate", nothing, buf_slice(&body),
                            &reply);
    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0)
        code = simulate_table(cli, reply.value);
    reply_release(&reply);
    buf_release(&body);
    return code;
}
