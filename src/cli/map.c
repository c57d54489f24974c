/* map: a command over items.  What the flags and the workflow file say becomes a spec (run/spec.h);
 * the rest is run/map.h. */
#include "cli/map.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/seams.h"
#include "cli/file.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "engine/station.h"
#include "run/artifact.h"
#include "run/map.h"
#include "run/plain.h"
#include "run/reduce.h"

#define WORKFLOW_MAX ((size_t)4 << 20)
#define GRACE_SECONDS 5 /* between TERM and KILL, when nothing is said */
#define RUNS_MAX 1000   /* of an item */

/* struct mapping: a run of this command. */
struct mapping {
    struct cli *cli;
    struct map_spec spec;
    struct workflow workflow; /* of --workflow */
    const char *data;         /* the directory */
    struct link link;
    int lock;            /* of the run; -1: not held */
    int64_t runs;        /* of an item, by --retry; 0: as its policy says */
    bool feed;           /* items are read */
    struct items *items; /* these; NULL: not opened, or handed over */
    bool resume;
    bool reduces; /* the workflow's last steps follow */
};

/* ---- flags ----------------------------------------------------------------------------------- */

static const char *flag(const struct mapping *m, const char *name)
{
    return args_value(&m->cli->args, name);
}

/* read_numbers reads the flags that are numbers and times, over what is there. */
static int read_numbers(struct mapping *m)
{
    const struct args *args = &m->cli->args;
    struct map_spec *spec = &m->spec;
    int64_t parallel = spec->parallel;
    const char *share = flag(m, "failure-threshold");
    char *end = NULL;
    int code = args_int(args, "parallel", 1, PARALLEL_MAX, &parallel);

    if (code == 0)
        code = args_span(args, "timeout", &spec->timeout);
    if (code == 0)
        code = args_span(args, "grace", &spec->grace);
    if (code == 0)
        code = args_int(args, "max-failures", 1, INT64_MAX, &spec->failures_max);
    if (code == 0)
        code = args_int(args, "max-items", 1, INT64_MAX, &spec->items_max);
    if (code == 0)
        code = args_int(args, "offset", 0, INT64_MAX, &spec->offset);
    if (code == 0)
        code = args_int(args, "retry", 1, RUNS_MAX, &m->runs);
    if (code == 0 && m->runs > 0 && flag(m, "policy"))
        code = say_error(CLI_USAGE, "--retry and --policy: give one of them");
    if (code == 0 && share) {
        spec->failure_threshold = strtod(share, &end);
        if (end == share || *end || !(spec->failure_threshold > 0 && spec->failure_threshold <= 1))
            code = say_error(CLI_USAGE,
                             "--failure-threshold: must be a share such as 0.2, not \"%s\"", share);
    }
    spec->parallel = (unsigned)parallel;
    return code;
}

/* set overrides a text of the spec by a flag that was given. */
static void set(const struct mapping *m, const char *name, const char **field)
{
    if (flag(m, name))
        *field = flag(m, name);
}

static int read_texts(struct mapping *m)
{
    static const struct {
        const char *word;
        enum items_format format;
    } formats[] = {{"json", ITEMS_JSON}, {"ndjson", ITEMS_NDJSON}, {"lines", ITEMS_LINES}};
    struct map_spec *spec = &m->spec;
    const char *format = flag(m, "input-format"), *on_failure = flag(m, "on-item-failure");

    set(m, "json-path", &spec->json_path);
    set(m, "id-field", &spec->id_field);
    set(m, "filter", &spec->filter);
    set(m, "sort-by", &spec->sort_by);
    set(m, "distinct", &spec->distinct);
    set(m, "validate", &spec->validate);
    set(m, "custom", &spec->custom);
    for (size_t i = 0; format && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(format, formats[i].word) == 0)
            spec->format = formats[i].format;
    if (on_failure)
        on_failure_from_name(slice_of(on_failure), &spec->on_failure);
    spec->worktree = spec->worktree || args_has(&m->cli->args, "worktree");
    spec->commit_required = spec->commit_required || args_has(&m->cli->args, "commit-required");
    if (spec->commit_required && !spec->worktree)
        return say_error(CLI_USAGE, "--commit-required needs --worktree: without one, items would "
                                    "find each other's commits");
    if (spec->on_failure == ON_FAILURE_CUSTOM && !spec->custom)
        return say_error(CLI_USAGE, "--on-item-failure custom needs --custom 'CMD'");
    if (spec->custom && spec->on_failure != ON_FAILURE_CUSTOM)
        return say_error(CLI_USAGE, "--custom goes with --on-item-failure custom");
    return 0;
}

