/* send: one receipt to its endpoint, in the foreground.
 *
 *     push, claimed --> [ lease, POST, report ] --+-- delivered
 *                              ^                  |
 *                              `-- retry, when the engine says so
 *                                                 `-- dead-lettered, and in receipts.json
 *
 * What was sent and what came of it is in the store before anything is said here.  A `send` that is
 * killed leaves a job that the same command takes up again; else it is quarantined in a minute. */
#include <inttypes.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "bridge/receiptfile.h"
#include "bridge/sender.h"
#include "cli/endpoint.h"
#include "cli/file.h"
#include "cli/request.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/view.h"
#include "core/delivery.h"
#include "core/envelope.h"
#include "engine/engine.h"

struct sending {
    struct cli *cli;
    struct target to;
    struct json receipt;
    struct slice job_id, dlq_id;
    uint32_t attempts;
    bool shown; /* a line that is to be replaced stands on the terminal */
};

/* ---- what is shown --------------------------------------------------------------------------- */

/* clear takes back the line that says that an attempt is under way. */
static void clear(struct sending *sending)
{
    if (sending->shown)
        fputs("\r\033[K", stderr);
    sending->shown = false;
}

static double seconds_until(struct instant at)
{
    double seconds = span_to_seconds(instant_since(at, seams_real()->wall(NULL)));
    return seconds > 0 ? seconds : 0;
}

static void on_event(void *ctx, const struct watch_event *event)
{
    struct sending *sending = ctx;
    clear(sending);
    if (event->attempt > sending->attempts)
        sending->attempts = event->attempt;
    switch (event->what) {
    case WATCH_STARTED:
        if (isatty(STDERR_FILENO) == 1) {
            fprintf(stderr, "attempt %" PRIu32 " ...", event->attempt);
            fflush(stderr);
            sending->shown = true;
        }
        break;
    case WATCH_SUCCEEDED:
        say_note("attempt %" PRIu32 ": delivered in %.0f ms", event->attempt,
                 (double)event->duration.us / 1000);
        break;
    case WATCH_RETRYING:
        say_note("attempt %" PRIu32 ": %.*s; next in %.3g s", event->attempt,
                 SLICE_ARG(event->message), seconds_until(event->retry_at));
        break;
    case WATCH_QUARANTINED:
        sending->dlq_id = arena_dup(&sending->cli->arena, event->dlq_id);
        if (event->attempt)
            say_note("attempt %" PRIu32 ": %.*s; not tried again", event->attempt,
                     SLICE_ARG(event->message));
        break;
    case WATCH_LOST:
        say_note("attempt %" PRIu32 ": the lease was lost: somebody else has the job",
                 event->attempt);
        break;
    default:
        break;
    }
}

static void on_counts(void *ctx, const struct watch_counts *counts)
{
    (void)ctx, (void)counts;
}

static void on_note(void *ctx, const char *sentence)
{
    clear(ctx);
    say_note("%s", sentence);
}

/* ---- the receipt ----------------------------------------------------------------------------- */

static int read_receipt(struct sending *sending)
{
    struct cli *cli = sending->cli;
    const char *path = args_value(&cli->args, "receipt");
    struct buf text;
    struct err err = {0};

    if (!path && isatty(STDIN_FILENO) == 1)
        return say_error(CLI_USAGE, "--receipt: is required: a file, or \"-\" for standard input");
    if (!path)
        path = "-";
    buf_init(&text, ENVELOPE_BODY_MAX);
    enum status status = file_read(path, &text, &err);
    if (status != STATUS_OK) {
        buf_release(&text);
        return say_error(CLI_USAGE, "%s", err.text);
    }
    struct slice copy = arena_dup(&cli->arena, buf_slice(&text));
    buf_release(&text);
    if (!copy.ptr)
        return say_no_memory();
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    status = json_parse(copy, &sending->receipt, &err);
    if (status == STATUS_OK)
        status = receipt_check(sending->receipt, &err);
    return status == STATUS_OK ? 0 : say_error(CLI_USAGE, "%s: %s", name, err.text);
}

/* take_over ends the lease of a `send` of this host that was killed: its time need not be waited
 * for. */
static int take_over(struct sending *sending)
{
    struct cli *cli = sending->cli;
    struct reply job, answer;
    struct buf body;
    struct jsonw w;
    const char *path = request_path(cli, "/api/v1/jobs/", sending->job_id, "");
    int code = path ? request_send(cli, "GET", path, (struct slice){0}, (struct slice){0}, &job)
                    : say_no_memory();

    if (!path)
        return code;
    struct slice worker =
        code == 0 ? view_text(job.value, "worker", &cli->arena) : (struct slice){0};
    if (code == 0 && worker.len > 0 && endpoint_is_gone(worker)) {
        buf_init(&body, 4096);
        jsonw_init(&w, &body);
        jsonw_object(&w);
        jsonw_put_string(&w, "worker_id", worker);
        jsonw_put_str(&w, "message", "the process that was sending it was killed");
        jsonw_object_end(&w);
        code = request_send(cli, "POST", "/api/v1/leases/interrupted", (struct slice){0},
                            buf_slice(&body), &answer);
        reply_release(&answer);
        buf_release(&body);
    }
    reply_release(&job);
    return code;
}

