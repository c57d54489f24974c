/* life: a pull, an agent, and checks beside it.
 *
 *     begin --> pulling --> running --ends, or is ended--> over
 *       |          |           | ^
 *       |          |           v | check_begin, check_ended: a health check at a time
 *       |          |         checking
 *       `----------+--fails, is ended--> over
 *
 * Invariants: a check runs only while the agent does; `outcome` is what it will be when the process
 * that runs has ended, and is set at most once. */
#include "run/life.h"

#include <inttypes.h>

#include "base/mem.h"
#include "core/field.h"
#include "run/evidence.h"
#include "run/process.h"
#include "run/surroundings.h"
#include "run/verdict_judge.h"

#define COMMAND_MAX 4096            /* bytes of a command in the evidence */
#define CHECK_OUTPUT_MAX (4u << 10) /* bytes of each stream of a check in the evidence */
#define SAID_MAX (PROCESS_SAID_MAX + (64u << 10))
#define WORDS_MAX 2048 /* bytes of what a check said */

enum phase { PHASE_BEGIN, PHASE_PULL, PHASE_RUN, PHASE_OVER };

struct life {
    struct loop *loop;
    const struct life_plan *plan;
    struct grant *grant;
    struct life_watch watch;

    enum phase phase;
    enum phase last; /* of a life that is over: what it ended in */
    enum life_outcome outcome;
    bool ending;                  /* it will not go on: `outcome` says why */
    struct attempt_plan commands; /* what surroundings need to know */
    struct surroundings surroundings;
    struct artifact artifact;
    struct err err; /* why it could not begin */

    struct process *process;  /* the pull or the agent */
    struct process_end ended; /* how it ended */
    struct buf command;       /* what it was, as a person would type it */
    struct buf said;          /* by the agent, of its failure */

    struct loop_timer timer; /* the beginning's, then the next check's */
    struct process *check;
    struct span check_began;
    unsigned failed;                   /* checks in a row */
    struct buf words[LIFE_CHECKS_MAX]; /* what they said */
    struct buf check_out, check_err;   /* what the last of them wrote */
};

static struct life *life_of(struct loop_timer *timer)
{
    return (struct life *)((char *)timer - offsetof(struct life, timer));
}

/* over tells the owner, who may free us. */
static void over(struct life *life)
{
    life->last = life->phase;
    life->phase = PHASE_OVER;
    loop_timer_clear(life->loop, &life->timer);
    process_free(life->check);
    life->check = NULL;
    artifact_close(&life->artifact);
    life->watch.ended(life->watch.ctx, life->outcome);
}

/* settle_on says what the outcome will be.  The first word counts. */
static void settle_on(struct life *life, enum life_outcome outcome)
{
    if (!life->ending)
        life->outcome = outcome;
    life->ending = true;
}

/* refuse ends a life that could not begin, or go on, for want of something. */
static void refuse(struct life *life)
{
    settle_on(life, LIFE_ENDED);
    over(life);
}

/* ---- health -----------------------------------------------------------------------------------
 */

/* start_script runs a script: one that is seen and may take its time, as the agent, or a check.
 * NULL when memory is exhausted. */
static struct process *start_script(struct life *life, const char *script, bool seen,
                                    void (*ended)(void *ctx, const struct process_end *end))
{
    static char sh[] = "sh", c[] = "-c";
    char *argv[] = {sh, c, (char *)(uintptr_t)script, NULL};
    struct process_spec spec = {.argv = argv, .envp = life->surroundings.envp};
    if (seen) {
        spec.grace = life->plan->grace;
        spec.artifact = &life->artifact;
        spec.echo = life->plan->echo;
    } else {
        spec.timeout = life->plan->health_every;
    }
    return process_start(life->loop, &spec, ended, life);
}

/* next_check has the next one begin a whole interval after the last. */
static void next_check(struct life *life)
{
    int64_t left = life->check_began.us + life->plan->health_every.us - loop_now().us;
    loop_timer_set(life->loop, &life->timer, (struct span){left > 0 ? left : 0});
}

