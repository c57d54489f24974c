/* analyze: dead letters in numbers: analyze, groups, stats. */
#include <inttypes.h>

#include "base/jsonw.h"
#include "cli/grid.h"
#include "cli/numbers.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/sink.h"
#include "cli/view.h"

#define GROUPS_LIMIT 50
#define HOURS_SHOWN 24

/* ---- analyze --------------------------------------------------------------------------------- */

/* show_hours prints the last hours in which something died, a bar each. */
static void show_hours(struct cli *cli, struct json hours)
{
    struct json_iter iter;
    struct json hour;
    size_t skip = json_count(hours), index = 0;
    int64_t max = 0;

    skip = skip > HOURS_SHOWN ? skip - HOURS_SHOWN : 0;
    json_iter_init(&iter, hours);
    while (json_next(&iter, NULL, &hour))
        if (view_int(hour, "count") > max)
            max = view_int(hour, "count");
    json_iter_init(&iter, hours);
    while (json_next(&iter, NULL, &hour)) {
        struct slice at = view_text(hour, "hour", &cli->arena);
        if (index++ < skip)
            continue;
        /* Whole hours: the rest of the text says nothing. */
        at.len = at.len > 16 ? 16 : at.len;
        out_str(&cli->out, "  ");
        out_clean(&cli->out, at);
        out_str(&cli->out, "Z ");
        view_bar(&cli->out, view_int(hour, "count"), max, NUMBERS_BAR);
        out_format(&cli->out, " %" PRId64 "\n", view_int(hour, "count"));
    }
}

static void show_analysis(struct cli *cli, struct json answer)
{
    struct slice total = view_count(view_int(answer, "total"), "open dead letter", &cli->arena);
    struct slice groups = view_count(view_int(answer, "group_count"), "group", &cli->arena);

    out_format(&cli->out,
               "%.*s in %.*s; %" PRId64 " eligible for replay, %" PRId64 " in need of review.\n",
               SLICE_ARG(total), SLICE_ARG(groups), view_int(answer, "eligible"),
               view_int(answer, "needs_review"));
    if (view_int(answer, "total") == 0)
        return;
    numbers_heading(&cli->out, "Groups");
    numbers_groups(cli, view_get(answer, "groups"), view_int(answer, "total"));
    numbers_heading(&cli->out, "Error types");
    numbers_bars(cli, view_get(answer, "error_types"));
    numbers_heading(&cli->out, "Reasons");
    numbers_bars(cli, view_get(answer, "reasons"));
    numbers_heading(&cli->out, "Failures by hour");
    show_hours(cli, view_get(answer, "by_hour"));
}

static int export_analysis(struct cli *cli, const char *path, struct slice json)
{
    struct sink sink;
    int code = sink_open(&sink, cli, path);
    return code != 0 ? code : sink_close(&sink, sink_json(&sink, json));
}

int cmd_analyze(struct cli *cli)
{
    const char *run = args_value(&cli->args, "job-id"), *path = args_value(&cli->args, "export");
    struct reply reply;
    struct buf query;

    buf_init(&query, 4096);
    if (run)
        request_query(&query, "job_id", slice_of(run));
    int code = request_send(cli, "GET", "/api/v1/dlq/analyze", buf_slice(&query), (struct slice){0},
                            &reply);
    if (code == 0 && path)
        code = export_analysis(cli, path, buf_slice(&reply.answer.body));
    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0 && !(path && strcmp(path, "-") == 0))
        show_analysis(cli, reply.value);
    reply_release(&reply);
    buf_release(&query);
    return code;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* groups_table shows groups.  Of a run's it is not known what they are beside the run. */
