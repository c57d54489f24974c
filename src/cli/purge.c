/* purge: removing letters for good: by age, or those of a run.  It always asks. */
#include <inttypes.h>

#include "base/jsonw.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"

#define PURGE_DAYS_MAX 36500

static int send(struct cli *cli, const char *path, struct slice body)
{
    struct reply reply;
    int code = request_send(cli, "POST", path, (struct slice){0}, body, &reply);

    if (code == 0 && cli->json) {
        out_json(&cli->out, buf_slice(&reply.answer.body));
    } else if (code == 0) {
        int64_t kept = view_int(reply.value, "kept");
        struct slice purged =
            view_count(view_int(reply.value, "purged"), "dead letter", &cli->arena);
        out_format(&cli->out, "%.*s removed for good\n", SLICE_ARG(purged));
        if (kept > 0)
            say_note("%" PRId64 " kept: %s; --force removes %s too", kept,
                     kept == 1 ? "it still needs review" : "they still need review",
                     kept == 1 ? "it" : "them");
    }
    reply_release(&reply);
    return code;
}

static void put_common(struct cli *cli, struct jsonw *w, const char *run)
{
    if (run)
        jsonw_put_str(w, "job_id", run);
    if (args_has(&cli->args, "force"))
        jsonw_put_bool(w, "force", true);
    jsonw_put_str(w, "actor", cli->actor);
}

/* confirm_and_send ends the body, asks, and sends it. */
static int confirm_and_send(struct cli *cli, struct jsonw *w, const char *path, struct slice what)
{
    int code = what.ptr ? say_confirm(cli, what.ptr) : say_no_memory();

    jsonw_object_end(w);
    return code != 0 ? code : send(cli, path, buf_slice(w->buf));
}

int cmd_purge(struct cli *cli)
{
    const char *run = args_value(&cli->args, "job-id");
    int64_t days = -1;
    struct buf body;
    struct jsonw w;
    int code = args_int(&cli->args, "older-than-days", 0, PURGE_DAYS_MAX, &days);

    if (code != 0)
        return code;
    if (days < 0)
        return say_error(CLI_USAGE, "\"dlq purge\" needs --older-than-days N");
    buf_init(&body, 16 << 10);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_put_int(&w, "older_than_days", days);
    put_common(cli, &w, run);
    struct slice what = arena_printf(
        &cli->arena, "remove for good the dead letters%s%s older than %" PRId64 " day%s",
        run ? " of " : "", run ? run : "", days, days == 1 ? "" : "s");
    code = confirm_and_send(cli, &w, "/api/v1/dlq/purge", what);
    buf_release(&body);
    return code;
}

int cmd_clear(struct cli *cli)
{
    const char *run = cli->args.operands[0];
    struct buf body;
    struct jsonw w;

    buf_init(&body, 16 << 10);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    put_common(cli, &w, run);
    struct slice what = arena_printf(&cli->arena, "remove for good the dead letters of %s", run);
    int code = confirm_and_send(cli, &w, "/api/v1/dlq/clear", what);
    buf_release(&body);
    return code;
}
