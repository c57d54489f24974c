/* supervise: `lazaret work --supervise`: the flags, and how it is told.
 *
 *     a person    a line on standard error for each thing that happens; the agent's standard output
 *                 and error go on to ours
 *     -o json     an object a line on standard output; both streams of the agent go on to our
 *                 standard error */
#include "cli/supervise.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/jsonw.h"
#include "base/seams.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/view.h"
#include "core/field.h"
#include "run/life.h"
#include "run/supervise.h"

#define HEALTH_SECONDS 10
#define RESTART_SECONDS 1
#define WINDOW_SECONDS 600
#define EVENT_MAX ((size_t)4 << 20)

/* struct telling: who is told, of which agent. */
struct telling {
    struct cli *cli;
    const char *name;
};

/* ---- for a program ----------------------------------------------------------------------------
 */

static void print_event(struct telling *telling, const struct supervise_event *event)
{
    static const char *const names[] = {
        [SUPERVISE_STARTED] = "started",       [SUPERVISE_ENDED] = "ended",
        [SUPERVISE_RESTARTING] = "restarting", [SUPERVISE_UNHEALTHY] = "unhealthy",
        [SUPERVISE_STOPPED] = "stopped",       [SUPERVISE_DEAD_LETTERED] = "dead_lettered",
        [SUPERVISE_CANCELLED] = "cancelled",   [SUPERVISE_LOST] = "lost",
        [SUPERVISE_WAITING] = "waiting",
    };
    enum supervise_what what = event->what;
    bool over = what == SUPERVISE_ENDED || what == SUPERVISE_STOPPED ||
                what == SUPERVISE_CANCELLED || what == SUPERVISE_LOST;
    struct buf text;
    struct jsonw w;

    buf_init(&text, EVENT_MAX);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    jsonw_put_str(&w, "event", names[what]);
    jsonw_put_str(&w, "agent", telling->name);
    jsonw_put_text(&w, "job_id", event->job_id);
    if (event->attempt > 0)
        jsonw_put_int(&w, "attempt", event->attempt);
    jsonw_put_int(&w, "restarts", event->restarts);
    if (what == SUPERVISE_STARTED)
        jsonw_put_int(&w, "pid", event->pid);
    if (over)
        jsonw_put_int(&w, "duration_ms", event->up.us / 1000);
    if (what == SUPERVISE_RESTARTING)
        jsonw_put_instant(&w, "retry_at", event->retry_at);
    if (what == SUPERVISE_UNHEALTHY) {
        jsonw_put_int(&w, "failed", event->failed);
        jsonw_put_int(&w, "of", LIFE_CHECKS_MAX);
    }
    jsonw_put_text(&w, what == SUPERVISE_WAITING ? "worker" : "message", event->message);
    jsonw_put_text(&w, "artifact", event->artifact);
    jsonw_put_text(&w, "reason", event->reason);
    jsonw_put_text(&w, "dlq_id", event->dlq_id);
    jsonw_object_end(&w);
    if (buf_status(&text, NULL) == STATUS_OK)
        out_json(&telling->cli->out, buf_slice(&text));
    fflush(telling->cli->out.file);
    buf_release(&text);
}

/* ---- for a person -----------------------------------------------------------------------------
 */

/* until is how long it is to a time, in seconds. */
static double until(struct instant when)
{
    const struct seams *world = seams_real();
    double seconds = span_to_seconds(instant_since(when, world->wall(world->ctx)));
    return seconds > 0 ? seconds : 0;
}

/* span_text is a span for a person: to a second, or to a millisecond when it is shorter. */
static struct slice span_text(double seconds, struct arena *arena)
{
    double unit = seconds < 0.9995 ? 0.001 : 1;
    return view_span((double)(int64_t)(seconds / unit + 0.5) * unit, arena);
}

static void say_event(struct telling *telling, const struct supervise_event *event)
{
    struct arena arena = {0};
    const char *name = telling->name;
    struct slice up = span_text(span_to_seconds(event->up), &arena);

    switch (event->what) {
    case SUPERVISE_STARTED:
        say_note("lazaret: agent %s: started as process %ld", name, (long)event->pid);
        break;
    case SUPERVISE_ENDED:
        say_note("lazaret: agent %s: ended after %.*s: %.*s", name, SLICE_ARG(up),
                 SLICE_ARG(event->message));
        break;
    case SUPERVISE_RESTARTING:
        say_note("lazaret: agent %s: restarting in %.*s", name,
                 SLICE_ARG(span_text(until(event->retry_at), &arena)));
        break;
    case SUPERVISE_UNHEALTHY:
        say_note("lazaret: agent %s: health check failed (%u of %d): %.*s", name, event->failed,
                 LIFE_CHECKS_MAX, SLICE_ARG(event->message));
        break;
    case SUPERVISE_DEAD_LETTERED:
        say_note("lazaret: agent %s: %.*s: dead-lettered as %.*s; look: lazaret dlq show %.*s",
                 name, SLICE_ARG(event->reason), SLICE_ARG(event->dlq_id),
                 SLICE_ARG(event->dlq_id));
        break;
    case SUPERVISE_STOPPED:
        say_note("lazaret: agent %s: stopped after %.*s", name, SLICE_ARG(up));
        break;
    case SUPERVISE_CANCELLED:
        say_note("lazaret: agent %s: job %.*s was cancelled: the agent is not running", name,
                 SLICE_ARG(event->job_id));
        break;
    case SUPERVISE_LOST:
        say_note("lazaret: agent %s: the lease of job %.*s was lost: the agent was ended", name,
                 SLICE_ARG(event->job_id));
        break;
    case SUPERVISE_WAITING:
        say_note("lazaret: agent %s: %.*s keeps it up already (job %.*s): waiting for its turn",
                 name, SLICE_ARG(event->message), SLICE_ARG(event->job_id));
        break;
    }
    arena_release(&arena);
}

