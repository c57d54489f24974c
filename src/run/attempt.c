/* attempt: the steps of one run of one job, as a state machine of the loop.
 *
 *     make --> step 1 ... step n --> validate --> check --> merge --> remove --> (succeeded)
 *       |         |                     |           |         |
 *       +---------+---------------------+-----------+---------+--> look --> custom --> (failed)
 *
 * make, check, merge, remove and look are there only with worktrees, validate and custom only when
 * they are wanted.  What failed is kept (`facts`) until the worktree was looked at; then the
 * failure is printed, once.  A stop ends the process that runs; git is let finish, as it would
 * leave locks behind. */
#include "run/attempt.h"

#include <inttypes.h>

#include "base/mem.h"
#include "run/surroundings.h"
#include "run/verdict.h"

#define COMMAND_MAX 4096             /* bytes of a command in the evidence */
#define REPORT_MAX ((size_t)4 << 20) /* bytes of a report */
#define EXIT_HANDLED 0               /* of a custom handler */
#define EXIT_RETRY 75                /* likewise: EX_TEMPFAIL */
#define HEADROOM_US_MAX 500000       /* for the report, before the engine ends the lease */

enum phase {
    PHASE_MAKE,
    PHASE_STEP,
    PHASE_VALIDATE,
    PHASE_CHECK,
    PHASE_MERGE,
    PHASE_REMOVE,
    PHASE_LOOK,
    PHASE_CUSTOM,
    PHASE_END,
};

struct attempt {
    struct loop *loop;
    const struct attempt_plan *plan;
    struct grant *grant;
    unsigned slot;
    void (*done)(void *owner, const struct effort_end *end);
    void *owner;

    enum phase phase;
    size_t step; /* of PHASE_STEP */
    struct item item;
    struct surroundings surroundings;
    struct artifact artifact;
    struct worktree worktree;
    bool has_worktree;
    struct span began, deadline; /* by loop_now; a deadline of 0: none */
    struct span whole;           /* the time that all of it has, as somebody set it; 0: any */
    bool own_limit;              /* that was the job itself */
    struct span limit;           /* of the process that runs, as somebody set it; 0: none */

    struct process *process;  /* that runs, or ran last */
    struct process_end ended; /* how it ended */
    struct buf command;       /* what it was, as a person would type it */
    struct buf said;          /* by it, of its failure */
    struct verdict_facts facts;
    struct buf agent, changes, report;
    struct slice context[2];
    struct err err;
    bool stopping;
    enum effort_outcome outcome; /* of a stop */
    struct effort_end end;
    struct loop_timer later; /* what must not happen inside attempt_start */
};

static void enter(struct attempt *attempt, enum phase phase);

/* ---- the end ----------------------------------------------------------------------------------
 */

/* put_failure_texts finds what was printed, for those who watch. */
static void put_failure_texts(struct attempt *attempt)
{
    struct json failure, value, name;
    struct json_iter iter;
    struct arena *arena = &attempt->grant->arena;
    if (json_parse(attempt->end.report, &failure, NULL))
        return;
    if (json_get(failure, "message", &value))
        attempt->end.message = json_text(value, arena);
    if (!json_get(failure, "error_type", &value))
        return;
    if (value.type == JSON_STRING) {
        attempt->end.error_type = json_text(value, arena);
        return;
    }
    json_iter_init(&iter, value);
    if (json_next(&iter, &name, &value))
        attempt->end.error_type = json_text(name, arena);
}

/* finish tells the owner, who may free us. */
static void finish(struct attempt *attempt, enum effort_outcome outcome)
{
    struct effort_end *end = &attempt->end;
    attempt->phase = PHASE_END;
    artifact_close(&attempt->artifact);
    end->outcome = outcome;
    end->report = buf_slice(&attempt->report);
    end->duration = (struct span){loop_now().us - attempt->began.us};
    if (attempt->artifact.size)
        end->artifact = slice_of(attempt->artifact.path);
    if (outcome != EFFORT_SUCCEEDED && outcome != EFFORT_LOST)
        put_failure_texts(attempt);
    attempt->done(attempt->owner, end);
}

