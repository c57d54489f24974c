/* office: a thread that is in loop_run from open to close.
 *
 *     open --> [ leases, requests, reports ] --> drain: nothing new is taken
 *                                                  |-- at rest ------------> close
 *                                                  `-- `within` is over ---> cut off --> close
 *
 * Other threads post to the loop and wait for `rested`. */
#include "bridge/office.h"

#include <pthread.h>
#include <signal.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/seams.h"
#include "bridge/deliver.h"
#include "core/delivery.h"
#include "crew/crew.h"

#define PARALLEL 1000
#define HOST_PARALLEL 32
#define LEASE span_seconds(60)
#define WAIT span_ms(500)       /* for a job: how long a drain may have to wait for an idle crew */
#define CUT_OFF span_seconds(5) /* for what was cut off to be reported */
#define CLOSE span_ms(200)      /* what office_close gives to what is under way */
#define USER_AGENT "lazaret/" LAZARET_VERSION

struct office {
    struct link link;
    struct loop *loop;
    struct wire *wire;
    struct deliver deliver;
    struct watch watch;
    struct crew *crew;
    pthread_t thread;
    bool has_thread;
    struct loop_post drain, cut, stop;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool draining, rested;
};

/* ---- what a crew tells ----------------------------------------------------------------------- */

static void note(void *ctx, const char *sentence)
{
    (void)ctx;
    log_line(LOG_WARN, "deliveries: %s", sentence);
}

static void on_event(void *ctx, const struct watch_event *event)
{
    (void)ctx, (void)event; /* the audit has it */
}

static void on_counts(void *ctx, const struct watch_counts *counts)
{
    (void)ctx, (void)counts; /* the metrics have it */
}

static void on_rested(void *ctx)
{
    struct office *office = ctx;
    pthread_mutex_lock(&office->lock);
    office->rested = true;
    pthread_cond_broadcast(&office->changed);
    pthread_mutex_unlock(&office->lock);
}

/* ---- on the loop's thread -------------------------------------------------------------------- */

static void run_drain(struct loop_post *post)
{
    struct office *office = (struct office *)((char *)post - offsetof(struct office, drain));
    crew_drain(office->crew, on_rested, office);
}

static void run_cut(struct loop_post *post)
{
    struct office *office = (struct office *)((char *)post - offsetof(struct office, cut));
    crew_stop(office->crew, true);
    crew_hurry(office->crew);
}

static void run_stop(struct loop_post *post)
{
    struct office *office = (struct office *)((char *)post - offsetof(struct office, stop));
    loop_stop(office->loop);
}

static void *work(void *ctx)
{
    struct office *office = ctx;
    crew_go(office->crew);
    loop_run(office->loop);
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum status open_crew(struct office *office, const struct office_config *config,
                             unsigned parallel, struct err *err)
{
    static const char *const queues[] = {DELIVERY_QUEUE};
    static const char *const capabilities[] = {DELIVERY_CAPABILITY};
    struct crew_config crew = {.loop = office->loop,
                               .link = &office->link,
                               .watch = &office->watch,
                               .craft = deliver_craft(&office->deliver),
                               .worker_id = config->worker_id,
                               .queues = queues,
                               .queue_count = 1,
                               .capabilities = capabilities,
                               .capability_count = 1,
                               .parallel = parallel,
                               .dead_is = WATCH_QUARANTINED,
                               .lease = LEASE,
                               .wait = WAIT};
    return crew_open(&crew, &office->crew, err);
}

/* start begins the thread with every signal blocked: they are the program's business. */
static enum status start(struct office *office, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    office->has_thread = pthread_create(&office->thread, NULL, work, office) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (office->has_thread)
        return STATUS_OK;
    return err_set(err, STATUS_LIMIT, "a thread cannot be started: too many are running");
}

enum status office_open(const struct office_config *config, struct office **out, struct err *err)
{
    struct office *office = mem_zalloc(sizeof(*office));
    unsigned parallel = config->parallel ? config->parallel : PARALLEL;
    if (!office)
        return err_no_memory(err);
    office->link = *config->link;
    office->watch = (struct watch){.event = on_event, .counts = on_counts, .note = note};
    office->drain.run = run_drain;
    office->cut.run = run_cut;
    office->stop.run = run_stop;
    pthread_mutex_init(&office->lock, NULL);
    pthread_cond_init(&office->changed, NULL);
    enum status status = crew_cut_off(config->link, config->worker_id,
                                      "the server ended while the delivery was under way", err);
    if (!status)
        status = loop_open(&office->loop, err);
    struct wire_config wire = {.loop = office->loop,
                               .parallel = parallel,
                               .host_parallel =
                                   config->host_parallel ? config->host_parallel : HOST_PARALLEL,
                               .user_agent = USER_AGENT};
    if (!status)
        status = wire_open(&wire, &office->wire, err);
    office->deliver = (struct deliver){.wire = office->wire,
                                       .loop = office->loop,
                                       .targets = config->targets,
                                       .seams = seams_real(),
                                       .agent = config->worker_id};
    if (!status)
        status = open_crew(office, config, parallel, err);
    if (!status)
        status = start(office, err);
    if (status) {
        office_close(office);
        return status;
    }
    *out = office;
    return STATUS_OK;
}

/* ---- from outside ---------------------------------------------------------------------------- */

/* wait_for_rest returns when the crew is at rest, or the time is over. */
static bool wait_for_rest(struct office *office, struct span within)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + within.us % 1000000 * 1000;
    until.tv_sec += within.us / 1000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&office->lock);
    int error = 0;
    while (!office->rested && !error)
        error = pthread_cond_timedwait(&office->changed, &office->lock, &until);
    bool rested = office->rested;
    pthread_mutex_unlock(&office->lock);
    return rested;
}

void office_drain(struct office *office, struct span within)
{
    if (office->draining)
        return;
    office->draining = true;
    loop_post(office->loop, &office->drain);
    if (wait_for_rest(office, within))
        return;
    loop_post(office->loop, &office->cut);
    if (!wait_for_rest(office, CUT_OFF))
        log_line(LOG_WARN, "deliveries: what was under way could not be reported: it is sent again "
                           "when its leases end");
}

void office_close(struct office *office)
{
    if (!office)
        return;
    if (office->has_thread) {
        office_drain(office, CLOSE);
        loop_post(office->loop, &office->stop);
        pthread_join(office->thread, NULL);
    }
    crew_close(office->crew);
    wire_close(office->wire);
    loop_close(office->loop);
    pthread_cond_destroy(&office->changed);
    pthread_mutex_destroy(&office->lock);
    mem_free(office);
}
