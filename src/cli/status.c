/* status: the station on one screen. */
#include <inttypes.h>

#include "cli/grid.h"
#include "cli/numbers.h"
#include "cli/request.h"
#include "cli/view.h"

static int show_queues(struct cli *cli, struct json queues)
{
    static const struct grid_column columns[] = {{.name = "QUEUE"},
                                                 {.name = "PENDING", .right = true},
                                                 {.name = "SCHEDULED", .right = true},
                                                 {.name = "RUNNING", .right = true},
                                                 {.name = "DEAD", .right = true},
                                                 {.name = "OLDEST", .right = true},
                                                 {.name = "STATE"}};
    struct grid *grid = grid_new(&cli->out, columns, 7);
    struct arena *arena = &cli->arena;
    struct json_iter iter;
    struct json q;

    json_iter_init(&iter, queues);
    while (json_next(&iter, NULL, &q)) {
        struct json depth = view_get(q, "depth");
        struct slice oldest = cli->out.terminal
                                  ? view_age(view_time(q, "oldest"), cli->out.now, arena)
                                  : view_text(q, "oldest", arena);
        grid_add(grid, (struct slice[]){
                           view_text(q, "name", arena), view_text(depth, "pending", arena),
                           view_text(depth, "scheduled", arena), view_text(depth, "running", arena),
                           view_text(depth, "dead", arena), oldest,
                           view_true(q, "paused") ? SLICE("paused") : SLICE("open")});
    }
    return grid_print(grid);
}

static void show_states(struct cli *cli, struct json states)
{
    struct json_iter iter;
    struct json key = {0}, value;
    const char *comma = "";

    json_iter_init(&iter, states);
    while (json_next(&iter, &key, &value)) {
        struct slice name = json_text(key, &cli->arena);
        out_format(&cli->out, "%s%.*s %.*s", comma, SLICE_ARG(value.raw), SLICE_ARG(name));
        comma = ", ";
    }
    out_str(&cli->out, "\n");
}

/* show_trend prints the deaths of the last hours as one line. */
static void show_trend(struct cli *cli, struct json trend)
{
    struct json_iter iter;
    struct json hour;
    struct buf counts;
    int64_t sum = 0;

    buf_init(&counts, 4096);
    buf_add_char(&counts, '[');
    json_iter_init(&iter, trend);
    while (json_next(&iter, NULL, &hour)) {
        sum += view_int(hour, "count");
        buf_addf(&counts, "%s%" PRId64, counts.len > 1 ? "," : "", view_int(hour, "count"));
    }
    buf_add_char(&counts, ']');
    struct json values = {JSON_ARRAY, buf_slice(&counts)};
    out_format(&cli->out, "  %" PRId64 " in the last %zu hours  |", sum, json_count(trend));
    view_trend(&cli->out, values);
    out_str(&cli->out, "|\n");
    buf_release(&counts);
}

static int show_status(struct cli *cli, struct json answer)
{
    struct json letters = view_get(answer, "letters");
    int64_t open = view_int(letters, "unrecovered");
    struct slice oldest = view_age(view_time(letters, "oldest"), cli->out.now, &cli->arena);
    int code = 0;

    out_styled(&cli->out, STYLE_BOLD, "Jobs");
    out_str(&cli->out, "\n  ");
    show_states(cli, view_get(answer, "states"));
    numbers_heading(&cli->out, "Queues");
    if (json_count(view_get(answer, "queues")) == 0)
        out_str(&cli->out, "  none\n");
    else
        code = show_queues(cli, view_get(answer, "queues"));
    numbers_heading(&cli->out, "Dead letters");
    out_format(&cli->out, "  %" PRId64 " open, of which a machine may replay %" PRId64, open,
               view_int(letters, "recoverable"));
    if (open > 0)
        out_format(&cli->out, "; the oldest is %.*s old", SLICE_ARG(oldest));
    out_str(&cli->out, "\n");
    if (open > 0) {
        numbers_bars(cli, view_get(letters, "by_reason"));
        numbers_heading(&cli->out, "Groups");
        numbers_groups(cli, view_get(letters, "groups"), open);
    }
    numbers_heading(&cli->out, "Trend");
    show_trend(cli, view_get(letters, "trend"));
    out_format(&cli->out, "\n%" PRId64 " events of evidence.\n", view_int(answer, "audit_seq"));
    return code;
}

int cmd_status(struct cli *cli)
{
    struct reply reply;
    int code =
        request_send(cli, "GET", "/api/v1/status", (struct slice){0}, (struct slice){0}, &reply);

    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    else if (code == 0)
        code = show_status(cli, reply.value);
    reply_release(&reply);
    return code;
}
