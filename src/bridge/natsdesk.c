/* natsdesk: thread, connection, log. */
#include "bridge/natsdesk.h"

#include <signal.h>
#include <time.h>

#include "base/log.h"

#define AWAY_MS 1000  /* between looks at a connection that is away */
#define RENEW_MS 5000 /* between attempts at one that was given up */

bool natsdesk_stopping(struct natsdesk *desk)
{
    pthread_mutex_lock(&desk->lock);
    bool stopping = desk->stopping;
    pthread_mutex_unlock(&desk->lock);
    return stopping;
}

bool natsdesk_rest(struct natsdesk *desk, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&desk->lock);
    while (!desk->stopping && pthread_cond_timedwait(&desk->woken, &desk->lock, &until) == 0)
        ;
    bool stopping = desk->stopping;
    pthread_mutex_unlock(&desk->lock);
    return stopping;
}

void natsdesk_trouble(struct natsdesk *desk, const struct err *err)
{
    if (strcmp(desk->said.text, err->text) != 0)
        log_line(LOG_ERROR, "NATS %s: %s", desk->name, err->text);
    desk->said = *err;
}

void natsdesk_fine(struct natsdesk *desk)
{
    if (desk->said.text[0])
        log_line(LOG_INFO, "NATS %s: all is well again", desk->name);
    desk->said.text[0] = '\0';
}

int64_t natsdesk_steady_us(void)
{
    const struct seams *world = seams_real();
    return world->steady(world->ctx).us;
}

enum status natsdesk_call(struct natsdesk *desk, struct command *command, enum command_kind kind,
                          struct arena *arena)
{
    command->kind = kind;
    command->actor = SLICE("nats");
    command->arena = arena;
    command->err = (struct err){0};
    return engine_call(desk->engine, command);
}

/* ---- the connection -------------------------------------------------------------------------- */

static void on_connected(void *ctx)
{
    struct natsdesk *desk = ctx;
    atomic_fetch_add(&desk->tally->reconnects, 1);
    if (desk->linked)
        desk->linked(desk, true);
    log_line(LOG_INFO, "NATS %s: connected", desk->name);
    pthread_mutex_lock(&desk->lock);
    pthread_cond_broadcast(&desk->woken);
    pthread_mutex_unlock(&desk->lock);
}

static void on_disconnected(void *ctx)
{
    struct natsdesk *desk = ctx;
    if (desk->linked)
        desk->linked(desk, false);
    log_line(LOG_WARN, "NATS %s: the connection is gone; trying again", desk->name);
}

/* renew makes another connection in place of one that libnats gave up. */
static void renew(struct natsdesk *desk)
{
    struct err err = {0};
    if (desk->leave)
        desk->leave(desk);
    pthread_mutex_lock(&desk->link_lock);
    enum status status = natslink_renew(desk->link, &err);
    bool connected = status == STATUS_OK && natslink_connected(desk->link);
    pthread_mutex_unlock(&desk->link_lock);
    if (status != STATUS_OK) {
        natsdesk_trouble(desk, &err);
        natsdesk_rest(desk, RENEW_MS);
    } else if (connected) {
        natsdesk_fine(desk);
        on_connected(desk);
    }
}

static void *run(void *ctx)
{
    struct natsdesk *desk = ctx;
    while (!natsdesk_stopping(desk)) {
        if (natslink_connected(desk->link))
            desk->work(desk);
        else if (natslink_lost(desk->link))
            renew(desk);
        else
            natslink_wait(desk->link, AWAY_MS);
    }
    if (desk->leave)
        desk->leave(desk);
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static enum status open_link(struct natsdesk *desk, struct err *err)
{
    struct natslink_options options = desk->config->nats;
    char name[128];
    snprintf(name, sizeof(name), "%.60s %s", options.name ? options.name : "lazaret", desk->name);
    options.name = name;
    options.connected = on_connected;
    options.disconnected = on_disconnected;
    options.lost = on_disconnected;
    options.ctx = desk;
    enum status status = natslink_open(&options, true, &desk->link, err);
    if (status != STATUS_OK)
        return status;
    if (!natslink_connected(desk->link))
        log_line(LOG_WARN, "NATS %s: no server answers at %s; trying again", desk->name,
                 natslink_place(desk->link));
    else if (desk->linked)
        desk->linked(desk, true);
    return STATUS_OK;
}

/* start_thread leaves the signals to the program's own threads. */
static enum status start_thread(struct natsdesk *desk, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    desk->has_thread = pthread_create(&desk->thread, NULL, run, desk) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return desk->has_thread ? STATUS_OK
                            : err_set(err, STATUS_NO_MEMORY,
                                      "NATS %s: the thread cannot be started", desk->name);
}

enum status natsdesk_open(struct natsdesk *desk, struct err *err)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&desk->woken, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&desk->lock, NULL);
    pthread_mutex_init(&desk->link_lock, NULL);
    enum status status = open_link(desk, err);
    return status ? status : start_thread(desk, err);
}

void natsdesk_stop(struct natsdesk *desk)
{
    pthread_mutex_lock(&desk->lock);
    desk->stopping = true;
    pthread_cond_broadcast(&desk->woken);
    pthread_mutex_unlock(&desk->lock);
}

void natsdesk_close(struct natsdesk *desk)
{
    if (!desk->name)
        return;
    natsdesk_stop(desk);
    if (desk->has_thread)
        pthread_join(desk->thread, NULL);
    natslink_close(desk->link);
    if (desk->linked)
        desk->linked(desk, false);
    pthread_mutex_destroy(&desk->link_lock);
    pthread_mutex_destroy(&desk->lock);
    pthread_cond_destroy(&desk->woken);
}
