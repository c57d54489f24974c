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
#include <math.h>
#include <unistd.h>

#include "base/jsonw.h"
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

/* delay_text is how long it is until an instant, for a person: what has passed since it was decided
 * does not matter. */
static struct slice delay_text(struct instant at, struct arena *arena)
{
    double seconds = span_to_seconds(instant_since(at, seams_real()->wall(NULL)));
    double unit = seconds < 1 ? 1000 : seconds < 60 ? 10 : 1;
    return view_span(seconds > 0 ? round(seconds * unit) / unit : 0, arena);
}

static void on_event(void *ctx, const struct watch_event *event)
{
    struct sending *sending = ctx;
    struct slice delay;
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
        delay = delay_text(event->retry_at, &sending->cli->arena);
        say_note("attempt %" PRIu32 ": %.*s; next in %.*s", event->attempt,
                 SLICE_ARG(event->message), SLICE_ARG(delay));
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
            code = endpoint_take_over(cli, sending->job_id);
    }
    reply_release(&reply);
    buf_release(&body);
    return code;
}

/* ---- the end --------------------------------------------------------------------------------- */

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
    say_hint("run the same command to go on with job %.*s; otherwise it is in the quarantine %d "
             "seconds after its next attempt is due",
             SLICE_ARG(sending->job_id), CLAIM_SECONDS);
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
    return show_end(&sending, &counts);
}