/* print_failure writes the report of a failure from what is known. */
static void print_failure(struct attempt *attempt)
{
    struct verdict_facts *facts = &attempt->facts;
    struct jsonw w;
    struct buf worktree;
    buf_init(&worktree, REPORT_MAX);
    if (attempt->has_worktree) {
        struct buf logs;
        buf_init(&logs, CAPTURE_TAIL_MAX);
        if (facts->err)
            capture_tail(facts->err, CAPTURE_TAIL_MAX, &logs);
        jsonw_init(&w, &worktree);
        jsonw_object(&w);
        worktree_print(&attempt->worktree, buf_slice(&attempt->changes), buf_slice(&logs), &w);
        jsonw_object_end(&w);
        buf_release(&logs);
        facts->worktree = buf_slice(&worktree);
    }
    facts->interrupted = attempt->stopping && attempt->outcome == EFFORT_INTERRUPTED;
    facts->cancelled = attempt->stopping && attempt->outcome == EFFORT_CANCELLED;
    facts->duration = (struct span){loop_now().us - attempt->began.us};
    facts->agent_id = buf_slice(&attempt->agent);
    facts->context = attempt->context;
    facts->context_count = attempt->context[1].len ? 2 : 1;
    if (attempt->artifact.size)
        facts->artifact = slice_of(attempt->artifact.path);
    buf_clear(&attempt->report);
    jsonw_init(&w, &attempt->report);
    verdict_print(facts, &w);
    if (buf_status(&attempt->report, NULL) != STATUS_OK) {
        buf_clear(&attempt->report);
        buf_add_str(&attempt->report, "{\"message\":\"the evidence was too much to be kept\"}");
    }
    buf_release(&worktree);
    facts->worktree = (struct slice){0};
}

/* failed is where every failure goes: evidence first, then what the handler says. */
static void failed(struct attempt *attempt)
{
    bool look = attempt->has_worktree && attempt->phase != PHASE_MAKE;
    enter(attempt, look ? PHASE_LOOK : PHASE_CUSTOM);
}

/* refuse fails the attempt for something that no process said. */
static void refuse(struct attempt *attempt, enum verdict_step step, bool invalid)
{
    attempt->facts = (struct verdict_facts){.step = step,
                                            .command = buf_slice(&attempt->command),
                                            .message = slice_of(attempt->err.text),
                                            .invalid = invalid};
    failed(attempt);
}

static void succeeded(struct attempt *attempt)
{
    struct jsonw w;
    attempt->facts.duration = (struct span){loop_now().us - attempt->began.us};
    if (attempt->artifact.size)
        attempt->facts.artifact = slice_of(attempt->artifact.path);
    jsonw_init(&w, &attempt->report);
    verdict_result(&attempt->facts, &w);
    finish(attempt, EFFORT_SUCCEEDED);
}

/* ---- processes --------------------------------------------------------------------------------
 */

/* time_left is the time-out of the next process: what is left of the whole, or its own. */
static struct span time_left(const struct attempt *attempt, struct span own)
{
    if (!attempt->deadline.us)
        return own;
    int64_t left = attempt->deadline.us - loop_now().us;
    left = left > 1 ? left : 1;
    return (struct span){own.us && own.us < left ? own.us : left};
}

/* start runs a command; it goes on in `ended`. */
static bool start(struct attempt *attempt, char *const *argv, struct slice input, struct span own,
                  bool heard, void (*ended)(void *ctx, const struct process_end *end))
{
    struct process_spec spec = {
        .argv = argv,
        .envp = attempt->surroundings.envp,
        .cwd = attempt->has_worktree ? attempt->worktree.path : attempt->plan->cwd,
        .input = input,
        .timeout =
            attempt->phase == PHASE_CUSTOM ? attempt->plan->timeout : time_left(attempt, own),
        .grace = attempt->plan->grace,
        .artifact = heard ? &attempt->artifact : NULL,
        .speaks = attempt->phase == PHASE_STEP,
    };
    attempt->limit = own.us && spec.timeout.us == own.us ? own : attempt->whole;
    process_free(attempt->process);
    attempt->process = process_start(attempt->loop, &spec, ended, attempt);
    if (attempt->process)
        return true;
    err_no_memory(&attempt->err);
    return false;
}

