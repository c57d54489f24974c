/* connection: three carriers of requests, and the way from one to the next; see connection.h.
 *
 *     nobody --attach--> this process        until the end: an owner stays one
 *        ^   --attach--> the owner's socket
 *        |                   | it went away, or was never there
 *        +-------lose--------+
 *
 * A lock that is taken and a socket where nobody answers is an owner that begins or ends, or a
 * program that embeds the library without a socket: both are tried in turns until the time is over.
 * A server that is named by its URL is never replaced. */
#include "cli/connection.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "api/owner.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/seams.h"
#include "cli/remote.h"
#include "cli/repeat.h"

#define PAUSE_MS 10     /* the first pause; each is twice the one before */
#define PAUSE_MS_MAX 80 /* up to this */
#define IDLE_MAX 8      /* carriers that are kept for the next request */

/* struct connection: several threads may ask at once.  Each uses a remote of its own; those that
 * are not in use wait in `idle`. */
struct connection {
    struct connection_target target;
    pthread_mutex_t lock; /* guards what follows; it is not held while anybody is asked */
    struct owner *owner;  /* this process is the owner; NULL: it is not */
    struct remote *idle[IDLE_MAX];
    size_t idle_count;
    struct err busy; /* who has the directory, when remotes are its owner's socket */
};

/* ---- carriers ---------------------------------------------------------------------------------
 */

/* own makes this process the owner.  The owner's threads take no signal: those are for the thread
 * that runs the command. */
