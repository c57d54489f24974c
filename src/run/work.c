/* work: a crew without rules of its own: the engine has them. */
#include "run/work.h"

#include <inttypes.h>

#include "crew/crew.h"
#include "crew/halt.h"
#include "run/artifact.h"
#include "run/attempt.h"
#include "run/scratch.h"

#define WAIT span_ms(500) /* for a job: how long a stop may have to wait for an idle worker */
#define SHOW span_ms(200)

struct work {
    const struct work_config *config;
    struct loop *loop;
    struct halt halt;
    struct attempt_plan plan;
    struct crew *crew;
    struct loop_timer show, patience;
    struct watch_counts counts;
    struct span began;
    enum status status; /* why it must not go on; STATUS_OK: it may */
    struct err err;
    char scratch[SCRATCH_SIZE];
};

static void rested(void *ctx)
{
    struct work *work = ctx;
    loop_stop(work->loop);
}

static void idle(void *ctx)
{
    struct work *work = ctx;
    if (work->config->until_empty)
        crew_drain(work->crew, rested, work);
}

static void reported(void *ctx, const struct crew_report *report)
{
    struct watch_counts *counts = &((struct work *)ctx)->counts;
    counts->total += report->what != WATCH_RETRYING && report->what != WATCH_INTERRUPTED;
    counts->done += report->what == WATCH_SUCCEEDED;
    counts->quarantined += report->what == WATCH_QUARANTINED;
    counts->cancelled += report->what == WATCH_CANCELLED;
}

static struct watch_counts count(const struct work *work)
{
    struct watch_counts counts = work->counts, now = crew_counts(work->crew);
    counts.running = now.running;
    counts.failed_attempts = now.failed_attempts;
    counts.retrying = now.retrying;
    counts.slowest = now.slowest;
    counts.slowest_for = now.slowest_for;
    counts.elapsed = (struct span){loop_now().us - work->began.us};
    return counts;
}

static void show(struct loop_timer *timer)
{
    struct work *work = (struct work *)((char *)timer - offsetof(struct work, show));
    struct watch_counts counts = count(work);
    work->config->watch->counts(work->config->watch->ctx, &counts);
    loop_timer_set(work->loop, &work->show, SHOW);
}

/* forbidden ends everything: the leases are not ours to keep, or never will be. */
static void forbidden(void *ctx, enum status status, const struct err *err)
{
    struct work *work = ctx;
    if (!work->status) {
        work->status = status;
        work->err = *err;
    }
    crew_drain(work->crew, rested, work);
    crew_stop(work->crew, false);
    crew_quit(work->crew);
}

/* out_of_patience ends what is still running when the time of a drain is over. */
static void out_of_patience(struct loop_timer *timer)
{
    struct work *work = (struct work *)((char *)timer - offsetof(struct work, patience));
    crew_stop(work->crew, false);
    crew_hurry(work->crew);
}

static void asked_to_stop(struct halt *halt, int times)
{
    struct work *work = (struct work *)((char *)halt - offsetof(struct work, halt));
    int64_t running = crew_counts(work->crew).running;
    char sentence[160];
    if (times == 1) {
        snprintf(sentence, sizeof(sentence),
                 "stopping: %" PRId64 " %s still running; once more to end %s at once", running,
                 running == 1 ? "job is" : "jobs are", running == 1 ? "it" : "them");
        if (running > 0)
            work->config->watch->note(work->config->watch->ctx, sentence);
        if (work->config->drain.us)
            loop_timer_set(work->loop, &work->patience, work->config->drain);
    }
    crew_drain(work->crew, rested, work);
    if (times > 1) {
        crew_stop(work->crew, true);
        crew_hurry(work->crew);
    }
    if (times > 2)
        crew_quit(work->crew);
}

static enum status open_crew(struct work *work, struct err *err)
{
    const struct work_config *config = work->config;
    work->plan = (struct attempt_plan){.loop = work->loop,
                                       .steps = config->steps,
                                       .timeout = config->timeout,
                                       .grace = config->grace,
                                       .artifacts = config->artifacts,
                                       .artifact_max = ARTIFACT_MAX_DEFAULT,
                                       .scratch = work->scratch,
                                       .agent = config->worker_id,
                                       .payload = true};
    struct crew_config crew = {.loop = work->loop,
                               .link = config->link,
                               .watch = config->watch,
                               .craft = attempt_craft(&work->plan),
                               .worker_id = config->worker_id,
                               .queues = config->queues,
                               .queue_count = config->queue_count,
                               .capabilities = config->capabilities,
                               .capability_count = config->capability_count,
                               .scopes = config->scopes,
                               .scope_count = config->scope_count,
                               .permissions = config->permissions,
                               .permission_count = config->permission_count,
                               .parallel = config->parallel,
                               .dead_is = WATCH_QUARANTINED,
                               .lease = config->lease,
                               .wait = WAIT,
                               .reported = reported,
                               .idle = idle,
                               .forbidden = forbidden,
                               .ctx = work};
    return crew_open(&crew, &work->crew, err);
}

enum status work_run(const struct work_config *config, struct watch_counts *counts, struct err *err)
{
    struct work work = {.config = config,
                        .halt = {.watch = {.fd = -1}},
                        .show = {.fire = show},
                        .patience = {.fire = out_of_patience},
                        .began = loop_now()};
    enum status status = loop_open(&work.loop, err);
    if (!status)
        status = halt_open(&work.halt, work.loop, asked_to_stop, err);
    if (!status)
        status = scratch_make(work.scratch, err);
    if (!status)
        status = open_crew(&work, err);
    if (!status) {
        loop_timer_set(work.loop, &work.show, SHOW);
        crew_go(work.crew);
        loop_run(work.loop);
        *counts = count(&work);
        loop_timer_clear(work.loop, &work.show);
        loop_timer_clear(work.loop, &work.patience);
        status = work.status;
        if (status)
            *err = work.err;
        else if (!crew_is_idle(work.crew))
            status = err_set(err, STATUS_UNAVAILABLE,
                             "what ran last could not be reported: its runs count as crashed when "
                             "their leases end");
    }
    crew_close(work.crew);
    halt_close(&work.halt);
    scratch_remove(work.scratch);
    loop_close(work.loop);
    return status;
}
