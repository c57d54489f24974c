/* work: a worker from the command line, and the keeper of an agent (--supervise). */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/seams.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/summary.h"
#include "cli/supervise.h"
#include "core/envelope.h"
#include "engine/station.h"
#include "run/spec.h"
#include "run/work.h"

#define LEASE_SECONDS 30
#define GRACE_SECONDS 5
#define NAMES_MAX 1000

/* split reads the names of a flag, which may be given more than once and with commas.  `*out` is
 * NULL when it was not given. */
static int split(struct cli *cli, const char *flag, const char *const **out, size_t *count)
{
    const char **names = NULL;

    *count = 0;
    for (size_t i = 0; i < cli->args.flag_count; i++) {
        if (strcmp(cli->args.flags[i].flag->name, flag) != 0)
            continue;
        if (!names)
            names = arena_array(&cli->arena, NAMES_MAX, sizeof *names);
        if (!names)
            return say_no_memory();
        for (const char *at = cli->args.flags[i].value; *at;) {
            size_t len = strcspn(at, ",");
            if (len > 0 && *count == NAMES_MAX)
                return say_error(CLI_USAGE, "--%s: at most %d names", flag, NAMES_MAX);
            if (len > 0)
                names[(*count)++] = arena_dup(&cli->arena, (struct slice){at, len}).ptr;
            at += len + (at[len] == ',');
        }
    }
    *out = names;
    return 0;
}

/* worker_id is what --worker-id says, else this host and process. */
static int worker_id(struct cli *cli, const char **out)
{
    const char *given = args_value(&cli->args, "worker-id");
    char host[HOST_NAME_MAX + 1] = "host";
    struct err err = {0};

    gethostname(host, sizeof host - 1);
    *out = given ? given : arena_printf(&cli->arena, "%s:%ld", host, (long)getpid()).ptr;
    if (!*out)
        return say_no_memory();
    if (envelope_name_check("--worker-id", slice_of(*out), ENVELOPE_ID_MAX - 16, &err) != STATUS_OK)
        return say_error(CLI_USAGE, "%s", err.text);
    for (const char *c = *out; *c; c++)
        if ((unsigned char)*c < ' ' || *c == '\x7f')
            return say_error(CLI_USAGE, "--worker-id: must not have control characters");
    return 0;
}

/* read_names reads everything that is a list. */
static int read_names(struct cli *cli, struct work_config *work)
{
    int code = split(cli, "queue", &work->queues, &work->queue_count);
    if (code == 0 && work->queues && work->queue_count == 0)
        code = say_error(CLI_USAGE, "--queue: the name is empty; without the flag it is any queue");
    if (code == 0)
        code = split(cli, "capabilities", &work->capabilities, &work->capability_count);
    if (code == 0)
        code = split(cli, "scopes", &work->scopes, &work->scope_count);
    if (code == 0)
        code = split(cli, "permissions", &work->permissions, &work->permission_count);
    return code;
}

static int read_numbers(struct cli *cli, struct work_config *work)
{
    int64_t parallel = 1;
    int code = args_int(&cli->args, "parallel", 1, PARALLEL_MAX, &parallel);

    work->parallel = (unsigned)parallel;
    work->grace = span_seconds(GRACE_SECONDS);
    work->lease = span_seconds(LEASE_SECONDS);
    if (code == 0)
        code = args_span(&cli->args, "timeout", &work->timeout);
    if (code == 0)
        code = args_span(&cli->args, "grace", &work->grace);
    if (code == 0)
        code = args_span(&cli->args, "lease", &work->lease);
    if (code == 0)
        code = args_span(&cli->args, "drain-timeout", &work->drain);
    if (code == 0 && (work->lease.us < 300000 || work->lease.us > span_seconds(43200).us))
        code = say_error(CLI_USAGE, "--lease: must be 300ms to 12h");
    return code;
}

