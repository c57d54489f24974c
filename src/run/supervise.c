/* supervise: requests to the engine and lives of the agent, one after the other.
 *
 *       .---------------- a new job: it was up for long, or the last one is gone ---------.
 *       v                                                                                 |
 *     [push] --> [lease] --granted--> LIVING --ended--> [report] --+-- done --------------'
 *                 | ^  ^                |                          +-- scheduled --> [lease]
 *       none for  | |  |                |                          +-- dead --> [letter] --> end
 *       a while   v |  `-- [release]    |                          `-- cancelled --> end
 *                [check] <--lease lost--'
 *                   `-- done, dead, cancelled: as behind [report]
 *
 *     told to stop:  LIVING --> [report] --> end     [lease] --> [cancel] --> end
 *
 * What is in brackets waits for the answer to `ask`; heartbeats are beside it.  A message that
 * could not be carried is sent again as it is, so each may arrive twice: a report that finds no
 * lease is cleared up by a look at the job.
 *
 * Invariants: there is a grant, and a life, exactly in LIVING and REPORT, and in what ends there;
 * an agent is started only under a grant. */
#include "run/supervise.h"

#include <stdio.h>

#include "crew/halt.h"
#include "run/agentjob.h"
#include "run/errand.h"
#include "run/life.h"
#include "run/pulse.h"
#include "run/scratch.h"

#define WAIT span_ms(500)       /* for a lease: how long a stop may have to wait for the answer */
#define FOREIGN span_seconds(5) /* after a job that is not for us: it would be the next again */
#define CHECK_EVERY 4           /* requests for a lease in vain, before a look at the job */
#define REPORT_MAX ((size_t)4 << 20)
#define TEXT_MAX 1024

enum state { PUSH, LEASE, LIVING, REPORT, CHECK, RELEASE, LETTER, CANCEL, END };

struct supervise {
    const struct supervise_config *config;
    struct loop *loop;
    struct halt halt;
    struct courier *courier;
    struct life_plan plan;
    char scratch[SCRATCH_SIZE];

    enum state state;
    struct errand ask;
    struct pulse pulse;
    unsigned in_vain;  /* requests for a lease */
    bool waiting_told; /* that another one has the agent */
    bool foreign_told; /* that there is a job which is not for us */

    struct agentjob job;
    bool begun; /* a first job is there */
    bool mine;  /* it waits for us alone: pushed or leased by us, and not lost since */
    struct grant *grant;
    struct life *life;
    struct life_cause cause; /* of the report */
    bool completes;          /* the report says that the job is done */
    bool plain;              /* the report was refused once: this is all that is left to say */
    struct buf dlq_id;

    struct span restarts[SUPERVISE_RESTARTS_MAX]; /* when the last ones were: a ring */
    uint32_t restart_count;
    uint32_t starts; /* since the line of jobs began anew */
    char detail[64]; /* of a crash loop */

    bool stopping, quitting; /* told once, told twice */
    bool lost, cancelled;    /* why the agent is being ended */
    enum supervise_outcome outcome;
    enum status status; /* of an end that is none of these */
    struct err err;
};

static void check(struct supervise *s);

static void note(const struct supervise *s, const char *sentence)
{
    s->config->note(s->config->ctx, sentence);
}

static void tell(struct supervise *s, struct supervise_event event)
{
    event.job_id = buf_slice(&s->job.id);
    event.attempt = s->grant ? s->grant->attempt : 0;
    event.restarts = s->restart_count;
    s->config->event(s->config->ctx, &event);
}

