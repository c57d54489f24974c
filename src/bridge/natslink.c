/* natslink: options for libnats, its callbacks, and its troubles as sentences.
 *
 *     open --> connected <--> connecting again (libnats, for ever)
 *       `---------^  `-----------^  `--> lost (refused twice) --> natslink_renew --> ...
 *      patient: connecting
 *
 * A first connect is made without libnats' own retry: with it, refused credentials would look like
 * a server that is away.  Only when no server was reached, and the caller is patient, a second
 * connect with the retry follows. */
#include "bridge/natslink.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seams.h"
#include "bridge/natscreds.h"
#include "bridge/natsurl.h"

#define CONNECT_MS 3000     /* for one server to answer */
#define PING_MS 10000       /* a connection that is silent for three of these is dead */
#define BACKOFF_MS_MIN 100  /* the first wait between rounds over all servers */
#define BACKOFF_MS_MAX 5000 /* the last */
#define BACKOFF_DOUBLINGS 6 /* 100 << 6 > 5000 */
#define RECONNECTS_FOR_EVER (-1)
#define WRITE_MS 10000 /* for the network to take what is written */
#define NAME_MAX_BYTES 4096

struct natslink {
    struct natslink_options options; /* copies, in `arena` */
    struct natsurl url;
    struct natscreds creds;
    bool patient;
    struct arena arena;
    natsConnection *connection;
    jsCtx *jetstream;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool closing;        /* natslink_close was called */
    bool closed;         /* the connection is: by natslink_close, or it was lost */
    bool over;           /* and everybody was told: nothing follows */
    char violation[256]; /* what the server forbade, until natslink_fail has said it; "": nothing */
};

/* last_error is what libnats says of a call that failed just before in this thread, without the
 * place in its source that stands before it. */
static const char *last_error(void)
{
    const char *text = nats_GetLastError(NULL);
    const char *end = text && text[0] == '(' ? strstr(text, "): ") : NULL;
    return end ? end + 3 : text ? text : "";
}

/* ---- what libnats tells ---------------------------------------------------------------------- */

/* mark sets a flag (NULL: none) and wakes those who wait; true when the owner is to be told. */
static bool mark(struct natslink *link, bool *flag)
{
    pthread_mutex_lock(&link->lock);
    bool telling = !link->closing;
    if (flag)
        *flag = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    return telling;
}

static void on_connected(natsConnection *connection, void *closure)
{
    struct natslink *link = closure;
    (void)connection;
    if (mark(link, NULL) && link->options.connected)
        link->options.connected(link->options.ctx);
}

static void on_disconnected(natsConnection *connection, void *closure)
{
    struct natslink *link = closure;
    (void)connection;
    if (mark(link, NULL) && link->options.disconnected)
        link->options.disconnected(link->options.ctx);
}

/* on_closed is the last callback of a connection.  Whoever waits for `over` may free the link. */
static void on_closed(natsConnection *connection, void *closure)
{
    struct natslink *link = closure;
    (void)connection;
    if (mark(link, &link->closed) && link->options.lost)
        link->options.lost(link->options.ctx);
    mark(link, &link->over);
}

/* on_error keeps what a server forbids: the answer to a request that it drops is silence. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status,
                     void *closure)
{
    struct natslink *link = closure;
    const char *text = NULL;
    (void)subscription;
    natsConnection_GetLastError(connection, &text);
    if (!text || !*text)
        text = natsStatus_GetText(status);
    if (status == NATS_NOT_PERMITTED) {
        pthread_mutex_lock(&link->lock);
        snprintf(link->violation, sizeof(link->violation), "%s", text);
        pthread_mutex_unlock(&link->lock);
    } else if (status != NATS_CONNECTION_AUTH_FAILED) { /* that ends in on_closed */
        log_line(LOG_WARN, "NATS at %s: %s", link->url.place, text);
    }
}

/* backoff says how long to wait before the next round over all servers: twice as long each time,
 * half of it by chance. */
static int64_t backoff(natsConnection *connection, int attempts, void *closure)
{
    int doublings = attempts < BACKOFF_DOUBLINGS ? attempts - 1 : BACKOFF_DOUBLINGS;
    int64_t ms = (int64_t)BACKOFF_MS_MIN << (doublings > 0 ? doublings : 0);
    (void)connection;
    (void)closure;
    ms = ms < BACKOFF_MS_MAX ? ms : BACKOFF_MS_MAX;
    return ms / 2 + (int64_t)(seams_random_u64(seams_real()) % (uint64_t)(ms / 2 + 1));
}

/* ---- options --------------------------------------------------------------------------------- */

