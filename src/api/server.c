/* server.c: requests from the network to the API, and answers back.
 *
 *     begin    gate: who asks.  What may not come in, or has no route, is answered without its body
 *     request  api_run_step --+-- done: answer
 *                ^            +-- engine: hold, submit .. wake: resume --+
 *                |            +-- slow: hold, a thread of the pool ......+
 *                |            `-- events: a stream of the hub            |
 *                +------------------------------------------------------+
 *     end      count, log, give back what was not delivered, free
 *
 * A ticket is one exchange's state.  It belongs to its network thread, except while it is held:
 * then to whoever will resume it.  Tickets whose lease waits for a job are listed, so that a drain
 * can end their waits. */
#include "api/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/gate.h"
#include "api/meter.h"
#include "api/pool.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/event.h"

#define SLOW_THREADS 4
#define SLOW_WAITING 64
#define ID_SIZE 65 /* of a request id, with its NUL */
#define STOP_WITHIN span_seconds(2)

struct server {
    struct server_config config;
    struct http *http;
    struct pool *pool;
    uint32_t id_prefix;
    atomic_uint_fast64_t id_next;
    atomic_bool draining;
    atomic_int in_flight; /* tickets */

    pthread_mutex_t lock;
    struct ticket *waiting; /* leases that wait for a job */
};

struct ticket {
    struct server *server;
    struct http_exchange *exchange;
    char id[ID_SIZE];
    struct visit visit;
    int route;
    struct api_request request;
    struct api_answer answer;
    struct api_run *run;
    bool admitted; /* the gate let it in */
    bool slow;     /* the pool has filled the answer */
    bool waits;    /* in server->waiting */
    int status;    /* that was answered; 0: none */
    size_t bytes_out;
    struct hub_stream *stream;
    struct ticket *next, *previous; /* of server->waiting */
};

/* whole_number reads a whole number, as JSON writes one. */
static bool whole_number(struct slice text, int64_t *out)
{
    struct json value;
    return json_parse(text, &value, NULL) == STATUS_OK && json_int(value, out);
}

/* ---- answering ------------------------------------------------------------------------------- */

/* struct fields: the headers of an answer. */
struct fields {
    struct http_field list[12];
    size_t count;
    char cursor[24], retry_after[24];
};

static void put(struct fields *fields, const char *name, const char *value)
{
    BUG_ON(fields->count + 1 >= sizeof(fields->list) / sizeof(fields->list[0]));
    fields->list[fields->count++] = (struct http_field){name, value};
}

static void put_number(struct fields *fields, const char *name, int64_t value, char text[24])
{
    if (!value)
        return;
    snprintf(text, 24, "%" PRId64, value);
    put(fields, name, text);
}