/* note_end keeps how the process ended, as facts for the verdict. */
static void note_end(struct attempt *attempt, const struct process_end *end, enum verdict_step step)
{
    attempt->ended = *end;
    buf_clear(&attempt->said);
    buf_add_slice(&attempt->said, process_said(attempt->process));
    if (!attempt->said.len && step == STEP_COMMAND)
        surroundings_said(&attempt->surroundings, &attempt->said);
    attempt->facts = (struct verdict_facts){
        .step = step,
        .end = &attempt->ended,
        .out = process_out(attempt->process),
        .err = process_err(attempt->process),
        .command = buf_slice(&attempt->command),
        .said = buf_slice(&attempt->said),
        .reason =
            end->timed_out && attempt->own_limit ? SLICE("timeout_in_progress") : (struct slice){0},
        .timeout = attempt->limit,
    };
}

static enum phase after_steps(const struct attempt *attempt)
{
    return attempt->plan->validate.len ? PHASE_VALIDATE
           : attempt->has_worktree     ? PHASE_CHECK
                                       : PHASE_END;
}

static void step_ended(void *ctx, const struct process_end *end)
{
    struct attempt *attempt = ctx;
    bool last = attempt->step + 1 == attempt->plan->steps->count;
    enum phase next = last ? after_steps(attempt) : PHASE_STEP;
    note_end(attempt, end, STEP_COMMAND);
    if (verdict_failed(&attempt->facts) || (attempt->stopping && next != PHASE_END)) {
        failed(attempt);
    } else if (last) {
        enter(attempt, next);
    } else {
        attempt->step++;
        enter(attempt, PHASE_STEP);
    }
}

static void validate_ended(void *ctx, const struct process_end *end)
{
    struct attempt *attempt = ctx;
    note_end(attempt, end, STEP_VALIDATE);
    if (verdict_failed(&attempt->facts) || (attempt->stopping && attempt->has_worktree))
        failed(attempt);
    else
        enter(attempt, attempt->has_worktree ? PHASE_CHECK : PHASE_END);
}

/* put_retryable adds what the handler decided to the failure: no other run. */
static void put_retryable(struct buf *report)
{
    if (!report->len || report->ptr[report->len - 1] != '}')
        return;
    report->len--;
    buf_add_str(report, ",\"retryable\":false}");
}

static void custom_ended(void *ctx, const struct process_end *end)
{
    struct attempt *attempt = ctx;
    bool exited = !end->error && !end->signalled && !end->timed_out;
    if (attempt->stopping)
        finish(attempt, attempt->outcome);
    else if (exited && end->exit_code == EXIT_HANDLED)
        finish(attempt, EFFORT_HANDLED);
    else {
        if (!exited || end->exit_code != EXIT_RETRY)
            put_retryable(&attempt->report);
        finish(attempt, EFFORT_FAILED);
    }
}

/* run_script runs a script of the plan, as it is: what it needs is in its environment. */
static bool run_script(struct attempt *attempt, struct slice script, struct slice input,
                       void (*ended)(void *ctx, const struct process_end *end))
{
    static char sh[] = "sh", c[] = "-c";
    char *argv[] = {sh, c, (char *)(uintptr_t)arena_dup(&attempt->grant->arena, script).ptr, NULL};
    if (!argv[2]) {
        err_no_memory(&attempt->err);
        return false;
    }
    if (attempt->phase != PHASE_CUSTOM) {
        buf_clear(&attempt->command);
        buf_addf(&attempt->command, "validate: %.*s", SLICE_ARG(script));
    }
    return start(attempt, argv, input, (struct span){0}, attempt->phase != PHASE_CUSTOM, ended);
}

/* ---- steps ------------------------------------------------------------------------------------
 */