/* copy_text replaces a text by a copy in the arena. */
static bool copy_text(struct arena *arena, const char **text)
{
    if (!*text)
        return true;
    *text = arena_dup(arena, slice_of(*text)).ptr;
    return *text != NULL;
}

/* quote_name makes the name of the connection one that libnats can say. */
static enum status quote_name(struct natslink *link, struct err *err)
{
    struct buf name;
    buf_init(&name, NAME_MAX_BYTES);
    natsurl_quote(slice_of(link->options.name), &name);
    link->options.name = arena_dup(&link->arena, buf_slice(&name)).ptr;
    enum status status = buf_status(&name, err);
    buf_release(&name);
    return !status && !link->options.name ? err_no_memory(err) : status;
}

static enum status copy_options(struct natslink *link, const struct natslink_options *options,
                                struct err *err)
{
    struct natslink_options *o = &link->options;
    const char **texts[] = {&o->url,  &o->user,   &o->password, &o->token,   &o->creds,
                            &o->nkey, &o->tls_ca, &o->tls_cert, &o->tls_key, &o->name};
    *o = *options;
    if (!o->url)
        o->url = "";
    if (!o->name)
        o->name = "lazaret";
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (!copy_text(&link->arena, texts[i]))
            return err_no_memory(err);
    return quote_name(link, err);
}

static enum status check_options(const struct natslink *link, struct err *err)
{
    const struct natslink_options *o = &link->options;
    if ((o->user != NULL) + (o->token != NULL) + (o->creds != NULL) + (o->nkey != NULL) > 1)
        return err_set(err, STATUS_INVALID,
                       "give NATS one kind of credentials: a user with a password, a token, a "
                       "credentials file or an nkey");
    if (!o->user != !o->password)
        return err_set(err, STATUS_INVALID,
                       "a user of NATS and a password belong together: %s is "
                       "missing",
                       o->user ? "the password" : "the user");
    if (!o->tls_cert != !o->tls_key)
        return err_set(err, STATUS_INVALID,
                       "a TLS certificate for NATS and its key belong together: the %s is missing",
                       o->tls_cert ? "key" : "certificate");
    return STATUS_OK;
}

/* wrong_file is STATUS_INVALID for a file of TLS that OpenSSL does not take. */
static enum status wrong_file(natsStatus s, const char *what, const char *path, struct err *err)
{
    if (s == NATS_OK)
        return STATUS_OK;
    if (s == NATS_NO_MEMORY)
        return err_no_memory(err);
    return err_set(err, STATUS_INVALID, "%s: cannot be used as %s for NATS: %s", path, what,
                   last_error());
}

/* uses_tls says that the connection is asked to be encrypted; a server may still insist on it. */
static bool uses_tls(const struct natslink *link)
{
    const struct natslink_options *o = &link->options;
    return o->tls || link->url.tls || o->tls_ca || o->tls_cert;
}

static enum status set_tls(const struct natslink *link, natsOptions *out, struct err *err)
{
    const struct natslink_options *o = &link->options;
    enum status status = STATUS_OK;
    if (!uses_tls(link))
        return STATUS_OK;
    if (natsOptions_SetSecure(out, true) != NATS_OK)
        return err_no_memory(err);
    if (o->tls_ca)
        status = wrong_file(natsOptions_LoadCATrustedCertificates(out, o->tls_ca),
                            "the certificates of authorities", o->tls_ca, err);
    if (!status && o->tls_cert)
        status = wrong_file(natsOptions_LoadCertificatesChain(out, o->tls_cert, o->tls_key),
                            "a certificate with its key", o->tls_cert, err);
    return status;
}

/* set_deadline sets one for writing: else who publishes into a network that has gone silent waits
 * in the kernel, holding the connection's lock, and all who look at the connection wait, too.  It
 * makes the socket non-blocking, on which libnats 3.4.1 turns in circles as soon as TLS waits for
 * something to read: so not with TLS. */
static natsStatus set_deadline(const struct natslink *link, natsOptions *out)
{
    return uses_tls(link) ? NATS_OK : natsOptions_SetWriteDeadline(out, WRITE_MS);
}

static natsStatus set_manners(struct natslink *link, natsOptions *out)
{
    natsStatus s = natsOptions_SetServers(out, link->url.servers, link->url.count);
    if (s == NATS_OK)
        s = natsOptions_SetName(out, link->options.name);
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(out, CONNECT_MS);
    if (s == NATS_OK)
        s = natsOptions_SetPingInterval(out, PING_MS);
    if (s == NATS_OK)
        s = natsOptions_SetMaxReconnect(out, RECONNECTS_FOR_EVER);
    if (s == NATS_OK)
        s = natsOptions_SetCustomReconnectDelay(out, backoff, NULL);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectBufSize(out, 0); /* a publish without a connection fails */
    if (s == NATS_OK)
        s = natsOptions_SetFailRequestsOnDisconnect(out, true);
    if (s == NATS_OK)
        s = set_deadline(link, out);
    return s;
}