/* note_check keeps what a failed check said. */
static void note_check(struct life *life, const struct process_end *end)
{
    struct verdict_facts facts = {.step = STEP_VALIDATE,
                                  .end = end,
                                  .err = process_err(life->check),
                                  .command = slice_of(life->plan->health),
                                  .timeout = life->plan->health_every};
    struct judgement judgement;
    struct buf *words = &life->words[life->failed++];
    verdict_judge(&facts, &judgement);
    buf_clear(words);
    buf_add_slice(words, field_head(buf_slice(&judgement.message), WORDS_MAX));
    judgement_release(&judgement);
    buf_clear(&life->check_out);
    buf_clear(&life->check_err);
    capture_tail(process_out(life->check), CHECK_OUTPUT_MAX, &life->check_out);
    capture_tail(process_err(life->check), CHECK_OUTPUT_MAX, &life->check_err);
}

static void check_ended(void *ctx, const struct process_end *end)
{
    struct life *life = ctx;
    bool well = !end->error && !end->signalled && !end->timed_out && end->exit_code == 0;
    if (well)
        life->failed = 0;
    else
        note_check(life, end);
    process_free(life->check);
    life->check = NULL;
    if (life->ending)
        return;
    if (!well)
        life->watch.unhealthy(life->watch.ctx, life->failed,
                              buf_slice(&life->words[life->failed - 1]));
    if (life->failed < LIFE_CHECKS_MAX) {
        next_check(life);
        return;
    }
    settle_on(life, LIFE_UNHEALTHY);
    process_stop(life->process, false);
}

/* check_begin runs a check.  Without memory for it, it is tried again an interval later: that says
 * nothing of the agent. */
static void check_begin(struct life *life)
{
    life->check_began = loop_now();
    life->check = start_script(life, life->plan->health, false, check_ended);
    if (!life->check)
        next_check(life);
}

/* ---- the agent --------------------------------------------------------------------------------
 */

static void agent_ended(void *ctx, const struct process_end *end)
{
    struct life *life = ctx;
    life->ended = *end;
    buf_add_slice(&life->said, process_said(life->process));
    if (!life->said.len)
        surroundings_said(&life->surroundings, &life->said);
    settle_on(life, LIFE_ENDED);
    over(life);
}

/* watch_agent begins the checks.  They know the agent's process. */
static void watch_agent(struct life *life)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%ld", (long)process_pid(life->process));
    surroundings_add(&life->surroundings, &life->grant->arena, "LAZARET_AGENT_PID", slice_of(pid),
                     &life->err);
    life->check_began = loop_now();
    next_check(life);
}

static void run_agent(struct life *life)
{
    struct process_spec spec = {.argv = life->plan->argv,
                                .envp = life->surroundings.envp,
                                .grace = life->plan->grace,
                                .speaks = true,
                                .artifact = &life->artifact,
                                .echo = life->plan->echo};
    process_free(life->process);
    life->phase = PHASE_RUN;
    buf_clear(&life->command);
    command_print(life->plan->argv, &life->command);
    life->process = process_start(life->loop, &spec, agent_ended, life);
    if (!life->process) {
        err_no_memory(&life->err);
        refuse(life);
        return;
    }
    if (!process_pid(life->process))
        return; /* agent_ended says why */
    if (life->plan->health)
        watch_agent(life);
    life->watch.started(life->watch.ctx, process_pid(life->process));
}

/* ---- the pull ---------------------------------------------------------------------------------
 */

static void pull_ended(void *ctx, const struct process_end *end)
{
    struct life *life = ctx;
    bool ok = !end->error && !end->signalled && end->exit_code == 0;
    life->ended = *end;
    if (ok && !life->ending) {
        run_agent(life);
        return;
    }
    settle_on(life, LIFE_PULL_FAILED);
    over(life);
}

static void run_pull(struct life *life)
{
    life->phase = PHASE_PULL;
    buf_addf(&life->command, "pull: %s", life->plan->pull);
    life->process = start_script(life, life->plan->pull, true, pull_ended);
    if (life->process)
        return;
    err_no_memory(&life->err);
    refuse(life);
}

/* ---- from outside -----------------------------------------------------------------------------
 */

