/* audit: the evidence, event by event, and whether it is whole. */
#include <inttypes.h>

#include "cli/grid.h"
#include "cli/letters.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/sink.h"
#include "cli/view.h"

#define AUDIT_LIMIT 50
#define AUDIT_LIMIT_MAX 10000000

/* ---- walking --------------------------------------------------------------------------------- */

/* struct walk: which events, and where the walk is. */
struct walk {
    struct cli *cli;
    struct slice base; /* of the query: job_id or dlq_id */
    int64_t after;
    int64_t left; /* events to hand over still */
    int (*visit)(void *ctx, struct json event);
    void *ctx;
};

/* one_page hands one page over; `*more` says whether there is another. */
static int one_page(struct walk *walk, bool *more)
{
    int64_t limit = walk->left < REQUEST_PAGE_MAX ? walk->left : REQUEST_PAGE_MAX;
    struct json_iter iter;
    struct json event;
    struct reply reply;
    struct buf query;

    buf_init(&query, walk->base.len + 256);
    buf_add_slice(&query, walk->base);
    buf_addf(&query, "%safter=%" PRId64 "&limit=%" PRId64, walk->base.len > 0 ? "&" : "",
             walk->after, limit);
    int code = request_send(walk->cli, "GET", "/api/v1/audit", buf_slice(&query), (struct slice){0},
                            &reply);
    if (code == 0)
        json_iter_init(&iter, reply.value);
    while (code == 0 && json_next(&iter, NULL, &event)) {
        walk->after = view_int(event, "seq");
        walk->left--;
        code = walk->visit(walk->ctx, event);
    }
    *more = reply.answer.cursor != 0;
    reply_release(&reply);
    buf_release(&query);
    return code;
}

/* walk_events reads the flags of the walk and hands the events over, in order. */
static int walk_events(struct walk *walk, int64_t limit, bool *more)
{
    struct cli *cli = walk->cli;
    const char *job = args_value(&cli->args, "job-id"), *letter = args_value(&cli->args, "dlq-id");
    struct buf base;
    int code = args_int(&cli->args, "after", 0, INT64_MAX, &walk->after);

    if (code == 0 && job && letter)
        code = say_error(CLI_USAGE, "give one of --job-id and --dlq-id");
    buf_init(&base, 4096);
    if (code == 0 && letter) {
        struct slice id;
        code = letters_find(cli, letter, &id);
        if (code == 0)
            request_query(&base, "dlq_id", id);
    }
    if (job)
        request_query(&base, "job_id", slice_of(job));
    walk->base = buf_slice(&base);
    walk->left = limit;
    *more = true;
    while (code == 0 && *more && walk->left > 0 && out_ok(&cli->out))
        code = one_page(walk, more);
    buf_release(&base);
    return code;
}

/* ---- show ------------------------------------------------------------------------------------ */

struct showing {
    struct cli *cli;
    struct grid *grid;
    int64_t count;
    int64_t last;
};

static int show_json(void *ctx, struct json event)
{
    struct showing *s = ctx;
    out_str(&s->cli->out, s->count++ > 0 ? ",\n" : "[");
    out_raw(&s->cli->out, event.raw);
    return 0;
}

static int show_row(void *ctx, struct json event)
{
    struct showing *s = ctx;
    struct arena arena = {0};

    struct slice at = view_text(event, "at", &arena);

    /* A person reads seconds; the rest of a line is for what happened. */
    if (s->cli->out.terminal && at.len > 19)
        at.len = 19;
    s->last = view_int(event, "seq");
    grid_add(s->grid,
             (struct slice[]){view_text(event, "seq", &arena), at,
                              view_text(event, "actor", &arena), view_text(event, "what", &arena),
                              view_text(event, "job_id", &arena), view_get(event, "why").raw});
    arena_release(&arena);
    return 0;
}

int cmd_audit_show(struct cli *cli)
{
    static const struct grid_column columns[] = {{.name = "SEQ", .right = true},
                                                 {.name = "AT"},
                                                 {.name = "ACTOR"},
                                                 {.name = "WHAT"},
                                                 {.name = "JOB", .cut = true},
                                                 {.name = "WHY", .cut = true}};
    struct showing showing = {.cli = cli};
    struct walk walk = {.cli = cli, .visit = cli->json ? show_json : show_row, .ctx = &showing};
    int64_t limit = AUDIT_LIMIT;
    bool more = false;
    int code = args_int(&cli->args, "limit", 1, AUDIT_LIMIT_MAX, &limit);

    if (code == 0 && !cli->json)
        showing.grid = grid_new(&cli->out, columns, 6);
    if (code == 0)
        code = walk_events(&walk, limit, &more);
    if (cli->json) {
        if (code == 0 || showing.count > 0)
            out_str(&cli->out, showing.count > 0 ? "]\n" : "[]\n");
        return code;
    }
    if (code != 0) {
        grid_free(showing.grid);
        return code;
    }
    code = grid_print(showing.grid);
    if (code == 0 && more && cli->out.terminal)
        out_format(&cli->out, "More follow: --after %" PRId64 ", or --limit.\n", showing.last);
    return code;
}

/* ---- verify ---------------------------------------------------------------------------------- */

int cmd_audit_verify(struct cli *cli)
{
    struct reply reply;
    int code = request_send(cli, "GET", "/api/v1/audit/verify", (struct slice){0},
                            (struct slice){0}, &reply);

    if (code == 0 && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    if (code == 0 && !view_true(reply.value, "ok")) {
        struct slice why = view_text(reply.value, "error", &cli->arena);
        code = say_error(CLI_FAILED, "the evidence does not verify: event %" PRId64 ": %.*s",
                         view_int(reply.value, "seq"), SLICE_ARG(why));
    } else if (code == 0 && !cli->json) {
        struct slice count = view_count(view_int(reply.value, "events"), "event", &cli->arena);
        struct slice hash = view_text(reply.value, "hash", &cli->arena);
        out_format(&cli->out, "%.*s verified; head %.*s\n", SLICE_ARG(count), SLICE_ARG(hash));
    }
    reply_release(&reply);
    return code;
}

/* ---- export ---------------------------------------------------------------------------------- */

struct exporting {
    struct sink sink;
    int64_t count;
};

static int export_event(void *ctx, struct json event)
{
    struct exporting *e = ctx;
    int code = sink_json(&e->sink, event.raw);
    e->count++;
    return code != 0 ? code : sink_json(&e->sink, SLICE("\n"));
}

int cmd_audit_export(struct cli *cli)
{
    struct exporting exporting = {0};
    struct walk walk = {.cli = cli, .visit = export_event, .ctx = &exporting};
    const char *path = cli->args.operands[0];
    bool more;
    int code = sink_open(&exporting.sink, cli, path);

    if (code != 0)
        return code;
    code = sink_close(&exporting.sink, walk_events(&walk, INT64_MAX, &more));
    if (code == 0 && strcmp(path, "-") != 0) {
        struct slice count = view_count(exporting.count, "event", &cli->arena);
        if (cli->json)
            out_format(&cli->out, "{\"exported\":%" PRId64 "}\n", exporting.count);
        else
            out_format(&cli->out, "%.*s exported to %s\n", SLICE_ARG(count), path);
    }
    return code;
}