static void on_event(void *ctx, const struct supervise_event *event)
{
    struct telling *telling = ctx;

    if (telling->cli->json)
        print_event(telling, event);
    else
        say_event(telling, event);
}

static void on_note(void *ctx, const char *sentence)
{
    const struct telling *telling = ctx;
    say_note("lazaret: agent %s: %s", telling->name, sentence);
}

/* ---- the flags --------------------------------------------------------------------------------
 */

static int refuse_flags(const struct cli *cli, const char *const *flags, const char *why)
{
    for (; *flags; flags++)
        if (args_has(&cli->args, *flags))
            return say_error(CLI_USAGE, "--%s %s", *flags, why);
    return 0;
}

int supervise_check(const struct cli *cli)
{
    static const char *const with[] = {"health",        "health-interval", "pull",
                                       "restart-delay", "restart-window",  NULL};
    static const char *const without[] = {"queue",         "parallel",    "capabilities",
                                          "scopes",        "permissions", "timeout",
                                          "drain-timeout", "until-empty", NULL};

    if (!args_has(&cli->args, "supervise"))
        return refuse_flags(cli, with, "needs --supervise: it is about an agent that is kept up");
    return refuse_flags(cli, without,
                        "does not go with --supervise: one agent is kept up, and no jobs are run");
}

static int read_spans(const struct cli *cli, struct supervise_config *config)
{
    int code = args_span(&cli->args, "health-interval", &config->health_every);

    if (code == 0)
        code = args_span(&cli->args, "restart-delay", &config->restart_delay);
    if (code == 0)
        code = args_span(&cli->args, "restart-window", &config->window);
    if (code == 0 && config->health_every.us < 1000)
        code = say_error(CLI_USAGE, "--health-interval: must be 1ms or more");
    if (code == 0 && config->window.us < 1000)
        code = say_error(CLI_USAGE, "--restart-window: must be 1ms or more");
    if (code == 0 && !config->health && args_has(&cli->args, "health-interval"))
        code = say_error(CLI_USAGE, "--health-interval needs --health");
    return code;
}

/* agent_name is what --worker-id says.  Else it is the command's name, and a hash of the whole
 * command and of where it is run: the same whenever the same agent is started. */
static int agent_name(struct cli *cli, const char **out)
{
    const struct args *args = &cli->args;
    const char *given = args_value(args, "worker-id"), *base = strrchr(args->operands[0], '/');
    char here[4096] = "";
    struct buf whole;

    base = base ? base + 1 : args->operands[0];
    buf_init(&whole, EVENT_MAX);
    buf_add_str(&whole, getcwd(here, sizeof here) ? here : "");
    for (size_t i = 0; !given && i < args->operand_count; i++)
        buf_add(&whole, args->operands[i], strlen(args->operands[i]) + 1);
    struct slice head = field_head(slice_of(base), SUPERVISE_NAME_MAX - 9);
    *out = given ? given
                 : arena_printf(&cli->arena, "%.*s-%08" PRIx32, SLICE_ARG(head),
                                (uint32_t)hash64(buf_slice(&whole)))
                       .ptr;
    buf_release(&whole);
    if (!*out)
        return say_no_memory();
    if (!json_utf8_valid(slice_of(*out)))
        return say_error(CLI_USAGE, "the agent's name is not UTF-8: give it one with --worker-id");
    if (strlen(*out) > SUPERVISE_NAME_MAX)
        return say_error(CLI_USAGE, "--worker-id: the name of an agent has at most %d bytes",
                         SUPERVISE_NAME_MAX);
    return 0;
}

/* agent_command copies the operands, with a NULL at their end. */
static int agent_command(struct cli *cli, char *const **out)
{
    size_t count = cli->args.operand_count;
    char **argv = arena_array(&cli->arena, count + 1, sizeof *argv);

    if (!argv)
        return say_no_memory();
    for (size_t i = 0; i < count; i++)
        argv[i] = (char *)(uintptr_t)cli->args.operands[i];
    *out = argv;
    return 0;
}

static int run(struct cli *cli, struct supervise_config config)
{
    struct telling telling = {.cli = cli, .name = config.name};
    enum supervise_outcome outcome = SUPERVISED_STOPPED;
    struct link link;
    struct echo echo;
    struct err err = {0};
    int code = runlink_open(cli, &link);

    if (code != 0)
        return code;
    echo_init(&echo, cli->json ? STDERR_FILENO : STDOUT_FILENO, STDERR_FILENO);
    config.link = &link;
    config.echo = &echo;
    config.event = on_event;
    config.note = on_note;
    config.ctx = &telling;
    enum status status = supervise_run(&config, &outcome, &err);
    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "agent %s: %s", config.name, err.text);
    return outcome == SUPERVISED_DEAD ? CLI_FAILED : CLI_DONE;
}

int supervise(struct cli *cli, const struct work_config *work)
{
    struct supervise_config config = {.worker_id = work->worker_id,
                                      .pull = args_value(&cli->args, "pull"),
                                      .health = args_value(&cli->args, "health"),
                                      .health_every = span_seconds(HEALTH_SECONDS),
                                      .restart_delay = span_seconds(RESTART_SECONDS),
                                      .window = span_seconds(WINDOW_SECONDS),
                                      .grace = work->grace,
                                      .lease = work->lease,
                                      .artifacts = work->artifacts};
    int code = read_spans(cli, &config);

    if (code == 0)
        code = agent_name(cli, &config.name);
    if (code == 0)
        code = agent_command(cli, &config.argv);
    return code != 0 ? code : run(cli, config);
}
