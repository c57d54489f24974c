/* postgres_listen: a thread that hears of the commits of others.
 *
 *     away --connected--> listening --notified--> listening (woken, at once or a little later)
 *      ^                      |
 *      `---- lost, or silent when it is asked whether it is there
 *
 * It has a connection of its own and touches nothing of the store: it only wakes whoever looks.
 * Many commits close together are one waking: the first wakes at once, those after it are
 * gathered.  After a reconnect it wakes too, as it cannot know what it missed.  Behind a pooler
 * nothing can be heard: it wakes once a second. */
#include "store/postgres.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define RETRY_MS_MIN 100
#define RETRY_MS_MAX 5000
#define GATHER_READY_MS 20  /* between wakings for jobs that may be ready */
#define GATHER_OTHER_MS 200 /* for anything else */
#define QUIET_MS 15000      /* after which the server is asked whether it is there */
#define ANSWER_MS 10000     /* that it has to say so */
#define POOLED_MS 1000      /* between wakings behind a pooler */
#define FOREVER INT64_MAX

struct pg_listener {
    pthread_t thread;
    int stop; /* an eventfd: readable when it is time to end */
    char *url;
    char where[160];
    uint64_t server; /* what this server's own notifications begin with */
    bool pooled;
    const struct seams *seams;
    void (*woken)(void *ctx);
    void *ctx;

    PGconn *link;
    bool asked;       /* a statement is on its way */
    int64_t heard_us; /* steady */
    int64_t woken_us;
    int64_t wake_us; /* when to wake; FOREVER: nothing is waiting */
};

static int64_t now_us(const struct pg_listener *listener)
{
    return listener->seams->steady(listener->seams->ctx).us;
}

/* wake_by has the listener wake no later than `ms` after it last did. */
static void wake_by(struct pg_listener *listener, int64_t ms)
{
    int64_t at = listener->woken_us + ms * 1000;
    if (at < listener->wake_us)
        listener->wake_us = at;
}

static void wake_if_time(struct pg_listener *listener)
{
    int64_t now = now_us(listener);
    if (now < listener->wake_us)
        return;
    listener->wake_us = FOREVER;
    listener->woken_us = now;
    listener->woken(listener->ctx);
}

/* -- what is heard ----------------------------------------------------------------------------- */

/* commit_heard reads "SERVER TURN READY", as postgres_turn.c writes it. */
static void commit_heard(struct pg_listener *listener, const char *text)
{
    unsigned long long server = 0;
    long long turn = 0;
    int ready = 1;
    bool understood = sscanf(text, "%16llx %lld %d", &server, &turn, &ready) == 3;
    if (understood && server == listener->server)
        return;
    wake_by(listener, ready ? GATHER_READY_MS : GATHER_OTHER_MS);
}

/* take_all takes what has come: answers are only signs of life.  False when the link is lost. */
static bool take_all(struct pg_listener *listener)
{
    PGnotify *notify;
    if (!PQconsumeInput(listener->link))
        return false;
    listener->heard_us = now_us(listener);
    while (listener->asked && !PQisBusy(listener->link)) {
        PGresult *result = PQgetResult(listener->link);
        ExecStatusType kind = PQresultStatus(result);
        listener->asked = result != NULL;
        PQclear(result);
        if (listener->asked && kind != PGRES_COMMAND_OK && kind != PGRES_TUPLES_OK)
            return false;
    }
    while ((notify = PQnotifies(listener->link))) {
        commit_heard(listener, notify->extra);
        PQfreemem(notify);
    }
    return PQstatus(listener->link) == CONNECTION_OK;
}

/* -- the thread -------------------------------------------------------------------------------- */

/* stopped waits up to `ms` for the end. */
static bool stopped(const struct pg_listener *listener, int ms)
{
    struct pollfd stop = {listener->stop, POLLIN, 0};
    return poll(&stop, 1, ms) > 0;
}

static bool ask(struct pg_listener *listener, const char *text)
{
    listener->asked = PQsendQuery(listener->link, text) == 1;
    return listener->asked;
}