/* absolute is a path that means the same from anywhere; "-" stays. */
static const char *absolute(struct mapping *m, const char *path)
{
    if (!path || path[0] == '/' || strcmp(path, "-") == 0)
        return path;
    return arena_printf(&m->cli->arena, "%s/%s", m->spec.cwd, path).ptr;
}

/* stored_policy asks what a named policy says, where it has to be changed for this run. */
static int stored_policy(struct mapping *m, const char *name, const char **out)
{
    struct reply reply;
    struct json policy;
    const char *path = request_path(m->cli, "/api/v1/policies/", slice_of(name), "");
    int code = request_send(m->cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply);

    if (code == CLI_MISSING)
        say_hint("lazaret policy list shows which there are");
    if (code == 0) {
        json_get(reply.value, "policy", &policy);
        *out = arena_dup(&m->cli->arena, policy.raw.len ? policy.raw : reply.value.raw).ptr;
    }
    reply_release(&reply);
    return code;
}

/* read_policy makes the items' policy: by --policy, --retry, the workflow, or "map". */
static int read_policy(struct mapping *m)
{
    struct cli *cli = m->cli;
    struct map_spec *spec = &m->spec;
    const char *name = flag(m, "policy"), *base = NULL;
    struct err err = {0};
    struct json given;

    /* A workflow may name one too. */
    if (!name && json_parse(m->workflow.policy, &given, NULL) == STATUS_OK &&
        given.type == JSON_STRING)
        name = arena_dup(&cli->arena, json_text(given, &cli->arena)).ptr;
    int code = name ? stored_policy(m, name, &base) : 0;
    if (code != 0)
        return code;
    if (name && spec->on_failure != ON_FAILURE_RETRY)
        base = arena_printf(&cli->arena, "\"%s\"", name).ptr;
    if (!name && m->workflow.policy.len > 0)
        base = arena_dup(&cli->arena, m->workflow.policy).ptr;
    if (!name && !base && m->resume && m->runs == 0 && spec->policy)
        return 0;
    spec->policy = map_policy(base, m->runs, spec->on_failure, &cli->arena, &err);
    return spec->policy ? 0 : say_error(CLI_USAGE, "the policy cannot be used: %s", err.text);
}

/* ---- the spec -------------------------------------------------------------------------------- */

/* spec_begin fills in what holds when nothing is said. */
static int spec_begin(struct mapping *m)
{
    char *cwd = getcwd(NULL, 0);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (!cwd)
        return say_error(CLI_USAGE, "the working directory cannot be found: %s", strerror(errno));
    m->spec = (struct map_spec){.cwd = arena_dup(&m->cli->arena, slice_of(cwd)).ptr,
                                .parallel = cores > 0 && cores < PARALLEL_MAX ? (unsigned)cores : 1,
                                .grace = span_seconds(GRACE_SECONDS),
                                .failures_max = -1,
                                .failure_threshold = -1};
    free(cwd);
    return m->spec.cwd ? 0 : say_no_memory();
}

/* spec_take_workflow takes what the file says. */
static int spec_take_workflow(struct mapping *m, const char *path)
{
    struct cli *cli = m->cli;
    const struct workflow *w = &m->workflow;
    struct map_spec *spec = &m->spec;
    struct err err = {0};
    struct buf text;

    buf_init(&text, WORKFLOW_MAX);
    enum status status = file_read(path, &text, &err);
    if (status == STATUS_OK)
        status = workflow_parse(buf_slice(&text), path, &cli->arena, &m->workflow, &err);
    spec->workflow = arena_dup(&cli->arena, buf_slice(&text)).ptr;
    spec->workflow_name = path;
    buf_release(&text);
    if (status != STATUS_OK)
        return say_error(CLI_USAGE, "%s", err.text);
    spec->input = w->input;
    spec->json_path = w->json_path;
    spec->id_field = w->id_field;
    spec->filter = w->filter;
    spec->sort_by = w->sort_by;
    spec->distinct = w->distinct;
    spec->offset = w->offset;
    spec->items_max = w->items_max;
    if (w->parallel_max > 0)
        spec->parallel = (unsigned)w->parallel_max;
    spec->timeout = w->timeout;
    spec->validate = w->validate.len ? w->validate.ptr : NULL;
    spec->custom = w->custom.len ? w->custom.ptr : NULL;
    spec->worktree = w->worktree;
    spec->commit_required = w->commit_required;
    spec->on_failure = w->on_failure;
    spec->failures_max = w->failures_max;
    spec->failure_threshold = w->failure_threshold;
    m->reduces = w->reduce.count > 0;
    return spec->workflow ? 0 : say_no_memory();
}