static int groups_table(struct cli *cli, struct json groups, bool of_run)
{
    static const struct grid_column columns[] = {{.name = "GROUP"},
                                                 {.name = "DEAD", .right = true},
                                                 {.name = "LAST", .right = true},
                                                 {.name = "SIGNATURE", .cut = true}};
    static const struct grid_column all[] = {{.name = "GROUP"},
                                             {.name = "DEAD", .right = true},
                                             {.name = "EVER", .right = true},
                                             {.name = "LAST", .right = true},
                                             {.name = "STATUS"},
                                             {.name = "SIGNATURE", .cut = true}};
    struct grid *grid = of_run ? grid_new(&cli->out, columns, 4) : grid_new(&cli->out, all, 6);
    struct json_iter iter;
    struct json g;
    struct arena *arena = &cli->arena;

    json_iter_init(&iter, groups);
    while (json_next(&iter, NULL, &g)) {
        struct slice last = cli->out.terminal
                                ? view_age(view_time(g, "last_seen"), cli->out.now, arena)
                                : view_text(g, "last_seen", arena);
        struct slice name = view_text(g, "fingerprint", arena),
                     count = view_text(g, "count", arena),
                     signature = view_text(g, "signature", arena);
        if (of_run)
            grid_add(grid, (struct slice[]){name, count, last, signature});
        else
            grid_add(grid, (struct slice[]){name, count, view_text(g, "total", arena), last,
                                            view_text(g, "status", arena), signature});
    }
    int code = grid_print(grid);
    if (code == 0 && cli->out.terminal && json_count(groups) == 0)
        out_str(&cli->out, "No dead letters.\n");
    return code;
}

/* first is the array of the first `limit` groups, in `out`. */
static struct json first(struct json groups, int64_t limit, struct buf *out)
{
    struct json_iter iter;
    struct json group;
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_array(&w);
    json_iter_init(&iter, groups);
    while (limit-- > 0 && json_next(&iter, NULL, &group))
        jsonw_raw(&w, group.raw);
    jsonw_array_end(&w);
    return (struct json){JSON_ARRAY, buf_slice(out)};
}

/* groups_of_run shows the groups of one run, as its analysis has them. */
static int groups_of_run(struct cli *cli, const char *run, int64_t limit)
{
    struct reply reply = {0};
    struct buf query, text;

    buf_init(&query, 4096);
    buf_init(&text, (size_t)64 << 20);
    request_query(&query, "job_id", slice_of(run));
    int code = request_send(cli, "GET", "/api/v1/dlq/analyze", buf_slice(&query), (struct slice){0},
                            &reply);
    struct json groups = first(view_get(reply.value, "groups"), limit, &text);
    if (code == 0 && buf_status(&text, NULL) != STATUS_OK)
        code = say_no_memory();
    if (code == 0 && cli->json)
        out_json(&cli->out, groups.raw);
    else if (code == 0)
        code = groups_table(cli, groups, true);
    reply_release(&reply);
    buf_release(&query);
    buf_release(&text);
    return code;
}

int cmd_groups(struct cli *cli)
{
    int64_t limit = GROUPS_LIMIT;
    const char *run = args_value(&cli->args, "job-id");
    struct reply reply = {0};
    struct buf query;
    int code = args_int(&cli->args, "limit", 1, REQUEST_PAGE_MAX, &limit);

    if (code == 0 && run)
        return groups_of_run(cli, run, limit);
    buf_init(&query, 256);
    buf_addf(&query, "limit=%" PRId64, limit);
    if (code == 0)
        code = request_send(cli, "GET", "/api/v1/dlq/groups", buf_slice(&query), (struct slice){0},
                            &reply);
    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0)
        code = groups_table(cli, reply.value, false);
    if (code == 0 && !cli->json && cli->out.terminal && reply.answer.cursor != 0)
        out_format(&cli->out, "The first %" PRId64 "; --limit shows more.\n", limit);
    reply_release(&reply);
    buf_release(&query);
    return code;
}

/* ---- stats ----------------------------------------------------------------------------------- */

static void show_stats(struct cli *cli, struct json stats)
{
    struct slice total = view_count(view_int(stats, "total"), "dead letter", &cli->arena);

    out_format(&cli->out, "%.*s, %" PRId64 " open, of which a machine may replay %" PRId64 ".\n",
               SLICE_ARG(total), view_int(stats, "unrecovered"), view_int(stats, "recoverable"));
    if (view_int(stats, "total") == 0)
        return;
    numbers_heading(&cli->out, "States");
    numbers_bars(cli, view_get(stats, "by_state"));
    numbers_heading(&cli->out, "Open, by reason");
    numbers_bars(cli, view_get(stats, "by_reason"));
    numbers_heading(&cli->out, "Open, by source");
    numbers_bars(cli, view_get(stats, "by_source"));
    numbers_heading(&cli->out, "Open, by queue");
    numbers_bars(cli, view_get(stats, "by_queue"));
}

int cmd_stats(struct cli *cli)
{
    struct reply reply;
    int code =
        request_send(cli, "GET", "/api/v1/dlq/stats", (struct slice){0}, (struct slice){0}, &reply);
    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0)
        show_stats(cli, reply.value);
    reply_release(&reply);
    return code;
}