/* wait_ms is how long nothing has to be done; below 0: the server has been silent for too long. */
static int64_t wait_ms(const struct pg_listener *listener)
{
    int64_t now = now_us(listener);
    int64_t patience = (listener->asked ? ANSWER_MS : QUIET_MS) * INT64_C(1000);
    int64_t left = listener->heard_us + patience - now;
    if (left <= 0 && listener->asked)
        return -1;
    int64_t until = listener->wake_us < now + left ? listener->wake_us - now : left;
    return until > 0 ? until / 1000 + 1 : 0;
}

/* hear listens until the link is lost (true) or it is time to end (false). */
static bool hear(struct pg_listener *listener)
{
    for (;;) {
        int64_t ms = wait_ms(listener);
        if (ms < 0)
            return true;
        int unsent = PQflush(listener->link);
        if (unsent < 0)
            return true;
        struct pollfd fds[2] = {
            {listener->stop, POLLIN, 0},
            {PQsocket(listener->link), (short)(POLLIN | (unsent ? POLLOUT : 0)), 0},
        };
        if (poll(fds, 2, (int)ms) < 0 && errno != EINTR)
            return true;
        if (fds[0].revents)
            return false;
        if ((fds[1].revents & ~POLLOUT) && !take_all(listener))
            return true;
        wake_if_time(listener);
        bool quiet = now_us(listener) - listener->heard_us >= QUIET_MS * INT64_C(1000);
        if (quiet && !listener->asked) {
            listener->heard_us = now_us(listener);
            if (!ask(listener, "SELECT 1"))
                return true;
        }
    }
}

/* attend makes the connection and listens while it lasts; false when it is time to end. */
static bool attend(struct pg_listener *listener, bool *was_there)
{
    char reason[160];
    *was_there = false;
    listener->link = pg_dial(listener->url, "2", reason, sizeof(reason));
    if (!listener->link)
        return true;
    bool go_on = true;
    listener->heard_us = now_us(listener);
    if (PQsetnonblocking(listener->link, 1) == 0 && ask(listener, "LISTEN lazaret")) {
        *was_there = true;
        wake_by(listener, 0);
        go_on = hear(listener);
    }
    PQfinish(listener->link);
    listener->link = NULL;
    listener->asked = false;
    return go_on;
}

static void *listen_main(void *arg)
{
    struct pg_listener *listener = arg;
    int ms = RETRY_MS_MIN;
    bool was_there;
    while (listener->pooled && !stopped(listener, POOLED_MS))
        listener->woken(listener->ctx);
    if (listener->pooled)
        return NULL;
    while (attend(listener, &was_there)) {
        ms = was_there ? RETRY_MS_MIN : ms;
        if (stopped(listener, ms))
            break;
        ms = ms * 2 < RETRY_MS_MAX ? ms * 2 : RETRY_MS_MAX;
    }
    return NULL;
}

/* -- starting and stopping --------------------------------------------------------------------- */

static void listener_free(struct pg_listener *listener)
{
    if (listener->stop >= 0)
        close(listener->stop);
    mem_free(listener->url);
    mem_free(listener);
}

/* thread_start starts the thread with all signals left to others. */
static bool thread_start(struct pg_listener *listener)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&listener->thread, NULL, listen_main, listener);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

struct pg_listener *pg_listener_start(const struct postgres_store *s, void (*woken)(void *ctx),
                                      void *ctx)
{
    struct pg_listener *listener = mem_zalloc(sizeof(*listener));
    if (!listener)
        return NULL;
    listener->stop = eventfd(0, EFD_CLOEXEC);
    listener->url = mem_strdup(s->url);
    memcpy(listener->where, s->where, sizeof(listener->where));
    listener->server = s->server;
    listener->pooled = s->pooled;
    listener->seams = s->seams;
    listener->woken = woken;
    listener->ctx = ctx;
    listener->wake_us = FOREVER;
    if (listener->stop >= 0 && listener->url && thread_start(listener))
        return listener;
    log_line(LOG_WARN,
             "PostgreSQL at %s: what other servers do is only looked for once a second: "
             "the thread that listens could not be started",
             listener->where);
    listener_free(listener);
    return NULL;
}

void pg_listener_stop(struct pg_listener *listener)
{
    const uint64_t one = 1;
    if (!listener)
        return;
    while (write(listener->stop, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    pthread_join(listener->thread, NULL);
    listener_free(listener);
}