/* push makes the job. */
static int push(struct sending *sending)
{
    struct cli *cli = sending->cli;
    struct reply reply;
    struct buf body;
    struct jsonw w;

    buf_init(&body, (size_t)ENVELOPE_BODY_MAX * 2);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_put_string(&w, "target", sending->to.url);
    jsonw_put_str(&w, "kind", delivery_kind_name(sending->to.kind));
    jsonw_put_text(&w, "tool", sending->to.tool);
    const char *policy = args_value(&cli->args, "policy");
    jsonw_put_text(&w, "policy", policy ? slice_of(policy) : sending->to.policy);
    jsonw_put_raw(&w, "body", sending->receipt.raw);
    jsonw_put_bool(&w, "claim", true);
    jsonw_object_end(&w);
    int code = request_send(cli, "POST", "/api/v1/deliveries", (struct slice){0}, buf_slice(&body),
                            &reply);
    if (code == 0) {
        struct json created = view_get(reply.value, "created");
        sending->job_id = arena_dup(&cli->arena, view_text(reply.value, "job_id", &cli->arena));
        if (!sending->job_id.ptr)
            code = say_no_memory();
        else if (created.type == JSON_FALSE)
            say_note("the same receipt is on its way already, as job %.*s: going on with it",
                     SLICE_ARG(sending->job_id));
        if (code == 0 && created.type == JSON_FALSE)
            code = take_over(sending);
    }
    reply_release(&reply);
    buf_release(&body);
    return code;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* keep_file brings receipts.json up to date.  A server keeps its own. */
static void keep_file(struct sending *sending, const struct link *link)
{
    struct receiptfile_counts counts;
    struct err err = {0};
    int code = 0;

    if (sending->cli->server && !args_has(&sending->cli->args, "receipts-file"))
        return;
    const char *path = endpoint_receipts(sending->cli, &code);
    if (path && receiptfile_sync(link, path, &counts, &err) != STATUS_OK)
        say_note("the receipt is in the quarantine, but not in %s: %s", path, err.text);
}

static int show_end(struct sending *sending, const struct sender_counts *counts)
{
    struct cli *cli = sending->cli;
    const char *status = counts->delivered   ? "delivered"
                         : counts->cancelled ? "cancelled"
                                             : "dead_lettered";
    if (cli->json) {
        struct buf text;
        struct jsonw w;
        buf_init(&text, 8192);
        jsonw_init(&w, &text);
        jsonw_object(&w);
        jsonw_put_str(&w, "status", status);
        jsonw_put_string(&w, "job_id", sending->job_id);
        jsonw_put_text(&w, "dlq_id", sending->dlq_id);
        jsonw_put_int(&w, "attempts", sending->attempts);
        jsonw_object_end(&w);
        out_json(&cli->out, buf_slice(&text));
        buf_release(&text);
    } else if (counts->dead) {
        out_format(&cli->out, "dead-lettered %.*s\n", SLICE_ARG(sending->dlq_id));
    } else {
        out_format(&cli->out, "%s\n", status);
    }
    return counts->delivered ? CLI_DONE : CLI_FAILED;
}

/* stopped says what becomes of a receipt whose sending was stopped. */
static int stopped(const struct sending *sending)
{
    say_error(CLI_FAILED, "stopped: the receipt was not delivered");
    say_hint("run the same command again within %d seconds; after that it is in the quarantine, as "
             "job %.*s",
             CLAIM_SECONDS, SLICE_ARG(sending->job_id));
    return CLI_FAILED;
}

int cmd_send(struct cli *cli)
{
    struct sending sending = {.cli = cli};
    struct watch watch = {.event = on_event, .counts = on_counts, .note = on_note, .ctx = &sending};
    struct sender_counts counts;
    struct link link;
    struct err err = {0};

    runlink_block();
    int code = endpoint_read(cli, &sending.to);
    if (code == 0)
        code = read_receipt(&sending);
    if (code == 0)
        code = runlink_open(cli, &link);
    if (code == 0)
        code = push(&sending);
    if (code != 0)
        return code;
    struct sender_config config = {.link = &link,
                                   .watch = &watch,
                                   .to = &sending.to,
                                   .job_ids = &sending.job_id,
                                   .job_count = 1,
                                   .parallel = 1,
                                   .worker_id = endpoint_worker(cli, "send")};
    if (!config.worker_id)
        return say_no_memory();
    enum status status = sender_run(&config, &counts, &err);
    clear(&sending);
    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "%s", err.text);
    if (counts.stopped && !counts.delivered && !counts.dead)
        return stopped(&sending);
    if (counts.dead)
        keep_file(&sending, &link);
    return show_end(&sending, &counts);
}
