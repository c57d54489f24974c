/* sender: a crew for named jobs, until each of them is settled.
 *
 * A job can come to its end elsewhere (somebody cancelled it, or another process delivered it):
 * then no lease comes.  So while nothing comes the state of what is left is asked for. */
#include "bridge/sender.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/seams.h"
#include "bridge/deliver.h"
#include "core/delivery.h"
#include "crew/crew.h"
#include "crew/halt.h"

#define LEASE span_seconds(15)
#define WAIT span_ms(500) /* for a job: how long a signal may have to wait */
#define LOOK_EVERY span_seconds(2)
#define PROBE_FIRST span_seconds(1)
#define PROBE_MOST span_seconds(30)
#define USER_AGENT "lazaret/" LAZARET_VERSION

struct sender {
    const struct sender_config *config;
    struct sender_counts *counts;
    struct loop *loop;
    struct halt halt;
    struct wire *wire;
    struct deliver deliver;
    struct crew *crew;
    bool *settled; /* by the number of the job */
    size_t left;
    struct span looked_at;
    enum status status; /* why it must not go on; STATUS_OK: it may */
    struct err err;
};

static void rested(void *ctx)
{
    struct sender *sender = ctx;
    loop_stop(sender->loop);
}

/* settle counts the end of a job, once. */
static void settle(struct sender *sender, struct slice job_id, size_t *count)
{
    const struct sender_config *config = sender->config;
    for (size_t i = 0; i < config->job_count; i++) {
        if (sender->settled[i] || !slice_eq(config->job_ids[i], job_id))
            continue;
        sender->settled[i] = true;
        sender->left--;
        (*count)++;
        if (config->unreached && count != &sender->counts->dead)
            config->unreached[i] = false;
    }
    crew_expect(sender->crew, sender->left);
    if (!sender->left)
        crew_drain(sender->crew, rested, sender);
}

static void reported(void *ctx, const struct crew_report *report)
{
    struct sender *sender = ctx;
    if (report->what == WATCH_SUCCEEDED)
        settle(sender, report->job_id, &sender->counts->delivered);
    else if (report->what == WATCH_QUARANTINED)
        settle(sender, report->job_id, &sender->counts->dead);
    else if (report->what == WATCH_CANCELLED)
        settle(sender, report->job_id, &sender->counts->cancelled);
}

/* unreached notes that nobody was there for a delivery. */
static void unreached(void *ctx, struct slice job_id)
{
    const struct sender_config *config = ((const struct sender *)ctx)->config;
    for (size_t i = 0; i < config->job_count; i++)
        if (slice_eq(config->job_ids[i], job_id))
            config->unreached[i] = true;
}

/* ---- ends that came elsewhere ---------------------------------------------------------------- */

/* tell_dead tells of a letter that was made elsewhere. */
static void tell_dead(const struct sender *sender, struct slice job_id, struct slice dlq_id)
{
    struct watch_event event = {.what = WATCH_QUARANTINED,
                                .job_id = job_id,
                                .dlq_id = dlq_id,
                                .message = SLICE("it was quarantined meanwhile")};
    sender->config->watch->event(sender->config->watch->ctx, &event);
}

static void look_at(struct sender *sender, struct slice job_id)
{
    struct arena arena = {0};
    struct buf answer;
    struct json job, state, letter = {0};
    struct err err;
    buf_init(&answer, (size_t)64 << 20);
    const char *path = link_path("/api/v1/jobs/", job_id, &arena);
    if (path &&
        !link_ask(sender->config->link, "GET", path, (struct slice){0}, &answer, &job, &err) &&
        json_get(job, "state", &state)) {
        if (json_string_is(state, "done"))
            settle(sender, job_id, &sender->counts->delivered);
        else if (json_string_is(state, "cancelled"))
            settle(sender, job_id, &sender->counts->cancelled);
        if (json_string_is(state, "dead")) {
            if (json_get(job, "dlq_id", &letter))
                tell_dead(sender, job_id, json_text(letter, &arena));
            settle(sender, job_id, &sender->counts->dead);
        }
    }
    buf_release(&answer);
    arena_release(&arena);
}