/* place_value finds what a script's place stands for. */
static enum status place_value(struct attempt *attempt, struct slice name, struct slice *out)
{
    struct json value;
    struct item field;
    if (slice_is(name, "item")) {
        *out = attempt->item.bytes;
        return STATUS_OK;
    }
    struct slice path = {name.ptr + 5, name.len - 5}; /* behind "item." */
    if (!item_field(attempt->item.value, path, &value))
        return err_set(&attempt->err, STATUS_INVALID, "the item has no field \"%.*s\"",
                       SLICE_ARG(path));
    enum status status = item_from_value(value, &attempt->grant->arena, &field, &attempt->err);
    *out = field.bytes;
    return status;
}

/* fill_script makes the argument vector of a script, and its variables. */
static enum status fill_script(struct attempt *attempt, const struct script *script, char ***argv)
{
    struct arena *arena = &attempt->grant->arena;
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < script->place_count; i++) {
        struct slice value = {0};
        status = place_value(attempt, script->places[i].name, &value);
        if (!status)
            status = surroundings_add(&attempt->surroundings, arena, script->places[i].variable,
                                      value, &attempt->err);
    }
    *argv = arena_array(arena, 4, sizeof(**argv));
    if (status || !*argv)
        return status ? status : err_no_memory(&attempt->err);
    static char sh[] = "sh", c[] = "-c";
    (*argv)[0] = sh;
    (*argv)[1] = c;
    (*argv)[2] = (char *)(uintptr_t)script->text;
    return STATUS_OK;
}

/* say_command notes what is run: as it is for every item (the step that failed), and as it is for
 * this one (the context). */
static void say_command(struct attempt *attempt, const struct step *step, char *const *argv)
{
    struct buf filled;
    buf_init(&filled, COMMAND_MAX);
    buf_clear(&attempt->command);
    if (step->template)
        template_print(step->template, &attempt->command);
    else
        buf_addf(&attempt->command, "shell: %.*s", SLICE_ARG(step->text));
    if (step->template && argv)
        command_print(argv, &filled);
    attempt->context[1] = arena_printf(&attempt->grant->arena, "Running step %zu of %zu: %s",
                                       attempt->step + 1, attempt->plan->steps->count,
                                       filled.len ? buf_str(&filled) : buf_str(&attempt->command));
    buf_release(&filled);
}

static void run_step(struct attempt *attempt)
{
    const struct step *step = &attempt->plan->steps->steps[attempt->step];
    char **argv = NULL;
    enum status status = step->template
                             ? template_fill(step->template, &attempt->item, &attempt->grant->arena,
                                             &argv, &attempt->err)
                             : fill_script(attempt, &step->script, &argv);
    say_command(attempt, step, status ? NULL : argv);
    struct slice input = attempt->plan->payload ? attempt->grant->job.raw : (struct slice){0};
    if (status)
        refuse(attempt, STEP_COMMAND, status == STATUS_INVALID);
    else if (!start(attempt, argv, input, step->timeout, true, step_ended))
        refuse(attempt, STEP_COMMAND, false);
}

/* ---- worktrees --------------------------------------------------------------------------------
 */

/* git_failed keeps git's own words as the failure. */
static void git_failed(struct attempt *attempt, const struct worktree_end *end,
                       enum verdict_step step, const char *what)
{
    buf_clear(&attempt->command);
    buf_addf(&attempt->command, "git %s", what);
    if (end->process)
        attempt->ended = *end->process;
    attempt->facts = (struct verdict_facts){
        .step = end->no_commit ? STEP_COMMIT : step,
        .end = end->process ? &attempt->ended : NULL,
        .message = arena_dup(&attempt->grant->arena, end->text),
        .command = buf_slice(&attempt->command),
        .conflict = end->conflict,
    };
    failed(attempt);
}