/* prepare makes everything that the first process needs. */
static enum status prepare(struct life *life)
{
    const struct life_plan *plan = life->plan;
    struct grant *grant = life->grant;
    struct item item;
    enum status status = item_parse(grant->inputs, &grant->arena, &item, &life->err);
    if (!status && plan->artifacts)
        status = artifact_init(&life->artifact, plan->artifacts, SLICE("supervised"), grant->job_id,
                               grant->attempt, ARTIFACT_MAX_DEFAULT, &life->err);
    life->commands = (struct attempt_plan){.scratch = plan->scratch, .payload = true};
    if (!status)
        status =
            surroundings_make(&life->commands, grant, &item, 0, &life->surroundings, &life->err);
    return status;
}

/* on_timer is the first turn in the loop, and then the time for a check. */
static void on_timer(struct loop_timer *timer)
{
    struct life *life = life_of(timer);
    if (life->phase == PHASE_RUN)
        check_begin(life);
    else if (life->ending)
        over(life);
    else if (prepare(life) != STATUS_OK)
        refuse(life);
    else if (life->plan->pull)
        run_pull(life);
    else
        run_agent(life);
}

struct life *life_start(struct loop *loop, const struct life_plan *plan, struct grant *grant,
                        const struct life_watch *watch)
{
    struct life *life = mem_zalloc(sizeof(*life));
    if (!life)
        return NULL;
    *life = (struct life){.loop = loop,
                          .plan = plan,
                          .grant = grant,
                          .watch = *watch,
                          .artifact = {.fd = -1},
                          .timer = {.fire = on_timer}};
    buf_init(&life->command, COMMAND_MAX);
    buf_init(&life->said, SAID_MAX);
    buf_init(&life->check_out, CHECK_OUTPUT_MAX);
    buf_init(&life->check_err, CHECK_OUTPUT_MAX);
    for (size_t i = 0; i < LIFE_CHECKS_MAX; i++)
        buf_init(&life->words[i], WORDS_MAX);
    if (loop_timer_set(loop, &life->timer, (struct span){0}))
        return life;
    life_free(life);
    return NULL;
}

void life_stop(struct life *life, bool now)
{
    settle_on(life, LIFE_STOPPED);
    if (life->process && life->phase != PHASE_OVER)
        process_stop(life->process, now);
}

struct span life_up(const struct life *life)
{
    return life->last == PHASE_RUN ? life->ended.duration : (struct span){0};
}

struct slice life_artifact(const struct life *life)
{
    return life->artifact.size ? slice_of(life->artifact.path) : (struct slice){0};
}

void life_free(struct life *life)
{
    if (!life)
        return;
    loop_timer_clear(life->loop, &life->timer);
    process_free(life->check);
    process_free(life->process);
    surroundings_clear(&life->surroundings);
    artifact_release(&life->artifact);
    buf_release(&life->command);
    buf_release(&life->said);
    buf_release(&life->check_out);
    buf_release(&life->check_err);
    for (size_t i = 0; i < LIFE_CHECKS_MAX; i++)
        buf_release(&life->words[i]);
    mem_free(life);
}

/* ---- what is reported -------------------------------------------------------------------------
 */

/* put_health writes what the checks said, and what the last of them wrote. */
static void put_health(const struct life *life, struct jsonw *out)
{
    jsonw_key(out, "health");
    jsonw_object(out);
    evidence_put(out, "command", slice_of(life->plan->health), COMMAND_MAX);
    jsonw_key(out, "checks");
    jsonw_array(out);
    for (unsigned i = 0; i < life->failed; i++)
        jsonw_string(out, buf_slice(&life->words[i]));
    jsonw_array_end(out);
    evidence_put(out, "stdout", buf_slice(&life->check_out), CHECK_OUTPUT_MAX);
    evidence_put(out, "stderr", buf_slice(&life->check_err), CHECK_OUTPUT_MAX);
    jsonw_object_end(out);
}

/* put_said writes what is to be said beside the facts, as a failure object of which each member
 * wins.  With a reason of ours the agent's own words are evidence and nothing more. */