/* spec_take_known takes over what a run was begun with. */
static int spec_take_known(struct mapping *m, const char *run_id)
{
    struct map_spec here = m->spec;
    struct err err = {0};
    enum status status = spec_read(m->data, run_id, &m->cli->arena, &m->spec, &err);

    if (status == STATUS_NOT_FOUND && m->cli->args.operand_count > 0) {
        m->spec = here; /* its letters were imported, or its file was lost: the command is given */
        return 0;
    }
    if (status == STATUS_NOT_FOUND)
        return say_error(CLI_MISSING, "there is no run \"%s\" in %s: begin it without --resume",
                         run_id, m->data);
    if (status == STATUS_CORRUPT && m->cli->args.operand_count > 0) {
        m->spec = here;
        return 0;
    }
    if (status != STATUS_OK)
        return say_error(CLI_STORE, "%s", err.text);
    if (m->spec.workflow && workflow_parse(slice_of(m->spec.workflow), m->spec.workflow_name,
                                           &m->cli->arena, &m->workflow, &err) == STATUS_OK)
        m->reduces = m->workflow.reduce.count > 0;
    if (m->cli->args.operand_count > 0)
        m->spec.cwd = here.cwd;
    return 0;
}

/* executable looks for a command as execvp would. */
static bool executable(const char *name)
{
    const char *path = getenv("PATH");
    char file[4096];

    if (strchr(name, '/'))
        return access(name, X_OK) == 0;
    for (const char *at = path ? path : "/bin:/usr/bin"; at;) {
        const char *end = strchr(at, ':');
        int len = end ? (int)(end - at) : (int)strlen(at);
        snprintf(file, sizeof file, "%.*s/%s", len, at, name);
        if (access(file, X_OK) == 0)
            return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

static int spec_take_command(struct mapping *m)
{
    const struct args *args = &m->cli->args;
    const char *name = args->operand_count > 0 ? args->operands[0] : NULL;

    if (!name)
        return 0;
    for (size_t i = 0; i < args->operand_count; i++)
        if (!json_utf8_valid(slice_of(args->operands[i])))
            return say_error(CLI_USAGE, "the command must be UTF-8 (items may be anything)");
    if (!strchr(name, '{') && !executable(name))
        return say_error(CLI_USAGE, "%s: command not found", name);
    m->spec.command = args->operands;
    m->spec.command_count = args->operand_count;
    m->spec.workflow = m->spec.workflow_name = NULL;
    m->reduces = false;
    return 0;
}

/* new_run_id names a run by its time, and enough that no two are called the same. */
static const char *new_run_id(struct cli *cli)
{
    const struct seams *world = seams_real();
    char when[INSTANT_TEXT_SIZE];
    uint8_t random[3];

    instant_format(world->wall(world->ctx), when);
    world->random(world->ctx, random, sizeof random);
    return arena_printf(&cli->arena, "map-%.4s%.2s%.2s-%.2s%.2s%.2s-%02x%02x%02x", when, when + 5,
                        when + 8, when + 11, when + 14, when + 17, random[0], random[1], random[2])
        .ptr;
}

/* find_data is the data directory, made when it is missing. */
static int find_data(struct mapping *m, bool make)
{
    struct buf path;
    struct err err = {0};

    buf_init(&path, 8192);
    enum status status = station_data_dir(flag(m, "data"), &path, &err);
    if (status == STATUS_OK && make)
        status = station_make_dir(buf_str(&path), &err);
    /* Paths in the evidence mean the same from anywhere. */
    char *real = status == STATUS_OK ? realpath(buf_str(&path), NULL) : NULL;
    m->data = arena_dup(&m->cli->arena, real ? slice_of(real) : buf_slice(&path)).ptr;
    free(real);
    buf_release(&path);
    if (status != STATUS_OK)
        return say_error(CLI_STORE, "%s", err.text);
    return m->data ? 0 : say_no_memory();
}

/* check_words refuses what does not go together. */
static int check_words(const struct mapping *m)
{
    const struct args *args = &m->cli->args;
    bool workflow = args_has(args, "workflow"), command = args->operand_count > 0;

    if (workflow && command)
        return say_error(CLI_USAGE, "give a COMMAND or a workflow file, not both");
    if (m->resume && !args_has(args, "job-id"))
        return say_error(CLI_USAGE, "--resume: say which run with --job-id");
    if (!m->resume && !workflow && !command) {
        say_error(CLI_USAGE, "\"map\" needs a COMMAND behind \"--\", or a workflow file with -f");
        say_hint("for example: lazaret map --input items.txt -- wc -l {}");
        return CLI_USAGE;
    }
    if (!m->resume && !workflow && !args_has(args, "input")) {
        say_error(CLI_USAGE, "\"map\" needs --input FILE (\"-\" is standard input)");
        return CLI_USAGE;
    }
    return 0;
}

/* spec_make puts together what this run is. */
static int spec_make(struct mapping *m)
{
    const char *workflow = flag(m, "workflow"), *run_id = flag(m, "job-id");
    struct err err = {0};
    int code = check_words(m);

    if (code == 0)
        code = spec_begin(m);
    if (code == 0 && run_id && spec_check_run_id(run_id, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--job-id: %s", err.text);
    if (code == 0 && m->resume)
        code = spec_take_known(m, run_id);
    if (code == 0 && workflow)
        code = spec_take_workflow(m, workflow);
    if (code == 0)
        code = spec_take_command(m);
    if (code == 0)
        code = read_numbers(m);
    if (code == 0)
        code = read_texts(m);
    if (code != 0)
        return code;
    set(m, "input", &m->spec.input);
    m->spec.input = absolute(m, m->spec.input);
    m->spec.run_id = run_id ? run_id : new_run_id(m->cli);
    m->feed = !m->resume || args_has(&m->cli->args, "input") ||
              (m->spec.input && strcmp(m->spec.input, "-") != 0);
    return m->spec.run_id ? 0 : say_no_memory();
}

/* ---- running --------------------------------------------------------------------------------- */

/* take_run makes this process the one that runs it. */
static int take_run(struct mapping *m)
{
    struct map_spec known;
    struct arena arena = {0};
    struct err err = {0};
    enum status status = spec_lock(m->data, m->spec.run_id, &m->lock, &err);

    if (status != STATUS_OK)
        return say_error(status == STATUS_BUSY ? CLI_REFUSED : CLI_STORE, "%s", err.text);
    if (!m->resume &&
        spec_read(m->data, m->spec.run_id, &arena, &known, &err) != STATUS_NOT_FOUND) {
        arena_release(&arena);
        say_error(CLI_REFUSED, "there is a run \"%s\" already", m->spec.run_id);
        say_hint("go on with it: --resume; or begin another: give another --job-id");
        return CLI_REFUSED;
    }
    arena_release(&arena);
    return 0;
}

/* write_items keeps items that stand in the workflow file itself where they can be read again. */
static int write_items(struct mapping *m)
{
    struct file_output file;
    struct err err = {0};
    struct buf path;

    if (m->resume || m->workflow.items.type != JSON_ARRAY)
        return 0;
    buf_init(&path, 8192);
    buf_addf(&path, "%s/runs/", m->data);
    artifact_name(slice_of(m->spec.run_id), &path);
    buf_add_str(&path, ".items");
    enum status status = file_create(&file, buf_str(&path), true, &err);
    if (status == STATUS_OK)
        status = file_add(&file, m->workflow.items.raw, &err);
    if (status == STATUS_OK)
        status = file_commit(&file, &err);
    file_release(&file);
    m->spec.input = arena_dup(&m->cli->arena, buf_slice(&path)).ptr;
    m->spec.format = ITEMS_JSON;
    buf_release(&path);
    return status == STATUS_OK ? 0 : say_error(CLI_STORE, "%s", err.text);
}

/* open_items opens, and checks, the input. */
static int open_items(struct mapping *m)
{
    struct items_config config;
    struct err err = {0};
    enum status status = spec_items(&m->spec, &m->cli->arena, &config, &err);

    if (status == STATUS_OK)
        status = items_open(&config, &m->items, &err);
    if (status == STATUS_OK)
        return 0;
    return say_error(status == STATUS_NO_MEMORY ? CLI_STORE : CLI_USAGE, "%s", err.text);
}

/* steps_output is where setup and reduce write: events are read by a program. */
static int steps_output(const struct mapping *m)
{
    return m->cli->json ? STDERR_FILENO : STDOUT_FILENO;
}

/* check_place tells what is in the way of the run, before anything of it is made. */
static int check_place(const struct mapping *m)
{
    struct err err = {0};
    enum status status = map_check(m->data, &m->spec, &err);
    return status == STATUS_OK ? 0 : say_error(runlink_exit(status), "%s", err.text);
}

static int set_up(const struct mapping *m)
{
    struct err err = {0};
    if (m->resume || m->workflow.setup.count == 0 ||
        plain_run("setup", &m->workflow.setup, NULL, m->spec.cwd, steps_output(m), &err) ==
            STATUS_OK)
        return 0;
    return say_error(CLI_FAILED, "%s: nothing was run", err.text);
}

static int reduce(struct mapping *m)
{
    struct err err = {0};
    if (!m->reduces)
        return 0;
    fflush(m->cli->out.file); /* the steps write to the same place */
    if (reduce_run(&m->link, m->data, &m->spec, &m->workflow.reduce, steps_output(m), &err) ==
        STATUS_OK)
        return 0;
    return say_error(CLI_FAILED, "%s", err.text);
}

/* show says what it came to. */
static int show(struct mapping *m, const struct map_outcome *outcome)
{
    struct summary_facts facts = {.noun = "item",
                                  .run_id = m->spec.run_id,
                                  .counts = outcome->counts,
                                  .stopped =
                                      outcome->stopped.text[0] ? outcome->stopped.text : NULL,
                                  .interrupted = outcome->interrupted};
    if (!m->feed) {
        const struct watch_counts *c = &outcome->counts;
        facts.counts.total = c->done + c->quarantined + c->skipped + c->handled + c->cancelled;
        facts.counts.total_final = !outcome->interrupted && !facts.stopped;
    }
    int code = summary_show(m->cli, &facts);
    if (outcome->input != STATUS_OK)
        return say_error(runlink_exit(outcome->input), "%s", outcome->input_err.text);
    return code != 0 ? code : facts.stopped || facts.interrupted ? CLI_FAILED : 0;
}

/* run_it runs the spec, which is locked, and shows how it goes. */
static int run_it(struct mapping *m, struct map_outcome *outcome)
{
    struct progress *progress = NULL;
    struct err err = {0};
    enum status status = progress_open(m->cli, "item", m->spec.run_id, &progress, &err);

    if (status == STATUS_OK) {
        struct map_config config = {.link = &m->link,
                                    .watch = progress_watch(progress),
                                    .data = m->data,
                                    .spec = &m->spec,
                                    .items = m->items,
                                    .roll = m->reduces,
                                    .resume = m->resume};
        m->items = NULL;
        status = map_run(&config, outcome, &err);
    }
    progress_close(progress);
    return status == STATUS_OK ? 0 : say_error(runlink_exit(status), "%s", err.text);
}

/* dry_run prints what would be run, and changes nothing. */
static int dry_run(struct mapping *m)
{
    struct cli *cli = m->cli;
    struct items_entry entry;
    struct steps steps;
    struct err err = {0};
    bool more = true;
    int64_t count = 0;
    enum status status = spec_steps(&m->spec, &cli->arena, &steps, &err);

    if (status == STATUS_OK && m->workflow.items.type == JSON_ARRAY)
        return say_error(CLI_USAGE, "--dry-run: items inside a workflow file are not shown");
    if (status == STATUS_OK) {
        int code = open_items(m);
        if (code != 0)
            return code;
    }
    while (status == STATUS_OK && more && out_ok(&cli->out)) {
        status = items_next(m->items, &entry, &more, &err);
        if (status != STATUS_OK || !more)
            break;
        struct arena arena = {0};
        struct buf line;
        buf_init(&line, 4 << 20);
        for (size_t i = 0; i < steps.count && status == STATUS_OK; i++) {
            char **argv;
            if (!steps.steps[i].template) {
                buf_addf(&line, "%sshell: %.*s", i ? " && " : "", SLICE_ARG(steps.steps[i].text));
                continue;
            }
            struct err why = {0};
            if (template_fill(steps.steps[i].template, &entry.item, &arena, &argv, &why) ==
                STATUS_OK) {
                buf_add_str(&line, i ? " && " : "");
                command_print(argv, &line);
            } else {
                buf_addf(&line, "(%s)", why.text);
            }
        }
        out_clean(&cli->out, entry.id);
        out_str(&cli->out, "\t");
        out_clean(&cli->out, buf_slice(&line));
        out_str(&cli->out, "\n");
        buf_release(&line);
        arena_release(&arena);
        count++;
    }
    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "%s", err.text);
    say_note("%" PRId64 " %s would be run, %u at a time; nothing was changed", count,
             count == 1 ? "item" : "items", m->spec.parallel);
    return 0;
}

static int run_and_reduce(struct mapping *m)
{
    struct map_outcome outcome = {0};
    struct err err = {0};
    int code = take_run(m);

    if (code == 0)
        code = set_up(m);
    if (code == 0 && m->workflow.setup.count > 0)
        code = check_place(m);
    if (code == 0)
        code = write_items(m);
    if (code == 0 && m->feed && !m->items)
        code = open_items(m);
    if (code == 0 && spec_write(m->data, &m->spec, &err) != STATUS_OK)
        code = say_error(CLI_STORE, "%s", err.text);
    if (code == 0)
        code = run_it(m, &outcome);
    if (code != 0)
        return code;
    code = show(m, &outcome);
    return code != 0 ? code : reduce(m);
}

int cmd_map(struct cli *cli)
{
    struct mapping m = {.cli = cli, .lock = -1, .resume = args_has(&cli->args, "resume")};
    bool dry = args_has(&cli->args, "dry-run");
    int code;

    runlink_block();
    code = find_data(&m, false);
    if (code == 0)
        code = spec_make(&m);
    if (code == 0 && dry)
        code = dry_run(&m);
    /* What is wrong with the input or the place is told before anything is made; a setup may have
     * yet to make it. */
    if (code == 0 && !dry && m.feed && m.spec.input && m.workflow.setup.count == 0)
        code = open_items(&m);
    if (code == 0 && !dry && !m.resume && m.workflow.setup.count == 0)
        code = check_place(&m);
    if (code == 0 && !dry)
        code = find_data(&m, true);
    if (code == 0 && !dry)
        code = runlink_open(cli, &m.link);
    if (code == 0 && !dry)
        code = read_policy(&m);
    if (code == 0 && !dry)
        code = run_and_reduce(&m);
    items_close(m.items);
    if (m.lock >= 0)
        close(m.lock);
    return code;
}

int map_again(struct cli *cli, const char *run_id, unsigned parallel)
{
    struct mapping m = {.cli = cli, .lock = -1, .resume = true};
    struct map_outcome outcome = {0};
    struct err err = {0};
    int code = find_data(&m, false);

    if (code == 0)
        code = runlink_open(cli, &m.link);
    if (code != 0)
        return code;
    enum status status = spec_read(m.data, run_id, &cli->arena, &m.spec, &err);
    if (status == STATUS_NOT_FOUND)
        return CLI_MISSING;
    if (status == STATUS_OK)
        status = spec_lock(m.data, run_id, &m.lock, &err);
    if (status == STATUS_BUSY)
        return CLI_REFUSED;
    if (status != STATUS_OK)
        return say_error(CLI_STORE, "%s", err.text);
    if (parallel > 0)
        m.spec.parallel = parallel;
    m.spec.failures_max = -1;
    m.spec.failure_threshold = -1;
    if (m.spec.on_failure == ON_FAILURE_STOP)
        m.spec.on_failure = ON_FAILURE_DLQ;
    code = run_it(&m, &outcome);
    if (code == 0)
        code = show(&m, &outcome);
    close(m.lock);
    return code != 0                                                 ? code
           : outcome.counts.quarantined + outcome.counts.skipped > 0 ? CLI_FAILED
                                                                     : 0;
}