static void worktree_done(void *ctx, const struct worktree_end *end)
{
    struct attempt *attempt = ctx;
    switch (attempt->phase) {
    case PHASE_MAKE:
        if (!end->ok)
            git_failed(attempt, end, STEP_WORKTREE, "worktree add");
        else if (attempt->stopping)
            failed(attempt);
        else
            enter(attempt, PHASE_STEP);
        break;
    case PHASE_CHECK:
        if (end->ok && !attempt->stopping)
            enter(attempt, PHASE_MERGE);
        else
            git_failed(attempt, end, STEP_WORKTREE, "commit");
        break;
    case PHASE_MERGE:
        if (end->ok)
            enter(attempt, PHASE_REMOVE);
        else
            git_failed(attempt, end, STEP_MERGE, "merge");
        break;
    case PHASE_LOOK:
        if (end->ok)
            buf_add_slice(&attempt->changes, end->text);
        enter(attempt, PHASE_CUSTOM);
        break;
    default: /* PHASE_REMOVE: the work is merged; what cannot be removed is left */
        succeeded(attempt);
        break;
    }
}

static void run_git(struct attempt *attempt, enum worktree_step step)
{
    if (worktree_do(&attempt->worktree, step, worktree_done, attempt))
        return;
    err_no_memory(&attempt->err);
    if (attempt->phase == PHASE_LOOK)
        enter(attempt, PHASE_CUSTOM);
    else if (attempt->phase == PHASE_REMOVE)
        succeeded(attempt);
    else
        refuse(attempt, STEP_WORKTREE, false);
}

/* ---- the machine ------------------------------------------------------------------------------
 */

/* decide prints the failure and asks the handler about it, where there is one. */
static void decide(struct attempt *attempt)
{
    print_failure(attempt);
    bool asks = attempt->plan->custom.len && !attempt->stopping;
    if (asks &&
        run_script(attempt, attempt->plan->custom, buf_slice(&attempt->report), custom_ended))
        return;
    finish(attempt, attempt->stopping ? attempt->outcome : EFFORT_FAILED);
}

static void enter(struct attempt *attempt, enum phase phase)
{
    attempt->phase = phase;
    switch (phase) {
    case PHASE_MAKE:
        run_git(attempt, WORKTREE_MAKE);
        break;
    case PHASE_STEP:
        run_step(attempt);
        break;
    case PHASE_VALIDATE:
        if (!run_script(attempt, attempt->plan->validate, (struct slice){0}, validate_ended))
            refuse(attempt, STEP_VALIDATE, false);
        break;
    case PHASE_CHECK:
        run_git(attempt, WORKTREE_CHECK);
        break;
    case PHASE_MERGE:
        run_git(attempt, WORKTREE_MERGE);
        break;
    case PHASE_REMOVE:
        run_git(attempt, WORKTREE_REMOVE);
        break;
    case PHASE_LOOK:
        run_git(attempt, WORKTREE_LOOK);
        break;
    case PHASE_CUSTOM:
        decide(attempt);
        break;
    case PHASE_END:
        succeeded(attempt);
        break;
    }
}

/* ---- from outside -----------------------------------------------------------------------------
 */

/* set_deadline takes the earlier of the plan's time-out and the job's own max_runtime_seconds.  At
 * the end of the latter, which began with the lease, the engine takes the job away: the command is
 * ended a little earlier, so that what is known of it can be reported. */
static void set_deadline(struct attempt *attempt)
{
    struct json constraints, value;
    double seconds = 0;
    struct span limit = attempt->plan->timeout;
    attempt->whole = limit;
    attempt->deadline.us = limit.us ? attempt->began.us + limit.us : 0;
    json_get(attempt->grant->job, "constraints", &constraints);
    if (!json_get(constraints, "max_runtime_seconds", &value) || !json_double(value, &seconds) ||
        seconds <= 0)
        return;
    struct span own = span_from_seconds(seconds);
    int64_t headroom = own.us / 10 < HEADROOM_US_MAX ? own.us / 10 : HEADROOM_US_MAX;
    int64_t end = attempt->grant->came.us + own.us - headroom;
    if (limit.us && attempt->deadline.us <= end)
        return;
    attempt->deadline.us = end;
    attempt->whole = own;
    attempt->own_limit = true;
}