/* idle is called when no lease came: nothing else is going on, so it may wait for answers. */
static void idle(void *ctx)
{
    struct sender *sender = ctx;
    const struct sender_config *config = sender->config;
    struct span now = loop_now();
    if (now.us - sender->looked_at.us < LOOK_EVERY.us)
        return;
    for (size_t i = 0; i < config->job_count; i++)
        if (!sender->settled[i])
            look_at(sender, config->job_ids[i]);
    sender->looked_at = loop_now();
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void forbidden(void *ctx, enum status status, const struct err *err)
{
    struct sender *sender = ctx;
    if (!sender->status) {
        sender->status = status;
        sender->err = *err;
    }
    crew_drain(sender->crew, rested, sender);
    crew_stop(sender->crew, true);
    crew_quit(sender->crew);
}

static void asked_to_stop(struct halt *halt, int times)
{
    struct sender *sender = (struct sender *)((char *)halt - offsetof(struct sender, halt));
    sender->counts->stopped = true;
    crew_drain(sender->crew, rested, sender);
    crew_stop(sender->crew, true);
    crew_hurry(sender->crew);
    if (times > 1)
        crew_quit(sender->crew);
}

/* ---- running --------------------------------------------------------------------------------- */

static enum status open_crew(struct sender *sender, struct err *err)
{
    static const char *const capabilities[] = {DELIVERY_CAPABILITY};
    const struct sender_config *config = sender->config;
    struct crew_config crew = {.loop = sender->loop,
                               .link = config->link,
                               .watch = config->watch,
                               .craft = deliver_craft(&sender->deliver),
                               .worker_id = config->worker_id,
                               .capabilities = capabilities,
                               .capability_count = 1,
                               .job_ids = config->job_ids,
                               .job_id_count = config->job_count,
                               .parallel = config->parallel,
                               .alone = true,
                               .dead_is = WATCH_QUARANTINED,
                               .lease = LEASE,
                               .wait = WAIT,
                               .reported = reported,
                               .idle = idle,
                               .forbidden = forbidden,
                               .ctx = sender};
    return crew_open(&crew, &sender->crew, err);
}

static enum status open_parts(struct sender *sender, struct err *err)
{
    const struct sender_config *config = sender->config;
    enum status status = loop_open(&sender->loop, err);
    struct wire_config wire = {.loop = sender->loop,
                               .parallel = config->parallel,
                               .host_parallel = config->parallel,
                               .proxies = true,
                               .user_agent = USER_AGENT};
    sender->settled = mem_array(config->job_count, sizeof(*sender->settled));
    if (!status && !sender->settled)
        status = err_no_memory(err);
    if (!status)
        status = halt_open(&sender->halt, sender->loop, asked_to_stop, err);
    if (!status)
        status = wire_open(&wire, &sender->wire, err);
    sender->deliver = (struct deliver){.wire = sender->wire,
                                       .loop = sender->loop,
                                       .to = config->to,
                                       .seams = seams_real(),
                                       .agent = config->worker_id,
                                       .to_mcp = config->to_mcp,
                                       .unreached = config->unreached ? unreached : NULL,
                                       .ctx = sender};
    return status ? status : open_crew(sender, err);
}

enum status sender_run(const struct sender_config *config, struct sender_counts *counts,
                       struct err *err)
{
    struct sender sender = {.config = config,
                            .counts = counts,
                            .halt = {.watch = {.fd = -1}},
                            .left = config->job_count,
                            .looked_at = loop_now()};
    *counts = (struct sender_counts){0};
    enum status status = open_parts(&sender, err);
    if (!status) {
        crew_go(sender.crew);
        loop_run(sender.loop);
        status = sender.status;
        if (status)
            *err = sender.err;
        for (size_t i = 0; config->unreached && i < config->job_count; i++)
            config->unreached[i] = config->unreached[i] && sender.settled[i];
    }
    crew_close(sender.crew);
    wire_close(sender.wire);
    halt_close(&sender.halt);
    loop_close(sender.loop);
    mem_free(sender.settled);
    return status;
}

/* ---- looking whether somebody is there ------------------------------------------------------- */

struct probe {
    const struct watch *patience; /* NULL: one look */
    struct loop *loop;
    struct halt halt;
    struct wire *wire;
    struct wire_call call;
    struct loop_timer again;
    struct span rest; /* before the next look */
    bool told, under_way, stopped;
    enum status status;
    struct err *err;
};

static void probe_send(struct probe *probe)
{
    probe->under_way = wire_send(probe->wire, &probe->call);
    if (!probe->under_way) {
        probe->status = err_no_memory(probe->err);
        loop_stop(probe->loop);
    }
}

static void probe_again(struct loop_timer *timer)
{
    probe_send((struct probe *)((char *)timer - offsetof(struct probe, again)));
}

static void probed(struct wire_call *call)
{
    struct probe *probe = call->owner;
    probe->under_way = false;
    probe->status = STATUS_OK;
    if (call->outcome != WIRE_ANSWERED)
        probe->status = err_set(probe->err, STATUS_UNAVAILABLE, "%s", call->err.text);
    if (!probe->status || !probe->patience || probe->stopped) {
        loop_stop(probe->loop);
        return;
    }
    if (!probe->told)
        probe->patience->note(probe->patience->ctx, call->err.text);
    probe->told = true;
    loop_timer_set(probe->loop, &probe->again, probe->rest);
    probe->rest.us = probe->rest.us * 2 < PROBE_MOST.us ? probe->rest.us * 2 : PROBE_MOST.us;
}

static void probe_halted(struct halt *halt, int times)
{
    struct probe *probe = (struct probe *)((char *)halt - offsetof(struct probe, halt));
    (void)times;
    probe->stopped = true;
    if (probe->under_way)
        wire_cancel(probe->wire, &probe->call);
    else
        loop_stop(probe->loop);
}

enum status sender_probe(const struct target *to, const struct watch *patience, struct err *err)
{
    struct arena arena = {0};
    struct probe probe = {.patience = patience,
                          .halt = {.watch = {.fd = -1}},
                          .again = {.fire = probe_again},
                          .rest = PROBE_FIRST,
                          .err = err};
    wire_call_init(&probe.call);
    probe.call.url = arena_printf(&arena, "%.*s", SLICE_ARG(to->url)).ptr;
    probe.call.connect_only = true;
    probe.call.connect = to->connect;
    probe.call.whole = to->connect;
    probe.call.done = probed;
    probe.call.owner = &probe;
    enum status status = probe.call.url ? loop_open(&probe.loop, err) : err_no_memory(err);
    struct wire_config wire = {.loop = probe.loop, .proxies = true, .user_agent = USER_AGENT};
    if (!status)
        status = halt_open(&probe.halt, probe.loop, probe_halted, err);
    if (!status)
        status = wire_open(&wire, &probe.wire, err);
    if (!status) {
        probe_send(&probe);
        loop_run(probe.loop);
        status = probe.stopped ? err_set(err, STATUS_CONFLICT, "stopped") : probe.status;
        loop_timer_clear(probe.loop, &probe.again);
    }
    wire_close(probe.wire);
    wire_call_release(&probe.call);
    halt_close(&probe.halt);
    loop_close(probe.loop);
    arena_release(&arena);
    return status;
}