static enum status own(struct connection *connection, struct err *err)
{
    const struct config *config = connection->target.config;
    struct owner_config owner = {
        .station = {.data = connection->target.data,
                    .engine = {.live_max = (size_t)config->live_jobs_max,
                               .retention = {.done = config->keep_done,
                                             .recovered = config->keep_recovered,
                                             .discarded = config->keep_discarded}}}};
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum status status = owner_open(&owner, &connection->owner, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static enum status open_socket(struct connection *connection, struct remote **out, struct err *err)
{
    struct remote_config remote = {0};
    struct buf path;

    buf_init(&path, 4096);
    enum status status = owner_socket_path(connection->target.data, &path, err);
    remote.socket = buf_str(&path);
    remote.connect_timeout_ms = connection->target.config->lock_wait_ms;
    if (status == STATUS_OK)
        status = remote_open(&remote, out, err);
    buf_release(&path);
    return status;
}

static enum status open_server(struct connection *connection, struct remote **out, struct err *err)
{
    struct remote_config remote = {.url = connection->target.server,
                                   .token = connection->target.token};
    return remote_open(&remote, out, err);
}

/* find finds a carrier: this process if it can be (`*out` is NULL then), else somebody else.  With
 * the lock held. */
static enum status find(struct connection *connection, struct remote **out, struct err *err)
{
    *out = NULL;
    if (connection->owner)
        return STATUS_OK;
    if (connection->idle_count > 0) {
        *out = connection->idle[--connection->idle_count];
        return STATUS_OK;
    }
    if (connection->target.server)
        return open_server(connection, out, err);
    enum status status = own(connection, &connection->busy);
    if (status == STATUS_BUSY)
        return open_socket(connection, out, err);
    if (status != STATUS_OK)
        *err = connection->busy;
    return status;
}

static enum status attach(struct connection *connection, struct remote **out, struct err *err)
{
    pthread_mutex_lock(&connection->lock);
    enum status status = find(connection, out, err);
    pthread_mutex_unlock(&connection->lock);
    return status;
}

/* keep puts a remote that answered aside for the next request. */
static void keep(struct connection *connection, struct remote *remote)
{
    pthread_mutex_lock(&connection->lock);
    if (connection->idle_count < IDLE_MAX) {
        connection->idle[connection->idle_count++] = remote;
        remote = NULL;
    }
    pthread_mutex_unlock(&connection->lock);
    remote_close(remote);
}

/* lose forgets an owner that does not answer, and whoever else was to ask it. */
static void lose(struct connection *connection, struct remote *remote)
{
    remote_close(remote);
    pthread_mutex_lock(&connection->lock);
    while (connection->idle_count > 0)
        remote_close(connection->idle[--connection->idle_count]);
    pthread_mutex_unlock(&connection->lock);
}

enum status connection_open(const struct connection_target *target, struct connection **out,
                            struct err *err)
{
    struct connection *connection = mem_zalloc(sizeof *connection);
    enum status status = STATUS_OK;

    if (!connection)
        return err_no_memory(err);
    connection->target = *target;
    pthread_mutex_init(&connection->lock, NULL);
    if (target->server) {
        status = open_server(connection, &connection->idle[0], err);
        connection->idle_count = status == STATUS_OK;
    }
    if (status != STATUS_OK) {
        connection_close(connection);
        return status;
    }
    *out = connection;
    return STATUS_OK;
}

void connection_close(struct connection *connection)
{
    if (!connection)
        return;
    lose(connection, NULL);
    owner_close(connection->owner);
    pthread_mutex_destroy(&connection->lock);
    mem_free(connection);
}

/* ---- one request ------------------------------------------------------------------------------
 */

/* struct sending: a request on its way, perhaps more than once. */
struct sending {
    struct connection *connection;
    const struct api_request *request;
    struct api_answer *answer;
    struct span deadline; /* on the steady clock: for finding somebody who answers */
    bool sent;            /* it may have been carried out before */
    bool waits;           /* somebody may answer yet */
};

/* turned_away says that the owner did not take the request on: it is about to end, or has too much
 * to do. */
static bool turned_away(const struct api_answer *answer)
{
    struct json value, code;
    return answer->status == 503 && answer->retry_after_s > 0 &&
           json_parse(buf_slice(&answer->body), &value, NULL) == STATUS_OK &&
           json_get(value, "code", &code) && json_string_is(code, "unavailable");
}

/* not_known is for a request that may have been carried out and must not be sent again. */
static enum status not_known(struct err *err)
{
    struct err why = *err;
    return err_set(err, STATUS_UNAVAILABLE,
                   "%s; whether it did what was asked is not known: look, for example with "
                   "\"lazaret audit show\", before you ask again",
                   why.text);
}

/* try_remote asks the owner or the server once. */
static enum status try_remote(struct sending *s, struct remote *remote, struct err *err)
{
    struct connection *connection = s->connection;
    bool server = connection->target.server != NULL;
    enum remote_outcome outcome = remote_call(remote, s->request, s->answer, err);

    s->waits = false;
    if (outcome == REMOTE_ANSWERED)
        s->waits = !server && turned_away(s->answer);
    if (server || (outcome == REMOTE_ANSWERED && !s->waits))
        keep(connection, remote);
    else
        lose(connection, remote);
    switch (outcome) {
    case REMOTE_ANSWERED:
        return STATUS_OK;
    case REMOTE_REFUSED:
        return STATUS_UNAVAILABLE;
    case REMOTE_UNSENT:
        s->waits = !server || s->sent;
        break;
    case REMOTE_UNKNOWN:
        if (!repeat_safe(s->request))
            return not_known(err);
        s->sent = true;
        s->waits = true;
        break;
    }
    if (server)
        return STATUS_UNAVAILABLE;
    pthread_mutex_lock(&connection->lock);
    *err = connection->busy;
    pthread_mutex_unlock(&connection->lock);
    return STATUS_BUSY;
}

/* try_once finds a carrier and asks it. */
static enum status try_once(struct sending *s, struct err *err)
{
    struct remote *remote;
    enum status status = attach(s->connection, &remote, err);

    s->waits = false;
    if (status != STATUS_OK)
        return status;
    if (remote)
        return try_remote(s, remote, err);
    api_call(owner_api(s->connection->owner), s->request, s->answer);
    return STATUS_OK;
}

enum status connection_call(struct connection *connection, const struct api_request *request,
                            struct api_answer *answer, struct err *err)
{
    const struct seams *world = seams_real();
    struct span limit = span_ms(connection->target.config->lock_wait_ms);
    struct sending s = {.connection = connection,
                        .request = request,
                        .answer = answer,
                        .deadline = {world->steady(world->ctx).us + limit.us}};
    enum status status = try_once(&s, err);

    for (long pause_ms = PAUSE_MS; s.waits && world->steady(world->ctx).us < s.deadline.us;) {
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
        pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms * 2 : pause_ms;
        status = try_once(&s, err);
    }
    if (!s.sent)
        return status;
    if (status == STATUS_OK)
        return repeat_settle(request, answer, err);
    return strcmp(request->method, "GET") == 0 ? status : not_known(err);
}