/* prepare makes everything that the first process needs. */
static enum status prepare(struct attempt *attempt)
{
    const struct attempt_plan *plan = attempt->plan;
    struct grant *grant = attempt->grant;
    struct err *err = &attempt->err;
    struct slice run = plan->run_id.len ? plan->run_id : SLICE("work");
    struct slice name = plan->run_id.len ? grant->item_id : grant->job_id;
    enum status status = item_parse(grant->inputs, &grant->arena, &attempt->item, err);
    if (!status && plan->artifacts)
        status = artifact_init(&attempt->artifact, plan->artifacts, run, name, grant->attempt,
                               plan->artifact_max, err);
    if (!status)
        status = surroundings_make(plan, grant, &attempt->item, attempt->slot,
                                   &attempt->surroundings, err);
    if (!status && plan->worktrees) {
        status = worktree_init(plan->worktrees, grant->item_id, &attempt->worktree, err);
        attempt->has_worktree = !status;
    }
    return status;
}

/* begin is the first turn in the loop. */
static void begin(struct loop_timer *timer)
{
    struct attempt *attempt = (struct attempt *)((char *)timer - offsetof(struct attempt, later));
    enum status status = prepare(attempt);
    set_deadline(attempt);
    if (status || attempt->stopping)
        refuse(attempt, STEP_COMMAND, status == STATUS_INVALID);
    else
        enter(attempt, attempt->has_worktree ? PHASE_MAKE : PHASE_STEP);
}

static void attempt_free(void *effort)
{
    struct attempt *attempt = effort;
    loop_timer_clear(attempt->loop, &attempt->later);
    process_free(attempt->process);
    surroundings_clear(&attempt->surroundings);
    artifact_release(&attempt->artifact);
    if (attempt->has_worktree)
        worktree_release(&attempt->worktree);
    buf_release(&attempt->command);
    buf_release(&attempt->said);
    buf_release(&attempt->agent);
    buf_release(&attempt->changes);
    buf_release(&attempt->report);
    mem_free(attempt);
}

static void *attempt_start(void *ctx, struct grant *grant, unsigned slot,
                           void (*ended)(void *owner, const struct effort_end *end), void *owner)
{
    const struct attempt_plan *plan = ctx;
    struct attempt *attempt = mem_zalloc(sizeof(*attempt));
    if (!attempt)
        return NULL;
    *attempt = (struct attempt){.loop = plan->loop,
                                .plan = plan,
                                .grant = grant,
                                .slot = slot,
                                .done = ended,
                                .owner = owner,
                                .phase = PHASE_MAKE,
                                .artifact = {.fd = -1},
                                .began = loop_now(),
                                .later = {.fire = begin}};
    buf_init(&attempt->command, COMMAND_MAX);
    buf_init(&attempt->said, PROCESS_SAID_MAX + 4096);
    buf_init(&attempt->agent, 512);
    buf_init(&attempt->changes, REPORT_MAX);
    buf_init(&attempt->report, REPORT_MAX);
    buf_addf(&attempt->agent, "%s#%u", plan->agent, slot + 1);
    attempt->context[0] = arena_printf(&grant->arena, "Processing work item %.*s, attempt %" PRIu32,
                                       SLICE_ARG(grant->item_id), grant->attempt);
    if (!attempt->context[0].ptr ||
        !loop_timer_set(plan->loop, &attempt->later, (struct span){0})) {
        attempt_free(attempt);
        return NULL;
    }
    return attempt;
}

static void attempt_stop(void *effort, enum effort_outcome outcome, bool now)
{
    struct attempt *attempt = effort;
    bool runs = attempt->phase == PHASE_STEP || attempt->phase == PHASE_VALIDATE ||
                attempt->phase == PHASE_CUSTOM;
    if (!attempt->stopping)
        attempt->outcome = outcome;
    attempt->stopping = true;
    if (runs && attempt->process)
        process_stop(attempt->process, now);
}

struct craft attempt_craft(const struct attempt_plan *plan)
{
    return (struct craft){.start = attempt_start,
                          .stop = attempt_stop,
                          .free = attempt_free,
                          .ctx = (void *)(uintptr_t)plan};
}