static void put_said(const struct life *life, const struct life_cause *cause, struct buf *out)
{
    bool ran = life->last == PHASE_RUN && !life->ended.error;
    struct jsonw w;
    if (!cause->reason && life->said.len) {
        buf_add_slice(out, buf_slice(&life->said));
        return;
    }
    jsonw_init(&w, out);
    jsonw_object(&w);
    if (ran && life->outcome == LIFE_ENDED)
        jsonw_put_str(&w, "class", "crashed");
    if (life->outcome == LIFE_UNHEALTHY)
        jsonw_put_str(&w, "class", "unavailable");
    if (cause->reason)
        jsonw_put_bool(&w, "retryable", false);
    if (cause->detail)
        jsonw_put_str(&w, "reason_detail", cause->detail);
    jsonw_key(&w, "artifacts");
    jsonw_object(&w);
    if (life->said.len)
        evidence_put(&w, "said", buf_slice(&life->said), COMMAND_MAX);
    if (life->outcome == LIFE_UNHEALTHY)
        put_health(life, &w);
    jsonw_object_end(&w);
    jsonw_object_end(&w);
}

/* message_of is the sentence for what the agent itself did not tell; empty: it is told by its end.
 */
static struct slice message_of(const struct life *life, struct arena *arena)
{
    bool ended_well = life->last == PHASE_RUN && life->outcome == LIFE_ENDED && life->process &&
                      !life->ended.error && !life->ended.signalled && life->ended.exit_code == 0;
    if (life->outcome == LIFE_UNHEALTHY)
        return arena_printf(arena, "%d health checks in a row failed: %.*s", LIFE_CHECKS_MAX,
                            SLICE_ARG(buf_slice(&life->words[LIFE_CHECKS_MAX - 1])));
    if (ended_well)
        return SLICE("the agent ended with exit code 0");
    return slice_of(life->process ? NULL : life->err.text);
}

/* put_context writes what was done, in order; it returns how many lines that is. */
static size_t put_context(const struct life *life, struct slice out[LIFE_CHECKS_MAX + 1],
                          struct arena *arena)
{
    size_t count = 0;
    out[count++] = arena_printf(arena, "Keeping agent %s up, attempt %" PRIu32, life->plan->name,
                                life->grant->attempt);
    for (unsigned i = 0; life->outcome == LIFE_UNHEALTHY && i < life->failed; i++)
        out[count++] = arena_printf(arena, "Health check %u of %d failed: %.*s", i + 1,
                                    LIFE_CHECKS_MAX, SLICE_ARG(buf_slice(&life->words[i])));
    return count;
}

void life_failure(const struct life *life, const struct life_cause *cause, struct jsonw *out)
{
    bool unhealthy = life->outcome == LIFE_UNHEALTHY;
    struct slice context[LIFE_CHECKS_MAX + 1];
    struct arena arena = {0};
    struct buf said;
    buf_init(&said, SAID_MAX);
    put_said(life, cause, &said);
    struct verdict_facts facts = {
        .step = unhealthy ? STEP_VALIDATE : STEP_COMMAND,
        .end = life->process ? &life->ended : NULL,
        .out = life->process ? process_out(life->process) : NULL,
        .err = life->process ? process_err(life->process) : NULL,
        .command = unhealthy ? arena_printf(&arena, "health: %s", life->plan->health)
                             : buf_slice(&life->command),
        .said = buf_slice(&said),
        .message = message_of(life, &arena),
        .cancelled = cause->cancelled,
        .agent_id = slice_of(life->plan->worker_id),
        .artifact = life_artifact(life),
        .reason = slice_of(cause->reason),
        .context = context,
        .context_count = put_context(life, context, &arena),
        .duration = life->ended.duration,
    };
    verdict_print(&facts, out);
    buf_release(&said);
    arena_release(&arena);
}

void life_result(const struct life *life, bool stopped, struct jsonw *out)
{
    const struct process_end *end = &life->ended;
    bool ran = life->last == PHASE_RUN && life->process && !end->error;
    char name[16];
    jsonw_object(out);
    jsonw_put_bool(out, "stopped", stopped);
    jsonw_put_double(out, "up_seconds", span_to_seconds(life_up(life)));
    if (ran && end->signalled)
        jsonw_put_str(out, "signal", signal_name(end->signal, name));
    else if (ran)
        jsonw_put_int(out, "exit_code", end->exit_code);
    jsonw_put_text(out, "json_log_location", life_artifact(life));
    jsonw_object_end(out);
}