/* artifacts is DIR/artifacts of a data directory; a server's is not ours to write to. */
static int artifacts(struct cli *cli, const char **out)
{
    const char *given = args_value(&cli->args, "artifacts");
    struct buf path;
    struct err err = {0};

    *out = given;
    if (given || cli->server)
        return 0;
    buf_init(&path, 8192);
    enum status status = station_data_dir(args_value(&cli->args, "data"), &path, &err);
    /* Paths in the evidence mean the same from anywhere. */
    if (status == STATUS_OK)
        status = station_make_dir(buf_str(&path), &err);
    char *real = status == STATUS_OK ? realpath(buf_str(&path), NULL) : NULL;
    *out = arena_printf(&cli->arena, "%s/artifacts", real ? real : buf_str(&path)).ptr;
    free(real);
    buf_release(&path);
    return status == STATUS_OK ? 0 : say_error(CLI_STORE, "%s", err.text);
}

/* can_run says whether a file may be executed. */
static bool can_run(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* is_found looks for a command as it will be looked for when it is run. */
static bool is_found(struct cli *cli, const char *name)
{
    const char *path = getenv("PATH");
    bool found = strchr(name, '/') ? can_run(name) : !path;

    while (*name && !found && path && !strchr(name, '/')) {
        size_t len = strcspn(path, ":");
        struct slice file =
            arena_printf(&cli->arena, "%.*s%s%s", (int)len, path, len > 0 ? "/" : "", name);
        found = !file.ptr || can_run(file.ptr);
        path = path[len] ? path + len + 1 : NULL;
    }
    return found;
}

/* read_command reads the command, and refuses one that is not there: every job would fail of it,
 * and for good.  One with a place in its name is known only when it is run. */
static int read_command(struct cli *cli, const struct template **out)
{
    const char *name = cli->args.operands[0];
    struct err err = {0};

    if (template_parse(cli->args.operands, cli->args.operand_count, &cli->arena, out, &err) !=
        STATUS_OK)
        return say_error(CLI_USAGE, "%s", err.text);
    if (!strchr(name, '{') && !is_found(cli, name))
        return say_error(CLI_USAGE, "\"%s\" is no command that can be run here", name);
    return 0;
}

static int run(struct cli *cli, const struct work_config *work)
{
    struct link link;
    struct progress *progress = NULL;
    struct watch_counts counts = {0};
    struct err err = {0};
    int code = runlink_open(cli, &link);

    /* It is not the person who started the worker that takes jobs and ends them. */
    if (!args_has(&cli->args, "actor"))
        cli->actor = arena_printf(&cli->arena, "worker:%s", work->worker_id).ptr;
    if (!cli->actor)
        return say_no_memory();
    if (code != 0)
        return code;
    enum status status = progress_open(cli, "job", NULL, &progress, &err);
    if (status == STATUS_OK) {
        struct work_config whole = *work;
        whole.link = &link;
        whole.watch = progress_watch(progress);
        status = work_run(&whole, &counts, &err);
    }
    progress_close(progress);
    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "%s", err.text);
    counts.total_final = true;
    struct summary_facts facts = {.noun = "job", .counts = counts};
    return summary_show(cli, &facts);
}

int cmd_work(struct cli *cli)
{
    struct work_config work = {.until_empty = args_has(&cli->args, "until-empty")};
    struct step step = {0};
    struct steps steps = {.steps = &step, .count = 1};
    bool supervised = args_has(&cli->args, "supervise");
    int code = supervise_check(cli);

    runlink_block();
    if (code == 0)
        code = worker_id(cli, &work.worker_id);
    if (code == 0)
        code = read_names(cli, &work);
    if (code == 0)
        code = read_numbers(cli, &work);
    if (code == 0 && !supervised)
        code = read_command(cli, &step.template);
    if (code == 0)
        code = artifacts(cli, &work.artifacts);
    work.steps = &steps;
    if (code != 0)
        return code;
    return supervised ? supervise(cli, &work) : run(cli, &work);
}
