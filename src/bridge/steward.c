/* steward: see steward.h. */
#include "bridge/steward.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/mem.h"
#include "bridge/clerk.h"
#include "bridge/scanner.h"

struct steward {
    struct seat seat;
    char *server, *slack, *webhook; /* copies */
    bool has_alerts, has_scanner, has_clerk;
    struct alerts alerts;
    struct scanner scanner;
    struct clerk clerk;
    pthread_t thread;
    bool has_thread;
    atomic_bool ended;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* `poked` or `ended` was set */
    bool poked;          /* guarded by the lock */
};

/* ---- the thread ------------------------------------------------------------------------------ */

/* rest waits until it is time, or somebody pokes.  False: it is to end. */
static bool rest(struct steward *steward, struct span until)
{
    int64_t us = until.us - seat_now(&steward->seat).us;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    us = us < 0 ? 0 : us;
    int64_t ns = t.tv_nsec + us % 1000000 * 1000;
    t.tv_sec += us / 1000000 + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&steward->lock);
    int error = 0;
    while (!steward->poked && !atomic_load(&steward->ended) && !error)
        error = pthread_cond_timedwait(&steward->wake, &steward->lock, &t);
    steward->poked = false;
    pthread_mutex_unlock(&steward->lock);
    return !atomic_load(&steward->ended);
}

static struct span sooner(struct span a, struct span b)
{
    return a.us < b.us ? a : b;
}

/* look does what is to be done, and says when there is more. */
static struct span look(struct steward *steward)
{
    struct span next = {seat_now(&steward->seat).us + span_seconds(3600).us};
    if (steward->has_clerk)
        next = sooner(next, clerk_run(&steward->clerk));
    if (steward->has_alerts && !atomic_load(&steward->ended))
        next = sooner(next, alerts_run(&steward->alerts));
    if (steward->has_scanner && !atomic_load(&steward->ended))
        next = sooner(next, scanner_run(&steward->scanner));
    return next;
}

static void *work(void *ctx)
{
    struct steward *steward = ctx;
    while (rest(steward, look(steward)))
        ;
    if (steward->has_alerts)
        alerts_leave(&steward->alerts);
    if (steward->has_scanner)
        scanner_leave(&steward->scanner);
    return NULL;
}

/* start begins the thread with every signal blocked: they are the program's business. */
static enum status start(struct steward *steward, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    steward->has_thread = pthread_create(&steward->thread, NULL, work, steward) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (steward->has_thread)
        return STATUS_OK;
    return err_set(err, STATUS_LIMIT, "a thread cannot be started: too many are running");
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool copy(char **to, const char *from)
{
    *to = from ? mem_strdup(from) : NULL;
    return !from || *to;
}

static enum status set_up(struct steward *steward, const struct steward_config *config,
                          struct err *err)
{
    struct alerts_config alerts = config->alerts;
    if (!copy(&steward->server, config->server) || !copy(&steward->slack, alerts.slack) ||
        !copy(&steward->webhook, alerts.webhook))
        return err_no_memory(err);
    alerts.slack = steward->slack;
    alerts.webhook = steward->webhook;
    steward->seat = (struct seat){.engine = config->engine,
                                  .call = engine_call,
                                  .seams = config->seams ? config->seams : seams_real(),
                                  .server = slice_of(steward->server),
                                  .ended = &steward->ended};
    steward->has_clerk = config->has_inbox;
    if (steward->has_clerk)
        clerk_init(&steward->clerk, &steward->seat);
    steward->has_scanner = config->scan_interval.us > 0;
    if (steward->has_scanner)
        scanner_init(&steward->scanner, &steward->seat, config->scan_interval);
    steward->has_alerts = alerts.slack || alerts.webhook || alerts.publish;
    return steward->has_alerts ? alerts_init(&steward->alerts, &steward->seat, &alerts, err)
                               : STATUS_OK;
}

enum status steward_open(const struct steward_config *config, struct steward **out, struct err *err)
{
    struct steward *steward = mem_zalloc(sizeof(*steward));
    pthread_condattr_t steady;
    if (!steward)
        return err_no_memory(err);
    pthread_mutex_init(&steward->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&steward->wake, &steady);
    pthread_condattr_destroy(&steady);
    enum status status = set_up(steward, config, err);
    if (!status && (steward->has_clerk || steward->has_alerts || steward->has_scanner))
        status = start(steward, err);
    if (status) {
        steward_close(steward);
        return status;
    }
    *out = steward;
    return STATUS_OK;
}

void steward_poke(struct steward *steward)
{
    pthread_mutex_lock(&steward->lock);
    steward->poked = true;
    pthread_cond_signal(&steward->wake);
    pthread_mutex_unlock(&steward->lock);
}

void steward_close(struct steward *steward)
{
    if (!steward)
        return;
    if (steward->has_thread) {
        pthread_mutex_lock(&steward->lock);
        atomic_store(&steward->ended, true);
        pthread_cond_signal(&steward->wake);
        pthread_mutex_unlock(&steward->lock);
        pthread_join(steward->thread, NULL);
    }
    if (steward->has_alerts)
        alerts_release(&steward->alerts);
    pthread_cond_destroy(&steward->wake);
    pthread_mutex_destroy(&steward->lock);
    mem_free(steward->server);
    mem_free(steward->slack);
    mem_free(steward->webhook);
    mem_free(steward);
}

void steward_counts(struct steward *steward, struct steward_counts *out)
{
    *out = (struct steward_counts){0};
    if (!steward)
        return;
    struct scanner_counts *scanner = &steward->scanner.counts;
    struct alerts_counts *alerts = &steward->alerts.counts;
    struct clerk_counts *clerk = &steward->clerk.counts;
    *out = (struct steward_counts){.scans = atomic_load(&scanner->scans),
                                   .replayed = atomic_load(&scanner->replayed),
                                   .refused = atomic_load(&scanner->refused),
                                   .left = atomic_load(&scanner->left),
                                   .alerts_slack = atomic_load(&alerts->slack),
                                   .alerts_webhook = atomic_load(&alerts->webhook),
                                   .alerts_nats = atomic_load(&alerts->nats),
                                   .alerts_firsts = atomic_load(&alerts->firsts),
                                   .alerts_digested = atomic_load(&alerts->digested),
                                   .alerts_suppressed = atomic_load(&alerts->suppressed),
                                   .alerts_failed = atomic_load(&alerts->failed),
                                   .inbox_imported = atomic_load(&clerk->imported),
                                   .inbox_malformed = atomic_load(&clerk->malformed),
                                   .inbox_settled = atomic_load(&clerk->settled),
                                   .inbox_ignored = atomic_load(&clerk->ignored)};
}