/* ask sends the request of a state, which is written. */
static void ask(struct supervise *s, enum state state, const char *method)
{
    s->state = state;
    errand_send(&s->ask, method);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void end(struct supervise *s, enum supervise_outcome outcome)
{
    s->state = END;
    s->outcome = outcome;
    loop_stop(s->loop);
}

static void end_badly(struct supervise *s, enum status status, const struct err *err)
{
    s->status = status;
    s->err = *err;
    end(s, SUPERVISED_STOPPED);
}

/* up is how long the agent was up that has just ended. */
static struct span up(const struct supervise *s)
{
    return s->life ? life_up(s->life) : (struct span){0};
}

static void stopped(struct supervise *s)
{
    tell(s, (struct supervise_event){.what = SUPERVISE_STOPPED, .up = up(s)});
    end(s, SUPERVISED_STOPPED);
}

static void was_cancelled(struct supervise *s)
{
    tell(s, (struct supervise_event){.what = SUPERVISE_CANCELLED, .up = up(s)});
    end(s, SUPERVISED_CANCELLED);
}

/* find_letter asks for the letter that the job became. */
static void find_letter(struct supervise *s, struct json answer)
{
    errand_text(answer, "dlq_id", &s->dlq_id);
    errand_path(&s->ask, "/api/v1/dlq/", buf_slice(&s->dlq_id), "");
    ask(s, LETTER, "GET");
}

static void lettered(struct supervise *s)
{
    struct buf reason;
    buf_init(&reason, TEXT_MAX);
    buf_add_str(&reason, s->cause.reason ? s->cause.reason : "dead");
    errand_text(s->ask.message.value, "reason", &reason);
    tell(s, (struct supervise_event){.what = SUPERVISE_DEAD_LETTERED,
                                     .reason = buf_slice(&reason),
                                     .dlq_id = buf_slice(&s->dlq_id)});
    buf_release(&reason);
    end(s, SUPERVISED_DEAD);
}

/* drop lets go of the lease and of what was done under it. */
static void drop(struct supervise *s)
{
    pulse_end(&s->pulse);
    life_free(s->life);
    grant_free(s->grant);
    s->life = NULL;
    s->grant = NULL;
    s->cause = (struct life_cause){0};
    s->lost = s->cancelled = s->plain = false;
}

/* ---- the job and its lease --------------------------------------------------------------------
 */

static void push(struct supervise *s)
{
    struct jsonw w;
    s->mine = false;
    s->starts = 0;
    errand_path(&s->ask, "/api/v1/jobs", (struct slice){0}, "");
    errand_body(&s->ask, &w);
    agentjob_push(&s->job, &w);
    ask(s, PUSH, "POST");
}

/* leave ends while nothing is leased: a job that waits for nobody but us is cancelled. */
static void leave(struct supervise *s)
{
    if (!s->mine) {
        stopped(s);
        return;
    }
    errand_path(&s->ask, "/api/v1/jobs/", buf_slice(&s->job.id), "/cancel");
    ask(s, CANCEL, "POST");
}

/* lease_after asks for the lease after a time. */
static void lease_after(struct supervise *s, struct span time)
{
    struct jsonw w;
    if (s->stopping) {
        leave(s);
        return;
    }
    s->state = LEASE;
    errand_path(&s->ask, "/api/v1/leases", (struct slice){0}, "");
    errand_body(&s->ask, &w);
    agentjob_lease(&s->job, WAIT, &w);
    if (time.us > 0)
        errand_later(&s->ask, "POST", time);
    else
        errand_send(&s->ask, "POST");
}

static void lease(struct supervise *s)
{
    lease_after(s, (struct span){0});
}

/* pushed finds the job that is there: ours, or one that was there before. */
static void pushed(struct supervise *s)
{
    struct json answer = s->ask.message.value, created, state;
    struct buf before;
    buf_init(&before, TEXT_MAX);
    buf_add_slice(&before, buf_slice(&s->job.id));
    errand_text(answer, "job_id", &s->job.id);
    json_get(answer, "created", &created);
    json_get(answer, "state", &state);
    s->begun = true;
    s->mine = created.type == JSON_TRUE || slice_eq(buf_slice(&before), buf_slice(&s->job.id));
    buf_release(&before);
    if (json_string_is(state, "running")) {
        check(s);
        return;
    }
    if (!s->mine)
        note(s, "a job of this agent was left: it goes on");
    lease(s);
}

/* give_back returns a job that is not for us. */
static void give_back(struct supervise *s)
{
    struct jsonw w;
    struct buf sentence;
    buf_init(&sentence, TEXT_MAX);
    buf_addf(&sentence, "job \"%.*s\" is in the queue %s and is no agent's: cancel it",
             SLICE_ARG(s->grant->job_id), SUPERVISE_QUEUE);
    if (!s->foreign_told)
        note(s, buf_str(&sentence));
    s->foreign_told = true;
    buf_release(&sentence);
    errand_path(&s->ask, "/api/v1/leases/release", (struct slice){0}, "");
    errand_body(&s->ask, &w);
    agentjob_held(&s->job, s->grant->lease_id, (struct span){0}, &w);
    drop(s);
    ask(s, RELEASE, "POST");
}

static void gave_back(struct supervise *s)
{
    lease_after(s, FOREIGN);
}

/* ---- lives ------------------------------------------------------------------------------------
 */

static void note_restart(struct supervise *s)
{
    if (s->starts++ > 0)
        s->restarts[s->restart_count++ % SUPERVISE_RESTARTS_MAX] = loop_now();
}

/* in_crash_loop says whether the agent has been restarted too often lately. */
static bool in_crash_loop(const struct supervise *s)
{
    struct span oldest = s->restarts[s->restart_count % SUPERVISE_RESTARTS_MAX];
    return s->restart_count >= SUPERVISE_RESTARTS_MAX &&
           loop_now().us - oldest.us <= s->config->window.us;
}

/* choose_cause says why an ended life is a failure. */
static struct life_cause choose_cause(const struct supervise *s, enum life_outcome outcome)
{
    switch (outcome) {
    case LIFE_UNHEALTHY:
        return (struct life_cause){.reason = "boot_failure"};
    case LIFE_PULL_FAILED:
        return (struct life_cause){.reason = "pull_failure"};
    case LIFE_ENDED:
        if (in_crash_loop(s))
            return (struct life_cause){.reason = "crash_loop", .detail = s->detail};
        break;
    case LIFE_STOPPED:
        break;
    }
    return (struct life_cause){.cancelled = s->cancelled};
}

/* put_failure writes what failed or, when that was refused, as little as there is to say. */
static void put_failure(const struct supervise *s, struct jsonw *w)
{
    if (!s->plain) {
        life_failure(s->life, &s->cause, w);
        return;
    }
    jsonw_object(w);
    jsonw_put_str(w, "message", "the agent ended, and the report of how was refused");
    jsonw_put_str(w, "class", "crashed");
    jsonw_put_text(w, "reason", slice_of(s->cause.reason));
    if (s->cause.reason)
        jsonw_put_bool(w, "retryable", false);
    jsonw_object_end(w);
}

static void report(struct supervise *s)
{
    struct jsonw w;
    errand_path(&s->ask, "/api/v1/results", (struct slice){0}, "");
    errand_body(&s->ask, &w);
    jsonw_array(&w);
    jsonw_object(&w);
    jsonw_put_string(&w, "lease_id", s->grant->lease_id);
    jsonw_put_str(&w, "status", s->completes ? "complete" : "failed");
    if (!s->completes) {
        jsonw_key(&w, "failure");
        put_failure(s, &w);
    } else if (!s->plain) {
        jsonw_key(&w, "result");
        life_result(s->life, s->stopping, &w);
    }
    jsonw_object_end(&w);
    jsonw_array_end(&w);
    ask(s, REPORT, "POST");
}

/* tell_end tells how the agent ended, in the words of the report. */
static void tell_end(struct supervise *s)
{
    struct buf text, message;
    struct jsonw w;
    struct json failure;
    buf_init(&text, REPORT_MAX);
    buf_init(&message, REPORT_MAX);
    jsonw_init(&w, &text);
    life_failure(s->life, &s->cause, &w);
    if (json_parse(buf_slice(&text), &failure, NULL) == STATUS_OK)
        errand_text(failure, "message", &message);
    tell(s, (struct supervise_event){.what = SUPERVISE_ENDED,
                                     .up = up(s),
                                     .message = buf_slice(&message),
                                     .artifact = life_artifact(s->life)});
    buf_release(&text);
    buf_release(&message);
}

static void on_ended(void *ctx, enum life_outcome outcome)
{
    struct supervise *s = ctx;
    bool long_lived = outcome == LIFE_ENDED && up(s).us >= s->config->window.us;
    if (outcome == LIFE_STOPPED && s->lost) {
        tell(s, (struct supervise_event){.what = SUPERVISE_LOST, .up = up(s)});
        drop(s);
        s->mine = false;
        check(s);
        return;
    }
    s->cause = choose_cause(s, outcome);
    s->completes = long_lived || (outcome == LIFE_STOPPED && !s->cancelled);
    if (outcome != LIFE_STOPPED)
        tell_end(s);
    report(s);
}

/* on_pulse: without the engine the agent stays up; it is ended only when the engine says so. */
static void on_pulse(void *ctx, enum pulse_news news, const char *sentence)
{
    struct supervise *s = ctx;
    if (news == PULSE_TROUBLE) {
        note(s, sentence);
        return;
    }
    s->lost = s->lost || news == PULSE_LOST;
    s->cancelled = s->cancelled || news == PULSE_CANCELLED;
    if (s->state == LIVING)
        life_stop(s->life, false);
}

static void on_started(void *ctx, pid_t pid)
{
    tell(ctx, (struct supervise_event){.what = SUPERVISE_STARTED, .pid = pid});
}

static void on_unhealthy(void *ctx, unsigned in_a_row, struct slice message)
{
    tell(ctx, (struct supervise_event){
                  .what = SUPERVISE_UNHEALTHY, .failed = in_a_row, .message = message});
}

/* live begins a life under the lease that was granted.  The first heartbeat says that it has begun.
 */
static void live(struct supervise *s)
{
    struct life_watch watch = {
        .started = on_started, .unhealthy = on_unhealthy, .ended = on_ended, .ctx = s};
    s->mine = true;
    s->in_vain = 0;
    s->waiting_told = false;
    buf_clear(&s->job.id);
    buf_add_slice(&s->job.id, s->grant->job_id);
    s->state = LIVING;
    s->life = life_start(s->loop, &s->plan, s->grant, &watch);
    if (!s->life) {
        struct err err;
        end_badly(s, err_no_memory(&err), &err);
        return;
    }
    note_restart(s);
    pulse_begin(&s->pulse, s->grant->lease_id);
    if (s->stopping)
        life_stop(s->life, false);
}

static void leased(struct supervise *s)
{
    struct json leases, first;
    struct json_iter iter;
    json_get(s->ask.message.value, "leases", &leases);
    json_iter_init(&iter, leases);
    if (json_next(&iter, NULL, &first))
        s->grant = grant_new(first); /* without memory the lease ends by itself */
    if (s->grant && !agentjob_is(&s->job, s->grant->job))
        give_back(s);
    else if (s->grant)
        live(s);
    else if (s->stopping)
        leave(s);
    else if (s->ask.message.took.us < WAIT.us / 2)
        lease_after(s, WAIT); /* who answers does not wait */
    else if (++s->in_vain % CHECK_EVERY == 0)
        check(s);
    else
        lease(s);
}

/* ---- what became of the job -------------------------------------------------------------------
 */

/* was_done: we were told to stop, or the agent was up for so long that it begins anew. */
static void was_done(struct supervise *s)
{
    if (s->stopping) {
        stopped(s);
        return;
    }
    drop(s);
    push(s);
}

static void is_scheduled(struct supervise *s, struct json answer)
{
    struct json at;
    struct arena arena = {0};
    struct supervise_event event = {.what = SUPERVISE_RESTARTING};
    if (json_get(answer, "next_retry_at", &at) && at.type == JSON_STRING)
        instant_parse(json_text(at, &arena), &event.retry_at, NULL);
    arena_release(&arena);
    if (!s->stopping)
        tell(s, event);
    drop(s);
    lease(s);
}

/* refused says that the engine did not take the report down, though the lease is ours. */
static bool refused(struct json answer)
{
    struct json code;
    return json_get(answer, "code", &code) && !json_string_is(code, "lease_lost");
}

static void say_less(struct supervise *s)
{
    s->plain = true;
    report(s);
}

static void reported(struct supervise *s)
{
    struct json results, answer = {0}, state;
    struct json_iter iter;
    json_get(s->ask.message.value, "results", &results);
    json_iter_init(&iter, results);
    json_next(&iter, NULL, &answer);
    if (refused(answer) && !s->plain) {
        say_less(s);
    } else if (!json_get(answer, "state", &state)) { /* lost, or reported before */
        drop(s);
        check(s);
    } else if (json_string_is(state, "dead")) {
        find_letter(s, answer);
    } else if (json_string_is(state, "cancelled")) {
        was_cancelled(s);
    } else if (json_string_is(state, "done")) {
        was_done(s);
    } else {
        is_scheduled(s, answer);
    }
}

static void check(struct supervise *s)
{
    errand_path(&s->ask, "/api/v1/jobs/", buf_slice(&s->job.id), "");
    ask(s, CHECK, "GET");
}

/* waits tells, once, who has the agent. */
static void waits(struct supervise *s)
{
    struct buf worker;
    buf_init(&worker, TEXT_MAX);
    errand_text(s->ask.message.value, "worker", &worker);
    s->mine = false;
    if (!s->waiting_told && !s->stopping)
        tell(s, (struct supervise_event){.what = SUPERVISE_WAITING, .message = buf_slice(&worker)});
    s->waiting_told = true;
    buf_release(&worker);
    lease(s);
}

static void checked(struct supervise *s)
{
    struct json state;
    json_get(s->ask.message.value, "state", &state);
    if (json_string_is(state, "dead"))
        find_letter(s, s->ask.message.value);
    else if (json_string_is(state, "cancelled"))
        was_cancelled(s);
    else if (json_string_is(state, "done"))
        was_done(s);
    else if (json_string_is(state, "running"))
        waits(s);
    else
        lease(s);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

/* gives_up says that a message that cannot be carried is not worth waiting for: any but the report
 * of an agent that was running, and that too when we are told twice. */
static bool gives_up(const struct supervise *s)
{
    return s->quitting || (s->stopping && s->state != REPORT);
}

static void trouble(struct supervise *s)
{
    if (gives_up(s))
        end_badly(s, s->ask.message.status, &s->ask.message.err);
    else if (errand_trouble(&s->ask))
        note(s, s->ask.message.err.text);
}

/* is_lasting says that another try would be answered the same. */
static bool is_lasting(enum status status)
{
    return status == STATUS_INVALID || status == STATUS_NOT_FOUND || status == STATUS_CONFLICT ||
           status == STATUS_TOO_LARGE;
}

/* failed is for an answer that is an error, and for none. */
static void failed(struct supervise *s)
{
    enum status status = s->ask.message.status;
    bool lasting = is_lasting(status);
    if (s->state == PUSH && (lasting || !s->begun))
        end_badly(s, status, &s->ask.message.err);
    else if (s->state == LETTER)
        lettered(s);
    else if (s->state == CHECK && status == STATUS_NOT_FOUND)
        was_done(s);
    else if (s->state == CANCEL && lasting)
        stopped(s);
    else if (s->state == REPORT && lasting && !s->plain)
        say_less(s);
    else
        trouble(s);
}

static void answered(struct message *message)
{
    static void (*const next[])(struct supervise * s) = {
        [PUSH] = pushed,       [LEASE] = leased,    [REPORT] = reported, [CHECK] = checked,
        [RELEASE] = gave_back, [LETTER] = lettered, [CANCEL] = stopped,  [END] = NULL,
    };
    struct supervise *s = message->owner;
    if (message->status) {
        failed(s);
        return;
    }
    errand_fine(&s->ask);
    BUG_ON(!next[s->state]);
    next[s->state](s);
}

/* ---- from outside -----------------------------------------------------------------------------
 */

static void asked_to_stop(struct halt *halt, int times)
{
    struct supervise *s = (struct supervise *)((char *)halt - offsetof(struct supervise, halt));
    s->stopping = true;
    s->quitting = times > 1;
    if (s->state == LIVING) {
        if (times == 1)
            note(s, "stopping; once more to kill it");
        life_stop(s->life, times > 1);
    } else if (errand_waits(&s->ask) && gives_up(s)) {
        errand_stay(&s->ask);
        if (s->ask.message.status)
            end_badly(s, s->ask.message.status, &s->ask.message.err);
        else
            leave(s);
    }
}

/* say_loop writes what a crash loop is. */
static void say_loop(struct supervise *s)
{
    double seconds = span_to_seconds(s->config->window);
    bool minutes = seconds >= 120;
    snprintf(s->detail, sizeof(s->detail), "%d restarts within %g %s", SUPERVISE_RESTARTS_MAX,
             minutes ? seconds / 60 : seconds, minutes ? "minutes" : "seconds");
}

static enum status open_all(struct supervise *s, struct err *err)
{
    const struct supervise_config *config = s->config;
    enum status status = loop_open(&s->loop, err);
    if (!status)
        status = halt_open(&s->halt, s->loop, asked_to_stop, err);
    if (!status)
        status = scratch_make(s->scratch, err);
    if (!status)
        status = courier_new(s->loop, config->link, &s->courier, err);
    errand_init(&s->ask, s->loop, s->courier, answered, s);
    agentjob_init(&s->job, config);
    s->pulse = (struct pulse){.loop = s->loop,
                              .courier = s->courier,
                              .job = &s->job,
                              .lease = config->lease,
                              .told = on_pulse,
                              .ctx = s};
    pulse_init(&s->pulse);
    buf_init(&s->dlq_id, TEXT_MAX);
    say_loop(s);
    s->plan = (struct life_plan){.name = config->name,
                                 .argv = config->argv,
                                 .pull = config->pull,
                                 .health = config->health,
                                 .health_every = config->health_every,
                                 .grace = config->grace,
                                 .worker_id = config->worker_id,
                                 .artifacts = config->artifacts,
                                 .scratch = s->scratch,
                                 .echo = config->echo};
    return status;
}

static void close_all(struct supervise *s)
{
    courier_free(s->courier);
    errand_release(&s->ask);
    drop(s);
    pulse_release(&s->pulse);
    agentjob_release(&s->job);
    buf_release(&s->dlq_id);
    halt_close(&s->halt);
    scratch_remove(s->scratch);
    loop_close(s->loop);
}

enum status supervise_run(const struct supervise_config *config, enum supervise_outcome *outcome,
                          struct err *err)
{
    struct supervise s = {.config = config, .halt = {.watch = {.fd = -1}}};
    enum status status = open_all(&s, err);
    if (!status) {
        push(&s);
        loop_run(s.loop);
        *outcome = s.outcome;
        status = s.status;
    }
    if (s.status)
        *err = s.err;
    close_all(&s);
    return status;
}