static void fill_fields(struct fields *fields, const struct ticket *ticket)
{
    const struct api_answer *answer = &ticket->answer;
    *fields = (struct fields){0};
    put(fields, "Content-Type", answer->content_type ? answer->content_type : "application/json");
    put(fields, "X-Request-Id", ticket->id);
    put(fields, "Cache-Control", "no-store");
    put(fields, "X-Content-Type-Options", "nosniff");
    put(fields, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    put_number(fields, "X-Next-Cursor", answer->cursor, fields->cursor);
    put_number(fields, "Retry-After", answer->retry_after_s, fields->retry_after);
    if (answer->allow)
        put(fields, "Allow", answer->allow);
    if (answer->status == 401)
        put(fields, "WWW-Authenticate", "Bearer realm=\"lazaret\"");
}

/* answer sends what the ticket's answer says.  Jobs are not handed to a client that has left. */
static void answer(struct ticket *ticket)
{
    struct fields fields;
    if (ticket->run && api_run_leased(ticket->run) && !http_present(ticket->exchange)) {
        http_drop(ticket->exchange);
        return;
    }
    fill_fields(&fields, ticket);
    ticket->status = ticket->answer.status;
    ticket->bytes_out = ticket->answer.body.len;
    http_answer(ticket->exchange, ticket->answer.status, fields.list, &ticket->answer.body);
}

static void refuse(struct ticket *ticket, int status, const char *code, const char *sentence)
{
    api_answer_error(&ticket->answer, status, code, "%s", sentence);
    answer(ticket);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void list_waiting(struct ticket *ticket)
{
    struct server *server = ticket->server;
    pthread_mutex_lock(&server->lock);
    ticket->waits = true;
    ticket->previous = NULL;
    ticket->next = server->waiting;
    if (ticket->next)
        ticket->next->previous = ticket;
    server->waiting = ticket;
    pthread_mutex_unlock(&server->lock);
}

static void unlist_waiting(struct ticket *ticket)
{
    struct server *server = ticket->server;
    if (!ticket->waits)
        return;
    pthread_mutex_lock(&server->lock);
    ticket->waits = false;
    if (ticket->next)
        ticket->next->previous = ticket->previous;
    if (ticket->previous)
        ticket->previous->next = ticket->next;
    else
        server->waiting = ticket->next;
    pthread_mutex_unlock(&server->lock);
}

/* end_waits has every waiting lease answered. */
static void end_waits(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    for (struct ticket *ticket = server->waiting; ticket; ticket = ticket->next)
        api_run_abandon(ticket->run);
    pthread_mutex_unlock(&server->lock);
}

/* ---- the event stream ------------------------------------------------------------------------ */

static void wake_stream(void *ctx)
{
    http_stream_wake(ctx);
}

/* read_stream takes events for the stream's reader, who may have lost the right to see them. */
static long read_stream(void *own, char *out, size_t max)
{
    struct ticket *ticket = own;
    if (!gate_still(ticket->server->config.tokens, ticket->exchange, &ticket->visit))
        return -1;
    return hub_read(ticket->stream, out, max);
}

/* stream_after reads where the stream begins: Last-Event-ID, else ?after=; -1: with what comes. */
static bool stream_after(struct ticket *ticket, int64_t *after)
{
    struct slice text = http_header(ticket->exchange, "Last-Event-ID");
    *after = -1;
    if (text.len == 0)
        text = api_run_param(ticket->run, "after");
    if (text.len == 0)
        return true;
    return whole_number(text, after) && *after >= 0;
}

static void open_stream(struct ticket *ticket)
{
    struct server *server = ticket->server;
    struct hub_config config = {.masked = ticket->visit.role < ROLE_REVIEWER,
                                .what = api_run_param(ticket->run, "what"),
                                .wake = wake_stream,
                                .ctx = ticket->exchange};
    if (!stream_after(ticket, &config.after)) {
        refuse(ticket, 400, "invalid", "after: must be the number of an event");
        return;
    }
    if (config.what.len && !event_known(config.what)) {
        refuse(ticket, 400, "invalid", "what: is no kind of event, such as dead-lettered");
        return;
    }
    if (server->config.hub && !atomic_load(&server->draining))
        ticket->stream = hub_join(server->config.hub, &config);
    if (!ticket->stream) {
        ticket->answer.retry_after_s = 1;
        refuse(ticket, 503, "unavailable",
               server->config.hub ? "too many event streams are open"
                                  : "events are streamed by \"lazaret serve\" only");
        return;
    }
    struct fields fields;
    ticket->answer.content_type = "text/event-stream";
    fill_fields(&fields, ticket);
    ticket->status = 200;
    if (server->config.api->meter)
        meter_streams(server->config.api->meter, 1);
    http_stream(ticket->exchange, fields.list, read_stream, ticket);
}

/* ---- carrying out ---------------------------------------------------------------------------- */

static void wake(void *ctx)
{
    http_resume(ctx);
}

static void run_slow(void *arg)
{
    struct ticket *ticket = arg;
    api_run_block(ticket->run);
    ticket->slow = true;
    http_resume(ticket->exchange);
}

static void hand_to_engine(struct ticket *ticket)
{
    bool waits = api_run_waits(ticket->run);
    http_hold(ticket->exchange, waits);
    if (waits)
        list_waiting(ticket);
    api_run_submit(ticket->run, wake, ticket->exchange);
}

/* hand_to_pool gives the request a thread.  It is held first: the pool may be done at once. */
static void hand_to_pool(struct ticket *ticket)
{
    http_hold(ticket->exchange, false);
    if (pool_run(ticket->server->pool, run_slow, ticket))
        return;
    api_answer_error(&ticket->answer, 503, "unavailable",
                     "too many slow requests are being served");
    ticket->answer.retry_after_s = 1;
    ticket->slow = true;
    http_resume(ticket->exchange);
}

static void step(struct ticket *ticket)
{
    switch (api_run_step(ticket->run)) {
    case API_DONE:
        answer(ticket);
        break;
    case API_ENGINE:
        hand_to_engine(ticket);
        break;
    case API_SLOW:
        hand_to_pool(ticket);
        break;
    case API_EVENTS:
        open_stream(ticket);
        break;
    }
}

/* start_run makes the request of what the head said, with the body that was read so far. */
static bool start_run(struct ticket *ticket)
{
    const struct http_exchange *exchange = ticket->exchange;
    const char *method = http_method(exchange);
    ticket->request = (struct api_request){
        .method = strcmp(method, "HEAD") == 0 ? "GET" : method,
        .path = http_path(exchange),
        .query = http_query(exchange),
        .body = http_body(exchange),
        .content_type = http_header(exchange, "Content-Type"),
        .actor = slice_of(ticket->visit.actor),
        .role = ticket->visit.role,
        .actor_proven = ticket->visit.proven,
    };
    ticket->run = api_run_new(ticket->server->config.api, &ticket->request, &ticket->answer);
    return ticket->run != NULL;
}

/* ---- an exchange ----------------------------------------------------------------------------- */

/* name_request takes the client's request id, when it is a short plain word, or makes one. */
static void name_request(struct ticket *ticket)
{
    struct server *server = ticket->server;
    struct slice given = http_header(ticket->exchange, "X-Request-Id");
    bool plain = given.len > 0 && given.len < ID_SIZE;
    for (size_t i = 0; plain && i < given.len; i++)
        plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
                       given.ptr[i]) != NULL;
    if (plain)
        snprintf(ticket->id, ID_SIZE, "%.*s", SLICE_ARG(given));
    else
        snprintf(ticket->id, ID_SIZE, "%08" PRIx32 "-%" PRIx64, server->id_prefix,
                 (uint64_t)atomic_fetch_add(&server->id_next, 1));
}

/* admit lets a request in, or answers why not.  The body is not needed, and not read, for that. */
static void admit(struct ticket *ticket)
{
    struct server *server = ticket->server;
    struct http_exchange *exchange = ticket->exchange;
    struct refusal refusal = gate_enter(server->config.tokens, exchange, &ticket->visit);
    bool open = ticket->route >= 0 && api_route_role(ticket->route) == ROLE_NONE;
    if (atomic_load(&server->draining) && !http_local(exchange)) {
        ticket->answer.retry_after_s = 1;
        refuse(ticket, 503, "unavailable", "the server is stopping");
    } else if (refusal.status && !open) {
        refuse(ticket, refusal.status, refusal.code, refusal.sentence);
    } else if (ticket->route < 0 || ticket->visit.role < api_route_role(ticket->route)) {
        /* The table finds the words for it. */
        if (start_run(ticket))
            step(ticket);
        else
            http_drop(exchange);
    } else {
        ticket->admitted = true;
    }
}

static void on_begin(void *ctx, struct http_exchange *exchange)
{
    struct server *server = ctx;
    struct ticket *ticket = mem_zalloc(sizeof(*ticket));
    http_set(exchange, ticket);
    if (!ticket) {
        http_drop(exchange);
        return;
    }
    atomic_fetch_add(&server->in_flight, 1);
    ticket->server = server;
    ticket->exchange = exchange;
    api_answer_init(&ticket->answer);
    name_request(ticket);
    const char *method = http_method(exchange);
    ticket->route =
        api_route_find(strcmp(method, "HEAD") == 0 ? "GET" : method, http_path(exchange));
    /* Without a body the answer can wait until the request is whole, which keeps the connection. */
    if (http_has_body(exchange))
        admit(ticket);
}

static void on_request(void *ctx, struct http_exchange *exchange)
{
    (void)ctx;
    struct ticket *ticket = http_get(exchange);
    if (!ticket) {
        http_drop(exchange);
        return;
    }
    bool waited = ticket->waits;
    unlist_waiting(ticket);
    if (waited && !gate_still(ticket->server->config.tokens, exchange, &ticket->visit)) {
        api_run_undelivered(ticket->run);
        refuse(ticket, 401, "unauthorized", "the token is unknown, revoked or expired");
        return;
    }
    if (!ticket->admitted)
        admit(ticket);
    if (!ticket->admitted)
        return;
    if (!ticket->run && !start_run(ticket))
        refuse(ticket, 503, "no_memory", "out of memory");
    else if (ticket->slow)
        answer(ticket);
    else
        step(ticket);
}

static void on_gone(void *ctx, struct http_exchange *exchange)
{
    (void)ctx;
    const struct ticket *ticket = http_get(exchange);
    api_run_abandon(ticket->run);
}

static void record(const struct ticket *ticket)
{
    const struct server *server = ticket->server;
    struct http_exchange *exchange = ticket->exchange;
    struct span took = http_since(exchange);
    const char *pattern = api_route_pattern(ticket->route);
    if (server->config.api->meter && ticket->status)
        meter_request(server->config.api->meter, ticket->route, ticket->status, took);
    if (!server->config.accesslog)
        return;
    struct access access = {.id = slice_of(ticket->id),
                            .peer = http_peer(exchange),
                            .actor = slice_of(ticket->visit.actor),
                            .role = role_name(ticket->visit.role),
                            .method = http_method(exchange),
                            .path = http_path(exchange),
                            .query = http_query(exchange),
                            .route = pattern ? pattern : "none",
                            .status = ticket->status,
                            .bytes_in = http_body(exchange).len,
                            .bytes_out = ticket->bytes_out,
                            .took = took};
    accesslog_add(server->config.accesslog, &access);
}

static void on_end(void *ctx, struct http_exchange *exchange, bool delivered)
{
    struct server *server = ctx;
    struct ticket *ticket = http_get(exchange);
    if (!ticket)
        return;
    unlist_waiting(ticket);
    /* A client that is seen to leave when its exchange is resumed ends it before a step. */
    if (ticket->run && !delivered)
        api_run_undelivered(ticket->run);
    if (ticket->stream) {
        hub_leave(ticket->stream);
        if (server->config.api->meter)
            meter_streams(server->config.api->meter, -1);
    }
    record(ticket);
    api_run_free(ticket->run);
    api_answer_release(&ticket->answer);
    mem_free(ticket);
    atomic_fetch_sub(&server->in_flight, 1);
}

static void on_connections(void *ctx, int change)
{
    struct server *server = ctx;
    if (server->config.api->meter)
        meter_connections(server->config.api->meter, change);
}

/* ---- life ------------------------------------------------------------------------------------ */

enum status server_start(const struct server_config *config, struct server **out, struct err *err)
{
    struct server *server = mem_zalloc(sizeof(*server));
    struct pool *pool = pool_new(SLOW_THREADS, SLOW_WAITING);
    if (!server || !pool) {
        mem_free(server);
        pool_free(pool);
        close(config->listen_fd);
        return err_no_memory(err);
    }
    server->config = *config;
    server->pool = pool;
    pthread_mutex_init(&server->lock, NULL);
    server->id_prefix = (uint32_t)seams_random_u64(seams_real());
    struct http_config http = {.listen_fd = config->listen_fd,
                               .local = config->local,
                               .threads = config->threads,
                               .limits = config->limits,
                               .tls_certificate = config->tls_certificate,
                               .tls_key = config->tls_key,
                               .handler = {.begin = on_begin,
                                           .request = on_request,
                                           .gone = on_gone,
                                           .end = on_end,
                                           .connections = on_connections,
                                           .ctx = server}};
    enum status status = http_start(&http, &server->http, err);
    if (status) {
        pool_free(pool);
        pthread_mutex_destroy(&server->lock);
        mem_free(server);
        return status;
    }
    *out = server;
    return STATUS_OK;
}

void server_drain(struct server *server, struct span within)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    struct span until = seams_real()->steady(NULL);
    until.us += within.us;
    atomic_store(&server->draining, true);
    http_drain(server->http);
    if (server->config.hub)
        hub_end(server->config.hub);
    /* A lease that came in just before the drain may begin to wait after it: hence the loop. */
    do {
        end_waits(server);
        if (atomic_load(&server->in_flight) == 0 &&
            !(server->config.local && http_busy(server->http)))
            return;
        nanosleep(&pause, NULL);
    } while (seams_real()->steady(NULL).us < until.us);
    log_line(LOG_WARN, "%d requests were not finished in time", atomic_load(&server->in_flight));
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    server_drain(server, STOP_WITHIN);
    /* Slow requests must be resumed before the network ends. */
    pool_free(server->pool);
    http_stop(server->http);
    pthread_mutex_destroy(&server->lock);
    mem_free(server);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* split_address cuts "HOST:PORT" or "[HOST]:PORT". */
static enum status split_address(const char *address, char host[64], char port[8], struct err *err)
{
    const char *colon = strrchr(address, ':');
    size_t host_len = colon ? (size_t)(colon - address) : 0;
    const char *begin = address;
    if (host_len >= 2 && address[0] == '[' && colon[-1] == ']') {
        begin++;
        host_len -= 2;
    }
    int64_t number;
    if (!colon || host_len == 0 || host_len >= 64 || strlen(colon + 1) >= 8 ||
        !whole_number(slice_of(colon + 1), &number) || number < 0 || number > 65535 ||
        (begin == address && memchr(begin, ':', host_len)))
        return err_set(err, STATUS_INVALID,
                       "%.100s is no address: give HOST:PORT, such as 127.0.0.1:8700 or [::1]:8700",
                       address);
    memcpy(host, begin, host_len);
    host[host_len] = '\0';
    snprintf(port, 8, "%s", colon + 1);
    return STATUS_OK;
}

static int open_socket(const struct addrinfo *info)
{
    int on = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

void server_describe(int fd, bool tls, char url[SERVER_URL_SIZE], bool *loopback)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    char host[64] = "", port[8] = "";
    getsockname(fd, (struct sockaddr *)&address, &len);
    getnameinfo((const struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = address.ss_family == AF_INET6;
    snprintf(url, SERVER_URL_SIZE, six ? "%s://[%s]:%s" : "%s://%s:%s", tls ? "https" : "http",
             host, port);
    *loopback = address.ss_family == AF_UNIX || strcmp(host, "::1") == 0 ||
                (!six && strncmp(host, "127.", 4) == 0);
}

enum status server_listen(const char *address, bool tls, int *fd, char url[SERVER_URL_SIZE],
                          bool *loopback, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    char host[64], port[8];
    enum status status = split_address(address, host, port, err);
    if (status)
        return status;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error)
        return err_set(err, STATUS_INVALID, "%s cannot be listened on: %s", address,
                       gai_strerror(error));
    *fd = open_socket(found);
    freeaddrinfo(found);
    if (*fd < 0)
        return err_set(err, STATUS_UNAVAILABLE, "%s cannot be listened on: %s", address,
                       strerror(errno));
    server_describe(*fd, tls, url, loopback);
    return STATUS_OK;
}
