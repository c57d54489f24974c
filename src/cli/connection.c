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

#include <time.h>

#include "api/owner.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/seams.h"
#include "cli/remote.h"
#include "cli/repeat.h"

#define PAUSE_MS 10     /* the first pause; each is twice the one before */
#define PAUSE_MS_MAX 80 /* up to this */

struct connection {
    struct connection_target target;
    struct owner *owner;   /* this process is the owner; NULL: it is not */
    struct remote *remote; /* somebody else carries requests out; NULL: nobody is known */
    struct err busy;       /* who has the directory, when `remote` is its owner's socket */
};

/* ---- carriers ---------------------------------------------------------------------------------
 */

static enum status own(struct connection *connection, struct err *err)
{
    const struct config *config = connection->target.config;
    struct owner_config owner = {
        .station = {.data = connection->target.data,
                    .engine = {.live_max = (size_t)config->live_jobs_max,
                               .retention = {.done = config->keep_done,
                                             .recovered = config->keep_recovered,
                                             .discarded = config->keep_discarded}}}};
    return owner_open(&owner, &connection->owner, err);
}

static enum status open_socket(struct connection *connection, struct err *err)
{
    struct remote_config remote = {0};
    struct buf path;

    buf_init(&path, 4096);
    enum status status = owner_socket_path(connection->target.data, &path, err);
    remote.socket = buf_str(&path);
    remote.connect_timeout_ms = connection->target.config->lock_wait_ms;
    if (status == STATUS_OK)
        status = remote_open(&remote, &connection->remote, err);
    buf_release(&path);
    return status;
}

/* attach finds a carrier where there is none: this process if it can be, else the owner. */
static enum status attach(struct connection *connection, struct err *err)
{
    if (connection->owner || connection->remote)
        return STATUS_OK;
    enum status status = own(connection, &connection->busy);
    if (status == STATUS_BUSY)
        return open_socket(connection, err);
    if (status != STATUS_OK)
        *err = connection->busy;
    return status;
}

/* lose forgets an owner that does not answer. */
static void lose(struct connection *connection)
{
    remote_close(connection->remote);
    connection->remote = NULL;
}

enum status connection_open(const struct connection_target *target, struct connection **out,
                            struct err *err)
{
    struct connection *connection = mem_zalloc(sizeof *connection);
    enum status status = STATUS_OK;

    if (!connection)
        return err_no_memory(err);
    connection->target = *target;
    if (target->server) {
        struct remote_config remote = {.url = target->server, .token = target->token};
        status = remote_open(&remote, &connection->remote, err);
    }
    if (status != STATUS_OK) {
        mem_free(connection);
        return status;
    }
    *out = connection;
    return STATUS_OK;
}

void connection_close(struct connection *connection)
{
    if (!connection)
        return;
    remote_close(connection->remote);
    owner_close(connection->owner);
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
static enum status try_remote(struct sending *s, struct err *err)
{
    struct connection *connection = s->connection;
    bool server = connection->target.server != NULL;

    switch (remote_call(connection->remote, s->request, s->answer, err)) {
    case REMOTE_ANSWERED:
        s->waits = !server && turned_away(s->answer);
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
    if (!server)
        *err = connection->busy;
    return server ? STATUS_UNAVAILABLE : STATUS_BUSY;
}

/* try_once finds a carrier and asks it. */
static enum status try_once(struct sending *s, struct err *err)
{
    struct connection *connection = s->connection;
    enum status status = attach(connection, err);

    s->waits = false;
    if (status != STATUS_OK)
        return status;
    if (connection->remote)
        return try_remote(s, err);
    api_call(owner_api(connection->owner), s->request, s->answer);
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
        if (!connection->target.server)
            lose(connection);
        status = try_once(&s, err);
    }
    if (!s.sent)
        return status;
    if (status == STATUS_OK)
        return repeat_settle(request, answer, err);
    return strcmp(request->method, "GET") == 0 ? status : not_known(err);
}