static natsStatus set_callbacks(struct natslink *link, natsOptions *out)
{
    natsStatus s = natsOptions_SetDisconnectedCB(out, on_disconnected, link);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectedCB(out, on_connected, link);
    if (s == NATS_OK)
        s = natsOptions_SetClosedCB(out, on_closed, link);
    if (s == NATS_OK)
        s = natsOptions_SetErrorHandler(out, on_error, link);
    return s;
}

static enum status make_options(struct natslink *link, natsOptions **out, struct err *err)
{
    natsStatus s = natsOptions_Create(out);
    if (s == NATS_OK)
        s = set_manners(link, *out);
    if (s == NATS_OK)
        s = set_callbacks(link, *out);
    if (s != NATS_OK)
        return natslink_fail(link, s, 0, "preparing a connection", err);
    enum status status = set_tls(link, *out, err);
    return status ? status : natscreds_set(&link->creds, &link->options, *out, err);
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* is_away says that a server may only be away for a while, or busy. */
static bool is_away(natsStatus status)
{
    switch (status) {
    case NATS_NO_SERVER:
    case NATS_IO_ERROR:
    case NATS_TIMEOUT:
    case NATS_CONNECTION_CLOSED:
    case NATS_ERR:
        return true;
    default:
        return false;
    }
}

static enum status connect_failed(struct natslink *link, natsStatus s, struct err *err)
{
    const char *place = link->url.place, *why = last_error();
    const struct natslink_options *o = &link->options;
    bool shown = o->user || o->token || o->creds || o->nkey || link->url.secret;
    switch (s) {
    case NATS_CONNECTION_AUTH_FAILED:
        if (shown)
            return err_set(err, STATUS_REFUSED,
                           "NATS at %s does not accept the credentials (%s): check them, and that "
                           "the server knows them",
                           place, why);
        return err_set(err, STATUS_REFUSED,
                       "NATS at %s wants credentials: give it a user and a password, a token, an "
                       "nkey or a credentials file",
                       place);
    case NATS_SECURE_CONNECTION_WANTED:
        return err_set(err, STATUS_UNAVAILABLE,
                       "NATS at %s does not speak TLS: connect without it (nats://), or turn it on "
                       "there",
                       place);
    case NATS_SSL_ERROR:
        return err_set(err, STATUS_UNAVAILABLE,
                       "TLS with NATS at %s does not come about: %s; name the authority that "
                       "signed its certificate, and its host as the certificate does",
                       place, why);
    case NATS_PROTOCOL_ERROR:
        return err_set(err, STATUS_UNAVAILABLE,
                       "who answers at %s does not speak the protocol of NATS: check host and port",
                       place);
    default:
        if (is_away(s))
            return err_set(err, STATUS_UNAVAILABLE,
                           "NATS cannot be reached at %s: is it running, and are host and port "
                           "right?",
                           place);
        return natslink_fail(link, s, 0, "connecting", err);
    }
}

/* try_connect makes the connection, and when that fails and the caller is patient one that libnats
 * goes on trying. */
static enum status try_connect(struct natslink *link, natsOptions *options, struct err *err)
{
    natsStatus s = natsConnection_Connect(&link->connection, options);
    if (is_away(s) && link->patient) {
        s = natsOptions_SetRetryOnFailedConnect(options, true, on_connected, link);
        if (s == NATS_OK)
            s = natsConnection_Connect(&link->connection, options);
        if (s == NATS_NOT_YET_CONNECTED)
            s = NATS_OK;
    }
    return s == NATS_OK ? STATUS_OK : connect_failed(link, s, err);
}

/* drop closes the connection and waits until libnats has told so: then no callback follows. */
static void drop(struct natslink *link)
{
    if (link->connection) {
        natsConnection_Close(link->connection);
        pthread_mutex_lock(&link->lock);
        while (!link->over)
            pthread_cond_wait(&link->changed, &link->lock);
        pthread_mutex_unlock(&link->lock);
    }
    jsCtx_Destroy(link->jetstream);
    natsConnection_Destroy(link->connection);
    link->jetstream = NULL;
    link->connection = NULL;
}

static enum status connect_link(struct natslink *link, struct err *err)
{
    natsOptions *options = NULL;
    enum status status = make_options(link, &options, err);
    link->closed = link->over = false;
    if (!status)
        status = try_connect(link, options, err);
    natsOptions_Destroy(options);
    if (!status) {
        natsStatus s = natsConnection_JetStream(&link->jetstream, link->connection, NULL);
        if (s != NATS_OK)
            status = natslink_fail(link, s, 0, "preparing JetStream", err);
    }
    return status;
}

enum status natslink_open(const struct natslink_options *options, bool patient,
                          struct natslink **out, struct err *err)
{
    struct natslink *link = mem_zalloc(sizeof(*link));
    if (!link)
        return err_no_memory(err);
    pthread_mutex_init(&link->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&link->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    link->patient = patient;
    enum status status = copy_options(link, options, err);
    if (!status)
        status = natsurl_read(link->options.url, &link->arena, &link->url, err);
    if (!status)
        status = check_options(link, err);
    if (!status)
        status = connect_link(link, err);
    if (status) {
        natslink_close(link);
        return status;
    }
    *out = link;
    return STATUS_OK;
}

void natslink_close(struct natslink *link)
{
    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_mutex_unlock(&link->lock);
    drop(link);
    natscreds_release(&link->creds);
    arena_release(&link->arena);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    mem_free(link);
}

enum status natslink_renew(struct natslink *link, struct err *err)
{
    if (!natslink_lost(link))
        return STATUS_OK;
    drop(link);
    link->patient = true;
    enum status status = connect_link(link, err);
    if (status) {
        drop(link);
        link->closed = true; /* still lost */
    }
    return status;
}

/* ---- what it is ------------------------------------------------------------------------------ */

bool natslink_connected(struct natslink *link)
{
    return natsConnection_Status(link->connection) == NATS_CONN_STATUS_CONNECTED;
}

bool natslink_lost(struct natslink *link)
{
    pthread_mutex_lock(&link->lock);
    bool lost = link->closed;
    pthread_mutex_unlock(&link->lock);
    return lost;
}

bool natslink_wait(struct natslink *link, unsigned ms)
{
    struct timespec until;
    bool connected;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&link->lock);
    while (!(connected = natslink_connected(link)) && !link->closed)
        if (pthread_cond_timedwait(&link->changed, &link->lock, &until) != 0)
            break;
    pthread_mutex_unlock(&link->lock);
    return connected;
}

natsConnection *natslink_connection(struct natslink *link)
{
    return link->connection;
}

jsCtx *natslink_jetstream(struct natslink *link)
{
    return link->jetstream;
}

const char *natslink_place(const struct natslink *link)
{
    return link->url.place;
}

/* ---- what went wrong ------------------------------------------------------------------------- */

/* take_violation moves what the server forbade into `out`; false when there is nothing. */
static bool take_violation(struct natslink *link, char out[sizeof(link->violation)])
{
    pthread_mutex_lock(&link->lock);
    memcpy(out, link->violation, sizeof(link->violation));
    link->violation[0] = '\0';
    pthread_mutex_unlock(&link->lock);
    return out[0] != '\0';
}

static enum status no_stream(const struct natslink *link, const char *doing, struct err *err)
{
    return err_set(err, STATUS_UNAVAILABLE,
                   "%s: no stream of NATS at %s takes it: turn JetStream on there, and let "
                   "\"lazaret serve --nats\" make the stream",
                   doing, link->url.place);
}

enum status natslink_fail(struct natslink *link, natsStatus status, jsErrCode code,
                          const char *doing, struct err *err)
{
    char violation[sizeof(link->violation)];
    const char *place = link->url.place, *why = last_error();
    if (status == NATS_NO_MEMORY)
        return err_no_memory(err);
    if (status == NATS_MAX_PAYLOAD || code == JSStreamMessageExceedsMaximumErr)
        return err_set(err, STATUS_TOO_LARGE, "%s: the message is larger than NATS at %s takes: %s",
                       doing, place, why);
    if (status == NATS_NO_RESPONDERS || code == JSNotEnabledErr ||
        code == JSNotEnabledForAccountErr || code == JSStreamNotFoundErr)
        return no_stream(link, doing, err);
    if ((status == NATS_TIMEOUT || status == NATS_NOT_PERMITTED) && take_violation(link, violation))
        return err_set(err, STATUS_REFUSED, "%s: NATS at %s forbids it: %s", doing, place,
                       violation);
    if (status == NATS_TIMEOUT)
        return err_set(err, STATUS_UNAVAILABLE,
                       "%s: NATS at %s did not answer in time; whether it was done is not known",
                       doing, place);
    if (!natslink_connected(link) || status == NATS_INSUFFICIENT_BUFFER)
        return err_set(err, STATUS_UNAVAILABLE, "%s: there is no connection to NATS at %s", doing,
                       place);
    return err_set(err, STATUS_UNAVAILABLE, "%s: NATS at %s: %s", doing, place,
                   *why ? why : natsStatus_GetText(status));
}
